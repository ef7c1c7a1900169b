"""Model and acceptance ratios of the exact posterior's chains, both over records and over counts of types.

The code is plain Python over arrays, compiled if numba is installed. Helpers take arrays, not tuples of arrays: numba
counts references to all arrays of a tuple whenever it reads one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from discreet.research.readers.compiling import compiled
from discreet.util.arrays import Floats, Ints

STAR, CHOICE, ROWS, GRID = range(4)
"""Laws of blocks of statistics: noise of a star; a choice among candidates; draws of a row, and those on a grid."""
NEGLIGIBLE_NATS = 46.0
"""Nats below the largest term of a sum at which a term is left out: exp(-46) is 1e-20."""
KEY_FACTOR = 1_000_003
"""Odd factor that spreads the numbers of a row over the places of stored masses."""
TILT_HALVINGS = 30
"""Halvings of the interval of a tilt's rate, which only keeps sums within the range of numbers."""

Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

FLOOR_PROBABILITY = 1e-300
"""Least probability, which keeps logarithms finite."""
NUMBER_PROPOSALS = 20
"""Proposals of another number of records in each sweep; together they cost as much as renewing the records."""
WANTED_MOVE_SHARE = 0.35
"""Target share of accepted moves, to which their lengths adapt: nearly optimal for one parameter at a time."""


class StatisticBlocks(NamedTuple):
    """Statistics that have a law together, block by block.

    A star has the density `exp(-max of its rows / scale)`, a row being the sum of the absolute noise in its cells. The
    other laws have the log density `weight . u - draws * A(u)` of u, released numbers plus unit times statistics. Of a
    choice u are the candidates' weights, in nats, and A is the logarithm of the sum of their exponentials. Of draws of
    a row u are the concentrations, and A is the logarithm of the sum over the grid, or of the integral, of the
    products of probabilities to the power u - 1.

    Args:
        law: STAR, CHOICE, ROWS or GRID, shape (blocks,).
        rows: first row of each block, shape (blocks + 1,); blocks of other laws than STAR have one row.
        cells: start of each row's cells in `members`, shape (rows + 1,).
        members: statistics of the cells.
        weight: of each statistic: how often a candidate was chosen; the sum of the draws' logarithms of a state.
        draws: of each block, shape (blocks,).
        unit: by which the statistics of a block are multiplied, shape (blocks,).
        floor: smallest probability on each block's grid, shape (blocks,).
        steps: of each block's grid, shape (blocks,).
        logs: of a probability on each block's grid, from the floor up, shape (blocks, most steps + 1).
        keys: block and statistics of each stored value of A, shape (slots, 1 + most states); each chain has its own.
        stored: values of A on grids, shape (slots,).
    """

    law: Ints
    rows: Ints
    cells: Ints
    members: Ints
    weight: Floats
    draws: Floats
    unit: Floats
    floor: Floats
    steps: Ints
    logs: Floats
    keys: Floats
    stored: Floats


class Model(NamedTuple):
    """Fixed quantities of the chains: the network, each record's contribution to the statistics, and the release.

    Nodes are numbered in topological order, and so are the cells of all their tables, table after table.

    Args:
        sizes: states of each node.
        parents: of each node, shape (nodes, most parents), filled with -1.
        strides: of each parent in the cells of the node's table, same shape.
        firsts: first cell of each node's table, shape (nodes + 1,).
        below: True if a node (column) descends from another (row).
        scopes: nodes of each measured table, shape (tables, most variables), filled with -1.
        table_strides: of each of these nodes in the cells of the measured table, same shape.
        starts: first cell of each measured table, shape (tables + 1,).
        touched: True if a table holds a node or one of its descendants, shape (nodes, tables).
        entries: start of each measured cell's entries in `statistic` and `amount`, shape (measured cells + 1,).
        statistic: to which a record in the cell adds, of each entry.
        amount: that the record adds, of each entry.
        released: value of each statistic.
        scale: of each statistic's noise.
        within: half-width of the interval around the released value in which the density is flat: by rounding, else 0.
        gaussian: True for Gaussian noise, False for Laplace noise or that of a block.
        block: to which the statistic belongs; -1 for independent noise.
        blocks: laws of the blocks.
        fixed: True if the probabilities of a node are fixed.
        owner: data set whose records a measured table counts.
        counted: True if the number of records of a data set is public.
        widest: largest scale of noise, at least 1: that of changes of the number of records.
    """

    sizes: Ints
    parents: Ints
    strides: Ints
    firsts: Ints
    below: Flags
    scopes: Ints
    table_strides: Ints
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
    blocks: StatisticBlocks
    fixed: Flags
    owner: Ints
    counted: npt.NDArray[np.bool_]
    widest: float


