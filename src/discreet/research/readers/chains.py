"""The exact joint posterior of all probabilities: families share records, so what one table tells informs the others.

`by_record.py` has the chains, and `by_type.py` the same ones where there are many records of few types. This file
says what each payload tells of the records, runs several chains until they agree, and refuses to return what has not
mixed. All releases and public records that were combined are read together: releases on one data set share its records,
data sets share the probabilities, and public records are counted exactly.

Rounding leaves a statistic in an interval, and makes all within as probable. Chains that never left it would be stuck
where several tables were rounded, so they run with a law that lets it go a little beyond, and are watched only while
all statistics are where they must be: a chain that is watched whenever it is in a set has the law that it has there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from discreet.errors import DiscreetError, InputError
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.diagnostics import describe_mixing, has_mixed, measure_mixing
from discreet.posterior.evidence import measurements, number_of_records
from discreet.posterior.joint_draws import Mixing, PosteriorDraws
from discreet.posterior.methods import DrawTask
from discreet.posterior.plug_in import plug_in
from discreet.releases.combined import Combined
from discreet.releases.measurement import Measurement
from discreet.research.readers import by_record, by_type
from discreet.research.readers.compiling import COMPILED
from discreet.research.readers.moves import FLOOR_PROBABILITY, Model, Ties
from discreet.util.arrays import Array, Floats, Ints, by_rows

INSIDE_SHARE, LEAST_NATS = 0.25, 1.5
"""Share of the sweeps in which all rounded numbers are where they must be, if their errors were independent, and nats
that a chain loses at least for each record by which one is off: with four cells in two tables 16 times fewer sweeps
mix with 1.5 or 2 than with 3."""


# --------------------------------------------------------------------------------------------------------------------
# What was measured, as chains over records take it: sums of what each record adds, with the law of their noise.

QUICK_UPDATES = 8e6
"""Updates of a sweep times draws up to which the exact posterior is chosen by itself: seconds, compiled. That is 500
records of 8 variables, or any number of records of 7 binary ones."""
LEAST_COUNTED_DRAWS = 2000
"""Draws that the exact posterior costs at least."""
MOST_QUICK_UPDATES = 2e7
"""Updates of a chain after which the exact posterior, chosen by itself, gives up again."""


@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """A table of the records that was released with noise.

    Args:
        scope: names of nodes, and of memberships of a sample.
        owner: position of the data set.
        released: statistics with noise, any shape.
        weights: what a record in each cell adds to each statistic, sparse: (cell, statistic, amount).
        scale: of the noise; of rounding that of the law beyond.
        within: how far rounding moves a statistic; None of other noise.
        power: of the distance in the exponent of its law, 1 or 2.
        shared: variables that the tables of its star share; none where its noise is independent.
        star: what tells its star from others.
    """

    scope: Scope
    owner: int
    released: Ints | Floats
    weights: Sequence[tuple[int, int, float]]
    scale: float
    within: float | None
    power: int
    shared: Scope = ()
    star: Hashable = None


def crossing_nats(parts: Iterable[Measurement]) -> float:
    """Nats that chains lose for each record by which a number is off beyond its rounding: they cross there, not often.

    An error of whole records that costs x each is 0 with probability tanh(x / 2).

    Args:
        parts: all that is read.

    Example:
        >>> crossing_nats([])  # nothing was rounded
        1.5
    """
    count = sum(part.values.size for part in parts if part.noise is not None and part.noise.reach is not None)
    return max(2 * math.atanh(INSIDE_SHARE ** (1 / max(count, 1))), LEAST_NATS)


def read_sums(
    network: Network, part: Measurement, place: tuple[int, int], members: dict[str, float], nats: float
) -> MeasuredSums:
    """Read a measurement as sums; notes the membership of a sample that it needs, with its probability.

    Args:
        network: for the sizes.
        part: of the evidence, with noise.
        place: positions of its data set, and of its release in it.
        members: probabilities of the memberships that were noted before; changed.
        nats: of `crossing_nats`.
    """
    weights, scope, law = _list_weights(network, part), part.scope, part.noise
    assert law is not None
    if part.sampling is not None:
        member = f"member {len(members)}"
        while member in network.schema:
            member += "'"
        members[member] = part.sampling
        # The membership is the last axis: 0 is out of the sample.
        scope, weights = (*scope, member), [(2 * cell + 1, statistic, amount) for cell, statistic, amount in weights]
    scale = law.scale if law.reach is None else float(np.median([abs(amount) for *_, amount in weights])) / nats
    found = MeasuredSums(scope, place[0], part.values, weights, scale, law.reach, law.power)
    if part.star is None:
        return found
    if part.sampling is not None:
        raise InputError("the joint posterior reads stars of all records, and one has tables of samples")
    return replace(found, shared=part.star.shared, star=(*place, part.star.scopes))


def _list_weights(network: Network, part: Measurement) -> Sequence[tuple[int, int, float]]:
    """List what a record in each cell adds to each number: (cell, number, amount)."""
    sizes = [network.schema[name].size for name in part.scope]
    if part.weights is not None:
        rows = part.weights.reshape(part.values.size, -1)
        return [(int(cell), int(number), float(rows[number, cell])) for number, cell in np.argwhere(rows)]
    return _list_contrast_weights(sizes) if part.contrasts else [(cell, cell, 1) for cell in range(math.prod(sizes))]


def _list_contrast_weights(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """List what a record adds to contrasts: state k adds to that of k with k + 1, takes from k - 1 with k."""
    shape = tuple(size - 1 for size in sizes)
    weights = []
    for cell, states in enumerate(product(*map(range, sizes))):
        near = [[(k - 1, -1)] * (k > 0) + [(k, 1)] * (k < size - 1) for k, size in zip(states, sizes, strict=True)]
        for picked in product(*near):
            place = np.ravel_multi_index([k for k, _ in picked], shape) if shape else 0
            weights.append((cell, int(place), math.prod(sign for _, sign in picked)))
    return weights


EXACT_CHAINS = 4
WARM_UP_SWEEPS = 500
"""Sweeps in which the lengths of moves adapt; thrown away."""
ADAPTATION_RATE = 0.1
"""Of their adaptation."""
LEAST_KEPT_DRAWS = 500
"""Draws kept of each chain: enough to tell its autocorrelation."""
MOST_UPDATES = 6e9
"""A chain updates each variable of each record once a sweep; so many take five minutes of one core, compiled."""
RECORDS_PER_TYPE = 4
"""Records that take as long to update as a type of records."""
PYTHON_SLOWDOWN = 100
"""Times that plain Python is slower."""
ROOM_DEVIATIONS, ROOM_RECORDS = 10, 100
"""Where the number of records is not public, chains have room for so many deviations of its noise, and so many records,
beyond what the noisy tables tell: what lies above has less than e^-14 of the mass of one Laplace total, and less of a
sum of several."""
MOST_CHAIN_BYTES = 2**30
"""Memory for the records of a chain."""
ROUNDING_SHARE = 1e-9
"""Share of a statistic that floating point may be off."""
MOST_SWEEPS_OUTSIDE = 100
"""Sweeps for each of those in which all rounded numbers are where they must be, before chains give up."""


def _build_model(
    network: Network, parts: Sequence[MeasuredSums], members: Mapping[str, float], counted: Sequence[bool]
) -> Model:
    """Arrays of the kernel."""
    order = [*network.order, *members]
    position = {name: index for index, name in enumerate(order)}
    sizes = np.array([*(network.schema[name].size for name in network.order), *(2 for _ in members)], np.int64)
    above = [[position[name] for name in network.parents[node]] if node in network.parents else [] for node in order]
    parents, strides, rows = _stride_sets(above, sizes)
    strides *= sizes[:, None]  # a row has a cell for each state of its node
    below = _find_descendants(above)
    measured = [[position[name] for name in part.scope] for part in parts]
    scopes, places, cells = _stride_sets(measured, sizes)
    touched = np.zeros((len(order), len(parts)), np.bool_)
    for table, nodes in enumerate(measured):
        touched[:, table] = below[:, nodes].any(axis=1)
        touched[nodes, table] = True
    each = [part.released.size for part in parts]
    begins, statistic, amount = _list_entries(parts, _lay_out(each)[:-1], cells)
    return Model(
        sizes,
        parents,
        strides,
        _lay_out(sizes * rows),
        below,
        scopes,
        places,
        _lay_out(cells),
        touched,
        begins,
        statistic,
        amount,
        np.concatenate([part.released.ravel() for part in parts]).astype(np.float64),
        np.repeat([part.scale for part in parts], each).astype(np.float64),
        np.repeat([part.within or 0.0 for part in parts], each).astype(np.float64),
        np.repeat([part.power == 2 for part in parts], each),
        *_list_ties(parts, _lay_out(each)),
        np.array([name in members for name in order]),
        np.array([part.owner for part in parts], np.int64),
        np.array(counted, np.bool_),
    )


def _find_descendants(above: Sequence[Sequence[int]]) -> npt.NDArray[np.bool_]:
    """Whether the first node is an ancestor of the second, from the parents of each, which come before it."""
    below = np.zeros((len(above), len(above)), np.bool_)
    for node, names in enumerate(above):
        for parent in names:
            below[:, node] |= below[:, parent]
            below[parent, node] = True
    return below


def _list_entries(parts: Sequence[MeasuredSums], firsts: Ints, cells: Ints) -> tuple[Ints, Ints, Floats]:
    """List where the entries of each table's cells begin; of each entry the statistic, and what a record adds to it."""
    entries: list[list[tuple[int, float]]] = []
    for part, first, count in zip(parts, firsts.tolist(), cells, strict=True):
        own: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        for cell, statistic, amount in part.weights:
            own[cell].append((first + statistic, amount))
        entries += own
    flat = np.array([entry for cell in entries for entry in cell], np.float64).reshape(-1, 2)
    return _lay_out([len(cell) for cell in entries]), flat[:, 0].astype(np.int64), flat[:, 1].copy()


