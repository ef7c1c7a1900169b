"""Records: a view of any table, read through Ibis and validated against a public schema.

This file owns what may be read and how a column becomes states. It must never put a value of a record into a repr, a
pickle, a log or an error: an error names columns.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute

from discreet.errors import InputError, require, shown
from discreet.model.schema import Schema, Variable
from discreet.records.dates import check_date_type, column_number, number_dates
from discreet.records.dialects import TEXT, bytewise, declared, engine_of, is_missing, is_present, matches, number
from discreet.records.sources import Local, arrow, explain_source, open_source
from discreet.records.text_form import TextForm
from discreet.records.units import Unit, UnitUse, check_unit_type, few_of_each, join_previous, unit_use
from discreet.records.values import LOGICAL_STATES, PREVIOUS, canonical, is_number, markers, other_spellings, pattern
from discreet.releases.policy import RecordsPolicy
from discreet.util.option_texts import MissingValues, OutOfBounds, Weights

MISSING = -1
"""Code of a missing value; states have the codes 0, 1, ..."""
UNKNOWN = -2
"""Code of a value that is no state, no number, or a number out of bounds, where no state takes all others."""


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Private records of any table, viewed through the public schema that validates them.

    Args:
        table: the Ibis expression of the table; read at every pass, never copied.
        schema: public.
        policy: what is done with incomplete records.
        bytewise: whether the engine compares text byte by byte. Where a collation may take different texts for equal, a
            record's state would depend on the other records; text is then compared as `discreet.records.dialects`
            says.
        unit: what tells units of protection apart that may have several records; None where each record is one.
        local: the source in blocks of Arrow, where it is a file or a frame.
        source: its table as it stands, for the curator's own look at values at fault.

    Raises:
        Nothing: `read_records` has checked the columns; what a cell holds is seen when records are counted.

    Guarantee:
        None spent: it is read by mechanisms only. Its text is a number of variables, and it can be neither pickled nor
            copied.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> import pyarrow as pa
        >>> table = pa.table({"rain": ["no", "yes", "no"], "wet": ["no", "yes", "yes"]})
        >>> dc.read_records(table, network.schema)
        Records(2 variables, private)
    """

    table: ir.Table
    schema: Schema
    policy: RecordsPolicy
    bytewise: bool
    unit: Unit | None = None
    local: Local | None = None
    source: ir.Table | None = None

    def __repr__(self) -> str:
        """Text without any value of the records."""
        return f"Records({len(self.schema)} variables, private)"

    def __reduce__(self) -> NoReturn:
        """Records are never copied or pickled."""
        raise TypeError("records are private and cannot be pickled or copied; read them again where they are needed")


@dataclass(frozen=True)
class Faults:
    """Faults of a column, for the curator's own screen: numbers of records, never a value.

    Args:
        variable: the column.
        missing: records without a value.
        unknown: records whose value is none of the states, or not a number.
        out_of_bounds: records whose number is outside the public bounds.
        does_not_apply: records with a value although the column does not apply to them; it counts as not applicable.
    """

    variable: str
    missing: int
    unknown: int
    out_of_bounds: int
    does_not_apply: int = 0


