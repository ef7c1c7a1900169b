"""Rows of a family that was not measured whole: spread around the rows of the part that was, or drawn from the prior.

The part has the child and some of its parents. A row of it is the mean of the family's rows with the same states of
these parents, weighted by their records; how they differ was not measured, and is left to the prior: Dirichlet around
the part's row. Under the learned prior each row picks its concentration as the rows of the part do, with the weights of
the components that they ended with. (A component that takes no notice of other rows would be around the uniform row;
here it is around the part's, because rows that all went elsewhere would not have it for their mean.) The counts that
rows then draw are moved to the counts of the part, as little as can be.

Of a family of which nothing was measured, rows are draws of the prior that is given, or are spread like that around a
row of their own that is drawn from Dirichlet(1/2), the prior of a child's margin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.model.dirichlet import dirichlet_draws
from discreet.posterior.pooled.cell_weights import BACK_OFF_CONCENTRATIONS, COMPONENTS, LEAST_MEAN, LONE_CONCENTRATIONS
from discreet.posterior.pooled.moved_rows import MARGIN_CONCENTRATION
from discreet.posterior.pooled.raking import rake_counts
from discreet.posterior.pooled.shrinkage import PRIOR_WORTH_ROWS, Rows
from discreet.util.arrays import Floats, Ints

SPREAD_CELLS_AT_ONCE = 2**22
"""Cells that are drawn together: some hundred MB."""


def spread_rows(
    part: Rows,
    kept: Sequence[int],
    totals: Ints,
    weights: Floats,
    rng: np.random.Generator,
    alpha: Floats | None = None,
) -> Rows:
    """Draw all rows of a family around those of a part of it.

    Args:
        part: draws of the part's rows, parents in the order of the family.
        kept: positions of the part's parents among those of the family.
        totals: records in each row of the family, shape `(*parents, draws)`; those of the part are their sums.
        weights: prior mean of the components' weights, shape (COMPONENTS,).
        rng: source of randomness.
        alpha: concentrations, shape `(*parents, child)`, instead of the learned prior.

    Returns:
        A draw for each of the part's. Without a prior that is given the means are those of the part, repeated.
    """
    *sizes, draws = totals.shape
    states = part.counts.shape[-2]
    left = [axis for axis in range(len(sizes)) if axis not in kept]
    order = [*kept, *left]
    rows, of_each = (math.prod(sizes[axis] for axis in axes) for axes in (kept, left))
    grouped = totals.transpose(*order, len(sizes)).reshape(rows, of_each, draws)
    given = None if alpha is None else alpha.transpose(*order, len(sizes)).reshape(rows, of_each, states)
    block = max(SPREAD_CELLS_AT_ONCE // (rows * of_each * states), 1)
    found = [
        _spread_block(part, slice(first, first + block), grouped, weights, given, rng)
        for first in range(0, draws, block)
    ]
    shape = [*(sizes[axis] for axis in order), states]
    back = [*np.argsort(order).tolist(), len(sizes)]

    def ordered(place: int) -> Floats:
        """One of the three arrays, with the parents' own order again."""
        table = np.concatenate([each[place] for each in found], axis=-1)
        return np.ascontiguousarray(table.reshape(*shape, draws).transpose(*back, len(back)))

    counts, concentrations, theta = ordered(0).astype(np.int64), ordered(1), ordered(2)
    if alpha is not None:
        mean = ((counts + concentrations) / (counts + concentrations).sum(axis=-2, keepdims=True)).mean(axis=-1)
    else:
        repeated = [size if axis in kept else 1 for axis, size in enumerate(sizes)]
        mean = np.broadcast_to(part.mean.reshape(*repeated, states), (*sizes, states)).copy()
    return Rows(counts, concentrations, theta, mean, part.usage)


def unmeasured_rows(
    totals: Ints, states: int, weights: Floats, rng: np.random.Generator, alpha: Floats | None = None
) -> Rows:
    """Draw all rows of a family of which nothing was measured.

    Args:
        totals: records in each row, shape `(*parents, draws)`.
        states: of the child.
        weights: prior mean of the components' weights, shape (COMPONENTS,).
        rng: source of randomness.
        alpha: concentrations, shape `(*parents, child)`, instead of the learned prior.

    Returns:
        A draw for each last entry of the totals.
    """
    if alpha is None and totals.ndim > 1:
        records = totals.sum(axis=tuple(range(totals.ndim - 1)))
        return spread_rows(unmeasured_rows(records, states, weights, rng), [], totals, weights, rng)
    given = np.full(states, MARGIN_CONCENTRATION) if alpha is None else alpha
    around = np.broadcast_to(given[..., None], (*given.shape, totals.shape[-1]))
    chance = np.moveaxis(_draw_dirichlet_rows(around, rng), -2, -1)
    counts = np.moveaxis(rng.multinomial(totals, chance / chance.sum(axis=-1, keepdims=True)), -1, -2)
    mean = given / given.sum(axis=-1, keepdims=True)
    theta = _draw_dirichlet_rows(np.asarray(counts + around, np.float64), rng)
    return Rows(np.ascontiguousarray(counts, np.int64), np.asarray(around), theta, mean, np.zeros(COMPONENTS))


def _draw_dirichlet_rows(concentrations: Floats, rng: np.random.Generator) -> Floats:
    """Rows of Dirichlet draws, shape `(*parents, child, draws)`."""
    shape = concentrations.shape
    return dirichlet_draws(concentrations.reshape(-1, *shape[-2:]), rng).reshape(shape)


def _spread_block(
    part: Rows, which: slice, totals: Ints, weights: Floats, alpha: Floats | None, rng: np.random.Generator
) -> tuple[Ints, Floats, Floats]:
    """Draw a block of counts, concentrations and probabilities, shape (part rows, rows of each, child, draws)."""
    rows, of_each, _ = totals.shape
    theta, counts = (each[..., which].reshape(rows, each.shape[-2], -1) for each in (part.theta, part.counts))
    states, draws = theta.shape[1:]
    n = totals[..., which]
    if alpha is None:
        chances = part.usage + PRIOR_WORTH_ROWS * weights
        picked = rng.choice(len(chances), size=(rows, of_each, draws), p=chances / chances.sum())
        concentration = np.concatenate([BACK_OFF_CONCENTRATIONS, states * LONE_CONCENTRATIONS])[picked]
        around = concentration[:, :, None, :] * np.maximum(theta[:, None], LEAST_MEAN)
    else:
        around = np.broadcast_to(alpha[..., None], (rows, of_each, states, draws))
    flat = (rows * of_each, states, draws)
    chance = np.moveaxis(dirichlet_draws(around.reshape(flat), rng), 1, -1)
    drawn = np.moveaxis(rng.multinomial(n.reshape(flat[0], draws), chance / chance.sum(axis=-1, keepdims=True)), -1, 1)
    # Each row of the part is a table of its own: its rows by the child's states.
    tables = drawn.reshape(rows, of_each, states, draws).transpose(1, 2, 0, 3).reshape(of_each, states, rows * draws)
    wanted: Ints = counts.transpose(1, 0, 2).reshape(states, rows * draws).astype(np.int64)
    moved = rake_counts(tables, wanted, rng)
    own = moved.reshape(of_each, states, rows, draws).transpose(2, 0, 1, 3)
    probabilities = dirichlet_draws((own + around).reshape(flat), rng).reshape(own.shape)
    return own, np.asarray(around), probabilities
