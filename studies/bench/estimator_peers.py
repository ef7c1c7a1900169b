"""Who is compared in `bench.estimators`: ours by their public classes, peers, and fits without privacy.

A `Method` says what it promises and predicts the test records of a set, once for each seed: probabilities of class 1,
or the target in its scale from -1 to 1. All are given the same: the columns, their public bounds, and the number of
records to fit, which is public where records are replaced; where they are added or removed, ours
and noisy descent take it for the public number that a user declares.

*diffprivlib*: as it comes, on columns scaled to [-1, 1], in an environment of its own; one record is replaced, the
number is public. Its logistic regression perturbs the objective (Chaudhuri, Monteleoni and Sarwate 2011); where norms
exceed 1, which they do here, the term for the curvature in its `Vector` has the norm where the theorem has its square.
Its linear regression is the functional mechanism (Zhang et al. 2012).

*AdaSSP* (Wang 2018): least squares on noisy second moments, with a ridge that depends on a noisy smallest eigenvalue.
*noisy descent*: gradients of all records with normal noise, and momentum. Both are written here in floating point,
promise (epsilon, 1e-6) by zero-concentrated privacy (Bun and Steinke 2016), converted as Canonne, Kamath and Steinke
(2020), and use what the bounds imply of every product, which is less noise than AdaSSP's own formula has.
"""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression

import discreet as dc

from .estimator_sets import Task

__all__ = ["DELTA", "METHODS", "OPTIONS", "Method", "estimator_of", "missing_methods", "rho_of"]

Floats = npt.NDArray[np.float64]
Run = Callable[[Task, float, str, Sequence[int]], Floats]
"""Of a set, epsilon, relation and seeds: predictions of the test records, shape (seeds, test records)."""
OPTIONS: dict[str, Any] = {}
"""Of our estimators, where the command line asks for others than the defaults."""

DELTA = 1e-6
ENVIRONMENT = Path(os.environ.get("VIRTUAL_ENV", Path(__file__).parents[2] / ".venv")) / "peers" / "diffprivlib"
SCRIPT = Path(__file__).parent / "environments" / "regress.py"


@dataclass(frozen=True)
class Method:
    """Who predicts, and what is promised.

    Args:
        kinds: "logistic", "linear" or both.
        relation: that it promises; None if the one that is asked for.
        delta: that it promises beside epsilon; None if it promises nothing.
        run: the predictions.
    """

    kinds: tuple[str, ...]
    relation: str | None
    delta: float | None
    run: Run

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return self.delta is not None


# ------------------------------------------------------------------------------------------ ours


def estimator_of(task: Task, epsilon: float, delta: float, relation: str, **options: Any) -> Any:
    """Our estimator, not fitted, with an account in memory that pays for one fit.

    Args:
        task: a set; only what is public of it is used.
        epsilon: nats.
        delta: of the guarantee.
        relation: "add-remove" or "replace".
        options: of the estimator, beside `OPTIONS`.
    """
    promise = dc.Guarantee(epsilon=repr(epsilon), delta=repr(delta), relation=relation, unit="record")
    given = {
        "bounds": task.bounds,
        "guarantee": promise,
        "account": dc.Ledger("sqlite://").open("bench", promise),
        **OPTIONS,
        **options,
    }
    if task.kind == "linear":
        return dc.estimators.PrivateLinearRegression(target_bounds=task.target_bounds, **given)
    if relation == "add-remove" and "records" not in given:
        given["records"] = len(task.train)
    return dc.estimators.PrivateLogisticRegression(classes=task.classes, **given)


def _ours(delta: float) -> Run:
    """Default options, unless `OPTIONS` has some. The privacy noise is the package's own and has no seed."""

    def run(task: Task, epsilon: float, relation: str, seeds: Sequence[int]) -> Floats:
        found = []
        for seed in seeds:
            made = estimator_of(task, epsilon, delta, relation, random_state=seed)
            y = task.y[task.train]
            fitted = made.fit(task.X[task.train], y.astype(int) if task.kind == "logistic" else y)
            test = task.X[task.test]
            if task.kind == "logistic":
                found.append(fitted.predict_proba(test)[:, 1])
            else:
                assert task.target_bounds is not None
                lower, upper = task.target_bounds
                found.append(2 * (fitted.predict(test) - lower) / (upper - lower) - 1)
        return np.array(found)

    return run


# ------------------------------------------------------------------------------------------ peers


