"""Columns and records that audits make up: few columns of each type, and records with values that nobody else has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.discovery.columns import Column, Columns, NoPrior
from discreet.discovery.records.column_values import ColumnValues, read_values
from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.privacy.guarantee import Relation
from discreet.verify.made_up import MadeUp, SimulatedRecords
from discreet.verify.tiny_data import MOST_KINDS, Record, thin_out

VALUES: Mapping[str, tuple[Any, ...]] = {
    "text": ("a", "b", "c"),
    "unknown": ("1", "2.5", "c"),
    "integer": (-3, 0, 41),
    "number": (-2.5, 0.0, 1e9),
    "boolean": (False, True),
}
"""Values of made-up records, by the type of their column."""
ARROW_TYPES = {
    "text": pa.string(), "unknown": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(),
}  # fmt: skip


class _ColumnsMadeUp(MadeUp):
    """Columns, and records over them."""

    compared = ("states", "bounds")
    headings = ("missed states", "error of bounds")

    def default_prior(self, over: Columns) -> NoPrior:
        """See `MadeUp`."""
        return NoPrior(over)

    def tiny(self, mechanism: Mechanism, relation: Relation) -> Mapping[str, Columns]:
        """See `MadeUp`."""
        kinds = {
            "one text": ("text",),
            "two texts": ("text", "text"),
            "a number and a text": ("number", "text"),
            "whole numbers": ("integer",),
            "of no known type": ("unknown",),
            "logical": ("boolean",),
        }
        return {
            name: Columns(tuple(Column(f"x{at}", kind) for at, kind in enumerate(types)))  # type: ignore[arg-type]
            for name, types in kinds.items()
        }

    def kinds_of(self, over: Columns, most: int = MOST_KINDS, *, numbers: bool = False) -> list[Record]:
        """See `MadeUp`: values by column."""
        return thin_out(list(product(*(VALUES[column.type] for column in over))), most)

    def statistic_from(self, mechanism: Mechanism, over: Columns, data: Iterable[Any]) -> ColumnValues:
        """See `MadeUp`."""
        records = list(data)
        arrays = {
            column.name: pa.array([record[at] for record in records], ARROW_TYPES[column.type])
            for at, column in enumerate(over)
        }
        return read_values(pa.table(arrays), over)

    def simulator(
        self, truth: Any, believed: Any, records: int, rng: np.random.Generator
    ) -> Callable[[], SimulatedRecords]:
        """See `MadeUp`; a domain answers no question whose error could be planned."""
        raise InputError("a plan compares answers, and a domain gives none: plan a release over its schema")


MADE_UP = _ColumnsMadeUp()
