r"""Rows of one family given the records that reach them: a prior learned from the release itself, and its posterior.

Row j of a family has `N_j` records, of which `N_jk` are in state k; the release tells the contrasts between the states
of a row with independent normal errors in the coordinates of the table's interactions (`least_squares.py`). Prior:

    (N_j1 .. N_jK) | N_j  ~  Dirichlet-multinomial(N_j, A m),   theta_j | N_j1 .. N_jK  ~  Dirichlet(A m + N_j),

where each row picks (A, m) for itself, with weights that the node learns from all of its rows:

    back-off     m is what other rows say: drop one parent, take the frequencies of the child in the other rows with the
                 same states of the remaining parents, and the geometric mean of these over the dropped parents (each
                 smoothed by one record that is backed off in the same way, to two parents fewer and then to all rows).
                 A is one of 1/64, 1/16, .., 256: from rows that are one-sided, each in its own way, to rows that are
                 like their neighbours.
    on its own   m is uniform, with 1/16, 1/4 or 1 record in each cell: no other row tells anything.

A row never tells its own prior: its counts are left out of the frequencies, so nothing is counted twice. The weights
have a Dirichlet prior that is worth two rows, around the weights of the whole network where these are known. Small A
makes rows that are nearly deterministic without saying which state they have; large A shares records between rows.

Posterior, by parallel Markov chains, one for each draw. A sweep draws for every row its (A, m), then the weights, then
an auxiliary table that makes the rows' errors independent of each other, then some times the split of two cells of
each row, by Metropolis steps with independent proposals: from the normal law of the evidence, or close to either end,
where sparse priors want to be. The chains start spread around the evidence.

The learned weights say how many cells are empty for good and how many are merely rare, on average. Of one cell that
nobody fell into they tell nothing, and where most are empty for good they take the rest to 0 as well. For intervals the
prior is therefore doubted in a share of the worlds, for each cell and row in others (an opinion pool; its weights are
not learned, because only the average could be):

    possible     a cell has a concentration of at least one record, less where the row has few or where the evidence
                 would not tell. The 95 % interval of a cell that nobody fell into then ends where
                 `DOUBTED exp(-x) = 0.05`, x in records.
    one-sided    a row without records is nearly deterministic, each state as likely as the others: no component gives
                 a named state as much where the other rows are of another mind.

The three costly steps (what other rows say, which (A, m) a row picks, how pairs of cells are split) are written twice:
here on arrays, and compiled in `shrinkage_compiled.py`, which is taken where numba is installed. Both leave the same
law unchanged and draw other numbers; compiled, a pair of few records is split by an exact draw and not by Metropolis
steps. Chains are moved in blocks, each with a generator of its own, by as many threads as there are processors.

Source: the priors for rows are those of hierarchical smoothing (Petitjean, Buntine, Webb and Zaidi, 2018), with
conditionally specified laws (Heckerman et al., 2000, dependency networks) in place of a tree of Dirichlet processes.
Opinion pool: Stone (1961).
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, ndtr

from discreet.inference.interactions import contrast_matrices, transformed
from discreet.model.dirichlet import dirichlet_draws
from discreet.posterior.compiling import COMPILED
from discreet.posterior.pooled import shrinkage_compiled
from discreet.posterior.pooled.shrinkage_compiled import (
    ALONE,
    CLOSE,
    CONCENTRATIONS,
    LOG_FACTORIAL,
    TABLED,
    TINY,
    risen,
)
from discreet.releases.measurement import KNOWN

__all__ = ["COMPONENTS", "MARGIN", "WORTH", "Rows", "draw_rows"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

COMPONENTS = len(CONCENTRATIONS) + len(ALONE)
MARGIN = 0.5
"""Concentration of a state in the prior of a child's margin: Jeffreys (1946)."""
WORTH = 2.0
"""Rows that the prior of a node's weights is worth."""
DOUBTED = 0.34
"""Share of the worlds in which a cell is possible, and of those in which a row without records is one-sided. A cell
that nobody fell into is then held up to the 1.92 records up to which Jeffreys' prior holds it: `0.05 exp(1.92)`."""
FILLED = 3.0
"""Records of a row by which half of the concentration of a possible cell is meant; with 1 or 9 no stratum's coverage
moves by more than half a point, and no width but of what is 0 or 1 (2 %)."""
ONE_SIDED = 1 / 32
"""Concentration of each cell of a row that is one-sided; with four times as much or as little no stratum's coverage
moves by more than .2 points, nor a width by more than 2 %."""
SWEEPS = 20
"""Of each chain: three times as many change no coverage of entries and no width on sachs, child and a made-up network
with rare states at epsilon 1 by more than its error (four releases each)."""
SLOW, LONGEST = 0.2, 10
"""Coordinates whose gain is below a fifth get longer chains, up to ten times as long."""
CACHED, STORED, TOGETHER = 2**16, 2**24, 8
"""Chains are moved together if the cells of all their tables stay in the cache of a core; eight of them always, unless
that would take more memory than 128 MB for each thread."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Draws of a family's rows.

    Args:
        counts: of records, int64, shape `(*parents, child, draws)`.
        alpha: concentrations that theta was drawn with: theta of a row is a draw of Dirichlet(alpha + counts); same
            shape.
        theta: probabilities, same shape.
        mean: of the probabilities given the counts, averaged over the chains' last ten sweeps; shape
            `(*parents, child)`.
        usage: rows that picked each component, averaged over draws, shape (COMPONENTS,).
    """

    counts: Codes
    alpha: Floats
    theta: Floats
    mean: Floats
    usage: Floats

    def recounted(self, counts: Codes, rng: np.random.Generator) -> Rows:
        """Other counts with the same concentrations, and new probabilities."""
        return replace(self, counts=counts, theta=dirichlet_draws(counts + self.alpha, rng))


