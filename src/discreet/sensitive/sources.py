"""Sources: any table as an Ibis expression, and the one place where an engine runs over records.

This file owns files, frames and databases; what a column means is not its business. An exception of an engine, whose
text may quote a record, is replaced here before anybody sees it.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.csv

from discreet.errors import InputError

__all__ = ["arrow", "open_source"]

T = TypeVar("T")

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


def open_source(source: Any, table: str | None) -> tuple[ir.Table, bool]:
    """The table of any source, as `read_records` takes it.

    Args:
        source: path, glob, open binary file, frame, Arrow table, Ibis table or database URL.
        table: its name, where the source is a database.

    Returns:
        (an expression, of which nothing but column names and types is read; whether its text is compared byte by byte).
        A database may have columns whose collation takes different texts for equal; files and frames have not.

    Raises:
        InputError: the source cannot be opened.
    """
    foreign = isinstance(source, ir.Table) or (isinstance(source, str) and "://" in source)
    return _guarded(lambda: _open(source, table), "the records cannot be read"), not foreign


def arrow(expression: ir.Table) -> pa.Table:
    """Run an expression.

    Args:
        expression: over records.

    Returns:
        Its rows.

    Raises:
        InputError: the engine failed; the message has no value.
    """
    return _guarded(expression.to_pyarrow, "the records could not be read to the end")


def _guarded(read: Callable[[], T], failure: str) -> T:
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
        interrupted = kind == "InterruptException" or str(error).startswith("Query interrupted")
    # Raised outside the handler: an exception raised inside would carry the engine's own as its context.
    if interrupted:
        raise KeyboardInterrupt
    hint = HINTS.get(kind, "look at it with a tool of your own")
    raise InputError(f"{failure} ({kind}); {hint} The engine's own message may quote a record and is not shown")


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
