"""The same integers on every engine, on clean and dirty tables, whatever collations text has, under all policies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

import discreet as dc
import shell
from design_cases import numeric
from discreet.designs.records import rows as reading
from discreet.records import counts as grouped
from discreet.records import dialects
from discreet.records.counts import stacked, together
from discreet.records.local_counts import Part
from discreet.records.records import Records, check_units
from discreet.records.sources import arrow
from discreet.releases.policy import RecordsPolicy
from engines import DATABASES, ENGINES, on_parquet, on_postgres
from folding import every
from postgres import Server
from sources import AB, CANARY, PEER_WARNINGS, alone, refusal

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
    "years": ["0", "17.5", " 18 ", "+65.", "1.2e2", ".5", "1E1", "\t20\r\n", "4e-120", "7E-07", "2.5e001"],
    "whole": [0, 1],
    "flag": [True, False],
}
OUTSIDE: dict[str, list[Any]] = {
    "age": [-1.0, 120.5, math.inf, -math.inf],
    "years": ["-1", "1e99", "inf", "-Infinity", "+INF", "9" * 60, "1e100", "-3.5E+307", "9" * 200, "1e308", "-2.5e999"],
}
MISSING: dict[str, list[Any]] = {"age": [None, math.nan], **{name: [None] for name in CLEAN if name != "age"}}
UNKNOWN: dict[str, list[Any]] = {
    "case": ["e", "É", "á", " a", "A ", "a\u0301", "", CANARY],
    "number": ["1e0", "2", "", "0x1", CANARY],
    "word": ["yes", "t", ""],
    "years": [
        "",
        "nan",
        "x",
        "1,5",
        "0x1A",
        "1 0",
        "--1",
        "e5",
        ".",
        CANARY,
        "1_0",
        "1d",
        "1f",
        "0x1p3",
        "1L",
        "\v1",
        "1\f",
        "1\u2028",
        "1\u2029",
        "1\u0085",
        "\u00a01",
        "1e4000",
        "22e400",
        "22e100",
        "9" * 400,
        "\u0661",
        "1\x01",
        "\x1f1",
    ],
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


SCOPES = [("case", "years"), ("word", "whole")]
"""Counted beside the families, in which each variable is."""


@pytest.fixture(scope="module")
def of_parquet(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """What a function finds in a table as a Parquet file; found once, and compared with every engine."""
    folder = tmp_path_factory.mktemp("parquet")
    as_parquet = cache(lambda name: on_parquet(TABLES[name], folder, True))
    return cache(lambda find, name, *given, **options: find(as_parquet(name), *given, **options))


def checked(given: dict[str, Any], **words: Any) -> Any:
    """What is told of records before they are counted."""
    return dc.check(dc.read_records(given["source"], CHAIN.schema, table=given.get("table"), **words))


def outcome(given: dict[str, Any], **options: Any) -> Any:
    """All counts, or the message that refuses."""
    records = dc.read_records(given["source"], CHAIN.schema, table=given.get("table"), **options)
    try:
        counts = dc.count(records, CHAIN, SCOPES)
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
STRICT, LENIENT, DROPPED, CLIPPED = ("error", "error"), ("drop", "clip"), ("drop", "error"), ("error", "clip")
"""What becomes of missing values, and of those out of bounds."""
TRIED = {
    "missing": (STRICT, DROPPED),
    "outside": (STRICT, CLIPPED),
    "missing and outside": (STRICT, LENIENT, DROPPED, CLIPPED),
}
"""By table, those that a table may be told apart by; of the others the first two."""


LOOSE = pytest.mark.costly("What a loose collation takes for equal shows in every table and under every policy.")


@pytest.mark.costly(
    "States and units that a database compares otherwise are found by counting on each engine.", always=True
)
@pytest.mark.parametrize(
    ("engine", "loose"),
    [
        pytest.param(
            engine,
            loose,
            id=f"{engine}-{name}",
            marks=() if not loose else pytest.mark.thorough if engine == "duckdb" else LOOSE,
        )
        for engine in DATABASES
        for name, loose in (("usual", False), ("loose", True))
    ],
)
def test_counts_and_checks_are_those_of_parquet(
    engine: str, loose: bool, tmp_path: Path, of_parquet: Callable[..., Any]
) -> None:
    """A collation that is not loose may only hide what a loose one shows: two tables are enough."""
    seen = []
    for name in TABLES if loose else ("clean", "dirty"):
        given = ENGINES[engine](TABLES[name], tmp_path, loose)
        words: dict[str, Any]
        for words in ({}, {"na_values": ("e", "x", "2")}) if name in ("unknown", "dirty") else ({},):
            assert checked(given, **words) == of_parquet(checked, name, **words), (name, words)
        for missing, outside in TRIED.get(name, (STRICT, LENIENT)):
            options = {"missing": missing, "out_of_bounds": outside}
            wanted = of_parquet(outcome, name, **options)
            assert outcome(given, **options) == wanted, (name, options)
            seen.append(type(wanted))
    assert min(seen.count(dict), seen.count(str)) >= (7 if loose else 2)  # not all are refused, and not all counted


NUMERIC = (numeric("age", 0, 120), numeric("years", 0, 120))
LINEAR, LOGISTIC = dc.designs.Design(NUMERIC, numeric("whole", 0, 1)), dc.designs.Design(NUMERIC, VARIABLES[2], 1.0)
SUMMED = {
    "clean": (STRICT,),
    "missing and outside": (STRICT, LENIENT),
    "one column unknown": (LENIENT,),
    "empty": (LENIENT,),
}


def sums(given: dict[str, Any], design: dc.designs.Design, **options: Any) -> Any:
    """What is summed over a design, or the message that refuses."""
    records = dc.read_records(given["source"], design.schema, table=given.get("table"), **options)
    try:
        rows = dc.designs.read_rows(design, records)
        if design == LINEAR:
            return rows.records, dc.designs.sum_moments(rows).values.tolist()
        asked = dc.designs.sum_gradients(rows)
        return rows.records, asked.at(np.array([0.3, -2.0, 0.5])).tolist(), asked.signed().tolist()
    except dc.InputError as refused:
        return str(refused)


@pytest.mark.costly("Numbers that an engine reads otherwise are found by its sums of designs.")
@pytest.mark.parametrize("engine", DATABASES)
def test_moments_and_gradients_are_those_of_parquet(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_parquet: Callable[..., Any]
) -> None:
    """Whole numbers of the same bits, in several blocks."""
    monkeypatch.setattr(reading, "BLOCK", 64)
    seen = []
    for name, tried in SUMMED.items():
        given = ENGINES[engine](TABLES[name], tmp_path, True)
        for missing, outside in tried:
            options = {"missing": missing, "out_of_bounds": outside}
            for design in (LINEAR, LOGISTIC):
                wanted = of_parquet(sums, name, design, **options)
                assert sums(given, design, **options) == wanted, (name, options)
                seen.append(wanted[0])
    assert {0, 300, "r"} < set(seen)  # numbers of records, of which some are dropped, or a refusal


@pytest.mark.parametrize("engine", DATABASES)
def test_sets_of_variables_that_are_asked_for_together_are_kept_apart(engine: str, tmp_path: Path) -> None:
    held, scopes = table(), [("case", "number"), ("flag",), ("age", "years", "word"), ("number", "case")]
    found = []
    for load in (on_parquet, ENGINES[engine]):
        given = load(held, tmp_path, True)
        records = dc.read_records(given["source"], CHAIN.schema, table=given.get("table"))
        joints = grouped.grouped_joints(records, [Part(scope) for scope in scopes])
        found.append([(joint.counts.tolist(), joint.faulty) for joint in joints])
    assert found[0] == found[1] and not any(faulty for _, faulty in found[0])


@pytest.mark.costly("Two people whom a database takes for one are found on each engine.", always=True)
@pytest.mark.parametrize("engine", ["parquet", *DATABASES])
def test_units_are_told_apart_by_their_bytes(engine: str, tmp_path: Path) -> None:
    """Those that a collation takes for one are several, and as many records of them are kept as of Parquet."""
    held = table()
    for who in (["p", "P", "p ", "é", "e"], [1, 2, 3]):
        units = held.append_column("who", pa.array([who[at % len(who)] for at in range(300)]))
        given = ENGINES[engine](units, tmp_path, True)
        for most, weights in ((1, "record"), (3, "record"), (3, "unit"))[0 if "P" in who else 2 :]:
            records = dc.read_records(given["source"], CHAIN.schema, table=given.get("table"), unit_column="who",
                                      max_records=most, weights=weights)  # fmt: skip
            assert records.unit is not None
            counted = dc.count(replace(records, unit=replace(records.unit, salt="s")), CHAIN)
            assert counted.records == len(who) * (6 if weights == "unit" else most)
            # Numbers and logical values are written otherwise on each engine, so that other records are kept.
    use = check_units(records)
    assert use is not None and use.units == 3


def test_a_unit_has_an_order_where_its_columns_have_different_collations(tmp_path: Path) -> None:
    """Their sum has none, and PostgreSQL sorts no such text."""
    source = on_postgres(pa.table({"x": ["a", "b", "a"], "y": ["c", "c", "d"], "who": ["p", "p", "q"]}), tmp_path, True)
    base, place = source["source"].get_backend(), source["source"].op().namespace.database
    base.con.execute(f'ALTER TABLE {place}.visits ALTER x TYPE varchar COLLATE "POSIX"')
    network = dc.Network((AB, dc.Variable("y", ("c", "d"))), {"x": (), "y": ("x",)})
    records = dc.read_records(base.table("visits", database=place), network.schema, unit_column="who")
    assert dc.count(records, network).records == 2


@pytest.mark.costly("Identifiers that leave the database show in what is fetched from it.", always=True)
@pytest.mark.parametrize("engine", DATABASES)
def test_identifiers_stay_on_the_engine(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each set of variables has its own limit of groups, also in one request for all."""
    network = dc.Network((AB, dc.Variable("y", ("a", "b"))), {"x": (), "y": ()})
    held = pa.table({"x": [f"{CANARY}-{at}" for at in range(3000)], "y": ["a", "b"] * 1500})
    given, fetched = ENGINES[engine](held, tmp_path, False), []

    def watched(expression: Any) -> pa.Table:
        fetched.append(arrow(expression))
        return fetched[-1]

    monkeypatch.setattr(grouped, "arrow", watched)
    records = dc.read_records(given["source"], network.schema, table=given.get("table"))
    message = refusal(lambda: dc.count(records, network), "x")
    assert "'y'" not in message and 0 < sum(map(len, fetched)) <= 10


