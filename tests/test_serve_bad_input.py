"""What cannot be asked of a server: one sentence, the right status, and all that was there still answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pydantic
import pytest

import discreet as dc
from discreet.server.parameters import PredictRequest
from folding import every
from served_kinds import plain, save
from serving import Local
from test_shown_releases import HOSTILE

GOOD: dict[str, Any] = {"query": "P(c)", "payoffs": {"go": {"no": 0, "yes": 1}, "stay": {"no": 1, "yes": 0}}}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    folder = tmp_path_factory.mktemp("bad")
    plain(1).save(folder / "r.json")
    with Local([folder / "r.json", save("planned", folder)]) as server:
        yield server


@pytest.fixture(scope="module")
def known(local: Local) -> bytes:
    """An answer that stays what it is, whatever happens."""
    return local.ask("/releases/r/query?q=P(a,c)").body


@every("path, words", [
    ("query?q=P(c", "write P(A, B | C=c)"), ("query?q=", "write P(A, B | C=c)"), ("query?q=P(c%7Ca)", "needs a state"),
    ("query?q=P(c%7Ca=yes,a=no)", "occurs twice"), ("query?q=P(c%7Ca=yes,a=yes)", "occurs twice"),
    ("query?q=P(z)", "no variable 'z'"), ("query?q=P(c=z)", "no state 'z'"), ("query?q=P(c%7Cc=yes)", "occurs twice"),
    ("query?q=P(c)&q=P(z)", "query 2: "),
    pytest.param("query?q=" + "x" * 100_000, "write P(A, B | C=c)", id="a long text"),
    pytest.param("query?q=P(" + "a," * 49_000 + "a)", "occurs twice", id="a long query"),
    pytest.param("query?q=" + "x" * (2**17 + 1), "at most 131072 characters", id="too long a query"),
    pytest.param("query?" + "q=P(c)&" * 10_001, "at most 10000 items", id="too many queries"),
    ("query?q=%ff%fe", "write P"), ("query?q=%00", "write P"),
    ("query?q=P(c)%ed%a0%80", "did not expect"), ("query?level=nan", "a level lies between 0 and 1"),
    ("query?level=0", "between 0 and 1"), ("query?level=1", "between 0 and 1"), ("query?level=inf", "between 0 and 1"),
    ("query?level=-1", "between 0 and 1"), ("query?level=text", "level: input should be a valid number"),
    ("query?level=0.9&level=0.8", "'level' is given 2 times"), ("query?x=1", "no parameter of this question"),
    ("query?assume=robust", "give q"), ("query?q=P(c)&assume=x", "'network', 'robust' or 'nothing'"),
    ("query?q=P(c)&missing=at-random", "no state for missing"), ("query?q=P(c)&missing=state", "no state for missing"),
    ("marginals?missing=state", "no state for missing"), ("query?q=P(c)&format=xml", "'json' or 'csv'"),
    ("query?=", "no parameter"), ("marginals?e=a", "no evidence such as"), ("marginals?e=", "no evidence such as"),
    ("marginals?e=a=yes&e=a=yes", "'a' twice"), ("marginals?e=a=yes&e=a=no", "'a' twice"),
    ("marginals?e=z=yes", "variables are a, b, c"), ("marginals?e=a=maybe", "no state 'maybe'"),
    pytest.param("marginals?e=" + "=" * 5000, "no evidence such as", id="many marks"),
    ("marginals?q=P(c)", "no parameter"),
    ("regress?target=c", "on: field required"), ("regress?target=c&on=c", "twice"), ("regress?target=c&on=z", "'z'"),
    ("regress?target=c&on=a&level=nan", "between 0 and 1"), ("explain?rows=0", "rows: "), ("explain?q=z", "write P"),
    ("explain?level=1", "between 0 and 1"), ("report?level=nan", "between 0 and 1"), ("fit?x=1", "parameters are: n"),
    ("synthetic", "n: field required"), ("synthetic?n=-1", "n: "), ("synthetic?n=1.5", "n: "),
    ("synthetic?n=1&sets=0", "sets: "), ("synthetic?n=1&sets=1001", "1001 sets"), ("synthetic?n=1&set=2", "set 2"),
    ("synthetic?n=1&seed=-1", "seed: "), ("synthetic?n=1&seed=99999999999999999999", "seed: "),
    ("synthetic?n=1&format=x", "format: "), ("decide", ""),
])  # fmt: skip
def test_what_cannot_be_asked_in_an_address(local: Local, known: bytes, path: str, words: str) -> None:
    got = local.ask(f"/releases/r/{path}")
    said = got.problem(405, "method-not-allowed") if path == "decide" else got.problem(400, "bad-request")
    assert words in said
    assert len(said) < 1000
    assert local.ask("/releases/r/query?q=P(a,c)").body == known


@every("operation, body, words", [
    ("decide", {}, "give a query with its payoffs, a quantity, or quantities"), ("decide", [], "a JSON object"),
    ("decide", {"quantities": []}, "at least one query"), ("decide", {"quantities": ["MAP(c)"]}, "one probability"),
    ("decide", {"quantities": ["P(c)"], "loss": "absolute"}, "neither a loss nor bounds"),
    ("decide", {"quantities": ["P(c)"], "bounds": [0, 2]}, "neither a loss nor bounds"),
    ("decide", {"quantities": ["P(c)"], "quantity": "P(c=no)"}, "a quantity, or quantities"),
    ("decide", {"quantities": ["P(c)"], "payoffs": {"a": {"no": 1, "yes": 2}}}, "a quantity, or quantities"),
    ("decide", {"quantities": "P(c)"}, "quantities: "), ("decide", {"quantities": ["P(c)"] * 10_001}, "quantities: "),
    ("decide", {"quantities": ["P(c"]}, "P(c"), ("decide", {"quantities": ["P(c)"], "level": 1}, "between 0 and 1"),
    ("decide", b"", "not JSON"), ("decide", b"\xff\xfe", "UTF-8"),
    pytest.param("decide", b"[" * 100_000, "inside", id="lists"),
    pytest.param("decide", b'{"a":' * 100_000, "inside", id="objects"),
    ("decide", b'{"query": "P(c)", "query": "P(b)"}', "twice"),
    ("decide", {**GOOD, "payoffs": {}}, "at least one response"), ("decide", {**GOOD, "payoffs": {"a": {}}}, "every"),
    ("decide", {**GOOD, "payoffs": {"a": {"no": 1, "yes": 1}}}, "two different bounds"),
    ("decide", b'{"query": "P(c)", "payoffs": {"a": {"no": NaN, "yes": 1}}}', "NaN is not a JSON number"),
    ("decide", b'{"query": "P(c)", "payoffs": {"a": {"no": 1e999, "yes": 1}}}', "within 1e+100"),
    ("decide", b'{"query": "P(c)", "payoffs": {"a\\uD800": {"no": 1, "yes": 2}}}', "lone surrogates"),
    ("decide", {**GOOD, "level": 0}, "between 0 and 1"), ("decide", {**GOOD, "failure": 0}, "failure must be"),
    ("decide", {"quantity": "P(c)"}, "one probability"), ("decide", {"quantity": "P(c=no)", "loss": "x"}, "a loss is"),
    ("decide", {**GOOD, "quantity": "P(c=no)"}, "give a query with its payoffs, a quantity, or"),
    ("decide", {**GOOD, "z": 1}, "'z' is no parameter"), ("decide", {"quantity": 1}, "quantity: "),
    ("query", {"q": "P(c)"}, "q: input should be a valid list"), ("query", {"q": [1]}, "q.0: "),
    ("query", {"q": ["P(c)", "P("]}, "query 2: "), ("query", {"level": "NaN", "q": ["P(c)"]}, "between 0 and 1"),
    ("predict", {"records": [{"a": "yes"}]}, "name the target"), ("predict", {"target": "c"}, "records: "),
    ("predict", {"records": [{"a": "maybe"}], "target": "c"}, "none of its states"),
    ("predict", {"records": [{"z": "yes"}], "target": "c"}, "no variables of the network: 'z'"),
    ("predict", b'{"records": [{"a": "yes", "a": "no"}], "target": "c"}', "'a' occurs twice"),
    ("predict", b'{"records": [{"a": NaN}], "target": "c"}', "NaN is not a JSON number"),
    ("predict", {"records": [{"a": 10**400}], "target": "c"}, "'a'"), ("predict", {"records": 1, "target": "c"}, "rec"),
    ("predict", {"records": {"a": ["yes"], "b": []}, "target": "c"}, "differ in length"),
    ("predict", {"records": [{"a": ["yes"]}], "target": "c"}, "records: a record is an object"),
    ("predict", {"records": [{"b": "no"}, {"a": ["yes"]}], "target": "c"}, "'a' of '1' is not"),
    ("predict", {"records": [{}, []], "target": "c"}, "null; '1' is not"),
    ("predict", {"records": {"a": {}}, "target": "c"}, "null; 'a' is not"),
    ("decide", {**GOOD, "payoffs": {"a": {"no": "1", "yes": 1}}}, "'no' of 'a' is not"),
    ("decide", {**GOOD, "payoffs": {"a": 1}}, "payoffs: what a response pays"),
    ("decide", {**GOOD, "queries": 10**400}, "queries must be finite"),
    ("decide", {"quantity": "P(c=no)", "queries": 10**400}, "queries must be finite"),
    ("decide", {"quantity": "P(c=no)", "bounds": [0, 1e308]}, "within 1e+100"),
    ("query", {"q": ["P(a" + " " * 60_000 + "b)"]}, "no variable"),
    ("query", {"q": ["P(a" + "<" * 60_000 + ")"]}, "no variable"),
])  # fmt: skip
def test_what_cannot_be_asked_in_a_body(local: Local, known: bytes, operation: str, body: Any, words: str) -> None:
    said = local.ask(f"/releases/r/{operation}", body).problem(400, "bad-request")
    assert words in said, said
    assert len(said) < 1000
    assert local.ask("/releases/r/query?q=P(a,c)").body == known


def test_of_many_faults_one_is_made() -> None:
    for records in ({"a": [[]] * 1000}, [{"a": []}] * 1000, [[]] * 1000, {f"v{at}": 1 for at in range(1000)}):
        with pytest.raises(pydantic.ValidationError) as refused:
            PredictRequest.model_validate({"records": records})
        assert refused.value.error_count() == 1


def test_records_have_an_end_however_little_of_them_is_said(local: Local) -> None:
    sparse = [{f"v{at}": "x"} for at in range(100)]
    said = local.ask("/releases/r/predict", {"records": sparse, "target": "c"}).problem(400, "bad-request")
    with pytest.raises(dc.InputError) as refused:
        dc.predict(plain(1).posterior(draws=10, rng=1), {f"v{at}": ["x"] for at in range(100)}, "c")
    assert said == str(refused.value)
    wide = {"records": [{f"v{at}": "x"} for at in range(2049)], "target": "c"}
    assert "more than 4,194,304 values" in local.ask("/releases/r/predict", wide).problem(422, "too-costly")


def test_a_parameter_in_the_address_of_what_a_body_asks(local: Local) -> None:
    said = local.ask("/releases/r/predict?level=0.8", {"records": [{}], "target": "c"}).problem(400, "bad-request")
    assert "'level' is no parameter" in said


def test_a_record_that_shows_nothing_is_a_record(local: Local) -> None:
    (row,) = local.ask("/releases/r/predict", {"records": [{}], "target": "c"}).json()["records"]
    (answer,) = local.ask("/releases/r/query?q=P(c)").json()["answers"]
    for state in answer["values"]:
        # Draws that are read for answers have single precision.
        assert abs(row["mean"][state["state"]["c"]] - state["mean"]) < 1e-7


@every("path", [
    "/releases/..%2f..%2fetc", "/releases/..%2f..%2fetc%2fpasswd", "/releases/%2e%2e", "/releases/%00",
    "/releases/r%00", pytest.param("/releases/" + "x" * 60_000, id="long"), "/releases/R",
    "/releases/r%20", "/releases/%ff",
    "/releases/r%C3%A9", "/releases//", "/releases/r/", "/releases/r/../r", "//releases", "/releases/r.json",
    "/static/../../etc/passwd", "/static/..%2f..%2fetc%2fpasswd", "/x", "/releases/r/z", "/releases/'",
    "/releases/%3Cb%3E",
])  # fmt: skip
def test_addresses_of_nothing(local: Local, path: str) -> None:
    said = local.ask(path).problem(404, "not-found")
    assert len(said) < 400 and "\x00" not in said and "passwd" not in said
    local.ask(path, headers={"accept": "text/html"}).problem(404, "not-found")


@every("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "STRANGE"])
def test_other_methods(local: Local, method: str) -> None:
    for path, allow in (
        ("/releases", "GET, HEAD"),
        ("/releases/r/query", "GET, HEAD, POST"),
        ("/releases/r/decide", "POST"),
    ):
        got = local.ask(path, method=method)
        assert allow in got.problem(405, "method-not-allowed")
        assert got.headers["allow"] == allow
    local.ask("/x", method=method).problem(404, "not-found")


def test_names_with_markup_and_quotes_come_back_as_they_are(local: Local) -> None:
    got = local.ask("/releases/planned/marginals?e=" + quote(f"$x^$={HOSTILE[0]}")).json()
    assert [answer["query"] for answer in got["answers"]] == [f'P(<b>smoke</b> | $x^$="{HOSTILE[0]}")']
    text = local.ask("/releases/planned/report").text
    assert "<script" not in text and "<b>smoke" not in text
    assert "=" not in local.ask("/releases").text


def test_nothing_of_a_question_is_logged(local: Local, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for path in ("query?q=P(canary)", "marginals?e=canary=yes", "query?level=canary"):
            assert local.ask(f"/releases/r/{path}").status == 400
    assert "canary" not in caplog.text and "canary" not in local.ask("/metrics").text


def test_an_error_of_the_server_says_its_kind_alone(
    local: Local, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr("discreet.server.replies.marginals", fail)
    got = local.ask("/releases/r/marginals?e=a=no")
    assert got.problem(500, "internal") == "internal error (RuntimeError); the server's log has it"
    assert "canary" in caplog.text
    monkeypatch.undo()
    assert local.ask("/releases/r/marginals?e=a=no").status == 200


def test_a_page_of_this_server_loads_nothing_from_elsewhere(local: Local, tmp_path: Path) -> None:
    for path, source in {"/releases": "'self'", "/releases/r/report": "'none'", "/x": "'self'"}.items():
        headers = local.ask(path).headers
        assert headers["content-security-policy"].startswith(f"default-src {source};")
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"
