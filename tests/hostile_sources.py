"""Generators for every reader of a table: CSV, Parquet, Arrow, SQLite, DuckDB, ledgers, records that a server sends.

Bytes are given as texts of Latin 1. What a reader refuses may quote no record: `CANARY` stands in cells and in names
that nobody declared.
"""

from __future__ import annotations

import gzip
import io
import random
import sqlite3
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import discreet as dc
from discreet.queries.synthetic import make_arrow_schema
from discreet.server.http_client import RecordStream
from discreet.server.remote_posterior import _read_batches
from fuzzing import damaged_text, odd_word
from sources import CANARY, workbook

__all__ = [
    "COSTLY",
    "NETWORK",
    "PLACE",
    "SHAPE",
    "TABLE_READERS",
    "damaged_bytes",
    "from_bytes",
    "read_table",
    "warm_up",
]

PLACE = Path(tempfile.gettempdir()) / f"hostile-{random.SystemRandom().getrandbits(64):x}"
"""This process's file."""
VARIABLES = (dc.Variable("x", ("a", "b")), dc.Variable("y", ("0", "1")), dc.Variable("z", bounds=(0, 9), bins=(5,)))
NETWORK = dc.Network(VARIABLES, {"x": (), "y": ("x",), "z": ("y",)})
LARGE = "a" * 3 * 10**5
"""A cell or a name that is large, and within what is read."""


def read_table(source: Any, network: dc.Network = NETWORK, *, check: bool = True, **options: Any) -> dc.results.Counts:
    """All that a curator does with a table."""
    policy: dict[str, Any] = {"missing": "drop", "out_of_bounds": "clip", "na_values": ["?"]}
    records = dc.read_records(source, network.schema, **policy, **options)
    if check:
        dc.check(records)
    return dc.count(records, network)


def read_file(path: Path, source: Any = None, **options: Any) -> None:
    """Read a table of a file; every fourth is looked at for faults, which takes as long again."""
    read_table(path if source is None else source, check=crc32(path.read_bytes()) % 4 == 0, **options)


def from_bytes(read: Callable[[Path], object], ending: str) -> Callable[[str], None]:
    """A reader of bytes that reads them from a file; no message may hold the canary."""

    def read_bytes(text: str) -> None:
        path = PLACE.with_suffix(ending)
        path.write_bytes(text.encode("latin-1"))
        try:
            read(path)
        except dc.DiscreetError as error:
            assert CANARY not in str(error)
            raise
        finally:
            for left in path.parent.glob(f"{path.name}*"):
                left.unlink()

    return read_bytes


def damaged_bytes(rng: random.Random, raw: bytes, share: float = 0.7) -> bytes:
    """Bytes, mostly with some that are others, cut or doubled; more of them at both ends, where formats begin."""
    if rng.random() > share:
        return raw
    found = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 40))):
        reach = rng.choice((len(found), len(found), 100, 500))
        at = rng.randrange(min(reach, len(found)) or 1)
        at = at if rng.random() < 0.5 else max(0, len(found) - 1 - at)
        end = at + rng.choice((1, 1, 1, 2, 4, 8))
        kind = rng.randrange(8)
        if kind < 4:
            found[at:end] = rng.randbytes(end - at)
        elif kind < 6:
            found[at:end] = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * (end - at)
        elif kind == 6:
            found[at : at + 1] = bytes([found[at] ^ 1 << rng.randrange(8)]) if found else b"x"
        elif rng.random() < 0.3:
            found[at:end] = found[at:end] * 2 if rng.random() < 0.5 else b""
    if rng.random() < 0.06:
        del found[rng.randrange(len(found) or 1) :]
    return bytes(found)


# ----------------------------------------------------------------------------------------------------------------- CSV

CSV_MARKS = (",", ";", "\t", "|", '"', '""', "\n", "\r", "\r\n", "x", "y,z", "X", "\0", "\ufeff", CANARY, "\n\n", ",,")


def cell(rng: random.Random) -> str:
    """A field of CSV, mostly of the schema."""
    if rng.random() < 0.9:
        return rng.choice(("a", "b", "0", "1", "0.0", " 1", "5", "9.5", "", "?", '"a"', '"b"'))
    return odd_word(rng) + rng.choice(("", CANARY))


