"""Likelihood weighting: laws from records simulated under every draw, where exact inference is too large.

Under every draw of the probabilities a number of records is drawn from the roots down. Observed variables are fixed
instead of drawn, and a record is weighted by the probability of the evidence given its parents' states:

    P(x | e)  ~  sum w_r 1[x_r = x] / sum w_r,       w_r = prod over observed v of P(e_v | parents of v in r).

Time is linear in the number of nodes, whatever the treewidth, and the sampling variance is estimated: that of a ratio,
by the delta method. The effective sample size of a draw is (sum w)^2 / sum w^2. Where it is too small no answer is
given: the evidence is too rare for sampling from the roots down.

Source: Fung and Chang (1990); Shachter and Peot (1990); Kong (1992) for the effective sample size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.graphs import requisite
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.util.arrays import Floats, Ints

Codes = npt.NDArray[np.unsignedinteger]

PARENT_RECORDS = 4096
"""Records of each draw for the laws of parents: the standard errors of their shares are at most .008."""
FIRST_RECORDS, MOST_DRAWN_STATES = 512, 2**28
"""Records of each draw in the first round of an answer, and the largest number of states drawn for it: about 8 CPU
seconds."""
RECORD_GROWTH = 4
CLOSE_VARIANCE_SHARE = 0.05
"""Largest ratio of the sampling variance to the draws' variance at which no more records are drawn: intervals are then
2.5 % wider than with exact inference."""
EXACT_ERROR = 0.002
"""Standard error of a draw's probability that is small enough in any case."""
LEAST_EFFECTIVE = 20.0
"""Least effective sample size of a draw's records; below it the delta method's error is not reliable."""
WEAK_DRAW_SHARE = 0.05
"""Fraction of the draws that may have a smaller effective sample size."""
STATES_AT_ONCE = 2**20
"""Number of states that are drawn at once: tens of MiB."""


@dataclass(frozen=True)
class Sampling:
    """Sampling error of an answer for which exact inference is too large.

    Args:
        records: number of records simulated under each draw.
        effective: effective sample size of the records of a draw; 95 % of the draws have at least this.
        error: largest sampling standard error of the means of the answer's rows; unit: that of the means.
        widening: largest relative widening of the intervals by sampling; 0.025 is 2.5 %. Infinite if some interval
            reflects sampling error alone.
    """

    records: int
    effective: float
    error: float
    widening: float


