"""`--format`: the rows of a command as CSV and Parquet, the same numbers as the table, the JSON and the frame."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.cli.cli import main
from shell import Shell
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

STATES = ('=1+1, "so"', "<b>no</b>")
STUDY = dc.Network.from_edges(
    [("smoke", "lung")],
    [dc.Variable("smoke", ("yes", "no")), dc.Variable("lung", STATES), dc.Variable("bronc", STATES)],
)
QUERIES = ["P(lung | smoke=yes)", "P(smoke, bronc)", "MAP(lung, smoke)"]
ASK = "query r.json --draws 50 " + " ".join(f"'{query}'" for query in QUERIES)


@pytest.fixture(scope="module")
def release() -> dc.Release:
    truth = dc.Tables(STUDY, {"smoke": [0.4, 0.6], "lung": [[0.1, 0.9], [0.02, 0.98]], "bronc": [0.5, 0.5]})
    records = dc.read_records(dc.tools.simulate_records(truth, 4000, rng=1), STUDY.schema)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    counts = dc.count(records, STUDY, [("smoke", "bronc"), ("lung", "bronc")])
    return dc.simulate(dc.planned(pairs_share=0), counts, dc.Dirichlet.uniform(STUDY), promise, rng=2)


@pytest.fixture
def run(
    release: dc.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Shell:
    monkeypatch.chdir(tmp_path)
    release.save("r.json")
    return Shell(capfd)


def rows_of(run: Shell, command: str) -> list[dict[str, str]]:
    """The rows that a command prints as CSV."""
    code, out, err = run(f"{command} --format csv")
    assert code == 0, err
    return list(csv.DictReader(io.StringIO(out)))


def same(read: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Rows of text are those of numbers, to the last digit."""
    assert [list(row) for row in read] == [list(row) for row in wanted]
    for row, other in zip(read, wanted, strict=True):
        for name, value in other.items():
            found = type(value)(row[name]) if isinstance(value, float) else row[name]
            assert found == value or (isinstance(value, float) and math.isnan(value)), name


def test_rows_of_answers_are_those_of_the_frame_in_every_format(run: Shell, release: dc.Release) -> None:
    answers = dc.answer_many(dc.noise_aware(release, draws=50, rng=0), QUERIES)
    known = list(dict.fromkeys(name for row in answers.tidy() for name in row))
    wanted = [{name: row.get(name, "") for name in known} for row in answers.tidy()]
    assert known[:6] == ["query", "variable", "state", "mean", "lower", "upper"]
    assert {"sampling", "noise", "noise_error", "best", "level", "basis"} <= set(known)
    same(rows_of(run, ASK), wanted)
    code, out, err = run(f"{ASK} --format parquet --output rows.parquet")
    assert (code, out) == (0, "wrote rows.parquet\n"), err
    table = pq.read_table("rows.parquet")
    assert table.equals(answers.to_frame("arrow"))
    assert table["state"][0].as_py() == STATES[0]
    told = run.json(ASK)
    assert [row["mean"] for answer in told["answers"] for row in answer["values"]] == table["mean"].to_pylist()
    _, as_json, _ = run(f"{ASK} --format json")
    assert json.loads(as_json) == told
    _, plain, _ = run(ASK)
    assert run(f"{ASK} --format table")[1] == plain
    assert all(f"{value:.4f}" in plain for value in table["lower"].to_pylist())


def test_files_and_stdout(run: Shell) -> None:
    piped = run(f"{ASK} --format csv")[1]
    assert run(f"{ASK} --format csv --output -")[1] == piped
    assert run(f"{ASK} --format csv --output rows.csv")[1] == "wrote rows.csv\n"
    assert Path("rows.csv").read_text() == piped
    assert "exists" in run.fails(f"{ASK} --format csv --output rows.csv")
    assert run(f"{ASK} --json --output rows.csv --replace")[0] == 0
    assert json.loads(Path("rows.csv").read_text()) == run.json(ASK)


