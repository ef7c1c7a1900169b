"""`discreet serve`: what it answers is what the command line prints and what the library returns, to the last bit."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.inference.weighted_records import Sampling
from discreet.queries.documents import answer_document, read_answer
from discreet.queries.synthetic import record_chunks
from folding import every
from served_kinds import plain, save
from serving import Local, Reply
from shell import Shell

DRAWS = 200
QUERIES = ("P(c | a=yes)", "P(a, b)", "MAP(b, c | a=no)", "P(b=yes | c=yes)")
PAYOFFS = {"treat": {"no": -1, "yes": 4}, "wait": {"no": 0, "yes": 1}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with stored draws, and one without."""
    place = tmp_path_factory.mktemp("served")
    release = plain(1)
    release.save(place / "r.json")
    release.posterior(draws=DRAWS, rng=3).save(place / "r.draws")
    plain(2).save(place / "other.json")
    return place


@pytest.fixture(scope="module")
def local(folder: Path) -> Iterator[Local]:
    with Local([folder / "r.json", folder / "other.json"], [folder / "r.draws"]) as server:
        yield server


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(folder)
    return Shell(capfd)


def ask(local: Local, operation: str, *, of: str = "r", **given: Any) -> Reply:
    got = local.ask(f"/releases/{of}/{operation}?{urlencode(given, doseq=True)}")
    assert got.status == 200, got.text
    return got


@pytest.mark.costly("Every form of a question is asked of both the server and the shell.")
@every("of, file", [("r", "r.draws"), ("other", "other.json")])
def test_queries_are_those_of_the_command_line(local: Local, run: Shell, of: str, file: str) -> None:
    asked = " ".join(f"'{query}'" for query in QUERIES)
    assert ask(local, "query", of=of, q=QUERIES).json() == run.json(f"query {file} {asked}")
    assert ask(local, "query", of=of, q=QUERIES).text == run(f"query {file} {asked} --json")[1]
    assert ask(local, "query", of=of).text == run(f"query {file} --json")[1]
    assert ask(local, "query", of=of).body == ask(local, "marginals", of=of).body
    how = "--level 0.8 --predictive --assume robust"
    got = ask(local, "query", of=of, q=QUERIES[:2], level=0.8, predictive="true", assume="robust")
    assert got.text == run(f"query {file} '{QUERIES[0]}' '{QUERIES[1]}' {how} --json")[1]
    bounded = ask(local, "query", of=of, q=QUERIES[0], assume="nothing")
    assert bounded.text == run(f"query {file} '{QUERIES[0]}' --assume nothing --json")[1]
    posted = local.ask(f"/releases/{of}/query", {"q": QUERIES})
    assert posted.body == ask(local, "query", of=of, q=QUERIES).body


def test_rows_are_those_of_the_command_line(local: Local, run: Shell) -> None:
    got = ask(local, "query", q=QUERIES, format="csv")
    assert got.headers["content-type"] == "text/csv; charset=utf-8"
    asked = " ".join(f"'{query}'" for query in QUERIES)
    assert got.body == run(f"query r.draws {asked} --format csv")[1].encode()
    assert ask(local, "query", format="csv").body == run("query r.draws --format csv")[1].encode()


def test_answers_are_those_of_the_library_to_the_last_bit(local: Local, folder: Path) -> None:
    posterior = dc.results.PosteriorDraws.load(folder / "r.draws")
    for query in QUERIES:
        told = ask(local, "query", q=query).json()["answers"][0]
        answer = dc.answer(posterior, query)
        assert read_answer(told) == answer
        assert json.dumps(told) == json.dumps(answer_document(answer))
    given = dc.marginals(posterior, {"a": "yes"}, level=0.5)
    told = ask(local, "marginals", e="a=yes", level=0.5).json()["answers"]
    assert [read_answer(part) for part in told] == list(given)
    predicted = dc.predict(posterior, {"a": ["yes", None, "no"], "b": ["no", "no", None]}, "c", level=0.8)
    records = [{"a": "yes", "b": "no"}, {"b": "no"}, {"a": "no", "b": None}]
    got = local.ask("/releases/r/predict", {"records": records, "target": "c", "level": 0.8}).json()
    columns = {"a": ["yes", None, "no"], "b": ["no", "no", None]}
    assert local.ask("/releases/r/predict", {"records": columns, "target": "c", "level": 0.8}).json() == got
    for at, row in enumerate(got["records"]):
        for end in ("mean", "lower", "upper"):
            assert list(row[end].values()) == getattr(predicted, end)[at].tolist()
            assert list(row[end]) == list(predicted.states)


