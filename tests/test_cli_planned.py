"""The planned release from the shell: the default of `release`, its plan beforehand, and workloads."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

import discreet as dc
from networks import asia
from shell import RELEASE, Shell, charges, opened
from sources import PEER_WARNINGS
from tiny import measured

pytestmark = PEER_WARNINGS

PLAN = "plan --network asia.bif --epsilon 1 --records 500 --repeats 1 --mechanism planned --option audit=0"
ALONE = f"{RELEASE} --audit 0"
"""Tables of the plan, and no pairs beside them."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


def test_a_release_is_planned_by_default(run: Shell) -> None:
    told = run.json(ALONE)
    made = dc.Release.load("r.json")
    assert (told["mechanism"], made.mechanism) == ("planned", "planned")
    assert [tuple(table["variables"]) for table in told["plan"]["tables"]] == measured(asia().network)
    assert told["plan"]["noise"] == "discrete_laplace"
    stars = {table["star"]: Fraction(table["budget"]) for table in told["plan"]["tables"]}
    assert set(stars) == {1, 2, 3}
    assert 1 - Fraction(1, 10**9) < sum(stars.values()) <= 1
    for table in told["plan"]["tables"]:
        assert table["scale"] == made.calibration.scales[tuple(table["variables"])]
    code, _, err = run(ALONE.replace("r.json", "s.json"))
    assert code == 0
    assert "noise in every cell of 6 tables, 6 of them in 3 stars whose noise agrees: discrete Laplace of scale" in err


@pytest.mark.costly("A plan that is not that of the release is found by making both.")
def test_the_plan_is_shown_before_anything_is_spent(run: Shell) -> None:
    told = run.json(f"{PLAN} --relation add-remove")
    assert [part["mechanism"] for part in told["expected"]] == ["(no privacy)", "planned"]
    assert set(told["plans"]) == {"add-remove"}
    plan = told["plans"]["add-remove"]
    assert plan == run.json(ALONE)["plan"]
    assert set(plan["expected"]) == set(asia().network.nodes)
    assert charges() == 1
    code, out, _ = run(PLAN)
    assert code == 0
    for words in (
        "plan, add-remove:", "plan, replace:", "smoke, bronc", "scale of the Laplace noise", "agrees on", "with it",
        "either given tub, lung", "expected error of a cell, in records",
    ):  # fmt: skip
        assert words in out
    assert "plans" not in run.json(PLAN.replace("planned --option audit=0", "laplace"))


def test_a_plan_says_what_is_too_large(run: Shell) -> None:
    """One record is too few for anything: families are measured in part once the number is given, and not before."""
    few = f"{PLAN} --relation add-remove".replace("--records 500", "--records 1").replace("epsilon 1", "epsilon 0.01")
    _, out, _ = run(few)
    assert "families are too large for 1 records at this budget. With --option records=1 they are measured" in out
    assert "(without" not in out
    _, out, _ = run(f"{few} --option records=1")
    assert "families are too large" not in out
    assert "(without" in out


def test_a_plan_with_a_delta_shows_gaussian_noise(run: Shell) -> None:
    told = run.json(PLAN.replace("epsilon 1", "epsilon 0.1") + " --delta 0.1 --relation replace")
    assert told["plans"]["replace"]["noise"] == "discrete_gaussian"
    _, out, _ = run(PLAN.replace("epsilon 1", "epsilon 0.1") + " --delta 0.1 --relation replace")
    assert "scale of the Gaussian noise" in out


