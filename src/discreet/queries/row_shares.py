"""Variance decomposition of an answer by the rows of the tables, and the rows whose change would move it most.

A row is the distribution of a node in one state of its parents. To first order an answer is the sum of the effects of
the rows, and every row has a share of that sum's variance over posterior draws. The replicate draws (second draws given
the same latent counts) divide each share into privacy noise and sampling. The variance shares are first-order; the
effect of changing one row, at the posterior mean of all tables, is exact.
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
from discreet.model.query_grammar import Probability, asked_cells, observed_codes
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.credible import credible_interval
from discreet.util.arrays import Floats

# --------------------------------------------------------------------------------------------------------------------
# Effects of the rows of the tables on an answer: exact for a change of one row, first-order for the errors that noise
# in all tables causes.
#
# `P(targets | evidence)` is a ratio of two linear functions of each row. Its values at two points determine it: the
# current row, and the row in which one cell is certain. So the effect of any change of one row is exact, however large,
# even where probabilities are 0. Only simultaneous errors in many rows are approximated to first order.
#
# Use it for public or assumed tables, or those of a release: an error computed from private tables is private.

GRADIENT_CELLS = 50_000_000
"""Largest number of entries of the tables that are differentiated at once: 400 MB."""
IMPOSSIBLE_RATIO = 1e-14
"""Ratio of P(evidence) after a change to that before it at which the evidence is impossible, up to rounding errors."""


@dataclass(frozen=True, eq=False)
class RowEffects:
    """Effects on `P(targets | evidence)` of a change of one row of one table.

    Args:
        network: network of the tables.
        value: current answer, shape `(*sizes of the targets)`.
        weights: by node that affects the answer, `P(evidence)` if a cell is certain in its row, divided by the current
            `P(evidence)`; shape `(*family)`.
        certain: by node, the answer if a cell is certain in its row, shape `(*family, *sizes of the targets)`; 0 where
            the weight is 0.
    """

    network: Network
    value: Floats
    weights: Mapping[str, Floats]
    certain: Mapping[str, Floats]

    def moved(self, node: str, cell: tuple[int, ...] | EllipsisType, share: float | Floats) -> Floats:
        """Compute the answer after mixing a row with the certainty of one of its cells: `(1 - s) row + s e_cell`.

        It is `((1 - s) value + s w c) / ((1 - s) + s w)`, with w and c the cell's entries in `weights` and `certain`,
        clipped to [0, 1]. With s = 1 / (A + 1) it is the answer after one more record in that cell of a row with A
        records; with `s = (x - theta) / (1 - theta)` the answer if the cell has probability x and the other cells of
        its row keep their proportions.

        Args:
            node: node of the table; one that affects the answer.
            cell: codes of the family's states; `...` for each cell of the table in turn.
            share: s, at most 1; negative if the cell becomes less probable. With `...`, an array that broadcasts to the
                table.

        Returns:
            Shape `(*sizes of the targets)`; with `...`, `(*family, *sizes of the targets)`. If the change makes the
            evidence impossible (s = 1 and w = 0, or the only cell that allows it is emptied), the current answer, which
            is that of all other shares.

        Raises:
            KeyError: a node that does not affect the answer.

        Source:
            Castillo, Gutierrez and Hadi (1997): an answer is a ratio of linear functions of each entry.
        """
        weight = self.weights[node][cell]
        # P(t, e) is 0 where P(e) is; both are linear in the share, so their ratio does not depend on it then.
        share = np.where(1 - share + share * weight > IMPOSSIBLE_RATIO, share, 0.0)
        rest, weight = 1 - share, share * weight
        axes = (..., *(None,) * self.value.ndim)
        # P(t, e) and P(e) are linear in the row; both are divided by the current P(e).
        mixed = (rest[axes] * self.value + weight[axes] * self.certain[node][cell]) / (rest + weight)[axes]
        return np.asarray(np.clip(mixed, 0, 1))  # rounding may leave [0, 1]

    def gradient(self, node: str) -> Floats:
        """Compute the derivative of the answer by every cell before its row is normalised: `w (c - value)`.

        w and c are the cell's entries in `weights` and `certain`. The derivative by an entry whose row keeps its other
        proportions (Laskey, 1995) is this divided by `1 - theta`.

        Args:
            node: node of the table, of any effect.

        Returns:
            Shape `(*family, *sizes of the targets)`; zeros for a node that does not affect the answer.
        """
        if node not in self.weights:
            return np.zeros((*self.network.shape(node), *self.value.shape))
        # (P(t, e) - P(t | e) P(e)) / current P(e), with P(t, e) and P(e) under the certain row; other terms cancel.
        weight = self.weights[node].reshape(*self.weights[node].shape, *(1,) * self.value.ndim)
        return np.asarray(weight * (self.certain[node] - self.value))


def row_effects(theta: Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> RowEffects:
    """Compute the effect of each row of each table on `P(targets | evidence)`, exactly.

    Args:
        theta: probabilities, shape `(*parents, child)`, without an axis of draws; rows sum to 1.
        targets: at least one variable, none of them observed.
        evidence: code of the state of each observed variable.

    Returns:
        The effects of all rows, exact by two inferences for each table: `P(evidence)` relative to the present one, and
        the answer, both with one cell of the table certain in its row at a time. Tables that do not affect the answer
        are left out. A change of a row is given by a cell and a share s: the row becomes `(1 - s) row + s e`, with e
        the certainty of that cell's state (with s = 0.01 below, 0.99 row + 0.01 e).

    Raises:
        InputError: tables with draws; no target, a repeated one, or one that is observed; an unknown variable, or a
            code out of range; evidence that is impossible; cells that bear on the query, of which the number times that
            of the largest table exceeds GRADIENT_CELLS; or a network too large for exact inference.

    Source:
        Laskey (1995); replaces Chowdhury et al. (ICML 2020), equations (7) and (8), whose "sensitivity" is a constant.

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
    """Build tables with one draw for each cell of a node, in which that cell has probability 1 in its row.

    Draw d is of the d-th cell of the flattened table; the node's other rows are as in `theta`.

    Args:
        theta: probabilities, shape `(*parents, child)`, without an axis of draws.
        node: node whose cells become certain one by one.

    Returns:
        Tables of shape `(*parents, child, cells of the node)`; those of other nodes are repeated, and all are computed
        at their first use.
    """
    shape = theta.network.shape(node)
    draws = math.prod(shape)

    def table(name: str) -> Floats:
        """Repeat the table of a node for all draws; make the cell of each draw certain in that of the changed node."""
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
"""Relative difference below which two effects count as equal; the first of several equal states is named."""
LEAST_SHOWN_SHARE = 1e-6
"""Share of the variance below which a row is not listed."""


