"""Convert networks of networkx, pgmpy and pyAgrum to variables, parents and tables, and back.

Bounds and bins are lost: other packages have names of states only. The packages are loaded when an object of theirs is
made; objects of theirs are read by their methods. Each package has its own order of a table's cells, so cells are
looked up by the names of variables and states in the table.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InputError, require, shown
from discreet.interchange.bif_content import SIX_DIGITS, RowScaling, printed_numbers, scaled_table
from discreet.model.network import Network
from discreet.model.schema import Schema, Variable
from discreet.model.tables import Tables
from discreet.util.arrays import Floats
from discreet.util.lazy_imports import lazy_import

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = lazy_import("networkx")

Parents = Mapping[str, tuple[str, ...]]
Arrays = Mapping[str, Floats]
"""Table of each node, axes `(*parents, child)`."""

PACKAGES = {
    "pgmpy.models": ("pgmpy", "pgmpy>=1.1,<1.3"),
    "pgmpy.factors.discrete": ("pgmpy", "pgmpy>=1.1,<1.3"),
    "pyagrum": ("pyAgrum", "pyagrum>=3.0"),
}
"""Module to import: name of the package, and requirement for pip."""


# ------------------------------------------------------------------------------------------------------------ networkx


def network_of_networkx(graph: Any, schema: Schema) -> Network:
    """Convert a graph; arcs are ordered by node, then as networkx lists predecessors.

    Args:
        graph: `networkx.DiGraph`; its nodes are names of variables.
        schema: may have variables that are not nodes of the graph.

    Returns:
        The network.

    Raises:
        InputError: no simple directed graph, a node that is not in the schema, or a cycle.
    """
    alike = isinstance(graph, nx.DiGraph) and not graph.is_multigraph()
    require(alike, f"expected a networkx.DiGraph, got {type(graph).__name__}; arcs have a direction, and occur once")
    for node in graph.nodes:
        if node not in schema:
            raise InputError(f"the graph has a node {shown(node)} that is no variable of the schema; declare it there")
    return Network.from_edges([(parent, node) for node in graph.nodes for parent in graph.predecessors(node)], schema)


def networkx_of(network: Network) -> nx.DiGraph:
    """Make a graph: nodes in the schema's order, with their `states`; predecessors in the order of parents."""
    graph = nx.DiGraph()
    graph.add_nodes_from((variable.name, {"states": variable.states}) for variable in network.variables)
    graph.add_edges_from(network.arcs)
    return graph


# --------------------------------------------------------------------------------------------------------------- pgmpy


