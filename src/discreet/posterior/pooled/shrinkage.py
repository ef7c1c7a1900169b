"""Posterior of one family's rows given row totals: Markov chains over counts, with a learned prior.

Row j of a family has `N_j` records, of which `N_jk` are in state k; the release tells the contrasts between the states
of a row with independent normal errors in the coordinates of the table's interactions (`least_squares.py`). Prior:

    (N_j1 .. N_jK) | N_j  ~  Dirichlet-multinomial(N_j, A m),   theta_j | N_j1 .. N_jK  ~  Dirichlet(A m + N_j),

where each row picks (A, m) for itself, with weights that the node learns from all of its rows:

    back-off     m is what other rows say: a log-linear fit to what parents do one by one, and all but one of them
                 together, without the row itself (`row_means.py`).
                 A is one of 1/64, 1/16, .., 256: from rows that are one-sided, each in its own way, to rows that are
                 like their neighbours.
    on its own   m is uniform, with 1/16, 1/4 or 1 record in each cell: no other row tells anything.

A row does not tell its own prior but to the second order. The weights
have a Dirichlet prior that is worth two rows, around the weights of the whole network where these are known. Small A
makes rows that are nearly deterministic without saying which state they have; large A shares records between rows.

Posterior, by parallel Markov chains, one for each draw. A sweep draws for every row its (A, m), then the weights, then
an auxiliary table that makes the rows' errors independent of each other, then some times the split of two cells of
each row, by Metropolis steps. Their proposals are around where the split is; from the normal law of the evidence, of
which only the prior's ratio decides; and close to either end, where sparse priors want to be. The chains start spread
around the evidence; or, where margins are drawn by themselves (`RowDoubt`), at these, each row around what they make of
it and the evidence, so that three sweeps are enough.

The learned weights say how many cells are empty for good and how many are merely rare, on average. Of one cell that
nobody fell into they tell nothing, and where most are empty for good they take the rest to 0 as well. For intervals the
prior is therefore doubted in a share of the draws, for each cell and row in others (an opinion pool; its weights are
not learned, because only the average could be):

    possible     a cell has a concentration of at least one record, less where the row has few or where the evidence
                 would not tell. The 95 % interval of a cell that nobody fell into then ends where
                 `DOUBT_SHARE exp(-x) = 0.05`, x in records.
    one-sided    a row without records is nearly deterministic, each state as likely as the others: no component gives
                 a named state as much where the other rows are of another mind.

Chains are moved in blocks, on arrays `(child, *parents, draws)`; threads would spend on each other what they gain. The
arrays are in single precision where that is far finer than the evidence, and the prior's factors come from tables
(`cell_weights.py`): special functions would be most of the work.

Source: the priors for rows are those of hierarchical smoothing (Petitjean, Buntine, Webb and Zaidi, 2018), with
conditionally specified laws (Heckerman et al., 2000, dependency networks) in place of a tree of Dirichlet processes.
Opinion pool: Stone (1961).
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
"""Number of random pairings of cells in a sweep."""


def split_pairs(counts: Array, a: Single, evidence: Array, deviation: float, rng: np.random.Generator) -> None:
    """Redraw the split of records between two cells of each row, for disjoint pairs; changes `counts`.

    Args:
        counts: shape `(child, *parents, draws)`.
        a: positions of concentrations, same shape.
        evidence: what the evidence says of each cell, same shape; only differences within a row matter.
        deviation: of its errors.
        rng: source of randomness.
    """
    half = len(counts) // 2
    weights = cell_weights(a, counts)
    # Two states are always the same pair.
    for turn in range(PAIRINGS_PER_SWEEP if len(counts) > 2 else 2):
        order = rng.permutation(len(counts))[: 2 * half]
        first, second = order[:half], order[half:]
        total = counts[order].reshape(2, half, *counts.shape[1:]).sum(axis=0)
        centre = (evidence[first] - evidence[second] + total) / 2
        pairs = _Pairs(counts[first], total, centre, deviation / math.sqrt(2), a[order], weights[order])
        pairs.step_by_evidence(rng) if turn else pairs.step_around(rng)
        pairs.step_to_an_end(rng)
        counts[first], counts[second] = pairs.first, total - pairs.first
        weights[order] = pairs.weights


@dataclass(eq=False)
class _Pairs:
    """Pairs of cells of a row, with the split of their records between them.

    Args:
        first: records of the one, whole numbers, shape `(pairs, *parents, draws)`; steps change it.
        total: of both.
        centre: where the evidence has the first.
        spread: standard deviation of the evidence.
        a: positions of the concentrations, of all the ones and then of all the others.
        weights: of the cells in this order; steps change them.
    """

    first: Array
    total: Array
    centre: Array
    spread: float
    a: Single
    weights: Single

    def step_by_evidence(self, rng: np.random.Generator) -> None:
        """Take a Metropolis step with proposals from the rounded normal law of the evidence.

        Rounding adds a variance of 1/12, which is left out before. The law of what is proposed is then the evidence's
        own to within 1 %, down to a deviation of one record: of two such splits the ratio of their priors decides.
        Below, proposals are spread by one record, and the evidence counts.
        """
        wide = max(self.spread, 1.0)
        proposed = draw_normals(self.first.shape, rng)
        proposed *= math.sqrt(wide**2 - 1 / 12)
        self._step(self._keep_possible(np.rint(self.centre + proposed)), 1 / self.spread**2 - 1 / wide**2, None, rng)

    def step_around(self, rng: np.random.Generator) -> None:
        """Take a Metropolis step around the current split: the only moves accepted if prior and evidence disagree.

        Their law is symmetric: a rounded normal one, of the evidence's spread.
        """
        proposed = draw_normals(self.first.shape, rng)
        proposed *= max(self.spread, 1.0)
        self._step(self._keep_possible(self.first + np.rint(proposed)), 1 / self.spread**2, None, rng)

    def _keep_possible(self, proposed: Array) -> Array:
        """Keep proposals that are possible splits, else the current split."""
        within = ((proposed >= 0) & (proposed <= self.total)).astype(self.first.dtype)
        return self.first + within * (proposed - self.first)

    def step_to_an_end(self, rng: np.random.Generator) -> None:
        """Take a Metropolis step close to either end, with even chances, log-uniform in the distance."""
        # Distance x = floor((total + 2)^U - 1): q(x) is proportional to log((x + 2) / (x + 1)).
        which = 2 * rng.random(self.first.shape)
        upper = which >= 1
        which -= upper
        which *= np.log(self.total + 2)
        distance = np.minimum(np.floor(np.exp(which) - 1), self.total).astype(self.first.dtype)
        from_top = upper.astype(self.first.dtype)
        # What is below reads `where(upper, total - x, x)`: many times as fast.
        new = distance + from_top * (self.total - 2 * distance)
        current = self.first + from_top * (self.total - 2 * self.first)
        odds = np.log((current + 2) / (current + 1)) / np.log((distance + 2) / (distance + 1))
        self._step(new, 1 / self.spread**2, odds, rng)

    def _step(self, new: Array, precision: float, odds: Array | None, rng: np.random.Generator) -> None:
        """Accept or reject the proposals of a Metropolis step.

        Args:
            new: records of the one that are proposed.
            precision: of the evidence that is not in the law of the proposals.
            odds: of that law, of what is and of what is proposed; None for 1.
            rng: source of randomness.
        """
        half, step = len(self.first), new - self.first
        # Log ratio of priors by cell weights, of N(x; centre, 1 / precision), and of the proposals by `odds`.
        weights = cell_weights(self.a, np.concatenate([new, self.total - new]))
        weights -= self.weights
        gain = np.add(weights[:half], weights[half:], dtype=self.first.dtype)
        if precision:
            gain -= precision * step * (self.first + step / 2 - self.centre)
        ratio = np.exp(np.minimum(gain, 60))
        if odds is not None:
            ratio *= odds
        taken = (rng.random(step.shape) < ratio).astype(np.float32)
        self.first += taken * step
        weights.reshape(2, *step.shape)[...] *= taken
        self.weights += weights


def draw_normals(shape: tuple[int, ...], rng: np.random.Generator) -> Single:
    """Draw standard normal numbers in single precision, below 5.8 in size, by Box and Muller (1958).

    On arrays a quarter of the time that the generator's own take.

    Example:
        >>> drawn = draw_normals((1000,), np.random.default_rng(0))
        >>> drawn.dtype, bool(abs(drawn.mean()) < 0.2)
        (dtype('float32'), True)
    """
    size = math.prod(shape)
    radius, angle = rng.random((2, (size + 1) // 2), dtype=np.float32)
    radius = np.sqrt(-2 * np.log(1 - radius))
    angle *= np.float32(2 * math.pi)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size].reshape(shape)


# --------------------------------------------------------------------------------------------------------------------
# How the records of a row are split between its cells: Metropolis steps for pairs of cells, rows and draws at once.
#
# Source: Metropolis et al. (1953), Hastings (1970) for proposals that do not look at where they are.

Array = npt.NDArray[np.floating]

PRIOR_WORTH_ROWS = 2.0
"""Prior sample size of a node's mixture weights, in rows."""
DOUBT_SHARE = 0.34
"""Share of the draws in which a cell is possible, and of those in which a row without records is one-sided. A cell
without records is then possible up to 1.92 records, as under Jeffreys' prior: `0.05 exp(1.92)`."""
FILLED_RECORDS = 3.0
"""Records of a row by which half of the concentration of a possible cell is meant; with 1 or 9 no stratum's coverage
moves by more than half a point, and no width but of what is 0 or 1 (2 %)."""
ONE_SIDED_CONCENTRATION = 1 / 32
"""Concentration of each cell of a row that is one-sided; with four times as much or as little no stratum's coverage
moves by more than .2 points, nor a width by more than 2 %."""
CHAIN_SWEEPS = 20
"""Sweeps of each chain, in both passes: with ten in the first, coverage in thin rows fell by .8 points on alarm."""
CLEAR_DEVIATIONS, FEW_SWEEPS = 5.0, 5
"""Deviations of the evidence that every cell of a single row is above 0, times the records that its given prior is
worth beyond one: within a deviation that prior is even to a fifth there, chains start near to their law, and need no
more sweeps than these. Nor do those of a single row, where what is told of margins is drawn by itself."""
NEAR_SWEEPS = 3
"""Sweeps of chains that start at their target margins: with 20 no stratum's coverage moves by more than a point,
nor errors of means by more than 3 %, on alarm and sachs at epsilon 0.1 and 1."""
LEARNING_STEPS, LEAST_SPREAD = 5, 1e-3
"""EM steps for the weights of concentrations at the start of chains; least variance of a cell there."""
SLOW_GAIN, MOST_LENGTHENING = 0.2, 10
"""Gain below which a coordinate gets longer chains, and the largest factor of their length."""
CACHED_CELLS, STORED_CELLS, STORED_TABLES, LEAST_TOGETHER = 2**15, 2**24, 12, 8
"""Chains are moved together if the cells of all their tables stay in the cache of a core; eight of them always, unless
that would take more memory than 128 MB, of a dozen tables of all cells."""
COMPONENT_FOLLOWS = (np.arange(COMPONENTS) < len(BACK_OFF_CONCENTRATIONS)).astype(np.float32)
COMPONENT_SHIFTS = np.concatenate(
    [GRID_STEPS * np.arange(len(BACK_OFF_CONCENTRATIONS)), positions(LONE_CONCENTRATIONS)]
).astype(np.float32)
"""Per mixture component: 1 if its concentration scales with the mean; its offset in the grid of concentrations."""
SINGLE_PRECISION = 2.0**-24
"""Relative error of single precision, below which whole numbers are exact."""