def _list_ties(parts: Sequence[MeasuredSums], firsts: Ints) -> tuple[Ints, Ties]:
    """List of each statistic the block of a star that it belongs to, or -1; and what the blocks are."""
    block = np.full(firsts[-1], -1, np.int64)
    stars: dict[Hashable, list[Ints]] = {}
    for part, first in zip(parts, firsts[:-1].tolist(), strict=True):
        if part.star is not None:
            own = first + np.arange(part.released.size).reshape(part.released.shape)
            stars.setdefault(part.star, []).append(by_rows(own, part.scope, part.shared))
    blocks = [rows for tables in stars.values() for rows in zip(*tables, strict=True)]
    for number, rows in enumerate(blocks):
        block[np.concatenate(rows)] = number
    cells = [row for rows in blocks for row in rows]
    members = np.concatenate(cells) if cells else np.zeros(0, np.int64)
    return block, Ties(_lay_out([len(rows) for rows in blocks]), _lay_out([len(row) for row in cells]), members)


def _stride_sets(sets: Sequence[Sequence[int]], sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """Sets of variables in rows filled up with -1, by how many cells a step of each moves, and cells of each set."""
    names = np.full((len(sets), max(1, *map(len, sets))), -1, np.int64)
    strides, cells = np.zeros_like(names), np.ones(len(sets), np.int64)
    for row, held in enumerate(sets):
        for place in reversed(range(len(held))):
            names[row, place], strides[row, place] = held[place], cells[row]
            cells[row] *= sizes[held[place]]
    return names, strides, cells


def _lay_out(lengths: Sequence[int] | Ints) -> Ints:
    """Find where each of some pieces begins, laid one after the other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


# ---------------------------------------------------------------------------------------------------- chains


def draw_jointly(
    evidence: Combined,
    prior: Dirichlet,
    draws: int,
    rng: np.random.Generator,
    *,
    progress: Callable[[Mixing], None] | None = None,
    most_updates: float = MOST_UPDATES,
) -> PosteriorDraws:
    """Draw all probabilities from their exact joint posterior.

    Args:
        evidence: noisy counts, tables, contrasts or weighted sums, and public records.
        prior: of the rows.
        draws: how many are returned, of more or less independent ones.
        rng: source of randomness.
        progress: told how well the chains have mixed, after every round.
        most_updates: each chain gives up where its next round would take it beyond so many updates of a record's
            variable.

    Returns:
        Draws in turn from four chains, with `twins` and `mixing`: every entry's R-hat is at most 1.01, and the worst
        is worth 400 independent draws.

    Raises:
        InputError: a payload that is no sum over records.
        DiscreetError: the chains did not mix in time.
    """
    network = evidence.network
    task = _Task.of(evidence, prior)
    chains = [task.chain(evidence, index, own) for index, own in enumerate(rng.spawn(EXACT_CHAINS))]
    kept = max(LEAST_KEPT_DRAWS, math.ceil(draws / EXACT_CHAINS))
    length = kept
    limit = (most_updates if COMPILED else most_updates / PYTHON_SLOWDOWN) / max(updates_per_sweep(evidence), 1)
    with ThreadPoolExecutor(EXACT_CHAINS if COMPILED else 1) as pool:
        list(pool.map(lambda chain: task.run(chain, WARM_UP_SWEEPS, 0, ADAPTATION_RATE), chains))
        done = WARM_UP_SWEEPS
        while True:
            # Every round is twice as long as the last one, and alone is kept: all before it has been warm-up.
            rounds = list(pool.map(lambda chain, n=length: task.run(chain, n, kept, 0.0), chains))
            done += length
            mixing = _measure_mixing(network, rounds, done)
            if progress is not None:
                progress(mixing)
            if has_mixed(mixing):
                break
            length *= 2
            if done + length > limit:
                raise DiscreetError(
                    f"the chains of the exact posterior have not mixed after {done:,} sweeps: "
                    f"{describe_mixing(mixing)}; read the release with another method"
                )
    cells, twins = (
        _split_by_family(network, [getattr(part, name) for part in rounds], draws) for name in ("theta", "twins")
    )
    # Draws that are left out take their part of what all are worth along.
    worth = partial(float, mixing.effective * draws / (EXACT_CHAINS * kept))
    return PosteriorDraws(cells, "exact", twins, mixing, worth)


def updates_per_sweep(evidence: Combined) -> float:
    """Variables of records that one sweep updates, or as many as take as long as its updates of types of records.

    What the exact posterior costs is proportional to it.

    Args:
        evidence: whose number of records is read off the noisy tables where it is not public.
    """
    network = evidence.network
    members = sum(part.sampling is not None for part in measurements(evidence.parts))
    types = math.prod([*(network.schema[node].size for node in network.nodes), 2**members])
    records = min(sum(most for _, most in _bound_numbers(evidence)), RECORDS_PER_TYPE * types * len(evidence.data_sets))
    return records * len(network.nodes)


class _Kernel(Protocol):
    """The functions that both kernels have, `by_record.py` and `by_type.py`."""

    def start(
        self, model: Model, theta: Floats, alpha: Floats, numbers: tuple[int, ...], room: int, rng: np.random.Generator
    ) -> Any:
        """A chain's first state: records drawn from theta."""

    def sweeps(
        self, model: Model, state: Any, count: int, adapt: float, rng: np.random.Generator
    ) -> tuple[float, float]:
        """Sweeps of one chain; changes the state."""

    def draw_rows(self, model: Model, state: Any, rng: np.random.Generator) -> None:
        """Draw theta given the records; changes the state."""

    def number_of(self, state: Any) -> int:
        """Records of all data sets."""


@dataclass(frozen=True, eq=False)
class _Task:
    """The model, prior and sizes that all chains of a posterior share.

    Args:
        network: of the probabilities.
        model: arrays of the kernel.
        members: probabilities of the memberships of samples.
        alpha: concentrations of all cells, counts of public records included.
        numbers: records of each data set that the chains start with.
        most: that each of them has room for.
        kernel: the one whose sweeps are faster.
        rounded: positions of statistics that were rounded.
    """

    network: Network
    model: Model
    members: Mapping[str, float]
    alpha: Floats
    numbers: tuple[int, ...]
    most: tuple[int, ...]
    kernel: _Kernel
    rounded: Ints

    @staticmethod
    def of(evidence: Combined, prior: Dirichlet) -> _Task:
        """Read what was released."""
        network, members = evidence.network, dict[str, float]()
        if not all(measurements([part]) for part in evidence.parts):
            raise InputError("the joint posterior reads releases of noisy counts, tables or contrasts")
        nats = crossing_nats(measurements(evidence.parts))
        parts = [
            read_sums(network, part, (owner, index), members, nats)
            for owner, releases in enumerate(evidence.data_sets)
            for index, release in enumerate(releases)
            for part in measurements([release])
            if part.noise is not None
        ]
        model = _build_model(network, parts, members, [number is not None for number in evidence.records])
        alpha = _join_tables(network, prior.alpha, members, 1.0)
        if evidence.public is not None:
            alpha += _join_tables(network, evidence.public, members, 0.0)
        numbers, most = zip(*_bound_numbers(evidence), strict=True)
        types = math.prod(map(int, model.sizes))
        kernel = by_type if RECORDS_PER_TYPE * types * len(numbers) < sum(most) else by_record
        rounded = np.repeat([part.within is not None for part in parts], [part.released.size for part in parts])
        return _Task(network, model, members, alpha, numbers, most, kernel, np.flatnonzero(rounded))

    def chain(self, evidence: Combined, index: int, rng: np.random.Generator) -> _Chain:
        """Records drawn from a release's plug-in posterior, each chain's own, and room for more of them."""
        release = evidence.parts[index % len(evidence.parts)]
        theta = plug_in(release, draws=1, rng=rng, prior=release.dirichlet).cells
        cells = np.concatenate(
            [np.maximum(theta[node], FLOOR_PROBABILITY).ravel() for node in self.network.order]
            + [np.array([1 - p, p]) for p in self.members.values()]
        )
        numbers = self.numbers
        room = sum(self.most)
        kept = room if self.kernel is by_record else 8 * math.prod(map(int, self.model.sizes))
        if 4 * kept * len(self.model.sizes) > MOST_CHAIN_BYTES:
            raise DiscreetError(
                f"the exact posterior of {sum(numbers):,} records takes too much memory; read the release with another "
                "method"
            )
        state = self.kernel.start(self.model, cells, self.alpha, numbers, room, rng)
        return _Chain(state, rng)

    def run(self, chain: _Chain, length: int, kept: int, adapt: float) -> _Round:
        """So many sweeps of a chain, of which some are kept; changes the chain."""
        state, rng = chain.state, chain.rng
        theta, numbers = np.empty((kept, len(state.theta))), np.empty(kept)
        twins = np.empty_like(theta)
        every = length // kept if kept else length
        for done in range(every, length + 1, every):
            if kept and self.rounded.size:
                self._run_watched(chain, every)
            else:
                self.kernel.sweeps(self.model, state, every, adapt, rng)
            if kept:
                place = done // every - 1
                theta[place], numbers[place] = state.theta, self.kernel.number_of(state)
                self.kernel.draw_rows(self.model, state, rng)
                twins[place] = state.theta  # the chain goes on from here: both are draws given the same records
        return _Round(theta, twins, numbers)

    def _run_watched(self, chain: _Chain, length: int) -> None:
        """So many sweeps at whose end all rounded statistics are where they must be; changes the chain."""
        state, model, seen = chain.state, self.model, 0
        released, within = model.released[self.rounded], model.within[self.rounded]
        for _ in range(MOST_SWEEPS_OUTSIDE * length):
            self.kernel.sweeps(model, state, 1, 0.0, chain.rng)
            seen += bool(
                np.all(np.abs(released - state.sums[self.rounded]) <= within + ROUNDING_SHARE * np.abs(released))
            )
            if seen == length:
                return
        raise DiscreetError(
            "the exact posterior hardly ever meets all figures that were only rounded: they contradict each other or "
            "other tables, or are too many for it; read them with another method"
        )


@dataclass(frozen=True, eq=False)
class _Chain:
    """State and generator of one chain; its arrays change.

    Args:
        state: of the kernel.
        rng: its own.
    """

    state: Any
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class _Round:
    """Draws that a chain keeps of a round.

    Args:
        theta: shape (kept, cells).
        twins: second draws given the same records, same shape.
        numbers: of records, shape (kept,).
    """

    theta: Floats
    twins: Floats
    numbers: Floats


def _bound_numbers(evidence: Combined) -> list[tuple[int, int]]:
    """Records of each data set, and the most there may be: as stated, or as all its noisy tables tell."""
    found = []
    for releases, known in zip(evidence.data_sets, evidence.records, strict=True):
        if known is not None:
            found.append((known, known))
            continue
        mean, deviation = number_of_records(measurements(releases))
        most = max(mean, 0.0) + ROOM_DEVIATIONS * deviation + ROOM_RECORDS
        found.append((round(max(mean, 0.0)), math.ceil(most)))
    return found


def _join_tables(network: Network, tables: Mapping[str, Array], members: Mapping[str, float], rest: float) -> Floats:
    """Join all cells of the kernel's tables, those of memberships filled up."""
    own = [np.asarray(tables[node], np.float64).ravel() for node in network.order]
    return np.concatenate([*own, np.full(2 * len(members), rest)])


def _split_by_family(network: Network, chains: Sequence[Floats], draws: int) -> Tables:
    """Draws of the chains in turn, by family; the last ones if fewer are wanted than were kept."""
    in_turn = np.stack(chains, axis=1).reshape(-1, chains[0].shape[1])[-draws:].T
    found, first = dict[str, Array](), 0
    for node in network.order:
        shape = network.shape(node)
        found[node] = in_turn[first : first + math.prod(shape)].reshape(*shape, draws)
        first += math.prod(shape)
    return Tables(network, found, draws=draws)


def _measure_mixing(network: Network, rounds: Sequence[_Round], done: int) -> Mixing:
    """How well chains have mixed, in the worst of all probabilities and the number of records."""
    cells = np.concatenate([np.stack([part.theta.T for part in rounds], axis=1),
                            np.stack([part.numbers[None] for part in rounds], axis=1)])  # fmt: skip
    return measure_mixing(cells, partial(_name_entry, network), done)


def _name_entry(network: Network, cell: int) -> str:
    """Name an entry, such as "P(lung=yes | smoke=no)"."""
    for node in network.order:
        shape = network.shape(node)
        if cell < math.prod(shape):
            states = [
                f"{name}={network.schema[name].states[code]}"
                for name, code in zip(network.family(node), np.unravel_index(cell, shape), strict=True)
            ]
            given = f" | {', '.join(states[:-1])}" if states[:-1] else ""
            return f"P({states[-1]}{given})"
        cell -= math.prod(shape)
    return "the number of records"


def draw_exactly(read: DrawTask, rng: np.random.Generator, progress: Callable[[Mixing], None] | None) -> PosteriorDraws:
    """Draw by chains over the records.

    Args:
        read: of tables on any number of data sets; where no prior is given it takes the curator's.
        rng: source of the draws.
        progress: told how well the chains have mixed after every round.
    """
    prior = read.believed or read.combined.dirichlet
    return draw_jointly(read.combined, prior, read.draws, rng, progress=progress)


def draw_if_quick(
    read: DrawTask, rng: np.random.Generator, progress: Callable[[Mixing], None] | None
) -> PosteriorDraws | None:
    """Draw by chains, where a prior is given and that is a matter of seconds; None elsewhere.

    Args:
        read, rng, progress: as of `draw_exactly`.
    """
    if not COMPILED or read.believed is None:
        return None
    with suppress(DiscreetError):
        if updates_per_sweep(read.combined) * max(read.draws, LEAST_COUNTED_DRAWS) <= QUICK_UPDATES:
            return draw_jointly(
                read.combined, read.believed, read.draws, rng, progress=progress, most_updates=MOST_QUICK_UPDATES
            )
    return None
