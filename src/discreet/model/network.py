"""Networks: a directed acyclic graph over a schema, where it may come from, and what it may become.

What follows from the graph alone is in `graphs.py`; probabilities are in `tables.py`. No counts, and no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from discreet.errors import InputError, shortened, shown
from discreet.model.arcs import parents_in, parents_of, schema_of
from discreet.model.graphs import Graph
from discreet.model.origin import Learned
from discreet.model.schema import Schema, Variable, table_cells
from discreet.util.attached import above
from discreet.util.json_files import read_packed_text
from discreet.util.limits import NETWORK_BYTES
from discreet.util.tabular import Tabular

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes

SHOWN_CYCLE_NODES = 6
"""Nodes of a cycle that an error names."""


@dataclass(frozen=True)
class Network(Graph, Tabular):
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
        >>> import discreet as dc
        >>> rain = dc.Variable("rain", ("no", "yes"))
        >>> wet = dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
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
        for name in self.nodes:
            self._require_family(name)
        try:
            TopologicalSorter(self.parents).prepare()
        except CycleError as error:
            cycle = error.args[1][:-1]
            around = " -> ".join(
                [*cycle, cycle[0]] if len(cycle) <= SHOWN_CYCLE_NODES else [*cycle[:SHOWN_CYCLE_NODES], "..."]
            )
            raise InputError(f"the network has a cycle: {around}; remove one of its arcs") from None

    def _require_family(self, name: str) -> None:
        """Refuse parents that a node cannot have."""
        family = self.parents[name]
        for parent in family:
            if parent not in self.schema:
                raise InputError(f"node {shown(name)} has an unknown parent {shown(parent)}")
        if len({name, *family}) != len(family) + 1:
            raise InputError(f"node {shown(name)}: a parent is listed twice, or is the node itself")
        try:
            table_cells(self.schema[member].size for member in (*family, name))
        except InputError as error:
            raise InputError(f"node {shown(name)}: {error}; give it fewer parents") from None

    def __hash__(self) -> int:
        """Equal networks have equal nodes, and their names are hashed fast; plans of queries are looked up by this."""
        return hash(tuple([variable.name for variable in self.variables]))

    @staticmethod
    def read(path: str | Path) -> Network:
        """Read the structure of a network from a BIF or XMLBIF file.

        Args:
            path: of either, or the same packed by gzip; probabilities may be left out, and are ignored.

        Returns:
            The network.

        Raises:
            InputError: the file is missing or is neither of the two (with the line number), or its arcs form a cycle.
        """
        found: Network = above("Network.read")(path)
        return found

    def write(self, path: str | Path) -> None:
        """Write the structure to a file, whole or not at all; `Tables.write` writes probabilities, too.

        Args:
            path: of the file: XMLBIF if it ends in `.xml`, `.xmlbif` or `.bifxml`, else BIF; packed by gzip if it
                ends in `.gz`.

        Raises:
            InputError: a name that the notation cannot express, or a place that cannot be written.
        """
        above("Network.write")(self, path)

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
            >>> import discreet as dc
            >>> study = dc.Schema(tuple(dc.Variable(name, ("no", "yes")) for name in ("smoke", "lung", "age")))
            >>> dc.Network.from_edges([("smoke", "lung"), ("age", "lung")], study).parents["lung"]
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
        """Read the network of a text of arcs.

        Args:
            text: as in the file of `read_edges`.
            variables: as in `from_edges`.
            where: named in errors.

        Returns:
            The network.

        Raises:
            InputError: no arcs, or errors as in `from_edges`, with the line number.

        Example:
            >>> import discreet as dc
            >>> study = dc.Schema(tuple(dc.Variable(name, ("no", "yes")) for name in ("smoke", "lung", "x ray")))
            >>> dc.Network.parse_edges('smoke -> lung -> "x ray"', study).arcs
            (('smoke', 'lung'), ('lung', 'x ray'))
        """
        schema = schema_of(variables)
        parents = parents_in(text, schema, where=where)
        try:
            return Network(schema.variables, parents)
        except InputError as error:
            raise InputError(f"{shortened(where)}: {error}") from None

    predicts: ClassVar[None] = None
    """What a design has: a network predicts whatever is asked."""

    @property
    def size(self) -> int:
        """Number of cells of the tables of all families together."""
        return sum(self.cells(self.family(node)) for node in self.nodes)

    @staticmethod
    def empty(variables: Schema | Iterable[Variable]) -> Network:
        """The network without arcs: all variables are independent.

        Args:
            variables: all of them, with states.

        Returns:
            The network.

        Raises:
            InputError: no variable, a name twice, or a variable without states.

        Example:
            >>> import discreet as dc
            >>> dc.Network.empty([dc.Variable("smoke", ("no", "yes")), dc.Variable("lung", ("no", "yes"))]).arcs
            ()
        """
        return Network.from_edges((), variables)

    @staticmethod
    def naive_bayes(variables: Schema | Iterable[Variable], target: str) -> Network:
        """The network with an arc from the target to every other variable.

        Args:
            variables: all of them, with states.
            target: name of the one that the others depend on.

        Returns:
            The network.

        Raises:
            InputError: there is no variable of the target's name.

        Example:
            >>> import discreet as dc
            >>> study = dc.Schema(tuple(dc.Variable(name, ("no", "yes")) for name in ("smoke", "lung", "age")))
            >>> dc.Network.naive_bayes(study, "lung").arcs
            (('lung', 'smoke'), ('lung', 'age'))
        """
        schema = schema_of(variables)
        root = schema[target].name
        return Network.from_edges([(root, name) for name in schema.names if name != root], schema)

    # ------------------------------------------------------------------------------------------------ other packages

    @staticmethod
    def from_networkx(graph: nx.DiGraph, variables: Schema | Iterable[Variable]) -> Network:
        """Take the structure of a directed graph of networkx.

        Args:
            graph: `networkx.DiGraph` whose nodes are names of variables.
            variables: with states; there may be more than the graph has nodes.

        Returns:
            The network.

        Raises:
            InputError: no `networkx.DiGraph`, an unknown node, or a cycle.
        """
        found: Network = above("Network.from_networkx")(graph, schema_of(variables))
        return found

    def to_networkx(self) -> nx.DiGraph:
        """A new graph for networkx that may be changed; `graph` is the frozen one.

        Returns:
            `networkx.DiGraph`; each node has an attribute `states`.
        """
        graph: nx.DiGraph = above("Network.to_networkx")(self)
        return graph

    @staticmethod
    def from_pgmpy(model: Any, variables: Schema | Iterable[Variable] | None = None) -> Network:
        """The structure of a pgmpy model; `Tables.from_pgmpy` has its probabilities.

        Args:
            model: `DiscreteBayesianNetwork`.
            variables: say states; None takes those of the model's CPDs.

        Returns:
            The network; parents have the order of the CPD.

        Raises:
            InputError: no such model, or a node whose states nobody says.
        """
        found: Network = above("Network.from_pgmpy")(model, None if variables is None else schema_of(variables))
        return found

    def to_pgmpy(self) -> Any:
        """A model for pgmpy with these nodes and arcs; `Tables.to_pgmpy` makes one with probabilities.

        Returns:
            `DiscreteBayesianNetwork` without CPDs.

        Raises:
            InputError: pgmpy is not installed.
        """
        return above("Network.to_pgmpy")(self)

    @staticmethod
    def from_pyagrum(net: Any) -> Network:
        """Take the structure of a pyAgrum network; `Tables.from_pyagrum` has its probabilities.

        Args:
            net: `pyagrum.BayesNet`; its labels become states.

        Returns:
            The network.

        Raises:
            InputError: no such network.
        """
        found: Network = above("Network.from_pyagrum")(net)
        return found

    def to_pyagrum(self) -> Any:
        """A network for pyAgrum with these variables and arcs; `Tables.to_pyagrum` makes one with probabilities.

        Returns:
            `pyagrum.BayesNet` whose tables are not filled.

        Raises:
            InputError: pyAgrum is not installed.
        """
        return above("Network.to_pyagrum")(self)

    # ------------------------------------------------------------------------------------------------ drawings

    def to_text(self) -> str:
        """Draw the nodes in layers, parents first, each with its number of states and its parents.

        Returns:
            Lines of at most 100 columns.

        Example:
            >>> import discreet as dc
            >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
            >>> print(dc.Network.from_edges([("rain", "wet")], (rain, wet)).to_text())
            2 nodes, 1 arc, 3 free parameters
            <BLANKLINE>
            layer 1
              rain  2
            layer 2
              wet   2  <- rain
        """
        return str(above("Network.to_text")(self))

    def to_svg(
        self, *, widths_of_intervals: Mapping[str, float] | None = None, refuted: Iterable[tuple[str, ...]] = ()
    ) -> str:
        """Draw the nodes in layers, parents above children.

        Args:
            widths_of_intervals: of the probabilities of each node, from 0 to 1: a bar in its box, full at 1; None
                draws none.
            refuted: pairs that the data call dependent, as `fit(release).contradicted_pairs` does: a dashed line each.

        Returns:
            SVG in shades of grey, dashed lines in red; the same for the same network.

        Raises:
            InputError: too large to be drawn, at thousands of nodes with long arcs.
        """
        return str(above("Network.to_svg")(self, widths_of_intervals, refuted))

    def _repr_html_(self) -> str:
        """The drawing, for a notebook; names in layers where it would be too large."""
        return str(above("Network._repr_html_")(self))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the nodes in layers with matplotlib, as `to_svg` does.

        Args:
            axes: to draw on; None makes new ones.

        Returns:
            The axes.

        Raises:
            InputError: matplotlib is not installed (the extra `plot`), or as of `to_svg`.
        """
        drawn: Axes = above("Network.plot")(self, axes)
        return drawn

    def summary(self, *, width: int | None = None) -> str:
        """The nodes in layers; the text of `to_text`, on a terminal of so many columns."""
        return str(above("Network.summary")(self, width))

    def tidy(self) -> list[dict[str, Any]]:
        """A row for each node: "node", "states" and "parents", of which the last two are lists."""
        return [
            {"node": one.name, "states": list(one.states), "parents": list(self.parents[one.name])}
            for one in self.variables
        ]

    # ------------------------------------------------------------------------------------------------ variables

    @cached_property
    def schema(self) -> Schema:
        """The variables as a schema."""
        return Schema(self.variables)

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
        """The same graph over variables some of which may be missing.

        Args:
            names: as of `Schema.with_missing`; None for all.

        Returns:
            A new network.

        Raises:
            InputError: an unknown name, or a variable that has a state called "missing" already.
        """
        return replace(self, variables=self.schema.with_missing(names).variables)

    def without_missing(self) -> Network:
        """The same graph over complete records.

        Returns:
            A new network, whose variables have no state of missing values.
        """
        return replace(self, variables=tuple(replace(one, states=one.values, missing=None) for one in self.variables))
