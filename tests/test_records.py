"""Reading records: every kind of source gives the same counts, and what cannot be read is refused without a value."""

from __future__ import annotations

import gzip
import io
import os
import re
import sqlite3
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.records.values import canonical, pattern
from folding import every
from networks import asia
from sources import (
    AB,
    AGE,
    CANARY,
    LOGICAL,
    N01,
    PEER_WARNINGS,
    column,
    counted,
    csv_file,
    faults,
    refusal,
    same_counts,
    slow_counts,
)

pytestmark = PEER_WARNINGS
ODD = dc.Variable("x", ("<5", "5-12", ">=7.5"))

# --------------------------------------------------------------------------------------------------------- sources


class OnlyStream:
    """An object that can do nothing but the Arrow C stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def csv_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pa.csv.write_csv(table, sink)
    return sink.getvalue()


def _parquet(folder: Path, table: pa.Table) -> Any:
    pq.write_table(table, folder / "r.parquet")
    return folder / "r.parquet"


def _glob(folder: Path, table: pa.Table) -> Any:
    pq.write_table(table.slice(0, 100), folder / "r1.parquet")
    pq.write_table(table.slice(100), folder / "r2.parquet")
    return str(folder / "r?.parquet")


def _csv_glob(folder: Path, table: pa.Table) -> Any:
    csv_file(folder, csv_bytes(table.slice(0, 100)), "r1.csv")
    csv_file(folder, csv_bytes(table.slice(100)), "r2.csv")
    return str(folder / "*.csv")


def _sqlite(folder: Path, table: pa.Table) -> Any:
    names = ", ".join(table.column_names)
    marks = ", ".join("?" * table.num_columns)
    with sqlite3.connect(folder / "r.db") as base:
        base.execute(f"CREATE TABLE people ({names.replace(',', ' TEXT,')} TEXT)")
        base.executemany(f"INSERT INTO people VALUES ({marks})", zip(*table.to_pydict().values(), strict=True))
    base.close()
    return f"sqlite:///{folder / 'r.db'}"


def _duckdb(folder: Path, table: pa.Table) -> Any:
    with duckdb.connect(folder / "r.duckdb") as base:
        base.register("given", table)
        base.execute("CREATE TABLE people AS SELECT * FROM given")
    return f"duckdb:///{folder / 'r.duckdb'}"


def _postgres(_folder: Path, table: pa.Table) -> Any:
    url = os.environ.get("DISCREET_TEST_POSTGRES")
    if not url:
        pytest.skip("PostgreSQL: DISCREET_TEST_POSTGRES holds no URL")
    psycopg = pytest.importorskip("psycopg", reason="PostgreSQL: psycopg is not installed")
    columns = ", ".join(f"{name} text" for name in table.column_names)
    marks = ", ".join(["%s"] * table.num_columns)
    with psycopg.connect(url) as base:
        base.execute("DROP TABLE IF EXISTS people")
        base.execute(f"CREATE TABLE people ({columns})")
        rows = zip(*table.to_pydict().values(), strict=True)
        base.cursor().executemany(f"INSERT INTO people VALUES ({marks})", list(rows))
    return url


SOURCES = {
    "parquet": _parquet,
    "parquet glob": _glob,
    "csv": lambda folder, table: csv_file(folder, csv_bytes(table)),
    "csv as text": lambda folder, table: str(csv_file(folder, csv_bytes(table))),
    "csv glob": _csv_glob,
    "csv.gz": lambda folder, table: csv_file(folder, gzip.compress(csv_bytes(table)), "r.csv.gz"),
    "tsv": lambda folder, table: csv_file(folder, csv_bytes(table).replace(b",", b"\t"), "r.tsv"),
    "windows csv": lambda folder, table: csv_file(folder, b"\xef\xbb\xbf" + csv_bytes(table).replace(b"\n", b"\r\n")),
    "binary file": lambda _folder, table: io.BytesIO(csv_bytes(table)),
    "arrow": lambda _folder, table: table,
    "arrow stream": lambda _folder, table: OnlyStream(table),
    "pandas": lambda _folder, table: table.to_pandas(),
    "polars": lambda _folder, table: pl.from_arrow(table),
    "ibis": lambda _folder, table: ibis.memtable(table),
    "sqlite": _sqlite,
    "duckdb": _duckdb,
    "postgres": _postgres,
}
DATABASES = {"sqlite", "duckdb", "postgres"}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_counts(kind: str, tmp_path: Path) -> None:
    theta = asia()
    table = dc.tools.simulate_records(theta, 300, rng=np.random.default_rng(5))
    table = table.append_column("secret", pa.array([CANARY] * 300))
    source = SOURCES[kind](tmp_path, table)
    records = dc.read_records(source, theta.network.schema, table="people" if kind in DATABASES else None)
    assert same_counts(dc.count(records, theta.network), slow_counts(table, theta.network))
    assert records.table.columns == theta.network.nodes  # nothing beside the schema is read
    if kind in DATABASES:
        records.table.get_backend().disconnect()


def test_an_open_file_is_read_from_where_it_stands(tmp_path: Path) -> None:
    with csv_file(tmp_path, "x,y\na,1\nb,2\nb,3\n").open("rb") as stream:
        assert counted(stream, AB) == [1, 2]
    with gzip.open(csv_file(tmp_path, gzip.compress(b"x\na\nb\nb\n"), "r.csv.gz"), "rb") as stream:
        assert counted(stream, AB) == [1, 2]


@every("source", [None, 3, {"x": ["a"]}, b"x\na\n", ["a"]], ids=lambda source: type(source).__name__)
def test_other_objects_are_refused(source: object) -> None:
    assert type(source).__name__ in refusal(lambda: counted(source, AB))


# ----------------------------------------------------------------------------------------------------------- types


@every(
    ("table", "variable", "wanted"),
    [
        pytest.param(column(["a", "b", "b"], pa.large_string()), AB, [1, 2], id="large text"),
        pytest.param(column(["a", "b", "b"], pa.string_view()), AB, [1, 2], id="text view"),
        pytest.param(pa.table({"x": pa.array(["b", "a", "b"]).dictionary_encode()}), AB, [1, 2], id="dictionary"),
        pytest.param(pd.DataFrame({"x": pd.Categorical(["b", "a", "b"])}), AB, [1, 2], id="pandas categorical"),
        pytest.param(pd.DataFrame({"x": pd.Series(["b", "a"], dtype=object)}), AB, [1, 1], id="pandas object"),
        pytest.param(pl.DataFrame({"x": ["b", "a"]}, schema={"x": pl.Enum(["b", "a"])}), AB, [1, 1], id="polars enum"),
        pytest.param(column([0, 1, 1]), N01, [1, 2], id="integers"),
        pytest.param(column([0, 1, 1], pa.uint8()), N01, [1, 2], id="small integers"),
        pytest.param(column([0.0, 1.0, -0.0]), N01, [2, 1], id="floats"),
        pytest.param(column([0, 1, 1], pa.decimal128(5, 1)), N01, [1, 2], id="decimals"),
        pytest.param(column([1.5, 2, 1.5]), dc.Variable("x", ("2.0", "1.5")), [1, 2], id="numbers as states"),
        pytest.param(column([True, False, True]), LOGICAL, [2, 1], id="logical"),
        pytest.param(column([True, False]), dc.Variable("x", ("False", "True")), [1, 1], id="logical, Python's words"),
        pytest.param(column([True, False, True]), N01, [1, 2], id="logical, as numbers"),
        pytest.param(column(["<5", ">=7.5", "<5"]), ODD, [2, 0, 1], id="odd states"),
        pytest.param(column(["é", "雪"]), dc.Variable("x", ("雪", "é", "e")), [1, 1, 0], id="unicode"),
    ],
)
def test_types(table: Any, variable: dc.Variable, wanted: list[int]) -> None:
    assert counted(table, variable) == wanted
    assert faults(table, variable) == (0, 0, 0)


@every(
    ("table", "variable"),
    [
        pytest.param(column([date(2020, 1, 1)]), AB, id="date"),
        pytest.param(column([date(2020, 1, 1)]), AGE, id="date as a number"),
        pytest.param(column([[1]]), N01, id="list"),
        pytest.param(column([b"a"]), AB, id="bytes"),
        pytest.param(column([0, 1]), AB, id="numbers for names"),
        pytest.param(column([True]), dc.Variable("x", ("true", "1")), id="logical, one value named twice"),
        pytest.param(column([True]), AGE, id="logical for bounds"),
    ],
)
def test_types_that_cannot_hold_the_variable(table: pa.Table, variable: dc.Variable) -> None:
    refusal(lambda: dc.read_records(table, dc.Schema((variable,))), "x")


@pytest.mark.parametrize(
    ("text", "variable", "wanted"),
    [
        ("x,y\n<5,1\n5-12,2\n>=7.5,3\n<5,4\n", ODD, [2, 1, 1]),
        ("x,y\ntrue,1\nfalse,2\ntrue,3\n", LOGICAL, [2, 1]),
        ("x,y\n0,1\n1,2\n1,3\n", N01, [1, 2]),
        ("x\n2020-01-01\n", dc.Variable("x", ("2020-01-01",)), [1]),
        ("x\nNA\nNULL\nnan\n", dc.Variable("x", ("NA", "NULL", "nan")), [1, 1, 1]),
        ('x,y\n"a, or b",1\n"say ""a""",2\n', dc.Variable("x", ("a, or b", 'say "a"')), [1, 1]),
        ('x,y\na,"two\nlines"\nb,2\n', AB, [1, 1]),
        ('"x",y\r\n"a",1\r\n"b",2\r\n', AB, [1, 1]),
        ("x,y\na,1\n#b,2\na,3\n", dc.Variable("x", ("a", "#b")), [2, 1]),
        ("x,y\n'a',1\n'b',2\na,3\n", dc.Variable("x", ("a", "'a'", "'b'")), [1, 1, 1]),
        ("x\na;b\nb;a\n", dc.Variable("x", ("a;b", "b;a")), [1, 1]),
        ("x\na|b\nb|a\n", dc.Variable("x", ("a|b", "b|a")), [1, 1]),
        ("x;y\na,b;1\nb;2\n", dc.Variable("x", ("a,b", "b")), [1, 1]),
        ("x\ty\na;b\t1\n", dc.Variable("x", ("a;b",)), [1]),
        ("x,y\na ,1\n a,2\n", dc.Variable("x", ("a", "a ", " a")), [0, 1, 1]),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_csv_text_is_taken_as_it_stands(
    text: str, variable: dc.Variable, wanted: list[int], stream: bool, tmp_path: Path
) -> None:
    source = io.BytesIO(text.encode()) if stream else csv_file(tmp_path, text)
    assert counted(source, variable) == wanted


