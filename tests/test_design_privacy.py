"""Every mechanism over a design keeps its promise: on neighbouring records, by what it asks of its source of noise.

A scripted source answers what the test wants and remembers what was asked. K-norm noise on whole vectors has a known
ratio (`test_k_norm.py`), so the loss of a release follows from how far the vectors of neighbours are apart, exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import discreet as dc
from design_cases import CLASSES, NUMBER, SHAPES, Script, answers, design, length, neighbours, promise, rows_of
from discreet.designs.design import GRID_STEPS
from discreet.designs.kinds.gradient_trace import OBJECTIVE_BITS
from discreet.designs.kinds.noisy_sums import group_positions
from discreet.designs.mechanisms import objective_perturbation as perturbation
from discreet.mechanisms.noise import SimulatedNoise
from discreet.noise.shapes import KNorm
from discreet.research.mechanisms import truncated_posterior as truncated
from folding import every

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
Statistic = dc.designs.Moments | dc.designs.Gradients | dc.designs.Rows


def made(mechanism: dc.tools.Mechanism, over: dc.designs.Design, guarantee: dc.Guarantee) -> Any:
    return mechanism.calibrate(over, dc.designs.Normal(over, 1.0), guarantee)


def run(mechanism: Any, statistic: Statistic, calibration: Any, script: Script) -> tuple[dict[str, Any], Script]:
    """What is released, and what was asked, with these answers."""
    prior = dc.designs.Normal(statistic.over, 1.0)
    return answers(mechanism.draw(statistic, prior, calibration, script)), script


def asked_loss(one: Script, other: Script) -> Fraction:
    """The loss of the same answers to two scripts of questions, exactly: distances over scales, all added up."""
    assert [(kind, scale, shape) for kind, _, scale, shape in one.asked] == [
        (kind, scale, shape) for kind, _, scale, shape in other.asked
    ]
    loss = Fraction(0)
    for (kind, before, scale, shape), (_, after, _, _) in zip(one.asked, other.asked, strict=True):
        loss += length(after - before, "cube" if kind == "laplace" else shape) / Fraction(scale)
    return loss


# ------------------------------------------------------------------------------------- noise on vectors: exact losses

VECTORS: dict[str, tuple[Callable[[], Any], Callable[[dc.designs.Rows], Statistic], dc.Variable | None]] = {
    "moments": (dc.designs.noisy_moments, dc.designs.sum_moments, NUMBER),
    "moments, no target": (dc.designs.noisy_moments, dc.designs.sum_moments, None),
    "one gradient": (lambda: dc.research.noisy_gradients(1, records=20), dc.designs.sum_gradients, CLASSES),
    "three gradients": (lambda: dc.research.noisy_gradients(3, records=1), dc.designs.sum_gradients, CLASSES),
}


@pytest.mark.costly("The guarantee of noise on vectors in every shape, by enumeration of neighbours.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
@every("shape", SHAPES)
@every("name", VECTORS)
def test_noise_on_vectors_is_private_and_tight(name: str, shape: str, relation: dc.Relation) -> None:
    make, statistic, target = VECTORS[name]
    norm, intercept = SHAPES[shape]
    over = design(2, target, norm=norm, intercept=intercept)
    mechanism, guarantee = make(), promise("0.7", relation)
    if norm is not None and "moments" in name:
        with pytest.raises(dc.InputError, match="give the design no norm"):
            made(mechanism, over, guarantee)
        return
    calibration = made(mechanism, over, guarantee)
    assert guarantee.epsilon * Fraction(99, 100) <= calibration.total <= guarantee.epsilon
    # Far gradients lead to weights that tell records apart for certain; the last answer leads nowhere.
    axis = 2**40 * np.eye(over.size, dtype=np.int64)[0]
    scripts: list[Sequence[Any]] = [()] if "moments" in name else [(), (2**40, 0), (axis,), (-(2**40), 2**40)]
    worst = Fraction(0)
    for vectors in scripts:

        @cache
        def at(*part: Any, vectors: Sequence[Any] = vectors) -> tuple[dict[str, Any], Script]:
            return run(mechanism, statistic(rows_of(over, part)), calibration, Script(vectors, total=9))

        for one, other in neighbours(over, relation):
            found = [at(*part) for part in (one, other)]
            worst = max(worst, asked_loss(found[0][1], found[1][1]))
            assert found[0][0] == found[1][0]
    assert worst <= calibration.total
    # Under REPLACE gradients are opposite where the weights lie between the records, which not all of them can.
    assert worst >= float(guarantee.epsilon) * (0.6 if name == "three gradients" else 0.98)


@every("relation", dc.tools.RECORD_RELATIONS)
@every("shape", SHAPES)
def test_parts_of_a_budget_add_up(shape: str, relation: dc.Relation) -> None:
    """By hand: losses of all questions at their sensitivities, of the right scale, shape and length."""
    norm, intercept = SHAPES[shape]
    over = design(3, CLASSES, norm=norm, intercept=intercept)
    most = over.reach * (1 if relation is ADD_REMOVE else 2)
    for steps in (1, 2, 5):
        mechanism, guarantee = dc.research.noisy_gradients(steps, records=100), promise(2, relation)
        calibration = made(mechanism, over, guarantee)
        _, script = run(mechanism, dc.designs.sum_gradients(rows_of(over, [])), calibration, Script())
        vectors = [call for call in script.asked if call[0] == "k_norm"]
        assert [scale for _, _, scale, _ in vectors] == [2 * calibration.scale] + [calibration.scale] * (steps - 1)
        assert all(len(values) == over.size and form == over.shape for _, values, _, form in vectors)
        slack = Fraction(over.size, 2**100) if over.shape == "ball" else 0
        total = sum(Fraction(most) / Fraction(scale) + slack for _, _, scale, _ in vectors)
        totals = [scale for kind, _, scale, _ in script.asked if kind == "laplace"]
        assert len(totals) == (relation is ADD_REMOVE)
        total += sum(Fraction(1) / Fraction(scale) for scale in totals)
        assert total <= calibration.total <= guarantee.epsilon <= calibration.total * Fraction(101, 100)


@every("relation", dc.tools.RECORD_RELATIONS)
def test_a_released_gradient_has_the_noise_that_it_states(relation: dc.Relation) -> None:
    """Noise of one scale in steps is noise of the payload's scale in the gradient, at each of the points."""
    over = design(1, CLASSES)
    mechanism = dc.research.noisy_gradients(3, records=10)
    calibration = made(mechanism, over, promise(1, relation))
    rows = rows_of(over, [(0.5, "yes"), (-0.25, "no")])
    gradients = dc.designs.sum_gradients(rows)
    first = gradients.signed() + round(2 * calibration.scale)
    found = mechanism.draw(gradients, dc.designs.Normal(over, 1.0), calibration, Script((first,)))
    assert np.allclose(found.gradients[0] - (-gradients.expansion(np.zeros(2))[1]), found.scale, rtol=1e-3)
    assert found.scale == calibration.scale / GRID_STEPS
    assert found.points[0].tolist() == [0, 0]
    moved = found.points[1] + 4 * found.gradients[1] / (10 * np.array([1 / 3, 1]))
    assert np.allclose(found.points[2], moved)
    assert len(found.points) == len(found.gradients) == 3