@dataclass(frozen=True, eq=False)
class RowDoubt:
    """Exceptions from the learned prior: margins drawn separately, and rare cells.

    Args:
        goals: counts of margins that are drawn by themselves, for all draws, as `raking.rake_to` takes them. The chains
            start there, and end there. None leaves what rows say together to their priors.
        rare: whether, in some draws, a cell is possible and a row without records one-sided whatever the other rows
            say: for intervals, which are to hold what is rare as well.
    """

    goals: Sequence[Goal] = ()
    rare: bool = True

    def of_draws(self, which: slice) -> RowDoubt:
        """Restrict to some of the draws."""
        return replace(self, goals=[(axes, wanted[..., which]) for axes, wanted in self.goals])


@dataclass(frozen=True, eq=False)
class RowDraws:
    """Draws of a family's rows.

    Args:
        counts: of records, int64, shape `(*parents, child, draws)`.
        alpha: concentrations that theta was drawn with: theta of a row is a draw of Dirichlet(alpha + counts); same
            shape.
        theta: probabilities, same shape.
        mean: of the probabilities given the counts, averaged over the second half of the chains; shape
            `(*parents, child)`.
        usage: rows that picked each component, averaged over draws, shape (COMPONENTS,).
    """

    counts: Ints
    alpha: Floats
    theta: Floats
    mean: Floats
    usage: Floats

    def with_counts(self, counts: Ints, rng: np.random.Generator) -> RowDraws:
        """Replace the counts, keep the concentrations, and draw new probabilities."""
        return replace(self, counts=counts, theta=dirichlet_draws(counts + self.alpha, rng))


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
    """Draw all rows of a family.

    Args:
        values: coordinates of the family's table, an axis for each parent, then the child; those that tell row totals
            are not read.
        variances: of their errors.
        totals: records in each row, shape `(*parents, draws)`.
        weights: prior mean of the components' weights, shape (COMPONENTS,).
        rng: source of randomness.
        alpha: concentrations, shape `(*parents, child)`, instead of the learned prior.
        doubt: of the learned prior, for intervals. A prior that is given is not doubted.

    Returns:
        A draw for each last entry of the totals.
    """
    draws = totals.shape[-1]
    block = max(CACHED_CELLS // values.size, min(STORED_CELLS // (STORED_TABLES * values.size), LEAST_TOGETHER), 1)
    # Every block has a generator of its own: a chain does not depend on what those of other blocks take from it.
    blocks = [slice(first, first + block) for first in range(0, draws, block)]
    drawn = [
        _run_chains((values, variances), totals[..., which], weights, block_rng, alpha, doubt and doubt.of_draws(which))
        for which, block_rng in zip(blocks, rng.spawn(len(blocks)), strict=True)
    ]
    shares = [rows.counts.shape[-1] / draws for rows in drawn]
    return RowDraws(
        np.concatenate([rows.counts for rows in drawn], axis=-1),
        np.concatenate([rows.alpha for rows in drawn], axis=-1),
        np.concatenate([rows.theta for rows in drawn], axis=-1),
        np.asarray(sum(share * rows.mean for share, rows in zip(shares, drawn, strict=True))),
        np.asarray(sum(share * rows.usage for share, rows in zip(shares, drawn, strict=True))),
    )


def _run_chains(
    coordinates: tuple[Floats, Floats],
    totals: Ints,
    weights: Floats,
    rng: np.random.Generator,
    alpha: Floats | None,
    doubt: RowDoubt | None,
) -> RowDraws:
    """Run parallel chains, one for each draw."""
    evidence = _RowEvidence.of(*coordinates, int(totals.max(initial=0)))
    states = coordinates[0].shape[-1]
    shape, n = (states, *totals.shape), totals.astype(evidence.kind)
    goals = () if doubt is None or alpha is not None else doubt.goals
    counts = evidence.start_at(n, goals, weights, rng) if goals else evidence.start(totals, rng)
    means = RowMeans(n, states)
    prior = _RowPrior.of(weights, n, states) if alpha is None else None
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
            after = concentrations(a) + counts
            mean += (after / after.sum(axis=0)).mean(axis=-1) / averaged
    final = counts_of(rake_to(counts, totals, goals, rng) if goals else counts)
    alphas = np.moveaxis(concentrations(a), 0, -2).astype(np.float64)
    if alpha is not None:
        alphas = np.repeat(alpha[..., None], totals.shape[-1], axis=-1)
    elif possible is not None:
        alphas = _add_doubt(alphas, np.moveaxis(possible, 0, -2) > 0, final, totals[..., None, :], rng)
    flat = (-1, states, totals.shape[-1])
    theta = dirichlet_draws((final + alphas).reshape(flat), rng).reshape(final.shape)
    mean = np.moveaxis(mean / mean.sum(axis=0), 0, -1)
    return RowDraws(np.ascontiguousarray(final), np.ascontiguousarray(alphas), theta, np.ascontiguousarray(mean), usage)


def _add_doubt(a: Floats, possible: npt.NDArray[np.bool_], counts: Ints, n: Ints, rng: np.random.Generator) -> Floats:
    """Raise concentrations of cells that the learned prior rules out; shapes `(*parents, child, draws)`."""
    a = np.where((n == 0) & (rng.random(n.shape) < DOUBT_SHARE), ONE_SIDED_CONCENTRATION, a)
    return np.where(counts == 0, np.maximum(a, possible * n / (n + FILLED_RECORDS)), a)


# -------------------------------------------------------------------------------------------------------- evidence


@dataclass(frozen=True, eq=False)
class _RowEvidence:
    """Evidence on the contrasts between the states of each row; shapes are `(child - 1, *parents, 1)`.

    Args:
        values: coordinates of the table that do not tell row totals.
        deviations: of their errors.
        gain: variance of the most exact coordinate over that of each one.
        deviation: root of the smallest variance.
        kind: double precision, or single where that is far more exact than the evidence.
    """

    values: Floats
    deviations: Floats
    gain: Floats
    deviation: float
    kind: type[np.floating]

    @staticmethod
    def of(values: Floats, variances: Floats, records: int) -> _RowEvidence:
        """Make the evidence without the coordinates of row totals, which are given."""
        values, variances = (np.moveaxis(table[..., 1:], -1, 0)[..., None] for table in (values, variances))
        least = max(float(variances.min(initial=np.inf)), KNOWN_VARIANCE) if variances.size else KNOWN_VARIANCE
        deviation = math.sqrt(least)
        single = records * SINGLE_PRECISION < min(deviation / 64, 0.5)
        gain = least / np.maximum(variances, least)
        return _RowEvidence(values, np.sqrt(variances), gain, deviation, np.float32 if single else np.float64)

    @property
    def sweeps(self) -> int:
        """Number of sweeps: a sweep moves a coordinate by its gain, so chains are longer where some gain is small."""
        return CHAIN_SWEEPS * min(max(math.ceil(SLOW_GAIN / float(self.gain.min(initial=1))), 1), MOST_LENGTHENING)

    def outweighs(self, alpha: Floats, totals: Ints) -> bool:
        """True if the evidence outweighs a prior of all cells of a single row, in errors of one size."""
        if self.values.ndim > 2 or not len(self.values) or not np.all(self.gain == 1):
            return False
        least = self._invert_contrasts(self.values).min() + int(totals.min()) / (len(self.values) + 1)
        return bool(least > CLEAR_DEVIATIONS * self.deviation * max(1.0, float(np.abs(alpha - 1).max())))

    def start(self, totals: Ints, rng: np.random.Generator) -> Array:
        """Start from counts spread around the evidence, shape `(child, *parents, draws)`."""
        if not len(self.values):
            return totals[None].astype(self.kind)
        drawn = self.values + self.deviations * rng.standard_normal((*self.values.shape[:-1], totals.shape[-1]))
        even = 1 / (len(self.values) + 1)
        cells = np.maximum(self._invert_contrasts(drawn) + even * totals, 0) + min(self.deviation, 1) * even
        # Rounded so that they sum to the totals, each to one of its two neighbours, with its mean.
        ends = np.cumsum(cells * (totals / cells.sum(axis=0)), axis=0) + rng.random(totals.shape)
        ends[-1] = totals
        return np.diff(np.minimum(np.floor(ends), totals), axis=0, prepend=0).astype(self.kind)

    def start_at(self, totals: Array, goals: Sequence[Goal], prior: Floats, rng: np.random.Generator) -> Array:
        """Start from counts with the target margins, each row around these margins and its evidence.

        The prior is the rows' own but for its shape: normal, with the variance of the Dirichlet-multinomial law around
        the counts that have the margins and no other interactions. Each row picks the concentration of that law by its
        evidence on average over the draws, with weights that all rows learn together, beside those of the prior.
        """
        states = len(self.values) + 1
        if states == 1:
            return totals[None].astype(self.kind)
        expected = rake_cells(np.repeat(totals[None] / states, states, axis=0).astype(self.kind), totals, goals)
        evidence = self._invert_contrasts(self.values) + totals.mean(axis=-1, keepdims=True) / states
        noise = float(np.square(self.deviations).mean())
        fits = self._fit_spreads(expected, totals, evidence, noise)
        picked = _pick_spreads(fits, prior, rng.random(totals.shape))
        gain = _compute_variances(picked, expected, totals)
        gain /= gain + noise
        drawn = np.sqrt(gain * noise).astype(self.kind) * draw_normals(expected.shape, rng)
        drawn += gain * (evidence - expected) + expected
        return rake_to(np.maximum(drawn, 0).astype(self.kind), totals, goals, rng)

    @staticmethod
    def _fit_spreads(expected: Array, totals: Array, evidence: Array, noise: float) -> Floats:
        """Compute the relative likelihood of each concentration for each row, shape (concentrations, *parents)."""
        mean, n = (table.mean(axis=-1, dtype=np.float64) for table in (expected, totals))
        variances = _compute_variances(BACK_OFF_CONCENTRATIONS.reshape(-1, *(1,) * mean.ndim), mean, n) + noise
        # Normal likelihoods of the cells, to the power 1 - 1 / states: cells sum to the row's total.
        fits = (np.log(variances) + np.square(evidence[..., 0] - mean) / variances).sum(axis=1)
        fits *= -0.5 * (1 - 1 / len(expected))
        return np.asarray(np.exp(fits - fits.max(axis=0)))

    def draw_auxiliary(self, counts: Array, rng: np.random.Generator) -> Array:
        """Draw an auxiliary table with independent errors of the smallest variance, given counts and evidence.

        Given this table, rows are independent of each other: what the evidence says beyond it is used up.

        Returns:
            The table but for what is the same for all cells of a row, shape as the counts'.
        """
        shape, gain = (len(self.values), *counts.shape[1:]), self.gain.astype(self.kind)
        if np.all(gain == 1):
            return self._invert_contrasts(np.broadcast_to(self.values, shape).astype(self.kind))
        # Contrasts between states first: what tells row totals is not needed.
        helmert, *others = (
            matrix.astype(self.kind) for matrix in contrast_matrices((len(counts), *counts.shape[1:-1]))
        )
        contrasts = np.matmul(helmert[1:], counts.reshape(len(counts), -1)).reshape(shape)
        current = transformed(contrasts, (np.eye(len(contrasts), dtype=self.kind), *others))
        coordinates = self.values.astype(self.kind) - current
        coordinates *= gain
        coordinates += current
        coordinates += (np.sqrt(1 - self.gain) * self.deviation).astype(self.kind) * draw_normals(shape, rng)
        return self._invert_contrasts(coordinates)

    def _invert_contrasts(self, contrasts: Array) -> Array:
        """Transform coordinates back to a table, without those of row totals."""
        states, *sizes = len(contrasts) + 1, *contrasts.shape[1:-1]
        helmert, *others = (matrix.astype(contrasts.dtype) for matrix in contrast_matrices((states, *sizes)))
        rows = transformed(contrasts, (np.eye(len(contrasts), dtype=contrasts.dtype), *others), back=True)
        cells = np.matmul(helmert[1:].T, rows.reshape(len(contrasts), math.prod(contrasts.shape[1:])))
        return np.asarray(cells.reshape(states, *contrasts.shape[1:]))


def _compute_variances(concentration: Array, expected: Array, totals: Array) -> Array:
    """Compute Dirichlet-multinomial variances of cells, given row totals and expected counts."""
    share = (totals + concentration) / (1 + concentration)
    return np.asarray(np.maximum(expected * (1 - expected / np.maximum(totals, 1)) * share, LEAST_SPREAD))


def _pick_spreads(fits: Floats, prior: Floats, at: Floats) -> Floats:
    """Pick a concentration for each row of each draw at a random number, shape `(*parents, draws)`."""
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
        weights: prior mean of their weights, shape (COMPONENTS,).
        whole: log weights of the row totals under each component, shape `(COMPONENTS, *parents, draws)`.
    """

    weights: Floats
    whole: Single

    @staticmethod
    def of(weights: Floats, n: Array, states: int) -> _RowPrior:
        """Make the prior for rows with given totals, shape `(*parents, draws)`."""
        totals = n.astype(np.float64)
        a = np.concatenate([BACK_OFF_CONCENTRATIONS, states * LONE_CONCENTRATIONS]).reshape(-1, *(1,) * n.ndim)
        whole = gammaln(a + totals) - gammaln(a) - gammaln(totals + 1)
        return _RowPrior(weights, whole.astype(np.float32))

    def pick(self, counts: Array, mean: Array, learned: Floats, rng: np.random.Generator) -> tuple[Single, Floats]:
        """Pick a component for each row given its counts.

        Args:
            counts: shape `(child, *parents, draws)`.
            mean: of the back-off components, same shape.
            learned: weights, shape (COMPONENTS, draws).
            rng: source of randomness.

        Returns:
            Positions of the concentrations of the picked components, same shape as the counts; how many rows picked
            each component, shape (COMPONENTS, draws).
        """
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
        first *= COMPONENT_FOLLOWS.take(which)
        first += COMPONENT_SHIFTS.take(which)
        draws = counts.shape[-1]
        picked = np.bincount((which * draws + np.arange(draws)).ravel(), minlength=COMPONENTS * draws)
        return first, picked.reshape(COMPONENTS, draws).astype(np.float64)

    def draw_weights(self, picked: Floats, rng: np.random.Generator) -> Floats:
        """Draw weights given how many rows picked each component, shape (COMPONENTS, draws)."""
        gammas = rng.standard_gamma(PRIOR_WORTH_ROWS * self.weights[:, None] + picked)
        return np.asarray(gammas / gammas.sum(axis=0))
