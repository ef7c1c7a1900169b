"""Families on grids: their laws, what a draw of their posterior costs, and privacy under a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import discreet as dc
from discreet.research.mechanisms.scored import metric_width, score_width
from discreet.research.scores.families import FAMILIES
from discreet.research.scores.score_tables import SCORE_STEPS
from enumeration import Scripted
from experiments.trimmed_laws import ExponentialRate, LaplaceRate, NormalPrecision, TrimmedGamma
from folding import every
from shell import Shell
from tiny import counts_of

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
UNIT_BOX = dc.Variable.binned("x", (0, 1), 256)
BOX = dc.Variable.binned("x", (-1, 1), 256)
COUNTS = dc.Variable.binned("k", (0, 40), 40)
FEW = dc.Variable.binned("x", (0, 4), 4)


def promise(epsilon: object = 1, relation: dc.Relation = ADD_REMOVE, unit: str = "record") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit=unit)


# ----------------------------------------------------------------------------------------------------------- their laws

LAWS: dict[str, tuple[dc.research.Family, Any]] = {
    "exponential": (
        dc.research.Family("exponential", (UNIT_BOX,), {"low": 0.5, "high": 40}),
        lambda t: stats.expon(scale=1 / t),
    ),
    "laplace": (
        dc.research.Family("laplace", (BOX,), {"low": 0.5, "high": 90, "location": 0.2}),
        lambda t: stats.laplace(0.2, 1 / t),
    ),
    "normal": (
        dc.research.Family("normal", (BOX,), {"mean": -0.1, "low": 0.5, "high": 900}),
        lambda t: stats.norm(-0.1, t**-0.5),
    ),
}


@every("name", LAWS)
@every("open_ends", [False, True])
def test_a_law_of_numbers_is_that_of_its_distribution(name: str, open_ends: bool) -> None:
    family, distribution = LAWS[name]
    family = dc.research.Family(name, family.variables, family.parameters, open_ends=open_ends)
    variable = family.variables[0]
    assert variable.bounds is not None
    inner = np.array([variable.bounds[0], *variable.bins, variable.bounds[1]])
    edges = np.array([-np.inf, *variable.bins, np.inf]) if open_ends else inner
    for point in (0, 511, 1023):
        law = distribution(family.table.candidates[point, 0])
        below, above = law.cdf(edges), law.sf(edges)
        mass = np.where(below[1:] < above[:-1], np.diff(below), -np.diff(above))
        assert family.table.law[:, point] == pytest.approx(mass / mass.sum(), rel=1e-6, abs=1e-12)


def test_a_law_of_whole_numbers_is_that_of_poisson() -> None:
    table = dc.research.Family("poisson", (COUNTS,), {"low": 1, "high": 10}).table
    for point in (0, 500, 1023):
        mass = stats.poisson.pmf(np.arange(41), table.candidates[point, 0])
        mass[39] += mass[40]  # the last bin has its upper bound
        assert table.law[:, point] == pytest.approx(mass[:40] / mass.sum(), rel=1e-9)


def test_a_law_of_two_numbers_has_the_covariance_of_its_precision() -> None:
    pair = (dc.Variable.binned("x", (-4, 4), 40), dc.Variable.binned("y", (-4, 4), 40))
    table = dc.research.Family("multivariate_normal", pair, {"low": 1, "high": 6, "degrees": 4}, 64).table
    middles = np.array([part.ravel() for part in np.meshgrid(*[np.linspace(-3.9, 3.9, 40)] * 2, indexing="ij")])
    for at in (0, 31, 63):
        a, b, c = table.candidates[at]
        matrix = np.array([[a, b], [b, c]])
        assert np.all((np.linalg.eigvalsh(matrix) > 1 - 1e-9) & (np.linalg.eigvalsh(matrix) < 6 + 1e-9))
        covariance = (middles * table.law[:, at]) @ middles.T
        assert covariance == pytest.approx(np.linalg.inv(matrix), abs=0.02)  # bins have a width


def test_a_prior_is_what_it_says() -> None:
    """Grid weights of a Gamma prior add up to the prior's own probabilities."""
    table = dc.research.Family(
        "exponential", (UNIT_BOX,), {"low": 0.5, "high": 40, "shape": 3, "rate": 0.4}, 4096
    ).table
    weights = np.exp(table.base - logsumexp(table.base))
    law = stats.gamma(3, scale=1 / 0.4)
    for cut in (2.0, 8.0, 20.0):
        share = (law.cdf(cut) - law.cdf(0.5)) / (law.cdf(40) - law.cdf(0.5))
        assert weights[table.candidates[:, 0] < cut].sum() == pytest.approx(share, abs=2e-3)


