"""Every estimator fits from any table: the statistic of arrays, refusals that cost nothing and quote no record."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from sklearn.base import is_classifier, is_regressor

import discreet as dc
from discreet.designs.records import rows as reading
from discreet.estimators.regressions import RegressionEstimator
from estimator_cases import promise
from sources import CANARY, said

KINDS = (
    dc.estimators.PrivateLogisticRegression,
    dc.estimators.PrivateLinearRegression,
    dc.estimators.PrivateNaiveBayes,
    dc.estimators.PrivatePrincipalDirection,
)
EACH = pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
BOUNDS = {"age": (0, 100), "sex": ("f", "m"), "ward": ("A", "B", "C")}
COLUMNS = ["ward", "age", "sex"]
"""As they stand in the frame: not as they are declared."""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng, n = np.random.default_rng(3), 400
    found = pd.DataFrame({"ward": rng.choice(["A", "B", "C"], n), "age": rng.uniform(-5, 105, n)})
    found["sex"] = rng.choice(["f", "m"], n)
    found["ill"] = np.where(found.age + 30 * (found.sex == "m") > 70, "yes", "no")
    found["cost"] = found.age / 10 + (found.ward == "C")
    return found.assign(unread="x")


@pytest.fixture
def account(tmp_path: Path) -> dc.results.Account:
    return dc.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").open("records", promise(1000))


def made(kind: type[Any], account: dc.results.Account, **others: Any) -> Any:
    options: dict[str, Any] = {"bounds": BOUNDS, "guarantee": promise(), "account": account, "random_state": 1}
    if kind is dc.estimators.PrivateLogisticRegression:
        options |= {"records": 400, "find_bounds": None}
    if kind is dc.estimators.PrivateLinearRegression:
        options |= {"target_bounds": (0, 12), "find_bounds": None}
    if kind is dc.estimators.PrivateNaiveBayes:
        options |= {"draws": 30}
    if is_classifier(kind()):
        options |= {"classes": ("yes", "no")}
    return kind(**options | others)


def target_of(kind: type[Any]) -> dict[str, str]:
    return {"target": "ill"} if is_classifier(kind()) else {"target": "cost"} if is_regressor(kind()) else {}


class Stopped(Exception):
    """Instead of a release."""


def summed(estimator: Any, monkeypatch: pytest.MonkeyPatch, *records: Any, **named: Any) -> list[np.ndarray]:
    """What a fit would release noisy."""
    seen: list[Any] = []

    def stopped(_mechanism: Any, statistic: Any, *_: Any, **__: Any) -> Any:
        seen.append(statistic)
        raise Stopped

    with monkeypatch.context() as patch:
        regression = isinstance(estimator, RegressionEstimator)
        module = RegressionEstimator.__module__ if regression else type(estimator).__module__
        patch.setattr(f"{module}.release", stopped)
        with pytest.raises(Stopped):
            estimator.fit(*records, **named)
    (statistic,) = seen
    if isinstance(statistic, dc.designs.Moments):
        return [statistic.values]
    if isinstance(statistic, dc.designs.Gradients):
        return [statistic.rows.coordinates, statistic.rows.target]
    if isinstance(statistic, dc.designs.Rows):
        return [statistic.coordinates]
    return [statistic.joint(("age", statistic.network.nodes[0])), statistic.joint(("ward", statistic.network.nodes[0]))]


def tables(frame: pd.DataFrame, folder: Path) -> dict[str, tuple[Any, dict[str, str]]]:
    """The same records everywhere, with the argument that a database needs."""
    (folder / "visits").mkdir()
    frame[:150].to_parquet(folder / "visits" / "a.parquet")
    frame[150:].to_parquet(folder / "visits" / "b.parquet")
    frame.to_csv(folder / "visits.csv", index=False)
    base = sqlite3.connect(folder / "visits.db")
    frame.to_sql("visits", base, index=False)
    base.close()
    with duckdb.connect(str(folder / "visits.duckdb")) as engine:
        engine.execute(f"create table visits as select * from '{folder}/visits/*.parquet'")
    return {
        "glob": (str(folder / "visits" / "*.parquet"), {}),
        "folder": (folder / "visits", {}),
        "csv": (folder / "visits.csv", {}),
        "open file": (io.BytesIO((folder / "visits.csv").read_bytes()), {}),
        "file URL": ((folder / "visits").as_uri(), {}),
        "sqlite": (f"sqlite:///{folder / 'visits.db'}".replace("///", "////", 1), {"table": "visits"}),
        "duckdb": (f"duckdb:///{folder / 'visits.duckdb'}".replace("///", "////", 1), {"table": "visits"}),
        "arrow": (pa.Table.from_pandas(frame), {}),
        "data set": (pyarrow.dataset.dataset(folder / "visits"), {}),
        "ibis": (ibis.memtable(pa.Table.from_pandas(frame)), {}),
    }


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option is deprecated")  # Ibis asks pandas for it
@EACH
def test_every_table_gives_the_statistic_of_arrays(
    kind: type[Any], frame: pd.DataFrame, account: dc.results.Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_of(kind)
    y = [frame[target["target"]]] if target else []
    expected = summed(made(kind, account), monkeypatch, frame[COLUMNS], *y)
    sources = tables(frame, tmp_path)
    if target:  # without a target a frame is an array, whose columns are all features
        sources |= {"pandas": (frame, {}), "Polars": (pl.from_pandas(frame), {})}
    for name, (source, table) in sources.items():
        found = summed(made(kind, account), monkeypatch, source, **target, **table)
        assert all(map(np.array_equal, found, expected)), name
    assert not account.charges()


@pytest.mark.costly("A source of records that an estimator reads otherwise is found by fitting each from it.")
@EACH
def test_a_fit_from_a_table_is_a_fit(
    kind: type[Any], frame: pd.DataFrame, account: dc.results.Account, tmp_path: Path
) -> None:
    frame.to_parquet(tmp_path / "visits.parquet")
    fitted = made(kind, account).fit(tmp_path / "visits.parquet", **target_of(kind))
    (charge,) = account.charges()
    assert charge.release == fitted.release_.id and fitted.release_.policy.out_of_bounds == "clip"
    assert fitted.feature_names_in_.tolist() == list(BOUNDS) and fitted.n_features_in_ == 3
    outcome = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    assert len(outcome(frame[list(BOUNDS)])) == 400
    with pytest.raises(dc.InputError, match="Feature names must be in the same order"):
        outcome(frame[COLUMNS])
    if is_classifier(fitted):
        assert fitted.classes_.tolist() == ["no", "yes"]
    if target := target_of(kind):
        over = (
            fitted.release_.network.nodes
            if kind is dc.estimators.PrivateNaiveBayes
            else [fitted.release_.over.target.name]
        )
        assert over[0] == target["target"]


@pytest.mark.parametrize("kind", KINDS[:3])
def test_labels_that_are_numbers_or_logical_are_read_in_any_table(
    kind: type[Any], frame: pd.DataFrame, account: dc.results.Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not is_classifier(kind()):
        return
    for classes, column in (((0, 1), (frame.ill == "yes").astype(int)), ((False, True), frame.ill == "yes")):
        changed = frame.assign(ill=column)
        changed.to_csv(tmp_path / "visits.csv", index=False)
        expected = summed(made(kind, account, classes=classes), monkeypatch, frame[COLUMNS], column)
        sources = [changed] if classes == (False, True) else [changed, tmp_path / "visits.csv"]
        for source in sources:
            found = summed(made(kind, account, classes=classes), monkeypatch, source, target="ill")
            assert all(map(np.array_equal, found, expected))


@EACH
def test_records_bring_their_policy_and_their_schema(
    kind: type[Any], frame: pd.DataFrame, account: dc.results.Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is declared once need not be said again, but for how numbers are cut; classes may stand in any order."""
    target = target_of(kind)
    age = (
        dc.Variable("age", bounds=(0, 100), bins=(20, 70))
        if kind is dc.estimators.PrivateNaiveBayes
        else dc.Variable("age", bounds=(0, 100))
    )
    told = {"ill": dc.Variable("ill", ("yes", "no")), "cost": dc.Variable("cost", bounds=(0, 12))}
    features = [age, dc.Variable("sex", ("f", "m")), dc.Variable("ward", ("A", "B", "C"))]
    schema = dc.Schema((*[told[name] for name in target.values()], *features))
    gaps = frame.copy()
    gaps.loc[:9, "age"] = np.nan
    records = dc.read_records(gaps, schema, missing="drop", out_of_bounds="clip")
    fitted = made(kind, account, bounds=None).fit(records, **target)
    assert (fitted.release_.policy.missing, fitted.release_.policy.out_of_bounds) == ("drop", "clip")
    assert fitted.feature_names_in_.tolist() == list(BOUNDS)
    if kind is dc.estimators.PrivateNaiveBayes:
        assert fitted.release_.network.schema["age"] == age
    else:
        y = [gaps[10:][target["target"]]] if target else []
        expected = summed(made(kind, account), monkeypatch, gaps[10:][COLUMNS], *y)
        found = summed(made(kind, account), monkeypatch, records, **target)
        assert all(map(np.array_equal, found, expected))


