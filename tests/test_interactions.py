"""Interactions of tables: round trips, orthogonality, and pooled variances against least squares by matrices."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.inference.interactions import (
    Blur,
    cell_variance,
    centred,
    contrast_matrices,
    pooled_variances,
    subsets,
    transformed,
)
from discreet.model.schema import Scope
from discreet.util.arrays import margin
from folding import every
from oracle import interactions, spread
from tiny import network_of

NAMES = "abcd"


def over(sizes: tuple[int, ...]) -> tuple[dc.Network, Scope]:
    """Variables without arcs, and all of their names."""
    network = network_of(dict(zip(NAMES, sizes, strict=False)))
    return network, network.nodes


SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def random_table(sizes: tuple[int, ...], seed: int, repetitions: tuple[int, ...] = ()) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(*sizes, *repetitions))


def test_subsets_come_once_smaller_ones_first() -> None:
    assert subsets([("a", "b"), ("b", "c")]) == ((), ("a",), ("b",), ("c",), ("a", "b"), ("b", "c"))
    assert subsets([]) == ()
    assert subsets([()]) == ((),)


def test_margin_keeps_the_order_of_the_scope() -> None:
    table = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(margin(table, ("a", "b", "c"), ("c", "a")), table.sum(axis=1).T)
    np.testing.assert_array_equal(margin(table, ("a", "b", "c"), "abc"), table)
    np.testing.assert_array_equal(margin(table, ("a", "b", "c"), "cab"), np.moveaxis(table, -1, 0))
    assert margin(table, ("a", "b", "c"), ()) == table.sum()


@given(SIZES, st.integers(0, 2**32 - 1), st.sampled_from([(), (3,), (2, 2)]))
def test_a_table_is_the_sum_of_its_interactions(sizes: tuple[int, ...], seed: int, extra: tuple[int, ...]) -> None:
    network, scope = over(sizes)
    table = random_table(sizes, seed, extra)
    found = interactions(table, scope)
    assert set(found) == set(subsets([scope]))
    np.testing.assert_allclose(spread(network, found, scope), table, atol=1e-12)
    for subset, part in found.items():
        assert part.shape == (*(network.schema[name].size for name in subset), *extra)
        for axis in range(len(subset)):
            np.testing.assert_allclose(part.sum(axis=axis), 0, atol=1e-11)


@given(SIZES, st.integers(0, 2**32 - 1))
def test_the_parts_are_orthogonal_and_margins_share_them(sizes: tuple[int, ...], seed: int) -> None:
    network, scope = over(sizes)
    table = random_table(sizes, seed)
    found = interactions(table, scope)
    parts = {subset: spread(network, {subset: part}, scope) for subset, part in found.items()}
    for one, other in combinations(parts.values(), 2):
        assert abs(float((one * other).sum())) < 1e-11
    for kept in subsets([scope]):
        smaller = spread(network, found, kept)
        np.testing.assert_allclose(smaller, margin(table, scope, kept), atol=1e-11)


def test_what_is_absent_counts_as_zero_and_strangers_are_ignored() -> None:
    network, scope = over((2, 3))
    table = random_table((2, 3), 1)
    found = interactions(table, scope)
    alone = spread(network, {("a",): found[("a",)], ("c",): np.ones(7)}, scope)
    np.testing.assert_allclose(alone, np.repeat(found[("a",)][:, None] / 3, 3, axis=1), atol=1e-14)
    np.testing.assert_array_equal(spread(network, {}, scope), np.zeros((2, 3)))


def test_centred_leaves_repetitions_alone() -> None:
    table = random_table((3, 2), 2, (5,))
    np.testing.assert_allclose(centred(table, 2)[..., 3], centred(table[..., 3], 2), atol=1e-14)
    np.testing.assert_array_equal(centred(table, 0), table)


# ------------------------------------------------------------------------------------------------- coordinates


@every("size", [1, 2, 3, 7, 40])
def test_contrasts_are_orthonormal_with_a_constant_first_row(size: int) -> None:
    (matrix,) = contrast_matrices([size])
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-13)
    np.testing.assert_allclose(matrix[0], size**-0.5, rtol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 2


@given(SIZES, st.integers(0, 2**32 - 1), st.sampled_from([(), (3,), (2, 2)]))
def test_coordinates_are_those_of_the_interactions(sizes: tuple[int, ...], seed: int, extra: tuple[int, ...]) -> None:
    network, scope = over(sizes)
    table = random_table(sizes, seed, extra)
    matrices = contrast_matrices(sizes)
    values = transformed(table, matrices)
    assert values.shape == table.shape
    np.testing.assert_allclose(transformed(values, matrices, back=True), table, atol=1e-12)
    for subset, part in interactions(table, scope).items():
        place = tuple(slice(1, None) if name in subset else slice(0, 1) for name in scope)
        only = np.zeros(values.shape)
        only[place] = values[place]
        np.testing.assert_allclose(
            transformed(only, matrices, back=True), spread(network, {subset: part}, scope), atol=1e-12
        )


def test_a_transformation_of_one_axis_is_its_matrix() -> None:
    table = random_table((3,), 3)
    (matrix,) = contrast_matrices([3])
    np.testing.assert_allclose(transformed(table, (matrix,)), matrix @ table, atol=1e-14)


# --------------------------------------------------------------------------------------------- pooled variances


@st.composite
def covers(draw: st.DrawFn) -> tuple[dc.Network, dict[Scope, float]]:
    """A few overlapping sets of at most four variables of one to three states, with variances."""
    network, names = over(draw(st.lists(st.integers(1, 3), min_size=2, max_size=4).map(tuple)))
    masks = draw(st.lists(st.integers(1, 2 ** len(names) - 1), min_size=1, max_size=4, unique=True))
    scopes = [tuple(name for i, name in enumerate(names) if mask >> i & 1) for mask in masks]
    return network, {scope: 10.0 ** draw(st.floats(-3, 6)) for scope in scopes}


def summing(network: dc.Network, scope: Scope) -> np.ndarray:
    """The matrix from the joint table to one over a scope."""
    shape = [variable.size for variable in network.schema]
    cells = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape))
    at = np.zeros(cells.shape[1], int)
    for name in scope:
        at = at * network.schema[name].size + cells[network.nodes.index(name)]
    return (at == np.arange(network.cells(scope))[:, None]).astype(float)


@settings(deadline=None, max_examples=60)
@given(covers())
def test_pooled_variances_are_those_of_least_squares(cover: tuple[dc.Network, dict[Scope, float]]) -> None:
    network, variances = cover
    pooled = pooled_variances(network, {scope: Blur(variance) for scope, variance in variances.items()})
    assert set(pooled) == set(subsets(variances))
    rows = np.concatenate([summing(network, scope) / math.sqrt(v) for scope, v in variances.items()])
    covariance = np.linalg.pinv(rows.T @ rows, rcond=1e-13, hermitian=True)
    for scope in variances:
        for subset in subsets([scope]):
            to = summing(network, subset)
            exact = to @ covariance @ to.T
            np.testing.assert_allclose(np.diag(exact), cell_variance(network, pooled, subset), rtol=1e-5)
            centring = np.ones((1, 1))
            for name in subset:
                size = network.schema[name].size
                centring = np.kron(centring, np.eye(size) - 1 / size)
            np.testing.assert_allclose(
                centring @ exact @ centring.T, pooled[subset] * centring, rtol=1e-5, atol=1e-5 * exact.max()
            )


def test_one_table_tells_its_cells_with_its_own_variance() -> None:
    network, scope = over((2, 3, 1))
    pooled = pooled_variances(network, {scope: Blur(7.0)})
    assert cell_variance(network, pooled, scope) == pytest.approx(7.0)
    assert cell_variance(network, pooled, ("a",)) == pytest.approx(21.0)
    assert pooled[()] == pytest.approx(42.0)
    twice = pooled_variances(network, {scope: Blur(14.0), ("a", "b"): Blur(14.0)})
    assert cell_variance(network, twice, ("a", "b")) == pytest.approx(7.0)


def test_order_of_the_tables_does_not_matter() -> None:
    network, _ = over((2, 3, 2))
    variances = {("a", "b"): 3.0, ("b", "c"): 0.5, ("c",): 9.0}
    backwards = dict(reversed(variances.items()))
    one, other = (
        pooled_variances(network, {scope: Blur(variance) for scope, variance in order.items()})
        for order in (variances, backwards)
    )
    assert one == pytest.approx(other)