def _diffprivlib(task: Task, epsilon: float, relation: str, seeds: Sequence[int]) -> Floats:
    """One process for all seeds."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(
            source,
            train=task.scaled(task.train),
            target=task.scaled_target(task.train),
            test=task.scaled(task.test),
            epsilons=[epsilon],
            seeds=list(seeds),
        )
        python = ENVIRONMENT / "bin" / "python"
        subprocess.run([python, SCRIPT, task.kind, source, target], check=True, capture_output=True, cwd=folder)
        with np.load(target) as file:
            return np.asarray(file["predicted"][0], float)


@cache
def rho_of(epsilon: float, delta: float = DELTA) -> float:
    """Zero-concentrated privacy that implies (epsilon, delta); Canonne, Kamath and Steinke (2020).

    Args:
        epsilon: nats.
        delta: probability.

    Returns:
        The largest rho, nats.
    """

    def excess(rho: float) -> float:
        """Log of the delta that a rho implies, less that of the one that is asked for."""

        def at(log_order: float) -> float:
            order = 1 + math.exp(log_order)
            return (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order) - log_order

        return float(minimize_scalar(at, bounds=(-5, 15), method="bounded").fun) - math.log(delta)

    # At rho = epsilon any delta is exceeded; far below it none is.
    return float(brentq(excess, 1e-6 * epsilon**2, epsilon, rtol=1e-9))


def _with_constant(features: Floats) -> Floats:
    """Columns in [-1, 1] and a constant of 1."""
    return np.column_stack([features, np.ones(len(features))])


def _ada_ssp(task: Task, epsilon: float, relation: str, seeds: Sequence[int]) -> Floats:
    """Adaptive sufficient-statistics perturbation: a third of the budget for each of its three values.

    With all numbers in [-1, 1], a record moves the d (d + 1) / 2 sums of products by at most the root of their number,
    the d sums with the target likewise, and the smallest eigenvalue by at most d; replaced, the first two move twice
    that, an eigenvalue by no more.
    """
    X, y = _with_constant(task.scaled(task.train)), task.scaled_target(task.train)
    size = X.shape[1]
    twice = 2.0 if relation == "replace" else 1.0
    unit = 1 / math.sqrt(2 * rho_of(epsilon) / 3)
    products, crossed, smallest = (
        twice * math.sqrt(size * (size + 1) / 2) * unit,
        twice * math.sqrt(size) * unit,
        size * unit,
    )
    exact, target, test = X.T @ X, X.T @ y, _with_constant(task.scaled(task.test))
    found = []
    for seed in seeds:
        rng = np.random.default_rng([53, seed])
        least = np.linalg.eigvalsh(exact)[0] + smallest * rng.normal()
        least = max(least - smallest * math.sqrt(math.log(6 / DELTA)), 0.0)
        ridge = max(0.0, math.sqrt(size * math.log(2 * size**2 / 0.05)) * products - least)
        noise = np.triu(rng.normal(size=(size, size)))
        noise += np.triu(noise, 1).T
        told = exact + products * noise + ridge * np.eye(size)
        weights = np.linalg.lstsq(told, target + crossed * rng.normal(size=size), rcond=None)[0]
        found.append(test @ weights)
    return np.array(found)


MOST_STEPS, LEAST_STEPS = 200, 10
MOMENTUM = 0.9


def descent_steps(records: int, size: int, epsilon: float) -> int:
    """How many gradients: public, one rule for all sets, between 10 and 200; `records epsilon / (20 size)`."""
    return int(np.clip(records * epsilon / (20 * size), LEAST_STEPS, MOST_STEPS))


def _descent(task: Task, epsilon: float, relation: str, seeds: Sequence[int]) -> Floats:
    """From weights 0, steps of 4 / size, the curvature bound's inverse; the later half of the weights is averaged."""
    X, y = _with_constant(task.scaled(task.train)), task.scaled_target(task.train)
    records, size = X.shape
    steps = descent_steps(records, size, epsilon)
    moved = math.sqrt(size) * (2.0 if relation == "replace" else 1.0)
    deviation = moved * math.sqrt(steps / (2 * rho_of(epsilon)))
    rngs = [np.random.default_rng([59, seed]) for seed in seeds]
    weights, velocity, mean = np.zeros((3, len(seeds), size))
    for step in range(steps):
        noise = np.array([rng.normal(size=size) for rng in rngs])
        gradient = (expit(weights @ X.T) - y) @ X + deviation * noise
        velocity = MOMENTUM * velocity - 4 / size * gradient / records
        weights = weights + velocity
        if step >= steps // 2:
            mean += weights / (steps - steps // 2)
    return np.asarray(expit(mean @ _with_constant(task.scaled(task.test)).T))


# ------------------------------------------------------------------------------------------ no privacy


def _exact(task: Task, epsilon: float, relation: str, seeds: Sequence[int]) -> Floats:
    """scikit-learn's fit on the same scaled columns, hardly regularised."""
    X, y, test = task.scaled(task.train), task.scaled_target(task.train), task.scaled(task.test)
    if task.kind == "linear":
        return np.asarray(LinearRegression().fit(X, y).predict(test))[None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(LogisticRegression(C=1e3, max_iter=5000).fit(X, y).predict_proba(test)[:, 1])[None]


def _constant(task: Task, epsilon: float, relation: str, seeds: Sequence[int]) -> Floats:
    """The share of class 1, or the mean."""
    return np.full((1, len(task.test)), task.scaled_target(task.train).mean())


BOTH = ("logistic", "linear")
METHODS: Mapping[str, Method] = {
    "ours": Method(BOTH, None, 0.0, _ours(0.0)),
    "ours, delta": Method(BOTH, None, DELTA, _ours(DELTA)),
    "diffprivlib": Method(BOTH, "replace", 0.0, _diffprivlib),
    "AdaSSP": Method(("linear",), None, DELTA, _ada_ssp),
    "noisy descent": Method(("logistic",), None, DELTA, _descent),
    "exact": Method(BOTH, None, None, _exact),
    "constant": Method(BOTH, None, None, _constant),
}
"""In the order of the tables."""


def missing_methods() -> dict[str, str]:
    """Methods that cannot be run here, with the reason."""
    if (ENVIRONMENT / "bin" / "python").is_file():
        return {}
    return {"diffprivlib": f"no {ENVIRONMENT}; `make peers` makes it"}
