"""What the chains of the exact posterior share, whether they keep records or count types: the model, and its ratios.

Everything here is plain Python over arrays, compiled where numba is installed. Helpers take arrays, not the tuples of
them: numba counts references to every array of a tuple whenever one is read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from discreet.research.readers.compiling import compiled
from discreet.util.arrays import Floats, Ints

Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

FLOOR_PROBABILITY = 1e-300
"""Probability that stands for less, so that logarithms stay finite."""
NUMBER_PROPOSALS = 20
"""Proposals of another number of records in each sweep: as cheap as one of renewing the records."""
WANTED_MOVE_SHARE = 0.35
"""Share of moves that are taken, to which their lengths adapt: near the best for one parameter at a time."""


class Ties(NamedTuple):
    """The statistics that have the noise of a star, of density `exp(-max of its rows / scale)` in each of its blocks.

    Args:
        rows: first row of each block, shape (blocks + 1,); a row is the sum of the absolute noise in its cells.
        cells: first of each row's cells in the next one, shape (rows + 1,).
        members: statistics that are the cells.
    """

    rows: Ints
    cells: Ints
    members: Ints


class Model(NamedTuple):
    """All that stays fixed: the network, what each record adds to the statistics, and what was released.

    Nodes are numbered in topological order, and so are the cells of all their tables, one table after the other.

    Args:
        sizes: states of each node.
        parents: of each node, shape (nodes, most parents); -1 where there are fewer.
        strides: of each parent in the cells of the node's table, same shape.
        firsts: first cell of each node's table, shape (nodes + 1,).
        below: whether a node (column) descends from another (row).
        scopes: nodes of each measured table, shape (tables, most variables); -1 where there are fewer.
        places: stride of each of them in the cells of the measured table.
        starts: first cell of each measured table, shape (tables + 1,).
        touched: whether a table holds a node or one of its descendants, shape (nodes, tables).
        entries: first entry of each measured cell in the next two, shape (measured cells + 1,).
        statistic: to which a record in this cell adds,
        amount: and how much.
        released: what was released of each statistic.
        scale: of its noise.
        within: how far it may be from the statistic without being less probable: by rounding, else 0.
        gaussian: whether the noise is Gaussian; otherwise it is Laplace, or that of a star.
        block: of a star, to which the statistic belongs; -1 where its noise is independent.
        ties: what the blocks are.
        known: whether the probabilities of a node are given.
        owner: of each measured table, the data set whose records it counts.
        counted: whether the number of records of a data set is public.
    """

    sizes: Ints
    parents: Ints
    strides: Ints
    firsts: Ints
    below: Flags
    scopes: Ints
    places: Ints
    starts: Ints
    touched: Flags
    entries: Ints
    statistic: Ints
    amount: Floats
    released: Floats
    scale: Floats
    within: Floats
    gaussian: Flags
    block: Ints
    ties: Ties
    known: Flags
    owner: Ints
    counted: npt.NDArray[np.bool_]


class ProposedSums(NamedTuple):
    """Room for the statistics that a proposal changes.

    Args:
        amount: by which, shape (statistics,); 0 between proposals.
        marked: whether a statistic is in the list, shape (statistics,).
        listed: statistics that change, shape (statistics,).
        seen: whether a block of a star is done with, shape (blocks,); nowhere between proposals.
    """

    amount: Floats
    marked: Flags
    listed: Ints
    seen: Flags


@compiled
def make_room(statistics: int, blocks: int) -> ProposedSums:
    """Room for proposals."""
    return ProposedSums(
        np.zeros(statistics), np.zeros(statistics, np.bool_), np.empty(statistics, np.int64), np.zeros(blocks, np.bool_)
    )


@compiled
def note(
    entries: Ints,
    statistic: Ints,
    amount: Floats,
    change: Floats,
    marked: Flags,
    listed: Ints,
    count: int,
    cell: int,
    sign: int,
) -> int:
    """Note that a record enters (+1) or leaves (-1) a measured cell; returns how many statistics are listed."""
    for entry in range(entries[cell], entries[cell + 1]):
        changed = statistic[entry]
        change[changed] += sign * amount[entry]
        if not marked[changed]:
            marked[changed] = True
            listed[count] = changed
            count += 1
    return count


@compiled
def log_ratio(
    released: Floats,
    scale: Floats,
    within: Floats,
    gaussian: Flags,
    block: Ints,
    ties: Ties,
    sums: Floats,
    change: Floats,
    listed: Ints,
    seen: Flags,
    count: int,
) -> float:
    """Log ratio of the noise's densities after and before the listed changes."""
    gain, tied = 0.0, False
    for position in range(count):
        changed = listed[position]
        if block[changed] >= 0:
            tied = True
            if not seen[block[changed]]:
                seen[block[changed]] = True
                gain += _shrink_block(released, ties, sums, change, block[changed]) / scale[changed]
            continue
        before = released[changed] - sums[changed]
        after = before - change[changed]
        if gaussian[changed]:
            gain += (before * before - after * after) / (2 * scale[changed] * scale[changed])
        else:
            reach = within[changed]
            gain += (max(abs(before) - reach, 0.0) - max(abs(after) - reach, 0.0)) / scale[changed]
    if tied:
        for position in range(count):
            if block[listed[position]] >= 0:
                seen[block[listed[position]]] = False
    return gain


