"""Bounds found in a first, cheap release: noisy histograms of all columns, and the numbers of clipped values.

A design scales every column from its public bounds to [-1, 1], and noise is calibrated to that: bounds ten times too
wide leave a hundredth of a column's variance. A share of the guarantee is spent on histograms over equal cells of the
declared bounds, with one more cell on each side for values outside. From these alone, which are public, bounds are
narrowed to the cells that hold nearly all of a column. The fit with the rest of the guarantee uses them as declared.

Proof of the sum: the histograms are the tables of a network without arcs, and a record is in one cell of each, so
`laplace` and `gaussian` keep their share by their own proofs. A record's cell depends on that record and on declared
bounds only. The narrowed bounds are a function of that release (post-processing), and the second release is private for
any design that does not depend on the records. Two charges of epsilon_1 + epsilon_2 = epsilon and
delta_1 + delta_2 <= delta, fixed in advance, add up although the first chooses the second (Dwork and Roth 2014,
Theorem B.1).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from discreet.designs.design import GRID_STEPS, Design, Normal
from discreet.designs.indicators import gap_of
from discreet.designs.records.rows import Rows
from discreet.errors import listed, require
from discreet.estimators.contract import ArrayInput
from discreet.estimators.options import whole_number
from discreet.estimators.table_input import TableInput
from discreet.mechanisms.crossing import Mechanism, calibrate, check_relation, release, statistic_of
from discreet.mechanisms.gaussian import gaussian
from discreet.mechanisms.laplace import laplace
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.model.tables import Tables
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.privacy.guarantee import Guarantee, as_rational, compose
from discreet.privacy.ledger import Account
from discreet.records.counts import Counts
from discreet.releases.kinds.noisy_counts import GaussianNoise, NoisyCounts
from discreet.releases.release import Release
from discreet.util.arrays import Floats, Ints

HISTOGRAM_CELLS = 32
"""Number of cells of a histogram, including the two outside the bounds."""
CELL_STEPS = 2 * GRID_STEPS // HISTOGRAM_CELLS
"""Steps of a design's grid in a cell of a histogram."""
GUARANTEE_SHARES = (Fraction(1, 50), Fraction(1, 20), Fraction(1, 10), Fraction(1, 5))
"""Shares of the guarantee; "auto" takes the first one that is large enough."""
ENOUGH_NOISE, MOST_NOISE = 0.02, 0.06
"""Standard deviation of the noise in a cell, as a share of the records. "auto" takes the first share of the guarantee
with at most the first number, or the last share with at most the second; above it no bounds are narrowed. All constants
here were set on data and seeds of their own, except that the second was .1 until it did harm on two of the data sets in
docs/estimators.md."""
SHARE_WITHOUT_RECORDS = Fraction(1, 10)
"""Share that "auto" takes without an expected number of records."""
LEFT_OUT_SHARE = 0.005
"""Share of the records that may be left out."""
LEAST_NARROWING = 1.5
"""Least ratio of declared to narrowed widths; with less, bounds stay."""
SUBSTANTIAL_SHARE, SURE_DEVIATIONS = 0.02, 6.0
"""Share of a column outside of its declared bounds that raises a warning, and standard deviations of the noise by which
it must be exceeded."""
LEAST_RELATIVE_WIDTH = 1e-9
"""Least width of bounds that are searched, relative to the size of the numbers."""


class ClippedWarning(UserWarning):
    """Warning that much of a column lies outside of its bounds: coefficients are those of the clipped columns.

    Raises:
        Nothing: it is a warning; `fit` succeeds.

    Example:
        >>> import discreet as dc
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore", category=dc.estimators.ClippedWarning):
        ...     pass  # estimator.fit(...), if columns are meant to be clipped
    """


