"""Units of protection with several records: keep few of each, by a rule that depends on that unit alone.

A promise for a person is kept by counts of records only if it is known how many one person has in them. Here at most k
random ones of each person's records are kept: which ones, depends on digests of that person's records under a salt from
the operating system, and on nobody else's. Adding or removing a person so adds or removes at most k records.

Weights. Where each unit counts once, one that kept m records counts L / m steps for each, L the least number that 1 to
k divide: L steps in all, whatever m is. Replacing a person so replaces L steps by L others.

Sequences. Where the records of a unit have an order, each is read together with the one before it. Such a pair depends
on its unit alone, as a record does, and few of each unit's pairs are kept, like few of its records.

The estimand with weights, and with k = 1, is a random record of a random person, not a random record: who has many
counts no more than who has one. Without weights it is a random one of the records that were kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ibis
import ibis.expr.types as ir

from discreet.errors import InputError, shown
from discreet.records.dialects import bytewise as by_bytes
from discreet.records.dialects import declared, digest, teach
from discreet.records.dialects import number as number_in
from discreet.records.sources import arrow
from discreet.records.values import PREVIOUS

PLACE, NUMBER, STEPS = "discreet_place_in_unit", "discreet_records_of_unit", "discreet_steps_of_record"
"""Names of helper columns, which no table has."""


@dataclass(frozen=True)
class Unit:
    """Identification of units of protection: column, order, and number of kept records.

    Args:
        column: public; its name.
        most: records of each that are kept.
        steps: that each unit counts in all, where each counts once; None where each record does.
        order: public; name of the column by which its records follow each other, if each is read with the one before.
        salt: private, of the operating system; the same for all passes over one table.
    """

    column: str
    most: int = 1
    steps: int | None = None
    order: str | None = None
    salt: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


def check_unit_type(column: str, kind: Any) -> None:
    """Refuse a column whose values could identify two units as one.

    Args:
        column: its name.
        kind: its Ibis type.

    Raises:
        InputError: it holds neither text nor whole numbers.
    """
    if not (kind.is_string() or kind.is_integer()):
        raise InputError(
            f"the unit column {shown(column)} must hold text or whole numbers, as values of other types may look alike "
            f"though they differ, but has type {type(kind).__name__.lower()}; cast it to text, in a view of the table"
        )


def few_of_each(table: ir.Table, unit: Unit, *, bytewise: bool) -> ir.Table:
    """Keep few records of each unit.

    Args:
        table: records, with the unit's column.
        unit: what tells units apart, and how many are kept.
        bytewise: whether the engine compares text byte by byte.

    Returns:
        The records that are kept; where each unit counts once, with the steps that `amount` adds up.

    Raises:
        InputError: a record without a unit, which could be anybody's, or with one of another type than its column's,
            which could be another's; or the records cannot be read.

    Guarantee:
        None spent. Data sets that differ in one unit, with however many records, become ones that differ in `unit.most`
        records, or `unit.steps` steps: the records of each unit are ordered by digests of their own.
    """
    _require_places(table, unit)
    teach(table)
    key = _find_unit_key(table, unit, bytewise=bytewise)
    window = ibis.window(group_by=key, order_by=_draw_lots(table, unit))
    number = ibis.least(table.count().over(ibis.window(group_by=key)), unit.most)
    ranked = table.mutate(**{PLACE: ibis.row_number().over(window), NUMBER: number})
    few = ranked.filter(ranked[PLACE] < unit.most)
    if unit.steps is not None:
        few = few.mutate(**{STEPS: (unit.steps // few[NUMBER]).cast("int64")})
    return few.drop(PLACE, NUMBER)


def join_previous(table: ir.Table, unit: Unit, names: Sequence[str], *, bytewise: bool) -> ir.Table:
    """Join each record with the record of the same unit before it.

    Args:
        table: records, with the columns of the unit and of the order.
        unit: what tells units apart, and the order of their records: numbers by size, also in text, then text by its
            bytes; records in one place by digests of their own, and those without one last.
        names: columns that are wanted of the record before.
        bytewise: whether the engine compares text byte by byte.

    Returns:
        The records that have one before them, with a column `previous.NAME` for each name: nothing in them depends on
        another unit. Records without a unit or a place stay, for `few_of_each` to refuse.
    """
    assert unit.order is not None
    teach(table)
    position = declared(table[unit.order])
    keys = [position]
    if position.type().is_string():
        keys = [number_in(position), position if bytewise else by_bytes(position)]
    order = [*(ibis.asc(key, nulls_first=False) for key in keys), *_draw_lots(table, unit)]
    window = ibis.window(group_by=_find_unit_key(table, unit, bytewise=bytewise), order_by=order)
    before = {f"{PREVIOUS}{name}": table[name].lag().over(window) for name in names}
    paired = table.mutate(**before, **{PLACE: ibis.row_number().over(window)})
    nowhere = declared(paired[unit.column], strictly=True).isnull() | declared(paired[unit.order]).isnull()
    return paired.filter((paired[PLACE] > 0) | nowhere).drop(PLACE)


def amount(table: ir.Table) -> ir.IntegerScalar:
    """Write the amount that a group adds to a cell: its number of records, or their steps if each unit counts once."""
    if STEPS not in table.columns:
        return table.count()
    steps: ir.IntegerScalar = table[STEPS].sum().cast("int64")
    return steps


@dataclass(frozen=True)
class UnitUse:
    """Numbers of units and of their records, for the curator's own screen: private.

    Args:
        units: how many there are.
        without: records without a unit, or with one of another type than its column's.
        most: records of the unit that has most.
        beyond: records that are not kept.
    """

    units: int
    without: int
    most: int
    beyond: int


def unit_use(table: ir.Table, unit: Unit, *, bytewise: bool) -> UnitUse:
    """Count units and their records.

    Args:
        table, unit, bytewise: as of `few_of_each`.

    Returns:
        The numbers.

    Raises:
        InputError: the records cannot be read.

    Guarantee:
        None: the result must not leave the curator's screen.
    """
    column = declared(table[unit.column], strictly=True)
    without = arrow(table.aggregate(n=column.isnull().sum()))["n"][0].as_py()
    known = table.filter(column.notnull())
    sizes = known.group_by(key=_find_unit_key(known, unit, bytewise=bytewise)).aggregate(n=known.count())
    beyond = ibis.greatest(sizes["n"] - unit.most, 0).sum()
    sums = arrow(sizes.aggregate(units=sizes.count(), most=sizes["n"].max(), beyond=beyond)).to_pylist()[0]
    return UnitUse(int(sums["units"]), int(without or 0), int(sums["most"] or 0), int(sums["beyond"] or 0))


def _require_places(table: ir.Table, unit: Unit) -> None:
    """Refuse records without a unit or position, or with one of another type than its column's."""
    for name, purpose in ((unit.column, "tells units apart"), (unit.order, "puts their records in order")):
        if name is None:
            continue
        column, typed = table[name], declared(table[name], strictly=name == unit.column)
        sums = arrow(table.aggregate(absent=column.isnull().sum(), untyped=typed.isnull().sum())).to_pylist()[0]
        fault = "has records without a value; leave them out or mend them"
        if sums["untyped"] != sums["absent"]:
            kind = "text" if column.type().is_string() else "numbers"
            fault = f"mixes types: not all of its values are stored as {kind}; cast it, in a view of the table"
        if sums["untyped"]:
            raise InputError(f"column {shown(name)}, which {purpose}, {fault}; nothing was spent")


def _find_unit_key(table: ir.Table, unit: Unit, *, bytewise: bool) -> ir.Column:
    """Find a key that is equal exactly for records of one unit."""
    column = declared(table[unit.column], strictly=True)
    return by_bytes(column) if column.type().is_string() and not bytewise else column


def _draw_lots(table: ir.Table, unit: Unit) -> list[ir.Column]:
    """List sort keys that look random and depend on the records alone.

    Returns:
        Their digests; then numbers, as an engine may write two that are close as the same text.
    """
    return [digest(table, unit.salt), *(table[name] for name in table.columns if table[name].type().is_numeric())]
