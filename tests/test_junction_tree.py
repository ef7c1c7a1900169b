"""Junction trees: their structure on every network, and the arithmetic of factors against einsum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.inference import kernels
from discreet.inference.junction_tree import (
    JunctionTree,
    _eliminate,
    elimination_order,
    junction_tree,
    maximising_tree,
)
from discreet.inference.kernels import PROBABILITIES, Pass
from folding import every
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
    assert tree.cells == sum(math.prod(tree.shapes[index]) for index in range(len(tree.cliques)))
    assert {name for clique in tree.cliques for name in clique} == {name for _, scope in listed for name in scope}
    assert all(len(set(clique)) == len(clique) for clique in tree.cliques)
    for (_, scope), home in zip(listed, tree.homes, strict=True):
        assert set(scope) <= set(tree.cliques[home] if home >= 0 else ())
    for index, parent in enumerate(tree.parents):
        assert parent == -1 or index < parent < len(tree.cliques)
        above = tree.cliques[parent] if parent >= 0 else ()
        common = tuple(name for name in above if name in tree.cliques[index])
        assert tree.separators[index] == common  # in the parent's order: a message needs no other axes
        assert len(common) < len(tree.cliques[index])
    # Running intersection: the cliques with a variable are connected, so all but one have it in common with the parent.
    for name in tree.sizes:
        holders = [index for index, clique in enumerate(tree.cliques) if name in clique]
        tops = [i for i in holders if tree.parents[i] == -1 or name not in tree.cliques[tree.parents[i]]]
        assert len(tops) == min(len(holders), 1)
    if targets:
        tops = [i for i, parent in enumerate(tree.parents) if parent < 0 and set(targets) <= set(tree.cliques[i])]
        assert len(tops) == 1 and not tree.barren[tops[0]]
    check_terms(tree, listed)
    for name, (index, separator, others) in tree.holders.items():
        scope = tree.separators[index] if separator else tree.cliques[index]
        assert [axis for axis in range(len(scope)) if axis not in others] == [scope.index(name)]
        least = min(math.prod(tree.sizes[n] for n in clique) for clique in tree.cliques if name in clique)
        assert math.prod(tree.sizes[n] for n in scope) <= least


def check_terms(tree: JunctionTree, listed: list[tuple[str | None, tuple[str, ...]]]) -> None:
    """Every factor is multiplied once, at home, and every message once, at the parent; with the axes of that clique."""
    sources = [(term.source, index) for index, terms in enumerate(tree.terms) for term in terms]
    expected = [(source, home) for source, home in enumerate(tree.homes) if home >= 0]
    for index, parent in enumerate(tree.parents):
        if parent >= 0 and not tree.barren[index]:
            expected.append((len(listed) + index, parent))
    assert sorted(sources) == sorted(expected)
    for clique, terms in zip(tree.cliques, tree.terms, strict=True):
        cells = [math.prod(tree.sizes[name] for name in term.scope) for term in terms]
        assert not cells or cells[-1] == max(cells)
        for term in terms:
            sizes = [7 + position for position, _ in enumerate(term.scope)]  # sizes that tell the axes apart
            shape = np.empty((*sizes, 2)).transpose(term.axes)[term.index].shape
            assert shape == (*(sizes[term.scope.index(name)] if name in term.scope else 1 for name in clique), 2)


def upward_messages(tree: JunctionTree, factors: list[np.ndarray], scopes: list[tuple[str, ...]]) -> list[np.ndarray]:
    """The messages that are not normalised, by einsum, children first."""
    inbox: list[list[tuple[tuple[str, ...], np.ndarray]]] = [[] for _ in tree.cliques]
    for scope, factor, home in zip(scopes, factors, tree.homes, strict=True):
        if home >= 0:
            inbox[home].append((scope, factor))
    messages = []
    for index, parent in enumerate(tree.parents):
        letters = {name: position for position, name in enumerate(tree.cliques[index])}
        operands: list = [np.ones(tree.shapes[index]), [*letters.values()]]
        for scope, factor in inbox[index]:
            operands += [factor, [*(letters[name] for name in scope), len(letters)]]
        message = np.einsum(*operands, [*(letters[name] for name in tree.separators[index]), len(letters)])
        messages.append(message)
        if parent >= 0:
            inbox[parent].append((tree.separators[index], message))
    return messages


def check_barren(network: dc.Network, observed: frozenset[str], tree: JunctionTree) -> None:
    """A flag is true only where the message is all ones, for probabilities that are nowhere equal."""
    cells = random_draws(network, 2, seed=5)
    factors = []
    for node in network.nodes:
        index = tuple(0 if name in observed else slice(None) for name in network.family(node))
        factors.append(cells[node][index])
    scopes = [scope for _, scope in families(network, observed)]
    for barren, message in zip(tree.barren, upward_messages(tree, factors, scopes), strict=True):
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
    best = maximising_tree(listed, sizes_of(network, observed), targets)
    check_structure(best, listed, ())
    for index, clique in enumerate(best.cliques):
        own = clique[: len(clique) - len(best.separators[index])]
        assert {name in targets for name in own} == {index >= best.maxima}
        assert not (index >= best.maxima and best.barren[index])


@every("name", BENCHMARKS)
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
    table, log_total = Pass(PROBABILITIES, tree, [np.array([0.25, 0.0])], 2).joint(())
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


@given(st.data(), st.sampled_from((np.float32, np.float64)))
def test_sums_of_products_are_those_of_einsum(data: st.DataObject, dtype: type[np.floating]) -> None:
    """Of as many axes as are drawn, in any order in memory, in blocks of any size."""
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=0, max_size=4))
    draws, letters = data.draw(st.integers(1, 3)), list(range(len(sizes)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    views, operands = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        inner = data.draw(st.lists(st.sampled_from(letters), unique=True)) if letters else []
        array = rng.random((*(sizes[letter] for letter in inner), draws)).astype(dtype)
        whole = array.transpose((*np.argsort(inner).astype(int), len(inner)))
        views.append(whole[(*(slice(None) if letter in inner else None for letter in letters), ...)])
        operands += [array, [*inner, len(letters)]]
    order = data.draw(st.permutations(letters))
    last = rng.random((*(sizes[letter] for letter in order), draws)).astype(dtype)
    operands += [last, [*order, len(letters)]]
    views.append(last.transpose((*np.argsort(order).astype(int), len(letters))))
    kept = [
        data.draw(st.lists(st.sampled_from(letters), unique=True)) if letters else []
        for _ in range(data.draw(st.integers(1, 2)))
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernels, "SMALL_ENTRIES", data.draw(st.sampled_from((0, 2**20))))
        patched.setattr(kernels, "BLOCK_ENTRIES", data.draw(st.sampled_from((1, 4, 2**20))))
        sums = PROBABILITIES.sum_products(views, kept)
    for found, axes in zip(sums, kept, strict=True):
        assert found.dtype == dtype and not any(np.shares_memory(found, view) for view in views)
        exact = np.einsum(*operands, [*axes, len(letters)])
        np.testing.assert_allclose(found, exact, rtol=100 * float(np.finfo(dtype).eps))


@every("count", [1, 5, 6, 9, 10, 60])
def test_many_factors_are_multiplied_up_to_scales(count: int) -> None:
    """60 factors of 1e-8 in one clique: their product is below the smallest double."""
    listed: list[tuple[str | None, tuple[str, ...]]] = [(None, ("a", "b"))] * count
    tree = junction_tree(listed, {"a": 2, "b": 3})
    factors = [1e-8 * np.random.default_rng(k).uniform(1, 2, (2, 3, 4)) for k in range(count)]
    removed: list[np.ndarray] = []
    product = math.prod(Pass(PROBABILITIES, tree, factors, 4)._align_views(0, {}, removed))
    assert len(removed) == max(count - 2, 0) // 4 and product.max() > 1e-50
    logs = np.log(product) + sum(map(np.log, removed))
    np.testing.assert_allclose(logs.transpose(0, 1, 2), sum(map(np.log, factors)), rtol=1e-12)


def test_cliques_of_more_axes_than_einsum_names() -> None:
    """56 variables of one state and two of two."""
    names = tuple(f"x{k}" for k in range(58))
    sizes = {name: 1 + (name in names[-2:]) for name in names}
    factor = np.random.default_rng(5).random((*sizes.values(), 3))
    tree = junction_tree([(None, names)], sizes, names[-2:])
    law, log_total = Pass(PROBABILITIES, tree, [factor], 3).joint(names[-2:])
    exact = factor.reshape(2, 2, 3)
    np.testing.assert_allclose(np.exp(log_total), exact.sum(axis=(0, 1)))
    np.testing.assert_allclose(law, exact / exact.sum(axis=(0, 1)))


def test_long_chains_do_not_underflow() -> None:
    """The probability of 1,200 observations, 1e-3 each, is far below the smallest double; its logarithm is not."""
    count = 1200
    sizes = {f"x{i}": 2 for i in range(count)}
    chain = [((f"x{i}",), (f"x{i - 1}", f"x{i}"))[i > 0] for i in range(count)]
    listed: list[tuple[str | None, tuple[str, ...]]] = [(scope[-1], scope) for scope in chain]
    listed += [(None, (f"x{i}",)) for i in range(count)]
    step = np.array([[0.9, 0.1], [0.2, 0.8]])[..., None]
    factors = [np.full((2, 1), 0.5) if len(scope) == 1 else step for scope in chain]
    factors += [np.full((2, 1), 1e-3) for _ in range(count)]
    tree = junction_tree(listed, sizes)
    table = np.empty((2 * count, 1))
    log_total = Pass(PROBABILITIES, tree, factors, 1).marginals(table)
    assert log_total[0] == pytest.approx(count * math.log(1e-3), rel=1e-12)
    assert table[:2, 0] == pytest.approx([0.5, 0.5])
    # The chain's equilibrium is (2/3, 1/3).
    assert table[-2:, 0] == pytest.approx([2 / 3, 1 / 3])


def test_a_root_that_nothing_hangs_below_counts() -> None:
    """A pair under evidence, a clique alone under evidence, one without evidence, and a constant."""
    sizes = {"a": 2, "b": 3, "c": 2, "d": 2}
    listed = [("a", ("a",)), (None, ("a", "b")), ("b", ("b",)), (None, ("c",)), ("d", ("d",)), (None, ())]
    rng = np.random.default_rng(1)
    factors = [rng.random((*(sizes[name] for name in scope), 2)) for _, scope in listed]
    factors[4] /= factors[4].sum(axis=0)
    tree = junction_tree(listed, sizes)
    table = np.empty((9, 2))
    log_total = Pass(PROBABILITIES, tree, factors, 2).marginals(table)
    pair = np.einsum("an,abn,bn->abn", *factors[:3])
    total = pair.sum(axis=(0, 1)) * factors[3].sum(axis=0) * factors[5]
    np.testing.assert_allclose(log_total, np.log(total), rtol=1e-13)
    expected = [pair.sum(axis=1), pair.sum(axis=0), factors[3], factors[4]]
    np.testing.assert_allclose(table, np.concatenate([part / part.sum(axis=0) for part in expected]), rtol=1e-13)
