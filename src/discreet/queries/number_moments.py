"""Means and covariances of the columns of a linear regression, from released sums of numbers.

Sums are of the records. Draws of the population differ from them by sampling errors, which belong together: those of
E x z and of E x E x, for instance, all but cancel in a slope where z follows x closely. So the moments of the records
are read first, with what noise leaves open (`NumberDraws.of_records`), and then all sampling errors of n records are
drawn at once, as if columns were normal together:

    covariances = L W^-1 L',   means = those of the records + L g / sqrt(n),   covariances of the records = L L',

W Wishart with n degrees of freedom and mean 1. The slopes of least squares have then the standard errors of textbooks,
which hold for covariates of any law; so do correlations of normal columns.

Noise may leave a draw of covariances that no columns can have. Such draws are drawn anew among the possible ones, with
the normal law of all draws as a prior, by elliptical slices.

Source: Gelman et al. (2013), Section 3.6, for the posterior of normal columns; Murray, Adams and MacKay (2010) for
elliptical slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError, listed, shown
from discreet.model.network import Network
from discreet.model.number_grid import NumberGrid
from discreet.model.schema import Scope
from discreet.posterior.number_draws import NumberDraws
from discreet.queries.column_moments import ColumnLaw, ColumnMoments, RegressionColumn, average_given, covariance
from discreet.util.arrays import Floats

LEAST_VARIANCE = 1e-300
"""Least variance that is divided by."""
SMALLEST_EIGENVALUE = 1e-6
"""Least eigenvalue of correlations that are taken for possible: below it rounding of released sums is what is seen."""
MOST_COLUMNS = 128
"""Most columns of variables between those of a regression by which covariances follow; as `MOST_COEFFICIENTS`."""
HALVINGS = 6
"""Halvings of what bins say of curves before it is left out, in draws that it would make impossible."""
LEAST_RECORDS = 4
"""Least number of records with some evidence, for each column."""
ALIKE = "given {} the lines between bins of {} are taken to go on inside the bins, give or take .3 deviations"
"""Assumption of covariances given states, of which no sum inside bins tells."""
SLICES = 20
"""Elliptical slices by which an impossible draw is drawn anew."""
SHRINKS = 12
"""Times that a slice is made narrower before its draw stays where it is."""
PROJECTIONS = 30
"""Bisections towards independent columns by which an impossible draw is made possible."""


@dataclass(frozen=True, eq=False)
class NumberMoments:
    """Means and covariances of a linear regression's columns in every draw, from released sums of numbers.

    Args:
        means: of the covariates' columns and then of the target, shape `(draws, columns + 1)`.
        covariances: of the same, shape `(draws, columns + 1, columns + 1)`.
        assumes: what covariances rest on that were not measured, in sentences.
    """

    means: Floats
    covariances: Floats
    assumes: tuple[str, ...] = ()

    @cached_property
    def of_covariates(self) -> ColumnMoments:
        """Moments of the covariates' columns alone; covariances with numbers and with bin means are the same."""
        covariances = self.covariances[:, :-1, :-1]
        return ColumnMoments(covariances, covariances, self.means[:, :-1])

    @cached_property
    def coefficients(self) -> Floats:
        """Least squares in every draw, the intercept last, shape `(draws, columns + 1)`; NaN if unidentified."""
        return self._add_intercept(self.of_covariates.slopes(self.covariances[:, :-1, -1]), self.means)

    @cached_property
    def residual_variance(self) -> Floats:
        """Variance of the target about the line in every draw, shape `(draws,)`; at least 0, NaN if unidentified."""
        signed = np.column_stack([-self.coefficients[:, :-1], np.ones(len(self.means))])
        return np.asarray(np.maximum(np.einsum("di,dij,dj->d", signed, self.covariances, signed), 0.0))

    def identified(self) -> tuple[Floats, Floats]:
        """Select the draws in which all coefficients are finite.

        Returns:
            (coefficients, shape (such draws, columns + 1); residual variances, shape (such draws,)).

        Raises:
            InputError: they are less than half of the draws.
        """
        valid = np.isfinite(self.coefficients).all(axis=-1)
        if valid.mean() < 0.5:
            raise InputError(
                "noise leaves the coefficients open in most draws: they have an estimate, but no intervals"
            )
        return self.coefficients[valid], self.residual_variance[valid]

    def estimate(self) -> Floats:
        """Compute ridge regression on the posterior means of the moments, shape `(columns + 1,)`.

        Coefficients of draws have heavy tails where noise is large, so that their mean may be far off. Moments are
        averaged over draws first. The slopes of standardised columns solve `(R + ridge I) b = r` by least squares; R
        and r are the averaged covariances, divided by the roots of the averaged variances (at least the smallest
        float). The ridge is the root mean square, over all pairs of columns and target, of the standard deviations over
        draws of the covariances, in the same scale: it vanishes with them. Slopes are returned in the columns' own
        units, the intercept last.
        """
        means, covariances = self.means.mean(axis=0), self.covariances.mean(axis=0)
        unit = np.sqrt(np.maximum(np.diag(covariances), np.finfo(float).tiny))
        scale, pairs = np.outer(unit, unit), np.triu_indices(len(unit), 1)
        ridge = np.sqrt((self.covariances.var(axis=0) / scale**2)[pairs].mean())
        related = covariances / scale
        slopes = np.linalg.lstsq(related[:-1, :-1] + ridge * np.eye(len(unit) - 1), related[:-1, -1], rcond=None)[0]
        return np.asarray(self._add_intercept((slopes * unit[-1] / unit[:-1])[None], means[None])[0])

    @staticmethod
    def _add_intercept(slopes: Floats, means: Floats) -> Floats:
        """Append the intercept of the line through the means; shapes `(draws, columns)`, `(draws, columns + 1)`."""
        return np.column_stack([slopes, means[:, -1] - (slopes * means[:, :-1]).sum(axis=-1)])