class ProposedSums(NamedTuple):
    """Scratch arrays for the statistics that a proposal changes.

    Args:
        amount: change of each statistic, shape (statistics,); 0 between proposals.
        marked: True if a statistic is in the list, shape (statistics,).
        listed: statistics that change, shape (statistics,).
        seen: True if a block has been processed, shape (blocks,); False between proposals.
    """

    amount: Floats
    marked: Flags
    listed: Ints
    seen: Flags


@compiled
def make_room(statistics: int, blocks: int) -> ProposedSums:
    """Make scratch arrays for proposals."""
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
    """Note that a record enters (+1) or leaves (-1) a measured cell; return the number of listed statistics."""
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
    blocks: StatisticBlocks,
    sums: Floats,
    change: Floats,
    listed: Ints,
    seen: Flags,
    count: int,
) -> float:
    """Compute the log ratio of the noise's densities after and before the listed changes."""
    gain, tied = 0.0, False
    for position in range(count):
        changed = listed[position]
        if block[changed] >= 0:
            tied = True
            if not seen[block[changed]]:
                seen[block[changed]] = True
                gain += _gain_in_block(released, scale, blocks, sums, change, block[changed])
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
def _gain_in_block(
    released: Floats, scale: Floats, blocks: StatisticBlocks, sums: Floats, change: Floats, block: int
) -> float:
    """Compute the log ratio of a block's densities after and before a change."""
    law, rows, cells, members = blocks.law[block], blocks.rows, blocks.cells, blocks.members
    begin, end = cells[rows[block]], cells[rows[block] + 1]
    if law == STAR:
        return float(_shrink_star(released, blocks, sums, change, block) / scale[members[begin]])
    draws: float = blocks.draws[block]
    unit, weight, gain = blocks.unit[block], blocks.weight, 0.0
    old, new = np.empty(end - begin), np.empty(end - begin)
    for index in range(end - begin):
        member = members[begin + index]
        old[index] = released[member] + unit * sums[member]
        new[index] = old[index] + unit * change[member]
        gain += weight[member] * unit * change[member]
    if law == CHOICE:
        return gain - draws * (_log_sum(new) - _log_sum(old))
    if law == ROWS:
        return gain - draws * (_log_beta(new) - _log_beta(old))
    before = _find_grid_mass(blocks, block, old, sums, change, 0.0)
    return gain - draws * (_find_grid_mass(blocks, block, new, sums, change, 1.0) - before)


@compiled
def _shrink_star(released: Floats, blocks: StatisticBlocks, sums: Floats, change: Floats, block: int) -> float:
    """Compute the decrease of the largest row of a star's block."""
    rows, cells, members = blocks.rows, blocks.cells, blocks.members
    before, after = 0.0, 0.0
    for row in range(rows[block], rows[block + 1]):
        old, new = 0.0, 0.0
        for index in range(cells[row], cells[row + 1]):
            noise = released[members[index]] - sums[members[index]]
            old += abs(noise)
            new += abs(noise - change[members[index]])
        before, after = max(before, old), max(after, new)
    return before - after


@compiled
def _log_sum(logs: Floats) -> float:
    """Compute the logarithm of the sum of exponentials."""
    highest, total = logs.max(), 0.0
    for log in logs:
        if log > highest - NEGLIGIBLE_NATS:
            total += math.exp(log - highest)
    return float(highest + math.log(total))


