"""Counts over sets of variables with integer noise, each with a budget of its own: a planned release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from discreet.errors import InputError, listed, require, shown
from discreet.model.arrays import Array, freeze
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.releases.codec import Positive, Scoped, Whole, all_positive, kind
from discreet.releases.kinds.noisy_counts import CountedTables
from discreet.releases.measurement import NO_NOISE, CellNoise, spread

__all__ = ["NoisyTables", "PlannedNoise"]


@kind(
    "planned_noise",
    order=("noise", "sensitivity", "reported", "tables", "expected"),
    scoped=Scoped("tables", "_PlannedTable", {"budgets": "budget", "scales": "scale"}),
)
@dataclass(frozen=True)
class PlannedNoise:
    """Noise on tables over sets of variables, with a budget of its own for each: the plan of a release.

    Args:
        noise: "discrete_laplace" or "discrete_gaussian".
        sensitivity: most that one record can move the cells of one table, L1 and also L2 squared, under the relation.
        budgets: exact budget of each table, by its variables: epsilon for Laplace noise, else the zero-concentrated
            privacy loss rho.
        scales: of the noise on each cell of a table, as in `NoisyTables`; unit: records.
        reported: total epsilon that the noise's own privacy map reports, for Gaussian noise at the guarantee's delta.
        expected: for every node, mean absolute error, in records, of a cell of its family's table after least squares
            over all tables; by the normal approximation, which the release's noise alone enters.

    Raises:
        InputError: no such noise, or a number is not positive and finite.
    """

    noise: CellNoise
    sensitivity: Whole
    budgets: Mapping[Scope, Fraction]
    scales: Mapping[Scope, Positive]
    reported: Fraction
    expected: Mapping[str, Positive]

    def __post_init__(self) -> None:
        """Freeze, then refuse what is no calibration."""
        freeze(self, budgets=self.budgets, scales=self.scales, expected=self.expected)
        known = self.noise in ("discrete_laplace", "discrete_gaussian")
        require(known, "a calibration needs Laplace or Gaussian noise")
        require(
            self.sensitivity > 0 and self.reported > 0, "a calibration needs a sensitivity and a report greater than 0"
        )
        require(all(value > 0 for value in self.budgets.values()), "a calibration needs budgets greater than 0")
        require(
            self.scales.keys() == self.budgets.keys() and all_positive(*self.scales.values()),
            "a calibration needs one positive, finite noise scale for each budget",
        )
        require(all_positive(*self.expected.values()), "a calibration needs positive, finite expected errors")

    @property
    def total(self) -> Fraction:
        """Epsilon of all tables together, for Gaussian noise at the guarantee's delta."""
        if self.noise == "discrete_gaussian":
            return self.reported
        return max(sum(self.budgets.values(), Fraction()), self.reported)


@kind(
    "noisy_tables",
    order=("noise", "tables"),
    scoped=Scoped("tables", "_NoisyTable", {"scales": "scale", "tables": "values"}),
)
@dataclass(frozen=True, eq=False)
class NoisyTables(CountedTables):
    """Counts over sets of variables plus independent integer noise in every cell.

    Args:
        network: whose families lie in these sets.
        tables: by set of variables, named in the schema's order; int64, axes in the same order, unit: records; never
            truncated, so cells may be negative. Every family lies in one of them.
        scales: of the noise in each table; unit: records.
        noise: "discrete_laplace", `P(k) ~ exp(-|k| / scale)`, or "discrete_gaussian", `P(k) ~ exp(-k^2 / 2 scale^2)`.

    Raises:
        InputError: a set that names an unknown variable or has another order, tables that are not integers or have
            another shape than their variables, a family that no table holds, or a scale that is not a positive, finite
            number.
    """

    network: Network
    tables: Mapping[Scope, Array]
    scales: Mapping[Scope, Positive]
    noise: CellNoise

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        position = {name: index for index, name in enumerate(self.network.nodes)}
        for scope in self.tables:
            places = [position.get(name, -1) for name in scope]
            if any(low >= high for low, high in pairwise([-1, *places])):
                raise InputError(
                    f"noisy tables name variables of the network, in the schema's order; not ({listed(scope)})"
                )
        if set(self.scales) != set(self.tables) or not all(0 < scale < NO_NOISE for scale in self.scales.values()):
            raise InputError("noisy tables need one positive noise scale below 2^63 for every table")
        ordered = sorted(self.tables, key=lambda scope: [position[name] for name in scope])
        scales = {scope: self.scales[scope] for scope in ordered}
        freeze(self, tables={scope: np.asarray(self.tables[scope]) for scope in ordered}, scales=scales)
        for scope, table in self.tables.items():
            if table.dtype != np.int64 or table.shape != tuple(self.network.schema[name].size for name in scope):
                raise InputError(
                    f"the noisy counts over ({listed(scope)}) must be 64-bit integers, an axis for each variable"
                )
        for node in self.network.maximal_families:
            if not self.holders(node):
                raise InputError(f"noisy tables need one that holds the family of {shown(node)}")

    def scope(self, name: Scope) -> Scope:
        """See `CountedTables`."""
        return name

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        kind = "Laplace" if self.noise == "discrete_laplace" else "Gaussian"
        line = (
            f"noise in every cell of {len(self.scales)} tables: discrete {kind} of scale {spread(self.scales.values())}"
        )
        off = spread(calibration.expected.values()) if isinstance(calibration, PlannedNoise) else "?"
        return f"{line} records; after least squares the cells of a family are off by {off} records on average"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        return (
            isinstance(calibration, PlannedNoise)
            and self.noise == calibration.noise
            and dict(self.scales) == dict(calibration.scales)
            and set(calibration.expected) == set(self.network.nodes)
        )
