r"""The chains of `by_record.py`, collapsed by type: how many records of every joint state, not which ones.

The law of the records does not tell them apart, so the state is the number n_x of records of every type x, a joint
state of all nodes, in each data set. Its law given theta is multinomial; everything else is as there, and a sweep has
the same three parts. It costs types times nodes, whatever the number of records, and is worth it where there are many
records of few types.

    records    pairs of types exchange records; where the number of records is not public, blocks of records are added
               and taken away as well.
    moves      records cross as there, all records of a type together: the record's uniform is not known, only that it
               lies in the interval of its state, so those who cross are binomial and their descendants multinomial.
    rows       theta given the records is Dirichlet, row by row.

Why exchanges are right. Think of the records one by one. Each of those of the two types is picked or not by a coin of
its own, whose probability does not depend on its type; the types of those picked are drawn anew, from theta among the
two. Given who was picked this is a Gibbs step, so it is reversible under prod_i p(x_i | theta), and the ratio to accept
by is that of the noise alone. In terms of types: Binomial(n_x, chance) and Binomial(n_y, chance) records are picked,
and x gets back a binomial number of them all. The chance may depend on whatever the step leaves as it was: theta, and
the records of the two types together.

Source: Ju, Awan, Gong and Rao (2022) and Yu and Meng (2011), as in `by_record.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from discreet.research.readers.compiling import compiled
from discreet.research.readers.moves import (
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
from discreet.util.arrays import Floats, Ints

MOVE_PASSES = 4
"""Passes of moves over all rows in each sweep: together they take as long as the pass over the records."""
BEST_STEP = 2.4
"""Standard deviation of the best step of one parameter, as a multiple of that of its law (Gelman, Roberts and Gilks,
1996)."""


class Types(NamedTuple):
    """All joint states of the nodes, and the table entries that each picks.

    Args:
        states: of the nodes, int32, shape (types, nodes); the last node's state runs fastest.
        strides: by how much the type grows with the state of a node, shape (nodes,).
        cells: that the type picks in the nodes' own tables, shape (types, nodes).
        measured: cells that count it in the measured tables, shape (types, tables).
        order: types in the order of the cells of a node's table, node after node, shape (nodes * types,).
        begins: where the types of each cell begin in this order, shape (cells + 1,).
    """

    states: Codes
    strides: Ints
    cells: Ints
    measured: Ints
    order: Ints
    begins: Ints


class TypeState(NamedTuple):
    """State of a chain over counts of types. All arrays but those of the types are changed in place.

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
    """All joint states of a model's nodes."""
    sizes = tuple(int(size) for size in model.sizes)
    states = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    strides = np.array([math.prod(sizes[node + 1 :]) for node in range(len(sizes))], np.int64)
    # The place -1 of a parent or node that is not there reads the last one; its stride is 0.
    cells = model.firsts[:-1] + states + (states[:, model.parents] * model.strides * (model.parents >= 0)).sum(axis=2)
    measured = model.starts[:-1] + (states[:, model.scopes] * model.places * (model.scopes >= 0)).sum(axis=2)
    order = np.argsort(cells, axis=0, kind="stable").T.ravel()
    begins = np.searchsorted(cells.T.ravel()[order + np.repeat(np.arange(len(sizes)) * len(states), len(states))],
                             np.arange(model.firsts[-1] + 1))  # fmt: skip
    return Types(states.astype(np.int32), strides, cells, measured, order, begins)


