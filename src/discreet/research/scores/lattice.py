r"""Rows of probabilities on a public grid: a trimmed Dirichlet law with exact draws.

A row with K states, floor w and resolution G is on the grid

    theta_k = w + (1 - K w) m_k / G,      m_1 + ... + m_K = G,      m_k whole numbers,

so every probability is between w and 1 - (K - 1) w. The law `P(theta) ~ prod_k theta_k^(e_k)` on it is the posterior
of a row under a prior on the grid. A finite law can be drawn exactly for any exponents: coordinate by coordinate, each
given the previous ones, from sums over all ways to distribute the remaining units. There is no rejection, no Markov
chain and no inverse of a distribution function that could fail in a tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from discreet.errors import InputError
from discreet.util.arrays import Floats, Ints

BINARY_STEPS = 2048
"""Steps of the grid for two states: finer than any relevant noise."""
SHARED_STEPS = 768
"""Total steps for K > 2 states: the sums cost the square of the steps for each state."""
LEAST_STEPS = 128
"""Least steps for any number of states."""
LARGEST_EXPONENT = 1e9
"""Largest exponent in the comparison with exact arithmetic; see `lattice_law`."""


def resolution_for(size: int) -> int:
    """Choose the steps of the grid for a number of states; public.

    Example:
        >>> resolution_for(2), resolution_for(3), resolution_for(40)
        (2048, 256, 128)
    """
    return BINARY_STEPS if size <= 2 else max(SHARED_STEPS // size, LEAST_STEPS)


@dataclass(frozen=True, eq=False)
class LatticeLaw:
    """Law of one row on the grid.

    Args:
        floor: w, smallest probability.
        log_factors: `e_k log theta_k` at every step of coordinate k, up to a constant for each k; shape (K, G + 1).
        log_rest: logarithm of the sum over all ways to distribute m units among the coordinates k and later; shape
            (K, G + 1).
    """

    floor: float
    log_factors: Floats
    log_rest: Floats

    @property
    def size(self) -> int:
        """Number of states, K."""
        return len(self.log_factors)

    @property
    def resolution(self) -> int:
        """Number of steps, G."""
        return int(self.log_factors.shape[1]) - 1

    def weights(self, k: int, left: int) -> Floats:
        """Compute the law of coordinate k, up to a constant, if `left` units remain for it and the later ones.

        Args:
            k: coordinate, 0 to K - 2.
            left: remaining units, 0 to G.

        Returns:
            Weights of m = 0..left, the largest is 1; those below exp(-745) underflow to 0.
        """
        logs = self.log_factors[k, : left + 1] + self.log_rest[k + 1, left::-1]
        return np.asarray(np.exp(logs - logs.max()))

    def draw(self, pick: Callable[[Floats, int], Ints], draws: int) -> Ints:
        """Draw independent rows.

        Args:
            pick: draws a number of indices with probabilities proportional to weights.
            draws: number of rows.

        Returns:
            Units m of each coordinate, shape (K, draws).
        """
        units = np.zeros((self.size, draws), np.int64)
        if self.size == 1:
            units[0] = self.resolution
            return units
        units[0] = pick(self.weights(0, self.resolution), draws)
        for k in range(1, self.size - 1):
            left = self.resolution - units[:k].sum(axis=0)
            units[k] = [pick(self.weights(k, int(room)), 1)[0] for room in left]
        units[-1] = self.resolution - units[:-1].sum(axis=0)
        return units

    def probabilities(self, units: Ints) -> Floats:
        """Convert units to rows: `w + (1 - K w) m / G`."""
        if self.size == 1:
            return np.ones_like(units, np.float64)
        return self.floor + (1 - self.size * self.floor) * units / self.resolution


def lattice_law(exponents: Floats, floor: float, resolution: int) -> LatticeLaw:
    """Tabulate the law `P(theta) ~ prod_k theta_k^(e_k)` on the grid.

    Args:
        exponents: e, shape (K,), finite, each greater than -1; concentrations minus 1.
        floor: w, greater than 0 and less than 1 / K; not used for one state.
        resolution: G, steps of the grid.

    Returns:
        The law. The logarithm of a row's probability is accurate to 1e-8 for exponents up to 1e9, if it is within 700
        of the largest (the largest error against exact arithmetic was 6e-9).

    Raises:
        InputError: a floor that leaves no grid.
    """
    size = len(exponents)
    if size > 1 and not 0 < floor < 1 / size:
        raise InputError(f"the floor of {size} states must be greater than 0 and less than 1/{size}, got {floor}")
    steps = np.arange(resolution + 1) / resolution
    theta = floor + (1 - size * floor) * steps if size > 1 else np.ones(resolution + 1)
    # Logarithms are relative to the mode: near it they and their rounding errors are small.
    share = np.maximum(exponents, 0) + 1e-300
    mode = np.clip(share / share.sum(), theta[0], theta[-1])
    gap = (theta - mode[:, None]) / mode[:, None]
    log_ratio = np.where(gap < -0.5, np.log(theta) - np.log(mode[:, None]), np.log1p(np.maximum(gap, -0.5)))
    log_factors = exponents[:, None] * log_ratio
    log_rest = np.empty_like(log_factors)
    log_rest[-1] = log_factors[-1]
    for k in range(size - 2, 0, -1):
        log_rest[k] = _log_convolve(log_factors[k], log_rest[k + 1])
    log_rest[0] = math.nan  # never read: all coordinates together have G units
    return LatticeLaw(floor, log_factors, log_rest)


def _log_convolve(first: Floats, second: Floats) -> Floats:
    """Convolve two tables of logarithms: the logarithm of the convolution, at 0 to G."""
    size = len(first)
    padded = np.concatenate([np.full(size - 1, -np.inf), second])
    # Row m is a view of second[m], second[m - 1], ..., filled with -inf.
    terms = first + sliding_window_view(padded, size)[:, ::-1]
    peak = terms.max(axis=1)
    terms -= peak[:, None]
    np.exp(terms, out=terms)
    return np.asarray(peak + np.log(terms.sum(axis=1)))
