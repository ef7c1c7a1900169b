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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from discreet.errors import require_word
from discreet.model.schema import Variable
from discreet.util.arrays import Floats
from discreet.util.option_texts import Inside

"""Distribution inside bins: log-linear density or uniform."""
STEEPEST_RISE = 30.0
"""Largest absolute change of the log density over one bin; reached beside a nearly empty bin."""
FLATTEST_RISE = 1e-9
"""Smallest such change, so that no denominator is 0."""
LEAST_SHARE = 1e-300
"""Share to which smaller ones are raised, so that logarithms stay finite."""
SERIES_RISE = 1e-3
"""Change below which the mean of a bin is computed by the first term of its series: the next is 1e-12 of the bin's
width."""


def check_inside(inside: str) -> None:
    """Raise an error unless a name is one of the laws inside bins.

    Raises:
        InputError: another name.
    """
    require_word(inside, Inside, "numbers lie inside bins by")


@dataclass(frozen=True, eq=False)
class BinLaw:
    """The law of a numeric variable whose bins have given shares.

    Args:
        variable: numeric variable with bins.
        shares: shares of its states, shape `(size, draws)`, the bins first; other states are ignored.
        inside: law inside bins.
    """

    variable: Variable
    shares: Floats
    inside: Inside = "log-linear"

    @cached_property
    def edges(self) -> Floats:
        """Lower ends of the bins, and the upper end of the last."""
        return np.array(self.variable.edges)

    @property
    def integer(self) -> bool:
        """True if the numbers are whole."""
        return self.variable.type == "integer"

    @cached_property
    def lowest(self) -> Floats:
        """The smallest number of each bin."""
        return self.edges[:-1]

    @cached_property
    def highest(self) -> Floats:
        """The largest number of each bin, or the first beyond it where they are real."""
        return self.edges[1:] - self.integer

    @cached_property
    def below(self) -> Floats:
        """Share below each edge, shape `(bins + 1, draws)`, the last exactly 1."""
        sums = np.cumsum(self.shares[: len(self.edges) - 1], axis=0)
        return np.concatenate([np.zeros((1, sums.shape[1])), sums / sums[-1]])

    @cached_property
    def rises(self) -> Floats:
        """Change of the log density from the lower to the upper end of each bin, shape `(bins, draws)`.

        Steep changes are clipped to +-STEEPEST_RISE. Changes smaller than FLATTEST_RISE, and all of the uniform law or
        of a single bin, are replaced by the positive number FLATTEST_RISE, so that none is 0.
        """
        width = np.diff(self.edges)[:, None]
        if self.inside == "uniform" or len(width) < 2:
            return np.full((len(width), self.below.shape[1]), FLATTEST_RISE)
        logs = np.log(np.maximum(np.diff(self.below, axis=0), LEAST_SHARE)) - np.log(width)
        slopes = np.diff(logs, axis=0) / ((width[1:] + width[:-1]) / 2)
        before, after = np.concatenate([slopes[:1], slopes]), np.concatenate([slopes, slopes[-1:]])
        with np.errstate(divide="ignore", invalid="ignore"):
            # Harmonic mean of the neighbours' slopes, 0 at a change of sign (Fritsch and Butland, 1984).
            rises = np.where(np.sign(before) == np.sign(after), 2 / (1 / before + 1 / after), 0.0) * width
        return np.where(np.abs(rises) < FLATTEST_RISE, FLATTEST_RISE, np.clip(rises, -STEEPEST_RISE, STEEPEST_RISE))

    def up_to(self, number: float) -> Floats:
        """Compute the share of the numbers below `number`, shape `(draws,)`."""
        at = min(max(number, self.edges[0]), self.edges[-1])
        bin = min(int(np.searchsorted(self.edges, at, side="right")), len(self.edges) - 1) - 1
        position = (at - self.edges[bin]) / (self.edges[bin + 1] - self.edges[bin])
        # A density ~ exp(rise t) on [0, 1] has the share (e^(rise t) - 1) / (e^rise - 1) below t.
        share = np.expm1(self.rises[bin] * position) / np.expm1(self.rises[bin])
        return np.asarray(self.below[bin] + (self.below[bin + 1] - self.below[bin]) * share)

    def means(self) -> Floats:
        """Mean of the numbers in each bin, shape `(bins, draws)`."""
        width = np.diff(self.edges)[:, None]
        means = self.edges[:-1, None] + width * (0.5 + _find_mean_offset(self.rises))
        if self.integer:  # less the mean of the fraction, which has the same slope
            means -= 0.5 + _find_mean_offset(self.rises / width)
        return np.asarray(means)

    def mean(self) -> Floats:
        """Compute the mean of the variable in every draw, shape `(draws,)`."""
        return np.asarray((np.diff(self.below, axis=0) * self.means()).sum(axis=0))

    def quantile(self, share: float) -> Floats:
        """Compute a quantile, shape `(draws,)`; of whole numbers the smallest with at least `share` at or below it."""
        bins = self._find_bins(share)
        columns = np.arange(len(bins))
        below, beyond = self.below[bins, columns], self.below[bins + 1, columns]
        within = np.clip((share - below) / np.maximum(beyond - below, LEAST_SHARE), 0.0, 1.0)
        numbers = self.edges[bins] + np.diff(self.edges)[bins] * _invert_share(within, self.rises[bins, columns])
        # The upper end of a whole number is the next one, up to rounding.
        return np.clip(np.ceil(numbers - 1e-9) - 1, self.lowest[bins], self.highest[bins]) if self.integer else numbers

    def mean_ends(self) -> tuple[Floats, Floats]:
        """Compute the smallest and largest mean over all laws inside the bins, shape `(draws,)` each."""
        shares = np.diff(self.below, axis=0)
        return self.lowest @ shares, self.highest @ shares

    def quantile_ends(self, share: float) -> tuple[Floats, Floats]:
        """Compute the smallest and largest quantile over all laws inside the bins, shape `(draws,)` each."""
        bins = self._find_bins(share)
        return self.lowest[bins], self.highest[bins]

    def above(self, number: float, *, inclusive: bool) -> tuple[Floats, Floats, Floats]:
        """Compute the share of the numbers above `number`, in every draw.

        Args:
            number: number to compare with, in the variable's unit.
            inclusive: whether the number itself is included: the share at or above it. This matters for whole numbers,
                and for the ends over all laws.

        Returns:
            The share under the law, and the smallest and largest share over all laws inside the bins, shape `(draws,)`
            each.
        """
        shares = np.diff(self.below, axis=0)
        if self.integer:
            first = float(math.ceil(number) if inclusive else math.floor(number) + 1)
            surely, maybe = self.lowest >= first, self.highest >= first
        else:
            first = number
            surely = self.lowest >= number if inclusive else self.lowest > number
            maybe = self.highest > number
            maybe[-1] |= inclusive and number <= self.highest[-1]
        return 1 - self.up_to(first), surely @ shares, maybe @ shares

    def sample(self, codes: npt.NDArray[np.integer], rng: np.random.Generator) -> npt.NDArray[np.generic]:
        """Draw numbers in given bins, from the law of the first draw.

        Args:
            codes: bins, shape `(records,)`.
            rng: source of randomness.

        Returns:
            int64 for whole numbers, else float64, shape `(records,)`.
        """
        low, width = self.edges[codes], np.diff(self.edges)[codes]
        offsets = width * _invert_share(rng.random(len(codes)), self.rises[codes, 0])
        numbers = np.minimum(low + offsets, np.nextafter(low + width, low))  # the upper end belongs to the next bin
        return np.asarray(np.floor(numbers).astype(np.int64) if self.integer else numbers)

    def _find_bins(self, share: float) -> npt.NDArray[np.intp]:
        """Find the bin in which the cumulative shares reach `share`, shape `(draws,)`."""
        reached = self.below[1:] >= share - 1e-12
        return np.asarray(np.argmax(reached, axis=0))


def _invert_share(share: Floats, rise: Floats) -> Floats:
    """Compute the quantile function inside a bin, from 0 to 1: `ln(1 + share (e^rise - 1)) / rise`."""
    return np.asarray(np.log1p(share * np.expm1(rise)) / rise)


def _find_mean_offset(rise: Floats) -> Floats:
    """Compute the distance of a bin's mean from its middle, in widths of the bin."""
    large = np.where(np.abs(rise) < SERIES_RISE, 1.0, rise)
    return np.where(np.abs(rise) < SERIES_RISE, rise / 12, 0.5 / np.tanh(large / 2) - 1 / large)