@dataclass(frozen=True)
class RowShare:
    """A row of a table and its effect on an answer.

    Args:
        node: node of the table.
        given: states of the node's parents, which identify the row.
        variance: the row's share of the answer's variance, to first order. Shares of all rows sum to 1; the share of a
            row whose errors oppose the others' may be negative.
        noise: share of the answer's variance due to the privacy noise in this row; None if the draws do not separate
            noise from sampling.
        state: entry of the row over whose interval the answer moves most.
        mean, lower, upper: posterior mean and interval of this entry.
        slope: derivative of the answer by this entry, with the other entries of the row in proportion.
        low, high: exact answer if the entry is at the lower or upper end of its interval.
        target: state of the answer to which slope, low and high refer.
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
        """Text of the entry as a query, such as `P(lung=yes | smoke=no)`."""
        return _write_entry(self.node, self.state, self.given)


@dataclass(frozen=True)
class PseudoRecord:
    """The pseudo-record of a prior that moves an answer more than one in any other cell of the tables.

    Args:
        node: node of the table.
        state: state of the node.
        given: states of the node's parents.
        target: state of the answer that moves most.
        before, after: its probability without and with the pseudo-record.
    """

    node: str
    state: str
    given: Mapping[str, str]
    target: Mapping[str, str]
    before: float
    after: float

    @property
    def entry(self) -> str:
        """Text of the cell as a query, such as `P(lung=yes | smoke=no)`."""
        return _write_entry(self.node, self.state, self.given)


@dataclass(frozen=True)
class Dependence:
    """Dependence of an answer on the rows of the tables.

    Args:
        query: text of the query.
        tables: share of the answer's variance by node whose table affects it, largest first, negative ones last.
        rows: rows with the largest absolute shares, largest first.
        noise: share of the variance due to the privacy noise; None if the draws do not separate it.
        explained: squared correlation of the first-order sum with the answer; where it is small, the shares are
            unreliable.
        record: pseudo-record that would move the answer most; None if none would.
    """

    query: str
    tables: Mapping[str, float]
    rows: tuple[RowShare, ...]
    noise: float | None
    explained: float
    record: PseudoRecord | None


def dependence(posterior: PosteriorDraws, query: Probability, *, level: float, rows: int) -> Dependence:
    """Decompose an answer's variance by tables and rows.

    Effects are linear in the tables, around their posterior means. The answer is that of the network alone: where
    tables contradict its independences, the joint laws that they measured are not used. Families that affect the
    answer are drawn if they are missing, the others are not.

    Args:
        posterior: draws of the public network's own rows.
        query: query for a probability. If only some targets have a state, the variances of the answers are summed over
            the states of the others.
        level: posterior probability of the entries' intervals, in (0, 1).
        rows: largest number of rows to list.

    Returns:
        Shares of the variance of the first-order sum. They sum to 1 and may be negative, because each is a covariance
        with the sum. Tables are sorted by share, rows by absolute share, without those below LEAST_SHOWN_SHARE. Shares
        are exact for the given draws; with n draws their relative error is about `1 / sqrt(n)`. Shares of the noise are
        None without replicate draws. Beside them are the squared correlation of the sum with the exact answer
        (`explained`) and the pseudo-record that moves the answer most (`record`).

    Raises:
        InputError: a query with evidence on its own target, impossible evidence, too many cells that bear on the query,
            a network too large for exact inference, a level outside (0, 1), or an answer that does not vary over the
            draws.

    Guarantee:
        No budget is spent; only the posterior is read.

    Source:
        Delta method; replaces Chowdhury et al. (ICML 2020), equations (7) and (8) and Theorem 4.2; Laskey (1995),
        Castillo, Gutierrez and Hadi (1997) for one row.
    """
    schema = posterior.network.schema
    # Families that do not affect the answer are never drawn.
    theta = Tables(posterior.network, lambda node: posterior.probabilities[node].mean(axis=-1))
    targets = tuple(name for name, _ in query.targets)
    evidence = observed_codes(query.evidence, schema)
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
        posterior: posterior whose draws are used.
        theta: posterior means of the tables.
        effects: effects of all rows at the means.
        kept: flat positions of the queried states among the joint states of the targets.
        level: posterior probability of intervals.
    """

    posterior: PosteriorDraws
    theta: Tables
    effects: RowEffects
    kept: npt.NDArray[np.intp]
    level: float

    def parts(self, query: Probability) -> tuple[dict[str, tuple[Floats, Floats | None]], float | None, float]:
        """Decompose the variance of the first-order sum by rows, and separate the privacy noise by replicate draws.

        With S the centred sum over rows of their effects, the share of a row is `Cov(effect, S) / Var(S)`, summed over
        the queried states and averaged over draws and replicates. Its noise is the same with the S of the other side:
        of the replicates for the draws, and the reverse.

        Args:
            query: query whose answer is explained, for the exact answer in every draw and for messages.

        Returns:
            By node that affects the answer, each row's share of the variance and the part of it due to privacy noise,
            both relative to the whole variance, shape (rows,) each (the second None without replicate draws); the
            noise's share in total, or None; the squared correlation of the draws' sum with the exact answer.

        Raises:
            InputError: the answer does not vary over the draws: its variance is at most ROUNDING_VARIANCE.
        """
        sides = [side for side in (self.posterior.probabilities, self.posterior.replicates) if side is not None]
        nodes = self.effects.weights
        by_side = [[self._compute_row_effects(node, side).sum(axis=0) for node in nodes] for side in sides]
        totals = [_centre(np.sum(effects, axis=0)) for effects in by_side]
        variance = float(np.mean([(total**2).mean(axis=-1).sum() for total in totals]))
        if not variance > ROUNDING_VARIANCE:
            raise InputError(f"{query}: no draw of the tables moves this answer")
        by_node: dict[str, tuple[Floats, Floats | None]] = {}
        for node in nodes:
            moves = [self._compute_row_effects(node, side) for side in sides]
            shares = np.mean([_covary(*both) for both in zip(moves, totals, strict=True)], axis=0) / variance
            # A replicate has the same latent counts, so the covariance with its sum is the uncertainty of the counts.
            noise = [_covary(*both) / variance for both in zip(moves, totals[::-1], strict=True)]
            by_node[node] = (shares, np.mean(noise, axis=0) if len(sides) > 1 else None)
        noise_of_all = float((totals[0] * totals[1]).mean(axis=-1).sum() / variance) if len(sides) > 1 else None
        return by_node, noise_of_all, _compute_squared_correlation(totals[0], self._compute_centred_answer(query))

    def _compute_row_effects(self, node: str, cells: Tables) -> Floats:
        """Compute the first-order effect of each row of a table on the answer in every draw.

        It is the sum over the row's cells of their gradient times (the draw less the posterior mean).

        Args:
            node: node of the table.
            cells: tables of the draws or of their replicate draws.

        Returns:
            Shape (rows, queried states, draws).
        """
        table = cells[node] - self.theta[node][..., None]
        gradient = self.effects.gradient(node).reshape(-1, table.shape[-2], self.effects.value.size)[..., self.kept]
        return np.asarray(np.einsum("rcd,rck->rkd", table.reshape(-1, *table.shape[-2:]), gradient, optimize=True))

    def _compute_centred_answer(self, query: Probability) -> Floats:
        """Compute the exact answer in every draw, less its mean over draws; shape (queried states, draws).

        It is 0 in draws in which the evidence is impossible, which the mean leaves out.
        """
        schema = self.posterior.network.schema
        evidence = observed_codes(query.evidence, schema)
        table = Laws(self.posterior.probabilities).joint([name for name, _ in query.targets], evidence)
        return _centre(table.reshape(-1, table.shape[-1])[self.kept])

    def share(
        self, node: str, row: int, variance: float, noise: float | None, states: list[dict[str, int]]
    ) -> RowShare:
        """Describe a row by the entry over whose interval the answer moves most.

        One entry of the row goes from the lower to the upper end of its interval; the other entries keep their
        proportions, and all other rows their means. Of entries and of queried states with equal effects the first is
        named. An entry with mean 1 is skipped.

        Args:
            node: node of the table.
            row: position of the row in the flattened table.
            variance: the row's share of the variance, which is passed on.
            noise: the row's share due to the privacy noise, or None; passed on.
            states: codes of each queried state, by target.

        Returns:
            The row with the entry's mean and interval; the queried state that moves most, its slope at the mean, and
            its exact probability at the lower and at the upper end, of which either may be the larger.
        """
        network = self.posterior.network
        size = network.schema[node].size
        draws = self.posterior.probabilities[node].reshape(-1, size, self.posterior.probabilities.draws or 1)[row]
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
        """Find the pseudo-record that would move the answer most; None if none would.

        A row with sum A of a Dirichlet law changes by the share s = 1 / (A + 1), estimated as the sum over its cells of
        the variance of the draws over the sum of `theta (1 - theta)`: at most 1, and 0 for a row that is certain. The
        effect is exact (`RowEffects.moved`).

        Args:
            states: codes of each queried state, by target.

        Returns:
            The cell with the state of the answer that moves most in absolute value, the first of equal ones, and the
            answer without and with one more record in the cell; None if no record moves the answer.
        """
        network, best, record = self.posterior.network, 0.0, None
        before = self.effects.value.ravel()[self.kept]
        for node in self.effects.weights:
            theta = self.theta[node]
            spread = self.posterior.probabilities[node].var(axis=-1).sum(axis=-1, keepdims=True)
            bound = (theta * (1 - theta)).sum(axis=-1, keepdims=True)
            # Dirichlet with sum A: variance theta (1 - theta) / (A + 1); one more record has the share 1 / (A + 1).
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
        """Convert the position of a row to the codes of its parents' states; () for a node without parents."""
        return tuple(int(code) for code in np.unravel_index(row, self.posterior.network.shape(node)[:-1]))


