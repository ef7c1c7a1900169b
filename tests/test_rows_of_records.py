"""Statistics of designs from tables of any source: the same bits as from arrays, a block at a time."""

from __future__ import annotations

import dataclasses
import pickle
import sqlite3
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import discreet as dc
from design_cases import CLASSES, NUMBER, design, grouped, grouped_records, numeric, rows_of
from discreet.designs.design import GRID_STEPS
from discreet.designs.records import rows as reading
from discreet.designs.records.executors import add_parts
from discreet.records import sources as reading_sources

FEATURES = (numeric("a", 0, 10), numeric("b"))
LINEAR, LOGISTIC = dc.designs.Design(FEATURES, NUMBER), dc.designs.Design(FEATURES, CLASSES, 1.0)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1000
    return pd.DataFrame({"a": rng.uniform(-1, 11, n), "b": rng.uniform(-1, 1, n), "number": rng.uniform(-4, 8, n),
                         "class": rng.choice(CLASSES.states, n)})  # fmt: skip


@pytest.fixture
def sources(frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, str | None]]:
    monkeypatch.chdir(tmp_path)
    frame.to_parquet("r.parquet")
    frame.to_csv("r.csv", index=False)
    with sqlite3.connect("r.db") as base:
        frame.to_sql("r", base, index=False)
    base.close()
    with duckdb.connect("r.duckdb") as engine:
        engine.execute("create table r as select * from 'r.parquet'")
    return {
        "parquet": ("r.parquet", None),
        "csv": ("r.csv", None),
        "frame": (frame, None),
        "sqlite": ("sqlite:///r.db", "r"),
        "duckdb": ("duckdb:///r.duckdb", "r"),
    }


@pytest.fixture
def streaming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is held: every pass reads the table anew, as it does where a table is larger than `HELD_BYTES`."""
    monkeypatch.setattr(reading, "HELD_BYTES", 0)


@pytest.mark.parametrize("held", [0, 2**28, 2**13])
@pytest.mark.parametrize("kind", ["parquet", "csv", "frame", "sqlite", "duckdb"])
def test_every_source_gives_the_bits_of_arrays(
    kind: str, held: int, sources: dict[str, Any], frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its records are held, or read anew at every pass, or turn out to be too many on the way."""
    monkeypatch.setattr(reading, "BLOCK", 300)
    monkeypatch.setattr(reading, "HELD_BYTES", held)
    source, table = sources[kind]
    theta = np.array([0.3, -2.0, 0.5])
    for over, name in ((LINEAR, "number"), (LOGISTIC, "class")):
        records = dc.read_records(source, over.schema, table=table, out_of_bounds="clip")
        streamed = dc.designs.read_rows(over, records)
        held = dc.designs.read_rows(over, frame[["a", "b"]].to_numpy(), frame[name].to_numpy())
        assert [len(coordinates) for coordinates, _ in streamed.blocks()] == [300, 300, 300, 100]
        assert np.array_equal(streamed.coordinates, held.coordinates)
        assert np.array_equal(streamed.target, held.target)
        assert (streamed.records, streamed.policy) == (held.records, held.policy)
        if name == "number":
            assert np.array_equal(dc.designs.sum_moments(streamed).values, dc.designs.sum_moments(held).values)
        else:
            one, other = dc.designs.sum_gradients(streamed), dc.designs.sum_gradients(held)
            assert np.array_equal(one.at(theta), other.at(theta))
            assert np.array_equal(one.signed(), other.signed())
            assert np.array_equal(one.expansion(theta)[1], other.expansion(theta)[1])


def test_no_pass_holds_more_than_a_block(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, streaming: None) -> None:
    """Whatever is done with rows of a large table, no more than a block of them is put onto the grid at once."""
    monkeypatch.setattr(reading, "BLOCK", 64)
    widest, gridded = [], reading._put_on_grid

    def watched(over: dc.designs.Design, table: np.ndarray) -> np.ndarray:
        widest.append(len(table))
        return gridded(over, table)

    monkeypatch.setattr(reading, "_put_on_grid", watched)
    over = dc.designs.Design(FEATURES, CLASSES)
    rows = dc.designs.read_rows(over, dc.read_records(frame, over.schema, out_of_bounds="clip"))
    assert widest == []
    mechanism = dc.designs.objective_perturbation(records=1000)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    dc.simulate(
        mechanism, dc.designs.sum_gradients(rows), dc.designs.Normal(over, 1.0), promise, rng=np.random.default_rng(1)
    )
    assert max(widest) == 64
    assert sum(widest) % 1000 == 0


def test_a_table_that_is_not_large_is_read_once(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are held on the grid in two bytes a coordinate, within the limit, and nobody can write there."""
    widest, gridded = [], reading._put_on_grid

    def watched(over: dc.designs.Design, table: np.ndarray) -> np.ndarray:
        widest.append(len(table))
        return gridded(over, table)

    monkeypatch.setattr(reading, "_put_on_grid", watched)
    over = dc.designs.Design(FEATURES, CLASSES)
    records = dc.read_records(frame, over.schema, out_of_bounds="clip")
    monkeypatch.setattr(reading, "HELD_BYTES", 1000 * 4 * reading.STEP_BYTES)
    rows = dc.designs.read_rows(over, records)
    first = rows.coordinates
    first[:] = 0
    assert rows.coordinates.any() and sum(widest) == 1000
    monkeypatch.setattr(reading, "HELD_BYTES", 1000 * 4 * reading.STEP_BYTES - 1)
    rows = dc.designs.read_rows(over, records)
    assert rows.coordinates.any() and rows.target.any() and sum(widest) == 1000 + 2000
    assert np.iinfo(np.int16).max >= GRID_STEPS


@pytest.mark.costly("Each kind of value, one at a time, is refused by a pass where the check counts it.")
@pytest.mark.parametrize("policy", ["error", "clip"])
def test_a_pass_refuses_what_check_counts(policy: str) -> None:
    """Every kind of value that a column may hold, one at a time."""
    over = dc.designs.Design((dc.Variable("whole", bounds=(0, 10), type="integer"), numeric("b", 0, 1)), CLASSES)
    for column, values in {
        "whole": ["3", "3.5", "10.5", "11", "-1", "inf", "-inf", "nan", "x", "", None, "1e999", " 4 "],
        "b": ["0", "1", "1.5", "inf", "x", None],
        "class": [*CLASSES.states, "x", None, ""],
    }.items():
        for value in values:
            good = {"whole": "1", "b": "0.5", "class": CLASSES.states[0]}
            table = pa.table({name: pa.array([good[name], value if name == column else good[name]], pa.string())
                              for name in good})  # fmt: skip
            records = dc.read_records(table, over.schema, out_of_bounds=policy, na_values=["3.5"])
            bad = [fault.variable for fault in dc.check(records)
                   if fault.missing or fault.unknown or (fault.out_of_bounds and policy == "error")]  # fmt: skip
            try:
                refused = [] if dc.designs.read_rows(over, records).records == 2 else ["?"]
            except dc.InputError as error:
                refused = [name for name in good if f"in column '{name}';" in str(error)]
            assert refused == bad, (column, value)


KINDS = (
    pa.float64(),
    pa.float32(),
    pa.int8(),
    pa.int64(),
    pa.uint64(),
    pa.string(),
    pa.dictionary(pa.int32(), pa.string()),
)


@pytest.mark.costly("Values that are read otherwise in memory are found for each type of column and policy.")
@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        pytest.param(kind, policy, id=f"{kind}-{'-'.join(policy)}", marks=[pytest.mark.thorough] * (kind != KINDS[at]))
        for kind in KINDS
        for at, policy in enumerate([("error", "error"), ("error", "clip"), ("drop", "clip"), ("keep", "clip")], -4)
    ],
)
def test_what_is_read_here_is_what_an_engine_reads(kind: pa.DataType, policy: tuple[str, str]) -> None:
    """Numbers, missing values and texts that say so, of every type that a column may have; and faults."""
    over = dc.designs.Design((numeric("a", 0, 50), numeric("b", 0, 1)), dc.Variable("class", states=("0", "1")))
    for odd in ("0", "7", "100", "9", "nan", "inf", None):
        values = ["3", "49", odd, "1"]
        if not (pa.types.is_floating(kind) or kind == pa.string() or pa.types.is_dictionary(kind)):
            values = [None if value in ("nan", "inf") else value for value in values]
        texts = pa.array(values, pa.string())
        column = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
        for target in (pa.array(["0", "1", "1", "0"]), pa.array([0, 1, 1, None]), pa.array([0.0, 1.0, 2.0, 1.0])):
            table = pa.table({"a": column, "b": pa.array([0.0, 0.5, 1.0, 1.0]), "class": target})
            read = dc.read_records(table, over.schema, missing=policy[0], out_of_bounds=policy[1], na_values=["9"])
            found = []
            for records in (read, dataclasses.replace(read, local=None)):
                try:
                    rows = dc.designs.read_rows(over, records)
                    found.append((rows.coordinates.tolist(), rows.target.tolist()))
                except dc.InputError as error:
                    found.append((str(error), ""))
            assert found[0] == found[1], (odd, target)


def test_an_empty_table_has_an_empty_block(tmp_path: Path) -> None:
    over = dc.designs.Design((numeric("a", 0, 50),), CLASSES)
    table = pa.table({"a": pa.array([], pa.float64()), "class": pa.array([], pa.string())})
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet")
    for source in (table, tmp_path / "r.parquet"):
        rows = dc.designs.read_rows(over, dc.read_records(source, over.schema))
        assert rows.records == 0 and rows.coordinates.shape == (0, 2) and len(rows.target) == 0


def test_products_of_a_whole_block_are_exact() -> None:
    """Whole numbers of at most GRID in size, as many as a block has, stay where floats are whole numbers."""
    assert reading.BLOCK * GRID_STEPS**2 < 2**53
    over = design(1, NUMBER)
    n = reading.BLOCK + 5
    rows = dc.designs.read_rows(over, np.ones((n, 1)), np.full(n, 7.0))
    assert dc.designs.sum_moments(rows).values.tolist() == [n * GRID_STEPS**2] * len(over.moments)


def in_parts(rows: dc.designs.Rows) -> dc.designs.Rows:
    """The rows, summed as executors sum them: seven records at a time, by a function that was pickled."""

    def spread(part: Any) -> Any:
        part = pickle.loads(pickle.dumps(part))  # noqa: S301 its own
        pieces = [slice(start, start + 7) for start in range(0, max(rows.records, 1), 7)]
        return reduce(add_parts, [part(rows.coordinates[piece], rows.target[piece]) for piece in pieces])

    return dataclasses.replace(rows, spread=spread)


@pytest.mark.parametrize("records", [0, 1, 100])
def test_sums_do_not_depend_on_where_their_parts_are_made(records: int) -> None:
    """Of moments, gradients and curvature all integers are the same; floats differ by their rounding."""
    of_numbers, of_classes = grouped(NUMBER), grouped(CLASSES)
    drawn = (grouped_records() * 3)[:: len(grouped_records()) * 3 // max(records, 1)][:records]
    classes = rows_of(of_classes, drawn)
    numbers = rows_of(of_numbers, [(*record[:-1], at % 11 - 3.3) for at, record in enumerate(drawn)])
    moments, apart = dc.designs.sum_moments(numbers), dc.designs.sum_moments(in_parts(numbers))
    assert np.array_equal(moments.values, apart.values) and moments.records == apart.records == records
    whole, gradients = dc.designs.sum_gradients(classes), dc.designs.sum_gradients(in_parts(classes))
    theta = np.linspace(-1, 2, of_classes.weights)
    for made in (
        lambda each: each.at(theta),
        lambda each: each.signed(),
        lambda each: np.concatenate(each.curvature(theta)),
    ):
        assert np.array_equal(made(whole), made(gradients))
    for first, second in zip(whole.expansion(theta), gradients.expansion(theta), strict=True):
        assert np.abs(first - second).max() < 1e-12 * max(records, 1)


def test_records_that_change_before_they_are_summed_elsewhere_are_noticed() -> None:
    held = rows_of(design(1, NUMBER), [(0.5, 1), (0.25, 2)])
    changed = dataclasses.replace(held, spread=lambda part: part(held.coordinates[:1], held.target[:1]))
    with pytest.raises(dc.InputError, match="changed while they were read"):
        dc.designs.sum_moments(changed)


def faulty(frame: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    changed = frame.astype({column: object}) if isinstance(value, str) else frame.copy()
    changed.loc[3, column] = value
    return changed


@pytest.mark.parametrize(("column", "value"), [("a", 11.0), ("b", np.nan), ("class", "maybe"), ("class", None)])
def test_records_at_fault_are_refused_by_column(frame: pd.DataFrame, column: str, value: object) -> None:
    inside = frame.assign(a=frame.a.clip(0, 10))
    over = dc.designs.Design(FEATURES, CLASSES)
    assert dc.designs.read_rows(over, dc.read_records(inside, over.schema)).records == 1000
    with pytest.raises(dc.InputError, match=f"out of bounds in column '{column}'; `check` shows"):
        dc.designs.read_rows(over, dc.read_records(faulty(inside, column, value), over.schema))
    if value is None or value is np.nan:
        kept = dc.designs.read_rows(over, dc.read_records(faulty(inside, column, value), over.schema, missing="drop"))
        assert (kept.records, len(kept.coordinates), kept.policy.missing) == (999, 999, "drop")


def test_records_of_another_schema_or_beside_a_target_are_refused(frame: pd.DataFrame) -> None:
    records = dc.read_records(frame, LINEAR.schema, out_of_bounds="clip")
    other = dc.designs.Design((numeric("a", 0, 11), numeric("b")), NUMBER)
    for over in (LOGISTIC, other):
        with pytest.raises(dc.InputError, match="must be in the records' schema"):
            dc.designs.read_rows(over, records)
    with pytest.raises(dc.InputError, match="bring their target"):
        dc.designs.read_rows(LINEAR, records, frame["number"])


@pytest.mark.parametrize(
    "change",
    [
        "delete from r where rowid < 5",
        "update r set a = null where rowid < 5",
        "insert into r select * from r where rowid < 5",
    ],
)
def test_a_table_that_changes_between_passes_is_noticed(
    change: str, frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streaming: None
) -> None:
    monkeypatch.chdir(tmp_path)
    base = sqlite3.connect("r.db")
    frame.to_sql("r", base, index=False)
    base.commit()
    rows = dc.designs.read_rows(
        LINEAR, dc.read_records("sqlite:///r.db", LINEAR.schema, table="r", out_of_bounds="clip")
    )
    base.execute(change)
    base.commit()
    base.close()
    with pytest.raises(dc.InputError, match="changed while they were read"):
        dc.designs.sum_moments(rows)


def test_too_many_records_are_refused(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "RECORDS_LIMIT", 999)
    with pytest.raises(dc.InputError, match="at most 999 records"):
        dc.designs.read_rows(LINEAR, dc.read_records(frame, LINEAR.schema, out_of_bounds="clip"))


def refused_between_blocks(rows: dc.designs.Rows) -> None:
    with pytest.raises(dc.InputError, match="could not be read to the end") as refused:
        list(rows.blocks())
    assert "Jane" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__context__ is None


def test_an_engine_that_fails_between_blocks_says_nothing_of_its_records(
    sources: dict[str, Any], monkeypatch: pytest.MonkeyPatch, streaming: None
) -> None:
    records = dc.read_records(sources["csv"][0], LINEAR.schema, out_of_bounds="clip")
    rows = dc.designs.read_rows(LINEAR, records)
    whole = reading_sources._read_batches

    def failing(expression: Any, size: int) -> Iterator[Any]:
        batches = whole(expression, size)
        yield next(batches)
        raise RuntimeError("conversion of 'Jane Doe' failed")

    monkeypatch.setattr(reading_sources, "_read_batches", failing)
    refused_between_blocks(rows)


def test_a_file_that_fails_between_blocks_says_nothing_of_its_records(
    sources: dict[str, Any], monkeypatch: pytest.MonkeyPatch, streaming: None
) -> None:
    """Parquet and frames are read in this process, without an engine."""
    records = dc.read_records(sources["parquet"][0], LINEAR.schema, out_of_bounds="clip")
    rows = dc.designs.read_rows(LINEAR, records)
    whole = pyarrow.parquet.ParquetFile.iter_batches

    def failing(*given: Any, **options: Any) -> Iterator[Any]:
        yield from whole(*given, **options)
        raise RuntimeError("conversion of 'Jane Doe' failed")

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", failing)
    refused_between_blocks(rows)


def test_a_frame_is_read_by_the_names_of_its_columns(frame: pd.DataFrame) -> None:
    """Whatever the order of its columns: the class may be one of them, or be given beside the features."""
    over = dc.designs.Design(FEATURES, CLASSES)
    held = dc.designs.read_rows(over, frame[["a", "b"]].to_numpy(), frame["class"].to_numpy())
    swapped = frame[["class", "b", "number", "a"]]
    for given in (swapped, pl.from_pandas(swapped), pa.Table.from_pandas(swapped)):
        for rows in (dc.designs.read_rows(over, given), dc.designs.read_rows(over, given, frame["class"])):
            assert np.array_equal(rows.coordinates, held.coordinates)
            assert np.array_equal(rows.target, held.target)
            assert (rows.records, rows.policy) == (held.records, held.policy)
    score = dc.research.own_factor(over, lambda r, z: -abs(r["a"][:, None] - z[:, 0]), [1, 9], low=-10, high=0)
    of = dc.research.factored(score)
    read = dc.read_records(swapped, over.schema, out_of_bounds="clip")
    assert dc.tools.statistic_of(of, swapped, over).values == dc.tools.statistic_of(of, read, over).values


def test_a_frame_without_a_column_is_refused(frame: pd.DataFrame) -> None:
    over = dc.designs.Design(FEATURES, CLASSES)
    with pytest.raises(dc.InputError, match="the records have no column 'a'"):
        dc.designs.read_rows(over, frame[["b", "class"]])
    with pytest.raises(dc.InputError, match="the records have no column 'class'"):
        dc.designs.read_rows(over, frame[["a", "b"]])
    with pytest.raises(dc.InputError, match="the records have no column 'a'"):
        dc.designs.read_rows(over, frame.rename(columns={"a": "A"}), frame["class"])
    with pytest.raises(dc.InputError, match="column 'b' holds a value that is missing or infinite"):
        dc.designs.read_rows(over, frame.assign(b="x"), frame["class"])
