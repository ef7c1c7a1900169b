"""Scores with a declared Lipschitz constant: the envelope against its formula, and what it costs under a metric."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.research.bounds import assumption_one, lipschitz_constants
from discreet.research.mechanisms.scored import metric_width
from discreet.research.scores.score_tables import SCORE_STEPS, smooth_score
from folding import every
from tiny import counts_of, network_of

EVEN = dc.Variable.binned("x", (0, 12), 12)
UNEVEN = dc.Variable("x", bounds=(-2, 9), bins=(-1.5, 0.25, 1, 4, 4.5))
Function = Callable[[Any, Any], Any]


def over(variable: dc.Variable) -> dc.Network:
    return dc.Network.empty(dc.Schema((variable,)))


def walks(variable: dc.Variable, seed: int) -> np.ndarray:
    """Log-likelihoods of no shape at all."""
    return np.random.default_rng(seed).normal(0, 3, (variable.size, 7)).cumsum(axis=0)


def family(variable: dc.Variable, logs: np.ndarray, **declared: float) -> dc.research.ScoreTable:
    """Of rows of log-likelihoods, one for each bin."""
    places = middle_of(variable)

    def function(types: Any, candidates: Any) -> Any:
        return logs[np.searchsorted(places, types["x"])]

    return dc.research.own_family(over(variable), function, np.arange(logs.shape[1]), **declared)


def middle_of(variable: dc.Variable) -> np.ndarray:
    assert variable.bounds is not None
    edges = np.array([variable.bounds[0], *variable.bins, variable.bounds[1]])
    return np.asarray((edges[1:] + edges[:-1]) / 2)


def nats(table: dc.research.ScoreTable, amount: object) -> float:
    """What a unit costs at a weight of 1 for each record."""
    return metric_width(table, Fraction(str(amount))) / SCORE_STEPS * table.span


# -------------------------------------------------------------------------------------------------------- the envelope


@every("variable", [EVEN, UNEVEN])
@every("lipschitz", [0.01, 0.5, 3.0])
def test_the_envelope_is_the_least_over_all_readings(variable: dc.Variable, lipschitz: float) -> None:
    """`min_y f(y) + L |x - y|` in plain loops, of what is left when the middle of the changes is taken away."""
    score, places = walks(variable, 1), middle_of(variable)
    changes = np.diff(score, axis=0)
    common = np.append(0, np.cumsum((changes.max(axis=1) + changes.min(axis=1)) / 2))
    apart = score - common[:, None]
    expected = np.empty_like(apart)
    for x in range(len(apart)):
        expected[x] = [
            min(apart[y, z] + lipschitz * abs(places[x] - places[y]) for y in range(len(apart))) for z in range(7)
        ]
    found = smooth_score(score, over(variable), lipschitz)
    assert found == pytest.approx(expected + common[:, None], abs=1e-12)
    assert np.all(found <= score) and np.any(found < score)


def test_what_all_candidates_have_in_common_is_left_alone() -> None:
    score, rng = walks(UNEVEN, 2), np.random.default_rng(3)
    common = rng.normal(0, 50, (len(score), 1))
    lowered = [smooth_score(given, over(UNEVEN), 0.5) - given for given in (score, score + common)]
    assert lowered[0] == pytest.approx(lowered[1], abs=1e-11)
    assert np.min(lowered[0]) < -1


@every("variable", [EVEN, UNEVEN])
def test_a_constant_that_is_not_smaller_than_the_family_s_changes_nothing(variable: dc.Variable) -> None:
    """Neither that of Assumption 1, nor the smallest that will do: half of what two candidates' differences change."""
    logs, places = walks(variable, 4), middle_of(variable)
    plain = family(variable, logs)
    first = assumption_one(lipschitz_constants(logs.T, np.abs(places[:, None] - places)))
    least = float((np.ptp(np.diff(logs, axis=0), axis=1) / np.diff(places)).max()) / 2
    assert least < first
    for enough in (first, least * (1 + 1e-9)):
        table = family(variable, logs, lipschitz=enough)
        assert np.array_equal(table.steps, plain.steps) and table.span == plain.span
    assert not np.array_equal(family(variable, logs, lipschitz=0.9 * least).steps, plain.steps)


# ------------------------------------------------------------------------------------------------------- what it costs


@every("seed", range(8))
@every("amount", [1, 2, 5])
def test_a_unit_costs_twice_the_constant(seed: int, amount: int) -> None:
    """Of bins of width 1; four cells are rounded to half a step each. And nothing is wasted: these walks are steep."""
    for lipschitz in (0.05, 0.4, 1.5):
        table = family(EVEN, walks(EVEN, seed), lipschitz=lipschitz)
        rounding = 3 * table.span / SCORE_STEPS
        assert nats(table, amount) <= 2 * lipschitz * amount + rounding
        assert nats(table, 1) >= 1.8 * lipschitz
        assert nats(table, amount) < 0.8 * nats(family(EVEN, walks(EVEN, seed)), amount)


@every("seed", range(8))
@every("amount", ["0.3", "0.7", "1.3", "4"])
def test_in_uneven_bins_it_costs_a_bin_more_at_most(seed: int, amount: str) -> None:
    for lipschitz in (0.05, 0.4, 1.5):
        table = family(UNEVEN, walks(UNEVEN, seed), lipschitz=lipschitz)
        most = 2 * lipschitz * (float(amount) + 4.5)
        assert nats(table, amount) <= most + 3 * table.span / SCORE_STEPS


