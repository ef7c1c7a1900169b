"""A delta for families whose prior makes steep likelihoods rare, against every data set that there can be."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

import discreet as dc
from discreet.research.mechanisms.likely_parameters import LikelyParameters, largest_shares
from discreet.research.mechanisms.scored import width_of
from discreet.research.scores.hockey_stick import hockey_stick, range_delta
from discreet.research.scores.score_tables import SCORE_STEPS
from folding import every
from shell import Shell, opened
from tiny import counts_of

COIN = dc.research.Family(
    "bernoulli", (dc.Variable("c", ("no", "yes")),), {"floor": 1e-6, "alpha": 3, "beta": 3}, points=60
)
WAITS = dc.research.Family(
    "exponential", (dc.Variable.binned("wait", (0, 6), 3),), {"low": 0.05, "high": 40, "rate": 3, "shape": 2}, points=60
)
OWN = dc.research.own_family(
    dc.Network.empty([dc.Variable("c", ("no", "maybe", "yes"))]),
    lambda types, z: np.where(types["c"][:, None] == "yes", np.log(z[:, 0]), np.log((1 - z[:, 0]) / 2)),
    np.linspace(0.001, 0.999, 50),
    prior=np.exp(-30 * np.abs(np.linspace(-1, 1, 50)) ** 2),
)


def promise(delta: object, epsilon: object = 1, relation: str = "replace", unit: str = "record") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)


def calibrated(score: Any, asked: dc.Guarantee, **options: Any) -> tuple[Any, Any]:
    table = score.table if isinstance(score, dc.research.Family) else score
    prior = dc.Dirichlet.uniform(table.network)
    return dc.research.sampled(score, **options).calibrate(table.network, prior, asked), table


def worst_delta(table: Any, rate: float, epsilon: float, records: int) -> float:
    """The largest delta over all pairs of data sets of up to so many records that differ in one, by enumeration."""
    nats, worst = rate / SCORE_STEPS * table.steps, 0.0
    for size in range(records):
        for rest in combinations_with_replacement(range(len(nats)), size):
            laws = log_softmax(table.base + nats[list(rest)].sum(axis=0) + nats, axis=1)
            worst = max(worst, *(float(hockey_stick(law, laws, epsilon).max()) for law in laws))
    return worst


@every("delta", ["1e-6", "0.001", "0.05"])
@every("records", [3, 12])
@pytest.mark.parametrize("score", [COIN, WAITS, OWN], ids=["coin", "waits", "own"])
def test_the_exact_delta_of_all_data_sets_is_within_the_promised(score: Any, records: int, delta: str) -> None:
    made, table = calibrated(score, promise(delta), records=records)
    worst = worst_delta(table, made.rate, 1.0, records)
    assert worst <= float(delta)
    # Data sets that can be enumerated are: the rate is the largest, up to one percent, or a temper of 1.
    assert made.rate == table.span or worst_delta(table, made.rate * 1.011, 1.0, records) > float(delta)
    assert made.records == records and made.reported == 1


@pytest.mark.parametrize("score", [COIN, WAITS, OWN], ids=["coin", "waits", "own"])
def test_the_bound_without_enumeration_holds_and_is_worth_having(score: Any) -> None:
    """Three draws are never enumerated: the bound by sets alone, over all data sets of six."""
    made, table = calibrated(score, promise("0.001"), records=6, draws=3)
    pure, _ = calibrated(score, promise(0), draws=3)
    nats, worst = made.rate / SCORE_STEPS * table.steps, 0.0
    for rest in combinations_with_replacement(range(len(nats)), 5):
        laws = log_softmax(table.base + nats[list(rest)].sum(axis=0) + nats, axis=1)
        for one in range(len(laws)):
            for other in range(len(laws)):
                joint = [law[:, None, None] + law[:, None] + law for law in (laws[one], laws[other])]
                worst = max(worst, float(hockey_stick(joint[0].ravel(), joint[1].ravel(), 1.0)))
    assert 0 < worst <= 0.001
    assert made.rate > 1.2 * pure.rate


def test_no_data_set_makes_a_candidate_likelier_than_its_bound() -> None:
    base, rng = COIN.table.base - np.logaddexp.reduce(COIN.table.base), np.random.default_rng(2)
    nats = 0.3 * COIN.table.span / SCORE_STEPS * COIN.table.steps
    bounds = largest_shares(base, nats, 20, np.arange(60), 0.01)
    best = np.full(60, -math.inf)
    for first in np.linspace(0, 20, 81):
        for second in np.linspace(0, 20 - first, 41):
            best = np.maximum(best, log_softmax(base + first * nats[0] + second * nats[1]))
    assert np.all(best <= bounds + 1e-9)
    near = (best > math.log(0.01) - 8) & (best < math.log(0.01))
    assert near.any() and np.all(bounds[near] - best[near] < 0.15)
    wide = rng.normal(0, 1, (4, 300))
    shares = largest_shares(np.full(300, -math.log(300)), wide, 5, np.arange(300), 0.01)
    for _ in range(300):
        counts = rng.multinomial(5, rng.dirichlet(np.full(4, 0.5)))
        assert np.all(log_softmax(counts @ wide) <= shares + 1e-9)


def test_the_prior_is_worth_more_epsilon_than_its_delta() -> None:
    """The first figure of docs/mechanisms.md: rates up to 5, and a prior by which most are below .02."""
    wait = dc.Variable.binned("wait", (0, 60), 60)
    family = dc.research.Family("exponential", (wait,), {"low": 0.02, "high": 5, "rate": 300, "shape": 2})
    tempers = {}
    for name, asked, options in (
        ("pure", promise(0), {}),
        ("any number", promise("1e-6"), {}),
        ("hundred", promise("1e-6"), {"records": 100}),
    ):
        made, table = calibrated(family, asked, **options)
        tempers[name] = made.rate / table.span
    assert tempers["any number"] < 1.01 * tempers["pure"]
    assert tempers["hundred"] > 30 * tempers["pure"]


def test_an_audit_holds_and_finds_a_rate_that_is_too_large() -> None:
    honest = dc.research.sampled(COIN, records=12)
    (finding,) = dc.audit(honest, promise("0.001"))
    assert finding.holds and finding.exact and 0.9 < finding.measured <= 1

    def calibrate(*parts: Any) -> Any:
        made = honest.calibrate(*parts)
        return replace(made, rate=1.2 * made.rate)

    assert not dc.audit(replace(honest, calibrate=calibrate), promise("0.001"))[0].holds


def test_under_a_metric_the_delta_holds_at_every_distance() -> None:
    asked = promise("0.01", "0.5", "metric", "2 minutes in one wait")
    made, table = calibrated(WAITS, asked, records=4)
    pure, _ = calibrated(WAITS, promise(0, "0.5", "metric", asked.unit))
    assert made.rate > 1.2 * pure.rate
    nats = made.rate / SCORE_STEPS * table.steps
    for size in range(1, 5):
        sets = list(combinations_with_replacement(range(3), size))
        laws = log_softmax(table.base + np.array([nats[list(records)].sum(axis=0) for records in sets]), axis=1)
        for one, law in zip(sets, laws, strict=True):
            for other, another in zip(sets, laws, strict=True):
                # Bins of 2 minutes: one step further is one unit, two steps are 2.
                rho = sum(abs(a - b) for a, b in zip(one, other, strict=True))
                assert hockey_stick(law, another, 0.5 * rho) <= 0.01 * rho + 1e-12


def test_what_the_delta_needs_is_said_before_anything_is_charged() -> None:
    counts, prior = counts_of(COIN.network, [(0,), (1,), (1,), (1,)]), dc.Dirichlet.uniform(COIN.network)
    account = dc.Ledger("sqlite://").open("a", promise("0.01", 9))
    for options, asked, why in (
        ({"records": 3}, promise("0.001"), "more records than the 3 for which the delta was promised"),
        ({"records": 9}, promise(0), "records is for a delta"),
        ({"records": 9}, promise("0.001", relation="add-remove"), "records is for a delta"),
    ):
        with pytest.raises(dc.InputError, match=why):
            dc.release(dc.research.sampled(COIN, **options), counts, prior, asked, account=account)
    assert account.charges() == ()
    for wrong in (2, 0, -1, 2.5, 10**18):
        with pytest.raises(dc.InputError, match="records must be a whole number of at least 3 and at most"):
            dc.research.sampled(COIN, records=wrong)  # type: ignore[arg-type]
    release = dc.release(dc.research.sampled(COIN, records=4), counts, prior, promise("0.001"), account=account)
    again = dc.Release.loads(release.dumps())
    assert again.calibration.records == 4 and again.guarantee.delta == promise("0.001").delta


def test_a_set_needs_room_for_its_share() -> None:
    """Where the prior leaves nothing outside, the delta is that of the range alone."""
    asked = promise("0.001")
    made = LikelyParameters(COIN.table, asked, 1, 9, lambda some: width_of(some, asked))
    assert made._delta_of_set(0.5, 0.1) == 1
    assert made._delta_of_set(0.0, 1.0) < 1e-20 and made._delta_of_set(0.0, 0.999) == 0
    assert made._delta_of_set(0.0005, 1.0) == pytest.approx(0.0005, rel=1e-9)
    # What is outside takes nothing of epsilon, however small that is.
    tiny = replace(made, guarantee=promise("0.3", "0.01"))
    assert tiny._delta_of_set(0.1, 0.5) == pytest.approx(0.1 + 0.9 * range_delta(0.5, 0.01))


# ------------------------------------------------------------------------- the calls of docs/papers.md, from the shell


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    shell = opened(tmp_path, monkeypatch, capfd)
    columns = [{"name": name, "bounds": [-1, 1], "bins": 3} for name in "xy"]
    normal = {"family": "multivariate_normal", "variables": columns, "points": 32}
    Path("normal.json").write_text(json.dumps({**normal, "parameters": {"low": 0.5, "high": 20, "degrees": 3}}))
    coin = {"family": "bernoulli", "variables": [{"name": "c", "states": ["no", "yes"]}], "points": 60}
    Path("coin.json").write_text(json.dumps({**coin, "parameters": {"floor": 1e-6, "alpha": 3, "beta": 3}}))
    Path("places.csv").write_text("x,y\n" + "0.1,0.2\n-0.5,0.3\n" * 20)
    Path("flips.csv").write_text("c\n" + "no\nyes\n" * 4)
    return shell


@pytest.mark.costly("Four releases by the command line, their explanations and three audits.")
def test_lemmas_23_and_24_and_definition_2_from_the_shell(run: Shell) -> None:
    for at, (unit, delta, words, line) in enumerate(
        (
            (
                "0.5 by moments",
                "0.001",
                "places.csv --score normal.json",
                "by moments: two records x and y are apart by",
            ),
            ("0.5 cm by length", "0", "places.csv --score normal.json", "by length: two records are as far apart as"),
            ("1 attribute by arcs", "0", "d.parquet --network asia.bif --mechanism laplace", "1 more for each child"),
            (
                "1 attribute by arcs",
                "0.001",
                "d.parquet --network asia.bif --mechanism posterior_sampler",
                "each child",
            ),
        )
    ):
        run(f"ledger open m{at} --epsilon 3 --delta 0.01 --relation metric --unit '{unit}'")
        code, _, err = run(f"release {words} --account m{at} --epsilon 1 --delta {delta} --output m{at}.json")
        assert code == 0, err
        assert line in err
        told = run(f"explain m{at}.json")[1]
        assert line in told and "protects no record and no person" in told
        assert ("as if with probability 0.002 anything may be told" in told) is (delta != "0")
        assert run(f"query m{at}.json --draws 100")[0] == 0
    for mechanism, unit, options in (
        ("sampled", "0.5 by moments", "--option score=normal.json"),
        ("laplace", "1 attribute by arcs", ""),
        ("posterior_sampler", "1 attribute by arcs", "--delta 0.001"),
    ):
        words = f"audit {mechanism} --relation metric --unit '{unit}' --epsilon 1 --records 1 {options}"
        assert all(part["holds"] and part["unit"] == unit for part in run.json(words)["findings"])


def test_assumption_2_from_the_shell(run: Shell) -> None:
    run("ledger open flips --epsilon 3 --delta 0.01 --relation replace")
    words = "--score coin.json --mechanism sampled --account flips --epsilon 1 --delta 0.001"
    assert "more records than the 5" in run.fails(f"release flips.csv {words} --option records=5 --output r.json")
    assert run(f"release flips.csv {words} --option records=8 --output r.json")[0] == 0
    assert run.json("ledger show flips")["accounts"][0]["spent"]["delta"] == "0.001"
    (row,) = run.json("query r.json")["parameters"]
    assert 0 < row["lower"] < row["upper"] < 1
    assert "delta 0.001" in run("explain r.json")[1]
    audited = "audit sampled --option score=coin.json --option records=8 --relation replace --delta 0.001"
    (part,) = run.json(audited)["findings"]
    assert part["holds"] and part["exact"] and part["delta"] == "0.001"