def read_records(
    source: Any,
    schema: Schema,
    *,
    table: str | None = None,
    missing: MissingValues = "error",
    out_of_bounds: OutOfBounds = "error",
    na_values: Iterable[str] = (),
    unit_column: str | None = None,
    max_records: int = 1,
    weights: Weights = "record",
    one_record_a_unit: bool = False,
    order_column: str | None = None,
    **form: Any,
) -> Records:
    """View a table of any source as records of a public schema; only column names and types are read.

    Args:
        source: a path or glob of Parquet or CSV files (also `.csv.gz`), an open binary file of CSV, an Arrow table, a
            data set of Arrow, or any object with `__arrow_c_stream__`, a pandas or Polars frame, a frame of Spark, an
            Ibis table, or a database URL such as `postgresql://host/base`, `duckdb:///file.db` or `sqlite:///file.db`.
            An open file and a frame are in memory; an Ibis table runs on its own connection, which keeps what does not
            fit into memory where it likes.

            Text is matched with the states as it stands. Where all states are different plain numbers (`0`, `-2.5`), a
            text that is the same number is that state, too: blanks around it, a plus, and zeros that do not count make
            no difference, but an exponent does. Where all are logical words, capitals make no difference. A numeric
            column matches states that are numbers, a logical one `true` and `false`.
        schema: public; columns beside it are not read.
        table: name of the table where the source is a database.
        missing: "error", "drop", or "keep" as the variable's state `missing`; NULL, NaN, empty CSV fields, `na_values`.
        out_of_bounds: "error" or "clip", for numeric variables.
        na_values: public texts that say that a value is missing, such as `?` or `NA`, in every column; as numbers, too,
            where numbers are wanted (`-9` is then also -9.0). They say how the table writes NULL and are no part of the
            release: what was done with missing values is.
        unit_column: name of the column that tells units of protection apart, such as patients, where one may have
            several records: `max_records` random ones of each are kept, anew for every call (see
            `discreet.records.units`). Text or whole numbers, each value stored as its column's type (SQLite allows
            others). None where every record is a unit of its own.
        max_records: most records of a unit that are kept. Each costs its part of epsilon, so that noise grows with it.
        weights: "record" counts each record once; "unit" counts each unit once, its records in equal parts: noise is
            then no more than for one record of each, and `max_records` is at most 12.
        one_record_a_unit: the curator's word that no unit has more than one record, where no column tells them apart
            and the promise is for another unit than "record". Releases say whose word it is.
        order_column: name of the column by which the records of a unit follow each other, such as a date or a number of
            a visit, for networks over two time slices: a variable called `previous.x` is then x of the record before.
            First records, which have none, are left out, and `max_records` bounds the pairs of a unit.
        form: of a text file, as the program that wrote it does: `encoding` (UTF-8 if not given), `delimiter` (the
            header's), `quote`, `decimal` and `thousands` separators, and how many lines are a `preamble` before the
            header or a `footer` below the last record, which are never read. Public; a release reads by it alone.

    Returns:
        The view.

    Raises:
        InputError: the source cannot be read, a column of the schema is not there or has a type that cannot hold its
            variable, a policy is not one of the words above, or a state is one of `na_values`.

    Guarantee:
        None spent: nothing leaves. Without `unit_column` it assumes one row for each unit of protection. Whatever it
        is, mechanisms are calibrated for as many steps as a unit may count (`discreet.releases.policy`).

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> import pyarrow as pa
        >>> table = pa.table({"rain": ["no", "yes", "no"], "wet": ["no", "yes", "yes"]})
        >>> dc.read_records(table, network.schema)
        Records(2 variables, private)
        >>> dc.read_records(table.select(["rain"]), network.schema)
        Traceback (most recent call last):
        discreet.errors.InputError: the records have no column 'wet' among their 1; ...
    """
    if not isinstance(schema, Schema):
        advice = "; give its .schema" if isinstance(getattr(schema, "schema", None), Schema) else ""
        raise InputError(f"a Schema was expected, not a {type(schema).__name__}{advice}")
    selection = None if unit_column is None else secrets.token_hex(4)
    policy = RecordsPolicy(
        missing, out_of_bounds, unit_column, max_records, weights, one_record_a_unit, order_column, selection
    )
    columns = _take_one_slice(schema, order_column is not None)
    absent = (declared := _declare_form(form, columns)).rewrite_words(markers(na_values, columns))
    needed = [name for name in dict.fromkeys((unit_column, order_column)) if name is not None and name not in columns]
    expression, exact, local = open_source(source, table, (*columns.names, *needed), declared)
    types = expression.schema()
    if unit_column is not None:
        check_unit_type(unit_column, types[unit_column])
    for variable in columns:
        _check_type(variable, expression[variable.name])
    expression = as_it_is = _clean_columns(expression, columns, absent, exact)
    dates = {each.name: number_dates(expression[each.name], each) for each in columns if each.number_type.is_calendar}
    require(unit_column not in dates, "a column of dates cannot tell units apart; declare another one")
    expression = expression.mutate(**dates) if dates else expression
    local = None if local is None else replace(local, table=expression, absent=absent)
    unit = None
    if unit_column is not None:
        unit = Unit(unit_column, max_records, policy.steps if weights == "unit" else None, order_column)
        if order_column is not None:
            before = [name.removeprefix(PREVIOUS) for name in schema.names if name.startswith(PREVIOUS)]
            expression = join_previous(expression, unit, before, bytewise=exact)
    return Records(expression, schema, policy, exact, unit, local, as_it_is)


def _clean_columns(table: ir.Table, schema: Schema, absent: Sequence[str], exact: bool) -> ir.Table:
    """Replace texts that mark a missing value by NULL in the columns of a schema."""
    cleaned = {
        variable.name: without(
            table[variable.name],
            absent,
            numbers_too=variable.numeric or bool(other_spellings(variable)),
            exact=exact,
        )
        for variable in schema
    }
    return table.mutate(**cleaned) if absent else table


