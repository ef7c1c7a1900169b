"""Mechanisms over a design: what each refuses before anything is charged, and its parts; the rest is the contract's."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import discreet as dc
from design_cases import CLASSES, NUMBER, design, promise, rows_of
from discreet.designs.mechanisms import objective_perturbation as perturbation
from discreet.designs.records import rows as reading
from discreet.errors import DiscreetError
from discreet.mechanisms.noise import ExactNoise
from folding import every

LINEAR, LOGISTIC, PLANE = design(2, NUMBER), design(2, CLASSES), design(2, intercept=False)
AXES = dc.research.DirectionFactor([[0.9, 0.0], [0.0, 0.9]], noise_variance=0.2, tau=2.0)
RNG = np.random.default_rng


def numbers(records: int = 30, over: dc.designs.Design = LINEAR) -> dc.designs.Moments:
    rng = RNG(1)
    return dc.designs.sum_moments(
        dc.designs.read_rows(over, rng.uniform(-1, 1, (records, len(over.features))), rng.uniform(-3, 7, records))
    )


def classes(records: int = 30, over: dc.designs.Design = LOGISTIC) -> dc.designs.Gradients:
    rng = RNG(1)
    features = rng.uniform(-1, 1, (records, len(over.features)))
    return dc.designs.sum_gradients(dc.designs.read_rows(over, features, rng.choice(CLASSES.states, records)))


def points(records: int = 30) -> dc.designs.Rows:
    return rows_of(PLANE, RNG(1).uniform(-1, 1, (records, 2)))


CASES: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "noisy_moments": (dc.designs.noisy_moments, numbers),
    "grouped_moments": (dc.designs.grouped_moments, numbers),
    "noisy_gradients": (lambda: dc.research.noisy_gradients(2, records=30), classes),
    "objective_perturbation": (lambda: dc.designs.objective_perturbation(records=30), classes),
    "truncated_posterior": (lambda: dc.research.truncated_posterior(2, variance=0.1), numbers),
    "factored": (lambda: dc.research.factored(AXES), points),
}


@pytest.fixture
def account(tmp_path: Path) -> Callable[[str], dc.results.Account]:
    def opened(relation: str = "add-remove") -> dc.results.Account:
        return dc.Ledger(f"sqlite:///{tmp_path / relation}.db").open(relation, promise(1000, relation))

    return opened


# --------------------------------------------------------------------------------------- refused before it is charged


REFUSED: dict[str, tuple[Callable[[], Any], Callable[[], Any], dc.designs.Design | None, Any, str]] = {
    "groups, a norm": (
        dc.designs.grouped_moments,
        lambda: numbers(over=design(2, NUMBER, norm=1.0)),
        None,
        promise(1),
        "no norm",
    ),
    "groups, nothing to predict": (
        dc.designs.grouped_moments,
        lambda: dc.designs.sum_moments(points()),
        None,
        promise(1),
        "numeric target",
    ),
    "moments, a norm": (
        dc.designs.noisy_moments,
        lambda: numbers(over=design(2, NUMBER, norm=1.0)),
        None,
        promise(1),
        "no norm",
    ),
    "truncated, no target": (
        lambda: dc.research.truncated_posterior(variance=1.0),
        lambda: dc.designs.sum_moments(points()),
        None,
        promise(1),
        "numeric target",
    ),
    "objective, too many weights": (
        lambda: dc.designs.objective_perturbation(records=2),
        lambda: classes(2, design(1000, CLASSES)),
        None,
        promise(1),
        "at most 1,000 weights",
    ),
    "factored, another length": (
        lambda: dc.research.factored(dc.research.DirectionFactor(np.eye(3), noise_variance=1.0, tau=1.0)),
        points,
        None,
        promise(1),
        "have 3 numbers",
    ),
    "factored, a target": (
        lambda: dc.research.factored(AXES),
        lambda: numbers_rows(LINEAR),
        None,
        promise(1),
        "without target and intercept",
    ),
    "factored, an intercept": (
        lambda: dc.research.factored(AXES),
        lambda: rows_of(design(2), [(0, 0)]),
        None,
        promise(1),
        "without target",
    ),
    "factored, codes of other bounds": (
        lambda: dc.research.factored(dc.research.CategoricalFactor([[0.5, 0.5], [0.1, 0.9]], floor=0.1)),
        lambda: rows_of(design(1, intercept=False), [(0,)]),
        None,
        promise(1),
        "bounds 0 and 1",
    ),
    "factored, candidates all alike": (
        lambda: dc.research.factored(dc.research.CategoricalFactor([[0.5, 0.5], [0.5, 0.5]], floor=0.1)),
        lambda: rows_of(dc.designs.Design((dc.Variable("c", bounds=(0, 1)),), None, None, False), [(0,)]),
        None,
        promise(1),
        "nothing to choose",
    ),
    **{
        f"{name}, epsilon {epsilon} {relation}": (*CASES[name], None, promise(epsilon, relation), "epsilon")
        for name, epsilon in (
            ("noisy_moments", "1e-30"),
            ("noisy_moments", "1e30"),
            ("grouped_moments", "1e-30"),
            ("grouped_moments", "1e30"),
            ("noisy_gradients", "1e-30"),
            ("noisy_gradients", "1e30"),
            ("factored", "1e30"),
            ("factored", "1e400"),
            ("factored", "1e-400"),
            ("truncated_posterior", "1e-400"),
        )
        for relation in dc.tools.RECORD_RELATIONS
    },
}


def numbers_rows(over: dc.designs.Design) -> dc.designs.Rows:
    return rows_of(over, [(0, 0, 1)])


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_is_charged(name: str, account: Any) -> None:
    make, statistic, over, guarantee, message = REFUSED[name]
    payer, private = account(guarantee.relation), statistic()
    prior = dc.designs.Normal(over or private.over, 1.0)
    with pytest.raises(dc.InputError, match=message):
        dc.release(make(), private, prior, guarantee, account=payer)
    assert payer.charges() == ()
    with pytest.raises(dc.InputError, match=message):
        dc.simulate(make(), private, prior, guarantee, rng=RNG(1))


def test_a_weight_that_is_rounded_to_nothing_has_no_sign() -> None:
    """In a ball smaller than half a released step every weight is rounded to 0."""
    mechanism = dc.research.truncated_posterior(50, variance=0.1, radius=1e-7)
    release = dc.simulate(mechanism, numbers(), dc.designs.Normal(LINEAR, 1.0), promise(1), rng=RNG(2))
    assert np.all(release.payload.weights == 0) and not np.any(np.signbit(release.payload.weights))


def test_an_epsilon_beyond_floats_buys_a_posterior_that_is_not_tempered() -> None:
    found = dc.simulate(
        dc.research.truncated_posterior(variance=0.5),
        numbers(),
        dc.designs.Normal(LINEAR, 1.0),
        promise("1e400", "replace"),
        rng=RNG(1),
    )
    assert found.calibration.temper == 1


@every("epsilon", ["1e-400", "1e-200", "1e400"])
def test_an_objective_with_an_epsilon_beyond_floats_is_refused(epsilon: str) -> None:
    with pytest.raises(dc.InputError, match="epsilon"):
        dc.designs.objective_perturbation(records=3).calibrate(
            LOGISTIC, dc.designs.Normal(LOGISTIC, 1.0), promise(epsilon, "replace")
        )


def test_a_minimum_is_found_however_small_epsilon_is() -> None:
    over = design(20, CLASSES)
    for seed in range(40):
        dc.simulate(
            dc.designs.objective_perturbation(records=1),
            classes(10, over),
            dc.designs.Normal(over, 1.0),
            promise("4e-4", "replace"),
            rng=RNG(seed),
        )


def test_the_largest_number_of_records_that_was_declared_is_taken() -> None:
    found = dc.simulate(
        dc.designs.objective_perturbation(records=2),
        classes(20),
        dc.designs.Normal(LOGISTIC, 1.0),
        promise(1),
        rng=RNG(1),
    )
    assert np.all(np.isfinite(found.payload.weights))


@every(
    ("make", "message"),
    [
        (lambda: dc.research.noisy_gradients(0, records=1), "steps from 1"),
        (lambda: dc.research.noisy_gradients(1001, records=1), "steps from 1"),
        (lambda: dc.research.noisy_gradients(True, records=1), "steps from 1"),
        (lambda: dc.research.noisy_gradients(1.5, records=1), "steps from 1"),
        (lambda: dc.research.noisy_gradients(1, records=0), "public number of records"),
        (lambda: dc.research.noisy_gradients(1, records=True), "public number of records"),
        (lambda: dc.research.noisy_gradients(1, records=10**9 + 1), "public number of records"),
        (lambda: dc.research.noisy_gradients(1, records=2.0), "public number of records"),
        (lambda: dc.designs.objective_perturbation(records=0), "public number of records"),
        (lambda: dc.designs.objective_perturbation(records=1, regularisation=0), "regularisation"),
        (lambda: dc.designs.objective_perturbation(records=1, curvature=2), "curvature is 1"),
        (lambda: dc.designs.objective_perturbation(records=1, regularisation=float("nan")), "regularisation"),
        (lambda: dc.designs.objective_perturbation(records=1, regularisation=float("inf")), "regularisation"),
        (lambda: dc.research.truncated_posterior(0, variance=1.0), "draws"),
        (lambda: dc.research.truncated_posterior(10_001, variance=1.0), "draws"),
        (lambda: dc.research.truncated_posterior(True, variance=1.0), "draws"),
        (lambda: dc.research.truncated_posterior(variance=0.0), "variance and radius"),
        (lambda: dc.research.truncated_posterior(variance=float("nan")), "variance and radius"),
        (lambda: dc.research.truncated_posterior(variance=1.0, radius=float("inf")), "variance and radius"),
        (lambda: dc.research.truncated_posterior(variance=1e-320), "variance and radius"),
        (lambda: dc.research.truncated_posterior(variance=1.0, radius=1e200), "variance and radius"),
    ],
)
def test_options_that_are_none_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        make()


# ---------------------------------------------------------------------------------------------------------- the parts


@every("deviation", [1e-12, 1e-3, 1e12])
def test_priors_of_any_width_are_sampled_with(deviation: float) -> None:
    mechanism = dc.research.truncated_posterior(50, variance=0.1, radius=0.5)
    found = dc.simulate(mechanism, numbers(), dc.designs.Normal(LINEAR, deviation), promise(5), rng=RNG(1))
    lengths = np.linalg.norm(found.payload.weights, axis=1)
    assert lengths.max() <= 0.5 + 1e-5
    assert (lengths.max() == 0) == (deviation == 1e-12)


@every("norm", [None, 0.5, 1.0])
@every("intercept", [True, False])
def test_products_come_back_from_centred_sums(norm: float | None, intercept: bool) -> None:
    """The sampler's matrices are the sums over records, in the design's coordinates."""
    from discreet.research.mechanisms.truncated_posterior import _recover_products

    over = design(3, NUMBER, norm=norm, intercept=intercept)
    rng = RNG(2)
    rows = dc.designs.read_rows(over, rng.uniform(-1, 1, (40, 3)), rng.uniform(-3, 7, 40))
    products, crossed = _recover_products(dc.designs.sum_moments(rows))
    v, y = rows.coordinates / 4096, rows.target / 4096
    assert np.array_equal(products, v.T @ v)
    assert np.array_equal(crossed, v.T @ y)


def test_the_rule_regularises_by_the_noise_and_is_raised_where_epsilon_is_small() -> None:
    """The noise's deviation over 2 over the longest record: nothing is shrunk where records or epsilon are many."""
    length = 3.0

    def convexity(records: int, epsilon: float, norm: float | None = None, **options: Any) -> float:
        over = design(2, CLASSES, norm=norm)
        mechanism = dc.designs.objective_perturbation(records=records, curvature=0, **options)
        return mechanism.calibrate(over, dc.designs.Normal(over, 1.0), promise(epsilon, "replace")).regularisation

    for epsilon in (10, 30):
        # Cube noise in three dimensions: a radius of four gamma variates, of which a coordinate is a uniform part.
        assert convexity(1000, epsilon) == pytest.approx(2 / (0.99 * epsilon) * (20 / 3) ** 0.5 * 3**0.5 / 2, rel=1e-6)
        assert convexity(10**6, epsilon) == convexity(1000, epsilon)
    assert convexity(100, 20, norm=1.0) == pytest.approx(2 * 1.5**0.5 / (0.99 * 20) * 2 * 1.5**0.5 / 2, rel=1e-3)
    assert convexity(100, 2, regularisation=0.5) == pytest.approx(0.5 * 100 * length)
    assert convexity(1, 0.1, regularisation=1e-3) == pytest.approx(length / (4 * np.expm1(0.025)))


