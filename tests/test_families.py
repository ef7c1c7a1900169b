"""Families that lie in others are not measured: which those are, how they are read, and what the rest costs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.util.arrays import margin
from folding import every
from networks import asia, theta_of
from strategies import networks
from tiny import TINY, Record, all_records, counts_of, network_of

NESTED = network_of({"a": 2, "b": 3, "c": 2, "d": 2}, "a>b a>c b>c c>d")
"""The families of a and b lie in that of c; that of d does not."""


def maximal(network: dc.Network) -> tuple[str, ...]:
    """Slow and obvious: compare every family with every other."""
    families = {node: {node, *network.parents[node]} for node in network.nodes}
    kept = []
    for node in network.nodes:
        inside = [other for other in network.nodes if other != node and families[node] <= families[other]]
        if not inside:
            kept.append(node)
    return tuple(kept)


def payload_of(network: dc.Network, measured: list[str], seed: int = 0) -> dc.kinds.NoisyCounts:
    rng = np.random.default_rng(seed)
    tables = {node: rng.integers(-9, 30, network.shape(node)) for node in measured}
    return dc.kinds.NoisyCounts(network, tables, {node: 1.0 + k for k, node in enumerate(measured)})


def summed(network: dc.Network, node: str, source: str, table: np.ndarray) -> np.ndarray:
    """A family's table from a larger one, cell by cell."""
    found = np.zeros(network.shape(node), np.int64)
    scope = network.family(source)
    for codes in np.ndindex(*table.shape):
        state = dict(zip(scope, codes, strict=True))
        found[tuple(state[name] for name in network.family(node))] += table[codes]
    return found


# ------------------------------------------------------------------------------------------------------ which families


@given(networks())
def test_maximal_families_are_those_in_no_other(network: dc.Network) -> None:
    families = [frozenset(network.family(node)) for node in network.nodes]
    assert len(set(families)) == len(families)
    assert network.maximal_families == maximal(network)
    covered = [set(network.family(node)) for node in network.maximal_families]
    assert covered and all(any(family <= cover for cover in covered) for family in families)


def test_known_families() -> None:
    assert NESTED.maximal_families == ("c", "d")
    assert TINY["complete, three states"].maximal_families == ("c",)
    features = {f"x{k}": 3 for k in range(5)}
    bayes = network_of({"y": 2, **features}, " ".join(f"y>{name}" for name in features))
    assert bayes.maximal_families == tuple(features)  # 2d tables of cost instead of 2(d + 1)
    assert asia().network.maximal_families == tuple(
        node for node in asia().network.nodes if node not in ("asia", "smoke")
    )


@every(("name", "most"), [("child", 18), ("alarm", 25)])
def test_real_networks_measure_fewer_tables(name: str, most: int) -> None:
    network = theta_of(name).network
    assert network.maximal_families == maximal(network)
    assert len(network.maximal_families) == most < len(network.nodes)


# -------------------------------------------------------------------------------------------------- how they are read


@given(networks(), st.data())
def test_a_family_is_read_from_the_smallest_table_that_holds_it(network: dc.Network, data: st.DataObject) -> None:
    others = [node for node in network.nodes if node not in network.maximal_families]
    more = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    measured = [node for node in network.nodes if node in network.maximal_families or node in more]
    payload = payload_of(network, measured)
    for node in network.nodes:
        source = payload.source(node)
        holders = [other for other in measured if set(network.family(node)) <= set(network.family(other))]
        assert source in holders
        if node in measured:
            assert source == node and payload.terms(node) == 1
            assert np.array_equal(payload.table(node), payload.tables[node])
        assert payload.tables[source].size == min(payload.tables[other].size for other in holders) or source == node
        assert np.array_equal(payload.table(node), summed(network, node, source, payload.tables[source]))
        assert payload.table(node).shape == network.shape(node)
        left_out = set(network.family(source)) - set(network.family(node))
        assert payload.terms(node) == math.prod(network.schema[name].size for name in left_out)


@given(networks())
def test_a_margin_of_floats_is_the_same_sum(network: dc.Network) -> None:
    payload = payload_of(network, list(network.maximal_families))
    for node in network.nodes:
        source = payload.source(node)
        held = payload.tables[source]
        found = margin(held / 4, network.family(source), network.family(node))
        assert np.array_equal(found, summed(network, node, source, held) / 4)


def test_counts_without_noise_are_read_back_whole() -> None:
    """Axes of a family and of the table that holds it stand in different orders."""
    network = dc.Network(
        tuple(dc.Variable(name, tuple("0123"[:size])) for name, size in (("a", 2), ("b", 3), ("c", 4), ("d", 2))),
        {"a": (), "b": ("a",), "c": ("b", "a"), "d": ("c", "a", "b")},
    )
    rng = np.random.default_rng(1)
    records = [tuple(int(rng.integers(variable.size)) for variable in network.variables) for _ in range(200)]
    counts = counts_of(network, records)
    payload = dc.kinds.NoisyCounts(network, {"d": counts.tables["d"]}, {"d": 1.0})
    for node in network.nodes:
        assert np.array_equal(payload.table(node), counts.tables[node])
    assert [payload.terms(node) for node in network.nodes] == [24, 8, 2, 1]


