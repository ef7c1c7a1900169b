r"""Data augmentation: Markov chains over the records themselves, their number and all probabilities.

State: records x_1 .. x_n of the network, and the probabilities theta of its rows. A release is a vector of statistics,
each a sum over records of small whole numbers, plus independent noise of a known law; so the joint law

    p(theta) prod_i p(x_i | theta) prod_s noise(z_s - S_s(x))

is known up to a constant, and the chains are exact for it, without approximation of counts or noise. A sweep has three
parts:

    records    each record is proposed anew from theta and accepted by the ratio of the noise's densities; if the number
               of records is not public, blocks of records are also added and removed.
    rows       theta given the records is Dirichlet, row by row.
    moves      a record's state is a function of theta and of a uniform number of its own. With these numbers fixed,
               theta of a row moves: records cross from one of two states to the other, and so do their descendants.

The first two alone move theta by about the sampling error of n records, which mixes too slowly if the noise is much
larger; the moves alone mix too slowly if it is much smaller. Together they mix in both cases.

The functions here are plain Python over arrays; with numba (the extra `fast`) they are compiled, and draw the same
numbers.

Source: Ju, Awan, Gong and Rao (2022) for records as latent variables; Yu and Meng (2011) for the interweaving of both
parametrisations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.evidence.moves import (
    NUMBER_PROPOSALS,
    Codes,
    Flags,
    Model,
    ProposedSums,
    accept_step,
    apply_changes,
    draw_theta,
    finish_move,
    log_ratio,
    make_room,
    note,
    propose_move,
)
from discreet.research.readers.compiling import compiled
from discreet.util.arrays import Floats, Ints


class RecordState(NamedTuple):
    """State of a chain over records; its arrays change in place.

    Args:
        records: positions of states, int32, shape (most records, nodes); the first `number[0]` are in use.
        sources: data set of each record, shape (most records,).
        number: of records, shape (1,).
        sums: statistics of the records, shape (statistics,).
        theta: probabilities of all cells, shape (cells,).
        alpha: concentrations of all cells, shape (cells,).
        lengths: of moves, by cell: standard deviation of a step of the log odds.
    """

    records: Codes
    sources: Ints
    number: Ints
    sums: Floats
    theta: Floats
    alpha: Floats
    lengths: Floats


# ---------------------------------------------------------------------------------------------------- one record

# Helpers take arrays, not the tuples above: numba counts references to all arrays of a tuple whenever it reads one.


@compiled
def _find_row(firsts: Ints, parents: Ints, strides: Ints, record: Codes, node: int) -> int:
    """Find the first cell of the row that a record's parents select."""
    cell = int(firsts[node])
    for index in range(parents.shape[1]):
        parent = parents[node, index]
        if parent >= 0:  # a break would make numba count references: 15 times slower
            cell += strides[node, index] * record[parent]
    return cell


@compiled
def _find_cell(starts: Ints, scopes: Ints, table_strides: Ints, record: Codes, table: int) -> int:
    """Find the cell of a measured table that counts a record."""
    cell = int(starts[table])
    for index in range(scopes.shape[1]):
        node = scopes[table, index]
        if node >= 0:
            cell += table_strides[table, index] * record[node]
    return cell


@compiled
def _pick_state(theta: Floats, first: int, size: int, uniform: float) -> int:
    """Find the state of a row that a uniform number selects."""
    state, reached = 0, theta[first]
    while uniform >= reached and state < size - 1:
        state += 1
        reached += theta[first + state]
    return state


@compiled
def _draw_record(
    sizes: Ints, firsts: Ints, parents: Ints, strides: Ints, theta: Floats, record: Codes, rng: np.random.Generator
) -> None:
    """Fill a record with states drawn from the network."""
    for node in range(len(sizes)):
        record[node] = _pick_state(theta, _find_row(firsts, parents, strides, record, node), sizes[node], rng.random())


@compiled
def _cross_record(
    sizes: Ints,
    firsts: Ints,
    parents: Ints,
    strides: Ints,
    below: Flags,
    theta: Floats,
    old: Codes,
    new: Codes,
    node: int,
    state: int,
    rng: np.random.Generator,
) -> None:
    """Write the record that results if a node takes a state and the uniforms of all other nodes are fixed."""
    new[:] = old
    new[node] = state
    for later in range(node + 1, len(sizes)):
        if not below[node, later]:
            continue
        before, after = (
            _find_row(firsts, parents, strides, old, later),
            _find_row(firsts, parents, strides, new, later),
        )
        if before != after:
            uniform = rng.random() * theta[before + old[later]]
            for cell in range(before, before + old[later]):
                uniform += theta[cell]
            new[later] = _pick_state(theta, after, sizes[later], uniform)