def _declare_form(options: Mapping[str, Any], schema: Schema) -> TextForm:
    """Declare the form of a text file, and which columns hold numbers."""
    numeric = (variable.name for variable in schema if variable.numeric or other_spellings(variable))
    return TextForm(**options, numeric=frozenset(numeric))


def _take_one_slice(schema: Schema, ordered: bool) -> Schema:
    """Take the variables of one record from a schema that, if ordered, also has variables of the record before it."""
    schema.require_conditions()
    if not ordered:
        return schema
    require(not schema.conditions, "applies_if is for records that are counted alone: leave out the order")
    by_name = {variable.name: variable for variable in schema if not variable.name.startswith(PREVIOUS)}
    if len(by_name) == len(schema):
        raise InputError(f"an order of records is for variables called {PREVIOUS}NAME, and there is none")
    for earlier in schema:
        name = earlier.name.removeprefix(PREVIOUS)
        if replace(by_name.setdefault(name, replace(earlier, name=name)), name=earlier.name) != earlier:
            raise InputError(f"{shown(name)} and {shown(earlier.name)} need the same states, or bounds and bins")
    return Schema(tuple(by_name.values()))


def check(records: Records) -> tuple[Faults, ...]:
    """Count the faults of each column of the records, in one pass, for the curator's own screen.

    Args:
        records: as read.

    Returns:
        One entry for each column, in the schema's order. These numbers are private: they are for the curator's screen.

    Raises:
        InputError: the records cannot be read.

    Guarantee:
        None: the result must not leave the curator's screen.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> import pyarrow as pa
        >>> table = pa.table({"rain": ["no", "yes", None], "wet": ["no", "damp", "yes"]})
        >>> rain_faults, wet_faults = dc.check(dc.read_records(table, network.schema))
        >>> rain_faults.missing, wet_faults.unknown
        (1, 1)
    """
    strict = replace(records, policy=replace(records.policy, out_of_bounds="error"))
    sums = {}
    for variable in records.schema:
        column = records.table[variable.name]
        code = codes(strict, variable)
        invalid = code == UNKNOWN
        if variable.bounds is not None:
            value = column_number(column, variable)
            invalid &= value.isnull() | value.between(*variable.bounds)
        sums[f"m_{variable.name}"] = (code == MISSING).sum()
        sums[f"u_{variable.name}"] = invalid.sum()
        sums[f"b_{variable.name}"] = (code == UNKNOWN).sum() - invalid.sum() if variable.numeric else ibis.literal(0)
        sums[f"n_{variable.name}"] = ibis.literal(0)
        if variable.applies_if is not None:
            value, outside = _read_codes(strict, variable), len(variable.values)
            sums[f"n_{variable.name}"] = ((code == outside) & (value != MISSING) & (value < outside)).sum()
    row = arrow(records.table.aggregate(**sums)).to_pylist()[0]
    return tuple(Faults(name, *(int(row[f"{kind}_{name}"] or 0) for kind in "mubn")) for name in records.schema.names)


def check_units(records: Records) -> UnitUse | None:
    """Count the records of units; None without a column that identifies units.

    Args:
        records: as read.

    Returns:
        Numbers that are private: for the curator's screen.

    Raises:
        InputError: the records cannot be read.

    Guarantee:
        None: the result must not leave the curator's screen.
    """
    return None if records.unit is None else unit_use(records.table, records.unit, bytewise=records.bytewise)


def codes(records: Records, variable: Variable) -> ir.IntegerColumn:
    """Encode the column of a variable as positions of its states.

    Args:
        records: as read.
        variable: of their schema.

    Returns:
        0, 1, ... for the states, MISSING, or UNKNOWN. By a condition of the variable each record decides alone: where
        the column does not apply, whatever stands there is not applicable, and a gap where it applies is missing. Where
        the column of the condition is missing, this one is read as it stands.
    """
    code = _read_codes(records, variable)
    if variable.name not in records.schema.conditions:
        return code
    column, states = records.schema.conditions[variable.name]
    source, outside = records.schema[column], len(variable.values)
    observed = codes(records, source)
    gap_where_it_applies = observed.isin(states) & (code == outside)
    as_it_stands = observed.isin((*states, *range(len(source.complete), source.size)))
    return ibis.cases(
        (gap_where_it_applies, missing_code(records.policy, variable)), (as_it_stands, code), else_=outside
    )


