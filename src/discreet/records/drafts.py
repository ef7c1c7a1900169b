"""Drafts of schemas from a codebook or a sample that is NOT private, for a human to edit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import ibis.expr.types as ir
from ibis import _

from discreet.errors import InputError
from discreet.model.number_types import DATE, TIME
from discreet.model.round_numbers import with_bins
from discreet.model.schema import Variable
from discreet.records.dates import number_dates
from discreet.records.dialects import matches, number
from discreet.records.records import without
from discreet.records.sources import arrow, open_source
from discreet.records.text_form import TextForm
from discreet.records.values import is_number, spell


def draft_schema(
    source: Any,
    *,
    table: str | None = None,
    most_states: int = 50,
    na_values: Iterable[str] = (),
    **form: Any,
) -> Mapping[str, object]:
    """Draft a schema from a codebook or a sample that is NOT private, for a human to edit.

    Args:
        source: as in `read_records`.
        table: as in `read_records`.
        most_states: a numeric column with more distinct values gets bounds and quartiles instead of states.
        na_values: texts that say that a value is missing; they become no states.
        form: of a text file, as in `read_records`.

    Returns:
        The draft: `{"variables": [{"name", "states"} or {"name", "bounds", "bins", "type"}, ...]}`. States that are
        numbers are in the order of numbers, others in that of letters. Columns of dates have the type "date" or
        "datetime", whatever the number of their values.

    Raises:
        InputError: the source cannot be read or has no header, or a textual column has more distinct values than that.

    Guarantee:
        None: every state and bound is a value of the source. Never publish a draft made from private records.

    Example:
        >>> import discreet as dc
        >>> import pyarrow as pa
        >>> sample = pa.table({"smoke": ["yes", "no", "no"], "visits": [1, 3, 2]})
        >>> dc.tools.draft_schema(sample)["variables"]
        [{'name': 'smoke', 'states': ['no', 'yes']}, {'name': 'visits', 'states': ['1', '2', '3']}]
    """
    expression, exact, _ = open_source(source, table, form=TextForm(**form))
    if all(is_number(name) for name in expression.columns):
        raise InputError(
            "every column is called as a number; if the file has no header, write the names of its columns into a "
            "first line"
        )
    absent = tuple(na_values)
    drafts: list[dict[str, object]] = []
    for name in expression.columns:
        column = expression[name]
        if absent:
            column = without(column, absent, numbers_too=True, exact=exact)
        if dated := _draft_dates(name, column):
            drafts.append(dated)
            continue
        values = arrow(expression.select(value=column).distinct().limit(most_states + 2))["value"].drop_null()
        if len(values) <= most_states:
            drafts.append({"name": name, "states": _sort_states(map(spell, values.to_pylist()))})
            continue
        numeric = number(column)
        cuts = arrow(
            expression.aggregate(
                lo=numeric.min(),
                a=numeric.quantile(0.25),
                b=numeric.quantile(0.5),
                c=numeric.quantile(0.75),
                hi=numeric.max(),
                n=numeric.count(),
            )
        )
        lo, a, b, c, hi, count = (cuts[statistic][0].as_py() for statistic in ("lo", "a", "b", "c", "hi", "n"))
        if not count:
            raise InputError(
                f"column {name!r} has more than {most_states} distinct values and no numbers; draft a copy without it"
            )
        if column.type().is_integer():
            inner = sorted({math.ceil(cut) for cut in (a, b, c)} - {int(lo)})
            drafts.append({"name": name, "bounds": [int(lo), int(hi)], "bins": inner, "type": "integer"})
            continue
        drafts.append({"name": name, "bounds": [lo, hi], "bins": sorted({a, b, c} - {lo, hi})})
    return {"variables": drafts}


def _draft_dates(name: str, column: ir.Column) -> dict[str, object]:
    """Draft a column of dates or times without zone, with bins of a round length; nothing for another column."""
    kind = column.type()
    if not (kind.is_string() or kind.is_date() or (kind.is_timestamp() and kind.timezone is None)):
        return {}
    timed = kind.is_timestamp() or (kind.is_string() and _all_dates(column, f"^{DATE}{TIME}$"))
    type = "datetime" if timed else "date"
    if kind.is_string() and not (timed or _all_dates(column, f"^{DATE}$")):
        return {}
    numbers = number_dates(column, Variable(name, bounds=(0, 1), type=type))
    lo, hi = arrow(column.as_table().select(n=numbers).aggregate(lo=_.n.min(), hi=_.n.max())).to_pylist()[0].values()
    if lo is None:
        return {}
    variable = with_bins(Variable(name, bounds=(lo, max(hi, lo + 1)), type=type))
    bounds, cuts = variable.bounds or (lo, hi), variable.bins
    bins = variable.number_type.name_step(bounds, cuts) or list(map(str, cuts))
    return {"name": name, "bounds": list(map(str, bounds)), "bins": bins, "type": type}


def _all_dates(column: ir.StringColumn, pattern: str) -> bool:
    """True if all texts of a column match a pattern."""
    sums = column.as_table().aggregate(odd=(~matches(column, pattern)).sum(), n=column.count())
    odd, count = arrow(sums).to_pylist()[0].values()
    return bool(count) and not odd


def _sort_states(states: Iterable[str]) -> list[str]:
    """Sort states by number if all are numbers, else by letter."""
    names = list(states)
    if all(map(is_number, names)):
        return sorted(names, key=lambda state: (float(state), state))
    return sorted(names)
