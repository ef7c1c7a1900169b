"""`discreet query`: queries from arguments, files and stdin, what is printed for a person and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.queries.query import answer_many
from networks import asia
from oracle import random_draws
from shell import Shell, reopened, stdin
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

QUERIES = ["P(lung | smoke=yes)", "MAP(tub, lung | dysp=yes)", "P(bronc)"]
ASK = "query r.json --draws 100"


@pytest.fixture
def run(
    released_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Shell:
    shell = reopened(released_study, tmp_path, monkeypatch, capfd)
    Path("all.txt").write_text(
        "# three questions\n\n\t# one a line\n" + "\n".join(f"  {query} " for query in QUERIES) + "\n"
    )
    return shell


def quoted(queries: list[str]) -> str:
    return " ".join(f"'{query}'" for query in queries)


@pytest.mark.costly("Queries come in each way and in mixtures of them, and answers must be the same.")
def test_queries_from_arguments_files_and_stdin(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run.json(f"{ASK} {quoted(QUERIES)}")
    assert [answer["query"] for answer in found["answers"]] == QUERIES
    assert run.json(f"{ASK} all.txt") == found
    stdin(monkeypatch, Path("all.txt").read_bytes())
    assert run.json(f"{ASK} -") == found
    stdin(monkeypatch, b"P(asia)\r\n#P(lung)\r\n")
    mixed = run.json(f"{ASK} 'P(bronc)' all.txt - 'P(bronc)'")["answers"]
    assert [answer["query"] for answer in mixed] == ["P(bronc)", *QUERIES, "P(asia)", "P(bronc)"]
    assert mixed[1:4] == found["answers"]
    stdin(monkeypatch, Path("r.json").read_bytes())
    assert run.json("query - --draws 100 all.txt") == found


@pytest.mark.costly("Numbers of an explanation that are not those of its answers are found by asking for both.")
def test_every_row_tells_its_noise_and_an_explanation_how_often_it_is_the_best(run: Shell) -> None:
    answers = run.json(f"{ASK} all.txt")["answers"]
    for answer in answers:
        keys = {"state", "mean", "lower", "upper", "noise", "noise_error"} | (
            {"best"} if answer["kind"] == "map" else set()
        )
        for row in answer["values"]:
            assert set(row) == keys
            assert row["noise"] is None or 0 <= row["noise"] <= 1
            assert (row["noise"] is None) == (row["noise_error"] is None)
    best = [row["best"] for row in answers[1]["values"]]
    assert 0 < sum(best) <= 1 + 1e-12 and all(0 <= share <= 1 for share in best)
    for answer in run.json("query r.json --draws 100")["answers"]:
        assert all("noise" in row for row in answer["values"])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("'P(lung)' 'P(lunge)'", "query 2, P(lunge): no variable 'lunge'; did you mean 'lung'?"),
        ("broken.txt", "query 2, P(lung | smoke=maybe): 'smoke' has no state 'maybe'; its states: yes, no"),
        ("empty.txt", "the files have no query; write one a line"),
        (
            "'P(lung)' none.txt",
            "'none.txt' is no query, such as P(A | B=b), MAP(A, B | C=c), MPE(| C=c) or E(X), and no "
            "text file of queries (cannot read queries "
            "'none.txt': No such file or directory)",
        ),
        (
            "d.parquet",
            "'d.parquet' is no query, such as P(A | B=b), MAP(A, B | C=c), MPE(| C=c) or E(X), and no "
            "text file of queries (cannot read queries "
            "'d.parquet': not UTF-8 text; save it as UTF-8)",
        ),
        ("- -", "only one of the release and the queries can come from stdin, and once; give a file"),
    ],
)
def test_bad_queries(run: Shell, command: str, message: str) -> None:
    Path("broken.txt").write_text("P(lung)\nP(lung | smoke=maybe)\n")
    Path("empty.txt").write_text("# nothing\n\n")
    assert run.fails(f"{ASK} {command}") == f"discreet: {message}\n"


def test_bad_stdin(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "only one of the release and the queries" in run.fails("query - -")
    stdin(monkeypatch, b"\xff\xfe")
    assert "cannot read the queries from stdin: not UTF-8 text" in run.fails(f"{ASK} -")
    stdin(monkeypatch, b"")
    assert "the files have no query" in run.fails(f"{ASK} -")
    stdin(monkeypatch, b"{}")
    assert "query 1, {}: write P(A, B | C=c)" in run.fails(f"{ASK} -")


# --------------------------------------------------------------------------------------------------------------- text

CELLS = random_draws(asia().network, 200, seed=1)


def table_of(posterior: dc.results.PosteriorDraws, queries: list[str]) -> list[str]:
    return answer_many(posterior, queries, level=0.9).summary().partition("\n\n")[0].splitlines()


def test_text_has_a_column_of_the_noise_where_it_is_known() -> None:
    queries = ["P(lung | smoke=yes)", "P(bronc)"]
    head, *rows = table_of(dc.results.PosteriorDraws(CELLS, replicates=CELLS), queries)
    assert head.split() == ["query", "state", "mean", "90", "%", "interval", "noise"]
    assert len(rows) == 4 and all(row.endswith("  100 %") for row in rows)
    head, *rows = table_of(dc.results.PosteriorDraws(CELLS), queries)
    assert head.split() == ["query", "state", "mean", "90", "%", "interval"]
    assert len(rows) == 4 and not any("%" in row for row in rows)


@pytest.mark.parametrize(
    ("share", "error", "shown"),
    [
        (0.384, 0.027, "38 ± 3 %"),
        (0.384, 0.13, "40 ± 10 %"),
        (0.5, 0.094, "50 ± 9 %"),
        (0.996, 0.0004, "100 %"),
        (0.0, 0.031, "0 ± 3 %"),
        (0.38, 0.7, "40 ± 70 %"),
    ],
)
def test_the_noise_is_printed_to_the_precision_that_it_has(share: float, error: float, shown: str) -> None:
    row = {"state": {"x": "yes"}, "mean": 0.5, "lower": 0.4, "upper": 0.6, "noise": share, "noise_error": error}
    answer = dc.results.Answer("P(x=yes)", "marginal", 0.95, (row,))
    assert answer.summary().endswith(f"  {shown}")


@pytest.mark.costly("An option without effect is found by asking with it and without.")
def test_predictive_answers_are_asked_for_by_an_option(run: Shell) -> None:
    query = "P(lung | xray=yes)"
    posterior = dc.noise_aware(dc.Release.load("r.json"), draws=100, rng=np.random.default_rng(0))
    for option, predictive in (("", False), ("--predictive", True)):
        (found,) = run.json(f"{ASK} '{query}' {option}")["answers"]
        exact = dc.answer(posterior, query, level=0.95, predictive=predictive)
        assert [row["mean"] for row in found["values"]] == [row["mean"] for row in exact.rows]


def test_a_prior_network_with_its_parents_in_another_order_is_refused(run: Shell) -> None:
    """Its tables have the same shapes, and other axes."""
    theta = asia()
    parents = {node: theta.network.parents[node][::-1] for node in theta.network.nodes}
    dc.Tables(dc.Network(theta.network.variables, parents), dict(theta)).write("turned.bif")
    code, _, err = run(f"{ASK} 'P(dysp)' --prior turned.bif")
    assert code == 2 and "has another structure than the network" in err


@pytest.mark.costly("A method that is not the one told is found by drawing with each.")
def test_the_posterior_says_how_it_was_drawn(run: Shell) -> None:
    told = run.json(f"{ASK} 'P(lung)'")
    assert told["method"] == "pooled"
    _, out, _ = run(f"{ASK} 'P(lung)'")
    wide = dc.noise_aware(dc.Release.load("r.json"), draws=2, rng=1).saturated
    more = 0 if wide is None else len(wide.network.arcs) - len(asia().network.arcs)
    arcs = f", over a network with {more} more arc{'s' * (more > 1)} from its tables" if more else ""
    assert out.splitlines()[-2] == f"posterior: pooled{arcs}"
    assert run.json(f"{ASK} 'P(lung)' --method plug-in")["method"] == "plug-in"


def test_text_of_explanations() -> None:
    """The first explanation of many variables in full, the others by what they have otherwise."""
    head, *rows = table_of(dc.results.PosteriorDraws(CELLS), ["MAP(tub, lung | dysp=yes)", "P(asia)"])
    assert head.split() == ["query", "state", "mean", "90", "%", "interval", "best"]
    assert [row.count("%") for row in rows] == [1, 1, 1, 1, 0, 0]
    assert [row.count("tub=") + row.count("lung=") for row in rows] == [2, 2, 2, 2, 0, 0]

    (answer,) = answer_many(dc.results.PosteriorDraws(CELLS), ["MPE(| dysp=yes)"], level=0.9)
    lines = answer.summary().partition("\n\n")[0].splitlines()[1:]
    first = answer.rows[0]["state"]
    assert [line.split()[-1] for line in lines[1:7]] == [f"{name}={state}" for name, state in list(first.items())[1:]]
    shown = [line.split("  ") for line in lines[7:]]
    told: list[dict[str, str]] = []
    for parts in shown:
        words = next(part for part in parts if part).strip()
        if words.startswith("but "):
            told.append({})
        told[-1] |= dict(pair.split("=") for pair in words.removeprefix("but ").split(", "))
    others = [{name: s for name, s in row["state"].items() if first[name] != s} for row in answer.rows[1:]]
    assert told == others


def test_text_says_which_answers_leave_draws_out() -> None:
    row = {"state": {"a": "yes"}, "mean": 0.5, "lower": 0.25, "upper": 0.75}
    whole, part = (
        dc.results.Answer(query, "conditional", 0.9, (row,), left_out=out)
        for query, out in (("P(a)", 0), ("P(a | b=no)", 0.125))
    )
    assert dc.results.Answers([whole, part]).summary().splitlines()[-2:] == [
        "",
        "P(a | b=no): 12 % of the draws make the evidence impossible and are left out",
    ]
    assert "left out" not in whole.summary()


def test_json_of_unknown_noise_is_null() -> None:
    (answer,) = answer_many(dc.results.PosteriorDraws(CELLS), ["P(asia)"], level=0.9)
    assert [json.loads(json.dumps(dict(row)))["noise"] for row in answer.rows] == [None, None]
