"""States as codebooks have them: labels beside codes, logical values and whole numbers as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.formats.project_file import Project, draft_project
from engines import DATABASES, ENGINES, on_parquet
from folding import every
from sources import CANARY, PEER_WARNINGS, alone, column, counted, faults, refusal

pytestmark = PEER_WARNINGS

SMOKES = dc.Variable("x", ("no", "yes"), codes=("0", "1"))
STAGE = dc.Variable("stage", ("I", "II", "III"), codes=("1", "2", "3"), other="unclear", missing="unknown")
FLAG = dc.Variable("flag", ("alive", "dead"), codes=("false", "true"))
WORD = dc.Variable("word", ("male", "female"), codes=("m", "f"))
NETWORK = dc.Network((STAGE, FLAG, WORD), {"stage": (), "flag": ("stage",), "word": ("flag",)})


def held(size: int = 200) -> pa.Table:
    """Records of all columns, with codes that are not listed and gaps."""
    rng = np.random.default_rng(1)
    stage = [[1, 2, 3, 9, None][at] for at in rng.integers(0, 5, size)]
    flag, word = ([pair[at] for at in rng.integers(0, 2, size)] for pair in ((False, True), ("m", "f")))
    types = pa.schema([("stage", pa.int64()), ("flag", pa.bool_()), ("word", pa.string())])
    return pa.table({"stage": stage, "flag": flag, "word": word}, types)


@every(
    ("kind", "values"),
    [
        (pa.int64(), [0, 1, 1]),
        (pa.float64(), [0.0, 1.0, 1.0]),
        (pa.bool_(), [False, True, True]),
        (pa.string(), ["0", "1", "01"]),
    ],
)
def test_records_hold_codes_of_any_type(kind: pa.DataType, values: list[Any]) -> None:
    table = column(values, kind)
    assert counted(table, SMOKES) == counted(ibis.memtable(table), SMOKES) == [1, 2]


def test_labels_are_no_values_of_records() -> None:
    assert faults(column(["no", "1", CANARY]), SMOKES) == (0, 2, 0)
    refusal(lambda: counted(column(["yes"]), SMOKES), "x")


@pytest.mark.costly("Codes that a database compares otherwise are found by counting on each engine.")
@pytest.mark.parametrize("engine", DATABASES)
def test_every_engine_counts_codes_alike(engine: str, tmp_path: Path) -> None:
    found = []
    for load in (on_parquet, ENGINES[engine]):
        given = load(held(), tmp_path, False)
        records = dc.read_records(given["source"], NETWORK.schema, table=given.get("table"), missing="keep")
        found.append({node: table.tolist() for node, table in dc.count(records, NETWORK).tables.items()})
    assert found[0] == found[1] and sum(found[0]["stage"]) == 200 and min(found[0]["stage"]) > 0


def test_answers_show_labels_and_queries_take_both() -> None:
    counts = dc.count(dc.read_records(held(), NETWORK.schema, missing="keep"), NETWORK)
    promise = dc.Guarantee(epsilon=5, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(NETWORK), promise, rng=1)
    again = dc.tools.loads(release.dumps())
    assert again.network == NETWORK
    posterior = again.posterior(rng=2, draws=50)
    by_code, by_label = (
        posterior.answer(f"P(stage={one} | flag={two})") for one, two in (("2", "true"), ("II", "dead"))
    )
    assert by_code == by_label and by_code.rows[0]["state"] == {"stage": "II"} and "flag=dead" in by_code.query
    with pytest.raises(dc.InputError, match="did you mean 'III'"):
        posterior.answer("P(stage=iii)")
    (stream,) = dc.sample(posterior, 100, rng=3)
    table = stream.read_all()
    assert set(table["word"].to_pylist()) <= {"m", "f"} and set(table["stage"].to_pylist()) <= {
        "1",
        "2",
        "3",
        "unclear",
        None,
    }
    assert dc.count(dc.read_records(table, NETWORK.schema, missing="keep"), NETWORK).records == 100
    one, other = (
        dc.predict(posterior, {"flag": flags, "word": words}, "stage").mean
        for flags, words in (([True, False], ["m", "f"]), (["dead", "alive"], ["male", "female"]))
    )
    assert np.array_equal(one, other)


@every(
    ("text", "variable"),
    [
        ('states = [{code = 0, label = "no"}, {code = 1, label = "yes"}]', SMOKES),
        ('states = [0, 1]\nlabels = {0 = "no", 1 = "yes"}', SMOKES),
        ('labels = {0 = "no", 1 = "yes"}', SMOKES),
        ('states = ["no", "yes"]\ncodes = [0, 1]', SMOKES),
        ('states = [0, {code = 1, label = "yes"}]', dc.Variable("x", ("0", "yes"), codes=("0", "1"))),
        ("states = [true, false]", dc.Variable("x", ("true", "false"))),
        ("states = [0, 1, 2]", dc.Variable("x", ("0", "1", "2"))),
        ("states = [0, 1]\nother = 9\nmissing = 7", dc.Variable("x", ("0", "1"), other="9", missing="7")),
        ('states = [-1, 1.5]\nother = "rest"', dc.Variable("x", ("-1", "1.5"), other="rest")),
    ],
)
def test_project_files_declare_labels_and_states_as_they_are_written(text: str, variable: dc.Variable) -> None:
    network = Project.parse(f'[[variables]]\nname = "x"\n{text}\n').network
    assert network.schema["x"] == variable
    assert draft_project(network).network == network


@every(
    ("text", "message"),
    [
        ('states = [0, 1]\nlabels = {0 = "no", 2 = "yes"}', "labels name '2', which is no state"),
        ("states = [{code = 0}]", "has a code and a label"),
        ('states = [{code = 0, label = "no", colour = 1}]', "has a code and a label"),
        ('states = [{code = 0, label = "1"}, {code = 1, label = "0"}]', "label of another state"),
        ('states = [{code = 0, label = "no"}, {code = 0, label = "yes"}]', "stands twice"),
        ('states = [{code = "", label = "no"}]', "not empty"),
        ('states = ["no", "yes"]\ncodes = [0]', "2 states need as many codes"),
        ("bounds = [0, 9]\nbins = [5]\ncodes = [0, 1]", "codes are of states"),
        ('state = ["no"]', "did you mean 'states'"),
        ("states = [nan]", "needs a name"),
        ("states = [1, 1.0]", "declared twice"),
        ("states = [[1]]", "needs a name"),
        ('states = ["a"]\ncodes = "b"', "codes are a list"),
        ('type = ["date"]\nbounds = [0, 1]', "numbers are of type"),
    ],
)
def test_labels_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        Project.parse(f'[[variables]]\nname = "x"\n{text}\n')


def test_python_takes_logical_values_and_numbers_as_states() -> None:
    assert dc.Variable("x", (True, False)).states == ("true", "false")  # type: ignore[arg-type]
    assert dc.Variable("x", (2**53 + 1,)).states == ("9007199254740993",)  # type: ignore[arg-type]
    assert dc.Variable("x", (0, 1, 2.5)).states == ("0", "1", "2.5")  # type: ignore[arg-type]
    whole = dc.Variable("x", (0, 1), other="rest")  # type: ignore[arg-type]
    for table in (column([0, 1, 7]), column(["0", "1.0", "x"]), column([False, True, None])):
        local = counted(table, whole, missing="drop")
        assert local == counted(ibis.memtable(table), whole, missing="drop") and local[:2] == [1, 1]


def test_a_network_with_another_order_of_states_keeps_codes_with_their_labels() -> None:
    network = alone(dc.Variable("x", ("yes", "no"))).with_variables([SMOKES])
    assert network.schema["x"].codes == ("1", "0") and network.schema["x"].states == ("yes", "no")
    assert counted(column([0, 1, 1]), network.schema["x"]) == [2, 1]


# ----------------------------------------------------------------------------------------------------- ordered states

ORDERED = dc.Variable("stage", ("I", "II", "III"), ordered=True, other="unclear", missing="gone", codes=("1", "2", "3"))
GRADED = dc.Network(
    (ORDERED, dc.Variable("ill", ("no", "yes")), dc.Variable("age", bounds=(0, 90), bins=(45,))),
    {"stage": (), "ill": ("stage",), "age": ("ill",)},
)


@pytest.mark.costly("Comparisons of ordered states are answered as the sums of their states.")
def test_ordered_states_are_compared() -> None:
    """At a large epsilon a comparison is the share in the records, of those whose state is in the order."""
    rng = np.random.default_rng(0)
    stage = rng.choice([1, 2, 3, 9], 3000, p=[0.4, 0.3, 0.2, 0.1])
    ill = rng.random(3000) < stage / 10
    table = pa.table({"stage": stage, "ill": np.where(ill, "yes", "no"), "age": rng.random(3000) * 90})
    counts = dc.count(dc.read_records(table, GRADED.schema, missing="keep"), GRADED)
    promise = dc.Guarantee(epsilon=50, delta=0, relation="add-remove", unit="record")
    release = dc.tools.loads(dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(GRADED), promise, rng=1).dumps())
    assert release.network == GRADED
    posterior, known = release.posterior(rng=2, draws=300), stage < 9
    truths = {
        "P(stage >= II)": (stage[known] >= 2).mean(),
        "P(stage < 3 | ill=no)": (stage[known & ~ill] < 3).mean(),
        "P(ill=yes | stage >= II)": ill[known & (stage >= 2)].mean(),
        "P(ill=yes | stage > I, stage <= II)": ill[stage == 2].mean(),
    }
    answers = dc.answer_many(posterior, list(truths))
    for answer, truth in zip(answers, truths.values(), strict=True):
        row = answer.rows[0]
        assert row["lower"] - 0.02 < truth < row["upper"] + 0.02 and row["upper"] - row["lower"] < 0.12
        assert answer.basis == "measured" and answer.unit == "probability"
    sums = dc.answer(posterior, "P(stage)").rows
    by_state = {row["state"]["stage"]: row["mean"] for row in sums}
    share = (by_state["II"] + by_state["III"]) / sum(by_state[each] for each in ("I", "II", "III"))
    assert abs(share - answers[0].rows[0]["mean"]) < 0.01
    assert "P(stage < III | ill=no)" in str(answers) and "law inside bins" not in str(answers)
    one, other = dc.answer_many(posterior, ["P(ill | stage >= II, stage <= II)", "P(ill | stage=II)"])
    assert one.rows == other.rows
    assert posterior.answer("E(age | stage >= II)").rows[0]["lower"] > 0


@every("query", ["P(stage >= II)", "P(ill | stage > I, stage < III)", "P(ill | stage <= II)"])
def test_comparisons_of_states_read_back(query: str) -> None:
    parsed = dc.tools.parse_query(query, GRADED.schema)
    assert str(parsed) == query and dc.tools.parse_query(str(parsed), GRADED.schema) == parsed


@every(
    ("query", "message"),
    [
        ("P(stage >= IV)", "write I, II, III"),
        ("P(stage >= unclear)", "write I, II, III"),
        ("P(stage >= gone)", "write I, II, III"),
        ("E(stage)", "no numeric bounds"),
        ("median(stage)", "no numeric bounds"),
        ("P(ill | stage > III)", "no state of 'stage', I to III, meets"),
        ("P(ill > no)", "no variable"),
        ("P(stage | ill >= no)", "no variable"),
    ],
)
def test_what_is_in_no_order_is_not_compared(query: str, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.tools.parse_query(query, GRADED.schema)


def test_an_order_is_declared_and_kept() -> None:
    states = '[{code = 0, label = "low"}, {code = 1, label = "high"}]'
    text = f'[[variables]]\nname = "x"\nstates = {states}\nordered = true\n'
    network = Project.parse(text).network
    assert network.schema["x"].ordered and draft_project(network).network == network
    with pytest.raises(dc.InputError, match="in another order in the network"):
        alone(dc.Variable("x", ("high", "low"))).with_variables(network.variables)
    for wrong in ("bounds = [0, 9]\nbins = [5]\nordered = true", 'states = ["a"]\nordered = "yes"'):
        with pytest.raises(dc.InputError, match="order"):
            Project.parse(f'[[variables]]\nname = "x"\n{wrong}\n')
