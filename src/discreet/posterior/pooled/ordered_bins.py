"""Records of ordered bins from a noisy count of each: the log records of neighbouring bins continue each other.

With a prior under which all bins are alike, noise of s records in a count leaves about s / 2 records in a bin that is
empty, because there are no negative ones. Of ten bins of a long tail most are empty; together they then pull the mean
and, far more, the standard deviation of the column upwards. Here the log l_k of the expected records of bin k follows
its neighbours: given those before it,

    l_k - l_(k-1) = s (l_(k-1) - l_(k-2)) + e_k,    e_k Laplace of scale tau,

with s = 1 in most steps (the tail falls on as it fell) and s = 0 in `LEVEL_STEPS` of them (it goes on as high as it
is). The scale tau is drawn from `SCALES` by the likelihood of all bins, so that smooth columns have smooth tails and
heaped ones do not. The count of a bin measures its records with normal error; sampling error is Poisson's.

Nodes are placed where a count allows its bin to be, and on a coarse grid of all levels. On them the law of a column is
a hidden Markov chain of second order, whose draws are exact: a pass forwards, and drawn bins backwards. A drawn node
is spread over its interval. That all bins together have the records of a draw is reached by tilting the law (the
factor `exp(-c records)` does not change the law given the sum) and choosing, of many drawn columns, one whose sum is
nearest.

Source: second-order random walks of logarithms of neighbouring shares: Fahrmeir and Lang (2001); forward filtering and
backward sampling: Carter and Kohn (1994).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.util.arrays import Floats, Ints

FEWEST_BINS, MOST_BINS = 3, 256
"""Bins for which neighbours say something, and that the tables of the chain (some 300 kB for each bin) allow."""
LEAST_RECORDS = 0.1
"""Lowest level of a bin, in expected records."""
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Scales tau of the change of the log slope from bin to bin; equally likely before the counts are seen."""
FIRST_SCALE = 2.0
"""Scale of the first step."""
LEVEL_STEPS = 0.3
"""Share of steps that start from a level instead of a slope."""
COARSE_NODES, FINE_NODES, NODE_REACH = 16, 15, 3.5
"""Nodes of all levels; those where the count allows the bin to be, and standard deviations that they reach."""
SPARE_COLUMNS, NEAREST = 4, 0.01
"""Columns drawn for each that is taken, and the share of them with sums nearest to the wanted, any of which is."""
TILT_ROUNDS = 8
"""Rounds in which the mean of the sums is brought within a fifth of their deviation of the wanted one."""


class _Nodes(NamedTuple):
    """Levels that the expected records of a bin can have.

    Args:
        logs: logarithms of the levels, ascending, shape (nodes,).
        ends: ends of the interval of each level, as logarithms, shape (nodes + 1,).
        weights: prior weights: lengths of the intervals, shape (nodes,).
        fit: log likelihood of the bin's count at each level, shape (nodes,).
    """

    logs: Floats
    ends: Floats
    weights: Floats
    fit: Floats