# ---------------------------------------------------------------------------------------------- how a table is named


def test_a_server_is_read_by_either_url_and_a_table_by_its_schema(server: Server) -> None:
    """The URL of a ledger is one of records."""
    server.run('CREATE SCHEMA ward; CREATE TABLE ward.visits (x text); CREATE TABLE "ward.visits" (x text)')
    server.run("INSERT INTO ward.visits VALUES ('a'), ('b'), ('b'); INSERT INTO \"ward.visits\" VALUES ('a')")
    url = server.url()
    for one in (url, url.replace("+psycopg", ""), url.replace("postgresql+psycopg", "postgres")):
        for table, wanted in (("ward.visits", [1, 0]), ("ward", None), ("nowhere.visits", None), ("visits", None)):
            try:
                records = dc.read_records(one, alone(AB).schema, table=table)
            except dc.InputError as refused:
                assert wanted is None and "schema.table" in str(refused)
                continue
            assert dc.count(records, alone(AB)).tables["x"].tolist() == wanted  # a name with a dot comes first
            records.table.get_backend().disconnect()
    server.run('DROP TABLE "ward.visits"')
    records = dc.read_records(url, alone(AB).schema, table="ward.visits")
    assert dc.count(records, alone(AB)).tables["x"].tolist() == [1, 2]
    records.table.get_backend().disconnect()


