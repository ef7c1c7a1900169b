"""What one record can change: rounding to the grid, sums of products, gradients, and that no record touches another."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from design_cases import CLASSES, NUMBER, SHAPES, design, length, neighbours, numeric, rows_of
from discreet.designs.design import GRID_STEPS
from discreet.designs.records import rows as reading
from discreet.designs.records.gradients import gradient_sensitivity
from discreet.designs.records.moments import moment_sensitivity
from folding import every

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
RNG = np.random.default_rng


def long_rows(norm: float, size: int, number: int) -> np.ndarray:
    """Rows at the surface of a ball, a little inside and outside, far outside, along axes and on the grid."""
    rng = RNG(3)
    directions = rng.normal(size=(number, size))
    directions[::7, 1:] = 0
    directions[::5] = np.sign(directions[::5])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    factors = rng.choice([1, 1 - 2**-53, 1 + 2**-52, 1 - 1e-12, 1 + 1e-12, 1 + 1e-4, 0.999, 1.5, 1e9], (number, 1))
    found = directions * norm * factors
    found[::3] = np.rint(found[::3] * GRID_STEPS) / GRID_STEPS
    return found


# ---------------------------------------------------------------------------------------------------------- rounding


@every("norm", [2**-12, 0.01, 0.3, 0.5, 1 / 3, 1.0, math.sqrt(2), 1.7])
@every("size", [1, 2, 3, 20])
def test_no_rounding_makes_a_record_longer_than_the_norm(norm: float, size: int) -> None:
    if norm > math.sqrt(size):
        norm = math.sqrt(size)
    over = design(size, norm=norm)
    found = dc.designs.read_rows(over, long_rows(norm, size, 4000)).coordinates
    squares = (found[:, :-1] ** 2).sum(axis=1)
    most = (Fraction(norm) * GRID_STEPS) ** 2
    assert squares.max() <= most
    assert (found**2).sum(axis=1).max() <= over.squared_length * GRID_STEPS**2 <= over.reach**2
    assert np.all(found[:, -1] == over.constant * GRID_STEPS)
    # Nothing is shortened by more than rounding: one step on an axis, for each axis.
    assert math.sqrt(squares.max()) >= norm * GRID_STEPS - math.sqrt(size)


def test_coordinates_are_the_nearest_points_of_the_grid() -> None:
    over = dc.designs.Design((numeric("a", 0, 10), numeric("b", -2, 6)), NUMBER)
    features = RNG(1).uniform(-5, 15, (500, 2))
    target = RNG(2).uniform(-5, 9, 500)
    found = dc.designs.read_rows(over, features, target)
    inside = np.clip((features - [5, 2]) / [5, 4], -1, 1)
    assert np.all(np.abs(found.coordinates[:, :2] - GRID_STEPS * inside) <= 0.5 + 1e-9)
    assert np.all(found.coordinates[:, 2] == GRID_STEPS)
    assert np.all(np.abs(found.target - GRID_STEPS * np.clip((target - 2) / 5, -1, 1)) <= 0.5 + 1e-9)


HUGE = (1e308, -1e308, 1.7e308, 5e-324, -0.0)


@every("bounds", [(0, 1), (-1.7e308, 0), (1e308, 1.7e308), (-1.7e308, 1.7e308), (0, 1e-300)])
@every("norm", [None, 0.5])
def test_no_number_however_large_leaves_the_bounds_or_says_so(bounds: tuple[float, float], norm: float | None) -> None:
    """Warnings are errors here: a warning that only some records cause would be a word about them."""
    over = dc.designs.Design((dc.Variable("x", bounds=bounds),), dc.Variable("y", bounds=bounds), norm)
    found = dc.designs.read_rows(over, np.array(HUGE)[:, None], HUGE)
    assert np.abs(found.coordinates).max() <= GRID_STEPS
    assert np.abs(found.target).max() <= GRID_STEPS


@every("name", SHAPES)
def test_a_record_is_rounded_by_itself(name: str) -> None:
    """Bit by bit: alone, among others, and in any order."""
    norm, intercept = SHAPES[name]
    over = design(5, NUMBER, norm=norm, intercept=intercept)
    features, target = long_rows(0.5, 5, 1000), RNG(4).uniform(-4, 8, 1000)
    whole = dc.designs.read_rows(over, features, target)
    for number in (1, 2, 3, 5, 100, 1000):
        for seed in range(3):
            chosen = RNG(seed).permutation(1000)[:number]
            part = dc.designs.read_rows(over, features[chosen], target[chosen])
            assert np.array_equal(part.coordinates, whole.coordinates[chosen])
            assert np.array_equal(part.target, whole.target[chosen])


# ----------------------------------------------------------------------------------------------------------- moments


def slow_vector(rows: dc.designs.Rows, relation: dc.Relation) -> list[int]:
    """The released sums, from their definition, with Python's integers."""
    over, sums = rows.design, []
    for i, j in over.moments:
        total = 0
        for at in range(rows.records):
            record = [*map(int, rows.coordinates[at]), *([] if over.target is None else [int(rows.target[at])])]
            total += 2 * record[i] ** 2 - GRID_STEPS**2 if i == j else record[i] * record[j]
        sums.append(total)
    return sums if relation is REPLACE else [rows.records * GRID_STEPS**2, *sums]


