"""Curves of half-widths: noise that is a power of epsilon is found, and the spread holds as many as it says."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.accuracy.width_curves import fit_widths

BUDGETS = [1.0, 0.25, 4.0, 1.0, 0.25, 4.0, 1.0, 0.25, 4.0]


def simulated(scatter: float, questions: int, slope: float = -0.8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Half-widths of releases whose noise parts scatter about a power law, and of 40 more at epsilon 1."""
    rng = np.random.default_rng(seed)
    budgets = np.array([*BUDGETS, *np.ones(40)])
    noise = 0.1 * budgets[:, None] ** slope * np.exp(scatter * rng.standard_normal((49, questions)))
    widths = np.hypot(0.03, noise)
    return widths[:9], widths[9:]


@pytest.mark.parametrize("scatter", [0.1, 0.5, 0.8])
def test_means_and_spreads_are_those_of_further_releases(scatter: float) -> None:
    """Of 3,000 questions the mean prediction is off by less than .03; the spread holds about four releases in five.

    The standard error of the mean is below .006; spreads of nine releases are a little short where their law is skewed.
    """
    seen, further = simulated(scatter, 3000)
    curves = fit_widths(BUDGETS, seen, np.full((9, 3000), 0.03), 1.0)
    found = curves.at(1.0)
    assert abs(np.log(found.mean() / further.mean())) < 0.03
    assert 0.7 < np.log(found / further.mean()).std() / curves.uncertainty.mean() < 1.4
    low, high = curves.spread * found
    assert 0.75 < np.mean((further >= low) & (further <= high)) < 0.9
    assert np.all(low < found) and np.all(found < high)


@pytest.mark.parametrize("slope", [-1.0, -0.6])
def test_a_power_that_is_told_clearly_is_followed(slope: float) -> None:
    seen, _ = simulated(0.02, 50, slope)
    curves = fit_widths(BUDGETS, seen, np.full((9, 50), 0.03), 1.0)
    assert curves.slope.mean() == pytest.approx(slope, abs=0.05)
    np.testing.assert_allclose(curves.at(0.25), np.hypot(0.03, 0.1 * 0.25**slope), rtol=0.1)
    np.testing.assert_allclose(curves.at(1000.0), 0.03, rtol=0.1)


def test_what_is_narrower_than_without_noise_lowers_the_sampling_part() -> None:
    """Where a pair was not measured the network is believed: the answer is narrower than one from its table."""
    narrow = np.full((9, 1), 0.01)
    curves = fit_widths(BUDGETS, narrow, np.full((9, 1), 0.08), 1.0)
    assert curves.sampling[0] == pytest.approx(0.01, rel=0.01)
    assert curves.at(1.0)[0] == pytest.approx(0.01, rel=0.05)


def test_a_sampling_part_that_is_too_large_follows_the_releases() -> None:
    seen, _ = simulated(0.02, 50)
    curves = fit_widths(BUDGETS, np.hypot(0.001 * seen, 0.03), np.full((9, 50), 0.033), 1.0)
    np.testing.assert_allclose(curves.sampling, 0.03, rtol=0.01)
    np.testing.assert_allclose(curves.at(1.0), 0.03, rtol=0.01)