@pytest.mark.costly("Plans for a workload are made in each way to state one.")
def test_workloads_are_queries_or_files_of_them(run: Shell) -> None:
    Path("asked.txt").write_text("# what the clinic asks\n\nP(smoke)\n  P(lung | smoke=yes)  \n", encoding="utf-8")
    words = '--workload "P(smoke)" --workload "P(lung | smoke=yes)"'
    listed = run.json(f"{PLAN} --relation add-remove {words}")["plans"]["add-remove"]
    filed = run.json(f"{PLAN} --relation add-remove --workload asked.txt")["plans"]["add-remove"]
    plain = run.json(f"{PLAN} --relation add-remove")["plans"]["add-remove"]
    assert listed == filed != plain
    assert listed["expected"]["smoke"] < plain["expected"]["smoke"]
    assert run.json(f"{ALONE} --workload asked.txt")["plan"] == filed
    assert json.loads(Path("r.json").read_text())["calibration"]["tables"] == filed["tables"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--workload 'P(lungs)'", "did you mean 'lung'"),
        ("--workload 'P(lung'", "query 'P(lung'"),
        ("--workload nothing.txt", "no text file of queries"),
        ("--workload .", "no text file of queries"),
        ("--workload empty.txt", "at least one query"),
        ("--workload 'P(lung)' --mechanism laplace", "only planned serves a workload, not laplace"),
        ("--option workload=P(lung)", "no option of 'planned'; it takes records=..., pairs_share=..."),
    ],
)
def test_what_is_no_workload_is_refused_and_costs_nothing(words: str, message: str, run: Shell) -> None:
    Path("empty.txt").write_text("# nothing\n", encoding="utf-8")
    assert message in run.fails(f"{RELEASE} {words}")
    assert charges() == 0


def test_the_audit_knows_the_plan(run: Shell) -> None:
    found = run.json("audit planned --records 1 --relation replace")
    assert all(part["holds"] and part["exact"] for part in found["findings"])


@pytest.mark.costly("A delta that buys nothing, unsaid, is found by planning and releasing with it.")
def test_a_delta_that_is_not_used_is_named(run: Shell) -> None:
    code, out, _ = run(f"{PLAN} --delta 1e-6 --relation add-remove")
    assert code == 0
    assert "the delta is charged but not used" in out
    run("ledger open wide --epsilon 2 --delta 1e-5 --relation add-remove")
    spent = ALONE.replace("--account add-remove", "--account wide") + " --delta 1e-6"
    code, _, err = run(spent)
    assert code == 0, err
    assert "the delta is charged but not used" in err
    code, out, err = run(PLAN)
    assert "charged and not used" not in out


@pytest.mark.parametrize("records", ["0", "-1", "99999999999999999999999"])
def test_a_plan_for_an_impossible_number_of_records(run: Shell, records: str) -> None:
    code, _, err = run(PLAN.replace("--records 500", f"--records {records}"))
    assert code == 2
    assert "at least one record and one repeat, and at most 100,000,000 records" in err


def test_the_share_for_pairs_is_said_once_and_leaves_something(run: Shell) -> None:
    before = charges()
    twice = run.fails(f"{ALONE} --option audit=0.6")
    assert "the share for pairs is given twice" in twice
    nothing = run.fails(f"{RELEASE} --audit 0.995")
    assert "a share of 0.995 for pairs leaves nothing for the network's tables" in nothing
    assert charges() == before


def test_the_share_for_pairs_answers_to_its_former_name_on_the_command_line(run: Shell) -> None:
    assert run.json(PLAN) == run.json(PLAN.replace("audit=0", "pairs_share=0"))


@pytest.mark.costly("Doubt about the network is told after a whole release with an audit only.")
def test_that_the_network_is_doubted_is_told_with_what_to_do(run: Shell) -> None:
    run(ALONE)
    query = "query r.json --draws 60"
    hint = "--assume network trusts it"
    assert hint in run(f"{query} 'P(asia | dysp=yes)'")[1]
    for silent in (
        f"{query} 'P(asia | dysp=yes)' --assume network",
        f"{query} 'P(lung | smoke=yes)'",
        f"{query} 'P(asia | dysp=yes)' --trust-network",
    ):
        code, out, _ = run(silent)
        assert code == 0 and hint not in out, silent
