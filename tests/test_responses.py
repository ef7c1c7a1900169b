"""Counts and more than two classes: what their proofs take of a response, sums of their gradients, and a delta."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr

import discreet as dc
from design_cases import CLASSES, Script, design, numeric, promise
from discreet.designs.design import GRID_STEPS
from discreet.designs.kinds.gradient_trace import OBJECTIVE_BITS, NoisyCurvature
from discreet.designs.mechanisms import objective_perturbation as perturbation
from discreet.designs.records.gradients import curvature_sensitivity, squared_gradient_sensitivity
from discreet.designs.response import Classes, CountResponse, Response, TwoClasses, exponential, response_of
from discreet.mechanisms.noise import SimulatedNoise
from discreet.noise.noise_laws import DiscreteGaussian
from discreet.noise.shapes import KNorm
from folding import every

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
RESPONSES = {
    "two": TwoClasses(),
    "three": Classes(3),
    "six": Classes(6),
    "counts": CountResponse(12),
    "yes or no": CountResponse(1),
}
THREE = dc.Variable("class", ("no", "yes", "unknown"))
TEN = dc.Variable("digit", tuple("0123456789"))
VISITS = dc.Variable("visits", bounds=(0, 12))
RNG = np.random.default_rng


def over(kind: str, size: int = 2, **options: Any) -> dc.designs.Design:
    """A design of that response."""
    features = tuple(numeric(f"x{at}") for at in range(size))
    target = {"two": CLASSES, "three": THREE, "ten": TEN, "counts": VISITS}[kind]
    return dc.designs.Design(features, target, counted=kind == "counts", **options)


def targets(kind: str, number: int, seed: int) -> np.ndarray:
    """Targets of any kind, some at the ends."""
    if kind == "counts":
        return np.minimum(RNG(seed).poisson(3, number) * RNG(seed + 1).integers(0, 4, number), 12)
    return RNG(seed).choice({"two": CLASSES, "three": THREE, "ten": TEN}[kind].states, number)


def rows(design: dc.designs.Design, kind: str, number: int, seed: int) -> dc.designs.Rows:
    features = RNG(seed).choice([-1, -0.3, 0.5, 1], (number, len(design.features)))
    return dc.designs.read_rows(design, features, targets(kind, number, seed))


def ends(response: Response) -> np.ndarray:
    """Targets at the ends of what they can be, shape (outputs, targets)."""
    if response.outputs > 1:
        return np.eye(response.outputs)
    return np.array([[0.0, 1.0]])


def predictors(response: Response, number: int, seed: int) -> np.ndarray:
    """Near 0, and far out."""
    rng = RNG(seed)
    return rng.normal(size=(response.outputs, number)) * rng.choice([0, 0.5, 3, 40], number)


# -------------------------------------------------------------------------------------------------- what is stated


@every("name", RESPONSES)
def test_means_and_targets_are_no_further_apart_than_is_stated(name: str) -> None:
    response, worst = RESPONSES[name], 0.0
    p = response.means(predictors(response, 2000, 1))
    assert p.min() >= 0 and p.max() <= 1
    for y in ends(response).T:
        off = p - y[:, None]
        worst = max(worst, float((off**2).sum(axis=0).max()))
        assert np.abs(off).max() <= 1
    assert 0.98 * response.squared_reach <= worst <= response.squared_reach * (1 + 1e-12)


@every("name", RESPONSES)
def test_a_loss_has_the_means_as_its_slope_and_these_the_slopes_that_are_stated(name: str) -> None:
    response = RESPONSES[name]
    for seed in range(20):
        a = RNG(seed).normal(size=(response.outputs, 1)) * 1.3
        y = ends(response)[:, seed % ends(response).shape[1], None]
        slope, curvature = np.zeros(response.outputs), np.zeros((response.outputs, response.outputs))
        for at in range(response.outputs):
            step = 1e-5 * np.eye(response.outputs)[:, at, None]
            slope[at] = (response.loss(a + step, y) - response.loss(a - step, y)) / 2e-5
            curvature[:, at] = ((response.means(a + step) - response.means(a - step)) / 2e-5)[:, 0]
        assert np.allclose(slope, (response.means(a) - y)[:, 0], atol=1e-8)
        stated = np.zeros_like(curvature)
        for (one, other), weight in zip(response.pairs, response.slopes(response.means(a))[:, 0], strict=True):
            edge = np.eye(response.outputs)[one] - (one != other) * np.eye(response.outputs)[other]
            stated += weight * np.outer(edge, edge)
            assert 0 <= weight <= response.steepest_pair
        assert np.allclose(curvature, stated, atol=1e-8)


@every("name", RESPONSES)
def test_the_height_is_that_of_the_loss_at_nothing_above_its_least(name: str) -> None:
    response, worst = RESPONSES[name], 0.0
    for y in ends(response).T:
        at = minimize(lambda a, y=y: response.loss(a[:, None], y[:, None]), np.zeros(response.outputs), tol=1e-12)
        start = response.loss(np.zeros((response.outputs, 1)), y[:, None])
        assert math.isclose(start, response.start)
        worst = max(worst, start - at.fun)
    assert 0.99 * response.height <= worst <= response.height * (1 + 1e-9)


@every("name", RESPONSES)
def test_what_a_neighbour_changes_lies_between_the_corners_that_are_counted(name: str) -> None:
    """`mean - y` is a mixture of 0 and the corners; the largest of a convex function of it is at one of these."""
    response = RESPONSES[name]
    p, rng = response.means(predictors(response, 500, 3)), RNG(4)
    for y in [*ends(response).T, *([np.array([0.4])] if name == "counts" else [])]:
        corners = np.unique(np.column_stack([np.zeros(len(y)), *(ends(response) - y[:, None]).T]), axis=1).T
        assert len(corners) - 1 <= response.corners
        for _ in range(20):
            k, scale = rng.normal(size=len(y)), rng.uniform(0.1, 3)

            def loss(u: np.ndarray, k: np.ndarray = k, scale: float = scale) -> np.ndarray:
                return np.asarray((2 * u @ k + (u**2).sum(axis=-1)) / (2 * scale**2))

            assert loss((p - y[:, None]).T).max() <= loss(corners).max() + 1e-12


# ------------------------------------------------------------------------------------------------ sums over records


def exact_slope(given: dc.designs.Rows, w: np.ndarray) -> np.ndarray:
    """The gradient of the negative log-likelihood at these floats, to 60 digits."""
    outputs, size = given.design.outputs, given.design.size
    with localcontext() as context:
        context.prec = 60
        weights = [[Decimal(float(value)) for value in part] for part in w.reshape(outputs, size)]
        total = [[Decimal(0)] * size for _ in range(outputs)]
        kinds, counts = np.unique(np.column_stack([given.coordinates, given.target]), axis=0, return_counts=True)
        for record, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            v = [Decimal(part) / GRID_STEPS for part in record[:-1]]
            a = [sum(x * value for x, value in zip(v, part, strict=True)) for part in weights]
            if outputs > 1:
                shares = [(part - max(a)).exp() for part in a]
                off = [share / sum(shares) - (record[-1] == k) for k, share in enumerate(shares)]
            else:
                off = [min(a[0], Decimal(12).ln()).exp() / 12 - Decimal(record[-1]) / 12]
            for k in range(outputs):
                total[k] = [part + count * off[k] * x for part, x in zip(total[k], v, strict=True)]
        return np.array([[float(part) for part in each] for each in total]).ravel()


@every("kind", ["three", "counts"])
@every("size", [1, 4])
def test_a_gradient_is_as_exact_as_the_proof_takes_it_to_be(kind: str, size: int) -> None:
    given = rows(over(kind, size), kind, 600, 5)
    statistic, number, outputs = dc.designs.sum_gradients(given), given.design.weights, given.design.outputs
    several = 1 + (outputs > 1)
    for seed in range(12):
        w = RNG(seed).normal(size=number) * (1, 30, 1e3)[seed % 3]
        if seed % 2:
            w = w + np.tile(1e7 * RNG(seed).normal(size=size + 1), outputs) * (outputs > 1)
        bound = 600 * (40 + 8 * (outputs - 1) + several * (size + 1) ** 2 * (1 + np.abs(w).sum()) * 2.0**-40) * 2.0**-53
        assert np.abs(statistic.expansion(w)[1] - exact_slope(given, w)).max() <= bound


@every("kind", ["two", "three", "counts"])
def test_the_curvature_is_the_slope_of_the_gradient_and_its_sums_move_by_a_step_of_one(kind: str) -> None:
    given = rows(over(kind), kind, 400, 6)
    statistic, w = dc.designs.sum_gradients(given), 0.4 * RNG(7).normal(size=given.design.weights)
    step = 1e-6
    moved = [
        (statistic.expansion(w + step * e)[1] - statistic.expansion(w - step * e)[1]) / (2 * step)
        for e in np.eye(len(w))
    ]
    assert np.allclose(statistic.expansion(w)[2], np.array(moved), atol=1e-4)
    response, width = response_of(given.design), len(given.design.features)
    weight, few, many = statistic.curvature(w)
    assert [len(part) for part in (weight, few, many)] == [part.size for part in given.design.curvature]
    pairs = len(response.pairs)
    found = np.zeros_like(moved).reshape(2 * (given.design.outputs, width + 1))
    for pair, (one, other) in enumerate(response.pairs):
        total = weight[pair] / GRID_STEPS * response.steepest_pair
        means, squares = few.reshape(pairs, 2, width)[pair] / GRID_STEPS * response.steepest_pair
        gram = np.diag([*((squares + total) / 2), total])
        gram[:-1, -1] = gram[-1, :-1] = means
        gram[0, 1] = gram[1, 0] = many.reshape(pairs, -1)[pair, 0] / GRID_STEPS * response.steepest_pair
        for k, l, sign in ((one, one, 1), (other, other, 1), (one, other, -1), (other, one, -1)):
            found[k, :, l] += sign * gram if one != other else gram / 2 * (sign > 0)
    assert np.allclose(found.reshape(len(w), len(w)), statistic.expansion(w)[2], atol=400 / GRID_STEPS)
    alone = [dc.designs.sum_gradients(rows(over(kind), kind, 1, seed)) for seed in range(40)]
    for seed, one in enumerate(alone):
        far = RNG(seed).normal(size=len(w)) * 5
        assert max(np.abs(part).max() for part in one.curvature(far)) <= curvature_sensitivity(ADD_REMOVE) == GRID_STEPS


@every("classes", [3, 8, 9, 16, 40])
def test_a_mean_is_the_same_to_the_last_bit_whatever_the_other_records_are(classes: int) -> None:
    response = Classes(classes)
    a = RNG(classes).normal(size=(classes, 500)) * 3
    whole = response.means(a)
    for chosen in (slice(0, 1), slice(7, 8), slice(3, 5), slice(0, 499)):
        assert np.array_equal(response.means(a[:, chosen].copy()), whole[:, chosen])


def test_exponentials_are_near_and_the_same_wherever_they_stand() -> None:
    """Within a part 3 2^-53 of the decimal value, one at a time as in arrays of any layout; tiny far below."""
    a = np.concatenate([-np.geomspace(1e-300, 700, 400), np.linspace(-3, 3, 400), np.geomspace(1e-9, 700, 200), [0.0]])
    found = exponential(a)
    with localcontext(prec=40):
        off = [abs(Decimal(float(one)) / Decimal(float(x)).exp() - 1) for one, x in zip(found, a, strict=True)]
    assert max(off) < 3 * Decimal(2) ** -53 and exponential(np.zeros(1))[0] == 1
    assert found.tolist() == [float(exponential(np.array(x))) for x in a] == exponential(a[::-1])[::-1].tolist()
    assert found.tolist() == np.asfortranarray(exponential(np.array([a, a]).T))[:, 1].tolist()
    assert (exponential(np.array([-800.0, -1e300, -np.inf])) < 1e-320).all()


def test_a_document_of_many_classes_is_refused_before_it_takes_memory() -> None:
    wide = dc.designs.Design((numeric("x"),), dc.Variable("y", tuple(f"s{at}" for at in range(5000))))
    assert not wide.measurable and over("three", 20).measurable
    zeros = np.zeros((1, wide.weights))
    curvature = NoisyCurvature(np.zeros(10, np.int64), (1.0, 1.0, None))
    with pytest.raises(dc.InputError, match="so many classes"):
        dc.designs.GradientTrace(wide, zeros, zeros, 1.0, zeros[0], None, curvature)


@every("kind", ["two", "three", "counts"])
@every("norm", [None, 1.0])
def test_the_determinant_moves_by_what_is_paid_for_and_no_less(kind: str, norm: float | None) -> None:
    """At the record that moves it most, in the corner of the bounds; and never more with others beside it."""
    made = over(kind, 2, norm=norm)
    response, worst = response_of(made), 0.0
    calibration = dc.designs.objective_perturbation(records=1).calibrate(made, dc.designs.Normal(made, 1.0), promise(1))
    convexity, rng = calibration.regularisation, RNG(8)
    corner = [1.0, 1.0] if norm is None else [norm / math.sqrt(2)] * 2
    for turn in range(100):
        others = rows(made, kind, 3, turn) if turn % 2 else None
        theta = np.zeros(made.weights) if turn < 2 else rng.normal(size=made.weights) * rng.choice([0.3, 2])
        if kind == "counts" and turn < 2:
            # Means are steepest where they end.
            theta[-1] = (math.log(12) - 1e-9) / made.constant
        added = dc.designs.read_rows(made, [corner], [targets(kind, 1, turn)[0]])
        one = dc.designs.sum_gradients(added).expansion(theta)[2]
        rest = np.zeros_like(one) if others is None else dc.designs.sum_gradients(others).expansion(theta)[2]
        logs = [np.linalg.slogdet(part + convexity * np.eye(made.weights))[1] for part in (rest, rest + one)]
        assert -1e-9 <= logs[1] - logs[0] <= float(calibration.curvature) * (1 + 1e-9)
        worst = max(worst, logs[1] - logs[0])
    assert worst >= 0.97 * float(calibration.curvature)
    assert response.rank * math.log1p(response.steepest * float(made.squared_length) / convexity) == pytest.approx(
        float(calibration.curvature)
    )


@pytest.mark.costly("Sensitivities of classes and counts, by all neighbours and many weights.", always=True)
@every("kind", ["three", "counts"])
@every("norm", [None, 1.0])
@every("relation", dc.tools.RECORD_RELATIONS)
def test_gradients_of_neighbours_are_no_further_apart_than_the_sensitivity(
    kind: str, norm: float | None, relation: dc.Relation
) -> None:
    made = over(kind, 2, norm=norm)
    apart(made, kind, relation)


@every("relation", dc.tools.RECORD_RELATIONS)
def test_many_classes_have_noise_of_a_diamond(relation: dc.Relation) -> None:
    """Ten classes: numbers whose absolute values sum to 2 at most, instead of ten of at most 1 each."""
    made = over("ten", 3)
    assert made.shape == "diamond" and over("ten", 3, norm=1.0).shape == "ball" and over("three", 3).shape == "cube"
    apart(made, "ten", relation)


def apart(made: dc.designs.Design, kind: str, relation: dc.Relation) -> None:
    """How far gradients of neighbours are from each other, beside what the calibration takes."""
    calibration = dc.designs.objective_perturbation(records=1).calibrate(
        made, dc.designs.Normal(made, 1.0), promise(1, relation)
    )  # fmt: skip
    lattice, worst, rng = 2.0**OBJECTIVE_BITS, 0.0, RNG(9)
    euclidean = math.sqrt(squared_gradient_sensitivity(made, relation)) / GRID_STEPS
    for turn in range(400):
        theta = rng.normal(size=made.weights) * rng.choice([1, 1e3])
        one, other = (dc.designs.sum_gradients(rows(made, kind, 1, 2 * turn + at)).expansion(theta)[1] for at in (0, 1))
        moved = one - other if relation is REPLACE else one
        size = {"cube": np.abs(moved).max(), "ball": np.linalg.norm(moved), "diamond": np.abs(moved).sum()}
        worst = max(worst, size[made.shape])
        assert np.linalg.norm(moved) <= euclidean * (1 + 1e-9)
    assert 0.9 * calibration.sensitivity <= worst * lattice <= calibration.sensitivity


# ------------------------------------------------------------------------------------------------------ with a delta


def gaussian_delta(mean: float, epsilon: float) -> float:
    """Delta at epsilon of a Gaussian that moves by so many deviations."""
    return float(ndtr(mean / 2 - epsilon / mean) - math.exp(epsilon + log_ndtr(-mean / 2 - epsilon / mean)))


@pytest.mark.costly("Noise that leaves one direction unpaid is found by exact losses in each.", always=True)
@every("kind", ["two", "three", "counts"])
@every("relation", dc.tools.RECORD_RELATIONS)
@every(("delta", "bits"), [("0.2", 32), ("1e-6", 32), ("1e-6", 14)])
def test_gaussian_noise_is_paid_for_in_all_directions(kind: str, relation: dc.Relation, delta: str, bits: int) -> None:
    """Every part that is asked for, by hand; exact hockey-sticks are a little below what the moments say.

    On a coarse lattice what its cells cost is seen.
    """
    with mock.patch.object(perturbation, "OBJECTIVE_BITS", bits):
        look_at_all_directions(kind, relation, delta, bits)


def look_at_all_directions(kind: str, relation: dc.Relation, delta: str, bits: int) -> None:
    made = over(kind, 25 if kind == "three" else 70)
    mechanism, guarantee = dc.designs.objective_perturbation(records=100), promise(2, relation, delta)
    calibration = mechanism.calibrate(made, dc.designs.Normal(made, 1.0), guarantee)
    assert calibration.rho and calibration.measured
    script = GaussianScript()
    mechanism.draw(dc.designs.sum_gradients(rows(made, kind, 5, 1)), dc.designs.Normal(made, 1.0), calibration, script)
    (_, first, scale, _), (_, _, polish, cube), *measured = [call for call in script.asked if call[0] != "laplace"]
    assert not first.any() and cube == "cube" and len(first) == made.weights
    assert [kind for kind, *_ in script.asked if kind != "laplace"] == ["gaussian", "k_norm", *3 * ["gaussian"]]
    lattice, moved = 2.0**bits, math.sqrt(squared_gradient_sensitivity(made, relation)) / GRID_STEPS
    squares = (moved * lattice / scale) ** 2
    for (_, values, part, _), asked in zip(measured, calibration.measured.scales, strict=True):
        assert part == asked
        squares += len(values) * (curvature_sensitivity(relation) / part) ** 2
    assert 0.999 * squares / 2 <= float(calibration.rho) and squares / 2 <= float(calibration.rho) * (1 + 1e-9)
    others = Fraction(4) / Fraction(polish) + calibration.curvature
    others += sum(1 / Fraction(asked) for kind, _, asked, _ in script.asked if kind == "laplace")
    slack = (30 * made.weights * scale + 2 * moved * lattice * math.sqrt(made.weights) + made.weights) / (2 * scale**2)
    left = float(guarantee.epsilon - others) - slack
    assert slack > 0
    alone = {"two": 1, "three": 2, "counts": 2}[kind]
    # Besides the vertices 0, at which the curvature alone tells; and the noise on the minimum is a factor of delta.
    corners = (alone if relation is ADD_REMOVE else (alone + 1) ** 2 - 1) + 1
    corners *= math.exp(4 / polish)
    spent = corners * gaussian_delta(math.sqrt(squares), left) + 2 * made.weights * math.exp(-(15**2) / 2)
    assert 0.1 * float(delta) <= spent <= float(delta)
    left = float(calibration.total - others) - slack
    paid_for = corners * converted(float(calibration.rho), left) + 2 * made.weights * math.exp(-(15**2) / 2)
    # On the coarse lattice the slack is that of less noise than is taken.
    assert float(delta) * (1 - (1e-4 if bits == 32 else 0.01)) <= paid_for <= float(delta) * (1 + 1e-6)
    assert calibration.total <= guarantee.epsilon <= calibration.total * Fraction(1001, 1000)


def converted(rho: float, epsilon: float) -> float:
    """Delta at epsilon of a zero-concentrated loss (Canonne, Kamath and Steinke, Proposition 12)."""
    order = 1 + np.geomspace(1e-3, 1e4, 200_001)
    logs = (order - 1) * (order * rho - epsilon) - np.log(order - 1) + order * np.log1p(-1 / order)
    return float(np.exp(logs.min()))


class GaussianScript(Script):
    """One that is asked for Gaussian noise, too."""

    def discrete_gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
        self._ask("gaussian", values, scale, "")
        return np.zeros(values.shape, np.int64)


Records = dict[tuple[float, float], int]
"""How many there are of a feature and a share of the target's bound, or a class."""


