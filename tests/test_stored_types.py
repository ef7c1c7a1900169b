"""The declared type is not the stored one: what each engine may keep in a column is two units or is refused.

A pair of different identifiers is two units, of which each changes one record, or the table is refused before anything
is counted, in words that name the cause. States and numbers of another type than their column's are unknown.
"""

from __future__ import annotations

import datetime
import decimal
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations, cycle, permutations
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from engines import connected
from folding import every
from sources import PEER_WARNINGS, csv_file

pytestmark = PEER_WARNINGS

TEN = tuple("0123456789")
KEPT = dc.Network.empty(dc.Schema((dc.Variable("x", TEN),)))
EACH = 5
"""Records of each of two units, all of different states."""
SALTS = cycle("stuvw")
"""Another for each pair of units."""
CAUSES = (
    "must hold text or whole numbers",
    "must hold text, numbers or logical values",
    "holds numbers, and two of its states are the same number",
    "holds numbers, but its states are names",
    "has a column a type such as money or oid?",
    "mixes types: not all of its values are stored as",
    "does a column mix types",
    "do its columns hold text, numbers or logical values?",
    "has Python objects",
)
"""What a refusal may say."""


def kept(source: Any, salt: str, **options: Any) -> np.ndarray:
    """Records of each state, one of each unit."""
    records = dc.read_records(source, KEPT.schema, unit_column="id", **options)
    assert records.unit is not None
    return dc.count(replace(records, unit=replace(records.unit, salt=salt)), KEPT).tables["x"]


def units_in(both: Any, one: Any, **options: Any) -> int | str:
    """Number of units that two identifiers are, of which the second changes one record; or the refusal."""
    salt = next(SALTS)
    try:
        all_of_them, without = kept(both, salt, **options), kept(one, salt, **options)
    except dc.InputError as refused:
        assert any(cause in str(refused) for cause in CAUSES), str(refused)
        return str(refused)
    assert without.sum() == 1 and np.abs(all_of_them - without).sum() <= 1
    return int(all_of_them.sum())


def require_two(found: int | str, allowed: bool) -> None:
    """Two units where the type may tell them apart, else a refusal."""
    assert found == 2 if allowed else isinstance(found, str), found


