"""Bounds found in a first, cheap release: noisy histograms of all columns, and the numbers of values that are clipped.

A design puts every column from its public bounds to [-1, 1], and noise is calibrated to that: bounds ten times too wide
leave a hundredth of a column's variance. A share of the guarantee buys histograms over equal cells of the declared
bounds, with a cell more on each side for what lies outside. By these alone, which are public, bounds are narrowed to
the cells that hold nearly all of a column; the fit with the rest of the guarantee takes them as declared ones.

Why the sum is what was asked for: the histograms are the tables of a network without arcs, in which a record sits in
one cell of each, so that `laplace` and `gaussian` keep their share by their own proofs. A record's cell depends on that
record and on declared bounds only. What is narrowed is a function of that release (post-processing), and the second
release is private for any design that does not depend on the records; two charges of epsilon_1 + epsilon_2 = epsilon
and delta_1 + delta_2 <= delta, fixed in advance, add up though the first chooses the second (Dwork and Roth 2014,
Theorem B.1).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import listed, require
from discreet.estimators.contract import ArrayInput
from discreet.estimators.given_table import GivenTable
from discreet.estimators.options import whole_number
from discreet.mechanisms.crossing import Mechanism, calibrate, check_relation, release, statistic_of
from discreet.mechanisms.gaussian import gaussian
from discreet.mechanisms.laplace import laplace
from discreet.model.design import GRID_STEPS, Design, Normal
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.model.tables import Tables
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.privacy.guarantee import Guarantee, as_rational, compose
from discreet.privacy.ledger import Account
from discreet.records.counts import Counts
from discreet.records.rows import Rows
from discreet.releases.kinds.noisy_counts import GaussianNoise, NoisyCounts
from discreet.releases.release import Release

HISTOGRAM_CELLS = 32
"""Cells of a histogram, the two outside the bounds among them."""
CELL_STEPS = 2 * GRID_STEPS // HISTOGRAM_CELLS
"""Steps of a design's grid in a cell of a histogram."""
GUARANTEE_SHARES = (Fraction(1, 50), Fraction(1, 20), Fraction(1, 10), Fraction(1, 5))
"""Shares of the guarantee, of which "auto" takes the first that is enough."""
ENOUGH_NOISE, MOST_NOISE = 0.02, 0.06
"""Deviation of the noise in a cell, for each record: "auto" takes the first share with at most the one, or the last if
it has at most the other, beyond which no bounds are narrowed. Set, like all constants here, on laws and seeds of their
own, but that the second was .1 until two of the sets in docs/estimators.md lost by it."""
SHARE_WITHOUT_RECORDS = Fraction(1, 10)
"""Share that "auto" takes where nobody says how many records to expect."""
LEFT_OUT_SHARE = 0.005
"""Share of the records that may be left out."""
LEAST_NARROWING = 1.5
"""How much narrower bounds must become to be taken."""
SUBSTANTIAL_SHARE, SURE_DEVIATIONS = 0.02, 6.0
"""Share of a column outside of its declared bounds, and deviations of the noise more, from which on there is a
warning."""
LEAST_RELATIVE_WIDTH = 1e-9
"""Least width of bounds that are searched, for the size of the numbers."""
NORMAL_TAIL = 1.959964
"""Deviations of an interval of 95 %."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class ClippedWarning(UserWarning):
    """Warning that much of a column lies outside of its bounds: coefficients are those of the clipped columns.

    Raises:
        Nothing: it is a warning, by which `fit` ends well.

    Example:
        >>> import discreet as dc
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore", category=dc.estimators.ClippedWarning):
        ...     pass  # estimator.fit(...), where it is known and meant that columns are clipped
    """


@dataclass(frozen=True)
class Clipped:
    """Noisy numbers of the records whose value in a column lies outside of the bounds in use, and is moved to them.

    Args:
        bounds: in use, in the unit of the column.
        below, above: released numbers of records, which noise may make negative.
        below_interval, above_interval: intervals of 95 % of the true numbers, from 0 up, which count the noise.

    Raises:
        Nothing: a fit makes it, and looks at what it is made of.

    Guarantee:
        None spent beyond the first release of the fit, of which it is a function.

    Example:
        >>> import discreet as dc
        >>> ages = dc.estimators.Clipped((18, 90), -2, (0, 6.5), above=40, above_interval=(31.5, 48.5))
        >>> ages.above_interval[0] > 0  # surely some are older than 90
        True
    """

    bounds: tuple[float, float]
    below: int
    below_interval: tuple[float, float]
    above: int
    above_interval: tuple[float, float]


@dataclass(frozen=True)
class FoundBounds:
    """Bounds of columns that a first release told, with what lies outside of them.

    Args:
        release: of the histograms.
        clipped: by column, in the design's order; with the bounds in use.
        outside: by column, share of the records outside of its declared bounds, where that is surely substantial.
    """

    release: Release
    clipped: Mapping[str, Clipped]
    outside: Mapping[str, float]


@dataclass(frozen=True)
class BoundsSearch:
    """Plan of a first release, of histograms by which bounds are narrowed: all of it is public.

    Args:
        variables: of the histograms; cells at both ends are outside of the declared bounds.
        mechanism: Laplace noise, or Gaussian noise where a delta makes that smaller.
        guarantee: of the first release.
        rest: of the fit.
    """

    variables: tuple[Variable, ...]
    mechanism: Mechanism
    guarantee: Guarantee
    rest: Guarantee

    def run(
        self,
        rows: Rows,
        given: ArrayInput | GivenTable,
        options: tuple[Any, Any, bool],
        then: tuple[Mechanism, Normal],
        account: Account,
    ) -> tuple[FoundBounds, Rows]:
        """Release the histograms, and read the records by the bounds that they tell.

        Args:
            rows: private, on the declared design.
            given: private; the same records, to be put on the grids of other designs.
            options: of `given.rows`, after the design.
            then: mechanism and prior of the fit, for the declared design.
            account: pays.

        Returns:
            What was found, and the records on the design of the fit.

        Raises:
            InputError: the fit, or this, would be refused; nothing is charged.
            BudgetError: the account cannot pay for both; nothing is charged.

        Guarantee:
            `guarantee`. Whether the fit is refused is asked first, by the declared design; what of that can depend on
            the bounds is none of it.
        """
        design, (fit, prior) = rows.design, then
        rows.policy.check_claim(self.rest)
        check_relation(fit, self.rest)
        calibrate(fit, prior, self.rest, rows.policy)
        fit.require(statistic_of(fit, rows, design))
        account.check(compose([self.guarantee, self.rest]))
        network = Network(self.variables, {variable.name: () for variable in self.variables})
        if isinstance(given, GivenTable):
            given = replace(given, target_column=design.target)
        counts = _count_histograms(given.rows(_widen_design(design), *options), network)
        # A request is charged once: this release has a key of its own.
        paying = replace(account, request=f"{account.request}, bounds") if account.request else account
        released = release(self.mechanism, counts, Dirichlet.uniform(network), self.guarantee, account=paying)
        found = _read_bounds(released, design)
        narrowed = _narrow_design(design, {name: one.bounds for name, one in found.clipped.items()})
        if narrowed == design:
            return found, rows
        rows = given.rows(narrowed, *options)
        return found, replace(rows, policy=replace(rows.policy, out_of_bounds="clip"))


def plan_search(
    estimator: Any, rows: Rows, given: ArrayInput | GivenTable, guarantee: Guarantee, *, fixed: str | None
) -> BoundsSearch | None:
    """Whether there is a first release, and which.

    Args:
        estimator: with the public attributes `find_bounds`, "auto", None, or a share of the guarantee between 0 and 1;
            and `records`, a public number of them or None, which counts where the number is private.
        rows: on the declared design.
        given: which of the columns are categories, whose indicators are left as they are.
        guarantee: of both releases.
        fixed: why the bounds must stay; None where they need not.

    Returns:
        The plan; None where bounds stay as they are.

    Raises:
        InputError: another word or share, or a share though the bounds must stay.
    """
    asked = estimator.find_bounds
    declared = None if estimator.records is None else whole_number(estimator.records, "records", 1)
    if asked is None:
        return None
    records = rows.records if guarantee.relation.public_number else declared
    shares = _list_shares(asked, records, fixed)
    variables = tuple(_cut_into_cells(variable) for variable in _list_searched(rows.design, given))
    if not variables or fixed is not None:
        return None
    for share in shares:
        mechanism, first, deviation = _choose_mechanism(variables, guarantee, share, rows)
        most = MOST_NOISE if share == shares[-1] else ENOUGH_NOISE
        if len(shares) == 1 or deviation <= most * (records or 0):
            rest = replace(guarantee, epsilon=guarantee.epsilon - first.epsilon, delta=guarantee.delta - first.delta)
            return BoundsSearch(variables, mechanism, first, rest)
    return None


def describe_found(estimator: Any, found: FoundBounds | None) -> None:
    """Set what an estimator tells of the first release, and warn where much is clipped.

    Args:
        estimator: just fitted, or made of a release.
        found: None where there was no first release.
    """
    estimator.bounds_release_ = None if found is None else found.release
    estimator.clipped_ = None if found is None else dict(found.clipped)
    estimator.found_bounds_ = None if found is None else {name: one.bounds for name, one in found.clipped.items()}
    told = [f"{name} ({share:.0%})" for name, share in ({} if found is None else found.outside).items()]
    if told:
        warnings.warn(
            f"about these parts of columns lie outside of their declared bounds and are moved to them: {listed(told)}; "
            "coefficients and intervals are of the clipped columns, and not of the columns themselves: declare wider "
            "bounds",
            ClippedWarning,
            stacklevel=4,
        )


# --------------------------------------------------------------------------------------------------------- before


def _list_shares(asked: Any, records: int | None, fixed: str | None) -> tuple[Fraction, ...]:
    """List the shares of the guarantee that are tried in turn; a single one is taken with whatever noise it buys."""
    if isinstance(asked, str) and asked == "auto":
        return (SHARE_WITHOUT_RECORDS,) if records is None else GUARANTEE_SHARES
    share = as_rational(asked, "find_bounds")
    require(0 < share < 1, "find_bounds is 'auto', None, or a share of the guarantee between 0 and 1")
    require(fixed is None, f"find_bounds would move the bounds, which must stay: {fixed}")
    return (share,)


def _list_searched(design: Design, given: ArrayInput | GivenTable) -> list[Variable]:
    """List numeric columns: features that are no indicators, and the target, unless it is a count."""
    columns = given.columns if isinstance(given, GivenTable) else given.declared
    names = {design.features[at].name for at in design.alone}
    names &= names if columns is None else {column.name for column in columns if column.numeric}
    target = [design.target] if design.target is not None and design.predicts == "number" else []
    return [one for one in (*(f for f in design.features if f.name in names), *target) if _is_divisible(one)]


def _is_divisible(variable: Variable) -> bool:
    """Whether floats tell the edges of a column's cells apart."""
    lower, upper = _widen_bounds(variable.bounds or (0, 0))
    return math.isfinite(upper - lower) and upper - lower > LEAST_RELATIVE_WIDTH * max(abs(lower), abs(upper))


