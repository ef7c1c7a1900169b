"""What is released of numbers is used by plans, decisions and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import discreet as dc
from folding import every
from serving import served
from shell import Shell, opened
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

ILL = dc.Variable("ill", ("no", "yes"))
AGE = dc.Variable("age", bounds=(0, 120), bins=(40, 60))
DOSE = dc.Variable("dose", bounds=(0, 100), bins=(30, 60), type="integer")
STUDY = dc.Network((ILL, AGE, DOSE), {"ill": (), "age": ("ill",), "dose": ("age",)})
TRUTH = dc.Tables(
    STUDY,
    {
        "ill": [0.7, 0.3],
        "age": [[0.5, 0.3, 0.2], [0.2, 0.4, 0.4]],
        "dose": [[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]],
    },
)
QUERIES = ["E(age | ill=yes)", "cor(age, dose)"]


def released(seed: int, epsilon: object = 1, records: int = 10_000, share: object = None) -> dc.results.PosteriorDraws:
    made = dc.tools.simulate_records(TRUTH, records, rng=seed)
    counts = dc.count(dc.read_records(made, STUDY.schema), STUDY)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    mechanism = dc.planned(numbers_share=share)
    release = dc.simulate(mechanism, counts, dc.Dirichlet.uniform(STUDY), promise, rng=seed)
    return dc.noise_aware(release, draws=400, rng=seed)


# --------------------------------------------------------------------------------------------------------------- plans


@pytest.mark.costly("Plans rehearse releases.")
def test_a_plan_is_of_the_sums_that_will_be_released() -> None:
    """Bins alone leave a mean open by a third of the range; 8 in 10 releases at the planned budget are as narrow."""
    plan = dc.plan_accuracy(TRUTH, QUERIES[:1], 2.0, 10_000, rng=0)
    assert plan.refused is None and plan.guarantee is not None
    (question,) = plan.questions
    assert question.at(float(plan.guarantee.epsilon)) <= 2.0 and question.sampling < 1.5
    rows = [dc.answer(released(100 + seed, plan.guarantee.epsilon), QUERIES[0]).rows[0] for seed in range(6)]
    widths = np.mean([(row["upper"] - row["lower"]) / 2 for row in rows])
    assert widths == pytest.approx(2.0, rel=0.2)


def test_without_sums_bins_alone_are_said_to_be_too_wide() -> None:
    plan = dc.plan_accuracy(TRUTH, QUERIES[:1], 2.0, 10_000, mechanism=dc.planned(numbers_share=0), rng=0)
    assert plan.guarantee is None
    (question,) = plan.questions
    assert question.sampling > 10 and question.binned
    assert str(plan.refused).startswith("bins and sampling leave E(age | ill=yes) wider") and "records" not in str(
        plan.refused
    )
    assert "sampling, bins" in plan.summary()
    # No number of records narrows a bin, and no interval is wider than the range.
    assert question.at(1.0, records=4) > 0.9 * question.sampling and question.at(1e-4) == 60
    with pytest.raises(dc.InputError, match="no sums of these numbers"):
        dc.plan_accuracy(TRUTH, QUERIES[1:], 0.1, 10_000, mechanism=dc.planned(numbers_share=0), rng=0)


@pytest.mark.costly("Plans rehearse releases.")
def test_a_correlation_can_be_planned() -> None:
    plan = dc.plan_accuracy(TRUTH, QUERIES[1:], 0.15, 10_000, rng=0)
    assert plan.guarantee is not None
    assert not plan.questions[0].binned and plan.questions[0].at(1e-4) == 1
    # The distance from the truth is that of numbers which depend on each other by bins alone.
    assert plan.rows()[0]["error"] < plan.rows()[0]["half_width"]


def test_expected_errors_are_of_releases_that_pay_for_numbers() -> None:
    """The share of numbers is missing from the tables: their errors are larger by a quarter, not equal."""
    promise = dc.Guarantee(epsilon="0.1", delta=0, relation="add-remove", unit="record")
    mechanisms = {"much": dc.planned(numbers_share="0.8"), "none": dc.planned(numbers_share=0)}
    errors = {part.mechanism: part for part in dc.plan(TRUTH, promise, 2000, rng=0, repeats=4, mechanisms=mechanisms)}
    assert errors["much"].marginals > 1.5 * errors["none"].marginals


# ----------------------------------------------------------------------------------------------------------- decisions


@pytest.mark.costly("A release with sums is read and decided on anew.")
@every("query", ["E(age | ill=yes)", "sd(age)", "median(dose)", "P(age > 50 | ill=yes)", "cor(age, dose)"])
@every("loss", ["squared", "absolute", "interval:0.9"])
def test_a_decision_on_a_number_is_by_its_answer(query: str, loss: str) -> None:
    posterior, bounds = released(1), (0.0, 1.0) if query[0] in "Pc" else (0.0, 120.0)
    told = dc.answer(posterior, query, level=0.9).rows[0]
    found = dc.decisions.decide_number(posterior, query, loss, bounds=bounds, level=0.9, fresh=False)
    ends = (told.get("law_lower", told["lower"]), told.get("law_upper", told["upper"]))
    width = ends[1] - ends[0]
    near = max(0.1 * width, 1.0 if "dose" in query and "cor" not in query else 0.0)  # draws of whole numbers are whole
    if isinstance(found.response, tuple):
        np.testing.assert_allclose(found.response, ends, atol=near)
    else:
        assert found.response == pytest.approx(told["mean"], abs=near)
    assert found.lower == pytest.approx(ends[0], abs=near)
    assert found.upper == pytest.approx(ends[1], abs=near)


def test_sums_make_decisions_on_numbers_cheaper() -> None:
    """The bins' law is wrong for records that all lie at one end of their bins."""
    rng = np.random.default_rng(0)
    age = rng.choice([1.0, 41.0, 61.0], 10_000, p=[0.5, 0.3, 0.2])
    network = dc.Network.empty((AGE,))
    counts = dc.count(dc.read_records(pa.table({"age": age}), network.schema), network)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    distance = {}
    for share in (None, 0):
        made = dc.simulate(dc.planned(numbers_share=share), counts, dc.Dirichlet.uniform(network), promise, rng=1)
        posterior = dc.noise_aware(made, draws=400, rng=1)
        found = dc.decisions.decide_number(posterior, "E(age)", "squared", bounds=(0, 120), fresh=False)
        distance[share] = abs(found.response - age.mean())
    assert distance[None] < 1.0 < 5.0 < distance[0]


