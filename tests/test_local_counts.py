"""Counting from blocks in this process is the engine's counting: the same integers, and the same refusals."""

from __future__ import annotations

import gzip
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.records import counts as counts_module
from discreet.records.record_files import BLOCK
from folding import every
from sources import AB, AGE, CANARY, LOGICAL, N01, PEER_WARNINGS, alone, csv_file, refusal, same_counts, slow_counts

pytestmark = PEER_WARNINGS

TEXTS = (
    None, "", "a", "b", "A", " a", "0", "1", "01", " 1.0", "+1", "1e0", "-0", "true", "TRUE", " False", "?", "NA", "-9",
    "-9.0", " -9", "nan", "inf", "-inf", "17.5", "18", " 18 ", "gone", "120", "120.5", "1_0", "0x1",
    "1,5", "\u0661", "a\0",
)  # fmt: skip
NUMBERS = (None, 0, 1, 2, 17, 18, 65, 120, 121)
TEXT_KINDS = (
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.large_string()),
)  # fmt: skip
REAL = (*NUMBERS, -0.0, 17.999999999999996, 120.00000000000001, -9.0, float("nan"), float("inf"), float("-inf"))
VALUES: dict[pa.DataType, tuple[Any, ...]] = {
    **dict.fromkeys(TEXT_KINDS, TEXTS),
    **dict.fromkeys((pa.int8(), pa.int64(), pa.float32(), pa.int16()), (*NUMBERS, -9)),
    **dict.fromkeys((pa.uint8(), pa.uint64()), NUMBERS),
    pa.float64(): REAL,
    pa.decimal128(9, 2): tuple(None if value is None else Decimal(value) for value in NUMBERS),
    pa.bool_(): (None, True, False),
}
WHOLE = dc.Variable("x", bounds=(0, 120), bins=(18, 65), type="integer")
GAPPY = tuple(replace(one, missing="gone") for one in (AB, N01, LOGICAL, WHOLE))
VARIABLES = (AB, N01, LOGICAL, AGE, WHOLE, dc.Variable("x", ("1", "0", "-9")), dc.Variable("x", ("a", "0")), *GAPPY)
OPTIONS = st.fixed_dictionaries(
    {
        "missing": st.sampled_from(("error", "drop", "keep")),
        "out_of_bounds": st.sampled_from(("error", "clip")),
        "na_values": st.sampled_from(((), ("?", "NA"), ("-9",), ("01", "", "17"))),
    }
)


def columns(size: int) -> st.SearchStrategy[tuple[dc.Variable, pa.Array]]:
    """A variable and a column that may hold it; some columns hold states only."""

    def drawn(variable: dc.Variable, kind: pa.DataType) -> st.SearchStrategy[tuple[dc.Variable, pa.Array]]:
        likely = [value for value in VALUES[kind] if str(value).lower() in (*variable.states, "18")] or VALUES[kind]
        pools = (st.sampled_from(likely), st.sampled_from((None, *likely)), st.sampled_from(VALUES[kind]))
        lists = st.sampled_from(pools).flatmap(lambda pool: st.lists(pool, min_size=size, max_size=size))
        return lists.map(lambda values: (variable, arrow_column(values, kind)))

    return st.tuples(st.sampled_from(VARIABLES), st.sampled_from(tuple(VALUES))).flatmap(lambda both: drawn(*both))


def arrow_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """A column of a type; Arrow makes no dictionaries of large text by itself."""
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    known = [value for value in dict.fromkeys(values) if value is not None]
    places = pa.array([None if value is None else known.index(value) for value in values], kind.index_type)
    return pa.DictionaryArray.from_arrays(places, pa.array(known, kind.value_type))


def outcome(records: dc.results.Records, network: dc.Network) -> object:
    """All counts, or what was said instead."""
    try:
        found = dc.count(records, network)
    except dc.InputError as error:
        return str(error)
    return {str(scope): table.tolist() for scope, table in (*found.tables.items(), *found.joints.items())}


def both(source: Any, network: dc.Network, **options: Any) -> tuple[object, object]:
    """What is found from blocks, and what the engine finds."""
    records = dc.read_records(source, network.schema, **options)
    assert records.local is not None
    return outcome(records, network), outcome(replace(records, local=None), network)


def no_engine(*_arguments: object) -> None:
    pytest.fail("the engine was asked")


def pair(first: dc.Variable, second: dc.Variable) -> dc.Network:
    """x and y, y given x."""
    return dc.Network((replace(first, name="x"), replace(second, name="y")), {"x": (), "y": ("x",)})


