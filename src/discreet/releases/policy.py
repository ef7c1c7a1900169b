"""Policy on records before they are counted: public, fixed before any record is read, stated in every release.

A unit of protection that has several records counts up to `steps` times in a table. What one record could cost is
promised for epsilon / steps (`privacy/guarantee.py: for_each`), so that the unit costs epsilon; and readers take every
`steps` of a table for one unit, so that intervals go by units and not by records that resemble each other.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any

import pydantic

from discreet.errors import InputError, require, require_word, shown
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.releases.codec import DocumentPart
from discreet.releases.metric_unit import distance_of
from discreet.util.limits import check_name
from discreet.util.option_texts import MissingValues, OutOfBounds, Weights

MOST_RECORDS = 1000
"""Most records of a unit: with so many each gets a thousandth of epsilon."""
MOST_WEIGHTED_RECORDS = 12
"""Most records of a unit that share its weight: 27,720 steps hold the shares of 1 to 12 records exactly."""


@dataclass(frozen=True)
class RecordsPolicy:
    """Treatment of records that are incomplete or out of bounds, and of units with several records.

    Args:
        missing: "error" refuses a table with a missing value; "drop" leaves out every record that has one; "keep"
            counts it as its variable's state of missing values, and refuses it where there is none.
        out_of_bounds: "error" refuses a number outside its public bounds; "clip" moves it to the nearest bound.
        unit_column: name of the column that told units of protection apart; None where every record was taken for a
            unit of its own, which nobody checked.
        max_records: of each unit at most so many records were kept, chosen at random by that unit's records alone.
        weights: "record" counts each record that was kept once; "unit" counts each unit once, its records in equal
            parts, so that the estimand is a random record of a random unit.
        one_record_a_unit: whether the curator says that no unit has more than one record, where no column tells.
        order_column: name of the column by which the records of a unit follow each other, where each was counted
            together with the one before it; None where records were counted alone.
        selection: a random word, equal where the same records were kept; None without a column.

    Raises:
        InputError: another word, a column without a name, or numbers of records without a column or beyond the limits.
    """

    missing: MissingValues
    out_of_bounds: OutOfBounds
    unit_column: str | None = None
    max_records: int = 1
    weights: Weights = "record"
    one_record_a_unit: bool = False
    order_column: str | None = None
    selection: str | None = None

    def __post_init__(self) -> None:
        """Refuse unknown settings."""
        require_word(self.missing, MissingValues, "missing values are met by")
        require_word(self.out_of_bounds, OutOfBounds, "numbers out of bounds are met by")
        if self.unit_column is not None:
            check_name(self.unit_column, "the unit column")
        if self.order_column is not None:
            check_name(self.order_column, "the order column")
        self._check_units()

    def _check_units(self) -> None:
        """Refuse settings of units that contradict each other."""
        require_word(self.weights, Weights, "weights are those of each")
        most = MOST_WEIGHTED_RECORDS if self.weights == "unit" else MOST_RECORDS
        if type(self.max_records) is not int or not 1 <= self.max_records <= most:
            raise InputError(
                f"max_records is a whole number from 1 to {most:,}"
                + (" where each unit counts once" if self.weights == "unit" else "")
            )
        if self.unit_column is None:
            several = self.max_records > 1 or self.weights == "unit"
            require(not several, "several records of a unit need the column that tells units apart: unit_column")
            require(self.order_column is None, "an order of a unit's records needs the column that tells units apart")
            require(self.selection is None, "without a unit column no records are selected")
        elif self.one_record_a_unit:
            raise InputError("either a column tells units apart, or the curator says that each has one record")

    @property
    def steps(self) -> int:
        """Most counts of a unit in any cell of a table: the number that stands for one unit there."""
        return math.lcm(*range(1, self.max_records + 1)) if self.weights == "unit" else self.max_records

    @property
    def steps_of_one(self) -> int:
        """Counts of what is said to be one of those that were counted: a unit with weights "unit", else a record."""
        return self.steps if self.weights == "unit" else 1

    @property
    def units(self) -> tuple[object, ...]:
        """Settings that are equal if the same records of the same units count alike."""
        return self.unit_column, self.max_records, self.weights, self.order_column, self.selection

    def check(self, guarantee: Guarantee) -> None:
        """Refuse a guarantee that this treatment of the records cannot keep, or that nobody claims.

        Args:
            guarantee: wanted, for units.

        Raises:
            InputError: as it says.
        """
        relation = guarantee.relation
        if relation.public_number and self.missing == "drop":
            raise InputError(
                "dropping incomplete records changes the number of records, which is public when replacing a record or "
                "a metric is the relation; use missing='keep' or 'error' when replacing, or an add-remove guarantee"
            )
        if relation is Relation.METRIC and self.missing == "keep":
            raise InputError(
                "a metric says how far values are from each other, and not how far from none: leave keep out"
            )
        if self.out_of_bounds == "clip" and distance_of(guarantee) == "moments":
            raise InputError(
                "by moments, numbers that are moved to their bounds may be further apart than they were: leave clip out"
            )
        if relation is Relation.METRIC and self.steps > 1:
            raise InputError("a metric is about changes in single values, not about units that have several records")
        if relation.public_number and self.order_column is not None:
            raise InputError(
                "who has a single record has none before it, so that the number of pairs is private; it is public when "
                "replacing a record or a metric is the relation: ask for an add-remove guarantee"
            )
        if relation.public_number and self.steps > 1 and self.weights == "record":
            raise InputError(
                "the number of records of a unit is private, and so is that of all records, which is public when "
                "replacing is the relation; count each unit once (weights='unit', --weights unit), or ask for an "
                "add-remove guarantee"
            )

    def check_claim(self, guarantee: Guarantee) -> None:
        """Refuse to protect a unit without an ID column, unless the curator claims one record for each.

        Args:
            guarantee: wanted, for units.

        Raises:
            InputError: as it says.
        """
        stated = guarantee.unit == "record" or self.unit_column is not None or self.one_record_a_unit
        if guarantee.relation is not Relation.METRIC and not stated:
            raise InputError(
                f"the promise is for each {shown(guarantee.unit)}, and nothing tells them apart: name the column that "
                "does (unit_column of read_records, --unit-column, column of a project file), or say that none has "
                "more than one record (one_record_a_unit=True of read_records or of the estimator, "
                "--one-record-a-unit, one_record = true of a project file); nothing was spent"
            )

    def unit_lines(self, unit: str) -> list[str]:
        """Write the treatment of units; empty if every record is a unit.

        Args:
            unit: of the promise.
        """
        if self.unit_column is None:
            claim = f"that no {unit} has more than one record is the curator's word: nothing told them apart"
            return [] if unit == "record" else [claim]
        apart = f"told apart by column {shown(self.unit_column)}"
        if self.order_column is not None:
            apart += f", each with the one before it by column {shown(self.order_column)}"
        if self.max_records == 1:
            return [f"one record of each {unit} was kept, {apart}"]
        limit = f"at most {self.max_records:,} records of each {unit} were kept, {apart}"
        if self.weights == "unit":
            how = (
                f"each {unit} counts once, in {self.steps:,} steps that its records share; "
                "where noise is said in records, it is in these steps"
            )
        else:
            how = f"intervals take {self.steps:,} records for one {unit}, as its records may be alike"
        return [limit, how]

    def document(self) -> dict[str, Any]:
        """Write the policy as a part of a release; defaults are left out."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self) if field.default is not MISSING}
        return {name: value for name, value in settings.items() if name not in defaults or value != defaults[name]}


class PolicyPart(DocumentPart):
    """Records of a document: their policy and their number."""

    count: Annotated[int, pydantic.Field(ge=0, strict=True)] | None = None
    missing: MissingValues
    out_of_bounds: OutOfBounds
    unit_column: Annotated[str, pydantic.Field(min_length=1)] | None = None
    max_records: Annotated[int, pydantic.Field(ge=1, strict=True)] = 1
    weights: Weights = "record"
    one_record_a_unit: Annotated[bool, pydantic.Field(strict=True)] = False
    order_column: Annotated[str, pydantic.Field(min_length=1)] | None = None
    selection: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{8}$")] | None = None

    @property
    def policy(self) -> RecordsPolicy:
        """Read the policy, without the number of records."""
        return RecordsPolicy(**self.model_dump(exclude={"count"}))