def require_states(source: Any, ids: list[Any]) -> None:
    """Each of two values is the state that is written like it, or the table is refused."""
    states = tuple(dict.fromkeys(spell(one) for one in ids))
    network = dc.Network.empty(dc.Schema((dc.Variable("id", states),)))
    try:
        counts = dc.count(dc.read_records(source, network.schema), network).tables["id"]
    except dc.InputError as refused:
        assert any(cause in str(refused) for cause in (*CAUSES, "an unknown state")), str(refused)
    else:
        assert counts.tolist() == [2 * EACH // len(states)] * len(states)


def spell(value: Any) -> str:
    """The name of the state that a value is."""
    return str(value).lower() if isinstance(value, bool) else value.decode() if isinstance(value, bytes) else str(value)


# --------------------------------------------------------------------------------------------------------------- SQLite


DECLARED = {
    "TEXT": "text", "TEXT COLLATE NOCASE": "text", "STRING": "text", "INTEGER": "integer",
    "REAL": None, "NUMERIC": None, "DECIMAL(9, 0)": None, "BOOLEAN": None, "DATE": None, "BLOB": None, "ANY": None,
    "": "",
}  # fmt: skip
"""By declared type, the one class that its units are stored in; "" for that of the first record."""
VALUES = ("1", "x", "X", 1, 2, 1.5, b"1", b"x", b"\xff")


@contextmanager
def sqlite(declared: str, values: list[Any], named: str = "id") -> Iterator[ibis.Table]:
    """A table of values in a column of a declared type, beside states; with a number of each record."""
    base = sqlite3.connect(":memory:")
    base.execute(f"CREATE TABLE t (n INTEGER, x TEXT, {named} {declared})")
    base.executemany("INSERT INTO t VALUES (?, ?, ?)", [(at, str(at % 10), one) for at, one in enumerate(values)])
    try:
        yield ibis.sqlite.from_connection(base).table("t")
    finally:
        base.close()


@pytest.mark.costly("Units that an engine takes for one would count for less than they are.", always=True)
@every("declared", DECLARED)
def test_two_values_of_a_unit_column_are_two_units_or_refused(declared: str) -> None:
    allowed = DECLARED[declared]
    seen = []
    for one, other in (combinations if declared else permutations)(VALUES, 2):
        with sqlite(declared, [one] * EACH + [other] * EACH) as table:
            raw = (
                table.get_backend().con.execute("SELECT typeof(id), id FROM t WHERE n IN (0, 5) ORDER BY n").fetchall()
            )
            classes = {kind for kind, _ in raw}
            if raw[0] == raw[1]:
                continue
            wanted = {raw[0][0]} & {"text", "integer"} if allowed == "" else {allowed}
            require_two(units_in(table, table.filter(table.n < EACH)), classes == wanted)
            seen.append(classes == wanted)
    assert seen.count(False) > 10 and (any(seen) or allowed is None or declared == "STRING")


OWN = {"TEXT": "text", "TEXT COLLATE NOCASE": "text", "STRING": "text", "": "text", "BOOLEAN": "logical"}
"""By declared type, what its values are; those of others are numbers."""
STATES = {"text": ("1", "x", "2", "1.5"), "number": ("1", "2"), "logical": ("true", "false")}
POLICIES = cycle(({}, {"missing": "drop"}, {"missing": "keep"}, {"na_values": ["?", "7"]}, {"out_of_bounds": "clip"}))
"""Another for each table; nothing takes a value of another type for a missing one."""


def place(kind: str, stored: str, value: Any, numeric: bool) -> int | None:
    """Position of the state or bin that a value is by hand; None where it is of another type, or no state."""
    if stored == "blob" or (kind != "text" and stored == "text"):
        return None
    if numeric:
        return None if value == "x" else int(float(value) >= 1.2)
    if kind == "text":
        return STATES[kind].index(str(value))
    if kind == "logical":
        return {1: 0, 0: 1}.get(value)
    return [1, 2].index(value) if value in (1, 2) else None


@pytest.mark.costly("Each type of a column holds each type of a value on a real engine.")
@every("declared", [declared for declared in DECLARED if declared not in ("DATE", "BLOB", "ANY")])
def test_states_and_numbers_of_another_type_are_unknown(declared: str) -> None:
    kind = OWN.get(declared, "number")
    state = dc.Variable("v", STATES[kind], missing="none")
    number = dc.Variable("v", bounds=(0, 2), bins=(1.2,), missing="none")
    first = "1" if kind == "text" else 1
    for variable in (state,) if kind == "logical" else (state, number):
        network = dc.Network.empty(dc.Schema((variable,)))
        with sqlite(declared, [first, "1", "x", 1, 1.5, b"1", b"x", b"\xff"], "v") as table:
            rows = table.get_backend().con.execute("SELECT n, typeof(v), v FROM t").fetchall()
            places = {at: place(kind, stored, value, variable.numeric) for at, stored, value in rows}
            unknown = [at for at in places if places[at] is None]
            (faults,) = dc.check(dc.read_records(table, network.schema))
            assert (faults.missing, faults.unknown, faults.out_of_bounds) == (0, len(unknown), 0)
            for at in unknown:
                records = dc.read_records(table.filter(table.n == at), network.schema, **next(POLICIES))
                with pytest.raises(dc.InputError, match=r"unknown state .* 'v'.*in SQLite, a value of another type"):
                    dc.count(records, network)
            records = dc.read_records(table.filter(~table.n.isin(unknown)), network.schema, **next(POLICIES))
            wanted = [list(places.values()).count(code) for code in range(variable.size)]
            assert dc.count(records, network).tables["v"].tolist() == wanted and sum(wanted) >= 2


@pytest.mark.costly("Values of another type than their column's are found in a database that takes them.")
def test_rows_of_a_design_and_places_in_an_order_have_the_type_of_their_column() -> None:
    over = dc.designs.Design((dc.Variable("v", bounds=(0, 9)),), intercept=False)
    pair = dc.Schema((dc.Variable("x", TEN), dc.Variable("previous.x", TEN)))
    for value, sound in ((2, True), (2.5, True), ("many", False), (b"2", False)):
        with sqlite("INTEGER", [1, value], "v") as table:
            numbers = dc.read_records(table, over.schema)
            alike = table.mutate(id=ibis.literal("p"))
            visits = dc.read_records(alike, pair, unit_column="id", order_column="v")
            if sound:
                assert dc.designs.read_rows(over, numbers).records == 2
                assert dc.count(visits, dc.Network.empty(pair)).records == 1
                continue
            with pytest.raises(dc.InputError, match=r"unknown state .* 'v'"):
                dc.designs.read_rows(over, numbers)
            with pytest.raises(dc.InputError, match="'v', which puts their records in order, mixes types"):
                dc.count(visits, dc.Network.empty(pair))


@every("engine", ["sqlite", "postgres"])
def test_numbers_that_are_written_alike_do_not_leave_the_choice_to_chance(engine: str) -> None:
    """0.3 and the next number have one text of 15 digits: their place in a table may not say which is kept."""
    network = dc.Network.empty(dc.Schema((dc.Variable("v", bounds=(0, 1), bins=(0.30000000000000003,)),)))
    close = (0.3, 0.1 + 0.2)
    for declared in ("REAL", "INTEGER") if engine == "sqlite" else ("double precision",):
        found = []
        for values in (close, close[::-1]):
            with sqlite(declared, list(values), "v") if engine == "sqlite" else postgres(declared, values) as table:
                records = dc.read_records(table.mutate(id=ibis.literal("p")), network.schema, unit_column="id")
                found.append(dc.count(replace(records, unit=replace(records.unit, salt="s")), network).tables["v"])
        assert found[0].sum() == 1 and found[0].tolist() == found[1].tolist()


# ----------------------------------------------------------------------------------------------------- frames and files


D = decimal.Decimal
APART: dict[str, pa.Array] = {
    "string": pa.array(["p", "P"]), "large": pa.array(["p", "p "], pa.large_string()),
    "view": pa.array(["p" * 20, "p" * 20 + "\0"], pa.string_view()), "long": pa.array(["p" * 10**4, "p" * 10**4 + "q"]),
    "composed": pa.array(["\u00e9", "e\u0301"]), "dictionary": pa.array(["p", "P"]).dictionary_encode(),
    "dictionary, large": pa.array(["p", "P"], pa.large_string()).dictionary_encode(),
    "dictionary, numbers": pa.array([1, 2]).dictionary_encode(), "int8": pa.array([-1, 1], pa.int8()),
    "int64": pa.array([2**53, 2**53 + 1]), "uint64": pa.array([2**64 - 1, 2**64 - 2], pa.uint64()),
}  # fmt: skip
"""Two identifiers that are two units."""
REFUSED: dict[str, pa.Array] = {
    "float": pa.array([1.0, 2.0]), "float32": pa.array([1, 2], pa.float32()), "half": pa.array([1, 2], pa.float16()),
    "dictionary, float": pa.array([1.0, 2.0]).dictionary_encode(), "logical": pa.array([True, False]),
    "decimal": pa.array([D("1"), D("2")], pa.decimal128(38, 0)),
    "decimal256": pa.array([D("1"), D("2")], pa.decimal256(60)),
    "negative scale": pa.array([D("100"), D("200")], pa.decimal128(5, -2)), "binary": pa.array([b"p", b"q"]),
    "binary view": pa.array([b"p", b"q"], pa.binary_view()), "fixed": pa.array([b"p", b"q"], pa.binary(1)),
    "date": pa.array([1, 2], pa.date32()), "time": pa.array([1, 2], pa.time64("ns")), "null": pa.nulls(2),
    "nanoseconds": pa.array([1, 2], pa.timestamp("ns")), "zoned": pa.array([1, 2], pa.timestamp("us", "UTC")),
    "duration": pa.array([1, 2], pa.duration("ns")), "list": pa.array([[1], [2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "map": pa.array([[("a", 1)], [("a", 2)]], pa.map_(pa.string(), pa.int8())),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["p", "q"])),
    "union": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["1", "1"])]),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, b"1" * 16], pa.binary(16))),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", " 1"])),
}  # fmt: skip
"""Two that are refused, as two units might look alike; a Parquet file keeps durations as whole numbers."""