def letters(size: int) -> tuple[pa.Table, dc.Network]:
    """Text over three letters, some of it missing, and its network."""
    rng = np.random.default_rng(size)
    found = {name: pa.array(np.array(["a", "b", "long " * 9])[rng.integers(0, 3, size)]) for name in "xy"}
    three = dc.Variable("x", ("a", "b", "long " * 9))
    return pa.table(found), pair(three, three)


# ------------------------------------------------------------------------------------------- the same as the engine


@pytest.mark.costly("Counts in memory that differ from an engine's are found on made-up tables.", always=True)
@settings(max_examples=40)
@given(parts=st.integers(0, 8).flatmap(lambda size: st.tuples(columns(size), columns(size))), options=OPTIONS)
def test_blocks_say_what_the_engine_says(
    parts: tuple[tuple[dc.Variable, pa.Array], tuple[dc.Variable, pa.Array]], options: dict[str, Any]
) -> None:
    (first, one), (second, other) = parts
    network = pair(first, second)
    table = pa.table({"x": one, "y": other})
    try:
        local, engine = both(table, network, **options)
    except dc.InputError:
        return  # such a column cannot hold the variable, or a state is one of na_values
    assert local == engine


@pytest.mark.costly("Each text is asked of the engine alone, since one fault would hide another.")
@every(
    ("variable", "kind"),
    [
        (AGE, TEXT_KINDS[-1]),
        *((one, pa.string()) for one in VARIABLES),
    ],
)
def test_every_text_is_what_the_engine_takes_it_for(variable: dc.Variable, kind: pa.DataType) -> None:
    """One text at a time, so that no text hides behind another's fault."""
    found = []
    for text in TEXTS:
        records = dc.read_records(pa.table({"x": arrow_column([text], kind)}), dc.Schema((variable,)))
        found.append(outcome(records, alone(variable)) == outcome(replace(records, local=None), alone(variable)))
    assert found == [True] * len(TEXTS)


MORE = pytest.mark.costly("Each number is asked of the engine alone, since one fault would hide another.")


@pytest.mark.parametrize("missing", ["error", *(pytest.param(one, marks=MORE) for one in ("drop", "keep"))])
@every("variable", (WHOLE, GAPPY[-1], GAPPY[1]))
def test_every_number_is_what_the_engine_takes_it_for(variable: dc.Variable, missing: str) -> None:
    for value in (None, 1, 17.5, 120.00000000000001, float("nan"), float("-inf")):
        table = pa.table({"x": pa.array([value], pa.float64())})
        records = dc.read_records(table, dc.Schema((replace(variable, name="x"),)), missing=missing)
        network = alone(replace(variable, name="x"))
        assert outcome(records, network) == outcome(replace(records, local=None), network), value


def test_what_is_no_state_is_neither_a_state_nor_missing() -> None:
    for value in ("q", "A", ""):
        for kind in TEXT_KINDS:
            table = pa.table({"x": arrow_column(["a", "b", value, None], kind)})
            refusal(
                lambda table=table: dc.count(dc.read_records(table, dc.Schema((AB,)), missing="drop"), alone(AB)), "x"
            )
    with pytest.raises(dc.InputError, match="'x'"):
        dc.count(dc.read_records(pa.table({"x": ["a", None]}), dc.Schema((AB,))), alone(AB))


def test_a_full_dictionary_of_one_byte_has_room_for_null() -> None:
    texts = [f"s{at}" for at in range(128)]
    table = pa.table({"x": arrow_column([*texts, None], pa.dictionary(pa.int8(), pa.string()))})
    network = alone(dc.Variable("x", tuple(texts)))
    found = dc.count(dc.read_records(table, network.schema, missing="drop"), network)
    assert found.tables["x"].tolist() == [1] * 128


def test_columns_of_a_frame_that_start_in_the_middle() -> None:
    """Validity is a bit a record: a slice starts inside a byte."""
    table = pa.table({"x": ["b", None, "a", None, "b", "a"], "y": pa.array([1, 0, 1, 0, None, 1], pa.int8())}).slice(2)
    coded = table.set_column(0, "x", table["x"].dictionary_encode())
    for source in (table, coded):
        local, engine = both(source, pair(AB, N01), missing="drop")
        assert local == engine
    assert dc.count(dc.read_records(table, pair(AB, N01).schema, missing="drop"), pair(AB, N01)).records == 2


