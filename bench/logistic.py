"""Error rates of private logistic regression on the five data sets of Williams and McSherry (2010), Tables 2 and 3.

    python -m bench.logistic [--sets SYNTH,CM1] [--epsilons 0.1,1] [--steps 1] [--rate 8] [--seeds 12] [--first 0]

Each seed draws a data set, releases noisy gradients under add-remove with a public number of records, and draws the
weights from their posterior. Noise is K-norm noise of the right shape, in floating point: a simulation, no release. Two
errors are printed beside the published "Inference" row: *expected*, the error rate averaged over draws of the weights
(the paper's), and *mean*, that of the classifier at the posterior mean. DISCREET_DATA tells where the public tables
of PIMA and ADULT are.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from discreet.posterior.covariates import Histograms, Law, UniformBox, UniformSphere, shrunk
from discreet.posterior.logistic import Shape, logistic_draws

__all__ = ["PUBLISHED", "SETS", "Task", "Trace", "error", "noisy_gradients", "run"]

Floats = npt.NDArray[np.float64]

PUBLISHED = {
    "SYNTH": {0.1: 29.14, 1.0: 17.16},
    "CM1": {0.1: 2.72, 1.0: 0.01},
    "CM2": {0.1: 8.84, 1.0: 5.69},
    "PIMA": {0.1: 45.70, 1.0: 36.47},
    "ADULT": {0.1: 36.07, 1.0: 29.36},
}
"""Error rates of their "Inference" rows, per cent."""
SYNTH_NORM = 9.85
"""Of the weights of SYNTH in the paper's unit [-1/2, 1/2]: the Bayes error is then the published 16.4 %."""
CM_FEATURES, CM_RECORDS = 10, 17_500
CM_MARGIN, CM_BAND, CM_FLIPPED = 0.03, 0.1, 0.2
"""Chaudhuri and Monteleoni (2008): CM1 has no records within the margin, CM2 flips labels in the band."""
PIMA_RECORDS = 691
PIMA_BOUNDS = ((0, 0, 0, 0, 0, 0, 0, 20), (17, 200, 122, 99, 846, 67, 2.5, 81))
ADULT_BOUNDS = ((17, 0, 1, 0, 0, 1), (90, 5e5, 16, 1e4, 3e3, 99))
ADULT_COLUMNS = (0, 2, 4, 10, 11, 12)
LEARNING = 0.1
"""Share of epsilon that histograms of the features take where their law is not declared."""
CELLS = 10
"""Of each histogram."""
DEVIATION = 5.0
"""Of the prior, in the unit of the scaled features."""


@dataclass(frozen=True, eq=False)
class Task:
    """A data set of one seed.

    Args:
        points: of private records, shape (records, size), scaled features and the constant last.
        labels: shape (records,), 0 or 1.
        test_points, test_labels: that errors are counted on.
        law: of the features; None where it must be learned.
        shape: of the noise.
        bound: of the norm of a point that belongs to that shape.
        truth: weights, where they are known.
    """

    points: Floats
    labels: Floats
    test_points: Floats
    test_labels: Floats
    law: Law | None
    shape: Shape
    bound: float
    truth: Floats | None


@dataclass(frozen=True, eq=False)
class Trace:
    """Noisy gradients of one seed.

    Args:
        points: shape (T, size).
        gradients: same shape.
        scale: of their noise.
        last: weights after the last step, shape (size,).
    """

    points: Floats
    gradients: Floats
    scale: float
    last: Floats


def synth(rng: np.random.Generator) -> Task:
    """A logistic model on the cube, 1000 records, 1000 to test."""
    direction = rng.normal(size=4)
    truth = np.append(direction / np.linalg.norm(direction) * SYNTH_NORM / 2, 0.0)
    points = np.column_stack([rng.uniform(-1, 1, (2000, 4)), np.ones(2000)])
    labels = (rng.random(2000) < expit(points @ truth)).astype(float)
    law = UniformBox(4, 1.0)
    return Task(points[:1000], labels[:1000], points[1000:], labels[1000:], law, "cube", 1.0, truth)


