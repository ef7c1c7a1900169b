"""Weights of cells from tables, against log Gamma itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from discreet.posterior.pooled.cell_weights import (
    BACK_OFF_CONCENTRATIONS,
    COMPONENTS,
    LEAST_MEAN,
    LONE_CONCENTRATIONS,
    TABLE_COUNTS,
    cell_weights,
    component_weights,
    concentrations,
    positions,
)

LARGE = [TABLE_COUNTS - 1, TABLE_COUNTS, TABLE_COUNTS + 1, 600, 5_000, 10**6, 10**9, 10**12]
COUNTS = np.array([*range(40), 63, 64, 200, 500, *LARGE], np.float64)


def exact(a: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.asarray(gammaln(a + n) - gammaln(a) - gammaln(n + 1))


@pytest.mark.parametrize(("low", "high", "error"), [(1e-9, 1.0, 0.002), (1.0, 16.0, 0.011), (16.0, 256.0, 0.03)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_weights_of_cells_are_differences_of_log_gamma(low: float, high: float, error: float, kind: type) -> None:
    counts = COUNTS[COUNTS < 2**24] if kind is np.float32 else COUNTS
    a = np.geomspace(low, high, 400)[:, None] * np.ones(len(counts))
    n = np.broadcast_to(counts, a.shape)
    found = cell_weights(positions(a), n.astype(kind))
    assert found.dtype == np.float32
    # Single precision: of numbers of this size, and of log Gamma of 10^12 the last digits in double precision.
    rounding = 3e-7 * np.abs(exact(a, n)) + 1e-15 * gammaln(n + a)
    assert np.all(np.abs(found - exact(a, n)) < error + rounding)
    assert np.all(found[:, 0] == 0)


@pytest.mark.parametrize("a", [257.0, 5e3, 1e7])
def test_a_prior_that_is_given_may_be_larger_than_any_component(a: float) -> None:
    counts = COUNTS[COUNTS < 10**7]
    found = cell_weights(positions(np.full(len(counts), a)), counts)
    np.testing.assert_allclose(found, exact(np.full(len(counts), a), counts), rtol=2e-5, atol=0.03)


def test_components_are_sums_over_states() -> None:
    """Of three states in rows from empty to huge, each component by itself."""
    rng = np.random.default_rng(2)
    n = np.stack([rng.permutation(COUNTS) for _ in range(3)])
    m = np.maximum(rng.dirichlet(np.ones(3) / 4, len(COUNTS)).T, LEAST_MEAN)
    found = component_weights(positions(m * BACK_OFF_CONCENTRATIONS[0]), n)
    assert found.shape == (COMPONENTS, len(COUNTS))
    own = [a * m for a in BACK_OFF_CONCENTRATIONS] + [np.full(m.shape, a) for a in LONE_CONCENTRATIONS]
    for component, a in zip(found, own, strict=True):
        expected = exact(a, n).sum(axis=0)
        np.testing.assert_allclose(component, expected, rtol=3e-6, atol=0.08)


def test_positions_and_back() -> None:
    a = np.geomspace(1e-9, 1e6, 1000)
    np.testing.assert_allclose(concentrations(positions(a)), a, rtol=2e-5)
    np.testing.assert_array_equal(positions(np.array([0.0])), positions(np.array([4.0**-16])))
    # All components stand on steps of the table: only the mean is between them.
    np.testing.assert_array_equal(positions(BACK_OFF_CONCENTRATIONS) % 1, 0)
    np.testing.assert_array_equal(positions(LONE_CONCENTRATIONS) % 1, 0)
