"""`discreet query --regress`: the coefficients of the library, as a table and as JSON, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.model.query_grammar import parse_regression
from shell import Shell, reopened
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

ASK = "query r.json --draws 100"


@pytest.fixture
def run(
    released_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Shell:
    return reopened(released_study, tmp_path, monkeypatch, capfd)


def test_coefficients_are_those_of_the_library(run: Shell) -> None:
    asked = "--regress 'dysp ~ bronc, smoke' --regress 'lung ~ smoke' --kind logistic --level 0.9"
    found = run.json(f"{ASK} {asked}")["regressions"]
    posterior = dc.noise_aware(dc.load("r.json"), draws=100, rng=np.random.default_rng(0))
    for told, (target, on) in zip(found, (("dysp", ("bronc", "smoke")), ("lung", ("smoke",))), strict=True):
        own = dc.regress(posterior, target, on, kind="logistic")
        assert (told["target"], told["on"], told["kind"], told["level"]) == (target, list(on), "logistic", 0.9)
        assert told["coefficients"] == list(own.rows(level=0.9))
        assert (told["basis"], told["left_out"]) == (own.basis, own.left_out)


def test_a_table_says_what_it_rests_on(run: Shell) -> None:
    code, out, _ = run(f"{ASK} --regress 'xray ~ smoke + asia'")
    lines = out.splitlines()
    assert code == 0 and lines[0] == "xray on smoke, asia"
    assert lines[1].split() == ["coefficient", "mean", "95", "%", "interval"]
    assert [line.split()[0] for line in lines[2:5]] == ["smoke=no", "asia=no", "intercept"]
    assert "rests on: assumed" in out and "assumed: no table has" in out and "posterior: pooled" in out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--regress 'lung smoke'", "write a regression as TARGET ~ A, B"),
        ("--regress 'lung ~'", "write a regression as TARGET ~ A, B"),
        ("--regress 'lung ~ smoke ~ asia'", "write a regression as TARGET ~ A, B"),
        ("--regress 'lung ~ smoke' --kind probit", "'probit' is not one of 'linear', 'logistic'"),
        ("--regress 'lung ~ smoke' 'P(lung)'", "--regress takes no queries and no --predictive"),
        ("--regress 'lung ~ smoke' --predictive", "--regress takes no queries and no --predictive"),
        ("--kind logistic", "--kind is for --regress"),
        ("--regress 'lung ~ age'", "no variable 'age'"),
    ],
)
def test_what_is_no_regression_is_refused(run: Shell, more: str, message: str) -> None:
    assert message in run.fails(f"{ASK} {more}")


def test_names_may_be_quoted() -> None:
    assert parse_regression(' "a ~ b" ~ c d+"e, f" ,g') == ("a ~ b", ("c d", "e, f", "g"))
    for text in ("", "~ a", "a", "a ~ b,", "a ~ b c ~ d", 'a ~ "b" c', "a, b ~ c"):
        with pytest.raises(dc.InputError, match="TARGET ~ A, B"):
            parse_regression(text)
