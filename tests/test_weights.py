"""`read`: one function from any release over a design to draws, their units, and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.designs.design import GRID_STEPS
from discreet.designs.readers import weight_posterior as module
from discreet.designs.readers.laws import uniform_law
from discreet.designs.readers.weight_posterior import WeightPosterior, require_known
from discreet.posterior.joint_draws import Mixing
from discreet.posterior.protocol import require_level, tails
from folding import every

FEATURES = (dc.Variable("age", bounds=(20, 90)), dc.Variable("pressure", bounds=(80, 200)))
LINEAR = dc.designs.Design(FEATURES, dc.Variable("days", bounds=(0, 40)))
LOGISTIC = dc.designs.Design(FEATURES, dc.Variable("class", ("ill", "well")))
PLANE = dc.designs.Design(FEATURES, None, None, False)
BALL = dc.designs.Design(FEATURES, LOGISTIC.target, 0.5)


def promise(relation: str = "add-remove") -> dc.Guarantee:
    return dc.Guarantee(epsilon=5, delta=0, relation=relation, unit="record")


def released(kind: str, relation: str = "add-remove", design: dc.designs.Design | None = None) -> dc.Release:
    """A release of 300 made-up records; its noise has a seed."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(20, 90, 300), rng.uniform(80, 200, 300)])
    days, state = X[:, 0] / 3, np.where(X[:, 0] > 55, "well", "ill")
    mechanism: Any
    statistic: Any
    match kind:
        case "moments":
            over, mechanism = LINEAR, dc.designs.noisy_moments()
            statistic = dc.designs.sum_moments(dc.designs.read_rows(over, X, days))
        case "groups":
            over, mechanism = LINEAR, dc.designs.grouped_moments()
            statistic = dc.designs.sum_moments(dc.designs.read_rows(over, X, days))
        case "draws":
            over, mechanism = LINEAR, dc.research.truncated_posterior(50, variance=0.1)
            statistic = dc.designs.sum_moments(dc.designs.read_rows(over, X, days))
        case "gradients":
            over, mechanism = design or LOGISTIC, dc.research.noisy_gradients(2, records=300)
            statistic = dc.designs.sum_gradients(dc.designs.read_rows(over, X, state))
        case "direction":
            factor = dc.research.DirectionFactor(
                dc.research.spread_candidates(2, 3, (0.3,)), noise_variance=0.1, tau=4.0
            )
            over, mechanism, statistic = PLANE, dc.research.factored(factor), dc.designs.read_rows(PLANE, X)
        case _:
            over = dc.designs.Design((dc.Variable("code", bounds=(0, 1)),), None, None, False)
            mechanism = dc.research.factored(dc.research.CategoricalFactor([[0.9, 0.1], [0.5, 0.5]], floor=0.1))
            statistic = dc.designs.read_rows(over, rng.integers(0, 2, (300, 1)))
    return dc.simulate(mechanism, statistic, dc.designs.Normal(over, 2.0), promise(relation), rng=rng)


def drawn(release: dc.Release, draws: int = 60, seed: int = 1, **others: Any) -> WeightPosterior:
    if isinstance(release.payload, dc.designs.GradientTrace):
        others = {"covariates": dc.research.uniform_law(release.over), **others}
    return dc.read(release, draws=draws, rng=np.random.default_rng(seed), **others)


@every("relation", ["replace", "add-remove"])
@every(
    ("kind", "draws", "size", "method", "mixing"),
    [
        ("moments", 60, 3, "normal", False),
        ("groups", 60, 3, "normal", False),
        ("draws", 60, 3, "stages", False),
        ("direction", 60, 2, "walk", True),
    ],
)
def test_one_function_reads_all(
    kind: str, draws: int, size: int, method: str, mixing: bool, relation: str, coarse: None
) -> None:
    made = released(kind, relation)
    found = drawn(made)
    assert found.weights.shape == (draws, size) and found.method == method and found.design == made.over
    assert (found.mixing is not None) == mixing
    assert (found.variance is None) == (kind == "direction")
    if found.variance is not None:
        assert found.variance.shape == (draws,) and np.all(found.variance > 0)
    assert np.array_equal(drawn(dc.Release.loads(made.dumps())).weights, found.weights)
    assert np.array_equal(found.mean(), found.weights.mean(axis=0))


