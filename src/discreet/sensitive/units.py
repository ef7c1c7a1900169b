"""Units of protection with several records: one of each is kept, by a rule that looks at that unit alone.

A promise for a person is kept by counts of records only if one person has one record in them. Here a random one of each
person's records is kept: which one, depends on a digest of that person's records under a salt from the operating
system, and on nobody else's. Adding, removing or replacing a person so adds, removes or replaces one record, and
persons are independent of each other even where one person's records are not, so that intervals hold.

The estimand is a random record of a random person, not a random record: who has many counts no more than who has one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import ibis
import ibis.expr.types as ir

from discreet.errors import InputError, shown
from discreet.sensitive.fingerprints import digest, fingerprint
from discreet.sensitive.sources import arrow

__all__ = ["Unit", "check_unit_type", "one_of_each"]

PLACE = "discreet_place_in_unit"
"""Name of a column that no table has."""


@dataclass(frozen=True)
class Unit:
    """What tells units of protection apart.

    Args:
        column: public; its name.
        salt: private, of the operating system; the same for all passes over one table.
    """

    column: str
    salt: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


def check_unit_type(column: str, kind: Any) -> None:
    """Refuse a column whose values could take two units for one.

    Args:
        column: its name.
        kind: its Ibis type.

    Raises:
        InputError: it holds neither text nor whole numbers.
    """
    if not (kind.is_string() or kind.is_integer()):
        raise InputError(
            f"the unit column {shown(column)} must hold text or whole numbers, as two units may be the same number "
            f"after rounding, but has type {type(kind).__name__.lower()}"
        )


def one_of_each(table: ir.Table, unit: Unit, *, bytewise: bool) -> ir.Table:
    """One record of each unit.

    Args:
        table: records, with the unit's column.
        unit: what tells units apart.
        bytewise: whether the engine compares text byte by byte.

    Returns:
        The records that are kept.

    Raises:
        InputError: a record without a unit, which could be anybody's; or the records cannot be read.

    Guarantee:
        None spent. Data sets that differ in one unit, with however many records, become ones that differ in one record:
        the records of each unit are ordered by digests of their own.
    """
    column = table[unit.column]
    if arrow(table.aggregate(n=column.isnull().sum()))["n"][0].as_py():
        raise InputError(
            f"column {shown(unit.column)}, which tells units apart, has records without a value; leave them out or "
            "say whose they are, nothing was spent"
        )
    key = fingerprint(column) if column.type().is_string() and not bytewise else column
    window = ibis.window(group_by=key, order_by=digest(table, unit.salt))
    ranked = table.mutate(**{PLACE: ibis.row_number().over(window)})
    return ranked.filter(ranked[PLACE] == 0).drop(PLACE)
