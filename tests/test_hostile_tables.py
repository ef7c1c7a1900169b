"""Tables that somebody else made: every one is read, or refused in one plain line, with bounded memory and time.

Texts of records and names of columns that nobody declared hold the canary; no message may.
"""

from __future__ import annotations

import gc
import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.records.record_files import COLUMN_LIMIT, FOOTER_LIMIT, HEADER_LIMIT
from fuzzing import CPU_S, MIB, Report, read_all
from hostile_sources import read_table as read
from sources import CANARY, PEER_WARNINGS, alone

pytestmark = PEER_WARNINGS

NAMES = ("x", 'a "q"', "x; DROP TABLE records--", "*", "COLUMNS(*)", "../../etc/passwd", "two\nlines", "é雪", "k0", "n")
"""Names that a schema may declare and a table may have."""
GIB = 2**30


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """What is imported at the first reading is not the files' fault."""
    read(GOOD)
    gc.collect()


def sound(report: Report) -> None:
    """No fault, and no message that shows what it must not."""
    assert not report.faults, report
    assert not [message for message in report.messages if CANARY in message]


# ------------------------------------------------------------------------------------------------------- single cases


def packed(chunks: Iterator[bytes]) -> bytes:
    sink = io.BytesIO()
    with gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=1) as file:
        for chunk in chunks:
            file.write(chunk)
    return sink.getvalue()


