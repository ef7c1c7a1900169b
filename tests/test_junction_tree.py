"""Junction trees: their structure on every network, and the arithmetic of factors against einsum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.theory.junction_tree import (
    Factor,
    JunctionTree,
    _eliminate,
    calibrate,
    collect,
    elimination_order,
    junction_tree,
    multiply,
)
from networks import theta_of
from oracle import random_draws
from strategies import networks

BENCHMARKS = ("alarm", "child", "hailfinder", "win95pts")


def families(network: dc.Network, observed: frozenset[str] = frozenset()) -> list[tuple[str | None, tuple[str, ...]]]:
    """Families without the observed variables, and whose conditional probabilities they are."""
    return [
        (None if node in observed else node, tuple(name for name in network.family(node) if name not in observed))
        for node in network.nodes
    ]


def sizes_of(network: dc.Network, observed: frozenset[str] = frozenset()) -> dict[str, int]:
    return {name: network.schema[name].size for name in network.nodes if name not in observed}


def check_structure(tree: JunctionTree, listed: list[tuple[str | None, tuple[str, ...]]], targets: tuple) -> None:
    """What makes a tree of cliques a junction tree for these factors."""
    assert tree.cells == sum(math.prod(tree.sizes[name] for name in clique) for clique in tree.cliques)
    assert {name for clique in tree.cliques for name in clique} == {name for _, scope in listed for name in scope}
    assert all(len(set(clique)) == len(clique) for clique in tree.cliques)
    assert not targets or any(set(targets) <= set(clique) for clique in tree.cliques)
    for (_, scope), home in zip(listed, tree.homes, strict=True):
        assert set(scope) <= set(tree.cliques[home] if home >= 0 else ())
    for index, parent in enumerate(tree.parents):
        assert parent == -1 or index < parent < len(tree.cliques)
        common = set(tree.cliques[index]) & set(tree.cliques[parent]) if parent >= 0 else set()
        assert set(tree.separator(index)) == common
        assert len(tree.separator(index)) == tree.shared[index] == len(common)
    # Running intersection: the cliques with a variable are connected, so all but one have it in common with the parent.
    for name in tree.sizes:
        holders = [index for index, clique in enumerate(tree.cliques) if name in clique]
        tops = [i for i in holders if tree.parents[i] == -1 or name not in tree.cliques[tree.parents[i]]]
        assert len(tops) == min(len(holders), 1)


def upward_messages(tree: JunctionTree, factors: list[Factor], draws: int) -> list[np.ndarray]:
    """The messages that are not normalised, by einsum, children first."""
    inbox: list[list[Factor]] = [[] for _ in tree.cliques]
    for factor, home in zip(factors, tree.homes, strict=True):
        if home >= 0:
            inbox[home].append(factor)
    messages = []
    for index, parent in enumerate(tree.parents):
        scope = tree.separator(index)
        letters = {name: position for position, name in enumerate(tree.cliques[index])}
        every = Factor(tree.cliques[index], np.ones((*(tree.sizes[name] for name in letters), draws)))
        operands = []
        for factor in [every, *inbox[index]]:
            operands += [factor.array, [*(letters[name] for name in factor.scope), len(letters)]]
        message = np.einsum(*operands, [*(letters[name] for name in scope), len(letters)])
        messages.append(message)
        if parent >= 0:
            inbox[parent].append(Factor(scope, message))
    return messages


def check_barren(network: dc.Network, observed: frozenset[str], tree: JunctionTree) -> None:
    """A flag is true only where the message is all ones, for probabilities that are nowhere equal."""
    cells = random_draws(network, 2, seed=5)
    factors = []
    for node, (_, scope) in zip(network.nodes, families(network, observed), strict=True):
        index = tuple(0 if name in observed else slice(None) for name in network.family(node))
        factors.append(Factor(scope, cells[node][index]))
    for barren, message in zip(tree.barren, upward_messages(tree, factors, 2), strict=True):
        if barren:
            np.testing.assert_allclose(message, 1, rtol=1e-12)


@given(st.data(), networks())
def test_random_networks_get_junction_trees(data: st.DataObject, network: dc.Network) -> None:
    observed = frozenset(data.draw(st.sets(st.sampled_from(network.nodes)), label="observed"))
    free = [name for name in network.nodes if name not in observed]
    targets = tuple(data.draw(st.lists(st.sampled_from(free), unique=True), label="targets")) if free else ()
    listed = families(network, observed)
    tree = junction_tree(listed, sizes_of(network, observed), targets)
    check_structure(tree, listed, targets)
    check_barren(network, observed, tree)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark_networks_get_junction_trees(name: str) -> None:
    network = theta_of(name).network
    listed = families(network)
    targets = (network.nodes[0], network.nodes[-1])
    for wanted in ((), targets):
        tree = junction_tree(listed, sizes_of(network), wanted)
        check_structure(tree, listed, wanted)
        check_barren(network, frozenset(), tree)
        assert any(tree.barren)


def test_barren_flags_are_false_above_evidence() -> None:
    """Observing a leaf makes every message on its way to the root count."""
    network = theta_of("alarm").network
    leaf = "HRBP"
    observed = frozenset([leaf])
    tree = junction_tree(families(network, observed), sizes_of(network, observed))
    check_barren(network, observed, tree)
    home = tree.homes[network.nodes.index(leaf)]
    way = [home]
    while tree.parents[way[-1]] >= 0:
        way.append(tree.parents[way[-1]])
    assert not any(tree.barren[index] for index in way)


def test_nothing_to_plan() -> None:
    tree = junction_tree([(None, ())], {})
    assert (tree.cliques, tree.homes, tree.cells) == ((), (-1,), 0)
    table, log_total = collect(tree, [Factor((), np.array([0.25, 0.0]))], (), 2)
    assert np.array_equal(log_total, [math.log(0.25), -math.inf])
    assert table.tolist() == [1, 1]


# ------------------------------------------------------------------------------------------------------ elimination


@given(st.data(), networks())
def test_elimination_respects_what_comes_last(data: st.DataObject, network: dc.Network) -> None:
    last = data.draw(st.sets(st.sampled_from(network.nodes)), label="last")
    sizes = sizes_of(network)
    steps, cost = elimination_order([scope for _, scope in families(network)], sizes, last=tuple(last))
    order = [step[0] for step in steps]
    assert sorted(order) == sorted(network.nodes)
    assert set(order[len(order) - len(last) :]) == last
    assert cost == sum(math.prod(sizes[name] for name in step) for step in steps)
    # Every family is in one clique: that of its first eliminated variable; and cliques hold later variables only.
    for node in network.nodes:
        first = min(network.family(node), key=order.index)
        assert set(network.family(node)) <= set(steps[order.index(first)])
    for position, step in enumerate(steps):
        assert set(step[1:]) <= set(order[position + 1 :])


def test_a_tree_is_eliminated_without_fill() -> None:
    """A chain of 4 binary variables costs three arcs and the last variable."""
    steps, cost = elimination_order([("a",), ("a", "b"), ("b", "c"), ("c", "d")], dict.fromkeys("abcd", 2))
    assert cost == 3 * 4 + 2
    assert all(len(step) <= 2 for step in steps)


def test_the_cheaper_of_the_two_orders_is_kept() -> None:
    """On grids of 4 x 4 variables of random sizes, now one order is cheaper and now the other."""
    differ = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sizes = {f"{row}{column}": int(rng.integers(2, 30)) for row in range(4) for column in range(4)}
        scopes = [(f"{i}{j}", f"{i + 1}{j}") for i in range(3) for j in range(4)]
        scopes += [(f"{i}{j}", f"{i}{j + 1}") for i in range(4) for j in range(3)]
        plans = [_eliminate(scopes, sizes, (), fill=fill) for fill in (True, False)]
        costs = [sum(math.prod(sizes[name] for name in clique) for clique in plan) for plan in plans]
        differ.append(costs[0] - costs[1])
        assert elimination_order(scopes, sizes) == (plans[costs[0] > costs[1]], min(costs))
    assert min(differ) < 0 < max(differ)


# ------------------------------------------------------------------------------------------------------- arithmetic


@given(st.data())
def test_products_are_those_of_einsum(data: st.DataObject) -> None:
    names = "abcd"
    sizes = dict(zip(names, data.draw(st.lists(st.integers(1, 3), min_size=4, max_size=4)), strict=True))
    scope = tuple(data.draw(st.permutations(names[: data.draw(st.integers(0, 4))])))
    draws = data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    factors, operands = [], []
    for _ in range(data.draw(st.integers(0, 4))):
        inner = tuple(data.draw(st.lists(st.sampled_from(scope), unique=True))) if scope else ()
        array = rng.random((*(sizes[name] for name in inner), draws))
        factors.append(Factor(inner, array))
        operands += [array, [*(names.index(name) for name in inner), 4]]
    before = [factor.array.copy() for factor in factors]
    full = np.ones((*(sizes[name] for name in scope), draws))
    axes = [*(names.index(name) for name in scope), 4]
    expected = np.einsum(*operands, full, axes, axes)
    product, log_scale = multiply(factors, scope, sizes, draws)
    np.testing.assert_allclose(product * np.exp(log_scale), expected, rtol=1e-12)
    product *= 2  # the result is the caller's own: writing to it changes no factor
    assert all(np.array_equal(factor.array, copy) for factor, copy in zip(factors, before, strict=True))


def test_long_chains_do_not_underflow() -> None:
    """The probability of 1,200 observations, 1e-3 each, is far below the smallest double; its logarithm is not."""
    count = 1200
    sizes = {f"x{i}": 2 for i in range(count)}
    chain = [((f"x{i}",), (f"x{i - 1}", f"x{i}"))[i > 0] for i in range(count)]
    listed: list[tuple[str | None, tuple[str, ...]]] = [(scope[-1], scope) for scope in chain]
    listed += [(None, (f"x{i}",)) for i in range(count)]
    step = np.array([[0.9, 0.1], [0.2, 0.8]])[..., None]
    factors = [Factor(scope, np.full((2, 1), 0.5) if len(scope) == 1 else step) for scope in chain]
    factors += [Factor((f"x{i}",), np.full((2, 1), 1e-3)) for i in range(count)]
    tree = junction_tree(listed, sizes)
    marginals, log_total = calibrate(tree, factors, 1)
    assert log_total[0] == pytest.approx(count * math.log(1e-3), rel=1e-12)
    assert marginals["x0"][:, 0] == pytest.approx([0.5, 0.5])
    # The chain's equilibrium is (2/3, 1/3).
    assert marginals[f"x{count - 1}"][:, 0] == pytest.approx([2 / 3, 1 / 3])


def test_only_calibrated_cliques_answer() -> None:
    """Clique (b, t) is the smallest that holds t, but knows only what lies below it: it lies beside the way."""
    sizes = {"a": 2, "b": 2, "y": 2, "x": 3, "t": 2}
    tree = JunctionTree(
        sizes,
        cliques=(("a", "x", "t"), ("b", "t"), ("y", "x", "t")),
        parents=(2, 2, -1),
        shared=(2, 1, 0),
        homes=(0, 1, 2, 2, 2),
        barren=(False, False, False),
        cells=28,
    )
    rng = np.random.default_rng(1)
    scopes = (("a", "x", "t"), ("b", "t"), ("y", "x", "t"), ("x", "t"), ("t",))
    factors = [Factor(scope, rng.random((*(sizes[name] for name in scope), 2))) for scope in scopes]
    product = np.einsum("axtn,btn,yxtn,xtn,tn->tn", *(factor.array for factor in factors))
    table, log_total = collect(tree, factors, ("t",), 2)
    np.testing.assert_allclose(log_total, np.log(product.sum(axis=0)), rtol=1e-13)
    np.testing.assert_allclose(table, product / product.sum(axis=0), rtol=1e-13)
