"""`bench.estimators`: its sets, the peers that are written here, and what its tables say. No environment is needed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from bench import estimator_sets as sets
from bench.estimator_peers import DELTA, METHODS, missing_methods, rho_of
from bench.estimator_tables import OF_KIND, report, report_coverage
from bench.estimators import cover, measure, scores

MADE = [
    *(("logistic", name) for name in sets.LOGISTIC_SETS),
    *(("linear", name) for name in sets.LINEAR_SETS),
]


def of(kind: str, name: str) -> sets.Task:
    """A set, if its table is here."""
    if name in sets.missing_tables():
        pytest.skip(sets.missing_tables()[name])
    return sets.logistic(name) if kind == "logistic" else sets.linear(name)


@pytest.mark.costly("A set that nothing can be learned from is found by fitting a model without noise.")
@pytest.mark.parametrize(("kind", "name"), MADE)
def test_sets_are_finite_split_once_and_can_be_learned(kind: str, name: str) -> None:
    task = of(kind, name)
    lower, upper = task.bounds
    assert task.X.shape == (len(task.y), task.features) and lower.shape == upper.shape == (task.features,)
    assert np.isfinite(task.X).all() and np.isfinite(task.y).all() and (lower < upper).all()
    assert sorted([*task.train, *task.test]) == list(range(len(task.y)))
    assert np.abs(task.scaled(task.test)).max() <= 1
    exact, constant = (
        np.mean(scores(task, METHODS[name].run(task, 1.0, "replace", [0]))["log loss" if kind == "logistic" else "R2"])
        for name in ("exact", "constant")
    )
    assert exact < constant if kind == "logistic" else exact > constant + 0.02
    if kind == "logistic":
        assert set(task.y.tolist()) == {0, 1} == set(task.classes or ())


def test_only_the_set_of_narrow_bounds_is_clipped_much() -> None:
    for name in sets.MADE_UP:
        task = sets.linear(name)
        lower, upper = task.bounds
        outside = np.mean(np.clip(task.X, lower, upper) != task.X)
        assert (outside > 0.25) == (name == "clip"), name
        assert np.mean(np.isin(task.y, task.target_bounds)) < (0.03 if name == "outlier" else 0.001), name


@pytest.mark.parametrize(("kind", "name"), [("logistic", "mixed 8"), ("linear", "skew"), ("linear", "clip")])
def test_least_squares_and_likelihood_find_the_truth(kind: str, name: str) -> None:
    """Within five deviations of each slope; fixed seed."""
    task = sets.coverage_set(kind, name, 0)
    assert task.truth is not None and task.intercept is not None
    X = np.column_stack([task.X, np.ones(len(task.y))])
    weights = np.append(task.truth, task.intercept)
    if kind == "logistic":
        means = 1 / (1 + np.exp(-X @ weights))
        information, gradient = (X.T * means * (1 - means)) @ X, X.T @ (task.y - means)
    else:
        information, gradient = X.T @ X / 0.8**2, X.T @ (task.y - X @ weights) / 0.8**2
    moved = np.linalg.solve(information, gradient)
    assert (np.abs(moved) < 5 * np.sqrt(np.diag(np.linalg.inv(information)))).all()
    again = sets.coverage_set(kind, name, 1)
    assert np.array_equal(again.truth, task.truth) and not np.array_equal(again.X, task.X)


def test_what_is_seen_is_the_truth_but_for_bounds_that_are_too_narrow() -> None:
    """Deviations of the large draw's slopes are below .005 of a column's."""
    for name in ("skew", "outlier", "clip"):
        task = sets.coverage_set("linear", name, 0)
        far = np.abs(sets.seen_slopes(name) - task.truth) * task.X.std(axis=0)
        assert (far.max() > 0.03) == (name == "clip"), (name, far)


def test_concentrated_privacy_implies_what_it_is_taken_for() -> None:
    """Against the exact delta of one normal value: never more, and not wastefully less."""
    for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0):
        shift = math.sqrt(2 * rho_of(epsilon))
        tail = norm.logcdf(-shift / 2 - epsilon / shift)
        delta = norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon + tail)
        assert DELTA / 20 < delta <= DELTA, epsilon


def test_peers_end_at_the_exact_fit_and_lose_it_with_epsilon() -> None:
    for kind, method, score in (("linear", "AdaSSP", "R2"), ("logistic", "noisy descent", "log loss")):
        task = of(kind, "outlier")
        exact = scores(task, METHODS["exact"].run(task, 1.0, "replace", [0]))[score][0]
        losses = [
            abs(scores(task, METHODS[method].run(task, epsilon, "replace", range(5)))[score].mean() - exact)
            for epsilon in (0.1, 1.0, 1000.0)
        ]
        assert losses[0] > losses[1] > losses[2] and losses[2] < 0.01, (method, losses)
        added = scores(task, METHODS[method].run(task, 0.3, "add-remove", range(5)))[score].mean()
        replaced = scores(task, METHODS[method].run(task, 0.3, "replace", range(5)))[score].mean()
        assert abs(added - exact) < abs(replaced - exact)


@pytest.mark.parametrize("kind", ["logistic", "linear"])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_ours_predict_the_held_out_records(kind: str, relation: str) -> None:
    task = of(kind, "small")
    rows = measure(task, "ours", 100.0, relation, [0, 1])
    assert len(rows) == 2 * len(OF_KIND[kind]) and not any("why" in row for row in rows)
    assert {row["seed"] for row in rows} == {0, 1}
    text = report([*rows, *measure(task, "constant", 100.0, relation, [0])])
    assert f"* ours: epsilon, delta 0, {relation}, record" in text and "* constant: no privacy" in text


def row(name: str, method: str, epsilon: float, values: list[float], score: str = "R2") -> list[dict[str, object]]:
    """Rows as `measure` has them."""
    here = {"kind": "linear", "set": name, "method": method, "epsilon": epsilon, "relation": "replace", "score": score}
    return [{**here, "seed": seed, "value": value, "seconds": 0.1} for seed, value in enumerate(values)]


def test_tables_count_who_is_better() -> None:
    rows = [
        *row("a", "ours", 1, [0.60, 0.61]),
        *row("a", "AdaSSP", 1, [0.50, 0.51]),
        *row("a", "exact", 1, [0.70]),
        *row("b", "ours", 1, [0.3, 0.4]),
        *row("b", "AdaSSP", 1, [0.36, 0.37]),
        *row("b", "exact", 1, [0.45]),
        *row("c", "ours", 1, [0.20, 0.21]),
        *row("c", "AdaSSP", 1, [0.40, 0.41]),
        *row("c", "exact", 1, [0.50]),
        {**row("c", "ours, delta", 1, [math.nan])[0], "why": "refused: no"},
    ]
    text = report(rows)
    assert "| ours / AdaSSP | 1/1/1 |" in text
    assert "as good as every peer, or better, in 1 of 3 cells (33 %)" in text
    assert "Largest loss at epsilon 1 and above: 20.00 points (c, epsilon 1, to AdaSSP)" in text
    assert "| ours | 16.33 (3) |" in text  # .70 - .605, .45 - .35 and .50 - .205
    assert "* ours, delta, c; epsilon 1: refused: no" in text


def test_intervals_are_counted_where_there_are_any() -> None:
    task = sets.coverage_set("linear", "corr", 0)
    found = cover(task, 30.0, 0.0, "replace", 0, 200)
    assert "why" not in found and 0 <= found["held"] <= 1 and found["width"] > 0
    refused = {**found, "held": math.nan, "why": "refused: no"}
    text = report_coverage([found, refused])
    assert "| linear corr | 30 | 0 | 1 of 2 |" in text and "* linear, corr; epsilon 30: refused: no" in text


def test_what_cannot_be_run_says_why() -> None:
    for reason in (*missing_methods().values(), *sets.missing_tables().values()):
        assert "make peers" in reason or "DISCREET_DATA" in reason
