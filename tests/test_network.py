"""`discreet.model.network`: every graph algorithm against a slow version that one can check by eye."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import FrozenInstanceError
from itertools import combinations, permutations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.formats.network_files import network_of
from discreet.interchange.bif import parse_bif
from folding import every
from networks import asia, network_path
from strategies import networks

Edges = set[frozenset[str]]


def binary(**parents: str) -> dc.Network:
    """A network of two-state nodes; the value names the parents, separated by blanks."""
    variables = tuple(dc.Variable(name, ("no", "yes")) for name in parents)
    return dc.Network(variables, {name: tuple(text.split()) for name, text in parents.items()})


def paths_up(network: dc.Network, node: str) -> Iterable[tuple[str, ...]]:
    """All directed paths that end in a node, the node first."""
    yield (node,)
    for parent in network.parents[node]:
        yield from ((node, *path) for path in paths_up(network, parent))


def moral(network: dc.Network) -> Edges:
    """Pairs of nodes that share a family."""
    return {frozenset(pair) for node in network.nodes for pair in combinations(network.family(node), 2)}


def width_of(edges: Edges, order: Iterable[str]) -> int:
    """The most neighbours that a node has when it is eliminated."""
    width, left = 0, set(edges)
    for node in order:
        around = {other for edge in left if node in edge for other in edge - {node}}
        left = {edge for edge in left if node not in edge} | {frozenset(pair) for pair in combinations(around, 2)}
        width = max(width, len(around))
    return width


# ------------------------------------------------------------------------------------------ examples


def test_asia_by_hand() -> None:
    network = asia().network
    assert network.nodes == ("asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp")
    assert network.parents["either"] == ("tub", "lung") and network.family("either") == ("tub", "lung", "either")
    assert network.children("smoke") == ("lung", "bronc")
    assert network.markov_blanket("lung") == {"smoke", "either", "tub"}
    assert network.ancestors(["xray"]) == {"xray", "either", "lung", "tub", "asia", "smoke"}
    assert network.ancestors([]) == frozenset()
    assert dict(network.heights) == dict(zip(network.nodes, (3, 2, 3, 2, 1, 1, 0, 0), strict=True))
    assert (network.in_degree("either"), network.out_degree("either")) == (2, 2)
    assert network.maximal_families == ("tub", "lung", "bronc", "either", "xray", "dysp")


@every(
    ("name", "nodes", "arcs", "parameters", "treewidth"),
    [
        ("asia", 8, 8, 18, 2),
        ("cancer", 5, 4, 10, 2),
        ("child", 20, 25, 230, 3),
        ("alarm", 37, 46, 509, 4),
        ("hailfinder", 56, 66, 2656, 4),
        ("win95pts", 76, 112, 574, 8),
    ],
)
def test_published_sizes(name: str, nodes: int, arcs: int, parameters: int, treewidth: int) -> None:
    network = dc.Network.read(network_path(name))
    assert (len(network.nodes), len(network.arcs), network.parameters) == (nodes, arcs, parameters)
    assert network.treewidth == treewidth


def test_few_scans_cover_asia() -> None:
    assert asia().network.cover_sets() == (asia().network.nodes,)
    assert len(asia().network.cover_sets(8)) > 1


def test_a_network_is_an_immutable_value() -> None:
    network, equal = binary(a="", b="a"), binary(a="", b="a")
    assert network == equal and len({network, equal}) == 1
    assert binary(a="b", b="") != network and hash(binary(a="b", b="")) == hash(network)
    with pytest.raises(FrozenInstanceError):
        network.parents = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        network.parents["a"] = ("b",)  # type: ignore[index]
    with pytest.raises(Exception, match="Frozen graph"):
        network.graph.add_edge("b", "a")
    with pytest.raises(Exception, match="Frozen graph"):
        network.moral_graph.add_edge("b", "c")


# ------------------------------------------------------------------------------------------ against slow versions


@given(networks())
def test_listings_agree(network: dc.Network) -> None:
    assert set(network.arcs) == {(p, node) for node in network.nodes for p in network.parents[node]}
    for node in network.nodes:
        assert network.family(node) == (*network.parents[node], node)
        assert network.shape(node) == tuple(len(network.schema[name].states) for name in network.family(node))
        assert network.children(node) == tuple(name for name in network.nodes if (node, name) in network.arcs)
        assert network.in_degree(node) == len(network.parents[node])
        assert network.out_degree(node) == len(network.children(node))
    rows = [(list(product(*map(range, network.shape(node)[:-1]))), network.shape(node)[-1]) for node in network.nodes]
    assert network.parameters == sum(len(configurations) * (size - 1) for configurations, size in rows)
    assert network.cells(network.nodes) == len(list(product(*(variable.states for variable in network.variables))))


@given(networks())
def test_the_order_is_the_topological_one_nearest_to_the_schema(network: dc.Network) -> None:
    position = {node: index for index, node in enumerate(network.nodes)}
    valid = [
        order
        for order in permutations(network.nodes)
        if all(order.index(parent) < order.index(child) for parent, child in network.arcs)
    ]
    assert network.order == min(valid, key=lambda order: [position[node] for node in order])


@given(networks(), st.data())
def test_ancestors_and_heights_are_those_of_all_paths(network: dc.Network, data: st.DataObject) -> None:
    paths = [path for node in network.nodes for path in paths_up(network, node)]
    some = data.draw(st.sets(st.sampled_from(network.nodes)))
    assert network.ancestors(some) == {name for path in paths if path[0] in some for name in path}
    for node in network.nodes:
        assert network.heights[node] == max(len(path) - 1 for path in paths if path[-1] == node)


@given(networks())
def test_the_markov_blanket_is_the_neighbourhood_in_the_moral_graph(network: dc.Network) -> None:
    assert {frozenset(edge) for edge in network.moral_graph.edges} == moral(network)
    assert set(network.moral_graph.nodes) == set(network.nodes)
    for node in network.nodes:
        assert network.markov_blanket(node) == {
            name for edge in moral(network) if node in edge for name in edge - {node}
        }


@given(networks())
def test_the_treewidth_bound_holds(network: dc.Network) -> None:
    best = min(width_of(moral(network), order) for order in permutations(network.nodes))
    assert network.treewidth == best  # of at most five nodes min-fill always finds it


@given(networks())
def test_families_and_their_subsets(network: dc.Network) -> None:
    families = {node: frozenset(network.family(node)) for node in network.nodes}
    subsets = {
        frozenset(subset)
        for size in range(len(network.nodes) + 1)
        for subset in combinations(network.nodes, size)
        if any(set(subset) <= family for family in families.values())
    }
    assert {frozenset(subset) for subset in network.downward_closure} == subsets
    assert len(network.downward_closure) == len(subsets)
    position = {node: index for index, node in enumerate(network.nodes)}
    keys = [(len(subset), [position[name] for name in subset]) for subset in network.downward_closure]
    assert keys == sorted(keys)
    assert network.maximal_families == tuple(
        node for node in network.nodes if not any(families[node] < other for other in families.values())
    )


@given(networks(), st.sampled_from((1, 2, 4, 9, 30, 4096)))
def test_cover_sets_contain_every_family_within_the_limit(network: dc.Network, limit: int) -> None:
    covers = network.cover_sets(limit)
    families = [set(network.family(node)) for node in network.nodes]
    assert all(any(family <= set(cover) for cover in covers) for family in families)
    assert all(network.cells(cover) <= limit or set(cover) in families for cover in covers)
    assert all(list(cover) == sorted(cover, key=network.nodes.index) for cover in covers)
    if network.cells(network.nodes) <= limit:
        assert covers == (network.nodes,)


# ------------------------------------------------------------------------------------------ refusals

A, B, C = (dc.Variable(name, ("no", "yes")) for name in "abc")
WEIGHT = dc.Variable("weight", bounds=(0, 300))


@every(
    ("variables", "parents", "message"),
    [
        ((), {}, "at least one variable"),
        ((A, A), {"a": ()}, "'a' is declared twice"),
        ((A, B), {"a": ()}, r"unknown: \[\], missing: \['b'\]"),
        ((A,), {"a": (), "z": ()}, r"unknown: \['z'\], missing: \[\]"),
        ((A, B), {"a": (), "b": ("z",)}, "'b' has an unknown parent 'z'"),
        ((A, B), {"a": (), "b": ("a", "a")}, "'b': a parent is listed twice"),
        ((A,), {"a": ("a",)}, "'a': .* is the node itself"),
        (
            (A, B, C),
            {"a": ("c",), "b": ("a",), "c": ("b",)},
            "cycle: (a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c); remove",
        ),
    ],
)
def test_what_is_not_a_network_is_refused(
    variables: tuple[dc.Variable, ...], parents: Mapping[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.Network(variables, parents)


@every("limit", [0, -1, float("nan")])
def test_a_cover_set_needs_room(limit: float) -> None:
    with pytest.raises(dc.InputError, match="positive limit of cells, got"):
        asia().network.cover_sets(limit)  # type: ignore[arg-type]


@every("ask", ["family", "shape", "children", "in_degree", "out_degree", "markov_blanket"])
def test_an_unknown_node_is_refused_by_name(ask: str) -> None:
    with pytest.raises(dc.InputError, match="no variable 'z'"):
        getattr(binary(a="", b="a"), ask)("z")


@every("ask", ["cells", "ancestors"])
def test_an_unknown_node_among_others_is_refused_by_name(ask: str) -> None:
    with pytest.raises(dc.InputError, match="no variable 'z'"):
        getattr(binary(a="", b="a"), ask)(["a", "z"])


def test_a_cycle_in_a_file_is_refused_with_the_file_name(tmp_path: Path) -> None:
    states = "{ type discrete [ 2 ] { no, yes }; }"
    text = f"variable a {states} variable b {states} probability ( a | b ) {{ }} probability ( b | a ) {{ }}"
    path = tmp_path / "round.bif"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(dc.InputError, match=r"round\.bif: the network has a cycle: (a -> b -> a|b -> a -> b);"):
        dc.Network.read(path)
    with pytest.raises(dc.InputError, match=r"^here: the network has a cycle"):
        network_of(parse_bif(text), where="here")


# ------------------------------------------------------------------------------------------ other descriptions


def test_variables_can_be_described_anew() -> None:
    age = dc.Variable("b", ("no", "yes"), bounds=(0, 120), bins=(65,))
    network = binary(a="", b="a").with_variables([age])
    assert network.variables == (A, age) and network.parents == {"a": (), "b": ("a",)}


@every(
    ("variable", "message"),
    [
        (dc.Variable("z", ("no", "yes")), "no variable 'z'"),
        (dc.Variable("b", ("x", "y", "z")), "'b' has 2 states in the network but 3 in the schema"),
        (dc.Variable("b", bounds=(0, 1)), "'b' has 2 states in the network but 0 in the schema"),
        (dc.Variable("b", ("no", "maybe")), "'b' has other states in the schema than in the network"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(variable: dc.Variable, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        binary(a="", b="a").with_variables([variable])