@pytest.mark.costly("The delta of a perturbed minimum is known by quadrature of its whole law only.", always=True)
@every("kind", ["two", "counts"])
@every("relation", dc.tools.RECORD_RELATIONS)
def test_a_perturbed_minimum_keeps_its_delta(kind: str, relation: dc.Relation) -> None:
    """Two weights: the whole law of the ideal minimum, by quadrature over the predictors of two kinds of records.

    Many records of both kinds hold it where one more has its longest gradient, and two that are replaced have nearly
    opposite ones. With half of the noise it would not be kept.
    """
    made, far, near = over(kind, 1), 1.0, 0.5
    promised, delta = promise(10, relation, "0.4"), 0.4
    calibration = perturbation._calibrate_with(made, promised, 1, None, measured=False, law=DiscreteGaussian)
    assert calibration.total <= promised.epsilon
    spend = float(promised.epsilon) - float(Fraction(4) / Fraction(calibration.polish))
    if relation is ADD_REMOVE:
        spend -= 1 / calibration.total_scale
    held: Records = {(far, 1): 3000, (near, 0): 3000}
    if kind == "counts":  # where means end, their slopes jump
        held |= {(far, 11 / 12): 1000, (near, 1 / 12): 1000}

    def told(scale: float) -> float:
        """The largest hockey-stick divergence of two neighbours' minima."""
        worst = 0.0
        for rest in ({(far, 0): 1}, held):
            more = [rest | {(x, y): rest.get((x, y), 0) + 1} for x in (far, near) for y in (0, 1)]
            ends = around(made, rest, calibration.regularisation, scale)
            laws = [minimum_law(records, ends, made, calibration.regularisation, scale) for records in (rest, *more)]
            pairs = [(0, at) for at in range(1, 5)] if relation is ADD_REMOVE else combinations(range(1, 5), 2)
            for p, q in ((laws[one], laws[other]) for pair in pairs for one, other in (pair, pair[::-1])):
                worst = max(worst, float(np.maximum(p - math.exp(spend) * q, 0).sum()))
        return worst

    scale = calibration.scale * 2.0**-OBJECTIVE_BITS
    assert told(scale) <= delta < told(scale / 2)


