"""Covers by stars: they hold every family, cost what their noise disturbs, and are no worse than tables alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

import discreet as dc
from discreet.inference.interactions import Blur, cell_variance, pooled_variances
from discreet.mechanisms.star_noise import dimensions
from discreet.model.limits import STAR_DIMENSIONS
from discreet.theory.star_cover import Group, group_costs, shared_by, star_cover, star_lengths
from discreet.theory.stars import star_blurs
from folding import every
from networks import asia, network_path
from strategies import networks
from tiny import network_of


def alone(network: dc.Network) -> list[Group]:
    """The cover without stars."""
    return [(scope,) for scope in network.clique_cover()]


def blurs_of(network: dc.Network, group: Group, scale: float = 1.0) -> dict[tuple[str, ...], Blur]:
    """What the noise of one group does to its tables."""
    if len(group) == 1:
        return {group[0]: Blur(2 * scale**2)}
    found = star_blurs(shared_by(group), star_lengths(network, group), scale)
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