def start(
    model: Model, theta: Floats, alpha: Floats, numbers: tuple[int, ...], room: int, rng: np.random.Generator
) -> TypeState:
    """A chain's first state: records drawn from theta.

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
    changes = make_room(len(sums), len(model.ties.rows) - 1)
    for source, records in enumerate(numbers):
        _scatter(logs, rest, counts[source], records, rng)
        count = _note_all(model, types.measured, source, counts[source], changes, 0)
        apply_changes(sums, changes.amount, changes.marked, changes.listed, count, True)
    return state


def number_of(state: TypeState) -> int:
    """Records of all data sets."""
    return int(state.counts.sum())


# ------------------------------------------------------------------------------------------------------------- types


@compiled
def _weigh_types(cells: Ints, theta: Floats) -> tuple[Floats, Floats]:
    """Log probability of every type; and of each type or a later one, the probability, shape (types + 1,)."""
    logs, rest = np.zeros(len(cells)), np.zeros(len(cells) + 1)
    for kind in range(len(cells) - 1, -1, -1):
        for node in range(cells.shape[1]):
            logs[kind] += math.log(theta[cells[kind, node]])
        rest[kind] = rest[kind + 1] + math.exp(logs[kind])
    return logs, rest


@compiled
def _scatter(logs: Floats, rest: Floats, counts: Ints, records: int, rng: np.random.Generator) -> None:
    """Add so many records, drawn from theta, to the counts of their types."""
    left = records
    for kind in range(len(logs)):
        if left > 0:
            share = 1.0 if rest[kind + 1] <= 0 else min(math.exp(logs[kind]) / rest[kind], 1.0)
            here = rng.binomial(left, share)
            counts[kind] += here
            left -= here


@compiled
def _gather(counts: Ints, picked: Ints, records: int, rng: np.random.Generator) -> None:
    """Note in `picked` (0 before) the types of so many records, any of those counted, without replacement."""
    reached = np.cumsum(counts)
    done = 0
    while done < records:
        place = int(rng.random() * reached[-1])
        kind = int(np.searchsorted(reached, place, side="right"))
        # Those picked before are the last of their type: a place that one of them has is drawn again.
        if reached[kind] - place > picked[kind]:
            picked[kind] += 1
            done += 1


@compiled
def _note_all(model: Model, measured: Ints, source: int, more: Ints, changes: ProposedSums, count: int) -> int:
    """Note that a data set has so many more records of every type; returns how many statistics are listed."""
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
    """Records in each cell of all tables, shape (cells,)."""
    cells, counts = state.types.cells, state.counts
    found = np.zeros(model.firsts[len(model.sizes)])
    for kind in range(len(cells)):
        records = counts[:, kind].sum()
        if records > 0:
            for node in range(cells.shape[1]):
                found[cells[kind, node]] += records
    return found


# --------------------------------------------------------------------------------------------------- parts of a sweep


@compiled
def _pair_types(model: Model, types: Types, node: int, rng: np.random.Generator) -> Ints:
    """Disjoint pairs of types: the partner of the first of each pair, -1 for all others.

    They differ in the state of the node alone; for a node that is not there they are any two.
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
            one, other = codes[2 * pair], codes[2 * pair + 1]
            for kind in range(count):
                if states[kind, node] == one:
                    partners[kind] = kind + (other - one) * types.strides[node]
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
    """Draw some records of each pair of types of a data set anew; returns the share of pairs where it was taken."""
    owner, entries, statistic, amount = model.owner, model.entries, model.statistic, model.amount
    released, scale, within, gaussian = model.released, model.scale, model.within, model.gaussian
    block, ties = model.block, model.ties
    change, marked, listed, seen = changes.amount, changes.marked, changes.listed, changes.seen
    measured, sums, counts = state.types.measured, state.sums, state.counts[source]
    tried, taken = 0, 0
    for one in range(len(partners)):
        other = partners[one]
        if other < 0 or counts[one] + counts[other] == 0:
            continue
        count = 0
        for table in range(len(owner)):
            left, entered = measured[other, table], measured[one, table]
            if owner[table] == source and left != entered:
                count = note(entries, statistic, amount, change, marked, listed, count, left, -1)
                count = note(entries, statistic, amount, change, marked, listed, count, entered, 1)
        # A step should be of the order of what the noise lets vary: by one over the root of this precision.
        precision = 0.0
        for position in range(count):
            weight = change[listed[position]] / scale[listed[position]]
            precision += weight * weight
        share = math.exp(log_share(logs[one] - logs[other]))
        variance = 2 * (counts[one] + counts[other]) * share * (1 - share)  # of a step, if all records are picked
        step = BEST_STEP * 2.0 ** (3 * rng.random() - 2)
        chance = 1.0 if variance * precision <= step * step else step * step / (variance * precision)
        picked = rng.binomial(counts[one], chance)
        moved = rng.binomial(picked + rng.binomial(counts[other], chance), share) - picked
        for position in range(count):
            change[listed[position]] *= moved
        good = accept_step(
            log_ratio(released, scale, within, gaussian, block, ties, sums, change, listed, seen, count), rng
        )
        apply_changes(sums, change, marked, listed, count, good)
        tried += 1
        if good:
            taken += 1
            counts[one] += moved
            counts[other] -= moved
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
    """Propose that a data set has so many more records, drawn from theta, or so many fewer, any of its own.

    The number n of records has a flat prior up to the room for them. With s the size, n_x records of type x, of which
    k_x are added, and p_x its probability, the law of the state times that of the proposal is the same both ways:

        multinomial(n_x; n, p) multinomial(k_x; s, p)
            = multinomial(n_x + k_x; n + s, p) prod_x C(n_x + k_x, k_x) / C(n + s, s),

    so the ratio to accept by is that of the noise alone.
    """
    counts = state.counts[source]
    change, marked, listed, seen = changes.amount, changes.marked, changes.listed, changes.seen
    released, scale, within, gaussian = model.released, model.scale, model.within, model.gaussian
    block, ties = model.block, model.ties
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
    gain = log_ratio(released, scale, within, gaussian, block, ties, state.sums, change, listed, seen, count)
    good = accept_step(gain, rng)
    apply_changes(state.sums, change, marked, listed, count, good)
    if good:
        counts += more