def sphere(rng: np.random.Generator, *, margin: bool) -> Task:
    """CM1 (with a margin) or CM2 (with flipped labels): a separator of the unit sphere in ten dimensions."""
    direction = rng.normal(size=CM_FEATURES)
    direction /= np.linalg.norm(direction)
    features = rng.normal(size=(4 * CM_RECORDS, CM_FEATURES))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    if margin:
        features = features[np.abs(features @ direction) >= CM_MARGIN]
    features = features[: 2 * CM_RECORDS]
    along = features @ direction
    labels = along > 0
    if not margin:
        labels ^= (np.abs(along) <= CM_BAND) & (rng.random(len(along)) < CM_FLIPPED)
    law = UniformSphere(CM_FEATURES, 1.0, CM_FEATURES**-0.5)
    points, target = _with_constant(features, CM_FEATURES**-0.5), labels.astype(float)
    bound = (1 + 1 / CM_FEATURES) ** 0.5
    first, second = slice(CM_RECORDS), slice(CM_RECORDS, None)
    return Task(points[first], target[first], points[second], target[second], law, "ball", bound, None)


def pima(rng: np.random.Generator) -> Task:
    """691 of 768 records; errors are counted on all of them, as published."""
    with open(_file("pima-indians-diabetes.csv"), encoding="utf-8") as lines:
        table = np.array([[float(value) for value in row] for row in csv.reader(lines) if row])
    points, labels = _scaled(table[:, :8], PIMA_BOUNDS), table[:, 8]
    kept = rng.permutation(len(points))[:PIMA_RECORDS]
    return Task(points[kept], labels[kept], points, labels, None, "cube", 1.0, None)


def adult(rng: np.random.Generator) -> Task:
    """The six numeric columns; all 7841 positives and 8159 others, 3846 and 4154 to test."""
    train, test = (_adult_part(name) for name in ("adult.data.gz", "adult.test.gz"))
    points, labels = _balanced(*train, 7841, 8159, rng)
    return Task(points, labels, *_balanced(*test, 3846, 4154, rng), None, "cube", 1.0, None)


SETS: dict[str, Callable[[np.random.Generator], Task]] = {
    "SYNTH": synth,
    "CM1": lambda rng: sphere(rng, margin=True),
    "CM2": lambda rng: sphere(rng, margin=False),
    "PIMA": pima,
    "ADULT": adult,
}


def _file(name: str) -> Path:
    """Where a public table is."""
    return Path(os.environ["DISCREET_DATA"]) / "uci" / name


def _adult_part(name: str) -> tuple[Floats, Floats]:
    """Points and labels of one file."""
    with gzip.open(_file(name), "rt", encoding="utf-8") as lines:
        rows = [row for row in csv.reader(lines) if len(row) == 15]
    table = np.array([[float(row[column]) for column in ADULT_COLUMNS] for row in rows])
    return _scaled(table, ADULT_BOUNDS), np.array([float(">50K" in row[14]) for row in rows])


