r"""Dirichlet-multinomial log weights of a cell, `log Gamma(a + n) - log Gamma(a) - log n!`, looked up in tables.

The law of a row's counts given its total is Dirichlet-multinomial: the product of these factors over the row's cells,
divided by the factor of the total. Chains of rows (`shrinkage.py`) evaluate them many millions of times, for whole
counts n and concentrations a of any size.

Concentrations are passed as *positions*, which count `log a` in steps of `log(4) / 32`. The table is interpolated
linearly between steps, with an error below 0.03 at n near a = 256 and below 0.002 for n below 32; the error changes a
cell's law by a factor that varies by less than 3 % between counts. Weights of counts beyond the table are
extrapolated from its last column by an asymptotic ratio of gamma functions. All is in single precision: the weights
that matter are below 5,000, so the rounding error is below 0.0005.

All components of the prior of a row (`BACK_OFF_CONCENTRATIONS`, `LONE_CONCENTRATIONS`) are on the same grid: a factor
of 4 is a whole number of steps, so one set of interpolation weights serves all of them.

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
"""Total concentrations A of the back-off components, on a grid of factors of 4: the nearest is at most a factor of 2
off."""
LONE_CONCENTRATIONS: npt.NDArray[np.float64] = 4.0 ** np.arange(-2.0, 1.0)
"""Concentration of each cell in the components without back-off, on the same grid."""
COMPONENTS = len(BACK_OFF_CONCENTRATIONS) + len(LONE_CONCENTRATIONS)
LEAST_MEAN = 1e-7
"""Smallest mean of a prior, so that no state is impossible."""

GRID_STEPS, LOWEST_POWER, HIGHEST_POWER, TABLE_COUNTS = 32, -16, 5, 512
"""Steps per factor of 4; powers of 4 where the table begins and ends; number of counts (columns) of the table."""
LAST_COUNT = TABLE_COUNTS - 1
LOOKED_UP_TOGETHER = 2**13
"""Largest number of values that are looked up at once."""
STEPS_PER_LOG, UNIT_POSITION = GRID_STEPS / math.log(4), -LOWEST_POWER * GRID_STEPS
"""Steps in a unit of `log a`, and the position of a = 1."""
TOP_POSITION = UNIT_POSITION + 4 * GRID_STEPS + 1
"""Position of the largest concentration of a component; only a user's prior has larger ones."""


def positions(a: Array) -> Single:
    """Compute grid positions of concentrations, float32: `512 + 32 log_4(max(a, 4^-16))`, at least 0 and not rounded.

    Args:
        a: concentrations, any shape; 0 is accepted, as those below 4^-16 are raised to it. There is no upper limit.

    Returns:
        New array, same shape.

    Example:
        >>> (positions(np.array([4.0])) - positions(np.array([1.0]))).round().tolist()  # 32 steps for a factor of 4
        [32.0]
    """
    position = np.log(np.maximum(a, 4.0**LOWEST_POWER))
    position *= STEPS_PER_LOG
    position += UNIT_POSITION
    return position.astype(np.float32)


def concentrations(position: Single) -> Single:
    """Compute concentrations at grid positions, float32, same shape: `4^((position - 512) / 32)`.

    This is the inverse of `positions`, except that concentrations raised to 4^-16 stay there; the relative error is at
    most about 1e-5.

    Example:
        >>> np.allclose(concentrations(positions(np.array([0.25, 1.0, 16.0]))), [0.25, 1.0, 16.0], rtol=1e-4)
        True
    """
    return np.asarray(np.exp((position - np.float32(UNIT_POSITION)) * np.float32(1 / STEPS_PER_LOG)))


