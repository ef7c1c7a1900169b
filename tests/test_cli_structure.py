"""A network chosen by the records, from the shell: from CSV to the choice, to a release with it, to answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import discreet as dc
from networks import asia
from shell import Shell, as_csv, charges, opened, sample, stdin
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

CHOOSE = "structure d.csv --schema asia.json --account add-remove --epsilon 0.5 --output s.json"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    shell = opened(tmp_path, monkeypatch, capfd)
    Path("d.csv").write_bytes(as_csv(sample()))
    variables = [{"name": part.name, "states": list(part.states)} for part in asia().network.schema]
    Path("asia.json").write_text(json.dumps({"variables": variables}), encoding="utf-8")
    return shell


@pytest.mark.costly("What was learned from the records must be said by every command on the way.")
def test_from_records_to_a_network_to_a_release_to_answers(run: Shell) -> None:
    told = run.json(f'{CHOOSE} --max-parents 1 --require "smoke -> lung" --forbid "xray -> smoke"')
    made = dc.Release.load("s.json")
    network = made.learned_network
    assert told["release"] == "s.json" and told["id"] == made.id and told["mechanism"] == "structure"
    assert told["arcs"] == [list(arc) for arc in network.arcs] and ["smoke", "lung"] in told["arcs"]
    assert (told["spent"], told["left"], charges()) == ("0.5", "2.5", 1)
    assert len(network.arcs) == 7 and max(map(len, network.parents.values())) == 1
    origin = {"release": made.id, "epsilon": "0.5", "relation": "add-remove", "unit": "record", "private": True}
    words = f"network: learned from the records by release {made.id[:8]} for epsilon 0.5 (add-remove, unit record)"

    code, out, err = run("release d.csv --network s.json --account add-remove --epsilon 1 --output r.json")
    assert code == 0 and words in err
    released = dc.Release.load("r.json")
    assert released.network == network and released.network.learned == network.learned
    assert charges() == 2

    assert run.json('query r.json "P(lung | smoke=yes)" --draws 200')["learned"] == [origin]
    for command in ('query r.json "P(lung)" --draws 200', "show r.json", "show s.json"):
        code, out, _ = run(command)
        assert code == 0 and words in out
    assert run.json("show s.json")["arcs"] == told["arcs"]
    assert run.json("show s.json")["learned"] == [origin]
    rehearsed = "plan --network s.json --epsilon 1 --records 1000 --repeats 1 --mechanism laplace --relation replace"
    code, out, _ = run(rehearsed)
    assert code == 0 and words in out
    assert run.json(rehearsed)["learned"] == [origin]
    code, out, _ = run("export r.json --output - --draws 100")
    assert code == 0 and "learned from the records" in out
    assert "learned" not in run.json("show asia.bif")


def test_a_choice_reads_and_writes_streams_and_says_what_it_chose(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, as_csv(sample()))
    code, out, err = run(CHOOSE.replace("d.csv", "-").replace("s.json", "-") + " --first smoke --first lung")
    assert code == 0
    made = dc.Release.loads(out)
    assert made.calibration.first == ("smoke", "lung")
    for parent, child in made.learned_network.arcs:
        assert f"\n{parent} -> {child}\n" in err
    assert "chosen in 6 rounds with noise of scale 48 records" in err


@pytest.mark.costly("A plan for another network than the chosen one is found by choosing, planning and releasing.")
def test_a_plan_is_made_for_the_network_that_was_chosen(run: Shell) -> None:
    run.json(CHOOSE)
    told = run.json("plan --network s.json --epsilon 1 --records 500 --repeats 1 --mechanism laplace")
    assert told["source"] == "random probabilities"
    run.json("release d.csv --network s.json --schema asia.json --account add-remove --epsilon 1 --output r.json")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--require 'smoke -> lung' --require 'lung -> smoke'", 2, "required arcs: the network has a cycle"),
        ("--require 'smoke -> nobody'", 2, "nobody"),
        ("--require smoke", 2, "required arcs, line 1"),
        ("--require 'smoke -> lung' --forbid 'smoke -> lung'", 2, "is required and forbidden"),
        ("--forbid 'nobody -> lung'", 2, "forbidden arcs, line 1"),
        ("--first nobody", 2, "nobody"),
        ("--max-parents 0", 2, "max_parents and max_cells are at least 1"),
        ("--max-cells 1", 2, "more than 1"),
        ("--epsilon 1e-30", 2, "epsilon is too small"),
        ("--epsilon 0", 2, "epsilon"),
        ("--epsilon 4", 3, "cannot pay"),
        ("--account nobody", 2, "nobody"),
        ("--schema none.json", 2, "none.json"),
        ("--output asia.bif", 2, "exists"),
    ],
)
def test_what_is_refused_is_refused_in_one_line_and_costs_nothing(
    run: Shell, words: str, code: int, message: str
) -> None:
    assert message in run.fails(f"{CHOOSE} {words}", code)
    assert charges() == 0
    assert not Path("s.json").exists()


def test_bad_records_cost_nothing(run: Shell) -> None:
    Path("d.csv").write_text(Path("d.csv").read_text().replace("yes", "perhaps", 1))
    assert "perhaps" not in run.fails(CHOOSE)
    assert charges() == 0


@pytest.mark.costly("A released choice that is taken for counts is found by each command that reads releases.")
def test_a_choice_is_read_as_nothing_else(run: Shell) -> None:
    run.json(CHOOSE)
    assert "there is no posterior of it" in run.fails("query s.json")
    assert "there is no posterior of it" in run.fails("fit s.json")
    common = "d.csv --account add-remove --epsilon 1 --output r.json"
    assert "`discreet structure`" in run.fails(f"release {common} --network s.json --mechanism structure")
    run.json(f"release {common} --network s.json")
    again = common.replace("r.json", "q.json")
    assert "chose no network; one of structure does" in run.fails(f"release {again} --network r.json")
    Path("t.json").write_text('{"format": 1}')
    assert "not a release" in run.fails(f"release {again} --network t.json")
    assert charges() == 2
