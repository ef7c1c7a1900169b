"""The plug-in posterior: Dirichlet(alpha + max(z, 0)), and nothing of the noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.plug_in import plug_in
from releases import noisy_release

DRAWS = 20_000
NETWORK = dc.Network(
    (dc.Variable("a", ("x", "y", "z")), dc.Variable("b", ("no", "yes"))),
    {"a": (), "b": ("a",)},
)
ALPHA = {"a": np.array([0.25, 2.0, 1.0]), "b": np.array([[0.5, 0.5], [3.0, 0.25], [1.0, 40.0]])}
NOISY = {"a": np.array([30, -12, 4]), "b": np.array([[-5, -7], [200, 0], [3, -90]])}


@pytest.fixture(scope="module")
def release() -> dc.Release:
    return noisy_release(dc.Dirichlet(dc.Tables(NETWORK, ALPHA)), NOISY, 7.0)


def check_moments(theta: np.ndarray, alpha: np.ndarray) -> None:
    """Means and second moments of 12 cells within 6 standard errors: a false alarm in 1e-7 of runs."""
    total = alpha.sum(axis=-1, keepdims=True)
    mean = alpha / total
    second = mean * (alpha + 1) / (total + 1)
    for power, expected in ((1, mean), (2, second)):
        errors = (theta**power).mean(axis=-1) - expected
        assert np.abs(errors / ((theta**power).std(axis=-1) / np.sqrt(DRAWS))).max() < 6


def test_moments_are_those_of_the_dirichlet(release: dc.Release) -> None:
    posterior = plug_in(release, draws=DRAWS, rng=np.random.default_rng(1))
    for node in NETWORK.nodes:
        theta = posterior.probabilities[node]
        assert theta.shape == (*NETWORK.shape(node), DRAWS)
        np.testing.assert_allclose(theta.sum(axis=-2), 1, rtol=1e-12)
        check_moments(theta, ALPHA[node] + np.maximum(NOISY[node], 0))


def test_another_prior_replaces_the_curators(release: dc.Release) -> None:
    prior = dc.Dirichlet.uniform(NETWORK, 5.0)
    posterior = plug_in(release, draws=DRAWS, rng=np.random.default_rng(2), prior=prior)
    for node in NETWORK.nodes:
        check_moments(posterior.probabilities[node], 5.0 + np.maximum(NOISY[node], 0))


def test_same_seed_same_draws(release: dc.Release) -> None:
    first, second, other = (
        plug_in(release, draws=5, rng=np.random.default_rng(seed)).probabilities["b"] for seed in (3, 3, 4)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_prior_over_another_network(release: dc.Release) -> None:
    other = dc.Dirichlet.uniform(dc.Network((dc.Variable("a", ("x", "y", "z")),), {"a": ()}))
    with pytest.raises(dc.InputError, match="another network"):
        plug_in(release, draws=5, rng=np.random.default_rng(0), prior=other)


@pytest.mark.parametrize("draws", [0, -3])
def test_no_draws(release: dc.Release, draws: int) -> None:
    with pytest.raises(dc.InputError, match=f"at least one draw, got {draws}"):
        plug_in(release, draws=draws, rng=np.random.default_rng(0))


def test_tables_over_sets_are_fitted_first() -> None:
    """Cells below 0 are none, and the total is held: 30 records too many are taken from both of the other cells."""
    network = dc.Network((dc.Variable("a", ("x", "y")), dc.Variable("b", ("no", "yes"))), {"a": (), "b": ("a",)})
    prior = dc.Dirichlet.uniform(network, 1e-6)
    rng = np.random.default_rng(5)
    counts = dc.tools.count_codes(network, {"a": np.repeat([0, 1], [600, 400]), "b": np.repeat([0, 1], [600, 400])})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    made = dc.simulate(dc.planned(pairs_share=0), counts, prior, promise, rng=rng)
    table = np.array([[610, -40], [-30, 420]])
    payload = dc.kinds.NoisyTables(network, {("a", "b"): table}, made.calibration.scales, "discrete_laplace")
    cells = plug_in(replace(made, payload=payload), draws=DRAWS, rng=rng).probabilities
    assert cells["a"][0].mean() == pytest.approx(0.595, abs=6 * np.sqrt(0.25 / 1000 / DRAWS) + 1e-4)
    assert cells["b"][0, 0].min() > 0.999 and cells["b"][1, 1].min() > 0.999