@every("relation", dc.tools.RECORD_RELATIONS)
@every("target", [None, NUMBER], ids=["no target", "target"])
@every("intercept", [True, False])
def test_moments_move_by_their_sensitivity_at_most(
    relation: dc.Relation, target: dc.Variable | None, intercept: bool
) -> None:
    over, reached = design(2, target, intercept=intercept), 0.0
    for one, other in neighbours(over, relation):
        before, after = (dc.designs.sum_moments(rows_of(over, records)).vector(relation) for records in (one, other))
        reached = max(reached, length(after - before, "cube"))
        assert length(after - before, "cube") <= moment_sensitivity(relation)
    assert reached == moment_sensitivity(relation)
    assert moment_sensitivity(relation) == {ADD_REMOVE: 2**24, REPLACE: 2**25}[relation]


@given(st.data())
def test_moments_of_any_records_are_their_definition_and_move_no_further(data: st.DataObject) -> None:
    over = design(2, data.draw(st.sampled_from([None, NUMBER])), intercept=data.draw(st.booleans()))
    numbers = st.floats(-4, 8, width=32)
    wide = 2 + (over.target is not None)
    records = data.draw(st.lists(st.tuples(*[numbers] * wide), max_size=5))
    extra, place = data.draw(st.tuples(*[numbers] * wide)), data.draw(st.integers(0, len(records)))
    for relation in dc.tools.RECORD_RELATIONS:
        before = dc.designs.sum_moments(rows_of(over, records))
        assert before.vector(relation).tolist() == slow_vector(rows_of(over, records), relation)
        after = dc.designs.sum_moments(rows_of(over, [*records[:place], extra, *records[place:]]))
        moved = after.vector(relation) - before.vector(relation)
        assert length(moved, "cube") <= GRID_STEPS**2
    assert length(after.vector(ADD_REMOVE) - before.vector(ADD_REMOVE), "cube") == GRID_STEPS**2


def test_moments_in_blocks_are_the_sum_of_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    over = design(3, NUMBER)
    rows = dc.designs.read_rows(over, RNG(1).uniform(-1, 1, (100, 3)), RNG(2).uniform(-3, 7, 100))
    whole = dc.designs.sum_moments(rows)
    monkeypatch.setattr("discreet.designs.records.rows.BLOCK", 7)
    assert np.array_equal(dc.designs.sum_moments(rows).values, whole.values)


def test_gradients_in_blocks_are_the_sum_of_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    over = design(3, CLASSES)
    states = RNG(2).choice(list(CLASSES.states), 100)
    private, theta = (
        dc.designs.sum_gradients(dc.designs.read_rows(over, RNG(1).uniform(-1, 1, (100, 3)), states)),
        RNG(4).normal(size=4),
    )
    whole, (cost, slope, curvature) = private.at(theta), private.expansion(theta)
    monkeypatch.setattr("discreet.designs.records.rows.BLOCK", 7)
    assert np.array_equal(private.at(theta), whole)
    assert np.allclose(private.expansion(theta)[1], slope, rtol=0, atol=1e-12)
    assert np.allclose(private.expansion(theta)[2], curvature) and math.isclose(private.expansion(theta)[0], cost)


def test_scores_in_blocks_are_the_sum_of_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the records lie along one candidate, the later half along the other: all of them decide."""
    over = design(2, None, intercept=False)
    rows = dc.designs.read_rows(over, np.repeat([[0.9, 0.0], [0.0, 0.9]], [40, 60], axis=0))
    factor = dc.research.DirectionFactor([[0.5, 0.0], [0.0, 0.5]], noise_variance=0.01, tau=4.0)
    promise = dc.Guarantee(epsilon=100, delta=0, relation="replace", unit="record")
    monkeypatch.setattr("discreet.research.mechanisms.factored.FACTOR_BLOCK", 7)
    made = dc.simulate(dc.research.factored(factor), rows, dc.designs.Normal(over, 1.0), promise, rng=RNG(1))
    assert made.payload.index == 1


def test_sums_of_the_most_records_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at a corner: within 2^53, to which floats are exact."""
    assert reading.RECORDS_LIMIT * GRID_STEPS**2 <= 2**53
    monkeypatch.setattr("discreet.designs.records.rows.RECORDS_LIMIT", 10)
    over = design(1, NUMBER)
    with pytest.raises(dc.InputError, match="at most 10 records"):
        dc.designs.read_rows(over, np.zeros((11, 1)), np.zeros(11))