SPELLINGS = {"0": ("0", "0.0", "00", " 0", "-0", "+0", ".0", "0."), "1": ("1", "1.000", "01", "1 ", "+1", "\t1.")}
"""Plain decimal numbers, by the state that they are."""
OTHERS = ("1e0", "0x1", "1,0", "1_0", "١", "1.5", "one", "- 1", "--1", ".", "+", "1.0.0", "1 0", "true")
"""What is no plain number, or another one."""


@pytest.mark.parametrize("kind", ["csv", "stream", "arrow", "sqlite", "duckdb"])
def test_a_number_is_one_state_however_text_spells_it(kind: str, tmp_path: Path) -> None:
    def source(texts: tuple[str, ...]) -> Any:
        table = column([text for text in texts for _ in range(2)], pa.string())
        match kind:
            case "csv" | "stream":
                raw = ("x,y\n" + "".join(f'"{text}",1\n' for text in table["x"].to_pylist())).encode()
                return csv_file(tmp_path, raw) if kind == "csv" else io.BytesIO(raw)
            case "arrow":
                return table
            case _:
                folder = tmp_path / str(len(list(tmp_path.iterdir())))
                folder.mkdir()
                return SOURCES[kind](folder, table)

    name = {"table": "people"} if kind in DATABASES else {}
    texts = (*SPELLINGS["0"], *SPELLINGS["1"])
    assert counted(source(texts), N01, **name) == [2 * len(SPELLINGS["0"]), 2 * len(SPELLINGS["1"])]
    assert faults(source((*texts, *OTHERS)), N01, **name) == (0, 2 * len(OTHERS), 0)
    assert "'x'" in refusal(lambda: counted(source((*texts, "1e0")), N01, **name))
    # Names that are equal as numbers, or not all numbers, are names.
    for states in (("0", "0.0"), ("0", "many")):
        assert counted(source(("0", "0")), dc.Variable("x", states), **name) == [4, 0]
        assert faults(source(("0", "00")), dc.Variable("x", states), **name) == (0, 2, 0)