@compiled
def draw_rows(model: Model, state: TypeState, rng: np.random.Generator) -> None:
    """Draw theta given the records; changes the state."""
    counts = count_cells(model, state)
    draw_theta(model.sizes, model.firsts, model.known, state.alpha, counts, state.theta, rng)


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
    """Note what becomes of many records of a type when a node takes a state and the uniforms of all others are held.

    Args:
        more: records that every type gains, changed.
        goals: room for types that records go to, shape (types,).
        records: room for how many go there, same shape.
    """
    sizes, states, strides, cells = model.sizes, types.states, types.strides, types.cells
    goals[0], records[0] = old + (state - states[old, node]) * strides[node], many
    kinds = 1
    for other in range(node + 1, len(sizes)):
        if not model.below[node, other]:
            continue
        before, had = cells[old, other] - states[old, other], states[old, other]
        low = 0.0
        for cell in range(before, before + had):
            low += theta[cell]
        high = low + theta[before + had]
        for kind in range(kinds):
            goal, left = goals[kind], records[kind]
            after = cells[goal, other] - had
            if after == before:
                continue
            # The uniforms lie in [low, high); state by state, how many of them are in its own interval?
            records[kind] = 0
            at, reached = low, 0.0
            for code in range(sizes[other]):
                reached += theta[after + code]
                last = reached >= high or code == sizes[other] - 1
                if left > 0 and (last or reached > at):
                    here = left if last else rng.binomial(left, (reached - at) / (high - at))
                    at = reached
                    left -= here
                    if here > 0:
                        place = kind if records[kind] == 0 else kinds
                        goals[place], records[place] = goal + (code - had) * strides[other], here
                        kinds = max(kinds, place + 1)
    more[old] -= many
    for kind in range(kinds):
        more[goals[kind]] += records[kind]


