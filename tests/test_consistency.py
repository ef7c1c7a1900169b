"""Mutual consistency against generalised least squares by a dense linear solve."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.consistency import consistent, merged
from discreet.releases.measurement import laplace_variance
from tiny import network_of

Tables = dict[str, np.ndarray]


def cells_by_state(network: dc.Network, node: str, shared: list[str]) -> dict[tuple[int, ...], list[int]]:
    """Flat cells of a table for every joint state of some of its variables."""
    family, shape = network.family(node), network.shape(node)
    found: dict[tuple[int, ...], list[int]] = {}
    for flat, codes in enumerate(np.ndindex(*shape)):
        found.setdefault(tuple(codes[family.index(name)] for name in shared), []).append(flat)
    return found


def least_squares(
    network: dc.Network, tables: Mapping[str, np.ndarray], variances: Mapping[str, float], total: float | None
) -> Tables:
    """Minimise the weighted squares under all pairwise agreements, one equation for each; slow and obvious."""
    nodes = list(tables)
    start = dict(zip(nodes, np.cumsum([0, *(tables[node].size for node in nodes)]), strict=False))
    noisy = np.concatenate([tables[node].ravel() for node in nodes])
    spread = np.concatenate([np.full(tables[node].size, variances[node]) for node in nodes])
    equations, values = [], []
    for one, other in combinations(nodes, 2):
        shared = [name for name in network.family(one) if name in network.family(other)]
        theirs = cells_by_state(network, other, shared)
        for state, cells in cells_by_state(network, one, shared).items():
            equation = np.zeros(noisy.size)
            equation[start[one] + np.array(cells)] = 1
            equation[start[other] + np.array(theirs[state])] -= 1
            equations.append(equation)
            values.append(0.0)
    for node in nodes if total is not None else ():
        equation = np.zeros(noisy.size)
        equation[start[node] : start[node] + tables[node].size] = 1
        equations.append(equation)
        values.append(total)
    if not equations:
        return dict(tables)
    matrix, gap = np.array(equations), np.array(values) - np.array(equations) @ noisy
    solved = noisy + spread * (matrix.T @ (np.linalg.pinv(matrix * spread @ matrix.T, rcond=1e-10) @ gap))
    assert np.abs(matrix @ solved - values).max() < 1e-6
    return {
        node: solved[start[node] : start[node] + tables[node].size].reshape(tables[node].shape) for node in nodes
    }  # fmt: skip


def random_case(seed: int) -> tuple[dc.Network, Tables, dict[str, float], float | None]:
    """Up to six variables of one to four states, up to three parents, some tables that lie in others left out."""
    rng = np.random.default_rng(seed)
    names = "abcdef"[: int(rng.integers(2, 7))]
    sizes = {name: int(rng.integers(1 if seed % 5 == 0 else 2, 5)) for name in names}
    arcs = []
    for j, child in enumerate(names):
        parents = [parent for parent in names[:j] if rng.random() < 0.45][:3]
        arcs += [f"{parent}>{child}" for parent in parents]
    network = network_of(sizes, " ".join(arcs))
    nodes = [node for node in network.nodes if node in network.maximal_families or rng.random() < 0.4]
    tables = {node: rng.normal(50, 20, network.shape(node)) for node in nodes}
    variances = {node: float(np.exp(rng.normal(0, 2))) for node in nodes}
    return network, tables, variances, None if rng.random() < 0.5 else 500.0


@pytest.mark.parametrize("seed", range(150))
def test_one_pass_is_generalised_least_squares(seed: int) -> None:
    case = random_case(seed)
    found, exact = consistent(*case), least_squares(*case)
    for node, table in exact.items():
        np.testing.assert_allclose(found[node], table, atol=1e-5)


# Families by arcs: what each case is about. The triangle and the four-fold one overlap in a ring and at three levels.
OVERLAPS = {
    "single table": ({"a": 3}, ""),
    "disjoint": ({"a": 2, "b": 3}, ""),
    "nested": ({"a": 2, "b": 3}, "a>b"),
    "triangle of pairs": ({"a": 2, "b": 3, "c": 2, "d": 2, "e": 2, "f": 3}, "a>d b>d b>e c>e a>f c>f"),
    "three share two": ({"a": 2, "b": 3, "c": 2, "d": 4, "e": 2}, "a>c b>c a>d b>d a>e b>e"),
    "intersections of intersections": (
        {"a": 2, "b": 2, "c": 3, "d": 2, "e": 2, "f": 2, "g": 3},
        "a>d b>d c>d a>e b>e a>f c>f b>g c>g",
    ),
}


@pytest.mark.parametrize("total", [None, 70.0])
@pytest.mark.parametrize("name", OVERLAPS)
def test_overlaps_by_name(name: str, total: float | None) -> None:
    network = network_of(*OVERLAPS[name])
    rng = np.random.default_rng(3)
    tables = {node: rng.normal(20, 9, network.shape(node)) for node in network.nodes}
    variances = {node: float(v) for node, v in zip(network.nodes, rng.uniform(0.1, 9, len(tables)), strict=True)}
    found, exact = consistent(network, tables, variances, total), least_squares(network, tables, variances, total)
    for node in network.nodes:
        np.testing.assert_allclose(found[node], exact[node], atol=1e-7)
        if total is not None:
            assert found[node].sum() == pytest.approx(total)
    again = consistent(network, found, variances, total)
    for node in network.nodes:
        np.testing.assert_allclose(again[node], found[node], atol=1e-9)


def test_the_better_table_counts_for_more() -> None:
    """Means with equal weights would be 1.1 off in the specification's example; here by hand for two tables."""
    network = network_of({"a": 2, "b": 2}, "a>b")
    tables = {"a": np.array([10.0, 20.0]), "b": np.array([[8.0, 8.0], [10.0, 10.0]])}
    found = consistent(network, tables, {"a": 1.0, "b": 2.0}, None)
    # The margin of `b` sums two cells of variance 2, so it weighs a quarter of `a`'s: (4 * 10 + 16) / 5.
    np.testing.assert_allclose(found["a"], [11.2, 20.0])
    np.testing.assert_allclose(found["b"], [[5.6, 5.6], [10.0, 10.0]])


@pytest.mark.parametrize("sampling", [Fraction(1), Fraction(3, 10)])
def test_stages_are_merged_by_their_variances(sampling: Fraction) -> None:
    network = network_of({"a": 2})
    first = dc.NoisyCounts(network, {"a": np.array([30, 12])}, {"a": 2.0})
    second = dc.NoisyCounts(network, {"a": np.array([100, 44])}, {"a": 5.0})
    tables, variances = merged(dc.TwoStageCounts(first, second, sampling))
    share = float(sampling)
    one = laplace_variance(2.0) / share**2 + 72.0 * (1 - share) / share
    two = laplace_variance(5.0)
    expected = [(x / share / one + y / two) / (1 / one + 1 / two) for x, y in ((30, 100), (12, 44))]
    np.testing.assert_allclose(tables["a"], expected)
    assert variances["a"] == pytest.approx(1 / (1 / one + 1 / two))
