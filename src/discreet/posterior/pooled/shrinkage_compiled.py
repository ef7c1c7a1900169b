r"""The costly steps of a sweep over the rows of a family, compiled; `shrinkage.py` has the same steps on arrays.

Used where numba is installed (extra `fast`). Counts, means and concentrations are tables of shape (rows, states,
draws), rows in C order of the parents' axes; the loop over draws, which are chains of their own, is the inner one.

What makes it fast besides compiling:

* The back-off components have concentrations A that are a factor of 4 apart. A function of log(A m), tabulated on a
  grid that divides this factor evenly, is therefore read for all of them with one set of interpolation weights.
* Splits of few records are drawn exactly, by enumeration, and not by a Metropolis step.
* What other rows say of a row without records is worked out only if somebody reads it.

Source: Stirling's series for log Gamma (Abramowitz and Stegun, 6.1.41); Lagrange interpolation in six points (25.2.21).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from discreet.posterior.compiling import compiled

__all__ = [
    "ALONE",
    "CLOSE",
    "CONCENTRATIONS",
    "LOG_FACTORIAL",
    "TABLED",
    "TINY",
    "backed_off",
    "picked",
    "risen",
    "split_pairs",
]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

CONCENTRATIONS: Floats = 4.0 ** np.arange(-3.0, 5.0)
"""A of the back-off components: a factor of 4 apart, so that the one nearest to the best is at most twice off."""
ALONE: Floats = 4.0 ** np.arange(-2.0, 1.0)
"""Concentration of each cell in the components that stand on their own, on the same grid."""
TINY = 1e-7
"""Smallest mean of a prior, so that no state is impossible."""
SHARED, COMPONENTS = len(CONCENTRATIONS), len(CONCENTRATIONS) + len(ALONE)

FEW = 8
"""Records up to which a split is enumerated, and a rising factorial multiplied out."""
TABLED = 4096
"""Counts below it have their logarithms of factorials in tables."""
_RECORDS: Floats = np.arange(TABLED, dtype=np.float64)
LOG_FACTORIAL = gammaln(_RECORDS + 1)
CLOSE = np.log1p(1 / (_RECORDS + 1))
LOG_FOUR, HALF_LOG_TWO_PI, ROOT_TWO_PI = math.log(4), 0.5 * math.log(2 * math.pi), math.sqrt(2 * math.pi)
GRID, LOWEST, HIGHEST = 64, -27, 6
"""Steps in a factor of 4, and the powers of 4 where the tables begin and end: interpolation errs by less than 1e-9."""
MOST = 4**10
"""Counts below it keep within these tables."""
_GRID = 4.0 ** (np.arange(LOWEST, HIGHEST) + np.arange(-2, GRID + 4)[:, None] / GRID)
LOG_GAMMA, LOG_SUM = gammaln(1 + _GRID).ravel(), np.log1p(_GRID).ravel()
"""Of `log Gamma(1 + x)` and `log(1 + x)`: all powers of 4, then all of them times a step of the grid, and so on."""
STEP, TWO, THREE, FOUR, FIVE = np.uint64(HIGHEST - LOWEST), np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(5)
LOG_FIRST = math.log(CONCENTRATIONS[0])


def risen(concentrations: Floats) -> Floats:
    """`log Gamma(a + n) - log Gamma(a)` for every n below TABLED and each concentration a, shape (TABLED, number)."""
    return np.ascontiguousarray(gammaln(_RECORDS[:, None] + concentrations) - gammaln(concentrations))


@compiled
def _log_gamma(z: float) -> float:
    """Stirling's series from 8 on, error below 1e-11."""
    product = 1.0
    if z < 8:
        product = z * (z + 1) * (z + 2) * (z + 3) * (z + 4) * (z + 5) * (z + 6) * (z + 7)
        z += 8
    w = 1 / z
    y = w * w
    series = (1 / 12 - (1 / 360 - (1 / 1260 - y / 1680) * y) * y) * w
    found = (z - 0.5) * math.log(z) - z + HALF_LOG_TWO_PI + series
    return found if product == 1 else found - math.log(product)