def around(made: dc.designs.Design, records: Records, convexity: float, scale: float) -> np.ndarray:
    """A grid of the predictors at 1 and .5 around the minimum without a tilt, shape (2, points)."""
    x, y = np.array([record for record, number in records.items() for _ in range(number)]).T
    target = np.rint(12 * y) if made.counted else np.where(y > 0, CLASSES.states[1], CLASSES.states[0])
    statistic, kinds = (
        dc.designs.sum_gradients(dc.designs.read_rows(made, x[:, None], target)),
        np.array([[1, 1], [0.5, 1]]),
    )
    w = perturbation.minimiser(statistic, np.zeros(2), convexity, 1e-6)
    moves = kinds @ np.linalg.inv(statistic.expansion(w)[2] + convexity * np.eye(2)) * scale
    return (kinds @ w)[:, None] + np.linalg.norm(moves, axis=1)[:, None] * np.linspace(-14, 14, 1001)


def minimum_law(
    records: Records, ends: np.ndarray, made: dc.designs.Design, convexity: float, scale: float
) -> np.ndarray:
    """Probabilities of the minimum over cells of that grid: normal b at it times the determinant of its slope."""
    response, (far, near) = response_of(made), ends
    w = np.array(np.broadcast_arrays(2 * (far[:, None] - near), 2 * near - far[:, None]))
    b, curvature = -convexity * w, convexity * np.eye(2)[:, :, None, None]
    for (x, y), number in records.items():
        along = (slice(None), None) if x == 1 else (None, slice(None))
        p, v = response.means((far if x == 1 else near)[None]), np.array([x, 1])
        b = b - number * v[:, None, None] * (p[0] - y)[along]
        curvature = curvature + number * np.outer(v, v)[:, :, None, None] * response.slopes(p)[0][along]
    determinant = curvature[0, 0] * curvature[1, 1] - curvature[0, 1] ** 2
    cell = 2 * (far[1] - far[0]) * (near[1] - near[0])
    found = np.asarray(np.exp(-(b**2).sum(axis=0) / (2 * scale**2)) / (2 * math.pi * scale**2) * determinant * cell)
    assert abs(found.sum() - 1) < 0.005
    return found


