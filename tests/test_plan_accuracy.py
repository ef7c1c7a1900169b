"""A budget that is planned from the wanted accuracy is the one that releases need.

Predicted half-widths are compared with those of 12 releases of other seeds. Seeds are fixed; within 15 % they agree.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.accuracy.accuracy_plan import PlannedWidth
from discreet.inference.sampling import sample_codes
from shell import Shell, opened

STUDY = dc.Network.from_edges([("smoke", "lung")], [dc.Variable(name, ("yes", "no")) for name in ("smoke", "lung")])
TRUTH = dc.Tables(STUDY, {"smoke": [0.4, 0.6], "lung": [[0.1, 0.9], [0.02, 0.98]]})
DIFFERENCE = "P(lung=yes | smoke=yes) - P(lung=yes | smoke=no)"
QUERIES = ["P(lung=yes | smoke=yes)", "P(smoke=yes)", "P(lung=yes)", DIFFERENCE]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer simulated releases, for tests that do not look at how near a plan is."""
    from discreet.accuracy import plan_accuracy

    for name, value in {"NOISELESS_RELEASES": 1, "LEAST_RELEASES": 2, "MOST_RELEASES": 3, "WIDTH_DRAWS": 100}.items():
        monkeypatch.setattr(plan_accuracy, name, value)


def seen(epsilon: object, records: int, releases: int = 12) -> np.ndarray:
    """Mean half-widths of releases."""
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    widths = []
    for seed in range(releases):
        counts = dc.tools.count_codes(STUDY, sample_codes(TRUTH, records, np.random.default_rng(100 + seed)))
        made = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(STUDY), promise, rng=seed)
        answers = dc.answer_many(made.posterior(draws=400, rng=seed), QUERIES)
        widths.append([(one.tidy()[0]["upper"] - one.tidy()[0]["lower"]) / 2 for one in answers])
    return np.mean(widths, axis=0)


@pytest.mark.costly("What was planned is compared with the widths of real releases.")
def test_releases_are_as_accurate_as_was_planned() -> None:
    plan = dc.plan_accuracy(TRUTH, QUERIES, 0.02, 3000, rng=1)
    assert plan.guarantee is not None and plan.refused is None
    epsilon = plan.guarantee.epsilon
    widths = seen(epsilon, 3000)
    assert widths.max() < 1.15 * 0.02
    for other, records in ((epsilon, 3000), (3 * epsilon, 3000), (epsilon, 9000)):
        predicted = [one.at(float(other), records=records / 3000) for one in plan.questions]
        np.testing.assert_allclose(predicted, seen(other, records), rtol=0.15)
    for row in plan.rows():
        assert math.hypot(row["sampling"], row["noise"]) == pytest.approx(row["half_width"], rel=0.01)
        assert row["epsilon"] <= float(epsilon)
        assert row["low"] < row["half_width"] < row["high"] and 0 < row["uncertainty"] < 0.1
        assert 0.1 < row["error"] / row["half_width"] < 0.8


@pytest.mark.usefixtures("few")
def test_a_question_has_a_width_of_its_own_and_a_count_that_of_its_query() -> None:
    plan = dc.plan_accuracy(
        TRUTH, [DIFFERENCE, "P(lung=yes | smoke=yes) / P(lung=yes)", "N(smoke=yes)"], 0.5, 3000, rng=1
    )
    assert [one.query for one in plan.questions] == [
        DIFFERENCE,
        "P(lung=yes | smoke=yes) / P(lung=yes)",
        "P(smoke=yes)",
    ]
    parts = dc.plan_accuracy(
        TRUTH, [*QUERIES[:1], "P(lung=yes | smoke=no)"], None, 3000, guarantee=plan.guarantee, rng=1
    )
    longest = sum(one.at(1.0) for one in parts.questions)
    assert 0.7 * max(one.at(1.0) for one in parts.questions) < plan.questions[0].at(1.0) < longest
    assert plan.questions[0].largest == math.inf