def test_what_is_no_number_is_refused() -> None:
    posterior = released(1)
    for query in ("MAP(ill)", "P(ill)", "E(ill)", "P(age)"):
        with pytest.raises(dc.InputError, match=r"needs a query for one|no numeric bounds"):
            dc.decisions.decide_number(posterior, query, "squared", bounds=(0, 120))
    with pytest.raises(dc.InputError, match="outside its bounds 0 to 1"):
        dc.decisions.decide_number(posterior, "E(age)", "squared", bounds=(0, 1))


# ---------------------------------------------------------------------------------------------------------- posteriors


def test_stored_new_and_believing_draws_keep_their_numbers(tmp_path: Path) -> None:
    posterior = released(1)
    posterior.save(tmp_path / "study.draws")
    stored = dc.results.PosteriorDraws.load(tmp_path / "study.draws")
    for query in ("E(age | ill=yes)", "sd(dose)", "cor(age, dose)"):
        assert dc.answer(stored, query) == dc.answer(posterior, query)
        row = dc.answer(posterior.fresh(rng=1).assuming("network"), query).rows[0]
        assert row.get("law_lower", row["lower"]) == row["lower"]
    assert dc.sample(stored, 100, rng=1)[0].read_all() == dc.sample(posterior, 100, rng=1)[0].read_all()


