"""Networks: a directed acyclic graph over a schema, and what follows from the graph alone.

This file owns families, orders, cliques and covers; no probabilities (see `tables.py`), no counts, and no record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain, combinations
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from discreet.errors import InputError, shortened, shown
from discreet.model import conversions, drawing
from discreet.model.arcs import parents_in, parents_of, schema_of, topological_order
from discreet.model.bif import Bif, read_bif
from discreet.model.json_files import read_packed_text
from discreet.model.late import late
from discreet.model.limits import NETWORK_BYTES
from discreet.model.origin import Learned
from discreet.model.schema import Schema, Variable, table_cells

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = late("networkx")
approximation = late("networkx.algorithms.approximation")

__all__ = ["AXES", "COVER_CELLS", "Network"]

COVER_CELLS = 4096
"""Cells of a cover set unless one family is larger: merging beyond it no longer saves scans (measured on ALARM)."""
AXES = 12
"""Most variables of a merged table: so many binary ones have 4,096 cells, and only those of one state could be more."""
SHOWN_CYCLE_NODES = 6
"""Nodes of a cycle that an error names."""


@dataclass(frozen=True)
class Network:
    """A public DAG over variables with states.

    A family is a node with its parents; tables over a family always have the axes `(*parents, node)`, parents in the
    order declared here.

    Args:
        variables: each with at least one state; their order is the order of every listing.
        parents: for every node its parents, possibly none.
        learned: that the records chose it, and at what cost; None for a public one. Equality does not see it.

    Raises:
        InputError: a node without states or without an entry in `parents`, an unknown or repeated parent, a cycle, or a
            table that no machine can hold; the message names the nodes.

    Example:
        >>> rain = Variable("rain", ("no", "yes"))
        >>> wet = Variable("wet", ("no", "yes"))
        >>> network = Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> network.family("wet"), network.shape("wet"), network.parameters
        (('rain', 'wet'), (2, 2), 3)
    """

    variables: tuple[Variable, ...]
    parents: Mapping[str, tuple[str, ...]]
    learned: Learned | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Normalise to immutable containers, then refuse what is not a DAG over the variables."""
        object.__setattr__(self, "variables", tuple(self.variables))
        for variable in self.schema:
            if not variable.states:
                raise InputError(f"variable {shown(variable.name)} has no states; declare bins for a numeric variable")
        unknown = [name for name in self.parents if name not in self.schema]
        missing = [name for name in self.nodes if name not in self.parents]
        if unknown or missing:
            raise InputError(f"parents must name every variable once; unknown: {unknown[:5]}, missing: {missing[:5]}")
        ordered = {name: tuple(self.parents[name]) for name in self.nodes}
        object.__setattr__(self, "parents", MappingProxyType(ordered))
        for name, family in ordered.items():
            for parent in family:
                if parent not in self.schema:
                    raise InputError(f"node {shown(name)} has an unknown parent {shown(parent)}")
            if len({name, *family}) != len(family) + 1:
                raise InputError(f"node {shown(name)}: a parent is listed twice, or is the node itself")
            try:
                table_cells(self.schema[member].size for member in (*family, name))
            except InputError as error:
                raise InputError(f"node {shown(name)}: {error}; give it fewer parents") from None
        try:
            TopologicalSorter(self.parents).prepare()
        except CycleError as error:
            cycle = error.args[1][:-1]
            around = " -> ".join(
                [*cycle, cycle[0]] if len(cycle) <= SHOWN_CYCLE_NODES else [*cycle[:SHOWN_CYCLE_NODES], "..."]
            )
            raise InputError(f"the network has a cycle: {around}; remove one of its arcs") from None

    def __hash__(self) -> int:
        """Equal networks have equal nodes, and their names are hashed fast; plans of queries are looked up by this."""
        return hash(tuple([variable.name for variable in self.variables]))

    @staticmethod
    def read(path: str | Path) -> Network:
        """Read the structure of a network from a BIF file.

        Args:
            path: BIF text, or the same packed by gzip; probabilities may be left out, and are ignored.

        Returns:
            The network.

        Raises:
            InputError: the file is missing or is not BIF (with the line number), or its arcs form a cycle.
        """
        return Network.from_bif(read_bif(path), where=str(path))

    @staticmethod
    def from_bif(bif: Bif, *, where: str) -> Network:
        """The network of a file that is read already; arguments and errors as in `read`."""
        try:
            return Network(bif.variables, bif.parents)
        except InputError as error:
            raise InputError(f"{shortened(where)}: {error}") from None

    # ------------------------------------------------------------------------------------------------ arcs

    @staticmethod
    def from_edges(edges: Iterable[Sequence[str]], variables: Schema | Iterable[Variable]) -> Network:
        """The network of some arcs.

        Args:
            edges: pairs (parent, child); parents of a node have the order of their arcs.
            variables: all of them, with states; one without arcs is a node without parents.

        Returns:
            The network.

        Raises:
            InputError: an edge is no pair of names, names no variable, is there twice or leads to where it began, or
                the arcs form a cycle.

        Example:
            >>> study = Schema(tuple(Variable(name, ("no", "yes")) for name in ("smoke", "lung", "age")))
            >>> Network.from_edges([("smoke", "lung"), ("age", "lung")], study).parents["lung"]
            ('smoke', 'age')
        """
        schema = schema_of(variables)
        return Network(schema.variables, parents_of(edges, schema))

    @staticmethod
    def read_edges(path: str | Path, variables: Schema | Iterable[Variable]) -> Network:
        """Read arcs from a file: lines such as `smoke -> lung`, chains, or CSV of two columns, parent and child.

        Args:
            path: text, or the same packed by gzip; `#` begins a comment, and double quotes hold names with blanks.
            variables: as in `from_edges`.

        Returns:
            The network.

        Raises:
            InputError: the file is missing or holds no arcs, or errors as in `from_edges`, with the line number.
        """
        return Network.parse_edges(read_packed_text(path, "arcs", NETWORK_BYTES), variables, where=str(path))

    @staticmethod
    def parse_edges(text: str, variables: Schema | Iterable[Variable], *, where: str = "arcs") -> Network:
        """The network of a text of arcs; `where` is named in errors, all else as in `read_edges`.

        Example:
            >>> study = Schema(tuple(Variable(name, ("no", "yes")) for name in ("smoke", "lung", "x ray")))
            >>> Network.parse_edges('smoke -> lung -> "x ray"', study).arcs
            (('smoke', 'lung'), ('lung', 'x ray'))
        """
        schema = schema_of(variables)
        parents = parents_in(text, schema, where=where)
        try:
            return Network(schema.variables, parents)
        except InputError as error:
            raise InputError(f"{shortened(where)}: {error}") from None

    @staticmethod
    def empty(variables: Schema | Iterable[Variable]) -> Network:
        """The network without arcs: all variables are independent.

        Example:
            >>> Network.empty([Variable("smoke", ("no", "yes")), Variable("lung", ("no", "yes"))]).arcs
            ()
        """
        return Network.from_edges((), variables)

    @staticmethod
    def naive_bayes(variables: Schema | Iterable[Variable], target: str) -> Network:
        """The network with an arc from the target to every other variable.

        Raises:
            InputError: there is no variable of the target's name.

        Example:
            >>> study = Schema(tuple(Variable(name, ("no", "yes")) for name in ("smoke", "lung", "age")))
            >>> Network.naive_bayes(study, "lung").arcs
            (('lung', 'smoke'), ('lung', 'age'))
        """
        schema = schema_of(variables)
        root = schema[target].name
        return Network.from_edges([(root, name) for name in schema.names if name != root], schema)

    # ------------------------------------------------------------------------------------------------ other packages

    @staticmethod
    def from_networkx(graph: nx.DiGraph, variables: Schema | Iterable[Variable]) -> Network:
        """The network of a directed graph; its nodes are names of variables, of which there may be more.

        Raises:
            InputError: no `networkx.DiGraph`, an unknown node, or a cycle.
        """
        schema = schema_of(variables)
        return Network.from_edges(conversions.arcs_of_networkx(graph, schema), schema)

    def to_networkx(self) -> nx.DiGraph:
        """A new graph that may be changed, whose nodes have an attribute `states`; `graph` is the frozen one."""
        return conversions.as_networkx(self.variables, self.parents)

    @staticmethod
    def from_pgmpy(model: Any, variables: Schema | Iterable[Variable] | None = None) -> Network:
        """The structure of a pgmpy model; its probabilities are left out.

        Args:
            model: `DiscreteBayesianNetwork`.
            variables: say states; None takes those of the model's CPDs.

        Returns:
            The network; parents have the order of the CPD.

        Raises:
            InputError: no such model, or a node whose states nobody says.
        """
        return Network(*conversions.from_pgmpy(model, None if variables is None else schema_of(variables)))

    def to_pgmpy(self) -> Any:
        """A `DiscreteBayesianNetwork` with these nodes and arcs and without CPDs; needs pgmpy."""
        return conversions.as_pgmpy(self.variables, self.parents)

    @staticmethod
    def from_pyagrum(net: Any) -> Network:
        """The structure of a `pyagrum.BayesNet`, with its labels as states; its probabilities are left out.

        Raises:
            InputError: no such network.
        """
        return Network(*conversions.from_pyagrum(net))

    def to_pyagrum(self) -> Any:
        """A `pyagrum.BayesNet` with these variables and arcs, whose tables are not filled; needs pyAgrum."""
        return conversions.as_pyagrum(self.variables, self.parents)

    # ------------------------------------------------------------------------------------------------ drawings

    def to_text(self) -> str:
        """The nodes in layers, parents first, each with its number of states and its parents; lines of 100 columns.

        Example:
            >>> rain, wet = Variable("rain", ("no", "yes")), Variable("wet", ("no", "yes"))
            >>> print(Network.from_edges([("rain", "wet")], (rain, wet)).to_text())
            2 nodes, 1 arc, 3 free parameters
            <BLANKLINE>
            layer 1
              rain  2
            layer 2
              wet   2  <- rain
        """
        return drawing.as_text(self.variables, self.parents)

    def to_svg(self) -> str:
        """A drawing in layers, parents above children, as SVG in shades of grey; the same for the same network.

        Raises:
            InputError: too large to be drawn, at thousands of nodes with long arcs.
        """
        return drawing.as_svg(self.variables, self.parents)

    # ------------------------------------------------------------------------------------------------ listings

    @cached_property
    def schema(self) -> Schema:
        """The variables as a schema."""
        return Schema(self.variables)

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
        """The parents of a node, then the node."""
        return (*self.parents[self.schema[node].name], node)

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names in the schema's order."""
        return tuple(sorted(names, key=self._positions.__getitem__))

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        """Of each node in the schema."""
        return {name: position for position, name in enumerate(self.nodes)}

    def shape(self, node: str) -> tuple[int, ...]:
        """Shape of the node's table: `(*parent sizes, node size)`."""
        return tuple(self.schema[name].size for name in self.family(node))

    def cells(self, variables: Iterable[str]) -> int:
        """Number of cells of a table over some variables."""
        return math.prod(self.schema[name].size for name in variables)

    @property
    def parameters(self) -> int:
        """Free parameters: sum over nodes of (states - 1) x parent configurations."""
        return sum(math.prod(shape[:-1]) * (shape[-1] - 1) for shape in map(self.shape, self.nodes))

    # ------------------------------------------------------------------------------------------------ graph

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Nodes with parents before children; among the possible orders the one nearest to the schema's."""
        return topological_order(self.nodes, self.parents)

    @cached_property
    def heights(self) -> Mapping[str, int]:
        """Arcs on the longest directed path from each node to a leaf (Chowdhury et al. 2020, Section 4)."""
        heights: dict[str, int] = {}
        for name in reversed(self.order):
            heights[name] = max((heights[child] + 1 for child in self._children[name]), default=0)
        return heights

    def in_degree(self, node: str) -> int:
        """Number of parents."""
        return len(self.family(node)) - 1

    def out_degree(self, node: str) -> int:
        """Number of children."""
        return len(self.children(node))

    def children(self, node: str) -> tuple[str, ...]:
        """The children of a node, in the schema's order."""
        return tuple(self._children[self.schema[node].name])

    @cached_property
    def _children(self) -> Mapping[str, list[str]]:
        """Of each node, in the schema's order."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for parent, name in self.arcs:
            found[parent].append(name)
        return found

    def ancestors(self, nodes: Iterable[str]) -> frozenset[str]:
        """The nodes themselves and all their ancestors."""
        found, left = set[str](), [self.schema[name].name for name in nodes]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left.extend(self.parents[name])
        return frozenset(found)

    def markov_blanket(self, node: str) -> frozenset[str]:
        """Parents, children and the children's other parents."""
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
        """Nodes whose family lies in no other family; two nodes of a DAG never have the same one."""
        families = {name: frozenset(self.family(name)) for name in self.nodes}
        # What holds a node's family holds the node as a parent: it is a child's.
        return tuple(
            name
            for name, family in families.items()
            if not any(family < families[child] for child in self._children[name])
        )

    def cover_sets(
        self, limit: int = COVER_CELLS, wanted: Iterable[Sequence[str]] | None = None
    ) -> tuple[tuple[str, ...], ...]:
        """Few sets of variables that together contain some others, for counting.

        They are placed one by one, the largest first, each into the set with which it shares most variables and whose
        union with it stays within the limit; greedy, so not always the fewest.

        Args:
            limit: most cells of a set; one that is larger alone is a set of its own.
            wanted: sets of variables; None for the families.

        Returns:
            Sets of variables in the schema's order.

        Raises:
            InputError: the limit is not a positive number.
        """
        _require_room(limit)
        named = [self.family(name) for name in self.maximal_families] if wanted is None else wanted
        sets: list[set[str]] = []
        for names in map(set, sorted(named, key=lambda names: -self.cells(names))):
            unions = [other | names for other in sets]
            fits = [index for index, union in enumerate(unions) if len(union) <= AXES and self.cells(union) <= limit]
            if fits:
                sets[min(fits, key=lambda i: (-len(sets[i] & names), self.cells(unions[i])))] |= names
            else:
                sets.append(names)
        return tuple(tuple(name for name in self.nodes if name in cover) for cover in sets)

    def with_variables(self, variables: Sequence[Variable]) -> Network:
        """The same graph with numeric bounds and bins for some of its variables; states keep the network's names.

        Args:
            variables: each has the name of a node and as many states as that node.

        Returns:
            A new network.

        Raises:
            InputError: a name is not a node, the number of states differs, or a variable without bounds names other
                states.
        """
        replaced = {}
        for variable in variables:
            own = self.schema[variable.name]
            own = replace(own, missing=own.missing or variable.missing)
            if variable.size != own.size:
                raise InputError(
                    f"variable {shown(own.name)} has {own.size} states in the network but {variable.size} in the "
                    f"schema; a numeric variable needs {own.size - 1} cut points in its bins"
                )
            if variable.bounds is None and set(variable.states) != set(own.states):
                raise InputError(f"variable {shown(own.name)} has other states in the schema than in the network")
            replaced[own.name] = replace(variable, states=own.states, missing=own.missing)
        return replace(self, variables=tuple(replaced.get(variable.name, variable) for variable in self.variables))

    @property
    def may_be_missing(self) -> tuple[str, ...]:
        """Nodes with a state that says that a value is missing."""
        return tuple(variable.name for variable in self.variables if variable.missing is not None)

    def with_missing(self, names: Iterable[str] | None = None) -> Network:
        """The same graph over variables some of which may be missing, as of `Schema.with_missing`."""
        return replace(self, variables=self.schema.with_missing(names).variables)

    def without_missing(self) -> Network:
        """The same graph over complete records."""
        return replace(self, variables=tuple(replace(one, states=one.values, missing=None) for one in self.variables))


def _require_room(limit: int) -> None:
    """Refuse a limit that no table keeps."""
    if not limit > 0:
        raise InputError(f"a cover set needs a positive limit of cells, got {limit}")
