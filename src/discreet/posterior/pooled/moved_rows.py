"""Probabilities of a family's rows given its counts, moved to margins that are drawn once each.

A row is drawn from its counts and its pseudo-records. Of hundreds of rows the pseudo-records add up to more than there
are records, and would pull and sharpen what the rows say together: the child's law, and its laws given one parent, or
given all but one. Each of these margins is therefore drawn from its records alone, the Bayesian bootstrap of the rows'
own (Rubin, 1981), with half a record a state: of each state alike for the child's law, and as that law has them in a
slice. The rows are moved to all of them by proportional fitting, which leaves their odds ratios.

The gamma variates of the records are those of the rows: rows of many records say what the margins say, and stay. Rows
are weighted by the parents' law in the same draw, which their margins will be taken with.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from discreet.posterior.pooled.shrinkage import DOUBT_SHARE, FILLED_RECORDS
from discreet.util.arrays import Floats, Ints

Array = npt.NDArray[np.floating]

MARGIN_CONCENTRATION = 0.5
"""Concentration of a state in the prior of a margin: Jeffreys (1946)."""
MOVING_ROUNDS = 5
"""Of proportional fitting."""
LEAST = 1e-30
"""Probability that is never below, so that it can be divided by."""
MOST_MOVED = 1e6
"""A round moves no odds further than this: margins of states that no row expects are not met."""


def draw_moved_rows(counts: Ints, alpha: Floats, weights: Floats, records: Ints, rng: np.random.Generator) -> Floats:
    """Draw the probabilities of a family's rows.

    Args:
        counts: of records, shape `(*parents, child, draws)`, of a parent at least.
        alpha: pseudo-records, same shape.
        weights: law of the parents, shape `(*parents, draws)`.
        records: of all rows, shape (draws,).
        rng: source of randomness.

    Returns:
        Probabilities, same shape; rows without records are draws of Dirichlet(alpha).
    """
    own, theta = _draw_gammas(counts, alpha, rng)
    parents = tuple(range(counts.ndim - 2))
    sums = own.sum(axis=-2, keepdims=True)
    weights = np.where(sums > 0, weights[..., None, :], 0).astype(np.float32)
    told = own * (weights * records / np.maximum(sums, LEAST)).astype(np.float32)
    # The child's law, and given each parent; of two parents these are all but one, of three those come beside them.
    kept = [
        kept for size in sorted({0, 1, len(parents) - 1}) if size < len(parents) for kept in combinations(parents, size)
    ]
    goals, prior = [], np.full(1, MARGIN_CONCENTRATION, np.float32)
    for some in kept:
        axes = tuple(axis for axis in parents if axis not in some)
        wanted = told.sum(axis=axes, keepdims=True)
        beside = np.broadcast_to(prior, wanted.shape)
        if some:
            doubted = (wanted == 0) & (rng.random(wanted.shape, dtype=np.float32) < DOUBT_SHARE)
            slices = wanted.sum(axis=-2, keepdims=True)
            beside = np.maximum(beside, doubted * (slices / (slices + FILLED_RECORDS)))
        wanted += rng.standard_gamma(beside, dtype=np.float32)
        if not some:
            prior = wanted * (MARGIN_CONCENTRATION * counts.shape[-2] / wanted.sum(axis=-2, keepdims=True))
        goals.append((axes, wanted / wanted.sum(axis=-2, keepdims=True), weights.sum(axis=axes, keepdims=True)))
    return _move(theta, weights, goals)


def _draw_gammas(counts: Ints, alpha: Floats, rng: np.random.Generator) -> tuple[Array, Floats]:
    """Gamma variates of the records, and rows drawn from these and the pseudo-records'."""
    own = np.where(counts > 0, rng.standard_gamma(np.maximum(counts, 1)), 0.0)
    # Gamma variates of small shapes underflow to 0; their logarithms do not: log G(a) = log G(a + 1) + log(U) / a.
    logs = np.log(rng.standard_gamma(alpha + 1)) + np.log1p(-rng.random(alpha.shape)) / alpha
    logs -= np.where(own.sum(axis=-2, keepdims=True) > 0, 0, logs.max(axis=-2, keepdims=True))
    theta = np.exp(logs, out=logs)
    theta += own
    theta /= theta.sum(axis=-2, keepdims=True)
    return own.astype(np.float32), theta


def _move(theta: Floats, weights: Array, goals: Sequence[tuple[tuple[int, ...], Array, Array]]) -> Floats:
    """Rows moved to laws of the child in slices, each with the slice's weight; rows of no weight stay as they are."""
    moved = np.maximum(theta, LEAST).astype(np.float32)
    for _ in range(MOVING_ROUNDS if len(goals) > 1 else 2):
        for axes, wanted, whole in goals:
            have = (moved * weights).sum(axis=axes, keepdims=True)
            have /= np.maximum(whole, LEAST)
            np.maximum(have, LEAST, out=have)
            moved *= np.minimum(wanted / have, MOST_MOVED)
            moved /= np.maximum(moved.sum(axis=-2, keepdims=True), LEAST)
    found = np.where(weights > 0, moved, theta).astype(np.float64)
    np.maximum(found, np.finfo(np.float64).tiny, out=found)
    found /= found.sum(axis=-2, keepdims=True)
    return found
