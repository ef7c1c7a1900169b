"""The private principal direction: what is declared, the axis in the columns' order, its posterior, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

import discreet as dc
from discreet.estimators.declared_designs import written_bounds
from discreet.estimators.principal_direction import PrivatePrincipalDirection
from discreet.research.readers.direction import angles

BOUNDS = {"age": (0.0, 100.0), "pressure": (90.0, 190.0)}
pytestmark = pytest.mark.usefixtures("coarse")
AXIS = np.array([2.0, 1.0]) / 5**0.5
"""Of the made-up patients, in scaled coordinates."""


def promise(epsilon: Any = 50, relation: str = "replace", delta: Any = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def opened(relation: str = "replace") -> dc.results.Account:
    return dc.Ledger("sqlite://").open("ward", promise(10**6, relation, "0.5"))


def patients(n: int = 1000, seed: int = 1) -> pd.DataFrame:
    """Patients along an axis through the middle of their bounds."""
    rng = np.random.default_rng(seed)
    scaled = 0.2 * rng.standard_normal((n, 1)) * AXIS + 0.1 * rng.standard_normal((n, 2))
    return pd.DataFrame({"age": 50 + 50 * scaled[:, 0], "pressure": 140 + 50 * scaled[:, 1]})


def estimator(account: dc.results.Account | None = None, **others: Any) -> PrivatePrincipalDirection:
    options: dict[str, Any] = {"bounds": BOUNDS, "guarantee": promise(), "directions": 4, "lengths": (0.2,)}
    return PrivatePrincipalDirection(account=account or opened(), random_state=4, **{"draws": 100, **options, **others})


def simulated(epsilon: float, relation: str, *, directions: int = 12) -> dc.Release:
    """A release whose choice has a seed."""
    design = dc.designs.Design(
        tuple(dc.Variable(name, bounds=pair) for name, pair in BOUNDS.items()), None, None, False
    )
    factor = dc.research.DirectionFactor(
        dc.research.spread_candidates(2, directions, (0.2,)), noise_variance=0.01, tau=4.0
    )
    rows, rng = dc.designs.read_rows(design, patients().to_numpy()), np.random.default_rng(3)
    return dc.simulate(
        dc.research.factored(factor), rows, dc.designs.Normal(design, 0.5), promise(epsilon, relation), rng=rng
    )


@pytest.fixture(scope="module")
def read() -> PrivatePrincipalDirection:
    """A fitted estimator, of a release at epsilon 1."""
    return PrivatePrincipalDirection.from_release(simulated(1, "replace"), draws=200, random_state=4)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_direction_is_found(relation: str) -> None:
    found = PrivatePrincipalDirection.from_release(simulated(1, relation), draws=100, random_state=1)
    assert np.degrees(angles(found.components_, AXIS)[0]) < 20


def test_the_component_is_the_axis_of_the_posterior(read: PrivatePrincipalDirection) -> None:
    drawn = read.posterior_
    assert (drawn.method, drawn.weights.shape, drawn.variance) == ("walk", (200, 2), None)
    assert drawn.mixing is not None
    assert read.components_.shape == (1, 2) and np.isclose(np.linalg.norm(read.components_), 1)
    moments = drawn.weights.T @ drawn.weights
    component = read.components_[0]
    assert np.isclose(component @ moments @ component, np.linalg.eigvalsh(moments)[-1])
    rows = drawn.rows(level=0.9)
    assert [row["name"] for row in rows] == ["age", "pressure"]
    assert np.allclose([row["mean"] for row in rows], 50 * drawn.weights.mean(axis=0))


def test_records_are_scaled_and_projected(read: PrivatePrincipalDirection) -> None:
    X = pd.DataFrame({"age": [50.0, 75.0, 1e9], "pressure": [140.0, 115.0, 140.0]})
    scaled = np.array([[0, 0], [0.5, -0.5], [1, 0]])
    assert np.allclose(read.transform(X), scaled @ read.components_.T)
    assert read.transform(X).shape == (3, 1)
    assert read.get_feature_names_out().tolist() == ["privateprincipaldirection0"]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_columns_are_taken_by_name(kind: Any) -> None:
    X = kind(patients())[["pressure", "age"]]
    # Candidates are 45 degrees apart; at this epsilon one of the two beside the axis is chosen but for 1e-20.
    fitted = estimator().fit(X)
    assert fitted.release_.over.names == ("age", "pressure")
    assert fitted.feature_names_in_.tolist() == ["pressure", "age"]
    scaled = np.column_stack([(X["pressure"].to_numpy() - 140) / 50, (X["age"].to_numpy() - 50) / 50])
    assert np.allclose(fitted.transform(X), scaled @ fitted.components_.T)
    assert np.degrees(angles(fitted.components_[:, ::-1], AXIS)[0]) < 45


def test_a_header_that_was_not_declared_is_not_released() -> None:
    X = patients().rename(columns={"age": "Smith 1931"})
    fitted = estimator(bounds=([0, 90], [100, 190])).fit(X)
    assert "Smith" not in fitted.release_.dumps()
    assert [variable.bounds for variable in fitted.release_.over.features] == list(BOUNDS.values())
    assert written_bounds(fitted.release_.over, None) == ((0, 90), (100, 190))


def test_the_posterior_is_drawn_again_by_seed(read: PrivatePrincipalDirection) -> None:
    assert np.array_equal(read.sample_posterior(200).weights, read.posterior_.weights)
    other = read.sample_posterior(100, random_state=9).weights
    assert other.shape == (100, 2) and not np.array_equal(other, read.posterior_.weights[:100])
    with pytest.raises(dc.InputError, match="draws is a whole number, at least 100"):
        read.sample_posterior(99)


def test_likelihoods_differ(read: PrivatePrincipalDirection) -> None:
    found = {"clt": read.sample_posterior(200).weights}
    for likelihood in ("lower", "upper"):
        made = PrivatePrincipalDirection.from_release(read.release_, likelihood=likelihood, draws=200, random_state=4)
        assert made.likelihood == likelihood
        found[likelihood] = made.posterior_.weights
    assert not np.array_equal(found["lower"], found["upper"])
    assert not np.array_equal(found["lower"], found["clt"])
    with pytest.raises(dc.InputError, match="likelihood is lower, upper or clt"):
        PrivatePrincipalDirection.from_release(read.release_, likelihood="exact", draws=100)  # type: ignore[arg-type]


def test_other_releases_are_refused() -> None:
    design = dc.designs.Design((dc.Variable("code", bounds=(0, 1)),), dc.Variable("y", bounds=(0, 1)), None, False)
    statistic, rng = (
        dc.designs.sum_moments(dc.designs.read_rows(design, [[0.0]] * 9, [1.0] * 9)),
        np.random.default_rng(1),
    )
    made = dc.simulate(dc.designs.noisy_moments(), statistic, dc.designs.Normal(design, 1), promise(), rng=rng)
    with pytest.raises(dc.InputError, match="not of a principal direction"):
        PrivatePrincipalDirection.from_release(made)


def test_a_choice_of_another_kind_is_refused() -> None:
    design = dc.designs.Design((dc.Variable("code", bounds=(0, 1)),), None, None, False)
    factor, rng = dc.research.CategoricalFactor([[0.9, 0.1], [0.5, 0.5]], floor=0.1), np.random.default_rng(1)
    rows = dc.designs.read_rows(design, [[0.0], [1.0]])
    made = dc.simulate(dc.research.factored(factor), rows, dc.designs.Normal(design, 1), promise(1), rng=rng)
    with pytest.raises(dc.InputError):
        PrivatePrincipalDirection.from_release(made)


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "no bounds": ({"bounds": None}, "fit needs bounds="),
    "a name that is not there": ({"bounds": {"age": (0, 1), "sex": (0, 1)}}, "X has no column 'sex'"),
    "a pair turned round": ({"bounds": {**BOUNDS, "age": (9, 2)}}, "bounds of 'age' must be a pair"),
    "likelihood": ({"likelihood": "exact"}, "likelihood is lower, upper or clt"),
    "directions": ({"directions": 1}, "directions is a whole number, at least 2"),
    "too many directions": ({"directions": 1001}, "at most 1,000 candidates"),
    "no lengths": ({"lengths": ()}, "must be a list"),
    "a length": ({"lengths": 0.4}, "lengths must be a list of finite numbers"),
    "lengths in words": ({"lengths": "long"}, "lengths must be a list of finite numbers"),
    "a negative length": ({"lengths": (0.1, -1)}, "each of lengths must be a finite number greater than 0"),
    "noise variance": ({"noise_variance": None}, "noise_variance must be a finite number greater than 0"),
    "tau": ({"tau": float("inf")}, "tau must be a finite number greater than 0"),
    "prior": ({"prior_deviation": 0}, "prior_deviation must be a finite number greater than 0"),
    "draws": ({"draws": 99}, "draws is a whole number, at least 100"),
    "delta": ({"guarantee": promise(1, delta="0.1")}, "factored keeps a pure guarantee"),
    "a large epsilon": ({"guarantee": promise(2000)}, "epsilon is too large"),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_declared_wrongly_costs_nothing(asked: str) -> None:
    account, (options, words) = opened(), ASKED[asked]
    with pytest.raises(dc.InputError, match=words):
        estimator(account, **options).fit(patients())
    assert not account.charges()


def test_one_feature_has_no_direction() -> None:
    account = opened()
    with pytest.raises(dc.InputError, match="a direction needs at least two features"):
        estimator(account, bounds={"age": (0, 100)}).fit(patients()[["age"]])
    assert not account.charges()


@pytest.mark.parametrize("ask", ["transform", "sample_posterior"])
def test_nothing_is_said_before_the_fit(ask: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(estimator(), ask)(100 if ask == "sample_posterior" else patients())
