"""A linear regression read from a network's release: its sums of numbers are the estimator's moments."""

from __future__ import annotations

import pickle

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import discreet as dc
from discreet.queries.number_moments import NumberMoments
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

Linear = dc.estimators.PrivateLinearRegression
Floats = npt.NDArray[np.float64]
AGE = dc.Variable.binned("age", (20, 80), 3)
DOSE = dc.Variable.binned("dose", (0, 10), 3)
SEX = dc.Variable("sex", ("f", "m", "x"))
SCORE = dc.Variable.binned("score", (0, 100), 3)
VARIABLES = (AGE, DOSE, SEX, SCORE)
TOGETHER = dc.Network(VARIABLES, {"age": (), "dose": ("age",), "sex": ("age", "dose"), "score": ("age", "dose", "sex")})


def made_up(records: int, seed: int) -> pd.DataFrame:
    """Records of a line; sex x lies between the others."""
    rng = np.random.default_rng(seed)
    code, age = rng.integers(3, size=records), rng.uniform(20, 80, records)
    dose = np.clip(2 + 0.05 * age + code + rng.normal(size=records), 0, 9.99)
    score = np.clip(20 + 0.3 * age + 2 * dose - 5 * (code == 1) - 2 * (code == 2) + rng.normal(0, 8, records), 0, 99.9)
    return pd.DataFrame({"age": age, "dose": dose, "sex": np.array(SEX.states)[code], "score": score})


def promise(epsilon: object) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


def released(frame: pd.DataFrame, epsilon: object, network: dc.Network = TOGETHER, seed: int = 1) -> dc.Release:
    counts = dc.count(dc.read_records(frame, network.schema), network)
    return dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise(epsilon), rng=seed)


def least_squares(frame: pd.DataFrame) -> Floats:
    """Coefficients and the intercept of the records themselves."""
    rows = [frame.age, frame.dose, frame.sex == "m", frame.sex == "x", np.ones(len(frame))]
    return np.linalg.lstsq(np.column_stack(rows).astype(float), frame.score.to_numpy(), rcond=None)[0]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return made_up(5_000, 0)


@pytest.fixture(scope="module")
def sharp(frame: pd.DataFrame) -> dc.estimators.PrivateLinearRegression:
    return Linear.from_release(released(frame, 1000), target="score", draws=100, random_state=1)


def test_without_noise_coefficients_are_those_of_the_records(frame: pd.DataFrame, sharp: Linear) -> None:
    exact = least_squares(frame)
    assert sharp.coef_[:2] == pytest.approx(exact[:2], rel=0.1) and sharp.coef_[2:] == pytest.approx(
        exact[2:4], abs=0.8
    )
    assert sharp.intercept_ == pytest.approx(exact[4], abs=1)
    assert sharp.feature_names_in_.tolist() == ["age", "dose", "sex"]
    asked = frame[["age", "dose", "sex"]].head()
    rows = np.column_stack([asked.age, asked.dose, asked.sex == "m", asked.sex == "x"]).astype(float)
    assert sharp.predict(asked) == pytest.approx(rows @ sharp.coef_ + sharp.intercept_)
    lower, upper = sharp.predict_interval(asked)
    assert ((lower < sharp.predict(asked)) & (sharp.predict(asked) < upper)).all() and (upper - lower).max() < 4
    # The residual's deviation is 8; its 95 % interval is four times as wide.
    lower, upper = sharp.outcome_interval(asked)
    assert np.mean(upper - lower) == pytest.approx(4 * 8 * 0.98, rel=0.25)


def test_intervals_hold_the_population(sharp: Linear) -> None:
    truth = [0.3, 2, -5, -2]
    lower, upper = sharp.coef_interval(level=0.95)
    assert ((lower < truth) & (truth < upper)).all() and (upper - lower < [0.2, 2, 4, 6]).all()
    rows = sharp.tidy()
    assert [row["name"] for row in rows] == ["age", "dose", "sex=m", "sex=x", "intercept"]
    assert "planned, over a network of 4 variables" in sharp.summary()


@pytest.mark.costly("A score is read from draws of its own.")
def test_copies_and_new_draws_know_the_network(frame: pd.DataFrame, sharp: Linear) -> None:
    copied, asked = pickle.loads(pickle.dumps(sharp)), frame[["age", "dose", "sex"]].head()  # noqa: S301
    assert np.array_equal(copied.predict(asked), sharp.predict(asked)) and copied.tidy() == sharp.tidy()
    assert copied.sample_posterior(50, random_state=2).weights.shape == (50, 5)
    account = dc.Ledger("sqlite://").open("scores", promise(10))
    score = dc.estimators.release_score(
        sharp, frame[["age", "dose", "sex"]], frame.score, guarantee=promise(5), account=account, random_state=1
    )
    assert score.mean == pytest.approx(8 * np.sqrt(2 / np.pi), rel=0.1)


@pytest.mark.costly("A fit and a read release are compared.")
def test_a_new_fit_forgets_the_network(frame: pd.DataFrame) -> None:
    estimator = Linear.from_release(released(frame, 10), target="score", features=["dose", "age"], draws=100)
    assert estimator.feature_names_in_.tolist() == ["dose", "age"]
    account = dc.Ledger("sqlite://").open("fits", promise(10))
    estimator.set_params(account=account, guarantee=promise(5), find_bounds=None)
    estimator.fit(frame[["dose", "age"]], frame.score)
    assert dc.designs.design_of(estimator.release_).names == ("dose", "age")
    assert estimator.predict(frame[["dose", "age"]].head()).shape == (5,)