def test_a_logical_word_is_one_state_in_any_capitals() -> None:
    assert counted(column(["True", "FALSE", "true", " false"]), LOGICAL) == [2, 2]
    assert faults(column(["True", "yes", "t"]), LOGICAL) == (0, 2, 0)
    both = dc.Variable("x", ("true", "True"))
    assert counted(column(["true", "True", "True"]), both) == [1, 2]


def test_many_spellings_in_several_columns_are_counted_all(tmp_path: Path) -> None:
    """More groups of texts than of states: nothing may be cut off."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, (500, 2))
    texts = [["0" * int(rng.integers(0, 9)) + str(code) + "." + "0" * int(rng.integers(0, 9)) for code in row]
             for row in codes]  # fmt: skip
    network = dc.Network((N01, dc.Variable("y", ("0", "1"))), {"x": (), "y": ("x",)})
    path = csv_file(tmp_path, "x,y\n" + "".join(",".join(row) + "\n" for row in texts))
    wanted = np.zeros((2, 2), np.int64)
    np.add.at(wanted, (codes[:, 0], codes[:, 1]), 1)
    assert np.array_equal(dc.count(dc.read_records(path, network.schema), network).tables["y"], wanted)


PIECES = (("", " ", "\t"), ("", "+", "-"), ("", "0", "00", "1", "2"), ("", ".", ".5", ".50"), ("", "\n", "e"))
"""What a number is made of."""
TEXTS = st.tuples(*map(st.sampled_from, PIECES)).map("".join) | st.text("0123456789.+- eE\ttrueTRUE\xa0١\0", max_size=8)


@given(TEXTS, st.sampled_from(("0", "1", "-2.5", ".5", "2.5", "true")))
def test_both_forms_of_the_rule_agree(text: str, state: str) -> None:
    spelling = canonical(state)
    assert spelling is not None
    assert (canonical(text) == spelling) == (re.search(pattern(spelling), text) is not None)


@pytest.mark.parametrize("folder", ["x=b", "y=1"])
def test_the_folders_name_is_no_column(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir()
    pq.write_table(column(["a"]), tmp_path / folder / "r.parquet")
    assert counted(csv_file(tmp_path / folder, "x\na\n"), AB) == [1, 0]
    assert counted(tmp_path / folder / "r.parquet", AB) == [1, 0]


def test_a_path_is_a_path_before_it_is_a_glob(tmp_path: Path) -> None:
    assert counted(csv_file(tmp_path, "x\na\n", "visit[1]'s.csv"), AB) == [1, 0]


# --------------------------------------------------------------------------------------------------- bad sources


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_a_missing_column_is_named_and_those_there_are_not(stream: bool, tmp_path: Path) -> None:
    # In a file without a header the names of the columns are the values of a record.
    text = f"{CANARY},y\na,1\n"
    source: Any = io.BytesIO(text.encode()) if stream else csv_file(tmp_path, text)
    assert "header" in refusal(lambda: dc.read_records(source, dc.Schema((AB,))), "x")
    refusal(lambda: dc.read_records(pa.table({CANARY: ["a"]}), dc.Schema((AB,))), "x")


def test_files_of_one_glob_need_one_header(tmp_path: Path) -> None:
    csv_file(tmp_path, "x,y\na,1\n", "1.csv")
    csv_file(tmp_path, f"{CANARY},y\nb,1\n", "2.csv")
    assert "header" in refusal(lambda: counted(tmp_path / "*.csv", AB))


@pytest.mark.parametrize("source", ["csv", "frame"])
def test_only_the_columns_of_the_schema_are_read(source: str, tmp_path: Path) -> None:
    """Others may have any names, even one name twice."""
    text = f"y,x,Y,{CANARY},\n1,a,2,3,4\n1,b,2,3,4\n"
    table = pa.Table.from_arrays([pa.array(["a", "b"])] * 3, names=["y", "x", "Y"])
    assert counted(csv_file(tmp_path, text) if source == "csv" else table, AB) == [1, 1]
    assert counted(io.BytesIO(text.encode()), AB) == [1, 1]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    refusal(lambda: counted(csv_file(tmp_path, "x,x\na,b\n"), AB))
    refusal(lambda: counted(io.BytesIO(b"x,x\na,b\n"), AB))
    refusal(lambda: counted(pa.table([["a"], ["b"]], names=["x", "x"]), AB))


@pytest.mark.parametrize("text", ["x,y\n", "x,y", "x\n", "x\r\n"])
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_no_records_are_fine(text: str, stream: bool, tmp_path: Path) -> None:
    assert counted(io.BytesIO(text.encode()) if stream else csv_file(tmp_path, text), AB) == [0, 0]


def test_no_rows_of_a_frame_are_fine() -> None:
    assert counted(column([], pa.string()), AB) == [0, 0]
    assert counted(pd.DataFrame({"x": pd.Series([], dtype="string")}), AB) == [0, 0]


def test_empty_sources_are_refused(tmp_path: Path) -> None:
    assert "empty" in refusal(lambda: counted(csv_file(tmp_path, ""), AB))
    refusal(lambda: counted(csv_file(tmp_path, "\n"), AB))
    refusal(lambda: counted(io.BytesIO(b""), AB))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.parquet", "no file"),
        ("no*.csv", "no file"),
        ("records.xls", "format"),
        ("records", "format"),
        (".", "folder"),
    ],
)
def test_paths_that_cannot_be_read(name: str, message: str, tmp_path: Path) -> None:
    csv_file(tmp_path, "x\na\n", "records.xls")
    path = str(tmp_path / name)
    said = refusal(lambda: counted(path, AB))
    assert message in said
    assert path[-40:] in said


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.parquet", f"PAR1\n{CANARY}\n".encode()),
        ("r.csv.gz", f"x\n{CANARY}\n".encode()),
        ("r.csv", f"x,y\na,1\n{CANARY},\xe9\n".encode("latin-1")),
        ("r.csv", f"x,y\n{CANARY},1\n".encode("utf-16")),
        ("r.csv", f"x\na,{CANARY},1\nb,{CANARY},2\n".encode()),
        ("r.csv", (f"x\n{CANARY},1\n" * 3).encode()),
        ("r.csv", ("x,y\n" + "a,1\n" * 30_000 + f"b,{CANARY},2\n").encode()),
        ("r.csv", ("x,y\n" + "a,1\n" * 30_000 + f"{CANARY}\n").encode()),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_damaged_files_are_refused_without_a_value(name: str, content: bytes, stream: bool, tmp_path: Path) -> None:
    source: Any = io.BytesIO(content) if stream else csv_file(tmp_path, content, name)
    refusal(lambda: counted(source, AB))


def test_databases_that_cannot_be_read(tmp_path: Path) -> None:
    url = _duckdb(tmp_path, column(["a"]))
    assert "table" in refusal(lambda: counted(url, AB))
    refusal(lambda: counted(url, AB, table="nobody"))
    refusal(lambda: counted(f"sqlite:///{tmp_path / 'no.db'}", AB, table="people"))
    refusal(lambda: counted(f"nosuch://u:{CANARY}@host/base", AB, table="people"))
    assert "name of a table" in refusal(lambda: counted(column(["a"]), AB, table="people"))


SECRET = f"user:{CANARY}"


@every(
    ("url", "table", "hint"),
    [
        (f"s3://{SECRET}@bucket/r.parquet", None, "passwords out of the URL"),
        (f"https://{SECRET}@host/r.csv", None, "on this machine"),
        (f"file:///{CANARY}.csv", None, "no such file"),
        (f"datafusion://{CANARY}", "people", "on this machine"),
        (f"postgresql://{SECRET}@127.0.0.1:1/base", None, "name of its table"),
        (f"sqlite://{SECRET}@host/base", "people", "fourth slash"),
        (f"duckdb:///no.db?password={CANARY}", "people", "fourth slash"),
        ("sqlite:///no.db", "people", "no file 'no.db'"),
    ],
)
def test_a_url_that_is_not_read_says_what_is_and_shows_no_password(url: str, table: str | None, hint: str) -> None:
    options = {} if table is None else {"table": table}
    assert hint in refusal(lambda: counted(url, AB, **options))


def test_a_server_that_does_not_answer_is_said_to_be_one() -> None:
    pytest.importorskip("psycopg", reason="PostgreSQL: psycopg is not installed")
    message = refusal(lambda: counted(f"postgresql://{SECRET}@127.0.0.1:1/base", AB, table="people"))
    assert "the database cannot be opened (OperationalError); is the database there" in message
    assert "? The engine's own" in message


def test_every_message_about_an_engine_is_made_of_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("ValueError", "IOException"):

        def failing(*_arguments: object, kind: str = kind) -> None:
            raise type(kind, (Exception,), {})(CANARY)

        records = dc.read_records(column(["a"]), dc.Schema((AB,)))
        monkeypatch.setattr(ibis.expr.types.Table, "to_pyarrow", failing)
        assert re.search(r"[.?] The engine's own message", refusal(lambda records=records: dc.check(records)))
        monkeypatch.undo()


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_url: str) -> object:
        raise ImportError(CANARY)

    monkeypatch.setattr(ibis, "connect", absent)
    assert "'.[postgres]' in a clone" in refusal(
        lambda: counted(f"postgresql://u:{CANARY}@host/base", AB, table="people")
    )


# ------------------------------------------------------------------------------------------- paths and interruptions


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_three_slashes_are_relative_and_nothing_is_made(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dc.InputError, match=r"no file 'r\.db'"):
        dc.read_records(f"{kind}:///r.db", dc.Schema((AB,)), table="people")
    assert list(tmp_path.iterdir()) == []
    base: Any = sqlite3.connect("r.db") if kind == "sqlite" else duckdb.connect("r.db")
    base.execute("CREATE TABLE people (x TEXT)")
    base.execute("INSERT INTO people VALUES ('a'), ('b'), ('b')")
    if kind == "sqlite":
        base.commit()
    base.close()
    assert counted(f"{kind}:///r.db", AB, table="people") == [1, 2]
    assert counted(f"{kind}:///{tmp_path / 'r.db'}", AB, table="people") == [1, 2]


def test_a_column_without_a_name_is_no_obstacle(tmp_path: Path) -> None:
    text = ",x\n0,a\n1,b\n"
    assert counted(csv_file(tmp_path, text), AB) == counted(io.BytesIO(text.encode()), AB) == [1, 1]


@pytest.mark.parametrize("text", ["x,x\na,b\n", "x,X\na,b\n"])
def test_a_name_that_is_there_twice_is_said_to_be(text: str, tmp_path: Path) -> None:
    for source in (csv_file(tmp_path, text), io.BytesIO(text.encode())):
        with pytest.raises(dc.InputError, match="one name"):
            counted(source, AB)


def test_an_interrupted_scan_is_no_fault_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        raise RuntimeError("Query interrupted")

    records = dc.read_records(column(["a"]), dc.Schema((AB,)))
    monkeypatch.setattr(ibis.expr.types.Table, "to_pyarrow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dc.check(records)