def test_several_records_of_a_unit_are_of_the_records(frame: pd.DataFrame, tmp_path: Path) -> None:
    patient = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="patient")
    paying = dc.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").open("patients", patient)
    schema = dc.Schema((dc.Variable("age", bounds=(0, 100)), dc.Variable("cost", bounds=(0, 12))))
    visits = frame.assign(patient=np.arange(400) // 4)
    records = dc.read_records(visits, schema, out_of_bounds="clip", unit_column="patient", max_records=2)
    fitted = dc.estimators.PrivateLinearRegression(target_bounds=(0, 12), guarantee=patient, account=paying).fit(
        records, target="cost"
    )
    assert (fitted.release_.policy.unit_column, fitted.release_.policy.max_records) == ("patient", 2)


# ------------------------------------------------------------------------------------------------------------ refusals

REFUSED: dict[str, tuple[Callable[[Any, pd.DataFrame], Any], str]] = {
    "no target": (lambda e, f: e.fit("visits.parquet"), r"name it, as in fit\('visits/\*.parquet', target='ill'\)"),
    "a target and y": (lambda e, f: e.fit(f, f.ill, target="ill"), "has its target as a column"),
    "no names": (
        lambda e, f: e.set_params(bounds=(0, 100)).fit(f, target="ill"),
        r"by name, such as bounds=\{'age': \(0, 120\), 'sex': \('f', 'm'\)\}",
    ),
    "the target is a feature": (
        lambda e, f: e.set_params(bounds={"age": (0, 1), "ill": ("no", "yes")}).fit(f, target="ill"),
        "'ill' is the target, and cannot be a feature",
    ),
    "no such column": (
        lambda e, f: e.set_params(bounds={"size": (0, 1)}).fit(f, target="ill"),
        "the records have no column 'size'",
    ),
    "no such target": (lambda e, f: e.fit(f, target="sick"), "the records have no column 'sick'"),
    "no such file": (lambda e, f: e.fit("none.parquet", target="ill"), "no file 'none.parquet'"),
    "a table of a frame": (lambda e, f: e.fit(f, target="ill", table="t"), "only a database URL takes the name"),
    "a missing value": (
        lambda e, f: e.fit(f.assign(age=f.age.where(f.age < 90)), target="ill"),
        "a missing value, .* in column 'age'",
    ),
    "an unknown class": (lambda e, f: e.fit(f.assign(ill=CANARY), target="ill"), "in column 'ill'"),
    "an unknown category": (lambda e, f: e.fit(f.assign(sex=CANARY), target="ill"), "in column 'sex'"),
    "no number": (lambda e, f: e.fit(f.assign(age=CANARY), target="ill"), "in column 'age'"),
    "an unknown category of a frame": (
        lambda e, f: e.fit(f[COLUMNS].assign(sex=CANARY), f.ill),
        "column 'sex' holds a value that is missing or none of its states: f, m",
    ),
    "a category missing of a frame": (
        lambda e, f: e.fit(f[COLUMNS].assign(sex=None), f.ill),
        "column 'sex' holds a value that is missing or none of its states: f, m",
    ),
    "no number in a frame": (
        lambda e, f: e.fit(f[COLUMNS].assign(age=CANARY), f.ill),
        "column 'age' holds a value that is missing, infinite or no number",
    ),
    "a column too many": (lambda e, f: e.fit(f[[*COLUMNS, "unread"]], f.ill), "3 features were declared, but X has 4"),
    "another column": (
        lambda e, f: e.fit(f[["ward", "age", "unread"]], f.ill),
        "X has no column 'sex'",
    ),
    "one category": (
        lambda e, f: e.set_params(bounds=BOUNDS | {"sex": ("f",)}).fit(f, target="ill"),
        "'sex' needs at least two states",
    ),
    "numbers as categories": (
        lambda e, f: e.set_params(bounds=BOUNDS | {"sex": (0, 1, 2)}).fit(f, target="ill"),
        r"categories of 'sex' must be texts, such as \('f', 'm'\), and bounds of 'sex' must be a pair",
    ),
    "options": (lambda e, f: e.fit(f, target="ill", weight="age"), "fit takes X and y, and nothing else"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_read_costs_nothing_and_is_not_quoted(
    name: str, frame: pd.DataFrame, account: dc.results.Account
) -> None:
    act, message = REFUSED[name]
    estimator = made(dc.estimators.PrivateLogisticRegression, account)
    with pytest.raises(dc.InputError, match=message) as refused:
        act(estimator, frame)
    assert CANARY not in said(refused.value) and "400" not in str(refused.value)
    assert not account.charges() and not hasattr(estimator, "release_")


def test_what_predicts_nothing_takes_no_target(frame: pd.DataFrame, account: dc.results.Account) -> None:
    with pytest.raises(dc.InputError, match="fit takes X and y, and nothing else"):
        made(dc.estimators.PrivatePrincipalDirection, account).fit(frame, target="ill")


def test_records_held_against_other_bounds_are_refused(frame: pd.DataFrame, account: dc.results.Account) -> None:
    schema = dc.Schema((dc.Variable("age", bounds=(0, 99)), dc.Variable("cost", bounds=(0, 12))))
    records = dc.read_records(frame, schema, out_of_bounds="clip")
    for kind, target in (
        (dc.estimators.PrivateLinearRegression, "cost"),
        (dc.estimators.PrivatePrincipalDirection, None),
    ):
        estimator = made(kind, account, bounds={"age": (0, 100)} | ({} if target else {"cost": (0, 12)}))
        with pytest.raises(dc.InputError, match="'age' of the design must be in the records' schema, with the same"):
            estimator.fit(records, **({"target": target} if target else {}))
    with pytest.raises(dc.InputError, match="leave out table="):
        made(dc.estimators.PrivateLinearRegression, account, bounds=None).fit(records, target="cost", table="visits")
    assert not account.charges()


# ---------------------------------------------------------------------------------------------------------- categories


@pytest.mark.parametrize("kind", KINDS[:2])
def test_categories_are_indicators_of_all_but_the_first(
    kind: type[Any], frame: pd.DataFrame, account: dc.results.Account
) -> None:
    y = frame[target_of(kind)["target"]]
    fitted = made(kind, account, guarantee=promise(100)).fit(frame[COLUMNS], y)
    assert fitted.release_.over.names == ("age", "sex=m", "ward=B", "ward=C")
    assert fitted.feature_names_in_.tolist() == COLUMNS and fitted.n_features_in_ == 3
    # In the order of X's columns, ward first, with two indicators in its place.
    coefficients = dict(zip(["ward=B", "ward=C", "age", "sex=m"], np.ravel(fitted.coef_), strict=True))
    if kind is dc.estimators.PrivateLinearRegression:
        expected = {"ward=B": 0, "ward=C": 1, "age": 0.1, "sex=m": 0}
        assert all(abs(coefficients[name] - value) < 0.3 for name, value in expected.items())
    else:
        assert coefficients["sex=m"] > 0.5 and coefficients["age"] > 0.01
    by_hand = pd.get_dummies(frame[COLUMNS])[["age", "sex_m", "ward_B", "ward_C"]].astype(float)
    plain = {"age": (0, 100), "sex_m": (0, 1), "ward_B": (0, 1), "ward_C": (0, 1)}
    hand = made(kind, account, bounds=plain).fit(by_hand, y)
    assert hand.release_.over.size == fitted.release_.over.size
    from_array = fitted.predict(frame[COLUMNS])
    reader = kind.from_release(fitted.release_, bounds=BOUNDS)
    assert np.array_equal(reader.predict(frame[list(BOUNDS)]), from_array)
    with pytest.raises(dc.InputError, match=r"by column: age 0 to 100, sex=m 0 to 1, .*; not age 0 to 100, sex=m 0"):
        kind.from_release(fitted.release_, bounds={"age": (0, 100), "sex": ("f", "m")})
    indicators = kind.from_release(fitted.release_)
    assert indicators.feature_names_in_.tolist() == ["age", "sex=m", "ward=B", "ward=C"]
    with pytest.raises(dc.InputError, match="column 'sex' holds a value that is missing or none of its states: f, m"):
        fitted.predict(frame[COLUMNS].assign(sex="x"))


@EACH
def test_no_category_is_learned_from_records(kind: type[Any], frame: pd.DataFrame, account: dc.results.Account) -> None:
    """A category that no record has is a feature like any other, in frames with categories of their own, too."""
    few = frame[frame.ward != "C"]
    target = target_of(kind)
    y = [few[target["target"]]] if target else []
    typed = few[COLUMNS].astype({"ward": "category", "sex": "category"})
    fitted = made(kind, account).fit(typed, *y)
    whole = made(kind, account).fit(frame[COLUMNS], *[frame[name] for name in target.values()])
    assert fitted.release_.over == whole.release_.over


def test_an_array_of_texts_and_numbers_is_read_by_position(
    frame: pd.DataFrame, account: dc.results.Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = dc.estimators.PrivateLogisticRegression
    expected = summed(made(kind, account), monkeypatch, frame[COLUMNS], frame.ill)
    found = summed(made(kind, account), monkeypatch, frame[list(BOUNDS)].to_numpy(object), frame.ill)
    assert all(map(np.array_equal, found, expected))
    fitted = made(kind, account).fit(frame[list(BOUNDS)].to_numpy(object), frame.ill)
    assert len(fitted.predict(frame[list(BOUNDS)].to_numpy(object))) == 400


# ---------------------------------------------------------------------------------------------------------- large ones


@pytest.mark.parametrize("held", [0, 2**28])
def test_more_blocks_than_one_are_summed_like_one(
    held: int, frame: pd.DataFrame, account: dc.results.Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = dc.estimators.PrivateLinearRegression
    expected = summed(made(kind, account), monkeypatch, frame, target="cost")
    monkeypatch.setattr(reading, "BLOCK", 37)
    monkeypatch.setattr(reading, "HELD_BYTES", held)
    assert np.array_equal(summed(made(kind, account), monkeypatch, frame, target="cost"), expected)


# ------------------------------------------------------------------------------------------ project files, gaps, dates

PROJECT = """
[source]
data = "visits.csv"
na_values = ["?"]
missing = "{missing}"
[unit]
name = "patient"
column = "who"
max_records = 2
[account]
name = "records"
ledger = "sqlite:///{ledger}"
[[variables]]
name = "age"
bounds = [0, 100]
bins = [30, 60]
missing = "unknown"
[[variables]]
name = "ward"
states = [{{code = "A", label = "first"}}, {{code = "B", label = "second"}}]
other = "other"
[[variables]]
name = "day"
bounds = ["2020-01-01", "2020-12-31"]
type = "date"
[[variables]]
name = "cost"
bounds = [0, 12]
[[variables]]
name = "ill"
states = ["yes", "no"]
"""


@pytest.fixture
def project(frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A table with gaps, two records a patient, and its project file."""
    monkeypatch.chdir(tmp_path)
    visits = frame.assign(who=np.arange(400) // 2, day=pd.date_range("2020-01-01", periods=400).strftime("%Y-%m-%d"))
    visits["age"] = visits.age.round().astype(int).astype(str).where(np.arange(400) % 10 > 0, "?")
    visits.to_csv("visits.csv", index=False)
    patient = dc.Guarantee(epsilon=1000, delta=0, relation="add-remove", unit="patient")
    dc.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").open("records", patient)

    def written(missing: str) -> str:
        Path("hospital.toml").write_text(PROJECT.format(missing=missing, ledger=tmp_path / "ledger.db"))
        return "hospital.toml"

    return written


FEATURES = ["age", "ward", "day"]


@EACH
def test_a_project_file_says_all_that_is_public(kind: type[Any], project: Any, frame: pd.DataFrame) -> None:
    estimator = kind(epsilon=4, random_state=1)
    fitted = estimator.fit(project=project("keep"), features=FEATURES, **target_of(kind))
    policy = fitted.release_.policy
    assert (policy.missing, policy.unit_column, policy.max_records) == ("keep", "who", 2)
    assert str(fitted.release_.guarantee).endswith("add-remove one patient")
    assert fitted.feature_names_in_.tolist() == FEATURES
    fresh = frame[:6].assign(day=["2020-02-29"] * 6, age=[30, None, np.nan, "40", -5, 1000.0])[FEATURES]
    outcome = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    first = outcome(fresh)
    assert len(first) == 6 and np.array_equal(first, outcome(fresh.assign(day=pd.to_datetime(fresh.day))))
    if is_classifier(fitted):
        assert fitted.classes_.tolist() == ["no", "yes"]
    if kind is not dc.estimators.PrivateNaiveBayes:
        assert fitted.release_.over.names == ("age", "age=unknown", "ward=second", "ward=other", "day")
        assert np.array_equal(first[1], first[2]) and np.array_equal(outcome(fresh.assign(ward="C"))[0], first[0]) == (
            fresh.ward.iloc[0] not in "AB"
        )
    with pytest.raises(dc.InputError, match="column 'day' holds a value that is missing"):
        outcome(fresh.assign(day=CANARY))


def test_gaps_are_a_feature_or_leave_records_out(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record by itself: what one changes is one row, at the middle of the bounds where a number is not known."""
    estimator = dc.estimators.PrivateLinearRegression(epsilon=1, find_bounds=None)
    read: list[Any] = []
    whole = reading.read_rows
    monkeypatch.setattr(
        "discreet.estimators.table_input.read_rows", lambda *a, **b: read.append(whole(*a, **b)) or read[-1]
    )
    words = {"target": "cost", "features": ["age"]}
    kept, dropped = (estimator.fit(project=project(missing), **words).release_ for missing in ("keep", "drop"))
    rows = read[0].coordinates
    gaps = rows[:, 1] == 4096
    assert gaps.sum() == 40 and np.all(rows[gaps, 0] == 0) and np.all(rows[~gaps, 1] == -4096)
    assert kept.over.names == ("age", "age=unknown") and dropped.over.names == ("age",)
    assert read[1].records == 360 and dropped.policy.missing == "drop"
    with pytest.raises(dc.InputError, match="in column 'age'"):
        estimator.fit(project=project("error"), **words)
    replacing = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="patient")
    other = dc.Ledger("sqlite://").open("others", replacing)
    with pytest.raises(dc.InputError, match="dropping incomplete records changes the number"):
        estimator.set_params(epsilon=None, guarantee=replacing, account=other).fit(project=project("drop"), **words)
    assert not other.charges()


WRONG_PROJECTS: dict[str, tuple[dict[str, Any], str]] = {
    "no such file": ({"project": "none.toml"}, "none.toml"),
    "an unknown target": ({"target": "size"}, "size"),
    "an unknown feature": ({"features": ["size"]}, "size"),
    "the target is a feature": ({"features": ["cost", "age"]}, "cannot be a feature"),
    "no target": ({"target": None}, "a table has its target as a column"),
    "arrays": ({"X": [[1.0]], "y": [1.0]}, "a project file names the target"),
}


@pytest.mark.parametrize("wrong", WRONG_PROJECTS)
def test_a_project_file_that_does_not_fit_costs_nothing(wrong: str, project: Any, tmp_path: Path) -> None:
    changed, message = WRONG_PROJECTS[wrong]
    given = {"project": project("keep"), "target": "cost", **changed}
    with pytest.raises(dc.InputError, match=message):
        dc.estimators.PrivateLinearRegression(epsilon=1).fit(**given)
    assert not dc.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").account("records").charges()


def test_a_project_for_patients_is_not_paid_by_an_account_for_records(
    project: Any,
) -> None:
    account = dc.Ledger("sqlite://").open("records", promise(1000))
    estimator = dc.estimators.PrivateLinearRegression(epsilon=1, account=account)
    with pytest.raises(dc.InputError, match="protects each 'patient', and the account that pays does not"):
        estimator.fit(project=project("keep"), target="cost")
    with pytest.raises(dc.InputError, match="column 'age' has gaps and is predicted"):
        dc.estimators.PrivateLinearRegression(epsilon=1).fit(project=project("keep"), target="age", features=["cost"])
    assert not account.charges()