def test_rows_have_the_units_of_the_columns() -> None:
    found = drawn(released("moments"))
    rows = found.rows(level=0.9)
    assert [row["name"] for row in rows] == ["age", "pressure", "intercept"]
    age, pressure, constant = found.weights.T
    slopes = np.array([age * 20 / 35, pressure * 20 / 60])
    by_hand = [*slopes, 20 + 20 * constant - slopes.T @ [55, 140]]
    for row, values in zip(rows, by_hand, strict=True):
        wanted = [values.mean(), *np.quantile(values, [0.05, 0.95])]
        assert np.allclose([row["mean"], row["lower"], row["upper"]], wanted)
    lower, upper = found.interval(level=0.9)
    assert np.allclose([lower, upper], np.quantile(found.weights, [0.05, 0.95], axis=0))


def test_rows_without_an_intercept() -> None:
    classes = dc.designs.Design(FEATURES, LOGISTIC.target, None, False)
    at = np.random.default_rng(1).normal(size=(100, 2))
    rows = WeightPosterior(classes, at, None, "slices", None).rows(level=0.5)
    assert [row["name"] for row in rows] == ["age", "pressure"]
    assert np.allclose([row["mean"] for row in rows], at.mean(axis=0) / [35, 60])
    plane = WeightPosterior(PLANE, at, None, "walk", None).rows(level=0.5)
    assert np.allclose([row["mean"] for row in plane], at.mean(axis=0) * [35, 60])


@every("mixing", [(1.02, 800.0), (1.0, 300.0)])
def test_chains_that_have_not_met_have_no_intervals(mixing: tuple[float, float]) -> None:
    """R-hat at most 1.01, and 400 independent draws: of slices."""
    at, (ratio, effective) = np.random.default_rng(1).normal(size=(100, 3)), mixing
    read = WeightPosterior(LOGISTIC, at, None, "slices", Mixing(4, 1000, effective, "weight 0", ratio))
    assert np.allclose(read.mean(), at.mean(axis=0))
    for ask in (read.interval, read.rows):
        with pytest.raises(dc.InputError, match=r"no intervals.*have not met.*more epsilon, tighter bounds or fewer"):
            ask(level=0.9)
    met = WeightPosterior(LOGISTIC, at, None, "slices", Mixing(4, 1000, 800.0, "weight 0", 1.0))
    assert len(met.rows(level=0.9)) == 3


def test_tails_by_hand() -> None:
    lower, upper = tails(np.arange(101.0)[:, None] * [1, -1], 0.9)
    assert np.allclose(lower, [5, -95]) and np.allclose(upper, [95, -5])


@every(
    ("level", "draws", "words"),
    [(0, 100, "between 0 and 1"), (1, 100, "between 0 and 1"), (float("nan"), 100, "between 0 and 1"),
     (0.5, 1, "one draw of the weights has no interval"), (0.5, 3, "3 draws cannot tell a level"),
     (0.95, 39, "39 draws cannot tell a level"), (0.99, 199, "it takes about 200")],
)  # fmt: skip
def test_too_few_draws_have_no_interval(level: float, draws: int, words: str) -> None:
    with pytest.raises(dc.InputError, match=words):
        require_level(level, draws)
    with pytest.raises(dc.InputError, match=words):
        tails(np.zeros((draws, 2)), level)


@every(("level", "draws"), [(0.95, 40), (0.5, 4), (0.99, 200), (0.9, 20)])
def test_just_enough_draws(level: float, draws: int) -> None:
    require_level(level, draws)


# ------------------------------------------------------------------------------------------------------- gradients


def told(monkeypatch: pytest.MonkeyPatch, release: dc.Release, **others: Any) -> dict[str, Any]:
    """What the sampler of logistic regressions is told, without running it."""
    asked: list[dict[str, Any]] = []

    def draws(told: Any, law: Any, **options: Any) -> Any:
        asked.append({**vars(told), "law": law, **options})
        return SimpleNamespace(weights=np.zeros((options["draws"], 3)), method="resampling", mixing=None)

    monkeypatch.setattr(module, "logistic_draws", draws)
    drawn(release, **others)
    return asked[0]


def test_the_sampler_is_told_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    made = released("gradients")
    payload: Any = made.payload
    found = told(monkeypatch, made)
    assert np.array_equal(found["points"], payload.points) and np.array_equal(found["gradients"], payload.gradients)
    assert (found["scale"], found["shape"], found["prior_deviation"]) == (payload.scale, "cube", 2.0)
    assert (found["records"], found["count_scale"]) == (payload.total.value, payload.total.scale)
    assert found["law"] == dc.research.UniformBox(2, 1.0) and found["public"] is None