@pytest.mark.costly("Each release that lacks something is made and read.")
def test_what_is_missing_is_named(frame: pd.DataFrame) -> None:
    chain = dc.Network(VARIABLES, {"age": (), "dose": ("age",), "sex": (), "score": ("dose",)})
    release = released(frame, 10, chain)
    with pytest.raises(
        dc.InputError, match=r"how these go together: age and sex, age and score, dose and sex, sex and"
    ):
        Linear.from_release(release, target="score", draws=50)
    assert Linear.from_release(release, target="score", features=["dose"], draws=100).coef_.shape == (1,)
    counts = dc.count(dc.read_records(frame, TOGETHER.schema), TOGETHER)
    tables = dc.simulate(dc.planned(numbers_share=0), counts, dc.Dirichlet.uniform(TOGETHER), promise(1), rng=1)
    with pytest.raises(dc.InputError, match="holds no sums of all of 'score', 'age', 'dose'; `regress` reads bins"):
        Linear.from_release(tables, target="score", draws=50)
    for wrong in ({}, {"target": "sex"}):
        with pytest.raises(dc.InputError, match="needs target=, the name of the numeric variable"):
            Linear.from_release(release, draws=50, **wrong)
    with pytest.raises(dc.InputError, match="no variable 'nix'"):
        Linear.from_release(release, target="score", features=["nix"])
    with pytest.raises(dc.InputError, match="ask `regress`"):
        dc.estimators.PrivateLogisticRegression.from_release(release)


def test_the_estimate_is_steady_where_draws_are_not() -> None:
    """Draws of a covariance near 0 make slopes without a mean; with none of their spread it is least squares."""
    rng = np.random.default_rng(0)
    means, exact = np.array([1.0, 2.0, 3.0]), np.array([[1.0, 0.5, 1.0], [0.5, 1.0, 0.8], [1.0, 0.8, 4.0]])
    fixed = NumberMoments(np.tile(means, (5, 1)), np.tile(exact, (5, 1, 1)))
    slopes = np.linalg.solve(exact[:2, :2], exact[:2, 2])
    expected = [*slopes, 3 - slopes @ means[:2]]
    assert fixed.estimate() == pytest.approx(expected)
    assert fixed.coefficients == pytest.approx(np.tile(expected, (5, 1)))
    assert fixed.residual_variance == pytest.approx(4 - slopes @ exact[:2, 2])
    noise = rng.normal(0, 0.35, (400, 3, 3))
    noisy = NumberMoments(np.tile(means, (400, 1)), exact + (noise + noise.swapaxes(1, 2)) / 2)
    assert np.abs(np.nanmean(noisy.coefficients, axis=0)[:2] - slopes).max() > 0.3
    estimate = noisy.estimate()[:2]
    assert np.abs(estimate - slopes).max() < 0.2
    assert np.linalg.norm(estimate) < np.linalg.norm(slopes)  # the ridge is that of the noise
    opened = NumberMoments(np.tile(means, (4, 1)), np.tile(-exact, (4, 1, 1)))
    with pytest.raises(dc.InputError, match="an estimate, but no intervals"):
        opened.identified()


def test_weights_of_coefficients_are_the_inverse_of_slopes() -> None:
    design = dc.designs.Design(
        (dc.Variable("age", bounds=(20, 80)), dc.Variable("sex=m", bounds=(0, 1))), dc.Variable("y", bounds=(-5, 95))
    )
    coefficients = np.array([[0.5, -3.0, 20.0], [0.0, 1.0, -7.0]])
    slopes, intercepts = design.slopes(design.weights_of(coefficients))
    assert np.column_stack([slopes, intercepts]) == pytest.approx(coefficients)


@pytest.mark.costly("A ratio of errors needs several releases.")
def test_it_is_as_accurate_as_a_release_of_its_own_at_the_same_share() -> None:
    """Median error at most 1.5 times that of the estimator with the epsilon of the sums, .14 of the release's."""
    errors = []
    for seed in range(8):
        frame = made_up(10_000, 100 + seed)
        exact, asked = least_squares(frame), frame[["age", "dose", "sex"]]
        rows = np.column_stack([asked.age, asked.dose, asked.sex == "m", asked.sex == "x", np.ones(len(asked))])
        read = Linear.from_release(released(frame, 2, seed=seed), target="score", draws=200, random_state=1)
        account = dc.Ledger("sqlite://").open("fits", promise(1))
        bounds = {"age": (20, 80), "dose": (0, 10), "sex": SEX.states}
        own = Linear(
            bounds=bounds, target_bounds=(0, 100), guarantee=promise("0.276"), account=account, find_bounds=None
        )
        own.fit(asked, frame.score)
        apart = [np.append(one.coef_, one.intercept_) - exact for one in (read, own)]
        errors.append([np.sqrt(np.mean((rows.astype(float) @ gap) ** 2)) for gap in apart])
    ours, theirs = np.median(errors, axis=0)
    assert ours <= 1.5 * theirs
