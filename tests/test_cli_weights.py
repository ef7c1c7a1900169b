"""`discreet query` on releases over a design: all coefficients, their intervals, and what it does not answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from shell import Shell, opened, stdin
from sources import PEER_WARNINGS
from test_weights import released

pytestmark = PEER_WARNINGS


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    shell = opened(tmp_path, monkeypatch, capfd)
    released("moments").save("r.json")
    return shell


def test_coefficients_are_those_of_the_library(run: Shell) -> None:
    found = run.json("query r.json --draws 100 --seed 7 --level 0.9")
    posterior = dc.read(dc.Release.load("r.json"), draws=100, rng=np.random.default_rng(7))
    assert found == {"method": "normal", "level": 0.9, "coefficients": list(posterior.rows(level=0.9))}
    assert [row["name"] for row in found["coefficients"]] == ["age", "pressure", "intercept"]


def test_a_table_for_a_person(run: Shell) -> None:
    code, out, err = run("query r.json --draws 100 --level 0.9")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["coefficient", "mean", "90", "%", "interval"]
    assert [line.split()[0] for line in lines[1:4]] == ["age", "pressure", "intercept"]
    assert lines[-1] == "posterior: normal"
    rows = run.json("query r.json --draws 100 --level 0.9")["coefficients"]
    for line, row in zip(lines[1:4], rows, strict=True):
        assert np.isclose(float(line.split()[1]), row["mean"], rtol=1e-4)


def test_a_release_from_stdin(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = run.json("query r.json --draws 100")
    stdin(monkeypatch, Path("r.json").read_bytes())
    assert run.json("query - --draws 100") == wanted


def test_a_direction_is_a_vector_in_the_units_of_the_columns(run: Shell) -> None:
    released("direction").save("d.json")
    found = run.json("query d.json --draws 200")
    assert found["method"] == "walk"
    assert [row["name"] for row in found["coefficients"]] == ["age", "pressure"]


def test_released_draws(run: Shell) -> None:
    released("draws").save("d.json")
    narrow, wide = (run.json(f"query d.json --level {level}") for level in (0.9, 0.99))
    assert narrow["method"] == wide["method"] == "stages"
    for short, long in zip(narrow["coefficients"], wide["coefficients"], strict=True):
        assert long["lower"] < short["lower"] < short["upper"] < long["upper"]


@pytest.mark.parametrize("more", ["'P(age | pressure=1)'", "--prior 1", "--method plug-in", "--method pooled"])
def test_questions_of_networks_are_refused(run: Shell, more: str) -> None:
    assert "prints all its coefficients" in run.fails(f"query r.json {more}")


@pytest.mark.parametrize("level", ["0", "1", "1.5", "nan"])
def test_levels_that_no_interval_has(run: Shell, level: str) -> None:
    assert "a level lies between 0 and 1" in run.fails(f"query r.json --draws 100 --level {level}")


def test_too_few_draws(run: Shell) -> None:
    assert "39 draws are too few for a level of 0.95" in run.fails("query r.json --draws 39")


def test_a_classification_is_read_by_resampling(run: Shell) -> None:
    released("gradients").save("g.json")
    found = run.json("query g.json --covariates even --draws 100")
    assert found["method"] == "resampling"
    assert [row["name"] for row in found["coefficients"]] == ["age", "pressure", "intercept"]


@pytest.mark.costly("Stored draws take the place of a release as a law of features in the shell.")
def test_stored_draws_are_a_law_of_features_as_their_release_is(run: Shell) -> None:
    released("gradients").save("g.json")
    features = released("gradients").over.features
    network = dc.Network.empty(dc.Schema(tuple(dc.Variable.binned(f.name, f.bounds or (0, 1), 4) for f in features)))
    codes = {name: np.random.default_rng(3).integers(0, 4, 400) for name in network.nodes}
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    counts, prior = dc.tools.count_codes(network, codes), dc.Dirichlet.uniform(network)
    dc.simulate(dc.planned(), counts, prior, promise, rng=np.random.default_rng(4)).save("law.json")
    run.json("draw law.json --output law.draws --draws 200")
    asked = "query g.json --draws 100 --covariates law."
    told = run.json(asked + "json")
    assert run.json(asked + "draws") == told
    run.json("draw law.json --output law.draws --draws 150 --seed 2 --replace")
    assert run.json(asked + "draws") != told


def test_a_classification_needs_the_law_of_its_features(run: Shell) -> None:
    released("gradients").save("g.json")
    assert "needs the law of its features" in run.fails("query g.json")
    assert "takes no options, not covariates" in run.fails("query r.json --covariates even")


def test_a_choice_of_probabilities_is_answered_by_states(run: Shell) -> None:
    released("categorical").save("c.json")
    (answer,) = run.json("query c.json")["answers"]
    assert [value["state"] for value in answer["values"]] == [{"code": "0"}, {"code": "1"}]
