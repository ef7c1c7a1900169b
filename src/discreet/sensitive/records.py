"""Records: a view of any table, read through Ibis and held against a public schema.

This file owns what may be read and how a column becomes states. It must never put a value of a record into a repr, a
pickle, a log or an error: an error names columns, and an exception of the engine, whose text may quote a value, is
replaced before anybody sees it.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.csv

from discreet.errors import InputError
from discreet.model.schema import Schema, Variable
from discreet.privacy.release import RecordsPolicy

__all__ = [
    "MISSING",
    "Faults",
    "Records",
    "arrow",
    "check",
    "codes",
    "decode",
    "draft_schema",
    "grouping",
    "read_records",
]

T = TypeVar("T")

MISSING = -1
"""Code of a missing value; states have the codes 0, 1, ..."""
UNKNOWN = -2
"""Code of a value that is no state, no number, or a number out of bounds."""

DELIMITERS = (",", ";", "\t", "|")
"""What may separate the columns of a CSV file."""
EMBEDDED = ("sqlite", "duckdb")
"""Databases that are a file."""
HINTS = {
    "ArrowInvalid": "is it CSV with a header, and has every row as many fields?",
    "BinderException": "are the names of its columns all different?",
    "ConversionException": "do its columns have the types that the schema needs?",
    "InvalidInputException": "is it whole, and has every row as many fields as the header?",
    "IOException": "is it whole, and of the format its name says?",
    "UnicodeDecodeError": "is it UTF-8 text, not packed?",
}
"""What to look at, for the engine's kinds of failure; their own text may quote a record."""
FILE_READERS: Mapping[str, str] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".txt": "csv",
    ".txt.gz": "csv",
}


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """A table of private records with the public schema it is held against.

    Args:
        table: the Ibis expression of the table; read at every pass, never copied.
        schema: public.
        policy: what is done with incomplete records.
    """

    table: ir.Table
    schema: Schema
    policy: RecordsPolicy

    def __repr__(self) -> str:
        """Nothing of the records."""
        return f"Records({len(self.schema)} variables, private)"

    def __reduce__(self) -> NoReturn:
        """Records are never copied or pickled."""
        raise TypeError("records are private and cannot be pickled or copied; read them again where they are needed")


@dataclass(frozen=True)
class Faults:
    """What is wrong with a column, for the curator's own screen: numbers of records, never a value.

    Args:
        variable: the column.
        missing: records without a value.
        unknown: records whose value is none of the states, or not a number.
        out_of_bounds: records whose number is outside the public bounds.
    """

    variable: str
    missing: int
    unknown: int
    out_of_bounds: int


def read_records(
    source: Any,
    schema: Schema,
    *,
    table: str | None = None,
    missing: str = "error",
    out_of_bounds: str = "error",
) -> Records:
    """View a table as records of a schema; nothing but column names and types is read yet.

    Args:
        source: a path or glob of Parquet or CSV files (also `.csv.gz`), an open binary file of CSV, an Arrow table or
            any object with `__arrow_c_stream__`, a pandas or Polars frame, an Ibis table, or a database URL such as
            `postgresql://host/base`, `duckdb:///file.db` or `sqlite:///file.db`. Text is matched with the states as it
            stands; a numeric column matches states that are numbers, a logical one `true` and `false` in any case.
        schema: public; columns beside it are not read.
        table: name of the table where the source is a database.
        missing: "error" or "drop"; NULL, NaN and empty CSV fields are missing.
        out_of_bounds: "error" or "clip", for numeric variables.

    Returns:
        The view.

    Raises:
        InputError: the source cannot be read, a column of the schema is not there or has a type that cannot hold its
            variable, or a policy is not one of the words above.

    Guarantee:
        None spent: nothing leaves. Assumes one row for each unit of protection.
    """
    policy = RecordsPolicy(missing, out_of_bounds)
    expression = guarded(lambda: _open(source, table), "the records cannot be read")
    columns = tuple(expression.columns)
    absent = [name for name in schema.names if name not in columns]
    if absent:
        # Their own names are not shown: in a file without a header they are the values of a record.
        raise InputError(
            f"the records have no column {', '.join(map(repr, absent[:5]))} among their {len(columns)}; "
            "names must be equal in case and blanks, and a CSV file needs a header"
        )
    types = expression.schema()
    for variable in schema:
        _check_type(variable, types[variable.name])
    return Records(expression.select(*schema.names), schema, policy)