# ------------------------------------------------------------------------------------- engines that do not run here


VISITS = ibis.table({"x": "string", "y": "string", "z": "int64"}, name="visits")
WRITTEN = {
    "athena": ('"t0"."x"', 'TRY_CAST("t0"."y" AS DOUBLE)'),
    "bigquery": ("TO_HEX(CAST(`t0`.`x` AS BYTES))", "SAFE_CAST(`t0`.`y` AS FLOAT64)"),
    "clickhouse": ('"t0"."x"', """accurateCastOrNull("t0"."y", 'Nullable(Float64)')"""),
    "databricks": ("CAST(`t0`.`x` AS STRING) COLLATE UTF8_BINARY", "TRY_CAST(`t0`.`y` AS DOUBLE)"),
    "duckdb": ('CAST("t0"."x" AS TEXT) COLLATE "C"', 'TRY_CAST("t0"."y" AS DOUBLE)'),
    "mssql": ("( [t0].[x] + '.' ) COLLATE Latin1_General_100_BIN2", "TRY_CAST([t0].[y] AS FLOAT)"),
    "mysql": ("HEX(CAST(`t0`.`x` AS CHAR CHARACTER SET utf8mb4))", "CAST(`t0`.`y` AS DOUBLE)"),
    "postgres": ('CAST("t0"."x" AS VARCHAR) COLLATE "C"', 'CAST("t0"."y" AS DOUBLE PRECISION)'),
    "pyspark": ("CAST(`t0`.`x` AS STRING) COLLATE UTF8_BINARY", "TRY_CAST(`t0`.`y` AS DOUBLE)"),
    "snowflake": ("""COLLATE("t0"."x", 'utf8')""", 'TRY_TO_DOUBLE("t0"."y")'),
    "sqlite": ('CAST("t0"."x" AS TEXT) COLLATE BINARY', 'CAST("t0"."y" AS REAL)'),
    "trino": ('"t0"."x"', 'TRY_CAST("t0"."y" AS DOUBLE)'),
}
"""By engine, a text that is compared byte by byte, and the number in one, behind a pattern."""


