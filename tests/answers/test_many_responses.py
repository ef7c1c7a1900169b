"""Posteriors and estimators of counts and of more than two classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import discreet as dc
from design_cases import numeric, promise
from discreet.designs.mechanisms.objective_perturbation import minimiser
from discreet.designs.readers.many_classes import centred
from discreet.estimators.logistic_regression import PrivateLogisticRegression
from discreet.estimators.poisson_regression import PrivatePoissonRegression
from discreet.posterior.read import quick_estimate
from folding import every

RNG = np.random.default_rng
THREE = dc.Variable("class", ("a", "b", "c"))
VISITS = dc.Variable("visits", bounds=(0, 20))


def truth_of(kind: str, features: int, seed: int) -> np.ndarray:
    outputs = 3 if kind == "three" else 1
    found = RNG(seed).normal(size=(outputs, features + 1)) * (1.2 if outputs > 1 else 0.7)
    return centred(found.ravel(), outputs)


def drawn(
    kind: str, truth: np.ndarray, records: int, seed: int, **options: Any
) -> tuple[dc.designs.Design, dc.designs.Rows]:
    """Correlated features, and targets of the model."""
    rng, outputs = RNG(seed), 3 if kind == "three" else 1
    features = truth.size // outputs - 1
    Z = rng.standard_normal((records, features))
    for at in range(1, features):
        Z[:, at] = 0.5 * Z[:, at - 1] + np.sqrt(0.75) * Z[:, at]
    X = np.clip(Z / 2.5, -1, 1)
    design = dc.designs.Design(
        tuple(numeric(f"x{at}") for at in range(features)),
        THREE if kind == "three" else VISITS,
        counted=kind == "counts",
        **options,
    )
    v = np.column_stack([X, np.ones(records)])
    a = v @ truth.reshape(outputs, -1).T
    if kind == "counts":
        return design, dc.designs.read_rows(design, X, rng.poisson(np.exp(a[:, 0])))
    shares = np.exp(a) / np.exp(a).sum(axis=1, keepdims=True)
    states = np.array(THREE.states)[(rng.random(records)[:, None] > shares.cumsum(axis=1)[:, :-1]).sum(axis=1)]
    return design, dc.designs.read_rows(design, X, states)


def released(rows: dc.designs.Rows, epsilon: object, seed: int, delta: object = 0, **options: Any) -> dc.Release:
    mechanism = dc.designs.objective_perturbation(records=rows.records, **options)
    prior = dc.designs.Normal(rows.design, 1.0)
    return dc.simulate(mechanism, dc.designs.sum_gradients(rows), prior, promise(epsilon, delta=delta), rng=RNG(seed))


@every("kind", ["three", "counts"])
@every("delta", [0, "1e-6"])
def test_without_noise_intervals_are_the_usual_ones(kind: str, delta: object) -> None:
    """Most likely weights, and the inverse of Fisher's information about them."""
    design, rows = drawn(kind, truth_of(kind, 3, 1), 8000, 2)
    release = released(rows, 300, 3, delta)
    statistic = dc.designs.sum_gradients(rows)
    exact = centred(minimiser(statistic, np.zeros(design.weights), 1e-6, 1e-9), design.outputs)
    information = statistic.expansion(exact)[2] * (20 if kind == "counts" else 1)
    deviation = np.sqrt(np.diag(np.linalg.pinv(information, rcond=1e-9)))
    assert np.all(np.abs(quick_estimate(release) - exact) < 0.35 * deviation)
    found = dc.read(release, draws=4000, rng=RNG(4)).weights
    assert np.all(np.abs(found.mean(axis=0) - exact) < 0.35 * deviation)
    assert np.allclose(found.std(axis=0), deviation, rtol=0.12)
    assert np.allclose(found.reshape(4000, design.outputs, -1).sum(axis=1), 0, atol=1e-9) or kind == "counts"


def test_intervals_of_classes_hold_the_truth_where_noise_is_most_of_them() -> None:
    """Of 20 data sets 10 or more have less than four fifths held with a probability below 2e-8; see below."""
    assert few_held("three", 0.1, 20) < 10


