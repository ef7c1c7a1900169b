"""Groups of indicators: what a record can be, the noise that is for it, and who may declare them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from design_cases import CLASSES, NUMBER, grouped, grouped_records, length, numeric, promise, rows_of
from discreet.designs.design import GRID_STEPS, CurvaturePart, least_shape
from discreet.designs.indicators import features_of, state_groups, worth_groups
from discreet.designs.kinds.gradient_trace import OBJECTIVE_BITS
from discreet.designs.made_up_designs import _simulate_rows, audit_designs
from discreet.designs.mechanisms import objective_perturbation as perturbation
from discreet.designs.records.gradients import curvature_sensitivity, gradient_sensitivity
from discreet.estimators.columns import declared_columns, indicated
from discreet.mechanisms.noise import SimulatedNoise
from discreet.noise.shapes import SHAPES, KNorm
from flawed import recalibrated
from folding import every

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
RNG = np.random.default_rng
BOUNDS = {"ward": tuple("ABCDEFGHIJ"), "dose": (0, 10), "sex": ("f", "m"), "site": tuple("klmnopq")}


def table(records: int, seed: int = 3) -> tuple[pd.DataFrame, np.ndarray]:
    """A number and three categories, and labels that depend on all."""
    rng = RNG(seed)
    codes = {name: rng.integers(len(states), size=records) for name, states in BOUNDS.items() if name != "dose"}
    dose = rng.uniform(0, 10, records)
    frame = pd.DataFrame({name: np.array(BOUNDS[name])[code] for name, code in codes.items()} | {"dose": dose})
    odds = (codes["ward"] - 4.5) / 3 + (dose - 5) / 4 + codes["sex"] - (codes["site"] == 2)
    return frame, (rng.random(records) < 1 / (1 + np.exp(-odds))).astype(int)


def estimator(
    epsilon: float = 100, relation: str = "replace", **options: Any
) -> dc.estimators.PrivateLogisticRegression:
    guarantee = promise(epsilon, relation)
    account = dc.Ledger("sqlite://").open("a", guarantee)
    return dc.estimators.PrivateLogisticRegression(
        **{
            "classes": (0, 1),
            "bounds": BOUNDS,
            "guarantee": guarantee,
            "account": account,
            "random_state": 1,
            **options,
        }
    )


# ------------------------------------------------------------------------------------------------------- what is least


@given(st.integers(1, 400), st.integers(1, 400))
def test_the_least_noise_is_that_of_a_cube_or_a_diamond(size: int, bound: int) -> None:
    """Among all three for a budget of 1, of vectors whose entries are at most 1 and whose absolute sum is at most L."""
    bound = min(bound, size)
    variances = {
        "cube": KNorm(1, size, "cube").raw_variance,
        "ball": KNorm(math.sqrt(bound), size, "ball").raw_variance,
        "diamond": KNorm(bound, size, "diamond").raw_variance,
    }
    assert variances[least_shape(size, bound)] <= min(variances.values()) * (1 + 1e-12)
    assert least_shape(size, size) == "cube"
    part = CurvaturePart(size, bound)
    assert part.width**2 / 3 == pytest.approx(variances[part.shape], rel=3 / size + 1e-9) or part.shape == "cube"


def test_noise_of_a_diamond_has_the_stated_moments() -> None:
    """The mixture of normal laws has the noise's second and fourth moment; of one coordinate it is the Laplace law."""
    source, zeros = SimulatedNoise(RNG(5)), np.zeros(7000, np.int64)
    noise = np.concatenate([source.k_norm(zeros, 1000.0, "diamond").reshape(-1, 7) for _ in range(100)]) / 1000
    order, unit = KNorm(1.0, 7, "diamond").mixture
    norms = (noise**2).sum(axis=1)
    assert norms.mean() == pytest.approx(7 * order * unit, rel=0.03)
    assert (norms**2).mean() == pytest.approx(7 * 9 * order * (order + 1) * unit**2, rel=0.1)
    assert noise.var() == pytest.approx(KNorm(1.0, 7, "diamond").raw_variance, rel=0.03)
    assert KNorm(1.0, 1, "diamond").mixture == (1, 2)


