"""Fitted estimators show what they learned: the same numbers as their intervals, under any names of columns."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.exceptions import NotFittedError

import discreet as dc

PROMISE = dc.Guarantee(epsilon=8, delta=0, relation="replace", unit="record")
COLUMNS = {"<b>age": (0, 10), "$\\frac{": (0, 10)}
LABELS = ("<i>ill", "well")


@cache
def fitted(kind: str) -> Any:
    """An estimator of 600 records with hostile names."""
    import pandas as pd

    rng = np.random.default_rng(2)
    X = rng.uniform(0, 10, (600, 2))
    frame = pd.DataFrame(X, columns=list(COLUMNS))
    account = dc.Ledger("sqlite://").open("a", PROMISE)
    how: Any = {"bounds": COLUMNS, "guarantee": PROMISE, "account": account, "random_state": 1, "draws": 200}
    y = 20 + 5 * X[:, 0]
    labels = np.where(y > 45, *LABELS)
    if kind == "linear":
        return dc.estimators.PrivateLinearRegression(target_bounds=(0, 100), **how).fit(frame, y)
    if kind == "logistic":
        return dc.estimators.PrivateLogisticRegression(classes=LABELS, **how).fit(frame, labels)
    if kind == "classes":
        three = np.array([*LABELS, "other"])[np.minimum(X[:, 0] // 4, 2).astype(int)]
        return dc.estimators.PrivateLogisticRegression(classes=(*LABELS, "other"), **how).fit(frame, three)
    if kind == "no law":
        return dc.estimators.PrivateLogisticRegression(classes=LABELS, curvature=False, **how).fit(frame, labels)
    if kind == "bayes":
        return dc.estimators.PrivateNaiveBayes(classes=LABELS, bins=3, **how).fit(frame, labels)
    if kind == "components":
        return dc.estimators.PrivatePCA(n_components=2, **how).fit(frame)
    assert kind == "direction"
    return dc.estimators.PrivatePrincipalDirection(**how).fit(frame)


KINDS = ("linear", "logistic", "classes", "bayes", "components", "direction")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_frames_summary_and_notebook(kind: str) -> None:
    estimator = fitted(kind)
    rows = estimator.tidy(level=0.9)
    assert all(row["lower"] <= row["upper"] and row["level"] == 0.9 for row in rows)
    assert estimator.to_frame("arrow").num_rows == estimator.to_frame("polars").height == len(rows)
    text = estimator.summary(level=0.9, width=80)
    assert text.startswith(f"{type(estimator).__name__}\n") and "90 % interval" in text
    assert f"promise: {estimator.release_.guarantee}" in text and "spent: epsilon" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "sk-" in estimator._repr_html_(), "notebooks show scikit-learn's own picture"


def test_coefficients_are_those_of_their_intervals() -> None:
    estimator = fitted("linear")
    rows = estimator.tidy(level=0.8)
    lower, upper = estimator.coef_interval(level=0.8)
    assert [row["name"] for row in rows] == [*COLUMNS, "intercept"]
    assert [row["lower"] for row in rows[:2]] == lower.tolist() and [row["upper"] for row in rows[:2]] == upper.tolist()
    assert (rows[2]["lower"], rows[2]["upper"]) == estimator.intercept_interval(level=0.8)
    found_first = estimator.bounds_release_ is not None
    assert ("before it: a release of its own found the bounds" in estimator.summary()) == found_first
    assert "coefficient" in estimator.summary()
    assert {row["class"] for row in fitted("classes").tidy()} == {*LABELS, "other"}


def test_rows_of_a_classifier_are_what_it_answers() -> None:
    estimator = fitted("bayes")
    rows = estimator.tidy()
    assert len(rows) == 1 + 2 * 3 and {row["class"] for row in rows} == {"well"}
    first, *others = rows
    answer = dc.answer(estimator.posterior_, "P(class=well)")
    assert (first["feature"], first["state"]) == (None, None)
    assert first["mean"] == pytest.approx(answer.rows[0]["mean"], abs=1e-12)
    state = others[0]["state"]
    told = dc.answer(estimator.posterior_, f'P(class=well | "<b>age"="{state}")').rows[0]
    assert [others[0][end] for end in ("mean", "lower", "upper")] == pytest.approx(
        [told[end] for end in ("mean", "lower", "upper")], abs=1e-9
    )


def test_rows_of_components_are_those_of_their_intervals() -> None:
    estimator = fitted("components")
    rows = estimator.tidy()
    lower, upper = estimator.components_interval()
    assert [row["name"] for row in rows] == ["explained variance", *COLUMNS] * 2
    entries = [row for row in rows if row["name"] != "explained variance"]
    assert [row["mean"] for row in entries] == estimator.components_.ravel().tolist()
    assert [row["lower"] for row in entries] == lower.ravel().tolist()
    assert [row["upper"] for row in entries] == upper.ravel().tolist()
    ends = np.array([[row["lower"], row["upper"]] for row in rows[::3]]).T
    np.testing.assert_array_equal(ends, estimator.explained_variance_interval())


def test_what_has_no_intervals_says_why() -> None:
    text = fitted("no law").summary(width=70)
    assert "no intervals: " in text and "promise: epsilon" in text
    with pytest.raises(dc.InputError, match="covariates"):
        fitted("no law").tidy()


def test_what_is_not_fitted_shows_nothing() -> None:
    own = dc.estimators.PrivateLinearRegression(bounds=(0, 1), target_bounds=(0, 1), guarantee=PROMISE)
    for act in (own.summary, own.tidy, own.to_frame, own.plot):
        with pytest.raises(NotFittedError):
            act()


@pytest.mark.parametrize("kind", ["linear", "bayes", "components"])
def test_pictures_have_a_line_for_each_interval(kind: str) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    estimator = fitted(kind)
    axes = estimator.plot()
    assert len(axes.lines) == 2 * len(estimator.tidy())
    axes.figure.canvas.draw()
    pyplot.close(axes.figure)
    assert pyplot.get_fignums() == []


def test_a_search_shows_what_it_chose() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 1, (300, 1))
    account = dc.Ledger("sqlite://").open("a", PROMISE)
    own = dc.estimators.PrivateNaiveBayes(
        classes=("no", "yes"), bounds=(0, 1), guarantee=PROMISE, account=account, draws=50, random_state=1
    )
    search = dc.estimators.PrivateGridSearch(own, {"bins": [2, 3]})
    assert not hasattr(search, "summary")
    search.fit(X, np.where(X[:, 0] > 0.5, "yes", "no"))
    assert search.summary() == search.best_estimator_.summary()
    assert search.to_frame("arrow").equals(search.best_estimator_.to_frame("arrow"))
