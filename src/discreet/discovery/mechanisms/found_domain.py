"""Domain of columns: states by noisy counts with a threshold, bounds and bins by noisy counts in cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from discreet.discovery.declared_columns import NUMERIC, SEARCHED, Columns, ColumnType, NamedColumn, NoPrior
from discreet.discovery.kinds.found_columns import DomainNoise, FoundColumn, FoundDomain, Stage, stage_name
from discreet.discovery.number_cells import (
    choose_fine_edges,
    coarse_edges,
    find_bounds_and_bins,
    regroup,
    whole_edges,
)
from discreet.discovery.records.column_values import ColumnValues
from discreet.errors import InputError, require
from discreet.mechanisms.bin_search import CHANGED
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, deviation_for, scale_for
from discreet.noise.noise_laws import CELL_LAWS, CellLaw, CellTag, DiscreteGaussian, DiscreteLaplace
from discreet.privacy.guarantee import Guarantee
from discreet.records.count_sensitivity import cells_moved
from discreet.records.values import is_number
from discreet.util.arrays import Floats, Ints
from discreet.util.limits import STATES

MOST_STATES = 2**17
"""Most states that are released of all columns together; of a column with more, those with the largest noisy counts."""
ROOM = 8
"""Numbers of a document whose room a state takes."""
DEFAULT_BINS = 14
"""Bins of a numeric column; the widest one sets the noise of its mean. Set on 26 columns of Rdatasets, confirmed on 24
others: with 10, 12, 14 and 17 errors of means were .98, .90, .91 and .88 times those over good declared bins, and
those of shares .78, .78, .57 and .61 times."""
MOST_BINS = 32
"""Most bins that are found of a column: no more than cells of the second look."""
TYPE_SHARE = Fraction(1, 5)
"""Share of a column's budget that finds its type."""
MOST_ODD_SHARE = 0.02
"""Share of a column's values that may be of no number, or of whole numbers that have a fraction, for it to be of them;
beyond noise, whose standard deviation counts `SURE_DEVIATIONS` times."""
SURE_DEVIATIONS = 3
LAW_TAGS: tuple[CellTag, ...] = (DiscreteLaplace.tag, DiscreteGaussian.tag)


class Look(NamedTuple):
    """A look at a column: one call for noise."""

    stage: Stage
    column: NamedColumn


