"""Network whose arcs were selected from the records with noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet.errors import InputError, require
from discreet.model.network import Network
from discreet.model.origin import Learned
from discreet.privacy.gaussian_loss import pure_rho
from discreet.releases.codec import Positive, Whole, all_positive, kind
from discreet.releases.measurement import Released, Reported
from discreet.util.arrays import freeze

Arc = tuple[str, ...]
"""Parent and child."""


@kind("structure_noise")
@dataclass(frozen=True)
class StructureNoise(Reported):
    """Choices of a node with its parents, round by round, `P(c) ~ exp(score of c / scale)`.

    Args:
        max_parents: of a node.
        max_cells: of a family's table.
        first: nodes that are placed first, in this order; no record was asked for it.
        required: arcs that the network has.
        forbidden: arcs that it has not.
        rounds: choices at most.
        sensitivity: most that one record can change a score; records.
        scale: of every choice; records.
        reported: epsilon of all rounds: each costs twice the sensitivity over the scale, as scores go up and down.

    Raises:
        InputError: a number is not positive and finite, an arc is not a pair, or rounds that cost more than reported.
    """

    max_parents: Whole
    max_cells: Whole
    first: tuple[str, ...]
    required: tuple[Arc, ...]
    forbidden: tuple[Arc, ...]
    rounds: Whole
    sensitivity: Whole
    scale: Positive
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        require(all_positive(self.sensitivity, self.scale, self.rounds), "choices need a positive number and scale")
        require(self.max_parents > 0 and self.max_cells > 0, "a network's families need room")
        cost = 2 * self.sensitivity * self.rounds / Fraction(self.scale)
        require(0 < cost <= self.reported, "the rounds cost more than is reported")
        require(all(len(arc) == 2 for arc in (*self.required, *self.forbidden)), "an arc is a parent and a child")

    @property
    def gaussian_loss(self) -> Fraction | None:
        """See `Calibration`: each round is a pure choice."""
        return self.rounds * pure_rho(2 * self.sensitivity / Fraction(self.scale))


@kind("chosen_network", order=("parents",))
@dataclass(frozen=True, eq=False)
class ChosenNetwork(Released):
    """A network over some variables whose arcs were selected from the records.

    Args:
        network: the variables, without arcs.
        parents: of every node, as they were chosen.

    Raises:
        InputError: arcs in the network itself, or parents that make no network of its variables.

    Example:
        >>> import discreet as dc
        >>> variables = dc.Network.empty([dc.Variable(name, ("no", "yes")) for name in ("rain", "wet")])
        >>> dc.kinds.ChosenNetwork(variables, {"rain": (), "wet": ("rain",)}).chosen.arcs
        (('rain', 'wet'),)
    """

    network: Network
    parents: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        """Freeze, and refuse an invalid network."""
        freeze(self, parents={node: tuple(parents) for node, parents in self.parents.items()})
        if self.network != Network.empty(self.network.variables):
            raise InputError("a choice of arcs is over variables without any")
        freeze(self, parents=self.chosen.parents)

    @property
    def chosen(self) -> Network:
        """The network with the selected arcs; `Release.learned_network` adds its origin."""
        return Network(self.network.variables, self.parents)

    def learned(self, origin: Learned) -> Network:
        """See `Released`; the origin of the variables stays."""
        return replace(self.chosen, learned=replace(origin, domain=self.network.learned))

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`."""
        return [{"parent": parent, "child": child} for parent, child in self.chosen.arcs]

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        arcs = f"{len(self.chosen.arcs)} arcs over {len(self.parents)} variables"
        if not isinstance(calibration, StructureNoise):
            return arcs
        return f"{arcs}, chosen in {calibration.rounds} rounds with noise of scale {calibration.scale:.4g} records"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, StructureNoise):
            return False
        chosen, first, arcs = self.chosen, calibration.first, set(self.chosen.arcs)
        return (
            all(len(parents) <= calibration.max_parents for parents in chosen.parents.values())
            and all(chosen.cells(chosen.family(node)) <= calibration.max_cells for node in chosen.nodes)
            and set(calibration.required) <= arcs
            and not arcs & set(calibration.forbidden)
            and set(first) <= set(chosen.nodes)
            and all(set(chosen.parents[node]) <= set(first[:index]) for index, node in enumerate(first))
        )