@every("target", [None, NUMBER])
@every("relation", dc.tools.RECORD_RELATIONS)
def test_released_moments_are_the_sums_plus_their_noise(relation: dc.Relation, target: dc.Variable | None) -> None:
    over = design(2, target)
    statistic = dc.designs.sum_moments(rows_of(over, [(0.5, -1, 3)[: 2 + (target is not None)]] * 3))
    calibration = made(dc.designs.noisy_moments(), over, promise(1, relation))
    vector = statistic.vector(relation)
    found = dc.designs.noisy_moments().draw(statistic, dc.designs.Normal(over, 1.0), calibration, Script((vector + 5,)))
    assert np.array_equal(found.values, vector + 5)
    assert (found.noisy_total, found.scale) == (relation is ADD_REMOVE, calibration.scale)
    assert found.sums[0] == pytest.approx(3 if relation is ADD_REMOVE else 3 * (2 * 0.25 - 1), abs=1e-5)


# ------------------------------------------------------------------------------------------------- factored: exact laws

COIN = dc.research.CategoricalFactor([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], floor=0.1)
DIE = dc.research.CategoricalFactor([[0.8, 0.1, 0.1], [0.05, 0.15, 0.8], [0.3, 0.3, 0.4]], floor=0.07)
AXES = dc.research.DirectionFactor([[0.9, 0.0], [0.0, 0.9], [0.6, 0.6]], noise_variance=0.05, tau=1.5)


def categories(states: int) -> dc.designs.Design:
    return dc.designs.Design((dc.Variable("code", bounds=(0, states - 1)),), None, None, False)


FACTORS: dict[str, tuple[Any, dc.designs.Design, list[tuple[float, ...]]]] = {
    "coin": (COIN, categories(2), [(0,), (1,)]),
    "die": (DIE, categories(3), [(0,), (1,), (2,)]),
    "axes": (AXES, design(2, intercept=False), [(1, 0), (0, 1), (-1, -1), (0, 0), (0.3, 0.9)]),
}


def choice_law(script: Script) -> np.ndarray:
    """Log-probabilities of the candidates: they are drawn with `P(z) ~ exp(s_z)`."""
    ((scores, scale),) = [(values, scale) for kind, values, scale, _ in script.asked if kind == "max"]
    return np.asarray(scores / scale - logsumexp(scores / scale))


