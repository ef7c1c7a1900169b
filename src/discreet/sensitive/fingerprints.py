"""Fingerprints of texts in an engine, which no collation takes for equal where bytes differ; digests of records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import ibis
import ibis.expr.types as ir

__all__ = ["digest", "fingerprint", "fingerprints"]


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def hex(text: str) -> str:  # type: ignore[empty-body]
    """The bytes of a text in hexadecimal digits: DuckDB, SQLite, MySQL, Spark."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def md5(text: str) -> str:  # type: ignore[empty-body]
    """Digest of the bytes of a text: DuckDB, PostgreSQL, MySQL, Spark; SQLite after `digest` has taught it."""


def fingerprint(column: ir.StringColumn) -> ir.StringColumn:
    """A text that equals another in every collation exactly if the bytes are equal."""
    return md5(column) if column.get_backend().name == "postgres" else hex(column)


def fingerprints(column: ir.StringColumn, texts: Iterable[str]) -> list[str]:
    """What `fingerprint` makes of each text."""
    raw = [text.encode("utf-8") for text in texts]
    if column.get_backend().name == "postgres":
        return [hashlib.md5(text, usedforsecurity=False).hexdigest() for text in raw]
    return [text.hex().upper() for text in raw]


def digest(table: ir.Table, salt: str) -> ir.StringColumn:
    """A text of each record that looks random, and depends on that record and the salt alone.

    Args:
        table: all its columns count.
        salt: text.

    Returns:
        Equal for records that are equal in every column, and for no others but by a chance of 2^-128.
    """
    backend: Any = table.get_backend()
    if backend.name == "sqlite":
        backend.con.create_function("md5", 1, _md5, deterministic=True)
    text = ibis.literal(salt)
    for name in table.columns:
        value = table[name].cast("string")
        # With its length in front no value can pass for a part of the next.
        text = text + value.isnull().ifelse("n", ibis.literal("v") + value.length().cast("string") + ":" + value)
    found: ir.StringColumn = md5(text)
    return found


def _md5(text: str) -> str:
    """For SQLite, which has none."""
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()