def test_columns_of_many_states_are_worth_groups_and_of_two_are_not() -> None:
    def states(sizes: list[int]) -> list[dc.Variable]:
        return [dc.Variable(f"c{at}", tuple(f"s{code}" for code in range(k))) for at, k in enumerate(sizes)]

    assert worth_groups(states([10] * 10)) and worth_groups([numeric("x"), *states([2, 8, 15])])
    assert not worth_groups(states([2] * 30)) and not worth_groups([numeric("x")]) and not worth_groups(states([3, 3]))
    columns = [*states([3, 2, 4])[:2], numeric("x"), states([3, 2, 4])[2]]
    assert [one.name for one in features_of(columns, grouped=True)] == [
        "c0=s0", "c0=s1", "c0=s2", "c1=s1", "x", "c2=s0", "c2=s1", "c2=s2", "c2=s3"
    ]  # fmt: skip
    assert state_groups(columns) == ((0, 1, 2), (5, 6, 7, 8))


# ------------------------------------------------------------------------------------------------------------- designs


def test_indicators_of_a_group_are_coordinates_as_they_are() -> None:
    over = grouped()
    assert (over.shape, over.units, over.size, over.squared_length) == ("diamond", 3, 14, Fraction(4))
    assert over.reach == 4 * GRID_STEPS and over.alone == (0,)
    record = np.array([[0.5, *np.eye(6)[2], *np.zeros(6)]])
    assert over.scaled(record).tolist() == [[0.5, *np.eye(6)[2], *np.zeros(6), 1.0]]
    slopes, intercept = over.slopes(np.arange(14.0))
    assert slopes.tolist() == list(range(13)) and intercept == 13
    values = over.values(np.array([[0, 0, GRID_STEPS, *[0] * 10, GRID_STEPS]]), np.array([0]))
    assert values["a1"] == [1] and values["a0"] == [0]
    assert over.curvature[2].size == len(over.pairs[0]) == 48
    without = dc.designs.Design(over.features, CLASSES)
    assert without.shape == "cube" and without.reach == GRID_STEPS and without != over


