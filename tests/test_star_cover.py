"""Covers by stars: they hold every family, cost what their noise disturbs, and are no worse than tables alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.inference.interactions import Blur, cell_variance, pooled_variances
from discreet.model.graphs import AXES
from discreet.noise.star_noise import dimensions
from discreet.planning.star_cover import (
    Group,
    group_costs,
    readers,
    shared_by,
    star_cover,
    star_lengths,
    star_noise_variances,
)
from discreet.util.limits import STAR_DIMENSIONS
from folding import every
from networks import asia, network_path
from strategies import networks
from tiny import network_of


def alone(network: dc.Network) -> list[Group]:
    """The cover without stars."""
    return list(star_cover(network, 0))


def blurs_of(network: dc.Network, group: Group, scale: float = 1.0) -> dict[tuple[str, ...], Blur]:
    """What the noise of one group does to its tables."""
    if len(group) == 1:
        return {group[0]: Blur(2 * scale**2)}
    found = star_noise_variances(shared_by(group), star_lengths(network, group), scale)
    return dict(zip(group, found, strict=True))


def error(network: dc.Network, groups: list[Group] | tuple[Group, ...]) -> float:
    """Sum of the standard deviations of all cells of families, after least squares, by the shares of the plan."""
    costs = group_costs(network, groups)
    whole = sum(cost**0.4 for cost in costs.values())
    blurs = {}
    for group, cost in costs.items():
        blurs |= blurs_of(network, group, whole / cost**0.4)
    pooled = pooled_variances(network, blurs)
    families = [network.ordered(network.family(node)) for node in network.nodes]
    return sum(network.cells(family) * math.sqrt(cell_variance(network, pooled, family)) for family in families)


def check(network: dc.Network, dimension: int = STAR_DIMENSIONS) -> tuple[Group, ...]:
    """What every cover is."""
    found = star_cover(network, dimension)
    scopes = [scope for group in found for scope in group]
    assert len(set(scopes)) == len(scopes)
    for node in network.nodes:
        assert any(set(network.family(node)) <= set(scope) for scope in scopes)
    for group in found:
        assert all(scope == network.ordered(scope) for scope in group)
        if len(group) > 1:
            assert shared_by(group) and dimensions(star_lengths(network, group)) <= dimension
    assert min(group_costs(network, found).values()) > 0
    return found


@settings(deadline=None, max_examples=60)
@given(networks(max_nodes=6))
def test_covers_of_any_network(network: dc.Network) -> None:
    check(network)


@every(("name", "at_most"), [("sachs", 0.87), ("child", 0.80), ("alarm", 0.86), ("hailfinder", 0.88)])
def test_stars_leave_less_error_than_tables_alone(name: str, at_most: float) -> None:
    """The sum of errors over that of the cover by tables, as it was measured."""
    network = dc.Network.read(network_path(name))
    assert error(network, check(network)) < at_most * error(network, alone(network))


def test_asia_is_covered_by_stars() -> None:
    network = asia().network
    assert error(network, check(network)) < 0.89 * error(network, alone(network))


def test_a_naive_bayes_network_is_one_star() -> None:
    network = network_of({"c": 2} | {f"x{i}": 2 for i in range(30)}, " ".join(f"c>x{i}" for i in range(30)))
    (star,) = check(network)
    assert star == tuple(("c", f"x{i}") for i in range(30)) and shared_by(star) == ("c",)
    assert error(network, [star]) < 0.65 * error(network, alone(network))
    # Where a star may not be so large it is parted.
    assert max(map(len, check(network, 11))) == 10


def test_tables_that_share_nothing_stay_apart() -> None:
    network = network_of({"a": 8, "b": 8})
    assert check(network) == ((("a",),), (("b",),))


@every(
    "group", [(("a", "b", "c"),), (("a", "b"), ("a", "c")), (("a", "b", "d"), ("a", "c", "d")), (("a", "b"), ("a",))]
)
def test_a_cost_is_the_deviation_of_what_the_group_tells(group: Group) -> None:
    """By the pooled variances of the group's own tables, each family read from its smallest table."""
    network = network_of({"a": 2, "b": 3, "c": 2, "d": 2}, "")
    tables = {scope: blurs_of(network, group)[scope] for scope in group}
    families = [("a",), *(("a", name) for name in ("b", "c") if any(name in scope for scope in group))]
    expected = 0.0
    held = network_of({"a": 2, "b": 3, "c": 2, "d": 2}, " ".join(f"a>{name}" for _, name in families[1:]))
    needed = [name for name in held.nodes if not any(set(held.family(name)) <= set(scope) for scope in group)]
    extra: list[Group] = [((name,),) for name in needed]
    for node in held.nodes:
        if node in needed:
            continue
        family = held.ordered(held.family(node))
        read = min((scope for scope in group if set(family) <= set(scope)), key=held.cells)
        blur, shared = tables[read], set(shared_by(group))
        pooled = {}
        for subset in [(), *((name,) for name in family), family]:
            variance = blur.variance(subset)
            if len(group) > 1 and set(subset) <= shared:
                variance /= len(group)  # all tables of the star tell it, and say the same
            pooled[subset] = variance * held.cells(read) / held.cells(subset)
        expected += held.cells(family) * math.sqrt(cell_variance(held, pooled, family))
    assert group_costs(held, [group, *extra])[group] == pytest.approx(expected)


