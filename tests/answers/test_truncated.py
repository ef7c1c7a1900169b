"""`discreet.research.readers.particles`: masses against 40-digit and rational references, draws in every tail."""

from __future__ import annotations

from fractions import Fraction
from math import comb, log

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import betainc

import discreet as dc
from discreet.research.readers.particles import log_beta_mass, truncated_beta
from folding import every

Floats = npt.NDArray[np.float64]

FALSE_ALARM = 1e-8
"""Of each statistical test: its Kolmogorov-Smirnov p-value is below this once in a hundred million seeds."""

# a, b, low, high, log mass by the hypergeometric series with 40 digits
REFERENCE = [
    (1, 1, 0.01, 0.99, -0.020202707317519457684),
    (10, 90, 0.01, 0.99, -6.9309842030556030448e-8),
    (0.1, 0.1, 0.01, 0.99, -1.0233652176267102136),
    (0.01, 0.01, 0.001, 0.999, -2.70927253047320517),
    (2, 500, 0.01, 0.99, -3.2334084575226656787),
    (2, 5000, 0.01, 0.99, -46.319853634782881177),
    (1, 1e5, 0.001, 0.999, -100.0500333583533521),
    (1, 1e6, 0.01, 0.99, -10050.335853501441394),
    (5e5, 2, 0.01, 0.99, -5016.6505335793061729),
    (1e-6, 1e-6, 0.01, 0.99, -12.29051837091545568),
    (1e-6, 1e4, 0.001, 0.5, -26.211149929451707987),
    (1e9, 1e9, 0.6, 0.9, -40822004.5379622527),
    (5e11, 1e12, 0.2, 0.3, -3890093671.7691731538),
    (1e12, 1e6, 0.5, 0.9, -105348002751.20091735),
    (0.004350373893979621, 491.34960994522106, 5.650277481248095e-06, 0.4398952025392321, -3.7781692490757352742),
    (0.01, 1, 1e-9, 0.5, -1.713344045813540316),
    (1e4, 1e4, 0.49, 0.4901, -8.4446579137267482512),
]
HARD = [(2, 5000, 0.01), (1, 1e5, 0.001), (1, 1e6, 0.01), (5e5, 2, 0.01)]
EASY = [(1, 1, 0.01), (10, 90, 0.01), (0.1, 0.1, 0.01), (0.01, 0.01, 0.001), (1e5, 1e5, 0.01), (2, 500, 0.01)]


@every(("a", "b", "low", "high", "expected"), REFERENCE)
def test_log_masses_have_nine_digits(a: float, b: float, low: float, high: float, expected: float) -> None:
    assert log_beta_mass(a, b, low, high) == pytest.approx(expected, rel=1e-10, abs=0)
    # The mirror image has another upper end after rounding; only intervals that survive it are compared.
    if 1 - (1 - high) == high and 1 - (1 - low) == low:
        assert log_beta_mass(b, a, 1 - high, 1 - low) == pytest.approx(expected, rel=1e-9, abs=0)


def test_log_masses_are_vectorised() -> None:
    a, b, low, high, expected = np.array(REFERENCE).T
    assert np.allclose(log_beta_mass(a, b, low, high), expected, rtol=1e-10, atol=0)
    table = log_beta_mass(np.array([[1.0], [2.0]]), [3.0, 4.0, 5.0], 0.1, 0.2)
    assert table.shape == (2, 3)
    assert table[1, 2] == pytest.approx(float(log_beta_mass(2, 5, 0.1, 0.2)), rel=1e-15)  # old SciPy: the last bit


def exact_log_mass(a: int, b: int, low: Fraction, high: Fraction) -> float:
    """Binomial sums in rationals."""

    def below(x: Fraction) -> Fraction:
        n = a + b - 1
        return sum((comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a, n + 1)), Fraction())

    mass = below(high) - below(low)
    # The logarithm of a rational that may be far below the smallest float, or close to 1.
    if mass > Fraction(1, 2):
        return float(np.log1p(-float(1 - mass)))
    shift = mass.denominator.bit_length() - mass.numerator.bit_length()
    return log(mass * 2**shift) - shift * log(2)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 255), st.integers(1, 256))