@pytest.mark.costly("Units that an engine takes for one would count for less than they are.")
@every("name", [*APART, *REFUSED])
def test_two_values_of_each_arrow_type(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    ids = {**APART, **REFUSED}[name]
    each = [pa.table({"id": ids.slice(at, 1), "n": [0]}) for at in (0, 1)]
    table = pa.concat_tables([each[0]] * EACH + [each[1]] * EACH).drop_columns("n").append_column("x", [list(TEN)])
    require_two(units_in(table, table.slice(0, EACH)), name in APART)
    if name not in ("null", "long"):
        require_states(table, ids.to_pylist())
    path = tmp_path_factory.mktemp("parquet") / "both.parquet"
    try:
        pq.write_table(table, path)
    except (pa.ArrowNotImplementedError, OSError):
        return
    pq.write_table(table.slice(0, EACH), path.with_stem("one"))
    require_two(units_in(path, path.with_stem("one")), name in APART or name == "duration")
    if name not in ("null", "long", "duration"):
        require_states(path, ids.to_pylist())


MIXED: dict[str, tuple[Any, Any]] = {
    "number and text": (1, "1"), "logical and number": (True, 1), "text and number": ("a", 1.5),
    "large": (2**64, 1),
    "fraction": (1, 1.5), "bytes and text": (b"a", "a"), "decimal and number": (D(1), 2),
    "uuid": (uuid.UUID(int=1), uuid.UUID(int=2)),
    "dates": (datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 1)), "tuples": ((1,), (2,)),
}  # fmt: skip
"""In a column of objects."""


