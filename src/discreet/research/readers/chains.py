"""Exact joint posterior of all probabilities: families share records, so each table informs the others.

`by_record.py` has the chains, and `by_type.py` the same ones for many records of few types. This file converts payloads
to sums over records, runs several chains until they agree, and refuses to return draws that have not mixed. All
combined releases and public records are read together: releases on one data set share its records, data sets share the
probabilities, and public records are counted exactly.

Rounding confines a statistic to an interval, in which all values are equally probable. Chains that never left it would
be stuck if several tables were rounded. So they run with a law that has tails beyond the interval, and draws are
recorded only while all statistics are inside: a chain that is observed only in a set has its own law restricted to it.
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
"""Share of the sweeps in which all rounded numbers are inside their intervals, if their errors were independent; and
least penalty, nats, for each record beyond an interval: for four cells in two tables, 16 times fewer sweeps mix with
1.5 or 2 than with 3."""


# --------------------------------------------------------------------------------------------------------------------
# Measurements as the chains take them: sums over records, with the law of their noise.

QUICK_UPDATES = 8e6
"""Largest number of updates of a sweep times draws for which "auto" takes the exact posterior: seconds, compiled. That
is 500 records of 8 variables, or any number of records of 7 binary ones."""
LEAST_COUNTED_DRAWS = 2000
"""Least number of draws in the cost of the exact posterior."""
MOST_QUICK_UPDATES = 2e7
"""Updates of a chain after which "auto" gives the exact posterior up."""


@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """Table of the records that was released with noise.

    Args:
        scope: names of nodes, and of memberships of a sample.
        owner: position of the data set.
        released: statistics with noise, any shape.
        weights: a record's contribution from each cell to each statistic, sparse: (cell, statistic, amount).
        scale: of the noise; for rounding that of the tails beyond the interval.
        within: half-width of a rounding interval; None for other noise.
        power: of the distance in the exponent of its law, 1 or 2.
        shared: variables that the tables of its star share; none for independent noise.
        star: key of its star.
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


def crossing_nats(measured: Iterable[Measurement]) -> float:
    """Compute the penalty, nats, for each record by which a number is outside its rounding interval.

    An error of whole records with a penalty of x each is 0 with probability tanh(x / 2).

    Args:
        measured: all measurements.

    Example:
        >>> crossing_nats([])  # nothing was rounded
        1.5
    """
    count = sum(table.values.size for table in measured if table.noise is not None and table.noise.reach is not None)
    return max(2 * math.atanh(INSIDE_SHARE ** (1 / max(count, 1))), LEAST_NATS)


def read_sums(
    network: Network, measurement: Measurement, position: tuple[int, int], members: dict[str, float], nats: float
) -> MeasuredSums:
    """Convert a measurement to sums; note the membership of its sample, if any, with the probability.

    Args:
        network: for the sizes.
        measurement: measurement with noise.
        position: positions of its data set, and of its release in it.
        members: probabilities of the memberships noted before; changed.
        nats: by `crossing_nats`.
    """
    weights, scope, law = _list_weights(network, measurement), measurement.scope, measurement.noise
    assert law is not None
    if measurement.sampling is not None:
        member = f"member {len(members)}"
        while member in network.schema:
            member += "'"
        members[member] = measurement.sampling
        # The membership is the last axis: 0 is out of the sample.
        scope, weights = (*scope, member), [(2 * cell + 1, statistic, amount) for cell, statistic, amount in weights]
    scale = law.scale if law.reach is None else float(np.median([abs(amount) for *_, amount in weights])) / nats
    sums = MeasuredSums(scope, position[0], measurement.values, weights, scale, law.reach, law.power)
    if measurement.star is None:
        return sums
    if measurement.sampling is not None:
        raise InputError("the joint posterior reads stars of all records only; this star has tables of samples")
    return replace(sums, shared=measurement.star.shared, star=(*position, measurement.star.scopes))


def _list_weights(network: Network, table: Measurement) -> Sequence[tuple[int, int, float]]:
    """List a record's contributions from each cell to each number: (cell, number, amount)."""
    sizes = [network.schema[name].size for name in table.scope]
    if table.weights is not None:
        rows = table.weights.reshape(table.values.size, -1)
        return [(int(cell), int(number), float(rows[number, cell])) for number, cell in np.argwhere(rows)]
    return _list_contrast_weights(sizes) if table.contrasts else [(cell, cell, 1) for cell in range(math.prod(sizes))]