def found_domain(bins: int = DEFAULT_BINS, gaps: bool = False) -> Mechanism:
    r"""Find states, bounds and bins of columns that are declared by name and type alone.

    Of text, the records of each value are counted with noise, and values whose noisy count reaches a threshold are the
    states. Of numbers, the records are counted in public cells between round numbers of all sizes; the range that
    surely has records is divided anew, and bounds and bins follow from a second count in it. Of columns without a type
    a first look counts missing values, whole numbers, other numbers and texts. All columns share the budget alike.

    Args:
        bins: wanted of a numeric column, from 2 to 32.
        gaps: whether the columns get a state for missing values, that is whether the records may miss some.

    Returns:
        The mechanism.

    Raises:
        InputError: bins out of that range; when a release is calibrated: columns of text without a delta.

    Guarantee:
        Epsilon and delta, for adding or removing a record (s = 1) or replacing one (s = 2). Let D and D' be neighbours.
        A look at a column asks for noise on the counts of public cells, or of cells that follow from earlier noisy
        counts, or of the values that some record has. In the last case call a value *lonely* if it is in one data set
        and not in the other: one record has it there, and there is at most one a column and data set. Let M0 be the
        same mechanism, that never releases a lonely value. M0(D) and M0(D') add noise to counts of the same cells,
        which differ by a record each in at most s cells a look. With J columns, whose looks have shares f of their
        column's budget that sum to 1, Laplace noise of scale `s J / (f epsilon)` costs epsilon, also where earlier
        looks choose later ones (composition); Gaussian noise of variance `V / f`, with V such that one look at each
        column keeps (epsilon, delta_n), costs the same rho in all (adaptive composition of concentrated losses). So M0
        keeps (epsilon, delta_n) between D and D'; write P0 and P0' for its two laws. A lonely value is released with
        probability `p = P(1 + noise >= threshold)` at most, whatever else is released, so that given the outcome o of
        M0 none is with probability r(o), or r'(o) under D', both at least `1 - J p`, J now the number of columns whose
        values are listed. For a set S of outcomes, with T those in it that M0 can have,
        `P(M(D) in S) - e^epsilon P(M(D') in S)` is at most
        `sum over T of (r P0 - e^epsilon r' P0') + sum over all of (1 - r) P0`, which is
        `sum over T of r' (P0 - e^epsilon P0') + sum over T of (r - r') P0 + sum over all of (1 - r) P0`, at most
        `delta_n + sum over all of max(1 - r, 1 - r') P0`, hence `delta_n + J p`. The thresholds are the least for which
        that is at most delta. Missing values are a cell of each look at values. Which values are states, their order,
        and the names of the states for other and missing values are functions of the outcome.
        A unit that counts k times is k such steps (`privacy/guarantee.py: for_each`), with a lonely value, or several,
        in any of them.

    Source:
        Korolova, Kenthapadi, Mishra and Ntoulas (2009) for noisy counts with a threshold; Dwork and Roth (2014),
        Theorems 3.6 and 3.16; Canonne, Kamath and Steinke (2020), Theorem 4 and Proposition 25, for Gaussian noise and
        its tail. The proof is the one above.

    Example:
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=1, delta="1e-9", relation="add-remove", unit="record")
        >>> sex = dc.discovery.Columns((dc.discovery.NamedColumn("sex", "text"),))
        >>> noise = dc.discovery.found_domain().calibrate(sex, dc.discovery.NoPrior(sex), promise)
        >>> noise.law, dict(noise.scales), dict(noise.thresholds)
        ('discrete_laplace', {'states': 1.0}, {'states': 22})
    """
    fits = isinstance(bins, int) and not isinstance(bins, bool) and 2 <= bins <= MOST_BINS
    require(fits, f"a domain has from 2 to {MOST_BINS} bins of a numeric column")

    def calibrate(columns: Columns, prior: NoPrior, guarantee: Guarantee) -> DomainNoise:
        listed = sum(column.type in SEARCHED for column in columns)
        if listed and not guarantee.delta:
            raise InputError(
                "states of text are found with a small delta, such as 1e-9: the probability that a state that one "
                "record alone has is released (--delta); else declare states or types of numbers, or leave columns out"
            )
        tags = LAW_TAGS if guarantee.delta else LAW_TAGS[:1]
        candidates = [_calibrate(columns, guarantee, listed, tag, bins, gaps) for tag in tags]
        return min(candidates, key=_judge)

    def draw(statistic: ColumnValues, prior: NoPrior, calibration: DomainNoise, noise: Noise) -> FoundDomain:
        return _Search(statistic, calibration, noise).run()

    def require_gaps(statistic: ColumnValues) -> None:
        with_gaps = statistic.policy.missing == "keep"
        require(
            with_gaps == gaps, "missing values are kept where the domain has states for them (gaps), and only there"
        )

    return Mechanism(
        "found_domain",
        calibrate,
        draw,
        ColumnValues,
        require_gaps,
        over="columns",
        of_records=_take_values,
        numbers=lambda columns, _: columns.size + ROOM * MOST_STATES,
    )


def _take_values(records: object, columns: object) -> ColumnValues:
    """Take the values of some columns as the statistic."""
    if not isinstance(records, ColumnValues) or records.columns != columns:
        raise InputError("a domain is found of values of the same columns: read them by discovery.read_values")
    return records


def _judge(noise: DomainNoise) -> tuple[float, float]:
    """Order calibrations: by the thresholds of states, then by the noise."""
    law = CELL_LAWS[noise.law]
    return float(sum(noise.thresholds.values())), sum(law(scale).raw_variance for scale in noise.scales.values())


def list_shares(columns: Iterable[NamedColumn]) -> dict[str, Fraction]:
    """List the shares of their column's budget that looks have, by name of their scale, as columns need them."""
    rest, shares = 1 - TYPE_SHARE, dict[str, Fraction]()
    for column in columns:
        if column.type == "unknown":
            half = rest / 2
            shares |= {"type": TYPE_SHARE, "states_untyped": rest, "coarse_untyped": half, "fine_untyped": half}
        elif column.type not in NUMERIC:
            shares["states"] = Fraction(1)
        else:
            shares |= {"coarse": Fraction(1, 2), "fine": Fraction(1, 2)}
    return shares


