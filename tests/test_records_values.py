"""What a value of a record may be: states, missing values, numbers within bounds; and what `check` says of the rest."""

from __future__ import annotations

import io
import math
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet as dc
from folding import every
from sources import AB, AGE, CANARY, LOGICAL, N01, PEER_WARNINGS, alone, column, counted, csv_file, faults, refusal

pytestmark = PEER_WARNINGS

# --------------------------------------------------------------------------------------------- missing and unknown

NAN_COLUMN = column([math.nan, None, 1.0, 0.0])
MISSING = {
    "null text": (column(["a", None, "b", None]), AB),
    "null integer": (column([0, None, None, 1]), N01),
    "null and nan": (NAN_COLUMN, N01),
    "null and nan, numeric": (NAN_COLUMN, AGE),
    "null logical": (column([True, None, None, False]), LOGICAL),
    "null decimal": (column([1, None, None, 2], pa.decimal128(5, 1)), AGE),
    "numeric text": (column(["1", None, None, "20.5"]), AGE),
    "pandas": (pd.DataFrame({"x": ["a", None, np.nan, "b"]}), AB),
}


@every("kind", MISSING)
def test_missing_values(kind: str) -> None:
    table, variable = MISSING[kind]
    assert faults(table, variable) == (2, 0, 0)
    assert "check" in refusal(lambda: counted(table, variable), "x")
    assert sum(counted(table, variable, missing="drop")) == 2


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_empty_csv_fields_are_missing(stream: bool, tmp_path: Path) -> None:
    text = 'x,y\na,1\n,2\n"",3\nb,\n'
    source = (lambda: io.BytesIO(text.encode())) if stream else (lambda: csv_file(tmp_path, text))
    assert faults(source(), AB) == (2, 0, 0)
    refusal(lambda: counted(source(), AB), "x")
    assert counted(source(), AB, missing="drop") == [1, 1]


WORDS = ("?", "NA", "-9")


@pytest.mark.parametrize("kind", ["csv", "stream", "arrow", "dictionary", "pandas", "sqlite", "duckdb", "ibis"])
def test_words_for_missing_values_are_missing_in_every_source(kind: str, tmp_path: Path) -> None:
    texts = ["a", "?", "b", "NA", "na", " ?", "-9", "-9.0"]

    def source(values: list[str]) -> Any:
        table = column(values, pa.string())
        if kind in ("csv", "stream"):
            raw = "x,y\n" + "".join(f"{value},1\n" for value in values)
            return csv_file(tmp_path, raw) if kind == "csv" else io.BytesIO(raw.encode())
        if kind in ("sqlite", "duckdb"):
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
            base: Any = sqlite3.connect(path) if kind == "sqlite" else duckdb.connect(path)
            base.execute("CREATE TABLE people (x VARCHAR COLLATE NOCASE)")
            base.executemany("INSERT INTO people VALUES (?)", [(value,) for value in values])
            base.commit()
            base.close()
            return f"{kind}:///{path}"
        frames = {
            "arrow": table,
            "dictionary": pa.table({"x": table["x"].dictionary_encode()}),
            "pandas": table.to_pandas(),
            "ibis": ibis.memtable(table),
        }
        return frames[kind]

    name = {"table": "people"} if kind in ("sqlite", "duckdb") else {}
    assert faults(source(texts), AB, **name) == (0, 6, 0)
    assert faults(source(texts), AB, na_values=WORDS, **name) == (3, 3, 0)  # a name is compared as it stands
    refusal(lambda: counted(source(texts[:4]), AB, na_values=WORDS, **name), "x")
    assert counted(source(texts[:4]), AB, na_values=WORDS, missing="drop", **name) == [1, 1]
    numbers = ["0", "?", "1.0", "-9", "-9.0", "NA"]
    assert counted(source(numbers), N01, na_values=WORDS, missing="drop", **name) == [1, 1]
    assert faults(source(numbers), AGE, na_values=WORDS, **name) == (4, 0, 0)


@every("kind", [pa.int64(), pa.float32(), pa.decimal128(9, 2)])
def test_numbers_for_missing_values_are_missing_in_numeric_columns(kind: pa.DataType) -> None:
    table = column([0, 1, -9, None], kind)
    assert faults(table, N01, na_values=WORDS) == (2, 0, 0)
    assert faults(table, AGE, na_values=WORDS) == (2, 0, 0)
    assert counted(table, N01, na_values=("-9.0",), missing="drop") == [1, 1]
    assert faults(table, N01, na_values=("?",)) == (1, 1, 0)


