"""Rows of a family and answers about it are the same numbers, whatever the network says of the parents.

The network here has no arc between the parents of y, which depend on each other nearly as much as two variables can.
"""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.pooled.latent_counts import _excess_variance
from releases import guarantee
from tiny import network_of

CHAIN = network_of({"c": 2, "b": 4, "a": 2, "y": 2}, "c>a a>y b>y")
"""a has a parent in another table, so that no family can hold both parents of y."""
CHANCE_OF_A = np.array([0.9, 0.5, 0.1, 0.02])
"""Of a = 1 for each b: parents go together."""
CHANCE_OF_Y = np.array([[0.02, 0.05, 0.1, 0.3], [0.9, 0.6, 0.95, 0.97]])
"""Of y = 1 for each a and b."""


def read(records: int, epsilon: float, seed: int) -> tuple[dc.Release, dc.results.PosteriorDraws]:
    """A release of such records, and its posterior."""
    rng = np.random.default_rng(seed)
    b, c = rng.integers(4, size=records), rng.integers(2, size=records)
    a = (rng.random(records) < CHANCE_OF_A[b]).astype(int)
    y = (rng.random(records) < CHANCE_OF_Y[a, b]).astype(int)
    counts = dc.tools.count_codes(CHAIN, {"c": c, "b": b, "a": a, "y": y})
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(CHAIN), guarantee(epsilon), rng=rng)
    return release, dc.noise_aware(release, draws=400, rng=rng)


def answers(posterior: dc.results.PosteriorDraws) -> np.ndarray:
    """Chances of y = 1 by answers, shape (a, b, 3): mean, lower and upper."""
    numbers = np.empty((2, 4, 3))
    for a, b in np.ndindex(2, 4):
        rows = dc.answer(posterior, f"P(y | a={CHAIN.schema['a'].states[a]}, b={CHAIN.schema['b'].states[b]})").rows
        row = rows[1]
        numbers[a, b] = row["mean"], row["lower"], row["upper"]
    return numbers


@pytest.mark.parametrize(("records", "epsilon"), [(5_000, 1.0), (50_000, 1.0), (5_000, 1000.0)])
def test_rows_estimates_and_answers_agree_where_parents_go_together(records: int, epsilon: float) -> None:
    """Within a third of the interval's half length, and estimates within a half: errors of 400 draws are a fortieth."""
    release, posterior = read(records, epsilon, seed=5)
    by_answer = answers(posterior)
    rows = posterior.probabilities["y"][..., 1, :].mean(axis=-1)
    estimated = dc.estimate(release)["y"][..., 1]
    half = (by_answer[..., 2] - by_answer[..., 1]) / 2
    assert (np.abs(rows - by_answer[..., 0]) <= half / 3 + 0.004).all()
    assert (np.abs(estimated - by_answer[..., 0]) <= half / 2 + 0.004).all()


def test_what_nothing_explains_is_what_scatter_is_beyond_sampling_and_noise() -> None:
    rng = np.random.default_rng(3)
    scattered = 30 * rng.standard_normal((40, 500))
    assert _excess_variance(scattered, 400.0) == pytest.approx(500, rel=0.05)
    assert _excess_variance(scattered, 2_000.0) == 0.0
    assert _excess_variance(np.empty((0, 500)), 1.0) == 0.0