def check(records: Records) -> tuple[Faults, ...]:
    """Hold every record against the schema, in one pass.

    Args:
        records: as read.

    Returns:
        One entry for each column, in the schema's order. These numbers are private: they are for the curator's screen.

    Raises:
        InputError: the records cannot be read.

    Guarantee:
        None: the result must not leave the curator's screen.
    """
    strict = Records(records.table, records.schema, RecordsPolicy(records.policy.missing, "error"))
    sums = {}
    for variable in records.schema:
        column = records.table[variable.name]
        code = codes(strict, variable)
        bad = (code == UNKNOWN) if not variable.numeric else _number(column).isnull() & (code == UNKNOWN)
        sums[f"m_{variable.name}"] = (code == MISSING).sum()
        sums[f"u_{variable.name}"] = bad.sum()
        sums[f"b_{variable.name}"] = (code == UNKNOWN).sum() - bad.sum() if variable.numeric else ibis.literal(0)
    found = arrow(records.table.aggregate(**sums)).to_pylist()[0]
    return tuple(Faults(name, *(int(found[f"{kind}_{name}"] or 0) for kind in "mub")) for name in records.schema.names)


def guarded(read: Callable[[], T], failure: str) -> T:
    """Run something that reads records; no text of an exception gets out, because it may quote a value.

    Args:
        read: what to run.
        failure: what could not be done, for the error.

    Returns:
        What `read` returns.

    Raises:
        InputError: with the kind of the failure only; our own errors pass as they are.
    """
    kind, interrupted = "", False
    try:
        return read()
    except InputError:
        raise
    except Exception as error:
        kind = type(error).__name__
        # DuckDB turns Ctrl-C into an exception of its own.
        interrupted = kind == "InterruptException" or "interrupted" in str(error).lower()
    # Raised outside the handler: an exception raised inside would carry the engine's own as its context.
    if interrupted:
        raise KeyboardInterrupt
    hint = HINTS.get(kind, "look at it with a tool of your own")
    raise InputError(f"{failure} ({kind}); {hint} The engine's own message may quote a record and is not shown")


def arrow(expression: ir.Table) -> pa.Table:
    """Run an expression.

    Args:
        expression: over records.

    Returns:
        Its rows.

    Raises:
        InputError: the engine failed; the message has no value.
    """
    return guarded(expression.to_pyarrow, "the records could not be read to the end")


def codes(records: Records, variable: Variable) -> ir.IntegerColumn:
    """The column of a variable as positions of its states.

    Args:
        records: as read.
        variable: of their schema.

    Returns:
        0, 1, ... for the states, MISSING, or UNKNOWN.
    """
    column = records.table[variable.name]
    if variable.numeric:
        return _bin_codes(column, variable, clip=records.policy.out_of_bounds == "clip")
    value = _comparable(column, variable)
    absent = _missing(column)
    cases = [(value == key, code) for code, key in enumerate(_keys(column, variable))]
    return ibis.cases((absent, MISSING), *cases, else_=UNKNOWN)


def grouping(records: Records, variable: Variable) -> ir.Column:
    """What to group by for a variable: the column itself where that is cheapest, else its codes.

    Args:
        records: as read.
        variable: of their schema.

    Returns:
        The raw column of a textual variable (grouping text is twice as fast as grouping codes), else its codes.
    """
    column = records.table[variable.name]
    return column if _textual(column, variable) else codes(records, variable)


def decode(values: pa.ChunkedArray, variable: Variable) -> Any:
    """Codes of the distinct values that `grouping` found.

    Args:
        values: a column of the grouped table.
        variable: what it holds.

    Returns:
        int64 array of codes.
    """
    if pa.types.is_integer(values.type):
        return values.to_numpy().astype("int64")
    text = values.cast(pa.string())
    found = pa.compute.index_in(text, value_set=pa.array(variable.states, pa.string()))
    found = pa.compute.fill_null(found, UNKNOWN)
    return pa.compute.if_else(text.is_null(), MISSING, found).to_numpy().astype("int64")


