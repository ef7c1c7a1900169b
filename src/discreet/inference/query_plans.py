"""What a question needs of a network, and in which order: nodes that matter, families without evidence, a clique tree.

Plans depend on names alone, so they are kept: the same variables asked given the same ones, whatever their states, are
planned once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from discreet.inference.junction_tree import Family, JunctionTree, junction_tree, maximising_tree
from discreet.model.network import Network
from discreet.model.schema import Scope

KEPT_PLANS = 512
"""Plans that are kept."""


def requisite(network: Network, targets: Sequence[str], evidence: Iterable[str]) -> tuple[str, ...]:
    """Nodes whose tables matter to `P(targets | evidence)`, whatever the observed states.

    Args:
        network: public.
        targets: variables that are not observed.
        evidence: variables that are.

    Returns:
        Ancestors of the targets and the evidence whose family is not separated from all targets by the evidence, in
        the network's order. No evidence outside their families matters, but it must be possible.

    Source:
        Lauritzen et al. (1990): d-separation is separation in the moral graph of the ancestors.

    Example:
        >>> from discreet import Network, Variable
        >>> parents = {"a": (), "b": ("a",), "c": ("b",)}
        >>> chain = Network(tuple(Variable(name, ("0", "1")) for name in "abc"), parents)
        >>> requisite(chain, ["c"], ["b"])  # what is before b does not matter once b is known
        ('c',)
    """
    seen = frozenset(evidence)
    above = network.ancestors((*targets, *seen))
    families: dict[str, list[str]] = {name: [] for name in above}
    for node in above:
        for name in network.family(node):
            families[name].append(node)
    reached, left = set[str](), list(targets)
    while left:
        name = left.pop()
        if name not in reached and name not in seen:
            reached.add(name)
            # A family is connected, but for what was seen of it.
            left.extend(member for node in families[name] for member in network.family(node))
    return tuple(node for node in network.nodes if node in above and not reached.isdisjoint(network.family(node)))


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan of all questions about the same variables given the same ones: what is read and computed.

    Args:
        nodes: whose families matter.
        observed: for each of them, by axis of its family, the variable if it is observed; None if none is.
        pruned: nodes above the evidence whose families do not matter, unless they make the evidence impossible.
        tree: over these families.
        cells: of memory for each draw.
    """

    nodes: tuple[str, ...]
    observed: tuple[tuple[str | None, ...] | None, ...]
    pruned: tuple[str, ...]
    tree: JunctionTree
    cells: int


@lru_cache(maxsize=KEPT_PLANS)
def plan_query(network: Network, targets: Scope, evidence: frozenset[str]) -> Plan:
    """The plan of P(targets | evidence)."""
    nodes = requisite(network, targets, evidence)
    tree = junction_tree(_list_families(network, nodes, evidence), _list_sizes(network, nodes, evidence), targets)
    return _make_plan(network, nodes, evidence, tree, tree.cells)


@lru_cache(maxsize=KEPT_PLANS)
def plan_sum(network: Network, evidence: frozenset[str], *, every: bool) -> Plan:
    """The plan of all marginals, or of P(evidence) alone."""
    nodes = network.nodes if every else network.ordered(network.ancestors(evidence))
    tree = junction_tree(_list_families(network, nodes, evidence), _list_sizes(network, nodes, evidence))
    return _make_plan(network, nodes, evidence, tree, tree.cells)


@lru_cache(maxsize=KEPT_PLANS)
def plan_explanation(network: Network, targets: Scope, evidence: frozenset[str]) -> tuple[Plan, JunctionTree]:
    """The plan of the most probable states, and a tree for the sum over all states of the same families."""
    nodes = requisite(network, targets, evidence)
    families, sizes = _list_families(network, nodes, evidence), _list_sizes(network, nodes, evidence)
    tree, total = maximising_tree(families, sizes, targets), junction_tree(families, sizes)
    return _make_plan(network, nodes, evidence, tree, max(tree.cells, total.cells)), total


def _make_plan(
    network: Network, nodes: Sequence[str], evidence: frozenset[str], tree: JunctionTree, cells: int
) -> Plan:
    """How the tables of some families are read."""
    observed = []
    for node in nodes:
        axes = tuple(name if name in evidence else None for name in network.family(node))
        observed.append(axes if any(axes) else None)
    pruned = network.ordered(network.ancestors(evidence).difference(nodes))
    return Plan(tuple(nodes), tuple(observed), pruned, tree, cells)


def _list_sizes(network: Network, nodes: Iterable[str], evidence: frozenset[str]) -> dict[str, int]:
    """States of the variables of some families that are no evidence."""
    names = {name for node in nodes for name in network.family(node)}
    return {name: network.schema[name].size for name in network.nodes if name in names and name not in evidence}


def _list_families(network: Network, nodes: Iterable[str], evidence: frozenset[str]) -> list[Family]:
    """List the families without evidence, each with its node unless that is evidence."""
    return [
        (None if node in evidence else node, tuple(name for name in network.family(node) if name not in evidence))
        for node in nodes
    ]
