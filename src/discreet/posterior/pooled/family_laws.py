"""Joint laws of all families under every draw: rows times laws of their parents, moved to measured tables.

A network's parents that are not joined are independent of each other, or as their own parents make them. Where a table
holds them, their law was drawn beside the rows. From the roots down, the law of each family is that of its parents
times its rows, and the law of parents is

    that of an earlier family that holds them all; or else
    the drawn one, or the network's, moved to what earlier families say of its parts,

so that all families agree in what they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from discreet.inference.forward import ForwardPass, laws_from_roots
from discreet.inference.weighted_records import RecordPass, ancestors_beyond
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.pooled.raking import fit_margins
from discreet.util.arrays import Array, Floats, margin

# --------------------------------------------------------------------------------------------------------------------
# Laws of the parents of each node of a network, while tables are made from the roots down.
#
# Where a family above holds all parents, its table and the law of its own parents are all that it takes; laws of others
# are read off a tree of cliques (`inference/forward.py`).


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
        """Compute `P(parents)` of a node under every draw, shape `(*parents, draws)`."""
        network = self._cells.network
        # From the roots down: a long chain would nest as deep as it is long.
        for name in ancestors_beyond(network, parents, self._seen):
            self._seen.add(name)
            if (above := network.parents[name]) and above not in self._found:
                self._found[above] = self._find(above)
        return self._find(parents)

    def _find(self, parents: Scope) -> Floats:
        """Compute the law from that of a family that contains the parents, if there is one."""
        network, held = self._cells.network, held_sets(self._cells.network, parents)
        if parents in self._found:
            return self._found[parents]
        if len(held) > 1:
            return self._apart.law(parents)
        (holder,) = held.values()
        law, above = np.asarray(self._cells[holder]), network.parents[holder]
        if above:
            law = law * self._find(above)[..., None, :]
        return margin(law, network.family(holder), parents)

    @cached_property
    def _apart(self) -> ForwardPass | RecordPass:
        """Laws of parents that no family holds together."""
        network = self._cells.network
        apart = {parents for parents in network.parents.values() if parents and len(held_sets(network, parents)) > 1}
        return laws_from_roots(sorted(apart), self._cells, self._seed)


def held_sets(network: Network, parents: Scope) -> dict[Scope, str]:
    """Map the largest sets of parents that lie in the family of one of them to the node of that family.

    Example:
        >>> from discreet import Variable
        >>> variables = tuple(Variable(name, ("0", "1")) for name in "abc")
        >>> held_sets(Network(variables, {"a": (), "b": (), "c": ("a", "b")}), ("a", "b"))
        {('a',): 'a', ('b',): 'b'}
    """
    sets = dict[Scope, str]()
    for name in parents:
        family = network.family(name)
        sets[tuple(parent for parent in parents if parent in family)] = name
    return {names: holder for names, holder in sets.items() if not any(set(names) < set(larger) for larger in sets)}


def parents_apart(network: Network) -> tuple[Scope, ...]:
    """List the sets of parents that no family of one of them contains, in the order of their children."""
    parent_sets = (network.parents[node] for node in network.order if network.parents[node])
    return tuple(dict.fromkeys(parents for parents in parent_sets if len(held_sets(network, parents)) > 1))


def family_laws(cells: Tables, drawn: Mapping[Scope, Array]) -> dict[str, Floats]:
    """Compute the joint laws of all families.

    Args:
        cells: rows, shape `(*parents, child, draws)`.
        drawn: laws of sets of parents, shape `(*sizes, draws)`.

    Returns:
        By node, an axis for each of its family, then one of draws.
    """
    network, laws = cells.network, dict[str, Floats]()
    forward = laws_from_roots([parents for parents in parents_apart(network) if parents not in drawn], cells, seed=0)
    for node in network.order:
        parents, law = network.parents[node], cells[node]
        if parents:
            held = {
                names: margin(laws[of], network.family(of), names) for names, of in held_sets(network, parents).items()
            }
            above = held.get(parents)
            if above is None:
                parents_law = drawn[parents].astype(np.float64) if parents in drawn else forward.law(parents)
                above = fit_margins(parents_law, parents, held)
            law = above[..., None, :] * law
        laws[node] = law
    return laws


def move_to_families(law: Array, names: Scope, network: Network, families: Mapping[str, Floats]) -> Floats:
    """Move the law of a set of variables to the margins that it shares with families, so that they agree.

    Args:
        law: shape `(*sizes, draws)`.
        names: of its axes.
        network: of the families.
        families: laws by node, as of `family_laws`.

    Returns:
        The same shape: odds ratios of what no family holds stay.
    """
    shared = dict[Scope, Floats]()
    for node, family_law in families.items():
        shared_names = tuple(name for name in names if name in network.family(node))
        if shared_names and len(shared_names) < len(names) and (len(shared_names) > 1 or shared_names == (node,)):
            shared[shared_names] = margin(family_law, network.family(node), shared_names)
    return fit_margins(law.astype(np.float64), names, shared)
