"""Bounds found in a first release: what it counts, what it costs, what follows from it alone, and what it warns of."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dc
from discreet.estimators import found_bounds
from discreet.estimators.contract import ArrayInput
from discreet.estimators.found_bounds import HISTOGRAM_CELLS, ClippedWarning
from discreet.estimators.table_input import FitSource, TableInput
from discreet.mechanisms.noise import ExactNoise
from discreet.noise.noise_laws import Laplace

AMPLE = 400
"""Epsilon with which noise in a cell of a handful of columns exceeds one record once in 10^20 draws."""
DESIGN = dc.designs.Design(
    (dc.Variable("a", bounds=(0, 30)), dc.Variable("b", bounds=(-1, 1))), dc.Variable("y", bounds=(0, 9))
)
NETWORK = dc.Network(
    tuple(found_bounds._cut_into_cells(variable) for variable in DESIGN.schema), dict.fromkeys(("a", "b", "y"), ())
)


def promise(epsilon: Any = AMPLE, relation: str = "add-remove", delta: Any = 0, unit: str = "record") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)


def opened(limit: dc.Guarantee) -> dc.results.Account:
    return dc.Ledger("sqlite://").open("records", limit)


def records(n: int = 3000, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Two columns within -3 and 3, and a target that follows them."""
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(n, 2)), -3, 3)
    return X, X @ [1.0, -0.5] + 0.3 * rng.normal(size=n)


def linear(guarantee: dc.Guarantee, **options: Any) -> dc.estimators.PrivateLinearRegression:
    """Bounds ten times too wide."""
    given = {"bounds": (-30, 30), "target_bounds": (-50, 50), "account": opened(guarantee), "random_state": 1}
    return dc.estimators.PrivateLinearRegression(guarantee=guarantee, **{**given, **options})


def logistic(guarantee: dc.Guarantee, **options: Any) -> dc.estimators.PrivateLogisticRegression:
    given = {"classes": (False, True), "bounds": (-30, 30), "account": opened(guarantee), "random_state": 1}
    return dc.estimators.PrivateLogisticRegression(guarantee=guarantee, **{**given, **options})


EACH = pytest.mark.parametrize(
    ("make", "labelled"), [(linear, lambda y: y), (logistic, lambda y: y > 0)], ids=["linear", "logistic"]
)
Make = Callable[..., Any]


# ------------------------------------------------------------------------------------------------------- the statistic


def histograms(table: np.ndarray) -> dict[str, np.ndarray]:
    rows = dc.designs.read_rows(found_bounds._widen_design(DESIGN), table[:, :2], table[:, 2])
    return dict(found_bounds._count_histograms(rows, NETWORK).tables)


@pytest.mark.parametrize(("relation", "most"), [("add-remove", 1), ("replace", 2)])
def test_a_record_moves_each_histogram_by_one_cell(relation: str, most: int) -> None:
    rng, reached = np.random.default_rng(3), 0
    for _ in range(60):
        table = rng.normal(5, 20, (6, 3))
        other = table[1:] if relation == "add-remove" else np.vstack([rng.normal(5, 20, 3), table[1:]])
        moved = [np.abs(one - two).sum() for one, two in zip(
            histograms(table).values(), histograms(other).values(), strict=True)]  # fmt: skip
        assert max(moved) <= most
        reached += sum(moved) == 3 * most
    assert reached


def test_ends_of_the_bounds_are_inside_and_what_is_beyond_is_not() -> None:
    lower, upper = np.array([0.0, -1.0, 0.0]), np.array([30.0, 1.0, 9.0])
    step = (upper - lower) / (HISTOGRAM_CELLS - 2)
    found = histograms(np.array([lower, upper, lower - step / 100, upper + step / 100, upper * 1e300]))
    for table in found.values():
        assert (table[0], table[1], table[-2], table[-1], table.sum()) == (1, 1, 1, 2, 5)


def test_cells_are_those_that_the_release_names() -> None:
    rng = np.random.default_rng(4)
    table = rng.uniform([-3, -1.2, -1], [33, 1.2, 10], (500, 3))
    for at, (name, counted) in enumerate(histograms(table).items()):
        edges = NETWORK.schema[name].edges
        exact = np.histogram(table[:, at], [-np.inf, *edges[1:-1], np.inf])[0]
        # The grid moves a number by a step of 1/256 of a cell at most.
        assert np.abs(counted - exact).sum() <= 12
        assert NETWORK.schema[name].states[0] == "below"


# ------------------------------------------------------------------------------------------------------------- charges