# ----------------------------------------------------------------------------------------------------------- prior


@compiled
def _sums(counts: Codes, groups: Codes, number: int) -> Codes:
    """Sums over the rows of each group, shape (groups, states + 1, draws): of each state, then of all."""
    rows, states, draws = counts.shape
    sums = np.zeros((number, states + 1, draws), np.int64)
    for s in range(groups.shape[0]):
        for row in range(rows):
            group = groups[s, row]
            for k in range(states):
                for d in range(draws):
                    sums[group, k, d] += counts[row, k, d]
    for group in range(number):
        for k in range(states):
            for d in range(draws):
                sums[group, states, d] += sums[group, k, d]
    return sums


@compiled
def backed_off(counts: Codes, groups: Codes, number: int, pair_of: Codes, empty_too: bool) -> Floats:
    """What the other rows say of each row; see `_backed_off` in `shrinkage.py`.

    Args:
        counts: shape (rows, states, draws).
        groups: number of each row's group, for every set of parents that may be dropped: all of them, then pairs, then
            single ones; shape (sets, rows).
        number: of groups.
        pair_of: which set drops two given parents, shape (parents, parents); -1 for one and the same.
        empty_too: whether rows without a record in any draw are wanted; else they keep the even mean.

    Returns:
        Probabilities, same shape as the counts.
    """
    rows, states, draws = counts.shape
    sets, parents = groups.shape[0], pair_of.shape[0]
    single = max(sets - parents, 0)
    singles = np.arange(single, sets)
    sums = _sums(counts, groups, number)
    found = np.full(counts.shape, 1 / states)
    told, product = np.empty((sets, states, draws)), np.empty((states, draws))
    own, scale = np.empty(draws, np.int64), np.empty(draws)
    for row in range(rows):
        own[:] = 0
        for k in range(states):
            for d in range(draws):
                own[d] += counts[row, k, d]
        if not (empty_too or own.any()):
            continue
        for s in range(sets):
            # Sets come in the order of their sizes: what a set is smoothed with is there before it.
            if s == 0:
                product[:] = 1 / states
            elif parents == 2 or s < single:
                product[:] = told[0]
            else:
                _multiply(product, told, pair_of[s - single])
                _root(product, parents - 1)
            group = groups[s, row]
            for d in range(draws):
                scale[d] = 1 / (sums[group, states, d] - own[d] + 1)
            for k in range(states):
                for d in range(draws):
                    told[s, k, d] = max((sums[group, k, d] - counts[row, k, d] + product[k, d]) * scale[d], TINY)
        _multiply(product, told, singles)
        _root(product, parents)
        found[row] = product
    return found


@compiled
def _multiply(product: Floats, told: Floats, which: Codes) -> None:
    """Set to the product of some tables; numbers below 0 are no table."""
    states, draws = product.shape
    product[:] = 1
    for s in which:
        if s >= 0:
            for k in range(states):
                for d in range(draws):
                    product[k, d] *= told[s, k, d]


@compiled
def _root(product: Floats, tables: int) -> None:
    """From a product of tables to their geometric mean, normalised over states and never 0; changes it."""
    if tables == 1:
        return
    # At most thirteen factors: no product is below 1e-91.
    for k in range(product.shape[0]):
        for d in range(product.shape[1]):
            product[k, d] = math.sqrt(product[k, d]) if tables == 2 else math.exp(math.log(product[k, d]) / tables)
    for d in range(product.shape[1]):
        whole = 0.0
        for k in range(product.shape[0]):
            whole += product[k, d]
        for k in range(product.shape[0]):
            product[k, d] = max(product[k, d] / whole, TINY)