@pytest.mark.costly("Intervals of counts and classes that are somewhat too narrow show in many data sets.")
@every("kind", ["three", "counts"])
@every("epsilon", [0.1, 2])
def test_intervals_hold_the_truth(kind: str, epsilon: float) -> None:
    """95 % intervals of 40 or 80 data sets, each with a truth of its own.

    Weights of one release lie together: a data set is one draw, of which 13 or more of 40, or 18 of 80, have less than
    four fifths held with a probability below 1e-7 if one in twenty does. At epsilon .1 noise is most of their width.
    """
    sets = 80 if kind == "counts" and epsilon < 1 else 40
    assert few_held(kind, epsilon, sets) < {40: 13, 80: 18}[sets]


def few_held(kind: str, epsilon: float, sets: int) -> int:
    """Of how many data sets less than four fifths of the weights are held."""
    few = 0
    for seed in range(sets):
        truth = truth_of(kind, 4, 100 + seed)
        _, rows = drawn(kind, truth, 6000, 200 + seed)
        lower, upper = dc.read(released(rows, epsilon, 300 + seed), draws=500, rng=RNG(seed)).interval(level=0.95)
        few += np.mean((lower <= truth) & (truth <= upper)) < 0.8
    return few


@pytest.mark.costly("Rare classes that are made up show in a posterior of many responses only.")
@every("kind", ["three", "counts"])
def test_what_hardly_occurs_is_not_made_up_where_noise_is_little(kind: str) -> None:
    look_at_what_is_rare(kind, 1)


@pytest.mark.costly("What hardly occurs may be made up under much noise, which takes a dozen data sets to see.")
@every("kind", ["three", "counts"])
@every("epsilon", [0.1, 1])
def test_what_hardly_occurs_is_not_made_up(kind: str, epsilon: float) -> None:
    look_at_what_is_rare(kind, epsilon)


def look_at_what_is_rare(kind: str, epsilon: float) -> None:
    """A class of a three-hundredth or counts of a fifty-fifth: of 12 data sets fewer than 6 miss it.

    Six miss with chance 1e-5 where intervals hold. Those of counts at epsilon .1 held the mean in 79 of 96 fits with
    other seeds (docs/estimators.md): six of twelve miss with chance .01 then, at seeds that are not these.
    """
    missed = 0
    for seed in range(12):
        rng = RNG(seed)
        X = rng.uniform(-1, 1, (2000, 2))
        if kind == "counts":
            y: np.ndarray = rng.poisson(np.exp(-4), 2000)
            mean = np.exp(-4)
            made = PrivatePoissonRegression(target_bounds=(0, 20), bounds=(-1, 1), epsilon=epsilon, account=opened())
        else:
            logs = np.column_stack([1 + X[:, 0], 1 - X[:, 0], np.full(2000, -4.0)])
            shares = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
            y = (rng.random(2000)[:, None] > shares.cumsum(axis=1)[:, :2]).sum(axis=1)
            mean = np.exp(-4) / (np.exp(-4) + 2 * np.e)
            made = PrivateLogisticRegression(classes=(0, 1, 2), bounds=(-1, 1), epsilon=epsilon, account=opened())
        lower, upper = made.set_params(random_state=seed, records=2000).fit(X, y).predict_interval(np.zeros((1, 2)))
        at = (0, 2) if kind == "three" else (0,)
        missed += not lower[at] <= mean <= upper[at]
        assert upper[at] < (0.6 if kind == "three" else 5)
    assert missed < 6


def test_a_posterior_needs_the_curvature() -> None:
    _, rows = drawn("counts", truth_of("counts", 2, 1), 500, 1)
    release = released(rows, 1, 1, curvature=0)
    with pytest.raises(dc.InputError, match="no curvature"):
        dc.read(release, draws=10, rng=RNG(0))
    design, rows = drawn("three", truth_of("three", 2, 1), 500, 1)
    release = released(rows, 1, 1, curvature=0)
    assert np.allclose(quick_estimate(release).reshape(3, -1).sum(axis=0), 0)
    with pytest.raises(dc.InputError, match="two classes"):
        dc.read(release, draws=10, rng=RNG(0), covariates=dc.research.uniform_law(design))


def test_rows_of_several_classes_name_them() -> None:
    design, rows = drawn("three", truth_of("three", 2, 1), 3000, 1)
    posterior = dc.read(released(rows, 5, 1), draws=100, rng=RNG(0))
    told = posterior.rows(level=0.9)
    assert [(row["class"], row["name"]) for row in told] == [
        (state, name) for state in THREE.states for name in (*design.names, "intercept")
    ]
    slopes, intercepts = posterior.slopes
    assert slopes.shape == (100, 3, 2) and intercepts.shape == (100, 3)
    assert told[3]["mean"] == pytest.approx(slopes[:, 1, 0].mean())


