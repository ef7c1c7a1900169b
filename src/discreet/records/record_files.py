"""Record files: Parquet, text such as CSV, and workbooks as tables of an engine that reads only the wanted columns.

This file owns formats and their limits. The first line of a CSV file may be a record, so no name of a column is ever
shown that the caller has not said first.
"""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from discreet.errors import InputError, require, shown, shown_path
from discreet.records.engine import query_batches
from discreet.records.text_form import DELIMITERS, PIECE, SEEN, TextForm, explain_form, find_form, open_text
from discreet.records.values import PREVIOUS, spell
from discreet.util.lazy_imports import lazy_import

calamine = lazy_import("python_calamine")
"""Imported lazily: only workbooks need it."""

COLUMN_LIMIT = 2**14
"""Most columns of a file, as in a spreadsheet: the engine takes about 0.1 ms for each, wanted or not."""
HEADER_LIMIT = 2**20
"""Most bytes of the first line of a CSV file, unpacked."""
FOOTER_LIMIT = 2**25
"""Most bytes of a Parquet file's footer, which is parsed whole: about 300 bytes for each column of each row group."""
BLOCK = 2**16
"""Most records of a block of Arrow."""
LINE_LIMIT = 2 * 10**6
"""Most bytes of a line of a CSV file: the engine's own limit, which its parallel reader does not always keep."""
MEASURED_STRIDE = 2**24
"""Bytes between the offsets at which line lengths are tested: half of the engine's buffer, so that no line that it
could lose lies between two of them."""

END_OF_LINE = re.compile(rb"\r\n|\r|\n")
WORKBOOK_LIMIT = 2**29
"""Most bytes of a workbook, unpacked: it is read into memory."""
FILE_READERS: Mapping[str, str] = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz"), "csv"),
    ".xlsx": "workbook",
}


@dataclass(frozen=True)
class Blocks:
    """Columns of records as Arrow batches.

    Args:
        schema: names and types.
        read: the blocks, from the first record on.
    """

    schema: pa.Schema
    read: Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, eq=False)
class Stream:
    """Records as an Arrow stream that an engine can read repeatedly.

    A data set that DuckDB 2.0 scans by itself ends the process, or is waited for without end, where Arrow fails at a
    damaged file.

    Args:
        blocks: the records, anew for each pass.
    """

    blocks: Blocks

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Make a new stream of all records for Arrow's PyCapsule interface."""
        reader = pa.RecordBatchReader.from_batches(self.blocks.schema, self.blocks.read())
        return reader.__arrow_c_stream__(requested_schema)


def open_file(
    engine: Any, path: str, sheet: str | None, wanted: tuple[str, ...] | None, form: TextForm
) -> tuple[ir.Table, Callable[[Sequence[str]], Blocks | None]]:
    """Open a file or a glob of files; CSV fields stay text, so that no engine guesses the type of a state.

    Args:
        engine: of `open_engine`; it gets a method `look` that explains why a text file cannot be read.
        path: of a Parquet, text or workbook file, a folder of files of one format, or a glob of them.
        sheet: of a workbook; None takes the only one.
        wanted: columns to read; None reads all.
        form: of text.

    Returns:
        A table of the engine; and the blocks of some of its columns, by their names.

    Raises:
        InputError: no such file, no known format, a header or footer beyond the limits, or a column that is not there.
        Exception: the engine's own; it may quote a record.
    """
    files, kind = _find_files(path)
    # DuckDB would read brackets in a path as a pattern, and a folder `x=1` as a column.
    literal = "[" + ", ".join(_quote_text(re.sub(r"([*?[])", r"[\1]", name)) for name in files) + "]"
    if kind == "workbook":
        return open_table(engine, pa.concat_tables(_read_workbook(name, sheet, wanted, form) for name in files))
    require(sheet is None, "only a database URL or a workbook takes the name of a table")
    if kind == "parquet":
        require(not form.options, f"{', '.join(form.options)}: a Parquet file has no such form; leave it out")
        return _make_view(engine, *_plan_parquet(literal, files[0], wanted)), partial(_plan_parquet_blocks, files)
    engine.look = partial(explain_form, files[0], form, wanted or ())
    headers = {_read_header(name, form) for name in files}
    if len(headers) > 1:
        raise InputError(f"the files of {shown_path(path)} differ in their headers")
    # The engine reads UTF-8 to its end, and numbers with a point.
    delimiter, names = headers.pop()
    if form.options.keys() - {"delimiter", "quote"}:
        return _open_rewritten(engine, files, names, wanted, form)
    for name in files:
        if _has_long_line(name):
            raise InputError(f"{shown_path(name)} has a line of more than {LINE_LIMIT:,} bytes; is it CSV?")
        with open_text(name) as file:
            quotes = _Quotes(delimiter, form.quote)
            for piece in iter(partial(file.read, PIECE), b""):
                quotes.check(piece)
            quotes.check(b"")
    view = _make_view(engine, *_plan_csv(literal, delimiter, names, wanted, form))
    return view, partial(_plan_csv_blocks, engine)


