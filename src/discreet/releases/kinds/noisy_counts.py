"""Counts of the families with integer noise of one law in every cell; base of all payloads of counted tables."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from discreet.errors import InputError, require, shown
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.noise.noise_laws import CELL_LAWS, NO_NOISE, CellLaw, CellTag, DiscreteGaussian, DiscreteLaplace
from discreet.privacy.gaussian_loss import discrete_rho, pure_rho, sum_rho
from discreet.releases.codec import CountTables, Positive, Whole, all_positive, kind
from discreet.releases.measurement import Calibration, MeasuredTables, Measurement, Reported, spread
from discreet.util.arrays import Array, freeze, margin


@kind("table_noise", order=("sensitivity", "reported", "epsilons", "scales"), unnamed=True)
@dataclass(frozen=True)
class TableNoise(Calibration):
    """Discrete Laplace noise on every cell of some families' tables.

    Args:
        sensitivity: most that one record can move the cells of one table, L1, in records, under the relation.
        epsilons: exact budget of each measured family's table; they sum to at most the guarantee.
        scales: of the discrete Laplace noise on each cell of a table; unit: records.
        reported: total epsilon that the noise's own privacy map reports; at most the guarantee, which is charged.

    Raises:
        InputError: a budget or scale is not a positive, finite number.
    """

    sensitivity: Whole
    epsilons: Mapping[str, Fraction]
    scales: Mapping[str, Positive]
    reported: Fraction

    def __post_init__(self) -> None:
        """Freeze, then refuse invalid settings."""
        freeze(self, epsilons=self.epsilons, scales=self.scales)
        require(
            self.sensitivity > 0 and self.reported > 0, "a calibration needs a sensitivity and a report greater than 0"
        )
        require(all(value > 0 for value in self.epsilons.values()), "a calibration needs budgets greater than 0")
        require(
            self.scales.keys() == self.epsilons.keys() and all_positive(*self.scales.values()),
            "a calibration needs one positive, finite noise scale for each budget",
        )

    @property
    def total(self) -> Fraction:
        """Epsilon of all tables together."""
        return max(sum(self.epsilons.values(), Fraction()), self.reported)

    @property
    def gaussian_loss(self) -> Fraction | None:
        """See `Calibration`: a record is in one cell, or two, of each table."""
        return sum_rho(*(pure_rho(self.sensitivity / Fraction(scale)) for scale in self.scales.values()))


@kind("gaussian_noise")
@dataclass(frozen=True)
class GaussianNoise(Reported):
    """Discrete Gaussian noise of one scale on every cell of some families' tables.

    Args:
        squared_sensitivity: most that one record can move all measured cells, L2 squared, in records squared.
        scale: of the noise, `P(noise = k) ~ exp(-k^2 / (2 scale^2))`; unit: records.
        rho: zero-concentrated privacy loss, as the noise's own map reports it.
        reported: epsilon that follows from rho at the guarantee's delta.

    Raises:
        InputError: a number is not positive and finite.
    """

    squared_sensitivity: Whole
    scale: Positive
    rho: Fraction
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        losses = self.squared_sensitivity > 0 and self.rho > 0 and self.reported > 0
        require(losses, "a calibration needs positive sensitivity and losses")
        require(all_positive(self.scale), "a calibration needs a positive, finite noise scale")

    @property
    def gaussian_loss(self) -> Fraction | None:
        """See `Calibration`."""
        return discrete_rho(self.rho, self.scale)


class CountedTables(MeasuredTables):
    """Tables of noisy counts by name, and the source of each family among them.

    A table's name is a node, for the table of its family, or a set of variables.
    """

    network: Network
    tables: Mapping[Any, Array]
    scales: Mapping[Any, float]
    noise: CellTag

    @property
    def law(self) -> type[CellLaw]:
        """Law of the noise; each table has its own scale."""
        return CELL_LAWS[self.noise]

    @abstractmethod
    def scope(self, name: Any) -> Scope:
        """Variables of a table, in the order of its axes."""

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """See `Released`."""
        return tuple(
            Measurement(self.scope(name), table, self.law(self.scales[name])) for name, table in self.tables.items()
        )

    @cached_property
    def _holders_by_variable(self) -> Mapping[str, list[Any]]:
        """Names of the tables that hold each variable, in their order."""
        tables_of: dict[str, list[Any]] = {name: [] for name in self.network.nodes}
        for table in self.tables:
            for name in self.scope(table):
                tables_of[name].append(table)
        return tables_of

    def holders(self, node: str) -> list[Any]:
        """Names of the tables that hold a family, in their order."""
        family = set(self.network.family(node))
        rarest = min((self._holders_by_variable[name] for name in family), key=len)
        return [table for table in rarest if family <= set(self.scope(table))]

    def source(self, node: str) -> Any:
        """Name of the smallest table that holds a family: the family's own, if measured.

        Raises:
            InputError: there is none; the family was too large and measured without some of its parents.
        """
        if not self.holders(node):
            raise InputError(f"no table holds the family of {shown(node)}: it was measured without some of its parents")
        return min(self.holders(node), key=lambda name: (self.tables[name].size, len(self.scope(name))))

    def table(self, node: str) -> Array:
        """Noisy counts of a family, int64, axes `(*parents, child)`: sums of the cells of its source."""
        source = self.source(node)
        return margin(self.tables[source], self.scope(source), self.network.family(node))

    def terms(self, node: str) -> int:
        """Number of noise terms in each entry of `table(node)`."""
        return self.tables[self.source(node)].size // math.prod(self.network.shape(node))


@kind("noisy_counts", order=("noise", "scales", "tables"))
@dataclass(frozen=True, eq=False)
class NoisyCounts(CountedTables):
    """Family counts plus independent integer noise in every cell.

    Args:
        network: whose families were counted.
        tables: of the measured families by node, int64, axes `(*parents, child)`, unit: records; never truncated, so
            cells may be negative. Every family lies in a measured one.
        scales: of the noise in each table; unit: records.
        noise: "discrete_laplace", `P(k) ~ exp(-|k| / scale)`, or "discrete_gaussian", `P(k) ~ exp(-k^2 / 2 scale^2)`.

    Raises:
        InputError: tables that are not integers or have another shape than their family, a family that no table holds,
            or a scale that is not a positive, finite number.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> noisy = dc.kinds.NoisyCounts(rain, {"rain": np.array([-1, 7])}, {"rain": 2.0})
        >>> noisy.table("rain").tolist(), noisy.terms("rain")
        ([-1, 7], 1)
    """

    network: Network
    tables: CountTables
    scales: Mapping[str, Positive]
    noise: CellTag = DiscreteLaplace.tag

    def __post_init__(self) -> None:
        """Freeze, then refuse values that inference cannot read."""
        ordered = [node for node in self.network.nodes if node in self.tables]
        if len(ordered) < len(self.tables) or not set(self.network.maximal_families) <= set(ordered):
            raise InputError("noisy counts need the table of every family that lies in no other, and of no other node")
        odd = sorted(set(self.scales) ^ set(ordered))
        if odd:
            raise InputError(f"noisy counts need one noise scale for every table; missing or unknown: {odd[:5]}")
        scales = {node: self.scales[node] for node in ordered}
        freeze(self, tables={node: np.asarray(self.tables[node]) for node in ordered}, scales=scales)
        if not all(0 < scale < NO_NOISE for scale in self.scales.values()):
            raise InputError("noisy counts need one positive noise scale below 2^63 for every table")
        for node, table in self.tables.items():
            if table.dtype != np.int64 or table.shape != self.network.shape(node):
                raise InputError(
                    f"the noisy counts of {shown(node)} must be 64-bit integers in the shape of its family"
                )

    def scope(self, name: str) -> Scope:
        """See `CountedTables`."""
        return self.network.family(name)

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        where = "" if self.law.concentrated else " of the tables"
        return f"noise in every cell{where}: {self.law.name} of scale {spread(self.scales.values())} records"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        match calibration:
            case TableNoise():
                return self.law is DiscreteLaplace and dict(self.scales) == dict(calibration.scales)
            case GaussianNoise():
                return self.law is DiscreteGaussian and set(self.scales.values()) == {calibration.scale}
            case _:
                return False