# ----------------------------------------------------------------------------------------------------- estimators


def opened(epsilon: object = 1000) -> dc.results.Account:
    return dc.Ledger("sqlite://").open("here", promise(epsilon, delta="0.1"))


def flowers() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return np.tile(X, (20, 1)), np.tile(y, 20)


BOUNDS = ([4, 2, 1, 0], [8, 4.5, 7, 2.5])


def test_more_than_two_classes_are_learned() -> None:
    X, y = flowers()
    account = opened()
    made = PrivateLogisticRegression(classes=(0, 1, 2), bounds=BOUNDS, epsilon=4, account=account, random_state=0)
    made.fit(X, y)
    assert made.coef_.shape == (3, 4) and made.intercept_.shape == (3,)
    assert np.allclose(made.coef_.sum(axis=0), 0) and np.allclose(made.intercept_.sum(), 0)
    assert (made.predict(X) == y).mean() > 0.9
    shares = made.predict_proba(X)
    assert shares.shape == (len(X), 3) and np.allclose(shares.sum(axis=1), 1)
    assert np.array_equal(made.classes_[shares.argmax(axis=1)], made.predict(X))
    assert made.decision_function(X).shape == (len(X), 3)
    lower, upper = made.predict_interval(X[::100])
    assert lower.shape == (30, 3) and np.all(lower <= upper)
    assert np.mean((lower <= shares[::100]) & (shares[::100] <= upper)) > 0.9
    ends = made.coef_interval()
    assert np.all((ends[0] < made.coef_) & (made.coef_ < ends[1]))
    assert all(part.shape == (3,) for part in made.intercept_interval())
    read = PrivateLogisticRegression.from_release(dc.Release.loads(made.release_.dumps()), classes=(0, 1, 2))
    assert np.array_equal(read.coef_, made.coef_)
    assert np.array_equal(read.predict(X), made.predict(X))
    score = dc.estimators.release_score(made, X, y, guarantee=promise(1), account=account)
    assert score.lower > 0.85
    with pytest.raises(dc.InputError, match="PrivateLogisticRegression reads it"):
        PrivatePoissonRegression.from_release(made.release_)


@every("options", [{"method": "gradients", "records": 100}, {"method": "one_shot", "records": 100}])
def test_gradients_are_of_two_classes(options: dict[str, Any]) -> None:
    X, y = flowers()
    account = opened()
    made = PrivateLogisticRegression(classes=(0, 1, 2), bounds=BOUNDS, epsilon=1, account=account, **options)
    with pytest.raises(dc.InputError, match="two classes"):
        made.fit(X, y)
    assert account.balance().epsilon_spent == 0


def test_a_law_of_features_is_for_two_classes() -> None:
    X, y = flowers()
    account = opened()
    law = dc.research.UniformBox(4, 1.0)
    made = PrivateLogisticRegression(classes=(0, 1, 2), bounds=BOUNDS, epsilon=1, account=account, covariates=law)
    with pytest.raises(dc.InputError, match="two classes"):
        made.fit(X, y)
    assert account.balance().epsilon_spent == 0


def test_many_classes_have_no_curvature() -> None:
    rng = RNG(1)
    X, y = rng.uniform(-1, 1, (500, 20)), rng.integers(0, 6, 500)
    made = PrivateLogisticRegression(classes=range(6), bounds=(-1, 1), epsilon=1, account=opened()).fit(X, y)
    assert made.release_.payload.curvature is None
    with pytest.raises(dc.InputError, match="no curvature"):
        made.coef_interval()
    assert (
        PrivateLogisticRegression(classes=(0, 1), bounds=(-1, 1), epsilon=1, account=opened())
        .fit(X, y > 2)
        .release_.payload.curvature
    )


@pytest.mark.costly("A delta that buys nothing is found by errors of fits on many features.")
def test_a_delta_buys_less_noise_on_many_features() -> None:
    rng = RNG(2)
    X = rng.uniform(-1, 1, (3000, 60))
    y = X[:, 0] + 0.3 * rng.normal(size=3000) > 0
    found = [
        PrivateLogisticRegression(classes=(False, True), bounds=(-1, 1), epsilon=1, delta=delta, account=opened())
        .fit(X, y)
        .release_.payload
        for delta in (0, "1e-6")
    ]
    assert found[1].normal and not found[0].normal
    assert found[1].variance < found[0].variance


