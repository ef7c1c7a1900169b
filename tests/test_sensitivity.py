"""One record moves the counts by no more than the sensitivity says, however it is added, replaced or incomplete."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.records.count_sensitivity import Sensitivity, cells_moved
from folding import every
from sources import PEER_WARNINGS
from strategies import networks
from tiny import TINY, Record, all_records, counts_of, network_of

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE


def distance(one: dc.results.Counts, other: dc.results.Counts) -> Sensitivity:
    """L1 and L2 distance over all tables together."""
    moved = np.concatenate([(one.tables[node] - other.tables[node]).ravel() for node in one.network.nodes])
    return Sensitivity(float(np.abs(moved).sum()), math.sqrt(float((moved**2).sum())))


@st.composite
def neighbouring(draw: st.DrawFn, network: dc.Network, relation: dc.Relation) -> tuple[list[Record], list[Record]]:
    """Two neighbouring data sets of up to 20 records, in any order."""
    record = st.tuples(*(st.integers(0, variable.size - 1) for variable in network.variables))
    rest = draw(st.lists(record, max_size=19))
    one = draw(st.permutations([*rest, draw(record)]))
    return one, ([*rest, draw(record)] if relation is REPLACE else rest)


@every("relation", dc.tools.RECORD_RELATIONS)
@given(data=st.data())
def test_neighbours_are_no_further_apart_than_the_sensitivity(relation: dc.Relation, data: st.DataObject) -> None:
    network = data.draw(networks())
    one, other = (counts_of(network, records) for records in data.draw(neighbouring(network, relation)))
    bound, found = dc.tools.sensitivity(network, relation), distance(one, other)
    assert one.sensitivity(relation) == bound
    assert found.l1 <= bound.l1
    assert found.l2 <= bound.l2
    for node in network.nodes:
        assert np.abs(one.tables[node] - other.tables[node]).sum() <= cells_moved(relation)
    if relation is ADD_REMOVE:
        assert found == bound  # a record is in exactly one cell of each table


@every("network", TINY.values(), ids=TINY)
def test_the_sensitivity_is_reached(network: dc.Network) -> None:
    first, last = all_records(network)[0], all_records(network)[-1]
    assert distance(counts_of(network, [first]), counts_of(network, [])) == dc.tools.sensitivity(network, ADD_REMOVE)
    assert distance(counts_of(network, [first]), counts_of(network, [last])) == dc.tools.sensitivity(network, REPLACE)


def test_the_formula() -> None:
    network = network_of({"a": 2, "b": 1, "c": 3}, "a>c b>c")
    assert dc.tools.sensitivity(network, ADD_REMOVE) == Sensitivity(3.0, math.sqrt(3))
    assert dc.tools.sensitivity(network, REPLACE) == Sensitivity(6.0, math.sqrt(6))
    with pytest.raises(TypeError, match="relation"):
        dc.tools.sensitivity(network)


def test_a_smaller_bound_would_be_seen() -> None:
    """The planted bug: the sensitivity of ADD_REMOVE under REPLACE."""
    network = TINY["chain"]
    found = distance(counts_of(network, [(0, 0, 0)]), counts_of(network, [(1, 1, 1)]))
    assert found.l1 > dc.tools.sensitivity(network, ADD_REMOVE).l1
    assert found.l2 > dc.tools.sensitivity(network, ADD_REMOVE).l2


# ------------------------------------------------------------------------------------- through the real way of counting

STATES = {"a": ("no", "yes"), "b": ("low", "mid", "high"), "c": ("no", "yes")}
NETWORK = dc.Network(
    tuple(dc.Variable(name, states) for name, states in STATES.items()), {"a": (), "b": ("a",), "c": ("a", "b")}
)
ROW = st.tuples(*(st.sampled_from((*states, None)) for states in STATES.values()))


def counted(rows: list[tuple[str | None, ...]], missing: str) -> dc.results.Counts:
    columns = {name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(STATES)}
    return dc.count(dc.read_records(pa.table(columns), NETWORK.schema, missing=missing), NETWORK)


@PEER_WARNINGS
@settings(max_examples=10)
@given(rest=st.lists(ROW, max_size=6), row=ROW)
def test_dropping_incomplete_records_keeps_the_add_remove_sensitivity(
    rest: list[tuple[str | None, ...]], row: tuple[str | None, ...]
) -> None:
    found = distance(counted([*rest, row], "drop"), counted(rest, "drop"))
    bound = dc.tools.sensitivity(NETWORK, ADD_REMOVE)
    assert found == (Sensitivity(0.0, 0.0) if None in row else bound)


@PEER_WARNINGS
@settings(max_examples=10)
@given(data=st.data())
def test_counting_a_table_agrees_with_counting_by_hand(data: st.DataObject) -> None:
    one, other = data.draw(neighbouring(NETWORK, REPLACE))
    both = []
    for records in (one, other):
        rows = [tuple(STATES[name][code] for name, code in zip(STATES, record, strict=True)) for record in records]
        both.append(counted(rows, "error"))
        by_hand = counts_of(NETWORK, records)
        assert all(np.array_equal(both[-1].tables[node], by_hand.tables[node]) for node in NETWORK.nodes)
    assert distance(*both).l1 <= dc.tools.sensitivity(NETWORK, REPLACE).l1


@PEER_WARNINGS
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_collation_cannot_make_one_record_decide_for_others(kind: str, tmp_path: Path) -> None:
    """Where `p` and `P` are equal to the database, they are two states all the same, and anything else is neither."""
    network = dc.Network((dc.Variable("x", ("p", "P")), dc.Variable("y", ("0", "1"))), {"x": (), "y": ("x",)})

    def counted(name: str, rows: list[tuple[str, str]], **options: str) -> dict[str, list[int]]:
        base = sqlite3.connect(tmp_path / name) if kind == "sqlite" else duckdb.connect(tmp_path / name)
        base.execute("CREATE TABLE t (x VARCHAR COLLATE NOCASE, y VARCHAR)")
        base.executemany("INSERT INTO t VALUES (?, ?)", rows)
        if kind == "sqlite":
            base.commit()
        base.close()
        records = dc.read_records(f"{kind}:///{tmp_path / name}", network.schema, table="t", **options)
        return {node: table.ravel().tolist() for node, table in dc.count(records, network).tables.items()}

    many = [("p", "0")] * 50
    assert counted("a", many) == {"x": [50, 0], "y": [50, 0, 0, 0]}
    assert counted("b", [("P", "0"), *many]) == {"x": [50, 1], "y": [50, 0, 1, 0]}
    assert counted("c", [("P", "0"), *many], missing="drop") == {"x": [50, 1], "y": [50, 0, 1, 0]}
    with pytest.raises(dc.InputError, match="'y'"):
        counted("d", [("p", "O"), *many])