def test_complete_records_are_read_from_sums_over_what_was_seen() -> None:
    """Ages of the ill are missing more often; in a bin and a row those seen stand for those that are missing.

    The middle bin holds most of both rows, so that its own mean is not that of complete records. Noise hardly shows:
    the bounds are five standard errors of 8,000 records.
    """
    rng, n = np.random.default_rng(0), 8000
    ill, gaps = rng.random(n) < 0.4, rng.random((2, n))
    age = np.clip(np.where(ill, 65.0, 38.0) + rng.normal(0, 9, n), 0, 119)
    dose = np.clip(0.5 * age + rng.normal(0, 5, n), 0, 99)
    network = dc.Network(
        (
            dc.Variable("ill", ("no", "yes"), missing="?"),
            dc.Variable("age", bounds=(0, 120), bins=(20, 80), missing="?"),
            dc.Variable("dose", bounds=(0, 100), bins=(20, 40)),
        ),
        {"ill": (), "age": ("ill",), "dose": ("age",)},
    )
    states = [None if gap < 0.1 else "yes" if sick else "no" for sick, gap in zip(ill, gaps[0], strict=True)]
    seen = np.where(gaps[1] < np.where(ill, 0.6, 0.1), np.nan, age)
    table = pa.table({"ill": states, "age": pa.array(seen, from_pandas=True), "dose": dose})
    counts = dc.count(dc.read_records(table, network.schema, missing="keep"), network)
    promise = dc.Guarantee(epsilon=30, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
    kept = dc.noise_aware(release, draws=200, rng=1)
    complete = dc.tools.assume_at_random(kept)
    truths = {"E(age)": age.mean(), "E(age | ill=yes)": age[ill].mean(), "sd(age)": age.std(), "E(dose)": dose.mean()}
    for query, truth in truths.items():
        answer = dc.answer(complete, query)
        assert abs(answer.rows[0]["mean"] - truth) < 5 * age.std() / np.sqrt(n), query
        assert answer.rows[0]["upper"] - answer.rows[0]["lower"] < 4, query
    assert dc.answer(complete, "E(age)").assumes == ("values of age are missing at random",)
    assert abs(dc.answer(kept, "E(age)").rows[0]["mean"] - age.mean()) > 2
    assert abs(dc.answer(complete, "cor(age, dose)").rows[0]["mean"] - np.corrcoef(age, dose)[0, 1]) < 0.05
    made = dc.sample(complete, 20_000, rng=1)[0].read_all()
    assert made["age"].null_count == 0
    assert abs(made["age"].to_numpy().mean() - age.mean()) < 1.5


def test_a_server_answers_and_decides_numbers_as_the_draws_do(tmp_path: Path) -> None:
    made = dc.tools.simulate_records(TRUTH, 5000, rng=1)
    counts = dc.count(dc.read_records(made, STUDY.schema), STUDY)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(STUDY), promise, rng=1)
    release.save(tmp_path / "study.json")
    here = dc.noise_aware(release, draws=100, rng=0)
    here.save(tmp_path / "study.draws")
    with served([tmp_path / "study.json"], "--draws", str(tmp_path / "study.draws"), "--no-prepare") as server:
        client = dc.server.Client(server.url)
        there = client.posterior("study")
        for query in ("E(age | ill=yes)", "sd(age)", "var(age | ill=no)", "cov(age, dose)", "cor(age, dose)"):
            answers = [dc.answer(one, query) for one in (here, there)]
            assert answers[0].rows == answers[1].rows and answers[0].kind == answers[1].kind
            found = [dc.decisions.decide_number(one, query, "absolute", fresh=False) for one in (here, there)]
            assert found[0] == found[1]
        assert dc.sample(there, 500, rng=7)[0].read_all() == dc.sample(here, 500, rng=7)[0].read_all()
        kinds = server.ask("/openapi.json").json()["components"]["schemas"]["AnswerReply"]["properties"]["kind"]["enum"]
        assert {"sd", "variance", "covariance", "correlation"} <= set(kinds)
        client.close()


# -------------------------------------------------------------------------------------------------------- command line

