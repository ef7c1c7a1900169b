"""Lines inside bins: how the mean of one number follows another inside the bins of that other, under every draw.

Tables and sums by rows tell the mean of z in each bin of x, `m_k = E(z | x in bin k)`, and that of x itself, `u_k`.
Moments tell what varies together inside the bins,

    T = E(x z) - sum_k P(k) u_k m_k  =  sum_k P(k) Cov(x, z | k),      W = sum_k P(k) Var(x | k).

A line inside bin k has a slope whose prior is that of the means of the bin and of its neighbours, with a doubt of
`SLOPE_DOUBT`. T measures the slopes' sum, each times `P(k) Var(x | k)`: they move to it by Matheron's rule, as in
`number_draws.py`. Where the noise of T is large they are the slopes between the bins. By measurement
(`studies/bench/number_lines.py`) such lines are as near to E(z | x) without noise as one common slope T / W.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from discreet.model.schema import Scope
from discreet.posterior.number_draws import LEAST_SHARE, SLOPE_DOUBT, WIDEST, BinLine, Column, NumberDraws
from discreet.util.arrays import Floats

LEAST_WEIGHT = 1e-12
"""Least weight of a bin, and least share of a variance, that is divided by."""


class BinMeans(NamedTuple):
    """Means of two numbers in the bins of the first, in every draw; a whole number x stands for x + 1/2.

    Args:
        shares: P(k), shares of the first's bins among records that have both numbers, shape (bins, draws).
        own: u_k, mean of the first number in its bin k, same shape.
        other: m_k, mean of the second number in bin k of the first, same shape.
        pair: law of both variables' bins, shape (bins, bins of the second, draws).
    """

    shares: Floats
    own: Floats
    other: Floats
    pair: Floats


def bin_means(numbers: NumberDraws, first: str, second: str) -> BinMeans:
    """Compute the means of two numbers in the bins of the first, in every draw.

    Args:
        numbers: numbers of the release.
        first, second: names of different columns with sums.

    Returns:
        Means by the columns' sums. The second's mean in a bin of the first is over its own bins, each with its mean
        offset in this bin of the first (`NumberDraws.offsets_by`). The law of both bins is normalised, then
        LEAST_WEIGHT is added to each cell, so that no bin is empty, and it is normalised again.
    """
    grids = [numbers.grids[name] for name in (first, second)]
    pair = numbers.joint((first, second))[: grids[0].bins, : grids[1].bins]
    pair = pair / np.maximum(pair.sum(axis=(0, 1)), LEAST_WEIGHT) + LEAST_WEIGHT
    pair = pair / pair.sum(axis=(0, 1))
    shares = pair.sum(axis=1)
    places = grids[1].middles[:, None, None] + numbers.offsets_by(second, first)[:, : grids[0].bins]
    places_here = grids[0].middles[:, None] + numbers.column(first).offsets
    return BinMeans(shares, places_here, np.einsum("kld,lkd->kd", pair, places) / shares, pair)


def covary_inside(numbers: NumberDraws, first: str, second: str, means: BinMeans) -> Floats:
    """Compute T, the mean covariance of two numbers inside the bins of the first, shape (draws,).

    It is `E(x z) - sum_k P(k) u_k m_k`, with both numbers from the middles of their ranges and E(x z) by
    `NumberDraws.products`. It can be negative.

    Args:
        numbers: numbers of the release.
        first, second: columns as for `bin_means`, whose product was released.
        means: result of `bin_means` for these columns.
    """
    centres = [(numbers.grids[name].edges[0] + numbers.grids[name].edges[-1]) / 2 for name in (first, second)]
    product = numbers.products(first, second, means.pair)
    return np.asarray(product - (means.shares * (means.own - centres[0]) * (means.other - centres[1])).sum(axis=0))


def slopes_inside(numbers: NumberDraws, first: str, second: str) -> Floats:
    """Compute the slope of the second number's mean in the first one, inside each bin of the first, in every draw.

    If their product was released, T (`covary_inside`) is what `fit_slopes` fits the slopes to. The variance of its
    noise is that of the product, plus that of the second's sums in each bin of the first times the squared distance of
    the bin from the mean of the first. Without sums by rows of the first's bins the second term is 0.

    Args:
        numbers: numbers of the release.
        first, second: names of different columns with sums.

    Returns:
        Shape (bins of the first, draws), in units of the second over units of the first. Without a released product
        they are draws of the prior: slopes between bins, with the doubt.
    """
    means = bin_means(numbers, first, second)
    spread = float(np.sqrt(numbers.variance(second, means.pair.sum(axis=0)).mean()))
    rng = numbers.generator("slope", first, second)
    if not numbers.measures(first, second):
        return fit_slopes(numbers, first, means, None, spread, rng)
    # The noise of the product, and of the sums of z by bins of x, each times the distance of the bin.
    family = numbers.family_for(second, (first,))
    network = numbers.evidence.payload.network
    rows = network.cells(family) / network.schema[first].size if family else 0.0
    away = (means.own - (means.shares * means.own).sum(axis=0)).mean(axis=1)
    noise = numbers.moment_deviation(first, second) ** 2 + rows * numbers.row_deviation(second) ** 2 * (away**2).sum()
    together = covary_inside(numbers, first, second, means)
    return fit_slopes(numbers, first, means, (together, float(noise)), spread, rng)


def fit_slopes(
    numbers: NumberDraws,
    name: str,
    means: BinMeans,
    together: tuple[Floats, float] | None,
    spread: float,
    rng: np.random.Generator,
    step: int = 1,
) -> Floats:
    """Fit the slopes of lines inside the bins of a number, in every draw.

    The prior of each is the slope between neighbouring bins (`slope_between`), with an independent normal doubt of
    SLOPE_DOUBT times the ratio of both standard deviations. The mean of T over the draws then moves all slopes, those
    with more weight `P(k) Var(x | k)` more (Matheron's rule). Its error has the variance of the noise, plus `W spread^2
    / numbers.units` of the sampling, plus that of the mean number in each bin.

    Args:
        numbers: numbers of the release, or of the records with some states.
        name: name of the number that has the bins.
        means: means of this number, and of what follows it, in its bins.
        together: (T, the covariance of both inside the bins, shape (draws,); variance of its noise); None if it was not
            measured.
        spread: standard deviation of what follows the number.
        rng: source of the doubt and of the simulated measurement.
        step: distance between the draws that are used, from the first on.

    Returns:
        Shape (bins, used draws), not limited; draws of the prior if T was not measured. Variances are raised to
        LEAST_WEIGHT where they divide.
    """
    inside = means.shares * numbers.column(name).spread[:, ::step]
    width = np.maximum(inside.sum(axis=0), LEAST_WEIGHT)
    between = (means.shares * (means.own - (means.shares * means.own).sum(axis=0)) ** 2).sum(axis=0)
    doubt = SLOPE_DOUBT * spread / max(float(np.sqrt((between + width).mean())), LEAST_WEIGHT)
    slopes = slope_between(means)
    slopes = slopes + doubt * rng.standard_normal(slopes.shape)
    if together is None:
        return np.asarray(slopes)
    # Draws of T vary by the sampling errors of bins and means, each drawn alone, which cancel in T itself. Its own
    # error is that of noise, of a covariance of n records, and of the mean number in each bin.
    shares, level = means.shares.mean(axis=1), means.other.mean(axis=1)
    places = (shares**2 * (level - shares @ level) ** 2 * means.own.var(axis=1)).sum()
    variance = together[1] + float(width.mean()) * spread**2 / numbers.units + places
    measured = (together[0].mean() + np.sqrt(variance) * rng.standard_normal(width.shape)) / width
    weights = inside / width
    gain = doubt**2 * weights / (doubt**2 * (weights**2).sum(axis=0) + variance / width**2)
    return np.asarray(slopes + gain * (measured - (weights * slopes).sum(axis=0)))


def row_offsets(numbers: NumberDraws, name: str, law: Floats, offsets: Floats, label: Scope, step: int = 1) -> Floats:
    """Move the mean offsets of rows in each bin to what lines inside bins say of them.

    The share of a row follows the number along a line, `P(row | x, k) = P(row | k) + slope (x - u_k)`, so that the
    numbers of the row have the mean offset `slope Var(x | k) / P(row | k)` from those of the bin. The slopes of each
    row are fitted by `fit_slopes` to what the row's given offsets say of all bins together.

    Args:
        numbers: numbers of the release.
        name: name of the number.
        law: law of its bins and the rows, shape (bins, rows, draws); normalised here.
        offsets: mean offset in each bin and row by sums, same shape.
        label: names of the variables that make the rows; they name the random stream of the doubt.
        step: distance between the draws that are used, from the first on.

    Returns:
        Offsets, same shape: the bin's mean offset, the average of its rows, plus the row's move. They are within WIDEST
        half widths of the bins. Where a row would lie outside, all rows of this bin and draw move less, by one factor,
        so that they average to the bin's offset as before; none moves if the bin's offset is outside already. A move
        below LEAST_WEIGHT divides as this.
    """
    observed = law.sum(axis=(0, 1))
    law = law / observed
    shares = law.sum(axis=1)
    grid, spread = numbers.grids[name], numbers.column(name).spread[:, ::step]
    average = (law * offsets).sum(axis=1) / shares
    moved, reach = np.empty_like(offsets), WIDEST * np.diff(grid.edges)[:, None] / 2
    noise = (numbers.row_deviation(name) / float(observed.mean())) ** 2
    for row in range(law.shape[1]):
        part = law[:, row]
        means = BinMeans(shares, grid.middles[:, None] + average, part / shares, law)
        together = (part * (offsets[:, row] - average)).sum(axis=0)
        total = float(part.sum(axis=0).mean())
        rng = numbers.generator("slope", name, *label, str(row))
        slopes = fit_slopes(numbers, name, means, (together, noise), float(np.sqrt(total * (1 - total))), rng, step)
        moved[:, row] = slopes * spread * shares / part
    # All rows of a bin are moved less where one would leave it: so they average to the bin's mean as before.
    room = np.where(moved > 0, reach[:, None] - average[:, None], reach[:, None] + average[:, None])
    part = np.min(np.maximum(room, 0.0) / np.maximum(np.abs(moved), LEAST_WEIGHT), axis=1, keepdims=True)
    return np.asarray(average[:, None] + np.minimum(part, 1.0) * moved)


def slope_between(means: BinMeans) -> Floats:
    """Compute the slope of `other` on `own` through the means of each bin and its neighbours; shape (bins, draws).

    It is the least-squares slope of two or three bins, weighted by their shares, which are scaled to sum to 1 over
    these bins and must not all be 0. The first and the last bin have one neighbour; a single bin has slope 0. The
    weighted variance of the means `own` is raised to LEAST_WEIGHT before it divides.
    """
    slopes = np.zeros_like(means.own)
    for bin in range(len(slopes)):
        near = slice(max(bin - 1, 0), bin + 2)
        weights = means.shares[near] / means.shares[near].sum(axis=0)
        here, there = (part[near] - (weights * part[near]).sum(axis=0) for part in (means.own, means.other))
        slopes[bin] = (weights * here * there).sum(axis=0) / np.maximum((weights * here**2).sum(axis=0), LEAST_WEIGHT)
    return slopes


# --------------------------------------------------------------------------------------------------------------------
# Numbers of the records that have some states, s: the line of z by x among those with smoke=yes.
#
# Tables tell how many of these records lie in each pair of bins, and sums by rows where their numbers lie in them. That
# gives the covariance of the means of bins; a line through these means goes on inside the bins:
#
#     C_s = sum_k P(k | s) (u_k - E(x | s)) (E(z | k, s) - E(z | s)) (1 + W_s / B_s),
#
# with B_s and W_s the variance of x between and inside bins, and the mean of both directions. It is read twice: from
# the drawn law, where cells of few records are raised and draw it to 0, and from unbiased shares (`plain`), which have
# the noise of the tables. The first has a doubt of `STATE_DOUBT`; both are weighted by precision.
#
# What varies together inside bins was released for all states together. A slope inside a bin has a doubt of
# `SLOPE_DOUBT` about that between bins, half of whose variance (`COMMON`) is the same in all states. Each state moves
# by its part of what the released product leaves over, `C - sum_s P(s) (C_s + (E(x | s) - E x) (E(z | s) - E z))`,
# which is itself a measure of what may be missed. So states add up to the covariance of all records. Of several
# observed variables, one is taken after the other.

COMMON = 0.5
"""Part of the variance of the doubt about slopes inside bins that all states have in common."""
NOISE_DOUBT = 0.6
"""Doubt of a state's covariance for the noise of released squares, relative to that of the released product."""
RAISED_DOUBT = 1.0
"""Doubt of a state's covariance for each square of what raised cells take from it, relative to the largest possible."""
STATE_DOUBT = 0.6
"""Prior standard deviation of a state's covariance about that of the drawn laws, relative to the largest possible."""


@dataclass(frozen=True, eq=False)
class NumbersGiven(NumberDraws):
    """Numbers of the records that have some observed states, under every draw; covariances by `divide_covariance`.

    Args:
        root: numbers of all records, from whose sums these are read.
    """

    root: NumberDraws = field(kw_only=True)

    @cached_property
    def share(self) -> Floats:
        """Share of the records that have these states, shape (draws,); kept."""
        return np.asarray(self.root.joint(tuple(self.states))[tuple(self.states.values())])

    @cached_property
    def of_records(self) -> NumberDraws:
        """Numbers of the counted records with these states under every draw, without sampling errors; made once.

        Draws differ by what noise and gaps leave open.
        """
        return give_states(self.root.of_records, self.states)

    @property
    def units(self) -> float:
        """Estimated number of units with these states, by the mean share over the draws; at least 1."""
        return max(self.root.units * float(self.share.mean()), 1.0)

    def units_with(self, names: Scope) -> Floats:
        """Estimate the number of units with these states whose numbers were seen, shape (draws,).

        It is that of all records (`NumberDraws.units_with`) times the share of these states in each draw, at least 1.
        """
        return np.maximum(self.root.units_with(names) * self.share, 1.0)

    def rows(self, name: str, family: Scope) -> Floats:
        """Read the mean offset of a column in each bin and each row of a family, as for all records.

        Shape `(bins, rows, draws)`; the rows of states that these records do not have are among them.
        """
        return self.root.rows(name, family)

    def column(self, name: str) -> Column:
        """Read a numeric column among the records with these states, at its first use; the result is kept.

        Mean offsets are those given the states (`offsets_given`). The spread inside bins is that of all records, times
        one factor in each draw, by which the column has the variance of `variance_given`; a mean spread below
        LEAST_SHARE divides as this.
        """
        if name not in self._columns:
            known, middles = self.root.column(name), self.grids[name].centred[:, None]
            bins = self.joint((name,))[: len(middles)]
            bins, offsets = bins / bins.sum(axis=0), self.root.offsets_given(name, self.states, self.joint)
            between = (bins * (middles + offsets) ** 2).sum(axis=0) - (bins * (middles + offsets)).sum(axis=0) ** 2
            inside = self.root.variance_given(name, bins, offsets, tuple(self.states)) - between
            spread = known.spread * inside / np.maximum((bins * known.spread).sum(axis=0), LEAST_SHARE)
            squares = 2 * middles * offsets + offsets**2 + spread
            self._columns[name] = Column(self.root.given(name, bins, offsets), bins, offsets, squares, spread)
        return self._columns[name]

    def covariance(self, first: str, second: str, pair: Floats, *, binned: bool = False) -> Floats:
        """Compute the covariance of two columns among the records with these states, shape (draws,).

        The columns may be given in either order. With `binned` it is the covariance of the means of bins under `pair`,
        the law of both columns' bins, shape `(bins, bins, draws)`. Else `pair` is not read. The covariance is then
        divided among the states of the last of `states` (`divide_covariance`), starting from the records that have the
        states before it, which start from those before them, down to all records (`root`).
        """
        if binned:
            return super().covariance(first, second, pair, binned=True)
        *before, (last, code) = self.states.items()
        whole = give_states(self.root, dict(before)) if before else self.root
        return np.asarray(divide_covariance(whole, last, (min(first, second), max(first, second)))[code])


def give_states(numbers: NumberDraws, states: Mapping[str, int]) -> NumbersGiven:
    """Make the numbers of the records that have some states.

    Args:
        numbers: numbers of all records.
        states: codes of the states by variable, at least one.

    Returns:
        Numbers by the same sums, stream and generators, under the law given these states. LEAST_SHARE is added to each
        cell of the joint law at these states before it is divided by its sum, so rare states are spread more.
    """

    def joint(scope: Scope) -> Floats:
        """Compute the law of some variables given the states, shape `(*sizes, draws)`, LEAST_SHARE added."""
        at: tuple[Any, ...] = (..., *states.values(), slice(None))
        law = numbers.joint((*scope, *states))[at] + LEAST_SHARE
        return np.asarray(law / law.reshape(-1, law.shape[-1]).sum(axis=0))

    fields = (numbers.evidence, joint, numbers.stream, numbers.seen, numbers, states, numbers.plain)
    return NumbersGiven(*fields, root=numbers)


def divide_covariance(numbers: NumberDraws, by: str, names: tuple[str, str]) -> Floats:
    """Divide the covariance of two columns among the states of a variable; together they give that of all records.

    The covariance of a state is read along the lines between its bins (`follow_bins`), from the drawn law, with a
    normal doubt of STATE_DOUBT times the largest possible covariance. Where a table has all the variables it is also
    read from unbiased shares (`plain`), and the two are weighted by precision. Without such a table the drawn law
    stands for both.

    The doubt of a state is that of the slopes inside bins, and two parts of the largest possible covariance: what all
    states together miss of the covariance of all records (its mean, and NOISE_DOUBT times its deviation over the
    draws), relative to the largest possible; and RAISED_DOUBT times the square of what raised cells take from the
    state, relative to the same. Half of its variance (COMMON) is shared by all states. What is missed, the covariance
    of all records less the states' covariances and that of their means, is divided among the states in proportion to
    share and doubt; the doubt is drawn, too.

    Args:
        numbers: numbers of all records, or of those with observed states of other variables.
        by: variable without an observed state.
        names: names of both columns; with `by` they name the random stream.

    Returns:
        Covariance among the records with each state, shape `(states, draws)`. It is not limited to what the variances
        allow.
    """
    seen, cells = numbers.states, tuple(slice(numbers.grids[name].bins) for name in names)
    at: tuple[Any, ...] = (*cells, ..., *seen.values(), slice(None))
    root = numbers.root if isinstance(numbers, NumbersGiven) else numbers
    plain, shares = numbers.plain((*names, by, *seen)), numbers.joint((by,)) + LEAST_SHARE
    if plain is not None:
        plain = plain[at]
    lines = list[BinLine]()
    for code in range(len(shares)):
        of_state = give_states(root, {**seen, by: code})
        drawn = of_state.joint(names)[cells]
        present = drawn.sum(axis=(0, 1))
        measured = drawn if plain is None else plain[:, :, code] / of_state.share
        lines.append(of_state.follow_bins(names, [drawn / present, measured / present]))
    means, most, doubt = (np.array([getattr(line, part) for line in lines]) for part in ("means", "most", "doubt"))
    drawn, measured = np.array([line.covariances for line in lines]).swapaxes(0, 1)
    pair = numbers.joint(names)[cells] if plain is None else plain.sum(axis=2)
    apart = means - np.einsum("sd,sjd->jd", shares, means)
    rest = numbers.covariance(*names, pair / pair.sum(axis=(0, 1)))
    rest = rest - (shares * (measured + apart[:, 0] * apart[:, 1])).sum(axis=0)
    rng = numbers.generator("states", by, *names)
    # What is missed of all records may be missed of each state; and where products are noisy, squares are.
    missed = np.hypot(rest.mean(), NOISE_DOUBT * rest.std()) / (shares * most).sum(axis=0).mean()
    # Where noise raises cells, it also makes columns of the state wider, by the square of what it takes from lines.
    raised = RAISED_DOUBT * ((measured - drawn).mean(axis=1, keepdims=True) / most.mean(axis=1, keepdims=True)) ** 2
    doubt, wide = np.hypot(doubt, np.hypot(missed, raised) * most), STATE_DOUBT * most.mean(axis=1, keepdims=True)
    drawn = drawn + wide * rng.standard_normal(drawn.shape)
    measured = drawn + wide**2 / (wide**2 + measured.var(axis=1, keepdims=True)) * (measured - drawn)
    errors = np.sqrt(COMMON) * rng.standard_normal(rest.shape)
    errors = errors + np.sqrt(1 - COMMON) * rng.standard_normal(drawn.shape)
    gain = (1 - COMMON) * shares * doubt**2 + COMMON * doubt * (shares * doubt).sum(axis=0)
    gain = gain / np.maximum((shares * gain).sum(axis=0) + rest.var(), LEAST_WEIGHT**2)
    return np.asarray(measured + doubt * errors + gain * (rest - (shares * doubt * errors).sum(axis=0)))