@compiled
def _log_beta(concentrations: Floats) -> float:
    """Compute the logarithm of the integral of the products of a row's probabilities to the powers minus 1."""
    total, logs = 0.0, 0.0
    for concentration in concentrations:
        total += concentration
        logs += math.lgamma(concentration)
    return logs - math.lgamma(total)


@compiled
def _find_grid_mass(
    blocks: StatisticBlocks, block: int, concentrations: Floats, sums: Floats, change: Floats, share: float
) -> float:
    """Look up the logarithm of the mass on a block's grid, or compute and store it; `share` 1 is after the change."""
    keys, stored, begin = blocks.keys, blocks.stored, blocks.cells[blocks.rows[block]]
    key = np.full(keys.shape[1], -1.0)
    key[0], code = block, block
    for index in range(len(concentrations)):
        member = blocks.members[begin + index]
        key[index + 1] = sums[member] + share * change[member]
        code = (code * KEY_FACTOR + int(key[index + 1])) % len(stored)
    for index in range(len(key)):
        if keys[code, index] != key[index]:
            keys[code] = key
            logs = blocks.logs[block, : blocks.steps[block] + 1]
            stored[code] = log_grid_mass(concentrations, blocks.floor[block], logs)
            break
    return float(stored[code])


@compiled
def log_grid_mass(concentrations: Floats, floor: float, logs: Floats) -> float:
    """Compute the log sum over a row's grid of the products of probabilities to the powers concentration - 1.

    For more than two states it is the last entry of a convolution of tables, one for each state. All are tilted by one
    exponential, whose effect is known, as probabilities sum to 1, and which keeps that entry within the range of
    numbers.

    Args:
        concentrations: shape (states,), at least two.
        floor: smallest probability.
        logs: of a probability's values on the grid, from the floor up, shape (steps + 1,).
    """
    size, steps = len(concentrations), len(logs) - 1
    if size == 2:
        return _log_pair_mass(concentrations[0] - 1, concentrations[1] - 1, floor, logs)
    width = 1 - size * floor
    rate = _find_tilt_rate(concentrations, floor, floor + width)
    mass, terms, sums = np.zeros(steps + 1), np.empty(steps + 1), np.empty(steps + 1)
    total = rate * width
    for state in range(size):
        highest = -math.inf
        for step in range(steps + 1):
            terms[step] = (concentrations[state] - 1) * logs[step] - rate * width * step / steps
            highest = max(highest, terms[step])
        for step in range(steps + 1):
            terms[step] = math.exp(terms[step] - highest)
        total += highest
        if state == 0:
            mass[:] = terms
        elif state < size - 1:
            total += _convolve(mass, terms, sums)
    last = 0.0
    for step in range(steps + 1):
        last += mass[step] * terms[steps - step]
    return total + math.log(max(last, FLOOR_PROBABILITY))


@compiled
def _log_pair_mass(first: float, second: float, floor: float, logs: Floats) -> float:
    """Compute it for two states and their powers: terms fall from the largest one on, so they are summed from there.

    Terms below NEGLIGIBLE_NATS of the largest are left out, unless both powers are negative.
    """
    steps = len(logs) - 1
    peak = 0 if first < second else steps  # of powers of which one is negative, or both
    if min(first, second) >= 0 and first + second > 0:
        mode = (first / (first + second) - floor) / (1 - 2 * floor)
        peak = int(min(max(mode, 0.0), 1.0) * steps + 0.5)
    highest, total = first * logs[peak] + second * logs[steps - peak], 1.0
    for direction in (-1, 1):
        step, gain = peak + direction, 0.0
        # Of two negative powers the terms rise again towards the other end: all of them count.
        while 0 <= step <= steps and (gain > -NEGLIGIBLE_NATS or max(first, second) < 0):
            gain = first * logs[step] + second * logs[steps - step] - highest
            total += math.exp(gain)
            step += direction
    return float(highest + math.log(total))