@dataclass(frozen=True)
class Clipped:
    """Noisy numbers of the records whose value in a column is outside of the bounds in use, and is moved to them.

    Args:
        bounds: in use, in the unit of the column.
        below, above: released numbers of records, which noise may make negative.
        below_interval, above_interval: 95 % intervals of the true numbers, at least 0, which include the noise.

    Raises:
        Nothing: a fit makes and checks it.

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
    """Bounds of columns from a first release, with the numbers of values outside of them.

    Args:
        release: of the histograms.
        clipped: by column, in the design's order; with the bounds in use.
        outside: by column, share of the records outside of its declared bounds, if it is certainly substantial.
    """

    release: Release
    clipped: Mapping[str, Clipped]
    outside: Mapping[str, float]


@dataclass(frozen=True)
class BoundsSearch:
    """Public plan of a first release: histograms by which bounds are narrowed.

    Args:
        variables: of the histograms; cells at both ends are outside of the declared bounds.
        mechanism: Laplace noise, or Gaussian noise if a delta makes that smaller.
        guarantee: of the first release.
        rest: guarantee of the fit.
    """

    variables: tuple[Variable, ...]
    mechanism: Mechanism
    guarantee: Guarantee
    rest: Guarantee

    def run(
        self,
        rows: Rows,
        inputs: ArrayInput | TableInput,
        options: tuple[Any, Any, bool],
        fit_task: tuple[Mechanism, Normal],
        account: Account,
    ) -> tuple[FoundBounds, Rows]:
        """Release the histograms, and read the records by the bounds found from them.

        Args:
            rows: private, on the declared design.
            inputs: private; the same records, to be read on the grids of other designs.
            options: arguments of `given.rows` after the design.
            fit_task: mechanism and prior of the fit, for the declared design.
            account: pays.

        Returns:
            The bounds, and the records on the design of the fit.

        Raises:
            InputError: the fit, or this release, would be refused; nothing is charged.
            BudgetError: the account cannot pay for both; nothing is charged.

        Guarantee:
            `guarantee`. The checks of the fit run first, on the declared design; none of them depends on the bounds.
        """
        design, (mechanism, prior) = rows.design, fit_task
        rows.policy.check_claim(self.rest)
        check_relation(mechanism, self.rest)
        calibrate(mechanism, prior, self.rest, rows.policy)
        mechanism.require(statistic_of(mechanism, rows, design))
        account.check(compose([self.guarantee, self.rest]))
        network = Network(self.variables, {variable.name: () for variable in self.variables})
        if isinstance(inputs, TableInput):
            inputs = replace(inputs, target_column=design.target)
        counts = _count_histograms(inputs.rows(_widen_design(design), *options), network)
        # A request is charged once, so this release has a key of its own.
        first_account = replace(account, request=f"{account.request}, bounds") if account.request else account
        released = release(self.mechanism, counts, Dirichlet.uniform(network), self.guarantee, account=first_account)
        found_bounds = _read_bounds(released, design)
        narrowed = _narrow_design(design, {name: clipped.bounds for name, clipped in found_bounds.clipped.items()})
        if narrowed == design:
            return found_bounds, rows
        rows = inputs.rows(narrowed, *options)
        return found_bounds, replace(rows, policy=replace(rows.policy, out_of_bounds="clip"))


def plan_search(
    estimator: Any, rows: Rows, inputs: ArrayInput | TableInput, guarantee: Guarantee, *, fixed: str | None
) -> BoundsSearch | None:
    """Plan the first release, if there is one.

    Args:
        estimator: with the public attributes `find_bounds`, "auto", None, or a share of the guarantee between 0 and 1;
            and `records`, their public, expected number or None, which is read if the true number is private.
        rows: on the declared design.
        inputs: declares the categories among the columns, whose indicators keep their bounds.
        guarantee: of both releases.
        fixed: reason why the bounds must stay; None if they may be narrowed.

    Returns:
        The plan; None if bounds stay.

    Raises:
        InputError: an invalid `find_bounds`, or a share although the bounds must stay.
    """
    find_bounds = estimator.find_bounds
    declared = None if estimator.records is None else whole_number(estimator.records, "records", 1)
    if find_bounds is None:
        return None
    records = rows.records if guarantee.relation.public_number else declared
    shares = _list_shares(find_bounds, records, fixed)
    variables = tuple(_cut_into_cells(variable) for variable in _list_searched(rows.design, inputs))
    if not variables or fixed is not None:
        return None
    for share in shares:
        mechanism, first, deviation = _choose_mechanism(variables, guarantee, share, rows)
        most = MOST_NOISE if share == shares[-1] else ENOUGH_NOISE
        if len(shares) == 1 or deviation <= most * (records or 0):
            rest = replace(guarantee, epsilon=guarantee.epsilon - first.epsilon, delta=guarantee.delta - first.delta)
            return BoundsSearch(variables, mechanism, first, rest)
    return None


def describe_found(estimator: Any, search: FoundBounds | None) -> None:
    """Set an estimator's attributes of the first release, and warn if much is clipped.

    Args:
        estimator: just fitted, or made from a release.
        search: None without a first release.
    """
    estimator.bounds_release_ = None if search is None else search.release
    estimator.clipped_ = None if search is None else dict(search.clipped)
    estimator.found_bounds_ = None if search is None else {name: each.bounds for name, each in search.clipped.items()}
    outside = [f"{name} ({share:.0%})" for name, share in ({} if search is None else search.outside).items()]
    if outside:
        warnings.warn(
            "about these shares of columns are outside of their declared bounds and are moved to them: "
            f"{listed(outside)}; coefficients and intervals refer to the clipped columns, not to the originals: "
            "declare wider bounds",
            ClippedWarning,
            stacklevel=4,
        )


# --------------------------------------------------------------------------------------------------------- before


def _list_shares(find_bounds: Any, records: int | None, fixed: str | None) -> tuple[Fraction, ...]:
    """List the shares of the guarantee to try in turn; a single one is taken with any noise."""
    if isinstance(find_bounds, str) and find_bounds == "auto":
        return (SHARE_WITHOUT_RECORDS,) if records is None else GUARANTEE_SHARES
    share = as_rational(find_bounds, "find_bounds")
    require(0 < share < 1, "find_bounds is 'auto', None, or a share of the guarantee between 0 and 1")
    require(fixed is None, f"find_bounds would move the bounds, which must stay: {fixed}")
    return (share,)


def _list_searched(design: Design, inputs: ArrayInput | TableInput) -> list[Variable]:
    """List numeric columns: features that are no indicators, and the target, unless it is a count."""
    columns = inputs.columns if isinstance(inputs, TableInput) else inputs.declared
    names = {design.features[at].name for at in design.alone}
    # Gaps stand in the middle of the bounds, where a histogram would count them.
    names &= names if columns is None else {each.name for each in columns if each.numeric and gap_of(each) is None}
    target = [design.target] if design.target is not None and design.predicts == "number" else []
    return [each for each in (*(f for f in design.features if f.name in names), *target) if _is_divisible(each)]


def _is_divisible(variable: Variable) -> bool:
    """True if the edges of a column's cells are distinct floating-point numbers."""
    lower, upper = _widen_bounds(variable.bounds or (0, 0))
    return math.isfinite(upper - lower) and upper - lower > LEAST_RELATIVE_WIDTH * max(abs(lower), abs(upper))


