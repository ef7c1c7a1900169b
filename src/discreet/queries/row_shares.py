"""Variance decomposition of an answer by the rows of the tables, and the rows whose change would move it most.

All of it is read from a posterior's draws. To first order an answer is a sum over rows of what each moves it by; of
that sum's variance every row has its part, and the twins of the draws (`PosteriorDraws.twins`) tell how much of each
part comes of the privacy noise and how much of sampling. What a single row can do is exact (`queries/row_shares.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference.exact_laws import Laws
from discreet.model.graphs import requisite
from discreet.model.network import Network
from discreet.model.query_grammar import Probability, asked_cells
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.credible import credible_interval
from discreet.util.arrays import Floats

# --------------------------------------------------------------------------------------------------------------------
# Effects of the rows of the tables on an answer: exact for a change of one row, and to first order for the errors that
# noise in the tables causes.
#
# `P(targets | evidence)` is a ratio of two linear functions of each row. Two points determine it: the row as it is, and
# the row in which one cell is certain. So the effect of any change of one row is exact, however large, also where
# probabilities are 0. Only simultaneous errors in many rows are taken to first order.
#
# For public or assumed tables, or those of a release: an error computed from private tables is private.

GRADIENT_CELLS = 50_000_000
"""Most entries of the tables that are differentiated at once: 400 MB."""


@dataclass(frozen=True, eq=False)
class RowEffects:
    """Effects on `P(targets | evidence)` of a change of one row of one table.

    Args:
        network: of the tables.
        value: the answer as it is, shape `(*sizes of the targets)`.
        weights: by node that matters, `P(evidence)` if a cell is certain in its row, over `P(evidence)` as it is; shape
            `(*family)`.
        certain: the answer in this case, shape `(*family, *sizes of the targets)`; 0 where the weight is.
    """

    network: Network
    value: Floats
    weights: Mapping[str, Floats]
    certain: Mapping[str, Floats]

    def moved(self, node: str, cell: tuple[int, ...] | EllipsisType, share: float | Floats) -> Floats:
        """The answer where a row is mixed with the certainty of a cell: `(1 - s) row + s e_cell`.

        With s = 1 / (A + 1) it is the answer after one more record in that cell of a row that A records tell; with
        `s = (x - theta) / (1 - theta)` the one where the cell has the probability x and the others of its row keep
        their proportions.

        Args:
            node: whose table it is; one that matters.
            cell: codes of the family's states; `...` for each cell of the table in turn.
            share: s, at most 1; below 0 if the cell becomes rarer. Of each cell in turn, what broadcasts to the table.

        Returns:
            Shape `(*sizes of the targets)`, or of each cell in turn `(*family, *sizes of the targets)`.

        Source:
            Castillo, Gutierrez and Hadi (1997): an answer is a ratio of linear functions of each entry.
        """
        weight = np.asarray(share * self.weights[node][cell])
        rest = np.broadcast_to(1 - np.asarray(share), weight.shape)
        axes = (..., *(None,) * self.value.ndim)
        mixed = (rest[axes] * self.value + weight[axes] * self.certain[node][cell]) / (rest + weight)[axes]
        return np.asarray(np.clip(mixed, 0, 1))  # a difference of nearly equal numbers may be just outside

    def gradient(self, node: str) -> Floats:
        """Derivative of the answer by every cell before its row is divided by its sum; shape `(*family, *targets)`.

        By an entry whose row is kept in proportion (Laskey, 1995) it is this over `1 - theta`.
        """
        if node not in self.weights:
            return np.zeros((*self.network.shape(node), *self.value.shape))
        # (P(t, e) - P(t | e) P(e)) / P(e) with the certain row; the terms without it cancel.
        weight = self.weights[node].reshape(*self.weights[node].shape, *(1,) * self.value.ndim)
        return np.asarray(weight * (self.certain[node] - self.value))


def row_effects(theta: Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> RowEffects:
    """Find the effect of each row of each table on `P(targets | evidence)`.

    Args:
        theta: probabilities, without draws; rows sum to 1.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        The effects of all rows, exact; tables that do not matter are left out.

    Raises:
        InputError: tables with draws, impossible evidence, or a network that is too large.

    Source:
        Laskey (1995); in the place of Chowdhury et al. (ICML 2020), equations (7) and (8), whose "sensitivity" is a
        constant.

    Example:
        >>> from discreet.model.schema import Variable
        >>> bits = (Variable("smoke", ("yes", "no")), Variable("lung", ("yes", "no")))
        >>> network = Network(bits, {"smoke": (), "lung": ("smoke",)})
        >>> theta = Tables(network, {"smoke": [0.5, 0.5], "lung": [[0.1, 0.9], [0.02, 0.98]]})
        >>> found = row_effects(theta, ["smoke"], {"lung": 0})
        >>> float(found.value[0].round(4)), float(found.moved("lung", (1, 0), 0.01).round(4)[0])
        (0.8333, 0.7704)
    """
    network = theta.network
    if theta.draws is not None:
        raise InputError("the gradient is taken at one table of probabilities, without draws")
    if not targets or len(set(targets)) != len(targets) or set(targets) & set(evidence):
        raise InputError("a query needs at least one target, each named once and none of them evidence")
    if any(not 0 <= code < network.schema[name].size for name, code in evidence.items()):
        raise InputError("the code of an observed state must be at least 0 and less than its variable's states")
    nodes = requisite(network, tuple(targets), evidence)
    cells = {node: math.prod(network.shape(node)) for node in nodes}
    if sum(cells.values()) * max(cells.values()) > GRADIENT_CELLS:
        raise InputError(f"{sum(cells.values()):,} cells bear on the query, too many to differentiate; ask for less")
    base = Tables(network, lambda node: theta[node][..., None], draws=1)
    value = Laws(base).joint(targets, evidence)[..., 0]
    if not np.all(np.isfinite(value)):
        raise InputError("the evidence is impossible under these probabilities")
    log_evidence = Laws(base).log_probability(evidence)
    weights, certain = {}, {}
    for node in nodes:
        changed = _make_cells_certain(theta, node)
        weights[node] = np.exp(Laws(changed).log_probability(evidence) - log_evidence).reshape(network.shape(node))
        answers = np.moveaxis(np.nan_to_num(Laws(changed).joint(targets, evidence)), -1, 0)
        certain[node] = answers.reshape(*network.shape(node), *value.shape)
    return RowEffects(network, value, weights, certain)


def _make_cells_certain(theta: Tables, node: str) -> Tables:
    """Make draws of the tables: one for each cell of a node, in which that cell is certain in its row."""
    shape = theta.network.shape(node)
    draws = math.prod(shape)

    def table(name: str) -> Floats:
        array: Floats = np.repeat(theta[name].astype(np.float64)[..., None], draws, axis=-1)
        if name == node:
            rows = array.reshape(-1, shape[-1], draws)
            for cell in range(draws):
                rows[cell // shape[-1], :, cell] = np.arange(shape[-1]) == cell % shape[-1]
        return array

    return Tables(theta.network, table, draws=draws)


ROUNDING_VARIANCE = 1e-24
"""Variance of a probability below which it is a rounding error."""
TIE_TOLERANCE = 1e-9
"""Relative difference below which two effects are equal: the first state of several is named."""
LEAST_SHOWN_SHARE = 1e-6
"""Share of the variance below which a row is not shown."""


@dataclass(frozen=True)
class RowShare:
    """A row of a table and its effect on an answer.

    Args:
        node: whose table it is.
        given: states of the node's parents: the row.
        variance: the row's part of the answer's variance, to first order; parts of all rows sum to 1, and a row that
            errs against others may have a negative one.
        noise: the part of the answer's variance that comes of the privacy noise in this row; None where draws do not
            tell noise from sampling.
        state: the entry of the row over whose interval the answer moves most.
        mean, lower, upper: of this entry, posterior mean and interval.
        slope: derivative of the answer by it, the others of the row kept in proportion.
        low, high: the answer where it lies at the ends of its interval, exactly.
        target: the state of the answer that these three are about.
    """

    node: str
    given: Mapping[str, str]
    variance: float
    noise: float | None
    state: str
    mean: float
    lower: float
    upper: float
    slope: float
    low: float
    high: float
    target: Mapping[str, str]

    @property
    def entry(self) -> str:
        """The entry as a query."""
        return _write_entry(self.node, self.state, self.given)


@dataclass(frozen=True)
class PseudoRecord:
    """Pseudo-record of a prior that moves an answer more than one in any other cell of the tables.

    Args:
        node: whose table it is in.
        state: its state there.
        given: states of the node's parents.
        target: the state of the answer that moves most.
        before, after: its probability.
    """

    node: str
    state: str
    given: Mapping[str, str]
    target: Mapping[str, str]
    before: float
    after: float

    @property
    def entry(self) -> str:
        """The cell as a query."""
        return _write_entry(self.node, self.state, self.given)


@dataclass(frozen=True)
class Dependence:
    """Dependence of an answer on the rows of the tables.

    Args:
        query: as it was asked.
        tables: by node whose table matters, its part of the answer's variance; largest first.
        rows: of the largest parts of the variance, largest first.
        noise: part of the variance that comes of the privacy noise; None where draws do not tell.
        explained: squared correlation of the first-order sum with the answer: parts say little where it is small.
        record: what would move it most; None where nothing would.
    """

    query: str
    tables: Mapping[str, float]
    rows: tuple[RowShare, ...]
    noise: float | None
    explained: float
    record: PseudoRecord | None


def dependence(posterior: PosteriorDraws, query: Probability, *, level: float, rows: int) -> Dependence:
    """Take an answer's variance apart.

    Args:
        posterior: of the public network's own rows.
        query: a probability.
        level: of the intervals of entries.
        rows: how many to show.

    Returns:
        Its parts. They are exact for the draws at hand; of n draws a part errs by about `1 / sqrt(n)` of itself.

    Raises:
        InputError: a query that does not fit, impossible evidence, or a network that is too large.

    Guarantee:
        None spent: reads the posterior alone.

    Source:
        Delta method, in the place of Chowdhury et al. (ICML 2020), equations (7) and (8) and Theorem 4.2; Laskey
        (1995), Castillo, Gutierrez and Hadi (1997) for one row.
    """
    schema = posterior.network.schema
    # Families that do not affect the answer are never drawn.
    theta = Tables(posterior.network, lambda node: posterior.cells[node].mean(axis=-1))
    targets = tuple(name for name, _ in query.targets)
    evidence = {name: schema[name].code(state) for name, state in query.evidence}
    effects = row_effects(theta, targets, evidence)
    positions = asked_cells(query, schema)
    cells = np.stack(np.unravel_index(positions, effects.value.shape), axis=-1).tolist()
    states = [dict(zip(targets, cell, strict=True)) for cell in cells]
    explained_query = _ExplainedQuery(posterior, theta, effects, positions, level)
    shares_of_rows, noise, explained = explained_query.parts(query)
    order = sorted(
        (
            (float(share[row]), node, row)
            for node, (share, _) in shares_of_rows.items()
            for row in np.flatnonzero(np.abs(share) > LEAST_SHOWN_SHARE).tolist()
        ),
        key=lambda entry: -abs(entry[0]),
    )
    tables = {node: float(share.sum()) for node, (share, _) in shares_of_rows.items()}
    shares = []
    for variance, node, row in order[:rows]:
        noisy = shares_of_rows[node][1]
        shares.append(explained_query.share(node, row, variance, None if noisy is None else float(noisy[row]), states))
    largest = dict(sorted(tables.items(), key=lambda pair: -pair[1]))
    return Dependence(str(query), largest, tuple(shares), noise, explained, explained_query.record(states))


@dataclass(frozen=True, eq=False)
class _ExplainedQuery:
    """A query of a posterior, and the effects of the rows of its tables.

    Args:
        posterior: whose draws are read.
        theta: its mean.
        effects: of all rows at the mean.
        kept: flat positions of the targets' states that were asked for.
        level: of intervals.
    """

    posterior: PosteriorDraws
    theta: Tables
    effects: RowEffects
    kept: npt.NDArray[np.intp]
    level: float

    def parts(self, query: Probability) -> tuple[dict[str, tuple[Floats, Floats | None]], float | None, float]:
        """Shares of the variance and of its noise by row and node; the noise's share in all; squared correlation."""
        sides = [side for side in (self.posterior.cells, self.posterior.twins) if side is not None]
        totals = [
            _centre(sum((self._find_moves(node, side).sum(axis=0) for node in self.effects.weights), np.zeros(1)))
            for side in sides
        ]
        variance = float(np.mean([(total**2).mean(axis=-1).sum() for total in totals]))
        if not variance > ROUNDING_VARIANCE:
            raise InputError(f"{query}: no draw of the tables moves this answer")
        by_node: dict[str, tuple[Floats, Floats | None]] = {}
        for node in self.effects.weights:
            moves = [self._find_moves(node, side) for side in sides]
            shares = np.mean([_covary(*both) for both in zip(moves, totals, strict=True)], axis=0) / variance
            # A twin has the same latent counts, so the covariance with the twin's sum is the uncertainty of the counts.
            noise = [_covary(*both) / variance for both in zip(moves, totals[::-1], strict=True)]
            by_node[node] = (shares, np.mean(noise, axis=0) if len(sides) > 1 else None)
        noise_of_all = float((totals[0] * totals[1]).mean(axis=-1).sum() / variance) if len(sides) > 1 else None
        return by_node, noise_of_all, _correlate_squared(totals[0], self._find_answers(query))

    def _find_moves(self, node: str, cells: Tables) -> Floats:
        """Find the first-order effect of each row of a table on the answer; shape (rows, states, draws)."""
        table = cells[node] - self.theta[node][..., None]
        gradient = self.effects.gradient(node).reshape(-1, table.shape[-2], self.effects.value.size)[..., self.kept]
        return np.asarray(np.einsum("rcd,rck->rkd", table.reshape(-1, *table.shape[-2:]), gradient, optimize=True))

    def _find_answers(self, query: Probability) -> Floats:
        """Find the answer under every draw, less its mean; shape (states of the query, draws)."""
        schema = self.posterior.network.schema
        evidence = {name: schema[name].code(state) for name, state in query.evidence}
        table = Laws(self.posterior.cells).joint([name for name, _ in query.targets], evidence)
        return _centre(table.reshape(-1, table.shape[-1])[self.kept])

    def share(
        self, node: str, row: int, variance: float, noise: float | None, states: list[dict[str, int]]
    ) -> RowShare:
        """Describe a row, with the entry over whose interval the answer moves most."""
        network = self.posterior.network
        size = network.schema[node].size
        draws = self.posterior.cells[node].reshape(-1, size, self.posterior.cells.draws or 1)[row]
        lower, upper = credible_interval(draws, self.level)
        theta = self.theta[node].reshape(-1, size)[row]
        codes = self._decode_row(node, row)
        best: tuple[float, int, int, float, float] | None = None
        for code in range(size):
            if theta[code] < 1:
                low, high = (
                    self.effects.moved(node, (*codes, code), (end - theta[code]) / (1 - theta[code])).ravel()[self.kept]
                    for end in (lower[code], upper[code])
                )
                target = _find_first_largest(high - low)
                reach = abs(float(high[target] - low[target]))
                if best is None or reach > best[0] * (1 + TIE_TOLERANCE):
                    best = (reach, code, target, float(low[target]), float(high[target]))
        assert best is not None  # no row has two certain states
        _, code, target, low_end, high_end = best
        slope = self.effects.gradient(node)[(*codes, code)].ravel()[self.kept[target]] / (1 - theta[code])
        numbers = (float(theta[code]), float(lower[code]), float(upper[code]), float(slope), low_end, high_end)
        named = _name_parents(network, node, codes)
        state = network.schema[node].states[code]
        return RowShare(node, named, variance, noise, state, *numbers, _name_states(network, states[target]))

    def record(self, states: list[dict[str, int]]) -> PseudoRecord | None:
        """Find the pseudo-record that moves the answer most, in rows of the concentration that their draws have."""
        network, best, record = self.posterior.network, 0.0, None
        before = self.effects.value.ravel()[self.kept]
        for node in self.effects.weights:
            theta = self.theta[node]
            spread = self.posterior.cells[node].var(axis=-1).sum(axis=-1, keepdims=True)
            bound = (theta * (1 - theta)).sum(axis=-1, keepdims=True)
            # Variances of a Dirichlet row of sum A: theta (1 - theta) / (A + 1); one more record has share 1 / (A + 1).
            share = np.divide(spread, bound, where=bound > ROUNDING_VARIANCE, out=np.zeros(bound.shape)).clip(max=1)
            moved = self.effects.moved(node, ..., share).reshape(*theta.shape, -1)[..., self.kept]
            reach = np.abs(moved - before)
            if reach.max() > best * (1 + TIE_TOLERANCE):
                best = float(reach.max())
                *cell, target = np.unravel_index(_find_first_largest(reach.ravel()), reach.shape)
                named = _name_parents(network, node, tuple(map(int, cell[:-1])))
                ends = float(before[target]), float(moved[(*cell, target)])
                state = network.schema[node].states[cell[-1]]
                record = PseudoRecord(node, state, named, _name_states(network, states[int(target)]), *ends)
        return record

    def _decode_row(self, node: str, row: int) -> tuple[int, ...]:
        """Decode a row to the codes of its parents' states."""
        return tuple(int(code) for code in np.unravel_index(row, self.posterior.network.shape(node)[:-1]))


