"""Joint laws of all families in every posterior draw: rows times the law of the parents, raked to measured tables.

Parents without arcs between them are independent in the network, or depend through their own parents. Where a table
contains them, their law was drawn with the rows. From the roots down, the law of each family is the law of its
parents times its rows, and the law of the parents is

    the margin of an earlier family that contains them all; or else
    the drawn law (without one the network's), raked to the margins of earlier families,

so that all families agree on shared margins.
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
# Laws of the parents of each node of a network, while tables are drawn from the roots down.
#
# Where an ancestor's family contains all parents, its rows and the law of its own parents suffice; other laws are
# computed on a tree of cliques (`inference/forward.py`).


class ParentLaws:
    """Laws of the parents of each node. Each is computed at first use, from draws of the rows above it, and is kept.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`; tables may be drawn lazily.
        seed: seed of simulated records, where exact inference is out of reach.
    """

    def __init__(self, cells: Tables, seed: int) -> None:
        """Keep the draws and the seed; nothing is computed yet."""
        self._cells, self._seed = cells, seed
        self._laws: dict[Scope, Floats] = {}
        self._finished = set[str]()

    def law(self, parents: Scope) -> Floats:
        """Compute `P(parents)` of a node in every draw, shape `(*parents, draws)`; keep those of its ancestors.

        Kept are the laws of the parents' own parents, and of theirs up to the roots, each once; the returned law itself
        is recomputed by each call unless it is one of these. Tables of the ancestors are drawn where they are not yet.

        Args:
            parents: all parents of a node, at least one, in the order of the network's family.
        """
        network = self._cells.network
        # From the roots down, because recursion along a long chain would be as deep as the chain is long.
        for name in ancestors_beyond(network, parents, self._finished):
            self._finished.add(name)
            if (above := network.parents[name]) and above not in self._laws:
                self._laws[above] = self._compute_law(above)
        return self._compute_law(parents)

    def _compute_law(self, parents: Scope) -> Floats:
        """Compute the law of a node's parents, as a margin of the family that contains them all if there is one.

        The family is that of one of the parents; its law is its rows times the law of its own parents, found in the
        same way. Without such a family the law is computed exactly where that is affordable, else from records
        simulated with the seed (`_apart`). A law that `law` has kept is returned as it is. The result is not kept here:
        `law` keeps it, and before it the laws above, so that the recursion stays shallow.

        Args:
            parents: all parents of one node, at least one, in the order of its family.

        Returns:
            Shape `(*parents, draws)`.
        """
        network, held = self._cells.network, held_sets(self._cells.network, parents)
        if parents in self._laws:
            return self._laws[parents]
        if len(held) > 1:
            return self._apart.law(parents)
        (holder,) = held.values()
        law, above = np.asarray(self._cells[holder]), network.parents[holder]
        if above:
            law = law * self._compute_law(above)[..., None, :]
        return margin(law, network.family(holder), parents)

    @cached_property
    def _apart(self) -> ForwardPass | RecordPass:
        """Object that computes the laws of all sets of parents that no single family contains, at first use; cached.

        They are exact if affordable, else estimated from records simulated with the seed.
        """
        network = self._cells.network
        apart = {parents for parents in network.parents.values() if parents and len(held_sets(network, parents)) > 1}
        return laws_from_roots(sorted(apart), self._cells, self._seed)


def held_sets(network: Network, parents: Scope) -> dict[Scope, str]:
    """Map the largest sets of parents that lie in the family of one of them to the node of that family.

    For each parent the set is its family's members among `parents`; sets within another such set are dropped. If the
    family of one parent contains all, the result has only this set.

    Args:
        network: network that gives the families.
        parents: names of nodes; the sets keep their order.

    Returns:
        Node by set; of several nodes with the same set the last in `parents`. Empty if `parents` is.

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
    """List the sets of parents that no family of one of them contains, each once, in the order of their children."""
    parent_sets = (network.parents[node] for node in network.order if network.parents[node])
    return tuple(dict.fromkeys(parents for parents in parent_sets if len(held_sets(network, parents)) > 1))


def family_laws(cells: Tables, drawn: Mapping[Scope, Array]) -> dict[str, Floats]:
    """Compute the joint laws of all families in every draw, from the roots down: `P(parents)` times the rows.

    The law of the parents is the margin of an earlier family that contains them all. Otherwise it is the drawn law, or
    if there is none the network's, raked to the margins of earlier families (`fit_margins`, at most eight rounds). The
    network's law is exact if affordable, else estimated from simulated records with a fixed seed.

    Args:
        cells: rows by node, shape `(*parents, child, draws)`; all are drawn.
        drawn: separately drawn laws of sets of parents, shape `(*sizes, draws)`, in any precision; sets that a family
            contains are not used.

    Returns:
        Laws by node in topological order, shape `(*parents, child, draws)`; that of a root is its row.
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
    """Rake the law of a set of variables to the margins that it shares with families.

    A family's margin is used if it has at least two of the variables, but not all of them, or its node alone; where
    several families share the same variables, the last one's. Interactions that no such margin contains keep their odds
    ratios. Several margins are fitted for at most eight rounds (`fit_margins`).

    Args:
        law: probabilities, shape `(*sizes, draws)`; not changed.
        names: names of its axes.
        network: network of the families.
        families: laws by node, as `family_laws` returns them.

    Returns:
        New float64 array, shape of `law`; equal to it for a single variable.
    """
    shared = dict[Scope, Floats]()
    for node, family_law in families.items():
        shared_names = tuple(name for name in names if name in network.family(node))
        if shared_names and len(shared_names) < len(names) and (len(shared_names) > 1 or shared_names == (node,)):
            shared[shared_names] = margin(family_law, network.family(node), shared_names)
    return fit_margins(law.astype(np.float64), names, shared)
