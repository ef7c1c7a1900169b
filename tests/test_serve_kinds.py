"""`discreet serve` on every kind of evidence: each question has an answer or one sentence that says why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import discreet as dc
from discreet.server.problems import Problem
from folding import every
from served_kinds import KINDS, save, study
from serving import Local

NO_NETWORK = {"structure", "direction", "linear", "logistic", "logistic-without-law", "counts", "classes", "draws"}
"""What no query about probabilities can be asked of."""
OTHERS = {"census"}
"""Figures by others alone, of which there is no explanation."""
UNTESTED = NO_NETWORK | {"states"}
"""What has no network that could be tested."""
NO_NUMBERS = {"structure", "logistic-without-law"}
"""What answers no question at all: nothing was drawn, or a law is missing that a server has not."""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    folder = tmp_path_factory.mktemp("kinds")
    with Local([save(name, folder) for name in KINDS if name != "posterior_sampler"]) as server:
        yield server


def quoted(name: str) -> str:
    return f'"{name}"'


def questions(network: dc.Network | None) -> dict[str, tuple[str, Any]]:
    """A question for each operation: its address with what is said there, and its body."""
    nodes = ("x", "x") if network is None else network.nodes
    states = {name: ("s", "t") if network is None else network.schema[name].states for name in nodes}
    first, last = nodes[0], nodes[-1]
    query = f"P({quoted(last)})" if first == last else f"P({quoted(last)} | {quoted(first)}={quoted(states[first][0])})"
    evidence = f"{first}={states[first][0]}"
    pays = {"go": {state: float(at) for at, state in enumerate(states[last])}, "stay": dict.fromkeys(states[last], 0.5)}
    return {
        "marginals": (f"marginals?{urlencode({'e': evidence})}", None),
        "query": (f"query?{urlencode({'q': query})}", None),
        "queries": ("query", {"q": [query, f"MAP({quoted(last)})"], "predictive": True, "level": 0.8}),
        "rows": (f"query?{urlencode({'q': query, 'format': 'csv'})}", None),
        "predict": ("predict", {"records": [{first: states[first][0]}], "target": last}),
        "decide": ("decide", {"query": f"P({quoted(last)})", "payoffs": pays}),
        "number": ("decide", {"quantity": f"P({quoted(last)}={quoted(states[last][0])})"}),
        "vector": ("decide", {"quantities": [f"P({quoted(last)})"]}),
        "synthetic": ("synthetic?n=3&sets=2&set=2", None),
    }


@pytest.mark.costly("A kind of release that breaks an operation is found by asking each every question.")
@every("name", [name for name in KINDS if name != "posterior_sampler"])
def test_every_kind_answers_or_says_why_not(local: Local, name: str) -> None:
    try:
        network = local.catalog.find(name).network
    except Problem:
        network = None
    for operation, (path, body) in questions(network).items():
        got = local.ask(f"/releases/{name}/{path}", body)
        if name in NO_NETWORK:
            assert got.problem(400, "bad-request"), operation
        elif name == "family" and operation == "predict":
            assert got.status in (200, 400)
        else:
            assert got.status == 200, (operation, got.text)
    plain = local.ask(f"/releases/{name}/query")
    assert plain.status == (400 if name in NO_NUMBERS else 200), plain.text
    if name in NO_NETWORK - NO_NUMBERS:
        assert plain.json()["coefficients"] and local.ask(f"/releases/{name}/query?format=csv").status == 200
        assert "coefficients" in local.ask(f"/releases/{name}/marginals").problem(400, "bad-request")
    for operation, refused in {"fit": UNTESTED, "explain": OTHERS, "report": set()}.items():
        got = local.ask(f"/releases/{name}/{operation}")
        assert got.status == (400 if name in refused else 200), (operation, got.text)
    found = study(name)
    assert local.ask(f"/releases/{name}").text == (found.read_text() if isinstance(found, Path) else found.dumps())


@every("name, record", [
    ("linear", {"age": 0.5, "dose": 0.1}), ("logistic", {"age": 0.5, "dose": 0.1}),
    ("counts", {"age": 0.5, "dose": 0.1}), ("classes", {"age": 0.5, "dose": 0.1}),
])  # fmt: skip
def test_regressions_expect_something_of_values_that_are_typed_in(local: Local, name: str, record: Any) -> None:
    asked = f"/releases/{name}/predict"
    got = local.ask(asked, {"records": [record, {"age": 0.1, "dose": 1}], "level": 0.8}).json()
    assert local.ask(asked, {"records": {"age": [0.5, 0.1], "dose": [0.1, 1]}, "level": 0.8}).json() == got
    for row in got["records"]:
        for output, mean in row["mean"].items():
            assert row["lower"][output] <= mean <= row["upper"][output]
    if name in ("logistic", "classes"):
        assert abs(sum(got["records"][0]["mean"].values()) - 1) < 1e-9
    for strange in ({"age": 1}, {**record, "z": 1}, {"age": "old", "dose": 1}, {"age": None, "dose": 1},
                    {"age": True, "dose": 1}, {"age": 10**400, "dose": 1}):  # fmt: skip
        assert "position 0" in local.ask(asked, {"records": [strange]}).problem(400, "bad-request")
    assert "own target" in local.ask(asked, {"records": [record], "target": "age"}).problem(400, "bad-request")
    assert "missing" in local.ask(asked, {"records": [record], "missing": "state"}).problem(400, "bad-request")
    assert local.ask(asked, {"records": []}).json()["records"] == []


def test_a_family_answers_with_its_parameters(local: Local) -> None:
    got = local.ask("/releases/family/query?level=0.5").json()
    assert got["parameters"] and "probabilities" not in got
    assert "no option but level" in local.ask("/releases/family/query?predictive=true").problem(400, "bad-request")


def test_what_is_served_says_what_it_is(local: Local) -> None:
    told = {each["name"]: each for each in local.ask("/releases").json()["releases"]}
    assert {name: each["kind"] for name, each in told.items()} | {"plain": "network"} == {
        name: "weights" if name in NO_NETWORK - {"structure"} else name if name in ("structure", "family", "states")
        else "network"
        for name in told
    }  # fmt: skip
    assert told["census"]["private"] is not None and told["census"]["date"] is None