def head(rng: random.Random) -> list[str]:
    """Names of columns: those of the schema, and others, missing, twice, quoted, large, or called as engines call."""
    names = ["x", "y", "z", *(["other"] if rng.random() < 0.5 else [])]
    rng.shuffle(names)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        odd = rng.choice(("x", "X", "", " x", '"x"', '"x, y"', "c0", "rowid", "*", CANARY, odd_word(rng)))
        names.insert(rng.randrange(len(names) + 1), odd if rng.random() < 0.98 else LARGE)
    return names if rng.random() < 0.97 else names + [f"w{at}" for at in range(rng.choice((30, 300)))]


def csv_bytes(rng: random.Random) -> bytes:
    """A small CSV file: a grammar, and damage to what it says."""
    mark = rng.choice((",", ",", ";", "\t", "|"))
    names = head(rng)
    rows = [names, *([cell(rng) for _ in names] for _ in range(rng.choice((0, 1, 3, 8))))]
    if rng.random() < 0.01:
        rows[-1][rng.randrange(len(names))] = rng.choice((LARGE, '"' + LARGE + '\n"', '"' + LARGE))
    text = rng.choice(("\n", "\n", "\r\n")).join(mark.join(row) for row in rows)
    if rng.random() < 0.6:
        text = damaged_text(rng, text, CSV_MARKS)
    encoding = rng.choice(("utf-8",) * 12 + ("utf-8-sig", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp037"))
    raw = text.encode(encoding, "ignore" if encoding != "utf-8" else "surrogatepass")
    return damaged_bytes(rng, raw, 0.05)


def packed_bytes(rng: random.Random) -> bytes:
    """A CSV file packed by gzip, some of whose bytes are others; or two that follow each other, or one not packed."""
    raw = csv_bytes(rng)
    packed = rng.choice((gzip.compress(raw), gzip.compress(raw) * 2, gzip.compress(gzip.compress(raw))))
    return raw if rng.random() < 0.05 else damaged_bytes(rng, packed if rng.random() < 0.1 else gzip.compress(raw), 0.4)


def workbook_bytes(rng: random.Random) -> bytes:
    """A small workbook; half of them hold what no table has."""
    cells: list[list[object]] = [["x", "y", "z"], ["a", 0, 1.5], ["b", "1", 9]]
    if rng.random() < 0.5:
        cells += [["b", 1, None], [None, None, None], [CANARY, True, 9]]
    path = workbook(PLACE.with_suffix(".made.xlsx"), cells)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


# ------------------------------------------------------------------------------------------------------------- columns


def _uuids() -> pa.Array:
    """A column of an extension's type."""
    return pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([bytes(16), CANARY.encode().ljust(16), None], pa.binary(16))
    )


COLUMNS: tuple[Callable[[], pa.Array], ...] = (
    lambda: pa.array(["a", "b", None]),
    lambda: pa.array(["a", "b", "a"]).dictionary_encode(),
    lambda: pa.array(["0", "1", "1"], pa.large_string()),
    lambda: pa.array(["0", CANARY, ""], pa.string_view()),
    lambda: pa.array([CANARY, "?", ""], pa.large_string()),
    lambda: pa.array([0, 1, 5], pa.int8()),
    lambda: pa.array([0, 1, 2**64 - 1], pa.uint64()),
    lambda: pa.array([0, 1, None], pa.int32()).dictionary_encode(),
    lambda: pa.array([0.0, 1.0, 9.5], pa.float32()),
    lambda: pa.array([float("nan"), float("-inf"), 5e-324]),
    lambda: pa.array([0.0, 1.0, 2.0], pa.float16()),
    lambda: pa.array([True, False, None]),
    lambda: pa.array([0, 1, None], pa.decimal128(9, 2)),
    lambda: pa.array([0, 1, None], pa.decimal256(60, 2)),
    lambda: pa.array([[1], [], None], pa.list_(pa.int64())),
    lambda: pa.array([[CANARY], [], None], pa.large_list(pa.string())),
    lambda: pa.array([{CANARY: 1}, {CANARY: None}, None]),
    lambda: pa.array([[(CANARY, 1)], [], None], pa.map_(pa.string(), pa.int32())),
    lambda: pa.array([b"a", b"\xff", None], pa.binary()),
    lambda: pa.array([b"aa", b"bb", None], pa.binary(2)),
    lambda: pa.array([0, 1, 2], pa.timestamp("ms", "Asia/Tokyo")),
    lambda: pa.array([0, 1, 2], pa.time64("ns")),
    lambda: pa.array([0, 1, 2], pa.duration("s")),
    lambda: pa.array([0, 1, 2], pa.date32()),
    lambda: pa.nulls(3),
    _uuids,
)  # fmt: skip
"""Columns of three records, of every type."""
FIT = {"x": (0, 1), "y": (2, 5, 7, 8), "z": (2, 5, 8, 12)}
"""Those that hold a variable's states, or nearly."""


def table(rng: random.Random) -> pa.Table:
    """A table of odd columns; of no rows, no columns, or names that are twice there."""
    columns = {
        name: COLUMNS[rng.choice(fit)]() if rng.random() < 0.8 else rng.choice(COLUMNS)() for name, fit in FIT.items()
    }
    made = pa.table(columns)
    if rng.random() < 0.2:
        made = made.append_column(rng.choice(("other", "X", "x", "", CANARY, "\0", "é")), rng.choice(COLUMNS)())
    if rng.random() < 0.1:
        made = made.slice(0, rng.randrange(3))
    return made.select([]) if rng.random() < 0.02 else made


def parquet_bytes(rng: random.Random) -> bytes:
    """A small Parquet file of odd types, most of whose copies are damaged: pages, footer, magic words."""
    sink = io.BytesIO()
    while True:
        try:
            pq.write_table(
                table(rng), sink,
                compression=rng.choice(("none", "none", "snappy", "zstd", "gzip", "brotli", "lz4")),
                use_dictionary=rng.random() < 0.5, version=rng.choice(("1.0", "2.4", "2.6")),
                data_page_version=rng.choice(("1.0", "2.0")), row_group_size=rng.choice((1, 2, 3, None)),
                write_statistics=rng.random() < 0.5, store_schema=rng.random() < 0.5,
                write_page_checksum=rng.random() < 0.2,
            )  # fmt: skip
            break
        except (pa.ArrowException, OSError):
            sink = io.BytesIO()  # there is no such file
    raw = sink.getvalue()
    footer = int.from_bytes(raw[-8:-4], "little")
    if rng.random() < 0.3:  # what tells where everything is
        return raw[: -footer - 8] + damaged_bytes(rng, raw[-footer - 8 : -8], 1) + raw[-8:]
    return damaged_bytes(rng, raw)


def read_dataset(path: Path) -> None:
    """A data set of Arrow; that the caller cannot open it is the caller's error.

    It is of Parquet: bytes of Arrow's own format are no file that the package reads. Arrow does not check them, and the
    process ends at some that are damaged.
    """
    try:
        source = pyarrow.dataset.dataset(path, format="parquet")
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        source = None
    read_file(path, source if source is not None else object())


# ----------------------------------------------------------------------------------------------------------- databases


@cache
def sqlite_files() -> tuple[bytes, ...]:
    """Databases of SQLite: with a column of every kind, an index, a view of another, or declared types alone."""
    plain = [("ab"[at % 2], str(at % 2), at % 10) for at in range(40)]
    odd = [*plain, (None, 1, 0.5), (b"a", CANARY, "?"), ("?", "", 2**63 - 1)]
    made = []
    for script, rows in (
        ("CREATE TABLE t (x TEXT, y TEXT, z REAL)", plain),
        ("CREATE TABLE t (x TEXT NOT NULL, y INTEGER, z NUMERIC, other BLOB); CREATE INDEX i ON t (x)", plain),
        ("CREATE TABLE t (x TEXT PRIMARY KEY, y INTEGER, z FLOAT) WITHOUT ROWID", plain[:2]),
        ("CREATE TABLE s (x TEXT COLLATE NOCASE, y TEXT, z DECIMAL(3,1)); CREATE VIEW t AS SELECT * FROM s", plain),
        ("CREATE TABLE t (x, y, z)", plain),
        ("CREATE TABLE t (x TEXT, y TEXT, z DATETIME)", plain),
        ("CREATE TABLE t (x TEXT, y TEXT, z INTEGER)", odd),
    ):
        base = sqlite3.connect(":memory:")
        base.executescript(f"PRAGMA page_size = 512; {script}")
        base.executemany(f"INSERT INTO {'s' if 'TABLE s' in script else 't'} (x, y, z) VALUES (?, ?, ?)", rows)
        base.commit()
        made.append(base.serialize())
    return tuple(made)


@cache
def duckdb_file() -> bytes:
    """A database of DuckDB."""
    path = PLACE.with_suffix(".made")
    with duckdb.connect(path) as base:
        base.execute("CREATE TABLE t AS SELECT ['a', 'b'][1 + range % 2] AS x, range % 2 AS y, range % 9 AS z "
                     "FROM range(3000)")  # fmt: skip
    raw = path.read_bytes()
    path.unlink()
    return raw


@cache
def ledger_file() -> bytes:
    """The file of a ledger, with charges."""
    path = PLACE.with_suffix(".ledger")
    limit, promise = (dc.Guarantee(epsilon=one, delta=0, relation="replace", unit="record") for one in (3, 1))
    account = dc.Ledger(f"sqlite:///{path}").open("a", limit)
    for number in range(2):
        account.charge(f"{number:032x}", "laplace", promise)
    raw = path.read_bytes()
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()
    return raw


def read_ledger(path: Path) -> None:
    """Look at an account, and at what an auditor gets."""
    account = dc.Ledger(f"sqlite:///{path}").account("a")
    assert account.balance and account.charges is not None and account.verify() and account.export()


# -------------------------------------------------------------------------------------------------- what a server sends

SERVED = dc.Network.empty([dc.Variable("x", ("a", "b")), dc.Variable("z", bounds=(0, 9), bins=(5,))])
SHAPE = make_arrow_schema(SERVED.schema)


def sent_bytes(rng: random.Random) -> bytes:
    """Three synthetic records as a server sends them, mostly damaged, or of other columns."""
    made = pa.table([["a", "b", "a"], [1, 2, 3]], schema=SHAPE) if rng.random() < 0.9 else table(rng)
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, made.schema) as writer:
        writer.write_table(made)
    return damaged_bytes(rng, sink.getvalue())


