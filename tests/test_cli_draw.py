"""`discreet draw`: every command answers from stored draws as from their release."""

from __future__ import annotations

from pathlib import Path

import pytest

from shell import RELEASE, Shell, reopened
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS


@pytest.fixture
def run(
    released_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Shell:
    return reopened(released_study, tmp_path, monkeypatch, capfd)


@pytest.mark.costly("Every command must say of stored draws what it says of their release.")
def test_answers_are_those_of_the_release_with_the_same_options(run: Shell) -> None:
    options = "--draws 60 --seed 4"
    told = run.json(f"draw r.json --output r.draws {options}")
    assert told == {"output": "r.draws", "method": "pooled", "draws": 60}
    for asked in ("query {} 'P(lung | smoke=yes)' 'MPE(| dysp=yes)'", "query {}", "query {} --regress 'dysp ~ smoke'"):
        assert run.json(asked.format("r.draws")) == run.json(asked.format("r.json") + f" {options}")
    for asked, ending in (
        ("sample {} -n 30 --sets 2 --output {}.csv", "-2.csv"),
        ("export {} --output {}.bif", ".bif"),
    ):
        seed = " --seed 4" if asked.startswith("sample") else ""
        run.json(asked.format("r.draws", "stored") + seed)
        run.json(asked.format("r.json", "drawn") + f" {options}")
        assert Path(f"stored{ending}").read_bytes() == Path(f"drawn{ending}").read_bytes()
    for asked in ("fit {}", "explain {} 'P(lung)'"):
        assert run.json(asked.format("r.draws")) == run.json(asked.format("r.json"))


def test_a_decision_by_stored_draws_is_not_by_fresh_ones(run: Shell) -> None:
    run.json("draw r.json --output r.draws --draws 4000")
    payoffs = """--payoffs '{"treat": {"yes": 5, "no": -1}, "wait": {"yes": -10, "no": 0}}'"""
    told = run.json(f"decide r.draws --query 'P(lung | smoke=yes)' {payoffs}")
    assert told["draws"] == 4000
    assert not any(decision["fresh"] for decision in told["decisions"])
    code, _, err = run(f"decide r.draws --query 'P(lung)' {payoffs} --seed 3")
    assert code == 2 and "these draws are stored: leave out --draws, --within and --seed" in err


NAMED = ["--draws 50", "--draws 1000", "--seed 1", "--seed 0", "--method noise-aware", "--prior 1", "--trust-network"]


@pytest.mark.parametrize("more", NAMED)
def test_options_that_would_make_other_draws_are_refused(run: Shell, more: str) -> None:
    run.json("draw r.json --output r.draws --draws 60")
    code, _, err = run(f"query r.draws 'P(lung)' --level 0.5 {more}")
    assert code == 2 and "these draws are stored: leave out" in err


def test_what_stored_draws_are_too_few_for_is_refused(run: Shell) -> None:
    run.json("draw r.json --output r.draws --draws 30")
    code, _, err = run("query r.draws 'P(lung)' --level 0.95")
    assert code == 2 and "30 draws are too few for a level of 0.95" in err
    code, _, err = run("sample r.draws -n 3 --sets 31 --output s.csv")
    assert code == 2 and "every set needs its own draw" in err
    assert run.json("query r.draws 'P(lung)' --level 0.9")["answers"]


@pytest.mark.costly("Draws that are drawn again instead of read show in answers under such a prior.")
def test_stored_draws_are_a_prior_as_their_release_is(run: Shell) -> None:
    run.json("ledger open elsewhere --epsilon 1 --relation add-remove")
    run.json(RELEASE.replace("r.json", "other.json").replace("--account add-remove", "--account elsewhere"))
    run.json("draw other.json --output other.draws")
    asked = "query r.json 'P(lung | smoke=yes)' --draws 60 --prior other."
    told = run.json(asked + "json")
    assert run.json(asked + "draws") == told
    # Of other draws the answers are others: these are read, and not drawn again.
    run.json("draw other.json --output other.draws --draws 300 --seed 2 --replace")
    assert run.json(asked + "draws") != told


def test_records_made_up_from_stored_draws_have_a_seed_that_is_none_of_theirs(run: Shell) -> None:
    run.json("draw r.json --output r.draws --draws 60")
    for seed in (1, 2):
        run.json(f"sample r.draws -n 200 --output {seed}.csv --seed {seed}")
    assert Path("1.csv").read_bytes() != Path("2.csv").read_bytes()
    code, _, err = run("sample r.draws -n 3 --output 3.csv --seed -1")
    assert code == 2 and "a seed cannot be negative" in err


def test_a_damaged_file_says_what_to_do(run: Shell) -> None:
    run.json("draw r.json --output r.draws --draws 60")
    raw = bytearray(Path("r.draws").read_bytes())
    raw[-100] ^= 1
    Path("r.draws").write_bytes(raw)
    code, _, err = run("query r.draws 'P(lung)'")
    assert code == 2 and "is damaged" in err and "`discreet draw`" in err


def test_a_file_is_not_replaced_unasked(run: Shell) -> None:
    run.json("draw r.json --output r.draws --draws 60")
    before = Path("r.draws").read_bytes()
    code, _, err = run("draw r.json --output r.draws --draws 61")
    assert code != 0 and "r.draws" in err
    assert Path("r.draws").read_bytes() == before
