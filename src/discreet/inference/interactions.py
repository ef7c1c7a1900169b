"""Interactions: the orthogonal decomposition of tables by sets of variables, shared by overlapping tables.

The margin of a table over a subset S, centred along every axis, is the interaction of S: a table over S whose sums
along each axis are 0 (for the empty set: the total). A table is the sum of its subsets' interactions, each spread
evenly over the cells of the other variables,

    t[x] = sum over S in scope(t) of interaction_S[x_S] |S| / |t|        (|S|: cells of a table over S),

and these parts are orthogonal. Noise that is independent with equal variance v in the cells of t is therefore
independent between interactions: that of S has covariance `v |t| / |S|` times the projection on tables centred along
every axis. Hence least squares over many noisy tables needs no linear solver: each interaction is the mean over the
tables that contain S, weighted by `|S| / (v_t |t|)`.

Source: analysis of variance of factorial designs; Xiao, He, Zhang and Kifer (2023), ResidualPlanner, for private
margins.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.util.arrays import Floats

Kind = TypeVar("Kind", bound=np.floating)

MOST_VARIABLES = 14
"""Largest number of variables of a table that is decomposed: it has 16,384 interactions."""


@dataclass(frozen=True)
class Blur:
    """Noise variances of the interactions of a table, as variances of equivalent independent cell errors.

    Args:
        rows: variance of independent cell errors that would have the same effect on an interaction as the noise.
        shared: set of variables; interactions of its subsets have the variance `inside`. None have if it is empty.
        inside: the equivalent variance for these.
    """

    rows: float
    shared: frozenset[str] = frozenset()
    inside: float = 0.0

    def variance(self, subset: Collection[str]) -> float:
        """Return the equivalent noise variance of the interaction of some of the table's variables."""
        return self.inside if self.shared and self.shared.issuperset(subset) else self.rows