# --------------------------------------------------------------------------------------------------------- gradients

THETAS = {"0": 0.0, "1": 1.0, "30": 30.0, "1e6": 1e6, "1e200": 1e200}


@pytest.mark.costly("Sensitivities of gradients, by all neighbours of small data sets and far weights.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
@every("name", SHAPES)
def test_gradients_move_by_their_sensitivity_at_most(relation: dc.Relation, name: str) -> None:
    norm, intercept = SHAPES[name]
    over, reached, rng = design(2, CLASSES, norm=norm, intercept=intercept), {"at": 0.0, "signed": 0.0}, RNG(7)
    most = gradient_sensitivity(over, relation)
    points = [size * rng.normal(size=over.size) for size in THETAS.values()]
    points += [np.full(over.size, sign * 1e3) for sign in (-1, 1)] + [1e6 * np.eye(over.size)[0]]
    for one, other in neighbours(over, relation):
        before, after = (dc.designs.sum_gradients(rows_of(over, records)) for records in (one, other))
        moves = {"signed": [after.signed() - before.signed()], "at": [after.at(p) - before.at(p) for p in points]}
        for kind, found in moves.items():
            reached[kind] = max(reached[kind], *(length(move, over.shape) for move in found))
    assert reached["at"] <= most
    assert reached["signed"] <= most
    # Whole coordinates cannot fill a ball to the last step: one on each axis, for each record that moves.
    short = 0 if over.shape == "cube" else 2 * (math.sqrt(over.size) + 1)
    assert reached["signed"] >= most - short
    assert reached["at"] >= most - short


@given(st.data())
def test_gradients_at_any_weights_move_by_one_record_at_most(data: st.DataObject) -> None:
    norm, intercept = SHAPES[data.draw(st.sampled_from(sorted(SHAPES)))]
    over = design(3, CLASSES, norm=norm, intercept=intercept)
    coordinates = st.tuples(*[st.floats(-1.5, 1.5)] * 3, st.sampled_from(CLASSES.states))
    records = data.draw(st.lists(coordinates, max_size=4))
    theta = np.array(data.draw(st.lists(st.floats(-1e9, 1e9), min_size=over.size, max_size=over.size)))
    extra = data.draw(coordinates)
    before, after = (dc.designs.sum_gradients(rows_of(over, part)) for part in (records, [*records, extra]))
    alone = dc.designs.sum_gradients(rows_of(over, [extra]))
    for found, more, part in ((before.at(theta), after.at(theta), alone.at(theta)),
                              (before.signed(), after.signed(), alone.signed())):  # fmt: skip
        assert np.array_equal(more - found, part)
        assert length(part, over.shape) <= gradient_sensitivity(over, ADD_REMOVE)
        assert np.all(np.abs(part) <= np.abs(alone.rows.coordinates[0]))


def test_gradients_are_their_definition() -> None:
    over = design(2, CLASSES)
    records = [(0.5, -0.25, "yes"), (-1, 1, "no"), (0.125, 0, "yes")]
    found, theta = dc.designs.sum_gradients(rows_of(over, records)), np.array([0.3, -2.0, 0.5])
    exact = np.zeros(3)
    for x0, x1, y in records:
        v = np.array([x0, x1, 1.0])
        exact += ((y == "yes") - 1 / (1 + math.exp(-(theta @ v)))) * v
    assert np.all(np.abs(found.at(theta) - GRID_STEPS * exact) <= 0.5 * len(records))
    assert found.signed().tolist() == [int(GRID_STEPS * (0.5 + 1 + 0.125)), int(GRID_STEPS * (-0.25 - 1)), GRID_STEPS]
    _, slope, curvature = found.expansion(theta)
    assert np.allclose(slope, -exact, atol=1e-12)
    ahead = [(found.expansion(theta + 1e-5 * e)[1] - found.expansion(theta - 1e-5 * e)[1]) / 2e-5 for e in np.eye(3)]
    assert np.allclose(curvature, ahead, atol=1e-8)
    rise = [(found.expansion(theta + 1e-5 * e)[0] - found.expansion(theta - 1e-5 * e)[0]) / 2e-5 for e in np.eye(3)]
    assert np.allclose(slope, rise, atol=1e-8)


@every("name", SHAPES)
def test_a_records_gradient_depends_on_no_other_record(name: str) -> None:
    norm, intercept = SHAPES[name]
    over, rng = design(4, CLASSES, norm=norm, intercept=intercept), RNG(8)
    features, states = rng.uniform(-1, 1, (1000, 4)), rng.choice(CLASSES.states, 1000)
    theta = rng.normal(size=over.size) * 3
    each = np.array(
        [
            dc.designs.sum_gradients(dc.designs.read_rows(over, features[[i]], states[[i]])).at(theta)
            for i in range(1000)
        ]
    )
    for number in (1, 2, 3, 5, 100, 1000):
        for seed in range(3):
            chosen = RNG(seed).permutation(1000)[:number]
            found = dc.designs.sum_gradients(dc.designs.read_rows(over, features[chosen], states[chosen])).at(theta)
            assert np.array_equal(found, each[chosen].sum(axis=0))


def test_not_even_the_rounding_of_a_gradient_depends_on_other_records() -> None:
    """Where `theta . v` is 0 but for rounding, half an odd number of steps is rounded: the last bit decides."""
    over, rng = design(8, CLASSES, intercept=False), RNG(8)
    features = np.repeat((2 * rng.integers(-GRID_STEPS // 2, GRID_STEPS // 2, (200, 1)) + 1) / GRID_STEPS, 8, axis=1)
    theta = rng.normal(size=8) * 30
    theta[-1] = -theta[:-1].sum()
    states = ["yes"] * 200
    each = np.array(
        [dc.designs.sum_gradients(dc.designs.read_rows(over, features[[i]], states[:1])).at(theta) for i in range(200)]
    )
    for number in (2, 3, 5, 200):
        found = dc.designs.sum_gradients(dc.designs.read_rows(over, features[:number], states[:number])).at(theta)
        assert np.array_equal(found, each[:number].sum(axis=0))


def test_a_records_factors_depend_on_no_other_record() -> None:
    rng = RNG(9)
    factor = dc.research.DirectionFactor(dc.research.spread_candidates(4, 30, [0.5, 1.0]), noise_variance=0.3, tau=2.0)
    rows = rng.integers(-GRID_STEPS, GRID_STEPS + 1, (1000, 4)) / GRID_STEPS
    each = np.concatenate([factor.steps(rows[[at]]) for at in range(1000)])
    for number in (2, 3, 5, 100, 1000):
        for seed in range(3):
            chosen = RNG(seed).permutation(1000)[:number]
            assert np.array_equal(factor.steps(rows[chosen]), each[chosen])


# ------------------------------------------------------------------------------------------------------------ errors


@every(
    ("features", "target", "message"),
    [
        ([[0.0]], ["yes"], "2 features"),
        ([0.0, 1.0], ["yes"], "2 features"),
        ([[0.0, math.nan]], ["yes"], "'x1' holds a value that is missing"),
        ([[math.inf, 0.0]], ["yes"], "'x0' holds a value that is missing or infinite"),
        ([["a", "b"]], ["yes"], "must be numbers"),
        ([[10**400, 0]], ["yes"], "must be numbers"),
        ([[0.0, 0.0]], None, "exactly where"),
        ([[0.0, 0.0]], ["maybe"], "none of the declared classes"),
        ([[0.0, 0.0]], [None], "none of the declared classes"),
        ([[0.0, 0.0]], [0], "none of the declared classes"),
        ([[0.0, 0.0]], ["yes", "no"], "one value for each record"),
        ([[0.0, 0.0]], "yes", "one value for each record"),
    ],
)  # fmt: skip
def test_records_that_are_none_are_refused(features: object, target: object, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.designs.read_rows(design(2, CLASSES), features, target)


@every("value", [math.nan, math.inf, "many", 10**400])
def test_a_numeric_target_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(dc.InputError, match="'number'"):
        dc.designs.read_rows(design(1, NUMBER), [[0.0]], [value])


def test_a_target_where_there_is_none_and_statistics_of_another_target_are_refused() -> None:
    with pytest.raises(dc.InputError, match="exactly where"):
        dc.designs.read_rows(design(1), [[0.0]], [1.0])
    with pytest.raises(dc.InputError, match="numeric target"):
        dc.designs.sum_moments(rows_of(design(1, CLASSES), [(0, "yes")]))
    for over, record in ((design(1, NUMBER), (0, 1)), (design(1), (0,))):
        with pytest.raises(dc.InputError, match="classes, or of counts"):
            dc.designs.sum_gradients(rows_of(over, [record]))


def test_no_records_are_records() -> None:
    rows = rows_of(design(2, CLASSES), [])
    assert (rows.records, rows.coordinates.shape) == (0, (0, 3))
    assert dc.designs.sum_gradients(rows).at(np.ones(3)).tolist() == [0, 0, 0]
    assert dc.designs.sum_gradients(rows).signed().tolist() == [0, 0, 0]
    assert dc.designs.sum_moments(rows_of(design(1), [])).vector(ADD_REMOVE).tolist() == [0, 0, 0]
