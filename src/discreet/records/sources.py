"""Sources: any table as an Ibis expression, and the only place where an engine runs over records.

This file owns frames, databases and what becomes of an engine's failure: its text, which may quote a record, is
replaced here before anybody sees it. Files are read by `record_files.py`, on the engines of `engine.py`; what a column
means is not its business.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.fs

from discreet.errors import InputError, require, shown, shown_path
from discreet.records.dialects import engine_of, require_known
from discreet.records.engine import open_engine, query_batches
from discreet.records.record_files import BLOCK, Blocks, Stream, is_data, open_file, open_table, parse_csv, positions
from discreet.records.spark import SPARK, hush, is_spark_frame, open_spark, spark_table
from discreet.records.text_form import TextForm
from discreet.util.frames import arrow_table, is_lazy, read_guarded
from discreet.util.lazy_imports import lazy_import

if TYPE_CHECKING:
    import pyarrow.dataset

# --------------------------------------------------------------------------------------------------------------------
# Object stores: Parquet files behind a URL of S3, Google Cloud or Azure, by Arrow's file systems.
#
# DuckDB loads no extensions here, so Arrow lists and reads the files. Credentials are where Arrow looks for them (the
# environment, a profile, the machine's role); no part of a URL is ever shown, as it may hold some.

datasets = lazy_import("pyarrow.dataset")
"""Imported lazily, since it imports pandas if that is installed."""

STORES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "file")
"""Schemes of URLs of files."""


def open_store(
    engine: Any, url: str, wanted: tuple[str, ...] | None
) -> tuple[ir.Table, Callable[[Sequence[str]], Blocks]]:
    """Open a Parquet file, or a folder of them, behind a URL.

    Args:
        engine: of `open_engine`.
        url: such as `s3://bucket/visits` or `abfss://container@account.dfs.core.windows.net/visits.parquet`.
        wanted: columns to read; None reads all.

    Returns:
        A table of the engine; and the blocks of some of its columns, by their names.

    Raises:
        InputError: no such file, files that differ in the type of a column or lack one, or a URL with a password.
        Exception: Arrow's own; it may quote a record.
    """
    host = url.partition("://")[2].partition("/")[0]
    if ":" in host.rpartition("@")[0]:
        raise InputError("leave keys and passwords out of the URL of an object store: Arrow looks for them elsewhere")
    system, path = pyarrow.fs.FileSystem.from_uri(url)
    files = _list_files(system, path)
    stored = datasets.dataset(files, filesystem=system, format="parquet")
    names = [stored.schema.names[at] for at in positions(stored.schema.names, wanted)]
    # Arrow reads all files by the types of the first, and gives NULL for a missing column.
    kinds = [(name, stored.schema.field(name).type) for name in names]
    for fragment in stored.get_fragments():
        schema = fragment.physical_schema
        odd = [name for name, kind in kinds if schema.names.count(name) != 1 or schema.field(name).type != kind]
        if odd:
            raise InputError(f"the files differ in column {shown(odd[0])}: one lacks it, or has it in another type")
    text = [name for name, kind in kinds if kind in (pa.string(), pa.large_string())]
    coded = datasets.ParquetFileFormat(dictionary_columns=text)
    blocks = open_dataset(engine, datasets.dataset(files, filesystem=system, format=coded), names)[1]
    return open_dataset(engine, stored, names)[0], blocks


def is_dataset(source: Any) -> bool:
    """True if a source is a data set of Arrow; none exists before its module is loaded."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(source, module.Dataset)


def open_dataset(
    engine: Any, dataset: pyarrow.dataset.Dataset, wanted: Sequence[str] | None
) -> tuple[ir.Table, Callable[[Sequence[str]], Blocks]]:
    """Open a data set of Arrow that the caller made, of any format and location; the rest is as in `open_store`."""
    names = [dataset.schema.names[at] for at in positions(dataset.schema.names, wanted)]

    def blocks(chosen: Sequence[str]) -> Blocks:
        def read() -> Iterator[pa.RecordBatch]:
            return iter(dataset.scanner(columns=list(chosen), batch_size=BLOCK, use_threads=False).to_batches())

        return Blocks(pa.schema([dataset.schema.field(name) for name in chosen]), read)

    engine.con.register("records", Stream(blocks(names)))
    return engine.table("records").select(*names), blocks