def draw_rows(
    values: Floats,
    variances: Floats,
    totals: Codes,
    weights: Floats,
    rng: np.random.Generator,
    *,
    alpha: Floats | None = None,
    doubt: bool = False,
) -> Rows:
    """Draw all rows of a family.

    Args:
        values: coordinates of the family's table, an axis for each parent, then the child; those that tell row totals
            are not read.
        variances: of their errors.
        totals: records in each row, shape `(*parents, draws)`.
        weights: prior mean of the components' weights, shape (COMPONENTS,).
        rng: source of randomness.
        alpha: concentrations, shape `(*parents, child)`, instead of the learned prior.
        doubt: whether, in some draws, a cell is possible and a row without records one-sided whatever the other rows
            say: for intervals, which are to hold what is rare as well. A prior that is given is not doubted.

    Returns:
        A draw for each last entry of the totals.
    """
    draws, parents = totals.shape[-1], values.ndim - 1
    # Besides the counts there is one table for every set of parents that is backed off to.
    cells = values.size * (2 + parents + math.comb(parents, 2))
    block = max(CACHED // cells, min(STORED // cells, TOGETHER), 1)
    firsts = range(0, draws, block)

    def drawn(first: int, own: np.random.Generator) -> Rows:
        return _chains(values, variances, totals[..., first : first + block], weights, own, alpha, doubt)

    # Every block has a generator of its own: what is drawn does not depend on how many threads there are.
    with ThreadPoolExecutor(min(len(firsts), os.cpu_count() or 1)) as threads:
        parts = list(threads.map(drawn, firsts, rng.spawn(len(firsts))))
    shares = [part.counts.shape[-1] / draws for part in parts]
    return Rows(
        np.concatenate([part.counts for part in parts], axis=-1),
        np.concatenate([part.alpha for part in parts], axis=-1),
        np.concatenate([part.theta for part in parts], axis=-1),
        np.asarray(sum(share * part.mean for share, part in zip(shares, parts, strict=True))),
        np.asarray(sum(share * part.usage for share, part in zip(shares, parts, strict=True))),
    )


def _chains(
    values: Floats,
    variances: Floats,
    totals: Codes,
    weights: Floats,
    rng: np.random.Generator,
    alpha: Floats | None,
    doubt: bool,
) -> Rows:
    """Parallel chains, one for each draw."""
    evidence = _Evidence.of(values, variances)
    shape, draws = (*values.shape, totals.shape[-1]), totals.shape[-1]
    states, sizes = values.shape[-1], values.shape[:-1]
    counts = evidence.start(totals, rng)
    a = np.empty(0) if alpha is None else np.repeat(alpha[..., None], draws, axis=-1)
    learned = np.repeat(weights[:, None], draws, axis=1)
    sweeps, kept = evidence.sweeps, SWEEPS // 2
    usage, mean = np.zeros(COMPONENTS), np.zeros(values.shape)
    n, doubted = totals[..., None, :], doubt and alpha is None
    possible = (rng.random(shape) < DOUBTED) * n / (n + FILLED + 3 * evidence.deviation) if doubted else None
    for sweep in range(sweeps):
        if alpha is None:
            # Rows without records are not read before the means are taken.
            a, picked = _concentrations(counts, _backed_off(counts, empty_too=sweep >= sweeps - kept), learned, rng)
            gammas = rng.standard_gamma(WORTH * weights[:, None] + picked)
            learned = np.maximum(gammas / gammas.sum(axis=0), np.finfo(np.float64).tiny)
            usage += picked.mean(axis=1) * (sweep >= sweeps - kept) / kept
        if states > 1:
            told = evidence.decoupled(counts, rng)
            rows = counts.reshape(-1, states, draws)
            # Two states are always the same pair.
            pairings, steps = (1, 2) if states == 2 else (4, 1)
            for _ in range(pairings):
                used = a if possible is None else np.maximum(a, possible)
                _split_pairs(rows, used.reshape(-1, states, draws), told, evidence.deviation, steps, rng)
        if sweep >= sweeps - kept:
            mean += ((counts + a) / (counts + a).sum(axis=-2, keepdims=True)).mean(axis=-1) / kept
    if alpha is None:
        a, _ = _concentrations(counts, _backed_off(counts), learned, rng)
        if possible is not None:
            a = np.where((n == 0) & (rng.random(n.shape) < DOUBTED), ONE_SIDED, a)
            slab = (possible > 0) * n / (n + FILLED)
            a = np.where(counts == 0, np.maximum(a, slab), a)
    flat = (math.prod(sizes), states, draws)
    theta = dirichlet_draws((counts + a).reshape(flat), rng).reshape(shape)
    return Rows(counts, a, theta, mean, usage)


# -------------------------------------------------------------------------------------------------------- evidence


@dataclass(frozen=True, eq=False)
class _Evidence:
    """What is known of the contrasts between the states of each row.

    Args:
        values: coordinates of the table; 0 where they tell row totals.
        deviations: of their errors; 0 where they tell row totals.
        gain: variance of the most exact coordinate over that of each one; 0 where they tell row totals.
        deviation: root of the smallest variance.
    """

    values: Floats
    deviations: Floats
    gain: Floats
    deviation: float

    @staticmethod
    def of(values: Floats, variances: Floats) -> _Evidence:
        """Leave out what tells row totals: these are given."""
        contrast = np.zeros(values.shape)
        contrast[..., 1:] = 1
        least = max(float(variances[..., 1:].min()), KNOWN) if variances.shape[-1] > 1 else KNOWN
        gain = contrast * least / np.maximum(variances, least)
        return _Evidence(values * contrast, np.sqrt(variances) * contrast, gain, math.sqrt(least))

    @property
    def sweeps(self) -> int:
        """A sweep moves a coordinate by its gain: chains are longer where some coordinates are told much worse."""
        slowest = float(self.gain[..., 1:].min()) if self.gain.shape[-1] > 1 else 1.0
        return SWEEPS * min(max(math.ceil(SLOW / slowest), 1), LONGEST)

    def start(self, totals: Codes, rng: np.random.Generator) -> Codes:
        """Counts spread around the evidence, shape `(*parents, child, draws)`."""
        matrices = contrast_matrices(self.values.shape)
        noise = self.deviations[..., None] * rng.standard_normal((*self.values.shape, totals.shape[-1]))
        contrasts = transformed(self.values[..., None] + noise, matrices, back=True)
        cells = np.maximum(contrasts + totals[..., None, :] / self.values.shape[-1], 0) + 0.25
        shares = np.moveaxis(cells / cells.sum(axis=-2, keepdims=True), -2, -1)
        drawn = rng.multinomial(totals, shares)
        return np.ascontiguousarray(np.moveaxis(drawn, -1, -2), np.int64)

    def decoupled(self, counts: Codes, rng: np.random.Generator) -> Floats:
        """A table that is told by the counts with errors of the smallest variance, given counts and evidence.

        Given this table, rows are independent of each other: what the evidence says beyond it is used up.

        Returns:
            The table but for what is the same for all cells of a row, shape (rows, states, draws).
        """
        *sizes, states, draws = counts.shape
        matrices, helmert = contrast_matrices(sizes), contrast_matrices([states])[0][1:]
        gain, values = self.gain[..., 1:, None], self.values[..., 1:, None]
        if np.all(gain == 1):
            told = np.broadcast_to(values, (*sizes, states - 1, draws))
        else:
            # Contrasts between states first: what tells row totals is not needed.
            contrasts = np.matmul(helmert, counts.reshape(-1, states, draws).astype(np.float64))
            have = transformed(contrasts.reshape(*sizes, states - 1, draws), matrices)
            told = have + gain * (values - have)
            told += np.sqrt(1 - gain) * self.deviation * rng.standard_normal(told.shape)
        cells = np.matmul(helmert.T, transformed(told, matrices, back=True).reshape(-1, states - 1, draws))
        return np.asarray(cells, np.float64)


# ----------------------------------------------------------------------------------------------------------- prior


def _backed_off(counts: Codes, *, empty_too: bool = True) -> Floats:
    """For each row what the others say of it: probabilities, shape `(*parents, child, draws)`.

    Args:
        counts: same shape.
        empty_too: whether rows without records matter; if not, they may get anything.
    """
    *sizes, states, draws = counts.shape
    parents = len(sizes)
    if not parents:
        return np.full(counts.shape, 1 / states)
    if COMPILED:
        flat = counts.reshape(-1, states, draws)
        return shrinkage_compiled.backed_off(flat, *_groups(tuple(sizes)), empty_too).reshape(counts.shape)
    found = dict[tuple[int, ...], Floats]()
    # From all rows together to those that agree in all parents but two, then but one: more would cost 2^parents.
    kept_sizes = sorted({0, max(parents - 2, 0), parents - 1})
    for size in kept_sizes:
        for kept in combinations(range(parents), size):
            dropped = tuple(axis for axis in range(parents) if axis not in kept)
            others = counts.sum(axis=dropped, keepdims=True) - counts
            smaller = [found[part] for part in found if set(part) < set(kept) and len(part) == _below(size, kept_sizes)]
            mean = _geometric_mean(smaller) if smaller else np.full((1,) * counts.ndim, 1 / counts.shape[-2])
            found[kept] = (others + mean) / (others.sum(axis=-2, keepdims=True) + 1)
    return _geometric_mean([table for kept, table in found.items() if len(kept) == parents - 1])


@lru_cache(maxsize=64)
def _groups(sizes: tuple[int, ...]) -> tuple[Codes, int, Codes]:
    """Rows that agree in all parents that are not dropped.

    Args:
        sizes: of the parents, at least one.

    Returns:
        The arguments of `row_kernel.backed_off` between the counts and the last.
    """
    parents, index = len(sizes), np.arange(math.prod(sizes)).reshape(sizes)
    pairs = list(combinations(range(parents), 2)) if parents > 2 else []
    dropped = [tuple(range(parents)), *pairs, *(((axis,) for axis in range(parents)) if parents > 1 else ())]
    groups, after = np.empty((len(dropped), index.size), np.int64), 0
    for s, axes in enumerate(dropped):
        # The first row of each group stands for it.
        first = np.broadcast_to(index.min(axis=axes, keepdims=True), sizes).ravel()
        groups[s] = after + np.unique(first, return_inverse=True)[1]
        after = int(groups[s].max()) + 1
    pair_of = np.full((parents, parents), -1)
    for s, (one, other) in enumerate(pairs):
        pair_of[one, other] = pair_of[other, one] = 1 + s
    return groups, after, pair_of


def _below(size: int, sizes: list[int]) -> int:
    """The next smaller size."""
    return sizes[sizes.index(size) - 1]


def _geometric_mean(tables: list[Floats]) -> Floats:
    """Normalised over the child's axis; never 0."""
    product = np.maximum(tables[0], TINY)
    if len(tables) == 1:
        return product
    # At most thirteen factors: no product is below 1e-91.
    for table in tables[1:]:
        product = product * np.maximum(table, TINY)
    mean = np.sqrt(product) if len(tables) == 2 else np.exp(np.log(product) / len(tables))
    return np.asarray(np.maximum(mean / mean.sum(axis=-2, keepdims=True), TINY))


@lru_cache(maxsize=64)
def _risen(states: int) -> tuple[Floats, Floats]:
    """Tables of `log Gamma(a + n) - log Gamma(a)` for cells of ALONE, and for the concentrations of all components."""
    return risen(ALONE), risen(np.concatenate([CONCENTRATIONS, states * ALONE]))


def _concentrations(counts: Codes, mean: Floats, weights: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Each row picks a component given its counts.

    Args:
        counts: shape `(*parents, child, draws)`.
        mean: of the back-off components, same shape.
        weights: shape (COMPONENTS, draws).
        rng: source of randomness.

    Returns:
        Concentrations of the picked components, same shape as the counts; how many rows picked each component, shape
        (COMPONENTS, draws).
    """
    states, draws = counts.shape[-2:]
    cells_risen, totals_risen = _risen(states)
    flat, m = counts.reshape(-1, states, draws), mean.reshape(-1, states, draws)
    if COMPILED:
        found, usage = shrinkage_compiled.picked(flat, m, weights, cells_risen, totals_risen, rng)
        return found.reshape(counts.shape), usage
    totals = flat.sum(axis=1)
    # Empty cells contribute nothing, and most cells are empty.
    row, _, draw = where = np.nonzero(flat)
    filled, believed, place = flat[where], m[where], row * draws + draw
    a_of = [*CONCENTRATIONS, *(states * ALONE)]
    scores = np.empty((COMPONENTS, *totals.shape))
    for component, a in enumerate(a_of):
        alone = component - len(CONCENTRATIONS)
        if alone < 0:
            cell = a * believed
            gain = gammaln(filled + cell) - gammaln(cell)
        else:
            gain = _looked_up(filled, a / states, cells_risen[:, alone])
        gained = np.bincount(place, gain, minlength=totals.size)
        scores[component] = gained.reshape(totals.shape) - _looked_up(totals, a, totals_risen[:, component])
    scores += np.log(weights)[:, None, :]
    cumulative = np.exp(scores - scores.max(axis=0)).cumsum(axis=0)
    picked = (rng.random(totals.shape) * cumulative[-1] > cumulative).sum(axis=0)
    usage = np.array([(picked == component).sum(axis=0) for component in range(COMPONENTS)], np.float64)
    a = np.asarray(a_of)[picked][:, None, :]
    by_itself = (picked >= len(CONCENTRATIONS))[:, None, :]
    return np.where(by_itself, a / states, a * m).reshape(counts.shape), usage


def _looked_up(n: Codes, a: float, table: Floats) -> Floats:
    """`log Gamma(a + n) - log Gamma(a)`, from a table where it is long enough."""
    return np.asarray(table[n] if n.max(initial=0) < TABLED else gammaln(n + a) - gammaln(a))


# ----------------------------------------------------------------------------------------------------------- counts


def _split_pairs(rows: Codes, a: Floats, told: Floats, deviation: float, steps: int, rng: np.random.Generator) -> None:
    """Draw anew how the records of two cells of each row are split between them, for disjoint pairs; changes `rows`.

    Args:
        rows: counts, shape (rows, states, draws).
        a: concentrations, same shape.
        told: what the evidence says of each cell, same shape; only differences within a row matter.
        deviation: of its errors.
        steps: Metropolis steps of each pair.
        rng: source of randomness.
    """
    if COMPILED:
        shrinkage_compiled.split_pairs(rows, a, told, deviation, steps, rng)
        return
    half = rows.shape[1] // 2
    order = rng.permutation(rows.shape[1])
    one, other = order[:half], order[half : 2 * half]
    sums = rows[:, one] + rows[:, other]
    active = np.nonzero(sums)
    first, second = (active[0], one[active[1]], active[2]), (active[0], other[active[1]], active[2])
    total, have = sums[active].astype(np.float64), rows[first].astype(np.float64)
    centre, spread = (total + told[first] - told[second]) / 2, deviation / math.sqrt(2)
    a_first, a_second, log_total = a[first], a[second], np.log(total + 2)

    def log_target(x: Floats) -> Floats:
        rest = total - x
        prior = gammaln(x + a_first) - _log_factorial(x) + gammaln(rest + a_second) - _log_factorial(rest)
        return np.asarray(prior - 0.5 * ((x - centre) / spread) ** 2)

    def proposal(x: Floats) -> Floats:
        """Half a normal law, rounded and cut; a quarter close to either end, log-uniform."""
        upper = np.where(x >= total, 1.0, ndtr((x + 0.5 - centre) / spread))
        lower = np.where(x <= 0, 0.0, ndtr((x - 0.5 - centre) / spread))
        return np.asarray(0.5 * np.maximum(upper - lower, 0) + 0.25 * (_close(x) + _close(total - x)) / log_total)

    log_have, proposed_have = log_target(have), proposal(have)
    for _ in range(steps):
        which = rng.random(total.shape)
        near = np.minimum(np.floor(np.expm1(rng.random(total.shape) * log_total)), total)
        normal = np.clip(np.rint(centre + spread * rng.standard_normal(total.shape)), 0, total)
        x = np.where(which < 0.5, normal, np.where(which < 0.75, near, total - near))
        log_x, proposed_x = log_target(x), proposal(x)
        taken = np.log(rng.random(total.shape)) < log_x - log_have + np.log(proposed_have / proposed_x)
        have, log_have = np.where(taken, x, have), np.where(taken, log_x, log_have)
        proposed_have = np.where(taken, proposed_x, proposed_have)
    rows[first] = have
    rows[second] = total - have


def _log_factorial(x: Floats) -> Floats:
    """Of whole numbers."""
    return np.asarray(LOG_FACTORIAL[x.astype(np.int64)] if x.max(initial=0) < TABLED else gammaln(x + 1))


def _close(x: Floats) -> Floats:
    """How likely a step of x records from an end is, but for a factor."""
    return np.asarray(CLOSE[x.astype(np.int64)] if x.max(initial=0) < TABLED else np.log1p(1 / (x + 1)))
