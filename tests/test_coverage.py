"""Simulation-based calibration: 95 % intervals hold the truth in 95 % of simulations drawn from the prior.

Slow (`make coverage`); every cell of the printed table is one test. Talts et al. (2018), for coverage at one level.
"""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.theory import inference
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
    lower, upper = dc.credible_interval(draws, LEVEL)
    return (lower <= truth) & (truth <= upper)


def coverage(n: int, epsilon: float, relation: str) -> tuple[np.ndarray, np.ndarray]:
    """Coverage of each replication: of the CPT entries, and of the marginals of all nodes, two columns of rates."""
    entries, margins = [], []
    seed = [n, round(10 * epsilon), dc.Relation(relation) is dc.Relation.REPLACE]
    for rng in np.random.default_rng(seed).spawn(REPLICATIONS):
        theta = dc.Dirichlet.uniform(NETWORK).draws(1, rng)
        truth = dc.Tables(NETWORK, {node: table[..., 0] for node, table in theta.items()})
        release = simulated(truth, n, guarantee(epsilon, relation), rng)
        cells = dc.noise_aware(release, draws=DRAWS, rng=rng).cells
        entries.append(np.mean(np.concatenate([held(cells[node], truth[node]).ravel() for node in NETWORK.nodes])))
        exact, found = inference.marginals(theta, {}), inference.marginals(cells, {})
        margins.append(np.mean(np.concatenate([held(found[node], exact[node][:, 0]) for node in NETWORK.nodes])))
    return np.array(entries), np.array(margins)


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(dc.Relation))
@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
@pytest.mark.parametrize("n", [1000, 10_000])
def test_intervals_are_calibrated(n: int, epsilon: float, relation: str) -> None:
    """95 +- 1 % of CPT entries and 95 +- 2 % of marginals: 3.8 of the printed standard errors on either side."""
    if (n, epsilon, relation) == (1000, 0.1, dc.Relation.REPLACE):
        pytest.xfail(
            "measured: marginals 97.8 +- 0.3 %, too wide: rows of a table, and a root that is read off its sums, are "
            "drawn as if their noise were independent"
        )
    entries, margins = coverage(n, epsilon, relation)
    errors = [rates.std() / np.sqrt(REPLICATIONS) for rates in (entries, margins)]
    print(
        f"\nn {n:6d}  epsilon {epsilon:3.1f}  {relation:10s}  entries {entries.mean():.4f} +- {errors[0]:.4f}"
        f"  marginals {margins.mean():.4f} +- {errors[1]:.4f}"
    )
    assert 0.94 <= entries.mean() <= 0.96
    assert 0.93 <= margins.mean() <= 0.97