@pytest.mark.costly("The guarantee of a choice by factors, by enumeration of data sets and crowds.", always=True)
@every("epsilon", [0.1, 3, 40])
@every("relation", dc.tools.RECORD_RELATIONS)
@every("name", FACTORS)
def test_a_factored_choice_is_private_and_tight(name: str, relation: dc.Relation, epsilon: float) -> None:
    factor, over, domain = FACTORS[name]
    mechanism, guarantee = dc.research.factored(factor), promise(epsilon, relation)
    calibration = made(mechanism, over, guarantee)
    crowds = [[a] * m + [b] * n for a, b in product(domain, repeat=2) for m, n in ((20, 20), (400, 300), (60, 90))]
    sets = [list(part) for size in (0, 1, 2) for part in combinations_with_replacement(domain, size)] + crowds
    worst = 0.0

    @cache
    def at(*part: Any) -> tuple[dict[str, Any], np.ndarray, list[tuple[int, float]]]:
        released, script = run(mechanism, rows_of(over, part), calibration, Script(total=4, index=1))
        totals = [(int(v[0]), scale) for kind, v, scale, _ in script.asked if kind == "laplace"]
        return released, choice_law(script), totals

    for rest in sets:
        pairs = [(rest, [*rest, one]) for one in domain]
        if relation is REPLACE:
            pairs = [([*rest, one], [*rest, other]) for one, other in combinations(domain, 2)]
        for pair in pairs:
            (released, one, totals), (same, other, others) = (at(*part) for part in pair)
            assert released == same
            gap = np.abs(one - other).max()
            gap += sum(abs(a - b) / scale for (a, scale), (b, _) in zip(totals, others, strict=True))
            worst = max(worst, float(gap))
    assert worst <= float(calibration.total) * (1 + 1e-12)
    assert guarantee.epsilon * Fraction(99, 100) <= calibration.total <= guarantee.epsilon
    # A direction's width is a bound that no record need reach.
    assert worst >= (0.5 if name == "axes" else 0.98 if epsilon >= 3 else 0.6) * epsilon


@pytest.mark.costly("Floats round away a record only where scores are thousands of nats apart.", always=True)
@every("epsilon", ["0.01", "1"])
def test_rounding_of_far_scores_is_paid_for(epsilon: str) -> None:
    """Exactly, on records that leave one candidate thousands of nats behind, where floats are coarse."""
    factor, over, _ = FACTORS["coin"]
    mechanism = dc.research.factored(factor)
    calibration = made(mechanism, over, promise(epsilon, REPLACE))
    worst = Fraction(0)
    for n in range(900_000, 900_040, 3):
        scores = []
        for last in (0.0, 1.0):
            script = Script()
            rows = dc.designs.read_rows(over, np.repeat([[0.0], [last]], [n, 1], axis=0))
            mechanism.draw(rows, dc.designs.Normal(over, 1.0), calibration, script)
            scores.append([-exponent for exponent in script.exponents])
        change = [b - a for a, b in zip(*scores, strict=True)]
        worst = max(worst, max(change) - min(change))
    assert worst <= calibration.total


# ----------------------------------------------------------------------------- truncated posterior: densities in a ball


