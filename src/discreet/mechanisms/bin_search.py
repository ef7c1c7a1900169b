"""Bins found in private: a first stage for numeric columns that were declared by their bounds alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np
from scipy.special import betainc

from discreet.errors import InputError, require, shown
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, scale_for
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.round_numbers import FOUND_BINS, halve_bins, replace_variables, typical_network, wide_columns
from discreet.model.schema import Scope, Variable, write_gaps
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.records.count_sensitivity import cells_moved
from discreet.records.counts import Counts
from discreet.records.number_sums import MOST_RECORDS
from discreet.releases.kinds.found_bins import FoundBins, FoundBinsNoise, RoundCounts
from discreet.releases.kinds.noisy_tables import NoisyTables
from discreet.releases.kinds.number_tables import NumberTables
from discreet.releases.kinds.tables_with_pairs import TablesWithPairs
from discreet.releases.measurement import Calibration, Released
from discreet.util.arrays import Floats, Ints

FIRST_SHARE, FURTHER_SHARE, MOST_SHARE = Fraction(1, 10), Fraction(1, 20), Fraction(1, 4)
"""Share of epsilon that finds the bins of one column, of each further one, and the most; the columns share it alike."""
CHANGED = "the table was changed after it was counted; the charge stays, and nothing is released"
"""Refusal of the second count."""
NARROWEST = 1e-120
"""Least distance of round numbers: bins between them may be far narrower, and have squares above 0 in 64 bits."""
FALSE_ALARM = 0.0001
"""Chance that noise alone makes any cells of a column seem occupied, at each end."""
MARGIN_CELLS = 1
"""Cells beyond the last one that surely has records at each end, for the tail that is too thin to be seen."""
MISSED_SHARE, SURE_DEVIATIONS = 0.01, 4.5
"""Share of the records outside of the found range beyond which it is widened, if the records outside exceed that by so
many standard deviations of their noise."""
NEAR_END = 0.25
"""Distance to 0 or to the declared bound, relative to the found range, up to which the range reaches that instead."""


def with_found_bins(mechanism: Mechanism, stated: Fraction | None) -> Mechanism:
    """Find bins of columns that have bounds alone, then release over them; that alone where all have bins.

    Args:
        mechanism: over a network, whose payloads are `NoisyTables`, `TablesWithPairs` or `NumberTables`.
        stated: share of epsilon for finding bins; None for one that follows from the number of columns.

    Returns:
        The mechanism. Of counts of codes, which have no numbers to be counted again, it releases the round numbers.

    Guarantee:
        Epsilon and delta in all, for adding or removing a record (s = 1) or replacing it (s = 2). The first stage
        releases, of each of J columns, the records between the round numbers that lie between its public bounds: a
        record is in one cell of each, a missing number in none, so that discrete Laplace noise of scale b costs
        `s J / b`. The bins and the clipped bounds are a function of that release, of public bounds and constants
        (post-processing). For each outcome of it the second stage is private by its own proof, since with the bins held
        fixed it is a release over a public network; its budget is fixed in advance. So the costs add up, although the
        first stage chooses the second. The records are read twice. Where others write to the table in between, each
        stage is private for the records that it reads.

    Source:
        Dwork and Roth (2014), Theorem 3.6, Proposition 2.1, and Theorem B.1 for adaptive composition.
    """

    def draw(statistic: Counts, prior: Dirichlet, calibration: object, noise: Noise) -> Released:
        if isinstance(calibration, FoundBinsNoise):
            return _draw_stages(mechanism, statistic, prior, calibration, noise)
        return mechanism.draw(statistic, prior, calibration, noise)

    def settle(prior: Dirichlet, calibration: object, payload: Released) -> tuple[Dirichlet, object]:
        if isinstance(calibration, FoundBinsNoise) and isinstance(payload, FoundBins):
            return _calibrate_second(mechanism, prior, calibration, payload.network)
        return prior, calibration

    def require_counts(statistic: Counts) -> None:
        if statistic.wide is None:
            mechanism.require(statistic)
        else:
            require(statistic.records <= MOST_RECORDS, f"sums of numbers take at most {MOST_RECORDS:,} records")

    def count_numbers(network: Network, calibration: object) -> int:
        if not isinstance(calibration, FoundBinsNoise):
            return mechanism.numbers(network, calibration)
        cells = sum(2 * variable.size for variable in wide_columns(network))
        return cells + mechanism.numbers(typical_network(network), calibration.second)

    def choose(statistic: Counts) -> Mechanism | None:
        return None if statistic.wide is not None else _choose_without(mechanism, statistic)

    return replace(
        mechanism, calibrate=partial(_calibrate_stages, mechanism, stated), draw=draw, require=require_counts,
        numbers=count_numbers, suited=choose, finds_bins=True, settle=settle,
        scopes=lambda network: mechanism.scopes(typical_network(network)),
    )  # fmt: skip


def _choose_without(mechanism: Mechanism, statistic: Counts) -> Mechanism | None:
    """Choose the mechanism without a first stage for counts of codes between round numbers; None if there are none."""
    return mechanism.suited(statistic) or (mechanism if wide_columns(statistic.network) else None)


def _calibrate_stages(
    mechanism: Mechanism, stated: Fraction | None, network: Network, prior: Dirichlet, guarantee: Guarantee
) -> Calibration:
    """Calibrate both stages, the second for as many bins as may be found; that alone where all columns have bins."""
    columns = len(wide_columns(network))
    if not columns:
        calibration: Calibration = mechanism.calibrate(network, prior, guarantee)
        return calibration
    for variable in wide_columns(network):
        fine = float(np.diff(variable.edges).min()) > NARROWEST
        require(
            fine, f"variable {shown(variable.name)}: bins so near 0 cannot be found; give such numbers in another unit"
        )
    share = min(FIRST_SHARE + FURTHER_SHARE * (columns - 1), MOST_SHARE) if stated is None else stated
    moved, typical = cells_moved(guarantee.relation), typical_network(network)
    scale, reported = scale_for(moved * columns, share * guarantee.epsilon)
    second = replace(guarantee, epsilon=guarantee.epsilon - reported)
    # A question of a workload that names a state of bins yet to be found is refused here, and not after the charge.
    halves = halve_bins(network)
    mechanism.calibrate(halves, _replace_network(prior, halves), second)
    return FoundBinsNoise(
        columns=columns,
        sensitivity=moved,
        scale=scale,
        reported=reported,
        epsilon=second.epsilon,
        delta=second.delta,
        second=mechanism.calibrate(typical, _replace_network(prior, typical), second),
    )


def _draw_stages(
    mechanism: Mechanism, statistic: Counts, prior: Dirichlet, calibration: FoundBinsNoise, noise: Noise
) -> FoundBins:
    """Release the records between round numbers, find bins, count the records again and release over the bins."""
    assert statistic.wide is not None
    columns, variables = [], dict[str, Variable]()
    for variable in wide_columns(statistic.wide.network):
        counts = noise.discrete_laplace(statistic.tables[variable.name][: len(variable.values)], calibration.scale)
        columns.append(RoundCounts(variable.name, variable.edges, counts, calibration.scale))
        variables[variable.name] = find_bins(variable, counts, calibration.scale)
    network = replace_variables(statistic.wide.network, variables)
    again = _count_again(statistic, network, mechanism.scopes(network), public=calibration.sensitivity > 1)
    settled, calibrated = _calibrate_second(mechanism, prior, calibration, network)
    second = (mechanism.suited(again) or mechanism).draw(again, settled, calibrated.second, noise)
    assert isinstance(second, NoisyTables | TablesWithPairs | NumberTables)
    return FoundBins(network, tuple(columns), second)


def _count_again(statistic: Counts, network: Network, scopes: Iterable[Scope], *, public: bool) -> Counts:
    """Count the records over found bins; a table that was changed after the first count is refused.

    Args:
        statistic: the first count.
        network: with found bins.
        scopes: further sets to count.
        public: whether the number of records is.

    Raises:
        InputError: the table no longer has records that can be counted, or as many where their number is public.
    """
    assert statistic.wide is not None
    try:
        again = statistic.wide.again(network, scopes)
        require(not public or again.records == statistic.records, CHANGED)
    except Exception:
        # What was found may quote a record, and says that nothing was spent.
        raise InputError(CHANGED) from None
    return again


def _calibrate_second(
    mechanism: Mechanism, prior: Dirichlet, calibration: FoundBinsNoise, network: Network
) -> tuple[Dirichlet, FoundBinsNoise]:
    """Make the prior over found bins, and calibrate the release over them with the budget fixed in advance."""
    relation = Relation.ADD_REMOVE if calibration.sensitivity == cells_moved(Relation.ADD_REMOVE) else Relation.REPLACE
    promise = Guarantee(epsilon=calibration.epsilon, delta=calibration.delta, relation=relation, unit="record")
    settled = _replace_network(prior, network)
    return settled, replace(calibration, second=mechanism.calibrate(network, settled, promise))


def _replace_network(prior: Dirichlet, network: Network) -> Dirichlet:
    """Make the prior over other bins: of the same concentration in each cell, or of each node's sum if they differ.

    Raises:
        InputError: a family has several concentrations, which belong to the declared cells.
    """
    levels = {node: float(table.flat[0]) for node, table in prior.alpha.items()}
    if any((table != levels[node]).any() for node, table in prior.alpha.items()):
        raise InputError("bins that are yet to be found have no prior of their own: give one number for all cells")
    if not prior.flat:
        levels = {node: level * prior.alpha[node].size / network.cells(network.family(node))
                  for node, level in levels.items()}  # fmt: skip
    return replace(Dirichlet.per_node(network, levels), accounts=prior.accounts)


def find_bins(variable: Variable, counts: Ints, scale: float) -> Variable:
    """Find few bins from noisy numbers of records between round numbers: a function of these alone.

    The range is that of the cells that surely have records. Half of its bins are where the records are, and half where
    the numbers are: cut points divide the average of the distribution function and of that of even numbers in equal
    parts. So a bin has at most two tenths of the records and of the range.

    Args:
        variable: whose bins are all round numbers between its bounds.
        counts: noisy records in each bin.
        scale: of their discrete Laplace noise.

    Returns:
        The variable with at most `FOUND_BINS` bins; its bounds are the found range.
    """
    edges = np.array(variable.edges)
    first, last = _find_range(counts, scale)
    first, last = max(first - MARGIN_CELLS, 0), min(last + MARGIN_CELLS, len(counts))
    near = NEAR_END * (edges[last] - edges[first])
    zero = (0.0,) * bool(edges[0] <= 0 <= edges[-1])
    for end in (*zero, edges[0]):
        first = int(np.searchsorted(edges, end)) if 0 < edges[first] - end <= near else first
    for end in (*zero, edges[-1]):
        last = int(np.searchsorted(edges, end)) if 0 < end - edges[last] <= near else last
    inside = edges[first : last + 1]
    records = np.append(0.0, np.cumsum(np.maximum(counts[first:last], 0)))
    law = (records / max(records[-1], 1.0) + (inside - inside[0]) / (inside[-1] - inside[0])) / 2
    wanted = np.interp(np.arange(1, FOUND_BINS) / FOUND_BINS, law, inside)
    cuts = _round_cuts(np.concatenate([inside[:1], wanted, inside[-1:]]), variable.type)
    whole = variable.whole
    return Variable(
        variable.name,
        (),
        (float(inside[0]), float(inside[-1] - whole)),
        cuts or tuple(inside[1:-1].tolist()),
        variable.type,
        **write_gaps(variable),
    )


def _round_cuts(points: Floats, type: str) -> tuple[float, ...]:
    """Round cut points to the largest power of ten below the distance to the nearer neighbour; the ends stay."""
    low, *inner, high = points.tolist()
    gaps = np.diff(points)
    digits = [-math.floor(math.log10(gap)) if gap > 0 else 0 for gap in np.minimum(gaps[1:], gaps[:-1]).tolist()]
    cuts = (
        round(cut, min(number, 0) if type == "integer" else number) for cut, number in zip(inner, digits, strict=True)
    )
    return tuple(sorted({float(cut) for cut in cuts if low < cut < high}))


def _find_range(counts: Ints, scale: float) -> tuple[int, int]:
    """Find the cells between the outermost ones that surely have records: the first, and one past the last.

    Sums over 1, 2, 4, ... neighbouring cells are compared with the exact law of the noise in them, so that both thin
    tails and single heaps are seen, and a single noisy cell is not. All cells if nothing is seen.
    """
    cells = len(counts)
    sizes = [2**power for power in range(cells.bit_length())]
    chance = FALSE_ALARM / sum(cells - size + 1 for size in sizes)
    starts, ends = [], []
    for size in sizes:
        sums = np.convolve(counts, np.ones(size, np.int64), "valid")
        sure = np.flatnonzero(noise_tail(sums, size, scale) < chance)
        starts += sure[-1:].tolist()
        ends += (sure[:1] + size).tolist()
    if not starts:
        return 0, cells
    first, last = sorted((min(ends) - 1, max(starts)))
    last += 1
    while last < cells and _misses(counts[last:], counts, scale):
        last += 1
    while first > 0 and _misses(counts[:first], counts, scale):
        first -= 1
    return first, last


def _misses(outside: Ints, counts: Ints, scale: float) -> bool:
    """True if surely too many records lie in the cells outside."""
    noise = scale * math.sqrt(2 * len(outside))
    return bool(outside.sum() > MISSED_SHARE * counts.sum() + SURE_DEVIATIONS * noise)


def noise_tail(at: Ints, number: int, scale: float) -> Floats:
    """Compute the chance that a sum of discrete Laplace variates is at least as large.

    Args:
        at: where, in whole numbers; below 0 as at 0.
        number: of variates.
        scale: of each.

    Returns:
        Chances: the sum is the difference of numbers G and H of failures before the `number`-th success of two series
        of trials that fail with the chance `exp(-1 / scale)`. Before its failure t the first has j successes, with a
        negative binomial law; what it then still has to fail is at least H by `_lead`.

    Example:
        >>> noise_tail(np.array([0, 20]), 1, 10.0).round(4).tolist()  # exp(-2) / (1 + exp(-.1)) at 20
        [0.525, 0.071]
    """
    before, failures = np.arange(number)[:, None], np.maximum(at, 1)
    chances = -np.diff(betainc(before + 1, failures, -math.expm1(-1 / scale)), axis=0, prepend=1.0)
    leads = _lead(number, scale)
    return np.asarray(np.where(at > 0, leads[:0:-1] @ chances, leads[-1]))


@cache
def _lead(number: int, scale: float) -> Floats:
    """Compute the chances that a series has at least the failures of another before its last success.

    Args:
        number: of successes of the other series.
        scale: as of `noise_tail`.

    Returns:
        For 0 to `number` successes of the first series, by those of the other one by one: its next trial succeeds, or
        fails and the first needs a failure, too.
    """
    fail = math.exp(-1 / scale)
    leads = [1.0] * (number + 1)
    for _ in range(number):
        matched, rows = 0.0, [0.0]
        for lead in leads[1:]:
            rows.append((lead + fail * matched) / (1 + fail))
            matched = fail * rows[-1] - math.expm1(-1 / scale) * matched
        leads = rows
    return np.array(leads)