def _read_codes(records: Records, variable: Variable) -> ir.IntegerColumn:
    """Encode what a column says, whether it applies or not."""
    column = records.table[variable.name]
    if variable.numeric:
        return _code_bins(
            column, variable, clip=records.policy.out_of_bounds == "clip", gap=missing_code(records.policy, variable)
        )
    absent, column = is_missing(column), declared(column)
    value, keys = _make_comparable(column, variable), _list_keys(column, variable)
    if _is_text(column, variable) and not records.bytewise:
        value, keys = bytewise(column), [bytewise(ibis.literal(state)) for state in variable.held]
    cases = [(value == key, code) for code, key in enumerate(keys)]
    if _is_text(column, variable):
        spelled = other_spellings(variable).items()
        cases += [(matches(column, pattern(spelling)), code) for spelling, code in spelled]
    return ibis.cases((absent, missing_code(records.policy, variable)), *cases, else_=unlisted_code(variable))


def missing_code(policy: RecordsPolicy, variable: Variable) -> int:
    """Code of a gap: not applicable if every gap of the variable is; else its state if the policy keeps it."""
    if variable.not_applicable is not None and variable.applies_if is None:
        return len(variable.values)
    return len(variable.complete) if policy.missing == "keep" and variable.missing is not None else MISSING


def unlisted_code(variable: Variable) -> int:
    """Code of a value that is no state: that of the state for other values, if there is one."""
    return UNKNOWN if variable.other is None else len(variable.matched)


def numbers(records: Records, variable: Variable) -> ir.FloatingColumn:
    """Convert the column of a numeric variable to 64-bit floats; NULL if there is no number, or it does not apply."""
    value = column_number(records.table[variable.name], variable)
    if variable.name not in records.schema.conditions:
        return value
    return (codes(records, variable) == len(variable.values)).ifelse(ibis.null("float64"), value)


def kept(records: Records, variables: Iterable[Variable]) -> Records:
    """Keep the records that count by the policy.

    Args:
        records: as read.
        variables: that are counted.

    Returns:
        Under "drop" the records without a missing value of these variables, for which each record decides alone; then
        few records of each unit, for which each unit does.

    Raises:
        InputError: a record without a unit.
    """
    counted = records
    if records.policy.missing == "drop":
        present = [
            is_present(records.table[each.name]) if each.not_applicable is None else codes(records, each) != MISSING
            for each in variables
        ]
        counted = replace(records, table=records.table.filter(*present))
    if counted.unit is None:
        return counted
    return replace(counted, table=few_of_each(counted.table, counted.unit, bytewise=counted.bytewise), unit=None)


def refuse_faulty(columns: Iterable[str], records: Records, faults: str = "") -> None:
    """Refuse records with invalid values in some columns; a look at a text file may tell why.

    Args:
        columns: that have invalid values.
        records: theirs.
        faults: what may be wrong; empty for all that `check` counts.

    Raises:
        InputError: there is a column; the message names it, and no value or number of records.
    """
    names = ", ".join(map(repr, columns))
    if names:
        fault = faults or "a missing value, an unknown state or a number out of bounds"
        counted = "" if faults else "`check` shows how many, and "
        raise InputError(
            f"records hold {fault} in column {names}; {counted}nothing was spent; if the table writes missing values "
            "as a word such as ? or NA, name it in na_values (--na-values); in SQLite, a value of another type than "
            "its column's is unknown" + explain_source(records.table)
        )


def grouping(records: Records, variable: Variable) -> ir.Column:
    """Key to group by for a variable: the column itself if that is cheapest, else its codes.

    Args:
        records: as read.
        variable: of their schema.

    Returns:
        The text of a textual variable where an engine compares it byte by byte (grouping text is twice as fast as
        grouping codes), else its codes. Where states have other spellings, there may be more texts than states.
    """
    column = records.table[variable.name]
    # Of a state that takes all other values the engine would list the values.
    if not _is_text(column, variable) or variable.other is not None or variable.not_applicable is not None:
        return codes(records, variable)
    if not records.bytewise and engine_of(records.table) not in TEXT:
        return codes(records, variable)
    text = column if records.bytewise else bytewise(declared(column))
    if missing_code(records.policy, variable) != MISSING:
        # Not NULL in `text`: of a value of another type than the column's it is one that nothing fills or drops.
        text = is_missing(column).ifelse(variable.missing, text)
    return text