def law_in_ball(over: dc.designs.Design, records: Any, calibration: Any, points: np.ndarray, patch: Any) -> np.ndarray:
    """Log-probabilities of the sampler's law on a grid of weights, from the arguments it is given."""
    given: dict[str, Any] = {}

    def spy(precision: np.ndarray, shift: np.ndarray, radius: float, draws: int, **_: Any) -> np.ndarray:
        given.update(precision=precision, shift=shift, radius=radius)
        return np.zeros((draws, len(shift)))

    patch.setattr(truncated, "truncated_normal", spy)
    mechanism = dc.research.truncated_posterior(
        calibration.draws, variance=calibration.variance, radius=calibration.radius
    )
    mechanism.draw(dc.designs.sum_moments(rows_of(over, records)), dc.designs.Normal(over, 0.8), calibration, Script())
    assert given["radius"] == calibration.radius
    logs = -np.einsum("ki,ij,kj->k", points, given["precision"], points) / 2 + points @ given["shift"]
    return np.asarray(logs - logsumexp(logs))


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
@pytest.mark.parametrize("radius", [0.3, 1.5])
@pytest.mark.parametrize("shape", ["box", "box, no intercept", "ball", "ball, no intercept"])
def test_a_truncated_posterior_is_private_and_tight(
    shape: str, radius: float, relation: dc.Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Densities on a grid of the ball in one or two dimensions: a law of its own, with the same bound."""
    norm, intercept = SHAPES[shape]
    over = design(1, NUMBER, norm=norm, intercept=intercept)
    calibration = made(dc.research.truncated_posterior(2, variance=0.2, radius=radius), over, promise(3, relation))
    line = np.linspace(-radius, radius, 41)
    points = np.array([p for p in product(line, repeat=over.size) if np.hypot(*(*p, 0)[:2]) <= radius * (1 + 1e-12)])
    edge = np.linspace(0, 2 * np.pi, 80)
    if over.size == 2:
        points = np.concatenate([points, radius * np.column_stack([np.cos(edge), np.sin(edge)])])
    base = [(x, y) for x in (-1, 1) for y in (-3, 7)]
    rests = [[], *([record] * 60 for record in base), [(0.3, 2)] * 5]
    worst = 0.0
    for rest in rests:
        if relation is ADD_REMOVE:
            pairs = [(rest, [*rest, one]) for one in base]
        else:
            pairs = [([*rest, one], [*rest, other]) for one, other in product(base, repeat=2)]
        for pair in pairs:
            one, other = (law_in_ball(over, part, calibration, points, monkeypatch) for part in pair)
            worst = max(worst, float(np.abs(one - other).max()))
    assert worst * calibration.draws <= calibration.total <= 3
    # The worst pair under REPLACE stands at an angle that none of these records has.
    assert worst * calibration.draws >= (0.75 if relation is ADD_REMOVE else 0.6) * float(calibration.total)


def test_draws_of_a_truncated_posterior_have_the_law_that_was_paid_for() -> None:
    """One dimension, 4000 draws: Kolmogorov's distance exceeds 0.05 with probability below 1e-8."""
    over = design(1, NUMBER, intercept=False)
    rows = rows_of(over, [(x, 7 * x) for x in np.linspace(-1, 1, 30)])
    mechanism = dc.research.truncated_posterior(4000, variance=0.3, radius=0.7)
    found = dc.simulate(
        mechanism,
        dc.designs.sum_moments(rows),
        dc.designs.Normal(over, 2.0),
        promise(9e4),
        rng=np.random.default_rng(2),
    )
    assert found.calibration.temper == 1
    v, y = rows.coordinates[:, 0] / GRID_STEPS, rows.target / GRID_STEPS
    grid = np.linspace(-0.7, 0.7, 20001)
    logs = -((y[:, None] - v[:, None] * grid) ** 2).sum(axis=0) / 0.6 - grid**2 / 8
    law = np.cumsum(np.exp(logs - logsumexp(logs)))
    drawn = np.sort(found.payload.weights[:, 0])
    distance = np.abs(np.interp(drawn, grid, law) - np.arange(1, 4001) / 4000).max()
    assert distance < 0.05


# ------------------------------------------------------------------------- objective perturbation: step 1, densities

LINE = np.array(
    [-1e3, -60.0, -12, -7, -5, -4, -3, -2.5, -2, -1.5, -1, -0.5, -0.1, 0, 0.1, 0.5, 1, 1.5, 2, 2.5, 3, 5, 12, 1e3]
)
WEIGHTS = np.array(list(product(LINE, LINE[::2])))
"""Of one feature and an intercept: in two dimensions records can have opposite gradients."""
STEEP = [(1.0, "yes"), (-1.0, "yes"), (1.0, "no"), (-1.0, "no"), (0.01, "yes")]
FLAT = [(0.01, "no")] * 400
"""Records that move b and hardly the curvature, so that both losses of another record have one sign."""


def log_densities(over: dc.designs.Design, records: Any, scale: float, convexity: float) -> np.ndarray:
    """Of the ideal minimiser, apart from a constant: of b at `-Lambda w - g(w)`, times the determinant."""
    statistic = dc.designs.sum_gradients(rows_of(over, records))
    weights = WEIGHTS if over.size == 2 else np.concatenate([LINE, LINE / 9])[:, None]
    _, slopes, curvatures = (np.array(part) for part in zip(*map(statistic.expansion, weights), strict=True))
    # The nearest whole steps, halves up: exact, as is the product with a power of two.
    steps = (-convexity * weights - slopes) * 2.0**OBJECTIVE_BITS
    k = np.floor(steps) + (steps - np.floor(steps) >= 0.5)
    assert np.abs(k).max() < 2**62
    lengths = np.array([length(each, over.shape) for each in k.astype(np.int64).tolist()])
    return np.asarray(np.linalg.slogdet(curvatures + convexity * np.eye(over.size))[1] - lengths / scale)


def perturbation_loss(over: dc.designs.Design, relation: dc.Relation, scale: float, convexity: float) -> float:
    worst, known = 0.0, {}

    def law(records: list[Any]) -> np.ndarray:
        key = tuple(sorted(records))
        if key not in known:
            known[key] = log_densities(over, records, scale, convexity)
        return known[key]

    for rest in ([], [STEEP[2]] * 3, FLAT):
        if relation is ADD_REMOVE:
            pairs = [(rest, [*rest, one]) for one in STEEP]
        else:
            pairs = [([*rest, one], [*rest, other]) for one, other in product(STEEP, repeat=2)]
        worst = max(worst, *(float(np.abs(law(one) - law(other)).max()) for one, other in pairs))
    return worst


@pytest.mark.costly("The loss of an ideal minimum is known from its density at many points only.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
@every("norm", [None, 1.0, 0.5])
@every(("epsilon", "regularisation"), [(0.5, 1e-3), (12, 0.02)])
def test_the_ideal_minimiser_is_private(
    relation: dc.Relation, norm: float | None, epsilon: float, regularisation: float | None
) -> None:
    over = design(1, CLASSES, norm=norm)
    mechanism = dc.designs.objective_perturbation(records=1, regularisation=regularisation, curvature=0)
    calibration = made(mechanism, over, promise(epsilon, relation))
    tilt = calibration.sensitivity / Fraction(calibration.scale)
    worst = perturbation_loss(over, relation, calibration.scale, calibration.regularisation)
    # Opposite gradients in a ball lie across the weights, where no record of these lies exactly.
    reached = 0.8 if norm is not None and relation is REPLACE else 0.97
    assert reached * float(tilt) <= worst <= float(tilt + calibration.curvature) * (1 + 1e-9)


def test_without_the_curvature_or_with_too_little_regularisation_it_is_not() -> None:
    """The proof above sees both faults: it is the calibration that keeps the promise, not the room that it leaves."""
    over, epsilon = design(1, CLASSES, intercept=False), 4
    mechanism = dc.designs.objective_perturbation(records=1, regularisation=1e-3, curvature=0)
    calibration = made(mechanism, over, promise(epsilon, ADD_REMOVE))
    without = calibration.sensitivity / epsilon
    assert perturbation_loss(over, ADD_REMOVE, without, calibration.regularisation) > 1.005 * epsilon
    paid = calibration.sensitivity / Fraction(calibration.scale) + calibration.curvature
    assert perturbation_loss(over, ADD_REMOVE, calibration.scale, calibration.regularisation / 20) > 1.01 * float(paid)
    assert perturbation_loss(over, ADD_REMOVE, calibration.scale, calibration.regularisation) <= float(paid)


def test_the_curvature_term_is_what_one_record_can_do_to_the_determinant() -> None:
    rng = np.random.default_rng(4)
    for norm in (None, 1.0):
        over = design(3, CLASSES, norm=norm)
        calibration = made(dc.designs.objective_perturbation(records=1), over, promise(1))
        convexity, worst = calibration.regularisation, 0.0
        for _ in range(200):
            rest = [(*rng.choice([-1, 0.5, 1], 3), "yes") for _ in range(rng.integers(0, 4))]
            record = (*rng.choice([-1, 1], 3), "no")
            theta = rng.normal(size=4) * rng.choice([0, 1])
            logs = []
            for part in (rest, [*rest, record]):
                *_, curvature = dc.designs.sum_gradients(rows_of(over, part)).expansion(theta)
                logs.append(np.linalg.slogdet(curvature + convexity * np.eye(4))[1])
            assert -1e-12 <= logs[1] - logs[0] <= float(calibration.curvature) * (1 + 1e-9)
            worst = max(worst, logs[1] - logs[0])
        assert worst >= 0.99 * float(calibration.curvature)


# ----------------------------------------------------------------- objective perturbation: step 2, the lattice of b


@every("relation", dc.tools.RECORD_RELATIONS)
@every("norm", [None, 1.0])
@every("size", [1, 3, 10])
def test_lattice_points_are_no_further_apart_than_the_sensitivity(
    relation: dc.Relation, norm: float | None, size: int
) -> None:
    over, rng = design(size, CLASSES, norm=norm), np.random.default_rng(6)
    calibration = made(dc.designs.objective_perturbation(records=10), over, promise(1, relation))
    records = 1 if relation is ADD_REMOVE else 2
    most = records * over.reach * 2 ** (OBJECTIVE_BITS - 12)
    rounded = 1 if norm is None else math.ceil(math.sqrt(over.size))
    assert calibration.sensitivity == most + rounded
    worst = 0.0
    for _ in range(300):
        b = [Fraction(int(v), 7) for v in rng.integers(-(10**12), 10**12, over.size)]
        signs = rng.choice([-1, 1], over.size)
        # A move of the greatest length along a diagonal, or along an axis; every entry just crosses a cell's edge.
        whole = most if norm is None else math.isqrt(most**2 // over.size)
        b = [Fraction(math.floor(v)) + Fraction(1, 2) - Fraction(int(s), 10**6) for v, s in zip(b, signs, strict=True)]
        moved = [v + int(s) * whole for v, s in zip(b, signs, strict=True)]
        moved = [v + int(s) * Fraction(2, 10**6) for v, s in zip(moved, signs, strict=True)]
        k, kept = ([math.floor(v + Fraction(1, 2)) for v in part] for part in (b, moved))
        worst = max(worst, length(np.array([x - y for x, y in zip(k, kept, strict=True)]), over.shape))
    assert most < worst <= calibration.sensitivity


# ------------------------------------------------------------ objective perturbation: step 3, the minimiser as computed


def exact_slope(rows: dc.designs.Rows, tilt: np.ndarray, convexity: float, w: np.ndarray) -> float:
    """Length of the gradient of J at these floats, to 40 digits."""
    with localcontext() as context:
        context.prec = 40
        weights = [Decimal(float(value)) for value in w]
        total = [Decimal(float(b)) + Decimal(convexity) * value for b, value in zip(tilt, weights, strict=True)]
        kinds, counts = np.unique(np.column_stack([rows.coordinates, rows.target]), axis=0, return_counts=True)
        for record, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            v = [Decimal(part) / GRID_STEPS for part in record[:-1]]
            a = sum(x * value for x, value in zip(v, weights, strict=True))
            share = count * (1 / (1 + (-a).exp()) - record[-1])
            total = [part + share * x for part, x in zip(total, v, strict=True)]
        return float(sum(part * part for part in total).sqrt())


ILL = {
    "as expected": (50, 50, 1.0, None, 3),
    "none": (50, 0, 1.0, None, 3),
    "the most": (50, 500, 1.0, None, 3),
    "separable": (50, 500, 20.0, None, 3),
    "large epsilon": (50, 500, 100.0, 1e-4, 3),
    "many weights": (20, 200, 1.0, None, 30),
    "small epsilon": (1, 10, 0.01, None, 2),
    "tiny epsilon": (1, 10, 1e-4, None, 2),
    "far more than expected": (1, 5000, 100.0, 1e-2, 3),
}


@pytest.mark.parametrize("name", ILL)
def test_the_minimiser_is_as_near_as_was_paid_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """J is Lambda-convex: the distance to its minimiser is at most the length of its gradient over Lambda."""
    records, n, epsilon, regularisation, size = ILL[name]
    over, rng = design(size, CLASSES), np.random.default_rng(10)
    mechanism = dc.designs.objective_perturbation(records=records, regularisation=regularisation)
    calibration = made(mechanism, over, promise(epsilon))
    features = np.rint(rng.uniform(-1, 1, (n, size)) * 2) / 2
    states = np.where(features[:, 0] + 0.3 > 0, "yes", "no") if name == "separable" else rng.choice(CLASSES.states, n)
    rows = dc.designs.read_rows(over, features, states)
    convexity, cell = calibration.regularisation, math.sqrt(over.size) * 2.0 ** -(OBJECTIVE_BITS + 1)
    # A step is no shorter than what is computed may be off, of as many records as there are or were expected.
    law = KNorm(calibration.scale, over.weights, over.shape)
    rounding = perturbation._bound_rounding(max(10 * records, n), over, convexity, law)
    tail = perturbation._bound_records(records, calibration.total_scale, n)
    step = perturbation._set_precision(tail, over, convexity, law)[1]
    assert step >= (max(10 * records, n) * perturbation.GRADIENT_TOLERANCE + 2 * rounding + cell) / convexity
    assert (step == calibration.polish_step) == (n <= 10 * records)
    minimise, found = perturbation.minimiser, []
    monkeypatch.setattr(perturbation, "minimiser", lambda *what: found.append(minimise(*what)) or found[-1])
    for seed in range(3):
        noise = SimulatedNoise(np.random.default_rng(seed))
        lattice = noise.k_norm(np.zeros(over.size, np.int64), calibration.scale, over.shape)
        script = Script((lattice,), total=n)
        mechanism.draw(dc.designs.sum_gradients(rows), dc.designs.Normal(over, 1.0), calibration, script)
        (_, zeros, scale, shape), (_, steps, polish, cube) = [call for call in script.asked if call[0] == "k_norm"][:2]
        assert not zeros.any()
        assert (scale, shape, polish, cube) == (calibration.scale, over.shape, calibration.polish, "cube")
        assert np.array_equal(steps, np.rint(found[-1] / step))
        off = exact_slope(rows, lattice * 2.0**-OBJECTIVE_BITS, convexity, found[-1])
        assert (off + cell) / convexity <= step
    assert len(found) == 3


def test_there_are_no_more_records_than_a_noisy_number_bounds() -> None:
    """But with a probability below 1e-41, by the tail of discrete Laplace noise; a public number is one itself."""
    for scale, number in itertools.product((0.2, 20.0, 1e6), (-(10**7), 0, 10**9)):
        bound = perturbation._bound_records(7, scale, number)
        assert bound >= 70 and math.exp(-(bound - number) / scale) < 1e-41
    assert perturbation._bound_records(7, None, 71) == 71 and perturbation._bound_records(7, None, 69) == 70


@every("relation", dc.tools.RECORD_RELATIONS)
@every("norm", [None, 1.0])
def test_all_parts_of_objective_perturbation_are_paid_for(relation: dc.Relation, norm: float | None) -> None:
    over = design(3, CLASSES, norm=norm)
    for epsilon in (0.1, 1, 10):
        mechanism, guarantee = dc.designs.objective_perturbation(records=100), promise(epsilon, relation)
        calibration = made(mechanism, over, guarantee)
        _, script = run(mechanism, dc.designs.sum_gradients(rows_of(over, [(1, 1, 1, "yes")])), calibration, Script())
        vectors = [call for call in script.asked if call[0] == "k_norm"]
        (_, _, scale, _), (_, _, polish, _) = vectors[:2]
        parts = [
            Fraction(calibration.sensitivity) / Fraction(scale),
            calibration.curvature,
            Fraction(4) / Fraction(polish),
        ]
        assert [scale for _, _, scale, _ in vectors[2:]] == list(calibration.measured.scales)
        parts += [Fraction(calibration.measured.sensitivity) / Fraction(scale) for scale in calibration.measured.scales]
        parts += [1 / Fraction(scale) for kind, _, scale, _ in script.asked if kind == "laplace"]
        assert len(parts) == (7 if relation is ADD_REMOVE else 6)
        assert sum(parts) <= calibration.total <= guarantee.epsilon <= calibration.total * Fraction(101, 100)
        exact = math.log1p(float(over.squared_length) / (4 * calibration.regularisation))
        assert exact <= calibration.curvature <= exact * (1 + 1e-9)
        # A step is no shorter than the computed minimiser may be off: two of them are then two steps apart at most.
        convexity, cell = calibration.regularisation, math.sqrt(over.size) * 2.0 ** -(OBJECTIVE_BITS + 1)
        rounding = perturbation._bound_rounding(
            1000, over, convexity, KNorm(calibration.scale, over.weights, over.shape)
        )
        assert (1000 * perturbation.GRADIENT_TOLERANCE + 2 * rounding + cell) / convexity <= calibration.polish_step


def test_objective_perturbation_releases_what_the_noise_says_and_nothing_else() -> None:
    """The weights are the noisy steps, the gradient follows from them; the records only move what noise is put on."""
    over = design(2, CLASSES)
    mechanism = dc.designs.objective_perturbation(records=20, curvature=0)
    calibration = made(mechanism, over, promise(1))
    released = []
    for records in ([], [(1, 1, "yes")] * 30, [(0.2, -0.4, "no"), (-1, 1, "yes")]):
        payload, script = run(
            mechanism, dc.designs.sum_gradients(rows_of(over, records)), calibration, Script((7, 12345), total=8)
        )
        released.append(payload)
        assert len(script.asked) == 3
    assert released[0] == released[1] == released[2]
    assert released[0]["weights"] == [12345 * calibration.polish_step] * 3
    assert released[0]["gradients"] == [[calibration.regularisation * w for w in released[0]["weights"]]]
    assert released[0]["scale"] == calibration.scale * 2.0**-OBJECTIVE_BITS


# ----------------------------------------------------------------------------------------------- audits from outside

FALSE_ALARM = 1e-8


def audited(
    mechanism: Any,
    pair: tuple[Statistic, Statistic],
    guarantee: dc.Guarantee,
    telling: Callable[[Any], bool],
    runs: int,
) -> float:
    """A lower bound on the epsilon of an event, wrong with probability at most FALSE_ALARM (Clopper and Pearson)."""
    rng, hits = np.random.default_rng(12), []
    calibration = made(mechanism, pair[0].over, guarantee)
    for statistic in pair:
        prior = dc.designs.Normal(statistic.over, 1.0)
        made_ones = (mechanism.draw(statistic, prior, calibration, SimulatedNoise(rng)) for _ in range(runs))
        hits.append(sum(map(telling, made_ones)))
    # Either way round: the events of one that tell most may be those that do not happen.
    likely, rare = max((max(hits), min(hits)), (runs - min(hits), runs - max(hits)), key=lambda h: h[0] / (h[1] + 1))
    at_least = stats.beta.ppf(FALSE_ALARM / 2, likely, runs - likely + 1)
    at_most = stats.beta.isf(FALSE_ALARM / 2, rare + 1, runs - rare)
    return float(np.log(at_least / at_most))


def nearer(vector: np.ndarray, before: np.ndarray, after: np.ndarray, shape: str) -> bool:
    """Whether a noisy vector lies on the far side of the second of two vectors: nearly all of their distance nearer."""
    gain = length(vector - before, shape) - length(vector - after, shape)
    return gain >= 0.9 * length(after - before, shape)


Case = tuple[Any, tuple[Statistic, Statistic], Callable[[Any], bool]]


def moments_case(relation: dc.Relation) -> Case:
    over = design(1, intercept=False)
    sets = ([], [(1,)]) if relation is ADD_REMOVE else ([(0,)], [(1,)])
    one, other = (dc.designs.sum_moments(rows_of(over, part)) for part in sets)
    before, after = one.vector(relation), other.vector(relation)
    return dc.designs.noisy_moments(), (one, other), lambda p: nearer(p.values, before, after, "cube")


def groups_case(relation: dc.Relation) -> Case:
    """The group of sums of each feature, which gets most of the budget where there is one feature."""
    over = design(1, NUMBER, intercept=False)
    sets = ([], [(1, 7)]) if relation is ADD_REMOVE else ([(0, 7)], [(1, 7)])
    one, other = (dc.designs.sum_moments(rows_of(over, part)) for part in sets)
    group = group_positions(over, noisy_total=relation is ADD_REMOVE) == 1
    before, after = one.vector(relation)[group], other.vector(relation)[group]
    return dc.designs.grouped_moments(), (one, other), lambda p: nearer(p.values[group], before, after, "cube")


def gradients_case(relation: dc.Relation, norm: float | None = None) -> Case:
    over = design(1, CLASSES, norm=norm)
    sets = ([], [(1, "yes")]) if relation is ADD_REMOVE else ([(1, "no")], [(1, "yes")])
    one, other = (dc.designs.sum_gradients(rows_of(over, part)) for part in sets)

    def telling(payload: dc.designs.GradientTrace) -> bool:
        return nearer(np.rint(payload.gradients[0] * 2 * GRID_STEPS), one.signed(), other.signed(), over.shape)

    return dc.research.noisy_gradients(1, records=1), (one, other), telling


def objective_case(relation: dc.Relation) -> Case:
    over = design(1, CLASSES, intercept=False)
    sets = ([], [(1, "yes")]) if relation is ADD_REMOVE else ([(1, "no")], [(1, "yes")])
    pair = tuple(dc.designs.sum_gradients(rows_of(over, part)) for part in sets)
    # b is below -1 where the record's gradient is all that is left: there its density tells most.
    return dc.designs.objective_perturbation(records=1, curvature=0), pair, lambda p: bool(p.gradients[0, 0] > 0)


def truncated_case(relation: dc.Relation) -> Case:
    over = design(1, NUMBER, intercept=False)
    sets = ([], [(1, 7)]) if relation is ADD_REMOVE else ([(1, -3)], [(1, 7)])
    pair = tuple(dc.designs.sum_moments(rows_of(over, part)) for part in sets)
    at = -0.5 if relation is ADD_REMOVE else 0
    return dc.research.truncated_posterior(variance=0.01), pair, lambda p: bool(p.weights[0, 0] > at)


def factored_case(relation: dc.Relation) -> Case:
    over = categories(2)
    factor = dc.research.CategoricalFactor([[0.9, 0.1], [0.1, 0.9]], floor=0.1)
    sets = ([(0,), (1,)], [(0,), (1,), (1,)]) if relation is ADD_REMOVE else ([(0,)], [(1,)])
    return dc.research.factored(factor), tuple(rows_of(over, part) for part in sets), lambda p: p.index == 1


AUDITS: dict[str, Callable[[dc.Relation], Case]] = {
    "noisy_moments": moments_case,
    "grouped_moments": groups_case,
    "noisy_gradients": gradients_case,
    "noisy_gradients, ball": lambda relation: gradients_case(relation, 1.0),
    "objective_perturbation": objective_case,
    "truncated_posterior": truncated_case,
    "factored": factored_case,
}
FEW, MORE = 500, 1000
"""Runs of an audit; a truncated posterior shows less in each."""


@pytest.mark.costly("What is released is audited from outside, whatever its calibration says.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
@every("name", AUDITS)
def test_releases_over_a_design_survive_an_audit(name: str, relation: dc.Relation) -> None:
    """Seeds are fixed; the bound would be wrong for other seeds with probability 1e-8 each. It must see something."""
    mechanism, pair, telling = AUDITS[name](relation)
    found = audited(mechanism, pair, promise(3, relation), telling, MORE if name == "truncated_posterior" else FEW)
    assert 0.1 < found <= 3
