"""Posterior of a network from noisy tables: latent counts drawn from the roots down, rows with a learned prior.

Each posterior draw has latent counts: a number of records, their counts in every family, and all probabilities. Nodes
are drawn in topological order. The N records of a parent configuration are split by the node's row, and `shrinkage.py`
draws the split and the row given the released evidence on this split. Families share records: where an ancestor's
family contains the parents, its counts in the same draw are the row totals. Where no family contains all parents,
totals are drawn around the prediction of the draw's probabilities, raked to the margins that families do contain. The
released evidence on the remaining interactions enters with a weight that grows with its contradiction of the network's
independence of the parents; that contradiction is estimated from the same numbers.

If a family was not measured whole, the rows of its largest measured part are drawn first, then the family's own rows
around them, raked to the counts of the other measured parts. Rows of a family without any measurement are draws from
the prior. A margin that is known far more precisely than the rest, such as an exact margin from an external source
beside noisy tables, is drawn separately, and the rest is raked to it (`raking.py`).

Evidence is used once. In the coordinates of interactions (`least_squares.py`) tables carry independent pieces of
evidence, one for each set of variables. The piece of a set is used at the set's last node, and margins that several
tables contain are pooled beforehand. What a node's rows imply about its ancestors beyond that is not used (a cut).

Cells are not negative, and most are empty: with this constraint, a large table determines its margins more precisely
than sums of its noisy cells do. Constrained least squares is nearer to the truth than plain least squares, but its
errors have no formula. They are simulated. A first pass with plain least squares makes a few draws; records simulated
from each of them, with noise of the release's law and fitted in the same way, show the errors; the variance of each
interaction is their mean square over records (errors are smaller in cells without records). The second pass uses the
constrained estimate and the mixture weights of rows that the first pass arrived at. The fast estimate uses the
constrained estimates without subtracting their bias, and their mean squared errors as variances: a bias may cost less
than the variance that it saves.

Intervals under a given prior use plain least squares: its errors are known and independent. Under the learned prior
they use the same model with three corrections for model doubt:

* *of the fit*: the mean error on the simulated records is subtracted, and the mean square around it is the variance.
  Where this is not below the variance of plain least squares, plain least squares is used. Errors of constrained
  estimates depend on each other, which the model ignores: variances are moved most of the way back to those without the
  constraint.
* *of margins of rows*: hundreds of rows of few records with a prior each imply, by the law of large numbers, a strong
  prior on the table's margins that was not intended. Therefore the child's margin has a prior of its own
  (Dirichlet(1/2); for the bins of a numeric column that of `ordered_bins.py`), and so has each parent's table with the
  child (`draw_pair_counts`). They are drawn from the evidence on themselves. The rows' counts are then raked to them,
  with minimal change (`raking.py`), and the rows' probabilities to margins that are drawn from these counts alone
  (`draw_moved_rows`).
* *of the learned prior* (`shrinkage.py`): it fits the average cell, but intervals must cover the rare cells, too.

Source: Williams and McSherry (2010), eq. 3, for noise in the likelihood; Bernstein and Sheldon (2018) for counts as
latent variables; cut distributions: Plummer (2015).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference.interactions import contrast_matrices, positions, transformed
from discreet.inference.sampling import sample_codes
from discreet.inference.weighted_records import ancestors_beyond
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.structural_zeros import clear_impossible, possible_cells
from discreet.model.tables import Tables
from discreet.noise.noise_laws import KNOWN_VARIANCE
from discreet.posterior.evidence import check_total, measurements
from discreet.posterior.pooled.cell_weights import BACK_OFF_CONCENTRATIONS, COMPONENTS, LEAST_MEAN, LONE_CONCENTRATIONS
from discreet.posterior.pooled.family_laws import ParentLaws, held_sets
from discreet.posterior.pooled.least_squares import (
    Margins,
    coordinates_of,
    coordinates_of_fit,
    fit_nonnegative,
    pooled_margins,
)
from discreet.posterior.pooled.measured import Measured, read_tables
from discreet.posterior.pooled.ordered_bins import FEWEST_BINS, MOST_BINS, draw_ordered_records
from discreet.posterior.pooled.raking import RAKING_ROUNDS, Goal, by_child, counts_of, goal, rake_counts, rake_to
from discreet.posterior.pooled.shrinkage import (
    DOUBT_SHARE,
    FILLED_RECORDS,
    PRIOR_WORTH_ROWS,
    RowDoubt,
    RowDraws,
    draw_rows,
)
from discreet.releases.combined import Evidence, evidence_of
from discreet.util.arrays import Floats, Ints, margin

# --------------------------------------------------------------------------------------------------------------------
# Probabilities of a family's rows given its counts, raked to margins that are each drawn once.
#
# A row is drawn from its counts and its pseudo-records. In hundreds of rows the pseudo-records add up to more than the
# number of records. They would bias the rows' margins and make them too precise: the child's law, and its laws given
# one parent or given all but one. Each of these margins is therefore drawn from its records alone, by the Bayesian
# bootstrap of the rows' records (Rubin, 1981), with half a record for each state: uniform for the child's law,
# proportional to that law in a slice. Proportional fitting rakes the rows to all margins and preserves odds ratios.
#
# Margins use the gamma variates of the rows' own records: rows of many records agree with the margins and hardly move.
# Rows are weighted by the parents' law of the same draw, the law with which their margins will be computed.

Array = npt.NDArray[np.floating]

MARGIN_CONCENTRATION = 0.5
"""Concentration of a state in the prior of a margin: Jeffreys (1946)."""
PARTS_ROUNDS = 40
"""Rounds of proportional fitting of counts to several parts of a family; where they depend strongly, 8 leave a third of
the difference, and 32 nothing that is seen."""
LEAST_MARGIN_CONCENTRATION = 1e-6
"""Least concentration of a state, so that it is possible."""
MOVING_ROUNDS = 5
"""Rounds of proportional fitting of rows to the drawn margins."""
LEAST_PROBABILITY = 1e-30
"""Least probability in a denominator."""
LARGEST_FACTOR = 1e6
"""Largest factor by which one round changes a probability; margins of states that no row expects are not met."""


def draw_moved_rows(
    counts: Ints, alpha: Floats, weights: Floats, records: Ints, law: Floats | None, rng: np.random.Generator
) -> Floats:
    """Draw the probabilities of a family's rows, raked to margins that are drawn by the Bayesian bootstrap.

    The margins are the child's law, its law given each parent, and its law given all but one parent; with one parent
    only the first. Rows are first drawn from Dirichlet(alpha + counts). The gamma variates of a row's own records are
    scaled to sum to `weights * records`; a margin is drawn as their sums plus gamma variates of its pseudo-records,
    normalised over the child. The child's law has MARGIN_CONCENTRATION (half a record) for each state, in proportion to
    `law` if there is one. A slice of a conditional margin has as many in all, in proportion to the drawn child's law;
    in DOUBT_SHARE of the draws, at random for each of its empty cells, such a cell has at least `n / (n +
    FILLED_RECORDS)`, with n the expected records of the slice. After MOVING_ROUNDS rounds of proportional fitting (two
    for a single margin) the margins are met approximately, and not at all for states that no row expects.

    Args:
        counts: records of each cell, shape `(*parents, child, draws)`; the family has at least one parent.
        alpha: pseudo-records of each cell, above 0, same shape.
        weights: probabilities of the parents, shape `(*parents, draws)`.
        records: total number of records, shape (draws,).
        law: law of the child, around which the pseudo-records of its margin lie, shape (child, draws); None for the
            uniform law.
        rng: source of randomness.

    Returns:
        Probabilities, float64, all positive, shape of the counts; rows sum to 1 over the child. Rows of weight 0, and
        those without records, are not raked: they are draws from Dirichlet(alpha + counts).
    """
    gammas, theta = _draw_gammas_and_rows(counts, alpha, rng)
    parents = tuple(range(counts.ndim - 2))
    sums = gammas.sum(axis=-2, keepdims=True)
    weights = np.where(sums > 0, weights[..., None, :], 0).astype(np.float32)
    effective = gammas * (weights * records / np.maximum(sums, LEAST_PROBABILITY)).astype(np.float32)
    # Margins: the child's law, given one parent, and given all but one. With two parents the last two coincide.
    sizes = [size for size in sorted({0, 1, len(parents) - 1}) if size < len(parents)]
    conditions = [axes for size in sizes for axes in combinations(parents, size)]
    goals, prior = [], np.full(1, MARGIN_CONCENTRATION, np.float32)
    if law is not None:
        prior = _concentrate(law).astype(np.float32)
    for condition in conditions:
        axes = tuple(axis for axis in parents if axis not in condition)
        wanted = effective.sum(axis=axes, keepdims=True)
        pseudo = np.broadcast_to(prior, wanted.shape)
        if condition:
            # In DOUBT_SHARE of the draws an empty cell of a margin gets up to one pseudo-record (`shrinkage.py`).
            doubted = (wanted == 0) & (rng.random(wanted.shape, dtype=np.float32) < DOUBT_SHARE)
            slices = wanted.sum(axis=-2, keepdims=True)
            pseudo = np.maximum(pseudo, doubted * (slices / (slices + FILLED_RECORDS)))
        # A Dirichlet draw is normalised gammas: those of the records, plus one for the pseudo-records.
        wanted += rng.standard_gamma(pseudo, dtype=np.float32)
        if not condition:
            prior = wanted * (MARGIN_CONCENTRATION * counts.shape[-2] / wanted.sum(axis=-2, keepdims=True))
        goals.append((axes, wanted / wanted.sum(axis=-2, keepdims=True), weights.sum(axis=axes, keepdims=True)))
    return _rake_rows(theta, weights, goals)


def _concentrate(law: Floats) -> Floats:
    """Compute concentrations that have MARGIN_CONCENTRATION a state on average, in proportion to a law.

    `law` has the shape (states, draws), and so has the result; each is at least LEAST_MARGIN_CONCENTRATION.
    """
    return np.asarray(np.maximum(MARGIN_CONCENTRATION * len(law) * law, LEAST_MARGIN_CONCENTRATION))


def _draw_gammas_and_rows(counts: Ints, alpha: Floats, rng: np.random.Generator) -> tuple[Array, Floats]:
    """Draw a gamma variate for the records of each cell, and rows from these and the variates of the pseudo-records.

    A row is `(G(n) + G(alpha)) / sum`, a draw from Dirichlet(alpha + n). In a row without records the G(alpha) are
    divided by their largest, so that they do not all underflow.

    Args:
        counts: records n of each cell, shape `(*parents, child, draws)`.
        alpha: pseudo-records of each cell, above 0, same shape.
        rng: source of randomness.

    Returns:
        The records' gamma variates (0 in empty cells), float32, and the rows' probabilities, float64, both of the shape
        of the counts. A probability can underflow to 0.
    """
    gammas = np.where(counts > 0, rng.standard_gamma(np.maximum(counts, 1)), 0.0)
    # Gamma variates of small shapes underflow to 0; their logarithms do not: log G(a) = log G(a + 1) + log(U) / a.
    logs = np.log(rng.standard_gamma(alpha + 1)) + np.log1p(-rng.random(alpha.shape)) / alpha
    logs -= np.where(gammas.sum(axis=-2, keepdims=True) > 0, 0, logs.max(axis=-2, keepdims=True))
    theta = np.exp(logs, out=logs)
    theta += gammas
    theta /= theta.sum(axis=-2, keepdims=True)
    return gammas.astype(np.float32), theta


def _rake_rows(theta: Floats, weights: Array, goals: Sequence[tuple[tuple[int, ...], Array, Array]]) -> Floats:
    """Rake rows to the child's laws in slices by proportional fitting; rows of weight 0 stay.

    A step multiplies each probability by wanted / current law of its slice, at most LARGEST_FACTOR, then normalises the
    rows. There are MOVING_ROUNDS rounds over all margins, two if there is a single margin. Probabilities, current laws
    and weights of slices are raised to LEAST_PROBABILITY.

    Args:
        theta: probabilities, shape `(*parents, child, draws)`; not changed.
        weights: weights of the rows, shape `(*parents, 1, draws)`.
        goals: for each margin the axes to sum over, the child's law in each slice and the slice's weight; summed axes
            have length 1.

    Returns:
        Probabilities, float64, all positive, shape of `theta`; rows sum to 1. Margins are met approximately.
    """
    moved = np.maximum(theta, LEAST_PROBABILITY).astype(np.float32)
    for _ in range(MOVING_ROUNDS if len(goals) > 1 else 2):
        for axes, wanted, weight in goals:
            current = (moved * weights).sum(axis=axes, keepdims=True)
            current /= np.maximum(weight, LEAST_PROBABILITY)
            np.maximum(current, LEAST_PROBABILITY, out=current)
            moved *= np.minimum(wanted / current, LARGEST_FACTOR)
            moved /= np.maximum(moved.sum(axis=-2, keepdims=True), LEAST_PROBABILITY)
    rows = np.where(weights > 0, moved, theta).astype(np.float64)
    np.maximum(rows, np.finfo(np.float64).tiny, out=rows)
    rows /= rows.sum(axis=-2, keepdims=True)
    return rows


# --------------------------------------------------------------------------------------------------------------------
# Rows of a family that was not measured whole: drawn around the rows of its measured part, or from the prior.
#
# The part has the child and some of its parents. A row of the part is the mean of the family's rows with the same
# states of these parents, weighted by their records. Their differences were not measured and come from the prior:
# Dirichlet around the part's row. Under the learned prior each row draws its concentration as the part's rows do, with
# the mixture weights that they arrived at. (The "on its own" components are centred at the part's row, too, and not at
# the uniform row: otherwise the part's row would not be the mean of the rows.) The drawn counts are then raked to the
# counts of the part, with minimal change.
#
# Rows of a family without any measurement are draws from the given prior; or under the learned prior they are drawn in
# the same way around a single row from Dirichlet(1/2), the prior of a child's margin.

SPREAD_CELLS_AT_ONCE = 2**22
"""Number of cells that are drawn together: about a hundred MB."""


def spread_rows(
    part: RowDraws,
    part_axes: Sequence[int],
    totals: Ints,
    weights: Floats,
    rng: np.random.Generator,
    alpha: Floats | None = None,
) -> RowDraws:
    """Draw all rows of a family around the rows of a measured part of it, and rake their counts to the part's.

    Under the learned prior each row has a Dirichlet prior around the part's row (at least LEAST_MEAN in each cell),
    with a concentration drawn from the mixture weights that the part's rows arrived at: in proportion to `part.usage +
    PRIOR_WORTH_ROWS * weights`. Under a given prior it is `alpha`, and the part enters only by its counts. Counts are
    multinomial draws given probabilities from this prior; they are raked to the part's, and probabilities are then
    drawn anew given the counts. Draws are made in blocks of at most about SPREAD_CELLS_AT_ONCE cells, at least one draw
    at a time.

    Args:
        part: draws of the part's rows, parents in the order of the family; not changed.
        part_axes: positions of the part's parents among those of the family, in increasing order; empty for a part
            without parents.
        totals: records of each row of the family, shape `(*parents, draws)`; the part's row totals are their sums.
        weights: prior mean of the mixture weights, shape (COMPONENTS,); not used under a given prior.
        rng: source of randomness.
        alpha: given concentrations, shape `(*parents, child)`; None for the learned prior.

    Returns:
        As many draws as the part has, parents in the order of the family; `alpha` has the concentrations of the prior.
        Row totals are met exactly, the part's counts up to random rounding and the error after RAKING_ROUNDS rounds.
        `mean` is the part's, repeated over the other parents, under the learned prior, and the mean over draws of
        `(alpha + counts) / sum` under a given one; `usage` is the part's.
    """
    *sizes, draws = totals.shape
    states = part.counts.shape[-2]
    other_axes = [axis for axis in range(len(sizes)) if axis not in part_axes]
    order = [*part_axes, *other_axes]
    rows, of_each = (math.prod(sizes[axis] for axis in axes) for axes in (part_axes, other_axes))
    grouped = totals.transpose(*order, len(sizes)).reshape(rows, of_each, draws)
    grouped_alpha = None if alpha is None else alpha.transpose(*order, len(sizes)).reshape(rows, of_each, states)
    block = max(SPREAD_CELLS_AT_ONCE // (rows * of_each * states), 1)
    drawn = [
        _spread_block(part, slice(first, first + block), grouped, weights, grouped_alpha, rng)
        for first in range(0, draws, block)
    ]
    shape = [*(sizes[axis] for axis in order), states]
    back = [*np.argsort(order).tolist(), len(sizes)]

    def ordered(index: int) -> Floats:
        """Join one of three arrays over blocks: shape `(*parents, child, draws)`, parents in the family's order.

        Args:
            index: 0 for counts, 1 for concentrations, 2 for probabilities.
        """
        table = np.concatenate([arrays[index] for arrays in drawn], axis=-1)
        return np.ascontiguousarray(table.reshape(*shape, draws).transpose(*back, len(back)))

    counts, concentrations, theta = ordered(0).astype(np.int64), ordered(1), ordered(2)
    if alpha is not None:
        mean = ((counts + concentrations) / (counts + concentrations).sum(axis=-2, keepdims=True)).mean(axis=-1)
    else:
        repeated = [size if axis in part_axes else 1 for axis, size in enumerate(sizes)]
        mean = np.broadcast_to(part.mean.reshape(*repeated, states), (*sizes, states)).copy()
    return RowDraws(counts, concentrations, theta, mean, part.usage)


def unmeasured_rows(
    totals: Ints, states: int, weights: Floats, rng: np.random.Generator, alpha: Floats | None = None
) -> RowDraws:
    """Draw all rows of a family without any measurement from the prior.

    Under the learned prior, rows are drawn around a common row from Dirichlet(1/2), by `spread_rows`; the single row of
    a family without parents is that row itself. Under a given prior rows are draws from Dirichlet(alpha). Counts are
    multinomial given the totals, and the returned probabilities are drawn anew from Dirichlet(concentrations + counts).

    Args:
        totals: records of each row, shape `(*parents, draws)`.
        states: number of states of the child.
        weights: prior mean of the mixture weights, shape (COMPONENTS,); used only under the learned prior with parents.
        rng: source of randomness.
        alpha: given concentrations, shape `(*parents, child)`; None for the learned prior.

    Returns:
        As many draws as `totals` has. `mean` is the prior's mean, uniform under the learned prior, and `usage` zero.
    """
    if alpha is None and totals.ndim > 1:
        records = totals.sum(axis=tuple(range(totals.ndim - 1)))
        return spread_rows(unmeasured_rows(records, states, weights, rng), [], totals, weights, rng)
    concentration = np.full(states, MARGIN_CONCENTRATION) if alpha is None else alpha
    alphas = np.broadcast_to(concentration[..., None], (*concentration.shape, totals.shape[-1]))
    probabilities = np.moveaxis(_draw_dirichlet_rows(alphas, rng), -2, -1)
    counts = np.moveaxis(rng.multinomial(totals, probabilities / probabilities.sum(axis=-1, keepdims=True)), -1, -2)
    mean = concentration / concentration.sum(axis=-1, keepdims=True)
    theta = _draw_dirichlet_rows(np.asarray(counts + alphas, np.float64), rng)
    return RowDraws(np.ascontiguousarray(counts, np.int64), np.asarray(alphas), theta, mean, np.zeros(COMPONENTS))


def _draw_dirichlet_rows(concentrations: Floats, rng: np.random.Generator) -> Floats:
    """Draw independent Dirichlet rows; concentrations and result have the shape `(*parents, child, draws)`."""
    shape = concentrations.shape
    return dirichlet_draws(concentrations.reshape(-1, *shape[-2:]), rng).reshape(shape)


def _spread_block(
    part: RowDraws, which: slice, totals: Ints, weights: Floats, alpha: Floats | None, rng: np.random.Generator
) -> tuple[Ints, Floats, Floats]:
    """Draw a block of a family's rows around the part's rows, and rake the counts to the part's.

    "Other rows" are the configurations of the parents that the part lacks. Under the learned prior each row and draw
    has a concentration of its own, picked in proportion to `part.usage + PRIOR_WORTH_ROWS * weights` from
    BACK_OFF_CONCENTRATIONS and states times LONE_CONCENTRATIONS, and is Dirichlet around the part's row in this draw,
    at least LEAST_MEAN in each cell. Under a given prior it is Dirichlet(alpha). Counts are multinomial given
    probabilities drawn from this prior. For each row of the part they are raked to its counts (`rake_counts`).

    Args:
        part: draws of the part's rows.
        which: slice of the draws.
        totals: records of each row of the family in all draws, shape `(part rows, other rows, draws)`.
        weights: prior mean of the mixture weights, shape (COMPONENTS,).
        alpha: given concentrations, shape `(part rows, other rows, child)`; None for the learned prior.
        rng: source of randomness.

    Returns:
        Counts, concentrations and probabilities of the block's draws, each of shape `(part rows, other rows, child,
        draws)`. Probabilities are drawn anew given concentrations and raked counts.
    """
    rows, of_each, _ = totals.shape
    theta, counts = (array[..., which].reshape(rows, array.shape[-2], -1) for array in (part.theta, part.counts))
    states, draws = theta.shape[1:]
    n = totals[..., which]
    if alpha is None:
        chances = part.usage + PRIOR_WORTH_ROWS * weights
        picked = rng.choice(len(chances), size=(rows, of_each, draws), p=chances / chances.sum())
        concentration = np.concatenate([BACK_OFF_CONCENTRATIONS, states * LONE_CONCENTRATIONS])[picked]
        around = concentration[:, :, None, :] * np.maximum(theta[:, None], LEAST_MEAN)
    else:
        around = np.broadcast_to(alpha[..., None], (rows, of_each, states, draws))
    flat = (rows * of_each, states, draws)
    chance = np.moveaxis(dirichlet_draws(around.reshape(flat), rng), 1, -1)
    drawn = np.moveaxis(rng.multinomial(n.reshape(flat[0], draws), chance / chance.sum(axis=-1, keepdims=True)), -1, 1)
    # For each row of the part, rake the table of other rows by the child's states to the part's counts.
    tables = drawn.reshape(rows, of_each, states, draws).transpose(1, 2, 0, 3).reshape(of_each, states, rows * draws)
    wanted: Ints = counts.transpose(1, 0, 2).reshape(states, rows * draws).astype(np.int64)
    moved = rake_counts(tables, wanted, rng)
    block_counts = moved.reshape(of_each, states, rows, draws).transpose(2, 0, 1, 3)
    probabilities = dirichlet_draws((block_counts + around).reshape(flat), rng).reshape(block_counts.shape)
    return block_counts, np.asarray(around), probabilities


# --------------------------------------------------------------------------------------------------------------------
# Counts of a parent and the child, drawn from the evidence on their own table alone, given both of its margins.
#
# Every row of a family has a prior, and hundreds of them imply a strong prior on the child's dependence on one parent
# that was not intended. The table of the two therefore has one prior of its own, and its counts are drawn from the
# evidence on their interaction. Given both margins, with shares w and q of N records, the interaction is normal around
# that of independent counts with the covariance
#
#     (N + N^2 tau^2)  (diag(w) - w w')  x  (diag(q) - q q')
#
# over cells: N is the sampling variance of records that are independent of each other (the multivariate hypergeometric
# law), and tau the strength of the dependence: the mean-square contingency is about tau^2 for each coordinate. Each
# draw picks tau from a grid by the likelihood of the evidence. In the eigenbasis of both factors all coordinates are
# independent, and so is their noise.

DEPENDENCES: npt.NDArray[np.float64] = np.array([0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64])
"""Grid of dependences tau, uniform a priori: 0, and factors of 2 up to where any evidence outweighs the prior."""


def draw_pair_counts(values: Floats, variance: float, rows: Ints, child: Ints, rng: np.random.Generator) -> Ints:
    """Draw the counts of a parent and the child given both margins and evidence on their interaction.

    Each draw picks its dependence tau from DEPENDENCES by the likelihood of the evidence, then draws the interaction
    from its conjugate normal law around that of independent counts. Cells of the drawn normal table that are negative
    are set to 0; the table is then raked to both margins and rounded at random. The principal axes are those at the
    mean shares over the draws. If either variable has one state, there is no interaction, and the independent counts
    are raked and rounded.

    Args:
        values: measured coordinates of the interaction, shape `(parent - 1, child - 1)`; unit: records.
        variance: variance of the error of each coordinate; raised to KNOWN_VARIANCE.
        rows: records of the parent's states, shape (parent, draws). Their sums are the numbers of records, taken as 1
            if 0.
        child: records of the child's states, shape (child, draws).
        rng: source of randomness.

    Returns:
        Whole counts, int64, shape (parent, child, draws); row totals are met exactly, the child's margin up to rounding
        and the error after RAKING_ROUNDS rounds.
    """
    records = np.maximum(rows.sum(axis=0), 1.0)
    (left, right), shares = contrast_matrices((len(rows), len(child))), (rows / records, child / records)
    expected = rows[:, None] * shares[1]
    (scale, basis), (child_scale, child_basis) = _diagonalise(shares[0], left), _diagonalise(shares[1], right)
    turn = basis.T @ left[1:], child_basis.T @ right[1:]
    innovation = np.einsum("ia,jb,abd->ijd", *turn, -expected, optimize=True)
    innovation = innovation + (basis.T @ values @ child_basis)[..., None]
    share = scale[:, None] * child_scale
    # Along a pair of axes innovation ~ N(0, prior + variance), prior = (n + (n tau)^2) share: the likelihood of tau.
    prior = (records + (records * DEPENDENCES[:, None]) ** 2)[:, None, None] * share[..., None]
    total = prior + max(variance, KNOWN_VARIANCE)
    fit = -0.5 * (np.log(total) + innovation**2 / total).sum(axis=(1, 2))
    chances = np.exp(fit - fit.max(axis=0)).cumsum(axis=0)
    picked = (rng.random(len(records)) * chances[-1] >= chances[:-1]).sum(axis=0)
    # Conjugate normal update of the interaction at the drawn tau.
    gain = np.take_along_axis(prior / total, picked[None, None, None], axis=0)[0]
    drawn = gain * innovation + np.sqrt(gain * max(variance, KNOWN_VARIANCE)) * rng.standard_normal(innovation.shape)
    cells = np.maximum(expected + np.einsum("ia,jb,ijd->abd", *turn, drawn, optimize=True), 0)
    return counts_of(rake_to(by_child(cells), rows, [goal(1, (), child)], rng))


def _diagonalise(shares: Floats, contrasts: Floats) -> tuple[Floats, Floats]:
    """Diagonalise the multinomial covariance `C (diag(p) - p p') C'` of a variable's contrasts; p is its mean share.

    Args:
        shares: shares of the states, shape (states, draws); p is their mean over draws.
        contrasts: contrast matrix, shape (states, states); its first row is the total and is left out of C.

    Returns:
        Variances along the principal axes in increasing order, at least 2^-52, shape (states - 1,), and the axes as
        columns, shape (states - 1, states - 1).
    """
    mean = shares.mean(axis=-1)
    scales, basis = np.linalg.eigh(contrasts[1:] @ (np.diag(mean) - np.outer(mean, mean)) @ contrasts[1:].T)
    return np.maximum(scales, math.ulp(1.0)), basis


FIRST_PASS_DRAWS, LEAST_FIRST_PASS_DRAWS, FIRST_PASS_CELLS = 16, 4, 2**21
"""Draws of the first pass, each with simulated records of its own: the relative error of an interaction's variance is
below 1/4 from the first 32 coordinates on, and families share the rest. Fewer draws, but at least
LEAST_FIRST_PASS_DRAWS, where all their tables would have more than FIRST_PASS_CELLS cells together: four lead to
deviations for intervals 2 % longer, by VARIANCE_CAUTION, than sixteen do."""
NOISES_PER_DRAW = 8
"""Noise replicates for each draw's records: a variance with a relative error of 1/3 shortens intervals by only 1.5
points."""
MOST_REPEATED_CELLS = 2**20
"""Largest number of cells of all tables in each draw of the first pass: four such draws take 32 MiB."""
ROUGH_TOLERANCE = 0.1
"""Tolerance of fits to simulated tables, in standard deviations of the noise; it changes their errors by less than a
hundredth."""
VARIANCE_CAUTION = 0.75
"""Exponent of the geometric mean by which the variances of errors are moved towards those without the constraint. One
cell that is clamped to 0 moves many interactions at once, but the model treats their errors as independent. On six
networks at epsilon 0.1 and 1, three releases each, intervals of marginals cover 94.6 %, and 93.4 with 0.5, at 0.93
times the width."""
CELLS_WORTH_REPEATING = 2**16
"""Cells of one table in all replicates of a draw: tables of many cells estimate an error without replicates."""
MOST_MADE_UP_RECORDS = 100_000
"""Largest number of simulated records for each draw; more are represented by weights."""
LARGEST_COUNT = 2.0**60
"""Largest noisy count, so that sums stay within 64 bits."""
LEAST_CELL_RECORDS = 1e-9
"""Least expected records of a cell, so that it can be scaled."""
PRECISE_VARIANCE_RATIO = 0.02
"""Ratio of a coordinate's variance to the largest of its table below which its margin is drawn separately: counts are
drawn as if the variance were this large and then raked to the margin. Otherwise the other coordinates would mix too
slowly."""
HELD_FIT_ROUNDS = 3
"""Rounds of proportional fitting to fixed margins, which agree with each other up to sampling error."""


class LatentCounts:
    """Posterior draws of latent counts and probabilities; a family is drawn and kept at its first use.

    Args:
        margins: evidence: estimates of all margins with their error variances.
        draws: number of posterior draws.
        rng: source of randomness. Each family has a generator of its own, so its draws do not depend on which other
            families are used.
        weights: prior mean of the rows' mixture weights, shape (COMPONENTS,); uniform by default.
        prior: given Dirichlet prior of the rows; None for the learned prior.
        doubt: whether to apply the corrections for model doubt that intervals need; see the module's docstring.
        quick: whether chains are short: they start and end at separately drawn margins, and the evidence on these
            margins is taken to be no more precise than the rest. Always so with `doubt`.
    """

    def __init__(
        self,
        margins: Margins,
        draws: int,
        rng: np.random.Generator,
        *,
        weights: Floats | None = None,
        prior: Dirichlet | None = None,
        doubt: bool = False,
        quick: bool = False,
    ) -> None:
        """Draw the number of records of each draw, and give each family a generator; families are drawn at first use.

        The number is normal around the estimated total with its error variance, rounded, at least 0. One generator more
        gives the seed of simulated records, which laws of parents use where exact inference is out of reach
        (`ParentLaws`). Without `weights` all COMPONENTS have the same weight.
        """
        self._doubt, self._quick = doubt, quick or doubt
        self.network = margins.network
        self._margins = margins
        self.weights = np.full(COMPONENTS, 1 / COMPONENTS) if weights is None else weights
        self._prior = prior
        self._rows: dict[str, RowDraws] = {}
        self._ordered_laws: dict[str, Floats] = {}
        number, *generators, more = rng.spawn(2 + len(self.network.nodes))
        self._generators = dict(zip(self.network.nodes, generators, strict=True))
        estimate, variance = margins.total
        drawn = np.rint(estimate + math.sqrt(variance) * number.standard_normal(draws))
        self._records = np.maximum(drawn, 0).astype(np.int64)
        self._seed = int(more.integers(2**63))
        self.probabilities = Tables(self.network, lambda node: self.rows(node).theta, draws=draws)
        self.replicates = Tables(self.network, self._redraw_rows, draws=draws)
        both = (self.probabilities, self.replicates)
        self._laws, self._replicate_laws = (ParentLaws(cells, self._seed) for cells in both)

    def rows(self, node: str) -> RowDraws:
        """Return the draws of a family, drawn at its first use and kept.

        Ancestors that are missing are drawn first, from the roots down.
        """
        # From the roots down, because recursion along a long chain would be as deep as the chain is long.
        for name in ancestors_beyond(self.network, (node,), self._rows.keys()):
            self._draw_family(name)
        return self._rows[node]

    def _redraw_rows(self, node: str) -> Floats:
        """Draw a family's probabilities anew, given the same counts and concentrations.

        They are from Dirichlet(alpha + counts). If the family's rows are raked (`_is_moved`), so are these, to margins
        drawn anew, with weights from the replicates of the ancestors. Impossible cells are then emptied. A family that
        is missing is drawn first. The result is not kept here.

        Returns:
            Shape `(*parents, child, draws)`.
        """
        rows = self.rows(node)
        if not self._is_moved(node):
            again = dirichlet_draws(rows.counts + rows.alpha, self._generators[node])
        else:
            again = self._move_rows(node, rows, self._replicate_laws, self._generators[node])
        return clear_impossible(self.network.schema, self.network.family(node), again, rows=True)

    def _is_moved(self, node: str) -> bool:
        """True if a family's rows are raked to separately drawn margins: `doubt`, the learned prior, and parents."""
        return self._doubt and self._prior is None and bool(self.network.parents[node])

    def _move_rows(self, node: str, rows: RowDraws, laws: ParentLaws, rng: np.random.Generator) -> Floats:
        """Draw the probabilities of a family's rows, raked to margins that are each drawn once (`draw_moved_rows`).

        Args:
            node: child of the family; it has parents.
            rows: counts and concentrations of the family.
            laws: laws of the parents that weight the rows.
            rng: source of randomness.

        Returns:
            Probabilities, float64, shape `(*parents, child, draws)`; `rows` is not changed.
        """
        weights, law = laws.law(self.network.parents[node]), self._ordered_laws.get(node)
        return draw_moved_rows(rows.counts, rows.alpha, weights, self._records, law, rng)

    def _draw_family(self, node: str) -> None:
        """Draw a family whose ancestors are drawn already, and keep it in `_rows`; `node` is its child.

        Without any measurement its rows are draws from the prior, and nothing is raked. Else the rows of the largest
        measured part are drawn (`_draw_part`), the family's own rows around them if the part is not all of it
        (`spread_rows`), and their counts are raked to draws of all measured parts at once. With `doubt`, the learned
        prior and at least one parent, the probabilities are then drawn anew, raked to separately drawn margins. After
        each of these steps impossible cells are emptied (`_hold_zeros`).
        """
        family, measured = self.network.family(node), self._margins.measured_parts(node)
        alpha = None if self._prior is None else self._prior.alpha[node]
        rng = self._generators[node]
        totals = self._draw_totals(node, rng)
        if not measured:
            states = self.network.schema[node].size
            self._rows[node] = self._hold_zeros(family, unmeasured_rows(totals, states, self.weights, rng, alpha), rng)
            return
        part, *extras = measured
        rows = self._draw_part(part, *self._sum_to_part(family, part, totals, alpha), rng)
        if part != family:
            part_axes = [family.index(name) for name in part[:-1]]
            drawn = goal(len(family) - 1, part_axes, rows.counts)
            rows = spread_rows(rows, part_axes, totals, self.weights, rng, alpha)
            rows = self._move_to_parts(rows, family, extras, (totals, alpha), rng, [drawn])
        self._rows[node] = rows = self._hold_zeros(family, rows, rng)
        if self._is_moved(node):
            self._rows[node] = self._hold_zeros(
                family, replace(rows, theta=self._move_rows(node, rows, self._laws, rng)), rng
            )

    def _hold_zeros(self, family: Scope, rows: RowDraws, rng: np.random.Generator) -> RowDraws:
        """Empty the impossible cells of a family: their records go to the possible cells of their rows, by its odds.

        Args:
            family: parents, then the child.
            rows: draws of its rows; impossible parents have no records, but for errors of their laws.
            rng: source of randomness.

        Returns:
            A copy whose impossible cells have no records and probability 0, with rows that sum to 1; the rows
            themselves if all cells are possible.
        """
        possible = possible_cells(self.network.schema, family)
        if possible is None:
            return rows
        both = (rows.theta, rows.mean[..., None])
        theta, mean = (clear_impossible(self.network.schema, family, each, rows=True) for each in both)
        held = np.where(possible[..., None], rows.counts, 0)
        moved = (rows.counts - held).sum(axis=-2)
        counts = held + np.moveaxis(rng.multinomial(moved, np.moveaxis(theta, -2, -1)), -1, -2)
        return replace(rows, counts=counts, theta=theta, mean=mean[..., 0])

    def _draw_part(self, part: Scope, totals: Ints, alpha: Floats | None, rng: np.random.Generator) -> RowDraws:
        """Draw the rows of a family, or of a part of it, that was measured as a whole.

        A numeric variable alone whose bins are ordered (`_is_ordered`) is drawn by `_draw_ordered`, if all its
        coordinates were measured. Other rows are drawn by Markov chains (`draw_rows`).

        Under `quick` with the learned prior, the child's margin and, with several parents, its tables with one parent
        are drawn first, and the chains start and end at them; the chains then take the evidence on these margins to be
        no more precise than the rest (`_raise_margin_variances`).

        Margins that are far more precise than the rest (PRECISE_VARIANCE_RATIO) are applied last: rows are drawn as if
        no coordinate had a variance below PRECISE_VARIANCE_RATIO times the largest; then each margin is drawn from its
        own evidence, the rows' counts are raked to all of them at once, and their probabilities are drawn anew. Under
        `quick` with the learned prior these are only margins of three or more variables.

        Args:
            part: names of the parents and the child, the child last.
            totals: records of each row of the part, shape `(*parents, draws)`.
            alpha: given concentrations, shape `(*parents, child)`; None for the learned prior.
            rng: source of randomness.

        Returns:
            Counts, concentrations and probabilities of each row in each draw; the counts sum to `totals`.
        """
        values, variances = self._margins.coordinates(part)
        if self._is_ordered(part) and np.isfinite(variances).all():
            return self._draw_ordered(part[0], values, float(variances[1:].mean()), totals, rng)
        precise = self._margins.precise_parts(part, PRECISE_VARIANCE_RATIO)
        doubt = None
        if self._quick and self._prior is None:
            doubt = RowDoubt(self._draw_margins(part, totals, rng), rare=self._doubt)
            variances = _raise_margin_variances(variances)
            precise = [subset for subset in precise if subset[2:]]
        if precise:
            variances = np.maximum(variances, PRECISE_VARIANCE_RATIO * variances[..., 1:].max())
        rows = draw_rows(values, variances, totals, self.weights, rng, alpha=alpha, doubt=doubt)
        return self._move_to_parts(rows, part, precise, (totals, alpha), rng)

    def _is_ordered(self, part: Scope) -> bool:
        """True for a numeric variable alone under the learned prior, with FEWEST_BINS (3) to MOST_BINS (256) bins."""
        ordered = FEWEST_BINS <= len(self.network.schema[part[0]].bins) + 1 <= MOST_BINS
        return self._prior is None and len(part) == 1 and ordered

    def _draw_ordered(
        self, node: str, values: Floats, variance: float, totals: Ints, rng: np.random.Generator
    ) -> RowDraws:
        """Draw the counts of a numeric variable under a prior by which neighbouring bins are alike.

        The measured total is replaced by the mean of `totals`.

        Args:
            node: its name.
            values: coordinates of its counts, shape (states,).
            variance: variance of the error of a coordinate, that of the total aside; raised to KNOWN_VARIANCE.
            totals: records, shape (draws,).
            rng: source of randomness.

        Returns:
            Its single row, with counts that sum to `totals`; pseudo-records lie where the drawn law, which is kept for
            `_move_rows`, has its own. `usage` is zero.
        """
        centred = np.concatenate([[totals.mean() / math.sqrt(len(values))], values[1:]])
        estimates = transformed(centred[:, None], contrast_matrices(centred.shape), back=True)[:, 0]
        bins = len(self.network.schema[node].bins) + 1
        expected, counted = draw_ordered_records(estimates, max(variance, KNOWN_VARIANCE), bins, totals, rng)
        self._ordered_laws[node] = expected / expected.sum(axis=0)
        counts = counts_of(rake_to(counted, totals, [], rng))
        alpha = _concentrate(self._ordered_laws[node])
        mean = ((counts + alpha) / (counts + alpha).sum(axis=0)).mean(axis=-1)
        return RowDraws(counts, alpha, dirichlet_draws(counts + alpha, rng), mean, np.zeros(COMPONENTS))

    def _draw_margins(self, part: Scope, totals: Ints, rng: np.random.Generator) -> list[Goal]:
        """Draw counts of the child, and of each parent with the child, each from the evidence on its own table.

        The child's counts have the prior Dirichlet(1/2), or that of ordered bins (`_draw_ordered`); those with a parent
        are drawn given both of their margins (`draw_pair_counts`), with the largest error variance of the interaction's
        coordinates.

        Args:
            part: names of the parents and the child, the child last.
            totals: records of each row, shape `(*parents, draws)`.
            rng: source of randomness.

        Returns:
            Goals of `raking.rake_to`: an empty list without parents; the child's margin alone with one parent; else one
            for each parent, its table with the child.
        """
        *parents, child = part
        if not parents:
            return []
        alpha = np.full(self.network.schema[child].size, MARGIN_CONCENTRATION)
        child_counts = self._draw_part((child,), self._sum_to_part(part, (child,), totals, None)[0], alpha, rng).counts
        if not parents[1:]:
            return [goal(1, (), child_counts)]
        goals = []
        for axis, parent in enumerate(parents):
            values, variances = self._margins.coordinates((parent, child))
            rows, _ = self._sum_to_part(part, (parent, child), totals, None)
            error = float(variances[1:, 1:].max(initial=0))
            goals.append(goal(len(parents), [axis], draw_pair_counts(values[1:, 1:], error, rows, child_counts, rng)))
        return goals

    def _move_to_parts(
        self,
        rows: RowDraws,
        names: Scope,
        parts: Sequence[Scope],
        sums: tuple[Ints, Floats | None],
        rng: np.random.Generator,
        goals: Sequence[Goal] = (),
    ) -> RowDraws:
        """Draw counts of parts, each from its own margin alone, rake the rows' counts to all, draw probabilities anew.

        Under the learned prior, a part of the child alone has the prior Dirichlet(1/2), or that of ordered bins. Raking
        takes RAKING_ROUNDS rounds for a single margin, PARTS_ROUNDS for several.

        Args:
            rows: draws to move; not changed.
            names: names of the rows' parents and child, the child last.
            parts: names of each part, in the same order. Without any, the rows stay.
            sums: records of each row and given concentrations (or None), as `_sum_to_part` takes them.
            rng: source of randomness.
            goals: further margins that the rows have already and keep (`raking.goal`).

        Returns:
            A copy with moved counts, new probabilities and their mean; row totals are met exactly, margins
            approximately. Where parts contradict each other, the last one is met. `usage` stays that of `rows`.
        """
        if not parts:
            return rows
        wanted = list(goals)
        for part in parts:
            totals, alpha = self._sum_to_part(names, part, *sums)
            if alpha is None and not part[:-1]:
                alpha = np.full(self.network.schema[part[-1]].size, MARGIN_CONCENTRATION)
            counts = self._draw_part(part, totals, alpha, rng).counts
            wanted.append(goal(len(names) - 1, [names.index(name) for name in part[:-1]], counts))
        rounds = PARTS_ROUNDS if wanted[1:] else RAKING_ROUNDS
        cells = rake_to(by_child(rows.counts).astype(np.float64), sums[0], wanted, rng, rounds)
        return rows.with_counts(counts_of(cells), rng)

    @staticmethod
    def _sum_to_part(family: Scope, part: Scope, totals: Ints, alpha: Floats | None) -> tuple[Ints, Floats | None]:
        """Sum row totals and concentrations over the parents that a part of a family lacks.

        Args:
            family: names of the parents and the child, the child last.
            part: some of these names, in any order but the child last.
            totals: records of each row, shape `(*parents, draws)`.
            alpha: concentrations, shape `(*parents, child)`, or None.

        Returns:
            Both sums, parents in the order of the part; None for the concentrations if they are None.
        """
        return margin(totals, family[:-1], part[:-1]), None if alpha is None else margin(alpha, family, part)

    def _draw_totals(self, node: str, rng: np.random.Generator) -> Ints:
        """Draw the number of records of each parent configuration.

        Without parents, these are the numbers of all records. If one family contains all parents, its counts are
        summed. Else expected counts `N P(parents)` from the draw's probabilities, at least LEAST_CELL_RECORDS, are
        raked to the families' counts, updated by a draw from the evidence on interactions that no family contains (with
        the mean of their variances), and raked again; without such evidence they get no variation but the rounding. The
        prior variance of a cell is its expected count plus `_excess_variance`. Cells are taken as independent: each
        moves by `gain = prior / (prior + variance)` times its difference from the evidence, in which other interactions
        have none, plus normal noise of variance `gain * variance`; it is at least LEAST_CELL_RECORDS again. Every cell
        is then rounded by itself at random: families' counts and the number of records are met only up to rounding and
        the error after HELD_FIT_ROUNDS rounds.

        Args:
            node: child of the parents; all ancestors are drawn.
            rng: source of randomness.

        Returns:
            Counts, int64, shape `(*parents, draws)`; (draws,) without parents.
        """
        parents = self.network.parents[node]
        if not parents:
            return self._records
        held = self._sum_to_held_sets(parents)
        if len(held) == 1:
            return next(iter(held.values()))
        # Expected counts N P(parents), raked to the margins that families contain.
        expected = _rake_to_held(np.maximum(self._laws.law(parents) * self._records, LEAST_CELL_RECORDS), held, parents)
        values, variances = self._margins.coordinates(parents)
        unknown = np.isfinite(variances)
        for inside, index in positions(parents):
            if any(set(inside) <= set(names) for names in held):
                unknown[index] = False
        matrices = contrast_matrices(values.shape)
        difference = np.where(unknown, values, 0.0)[..., None] - unknown[..., None] * transformed(expected, matrices)
        innovation = transformed(difference, matrices, back=True)
        variance = float(variances[unknown].mean()) if unknown.any() else 0.0
        prior = expected + _excess_variance(difference[unknown], variance + expected.mean())
        # Conjugate normal update, with cells (and so their coordinates) taken as independent.
        gain = prior / (prior + variance)
        drawn = expected + gain * innovation + np.sqrt(gain * variance) * rng.standard_normal(expected.shape)
        fitted = _rake_to_held(np.maximum(drawn, LEAST_CELL_RECORDS), held, parents)
        # Unbiased random rounding: floor(x + U).
        return np.floor(fitted + rng.random(fitted.shape)).astype(np.int64)

    def _sum_to_held_sets(self, parents: Sequence[str]) -> dict[Scope, Ints]:
        """Sum the parents' families, already drawn, to the largest sets of parents that they contain (`held_sets`).

        Returns:
            By set of parents, counts of shape `(*sizes, draws)`, axes in the order of the set; one set if it has all
            parents.
        """
        family, rows = self.network.family, self._rows
        return {
            names: margin(rows[holder].counts, family(holder), names)
            for names, holder in held_sets(self.network, tuple(parents)).items()
        }


def _excess_variance(news: Floats, explained: float) -> float:
    """Estimate the variance of parents' interactions beyond sampling and noise: `max(mean square - explained, 0)`.

    The variance of Poisson counts is their mean. Parents that depend on each other although no arc joins them deviate
    from the network's expectation by more; this is a moment estimate of the excess.

    Args:
        news: measured less expected coordinates, in records, shape `(coordinates, draws)`.
        explained: variance of a coordinate due to sampling and noise.

    Returns:
        Squared records, the same for all coordinates and draws; 0 without coordinates.
    """
    return max(float(np.square(news).mean()) - explained, 0.0) if news.size else 0.0


def _raise_margin_variances(variances: Floats) -> Floats:
    """Raise the variance of each separately drawn margin to at least the smallest of a family's other coordinates.

    These margins are the child's and, with several parents, each parent's with the child. Coordinates of row totals
    (index 0 on the child's axis) are neither raised nor among the others; margins that were not measured are among
    them.

    Args:
        variances: error variances of coordinates, shape `(*parents, child)`; infinite where not measured, and these are
            not raised.

    Returns:
        A copy, which is unchanged without parents. Without other coordinates it is the argument itself; where all the
        others are infinite, so are the margins.
    """
    parents = variances.ndim - 1
    sizes = np.indices(variances.shape)[:-1].astype(bool).sum(axis=0)
    in_margins = (sizes < min(parents, 2)) & np.isfinite(variances)
    in_margins[..., 0] = False
    rest = variances[..., 1:][~in_margins[..., 1:]]
    return np.where(in_margins, np.maximum(variances, rest.min(initial=np.inf)), variances) if rest.size else variances


def draw_latent_counts(
    evidence: Evidence,
    draws: int,
    rng: np.random.Generator,
    prior: Dirichlet | None = None,
    *,
    doubt: bool = True,
    saturated: Network | None = None,
) -> LatentCounts:
    """Draw counts and probabilities jointly from noisy tables, in two passes.

    The first pass draws all families from plain least squares, FIRST_PASS_DRAWS (16) times, or as many times as their
    tables have at most FIRST_PASS_CELLS cells together, but at least LEAST_FIRST_PASS_DRAWS (4). From it come the
    mixture weights, in proportion to the number of rows that used each component plus 0.5, and the simulated errors of
    the constrained fit. The second pass draws from the fit corrected by these errors (`for_intervals` with `doubt`,
    else `as_measured`). If there are contrasts or weighted sums, or if the tables have more than MOST_REPEATED_CELLS
    cells together, there is no constrained fit, and the second pass draws from plain least squares, too. Under a given
    prior with `doubt` the only pass draws from plain least squares, without any correction. Families of the last pass
    are drawn at first use.

    Args:
        evidence: noisy counts, tables, contrasts or weighted sums on one data set; public records are not read.
        draws: number of posterior draws.
        rng: source of randomness; two children are spawned, and no numbers are drawn from it itself.
        prior: given Dirichlet prior of the rows, over the network whose rows are drawn; None for the learned prior.
        doubt: whether to apply the corrections that intervals need; without them the means are as precise as the model
            allows.
        saturated: network whose rows are drawn, over the same variables; by default that of the releases.

    Returns:
        The draws; the module's docstring has the model.

    Raises:
        InputError: measurements that do not determine the number of records, then a release of another kind or several
            data sets, then counts beyond LARGEST_COUNT (2^60).
    """
    combined = evidence_of(evidence)
    check_total(combined)
    if len(combined.data_sets) > 1 or not all(measurements([source]) for source in combined.parts):
        raise InputError("only noisy tables and contrasts of one data set can be read in this way")
    network, records, measured = saturated or combined.network, combined.records[0], measurements(combined.parts)
    if any(np.abs(datum.values.astype(np.float64)).max(initial=0) > LARGEST_COUNT for datum in measured):
        raise InputError("the release has noisy counts beyond 2^60, which nothing can be read from; is it damaged?")
    first_pass, second_pass = rng.spawn(2)
    noisy = read_tables(network, measured) if all(datum.table for datum in measured) else None
    plain = pooled_margins(network, measured, records)
    if doubt and prior is not None:
        # Under a correct given prior, known and independent errors make the ranks of the truth uniform.
        return LatentCounts(plain, draws, second_pass, prior=prior)
    cells = sum(network.cells(network.family(node)) for node in network.nodes)
    few = min(max(FIRST_PASS_CELLS // cells, LEAST_FIRST_PASS_DRAWS), FIRST_PASS_DRAWS)
    first = LatentCounts(plain, few, first_pass, prior=prior, quick=True)
    usage = np.sum([first.rows(node).usage for node in network.nodes], axis=0) + 0.5
    margins = plain
    # Noise of contrasts is not independent over cells, and simulated tables beyond that size would not fit into memory:
    # then plain least squares is kept, and intervals are longer than necessary.
    if noisy is not None and sum(table.size for table in noisy.tables.values()) <= MOST_REPEATED_CELLS:
        constrained = _fit_constrained(noisy, plain, first.probabilities, first_pass)
        margins = constrained.for_intervals() if doubt else constrained.as_measured()
    return LatentCounts(margins, draws, second_pass, weights=usage / usage.sum(), prior=prior, doubt=doubt)


@dataclass(frozen=True, eq=False)
class _Constrained:
    """Coordinates of the nonnegative fit of tables, and simulated errors of such fits.

    Args:
        plain: plain least squares of the same tables.
        values: fitted coordinates by subset of variables, shape `(size - 1 for S)`.
        errors: errors of fits to simulated tables by subset, shape `(size - 1 for S, repetitions)`; repetitions of the
            same draw are adjacent.
        records: tables of the simulated records by scope, shape `(*sizes, draws)`.
    """

    plain: Margins
    values: Mapping[Scope, Floats]
    errors: Mapping[Scope, Floats]
    records: Mapping[Scope, Floats]

    def as_measured(self) -> Margins:
        """Return the fitted values; variances are mean squared errors (bias included), at most the plain ones.

        The errors are those of fits to simulated tables, averaged over records (`_estimate_variance`). The total (the
        empty set) keeps the value and variance of plain least squares.
        """
        variances = dict(self.plain.variances)
        for subset, error in self.errors.items():
            variances[subset] = min(self._estimate_variance(subset, error), variances[subset])
        return Margins(self.plain.network, {**self.values, (): self.plain.values[()]}, variances)

    def for_intervals(self) -> Margins:
        """Return bias-corrected fitted values with cautious variances (VARIANCE_CAUTION), where the error shrinks.

        The bias is the mean simulated error, subtracted from the value. With v the mean square around it times `(R + 1)
        / (R - 1)` for R repetitions, and w the variance of plain least squares, the variance is `v^(1 -
        VARIANCE_CAUTION) w^VARIANCE_CAUTION` if v < w. Interactions with v >= w, all if R = 1, and the total keep the
        values and variances of plain least squares.
        """
        values, variances = dict(self.plain.values), dict(self.plain.variances)
        for subset, error in self.errors.items():
            bias, repeats = error.mean(axis=-1), error.shape[-1]
            # Variance of a new error around the estimated bias: s^2 (1 + 1 / R), with s^2 unbiased over R repetitions.
            spread = (error - bias[..., None]) * math.sqrt((repeats + 1) / (repeats - 1)) if repeats > 1 else error
            variance = self._estimate_variance(subset, spread)
            if repeats > 1 and variance < variances[subset]:
                values[subset] = self.values[subset] - bias
                variances[subset] = variance ** (1 - VARIANCE_CAUTION) * variances[subset] ** VARIANCE_CAUTION
        return Margins(self.plain.network, values, variances)

    def _estimate_variance(self, subset: Scope, error: Floats) -> float:
        """Estimate the variance of an interaction's coordinates from squared errors in cells, averaged over records.

        Errors of equal variance g in the coordinates have the variance `g prod(1 - 1 / size)` in each cell. The
        estimate is the mean squared error of cells, weighted by the simulated records in them, divided by this product.

        Args:
            subset: variables of the interaction, at least one.
            error: errors of its coordinates, in records, shape `(size - 1 for S, repetitions)`.

        Returns:
            Squared records, one number for all coordinates; 0 if a variable has a single state.
        """
        sizes = [self.plain.network.schema[name].size for name in subset]
        share = math.prod(1 - 1 / size for size in sizes)
        if not share:
            return 0.0
        coordinates = np.zeros((*sizes, error.shape[-1]))
        coordinates[(slice(1, None),) * len(subset)] = error
        cells = transformed(coordinates, contrast_matrices(sizes), back=True)
        records = self._count_margin(subset)
        squares = np.square(cells, out=cells).reshape(*records.shape, -1).mean(axis=-1)
        return float((records / records.sum() * squares).sum() / share)

    def _count_margin(self, subset: Scope) -> Floats:
        """Sum the smallest table of simulated records that contains some variables; shape `(*sizes, draws)`.

        Args:
            subset: variables, at least one, that some table contains together; their order is that of the axes.
        """
        fewest = min((self._tables_by_variable[name] for name in subset), key=len)
        smallest = next(scope for scope in fewest if set(subset) <= set(scope))
        return margin(self.records[smallest], smallest, subset)

    @cached_property
    def _tables_by_variable(self) -> dict[str, list[Scope]]:
        """Scopes of the tables that contain each variable, the smallest table first; cached."""
        having: dict[str, list[Scope]] = {}
        for scope in sorted(self.records, key=lambda scope: self.records[scope].size):
            for name in scope:
                having.setdefault(name, []).append(scope)
        return having


def _fit_constrained(noisy: Measured, plain: Margins, cells: Tables, rng: np.random.Generator) -> _Constrained:
    """Fit the tables by nonnegative least squares, and simulate the errors of such fits.

    All tables sum to the plain estimate of the total, at least 1. Records are simulated from each draw of `cells`, with
    some noise replicates each: at least one, at most NOISES_PER_DRAW, and else as many as keep one draw within both
    limits. These are MOST_REPEATED_CELLS, of the cells of all tables times the replicates, and CELLS_WORTH_REPEATING,
    of the cells of each table times the replicates. The simulated records are as many as the estimated total. Their
    tables are fitted to ROUGH_TOLERANCE, the released ones to FIT_TOLERANCE.

    Args:
        noisy: released tables, of one repetition.
        plain: plain least squares of the same tables.
        cells: draws of the probabilities from which records are simulated.
        rng: source of randomness.

    Returns:
        `plain`; the fit's coordinates, and those of the simulated fits less the truth, for every interaction of `plain`
        but the total, with the replicates of a draw side by side on the last axis; and the simulated tables without
        noise, one a draw.
    """
    total = max(plain.total[0], 1.0)
    tables = _make_up_tables(cells, list(noisy.tables), total, rng)
    sizes = [table.size for table in noisy.tables.values()]
    noises = min(max(min(MOST_REPEATED_CELLS // sum(sizes), CELLS_WORTH_REPEATING // max(sizes)), 1), NOISES_PER_DRAW)
    made_up = {scope: np.repeat(table, noises, axis=-1) for scope, table in tables.items()}
    fit = fit_nonnegative(noisy, total)
    fits = fit_nonnegative(noisy.again(made_up, rng), total, close=ROUGH_TOLERANCE)
    fitted, truth = coordinates_of(noisy, fits.tables), coordinates_of(noisy, made_up)
    subsets = [subset for subset in plain.variances if subset]
    errors = {subset: fitted[subset] - truth[subset] for subset in subsets}
    return _Constrained(plain, coordinates_of_fit(noisy, fit), errors, tables)


def _make_up_tables(
    cells: Tables, scopes: Sequence[Scope], total: float, rng: np.random.Generator
) -> dict[Scope, Floats]:
    """Simulate records from each draw of the probabilities and count them in tables.

    Args:
        cells: draws of the probabilities, shape `(*parents, child, draws)`.
        scopes: variables of each table; one over no variables has a single cell.
        total: number of records that each table sums to, at least 1; it is rounded, at most MOST_MADE_UP_RECORDS
            records are simulated, and their counts are scaled to it.
        rng: source of randomness.

    Returns:
        Tables by scope, float64, shape `(*sizes, draws)`; the tables of a draw count the same records.
    """
    network, draws = cells.network, cells.draws or 1
    records = min(round(total), MOST_MADE_UP_RECORDS)
    counts = {scope: np.empty((*(network.schema[name].size for name in scope), draws)) for scope in scopes}
    for draw in range(draws):
        codes = sample_codes(Tables(network, {node: cells[node][..., draw] for node in network.nodes}), records, rng)
        for scope, table in counts.items():
            shape = table.shape[:-1]
            none = np.zeros(records, np.int64)
            flat = np.ravel_multi_index([codes[name] for name in scope], shape) if scope else none
            table[..., draw] = np.bincount(flat, minlength=math.prod(shape)).reshape(shape) * (total / records)
    return counts


def _rake_to_held(table: Floats, held: Mapping[Scope, Ints], parents: Sequence[str]) -> Floats:
    """Rake a positive table to fixed margins by HELD_FIT_ROUNDS rounds of proportional fitting.

    Args:
        table: records, shape `(*parents, draws)`; not changed.
        held: target counts by set of parents, axes in the order of `parents`, shape `(*sizes of the set, draws)`.
        parents: names of the table's axes.

    Returns:
        Same shape, every cell at least LEAST_CELL_RECORDS; margins are met approximately, the last one exactly but for
        this floor. Without margins the table itself.
    """
    for _ in range(HELD_FIT_ROUNDS):
        for names, wanted in held.items():
            axes = tuple(axis for axis, name in enumerate(parents) if name not in names)
            have = table.sum(axis=axes, keepdims=True)
            shape = [size if name in names else 1 for name, size in zip(parents, table.shape, strict=False)]
            # Cells stay positive: a cell in a margin that is 0 may belong to another margin that must grow.
            table = np.maximum(table * (wanted.reshape(*shape, -1) / have), LEAST_CELL_RECORDS)
    return table