def _list_files(system: pyarrow.fs.FileSystem, path: str) -> list[str]:
    """List the files of a path, in order; `*` stands for a part of a name, and `**` for any folders."""
    folder, globbed, _ = path.partition("*")
    if globbed:
        below = system.get_file_info(pyarrow.fs.FileSelector(folder.rpartition("/")[0], recursive=True))
        deep, depth = "**" in path, path.count("/")
        fitting = (file.path for file in below if file.is_file and fnmatchcase(file.path, path))
        files = sorted(name for name in fitting if deep or name.count("/") == depth)
        require(len(files) > 0, "no file of the object store has such a name")
        return files
    info = system.get_file_info(path)
    if info.type == pyarrow.fs.FileType.File:
        return [path]
    if info.type == pyarrow.fs.FileType.NotFound:
        raise InputError("there is no such file or folder in the object store")
    entries = system.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
    files = sorted(file.path for file in entries if file.is_file and is_data(file.path.removeprefix(path).strip("/")))
    if not files or not all(name.endswith((".parquet", ".pq")) for name in files):
        raise InputError("a folder of an object store holds Parquet files (.parquet), and nothing else that is data")
    return files


T = TypeVar("T")
BlockReader = Callable[[Sequence[str]], Blocks | None]

EMBEDDED = ("sqlite", "duckdb")
"""Databases in a file."""
SERVERS = (
    "athena", "bigquery", "clickhouse", "databricks", "druid", "exasol", "flink", "impala", "materialize", "mssql",
    "mysql", "oracle", "postgres", "postgresql", "risingwave", "sc", "singlestoredb", "snowflake", "spark", "trino",
)  # fmt: skip
"""Other databases that Ibis reads; engines in this process (such as `datafusion`) could spill records anywhere."""
FAILURE_HINTS = {
    "AnalysisException": "has its session been stopped, and are there such a catalog, schema and table?",
    "ArrowInvalid": "is it whole, and if it is CSV, has every row as many fields as the header?",
    "AttributeError": "if it is of Spark, has its session been stopped?",
    "BadGzipFile": "is it packed, as its name says?",
    "BinderException": "are the names of its columns all different?",
    "CannotCoerce": "has a column a type such as money or oid? Cast it to text or to numbers, in a view of the table.",
    "ConversionException": "do its columns have the types that the schema needs?",
    "DatabaseError": "is it whole?",
    "DatatypeMismatch": "is a column an enum? Cast it to text, in a view of the table.",
    "EOFError": "is it whole?",
    "Error": "is it whole?",
    "InvalidInputException": "is it whole UTF-8 text, and has every row as many fields as the header?",
    "IOException": "is it whole, and of the format its name says?",
    "OperationalError": "is the database there, and does it let you in?",
    "KeyError": "do its columns hold text, numbers or logical values?",
    "NotImplementedException": "do its columns hold text, numbers or logical values?",
    "ParseException": "is it Spark 4 or newer? Earlier ones have no collations.",
    "Py4JJavaError": "do the workers run, and is every file of the table there?",
    "PySparkRuntimeError": "does its Java run, and has the session not been stopped?",
    "OutOfMemoryException": "is a cell very large, or no room left for what does not fit into memory?",
    "UnicodeDecodeError": "is it text in the declared encoding (UTF-8 if there is none), not packed?",
    "error": "is it packed, as its name says, and whole?",
    "ValueError": "do its columns hold text, numbers or logical values?",
}
"""Hints by the engine's kind of failure; its own text may quote a record."""
UNREADABLE = "the records could not be read to the end"
FRAME_HINT = "; does a column mix types, such as 1 and '1'? Cast each to text or to numbers, under a name of its own"
STORE_HINT = "is it Parquet, is its place right, and are credentials where Arrow looks for them?"
SERVER_HINT = "does the server answer, and are its name, port, user, password and base right?"


@dataclass(frozen=True, eq=False, repr=False)
class Local:
    """A source that can be read in this process, in blocks of Arrow, and the expression that it stands for.

    Args:
        table: the same records as an expression.
        blocks: from names of columns to the blocks; None where it turns out that the engine must read them.
        absent: texts that stand for missing values, which the expression has as NULL.
    """

    table: ir.Table
    blocks: BlockReader
    absent: tuple[str, ...] = ()


def open_source(
    source: Any, table: str | None, wanted: Iterable[str] | None = None, form: TextForm | None = None
) -> tuple[ir.Table, bool, Local | None]:
    """Open any source, as `read_records` takes it, as an expression of Ibis.

    Args:
        source: path, glob, open binary file, frame, Arrow table or data set, Ibis table, frame of Spark, or database
            URL.
        table: its name, where the source is a database, or a workbook with several sheets.
        wanted: columns to read; None reads all.
        form: of text.

    Returns:
        (an expression over these columns, of which nothing but column names and types is read; whether its text is
        compared byte by byte; files and frames as blocks). A database may have columns whose collation takes different
        texts for equal; files and frames have not.

    Raises:
        InputError: the source cannot be opened, or a column is not there or there twice.
    """
    foreign = isinstance(source, ir.Table) or is_spark_frame(source) or _find_scheme(source) not in (None, *STORES)
    names = None if wanted is None else tuple(wanted)
    engine = open_engine()
    expression, blocks = _guard(
        lambda: _open(engine, source, table, names, form or TextForm()), "the records cannot be read", engine
    )
    lost = set(names or ()) - set(expression.columns)  # an engine may end a name at NUL
    require(not lost, f"no column can be called {shown(min(lost, default=''))} there; rename it, in the schema too")
    if foreign:
        engine = engine_of(expression) or "this engine"
        require_known(engine)
        if engine == "pyspark":
            hush()
    return expression, not foreign, None if blocks is None else Local(expression, blocks)


