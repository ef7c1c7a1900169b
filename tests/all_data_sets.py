"""All data sets of a few records of two variables, and the exact posterior means and deviations of probabilities.

Monte Carlo: chains return when the worst entry is worth 400 independent draws; a mean of 400 draws lies within 6.5
standard errors of its expectation but for a chance below 1e-9.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

import discreet as dc

NETWORK = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", ("a", "b", "c"))), {"x": (), "y": ("x",)})
PRIOR = dc.Dirichlet.uniform(NETWORK, 0.5)
ERRORS = 6.5


def data_sets(most: int, exactly: bool) -> np.ndarray:
    """Counts of all data sets of so many records, or of at most so many, shape (sets, 2, 3)."""
    found = []
    for n in range(most if exactly else 0, most + 1):
        bars = np.array(list(itertools.combinations(range(n + 5), 5)))
        ends = np.full((len(bars), 1), -1), np.full((len(bars), 1), n + 5)
        found.append(np.diff(np.hstack([ends[0], bars, ends[1]]), axis=1) - 1)
    return np.concatenate(found).reshape(-1, 2, 3)


def log_prior(counts: np.ndarray, alpha: float, public: np.ndarray) -> np.ndarray:
    """Dirichlet-multinomial of both families times the ways to order the records, of each data set."""
    total = gammaln(counts.sum(axis=(1, 2)) + 1) - gammaln(counts + 1).sum(axis=(1, 2))
    for row, known in [(counts.sum(axis=2), public.sum(axis=1)), *((counts[:, x], public[x]) for x in range(2))]:
        a = alpha + known
        total += gammaln(a.sum()) - gammaln(a.sum() + row.sum(axis=1)) + (gammaln(row + a) - gammaln(a)).sum(axis=1)
    return np.asarray(total)


def enumerated(
    noise: Callable[[np.ndarray], np.ndarray], sets: np.ndarray, public: np.ndarray | None = None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Posterior means and deviations of all probabilities, by summing over all data sets."""
    known = np.zeros((2, 3)) if public is None else public
    logs = log_prior(sets, 0.5, known) + noise(sets)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean, square = {}, {}
    for node, rows in (("x", lambda n: n.sum(axis=-1)), ("y", lambda n: n)):
        a = 0.5 + rows(known) + rows(sets)
        total = a.sum(axis=-1, keepdims=True)
        mean[node] = np.tensordot(weights, a / total, 1)
        square[node] = np.tensordot(weights, a * (a + 1) / (total * (total + 1)), 1)
    return mean, {node: np.sqrt(square[node] - mean[node] ** 2) for node in mean}


def agrees(posterior: dc.results.PosteriorDraws, mean: dict[str, np.ndarray], deviation: dict[str, np.ndarray]) -> None:
    """Means within the errors of 400 draws; deviations within 6.5 times their own (at most 1 / sqrt(2 x 100))."""
    assert posterior.method == "exact"
    assert posterior.mixing is not None and posterior.mixing.effective >= 400 and posterior.mixing.r_hat <= 1.01
    assert posterior.replicates is not None
    for cells in (posterior.probabilities, posterior.replicates):
        for node in ("x", "y"):
            off = np.abs(cells[node].mean(axis=-1) - mean[node]) / deviation[node]
            assert off.max() < ERRORS / math.sqrt(400)
            assert np.abs(cells[node].std(axis=-1) / deviation[node] - 1).max() < 0.25