def _list_contrast_weights(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """List a record's contributions to contrasts: state k adds to (k, k + 1), and subtracts from (k - 1, k)."""
    shape = tuple(size - 1 for size in sizes)
    weights = []
    for cell, states in enumerate(product(*map(range, sizes))):
        near = [[(k - 1, -1)] * (k > 0) + [(k, 1)] * (k < size - 1) for k, size in zip(states, sizes, strict=True)]
        for picked in product(*near):
            contrast = np.ravel_multi_index([k for k, _ in picked], shape) if shape else 0
            weights.append((cell, int(contrast), math.prod(sign for _, sign in picked)))
    return weights


EXACT_CHAINS = 4
WARM_UP_SWEEPS = 500
"""Sweeps in which the lengths of moves adapt, which are discarded."""
ADAPTATION_RATE = 0.1
"""Rate of adaptation of the moves' log lengths."""
LEAST_KEPT_DRAWS = 500
"""Least draws kept of each chain: enough to estimate its autocorrelation."""
MOST_UPDATES = 6e9
"""Most updates of a variable of a record in a chain: they take five minutes of one core, compiled."""
RECORDS_PER_TYPE = 4
"""Number of records whose update takes as long as that of a type of records."""
PYTHON_SLOWDOWN = 100
"""Ratio of the times of plain Python and compiled code."""
ROOM_DEVIATIONS, ROOM_RECORDS = 10, 100
"""Room of chains above the estimated number of records, if that is not public: standard deviations of its noise, and
records. The mass above it is less than e^-14 for one Laplace total, and less for a sum of several."""
MOST_CHAIN_BYTES = 2**30
"""Memory for the records of a chain."""
ROUNDING_SHARE = 1e-9
"""Relative rounding error allowed for a statistic."""
MOST_SWEEPS_OUTSIDE = 100
"""Most sweeps for each one in which all rounded numbers are inside their intervals; then chains give up."""


def _build_model(
    network: Network, tables: Sequence[MeasuredSums], members: Mapping[str, float], counted: Sequence[bool]
) -> Model:
    """Build the arrays of the kernel."""
    order = [*network.order, *members]
    position = {name: index for index, name in enumerate(order)}
    sizes = np.array([*(network.schema[name].size for name in network.order), *(2 for _ in members)], np.int64)
    above = [[position[name] for name in network.parents[node]] if node in network.parents else [] for node in order]
    parents, strides, rows = _stride_sets(above, sizes)
    strides *= sizes[:, None]  # a row has a cell for each state of its node
    below = _find_descendants(above)
    measured = [[position[name] for name in sums.scope] for sums in tables]
    scopes, table_strides, cells = _stride_sets(measured, sizes)
    touched = np.zeros((len(order), len(tables)), np.bool_)
    for table, nodes in enumerate(measured):
        touched[:, table] = below[:, nodes].any(axis=1)
        touched[nodes, table] = True
    lengths = [sums.released.size for sums in tables]
    begins, statistic, amount = _list_entries(tables, _lay_out(lengths)[:-1], cells)
    return Model(
        sizes,
        parents,
        strides,
        _lay_out(sizes * rows),
        below,
        scopes,
        table_strides,
        _lay_out(cells),
        touched,
        begins,
        statistic,
        amount,
        np.concatenate([sums.released.ravel() for sums in tables]).astype(np.float64),
        np.repeat([sums.scale for sums in tables], lengths).astype(np.float64),
        np.repeat([sums.within or 0.0 for sums in tables], lengths).astype(np.float64),
        np.repeat([sums.power == 2 for sums in tables], lengths),
        *_list_ties(tables, _lay_out(lengths)),
        np.array([name in members for name in order]),
        np.array([sums.owner for sums in tables], np.int64),
        np.array(counted, np.bool_),
    )


def _find_descendants(above: Sequence[Sequence[int]]) -> npt.NDArray[np.bool_]:
    """Mark descendants: True if the first node is an ancestor of the second; parents come before their children."""
    below = np.zeros((len(above), len(above)), np.bool_)
    for node, names in enumerate(above):
        for parent in names:
            below[:, node] |= below[:, parent]
            below[parent, node] = True
    return below


def _list_entries(tables: Sequence[MeasuredSums], firsts: Ints, cells: Ints) -> tuple[Ints, Ints, Floats]:
    """List the start of each table cell's entries; and of each entry the statistic, and the amount a record adds."""
    entries: list[list[tuple[int, float]]] = []
    for table, first, count in zip(tables, firsts.tolist(), cells, strict=True):
        table_entries: list[list[tuple[int, float]]] = [[] for _ in range(count)]
        for cell, statistic, amount in table.weights:
            table_entries[cell].append((first + statistic, amount))
        entries += table_entries
    flat = np.array([entry for cell in entries for entry in cell], np.float64).reshape(-1, 2)
    return _lay_out([len(cell) for cell in entries]), flat[:, 0].astype(np.int64), flat[:, 1].copy()


def _list_ties(tables: Sequence[MeasuredSums], firsts: Ints) -> tuple[Ints, Ties]:
    """List each statistic's block of a star, or -1; and the rows, cells and members of the blocks."""
    block = np.full(firsts[-1], -1, np.int64)
    stars: dict[Hashable, list[Ints]] = {}
    for table, first in zip(tables, firsts[:-1].tolist(), strict=True):
        if table.star is not None:
            positions = first + np.arange(table.released.size).reshape(table.released.shape)
            stars.setdefault(table.star, []).append(by_rows(positions, table.scope, table.shared))
    blocks = [rows for star_tables in stars.values() for rows in zip(*star_tables, strict=True)]
    for number, rows in enumerate(blocks):
        block[np.concatenate(rows)] = number
    cells = [row for rows in blocks for row in rows]
    members = np.concatenate(cells) if cells else np.zeros(0, np.int64)
    return block, Ties(_lay_out([len(rows) for rows in blocks]), _lay_out([len(row) for row in cells]), members)


def _stride_sets(sets: Sequence[Sequence[int]], sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """List sets of variables in rows filled with -1, the stride of each variable, and the cells of each set."""
    names = np.full((len(sets), max(1, *map(len, sets))), -1, np.int64)
    strides, cells = np.zeros_like(names), np.ones(len(sets), np.int64)
    for row, held in enumerate(sets):
        for index in reversed(range(len(held))):
            names[row, index], strides[row, index] = held[index], cells[row]
            cells[row] *= sizes[held[index]]
    return names, strides, cells


def _lay_out(lengths: Sequence[int] | Ints) -> Ints:
    """Compute the start of each of some consecutive pieces, and the end of the last one."""
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
        draws: number of returned draws, nearly independent ones.
        rng: source of randomness.
        progress: called with the mixing of the chains after every round.
        most_updates: chains give up before the round that would exceed this number of updates of a record's variable.

    Returns:
        Draws in turn from four chains, with `replicates` and `mixing`: every entry's R-hat is at most 1.01, and the
        effective sample size of the worst is at least 400.

    Raises:
        InputError: a payload that is no sum over records.
        DiscreetError: the chains did not mix in time.
    """
    network = evidence.network
    task = _Task.of(evidence, prior)
    chains = [task.chain(evidence, index, chain_rng) for index, chain_rng in enumerate(rng.spawn(EXACT_CHAINS))]
    kept_draws = max(LEAST_KEPT_DRAWS, math.ceil(draws / EXACT_CHAINS))
    length = kept_draws
    limit = (most_updates if COMPILED else most_updates / PYTHON_SLOWDOWN) / max(updates_per_sweep(evidence), 1)
    with ThreadPoolExecutor(EXACT_CHAINS if COMPILED else 1) as pool:
        list(pool.map(lambda chain: task.run(chain, WARM_UP_SWEEPS, 0, ADAPTATION_RATE), chains))
        done = WARM_UP_SWEEPS
        while True:
            # Every round is twice as long as the last one, and it alone is kept: all before it is warm-up.
            rounds = list(pool.map(lambda chain, n=length: task.run(chain, n, kept_draws, 0.0), chains))
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
    cells, replicates = (
        _split_by_family(network, [getattr(each, name) for each in rounds], draws) for name in ("theta", "replicates")
    )
    # Omitted draws reduce the effective sample size in proportion.
    find_ess = partial(float, mixing.effective * draws / (EXACT_CHAINS * kept_draws))
    return PosteriorDraws(cells, "exact", replicates, mixing, find_ess)


def updates_per_sweep(evidence: Combined) -> float:
    """Compute the number of variables of records that one sweep updates, or its equivalent for types of records.

    The cost of the exact posterior is proportional to it.

    Args:
        evidence: a number of records that is not public is estimated from the noisy tables.
    """
    network = evidence.network
    members = sum(measurement.sampling is not None for measurement in measurements(evidence.parts))
    types = math.prod([*(network.schema[node].size for node in network.nodes), 2**members])
    records = min(sum(most for _, most in _bound_numbers(evidence)), RECORDS_PER_TYPE * types * len(evidence.data_sets))
    return records * len(network.nodes)


class _Kernel(Protocol):
    """Functions of both kernels, `by_record.py` and `by_type.py`."""

    def start(
        self, model: Model, theta: Floats, alpha: Floats, numbers: tuple[int, ...], room: int, rng: np.random.Generator
    ) -> Any:
        """Start a chain at records drawn from theta."""

    def sweeps(
        self, model: Model, state: Any, count: int, adapt: float, rng: np.random.Generator
    ) -> tuple[float, float]:
        """Run sweeps of one chain; changes the state."""

    def draw_rows(self, model: Model, state: Any, rng: np.random.Generator) -> None:
        """Draw theta given the records; changes the state."""

    def number_of(self, state: Any) -> int:
        """Return the number of records of all data sets."""


@dataclass(frozen=True, eq=False)
class _Task:
    """Model, prior and sizes that all chains of a posterior share.

    Args:
        network: of the probabilities.
        model: arrays of the kernel.
        members: probabilities of the memberships of samples.
        alpha: concentrations of all cells, including counts of public records.
        numbers: initial number of records of each data set.
        most: largest number of records of each data set.
        kernel: the one with the faster sweeps.
        rounded: positions of rounded statistics.
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
        """Convert the evidence to arrays of a kernel."""
        network, members = evidence.network, dict[str, float]()
        if not all(measurements([table]) for table in evidence.parts):
            raise InputError("the joint posterior reads releases of noisy counts, tables or contrasts")
        nats = crossing_nats(measurements(evidence.parts))
        tables = [
            read_sums(network, table, (owner, index), members, nats)
            for owner, releases in enumerate(evidence.data_sets)
            for index, release in enumerate(releases)
            for table in measurements([release])
            if table.noise is not None
        ]
        model = _build_model(network, tables, members, [number is not None for number in evidence.records])
        alpha = _join_tables(network, prior.alpha, members, 1.0)
        if evidence.public is not None:
            alpha += _join_tables(network, evidence.public, members, 0.0)
        numbers, most = zip(*_bound_numbers(evidence), strict=True)
        types = math.prod(map(int, model.sizes))
        kernel = by_type if RECORDS_PER_TYPE * types * len(numbers) < sum(most) else by_record
        rounded = np.repeat([table.within is not None for table in tables], [table.released.size for table in tables])
        return _Task(network, model, members, alpha, numbers, most, kernel, np.flatnonzero(rounded))

    def chain(self, evidence: Combined, index: int, rng: np.random.Generator) -> _Chain:
        """Start a chain at records drawn from a release's plug-in posterior, with room for more records."""
        release = evidence.parts[index % len(evidence.parts)]
        theta = plug_in(release, draws=1, rng=rng, prior=release.dirichlet).probabilities
        cells = np.concatenate(
            [np.maximum(theta[node], FLOOR_PROBABILITY).ravel() for node in self.network.order]
            + [np.array([1 - p, p]) for p in self.members.values()]
        )
        numbers = self.numbers
        room = sum(self.most)
        cells_kept = room if self.kernel is by_record else 8 * math.prod(map(int, self.model.sizes))
        if 4 * cells_kept * len(self.model.sizes) > MOST_CHAIN_BYTES:
            raise DiscreetError(
                f"the exact posterior of {sum(numbers):,} records needs too much memory; read the release with another "
                "method"
            )
        state = self.kernel.start(self.model, cells, self.alpha, numbers, room, rng)
        return _Chain(state, rng)

    def run(self, chain: _Chain, length: int, kept_draws: int, adapt: float) -> _Round:
        """Run sweeps of a chain, and keep some of their draws; changes the chain."""
        state, rng = chain.state, chain.rng
        theta, numbers = np.empty((kept_draws, len(state.theta))), np.empty(kept_draws)
        replicates = np.empty_like(theta)
        every = length // kept_draws if kept_draws else length
        for done in range(every, length + 1, every):
            if kept_draws and self.rounded.size:
                self._run_watched(chain, every)
            else:
                self.kernel.sweeps(self.model, state, every, adapt, rng)
            if kept_draws:
                index = done // every - 1
                theta[index], numbers[index] = state.theta, self.kernel.number_of(state)
                self.kernel.draw_rows(self.model, state, rng)
                replicates[index] = state.theta  # the chain continues from here: both are draws given the same records
        return _Round(theta, replicates, numbers)

    def _run_watched(self, chain: _Chain, length: int) -> None:
        """Run sweeps until `length` of them end with all rounded statistics in their intervals; changes the chain."""
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
            "the chains of the exact posterior hardly ever satisfy all rounded figures: these contradict each other or "
            "other tables, or are too many; read them with another method"
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
    """Draws that a chain keeps from a round.

    Args:
        theta: shape (kept, cells).
        replicates: second draws given the same records, same shape.
        numbers: of records, shape (kept,).
    """

    theta: Floats
    replicates: Floats
    numbers: Floats


def _bound_numbers(evidence: Combined) -> list[tuple[int, int]]:
    """Find the number of records of each data set and its upper bound, as stated or from its noisy tables."""
    bounds = []
    for releases, public in zip(evidence.data_sets, evidence.records, strict=True):
        if public is not None:
            bounds.append((public, public))
            continue
        mean, deviation = number_of_records(measurements(releases))
        most = max(mean, 0.0) + ROOM_DEVIATIONS * deviation + ROOM_RECORDS
        bounds.append((round(max(mean, 0.0)), math.ceil(most)))
    return bounds


def _join_tables(network: Network, tables: Mapping[str, Array], members: Mapping[str, float], rest: float) -> Floats:
    """Join all cells of the kernel's tables, with a constant for those of memberships."""
    cells = [np.asarray(tables[node], np.float64).ravel() for node in network.order]
    return np.concatenate([*cells, np.full(2 * len(members), rest)])


def _split_by_family(network: Network, chains: Sequence[Floats], draws: int) -> Tables:
    """Split the chains' draws, in turn, by family; take the last ones if more were kept."""
    in_turn = np.stack(chains, axis=1).reshape(-1, chains[0].shape[1])[-draws:].T
    families, first = dict[str, Array](), 0
    for node in network.order:
        shape = network.shape(node)
        families[node] = in_turn[first : first + math.prod(shape)].reshape(*shape, draws)
        first += math.prod(shape)
    return Tables(network, families, draws=draws)


def _measure_mixing(network: Network, rounds: Sequence[_Round], done: int) -> Mixing:
    """Measure the mixing of the chains, for the worst of all probabilities and the number of records."""
    cells = np.concatenate([np.stack([each.theta.T for each in rounds], axis=1),
                            np.stack([each.numbers[None] for each in rounds], axis=1)])  # fmt: skip
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
            condition = f" | {', '.join(states[:-1])}" if states[:-1] else ""
            return f"P({states[-1]}{condition})"
        cell -= math.prod(shape)
    return "the number of records"


def draw_exactly(read: DrawTask, rng: np.random.Generator, progress: Callable[[Mixing], None] | None) -> PosteriorDraws:
    """Draw by chains over the records.

    Args:
        read: of tables on any number of data sets; without a prior it takes the curator's.
        rng: source of the draws.
        progress: called with the mixing of the chains after every round.
    """
    prior = read.believed or read.combined.dirichlet
    return draw_jointly(read.combined, prior, read.draws, rng, progress=progress)


def draw_if_quick(
    read: DrawTask, rng: np.random.Generator, progress: Callable[[Mixing], None] | None
) -> PosteriorDraws | None:
    """Draw by chains, if a prior is given and they take seconds; else return None.

    Args:
        read, rng, progress: as for `draw_exactly`.
    """
    if not COMPILED or read.believed is None:
        return None
    with suppress(DiscreetError):
        if updates_per_sweep(read.combined) * max(read.draws, LEAST_COUNTED_DRAWS) <= QUICK_UPDATES:
            return draw_jointly(
                read.combined, read.believed, read.draws, rng, progress=progress, most_updates=MOST_QUICK_UPDATES
            )
    return None
