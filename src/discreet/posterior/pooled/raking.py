"""Proportional fitting (raking) of laws and counts to margins; rows of counts keep their totals.

The change is minimal: of all tables with the wanted margins, proportional fitting finds the one closest in relative
entropy to the start. It preserves odds ratios (Deming and Stephan, 1940; Csiszar, 1975).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from discreet.model.schema import Scope
from discreet.util.arrays import Floats, Ints

Array = npt.NDArray[np.floating]
Goal = tuple[tuple[int, ...], npt.NDArray[np.integer] | Array]
Kind = TypeVar("Kind", bound=np.generic)


EMPTY_CELL_RECORDS = 0.02
"""Records assigned to an empty cell of a nonempty row, so that it can be filled; with five times as many or as few no
stratum's coverage moves by more than .3 points, and only widths of probabilities 0 or 1 change (3 %)."""
RAKING_ROUNDS = 8
"""Rounds of proportional fitting of counts, unless the caller says otherwise."""
LEAST_MARGIN_RECORDS = 1e-9
"""Least records of a margin, so that it can be scaled."""
MARGIN_FIT_ROUNDS = 8
"""Largest number of rounds of proportional fitting of a law; margins of draws then agree up to their last digits."""
LEAST_FIT_CHANGE = 1e-9
"""Fitting stops after a round in which no cell of a margin changes by more than this fraction: far below the Monte
Carlo error."""
LEAST_MARGIN_PROBABILITY = 1e-300
"""Least probability of a margin in a denominator."""


def rake_counts(counts: Ints, margin: Ints, rng: np.random.Generator) -> Ints:
    """Rake counts of a family to a margin of its child, and round them at random; row totals are kept.

    Args:
        counts: records of each cell, shape `(*parents, child, draws)`; not changed.
        margin: target records of each state of the child, shape (child, draws), with the same total.
        rng: source of randomness for the rounding.

    Returns:
        Whole counts, int64, same shape. Row totals are met exactly; the margin is off by the sum of the rows' rounding
        errors, and by what RAKING_ROUNDS rounds leave. An empty cell of a nonempty row may get a record
        (EMPTY_CELL_RECORDS).

    Example:
        >>> counts = np.array([[[8], [2]], [[5], [5]]])  # two rows of ten records, two states, one draw
        >>> moved = rake_counts(counts, np.array([[10], [10]]), np.random.default_rng(0))
        >>> moved.sum(axis=1)[:, 0].tolist(), bool(abs(moved[:, 0].sum() - 10) <= 2)
        ([10, 10], True)
    """
    wanted = goal(counts.ndim - 2, (), margin)
    return counts_of(rake_to(by_child(counts).astype(np.float64), counts.sum(axis=-2), [wanted], rng))


def goal(parents: int, part_axes: Sequence[int], part: Ints) -> Goal:
    """Convert counts of a part of a family to a goal of `rake_to`, for cells of shape `(child, *parents, draws)`.

    Args:
        parents: number of parents of the family.
        part_axes: axes of the part's parents among those of the family, in the order of the part; empty for the child
            alone.
        part: target records, shape `(*parents of the part, child, draws)`.

    Returns:
        (axes of the cells to sum over, those of the parents that the part lacks; target with the axes of the cells, of
        length 1 on these).
    """
    axes = tuple(1 + axis for axis in range(parents) if axis not in part_axes)
    order = [len(part_axes), *np.argsort(part_axes).tolist(), len(part_axes) + 1]
    return axes, np.expand_dims(part.transpose(order), axes)


def rake_to(
    cells: Array,
    totals: Array | Ints,
    goals: Sequence[Goal],
    rng: np.random.Generator,
    rounds: int = RAKING_ROUNDS,
) -> Array:
    """Rake counts of a family to several margins at once, then round them at random; row totals are kept.

    Args:
        cells: records of each cell, at least 0 and not necessarily whole, shape `(child, *parents, draws)`.
        totals: records of each row, shape `(*parents, draws)`.
        goals: for each margin the axes to sum over and its target records, with length 1 on these axes. Margins agree
            with each other and with the totals up to rounding.
        rng: source of randomness for the rounding.
        rounds: number of rounds of proportional fitting.

    Returns:
        Whole numbers of the type of `cells`, same shape. Each row is rounded by itself, without bias: each cell to a
        neighbouring whole number, the row's total exactly. Margins are off by the sum of the rows' rounding errors, and
        by what the rounds of raking leave. An empty cell of a nonempty row may get a record
        (EMPTY_CELL_RECORDS). Without goals, cells are only scaled to the row totals and rounded.
    """
    wholes = totals.astype(cells.dtype)
    # Systematic rounding along each row: every cell up or down, unbiased, and rows keep their totals.
    ends = rake_cells(cells, totals, goals, rounds).cumsum(axis=0)
    ends += rng.random(totals.shape)
    np.minimum(np.floor(ends, out=ends), wholes, out=ends)
    ends[-1] = wholes
    return np.diff(ends, axis=0, prepend=0)


