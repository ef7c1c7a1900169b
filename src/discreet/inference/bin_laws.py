"""Distributions of numbers inside their bins: the unmeasured part of a numeric column's law, and the models for it.

A release contains the number of records in each bin but no information on their positions inside it. Two laws model
these:

    log-linear  the log density is linear in each bin. Its slope is the harmonic mean of the slopes of the log average
                density, midpoint to midpoint, towards the two neighbouring bins; 0 at a peak or trough; in the first
                and last bin it is the slope towards the only neighbour.
    uniform     the density is constant in each bin.

Both preserve every bin's share exactly and need no other input. docs/numbers.md compares their errors, and those of
monotone cubics (Fritsch and Carlson, 1980). With few bins no law inside bins is accurate, so answers also have the
interval over all laws.

A whole number n stands for the interval [n, n + 1), so a bin from 18 to 64 holds 47 numbers and has width 47; the
log-linear law is then geometric in each bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import require_word
from discreet.model.schema import Variable
from discreet.util.arrays import Floats, Ints
from discreet.util.option_texts import Inside

"""Distribution inside bins: log-linear density or uniform."""
STEEPEST_RISE = 30.0
"""Largest absolute change of the log density over one bin; reached beside a nearly empty bin."""
STEEPEST_STEP = 3.0
"""Largest change of the log density from bin to bin by which parabolas bend: of steeper ones noise decides."""
FLATTEST_RISE = 1e-9
"""Smallest such change, so that no denominator is 0."""
LEAST_SHARE = 1e-300
"""Share to which smaller ones are raised, so that logarithms stay finite."""
STEEPEST_TILT = 60.0
"""Largest change of the log density over the widest bin by which a law is tilted towards a measured mean."""
TILT_STEPS = 20
"""Bisections of the tilt: it is then known to a millionth of the largest."""
ENDS_TRIED = 65
"""Points of which one is nearest to all numbers, for the least variance."""
SERIES_RISE = 1e-3
"""Change below which the mean of a bin is computed by the first term of its series: the next is 1e-12 of the bin's
width."""


def check_inside(inside: str) -> None:
    """Raise an error unless a name is one of the laws inside bins, "log-linear" or "uniform".

    Raises:
        InputError: another name.
    """
    require_word(inside, Inside, "numbers lie inside bins by")


@dataclass(frozen=True, eq=False)
class BinLaw:
    """The law of numbers whose bins have given shares, with a log-linear density inside each bin.

    Results are per draw; they are NaN, or meaningless, in a draw in which the shares of all bins sum to 0.

    Args:
        edges: lower ends of the bins, and the upper end of the last, shape `(bins + 1,)`; of whole numbers the first
            number beyond.
        shares: of the bins, shape `(bins or more, draws)`; what follows them, such as a missing state, is ignored.
        rises: change of the log density from the lower to the upper end of each bin, shape `(bins, draws)`; never 0.
        integer: whether the numbers are whole.
        known_mean: mean of the numbers in every draw, shape `(draws,)`, if it was measured and is not that of the law.
        known_variance: likewise.
    """

    edges: Floats
    shares: Floats
    rises: Floats
    integer: bool
    known_mean: Floats | None = None
    known_variance: Floats | None = None

    @staticmethod
    def of_bins(variable: Variable, shares: Floats, inside: Inside = "log-linear") -> BinLaw:
        """Make the law of a numeric variable from the shares of its bins alone.

        Args:
            variable: numeric variable with bins.
            shares: of its states, shape `(size, draws)`, the bins first.
            inside: law inside bins.
        """
        edges = np.array(variable.edges)
        return BinLaw(edges, shares, _find_rises(edges, shares, inside), variable.whole)

    @staticmethod
    def by_parabolas(variable: Variable, shares: Floats) -> BinLaw:
        """Make the law whose slope in each bin is that of a parabola through the log densities of three bins.

        The log-linear law goes on in the first and last bin as before it, and is flat at a peak. So it makes normal
        columns in three bins a fifth too wide. A parabola falls ever more steeply: at the ends by up to twice the slope
        before, inside with the mean slope of both sides. It is exact for normal densities in narrow bins.

        Args:
            variable: numeric variable with bins; of fewer than three the law is log-linear.
            shares: of its states, shape `(size, draws)`, the bins first; those below 1e-12 are raised to it.
        """
        law = BinLaw.of_bins(variable, shares)
        width = np.diff(law.edges)[:, None]
        if len(width) < 3:
            return law
        apart = (width[1:] + width[:-1]) / 2
        logs = np.log(np.maximum(shares[: len(width)], 1e-12) / width)
        slopes = np.clip(np.diff(logs, axis=0), -STEEPEST_STEP, STEEPEST_STEP) / apart
        middle = (slopes[1:] + slopes[:-1]) / 2
        ends = list[Floats]()
        for end, next_ in ((0, 1), (-1, -2)):
            turn = (slopes[end] - slopes[next_]) * apart[end] / (apart[end] + apart[next_])
            ends.append(slopes[end] + np.clip(turn, -np.abs(slopes[end]), np.abs(slopes[end])))
        rises = np.concatenate([ends[0][None], middle, ends[1][None]]) * width
        return replace(law, rises=np.where(np.abs(rises) < FLATTEST_RISE, FLATTEST_RISE, rises))

    @cached_property
    def lowest(self) -> Floats:
        """The smallest number of each bin, shape `(bins,)`."""
        return self.edges[:-1]

    @cached_property
    def highest(self) -> Floats:
        """The largest number of each bin, shape `(bins,)`: the next edge, less 1 for whole numbers."""
        return self.edges[1:] - self.integer

    @cached_property
    def below(self) -> Floats:
        """Share below each edge, shape `(bins + 1, draws)`: `cumsum(shares of bins) / sum(shares of bins)`.

        The first row is 0 and the last exactly 1; all but the first are NaN in a draw in which the sum is 0. Computed
        once.
        """
        sums = np.cumsum(self.shares[: len(self.edges) - 1], axis=0)
        return np.concatenate([np.zeros((1, sums.shape[1])), sums / sums[-1]])

    def up_to(self, number: float) -> Floats:
        """Compute the share of the numbers below `number`, shape `(draws,)`: 0 below all bins, 1 above them.

        At a fraction t of a bin with rise r it has `(e^(r t) - 1) / (e^r - 1)` of the bin's share. A whole number n
        stands for the interval [n, n + 1), so that only whole arguments give shares of whole numbers.
        """
        at = min(max(number, self.edges[0]), self.edges[-1])
        bin = min(int(np.searchsorted(self.edges, at, side="right")), len(self.edges) - 1) - 1
        position = (at - self.edges[bin]) / (self.edges[bin + 1] - self.edges[bin])
        # A density ~ exp(rise t) on [0, 1] has the share (e^(rise t) - 1) / (e^rise - 1) below t.
        share = np.expm1(self.rises[bin] * position) / np.expm1(self.rises[bin])
        return np.asarray(self.below[bin] + (self.below[bin + 1] - self.below[bin]) * share)

    def moved(self, shift: Floats, scale: Floats) -> BinLaw:
        """Return the law of the numbers moved and drawn together about their mean, in the same bins.

        Args:
            shift: of the mean, shape `(draws,)`.
            scale: of the distances from the mean, above 0, shape `(draws,)`.

        Returns:
            The law of `mean + shift + scale (x - mean)`; what would leave the bins is in the first and last one. Inside
            the bins it is log-linear again.
        """
        mean = (np.diff(self.below, axis=0) * self.centres()).sum(axis=0)
        places = np.clip(mean + (self.edges[1:-1, None] - mean - shift) / scale, self.edges[0], self.edges[-1])
        bins = np.clip(np.searchsorted(self.edges, places, side="right") - 1, 0, len(self.edges) - 2)
        columns = np.arange(len(mean))
        low, high = self.below[bins, columns], self.below[bins + 1, columns]
        rises = self.rises[bins, columns]
        parts = np.expm1(rises * (places - self.edges[bins]) / np.diff(self.edges)[bins]) / np.expm1(rises)
        below = np.concatenate([np.zeros((1, len(mean))), low + (high - low) * parts, np.ones((1, len(mean)))])
        shares = np.maximum(np.diff(below, axis=0), 0.0)
        return BinLaw(self.edges, shares, _find_rises(self.edges, shares, "log-linear"), self.integer)

    def means(self) -> Floats:
        """Compute the mean of the numbers in each bin under the law inside bins, shape `(bins, draws)`.

        It is `lower edge + width (1/2 + d)` with d as in `_find_mean_offset`; for whole numbers it is that of the whole
        numbers, less than this by the mean of the fraction.
        """
        width = np.diff(self.edges)[:, None]
        means = self.edges[:-1, None] + width * (0.5 + _find_mean_offset(self.rises))
        if self.integer:  # less the mean of the fraction, which has the same slope
            means -= 0.5 + _find_mean_offset(self.rises / width)
        return np.asarray(means)

    def centres(self) -> Floats:
        """Mean of each bin's interval law, where a whole number x stands for [x, x + 1), shape `(bins, draws)`."""
        return np.asarray(self.edges[:-1, None] + np.diff(self.edges)[:, None] * (0.5 + _find_mean_offset(self.rises)))

    def of_draws(self, draws: Any) -> BinLaw:
        """Return the law under some of the draws; `draws` selects them from an array."""
        mean, variance = (None if known is None else known[draws] for known in (self.known_mean, self.known_variance))
        return BinLaw(self.edges, self.shares[:, draws], self.rises[:, draws], self.integer, mean, variance)

    def given(self, bins: Floats, bin_of_cell: Ints) -> BinLaw:
        """Return the law with other shares of larger bins, and the same law inside each.

        Args:
            bins: new shares, shape `(larger bins, draws)`.
            bin_of_cell: larger bin of each bin, ascending, shape `(bins,)`.

        Returns:
            A law without a known mean. A larger bin that had no share is divided evenly.
        """
        shares = self.shares[: len(self.edges) - 1] + LEAST_SHARE
        totals = np.add.reduceat(shares, np.searchsorted(bin_of_cell, np.arange(len(bins))))
        return BinLaw(self.edges, bins[bin_of_cell] * shares / totals[bin_of_cell], self.rises, self.integer)

    def within(self, low: float, high: float) -> BinLaw:
        """Restrict the law to [low, high), of which a part lies inside its edges; shares are not normalised.

        Args:
            low, high: in the unit of the variable; of whole numbers the first, and the first number beyond.

        Returns:
            A law whose first and last edge are the ends; the shares of its bins are what they were, of cut bins the
            part inside.
        """
        low_ends, high_ends = np.clip(self.edges[:-1], low, high), np.clip(self.edges[1:], low, high)
        cut = np.flatnonzero(high_ends > low_ends)
        starts, rises = self.edges[cut], self.rises[cut]
        first, last = (((ends[cut] - starts) / np.diff(self.edges)[cut])[:, None] for ends in (low_ends, high_ends))
        # A density ~ exp(rise t) on [0, 1] has the share (e^(rise b) - e^(rise a)) / (e^rise - 1) between a and b.
        growth = np.exp(rises * first) * np.expm1(rises * (last - first))
        inside = np.where((first == 0) & (last == 1), 1.0, growth / np.expm1(rises))
        edges = np.append(low_ends[cut], high_ends[cut[-1]])
        part = rises * (last - first)
        part = np.where(np.abs(part) < FLATTEST_RISE, FLATTEST_RISE, part)
        return BinLaw(edges, self.shares[cut] * inside, part, self.integer)

    def mean(self) -> Floats:
        """Compute the mean of the numbers in every draw, shape `(draws,)`: the measured one if it is known."""
        if self.known_mean is not None:
            return self.known_mean
        return np.asarray((np.diff(self.below, axis=0) * self.means()).sum(axis=0))

    def quantile(self, share: float) -> Floats:
        """Compute the quantile of level `share`, shape `(draws,)`.

        It lies in the first bin whose cumulative share reaches the level (up to 1e-12), at the place that the law
        inside bins gives. Of whole numbers it is the smallest with at least the level at or below it, found with a
        tolerance of 1e-9, and kept inside its bin.
        """
        bins = self._find_bins(share)
        columns = np.arange(len(bins))
        below, beyond = self.below[bins, columns], self.below[bins + 1, columns]
        within = np.clip((share - below) / np.maximum(beyond - below, LEAST_SHARE), 0.0, 1.0)
        numbers = self.edges[bins] + np.diff(self.edges)[bins] * _invert_share(within, self.rises[bins, columns])
        # The upper end of a whole number is the next one, up to rounding.
        return np.clip(np.ceil(numbers - 1e-9) - 1, self.lowest[bins], self.highest[bins]) if self.integer else numbers

    def variance(self) -> Floats:
        """Compute the variance of the numbers in every draw, shape `(draws,)`: the measured one if it is known."""
        if self.known_variance is not None:
            return self.known_variance
        shares, width = np.diff(self.below, axis=0), np.diff(self.edges)[:, None]
        means = self.means()
        inside = width**2 * _find_spread(self.rises)
        if self.integer:  # less that of the fraction, which is independent of the whole number
            inside -= _find_spread(self.rises / width)
        return np.asarray((shares * (means - (shares * means).sum(axis=0)) ** 2 + shares * inside).sum(axis=0))

    def variance_ends(self) -> tuple[Floats, Floats]:
        """Bound the variance over all laws inside the bins, shape `(draws,)` each; the known one is both.

        The lower bound is the least mean square distance of a point from the bins, among `ENDS_TRIED` points; the upper
        one that of the law's mean from the farther end of each bin.
        """
        if self.known_variance is not None:
            return self.known_variance, self.known_variance
        shares, mean = np.diff(self.below, axis=0), self.mean()
        low, high = self.lowest[:, None], self.highest[:, None]
        points = np.linspace(self.lowest[0], self.highest[-1], ENDS_TRIED)
        squares = [(shares * np.maximum(np.maximum(low - at, at - high), 0.0) ** 2).sum(axis=0) for at in points]
        nearest = np.min(squares, axis=0)
        return nearest, (shares * np.maximum(np.abs(low - mean), np.abs(high - mean)) ** 2).sum(axis=0)

    def mean_ends(self) -> tuple[Floats, Floats]:
        """Compute the smallest and largest mean over all laws inside the bins, shape `(draws,)` each.

        They are those of all numbers at the lower, and at the upper ends of their bins (`lowest`, `highest`). A known
        mean is both.
        """
        if self.known_mean is not None:
            return self.known_mean, self.known_mean
        shares = np.diff(self.below, axis=0)
        return self.lowest @ shares, self.highest @ shares

    def quantile_ends(self, share: float) -> tuple[Floats, Floats]:
        """Compute the smallest and largest quantile over all laws inside the bins, shape `(draws,)` each.

        They are `lowest` and `highest` of the first bin whose cumulative share reaches `share`, up to 1e-12.
        """
        bins = self._find_bins(share)
        return self.lowest[bins], self.highest[bins]

    def above(self, number: float, *, inclusive: bool) -> tuple[Floats, Floats, Floats]:
        """Compute the share of the numbers above `number`, in every draw.

        Args:
            number: number to compare with, in the variable's unit; it may lie outside the bins or, for whole numbers,
                be a fraction.
            inclusive: whether the number itself is included: the share at or above it. This matters for whole numbers,
                and for the ends over all laws; under a law of real numbers a single number has share 0.

        Returns:
            The share under the law, and the smallest and largest share over all laws inside the bins, shape `(draws,)`
            each. A bin counts in the smallest share if all its numbers are above, in the largest if some are. The upper
            edge of a bin of real numbers belongs to the next bin, except that of the last.
        """
        shares = np.diff(self.below, axis=0)
        first, surely, maybe = self.beyond(number, inclusive=inclusive)
        return 1 - self.up_to(first), surely @ shares, maybe @ shares

    def beyond(self, number: float, *, inclusive: bool) -> tuple[float, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Find the bins whose numbers lie above a number.

        Args:
            number, inclusive: as in `above`.

        Returns:
            (first, surely, maybe): the number from which on numbers lie above, which for whole numbers is the next
            whole one; flags of the bins in which all numbers do, and of those in which some may, shape `(bins,)` each.
            The upper edge of a bin of real numbers belongs to the next bin, except that of the last.
        """
        if self.integer:
            first = float(math.ceil(number) if inclusive else math.floor(number) + 1)
            return first, self.lowest >= first, self.highest >= first
        maybe = self.highest > number
        maybe[-1] |= inclusive and number <= self.highest[-1]
        return number, self.lowest >= number if inclusive else self.lowest > number, maybe

    def sample(self, codes: npt.NDArray[np.integer], rng: np.random.Generator) -> npt.NDArray[np.generic]:
        """Draw a number in each of the given bins, under the shares and the law inside bins of the first draw.

        Args:
            codes: positions of bins, each from 0 to the number of bins less 1, shape `(records,)`.
            rng: source of randomness; one uniform number is drawn for each record.

        Returns:
            int64 for whole numbers, else float64, shape `(records,)`; at least the lower edge of the bin, and less than
            its upper edge.
        """
        return self.place(codes, rng.random(len(codes)), 0)

    def place(
        self, codes: npt.NDArray[np.integer], shares: Floats, draws: npt.NDArray[np.integer] | int
    ) -> npt.NDArray[np.generic]:
        """Compute quantiles of the law inside bins, one for each of some records.

        Args:
            codes: positions of bins, as in `sample`.
            shares: share of the bin's numbers below the result, from 0 to 1, shape `(records,)`.
            draws: draw of each record's law.

        Returns:
            As of `sample`.
        """
        low, width = self.edges[codes], np.diff(self.edges)[codes]
        offsets = width * _invert_share(shares, self.rises[codes, draws])
        numbers = np.minimum(low + offsets, np.nextafter(low + width, low))  # the upper end belongs to the next bin
        return np.asarray(np.floor(numbers).astype(np.int64) if self.integer else numbers)

    def _find_bins(self, share: float) -> npt.NDArray[np.intp]:
        """Find the first bin at whose upper edge the cumulative share reaches `share`, up to 1e-12.

        Returns:
            Positions of the bins, shape `(draws,)`; 0 in a draw in which no edge reaches it, as where shares are NaN.
        """
        reached = self.below[1:] >= share - 1e-12
        return np.asarray(np.argmax(reached, axis=0))


def move_means(law: BinLaw, bin_of_cell: Ints, targets: Floats) -> BinLaw:
    """Tilt a law inside larger bins so that its numbers have a given mean in each: density times `exp(slope x)`.

    The shares of the larger bins stay. Of all laws with these shares and means it is the one closest to the given law
    in relative entropy (Csiszar, 1975). The slope of each larger bin and draw is found by TILT_STEPS bisections.

    Args:
        law: to tilt.
        bin_of_cell: larger bin of each bin of the law, ascending, shape `(bins,)`.
        targets: wanted means of the intervals' numbers (`centres`), shape `(larger bins, draws)`; where no tilt of
            `STEEPEST_TILT` reaches one, the nearest is taken.

    Returns:
        A law without a known mean.
    """
    starts = np.searchsorted(bin_of_cell, np.arange(len(targets)))
    ends = np.append(law.edges[:-1][starts], law.edges[-1])
    width, low = np.diff(law.edges)[:, None], (law.edges[:-1] - ends[:-1][bin_of_cell])[:, None]
    shares = law.shares[: len(width)] + LEAST_SHARE
    totals, base = np.add.reduceat(shares, starts), np.log(shares) - _log_growth(law.rises)

    def tilt(slope: Floats) -> tuple[Floats, BinLaw]:
        rises = law.rises + slope[bin_of_cell] * width
        rises = np.where(np.abs(rises) < FLATTEST_RISE, FLATTEST_RISE, rises)
        logs = base + slope[bin_of_cell] * low + _log_growth(rises)
        parts = np.exp(logs - np.maximum.reduceat(logs, starts)[bin_of_cell])
        inside = parts / np.add.reduceat(parts, starts)[bin_of_cell]
        moved = BinLaw(law.edges, totals[bin_of_cell] * inside, rises, law.integer)
        return np.asarray(np.add.reduceat(inside * moved.centres(), starts)), moved

    above = np.broadcast_to((STEEPEST_TILT / np.diff(ends))[:, None], targets.shape)
    below = -above
    for _ in range(TILT_STEPS):
        slope = (below + above) / 2
        under = tilt(slope)[0] < targets
        below, above = np.where(under, slope, below), np.where(under, above, slope)
    return tilt((below + above) / 2)[1]


def _log_growth(rise: Floats) -> Floats:
    """Compute `log((e^rise - 1) / rise)`, the log of the mean of `exp(rise t)` over t in [0, 1]."""
    size = np.abs(rise)
    return np.asarray(np.maximum(rise, 0.0) + np.log(-np.expm1(-size) / size))


def _find_rises(edges: Floats, shares: Floats, inside: Inside) -> Floats:
    """Compute the change of the log density from the lower to the upper end of each bin, shape `(bins, draws)`.

    The slope between two neighbouring bins is the difference of the logs of their average densities over the distance
    of their midpoints; shares below LEAST_SHARE are raised to it. The rise of a bin is its width times the harmonic
    mean `2 / (1 / s + 1 / t)` of the slopes s and t towards its two neighbours, 0 if their signs differ, and times the
    only slope in the first and last bin. Steep rises are clipped to +-STEEPEST_RISE. Rises smaller than FLATTEST_RISE
    in absolute value, and all of the uniform law or of a single bin, are replaced by the positive number FLATTEST_RISE.
    """
    width, bins = np.diff(edges)[:, None], len(edges) - 1
    if inside == "uniform" or bins < 2:
        return np.full((bins, shares.shape[1]), FLATTEST_RISE)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = shares[:bins] / shares[:bins].sum(axis=0)
        logs = np.log(np.maximum(parts, LEAST_SHARE)) - np.log(width)
        slopes = np.diff(logs, axis=0) / ((width[1:] + width[:-1]) / 2)
        before, after = np.concatenate([slopes[:1], slopes]), np.concatenate([slopes, slopes[-1:]])
        # Harmonic mean of the neighbours' slopes, 0 at a change of sign (Fritsch and Butland, 1984).
        rises = np.where(np.sign(before) == np.sign(after), 2 / (1 / before + 1 / after), 0.0) * width
    return np.where(np.abs(rises) < FLATTEST_RISE, FLATTEST_RISE, np.clip(rises, -STEEPEST_RISE, STEEPEST_RISE))


def _invert_share(share: Floats, rise: Floats) -> Floats:
    """Compute the quantile function inside a bin, from 0 to 1: `ln(1 + share (e^rise - 1)) / rise`, rise not 0.

    Args:
        share: share of the bin's numbers below the result, from 0 to 1.
        rise: change of the log density over the bin; of a shape that broadcasts with `share`.
    """
    return np.asarray(np.log1p(share * np.expm1(rise)) / rise)


def _find_spread(rise: Floats) -> Floats:
    """Compute the variance of a number inside a bin of width 1: `1 / rise^2 - 1 / (4 sinh(rise / 2)^2)`."""
    large = np.where(np.abs(rise) < SERIES_RISE, 1.0, rise)
    return np.where(np.abs(rise) < SERIES_RISE, 1 / 12, 1 / large**2 - 1 / (4 * np.sinh(large / 2) ** 2))


def _find_mean_offset(rise: Floats) -> Floats:
    """Compute the distance of a bin's mean from its middle, in widths of the bin: `1 / (2 tanh(rise / 2)) - 1 / rise`.

    If the change of the log density, `rise`, is below SERIES_RISE in absolute value, `rise / 12` is returned.
    """
    large = np.where(np.abs(rise) < SERIES_RISE, 1.0, rise)
    return np.where(np.abs(rise) < SERIES_RISE, rise / 12, 0.5 / np.tanh(large / 2) - 1 / large)
