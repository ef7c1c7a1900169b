"""States for other values, codes, orders, dates and conditions in one table: they mean the same together as alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.estimators.columns import variable_codes
from discreet.formats.project_file import draft_project
from discreet.model.structural_zeros import possible_cells
from discreet.queries.documents import answer_document, read_answer

FIRST = date(2020, 1, 1)
SEX = dc.Variable("sex", ("female", "male"), codes=(1, 2), other="diverse", missing="?")
DEAD = dc.Variable("dead", ("no", "yes"), codes=(0, 1))
CAUSE = dc.Variable("cause", ("heart", "cancer"), codes=("I", "C"), other="else", applies_if="dead=1",
                    not_applicable="alive", missing="unknown")  # fmt: skip
STAGE = dc.Variable("stage", ("I", "II", "III"), ordered=True, other="odd", applies_if="cause in {C, else}",
                    missing="gap")  # fmt: skip
DIED = dc.Variable("died", bounds=("2020-01-01", "2020-12-31"), bins="quarter", type="date", applies_if="dead = yes",
                   missing="when")  # fmt: skip
BIRTHS = dc.Variable("births", bounds=(0, 20), bins=(1, 3), type="integer", applies_if="sex in {1, diverse}",
                     missing="nb")  # fmt: skip
VARIABLES = (SEX, DEAD, CAUSE, STAGE, DIED, BIRTHS)
NETWORK = dc.Network.from_edges([("cause", "died")], VARIABLES)
VALUES: dict[str, list[str | None]] = {
    "sex": ["1", "1.0", "2", "9", None], "dead": ["0", "1", "1"], "cause": ["I", "C", "Q", "alive", None],
    "stage": ["I", "II", "III", "IV", None], "died": ["2020-01-01", "2020-05-05", "2020-12-31", None],
    "births": ["0", "2", "20", None],
}  # fmt: skip


def draw(records: int, seed: int = 0) -> list[dict[str, str | None]]:
    """Records of every value beside every other, those that break conditions included."""
    rng = np.random.default_rng(seed)
    return [{name: values[rng.integers(len(values))] for name, values in VALUES.items()} for _ in range(records)]


def read_by_hand(row: dict[str, str | None]) -> tuple[str, ...]:
    """What a record is read as, written once more."""
    sex = {"1": "female", "1.0": "female", "2": "male", None: "?"}.get(row["sex"], "diverse")
    dead = "yes" if row["dead"] == "1" else "no"
    cause = {"I": "heart", "C": "cancer", "alive": "unknown", None: "unknown"}.get(row["cause"], "else")
    cause = cause if dead == "yes" else "alive"
    stage = "gap" if row["stage"] is None else row["stage"] if row["stage"] in STAGE.states[:3] else "odd"
    stage = stage if cause in ("cancer", "else", "unknown") else "not applicable"
    died = "when" if row["died"] is None else DIED.states[(int(row["died"][5:7]) - 1) // 3]
    births = "nb" if row["births"] is None else BIRTHS.states[{"0": 0, "2": 1, "20": 2}[row["births"]]]
    return (sex, dead, cause, stage, died if dead == "yes" else "not applicable",
            births if sex != "male" else "not applicable")  # fmt: skip


def count(rows: list[dict[str, str | None]], missing: Any = "keep", scopes: Any = None) -> dc.results.Counts:
    table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in VALUES})
    return dc.count(dc.read_records(table, NETWORK.schema, missing=missing), NETWORK, scopes)


def test_each_record_is_read_by_all_that_is_declared() -> None:
    rows = draw(500)
    by_hand = np.zeros([variable.size for variable in VARIABLES], np.int64)
    for row in rows:
        by_hand[tuple(v.code(state) for v, state in zip(VARIABLES, read_by_hand(row), strict=True))] += 1
    assert np.array_equal(count(rows, scopes=[NETWORK.nodes]).joint(NETWORK.nodes), by_hand)


def test_one_record_moves_one_cell_whatever_it_holds() -> None:
    """One more record, of every kind: one cell of each table, a possible one, and one leaf with its offset."""
    others = draw(3, seed=1)
    before = count(others)
    assert before.sums is not None
    for row in draw(10, seed=2):
        after = count([*others, row])
        assert after.sums is not None
        for scope in before.joints:
            moved = after.joints[scope] - before.joints[scope]
            possible = possible_cells(NETWORK.schema, scope)
            assert moved.sum() == np.abs(moved).sum() == 1 and (possible is None or not moved[~possible].any())
        for name, leaves in after.sums.leaves.items():
            moved = np.abs(leaves - before.sums.leaves[name]).sum(axis=0)
            assert moved[0] <= 1 and moved[1] <= 2**14 and moved[2] <= 2**28


def test_files_carry_all_of_it(tmp_path: Path) -> None:
    """Network files leave out what they cannot say, and a schema adds it again."""
    assert draft_project(NETWORK).network == NETWORK
    (tmp_path / "schema.json").write_text(json.dumps({"variables": [each.document() for each in VARIABLES]}))
    assert dc.Schema.read(tmp_path / "schema.json") == NETWORK.schema
    for name in ("net.bif", "net.xml"):
        NETWORK.write(tmp_path / name)
        read = dc.Network.read(tmp_path / name)
        assert [each.states for each in read.variables] == [each.states for each in VARIABLES]
        assert read.with_variables(VARIABLES) == NETWORK
    whole = dc.Network.empty((dc.Variable("day", bounds=("2020-01-01", "2020-12-31"), bins="month", type="date"),))
    whole.write(tmp_path / "dates.bif")
    assert dc.Network.read(tmp_path / "dates.bif").schema["day"].edges == whole.schema["day"].edges


def _release(network: dc.Network, counts: dc.results.Counts) -> dc.Release:
    claim = dc.Guarantee(epsilon=100, delta=0, relation="replace", unit="record")
    return dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), claim, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def gaps() -> dc.results.PosteriorDraws:
    """Posterior of records with every gap."""
    return dc.noise_aware(_release(NETWORK, count(draw(4000))), draws=50, rng=1)


QUERIES = ("P(sex=1)", "E(died)", "P(cause | died < 2020-05-05)", "P(stage <= II)", "MAP(cause, died | sex=1)",
           "P(died > 2020-05-05 | cause=applies)", "sd(died)")  # fmt: skip


def test_answers_read_back(gaps: dc.results.PosteriorDraws) -> None:
    for query in QUERIES:
        found = dc.answer(gaps, query, level=0.95)
        assert str(dc.tools.parse_query(found.query, NETWORK.schema)) == found.query
        assert read_answer(json.loads(json.dumps(answer_document(found)))) == found
    assert dc.answer(gaps, "P(stage | cause=applies)", level=0.95).query == "P(stage | dead=yes)"


def test_numbers_that_may_be_missing_and_may_not_apply_are_read_at_random(gaps: dc.results.PosteriorDraws) -> None:
    """Dates of the dead do not depend on whether they are missing here, so that those that were seen tell all."""
    complete = dc.tools.assume_at_random(gaps)
    rows = draw(4000)
    days = [date.fromisoformat(row["died"]) for row in rows if row["dead"] == "1" and row["died"] is not None]
    truth = np.mean([(day - date(1970, 1, 1)).days for day in days])
    assert dc.answer(complete, "E(died)", level=0.95).rows[0]["mean"] == pytest.approx(truth, abs=5)
    assert dc.answer(complete, "P(dead=yes | died >= 2020-01-01)", level=0.95).rows[0]["mean"] == pytest.approx(1)


def test_records_are_predicted_by_columns_of_conditions(gaps: dc.results.PosteriorDraws) -> None:
    """Many records at once, as each alone; states are given by code or by label."""
    rows = {"dead": ["1", "yes", "0", None], "sex": ["female", "2", "9", "1"], "died": ["2020-05-05", None, None, None]}
    together = dc.predict(gaps, rows, "cause").mean
    for at in range(4):
        alone = dc.predict(gaps, {name: values[at : at + 1] for name, values in rows.items()}, "cause").mean[0]
        assert together[at] == pytest.approx(alone)
    assert together[2].tolist() == [0, 0, 0, 1, 0] and together[0, 3] == 0


DATED = dc.Variable("day", bounds=("2020-01-01", "2020-12-31"), bins="quarter", type="date", applies_if="dead = yes")
AGE = dc.Variable("age", bounds=(0, 100), bins=(30, 60), applies_if="dead in {yes}")
KIDS = dc.Variable("kids", bounds=(0, 9), bins=(1, 3), type="integer", not_applicable="none")
GRADE = dc.Variable("grade", ("I", "II"), ordered=True, other="odd")
SIDE = dc.Variable("side", ("l", "r"), ordered=True, not_applicable="none")
WHOLE = dc.Network.from_edges([("dead", "grade"), ("dead", "kids"), ("dead", "side"), ("age", "day")],
                              (DEAD, DATED, AGE, KIDS, GRADE, SIDE))  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> tuple[dc.results.PosteriorDraws, dict[str, Any]]:
    """Posterior of records without missing values, and these: who is dead has more gaps and other values."""
    rng, n = np.random.default_rng(1), 8000
    dead = rng.random(n) < 0.4
    often = rng.random((3, n)) < np.where(dead, 0.8, 0.2)
    age = rng.uniform(0, 100, n)
    day = np.clip(3 * age + rng.normal(0, 30, n), 0, 365).astype(int)
    halves = np.where(rng.random(n) < 0.5, "I", "II")
    table = pa.table({
        "dead": dead.astype(int), "day": [FIRST + timedelta(days=int(each)) for each in day],
        "age": pa.array(age, mask=~dead), "kids": pa.array(rng.integers(0, 10, n), mask=often[0]),
        "grade": np.where(often[1], "zz", halves).tolist(), "side": pa.array(["l"] * n, mask=often[2]),
    })  # fmt: skip
    posterior = dc.noise_aware(_release(WHOLE, dc.count(dc.read_records(table, WHOLE.schema), WHOLE)), draws=50, rng=1)
    return posterior, {"dead": dead, "often": often, "day": day, "age": age}


@pytest.mark.parametrize(
    ("query", "select"),
    [
        ("age >= 0", lambda held: held["dead"]), ("age <= 100", lambda held: held["dead"]),
        ("day >= 2020-01-01", lambda held: held["dead"]), ("day <= 2020-12-31", lambda held: held["dead"]),
        ("kids >= 0", lambda held: ~held["often"][0]), ("kids < 99", lambda held: ~held["often"][0]),
        ("grade >= I", lambda held: ~held["often"][1]), ("grade <= II", lambda held: ~held["often"][1]),
        ("side <= r", lambda held: ~held["often"][2]),
    ],
)  # fmt: skip
def test_a_comparison_that_all_numbers_meet_is_of_those_who_have_one(
    query: str, select: Callable[[dict[str, Any]], Any], whole: tuple[dc.results.PosteriorDraws, dict[str, Any]]
) -> None:
    """Gaps and other values meet no comparison, also not one that leaves out no number."""
    posterior, held = whole
    share = dc.answer(posterior, f"P(dead=yes | {query})", level=0.95).rows[0]["mean"]
    assert share == pytest.approx(held["dead"][select(held)].mean(), abs=0.01)


def test_numbers_of_different_records_are_not_related(
    whole: tuple[dc.results.PosteriorDraws, dict[str, Any]],
) -> None:
    """Each column's mean would be of other records; under one condition they are the same."""
    posterior, held = whole
    for first, second in (("age", "kids"), ("kids", "age")):
        with pytest.raises(dc.InputError, match="not applicable to some records"):
            dc.answer(posterior, f"cor({first}, {second})")
    for target, on in (("dead", "age"), ("age", "grade"), ("kids", "dead"), ("kids", "kids")):
        with pytest.raises(dc.InputError, match="not applicable to some records"):
            dc.regress(posterior, target, on)
    dead, age, day = held["dead"], held["age"], held["day"]
    truth = np.corrcoef(age[dead], day[dead])[0, 1]
    assert dc.answer(posterior, "cor(age, day)").rows[0]["mean"] == pytest.approx(truth, abs=0.03)
    slope = np.polyfit(age[dead], day[dead], 1)[0]
    assert dc.regress(posterior, "day", "age").coefficients[:, 0].mean() == pytest.approx(slope, abs=0.15)