@every("name", ["exponential", "laplace", "normal"])
def test_a_replaced_record_costs_what_the_continuous_family_says(name: str) -> None:
    """But for a bin's width: the range of a log-likelihood ratio over the support (Dimitrakakis et al., Section 5)."""
    gamma = TrimmedGamma(1, 1, 0.5, 2)
    variable, known = {
        "exponential": (UNIT_BOX, ExponentialRate(gamma, 1)),
        "laplace": (BOX, LaplaceRate(gamma, 0, 1)),
        "normal": (BOX, NormalPrecision(gamma, 0, 1)),
    }[name]
    table = dc.research.Family(name, (variable,), {"low": 0.5, "high": 2}).table
    width = score_width(table, REPLACE) / SCORE_STEPS * table.span
    exact = known.record_loss(REPLACE)
    assert exact * (1 - 3 / 256) <= width <= exact * (1 + 1e-5)


def test_two_states_cost_what_trimming_says() -> None:
    """`2 ln((1 - w) / w)` and half of it: Lemma 21, trimmed."""
    table = dc.research.Family("bernoulli", (dc.Variable("c", ("no", "yes")),), {"floor": 0.1}).table
    for relation, times in ((ADD_REMOVE, 1), (REPLACE, 2)):
        assert score_width(table, relation) / SCORE_STEPS * table.span == pytest.approx(times * math.log(9), rel=1e-6)


# ------------------------------------------------------------------------------------------------------------- sampling


def test_a_draw_is_from_the_tempered_posterior() -> None:
    """The law that the source of noise is given, against prior times likelihood to the power of the temper."""
    family = dc.research.Family("exponential", (FEW,), {"low": 0.25, "high": 4, "shape": 2, "rate": 1}, 40)
    mechanism, prior = dc.research.sampled(family), dc.Dirichlet.uniform(family.network)
    records = [(0,)] * 30 + [(1,)] * 9 + [(3,)] * 2
    for epsilon, temper in (("0.5", None), ("1000", 1.0)):
        if temper == 1.0:
            mechanism = dc.research.sampled(family, temper=1.0)
        calibration = mechanism.calibrate(family.network, prior, promise(epsilon))
        given: list[Sequence[Fraction]] = []

        class Spy(Scripted):
            def choose(self, exponents: Sequence[Fraction], draws: int) -> np.ndarray:
                given.append(exponents)  # noqa: B023 - called at once
                return np.zeros(draws, np.int64)

        payload = mechanism.draw(counts_of(family.network, records), prior, calibration, Spy())
        theta = family.table.candidates[:, 0]
        weight = payload.temper
        assert (temper is None and weight < 0.3) or weight == pytest.approx(1, rel=1e-6)
        logs = 2 * np.log(theta) - theta  # Gamma(2, 1) on a grid that is as dense as 1 / theta
        for (bin_,), number in ((record, records.count(record)) for record in set(records)):
            mass = np.exp(-theta * bin_) - np.exp(-theta * (bin_ + 1))
            logs += weight * number * np.log(mass / (1 - np.exp(-4 * theta)))
        found = -np.array([float(exponent) for exponent in given[0]])
        assert found - logsumexp(found) == pytest.approx(logs - logsumexp(logs), abs=1e-3)


def test_a_temper_that_costs_too_much_is_refused() -> None:
    family = dc.research.Family("exponential", (FEW,), {"low": 0.25, "high": 4}, 10)
    with pytest.raises(dc.InputError, match="allows a temper of 0"):
        dc.research.sampled(family, temper=1.0).calibrate(
            family.network, dc.Dirichlet.uniform(family.network), promise("0.1")
        )


