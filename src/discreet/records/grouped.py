"""Grouped counts: how many records have each combination of states of some variables, found by the engine.

A column of identifiers would make millions of groups: each set of variables has a limit of its own, behind which an
engine stops, so that they never reach this process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from discreet.model.schema import Scope, Variable
from discreet.records.dialects import engine_of
from discreet.records.records import Records, codes, decode, grouping
from discreet.records.sources import arrow
from discreet.records.units import STEPS, amount
from discreet.util.arrays import Array

AT_ONCE = (
    "athena",
    "bigquery",
    "clickhouse",
    "databricks",
    "mssql",
    "mysql",
    "postgres",
    "pyspark",
    "snowflake",
    "trino",
)
"""Engines that are asked for all sets at once: others may write between two requests, and a job costs seconds."""

Joint = tuple[Array, frozenset[str]]
"""int64 counts, axes as the scope names them; and the variables whose columns hold what is no state, for which the
counts are not made."""
Key = Callable[[Records, Variable], ir.Column]


def grouped_joints(records: Records, scopes: Sequence[Scope]) -> Iterator[Joint]:
    """Count joint tables of sets of variables by the engine.

    Args:
        records: those that count.
        scopes: names of variables of their schema.

    Returns:
        One for each scope, in their order; those of an engine that others may write to are of one statement, which sees
        one state of the table. Only a scope whose states are written in more ways than it has cells is asked for again.

    Raises:
        InputError: the records cannot be read.
    """
    at_once = engine_of(records.table) in AT_ONCE
    found = (
        iter(_request_together(records, scopes))
        if at_once
        else (arrow(_request_groups(records, scope)) for scope in scopes)
    )
    for scope, rows in zip(scopes, found, strict=True):
        yield _make_joint(records, scope, rows)


def _count_most_groups(variables: Sequence[Variable]) -> int:
    """Count the groups that valid records can make, with one code more in each column for values that are missing."""
    return math.prod(variable.size + 1 for variable in variables)


def _find_variables(records: Records, scope: Scope) -> list[Variable]:
    """Find the variables that a scope names."""
    return [records.schema[name] for name in scope]


def _request_groups(records: Records, scope: Scope, key: Key = grouping) -> ir.Table:
    """Request the records of each group: `k0`, `k1`, ... for the variables, and `n`; not all, if there are too many."""
    # Of its own columns alone: what several scopes share PostgreSQL would write down whole before it groups.
    table = records.table.select(*scope, *(name for name in records.table.columns if name == STEPS))
    variables, narrow = _find_variables(records, scope), replace(records, table=table)
    keys = {f"k{at}": key(narrow, variable) for at, variable in enumerate(variables)}
    return table.group_by(**keys).aggregate(n=amount(table)).limit(_count_most_groups(variables) + 1)


def _request_together(records: Records, scopes: Sequence[Scope]) -> list[pa.Table]:
    """Groups of each scope from one request to the engine: keys as text, with NULL behind the last of a scope."""
    found = arrow(together(records, scopes))
    return [found.filter(pc.equal(found["part"], part)) for part in range(len(scopes))]


def together(records: Records, scopes: Sequence[Scope]) -> ir.Table:
    """Write one request for all scopes: plain group-bys, one after another, each with its own limit."""
    parts, width = [], max(map(len, scopes))
    for part, scope in enumerate(scopes):
        one = _request_groups(records, scope)
        keys = {f"k{at}": one[f"k{at}"].cast("string") for at in range(len(scope))}
        rest = {f"k{at}": ibis.null("string") for at in range(len(scope), width)}
        parts.append(one.select(part=ibis.literal(part, "int32"), **keys, **rest, n=one["n"].cast("int64")))
    return ibis.union(*parts) if len(parts) > 1 else parts[0]


def _make_joint(records: Records, scope: Scope, rows: pa.Table) -> Joint:
    """Make the counts over a scope from its groups."""
    variables = _find_variables(records, scope)
    coded = [key.type().is_integer() for key in (grouping(records, variable) for variable in variables)]

    def decoded(rows: pa.Table, coded: Sequence[bool]) -> list[Array]:
        columns = [rows[f"k{at}"].cast(pa.int64()) if code else rows[f"k{at}"] for at, code in enumerate(coded)]
        return [decode(column, variable) for column, variable in zip(columns, variables, strict=True)]

    found = decoded(rows, coded)
    if len(rows) > _count_most_groups(variables) and all(position.min() >= 0 for position in found):
        # Only states, in more spellings than there are states: their codes have one each.
        rows = arrow(_request_groups(records, scope, codes))
        found = decoded(rows, [True] * len(variables))
    faulty = frozenset(name for name, position in zip(scope, found, strict=True) if np.any(position < 0))
    table = np.zeros(tuple(variable.size for variable in variables), np.int64)
    if not faulty:
        np.add.at(table, tuple(found), rows["n"].to_numpy().astype(np.int64))
    return table, faulty