def guarded_read(read: Callable[[], T], table: ir.Table | None = None) -> T:
    """Read records of a table; a failure is an `InputError` without a value."""
    return _guard(read, UNREADABLE, None if table is None else table.get_backend())


def explain_source(table: ir.Table) -> str:
    """Explain by a look at a text file why its records do not fit, without a value; empty without a reason.

    Args:
        table: of `open_source`, or an expression over it.

    Returns:
        The end of a message, for the curator.
    """
    backends = table._find_backends()[0]
    return getattr(backends[0], "look", str)() if backends else ""


def arrow(expression: ir.Table) -> pa.Table:
    """Run an expression.

    Args:
        expression: over records.

    Returns:
        Its rows.

    Raises:
        InputError: the engine failed; the message has no value.
    """
    return guarded_read(expression.to_pyarrow, expression)


def arrow_blocks(expression: ir.Table, size: int) -> Iterator[pa.Table]:
    """Run an expression, and yield its rows a block at a time; the engine holds few of them.

    Args:
        expression: over records.
        size: rows of a block.

    Returns:
        Blocks of this size, the last one shorter, perhaps empty.

    Raises:
        InputError: as of `arrow`.
    """
    batches = guarded_read(lambda: _read_batches(expression, size), expression)
    rest = expression.schema().to_pyarrow().empty_table()
    while (batch := guarded_read(partial(next, batches, None), expression)) is not None:
        rest = pa.concat_tables([rest, pa.Table.from_batches([batch])])
        while len(rest) >= size:
            yield rest.slice(0, size)
            rest = rest.slice(size)
    yield rest


def _read_batches(expression: ir.Table, size: int) -> Iterator[pa.RecordBatch]:
    """Read the numbers that an engine returns as they come: Ibis would read all rows of SQLite or Spark at once."""
    engine, schema = expression.get_backend(), expression.schema().to_pyarrow()
    if engine.name not in (*EMBEDDED, "pyspark"):
        return iter(expression.to_pyarrow_batches(chunk_size=size))
    query = engine.compile(expression)
    if engine.name == "duckdb":
        return (batch.cast(schema) for batch in query_batches(engine, query, size))
    cursor = engine.raw_sql(query)
    # Spark yields a partition at a time, and its executors need no Python.
    rows = iter(cursor.toLocalIterator() if engine.name == "pyspark" else cursor)
    batches = iter(lambda: list(islice(rows, size)), [])
    columns = (list(map(pa.array, zip(*batch, strict=True), schema.types)) for batch in batches)
    return (pa.RecordBatch.from_arrays(batch, schema=schema) for batch in columns)


def _guard(
    read: Callable[[], T], failure: str, engine: Any = None, hint: str = "look at it with a tool of your own."
) -> T:
    """Read behind `read_guarded` with hints by kind of failure; `hint` is for unknown kinds, `engine` may explain."""
    note = "The engine's own message may quote a record and is not shown"
    try:
        return read_guarded(read, failure, lambda kind: f"; {FAILURE_HINTS.get(kind, hint)} {note}")
    except InputError as error:
        reason = str(error)
    raise InputError(reason + getattr(engine, "look", str)())


def _find_scheme(source: Any) -> str | None:
    """Find the scheme of a URL; None for anything else."""
    return source.partition("://")[0] if isinstance(source, str) and "://" in source else None


def _open(
    engine: Any, source: Any, table: str | None, wanted: tuple[str, ...] | None, form: TextForm
) -> tuple[ir.Table, BlockReader | None]:
    """Open any source as a table of Ibis, and find how to read it in blocks."""
    if isinstance(source, str | Path) and _find_scheme(source) is None:
        return open_file(engine, str(source), table, wanted, form)
    if hasattr(source, "read"):
        return open_table(engine, parse_csv(source, wanted, form))
    require(not form.options, f"{', '.join(form.options)}: only a text file has such a form; leave it out")
    scheme = _find_scheme(source)
    if scheme not in (None, *STORES):
        return _select_columns(_connect(source, table), wanted), None
    if table is not None:
        raise InputError("only a database URL takes the name of a table")
    if scheme is not None:
        return _guard(partial(open_store, engine, source, wanted), "the records cannot be read", hint=STORE_HINT)
    if isinstance(source, ir.Table):
        return _select_columns(source if _is_bound(source) else engine.create_view("records", source), wanted), None
    if is_dataset(source):
        return open_dataset(engine, source, wanted)
    if is_spark_frame(source):
        return _select_columns(spark_table(source), wanted), None
    if hasattr(source, "__arrow_c_stream__") or is_lazy(source):
        return open_table(engine, _read_frame(source, wanted))
    raise InputError(
        f"cannot read records from an object of type {type(source).__name__}; give a path, a frame, an Arrow table or "
        "a URL"
    )


