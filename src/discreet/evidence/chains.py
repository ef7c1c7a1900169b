"""Exact joint posterior of all probabilities: releases share records, so each informs the others.

`by_record.py` has the chains, and `by_type.py` the same ones for many records of few types. This file converts releases
of all kinds to sums over records: noisy tables, the scores of a choice's candidates, the counts behind drawn rows. It
runs several chains until they agree, and refuses to return draws that have not mixed. All combined releases and public
records are read together: releases on one data set share its records, data sets share the probabilities, and public
records are counted exactly.

The number of records, where it is not public, has a flat prior; the readers of single choices and draws take one that
is flat in its logarithm. Given a noisy number they differ by less than the noise's scale over the number.

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
from discreet.evidence import by_record, by_type
from discreet.evidence.moves import CHOICE, FLOOR_PROBABILITY, GRID, ROWS, STAR, Model, StatisticBlocks
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.posterior.diagnostics import LARGEST_R_HAT, describe_mixing, has_mixed, measure_mixing
from discreet.posterior.evidence import measurements, number_of_records
from discreet.posterior.joint_draws import LEAST_EFFECTIVE_DRAWS, Mixing, PosteriorDraws
from discreet.posterior.methods import DrawTask
from discreet.posterior.plug_in import plug_in
from discreet.releases.combined import Combined
from discreet.releases.external_figures import External
from discreet.releases.measurement import DrawnRows, Measurement, Scores
from discreet.releases.release import Release
from discreet.research.readers.compiling import COMPILED
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
class BlockLaw:
    """Law of the statistics of a choice, or of draws of rows; see `moves.StatisticBlocks`.

    Args:
        kind: CHOICE, ROWS or GRID.
        weight: of each statistic, shape (blocks, statistics of each).
        draws: number of draws.
        unit: by which statistics are multiplied.
        floor: smallest probability of the grid.
        steps: of the grid.
    """

    kind: int
    weight: Floats
    draws: int
    unit: float = 1.0
    floor: float = 0.0
    steps: int = 0


@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """Statistics of the records, each a sum over them, and the law of what was released of them.

    Args:
        parts: sets of variables, names of nodes and of memberships of a sample, each with a record's contribution from
            each of its cells to each statistic, sparse: rows of (cell, statistic, amount).
        owner: position of the data set.
        released: statistics with noise, any shape; of a law of blocks what is added to the statistics, shape
            (blocks, statistics of each).
        scale: of the noise; for rounding that of the tails beyond the interval, for a law of blocks the width of it.
        within: half-width of a rounding interval; None for other noise.
        power: of the distance in the exponent of its law, 1 or 2.
        shared: variables that the tables of its star share; none for independent noise.
        star: key of its star.
        law: of blocks; None for noise.
    """

    parts: Sequence[tuple[Scope, Floats]]
    owner: int
    released: Ints | Floats
    scale: float
    within: float | None = None
    power: int = 1
    shared: Scope = ()
    star: Hashable = None
    law: BlockLaw | None = None


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
        scope, weights = (*scope, member), weights * np.array((2, 1, 1)) + np.array((1, 0, 0))
    scale = law.scale if law.reach is None else float(np.median(np.abs(weights[:, 2]))) / nats
    sums = MeasuredSums([(scope, weights)], position[0], measurement.values, scale, law.reach, law.power)
    if measurement.star is None:
        return sums
    if measurement.sampling is not None:
        raise InputError("the joint posterior reads stars of all records only; this star has tables of samples")
    return replace(sums, shared=measurement.star.shared, star=(*position, measurement.star.scopes))


def read_choice(scores: Scores, owner: int) -> MeasuredSums:
    """Convert choices to sums: statistics are the candidates' weights, each centred at every cell, as a shift cancels.

    Args:
        scores: of all candidates.
        owner: position of the data set.
    """
    parts = []
    for scope, table in scores.tables.items():
        rows = table.reshape(-1, table.shape[-1])
        parts.append((scope, _list_entries_of(rows - rows.mean(axis=1, keepdims=True))))
    size = next(iter(scores.tables.values())).shape[-1]
    base = np.zeros(size) if scores.base is None else scores.base
    law = BlockLaw(CHOICE, np.bincount(scores.chosen, minlength=size)[None].astype(np.float64), len(scores.chosen))
    return MeasuredSums(parts, owner, base[None], math.sqrt(size / law.draws), law=law)


def read_rows(drawn: DrawnRows, owner: int, records: float) -> list[MeasuredSums]:
    """Convert draws of rows to sums: statistics are the counts of their families' cells.

    Args:
        drawn: of all families.
        owner: position of the data set.
        records: their estimated number, for the width of the law of counts.
    """
    sums = []
    for scope, table in drawn.rows.items():
        rows = np.maximum(table, FLOOR_SHARE).reshape(-1, *table.shape[-2:])
        draws, floor = rows.shape[-1], drawn.floors[scope]
        law = BlockLaw(
            GRID if floor > 0 else ROWS, np.log(rows).sum(axis=-1), draws, drawn.temper, floor, drawn.steps[scope]
        )
        scale = math.sqrt(max(records / (4 * len(rows)), 1.0) / (drawn.temper * draws))
        released = drawn.concentrations[scope].reshape(rows.shape[:2])
        sums.append(MeasuredSums([(scope, _list_entries_of(np.eye(released.size)))], owner, released, scale, law=law))
    return sums


def _list_entries_of(amounts: Floats) -> Floats:
    """List the entries of a matrix, shape (cells, statistics), as (cell, statistic, amount), without zeros."""
    cells, statistics = np.nonzero(amounts)
    return np.stack([cells, statistics, amounts[cells, statistics]], axis=1)


def _list_weights(network: Network, table: Measurement) -> Floats:
    """List a record's contributions from each cell to each number: rows of (cell, number, amount)."""
    sizes = [network.schema[name].size for name in table.scope]
    if table.weights is not None:
        return _list_entries_of(table.weights.reshape(table.values.size, -1).T)
    cells = np.arange(math.prod(sizes))
    if not table.contrasts:
        return np.stack([cells, cells, np.ones(len(cells))], axis=1)
    return np.array(_list_contrast_weights(sizes), np.float64).reshape(-1, 3)


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
PATIENCE = 8
"""Ratio of the sweeps that a round's mixing says are needed to those that could be made, from which chains give up:
chains that still approach their law need fewer."""
RECORDS_PER_TYPE = 4
"""Number of records whose update takes as long as that of a type of records."""
TERMS_PER_UPDATE = 8
"""Terms of a choice's normaliser that take as long as the update of a variable of a record."""
PYTHON_SLOWDOWN = 100
"""Ratio of the times of plain Python and compiled code."""
ROOM_DEVIATIONS, ROOM_RECORDS = 10, 100
"""Room of chains above the estimated number of records, if that is not public: standard deviations of its noise, and
records. The mass above it is less than e^-14 for one Laplace total, and less for a sum of several."""
MOST_CHAIN_BYTES = 2**30
"""Memory for the records of a chain."""
ROUNDING_SHARE = 1e-9
"""Relative rounding error allowed for a statistic."""
FLOOR_SHARE = 1e-12
"""Least probability of a released draw, whose digits may be all 0."""
STORED_MASSES = 2**18
"""Masses of grids that a chain stores: those of the numbers of records that it visits again and again."""
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
    lengths = [sums.released.size for sums in tables]
    firsts = _lay_out(lengths)
    parts = [
        (sums.owner, first, *part) for sums, first in zip(tables, firsts.tolist(), strict=False) for part in sums.parts
    ]
    measured = [[position[name] for name in scope] for _, _, scope, _ in parts]
    scopes, table_strides, cells = _stride_sets(measured, sizes)
    touched = np.zeros((len(order), len(parts)), np.bool_)
    for table, nodes in enumerate(measured):
        touched[:, table] = below[:, nodes].any(axis=1)
        touched[nodes, table] = True
    begins, statistic, amount = _list_entries([(first, weights) for _, first, _, weights in parts], cells)
    noise = [sums.scale for sums in tables if sums.law is None]
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
        *_list_blocks(tables, firsts),
        np.array([name in members for name in order]),
        np.array([owner for owner, *_ in parts], np.int64),
        np.array(counted, np.bool_),
        float(max([1.0, *noise])),
    )