def draft_schema(source: Any, *, table: str | None = None, most_states: int = 50) -> Mapping[str, object]:
    """Draft a schema from a codebook or a sample that is NOT private, for a human to edit.

    Args:
        source: as in `read_records`.
        table: as in `read_records`.
        most_states: a numeric column with more distinct values gets bounds and quartiles instead of states.

    Returns:
        The draft: `{"variables": [{"name", "states"} or {"name", "bounds", "bins"}, ...]}`.

    Raises:
        InputError: the source cannot be read, or a textual column has more distinct values than that.

    Guarantee:
        None: every state and bound is a value of the source. Never publish a draft made from private records.
    """
    expression = guarded(lambda: _open(source, table), "the sample cannot be read")
    drafts: list[dict[str, object]] = []
    for name in expression.columns:
        column = expression[name]
        values = arrow(expression.select(value=column).distinct().limit(most_states + 1))["value"].drop_null()
        if len(values) <= most_states:
            numeric = column.type().is_numeric()
            states = sorted(values.to_pylist(), key=(lambda v: v) if numeric else str)
            drafts.append({"name": name, "states": [_spelled(state) for state in states]})
            continue
        number = _number(column)
        cuts = arrow(
            expression.aggregate(
                lo=number.min(),
                a=number.quantile(0.25),
                b=number.quantile(0.5),
                c=number.quantile(0.75),
                hi=number.max(),
                n=number.count(),
            )
        )
        lo, a, b, c, hi, count = (cuts[part][0].as_py() for part in ("lo", "a", "b", "c", "hi", "n"))
        if not count:
            raise InputError(
                f"column {name!r} has more than {most_states} distinct values and no numbers; leave it out"
            )
        drafts.append({"name": name, "bounds": [lo, hi], "bins": sorted({a, b, c} - {lo, hi})})
    return {"variables": drafts}


# ------------------------------------------------------------------------------------------------------- sources


def _open(source: Any, table: str | None) -> ir.Table:
    """The Ibis table of any source."""
    if isinstance(source, ir.Table):
        return source
    if isinstance(source, str) and "://" in source:
        if table is None:
            raise InputError("a database URL needs the name of its table")
        return _connect(source, table)
    if table is not None:
        raise InputError("only a database URL takes the name of a table")
    engine = ibis.duckdb.connect()
    if isinstance(source, str | Path):
        return _open_file(engine, str(source))
    if hasattr(source, "read"):
        return _in_memory(engine, _parse_csv(source.read()))
    if hasattr(source, "__arrow_c_stream__"):
        return _in_memory(engine, pa.table(source))
    raise InputError(
        f"cannot read records from a {type(source).__name__}; give a path, a frame, an Arrow table or a URL"
    )


def _connect(url: str, table: str) -> ir.Table:
    """A table of a database; as everywhere, three slashes before a file's name are relative and four absolute."""
    kind, _, place = url.partition("://")
    path = place.removeprefix("/")
    if kind in EMBEDDED and not Path(path).is_file():
        raise InputError(f"no file {path!r}; a relative name has three slashes before it, an absolute one four")
    try:
        match kind:
            case "sqlite":
                return ibis.sqlite.connect(path).table(table)
            case "duckdb":
                return ibis.duckdb.connect(path, read_only=True).table(table)
            case _:
                return ibis.connect(url).table(table)
    except ImportError:
        extras = {"postgresql": "discreet[postgres]", "sqlite": "discreet[sqlite]"}
        wanted = extras.get(kind, f"ibis-framework[{kind}]")
    except ibis.common.exceptions.TableNotFound:
        raise InputError(f"the database has no table {table!r}") from None
    raise InputError(f"reading from {kind} needs its driver; install {wanted}")


def _parse_csv(raw: bytes) -> pa.Table:
    """CSV bytes with a header, every field as text, empty fields as NULL."""
    delimiter, names = _dialect(raw.partition(b"\n")[0].decode("utf-8-sig"))
    return pyarrow.csv.read_csv(
        io.BytesIO(raw if raw.endswith(b"\n") else raw + b"\n"),
        read_options=pyarrow.csv.ReadOptions(column_names=names, skip_rows=1),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )


def _in_memory(engine: Any, table: pa.Table) -> ir.Table:
    """An Arrow table as a view of an engine of its own."""
    return engine.create_view("records", ibis.memtable(table))


def _open_file(engine: Any, path: str) -> ir.Table:
    """A file or a glob of files; CSV fields stay text, so that no engine guesses what a state means."""
    kind = next((FILE_READERS[end] for end in sorted(FILE_READERS, key=len, reverse=True) if path.endswith(end)), None)
    if kind is None:
        raise InputError(f"cannot tell the format of {path!r}; name it .parquet, .csv or .csv.gz")
    found = [path] if Path(path).is_file() else sorted(glob.glob(path, recursive=True))
    if not found or not all(Path(name).is_file() for name in found):
        raise InputError(f"no file {path!r}")
    if any(Path(name).stat().st_size == 0 for name in found):
        raise InputError(f"{path!r} is empty; a table needs at least a header")
    # DuckDB would take a path with brackets for a pattern, and a folder `x=1` for a column.
    literal = [re.sub(r"([*?[])", r"[\1]", name) for name in found]
    if kind == "parquet":
        return engine.read_parquet(literal, hive_partitioning=False)
    headers = {_header(name) for name in found}
    if len(headers) > 1:
        raise InputError(f"the files of {path!r} differ in their headers")
    ((delimiter, names),) = headers
    # Nothing is detected from the rows: a guess could take a record for a header, or "yes" for a logical value.
    options = {"auto_detect": False, "header": True, "delim": delimiter, "quote": '"', "escape": '"', "nullstr": ""}
    return engine.read_csv(literal, columns=dict.fromkeys(names, "VARCHAR"), hive_partitioning=False, **options)