def _bomb(first: bytes) -> bytes:
    """A gigabyte of one line after another."""
    return packed(piece for piece in (first, *[b"a" * 2**24] * (GIB // 2**24)))


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _wide(columns: int) -> pa.Table:
    return pa.table({"x": ["a"], **{f"{CANARY}{at}": ["b"] for at in range(columns - 1)}})


def _declared_rows(rows: int) -> bytes:
    """A Parquet file whose footer tells of more rows than there are."""
    raw = bytearray(_parquet(pa.table({"x": ["a"] * 1000, "y": ["0"] * 1000, "z": [1.0] * 1000})))
    footer = int.from_bytes(raw[-8:-4], "little")
    start = len(raw) - 8 - footer
    once, wanted = _varint(2 * 1000), _varint(2 * rows)
    tail = bytes(raw[start:-8]).replace(once, wanted)
    return bytes(raw[:start]) + tail + len(tail).to_bytes(4, "little") + b"PAR1"


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


X, LONG = dc.Variable("x", ("a", "b")), b"a" * (100 * MIB)
ROWS = b"a,0,1\n" * 10
GOOD = pa.table({"x": ["a", "b"], "y": ["0", "1"], "z": [1.0, 7.0]})

FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "header of a gigabyte, packed": ("r.csv.gz", lambda: _bomb(b"x,")),
    "line of a gigabyte, packed": ("r.csv.gz", lambda: _bomb(b"x,y,z\na,0,")),
    "header without an end": ("r.csv", lambda: b"x" + LONG),
    "cell of 100 MB": ("r.csv", lambda: b"x,y,z\n" + LONG + b",0,1\n"),
    "cell of 100 MB among others": ("r.csv", lambda: b"x,y,z\n" + ROWS + LONG + b",0,1\n" + ROWS),
    "cell of 100 MB at the end": ("r.csv", lambda: b"x,y,z\n" + ROWS + LONG),
    "cell of 40 MB, packed": ("r.csv.gz", lambda: packed(iter([b"x,y,z\n", ROWS, LONG[: 40 * MIB], b",0,1\n"]))),
    "cell of 40 MB in quotes": ("r.csv", lambda: b'x,y,z\n"' + b"aaaaaaaa\n" * (5 * 2**20) + b'",0,1\n'),
    "name of 1 MB": ("r.csv", lambda: b"x,y,z," + b"c" * 10**6 + b"\na,0,1,2\n"),
    "100,000 columns": ("r.csv", lambda: b"x,y,z" + b"".join(b",c%d" % at for at in range(10**5)) + b"\n"),
    "100,000 columns without a name": ("r.csv", lambda: b"x,y,z" + b"," * 10**5 + b"\n"),
    "100,000 columns, Parquet": ("r.parquet", lambda: _parquet(_wide(10**5))),
    "ragged": ("r.csv", lambda: f"x,y,z\na,0,1\n{CANARY}\nb,1\n".encode()),
    "rows too long": ("r.csv", lambda: f"x,y,z\na,0,1,{CANARY}\n".encode()),
    "NUL": ("r.csv", lambda: f"x,y,z\na\0,0,1\n{CANARY}\0,0,1\n".encode()),
    "NUL in the header": ("r.csv", lambda: f"x,y,z,\0{CANARY}\na,0,1,2\n".encode()),
    "latin-1": ("r.csv", lambda: f"x,y,z,é{CANARY}\na,0,1,é\n".encode("latin-1")),
    "UTF-16": ("r.csv", lambda: f"x,y,z\n{CANARY},0,1\n".encode("utf-16")),
    "UTF-16 without a mark": ("r.csv", lambda: f"x,y,z\n{CANARY},0,1\n".encode("utf-16-le")),
    "open quote": ("r.csv", lambda: f'x,y,z\n"{CANARY},0,1\na,0,1\n'.encode()),
    "open quote in the header": ("r.csv", lambda: f'x,y,z,"{CANARY}\na,0,1,2\n'.encode()),
    "open quote over 100 MB": ("r.csv", lambda: b'x,y,z\n"' + b"a,0,1\n" * (100 * MIB // 6)),
    "only commas": ("r.csv", lambda: b"x,y,z\n" + b",,\n" * 1000),
    "false gzip": ("r.csv.gz", lambda: f"x,y,z\n{CANARY},0,1\n".encode()),
    "cut gzip": ("r.csv.gz", lambda: packed(iter([b"x,y,z\n" + b"a,0,1\n" * 10**4]))[:60]),
    "no Parquet": ("r.parquet", lambda: f"PAR1 {CANARY} PAR1".encode()),
    "Parquet of 3 bytes": ("r.parquet", lambda: b"PAR"),
    "footer beyond the file": ("r.parquet", lambda: b"PAR1" + (2**31 - 1).to_bytes(4, "little") + b"PAR1"),
    "footer of the limit": ("r.parquet", lambda: b"PAR1" + FOOTER_LIMIT.to_bytes(4, "little") + b"PAR1"),
    "2^31 rows": ("r.parquet", lambda: _declared_rows(2**31)),
    "2^62 rows": ("r.parquet", lambda: _declared_rows(2**62)),
    "negative rows": ("r.parquet", lambda: _declared_rows(2**63 - 1)),
}
READ = {"only commas"}
"""Those of the files that are tables: nothing is in them."""
DEAR = {"100,000 columns, Parquet", "header of a gigabyte, packed", "line of a gigabyte, packed"}
"""Those that take seconds to make or to refuse."""
SLOW = {"100,000 columns, Parquet": 5.0}
"""CPU seconds: Arrow parses a footer of 16 MB whole before it can tell how many columns there are."""


LARGE = pytest.mark.costly("A bomb that is unpacked, or a schema that is parsed, whole shows at its size only.")


@pytest.mark.costly("Files that exhaust memory or time are found by reading them in a process with limits.")
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=LARGE) if kind in DEAR else kind for kind in FILES])
def test_a_hostile_file_is_refused_with_little_memory_and_time(kind: str, tmp_path: Path) -> None:
    name, content = FILES[kind]
    (tmp_path / name).write_bytes(content())
    report = read_all(read, [tmp_path / name], cpu_s=SLOW.get(kind, CPU_S))
    sound(report)
    assert (report.accepted == 1) == (kind in READ), report


@pytest.mark.costly("A stream that is unpacked before it is refused is found by one of a gigabyte.")
@pytest.mark.parametrize("kind", ["header of a gigabyte, packed", "header without an end", "100,000 columns"])
def test_a_hostile_stream_is_refused_from_its_header(kind: str, tmp_path: Path) -> None:
    name, content = FILES[kind]
    (tmp_path / name).write_bytes(content())
    report = read_all(lambda path: read((gzip.open if name.endswith("gz") else open)(path, "rb")), [tmp_path / name])
    sound(report)
    assert report.refused == 1


def _typed(values: Any, kind: pa.DataType | None = None) -> pa.Table:
    return GOOD.set_column(0, "x", pa.array(values, kind) if kind else pa.array(values))


def _extension() -> pa.Table:
    uuids = pa.array([b"0" * 16, b"1" * 16], pa.binary(16))
    return GOOD.set_column(0, "x", pa.ExtensionArray.from_storage(pa.uuid(), uuids))


FRAMES: dict[str, Callable[[], Any]] = {
    "list": lambda: _typed([[CANARY], ["b"]]),
    "list of lists": lambda: _typed([[[CANARY]], [["b"]]]),
    "struct": lambda: _typed([{CANARY: 1}, {CANARY: 2}]),
    "map": lambda: _typed([[(CANARY, 1)], []], pa.map_(pa.string(), pa.int32())),
    "timestamp": lambda: _typed([0, 1], pa.timestamp("ns", "Asia/Tokyo")),
    "duration": lambda: _typed([0, 1], pa.duration("us")),
    "decimal": lambda: _typed([0, 1], pa.decimal128(38, 10)),
    "wide decimal": lambda: _typed([0, 1], pa.decimal256(76, 10)),
    "half floats": lambda: _typed(np.array([0, 1], np.float16)),
    "bytes": lambda: _typed([CANARY.encode(), b"b"]),
    "nothing": lambda: _typed([None, None], pa.null()),
    "extension": _extension,
    "dictionary of bytes": lambda: _typed(pa.array([CANARY.encode(), b"b"]).dictionary_encode()),
    "run ends": lambda: _typed(pa.RunEndEncodedArray.from_arrays([2], [CANARY])),
    "union": lambda: _typed(pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([CANARY, "b"])])),
    "a name twice": lambda: pa.Table.from_arrays([*GOOD.columns, GOOD["x"]], names=["x", "y", "z", "x"]),
    "a name in capitals": lambda: GOOD.append_column("X", GOOD["x"]),
    "pandas, a name twice": lambda: pd.DataFrame([["a", "b", CANARY]], columns=["x", "x", "y"]),
    "pandas, names that are no text": lambda: pd.DataFrame({0: ["a"], None: [CANARY], ("x", "y"): ["b"]}),
    "pandas, mixed objects": lambda: pd.DataFrame({"x": pd.Series(["a", 1, [CANARY]], dtype=object), "y": 0, "z": 1}),
    "polars, objects": lambda: pl.DataFrame({"x": [object()], "y": ["0"], "z": [1.0]}),
    "100,000 columns": lambda: _wide(10**5),
}
TWICE = {("100,000 columns", "parquet")}
"""Among the files already."""


