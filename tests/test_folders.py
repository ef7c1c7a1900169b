"""Folders of files, by path and by the URL of a file system, and what is wrong with some of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import discreet as dc
import shell
from sources import CANARY, PEER_WARNINGS

pytestmark = PEER_WARNINGS

PAIR = dc.Network((dc.Variable("x", ("a", "b")), dc.Variable("n", bounds=(0, 9), bins=(5,))), {"x": (), "n": ("x",)})
PARTS = [pa.table({"x": ["a"] * 3, "n": [1.0, 2.0, 7.0]}), pa.table({"x": ["b", "a"], "n": [9.0, 5.0]})]
"""State b is in one part only."""
BY = {"path": str, "url": lambda folder: folder.absolute().as_uri()}


def folder(place: Path, *parts: pa.Table) -> Path:
    """As Spark writes one, with what is not data beside it."""
    for number, part in enumerate(parts):
        below = place / "visits" / f"day={number}"
        below.mkdir(parents=True, exist_ok=True)
        pq.write_table(part, below / f"part-{number}.snappy.parquet")
        (below / f".part-{number}.crc").write_bytes(b"x")
    (place / "visits" / "_SUCCESS").touch()
    return place / "visits"


def counted(source: Any, network: dc.Network = PAIR, **how: Any) -> list[int]:
    records = dc.read_records(source, network.schema, **how)
    found = dc.count(records, network).tables[network.nodes[-1]].ravel().tolist()
    by_engine = dc.results.Records(records.table, records.schema, records.policy, records.bytewise)
    assert dc.count(by_engine, network).tables[network.nodes[-1]].ravel().tolist() == found
    return found


@pytest.mark.parametrize("by", BY)
def test_a_folder_is_the_records_of_its_files(by: str, tmp_path: Path) -> None:
    place = folder(tmp_path, *PARTS)
    assert counted(BY[by](place)) == counted(pa.concat_tables(PARTS)) == [2, 2, 0, 1]
    assert counted(BY[by](place / "day=1" / "part-1.snappy.parquet")) == [0, 1, 0, 1]


@pytest.mark.parametrize("by", BY)
def test_other_columns_of_other_types_do_not_matter(by: str, tmp_path: Path) -> None:
    first, second = PARTS
    place = folder(
        tmp_path, first.append_column("z", pa.array([1, 2, 3])), second.append_column("z", pa.array(["q", "r"]))
    )
    assert counted(BY[by](place)) == [2, 2, 0, 1]


def test_a_folder_of_csv(tmp_path: Path) -> None:
    for number, part in enumerate(PARTS):
        pyarrow.csv.write_csv(part, tmp_path / f"{number}.csv")
    assert counted(str(tmp_path)) == [2, 2, 0, 1]
    refusal_words(tmp_path.as_uri(), "Parquet")
    pq.write_table(PARTS[0], tmp_path / "2.parquet")
    refusal_words(str(tmp_path), "one format")


def refusal_words(source: Any, words: str, network: dc.Network = PAIR) -> None:
    """One line that quotes no record."""
    for missing in ("error", "drop"):
        with pytest.raises(dc.InputError, match=words) as refused:
            dc.count(dc.read_records(source, network.schema, missing=missing), network)
        assert CANARY not in str(refused.value) and "\n" not in str(refused.value)


BAD: dict[str, tuple[pa.Table | None, str]] = {
    "column-not-everywhere": (pa.table({"x": ["a"]}), "'n'|read to the end"),
    "column-of-another-type": (pa.table({"x": ["a"], "n": [CANARY]}), "'n'|read to the end"),
    "value-unknown-in-one-part": (pa.table({"x": [CANARY], "n": [1.0]}), "'x'"),
    "million-values": (None, "'x'"),
}


@cache
def bad(what: str) -> tuple[pa.Table, str]:
    """A part of a folder, and the words of its refusal; the large one is made where it is wanted."""
    part, words = BAD[what]
    if part is None:
        part = pa.table({"x": [f"{CANARY}{at}" for at in range(10**6)], "n": np.zeros(10**6)})
    return part, words


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_in_one_part_is_refused(by: str, what: str, tmp_path: Path) -> None:
    part, words = bad(what)
    refusal_words(BY[by](folder(tmp_path, *PARTS, part)), words)


@pytest.mark.parametrize("by", BY)
def test_a_part_that_is_gone_is_refused(by: str, tmp_path: Path) -> None:
    place = folder(tmp_path, *PARTS)
    records = dc.read_records(BY[by](place), PAIR.schema)
    (place / "day=1" / "part-1.snappy.parquet").unlink()
    with pytest.raises(dc.InputError):
        dc.count(records, PAIR)


def test_places_that_are_none(tmp_path: Path) -> None:
    for source in (tmp_path.as_uri() + "/nowhere", "s3://", "abfss://key:secret@x/y"):
        with pytest.raises(dc.InputError) as refused:
            dc.read_records(source, PAIR.schema)
        assert "secret" not in str(refused.value)
    (tmp_path / "empty").mkdir()
    refusal_words(str(tmp_path / "empty"), "one format")
    with pytest.raises(dc.InputError, match="name of a table"):
        dc.read_records(tmp_path.as_uri(), PAIR.schema, table="t")


def test_a_bad_folder_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shell.opened(tmp_path, monkeypatch, capfd)
    for number in range(2):
        Path(f"visits{number}").mkdir()
    pq.write_table(shell.sample(), "visits0/a.parquet")
    pq.write_table(shell.sample().drop_columns(["asia"]), "visits0/b.parquet")
    run.fails(shell.RELEASE.replace("d.parquet", "visits0"))
    assert not dc.Ledger(shell.LEDGER).account("add-remove").charges()
    pq.write_table(shell.sample(), "visits1/a.parquet")
    run.json(shell.RELEASE.replace("d.parquet", "visits1"))