@compiled
def _place(t: float) -> tuple[np.uint64, float, float, float, float, float, float]:
    """Where `4^t` is in a table: the first of six points, a STEP from one to the next, and their weights (Lagrange)."""
    power = math.floor(t)
    place = (t - power) * GRID
    i = int(place)
    f = place - i
    p0, p1, p2, p3, p4, p5 = f + 2, f + 1, f, f - 1, f - 2, f - 3
    low, high = p0 * p1 * p2, p3 * p4 * p5
    return (
        np.uint64(i * (HIGHEST - LOWEST) + int(power) - LOWEST),
        p1 * p2 * high / -120,
        p0 * p2 * high / 24,
        p0 * p1 * high / -12,
        low * p4 * p5 / 12,
        low * p3 * p5 / -24,
        low * p3 * p4 / 120,
    )


@compiled
def _multiplied(n: int, m: float, product: Floats) -> None:
    """Multiply by `Gamma(a + n) / Gamma(a)` for all components, a being the concentration of a cell of few records."""
    for more in range(n):
        for c in range(SHARED):
            product[c] *= CONCENTRATIONS[c] * m + more
        for c in range(len(ALONE)):
            product[SHARED + c] *= ALONE[c] + more


@compiled
def _taken(scores: Floats, product: Floats) -> None:
    """Take what was multiplied over into the scores, before it is more or less than a double can hold."""
    for c in range(COMPONENTS):
        scores[c] += math.log(product[c])
        product[c] = 1


@compiled
def _scored(n: int, m: float, cells: Floats, scores: Floats) -> None:
    """Add `log Gamma(a + n) - log Gamma(a)` to the scores of all components, a being the concentration of a cell.

    Args:
        n: records in the cell, more than FEW.
        m: its mean in the back-off components.
        cells: `risen` of ALONE.
        scores: of all components; changed.
    """
    for c in range(len(ALONE)):
        scores[SHARED + c] += cells[n, c] if n < TABLED else _log_gamma(ALONE[c] + n) - _log_gamma(ALONE[c])
    if n >= MOST:
        for c in range(SHARED):
            scores[c] += _log_gamma(CONCENTRATIONS[c] * m + n) - _log_gamma(CONCENTRATIONS[c] * m)
        return
    log_cell, log_n = math.log(m) + LOG_FIRST, math.log(float(n))
    at, v0, v1, v2, v3, v4, v5 = _place(log_cell / LOG_FOUR)
    to, w0, w1, w2, w3, w4, w5 = _place((log_cell - log_n) / LOG_FOUR)
    for c in range(SHARED):
        # Unsigned, so that no index counts from the end and all components are worked out at once.
        i, j = at + np.uint64(c), to + np.uint64(c)
        below = v0 * LOG_GAMMA[i] + v1 * LOG_GAMMA[i + STEP] + v2 * LOG_GAMMA[i + STEP * TWO]
        below += v3 * LOG_GAMMA[i + STEP * THREE] + v4 * LOG_GAMMA[i + STEP * FOUR] + v5 * LOG_GAMMA[i + STEP * FIVE]
        log_z = w0 * LOG_SUM[j] + w1 * LOG_SUM[j + STEP] + w2 * LOG_SUM[j + STEP * TWO]
        log_z += w3 * LOG_SUM[j + STEP * THREE] + w4 * LOG_SUM[j + STEP * FOUR] + w5 * LOG_SUM[j + STEP * FIVE]
        z = CONCENTRATIONS[c] * m + n
        w = 1 / z
        y = w * w
        series = (1 / 12 - (1 / 360 - (1 / 1260 - y / 1680) * y) * y) * w
        above = (z - 0.5) * (log_z + log_n) - z + HALF_LOG_TWO_PI + series
        # log Gamma(x) = log Gamma(1 + x) - log x
        scores[c] += above - below + log_cell + c * LOG_FOUR


@compiled
def _cumulated(total: int, states: int, totals: Floats, scores: Floats) -> None:
    """From the scores of the cells of a row to running sums of the components' probabilities, up to a factor."""
    best = -np.inf
    for c in range(COMPONENTS):
        a = CONCENTRATIONS[c] if c < SHARED else states * ALONE[c - SHARED]
        scores[c] -= totals[total, c] if total < TABLED else _log_gamma(a + total) - _log_gamma(a)
        best = max(best, scores[c])
    whole = 0.0
    for c in range(COMPONENTS):
        less = scores[c] - best
        # What is 1e17 times less likely than another is never picked.
        whole += math.exp(less) if less > -40 else 0.0
        scores[c] = whole


