"""Private logistic regression: methods and their choice, classes, units, its posterior, and what is refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.exceptions import NotFittedError

import discreet as dc
from discreet.estimators.logistic_regression import PrivateLogisticRegression, chosen_method
from discreet.posterior.read import quick_estimate

BOUNDS = {"age": (20.0, 90.0), "pressure": (80.0, 200.0)}
CLASSES = ("well", "ill")
SLOPES, START = np.array([3.0, 1.5]), 0.5
"""Log odds of being well, the second class, for the scaled features."""


def promise(epsilon: Any = 1, relation: str = "add-remove", delta: Any = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def opened(relation: str = "add-remove") -> dc.results.Account:
    return dc.Ledger("sqlite://").open("ward", promise(10**7, relation, "0.5"))


def patients(n: int = 1000, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    """Patients who fill their bounds evenly; the older ones are well, so that signs are seen."""
    rng = np.random.default_rng(seed)
    scaled = rng.uniform(-1, 1, (n, 2))
    frame = pd.DataFrame({"age": 55 + 35 * scaled[:, 0], "pressure": 140 + 60 * scaled[:, 1]})
    return frame, np.where(rng.random(n) < expit(scaled @ SLOPES + START), "well", "ill")


def estimator(account: dc.results.Account | None = None, **others: Any) -> PrivateLogisticRegression:
    options: dict[str, Any] = {"classes": CLASSES, "bounds": BOUNDS, "records": 1000, "guarantee": promise()}
    options["find_bounds"] = None  # tests/test_found_bounds.py has that
    return PrivateLogisticRegression(account=account or opened(), random_state=4, **{**options, **others})


def simulated(epsilon: float, relation: str = "add-remove", *, n: int = 1000, mechanism: Any = None) -> dc.Release:
    """A release whose noise has a seed: tests that look at numbers never fail by chance."""
    X, y = patients(n)
    features = tuple(dc.Variable(name, bounds=pair) for name, pair in BOUNDS.items())
    design = dc.designs.Design(features, dc.Variable("class", ("ill", "well")))
    statistic = dc.designs.sum_gradients(dc.designs.read_rows(design, X.to_numpy(), y))
    chosen = mechanism or dc.designs.objective_perturbation(records=n)
    told, rng = promise(epsilon, relation), np.random.default_rng(3)
    return dc.simulate(chosen, statistic, dc.designs.Normal(design, 5.0), told, rng=rng)


@cache
def read() -> PrivateLogisticRegression:
    """A fitted estimator, of a release at epsilon 5."""
    release = simulated(5)
    law = dc.research.uniform_law(release.over)
    return PrivateLogisticRegression.from_release(release, covariates=law, draws=400, random_state=4)


# ----------------------------------------------------------------------------------------------------------- methods


@pytest.mark.parametrize(
    ("epsilon", "records", "features", "symmetric", "wanted"),
    [
        (1, 499, 2, True, "one_shot"),
        (1, 500, 2, True, "objective"),
        (0.1, 4999, 2, True, "one_shot"),
        (0.1, 5000, 2, True, "objective"),
        (1e-6, 10, 2, False, "objective"),
        (0.1, 100_000, 50, True, "one_shot"),
    ],
)
def test_the_rule(epsilon: float, records: int, features: int, symmetric: bool, wanted: str) -> None:
    assert chosen_method(epsilon=epsilon, records=records, features=features, symmetric=symmetric) == wanted


@pytest.mark.parametrize(
    ("options", "mechanism", "gradients"),
    [
        ({}, "objective_perturbation", 1),
        ({"symmetric": True}, "objective_perturbation", 1),
        ({"symmetric": True, "guarantee": promise("0.1")}, "noisy_gradients", 1),
        ({"symmetric": True, "records": 100}, "noisy_gradients", 1),
        ({"method": "objective", "symmetric": True, "records": 100}, "objective_perturbation", 1),
        ({"method": "one_shot"}, "noisy_gradients", 1),
        ({"method": "gradients"}, "noisy_gradients", 2),
        ({"method": "gradients", "steps": np.int64(3)}, "noisy_gradients", 3),
    ],
)
def test_methods_are_mechanisms(options: dict[str, Any], mechanism: str, gradients: int) -> None:
    X, y = patients()
    account = opened()
    fitted = estimator(account, **options).fit(X, y)
    assert fitted.release_.mechanism == mechanism
    assert fitted.release_.payload.gradients.shape == (gradients, 3)
    assert fitted.release_.records is None and fitted.release_.payload.total is not None
    assert fitted.predict(X).shape == (1000,)
    assert len(account.charges()) == 1


def test_an_expected_number_of_records_is_declared_where_theirs_is_private() -> None:
    X, y = patients()
    account = opened()
    for options in ({"method": "gradients"}, {"symmetric": True}, {"regularisation": 0.1}):
        with pytest.raises(dc.InputError, match="an add-remove guarantee keeps the number of records private"):
            estimator(account, records=None, **options).fit(X, y)
    assert not account.charges()
    # Many more than declared are taken: a refusal would tell their number.
    assert estimator(account, records=9).fit(X, y).release_.payload.weights.shape == (3,)
    assert estimator(account, records=None).fit(X, y).release_.payload.weights.shape == (3,)
    guarantee = promise(1, "replace")
    taken, declared, other = (
        estimator(opened("replace"), records=records, guarantee=guarantee).fit(X, y).release_
        for records in (None, 1000, 4000)
    )
    assert taken.records == 1000 and taken.payload.total is None
    assert taken.calibration == declared.calibration != other.calibration


def test_regularisation_is_for_each_expected_record_and_squared_length() -> None:
    X, y = patients()
    found = estimator(regularisation=0.01).fit(X, y).release_.calibration
    assert np.isclose(found.regularisation, 0.01 * 1000 * 3, rtol=0.01)


def test_a_norm_makes_the_noise_round_and_long_records_shorter() -> None:
    X, y = patients()
    fitted = estimator(norm=0.5).fit(X, y)
    design = fitted.release_.over
    assert (design.norm, design.shape) == (0.5, "ball")
    assert np.isclose(design.constant, 0.5 / 2**0.5, atol=1 / 4096)
    inside = pd.DataFrame({"age": [55 + 35 * 0.3], "pressure": [140 + 60 * 0.4]})
    beyond = pd.DataFrame({"age": [55 + 35 * 0.6], "pressure": [140 + 60 * 0.8]})
    assert np.allclose(fitted.decision_function(beyond), fitted.decision_function(inside))
    assert PrivateLogisticRegression.from_release(fitted.release_).norm == 0.5


# --------------------------------------------------------------------------------------------------- classes and units


def test_probabilities_are_those_of_the_posterior_mean() -> None:
    X = patients(9, seed=2)[0]
    scaled = np.column_stack([(X["age"] - 55) / 35, (X["pressure"] - 140) / 60, np.ones(9)])
    second = expit(scaled @ quick_estimate(read().release_))
    assert read().classes_.tolist() == ["ill", "well"]
    assert np.allclose(read().predict_proba(X), np.column_stack([1 - second, second]))
    assert read().predict(X).tolist() == np.where(second > 0.5, "well", "ill").tolist()


def test_coefficients_are_log_odds_for_a_unit_of_a_column() -> None:
    X = patients(9, seed=2)[0]
    assert read().coef_.shape == (1, 2) and read().intercept_.shape == (1,)
    assert np.allclose(read().decision_function(X), read().intercept_[0] + X.to_numpy() @ read().coef_[0])
    assert np.allclose(read().coef_[0], quick_estimate(read().release_)[:2] / [35, 60])
    lower, upper = read().sample_posterior(1000).interval(level=0.95)
    own = quick_estimate(read().release_)
    assert np.all((lower < own) & (own < upper))


@pytest.mark.parametrize("order", [["age", "pressure"], ["pressure", "age"]])
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_columns_are_taken_by_name(kind: Any, order: list[str]) -> None:
    frame, y = patients()
    X = kind(frame)[order]
    fitted = estimator(guarantee=promise(1000)).fit(X, y)
    assert fitted.release_.over.names == ("age", "pressure")
    assert fitted.feature_names_in_.tolist() == order
    assert np.allclose(fitted.decision_function(X), fitted.intercept_[0] + X.to_numpy() @ fitted.coef_[0])
    # Wide of the mark by design: this is about which is which. 1.5 / 60 is .025, and 3 / 35 is .086.
    assert fitted.coef_[0][order.index("age")] > 2 * fitted.coef_[0][order.index("pressure")] > 0


def test_a_header_that_was_not_declared_is_not_released() -> None:
    X, y = patients()
    X.columns = ["Smith 1931", "pressure"]
    fitted = estimator(bounds=([20, 80], [90, 200])).fit(X, y)
    assert "Smith" not in fitted.release_.dumps()
    assert fitted.release_.over.names == ("x0", "x1")


@pytest.mark.parametrize(
    ("classes", "wanted"), [((1, 0), [0, 1]), ((True, False), [False, True]), ((-1, 1), [-1, 1]), ("ba", None)]
)
def test_classes_are_sorted_labels(classes: Any, wanted: list[Any] | None) -> None:
    X, y = patients()
    if wanted is None:
        with pytest.raises(dc.InputError, match="fit needs classes="):
            estimator(classes=classes).fit(X, y)
        return
    fitted = estimator(classes=classes, guarantee=promise(1000)).fit(X, np.where(y == "well", wanted[1], wanted[0]))
    assert fitted.classes_.tolist() == wanted
    # 1.7 of each 10 are on the wrong side of the true line.
    assert np.mean(fitted.predict(X) == np.where(y == "well", wanted[1], wanted[0])) > 0.75
    again = PrivateLogisticRegression.from_release(fitted.release_, classes=classes)
    assert np.array_equal(again.predict(X), fitted.predict(X))
    assert PrivateLogisticRegression.from_release(fitted.release_).classes_.tolist() == list(map(str, wanted))
    with pytest.raises(dc.InputError, match=f"the classes of the release are called {wanted[0]}, {wanted[1]}"):
        PrivateLogisticRegression.from_release(fitted.release_, classes=("a", "b"))


def test_a_feature_may_be_called_class() -> None:
    X, y = patients()
    target = estimator(bounds={"class": (20, 90), "age": (80, 200)}).fit(X.to_numpy(), y).release_.over.target
    assert target is not None and (target.name, target.states) == ("class_", ("ill", "well"))


def test_others_releases_are_refused() -> None:
    X, _ = patients()
    design = dc.designs.Design(
        tuple(dc.Variable(name, bounds=pair) for name, pair in BOUNDS.items()), dc.Variable("y", bounds=(0, 1))
    )
    statistic, rng = (
        dc.designs.sum_moments(dc.designs.read_rows(design, X.to_numpy(), np.zeros(1000))),
        np.random.default_rng(1),
    )
    made = dc.simulate(dc.designs.noisy_moments(), statistic, dc.designs.Normal(design, 1), promise(), rng=rng)
    with pytest.raises(dc.InputError, match="not of a logistic"):
        PrivateLogisticRegression.from_release(made)


@pytest.mark.parametrize("method", ["objective", "one_shot", "gradients"])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_it_learns(method: str, relation: str) -> None:
    """At epsilon 1 and 1,000 records nearly as well as the truth, which errs in 18 of 100; noise has a seed."""
    mechanism = {
        "objective": dc.designs.objective_perturbation(records=1000),
        "one_shot": dc.research.noisy_gradients(1, records=1000),
        "gradients": dc.research.noisy_gradients(2, records=1000),
    }[method]
    found = PrivateLogisticRegression.from_release(simulated(1, relation, mechanism=mechanism))
    assert found.set_params(scored_records="public").score(*patients(5000, seed=9)) > 0.75


# --------------------------------------------------------------------------------------------------------- posterior


def test_intervals_are_those_of_the_draws_in_the_order_of_the_classes() -> None:
    X = patients(4, seed=2)[0]
    lower, upper = read().predict_interval(X, level=0.9)
    assert lower.shape == upper.shape == (4, 2)
    assert np.allclose(lower[:, 0], 1 - upper[:, 1]) and np.allclose(upper[:, 0], 1 - lower[:, 1])
    drawn = read().sample_posterior(400)
    assert (drawn.method, drawn.weights.shape, drawn.mixing) == ("resampling", (400, 3), None)
    scaled = np.column_stack([(X["age"] - 55) / 35, (X["pressure"] - 140) / 60, np.ones(4)])
    wanted = np.quantile(expit(drawn.weights @ scaled.T), [0.05, 0.95], axis=0)
    assert np.allclose([lower[:, 1], upper[:, 1]], wanted)
    # The declared law is the true one; the noise has a seed.
    low, high = drawn.interval(level=0.99)
    assert np.all((low < [*SLOPES, START]) & (high > [*SLOPES, START]))
    for level in (0, 1):
        with pytest.raises(dc.InputError, match="between 0 and 1"):
            read().predict_interval(X, level=level)
    with pytest.raises(dc.InputError, match="400 draws cannot tell a level"):
        read().predict_interval(X, level=0.999)


def test_public_records_sharpen_the_posterior() -> None:
    frame, labels = patients(2000, seed=6)
    known = dc.designs.PublicRecords(frame.to_numpy(), (labels == "well").astype(int))
    release = simulated(0.5)
    plain, helped = (
        PrivateLogisticRegression.from_release(
            release,
            covariates=dc.research.uniform_law(release.over),
            public_records=public,
            draws=400,
            random_state=1,
        )
        .sample_posterior(400)
        .weights
        for public in (None, known)
    )
    assert np.all(helped.std(axis=0) < 0.6 * plain.std(axis=0))
    assert np.all(np.abs(helped.mean(axis=0) - [*SLOPES, START]) < 5 * helped.std(axis=0))


def test_a_law_of_covariates_reaches_the_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("discreet.estimators.regressions.read", lambda *given, **other: asked.append(other))
    law = dc.research.UniformSphere(2, 1.0, 1.0)
    known = dc.designs.PublicRecords([[50.0, 100.0]], [1])
    X, y = patients()
    estimator(covariates=law, public_records=known).fit(X, y).sample_posterior(5)
    assert asked[0]["covariates"] is law and asked[0]["public"] is known and asked[0]["draws"] == 5


def test_a_posterior_needs_the_law_of_the_features() -> None:
    bare = dc.designs.objective_perturbation(records=1000, curvature=0)
    plain = PrivateLogisticRegression.from_release(simulated(5, mechanism=bare))
    assert np.allclose(plain.coef_[0], plain.release_.payload.weights[:2] / [35, 60])
    for ask in (lambda: plain.sample_posterior(10), lambda: plain.predict_interval(patients(4)[0])):
        with pytest.raises(dc.InputError, match="needs the law of the features"):
            ask()


def test_a_release_gives_its_classes_in_its_own_order() -> None:
    X = np.linspace(-1, 1, 500)[:, None]
    fitted = PrivateLogisticRegression(
        classes=(2, 10), bounds=(-1, 1), records=500, guarantee=promise(5), account=opened()
    ).fit(X, np.where(X[:, 0] > 0, 10, 2))
    for classes in (None, (10, 2)):
        again = PrivateLogisticRegression.from_release(fitted.release_, classes=classes)
        assert list(map(str, again.classes_)) == ["2", "10"]
        assert list(map(str, again.predict(X))) == list(map(str, fitted.predict(X)))


# ---------------------------------------------------------------------------------------------------------- refusals

ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "no classes": ({"classes": None}, "fit needs classes="),
    "one class": ({"classes": ("ill",)}, "a classifier needs at least two classes"),
    "a class twice": ({"classes": ("ill", "ill")}, "a class is declared twice"),
    "classes of two kinds": ({"classes": ("ill", 1)}, "all text or all numbers"),
    "another class": ({"classes": ("ill", "dead")}, "y holds a label that is none of the declared classes: dead, ill"),
    "a class without a name": ({"classes": ("", "well")}, "every state needs a name"),
    "no bounds": ({"bounds": None}, "fit needs bounds="),
    "a name that is not there": ({"bounds": {"age": (0, 1), "sex": (0, 1)}}, "X has no column 'sex'"),
    "a pair turned round": ({"bounds": {**BOUNDS, "age": (9, 2)}}, "bounds of 'age' must be a pair"),
    "records": ({"records": 1000.0}, "records is a whole number, at least 1"),
    "too many records": ({"records": 10**10}, "from 1 to 1,000,000,000"),
    "method": ({"method": "newton"}, "method is one of auto, objective, one_shot, gradients"),
    "steps": ({"method": "gradients", "steps": 1.5}, "steps is a whole number, at least 1"),
    "too many steps": ({"method": "gradients", "steps": 1001}, "from 1 to 1,000"),
    "regularisation": ({"regularisation": "l2"}, "regularisation must be a finite number greater than 0"),
    "no regularisation": ({"regularisation": 0}, "regularisation must be a finite number greater than 0"),
    "norm": ({"norm": "1"}, "norm must be a finite number greater than 0"),
    "long norm": ({"norm": 1.5}, "at most the root of their number"),
    "prior": ({"prior_deviation": None}, "prior_deviation must be a finite number greater than 0"),
    "draws": ({"draws": 1}, "draws is a whole number, at least 2"),
    "no law": ({"covariates": "sphere"}, "a law of covariates is one of those"),
    "a law of another size": (
        {"covariates": dc.research.UniformSphere(3, 1.0, 1.0)},
        "has 4 coordinates, the design 3",
    ),
    "a law of another constant": ({"covariates": dc.research.UniformBox(2, 0.5)}, "constant feature is 1.0"),
    "public records": ({"public_records": ([[1, 2]], [1])}, "public records are PublicRecords"),
    "public records of another size": (
        {"public_records": dc.designs.PublicRecords([[1.0]], [1])},
        "design's 2 features",
    ),
    "delta": (
        {"guarantee": promise(1, delta="0.1"), "covariates": dc.research.UniformBox(2, 1.0)},
        "need a guarantee with delta 0",
    ),
    "delta of gradients": ({"method": "one_shot", "guarantee": promise(1, delta="0.1")}, "keeps a pure guarantee"),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_declared_wrongly_costs_nothing(asked: str) -> None:
    account, (options, words) = opened(), ASKED[asked]
    with pytest.raises(dc.InputError, match=words):
        estimator(account, **options).fit(*patients())
    assert not account.charges()


@pytest.mark.parametrize(
    "ask", ["predict", "predict_proba", "predict_interval", "decision_function", "sample_posterior"]
)
def test_nothing_is_said_before_the_fit(ask: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(estimator(), ask)(5 if ask == "sample_posterior" else patients(3)[0])


def test_a_posterior_has_draws() -> None:
    with pytest.raises(dc.InputError, match="draws is a whole number, at least 1"):
        read().sample_posterior(0)
