r"""Chains of `by_record.py`, collapsed by type: the number of records of every joint state.

Records are exchangeable, so the state is the number n_x of records of every type x, a joint state of all nodes, in each
data set. Its law given theta is multinomial; everything else is as in `by_record.py`, and a sweep has the same three
parts. It costs types times nodes, for any number of records, so it is faster for many records of few types.

    records    pairs of types exchange records; if the number of records is not public, blocks of records are also
               added and removed.
    moves      records cross as in `by_record.py`, all records of a type together: a record's uniform is only known to
               lie in the interval of its state, so the number that crosses is binomial and the descendants are
               multinomial.
    rows       theta given the records is Dirichlet, row by row.

Proof of the exchanges. Consider single records. Each record of the two types is picked or not by an independent coin,
whose probability does not depend on its type; the types of the picked ones are drawn anew, from theta restricted to the
two. Given the picked ones this is a Gibbs step, so it is reversible under prod_i p(x_i | theta), and the acceptance
ratio is that of the noise alone. In terms of types: Binomial(n_x, chance) and Binomial(n_y, chance) records are picked,
and x gets back a binomial number of them. The chance may depend on quantities that the step does not change: theta, and
the total number of records of the two types.

Source: Ju, Awan, Gong and Rao (2022) and Yu and Meng (2011), as in `by_record.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.evidence.moves import (
    NUMBER_PROPOSALS,
    Codes,
    Model,
    ProposedSums,
    accept_step,
    apply_changes,
    draw_theta,
    finish_move,
    log_ratio,
    log_share,
    make_room,
    note,
    propose_move,
)
from discreet.research.readers.compiling import compiled
from discreet.util.arrays import Floats, Ints

MOVE_PASSES = 4
"""Passes of moves over all rows in each sweep; together they cost as much as the pass over the records."""
BEST_STEP = 2.4
"""Optimal standard deviation of a step in one parameter, relative to that of its law (Gelman, Roberts and Gilks,
1996)."""


class Types(NamedTuple):
    """All joint states of the nodes, and the table entries that each selects.

    Args:
        states: of the nodes, int32, shape (types, nodes); the last node's state runs fastest.
        strides: of each node's state in the number of the type, shape (nodes,).
        cells: of the type in the nodes' own tables, shape (types, nodes).
        measured: cells of the type in the measured tables, shape (types, tables).
        order: types in the order of the cells of a node's table, node after node, shape (nodes * types,).
        begins: start of each cell's types in this order, shape (cells + 1,).
    """

    states: Codes
    strides: Ints
    cells: Ints
    measured: Ints
    order: Ints
    begins: Ints


class TypeState(NamedTuple):
    """State of a chain over counts of types; all arrays except those of the types change in place.

    Args:
        counts: records of every type, shape (data sets, types).
        room: most records of all data sets together.
        sums: statistics of the records, shape (statistics,).
        theta: probabilities of all cells, shape (cells,).
        alpha: concentrations of all cells, shape (cells,).
        lengths: of moves, by cell: standard deviation of a step of the log odds.
        types: fixed.
    """

    counts: Ints
    room: int
    sums: Floats
    theta: Floats
    alpha: Floats
    lengths: Floats
    types: Types


def _list_types(model: Model) -> Types:
    """List all joint states of a model's nodes."""
    sizes = tuple(int(size) for size in model.sizes)
    states = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    strides = np.array([math.prod(sizes[node + 1 :]) for node in range(len(sizes))], np.int64)
    # The filler -1 of a missing parent or node reads the last one; its stride is 0.
    cells = model.firsts[:-1] + states + (states[:, model.parents] * model.strides * (model.parents >= 0)).sum(axis=2)
    measured = model.starts[:-1] + (states[:, model.scopes] * model.table_strides * (model.scopes >= 0)).sum(axis=2)
    order = np.argsort(cells, axis=0, kind="stable").T.ravel()
    begins = np.searchsorted(cells.T.ravel()[order + np.repeat(np.arange(len(sizes)) * len(states), len(states))],
                             np.arange(model.firsts[-1] + 1))  # fmt: skip
    return Types(states.astype(np.int32), strides, cells, measured, order, begins)


def start(
    model: Model, theta: Floats, alpha: Floats, numbers: tuple[int, ...], room: int, rng: np.random.Generator
) -> TypeState:
    """Start a chain at records drawn from theta.

    Args:
        model: fixed.
        theta: probabilities of all cells, shape (cells,).
        alpha: concentrations of all cells, shape (cells,).
        numbers: of records of each data set.
        room: most records of all data sets together.
        rng: source of randomness.
    """
    types = _list_types(model)
    counts = np.zeros((len(numbers), len(types.states)), np.int64)
    sums, lengths = np.zeros(len(model.released)), np.ones(len(theta))
    state = TypeState(counts, room, sums, theta.copy(), alpha.copy(), lengths, types)
    logs, rest = _weigh_types(types.cells, state.theta)
    changes = make_room(len(sums), len(model.blocks.law))
    for source, records in enumerate(numbers):
        _scatter(logs, rest, counts[source], records, rng)
        count = _note_all(model, types.measured, source, counts[source], changes, 0)
        apply_changes(sums, changes.amount, changes.marked, changes.listed, count, True)
    return state


