"""SQL dialects: rules of text and numbers that differ between engines, compiled with or without a connection.

A state must not depend on other records, so that text is equal here where its bytes are, whatever a column's collation
takes for equal. Some engines keep values of any type in any column; here a column holds those of its own type, and no
others. Operations of Ibis are added to its compilers, which ask the tables below by their dialect.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.rules as rlz
import ibis.expr.types as ir
from ibis.backends.sql.compilers.base import SQLGlotCompiler, sge
from ibis.common.typing import VarTuple

from discreet.errors import InputError
from discreet.records.values import INFINITE, LOGICAL_STATES, NUMBER, whole

Rule = Callable[[Any, Any], Any]
"""Function from a compiler of Ibis and the SQL of a value to SQL."""


def _collate(name: str, *, quoted: bool = False) -> Rule:
    """Make the rule that puts text under a collation that compares bytes; as text first: types like `citext` differ."""
    collation = sge.to_identifier(name, quoted=quoted)
    return lambda compiler, text: sge.Collate(this=compiler.cast(text, dt.string), expression=collation.copy())


def _leave_text(_compiler: Any, text: Any) -> Any:
    """Leave the text as it is: the engine's columns have no collation."""
    return text


TEXT: dict[str, Rule] = {
    "athena": _leave_text,
    "clickhouse": _leave_text,
    "databricks": _collate("UTF8_BINARY"),
    "duckdb": _collate("C", quoted=True),
    "postgres": _collate("C", quoted=True),
    "pyspark": _collate("UTF8_BINARY"),
    "snowflake": lambda _compiler, text: sge.Anonymous(this="COLLATE", expressions=[text, sge.convert("utf8")]),
    "sqlite": _collate("BINARY"),
    "trino": _leave_text,
}
"""Rule of each dialect for a text that is compared byte by byte."""
UTF8 = sge.DataType(this=sge.DataType.Type.CHARACTER_SET, kind=sge.Var(this="utf8mb4"))
STAND_IN: dict[str, Rule] = {
    "bigquery": lambda compiler, text: compiler.f.to_hex(compiler.cast(text, dt.binary)),
    # A mark is appended, since SQL Server ignores trailing blanks under every collation.
    "mssql": lambda compiler, text: sge.Collate(
        this=sge.paren(sge.Add(this=text, expression=sge.convert("."))),
        expression=sge.to_identifier("Latin1_General_100_BIN2"),
    ),
    "mysql": lambda compiler, text: compiler.f.anon.hex(sge.Cast(this=text, to=UTF8)),
}
"""Rule of each dialect without such a collation: a stand-in text that is equal exactly if the bytes are."""
WITHOUT_PATTERNS = ("mssql",)
"""Dialects without regular expressions: their cast decides which texts are numbers."""
WITHOUT_TRY_CAST = ("mysql", "postgres", "sqlite")
"""Dialects without a cast that gives NULL for a text that is no number."""
LOOSE_ENDS = {**dict.fromkeys(("athena", "databricks", "mysql", "pyspark", "trino"), r"\z"), "sqlite": r"\Z"}
"""Dialects whose `$` also matches before a line end at the end of a text, with how they write the end itself; Unicode
has several line ends."""
WITHOUT_NAN = ("mssql", "mysql", "sqlite")
"""Dialects whose numbers are never NaN."""
LOOSELY_TYPED = ("sqlite",)
"""Dialects that keep a value of another type than its column's as it is; their function `typeof` names its type."""
NUMBERS = {NUMBER: None, f"[+]?{INFINITE}": sys.float_info.max, f"-{INFINITE}": -sys.float_info.max}
"""Patterns of numbers in a text, and their values: decimal ones as they are; infinite ones, which not every engine can
write, as the largest. Engines' own casts differ: `1_0` is ten to one, `0x1p3` or `1d` a number to others, and some
fail."""


class Bytewise(ops.Unary):  # type: ignore[misc]
    """A text that is compared by its bytes."""

    dtype = dt.string


class Stored(ops.Unary):  # type: ignore[misc]
    """A value that is stored as one of some types; NULL if it is stored as another."""

    types: VarTuple[str]
    dtype = rlz.dtype_like("arg")


class Logical(ops.Unary):  # type: ignore[misc]
    """A logical value, also where an engine keeps a word or a number of it; NULL if it is none."""

    dtype = dt.boolean


class Matches(ops.Unary):  # type: ignore[misc]
    """True if a regular expression matches in a text."""

    pattern: str
    dtype = dt.boolean


class Parsed(ops.Unary):  # type: ignore[misc]
    """The number that a text spells."""

    dtype = dt.float64


class WholeNumber(ops.Unary):  # type: ignore[misc]
    """The number that digits spell."""

    dtype = dt.float64


class Once(ops.Impure):  # type: ignore[misc]
    """A value in a query of its own, in the place of which Ibis writes no copies of its formula."""

    arg: ops.Value
    dtype = rlz.dtype_like("arg")
    shape = rlz.shape_like("arg")


class NotANumber(ops.Unary):  # type: ignore[misc]
    """True if a number is NaN."""

    dtype = dt.boolean


