"""The saturated network: the largest one whose families the released tables cover, so that all tables are used.

A family is a node with its parents. A network is saturated if each node has as parents all earlier variables of a table
that contains its family, up to a limit of cells.

A public network decides which tables are measured, and assumes independence of the rest. Tables often contain more than
it assumes: the table of a large family, of several families counted together, or of a workload shows pairs that the
network has no arc for. If these contradict the network, its answers are wrong with short intervals. So a release is
read under a larger network: the same order, and for each node whose family lies in a table all variables of that table
that come before it. Then independences of the public network are assumed only where nothing was measured. Its own rows,
P(node | parents), are computed from the larger network's joint law.

Source: a DAG whose families are complete in an order assumes nothing (the chain rule); Spirtes, Glymour and Scheines
(2000) for the statistical reading of arcs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import numpy as np

from discreet.inference.exact_laws import Laws, affordable, marginals_cost
from discreet.inference.forward import ForwardPass, forward_pass
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.util.arrays import Floats

MOST_FAMILY_CELLS = 1000
"""Largest number of cells of an enlarged family: rows of a larger one would have few records each, and its interactions
would be below the noise."""
MOST_GROWTH, ALWAYS_ALLOWED_CELLS = 4, 200_000
"""Largest size of the larger network, in cells of all cliques: a multiple of the public network's, or this number if it
is larger. Queries stay about as fast as under the public network."""


def saturated(network: Network, tables: Iterable[Iterable[str]]) -> Network:
    """Add the arcs whose effect the tables measure, from earlier nodes to later ones.

    Each family that lies in a table gets earlier variables of the table as parents, up to MOST_FAMILY_CELLS cells of
    the family. This limit is halved until the network has at most MOST_GROWTH times as many cells of all cliques as the
    public one, or at most ALWAYS_ALLOWED_CELLS, or until no arc is added.

    Args:
        network: public; its order stays.
        tables: sets of variables that were measured together; of sets of the same size the first has priority.

    Returns:
        A network with the same nodes whose families contain those of `network`, own parents first; families that lie in
        no table are unchanged. `network` itself if no arc can be added, or if exact inference under it is too large
        already.

    Example:
        >>> from discreet import Variable
        >>> variables = tuple(Variable(name, ("0", "1")) for name in "abc")
        >>> network = Network(variables, {"a": (), "b": (), "c": ("a", "b")})
        >>> saturated(network, [{"a", "b", "c"}]).parents["b"]  # the table of all three tells how b depends on a
        ('a',)
    """
    sets = sorted(dict.fromkeys(frozenset(table) for table in tables), key=len, reverse=True)
    public_cost = marginals_cost(network)
    if not affordable(network, None, ()):
        return network
    limit = MOST_FAMILY_CELLS
    while True:
        wide = _enlarge_families(network, sets, limit)
        if wide.arcs == network.arcs:
            return network
        if marginals_cost(wide) <= max(MOST_GROWTH * public_cost, ALWAYS_ALLOWED_CELLS):
            return wide
        limit //= 2


def _enlarge_families(network: Network, tables: Sequence[frozenset[str]], limit: int) -> Network:
    """Add to each family variables of a table that contains it, up to `limit` cells of the family.

    Own parents come first, then those of `_choose_more_parents`. The result is a new network.
    """
    position = {name: index for index, name in enumerate(network.order)}
    parents = {
        node: (*network.parents[node], *_choose_more_parents(network, node, tables, position, limit))
        for node in network.nodes
    }
    return Network(network.variables, parents)


def _choose_more_parents(
    network: Network, node: str, tables: Sequence[frozenset[str]], position: Mapping[str, int], limit: int
) -> Scope:
    """Choose earlier variables from the table that has most of them, leaving out those with most states first.

    Of each table that contains the family, its variables before the node are taken; while the family has more than
    `limit` cells, the one with most states, of several the earliest, is left out. The longest list is chosen, of
    several that of the first table.

    Args:
        network: public.
        node: node whose family is enlarged.
        tables: sets of variables that were measured together, largest first.
        position: position of each node in the network's order.
        limit: largest number of cells of the enlarged family.

    Returns:
        New parents in the network's order; empty if the family lies in no table, if no table has an earlier variable,
        or if the limit leaves no room.
    """
    family: Scope = network.family(node)
    best: Scope = ()
    for table in tables:
        if not table.issuperset(family):
            continue
        earlier = (name for name in table - set(family) if position[name] < position[node])
        added = sorted(earlier, key=position.__getitem__)
        while added and network.cells([*family, *added]) > limit:
            added.remove(max(added, key=lambda name: network.schema[name].size))
        if len(added) > len(best):
            best = tuple(added)
    return best


def missing_arcs(network: Network, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """List the arcs that a network lacks to carry the interaction of some variables.

    Args:
        network: public.
        names: names of different nodes, at least one.

    Returns:
        Arcs (parent, child) to the last of the nodes, in the network's order, from those that are not its parents;
        empty if all are, or for a single node.

    Example:
        >>> from discreet import Variable
        >>> variables = tuple(Variable(name, ("0", "1")) for name in "abc")
        >>> network = Network(variables, {"a": (), "b": (), "c": ("a", "b")})
        >>> missing_arcs(network, ["a", "b"]), missing_arcs(network, ["a", "c"])
        ((('a', 'b'),), ())
    """
    *others, last = sorted(names, key=network.order.index)
    return tuple((name, last) for name in others if name not in network.parents[last])


def leaves_open(network: Network, names: Iterable[str]) -> bool:
    """True if a network leaves a joint distribution free: it can represent every joint law of these variables.

    This holds if the last of them, in the network's order, has the others as parents, and if it holds for the set of
    all its parents. The law of two unjoined parents is determined by their margins; so, in part, are those of their
    child and of its children, whatever their rows.

    Args:
        network: public.
        names: names of nodes, at least one; True for none.

    Example:
        >>> from discreet import Variable
        >>> variables = tuple(Variable(name, ("0", "1")) for name in "abc")
        >>> network = Network(variables, {"a": (), "b": (), "c": ("a", "b")})
        >>> leaves_open(network, ["a"]), leaves_open(network, ["c"])  # c follows from its parents, which are not joined
        (True, False)
    """
    position = {name: at for at, name in enumerate(network.order)}
    remaining = tuple(names)
    while remaining:
        *others, last = sorted(remaining, key=position.__getitem__)
        if any(name not in network.parents[last] for name in others):
            return False
        remaining = network.parents[last]
    return True


def projected(cells: Tables, network: Network) -> Tables:
    """Project another network's joint law onto the conditional probability tables of a network, at their first use.

    A family that both networks have is taken as it is. The first other one computes the laws of all of these in one
    pass, which is kept; if the pass is too large, each family's law is computed by itself.

    Args:
        cells: probabilities of the other network, shape `(*parents, child, draws)`.
        network: network over the same variables.

    Returns:
        `P(child | parents)` for each family of `network`. An impossible row is the mean of the other network's rows
        with these parents, if these come first among the other network's parents of the node; else it is uniform. A
        family whose law exceeds the memory budget raises an `InputError` at its first use.

    Example:
        >>> from discreet import Variable
        >>> variables = tuple(Variable(name, ("0", "1")) for name in "ab")
        >>> wide, own = Network(variables, {"a": (), "b": ("a",)}), Network(variables, {"a": (), "b": ()})
        >>> theta = Tables(wide, {"a": [[0.25], [0.75]], "b": [[[1.0], [0.0]], [[0.5], [0.5]]]}, draws=1)
        >>> projected(theta, own)["b"][:, 0].tolist()
        [0.625, 0.375]
    """

    @cache
    def laws() -> ForwardPass | None:
        """Make the pass over all families that the other network lacks, once; None if it is too large."""
        families = [(network.family(node), cells.network.family(node)) for node in network.nodes]
        return forward_pass([narrow for narrow, wide in families if narrow != wide], cells)

    def family(node: str) -> Floats:
        """Compute the rows of a node, shape `(*parents, child, draws)`.

        A family of both networks is taken as it is; any other from its law, with the mean of the other network's rows,
        or uniform rows, where a condition is impossible.

        Raises:
            InputError: the family's law exceeds the memory budget.
        """
        narrow = network.family(node)
        wide = cells.network.family(node)
        if narrow == wide:
            return np.asarray(cells[node])
        pass_laws = laws()
        joint = Laws(cells).joint(narrow) if pass_laws is None else pass_laws.law(narrow)
        total = joint.sum(axis=-2, keepdims=True)
        if narrow[:-1] == wide[: len(narrow) - 1]:
            fallback = cells[node].mean(axis=tuple(range(len(narrow) - 1, len(wide) - 1)))
        else:
            fallback = np.full(joint.shape, 1 / joint.shape[-2])
        return np.where(total > 0, joint / np.where(total > 0, total, 1.0), fallback)

    return Tables(network, family, draws=cells.draws)
