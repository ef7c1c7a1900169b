"""Spark: a session from a URL. The library is an extra, and is imported on use."""

from __future__ import annotations

import importlib
import os
import secrets
import shutil
from typing import Any

import ibis

from discreet.errors import InputError

SPARK = ("sc", "spark")
"""Schemes of URLs of Spark."""


def hush() -> None:
    """Silence the log of Spark's library, whose errors may quote a record."""
    importlib.import_module("pyspark.logger").PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


def open_spark(url: str) -> Any:
    """Open a session of Spark, or take that of this process; it logs nothing from then on.

    Args:
        url: `spark://host:port` of a master; `spark://` for the one that Spark itself is set up with, in
            `spark-defaults.conf` or by `spark-submit`; `sc://host:port` of a Spark Connect.

    Returns:
        A backend of Ibis.

    Raises:
        InputError: no Java is here, where the session would run in this process.
        ImportError: the extra is not installed.
    """
    builder = importlib.import_module("pyspark.sql").SparkSession.builder
    if url.startswith("sc://"):
        hush()
        return ibis.pyspark.connect(builder.remote(url).getOrCreate())
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        raise InputError("Spark needs Java, and none is here: install one, or name a Spark Connect as sc://host:port")
    hush()
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = (builder if url == "spark://" else builder.master(url)).getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # the log of a failed task may quote a record
    return ibis.pyspark.connect(session)


def is_spark_frame(source: Any) -> bool:
    """True if a source is a Spark data frame; the library need not be installed."""
    return type(source).__module__.startswith("pyspark.sql")


def spark_table(frame: Any) -> Any:
    """Convert a Spark data frame to a table of Ibis, in its session.

    Args:
        frame: of `pyspark.sql`.

    Returns:
        The table: a temporary view of the session, with a name that nobody else has.
    """
    name = f"discreet_{secrets.token_hex(8)}"
    frame.createTempView(name)
    return ibis.pyspark.connect(frame.sparkSession).table(name)