def draw_ordered_records(
    estimates: Floats, variance: float, bins: int, totals: Ints, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw the expected and the counted records of the states of a numeric variable.

    The bins have a chain for each of SCALES (`_BinChain`). In up to TILT_ROUNDS rounds the law is tilted until the mean
    sum of drawn columns is within a fifth of its standard deviation of the mean of `totals`. Then SPARE_COLUMNS columns
    are drawn for each total. For each total one is taken at random among the columns with sums next to it, up to a
    share NEAREST of all (at least one) on either side. What is still missing is shared among the states in proportion
    to their variances over the draws; states are raised to a tenth of LEAST_RECORDS and scaled to the total. Given
    expected records, counted ones are drawn from a gamma law that has the mean and variance of a Poisson count that was
    measured once, and scaled to the total.

    Args:
        estimates: measured records of each state, the bins first, shape (states,); they sum to about the mean of
            `totals`.
        variance: variance of their errors.
        bins: number of ordered states, at least `FEWEST_BINS`; each of those that follow is drawn by itself, with the
            prior of a Dirichlet law with 1/2.
        totals: number of records in each draw, shape (draws,); raised to 1.
        rng: source of randomness.

    Returns:
        Expected records, at least about a tenth of LEAST_RECORDS, and counted ones, at least 0 and not whole, shape
        `(states, draws)` each; both sum to `totals`.

    Example:
        >>> counted = np.array([520.0, 260.0, 140.0, 50.0, 30.0, -6.0, 8.0, -9.0, 7.0, 0.0])  # deviation 10
        >>> totals = np.full(500, 1000)
        >>> expected, _ = draw_ordered_records(counted, 100.0, 10, totals, np.random.default_rng(1))
        >>> bool(expected[5:].mean() < 4), bool(abs(expected[0].mean() - 515) < 10)
        (True, True)
    """
    wanted = np.maximum(totals, 1.0)
    nodes = [_place_nodes(float(estimate), variance, float(wanted.mean())) for estimate in estimates]
    chains = [_BinChain(nodes[:bins], scale) for scale in SCALES]
    tilt = 0.0
    for _ in range(TILT_ROUNDS):
        sums = _draw_columns(nodes, chains, tilt, len(wanted), rng).sum(axis=0)
        excess = float(sums.mean() - wanted.mean())
        if abs(excess) < sums.std() / 5:
            break
        tilt += excess / float(sums.var())
    columns = _draw_columns(nodes, chains, tilt, SPARE_COLUMNS * len(wanted), rng)
    sums = columns.sum(axis=0)
    order, near = np.argsort(sums), max(int(NEAREST * len(sums)), 1)
    places = np.searchsorted(sums[order], wanted) + rng.integers(-near, near + 1, size=len(wanted))
    columns = columns[:, order[np.clip(places, 0, len(sums) - 1)]]
    # What is still open is shared in proportion to what is open of each bin.
    open_part = columns.var(axis=1, keepdims=True) + 1e-12
    columns = columns + open_part / open_part.sum() * (wanted - columns.sum(axis=0))
    columns = np.maximum(columns, LEAST_RECORDS / 10)
    columns *= wanted / columns.sum(axis=0)
    # Given its expectation a count is Poisson's, and measured once: a gamma law of the mean and variance of both.
    mean = (columns * variance + np.maximum(estimates, 0.0)[:, None] * columns) / (columns + variance)
    spread = columns * variance / (columns + variance)
    counted = spread / mean * rng.standard_gamma(mean**2 / spread)
    return columns, counted * (wanted / np.maximum(counted.sum(axis=0), 1e-300))


def _place_nodes(estimate: float, variance: float, total: float) -> _Nodes:
    """Place the nodes of a bin: fine ones around its noisy count, and coarse ones of all levels.

    COARSE_NODES nodes lie at equal distances in the logarithm, from LEAST_RECORDS to `total`. FINE_NODES lie at equal
    distances within NODE_REACH standard deviations, sqrt(variance + max(estimate, 0)), around the estimate; those at or
    below LEAST_RECORDS are left out. Intervals meet halfway between nodes, in the logarithm, and end at the outer
    nodes. But between a fine and a coarse node the coarse node's begins at most half a distance of fine nodes beyond
    the fine one.

    Args:
        estimate: noisy count of the bin; it may be negative.
        variance: variance of its error.
        total: mean number of all records; raised to 1.

    Returns:
        Nodes by ascending level, with normal log likelihoods of the count: mean `records`, variance `variance +
        records`. Their weights are the lengths of the intervals, at least 1e-12.
    """
    reach = NODE_REACH * np.sqrt(variance + max(estimate, 0.0))
    fine = np.linspace(estimate - reach, estimate + reach, FINE_NODES)
    coarse = np.linspace(np.log(LEAST_RECORDS), np.log(max(total, 1.0)), COARSE_NODES)
    logs = np.concatenate([coarse, np.log(fine[fine > LEAST_RECORDS])])
    order = np.argsort(logs)
    logs, is_fine = logs[order], order >= COARSE_NODES
    # Between a fine node and a coarse one the likelihood falls: no farther than the fine ones are apart is it the same.
    apart, records = reach / (FINE_NODES - 1), np.exp(logs)
    ends = (logs[1:] + logs[:-1]) / 2
    highest, lowest = np.log(records[:-1] + apart), np.log(np.maximum(records[1:] - apart, LEAST_RECORDS / 2))
    ends = np.where(is_fine[:-1] & ~is_fine[1:], np.minimum(ends, highest), ends)
    ends = np.where(~is_fine[:-1] & is_fine[1:], np.maximum(ends, lowest), ends)
    ends = np.concatenate([logs[:1], ends, logs[-1:]])
    fit = -((estimate - records) ** 2) / (2 * (variance + records)) - np.log(variance + records) / 2
    return _Nodes(logs, ends, np.maximum(np.diff(ends), 1e-12), fit)


class _BinChain:
    """Law of the nodes of ordered bins, as a chain in which each follows the two before it.

    Args:
        nodes: nodes of the bins, three bins or more.
        scale: tau, scale of the change of the log slope.
    """

    def __init__(self, nodes: list[_Nodes], scale: float) -> None:
        """Compute all transitions: over (a node of the first bin, the next), then over (the two before, the node).

        The first bin has its prior weights. The second is Laplace around the first, of scale FIRST_SCALE. A later one
        is Laplace of `scale` around the line through the two before it, or with probability LEVEL_STEPS around the
        last. All are in logarithms and times the nodes' prior weights. Each law of a node given those before it sums to
        1.

        Args:
            nodes: nodes of the bins.
            scale: tau, scale of the change of the log slope.
        """
        self.nodes = nodes
        step = nodes[1].logs - nodes[0].logs[:, None]
        self._first = nodes[0].weights[:, None] * _normalise(np.exp(-np.abs(step) / FIRST_SCALE) * nodes[1].weights)
        self._steps = []
        for before, last, now in zip(nodes, nodes[1:], nodes[2:], strict=False):
            level = (now.logs - last.logs[:, None])[None]
            slope = (last.logs - before.logs[:, None])[..., None]
            away = np.abs(level - slope)
            on = np.exp(-(away - away.min(axis=-1, keepdims=True)) / scale) * now.weights
            stay = np.exp(-np.abs(level) / scale) * now.weights
            self._steps.append((1 - LEVEL_STEPS) * _normalise(on) + LEVEL_STEPS * _normalise(stay))

    def filter(self, fits: list[Floats]) -> tuple[list[Floats], float]:
        """Compute the laws of each two neighbouring nodes given the counts up to them, and the log likelihood of all.

        Args:
            fits: likelihood of each node, by bin.

        Returns:
            Laws of shape (nodes, next nodes), which sum to 1, one for each two neighbouring bins; log likelihood of all
            bins, in which a step of likelihood below 1e-300 counts as this.
        """
        law, log_fit, laws = self._first * fits[0][:, None] * fits[1], 0.0, []
        for step, fit in zip([None, *self._steps], fits[1:], strict=True):
            law = law if step is None else np.einsum("ij,ijk->jk", law, step) * fit
            size = max(float(law.sum()), 1e-300)
            law, log_fit = law / size, log_fit + float(np.log(size))
            laws.append(law)
        return laws, log_fit

    def draw(self, laws: list[Floats], number: int, rng: np.random.Generator) -> Ints:
        """Draw columns of nodes given all counts, backwards from the last two bins.

        The last two nodes are drawn together from the last law. Then each earlier node is drawn given the two after it,
        from its law times the transition to them. The result has the positions of nodes, shape (bins, number).

        Args:
            laws: laws as `filter` returns them.
            number: number of columns.
            rng: source of randomness.
        """
        last = rng.choice(laws[-1].size, size=number, p=laws[-1].ravel() / laws[-1].sum())
        drawn = list(np.unravel_index(last, laws[-1].shape))
        for law, step in zip(laws[-2::-1], self._steps[::-1], strict=True):
            weights = (law[:, drawn[0]] * step[:, drawn[0], drawn[1]]).cumsum(axis=0)
            drawn.insert(0, (weights < rng.random(number) * weights[-1]).sum(axis=0))
        return np.array(drawn)


def _draw_columns(
    nodes: list[_Nodes], chains: list[_BinChain], tilt: float, number: int, rng: np.random.Generator
) -> Floats:
    """Draw the expected records of all states with likelihoods times `exp(-tilt records)`, shape (states, number).

    How many columns have each scale is drawn by the likelihood of the bins, the nodes of a column from the chain of its
    scale. A state after the bins is drawn by itself, with weights of its nodes times the root of their records, as a
    Dirichlet law with 1/2 has. Within the interval of a node, logarithms are uniform. Columns are in random order.

    Args:
        nodes: nodes of each state, the bins first.
        chains: chain of the bins for each of SCALES.
        tilt: slope of the tilt, for each record.
        number: number of columns.
        rng: source of randomness.
    """
    logs, bins = [state.fit - tilt * np.exp(state.logs) for state in nodes], len(chains[0].nodes)
    fits = [np.exp(log - log.max()) for log in logs]
    filtered = [chain.filter(fits[:bins]) for chain in chains]
    likelihoods = np.exp([log_fit - max(log_fit for _, log_fit in filtered) for _, log_fit in filtered])
    shares = rng.multinomial(number, likelihoods / likelihoods.sum())
    parts = zip(chains, filtered, shares, strict=True)
    places = [chain.draw(laws, int(share), rng) for chain, (laws, _), share in parts]
    chosen = np.concatenate(places, axis=1)[:, rng.permutation(number)]
    records = np.empty((len(nodes), number))
    for at, state in enumerate(nodes):
        if at < bins:
            node = chosen[at]
        else:
            weights = state.weights * np.exp(state.logs / 2) * fits[at]
            node = rng.choice(len(weights), size=number, p=weights / weights.sum())
        low, high = state.ends[node], state.ends[node + 1]
        records[at] = np.exp(low + (high - low) * rng.random(number))
    return records


def _normalise(weights: Floats) -> Floats:
    """Divide weights by their sums over the last axis."""
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