def test_decisions_are_those_of_the_command_line(local: Local, run: Shell) -> None:
    got = local.ask("/releases/r/decide", {"query": QUERIES[0], "payoffs": PAYOFFS}).json()
    (wanted,) = run.json(f"decide r.draws --query '{QUERIES[0]}' --payoffs '{json.dumps(PAYOFFS)}'")["decisions"]
    assert got == wanted
    for loss in ("squared", "absolute", "quantile:0.9", "interval:0.9"):
        got = local.ask("/releases/r/decide", {"quantity": QUERIES[3], "loss": loss, "level": 0.9}).json()
        asked = f"decide r.draws --quantity '{QUERIES[3]}' --loss {loss} --level 0.9"
        assert [got] == run.json(asked)["decisions"]
    got = local.ask("/releases/r/decide", {"quantities": [QUERIES[0], QUERIES[3]]}).json()
    asked = f"decide r.draws --quantity '{QUERIES[0]}' --quantity '{QUERIES[3]}' --together"
    assert [got] == run.json(asked)["decisions"] and got["kind"] == "vector"


def test_explanations_fits_and_regressions_are_those_of_the_command_line(local: Local, run: Shell) -> None:
    assert ask(local, "explain").text == run("explain r.json --json")[1]
    got = ask(local, "explain", q=QUERIES[0], rows=2, level=0.8)
    assert got.text == run(f"explain r.json '{QUERIES[0]}' --rows 2 --level 0.8 --json")[1]
    assert ask(local, "fit").text == run("fit r.json --json")[1]
    (wanted,) = run.json("query r.draws --regress 'c ~ a + b' --level 0.9")["regressions"]
    assert ask(local, "regress", target="c", on=["a", "b"], level=0.9).json() == wanted
    (wanted,) = run.json("query r.draws --regress 'c ~ a' --kind logistic --assume robust")["regressions"]
    assert ask(local, "regress", target="c", on="a", kind="logistic", assume="robust").json() == wanted
    rows = run("query r.draws --regress 'c ~ a + b' --format csv")[1]
    assert ask(local, "regress", target="c", on=["a", "b"], format="csv").body == rows.encode()


def test_what_is_stored_of_the_fit_is_what_it_would_be(folder: Path, tmp_path: Path) -> None:
    path = save("planned", tmp_path)
    release = dc.Release.load(path)
    release.posterior(draws=50, rng=1).save(tmp_path / "p.draws")
    for path, evidence in ((tmp_path / "p.draws", release), (folder / "r.draws", dc.Release.load(folder / "r.json"))):
        basis = dc.results.PosteriorDraws.load(path).basis
        assert basis is not None and basis.stored_fit == basis.fit_check == dc.check_fit(evidence)
    saved = (tmp_path / "p.draws").read_bytes()
    dc.results.PosteriorDraws.load(tmp_path / "p.draws").save(tmp_path / "again.draws")
    assert (tmp_path / "again.draws").read_bytes() == saved


def test_a_report_is_that_of_the_library(local: Local, folder: Path) -> None:
    release = dc.Release.load(folder / "r.json")
    posterior = dc.results.PosteriorDraws.load(folder / "r.draws")
    for form in ("html", "markdown"):
        wanted = dc.report(release, posterior=posterior, form=form, level=0.9, rng=0)
        got = ask(local, "report", format=form, level=0.9)
        assert got.text == wanted
        assert got.headers["content-type"] == f"text/{form}; charset=utf-8"


@every("form", ["csv", "parquet", "arrow"])
def test_records_are_those_of_the_library_in_several_pieces(local: Local, folder: Path, form: str) -> None:
    number = 150_000
    got = ask(local, "synthetic", n=number, seed=5, format=form)
    assert got.pieces > 2 and got.headers["content-disposition"] == f'attachment; filename="r-1.{form}"'
    (stream,) = dc.sample(dc.results.PosteriorDraws.load(folder / "r.draws"), number, rng=5)
    assert read_records(got.body, form).equals(stream.read_all().combine_chunks())