@compiled
def _convolve(mass: Floats, terms: Floats, sums: Floats) -> float:
    """Convolve a table of masses with another, up to its last entry; return the logarithm of the factor taken out.

    Args:
        mass: changed.
        terms: of the same length.
        sums: scratch array of the same length.
    """
    sums[:] = 0
    for shift in range(len(mass)):
        for step in range(len(mass) - shift):
            sums[shift + step] += terms[shift] * mass[step]
    highest = sums.max()
    for step in range(len(mass)):
        mass[step] = sums[step] / highest
    return math.log(highest)


@compiled
def _find_tilt_rate(concentrations: Floats, low: float, high: float) -> float:
    """Find the rate at which gamma variates of these shapes, truncated to [low, high], sum to about 1."""
    under, over = 0.0, (concentrations.sum() + len(concentrations)) / low
    for _ in range(TILT_HALVINGS):
        rate, total = (under + over) / 2, 0.0
        for shape in concentrations:
            # Mean m of a variate, by `(m - low) (rate - (b - 1) / m) = 1`: exact without truncation, and for b = 1.
            cut = rate * low
            total += min((shape + cut + math.hypot(shape - cut, 2 * math.sqrt(cut))) / (2 * rate), high)
        under, over = (rate, over) if total > 1 else (under, rate)
    return float(over)


@compiled
def apply_changes(sums: Floats, change: Floats, marked: Flags, listed: Ints, count: int, taken: bool) -> None:
    """Apply the listed changes if they are accepted, and reset the list."""
    for position in range(count):
        changed = listed[position]
        if taken:
            sums[changed] += change[changed]
        change[changed] = 0
        marked[changed] = False


@compiled
def accept_step(gain: float, rng: np.random.Generator) -> bool:
    """Draw True if a Metropolis-Hastings step with this log ratio is accepted."""
    return gain >= 0 or rng.random() < math.exp(gain)


@compiled
def log_share(odds: float) -> float:
    """Compute `log(1 / (1 + exp(-odds)))`."""
    return -math.log1p(math.exp(-odds)) if odds > -30 else odds


@compiled
def draw_theta(
    sizes: Ints, firsts: Ints, fixed: Flags, alpha: Floats, counts: Floats, theta: Floats, rng: np.random.Generator
) -> None:
    """Draw the probabilities of all rows given the records in their cells; changes theta."""
    for node in range(len(sizes)):
        if fixed[node]:
            continue
        size = sizes[node]
        for first in range(firsts[node], firsts[node + 1], size):
            highest = -math.inf
            for cell in range(first, first + size):
                # Gamma variates with small shapes underflow; their logarithms do not.
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
    """Propose a move of the probabilities of two cells of a row, with their sum fixed.

    Returns:
        New log odds of the first cell; log ratio of the prior with the Jacobian; True if the first cell loses; and the
        probability with which each record of the losing cell crosses to the other, the share of its probability that
        the cell loses.
    """
    odds = math.log(theta[a]) - math.log(theta[b])
    wanted = odds + lengths[a] * rng.standard_normal()
    first, second = log_share(wanted) - log_share(odds), log_share(-wanted) - log_share(-odds)
    return wanted, alpha[a] * first + alpha[b] * second, wanted < odds, -math.expm1(min(first, second))


@compiled
def finish_move(theta: Floats, lengths: Floats, a: int, b: int, wanted: float, good: bool, adapt: float) -> None:
    """Apply a move if it is accepted, and adapt the lengths of the next ones; changes both arrays."""
    if good:
        total = theta[a] + theta[b]
        theta[a] = max(total * math.exp(log_share(wanted)), FLOOR_PROBABILITY)
        theta[b] = max(total * math.exp(log_share(-wanted)), FLOOR_PROBABILITY)
    longer = math.exp(adapt * ((1.0 if good else 0.0) - WANTED_MOVE_SHARE))
    lengths[a] = min(max(lengths[a] * longer, 0.01), 8.0)
    lengths[b] = min(max(lengths[b] * longer, 0.01), 8.0)