@compiled
def picked(
    counts: Codes, mean: Floats, weights: Floats, cells: Floats, totals: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Each row picks a component given its counts; see `_concentrations` in `shrinkage.py`.

    Args:
        counts: shape (rows, states, draws).
        mean: of the back-off components, same shape.
        weights: of all components, shape (COMPONENTS, draws).
        cells: `risen` of ALONE.
        totals: `risen` of the sums of the components' concentrations.
        rng: source of randomness.

    Returns:
        Concentrations, same shape as the counts; how many rows picked each component, shape (COMPONENTS, draws).
    """
    rows, states, draws = counts.shape
    found, usage = np.empty(counts.shape), np.zeros(weights.shape)
    logs, divisors = np.log(weights), np.exp(-totals[: FEW + 1])
    scores, product = np.empty(COMPONENTS), np.ones(COMPONENTS)
    for row in range(rows):
        for d in range(draws):
            total = small = 0
            for c in range(COMPONENTS):
                scores[c] = logs[c, d]
            for k in range(states):
                n = counts[row, k, d]
                total += n
                if n > FEW:
                    _scored(n, mean[row, k, d], cells, scores)
                elif n:
                    _multiplied(n, mean[row, k, d], product)
                    small += n
                    if small > 2 * FEW:
                        _taken(scores, product)
                        small = 0
            if total <= FEW:
                for c in range(COMPONENTS):
                    scores[c] = weights[c, d] * product[c] * divisors[total, c]
                    scores[c] += scores[c - 1] if c else 0.0
                    product[c] = 1
            else:
                if small:
                    _taken(scores, product)
                _cumulated(total, states, totals, scores)
            u, choice = rng.random() * scores[COMPONENTS - 1], 0
            for c in range(COMPONENTS - 1):
                choice += u > scores[c]
            usage[choice, d] += 1
            for k in range(states):
                shared = choice < SHARED
                found[row, k, d] = CONCENTRATIONS[choice] * mean[row, k, d] if shared else ALONE[choice - SHARED]
    return found, usage


# ---------------------------------------------------------------------------------------------------------- counts


@compiled
def _weight_ratio(x: float, total: float, a: float, b: float) -> float:
    """Of the prior's weight of a split at x + 1 to that at x."""
    return (x + a) * (total - x) / ((x + 1) * (total - x - 1 + b))


@compiled
def _enumerated(total: float, a: float, b: float, centre: float, precision: float, u: float, weights: Floats) -> float:
    """A split of few records, drawn exactly: weights are relative to that of the split nearest to the evidence."""
    start = min(max(np.rint(centre), 0.0), total)
    fall = math.exp(-precision)
    weight = whole = weights[int(start)] = 1.0
    # Away from the evidence weights fall: a step that would raise them is outside, and is not taken.
    step, x = math.exp(min(-precision * (start - centre + 0.5), 0.0)), start
    while x < total:
        weight *= step * _weight_ratio(x, total, a, b)
        step *= fall
        x += 1
        weights[int(x)] = weight
        whole += weight
    weight, step, x = 1.0, math.exp(min(precision * (start - centre - 0.5), 0.0)), start
    while x > 0:
        x -= 1
        weight *= step / _weight_ratio(x, total, a, b)
        step *= fall
        weights[int(x)] = weight
        whole += weight
    left, x = u * whole - weights[0], 0.0
    while left >= 0 and x < total:
        x += 1
        left -= weights[int(x)]
    return x


@compiled
def _log_ratio(x: float, a: float) -> float:
    """`log Gamma(x + a) - log Gamma(x + 1)`, for whole x."""
    return _log_gamma(x + a) - (LOG_FACTORIAL[int(x)] if x < TABLED else _log_gamma(x + 1))


@compiled
def _normal_mass(x: float, total: float, centre: float, spread: float) -> float:
    """Of a normal law that is rounded and cut."""
    if spread > 4 and 0 < x < total:
        # The integral over one record, by the density and its derivatives: errs by less than 1e-8 of its maximum.
        z, h = (x - centre) / spread, 1 / (spread * spread)
        y = z * z
        series = 1 + h / 24 * (y - 1 + h / 80 * ((y - 6) * y + 3))
        return series * math.exp(-0.5 * y) / (ROOT_TWO_PI * spread)
    # From the tail on the far side of the centre, where differences are exact.
    scale, side = 1 / (spread * math.sqrt(2.0)), 1.0 if x > centre else -1.0
    away = side * (x - centre)
    first, last = (x <= 0, x >= total) if side > 0 else (x >= total, x <= 0)
    mass = 2.0 if first else math.erfc((away - 0.5) * scale)
    return 0.5 * (mass if last else mass - math.erfc((away + 0.5) * scale))


@compiled
def _proposal(x: float, total: float, log_total: float, centre: float, spread: float) -> float:
    """Half a normal law, rounded and cut; a quarter close to either end, log-uniform."""
    if total < TABLED:
        ends = float(CLOSE[int(x)] + CLOSE[int(total - x)])
    else:
        ends = math.log1p(1 / (x + 1)) + math.log1p(1 / (total - x + 1))
    return 0.5 * max(_normal_mass(x, total, centre, spread), 0.0) + 0.25 * ends / log_total


@compiled
def _log_target(x: float, total: float, a: float, b: float, centre: float, spread: float) -> float:
    """Of a split."""
    z = (x - centre) / spread
    return _log_ratio(x, a) + _log_ratio(total - x, b) - 0.5 * z * z


@compiled
def _walked(
    have: float, total: float, a: float, b: float, centre: float, spread: float, steps: int, rng: np.random.Generator
) -> float:
    """Some Metropolis steps of a split; proposals are independent of where it is."""
    log_total = math.log(total + 2)
    log_target = proposal = 0.0
    for step in range(steps):
        which = rng.random()
        if which < 0.5:
            x = min(max(np.rint(centre + spread * rng.standard_normal()), 0.0), total)
        else:
            x = min(math.floor(math.expm1(rng.random() * log_total)), total)
            x = x if which < 0.75 else total - x
        if step == 0:
            log_target = _log_target(have, total, a, b, centre, spread)
            proposal = _proposal(have, total, log_total, centre, spread)
        if x != have:
            new_target = _log_target(x, total, a, b, centre, spread)
            new_proposal = _proposal(x, total, log_total, centre, spread)
            if rng.random() * new_proposal < math.exp(new_target - log_target) * proposal:
                have, log_target, proposal = x, new_target, new_proposal
    return have


@compiled
def split_pairs(rows: Codes, a: Floats, told: Floats, deviation: float, steps: int, rng: np.random.Generator) -> None:
    """Draw anew how the records of two cells of each row are split; see `_split_pairs` in `shrinkage.py`.

    Args:
        rows: counts, shape (rows, states, draws); changed.
        a: concentrations, same shape.
        told: what the evidence says of each cell, same shape; only differences within a row matter.
        deviation: of its errors.
        steps: of each pair.
        rng: source of randomness.
    """
    states, draws = rows.shape[1:]
    order, weights = rng.permutation(states), np.empty(FEW + 1)
    spread = deviation / math.sqrt(2.0)
    precision = 1 / (spread * spread)
    for row in range(rows.shape[0]):
        for pair in range(states // 2):
            one, other = order[2 * pair], order[2 * pair + 1]
            for d in range(draws):
                have, total = float(rows[row, one, d]), float(rows[row, one, d] + rows[row, other, d])
                if total == 0:
                    continue
                centre = (total + told[row, one, d] - told[row, other, d]) / 2
                first, second = a[row, one, d], a[row, other, d]
                if total <= FEW:
                    x = _enumerated(total, first, second, centre, precision, rng.random(), weights)
                else:
                    x = _walked(have, total, first, second, centre, spread, steps, rng)
                rows[row, one, d], rows[row, other, d] = int(x), int(total - x)