TABLES = {"c": np.zeros((2, 3, 2), np.int64), "d": np.zeros((2, 2), np.int64)}
SCALES = {"c": 1.0, "d": 1.0}


@every(
    ("tables", "scales", "why"),
    [
        ({"c": TABLES["c"]}, {"c": 1.0}, "table of every family that lies in no other"),
        ({**TABLES, "x": TABLES["d"]}, {**SCALES, "x": 1.0}, "of no other node"),
        (TABLES, {"c": 1.0}, "one noise scale for every table"),
        (TABLES, {**SCALES, "a": 1.0}, "one noise scale for every table"),
        (TABLES, {**SCALES, "d": 0.0}, "positive noise scale below"),
        (TABLES, {**SCALES, "d": math.nan}, "positive noise scale below"),
        (TABLES, {**SCALES, "d": math.inf}, "positive noise scale below"),
        (TABLES, {**SCALES, "d": 2.0**63}, "positive noise scale below"),
        ({**TABLES, "d": np.zeros((2, 2))}, SCALES, "'d' must be 64-bit integers in the shape of its family"),
        ({**TABLES, "d": np.zeros((2, 3), np.int64)}, SCALES, "'d' must be 64-bit integers in the shape of its family"),
    ],
)  # fmt: skip
def test_counts_that_inference_could_not_read_are_refused(
    tables: dict[str, np.ndarray], scales: dict[str, float], why: str
) -> None:
    with pytest.raises(dc.InputError, match=why):
        dc.kinds.NoisyCounts(NESTED, tables, scales)


def test_noisy_counts_cannot_be_changed() -> None:
    mine = {node: table.copy() for node, table in TABLES.items()}
    payload = dc.kinds.NoisyCounts(NESTED, mine, SCALES)
    mine["c"][0, 0, 0] = 7
    assert payload.tables["c"][0, 0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        payload.tables["c"][0, 0, 0] = 7


# -------------------------------------------------------------------------------------------------------- what it costs


def moved(network: dc.Network, one: list[Record], other: list[Record]) -> np.ndarray:
    """Differences of all cells of the measured tables."""
    pair = [counts_of(network, records).tables for records in (one, other)]
    return np.concatenate([(pair[0][node] - pair[1][node]).ravel() for node in network.maximal_families])


@given(networks(), st.sampled_from(dc.tools.RECORD_RELATIONS), st.data())
def test_one_record_moves_the_measured_tables_by_no_more_than_is_charged(
    network: dc.Network, relation: dc.Relation, data: st.DataObject
) -> None:
    record = st.tuples(*(st.integers(0, variable.size - 1) for variable in network.variables))
    rest = data.draw(st.lists(record, max_size=8))
    one = [*rest, data.draw(record)]
    other = [*rest, data.draw(record)] if relation is dc.Relation.REPLACE else rest
    tables, most = len(network.maximal_families), 2 if relation is dc.Relation.REPLACE else 1
    change = moved(network, one, other)
    assert np.abs(change).sum() <= most * tables
    assert (change**2).sum() <= most * tables
    if relation is dc.Relation.ADD_REMOVE:
        assert np.abs(change).sum() == tables


@every("network", [*TINY.values(), NESTED], ids=[*TINY, "nested"])
def test_the_cost_is_attained(network: dc.Network) -> None:
    first, last = all_records(network)[0], all_records(network)[-1]
    tables = len(network.maximal_families)
    assert np.abs(moved(network, [first], [])).sum() == tables
    assert np.abs(moved(network, [first], [last])).sum() == 2 * tables
    assert (moved(network, [first], [last]) ** 2).sum() == 2 * tables


@every("relation", dc.tools.RECORD_RELATIONS)
@given(network=networks(), epsilon=st.fractions(Fraction(1, 1000), 20, max_denominator=1000))
def test_mechanisms_charge_for_the_measured_tables_alone(
    relation: dc.Relation, network: dc.Network, epsilon: Fraction
) -> None:
    tables, most = len(network.maximal_families), 2 if relation is dc.Relation.REPLACE else 1
    prior = dc.Dirichlet.uniform(network)
    pure = dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")
    noise = dc.laplace().calibrate(network, prior, pure)
    assert set(noise.scales) == set(network.maximal_families)
    for node in network.maximal_families:
        assert Fraction(noise.scales[node]) >= most * tables / epsilon
        assert noise.scales[node] == pytest.approx(float(most * tables / epsilon), rel=1e-12)
    assert noise.total <= epsilon


@every("relation", dc.tools.RECORD_RELATIONS)
def test_gaussian_noise_charges_for_the_root_of_the_measured_tables(relation: dc.Relation) -> None:
    promise = dc.Guarantee(epsilon=1, delta="1e-6", relation=relation, unit="record")
    found = dc.gaussian().calibrate(NESTED, dc.Dirichlet.uniform(NESTED), promise)
    assert found.squared_sensitivity == (4 if relation is dc.Relation.REPLACE else 2)
    assert found.rho >= Fraction(found.squared_sensitivity) / (2 * Fraction(found.scale) ** 2)
