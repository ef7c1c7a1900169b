"""Delta of draws from a family's posterior under a prior that makes steep likelihoods rare (stochastic Lipschitz).

Dimitrakakis et al. (JMLR 2017) let the prior's mass outside `Theta_L`, the parameters whose likelihoods are
L-Lipschitz, fall with L (Assumption 2), and conclude from it in Theorem 8.2 and Corollary 9. A delta needs the
*posterior's* mass outside, for every data set that there can be. Of at most so many records it can be bounded on a
grid, exactly enough to be of use; no constant is stated by anybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from discreet.errors import require
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.research.scores.hockey_stick import METRIC_FACTOR, hockey_stick, range_delta
from discreet.research.scores.score_tables import SCORE_STEPS, ScoreTable
from discreet.util.arrays import Floats, Ints

SETS = 24
"""Sets of parameters that are tried; more gain less than a percent of the rate."""
GROUPS = 128
"""Groups of neighbouring parameters that the normaliser of a posterior is bounded by."""
CLIMBS = 200
"""Most steps of the search for the worst data set; each has a valid bound."""
NEGLIGIBLE = 10.0
"""Nats below delta at which a candidate's share needs no better bound: a thousand of them are a twentieth of delta."""
GAP = 0.05
"""Nats between the bound and a data set's share at which the search ends."""
MOST_CELLS = 2**26
"""Most probabilities in an enumeration of data sets: some seconds for a rate."""
MOST_WORK = 2**27
"""Most cells in a step of the search for the worst data sets."""
RATE_TOLERANCE = 1.01
"""Ratio of rates at which the search for the largest ends."""
FLOAT_RESERVE = 1e-6
"""Share of delta for the rounding of floats, which is below 1e-9 of each probability."""
RANGE_ROUNDING = 1 + 1e-12
"""Factor for the rounding of ranges, which small deltas would otherwise rest on."""
LOG_ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Rounding of a log ratio of two laws, for each nat of their largest log weight."""


@dataclass(frozen=True, eq=False)
class LikelyParameters:
    """Parameters that data sets of at most so many records can make likely, and the delta of draws that follows.

    Args:
        table: of log-likelihoods, with the prior as its base measure.
        guarantee: of the draws, with a delta.
        draws: independent ones.
        records: most records of a data set; None for any number.
        width: of a table with some of the candidates, by the guarantee's relation, as of `score_width`.
    """

    table: ScoreTable
    guarantee: Guarantee
    draws: int
    records: int | None
    width: Callable[[ScoreTable], int]

    def rate_between(self, low: float, high: float) -> float:
        """Find nearly the largest rate whose delta is within the guarantee's.

        Args:
            low: that keeps epsilon without a delta.
            high: largest one.
        """
        most = float(self.guarantee.delta) * (1 - FLOAT_RESERVE)
        if low >= high or self.delta(high) <= most:
            return high
        while high > low * RATE_TOLERANCE:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.delta(middle) <= most else (low, middle)
        return low

    def delta(self, rate: float) -> float:
        """Bound delta at epsilon of all draws at a rate; under a metric for each unit, at every distance.

        With a share of at most eta of every posterior outside a set, and a range R of log ratios inside, two draws have
        ratios within R inside once they are there, and are there with probabilities of at least 1 - eta. Delta is at
        most `eta + (1 - eta) range_delta(R, epsilon)`; under a metric at most `eta + (R - epsilon)+ / 4` for each unit.
        The least over the sets counts; where all data sets can be enumerated, and one draw is made, the exact
        divergence does if it is less.

        Args:
            rate: nats between the best and the worst score of a record.

        Source:
            Dimitrakakis et al. (JMLR 2017), Assumption 2 and Corollary 9, corrected; docs/theory.md, section 8.
        """
        shares = self._bound_shares(rate)
        deltas = [self._delta_of_set(share, rate * reach) for share, (_, reach) in zip(shares, self._sets, strict=True)]
        if self._enumerable and min(deltas) > float(self.guarantee.delta) * (1 - FLOAT_RESERVE):
            deltas.append(self._enumerate_delta(rate))
        return min(deltas)

    def _delta_of_set(self, share: float, reach: float) -> float:
        """Bound delta by the share outside a set and the range of a draw's log ratios inside."""
        outside = -math.expm1(self.draws * math.log1p(-min(share, 0.5)))
        epsilon, inside = float(self.guarantee.epsilon), self.draws * reach * RANGE_ROUNDING
        if share >= 0.5:
            return 1.0
        if self.guarantee.relation is Relation.METRIC:
            return outside + max(inside - epsilon, 0.0) / METRIC_FACTOR
        return outside + (1 - outside) * range_delta(inside, epsilon)

    @cached_property
    def _order(self) -> Ints:
        """The candidates, those first whose log-likelihoods change least, beside what they have in common."""
        prior = softmax(self.table.base)
        changes = self.table.steps - (self.table.steps @ prior)[:, None]
        return np.argsort(np.ptp(changes, axis=0), kind="stable")

    @cached_property
    def _steep(self) -> int:
        """Number of candidates that may be outside: of the steepest, up to half of the prior's mass."""
        mass = np.cumsum(softmax(self.table.base)[self._order[::-1]])
        return 0 if self.records is None else min(int(np.searchsorted(mass, 0.5)), self.table.size - 2)

    @cached_property
    def _sets(self) -> list[tuple[int, float]]:
        """For each set the number of candidates outside, and the range inside by the rate."""
        numbers = np.unique(np.linspace(0, self._steep, SETS).astype(np.int64)).tolist()
        return [(number, self._measure(np.sort(self._order[: self.table.size - number]))) for number in numbers]

    def _measure(self, inside: Ints) -> float:
        """Measure the range of log ratios among some candidates, in units of the rate."""
        table = self.table
        some = ScoreTable(
            table.network, table.names, table.candidates[inside], table.base[inside], table.steps[:, inside], table.span
        )
        return self.width(some) / SCORE_STEPS

    def _bound_shares(self, rate: float) -> Floats:
        """Bound the posterior's share outside each set, over all data sets."""
        outside = self._order[::-1][: self._steep]
        if self.records is None or not len(outside):
            return np.zeros(len(self._sets))
        base = self.table.base - logsumexp(self.table.base)
        nats = np.asarray(np.unique(self.table.steps, axis=0) * (rate / SCORE_STEPS), np.float64)
        shares = np.append(
            0.0, np.cumsum(np.exp(largest_shares(base, nats, self.records, outside, float(self.guarantee.delta))))
        )
        return np.asarray(shares[[number for number, _ in self._sets]])

    @property
    def _enumerable(self) -> bool:
        """True if there is one draw, one record is replaced, and all data sets can be enumerated."""
        types, most = len(self.table.steps), self.records
        if most is None or self.draws > 1 or self.guarantee.relation is not Relation.REPLACE:
            return False
        return math.comb(most - 1 + types, types) * types**2 * self.table.size <= MOST_CELLS

    def _enumerate_delta(self, rate: float) -> float:
        """Compute the largest delta of one draw over all pairs of data sets that differ in a record."""
        assert self.records is not None
        nats, worst = np.asarray(self.table.steps * (rate / SCORE_STEPS), np.float64), 0.0
        epsilon = float(self.guarantee.epsilon) - LOG_ROUNDING * _heaviest(self.table.base, nats, self.records)
        for rest in _list_counts(self.records - 1, len(nats)):
            logs = log_softmax(self.table.base + rest @ nats + nats[:, None], axis=2)
            for log_law in logs:
                worst = max(worst, float(hockey_stick(log_law, logs, epsilon).max()))
        return worst