def test_a_public_number_of_records_has_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, released("gradients", "replace"))
    assert (found["records"], found["count_scale"]) == (300, None)


def test_laws_and_public_records_are_passed_in_the_designs_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    law = dc.research.PublicRows(np.array([[0.5, -0.5]]), 1.0)
    known = dc.designs.PublicRecords([[55, 200], [90, 80]], [1, 0])
    found = told(monkeypatch, released("gradients"), covariates=law, public=known)
    assert found["law"] is law
    public = found["public"]
    assert public.points.tolist() == [[0, 1, 1], [1, -1, 1]] and public.labels.tolist() == [1, 0]


def test_a_ball_has_a_sphere_for_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, released("gradients", design=BALL))
    assert found["shape"] == "ball"
    assert found["law"] == uniform_law(BALL) == dc.research.UniformSphere(2, 0.5, BALL.constant)
    assert uniform_law(dc.designs.Design(FEATURES, LOGISTIC.target, 0.5, False)) == dc.research.UniformSphere(
        2, 0.5, None
    )


LAWS: dict[str, tuple[Any, str]] = {
    "no law": (3, "a law of covariates is one of those"),
    "size": (dc.research.UniformBox(3, 1.0), "has 4 coordinates, the design 3"),
    "no constant": (dc.research.UniformBox(3, None), "the law of covariates has another"),
    "constant": (dc.research.UniformSphere(2, 0.5, 1.0), "the law of covariates has another"),
    "constants of points": (dc.research.WeightedPoints([[0, 0, 1], [0, 0, 0.5]], [0.5, 0.5]), "has another"),
}  # fmt: skip


@every("which", LAWS)
def test_a_law_is_of_the_design(which: str) -> None:
    law, words = LAWS[which]
    with pytest.raises(dc.InputError, match=words):
        require_known(BALL, law, None)
    with pytest.raises(dc.InputError, match=words):
        drawn(released("gradients", design=BALL), covariates=law)


@every(
    "law",
    [
        dc.research.UniformSphere(2, 0.5, 0.5 / 2**0.5),
        dc.research.UniformBox(2, BALL.constant + 0.5 / GRID_STEPS),
        dc.research.PublicRows([[0.1, 0.1]], BALL.constant),
        dc.research.WeightedPoints([[0, 0, BALL.constant]], [1.0]),
        dc.research.Histograms((np.array([-1, 1]),) * 2, (np.array([1.0]),) * 2, BALL.constant),
    ],
)
def test_laws_of_all_kinds_are_taken(law: Any) -> None:
    require_known(BALL, law, None)


@every(
    ("features", "labels"),
    [
        ([1.0, 2.0], [0, 1]),
        ([[1.0]], [0, 1]),
        (np.empty((0, 2)), []),
        ([[np.nan]], [0]),
        ([[1.0]], [2]),
        ([[1.0]], [0.7]),
    ],
)
def test_public_records_are_a_table_with_labels(features: Any, labels: Any) -> None:
    with pytest.raises(dc.InputError, match="public records"):
        dc.designs.PublicRecords(features, labels)


@every("known", [([[1, 2]], [1]), dc.designs.PublicRecords([[1.0]], [1])])
def test_public_records_are_of_the_design(known: Any) -> None:
    with pytest.raises(dc.InputError, match="public records"):
        drawn(released("gradients"), public=known)


# -------------------------------------------------------------------------------------------------------- refusals


def test_gradients_need_the_law_of_the_features() -> None:
    with pytest.raises(dc.InputError, match="needs the law of the features"):
        drawn(released("gradients"), covariates=None)


def test_one_feature_within_a_norm_is_at_either_end() -> None:
    law = dc.research.uniform_law(dc.designs.Design(FEATURES[:1], LOGISTIC.target, 0.5))
    assert isinstance(law, dc.research.WeightedPoints)
    assert law.points.tolist() == [[-0.5, 0.5], [0.5, 0.5]]


@every("kind", ["moments", "direction"])
def test_other_releases_have_no_law_of_covariates(kind: str) -> None:
    for others in ({"covariates": dc.research.UniformBox(2, 1.0)}, {"public": dc.designs.PublicRecords([[1, 2]], [1])}):
        with pytest.raises(dc.InputError, match=r"not (covariates|public)"):
            drawn(released(kind), **others)


@every("draws", [0, -1])
def test_a_posterior_has_draws(draws: int) -> None:
    with pytest.raises(dc.InputError, match="at least one draw"):
        drawn(released("moments"), draws=draws)