def read_moments(law: ColumnLaw, numbers: NumberDraws, columns: Sequence[RegressionColumn]) -> NumberMoments:
    """Read the means and covariances of columns in the population, from released sums of numbers.

    Moments of the counted records are read first (`measured_moments`); impossible draws are drawn anew
    (`find_possible`); then moments of the population are drawn about them (`draw_population`). All randomness is from
    the release's own generator, so that equal calls return equal moments. Covariances of variables that share no
    released sum follow from those that do, as the network's independences say if variables follow their parents along
    lines (`Completion.fill`). If the posterior doubts the network (`assume` is "robust"), they also vary as the
    covariance of the means of bins does from draw to draw (`_doubt`).

    Args:
        law: laws of the variables.
        numbers: numbers of the numeric columns, all of which have sums.
        columns: of different variables.

    Returns:
        Moments in the unit of the numbers; the last column is the target of a regression. `assumes` has a sentence for
        each pair of unknown covariance, and one (ALIKE) if there are observed states and at least two numbers.

    Raises:
        InputError: numbers are those of records with observed states, and fewer than LEAST_RECORDS records for each
            column have these, or two of the variables share no released sum.
    """
    names = tuple(column.variable.name for column in columns)
    between = find_between(law, numbers, columns)
    size, units = sum(between.columns), float(numbers.units_with(names).mean())
    if numbers.states and units < LEAST_RECORDS * size:
        raise InputError(f"about {units:.0f} records have this evidence, too few for {size} columns; observe less")
    schema = law.both.given.network.schema
    wide = [RegressionColumn(schema[name]) for name in between.names]
    records = replace(law, records=numbers.units)
    moments = measured_moments(records, numbers.of_records, wide, between)
    rng = numbers.generator("moments", *names)
    moments = find_possible(moments, rng, between)
    moments = draw_population(replace(moments, covariances=between.fill(moments.covariances)), numbers, between, rng)
    chosen = between.pick(names)
    filled = between.fill(moments.covariances)[:, chosen][:, :, chosen]
    doubting = law.both.parts is not None and law.both.parts.assume == "robust"
    if doubting:
        filled = _doubt(filled, law, numbers.of_records, columns, between)
    numeric = [name for name in names if name in numbers.grids]
    same = (ALIKE.format(listed(numbers.states), listed(numeric)),) if numbers.states and len(numeric) > 1 else ()
    return NumberMoments(moments.means[:, chosen], filled, (*between.tell(names), *same))