def read_records(body: bytes, form: str) -> pa.Table:
    """Records of a file."""
    if form == "csv":
        found = pyarrow.csv.read_csv(io.BytesIO(body))
    else:
        found = pq.read_table(io.BytesIO(body)) if form == "parquet" else pa.ipc.open_file(body).read_all()
    return found.combine_chunks()


def test_the_file_is_the_one_that_the_command_line_writes(local: Local, run: Shell, folder: Path) -> None:
    run("sample r.draws -n 70000 --output made.csv --replace")
    # The command line draws its records beside the posterior's stream: seed 0 of `query`, (0, 1) of `sample`.
    chunks = record_chunks(
        dc.sample(dc.results.PosteriorDraws.load("r.draws"), 70_000, rng=np.random.default_rng((0, 1)))[0], "csv"
    )
    wanted = Path("made.csv").read_bytes()
    assert b"".join(piece for _, piece in chunks) == wanted
    got = ask(local, "synthetic", n=70_000, format="csv").body
    assert got != wanted and len(got.splitlines()) == len(wanted.splitlines()) == 70_001


def test_sets_of_records_are_of_different_draws(local: Local, folder: Path) -> None:
    streams = dc.sample(dc.results.PosteriorDraws.load(folder / "r.draws"), 50, rng=5, sets=3)
    for number, stream in enumerate(streams, 1):
        got = ask(local, "synthetic", n=50, seed=5, sets=3, set=number)
        assert read_records(got.body, "csv").equals(stream.read_all().combine_chunks())
    assert ask(local, "synthetic", n=0).text == '"a","b","c"\n'
    asked = "/releases/r/synthetic?n=5&sets=2&set=3"
    assert "set 3 is none of them" in local.ask(asked).problem(400, "bad-request")


def test_two_servers_agree(local: Local, folder: Path) -> None:
    with Local([folder / "other.json", folder / "r.draws"]) as second:
        for path in ("r/query?q=" + quote(QUERIES[0]), "other/marginals?e=a%3Dno", "other/explain", "r", "r/report"):
            assert second.ask(f"/releases/{path}").body == local.ask(f"/releases/{path}").body


def test_the_document_is_the_file(local: Local, folder: Path) -> None:
    got = local.ask("/releases/r")
    assert got.text == dc.Release.load(folder / "r.json").dumps()
    assert got.body == local.ask(f"/releases/{dc.Release.load(folder / 'r.json').id}").body


def test_the_list_says_what_is_served(local: Local) -> None:
    first, second = local.ask("/releases").json()["releases"]
    assert (first["name"], first["kind"], first["variables"], first["version"]) == ("r", "network", 3, 1)
    assert first["guarantees"] == ["epsilon 1, add-remove one record"] and first["private"] is False
    assert first["versions"] == [{"id": first["id"], "version": 1}]
    assert second["fault"] is None and second["name"] == "other"


def test_both_readings_of_missing_values(tmp_path: Path, run: Shell) -> None:
    path = save("gappy", tmp_path)
    with Local([path]) as server:
        for missing in ("", "at-random", "state"):
            given = {"missing": missing} if missing else {}
            option = f"--missing {missing}" if missing else ""
            got = ask(server, "query", of="gappy", q=["P(b)", "P(c | a=yes)"], **given)
            assert got.text == run(f"query {path} 'P(b)' 'P(c | a=yes)' {option} --json")[1]
            assert got.json()["missing"] == (missing or "state")
        assert ask(server, "query", of="gappy", q="P(b=missing)", missing="state").json()["answers"]


def test_an_interval_that_is_of_sampling_alone_has_json() -> None:
    row = {"state": {"a": "yes"}, "mean": 0.5, "lower": 0.4, "upper": 0.6}
    for widening, said in ((math.inf, "of the sampling alone"), (0.025, "at most 2.5 % wider")):
        answer = dc.results.Answer("P(a)", "marginal", 0.95, (row,), sampling=Sampling(512, 400.0, 0.01, widening))
        told = json.loads(json.dumps(answer_document(answer), allow_nan=False))
        assert read_answer(told) == answer
        assert said in answer.summary()
