"""Exact draws by integer arithmetic, from which the samplers of noise vectors are built.

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
"""Function from a number to that many independent, uniform bytes, such as `os.urandom`."""


def float_above(exact: Fraction) -> float:
    """Return the smallest float that is no less than a number, or the next one."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def geometric(noise: IntegerNoise, number: int, scale: float) -> Ints:
    """Draw independent `P(g) = (1 - q) q^g`, g >= 0: discrete Laplace noise, given that it is not negative."""
    variates = np.empty(0, np.int64)
    while variates.size < number:
        signed = noise.discrete_laplace(np.zeros(2 * number + 4, np.int64), scale)
        variates = np.concatenate([variates, signed[signed >= 0]])
    return variates[:number]


def coin(entropy: Entropy, exponent: Fraction) -> bool:
    """Toss a coin that is True with probability exp(-exponent), exactly (Canonne, Kamath and Steinke, Algorithm 1).

    Example:
        >>> import os
        >>> coin(os.urandom, Fraction(0))
        True
    """
    units, fraction = divmod(exponent, 1)
    return all(_toss_short_coin(entropy, Fraction(1)) for _ in range(units)) and _toss_short_coin(entropy, fraction)


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

    Taylor's series of exp(y), with `y = exponent / 2^k` at most 1/2: a term is rounded down by less than 1 and takes
    over half of the previous term's error, so its error is less than 2; the omitted terms sum to less than 4. Then k
    squares.

    Example:
        >>> exponential_bounds(Fraction(1), 10)  # 1024 / e is 376.7
        (376, 377)
    """
    halvings = max(0, (2 * exponent.numerator // exponent.denominator).bit_length())
    digits = bits + halvings + 32  # a square doubles the relative error: the bounds differ by 2 at most
    top, bottom = exponent.numerator, exponent.denominator << halvings
    term = low = 1 << digits
    terms = 1
    while term:
        term = term * top // (bottom * terms)
        low += term
        terms += 1
    high = low + 2 * terms + 4
    for _ in range(halvings):
        low, high = low * low >> digits, -(-high * high >> digits)
    return (1 << digits + bits) // high, -(-(1 << digits + bits) // low)


def under_exponential(entropy: Entropy, leading: int, bits: int, exponent: Fraction) -> bool:
    """Return True if a uniform real number with these first digits is below `exp(-exponent)`.

    Args:
        entropy: source of further digits, which are drawn as needed.
        leading: first binary digits after the point, as a whole number below `2^bits`.
        bits: number of these digits.
        exponent: at least 0.
    """
    while True:
        low, high = exponential_bounds(exponent, bits)
        if leading < low:  # then the number is at most (leading + 1) / 2^bits
            return True
        if leading >= high:
            return False
        leading, bits = leading << 64 | below(entropy, 1 << 64), bits + 64


def choose(entropy: Entropy, exponents: Sequence[Fraction], draws: int) -> list[int]:
    """Draw independent indices with `P(i) ~ exp(-exponents[i])`, exactly.

    Every weight has a whole number below and one above it. A uniform point below the sum of the upper ones selects an
    index. It is the first digits of a uniform real number; the index is accepted if that number is below the weight.

    Args:
        entropy: source of independent bytes.
        exponents: at least 0, one of them 0.
        draws: number of draws.

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
