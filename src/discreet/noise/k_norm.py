"""Draw K-norm noise on integer vectors exactly: one norm for the whole vector, instead of noise on every coordinate.

With q = exp(-1 / scale), d coordinates and k any vector of integers:

* cube: `P(k) ~ sum of q^r over r >= ||k||_inf`, which is `~ q^||k||_inf`;
* ball: `P(k) ~ sum of q^r c(r) over integers r >= ||k||_2`, which is `~ q^ceil(||k||_2)` where c is constant;
* diamond: `P(k) ~ q^||k||_1`, independent discrete Laplace noise on each coordinate. Its loss over a distance of L in
  this norm is L / scale, by the triangle inequality. The rest is about the other two.

Both are the law of k when (r, k) has `P(r, k) ~ q^r c(r)` for all k within distance r of 0, and both losses follow from
this form. Vectors at a distance of at most the integer L (in the norm of the shape) have their noise at norms that
differ by at most L, so with m the smaller, rounded up, the ratio of their probabilities is at most

    sum of q^r c(r) over r >= m  /  sum of q^r c(r) over r >= m + L  <=  q^-L max over r of c(r) / c(r + L)

and its inverse is at most 1. For the cube c = 1, and the loss is L / scale. For the ball `c(r) <= c(r + L) exp(slack)`,
where the slack is d / 2^100 (proof: `_draw_ball`). All draws are integers from exact samplers, by rejections that end
with probability one and do not depend on the data, without rounding or inverting a distribution function.

Source: Hardt and Talwar (2010) for the mechanism; the samplers of integer vectors are proved here.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from discreet.errors import InputError
from discreet.noise.exact_draws import Entropy, coin, float_above, geometric, words
from discreet.noise.noise_laws import IntegerNoise, ShapeTag
from discreet.noise.shapes import SHAPES, Ball, Cube, Diamond
from discreet.util.arrays import Ints

COORDINATES_PER_SCALE = 8
"""Most coordinates for each unit of the scale: a radius is then accepted with probability at least exp(-4)."""
REACH_LIMIT = 2.0**52
"""Largest (d + 1) scale: beyond 2^62 the radius, of about d scales, would have to be 1,000 times as large, which has a
probability below exp(-1000)."""


def k_norm_scale(sensitivity: int, epsilon: Fraction, dimension: int, shape: ShapeTag) -> tuple[float, Fraction]:
    """Find the smallest scale of K-norm noise that keeps a budget.

    Args:
        sensitivity: whole number, an upper bound of the distance between neighbouring vectors; `||.||_inf` for the
            cube, `||.||_2` for the ball, `||.||_1` for the diamond.
        epsilon: exact budget, nats.
        dimension: coordinates of the vector.
        shape: "cube", "ball" or "diamond".

    Returns:
        (scale in the vector's unit, exact bound of its epsilon). The epsilon is at most `epsilon`, and less by a
        relative 1e-15 at most, due to rounding the scale to a float.

    Raises:
        InputError: an invalid sensitivity, budget, dimension or shape, or a scale that `k_norm_noise` refuses.

    Guarantee:
        `sensitivity / scale` for the cube and the diamond, `sensitivity / scale + dimension / 2^100` for the ball, for
        any relation under which the sensitivity holds; no delta.

    Source:
        Hardt and Talwar (2010), the K-norm mechanism, for real vectors; this module's first lines for integers.

    Example:
        >>> k_norm_scale(4096, Fraction(1, 2), 10, "cube")
        (8192.0, Fraction(1, 2))
    """
    if not (isinstance(sensitivity, int) and sensitivity >= 1):
        raise InputError(f"a sensitivity of {sensitivity!r}: expected a whole number, at least 1")
    if not epsilon > 0:
        raise InputError(f"an epsilon of {epsilon}: expected a number greater than 0")
    _require_shape(dimension, shape)
    # Factor 3: a vector may be doubled with its noise, and rounding the scale up still stays below REACH_LIMIT.
    if 3 * sensitivity * SHAPES[shape].scales(dimension) > int(REACH_LIMIT) * epsilon:
        raise InputError(f"epsilon is too small for {dimension} coordinates: the noise would exceed 64-bit integers")
    if COORDINATES_PER_SCALE * sensitivity < dimension * epsilon:
        raise InputError(
            f"epsilon is too large: noise of a scale below {dimension}/{COORDINATES_PER_SCALE} on {dimension} "
            f"coordinates takes too long to draw; use at most {COORDINATES_PER_SCALE * sensitivity}/{dimension}"
        )
    # The slack, at most dimension / 2^100, is far below epsilon, which is at least dimension / 2^51 here.
    slack = dimension * SHAPES[shape].slack
    scale = float_above(sensitivity / (epsilon - slack))
    return scale, sensitivity / Fraction(scale) + slack


def k_norm_noise(noise: IntegerNoise, entropy: Entropy, dimension: int, scale: float, shape: ShapeTag) -> Ints:
    """Draw one vector of K-norm noise.

    Args:
        noise: source of discrete Laplace and Gaussian noise.
        entropy: source of all other randomness, independent of `noise`.
        dimension: number of coordinates.
        scale: unit: that of the vector; `dimension / 8 <= scale <= 2^52 / (dimension + 1)`, for the diamond at most
            2^51.
        shape: "cube" or "ball".

    Returns:
        int64, shape (dimension,), exactly with the law of the module's docstring, if the two sources are exact.
        Expected tries: at most `exp(dimension / (2 scale))` for a radius; about `sqrt(pi dimension)` radii for a ball.

    Raises:
        InputError: an invalid dimension or shape, or a scale outside its bounds; before anything is drawn.

    Guarantee:
        None by itself; see `k_norm_scale`. The law of the number of tries depends only on the arguments.
    """
    _require_shape(dimension, shape)
    if not (dimension <= COORDINATES_PER_SCALE * scale and scale * SHAPES[shape].scales(dimension) <= REACH_LIMIT):
        raise InputError(
            f"a noise scale of {scale} on {dimension} coordinates: expected at least "
            f"{dimension}/{COORDINATES_PER_SCALE} and at most {REACH_LIMIT / SHAPES[shape].scales(dimension):.4g}"
        )
    return _SAMPLERS[shape](noise, entropy, dimension, scale)


def _require_shape(dimension: int, shape: str) -> None:
    """Refuse an invalid dimension or norm."""
    if shape not in SHAPES:
        raise InputError(f'a shape of {shape!r}: expected "cube", "ball" or "diamond"')
    if not dimension >= 1:
        raise InputError(f"a vector of {dimension} coordinates: expected at least one")


def _draw_radius(noise: IntegerNoise, entropy: Entropy, dimension: int, scale: float) -> int:
    """Draw a radius with `P(r) ~ (2 r + 1)^d q^r`: as many vectors as the cube of radius r has, each with weight q^r.

    With d uniform U_i in [0, 1) and d + 1 geometric G_i (`P(g) ~ q^g`), let `J = round(U_1 + .. + U_d)`, accepted with
    probability q^J, and r = J + G_0 + .. + G_d. The weight of (U, G) is then q^r. The X_i = U_i + G_i, i >= 1, run
    evenly through all vectors of non-negative reals; as `J + G_1 + .. + G_d = round(X_1 + .. + X_d)`, and G_0 adds the
    rest, those that can lead to r have `X_1 + .. + X_d < r + 1/2`: a simplex of volume `(r + 1/2)^d / d!`.

    J has mean d / 2 (replace every U_i by 1 - U_i), so it is accepted with probability at least q^(d / 2) (Jensen).
    """
    while True:
        jump = _draw_rounded_sum(entropy, dimension)
        if geometric(noise, 1, scale)[0] >= jump:  # with probability q^whole
            return jump + int(sum(geometric(noise, dimension + 1, scale).tolist()))


def _draw_ball(noise: IntegerNoise, entropy: Entropy, dimension: int, scale: float) -> Ints:
    """Draw a vector with the law of the ball: a radius, and d Gaussians accepted so as to be uniform within it.

    The radius r has weight `(r + 1/2)^d q^r` (`_draw_radius`), the Gaussians k of standard deviation s have
    `exp(-||k||^2 / (2 s^2)) / Z^d`, and a pair with `||k|| <= r` is accepted with probability
    `exp(-((r + 1/2)^2 - ||k||^2) / (2 s^2))`; a pair that is refused is forgotten, with its radius. So k is even within
    the ball, and what is left is `q^r c(r)` with `c(r) = (r + 1/2)^d exp(-(r + 1/2)^2 / (2 s^2)) / Z^d`.

    By Poisson's summation `Z = s sqrt(2 pi) (1 + t(s))`, where t = 2 exp(-2 pi^2 s^2) + .. decreases in s. With
    a = (r + 1/2) / s therefore, up to a constant, `log c(r) = d log(a) - a^2 / 2 - d log(1 + t(s))`. The last term
    grows with r, as s does. The others are largest at a = sqrt(d), and for a = sqrt(d) (1 + e), |e| <= 1/2, they are
    less by `d (e + e^2 / 2 - log(1 + e)) <= 2 d e^2`. As s is `(r + 1/2) / sqrt(d)` up to three roundings of floats,
    |e| < 2^-51, and `log c(r) <= log c(r + L) + d / 2^101`; the slack is twice that.

    A pair is accepted with probability of about 1 / sqrt(pi d): Stirling's formula for the volume of the ball.
    """
    while True:
        radius = _draw_radius(noise, entropy, dimension, scale)
        deviation = (2 * radius + 1) / (2 * math.sqrt(dimension))
        vector = noise.discrete_gaussian(np.zeros(dimension, np.int64), deviation)
        squared = sum(entry * entry for entry in vector.tolist())
        if squared > radius**2:
            continue
        if coin(entropy, Fraction((2 * radius + 1) ** 2 - 4 * squared) / (8 * Fraction(deviation) ** 2)):
            return vector


def _draw_rounded_sum(entropy: Entropy, number: int) -> int:
    """Draw the sum of uniform reals in [0, 1), rounded to the nearest integer, from as many bits as needed."""
    digits, bits = 0, 0
    while True:
        digits = (digits << 64) + int(sum(words(entropy, number).tolist()))
        bits += 64
        # The bits not yet drawn add less than `number` units of the last one drawn.
        lowest, highest = ((total + (1 << (bits - 1))) >> bits for total in (digits, digits + number - 1))
        if lowest == highest:
            return lowest


def _draw_diamond(noise: IntegerNoise, entropy: Entropy, dimension: int, scale: float) -> Ints:
    """Draw independent discrete Laplace noise."""
    return noise.discrete_laplace(np.zeros(dimension, np.int64), scale)


def _draw_in_cube(noise: IntegerNoise, entropy: Entropy, dimension: int, scale: float) -> Ints:
    """Draw a radius, and then a uniform vector within it."""
    return _draw_cube(entropy, dimension, _draw_radius(noise, entropy, dimension, scale))


def _draw_cube(entropy: Entropy, number: int, radius: int) -> Ints:
    """Draw independent integers, uniform on -radius..radius; radius below 2^62."""
    largest = np.uint64(2 * radius)
    unused = np.uint64(64 - max((2 * radius).bit_length(), 1))
    accepted = np.empty(0, np.uint64)
    while accepted.size < number:
        candidates = words(entropy, number) >> unused
        accepted = np.concatenate([accepted, candidates[candidates <= largest]])
    return accepted[:number].astype(np.int64) - radius


_SAMPLERS = {Cube.tag: _draw_in_cube, Ball.tag: _draw_ball, Diamond.tag: _draw_diamond}
