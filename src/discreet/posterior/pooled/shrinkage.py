"""Posterior of one family's rows given row totals: parallel Markov chains over counts, under a learned prior.

Row j of a family has `N_j` records, of which `N_jk` are in state k. The release discloses the contrasts between the
states of a row, with independent normal errors in the coordinates of the table's interactions (`least_squares.py`).
Prior:

    (N_j1 .. N_jK) | N_j  ~  Dirichlet-multinomial(N_j, A m),   theta_j | N_j1 .. N_jK  ~  Dirichlet(A m + N_j),

where each row has its own (A, m), a draw from a mixture whose weights the node learns from all of its rows:

    back-off     m is predicted from the other rows: a log-linear fit to the effects of single parents and to the joint
                 effects of all but one of them, leaving the row itself out (`row_means.py`). A is one of 1/64, 1/16,
                 .., 256: small for rows that are one-sided, each in its own way, large for rows that are like their
                 neighbours.
    on its own   m is uniform, with 1/16, 1/4 or 1 record in each cell: the other rows carry no information.

A row affects its own prior only to second order: the fit of its mean leaves it out, so it acts through the learned
weights, where it is one row among all, and through the other rows, whose counts are drawn given it. The weights have a
Dirichlet prior with a sample size of two rows, centred at the weights of the whole network where these are known. Small
A makes rows that are nearly deterministic without a preferred state; large A shares records between rows.

The posterior is drawn by parallel Markov chains, one for each draw. A sweep draws (A, m) of every row, then the mixture
weights, then an auxiliary table that makes the rows' errors independent of each other, then repeatedly the split of
records between two cells of each row, by Metropolis-Hastings steps with three proposals:

    around       a rounded normal step from the current split;
    evidence     a draw from the evidence's normal law, accepted on the prior ratio alone;
    ends         a split near 0 or near the total, where sparse priors put their mass.

In each sweep the first round proposes "around" and later rounds "evidence"; every round ends with a proposal of
"ends". Chains start at counts scattered around the evidence. Where margins are drawn separately (`RowDoubt`), chains
start at these margins, each row at the mean implied by margins and evidence, so that three sweeps are enough.

The learned weights give the average fraction of cells that are impossible rather than rare. They carry no information
on a single cell without records, and where most cells are impossible they shrink the rest to 0 as well. For intervals
the prior is therefore replaced in a fraction of the draws, a different one for each cell and row (an opinion pool; its
weights are not learned, because only their average could be):

    possible     a cell has a concentration of at least one record, less where the row has few records or the evidence
                 is too noisy to show them. The 95 % interval of a cell without records then ends at x = log(DOUBT_SHARE
                 / 0.05) records.
    one-sided    a row without records is nearly deterministic, with equal probability for each state. This is needed
                 because no mixture component allows a state that the other rows disfavour.

Chains run in blocks, on arrays `(child, *parents, draws)`; threading overhead would cancel the gain. The arrays are in
single precision where its rounding is far below the evidence's errors, and the prior's factors are looked up in tables
(`cell_weights.py`), because evaluating special functions would dominate the running time.

Source: the priors for rows are those of hierarchical smoothing (Petitjean, Buntine, Webb and Zaidi, 2018), with
conditionally specified laws (Heckerman et al., 2000, dependency networks) in place of a tree of Dirichlet processes.
Opinion pool: Stone (1961). Steps: Metropolis et al. (1953); Hastings (1970) for proposals that do not depend on the
current split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from discreet.inference.interactions import contrast_matrices, transformed
from discreet.model.dirichlet import dirichlet_draws
from discreet.noise.noise_laws import KNOWN_VARIANCE
from discreet.posterior.pooled.cell_weights import (
    BACK_OFF_CONCENTRATIONS,
    COMPONENTS,
    GRID_STEPS,
    LONE_CONCENTRATIONS,
    Single,
    cell_weights,
    component_weights,
    concentrations,
    positions,
)
from discreet.posterior.pooled.raking import Goal, counts_of, rake_cells, rake_to
from discreet.posterior.pooled.row_means import RowMeans
from discreet.util.arrays import Floats, Ints

PAIRINGS_PER_SWEEP = 3
"""Number of random pairings of a row's cells in a sweep."""


def split_pairs(counts: Array, a: Single, evidence: Array, deviation: float, rng: np.random.Generator) -> None:
    """Redraw the split of records between disjoint pairs of cells of each row by Metropolis steps, in place.

    Each of PAIRINGS_PER_SWEEP rounds (two for two states) pairs the cells at random, the same for all rows and draws;
    of an odd number one is left out. The evidence on the first cell of a pair with `total` records is normal, with mean
    `(evidence of the first - of the second + total) / 2` and standard deviation `deviation / sqrt(2)`. The first round
    proposes a step around the current split, later ones a draw from the evidence, and each round ends with a proposal
    of an end. A single state is left as it is.

    Args:
        counts: records of each cell, shape `(child, *parents, draws)`; changed in place. The sum of each pair is kept.
        a: concentrations as grid positions (`cell_weights.positions`), same shape.
        evidence: normal estimate of each cell's count, same shape; only differences within a row matter.
        deviation: standard deviation of the independent errors of `evidence`, in records.
        rng: source of randomness for the pairing, the proposals and their acceptance.
    """
    half = len(counts) // 2
    weights = cell_weights(a, counts)
    # Two states form a single pair, so two rounds give each proposal its turn.
    for turn in range(PAIRINGS_PER_SWEEP if len(counts) > 2 else 2):
        order = rng.permutation(len(counts))[: 2 * half]
        first, second = order[:half], order[half:]
        total = counts[order].reshape(2, half, *counts.shape[1:]).sum(axis=0)
        # With x + y = total, x = (total + (x - y)) / 2: the evidence on x has the variance 2 deviation^2 / 4.
        centre = (evidence[first] - evidence[second] + total) / 2
        pairs = _Pairs(counts[first], total, centre, deviation / math.sqrt(2), a[order], weights[order])
        pairs.step_by_evidence(rng) if turn else pairs.step_around(rng)
        pairs.step_to_an_end(rng)
        counts[first], counts[second] = pairs.first, total - pairs.first
        weights[order] = pairs.weights


