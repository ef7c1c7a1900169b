"""A private grid search beside its alternatives at equal epsilon: `python -m bench.searching [--seeds 10]`.

*search* is `PrivateGridSearch`. *composed* is scikit-learn's `GridSearchCV` with `private_scorer` and three independent
folds, which charges every fit and score: half of epsilon for them in equal shares, half for the last fit. *default* is
the estimator as it stands and *any* the mean over all settings, both fitted with all of epsilon to all records.
*hindsight* is the best setting of these by the test records, which nobody could have known. Printed are errors on the
test records in per cent, or mean absolute errors in per cent of the width of the target's bounds, mean +- standard
error over seeds. Noise has no seed: numbers differ from run to run by as much.

`--coverage` says how often the 95 % interval of `score_` holds the share of right predictions among many test records
of the same law, beside that of a score of one fit without a choice.
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
    "naive Bayes": (dc.PrivateNaiveBayes, {"bins": [2, 4, 8, 16, 32]}, ("skew", "pima", "wide")),
    "logistic": (
        dc.PrivateLogisticRegression,
        {"method": ["objective", "gradients"], "norm": [0.5, 1.0, 2.0, None]},
        ("skew", "p30", "offset", "pima"),
    ),
    "linear": (
        dc.PrivateLinearRegression,
        {"method": ["moments", "exact"], "fit_intercept": [True, False]},
        ("offset", "wide", "pima"),
    ),
}
"""By name: the estimator, its grid, and sets of `bench.estimator_sets`."""


def promise(epsilon: float) -> dc.Guarantee:
    """Adding or removing a record."""
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


@cache
def account() -> dc.Account:
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
    scoring, folds = dc.private_scorer(promise(share)), dc.IndependentFolds(FOLDS)
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
        search = dc.PrivateGridSearch(estimator_of(kind, task, epsilon), grid).fit(*rows(task, task.train))
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


def cover(epsilon: float, records: int, runs: int) -> dict[str, float]:
    """Shares of intervals that hold the truth, after a search and without one.

    Args:
        epsilon: of each.
        records: to search on.
        runs: how many.
    """
    task = sets.logistic("corr")
    (X, y), kind = rows(task, np.arange(len(task.y))), "naive Bayes"
    rng, held = np.random.default_rng(53), {"chosen": 0, "not chosen": 0}
    for _ in range(runs):
        at = rng.permutation(len(y))
        own, others = at[:records], at[records:]
        search = dc.PrivateGridSearch(estimator_of(kind, task, epsilon), GRIDS[kind][1]).fit(X[own], y[own])
        plain = dc.PrivateGridSearch(estimator_of(kind, task, epsilon), {"bins": [8]}).fit(X[own], y[own])
        for method, found in (("chosen", search), ("not chosen", plain)):
            truth = float(np.mean(found.predict(X[others]) == y[others]))
            held[method] += found.score_.lower <= truth <= found.score_.upper
    return {method: number / runs for method, number in held.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kind", choices=list(GRIDS), action="append")
    parser.add_argument("--set", action="append")
    parser.add_argument("--coverage", type=int, metavar="RUNS")
    given = parser.parse_args(arguments)
    if given.coverage:
        for epsilon, records in ((0.3, 300), (1.0, 300), (1.0, 2000), (10.0, 300)):
            held = cover(epsilon, records, given.coverage)
            print(f"epsilon {epsilon:g}, {records} records:", *(f"{m} {v:.1%}" for m, v in held.items()), flush=True)
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
