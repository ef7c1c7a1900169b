r"""Draws of the law of a measured pair that a network fixes: around what the network expects, as far as tables say.

A table of two variables that the network does not join tells their interaction y, with noise. With p(s) what draw s of
the network says of the pair, n records, phi contrasts of both axes and D the tensor product of the variables'
`diag(q) - q q'`, in contrasts,

    interaction of the records      c  ~  Normal(n phi p(s), (n + n^2 tau^2) D),    y  ~  Normal(c, g I),
    interaction of the population   d  given c:  a share r = tau^2 / (tau^2 + 1 / n) of the way from p(s) to c / n,

tau being the size of the interaction beyond the network. It is drawn, for every draw, from weights over a grid
(`discrepancy.py`) times the likelihood of y. At tau = 0 the network is right of the pair, and its draw stays as it is;
at a large one the law is the Dirichlet's of the records, whatever the network says. Draws and their twins share c.

Source: the conjugate normal law; Jeffreys (1946) for half a record in each cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.inference.interactions import contrast_matrices, transformed
from discreet.util.arrays import Floats

HALF_RECORD = 0.5
"""Concentration of each cell of a pair's records: Jeffreys' prior."""
LEAST_CELL_SHARE = 0.01
"""Part of what the network says of a cell that the cell keeps at least: laws are not negative."""
LEAST_VARIANCE = 1e-300
"""Variance below which nothing is divided by."""


class ToldPair(NamedTuple):
    """What tables tell of a pair.

    Args:
        interaction: coordinates of the interaction of a table of both, shape `(size - 1, size - 1)`; unit: records.
        variance: of their errors.
        records: how many there are.
    """

    interaction: Floats
    variance: float
    records: float


def draw_pair(told: ToldPair, own: Floats, tau: Floats, rng: np.random.Generator) -> PairDraws:
    """Draw the records of a pair under every draw, from which its law and its twins follow.

    Args:
        told: by tables.
        own: what the network says of the pair under every draw, shape `(size, size, draws)`.
        tau: size of the interaction beyond the network, shape (draws,).
        rng: source of randomness.
    """
    sizes, draws, n = own.shape[:2], own.shape[2], max(told.records, 1.0)
    matrices, mean = contrast_matrices(sizes), own.mean(axis=-1)
    (first, left), (second, right) = (
        _turn_to_axes(margin, matrix) for margin, matrix in zip((mean.sum(1), mean.sum(0)), matrices, strict=True)
    )
    spread = first[:, None, None] * second[None, :, None] * (n + (n * tau) ** 2)
    news = told.interaction[..., None] - n * transformed(own, matrices)[1:, 1:]
    gain = spread / np.maximum(spread + told.variance, LEAST_VARIANCE)
    turned = gain * np.einsum("ij,ikd,kl->jld", left, news, right)
    turned += np.sqrt(gain * told.variance) * rng.standard_normal((*gain.shape[:2], draws))
    coordinates = np.zeros((*sizes, draws))
    coordinates[1:, 1:] = np.einsum("ij,jld,kl->ikd", left, turned, right)
    counts = np.maximum(n * own + transformed(coordinates, matrices, back=True), 0) + HALF_RECORD
    return PairDraws(counts, tau**2 / (tau**2 + 1 / n))


class PairDraws(NamedTuple):
    """Records of a pair under every draw.

    Args:
        counts: with half a record in each cell, shape `(size, size, draws)`.
        share: of the way from what the network says to the records, shape (draws,).
    """

    counts: Floats
    share: Floats

    def draw(self, own: Floats, rng: np.random.Generator, step: int = 1) -> Floats:
        """Draw the population's law given the records.

        Args:
            own: what the network says of the pair, of every `step`-th draw; shape `(size, size, picked)`.
            rng: source of randomness.
            step: of the draws that are wanted.

        Returns:
            The same shape; sums are 1.
        """
        counts, share = self.counts[..., ::step], self.share[::step]
        centre, gammas = counts / counts.sum(axis=(0, 1)), rng.standard_gamma(counts)
        scatter = gammas / gammas.sum(axis=(0, 1)) - centre
        moved = np.maximum(own + share * (centre - own) + np.sqrt(share) * scatter, LEAST_CELL_SHARE * own)
        return np.asarray(moved / moved.sum(axis=(0, 1)))


def _turn_to_axes(margin: Floats, matrix: Floats) -> tuple[Floats, Floats]:
    """Variances of a variable's contrasts along the axes on which they are independent, and these axes, as columns."""
    means = matrix[1:] @ margin
    values, vectors = np.linalg.eigh((matrix[1:] * margin) @ matrix[1:].T - np.outer(means, means))
    return np.maximum(values, 0.0), vectors
