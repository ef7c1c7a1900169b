"""Distances of records under a metric, in whole units, between types of records of a table of scores.

A type is a joint state, and a number is represented by its bin. Two types are as far apart as the nearest records in
them: just below the end of the lower bin, and at the start of the higher one. All arithmetic is of whole numbers, as
the rounding of floats such as 0.1 matters where distances are whole units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from discreet.errors import InputError, require
from discreet.model.network import Network
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.releases.metric_unit import attribute_units, distance_of
from discreet.util.arrays import Ints

ROOT_STEPS = 2**40
"""Steps of a unit to which roots are rounded down; perfect squares have exact ones."""
MOST_UNITS = 2**53
"""Most units between two records: fewer than there are cost more, and this is beyond any use."""
ROOT = np.frompyfunc(math.isqrt, 1, 1)
Data = tuple[tuple[Any, ...], ...]


def units_between(network: Network, amount: Fraction, distance: str) -> Iterator[Ints]:
    """List the units, rounded up, by which the records of two types differ at least.

    Args:
        network: its joint states are the types, the last variable fastest.
        amount: of the unit, in the unit of each variable's bounds.
        distance: name of it, as of `distance_of`.

    Yields:
        For each type the units to all types after it, int64. With "" the sum over the values that differ, each rounded
        up. With "length" that of the difference of two records. With "moments" those of `||xx' - yy'|| + 2 ||x - y||`;
        between types it is bounded below entry by entry, each product being within those of the bins' ends.

    Raises:
        InputError: a variable without an order, where distances are those of numbers.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemmas 23 and 24.

    Example:
        >>> from discreet.model.schema import Variable
        >>> pair = Network.empty([Variable.binned(name, (0, 6), 2) for name in "xy"])
        >>> [units.tolist() for units in units_between(pair, Fraction(2), "")]
        [[1, 1, 2], [2, 1], [1], []]
    """
    sizes = [variable.size for variable in network.variables]
    codes = np.indices(sizes).reshape(len(sizes), -1)
    if distance in ("arcs", "attributes"):
        weights = np.array(list(attribute_units(network, amount, distance).values()))
        for at in range(codes.shape[1]):
            yield weights @ (codes[:, at + 1 :] != codes[:, [at]])
        return
    require(
        all(variable.bounds is not None and not variable.missing for variable in network.variables),
        "privacy under a metric needs a score of one numeric variable or several, whose changes have a size; or a unit "
        "that ends in 'by arcs' or 'by attributes'",
    )
    boxes = _Boxes(network, amount)
    measure = {"": boxes.add_up, "length": boxes.measure_length, "moments": boxes.measure_moments}[distance]
    for at in range(codes.shape[1]):
        yield np.asarray(np.minimum(measure(codes[:, at], codes[:, at + 1 :]), MOST_UNITS), np.int64)


class _Boxes:
    """Bins of several numeric variables, with whole numbers for cut points and the unit."""

    def __init__(self, network: Network, amount: Fraction) -> None:
        exact = [[Fraction(cut) for cut in variable.edges] for variable in network.variables]
        common = math.lcm(amount.denominator, *(cut.denominator for cuts in exact for cut in cuts))
        self.cuts = [np.array([int(cut * common) for cut in cuts], object) for cuts in exact]
        self.unit, self.common = int(amount * common), common

    def _measure_gaps(self, first: Ints, rest: Ints) -> Iterator[Any]:
        """For each variable, least differences of its values: 0 in one bin, else more than the number."""
        for cuts, bin, bins in zip(self.cuts, first.tolist(), rest, strict=True):
            yield np.where(bins == bin, 0, cuts[np.maximum(bins, bin)] - cuts[np.minimum(bins, bin) + 1])

    def add_up(self, first: Ints, rest: Ints) -> Any:
        """Sum the units of all values that differ."""
        units = sum(gap // self.unit for gap in self._measure_gaps(first, rest))
        return units + (rest != first[:, None]).sum(axis=0)

    def measure_length(self, first: Ints, rest: Ints) -> Any:
        """Measure the length of the difference."""
        squares = sum(gap * gap for gap in self._measure_gaps(first, rest))
        return ROOT(squares // self.unit**2) + 1

    def measure_moments(self, first: Ints, rest: Ints) -> Any:
        """Bound from below the Frobenius norm of the difference of squares, and twice the length of that of values."""
        squares = sum(gap * gap for gap in self._measure_gaps(first, rest)) * self.common**2
        low, high = zip(*(self._find_ends(axis, rest[axis]) for axis in range(len(self.cuts))), strict=True)
        ends = [self._find_ends(axis, np.array([bin])) for axis, bin in enumerate(first.tolist())]
        products = 0
        for i, j in combinations_with_replacement(range(len(self.cuts)), 2):
            least, most = _multiply(i == j, (low[i], high[i]), (low[j], high[j]))
            lowest, highest = _multiply(i == j, ends[i], ends[j])
            gap = np.maximum(np.maximum(least - highest, lowest - most), 0)
            products += (1 if i == j else 2) * gap * gap
        length = ROOT(products * ROOT_STEPS**2) + 2 * ROOT(squares * ROOT_STEPS**2)
        return length // (self.unit * self.common * ROOT_STEPS) + 1

    def _find_ends(self, axis: int, bins: Ints) -> tuple[Any, Any]:
        """Find both ends of bins."""
        return self.cuts[axis][bins], self.cuts[axis][bins + 1]


def _multiply(same: bool, first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Find the least and the largest product of numbers from two intervals, or square of those from first."""
    products = np.array([a * b for a in first for b in second], object)
    least = np.where((first[0] < 0) & (first[1] > 0), 0, products.min(axis=0)) if same else products.min(axis=0)
    return least, products.max(axis=0)


def changed_records(network: Network, guarantee: Guarantee, rests: Iterable[Data]) -> dict[tuple[Data, Data], int]:
    """List pairs of data sets in which one record differs, for an audit under a metric with a named distance.

    Args:
        network: of the records.
        guarantee: under a metric.
        rests: the records that both data sets share.

    Returns:
        By pair of data sets the units, rounded up.

    Raises:
        InputError: as `units_between`.
    """
    require(guarantee.relation is Relation.METRIC, "only a metric has distances")
    types = list(np.ndindex(*(variable.size for variable in network.variables)))
    rows = list(units_between(network, guarantee.unit_amount, distance_of(guarantee)))
    if len(types) > MOST_AUDITED_TYPES:
        raise InputError(
            f"an audit compares all pairs of at most {MOST_AUDITED_TYPES} types of records; use wider bins"
        )
    return {
        ((*rest, types[at]), (*rest, types[at + 1 + further])): units
        for rest in rests
        for at, row in enumerate(rows)
        for further, units in enumerate(row.tolist())
    }


MOST_AUDITED_TYPES = 150
"""Most types of records that an audit compares: 11,175 pairs."""