def _read_frame(source: Any, wanted: tuple[str, ...] | None) -> pa.Table:
    """Read a frame or stream; a stream can be read once, and nothing but its emptiness shows that it was."""
    frame = read_guarded(partial(arrow_table, source, wanted), "the frame cannot be read", lambda _kind: FRAME_HINT)
    if not (len(frame) or hasattr(source, "__len__") or is_lazy(source)):
        raise InputError("the stream has no records: it was read before, or is empty; give a table or a new stream")
    return frame.select(positions(frame.column_names, wanted))


def _select_columns(table: ir.Table, wanted: tuple[str, ...] | None) -> ir.Table:
    """Select the wanted columns of a table of Ibis."""
    return table.select(*[table.columns[at] for at in positions(table.columns, wanted)])


def _is_bound(table: ir.Table) -> bool:
    """True if a table of Ibis is in a database; one in memory would run on an engine that Ibis makes."""
    leaves = table.op().find(ops.PhysicalTable)
    return not all(isinstance(leaf, ops.InMemoryTable) for leaf in leaves)


def _connect(url: str, table: str | None) -> ir.Table:
    """Open a table of a database; never show a part of the URL that may be a password."""
    spelled, _, address = url.partition("://")
    # The ledger's URLs name SQLAlchemy's driver; Ibis has one driver for each engine.
    kind = spelled.removesuffix("+psycopg") if spelled.startswith("postgres") else spelled
    if kind not in (*EMBEDDED, *SERVERS):
        raise InputError(
            f"cannot read records from {shown(kind + '://')}; give a path or glob of files on this machine, the URL of "
            "Parquet files in an object store, such as s3://bucket/visits, or that of a database, such as "
            "postgresql://host/base, duckdb:///file.db or sqlite:///file.db"
        )
    if table is None:
        raise InputError("a database URL needs the name of its table")
    base = _guard(
        lambda: _open_base(kind, address) if kind in EMBEDDED else _open_server(f"{kind}://{address}", kind),
        "the database cannot be opened",
        hint=FAILURE_HINTS["IOException"] if kind in EMBEDDED else SERVER_HINT,
    )
    return _find_table(base, table)


def _find_table(base: Any, name: str) -> ir.Table:
    """Find a table by its name, which may contain dots, or have its schema and catalog before it."""
    *qualifiers, last = name.split(".")
    wanted: list[tuple[str, str | tuple[str, ...] | None]] = []
    if not qualifiers or base.name != "pyspark":  # PySpark resolves a dotted name in parts, and then cannot read it
        wanted.append((name, None))
    if qualifiers:
        wanted.append((last, qualifiers[0] if len(qualifiers) == 1 else tuple(qualifiers)))
    for table, database in wanted:
        try:
            return base.table(table, database=database)
        except ibis.common.exceptions.TableNotFound:
            pass
    if base.name != "pyspark":  # PySpark's session may be shared
        base.disconnect()
    raise InputError(
        f"the database has no table {shown(name)} that this user may read; write that of a schema as schema.table"
    )


def _open_server(url: str, kind: str) -> Any:
    """Connect to a server."""
    try:
        return open_spark(url) if kind in SPARK else ibis.connect(url)
    except ImportError:
        extra = "spark" if kind in SPARK else "postgres" if kind.startswith("postgres") else None
        wanted = f"'.[{extra}]' in a clone of discreet" if extra else f"'ibis-framework[{kind}]'"
        wanted += ", and 'pyspark[connect]'" if kind == "sc" else ""
    raise InputError(f"reading from {kind} needs its driver: pip install {wanted}")


def _open_base(kind: str, address: str) -> Any:
    """Open a database file, for reading only; three slashes before its name are relative and four absolute."""
    path = Path(address.removeprefix("/"))
    if not path.is_file():
        absent = f"no file {shown_path(path)}; " if address.startswith("/") and not {"@", "?"} & set(address) else ""
        raise InputError(f"{absent}{kind}:/// and a file's name are wanted: relative so, absolute with a fourth slash")
    if kind == "duckdb":
        return open_engine(path)
    try:
        return ibis.sqlite.from_connection(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True))
    except ImportError:
        pass
    raise InputError("reading from sqlite needs its driver: pip install '.[sqlite]' in a clone of discreet")