def test_covers_are_the_same_whenever_they_are_made() -> None:
    network = asia().network
    first = star_cover(network, 40)
    star_cover.cache_clear()
    assert star_cover(network, 40) == first
    assert np.isfinite(list(group_costs(network, first).values())).all()


# ------------------------------------------------------------------------------------------ tables alone


@every(("name", "tables"), [("asia", 3), ("sachs", 4), ("child", 13), ("alarm", 20)])
def test_the_numbers_of_tables_are_those_of_the_study(name: str, tables: int) -> None:
    assert len(alone(dc.Network.read(network_path(name)))) == tables


def test_tables_without_a_common_variable_merge_where_it_pays() -> None:
    """By hand, two roots of k states: sqrt(k^3) + sqrt(k^3) under a root against 2 k, equal at k = 4."""
    for states, tables in ((2, 1), (3, 1), (4, 2), (5, 2)):
        assert len(star_cover(network_of({"a": states, "b": states}))) == tables


def test_variables_of_one_state_do_not_pile_up() -> None:
    """They cost no cells, but an axis each."""
    network = network_of({f"v{index}": 1 for index in range(40)})
    for cover in ([group[0] for group in star_cover(network)], network.cover_sets()):
        assert 4 <= len(cover) <= 5
        assert max(map(len, cover)) <= AXES


def test_a_family_beyond_the_limits_is_a_table_of_its_own() -> None:
    names = [f"v{index:02}" for index in range(14)]
    network = network_of(dict.fromkeys(names, 2), " ".join(f"{name}>v13" for name in names[:-1]))
    assert star_cover(network) == ((tuple(names),),)
    assert network.cover_sets() == (tuple(names),)


@pytest.mark.costly("A cover that is slow or wrong shows in a thousand nodes only.")
@every("arcs", ["sparse", "naive Bayes"])
def test_large_networks_are_covered(arcs: str) -> None:
    """A thousand nodes of up to four states: with up to three parents, and with one that all share."""
    rng = np.random.default_rng(2)
    nodes = [f"v{index}" for index in range(1000)]
    sizes = dict(zip(nodes, rng.integers(2, 5, len(nodes)).tolist(), strict=True))
    drawn = {
        f"v{0 if arcs == 'naive Bayes' else parent}>v{child}"
        for child in range(1, len(nodes))
        for parent in rng.integers(max(0, child - 20), child, 3).tolist()
    }
    network = network_of(sizes, " ".join(sorted(drawn)))
    groups = check(network)
    assert len(groups) < len(network.maximal_families) / 2


# ------------------------------------------------------------------------------------------ who reads what


@given(networks(), st.data())
def test_every_family_is_read_from_the_smallest_table(network: dc.Network, data: st.DataObject) -> None:
    families = [network.family(node) for node in network.nodes]
    more = data.draw(st.lists(st.lists(st.sampled_from(network.nodes), unique=True).map(tuple), max_size=4))
    scopes = list(dict.fromkeys([*(network.family(node) for node in network.maximal_families), *more]))
    scopes = list({frozenset(scope): scope for scope in scopes}.values())
    read = readers(network, scopes)
    assert list(read) == scopes
    assert sorted(family for part in read.values() for family in part) == sorted(families)
    for scope, part in read.items():
        for family in part:
            holders = [other for other in scopes if set(family) <= set(other)]
            assert scope == min(holders, key=network.cells)


def test_a_family_that_no_table_holds_is_named() -> None:
    with pytest.raises(dc.InputError, match="no measured table holds the family of 'b'; add one over a, b"):
        readers(network_of({"a": 2, "b": 2}, "a>b"), [("a",), ("b",)])


# ------------------------------------------------------------------------------------------ what is counted


@given(networks(), st.sampled_from((1, 4, 30, 4096)))
def test_what_is_counted_holds_what_is_measured(network: dc.Network, limit: int) -> None:
    scopes = [scope for group in star_cover(network) for scope in group]
    counted = network.cover_sets(limit, scopes)
    assert all(any(set(scope) <= set(scanned) for scanned in counted) for scope in scopes)
    assert all(network.cells(scanned) <= limit or scanned in scopes for scanned in counted)


@every("limit", [0, -1, float("nan")])
def test_a_set_needs_room(limit: float) -> None:
    with pytest.raises(dc.InputError, match="positive limit of cells, got"):
        asia().network.cover_sets(limit)  # type: ignore[arg-type]
