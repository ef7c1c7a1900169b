"""`discreet fit`, the marks of answers and `--trust-network`, at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import discreet as dc
from shell import RELEASE, Shell, opened
from test_fit_check import released

WRONG = "wrong.json"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    shell = opened(tmp_path, monkeypatch, capfd)
    released(0.3, 20_000, 1).save(WRONG)
    return shell


def test_fit_as_json(run: Shell) -> None:
    found = run.json(f"fit {WRONG}")
    assert {key: found[key] for key in ("tested", "pairs_in_tables", "pairs")} == {
        "tested": 1,
        "pairs_in_tables": 4,
        "pairs": 6,
    }
    (first,) = found["contradicted"]
    assert first["variables"] == ["a", "b"] and first["arcs"] == [["a", "b"]]
    assert first["p"] < 1e-4 and 0.1 < first["effect"] < 0.2


def test_fit_for_a_person(run: Shell) -> None:
    code, out, _ = run(f"fit {WRONG}")
    lines = out.splitlines()
    assert code == 0 and lines[0].split() == ["independent,", "says", "the", "network", "effect", "p", "arcs", "that",
                                              "would", "carry", "it"]  # fmt: skip
    assert lines[1].startswith("a - b") and "contradicted" in lines[1] and lines[1].endswith("a -> b")
    assert lines[-1].startswith("1 of 1 testable independence contradicted, most of all a - b")


def test_another_network_is_tested_as_from_python(run: Shell) -> None:
    release = dc.Release.load(WRONG)
    arcs = [*release.network.arcs, ("a", "b")]
    Path("arcs.txt").write_text("\n".join(f"{parent} -> {child}" for parent, child in arcs), encoding="utf-8")
    found = run.json(f"fit {WRONG} --network arcs.txt")
    assert found["contradicted"] == []
    other = dc.Network.from_edges(arcs, release.network.schema)
    assert found["tested"] == len(dc.check_fit(release, network=other).tests)
    assert run.json(f"fit {WRONG} --network none")["contradicted"]
    Path("other.txt").write_text("a -> e", encoding="utf-8")
    assert "'e'" in run.fails(f"fit {WRONG} --network other.txt")


def test_release_query_and_fit_say_the_same_of_the_network(run: Shell) -> None:
    code, _, err = run(RELEASE)
    assert code == 0
    said = err.splitlines()[-1].removeprefix("network: ")
    assert run("fit r.json")[1].splitlines()[-1] == said
    assert run("query r.json 'P(lung)' --draws 40")[1].splitlines()[-1] == f"network: {said}"


def test_answers_say_what_they_rest_on(run: Shell) -> None:
    queries = "'P(a, b)' 'P(a | d=s0)'"
    code, out, _ = run(f"query {WRONG} {queries} --draws 60")
    assert code == 0 and out.splitlines()[0].endswith("rests on")
    assert "assumed: no table has a with d" in out.splitlines()
    assert "posterior: pooled" in out and "over a network with 1 more arc from its tables" in out
    measured, assumed = run.json(f"query {WRONG} {queries} --draws 60")["answers"]
    assert (measured["basis"], measured["unmeasured"]) == ("measured", [])
    assert (assumed["basis"], assumed["unmeasured"]) == ("assumed", [["a", "d"]])


def test_a_network_that_is_trusted_is_read_as_it_is(run: Shell) -> None:
    trusted, read = (
        run.json(f"query {WRONG} 'P(a, b)' --draws 60{option}")["answers"][0] for option in (" --trust-network", "")
    )
    assert (trusted["basis"], read["basis"]) == ("contradicted", "measured")
    assert abs(trusted["values"][0]["mean"] - read["values"][0]["mean"]) > 0.04
    code, out, _ = run(f"query {WRONG} 'P(a, b)' --draws 60 --trust-network")
    assert code == 0 and "more arcs" not in out
    for command in ("sample {} -n 2000 --draws 20 --output s{}.csv", "export {} --to bif --draws 20 --output e{}.bif"):
        for index, option in enumerate(("", " --trust-network")):
            assert run(command.format(WRONG, index) + option)[0] == 0
    assert Path("s0.csv").read_text() != Path("s1.csv").read_text()


@pytest.mark.costly("Documents of earlier versions are read by chains of today, from the shell.")
def test_releases_of_earlier_versions_are_read_saturated(run: Shell) -> None:
    for name in ("add-remove", "replace"):
        path = Path(__file__).parent / "data" / f"release-v1-{name}.json"
        release = dc.Release.load(path)
        found = run.json(f"query {path} --draws 40")
        assert all(answer["basis"] == "measured" for answer in found["answers"])
        assert len(found["answers"]) == len(release.network.nodes)
        assert found["fit"]["pairs"] == len(release.network.nodes) * (len(release.network.nodes) - 1) // 2


def test_a_release_without_a_network_has_nothing_to_test(run: Shell) -> None:
    path = Path(__file__).parent / "data" / "release-v1-noisy-moments.json"
    assert "over a design" in run.fails(f"fit {path}")
    assert "leave out queries" in run.fails(f"query {path} --trust-network")
