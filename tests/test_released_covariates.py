"""The law of covariates from a release over a network: by name, in the design's coordinates, within bins."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc

AGE = dc.Variable("age", bounds=(0, 100), bins=(25, 50, 75))
DOSE = dc.Variable("dose", bounds=(-1, 1), bins=(0,))
SEX = dc.Variable("sex", ("f", "m"))
NETWORK = dc.Network((AGE, DOSE, SEX), {"age": (), "dose": ("age",), "sex": ()})
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
POSITIVE = np.array([0.9, 0.7, 0.3, 0.1])
"""Of doses, by age: the older the less."""


def posterior() -> dc.results.NetworkPosterior:
    """Of a release at an epsilon at which the noise does not matter; it has a seed."""
    cells = {"age": SHARES, "dose": np.column_stack([1 - POSITIVE, POSITIVE]), "sex": np.array([0.5, 0.5])}
    rng = np.random.default_rng(2)
    made_up = dc.tools.simulate_records(dc.Tables(NETWORK, cells), 20_000, rng=rng)
    counts = dc.count(dc.read_records(made_up, NETWORK.schema), NETWORK)
    promise = dc.Guarantee(epsilon=100, delta=0, relation="replace", unit="record")
    made = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(NETWORK), promise, rng=rng)
    return dc.noise_aware(made, draws=50, rng=rng)


@pytest.fixture(scope="module")
def learned() -> dc.results.NetworkPosterior:
    return posterior()


def design(*names: str, norm: float | None = None) -> dc.designs.Design:
    bounds = {"age": (0.0, 100.0), "dose": (-1.0, 1.0), "sex": (0.0, 1.0), "weight": (0.0, 1.0)}
    features = tuple(dc.Variable(name, bounds=bounds[name]) for name in names)
    return dc.designs.Design(features, dc.Variable("class", ("no", "yes")), norm)


def test_points_are_spread_like_the_records(learned: dc.results.NetworkPosterior) -> None:
    law = dc.research.released_covariates(learned, design("dose", "age"), rng=np.random.default_rng(1))
    assert law.points.shape == (4096, 3) and np.allclose(law.weights, 1 / 4096)
    dose, age, constant = law.points.T
    assert np.all(constant == 1) and np.all(np.abs(law.points) <= 1)
    # Deviations are below 0.008, or 0.025 within the rarest age; the made-up records have a seed.
    which = np.digitize(age, [-0.5, 0, 0.5])
    assert np.allclose(np.bincount(which) / 4096, SHARES, atol=0.04)
    assert np.allclose([np.mean(dose[which == k] > 0) for k in range(4)], POSITIVE, atol=0.1)
    within = (age[which == 0] + 1) / 0.5
    assert np.allclose(np.quantile(within, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.07)


def test_the_design_says_how_points_are_scaled(learned: dc.results.NetworkPosterior) -> None:
    short = design("age", "dose", norm=0.5)
    law = dc.research.released_covariates(learned, short, rng=np.random.default_rng(1), points=100)
    assert law.points.shape == (100, 3)
    assert np.all(np.linalg.norm(law.points[:, :2], axis=1) <= 0.5 + 1e-9)
    assert np.all(law.points[:, 2] == short.constant)
    older = dc.designs.Design((dc.Variable("age", bounds=(0, 50)),), dc.Variable("class", ("no", "yes")))
    clipped = dc.research.released_covariates(learned, older, rng=np.random.default_rng(1)).points[:, 0]
    assert np.isclose(np.mean(clipped == 1), 0.3, atol=0.04)


def test_points_are_drawn_by_seed(learned: dc.results.NetworkPosterior) -> None:
    first, again, other = (
        dc.research.released_covariates(learned, design("age"), rng=np.random.default_rng(seed), points=200).points
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize("name", ["sex", "weight"])
def test_every_feature_is_a_numeric_variable_of_the_network(learned: dc.results.NetworkPosterior, name: str) -> None:
    with pytest.raises(dc.InputError, match=f"the network needs feature '{name}' as a numeric variable with bins"):
        dc.research.released_covariates(learned, design("age", name), rng=np.random.default_rng(1))


def test_a_law_has_points(learned: dc.results.NetworkPosterior) -> None:
    with pytest.raises(dc.InputError, match="at least 100 points, got 99"):
        dc.research.released_covariates(learned, design("age"), rng=np.random.default_rng(1), points=99)
