r"""Dirichlet-multinomial log weights of a cell, `log Gamma(a + n) - log Gamma(a) - log n!`, read from tables.

The law of a row's counts given its total is Dirichlet-multinomial: a product of these factors over the row's cells,
over the factor of the total. Chains of rows (`shrinkage.py`) ask for them many millions of times, for counts n that are
whole, and concentrations a of any size.

Concentrations are handed around as *positions*: `log a` in steps of a 32nd of a factor of 4. In between two steps the
table is interpolated linearly, which errs by less than 0.03 at n near a = 256, and by less than 0.002 below n = 32;
what that changes of a cell's law is a factor that is the same to 3 % for all counts. Counts beyond the table's are
reached from its last column, by the ratio of two gamma functions of distant arguments. Both are in single precision:
numbers are below 5,000 where they matter, so its error is below 0.0005.

All components of the prior of a row (`BACK_OFF_CONCENTRATIONS`, `LONE_CONCENTRATIONS`) stand on the same grid: a factor
of 4 is a whole number of steps, and one set of interpolation weights serves for all of them.

Source: Tricomi and Erdelyi (1951) for the ratio of gamma functions.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from discreet.util.arrays import Ints

Array = npt.NDArray[np.floating]
Single = npt.NDArray[np.float32]

BACK_OFF_CONCENTRATIONS: npt.NDArray[np.float64] = 4.0 ** np.arange(-3.0, 5.0)
"""Total concentrations A of the back-off components, on a grid of factors of 4: the nearest is at most twice off."""
LONE_CONCENTRATIONS: npt.NDArray[np.float64] = 4.0 ** np.arange(-2.0, 1.0)
"""Concentration of each cell in the components that stand on their own, on the same grid."""
COMPONENTS = len(BACK_OFF_CONCENTRATIONS) + len(LONE_CONCENTRATIONS)
LEAST_MEAN = 1e-7
"""Smallest mean of a prior, so that no state is impossible."""

GRID_STEPS, LOWEST_POWER, HIGHEST_POWER, TABLE_COUNTS = 32, -16, 5, 512
"""Steps per factor of 4; powers of 4 where the table begins and ends; number of counts in it."""
LAST_COUNT = TABLE_COUNTS - 1
LOOKED_UP_TOGETHER = 2**13
"""Largest number of values that are looked up at once."""
STEPS_PER_LOG, UNIT_POSITION = GRID_STEPS / math.log(4), -LOWEST_POWER * GRID_STEPS
"""Steps in a unit of `log a`, and the position of a = 1."""
TOP_POSITION = UNIT_POSITION + 4 * GRID_STEPS + 1
"""Position of the largest concentration of a component; larger ones come from a prior of the user."""


def positions(a: Array) -> Single:
    """Compute table positions of concentrations; smaller ones count as 4^-16.

    Example:
        >>> (positions(np.array([4.0])) - positions(np.array([1.0]))).round().tolist()  # 32 steps for a factor of 4
        [32.0]
    """
    position = np.log(np.maximum(a, 4.0**LOWEST_POWER))
    position *= STEPS_PER_LOG
    position += UNIT_POSITION
    return position.astype(np.float32)


def concentrations(position: Single) -> Single:
    """Compute concentrations at table positions, to a relative error of 1e-5.

    Example:
        >>> np.allclose(concentrations(positions(np.array([0.25, 1.0, 16.0]))), [0.25, 1.0, 16.0], rtol=1e-4)
        True
    """
    return np.asarray(np.exp((position - np.float32(UNIT_POSITION)) * np.float32(1 / STEPS_PER_LOG)))


def cell_weights(position: Single, counts: Array) -> Single:
    """Look up `log Gamma(a + n) - log Gamma(a) - log n!` of each cell.

    Args:
        position: of a.
        counts: n, whole numbers from 0, same shape.

    Returns:
        The same shape.

    Example:
        >>> found = cell_weights(positions(np.array([1.0])), np.array([3]))  # log Gamma(4) - log Gamma(1) - log 3! = 0
        >>> bool(abs(found[0]) < 0.01)
        True
    """
    if position.max(initial=0) > TOP_POSITION:
        a = np.exp((position.astype(np.float64) - UNIT_POSITION) / STEPS_PER_LOG)
        exact = gammaln(a + counts) - gammaln(a) - gammaln(counts.astype(np.float64) + 1)
        return np.asarray(exact, np.float32)
    weights, rises = _tabulate_weights()
    index, fraction = _find_places(position, counts)
    weight = rises.take(index)
    weight *= fraction
    weight += weights.take(index)
    if counts.max(initial=0) < TABLE_COUNTS:
        return weight
    if counts.min() >= TABLE_COUNTS:
        weight += _extrapolate(concentrations(position), counts)
        return weight
    many = np.flatnonzero(counts >= TABLE_COUNTS)
    weight.reshape(-1)[many] += _extrapolate(concentrations(position.ravel()[many]), counts.ravel()[many])
    return weight


def component_weights(position: Single, counts: Array) -> Single:
    """Sum the weights of cells over the first axis, under each component of the prior of a row.

    Args:
        position: of the smallest of BACK_OFF_CONCENTRATIONS, times the mean of the cell.
        counts: same shape, `(child, ...)`.

    Returns:
        Shape `(COMPONENTS, ...)`.
    """
    weights, rises = _tabulate_weights()
    index, fraction = _find_places(position, counts)
    shared, steps = len(BACK_OFF_CONCENTRATIONS), positions(LONE_CONCENTRATIONS).astype(np.int64)
    many = np.flatnonzero(counts >= TABLE_COUNTS)
    totals = np.empty((COMPONENTS, *counts.shape[1:]), np.float32)
    # Several components at once where arrays are short, whose ends are what takes time.
    group = min(max(LOOKED_UP_TOGETHER // counts.size, 1), shared) if counts.size else shared
    for first in range(0, shared, group):
        number = min(group, shared - first)
        indices = index + (first + np.arange(number)).reshape(-1, *(1,) * counts.ndim) * (GRID_STEPS * TABLE_COUNTS)
        cells = rises.take(indices)
        cells *= fraction
        cells += weights.take(indices)
        np.add.reduce(cells, axis=1, out=totals[first : first + number])
    last = np.minimum(counts, LAST_COUNT).astype(np.int64)
    for component, step in enumerate(steps, shared):
        np.add.reduce(weights[step * TABLE_COUNTS :].take(last), axis=0, out=totals[component])
    if many.size:
        a = concentrations(position.ravel()[many])
        every = [a * (BACK_OFF_CONCENTRATIONS / BACK_OFF_CONCENTRATIONS[0]).astype(np.float32)[:, None]]
        every.append(
            np.broadcast_to(LONE_CONCENTRATIONS.astype(np.float32)[:, None], (len(LONE_CONCENTRATIONS), many.size))
        )
        more = np.zeros((COMPONENTS, counts.size), np.float32)
        more[:, many] = _extrapolate(np.concatenate(every), counts.ravel()[many])
        totals += more.reshape(COMPONENTS, *counts.shape).sum(axis=1)
    return totals


@lru_cache(maxsize=1)
def _tabulate_weights() -> tuple[Single, Single]:
    """Tabulate the weights by step and count, flattened, and their increase from one step to the next."""
    a = 4.0 ** (LOWEST_POWER + np.arange((HIGHEST_POWER - LOWEST_POWER) * GRID_STEPS + 2) / GRID_STEPS)[:, None]
    n = np.arange(TABLE_COUNTS, dtype=np.float64)
    table = gammaln(a + n) - gammaln(a) - gammaln(n + 1)
    return table[:-1].astype(np.float32).ravel(), np.diff(table, axis=0).astype(np.float32).ravel()


def _find_places(position: Single, counts: Array) -> tuple[Ints, Single]:
    """Find indices in the flattened table, and the fraction of a step beyond them."""
    row = np.floor(position)
    fraction = position - row
    # Places are below 2^24, so that single precision has them all.
    row *= TABLE_COUNTS
    row += np.minimum(counts, LAST_COUNT)
    return row.astype(np.int64), fraction


def _extrapolate(a: Single, counts: Array) -> Single:
    """Compute what a weight gains from the table's last column to counts beyond it.

    `log Gamma(n + a) / Gamma(n + 1) = e log v - e (e^2 - 1) / (24 v^2) + ..` with `e = a - 1` and `v = n + a / 2`; what
    is left out is below 0.01 for a up to 256.
    """
    e, last = a - 1, a / 2 + LAST_COUNT
    v = counts + a / 2
    gain = np.log(v / last)
    gain -= (a * (e - 1) / 24) * (1 / (v * v) - 1 / (last * last))
    gain *= e
    return gain.astype(np.float32)