@compiled
def fill(model: Model, state: RecordState, rng: np.random.Generator) -> None:
    """Draw all records from theta, and count them; changes the state."""
    sizes, firsts, parents, strides = model.sizes, model.firsts, model.parents, model.strides
    starts, scopes, table_strides, owner = model.starts, model.scopes, model.table_strides, model.owner
    entries, statistic, amount = model.entries, model.statistic, model.amount
    records, sources, theta, sums = state.records, state.sources, state.theta, state.sums
    sums[:] = 0
    for index in range(state.number[0]):
        _draw_record(sizes, firsts, parents, strides, theta, records[index], rng)
        for table in range(len(owner)):
            if owner[table] == sources[index]:
                cell = _find_cell(starts, scopes, table_strides, records[index], table)
                for entry in range(entries[cell], entries[cell + 1]):
                    sums[statistic[entry]] += amount[entry]


def start(
    model: Model, theta: Floats, alpha: Floats, numbers: tuple[int, ...], room: int, rng: np.random.Generator
) -> RecordState:
    """Start a chain at records drawn from theta.

    Args:
        model: fixed.
        theta: probabilities of all cells, shape (cells,).
        alpha: concentrations of all cells, shape (cells,).
        numbers: of records of each data set.
        room: most records of all data sets together.
        rng: source of randomness.
    """
    records, sources = np.zeros((room, len(model.sizes)), np.int32), np.zeros(room, np.int64)
    sources[: sum(numbers)] = np.repeat(np.arange(len(numbers)), numbers)
    sums, lengths = np.zeros(len(model.released)), np.ones(len(theta))
    state = RecordState(records, sources, np.array([sum(numbers)]), sums, theta.copy(), alpha.copy(), lengths)
    fill(model, state, rng)
    return state


def number_of(state: RecordState) -> int:
    """Return the number of records of all data sets."""
    return int(state.number[0])


@compiled
def count_cells(model: Model, state: RecordState) -> Floats:
    """Count the records in each cell of all tables, shape (cells,)."""
    sizes, firsts, parents, strides = model.sizes, model.firsts, model.parents, model.strides
    records = state.records
    counts = np.zeros(firsts[len(sizes)])
    for index in range(state.number[0]):
        record = records[index]
        for node in range(len(sizes)):
            counts[_find_row(firsts, parents, strides, record, node) + record[node]] += 1
    return counts


# ---------------------------------------------------------------------------------------------------- parts of a sweep


@compiled
def _renew_records(model: Model, state: RecordState, changes: ProposedSums, rng: np.random.Generator) -> float:
    """Propose every record anew from theta; return the share of accepted ones."""
    sizes, firsts, parents, strides = model.sizes, model.firsts, model.parents, model.strides
    starts, scopes, table_strides, owner = model.starts, model.scopes, model.table_strides, model.owner
    entries, statistic, amount = model.entries, model.statistic, model.amount
    records, sources, theta, sums = state.records, state.sources, state.theta, state.sums
    released, scale, within, gaussian = model.released, model.scale, model.within, model.gaussian
    block, blocks = model.block, model.blocks
    change, marked, listed, seen = changes.amount, changes.marked, changes.listed, changes.seen
    proposed = np.zeros(len(sizes), np.int32)
    taken = 0
    for index in range(state.number[0]):
        record, source = records[index], sources[index]
        _draw_record(sizes, firsts, parents, strides, theta, proposed, rng)
        count = 0
        for table in range(len(owner)):
            if owner[table] == source:
                old, new = (
                    _find_cell(starts, scopes, table_strides, record, table),
                    _find_cell(starts, scopes, table_strides, proposed, table),
                )
                if old != new:
                    count = note(entries, statistic, amount, change, marked, listed, count, old, -1)
                    count = note(entries, statistic, amount, change, marked, listed, count, new, 1)
        good = accept_step(
            log_ratio(released, scale, within, gaussian, block, blocks, sums, change, listed, seen, count), rng
        )
        apply_changes(sums, change, marked, listed, count, good)
        if good:
            record[:] = proposed
            taken += 1
    return taken / max(int(state.number[0]), 1)