def _list_counts(most: int, types: int) -> Iterator[Ints]:
    """List the counts of types of up to so many records, in one table for each number."""
    for records in range(most + 1):
        bars = np.array(list(combinations(range(records + types - 1), types - 1)), np.int64).reshape(-1, types - 1)
        ends = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), records + types - 1)], axis=1)
        yield np.diff(ends, axis=1) - 1


def largest_shares(base: Floats, nats: Floats, records: int, candidates: Ints, delta: float) -> Floats:
    """Bound a candidate's share in the posterior over all data sets of at most so many records.

    The logarithm of a share is concave in how often each type of record occurs, real numbers included: linear less a
    log-sum-exp. So its tangent at any data set, at its largest, is a bound (Frank and Wolfe); the search moves to where
    that is least. The log-sum-exp is bounded below by groups of neighbouring candidates, each at the mean of its
    log-likelihoods (Jensen), which keeps it concave.

    Args:
        base: normalised log weights of the candidates, shape `(Z,)`.
        nats: of each type of record for each candidate, shape `(types, Z)`.
        records: most records.
        candidates: whose shares are bounded.
        delta: shares above it, and far below it, are bounded roughly.

    Returns:
        Logarithms, at most 0.

    Raises:
        InputError: a table so large that the search takes too long.

    Example:
        >>> base, nats = np.log([0.9, 0.1]), np.log([[0.5, 0.2], [0.5, 0.8]])
        >>> np.exp(largest_shares(base, nats, 2, np.array([1]), 0.5)).round(3).tolist()  # two of type 2
        [0.221]
    """
    starts = np.unique(np.linspace(0, len(base), min(len(base), GROUPS), endpoint=False).astype(np.int64))
    group = np.logaddexp.reduceat(base, starts)
    spread = np.exp(base - np.repeat(group, np.diff(starts, append=len(base))))
    means, gains, log_prior = np.add.reduceat(nats * spread, starts, axis=1), nats[:, candidates].T, base[candidates]
    require(gains.size * len(group) <= MOST_WORK * 8, "too many types of records and parameters for a delta; use fewer")
    counts, best, left = np.zeros(gains.shape), np.zeros(len(gains)), np.arange(len(gains))
    rounding = LOG_ROUNDING * _heaviest(base, nats, records)
    for _ in range(CLIMBS):
        rows, here = gains[left], np.arange(len(left))
        sums = group + counts @ means
        value = log_prior[left] + (counts * rows).sum(axis=1) - logsumexp(sums, axis=1)
        slopes = rows - softmax(sums, axis=1) @ means.T
        to = slopes.argmax(axis=1)
        rise = np.maximum(slopes[here, to], 0)
        best[left] = np.minimum(best[left], value + records * rise - (counts * slopes).sum(axis=1) + rounding)
        far = (best[left] - value > GAP) & (best[left] > math.log(delta) - NEGLIGIBLE) & (value < math.log(delta))
        if not far.any():
            break
        goal = np.zeros(rows.shape)
        goal[here, to] = np.where(rise > 0, records, 0)
        ways = (goal - counts)[far]
        steps = _find_step(sums[far], ways @ means, (ways * rows[far]).sum(axis=1))
        counts, left = counts[far] + steps * ways, left[far]
    return best


def _heaviest(base: Floats, nats: Floats, records: int) -> float:
    """Find the largest log weight, in size, that a data set can give a candidate."""
    return float(np.abs(base).max() + records * np.abs(nats).max())


def _find_step(sums: Floats, change: Floats, gain: Floats) -> Floats:
    """Find the share of the way at which a candidate's share is largest, by bisection of its slope."""
    low, high = np.zeros((len(sums), 1)), np.ones((len(sums), 1))
    for _ in range(10):
        middle = (low + high) / 2
        rising = gain > (softmax(sums + middle * change, axis=1) * change).sum(axis=1)
        low, high = np.where(rising[:, None], middle, low), np.where(rising[:, None], high, middle)
    return (low + high) / 2
