"""How the records of a row are split between its cells: Metropolis steps for pairs of cells, rows and draws at once.

Source: Metropolis et al. (1953), Hastings (1970) for proposals that do not look at where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet.posterior.pooled.cell_weights import Single, cell_weights

Array = npt.NDArray[np.floating]

PAIRINGS_PER_SWEEP = 3
"""Pairs that each cell is in, one after the other."""


def split_pairs(counts: Array, a: Single, told: Array, deviation: float, rng: np.random.Generator) -> None:
    """Draw anew how the records of two cells of each row are split between them, for disjoint pairs; changes `counts`.

    Args:
        counts: shape `(child, *parents, draws)`.
        a: positions of concentrations, same shape.
        told: what the evidence says of each cell, same shape; only differences within a row matter.
        deviation: of its errors.
        rng: source of randomness.
    """
    half = len(counts) // 2
    weights = cell_weights(a, counts)
    # Two states are always the same pair.
    for turn in range(PAIRINGS_PER_SWEEP if len(counts) > 2 else 2):
        order = rng.permutation(len(counts))[: 2 * half]
        one, other = order[:half], order[half:]
        total = counts[order].reshape(2, half, *counts.shape[1:]).sum(axis=0)
        centre = (told[one] - told[other] + total) / 2
        pairs = _Pairs(counts[one], total, centre, deviation / math.sqrt(2), a[order], weights[order])
        pairs.step_by_evidence(rng) if turn else pairs.step_around(rng)
        pairs.step_to_an_end(rng)
        counts[one], counts[other] = pairs.first, total - pairs.first
        weights[order] = pairs.weights


@dataclass(eq=False)
class _Pairs:
    """Pairs of cells of one row each, whose records are split between them.

    Args:
        first: records of the one, whole numbers, shape `(pairs, *parents, draws)`; steps change it.
        total: of both.
        centre: where the evidence has the first.
        spread: standard deviation of the evidence.
        a: positions of the concentrations, of all the ones and then of all the others.
        weights: of the cells in this order; steps change them.
    """

    first: Array
    total: Array
    centre: Array
    spread: float
    a: Single
    weights: Single

    def step_by_evidence(self, rng: np.random.Generator) -> None:
        """Metropolis step with proposals from the normal law of the evidence, rounded.

        Rounding adds a variance of 1/12, which is left out before. The law of what is proposed is then the evidence's
        own to within 1 %, down to a deviation of one record: of two such splits the ratio of their priors decides.
        Below, proposals are spread by one record, and the evidence counts.
        """
        wide = max(self.spread, 1.0)
        proposed = draw_normals(self.first.shape, rng)
        proposed *= math.sqrt(wide**2 - 1 / 12)
        self._step(self._keep_possible(np.rint(self.centre + proposed)), 1 / self.spread**2 - 1 / wide**2, None, rng)

    def step_around(self, rng: np.random.Generator) -> None:
        """Metropolis step with proposals around where it is: where the prior is far from the evidence, none else stays.

        Their law is symmetric: a rounded normal one, of the evidence's spread.
        """
        proposed = draw_normals(self.first.shape, rng)
        proposed *= max(self.spread, 1.0)
        self._step(self._keep_possible(self.first + np.rint(proposed)), 1 / self.spread**2, None, rng)

    def _keep_possible(self, proposed: Array) -> Array:
        """Keep proposals where there are so many records, else what there is."""
        within = ((proposed >= 0) & (proposed <= self.total)).astype(self.first.dtype)
        return self.first + within * (proposed - self.first)

    def step_to_an_end(self, rng: np.random.Generator) -> None:
        """Metropolis step with proposals close to either end, each with even chances: log-uniform in the distance."""
        which = 2 * rng.random(self.first.shape)
        upper = which >= 1
        which -= upper
        which *= np.log(self.total + 2)
        near = np.minimum(np.floor(np.exp(which) - 1), self.total).astype(self.first.dtype)
        far = upper.astype(self.first.dtype)
        # What is below reads `where(upper, total - x, x)`: many times as fast.
        new = near + far * (self.total - 2 * near)
        have = self.first + far * (self.total - 2 * self.first)
        odds = np.log((have + 2) / (have + 1)) / np.log((near + 2) / (near + 1))
        self._step(new, 1 / self.spread**2, odds, rng)

    def _step(self, new: Array, precision: float, odds: Array | None, rng: np.random.Generator) -> None:
        """Go where a step is accepted.

        Args:
            new: records of the one that are proposed.
            precision: of the evidence that is not in the law of the proposals.
            odds: of that law, of what is and of what is proposed; None for 1.
            rng: source of randomness.
        """
        half, step = len(self.first), new - self.first
        weights = cell_weights(self.a, np.concatenate([new, self.total - new]))
        weights -= self.weights
        gain = np.add(weights[:half], weights[half:], dtype=self.first.dtype)
        if precision:
            gain -= precision * step * (self.first + step / 2 - self.centre)
        ratio = np.exp(np.minimum(gain, 60))
        if odds is not None:
            ratio *= odds
        taken = (rng.random(step.shape) < ratio).astype(np.float32)
        self.first += taken * step
        weights.reshape(2, *step.shape)[...] *= taken
        self.weights += weights


def draw_normals(shape: tuple[int, ...], rng: np.random.Generator) -> Single:
    """Standard normal numbers in single precision, below 5.8 in size, by Box and Muller (1958).

    On arrays a quarter of the time that the generator's own take.

    Example:
        >>> drawn = draw_normals((1000,), np.random.default_rng(0))
        >>> drawn.dtype, bool(abs(drawn.mean()) < 0.2)
        (dtype('float32'), True)
    """
    size = math.prod(shape)
    radius, angle = rng.random((2, (size + 1) // 2), dtype=np.float32)
    radius = np.sqrt(-2 * np.log(1 - radius))
    angle *= np.float32(2 * math.pi)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size].reshape(shape)
