"""Networks of other packages: networkx graphs, pgmpy and pyAgrum models, as variables, parents and tables, and back.

Bounds and bins stay behind: what is made for others has names of states. The others are loaded when something is made
for them; what is read from them is asked by their methods. Each has an order of its own for the cells of a table: what
is read here is looked up by the names of variables and states that the table itself has.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InputError, shown
from discreet.formats.bif_content import scaled_table
from discreet.model.network import Network
from discreet.model.schema import Schema, Variable
from discreet.model.tables import Tables
from discreet.util.arrays import Floats
from discreet.util.lazy_imports import import_late

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = import_late("networkx")

Parents = Mapping[str, tuple[str, ...]]
Arrays = Mapping[str, Floats]
"""The table of each node, axes `(*parents, child)`."""

PACKAGES = {
    "pgmpy.models": ("pgmpy", "pgmpy>=1.1,<1.3"),
    "pgmpy.factors.discrete": ("pgmpy", "pgmpy>=1.1,<1.3"),
    "pyagrum": ("pyAgrum", "pyagrum>=3.0"),
}
"""What is imported, what it is called, and what pip installs."""


# ------------------------------------------------------------------------------------------------------------ networkx


def network_of_networkx(graph: Any, schema: Schema) -> Network:
    """The network of a graph; arcs node by node, in the order in which networkx lists predecessors.

    Args:
        graph: `networkx.DiGraph`; its nodes are names of variables.
        schema: may have variables that are no nodes of the graph.

    Returns:
        The network.

    Raises:
        InputError: no simple directed graph, a node that the schema has not, or a cycle.
    """
    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        raise InputError(
            f"expected a networkx.DiGraph, got {type(graph).__name__}; arcs have a direction, and come once"
        )
    for node in graph.nodes:
        if node not in schema:
            raise InputError(f"the graph has a node {shown(node)} that is no variable of the schema; declare it there")
    return Network.from_edges([(parent, node) for node in graph.nodes for parent in graph.predecessors(node)], schema)


def networkx_of(network: Network) -> nx.DiGraph:
    """A new graph: nodes in the schema's order, with their `states`; predecessors in the order of parents."""
    graph = nx.DiGraph()
    for variable in network.variables:
        graph.add_node(variable.name, states=variable.states)
    graph.add_edges_from(network.arcs)
    return graph


# --------------------------------------------------------------------------------------------------------------- pgmpy


def network_of_pgmpy(model: Any, schema: Schema | None) -> Network:
    """The network of a pgmpy model.

    Args:
        model: `DiscreteBayesianNetwork` of pgmpy 1.1 or newer, or what has its `nodes`, `predecessors` and `get_cpds`.
        schema: says states; None takes those of the model's CPDs, or of its nodes as `pgmpy_of` writes them.

    Returns:
        Variables in the order of the schema, else of the model's nodes; parents in the order of the CPD, if there is.

    Raises:
        InputError: no such model, or a node whose states nobody says.
    """
    try:
        tables = {table.variable: table for table in model.get_cpds()}
        parents = {node: tuple(model.predecessors(node)) for node in model.nodes}
        noted = {node: model.nodes[node].get("states", ()) for node in parents}
    except AttributeError:
        raise _describe_wrong_type("pgmpy", "DiscreteBayesianNetwork", model) from None
    for node, table in tables.items():
        evidence = tuple(table.variables[1:])
        if set(evidence) != set(parents.get(node, ())):
            raise InputError(f"the CPD of {shown(node)} has other parents than the model's graph; mend the model")
        parents[node] = evidence
        noted[node] = table.state_names[node]
    if schema is None:
        return Network(tuple(_make_variable(node, noted[node], "pgmpy") for node in parents), parents)
    return Network(schema.variables, _extend_parents(schema, parents))


def pgmpy_of(network: Network, arrays: Arrays | None = None) -> Any:
    """A `DiscreteBayesianNetwork` whose nodes have an attribute `states`; without arrays it has no CPDs."""
    model, parents = _import_package("pgmpy.models").DiscreteBayesianNetwork(), network.parents
    states = {variable.name: list(variable.states) for variable in network.variables}
    for name, listed_states in states.items():
        model.add_node(name)
        model.nodes[name]["states"] = tuple(listed_states)
    model.add_edges_from([(parent, name) for name in parents for parent in parents[name]])
    if arrays is not None:
        table = _import_package("pgmpy.factors.discrete").TabularCPD
        for node, array in arrays.items():
            family = (node, *parents[node])
            columns = np.asarray(array, float).reshape(-1, array.shape[-1]).T
            sizes = [len(states[parent]) for parent in parents[node]]
            named = {name: states[name] for name in family}
            model.add_cpds(table(node, len(states[node]), columns, list(parents[node]), sizes, state_names=named))
    return model


def pgmpy_of_tables(tables: Tables) -> Any:
    """A model with a CPD of every node."""
    return pgmpy_of(tables.network, tables)