def test_a_condition_names_states_by_code_or_label_and_each_once() -> None:
    one = dc.Schema((DEAD, dc.Variable("c", ("h",), applies_if="dead in {1, yes}")))
    assert one.conditions == {"c": ("dead", (1,))}
    with pytest.raises(dc.InputError, match="applies in all states"):
        dc.Schema((DEAD, dc.Variable("c", ("h",), applies_if="dead in {no, 1}")))
    for state in ("a{b", "a}", "in {x}", "x in {y, z}", "a=b"):
        odd = dc.Variable("odd", (state, "no"))
        column = dc.Variable("c", ("h",), applies_if=f'odd = "{state}"')
        assert dc.Schema((odd, column)).conditions == {"c": ("odd", (0,))}
        assert dc.Variable("c", ("h",), applies_if=column.applies_if) == column


def test_estimators_predict_for_tables_that_hold_codes() -> None:
    """What was fitted to codes is asked with codes, as numbers or as text; labels stand for them."""
    sex, flag = dc.Variable("sex", ("f", "m"), codes=(1, 2)), dc.Variable("flag", ("no", "yes"), codes=(False, True))
    for values in ([1, 2, 1], ["1", "2", "1"], ["f", "m", "f"], [1.0, 2.0, 1.0]):
        assert variable_codes(sex, np.array(values, object)).tolist() == [0, 1, 0]
    assert variable_codes(flag, np.array([False, True, "yes"], object)).tolist() == [0, 1, 1]
    with pytest.raises(dc.InputError, match="none of its states"):
        variable_codes(sex, np.array([3], object))