def test_a_bound_beside_the_constant_holds_too() -> None:
    """Also where a likelihood is 0, which no constant allows."""
    logs = walks(EVEN, 5)
    logs[3, 2] = -math.inf
    table = family(EVEN, logs, bound=4.0, lipschitz=0.4)
    assert table.span <= 4
    assert nats(table, 1) <= 0.8 + 3 * table.span / SCORE_STEPS
    assert np.all(table.steps.max(axis=1) == SCORE_STEPS)
    with pytest.raises(dc.InputError, match="state a bound"):
        family(EVEN, logs, lipschitz=0.4)


def test_a_record_counts_more_under_a_metric_and_the_promise_holds() -> None:
    """By the audit, over all pairs of bins; and readers know the true law of records."""
    unit = dc.Guarantee(epsilon="0.5", delta=0, relation="metric", unit="2 mmHg in one reading")
    logs = walks(EVEN, 6)
    tempers, tables = [], []
    for declared in ({}, {"lipschitz": 0.6}, {"lipschitz": 0.2}):
        table = family(EVEN, logs, **declared)
        mechanism = dc.research.sampled(table)
        calibration = mechanism.calibrate(table.network, dc.Dirichlet.uniform(table.network), unit)
        tempers.append(calibration.rate / table.span)
        tables.append(table)
        (finding,) = dc.audit(mechanism, unit, most=1)
        assert finding.holds and finding.measured > 0.4
    # A weight of epsilon over 2 L units of 2 at least, but for rounding.
    assert tempers[1] >= 0.5 / (4 * 0.6) * (1 - 1e-4) and tempers[2] >= 0.5 / (4 * 0.2) * (1 - 1e-4)
    assert tempers[0] < 0.5 * tempers[1] < 0.5 * tempers[2]
    assert all(np.array_equal(table.law, tables[0].law) for table in tables)


@pytest.mark.costly("Whether intervals hold shows in two hundred truths, not in one.")
def test_readers_of_a_smoothed_family_are_not_misled() -> None:
    """An exponential law whose far readings say no more than near ones; the interval's level over truths of the prior.

    Of 200 intervals of 95 % at most 168 hold the truth once in 1.4e8.
    """
    variable, rng = dc.Variable.binned("wait", (0, 20), 20), np.random.default_rng(7)
    made = dc.research.Family("exponential", (variable,), {"low": 0.1, "high": 2}, 60, lipschitz=0.25)
    table, held = made.table, 0
    weights = np.exp(table.base)
    asked = dc.Guarantee(epsilon=1, delta=0, relation="metric", unit="1 minute in one wait")
    for _ in range(200):
        at = rng.choice(len(weights), p=weights / weights.sum())
        counts = counts_of(made.network, [(int(bin),) for bin in rng.choice(20, 40, p=table.law[:, at])])
        release = dc.simulate(dc.research.sampled(made), counts, dc.Dirichlet.uniform(made.network), asked, rng=rng)
        (row,) = dc.read(release, method="parameters", draws=1000, rng=rng).rows(level=0.95)
        held += bool(row["lower"] <= table.candidates[at, 0] <= row["upper"])
    assert held > 168


# -------------------------------------------------------------------------------------------------- families and files

FILE = {
    "family": "exponential", "variables": [{"name": "wait", "bounds": [0, 60], "bins": 60}],
    "parameters": {"low": 0.02, "high": 1}, "points": 50, "lipschitz": 0.1,
}  # fmt: skip


def test_a_family_has_the_constant_of_its_file_and_of_its_document() -> None:
    read = dc.research.read_score_file(json.dumps(FILE))
    assert isinstance(read, dc.research.Family) and read.lipschitz == 0.1
    assert nats(read.table, 1) <= 0.2 + 3 * read.table.span / SCORE_STEPS
    plain = dc.research.read_score_file(json.dumps({name: part for name, part in FILE.items() if name != "lipschitz"}))
    assert isinstance(plain, dc.research.Family) and nats(plain.table, 1) > 0.9
    assert np.array_equal(plain.table.law, read.table.law)
    asked = dc.Guarantee(epsilon=1, delta=0, relation="metric", unit="1 minute in one wait")
    counts, prior = counts_of(read.network, [(3,), (8,)]), dc.Dirichlet.uniform(read.network)
    for score in (read, plain):
        release = dc.simulate(dc.research.sampled(score), counts, prior, asked, rng=np.random.default_rng(1))
        again = dc.Release.loads(release.dumps())
        assert again.payload.score.lipschitz == score.lipschitz
        assert again.payload.table_of_scores.steps.tolist() == score.table.steps.tolist()
        assert ("lipschitz" in release.dumps()) is (score is read)


@every("wrong", [0, -1.0, math.nan, math.inf])
def test_a_constant_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(
        dc.InputError, match="a Lipschitz constant must be a finite number greater than 0, in nats for each unit"
    ):
        family(EVEN, walks(EVEN, 1), lipschitz=wrong)


def test_what_has_no_order_has_no_constant() -> None:
    coin, pair = network_of({"a": 2}), over(EVEN).schema["x"]
    both = dc.Network((pair, dc.Variable.binned("y", (0, 2), 2)), {"x": (), "y": ()})
    for network, high in ((coin, lambda t: t["a"] == "s1"), (both, lambda t: t["x"] > 6)):
        with pytest.raises(dc.InputError, match="needs one numeric variable with bins"):
            dc.research.own_family(network, lambda t, z, high=high: high(t)[:, None] * z.T, [1, 2], lipschitz=1)
    with pytest.raises(dc.InputError, match="the Lipschitz constant of a family must be a number of nats"):
        dc.research.read_score_file(json.dumps(FILE | {"lipschitz": "0.1"}))
