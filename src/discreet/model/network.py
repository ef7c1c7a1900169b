"""Networks: directed acyclic graphs over a schema, their sources and conversions.

Properties of the graph are in `graphs.py`, probabilities in `tables.py`.
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
from discreet.model.over import Over
from discreet.model.round_numbers import with_bins
from discreet.model.schema import Schema, Variable, table_cells
from discreet.util.attached import above
from discreet.util.json_files import read_packed_text
from discreet.util.limits import NETWORK_BYTES
from discreet.util.tabular import Tabular

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes

SHOWN_CYCLE_NODES = 6
"""Most nodes of a cycle in an error."""


@dataclass(frozen=True)
class Network(Graph, Tabular, Over):
    """A public DAG over variables with states.

    A family is a node with its parents; tables over a family always have the axes `(*parents, node)`, parents in the
    order declared here.

    Args:
        variables: their order is the order of every listing. A numeric one without bins gets all round numbers between
            its bounds, of which `planned` finds few.
        parents: for every node its parents, possibly none.
        learned: origin and cost, if the records chose it; None for a public network. Equality ignores it.

    Raises:
        InputError: a node without an entry in `parents`, an unknown or repeated parent, a cycle, or a
            table that is too large for any machine; the message names the nodes.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Variable("rain", ("no", "yes"))
        >>> wet = dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> network.family("wet"), network.shape("wet"), network.parameters
        (('rain', 'wet'), (2, 2), 3)
    """

    domain: ClassVar[str] = "network"
    variables: tuple[Variable, ...]
    parents: Mapping[str, tuple[str, ...]]
    learned: Learned | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Normalise to immutable containers, then refuse an invalid network."""
        object.__setattr__(self, "variables", tuple(map(with_bins, self.variables)))
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
        """Hash the names of the nodes, which is fast; plans of queries are looked up by it."""
        return hash(tuple([variable.name for variable in self.variables]))

    @staticmethod
    def read(path: str | Path) -> Network:
        """Read the structure of a network from a file in BIF, XMLBIF or another notation of an installed pack.

        Args:
            path: of the file, possibly packed by gzip; probabilities are optional, and not looked at.

        Returns:
            The network.

        Raises:
            InputError: the file is missing, in no notation that is read (with the line number), or its arcs form a
                cycle.
        """
        network: Network = above("Network.read")(path)
        return network

    def write(self, path: str | Path) -> None:
        """Write the structure to a file completely, or leave it as it was; `Tables.write` writes probabilities, too.

        Args:
            path: of the file: XMLBIF if it ends in `.xml`, `.xmlbif` or `.bifxml`, else BIF; packed by gzip if it
                ends in `.gz`.

        Raises:
            InputError: a name that the notation cannot express, or a file that cannot be written.
        """
        above("Network.write")(self, path)

    # ------------------------------------------------------------------------------------------------ arcs

    @staticmethod
    def from_edges(edges: Iterable[Sequence[str]], variables: Schema | Iterable[Variable]) -> Network:
        """Make the network of some arcs.

        Args:
            edges: pairs (parent, child); parents of a node have the order of their arcs.
            variables: all of them, with states; one without arcs is a node without parents.

        Returns:
            The network.

        Raises:
            InputError: an edge is no pair of names, has an unknown name, occurs twice or leads from a node to itself,
                or the arcs form a cycle.

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
        """Read arcs from a file: lines such as `smoke -> lung`, chains, CSV of parent and child, or a model string.

        Args:
            path: text, possibly packed by gzip; `#` begins a comment, and names with blanks are in double quotes. A
                model string is that of bnlearn, such as `[smoke][lung|smoke]`.
            variables: as in `from_edges`.

        Returns:
            The network.

        Raises:
            InputError: the file is missing or has no arcs, or errors as in `from_edges`, with the line number.
        """
        return Network.parse_edges(read_packed_text(path, "arcs", NETWORK_BYTES), variables, where=str(path))

    @staticmethod
    def parse_edges(text: str, variables: Schema | Iterable[Variable], *, where: str = "arcs") -> Network:
        """Parse the network of a text of arcs.

        Args:
            text: as in the file of `read_edges`.
            variables: as in `from_edges`.
            where: name of the text in errors.

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

    @property
    def words(self) -> str:
        """See `Over`."""
        return "a network"

    @property
    def size(self) -> int:
        """Number of cells of the tables of all families."""
        return sum(self.cells(self.family(node)) for node in self.nodes)

    @staticmethod
    def empty(variables: Schema | Iterable[Variable]) -> Network:
        """Make the network without arcs: all variables are independent.

        Args:
            variables: all of them, with states.

        Returns:
            The network.

        Raises:
            InputError: no variable, a repeated name, or a variable without states.

        Example:
            >>> import discreet as dc
            >>> dc.Network.empty([dc.Variable("smoke", ("no", "yes")), dc.Variable("lung", ("no", "yes"))]).arcs
            ()
        """
        return Network.from_edges((), variables)

    @staticmethod
    def naive_bayes(variables: Schema | Iterable[Variable], target: str) -> Network:
        """Make the network with an arc from the target to every other variable.

        Args:
            variables: all of them, with states.
            target: name of the parent of all others.

        Returns:
            The network.

        Raises:
            InputError: no variable has the target's name.

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
        """Convert the structure of a directed graph of networkx.

        Args:
            graph: `networkx.DiGraph` whose nodes are names of variables.
            variables: with states; they may include variables that are not nodes.

        Returns:
            The network.

        Raises:
            InputError: no `networkx.DiGraph`, an unknown node, or a cycle.
        """
        network: Network = above("Network.from_networkx")(graph, schema_of(variables))
        return network

    def to_networkx(self) -> nx.DiGraph:
        """Make a new graph for networkx that may be changed; `graph` is the frozen one.

        Returns:
            `networkx.DiGraph`; each node has an attribute `states`.
        """
        graph: nx.DiGraph = above("Network.to_networkx")(self)
        return graph

    @staticmethod
    def from_pgmpy(model: Any, variables: Schema | Iterable[Variable] | None = None) -> Network:
        """Convert the structure of a pgmpy model; `Tables.from_pgmpy` converts its probabilities.

        Args:
            model: `DiscreteBayesianNetwork`.
            variables: with states; None takes those of the model's CPDs.

        Returns:
            The network; parents have the order of the CPD.

        Raises:
            InputError: no such model, or a node without states.
        """
        network: Network = above("Network.from_pgmpy")(model, None if variables is None else schema_of(variables))
        return network

    def to_pgmpy(self) -> Any:
        """Make a model for pgmpy with these nodes and arcs; `Tables.to_pgmpy` makes one with probabilities.

        Returns:
            `DiscreteBayesianNetwork` without CPDs.

        Raises:
            InputError: pgmpy is not installed.
        """
        return above("Network.to_pgmpy")(self)

    @staticmethod
    def from_pyagrum(net: Any) -> Network:
        """Convert the structure of a pyAgrum network; `Tables.from_pyagrum` converts its probabilities.

        Args:
            net: `pyagrum.BayesNet`; its labels become states.

        Returns:
            The network.

        Raises:
            InputError: no such network.
        """
        network: Network = above("Network.from_pyagrum")(net)
        return network

    def to_pyagrum(self) -> Any:
        """Make a network for pyAgrum with these variables and arcs; `Tables.to_pyagrum` makes one with probabilities.

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
            refuted: dependent pairs that the network lacks, as `check_fit(release).contradicted_pairs`: a dashed line
                each.

        Returns:
            SVG in shades of grey, dashed lines in red; the same for the same network.

        Raises:
            InputError: too large to be drawn, at thousands of nodes with long arcs.
        """
        return str(above("Network.to_svg")(self, widths_of_intervals, refuted))

    def _repr_html_(self) -> str:
        """Return the drawing for a notebook, or names in layers if it would be too large."""
        return str(above("Network._repr_html_")(self))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the nodes in layers with matplotlib, as `to_svg` does.

        Args:
            axes: to draw on; None makes new ones.

        Returns:
            The axes.

        Raises:
            InputError: matplotlib is not installed (the extra `plot`), or as in `to_svg`.
        """
        plotted: Axes = above("Network.plot")(self, axes)
        return plotted

    def summary(self, *, width: int | None = None) -> str:
        """Return the nodes in layers: the text of `to_text`, for a terminal of so many columns."""
        return str(above("Network.summary")(self, width))

    def tidy(self) -> list[dict[str, Any]]:
        """Return a row for each node: "node", "states" and "parents"; the last two are lists."""
        return [
            {"node": variable.name, "states": list(variable.states), "parents": list(self.parents[variable.name])}
            for variable in self.variables
        ]

    # ------------------------------------------------------------------------------------------------ variables

    @cached_property
    def schema(self) -> Schema:
        """Variables as a schema."""
        return Schema(self.variables)

    def with_variables(self, variables: Sequence[Variable]) -> Network:
        """Return the same graph with numeric bounds and bins for some of its variables; states keep their names.

        Args:
            variables: each has the name of a node and as many states as that node.

        Returns:
            A new network.

        Raises:
            InputError: a name is not a node, the number of states differs, or a variable without bounds has other
                states.
        """
        replaced = {}
        for variable in variables:
            node = self.schema[variable.name]
            node = replace(node, missing=node.missing or variable.missing, other=node.other or variable.other)
            if variable.size != node.size:
                raise InputError(
                    f"variable {shown(node.name)} has {node.size} states in the network but {variable.size} in the "
                    f"schema; a numeric variable needs {node.size - 1} cut points in its bins"
                )
            if variable.bounds is None and set(variable.states) != set(node.states):
                raise InputError(f"variable {shown(node.name)} has other states in the schema than in the network")
            replaced[node.name] = replace(variable, states=node.states, missing=node.missing, other=node.other)
        return replace(self, variables=tuple(replaced.get(variable.name, variable) for variable in self.variables))

    @property
    def may_be_missing(self) -> tuple[str, ...]:
        """Nodes with a state for missing values."""
        return tuple(variable.name for variable in self.variables if variable.missing is not None)

    def with_missing(self, names: Iterable[str] | None = None) -> Network:
        """Return the same graph over variables some of which may be missing.

        Args:
            names: as in `Schema.with_missing`; None for all.

        Returns:
            A new network.

        Raises:
            InputError: an unknown name, or a variable that has a state called "missing" already.
        """
        return replace(self, variables=self.schema.with_missing(names).variables)

    def without_missing(self) -> Network:
        """Return the same graph over complete records.

        Returns:
            A new network, whose variables have no state for missing values.
        """
        complete = [replace(each, states=each.values, missing=None) for each in self.variables]
        return replace(self, variables=tuple(complete))