def decode(values: pa.ChunkedArray, variable: Variable) -> Any:
    """Read the codes of the distinct values that `grouping` found.

    Args:
        values: a column of the grouped table.
        variable: what it holds.

    Returns:
        int64 array of codes.
    """
    if pa.types.is_integer(values.type):
        return values.to_numpy().astype("int64")
    text = values.cast(pa.string())
    index = pa.compute.index_in(text, value_set=pa.array(variable.held, pa.string()))
    index = pa.compute.fill_null(index, UNKNOWN)
    decoded = pa.compute.if_else(text.is_null(), MISSING, index).to_numpy().astype("int64")
    spelled = other_spellings(variable)
    if spelled:
        for row in (decoded == UNKNOWN).nonzero()[0]:
            decoded[row] = spelled.get(canonical(text[int(row)].as_py()) or "", UNKNOWN)
    return decoded


# ------------------------------------------------------------------------------------------------------- columns


def _check_type(variable: Variable, column: ir.Column) -> None:
    """Refuse a column that cannot hold its variable."""
    kind = column.type()
    if variable.number_type.is_calendar:
        check_date_type(variable, column)
    elif variable.numeric:
        if not (kind.is_numeric() or kind.is_string()):
            raise InputError(f"column {variable.name!r} must hold numbers, but has type {type(kind).__name__.lower()}")
    else:
        _check_state_type(variable, kind)


def _check_state_type(variable: Variable, kind: Any) -> None:
    """Refuse a column that cannot hold the states of its variable."""
    if not variable.states:
        raise InputError(f"variable {variable.name!r} has no states")
    if kind.is_numeric() and not all(map(is_number, variable.matched)):
        raise InputError(
            f"column {variable.name!r} holds numbers, but its states are names; declare numbers as states, "
            "or numeric bounds and bins"
        )
    if kind.is_numeric() and len(set(map(float, variable.matched))) < len(variable.matched):
        raise InputError(f"column {variable.name!r} holds numbers, and two of its states are the same number")
    logical = [LOGICAL_STATES.get(state.lower()) for state in variable.matched]
    if kind.is_boolean() and (None in logical or len({*logical}) < len(logical)):
        raise InputError(f"column {variable.name!r} is logical; its states must be true and false, or 1 and 0")
    if not (kind.is_string() or kind.is_numeric() or kind.is_boolean()):
        raise InputError(
            f"column {variable.name!r} must hold text, numbers or logical values, "
            f"but has type {type(kind).__name__.lower()}"  # selected alone: its fields may have any names
        )


def without(column: ir.Column, texts: Sequence[str], *, numbers_too: bool, exact: bool) -> ir.Column:
    """Replace texts that mark a missing value by NULL; `numbers_too` if text is read as numbers."""
    if column.type().is_numeric():
        numbers = [float(text) for text in texts if is_number(text)]
        says_so = number(column).isin(numbers) if numbers else ibis.literal(False)
    elif column.type().is_string():
        value = declared(column)
        says_so = value.isin(texts)
        if not exact:
            says_so = bytewise(value).isin([bytewise(ibis.literal(text)) for text in texts])
        if numbers_too:
            for spelling in set(filter(None, map(canonical, texts))):
                says_so |= matches(value, pattern(spelling))
    else:
        return column
    return says_so.ifelse(ibis.null(column.type().copy(nullable=True)), column)  # a column may be NOT NULL


def _is_text(column: ir.Column, variable: Variable) -> bool:
    """True if the column's values are the states' names."""
    return not variable.numeric and column.type().is_string()


def _make_comparable(column: ir.Column, variable: Variable) -> ir.Column:
    """Convert the column to a form that compares with its states."""
    return column.cast("float64") if column.type().is_numeric() else column


def _list_keys(column: ir.Column, variable: Variable) -> Iterable[object]:
    """List the form of each state in the column."""
    if column.type().is_numeric():
        return [float(state) for state in variable.matched]
    if column.type().is_boolean():
        return [LOGICAL_STATES[state.lower()] for state in variable.matched]
    return variable.held


def _code_bins(column: ir.Column, variable: Variable, *, clip: bool, gap: int) -> ir.IntegerColumn:
    """Find the bin of a number: bins are closed below, the last one on both sides."""
    assert variable.bounds is not None
    lo, hi = variable.bounds
    value = column_number(column, variable)
    outside = [] if clip else [((value < lo) | (value > hi), UNKNOWN)]
    if variable.whole:
        inside = ibis.least(ibis.greatest(value, lo), hi)
        outside.append((inside.cast("int64").cast("float64") != inside, UNKNOWN))
    below = [(value < cut, code) for code, cut in enumerate(variable.bins)]
    # Infinite values compare as numbers; a text that is no number is unknown, NULL is missing.
    return ibis.cases(
        (is_missing(column), gap),
        (value.isnull(), UNKNOWN),
        *outside,
        *below,
        else_=len(variable.bins),
    )
