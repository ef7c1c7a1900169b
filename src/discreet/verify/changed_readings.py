"""Pairs of data sets under a metric: one reading is in another bin, so many units away at least."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import InputError
from discreet.model.design import Design
from discreet.model.network import Network
from discreet.model.schema import Variable

Data = tuple[tuple[Any, ...], ...]

MOST_PAIRED_BINS = 12
"""Of a variable of more bins not all pairs are looked at: from so many the farthest that some units reach."""
REACHED_UNITS = (1, 2, 5, 10, 10**9)
"""Numbers of units within which the farthest bin is looked for; the last reaches the first and the last bin."""


def changed_readings(over: Network | Design, amount: Fraction, rests: Iterable[Data]) -> dict[tuple[Data, Data], int]:
    """Data sets that differ in one reading of one record, which is in another bin.

    The reading moves from the end of one bin to the start of the other, the least that brings it there. Bins that touch
    are not enough: a unit may span several, and then does more.

    Args:
        over: a network with a numeric variable.
        amount: of the unit, in the variable's own.
        rests: the records that both data sets share.

    Returns:
        By pair of data sets the units, rounded up.

    Raises:
        InputError: a design, or no numeric variable with two bins or more.

    Example:
        >>> age = Variable.binned("age", (0, 30), 3)  # bins of ten years
        >>> changed_readings(Network((age,), {"age": ()}), Fraction(5), [()])
        {(((0,),), ((1,),)): 1, (((0,),), ((2,),)): 3, (((1,),), ((2,),)): 1}
    """
    variables = () if isinstance(over, Design) else over.variables
    moves = [
        ((*record[:place], one, *record[place + 1 :]), (*record[:place], other, *record[place + 1 :]), units)
        for record in ([0 for _ in variables], [variable.size - 1 for variable in variables])
        for place, variable in enumerate(variables)
        if variable.bounds is not None
        for one, other, units in _list_moves(variable, amount)
    ]
    if not moves:
        raise InputError(
            "an audit under a metric moves readings: it needs a network with a numeric variable and its bins"
        )
    return {((*rest, one), (*rest, other)): units for rest in rests for one, other, units in moves}


def _list_moves(variable: Variable, amount: Fraction) -> Iterator[tuple[int, int, int]]:
    """List pairs of bins, and the least units from a reading in the one to a reading in the other."""
    assert variable.bounds is not None
    cuts = [float(variable.bounds[0]), *variable.bins]
    ends = [Fraction(float(np.nextafter(cut, -math.inf))) for cut in cuts[1:]]
    starts = [Fraction(cut) for cut in cuts]

    def units(one: int, other: int) -> int:
        return math.ceil((starts[other] - ends[one]) / amount)

    last = len(cuts) - 1
    if last < MOST_PAIRED_BINS:
        yield from ((one, other, units(one, other)) for other in range(last + 1) for one in range(other))
        return
    for place in range(MOST_PAIRED_BINS):
        at = place * last // (MOST_PAIRED_BINS - 1)
        for most in REACHED_UNITS:
            above = max((bin for bin in range(at + 1, last + 1) if units(at, bin) <= most), default=at)
            below = min((bin for bin in range(at) if units(bin, at) <= most), default=at)
            yield from ((one, other, units(one, other)) for one, other in ((at, above), (below, at)) if one < other)
