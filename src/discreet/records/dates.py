"""Columns of dates and times as numbers: one rule for every engine, and for blocks in this process.

A date is numbered by its year, month and day alone, and these are read off text in ISO form, or asked of the engine
where the column has a type of its own. So no engine's reading of text, time zone or calendar decides. What is no date
from year 1 to 9999 is no number, and a text with a time zone is no date.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from discreet.errors import InputError, shown
from discreet.model.number_types import DATE, DAY_SECONDS, FIRST_DAY, LAST_DAY, TIME
from discreet.model.schema import Variable
from discreet.records.dialects import (
    WITHOUT_PATTERNS,
    declared,
    engine_of,
    matches,
    number,
    once,
    stored_text,
    whole_number,
)
from discreet.util.arrays import Floats

DAYS_TO_EPOCH = 719_468
"""Days from 0000-03-01, where years of the formula begin, to 1970-01-01."""
NO_DATE = 2.0**62
"""Number in place of a value that is no date: larger than all."""
PARTS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Parts of a second that Arrow's times count."""


def column_number(column: ir.Column, variable: Variable) -> ir.FloatingColumn:
    """Convert a column of records to the numbers of a variable; NULL, and never a failure, if a value is none.

    Args:
        column: of numbers, or of text that spells them; of dates as `number_dates` makes it.
        variable: numeric.

    Returns:
        float64.
    """
    if not variable.number_type.is_calendar:
        return number(column)
    known: ir.FloatingColumn = column.nullif(NO_DATE)
    return known


def number_dates(column: ir.Column, variable: Variable) -> ir.FloatingColumn:
    """Number the values of a column of dates: once, since the formula is long and what reads the column repeats it.

    Args:
        column: of text, dates or times without zone.
        variable: of dates or times.

    Returns:
        float64; NULL for a missing value, and `NO_DATE` for one that is no date.
    """
    kind = column.type()
    text = declared(column) if kind.is_string() else stored_text(column)
    if text is not None:
        day, clock, is_date = _read_text(text)
    else:
        day = _number_day(*(part.cast("float64") for part in (column.year(), column.month(), column.day())))
        parts = (column.hour(), column.minute(), column.second()) if kind.is_timestamp() else ()
        clock, is_date = tuple(part.cast("float64").floor() for part in parts), column.year().between(1, 9999)
    seconds = day
    if variable.number_type.seconds < DAY_SECONDS:
        seconds = sum((part * size for part, size in zip(clock, (3600, 60, 1), strict=False)), day * DAY_SECONDS)
    cases = ((column.isnull(), ibis.null("float64")), (is_date, seconds.cast("float64")))
    return once(ibis.cases(*cases, else_=NO_DATE))


def _read_text(text: ir.StringColumn) -> tuple[ir.FloatingColumn, tuple[ir.FloatingColumn, ...], ir.BooleanColumn]:
    """Read the day and the time of day of a text in ISO form, and whether it is one; the time may be left out."""

    def digits(start: int, length: int) -> ir.FloatingColumn:
        # Of a text that is no date, or has no time, the zero is a number, too, should an engine read it.
        return whole_number(ibis.literal("0").concat(text.substr(start, length)))

    day = _number_day(digits(0, 4), digits(5, 2), digits(8, 2))
    return day, (digits(11, 2), digits(14, 2), digits(17, 2)), matches(text, f"^{DATE}{TIME}?$")


def _number_day(year: ir.FloatingColumn, month: ir.FloatingColumn, day: ir.FloatingColumn) -> ir.FloatingColumn:
    """Number a day from 1970-01-01, by the rule of the Gregorian calendar; years begin in March."""
    since_march = year * 12 + (month - 3)
    years = (since_march / 12.0).floor()
    months = since_march - years * 12
    leap_days = (years / 4.0).floor() - (years / 100.0).floor() + (years / 400.0).floor()
    return years * 365 + leap_days + ((months * 153 + 2) / 5.0).floor() + day - (DAYS_TO_EPOCH + 1)


def array_numbers(variable: Variable, otherwise: Callable[[pa.Array], Any]) -> Callable[[pa.Array], Any]:
    """Choose how distinct values of Arrow become numbers, as the engines number them; NaN where there is none.

    Args:
        variable: numeric, or not.
        otherwise: reads text as numbers, for variables that are no dates.
    """
    return partial(_number_array, variable) if variable.number_type.is_calendar else otherwise


def _number_array(variable: Variable, values: pa.Array) -> Floats:
    """Number distinct texts, dates or times of Arrow."""
    kind, seconds = values.type, variable.number_type.seconds
    if not is_calendar_array(kind):
        texts = values.to_pylist()
        return np.array([np.nan if text is None else variable.number_type.read_text(text) for text in texts], float)
    if kind == pa.date32():
        counts, size = values.cast(pa.int32()).to_pylist(), DAY_SECONDS
        day_seconds = [None if each is None else each * size for each in counts]
    else:
        parts = 10**3 if kind == pa.date64() else PARTS_A_SECOND[kind.unit]
        day_seconds = [None if each is None else each // parts for each in values.cast(pa.int64()).to_pylist()]
    first, beyond = FIRST_DAY * DAY_SECONDS, (LAST_DAY + 1) * DAY_SECONDS
    return np.array(
        [each // seconds if each is not None and first <= each < beyond else np.nan for each in day_seconds], float
    )


def is_calendar_array(kind: pa.DataType) -> bool:
    """True if an Arrow type is a date, or a time without zone."""
    types = pa.types
    return bool(types.is_date(kind) or (types.is_timestamp(kind) and kind.tz is None))


def check_date_type(variable: Variable, column: ir.Column) -> None:
    """Refuse a column that cannot hold dates.

    Raises:
        InputError: its type; the message has the column's name.
    """
    kind, name = column.type(), shown(variable.name)
    if kind.is_timestamp() and kind.timezone is not None:
        raise InputError(
            f"column {name} has times with a time zone, whose day depends on where one is: convert it to local time "
            "without zone, or to a date, in a view or a copy of the table"
        )
    if kind.is_string() and engine_of(column.as_table()) in WITHOUT_PATTERNS:
        raise InputError(
            f"column {name} has dates as text, which this engine cannot read alike; cast it to a date there"
        )
    if not (kind.is_string() or kind.is_date() or kind.is_timestamp()):
        raise InputError(
            f"column {name} must hold dates, times, or text such as 2024-02-29, but has type "
            f"{type(kind).__name__.lower()}"
        )
