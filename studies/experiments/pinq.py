"""The heuristic of Williams and McSherry (2010): the logistic regression that came with PINQ as a demonstration.

Full gradient steps of length 1 from weights uniform in [-1, 1], one noisy sum for each coordinate, each record's part
clamped to [-1, 1], no constant feature. The paper says neither how many steps there are nor how epsilon is split. T
steps in d dimensions are T d sums, and a record moves all of them: at an honest price each has noise of scale
T d / epsilon. Noise of T / epsilon does not pay for the coordinates, and is NOT private at epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from discreet.designs.readers.importance import WeightLikelihood
from discreet.designs.readers.laws import Law
from discreet.designs.readers.logistic import GammaVariances, normal_sums

__all__ = ["READINGS", "Reading", "measured_step", "pinq_heuristic", "sums_evidence"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """How the heuristic may have been run.

    Args:
        steps: T.
        charged: whether the d coordinates of a step are paid for.
        in_turn: whether a coordinate's step sees those before it; PINQ's does not.
    """

    steps: int
    charged: bool = True
    in_turn: bool = False


READINGS: Mapping[str, Reading] = {
    "T = 1": Reading(1),
    "T = 2": Reading(2),
    "T = 5": Reading(5),
    "T = 1, coordinates in turn": Reading(1, in_turn=True),
    "T = 10, d coordinates NOT charged": Reading(10, charged=False),
    "T = 15, d coordinates NOT charged": Reading(15, charged=False),
}
"""By the name of the row. Steps one coordinate after another are not PINQ's, but cost the same."""


def pinq_heuristic(
    features: Floats, labels: Floats, reading: Reading, epsilon: float, rng: np.random.Generator
) -> Floats:
    """Weights after noisy gradient steps.

    Args:
        features: shape (records, d), without a constant, in the paper's unit.
        labels: 0 or 1, shape (records,).
        reading: of steps and price.
        epsilon: nominal, add-remove, in exact arithmetic.
        rng: of the start and the noise.

    Returns:
        Shape (d,). Guarantee: epsilon if the coordinates are charged, else d epsilon.

    Source:
        PINQ 0.1.1, MachineLearning, LogisticStep and NoisySum.
    """
    size = features.shape[1]
    scale = reading.steps * (size if reading.charged else 1) / epsilon
    weights: Floats = np.asarray(rng.uniform(-1, 1, size))
    for _ in range(reading.steps):
        noise: Floats = np.asarray(rng.laplace(scale=scale, size=size))
        if not reading.in_turn:
            weights = weights + _sums(features, labels, weights) + noise
            continue
        for j, column in enumerate(features.T):
            parts = (labels - expit(features @ weights)) * column
            weights[j] += np.clip(parts, -1, 1).sum() + noise[j]
    return weights


def measured_step(
    features: Floats, labels: Floats, epsilon: float, rng: np.random.Generator
) -> tuple[Floats, Floats, float]:
    """What the heuristic is told at T = 1; its weights are the start and the sums, added.

    Args:
        features: as for `pinq_heuristic`.
        labels: 0 or 1, shape (records,).
        epsilon: add-remove, in exact arithmetic.
        rng: of the start and the noise, in the order of `pinq_heuristic`.

    Returns:
        Start, noisy sums, both of shape (d,), and the scale of the Laplace noise on each sum.
    """
    size = features.shape[1]
    start: Floats = np.asarray(rng.uniform(-1, 1, size))
    return start, _sums(features, labels, start) + rng.laplace(scale=size / epsilon, size=size), size / epsilon


def sums_evidence(at: Floats, told: Floats, scale: float, records: int, law: Law) -> WeightLikelihood:
    """The likelihood of one gradient with Laplace noise on each coordinate; the number of records is known.

    Args:
        at: weights that the gradient is taken at, shape (size,).
        told: the noisy gradient, shape (size,).
        scale: of the noise.
        records: how many.
        law: of the features.

    Returns:
        The normal likelihood of the sums. Laplace noise is normal noise whose variance has an exponential law of mean
        `2 scale^2`; latents are the logarithms of the variances.
    """
    return normal_sums(at[None], told[None], law, GammaVariances(1.0, 2 * scale**2, len(at)), float(records), None)


def _sums(features: Floats, labels: Floats, weights: Floats) -> Floats:
    """The gradient, each record's part clamped."""
    parts = (labels - expit(features @ weights))[:, None] * features
    return np.asarray(np.clip(parts, -1, 1).sum(axis=0))
