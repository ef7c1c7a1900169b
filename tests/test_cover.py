"""Covers: against plain loops over all pairs, and on networks from the files."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.model.cover import AXES, readers
from networks import asia, network_path
from strategies import networks
from tiny import network_of

Scope = tuple[str, ...]


def ordered(network: dc.Network, names: frozenset[str]) -> Scope:
    return tuple(node for node in network.nodes if node in names)


def by_hand(network: dc.Network, limit: int) -> list[Scope]:
    """The greedy rule with nothing remembered: every pair is looked at before every merge."""
    families = [frozenset(network.family(node)) for node in network.nodes]
    tables = [family for family in families if not any(family < other for other in families)]
    groups: list[tuple[frozenset[str], list[frozenset[str]]]] = [(table, []) for table in tables]
    for family in families:
        holders = [group for group in groups if family <= group[0]]
        min(holders, key=lambda group: network.cells(group[0]))[1].append(family)

    def root(scope: frozenset[str], read: list[frozenset[str]]) -> float:
        return math.sqrt(sum(math.sqrt(network.cells(family) * network.cells(scope)) for family in read))

    while True:
        gains = []
        for i, j in combinations(range(len(groups)), 2):
            (one, first), (other, second) = groups[i], groups[j]
            if network.cells(one | other) <= limit:
                saved = root(one, first) + root(other, second) - root(one | other, first + second)
                gains.append((-round(saved, 10), i, j))
        if not gains or min(gains)[0] >= 0:
            break
        _, i, j = min(gains)
        groups[i] = (groups[i][0] | groups[j][0], groups[i][1] + groups[j][1])
        del groups[j]
    return sorted((ordered(network, scope) for scope, _ in groups), key=lambda s: [network.nodes.index(n) for n in s])


@given(networks(max_nodes=6), st.sampled_from((1, 2, 4, 9, 30, 4096)))
def test_covers_are_those_of_plain_loops(network: dc.Network, limit: int) -> None:
    found, wanted = network.clique_cover(limit), by_hand(network, limit)
    assert [scope for scope in wanted if scope in found] == list(found)
    # Only a set that nothing is read from may be left out.
    sizes = {variable.name: variable.size for variable in network.schema}
    read = readers(sizes, [network.family(node) for node in network.nodes], wanted)
    assert {scope for scope in wanted if read[scope]} == set(found)


@pytest.mark.parametrize("name", ["asia", "sachs", "child", "alarm", "win95pts", "hailfinder"])
def test_real_networks_have_the_covers_of_plain_loops(name: str) -> None:
    network = dc.Network.read(network_path(name))
    assert list(network.clique_cover()) == by_hand(network, 4096)


@pytest.mark.parametrize(("name", "tables"), [("asia", 3), ("sachs", 4), ("child", 13), ("alarm", 20)])
def test_the_numbers_of_tables_are_those_of_the_study(name: str, tables: int) -> None:
    assert len(dc.Network.read(network_path(name)).clique_cover()) == tables


@given(networks(), st.sampled_from((1, 4, 30, 4096)))
def test_a_cover_holds_every_family_within_the_limit(network: dc.Network, limit: int) -> None:
    cover = network.clique_cover(limit)
    families = [set(network.family(node)) for node in network.nodes]
    assert all(any(family <= set(scope) for scope in cover) for family in families)
    assert all(network.cells(scope) <= limit or set(scope) in families for scope in cover)
    assert all(scope == ordered(network, frozenset(scope)) for scope in cover)
    assert len(set(cover)) == len(cover)
    # What is counted holds what is measured.
    assert all(any(set(scope) <= set(scanned) for scanned in network.cover_sets(limit)) for scope in cover)


def test_tables_without_a_common_variable_merge_where_it_pays() -> None:
    """By hand, two roots of k states: sqrt(k^3) + sqrt(k^3) under a root against 2 k, equal at k = 4."""
    for states, tables in ((2, 1), (3, 1), (4, 2), (5, 2)):
        assert len(network_of({"a": states, "b": states}).clique_cover()) == tables


def test_variables_of_one_state_do_not_pile_up() -> None:
    """They cost no cells, but an axis each."""
    network = network_of({f"v{index}": 1 for index in range(40)})
    for cover in (network.clique_cover(), network.cover_sets()):
        assert len(cover) == 4
        assert max(map(len, cover)) == AXES


def test_a_family_beyond_the_limits_is_a_table_of_its_own() -> None:
    names = [f"v{index:02}" for index in range(14)]
    network = network_of(dict.fromkeys(names, 2), " ".join(f"{name}>v13" for name in names[:-1]))
    assert network.clique_cover() == network.cover_sets() == (tuple(names),)


def test_large_networks_are_covered() -> None:
    """A thousand nodes with up to three parents and four states."""
    rng = np.random.default_rng(2)
    nodes = [f"v{index}" for index in range(1000)]
    sizes = dict(zip(nodes, rng.integers(2, 5, len(nodes)).tolist(), strict=True))
    arcs = {
        f"v{parent}>v{child}"
        for child in range(1, len(nodes))
        for parent in rng.integers(max(0, child - 20), child, 3).tolist()
    }
    network = network_of(sizes, " ".join(sorted(arcs)))
    cover = list(map(set, network.clique_cover()))
    assert len(cover) < len(network.maximal_families)
    assert all(any(set(network.family(node)) <= scope for scope in cover) for node in nodes)


@given(networks(), st.data())
def test_every_family_is_read_from_the_smallest_table(network: dc.Network, data: st.DataObject) -> None:
    families = [network.family(node) for node in network.nodes]
    more = data.draw(st.lists(st.lists(st.sampled_from(network.nodes), unique=True).map(tuple), max_size=4))
    scopes = list(dict.fromkeys([*(network.family(node) for node in network.maximal_families), *more]))
    scopes = list({frozenset(scope): scope for scope in scopes}.values())
    read = readers({variable.name: variable.size for variable in network.schema}, families, scopes)
    assert list(read) == scopes
    assert sorted(family for part in read.values() for family in part) == sorted(families)
    for scope, part in read.items():
        for family in part:
            holders = [other for other in scopes if set(family) <= set(other)]
            assert scope == min(holders, key=network.cells)


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_table_needs_room(limit: float) -> None:
    with pytest.raises(dc.InputError, match="positive limit of cells, got"):
        asia().network.clique_cover(limit)  # type: ignore[arg-type]