def visits(seed: int = 1, records: int = 5000) -> tuple[pd.DataFrame, np.ndarray]:
    rng = RNG(seed)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, records), "sex": rng.choice(["f", "m"], records)})
    return frame, rng.poisson(np.exp(0.03 * (frame.age - 50) + 0.5 * (frame.sex == "m"))).clip(0, 25)


def counter(account: dc.results.Account | None = None, **others: Any) -> PrivatePoissonRegression:
    given = {"bounds": {"age": (20, 80), "sex": ("f", "m")}, "target_bounds": (0, 25), "epsilon": 5}
    return PrivatePoissonRegression(**given | {"account": account or opened(), "random_state": 0} | others)


def test_counts_are_learned() -> None:
    X, y = visits()
    account = opened()
    made = counter(account).fit(X, y)
    assert np.allclose(made.coef_, [0.03, 0.5], atol=[0.008, 0.25])
    assert made.coef_.shape == (2,) and np.isscalar(made.intercept_)
    expected = np.exp(0.03 * (X.age - 50) + 0.5 * (X.sex == "m"))
    assert np.abs(made.predict(X) / expected - 1).mean() < 0.15
    lower, upper = made.predict_interval(X[:500])
    assert np.mean((lower <= expected[:500]) & (expected[:500] <= upper)) > 0.8
    ends = made.coef_interval()
    assert np.all((ends[0] < made.coef_) & (made.coef_ < ends[1]))
    low, high = made.intercept_interval()
    assert low < made.intercept_ < high
    read = PrivatePoissonRegression.from_release(dc.Release.loads(made.release_.dumps()), bounds=made.bounds)
    assert np.array_equal(read.predict(X), made.predict(X))
    assert read.target_bounds == (0, 25)
    with pytest.raises(dc.InputError, match="score is an exact function"):
        made.score(X, y)
    assert counter(scored_records="public").fit(X, y).score(X, y) > 0.2
    score = dc.estimators.release_score(made, X, y, guarantee=promise(1), account=account)
    assert score.metric != "accuracy" and 0 < score.lower < score.upper < 25
    assert made.predict(pd.DataFrame({"age": [1e9], "sex": ["m"]}))[0] <= 25
    with pytest.raises(dc.InputError, match="PrivatePoissonRegression reads it"):
        PrivateLogisticRegression.from_release(made.release_)


def test_counts_of_a_table(tmp_path: Path) -> None:
    X, y = visits()
    X.assign(visits=y, note="not read").to_parquet(tmp_path / "visits.parquet")
    made = counter().fit(str(tmp_path / "*.parquet"), target="visits")
    assert made.release_.over.target.name == "visits"
    assert np.allclose(made.coef_, [0.03, 0.5], atol=[0.008, 0.25])


WRONG: dict[str, tuple[dict[str, Any], Callable[[pd.DataFrame, np.ndarray], Any], str]] = {
    "no bounds of counts": ({"target_bounds": None}, lambda X, y: (X, y), "fit needs target_bounds"),
    "bounds that are none": ({"target_bounds": (1, 5)}, lambda X, y: (X, y), "bounds from 0 to a whole number"),
    "numbers": ({}, lambda X, y: (X, y + 0.5), "no whole number"),
    "an unscaled regularisation": ({"regularisation": 1e-3}, lambda X, y: (X, y), "declare records"),
    "a level": ({"draws": 1}, lambda X, y: (X, y), "draws"),
}


@every("name", WRONG)
def test_what_is_declared_wrongly_costs_nothing(name: str) -> None:
    options, records, message = WRONG[name]
    account = opened()
    with pytest.raises(dc.InputError, match=message):
        counter(account, **options).fit(*records(*visits(records=50)))
    assert account.balance().epsilon_spent == 0


def test_a_clone_counts_as_the_original(tmp_path: Path) -> None:
    X, y = visits(records=300)
    account = dc.Ledger(f"sqlite:///{tmp_path}/budget.db").open("here", promise(10))
    clone(counter(account)).fit(X, y)
    assert account.balance().epsilon_spent == 5
