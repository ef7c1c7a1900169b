"""A private grid search beside its alternatives at equal epsilon: `python -m bench.searching [--seeds 10]`.

*search* is `PrivateGridSearch`. *composed* is scikit-learn's `GridSearchCV` with `private_scorer` and three independent
folds, which charges every fit and score: half of epsilon for them in equal shares, half for the last fit. *default* is
the estimator as it stands and *any* the mean over all settings, both fitted with all of epsilon to all records.
*hindsight* is the best setting of these by the test records, which nobody could have known. Printed are errors on the
test records in per cent, or mean absolute errors in per cent of the width of the target's bounds, mean +- standard
error over seeds. Noise has no seed: numbers differ from run to run by as much.

`--coverage` says how often 95 % intervals of the slopes of a linear regression, and of its error, hold the truth after
a search of up to 12 tries among settings that differ in nothing but luck, beside a fit that was not chosen. Records are
drawn anew for each run; the truth of an error is that of 2,000 test records.
"""

from __future__ import annotations

import argparse
import atexit
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import GridSearchCV, ParameterGrid

import discreet as dc

from . import estimator_sets as sets
from .estimator_sets import Task

__all__ = ["GRIDS", "cover", "main", "measure"]

Floats = npt.NDArray[np.float64]
EPSILONS = (0.3, 1.0, 3.0)
FOLDS = 3
GRIDS: Mapping[str, tuple[type[Any], Mapping[str, Sequence[Any]], tuple[str, ...]]] = {
    "naive Bayes": (dc.estimators.PrivateNaiveBayes, {"bins": [2, 4, 8, 16, 32]}, ("skew", "pima", "wide")),
    "logistic": (
        dc.estimators.PrivateLogisticRegression,
        {"method": ["objective", "gradients"], "norm": [0.5, 1.0, 2.0, None]},
        ("skew", "p30", "offset", "pima"),
    ),
    "linear": (
        dc.estimators.PrivateLinearRegression,
        {"method": ["moments", "exact"], "fit_intercept": [True, False]},
        ("offset", "wide", "pima"),
    ),
}
"""By name: the estimator, its grid, and sets of `bench.estimator_sets`."""


def promise(epsilon: float) -> dc.Guarantee:
    """Adding or removing a record."""
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


@cache
def account() -> dc.results.Account:
    """One that pays for anything, in a file, as scikit-learn's search copies what it fits."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    return dc.Ledger(f"sqlite:///{folder / 'ledger.db'}").open("records", promise(1e6))


def task_of(kind: str, name: str) -> Task:
    """The set."""
    return sets.linear(name) if kind == "linear" else sets.logistic(name)


def rows(task: Task, positions: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Columns and target of some records."""
    y = task.y[positions]
    return task.X[positions], y if task.kind == "linear" else y.astype(int)


def estimator_of(kind: str, task: Task, epsilon: float, **setting: Any) -> Any:
    """An estimator with an account that pays for anything."""
    options: dict[str, dict[str, Any]] = {
        "naive Bayes": {"classes": task.classes, "draws": 40},
        "logistic": {"classes": task.classes, "records": len(task.train)},
        "linear": {"target_bounds": task.target_bounds},
    }
    given = {**options[kind], "bounds": task.bounds, "guarantee": promise(epsilon), "account": account(), **setting}
    return GRIDS[kind][0](**given)


def error(kind: str, task: Task, fitted: Any) -> float:
    """Of predictions for the test records, in per cent."""
    X, y = rows(task, task.test)
    predicted = fitted.predict(X)
    if kind != "linear":
        return 100 * float(np.mean(predicted != y))
    assert task.target_bounds is not None
    lower, upper = task.target_bounds
    return 100 * float(np.minimum(np.abs(predicted - y), upper - lower).mean()) / (upper - lower)