def test_a_minimum_that_is_not_found_is_an_error_and_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perturbation, "_expand", lambda *_: (float("nan"), np.ones(3), np.eye(3)))
    with pytest.raises(DiscreetError, match="was not found"):
        perturbation.minimiser(classes(), np.full(3, 1e3), 1e-3, -1.0)


def test_a_minimum_is_found_where_floats_are_too_coarse_for_its_weights() -> None:
    """Features a step of the grid apart and weights of thousands: one step of a float moves the gradient too far."""
    rng, n = np.random.default_rng(1), 200_000
    near = np.rint(rng.choice([-0.95, 0.95], n) * 4096)
    X = np.column_stack([near, near + rng.integers(-1, 2, n)]) / 4096
    y = np.where(rng.random(n) < expit(8192 * (X[:, 1] - X[:, 0])), "yes", "no")
    over = design(2, CLASSES, intercept=False)
    private = dc.designs.sum_gradients(dc.designs.read_rows(over, X, y))
    made = dc.simulate(
        dc.designs.objective_perturbation(records=n // 10),
        private,
        dc.designs.Normal(over, 1.0),
        promise(1000, "replace"),
        rng=rng,
    )
    assert np.abs(made.payload.weights).min() > 1000


@pytest.mark.parametrize("order", ["as they come", "one class first"])
def test_a_search_that_begins_at_some_records_ends_at_the_same_minimum(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the first block misleads, the search begins at 0."""
    rng, n = np.random.default_rng(4), 3000
    X = rng.uniform(-1, 1, (n, 3))
    y = (X @ [4.0, -2.0, 1.0] + rng.logistic(size=n) > 0).astype(int)
    at = np.argsort(y, kind="stable") if order == "one class first" else np.arange(n)
    over = design(3, CLASSES)
    private = dc.designs.sum_gradients(dc.designs.read_rows(over, X[at], np.array(CLASSES.states)[y[at]]))
    tilt = rng.normal(size=4)
    plain = perturbation.minimiser(private, tilt, 2.0, 1e-8)
    monkeypatch.setattr(reading, "BLOCK", 500)
    monkeypatch.setattr(perturbation, "WARM_START_RECORDS", 1000)
    passes = []
    whole = dc.designs.Gradients.expansion
    monkeypatch.setattr(
        dc.designs.Gradients, "expansion", lambda self, *at: (passes.append(self.records), whole(self, *at))[1]
    )
    found = perturbation.minimiser(private, tilt, 2.0, 1e-8)
    assert np.linalg.norm(found - plain) <= 2 * 1e-8 / 2.0
    assert 500 in passes and (order != "as they come" or passes.count(n) < passes.count(500))


def test_exact_noise_is_added_in_all_shapes() -> None:
    """A ball and a cube from the operating system: within 60 scales, with false alarms below 1e-15."""
    for over in (design(2, CLASSES), design(2, CLASSES, norm=1.0)):
        calibration = dc.research.noisy_gradients(1, records=1).calibrate(
            over, dc.designs.Normal(over, 1.0), promise(1, "replace")
        )
        found = dc.research.noisy_gradients(1, records=1).draw(
            classes(over=over), dc.designs.Normal(over, 1.0), calibration, ExactNoise()
        )
        true = classes(over=over).signed() / 2 / 4096
        assert np.all(np.abs(found.gradients[0] - true) < 60 * found.scale)
        assert np.any(found.gradients[0] != true)


class Foreign(dc.research.DirectionFactor):
    """Factors that are no numbers between 0 and 1."""

    def steps(self, rows: Any) -> Any:
        return super().steps(rows) * 1000


def test_a_factor_that_is_made_to_look_known_is_refused() -> None:
    with pytest.raises(dc.InputError, match="DirectionFactor, a CategoricalFactor"):
        dc.research.factored(Foreign(AXES.candidates, noise_variance=0.1, tau=2.0))


@every("odd", [{"noise_variance": 5e-309}, {"tau": 1e-310}, {"noise_variance": 1e13}, {"tau": np.nan}])
def test_a_direction_factor_keeps_its_settings_where_nothing_overflows(odd: dict[str, float]) -> None:
    with pytest.raises(dc.InputError, match="noise_variance and tau must lie between"):
        dc.research.DirectionFactor(AXES.candidates, **{"noise_variance": 0.1, "tau": 2.0, **odd})


@every("value", [1e-12, 1e12])
def test_factors_stay_within_one_step_range_at_the_limits(value: float) -> None:
    # The last one lies along a candidate: what is left of a difference of large numbers may be anything.
    rows = np.array([[0.0, 0.0], [1e100, -1e100], [1e-300, 1.0], [-1.0, 1.0], [1e14, 0.0]])
    for factor in (
        dc.research.DirectionFactor([[1e12, 0.0], [0.0, 1e-12]], noise_variance=value, tau=1e-12),
        dc.research.DirectionFactor([[1e12, 0.0], [0.0, 1e-12]], noise_variance=value, tau=1e12),
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
            dc.research.noisy_gradients(1, records=10).calibrate(
                over, dc.designs.Normal(over, 1.0), promise(middle, "replace")
            )
            high = middle
        except dc.InputError:
            low = middle
    found = dc.simulate(
        dc.research.noisy_gradients(1, records=10),
        classes(3, over),
        dc.designs.Normal(over, 1.0),
        promise(high, "replace"),
        rng=RNG(1),
    )
    assert np.all(np.isfinite(found.payload.gradients))


def test_a_step_lies_between_newtons_and_the_longest_that_is_safe() -> None:
    over = design(5, CLASSES)
    made = dc.simulate(
        dc.research.noisy_gradients(2, records=10),
        classes(3, over),
        dc.designs.Normal(over, 1.0),
        promise(1),
        rng=RNG(1),
    ).payload
    even = np.array([1 / 3] * 5 + [1.0])
    assert np.allclose(made.points[1], 4 * made.gradients[0] / (10 * np.sqrt(even * 6)))
    assert np.allclose(made.weights - made.points[1], 4 * made.gradients[1] / (10 * np.sqrt(even * 6)))


def test_a_large_epsilon_leaves_noise_to_hide_the_minimiser_with() -> None:
    over = design(50, CLASSES)
    found = dc.designs.objective_perturbation(records=10).calibrate(over, dc.designs.Normal(over, 1.0), promise(900))
    assert found.polish >= over.size / 4
