"""What regressions release beside weights: the curvature at them, and moments by groups; and how exactly both are."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import discreet as dc
from design_cases import CLASSES, NUMBER, Script, design, promise, rows_of
from discreet.designs.design import GRID_STEPS
from discreet.designs.kinds.noisy_sums import GROUPS, group_positions
from discreet.designs.mechanisms import grouped_moments as groups_module
from discreet.designs.records.gradients import curvature_sensitivity
from discreet.designs.records.moments import moment_sensitivity
from discreet.mechanisms.noise import SimulatedNoise
from folding import every

ADD_REMOVE, REPLACE = dc.tools.RECORD_RELATIONS
CORNERS = [(*u, state) for u in product((-1.0, 0.3, 1.0), repeat=3) for state in ("no", "yes")]


def slopes_of(records: list[Any], *, norm: float | None = None, intercept: bool = True) -> dc.designs.Gradients:
    return dc.designs.sum_gradients(rows_of(design(3, CLASSES, norm=norm, intercept=intercept), records))


# ------------------------------------------------------------------------------------------------------ the curvature


@every("norm", [None, 1.0])
@every("intercept", [True, False])
def test_a_curvature_is_the_sum_of_each_records_own_rounded(norm: float | None, intercept: bool) -> None:
    theta = np.array([1.5, -0.7, 0.2, 0.4])[: 3 + intercept]
    statistic = slopes_of(CORNERS, norm=norm, intercept=intercept)
    v = statistic.rows.coordinates / GRID_STEPS
    q, u = 4 * expit(v @ theta) * expit(-v @ theta), v[:, :3]
    few = [*(u.T if intercept else []), *(2 * u.T**2 - 1)]
    many = [u[:, i] * u[:, j] for i, j in ((0, 1), (0, 2), (1, 2))]
    for told, wanted in zip(statistic.curvature(theta), ([np.ones(len(u))], few, many), strict=True):
        assert np.array_equal(told, np.rint(q * np.array(wanted) * GRID_STEPS).sum(axis=1))


def test_a_record_moves_no_sum_of_a_curvature_by_more_than_it_is_said_to() -> None:
    rng, most = np.random.default_rng(3), 0
    for theta in (np.zeros(4), *(10 ** rng.uniform(-2, 2, (6, 1)) * rng.standard_normal((6, 4)))):
        before = slopes_of(CORNERS[:5]).curvature(theta)
        moved = [
            max(
                int(np.abs(a - b).max())
                for a, b in zip(slopes_of([*CORNERS[:5], one]).curvature(theta), before, strict=True)
            )
            for one in CORNERS
        ]
        most = max(most, *moved)
        assert max(moved) <= curvature_sensitivity(ADD_REMOVE) == GRID_STEPS
    assert most == GRID_STEPS  # at weights 0
    assert curvature_sensitivity(REPLACE) == 2 * GRID_STEPS


@every("relation", dc.tools.RECORD_RELATIONS)
def test_the_curvature_is_of_the_weights_that_are_released_and_paid_for(relation: dc.Relation) -> None:
    """Not of the minimum that was found: it is told with noise of a few steps, and no more of it may leave."""
    mechanism, guarantee = dc.designs.objective_perturbation(records=20), promise(1, relation)
    for records in (CORNERS[:1], CORNERS * 3):
        statistic = slopes_of(records)
        prior = dc.designs.Normal(statistic.over, 1.0)
        calibration = mechanism.calibrate(statistic.over, prior, guarantee)
        script = Script((7, 10**10, 11, 12, 13))
        payload: Any = mechanism.draw(statistic, prior, calibration, script)
        asked = [(values, scale) for kind, values, scale, _ in script.asked if kind == "k_norm"][2:]
        wanted = statistic.curvature(payload.weights)
        assert np.abs(payload.weights).max() > 0.1
        assert all(np.array_equal(values, part) for (values, _), part in zip(asked, wanted, strict=True))
        assert tuple(scale for _, scale in asked) == calibration.measured.scales == payload.curvature.scales
        assert payload.curvature.values.tolist() == [11] + [12] * 6 + [13] * 3
        spent = sum(Fraction(calibration.measured.sensitivity) / Fraction(scale) for _, scale in asked)
        assert spent <= calibration.measured.reported <= Fraction(1, 5)
        assert calibration.measured.sensitivity == curvature_sensitivity(relation)
        alone = dc.designs.objective_perturbation(records=20, curvature=0).calibrate(statistic.over, prior, guarantee)
        assert calibration.scale > alone.scale * 1.2
        assert alone.total <= guarantee.epsilon >= calibration.total > guarantee.epsilon * Fraction(99, 100)


def test_one_feature_has_no_products_and_no_noise_for_them() -> None:
    over = design(1, CLASSES)
    made = dc.simulate(
        dc.designs.objective_perturbation(records=9),
        dc.designs.sum_gradients(rows_of(over, [(0.5, "yes")] * 9)),
        dc.designs.Normal(over, 1.0),
        promise(2),
        rng=np.random.default_rng(1),
    )
    assert made.payload.curvature.scales[2] is None and made.payload.curvature.values.size == 3
    assert dc.Release.loads(made.dumps()).payload.curvature.values.tolist() == made.payload.curvature.values.tolist()


# ------------------------------------------------------------------------------------------------------- how exactly


@every("size", [1e-3, 1.0, 1e3, 1e6])
def test_a_gradient_is_computed_as_exactly_as_the_proof_takes_it_to_be(size: float) -> None:
    """Against 80 bits where the machine has them; weights that cancel in most records are the hard case."""
    rng = np.random.default_rng(5)
    over = design(30, CLASSES)
    theta = np.append(size * np.repeat(rng.standard_normal(15), 2) * np.resize([1.0, -1.0], 30), 0.3)
    features = np.repeat(rng.uniform(-1, 1, (2000, 15)), 2, axis=1) + 2.0**-11 * rng.integers(-1, 2, (2000, 30))
    rows = dc.designs.read_rows(over, np.clip(features, -1, 1), rng.choice(CLASSES.states, 2000))
    statistic = dc.designs.sum_gradients(rows)
    v = (rows.coordinates / GRID_STEPS).astype(np.longdouble)
    a = v @ theta.astype(np.longdouble)
    tail = np.exp(-np.abs(a))
    exact = (v * (np.where(a > 0, 1, tail) / (1 + tail) - rows.target)[:, None]).sum(axis=0)
    bound = 2000 * (40 + 31**2 * np.abs(theta).sum() * 2.0**-40) * 2.0**-53
    off = float(np.abs(statistic.expansion(theta)[1] - exact).max())
    assert off <= bound
    if size == 1e3 and np.finfo(np.longdouble).nmant > 60:
        naive = v.astype(np.float64).T @ (expit(v.astype(np.float64) @ theta) - rows.target)
        assert float(np.abs(naive - exact).max()) > off


def test_hiding_what_a_minimum_is_off_moves_no_weight_that_anybody_reads() -> None:
    """With sums that round it would be .3 on a weight at 30 features and epsilon 10, more than all other noise."""
    for features, epsilon in ((8, 1), (30, 10), (100, 10), (400, 3)):
        over = design(features, CLASSES)
        found = dc.designs.objective_perturbation(records=8000).calibrate(
            over, dc.designs.Normal(over, 1.0), promise(epsilon, "replace")
        )
        assert found.polish_step * found.polish * features < 2e-3


# -------------------------------------------------------------------------------------------------- moments in groups


@every("relation", dc.tools.RECORD_RELATIONS)
@every("intercept", [True, False])
def test_groups_are_of_the_target_of_each_feature_and_of_pairs(relation: dc.Relation, intercept: bool) -> None:
    over, noisy = design(3, NUMBER, intercept=intercept), relation is ADD_REMOVE
    groups = group_positions(over, noisy_total=noisy)
    names = [*over.names, *(["1"] if intercept else []), "y"]
    told = ["n"] * noisy + [f"{names[i]} {names[j]}" for i, j in over.moments]
    by_group = {name: {t for t, g in zip(told, groups, strict=True) if GROUPS[g] == name} for name in GROUPS}
    assert by_group["pairs"] == {"x0 x1", "x0 x2", "x1 x2"}
    assert by_group["target"] == {"y y", *(["n"] if noisy else []), *(["1 y"] if intercept else [])}
    assert by_group["features"] == set(told) - by_group["pairs"] - by_group["target"]


@every("relation", dc.tools.RECORD_RELATIONS)
@every("features", [1, 2, 8, 40])
def test_shares_of_groups_add_up_to_the_budget(relation: dc.Relation, features: int) -> None:
    over = design(features, NUMBER)
    prior, sizes = (
        dc.designs.Normal(over, 1.0),
        np.bincount(group_positions(over, noisy_total=relation is ADD_REMOVE), minlength=3),
    )
    pure = dc.designs.grouped_moments().calibrate(over, prior, promise("0.3", relation))
    spent = sum(Fraction(pure.sensitivity) / Fraction(scale) for scale in pure.scales if scale)
    assert pure.sensitivity == moment_sensitivity(relation) and pure.noise == "cube"
    assert spent <= pure.reported <= Fraction(3, 10) <= spent * Fraction(1001, 1000)
    guarantee = dc.Guarantee(epsilon="0.3", delta="1e-6", relation=relation, unit="record")
    loose = dc.designs.grouped_moments().calibrate(over, prior, guarantee)
    rho = sum(
        Fraction(int(size) * loose.sensitivity**2) / (2 * Fraction(scale) ** 2)
        for size, scale in zip(sizes, loose.scales, strict=True)
        if scale
    )
    whole, _, reported = groups_module.deviation_for(1, guarantee)
    assert loose.reported == reported <= guarantee.epsilon and loose.noise == "discrete_gaussian"
    # The map rounds up, by parts in 2^50.
    assert rho <= loose.rho * (1 + Fraction(1, 10**9)) and float(loose.rho) <= 1 / (2 * whole**2) * (1 + 1e-9)
    assert (pure.scales[2] is None) == (loose.scales[2] is None) == (features == 1)


def test_a_delta_buys_less_noise_on_many_features() -> None:
    over = design(30, NUMBER)
    pure, loose = (
        dc.designs.grouped_moments().calibrate(
            over,
            dc.designs.Normal(over, 1.0),
            dc.Guarantee(epsilon=1, delta=delta, relation="add-remove", unit="record"),
        )
        for delta in ("0", "1e-6")
    )
    size = 435
    assert loose.scales[2] < pure.scales[2] * ((size + 1) * (size + 2) / 3) ** 0.5 / 2


@pytest.mark.parametrize(("delta", "simulations", "off"), [("0", 2000, 0.2), ("1e-6", 600, 0.4)])
def test_noise_has_the_variance_that_a_release_states(delta: str, simulations: int, off: float) -> None:
    """A mean of so many squares is off by that share with a probability below 1e-8; exact Gaussian draws are slow."""
    over = design(3, NUMBER)
    statistic = dc.designs.sum_moments(rows_of(over, [(0.5, -1, 1, 3)] * 40))
    guarantee = dc.Guarantee(epsilon=1, delta=delta, relation="add-remove", unit="record")
    rng, prior = np.random.default_rng(7), dc.designs.Normal(over, 1.0)
    mechanism = dc.designs.grouped_moments()
    calibration, noise = mechanism.calibrate(over, prior, guarantee), SimulatedNoise(rng)
    made = [mechanism.draw(statistic, prior, calibration, noise) for _ in range(simulations)]
    exact = statistic.vector(ADD_REMOVE) / GRID_STEPS**2
    ratio = np.mean([(payload.sums - exact) ** 2 for payload in made], axis=0) / made[0].variances
    assert np.all(np.abs(ratio - 1) < off)
