"""Simulation-based calibration: 95 % intervals hold the truth in 95 % of simulations drawn from the prior.

Slow (`make coverage`); every cell of the printed tables is one test. Talts et al. (2018), for coverage at one level.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import sample_codes
from releases import guarantee, simulated

REPLICATIONS = 400
DRAWS = 1000
LEVEL = 0.95
NETWORK = dc.Network(
    (
        dc.Variable("a", ("1", "2")),
        dc.Variable("b", ("1", "2", "3")),
        dc.Variable("c", ("1", "2")),
        dc.Variable("d", ("1", "2", "3")),
        dc.Variable("e", ("1", "2")),
    ),
    {"a": (), "b": ("a",), "c": ("a", "b"), "d": ("c",), "e": ("d",)},
)


def held(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether each interval holds its truth."""
    lower, upper = dc.tools.credible_interval(draws, LEVEL)
    return (lower <= truth) & (truth <= upper)


def released(mechanism: str, truth: dc.Tables, n: int, promise: dc.Guarantee, rng: np.random.Generator) -> dc.Release:
    """A simulated release, under the default prior."""
    if mechanism == "laplace":
        return simulated(truth, n, promise, rng)
    counts = dc.tools.count_codes(NETWORK, sample_codes(truth, n, rng))
    return dc.simulate(dc.planned(pairs_share=0), counts, dc.Dirichlet.uniform(NETWORK), promise, rng=rng)


def replicated(
    one: Callable[[np.random.Generator], tuple[dc.Tables, dc.Tables]], seed: list[int], replications: int
) -> tuple[np.ndarray, np.ndarray]:
    """Coverage of each replication: of the CPT entries, and of the marginals of all nodes, two columns of rates.

    Args:
        one: truths, with an axis of one draw, and posterior draws.
        seed: of all.
        replications: how many.
    """
    entries, margins = [], []
    for rng in np.random.default_rng(seed).spawn(replications):
        theta, cells = one(rng)
        entries.append(np.mean(np.concatenate([held(cells[node], theta[node][..., 0]).ravel() for node in cells])))
        exact, found = Laws(theta).marginals(), Laws(cells).marginals()
        margins.append(np.mean(np.concatenate([held(found[node], exact[node][:, 0]) for node in NETWORK.nodes])))
    return np.array(entries), np.array(margins)


def first(theta: dc.Tables) -> dc.Tables:
    """The first of some draws."""
    return dc.Tables(theta.network, {node: table[..., 0] for node, table in theta.items()})


@pytest.mark.slow
@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
@pytest.mark.parametrize("n", [1000, 10_000])
def test_intervals_are_calibrated(n: int, epsilon: float, relation: str) -> None:
    """Dirichlet rows: 95 +- 1 % of CPT entries and 95 +- 2 % of marginals, 3.8 of the printed standard errors."""
    if (n, epsilon, relation) == (1000, 0.1, dc.Relation.REPLACE):
        pytest.xfail(
            "measured: marginals 97.8 +- 0.3 %, too wide: rows of a table, and a root that is read off its sums, are "
            "drawn as if their noise were independent"
        )

    def one(rng: np.random.Generator) -> tuple[dc.Tables, dc.Tables]:
        theta = dc.Dirichlet.uniform(NETWORK).draw(1, rng=rng)
        release = simulated(first(theta), n, guarantee(epsilon, relation), rng)
        return theta, dc.noise_aware(release, draws=DRAWS, rng=rng, prior=release.prior, method="pooled").probabilities

    seed = [n, round(10 * epsilon), dc.Relation(relation) is dc.Relation.REPLACE]
    entries, margins = replicated(one, seed, REPLICATIONS)
    errors = [rates.std() / np.sqrt(REPLICATIONS) for rates in (entries, margins)]
    print(
        f"\nn {n:6d}  epsilon {epsilon:3.1f}  {relation:10s}  entries {entries.mean():.4f} +- {errors[0]:.4f}"
        f"  marginals {margins.mean():.4f} +- {errors[1]:.4f}"
    )
    assert 0.94 <= entries.mean() <= 0.96
    assert 0.93 <= margins.mean() <= 0.97


def learned(
    mechanism: str, concentration: float, n: int, epsilon: float, relation: str, replications: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same under the learned prior, which is told nothing of the law of the truths."""

    def one(rng: np.random.Generator) -> tuple[dc.Tables, dc.Tables]:
        theta = dc.Dirichlet.uniform(NETWORK, concentration).draw(1, rng=rng)
        release = released(mechanism, first(theta), n, guarantee(epsilon, relation), rng)
        return theta, dc.noise_aware(release, draws=400, rng=rng).probabilities

    replace, planned = dc.Relation(relation) is dc.Relation.REPLACE, mechanism == "planned"
    return replicated(one, [n, round(10 * epsilon), replace, planned, round(4 * concentration)], replications)


@pytest.mark.slow
@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
@pytest.mark.parametrize("n", [1000, 10_000])
@pytest.mark.parametrize("concentration", [0.25, 1])
@pytest.mark.parametrize("mechanism", ["planned", "laplace"])
def test_intervals_of_the_learned_prior_are_calibrated(
    mechanism: str, concentration: float, n: int, epsilon: float, relation: str
) -> None:
    """93 to 97 % of entries and of marginals, give or take four standard errors; the prior is not the truths' own."""
    entries, margins = learned(mechanism, concentration, n, epsilon, relation, 100)
    errors = [rates.std() / np.sqrt(len(rates)) for rates in (entries, margins)]
    print(
        f"\n{mechanism:8s} Dirichlet({concentration})  n {n:6d}  epsilon {epsilon:3.1f}  {relation:10s}"
        f"  entries {entries.mean():.4f} +- {errors[0]:.4f}  marginals {margins.mean():.4f} +- {errors[1]:.4f}"
    )
    for rates, error in zip((entries, margins), errors, strict=True):
        assert 0.93 - 4 * error <= rates.mean() <= 0.97 + 4 * error


@pytest.mark.thorough
@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_intervals_of_the_learned_prior_are_not_far_off(relation: str) -> None:
    """Twelve releases: rates of one release deviate by less than 0.1, so 0.8 is five standard errors away.

    `test_standing_coverage` has stricter bounds, stratum by stratum, on other networks and runs always.

    The seeds are fixed; the plug-in, which ignores the noise, holds 0.6 of the entries.
    """
    entries, margins = learned("planned", 0.25, 1000, 0.3, relation, 12)
    assert entries.mean() > 0.8
    assert margins.mean() > 0.75