@compiled
def _put_last(records: Codes, sources: Ints, source: int, number: int, size: int, rng: np.random.Generator) -> bool:
    """Swap random records of a data set with the last ones; return False if it has too few."""
    available = 0
    for index in range(number):
        available += sources[index] == source
    if available < size:
        return False
    for index in range(number - 1, number - size - 1, -1):
        picked = int(rng.random() * (index + 1))
        while sources[picked] != source:
            picked = int(rng.random() * (index + 1))
        for node in range(records.shape[1]):
            swapped = records[picked, node]
            records[picked, node] = records[index, node]
            records[index, node] = swapped
        sources[picked] = sources[index]
        sources[index] = source
    return True


@compiled
def _change_number(
    model: Model, state: RecordState, changes: ProposedSums, source: int, size: int, rng: np.random.Generator
) -> None:
    """Propose `size` more records of a data set, drawn from theta, or `size` fewer, picked at random.

    The number of records has a uniform prior up to the room for them.
    """
    sizes, firsts, parents, strides = model.sizes, model.firsts, model.parents, model.strides
    starts, scopes, table_strides, owner = model.starts, model.scopes, model.table_strides, model.owner
    entries, statistic, amount = model.entries, model.statistic, model.amount
    records, sources, theta, sums = state.records, state.sources, state.theta, state.sums
    released, scale, within, gaussian = model.released, model.scale, model.within, model.gaussian
    block, blocks = model.block, model.blocks
    change, marked, listed, seen = changes.amount, changes.marked, changes.listed, changes.seen
    number, sign = state.number[0], 1 if rng.random() < 0.5 else -1
    first, last = number, number + size
    if sign > 0:
        if last > len(records):
            return
        for index in range(first, last):
            _draw_record(sizes, firsts, parents, strides, theta, records[index], rng)
            sources[index] = source
    else:
        if not _put_last(records, sources, source, number, size, rng):
            return
        first, last = number - size, number
    count = 0
    for index in range(first, last):
        for table in range(len(owner)):
            if owner[table] == source:
                count = note(
                    entries,
                    statistic,
                    amount,
                    change,
                    marked,
                    listed,
                    count,
                    _find_cell(starts, scopes, table_strides, records[index], table),
                    sign,
                )
    good = accept_step(
        log_ratio(released, scale, within, gaussian, block, blocks, sums, change, listed, seen, count), rng
    )
    apply_changes(sums, change, marked, listed, count, good)
    if good:
        state.number[0] = number + sign * size


@compiled
def draw_rows(model: Model, state: RecordState, rng: np.random.Generator) -> None:
    """Draw theta given the records; changes the state."""
    counts = count_cells(model, state)
    draw_theta(model.sizes, model.firsts, model.fixed, state.alpha, counts, state.theta, rng)


