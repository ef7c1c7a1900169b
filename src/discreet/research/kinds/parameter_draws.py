"""Draws of all probabilities from a tempered posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.designs.kinds.noisy_sums import NoisyTotal, total_line, total_scale
from discreet.errors import InputError, listed, require, shown
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import FlatTables, Positive, Whole, all_positive, kind, shaped
from discreet.releases.listing import list_probabilities
from discreet.releases.measurement import DrawnRows, Released, Reported, spread
from discreet.research.scores.lattice import resolution_for
from discreet.research.scores.likelihood_sensitivity import record_loss
from discreet.util.arrays import Array, freeze


@kind("trimming")
@dataclass(frozen=True)
class Trimming(Reported):
    """Draws from a tempered posterior whose probabilities are on a public grid above a floor.

    Args:
        floors: smallest probability of each node's states.
        temper: tau, power of the likelihood; counts are `tau N`.
        draws: joint draws of all rows.
        resolution: steps of the grid from the floor to the largest probability, for each node.
        reported: epsilon of draws and number together, rounded up, with the reserve for rounding errors.
        total_scale: of discrete Laplace noise on the number of records; None if that is not released.

    Raises:
        InputError: no draws, or a number that is not positive and finite.
    """

    floors: Mapping[str, Positive]
    temper: Positive
    draws: Whole
    resolution: Mapping[str, Whole]
    reported: Fraction
    total_scale: Positive | None = None

    def __post_init__(self) -> None:
        """Freeze the mappings, and refuse invalid numbers."""
        freeze(self, floors=self.floors, resolution=self.resolution)
        require(
            self.draws > 0 and self.reported > 0, "a calibration needs at least one draw and a report greater than 0"
        )
        numbers = (self.temper, self.total_scale, *self.floors.values())
        require(all_positive(*numbers), "a calibration needs positive temper, floors and noise")
        require(
            self.floors.keys() == self.resolution.keys() and all(step > 0 for step in self.resolution.values()),
            "a calibration needs one grid for each floor",
        )


@kind("tempering")
@dataclass(frozen=True)
class Tempering(Reported):
    """Draws from a tempered, untrimmed posterior, rounded to a public grid; for a guarantee with delta.

    Args:
        temper: tau, power of the likelihood; counts are `tau N`.
        draws: joint draws of all rows.
        digits: decimal digits that are released.
        reported: epsilon of draws and number together, at the guarantee's delta.
        total_scale: of discrete Laplace noise on the number of records; None if that is not released.

    Raises:
        InputError: no draws or digits, or a number that is not positive and finite.
    """

    temper: Positive
    draws: Whole
    digits: Whole
    reported: Fraction
    total_scale: Positive | None = None

    def __post_init__(self) -> None:
        """Refuse invalid numbers."""
        numbers = self.draws > 0 and self.digits > 0 and self.reported > 0
        require(numbers, "a calibration needs draws, digits and a report greater than 0")
        require(all_positive(self.temper, self.total_scale), "a calibration needs a positive temper and noise")

    @property
    def continuous(self) -> bool:
        """See `Calibration`."""
        return True


@kind("parameter_draws", order=("draws", "temper", "floors", "total", "tables"))
@dataclass(frozen=True, eq=False)
class ParameterDraws(Released):
    """Draws of all probabilities from a tempered posterior, on a public grid.

    Args:
        cells: probabilities, float64, shape `(*parents, child, draws)`; rows sum to 1 within 1e-6.
        temper: tau, power of the likelihood; counts were `tau N`.
        floors: smallest probability of each node's states; empty if nothing was trimmed.
        total: noisy number of records; None if it is public, or was not released (the first releases).

    Raises:
        InputError: tables without draws, or rows that are no probabilities.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> cells = dc.Tables(rain, {"rain": [[0.7, 0.6], [0.3, 0.4]]}, draws=2)
        >>> dc.research.ParameterDraws(cells, temper=0.5, floors={}).draws
        2
    """

    cells: Tables
    temper: Positive
    floors: Mapping[str, Positive]
    total: NoisyTotal | None = None

    def __post_init__(self) -> None:
        """Freeze the mapping, and refuse payloads that inference could not read."""
        freeze(self, floors=self.floors)
        if not self.cells.draws or not all_positive(self.temper):
            raise InputError("parameter draws need at least one draw and a positive temper")
        if self.floors and set(self.floors) != set(self.cells):
            raise InputError("parameter draws need the floor of every node, or of none")
        for node, array in self.cells.items():
            if not (np.all(array >= 0) and np.all(np.abs(array.sum(axis=-2) - 1) < 1e-6)):
                raise InputError(f"the drawn rows of {shown(node)} are no probabilities")

    @classmethod
    def made(
        cls,
        network: Network,
        *,
        draws: int,
        temper: float,
        floors: Mapping[str, float],
        total: NoisyTotal | None,
        tables: Mapping[str, Array],
    ) -> ParameterDraws:
        """Make the payload from the fields of a document.

        Args:
            network: of the document.
            draws, temper, floors, total: as for the class.
            tables: flat, by node, draws fastest.

        Returns:
            The payload.

        Raises:
            InputError: as for the class, or tables of another size.
        """
        cells = {node: shaped(network, node, np.array(flat), draws) for node, flat in tables.items()}
        return cls(Tables(network, cells, draws=draws), temper, floors, total)

    @property
    def network(self) -> Network:
        """Network of the draws."""
        return self.cells.network

    @property
    def draws(self) -> Whole:
        """Number of draws."""
        return self.cells.draws or 0

    @property
    def untold(self) -> tuple[str, ...]:
        """Nodes without information in the draws: their floor leaves one row."""
        sizes = {node: self.network.schema[node].size for node in self.floors}
        return tuple(node for node, size in sizes.items() if size > 1 and self.floors[node] == 1 / size)

    @property
    def tables(self) -> FlatTables:
        """Probabilities, with the draws as last axis."""
        return self.cells

    def drawn_rows(self, prior: Dirichlet, calibration: object) -> DrawnRows:
        """See `Released`; a family without information in the draws is left out.

        Args:
            prior, calibration: see `Released`.
        """
        grids = calibration.resolution if isinstance(calibration, Trimming) else {}
        families = {
            self.network.family(node): node
            for node in self.network.nodes
            if node not in self.untold and self.network.schema[node].size > 1
        }
        return DrawnRows(
            {scope: self.cells[node] for scope, node in families.items()},
            {scope: prior.alpha[node] for scope, node in families.items()},
            self.temper,
            {scope: self.floors.get(node, 0.0) for scope, node in families.items()},
            {
                scope: grids.get(node, resolution_for(self.network.schema[node].size))
                for scope, node in families.items()
            },
            None if self.total is None else (self.total.value, self.total.scale),
        )

    def per_unit(self, steps: int) -> ParameterDraws:
        """See `Released`."""
        total = self.total and self.total.per_unit(steps)
        return replace(self, temper=self.temper * steps, total=total)

    def log_range(self, calibration: object, relation: Relation) -> float | None:
        """See `Released`; untrimmed rows have no bound, and under a metric the payload does not know the unit.

        Args:
            calibration, relation: see `Released`.
        """
        if relation is Relation.METRIC or not self.floors:
            return None
        return self.temper * record_loss(self.network, self.floors, relation)

    @property
    def drawn_together(self) -> tuple[int, float | None] | None:
        """See `Released`."""
        return self.draws, total_scale(self.total)

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`."""
        return list(list_probabilities(self.cells))

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        line = f"{self.draws} draws from the posterior of {self.temper:.4g} times the records"
        released = [floor for node, floor in self.floors.items() if node not in self.untold]
        line += f", with no probability below {spread(released)}" if released else ""
        line += f"; nothing of {listed(self.untold)}" if self.untold else ""
        return line + total_line(self.total)

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, Trimming | Tempering):
            return False
        floors = dict(calibration.floors) if isinstance(calibration, Trimming) else {}
        stated = (calibration.temper, calibration.draws, floors, calibration.total_scale)
        return stated == (self.temper, self.cells.draws, dict(self.floors), total_scale(self.total))

    def counts_records(self, relation: Relation) -> bool:
        """See `Released`."""
        return self.total is None or not relation.public_number
