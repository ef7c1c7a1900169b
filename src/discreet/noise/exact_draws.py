"""Draws from exact laws by integer arithmetic: what the samplers of noise vectors are made of.

Nothing is rounded and no distribution function is inverted; every loop ends with probability one.
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
"""As many independent, uniform bytes as are asked for, such as `os.urandom`."""


def float_above(exact: Fraction) -> float:
    """The smallest float that is no less than a number, or the next one."""
    found = float(exact)
    return found if Fraction(found) >= exact else math.nextafter(found, math.inf)


def geometric(noise: IntegerNoise, number: int, scale: float) -> Ints:
    """Independent `P(g) = (1 - q) q^g`, g >= 0: the law of discrete Laplace noise, given that it is not negative."""
    kept = np.empty(0, np.int64)
    while kept.size < number:
        both = noise.discrete_laplace(np.zeros(2 * number + 4, np.int64), scale)
        kept = np.concatenate([kept, both[both >= 0]])
    return kept[:number]


def coin(entropy: Entropy, exponent: Fraction) -> bool:
    """Toss a coin that is True with probability exp(-exponent), exactly (Canonne, Kamath and Steinke, Algorithm 1).

    Example:
        >>> import os
        >>> coin(os.urandom, Fraction(0))
        True
    """
    whole, rest = divmod(exponent, 1)
    return all(_toss_short_coin(entropy, Fraction(1)) for _ in range(whole)) and _toss_short_coin(entropy, rest)


def _toss_short_coin(entropy: Entropy, exponent: Fraction) -> bool:
    """Toss the same coin for x at most 1: coins of x / n, n = 1, 2, ..; True where the first 0 has an odd n."""
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
    """Draw an index with probability in proportion to its weight; weights are at least 0, not all 0.

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
    found = set[int]()
    for last in range(number - size, number):
        drawn = below(entropy, last + 1)
        found.add(last if drawn in found else drawn)
    return sorted(found)


def words(entropy: Entropy, number: int) -> npt.NDArray[np.uint64]:
    """Draw uniform 64-bit numbers."""
    return np.frombuffer(entropy(8 * number), np.uint64)


def exponential_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Enclose `2^bits exp(-exponent)` between whole numbers, for an exponent of at least 0.

    Taylor's series of exp(y), with `y = exponent / 2^k` at most 1/2: a term is rounded down by less than 1, after half
    of what the one before it had lost, so by less than 2 in all; those left out sum to less than 4. Then k squares.

    Example:
        >>> exponential_bounds(Fraction(1), 10)  # 1024 / e is 376.7
        (376, 377)
    """
    halvings = max(0, (2 * exponent.numerator // exponent.denominator).bit_length())
    places = bits + halvings + 32  # a square doubles the relative error: the bounds differ by 2 at most
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


def under_exponential(entropy: Entropy, part: int, bits: int, exponent: Fraction) -> bool:
    """Tell whether a uniform real number, whose first digits are given, is below `exp(-exponent)`.

    Args:
        entropy: of the further digits, of which as many are drawn as it takes.
        part: the first binary digits after the point, as a whole number below `2^bits`.
        bits: how many.
        exponent: at least 0.
    """
    while True:
        low, high = exponential_bounds(exponent, bits)
        if part < low:  # then the number is at most (part + 1) / 2^bits
            return True
        if part >= high:
            return False
        part, bits = part << 64 | below(entropy, 1 << 64), bits + 64


def choose(entropy: Entropy, exponents: Sequence[Fraction], draws: int) -> list[int]:
    """Draw independent indices with `P(i) ~ exp(-exponents[i])`, exactly.

    Every weight gets whole numbers below and above it; a uniform point below the sum of the upper ones picks an index,
    and is kept if, as the first digits of a uniform real number, that number is below the weight itself.

    Args:
        entropy: independent bytes.
        exponents: at least 0, one of them 0.
        draws: how many.

    Example:
        >>> import os
        >>> choose(os.urandom, [Fraction(10**6), Fraction(0)], 3)
        [1, 1, 1]
    """
    bits = 64 + len(exponents).bit_length()
    # Beyond this exponent a weight is below a unit of the last digit: its bounds are 0 and 1.
    tops = [1 if exponent > bits else exponential_bounds(exponent, bits)[1] for exponent in exponents]
    ends = list(accumulate(tops))
    found: list[int] = []
    while len(found) < draws:
        at = below(entropy, ends[-1])
        index = bisect_right(ends, at)
        if under_exponential(entropy, at - (ends[index] - tops[index]), bits, exponents[index]):
            found.append(index)
    return found