@dataclass(eq=False)
class _Pairs:
    """Pairs of cells of the same row, with the current split of their records; the steps change it in place.

    Args:
        first: records of the first cell of each pair, whole numbers, shape `(pairs, *parents, draws)`; steps change it.
        total: records of both cells together, same shape.
        centre: mean of the evidence's normal law for `first`, same shape.
        spread: standard deviation of that law, in records.
        a: grid positions of the concentrations, shape `(2 pairs, *parents, draws)`: all first cells, then all second
            cells.
        weights: log prior weights of the cells at the current split, shape and order of `a`; steps change them.
    """

    first: Array
    total: Array
    centre: Array
    spread: float
    a: Single
    weights: Single

    def step_by_evidence(self, rng: np.random.Generator) -> None:
        """Take a Metropolis-Hastings step in place, with proposals from the rounded normal law of the evidence.

        The law has the mean `centre` and the standard deviation `spread` that the evidence has for the first cell of
        each pair. Rounding adds a variance of 1/12, which is subtracted beforehand. For a spread of at least one record
        the law of the proposals equals the evidence's own to within 1 %, so a proposal is accepted on the prior ratio
        alone. For a smaller spread proposals have a standard deviation of one record, and the remaining precision `1 /
        spread^2 - 1` of the evidence enters the ratio. A proposal outside of 0 to `total`, the records of the pair,
        becomes the current split.
        """
        wide = max(self.spread, 1.0)
        proposed = draw_normals(self.first.shape, rng)
        proposed *= math.sqrt(wide**2 - 1 / 12)
        self._step(self._keep_possible(np.rint(self.centre + proposed)), 1 / self.spread**2 - 1 / wide**2, None, rng)

    def step_around(self, rng: np.random.Generator) -> None:
        """Take a Metropolis step in place, with a rounded normal proposal around the current split.

        The proposal is symmetric, with the evidence's standard deviation, at least one record; one outside of 0 to
        `total` becomes the current split. It is accepted on the ratio of prior times evidence. These moves are the only
        ones that are accepted where prior and evidence disagree.
        """
        proposed = draw_normals(self.first.shape, rng)
        proposed *= max(self.spread, 1.0)
        self._step(self._keep_possible(self.first + np.rint(proposed)), 1 / self.spread**2, None, rng)

    def _keep_possible(self, proposed: Array) -> Array:
        """Replace proposals outside of 0 to `total`, the records of the pair, by the current split; a new array."""
        within = ((proposed >= 0) & (proposed <= self.total)).astype(self.first.dtype)
        return self.first + within * (proposed - self.first)

    def step_to_an_end(self, rng: np.random.Generator) -> None:
        """Take a Metropolis-Hastings step in place, to a split near 0 or near `total`, each with probability 1/2.

        With distance d from the chosen end, d + 1 is log-uniform on [1, total + 2), rounded down, so d is from 0 to
        total: d = 0 is the likeliest, d = total the least. The Hastings correction uses the distances of the current
        and of the proposed split from this same end; prior and evidence enter the ratio in full.
        """
        # Distance d = floor((total + 2)^U - 1): q(d) is proportional to log((d + 2) / (d + 1)).
        which = 2 * rng.random(self.first.shape)
        upper = which >= 1
        which -= upper
        which *= np.log(self.total + 2)
        distance = np.minimum(np.floor(np.exp(which) - 1), self.total).astype(self.first.dtype)
        from_top = upper.astype(self.first.dtype)
        # Computes `where(upper, total - x, x)`, many times as fast.
        new = distance + from_top * (self.total - 2 * distance)
        current = self.first + from_top * (self.total - 2 * self.first)
        # Hastings correction q(current) / q(proposed), with q as above, both from the chosen end.
        odds = np.log((current + 2) / (current + 1)) / np.log((distance + 2) / (distance + 1))
        self._step(new, 1 / self.spread**2, odds, rng)

    def _step(self, new: Array, precision: float, odds: Array | None, rng: np.random.Generator) -> None:
        """Accept or reject proposed splits by the Metropolis-Hastings ratio; update the split and its weights in place.

        The probability is `min(1, odds exp(prior log ratio - precision ((new - centre)^2 - (first - centre)^2) / 2))`,
        with `first` the current split, `centre` the evidence's mean of it, and the prior by the cells' weights
        (`cell_weights`); the exponent is capped at 60.

        Args:
            new: proposed records of the first cell, shape `(pairs, *parents, draws)`.
            precision: precision of the evidence that the proposal law does not contain already; 0 if it contains all.
            odds: Hastings correction q(current) / q(proposed), same shape as `new`; None for a symmetric proposal or
                one from the evidence's law.
            rng: source of randomness.
        """
        half, step = len(self.first), new - self.first
        # Metropolis-Hastings ratio: prior ratio by cell weights, ratio of N(x; centre, 1 / precision), and `odds`.
        weights = cell_weights(self.a, np.concatenate([new, self.total - new]))
        weights -= self.weights
        gain = np.add(weights[:half], weights[half:], dtype=self.first.dtype)
        if precision:
            # log N(new) - log N(first) = -precision ((new - centre)^2 - (first - centre)^2) / 2.
            gain -= precision * step * (self.first + step / 2 - self.centre)
        ratio = np.exp(np.minimum(gain, 60))  # exp(60) is finite in single precision
        if odds is not None:
            ratio *= odds
        taken = (rng.random(step.shape) < ratio).astype(np.float32)
        self.first += taken * step
        weights.reshape(2, *step.shape)[...] *= taken
        self.weights += weights