def _centre(draws: Floats) -> Floats:
    """Subtract the mean over draws; draws that make the evidence impossible count as the mean."""
    return np.asarray(np.nan_to_num(draws - np.nanmean(draws, axis=-1, keepdims=True)))


def _covary(moves: Floats, total: Floats) -> Floats:
    """Covariance of each row's effect with the total, summed over states; shape (rows,)."""
    return np.asarray(np.einsum("rkd,kd->r", moves, total) / total.shape[-1])


def _find_first_largest(changes: Floats) -> int:
    """Position of the largest change, the first of several that are equal but for rounding."""
    sizes = np.abs(changes)
    return int(np.argmax(sizes >= sizes.max() * (1 - TIE_TOLERANCE)))


def _correlate_squared(first: Floats, second: Floats) -> float:
    """Squared correlation of two answers, over all states together."""
    both = float((first**2).sum() * (second**2).sum())
    return float((first * second).sum()) ** 2 / both if both > 0 else 1.0


def _name_parents(network: Network, node: str, codes: tuple[int, ...]) -> dict[str, str]:
    """A row's parents by name and state."""
    return _name_states(network, dict(zip(network.parents[node], codes, strict=True)))


def _name_states(network: Network, codes: Mapping[str, int]) -> dict[str, str]:
    """States by name."""
    return {name: network.schema[name].states[code] for name, code in codes.items()}


def _write_entry(node: str, state: str, parents: Mapping[str, str]) -> str:
    """An entry of a table as a query."""
    return str(Probability(((node, state),), tuple(parents.items())))