def _cut_into_cells(variable: Variable) -> Variable:
    """Cut a column into equal bins of its bounds, and one more on each side."""
    assert variable.bounds is not None
    binned = Variable.binned(variable.name, _widen_bounds(variable.bounds), HISTOGRAM_CELLS)
    return replace(binned, states=("below", *binned.states[1:-1], "above"))


def _widen_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Widen bounds by a cell on each side."""
    width = (bounds[1] / (HISTOGRAM_CELLS - 2)) - (bounds[0] / (HISTOGRAM_CELLS - 2))
    return bounds[0] - width, bounds[1] + width


def _widen_design(design: Design) -> Design:
    """Widen a design so that cells are whole steps of its grid, and values outside the declared bounds have cells."""

    def widen(variable: Variable) -> Variable:
        wide = variable.bounds is not None and _is_divisible(variable)
        return Variable(variable.name, bounds=_widen_bounds(variable.bounds or (0, 1))) if wide else variable

    target = widen(design.target) if design.target is not None and design.predicts == "number" else design.target
    features = tuple(widen(feature) if at in design.alone else feature for at, feature in enumerate(design.features))
    return replace(design, features=features, target=target, norm=None, intercept=False)


def _choose_mechanism(
    variables: Sequence[Variable], guarantee: Guarantee, share: Fraction, rows: Rows
) -> tuple[Mechanism, Guarantee, float]:
    """Choose the mechanism of least noise for a share; return it, its promise, and its deviation in records."""
    network = Network(tuple(variables), {variable.name: () for variable in variables})
    candidates, mechanisms = [], list[tuple[Mechanism, Fraction]]([(laplace(), Fraction(0))])
    if guarantee.delta:
        mechanisms.append((gaussian(), share * guarantee.delta))
    for mechanism, delta in mechanisms:
        first = replace(guarantee, epsilon=share * guarantee.epsilon, delta=delta)
        noise = calibrate(mechanism, Dirichlet.uniform(network), first, rows.policy)
        candidates.append((_measure_noise(noise), mechanism, first))
    deviation, mechanism, first = min(candidates, key=lambda candidate: candidate[0])
    return mechanism, first, deviation


def _measure_noise(noise: Any) -> float:
    """Measure the standard deviation of the noise in a cell, in records."""
    if isinstance(noise, GaussianNoise):
        return noise.scale
    return math.sqrt(DiscreteLaplace(max(noise.scales.values())).variance)


# ------------------------------------------------------------------------------------------------------- the records


def _count_histograms(rows: Rows, network: Network) -> Counts:
    """Count the records in each cell of each column, privately."""
    # A number at the upper bound is inside.
    edges = np.arange(1, HISTOGRAM_CELLS) * CELL_STEPS - GRID_STEPS
    edges[-1] += 1
    names, target = rows.design.names, rows.design.target
    at = [len(names) if target and name == target.name else names.index(name) for name in network.nodes]
    (cells,) = rows.sum(partial(_count_cells, edges, at, len(names)))
    return Counts(Tables(network, dict(zip(network.nodes, cells, strict=True))), rows.policy)


def _count_cells(edges: Ints, at: Sequence[int], width: int, coordinates: Ints, target: Ints) -> tuple[Ints]:
    """Count the records of a block in each cell of the columns at some positions; that of the target is the last."""
    columns = [target if each == width else coordinates[:, each] for each in at]
    cells = [np.searchsorted(edges, column, side="right") for column in columns]
    return (np.array([np.bincount(column, minlength=len(edges) + 1) for column in cells]),)


# ------------------------------------------------------------------------------------------- reading of the release


def _read_bounds(released: Release, design: Design) -> FoundBounds:
    """Compute bounds and numbers of clipped values from the release alone."""
    payload = released.payload_as(NoisyCounts)
    tables = {name: np.asarray(table, np.float64) for name, table in payload.tables.items()}
    law = payload.law(max(payload.scales.values()))
    deviation = math.sqrt(law.variance)
    public = released.records if released.policy.steps == 1 else None
    records = public or max(float(np.mean([table.sum() for table in tables.values()])), 1.0)
    unsure = 0.0 if public else HISTOGRAM_CELLS / len(tables)
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
            law.sum_interval(below, low),
            round(above),
            law.sum_interval(above, HISTOGRAM_CELLS - high),
        )
        share = (table[0] + table[-1]) / records
        if share - SURE_DEVIATIONS * deviation * math.sqrt(2) / records > SUBSTANTIAL_SHARE:
            outside[variable.name] = float(share)
    return FoundBounds(released, clipped, outside)


def occupied(table: Floats, records: float, unsure: float) -> tuple[int, int]:
    """Find the fewest cells that hold nearly all of a column.

    There are two estimates of the number outside of some cells: the sum of the cells outside, and the number of records
    less the sum inside. They are weighted by their precision.

    Args:
        table: noisy numbers of records, shape (HISTOGRAM_CELLS,), the first and the last outside of the bounds.
        records: total number.
        unsure: variance of the number of records, in units of that of a cell.

    Returns:
        First cell, and the one after the last, inside the declared bounds; all of these if no others are much fewer.
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
    """Find bounds of cells in the unit of a column; for whole numbers the nearest whole ones outside."""
    assert variable.bounds is not None
    lower, upper = variable.bounds
    cuts = Variable.binned(variable.name, (lower, upper), HISTOGRAM_CELLS - 2).edges
    edges = cuts[low - 1], cuts[high - 1]
    if variable.whole:
        edges = max(lower, math.floor(edges[0])), min(upper, math.ceil(edges[1]))
    return edges


def _narrow_design(design: Design, bounds: Mapping[str, tuple[float, float]]) -> Design:
    """Replace the bounds of some columns of a design."""

    def narrow_variable(variable: Variable) -> Variable:
        return replace(variable, bounds=bounds[variable.name]) if variable.name in bounds else variable

    target = None if design.target is None else narrow_variable(design.target)
    return replace(design, features=tuple(map(narrow_variable, design.features)), target=target)
