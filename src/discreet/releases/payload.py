"""Payloads: the closed union of what a release can carry, each with all that inference needs to know of its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

import numpy as np

from discreet.errors import InputError, listed, shown
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Array, Tables
from discreet.releases.codec import (
    Count,
    CountTables,
    Flag,
    FlatTables,
    Positive,
    Probabilities,
    Scoped,
    Whole,
    kind,
    shaped,
)
from discreet.releases.design_payload import DesignPayload

__all__ = [
    "CellNoise",
    "Choice",
    "NoisyCoefficients",
    "NoisyCounts",
    "NoisyTables",
    "ParameterDraws",
    "Payload",
    "TablePayload",
    "TwoStageCounts",
    "laplace_variance",
    "noise_variance",
]

NO_NOISE = 2.0**63
"""Scales from here on fit into no table: its numbers have 64 bits."""

CellNoise = Literal["discrete_laplace", "discrete_gaussian"]
"""Integer noise: `P(k) ~ exp(-|k| / scale)`, or `P(k) ~ exp(-k^2 / (2 scale^2))`."""


def laplace_variance(scale: float) -> float:
    """Variance of discrete Laplace noise: `2 q / (1 - q)^2` with `q = exp(-1 / scale)`."""
    return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2


def noise_variance(noise: CellNoise, scale: float) -> float:
    """Variance of the noise in a cell; of discrete Gaussian noise a bound, Canonne et al. (2020), Corollary 9."""
    return scale**2 if noise == "discrete_gaussian" else laplace_variance(scale)


@kind("noisy_counts", order=("noise", "scales", "tables"))
@dataclass(frozen=True, eq=False)
class NoisyCounts:
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
    """

    network: Network
    tables: CountTables
    scales: Mapping[str, Positive]
    noise: CellNoise = "discrete_laplace"

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        ordered = [node for node in self.network.nodes if node in self.tables]
        if len(ordered) < len(self.tables) or not set(self.network.maximal_families) <= set(ordered):
            raise InputError("noisy counts need the table of every family that lies in no other, and of no other node")
        odd = sorted(set(self.scales) ^ set(ordered))
        if odd:
            raise InputError(f"noisy counts need one noise scale for every table; missing or unknown: {odd[:5]}")
        object.__setattr__(self, "tables", MappingProxyType({node: _frozen(self.tables[node]) for node in ordered}))
        object.__setattr__(self, "scales", MappingProxyType({node: self.scales[node] for node in ordered}))
        if not all(0 < scale < NO_NOISE for scale in self.scales.values()):
            raise InputError("noisy counts need one positive noise scale below 2^63 for every table")
        for node, table in self.tables.items():
            if table.dtype != np.int64 or table.shape != self.network.shape(node):
                raise InputError(
                    f"the noisy counts of {shown(node)} must be 64-bit integers in the shape of its family"
                )

    def source(self, node: str) -> str:
        """The measured table from which a family's counts are read: its own, or else the smallest that holds it."""
        if node in self.tables:
            return node
        family = set(self.network.family(node))
        holders = [other for other in self.tables if family <= set(self.network.family(other))]
        return min(holders, key=lambda other: self.tables[other].size)

    def table(self, node: str) -> Array:
        """Noisy counts of a family, int64, axes `(*parents, child)`: sums of the cells of its source."""
        return self.margin(node, self.tables[self.source(node)])

    def margin(self, node: str, held: Array) -> Array:
        """The family's part of a table over its source's family: cells that agree in it are summed."""
        scope, family = self.network.family(self.source(node)), self.network.family(node)
        summed = held.sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in family))
        kept = [name for name in scope if name in family]
        return np.asarray(summed.transpose([kept.index(name) for name in family]))

    def terms(self, node: str) -> int:
        """How many noise terms are in each cell of `table(node)`."""
        return self.tables[self.source(node)].size // math.prod(self.network.shape(node))