def draft_form(path: str, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Draft the form of a text file by a look at it; see `find_form`.

    Args:
        path: of a file, a folder or a glob; of anything else nothing is found.
        wanted: names of columns that the header should have.

    Returns:
        Options of `read_records`, for the curator to review.
    """
    with suppress(InputError, OSError, EOFError):
        files, kind = _find_files(path)
        return find_form(files[0], wanted).options if kind == "csv" else {}
    return {}


def first_line(path: str, preamble: int) -> int | None:
    """Number the line of the first record of one text file; None for other sources."""
    return preamble + 2 if _find_format(path) == "csv" and Path(path).is_file() else None


def open_table(engine: Any, table: pa.Table) -> tuple[ir.Table, Callable[[Sequence[str]], Blocks]]:
    """View an Arrow table through an engine, and in blocks."""

    def blocks(names: Sequence[str]) -> Blocks:
        columns = table.select(list(names))
        return Blocks(columns.schema, lambda: iter(columns.to_batches(BLOCK)))

    return engine.create_view("records", ibis.memtable(table)), blocks


def _find_files(path: str) -> tuple[list[str], str | None]:
    """Find the files that a path names, and their format; refuse missing, empty and unknown ones."""
    if Path(path).is_dir():
        files = _list_folder(path)
        kinds = {_find_format(name) for name in files}
        if len(kinds) != 1 or None in kinds:
            raise InputError(
                f"folder {shown_path(path)} must hold files of one format and nothing else, .parquet or .csv; or name "
                "its files with a glob, such as 'folder/*.parquet'"
            )
        kind = kinds.pop()
    else:
        kind = _find_format(path)
        if kind is None:
            raise InputError(f"cannot tell the format of {shown_path(path)}; name it .parquet, .csv, .csv.gz or .xlsx")
        files = [path] if Path(path).is_file() else sorted(glob.glob(path, recursive=True))
    if not files or not all(Path(name).is_file() for name in files):
        raise InputError(f"no file {shown_path(path)}")
    if any(Path(name).stat().st_size == 0 for name in files):
        raise InputError(f"{shown_path(path)} is empty; a table needs at least a header")
    return files, kind


def _find_format(path: str) -> str | None:
    """Find the format that a file's name stands for."""
    return next((FILE_READERS[end] for end in sorted(FILE_READERS, key=len, reverse=True) if path.endswith(end)), None)


def _list_folder(path: str) -> list[str]:
    """List the files in a folder and below it, in order."""
    files = (file for file in Path(path).rglob("*") if file.is_file())
    return sorted(str(file) for file in files if is_data(file.relative_to(path).as_posix()))


def is_data(path: str) -> bool:
    """True if a file of a folder has records: Spark writes others beside them, called `_...` or `...`.

    Args:
        path: below the folder, its parts separated by slashes.

    Returns:
        True for data.

    Example:
        >>> is_data("year=2026/part-0.parquet"), is_data("_delta_log/0.json"), is_data(".crc")
        (True, False, False)
    """
    return not any(step[:1] in (".", "_") for step in path.split("/"))


def parse_csv(source: Any, wanted: Sequence[str] | None, form: TextForm) -> pa.Table:
    """Parse text with a header from an open binary file, into memory; every field as text, empty fields as NULL.

    Args:
        source: the file, read from where it stands to its end.
        wanted: columns to read; None reads all.
        form: of the text.

    Returns:
        The columns.

    Raises:
        InputError: a header beyond the limits, or a column that is not there.
        Exception: Arrow's own; it may quote a record.

    Example:
        >>> import os
        >>> lines = "age,smokes", "17,no", ",yes"
        >>> parse_csv(io.BytesIO(os.linesep.join(lines).encode()), ("age",), TextForm()).to_pydict()
        {'age': ['17', None]}
    """
    columns, names = _parse(pyarrow.csv.read_csv, source, wanted, form)
    return pa.table([form.rewrite(name, columns[at]) for at, name in enumerate(names)], names)


def _parse(
    parser: Callable[..., Any], source: Any, wanted: Sequence[str] | None, form: TextForm
) -> tuple[Any, list[str]]:
    """Parse text by one of Arrow's parsers: its result, and the names of the columns."""
    delimiter, names, pieces = _cut_header(source, form)
    chosen = positions(names, wanted)
    labels = [f"c{position}" for position in range(len(names))]
    columns = parser(
        io.BufferedReader(_Pieces(_cut_footer(pieces, form.footer), _Quotes(delimiter, form.quote))),
        read_options=pyarrow.csv.ReadOptions(column_names=labels, skip_rows=1, block_size=2 * LINE_LIMIT),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=delimiter,
            quote_char=form.quote or False,
            newlines_in_values=True,
            ignore_empty_lines=names[1:] != (),
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(labels, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
            include_columns=[labels[position] for position in chosen],
        ),
    )
    return columns, [names[position] for position in chosen]


def _open_rewritten(
    engine: Any, files: Sequence[str], names: Sequence[str], wanted: Sequence[str] | None, form: TextForm
) -> tuple[ir.Table, Callable[[Sequence[str]], Blocks]]:
    """Open text files that no engine reads as they are: each pass rewrites them, a block at a time."""

    def blocks(chosen: Sequence[str]) -> Blocks:
        schema = pa.schema([(name, pa.string()) for name in chosen])

        def read() -> Iterator[pa.RecordBatch]:
            for path in files:
                with open_text(path) as file:
                    for batch in _parse(pyarrow.csv.open_csv, file, chosen, form)[0]:
                        columns = [form.rewrite(name, batch[at]) for at, name in enumerate(chosen)]
                        yield pa.RecordBatch.from_arrays(columns, schema=schema)

        return Blocks(schema, read)

    chosen = [names[position] for position in positions(names, wanted)]
    engine.con.register("records", Stream(blocks(chosen)))
    return engine.table("records").select(*chosen), blocks


def _read_workbook(path: str, sheet: str | None, wanted: Sequence[str] | None, form: TextForm) -> pa.Table:
    """Read a sheet of a workbook into memory, its cells as those of CSV; a row without a cell is an empty line."""
    words = sorted(form.options.keys() - {"preamble", "footer"})
    require(not words, f"{', '.join(words)}: a workbook has no such form; leave it out")
    with zipfile.ZipFile(path) as packed:
        size = sum(member.file_size for member in packed.infolist())
    require(size <= WORKBOOK_LIMIT, f"{shown_path(path)} unpacks to more than {WORKBOOK_LIMIT:,} bytes")
    book = calamine.CalamineWorkbook.from_path(path)
    sheets = book.sheet_names
    known = sheet in sheets or (sheet is None and len(sheets) == 1)
    require(known, f"name the sheet of the workbook, which has {len(sheets)}: table = ..., in [source] or as an option")
    rows = book.get_sheet_by_name(sheet or sheets[0]).to_python(skip_empty_area=False)
    text = io.StringIO(newline="")
    csv.writer(text).writerows(map(spell, row) if any(cell != "" for cell in row) else () for row in rows)
    return parse_csv(io.BytesIO(text.getvalue().encode()), wanted, replace(form, delimiter=","))


def _fold(name: str) -> str:
    """Write a name without blanks and capitals."""
    return "".join(name.split()).casefold()


def positions(names: Sequence[str], wanted: Sequence[str] | None) -> list[int]:
    """Find the positions of the wanted columns.

    Args:
        names: of all columns.
        wanted: names in any order; None wants all.

    Returns:
        Their positions, in the order wanted.

    Raises:
        InputError: one is not there, or there twice but for capitals. Only wanted names are shown: in a file without a
            header the others are the values of a record.

    Example:
        >>> positions(["age", "smokes", "note"], ["smokes", "age"])
        [1, 0]
    """
    _refuse_wide(len(names))
    at: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        at.setdefault(name.lower(), []).append(position)
    if wanted is None:
        if len(at) < len(names):
            raise InputError(
                "two columns of the records have one name (capitals do not count); rename one of them, and if the file "
                "has no header, write the names of its columns into a first line"
            )
        return list(range(len(names)))
    present = set(names)
    absent = [name for name in wanted if name not in present]
    if absent:
        before = any(name.startswith(PREVIOUS) for name in absent)
        raise InputError(
            f"the records have no column {', '.join(map(shown, absent[:5]))} among their {len(names)}; "
            + (
                f"{PREVIOUS}NAME is what NAME is in the record before: say which column puts the records of a unit in "
                "order (order_column, --order-column)"
                if before
                else "names must be equal in case and blanks"
                + (
                    ", and one is not"
                    if {*map(_fold, absent)} & {*map(_fold, names)}
                    else ", and a CSV file needs a header"
                )
            )
        )
    twice = [name for name in wanted if len(at[name.lower()]) > 1]
    if twice:
        raise InputError(
            f"two columns of the records have one name (capitals do not count): {', '.join(map(shown, twice[:5]))}; "
            "rename one of them"
        )
    return [at[name.lower()][0] for name in wanted]


def _refuse_wide(columns: int) -> None:
    """Refuse more columns than the limit."""
    if columns > COLUMN_LIMIT:
        raise InputError(f"the records have {columns:,} columns, more than the limit of {COLUMN_LIMIT:,}")


def _make_view(engine: Any, columns: Sequence[tuple[str, str]], reader: str) -> ir.Table:
    """Make a view in the engine from a reader and (expression, name) of each column."""
    listed = ", ".join(f"{expression} AS {_quote_name(name)}" for expression, name in columns)
    engine.con.execute(f"CREATE TEMP VIEW records AS SELECT {listed} FROM {reader}")
    return engine.table("records")


def _plan_parquet(literal: str, first: str, wanted: tuple[str, ...] | None) -> tuple[list[tuple[str, str]], str]:
    """Find the columns and the reader of Parquet files."""
    with open(first, "rb") as file:
        file.seek(-min(8, Path(first).stat().st_size), io.SEEK_END)
        if int.from_bytes(file.read(4), "little") > FOOTER_LIMIT:
            raise InputError(f"the footer of {shown_path(first)} is damaged, or larger than {FOOTER_LIMIT:,} bytes")
    footer = pyarrow.parquet.read_metadata(first)
    _refuse_wide(footer.num_columns)
    names = footer.schema.to_arrow_schema().names
    chosen = [names[position] for position in positions(names, wanted)]
    return [(_quote_name(name), name) for name in chosen], f"read_parquet({literal}, hive_partitioning = false)"


def _plan_parquet_blocks(paths: Sequence[str], names: Sequence[str]) -> Blocks | None:
    """Plan reading columns of Parquet files, text as dictionary indices; None if files differ in types."""
    schemas = [pyarrow.parquet.read_schema(path) for path in paths]
    if any(schema.names.count(name) != 1 for schema in schemas for name in names):
        return None
    kinds = [pa.schema([(name, schema.field(name).type) for name in names]) for schema in schemas]
    if any(kind != kinds[0] for kind in kinds):
        return None
    text = [name for name in names if kinds[0].field(name).type in (pa.string(), pa.large_string())]

    def read() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with pyarrow.parquet.ParquetFile(path, read_dictionary=text, pre_buffer=False) as file:
                # Threads would cost a third more time than they save on such small batches.
                yield from file.iter_batches(BLOCK, columns=list(names), use_threads=False)

    return Blocks(kinds[0], read)


def _plan_csv_blocks(engine: Any, names: Sequence[str]) -> Blocks:
    """Plan reading columns of the view of CSV files, as the engine parses them, once."""
    query = f"SELECT {', '.join(map(_quote_name, names))} FROM records"
    schema = pa.schema([(name, pa.string()) for name in names])
    return Blocks(schema, lambda: iter(query_batches(engine, query, BLOCK)))


def _plan_csv(
    literal: str, delimiter: str, names: tuple[str, ...], wanted: tuple[str, ...] | None, form: TextForm
) -> tuple[list[tuple[str, str]], str]:
    """Find the columns and the reader of CSV files."""
    # Columns are called after their positions: names that nobody declared reach no engine. Nothing is detected from the
    # rows: a guess could take a record for a header, or "yes" for a logical value.
    kinds = ", ".join(f"'c{position}': 'VARCHAR'" for position in range(len(names)))
    quote = _quote_text(form.quote)
    reader = (
        f"read_csv({literal}, columns = {{{kinds}}}, auto_detect = false, header = true, "
        f"delim = {_quote_text(delimiter)}, quote = {quote}, escape = {quote}, nullstr = '', "
        "hive_partitioning = false)"
    )
    return [(f"c{position}", names[position]) for position in positions(names, wanted)], reader


def _has_long_line(path: str) -> bool:
    """True if a line is so long that the engine could lose it; DuckDB 2.0 does so silently beyond 32 MB.

    Of a file as it is a few bytes are read here and there; a packed one is unpacked once.
    """
    if path.endswith(".gz"):
        with gzip.open(path, "rb") as file:
            length = 0
            while (piece := file.read(2**20)) and length <= LINE_LIMIT:
                end = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
                length = len(piece) - end - 1 if end >= 0 else length + len(piece)
            return length > LINE_LIMIT
    with open(path, "rb") as file:
        size = file.seek(0, io.SEEK_END)
        for offset in range(MEASURED_STRIDE, size, MEASURED_STRIDE):
            file.seek(offset)
            if not any(END_OF_LINE.search(file.read(piece)) for piece in (2**12, LINE_LIMIT)) and file.tell() < size:
                return True
    return False


def _quote_text(value: str) -> str:
    """Quote a text for SQL."""
    return "'" + value.replace("'", "''") + "'"


def _quote_name(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


# ---------------------------------------------------------------------------------------------------- headers of CSV


class _Quotes:
    """Refuses text in which a quote stands inside a field, or is not closed: one record could take others with it.

    Readers differ in what such a quote means. With every opening quote at the beginning of a field and every closing
    one at its end (two in a field are one that is meant), all of them read the same records, and a record that is
    changed changes no other.
    """

    def __init__(self, delimiter: str, quote: str) -> None:
        self.ends = np.zeros(256, bool)
        self.ends[list((delimiter[:1] + "\r\n" + quote).encode())] = True
        self.quote, self.count, self.last = quote.encode(), 0, b""

    def check(self, piece: bytes) -> None:
        """Check the next piece of the text; an empty one ends it.

        Raises:
            InputError: a quote inside a field, or one that is not closed.
        """
        if not self.quote:
            return
        start = self.last or b"\n"
        text = start + (piece.removeprefix(codecs.BOM_UTF8) if not self.last else piece) + (b"" if piece else b"\n")
        bytes_of = np.frombuffer(text, np.uint8)
        # The last byte waits for the one after it.
        places = np.flatnonzero(bytes_of[1:-1] == self.quote[0]) + 1
        opening = (self.count + np.arange(len(places))) % 2 == 0
        apart = self.ends[bytes_of[np.where(opening, places - 1, places + 1)]]
        advice = 'if none stand around texts: quote = ""'
        require(bool(apart.all()), f"a quote stands inside a text, where it may join records; {advice}")
        self.count += len(places)
        self.last = text[-2:]
        require(bool(piece) or self.count % 2 == 0, f"a quote is not closed; {advice}")


class _Pieces(io.RawIOBase):
    """File of pieces of text that an iterator yields, whose quotes are checked."""

    def __init__(self, pieces: Iterator[bytes], quotes: _Quotes) -> None:
        self.pieces, self.rest, self.quotes = pieces, b"", quotes

    def readable(self) -> bool:
        """True: the file can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes into a buffer."""
        self.rest = self.rest or next(filter(None, self.pieces), b"")
        piece, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
        self.quotes.check(piece)
        buffer[: len(piece)] = piece
        return len(piece)


def _read_header(path: str, form: TextForm) -> tuple[str, tuple[str, ...]]:
    """Read delimiter and column names of a text file."""
    with open_text(path) as file:
        return _cut_header(file, form)[:2]


def _cut_header(file: Any, form: TextForm) -> tuple[str, tuple[str, ...], Iterator[bytes]]:
    """Cut the preamble: delimiter, column names, and the text from the header on, as UTF-8."""
    pieces = iter(partial(file.read, PIECE), b"")
    if codecs.lookup(form.encoding).name != "utf-8":
        pieces = (text.encode() for text in codecs.iterdecode(pieces, form.encoding))
    head = b""
    while len(head) <= HEADER_LIMIT and (piece := next(pieces, b"")):
        head += piece
    ends = list(islice(END_OF_LINE.finditer(head), form.preamble + 1))
    require(len(ends) >= form.preamble, "the file ends before the header; is its preamble shorter than declared?")
    start = ends[form.preamble - 1].end() if form.preamble else 0
    line = head[start : ends[-1].start()] if len(ends) > form.preamble else head[start:]
    if len(line) > HEADER_LIMIT:
        raise InputError(f"the first line has more than {HEADER_LIMIT:,} bytes; is it CSV with a header?")
    delimiter, names = _find_dialect(line.decode("utf-8-sig"), form)
    return delimiter, names, chain([head[start:]], pieces)


def _cut_footer(pieces: Iterator[bytes], footer: int) -> Iterator[bytes]:
    """Cut the last lines, blank ones at the very end not counted; the rest ends with a line end."""
    held, room = b"", SEEN if footer else 1
    for piece in pieces:
        held += piece
        yield held[:-room]
        held = held[-room:]
    if footer:
        lines = held.rstrip(b"\r\n")
        starts = [end.end() for end in END_OF_LINE.finditer(lines)]
        require(len(starts) >= footer, "the file has fewer lines below its header than the declared footer")
        held = lines[: starts[-footer]]
    yield held if held[-1:] in (b"\n", b"\r") else held + b"\n"


def _find_dialect(line: str, form: TextForm) -> tuple[str, tuple[str, ...]]:
    """Find delimiter and column names in the first line; an unnamed column is named by its position."""
    if "\0" in line:
        raise InputError(
            "the first line holds a NUL byte; a CSV file is UTF-8 text, and its first line names the columns"
        )
    if form.quote and line.count(form.quote) % 2:
        raise InputError("the first line has a quote that is not closed; it must name all columns")
    splits = {char: _split_line(line, char, form.quote) for char in (*form.delimiter, *DELIMITERS)}
    best = max(DELIMITERS, key=lambda char: len(splits[char]))
    names = splits[delimiter := form.delimiter or best]
    require(
        len(names) != 1 or len(splits[best]) <= 1,
        f"with the delimiter {shown(delimiter)} the first line names one column, with {shown(best)} "
        f"{len(splits[best])}: declare {shown(best)}, or leave the delimiter out to have it found; nothing was spent",
    )
    if not names:
        raise InputError("the first line names no columns, or has a name that is too long; is it CSV with a header?")
    return delimiter, tuple(name or f"column {position}" for position, name in enumerate(names, 1))


def _split_line(line: str, delimiter: str, quote: str) -> list[str]:
    """Split a line into fields; none if one is longer than the CSV reader accepts."""
    if not quote:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, quotechar=quote), [])
    except csv.Error:
        return []
