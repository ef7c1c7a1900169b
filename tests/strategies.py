"""Hypothesis strategies for what is public: names, schemas, networks, probabilities, guarantees.

Networks are small (at most 5 nodes of 3 states) but of every shape: isolated roots, chains, complete DAGs, sparse ones
whose schema order is not a topological order, with one-state nodes and with names that are no identifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import discreet as dc
from discreet.formats.network_content import NetworkContent
from oracle import stacked

ODD_NAMES = (
    "<5", ">=7.5", "5-12", "12+", "Asy/Patch", "Transp.", "a b", " lead", "a, b", "a[1]", "{x}", "(y)", "p|q", "x=1",
    "x;y", "//no", "/*no*/", "property", "table", "default", "network", "type", "1", "0.5", "'", "é", "雪", "A", "a",
)  # fmt: skip
"""Names found in real files, and names that mean something in BIF or in a query."""


def names() -> st.SearchStrategy[str]:
    """Names of variables and states; every one of them can be written in BIF."""
    letters = st.characters(exclude_categories=("C", "Zl", "Zp"), exclude_characters='"')
    return st.sampled_from(ODD_NAMES) | st.text(letters, min_size=1, max_size=6)


def distinct_names(least: int, most: int) -> st.SearchStrategy[tuple[str, ...]]:
    """Names of which no two are equal."""
    return st.lists(names(), min_size=least, max_size=most, unique=True).map(tuple)


def edges(least: int, most: int) -> st.SearchStrategy[tuple[float, ...]]:
    """Strictly increasing numbers; neighbours differ in their first 15 digits, so that bins get distinct names."""
    grid = st.lists(st.integers(-100_000, 100_000), min_size=least, max_size=most, unique=True)
    return grid.map(lambda cuts: tuple(cut / 8 for cut in sorted(cuts)))


@st.composite
def variables(draw: st.DrawFn, name: str, *, max_states: int = 3) -> dc.Variable:
    """A variable with states: declared ones, or the bins of a numeric column, named or not."""
    kind = draw(st.sampled_from(("states", "states", "bins", "named bins")))
    if kind == "states":
        return dc.Variable(name, draw(distinct_names(1, max_states)))
    low, *cuts, high = draw(edges(3 if kind == "bins" and max_states > 1 else 2, max_states + 1))
    states = draw(distinct_names(len(cuts) + 1, len(cuts) + 1)) if kind == "named bins" or not cuts else ()
    return dc.Variable(name, states, bounds=(low, high), bins=tuple(cuts))


@st.composite
def schemas(draw: st.DrawFn, *, max_variables: int = 5, max_states: int = 3) -> dc.Schema:
    """Schemas of categorical and numeric variables, the latter with and without bins."""
    parts = []
    for name in draw(distinct_names(1, max_variables)):
        plain = st.builds(dc.Variable, st.just(name), bounds=edges(2, 2))
        parts.append(draw(variables(name, max_states=max_states) | plain))
    return dc.Schema(tuple(parts))


@st.composite
def networks(draw: st.DrawFn, *, max_nodes: int = 5, max_states: int = 3) -> dc.Network:
    """Networks of every small shape; parents are listed in any order, and nodes in any order."""
    nodes = draw(distinct_names(1, max_nodes))
    order = draw(st.permutations(nodes))
    shape = draw(st.sampled_from(("roots", "chain", "dense", "any", "any")))
    parents: dict[str, tuple[str, ...]] = {}
    for position, node in enumerate(order):
        earlier = order[:position]
        if shape == "any":
            earlier = [name for name in earlier if draw(st.booleans())]
        wanted = {"roots": [], "chain": earlier[-1:]}.get(shape, earlier)
        parents[node] = tuple(draw(st.permutations(wanted)))
    return dc.Network(tuple(draw(variables(node, max_states=max_states)) for node in nodes), parents)


@st.composite
def theta_over(draw: st.DrawFn, network: dc.Network) -> dc.Tables:
    """Probabilities for a network, exact zeros and certain rows among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def rows(shape: tuple[int, ...]) -> np.ndarray:
        weights = rng.integers(0, 5, shape).astype(float)
        weights[..., 0] += weights.sum(axis=-1) == 0
        return weights / weights.sum(axis=-1, keepdims=True)

    return dc.Tables(network, {node: rows(network.shape(node)) for node in network.nodes})


def thetas(*, max_nodes: int = 5, max_states: int = 3) -> st.SearchStrategy[dc.Tables]:
    """Probabilities with their network (`theta.network`)."""
    return networks(max_nodes=max_nodes, max_states=max_states).flatmap(theta_over)


@st.composite
def counts_over(draw: st.DrawFn, network: dc.Network, *, most: int = 20) -> dc.Tables:
    """Integer tables, cell by cell from 0 to `most`; not the counts of any one set of records."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return dc.Tables(network, {node: rng.integers(0, most + 1, network.shape(node)) for node in network.nodes})


@st.composite
def priors_over(draw: st.DrawFn, network: dc.Network) -> dc.Dirichlet:
    """Dirichlet priors with a concentration of its own in every cell, from 0.01 to 100."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return dc.Dirichlet(
        dc.Tables(network, {node: 10.0 ** rng.uniform(-2, 2, network.shape(node)) for node in network.nodes})
    )


def guarantees() -> st.SearchStrategy[dc.Guarantee]:
    """Guarantees with exact rational budgets; of both relations and with delta 0 or small."""
    return st.builds(
        dc.Guarantee,
        epsilon=st.fractions(Fraction(1, 1000), 20, max_denominator=1000),
        delta=st.just(Fraction()) | st.fractions(Fraction(1, 10**9), Fraction(1, 100), max_denominator=10**9),
        relation=st.sampled_from(dc.tools.RECORD_RELATIONS),
        unit=st.sampled_from(("record", "patient", "hospital stay")),
    )


def same(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    """Whether two sets of tables name the same nodes in the same order and agree bit for bit (`==` cannot say so)."""
    return list(one) == list(other) and all(
        one[node].dtype == other[node].dtype and np.array_equal(one[node], other[node]) for node in one
    )


def same_file(one: NetworkContent, other: NetworkContent) -> bool:
    """Whether two BIF files describe the same network with the same probabilities, bit for bit."""
    return (
        one.variables == other.variables and dict(one.parents) == dict(other.parents) and same(one.arrays, other.arrays)
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[dc.Tables, tuple[str, ...], dict[str, int]]:
    """One to three draws of probabilities, zeros among them, with targets and evidence."""
    network = draw(networks())
    cells = stacked([draw(theta_over(network)) for _ in range(draw(st.integers(1, 3)))])
    shuffled = draw(st.permutations(network.nodes))
    count = draw(st.integers(1, len(shuffled)))
    evidence = {}
    for name in shuffled[count:]:
        if draw(st.booleans()):
            evidence[name] = draw(st.integers(0, network.schema[name].size - 1))
    return cells, tuple(shuffled[:count]), evidence