@EACH
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_two_charges_are_what_was_asked_and_each_comes_before_its_noise(
    make: Make, labelled: Any, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = records()
    estimator, seen = make(promise(3, relation)), set()

    def watched(whole: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(noise: Any, values: Any, *arguments: Any, **options: Any) -> Any:
            seen.add((np.size(values) == HISTOGRAM_CELLS * len(estimator_columns), len(estimator.account.charges())))
            return whole(noise, values, *arguments, **options)

        return drawn

    estimator_columns = ["x0", "x1", *(["target"] if make is linear else [])]
    for name in ("discrete_laplace", "k_norm"):
        monkeypatch.setattr(ExactNoise, name, watched(getattr(ExactNoise, name)))
    fitted = estimator.fit(X, labelled(y))
    first, second = fitted.account.charges()
    assert (True, 1) in seen
    assert {charged for histogram, charged in seen if not histogram} == {2}
    assert (first.release, second.release) == (fitted.bounds_release_.id, fitted.release_.id)
    assert dc.tools.compose([first.guarantee, second.guarantee]) == promise(3, relation)
    assert fitted.bounds_release_.guarantee == first.guarantee
    assert fitted.release_.guarantee == second.guarantee
    assert list(fitted.found_bounds_) == estimator_columns


def test_a_delta_is_shared_or_left_to_the_fit() -> None:
    for columns, name in ((2, "laplace"), (40, "gaussian")):
        guarantee = promise(50, delta="1e-3")
        fitted = linear(guarantee, find_bounds=0.1).fit(np.tile(records()[0], (1, columns // 2)), records()[1])
        assert fitted.bounds_release_.mechanism == name
        assert dc.tools.compose([charge.guarantee for charge in fitted.account.charges()]) == guarantee


@EACH
def test_what_is_refused_costs_nothing(make: Make, labelled: Any) -> None:
    X, y = records()
    short = opened(promise(2))
    with pytest.raises(dc.BudgetError, match="epsilon asked 3"):
        make(promise(3), account=short).fit(X, labelled(y))
    for options, wrong in (
        ({"find_bounds": 1}, "'auto', None, or a share"),
        ({"find_bounds": "much"}, "find_bounds must be a finite number"),
        ({"records": 0}, "records is a whole number"),
        ({"prior_deviation": 1e13}, "standard deviation"),
    ):
        estimator = make(promise(), **options)
        with pytest.raises(dc.InputError, match=wrong):
            estimator.fit(X, labelled(y))
        assert not estimator.account.charges()
    unclear = make(promise(unit="patient"))
    with pytest.raises(dc.InputError, match="nothing tells them apart"):
        unclear.fit(X, labelled(y))
    assert not unclear.account.charges()
    assert not short.charges()


def test_a_fit_that_its_mechanism_refuses_costs_nothing() -> None:
    X, y = records()
    for estimator in (
        logistic(promise(3, delta="1e-6"), method="gradients"),
        logistic(promise(5000)),
        linear(promise("1e-15")),
    ):
        with pytest.raises(dc.InputError):
            estimator.fit(X, y > 0 if isinstance(estimator, dc.estimators.PrivateLogisticRegression) else y)
        assert not estimator.account.charges()


def test_a_request_has_a_key_for_each_release_and_is_made_once() -> None:
    ledger = dc.Ledger("sqlite://")
    ledger.open("records", promise(900))
    account = ledger.account("records", request="monday")
    estimator = linear(promise(), account=account).fit(*records())
    assert len(account.charges()) == 2
    with pytest.raises(dc.InputError, match="was charged before"):
        estimator.fit(*records())
    assert len(account.charges()) == 2


@pytest.mark.parametrize(
    "estimator",
    [
        linear(promise(), fit_intercept=False),
        linear(promise(), method="exact"),
        logistic(promise(), norm=1.0),
        logistic(promise(), symmetric=True, records=1000),
        logistic(promise(), method="gradients", records=1000, symmetric=True),
    ],
    ids=["no intercept", "exact", "norm", "symmetric", "gradients"],
)
def test_bounds_that_something_is_declared_by_stay(estimator: Any) -> None:
    X, y = records()
    y = y if isinstance(estimator, dc.estimators.PrivateLinearRegression) else y > 0
    with pytest.raises(dc.InputError, match="must stay"):
        estimator.set_params(find_bounds=0.1).fit(X, y)
    assert not estimator.account.charges()
    fitted = estimator.set_params(find_bounds="auto").fit(X, y)
    assert len(estimator.account.charges()) == 1
    assert fitted.bounds_release_ is fitted.found_bounds_ is fitted.clipped_ is None


def test_columns_whose_cells_floats_cannot_tell_apart_stay() -> None:
    X, y = records()
    fitted = linear(promise(), bounds=([-1.7e308, -30], [1.7e308, 30])).fit(X, y)
    assert list(fitted.found_bounds_) == ["x1", "target"]


def test_auto_asks_whether_the_noise_leaves_anything() -> None:
    X, y = records(200)
    assert linear(promise("0.5", "replace")).fit(X, y).bounds_release_ is None
    assert linear(promise("0.5"), records=200).fit(X, y).bounds_release_ is None
    # Nobody says how many records there are: a tenth is spent, and the noise is too much to narrow anything by it.
    unknown = linear(promise("0.05")).fit(X, y)
    assert unknown.bounds_release_.guarantee.epsilon == unknown.guarantee.epsilon / 10
    assert unknown.found_bounds_ == {"x0": (-30, 30), "x1": (-30, 30), "target": (-50, 50)}
    more = [linear(promise(epsilon, "replace")).fit(*records()) for epsilon in (1, 30)]
    assert more[0].bounds_release_.guarantee.epsilon == more[0].guarantee.epsilon / 5
    assert more[1].bounds_release_.guarantee.epsilon == more[1].guarantee.epsilon / 50


# ------------------------------------------------------------------------------------------- what follows from it alone


@EACH
def test_bounds_are_found_in_the_release_alone(make: Make, labelled: Any) -> None:
    """With noise of many records those of exact histograms would agree once in 10^5 runs, and so would their sums."""
    X, y = records()
    fitted = make(promise(1), find_bounds=0.1).fit(X, labelled(y))
    columns = [dc.Variable(name, bounds=(-30, 30)) for name in ("x0", "x1")]
    target = dc.Variable("target", bounds=(-50, 50)) if make is linear else dc.Variable("class", ("False", "True"))
    read = dc.Release.loads(fitted.bounds_release_.dumps())
    assert any(table.sum() != len(y) for table in read.payload.tables.values())
    again = found_bounds._read_bounds(read, dc.designs.Design(tuple(columns), target))
    assert dict(again.clipped) == fitted.clipped_
    assert {name: one.bounds for name, one in again.clipped.items()} == fitted.found_bounds_
    used = {variable.name: variable.bounds for variable in fitted.release_.over.schema if variable.numeric}
    assert used == fitted.found_bounds_


@EACH
def test_wide_bounds_become_those_of_the_records_and_the_second_release_is_enough(make: Make, labelled: Any) -> None:
    X, y = records()
    fitted = make(promise()).fit(X, labelled(y))
    assert fitted.found_bounds_["x0"] == fitted.found_bounds_["x1"] == (-4, 4)
    assert fitted.release_.policy.out_of_bounds == "clip"
    again = type(fitted).from_release(dc.Release.loads(fitted.release_.dumps()))
    assert np.array_equal(again.coef_, fitted.coef_)
    assert again.bounds_release_ is None
    held = fitted.__getstate__()
    assert isinstance(held["bounds_release_"], str)
    on_disk = dc.estimators.PrivateLinearRegression.__new__(type(fitted))
    on_disk.__setstate__(held)
    assert on_disk.bounds_release_.dumps() == fitted.bounds_release_.dumps()
    assert isinstance(pickle.dumps(on_disk.clipped_), bytes)


@EACH
def test_a_release_with_found_bounds_is_read_by_those_that_were_declared(make: Make, labelled: Any) -> None:
    (X, y), bounds = records(), {"a": (-30, 30), "b": (-30, 30), "sex": ("f", "m")}
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sex": np.where(X[:, 1] > 0, "f", "m")})
    fitted = make(promise(), bounds=bounds).fit(frame, labelled(y))
    assert fitted.found_bounds_["a"] == (-4, 4)
    again = type(fitted).from_release(fitted.release_, bounds=bounds)
    assert again.bounds == {"a": (-4, 4), "b": (-4, 4), "sex": ("f", "m")}
    assert again.predict(frame).astype(str).tolist() == fitted.predict(frame).astype(str).tolist()  # labels by name
    for wrong in ({**bounds, "a": (-3, 30)}, {**bounds, "c": (0, 1)}, {**bounds, "sex": ("m", "f")}):
        with pytest.raises(
            dc.InputError, match="pass the bounds that were declared to the fit, by column: a -4 to 4, b -4 to 4"
        ):
            type(fitted).from_release(fitted.release_, bounds=wrong)


@pytest.mark.costly("Bounds that cost more than they save are found by errors of many releases.")
def test_narrow_bounds_are_better_where_bounds_are_wide() -> None:
    """At epsilon 1, R2 is below .7 in 8 of 100 fits with found bounds, and above in 16 with those declared.

    A median of fifteen is then on the wrong side for one seed in 1,000; .93 is what there is without privacy.
    """
    (X, y), found = records(8000), dict[Any, float]()
    for asked in ("auto", None):
        fits = [linear(promise(1), scored_records="public", find_bounds=asked).fit(X, y) for _ in range(15)]
        found[asked] = float(np.median([fitted.score(X, y) for fitted in fits]))
    assert found["auto"] > 0.7 > found[None]


@pytest.mark.parametrize("seed", range(20))
def test_cells_that_are_kept_hold_nearly_all_and_are_the_fewest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = np.zeros(HISTOGRAM_CELLS)
    start, end = sorted(rng.choice(np.arange(1, HISTOGRAM_CELLS), 2, replace=False))
    table[start:end] = rng.integers(50, 100, end - start)
    low, high = found_bounds.occupied(table, table.sum(), 0.0)
    assert 1 <= low < high <= HISTOGRAM_CELLS - 1
    assert table[low:high].sum() >= (1 - found_bounds.LEFT_OUT_SHARE) * table.sum()
    wide = (end - start) * found_bounds.LEAST_NARROWING > HISTOGRAM_CELLS - 2
    assert (low, high) == ((1, HISTOGRAM_CELLS - 1) if wide else (start, end))


def test_bounds_of_whole_numbers_stay_whole_and_categories_stay_as_they_are() -> None:
    rng = np.random.default_rng(2)
    age, sex = rng.integers(50, 54, 4000), rng.choice(["f", "m"], 4000)
    frame = pd.DataFrame({"age": age, "sex": sex, "cost": age + 2.0 * (sex == "m") + rng.normal(size=4000)})
    schema = dc.Schema(
        (
            dc.Variable("age", bounds=(0, 100), type="integer"),
            dc.Variable("sex", ("f", "m")),
            dc.Variable("cost", bounds=(0, 1000)),
        )
    )
    found = dc.read_records(frame, schema)
    guarantee = promise()
    estimator = linear(guarantee, bounds=None, target_bounds=(0, 1000)).fit(found, target="cost")
    assert list(estimator.found_bounds_) == ["age", "cost"]
    assert estimator.found_bounds_["age"] == (50, 54)
    assert estimator.found_bounds_["cost"] == (1000 / 30, 2000 / 30)
    # The policy of the records was to refuse; by the narrower bounds numbers are moved, and the release says so.
    assert (found.policy.out_of_bounds, estimator.release_.policy.out_of_bounds) == ("error", "clip")
    assert estimator.coef_ == pytest.approx([1, 2], abs=0.2)


def test_tables_are_counted_like_arrays(tmp_path: Path) -> None:
    X, y = records()
    frame = pd.DataFrame({"a": 5 * X[:, 0], "b": X[:, 1], "y": y})
    frame.to_parquet(tmp_path / "records.parquet")
    bounds = {"a": (0, 30), "b": (-1, 1)}
    columns = tuple(dc.Variable(name, bounds=pair) for name, pair in bounds.items())
    wide = found_bounds._widen_design(DESIGN)
    array = ArrayInput(frame[["a", "b"]].to_numpy(), y, None, (None, 2), None).rows(wide, np.arange(2), None, False)
    source = FitSource(tmp_path / "records.parquet", target="y")
    table = TableInput(source, columns, False, target_column=DESIGN.target)
    one, two = (
        found_bounds._count_histograms(rows, NETWORK).tables
        for rows in (array, table.rows(wide, np.arange(2), None, False))
    )
    assert all(np.array_equal(one[name], two[name]) for name in one)


# ---------------------------------------------------------------------------------------------- what lies outside
def test_what_lies_outside_of_the_bounds_is_told_and_warned_of() -> None:
    X, y = records()
    with pytest.warns(ClippedWarning, match=r"x0 \(1[0-9]%\); coefficients .* refer to the clipped columns"):
        fitted = linear(promise(), bounds=([-1, -30], [5, 30])).fit(X, y)
    below = int(np.sum(X[:, 0] < -1))
    told = fitted.clipped_["x0"]
    assert abs(told.below - below) < 12  # rounded to a 256th of a cell, and noise below one
    assert told.below_interval[0] < told.below < told.below_interval[1]
    assert told.above == 0
    assert told.above_interval[0] == 0


def test_intervals_of_what_is_clipped_hold() -> None:
    """95 %, in 4,000 draws of the noise: fewer than 93.7 % once in 10,000 runs of other seeds."""
    rng, scale = np.random.default_rng(1), 40.0
    for cells in (1, 2, 10):
        noise = rng.laplace(0, scale, (4000, cells)).sum(axis=1)
        ends = np.array([Laplace(scale).sum_interval(5000 + one, cells) for one in noise])
        held = np.mean((ends[:, 0] <= 5000) & (ends[:, 1] >= 5000))
        assert 0.937 < held < 0.963
