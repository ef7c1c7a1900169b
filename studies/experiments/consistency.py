"""Mutual consistency of PriView (Qardaji, Yang and Li, SIGMOD 2014): noisy tables that agree on what they share.

For baselines: the package fits noisy tables by least squares with their noise's variances instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

__all__ = ["consistent", "intersections", "projected"]

Floats = npt.NDArray[np.float64]


def intersections(scopes: Iterable[Iterable[str]]) -> list[frozenset[str]]:
    """The empty set and all intersections of two or more of the scopes, smallest first."""
    whole = [frozenset(scope) for scope in scopes]
    new = {one & other for one, other in combinations(whole, 2)}
    found = {frozenset[str]()}
    while new:
        found |= new
        new = {one & other for one in new for other in whole} - found
    return sorted(found, key=lambda scope: (len(scope), sorted(scope)))


def consistent(tables: Mapping[tuple[str, ...], Floats]) -> dict[tuple[str, ...], Floats]:
    """Tables that agree on all their common margins, each changed as little as its share of the weight asks.

    Args:
        tables: by scope, one axis for each of its variables and a last axis of runs.

    Returns:
        Tables of the same shapes; cells of any sign.

    Source:
        Qardaji, Yang and Li (SIGMOD 2014), Section 4.4, mutual consistency on a set of views.
    """
    agreed = dict(tables)
    for common in intersections(tables):
        order = sorted(common)
        margins = {scope: _margin(table, scope, order) for scope, table in agreed.items() if common <= set(scope)}
        # A margin's cell is a sum of so many of the table's; its weight is the inverse.
        weights = {scope: margin[..., 0].size / agreed[scope][..., 0].size for scope, margin in margins.items()}
        mean = sum(weights[scope] * margin for scope, margin in margins.items()) / sum(weights.values())
        for scope, margin in margins.items():
            agreed[scope] = agreed[scope] + weights[scope] * _spread(mean - margin, scope, order)
    return agreed


def projected(table: Floats) -> Floats:
    """The nearest table without a negative cell and with the same total, for each run; uniform where that is not > 0.

    Args:
        table: any shape, the last axis is of runs.

    Returns:
        The same shape.
    """
    cells = table.reshape(-1, table.shape[-1])
    total = cells.sum(axis=0)
    falling = -np.sort(-cells, axis=0)
    shifts = (np.cumsum(falling, axis=0) - total) / np.arange(1, len(cells) + 1)[:, None]
    last = len(cells) - 1 - np.argmax((falling > shifts)[::-1], axis=0)
    kept = np.maximum(cells - np.take_along_axis(shifts, last[None], axis=0), 0)
    return np.asarray(np.where(total > 0, kept, 1 / len(cells)).reshape(table.shape))


def _margin(table: Floats, scope: Sequence[str], order: Sequence[str]) -> Floats:
    """Sums of cells, axes as in `order` and the runs."""
    summed = table.sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in order))
    kept = [name for name in scope if name in order]
    return np.asarray(summed.transpose([*(kept.index(name) for name in order), len(order)]))


def _spread(margin: Floats, scope: Sequence[str], order: Sequence[str]) -> Floats:
    """A margin along the axes of a scope: length 1 where the margin has no such axis."""
    kept = [name for name in scope if name in order]
    placed = margin.transpose([*(order.index(name) for name in kept), len(order)])
    return np.expand_dims(placed, tuple(axis for axis, name in enumerate(scope) if name not in order))
