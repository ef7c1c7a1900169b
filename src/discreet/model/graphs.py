"""Graphs: properties of variables and their parents, without probabilities.

It has families, orders, degrees, subsets and covers; `Network` is the only graph.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations
from typing import TYPE_CHECKING

from discreet.errors import require
from discreet.model.arcs import topological_order
from discreet.model.schema import Schema
from discreet.util.lazy_imports import lazy_import

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = lazy_import("networkx")
approximation = lazy_import("networkx.algorithms.approximation")

COVER_CELLS = 4096
"""Cells of a cover set unless one family is larger: merging beyond it no longer saves scans (measured on ALARM)."""
AXES = 12
"""Most variables of a merged table: 12 binary ones have 4,096 cells, so only variables of one state could be more."""


class Graph(ABC):
    """A directed acyclic graph over variables with states; tables are over its families.

    A family is a node with its parents; tables over a family always have the axes `(*parents, node)`, parents in the
    order in which they were declared.
    """

    parents: Mapping[str, tuple[str, ...]]

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Variables, in the order of all listings."""

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The DAG for networkx, frozen."""
        graph = nx.DiGraph()
        graph.add_nodes_from(self.nodes)
        graph.add_edges_from((parent, name) for name in self.nodes for parent in self.parents[name])
        return nx.freeze(graph)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in the schema's order."""
        return self.schema.names

    @property
    def arcs(self) -> tuple[tuple[str, str], ...]:
        """All arcs as (parent, child)."""
        return tuple((parent, name) for name in self.nodes for parent in self.parents[name])

    def family(self, node: str) -> tuple[str, ...]:
        """Return the parents of a node, then the node.

        Args:
            node: its name.

        Returns:
            Names, the node last.

        Raises:
            InputError: there is no such node.
        """
        return (*self.parents[self.schema[node].name], node)

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Sort names by the schema's order.

        Args:
            names: of nodes.

        Returns:
            The same names.

        Raises:
            KeyError: an unknown name.
        """
        return tuple(sorted(names, key=self._positions.__getitem__))

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        """Position of each node in the schema."""
        return {name: position for position, name in enumerate(self.nodes)}

    def shape(self, node: str) -> tuple[int, ...]:
        """Return the shape of a node's table.

        Args:
            node: its name.

        Returns:
            `(*parent sizes, node size)`.

        Raises:
            InputError: there is no such node.
        """
        return tuple(self.schema[name].size for name in self.family(node))

    def cells(self, variables: Iterable[str]) -> int:
        """Count the cells of a table over some variables.

        Args:
            variables: names.

        Returns:
            The product of their numbers of states; 1 without variables.

        Raises:
            InputError: an unknown name.
        """
        return math.prod(self.schema[name].size for name in variables)

    @property
    def parameters(self) -> int:
        """Free parameters: sum over nodes of (states - 1) x parent configurations."""
        return sum(math.prod(shape[:-1]) * (shape[-1] - 1) for shape in map(self.shape, self.nodes))

    # ------------------------------------------------------------------------------------------------ graph

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Nodes with parents before children, as near as possible to the schema's order."""
        return topological_order(self.nodes, self.parents)

    @cached_property
    def heights(self) -> Mapping[str, int]:
        """Arcs on the longest directed path from each node to a leaf (Chowdhury et al. 2020, Section 4)."""
        heights: dict[str, int] = {}
        for name in reversed(self.order):
            heights[name] = max((heights[child] + 1 for child in self._children[name]), default=0)
        return heights

    def in_degree(self, node: str) -> int:
        """Count the parents of a node.

        Args:
            node: its name.

        Returns:
            0 for a node without parents.

        Raises:
            InputError: there is no such node.
        """
        return len(self.family(node)) - 1

    def out_degree(self, node: str) -> int:
        """Count the children of a node.

        Args:
            node: its name.

        Returns:
            0 for a leaf.

        Raises:
            InputError: there is no such node.
        """
        return len(self.children(node))

    def children(self, node: str) -> tuple[str, ...]:
        """List the children of a node.

        Args:
            node: its name.

        Returns:
            Names in the schema's order.

        Raises:
            InputError: there is no such node.
        """
        return tuple(self._children[self.schema[node].name])

    @cached_property
    def _children(self) -> Mapping[str, list[str]]:
        """Children of each node, in the schema's order."""
        children: dict[str, list[str]] = {name: [] for name in self.nodes}
        for parent, name in self.arcs:
            children[parent].append(name)
        return children

    def ancestors(self, nodes: Iterable[str]) -> frozenset[str]:
        """List some nodes and all their ancestors.

        Args:
            nodes: names.

        Returns:
            Names, with those of the nodes.

        Raises:
            InputError: an unknown name.
        """
        ancestors, left = set[str](), [self.schema[name].name for name in nodes]
        while left:
            name = left.pop()
            if name not in ancestors:
                ancestors.add(name)
                left.extend(self.parents[name])
        return frozenset(ancestors)

    def markov_blanket(self, node: str) -> frozenset[str]:
        """List a node's parents, children and the children's other parents.

        Args:
            node: its name.

        Returns:
            Names, without that of the node.

        Raises:
            InputError: there is no such node.
        """
        blanket = set(self.family(node))
        for child in self.children(node):
            blanket |= {child, *self.parents[child]}
        return frozenset(blanket - {node})

    @cached_property
    def moral_graph(self) -> nx.Graph:
        """The undirected graph in which every family is a clique, for networkx, frozen."""
        return nx.freeze(nx.moral_graph(self.graph))

    @cached_property
    def treewidth(self) -> int:
        """Width of the moral graph under the min-fill order: an upper bound on its treewidth."""
        return int(approximation.treewidth_min_fill_in(self.moral_graph)[0])

    # ------------------------------------------------------------------------------------------------ families

    @cached_property
    def downward_closure(self) -> tuple[tuple[str, ...], ...]:
        """All subsets of all families (N_I of Zhang et al. 2016), by size, then in schema order."""
        position = {name: index for index, name in enumerate(self.nodes)}
        subsets = set(
            chain.from_iterable(
                combinations(sorted(self.family(name), key=position.__getitem__), size)
                for name in self.nodes
                for size in range(len(self.family(name)) + 1)
            )
        )
        return tuple(sorted(subsets, key=lambda subset: (len(subset), [position[name] for name in subset])))

    @cached_property
    def maximal_families(self) -> tuple[str, ...]:
        """Nodes whose family lies in no other family; different nodes of a DAG have different families."""
        families = {name: frozenset(self.family(name)) for name in self.nodes}
        # A family that contains a node's family has the node as a parent: it is a child's family.
        return tuple(
            name
            for name, family in families.items()
            if not any(family < families[child] for child in self._children[name])
        )

    def cover_sets(
        self, limit: int = COVER_CELLS, wanted: Iterable[Sequence[str]] | None = None
    ) -> tuple[tuple[str, ...], ...]:
        """Find few sets of variables that together contain the wanted sets, for counting.

        Wanted sets are placed one by one, the largest first, each into the set that shares most variables with it and
        whose union stays within the limit. The algorithm is greedy, so the number is not always minimal.

        Args:
            limit: most cells of a set; a larger wanted set stays alone.
            wanted: sets of variables; None for the families.

        Returns:
            Sets of variables in the schema's order.

        Raises:
            InputError: the limit is not a positive number.
        """
        require(limit > 0, f"a cover set needs a positive limit of cells, got {limit}")
        named = [self.family(name) for name in self.maximal_families] if wanted is None else wanted
        sets: list[set[str]] = []
        for names in map(set, sorted(named, key=lambda names: -self.cells(names))):
            unions = [cover | names for cover in sets]
            fits = [index for index, union in enumerate(unions) if len(union) <= AXES and self.cells(union) <= limit]
            if fits:
                sets[min(fits, key=lambda i: (-len(sets[i] & names), self.cells(unions[i])))] |= names
            else:
                sets.append(names)
        return tuple(tuple(name for name in self.nodes if name in cover) for cover in sets)