def find_between(law: ColumnLaw, numbers: NumberDraws, columns: Sequence[RegressionColumn]) -> Completion:
    """Find the variables by which the covariances of some columns follow that were not measured together.

    Args:
        law: laws of the columns' variables.
        numbers: of the release.
        columns: of different variables.

    Returns:
        All ancestors beside the columns' variables, in the network's order, if some pair of the columns shares no
        released sum (`are_together`); known are the pairs that share one. The columns' variables alone, with all pairs
        as if they were known, if every pair shares a sum; if a variable among them and the ancestors may be missing, or
        is numeric without sums; if they have more than MOST_COLUMNS columns; or if laws are sampled.

    Raises:
        InputError: some pair shares no released sum, and the numbers are of records with observed states.
    """
    network, names = numbers.evidence.payload.network, tuple(column.variable.name for column in columns)
    wide = tuple(name for name in network.order if name in network.ancestors(names) | {*names})
    variables = [network.schema[name] for name in wide]
    sizes = tuple(len(RegressionColumn(variable).names) for variable in variables)
    readable = all(each.missing is None and (not each.numeric or each.name in numbers.grids) for each in variables)
    apart = [pair for pair in combinations(names, 2) if not are_together(numbers, network, pair)]
    if apart and numbers.states:
        raise InputError(
            f"no sum of both {shown(apart[0][0])} and {shown(apart[0][1])} was released: ask of them without evidence"
        )
    if not apart or not readable or sum(sizes) > MOST_COLUMNS or law.both.sampling is not None:
        return Completion(network, *_sizes(columns), frozenset(combinations(names, 2)))
    known = (pair for pair in combinations(wide, 2) if are_together(numbers, network, pair))
    return Completion(network, wide, sizes, frozenset(known))


def are_together(numbers: NumberDraws, network: Network, pair: tuple[str, str]) -> bool:
    """True if what was released tells how two variables go together.

    That is the product of two numbers, sums of a number by rows of the other variable, or for two categorical ones a
    family of the network that has both.
    """
    numeric = [name for name in pair if name in numbers.grids]
    if len(numeric) == 2:
        return numbers.measures(*pair)
    if numeric:
        return bool(numbers.family_for(numeric[0], tuple({*pair} - {*numeric})))
    return any({*pair} <= {*network.family(node)} for node in network.nodes)


def _doubt(
    covariances: Floats,
    law: ColumnLaw,
    numbers: NumberDraws,
    columns: Sequence[RegressionColumn],
    between: Completion,
) -> Floats:
    """Add to unknown covariances by how much those of the means of bins differ from their mean over the draws.

    The covariances of bin means are those of `_covary` with `binned`, less their mean over draws. Where adding them
    makes a draw impossible (`are_possible`), its addition is halved, up to HALVINGS times, and at last left out.

    Args:
        covariances: of all columns, shape `(draws, columns, columns)`; not changed.
        law: laws of the variables.
        numbers: of the records.
        columns: of different variables, in the order of the axes.
        between: tells which covariances are known; these stay.
    """
    chosen = Completion(between.network, *_sizes(columns), frozenset())
    change = np.zeros_like(covariances)
    for at, column in enumerate(columns):
        for before in columns[:at]:
            names = (column.variable.name, before.variable.name)
            if not between.is_known(*names):
                rows, held = (list(chosen.spans[name]) for name in names)
                drawn = _covary(law, numbers, column, before, binned=True)
                drawn = drawn - drawn.mean(axis=0)
                change[np.ix_(range(len(change)), rows, held)] = drawn
                change[np.ix_(range(len(change)), held, rows)] = drawn.swapaxes(1, 2)
    part = np.ones((len(change), 1, 1))
    for _ in range(HALVINGS):
        part[~are_possible(covariances + part * change)] /= 2
    part[~are_possible(covariances + part * change)] = 0.0
    return np.asarray(covariances + part * change)