@kind(
    "noisy_tables",
    order=("noise", "tables"),
    scoped=Scoped("tables", "_NoisyTable", {"scales": "scale", "tables": "values"}),
)
@dataclass(frozen=True, eq=False)
class NoisyTables:
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
        object.__setattr__(self, "tables", MappingProxyType({scope: _frozen(self.tables[scope]) for scope in ordered}))
        object.__setattr__(self, "scales", MappingProxyType({scope: self.scales[scope] for scope in ordered}))
        for scope, table in self.tables.items():
            if table.dtype != np.int64 or table.shape != tuple(self.network.schema[name].size for name in scope):
                raise InputError(
                    f"the noisy counts over ({listed(scope)}) must be 64-bit integers, an axis for each variable"
                )
        for node in self.network.maximal_families:
            if not self._holders(node):
                raise InputError(f"noisy tables need one that holds the family of {shown(node)}")

    @cached_property
    def _holding(self) -> Mapping[str, list[Scope]]:
        """Tables that hold each variable, in their order."""
        found: dict[str, list[Scope]] = {name: [] for name in self.network.nodes}
        for scope in self.tables:
            for name in scope:
                found[name].append(scope)
        return found

    def _holders(self, node: str) -> list[Scope]:
        """Tables that hold a family, in their order; found among those that hold its rarest variable."""
        family = set(self.network.family(node))
        rarest = min((self._holding[name] for name in family), key=len)
        return [scope for scope in rarest if family <= set(scope)]

    def source(self, node: str) -> Scope:
        """The smallest table that holds a family."""
        return min(self._holders(node), key=lambda scope: self.tables[scope].size)

    def table(self, node: str) -> Array:
        """Noisy counts of a family, int64, axes `(*parents, child)`: sums of the cells of its source."""
        scope, family = self.source(node), self.network.family(node)
        kept = [name for name in scope if name in family]
        summed = self.tables[scope].sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in family))
        return np.asarray(summed.transpose([kept.index(name) for name in family]))


@kind(
    "noisy_coefficients",
    order=("noise", "scale", "shift", "noisy_total", "components"),
    scoped=Scoped("components", "_Component", {"components": "values"}, less=1),
)
@dataclass(frozen=True, eq=False)
class NoisyCoefficients:
    """Integer contrasts of the family tables plus independent discrete Laplace noise, `P(k) ~ exp(-|k| / scale)`.

    Args:
        network: whose families were counted.
        components: for every subset B of a family (in the schema's order) int64 of shape `(K_b - 1 for b in B)`; the
            empty subset's is the number of records plus the shift.
        scale: of the noise.
        shift: records that were added to the empty component, whatever the data; readers subtract it.
        noisy_total: whether the empty component has noise; False where the number of records is public.

    Raises:
        InputError: a component is missing, unknown, of another shape or not of integers; a scale or shift out of range.
    """

    network: Network
    components: Mapping[Scope, Array]
    scale: Positive
    shift: Count
    noisy_total: Flag

    @property
    def noise(self) -> Literal["discrete_laplace"]:
        """The law of the noise."""
        return "discrete_laplace"

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        # As many subsets as this have some node last: too few components are seen before all subsets are made.
        least = sum(2 ** len(self.network.parents[node]) for node in self.network.nodes) + 1
        if least > len(self.components) or set(self.network.downward_closure) != set(self.components):
            raise InputError("noisy contrasts must name every subset of every family once")
        subsets = self.network.downward_closure
        object.__setattr__(
            self, "components", MappingProxyType({subset: _frozen(self.components[subset]) for subset in subsets})
        )
        for subset, array in self.components.items():
            if array.dtype != np.int64 or array.shape != tuple(self.network.schema[name].size - 1 for name in subset):
                raise InputError(
                    f"the contrasts of ({listed(subset)}) must be 64-bit integers, one for two neighbouring states"
                )
        if not (0 < self.scale < NO_NOISE and self.shift >= 0):
            raise InputError("noisy contrasts need a positive noise scale below 2^63 and no negative shift")