def test_words_for_missing_values_leave_logical_columns_alone() -> None:
    assert faults(column([True, None]), LOGICAL, na_values=WORDS) == (1, 0, 0)


@every(
    ("words", "variable"),
    [(["a"], AB), (["?", "0"], N01), (["0.0"], N01), (["TRUE"], LOGICAL), ("?", AB), ([None], AB), (3, AB)],
)
def test_words_for_missing_values_that_are_states_or_no_list_are_refused(words: Any, variable: dc.Variable) -> None:
    assert "na_values" in refusal(lambda: dc.read_records(column(["?"]), dc.Schema((variable,)), na_values=words))


def test_public_records_have_words_for_missing_values_too() -> None:
    found = dc.external.public_counts(column(["a", "?", "b"]), alone(AB), missing="drop", na_values=["?"])
    assert found["x"].tolist() == [1, 1]


def test_a_fault_says_that_words_can_be_declared_to_be_missing() -> None:
    assert "na_values" in refusal(lambda: counted(column(["a", "?"]), AB), "x")


@every("missing", ["error", "drop"])
@every(
    ("table", "variable"),
    [
        (column(["a", CANARY]), AB),
        (column(["a", "A"]), AB),
        (column(["a", ""]), AB),
        (column([0, 2]), N01),
        (column([0.0, 0.5]), N01),
        (column([0.0, math.inf]), N01),
        (column([True, False]), dc.Variable("x", ("true",))),
    ],
)
def test_an_unknown_state_is_refused_under_every_policy(table: pa.Table, variable: dc.Variable, missing: str) -> None:
    assert faults(table, variable, missing=missing) == (0, 1, 0)
    refusal(lambda: counted(table, variable, missing=missing), "x")


# ------------------------------------------------------------------------------------------------ numeric variables


@every("kind", [pa.float64(), pa.int64(), pa.string(), pa.float32(), pa.decimal128(20, 4)])
def test_bins_are_closed_below_and_the_last_one_on_both_sides(kind: pa.DataType) -> None:
    values = column(["0", "17", "18", "64", "65", "120"]).cast(pa.schema({"x": kind}))
    assert counted(values, AGE) == [2, 2, 2]
    assert counted(column([17.999999, 18.000001, np.nextafter(65, 0)]), AGE) == [1, 2, 0]


@every(("value", "state"), [(-1e-9, 0), (np.nextafter(120, 200), 2), (math.inf, 2), ("1e999", 2)])
def test_numbers_out_of_bounds(value: float | str, state: int) -> None:
    look_beyond(value, state)


@pytest.mark.costly("Each kind of number far beyond the bounds is refused or clipped by the engine itself.")
@every(
    ("value", "state"),
    [(1e308, 2), (-1e308, 0), (-math.inf, 0), (2**62, 2), (-(2**62), 0), ("-inf", 0), ("Infinity", 2)],
)
def test_numbers_far_out_of_bounds(value: float | str, state: int) -> None:
    look_beyond(value, state)


def look_beyond(value: float | str, state: int) -> None:
    table = column([value])
    assert faults(table, AGE) == faults(table, AGE, out_of_bounds="clip") == (0, 0, 1)
    refusal(lambda: counted(table, AGE), "x")
    refusal(lambda: counted(table, AGE, missing="drop"), "x")
    assert counted(table, AGE, out_of_bounds="clip")[state] == 1


@pytest.mark.costly("Each kind of text in a numeric column meets every policy in the engine itself.")
@every("text", [CANARY, "", " ", "nan", "NaN", "12abc", "0x10", "1,5", "true"])
@every("out_of_bounds", ["error", "clip"])
def test_text_that_is_no_number_is_never_clipped_or_dropped(text: str, out_of_bounds: str) -> None:
    assert faults(column(["1", text]), AGE, out_of_bounds=out_of_bounds) == (0, 1, 0)
    refusal(lambda: counted(column(["1", text]), AGE, missing="drop", out_of_bounds=out_of_bounds), "x")


def test_sqlite_numbers_are_read_too(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "r.db") as base:
        base.execute("CREATE TABLE people (x REAL)")
        base.executemany("INSERT INTO people VALUES (?)", [(0.5,), (18,), (None,), (70.25,)])
    base.close()
    url = f"sqlite:///{tmp_path / 'r.db'}"
    assert counted(url, AGE, table="people", missing="drop") == [1, 1, 1]
    assert faults(url, AGE, table="people") == (1, 0, 0)
    states = dc.Variable("x", ("0.5", "18", "70.25"))
    assert counted(url, states, table="people", missing="drop") == [1, 1, 1]