@every("name", MIXED)
def test_columns_of_objects_that_mix_types_are_refused(name: str) -> None:
    values = np.empty(2 * EACH, object)
    for at in range(2 * EACH):
        values[at] = MIXED[name][at // EACH]
    both = pd.DataFrame({"id": pd.Series(values, dtype=object), "x": TEN})
    found = units_in(both, both.iloc[:EACH])
    require_two(found, False)
    assert "mix types" in str(found) or "must hold text or whole numbers" in str(found) or name == "uuid"
    polars = pl.DataFrame({"id": pl.Series(list(values), dtype=pl.Object), "x": TEN})
    assert "has Python objects" in str(units_in(polars, polars.head(EACH)))


FRAMES: dict[str, tuple[Any, bool]] = {
    "pandas Int64": (pd.array([2**53, 2**53 + 1], "Int64"), True),
    "pandas text": (pd.array(["p", "P"], "string"), True),
    "pandas category": (pd.Categorical(["p", "P"]), True), "pandas category, mixed": (pd.Categorical([1, "1"]), False),
    "pandas uint64": (np.array([2**64 - 1, 2**64 - 2], np.uint64), True), "pandas float": (np.array([1.0, 2.0]), False),
    "pandas days": (pd.to_datetime(["2020-01-01", "2020-01-02"]), False),
    "polars Categorical": (pl.Series(["p", "P"], dtype=pl.Categorical), True),
    "polars Enum": (pl.Series(["p", "P"], dtype=pl.Enum(["p", "P"])), True),
    "polars UInt64": (pl.Series([2**64 - 1, 2**64 - 2], dtype=pl.UInt64), True),
    "polars Int128": (pl.Series([1, 2], dtype=pl.Int128), False),
    "polars Decimal": (pl.Series([D("1"), D("2")]), False),
    "polars Struct": (pl.Series([{"a": 1}, {"a": 2}]), False), "polars Boolean": (pl.Series([True, False]), False),
}  # fmt: skip


@pytest.mark.costly("Two people whom a type of column makes one are found for every type of a data frame.", always=True)
@every("name", FRAMES)
def test_two_values_of_each_frame_type(name: str) -> None:
    values, allowed = FRAMES[name]
    if name.startswith("polars"):
        both = pl.DataFrame({"id": values.gather([0] * EACH + [1] * EACH), "x": TEN})
        one = both.head(EACH)
    else:
        both = pd.DataFrame({"id": pd.Series(values).repeat(EACH).reset_index(drop=True), "x": TEN})
        one = both.iloc[:EACH]
    require_two(units_in(both, one), allowed)
    require_states(both, list(values))


WORDS = (("1", "1.0"), ("007", "7"), ("1000", "1e3"), ("9007199254740993", "9007199254740992"), ("NA", "N/A"),
         ("true", "TRUE"), ("2020-01-01", "2020-1-1"), ("p", " p"), ("p", "P"), ("\u00e9", "e\u0301"))  # fmt: skip


@pytest.mark.costly(
    "Two people whom a reader of text makes one are found by words that look like numbers.", always=True
)
@every("one, other", WORDS)
def test_two_words_of_a_csv_file_are_two_units(one: str, other: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = [f'"{one if at < EACH else other}",{at}\n' for at in range(2 * EACH)]
    folder = tmp_path_factory.mktemp("csv")
    whole, half = (csv_file(folder, "id,x\n" + "".join(lines[:end]), f"{end}.csv") for end in (2 * EACH, EACH))
    require_two(units_in(whole, half), True)
    require_states(whole, [one, other])


# ------------------------------------------------------------------------------------------------------------ databases


DUCKDB = {
    "varchar": ("'p'", "'P'"), "varchar collate nocase": ("'p'", "'P'"),
    "varchar collate noaccent": ("'e'", "'\u00e9'"),
    "char(3)": ("'x'", "'x '"), "enum('p', 'q')": ("'p'", "'q'"), "tinyint": ("1", "2"),
    "ubigint": ("18446744073709551615", "18446744073709551614"),
}  # fmt: skip
"""By type, two identifiers that are two units."""
DUCKDB_REFUSED = {
    "hugeint": ("1", "2"), "uhugeint": ("1", "2"), "bignum": ("1", "2"), "decimal(38, 0)": ("1", "2"),
    "double": ("1", "2"), "bit": ("'01'", "'1'"), "blob": ("'p'", "'q'"), "boolean": ("true", "false"),
    "json": ("'1'", "' 1'"), "variant": ("1::variant", "'1'::variant"), "union(i int, s varchar)": ("1", "'1'"),
    "uuid": (f"'{uuid.UUID(int=1)}'", f"'{uuid.UUID(int=2)}'"), "date": ("'2020-01-01'", "'2020-01-02'"),
    "timestamp_ns": ("'2020-01-01 00:00:00.000000001'", "'2020-01-01 00:00:00.000000002'"),
    "interval": ("'1 day'", "'24 hours'"), "int[]": ("[1]", "[2]"), "struct(a int)": ("{a: 1}", "{a: 2}"),
    "map(int, int)": ("map {1: 1}", "map {1: 2}"),
}  # fmt: skip
POSTGRES = {
    "text": ("'p'", "'P'"), "varchar(3)": ("'p'", "'p '"), "char(3)": ("'p'", "'q'"), "name": ("'p'", "'q'"),
    "text COLLATE public.blind": ("'p'", "'P'"), "citext": ("'p'", "'P'"), "mood": ("'p'", "'q'"),
    "int2": ("1", "2"), "int8": ("9007199254740993", "9007199254740992"), "oid": ("1", "4294967295"),
}  # fmt: skip
POSTGRES_REFUSED = {
    "words": ("'p'", "'q'"), "several": ("(1,'p')", "(2,'p')"), "numeric": ("1", "1.5"), "numeric(30, 0)": ("1", "2"),
    "float4": ("1", "2"), "float8": ("1", "2"), "money": ("1", "2"), "bool": ("true", "false"),
    '"char"': ("'p'", "'q'"),
    "date": ("'2020-01-01'", "'2020-01-02'"), "timestamptz": ("'2020-01-01'", "'2020-01-02'"),
    "interval": ("'1 day'", "'24 hours'"), "uuid": DUCKDB_REFUSED["uuid"], "json": ("'1'", "' 1'"),
    "jsonb": ("'1'", "'2'"),
    "xml": ("'<x/>'", "'<y/>'"), "bytea": ("'p'", "'q'"), "bit(2)": ("B'01'", "B'10'"), "varbit": ("B'01'", "B'1'"),
    "inet": ("'10.0.0.1'", "'10.0.0.2'"), "int[]": ("'{1}'", "'{2}'"), "int4range": ("'[1,2)'", "'[1,3)'"),
    "tsvector": ("'p'", "'q'"),
}  # fmt: skip


def two_of(base: Any, schema: str, kind: str, ids: tuple[str, str]) -> ibis.Table:
    """A table of two identifiers of a type; with a number of each record."""
    rows = ", ".join(f"({at}, '{at}', {ids[at // EACH]})" for at in range(2 * EACH))
    base.con.execute(f"DROP TABLE IF EXISTS {schema}.two; CREATE TABLE {schema}.two (n INTEGER, x TEXT, id {kind})")
    base.con.execute(f"INSERT INTO {schema}.two VALUES {rows}")
    return base.table("two", database=schema)


@contextmanager
def postgres(declared: str, values: tuple[float, ...]) -> Iterator[ibis.Table]:
    """A table of numbers, of a server that writes 15 digits."""
    base = connected()
    base.con.execute(
        "SET extra_float_digits = 0; CREATE SCHEMA IF NOT EXISTS stored; DROP TABLE IF EXISTS stored.close"
    )
    base.con.execute(f"CREATE TABLE stored.close (v {declared})")
    for value in values:
        base.con.execute("INSERT INTO stored.close VALUES (%s)", [value])
    try:
        yield base.table("close", database="stored")
    finally:
        base.con.execute("RESET extra_float_digits")


@pytest.mark.costly("Two people whom a type of column makes one are found for every type of DuckDB.", always=True)
@every("kind", [*DUCKDB, *DUCKDB_REFUSED])
def test_two_values_of_each_duckdb_type(kind: str) -> None:
    ids = {**DUCKDB, **DUCKDB_REFUSED}[kind]
    base = ibis.duckdb.connect()
    table = two_of(base, "main", kind, ids)
    require_two(units_in(table, table.filter(table.n < EACH)), kind in DUCKDB)
    require_states(table, [one.partition("::")[0].strip("'") for one in ids])
    base.disconnect()


def test_two_values_of_each_postgresql_type() -> None:
    base = connected()
    base.con.execute(
        "CREATE SCHEMA IF NOT EXISTS stored; CREATE EXTENSION IF NOT EXISTS citext; "
        "CREATE TYPE mood AS ENUM ('p', 'q'); CREATE DOMAIN words AS text; CREATE TYPE several AS (i int, j text)"
    )
    for kind, ids in {**POSTGRES, **POSTGRES_REFUSED}.items():
        table = two_of(base, "stored", kind, ids)
        require_two(units_in(table, table.filter(table.n < EACH)), kind in POSTGRES)
        require_states(table, [one.strip("'") for one in ids])
    base.con.execute("DROP TYPE mood CASCADE; DROP DOMAIN words CASCADE; DROP TYPE several CASCADE")