def subsets(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """List every subset of some scopes once, smaller ones first; names keep their order in the scopes.

    Example:
        >>> subsets([("a", "b"), ("b", "c")])
        ((), ('a',), ('b',), ('c',), ('a', 'b'), ('b', 'c'))
    """
    unique = dict.fromkeys(
        subset for scope in scopes for size in range(len(scope) + 1) for subset in combinations(scope, size)
    )
    return tuple(sorted(unique, key=len))


def positions(scope: Sequence[str]) -> Iterator[tuple[Scope, tuple[slice, ...]]]:
    """Yield the index of each interaction's coordinates in a transformed table.

    Args:
        scope: names of the table's axes, in any order.

    Yields:
        Each subset, names in the order of the scope, and the index that is above 0 on exactly its axes.

    Example:
        >>> [inside for inside, _ in positions(["a", "b"])]
        [(), ('b',), ('a',), ('a', 'b')]
    """
    for present in product((False, True), repeat=len(scope)):
        inside = tuple(name for name, there in zip(scope, present, strict=True) if there)
        yield inside, tuple(slice(1, None) if there else slice(0, 1) for there in present)


def centred(table: Floats, axes: int) -> Floats:
    """Subtract the means along each of a table's first `axes` axes; further axes are repetitions.

    Example:
        >>> centred(np.array([[3.0, 1.0], [1.0, 3.0]]), axes=2).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    for axis in range(axes):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def contrast_matrices(sizes: Iterable[int]) -> tuple[Floats, ...]:
    """Return orthonormal Helmert matrices, whose first row is constant, one for each axis of a table.

    They transform a table to as many coordinates as it has cells. The coordinates of the interaction of S are those
    whose index is above 0 on the axes of S and 0 on all others.

    Args:
        sizes: lengths of the axes.

    Returns:
        A matrix of shape (size, size) for each axis; read-only and cached.

    Example:
        >>> (matrix,) = contrast_matrices([3])
        >>> np.allclose(matrix @ matrix.T, np.eye(3)), bool(np.ptp(matrix[0]) == 0)
        (True, True)
    """
    return tuple(_make_contrasts(size) for size in sizes)


def interaction_contrasts(sizes: Iterable[int]) -> Floats:
    """Compute the contrasts of the interaction of all axes of a table, as a Kronecker product.

    Args:
        sizes: lengths of the axes.

    Returns:
        Orthonormal rows over the cells of the flattened table; shape (contrasts, cells).

    Example:
        >>> interaction_contrasts([2, 2]).round(6).tolist()
        [[0.5, -0.5, -0.5, 0.5]]
    """
    contrasts: Floats = np.ones((1, 1))
    for matrix in contrast_matrices(sizes):
        contrasts = np.asarray(np.kron(contrasts, matrix[1:]), np.float64)
    return contrasts


@lru_cache(maxsize=256)
def from_neighbours(size: int) -> Floats:
    """Compute the matrix from differences of neighbouring states of an axis to its coordinates in `contrast_matrices`.

    Args:
        size: length of the axis.

    Returns:
        Shape (size - 1, size - 1), to multiply the differences (state k less state k + 1) from the left.

    Example:
        >>> from_neighbours(2).round(3).tolist()
        [[0.707]]
    """
    differences = np.eye(size)[:, :-1] - np.eye(size)[:, 1:]
    matrix: Floats = np.linalg.inv(_make_contrasts(size)[1:] @ differences).astype(np.float64)
    matrix.flags.writeable = False
    return matrix


def transformed(
    table: npt.NDArray[Kind], matrices: Sequence[npt.NDArray[Kind]], *, back: bool = False
) -> npt.NDArray[Kind]:
    """Transform a table to the coordinates of its interactions, or back.

    Args:
        table: one axis for each matrix, then any axes of repetitions.
        matrices: orthonormal matrices, one for each axis.
        back: whether to transform coordinates to cells, by the transposed matrices.

    Returns:
        An array of the same shape.

    Example:
        >>> table = np.array([[3.0, 1.0], [1.0, 3.0]])
        >>> matrices = contrast_matrices(table.shape)
        >>> there = transformed(table, matrices)
        >>> there.round(6).tolist(), np.allclose(transformed(there, matrices, back=True), table)
        ([[4.0, 0.0], [0.0, 2.0]], True)
    """
    shape, before = table.shape, 1
    for matrix in matrices:
        size = len(matrix)
        table = np.matmul(matrix.T if back else matrix, table.reshape(before, size, -1))
        before *= size
    return table.reshape(shape)


@lru_cache(maxsize=256)
def _make_contrasts(size: int) -> Floats:
    """Build Helmert's matrix (cached): row j contrasts state j with the mean of those before it."""
    matrix = np.tril(np.ones((size, size)), -1) - np.diag(np.arange(size, dtype=np.float64))
    matrix[0] = 1
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix.flags.writeable = False
    return matrix


def pooled_variances(network: Network, blurs: Mapping[Scope, Blur]) -> dict[Scope, float]:
    """Compute the noise variance of each interaction in the least-squares fit of several noisy tables.

    Args:
        network: network that gives the variables' sizes.
        blurs: noise variances of each table by scope; unit: records squared. All scopes name variables in one order.

    Returns:
        g_S for every subset S of a scope: the least-squares estimate of its interaction has covariance g_S times the
        projection on centred tables.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> pooled_variances(network, {("a",): Blur(1.0), ("a", "b"): Blur(1.0)})[("a",)] < 1.0  # two tables tell a
        True
    """
    weights = dict.fromkeys(subsets(blurs), 0.0)
    for scope, blur in blurs.items():
        cells = network.cells(scope)
        for subset in subsets([scope]):
            # Precision |S| / (v |t|) of the interaction of S in table t.
            weights[subset] += network.cells(subset) / (blur.variance(subset) * cells)
    return {subset: 1 / weight for subset, weight in weights.items()}


def cell_variance(network: Network, pooled: Mapping[Scope, float], scope: Scope) -> float:
    """Compute the variance of a cell of the least-squares table over a scope, equal for all cells.

    Args:
        network: network that gives the variables' sizes.
        pooled: result of `pooled_variances`.
        scope: subset of a measured scope, names in the same order.

    Returns:
        The variance, records squared.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> cell_variance(network, pooled_variances(network, {("a", "b"): Blur(4.0)}), ("a", "b"))
        4.0
    """
    cells = network.cells(scope)
    # g_S (|S| / |t|)^2 times the projection's diagonal, prod over S of (1 - 1 / size).
    return sum(
        pooled[subset] * network.cells(subset) / cells**2 * math.prod(network.schema[name].size - 1 for name in subset)
        for subset in subsets([scope])
    )