def rake_cells(cells: Array, totals: Array | Ints, goals: Sequence[Goal], rounds: int = RAKING_ROUNDS) -> Array:
    """Rake cells to several margins at once by proportional fitting, without rounding.

    Empty cells of nonempty rows start at EMPTY_CELL_RECORDS. Each round fits one margin after the other and ends with
    the row totals.

    Args:
        cells: records of each cell, at least 0, shape `(child, *parents, draws)`; not changed.
        totals: records of each row, shape `(*parents, draws)`.
        goals: for each margin the axes to sum over and its target records, with length 1 on these axes. Targets and
            current margins below LEAST_MARGIN_RECORDS count as this.
        rounds: number of rounds of proportional fitting.

    Returns:
        Records of each cell, type and shape of `cells`, not whole. Row totals are met exactly, margins up to the error
        after the last round, and the last one best where margins contradict each other; a row without records is 0.
        Without goals rows are scaled to their totals.
    """
    cells = np.where(cells > 0, cells, cells.dtype.type(EMPTY_CELL_RECORDS) * (totals > 0))
    row_totals = totals.astype(cells.dtype)
    wanted = [(axes, np.maximum(target, LEAST_MARGIN_RECORDS).astype(cells.dtype)) for axes, target in goals]
    for _ in range(rounds):
        for axes, target in wanted:
            current = cells.sum(axis=axes, keepdims=True)
            cells *= np.divide(target, np.maximum(current, LEAST_MARGIN_RECORDS, out=current), out=current)
        cells *= row_totals / np.maximum(cells.sum(axis=0), LEAST_MARGIN_RECORDS)
    return np.asarray(cells)


def by_child(counts: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
    """Move the child's axis to the front: from `(*parents, child, draws)` to `(child, *parents, draws)`; a view."""
    return np.moveaxis(counts, -2, 0)


def counts_of(cells: Array) -> Ints:
    """Convert cells `(child, *parents, draws)` to counts `(*parents, child, draws)`, contiguous int64.

    Fractions are cut off.
    """
    return np.ascontiguousarray(np.moveaxis(cells, 0, -2), np.int64)


def fit_margins(law: Floats, names: Sequence[str], wanted: Mapping[Scope, Floats]) -> Floats:
    """Rake a law to the margins of several subsets, one after the other in each round of proportional fitting.

    It ends after MARGIN_FIT_ROUNDS rounds, or after one in which no cell of a margin was off by more than
    LEAST_FIT_CHANGE of its value; a single subset takes one round. Cells that are 0 stay 0.

    Args:
        law: probabilities, shape `(*sizes, draws)`; not changed.
        names: names of its axes.
        wanted: target margin by subset, its axes in the subset's order, then draws.

    Returns:
        New array, shape of `law`; with several subsets the margins are met up to the error after eight rounds. A copy
        without subsets.

    Example:
        >>> law = np.full((2, 2, 1), 0.25)
        >>> fit_margins(law, ["a", "b"], {("a",): np.array([[0.6], [0.4]]), ("b",): np.array([[0.3], [0.7]])})[..., 0]
        array([[0.18, 0.42],
               [0.12, 0.28]])
    """
    steps = [(_find_margin_axes(names, scope), target) for scope, target in wanted.items()]
    fitted = law.copy()
    for _ in range(MARGIN_FIT_ROUNDS if len(steps) > 1 else 1):
        moved = [_scale_margin(fitted, *axes, target) for axes, target in steps]
        if not any(moved):
            break
    return fitted


def _find_margin_axes(names: Sequence[str], scope: Scope) -> tuple[tuple[int, ...], list[int]]:
    """Find a law's axes to sum over for a margin, and the permutation of the margin's axes to the law's order.

    Args:
        names: names of the law's axes.
        scope: names of the margin's axes, which end with one of draws.

    Returns:
        (positions in `names` of those not in the scope; positions in the scope of those in it, in the law's order, then
        the axis of draws, which stays last).
    """
    ordered = [name for name in names if name in scope]
    return tuple(axis for axis, name in enumerate(names) if name not in scope), [*map(scope.index, ordered), len(scope)]


def _scale_margin(law: Floats, summed: tuple[int, ...], order: list[int], target: Floats) -> bool:
    """Scale a law in place to one margin; return True if any cell of the margin was off by more than LEAST_FIT_CHANGE.

    A cell is off if `|wanted - current| > LEAST_FIT_CHANGE * current`, before the scaling. Cells are multiplied by
    wanted / current, with current at least LEAST_MARGIN_PROBABILITY.

    Args:
        law: probabilities, shape `(*sizes, draws)`; changed in place.
        summed: axes of the law to sum out.
        order: permutation that brings the target's axes into the law's order.
        target: target margin, shape `(*sizes of the margin, draws)`.
    """
    wanted = target.transpose(order)
    current = np.add.reduce(law, axis=summed) if summed else law.copy()
    moved = bool((np.abs(wanted - current) > LEAST_FIT_CHANGE * current).any())
    ratio = np.divide(wanted, np.maximum(current, LEAST_MARGIN_PROBABILITY, out=current), out=current)
    law *= np.expand_dims(ratio, summed)
    return moved