def _balanced(
    points: Floats, labels: Floats, positive: int, negative: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """So many random records of each label."""
    kept = np.concatenate(
        [
            rng.permutation(np.flatnonzero(labels == 1))[:positive],
            rng.permutation(np.flatnonzero(labels == 0))[:negative],
        ]
    )
    return points[kept], labels[kept]


def _scaled(table: Floats, bounds: tuple[tuple[float, ...], tuple[float, ...]]) -> Floats:
    """Features in [-1, 1] by public bounds, clipped, with a constant of 1."""
    low, high = map(np.asarray, bounds)
    return _with_constant(np.clip(2 * (table - low) / (high - low) - 1, -1, 1), 1.0)


def _with_constant(features: Floats, constant: float) -> Floats:
    """The constant feature as last coordinate."""
    return np.column_stack([features, np.full(len(features), constant)])


# ---------------------------------------------------------------------------------------------- one seed


def noise(size: int, scale: float, shape: Shape, rng: np.random.Generator) -> Floats:
    """K-norm noise of the cube or the ball (Hardt and Talwar, 2010)."""
    if shape == "cube":
        return np.asarray(rng.gamma(size + 1, scale) * rng.uniform(-1, 1, size))
    direction = rng.normal(size=size)
    return np.asarray(direction / np.linalg.norm(direction) * rng.gamma(size, scale))


def noisy_gradients(task: Task, epsilon: float, steps: int, rate: float, rng: np.random.Generator) -> Trace:
    """Gradient steps from 0 with epsilon split evenly: each adds `rate / n` times the noisy gradient."""
    records, size = task.points.shape
    scale = steps * task.bound / epsilon
    at, told, w = np.empty((steps, size)), np.empty((steps, size)), np.zeros(size)
    for step in range(steps):
        at[step] = w
        told[step] = task.points.T @ (task.labels - expit(task.points @ w)) + noise(size, scale, task.shape, rng)
        w = w + rate / records * told[step]
    return Trace(at, told, scale, w)


def noisy_histograms(task: Task, epsilon: float, rng: np.random.Generator) -> Histograms:
    """A histogram of each feature with Laplace noise: a record is in one cell of each."""
    features = task.points.shape[1] - 1
    edges = np.linspace(-1, 1, CELLS + 1)
    scale = features / epsilon
    counts = [np.histogram(task.points[:, j], edges)[0] + rng.laplace(0, scale, CELLS) for j in range(features)]
    kept = [shrunk(cells, 2 * scale**2) for cells in counts]
    return Histograms((edges,) * features, tuple(kept), 1.0)


def error(weights: Floats, task: Task) -> Floats:
    """Error rates in per cent of classifiers, shape (draws, size) to (draws,)."""
    said = task.test_points @ weights.T > 0
    return np.asarray(100 * np.mean(said != (task.test_labels[:, None] > 0.5), axis=0))


@dataclass(frozen=True)
class Found:
    """Errors of one seed in per cent: of the last step, expected and at the mean; share of weights covered."""

    step: float
    expected: float
    mean: float
    covered: float


def run(name: str, epsilon: float, steps: int, rate: float, seed: int, deviation: float = DEVIATION) -> Found:
    """Release, infer and compare on one seed."""
    task = SETS[name](np.random.default_rng([seed, 1]))
    rng = np.random.default_rng([seed, 2])
    left = epsilon
    law = task.law
    if law is None:
        law, left = noisy_histograms(task, LEARNING * epsilon, rng), (1 - LEARNING) * epsilon
    trace = noisy_gradients(task, left, steps, rate, rng)
    found = logistic_draws(
        trace.points,
        trace.gradients,
        scale=trace.scale,
        shape=task.shape,
        records=len(task.labels),
        count_scale=None,
        law=law,
        prior_deviation=deviation,
        draws=1000,
        rng=rng,
    ).weights
    covered = float("nan")
    if task.truth is not None:
        low, high = np.quantile(found, (0.025, 0.975), axis=0)
        covered = float(np.mean((low <= task.truth) & (task.truth <= high)))
    expected = float(error(found[::20], task).mean())
    mean = float(error(found.mean(axis=0)[None], task)[0])
    return Found(float(error(trace.last[None], task)[0]), expected, mean, covered)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--epsilons", default="0.1,1")
    parser.add_argument("--steps", default="1", help="gradients of a release")
    parser.add_argument("--rate", default="8", help="what a step multiplies the mean gradient with")
    parser.add_argument("--deviation", default=str(DEVIATION), help="of the prior")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    asked = parser.parse_args()
    for name in asked.sets.split(","):
        for epsilon in map(float, asked.epsilons.split(",")):
            for steps in map(int, asked.steps.split(",")):
                for rate in map(float, asked.rate.split(",") if steps > 1 else ("1",)):
                    for deviation in map(float, asked.deviation.split(",")):
                        begun = time.process_time()
                        seeds = range(asked.first, asked.first + asked.seeds)
                        rows = [run(name, epsilon, steps, rate, seed, deviation) for seed in seeds]
                        spent = (time.process_time() - begun) / len(rows)
                        expected, mean = [row.expected for row in rows], [row.mean for row in rows]
                        print(
                            f"{name:5} eps {epsilon:<4g} T {steps} rate {rate:<4g} prior {deviation:<4g} "
                            f"step {np.mean([row.step for row in rows]):6.2f}  "
                            f"expected {np.mean(expected):6.2f} +- {np.std(expected):5.2f}  "
                            f"mean {np.mean(mean):6.2f} +- {np.std(mean):5.2f}  "
                            f"published {PUBLISHED[name].get(epsilon, np.nan):6.2f}  "
                            f"covered {100 * np.mean([row.covered for row in rows]):5.1f}  {spent:.1f} s CPU",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
