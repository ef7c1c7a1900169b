"""Mechanisms over a design: what they refuse before anything is charged, and the order of charge and draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dc
from design_cases import CLASSES, NUMBER, answers, design, promise, rows_of
from discreet.errors import DiscreetError
from discreet.mechanisms import objective_perturbation as perturbation
from discreet.mechanisms.noise import ExactNoise
from folding import every

LINEAR, LOGISTIC, PLANE = design(2, NUMBER), design(2, CLASSES), design(2, intercept=False)
AXES = dc.DirectionFactor([[0.9, 0.0], [0.0, 0.9]], noise_variance=0.2, tau=2.0)
RNG = np.random.default_rng


def numbers(records: int = 30, over: dc.Design = LINEAR) -> dc.Moments:
    rng = RNG(1)
    return dc.moments(
        dc.grid_rows(over, rng.uniform(-1, 1, (records, len(over.features))), rng.uniform(-3, 7, records))
    )


def classes(records: int = 30, over: dc.Design = LOGISTIC) -> dc.Gradients:
    rng = RNG(1)
    features = rng.uniform(-1, 1, (records, len(over.features)))
    return dc.gradients(dc.grid_rows(over, features, rng.choice(CLASSES.states, records)))


def points(records: int = 30) -> dc.Rows:
    return rows_of(PLANE, RNG(1).uniform(-1, 1, (records, 2)))


CASES: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "noisy_moments": (dc.noisy_moments, numbers),
    "noisy_gradients": (lambda: dc.noisy_gradients(2, records=30), classes),
    "objective_perturbation": (lambda: dc.objective_perturbation(records=30), classes),
    "truncated_posterior": (lambda: dc.truncated_posterior(2, variance=0.1), numbers),
    "factored": (lambda: dc.factored(AXES), points),
}


@pytest.fixture
def account(tmp_path: Path) -> Callable[[str], dc.Account]:
    def opened(relation: str = "add-remove") -> dc.Account:
        return dc.Ledger(f"sqlite:///{tmp_path / relation}.db").open(relation, promise(1000, relation))

    return opened


# ------------------------------------------------------------------------------------------------ charge, then draw


@pytest.mark.parametrize("relation", dc.Relation)
@pytest.mark.parametrize("name", CASES)
def test_a_release_is_charged_once_and_says_what_it_is(name: str, relation: dc.Relation, account: Any) -> None:
    make, statistic = CASES[name]
    payer, prior, private = account(relation), dc.Normal(statistic().over, 2.0), statistic()
    found = dc.release(make(), private, prior, promise("0.75", relation), account=payer)
    (charge,) = payer.charges()
    assert (charge.release, charge.mechanism, charge.guarantee.epsilon) == (found.id, name, Fraction(3, 4))
    assert found.private is True
    assert found.mechanism == name
    assert found.records == (30 if relation is dc.Relation.REPLACE else None)
    assert found.prior == prior
    assert found.calibration.total <= Fraction(3, 4)
    assert dc.Release.loads(found.dumps()).dumps() == found.dumps()
    assert (found.policy.missing, found.policy.out_of_bounds) == ("error", "clip")


@pytest.mark.parametrize("name", CASES)
def test_the_charge_is_written_before_anything_is_drawn(name: str, account: Any, monkeypatch: Any) -> None:
    """Noise that dies: the budget is lost, and nothing was published."""
    make, statistic = CASES[name]
    payer, asked = account(), []

    def dies(*_: Any, **__: Any) -> Any:
        asked.append(len(payer.charges()))
        raise RuntimeError("died")

    for draw in ("k_norm", "discrete_laplace", "noisy_max", "uniforms"):
        monkeypatch.setattr(ExactNoise, draw, dies)
    private = statistic()
    with pytest.raises(RuntimeError, match="died"):
        dc.release(make(), private, dc.Normal(private.over, 1.0), promise(1), account=payer)
    assert asked == [1]
    assert len(payer.charges()) == 1


@pytest.mark.parametrize("name", CASES)
def test_an_account_that_cannot_pay_draws_nothing(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    make, statistic = CASES[name]
    payer = dc.Ledger(f"sqlite:///{tmp_path / 'l.db'}").open("a", promise("0.5"))
    for draw in ("k_norm", "discrete_laplace", "noisy_max", "uniforms"):
        monkeypatch.setattr(ExactNoise, draw, lambda *_: pytest.fail("drawn"))
    private = statistic()
    with pytest.raises(dc.BudgetError):
        dc.release(make(), private, dc.Normal(private.over, 1.0), promise(1), account=payer)
    assert payer.charges() == ()


@every("relation", dc.Relation)
@every("name", CASES)
def test_a_simulation_repeats_itself_and_no_other(name: str, relation: dc.Relation) -> None:
    make, statistic = CASES[name]
    private = statistic()
    prior = dc.Normal(private.over, 1.0)
    first, again, other = (dc.simulate(make(), private, prior, promise(1, relation), rng=RNG(s)) for s in (3, 3, 4))
    assert answers(first.payload) == answers(again.payload)
    assert first.id == again.id != other.id
    assert first.private is False
    if name != "factored":
        assert answers(first.payload) != answers(other.payload)


# --------------------------------------------------------------------------------------- refused before it is charged


REFUSED: dict[str, tuple[Callable[[], Any], Callable[[], Any], dc.Design | None, Any, str]] = {
    **{
        f"{name}, a delta": (make, statistic, None, promise(1, delta="1e-6"), "pure guarantee")
        for name, (make, statistic) in CASES.items()
    },
    **{
        f"{name}, a prior over another design": (make, statistic, design(3, NUMBER), promise(1), "different")
        for name, (make, statistic) in CASES.items()
    },
    "moments, a norm": (
        dc.noisy_moments, lambda: numbers(over=design(2, NUMBER, norm=1.0)), None, promise(1), "no norm",
    ),
    "truncated, no target": (
        lambda: dc.truncated_posterior(variance=1.0), lambda: dc.moments(points()), None, promise(1), "numeric target",
    ),
    "objective, too many records": (
        lambda: dc.objective_perturbation(records=2), lambda: classes(21), None, promise(1), "more than 10 times",
    ),
    "objective, too many weights": (
        lambda: dc.objective_perturbation(records=2), lambda: classes(2, design(100, CLASSES)), None, promise(1),
        "at most 100 weights",
    ),
    "factored, another length": (
        lambda: dc.factored(dc.DirectionFactor(np.eye(3), noise_variance=1.0, tau=1.0)), points, None, promise(1),
        "have 3 numbers",
    ),
    "factored, a target": (
        lambda: dc.factored(AXES), lambda: numbers_rows(LINEAR), None, promise(1), "without target and intercept",
    ),
    "factored, an intercept": (
        lambda: dc.factored(AXES), lambda: rows_of(design(2), [(0, 0)]), None, promise(1), "without target",
    ),
    "factored, codes of other bounds": (
        lambda: dc.factored(dc.CategoricalFactor([[0.5, 0.5], [0.1, 0.9]], floor=0.1)),
        lambda: rows_of(design(1, intercept=False), [(0,)]), None, promise(1), "bounds 0 and 1",
    ),
    "factored, candidates all alike": (
        lambda: dc.factored(dc.CategoricalFactor([[0.5, 0.5], [0.5, 0.5]], floor=0.1)),
        lambda: rows_of(dc.Design((dc.Variable("c", bounds=(0, 1)),), None, None, False), [(0,)]),
        None, promise(1), "nothing to choose",
    ),
    **{
        f"{name}, epsilon {epsilon} {relation}": (*CASES[name], None, promise(epsilon, relation), "epsilon")
        for name, epsilon in (
            ("noisy_moments", "1e-30"), ("noisy_moments", "1e30"), ("noisy_gradients", "1e-30"),
            ("noisy_gradients", "1e30"), ("factored", "1e30"), ("factored", "1e400"), ("factored", "1e-400"),
            ("truncated_posterior", "1e-400"),
        )
        for relation in dc.Relation
    },
}  # fmt: skip


def numbers_rows(over: dc.Design) -> dc.Rows:
    return rows_of(over, [(0, 0, 1)])


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_is_charged(name: str, account: Any) -> None:
    make, statistic, over, guarantee, message = REFUSED[name]
    payer, private = account(guarantee.relation), statistic()
    prior = dc.Normal(over or private.over, 1.0)
    with pytest.raises(dc.InputError, match=message):
        dc.release(make(), private, prior, guarantee, account=payer)
    assert payer.charges() == ()
    with pytest.raises(dc.InputError, match=message):
        dc.simulate(make(), private, prior, guarantee, rng=RNG(1))


def test_an_epsilon_beyond_floats_buys_a_posterior_that_is_not_tempered() -> None:
    found = dc.simulate(
        dc.truncated_posterior(variance=0.5), numbers(), dc.Normal(LINEAR, 1.0), promise("1e400"), rng=RNG(1)
    )
    assert found.calibration.temper == 1


@every("epsilon", ["1e-400", "1e-200", "1e400"])
def test_an_objective_with_an_epsilon_beyond_floats_is_refused(epsilon: str) -> None:
    with pytest.raises(dc.InputError, match="epsilon"):
        dc.objective_perturbation(records=3).calibrate(LOGISTIC, dc.Normal(LOGISTIC, 1.0), promise(epsilon, "replace"))


def test_a_minimum_is_found_however_small_epsilon_is() -> None:
    over = design(20, CLASSES)
    for seed in range(40):
        dc.simulate(dc.objective_perturbation(records=1), classes(10, over), dc.Normal(over, 1.0),
                    promise("2e-4", "replace"), rng=RNG(seed))  # fmt: skip


WRONG_STATISTICS = {
    "noisy_moments": (dc.noisy_moments, lambda: numbers_rows(LINEAR)),
    "truncated_posterior": (lambda: dc.truncated_posterior(variance=1.0), lambda: numbers_rows(LINEAR)),
    "noisy_gradients": (lambda: dc.noisy_gradients(1, records=1), lambda: rows_of(LOGISTIC, [(0, 0, "yes")])),
    "objective_perturbation": (
        lambda: dc.objective_perturbation(records=1), lambda: rows_of(LOGISTIC, [(0, 0, "yes")]),
    ),
    "factored": (lambda: dc.factored(AXES), lambda: dc.moments(points())),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_STATISTICS)
def test_a_statistic_of_another_kind_is_refused_and_nothing_is_charged(name: str, account: Any) -> None:
    make, statistic = WRONG_STATISTICS[name]
    payer, private = account(), statistic()
    with pytest.raises(dc.InputError, match="draws from"):
        dc.release(make(), private, dc.Normal(private.over, 1.0), promise(1), account=payer)
    assert payer.charges() == ()


def test_the_largest_number_of_records_that_was_declared_is_taken() -> None:
    found = dc.simulate(
        dc.objective_perturbation(records=2), classes(20), dc.Normal(LOGISTIC, 1.0), promise(1), rng=RNG(1)
    )
    assert np.all(np.isfinite(found.payload.weights))


@every(
    ("make", "message"),
    [
        (lambda: dc.noisy_gradients(0, records=1), "steps from 1"),
        (lambda: dc.noisy_gradients(1001, records=1), "steps from 1"),
        (lambda: dc.noisy_gradients(True, records=1), "steps from 1"),
        (lambda: dc.noisy_gradients(1.5, records=1), "steps from 1"),
        (lambda: dc.noisy_gradients(1, records=0), "public number of records"),
        (lambda: dc.noisy_gradients(1, records=True), "public number of records"),
        (lambda: dc.noisy_gradients(1, records=10**9 + 1), "public number of records"),
        (lambda: dc.noisy_gradients(1, records=2.0), "public number of records"),
        (lambda: dc.objective_perturbation(records=0), "public number of records"),
        (lambda: dc.objective_perturbation(records=1, regularisation=0), "regularisation"),
        (lambda: dc.objective_perturbation(records=1, regularisation=float("nan")), "regularisation"),
        (lambda: dc.objective_perturbation(records=1, regularisation=float("inf")), "regularisation"),
        (lambda: dc.truncated_posterior(0, variance=1.0), "draws"),
        (lambda: dc.truncated_posterior(10_001, variance=1.0), "draws"),
        (lambda: dc.truncated_posterior(True, variance=1.0), "draws"),
        (lambda: dc.truncated_posterior(variance=0.0), "variance and radius"),
        (lambda: dc.truncated_posterior(variance=float("nan")), "variance and radius"),
        (lambda: dc.truncated_posterior(variance=1.0, radius=float("inf")), "variance and radius"),
        (lambda: dc.truncated_posterior(variance=1e-320), "variance and radius"),
        (lambda: dc.truncated_posterior(variance=1.0, radius=1e200), "variance and radius"),
    ],
)
def test_options_that_are_none_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        make()


# ---------------------------------------------------------------------------------------------------------- the parts


@every("deviation", [1e-12, 1e-3, 1e12])
def test_priors_of_any_width_are_sampled_with(deviation: float) -> None:
    mechanism = dc.truncated_posterior(50, variance=0.1, radius=0.5)
    found = dc.simulate(mechanism, numbers(), dc.Normal(LINEAR, deviation), promise(5), rng=RNG(1))
    lengths = np.linalg.norm(found.payload.weights, axis=1)
    assert lengths.max() <= 0.5 + 1e-5
    assert (lengths.max() == 0) == (deviation == 1e-12)


@every("norm", [None, 0.5, 1.0])
@every("intercept", [True, False])
def test_products_come_back_from_centred_sums(norm: float | None, intercept: bool) -> None:
    """The sampler's matrices are the sums over records, in the design's coordinates."""
    from discreet.mechanisms.truncated_posterior import _products

    over = design(3, NUMBER, norm=norm, intercept=intercept)
    rng = RNG(2)
    rows = dc.grid_rows(over, rng.uniform(-1, 1, (40, 3)), rng.uniform(-3, 7, 40))
    products, crossed = _products(dc.moments(rows))
    v, y = rows.coordinates / 4096, rows.target / 4096
    assert np.array_equal(products, v.T @ v)
    assert np.array_equal(crossed, v.T @ y)


def test_a_rule_of_thumb_regularises_and_is_raised_where_epsilon_is_small() -> None:
    over, length = design(2, CLASSES), 3.0

    def convexity(records: int, epsilon: float, **options: Any) -> float:
        mechanism = dc.objective_perturbation(records=records, **options)
        return mechanism.calibrate(over, dc.Normal(over, 1.0), promise(epsilon, "replace")).regularisation

    assert convexity(10**6, 1) == pytest.approx(1e-3 * 10**6 * length)
    assert convexity(1000, 1) == pytest.approx(1e-3 * 1000 * length)
    assert convexity(100, 2) == pytest.approx((25 / 200) ** 2 * 100 * length)
    assert convexity(10, 2) == pytest.approx(1e-1 * 10 * length)
    assert convexity(100, 2, regularisation=0.5) == pytest.approx(0.5 * 100 * length)
    assert convexity(1, 0.1, regularisation=1e-3) == pytest.approx(length / (4 * np.expm1(0.025)))


def test_a_minimum_that_is_not_found_is_an_error_and_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perturbation, "_objective", lambda *_: float("nan"))
    with pytest.raises(DiscreetError, match="was not found"):
        perturbation.minimiser(classes(), np.full(3, 1e3), 1e-3, -1.0)


def test_a_calibration_that_spends_too_much_is_refused_before_the_charge(account: Any) -> None:
    honest = dc.noisy_moments()

    def generous(*what: Any) -> Any:
        return replace(honest.calibrate(*what), reported=Fraction(2))

    payer = account()
    with pytest.raises(dc.InputError, match="more than the guarantee allows"):
        dc.release(replace(honest, calibrate=generous), numbers(), dc.Normal(LINEAR, 1.0), promise(1), account=payer)
    assert payer.charges() == ()


def test_exact_noise_is_added_in_all_shapes() -> None:
    """A ball and a cube from the operating system: within 60 scales, with false alarms below 1e-15."""
    for over in (design(2, CLASSES), design(2, CLASSES, norm=1.0)):
        calibration = dc.noisy_gradients(1, records=1).calibrate(over, dc.Normal(over, 1.0), promise(1, "replace"))
        found = dc.noisy_gradients(1, records=1).draw(
            classes(over=over), dc.Normal(over, 1.0), calibration, ExactNoise()
        )
        true = classes(over=over).signed() / 2 / 4096
        assert np.all(np.abs(found.gradients[0] - true) < 60 * found.scale)
        assert np.any(found.gradients[0] != true)


class Foreign(dc.DirectionFactor):
    """Factors that are no numbers between 0 and 1."""

    def steps(self, rows: Any) -> Any:
        return super().steps(rows) * 1000


def test_a_factor_of_ones_own_is_refused() -> None:
    with pytest.raises(dc.InputError, match="DirectionFactor or a CategoricalFactor"):
        dc.factored(Foreign(AXES.candidates, noise_variance=0.1, tau=2.0))


@every("odd", [{"noise_variance": 5e-309}, {"tau": 1e-310}, {"noise_variance": 1e13}, {"tau": np.nan}])
def test_a_direction_factor_keeps_its_settings_where_nothing_overflows(odd: dict[str, float]) -> None:
    with pytest.raises(dc.InputError, match="noise_variance and tau must lie between"):
        dc.DirectionFactor(AXES.candidates, **{"noise_variance": 0.1, "tau": 2.0, **odd})


@every("value", [1e-12, 1e12])
def test_factors_stay_within_one_step_range_at_the_limits(value: float) -> None:
    rows = np.array([[0.0, 0.0], [1e100, -1e100], [1e-300, 1.0], [-1.0, 1.0]])
    for factor in (
        dc.DirectionFactor([[1e12, 0.0], [0.0, 1e-12]], noise_variance=value, tau=1e-12),
        dc.DirectionFactor([[1e12, 0.0], [0.0, 1e-12]], noise_variance=value, tau=1e12),
    ):
        steps = factor.steps(rows)
        assert steps.min() >= 0
        assert steps.max() <= factor.width(dc.Relation.ADD_REMOVE)


def test_a_vector_that_is_doubled_can_be_drawn_at_the_smallest_epsilon() -> None:
    over = design(5, CLASSES)
    low, high = Fraction(0), Fraction(1)
    for _ in range(80):
        middle = (low + high) / 2
        try:
            dc.noisy_gradients(1, records=10).calibrate(over, dc.Normal(over, 1.0), promise(middle, "replace"))
            high = middle
        except dc.InputError:
            low = middle
    found = dc.simulate(
        dc.noisy_gradients(1, records=10), classes(3, over), dc.Normal(over, 1.0), promise(high, "replace"), rng=RNG(1)
    )
    assert np.all(np.isfinite(found.payload.gradients))


def test_a_step_lies_between_newtons_and_the_longest_that_is_safe() -> None:
    over = design(5, CLASSES)
    made = dc.simulate(
        dc.noisy_gradients(2, records=10), classes(3, over), dc.Normal(over, 1.0), promise(1), rng=RNG(1)
    ).payload
    even = np.array([1 / 3] * 5 + [1.0])
    assert np.allclose(made.points[1], 4 * made.gradients[0] / (10 * np.sqrt(even * 6)))
    assert np.allclose(made.weights - made.points[1], 4 * made.gradients[1] / (10 * np.sqrt(even * 6)))


def test_a_large_epsilon_leaves_noise_to_hide_the_minimiser_with() -> None:
    over = design(50, CLASSES)
    found = dc.objective_perturbation(records=10).calibrate(over, dc.Normal(over, 1.0), promise(900))
    assert found.polish >= 4 * over.size
