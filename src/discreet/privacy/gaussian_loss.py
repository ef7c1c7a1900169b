"""Gaussian losses: what a release costs beside many others, by comparison with a Gaussian release.

A release has the Gaussian loss rho if, for all neighbours, whatever is learned from it could be learned from a normal
variate of variance 1 whose mean the record moves by `mu = sqrt(2 rho)` (Gaussian differential privacy). It is then
also rho-zero-concentrated. Gaussian losses add up, and `gaussian_delta` converts their sum to (epsilon, delta) without
loss: no better conversion holds for Gaussian noise. Everything here is rounded towards the larger loss; docs/theory.md,
section 12, has the proofs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

PURE_FACTOR = Fraction(355, 452)
"""At least pi / 4: a release of pure epsilon has the Gaussian loss `pi epsilon^2 / 4`."""
ROUNDING_VARIANCE = 4
"""Variance that discrete Gaussian noise has beside a normal variate, in records squared: a normal variate, rounded to a
whole number at random by this variance, differs from discrete Gaussian noise by a factor of at most `1 + 3e-34`."""
KEPT_SHARE, FREE_SHARE = Fraction(7, 8), Fraction(1, 16)
"""Shares of delta for the conversion of Gaussian losses, and for either sum of deltas: together 1 with both."""
DIGITS = 13
"""Digits of a Gaussian loss, so that sums stay short."""
PARTS, LENGTHS = 20_000, 45
"""Parts of the integral of `gaussian_delta`, and its range in lengths in which the density falls by a factor of e."""
TOLERANCE = 1e-9
"""Relative tolerance for different floats on different machines, kept by everyone who sets a limit, and above all
errors of floats here."""
EPSILON_LIMIT = 500
"""Largest epsilon that Gaussian losses are converted to."""


def pure_rho(epsilon: Fraction) -> Fraction:
    """Bound the Gaussian loss of a release with a pure guarantee.

    Args:
        epsilon: of the guarantee.

    Returns:
        At least `pi epsilon^2 / 4`.

    Example:
        >>> float(pure_rho(Fraction(1, 10)))
        0.007853982300885
    """
    return round_rho(PURE_FACTOR * epsilon**2)


def discrete_rho(rho: Fraction, *scales: float | None) -> Fraction | None:
    """Bound the Gaussian loss of discrete Gaussian noise on whole numbers.

    Args:
        rho: its zero-concentrated loss.
        scales: of the noise, where there is some; the smallest counts.

    Returns:
        `rho scale^2 / (scale^2 - 4)`; None for a scale of less than the root of 8, where that says little.

    Example:
        >>> float(discrete_rho(Fraction(1, 3200), 40.0, None))
        0.0003132832080201
    """
    variance = min(Fraction(scale) for scale in scales if scale is not None) ** 2
    if variance < 2 * ROUNDING_VARIANCE:
        return None
    return round_rho(rho * variance / (variance - ROUNDING_VARIANCE))


def sum_rho(*losses: Fraction | None) -> Fraction | None:
    """Add Gaussian losses; None if one is not known."""
    numbers = [loss for loss in losses if loss is not None]
    return sum(numbers, Fraction()) if len(numbers) == len(losses) else None


def most_rho(*losses: Fraction | None) -> Fraction | None:
    """Return the largest of several Gaussian losses; None if one is not known."""
    numbers = [loss for loss in losses if loss is not None]
    return max(numbers) if len(numbers) == len(losses) else None


def round_rho(rho: Fraction, *, up: bool = True) -> Fraction:
    """Round a loss to 13 digits: up, or a limit of losses down."""
    unit = Fraction(10) ** (len(str(rho.numerator)) - len(str(rho.denominator)) - DIGITS)
    return (math.ceil if up else math.floor)(rho / unit) * unit


@lru_cache(maxsize=4096)
def gaussian_delta(epsilon: float, rho: float) -> float:
    """Bound the delta of a Gaussian loss from above.

    Args:
        epsilon: greater than rho.
        rho: greater than 0.

    Returns:
        At least the integral of `(1 - exp(-t)) n(epsilon + t)` over all t > 0, where n is the normal density of mean
        rho and variance 2 rho; it exceeds it by some thousandths. 1 outside of the range of the arguments.

    Example:
        >>> round(gaussian_delta(1.0, 0.125), 4)  # the integral is 0.00683
        0.0069
    """
    if not 0 < rho < epsilon <= EPSILON_LIMIT:
        return 1.0
    # From epsilon on the density falls at least as fast as exp(-t / length), so each part is below its left end times
    # the factor at its right end, and what lies beyond the range is below the last term.
    length = 2 * rho / (epsilon - rho)
    step = LENGTHS * length / PARTS
    at = (epsilon - rho) ** 2 / (4 * rho)
    inside = math.fsum(
        -math.expm1(-t - step) * math.exp(max(-at - t / length - t * t / (4 * rho), -700))
        for t in (index * step for index in range(PARTS))
    )
    return (inside * step + length * math.exp(max(-at, -655) - LENGTHS)) / math.sqrt(4 * math.pi * rho)


def keeps(epsilon: Fraction, delta: Fraction, rho: Fraction, tolerance: float = TOLERANCE) -> bool:
    """Return True if a sum of Gaussian losses keeps a guarantee.

    Args:
        epsilon, delta: of the guarantee; any rationals.
        rho: sum of the losses.
        tolerance: relative, of delta.
    """
    bounded = 0 < rho < epsilon <= EPSILON_LIMIT and delta > Fraction(1, 10**100)
    return bounded and gaussian_delta(float(epsilon), float(rho)) <= float(delta) * (1 + tolerance)


@lru_cache(maxsize=1024)
def expect_rho(epsilon: Fraction, delta: Fraction) -> float:
    """Find nearly the largest sum of Gaussian losses that keeps a guarantee, with the errors of floats.

    Args:
        epsilon, delta: of the guarantee.

    Returns:
        It; 0 where there is none.
    """
    if not (0 < epsilon <= EPSILON_LIMIT and delta > Fraction(1, 10**100)):
        return 0.0
    wanted, least, most = float(delta), 0.0, float(epsilon)
    for _ in range(60):
        middle = (least + most) / 2
        least, most = (middle, most) if _expect_delta(float(epsilon), middle) <= wanted else (least, middle)
    return least


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Find nearly the largest sum of Gaussian losses that keeps a guarantee.

    Args:
        epsilon, delta: of the guarantee.

    Returns:
        It, rounded down; None where there is none.

    Example:
        >>> float(largest_rho(Fraction(3), Fraction("0.0000875")))
        0.32858...
    """
    least = expect_rho(epsilon, delta)
    for smaller in range(1, 10) if least > 0 else ():
        rho = round_rho(Fraction(least) * (1 - Fraction(smaller, 2500)), up=False)
        if keeps(epsilon, delta, rho, -TOLERANCE):
            return rho
    return None


def _expect_delta(epsilon: float, rho: float) -> float:
    """Compute the delta of a Gaussian loss, with the errors of floats."""
    half = math.sqrt(rho / 2)
    if not half > 0:
        return 0.0
    low, high = epsilon / (2 * half) - half, epsilon / (2 * half) + half
    return (math.erfc(low / math.sqrt(2)) - math.exp(epsilon) * math.erfc(high / math.sqrt(2))) / 2
