"""Credible intervals: equal tails inside, shortest at an edge."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import discreet as dc
from folding import every


def beta(a: float, b: float, draws: int = 1000) -> np.ndarray:
    """Evenly spread quantiles: a sample without sampling error."""
    return stats.beta.ppf((np.arange(draws) + 0.5) / draws, a, b)


def test_equal_tails_are_quantiles() -> None:
    """Of 0.3, 0.301, ..., 0.4 shuffled; numpy's quantiles interpolate between order statistics."""
    draws = np.random.default_rng(2).permutation(np.linspace(0.3, 0.4, 101) ** 1.5)
    ordered = np.sort(draws)
    lower, upper = dc.tools.credible_interval(draws, 0.9)
    assert lower == pytest.approx(ordered[5])
    assert upper == pytest.approx(ordered[95])


@every(("a", "b"), [(20, 5), (3, 3), (400, 9000), (2.5, 30)])
@every("level", [0.5, 0.8, 0.95])
def test_interior_posteriors_have_equal_tails(a: float, b: float, level: float) -> None:
    lower, upper = dc.tools.credible_interval(beta(a, b), level)
    tails = stats.beta.cdf([lower, upper], a, b)
    np.testing.assert_allclose(tails, [(1 - level) / 2, (1 + level) / 2], atol=1e-3)


@every(("a", "b"), [(0.25, 50), (0.25, 3), (0.01, 10), (1.0, 200)])
@every("level", [0.5, 0.8, 0.95])
def test_posteriors_that_are_densest_at_an_edge_end_there(a: float, b: float, level: float) -> None:
    lower, upper = dc.tools.credible_interval(beta(a, b), level)
    assert lower == 0
    assert stats.beta.cdf(upper, a, b) == pytest.approx(level, abs=2e-3)
    low, high = dc.tools.credible_interval(1 - beta(a, b), level)
    assert high == 1
    assert low == pytest.approx(1 - float(upper), abs=1e-12)


def test_random_draws_of_a_sparse_posterior_end_at_the_edge() -> None:
    draws = np.random.default_rng(3).beta(0.25, 50, size=(200, 1000))
    lower, upper = dc.tools.credible_interval(draws, 0.95)
    assert not lower.any()
    assert np.all(upper < 0.06)
    low, high = dc.tools.credible_interval(1 - draws, 0.95)
    assert np.all(high == 1)
    np.testing.assert_allclose(1 - low, upper)


@every("value", [0.0, 0.3, 1.0])
@every("draws", [1, 2, 50])
def test_equal_draws(value: float, draws: int) -> None:
    assert dc.tools.credible_interval(np.full(draws, value), 0.95) == (value, value)


def test_draws_at_both_edges_are_not_cut_off() -> None:
    """Half exactly 0 and half exactly 1: 95 % needs both."""
    assert dc.tools.credible_interval(np.repeat([0.0, 1.0], 500), 0.95) == (0, 1)


@every(("a", "b"), [(20, 5), (0.25, 50), (50, 0.25), (0.25, 2), (2, 40), (3, 3)])
def test_intervals_are_nested_in_level_and_inside(a: float, b: float) -> None:
    draws = np.random.default_rng(4).beta(a, b, 2000)
    ends = [dc.tools.credible_interval(draws, level) for level in (0.1, 0.5, 0.8, 0.9, 0.95, 0.99)]
    for (low, high), (lower, upper) in pairwise(ends):
        assert 0 <= lower <= low <= high <= upper <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_intervals_hold_their_share_of_the_draws(values: list[float], level: float) -> None:
    """At least the level less the two draws that an interpolated quantile may cut off."""
    draws = np.array(values)
    lower, upper = dc.tools.credible_interval(draws, level)
    assert 0 <= lower <= upper <= 1
    assert np.sum((draws >= lower) & (draws <= upper)) >= math.floor(level * len(values)) - 1


def test_every_row_gets_its_own_interval() -> None:
    draws = np.stack([beta(20, 5), beta(0.25, 50), 1 - beta(0.25, 50)]).reshape(3, 1, 1000)
    lower, upper = dc.tools.credible_interval(draws, 0.9)
    assert lower.shape == upper.shape == (3, 1)
    for row in range(3):
        assert dc.tools.credible_interval(draws[row, 0], 0.9) == (lower[row, 0], upper[row, 0])


# -------------------------------------------------------------------------------------------------------- both ends


def two_ended(share: float, draws: int = 1000) -> np.ndarray:
    """Quantiles of a row that is one-sided: close to 1 in a share of the draws, close to 0 in the others."""
    above = round(share * draws)
    return np.concatenate([0.1 * beta(0.1, 4, draws - above), 1 - 0.1 * beta(0.1, 4, above)])


@every("share", [0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97])
def test_both_pieces_of_a_posterior_that_is_densest_at_both_ends_are_held(share: float) -> None:
    assert dc.tools.credible_interval(two_ended(share), 0.95) == (0, 1)


@every("share", [0.0, 0.005, 0.02])
def test_a_far_piece_of_less_than_a_tail_is_left_out(share: float) -> None:
    lower, upper = dc.tools.credible_interval(two_ended(share), 0.95)
    assert lower == 0 and upper < 0.1
    low, high = dc.tools.credible_interval(1 - two_ended(share), 0.95)
    assert high == 1 and low > 0.9


def test_two_pieces_inside_are_held_between_their_tails() -> None:
    draws = np.concatenate([0.2 + 0.01 * beta(3, 3, 500), 0.7 + 0.01 * beta(3, 3, 500)])
    lower, upper = dc.tools.credible_interval(draws, 0.95)
    assert 0.2 < lower < 0.21 and 0.7 < upper < 0.71


def test_pieces_that_nearly_touch_are_one() -> None:
    """Most draws within .001 of 0, the rest up to .03 away: the shortest interval, which leaves these out."""
    draws = np.concatenate([np.linspace(0, 0.001, 980), np.linspace(0.02, 0.03, 20)])
    lower, upper = dc.tools.credible_interval(draws, 0.95)
    assert lower < 1e-4 and upper <= 0.001


@every("draws", [1, 2, 3, 19, 20, 21])
def test_few_draws_at_both_ends(draws: int) -> None:
    """Nothing is left out of so few but the middle."""
    values = np.where(np.arange(draws) % 2, 1.0, 0.0)
    lower, upper = dc.tools.credible_interval(values, 0.95)
    assert (lower, upper) == (0, 1 if draws > 1 else 0)