def requisite(graph: Graph, targets: Sequence[str], evidence: Iterable[str]) -> tuple[str, ...]:
    """List the nodes whose tables matter to `P(targets | evidence)`, whatever the observed states.

    Args:
        graph: public.
        targets: unobserved variables.
        evidence: observed variables.

    Returns:
        Ancestors of the targets and the evidence whose family is not separated from all targets by the evidence, in
        the graph's order. Evidence outside their families does not matter, but it must be possible.

    Source:
        Lauritzen et al. (1990): d-separation is separation in the moral graph of the ancestors.

    Example:
        >>> from discreet import Network, Variable
        >>> parents = {"a": (), "b": ("a",), "c": ("b",)}
        >>> chain = Network(tuple(Variable(name, ("0", "1")) for name in "abc"), parents)
        >>> requisite(chain, ["c"], ["b"])  # given b, its ancestors do not matter
        ('c',)
    """
    seen = frozenset(evidence)
    above = graph.ancestors((*targets, *seen))
    families = {node: (*graph.parents[node], node) for node in above}
    members: dict[str, list[str]] = {name: [] for name in above}
    for node, family in families.items():
        for name in family:
            members[name].append(node)
    reached, left = set[str](), list(targets)
    while left:
        name = left.pop()
        if name not in reached and name not in seen:
            reached.add(name)
            # The unobserved members of a family are connected.
            left.extend(member for node in members[name] for member in families[node])
    return graph.ordered(node for node, family in families.items() if not reached.isdisjoint(family))