def composed(kind: str, task: Task, epsilon: float) -> Any:
    """The best setting by scikit-learn's search, fitted with what is left."""
    settings = len(ParameterGrid(GRIDS[kind][1]))
    share = epsilon / 2 / (2 * FOLDS * settings)
    scoring, folds = dc.estimators.private_scorer(promise(share)), dc.estimators.IndependentFolds(FOLDS)
    trial = estimator_of(kind, task, share)
    search = GridSearchCV(trial, GRIDS[kind][1], scoring=scoring, cv=folds, refit=False, error_score="raise")
    return estimator_of(kind, task, epsilon / 2, **search.fit(*rows(task, task.train)).best_params_).fit(
        *rows(task, task.train)
    )


def measure(kind: str, name: str, epsilon: float, seeds: Iterable[int]) -> dict[str, list[float]]:
    """Errors by method, one for each seed.

    Args:
        kind: of the estimator, a key of `GRIDS`.
        name: of the set.
        epsilon: of every method.
        seeds: one repetition for each.
    """
    task, grid = task_of(kind, name), GRIDS[kind][1]
    found: dict[str, list[float]] = {method: [] for method in ("search", "composed", "default", "any", "hindsight")}
    for _ in seeds:
        search = dc.estimators.PrivateGridSearch(estimator_of(kind, task, epsilon), grid).fit(*rows(task, task.train))
        found["search"].append(error(kind, task, search))
        found["composed"].append(error(kind, task, composed(kind, task, epsilon)))
        found["default"].append(error(kind, task, estimator_of(kind, task, epsilon).fit(*rows(task, task.train))))
        each = [
            error(kind, task, estimator_of(kind, task, epsilon, **setting).fit(*rows(task, task.train)))
            for setting in ParameterGrid(grid)
        ]
        found["any"].append(float(np.mean(each)))
        found["hindsight"].append(min(each))
    return found


def cover(name: str, epsilon: float, runs: int, records: int) -> dict[str, float]:
    """Shares of intervals that hold the truth, after a choice and without one.

    Args:
        name: of the set, with known slopes.
        epsilon: of each search.
        runs: how many, each with records of its own.
        records: to search on.
    """
    held: dict[str, list[float]] = {}
    for seed in range(runs):
        task = sets.coverage_set("linear", name, seed)
        X, y = rows(task, task.train[:records])
        for method, draws in (("chosen", [400, 401]), ("not chosen", [400])):
            tries = 12 if method == "chosen" else None
            found = dc.estimators.PrivateGridSearch(
                estimator_of("linear", task, epsilon), {"draws": draws}, tries=tries
            ).fit(X, y)
            lower, upper = found.best_estimator_.coef_interval()
            assert task.truth is not None and task.target_bounds is not None
            held.setdefault(f"slopes, {method}", []).append(
                float(np.mean((lower <= task.truth) & (task.truth <= upper)))
            )
            width = task.target_bounds[1] - task.target_bounds[0]
            truth = error("linear", task, found) * width / 100
            held.setdefault(f"error, {method}", []).append(float(found.score_.lower <= truth <= found.score_.upper))
    return {method: float(np.mean(shares)) for method, shares in held.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kind", choices=list(GRIDS), action="append")
    parser.add_argument("--set", action="append")
    parser.add_argument("--coverage", type=int, metavar="RUNS")
    given = parser.parse_args(arguments)
    if given.coverage:
        for name in ("corr", "offset"):
            for epsilon, records in ((1.0, 1000), (10.0, 1000)):
                held = cover(name, epsilon, given.coverage, records)
                shares = (f"{method} {100 * share:.1f}" for method, share in held.items())
                print(f"{name}, epsilon {epsilon:g}, {records} records:", *shares, sep="  ", flush=True)
        return
    for kind in given.kind or GRIDS:
        for name in given.set or GRIDS[kind][2]:
            for epsilon in EPSILONS:
                found = measure(kind, name, epsilon, range(given.seeds))
                cells = (
                    f"{method} {np.mean(v):.2f} +- {np.std(v, ddof=1) / np.sqrt(len(v)):.2f}"
                    for method, v in found.items()
                )
                print(f"{kind}, {name}, epsilon {epsilon:g}:", *cells, sep="  ", flush=True)


if __name__ == "__main__":
    main()
