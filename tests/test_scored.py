"""The exponential mechanism over public tables of scores: exact draws, exact widths, and its promise by enumeration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import discreet as dc
from discreet.mechanisms.noise import ExactNoise, SimulatedNoise
from discreet.research.kinds.scored_choice import ScoredNoise
from discreet.research.mechanisms.scored import score_width
from discreet.research.scores.score_tables import SCORE_STEPS, likelihood_table, record_types
from enumeration import Scripted
from folding import every
from goodness import fit
from tiny import counts_of, network_of

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
FALSE_ALARM = 1e-8
COIN, PAIR = network_of({"a": 2}), network_of({"a": 2, "b": 3})


def promise(epsilon: object = 1, relation: dc.Relation = ADD_REMOVE) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def random_table(network: dc.Network, size: int, seed: int) -> dc.research.ScoreTable:
    """Scores and a base measure of no shape at all."""
    rng = np.random.default_rng(seed)
    types = math.prod(network.schema[name].size for name in network.nodes)
    steps = rng.integers(0, SCORE_STEPS + 1, (types, size))
    return dc.research.ScoreTable(network, ("z",), np.arange(size)[:, None], rng.normal(0, 2, size), steps)


WAIT = dc.Variable.binned("x", (0, 4), 4)
TABLES = {
    "a coin": dc.research.own_score(
        COIN, lambda t, z: np.log(np.where(t["a"][:, None] == "s1", z.T, 1 - z.T)), [0.1, 0.5, 0.8], low=-2.4, high=-0.1
    ),
    "any scores of one variable": random_table(COIN, 4, 1),
    "any scores of two variables": random_table(PAIR, 3, 2),
    "a family": dc.research.Family("exponential", (WAIT,), {"low": 0.25, "high": 4}, points=6).table,
    "a family with a bound": dc.research.Family(
        "normal", (WAIT,), {"mean": 2, "low": 0.2, "high": 9}, 5, bound=1.5
    ).table,
}


# ------------------------------------------------------------------------------------------------------- exact choices

EXPONENTS = {
    "three": [Fraction(0), Fraction(1), Fraction(7, 3)],
    "ties": [Fraction(0), Fraction(0), Fraction(1, 3), Fraction(0)],
    "far": [Fraction(10) ** 9, Fraction(0), Fraction(3, 2), Fraction(300)],
    "many": [Fraction(k % 7, 5) for k in range(40)],
}


@every("case", EXPONENTS)
@every("source", ["exact", "simulated"])
def test_a_choice_has_the_law_of_its_exponents(case: str, source: str) -> None:
    exponents = EXPONENTS[case]
    noise = ExactNoise() if source == "exact" else SimulatedNoise(np.random.default_rng(5))
    weights = np.exp([-float(exponent) for exponent in exponents])
    found = np.bincount(noise.choose(exponents, 20_000), minlength=len(exponents))
    assert fit(found, weights / weights.sum()) > FALSE_ALARM


def test_the_fit_would_see_a_law_that_is_a_little_off() -> None:
    weights = np.exp([-1.1 * float(exponent) for exponent in EXPONENTS["three"]])
    found = np.bincount(ExactNoise().choose(EXPONENTS["three"], 60_000), minlength=3)
    assert fit(found, weights / weights.sum()) < FALSE_ALARM


# -------------------------------------------------------------------------------------------------------------- widths


@every("name", TABLES)
@every("relation", [ADD_REMOVE, REPLACE])
def test_the_width_is_the_widest_change_by_hand(name: str, relation: dc.Relation) -> None:
    """Over all pairs of candidates, and all records or pairs of them, in plain loops."""
    steps = TABLES[name].steps.tolist()
    changes = (
        list(steps)
        if relation is ADD_REMOVE
        else [[a - b for a, b in zip(one, other, strict=True)] for one, other in product(steps, repeat=2)]
    )
    widest = max(a - b for row in changes for a, b in product(row, repeat=2))
    assert score_width(TABLES[name], relation) == widest


def test_many_types_and_few_candidates_have_the_same_width_as_the_other_way_round() -> None:
    rng = np.random.default_rng(3)
    network = network_of({"a": 40})
    steps = rng.integers(0, SCORE_STEPS + 1, (40, 3))
    table = dc.research.ScoreTable(network, ("z",), np.arange(3)[:, None], np.zeros(3), steps)
    by_rows = max(int(np.ptp(one - other)) for one, other in product(steps, repeat=2))
    assert score_width(table, REPLACE) == by_rows


# ------------------------------------------------------------------------------------------- the promise, by
# enumeration


def law(table: dc.research.ScoreTable, calibration: ScoredNoise, mechanism: Any, records: Sequence[Any]) -> np.ndarray:
    """Log-probabilities of a draw, from the exponents that the source of noise is given."""
    given: list[Sequence[Fraction]] = []

    class Spy(Scripted):
        def choose(self, exponents: Sequence[Fraction], draws: int) -> np.ndarray:
            given.append(exponents)
            return super().choose(exponents, draws)

    counts = counts_of(table.network, records)
    mechanism.draw(counts, dc.Dirichlet.uniform(table.network), calibration, Spy())
    (exponents,) = given
    assert min(exponents) == 0
    logs = -np.array([float(exponent) for exponent in exponents])
    return np.asarray(logs - logsumexp(logs))


@pytest.mark.costly(
    "A score that a record moves more than was promised is found by exact laws of neighbours.", always=True
)
@every("name", TABLES)
@every("relation", [ADD_REMOVE, REPLACE])
@every("epsilon", ["0.1", "3"])
@every("draws", [1, 3])
def test_what_a_record_changes_is_what_was_promised(name: str, relation: dc.Relation, epsilon: str, draws: int) -> None:
    table = TABLES[name]
    mechanism = dc.research.scored(table, draws)
    calibration = mechanism.calibrate(table.network, dc.Dirichlet.uniform(table.network), promise(epsilon, relation))
    assert calibration.total <= Fraction(epsilon)
    domain = list(product(*(range(table.network.schema[name].size) for name in table.network.nodes)))
    few = [list(part) for size in range(2) for part in combinations_with_replacement(domain, size)]
    many = [[one] * 40 + [other] * 30 for one, other in product(domain, repeat=2)]
    laws: dict[tuple[Any, ...], np.ndarray] = {}

    def at(records: Sequence[Any]) -> np.ndarray:
        key = tuple(sorted(records))
        if key not in laws:
            laws[key] = law(table, calibration, mechanism, key)
        return laws[key]

    worst = 0.0
    for rest in few + many:
        pairs = [(rest, [*rest, one]) for one in domain]
        if relation is REPLACE:
            pairs = [([*rest, one], [*rest, other]) for one, other in product(domain, repeat=2)]
        worst = max(worst, *(float(np.abs(at(one) - at(other)).max()) for one, other in pairs))
    worst *= draws
    if calibration.total_scale is not None:
        worst += 1 / calibration.total_scale
    assert worst <= float(calibration.total) * (1 + 1e-9)
    assert worst >= 0.5 * float(epsilon)


def test_the_base_measure_does_not_cost_and_is_there() -> None:
    table = TABLES["any scores of one variable"]
    mechanism = dc.research.scored(table)
    calibration = mechanism.calibrate(COIN, dc.Dirichlet.uniform(COIN), promise())
    assert law(table, calibration, mechanism, []) == pytest.approx(table.base - logsumexp(table.base), abs=1e-12)


def test_sums_of_many_records_are_exact() -> None:
    """Whole numbers of 73 bits: a record among 2^52 others moves an exponent by what it is, to the last step."""
    table = TABLES["any scores of one variable"]
    mechanism, prior = dc.research.scored(table), dc.Dirichlet.uniform(COIN)
    calibration = mechanism.calibrate(COIN, prior, promise())
    found = []
    for row in ([2**52 - 3, 12345], [2**52 - 2, 12345]):
        source: list[Sequence[Fraction]] = []

        class Spy(Scripted):
            def choose(self, exponents: Sequence[Fraction], draws: int) -> np.ndarray:
                source.append(exponents)  # noqa: B023 - called at once
                return np.zeros(draws, np.int64)

        counts = dc.results.Counts(
            dc.Tables(COIN, {"a": np.array(row)}), dc.tools.count_codes(COIN, {"a": np.zeros(1, int)}).policy
        )
        mechanism.draw(counts, prior, calibration, Spy())
        found.append(source[0])
    moved = [b - a for a, b in zip(*found, strict=True)]
    unit = Fraction(calibration.rate) / SCORE_STEPS
    relative = [unit * int(step) for step in table.steps[0]]
    assert {a + b for a, b in zip(moved, relative, strict=True)} == {moved[0] + relative[0]}


# --------------------------------------------------------------------------------------------------- scores of your own


def test_a_score_is_clamped_and_rounded_type_by_type() -> None:
    table = dc.research.own_score(
        PAIR, lambda t, z: 100 * (t["b"][:, None] == "s2") - z.T, [0.0, 0.25, 50.0], low=-1, high=1
    )
    assert table.steps[:3].tolist() == [
        [SCORE_STEPS // 2, 3 * SCORE_STEPS // 8, 0],
        [SCORE_STEPS // 2, 3 * SCORE_STEPS // 8, 0],
        [SCORE_STEPS] * 3,
    ]
    assert score_width(table, ADD_REMOVE) <= SCORE_STEPS


def memory() -> Any:
    """A function that remembers how often it was called."""
    calls: list[int] = []

    def score(types: Any, candidates: Any) -> Any:
        calls.append(1)
        return np.full((2, len(candidates)), float(len(calls)))

    return score


def chance(types: Any, candidates: Any) -> Any:
    return np.random.default_rng().normal(size=(2, len(candidates)))


def bernoulli(types: Any, candidates: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(np.where(types["a"][:, None] == "s1", candidates.T, 1 - candidates.T))


def first_only(types: Any, candidates: Any) -> Any:
    return np.arange(2.0)[:, None] + candidates.T  # the place in the block, not the record


def fails(types: Any, candidates: Any) -> Any:
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("score", "why"),
    [
        (memory(), "without randomness or memory"),
        (chance, "without randomness or memory"),
        (first_only, "without randomness or memory"),
        (fails, "failed on the types of records: KeyError"),
        (lambda t, z: np.full((2, len(z)), math.nan), "not a finite number"),
        (lambda t, z: np.full((2, len(z)), math.inf), "not a finite number"),
        (lambda t, z: np.full((2, len(z)), -math.inf), "not a finite number"),
        (lambda t, z: np.zeros((3, len(z))), r"shape \(types, candidates\) = \(2, 2\), not \(3, 2\)"),
        (lambda t, z: np.zeros(2), "shape"),
        (lambda t, z: "no", "failed on the types"),
        (lambda t, z: None, "shape"),
    ],
)
def test_a_score_that_is_none_is_refused_before_any_record(score: Any, why: str) -> None:
    with pytest.raises(dc.InputError, match=why):
        dc.research.own_score(COIN, score, [0.2, 0.8], low=0, high=1)


def test_a_score_cannot_change_what_it_is_given() -> None:
    def greedy(types: Any, candidates: Any) -> Any:
        candidates[:] = 0
        types["a"][:] = "s0"
        return np.zeros((2, 2)) + [[0, 1], [1, 0]][0]

    table = dc.research.own_score(COIN, greedy, [0.2, 0.8], low=0, high=1)
    assert table.candidates.ravel().tolist() == [0.2, 0.8]
    assert record_types(COIN)["a"].tolist() == ["s0", "s1"]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda: dc.research.own_score(COIN, lambda t, z: np.zeros((2, 1)), [0.5], low=0, high=1),
            "at least two candidates",
        ),
        (lambda: dc.research.own_score(COIN, lambda t, z: t, [0, 1], low=1, high=1), "a range from low to high"),
        (lambda: dc.research.own_score(COIN, lambda t, z: t, [0, 1], low=0, high=math.inf), "a range from low to high"),
        (lambda: dc.research.own_score(COIN, lambda t, z: t, ["x", "y"], low=0, high=1), "rows of numbers"),
        (
            lambda: dc.research.own_score(network_of({"a": 9000}), lambda t, z: t, [0, 1], low=0, high=1),
            "than a table holds",
        ),
        (
            lambda: dc.research.ScoreTable(COIN, ("z",), [[0.0], [1.0]], [0, 0], [[0, SCORE_STEPS + 1], [0, 0]]),
            "needs steps from 0",
        ),
        (lambda: dc.research.ScoreTable(COIN, ("z",), [[0.0], [1.0]], [0, math.nan], [[0, 1], [0, 0]]), "log weight"),
        (lambda: dc.research.scored(TABLES["a coin"], 0), "a whole number from 1 to 10,000"),
        (
            lambda: dc.research.scored(random_table(network_of({"a": 1100}), 1000, 1)),
            "at most 1,048,576 cells",
        ),
        (lambda: dc.research.sampled(TABLES["a coin"]), "only a family has a posterior"),
        (lambda: dc.research.sampled(TABLES["a family"], temper=-1), "temper must be"),
        (lambda: dc.research.own_family(COIN, lambda t, z: np.full((2, 2), -math.inf), [0, 1]), "a likelihood of 0"),
        (lambda: dc.research.own_family(COIN, bernoulli, [0, 1]), "state a bound"),
        (lambda: dc.research.own_family(COIN, lambda t, z: np.zeros((2, 2)), [0, 1]), "equal for all candidates"),
        (lambda: dc.research.own_family(COIN, bernoulli, [0.1, 0.5], prior=[1, 0]), "greater than 0"),
    ],
)
def test_what_is_no_score_is_refused(make: Any, why: str) -> None:
    with pytest.raises(dc.InputError, match=why):
        make()


def test_bad_promises_cost_nothing(tmp_path: Any) -> None:
    account = dc.Ledger(f"sqlite:///{tmp_path}/l.db").open("a", promise(100))
    table, prior = TABLES["a coin"], dc.Dirichlet.uniform(COIN)
    counts = counts_of(COIN, [(0,), (1,)])
    alike = dc.research.ScoreTable(COIN, ("z",), [[0.0], [1.0]], [0, 0], [[5, 5], [7, 7]])
    delta = dc.Guarantee(epsilon=1, delta="1e-6", relation=ADD_REMOVE, unit="record")
    for score, asked, why in (
        (alike, promise(1), "nothing to choose"),
        (table, delta, "pure guarantee; ask for delta 0"),
        (table, promise("1e-13"), "epsilon is too small"),
        (TABLES["any scores of two variables"], promise(1), "over its own network"),
    ):
        with pytest.raises(dc.InputError, match=why):
            dc.release(dc.research.scored(score), counts, prior, asked, account=account)
    joined = counts_of(PAIR, [(0, 0)])
    unjoined = dc.results.Counts(joined.tables, joined.policy)
    with pytest.raises(dc.InputError, match="no table that was counted holds"):
        dc.release(
            dc.research.scored(TABLES["any scores of two variables"]),
            unjoined,
            dc.Dirichlet.uniform(PAIR),
            promise(1),
            account=account,
        )
    assert account.charges() == ()


# ------------------------------------------------------------------------------------------------------------ documents


@every("name", TABLES)
@every("relation", [ADD_REMOVE, REPLACE])
def test_a_release_reads_back_as_itself(name: str, relation: dc.Relation) -> None:
    table = TABLES[name]
    counts = counts_of(table.network, [tuple(0 for _ in table.network.nodes)] * 4)
    release = dc.simulate(
        dc.research.scored(table, 2),
        counts,
        dc.Dirichlet.uniform(table.network),
        promise(1, relation),
        rng=np.random.default_rng(0),
    )
    again = dc.Release.loads(release.dumps())
    assert again.dumps() == release.dumps()
    assert np.array_equal(again.payload.chosen, release.payload.chosen)
    assert again.payload.table_of_scores.steps.tolist() == table.steps.tolist()


def test_a_family_is_written_by_its_parameters() -> None:
    family = dc.research.Family("exponential", (dc.Variable.binned("x", (0, 4), 64),), {"low": 0.25, "high": 4})
    counts = dc.tools.count_codes(family.network, {"x": np.arange(64) // 2}, scopes=())
    release = dc.simulate(
        dc.research.sampled(family),
        counts,
        dc.Dirichlet.uniform(family.network),
        promise(),
        rng=np.random.default_rng(0),
    )
    assert len(release.dumps()) < 4000
    again = dc.Release.loads(release.dumps()).payload.table_of_scores
    assert np.array_equal(again.steps, family.table.steps)


def test_a_likelihood_that_is_clamped_spans_its_bound() -> None:
    logs = np.log([[0.9, 0.5, 0.1], [0.1, 0.5, 0.9]])
    table = likelihood_table(COIN, ("p",), np.array([[1.0], [2.0], [3.0]]), np.zeros(3), logs, (1.0, None))
    assert table.span == 1.0
    assert table.steps[0].tolist() == [SCORE_STEPS, round((1 + math.log(5 / 9)) * SCORE_STEPS), 0]
