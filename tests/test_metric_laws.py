"""Laws of releases under a metric, enumerated at every distance: several values, records and draws at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import log_softmax

import discreet as dc
from discreet.releases.metric_unit import attribute_units, distance_of
from discreet.research.mechanisms.likely_parameters import largest_shares
from discreet.research.scores.distances import MOST_UNITS, units_between
from discreet.research.scores.score_tables import SCORE_STEPS
from folding import every
from tiny import counts_of

Record = tuple[int, ...]
BITS = tuple(dc.Variable(name, ("no", "yes")) for name in "abc")
STAR = dc.Network(BITS, {"a": (), "b": ("a",), "c": ("a",)})
CHAIN = dc.Network(BITS[:2], {"a": (), "b": ("a",)})
COIN = dc.Network.empty([dc.Variable("c", ("no", "yes"))])


def promise(unit: str, epsilon: object = 1, delta: object = 0, relation: str = "metric") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)


def passed(law: Any, other: Any, epsilon: float) -> float:
    """Delta of one law beside another, by its definition."""
    return float(np.maximum(np.exp(law) - math.exp(epsilon) * np.exp(other), 0).sum())


def joint(laws: Sequence[Any]) -> Any:
    """Log probabilities of independent draws, each by its own law."""
    total = np.zeros(1)
    for law in laws:
        total = np.add.outer(total, law).ravel()
    return total


def pairs(network: dc.Network, unit: str, size: int) -> Iterator[tuple[tuple[Record, ...], tuple[Record, ...], int]]:
    """All pairs of data sets of a size, with the units between them: those of the nearest way to match records."""
    asked = promise(unit)
    units = attribute_units(network, asked.unit_amount, distance_of(asked))
    kinds = list(product(*(range(variable.size) for variable in network.variables)))

    def apart(one: Record, other: Record) -> int:
        return sum(units[node] for node, a, b in zip(network.nodes, one, other, strict=True) if a != b)

    sets = list(combinations_with_replacement(kinds, size))
    for one, other in product(sets, repeat=2):
        if one != other:
            ways = (sum(map(apart, one, order)) for order in permutations(other))
            yield one, other, min(ways)


# ------------------------------------------------------------------------------------------------------ what a unit is


@every(
    "unit",
    [
        "1 cm By length",
        "1 cm BY LENGTH",
        "1 cm (by length)",
        "1 cm by the length",
        "1 value By Arcs",
        "1 by by length.",
    ],
)
def test_a_unit_that_reads_as_if_of_a_distance_is_refused(unit: str) -> None:
    """Taken for a sum of numbers, "1 value By Arcs" would promise epsilon for a change by 1 and not for one value."""
    numbers = dc.research.Family("exponential", (dc.Variable.binned("x", (0, 9), 3),), {"low": 0.1, "high": 2}, 9)
    account = dc.Ledger("sqlite://").open("a", promise(unit, 9))
    counts, prior = counts_of(numbers.network, [(0,), (2,)]), dc.Dirichlet.uniform(numbers.network)
    with pytest.raises(dc.InputError, match="a unit may end in by arcs, attributes, length, moments, and not in"):
        dc.release(dc.research.sampled(numbers), counts, prior, promise(unit), account=account)
    assert account.charges() == ()
    assert distance_of(promise("1 minute of stand-by time")) == ""


def test_an_amount_has_digits_that_are_read_as_they_look() -> None:
    for amount in ("1\u0660", "\u0661", "1" * 5000):
        with pytest.raises(dc.InputError, match="an amount and the quantity that changes"):
            promise(f"{amount} mm of x")


@every("distance", ["in x", "by length", "by moments"])
def test_amounts_below_all_use_are_far_and_never_near(distance: str) -> None:
    line = dc.Network.empty([dc.Variable.binned("x", (0, 6), 3)])
    (first, *_) = units_between(line, Fraction(1, 10**30), "" if distance == "in x" else distance.split()[1])
    assert first.tolist() == [1, MOST_UNITS]


def test_numbers_that_are_clipped_are_refused_where_they_come_further_apart() -> None:
    """-3 and 3 are 12 apart by moments; on the bounds -1 and 3 they are 16 apart, and cost a third more."""
    network = dc.Network.empty([dc.Variable.binned("x", (-1, 3), 64)])
    prior, unit = dc.Dirichlet.uniform(network), "4 by moments"

    def near(types: Any, z: Any) -> Any:
        return (abs(types["x"] ** 2 - 1) + 2 * abs(types["x"] + 1))[:, None] * z[:, 0]

    score = dc.research.own_score(network, near, [0, 1], low=0, high=16)
    noise = dc.research.scored(score).calibrate(network, prior, promise(unit, "0.1"))
    records = dc.read_records(pa.table({"x": [-3.0, 3.0]}), network.schema, out_of_bounds="clip")
    ends = np.flatnonzero(dc.count(records, network).tables["x"])
    laws = log_softmax([[0, 9]] + noise.rate / SCORE_STEPS * score.steps[ends], axis=1)
    assert np.abs(laws[0] - laws[1]).max() > 1.15 * 0.1 * math.ceil((abs(9 - 9) + 2 * 6) / 4)
    account = dc.Ledger("sqlite://").open("a", promise(unit, 9))
    with pytest.raises(dc.InputError, match="by moments, numbers that are moved to their bounds may be further apart"):
        dc.release(dc.research.scored(score), dc.count(records, network), prior, promise(unit), account=account)
    assert account.charges() == ()
    for kept in ("1 cm by length", "1 cm of x"):
        counts = dc.count(records, network)
        assert dc.simulate(dc.research.scored(score), counts, prior, promise(kept), rng=1).guarantee.unit == kept


# -------------------------------------------------------------------------------------- several values and records


@every("unit", ["1 attribute by arcs", "1 attribute by attributes", "2 attributes by arcs", "0.3 attribute by arcs"])
def test_tables_cost_their_units_for_all_pairs_of_two_records(unit: str) -> None:
    """In exact numbers: what each table moves by, over the scale of its noise."""
    for network in (STAR, CHAIN):
        noise = dc.laplace().calibrate(network, dc.Dirichlet.uniform(network), promise(unit, "0.7"))
        worst = Fraction()
        for one, other, units in pairs(network, unit, 2):
            first, second = counts_of(network, one).tables, counts_of(network, other).tables
            moved = {node: int(np.abs(first[node] - second[node]).sum()) for node in noise.scales}
            cost = sum(Fraction(moved[node]) / Fraction(scale) for node, scale in noise.scales.items())
            worst = max(worst, cost / units)
        assert Fraction("0.7") * (1 - Fraction(1, 10**6)) < worst <= Fraction("0.7")


@every(("epsilon", "delta"), [("0.05", "0.3"), ("1", "0.1"), ("5", "0.02")])
def test_rows_keep_their_delta_where_several_values_and_records_change(epsilon: str, delta: str) -> None:
    """The whole law of a draw of three rows, on a coarser grid, beside no records and beside forty."""
    unit = "1 attribute by arcs"
    asked, prior = promise(unit, epsilon, delta), dc.Dirichlet.uniform(CHAIN)
    made = dc.research.posterior_sampler(floor=0.2).calibrate(CHAIN, prior, asked)
    theta = made.floors["a"] + (1 - 2 * made.floors["a"]) * np.arange(7) / 6
    logs = np.log([theta, 1 - theta])

    def law(records: Sequence[Record]) -> Any:
        tables = counts_of(CHAIN, records).tables
        rows = np.concatenate([tables["a"][None], tables["b"]])
        return joint([log_softmax(made.temper * row @ logs) for row in rows])

    worst = 0.0
    for rest in ((), ((0, 0), (1, 1)) * 20, ((0, 0),) * 40):
        for one, other, units in pairs(CHAIN, unit, 2):
            found = passed(law((*rest, *one)), law((*rest, *other)), float(epsilon) * units)
            worst = max(worst, found / (float(delta) * units))
    assert worst <= 1
    assert worst > 0.3 or epsilon != "0.05"


@every(("draws", "epsilon", "delta"), [(1, "0.01", "0.3"), (1, "0.5", "0.01"), (2, "0.5", "0.01")])
def test_draws_by_the_prior_keep_their_delta_at_every_distance(draws: int, epsilon: str, delta: str) -> None:
    """All pairs of data sets of up to forty flips, at up to forty units; steep candidates have little of the prior."""
    asked = promise("1 value by attributes", epsilon, delta)
    coin = dc.research.own_family(
        COIN,
        lambda types, z: np.log(np.where(types["c"][:, None] == "no", z[:, 0], 1 - z[:, 0])),
        [0.5, 0.999999, 1e-9, 0.3],
        prior=[1, 1e-5, 1e-12, 0.1],
    )
    prior, mechanism = dc.Dirichlet.uniform(COIN), dc.research.sampled(coin, draws, records=40)
    nats = mechanism.calibrate(COIN, prior, asked).rate / SCORE_STEPS * coin.steps
    worst = 0.0
    for records in (1, 2, 7, 40):
        laws = [
            joint([log_softmax(coin.base + at * nats[0] + (records - at) * nats[1])] * draws)
            for at in range(records + 1)
        ]
        for one, other in product(range(records + 1), repeat=2):
            if one != other:
                units = abs(one - other)
                found = passed(laws[one], laws[other], float(epsilon) * units)
                worst = max(worst, found / (float(delta) * units))
    assert 0.3 < worst <= 1
    assert worst > 0.8 or epsilon != "0.5"


# ----------------------------------------------------------------------------------------------------- floats, words


@every("records", [10**9, 10**15, 10**18])
def test_no_number_of_records_makes_a_share_look_smaller_than_it_is(records: int) -> None:
    """Sums of so many log-likelihoods cancel in floats: by 25,000 nats for the prior's own shares, at 1e18 records."""
    wait = dc.Variable.binned("wait", (0, 60), 60)
    table = dc.research.Family(
        "exponential", (wait,), {"low": 0.02, "high": 5, "rate": 300, "shape": 2}, points=200
    ).table
    base, nats = log_softmax(table.base), table.span / SCORE_STEPS * table.steps
    bounds = largest_shares(base, nats, records, np.arange(table.size), 1e-3)
    for data in (np.zeros(60), np.eye(60)[0] * 20, np.eye(60)[3] * 1000, np.eye(60)[0] * 1e4):
        assert np.all(log_softmax(base + data @ nats) <= bounds)


