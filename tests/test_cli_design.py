"""Releases over a design from the shell: the design's file, what fits it, what is refused, plan, check and audit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dc
from discreet.designs.design_document import read_design_file, write_design
from discreet.mechanisms import MECHANISMS, mechanisms_over
from shell import Shell
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

X = [{"name": "x", "bounds": [-1, 1]}, {"name": "z", "bounds": [-1, 1]}]
DESIGNS: dict[str, Any] = {
    "number": {"features": X, "target": {"name": "y", "bounds": [-1, 1]}, "intercept": True},
    "class": {"features": X, "target": {"name": "k", "states": ["no", "yes"]}, "intercept": True},
    "nothing": {"features": X, "intercept": False},
}
ASKED = "--account a --epsilon 1 --output r.json"
LINES = {
    "grouped_moments": "cube noise on 10 sums of products, each off by about",
    "noisy_moments": "cube noise of scale 1 records on 10 sums of products together, each off by about 6.633",
    "truncated_posterior": "1 draws of all weights from the posterior of",
    "noisy_gradients": "2 gradients, with cube noise of scale",
    "objective_perturbation": "the minimum of the log loss,",
    "factored": "one candidate of 2, by scores to which a record adds at most",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    table = {"x": rng.uniform(-1, 1, 90), "z": rng.uniform(-1, 1, 90), "y": rng.uniform(-1, 1, 90)}
    pd.DataFrame({**table, "k": rng.choice(["no", "yes"], 90)}).to_parquet("d.parquet")
    for name, document in DESIGNS.items():
        Path(f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    shell = Shell(capfd)
    assert shell("ledger open a --epsilon 2 --relation add-remove")[0] == 0
    return shell


def fails(run: Shell, command: str) -> str:
    code, _, err = run(command)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert run.json("ledger show a")["accounts"][0]["charges"] == []
    assert not Path("r.json").exists()
    return err


def test_counts_and_several_classes_are_released_and_asked(run: Shell) -> None:
    table = pd.read_parquet("d.parquet")
    rng = np.random.default_rng(3)
    table = table.assign(visits=rng.poisson(2, 90), ward=rng.choice(["A", "B", "C"], 90))
    table.to_parquet("e.parquet")
    targets = {"visits": {"bounds": [0, 9]}, "ward": {"states": ["A", "B", "C"]}}
    for name, target in targets.items():
        document = {"features": X, "target": {"name": name, **target}, "intercept": True}
        document |= {"counted": True} if name == "visits" else {}
        Path(f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
        command = f"release e.parquet --design {name}.json --mechanism objective_perturbation --option records=90"
        assert run(f"{command} --account a --epsilon 1 --out-of-bounds clip --output {name}-r.json")[0] == 0
    found = run.json("query visits-r.json")["coefficients"]
    assert [row["name"] for row in found] == [*(feature["name"] for feature in X), "intercept"]
    found = run.json("query ward-r.json")["coefficients"]
    assert [row["class"] for row in found] == ["A"] * 3 + ["B"] * 3 + ["C"] * 3
    _, out, _ = run("query ward-r.json")
    assert re.search(r"^B +x .*\n +z .*\n +intercept", out, re.MULTILINE)
    assert "a count" in run("release e.parquet --design visits.json --mechanism noisy_moments " + ASKED)[2]


@pytest.mark.parametrize("name", mechanisms_over("design"))
def test_every_mechanism_over_a_design_is_released_and_reported(name: str, run: Shell) -> None:
    entry = MECHANISMS[name]
    options = " ".join(f"--option '{key}={value}'" for key, value in entry.needed.items())
    command = f"release d.parquet --design {entry.targets[0]}.json {ASKED} --mechanism {name} {options}"
    told = run.json(command)
    made = dc.Release.load("r.json")
    assert made.private and made.mechanism == name == told["mechanism"]
    assert write_design(made.over) == DESIGNS[entry.targets[0]]
    assert (made.policy.missing, made.policy.out_of_bounds) == ("error", "error")
    assert (told["spent"], told["left"]) == ("1", "1")
    assert told["calibration"] == json.loads(made.dumps())["calibration"]
    code, _, err = run(command.replace("output r.json", "output s.json"))
    assert code == 0
    assert LINES[name] in err
    assert len(err.splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--design number.json --mechanism laplace", "'laplace' does not fit a design that predicts a number; "
         "those that do are: grouped_moments, noisy_moments, truncated_posterior"),
        ("--design class.json --mechanism noisy_moments", "predicts one of two classes; those that do are: "
         "objective_perturbation, noisy_gradients"),
        ("--design nothing.json", "give a --mechanism for this design: noisy_moments, factored"),
        ("--design number.json --mechanism magic", "no mechanism 'magic'; the mechanisms are: grouped_moments"),
        ("--design class.json --mechanism noisy_gradients", "needs the option records=...; it takes steps=..., rec"),
        ("--design number.json --mechanism noisy_moments --delta 1e-6", "ask for delta 0"),
        ("--design number.json --mechanism noisy_moments --prior wide", "'wide' is no number"),
        ("--design number.json --mechanism noisy_moments --prior -1", "a prior needs a standard deviation"),
        ("--design number.json --mechanism noisy_moments --schema s.json", "leave out --schema"),
        ("--design number.json --mechanism noisy_moments --workload 'P(x)'", "only planned serves a workload"),
        ("--design number.json --network n.bif", "give one of --network and --design"),
        ("--mechanism planned", "give one of --network and --design"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name_and_costs_nothing(words: str, message: str, run: Shell) -> None:
    assert message in fails(run, f"release d.parquet {ASKED} {words}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "'extra'"),
        ({"features": []}, "at least one feature"),
        ({"features": [{"name": "x"}]}, "declare its states, or numeric bounds"),
        ({"features": [{"name": "x", "bounds": [0, "1"]}]}, "features.0.bounds.1"),
        ({"features": [{"name": "x", "bounds": [1, 0]}]}, "strictly increasing"),
        ({"features": X * 2}, "twice"),
        ({"intercept": 1}, "intercept"),
        ({"norm": -1}, "norm"),
        ({"target": {"name": "k", "states": ["a"]}}, "or states"),
    ],
)
def test_a_file_that_is_no_design_is_refused_with_its_place(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({**DESIGNS["number"], **change}), encoding="utf-8")
    with pytest.raises(dc.InputError, match="design ") as error:
        read_design_file(path)
    assert message in str(error.value)


def test_other_files_are_no_designs(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    for text, message in (("[]", "valid dictionary"), ("{", "is not JSON"), ('{"a": 1, "a": 2}', "twice")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(dc.InputError, match=message):
            read_design_file(path)
    with pytest.raises(dc.InputError, match="No such file"):
        read_design_file(tmp_path / "none.json")


def test_check_holds_records_against_a_design(run: Shell) -> None:
    told = run.json("check d.parquet --design class.json")
    assert (told["ok"], [part["column"] for part in told["columns"]]) == (True, ["x", "z", "k"])


def test_a_plan_shows_what_fits_and_how_far_off_it_is(run: Shell) -> None:
    told = run.json("plan --design class.json --epsilon 0.2 --records 3000 --repeats 6")
    assert told["source"] == "random weights"
    shown = [(part["relation"], part["mechanism"]) for part in told["expected"]]
    names = ["(no privacy)", *mechanisms_over("design", "class")]
    assert shown == [(relation.value, name) for relation in dc.tools.RECORD_RELATIONS for name in names]
    alone, *others = told["expected"][:3]
    assert all(0 < alone["weights"] < part["weights"] < 5 for part in others)
    assert all(0 < alone["predictions"] < part["predictions"] < 1 for part in others)
    text = run("plan --design nothing.json --epsilon 5 --records 500 --repeats 1 --mechanism factored")[1]
    assert "mean error of scaled weights" in text
    assert "give the --mechanism" in run("plan --design class.json --epsilon 1 --records 9 --option steps=2")[2]


def test_an_audit_needs_no_option_and_says_what_it_looked_at(run: Shell) -> None:
    told = run.json("audit noisy-moments --records 1 --relation replace")
    assert [part["design"] for part in told["findings"]] == ["one number", "two numbers", "line"]
    assert {(part["how"], part["holds"]) for part in told["findings"]} == {("exactly", True)}


def test_help_texts_name_the_whole_registry(run: Shell) -> None:
    text = " ".join(run("release --help")[1].replace("│", " ").split())
    assert all(name in text.replace(" ", "") for name in MECHANISMS)
