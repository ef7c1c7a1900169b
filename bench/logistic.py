"""Error rates of private logistic regression on the five data sets of Williams and McSherry (2010), Tables 2 and 3.

    python -m bench.logistic [--sets SYNTH,CM1] [--epsilons 0.1,1] [--methods auto,1,2] [--seeds 40] [--posterior]

Each seed draws a data set, and simulates the release of a method: "auto" (the estimator's rule), "objective", or so
many noisy gradients. Printed are the error rate of the released classifier and, with `--posterior`, those of the
posterior of the weights: *expected*, averaged over draws (the paper's), and *mean*, of the classifier at the posterior
mean, and the share of true weights that 95 % intervals cover, where they are known. Where the law of features is not
declared, a tenth of epsilon buys histograms of them. DISCREET_DATA tells where the public tables of PIMA and ADULT are.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

import discreet as dc
from discreet.estimators.logistic_regression import chosen_method

__all__ = ["PUBLISHED", "SETS", "Found", "Task", "run"]

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
LEARNING = Fraction(1, 10)
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
        norm: public bound of the features' norm; None where their bounds are all that is known.
        truth: weights, where they are known.
    """

    points: Floats
    labels: Floats
    test_points: Floats
    test_labels: Floats
    law: dc.UniformBox | dc.UniformSphere | None
    norm: float | None
    truth: Floats | None


def synth(rng: np.random.Generator) -> Task:
    """A logistic model on the cube, 1000 records, 1000 to test."""
    direction = rng.normal(size=4)
    truth = np.append(direction / np.linalg.norm(direction) * SYNTH_NORM / 2, 0.0)
    points = np.column_stack([rng.uniform(-1, 1, (2000, 4)), np.ones(2000)])
    labels = (rng.random(2000) < expit(points @ truth)).astype(float)
    law = dc.UniformBox(4, 1.0)
    return Task(points[:1000], labels[:1000], points[1000:], labels[1000:], law, None, truth)


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
    law = dc.UniformSphere(CM_FEATURES, 1.0, CM_FEATURES**-0.5)
    points, target = _with_constant(features, CM_FEATURES**-0.5), labels.astype(float)
    first, second = slice(CM_RECORDS), slice(CM_RECORDS, None)
    return Task(points[first], target[first], points[second], target[second], law, 1.0, None)


def pima(rng: np.random.Generator) -> Task:
    """691 of 768 records; errors are counted on all of them, as published."""
    with open(_file("pima-indians-diabetes.csv"), encoding="utf-8") as lines:
        table = np.array([[float(value) for value in row] for row in csv.reader(lines) if row])
    points, labels = _scaled(table[:, :8], PIMA_BOUNDS), table[:, 8]
    kept = rng.permutation(len(points))[:PIMA_RECORDS]
    return Task(points[kept], labels[kept], points, labels, None, None, None)


def adult(rng: np.random.Generator) -> Task:
    """The six numeric columns; all 7841 positives and 8159 others, 3846 and 4154 to test."""
    train, test = (_adult_part(name) for name in ("adult.data.gz", "adult.test.gz"))
    points, labels = _balanced(*train, 7841, 8159, rng)
    return Task(points, labels, *_balanced(*test, 3846, 4154, rng), None, None, None)


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


@dataclass(frozen=True)
class Found:
    """Error rates of one seed in per cent, and the share of true weights covered; NaN where there are none."""

    released: float
    expected: float
    mean: float
    covered: float