def read_sent(path: Path) -> None:
    """Read what was sent, and look at each cell."""
    wire: Any = SimpleNamespace(url="http://localhost", timeout=1)
    response: Any = SimpleNamespace(iter_stream=lambda: [path.read_bytes()], close=lambda: None)
    remote: Any = SimpleNamespace(http=wire)
    for batch in _read_batches(remote, RecordStream(wire, response, 10**6), SHAPE, 3):
        assert len(batch.to_pylist()) == batch.num_rows


def text_of(make: Callable[[random.Random], bytes]) -> Callable[[random.Random], str]:
    """A generator of bytes as one of texts."""
    return lambda rng: make(rng).decode("latin-1")


def of_base(kind: str) -> Callable[[Path], object]:
    """A reader of a database's table."""
    return lambda path: read_file(path, f"{kind}:///{path}", table="t")


TABLE_READERS: dict[str, tuple[Callable[[random.Random], str], Callable[[str], None]]] = {
    "CSV": (text_of(csv_bytes), from_bytes(read_file, ".csv")),
    "packed CSV": (text_of(packed_bytes), from_bytes(read_file, ".csv.gz")),
    "CSV stream": (text_of(csv_bytes), from_bytes(lambda path: read_file(path, io.BytesIO(path.read_bytes())), ".csv")),
    "rewritten CSV": (
        text_of(csv_bytes),
        from_bytes(
            lambda path: read_file(path, encoding="cp1252", decimal=",", footer=path.stat().st_size % 2), ".csv"
        ),
    ),
    "Excel": (text_of(lambda rng: damaged_bytes(rng, workbook_bytes(rng), 0.4)), from_bytes(read_file, ".xlsx")),
    "Parquet": (text_of(parquet_bytes), from_bytes(read_file, ".parquet")),
    "Parquet of a store": (
        text_of(parquet_bytes),
        from_bytes(lambda path: read_file(path, f"file://{path}"), ".parquet"),
    ),
    "data set": (text_of(parquet_bytes), from_bytes(read_dataset, ".parquet")),
    "SQLite": (
        text_of(lambda rng: damaged_bytes(rng, rng.choice(sqlite_files()))),
        from_bytes(of_base("sqlite"), ".db"),
    ),
    "DuckDB": (text_of(lambda rng: damaged_bytes(rng, duckdb_file())), from_bytes(of_base("duckdb"), ".duckdb")),
    "ledger": (text_of(lambda rng: damaged_bytes(rng, ledger_file())), from_bytes(read_ledger, ".ledger")),
    "records sent": (text_of(sent_bytes), from_bytes(read_sent, ".sent")),
}
"""A generator for every reader of a table, and what reads its bytes."""
COSTLY = set(TABLE_READERS) - {"ledger", "records sent"}
"""Readers that make an engine and run queries: about a tenth of a second for an input."""


def warm_up() -> None:
    """Make the files that others are damaged copies of, and load what the first reading loads."""
    read_table(pa.table({"x": ["a"], "y": ["0"], "z": [1]}))
    assert sqlite_files() and duckdb_file() and ledger_file()