class Digest(ops.Unary):  # type: ignore[misc]
    """MD5 of a text."""

    dtype = dt.string


def _name_dialect(compiler: Any) -> str:
    """Name the dialect of a compiler of Ibis."""
    return str(type(compiler).__name__.removesuffix("Compiler").lower())


def _write_bytewise(compiler: Any, _op: Bytewise, *, arg: Any) -> Any:
    """Write SQL for a text that is compared by its bytes."""
    return {**TEXT, **STAND_IN}[_name_dialect(compiler)](compiler, arg)


def _write_stored(compiler: Any, _op: Stored, *, arg: Any, types: tuple[str, ...]) -> Any:
    """Write SQL for a value of some types; in most engines a column stores no others."""
    if _name_dialect(compiler) not in LOOSELY_TYPED:
        return arg
    return compiler.if_(compiler.f.anon.typeof(arg).isin(*types), arg, sge.null())


def _write_logical(compiler: Any, _op: Logical, *, arg: Any) -> Any:
    """Write SQL for a logical value; SQLite keeps 0 and 1, and any text that a program wrote in their place."""
    if _name_dialect(compiler) not in LOOSELY_TYPED:
        return arg
    word = compiler.if_(compiler.f.anon.typeof(arg).isin("integer", "text"), compiler.f.lower(arg), sge.null())
    cases = [compiler.if_(word.eq(sge.convert(text)), sge.convert(value)) for text, value in LOGICAL_STATES.items()]
    return sge.Case(ifs=cases)


def _write_matches(compiler: Any, op: ops.Node, *, arg: Any, pattern: str) -> Any:
    """Write SQL for a search; PostgreSQL refuses to search text under a nondeterministic collation."""
    if _name_dialect(compiler) in LOOSE_ENDS:
        pattern = pattern.removesuffix("$") + LOOSE_ENDS[_name_dialect(compiler)]
    text = TEXT.get(_name_dialect(compiler), _leave_text)(compiler, arg)
    return compiler.visit_RegexSearch(op, arg=text, pattern=sge.convert(pattern))


def _write_parsed(compiler: Any, op: Parsed, *, arg: Any) -> Any:
    """Write SQL for the number that a text spells; a pattern guards each cast, as some engines cast first."""
    cast = _write_whole_number(compiler, op, arg=arg)
    if _name_dialect(compiler) in WITHOUT_PATTERNS:
        return cast
    cases = []
    for number, value in NUMBERS.items():
        guard = _write_matches(compiler, op, arg=arg, pattern=whole(number))
        cases.append(compiler.if_(guard, cast if value is None else compiler.cast(sge.convert(value), op.dtype)))
    return sge.Case(ifs=cases)


def _write_whole_number(compiler: Any, op: WholeNumber, *, arg: Any) -> Any:
    """Write SQL for the number that digits spell; anything, but for engines that cast alone no failure, for others."""
    match _name_dialect(compiler):
        case dialect if dialect in WITHOUT_TRY_CAST:
            return compiler.cast(arg, op.dtype)
        case "snowflake":
            return compiler.f.anon.TRY_TO_DOUBLE(arg)
        case _:
            return compiler.visit_TryCast(op, arg=arg, to=op.dtype)


def _write_once(_compiler: Any, _op: Once, *, arg: Any) -> Any:
    """Write the value itself."""
    return arg


def _write_nan(compiler: Any, op: NotANumber, *, arg: Any) -> Any:
    """Write SQL that detects NaN; Ibis' rule for Spark needs a session."""
    if _name_dialect(compiler) in WITHOUT_NAN:
        return sge.false()
    return compiler.f.isnan(arg) if _name_dialect(compiler) == "pyspark" else compiler.visit_IsNan(op, arg=arg)


def _write_digest(compiler: Any, op: Digest, *, arg: Any) -> Any:
    """Write SQL for the MD5 of a text."""
    match _name_dialect(compiler):
        case "mssql":
            return compiler.visit_HexDigest(op, arg=arg, how="md5")
        case "trino" | "athena":
            return compiler.f.to_hex(compiler.f.anon.md5(compiler.f.to_utf8(arg)))
        case "clickhouse":
            return compiler.f.hex(compiler.f.anon.MD5(arg))
        case "bigquery":
            return compiler.f.to_hex(compiler.f.anon.md5(arg))
        case "sqlite":
            return compiler.f.anon.md5(compiler.cast(arg, dt.binary))
        case _:
            return compiler.f.anon.md5(arg)


for _operation, _rule in (
    (Bytewise, _write_bytewise), (Digest, _write_digest), (Logical, _write_logical), (Matches, _write_matches),
    (NotANumber, _write_nan), (Once, _write_once), (Parsed, _write_parsed), (Stored, _write_stored),
    (WholeNumber, _write_whole_number),
):  # fmt: skip
    setattr(SQLGlotCompiler, f"visit_{_operation.__name__}", _rule)


def require_known(engine: str) -> None:
    """Refuse an engine whose comparison of text is unknown.

    Raises:
        InputError: it is not in the tables above.
    """
    if engine not in TEXT and engine not in STAND_IN:
        raise InputError(
            f"it is not known how {engine} compares text, on which the promise depends; export the table to Parquet or "
            "CSV and read that"
        )


