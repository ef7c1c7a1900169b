"""Counts of a parent and the child, drawn from what is told of their own table alone, and given both of its margins.

Rows of a family have a prior each. What hundreds of them say together of how the child depends on one parent nobody
meant: a table of the two has one prior of its own, and its counts are drawn from the evidence on their interaction.
Given both margins, with shares w and q of N records, the interaction is normal around that of independent counts with
the covariance

    (N + N^2 tau^2)  (diag(w) - w w')  x  (diag(q) - q q')

in cells: N for records that fell independently of each other (the multivariate hypergeometric law), and tau for how far
the two depend on each other: their mean-square contingency is about tau^2 for each coordinate. Each draw picks tau
among a few by the likelihood of the evidence. Both factors have a basis of their own, in which all coordinates are
independent of each other, of noise, too.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet.inference.interactions import contrast_matrices
from discreet.noise.noise_laws import KNOWN_VARIANCE
from discreet.posterior.pooled.raking import by_child, counts_of, goal, rake_to
from discreet.util.arrays import Floats, Ints

DEPENDENCES: npt.NDArray[np.float64] = np.array([0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64])
"""tau, all as likely: none, and a factor of 2 apart up to where any evidence outweighs it."""


def draw_pair_counts(values: Floats, variance: float, rows: Ints, child: Ints, rng: np.random.Generator) -> Ints:
    """Draw the counts of a parent and the child.

    Args:
        values: coordinates of their interaction as they are told, shape `(parent - 1, child - 1)`.
        variance: of the error of each.
        rows: records of the parent's states, shape (parent, draws).
        child: of the child's, shape (child, draws).
        rng: source of randomness.

    Returns:
        Whole counts, shape (parent, child, draws), with the row totals, and the child's margin but for rounding.
    """
    records = np.maximum(rows.sum(axis=0), 1.0)
    (left, right), shares = contrast_matrices((len(rows), len(child))), (rows / records, child / records)
    expected = rows[:, None] * shares[1]
    (scale, basis), (other, turned) = _diagonal(shares[0], left), _diagonal(shares[1], right)
    turn = basis.T @ left[1:], turned.T @ right[1:]
    news = np.einsum("ia,jb,abd->ijd", *turn, -expected, optimize=True) + (basis.T @ values @ turned)[..., None]
    share = scale[:, None] * other
    own = (records + (records * DEPENDENCES[:, None]) ** 2)[:, None, None] * share[..., None]
    told = own + max(variance, KNOWN_VARIANCE)
    fit = -0.5 * (np.log(told) + news**2 / told).sum(axis=(1, 2)) if news.size else np.zeros((len(own), len(records)))
    chances = np.exp(fit - fit.max(axis=0)).cumsum(axis=0)
    picked = (rng.random(len(records)) * chances[-1] >= chances[:-1]).sum(axis=0)
    gain = np.take_along_axis(own / told, picked[None, None, None], axis=0)[0]
    drawn = gain * news + np.sqrt(gain * max(variance, KNOWN_VARIANCE)) * rng.standard_normal(news.shape)
    cells = np.maximum(expected + np.einsum("ia,jb,ijd->abd", *turn, drawn, optimize=True), 0)
    return counts_of(rake_to(by_child(cells), rows, [goal(1, (), child)], rng))


def _diagonal(shares: Floats, contrasts: Floats) -> tuple[Floats, Floats]:
    """Variances of one factor and their basis in the contrasts' coordinates, of the mean share of all draws."""
    mean = shares.mean(axis=-1)
    scales, basis = np.linalg.eigh(contrasts[1:] @ (np.diag(mean) - np.outer(mean, mean)) @ contrasts[1:].T)
    return np.maximum(scales, math.ulp(1.0)), basis