def _sizes(columns: Sequence[RegressionColumn]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """List the names of the columns' variables, and the number of columns of each, both in the given order."""
    return tuple(column.variable.name for column in columns), tuple(len(column.names) for column in columns)


def find_possible(moments: NumberMoments, rng: np.random.Generator, between: Completion) -> NumberMoments:
    """Draw those moments anew that no columns can have, among the possible ones and from the law of all draws.

    Args:
        moments: draws of means and covariances; not changed. Unknown covariances may be anything.
        rng: source of randomness.
        between: by which unknown covariances follow.

    Returns:
        The same moments where they are possible with unknown covariances completed: where the least eigenvalue of the
        correlations is at least -SMALLEST_EIGENVALUE. All others start at the nearest possible point on the way to
        independent columns (`_make_possible`). They move by SLICES elliptical slices: each turns the draw's difference
        from the mean towards that of a draw picked at random, by a random angle that shrinks towards 0 until the result
        is possible (`are_possible`). A slice that finds nothing possible in SHRINKS trials leaves its draw where it is.
        Means move with the covariances.
    """
    # Columns that follow from each other in the tables have a least eigenvalue of 0 in every draw, which stays.
    wrong = np.flatnonzero(_least_eigenvalues(between.fill(moments.covariances)) < -SMALLEST_EIGENVALUE)
    if not wrong.size:
        return moments
    size, upper = moments.means.shape[1], np.triu_indices(moments.means.shape[1])
    flat = np.column_stack([moments.means, moments.covariances[:, *upper]])
    centre = flat.mean(axis=0)

    def allows(values: Floats) -> npt.NDArray[np.bool_]:
        return are_possible(between.fill(_unfold(values[:, size:], size)))

    state = _make_possible(moments.covariances[wrong], between)
    at = np.column_stack([moments.means[wrong], state[:, *upper]]) - centre
    for _ in range(SLICES):
        step = flat[rng.integers(len(flat), size=len(wrong))] - centre
        angle = rng.uniform(0, 2 * np.pi, len(wrong))
        low, high, open_ = angle - 2 * np.pi, angle.copy(), np.arange(len(wrong))
        for _ in range(SHRINKS):
            turned = angle[open_, None]
            moved = at[open_] * np.cos(turned) + step[open_] * np.sin(turned)
            good = allows(moved + centre)
            at[open_[good]] = moved[good]
            open_ = open_[~good]
            if not open_.size:
                break
            back = np.asarray(angle[open_] < 0)
            low[open_[back]], high[open_[~back]] = angle[open_[back]], angle[open_[~back]]
            angle[open_] = rng.uniform(low[open_], high[open_])
    flat[wrong] = at + centre
    return NumberMoments(flat[:, :size], _unfold(flat[:, size:], size))


def draw_population(
    moments: NumberMoments, numbers: NumberDraws, between: Completion, rng: np.random.Generator
) -> NumberMoments:
    """Draw moments of the population about those of n records: an inverse Wishart law, and a normal one of the means.

    Args:
        moments: of the records.
        numbers: of the release.
        between: whose columns they are.
        rng: source of randomness.

    Returns:
        Moments of the population; draws that no columns can have (`are_possible`) stay as they are. The inverse Wishart
        law has as many degrees of freedom as records have the columns' numbers, at least the number of columns plus 2;
        means get a normal error with the drawn covariances over that number of records. `assumes` is empty.
    """
    means, covariances = moments.means.copy(), moments.covariances.copy()
    good, size = np.flatnonzero(are_possible(covariances)), means.shape[1]
    units = np.broadcast_to(numbers.units_with(between.names), len(means))[good]
    if not good.size:
        return moments
    root = np.linalg.cholesky(covariances[good])
    # Bartlett's decomposition of W, of mean 1.
    freedom = np.maximum(units, size + 2.0)[:, None]
    draws = np.tril(rng.standard_normal(root.shape), -1)
    draws[:, range(size), range(size)] = np.sqrt(rng.chisquare(freedom - np.arange(size)))
    half = root @ np.linalg.inv(draws).swapaxes(1, 2) * np.sqrt(freedom)[..., None]
    covariances[good] = half @ half.swapaxes(1, 2)
    means[good] += (half @ rng.standard_normal((len(good), size, 1)))[..., 0] / np.sqrt(units)[:, None]
    return NumberMoments(means, covariances)


def are_possible(covariances: Floats) -> npt.NDArray[np.bool_]:
    """Find the draws whose covariances are those of some columns none of which follows from the others.

    Args:
        covariances: shape `(draws, columns, columns)`.

    Returns:
        Shape (draws,): True where the least eigenvalue of the correlations is above SMALLEST_EIGENVALUE. False where a
        column does not vary or a covariance is not finite.
    """
    return np.asarray(_least_eigenvalues(covariances) > SMALLEST_EIGENVALUE)


def _least_eigenvalues(covariances: Floats) -> Floats:
    """Compute the least eigenvalue of the correlations, shape (draws,).

    It is 0 where a column does not vary or a covariance is not finite.
    """
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    varies = np.asarray((variances > 0).all(axis=1) & np.isfinite(covariances).all(axis=(1, 2)))
    unit = np.sqrt(np.where(varies[:, None], variances, 1.0))
    related = np.where(varies[:, None, None], covariances, 0.0) / unit[:, :, None] / unit[:, None]
    return np.asarray(np.linalg.eigvalsh(related)[:, 0] * varies)


def _make_possible(covariances: Floats, between: Completion) -> Floats:
    """Move covariances towards 0, and no farther than makes them possible; variances stay.

    A draw becomes `C + s (diag C - C)`, s in (0, 1] the least for which the completed covariances (`Completion.fill`)
    are possible, by PROJECTIONS bisections. If no s below 1 is, all covariances become 0.

    Args:
        covariances: shape `(draws, columns, columns)`; not changed.
        between: by which unknown covariances follow. Only to decide; what is returned is not completed.
    """
    alone = np.zeros_like(covariances)
    size = covariances.shape[1]
    alone[:, range(size), range(size)] = np.diagonal(covariances, axis1=1, axis2=2)
    low, high = np.zeros(len(covariances)), np.ones(len(covariances))
    for _ in range(PROJECTIONS):
        middle = (low + high) / 2
        good = are_possible(between.fill(covariances + middle[:, None, None] * (alone - covariances)))
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return np.asarray(covariances + high[:, None, None] * (alone - covariances))


def _unfold(upper: Floats, size: int) -> Floats:
    """Make symmetric matrices, shape (draws, size, size), from their upper halves row by row, shape (draws, values)."""
    matrices = np.zeros((len(upper), size, size))
    rows, columns = np.triu_indices(size)
    matrices[:, rows, columns] = matrices[:, columns, rows] = upper
    return matrices


def measured_moments(
    law: ColumnLaw,
    numbers: NumberDraws,
    columns: Sequence[RegressionColumn],
    between: Completion,
) -> NumberMoments:
    """Compute the means and covariances of columns from released sums of numbers, each by itself.

    A number's mean is that of its bins' shares with the mean offsets inside bins, for whole numbers without the 1/2 by
    which they stand for intervals; its variance is that of `NumberDraws.variance`. A categorical variable's are those
    of its states' shares. Covariances are those of `_covary`.

    Args:
        law: laws of variables, of which others are found beside it.
        numbers: numbers of the numeric columns, all of which have sums.
        columns: of different variables.
        between: of the columns; tells which covariances are known. Others are 0.

    Returns:
        Moments in the unit of the numbers; the last column is the target of a regression.
    """
    size = sum(between.columns)
    means, covariances = np.zeros((law.draws, size)), np.zeros((law.draws, size, size))
    for i, column in enumerate(columns):
        name = column.variable.name
        rows = slice(between.spans[name].start, between.spans[name].stop)
        shares = (law if name in law.names else replace(law, names=(name,))).of(name)
        if column.variable.numeric:
            grid = numbers.grids[name]
            bins = _share_bins(shares, grid)
            places = grid.middles[:, None] + numbers.column(name).offsets - grid.shift
            means[:, rows] = (bins * places).sum(axis=0)[:, None]
            covariances[:, rows, rows] = numbers.variance(name, bins)[:, None, None]
        else:
            values = column.values(shares, law.inside)
            means[:, rows] = np.einsum("sd,scd->dc", shares, values)
            covariances[:, rows, rows] = covariance(shares, values, values)
        for before in columns[:i]:
            earlier = before.variable.name
            if between.is_known(name, earlier):
                held = slice(between.spans[earlier].start, between.spans[earlier].stop)
                pair_law = law if {name, earlier} <= {*law.names} else replace(law, names=(earlier, name))
                covaried = _covary(pair_law, numbers, column, before)
                covariances[:, rows, held] = covaried
                covariances[:, held, rows] = covaried.swapaxes(1, 2)
    return NumberMoments(means, covariances)


def _share_bins(shares: Floats, grid: NumberGrid) -> Floats:
    """Compute the shares of the bins among records with a number, shape (bins, draws); they sum to 1.

    Args:
        shares: of all states, shape (states, draws); the state of missing numbers is left out. Negative ones, of a law
            without bias, count as 0.
        grid: of the number, for the number of bins.
    """
    bins = np.maximum(shares[: grid.bins], 0.0)
    return np.asarray(bins / bins.sum(axis=0))


def _covary(
    law: ColumnLaw, numbers: NumberDraws, first: RegressionColumn, second: RegressionColumn, *, binned: bool = False
) -> Floats:
    """Compute the covariances of the columns of two variables, shape `(draws, columns, columns)`.

    Of two numbers it is that of `NumberDraws.covariance`; where one may be missing, the correlation of the records with
    both is taken for that of all: the covariance is multiplied by the ratio of the standard deviations of all and of
    these, but not with `binned`. Of a number and states it is by the number's means in bins and states (`offsets_by`,
    or the column's own with `binned`); of two categorical variables by their table alone. Variances that divide are
    raised to LEAST_VARIANCE.

    Args:
        law: of both.
        numbers: of the release.
        first, second: different variables.
        binned: whether numbers count as the means of their bins.
    """
    names = (first.variable.name, second.variable.name)
    pair = law.of(*names)
    if first.variable.numeric and second.variable.numeric:
        sides = [numbers.grids[name] for name in names]
        pair = pair[: sides[0].bins, : sides[1].bins]
        pair = pair / pair.sum(axis=(0, 1))
        covaried = numbers.covariance(*names, pair, binned=binned)
        if binned:
            return covaried[:, None, None]
        # Where numbers have gaps, of the records with both: their correlation is taken for that of all.
        for name, grid, axis in zip(names, sides, (1, 0), strict=True):
            variances = [
                numbers.variance(name, _share_bins(shares, grid)) for shares in (law.singles[name], pair.sum(axis))
            ]
            covaried = covaried * np.sqrt(variances[0] / np.maximum(variances[1], LEAST_VARIANCE))
        return np.asarray(covaried[:, None, None])
    if second.variable.numeric:
        return _covary(law, numbers, second, first, binned=binned).swapaxes(1, 2)
    if first.variable.numeric:
        grid = numbers.grids[names[0]]
        inside = numbers.column(names[0]).offsets[:, None] if binned else numbers.offsets_by(*names)
        numbers_by = np.broadcast_to(grid.middles[:, None, None] + inside, pair[: grid.bins].shape)
        pair = pair[: grid.bins] / pair[: grid.bins].sum(axis=(0, 1))
        values = second.values(pair.sum(axis=0), law.inside)
        centred_values = values - np.einsum("sd,scd->cd", pair.sum(axis=0), values)
        return np.asarray(np.einsum("ksd,ksd,scd->dc", pair, numbers_by, centred_values)[:, None])
    return covariance(pair.sum(axis=1), law.values(first), average_given(pair, law.values(second)))


# --------------------------------------------------------------------------------------------------------------------
# Completion of covariances by a network's independences, where each variable follows its parents along a line.
#
# The covariances of a variable with its parents are known, those with other variables before it follow from them:
#
#     Cov(v, u) = beta' Cov(parents, u),     beta = Cov(parents)^-1 Cov(parents, v).
#
# In a chain x -> y -> z that is cov(x, z) = cov(x, y) cov(y, z) / var(y). It is exact if v is independent of u given
# the parents and E(v | parents) is linear, whatever the laws; then it is the closed form of a linear-Gaussian network.
#
# Source: Dempster (1972), covariance selection; Shachter and Kenley (1989), Gaussian influence diagrams.

FOLLOWS = "no sum of both {} and {} was released: their covariance follows from lines along the network's arcs"
"""Assumption of a covariance that was not measured."""
MOST_TOLD = 6
"""Most pairs of which that is said."""
LEAST_RATIO = 1e-9
"""Ratio of a singular value of parents' correlations to the largest, below which parents follow from each other."""


@dataclass(frozen=True, eq=False)
class Completion:
    """Which covariances of some variables' columns are known, and how the others follow.

    Args:
        network: in which the variables are, with all their ancestors.
        names: of the variables, parents before children.
        columns: number of columns of each.
        known: pairs of different variables of which covariances are known, in either order.
    """

    network: Network
    names: Scope
    columns: tuple[int, ...]
    known: frozenset[tuple[str, str]]

    @cached_property
    def spans(self) -> dict[str, range]:
        """Range of the columns of each variable, by name; columns are counted through in the order of `names`."""
        ends = np.cumsum([0, *self.columns]).tolist()
        return {name: range(start, end) for name, start, end in zip(self.names, ends, ends[1:], strict=False)}

    def pick(self, names: Scope) -> list[int]:
        """List the columns of some variables, in the given order of the variables."""
        return [column for name in names for column in self.spans[name]]

    def is_known(self, first: str, second: str) -> bool:
        """True if the covariances of two different variables are known; the order does not matter."""
        return (first, second) in self.known or (second, first) in self.known

    def tell(self, names: Scope) -> tuple[str, ...]:
        """Write a sentence (FOLLOWS) for each pair of `names` without known covariances, at most MOST_TOLD."""
        apart = [pair for pair in combinations(names, 2) if not self.is_known(*pair)]
        return tuple(FOLLOWS.format(*pair) for pair in apart[:MOST_TOLD])

    def fill(self, covariances: Floats) -> Floats:
        """Replace the unknown covariances by those that follow from the known ones.

        Args:
            covariances: shape `(draws, columns, columns)`; unknown ones may be anything.

        Returns:
            Same shape, symmetric; known covariances and variances stay. Variables are taken in order, parents first:
            the covariance of v with an earlier u is `beta' Cov(parents, u)`, beta the slopes of v on its parents. Of
            parents that follow from each other (singular values of their correlations below LEAST_RATIO of the
            largest), the slopes of least norm are taken. A variable without parents has unknown covariances of 0.
        """
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        unit = np.sqrt(np.where(variances > 0, variances, 1.0))
        filled = covariances / unit[:, :, None] / unit[:, None]
        for at, name in enumerate(self.names):
            columns = list(self.spans[name])
            open_ = self.pick(tuple(before for before in self.names[:at] if not self.is_known(name, before)))
            if not open_:
                continue
            parents = self.pick(self.network.parents[name])
            among = filled[:, parents][:, :, parents]
            line = np.linalg.pinv(among, rcond=LEAST_RATIO, hermitian=True) @ filled[:, parents][:, :, columns]
            follow = filled[:, open_][:, :, parents] @ line
            for place, column in enumerate(columns):
                filled[:, open_, column] = filled[:, column, open_] = follow[:, :, place]
        return np.asarray(filled * unit[:, :, None] * unit[:, None])