@every(
    ("groups", "message"),
    [
        (((1, 2), (2, 3)), "in two groups"), (((1, 1),), "in two groups"), (((),), "at least one feature"),
        (((12, 13),), "from 0 to 12"), (((-1, 2),), "from 0 to 12"), (((0, 1),), "'x' of a group needs the bounds"),
        (((1.5, 2),), "lists of positions"), ((True, False), "lists of positions"), (((True, 2),), "positions"),
        (7, "lists of positions"), (("ab",), "lists of positions"),
    ],
)  # fmt: skip
def test_groups_that_are_none_are_refused(groups: Any, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.designs.Design(grouped().features, CLASSES, groups=groups)


def test_a_norm_beside_groups_is_refused() -> None:
    with pytest.raises(dc.InputError, match="a norm or groups"):
        dc.designs.Design(grouped().features, CLASSES, 1.0, groups=((1, 2),))


# ------------------------------------------------------------------------------------------ records that may not be


BAD: dict[str, list[float]] = {
    "two ones": [1, 1, 0, 0, 0, 0],
    "a fraction": [0.5, 0, 0, 0, 0, 0],
    "a fraction that is rounded to 0": [1, 2.0**-14, 0, 0, 0, 0],
    "almost one": [1 - 2.0**-14, 0, 0, 0, 0, 0],
    "less than 0": [1, -1, 0, 0, 0, 0],
}
"""Coordinates of the second group that no record may have."""
SOURCES: dict[str, Callable[[np.ndarray, list[str], list[str]], dc.designs.Rows]] = {
    "array": lambda X, y, names: dc.designs.read_rows(grouped(), X, y),
    "list": lambda X, y, names: dc.designs.read_rows(grouped(), X.tolist(), y),
    "sparse": lambda X, y, names: dc.designs.read_rows(grouped(), scipy.sparse.coo_array(X), y),
    "frame": lambda X, y, names: dc.designs.read_rows(grouped(), pd.DataFrame(X, columns=names), y),
    "table": lambda X, y, names: dc.designs.read_rows(grouped(), pd.DataFrame(X, columns=names).assign(**{"class": y})),
    "records": lambda X, y, names: dc.designs.read_rows(
        grouped(), dc.read_records(pd.DataFrame(X, columns=names).assign(**{"class": y}), grouped().schema,
                                   out_of_bounds="error" if X.min() >= 0 and X.max() <= 1 else "clip")
    ),
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("held", [True, False])
def test_no_record_has_more_in_a_group_than_one_1(
    source: str, bad: str, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it comes from, in whatever block, and before anything is charged; the message has no value."""
    names = list(grouped().names)
    X = np.array([record[:-1] for record in grouped_records()], float)
    y = [record[-1] for record in grouped_records()]
    monkeypatch.setattr("discreet.designs.records.rows.BLOCK", 16)
    if not held:
        monkeypatch.setattr("discreet.designs.records.rows.HELD_BYTES", 0)
    whole = SOURCES[source](X, y, names)
    assert whole.records == len(X)
    assert np.abs(whole.coordinates).sum(axis=1).max() <= grouped().reach
    X[-2, 7:] = BAD[bad]
    with pytest.raises(dc.InputError, match=r"columns of a group are 0.*b0, b1, b2, b3, b4, b5 are not") as refused:
        SOURCES[source](X, y, names)
    assert not any(str(value) in str(refused.value) for value in BAD[bad] if value not in (0, 1))


def test_a_bad_record_costs_nothing() -> None:
    made = estimator(bounds=(0, 1), groups=[list(range(40))])
    X = np.eye(40)[RNG(1).integers(40, size=200)]
    X[7, :2] = 1
    with pytest.raises(dc.InputError, match="columns of a group"):
        made.fit(X, np.arange(200) % 2)
    assert made.account.balance().epsilon_spent == 0


# ---------------------------------------------------------------------------------------------------------- sensitivity


def curvature_moves(before: dc.designs.Gradients, after: dc.designs.Gradients, theta: np.ndarray) -> list[int]:
    """How far each vector of a curvature moves, in the norm of its shape."""
    parts = zip(before.curvature(theta), after.curvature(theta), before.over.curvature, strict=True)
    return [length(b - a, part.shape) for a, b, part in parts]


@pytest.mark.costly("A sensitivity that a record exceeds is found by neighbours at many points.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
def test_gradients_and_curvatures_in_groups_move_by_their_sensitivity_at_most(relation: dc.Relation) -> None:
    over, rng, reached = grouped(), RNG(7), np.zeros(5)
    assert [part.shape for part in over.curvature] == ["cube", "diamond", "diamond"]
    records, points = grouped_records(), [np.zeros(14), *(size * rng.normal(size=14) for size in (1, 30, 1e6))]
    most = [gradient_sensitivity(over, relation)] * 2
    most += [curvature_sensitivity(relation, part) for part in over.curvature]
    pairs = [([], [one]) for one in records] if relation is ADD_REMOVE else [
        ([one], [other]) for one, other in product(records[::5], records[::7])
    ]  # fmt: skip
    for shared in ([], records[:3] * 5):
        for one, other in pairs:
            before, after = (dc.designs.sum_gradients(rows_of(over, [*shared, *part])) for part in (one, other))
            for theta in points:
                moved = [length(after.at(theta) - before.at(theta), "diamond"),
                         length(after.signed() - before.signed(), "diamond"),
                         *curvature_moves(before, after, theta)]  # fmt: skip
                assert all(found <= allowed for found, allowed in zip(moved, most, strict=True))
                reached = np.maximum(reached, moved)
    # A weight and a square are reached by 0 to 1, so that what replaces a record moves them by half of the bound.
    tight = slice(None) if relation is ADD_REMOVE else [0, 1, 4]
    assert reached[tight].tolist() == np.array(most)[tight].tolist()


def test_a_curvature_in_groups_is_its_definition() -> None:
    """Entry by entry, each record's part rounded by itself; what it leaves out is known without it."""
    over, theta = grouped(), RNG(3).normal(size=14)
    rows = rows_of(over, grouped_records())
    weight, few, many = dc.designs.sum_gradients(rows).curvature(theta)
    totals = np.zeros((14, 14))
    squares = 0.0
    for steps in rows.coordinates:
        v = steps / GRID_STEPS
        p = 1 / (1 + math.exp(-(theta @ v)))
        totals += np.rint(GRID_STEPS * 4 * p * (1 - p) * np.outer(v, v))
        squares += np.rint(GRID_STEPS * 4 * p * (1 - p) * (2 * v[0] ** 2 - 1))
    assert weight[0] == totals[-1, -1]
    assert few.tolist() == [*totals[-1, :-1], squares]
    assert many.tolist() == totals[over.pairs].tolist()
    hidden = [
        (i, j) for i, j in zip(*np.triu_indices(13, 1), strict=True) if (i, j) not in set(zip(*over.pairs, strict=True))
    ]
    assert len(hidden) == 30 and all(totals[pair] == 0 for pair in hidden)
    assert np.array_equal(np.diag(totals)[1:13], totals[-1, 1:13])


@every("relation", dc.tools.RECORD_RELATIONS)
def test_the_calibration_is_for_the_diamond_and_its_lattice(relation: dc.Relation) -> None:
    over = grouped()
    mechanism = dc.designs.objective_perturbation(records=1000)
    found = mechanism.calibrate(over, dc.designs.Normal(over, 2.5), promise(1, relation.value))
    times = relation.by_record(1, 2)
    # Units, the constant, and half a cell of each coordinate at both ends.
    assert found.sensitivity == times * 4 * 2**OBJECTIVE_BITS + over.size
    exact = math.log1p(4 / (4 * found.regularisation))
    assert exact <= found.curvature <= exact * (1 + 1e-9)
    parts = [curvature_sensitivity(relation, part) / scale for part, scale in
             zip(over.curvature, found.measured.scales, strict=True)]  # fmt: skip
    assert float(found.measured.reported) == pytest.approx(sum(parts), rel=1e-12)
    assert found.total <= 1
    noise = math.sqrt(KNorm(found.scale * 2.0**-OBJECTIVE_BITS, 14, "diamond").raw_variance)
    assert found.regularisation == pytest.approx(noise / (perturbation.PREDICTOR_DEVIATION / 2), rel=0.2)


# ------------------------------------------------------------------------------------------------------------- audits


TINY = audit_designs()["two classes of a group"]
"""One group of two, whose noise is a diamond's, and all of whose records can be enumerated."""


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_the_audit_passes_a_group_and_finds_half_the_noise(relation: dc.Relation) -> None:
    def halved(calibration: Any) -> Any:
        return replace(calibration, scale=calibration.scale / 2)

    assert TINY.shape == "diamond" and SHAPES["diamond"].norm(np.array([3, -4])) == 7
    for honest in (dc.designs.objective_perturbation(records=30), dc.research.noisy_gradients(2, records=30)):
        (found,) = dc.audit(honest, promise(1, relation.value), {"group": TINY}, most=1)
        assert found.holds and not found.leak and 0.5 < found.measured <= 1
        (flawed,) = dc.audit(recalibrated(honest, halved), promise(1, relation.value), {"group": TINY}, most=1)
        assert not flawed.holds


def test_made_up_records_of_a_plan_are_such_as_a_design_takes() -> None:
    rows, _ = _simulate_rows(grouped(), 1000, RNG(2))
    shares = rows.coordinates[:, 1:13].reshape(-1, 2, 6).mean(axis=0) / GRID_STEPS
    assert np.all(np.abs(shares - 1 / 7) < 0.07)  # six deviations: false alarms below 1e-7


# ----------------------------------------------------------------------------------------------------------- estimator
def test_categories_stand_in_groups_where_that_is_less_noise() -> None:
    X, y = table(4000)
    fitted = estimator().fit(X, y)
    design = fitted.release_.over
    assert design.shape == "diamond" and [len(group) for group in design.groups] == [10, 7]
    assert fitted.coef_.shape == (1, 19) and len(fitted.feature_names_in_) == 4
    assert (fitted.predict(X) == y).mean() > 0.7
    assert np.allclose(fitted.coef_[0], design.slopes(fitted.release_.payload.weights)[0][np.argsort(fitted._columns)])
    back = dc.estimators.PrivateLogisticRegression.from_release(
        dc.Release.loads(fitted.release_.dumps()), classes=(0, 1), bounds=BOUNDS
    )
    assert np.array_equal(back.predict_proba(X[list(BOUNDS)]), fitted.predict_proba(X)) and back.groups is None
    assert dc.estimators.PrivateLogisticRegression.from_release(fitted.release_).groups == [
        list(g) for g in design.groups
    ]
    # Where a law of the features is declared, or a norm, they stand as before.
    for options in (
        {"norm": 2.0},
        {"method": "gradients"},
        {"curvature": True, "symmetric": True, "method": "objective"},
    ):
        assert estimator(**options).fit(X, y).release_.over.groups == ()


def test_a_table_of_categories_is_the_same_rows() -> None:
    X, y = table(500)
    columns, design = declared_columns(BOUNDS), estimator().fit(X, y).release_.over
    schema = dc.Schema((*columns, dc.Variable("class", ("0", "1"))))
    read = dc.read_records(X.assign(**{"class": y.astype(str)}), schema, out_of_bounds="clip")
    one = dc.designs.read_rows(design, read, columns=columns)
    features = indicated(columns, X[list(BOUNDS)].to_numpy(object), grouped=True)
    other = dc.designs.read_rows(design, features, y.astype(str))
    assert np.array_equal(one.coordinates, other.coordinates) and np.array_equal(one.target, other.target)
    assert set(one.coordinates[:, :10].sum(axis=1)) == {GRID_STEPS}
    # Columns of another coding than the design's: nothing stands where a feature is missing.
    others_of = dc.designs.Design
    for others in (
        others_of(features_of(columns, grouped=True), design.target),
        others_of(features_of(columns), design.target, groups=((0, 1),)),
    ):
        with pytest.raises(dc.InputError, match=r"the columns stand for|in the records' schema"):
            dc.designs.read_rows(others, read, columns=columns)
    tabled = estimator().fit(X.assign(**{"class": y.astype(str)}), target="class")
    assert tabled.release_.over == design


@every(
    "groups", [[[0, 1], [1, 2]], [[99, 100]], [[-1, 2]], [[0.5]], "01", [[True, 2]], [[]], [[10, 11]],
               [list(range(10))], None, [{"a": 1}], [[2**70]]]
)  # fmt: skip
def test_a_document_of_other_groups_is_refused(groups: Any) -> None:
    """Positions that are none, a feature that is no indicator, and groups that the rest of the document is not of."""
    X, y = table(300)
    document = json.loads(estimator().fit(X, y).release_.dumps())
    assert document["design"]["groups"] == [list(range(10)), list(range(12, 19))]
    assert dc.Release.loads(json.dumps(document)).over.groups == (tuple(range(10)), tuple(range(12, 19)))
    document["design"]["groups"] = groups
    with pytest.raises(dc.InputError):
        dc.Release.loads(json.dumps(document))


@every("given", ["positions", "names", "sparse"])
def test_arrays_of_indicators_are_declared_to_be_groups(given: str) -> None:
    X, y = table(4000)
    wards, sites = (pd.get_dummies(X[name]).to_numpy(float) for name in ("ward", "site"))
    both = np.hstack([sites, wards])
    if given == "names":
        frame = pd.DataFrame(both, columns=[f"c{at}" for at in range(17)])
        bounds = {f"c{at}": (0, 1) for at in reversed(range(17))}
        groups = [[f"c{at}" for at in range(7, 17)], [f"c{at}" for at in range(7)]]
        fitted = estimator(bounds=bounds, groups=groups).fit(frame, y)
        assert [len(group) for group in fitted.release_.over.groups] == [10, 7]
        assert fitted.release_.over.names[0] == "c16" and np.corrcoef(fitted.coef_[0][7:], np.arange(10))[0, 1] > 0.9
    else:
        told = scipy.sparse.csc_matrix(both) if given == "sparse" else both
        fitted = estimator(bounds=(0, 1), groups=[list(range(7)), range(7, 17)]).fit(told, y)
        assert fitted.release_.over.groups == (tuple(range(7)), tuple(range(7, 17)))
        assert np.array_equal(fitted.predict_proba(told), fitted.predict_proba(both))
        low, high = fitted.predict_interval(told[:50])
        assert low.shape == (50, 2) and np.all(low <= high)


@every(
    ("options", "message"),
    [
        ({"groups": [["nobody"]]}, "groups must be lists"), ({"groups": "dose"}, "groups must be lists"),
        ({"groups": [3.5]}, "must be lists"), ({"groups": [["sex"]]}, "a column of categories is a group by itself"),
        ({"groups": [[7]]}, "from 0 to 3"), ({"groups": [["dose"]]}, "needs the bounds 0 and 1"),
        ({"groups": [[1]], "norm": 1.0, "bounds": (0, 1)}, "a norm or groups"),
        ({"groups": [[True]]}, "groups must be lists"),
        ({"groups": [[0, 1]], "symmetric": True, "bounds": (0, 1)}, "leave out symmetric, or the groups"),
    ],
)  # fmt: skip
def test_groups_of_the_constructor_that_are_none_cost_nothing(options: dict[str, Any], message: str) -> None:
    X, y = table(100)
    made = estimator(**options)
    with pytest.raises(dc.InputError, match=message):
        made.fit(np.eye(4)[np.arange(100) % 4] if "bounds" in options else X, y)
    assert made.account.balance().epsilon_spent == 0


# --------------------------------------------------------------------------------------------------------------- sparse


@pytest.mark.parametrize("make", ["csr_matrix", "csc_array", "coo_array", "bsr_array"])
def test_sparse_records_are_the_same_rows(make: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.designs.records.rows.BLOCK", 64)
    rng = RNG(2)
    X = rng.normal(size=(300, 5)) * (rng.random((300, 5)) < 0.3) * 3
    over = dc.designs.Design(tuple(numeric(f"x{at}", -4, 2) for at in range(5)), NUMBER)
    y = rng.uniform(-3, 7, 300)
    one, other = dc.designs.read_rows(over, X, y), dc.designs.read_rows(over, getattr(scipy.sparse, make)(X), y)
    assert np.array_equal(one.coordinates, other.coordinates) and np.array_equal(one.target, other.target)
    broken = getattr(scipy.sparse, make)(np.where(X.max() == X, np.nan, X))
    with pytest.raises(dc.InputError, match="missing or infinite"):
        dc.designs.read_rows(over, broken, y)
    with pytest.raises(dc.InputError, match="5 features"):
        dc.designs.read_rows(over, getattr(scipy.sparse, make)(X[:, :3]), y)


def test_sparse_columns_that_were_standardised_are_refused() -> None:
    X = RNG(4).normal(size=(500, 3))
    X = scipy.sparse.csr_matrix((X - X.mean(axis=0)) / X.std(axis=0))
    with pytest.raises(dc.InputError, match="StandardScaler"):
        estimator(bounds=(-5, 5)).fit(X, np.arange(500) % 2)