def _cut_into_cells(variable: Variable) -> Variable:
    """Cut a column into bins: equal ones of its bounds, and one on each side."""
    assert variable.bounds is not None
    binned = Variable.binned(variable.name, _widen_bounds(variable.bounds), HISTOGRAM_CELLS)
    return replace(binned, states=("below", *binned.states[1:-1], "above"))


def _widen_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Widen bounds by a cell on each side."""
    width = (bounds[1] / (HISTOGRAM_CELLS - 2)) - (bounds[0] / (HISTOGRAM_CELLS - 2))
    return bounds[0] - width, bounds[1] + width


def _widen_design(design: Design) -> Design:
    """Widen a design to one in whose grid cells are whole steps, and what is outside of the declared bounds is seen."""

    def moved(variable: Variable) -> Variable:
        wide = variable.bounds is not None and _is_divisible(variable)
        return Variable(variable.name, bounds=_widen_bounds(variable.bounds or (0, 1))) if wide else variable

    target = moved(design.target) if design.target is not None and design.predicts == "number" else design.target
    features = tuple(moved(one) if at in design.alone else one for at, one in enumerate(design.features))
    return replace(design, features=features, target=target, norm=None, intercept=False)


def _choose_mechanism(
    variables: Sequence[Variable], guarantee: Guarantee, share: Fraction, rows: Rows
) -> tuple[Mechanism, Guarantee, float]:
    """Choose the mechanism of least noise for a share; return it, its promise, and its deviation in records."""
    network = Network(tuple(variables), {variable.name: () for variable in variables})
    found, mechanisms = [], list[tuple[Mechanism, Fraction]]([(laplace(), Fraction(0))])
    if guarantee.delta:
        mechanisms.append((gaussian(), share * guarantee.delta))
    for mechanism, delta in mechanisms:
        first = replace(guarantee, epsilon=share * guarantee.epsilon, delta=delta)
        noise = calibrate(mechanism, Dirichlet.uniform(network), first, rows.policy)
        found.append((_measure_noise(noise), mechanism, first))
    deviation, mechanism, first = min(found, key=lambda one: one[0])
    return mechanism, first, deviation


def _measure_noise(noise: Any) -> float:
    """Measure the standard deviation of the noise in a cell, in records."""
    if isinstance(noise, GaussianNoise):
        return noise.scale
    return math.sqrt(DiscreteLaplace(max(noise.scales.values())).variance)


# ------------------------------------------------------------------------------------------------------- the records


def _count_histograms(rows: Rows, network: Network) -> Counts:
    """Count the records in each cell of each column, privately."""
    tables = {name: np.zeros(HISTOGRAM_CELLS, np.int64) for name in network.nodes}
    # A number at the upper bound is inside.
    edges = np.arange(1, HISTOGRAM_CELLS) * CELL_STEPS - GRID_STEPS
    edges[-1] += 1
    for coordinates, target in rows.blocks():
        columns = dict(zip(rows.design.names, coordinates.T, strict=False))
        if rows.design.target is not None:
            columns[rows.design.target.name] = target
        for name, table in tables.items():
            table += np.bincount(np.searchsorted(edges, columns[name], side="right"), minlength=HISTOGRAM_CELLS)
    return Counts(Tables(network, tables), rows.policy)


# ------------------------------------------------------------------------------------------- what the release tells


def _read_bounds(released: Release, design: Design) -> FoundBounds:
    """Read bounds and numbers of clipped values, off the release alone."""
    payload = released.payload_as(NoisyCounts)
    tables = {name: np.asarray(table, np.float64) for name, table in payload.tables.items()}
    deviation = math.sqrt(payload.law(max(payload.scales.values())).variance)
    public = released.records if released.policy.steps == 1 else None
    records = public or max(float(np.mean([table.sum() for table in tables.values()])), 1.0)
    unsure = 0.0 if public else HISTOGRAM_CELLS / len(tables)
    excess = payload.law.excess
    clipped, outside = dict[str, Clipped](), dict[str, float]()
    for variable in design.schema:
        if variable.name not in tables:
            continue
        table = tables[variable.name]
        low, high = occupied(table, records, unsure) if deviation <= MOST_NOISE * records else (1, HISTOGRAM_CELLS - 1)
        below, above = float(table[:low].sum()), float(table[high:].sum())
        clipped[variable.name] = Clipped(
            _find_edges(variable, low, high),
            round(below),
            _bound_number(below, low, deviation, excess),
            round(above),
            _bound_number(above, HISTOGRAM_CELLS - high, deviation, excess),
        )
        share = (table[0] + table[-1]) / records
        if share - SURE_DEVIATIONS * deviation * math.sqrt(2) / records > SUBSTANTIAL_SHARE:
            outside[variable.name] = float(share)
    return FoundBounds(released, clipped, outside)


def occupied(table: Floats, records: float, unsure: float) -> tuple[int, int]:
    """The fewest cells that hold nearly all of a column.

    What lies outside of some cells is told twice, by the cells outside and by the number of records less the cells
    inside; the two are weighted by their noise.

    Args:
        table: noisy numbers of records, shape (HISTOGRAM_CELLS,), the first and the last outside of the bounds.
        records: in all.
        unsure: variance of the number of records, in units of that of a cell.

    Returns:
        The first of the cells, and the one after the last, inside the declared bounds; all of these where no others are
        much fewer.
    """
    low, high = (1 + position for position in np.triu_indices(HISTOGRAM_CELLS - 1, 1))
    ends = np.concatenate([[0.0], np.cumsum(table)])
    inside, within = ends[high] - ends[low], high - low
    outer, inner = 1 / (HISTOGRAM_CELLS - within), 1 / (within + unsure)
    left_out = (outer * (ends[-1] - inside) + inner * (records - inside)) / (outer + inner)
    held = (left_out <= LEFT_OUT_SHARE * records) & (within * LEAST_NARROWING <= HISTOGRAM_CELLS - 2)
    if not held.any():
        return 1, HISTOGRAM_CELLS - 1
    best = min(np.flatnonzero(held).tolist(), key=lambda at: (within[at], left_out[at]))
    return int(low[best]), int(high[best])


def _find_edges(variable: Variable, low: int, high: int) -> tuple[float, float]:
    """Find bounds of cells in the unit of a column; of whole numbers the whole ones around them."""
    assert variable.bounds is not None
    lower, upper = variable.bounds
    cuts = Variable.binned(variable.name, (lower, upper), HISTOGRAM_CELLS - 2).edges
    found = cuts[low - 1], cuts[high - 1]
    if variable.type == "integer":
        found = max(lower, math.floor(found[0])), min(upper, math.ceil(found[1]))
    return found


def _bound_number(number: float, cells: int, deviation: float, excess: float) -> tuple[float, float]:
    """Bound a sum of cells without its noise: by its deviation and its kurtosis (Cornish and Fisher 1938)."""
    tail = NORMAL_TAIL + (NORMAL_TAIL**3 - 3 * NORMAL_TAIL) * excess / cells / 24
    reach = tail * deviation * math.sqrt(cells)
    return max(number - reach, 0.0), max(number + reach, 0.0)


def _narrow_design(design: Design, bounds: Mapping[str, tuple[float, float]]) -> Design:
    """Put other bounds of some columns into a design."""

    def moved(variable: Variable) -> Variable:
        return replace(variable, bounds=bounds[variable.name]) if variable.name in bounds else variable

    target = None if design.target is None else moved(design.target)
    return replace(design, features=tuple(map(moved, design.features)), target=target)