def tables_of_pgmpy(model: Any, variables: Schema | Iterable[Variable] | None) -> Tables:
    """The probabilities of a pgmpy model.

    Args:
        model: as of `network_of_pgmpy`.
        variables: order the states of every variable; None takes those of the model.

    Returns:
        The tables, and their network.

    Raises:
        InputError: a node without a CPD, a CPD with other states than the schema, or that is no probability.
    """
    network = Network.from_pgmpy(model, variables)
    schema, parents, found = network.schema, network.parents, dict[str, Floats]()
    tables = {table.variable: table for table in model.get_cpds()}
    for node in schema.names:
        if node not in tables:
            raise InputError(f"the pgmpy model has no CPD of {shown(node)}; add it, or read the structure alone")
        table, family = tables[node], [schema[name] for name in (*parents[node], node)]
        values = np.asarray(table.values, float)
        axes = [list(table.variables).index(variable.name) for variable in family]
        places = [_places(variable, table.state_names[variable.name], node, "pgmpy") for variable in family]
        found[node] = scaled_table(values.transpose(axes)[np.ix_(*places)], family)
    return Tables(network, found)


# ------------------------------------------------------------------------------------------------------------- pyAgrum


def network_of_pyagrum(net: Any) -> Network:
    """The structure of a pyAgrum network.

    Args:
        net: `pyagrum.BayesNet`, or anything with its `nodes`, `variable` and `cpt`.

    Returns:
        Variables in the order of the net's numbers, with its labels as states; parents in the order of the table.

    Raises:
        InputError: no such network, or names that are none of ours.
    """
    try:
        found = [net.variable(number) for number in sorted(net.nodes())]
        parents = {variable.name(): tuple(net.cpt(variable.name()).names[1:]) for variable in found}
        labels = {variable.name(): variable.labels() for variable in found}
    except (AttributeError, TypeError):
        raise _describe_wrong_type("pyAgrum", "BayesNet", net) from None
    return Network(tuple(_make_variable(name, labels[name], "pyAgrum") for name in parents), parents)


def pyagrum_of(network: Network, arrays: Arrays | None = None) -> Any:
    """A `pyagrum.BayesNet` with labelized variables; without arrays its tables are not filled."""
    pyagrum = _import_package("pyagrum")
    net = pyagrum.BayesNet()
    for variable in network.variables:
        net.add(pyagrum.LabelizedVariable(variable.name, variable.name, list(variable.states)))
    for parent, child in network.arcs:
        net.addArc(parent, child)
    for node, array in () if arrays is None else arrays.items():
        own = network.family(node)
        # Its cells are listed with the first of its names fastest.
        axes = [own.index(name) for name in reversed(net.cpt(node).names)]
        net.cpt(node).fillWith(np.asarray(array, float).transpose(axes).ravel().tolist())
    return net


def pyagrum_of_tables(tables: Tables) -> Any:
    """A network whose tables are filled."""
    return pyagrum_of(tables.network, tables)


def tables_of_pyagrum(net: Any) -> Tables:
    """The probabilities of a pyAgrum network.

    Args:
        net: as of `network_of_pyagrum`.

    Returns:
        The tables, and their network.

    Raises:
        InputError: a table that is not filled, or holds no probabilities.
    """
    network, found = Network.from_pyagrum(net), dict[str, Floats]()
    for node in network.nodes:
        # The axes of its arrays stand in the other order than its names.
        names, values = tuple(reversed(net.cpt(node).names)), np.asarray(net.cpt(node).toarray(), float)
        family = [network.schema[name] for name in network.family(node)]
        if not values.any():
            raise InputError(f"the table of {shown(node)} in the pyAgrum network is not filled; fill it")
        found[node] = scaled_table(values.transpose([names.index(variable.name) for variable in family]), family)
    return Tables(network, found)


# ------------------------------------------------------------------------------------------------------------- helpers


def _import_package(module: str) -> Any:
    """A module of another package, which is loaded now: pgmpy takes seconds."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name, wanted = PACKAGES[module]
        missing = error.name or module
    raise InputError(f"{name} cannot be loaded: {missing} is not installed; pip install '{wanted}'")


def _describe_wrong_type(package: str, wanted: str, got: object) -> InputError:
    """What was given is no network of a package."""
    return InputError(f"expected a {wanted} of {package}, got {type(got).__name__}")


def _make_variable(name: object, states: Iterable[object], package: str) -> Variable:
    """A variable of another package; its states are numbers there, or text."""
    if not isinstance(name, str):
        raise InputError(f"the {package} model has a node {shown(name)} that is no text; rename it")
    listed = tuple(map(str, states))
    if not listed:
        raise InputError(f"the {package} model does not say the states of {shown(name)}; give its CPD, or a schema")
    return Variable(name, listed)


def _places(variable: Variable, states: Iterable[object], node: str, package: str) -> list[int]:
    """Where each state of a variable stands in another package's list of them."""
    named = {str(state): place for place, state in enumerate(states)}
    if set(named) != set(variable.states):
        raise InputError(
            f"the {package} table of {shown(node)} has other states of {shown(variable.name)} than that variable has"
        )
    return [named[state] for state in variable.states]


def _extend_parents(schema: Schema, parents: Parents) -> dict[str, tuple[str, ...]]:
    """The same parents, for a schema that may have more variables."""
    for name in parents:
        if name not in schema:
            raise InputError(f"the model has a node {shown(name)} that is no variable of the schema; declare it there")
    return {name: parents.get(name, ()) for name in schema.names}