@compiled
def _shrink_block(released: Floats, ties: Ties, sums: Floats, change: Floats, block: int) -> float:
    """Compute by how much the largest row of a star's block becomes smaller."""
    rows, cells, members = ties.rows, ties.cells, ties.members
    before, after = 0.0, 0.0
    for row in range(rows[block], rows[block + 1]):
        old, new = 0.0, 0.0
        for place in range(cells[row], cells[row + 1]):
            noise = released[members[place]] - sums[members[place]]
            old += abs(noise)
            new += abs(noise - change[members[place]])
        before, after = max(before, old), max(after, new)
    return before - after


@compiled
def apply_changes(sums: Floats, change: Floats, marked: Flags, listed: Ints, count: int, taken: bool) -> None:
    """Carry out the listed changes or drop them."""
    for position in range(count):
        changed = listed[position]
        if taken:
            sums[changed] += change[changed]
        change[changed] = 0
        marked[changed] = False


@compiled
def accept_step(gain: float, rng: np.random.Generator) -> bool:
    """Whether a step of Metropolis and Hastings is accepted."""
    return gain >= 0 or rng.random() < math.exp(gain)


@compiled
def log_share(odds: float) -> float:
    """`log(1 / (1 + exp(-odds)))`."""
    return -math.log1p(math.exp(-odds)) if odds > -30 else odds


@compiled
def draw_theta(
    sizes: Ints, firsts: Ints, known: Flags, alpha: Floats, counts: Floats, theta: Floats, rng: np.random.Generator
) -> None:
    """Draw the probabilities of all rows given the records in their cells; changes theta."""
    for node in range(len(sizes)):
        if known[node]:
            continue
        size = sizes[node]
        for first in range(firsts[node], firsts[node + 1], size):
            highest = -math.inf
            for cell in range(first, first + size):
                # Gamma variates of small shapes underflow; their logarithms do not.
                shape = alpha[cell] + counts[cell]
                log = math.log(rng.standard_gamma(shape + 1)) + math.log1p(-rng.random()) / shape
                theta[cell] = log
                highest = max(highest, log)
            total = 0.0
            for cell in range(first, first + size):
                theta[cell] = max(math.exp(theta[cell] - highest), FLOOR_PROBABILITY)
                total += theta[cell]
            for cell in range(first, first + size):
                theta[cell] /= total


@compiled
def propose_move(
    theta: Floats, alpha: Floats, lengths: Floats, a: int, b: int, rng: np.random.Generator
) -> tuple[float, float, bool, float]:
    """A move of the probabilities of two cells of a row, their sum being held.

    Returns:
        The new log odds of the first; the log ratio of the prior with the Jacobian; whether the first loses; and the
        chance with which each record of the cell that loses crosses to the other, the share of its probability that it
        loses.
    """
    odds = math.log(theta[a]) - math.log(theta[b])
    wanted = odds + lengths[a] * rng.standard_normal()
    first, second = log_share(wanted) - log_share(odds), log_share(-wanted) - log_share(-odds)
    return wanted, alpha[a] * first + alpha[b] * second, wanted < odds, -math.expm1(min(first, second))


@compiled
def finish_move(theta: Floats, lengths: Floats, a: int, b: int, wanted: float, good: bool, adapt: float) -> None:
    """Carry out a move if it was taken, and adapt the lengths of the next ones; changes both arrays."""
    if good:
        whole = theta[a] + theta[b]
        theta[a] = max(whole * math.exp(log_share(wanted)), FLOOR_PROBABILITY)
        theta[b] = max(whole * math.exp(log_share(-wanted)), FLOOR_PROBABILITY)
    longer = math.exp(adapt * ((1.0 if good else 0.0) - WANTED_MOVE_SHARE))
    lengths[a] = min(max(lengths[a] * longer, 0.01), 8.0)
    lengths[b] = min(max(lengths[b] * longer, 0.01), 8.0)
