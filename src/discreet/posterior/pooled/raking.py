"""Counts of a family moved to another margin of its child: as little as can be, rows keeping their records.

Of all tables with the wanted margins, proportional fitting finds the one of least relative entropy to that which it
starts from: odds ratios stay (Deming and Stephan, 1940; Csiszar, 1975).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.model.arrays import Floats, Ints

__all__ = ["rake_counts", "rake_part"]


EMPTY_CELL_RECORDS = 0.02
"""Records that an empty cell of a row with records is taken to have, so that it can be filled; with five times as many
or as few no stratum's coverage moves by more than .3 points, nor a width but of what is 0 or 1 (3 %)."""
RAKING_ROUNDS = 8
"""Of proportional fitting."""
LEAST_MARGIN_RECORDS = 1e-9
"""Records that a margin is taken to have at least, so that it can be scaled."""


def rake_counts(counts: Ints, margin: Ints, rng: np.random.Generator) -> Ints:
    """Move counts of a family to a margin of its child.

    Args:
        counts: shape `(*parents, child, draws)`.
        margin: records of each state of the child, shape (child, draws), of as many records.
        rng: rounds.

    Returns:
        Whole counts, same shape; every row has as many records as before, and the margin is met but for rounding
        and for what eight rounds leave.

    Example:
        >>> counts = np.array([[[8], [2]], [[5], [5]]])  # two rows of ten records, two states, one draw
        >>> moved = rake_counts(counts, np.array([[10], [10]]), np.random.default_rng(0))
        >>> moved.sum(axis=1)[:, 0].tolist(), bool(abs(moved[:, 0].sum() - 10) <= 2)
        ([10, 10], True)
    """
    rows = counts.reshape(-1, *counts.shape[-2:])
    totals = rows.sum(axis=1, keepdims=True)
    cells = np.where(rows > 0, rows, EMPTY_CELL_RECORDS * (totals > 0))
    for _ in range(RAKING_ROUNDS):
        cells *= np.maximum(margin, LEAST_MARGIN_RECORDS) / np.maximum(cells.sum(axis=0), LEAST_MARGIN_RECORDS)
        cells *= totals / np.maximum(cells.sum(axis=1, keepdims=True), LEAST_MARGIN_RECORDS)
    return _round_rows(cells, totals, rng).reshape(counts.shape)


def rake_part(counts: Ints, kept: Sequence[int], part: Ints, rng: np.random.Generator) -> Ints:
    """Move counts of a family to those of a part of it, that is of its child and some of its parents.

    Args:
        counts: shape `(*parents, child, draws)`.
        kept: axes of the part's parents among those of the family, in the order of the part.
        part: shape `(*parents of the part, child, draws)`, with as many records in each row as the family has there.
        rng: rounds.

    Returns:
        Whole counts, same shape, as of `rake_counts` for each row of the part.
    """
    *sizes, states, draws = counts.shape
    left = [axis for axis in range(len(sizes)) if axis not in kept]
    order = [*left, len(sizes), *kept, len(sizes) + 1]
    turned = counts.transpose(order)
    rows = math.prod(sizes[axis] for axis in kept)
    wanted = np.moveaxis(part.reshape(rows, states, draws), 1, 0).reshape(states, rows * draws)
    moved = rake_counts(turned.reshape(-1, states, rows * draws), wanted, rng).reshape(turned.shape)
    return np.ascontiguousarray(moved.transpose(np.argsort(order)))


def _round_rows(cells: Floats, totals: Ints, rng: np.random.Generator) -> Ints:
    """Systematic rounding along each row: every cell up or down, on average exactly, and rows keep their totals."""
    running = cells.cumsum(axis=1)
    ends = np.minimum(np.floor(running + rng.random(totals.shape)), totals)
    ends[:, -1:] = totals
    return np.diff(ends, axis=1, prepend=0).astype(np.int64)