def test_with_a_delta_the_noise_is_that_which_is_less() -> None:
    few, many = over("two", 3), over("two", 80)
    found = [
        dc.designs.objective_perturbation(records=100).calibrate(
            made, dc.designs.Normal(made, 1.0), promise(1, delta="1e-6")
        )
        for made in (few, many)
    ]
    assert found[0].rho is None and found[1].rho is not None
    for epsilon, delta in ((1, "1e-47"), (600, "1e-6")):
        guarantee = promise(epsilon, delta=delta)
        found = dc.designs.objective_perturbation(records=100).calibrate(many, dc.designs.Normal(many, 1.0), guarantee)
        assert found.rho is None and found.total <= guarantee.epsilon


@every("kind", ["two", "three", "counts"])
def test_the_released_noise_is_as_stated(kind: str) -> None:
    """Of 200 simulations: the noise that leads to the released weights has the variance that the trace says."""
    made = over(kind, 20)
    mechanism, prior = (
        dc.designs.objective_perturbation(records=300, curvature=0),
        dc.designs.Normal(over(kind, 20), 1.0),
    )
    statistic, squares = dc.designs.sum_gradients(rows(made, kind, 300, 2)), []
    for delta in ("0", "0.01"):
        calibration = mechanism.calibrate(made, prior, promise(2, delta=delta))
        assert (calibration.rho is None) == (delta == "0")
        for seed in range(10):
            trace = mechanism.draw(statistic, prior, calibration, SimulatedNoise(RNG(seed)))
            b = -(trace.gradients[0] + statistic.expansion(trace.weights)[1])
            squares.append((b**2).mean() / trace.variance)
    # Of cubes the radius is common to all numbers: it varies by a twentieth.
    assert abs(np.mean(squares) - 1) < 0.15


