"""Values at fault, for the curator's own screen: the only place where values of records are shown to a person.

Nothing of it may reach a document, a log, an error or stdout: the command shows it on a terminal, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import ibis
from ibis import _

from discreet.model.schema import Variable
from discreet.records.dates import number_dates
from discreet.records.records import MISSING, UNKNOWN, Records, codes
from discreet.records.sources import arrow

VALUE, PLACE, CODE = "discreet_value", "discreet_place", "discreet_code"


class FaultyValue(NamedTuple):
    """A value at fault: private.

    Args:
        value: its text; None if it is missing.
        records: that have it.
        first: position of the first of them, from 0; None where records have no order.
    """

    value: str | None
    records: int
    first: int | None


def faulty_values(records: Records, variable: Variable, most: int) -> Iterator[FaultyValue]:
    """List the values of a column that are at fault, the most frequent first.

    Args:
        records: as read.
        variable: of their schema.
        most: values that are listed.

    Raises:
        InputError: the records cannot be read.

    Guarantee:
        None: the result must not leave the curator's screen.
    """
    table, name = records.source, variable.name
    if table is None or name not in table.columns:
        return
    column, ordered = table[name], records.local is not None
    checked = number_dates(column, variable) if variable.number_type.is_calendar else column
    place = ibis.row_number() if ordered else ibis.null("int64")
    view = table.select(**{name: checked, VALUE: column.cast("string"), PLACE: place})
    strict = replace(records, table=view, policy=replace(records.policy, out_of_bounds="error"))
    wrong = [UNKNOWN, *([MISSING] if records.policy.missing == "error" else [])]
    faulty = view.mutate(**{CODE: codes(strict, variable)}).filter(_[CODE].isin(wrong))
    groups = faulty.group_by(VALUE).aggregate(n=_.count(), first=_[PLACE].min())
    for row in arrow(groups.order_by(ibis.desc("n"), VALUE).limit(most)).to_pylist():
        yield FaultyValue(row[VALUE], int(row["n"]), None if row["first"] is None else int(row["first"]))