def number_of(state: TypeState) -> int:
    """Return the number of records of all data sets."""
    return int(state.counts.sum())


# ------------------------------------------------------------------------------------------------------------- types


@compiled
def _weigh_types(cells: Ints, theta: Floats) -> tuple[Floats, Floats]:
    """Compute every type's log probability, and the probability of each type or a later one, shape (types + 1,)."""
    logs, rest = np.zeros(len(cells)), np.zeros(len(cells) + 1)
    for kind in range(len(cells) - 1, -1, -1):
        for node in range(cells.shape[1]):
            logs[kind] += math.log(theta[cells[kind, node]])
        rest[kind] = rest[kind + 1] + math.exp(logs[kind])
    return logs, rest


@compiled
def _scatter(logs: Floats, rest: Floats, counts: Ints, records: int, rng: np.random.Generator) -> None:
    """Add a number of records, drawn from theta, to the counts of their types."""
    left = records
    for kind in range(len(logs)):
        if left > 0:
            share = 1.0 if rest[kind + 1] <= 0 else min(math.exp(logs[kind]) / rest[kind], 1.0)
            here = rng.binomial(left, share)
            counts[kind] += here
            left -= here


@compiled
def _gather(counts: Ints, picked: Ints, records: int, rng: np.random.Generator) -> None:
    """Pick a number of the counted records without replacement, and count their types in `picked` (0 before)."""
    reached = np.cumsum(counts)
    done = 0
    while done < records:
        position = int(rng.random() * reached[-1])
        kind = int(np.searchsorted(reached, position, side="right"))
        # Records picked before are the last ones of their type: a position among them is drawn again.
        if reached[kind] - position > picked[kind]:
            picked[kind] += 1
            done += 1


@compiled
def _note_all(model: Model, measured: Ints, source: int, more: Ints, changes: ProposedSums, count: int) -> int:
    """Note that a data set has `more` records of every type; return the number of listed statistics."""
    owner, entries, statistic, amount = model.owner, model.entries, model.statistic, model.amount
    change, marked, listed = changes.amount, changes.marked, changes.listed
    for kind in range(len(more)):
        if more[kind] != 0:
            for table in range(len(owner)):
                if owner[table] == source:
                    cell = measured[kind, table]
                    count = note(entries, statistic, amount, change, marked, listed, count, cell, more[kind])
    return count


@compiled
def count_cells(model: Model, state: TypeState) -> Floats:
    """Count the records in each cell of all tables, shape (cells,)."""
    cells, counts = state.types.cells, state.counts
    totals = np.zeros(model.firsts[len(model.sizes)])
    for kind in range(len(cells)):
        records = counts[:, kind].sum()
        if records > 0:
            for node in range(cells.shape[1]):
                totals[cells[kind, node]] += records
    return totals


# --------------------------------------------------------------------------------------------------- parts of a sweep