def _find_descendants(above: Sequence[Sequence[int]]) -> npt.NDArray[np.bool_]:
    """Mark descendants: True if the first node is an ancestor of the second; parents come before their children."""
    below = np.zeros((len(above), len(above)), np.bool_)
    for node, names in enumerate(above):
        for parent in names:
            below[:, node] |= below[:, parent]
            below[parent, node] = True
    return below


def _list_entries(parts: Sequence[tuple[int, Floats]], cells: Ints) -> tuple[Ints, Ints, Floats]:
    """List the start of each table cell's entries; and of each entry the statistic, and the amount a record adds.

    Args:
        parts: of each table the position of its first statistic, and rows of (cell, statistic, amount).
        cells: number of each table's cells.
    """
    shifted = [
        weights + np.array((start, first, 0))
        for (first, weights), start in zip(parts, _lay_out(cells)[:-1], strict=True)
    ]
    entries = np.concatenate([np.zeros((0, 3)), *shifted])
    entries = entries[np.argsort(entries[:, 0], kind="stable")]
    lengths = np.bincount(entries[:, 0].astype(np.int64), minlength=int(cells.sum()))
    return _lay_out(lengths), entries[:, 1].astype(np.int64), entries[:, 2].copy()


def _list_blocks(tables: Sequence[MeasuredSums], firsts: Ints) -> tuple[Ints, StatisticBlocks]:
    """List each statistic's block, or -1; and the laws, rows, cells and members of the blocks."""
    block, weight = np.full(firsts[-1], -1, np.int64), np.zeros(firsts[-1])
    stars: dict[Hashable, list[Ints]] = {}
    rows_of: list[Sequence[Ints]] = []
    laws: list[BlockLaw] = []
    for table, first in zip(tables, firsts[:-1].tolist(), strict=True):
        positions = first + np.arange(table.released.size).reshape(table.released.shape)
        if table.star is not None:
            stars.setdefault(table.star, []).append(by_rows(positions, table.parts[0][0], table.shared))
        elif table.law is not None:
            weight[positions] = table.law.weight
            rows_of += [[row] for row in positions]
            laws += [table.law] * len(positions)
    starred = [rows for star_tables in stars.values() for rows in zip(*star_tables, strict=True)]
    rows_of, laws = [*rows_of, *starred], [*laws, *[BlockLaw(STAR, weight, 1)] * len(starred)]
    for number, rows in enumerate(rows_of):
        block[np.concatenate(rows)] = number
    cells = [row for rows in rows_of for row in rows]
    members = np.concatenate(cells) if cells else np.zeros(0, np.int64)
    widest = max([0, *(len(rows[0]) for rows, law in zip(rows_of, laws, strict=True) if law.kind == GRID)])
    return block, StatisticBlocks(
        np.array([law.kind for law in laws], np.int64),
        _lay_out([len(rows) for rows in rows_of]),
        _lay_out([len(row) for row in cells]),
        members,
        weight,
        np.array([law.draws for law in laws], np.float64),
        np.array([law.unit for law in laws], np.float64),
        np.array([law.floor for law in laws], np.float64),
        np.array([law.steps for law in laws], np.int64),
        _list_grids([(len(rows[0]), law) for rows, law in zip(rows_of, laws, strict=True)]),
        *_make_store(widest),
    )