def draw_normals(shape: tuple[int, ...], rng: np.random.Generator) -> Single:
    """Draw standard normal numbers in single precision by the method of Box and Muller (1958).

    Their absolute values are below 5.8. On arrays this takes a quarter of the time of the generator's own method.

    Example:
        >>> drawn = draw_normals((1000,), np.random.default_rng(0))
        >>> drawn.dtype, bool(abs(drawn.mean()) < 0.2)
        (dtype('float32'), True)
    """
    size = math.prod(shape)
    radius, angle = rng.random((2, (size + 1) // 2), dtype=np.float32)
    # Box-Muller: sqrt(-2 log U) (cos, sin)(2 pi V), with U in (0, 1].
    radius = np.sqrt(-2 * np.log(1 - radius))
    angle *= np.float32(2 * math.pi)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size].reshape(shape)


Array = npt.NDArray[np.floating]

PRIOR_WORTH_ROWS = 2.0
"""Prior sample size of a node's mixture weights, in rows."""
DOUBT_SHARE = 0.34
"""Fraction of the draws in which a cell is possible, and of those in which a row without records is one-sided. The
interval of a cell without records then reaches up to 1.92 records, as under Jeffreys' prior: `0.05 exp(1.92)`."""
FILLED_RECORDS = 3.0
"""Records of a row at which a possible cell has half of its full concentration; with 1 or 9 no stratum's coverage moves
by more than half a point, and no width except for true values 0 or 1 (2 %)."""
ONE_SIDED_CONCENTRATION = 1 / 32
"""Concentration of each cell of a one-sided row; with four times as much or as little no stratum's coverage moves by
more than .2 points, nor a width by more than 2 %."""
CHAIN_SWEEPS = 20
"""Basic number of sweeps of a chain, in both passes: with ten in the first, coverage in rows of few records fell by .8
points on alarm."""
CLEAR_DEVIATIONS, FEW_SWEEPS = 5.0, 5
"""Short chains of FEW_SWEEPS are enough for a single row if the evidence puts every cell above 0 by CLEAR_DEVIATIONS of
its standard deviations times the distance of the concentrations from 1: within one standard deviation the given prior
is then constant to a fifth, and chains start near their law. A single row with separately drawn margins needs no more
either."""
NEAR_SWEEPS = 3
"""Sweeps of chains that start at their target margins: with 20 no stratum's coverage moves by more than a point, nor
errors of means by more than 3 %, on alarm and sachs at epsilon 0.1 and 1."""
LEARNING_STEPS, LEAST_SPREAD = 5, 1e-3
"""EM steps for the weights of concentrations at the start of chains; least variance of a cell there, in squared
records."""
SLOW_GAIN, MOST_LENGTHENING = 0.2, 10
"""Gain below which a coordinate mixes slowly and chains are longer; largest factor by which they are."""
CACHED_CELLS, STORED_CELLS, STORED_TABLES, LEAST_TOGETHER = 2**15, 2**24, 12, 8
"""A block has as many draws as keep its tables within the cache of a core (CACHED_CELLS cells), and at least
LEAST_TOGETHER, unless STORED_TABLES tables of all cells then exceed STORED_CELLS (128 MB)."""
COMPONENT_FOLLOWS = (np.arange(COMPONENTS) < len(BACK_OFF_CONCENTRATIONS)).astype(np.float32)
COMPONENT_SHIFTS = np.concatenate(
    [GRID_STEPS * np.arange(len(BACK_OFF_CONCENTRATIONS)), positions(LONE_CONCENTRATIONS)]
).astype(np.float32)
"""For each mixture component, shape (COMPONENTS,): 1 if its concentration is proportional to the mean, else 0; offset
of its concentration on the grid of positions."""
SINGLE_PRECISION = 2.0**-24
"""Relative rounding error of single precision; whole numbers below its inverse are exact."""


@dataclass(frozen=True, eq=False)
class RowDoubt:
    """Exceptions from the learned prior that intervals need: margins drawn separately, and rare cells.

    Args:
        goals: counts of separately drawn margins for all draws, in the form of `raking.rake_to`. Chains start and end
            at these margins. If empty, the rows' priors alone determine the margins.
        rare: whether, in a fraction of the draws, a cell is possible and a row without records is one-sided, whatever
            the other rows imply.
    """

    goals: Sequence[Goal] = ()
    rare: bool = True

    def of_draws(self, which: slice) -> RowDoubt:
        """Return a copy for a slice of the draws, with views of its goals."""
        return replace(self, goals=[(axes, wanted[..., which]) for axes, wanted in self.goals])


@dataclass(frozen=True, eq=False)
class RowDraws:
    """Posterior draws of a family's rows.

    Args:
        counts: records of each cell, int64, shape `(*parents, child, draws)`.
        alpha: concentrations from which `theta` was drawn, same shape: a row of theta is a draw from Dirichlet(alpha +
            counts).
        theta: probabilities, same shape; rows sum to 1 over the child's axis.
        mean: expected probabilities given the counts, averaged over the last ten sweeps (all if there are fewer; the
            counts alone, if these were replaced) and all draws, shape `(*parents, child)`.
        usage: number of rows that picked each mixture component, averaged over the same sweeps and draws, shape
            (COMPONENTS,); zeros under a given prior.
    """

    counts: Ints
    alpha: Floats
    theta: Floats
    mean: Floats
    usage: Floats

    def with_counts(self, counts: Ints, rng: np.random.Generator) -> RowDraws:
        """Return a copy with new counts, probabilities drawn from Dirichlet(alpha + counts), and their mean.

        Concentrations and `usage` are those of this object; `mean` is `(alpha + counts) / sum`, averaged over draws.
        """
        after = counts + self.alpha
        mean = (after / after.sum(axis=-2, keepdims=True)).mean(axis=-1)
        return replace(self, counts=counts, theta=dirichlet_draws(after, rng), mean=mean)


def draw_rows(
    values: Floats,
    variances: Floats,
    totals: Ints,
    weights: Floats,
    rng: np.random.Generator,
    *,
    alpha: Floats | None = None,
    doubt: RowDoubt | None = None,
) -> RowDraws:
    """Draw counts and probabilities of all rows of a family by Markov chains, one for each draw.

    Draws are split into blocks, each with a generator of its own, and drawn by `_run_chains`. A block has as many draws
    as have CACHED_CELLS cells together; where these are fewer than LEAST_TOGETHER, it has LEAST_TOGETHER, or as many as
    STORED_TABLES tables within STORED_CELLS allow; at least one.

    Args:
        values: coordinates of the family's table, shape `(*parents, child)`, in records; those of row totals (index 0
            on the child's axis) are not read.
        variances: variances of the coordinates' errors, same shape.
        totals: records of each row, shape `(*parents, draws)`; the counts sum to them.
        weights: prior mean of the mixture weights, shape (COMPONENTS,); not used under a given prior.
        rng: source of randomness; each block of draws has a generator of its own, spawned from it.
        alpha: given concentrations, shape `(*parents, child)`; None for the learned prior.
        doubt: exceptions from the learned prior, for intervals; beside a given prior it only shortens the chains of a
            family without parents. None for no exceptions.

    Returns:
        As many draws as `totals` has, in its order; `mean` and `usage` are averages over all draws, and `usage` is zero
        under a given prior.
    """
    draws = totals.shape[-1]
    block = max(CACHED_CELLS // values.size, min(STORED_CELLS // (STORED_TABLES * values.size), LEAST_TOGETHER), 1)
    # Every block has a generator of its own: a chain does not depend on how many numbers other blocks draw.
    blocks = [slice(first, first + block) for first in range(0, draws, block)]
    drawn = [
        _run_chains((values, variances), totals[..., which], weights, block_rng, alpha, doubt and doubt.of_draws(which))
        for which, block_rng in zip(blocks, rng.spawn(len(blocks)), strict=True)
    ]
    shares = [rows.counts.shape[-1] / draws for rows in drawn]
    by_draw = zip(*((rows.counts, rows.alpha, rows.theta) for rows in drawn), strict=True)
    averages = zip(*((rows.mean, rows.usage) for rows in drawn), strict=True)
    counts, alphas, theta = (np.concatenate(arrays, axis=-1) for arrays in by_draw)
    return RowDraws(counts, alphas, theta, *(np.average(arrays, axis=0, weights=shares) for arrays in averages))


def _run_chains(
    coordinates: tuple[Floats, Floats],
    totals: Ints,
    weights: Floats,
    rng: np.random.Generator,
    alpha: Floats | None,
    doubt: RowDoubt | None,
) -> RowDraws:
    """Run the parallel chains of one block of draws and return their last counts, with probabilities drawn from them.

    Under the learned prior with target margins chains start at these, take NEAR_SWEEPS sweeps, and their last counts
    are raked to the margins and rounded at random. Otherwise they start at rounded draws from the evidence and take
    FEW_SWEEPS sweeps for a single row with `doubt` or with evidence that outweighs a given prior, else
    `_RowEvidence.sweeps`. A sweep draws each row's component of the learned prior, then the mixture weights (not in the
    last sweep; they start at their prior mean), then the splits of counts (`split_pairs`). A child of a single state
    has no splits: all its records are in this state.

    With `doubt.rare` under the learned prior a random cell, in DOUBT_SHARE of the draws, has at least the concentration
    `n / (n + FILLED_RECORDS + 3 deviation)` during the chain, n being the row's records and `deviation` the least
    standard deviation of an error. The concentrations that are returned are those of the last sweep without it, raised
    in cells and set in rows without records (`_raise_doubted`). `mean` ignores both; it and `usage` are averages over
    the last ten sweeps, or all if there are fewer.

    Args:
        coordinates: values and error variances of the coordinates, both of shape `(*parents, child)`.
        totals: records of each row, shape `(*parents, draws)`.
        weights: prior mean of the mixture weights, shape (COMPONENTS,).
        rng: source of randomness of this block.
        alpha: given concentrations, shape `(*parents, child)`; None for the learned prior.
        doubt: exceptions from the learned prior, for the draws of this block. Beside given concentrations neither its
            margins nor `rare` is used; then its presence only shortens the chains of a single row.

    Returns:
        The draws of this block; `usage` is zero under a given prior.
    """
    evidence = _RowEvidence.of(*coordinates, int(totals.max(initial=0)))
    states = coordinates[0].shape[-1]
    shape, n = (states, *totals.shape), totals.astype(evidence.kind)
    goals = () if doubt is None or alpha is not None else doubt.goals
    counts = evidence.start_at(n, goals, weights, rng) if goals else evidence.start(totals, rng)
    means = RowMeans(n, states)
    prior = _RowPrior.of(weights, n, states) if alpha is None else None
    # `possible`: least concentration of each cell in the draws that take it for possible, else 0.
    possible, a = None, np.empty(0, np.float32)
    if alpha is not None:
        a = np.repeat(positions(np.moveaxis(alpha, -1, 0))[..., None], totals.shape[-1], axis=-1)
    elif doubt is not None and doubt.rare:
        possible = (rng.random(shape) < DOUBT_SHARE) * n / (n + FILLED_RECORDS + 3 * evidence.deviation)
    least = None if possible is None else positions(possible)
    learned = np.repeat(weights[:, None], totals.shape[-1], axis=1)
    few = (doubt is not None and totals.ndim == 1) or (alpha is not None and evidence.outweighs(alpha, totals))
    sweeps = NEAR_SWEEPS if goals else FEW_SWEEPS if few else evidence.sweeps
    averaged = min(CHAIN_SWEEPS // 2, sweeps)
    usage, mean = np.zeros(COMPONENTS), np.zeros(shape[:-1])
    for sweep in range(sweeps):
        late = sweep >= sweeps - averaged
        if prior is not None:
            a, picked = prior.pick(counts, means.renew(counts, rng), learned, rng)
            learned = prior.draw_weights(picked, rng) if sweep < sweeps - 1 else learned
            usage += picked.mean(axis=1) * late / averaged
        if states > 1:
            used = a if least is None else np.maximum(a, least)
            split_pairs(counts, used, evidence.draw_auxiliary(counts, rng), evidence.deviation, rng)
        if late:
            # Rao-Blackwell: E[theta | counts] = (alpha + counts) / sum.
            after = concentrations(a) + counts
            mean += (after / after.sum(axis=0)).mean(axis=-1) / averaged
    final = counts_of(rake_to(counts, totals, goals, rng) if goals else counts)
    alphas = np.moveaxis(concentrations(a), 0, -2).astype(np.float64)
    if alpha is not None:
        alphas = np.repeat(alpha[..., None], totals.shape[-1], axis=-1)
    elif possible is not None:
        alphas = _raise_doubted(alphas, np.moveaxis(possible, 0, -2) > 0, final, totals[..., None, :], rng)
    flat = (-1, states, totals.shape[-1])
    theta = dirichlet_draws((final + alphas).reshape(flat), rng).reshape(final.shape)
    mean = np.moveaxis(mean / mean.sum(axis=0), 0, -1)
    return RowDraws(np.ascontiguousarray(final), np.ascontiguousarray(alphas), theta, np.ascontiguousarray(mean), usage)


def _raise_doubted(
    a: Floats, possible: npt.NDArray[np.bool_], counts: Ints, n: Ints, rng: np.random.Generator
) -> Floats:
    """Set the concentrations of one-sided rows, and raise those of possible cells without records.

    A row without records has ONE_SIDED_CONCENTRATION in every cell in DOUBT_SHARE of the draws, be it more or less than
    before. A possible cell without records has at least n / (n + FILLED_RECORDS), with n the row's records; all others
    keep theirs.

    Args:
        a: learned concentrations, shape `(*parents, child, draws)`.
        possible: whether each cell is possible in each draw, same shape.
        counts: records of each cell, same shape.
        n: records of each row, shape `(*parents, 1, draws)`.
        rng: source of randomness for the draws in which a row is one-sided.

    Returns:
        New array, shape of `a`.
    """
    a = np.where((n == 0) & (rng.random(n.shape) < DOUBT_SHARE), ONE_SIDED_CONCENTRATION, a)
    return np.where(counts == 0, np.maximum(a, possible * n / (n + FILLED_RECORDS)), a)


# -------------------------------------------------------------------------------------------------------- evidence


@dataclass(frozen=True, eq=False)
class _RowEvidence:
    """Normal evidence on the contrasts between the states of each row; arrays have shape `(child - 1, *parents, 1)`.

    Args:
        values: coordinates of the table, without those of row totals.
        deviations: standard deviations of their errors.
        gain: smallest error variance (at least KNOWN_VARIANCE) divided by the variance of each coordinate, between 0
            and 1; 1 for a variance below KNOWN_VARIANCE.
        deviation: square root of the smallest error variance, which is at least KNOWN_VARIANCE, in records.
        kind: type of the chains' arrays: float32 where its rounding is far below the evidence's errors, else float64.
    """

    values: Floats
    deviations: Floats
    gain: Floats
    deviation: float
    kind: type[np.floating]

    @staticmethod
    def of(values: Floats, variances: Floats, records: int) -> _RowEvidence:
        """Build the evidence from a table's coordinates, dropping those of row totals, which are given.

        The smallest error variance is raised to KNOWN_VARIANCE; this is its value also for a child of a single state,
        which has no coordinates. `deviations` are the square roots of the variances as they are.

        Args:
            values: coordinates, shape `(*parents, child)`.
            variances: variances of their errors, same shape.
            records: largest row total. The chains are in single precision if its rounding error is below 1/64 of
                `deviation` and below half a record.
        """
        values, variances = (np.moveaxis(table[..., 1:], -1, 0)[..., None] for table in (values, variances))
        least = max(float(variances.min(initial=np.inf)), KNOWN_VARIANCE) if variances.size else KNOWN_VARIANCE
        deviation = math.sqrt(least)
        single = records * SINGLE_PRECISION < min(deviation / 64, 0.5)
        gain = least / np.maximum(variances, least)
        return _RowEvidence(values, np.sqrt(variances), gain, deviation, np.float32 if single else np.float64)

    @property
    def sweeps(self) -> int:
        """Number of sweeps: a sweep moves a coordinate by its gain, so a small gain needs longer chains.

        The gain of a coordinate is the smallest error variance divided by its own. The number is CHAIN_SWEEPS times
        `ceil(SLOW_GAIN / smallest gain)`, this factor from 1 to MOST_LENGTHENING; CHAIN_SWEEPS without coordinates.
        """
        return CHAIN_SWEEPS * min(max(math.ceil(SLOW_GAIN / float(self.gain.min(initial=1))), 1), MOST_LENGTHENING)

    def outweighs(self, alpha: Floats, totals: Ints) -> bool:
        """True if the evidence on a single row is so clear that a given prior is nearly constant around it.

        The least cell of the evidence's table, at the smallest total, is above `CLEAR_DEVIATIONS * deviation * max(1,
        max |alpha - 1|)`, with `deviation` the standard deviation of the errors. False if the family has parents, if
        the child has one state, or if the coordinates' errors differ in size.

        Args:
            alpha: given concentrations, shape (child,).
            totals: records of the row, shape (draws,).
        """
        if self.values.ndim > 2 or not len(self.values) or not np.all(self.gain == 1):
            return False
        least = self._invert_contrasts(self.values).min() + int(totals.min()) / (len(self.values) + 1)
        return bool(least > CLEAR_DEVIATIONS * self.deviation * max(1.0, float(np.abs(alpha - 1).max())))

    def start(self, totals: Ints, rng: np.random.Generator) -> Array:
        """Draw start counts from the evidence's normal law, rounded so that they sum to the totals.

        Cells are drawn around `totals / states` plus the evidence, with the coordinates' own error variances; negative
        ones are set to 0, `min(deviation, 1) / states` is added to each, with `deviation` the least standard deviation
        of an error, and rows are scaled to their totals. Each cell is then rounded to one of its two neighbours, at
        random and without bias.

        Args:
            totals: records of each row, shape `(*parents, draws)`.
            rng: source of randomness.

        Returns:
            Whole numbers of type `kind`, shape `(child, *parents, draws)`; the totals themselves for a child of a
            single state.
        """
        if not len(self.values):
            return totals[None].astype(self.kind)
        drawn = self.values + self.deviations * rng.standard_normal((*self.values.shape[:-1], totals.shape[-1]))
        even = 1 / (len(self.values) + 1)
        cells = np.maximum(self._invert_contrasts(drawn) + even * totals, 0) + min(self.deviation, 1) * even
        # Systematic rounding: each cell to one of its two neighbours, unbiased, and rows sum to their totals.
        ends = np.cumsum(cells * (totals / cells.sum(axis=0)), axis=0) + rng.random(totals.shape)
        ends[-1] = totals
        return np.diff(np.minimum(np.floor(ends), totals), axis=0, prepend=0).astype(self.kind)

    def start_at(self, totals: Array, goals: Sequence[Goal], prior: Floats, rng: np.random.Generator) -> Array:
        """Draw start counts with the target margins, each row at the mean implied by these margins and its evidence.

        The rows' prior is approximated by a normal law with the variance of the Dirichlet-multinomial law, around the
        counts that have the margins and no other interaction. The concentration of each row is drawn from
        BACK_OFF_CONCENTRATIONS given its evidence, averaged over the draws, with weights that all rows learn together,
        by EM, in addition to their prior. Cells are drawn from the conjugate normal law with the mean error variance of
        the coordinates, negative ones set to 0, then raked to the margins and rounded.

        Args:
            totals: records of each row, shape `(*parents, draws)`.
            goals: target margins, in the form of `raking.rake_to`.
            prior: prior mean of the mixture weights, shape (COMPONENTS,).
            rng: source of randomness.

        Returns:
            Whole numbers of type `kind`, shape `(child, *parents, draws)`; row totals are met exactly, margins as by
            `rake_to`. The totals themselves for a child of a single state.
        """
        states = len(self.values) + 1
        if states == 1:
            return totals[None].astype(self.kind)
        expected = rake_cells(np.repeat(totals[None] / states, states, axis=0).astype(self.kind), totals, goals)
        evidence = self._invert_contrasts(self.values) + totals.mean(axis=-1, keepdims=True) / states
        noise = float(np.square(self.deviations).mean())
        fits = self._compare_concentrations(expected, totals, evidence, noise)
        picked = _pick_concentrations(fits, prior, rng.random(totals.shape))
        # Conjugate normal update: gain = v / (v + noise), mean + gain (evidence - mean), variance gain noise.
        gain = _compute_variances(picked, expected, totals)
        gain /= gain + noise
        drawn = np.sqrt(gain * noise).astype(self.kind) * draw_normals(expected.shape, rng)
        drawn += gain * (evidence - expected) + expected
        return rake_to(np.maximum(drawn, 0).astype(self.kind), totals, goals, rng)

    @staticmethod
    def _compare_concentrations(expected: Array, totals: Array, evidence: Array, noise: float) -> Floats:
        """Compute the likelihood of each concentration for each row, relative to the row's largest.

        It is the product of the cells' normal likelihoods, to the power `1 - 1 / states` because a row's cells have a
        fixed sum. A cell's variance is Dirichlet-multinomial (`_compute_variances`) plus `noise`; expected counts and
        totals are the means over draws.

        Args:
            expected: counts implied by the margins, shape `(child, *parents, draws)`.
            totals: records of each row, shape `(*parents, draws)`.
            evidence: estimates of the cells, shape `(child, *parents, 1)`.
            noise: error variance of a cell.

        Returns:
            Shape `(concentrations, *parents)`, one entry for each of BACK_OFF_CONCENTRATIONS; the largest of a row is
            1.
        """
        mean, n = (table.mean(axis=-1, dtype=np.float64) for table in (expected, totals))
        variances = _compute_variances(BACK_OFF_CONCENTRATIONS.reshape(-1, *(1,) * mean.ndim), mean, n) + noise
        # Product of the cells' normal likelihoods to the power 1 - 1 / states: their sum is fixed, one degree less.
        fits = (np.log(variances) + np.square(evidence[..., 0] - mean) / variances).sum(axis=1)
        fits *= -0.5 * (1 - 1 / len(expected))
        return np.asarray(np.exp(fits - fits.max(axis=0)))

    def draw_auxiliary(self, counts: Array, rng: np.random.Generator) -> Array:
        """Draw an auxiliary table with independent errors of the smallest variance, given counts and evidence.

        Its coordinates are drawn from `Normal(current + gain (values - current), (1 - gain) deviation^2)`: `values` are
        the evidence, `current` the coordinates of the counts, `deviation^2` is the smallest error variance, and `gain`
        is this divided by the coordinate's own. Given this table, rows are independent and the evidence adds nothing.

        Args:
            counts: current records, shape `(child, *parents, draws)`.
            rng: source of randomness; not used if all errors have the same variance, when the evidence itself is
                returned, the same in every draw.

        Returns:
            The table with each row centred at zero, of type `kind`, shape of the counts.
        """
        shape, gain = (len(self.values), *counts.shape[1:]), self.gain.astype(self.kind)
        if np.all(gain == 1):
            return self._invert_contrasts(np.broadcast_to(self.values, shape).astype(self.kind))
        # Contrasts between states first: the coordinates of row totals are not needed.
        helmert, *others = (
            matrix.astype(self.kind) for matrix in contrast_matrices((len(counts), *counts.shape[1:-1]))
        )
        contrasts = np.matmul(helmert[1:], counts.reshape(len(counts), -1)).reshape(shape)
        current = transformed(contrasts, (np.eye(len(contrasts), dtype=self.kind), *others))
        # Of variance v = least / gain: z | counts, y ~ N(current + gain (y - current), (1 - gain) least).
        coordinates = self.values.astype(self.kind) - current
        coordinates *= gain
        coordinates += current
        coordinates += (np.sqrt(1 - self.gain) * self.deviation).astype(self.kind) * draw_normals(shape, rng)
        return self._invert_contrasts(coordinates)

    def _invert_contrasts(self, contrasts: Array) -> Array:
        """Transform coordinates of contrasts back to a table, in records, whose rows sum to zero.

        The coordinates of row totals are taken as 0.

        Args:
            contrasts: coordinates, shape `(child - 1, *parents, draws)`.

        Returns:
            Shape `(child, *parents, draws)`.
        """
        states, *sizes = len(contrasts) + 1, *contrasts.shape[1:-1]
        helmert, *others = (matrix.astype(contrasts.dtype) for matrix in contrast_matrices((states, *sizes)))
        rows = transformed(contrasts, (np.eye(len(contrasts), dtype=contrasts.dtype), *others), back=True)
        cells = np.matmul(helmert[1:].T, rows.reshape(len(contrasts), math.prod(contrasts.shape[1:])))
        return np.asarray(cells.reshape(states, *contrasts.shape[1:]))


def _compute_variances(concentration: Array, expected: Array, totals: Array) -> Array:
    """Compute the Dirichlet-multinomial variances of cells, `n p (1 - p) (n + A) / (1 + A)`, at least LEAST_SPREAD.

    Here n is the row's total and p the expected share of the cell. A row without records gets LEAST_SPREAD.

    Args:
        concentration: total concentration A of each row, broadcast against the cells.
        expected: expected counts n p of the cells, shape `(child, *rows)`.
        totals: records n of the rows, shape `rows`.

    Returns:
        Squared records, broadcast shape.
    """
    # Var(x) = n p (1 - p) (n + A) / (1 + A).
    share = (totals + concentration) / (1 + concentration)
    return np.asarray(np.maximum(expected * (1 - expected / np.maximum(totals, 1)) * share, LEAST_SPREAD))


def _pick_concentrations(fits: Floats, prior: Floats, at: Floats) -> Floats:
    """Learn the weights of concentrations by EM over all rows, and pick one for each row and draw by inverse sampling.

    LEARNING_STEPS steps `w = PRIOR_WORTH_ROWS prior + sum over rows of P(concentration | row, w)` start at the prior; a
    row's concentration is drawn from its last P.

    Args:
        fits: relative likelihoods, shape `(concentrations, *parents)`.
        prior: prior mean of the mixture weights, shape (COMPONENTS,); only those of BACK_OFF_CONCENTRATIONS, which come
            first, are used.
        at: uniform random numbers, shape `(*parents, draws)`.

    Returns:
        Entries of BACK_OFF_CONCENTRATIONS, shape of `at`.
    """
    prior_weights = PRIOR_WORTH_ROWS * prior[: len(fits)]
    weights = prior_weights
    for _ in range(LEARNING_STEPS):
        shares = fits * weights.reshape(-1, *(1,) * (fits.ndim - 1))
        shares /= shares.sum(axis=0)
        weights = prior_weights + shares.reshape(len(fits), -1).sum(axis=1)
    ends = shares.cumsum(axis=0)[:-1, ..., None]
    return np.asarray(BACK_OFF_CONCENTRATIONS[(at >= ends).sum(axis=0)])


# ----------------------------------------------------------------------------------------------------------- prior


@dataclass(frozen=True, eq=False)
class _RowPrior:
    """Mixture components of the prior of each row.

    Args:
        weights: prior mean of the mixture weights, shape (COMPONENTS,).
        whole: log factor of the row totals under each component, shape `(COMPONENTS, *parents, draws)`; the denominator
            of the Dirichlet-multinomial law.
    """

    weights: Floats
    whole: Single

    @staticmethod
    def of(weights: Floats, n: Array, states: int) -> _RowPrior:
        """Build the prior for rows with given totals.

        `whole` is `log Gamma(A + n) - log Gamma(A) - log n!` under each component, in single precision; A is the
        component's entry of BACK_OFF_CONCENTRATIONS, or `states` times that of LONE_CONCENTRATIONS.

        Args:
            weights: prior mean of the mixture weights, shape (COMPONENTS,).
            n: records of each row, shape `(*parents, draws)`.
            states: number of states of the child.
        """
        totals = n.astype(np.float64)
        a = np.concatenate([BACK_OFF_CONCENTRATIONS, states * LONE_CONCENTRATIONS]).reshape(-1, *(1,) * n.ndim)
        # log Gamma(A + N) - log Gamma(A) - log N!
        whole = gammaln(a + totals) - gammaln(a) - gammaln(totals + 1)
        return _RowPrior(weights, whole.astype(np.float32))

    def pick(self, counts: Array, mean: Array, learned: Floats, rng: np.random.Generator) -> tuple[Single, Floats]:
        """Draw a mixture component for each row and draw given its counts (Gibbs step).

        Its probability is proportional to the learned weight times the Dirichlet-multinomial likelihood of the row's
        counts. Back-off components have the concentrations A m, A from BACK_OFF_CONCENTRATIONS; the others have their
        entry of LONE_CONCENTRATIONS in each cell, whatever the mean.

        Args:
            counts: records of each cell, shape `(child, *parents, draws)`.
            mean: mean m of the back-off components, same shape.
            learned: current mixture weights of each draw, shape (COMPONENTS, draws).
            rng: source of randomness.

        Returns:
            Grid positions of the cells' concentrations under the drawn components, shape of the counts; and the number
            of rows that drew each component, shape (COMPONENTS, draws).
        """
        # P(component | counts) ~ weight * product of the cells' factors / factor of the total.
        first = positions(mean * mean.dtype.type(BACK_OFF_CONCENTRATIONS[0]))
        chances = component_weights(first, counts)
        chances -= self.whole
        chances -= chances.max(axis=0)
        np.exp(chances, out=chances)
        chances *= learned.astype(np.float32).reshape(COMPONENTS, *(1,) * (counts.ndim - 2), -1)
        for component in range(1, COMPONENTS):
            chances[component] += chances[component - 1]
        at = rng.random(chances.shape[1:]) * chances[-1]
        which = np.add.reduce(at >= chances[:-1], axis=0, dtype=np.int8).astype(np.int64)
        # Position of A m: back-off components shift the first one's by their A, the others have a constant.
        first *= COMPONENT_FOLLOWS.take(which)
        first += COMPONENT_SHIFTS.take(which)
        draws = counts.shape[-1]
        picked = np.bincount((which * draws + np.arange(draws)).ravel(), minlength=COMPONENTS * draws)
        return first, picked.reshape(COMPONENTS, draws).astype(np.float64)

    def draw_weights(self, picked: Floats, rng: np.random.Generator) -> Floats:
        """Draw mixture weights from Dirichlet(PRIOR_WORTH_ROWS * prior mean + picked), independently for each draw.

        Args:
            picked: number of rows that drew each component, shape (COMPONENTS, draws).
            rng: source of randomness.

        Returns:
            Weights, same shape; each draw sums to 1.
        """
        gammas = rng.standard_gamma(PRIOR_WORTH_ROWS * self.weights[:, None] + picked)
        return np.asarray(gammas / gammas.sum(axis=0))