def _header(path: str) -> tuple[str, tuple[str, ...]]:
    """Delimiter and column names of a CSV file: the delimiter that makes most columns of its first line."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8-sig", newline="") as lines:
        return _dialect(lines.readline())


def _dialect(text: str) -> tuple[str, tuple[str, ...]]:
    """Delimiter and column names in the first line; a column without a name is called after its position."""
    rows = [(delimiter, next(csv.reader([text], delimiter=delimiter), [])) for delimiter in DELIMITERS]
    delimiter, found = max(rows, key=lambda row: len(row[1]))
    names = tuple(name or f"column {position}" for position, name in enumerate(found, 1))
    if len({name.lower() for name in names}) < len(names):
        raise InputError("two columns of the records have one name (capitals do not count); rename one of them")
    return delimiter, names


# ------------------------------------------------------------------------------------------------------- columns


def _check_type(variable: Variable, kind: Any) -> None:
    """Refuse a column that cannot hold its variable."""
    if variable.numeric:
        if not (kind.is_numeric() or kind.is_string()):
            raise InputError(f"column {variable.name!r} must hold numbers, but has type {kind}")
        return
    if not variable.states:
        raise InputError(f"variable {variable.name!r} has no states")
    if kind.is_numeric() and not all(map(_is_number, variable.states)):
        raise InputError(
            f"column {variable.name!r} holds numbers, but its states are names; declare numbers as states, "
            "or numeric bounds and bins"
        )
    if kind.is_boolean() and not {state.lower() for state in variable.states} <= {"true", "false"}:
        raise InputError(f"column {variable.name!r} is logical; its states must be true and false")
    if not (kind.is_string() or kind.is_numeric() or kind.is_boolean()):
        raise InputError(f"column {variable.name!r} must hold text, numbers or logical values, but has type {kind}")


def _textual(column: ir.Column, variable: Variable) -> bool:
    """Whether the column's own values are the states' names."""
    return not variable.numeric and column.type().is_string()


def _comparable(column: ir.Column, variable: Variable) -> ir.Column:
    """The column as what its states are compared with."""
    return column.cast("float64") if column.type().is_numeric() else column


def _keys(column: ir.Column, variable: Variable) -> Iterable[object]:
    """What each state looks like in the column."""
    if column.type().is_numeric():
        return [float(state) for state in variable.states]
    if column.type().is_boolean():
        return [state.lower() == "true" for state in variable.states]
    return variable.states


def _missing(column: ir.Column) -> ir.BooleanColumn:
    """Whether the value is missing."""
    return column.isnull() | column.cast("float64").isnan() if _may_be_nan(column) else column.isnull()


def _may_be_nan(column: ir.Column) -> bool:
    """Whether the column can hold NaN; SQLite stores it as NULL and has no function for it."""
    kind = column.type()
    return bool((kind.is_floating() or kind.is_decimal()) and column.get_backend().has_operation(ops.IsNan))


def _number(column: ir.Column) -> ir.FloatingColumn:
    """The column as numbers; NULL where there is none."""
    number = column.try_cast("float64") if column.type().is_string() else column.cast("float64")
    nan = column.type().is_string() or _may_be_nan(column)
    return number.isnan().ifelse(ibis.null("float64"), number) if nan else number


def _bin_codes(column: ir.Column, variable: Variable, *, clip: bool) -> ir.IntegerColumn:
    """Position of the bin of a number: bins are closed below, the last one on both sides."""
    assert variable.bounds is not None
    lo, hi = variable.bounds
    number = _number(column)
    outside = [] if clip else [((number < lo) | (number > hi), UNKNOWN)]
    below = [(number < cut, code) for code, cut in enumerate(variable.bins)]
    # Infinite values compare as numbers do; a text that is no number is unknown, an absent one missing.
    return ibis.cases(
        (_missing(column), MISSING),
        (number.isnull(), UNKNOWN),
        *outside,
        *below,
        else_=len(variable.bins),
    )


def _is_number(text: str) -> bool:
    """Whether a state's name is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _spelled(value: object) -> str:
    """A value of a sample as the name of a state."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)