@compiled
def _has_records(counts: Ints, order: Ints, begin: int, end: int) -> bool:
    """Whether types of a row, at some positions of an order, have records."""
    total = 0
    for position in range(begin, end):
        total += counts[:, order[position]].sum()
    return total > 0


@compiled
def _move_rows(model: Model, state: TypeState, changes: ProposedSums, adapt: float, rng: np.random.Generator) -> float:
    """Move pairs of states of every row, each record's uniform being held; returns the share of moves taken."""
    sizes, firsts, known, types = model.sizes, model.firsts, model.known, state.types
    change, marked, listed, seen = changes.amount, changes.marked, changes.listed, changes.seen
    released, scale, within, gaussian = model.released, model.scale, model.within, model.gaussian
    block, ties = model.block, model.ties
    counts, sums, theta, alpha, lengths = state.counts, state.sums, state.theta, state.alpha, state.lengths
    order, begins = types.order, types.begins
    more = np.zeros(counts.shape, np.int64)
    goals, records = np.empty(counts.shape[1], np.int64), np.empty(counts.shape[1], np.int64)
    tried, taken = 0, 0
    for node in range(len(sizes)):
        size = sizes[node]
        if size < 2 or known[node]:
            continue
        for first in range(firsts[node], firsts[node + 1], size):
            if not _has_records(counts, order, begins[first], begins[first + size]):
                continue  # a row without records has just been drawn from its prior
            pairs = rng.permutation(size)
            for pair in range(size // 2):
                one, other = pairs[2 * pair], pairs[2 * pair + 1]
                a, b = first + one, first + other
                wanted, gain, loses, chance = propose_move(theta, alpha, lengths, a, b, rng)
                losing, goal = (a, other) if loses else (b, one)
                count = 0
                for source in range(len(counts)):
                    for position in range(begins[losing], begins[losing + 1]):
                        old = order[position]
                        many = rng.binomial(counts[source, old], chance) if counts[source, old] > 0 else 0
                        if many > 0:
                            _cross_type(model, types, theta, more[source], goals, records, old, node, goal, many, rng)
                    count = _note_all(model, types.measured, source, more[source], changes, count)
                gain += log_ratio(released, scale, within, gaussian, block, ties, sums, change, listed, seen, count)
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
    """One sweep of all three parts; returns the shares of exchanges and of moves that were taken."""
    logs, rest = _weigh_types(state.types.cells, state.theta)
    exchanges, passes = 0.0, len(model.sizes) + 1
    for node in range(passes):
        for source in range(len(model.counted)):
            partners = _pair_types(model, state.types, node, rng)
            exchanges += _exchange(model, state, changes, source, partners, logs, rng) / (passes * len(model.counted))
    for source in range(len(model.counted)):
        if not model.counted[source]:
            widest = min(max(model.scale.max(), 1.0), state.room / 8)
            for _ in range(NUMBER_PROPOSALS):
                # From steps as wide as the noise to single records.
                size = int((widest + 1) ** rng.random())
                _change_number(model, state, changes, logs, rest, source, size, rng)
    moves = 0.0
    for _ in range(MOVE_PASSES):
        moves += _move_rows(model, state, changes, adapt, rng) / MOVE_PASSES
    draw_rows(model, state, rng)
    return exchanges, moves


@compiled
def sweeps(model: Model, state: TypeState, count: int, adapt: float, rng: np.random.Generator) -> tuple[float, float]:
    """Sweeps of one chain; changes the state.

    Args:
        model: fixed.
        state: of the chain.
        count: of sweeps.
        adapt: how fast lengths of moves adapt; 0 once the chain is used.
        rng: source of randomness.

    Returns:
        Shares of exchanges between types and of moves that were taken.
    """
    changes = make_room(len(model.released), len(model.ties.rows) - 1)
    exchanges, moves = 0.0, 0.0
    for _ in range(count):
        one, other = _sweep(model, state, changes, adapt, rng)
        exchanges += one / count
        moves += other / count
    return exchanges, moves