@every("name", FAMILIES)
def test_what_is_no_family_is_refused(name: str) -> None:
    needed, optional = FAMILIES[name]
    variable = dc.Variable("c", ("no", "yes")) if name == "bernoulli" else FEW
    variables = (FEW, dc.Variable.binned("y", (0, 4), 4)) if name == "multivariate_normal" else (variable,)
    good = {"low": 0.5, "high": 2.0} if "low" in needed else {"floor": 0.2}
    assert dc.research.Family(name, variables, good).table.size >= 2
    for parameters, why in (
        ({}, "missing"),
        (good | {"x": 1}, "unknown"),
        (good | {needed[0]: -1}, f"{name} needs"),
        (good | {needed[0]: math.nan}, "finite number"),
        (good | {needed[0]: "1"}, "must be a number"),
    ):
        with pytest.raises(dc.InputError, match=why):
            dc.research.Family(name, variables, parameters)
    for bad in ((), variables * 2, (dc.Variable("s", ("a", "b", "c")),), (dc.Variable("n", bounds=(0, 1)),)):
        with pytest.raises(dc.InputError):
            assert dc.research.Family(name, bad, good).network
    with pytest.raises(dc.InputError, match="a grid must have from 2"):
        dc.research.Family(name, variables, good, 1)
    assert optional is not None


# ------------------------------------------------------------------------------------------------------- under a metric


@every("amount", [1, 2, "0.5"])
def test_what_changes_move_is_what_was_promised_for_each_unit(amount: object) -> None:
    """All pairs of readings in quarter steps, whose bins are of width 1: the ratio is within epsilon for each unit."""
    family = dc.research.Family("exponential", (dc.Variable.binned("x", (0, 6), 6),), {"low": 0.1, "high": 2}, 20)
    mechanism, prior = dc.research.sampled(family), dc.Dirichlet.uniform(family.network)
    asked = promise(1, dc.Relation.METRIC, f"{amount} minutes in one wait")
    calibration = mechanism.calibrate(family.network, prior, asked)
    steps, unit = family.table.steps, calibration.rate / SCORE_STEPS
    worst = 0.0
    for one, other in product(np.arange(0, 6, 0.25), repeat=2):
        if one != other:
            units = math.ceil(abs(one - other) / float(Fraction(str(amount))) - 1e-9)
            moved = np.ptp(steps[int(one)] - steps[int(other)]) * unit
            worst = max(worst, moved / units)
    assert worst <= 1 + 1e-9
    assert worst >= (0.95 if calibration.rate < family.table.span * 0.999 else 0)


@pytest.mark.parametrize(("amount", "bins", "high"), [("0.1", 10, 1), ("0.3", 10, 1), ("1", 7, 2), ("0.25", 8, 2)])
def test_cut_points_that_floats_do_not_have_exactly_count_as_they_are(amount: str, bins: int, high: int) -> None:
    """Any scores; readings at both ends of every bin, whose distances are taken exactly."""
    variable = dc.Variable.binned("x", (0, high), bins)
    steps = np.random.default_rng(bins).integers(0, SCORE_STEPS + 1, (bins, 5))
    table = dc.research.ScoreTable(
        dc.Network((variable,), {"x": ()}), ("z",), np.arange(5.0)[:, None], np.zeros(5), steps
    )
    edges = [0.0, *variable.bins, float(high)]
    places = [(x, at) for at in range(bins) for x in (edges[at], math.nextafter(edges[at + 1], 0))]
    moved = [
        Fraction(int(np.ptp(steps[one] - steps[other])), math.ceil(abs(Fraction(x) - Fraction(y)) / Fraction(amount)))
        for (x, one), (y, other) in product(places, repeat=2)
        if one != other
    ]
    assert max(moved) <= metric_width(table, Fraction(amount)) <= 2 * max(moved)


def test_a_metric_costs_what_assumption_one_says() -> None:
    """`(c2 - c1) rho` for exponential readings (Lemma 19, by range), and the same for each unit however many."""
    table = dc.research.Family("exponential", (UNIT_BOX,), {"low": 0.5, "high": 2}).table
    for amount in (Fraction(1, 16), Fraction(1, 4)):
        assert metric_width(table, amount) / SCORE_STEPS * table.span == pytest.approx(1.5 * amount, rel=1e-4)


def test_a_metric_needs_one_variable_with_an_order() -> None:
    coin = dc.research.Family("bernoulli", (dc.Variable("c", ("no", "yes")),), {"floor": 0.1})
    asked = promise(1, dc.Relation.METRIC, "1 step in one reading")
    with pytest.raises(dc.InputError, match="one numeric variable"):
        dc.research.sampled(coin).calibrate(coin.network, dc.Dirichlet.uniform(coin.network), asked)


# ------------------------------------------------------------------------------------------------------ from the shell

