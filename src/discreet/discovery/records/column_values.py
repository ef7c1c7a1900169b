"""Values of columns: how many records have each, and how many numbers lie in cells. Private.

A record adds one to a single value of each column, or to its missing values, and its number to one cell. What a value
is depends on that record alone, so neighbours differ in one count of each look at a column, or in two if a record is
replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np

from discreet.discovery.declared_columns import NUMERIC, SEARCHED, TYPE_BOUNDS, Columns, ColumnType, NamedColumn
from discreet.discovery.number_cells import coarse_edges
from discreet.errors import InputError, listed, require, shown
from discreet.model.schema import SURROGATE
from discreet.records.dialects import TEXT, bytewise, declared, engine_of, is_missing, is_present, number
from discreet.records.records import Records, kept, refuse_faulty, without
from discreet.records.sources import Local, arrow, arrow_blocks, guarded_read, open_source
from discreet.records.text_form import TextForm
from discreet.records.units import STEPS, Unit, amount, check_unit_type
from discreet.records.values import is_number, markers
from discreet.releases.policy import RecordsPolicy
from discreet.util.arrays import Floats, Ints

MOST_VALUES = 2**20
"""Most different values of a column: one with more tells records apart."""
STATE_CHARACTERS = 200
"""Most characters of a value that can be a state; longer ones are free text, and count as other values."""
BLOCK = 2**16
"""Records that are counted at a time."""
KINDS = ("missing", "whole number", "other number", "text")
"""Kinds of a value of a column without a declared type."""
PARSED = (*NUMERIC, SEARCHED[1])
"""Types of columns whose values are read as numbers."""
LISTED = (*SEARCHED, "boolean")
"""Types of columns whose values are listed."""
Recount = Callable[[Mapping[str, Floats]], dict[str, Ints]]


@dataclass(frozen=True, eq=False, repr=False)
class ColumnValues:
    """Private values of columns, counted.

    Args:
        columns: public.
        policy: what was done with missing values and units.
        records: their number, in steps; private under ADD_REMOVE.
        values: of columns of text, logical columns and those without a type, the records of each value.
        missing: by column, the records without a value.
        kinds: of columns without a type, the records of each of `KINDS`; int64, shape (4,).
        numbers: of columns of numbers, and those without a type, the records in each cell of `coarse_edges`.
        again: counts numbers of columns in cells, from their ends: int64, shape (ends + 1,).

    Raises:
        Nothing: `read_values` has checked the records.

    Guarantee:
        None spent: for mechanisms only.

    Example:
        >>> import pyarrow as pa
        >>> import discreet as dc
        >>> visits = pa.table({"age": [30, 40]})
        >>> dc.discovery.read_values(visits, dc.discovery.columns_of(visits))
        ColumnValues(1 columns, private)
    """

    columns: Columns
    policy: RecordsPolicy
    records: int
    values: Mapping[str, Mapping[str, int]]
    missing: Mapping[str, int]
    kinds: Mapping[str, Ints]
    numbers: Mapping[str, Ints]
    again: Recount

    def __repr__(self) -> str:
        """Text without any value of the records."""
        return f"ColumnValues({self.columns.size} columns, private)"

    def __reduce__(self) -> NoReturn:
        """Statistics of private records are never copied or pickled."""
        raise TypeError("values are private and cannot be pickled or copied; read the records again")

    @property
    def over(self) -> Columns:
        """The public columns."""
        return self.columns


def columns_of(
    source: Any,
    *,
    table: str | None = None,
    types: Mapping[str, ColumnType] | None = None,
    leave_out: Iterable[str] = (),
    **form: Any,
) -> Columns:
    """List the columns of a table by name and type; values are looked at for the columns' own names alone.

    Args:
        source, table, form: as of `read_records`.
        types: of columns, in place of those that the table declares, which are taken for public. Those of a frame that
            was made from text, and of a file that was written from it, may depend on a single record. Of
            a type only its kind is read: neither the values of a dictionary, nor the digits of a decimal, nor the bits
            of a number, which a program may have chosen by the records.
        leave_out: names of columns that are not wanted, such as that of the unit.

    Returns:
        The columns; of text the type is "unknown", since a text file has numbers as text.

    Raises:
        InputError: the source cannot be read, a name is none of its columns, a column has a type, such as a date,
            whose domain cannot be found, or, of columns that neither `types` nor `leave_out` has, one has a name
            without a letter, or half of them have their own names among their values: the first line seems to be a
            record.

    Guarantee:
        None spent: names and types alone are kept. The first line of a text file is taken for its names. That it is
        refused tells of the records; the refusal is for the curator, as that of a faulty value is.

    Example:
        >>> import pyarrow as pa
        >>> import discreet as dc
        >>> dc.discovery.columns_of(pa.table({"sex": ["f", "m"], "age": [30, 40]}), types={"sex": "text"})
        Columns(columns=(NamedColumn(name='sex', type='text'), NamedColumn(name='age', type='integer')))
    """
    expression, _, _ = open_source(source, table, form=TextForm(**form))
    declared_types, left = dict(types or {}), {*leave_out}
    for name in (*declared_types, *left):
        require(name in expression.columns, f"the records have no column {shown(name)}")
    unsaid = [name for name in expression.columns if name not in declared_types and name not in left]
    texts = [name for name in unsaid if expression[name].type().is_string()]
    repeats = {f"own{at}": (expression[name] == name).any() for at, name in enumerate(texts)}
    repeated = sum(bool(each[0].as_py()) for each in arrow(expression.aggregate(**repeats)).columns) if repeats else 0
    odd_name = any(is_number(name.strip()) or not any(map(str.isalpha, name)) for name in unsaid)
    require(
        not odd_name and not (repeated and 2 * repeated >= len(unsaid)),
        "columns are called as numbers, without a letter, or as values of their own: the first line seems to be a "
        "record, which would be published; nothing was spent. Write names into a first line; those that are right can "
        "be said to `discreet domain` with their type (--type), or left out (--leave-out)",
    )
    kinds = {name: _type_of(kind) for name, kind in expression.schema().items() if name not in left} | declared_types
    for name, kind in kinds.items():
        require(kind, f"column {shown(name)} holds neither text, numbers nor logical values: leave it out or cast it")
    return Columns(tuple(NamedColumn(name, kinds[name]) for name in expression.columns if name in kinds))


def _type_of(kind: Any) -> Any:
    """Type of a column by that of its table; empty where it is none of ours."""
    if kind.is_string():
        return "unknown"
    if kind.is_boolean():
        return "boolean"
    return "integer" if kind.is_integer() else "number" if kind.is_numeric() else ""


def read_values(
    source: Any,
    columns: Columns,
    *,
    table: str | None = None,
    policy: RecordsPolicy | None = None,
    na_values: Iterable[str] = (),
    **form: Any,
) -> ColumnValues:
    """Count the values of columns of private records.

    Args:
        source, table, na_values, form: as of `read_records`.
        columns: public.
        policy: what is done with missing values and with units that have several records; None refuses missing values,
            and takes each record for a unit.

    Returns:
        The values: private, for mechanisms only.

    Raises:
        InputError: the source cannot be read, a column is not there or cannot have its type, values are missing and the
            policy keeps none, or a column of numbers has other values. No message has a value.

    Guarantee:
        None spent: nothing leaves.

    Example:
        >>> import pyarrow as pa
        >>> import discreet as dc
        >>> visits = pa.table({"sex": ["f", "m"], "age": [30, 40]})
        >>> dc.discovery.read_values(visits, dc.discovery.columns_of(visits))
        ColumnValues(2 columns, private)
    """
    policy = policy or RecordsPolicy("error", "clip")
    records = _open_columns(source, columns, table, policy, na_values, form)
    counted = kept(records, columns.schema)
    _require_types(columns, counted)
    missing, kinds, numbers = _count_numbers(counted, columns)
    absent = [name for name in columns.names if missing[name] and policy.missing == "error"]
    if absent:
        raise InputError(
            f"records have a missing value in column {listed(absent)}: with --missing keep (missing='keep' in Python) "
            "a missing value is a state of its own; --leave-out NAMES leaves columns out; nothing was spent"
        )
    worded = [column.name for column in columns if column.type in TYPE_BOUNDS and kinds[column.name][3]]
    refuse_faulty(worded, records, "text that is no number, though its type is one of numbers,")
    values = {column.name: _list_values(counted, column) for column in columns if column.type in LISTED}
    total = int(arrow(counted.table.aggregate(n=amount(counted.table)))["n"][0].as_py() or 0)

    untyped = {column.name: kinds[column.name] for column in columns if column.type == "unknown"}
    return ColumnValues(columns, policy, total, values, missing, untyped, numbers, partial(_count_in_cells, counted))


def _open_columns(
    source: Any,
    columns: Columns,
    table: str | None,
    policy: RecordsPolicy,
    na_values: Iterable[str],
    form: Mapping[str, Any],
) -> Records:
    """Open a table as records of columns, with words for missing values as NULL."""
    require(policy.order_column is None, "a domain is that of records, not of pairs: leave out the order")
    parsed = frozenset(column.name for column in columns if column.type in PARSED)
    text_form = TextForm(**form, numeric=parsed)
    absent = text_form.rewrite_words(markers(na_values, columns.schema))
    unit_columns = () if policy.unit_column is None else (policy.unit_column,)
    require(not {*unit_columns} & {*columns.names}, "the column of the unit has no domain: leave it out")
    expression, exact, local = open_source(source, table, (*columns.names, *unit_columns), text_form)
    engine = engine_of(expression)
    if not exact and engine not in TEXT:
        raise InputError(f"values of text cannot be listed by {engine}: export the table to Parquet or CSV")
    if unit_columns:
        check_unit_type(unit_columns[0], expression.schema()[unit_columns[0]])
    if absent:
        cleaned = {
            column.name: without(expression[column.name], absent, numbers_too=column.type in PARSED, exact=exact)
            for column in columns
        }
        expression = expression.select(*unit_columns, **cleaned)
    unit = None
    if policy.unit_column is not None:
        unit = Unit(policy.unit_column, policy.max_records, policy.steps if policy.weights == "unit" else None)
    whole: Local | None = None if absent else local
    return Records(expression, columns.schema, policy, exact, unit, whole)


def _require_types(columns: Columns, records: Records) -> None:
    """Refuse columns that cannot have their declared type."""
    for column in columns:
        kind = records.table.schema()[column.name]
        fits = kind.is_string() or kind.is_numeric() or (kind.is_boolean() and column.type not in PARSED)
        fits = fits and (column.type != "boolean" or kind.is_boolean())
        require(fits, f"column {shown(column.name)} cannot be of type {column.type}: declare another, or leave it out")


def _count_numbers(records: Records, columns: Columns) -> tuple[dict[str, int], dict[str, Ints], dict[str, Ints]]:
    """Count missing values, kinds of values, and numbers in the public cells, in one pass."""
    parsed = [column.name for column in columns if column.type in PARSED]
    kinds = {name: np.zeros(len(KINDS), np.int64) for name in columns.names}
    cells = {name: np.zeros(len(coarse_edges()) + 1, np.int64) for name in parsed}
    expressions = {f"m{at}": is_missing(records.table[name]) for at, name in enumerate(columns.names)}
    expressions |= {f"v{at}": number(records.table[name]) for at, name in enumerate(columns.names) if name in cells}
    for block, steps in _blocks(records, expressions):
        for at, name in enumerate(columns.names):
            absent = block[f"m{at}"].astype(bool)
            value = block[f"v{at}"].astype(np.float64) if name in cells else np.full(len(absent), np.nan)
            there = ~np.isnan(value)
            kind = np.where(absent, 0, np.where(~there, 3, np.where(value == np.floor(value), 1, 2)))
            kinds[name] += np.bincount(kind, steps, len(KINDS)).astype(np.int64)
            if name in cells:
                cells[name] += count_cells(value[there], steps[there], coarse_edges())
    return {name: int(count[0]) for name, count in kinds.items()}, kinds, cells


def _count_in_cells(records: Records, edges: Mapping[str, Floats]) -> dict[str, Ints]:
    """Count the numbers of columns in cells."""
    counts = {name: np.zeros(len(ends) + 1, np.int64) for name, ends in edges.items()}
    expressions = {f"v{at}": number(records.table[name]) for at, name in enumerate(edges)}
    for block, steps in _blocks(records, expressions) if edges else ():
        for at, (name, ends) in enumerate(edges.items()):
            value = block[f"v{at}"].astype(np.float64)
            there = ~np.isnan(value)
            counts[name] += count_cells(value[there], steps[there], ends)
    return counts


def count_cells(values: Floats, steps: Ints, edges: Floats) -> Ints:
    """Count numbers in cells that are closed below, each as often as its steps say."""
    cells = np.searchsorted(edges, values, side="right")
    return np.bincount(cells, steps, len(edges) + 1).astype(np.int64)


def _blocks(records: Records, expressions: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Ints]]:
    """Read columns a block at a time, with the steps that each record counts; below 2^53 float sums are exact."""
    weighted = {"steps": records.table[STEPS]} if STEPS in records.table.columns else {}
    for block in arrow_blocks(records.table.select(**expressions, **weighted), BLOCK):
        arrays = {name: block[name].to_numpy() for name in block.column_names}
        yield arrays, arrays.get("steps", np.ones(len(block), np.int64))


def _list_values(records: Records, column: NamedColumn) -> dict[str, int]:
    """Count the records of each value of a column, as a schema names it; values that can be no state are left out."""
    # One column first: Ibis compiles each query in time that grows with the columns of its table.
    table = records.table.select(column.name, *({STEPS} & {*records.table.columns}))
    stored = declared(table[column.name])
    kind = stored.type()
    as_text = kind.is_string() and not records.bytewise
    key = stored.cast("float64") if kind.is_numeric() else bytewise(stored) if as_text else stored
    present = table.filter(is_present(stored)).mutate(discreet_value=key)
    groups = present.group_by("discreet_value").aggregate(discreet_records=amount(present)).limit(MOST_VALUES + 1)
    rows = arrow(groups)
    if len(rows) > MOST_VALUES:
        raise InputError(
            f"column {shown(column.name)} has more than {MOST_VALUES:,} values: it tells records apart, and has no "
            "domain; leave it out, or name it as the column of the unit"
        )
    # Text that is not UTF-8 shows when it is read from Arrow.
    counts = zip(guarded_read(rows["discreet_value"].to_pylist), rows["discreet_records"].to_pylist(), strict=True)
    named = ((name_state(value), int(count)) for value, count in counts if value is not None)
    return dict(sorted((name, count) for name, count in named if name is not None))


def name_state(value: Any) -> str | None:
    """Name the state of a value; None for one that no schema can name."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        whole = value == np.floor(value) and abs(value) < 2**53
        return str(int(value)) if whole else repr(value) if np.isfinite(value) else None
    text = str(value)
    usable = 0 < len(text) <= STATE_CHARACTERS and not SURROGATE.search(text)
    return text if usable else None
