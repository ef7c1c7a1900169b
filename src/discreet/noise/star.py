"""Variances and simulation of stars: tables that share variables, with noise that agrees on the shared ones.

`star_noise.py` draws the law exactly. It is symmetric in the cells of the shared variables, and in the cells of a row,
so its errors are uncorrelated in the coordinates of interactions (`inference/interactions.py`). Interactions of shared
variables have the errors of *one* table over these variables, whose cells have the variance `shared`; any other
interaction of a table t has those of a table whose cells have independent errors of variance `rows[t]`.

Both are limits for large scales, in units of the scale squared: integer noise varies less, by 1 % at scale 4, by 2 % at
2, by 8 % at 1. In this limit the number J of positive directions among the d - 1 free ones has the weights, by (1)
there,

    [x^J] product over tables of sum over j of C(m - 1, j)^2 x^j,   times J! (d - 1 - J)!,

and given J the positive and the negative entries of a row sum to at most a ~ Gamma(J + 1) and b ~ Gamma(d - J). A row
with j positive ones among its first m - 1 entries is uniform on two corners of cubes, cut off at these sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from discreet.noise.noise_laws import DiscreteLaplace, NoiseLaw
from discreet.util.arrays import Floats, Ints, of_rows


@dataclass(frozen=True)
class StarVariances:
    """Variances of the noise of a star.

    Args:
        shared: of a cell of the shared variables; records squared.
        rows: for each table, of the independent errors that its other interactions correspond to.
    """

    shared: float
    rows: tuple[float, ...]


@dataclass(frozen=True)
class Star(NoiseLaw):
    """Law of tables whose noise agrees on their shared variables; see `star_noise.py`.

    Args:
        scale: records.
        scopes: variables of each table, at least two.
        shared: the variables of all of them.
        lengths: cells of each table for one cell of the shared variables.
    """

    scopes: tuple[tuple[str, ...], ...]
    shared: tuple[str, ...]
    lengths: tuple[int, ...]
    # Documents name the law of a single table, and list the tables of stars separately.
    tag = DiscreteLaplace.tag
    name, words = DiscreteLaplace.name, DiscreteLaplace.words
    unit, excess, integer = DiscreteLaplace.unit, DiscreteLaplace.excess, True

    @property
    def tied(self) -> tuple[tuple[str, ...], ...]:
        """See `NoiseLaw`."""
        return self.scopes

    @property
    def raw_variance(self) -> float:
        """See `NoiseLaw`: the largest variance of a cell."""
        variances = star_variances(self.lengths, self.scale)
        cells = zip(variances.rows, self.lengths, strict=True)
        return max(rows * (1 - 1 / length) + variances.shared / length**2 for rows, length in cells)

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """Compute logarithms of the probability of tables, up to a constant.

        Args:
            values: rows of all tables in turn, shape (cells of the shared variables, sum of the lengths).
        """
        tables = np.split(np.asarray(values), np.cumsum(self.lengths)[:-1], axis=1)
        return np.asarray(-star_length(tables) / self.scale)

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw rows of all tables in turn, shape `(*shape, sum of the lengths)`."""
        rows = simulated_star(self.lengths, self.scale, shape, rng)
        return np.moveaxis(np.concatenate(rows), 0, -1)

    def simulate_tables(
        self, scope: tuple[str, ...], shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[tuple[str, ...], Floats]:
        """See `NoiseLaw`."""
        blocks = (math.prod(sizes[name] for name in self.shared), shape[-1])
        rows = simulated_star(self.lengths, self.scale, blocks, rng)
        return {
            each: of_rows(np.moveaxis(row, 0, 1), each, self.shared, [sizes[name] for name in each])
            for each, row in zip(self.scopes, rows, strict=True)
        }


def star_length(moved: Sequence[Ints]) -> float:
    """Compute the norm of a star's moves: the loss of its noise at scale 1.

    Args:
        moved: shape (cells of the shared variables, cells of a row), for each table.

    Returns:
        Infinity if rows of one block move by different sums, which noise that agrees on the sums would reveal.

    Example:
        >>> star_length([np.array([[1, 0]]), np.array([[0, 1, 0]])])  # a record moves one entry of each of two tables
        1.0
        >>> star_length([np.array([[1, 0]]), np.array([[0, 0, 0]])])
        inf
    """
    sums = [table.sum(axis=1) for table in moved]
    if any(not np.array_equal(total, sums[0]) for total in sums):
        return math.inf
    return float(np.max([np.abs(table).sum(axis=1) for table in moved], axis=0).sum())


def star_variances(lengths: Sequence[int], scale: float) -> StarVariances:
    """Compute the variances of a star's noise.

    Args:
        lengths: cells of a row of each table, at least 1.
        scale: of the noise; records.

    Returns:
        Records squared. A table whose rows have one cell has only shared interactions, with their variance.

    Source:
        The module's docstring: moments of Gamma laws and of uniform points in simplices.

    Example:
        Six tables with rows of two cells; released separately at a sixth of the budget they would have 72.

        >>> round(star_variances([2] * 6, 1.0).rows[0], 6)
        12.0
    """
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    unit = _compute_variances(tuple(lengths[index] for index in order))
    rows = dict(zip(order, unit.rows, strict=True))
    return StarVariances(unit.shared * scale**2, tuple(rows[index] * scale**2 for index in range(len(lengths))))


def simulated_star(
    lengths: Sequence[int], scale: float, shape: Sequence[int], rng: np.random.Generator
) -> list[Floats]:
    """Draw noise in the limit of large scales: real numbers, fast, for simulations.

    Args:
        lengths: cells of a row of each table.
        scale: records.
        shape: of the blocks, such as (cells of the shared variables, repetitions).
        rng: source of randomness.

    Returns:
        For each table, shape `(length, *shape)`; rows of a block sum to one number.
    """
    count, size = math.prod(shape), 1 + sum(length - 1 for length in lengths)
    tails = [np.ones(1)]
    for length in reversed(lengths):
        tails.append(np.convolve(tails[-1], _square_binomials(length)))
    left = _draw_indices(np.broadcast_to(_weigh_directions(tails.pop(), size), (count, size)), rng)
    a, b = rng.standard_gamma(left + 1) * scale, rng.standard_gamma(size - left) * scale
    noise = []
    for length in lengths:
        after, squares = tails.pop(), _square_binomials(length)
        # Conditional on the number left for this table and those after it.
        behind = left[:, None] - np.arange(length)
        inside = (behind >= 0) & (behind < len(after))
        positive = _draw_indices(np.where(inside, squares * after[np.clip(behind, 0, len(after) - 1)], 0.0), rng)
        left = left - positive
        noise.append(_draw_rows(length, positive, a, b, rng).reshape(length, *shape))
    return noise


def _draw_rows(length: int, positive: Ints, a: Floats, b: Floats, rng: np.random.Generator) -> Floats:
    """Draw rows given the number of positive first entries, and the largest sums of entries of each sign."""
    free = length - 1
    parts = rng.standard_exponential((free, len(a)))
    up = rng.permuted(np.broadcast_to(np.arange(free)[:, None], parts.shape), axis=0) < positive
    # A uniform point of a corner: exponentials divided by the sum of them and one more.
    above, below = (rng.standard_exponential(len(a)) + (parts * side).sum(axis=0) for side in (up, ~up))
    entries = np.where(up, parts * (a / above), -parts * (b / below))
    return np.concatenate([entries, (a - b - entries.sum(axis=0))[None]])


def _draw_indices(weights: Floats, rng: np.random.Generator) -> Ints:
    """Draw an index for each row of weights."""
    ends = np.cumsum(weights, axis=1)
    at = rng.random(len(ends)) * ends[:, -1]
    return np.asarray(np.minimum((ends <= at[:, None]).sum(axis=1), weights.shape[1] - 1), np.int64)


@lru_cache(maxsize=4096)
def _compute_variances(lengths: tuple[int, ...]) -> StarVariances:
    """Compute the variances at scale 1."""
    size = 1 + sum(length - 1 for length in lengths)
    ups = np.arange(size)
    above, below = (ups + 1) * (ups + 2.0), (size - ups) * (size - ups + 1.0)
    every = _weigh_directions(_multiply_tables(lengths), size)
    shared = float((every / every.sum()) @ (above + below - 2 * (ups + 1) * (size - ups)))
    rows = dict[int, float]()
    for length in set(lengths) - {1}:
        others = list(lengths)
        others.remove(length)
        rest, squares_of, j = _multiply_tables(others), _square_binomials(length), np.arange(length)[:, None]
        joint = np.zeros((length, size))
        for up in range(length):
            joint[up, up : up + len(rest)] = squares_of[up] * rest
        joint = _weigh_directions(joint, size)
        squares = 2 * j * above / ((j + 1) * (j + 2)) + 2 * (length - 1 - j) * below / ((length - j) * (length - j + 1))
        cell = float((joint * squares).sum() / joint.sum()) / (length - 1)
        rows[length] = (length * cell - shared / length) / (length - 1)
    return StarVariances(shared, tuple(rows.get(length, shared) for length in lengths))


def _weigh_directions(weights: Floats, size: int) -> Floats:
    """Weigh the number of positive directions by `J! (d - 1 - J)!`, given the weights of choosing their tables."""
    ups = np.arange(size)
    logs = scipy.special.gammaln(ups + 1) + scipy.special.gammaln(size - ups)
    return np.asarray(weights * np.exp(logs - logs.max()))


def _multiply_tables(lengths: Sequence[int]) -> Floats:
    """Compute coefficients of a product over tables, which sum to 1."""
    product = np.ones(1)
    for length in lengths:
        product = np.convolve(product, _square_binomials(length))
    return product


@lru_cache(maxsize=256)
def _square_binomials(length: int) -> Floats:
    """Compute squared binomial coefficients, with sum 1: the law of the number of positive free directions of a row."""
    squares = np.array([math.comb(length - 1, j) ** 2 / math.comb(2 * length - 2, length - 1) for j in range(length)])
    squares.flags.writeable = False
    return squares
