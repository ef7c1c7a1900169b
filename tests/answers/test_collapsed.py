"""Both kernels of the exact posterior, one record at a time and by type, against enumeration of all data sets.

The oracle lists every data set as counts of its types, as a matrix; what a record adds to each statistic is worked out
from the payload, one record at a time, and nothing is shared with the package but the contrasts of a table.

Random tests compare means with 6.5 standard errors, by the effective size of chains that are long against their
autocorrelation: a false alarm in fewer than 1e-8 of all seeds for each test.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import gammaln

import discreet as dc
from discreet.evidence import by_record, by_type, chains, moves
from discreet.posterior.diagnostics import effective_size
from discreet.releases.kinds.noisy_counts import NoisyCounts
from discreet.releases.measurement import Released
from discreet.research.kinds.noisy_contrasts import NoisyCoefficients
from discreet.research.kinds.two_stages import TwoStageCounts
from discreet.research.readers.compiling import COMPILED as COMPILED_HERE
from discreet.research.scores.contrasts import coefficients
from tiny import network_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KERNELS = pytest.mark.parametrize("kernel", [by_record, by_type], ids=["records", "types"])
ALPHA = 0.5
LIMIT = 6.5

# ---------------------------------------------------------------------------------------------------------- the oracle


@dataclass(frozen=True, eq=False)
class Case:
    """Evidence over a chain a -> b -> c.

    Args:
        network: of the chain.
        payloads: one for each data set.
        totals: all numbers of records that the data sets may have.
        start: the numbers that chains start with.
        room: most records of all data sets together.
    """

    network: dc.Network
    payloads: Sequence[Released]
    totals: Sequence[tuple[int, ...]]
    start: tuple[int, ...]
    room: int

    def model(self) -> tuple[moves.Model, Mapping[str, float]]:
        """Arrays of the kernels, and the memberships of samples."""
        members: dict[str, float] = {}
        parts = [chains.read_sums(self.network, part, (k, 0), members, 1.5) for k, payload in enumerate(self.payloads)
                 for part in payload.measurements if part.scale is not None]  # fmt: skip
        counted = [len({total[k] for total in self.totals}) == 1 for k in range(len(self.payloads))]
        return chains._build_model(self.network, parts, members, counted), members


@dataclass(frozen=True, eq=False)
class Law:
    """Exact posterior of a case: law of the records in the cells of all tables; means of theta and of their number."""

    cells: Mapping[tuple[int, ...], float]
    theta: Floats
    number: float


def measurements(payload: Released, record: Sequence[int], inside: Sequence[int]) -> list[tuple[Floats, Floats, Any]]:
    """What one record adds to each statistic, what was released of them, and the log density of noise."""
    match payload:
        case NoisyCounts():
            found = []
            for node, table in payload.tables.items():
                own = np.zeros(table.shape)
                own[tuple(record["abc".index(name)] for name in payload.network.family(node))] = 1
                scale = payload.scales[node]
                laplace = payload.noise == "discrete_laplace"
                log = (lambda x, b=scale: -np.abs(x) / b) if laplace else (lambda x, b=scale: -(x**2) / (2 * b * b))
                found.append((own.ravel(), table.ravel(), log))
            return found
        case TwoStageCounts():
            first = [(member * own, released, log) for member, (own, released, log)
                     in zip(inside, measurements(payload.first, record, ()), strict=True)]  # fmt: skip
            return first + measurements(payload.second, record, ())
        case NoisyCoefficients():
            network, tables = payload.network, {}
            for node in network.nodes:
                family = network.family(node)
                tables[node] = np.zeros([network.schema[name].size for name in family], np.int64)
                tables[node][tuple(record["abc".index(name)] for name in family)] = 1
            adds = coefficients(dc.Tables(network, tables))
            shifts = {scope: payload.shift if scope == () else 0 for scope in payload.components}
            return [(np.ravel(adds[scope]), np.ravel(released - shifts[scope]), lambda x: -np.abs(x) / payload.scale)
                    for scope, released in payload.components.items()]  # fmt: skip
        case _:
            raise AssertionError(payload)


def splits(number: int, parts: int) -> Ints:
    """All ways to split a number of records among types, shape (ways, parts)."""
    bars = np.array(list(combinations(range(number + parts - 1), parts - 1)), np.int64)
    edge = np.full((len(bars), 1), -1), np.full((len(bars), 1), number + parts - 1)
    return np.diff(np.hstack([edge[0], bars, edge[1]]), axis=1) - 1


@cache
def exact(case: Case) -> Law:
    """The posterior by enumeration of all data sets."""
    _, members = case.model()
    sizes = [case.network.schema[name].size for name in "abc"]
    types = list(product(*map(range, sizes), *[(0, 1)] * len(members)))
    families = [(0,), (0, 1), (1, 2)]
    begins = np.cumsum([0, *(math.prod(sizes[k] for k in family) for family in families)])
    cell_of = np.zeros((len(types), begins[-1]))
    log_member = np.zeros(len(types))
    for row, record in enumerate(types):
        for first, family in zip(begins, families, strict=False):
            place = np.ravel_multi_index([record[k] for k in family], [sizes[k] for k in family])
            cell_of[row, first + place] = 1
        for member, chance in zip(record[3:], members.values(), strict=True):
            log_member[row] += math.log(chance if member else 1 - chance)
    counts, logs, numbers = [], [], []
    for total in case.totals:
        sets = [splits(number, len(types)) for number in total]
        picks = np.indices([len(part) for part in sets]).reshape(len(sets), -1)
        log = np.zeros(picks.shape[1])
        together = np.zeros((picks.shape[1], len(types)), np.int64)
        for payload, part, pick in zip(case.payloads, sets, picks, strict=True):
            own = gammaln(part.sum(1) + 1) - gammaln(part + 1).sum(1) + part @ log_member
            told = [measurements(payload, record[:3], record[3:]) for record in types]
            for place, (_, released, density) in enumerate(told[0]):
                own += density(released - part @ np.array([record[place][0] for record in told])).sum(1)
            log += own[pick]
            together += part[pick]
        counts.append(together @ cell_of)
        logs.append(log)
        numbers.append(np.full(len(log), sum(total)))
    cells, log, number = np.concatenate(counts), np.concatenate(logs), np.concatenate(numbers)
    theta = np.empty_like(cells)
    for first, last, size in zip(begins, begins[1:], sizes, strict=False):
        for row in range(first, last, size):
            own = cells[:, row : row + size]
            log += gammaln(size * ALPHA) - gammaln(size * ALPHA + own.sum(1))
            log += (gammaln(own + ALPHA) - gammaln(ALPHA)).sum(1)
            theta[:, row : row + size] = (own + ALPHA) / (own.sum(1, keepdims=True) + size * ALPHA)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    found, places = np.unique(cells.astype(np.int64), axis=0, return_inverse=True)
    mass = np.bincount(places.ravel(), weight)
    keys = [tuple(map(int, key)) for key in found]
    return Law(dict(zip(keys, mass, strict=True)), weight @ theta, float(weight @ number))


# ------------------------------------------------------------------------------------------------------------ the cases


def counts_of(network: dc.Network, scale: float, noise: Any = "discrete_laplace", seed: int = 1) -> NoisyCounts:
    """Noisy counts that no five records have."""
    rng = np.random.default_rng(seed)
    tables = {node: rng.integers(-1, 4, network.shape(node)) for node in ("b", "c")}
    return NoisyCounts(network, tables, {"b": scale, "c": 1.2 * scale}, noise)


def contrasts_of(network: dc.Network) -> NoisyCoefficients:
    """Noisy contrasts, their total too."""
    rng = np.random.default_rng(2)
    sizes = {name: network.schema[name].size - 1 for name in network.nodes}
    components = {scope: rng.integers(-2, 3, [sizes[name] for name in scope]) for scope in network.downward_closure}
    return NoisyCoefficients(network, {**components, (): np.array(6)}, 1.5, 2, True)


@cache
def case_of(name: str) -> Case:
    """A case by its name."""
    two, three = (network_of({"a": 2, "b": size, "c": 2}, "a>b b>c") for size in (2, 3))
    match name:
        case "laplace":
            return Case(three, [counts_of(three, 1.0)], [(5,)], (5,), 5)
        case "gaussian":
            return Case(three, [counts_of(three, 1.0, "discrete_gaussian")], [(5,)], (5,), 5)
        case "number":
            return Case(two, [counts_of(two, 1.5)], [(n,) for n in range(9)], (3,), 8)
        case "contrasts":
            return Case(three, [contrasts_of(three)], [(n,) for n in range(6)], (4,), 5)
        case "data sets":
            payloads = [counts_of(two, 1.0), counts_of(two, 1.5, seed=5)]
            return Case(two, payloads, [(3, n) for n in range(4)], (3, 1), 6)
        case "sample":
            both = TwoStageCounts(counts_of(two, 0.8), counts_of(two, 1.5, seed=5), Fraction(1, 3))
            return Case(two, [both], [(3,)], (3,), 3)
        case "accurate":
            return Case(two, [counts_of(two, 0.3)], [(5,)], (5,), 5)
        case _:
            raise AssertionError(name)


def start(kernel: Any, case: Case, rng: np.random.Generator) -> tuple[moves.Model, Any]:
    """A chain at equal probabilities."""
    model, members = case.model()
    theta = np.concatenate([np.full(last - first, 1 / size) for first, last, size
                            in zip(model.firsts, model.firsts[1:], model.sizes, strict=False)])  # fmt: skip
    for place, chance in enumerate(members.values()):
        theta[model.firsts[3 + place] :][:2] = 1 - chance, chance
    state = kernel.start(model, theta, np.full(len(theta), ALPHA), case.start, case.room, rng)
    return model, state


def drawn(kernel: Any, case: Case, draws: int, every: int = 1) -> tuple[Floats, Ints, Floats]:
    """Theta, counts of all cells and numbers of records of two chains: shapes (cells, 2, draws) twice, (2, draws)."""
    width = len(next(iter(exact(case).cells)))
    theta, cells = np.empty((width, 2, draws)), np.empty((width, 2, draws), np.int64)
    numbers = np.empty((2, draws))
    for chain in range(2):
        rng = np.random.default_rng([7, chain])
        model, state = start(kernel, case, rng)
        kernel.sweeps(model, state, 500, 0.1, rng)
        for draw in range(draws):
            kernel.sweeps(model, state, every, 0.0, rng)
            theta[:, chain, draw] = state.theta[:width]
            cells[:, chain, draw] = kernel.count_cells(model, state)[:width]
            numbers[chain, draw] = kernel.number_of(state)
    return theta, cells, numbers


COMPILED = pytest.mark.skipif(not COMPILED_HERE, reason="without numba (extra `fast`) these take minutes")

# ------------------------------------------------------------------------------------------------------------ exactness


@pytest.mark.costly("Chains that are off are found by enumerating all data sets, for each kind of table.")
@COMPILED
@KERNELS
@pytest.mark.parametrize(
    "name",
    [
        *("number", "contrasts", "data sets", "sample"),
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("laplace", "gaussian")),
    ],
)
def test_means_are_those_of_enumeration(kernel: Any, name: str) -> None:
    case = case_of(name)
    law = exact(case)
    theta, cells, numbers = drawn(kernel, case, 6_000)
    # Theta given the records is Dirichlet, tested by its own draws; the records are, cell by cell.
    expected = np.concatenate([law.theta, np.array(list(law.cells)).T @ np.array(list(law.cells.values()))])
    found = np.concatenate([theta, cells])
    if len(case.totals) > 1:
        expected, found = np.append(expected, law.number), np.concatenate([found, numbers[None]])
    errors = found.std(axis=(1, 2)) / np.sqrt(effective_size(found))
    assert np.abs((found.mean(axis=(1, 2)) - expected) / errors).max() < LIMIT
    # Tight enough to tell: for probabilities, of which no one is known.
    assert errors[: len(theta)].max() < 0.016


@COMPILED
@KERNELS
@pytest.mark.thorough
def test_law_of_the_records_is_that_of_enumeration(kernel: Any) -> None:
    # 200,000 independent draws are at a distance of .0048 on average, the chains were at .0051 and .0047.
    law = exact(case_of("accurate"))
    _, cells, _ = drawn(kernel, case_of("accurate"), 100_000, every=2)
    found, times = np.unique(cells.reshape(len(cells), -1), axis=1, return_counts=True)
    shares = dict(zip((tuple(map(int, key)) for key in found.T), times / times.sum(), strict=True))
    assert set(shares) <= set(law.cells)
    assert 0.5 * sum(abs(shares.get(key, 0) - mass) for key, mass in law.cells.items()) < 0.01


# ------------------------------------------------------------------------------------------------------- many records


def statistics(case: Case, state: by_type.TypeState) -> Floats:
    """What the records of a chain add up to, by the oracle's measurements, in the order of the kernels."""
    found = []
    for payload, counts in zip(case.payloads, state.counts, strict=True):
        told = [measurements(payload, record[:3], record[3:]) for record in state.types.states.tolist()]
        sums = [counts @ np.array([record[place][0] for record in told]) for place in range(len(told[0]))]
        # The oracle has the first stage first, the kernels the second.
        found += sums[2:] + sums[:2]
    return np.concatenate(found)


def test_statistics_are_those_of_the_records() -> None:
    network = network_of({"a": 2, "b": 3, "c": 2}, "a>b b>c")
    both = TwoStageCounts(counts_of(network, 9.0), counts_of(network, 7.0, seed=5), Fraction(1, 3))
    case = Case(network, [both, counts_of(network, 20.0)], [(400, 0), (400, 1)], (400, 30), 500)
    rng = np.random.default_rng(3)
    model, state = start(by_type, case, rng)
    assert np.array_equal(statistics(case, state), state.sums)
    most = 0
    for _ in range(40):
        by_type.sweeps(model, state, 1, 0.1, rng)
        assert np.array_equal(statistics(case, state), state.sums)
        assert state.counts.min() >= 0
        assert state.counts[0].sum() == 400
        assert state.counts.sum() <= 500
        most = max(most, int(state.counts[1].sum()))
        rows = [state.theta[first : first + size].sum() for first, size in ((0, 2), (2, 3), (5, 3), (8, 2), (12, 2))]
        assert np.allclose(rows, 1)
    assert most > 0


@pytest.mark.costly("Two samplers of one law must agree where counts are far too many to enumerate.")
@COMPILED
def test_both_kernels_agree_on_many_records() -> None:
    network = network_of({"a": 2, "b": 3, "c": 2}, "a>b b>c")
    rng = np.random.default_rng(4)
    tables = {"b": rng.integers(40, 200, (2, 3)), "c": rng.integers(40, 200, (3, 2))}
    noisy = NoisyCounts(network, tables, {"b": 6.0, "c": 60.0}, "discrete_laplace")
    case = Case(network, [noisy], [(700,), (701,)], (700,), 3000)
    means, errors = [], []
    for kernel in (by_record, by_type):
        values = np.empty((15, 2, 2000))
        for chain in range(2):
            own = np.random.default_rng([9, chain])
            model, state = start(kernel, case, own)
            kernel.sweeps(model, state, 500, 0.1, own)
            for draw in range(values.shape[2]):
                kernel.sweeps(model, state, 1, 0.0, own)
                values[:-1, chain, draw], values[-1, chain, draw] = state.theta, kernel.number_of(state)
        means.append(values.mean(axis=(1, 2)))
        errors.append(values.std(axis=(1, 2)) / np.sqrt(effective_size(values)))
    assert (np.abs(means[0] - means[1]) / np.hypot(*errors)).max() < LIMIT
    assert np.hypot(*errors)[:-1].max() < 0.014


# --------------------------------------------------------------------------------------------------------- plain Python

SHORT = """
import sys
import numpy as np
import test_collapsed as tests
from discreet.evidence import by_record
from discreet.evidence import by_type
from discreet.evidence import moves
for kernel in (by_record, by_type):
    for name in ("laplace", "contrasts", "data sets", "sample"):
        rng = np.random.default_rng(1)
        model, state = tests.start(kernel, tests.case_of(name), rng)
        kernel.sweeps(model, state, 8, 0.1, rng)
        kernel.draw_rows(model, state, rng)
        print(name, kernel.number_of(state), state.theta.tolist(), state.lengths.tolist(), state.sums.tolist())
"""


@pytest.mark.costly("Only a process without a compiler shows that it draws what compiled code draws.")
@pytest.mark.skipif(not COMPILED_HERE, reason="numba (extra `fast`) is not installed: nothing to compare with")
def test_plain_python_draws_the_same_numbers() -> None:
    paths = os.pathsep.join(["tests/answers", *filter(None, sys.path)])
    said = [
        subprocess.run(
            [sys.executable, "-c", SHORT],
            env={**os.environ, "PYTHONPATH": paths, "NUMBA_DISABLE_JIT": plain},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for plain in ("0", "1")
    ]
    assert said[0] == said[1]
    assert len(said[0].splitlines()) == 8