def network_of_pgmpy(model: Any, schema: Schema | None) -> Network:
    """Convert the structure of a pgmpy model.

    Args:
        model: `DiscreteBayesianNetwork` of pgmpy 1.1 or newer, or an object with its `nodes`, `predecessors` and
            `get_cpds`.
        schema: with the states; None takes those of the model's CPDs, or of its nodes as `pgmpy_of` writes them.

    Returns:
        Variables in the order of the schema, else of the model's nodes; parents in the order of the CPD, if there is.

    Raises:
        InputError: no such model, or a node without states.
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
            raise InputError(f"the CPD of {shown(node)} has other parents than the model's graph; correct the model")
        parents[node] = evidence
        noted[node] = table.state_names[node]
    if schema is None:
        return Network(tuple(_make_variable(node, noted[node], "pgmpy") for node in parents), parents)
    return Network(schema.variables, _extend_parents(schema, parents))


def pgmpy_of(network: Network, arrays: Arrays | None = None) -> Any:
    """Make a `DiscreteBayesianNetwork` whose nodes have an attribute `states`; without arrays it has no CPDs."""
    model, parents = import_package("pgmpy.models").DiscreteBayesianNetwork(), network.parents
    states = {variable.name: list(variable.states) for variable in network.variables}
    for name, listed_states in states.items():
        model.add_node(name)
        model.nodes[name]["states"] = tuple(listed_states)
    model.add_edges_from([(parent, name) for name in parents for parent in parents[name]])
    if arrays is not None:
        table = import_package("pgmpy.factors.discrete").TabularCPD
        for node, array in arrays.items():
            columns = np.asarray(array, float).reshape(-1, array.shape[-1]).T
            sizes = [len(states[parent]) for parent in parents[node]]
            named = {name: states[name] for name in (node, *parents[node])}
            model.add_cpds(table(node, len(states[node]), columns, list(parents[node]), sizes, state_names=named))
    return model


def pgmpy_of_tables(tables: Tables) -> Any:
    """Make a pgmpy model with a CPD of every node."""
    return pgmpy_of(tables.network, tables)


def tables_of_pgmpy(model: Any, variables: Schema | Iterable[Variable] | None) -> Tables:
    """Convert the probabilities of a pgmpy model.

    Args:
        model: as in `network_of_pgmpy`.
        variables: order the states of every variable; None takes those of the model.

    Returns:
        The tables, and their network.

    Raises:
        InputError: a node without a CPD, or a CPD with other states than the schema or with numbers that are no
            probabilities.
    """
    network = Network.from_pgmpy(model, variables)
    schema, parents, arrays, scaling = network.schema, network.parents, dict[str, Floats](), RowScaling(SIX_DIGITS)
    tables = {table.variable: table for table in model.get_cpds()}
    for node in schema.names:
        if node not in tables:
            raise InputError(f"the pgmpy model has no CPD of {shown(node)}; add it, or read the structure alone")
        table, family = tables[node], [schema[name] for name in (*parents[node], node)]
        values = np.asarray(table.values, float)
        axes = [list(table.variables).index(variable.name) for variable in family]
        positions = [_find_positions(variable, table.state_names[variable.name], node, "pgmpy") for variable in family]
        arrays[node] = scaled_numbers(values.transpose(axes)[np.ix_(*positions)], family, scaling, "the pgmpy model")
    for note in scaling.notes:
        warnings.warn(note, stacklevel=3)
    return Tables(network, arrays)


# ------------------------------------------------------------------------------------------------------------- pyAgrum


def network_of_pyagrum(net: Any) -> Network:
    """Convert the structure of a pyAgrum network.

    Args:
        net: `pyagrum.BayesNet`, or anything with its `nodes`, `variable` and `cpt`.

    Returns:
        Variables in the order of the net's numbers, with its labels as states; parents in the order of the table.

    Raises:
        InputError: no such network, or invalid names.
    """
    try:
        variables = [net.variable(number) for number in sorted(net.nodes())]
        parents = {variable.name(): tuple(net.cpt(variable.name()).names[1:]) for variable in variables}
        labels = {variable.name(): variable.labels() for variable in variables}
    except (AttributeError, TypeError):
        raise _describe_wrong_type("pyAgrum", "BayesNet", net) from None
    return Network(tuple(_make_variable(name, labels[name], "pyAgrum") for name in parents), parents)


def pyagrum_of(network: Network, arrays: Arrays | None = None) -> Any:
    """Make a `pyagrum.BayesNet` with labelized variables; without arrays its tables are not filled."""
    pyagrum = import_package("pyagrum")
    net = pyagrum.BayesNet()
    for variable in network.variables:
        net.add(pyagrum.LabelizedVariable(variable.name, variable.name, list(variable.states)))
    for parent, child in network.arcs:
        net.addArc(parent, child)
    for node, array in () if arrays is None else arrays.items():
        family = network.family(node)
        # In pyAgrum's order of cells the first name varies fastest.
        axes = [family.index(name) for name in reversed(net.cpt(node).names)]
        net.cpt(node).fillWith(np.asarray(array, float).transpose(axes).ravel().tolist())
    return net


def pyagrum_of_tables(tables: Tables) -> Any:
    """Make a pyAgrum network with filled tables."""
    return pyagrum_of(tables.network, tables)


def tables_of_pyagrum(net: Any) -> Tables:
    """Convert the probabilities of a pyAgrum network.

    Args:
        net: as in `network_of_pyagrum`.

    Returns:
        The tables, and their network.

    Raises:
        InputError: a table that is not filled, or has no probabilities.
    """
    network, scaling = Network.from_pyagrum(net), RowScaling(SIX_DIGITS)
    arrays = arrays_of_pyagrum(net, network, scaling, "the pyAgrum network")
    for node in network.nodes:
        if node not in arrays:
            raise InputError(f"the table of {shown(node)} in the pyAgrum network is not filled; fill it")
    for note in scaling.notes:
        warnings.warn(note, stacklevel=3)
    return Tables(network, arrays)


def arrays_of_pyagrum(net: Any, network: Network, scaling: RowScaling, place: str) -> dict[str, Floats]:
    """Convert the filled tables of a pyAgrum network.

    Args:
        net: as in `network_of_pyagrum`.
        network: its structure.
        scaling: notes rounded rows.
        place: where the network is from, for notes.

    Returns:
        Tables of the nodes whose table is filled, float64, axes `(*parents, child)`.

    Raises:
        InputError: a table that has no probabilities.
    """
    arrays = dict[str, Floats]()
    for node in network.nodes:
        # The axes of pyAgrum's arrays are in reverse order of its names.
        names, values = tuple(reversed(net.cpt(node).names)), np.asarray(net.cpt(node).toarray(), float)
        family = [network.schema[name] for name in network.family(node)]
        if values.any():
            ordered = values.transpose([names.index(variable.name) for variable in family])
            arrays[node] = scaled_numbers(ordered, family, scaling, place)
    return arrays


# ------------------------------------------------------------------------------------------------------------- helpers


def scaled_numbers(table: Floats, family: list[Variable], scaling: RowScaling, place: str) -> Floats:
    """Renormalise the rows of a table whose numbers were never printed; see `scaled_table`."""
    return scaled_table(table, family, scaling, cache(lambda: printed_numbers(table)), lambda: place)


def import_package(module: str) -> Any:
    """Import a module of another package when it is needed: pgmpy takes seconds."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name, wanted = PACKAGES[module]
        missing = error.name or module
    raise InputError(f"{name} cannot be loaded: {missing} is not installed; pip install '{wanted}'")


def _describe_wrong_type(package: str, wanted: str, got: object) -> InputError:
    """Make the error for an object of another type."""
    return InputError(f"expected a {wanted} of {package}, got {type(got).__name__}")


def _make_variable(name: object, states: Iterable[object], package: str) -> Variable:
    """Make a variable of another package; its states are numbers or text there."""
    if not isinstance(name, str):
        raise InputError(f"the {package} model has a node {shown(name)} that is not text; rename it")
    listed = tuple(map(str, states))
    if not listed:
        raise InputError(f"the {package} model has no states of {shown(name)}; give its CPD, or a schema")
    return Variable(name, listed)


def _find_positions(variable: Variable, states: Iterable[object], node: str, package: str) -> list[int]:
    """Find the position of each state of a variable in another package's list."""
    named = {str(state): position for position, state in enumerate(states)}
    refusal = f"the {package} table of {shown(node)} has other states of {shown(variable.name)} than that variable has"
    require(set(named) == set(variable.states), refusal)
    return [named[state] for state in variable.states]


def _extend_parents(schema: Schema, parents: Parents) -> dict[str, tuple[str, ...]]:
    """Extend the parents to a schema that may have more variables."""
    for name in parents:
        if name not in schema:
            raise InputError(f"the model has a node {shown(name)} that is no variable of the schema; declare it there")
    return {name: parents.get(name, ()) for name in schema.names}