# ----------------------------------------------------------------------------------------------- records and designs


def test_counts_are_whole_and_clipped() -> None:
    made = over("counts", 1)
    assert dc.designs.read_rows(made, [[0.0]] * 4, [0, 12, 13, 1e9]).target.tolist() == [0, 12, 12, 12]
    assert dc.designs.read_rows(made, [[0.0]], [-3]).target.tolist() == [0]
    with pytest.raises(dc.InputError, match="no whole number") as caught:
        dc.designs.read_rows(made, [[0.0]], [2.5])
    assert "2.5" not in str(caught.value)
    assert made.values(np.array([[GRID_STEPS, GRID_STEPS]]), np.array([7]))["visits"].tolist() == [7.0]


@every("bounds", [(1, 5), (0, 2.5), (0, 40_000), (-1, 3), (0, 0.5)])
def test_what_cannot_be_counted_is_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(dc.InputError, match="bounds from 0 to a whole number"):
        dc.designs.Design((numeric("x"),), dc.Variable("y", bounds=bounds), counted=True)


def test_each_statistic_has_its_targets() -> None:
    counts, three = (rows(over(kind), kind, 5, 1) for kind in ("counts", "three"))
    for given in (counts, three):
        with pytest.raises(dc.InputError, match="no count, or none"):
            dc.designs.sum_moments(given)
        with pytest.raises(dc.InputError, match="two classes"):
            dc.research.noisy_gradients(1, records=5).calibrate(
                given.design, dc.designs.Normal(given.design, 1.0), promise(1)
            )
    for target in (CLASSES, None):
        with pytest.raises(dc.InputError, match="bounds from 0"):
            dc.designs.Design((numeric("x"),), target, counted=True)
    with pytest.raises(dc.InputError, match="at most 1,000 weights"):
        wide = design(400, THREE)
        dc.designs.objective_perturbation(records=5).calibrate(wide, dc.designs.Normal(wide, 1.0), promise(1))


