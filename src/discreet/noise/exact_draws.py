"""Exact draws from laws in integer arithmetic, for the samplers of noise vectors.

No step rounds or inverts a distribution function; every loop ends with probability one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from discreet.noise.noise_laws import IntegerNoise
from discreet.util.arrays import Ints

Entropy = Callable[[int], bytes]
"""Source of independent, uniform bytes, such as `os.urandom`."""


def float_above(exact: Fraction) -> float:
    """Return the smallest float that is no less than a number, or the next one."""
    rounded = float(exact)
    return rounded if Fraction(rounded) >= exact else math.nextafter(rounded, math.inf)


def geometric(noise: IntegerNoise, number: int, scale: float) -> Ints:
    """Draw independent `P(g) = (1 - q) q^g`, g >= 0: the law of discrete Laplace noise given that it is >= 0."""
    accepted = np.empty(0, np.int64)
    while accepted.size < number:
        both = noise.discrete_laplace(np.zeros(2 * number + 4, np.int64), scale)
        accepted = np.concatenate([accepted, both[both >= 0]])
    return accepted[:number]


def coin(entropy: Entropy, exponent: Fraction) -> bool:
    """Toss a coin that is True with probability exp(-exponent), exactly (Canonne, Kamath and Steinke, Algorithm 1).

    Example:
        >>> import os
        >>> coin(os.urandom, Fraction(0))
        True
    """
    ones, rest = divmod(exponent, 1)
    return all(_toss_short_coin(entropy, Fraction(1)) for _ in range(ones)) and _toss_short_coin(entropy, rest)


def _toss_short_coin(entropy: Entropy, exponent: Fraction) -> bool:
    """Toss the same coin for x at most 1: coins of x / n, n = 1, 2, ..; True if the first 0 has an odd n."""
    n = 1
    while below(entropy, n * exponent.denominator) < exponent.numerator:
        n += 1
    return n % 2 == 1


def below(entropy: Entropy, limit: int) -> int:
    """Draw a whole number, uniform on 0..limit - 1.

    Example:
        >>> import os
        >>> 0 <= below(os.urandom, 6) < 6, below(os.urandom, 1)
        (True, 0)
    """
    bits = (limit - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        word = int.from_bytes(entropy(size), "little") >> (8 * size - bits)
        if word < limit:
            return word


def pick(entropy: Entropy, weights: Sequence[int]) -> int:
    """Draw an index with probability proportional to its weight; weights are at least 0, not all 0.

    Example:
        >>> import os
        >>> pick(os.urandom, [0, 5, 0])
        1
    """
    ends = list(accumulate(weights))
    at = below(entropy, ends[-1])
    return next(index for index, end in enumerate(ends) if at < end)


def subset(entropy: Entropy, number: int, size: int) -> list[int]:
    """Draw a uniform subset of 0..number - 1, in order (Floyd's algorithm).

    Example:
        >>> import os
        >>> subset(os.urandom, 3, 3)
        [0, 1, 2]
    """
    members = set[int]()
    for last in range(number - size, number):
        candidate = below(entropy, last + 1)
        members.add(last if candidate in members else candidate)
    return sorted(members)


def words(entropy: Entropy, number: int) -> npt.NDArray[np.uint64]:
    """Draw uniform 64-bit numbers."""
    return np.frombuffer(entropy(8 * number), np.uint64)


def exponential_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Enclose `2^bits exp(-exponent)` between whole numbers, for an exponent of at least 0.

    Taylor's series of exp(y), with `y = exponent / 2^k` at most 1/2: each term loses less than 1 by rounding down, and
    half of the loss of the term before, so less than 2 in total; omitted terms sum to less than 4. Then k squares.

    Example:
        >>> exponential_bounds(Fraction(1), 10)  # 1024 / e is 376.7
        (376, 377)
    """
    halvings = max(0, (2 * exponent.numerator // exponent.denominator).bit_length())
    places = bits + halvings + 32  # squaring doubles the relative error: the bounds differ by at most 2
    top, bottom = exponent.numerator, exponent.denominator << halvings
    term = low = 1 << places
    terms = 1
    while term:
        term = term * top // (bottom * terms)
        low += term
        terms += 1
    high = low + 2 * terms + 4
    for _ in range(halvings):
        low, high = low * low >> places, -(-high * high >> places)
    return (1 << places + bits) // high, -(-(1 << places + bits) // low)


def under_exponential(entropy: Entropy, digits: int, bits: int, exponent: Fraction) -> bool:
    """Return True if a uniform real number with given first digits is below `exp(-exponent)`.

    Args:
        entropy: of the further digits, drawn as needed.
        digits: the first binary digits after the point, as a whole number below `2^bits`.
        bits: number of these digits.
        exponent: at least 0.
    """
    while True:
        low, high = exponential_bounds(exponent, bits)
        if digits < low:  # the number is at most (part + 1) / 2^bits
            return True
        if digits >= high:
            return False
        digits, bits = digits << 64 | below(entropy, 1 << 64), bits + 64


def choose(entropy: Entropy, exponents: Sequence[Fraction], draws: int) -> list[int]:
    """Draw independent indices with `P(i) ~ exp(-exponents[i])`, exactly.

    Every weight is enclosed by whole numbers. A uniform point below the sum of the upper bounds selects an index; it is
    accepted if, as the first digits of a uniform real number, that number is below the weight itself.

    Args:
        entropy: independent bytes.
        exponents: at least 0, one of them 0.
        draws: number of indices.

    Example:
        >>> import os
        >>> choose(os.urandom, [Fraction(10**6), Fraction(0)], 3)
        [1, 1, 1]
    """
    bits = 64 + len(exponents).bit_length()
    # Beyond this exponent a weight is below a unit of the last digit: its bounds are 0 and 1.
    tops = [1 if exponent > bits else exponential_bounds(exponent, bits)[1] for exponent in exponents]
    ends = list(accumulate(tops))
    indices: list[int] = []
    while len(indices) < draws:
        at = below(entropy, ends[-1])
        index = bisect_right(ends, at)
        if under_exponential(entropy, at - (ends[index] - tops[index]), bits, exponents[index]):
            indices.append(index)
    return indices
