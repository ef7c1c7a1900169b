r"""Chain over a covariance given noisy second moments: rotations of pairs of axes, deviations, means, number.

The covariance is S = Q diag(s^2) Q', the moments n (S + m m') and n m. With T = A / n - m m' from the noisy sums A, the
log likelihood of S is

    -precision * sum_ij (T - S)_ij^2 - extra * sum_i (T - S)_ii^2:

every product off the diagonal occurs twice, and the second term adds the higher precision of squares, which are
released as 2 v^2 - 1. Under a rotation of two axes by an angle both terms are quadratic in the cosine and sine of twice
the angle, so a step costs as much as two columns. All parameters are drawn by slices or from normal laws: nothing is
tuned.

Source: Hoff (2009), *Simulation of the matrix Bingham-von Mises-Fisher distribution*, for the rotations; Neal (2003),
*Slice sampling*, for intervals that shrink.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.research.readers.compiling import compiled
from discreet.util.arrays import Floats

MOST_SHRINKS = 60
"""Most times that an interval shrinks, on average to 1e-15 of its width; then the chain keeps its value."""
MOST_NUMBER_TRIES = 100
"""Most tries for a number of records above its lower bound."""


@compiled
def _draw_angle(form: Floats, ends: Floats, room: Floats, rng: np.random.Generator) -> float:
    """Draw an angle from `exp(form)` by a slice through 0.

    Args:
        form: coefficients of (c, s, cc, cs, ss), with c and s cosine and sine of twice the angle.
        ends: contributions of c and s to each variance, shape (2, k).
        room: upper bound of each variance less its fixed part, shape (k,).
        rng: source of randomness.
    """
    level = form[0] + form[2] + math.log1p(-rng.random())
    low = -math.pi * rng.random()
    high = low + math.pi
    for _ in range(MOST_SHRINKS):
        angle = low + (high - low) * rng.random()
        c, s = math.cos(2 * angle), math.sin(2 * angle)
        height = form[0] * c + form[1] * s + form[2] * c * c + form[3] * c * s + form[4] * s * s
        if height >= level and np.all(c * ends[0] + s * ends[1] <= room):
            return angle
        if angle < 0:
            low = angle
        else:
            high = angle
    return 0.0


@compiled
def _rotate_axes(
    axes: Floats, turned: Floats, state: Floats, noisy: Floats, weights: Floats, rng: np.random.Generator
) -> None:
    """Rotate every pair of axes, in place.

    Args:
        axes: Q, shape (k, k).
        turned: T Q, shape (k, k).
        state: deviations s, means m and variances diag(S), shape (3, k).
        noisy: diag(T), shape (k,).
        weights: precision and extra.
        rng: source of randomness.
    """
    size = axes.shape[0]
    form, ends = np.empty(5), np.empty((2, size))
    for a in range(size):
        for b in range(a + 1, size):
            u, v = axes[:, a].copy(), axes[:, b].copy()
            gap = state[0, a] ** 2 - state[0, b] ** 2
            ends[0], ends[1] = (
                gap / 2 * (u * u - v * v),
                gap * u * v,
            )
            left = noisy - state[2] + ends[0]
            along, across = (
                np.sum(u * turned[:, a]) - np.sum(v * turned[:, b]),
                np.sum(u * turned[:, b]),
            )
            form[0] = weights[0] * gap * along + 2 * weights[1] * np.sum(left * ends[0])
            form[1] = 2 * weights[0] * gap * across + 2 * weights[1] * np.sum(left * ends[1])
            form[2] = -weights[1] * np.sum(ends[0] ** 2)
            form[3] = -2 * weights[1] * np.sum(ends[0] * ends[1])
            form[4] = -weights[1] * np.sum(ends[1] ** 2)
            room = 1 - state[1] ** 2 - state[2] + ends[0]
            angle = _draw_angle(form, ends, room, rng)
            c, s = math.cos(angle), math.sin(angle)
            state[2] += (math.cos(2 * angle) - 1) * ends[0] + math.sin(2 * angle) * ends[1]
            turned_u, turned_v = turned[:, a].copy(), turned[:, b].copy()
            axes[:, a], axes[:, b] = c * u + s * v, c * v - s * u
            turned[:, a], turned[:, b] = c * turned_u + s * turned_v, c * turned_v - s * turned_u


@compiled
def _draw_deviations(
    axes: Floats, turned: Floats, state: Floats, noisy: Floats, weights: Floats, rng: np.random.Generator
) -> None:
    """Draw every deviation given the axes, uniform within the bounds, in place; arguments as for `_rotate_axes`."""
    for a in range(axes.shape[0]):
        squares = axes[:, a] ** 2
        now = state[0, a]
        rest = state[2] - now**2 * squares
        strength = weights[0] + weights[1] * np.sum(squares**2)
        middle = weights[0] * np.sum(axes[:, a] * turned[:, a]) + weights[1] * np.sum(squares * (noisy - rest))
        middle /= strength
        most = math.inf
        for i in range(len(squares)):
            if squares[i] > 1e-12:
                most = min(most, (1 - state[1, i] ** 2 - rest[i]) / squares[i])
        low, high = 0.0, math.sqrt(max(most, now**2))
        level = -strength * (now**2 - middle) ** 2 + math.log1p(-rng.random())
        for _ in range(MOST_SHRINKS):
            value = low + (high - low) * rng.random()
            if -strength * (value**2 - middle) ** 2 >= level:
                state[0, a], state[2] = value, rest + value**2 * squares
                break
            if value < now:
                low = value
            else:
                high = value


@compiled
def _draw_means(
    covariance: Floats, state: Floats, moments: Floats, sums: Floats, weights: Floats, rng: np.random.Generator
) -> None:
    """Draw every mean given the covariance, in place.

    Args:
        covariance: S, shape (k, k).
        state: as for `_rotate_axes`.
        moments: A / n, shape (k, k).
        sums: of the features over n, noisy, shape (k,).
        weights: precision, extra, and precision of a mean.
        rng: source of randomness.
    """
    for i in range(len(sums)):
        now, left = state[1, i], moments[i] - covariance[i]
        linear = 2 * (np.sum(state[1] * left) - now * left[i])
        square = np.sum(state[1] ** 2) - now**2
        most = math.sqrt(max(1 - state[2, i], now**2))
        low, high, level = -most, most, math.log1p(-rng.random())
        for turn in range(MOST_SHRINKS):
            value = now if turn == 0 else low + (high - low) * rng.random()
            height = 2 * weights[0] * (value * linear - value**2 * square)
            height -= (weights[0] + weights[1]) * (left[i] - value**2) ** 2 + weights[2] * (sums[i] - value) ** 2
            if turn == 0:
                level += height
            elif height >= level:
                state[1, i] = value
                break
            elif value < now:
                low = value
            else:
                high = value


@compiled
def _draw_number(
    covariance: Floats, means: Floats, sums: Floats, product: Floats, variance: float, rng: np.random.Generator
) -> float:
    """Draw the number of records given the noisy sums, from its normal law truncated below.

    Args:
        covariance: S, shape (k, k).
        means: m, shape (k,).
        sums: noisy number, then noisy sums of features, shape (k + 1,).
        product: noisy sums of products, of `2 v^2 - 1` on the diagonal, shape (k, k).
        variance: of the noise.
        rng: source of randomness.
    """
    size = len(means)
    square, mixed = 1.0, sums[0]
    for i in range(size):
        square += means[i] ** 2
        mixed += means[i] * sums[i + 1]
        for j in range(i + 1):
            moment = covariance[i, j] + means[i] * means[j]
            if i == j:
                moment = 2 * moment - 1
            square += moment**2
            mixed += moment * product[i, j]
    for _ in range(MOST_NUMBER_TRIES):
        number = mixed / square + math.sqrt(variance / square) * rng.standard_normal()
        if number > size + 1:
            return float(number)
    return size + 1.0


@compiled
def chain(
    sums: Floats, product: Floats, axes: Floats, state: Floats, setting: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Run sweeps of one chain.

    Args:
        sums: number of records, noisy or public, then noisy sums of features, shape (k + 1,).
        product: noisy sums of products, of `2 v^2 - 1` on the diagonal, shape (k, k).
        axes: initial Q, shape (k, k).
        state: initial deviations, means and variances, shape (3, k).
        setting: variance of the noise, 1 for a private number of records, sweeps of the warm-up, kept sweeps, and
            sweeps for each kept one.
        rng: source of randomness.

    Returns:
        (covariances, shape (kept, k, k); means, shape (kept, k); numbers of records, shape (kept,)).
    """
    size, variance, thin = axes.shape[0], setting[0], int(setting[4])
    warm, rounds = int(setting[2]), int(setting[3])
    covariances, means, numbers = np.empty((rounds, size, size)), np.empty((rounds, size)), np.empty(rounds)
    number = max(sums[0], size + 2.0)
    covariance = (axes * state[0] ** 2) @ axes.T
    for sweep in range(-warm, rounds * thin):
        if setting[1] == 1:
            number = _draw_number(covariance, state[1], sums, product, variance, rng)
        moments = product / number
        for i in range(size):
            moments[i, i] = (moments[i, i] + 1) / 2
        precision = number**2 / (4 * variance)
        weights = np.array([precision, 7 * precision, 2 * precision])
        _draw_means(covariance, state, moments, sums[1:] / number, weights, rng)
        noisy = moments - np.outer(state[1], state[1])
        turned = noisy @ axes
        diagonal = np.diag(noisy).copy()
        _rotate_axes(axes, turned, state, diagonal, weights, rng)
        _draw_deviations(axes, turned, state, diagonal, weights, rng)
        covariance = (axes * state[0] ** 2) @ axes.T
        if sweep >= 0 and sweep % thin == thin - 1:
            at = sweep // thin
            covariances[at], means[at], numbers[at] = covariance, state[1], number
    return covariances, means, numbers