def _centre(draws: Floats) -> Floats:
    """Subtract the mean over the last axis, draws; NaN (impossible evidence) is left out of it and becomes 0."""
    return np.asarray(np.nan_to_num(draws - np.nanmean(draws, axis=-1, keepdims=True)))


def _covary(moves: Floats, total: Floats) -> Floats:
    """Compute the covariance of each row's effect with the total, with divisor `draws`, summed over states.

    Args:
        moves: effects of the rows, centred or not, shape (rows, states, draws).
        total: centred total, shape (states, draws).

    Returns:
        Shape (rows,).
    """
    return np.asarray(np.einsum("rkd,kd->r", moves, total) / total.shape[-1])


def _find_first_largest(changes: Floats) -> int:
    """Find the position of the largest absolute change, the first of several within a relative TIE_TOLERANCE.

    Args:
        changes: shape (changes,), at least one.
    """
    sizes = np.abs(changes)
    return int(np.argmax(sizes >= sizes.max() * (1 - TIE_TOLERANCE)))


def _compute_squared_correlation(first: Floats, second: Floats) -> float:
    """Compute `(sum x y)^2 / (sum x^2 sum y^2)` of two centred answers; 1 if one of them does not vary.

    The sums are over all states and draws together.

    Args:
        first: x, shape (states, draws).
        second: y, same shape.
    """
    both = float((first**2).sum() * (second**2).sum())
    return float((first * second).sum()) ** 2 / both if both > 0 else 1.0


def _name_parents(network: Network, node: str, codes: tuple[int, ...]) -> dict[str, str]:
    """Map a node's parents to the names of their states, from the codes in the order of the parents."""
    return _name_states(network, dict(zip(network.parents[node], codes, strict=True)))


def _name_states(network: Network, codes: Mapping[str, int]) -> dict[str, str]:
    """Map variables to the names of their states, from codes."""
    return {name: network.schema[name].states[code] for name, code in codes.items()}


def _write_entry(node: str, state: str, parents: Mapping[str, str]) -> str:
    """Write an entry of a table as a query, such as `P(lung=yes | smoke=no)`; without parents as `P(smoke=no)`."""
    return str(Probability(((node, state),), tuple(parents.items())))