FAMILY = (
    '{"family": "exponential", "variables": [{"name": "wait", "bounds": [0, 60], "bins": 60}], '
    '"parameters": {"low": 0.02, "high": 1}, "points": 200}'
)
COIN = (
    '{"variables": [{"name": "a", "states": ["no", "yes"]}], "candidates": [[0.1], [0.9]], "names": ["P(yes)"], '
    '"range": [0, 1], "scores": [[1, 0], [0, 1]]}'
)


def test_a_family_and_a_score_are_released_and_read_from_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Shell(capfd)
    (tmp_path / "f.json").write_text(FAMILY)
    (tmp_path / "c.json").write_text(COIN)
    rng = np.random.default_rng(2)
    waits = np.minimum(rng.exponential(8, 2000), 59.0)
    (tmp_path / "w.csv").write_text("wait\n" + "\n".join(f"{x:.1f}" for x in waits) + "\n")
    (tmp_path / "a.csv").write_text("a\n" + "no\nyes\nyes\nyes\n" * 100)
    run("ledger open acc --epsilon 20 --relation add-remove")
    run("release w.csv --score f.json --account acc --epsilon 3 --output r.json")
    (row,) = run.json("query r.json")["parameters"]
    assert row["name"] == "rate"
    # Seeded records, and noise that would have to be six of its deviations off.
    assert row["lower"] < 0.14 and 0.11 < row["upper"] < 0.3
    for more in ("--method pooled", "--prior 1", "--trust-network", "--predictive"):
        assert "prints its parameters" in run.fails(f"query r.json {more}")
    assert "the family's own prior" in run.fails('query r.json "P(wait=0_to_1)" --prior 1')
    run("release a.csv --score c.json --account acc --epsilon 3 --output c1.json")
    values = run.json('query c1.json "P(a=yes)"')["answers"][0]["values"]
    assert 0.4 < values[0]["lower"] < values[0]["upper"] <= 1
    for words, why in (
        ("--score f.json --mechanism laplace", "takes no score; those that do are: scored, sampled"),
        ("--score f.json --network none", "a score has its own variables"),
        ("--score c.json --mechanism sampled", "only a family has a posterior"),
        ("--score none.json", "cannot read score"),
        ("--score f.json --option temper=x", "option temper needs a number"),
        ("--score f.json --option score=c.json", "--score names the score"),
    ):
        assert why in run.fails(f"release w.csv {words} --account acc --epsilon 1 --output x.json")
    spent = run.json("ledger show acc")["accounts"][0]["spent"]["epsilon"]
    assert spent == "6"  # nothing of what was refused is charged
    run('ledger open m --epsilon 5 --relation metric --unit "1 minute in one wait"')
    run("release w.csv --score f.json --account m --epsilon 1 --output m.json")
    assert "protects no record and no person" in str(dc.Release.load(tmp_path / "m.json").guarantee)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "a JSON object with 'variables'"),
        ('{"variables": [{"name": "a"}], "family": "exponential"}', "declare its states"),
        (
            '{"variables": [{"name": "x", "bounds": [0, 1], "bins": 4}], "family": "levy", "parameters": {}}',
            "no family",
        ),
        ('{"variables": [{"name": "x", "bounds": [0, 1], "bins": 4}], "family": "exponential"}', "needs 'parameters'"),
        ('{"variables": [{"name": "x", "bounds": [0, "a"], "bins": 4}], "family": "exponential"}', "a list of numbers"),
        (
            '{"variables": [{"name": "x", "bounds": [0, 1], "bins": 4}], "family": ["exponential"]}',
            "'family' must be one of",
        ),
        ('{"variables": [{"name": "x", "bins": 4}], "family": "exponential", "parameters": {}}', "needs bounds"),
        ('{"variables": [{"name": "a", "states": ["n", "y"]}], "scores": [[1]], "odd": 1}', "has no field 'odd'"),
        (
            '{"variables": [{"name": "a", "states": ["n", "y"]}], "scores": [[1, 0]], "candidates": [1, 2], '
            '"range": [0, 1]}',
            "a row for each of 2 joint states",
        ),
        (
            '{"variables": [{"name": "a", "states": ["n", "y"]}], "scores": [[1, 0], [0, 1]], "candidates": [1, 2], '
            '"range": [1, 0]}',
            "its lowest and its highest",
        ),
    ],
)
def test_a_text_that_is_no_score_is_refused(text: str, why: str) -> None:
    with pytest.raises(dc.InputError, match=why):
        dc.research.read_score_file(text)
