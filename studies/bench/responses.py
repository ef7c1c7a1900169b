"""Private regressions of counts and of more than two classes: `python -m bench.responses [--quick]`.

Each set has one split, four fifths to fit; a method is fitted anew for each seed. Printed are, by epsilon, error (%)
and log loss of classes, or the share of the deviance that is explained (D2) of counts, means over seeds, ours beside
noisy gradient descent (epsilon, delta 1e-6; one public rule for its steps, `bench.estimator_peers`) and the fit without
privacy. `--coverage` draws new records of known weights for each seed and says how often 95 % intervals hold them, and
how wide they are. Adding or removing a record; ours by the public classes and default options.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import d2_tweedie_score

import discreet as dc

from .estimator_peers import DELTA, descent_steps, rho_of

__all__ = ["cover", "main", "scored"]

Floats = npt.NDArray[np.float64]
EPSILONS = (0.3, 1.0, 3.0, 10.0)
MOST = 15
"""Upper bound of the made-up counts: one in a hundred or fewer are above it."""


@dataclass(frozen=True, eq=False)
class Table:
    """Records, features scaled to [-1, 1] by public bounds.

    Args:
        X, y: features, and codes of classes or counts.
        classes: how many; 0 for counts.
        truth: weights that made them, shape (outputs, features + 1), the intercept last; None where nobody knows them.
    """

    X: Floats
    y: npt.NDArray[np.int64]
    classes: int
    truth: Floats | None = None


def made_up(kind: str, law: str, seed: int, records: int = 10_000, features: int = 6) -> Table:
    """Records of known weights: "classes" (three) or "counts", of normal, skewed or mixed features."""
    rng = np.random.default_rng([71, seed, records])
    Z = rng.standard_normal((records, features))
    for at in range(1, features):
        Z[:, at] = 0.6 * Z[:, at - 1] + 0.8 * Z[:, at]
    X = Z / 3
    if law == "skewed":
        X = np.exp(0.8 * Z) / 4 - 1
    elif law == "mixed":
        X[:, ::2] = np.sign(X[:, ::2] - 0.1)
    X = X.clip(-1, 1)
    outputs = 3 if kind == "classes" else 1
    truth = rng.normal(size=(outputs, features + 1)) * (1.0 if outputs > 1 else 0.4)
    truth -= truth.mean(axis=0) * (outputs > 1)
    a = np.column_stack([X, np.ones(records)]) @ truth.T
    if outputs == 1:
        return Table(X, rng.poisson(np.exp(a[:, 0])).clip(0, MOST), 0, truth)
    shares = softmax(a, axis=1).cumsum(axis=1)
    return Table(X, (rng.random((records, 1)) > shares[:, :-1]).sum(axis=1), 3, truth)


def _bundled(load: Callable[..., Any]) -> Table:
    """A table of scikit-learn; its own extremes stand for bounds, which it has no others of."""
    X, y = load(return_X_y=True)
    low, high = X.min(axis=0), X.max(axis=0)
    high = np.where(high > low, high, low + 1)
    return Table(2 * (X - low) / (high - low) - 1, y.astype(np.int64), len(np.unique(y)))


@cache
def table(name: str) -> Table:
    """One of `SETS`."""
    kind, _, law = name.partition(" ")
    if law:
        return made_up(kind, law, 0)
    return _bundled({"iris": load_iris, "wine": load_wine, "digits": load_digits}[kind])


SETS = (
    *("classes normal", "classes skewed", "classes mixed", "iris", "wine", "digits"),
    *("counts normal", "counts skewed", "counts mixed"),
)


def ours(given: Table, epsilon: float, delta: float, seed: int) -> Any:
    """Our estimator, not fitted, with an account in memory that pays for one fit."""
    promise = dc.Guarantee(epsilon=repr(epsilon), delta=repr(delta), relation="add-remove", unit="record")
    account = dc.Ledger("sqlite://").open("bench", promise)
    public = {"bounds": (-1, 1), "guarantee": promise, "account": account, "random_state": seed}
    if given.classes:
        return dc.estimators.PrivateLogisticRegression(classes=range(given.classes), **public)
    return dc.estimators.PrivatePoissonRegression(target_bounds=(0, MOST), **public)


def descent(given: Table, test: Floats, epsilon: float, seed: int) -> Floats:
    """Noisy gradient descent with momentum; the later half of the weights is averaged. Means, shape (records, ...)."""
    X, outputs = np.column_stack([given.X, np.ones(len(given.X))]), max(given.classes, 1)
    records, size = X.shape
    y = np.eye(outputs)[given.y] if given.classes else given.y[:, None] / MOST
    steps, rng = descent_steps(records, size * outputs, epsilon), np.random.default_rng([73, seed])
    deviation = math.sqrt(size * (2 if given.classes else 1)) * math.sqrt(steps / (2 * rho_of(epsilon)))

    def means(at: Floats, weights: Floats) -> Floats:
        a = at @ weights
        return softmax(a, axis=1) if given.classes else np.exp(np.minimum(a, math.log(MOST))) / MOST

    weights, velocity, mean = np.zeros((3, size, outputs))
    for step in range(steps):
        gradient = X.T @ (means(X, weights) - y) + deviation * rng.normal(size=weights.shape)
        velocity = 0.9 * velocity - (2 if given.classes else 1) / size * gradient / records
        weights = weights + velocity
        mean += weights / (steps - steps // 2) * (step >= steps // 2)
    found = means(np.column_stack([test, np.ones(len(test))]), mean)
    return found if given.classes else MOST * found[:, 0]


def scored(name: str, method: str, epsilon: float, seeds: Sequence[int]) -> Floats:
    """Error and log loss, or D2 and NaN, of one method; shape (seeds, 2).

    Args:
        name: of the set.
        method: "ours", "ours, delta", "descent" or "exact".
        epsilon: nats.
        seeds: of runs.
    """
    whole = table(name)
    order = np.random.default_rng(79).permutation(len(whole.y))
    train, test = np.split(order, [4 * len(order) // 5])
    part, found = Table(whole.X[train], whole.y[train], whole.classes), []
    for seed in seeds:
        if method == "descent":
            told = descent(part, whole.X[test], epsilon, seed)
        else:
            made = _exact(part) if method == "exact" else ours(part, epsilon, DELTA * (method == "ours, delta"), seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made.fit(part.X, part.y)
            told = made.predict_proba(whole.X[test]) if whole.classes else made.predict(whole.X[test])
        if whole.classes:
            held = np.clip(told[np.arange(len(test)), whole.y[test]], 1e-6, 1)
            found.append([100 * np.mean(told.argmax(axis=1) != whole.y[test]), -np.log(held).mean()])
        else:
            explained = d2_tweedie_score(whole.y[test], np.clip(told, 1e-6, None), power=1)
            found.append([max(explained, -1.0), np.nan])
    return np.array(found)


def _exact(part: Table) -> Any:
    """scikit-learn's fit, hardly regularised."""
    return LogisticRegression(C=1e3, max_iter=5000) if part.classes else PoissonRegressor(alpha=1e-6, max_iter=2000)


