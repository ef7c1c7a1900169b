"""One table on every engine, with text that the engine's own collation compares as loosely as it can."""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cluster
import postgres
from discreet.records.spark import open_spark

NUMBER = itertools.count()
TYPES = {
    pa.int64(): "bigint", pa.float64(): "double precision", pa.bool_(): "boolean", pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
}  # fmt: skip


def written(table: pa.Table, collation: str) -> str:
    """Columns of SQL."""
    return ", ".join(
        f'"{field.name}" ' + TYPES.get(field.type, f"varchar COLLATE {collation}") for field in table.schema
    )


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Its records."""
    return list(zip(*table.to_pydict().values(), strict=True))


def on_parquet(table: pa.Table, folder: Path, loose: bool) -> dict[str, Any]:
    path = folder / f"{next(NUMBER)}.parquet"
    pq.write_table(table, path)
    return {"source": path}


def on_file(kind: str, table: pa.Table, folder: Path, loose: bool) -> dict[str, Any]:
    path = folder / f"{next(NUMBER)}.db"
    base: Any = sqlite3.connect(path) if kind == "sqlite" else duckdb.connect(path)
    usual = "BINARY" if kind == "sqlite" else '"C"'
    base.execute(f"CREATE TABLE visits ({written(table, 'NOCASE' if loose else usual)})")
    marks = ", ".join("?" * table.num_columns)
    if table.num_rows:
        # SQLite has no dates: programs write them as text.
        held = [[each.isoformat(" ") if isinstance(each, datetime) else each.isoformat() if isinstance(each, date) else
                 each for each in row] for row in rows(table)] if kind == "sqlite" else rows(table)  # fmt: skip
        base.executemany(f"INSERT INTO visits VALUES ({marks})", held)
    base.commit()
    base.close()
    return {"source": f"{kind}:////{str(path.absolute())[1:]}", "table": "visits"}


@cache
def connected() -> Any:
    """One connection for each process of the tests."""
    base = ibis.connect(postgres.running().url().replace("+psycopg", ""))
    base.con.execute(
        "CREATE COLLATION public.blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    )
    atexit.register(base.disconnect)
    return base


def on_postgres(table: pa.Table, folder: Path, loose: bool) -> dict[str, Any]:
    """In a schema of its own; `blind` takes letters for equal that differ in case or accent."""
    base, schema = connected(), f"clinic{next(NUMBER)}"
    base.con.execute(f"CREATE SCHEMA {schema}")
    columns = written(table, "public.blind" if loose else '"default"')
    base.con.execute(f"CREATE TABLE {schema}.visits ({columns})")
    with base.con.cursor().copy(f"COPY {schema}.visits FROM STDIN") as copy:
        for row in rows(table):
            copy.write_row(row)
    return {"source": base.table("visits", database=schema)}


def on_cluster() -> bool:
    """Whether Spark's tests run on a master and workers."""
    return os.environ.get("DISCREET_TEST_SPARK") == "cluster"


@cache
def spark() -> Any:
    """One Spark for each process of the tests; skips the test, saying why, where there is none."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("the package pyspark is not installed: `make test-spark` has an environment with it")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("Spark needs Java: `make test-spark` installs one where it may")
    folder = Path(tempfile.mkdtemp(prefix="spark"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = {
        "spark.master": cluster.running().url if on_cluster() else "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": cluster.QUICK_START,
        "spark.executor.extraJavaOptions": cluster.QUICK_START,
        "spark.executor.memory": "640m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder),
        "spark.ui.enabled": "false",
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    os.environ |= {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    base = open_spark("spark://")
    atexit.register(base._session.stop)
    return base


def on_spark(table: pa.Table, folder: Path, loose: bool) -> dict[str, Any]:
    path, name = on_parquet(table, folder, loose)["source"], f"visits{next(NUMBER)}"
    base = spark()
    loosely = [field.name for field in table.schema if loose and field.type == pa.string()]
    collate = ", ".join(
        f"`{name}` COLLATE UTF8_LCASE AS `{name}`" if name in loosely else f"`{name}`" for name in table.column_names
    )
    base.raw_sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT {collate} FROM parquet.`{path}`")
    return {"source": base.table(name)}


Load = Callable[[pa.Table, Path, bool], dict[str, Any]]
"""From a table, a folder, and whether collations are loose, to what `read_records` takes."""
ENGINES: dict[str, Load] = {
    "parquet": on_parquet,
    "duckdb": lambda *given: on_file("duckdb", *given),
    "sqlite": lambda *given: on_file("sqlite", *given),
    "postgres": on_postgres,
    "spark": on_spark,
}
DATABASES = tuple(ENGINES)[1:]
