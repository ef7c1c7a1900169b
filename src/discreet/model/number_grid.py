"""Public integer grid of a numeric column: what a record adds to the sums of numbers that are released beside tables.

Tables tell the bin of a number. Its offset, the distance from the middle of its bin in whole *steps*, tells the rest.
`STEPS` steps make half of the widest bin, so an offset lies in -STEPS..STEPS, whatever the number is: that bounds what
one record can do to any sum of offsets. Bins are divided into *leaves*, narrower bins of about equal width, for a finer
one-way table.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError, shown
from discreet.model.network import Network
from discreet.model.schema import Scope, Variable, write_gaps
from discreet.util.arrays import Floats, Ints

STEPS = 2**14
"""Steps of half of the widest bin; the error of rounding a number to a step is at most a 65,536th of that bin."""
MOST_LEAVES = 64
"""Most leaves of a column, unless it has more bins."""
LEAF_SPACINGS = 4
"""Least width of a leaf of real numbers, in distances from a number to the next that 64 bits can write."""


@dataclass(frozen=True)
class NumberGrid:
    """Bins, leaves and steps of a numeric variable with bins.

    Args:
        variable: public.

    Raises:
        InputError: the variable is not numeric, or has no bins.

    Example:
        >>> grid = NumberGrid(Variable("age", bounds=(0, 120), bins=(40, 60)))
        >>> grid.step * STEPS, grid.offsets(np.array([0.0, 50.0, 90.0]), np.array([0, 1, 2])).tolist()
        (30.0, [-10923, 0, 0])
        >>> grid.finest, grid.leaf_edges(2).tolist()
        (16, [0.0, 20.0, 40.0, 50.0, 60.0, 90.0, 120.0])
    """

    variable: Variable

    def __post_init__(self) -> None:
        """Refuse a variable without bins."""
        if not self.variable.numeric or not self.variable.size:
            raise InputError(f"variable {shown(self.variable.name)} has no bins of numbers")

    @cached_property
    def edges(self) -> Floats:
        """Ends of the bins, shape `(bins + 1,)`; of whole numbers the last is the first number beyond."""
        return np.array(self.variable.edges)

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest number."""
        assert self.variable.bounds is not None
        return self.variable.bounds

    @property
    def bins(self) -> int:
        """Number of bins; the state for missing values is none."""
        return len(self.edges) - 1

    @cached_property
    def middles(self) -> Floats:
        """Middle of each bin, shape `(bins,)`; the interval of a whole number x is [x, x + 1)."""
        return self.edges[1:] / 2 + self.edges[:-1] / 2

    @cached_property
    def centred(self) -> Floats:
        """Middle of each bin less that of the range, shape `(bins,)`."""
        return np.asarray(self.middles - (self.edges[0] + self.edges[-1]) / 2)

    @property
    def shift(self) -> float:
        """Distance from a number to the middle of its interval: 1/2 for whole numbers, else 0."""
        return 0.5 if self.variable.whole else 0.0

    @cached_property
    def step(self) -> float:
        """Length of a step, in the unit of the column; above 0, whatever the bins are."""
        return max(float(np.diff(self.edges).max()) / (2 * STEPS), math.ulp(0))

    @cached_property
    def reach(self) -> Ints:
        """Largest absolute offset in each bin, in steps, shape `(bins,)`; of the widest it is STEPS."""
        return np.minimum(_round_up(np.diff(self.edges) / (2 * self.step)), STEPS)

    @cached_property
    def anchors(self) -> Ints:
        """Middle of each bin less that of the range, in whole steps, shape `(bins,)`."""
        return _round((self.middles - (self.edges[0] / 2 + self.edges[-1] / 2)) / self.step)

    def offsets(self, numbers: Floats, bins: npt.NDArray[np.integer]) -> Ints:
        """Compute the offsets of numbers from the middles of their bins, in whole steps.

        Args:
            numbers: shape `(records,)`; those outside the bounds count as the nearer bound.
            bins: of each number.

        Returns:
            int64, shape `(records,)`; `round((x - middle) / step)`, within `reach` of 0.
        """
        steps = np.floor((np.clip(numbers, *self.bounds) + (self.shift - self.middles)[bins]) / self.step + 0.5)
        reach = self.reach[bins]
        return np.asarray(np.clip(steps, -reach, reach).astype(np.int64))

    # ---------------------------------------------------------------------------------------------------- leaves

    @cached_property
    def finest(self) -> int:
        """Most leaves of a bin: the largest power of two for which all bins have at most `MOST_LEAVES`; at least 1.

        Fewer where floats between the ends of a bin are fewer.
        """
        most = int(2 ** np.floor(np.log2(max(MOST_LEAVES / self.bins, 1))))
        while np.any(np.diff(self.leaf_edges(most)) <= 0):
            most //= 2
        return most

    def leaves_of_bins(self, leaves: int) -> Ints:
        """Count the leaves of each bin, shape `(bins,)`.

        Args:
            leaves: wanted for each bin, a power of two. A bin of fewer whole numbers, or of fewer numbers that 64 bits
                tell apart, has a smaller power of two.
        """
        largest = min(float(np.abs(self.edges).max()), sys.float_info.max / 2)
        apart = 1.0 if self.shift else LEAF_SPACINGS * float(np.spacing(largest))
        return _round(np.minimum(leaves, 2 ** np.floor(np.log2(np.maximum(np.diff(self.edges) / apart, 1.0)))))

    def leaf_edges(self, leaves: int) -> Floats:
        """List the ends of the leaves; those of fewer leaves are among those of more.

        Args:
            leaves: as of `leaves_of_bins`.

        Returns:
            Shape `(leaves in all + 1,)`; whole for whole numbers.
        """
        ends = [self.edges[:1]]
        for (low, high), parts in zip(pairwise(self.edges), self.leaves_of_bins(leaves).tolist(), strict=True):
            inner = low + (high - low) * (np.arange(1, parts) / parts)
            ends += [np.floor(inner) if self.shift else inner, np.array([high])]
        return np.concatenate(ends)

    def bin_of_leaf(self, leaves: int) -> Ints:
        """Find the bin of each leaf, shape `(leaves in all,)`."""
        return np.repeat(np.arange(self.bins), self.leaves_of_bins(leaves))

    def coarsen(self, finest: Ints, leaves: int) -> Ints:
        """Add up a table of the finest leaves to fewer of them.

        Args:
            finest: shape `(finest leaves in all, ...)`.
            leaves: wanted for each bin.

        Returns:
            Shape `(leaves in all, ...)`.
        """
        starts = np.searchsorted(self.leaf_edges(self.finest)[:-1], self.leaf_edges(leaves)[:-1])
        return np.asarray(np.add.reduceat(finest, starts, axis=0))

    @property
    def refined(self) -> Variable:
        """The variable with the finest leaves as bins."""
        cuts = tuple(self.leaf_edges(self.finest)[1:-1].tolist())
        # Numbers for names: those of the ends in 16 digits may be the same.
        names = tuple(map(str, range(len(cuts) + 1)))
        gaps: dict[str, Any] = {
            name: text if name == "applies_if" else name for name, text in write_gaps(self.variable).items()
        }
        return Variable(self.variable.name, names, self.variable.bounds, cuts, self.variable.type, **gaps)


def _round(lengths: Floats) -> Ints:
    """Round lengths in steps to whole ones."""
    return np.asarray(np.rint(lengths).astype(np.int64))


def _round_up(lengths: Floats) -> Ints:
    """Round lengths in steps up to whole ones; a length that is whole but for rounding stays."""
    return np.asarray(np.ceil(lengths - 1e-6).astype(np.int64))


def number_grids(network: Network) -> dict[str, NumberGrid]:
    """Make the grids of the numeric variables of a network, by name, in the schema's order."""
    return {variable.name: NumberGrid(variable) for variable in network.variables if variable.numeric and variable.size}


def number_pairs(grids: dict[str, NumberGrid], scopes: list[Scope]) -> tuple[tuple[str, str], ...]:
    """List the pairs of numeric variables that lie in a set together, in the schema's order."""
    names = list(grids)
    pairs = ((first, second) for at, first in enumerate(names) for second in names[at + 1 :])
    return tuple(pair for pair in pairs if any(set(pair) <= set(scope) for scope in scopes))
