"""The same integers on every engine: on clean and dirty tables, whatever collations the text has, under all policies."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.sensitive.records import check_units
from engines import DATABASES, ENGINES, on_parquet
from sources import CANARY, PEER_WARNINGS

pytestmark = PEER_WARNINGS

AGES = {"bounds": (0, 120), "bins": (18, 65)}
VARIABLES = (
    dc.Variable("case", ("a", "A", "a ", "é")),
    dc.Variable("number", ("0", "1")),
    dc.Variable("word", ("true", "false")),
    dc.Variable("age", **AGES),
    dc.Variable("years", **AGES),
    dc.Variable("whole", ("0", "1")),
    dc.Variable("flag", ("true", "false")),
)
CHAIN = dc.Network(
    VARIABLES, {one.name: () if not at else (VARIABLES[at - 1].name,) for at, one in enumerate(VARIABLES)}
)
CLEAN: dict[str, list[Any]] = {
    "case": ["a", "A", "a ", "é"],
    "number": ["0", "1", " 1.0", "+0", "-0.00"],
    "word": ["true", "FALSE", " True"],
    "age": [0.0, 17.5, 18.0, 65.0, 120.0],
    "years": ["0", "17.5", " 18 ", "+65.", "1.2e2", ".5", "1E1"],
    "whole": [0, 1],
    "flag": [True, False],
}
OUTSIDE: dict[str, list[Any]] = {
    "age": [-1.0, 120.5, math.inf, -math.inf],
    "years": ["-1", "1e99", "inf", "-Infinity", "+INF", "9" * 60],
}
MISSING: dict[str, list[Any]] = {"age": [None, math.nan], **{name: [None] for name in CLEAN if name != "age"}}
UNKNOWN: dict[str, list[Any]] = {
    "case": ["e", "É", "á", " a", "A ", "a\u0301", "", CANARY],
    "number": ["1e0", "2", "", "0x1", CANARY],
    "word": ["yes", "t", ""],
    "years": ["", "nan", "x", "1,5", "0x1A", "1 0", "--1", "e5", ".", CANARY],
    "whole": [2, -1],
}
KINDS = (pa.string(), pa.string(), pa.string(), pa.float64(), pa.string(), pa.int64(), pa.bool_())
SCHEMA = pa.schema(list(zip(CLEAN, KINDS, strict=True)))


def table(*faults: dict[str, list[Any]], only: str | None = None) -> pa.Table:
    """300 records whose values are all of them that are clean, and those at fault in some columns."""
    rng = np.random.default_rng(7)
    columns = {}
    for name, clean in CLEAN.items():
        values = clean + [value for fault in faults if only in (None, name) for value in fault.get(name, [])]
        columns[name] = [values[at % len(values)] for at in rng.permutation(300)]
    return pa.table(columns, SCHEMA)


def outcome(given: dict[str, Any], **options: Any) -> Any:
    """All counts, or the message that refuses."""
    records = dc.read_records(given["source"], CHAIN.schema, table=given.get("table"), **options)
    try:
        counts = dc.count(records, CHAIN)
    except dc.InputError as refused:
        return str(refused)
    return {str(scope): one.tolist() for scope, one in {**counts.tables, **counts.joints}.items()}


TABLES = {
    "clean": table(),
    "missing": table(MISSING),
    "outside": table(OUTSIDE),
    "missing and outside": table(MISSING, OUTSIDE),
    "unknown": table(UNKNOWN),
    "one column unknown": table(UNKNOWN, only="years"),
    "dirty": table(MISSING, OUTSIDE, UNKNOWN),
    "empty": table().slice(0, 0),
}


@pytest.mark.parametrize("loose", [False, True], ids=["usual collation", "loose collation"])
@pytest.mark.parametrize("engine", DATABASES)
def test_counts_and_checks_are_those_of_parquet(engine: str, loose: bool, tmp_path: Path) -> None:
    seen = []
    for name, held in TABLES.items():
        one, other = on_parquet(held, tmp_path, loose), ENGINES[engine](held, tmp_path, loose)
        words: dict[str, Any]
        for words in ({}, {"na_values": ("e", "x", "2")}):
            checked = [dc.check(dc.read_records(each["source"], CHAIN.schema, table=each.get("table"), **words))
                       for each in (one, other)]  # fmt: skip
            assert checked[0] == checked[1], (name, words)
        for missing, outside in itertools.product(("error", "drop"), ("error", "clip")):
            options = {"missing": missing, "out_of_bounds": outside}
            wanted = outcome(one, **options)
            assert outcome(other, **options) == wanted, (name, options)
            seen.append(type(wanted))
    assert seen.count(dict) >= 12 and seen.count(str) >= 12  # the tables are not all refused, and not all counted


@pytest.mark.parametrize("engine", DATABASES)
def test_units_are_told_apart_by_their_bytes(engine: str, tmp_path: Path) -> None:
    """Those that a collation takes for one are several, and the same records of them are kept as of Parquet."""
    held = table()
    for who in (["p", "P", "p ", "é", "e"], [1, 2, 3]):
        units = held.append_column("who", pa.array([who[at % len(who)] for at in range(300)]))
        for most, weights in ((1, "record"), (3, "record"), (3, "unit")):
            found = []
            for load in (on_parquet, ENGINES[engine]):
                given = load(units, tmp_path, True)
                records = dc.read_records(given["source"], CHAIN.schema, table=given.get("table"), unit_column="who",
                                          max_records=most, weights=weights)  # fmt: skip
                assert records.unit is not None
                found.append(dc.count(replace(records, unit=replace(records.unit, salt="s")), CHAIN))
            assert found[0].records == found[1].records == len(who) * (6 if weights == "unit" else most)
            # Numbers and logical values are written otherwise on each engine, so that other records are kept.
    use = check_units(records)
    assert use is not None and use.units == 3