def engine_of(table: ir.Table) -> str | None:
    """Name of the engine that runs an expression; None if it is bound to none."""
    backends = table._find_backends()[0]
    return str(backends[0].name) if backends else None


def declared(column: ir.Column, *, strictly: bool = False) -> ir.Column:
    """Keep the values of a column that have its declared type; NULL for others.

    Args:
        column: of records.
        strictly: whether a number in a column of text, and one with a fraction in a column of whole numbers, is another
            type, too: of which two may be written alike.

    Returns:
        The values; NULL for those that an engine keeps as another type, such as SQLite a BLOB whose bytes are a text.
    """
    kind = column.type()
    if kind.is_boolean():
        return Logical(column).to_expr()
    if not (kind.is_string() or kind.is_numeric()):
        return column
    main, alone = "text" if kind.is_string() else "integer", strictly and (kind.is_string() or kind.is_integer())
    return Stored(column, (main,) if alone else (main, "integer", "real")).to_expr()


def bytewise(text: ir.StringValue) -> ir.StringValue:
    """Make a text comparable by bytes: two are equal exactly if their bytes are."""
    expression: ir.StringValue = Bytewise(text).to_expr()
    return expression


def matches(text: ir.StringColumn, pattern: str) -> ir.BooleanColumn:
    """True if a regular expression matches in a text, whatever its collation."""
    expression: ir.BooleanColumn = Matches(text, pattern).to_expr()
    return expression


def number(column: ir.Column) -> ir.FloatingColumn:
    """Convert a column to 64-bit floats; NULL, and never a failure, if a value is no number."""
    column = declared(column)
    if column.type().is_string():
        parsed: ir.FloatingColumn = Parsed(column).to_expr()
        return parsed
    floats: ir.FloatingColumn = column.cast("float64")
    return NotANumber(floats).to_expr().ifelse(ibis.null("float64"), floats) if _may_be_nan(column) else floats


def once(value: ir.FloatingColumn) -> ir.FloatingColumn:
    """Keep a formula from being copied into what uses it."""
    expression: ir.FloatingColumn = Once(value).to_expr()
    return expression


def whole_number(text: ir.StringColumn) -> ir.FloatingColumn:
    """Convert digits to a number; what becomes of another text is the engine's own."""
    expression: ir.FloatingColumn = WholeNumber(text).to_expr()
    return expression


def stored_text(column: ir.Column) -> ir.StringColumn | None:
    """Take a date or time as the text that an engine keeps it as, NULL for others; None if it has a type for dates."""
    if engine_of(column.as_table()) not in LOOSELY_TYPED:
        return None
    expression: ir.StringColumn = Stored(column, ("text",)).to_expr().cast("string")
    return expression


def is_missing(column: ir.Column) -> ir.BooleanColumn:
    """True if the value is missing."""
    return column.isnull() | _is_nan(column) if _may_be_nan(column) else column.isnull()


def is_present(column: ir.Column) -> ir.BooleanColumn:
    """True if the value is not missing, in SQL that lets a server's planner see that most values are present."""
    return column.notnull() & ~_is_nan(column) if _may_be_nan(column) else column.notnull()


def _may_be_nan(column: ir.Column) -> bool:
    """True if a column of numbers can hold NaN."""
    return bool(column.type().is_floating() or column.type().is_decimal())


def _is_nan(column: ir.Column) -> ir.BooleanColumn:
    """True if a number is NaN."""
    expression: ir.BooleanColumn = NotANumber(column.cast("float64")).to_expr()
    return expression


def digest(table: ir.Table, salt: str) -> ir.StringColumn:
    """Hash each record to a text that looks random and depends on that record and the salt alone.

    Args:
        table: all its columns count.
        salt: text.

    Returns:
        Equal for records whose columns have the same texts, and for no others but by a chance of 2^-128.
    """
    columns = [table[name] for name in table.columns]
    # Ibis treats some types as text that are none, such as PostgreSQL's enums, and would not cast them.
    values = [bytewise(column) if column.type().is_string() else column.cast("string") for column in columns]
    # Each value is prefixed by its length, so that no two records have one concatenation.
    fields = [
        value.isnull().ifelse("n", ibis.literal("v").concat(value.length().cast("string"), ":", value))
        for value in values
    ]
    # A concatenation of different collations has none, and PostgreSQL cannot sort such text.
    expression: ir.StringColumn = bytewise(Digest(ibis.literal(salt).concat(*fields)).to_expr())
    return expression


def teach(table: ir.Table) -> None:
    """Register the digest in SQLite, which has none."""
    backend: Any = table.get_backend()
    if backend.name == "sqlite":
        backend.con.create_function("md5", 1, _hash_bytes, deterministic=True)


def _hash_bytes(text: bytes) -> str:
    """Compute MD5 of a text for SQLite, as bytes, since SQLite may hold text that is not UTF-8."""
    return hashlib.md5(text, usedforsecurity=False).hexdigest()