def test_log_masses_equal_rational_sums(a: int, b: int, low: int, width: int) -> None:
    high = min(low + width, 256)
    expected = exact_log_mass(a, b, Fraction(low, 256), Fraction(high, 256))
    assert log_beta_mass(a, b, low / 256, high / 256) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_the_whole_range_has_mass_one() -> None:
    assert log_beta_mass([0.01, 3, 1e7], [0.2, 1e-3, 5], 0, 1).tolist() == [0, 0, 0]


# ------------------------------------------------------------------------------------------ draws


@every(("a", "b", "floor"), HARD + EASY)
def test_beta_draws_follow_the_truncated_law(a: float, b: float, floor: float) -> None:
    draws = truncated_beta(a, b, floor, 1 - floor, 20_000, np.random.default_rng(1))
    assert draws.min() >= floor and draws.max() <= 1 - floor
    assert len(set(draws.tolist())) > 19_000
    inner = draws[(draws > floor) & (draws < 1 - floor)]
    levels = np.exp(log_beta_mass(a, b, floor, inner) - log_beta_mass(a, b, floor, 1 - floor))
    assert stats.kstest(levels, "uniform").pvalue > FALSE_ALARM


def test_the_law_in_the_hard_cases_is_known_otherwise() -> None:
    # b is large: theta is floor plus an exponential variate, of the rate at which the density falls at the floor.
    for a, b, floor in HARD[:3]:
        excess = truncated_beta(a, b, floor, 1 - floor, 20_000, np.random.default_rng(2)) - floor
        rate = (b - 1) / (1 - floor) - (a - 1) / floor
        assert stats.kstest(excess[:2000] * rate, "expon").pvalue > FALSE_ALARM
    below = 0.99 - truncated_beta(5e5, 2, 0.01, 0.99, 2000, np.random.default_rng(2))
    assert stats.kstest(below * ((5e5 - 1) / 0.99 - 100), "expon").pvalue > FALSE_ALARM


@every(("a", "b", "low", "high"), [(0.3, 0.4, 0, 1), (5, 2, 0.1, 0.9), (0.001, 1, 0, 1), (3, 3, 0, 0.2)])
def test_beta_draws_agree_with_scipy_where_scipy_is_right(a: float, b: float, low: float, high: float) -> None:
    draws = truncated_beta(a, b, low, high, 20_000, np.random.default_rng(3))
    levels = (betainc(a, b, draws) - betainc(a, b, low)) / (betainc(a, b, high) - betainc(a, b, low))
    # Draws of Beta(0.001, 1) below 1e-308 are 0, which is right to within the smallest float.
    assert stats.kstest(levels[levels > 0.5] * 2 - 1, "uniform").pvalue > FALSE_ALARM
    assert abs(np.mean(levels > 0.5) - 0.5) < 6 * 0.5 / np.sqrt(20_000)


def test_beta_draws_take_arrays_of_parameters() -> None:
    low = np.where(np.arange(20_000) % 2, 0.2, 0.5)
    draws = truncated_beta(1, 1, low, low + 0.1, 20_000, np.random.default_rng(4))
    assert stats.kstest((draws - low) / 0.1, "uniform").pvalue > FALSE_ALARM


def test_bad_arguments_are_refused() -> None:
    rng, nan = np.random.default_rng(0), float("nan")
    for a, b, low, high in [(0, 1, 0.1, 0.9), (1, nan, 0.1, 0.9), (1e13, 1, 0.1, 0.9), (1, 1, 0.5, 0.5), (1, 1, -1, 0.5), (1, 1, 0.5, nan)]:  # fmt: skip # noqa: E501
        with pytest.raises(dc.InputError, match=r"must be numbers|interval"):
            truncated_beta(a, b, low, high, 1, rng)
        with pytest.raises(dc.InputError, match=r"must be numbers|interval"):
            log_beta_mass(a, b, low, high)
    with pytest.raises(dc.InputError, match="shape"):
        truncated_beta([1.0, 2.0], 1, 0.1, 0.9, 3, rng)
