"""Columns and records that audits make up: few columns of each type, and records with values that nobody else has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np

from discreet.discovery.declared_columns import NUMERIC, Columns, NamedColumn, NoPrior
from discreet.discovery.number_cells import coarse_edges
from discreet.discovery.records.column_values import KINDS, LISTED, PARSED, ColumnValues, count_cells, name_state
from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.privacy.guarantee import Relation
from discreet.records.values import is_number
from discreet.releases.policy import RecordsPolicy
from discreet.util.arrays import Floats, Ints
from discreet.verify.made_up import MadeUp, SimulatedRecords
from discreet.verify.tiny_data import MOST_KINDS, Record, thin_out

VALUES: Mapping[str, tuple[Any, ...]] = {
    "text": ("a", "b"),
    "unknown": ("1", "2.5", "c"),
    "integer": (-3, 41),
    "number": (-2.5, 1e9),
    "boolean": (False, True),
}
"""Values of made-up records, by the type of their column."""


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
            "a number and a text": (NUMERIC[1], "text"),
            "whole numbers": ("integer",),
            "of no known type": ("unknown",),
            "logical": ("boolean",),
        }
        return {
            name: Columns(tuple(NamedColumn(f"x{at}", kind) for at, kind in enumerate(types)))  # type: ignore[arg-type]
            for name, types in kinds.items()
        }

    def kinds_of(self, over: Columns, most: int = MOST_KINDS, *, numbers: bool = False) -> list[Record]:
        """See `MadeUp`: values by column."""
        return thin_out(list(product(*(VALUES[column.type] for column in over))), most)

    def statistic_from(self, mechanism: Mechanism, over: Columns, data: Iterable[Any]) -> ColumnValues:
        """See `MadeUp`."""
        records = Counter(data)
        steps = np.array(list(records.values()), np.int64)
        by_name = {column.name: [record[at] for record in records] for at, column in enumerate(over)}
        numbers = {
            column.name: np.array([_read_number(value) for value in by_name[column.name]], np.float64)
            for column in over
            if column.type in PARSED
        }

        def again(edges: Mapping[str, Floats]) -> dict[str, Ints]:
            parsed = {name: ~np.isnan(numbers[name]) for name in edges}
            return {
                name: count_cells(numbers[name][parsed[name]], steps[parsed[name]], ends)
                for name, ends in edges.items()
            }

        return ColumnValues(
            over,
            RecordsPolicy("error", "clip"),
            records.total(),
            {column.name: _count_values(by_name[column.name], steps) for column in over if column.type in LISTED},
            dict.fromkeys(over.names, 0),
            {column.name: _count_kinds(numbers[column.name], steps) for column in over if column.type == "unknown"},
            again(dict.fromkeys(numbers, coarse_edges())),
            again,
        )

    def simulator(
        self, truth: Any, believed: Any, records: int, rng: np.random.Generator
    ) -> Callable[[], SimulatedRecords]:
        """See `MadeUp`; a domain answers no question whose error could be planned."""
        raise InputError("a plan compares answers, and a domain gives none: plan a release over its schema")


def _read_number(value: Any) -> float:
    """Read the number of a value; NaN for a text that is none."""
    return float(value) if not isinstance(value, str) or is_number(value) else math.nan


def _count_values(values: Iterable[object], steps: Ints) -> dict[str, int]:
    """Count the records of each value, in the order of their names."""
    counts = Counter[str]()
    for value, number in zip(values, steps.tolist(), strict=True):
        counts[name_state(value) or ""] += number
    return dict(sorted(counts.items()))


def _count_kinds(numbers: Floats, steps: Ints) -> Ints:
    """Count the kinds of values of a column without a type; none is missing."""
    kinds = np.where(np.isnan(numbers), 3, np.where(numbers == np.floor(numbers), 1, 2))
    return np.bincount(kinds, steps, len(KINDS)).astype(np.int64)


MADE_UP = _ColumnsMadeUp()