@pytest.mark.usefixtures("few")
def test_where_sampling_alone_is_wider_no_budget_is_named() -> None:
    plan = dc.plan_accuracy(TRUTH, QUERIES, 0.005, 1000, rng=1)
    assert plan.guarantee is None and plan.refused is not None
    assert "sampling alone is wider" in plan.refused
    enough = int(plan.refused.partition("about ")[2].partition(" records")[0].replace(",", ""))
    # One data set of few draws knows the sampling part to a tenth.
    again = dc.plan_accuracy(TRUTH, QUERIES, 0.005, enough * 5 // 4, rng=1)
    assert again.guarantee is not None


@pytest.mark.costly("A spread is compared over several plans, each of which searches for its budget.")
def test_of_unknown_probabilities_the_spread_is_said() -> None:
    """Of one made-up network, which may be one of the easy ones, little; so three runs are compared."""
    spreads = []
    for seed in (1, 2, 3):
        plan = dc.plan_accuracy(STUDY, QUERIES[:1], 0.1, 3000, rng=seed)
        (row,) = plan.rows()
        assert row["low"] < row["half_width"] < row["high"]
        known = dc.plan_accuracy(TRUTH, QUERIES[:1], 0.1, 3000, rng=seed)
        assert row["low"] <= known.questions[0].at(plan.epsilon) <= row["high"]
        (own,) = known.rows()
        spreads.append((row["high"] / row["low"], own["high"] / own["low"]))
    unknown, alike = np.exp(np.mean(np.log(spreads), axis=0))
    assert unknown > 2 * alike > 2


def test_a_width_is_interpolated_and_capped() -> None:
    width = PlannedWidth("P(a)", (0.5, 2.0), (0.1, 0.04), 0.03)
    assert width.at(0.5) == pytest.approx(0.1) and width.at(2.0) == pytest.approx(0.04)
    assert 0.04 < width.at(1.0) < 0.1
    assert width.noise(4.0) == pytest.approx(width.noise(2.0) / 2)
    assert width.noise(0.25) == pytest.approx(2 * width.noise(0.5))
    assert width.at(0.001) == 0.5
    assert width.at(width.needed(0.05)) == pytest.approx(0.05)
    assert math.isinf(width.needed(0.03))
    assert width.at(0.5, records=4) == pytest.approx(math.hypot(0.015, width.noise(2.0)))


def test_it_can_be_seen_and_kept() -> None:
    widths = [PlannedWidth(f"P({name})", (0.5, 2.0), (0.1, 0.04), 0.03) for name in ("<a>", "b")]
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    plan = dc.results.AccuracyPlan("planned", promise, 0.05, 1000, tuple(widths))
    for against in ("epsilon", "records"):
        picture = plan.to_svg(against=against)
        assert picture.startswith("<svg") and "P(&lt;a&gt;)" in picture and "half-width" in picture
    assert plan.to_svg() in plan._repr_html_() and "&lt;a&gt;" in plan._repr_html_()
    assert plan.to_frame("arrow").num_rows == 2
    table = plan.table()
    assert {row["records"] for row in table} == {250, 500, 1000, 2000, 4000}
    assert all(row["half_width"] <= 0.5 for row in table)
    with pytest.raises(dc.InputError, match="epsilon or records"):
        plan.to_svg(against="delta")


@pytest.mark.parametrize(
    ("queries", "within", "records", "message"),
    [
        ([], 0.1, 100, "at least one"),
        ("P(lung)", 0.1, 100, "list of queries"),
        (["MAP(lung)"], 0.1, 100, "no width"),
        (["P(lunge)"], 0.1, 100, "lunge"),
        (["P(lung)"], 0.0, 100, "above 0"),
        (["P(lung)"], math.nan, 100, "above 0"),
        (["P(lung)"], 0.1, 0, "at least one record"),
        (["P(lung)"], 0.1, 10**12, "at most 100,000,000"),
    ],
)
def test_what_cannot_be_planned_is_refused(queries: list[str], within: float, records: int, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.plan_accuracy(TRUTH, queries, within, records, rng=1)


# ------------------------------------------------------------------------------------------------ the command


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    shell = opened(tmp_path, monkeypatch, capfd)
    TRUTH.write("study.bif")
    return shell


@pytest.mark.usefixtures("few")
def test_the_command_finds_the_budget(run: Shell) -> None:
    command = "plan --within 0.03 'P(lung=yes | smoke=yes)' --network study.bif --records 3000 --relation add-remove"
    found = run.json(f"{command} --picture p.svg")
    (plan,) = found["plans"]
    epsilon = plan["epsilon"]
    assert plan["mechanism"] == "planned" and float(epsilon) == pytest.approx(plan["questions"][0]["epsilon"], rel=0.15)
    assert Path("p.svg").read_text(encoding="utf-8").startswith("<svg")
    text = run(command)[1]
    assert text.startswith(f"planned, add-remove: epsilon {epsilon}\n")
    assert "half-width by records and epsilon" in text
    assert {"8 in 10 releases", "+-", "error"} <= set(re.split("  +", text.splitlines()[2]))
    assert "exists" in run.fails(f"{command} --picture p.svg")


@pytest.mark.usefixtures("few")
def test_a_workload_has_its_width_and_error(run: Shell) -> None:
    command = "plan --epsilon 1 --network study.bif --records 3000 --mechanism planned --repeats 1 --relation replace"
    command += " --workload 'P(lung | smoke=yes)' --workload 'MAP(lung)'"
    (row,) = run.json(command)["workload"]
    assert row["query"] == "P(lung | smoke=yes)" and row["relation"] == "replace" and row["epsilon"] is None
    assert 0.005 < row["sampling"] < row["half_width"] < 0.1 and 0 < row["error"] < row["half_width"]
    text = run(command)[1].splitlines()
    titles = text[text.index("the workload at epsilon 1, replace") + 1]
    assert "half-width at 1" in titles and "error" in titles and "needs epsilon" not in titles


@pytest.mark.usefixtures("few")
def test_a_plan_of_a_stated_budget_has_no_wanted_width() -> None:
    promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
    plan = dc.plan_accuracy(TRUTH, QUERIES[:1], None, 3000, guarantee=promise, rng=1)
    assert plan.within is None and plan.guarantee == promise and plan.refused is None
    assert plan.to_svg().startswith("<svg") and plan.rows()[0]["epsilon"] is None
    np.testing.assert_allclose(plan.questions[0].at(2.0), seen(2, 3000, 3)[0], rtol=0.25)
    with pytest.raises(dc.InputError, match="half-width that is wanted, or the guarantee"):
        dc.plan_accuracy(TRUTH, QUERIES[:1], None, 3000, rng=1)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("--within 0.1 --epsilon 1 'P(lung)'", "give one of --epsilon"),
        ("", "give one of --epsilon"),
        ("--within 0.1", "give some"),
        ("--epsilon 1 'P(lung)'", "are for --within"),
        ("--within 0.1 'MAP(lung)' --relation replace", "no width"),
    ],
)
def test_the_command_refuses_what_it_cannot_plan(run: Shell, rest: str, message: str) -> None:
    assert message in run.fails(f"plan --network study.bif --records 100 {rest}")


def test_evidence_that_releases_have_no_record_of_is_as_wide_as_can_be() -> None:
    smoke, lung = dc.Variable("smoke", ("yes", "no")), dc.Variable("lung", ("yes", "no"))
    network = dc.Network((smoke, lung), {"smoke": (), "lung": ("smoke",)})

    def plan(share: float) -> dc.results.AccuracyPlan:
        truth = dc.Tables(network, {"smoke": [share, 1 - share], "lung": [[0.1, 0.9], [0.01, 0.99]]})
        return dc.plan_accuracy(truth, ["P(lung | smoke=yes)"], 0.5, 500, rng=0)

    assert plan(1e-9).rows()[0]["half_width"] == 0.5
    with pytest.raises(dc.InputError, match=r"P\(lung \| smoke=yes\): the evidence is impossible"):
        plan(0.0)
