"""Sums of numbers are as private as they say: exact losses over all neighbouring small tables, at the ends of bins.

What a record does to each of the four parts is read off the values that a source of noise is given. Noise of scale b
in a norm has the law `P(z) ~ exp(-||z - value|| / b)`, so that the largest log ratio of two data sets is the distance
of their values in that norm over b; parts are independent given the tables, and their losses add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import discreet as dc
from discreet.mechanisms.noise import deviation_for
from discreet.mechanisms.numbers import PARTS, _draw_numbers, _scale_moment, default_share
from discreet.model.number_grid import STEPS, NumberGrid, number_grids
from discreet.noise.star import star_length
from discreet.records.record_files import Blocks
from discreet.records.records import Records
from discreet.releases.kinds.noisy_tables import NoisyTables
from discreet.releases.kinds.number_tables import (
    MOMENT_STEPS,
    NumberNoise,
    NumberParts,
    NumberTables,
    leaves_for,
    moment_names,
    moment_reach,
    row_scopes,
)
from discreet.releases.kinds.tables_with_pairs import NoiseWithPairs
from flawed import ADD_REMOVE, REPLACE, promise
from folding import every
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

SEX = dc.Variable("sex", ("f", "m"))
X = dc.Variable("x", bounds=(-2, 2), bins=(-1, 1), missing="none")
"""Like its own mirror image, so that products reach either end; the middle bin is the widest."""
N = dc.Variable("n", bounds=(0, 9), bins=(3,), type="integer", missing="none")
NETWORK = dc.Network((SEX, X, N), {"sex": (), "x": ("sex",), "n": ("x",)})
ONE = dc.Network((dc.Variable("x", bounds=(-2, 2), bins=(0,)),), {"x": ()})
"""One column of two bins."""
ALIKE = dc.Network(
    (dc.Variable("x", bounds=(-1, 1), bins=(0,)), dc.Variable("z", bounds=(-5, 5), bins=(0,))), {"x": (), "z": ("x",)}
)
"""Two columns that are their own mirror images."""

Data = tuple[tuple[Any, ...], ...]
NUMBERS: dict[str, tuple[Any, ...]] = {
    "sex": ("f", "m"),
    "x": (-1e300, -2.0, -1.0000000000000002, -1.0, 0.99999999, 1.0, 2.0, 1e308, 0.3, None),
    "n": (-7, 0, 2, 3, 9, 10**9, None),
    "z": (-5.0, -1e-9, 0.0, 7.0),
}


def records_of(network: dc.Network, most: int = 10**9) -> list[tuple[Any, ...]]:
    """Records of numbers at the ends of bins, out of bounds, in between and missing; of many evenly some."""
    pools = []
    for variable in network.variables:
        pool = NUMBERS[variable.name]
        pools.append(pool if variable.missing else [value for value in pool if value is not None])
    found = list(product(*pools))
    return found[:: max(1, len(found) // most)] if len(found) > most else found


@cache
def opened(network: dc.Network) -> Records:
    """An empty table, opened once: an engine takes longer than all that is counted here."""
    missing = "keep" if any(variable.missing for variable in network.variables) else "error"
    return dc.read_records(table_of(network, ()), network.schema, missing=missing, out_of_bounds="clip")


def table_of(network: dc.Network, data: Data) -> pa.Table:
    kinds = {"sex": pa.string(), "n": pa.int64()}
    return pa.table(
        {
            variable.name: pa.array([record[at] for record in data], kinds.get(variable.name, pa.float64()))
            for at, variable in enumerate(network.variables)
        }
    )


@cache
def counted(network: dc.Network, data: Data) -> dc.results.Counts:
    """Counts and sums of records by the way that files take."""
    empty, table = opened(network), table_of(network, data)
    assert empty.local is not None

    def blocks(names: Sequence[str]) -> Blocks:
        columns = table.select(list(names))
        return Blocks(columns.schema, lambda: iter(columns.to_batches()))

    return dc.count(replace(empty, local=replace(empty.local, blocks=blocks)), network)


def neighbours(
    network: dc.Network, relation: dc.Relation, most: int, rests: Sequence[Data]
) -> Iterator[tuple[Data, Data]]:
    """Pairs of data sets that share some records."""
    records = records_of(network, most)
    for rest in rests:
        if relation is ADD_REMOVE:
            yield from ((rest, (*rest, record)) for record in records)
        else:
            yield from (((*rest, one), (*rest, other)) for one, other in combinations(records, 2))


def forget() -> None:
    """Keep no data set of random numbers."""
    counted.cache_clear()
    _ask.cache_clear()


@dataclass
class Kept:
    """A source of noise that keeps what it is given, and answers alike whatever that is.

    Args:
        answer: to every number; much, so that rulers have all their leaves.
    """

    answer: int = 10**7
    laplace: list[tuple[np.ndarray, float]] = field(default_factory=list)
    gaussian: list[tuple[np.ndarray, float]] = field(default_factory=list)
    vectors: list[tuple[np.ndarray, float, str]] = field(default_factory=list)
    stars: list[tuple[list[np.ndarray], float]] = field(default_factory=list)

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        self.laplace.append((values.astype(object), scale))
        return np.full(values.shape, self.answer, np.int64)

    def discrete_gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
        self.gaussian.append((values.astype(object), scale))
        return np.full(values.shape, self.answer, np.int64)

    def k_norm(self, values: np.ndarray, scale: float, shape: str) -> np.ndarray:
        self.vectors.append((values.astype(object), scale, shape))
        return np.zeros(values.shape, np.int64)

    def star(self, tables: Sequence[np.ndarray], scale: float) -> list[np.ndarray]:
        self.stars.append(([table.copy() for table in tables], scale))
        # Rows of one block have one sum.
        answers = [np.full(table.shape, self.answer, np.int64) for table in tables]
        for answer in answers:
            answer[:, -1] += answers[0].sum(axis=1) - answer.sum(axis=1)
        return answers

    def concentrated(self, other: Kept) -> Fraction:
        """The zero-concentrated loss of all Gaussian noise (Canonne, Kamath and Steinke, 2020, Theorem 4)."""
        total = Fraction()
        for (u, scale), (v, same) in zip(self.gaussian, other.gaussian, strict=True):
            assert scale == same
            total += Fraction(int(((u - v) ** 2).sum())) / (2 * Fraction(scale) ** 2)
        return total

    def loss(self, other: Kept) -> float:
        """The largest log ratio of the laws of the answers, but for Gaussian noise."""
        total = 0.0
        for (u, scale), (v, same) in zip(self.laplace, other.laplace, strict=True):
            assert scale == same
            total += float(np.abs(u - v).sum()) / scale
        for (u, scale, shape), (v, same, _) in zip(self.vectors, other.vectors, strict=True):
            assert (shape, scale) == ("cube", same)
            total += float(np.abs(u - v).max()) / scale
        for (ours, scale), (theirs, same) in zip(self.stars, other.stars, strict=True):
            assert scale == same
            total += star_length([u - v for u, v in zip(ours, theirs, strict=True)]) / scale
        return total


def first_of(network: dc.Network, records: int) -> NoisyTables:
    """Tables that were released, with so many records."""
    made = dc.planned(numbers_share=0, pairs_share=0)
    counts = counted(network, ())
    empty = dc.simulate(made, counts, dc.Dirichlet.uniform(network), promise(10**4, ADD_REMOVE), rng=1).payload
    assert isinstance(empty, NoisyTables)
    tables = {}
    for scope, table in empty.tables.items():
        flat = np.zeros(table.size, np.int64)
        flat[0] = records
        tables[scope] = flat.reshape(table.shape)
    return replace(empty, tables=tables)


def noise_of(
    network: dc.Network, relation: dc.Relation, epsilon: object = 1, delta: object = 0, **options: Any
) -> NumberNoise:
    mechanism = dc.planned(**options)
    found = mechanism.calibrate(network, dc.Dirichlet.uniform(network), promise(epsilon, relation, delta))
    assert isinstance(found, NumberNoise)
    return found


@dataclass(frozen=True)
class Parts:
    """How far the values of two data sets are apart: of offsets, moments, each sum by rows and each ruler."""

    offsets: int
    moments: int
    rows: tuple[int, ...]
    rulers: tuple[int, ...]


def apart(network: dc.Network, relation: dc.Relation, pair: tuple[Data, Data], records: int = 10**9) -> Parts:
    one, other = (_ask(network, records, relation, data) for data in pair)
    by_rows = len(row_scopes(network))
    flat = [int(np.abs(u - v).sum()) for (u, _), (v, _) in zip(one.laplace, other.laplace, strict=True)]
    vectors = [int(np.abs(u - v).max()) for (u, _, _), (v, _, _) in zip(one.vectors, other.vectors, strict=True)]
    calibration = _of(network, records, relation)[1]
    scales = [calibration.row_scale] * by_rows + [calibration.leaf_scale] * len(number_grids(network))
    assert [scale for _, scale in one.laplace] == scales
    assert [(scale, shape) for _, scale, shape in one.vectors] == [
        (calibration.offset_scale, "cube"),
        (calibration.moment_scale, "cube"),
    ]
    return Parts(vectors[0], vectors[1], tuple(flat[:by_rows]), tuple(flat[by_rows:]))


@cache
def _ask(network: dc.Network, records: int, relation: dc.Relation, data: Data) -> Kept:
    """What noise is asked for beside tables that were released."""
    sums, log = counted(network, data).sums, Kept()
    assert sums is not None
    _draw_numbers(sums, *_of(network, records, relation), log)  # type: ignore[arg-type]
    return log


@cache
def _of(network: dc.Network, records: int, relation: dc.Relation) -> tuple[NoisyTables, NumberNoise]:
    return first_of(network, records), noise_of(network, relation, pairs_share=0)


# ------------------------------------------------------------------------------------------------- what a record does


@every(("network", "most"), [(NETWORK, 35), (ONE, 100), (ALIKE, 40)])
@every("relation", [ADD_REMOVE, REPLACE])
def test_a_record_moves_each_part_by_what_noise_is_for_and_no_less(
    network: dc.Network, most: int, relation: dc.Relation
) -> None:
    moved = 1 if relation is ADD_REMOVE else 2
    limit = Parts(moved * STEPS, moved * MOMENT_STEPS, (moved * STEPS,) * len(row_scopes(network)),
                  (moved,) * len(number_grids(network)))  # fmt: skip
    rests: list[Data] = [(), (records_of(network)[3],) * 2] if relation is ADD_REMOVE else [()]
    found = [apart(network, relation, pair) for pair in neighbours(network, relation, most, rests)]
    assert max(part.offsets for part in found) == limit.offsets
    assert all(part.moments <= limit.moments for part in found)
    if moved == 1 or network is ALIKE:
        assert max(part.moments for part in found) == limit.moments
    for name in ("rows", "rulers"):
        # The interval of a whole number ends half a number before its bin does.
        lowest = [end * (0.85 if name == "rows" else 1) for end in getattr(limit, name)]
        most_moved = tuple(max(column) for column in zip(*(getattr(part, name) for part in found), strict=True))
        assert all(least <= at <= end for at, end, least in zip(most_moved, getattr(limit, name), lowest, strict=True))


@given(seed=st.integers(0, 2**32))
def test_random_numbers_move_no_part_farther(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data: Data = tuple(
        ("fm"[int(rng.integers(2))], float(rng.normal() * 10.0 ** rng.integers(-3, 4)), int(rng.integers(-2, 12)))
        for _ in range(4)
    )
    for relation, pair in ((ADD_REMOVE, (data[:3], data)), (REPLACE, (data[:3], (*data[:2], data[3])))):
        moved = 1 if relation is ADD_REMOVE else 2
        found = apart(NETWORK, relation, pair)
        assert max(found.offsets, *found.rows) <= moved * STEPS
        assert found.moments <= moved * MOMENT_STEPS
        assert max(found.rulers) <= moved
    forget()


def test_a_missing_number_moves_nothing_of_its_own() -> None:
    found = apart(NETWORK, ADD_REMOVE, ((), (("f", None, None),)))
    assert found == Parts(0, 0, (0,) * len(row_scopes(NETWORK)), (0, 0))


@dataclass(frozen=True)
class Told:
    """Sums of numbers of which the products are given."""

    grids: dict[str, NumberGrid]
    sum: int

    def products(self, first: str, second: str) -> int:
        return self.sum


@example(sum_=-1, by=Fraction(1), records=1, name="x")
@given(sum_=st.integers(-(2**80), 2**80), by=st.fractions(-1, 1), records=st.integers(1, 5), name=st.sampled_from("xn"))
def test_rounded_moments_move_by_no_more_than_the_proof_says(sum_: int, by: Fraction, records: int, name: str) -> None:
    """`floor(S C / R + 1/2)` moves by at most C where S moves by at most R, whatever S is; also where it is clipped."""
    grids = number_grids(NETWORK)
    pair = ("x", name)
    reach = moment_reach(grids["x"], grids[name])
    one = _scale_moment(Told(grids, sum_), pair)  # type: ignore[arg-type]
    other = _scale_moment(Told(grids, sum_ + records * int(by * reach)), pair)  # type: ignore[arg-type]
    assert abs(one - other) <= records * MOMENT_STEPS
    if abs(sum_) < reach * 2**30:
        assert abs(Fraction(one) - Fraction(sum_ * MOMENT_STEPS, reach)) <= Fraction(1, 2)


@every("name", ["x", "n"])
def test_no_record_adds_more_to_a_moment_than_its_reach(name: str) -> None:
    """By the numbers at the ends of all bins, and some number attains it."""
    grids = number_grids(NETWORK)
    one, other = grids["x"], grids[name]

    def told(grid: NumberGrid) -> list[tuple[int, int]]:
        return [(int(a), sign * int(q)) for a, q in zip(grid.anchors, grid.reach, strict=True) for sign in (-1, 1)]

    both = [(a, q, a, q) for a, q in told(one)] if name == "x" else [(*i, *j) for i in told(one) for j in told(other)]
    assert max(abs(a * r + b * q + q * r) for a, q, b, r in both) == moment_reach(one, other)


# ------------------------------------------------------------------------------------------------------------- budgets


@every("relation", [ADD_REMOVE, REPLACE])
@every("network", [NETWORK, ONE, ALIKE])
@every("epsilon", ["1/100", "1", "3.7"])
def test_the_parts_cost_what_is_reported_and_the_total_is_within_epsilon(
    relation: dc.Relation, network: dc.Network, epsilon: str
) -> None:
    moved = 1 if relation is ADD_REMOVE else 2
    for options in ({}, {"numbers_share": "1/3"}, {"pairs_share": 0}, {"records": 10**6}):
        found = noise_of(network, relation, epsilon, **options)
        rows, columns = len(row_scopes(network)), len(number_grids(network))
        spent = {
            "offsets": moved * STEPS / Fraction(found.offset_scale),
            "moments": moved * MOMENT_STEPS / Fraction(found.moment_scale),
            "rows": rows * moved * STEPS / Fraction(found.row_scale) if found.row_scale else Fraction(0),
            "rulers": columns * moved / Fraction(found.leaf_scale),
        }
        share = Fraction(options.get("numbers_share", default_share(network, Fraction(epsilon), moved)))
        whole = share * Fraction(epsilon)
        assert sum(spent.values()) <= found.reported <= whole
        assert found.total == found.first.total + found.reported <= Fraction(epsilon)
        assert sum(spent.values()) >= whole * (1 - Fraction(1, 10**9))
        for name in PARTS if rows else ("offsets", "moments"):
            assert spent[name] >= PARTS[name] * whole * (1 - Fraction(1, 10**9))


def cost_of(found: NumberNoise, network: dc.Network, parts: NumberParts) -> Fraction:
    """What parts with some scales cost: epsilon, or zero-concentrated loss (Canonne, Kamath and Steinke, 2020)."""
    moved, columns = found.sensitivity, len(number_grids(network))
    ruled = sum(leaves > 1 for _, leaves in parts.leaves)
    pure, moments = found.rho is None, len(moment_names(network))
    sizes: list[tuple[int, int, float | None]] = [
        (1 if pure else columns, moved * STEPS, found.offset_scale),
        (parts.moments * (1 if pure else moments), moved * MOMENT_STEPS, found.moment_scale),
        (len(parts.rows), moved * STEPS, found.row_scale),
    ]
    lengths = [
        number * Fraction(length) / Fraction(scale)
        if pure
        else number * Fraction(length) ** 2 / Fraction(scale) ** 2 / 2
        for number, length, scale in sizes
        if scale and number
    ]
    leaf = Fraction(found.leaf_scale)
    return sum(lengths, Fraction()) + ruled * (moved / leaf if pure else moved / leaf**2 / 2)


@every("relation", [ADD_REMOVE, REPLACE])
@every("network", [NETWORK, ONE, ALIKE])
@every("delta", [0, "1/1000", "1/5"])
def test_what_is_left_out_pays_for_the_rest_and_no_more(
    relation: dc.Relation, network: dc.Network, delta: object
) -> None:
    found = noise_of(network, relation, 1, delta, pairs_share=0)
    scopes, names = row_scopes(network), list(number_grids(network))
    every_part = NumberParts(True, tuple(scopes), tuple((name, 2) for name in names))
    whole = cost_of(found, network, every_part)
    assert found.spread(network, every_part) == found
    for moments, rows, ruled in product((False, True), range(len(scopes) + 1), range(len(names) + 1)):
        leaves = tuple((name, 2 if at < ruled else 1) for at, name in enumerate(names))
        parts = NumberParts(moments, tuple(scopes[:rows]), leaves)
        spread = found.spread(network, parts)
        assert whole * (1 - Fraction(1, 10**9)) <= cost_of(spread, network, parts) <= whole
        assert spread.leaf_scale == found.leaf_scale and spread.offset_scale <= found.offset_scale


# --------------------------------------------------------------------------------------------------------- with a delta


@every("relation", [ADD_REMOVE, REPLACE])
def test_a_delta_is_for_the_tables_alone_where_gaussian_noise_is_more(relation: dc.Relation) -> None:
    found, pure = noise_of(NETWORK, relation, 2, "1e-9"), noise_of(NETWORK, relation, 2)
    assert found.total <= 2 and found.rho is None
    assert (found.offset_scale, found.moment_scale, found.row_scale, found.leaf_scale, found.reported) == (
        pure.offset_scale, pure.moment_scale, pure.row_scale, pure.leaf_scale, pure.reported
    )  # fmt: skip


@pytest.mark.costly(
    "The promise of Gaussian noise on numbers, on all neighbours of some hundred data sets.", always=True
)
@every(("network", "relation", "nearly"), [
    (NETWORK, ADD_REMOVE, 0.7), (NETWORK, REPLACE, 0.4), (ALIKE, ADD_REMOVE, 1 - 1e-9), (ALIKE, REPLACE, 0.7),
])  # fmt: skip
@every("delta", ["1/1000", "1/5"])
def test_gaussian_noise_on_numbers_keeps_the_guarantee(
    network: dc.Network, relation: dc.Relation, nearly: float, delta: str
) -> None:
    """Beside tables with Laplace noise, that leave all of delta; and with Gaussian noise, of which it takes a part."""
    guarantee = promise(1, relation, delta)
    mechanism, prior = dc.planned(pairs_share=0), dc.Dirichlet.uniform(network)
    calibration = mechanism.calibrate(network, prior, guarantee)
    assert isinstance(calibration, NumberNoise) and calibration.rho is not None
    beside = not calibration.first.law.concentrated
    assert beside == (delta == "1/1000") and (calibration.reported > 0) == beside

    @cache
    def asked(data: Data) -> Kept:
        log = Kept()
        mechanism.draw(counted(network, data), prior, calibration, log)
        return log

    rest = records_of(network)[0]
    pairs = list(neighbours(network, relation, 40, [(rest, rest)]))
    rho = max(asked(one).concentrated(asked(other)) for one, other in pairs)
    pure = max(asked(one).loss(asked(other)) for one, other in pairs)
    moved = 1 if relation is ADD_REMOVE else 2
    share = default_share(network, Fraction(1), moved) if beside else Fraction(1)
    limit = deviation_for(1, replace(guarantee, epsilon=share * guarantee.epsilon))[1]
    assert nearly * limit <= rho <= limit
    assert pure <= (float((1 - share) * guarantee.epsilon) if beside else 0) + 1e-12
    assert calibration.total <= 1


def test_pairs_with_gaussian_noise_leave_numbers_half_of_delta() -> None:
    names = dc.Network.empty([*ALIKE.variables, *(dc.Variable(f"v{at}", ("a", "b")) for at in range(2))])
    found = dc.planned(numbers_share="1/5").calibrate(
        names, dc.Dirichlet.uniform(names), promise(1, ADD_REMOVE, "1/1000")
    )
    assert isinstance(found, NumberNoise) and isinstance(found.first, NoiseWithPairs)
    assert found.rho is not None and found.first.delta == Fraction(1, 2000)
    left = replace(promise("1/5", ADD_REMOVE, "1/1000"), delta=Fraction(1, 2000))
    assert found.rho <= deviation_for(1, left)[1] and found.total <= 1


@every("columns", [5, 10, 24])
def test_many_columns_have_less_noise_with_a_delta(columns: int) -> None:
    """By the factor of docs/numbers.md, alike for every part, with the noise of the tables that they have without."""
    names = [dc.Variable.binned(f"x{at}", (0, 100), 3) for at in range(columns)]
    network = dc.Network(tuple(names), {"x0": (), **{f"x{at + 1}": (f"x{at}",) for at in range(columns - 1)}})
    pure, found = noise_of(network, ADD_REMOVE), noise_of(network, ADD_REMOVE, 1, "1e-6")
    before, after = (
        np.array(
            [law.raw_variance for law in (own.offset_law(network), own.moment_law(network), own.row_law, own.leaf_law)]
        )
        for own in (pure, found)
    )
    factors = np.sqrt(before / after)
    assert np.ptp(factors) < 1e-3 and factors[0] > {5: 1.1, 10: 1.5, 24: 4.5}[columns]
    without = dc.planned(numbers_share=0).calibrate(
        network, dc.Dirichlet.uniform(network), promise(1, ADD_REMOVE, "1e-6")
    )
    # Where tables have Gaussian noise, too, the sums have what they leave of their loss.
    gaussian = all(plan.law.concentrated for plan in without.plans)
    assert gaussian == (columns == 24) == (found.reported == 0)
    if gaussian:
        for own, alone in zip(found.first.plans, without.plans, strict=True):
            assert sum(own.budgets.values()) + found.rho <= sum(alone.budgets.values())
    for own, alone in zip(found.first.plans, without.plans, strict=True):
        larger = [own.scales[scope] / scale for scope, scale in alone.scales.items()]
        assert max(larger) <= (1 + 1e-6) / (1 - default_share(network, Fraction(1), 1))


def test_shares_are_of_one_budget() -> None:
    assert sum(PARTS.values()) == 1
    assert default_share(ONE, Fraction(1), 1) == default_share(ALIKE, Fraction(2), 2) == Fraction(3, 20)
    assert default_share(ONE, Fraction(4), 1) == Fraction(1, 5)
    assert 0 < default_share(ONE, Fraction(1, 10**30), 1) < default_share(ONE, Fraction(1, 100), 1) == Fraction(3, 200)
    few = dc.Network.empty([X, *(dc.Variable(f"v{at}", ("a", "b")) for at in range(9))])
    assert default_share(few, Fraction(1), 1) == Fraction(3, 200)


# ---------------------------------------------------------------------------------------------------- the whole release


@pytest.mark.costly("The promise of releases with numbers, on all neighbours of some hundred data sets.", always=True)
@every(("network", "relation", "nearly"), [
    (NETWORK, ADD_REMOVE, 0.95), (NETWORK, REPLACE, 0.9), (ALIKE, ADD_REMOVE, 1 - 1e-9), (ALIKE, REPLACE, 0.9),
    (ONE, ADD_REMOVE, 1 - 1e-9), (ONE, REPLACE, 0.9),
])  # fmt: skip
@every("options", [{}, {"pairs_share": 0, "numbers_share": "1/2"}])
def test_the_loss_of_the_whole_release_is_epsilon(
    network: dc.Network, relation: dc.Relation, nearly: float, options: dict[str, Any]
) -> None:
    mechanism, prior = dc.planned(**options), dc.Dirichlet.uniform(network)
    calibration = mechanism.calibrate(network, prior, promise(1, relation))

    @cache
    def asked(data: Data) -> Kept:
        log = Kept()
        mechanism.draw(counted(network, data), prior, calibration, log)
        return log

    rest = records_of(network)[0]
    worst = 0.0
    for one, other in neighbours(network, relation, 28, [(), (rest, rest)]):
        worst = max(worst, asked(one).loss(asked(other)))
    assert nearly <= worst <= 1 + 1e-12


def laplace_logs(window: np.ndarray, values: Sequence[int], scale: float) -> np.ndarray:
    """Log-probabilities of outputs, by definition, shape (values, outputs)."""
    return np.asarray(-np.abs(window - np.array(values, float)[:, None]) / scale)


def differ_in_one(one: Data, other: Data, relation: dc.Relation) -> bool:
    """Whether one data set is the other and a record, or with one replaced."""
    shared = sum(min(one.count(record), other.count(record)) for record in set(one))
    replaced = relation is REPLACE
    return (len(one), len(other)) == (shared + replaced, shared + 1)


@every(("relation", "nearly"), [(ADD_REMOVE, 1 - 1e-9), (REPLACE, 0.85)])
def test_the_law_of_one_column_enumerated(relation: dc.Relation, nearly: float) -> None:
    """All outputs of a window, by parts that are independent given the tables; these decide the number of leaves.

    One vector of one number has the law of discrete Laplace noise in any norm.
    """
    numbers = (-1e9, -1e-9, 0.0, 0.7, 1e9)
    sets = [tuple((x,) for x in some) for size in range(3) for some in combinations_with_replacement(numbers, size)]
    mechanism, prior = dc.planned(numbers_share="1/5"), dc.Dirichlet.uniform(ONE)
    calibration = mechanism.calibrate(ONE, prior, promise(1, relation))
    logs: dict[int, dict[Data, Kept]] = {}
    for answer in (0, 100, 10**7):  # tables without records, with some, and with many
        logs[answer] = {}
        for data in sets:
            log = Kept(answer)
            mechanism.draw(counted(ONE, data), prior, calibration, log)
            logs[answer][data] = log
    leaves = [sum(values.size for values, _ in logs[answer][()].laplace[1:]) for answer in logs]
    assert leaves[0] == 0 < leaves[1] < leaves[2] == 64
    worst = 0.0
    pairs = [(one, other) for one, other in product(sets, sets) if differ_in_one(one, other, relation)]
    assert len(pairs) > 10
    for one, other in pairs:
        for answer in logs:
            a, b = logs[answer][one], logs[answer][other]
            total = np.zeros(2)
            cells = [(u, v, scale) for (u, scale), (v, _) in zip(a.laplace, b.laplace, strict=True)]
            cells += [(u, v, scale) for (u, scale, _), (v, _, _) in zip(a.vectors, b.vectors, strict=True)]
            for u, v, scale in cells:
                for i, j in zip(u.ravel().tolist(), v.ravel().tolist(), strict=True):
                    reach = int(3 * scale) + 2
                    window = np.unique(np.linspace(min(i, j) - reach, max(i, j) + reach, 301).round())
                    p, q = laplace_logs(np.append(window, [i, j]), (i, j), scale)
                    total += (p - q).max(), (q - p).max()
            worst = max(worst, *total.tolist())
    assert nearly <= worst <= 1 + 1e-12


# ---------------------------------------------------------------------------------------------------------- its leaves


def test_the_number_of_leaves_follows_from_what_was_released_alone() -> None:
    """Of data sets of no record and of many, with the same tables released."""
    crowd: Data = (("f", 2.0, 9), ("m", -2.0, 0), ("m", 0.3, 5)) * 2000
    calibration = noise_of(NETWORK, ADD_REMOVE, pairs_share=0, numbers_share="1/5")
    grids = number_grids(NETWORK)
    seen = set()
    for released in (-5, 0, 500, 700, 10**6):
        first = first_of(NETWORK, released)
        asked = []
        for data in ((), crowd):
            sums, log = counted(NETWORK, data).sums, Kept()
            assert sums is not None
            made = _draw_numbers(sums, first, calibration, log)  # type: ignore[arg-type]
            vectors = [(values.shape, scale) for values, scale, _ in log.vectors]
            flat = [(values.shape, scale) for values, scale in log.laplace]
            asked.append((vectors + flat, {name: made.leaves(name) for name in grids}))
            assert made.parts == calibration.choose_parts(NETWORK, float(released))
        assert asked[0] == asked[1]
        deviation = calibration.leaf_law.variance**0.5
        wanted = {name: leaves_for(grid, float(released), deviation) for name, grid in grids.items()}
        assert asked[0][1] == wanted
        seen.add(tuple(wanted.values()))
    assert len(seen) == 4
    forget()


@given(records=st.floats(allow_nan=False, allow_infinity=False), scale=st.floats(1e-9, 1e15))
def test_leaves_are_a_power_of_two_whatever_was_released(records: float, scale: float) -> None:
    grid = NumberGrid(X)
    leaves = leaves_for(grid, records, scale)
    assert 1 <= leaves <= grid.finest and leaves & (leaves - 1) == 0


# --------------------------------------------------------------------------------------------------- what is then there


@every("relation", [ADD_REMOVE, REPLACE])
def test_a_release_comes_near_the_sums(relation: dc.Relation) -> None:
    """With so much budget that the noise is small: each part is where its reader looks for it."""
    rng = np.random.default_rng(3)
    data: Data = tuple(
        ("fm"[int(rng.integers(2))], float(rng.uniform(-2, 2)), int(rng.integers(0, 10))) for _ in range(400)
    )
    counts = counted(NETWORK, data)
    sums = counts.sums
    assert sums is not None
    made = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(NETWORK), promise(1000, relation), rng=1).payload
    assert isinstance(made, NumberTables)
    grids = number_grids(NETWORK)
    assert [abs(int(made.offsets[at]) - sums.total(name)) < 0.01 * STEPS * 20 for at, name in enumerate(grids)]
    for pair, value in zip(moment_names(NETWORK), made.moments.tolist(), strict=True):
        told = Fraction(value * moment_reach(*(grids[name] for name in pair)), MOMENT_STEPS)
        assert abs(told - sums.products(*pair)) < moment_reach(*(grids[name] for name in pair)) * Fraction(1, 2)
    for part in made.rows_by_family:
        assert np.abs(part.sums - sums.by_row(part.number, part.given).ravel()).max() < 0.5 * STEPS
    for ruler in made.rulers:
        exact = grids[ruler.number].coarsen(sums.leaves[ruler.number][:, 0], ruler.leaves)
        assert np.abs(ruler.counts - exact).max() <= 2
    assert [ruler.number for ruler in made.rulers] == ["x", "n"]
    forget()