@kind("parameter_draws", order=("draws", "temper", "floors", "tables"))
@dataclass(frozen=True, eq=False)
class ParameterDraws:
    """Draws of all probabilities from a tempered posterior, on a public grid.

    Args:
        cells: probabilities, float64, shape `(*parents, child, draws)`; rows sum to 1 within 1e-6.
        temper: tau; the records counted as `tau N`.
        floors: smallest probability of each node's states; empty where nothing was trimmed.

    Raises:
        InputError: tables without draws, or rows that are no probabilities.
    """

    cells: Tables
    temper: Positive
    floors: Mapping[str, Positive]

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        object.__setattr__(self, "floors", MappingProxyType(dict(self.floors)))
        if not self.cells.draws or not 0 < self.temper < math.inf:
            raise InputError("parameter draws need at least one draw and a positive temper")
        if self.floors and set(self.floors) != set(self.cells):
            raise InputError("parameter draws need the floor of every node, or of none")
        for node, array in self.cells.items():
            if not (np.all(array >= 0) and np.all(np.abs(array.sum(axis=-2) - 1) < 1e-6)):
                raise InputError(f"the drawn rows of {shown(node)} are no probabilities")

    @classmethod
    def made(
        cls, network: Network, *, draws: int, temper: float, floors: Mapping[str, float], tables: Mapping[str, Array]
    ) -> ParameterDraws:
        """From flat tables, whose last axis is the draws."""
        cells = {node: shaped(network, node, np.array(flat), draws) for node, flat in tables.items()}
        return cls(Tables(network, cells, draws=draws), temper, floors)

    @property
    def network(self) -> Network:
        """The network of the draws."""
        return self.cells.network

    @property
    def draws(self) -> Whole:
        """How many there are."""
        return self.cells.draws or 0

    @property
    def tables(self) -> FlatTables:
        """The probabilities, with the draws as last axis."""
        return self.cells


@kind("choice", order=("index", "candidates"))
@dataclass(frozen=True, eq=False)
class Choice:
    """One of finitely many public candidates.

    Args:
        candidates: probabilities of the whole network, at least two.
        index: of the chosen one.

    Raises:
        InputError: fewer than two candidates, over different networks, or an index that names none.
    """

    candidates: tuple[Probabilities, ...]
    index: Count

    def __post_init__(self) -> None:
        """Refuse what is no choice."""
        if len(self.candidates) < 2 or any(part.network != self.network for part in self.candidates):
            raise InputError("a choice needs at least two candidates over one network")
        if not 0 <= self.index < len(self.candidates):
            raise InputError("the chosen candidate is not in the list")
        for part in self.candidates:
            for node, table in part.items():
                if not (np.all(table >= 0) and np.all(np.abs(table.sum(axis=-1) - 1) < 1e-6)):
                    raise InputError(f"a candidate's rows of {shown(node)} are no probabilities")

    @property
    def network(self) -> Network:
        """The network of the candidates."""
        return self.candidates[0].network


@kind("two_stage_counts", order=("sampling", "first", "second"))
@dataclass(frozen=True, eq=False)
class TwoStageCounts:
    """Two independent noisy measurements of the family counts, the first perhaps of a sample of the records.

    Args:
        first: of the records that were sampled.
        second: of all records.
        sampling: probability with which each record took part in each table of the first.

    Raises:
        InputError: stages over different networks or families, or a probability outside (0, 1].
    """

    first: NoisyCounts
    second: NoisyCounts
    sampling: Fraction

    def __post_init__(self) -> None:
        """Refuse what inference could not read."""
        if self.first.network != self.second.network or set(self.first.tables) != set(self.second.tables):
            raise InputError("both stages must have measured the same families")
        if not 0 < self.sampling <= 1:
            raise InputError("the sampling probability must be greater than 0 and at most 1")

    @property
    def network(self) -> Network:
        """The network whose families were counted."""
        return self.second.network


TablePayload = NoisyCounts | NoisyTables | NoisyCoefficients | ParameterDraws | Choice | TwoStageCounts
"""The closed union of what a release over a network can carry."""
Payload = TablePayload | DesignPayload
"""The closed union of what a release can carry."""


def _frozen(array: Array) -> Array:
    """A read-only copy."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy
