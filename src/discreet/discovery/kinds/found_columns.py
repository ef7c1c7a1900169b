"""Domain of columns, found in the records with noise: states, bounds and bins, and the noisy counts behind them.

A state is released if its noisy count reaches a threshold, above which the count of a single record comes with a
probability that is a part of the guarantee's delta. So the list of states tells of no record whether it is there, but
for that delta. Bounds and bins follow from noisy counts in cells that are public, or that follow from earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, count, pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.discovery.declared_columns import NUMERIC, Columns, ColumnType
from discreet.display.text_tables import with_noun
from discreet.errors import listed, require
from discreet.model.network import Network
from discreet.model.origin import Learned
from discreet.model.schema import Schema, Variable
from discreet.noise.noise_laws import CELL_LAWS, NO_NOISE, CellLaw, CellTag
from discreet.releases.codec import Finite, Flag, Integer, Integers, Positive, Whole, all_positive, kind
from discreet.releases.measurement import Released, Reported, spread
from discreet.util.arrays import freeze

Stage = Literal["states", "coarse", "fine", "type"]
"""Looks at a column: its values, its numbers in public cells and in cells that follow from these, and its type."""
OTHER_NAMES = ("other", "other values", "(other)", "(other values)", "(all other values)")
TOO_FEW = "too few records for this epsilon, which is spent; declare states or bounds, or allow a larger epsilon"
"""Why nothing is found, and what to do."""
MISSING_NAMES = ("missing", "no value", "(missing)", "(no value)", "(no value at all)")
"""Names of the states for other and for missing values: the first that is no state of its own, with a number if all
are."""
UNTYPED = "_untyped"
"""Ending of the names of scales and thresholds of columns whose type is found first."""


@kind("domain_noise")
@dataclass(frozen=True)
class DomainNoise(Reported):
    """Noise on the counts by which a domain is found, and the thresholds of states.

    Args:
        law: tag of the noise: "discrete_laplace" or "discrete_gaussian".
        sensitivity: most cells of one look at one column that differ between neighbours, each by one record.
        scales: of the noise by stage; those of columns whose type is found first have names of their own.
        thresholds: least noisy count of a state that is released, by the stages that find states.
        state_delta: part of delta that a threshold spends: the probability that a state of one record is released, for
            all columns together.
        bins: wanted of a numeric column.
        gaps: whether columns have a state for missing values.
        reported: epsilon of all looks together, rounded up; at the rest of delta for Gaussian noise.

    Raises:
        InputError: a number is not positive and finite, an unknown law or stage, or a delta that is none.
    """

    domain: ClassVar[str] = "columns"
    law: CellTag
    sensitivity: Whole
    scales: Mapping[str, Positive]
    thresholds: Mapping[str, Whole]
    state_delta: Fraction
    bins: Whole
    gaps: Flag
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        freeze(self, scales=dict(self.scales), thresholds=dict(self.thresholds))
        scales = tuple(self.scales.values())
        require(bool(scales) and all_positive(*scales) and max(scales) < NO_NOISE, "a domain needs noise below 2^63")
        require(self.law in CELL_LAWS, "the noise of a domain is discrete Laplace or discrete Gaussian")
        require(self.sensitivity > 0 and self.reported > 0, "a calibration needs a sensitivity and a report")
        require(0 <= self.state_delta < 1 and self.bins > 1, "a delta is below 1, and a column has at least two bins")
        require({*self.thresholds} <= {*self.scales}, "a threshold is one of a stage with noise")

    def noise(self, stage: Stage, declared: str) -> CellLaw:
        """Law of the noise of a look at a column.

        Args:
            stage: of the look.
            declared: type of the column.
        """
        return CELL_LAWS[self.law](self.scales[stage_name(stage, declared)])


def stage_name(stage: Stage, declared: str) -> str:
    """Name of the scale of a look at a column of a declared type."""
    return stage + (UNTYPED if declared == "unknown" and stage != "type" else "")


@kind(None)
@dataclass(frozen=True, eq=False)
class FoundColumn:
    """Domain of one column as it was found.

    Args:
        name: of the column.
        type: declared, or found.
        states: whose noisy count reached the threshold, in the order of numbers or of letters; of logical columns both.
        bounds: of a numeric column, two; empty where nothing was found.
        bins: cut points between them.
        edges: ends of the cells of the last look at numbers; the first and the last cell have the rest.
        counts: noisy numbers of records: of each state, or in each cell, whose number is one more than that of edges.
        missing: noisy number of missing values.
        scale: of the noise in each of these numbers.
        gaps: whether the variable has a state for missing values.

    Raises:
        InputError: counts that do not belong to the states or cells, or bounds and bins that are none.
    """

    name: str
    type: ColumnType
    states: tuple[str, ...]
    bounds: tuple[Finite, ...]
    bins: tuple[Finite, ...]
    edges: tuple[Finite, ...]
    counts: Integers
    missing: Integer
    scale: Positive
    gaps: Flag

    def __post_init__(self) -> None:
        """Freeze, and refuse an invalid column."""
        freeze(self, counts=self.counts)
        require(self.type != "unknown", "the type of a found column is known")
        cells = len(self.edges) + 1 if self.numeric else len(self.states)
        require(self.counts.shape == (cells,), "a found column has a count for each state or cell")
        rising = all(a < b for a, b in pairwise(self.edges))
        require(rising and not (self.states if self.numeric else self.edges), "cells are of numbers, in their order")
        require(len(self.bounds) in ((0, 2) if self.numeric else (0,)), "found bounds are two")
        if self.found:
            _ = self.variable

    @property
    def numeric(self) -> bool:
        """True for columns of numbers."""
        return self.type in NUMERIC

    @property
    def found(self) -> bool:
        """True unless no state was frequent enough, or no number surely there."""
        return bool(self.states or self.bounds)

    @property
    def variable(self) -> Variable:
        """The column as a variable, for schemas and networks.

        Raises:
            InputError: nothing was found of it.
        """
        require(self.found, f"nothing was found of column {self.name!r}: {TOO_FEW}")
        taken = {*self.states}
        names = chain(MISSING_NAMES, map("missing {}".format, count(2)))
        missing = next(name for name in names if name not in taken) if self.gaps else None
        if self.numeric:
            low, high = self.bounds
            kind_of = "integer" if self.type == "integer" else "real"
            return Variable(self.name, bounds=(low, high), bins=self.bins, type=kind_of, missing=missing)
        if self.type == "boolean":
            return Variable(self.name, self.states, missing=missing)
        rest = next(name for name in chain(OTHER_NAMES, map("other {}".format, count(2))) if name not in taken)
        return Variable(self.name, self.states, other=rest, missing=missing)

    @property
    def outside(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Least and largest likely number of records below the found bounds, and above them.

        A number is a sum over cells: it has the noise of all of them, two standard deviations to each side. Laplace's
        law is taken, whose noise is the larger.
        """
        edges, counts = np.array(self.edges), np.asarray(self.counts)
        sides = counts[:-1][edges <= self.bounds[0]], counts[1:][edges >= self.bounds[1] + (self.type == "integer")]
        sums = ((float(side.sum()), 2 * self.scale * math.sqrt(2 * side.size)) for side in sides)
        below, above = ((max(count - noise, 0.0), max(count + noise, 0.0)) for count, noise in sums)
        return below, above

    @property
    def words(self) -> str:
        """Text of what was found, in a line."""
        if not self.found:
            return f"{self.type}: nothing was found, as too few records share a value at this epsilon"
        if not self.numeric:
            return f"{self.type}: {listed(self.variable.states)}"
        low, high = self.bounds
        whole = self.type == "integer"
        ends = f"whole numbers from {low:.0f} to {high:.0f}" if whole else f"numbers from {low:.6g} to {high:.6g}"
        below, above = (" to ".join(f"{float(f'{end:.2g}'):,.0f}" for end in side) for side in self.outside)
        return f"{ends}, in {with_noun(len(self.bins) + 1, 'bin')}; clipped: {below} records below, {above} above"

    def rows(self) -> list[dict[str, Any]]:
        """List a row for each noisy count."""
        ends = [None, *self.edges, None]
        cells = [f"{low} to {high}" for low, high in pairwise(ends)] if self.numeric else self.states
        return [
            {"variables": self.name, "states": state, "value": value, "scale": self.scale}
            for state, value in zip((*cells, "missing"), (*self.counts.tolist(), self.missing), strict=True)
        ]


@kind("found_domain")
@dataclass(frozen=True, eq=False)
class FoundDomain(Released):
    """Domain of columns: states, bounds and bins that were found in the records with noise.

    Args:
        columns: as they were declared.
        parts: of each column what was found, in the same order.

    Raises:
        InputError: parts of other columns.

    Example:
        >>> import pyarrow as pa
        >>> import discreet as dc
        >>> visits = pa.table({"sex": ["f", "m"] * 500})
        >>> columns = dc.discovery.columns_of(visits)
        >>> promise = dc.Guarantee(epsilon=8, delta="1e-9", relation="add-remove", unit="record")
        >>> values, prior = dc.discovery.read_values(visits, columns), dc.discovery.NoPrior(columns)
        >>> found = dc.simulate(dc.discovery.found_domain(), values, prior, promise, rng=1)
        >>> found.payload.schema["sex"].states
        ('f', 'm', 'other')
    """

    domain: ClassVar[str] = "columns"
    columns: Columns
    parts: tuple[FoundColumn, ...]

    def __post_init__(self) -> None:
        """Refuse parts that are not those of the columns."""
        object.__setattr__(self, "parts", tuple(self.parts))
        kinds = [{column.type, part.type} for column, part in zip(self.columns, self.parts, strict=False)]
        same = all("unknown" in types or len(types) == 1 for types in kinds)
        require(same and self.columns.names == tuple(part.name for part in self.parts), "each column is found once")

    @property
    def schema(self) -> Schema:
        """The found columns as variables; those of which nothing was found are left out.

        Raises:
            InputError: nothing was found of any column.
        """
        variables = tuple(part.variable for part in self.parts if part.found)
        require(bool(variables), f"nothing was found of any column: {TOO_FEW}")
        return Schema(variables)

    @property
    def lost(self) -> tuple[str, ...]:
        """Columns of which nothing was found."""
        return tuple(part.name for part in self.parts if not part.found)

    @property
    def answers_over(self) -> Network:
        """See `Released`: the found columns, without arcs."""
        return Network(self.schema.variables, dict.fromkeys(self.schema.names, ()))

    def learned(self, origin: Learned) -> Network:
        """See `Released`: the found columns, without arcs."""
        return replace(self.answers_over, learned=replace(origin, what="domain"))

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`."""
        return [row for part in self.parts for row in part.rows()]

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, DomainNoise):
            return False
        scales = [
            calibration.scales.get(stage_name("fine" if part.numeric else "states", column.type))
            for column, part in zip(self.columns, self.parts, strict=True)
        ]
        same = all(part.scale == scale for part, scale in zip(self.parts, scales, strict=True))
        return same and all(part.gaps <= calibration.gaps for part in self.parts)

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        states = sum(len(part.states) for part in self.parts)
        numeric = sum(part.numeric and part.found for part in self.parts)
        text = f"{with_noun(states, 'state')} of {with_noun(sum(not part.numeric for part in self.parts), 'column')}, "
        text += f"and bounds and bins of {with_noun(numeric, 'column')} of numbers"
        if not isinstance(calibration, DomainNoise):
            return text
        law = calibration.law.replace("_", " ")
        text += f", found by {law} noise of scale {spread(calibration.scales.values())} records"
        if calibration.thresholds:
            text += f"; a state needs a noisy count of {spread(calibration.thresholds.values())}"
        return text + (f"; nothing was found of {', '.join(self.lost)}" if self.lost else "")