def _list_grids(laws: Sequence[tuple[int, BlockLaw]]) -> Floats:
    """List the logarithms of a probability on each block's grid; the law of each comes with the number of states."""
    logs = np.zeros((len(laws), 1 + max([0, *(law.steps for _, law in laws)])))
    for row, (states, law) in zip(logs, laws, strict=True):
        if law.kind == GRID:
            row[: law.steps + 1] = np.log(np.linspace(law.floor, 1 - (states - 1) * law.floor, law.steps + 1))
    return logs


def _make_store(states: int) -> tuple[Floats, Floats]:
    """Make room for the masses of a chain's grids: keys and values; hardly any if there are no grids."""
    slots = STORED_MASSES if states else 1
    return np.full((slots, states + 1), -1.0), np.zeros(slots)


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
        evidence: noisy tables, contrasts or weighted sums, draws of rows and choices, and public records.
        prior: of the rows.
        draws: number of returned draws, nearly independent ones.
        rng: source of randomness.
        progress: called with the mixing of the chains after every round.
        most_updates: chains give up before the round that would exceed this number of updates of a record's variable.

    Returns:
        Draws in turn from four chains, with `replicates` and `mixing`: every entry's R-hat is at most 1.01, and the
        effective sample size of the worst is at least 400.

    Raises:
        InputError: releases that do not tell the number of records.
        DiscreetError: the chains cannot make enough sweeps in time, or did not mix.
    """
    network = evidence.network
    limit = (most_updates if COMPILED else most_updates / PYTHON_SLOWDOWN) / max(updates_per_sweep(evidence), 1)
    kept_draws = max(LEAST_KEPT_DRAWS, math.ceil(draws / EXACT_CHAINS))
    of_tables = not _list_scores(evidence.parts) and not _list_drawn_rows(evidence.parts)
    # Several kinds together have no other reader.
    readable = of_tables or len(evidence.parts) == 1
    advice = "use another method" if readable else "combine fewer kinds of releases, or read the releases by themselves"
    if (least := WARM_UP_SWEEPS + kept_draws) > limit and not of_tables:
        sweeps = f"could make {limit:,.0f} sweeps in time, of which {least:,} are needed"
        raise DiscreetError(f"chains over these records {sweeps}; {advice}")
    task = _Task.of(evidence, prior)
    chains = [task.chain(evidence, index, chain_rng) for index, chain_rng in enumerate(rng.spawn(EXACT_CHAINS))]
    length = kept_draws
    with ThreadPoolExecutor(EXACT_CHAINS if COMPILED else 1) as pool:
        list(pool.map(lambda chain: task.run(chain, WARM_UP_SWEEPS, 0, ADAPTATION_RATE), chains))
        done = WARM_UP_SWEEPS
        while True:
            # Every round is up to twice as long as the last one, and it alone is kept: all before it is warm-up.
            rounds = list(pool.map(lambda chain, n=length: task.run(chain, n, kept_draws, 0.0), chains))
            done += length
            mixing = _measure_mixing(network, rounds, done)
            if progress is not None:
                progress(mixing)
            if has_mixed(mixing):
                break
            needed, left = length * _find_shortfall(mixing), limit - done
            length = int(min(2 * length, left) // kept_draws) * kept_draws
            if 2 * length < done or needed > PATIENCE * left:
                raise DiscreetError(
                    f"the chains of the exact posterior have not mixed after {done:,} sweeps: "
                    f"{describe_mixing(mixing)}; they need some {needed:,.0f} more, and could make {max(left, 0):,.0f} "
                    f"in time; {advice}"
                )
    cells, replicates = (
        _split_by_family(network, [getattr(each, name) for each in rounds], draws) for name in ("theta", "replicates")
    )
    # Omitted draws reduce the effective sample size in proportion.
    find_ess = partial(float, mixing.effective * draws / (EXACT_CHAINS * kept_draws))
    return PosteriorDraws(cells, "exact", replicates, mixing, find_ess)


def _find_shortfall(mixing: Mixing) -> float:
    """Compute the ratio of the length that the next round needs to that of the last one.

    The variance of a chain's mean falls as its length grows, and with it what the effective size and R-hat miss. Chains
    that still approach their law need fewer sweeps than that.
    """
    return max(LEAST_EFFECTIVE_DRAWS / mixing.effective, (mixing.r_hat - 1) / (LARGEST_R_HAT - 1))


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
    terms = sum(table.shape[-1] for scores in _list_scores(evidence.parts) for table in scores.tables.values())
    for drawn in _list_drawn_rows(evidence.parts):
        terms += sum((table.shape[-2] - 2) * drawn.steps[scope] ** 2 // 8 for scope, table in drawn.rows.items())
    return float(records * (len(network.nodes) + terms / TERMS_PER_UPDATE))


def _list_tables(documents: Iterable[Release | External]) -> list[Measurement]:
    """List the measurements of releases and figures; numbers beside choices and draws are tables over no variables."""
    parts: list[Scores | DrawnRows] = [*_list_scores(documents), *_list_drawn_rows(documents)]
    totals = [part.total for part in parts if part.total is not None]
    numbers = [Measurement((), np.array(value), DiscreteLaplace(scale)) for value, scale in totals]
    return [*measurements(documents), *numbers]


def _list_scores(documents: Iterable[Release | External]) -> list[Scores]:
    """List the choices by scores among releases."""
    return [scores for document in documents if (scores := document.scores) is not None]


def _list_drawn_rows(documents: Iterable[Release | External]) -> list[DrawnRows]:
    """List the draws of rows among releases."""
    return [rows for document in documents if (rows := document.drawn_rows) is not None]


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
        nats = crossing_nats(measurements(evidence.parts))
        numbers, most = zip(*_bound_numbers(evidence), strict=True)
        tables = []
        for owner, releases in enumerate(evidence.data_sets):
            for index, release in enumerate(releases):
                noisy = [table for table in _list_tables([release]) if table.noise is not None]
                tables += [read_sums(network, table, (owner, index), members, nats) for table in noisy]
            tables += [read_choice(scores, owner) for scores in _list_scores(releases)]
            for drawn in _list_drawn_rows(releases):
                tables += read_rows(drawn, owner, numbers[owner])
        model = _build_model(network, tables, members, [number is not None for number in evidence.records])
        alpha = _join_tables(network, prior.alpha, members, 1.0)
        if evidence.public is not None:
            alpha += _join_tables(network, evidence.public, members, 0.0)
        types = math.prod(map(int, model.sizes))
        kernel = by_type if RECORDS_PER_TYPE * types * len(numbers) < sum(most) else by_record
        rounded = np.repeat([table.within is not None for table in tables], [table.released.size for table in tables])
        return _Task(network, model, members, alpha, numbers, most, kernel, np.flatnonzero(rounded))

    def chain(self, evidence: Combined, index: int, rng: np.random.Generator) -> _Chain:
        """Start a chain at records drawn from a release's plug-in posterior, of a choice from its prior.

        There is room for more records.
        """
        release = evidence.parts[index % len(evidence.parts)]
        # A chosen candidate may have a probability of 0, or be no law of records at all.
        guess = release.dirichlet.draw(1, rng=rng) if release.scores is not None else None
        theta = guess or plug_in(release, draws=1, rng=rng, prior=release.dirichlet).probabilities
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
        keys, stored = self.model.blocks.keys, self.model.blocks.stored
        model = self.model._replace(blocks=self.model.blocks._replace(keys=keys.copy(), stored=stored.copy()))
        return _Chain(model, self.kernel.start(model, cells, self.alpha, numbers, room, rng), rng)

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
                self.kernel.sweeps(chain.model, state, every, adapt, rng)
            if kept_draws:
                index = done // every - 1
                theta[index], numbers[index] = state.theta, self.kernel.number_of(state)
                self.kernel.draw_rows(chain.model, state, rng)
                replicates[index] = state.theta  # the chain continues from here: both are draws given the same records
        return _Round(theta, replicates, numbers)

    def _run_watched(self, chain: _Chain, length: int) -> None:
        """Run sweeps until `length` of them end with all rounded statistics in their intervals; changes the chain."""
        state, model, seen = chain.state, chain.model, 0
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
        model: of the task, with stored masses of its own.
        state: of the kernel.
        rng: its own.
    """

    model: Model
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
        mean, deviation = number_of_records(_list_tables(releases))
        if deviation == 0:
            raise InputError(
                "these releases do not tell the number of records: add a table of the same records, or their number"
            )
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
        read: of releases on any number of data sets; without a prior it takes the curator's.
        rng: source of the draws.
        progress: called with the mixing of the chains after every round.
    """
    prior = read.believed or read.combined.dirichlet
    return draw_jointly(read.combined, prior, read.draws, rng, progress=progress)


def draw_if_quick(
    read: DrawTask, rng: np.random.Generator, progress: Callable[[Mixing], None] | None
) -> PosteriorDraws | None:
    """Draw by chains, if all evidence is tables and they take seconds; else return None.

    Args:
        read, rng, progress: as for `draw_exactly`.
    """
    parts, prior = read.combined.parts, read.believed or read.combined.dirichlet
    if not COMPILED or _list_scores(parts) or _list_drawn_rows(parts):
        return None
    with suppress(DiscreetError):
        if updates_per_sweep(read.combined) * max(read.draws, LEAST_COUNTED_DRAWS) <= QUICK_UPDATES:
            return draw_jointly(
                read.combined, prior, read.draws, rng, progress=progress, most_updates=MOST_QUICK_UPDATES
            )
    return None
