"""An engine that writes each record once for each set counts what all others count, and reads its table once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.records import counts as grouped
from discreet.records.counts import Counts, count, stacked
from discreet.records.local_counts import Part
from engines import on_file
from sources import refusal
from test_number_sums import MISSING, NETWORK, table_of


@pytest.fixture(autouse=True)
def _stack_on_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB counts as Spark does, which needs more than most machines have."""
    monkeypatch.setattr(grouped, "STACKED", ("duckdb",))


def both(table: pa.Table, network: dc.Network, folder: Path, **options: Any) -> tuple[Counts, Counts]:
    """Counts of a table by the engine, and of the same table in memory, or by groups."""
    given = on_file("duckdb", table, folder, False)
    stacks = count(dc.read_records(given["source"], network.schema, table="visits", **options), network)
    other = {"source": table} if "unit_column" not in options else given
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped, "STACKED", ())
        name = {"table": "visits"} if other is given else {}
        return stacks, count(dc.read_records(other["source"], network.schema, **name, **options), network)


def assert_equal(one: Counts, other: Counts) -> None:
    """Equal integers: families, further sets, sums and leaves."""
    assert all(np.array_equal(one.tables[node], other.tables[node]) for node in one.network.nodes)
    assert one.joints.keys() == other.joints.keys()
    assert all(np.array_equal(one.joints[scope], other.joints[scope]) for scope in one.joints)
    assert one.sums is not None and other.sums is not None
    assert one.sums.cells.keys() == other.sums.cells.keys()
    assert all(np.array_equal(one.sums.cells[key], other.sums.cells[key]) for key in one.sums.cells)
    assert all(np.array_equal(one.sums.leaves[name], other.sums.leaves[name]) for name in one.sums.leaves)


@pytest.mark.parametrize("seed", range(3))
def test_counts_and_sums_are_those_of_memory(seed: int, tmp_path: Path) -> None:
    assert_equal(*both(table_of(seed, 400), NETWORK, tmp_path))


@pytest.mark.parametrize("missing", ["keep", "drop"])
def test_gaps_and_numbers_out_of_bounds_are_those_of_memory(missing: str, tmp_path: Path) -> None:
    network = MISSING if missing == "keep" else NETWORK
    table = table_of(7, 300, gaps=True, outside=True)
    assert_equal(*both(table, network, tmp_path, missing=missing, out_of_bounds="clip"))


@pytest.mark.parametrize("weights", ["record", "unit"])
def test_units_are_those_of_groups(weights: str, tmp_path: Path) -> None:
    """Of one record or two each, so that no record is left out by chance."""
    table = table_of(5, 300).append_column("who", pa.array([f"p{at % 200}" for at in range(300)]))
    options = {"unit_column": "who", "max_records": 2, "weights": weights}
    assert_equal(*both(table, NETWORK, tmp_path, **options))


def test_no_record_is_counted_as_none(tmp_path: Path) -> None:
    stacks, other = both(table_of(1, 0), NETWORK, tmp_path)
    assert_equal(stacks, other)
    assert stacks.records == 0


@pytest.mark.parametrize(
    ("column", "values"),
    [("sex", ["f", "x"]), ("sex", ["f", None]), ("wait", [1.0, 61.0]), ("age", [-1, 3]), ("cost", [math.nan, 2.0])],
)
def test_a_column_that_holds_what_is_no_state_is_named_and_no_other(
    column: str, values: list[Any], tmp_path: Path
) -> None:
    table = table_of(2, 2)
    at = table.schema.get_field_index(column)
    wrong = table.set_column(at, column, pa.array(values, table.schema.field(column).type, from_pandas=False))
    given = on_file("duckdb", wrong, tmp_path, False)
    records = dc.read_records(given["source"], NETWORK.schema, table="visits")
    message = refusal(lambda: count(records, NETWORK), column)
    assert not any(repr(name) in message for name in NETWORK.nodes if name != column)


def test_the_table_is_read_once_whatever_the_number_of_sets(tmp_path: Path) -> None:
    columns = {f"x{at}": ["a", "b"] for at in range(60)}
    variables = tuple(dc.Variable(name, ("a", "b")) for name in columns)
    given = on_file("duckdb", pa.table(columns), tmp_path, False)
    records = dc.read_records(given["source"], dc.Schema(variables), table="visits")
    parts = [Part((f"x{at}", f"x{at + 1}")) for at in range(59)]
    text = str(ibis.to_sql(stacked(records, parts)))
    assert text.count('"visits"') == 1 and text.count("GROUP BY") == 1 and text.count("UNNEST") == 1
