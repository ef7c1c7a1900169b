"""Made-up regressions whose weights are known, and 95 % intervals of the weights from simulated releases.

*Linear*: six features, normal with deviation 0.4; weights of length 0.5 in a random direction; residuals of deviation
0.15; no intercept. *Logistic*: SYNTH of Williams and McSherry (2010), see `logistic_sets`: four features that fill
[-1, 1] evenly, an intercept that is 0 in truth, 1,000 records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.designs.readers.linear import RegressionSums, SumLayout, unpack

from .intervals import LEVEL
from .logistic_sets import released, synth

__all__ = ["LINEAR", "READ", "WEIGHTS", "Regression", "covered", "linear", "moments_of", "pack", "taken_for_exact"]

Floats = npt.NDArray[np.float64]

LINEAR = dc.designs.Design(
    tuple(dc.Variable(f"x{j}", bounds=(-1, 1)) for j in range(6)), dc.Variable("y", bounds=(-1, 1)), intercept=False
)
SPREAD, LENGTH, RESIDUAL = 0.4, 0.5, 0.15
"""Of linear regressions: deviation of the features, length of the weights, deviation of the residuals."""
RELEASED = 40
"""Draws of a truncated posterior: fewer cannot tell a level of 95 %."""
DRAWS = 400
LEAST_EIGENVALUE, LEAST_SQUARES = 0.01, 1e-3
"""For each record, where noisy moments are taken for exact: noise may leave no moments at all."""


@dataclass(frozen=True, eq=False)
class Regression:
    """Records whose law is known.

    Args:
        features: within [-1, 1], shape (records, features).
        target: within [-1, 1], shape (records,).
        weights: true ones, shape (features,).
    """

    features: Floats
    target: Floats
    weights: Floats


def linear(records: int, rng: np.random.Generator) -> Regression:
    """Records of a linear regression."""
    weights = rng.normal(size=len(LINEAR.features))
    weights *= LENGTH / np.linalg.norm(weights)
    features = np.clip(SPREAD * rng.normal(size=(records, len(weights))), -1, 1)
    target = np.clip(features @ weights + RESIDUAL * rng.normal(size=records), -1, 1)
    return Regression(features, target, weights)


# ------------------------------------------------------------------------------------------ intervals


def covered(draws: Floats, weights: Floats) -> tuple[float, float]:
    """Share of the equal-tailed 95 % intervals of all weights that hold the truth, and their mean width.

    Args:
        draws: shape (draws, weights).
        weights: true ones, shape (weights,).

    Returns:
        Coverage and width.
    """
    lower, upper = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return float(np.mean((lower <= weights) & (weights <= upper))), float(np.mean(upper - lower))


def taken_for_exact(sums: RegressionSums, draws: int, rng: np.random.Generator) -> Floats:
    """The plug-in reading of noisy moments: draws as if the sums had no noise, shape (draws, weights)."""
    records = float(sums.records)
    spreads, axes = np.linalg.eigh(sums.gram)
    spreads = np.maximum(spreads, LEAST_EIGENVALUE * records)
    rotated = axes.T @ sums.cross
    squares = max(float(sums.square - rotated @ (rotated / spreads)), LEAST_SQUARES * records)
    noise = rng.normal(size=(draws, len(spreads))) * np.sqrt(squares / records / spreads)
    return np.asarray((rotated / spreads + noise) @ axes.T)


def pack(moments: RegressionSums, layout: SumLayout) -> Floats:
    """Sums as they are published, before noise: the inverse of `unpack`.

    Args:
        moments: the sums.
        layout: what is published of them.

    Returns:
        Shape `(..., entries)`.
    """
    rows, columns = layout.upper
    last = np.concatenate([moments.cross, moments.square[..., None]], axis=-1)
    matrix = np.concatenate([np.concatenate([moments.gram, moments.cross[..., None]], axis=-1), last[..., None, :]], -2)
    products = matrix[..., rows, columns]
    values = np.where(rows == columns, 2 * products - moments.records[..., None], products)
    return values if layout.records is not None else np.concatenate([moments.records[..., None], values], axis=-1)


def moments_of(release: dc.Release) -> RegressionSums:
    """The noisy sums of a release."""
    assert isinstance(release.payload, dc.designs.NoisyMoments)
    design = release.over
    return unpack(release.payload.sums, SumLayout(len(design.features), design.intercept, release.records))


def _linear(
    mechanism: Callable[[], dc.tools.Mechanism],
    readers: Mapping[str, Callable[[dc.Release, np.random.Generator], Floats]],
) -> Callable[[float, np.random.Generator], dict[str, tuple[float, float]]]:
    """How a mechanism over second moments is simulated and read."""

    def read(epsilon: float, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
        task = linear(20_000, rng)
        statistic = dc.designs.sum_moments(dc.designs.read_rows(LINEAR, task.features, task.target))
        made = dc.simulate(mechanism(), statistic, dc.designs.Normal(LINEAR, 1.0), _promise(epsilon), rng=rng)
        return {name: covered(reader(made, rng), task.weights) for name, reader in readers.items()}

    return read


def _logistic(method: str) -> Callable[[float, np.random.Generator], dict[str, tuple[float, float]]]:
    """How a mechanism over gradients is simulated and read; a second for each, by Markov chains."""

    def read(epsilon: float, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
        task = synth(rng)
        made, law = released(task, epsilon, method, rng, relation="replace", deviation=2.5, posterior=True)
        assert task.truth is not None
        return {"noise-aware": covered(dc.read(made, draws=1000, rng=rng, covariates=law).weights, task.truth)}

    return read


def _promise(epsilon: float) -> dc.Guarantee:
    """Pure, REPLACE."""
    return dc.Guarantee(epsilon=str(epsilon), delta=0, relation="replace", unit="record")


def _weights(release: dc.Release, rng: np.random.Generator) -> Floats:
    """What the package offers."""
    return dc.read(release, draws=DRAWS, rng=rng).weights


READ: Mapping[str, Callable[[float, np.random.Generator], dict[str, tuple[float, float]]]] = {
    "noisy_moments": _linear(
        dc.designs.noisy_moments,
        {"noise-aware": _weights, "plug-in": lambda made, rng: taken_for_exact(moments_of(made), DRAWS, rng)},
    ),
    "truncated_posterior": _linear(
        lambda: dc.research.truncated_posterior(RELEASED, variance=RESIDUAL**2, radius=1.0), {"noise-aware": _weights}
    ),
    "objective_perturbation": _logistic("objective"),
    "noisy_gradients": _logistic("1"),
}
"""From epsilon (REPLACE, nats) and a source of randomness to coverage and width of each reading."""
WEIGHTS = {"noisy_moments": 6, "truncated_posterior": 6, "objective_perturbation": 5, "noisy_gradients": 5}
"""How many weights each has."""
