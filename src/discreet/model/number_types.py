"""Types of numbers: what the numbers of a column stand for, how they are declared, typed and printed.

A date is a number with a unit: the days since 1970-01-01, or, with a time of day, the seconds. It is a `float` that
prints as a date, so that all that is computed of numbers is computed of dates. Dates are those of the Gregorian
calendar, from year 1 to 9999, and times are as written: they have no zone, and no leap second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

DAY_SECONDS = 86_400
EPOCH = date(1970, 1, 1)
FIRST_DAY, LAST_DAY = (date.min - EPOCH).days, (date.max - EPOCH).days
LEAP = "(0[48]|[2468][048]|[13579][26])"
YEAR = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
DATE = (
    f"({YEAR}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    f"|([0-9]{{2}}{LEAP}|{LEAP}00)-02-29)"
)
"""Pattern of a date that there is, such as 2024-02-29."""
TIME = "([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?)"
"""Pattern of a time of day after a date."""
MOMENT = re.compile(f"{DATE}{TIME}?", re.ASCII)
STEP = re.compile(r"([1-9][0-9]{0,5} )?(day|week|month|quarter|year)s?")
"""Pattern of a distance between cut points, such as "month" or "3 months"."""
STEPS: Mapping[str, tuple[int, int]] = {
    "day": (0, 1), "week": (0, 7), "month": (1, 0), "quarter": (3, 0), "year": (12, 0),
}  # fmt: skip
"""Months and days of each word."""
TYPED = ("mean", "lower", "upper", "response")
"""How fields of a result end whose numbers are those of the column."""
DEFAULT_STEPS = ("day", "month", "quarter", "year", "10 years", "100 years", "1000 years")
MOST_DEFAULT_BINS = 40
"""Most bins of a column of dates that is declared by its bounds alone: about three years of months."""


class Printed(float):
    """Number that prints as what it stands for."""

    def __format__(self, _specification: str) -> str:
        """Write it, whatever the digits of a number would be."""
        return str(self)


class Rank(Printed):
    """Position of an ordered state, which prints as its name."""

    name: str

    def __new__(cls, value: float, name: str) -> Rank:
        """Make a position with its name."""
        number = super().__new__(cls, value)
        number.name = name
        return number

    def __str__(self) -> str:
        """Write the name."""
        return self.name


class Calendar(Printed):
    """Number of a date or of a time: it computes as a number, and prints as what it stands for.

    Args:
        value: in units of `seconds` since 1970-01-01; a fraction is kept, and is not printed.
        toward: -1 prints the earlier whole number, 1 the later, as ends of an interval do; 0 the nearest.
    """

    seconds: int
    unit: str
    toward: int

    def __new__(cls, value: float, toward: int = 0) -> Calendar:
        """Make a number with its rounding."""
        number = super().__new__(cls, value)
        number.toward = toward
        return number

    def __str__(self) -> str:
        """Write the date; beyond the calendar its first or last one."""
        if not math.isfinite(self):
            return float.__str__(self)
        rounded = (round, math.ceil, math.floor)[self.toward](self)
        day, rest = divmod(rounded * self.seconds, DAY_SECONDS)
        text = (EPOCH + timedelta(min(max(day, FIRST_DAY), LAST_DAY))).isoformat()
        return text if self.seconds == DAY_SECONDS else f"{text}T{timedelta(seconds=rest)!s:0>8}"


class Day(Calendar):
    """Days since 1970-01-01.

    Example:
        >>> f"{Day(19783.6):.4g}", f"{Day(19783.6, -1)}", Day(19783) + 1
        ('2024-03-02', '2024-03-01', 19784.0)
    """

    seconds, unit = DAY_SECONDS, "days"


class Second(Calendar):
    """Seconds since 1970-01-01, as a clock without time zone and leap seconds counts them.

    Example:
        >>> str(Second(19783 * 86400 + 61))
        '2024-03-01T00:01:01'
    """

    seconds, unit = 1, "seconds"


@dataclass(frozen=True)
class NumberType:
    """Meaning of the numbers of a column.

    Args:
        noun: of one, in messages.
        whole: whether they are whole.
        of: makes a number print as what it stands for.
        seconds: length of 1; 0 for numbers that are no dates.
        unit: of differences; empty for numbers, whose unit is the column's.
    """

    noun: str
    whole: bool
    of: Callable[[float], float] = float
    seconds: int = 0
    unit: str = ""

    @property
    def is_calendar(self) -> bool:
        """True for dates and times."""
        return self.seconds > 0

    def read(self, value: Any) -> float:
        """Read a number as it is declared or typed.

        Args:
            value: a number; of dates and times also text in ISO form, or an object of Python or TOML.

        Raises:
            TypeError, ValueError, OverflowError: it is none.

        Example:
            >>> DATES.read("2024-03-01"), float(TIMES.read("2024-03-01 00:01"))
            (19783.0, 1709251260.0)
        """
        if not self.is_calendar:
            return float(value)
        if isinstance(value, date | str):
            value = self.read_text(value.isoformat() if isinstance(value, date) else value)
        elif isinstance(value, int):  # documents write days as 18262.0; a person who writes 5 means no day of 1970
            raise TypeError("no date")
        number, day = self.of(value), value * self.seconds / DAY_SECONDS
        if not FIRST_DAY <= day < LAST_DAY + 1:
            raise ValueError("no date from year 1 to 9999")
        return number

    def read_text(self, text: str) -> float:
        """Read a date or a time in ISO form, by the rule of all engines; NaN if it is none.

        Example:
            >>> [DATES.read_text(text) for text in ("1970-01-02", "1970-01-02T23:59:59.5", "2023-02-29", "2024-1-1")]
            [1.0, 1.0, nan, nan]
        """
        if MOMENT.fullmatch(text) is None:
            return math.nan
        day, clock = date(*map(int, text[:10].split("-"))), [int(part) for part in text[11:19].split(":") if part]
        seconds = sum(part * size for part, size in zip(clock, (3600, 60, 1), strict=False))
        return float(((day - EPOCH).days * DAY_SECONDS + seconds) // self.seconds)

    def declare(self, number: float) -> Any:
        """Write a number for a project file: a whole one without a point, a date as a date."""
        if not self.is_calendar:
            return int(number) if number == int(number) else number
        return (date if self.of is Day else datetime).fromisoformat(str(self.of(number)))

    def end(self, value: Any, toward: int) -> Any:
        """Make a number print as what it stands for, a date with its rounding; of a pair both, rounded outwards."""
        if isinstance(value, tuple):
            return tuple(map(self.end, value, (-1, 1)))
        number = self.of(value)
        return type(number)(number, toward) if isinstance(number, Calendar) else value

    def name_bin(self, low: float, high: float) -> str:
        """Name a bin by the smallest and largest number in it."""
        low, high = self.of(low), self.of(high - self.whole)
        return f"{low:.16g}" if low == high else f"{low:.16g}_to_{high:.16g}"

    def cut_points(self, bounds: tuple[float, float], step: str, most: int) -> tuple[float, ...]:
        """List cut points between bounds at the beginnings of days, weeks, months, quarters or years.

        Args:
            bounds: the first and the last number.
            step: distance, such as "month" or "3 months". Months are counted from a January, weeks from a Monday, and
                days from the lower bound.
            most: cut points that are allowed.

        Raises:
            ValueError: no such distance, numbers that are no dates, no cut point or too many.

        Example:
            >>> bounds = DATES.read("2023-11-05"), DATES.read("2024-03-01")
            >>> [str(cut) for cut in DATES.cut_points(bounds, "2 months", most=9)]
            ['2024-01-01', '2024-03-01']
        """
        match = STEP.fullmatch(step)
        if match is None or not self.is_calendar:
            raise ValueError("no distance of dates")
        cuts = list[float]()
        for day in _list_days(str(self.of(bounds[0]))[:10], int(match[1] or 1), match[2]):
            cut = self.read_text(day.isoformat())
            if cut > bounds[1]:
                break
            cuts += [self.of(cut)] if cut > bounds[0] else []
            if len(cuts) > most:
                raise ValueError("too many cut points")
        if not cuts:
            raise ValueError("no cut point")
        return tuple(cuts)

    def name_step(self, bounds: tuple[float, float], cuts: tuple[float, ...]) -> str | None:
        """Name the distance of cut points, such as "month", if it has a word; else None."""
        for step in STEPS if self.is_calendar and cuts else ():
            with suppress(ValueError):
                if self.cut_points(bounds, step, len(cuts)) == cuts:
                    return step
        return None

    def default_cuts(self, bounds: tuple[float, float]) -> tuple[float, ...]:
        """List cut points of the shortest of `DEFAULT_STEPS` that makes few bins; none between two equal bounds."""
        for step in DEFAULT_STEPS:
            with suppress(ValueError):
                return self.cut_points(bounds, step, MOST_DEFAULT_BINS - 1)
        return ()


def _list_days(first: str, number: int, word: str) -> Iterator[date]:
    """List the days from a first one, or from the beginning of its step, in steps, to the end of the calendar."""
    months, days = (number * each for each in STEPS[word])
    day = date.fromisoformat(first)
    if months:
        starts = range(day.year * 12 // months * months, 12 * (date.max.year + 1), months)
        yield from (date(at // 12, at % 12 + 1, 1) for at in starts if at >= 12)
    elif days:
        start = day.toordinal() - (day.weekday() if word == "week" else 0)
        yield from map(date.fromordinal, range(max(start, 1), date.max.toordinal() + 1, days))


def as_ends(row: Mapping[str, Any], number_type: NumberType) -> dict[str, Any]:
    """Make the numbers of an answer print as what they stand for; ends of intervals are rounded outwards."""
    toward = {name: ("upper" in name) - ("lower" in name) for name in row if name.endswith(TYPED)}
    return {**row, **{name: number_type.end(row[name], rounding) for name, rounding in toward.items()}}


def write_dates(row: Mapping[str, Any]) -> dict[str, Any]:
    """Add the dates of an answer's numbers as text, for a document."""
    ends = {name: value if isinstance(value, list) else [value] for name, value in row.items()}
    dates = {name: list(map(str, each)) for name, each in ends.items() if each and isinstance(each[0], Calendar)}
    texts = {name: each if isinstance(row[name], list) else each[0] for name, each in dates.items()}
    return {**row, "dates": texts} if texts else dict(row)


def read_dates(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read the row that `write_dates` wrote."""
    bare = {name: value for name, value in row.items() if name != "dates"}
    is_time = "T" in str(row.get("dates", {}))
    return as_ends(bare, TIMES if is_time else DATES) if "dates" in row else bare


NUMBERS, WHOLE_NUMBERS = NumberType("number", False), NumberType("whole number", True)
DATES = NumberType("date", True, Day, Day.seconds, Day.unit)
RANKS = NumberType("state", True)
TIMES = NumberType("time", True, Second, Second.seconds, Second.unit)
NUMBER_TYPES: Mapping[str, NumberType] = {
    "real": NUMBERS, "integer": WHOLE_NUMBERS, "date": DATES, "datetime": TIMES,
}  # fmt: skip
"""Type by its word in declarations and documents."""