OVER = "--network arcs.txt --schema schema.json"
PLAN = f"plan {OVER} --epsilon 1 --mechanism planned --repeats 1 --relation add-remove"
RELEASE = f"release records.parquet {OVER} --account add-remove --epsilon 0.5 --output"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a table of numbers, its schema, its network and a ledger."""
    shell = opened(tmp_path, monkeypatch, capfd)
    pyarrow.parquet.write_table(dc.tools.simulate_records(TRUTH, 5000, rng=0), "records.parquet")
    variables = [
        {"name": "ill", "states": ["no", "yes"]},
        {"name": "age", "bounds": [0, 120], "bins": [40, 60]},
        {"name": "dose", "bounds": [0, 100], "bins": [30, 60], "type": "integer"},
    ]
    Path("schema.json").write_text(json.dumps({"variables": variables}))
    Path("arcs.txt").write_text("ill -> age\nage -> dose\n")
    return shell


def test_a_plan_says_what_share_numbers_get(run: Shell) -> None:
    _, text, _ = run(f"{PLAN} --records 5000")
    assert "sums of numbers get epsilon 0.1, a share of 0.1" in text
    assert "tell more than bins do" not in text
    _, text, _ = run(f"{PLAN.replace('--epsilon 1', '--epsilon 0.1')} --records 50")
    assert "50 records are too few at this budget for sums of age, dose to tell more than bins do" in text
    _, text, _ = run(f"{PLAN} --records 5000 --option numbers_share=0")
    assert "sums of numbers" not in text
    plan = run.json(f"{PLAN} --records 5000")["plans"]["add-remove"]
    assert float(plan["numbers"]["epsilon"]) == pytest.approx(0.1)
    assert "numbers" not in run.json(f"{PLAN} --records 5000 --option numbers_share=0")["plans"]["add-remove"]


@pytest.mark.costly("Plans rehearse releases.")
def test_a_plan_is_in_the_unit_of_the_number(run: Shell) -> None:
    _, text, _ = run(f'plan "E(age | ill=yes)" --within 5 {OVER} --records 5000 --relation add-remove')
    assert "sums of numbers get epsilon" in text and "needs epsilon" in text


def test_a_release_takes_a_share_of_numbers(run: Shell) -> None:
    assert float(run.json(f"{RELEASE} a.json --numbers-share 0.4")["plan"]["numbers"]["epsilon"]) == pytest.approx(0.2)
    assert "numbers" not in run.json(f"{RELEASE} b.json --option numbers_share=0")["plan"]
    assert dc.Release.load("a.json").payload.rows()[-1]["states"].startswith("leaf ")
    assert "sums of 'age', 'dose' beside them" in run(f"{RELEASE} c.json")[2]
    twice = run.fails(f"{RELEASE} d.json --numbers-share 0.4 --option numbers_share=0.1")
    assert "the share for numbers is given twice: leave out --numbers-share, or --option numbers_share=..." in twice
    assert "numbers_share is a share of epsilon" in run.fails(f"{RELEASE} d.json --numbers-share 1")
    assert "no option of 'laplace'" in run.fails(f"{RELEASE} d.json --numbers-share 0.1 --mechanism laplace")


@pytest.mark.costly("Whole runs of two commands.")
def test_the_shell_answers_and_decides_numbers(run: Shell) -> None:
    run(f"{RELEASE} r.json")
    queries = ["sd(age)", "var(age | ill=yes)", "cov(age, dose)", "cor(age, dose)"]
    text = " ".join(f"'{query}'" for query in queries)
    told = run.json(f"query r.json {text}")["answers"]
    assert [answer["kind"] for answer in told] == ["sd", "variance", "covariance", "correlation"]
    for answer, two in zip(told, (False, False, True, True), strict=True):
        (row,) = answer["values"]
        assert row["lower"] <= row["mean"] <= row["upper"]
        assert two != ("law_lower" in row)
    code, table, _ = run(f"query r.json {text}")
    assert code == 0 and all(query in table for query in queries)
    for form in ("table", "csv", "parquet --output a.parquet"):
        assert run(f"query r.json {text} --format {form}")[0] == 0
    decision = run.json("decide r.json --quantity 'E(age | ill=yes)' --loss absolute --seed 1")["decisions"][0]
    assert 40 < decision["response"] < 70 and decision["lower"] < decision["response"] < decision["upper"]
    assert run("decide r.json --quantity 'E(age)' --loss absolute --within 5 --seed 1")[0] == 0


def test_a_release_lists_its_sums(run: Shell) -> None:
    run(f"{RELEASE} r.json")
    for name in ("report.html", "report.md"):
        code, _, err = run(f"report r.json --output {name}")
        assert code == 0, err
        text = Path(name).read_text(encoding="utf-8")
        assert "sums of 'age', 'dose' beside them, 2 with a ruler" in text.replace("&#39;", "'").replace("\n", " ")
        for query in ("E(age)", "sd(dose)", "quantile(age, 0.75)"):
            assert query in text