@pytest.mark.parametrize(
    ("kind", "form"), [(kind, form) for kind in FRAMES for form in ("frame", "parquet") if (kind, form) not in TWICE]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_table_of_another_type_is_refused(kind: str, form: str, tmp_path: Path) -> None:
    source = FRAMES[kind]()
    if form == "parquet":
        try:
            pq.write_table(source, tmp_path / "r.parquet")
        except (AttributeError, TypeError, pa.ArrowException, NotImplementedError):
            return  # such a file does not exist
        source = tmp_path / "r.parquet"
    report = read_all(read, [source])
    sound(report)
    assert report.refused == 1, report


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_names_are_data(form: str, tmp_path: Path) -> None:
    names = [name for name in NAMES if form != "csv" or "\n" not in name]
    network = dc.Network(tuple(dc.Variable(name, ("a", "b")) for name in names), dict.fromkeys(names, ()))
    table = pa.table({name: ["a", "b", "b"] for name in names})
    source: Any = table
    if form == "parquet":
        pq.write_table(table, source := tmp_path / "r.parquet")
    if form == "csv":
        pa.csv.write_csv(table, source := tmp_path / "r.csv")
    counts = read(source, network)
    assert all(counts.tables[name].tolist() == [1, 2] for name in names)


@pytest.mark.costly("What is just allowed must be read, and takes as much as that.")
def test_a_table_at_the_limits_is_read(tmp_path: Path) -> None:
    """An honest exception to one second and 512 MiB: 16,384 columns, or a first line of a mebibyte."""
    wide = b"x" + b"".join(b",c%d" % at for at in range(COLUMN_LIMIT - 1)) + b"\na" + b",b" * (COLUMN_LIMIT - 1) + b"\n"
    name = b"x," + b",".join([b"c" * 10**5 + b"%d" % at for at in range(10)])
    assert len(name) <= HEADER_LIMIT
    for text in (wide, name + b"\na" + b",b" * 10 + b"\n"):
        (tmp_path / "r.csv").write_bytes(text)
        report = read_all(lambda path: read(path, alone(X)), [tmp_path / "r.csv"], cpu_s=8, memory=3 * GIB)
        sound(report)
        assert report.accepted == 1, report