def cell_weights(position: Single, counts: Array) -> Single:
    """Look up `log Gamma(a + n) - log Gamma(a) - log n!` of each cell, by linear interpolation in the position.

    If any position is above TOP_POSITION (a above 256), all cells are computed by `gammaln` in double precision
    instead. Otherwise counts n of TABLE_COUNTS (512) or more are extrapolated from the last column (`_extrapolate`).
    The first call builds a table, which is cached.

    Args:
        position: grid positions of the concentrations a, at least 0, any shape, empty included.
        counts: counts n, whole numbers from 0, same shape.

    Returns:
        Log weights, float32, same shape, a new array. Errors of looked-up weights are below 0.03 at n near a = 256 and
        below 0.002 for n below 32.

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
    """Look up the log weights of cells under each component of the prior of a row, summed over the first axis.

    Back-off component i has the concentration `4^i` times that of `position`. A component without back-off has its
    LONE_CONCENTRATIONS entry in each cell and ignores `position`. Weights of counts n of TABLE_COUNTS (512) or more are
    extrapolated; unlike in `cell_weights`, none is computed exactly. Back-off components are looked up in groups of at
    most LOOKED_UP_TOGETHER values, at least one component.

    Args:
        position: grid positions of the smallest of BACK_OFF_CONCENTRATIONS times the mean of the cell, shape `(child,
            ...)`.
        counts: counts n, whole numbers from 0, same shape.

    Returns:
        `sum over cells of log Gamma(a + n) - log Gamma(a) - log n!`, without the factor of the row's total, float32,
        shape `(COMPONENTS, ...)`: the back-off components by increasing concentration, then the others, likewise.
    """
    weights, rises = _tabulate_weights()
    index, fraction = _find_places(position, counts)
    shared, steps = len(BACK_OFF_CONCENTRATIONS), positions(LONE_CONCENTRATIONS).astype(np.int64)
    many = np.flatnonzero(counts >= TABLE_COUNTS)
    totals = np.empty((COMPONENTS, *counts.shape[1:]), np.float32)
    # Several components at once where arrays are short, because the overhead of a call then dominates.
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
    """Tabulate the weights by step and count, flattened, and their increase to the next step; cached.

    Returns:
        Two float32 arrays. Entry `512 s + n` of the first is the weight of count n, from 0 to 511, at `a = 4^(-16 + s /
        32)`, s from 0 to 672; of the second, the weight at step s + 1 less that at step s.
    """
    a = 4.0 ** (LOWEST_POWER + np.arange((HIGHEST_POWER - LOWEST_POWER) * GRID_STEPS + 2) / GRID_STEPS)[:, None]
    n = np.arange(TABLE_COUNTS, dtype=np.float64)
    table = gammaln(a + n) - gammaln(a) - gammaln(n + 1)
    return table[:-1].astype(np.float32).ravel(), np.diff(table, axis=0).astype(np.float32).ravel()


def _find_places(position: Single, counts: Array) -> tuple[Ints, Single]:
    """Compute where cells are in the flattened table, and the fraction of a step beyond; both in the cells' shape.

    Returns:
        (`512 floor(position) + min(n, 511)`, int64; `position - floor(position)`, float32).
    """
    row = np.floor(position)
    fraction = position - row
    # Indices are below 2^24, so single precision represents them exactly.
    row *= TABLE_COUNTS
    row += np.minimum(counts, LAST_COUNT)
    return row.astype(np.int64), fraction


def _extrapolate(a: Single, counts: Array) -> Single:
    """Compute the increase of the weight from the table's last column (n = 511) to counts beyond it.

    `log(Gamma(n + a) / Gamma(n + 1)) = e log v - e (e^2 - 1) / (24 v^2) + ..` with `e = a - 1` and `v = n + a / 2`. The
    result is the difference of these two terms at n and at 511; the remainder is below 0.01 for a up to 256.

    Args:
        a: concentrations themselves, not positions, any shape.
        counts: counts n, at least LAST_COUNT, of a shape that broadcasts with `a`.

    Returns:
        Difference of the log weights at n and at LAST_COUNT, float32, broadcast shape.
    """
    e, last = a - 1, a / 2 + LAST_COUNT
    v = counts + a / 2
    gain = np.log(v / last)
    # e^2 - 1 = (e - 1) (e + 1) = (e - 1) a; the common factor e is applied at the end.
    gain -= (a * (e - 1) / 24) * (1 / (v * v) - 1 / (last * last))
    gain *= e
    return gain.astype(np.float32)