def test_parquet_on_stdout(
    release: dc.Release,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    release.save("r.json")
    assert main(["query", "r.json", "--draws", "50", "P(lung)", "--format", "parquet", "--output", "-"]) == 0
    table = pq.read_table(io.BytesIO(capfdbinary.readouterr().out))
    assert table["variable"].to_pylist() == ["lung", "lung"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--format excel", "--format is table, json, csv, parquet, not 'excel'"),
        ("--format parquet", "--format parquet needs --output FILE"),
        ("--output f.csv", "a table is only printed: give --format"),
        ("--format table --output f.csv", "a table is only printed: give --format"),
        ("--json --format csv", "--json means --format json"),
        ("--format csv --output nowhere/f.csv", "cannot write into folder"),
        ("--format csv --output .", "it is a folder"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_read(run: Shell, options: str, message: str) -> None:
    Path("r.json").unlink()
    assert message in run.fails(f"query r.json {options}")


def test_rows_of_a_regression_and_of_all_marginals(run: Shell, release: dc.Release) -> None:
    posterior = dc.noise_aware(release, draws=50, rng=0)
    found = dc.regress(posterior, "bronc", ["smoke"])
    same(rows_of(run, "query r.json --draws 50 --regress 'bronc ~ smoke' --level 0.9"), found.tidy(level=0.9))
    same(rows_of(run, "query r.json --draws 50"), dc.marginals(posterior).tidy())


def test_rows_of_decisions(run: Shell) -> None:
    payoffs = json.dumps({"scan": {STATES[0]: 1, STATES[1]: 0.5}, "wait": {STATES[0]: 0, STATES[1]: 1}})
    asked = f"decide r.json --draws 100 --seed 1 --query 'P(lung)' --payoffs '{payoffs}' --quantity 'P(smoke=yes)'"
    rows = rows_of(run, f"{asked} --loss interval:0.9")
    told = run.json(f"{asked} --loss interval:0.9")["decisions"]
    assert [row["response"] for row in rows[:2]] == ["scan", "wait"]
    assert [row["response"] for row in rows[:2] if row["chosen"] == "True"] == [told[0]["response"]]
    assert [float(row["mean"]) for row in rows[:2]] == [row["mean"] for row in told[0]["values"]]
    low, _, high = rows[2]["response"].partition(" to ")
    assert [float(low), float(high)] == pytest.approx(told[1]["response"], rel=1e-5)
    assert float(rows[2]["regret"]) == told[1]["regret"]


def test_rows_of_a_fit_an_explanation_a_plan_and_an_audit(run: Shell) -> None:
    fitted, told = rows_of(run, "fit r.json"), dc.check_fit(dc.Release.load("r.json"))
    same([{**row, "contradicted": row["contradicted"] == "True"} for row in fitted], told.tidy())
    explained = rows_of(run, "explain r.json 'P(lung | smoke=yes)' --draws 50")
    assert explained[0]["query"] == "P(lung | smoke=yes)" and 0 <= float(explained[0]["low"]) <= 1
    assert "there are no rows" in run.fails("explain r.json --format csv")
    Path("net.arcs").write_text("smoke -> lung\n")
    Path("study.json").write_text(
        json.dumps({"variables": [{"name": name, "states": ["a", "b"]} for name in ("smoke", "lung")]})
    )
    over = "--network net.arcs --schema study.json --records 500"
    planned = rows_of(run, f"plan {over} --epsilon 1 --mechanism laplace --repeats 1 --relation add-remove")
    assert [row["mechanism"] for row in planned] == ["(no privacy)", "laplace"]
    audited = rows_of(run, "audit laplace --records 1 --relation replace")
    assert {row["mechanism"] for row in audited} == {"laplace"} and {row["holds"] for row in audited} == {"True"}


def test_rows_of_coefficients(run: Shell) -> None:
    pytest.importorskip("scipy")
    from test_weights import released

    released("moments").save("w.json")
    rows = rows_of(run, "query w.json --draws 100 --level 0.9")
    told = run.json("query w.json --draws 100 --level 0.9")["coefficients"]
    assert [(row["name"], float(row["mean"]), float(row["level"])) for row in rows] == [
        (row["name"], row["mean"], 0.9) for row in told
    ]


@pytest.mark.costly("Each command that prints a table is run at each width of a terminal.")
@pytest.mark.parametrize("width", [60, 80, 200])
def test_what_is_printed_fits_the_terminal(run: Shell, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    whole: dict[str, str] = {}
    commands = [ASK, "fit r.json", "explain r.json 'P(lung | smoke=yes)' --draws 50", "audit laplace --records 1"]
    for command in commands:
        code, whole[command], err = run(command)
        assert code == 0, err
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(ASK)[1] == whole[ASK], "a pipe has no width"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for command in commands:
        code, out, err = run(command)
        assert code == 0, err
        assert max(map(len, out.splitlines())) <= width, command
        assert set(out.split()) >= set(whole[command].split()), command