@compiled
def _sort_by_row(model: Model, state: RecordState, node: int) -> tuple[Ints, Ints]:
    """Sort the records by the rows of a node's table; return the order and each row's start in it, and the end."""
    sizes, firsts, parents, strides = model.sizes, model.firsts, model.parents, model.strides
    records = state.records
    size, number = sizes[node], state.number[0]
    rows = (firsts[node + 1] - firsts[node]) // size
    starts = np.zeros(rows + 1, np.int64)
    for index in range(number):
        starts[(_find_row(firsts, parents, strides, records[index], node) - firsts[node]) // size + 1] += 1
    for row in range(rows):
        starts[row + 1] += starts[row]
    order, filled = np.empty(number, np.int64), starts.copy()
    for index in range(number):
        row = (_find_row(firsts, parents, strides, records[index], node) - firsts[node]) // size
        order[filled[row]] = index
        filled[row] += 1
    return order, starts


@compiled
def _note_crossing(
    model: Model, changes: ProposedSums, node: int, record: Codes, changed: Codes, source: int, count: int
) -> int:
    """Note the changes of one record in its data set's tables that a node affects; return the count."""
    starts, scopes, table_strides, owner = model.starts, model.scopes, model.table_strides, model.owner
    entries, statistic, amount = model.entries, model.statistic, model.amount
    change, marked, listed = changes.amount, changes.marked, changes.listed
    for table in range(len(owner)):
        if model.touched[node, table] and owner[table] == source:
            left = _find_cell(starts, scopes, table_strides, record, table)
            entered = _find_cell(starts, scopes, table_strides, changed, table)
            if left != entered:
                count = note(entries, statistic, amount, change, marked, listed, count, left, -1)
                count = note(entries, statistic, amount, change, marked, listed, count, entered, 1)
    return count


@compiled
def _move_rows(
    model: Model, state: RecordState, changes: ProposedSums, adapt: float, rng: np.random.Generator
) -> float:
    """Move the probabilities of pairs of states of every row, with each record's uniform fixed.

    Args:
        model: fixed.
        state: changed.
        changes: scratch arrays.
        adapt: rate of adaptation of the lengths; 0 for none.
        rng: source of randomness.

    Returns:
        The share of accepted moves.
    """
    sizes, firsts, parents, strides = model.sizes, model.firsts, model.parents, model.strides
    records, sources, theta, sums = state.records, state.sources, state.theta, state.sums
    released, scale, within, gaussian = model.released, model.scale, model.within, model.gaussian
    block, blocks = model.block, model.blocks
    change, marked, listed, seen = changes.amount, changes.marked, changes.listed, changes.seen
    below, fixed, alpha, lengths = model.below, model.fixed, state.alpha, state.lengths
    crossing, crossers = np.empty((state.number[0], len(sizes)), np.int32), np.empty(state.number[0], np.int64)
    tried, taken = 0, 0
    for node, size in enumerate(sizes):
        if size < 2 or fixed[node]:
            continue
        order, begins = _sort_by_row(model, state, node)
        for row in range(len(begins) - 1):
            if begins[row] == begins[row + 1]:
                continue  # the last sweep drew a row without records from its prior
            first = firsts[node] + row * size
            pairs = rng.permutation(size)
            for pair in range(size // 2):
                first_state, second_state = pairs[2 * pair], pairs[2 * pair + 1]
                a, b = first + first_state, first + second_state
                wanted, gain, loses, chance = propose_move(theta, alpha, lengths, a, b, rng)
                source, goal = (first_state, second_state) if loses else (second_state, first_state)
                crossed, count = 0, 0
                for position in range(begins[row], begins[row + 1]):
                    index = order[position]
                    record, changed = records[index], crossing[crossed]
                    if record[node] != source or rng.random() >= chance:
                        continue
                    _cross_record(sizes, firsts, parents, strides, below, theta, record, changed, node, goal, rng)
                    crossers[crossed] = index
                    crossed += 1
                    count = _note_crossing(model, changes, node, record, changed, sources[index], count)
                gain += log_ratio(released, scale, within, gaussian, block, blocks, sums, change, listed, seen, count)
                good = accept_step(gain, rng)
                apply_changes(sums, change, marked, listed, count, good)
                tried += 1
                taken += good
                for position in range(crossed if good else 0):
                    records[crossers[position]] = crossing[position]
                finish_move(theta, lengths, a, b, wanted, good, adapt)
    return taken / max(tried, 1)


@compiled
def sweep(
    model: Model, state: RecordState, changes: ProposedSums, adapt: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Run one sweep of all three parts; changes the state.

    Args:
        model: fixed.
        state: of the chain.
        changes: scratch arrays for proposals.
        adapt: rate of adaptation of the moves' lengths; 0 after the warm-up.
        rng: source of randomness.

    Returns:
        Shares of accepted records and moves.
    """
    records = _renew_records(model, state, changes, rng)
    for source in range(len(model.counted)):
        if not model.counted[source]:
            widest = min(model.widest, len(state.records) / 8)
            for _ in range(NUMBER_PROPOSALS):
                # Log-uniform sizes, from single records to the width of the noise.
                size = int((widest + 1) ** rng.random())
                _change_number(model, state, changes, source, size, rng)
    moves = _move_rows(model, state, changes, adapt, rng)
    draw_rows(model, state, rng)
    return records, moves


@compiled
def sweeps(model: Model, state: RecordState, count: int, adapt: float, rng: np.random.Generator) -> tuple[float, float]:
    """Run sweeps of one chain; changes the state.

    Args:
        model: fixed.
        state: of the chain.
        count: number of sweeps.
        adapt: rate of adaptation of the moves' lengths; 0 after the warm-up.
        rng: source of randomness.

    Returns:
        Shares of accepted records and moves.
    """
    changes = make_room(len(model.released), len(model.blocks.law))
    records, moves = 0.0, 0.0
    for _ in range(count):
        record_share, move_share = sweep(model, state, changes, adapt, rng)
        records += record_share / count
        moves += move_share / count
    return records, moves
