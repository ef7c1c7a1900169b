"""Exact draws: each has its law, and bounds of exponentials are on their sides, with as many digits as it takes.

All is seeded or scripted: no false alarms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from discreet.mechanisms.noise import SimulatedNoise
from discreet.noise.exact_draws import (
    below,
    coin,
    exponential_bounds,
    geometric,
    pick,
    subset,
    under_exponential,
)
from folding import every
from goodness import fit

FALSE_ALARM = 1e-9


@every("scale", [0.3, 1.0, 20.0])
def test_geometrics_are_geometric(scale: float) -> None:
    found = geometric(SimulatedNoise(np.random.default_rng(5)), 50_000, scale)
    assert found.shape == (50_000,) and found.min() == 0
    q = math.exp(-1 / scale)
    assert fit(np.bincount(found), (1 - q) * q ** np.arange(found.max() + 1)) > FALSE_ALARM


@pytest.mark.costly("All exact noise is made of these coins, whose law shows in thousands of tosses.", always=True)
@every("exponent", ["0", "1/1000", "1/3", "1", "3/2", "2", "7/3", "6"])
def test_coins_fall_with_their_probability(exponent: str) -> None:
    entropy = np.random.default_rng(6).bytes
    tosses = 20_000 if exponent == "6" else 8000
    heads = sum(coin(entropy, Fraction(exponent)) for _ in range(tosses))
    right = math.exp(-float(Fraction(exponent)))
    assert stats.binomtest(heads, tosses, right).pvalue > FALSE_ALARM
    if exponent not in ("0", "1/1000"):
        assert stats.binomtest(heads, tosses, right**1.2).pvalue < FALSE_ALARM


@every("limit", [1, 2, 3, 5, 8, 255, 256, 257, 1000])
def test_integers_below_a_limit_each_come_from_one_word(limit: int) -> None:
    """Of all words of as many bits as the limit needs, each integer is one, and the others are passed over."""
    size, bits = ((limit - 1).bit_length() + 7) // 8, (limit - 1).bit_length()
    shift = 8 * size - bits
    for order in (1, -1):  # the last of the others come first, too
        words = iter([(word << shift).to_bytes(size, "little") for word in range(2**bits)][::order])
        found = [below(lambda asked, w=words: next(w) if asked == size else b"", limit) for _ in range(limit)]
        assert found == list(range(limit))[::order]


def test_picks_weigh_what_they_are_given() -> None:
    """Of all words below the sum each index gets as many as its weight."""
    weights = [0, 3, 0, 5, 8]
    words = iter(range(16))
    assert [pick(lambda _: bytes([next(words) << 4]), weights) for _ in range(16)] == [1] * 3 + [3] * 5 + [4] * 8


@every(("number", "size"), [(0, 0), (1, 1), (5, 0), (5, 2), (6, 3), (4, 4)])
def test_subsets_are_even(number: int, size: int) -> None:
    entropy, draws = np.random.default_rng(8).bytes, 6000
    found = [tuple(subset(entropy, number, size)) for _ in range(draws)]
    every_one = list(itertools.combinations(range(number), size))
    counts = np.array([found.count(one) for one in every_one])
    assert counts.sum() == draws
    assert len(every_one) == 1 or fit(counts, np.full(len(every_one), 1 / len(every_one))) > FALSE_ALARM


# ----------------------------------------------------------------------------------------------------- exponentials


@given(st.fractions(min_value=0, max_value=300, max_denominator=10**9), st.integers(1, 700))
def test_bounds_hold_an_exponential_and_are_close(exponent: Fraction, bits: int) -> None:
    low, high = exponential_bounds(exponent, bits)
    with localcontext() as context:
        context.prec = 800
        right = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * Decimal(2) ** bits
    assert low <= right <= high <= low + 2


@every("exponent", [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2**52 + 1, 2**52), Fraction(50), Fraction(4000)])
def test_bounds_are_close_at_both_ends(exponent: Fraction) -> None:
    low, high = exponential_bounds(exponent, 64)
    assert 0 <= low <= 2**64 * math.exp(-exponent) * (1 + 1e-12) and high >= 2**64 * math.exp(-exponent) * (1 - 1e-12)
    assert high - low <= 2


@every("number", [700_001, 999_983, 1_000_000])
@every("side", [-1, 1])
def test_bounds_hold_what_is_next_to_a_whole_number(number: int, side: int) -> None:
    """2^20 exp(-exponent) is off a whole number by 2^-40: what rounding loses must be on the right side."""
    with localcontext() as context:
        context.prec = 60
        right = Decimal(number) + side * Decimal(2) ** -40
        exponent = Fraction((Decimal(2) ** 20 / right).ln())
    low, high = exponential_bounds(exponent, 20)
    assert low <= right <= high <= low + 2


@every("exponent", ["1/1000", "1/3", "1", "7/3", "20"])
@every("bits", [1, 3, 64])
def test_a_number_is_compared_with_as_many_digits_as_it_takes(exponent: str, bits: int) -> None:
    """On either side of an exponential, from digits that agree with it for one, two and five words."""
    x = Fraction(exponent)
    for more in (64, 128, 320):
        low, high = exponential_bounds(x, bits + more)
        for number, expected in ((low - 1, True), (high + 1, False)):

            def words(number: int = number, more: int = more) -> Iterator[bytes]:
                for step in range(more // 64):
                    yield (number >> (more - 64 * (step + 1)) & (2**64 - 1)).to_bytes(8, "little")

            script = words()
            assert under_exponential(lambda _, s=script: next(s), number >> more, bits, x) is expected


def test_digits_that_decide_ask_for_no_more() -> None:
    def refused(_: int) -> bytes:
        raise AssertionError("asked for more digits")

    assert under_exponential(refused, 0, 1, Fraction(1, 2))
    assert not under_exponential(refused, 3, 2, Fraction(1))