def test_an_explanation_of_a_delta_claims_no_bound_on_how_often_odds_move() -> None:
    """By .3 nats and not .1 they move in more than half of the draws, at a delta of .05 and one unit."""
    coin = dc.research.own_family(
        COIN, lambda t, z: np.log(np.where(t["c"][:, None] == "no", z[:, 0], 1 - z[:, 0])), [0.2, 0.8]
    )
    asked, prior = promise("1 value by attributes", "0.1", "0.05"), dc.Dirichlet.uniform(COIN)
    release = dc.simulate(dc.research.sampled(coin), counts_of(COIN, [(0,)] * 3), prior, asked, rng=1)
    laws = log_softmax(coin.base + release.payload.rate / SCORE_STEPS * coin.steps, axis=1)
    law, other = laws
    assert np.exp(law)[law - other > 0.1 + 1e-6].sum() > 0.5 > 0.05 > passed(law, other, 0.1)
    told = str(dc.explain(release, rng=1)) + dc.report(release, rng=1)
    assert "as if with probability 0.05 anything may be told" in told and "which it reveals everything" in told
    assert "but for a chance of 0.05." not in told and "factors hold but" not in told


@every("mechanism", ["posterior_sampler", "map_estimate"])
def test_rows_of_more_records_than_floats_hold_are_refused_before_a_charge(mechanism: str) -> None:
    """Of 2^53 records the logarithms of two rows may be off by 5e-5, and 1e-7 is reserved for them."""
    asked, network = promise("record", 9, relation="replace"), CHAIN
    tables = dc.Tables(network, {"a": np.array([10**9, 1]), "b": np.array([[10**9, 0], [0, 1]])})
    counts = dc.results.Counts(tables, counts_of(network, [(0, 0)]).policy)
    account = dc.Ledger("sqlite://").open("a", asked)
    with pytest.raises(dc.InputError, match=r"the records weigh more than 1e\+09"):
        made = getattr(dc.research, mechanism)()
        dc.release(
            made, counts, dc.Dirichlet.uniform(network), promise("record", 1, relation="replace"), account=account
        )
    assert account.charges() == ()