@compiled
def _pair_types(model: Model, types: Types, node: int, rng: np.random.Generator) -> Ints:
    """Pair types disjointly; return the partner of the first type of each pair, -1 for all others.

    The two differ in the state of the node alone; for the node number `nodes` they are any two.
    """
    states, count = types.states, len(types.states)
    partners = np.full(count, -1)
    if node == len(model.sizes):
        order = rng.permutation(count)
        for pair in range(count // 2):
            partners[order[2 * pair]] = order[2 * pair + 1]
    else:
        codes = rng.permutation(model.sizes[node])
        for pair in range(len(codes) // 2):
            first_code, second_code = codes[2 * pair], codes[2 * pair + 1]
            for kind in range(count):
                if states[kind, node] == first_code:
                    partners[kind] = kind + (second_code - first_code) * types.strides[node]
    return partners


@compiled
def _exchange(
    model: Model,
    state: TypeState,
    changes: ProposedSums,
    source: int,
    partners: Ints,
    logs: Floats,
    rng: np.random.Generator,
) -> float:
    """Draw some records of each pair of types of a data set anew; return the share of accepted pairs."""
    owner, entries, statistic, amount = model.owner, model.entries, model.statistic, model.amount
    released, scale, within, gaussian = model.released, model.scale, model.within, model.gaussian
    block, blocks = model.block, model.blocks
    change, marked, listed, seen = changes.amount, changes.marked, changes.listed, changes.seen
    measured, sums, counts = state.types.measured, state.sums, state.counts[source]
    tried, taken = 0, 0
    for first in range(len(partners)):
        second = partners[first]
        if second < 0 or counts[first] + counts[second] == 0:
            continue
        count = 0
        for table in range(len(owner)):
            left, entered = measured[second, table], measured[first, table]
            if owner[table] == source and left != entered:
                count = note(entries, statistic, amount, change, marked, listed, count, left, -1)
                count = note(entries, statistic, amount, change, marked, listed, count, entered, 1)
        # A step should have the order of the noise: one over the root of this precision.
        precision = 0.0
        for position in range(count):
            weight = change[listed[position]] / scale[listed[position]]
            precision += weight * weight
        share = math.exp(log_share(logs[first] - logs[second]))
        variance = 2 * (counts[first] + counts[second]) * share * (1 - share)  # of a step, if all records are picked
        step = BEST_STEP * 2.0 ** (3 * rng.random() - 2)
        chance = 1.0 if variance * precision <= step * step else step * step / (variance * precision)
        picked = rng.binomial(counts[first], chance)
        moved = rng.binomial(picked + rng.binomial(counts[second], chance), share) - picked
        for position in range(count):
            change[listed[position]] *= moved
        good = accept_step(
            log_ratio(released, scale, within, gaussian, block, blocks, sums, change, listed, seen, count), rng
        )
        apply_changes(sums, change, marked, listed, count, good)
        tried += 1
        if good:
            taken += 1
            counts[first] += moved
            counts[second] -= moved
    return taken / max(tried, 1)


@compiled
def _change_number(
    model: Model,
    state: TypeState,
    changes: ProposedSums,
    logs: Floats,
    rest: Floats,
    source: int,
    size: int,
    rng: np.random.Generator,
) -> None:
    """Propose `size` more records of a data set, drawn from theta, or `size` fewer, picked at random.

    The number n of records has a uniform prior up to the room for them. With s the size, n_x records of type x, of
    which k_x are added, and p_x its probability, the law of the state times that of the proposal is the same both ways:

        multinomial(n_x; n, p) multinomial(k_x; s, p)
            = multinomial(n_x + k_x; n + s, p) prod_x C(n_x + k_x, k_x) / C(n + s, s),

    so the acceptance ratio is that of the noise alone.
    """
    counts = state.counts[source]
    change, marked, listed, seen = changes.amount, changes.marked, changes.listed, changes.seen
    released, scale, within, gaussian = model.released, model.scale, model.within, model.gaussian
    block, blocks = model.block, model.blocks
    more = np.zeros(len(logs), np.int64)
    if rng.random() < 0.5:
        if state.counts.sum() + size > state.room:
            return
        _scatter(logs, rest, more, size, rng)
    else:
        if counts.sum() < size:
            return
        _gather(counts, more, size, rng)
        for kind in range(len(more)):
            more[kind] = -more[kind]
    count = _note_all(model, state.types.measured, source, more, changes, 0)
    gain = log_ratio(released, scale, within, gaussian, block, blocks, state.sums, change, listed, seen, count)
    good = accept_step(gain, rng)
    apply_changes(state.sums, change, marked, listed, count, good)
    if good:
        counts += more


@compiled
def draw_rows(model: Model, state: TypeState, rng: np.random.Generator) -> None:
    """Draw theta given the records; changes the state."""
    counts = count_cells(model, state)
    draw_theta(model.sizes, model.firsts, model.fixed, state.alpha, counts, state.theta, rng)


@compiled
def _cross_type(
    model: Model,
    types: Types,
    theta: Floats,
    more: Ints,
    goals: Ints,
    records: Ints,
    old: int,
    node: int,
    state: int,
    many: int,
    rng: np.random.Generator,
) -> None:
    """Note the types of `many` records of a type after a node takes a state, with the uniforms of all others fixed.

    Args:
        more: records that every type gains, changed.
        goals: scratch array for the types that records go to, shape (types,).
        records: scratch array for their numbers, same shape.
    """
    sizes, states, strides, cells = model.sizes, types.states, types.strides, types.cells
    goals[0], records[0] = old + (state - states[old, node]) * strides[node], many
    kinds = 1
    for later in range(node + 1, len(sizes)):
        if not model.below[node, later]:
            continue
        before, had = cells[old, later] - states[old, later], states[old, later]
        low = 0.0
        for cell in range(before, before + had):
            low += theta[cell]
        high = low + theta[before + had]
        for kind in range(kinds):
            goal, left = goals[kind], records[kind]
            after = cells[goal, later] - had
            if after == before:
                continue
            # The uniforms lie in [low, high); draw the number in the interval of each state.
            records[kind] = 0
            at, reached = low, 0.0
            for code in range(sizes[later]):
                reached += theta[after + code]
                last = reached >= high or code == sizes[later] - 1
                if left > 0 and (last or reached > at):
                    here = left if last else rng.binomial(left, (reached - at) / (high - at))
                    at = reached
                    left -= here
                    if here > 0:
                        index = kind if records[kind] == 0 else kinds
                        goals[index], records[index] = goal + (code - had) * strides[later], here
                        kinds = max(kinds, index + 1)
    more[old] -= many
    for kind in range(kinds):
        more[goals[kind]] += records[kind]


@compiled
def _has_records(counts: Ints, order: Ints, begin: int, end: int) -> bool:
    """True if types of a row, at some positions of an order, have records."""
    total = 0
    for position in range(begin, end):
        total += counts[:, order[position]].sum()
    return total > 0


@compiled
def _move_rows(model: Model, state: TypeState, changes: ProposedSums, adapt: float, rng: np.random.Generator) -> float:
    """Move pairs of states of every row, with each record's uniform fixed; return the share of accepted moves."""
    sizes, firsts, fixed, types = model.sizes, model.firsts, model.fixed, state.types
    change, marked, listed, seen = changes.amount, changes.marked, changes.listed, changes.seen
    released, scale, within, gaussian = model.released, model.scale, model.within, model.gaussian
    block, blocks = model.block, model.blocks
    counts, sums, theta, alpha, lengths = state.counts, state.sums, state.theta, state.alpha, state.lengths
    order, begins = types.order, types.begins
    more = np.zeros(counts.shape, np.int64)
    goals, records = np.empty(counts.shape[1], np.int64), np.empty(counts.shape[1], np.int64)
    tried, taken = 0, 0
    for node in range(len(sizes)):
        size = sizes[node]
        if size < 2 or fixed[node]:
            continue
        for first in range(firsts[node], firsts[node + 1], size):
            if not _has_records(counts, order, begins[first], begins[first + size]):
                continue  # the last sweep drew a row without records from its prior
            pairs = rng.permutation(size)
            for pair in range(size // 2):
                first_state, second_state = pairs[2 * pair], pairs[2 * pair + 1]
                a, b = first + first_state, first + second_state
                wanted, gain, loses, chance = propose_move(theta, alpha, lengths, a, b, rng)
                losing, goal = (a, second_state) if loses else (b, first_state)
                count = 0
                for source in range(len(counts)):
                    for position in range(begins[losing], begins[losing + 1]):
                        old = order[position]
                        many = rng.binomial(counts[source, old], chance) if counts[source, old] > 0 else 0
                        if many > 0:
                            _cross_type(model, types, theta, more[source], goals, records, old, node, goal, many, rng)
                    count = _note_all(model, types.measured, source, more[source], changes, count)
                gain += log_ratio(released, scale, within, gaussian, block, blocks, sums, change, listed, seen, count)
                good = accept_step(gain, rng)
                apply_changes(sums, change, marked, listed, count, good)
                tried += 1
                if good:
                    taken += 1
                    counts += more
                more[:] = 0
                finish_move(theta, lengths, a, b, wanted, good, adapt)
    return taken / max(tried, 1)


@compiled
def _sweep(
    model: Model, state: TypeState, changes: ProposedSums, adapt: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Run one sweep of all three parts; return the shares of accepted exchanges and moves."""
    logs, rest = _weigh_types(state.types.cells, state.theta)
    exchanges, passes = 0.0, len(model.sizes) + 1
    for node in range(passes):
        for source in range(len(model.counted)):
            partners = _pair_types(model, state.types, node, rng)
            exchanges += _exchange(model, state, changes, source, partners, logs, rng) / (passes * len(model.counted))
    for source in range(len(model.counted)):
        if not model.counted[source]:
            widest = min(model.widest, state.room / 8)
            for _ in range(NUMBER_PROPOSALS):
                # Log-uniform sizes, from single records to the width of the noise.
                size = int((widest + 1) ** rng.random())
                _change_number(model, state, changes, logs, rest, source, size, rng)
    moves = 0.0
    for _ in range(MOVE_PASSES):
        moves += _move_rows(model, state, changes, adapt, rng) / MOVE_PASSES
    draw_rows(model, state, rng)
    return exchanges, moves


@compiled
def sweeps(model: Model, state: TypeState, count: int, adapt: float, rng: np.random.Generator) -> tuple[float, float]:
    """Run sweeps of one chain; changes the state.

    Args:
        model: fixed.
        state: of the chain.
        count: number of sweeps.
        adapt: rate of adaptation of the moves' lengths; 0 after the warm-up.
        rng: source of randomness.

    Returns:
        Shares of accepted exchanges between types and of accepted moves.
    """
    changes = make_room(len(model.released), len(model.blocks.law))
    exchanges, moves = 0.0, 0.0
    for _ in range(count):
        exchange_share, move_share = _sweep(model, state, changes, adapt, rng)
        exchanges += exchange_share / count
        moves += move_share / count
    return exchanges, moves
