"""Laws of the parents of each node of a network, while tables are made from the roots down.

Where a family above holds all parents, its table and the law of its own parents are all that it takes; laws of others
are read off a tree of cliques (`inference/forward.py`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from discreet.inference.forward import ForwardPass, laws_from_roots
from discreet.inference.weighted_records import RecordPass, ancestors_beyond
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.pooled.family_laws import held_sets
from discreet.util.arrays import Floats, margin


class ParentLaws:
    """Laws of the parents of each node under draws of the rows above it.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        seed: of made-up records, if it takes some.
    """

    def __init__(self, cells: Tables, seed: int) -> None:
        self._cells, self._seed = cells, seed
        self._found: dict[Scope, Floats] = {}
        self._seen = set[str]()

    def law(self, parents: Scope) -> Floats:
        """`P(parents)` of a node under every draw, shape `(*parents, draws)`."""
        network = self._cells.network
        # From the roots down: a long chain would nest as deep as it is long.
        for name in ancestors_beyond(network, parents, self._seen):
            self._seen.add(name)
            if (above := network.parents[name]) and above not in self._found:
                self._found[above] = self._find(above)
        return self._find(parents)

    def _find(self, parents: Scope) -> Floats:
        """The law, from that of a family that holds the parents, where one does."""
        network, held = self._cells.network, held_sets(self._cells.network, parents)
        if parents in self._found:
            return self._found[parents]
        if len(held) > 1:
            return self._apart.law(parents)
        (own,) = held.values()
        law, above = np.asarray(self._cells[own]), network.parents[own]
        if above:
            law = law * self._find(above)[..., None, :]
        return margin(law, network.family(own), parents)

    @cached_property
    def _apart(self) -> ForwardPass | RecordPass:
        """Laws of parents that no family holds together."""
        network = self._cells.network
        apart = {parents for parents in network.parents.values() if parents and len(held_sets(network, parents)) > 1}
        return laws_from_roots(sorted(apart), self._cells, self._seed)