def written(value: ibis.Value, engine: str) -> str:
    """SQL of one value, without a connection."""
    text = " ".join(str(ibis.to_sql(VISITS.select(k=value), dialect=engine)).split())
    return text.removeprefix("SELECT ").split(" AS `k`")[0].split(' AS "k"')[0].split(" AS [k]")[0]


@pytest.mark.costly("SQL is compiled for every engine.")
@every("engine", WRITTEN)
def test_sql_of_engines_that_do_not_run_here(engine: str) -> None:
    """As their manuals say it; each request for all sets at once is read back by the parser of its dialect."""
    text, number = WRITTEN[engine]
    assert written(dialects.bytewise(VISITS.x), engine) == text
    parsed = written(dialects.Parsed(VISITS.y).to_expr(), engine)
    assert f"THEN {number}" in parsed if engine not in dialects.WITHOUT_PATTERNS else parsed == number
    end = dialects.LOOSE_ENDS.get(engine, "*$'")
    assert parsed.count(end) == (engine not in dialects.WITHOUT_PATTERNS) * 3
    # Ibis writes numbers of Spark by the options of its session.
    second = dc.Variable("y", ("c", "d")) if engine == "pyspark" else dc.Variable("y", **AGES)
    variables = (AB, second, *([dc.Variable("z", **AGES)] if engine != "pyspark" else []))
    records = Records(VISITS, dc.Schema(variables), RecordsPolicy("error", "error"), False)
    parts = [Part(("x", "y")), Part(tuple(one.name for one in variables[1:]))]
    if engine != "pyspark":
        summed = (("y",), ("z",), ("y", "z"))
        parts += [Part(("y", "z"), summed), Part(("z",), (("z",), ("z", "z")), leaves=True)]
    stacks = engine in grouped.STACKED
    whole = ibis.to_sql(stacked(records, parts) if stacks else together(records, parts), dialect=engine)
    (read,) = sqlglot.parse(str(whole), dialect={"mssql": "tsql", "pyspark": "spark"}.get(engine, engine))
    assert read is not None and whole.count("GROUP BY") == (1 if stacks else len(parts))
    digested = written(dialects.digest(VISITS, "s"), engine)
    assert "MD5" in digested.upper() and len(digested) < 5000


def test_an_engine_of_which_nothing_is_known_is_refused() -> None:
    assert {*dialects.TEXT, *dialects.STAND_IN} == WRITTEN.keys()
    for engine in ("druid", "oracle", "datafusion"):
        with pytest.raises(dc.InputError, match=f"how {engine} compares text.*Parquet"):
            dialects.require_known(engine)


# ------------------------------------------------------------------------------------------------------------ the page


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a command's connection ends with it
def test_the_page_leads_from_nothing_to_a_release(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By a role that may read one table, and nothing else."""
    page = (Path(__file__).parent.parent / "docs" / "engines.md").read_text()
    sql, lines = page.split("```sql\n")[1].split("```")[0], page.split("```sh\n")[1].split("```")[0].splitlines()
    server.make_base("hospital")
    server.run(sql, "hospital")
    monkeypatch.chdir(tmp_path)
    start, end = lines.index("cat > visits.bif <<'BIF'"), lines.index("BIF")
    (tmp_path / "visits.bif").write_text("\n".join(lines[start + 1 : end]))
    run, url = shell.Shell(capfd), server.url("hospital", "counter")
    for line in lines[end + 1 :]:
        code, out, err = run(line.removeprefix("discreet ").replace("$URL", url))
        assert code == 0, (line, err)
    assert "yes" in out and "measured" in out