def cover(kind: str, law: str, features: int, epsilon: float, seeds: Sequence[int]) -> tuple[float, float, float]:
    """Coverage of 95 % intervals of slopes in per cent, their mean width, and the mean error of `coef_`."""
    held, width, error = [], [], []
    for seed in seeds:
        given = made_up(kind, law, 1000 + seed, features=features)
        made = ours(given, epsilon, 0.0, seed).fit(given.X, given.y)
        assert given.truth is not None
        lower, upper = (np.atleast_2d(part) for part in made.coef_interval())
        truth = given.truth[:, :-1]
        held.append((lower <= truth) & (truth <= upper))
        width.append(upper - lower)
        error.append(np.abs(np.atleast_2d(made.coef_) - truth))
    return 100 * float(np.mean(held)), float(np.mean(width)), float(np.mean(error))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Private regressions of counts and of more than two classes.")
    parser.add_argument("--quick", action="store_true", help="two seeds and two epsilons")
    parser.add_argument("--coverage", action="store_true", help="coverage of intervals instead")
    asked = parser.parse_args(arguments)
    seeds, epsilons = (range(2), (1.0, 10.0)) if asked.quick else (range(10), EPSILONS)
    print("| set | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " |")
    print("|---" * (len(epsilons) + 1) + "|")
    if asked.coverage:
        for kind in ("classes", "counts"):
            for law in ("normal", "skewed", "mixed"):
                for features in (4, 8):
                    cells = [cover(kind, law, features, epsilon, seeds) for epsilon in epsilons]
                    told = " | ".join(f"{held:.0f}, {width:.2f}, {error:.2f}" for held, width, error in cells)
                    print(f"| {kind} {law}, {features} | {told} |", flush=True)
        return
    for name in SETS:
        for method in ("ours", "ours, delta", "descent", "exact"):
            cells = [scored(name, method, epsilon, seeds if method != "exact" else [0]) for epsilon in epsilons]
            means = [cell.mean(axis=0) for cell in cells]
            told = " | ".join(f"{a:.1f}, {b:.2f}" if table(name).classes else f"{a:.3f}" for a, b in means)
            print(f"| {name}: {method} | {told} |", flush=True)


if __name__ == "__main__":
    main()