@dataclass(frozen=True, eq=False)
class WeightedLaws:
    """Estimated laws of some sets of variables given evidence.

    Args:
        laws: `P(set | evidence)` in every draw, by set, shape `(*sizes, draws)`; NaN in draws in which no record has
            the evidence.
        errors: sampling variance of each probability, same shape.
        records: number of records of each draw.
        effective: effective sample size, as in `Sampling`.
    """

    laws: Mapping[Scope, Floats]
    errors: Mapping[Scope, Floats]
    records: int
    effective: float

    def sampling(self, scope: Scope) -> Sampling:
        """Compute the sampling error of an answer about one of the sets.

        With e the mean sampling variance of a probability over draws and s the variance of its draws, its mean has the
        standard error `sqrt(e / draws)` and its interval is wider by `sqrt(s / (s - e)) - 1`, infinite if s is at most
        e, and 0 if e is 0. The largest of all states counts; NaN is left out.
        """
        error = np.nanmean(self.errors[scope], axis=-1)
        spread = np.nanvar(self.laws[scope], axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Observed variance = posterior variance + sampling variance; ratio of standard deviations less 1.
            wider = np.sqrt(spread / np.maximum(spread - error, 0.0)) - 1
        draws = self.laws[scope].shape[-1]
        return Sampling(
            self.records,
            self.effective,
            float(np.sqrt(error.max() / draws)),
            float(np.where(error > 0, wider, 0.0).max()),
        )


def weighted_laws(
    cells: Tables, scopes: Sequence[Scope], evidence: Mapping[str, int], rng: np.random.Generator
) -> WeightedLaws:
    """Estimate laws of some sets of variables given evidence, by likelihood weighting under every draw.

    Records are drawn anew, four times as many each time, until their error is small relative to the draws' own spread
    (see CLOSE_VARIANCE_SHARE) or the limit of work is reached.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        scopes: non-empty sets of unobserved variables.
        evidence: code of the state of each observed variable.
        rng: source of randomness.

    Returns:
        The laws, with their sampling variances.

    Raises:
        InputError: the evidence is so rare that more than 5 % of the draws have an effective sample size below 20.
    """
    network, draws = cells.network, cells.draws or 1
    relevant = set(requisite(network, tuple(dict.fromkeys(name for scope in scopes for name in scope)), evidence))
    nodes = [node for node in network.order if node in relevant]
    most, records = min(STATES_AT_ONCE, MOST_DRAWN_STATES // (draws * max(1, len(nodes)))), FIRST_RECORDS
    laws = _draw_laws(cells, scopes, nodes, evidence, records, rng)
    while RECORD_GROWTH * records <= most and not _is_enough(laws):
        records *= RECORD_GROWTH
        laws = _draw_laws(cells, scopes, nodes, evidence, records, rng)
    if laws.effective < LEAST_EFFECTIVE:
        observed = ", ".join(name for name in network.nodes if name in evidence)
        raise InputError(
            f"exact inference is out of reach, and the evidence on {observed} is too rare to be sampled: {records:,} "
            f"records under each draw are worth {laws.effective:.2g}, and {LEAST_EFFECTIVE:g} are needed; leave out "
            "the evidence that is least probable, or observe variables nearer to the roots"
        )
    return laws


def _draw_laws(
    cells: Tables,
    scopes: Sequence[Scope],
    nodes: Sequence[str],
    evidence: Mapping[str, int],
    records: int,
    rng: np.random.Generator,
) -> WeightedLaws:
    """Estimate laws as ratios of weighted sums over the records of each draw, with variances by the delta method.

    In a draw in which no record has the evidence probabilities are NaN and the effective sample size is 0. `effective`
    is the WEAK_DRAW_SHARE quantile over draws.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        scopes: non-empty sets of unobserved variables.
        nodes: relevant nodes in topological order.
        evidence: code of the state of each observed variable.
        records: number of records of each draw.
        rng: source of randomness.
    """
    draws = cells.draws or 1
    laws = {scope: np.empty((cells.network.cells(scope), draws)) for scope in scopes}
    errors, effective = {scope: np.empty(law.shape) for scope, law in laws.items()}, np.empty(draws)
    size = max(1, STATES_AT_ONCE // records)
    for start in range(0, draws, size):
        chunk = slice(start, min(start + size, draws))
        logs, codes = _draw_records(cells, nodes, evidence, chunk, records, rng)
        highest = logs.max(axis=-1, keepdims=True)
        weights = np.exp(logs - np.where(np.isfinite(highest), highest, 0.0))
        total, squared = weights.sum(axis=-1), np.square(weights).sum(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            effective[chunk] = np.nan_to_num(total**2 / squared)
            for scope, law in laws.items():
                # share = sum w 1[x] / sum w, with variance sum w^2 (1[x] - share)^2 / (sum w)^2.
                sums, squares = (_sum_by_states(cells.network, scope, codes, w) for w in (weights, weights**2))
                law[:, chunk] = share = sums / total
                error = ((1 - 2 * share) * squares + share**2 * squared) / total**2
                errors[scope][:, chunk] = np.maximum(error, 0.0)
    shapes = {scope: (*(cells.network.schema[name].size for name in scope), draws) for scope in scopes}
    return WeightedLaws(
        {scope: law.reshape(shapes[scope]) for scope, law in laws.items()},
        {scope: error.reshape(shapes[scope]) for scope, error in errors.items()},
        records,
        float(np.quantile(effective, WEAK_DRAW_SHARE)),
    )


def _sum_by_states(network: Network, scope: Scope, codes: Mapping[str, Codes], weights: Floats) -> Floats:
    """Sum weights of shape (draws, records) by the joint states of a set; shape (states, draws)."""
    flat, states = np.arange(len(weights))[:, None], network.cells(scope)
    for name in scope:
        flat = flat * network.schema[name].size + codes[name]
    sums = np.bincount(flat.ravel(), weights.ravel(), len(weights) * states)
    return np.asarray(sums.reshape(len(weights), states).T, np.float64)


def log_weight(cells: Tables, evidence: Mapping[str, int], rng: np.random.Generator) -> Floats:
    """Estimate `log P(evidence)` in every draw by likelihood weighting.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        evidence: code of the state of each observed variable.
        rng: source of randomness; at most 4,096 records are drawn under each draw.

    Returns:
        Logarithm of the mean weight, shape `(draws,)`.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(network, {"a": [[0.25], [0.75]], "b": [[[1.0], [0.0]], [[0.5], [0.5]]]}, draws=1)
        >>> bool(abs(np.exp(log_weight(theta, {"b": 1}, np.random.default_rng(0)))[0] - 0.375) < 0.05)
        True
    """
    network, draws = cells.network, cells.draws or 1
    above = network.ancestors(evidence)
    nodes, log_evidence = [node for node in network.order if node in above], np.empty(draws)
    records = min(PARENT_RECORDS, max(1, MOST_DRAWN_STATES // (draws * max(1, len(nodes)))))
    size = max(1, STATES_AT_ONCE // records)
    for start in range(0, draws, size):
        chunk = slice(start, min(start + size, draws))
        logs, _ = _draw_records(cells, nodes, evidence, chunk, records, rng)
        # Log of the mean weight.
        log_evidence[chunk] = np.logaddexp.reduce(logs, axis=-1) - math.log(records)
    return log_evidence


def ancestors_beyond(network: Network, names: Iterable[str], taken: Set[str]) -> list[str]:
    """List nodes and their ancestors except those already taken, parents before children.

    Example:
        >>> from discreet import Network, Variable
        >>> parents = {"a": (), "b": ("a",), "c": ("b",)}
        >>> chain = Network(tuple(Variable(name, ("0", "1")) for name in "abc"), parents)
        >>> ancestors_beyond(chain, ["c"], {"a"})
        ['b', 'c']
    """
    collected = dict[str, None]()
    waiting = list(names)
    while waiting:
        missing = [name for name in network.parents[waiting[-1]] if name not in taken and name not in collected]
        waiting += missing
        if not missing:
            node = waiting.pop()
            if node not in taken:
                collected[node] = None
    return list(collected)


def _is_enough(laws: WeightedLaws) -> bool:
    """Return whether no more records are needed.

    That is so if the effective sample size is at least LEAST_EFFECTIVE and, for every probability, the mean sampling
    variance is at most CLOSE_VARIANCE_SHARE of the draws' variance, or EXACT_ERROR squared if that is more.
    """
    if laws.effective < LEAST_EFFECTIVE:
        return False
    for scope, law in laws.laws.items():
        error = np.nanmean(laws.errors[scope], axis=-1)
        if (error > np.maximum(CLOSE_VARIANCE_SHARE * np.nanvar(law, axis=-1), EXACT_ERROR**2)).any():
            return False
    return True


def _draw_records(
    cells: Tables,
    nodes: Sequence[str],
    evidence: Mapping[str, int],
    chunk: slice,
    records: int,
    rng: np.random.Generator,
) -> tuple[Floats, dict[str, Codes]]:
    """Draw records of some draws by likelihood weighting.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        nodes: relevant nodes in topological order.
        evidence: code of the state of each observed variable.
        chunk: slice of the draws.
        records: number of records of each draw.
        rng: source of randomness.

    Returns:
        Log weights, shape `(draws, records)`, and codes of drawn and observed variables, same shape.
    """
    network = cells.network
    logs = np.zeros((chunk.stop - chunk.start, records))
    codes: dict[str, Codes] = {
        name: np.full(logs.shape, code, _choose_type(network, name)) for name, code in evidence.items()
    }
    for node in nodes:
        table = cells[node][..., chunk]
        rows = _find_rows(network, node, codes, logs.shape)
        if node in evidence:
            with np.errstate(divide="ignore"):
                logs += np.log(_flatten_by_draw(table[..., evidence[node], :])[rows])
        else:
            codes[node] = _draw_states(network, node, table, rows, rng)
    return logs, codes


def _choose_type(network: Network, node: str) -> np.dtype[np.unsignedinteger]:
    """Choose the smallest unsigned integer type for a node's codes."""
    return np.dtype(np.min_scalar_type(network.schema[node].size - 1))


def _find_rows(network: Network, node: str, codes: Mapping[str, Codes], shape: tuple[int, ...]) -> Ints:
    """Compute the position of each record's row in a table that is flattened draw by draw; shape `(draws, records)`.

    Args:
        network: network of the table.
        node: node of the table.
        codes: codes of its parents, shape `(draws, records)`.
        shape: that shape.
    """
    rows = np.broadcast_to(np.arange(shape[0])[:, None], shape)
    for parent in network.parents[node]:
        rows = rows * network.schema[parent].size + codes[parent]
    return np.asarray(rows)


def _flatten_by_draw(table: Floats) -> Floats:
    """Flatten a table with the draws last: all cells of the first draw, then those of the next."""
    return np.moveaxis(table, -1, 0).ravel()


def _draw_states(network: Network, node: str, table: Floats, rows: Ints, rng: np.random.Generator) -> Codes:
    """Draw a state for each record by inversion with binary search; states of probability 0 are never drawn.

    Args:
        network: network of the table.
        node: node to draw.
        table: probabilities, shape `(*parents, child, draws)`.
        rows: position of each record's row, shape `(draws, records)`.
        rng: source of randomness.

    Returns:
        Codes, shape of the rows.
    """
    size = network.schema[node].size
    width = 1 << (size - 1).bit_length()
    sums = np.cumsum(table, axis=-2)
    sums /= sums[..., -1:, :]
    # Padded to a power of 2 with infinity, so that halving stays within a row.
    ends = np.full((*sums.shape[:-2], width, sums.shape[-1]), np.inf)
    ends[..., :size, :] = sums
    ends, position, uniform = _flatten_by_draw(ends), rows * width, rng.random(rows.shape)
    step = width >> 1
    while step:
        position += step * (uniform >= ends.take(position + (step - 1)))
        step >>= 1
    return (position & (width - 1)).astype(_choose_type(network, node))


class RecordPass:
    """Laws of sets of variables from simulated records, for tables that are drawn from the roots down.

    Args:
        scopes: non-empty sets of variables.
        cells: probabilities, shape `(*parents, child, draws)`; a set's ancestors are read at its first use, parents
            first.
        seed: seed of the records; each node has a generator of its own, so no law depends on the order of calls.
    """

    def __init__(self, scopes: Sequence[Scope], cells: Tables, seed: int) -> None:
        self._cells, self._seed, network = cells, seed, cells.network
        above = network.ancestors({name for scope in scopes for name in scope})
        self._place = {node: index for index, node in enumerate(node for node in network.order if node in above)}
        self._sets: dict[str, list[Scope]] = {node: [] for node in self._place}
        for scope in scopes:
            for name in scope:
                self._sets[name].append(scope)
        self._waiting = {node: len(sets) for node, sets in self._sets.items()}
        for node in self._place:
            for parent in network.parents[node]:
                self._waiting[parent] += 1
        self._taken = set[str]()
        self._codes: dict[str, Codes] = {}
        self._laws: dict[Scope, Floats] = {}

    def law(self, scope: Scope) -> Floats:
        """Estimate `P(scope)` by shares of simulated records, shape `(*sizes, draws)`; draw these at first use.

        One extra record is spread evenly over the cells, so no probability is 0.
        """
        if scope not in self._laws:
            for node in ancestors_beyond(self._cells.network, scope, self._taken):
                self._draw_node(node)
        return self._laws[scope]

    def _draw_node(self, node: str) -> None:
        """Draw a node's states for all draws, PARENT_RECORDS records each; its parents are drawn already.

        Then the laws of sets that are complete are counted and kept, and columns that no later node or set needs are
        deleted.
        """
        network, draws = self._cells.network, self._cells.draws or 1
        rows = _find_rows(network, node, self._codes, (draws, PARENT_RECORDS))
        rng = np.random.default_rng([self._seed, self._place[node]])
        self._codes[node] = _draw_states(network, node, self._cells[node], rows, rng)
        self._taken.add(node)
        done = list(network.parents[node])
        for scope in self._sets[node]:
            if self._taken.issuperset(scope):
                self._laws[scope] = self._count_shares(scope, draws)
                done += scope
        for name in done:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._codes[name]

    def _count_shares(self, scope: Scope, draws: int) -> Floats:
        """Compute shares of records plus one spread evenly, shape `(*sizes, draws)`."""
        network = self._cells.network
        counts = _sum_by_states(network, scope, self._codes, np.ones((draws, PARENT_RECORDS)))
        sizes = [network.schema[name].size for name in scope]
        return ((counts + 1 / len(counts)) / (PARENT_RECORDS + 1)).reshape(*sizes, draws)
