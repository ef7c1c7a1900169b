"""Plan of the measurements for a latent node, by the public network: the network of the others, and enough tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from discreet.errors import InputError, shown
from discreet.latent.latent_block import LatentBlock, block_contrasts, count_directions
from discreet.model.network import Network
from discreet.util.arrays import Floats
from discreet.util.tabular import Block, Result


@dataclass(frozen=True, eq=False)
class LatentPlan(Result):
    """Contents that tables must have for a latent node; computed from the public network.

    Args:
        latent: name of the node without a column.
        observed: network of the other variables, for the release.
        around: observed variables that a table of all around the node would have.
        parameters: free parameters of the block, those of a saturated law of parents included.
        identified: for each size of sets, from two on, the number of directions of the parameters that tables of all
            sets of this size tell.

    Example:
        >>> import discreet as dc
        >>> group = [dc.Variable(name, ("no", "yes")) for name in ("class", "a", "b", "c")]
        >>> plan = dc.latent.plan_latent(dc.Network.naive_bayes(group, "class"), "class")
        >>> plan.parameters, plan.identified, plan.least
        (7, {2: 6, 3: 7}, 3)
    """

    latent: str
    observed: Network
    around: tuple[str, ...]
    parameters: int
    identified: dict[int, int]

    @property
    def least(self) -> int | None:
        """Least size of sets whose tables tell all parameters; None if no tables do."""
        return next((size for size, identified in self.identified.items() if identified >= self.parameters), None)

    def tidy(self) -> list[dict[str, int]]:
        """List a row for each size of sets: "size", "identified" and "parameters"."""
        return [
            {"size": size, "identified": identified, "parameters": self.parameters}
            for size, identified in self.identified.items()
        ]

    def content(self) -> Iterator[str | Block]:
        """Yield a line for each size of sets, and what follows for the release."""
        for size, identified in self.identified.items():
            yield f"tables of {size} variables tell {identified} of {self.parameters} parameters"
        around = ", ".join(self.around)
        if self.least is None:
            yield f"no tables tell all of them: {shown(self.latent)} has too many states for {around}"
        else:
            yield f"measure at least {self.least} of these together: {around}"


def without_latent(network: Network, latent: str) -> Network:
    """Return the network of the variables that have a column: what a latent node leaves open has arcs.

    Args:
        network: with the latent node.
        latent: its name.

    Returns:
        Children of the node have as parents all earlier variables around it; other families stay. Any law of the whole
        network is a law of this one.

    Raises:
        InputError: no such node, or one with too few neighbours or too many states or cells around it (`LatentBlock`).

    Guarantee:
        None spent: reads the public network alone.

    Example:
        >>> import discreet as dc
        >>> group = [dc.Variable(name, ("no", "yes")) for name in ("class", "a", "b", "c")]
        >>> dict(dc.latent.without_latent(dc.Network.naive_bayes(group, "class"), "class").parents)
        {'a': (), 'b': ('a',), 'c': ('a', 'b')}
    """
    block = _block_of(network, latent)
    parents = {node: network.parents[node] for node in network.nodes if node != latent}
    for place, node in enumerate(block.observed):
        if node in block.modelled:
            parents[node] = block.observed[:place]
    return Network(tuple(variable for variable in network.variables if variable.name != latent), parents)


def plan_latent(network: Network, latent: str) -> LatentPlan:
    """Find which tables tell the parameters around a latent node, from the public network alone.

    Args:
        network: with the latent node.
        latent: its name.

    Returns:
        The observed network, and how much tables of two, three, ... variables tell. The number of directions is the
        rank of the derivative of the tables by the parameters, at random parameters: local identification of almost
        all of them, whatever the number of records.

    Raises:
        InputError: as in `without_latent`.

    Guarantee:
        None spent: reads the public network alone.

    Source:
        Allman, Matias and Rhodes (2009) for generic identification; Goodman (1974) for the rank.

    Example:
        >>> import discreet as dc
        >>> group = [dc.Variable(name, ("no", "yes")) for name in ("class", "a", "b", "c", "d", "e")]
        >>> print(dc.latent.plan_latent(dc.Network.naive_bayes(group, "class"), "class").summary())
        tables of 2 variables tell 10 of 11 parameters
        tables of 3 variables tell 11 of 11 parameters
        measure at least 3 of these together: a, b, c, d, e
    """
    block = _block_of(network, latent)
    identified, parameters = dict[int, int](), 0
    for size in range(2, len(block.observed) + 1):
        identified[size], parameters = count_directions(block, _rows_up_to(block, size))
        if identified[size] >= parameters:
            break
    return LatentPlan(latent, without_latent(network, latent), block.observed, parameters, identified)


def _block_of(network: Network, latent: str) -> LatentBlock:
    """Return the block of a node; InputError if the network has no such node."""
    if latent not in network.schema:
        raise InputError(f"no node {shown(latent)} in the network")
    return LatentBlock.of(network, latent)


def _rows_up_to(block: LatentBlock, most: int) -> Floats:
    """Return the interactions of all sets of one to `most` observed variables, as rows over the observed cells."""
    sets = [names for size in range(1, most + 1) for names in combinations(block.observed, size)]
    return np.concatenate([block_contrasts(block, names) for names in sets])