def _calibrate(
    columns: Columns,
    guarantee: Guarantee,
    listed: int,
    tag: CellTag,
    bins: int,
    gaps: bool,
) -> DomainNoise:
    """Calibrate noise of one law, and the thresholds of states."""
    moved, shares = cells_moved(guarantee.relation), list_shares(columns)
    if tag == DiscreteLaplace.tag:
        state_delta = guarantee.delta if listed else Fraction(0)
        pairs = {name: scale_for(moved * columns.size, share * guarantee.epsilon) for name, share in shares.items()}
        scales, reported = {name: scale for name, (scale, _) in pairs.items()}, guarantee.epsilon
    else:
        state_delta = guarantee.delta / 2 if listed else Fraction(0)
        within = Guarantee(
            epsilon=guarantee.epsilon,
            delta=guarantee.delta - state_delta,
            relation=guarantee.relation,
            unit=guarantee.unit,
        )
        whole, _, reported = deviation_for(moved * columns.size, within)
        # Rounded up: shares of rho sum to that of the whole, or less.
        scales = {
            name: math.nextafter(whole / math.sqrt(share), math.inf) * (1 + 1e-12) for name, share in shares.items()
        }
    # Those of logical columns are public.
    listing = {stage_name("states", column.type) for column in columns if column.type in SEARCHED}
    thresholds = {
        name: threshold_for(CELL_LAWS[tag](scale), state_delta / listed)
        for name, scale in scales.items()
        if name in listing
    }
    return DomainNoise(tag, moved, scales, thresholds, state_delta, bins, gaps, reported)


def threshold_for(law: CellLaw, chance: Fraction) -> int:
    """Find the least noisy count that the count of one record exceeds or reaches with at most this probability.

    Args:
        law: discrete Laplace or discrete Gaussian, whose tail is below that of the normal distribution one earlier.
        chance: above 0.

    Returns:
        A whole number, rounded up by at most 2.

    Example:
        >>> law = CELL_LAWS["discrete_laplace"](1.0)
        >>> tail = math.exp(-21) / (1 + math.exp(-1))  # P(noise >= 21)
        >>> threshold_for(law, Fraction(tail) * Fraction(1001, 1000))
        22
    """
    target = float(chance)
    while Fraction(target) > chance:
        target = math.nextafter(target, 0)
    require(target > 0, "delta is too small for a threshold of states: ask for more than 1e-300")
    if law.budget == "epsilon":
        # P(noise >= t) = e^(-t / b) / (1 + e^(-1 / b)) for t >= 0.
        needed = law.scale * (-math.log(target) - math.log1p(math.exp(-1 / law.scale)))
    else:
        needed = law.scale * float(-ndtri(target)) + 1
    return 1 + max(math.ceil(needed * (1 + 1e-12)), 0)


@dataclass
class _Search:
    """Search of one draw: the only place of the pack where noise is asked for.

    Args:
        statistic: private.
        calibration: of the noise.
        noise: its source.
    """

    statistic: ColumnValues
    calibration: DomainNoise
    noise: Noise

    def run(self) -> FoundDomain:
        """Look at all columns in turn."""
        columns = self.statistic.columns
        types = {look.column.name: self._find_type(look) for look in list_looks(columns, None)}
        parts, edges = dict[str, FoundColumn](), dict[str, Floats]()
        looks = list(list_looks(columns, types))
        for look in looks:
            name = look.column.name
            if look.stage == "states":
                parts[name] = self._find_states(look, types[name])
            elif look.stage == "coarse":
                edges[name] = self._find_range(look, types[name])
        counts = self._count_again(edges)
        for look in looks:
            name = look.column.name
            if look.stage == "fine":
                parts[name] = self._find_bins(look, types[name], edges[name], counts[name])
        return FoundDomain(columns, tuple(parts[name] for name in columns.names))

    def _add(self, look: Look, counts: Ints) -> tuple[Ints, CellLaw]:
        """Add the noise of a look to counts."""
        law = self.calibration.noise(look.stage, look.column.type)
        return law.add(counts, self.noise), law

    def _find_type(self, look: Look) -> ColumnType:
        """Find the type of a column; that of a declared one costs nothing."""
        if look.stage != "type":
            return look.column.type
        counts, law = self._add(look, self.statistic.kinds[look.column.name])
        return decide_type(counts, math.sqrt(law.raw_variance))

    def _find_states(self, look: Look, type: ColumnType) -> FoundColumn:
        """Find the states of a column; those of a logical one are public."""
        name, gaps = look.column.name, self.calibration.gaps
        values = dict(self.statistic.values[name])
        if type == "boolean":
            values = {state: values.get(state, 0) for state in ("false", "true")}
        counts = np.array([self.statistic.missing[name], *values.values()], np.int64)
        noisy, law = self._add(look, counts)
        least = -(2**62)
        if type != "boolean":
            least = self.calibration.thresholds[stage_name("states", look.column.type)]
        pairs = sorted(zip(noisy[1:].tolist(), values, strict=True), key=lambda pair: (-pair[0], pair[1]))
        most = min(MOST_STATES // self.statistic.columns.size, STATES - 2)
        states = {state: count for count, state in pairs[:most] if count >= least}
        order = sort_states(states)
        counts = np.array([states[state] for state in order], np.int64)
        return FoundColumn(name, type, tuple(order), (), (), (), counts, int(noisy[0]), law.scale, gaps)

    def _find_range(self, look: Look, type: ColumnType) -> Floats:
        """Find the cells of the second look at a column of numbers."""
        edges, counts = coarse_edges(), self.statistic.numbers[look.column.name]
        if type == "integer":
            counts, edges = regroup(counts, edges, whole_edges()), whole_edges()
        noisy, law = self._add(look, counts)
        return choose_fine_edges(edges, noisy, law, type)

    def _count_again(self, edges: Mapping[str, Floats]) -> dict[str, Ints]:
        """Count the numbers in the cells of the second look; a table that was changed meanwhile is refused."""
        try:
            return self.statistic.again(edges)
        except Exception:
            # What failed may quote a record, and says that nothing was spent.
            raise InputError(CHANGED) from None

    def _find_bins(self, look: Look, type: ColumnType, edges: Floats, counts: Ints) -> FoundColumn:
        """Find bounds and bins of a column of numbers."""
        name = look.column.name
        noisy, law = self._add(look, np.concatenate([[self.statistic.missing[name]], counts]).astype(np.int64))
        bounds, bins = find_bounds_and_bins(edges, noisy[1:], law, self.calibration.bins, type)
        return FoundColumn(
            name, type, (), bounds, bins, tuple(edges.tolist()), noisy[1:], int(noisy[0]), law.scale,
            self.calibration.gaps,
        )  # fmt: skip


def list_looks(columns: Columns, types: Mapping[str, ColumnType] | None) -> Iterator[Look]:
    """List the looks at columns, in the order in which they ask for noise.

    Args:
        columns: public.
        types: of all columns; None lists the looks that find them, and for a declared type one that asks for nothing.
    """
    if types is None:
        yield from (Look("type" if column.type == "unknown" else "states", column) for column in columns)
        return
    numeric = [column for column in columns if types[column.name] in NUMERIC]
    yield from (Look("coarse" if column in numeric else "states", column) for column in columns)
    yield from (Look("fine", column) for column in numeric)


def decide_type(counts: Ints, deviation: float) -> ColumnType:
    """Decide the type of a column by noisy numbers of its kinds of values.

    Args:
        counts: noisy, of missing values, whole numbers, other numbers and texts.
        deviation: standard deviation of the noise in each.

    Returns:
        "text" unless nearly all values surely are numbers.

    Example:
        >>> decide_type(np.array([0, 4990, 12, 3]), 20.0), decide_type(np.array([0, 2500, 2600, 3]), 20.0)
        ('integer', 'number')
        >>> decide_type(np.array([0, 2500, 0, 2500]), 20.0)
        'text'
    """
    _, whole, fractions, texts = counts.tolist()
    total, slack = max(whole + fractions + texts, 0), SURE_DEVIATIONS * deviation
    most = MOST_ODD_SHARE * total + slack
    if texts > most or whole + fractions < slack:
        return "text"
    return "number" if fractions > most else "integer"


def sort_states(states: Iterable[str]) -> list[str]:
    """Sort states as numbers if all are, else as texts.

    Example:
        >>> sort_states(["10", "9"]), sort_states(["10", "9", "x"])
        (['9', '10'], ['10', '9', 'x'])
    """
    names = sorted(states)
    return sorted(names, key=float) if all(map(is_number, names)) else names