# ----------------------------------------------------------------------------------------------------------- check


def test_check_equals_a_slow_count() -> None:
    rng = np.random.default_rng(11)
    text = rng.choice(np.array(["a", "b", None, "c", ""], object), 400)
    number = rng.choice([0.0, 17.5, 65.0, 120.0, math.nan, math.inf, -1.0, 121.0], 400)
    spelled = rng.choice(np.array(["1", "1e2", "130", "-inf", "nan", "x", None], object), 400)
    whole = rng.choice(np.array([0, 1, 2, None], object), 400)
    table = pa.table({"t": pa.array(text), "f": pa.array(number), "s": pa.array(spelled), "i": pa.array(list(whole))})
    schema = dc.Schema(
        (
            dc.Variable("t", ("a", "b")),
            dc.Variable("f", bounds=(0, 120), bins=(18,)),
            dc.Variable("s", bounds=(0, 120)),
            dc.Variable("i", ("0", "1")),
        )
    )

    def how_many(values: np.ndarray, wrong: tuple[object, ...]) -> int:
        return sum(any(value is bad or value == bad for bad in wrong) for value in values.tolist())

    wanted = {
        "t": (how_many(text, (None,)), how_many(text, ("c", "")), 0),
        "f": (int(np.isnan(number).sum()), 0, how_many(number, (math.inf, -1.0, 121.0))),
        "s": (how_many(spelled, (None,)), how_many(spelled, ("nan", "x")), how_many(spelled, ("130", "-inf"))),
        "i": (how_many(whole, (None,)), how_many(whole, (2,)), 0),
    }
    for options in ({}, {"missing": "drop"}, {"out_of_bounds": "clip"}):
        found = dc.check(dc.read_records(table, schema, **options))
        assert {part.variable: (part.missing, part.unknown, part.out_of_bounds) for part in found} == wanted
    assert all(count > 20 for counts in wanted.values() for count in counts if count)


def test_check_of_no_records() -> None:
    assert faults(column([], pa.string()), AB) == (0, 0, 0)
    assert faults(column([], pa.float64()), AGE) == (0, 0, 0)


def test_a_schema_drafted_from_a_sample_reads_that_sample() -> None:
    sample = pa.table({"x": ["b", "a", None], "z": [True, False, True], "w": [0.0, 1.5, 7.25]})
    drafted = dc.tools.draft_schema(sample)["variables"]
    assert drafted == [
        {"name": "x", "states": ["a", "b"]},
        {"name": "z", "states": ["false", "true"]},
        {"name": "w", "states": ["0", "1.5", "7.25"]},
    ]
    (numeric,) = dc.tools.draft_schema(column([float(value) for value in range(100)]))["variables"]
    assert numeric["bounds"] == [0.0, 99.0]
    assert len(numeric["bins"]) == 3
    assert sum(counted(column([float(value) for value in range(100)]), dc.Variable(**numeric))) == 100
    refusal(lambda: dc.tools.draft_schema(column([f"{CANARY}{position}" for position in range(60)])), "x")


def test_a_draft_puts_numbers_in_their_order(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "x,y,z\n10,a10,?\n2,a2,3\n,a1,\n0,a1,11\n-1,a1,?\n")
    drafted = {part["name"]: part["states"] for part in dc.tools.draft_schema(path, na_values=["?"])["variables"]}
    assert drafted == {"x": ["-1", "0", "2", "10"], "y": ["a1", "a10", "a2"], "z": ["3", "11"]}
    (numeric,) = dc.tools.draft_schema(column([-9, *range(100)]), na_values=["-9"])["variables"]
    assert numeric["bounds"] == [0, 99]


@pytest.mark.parametrize("text", [f"{CANARY},{CANARY}\nb,c\n", "0,1.5\n1,2.5\n"])
def test_a_draft_of_a_file_without_a_header_is_refused_helpfully(text: str, tmp_path: Path) -> None:
    assert "no header, write the names" in refusal(lambda: dc.tools.draft_schema(csv_file(tmp_path, text)))


def test_a_variable_without_bins_can_be_checked() -> None:
    weight = dc.Variable("x", bounds=(0, 1))
    assert faults(column([0.5, 2.0, math.nan, 1.0]), weight) == (1, 0, 1)


@every("options", [{"missing": "ignore"}, {"out_of_bounds": "drop"}, {"missing": ""}])
def test_unknown_policies_are_refused(options: dict[str, str]) -> None:
    refusal(lambda: counted(column(["a"]), AB, **options))