# -------------------------------------------------------------------------------------------------- many blocks, files


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 5])
def test_every_block_counts_once(size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(counts_module, "kept", no_engine)
    table, network = letters(size)
    pq.write_table(table, tmp_path / "r.parquet", row_group_size=BLOCK // 2 + 7)
    wanted = slow_counts(table, network) if size < 10 else vector_counts(table, network)
    for source in (table, tmp_path / "r.parquet"):
        assert same_counts(dc.count(dc.read_records(source, network.schema), network), wanted)


def vector_counts(table: pa.Table, network: dc.Network) -> dict[str, np.ndarray]:
    """Family counts of `letters`, by numpy's own comparison of texts."""
    states = np.array(network.schema["x"].states)
    x, y = (np.array([(np.array(table[name].to_pylist()) == state) for state in states]) for name in "xy")
    return {"x": x.sum(axis=1), "y": (x[:, None] & y[None]).sum(axis=2)}


def test_parquet_of_mixed_encodings_and_several_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table, network = letters(3000)
    some = pa.array([None if at % 7 == 0 else one.as_py() for at, one in enumerate(table["x"])])
    holes = table.set_column(0, "x", some)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=700, dictionary_pagesize_limit=40, data_page_size=100)
    pq.write_table(holes, tmp_path / "b.parquet", use_dictionary=False, compression="gzip")
    pq.write_table(holes.slice(11), tmp_path / "c.parquet", row_group_size=1, data_page_version="2.0")
    encodings = set(pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(0).encodings)
    assert {"PLAIN", "RLE_DICTIONARY"} <= encodings
    local, engine = both(tmp_path / "*.parquet", network, missing="drop")
    assert isinstance(local, dict)
    assert local == engine
    monkeypatch.setattr(counts_module, "kept", no_engine)
    dc.count(dc.read_records(tmp_path / "*.parquet", network.schema, missing="drop"), network)


def test_files_whose_types_differ_are_left_to_the_engine(tmp_path: Path) -> None:
    network = alone(N01)
    pq.write_table(pa.table({"x": pa.array([0, 1, 1], pa.int64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([0, 1], pa.int8())}), tmp_path / "b.parquet")
    local, engine = both(tmp_path / "*.parquet", network)
    assert local == engine == {"x": [2, 3], "('x',)": [2, 3]}


def test_text_files_are_parsed_once_by_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    network = pair(dc.Variable("x", ("a", "two\nlines", 'a "quote"')), AGE)
    text = 'y;other;x\n17;q;a\n"18";q;"two\nlines"\n1e2;;"a ""quote"""\n;q;a\n'
    csv_file(tmp_path, text)
    (tmp_path / "records.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("records.csv", "records.csv.gz", "*.csv"):
        local, engine = both(tmp_path / name, network, missing="drop")
        assert isinstance(local, dict)
        assert local == engine
    monkeypatch.setattr(counts_module, "kept", no_engine)
    records = dc.read_records(tmp_path / "records.csv", network.schema, missing="drop")
    assert dc.count(records, network).tables["y"].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_blocks_of_another_table_are_not_counted() -> None:
    records = dc.read_records(pa.table({"x": ["a", "b", "b"]}), dc.Schema((AB,)))
    fewer = replace(records, table=records.table.filter(records.table["x"] == "b"))
    assert dc.count(fewer, alone(AB)).tables["x"].tolist() == [0, 2]


# ------------------------------------------------------------------------------------------------------ what is said


def test_no_text_of_a_failure_quotes_a_record(tmp_path: Path) -> None:
    table = pa.table({"x": [f"{CANARY}-{at}" for at in range(5000)]})
    pq.write_table(table, tmp_path / "r.parquet", use_dictionary=False, compression="none")
    whole = (tmp_path / "r.parquet").read_bytes()
    (tmp_path / "r.parquet").write_bytes(whole[:50] + b"\xff" * 200 + whole[250:])
    parts = [None, pa.py_buffer(b"\0\0\0\0\4\0\0\0"), pa.py_buffer(b"a\xff\xfeb")]
    spoilt = pa.Array.from_buffers(pa.string(), 1, parts)  # not UTF-8
    csv_file(tmp_path, f"x\na\n{CANARY},{CANARY}\n")
    for source in (tmp_path / "r.parquet", pa.table({"x": spoilt}), tmp_path / "records.csv", table):
        refusal(lambda source=source: dc.count(dc.read_records(source, alone(N01).schema), alone(N01)))
