"""An answer says how probable what it observes is, and where that is too rare to answer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.queries.documents import answer_document, read_answer
from folding import every
from networks import asia
from oracle import event, random_draws, small
from releases import guarantee
from shell import RELEASE, Shell, opened

CELLS = random_draws(asia().network, 40, seed=5)
POSTERIOR = dc.results.PosteriorDraws(CELLS, replicates=random_draws(asia().network, 40, seed=6))
EVIDENCE = "smoke=yes, dysp=no"
KINDS = ("P(lung | {})", "P(lung=yes, bronc | {})", "MAP(lung, bronc | {})", "MPE(| {})")
GRID = small(("a", 2, ()), ("b", 2, ("a",)), ("c", 3, ("a",)))


def of_tables() -> dc.results.PosteriorDraws:
    """A posterior that reads tables of pairs that no family holds: b and c depend on each other beside a."""
    rng = np.random.default_rng(3)
    b = rng.integers(2, size=4000)
    codes = {"a": rng.integers(2, size=4000), "b": b, "c": np.where(rng.random(4000) < 0.8, b, 2)}
    counts = dc.tools.count_codes(GRID, codes)
    made = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(GRID), guarantee(), rng=rng)
    return dc.noise_aware(made, draws=300, rng=rng)


def impossible() -> dc.results.PosteriorDraws:
    """A release of 5,000 records, none of which shows both `smoke` and `never`."""
    rng = np.random.default_rng(8)
    network = dc.Network(
        tuple(dc.Variable(name, ("no", "yes")) for name in ("smoke", "never", "ill")),
        {"smoke": (), "never": ("smoke",), "ill": ("smoke", "never")},
    )
    smoke = rng.integers(2, size=5000)
    codes = {"smoke": smoke, "never": np.where(smoke, 0, rng.integers(2, size=5000)), "ill": rng.integers(2, size=5000)}
    made = dc.simulate(
        dc.planned(), dc.tools.count_codes(network, codes), dc.Dirichlet.uniform(network), guarantee(), rng=rng
    )
    return dc.noise_aware(made, draws=400, rng=rng)


@every("text", KINDS)
def test_it_is_what_the_joint_law_says_under_every_draw(text: str) -> None:
    found = dc.answer(POSTERIOR, text.format(EVIDENCE), level=0.9).evidence
    schema = asia().network.schema
    draws = event(CELLS, (), {"smoke": schema["smoke"].code("yes"), "dysp": schema["dysp"].code("no")})
    assert found is not None and found.query == "P(dysp=no, smoke=yes)"
    assert found.mean == pytest.approx(draws.mean(), abs=1e-12)
    ends = [float(end) for end in dc.tools.credible_interval(draws, 0.9)]
    assert [found.lower, found.upper] == pytest.approx(ends, abs=1e-12)
    assert dc.answer(POSTERIOR, text.format(EVIDENCE), level=0.5).evidence != found


@every("predictive", [False, True])
def test_it_is_the_answer_to_the_question_about_the_evidence_alone(predictive: bool) -> None:
    """Whatever else is asked, and where tables say more of the evidence than the network."""
    posterior = of_tables()
    (alone,) = dc.answer(posterior, "P(b=s1, c=s1)").rows
    asked = ["P(a | b=s1, c=s1)", "MAP(a | b=s1, c=s1)", "P(a=s1 | c=s1, b=s1)"]
    answers = [*dc.answer_many(posterior, asked, predictive=predictive)]
    answers += dc.marginals(posterior, {"b": "s1", "c": "s1"}, predictive=predictive)
    assert len({found.evidence and found.evidence.query for found in answers}) == 1
    for found in answers:
        told = found.evidence
        assert told is not None
        numbers = [told.mean, told.lower, told.upper]
        assert numbers == pytest.approx([alone["mean"], alone["lower"], alone["upper"]], rel=1e-6)
        assert told.mean == pytest.approx(0.4, abs=0.05)  # the network alone says .2


def test_numbers_have_it_too_and_nothing_observed_has_none() -> None:
    network = dc.Network.empty([dc.Variable("ill", ("no", "yes")), dc.Variable("age", bounds=(0, 90), bins=(30, 60))])
    posterior = dc.results.PosteriorDraws(dc.Dirichlet.uniform(network).draw(100, rng=1))
    (row,) = dc.answer(posterior, "P(ill=yes)").rows
    for text in ("E(age | ill=yes)", "median(age | ill=yes)", "P(age > 40 | ill=yes)"):
        found = dc.answer(posterior, text).evidence
        assert found is not None and found.mean == pytest.approx(row["mean"], abs=1e-12)
    assert all(dc.answer(posterior, text).evidence is None for text in ("E(age)", "P(age > 40)", "P(ill)", "MPE(|)"))


def test_past_exact_inference_it_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = dc.answer(POSTERIOR, f"P(lung | {EVIDENCE})").evidence
    monkeypatch.setattr(dc.inference.exact_laws, "CELL_BUDGET", 1)
    sampled = dc.answer(POSTERIOR, f"P(lung | {EVIDENCE})")
    assert sampled.sampling is not None and sampled.evidence is not None and exact is not None
    # Of 40 draws with 4,096 records each the mean's error is below .0013: ten of them.
    assert sampled.evidence.mean == pytest.approx(exact.mean, abs=0.013)


def test_evidence_that_hardly_anybody_shows_is_too_rare_to_answer() -> None:
    posterior = impossible()
    observed = {"smoke": "yes", "never": "yes"}
    asked = ["P(ill | smoke=yes, never=yes)", "P(ill=yes | smoke=yes, never=yes)", "MAP(ill | smoke=yes, never=yes)"]
    for found in (*dc.answer_many(posterior, asked), *dc.marginals(posterior, observed)):
        assert found.too_rare and found.basis == "prior"
        assert found.evidence is not None and found.evidence.lower == 0 and found.evidence.upper < 0.01
        assert f"too rare to answer: {found.query}" in found.summary()
    predicted = dc.predict(posterior, {"smoke": ["yes", "no", None], "never": ["yes", "no", None]}, "ill")
    assert predicted.basis == ("prior", "measured", "measured")
    common = dc.answer(posterior, "P(ill | smoke=yes, never=no)")
    assert not common.too_rare and common.basis == "measured" and "too rare" not in str(common)


def test_numbers_among_those_whom_nobody_knows_are_too_rare_to_answer() -> None:
    rng = np.random.default_rng(4)
    network = dc.Network(
        (dc.Variable("never", ("no", "yes")), dc.Variable("age", bounds=(0, 90), bins=(45,))),
        {"never": (), "age": ("never",)},
    )
    codes = {"never": np.zeros(3000, int), "age": rng.integers(2, size=3000)}
    made = dc.simulate(
        dc.planned(), dc.tools.count_codes(network, codes), dc.Dirichlet.uniform(network), guarantee(), rng=rng
    )
    posterior = dc.noise_aware(made, draws=400, rng=rng)
    for asked in ("E(age | never={})", "median(age | never={})"):
        rare, common = (dc.answer(posterior, asked.format(state)) for state in ("yes", "no"))
        assert (rare.too_rare, rare.basis) == (True, "prior") and (common.too_rare, common.basis) == (False, "measured")


def test_wide_intervals_without_evidence_are_not_called_rare() -> None:
    wild = np.array([[0.0, 1.0] * 20, [1.0, 0.0] * 20])
    network = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
    found = dc.answer(dc.results.PosteriorDraws(dc.Tables(network, {"coin": wild}, draws=40)), "P(coin)")
    assert found.rows[0]["upper"] - found.rows[0]["lower"] > 0.95 and not found.too_rare


def test_json_has_it() -> None:
    for text in (f"P(lung | {EVIDENCE})", "P(lung)"):
        found = dc.answer(POSTERIOR, text)
        told = json.loads(json.dumps(answer_document(found)))
        assert read_answer(told) == found
        assert (told["evidence"] is None) == (text == "P(lung)")
    assert set(answer_document(dc.answer(POSTERIOR, f"P(lung | {EVIDENCE})"))["evidence"]) >= {"mean", "lower", "upper"}


def test_the_shell_says_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run: Shell = opened(tmp_path, monkeypatch, capfd)
    assert run(RELEASE)[0] == 0
    ask = "query r.json --draws 100 'P(lung | smoke=yes)' 'P(bronc | smoke=yes)' 'P(smoke)'"
    told = run.json(ask)["answers"]
    one, other = told[0]["evidence"], told[1]["evidence"]
    assert one["query"] == other["query"] and told[2]["evidence"] is None
    # Each is found on the way to its own answer, in single precision.
    assert [one[key] for key in ("mean", "lower", "upper")] == pytest.approx(
        [other[key] for key in ("mean", "lower", "upper")], rel=1e-6
    )
    lines = [line for line in run(ask)[1].splitlines() if line.startswith("P(smoke=yes) = ")]
    numbers = told[0]["evidence"]
    assert lines == [f"P(smoke=yes) = {numbers['mean']:.3g} ({numbers['lower']:.3g} to {numbers['upper']:.3g})"]