def run(
    name: str, epsilon: float, method: str, seed: int, *, relation: str, deviation: float, posterior: bool
) -> Found:
    """Release, infer and compare on one seed."""
    task, rng = SETS[name](np.random.default_rng([seed, 1])), np.random.default_rng([seed, 2])
    features = task.points.shape[1] - 1
    variables = tuple(dc.Variable(f"x{j}", bounds=(-1, 1)) for j in range(features))
    design = dc.Design(variables, dc.Variable("y", states=("0", "1")), task.norm)
    statistic = dc.gradients(dc.grid_rows(design, task.points[:, :-1], np.where(task.labels > 0, "1", "0")))
    law, left = task.law, Fraction(str(epsilon))
    if posterior and law is None:
        law, left = learned_law(task, design, LEARNING * left, relation, rng), (1 - LEARNING) * left
    mechanism = mechanism_of(method, float(left), len(task.labels), features, symmetric=task.law is not None)
    promise = dc.Guarantee(epsilon=left, delta=0, relation=relation, unit="record")
    made = dc.simulate(mechanism, statistic, dc.Normal(design, deviation), promise, rng=rng)
    assert isinstance(made.payload, dc.GradientTrace)
    released, nothing = error(made.payload.weights[None], task)[0], float("nan")
    if not posterior:
        return Found(released, nothing, nothing, nothing)
    drawn = dc.weights(made, draws=1000, rng=rng, covariates=law).weights
    covered = nothing
    if task.truth is not None:
        low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
        covered = float(np.mean((low <= task.truth) & (task.truth <= high)))
    return Found(released, float(error(drawn[::20], task).mean()), error(drawn.mean(axis=0)[None], task)[0], covered)


def mechanism_of(
    method: str, epsilon: float, records: int, features: int, *, symmetric: bool
) -> dc.Mechanism[Any, Any, Any, Any]:
    """The mechanism of a method's name, or a number of gradients."""
    if method == "auto":
        method = chosen_method(epsilon=epsilon, records=records, features=features, symmetric=symmetric)
    if method == "objective":
        return dc.objective_perturbation(records=records)
    return dc.noisy_gradients(1 if method == "one_shot" else int(method), records=records)


def learned_law(
    task: Task, design: dc.Design, epsilon: Fraction, relation: str, rng: np.random.Generator
) -> dc.WeightedPoints:
    """A released histogram of each feature: a network without arcs."""
    bins = tuple(np.linspace(-1, 1, CELLS + 1)[1:-1])
    variables = tuple(dc.Variable(name, bounds=(-1, 1), bins=bins) for name in design.names)
    network = dc.Network(variables, dict.fromkeys(design.names, ()))
    codes = {name: np.searchsorted(bins, task.points[:, j], side="right") for j, name in enumerate(design.names)}
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")
    made = dc.simulate(dc.laplace(), dc.count_codes(network, codes), dc.Dirichlet.uniform(network), promise, rng=rng)
    return dc.released_covariates(dc.noise_aware(made, draws=100, rng=rng), design, rng=rng)


def error(weights: Floats, task: Task) -> Floats:
    """Error rates in per cent of classifiers, shape (draws, size) to (draws,)."""
    said = task.test_points @ weights.T > 0
    return np.asarray(100 * np.mean(said != (task.test_labels[:, None] > 0.5), axis=0))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--epsilons", default="0.1,1")
    parser.add_argument("--methods", default="auto", help="auto, objective, or numbers of gradients")
    parser.add_argument("--relation", default="add-remove")
    parser.add_argument("--deviation", type=float, default=2.5, help="of the prior")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--posterior", action="store_true", help="draw the weights, too: 2 to 5 s each")
    asked = parser.parse_args()
    for name in asked.sets.split(","):
        for epsilon in map(float, asked.epsilons.split(",")):
            for method in asked.methods.split(","):
                begun = time.process_time()
                rows = [
                    run(name, epsilon, method, seed, relation=asked.relation, deviation=asked.deviation,
                        posterior=asked.posterior)
                    for seed in range(asked.first, asked.first + asked.seeds)
                ]  # fmt: skip
                spent = (time.process_time() - begun) / len(rows)
                columns = {
                    key: np.array([getattr(row, key) for row in rows]) for key in ("released", "expected", "mean")
                }
                shown = "  ".join(f"{key} {part.mean():6.2f} +- {part.std():5.2f}" for key, part in columns.items())
                covered = 100 * np.array([row.covered for row in rows])
                print(
                    f"{name:5} eps {epsilon:<4g} {method:9} {shown}",
                    f"published {PUBLISHED[name].get(epsilon, np.nan):6.2f}",
                    f"covered {covered.mean():5.1f} +- {covered.std() / len(rows) ** 0.5:.1f}  {spent:.1f} s CPU",
                    sep="  ",
                    flush=True,
                )


if __name__ == "__main__":
    main()