@every("shape", ["cube", "ball", "diamond", "normal"])
@every("size", [1, 4, 60])
def test_a_tilt_is_hardly_ever_as_long_as_the_rounding_is_summed_for(shape: str, size: int) -> None:
    """Of 300 draws: their lengths have the law that the bound is for, and lie far inside."""
    made = {
        "ball": over("two", size, norm=0.9),
        "diamond": over("ten", size),
    }.get(shape, over("two", size))
    assert shape in (made.shape, "normal")
    scale, noise, zeros = 2.0**20, SimulatedNoise(RNG(size)), np.zeros(made.weights, np.int64)
    law = DiscreteGaussian(scale) if shape == "normal" else KNorm(scale, made.weights, made.shape)
    drawn = np.array([law.add(zeros, noise) for _ in range(300)], float)
    lengths = np.sqrt((drawn**2).sum(axis=1)) / scale
    bound = perturbation._bound_tilt(made, law) * 2.0**OBJECTIVE_BITS / scale
    number = made.weights
    radius = bound / (math.sqrt(number) if shape in ("cube", "normal") else 1)
    if law.concentrated:
        assert radius == pytest.approx(15)
        assert 2 * number * math.exp(-(15**2) / 2) < 1e-41
    else:
        x, n = radius - 2, number + 1
        assert x >= 2 * n + 198 and math.exp(-(x - n - n * math.log(x / n))) < 1e-41
        of_norm = {"cube": np.abs(drawn).max(axis=1), "ball": lengths * scale, "diamond": np.abs(drawn).sum(axis=1)}
        assert of_norm[shape].mean() / scale == pytest.approx(number, rel=0.4, abs=0.6)
    assert lengths.max() < bound / 3
