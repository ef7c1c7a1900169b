"""Columns of a regression, the joint law of their variables in every draw, and their covariances.

Numbers are observed by their bins. A column b is represented by the mean m of its bin under the law of `bin_laws.py`,
and its covariance with another column uses that column's conditional mean as `answer` computes it for `E(other | b)`:
the mean of the number x itself, not of its bin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from discreet.inference.bin_laws import BinLaw
from discreet.model.schema import Scope, Variable
from discreet.posterior.number_draws import expect_counted
from discreet.posterior.pooled.measured_sets import MeasuredSets
from discreet.posterior.pooled.plain_pairs import find_pairs_without_bias, move_without_bias
from discreet.queries.conditioning import ConditionedPosterior
from discreet.util.arrays import Floats
from discreet.util.option_texts import Inside

MOST_JOINT_STATES = 4096
"""Largest number of joint states of target and covariates for which their joint law is computed, as in `answer`."""
MOST_LAW_VALUES = 2**23
"""Largest number of values of that law in all draws: 64 MiB."""
SINGULAR_RATIO = 1e-9
"""Ratio of the least to the largest singular value of the columns' standardised moments below which their coefficients
are not identified: rounding errors are 1e-16 of the largest."""
LEAST_LOADING = 0.25
"""Smallest loading, relative to the largest, with which a column belongs to a linear combination that does not vary."""


@dataclass(frozen=True)
class RegressionColumn:
    """A variable as columns of a regression: its number, or an indicator of each state except the first."""

    variable: Variable

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its coefficients: the variable's name if numeric, else `NAME=STATE` for all states but the first."""
        if self.variable.numeric:
            return (self.variable.name,)
        return tuple(f"{self.variable.name}={state}" for state in self.variable.states[1:])

    def values(self, shares: Floats, inside: Inside) -> Floats:
        """Compute the columns' values in each state, shape `(states, columns, draws)`.

        The one column of a numeric variable has the means of the bins in every draw. Columns of a categorical one are 1
        in their own state and 0 in others, in a read-only array.

        Args:
            shares: shares of the states, shape `(states, draws)`; of a categorical variable only the number of draws is
                used.
            inside: law inside bins.
        """
        if self.variable.numeric:
            return BinLaw.of_bins(self.variable, shares, inside).means()[:, None]
        return np.broadcast_to(np.eye(self.variable.size)[:, 1:, None], (*self._shape, shares.shape[-1]))

    @property
    def _shape(self) -> tuple[int, int]:
        """Number of states and number of columns."""
        return self.variable.size, len(self.names)

    def given(self, law: Floats, inside: Inside) -> Floats:
        """Compute `E(columns | state of another variable)`, shape `(others, columns, draws)`.

        For a number it is the mean under a law inside bins that is fitted to the shares given that state; for a
        categorical variable the conditional shares (`_find_shares_given`) of all states but the first.

        Args:
            law: joint law `P(other, own)`, shape `(others, states, draws)`; cells may be negative.
            inside: law inside bins.
        """
        others, size, draws = law.shape
        shares = _find_shares_given(law)
        if self.variable.numeric:
            flat = shares.transpose(1, 0, 2).reshape(size, others * draws)
            return BinLaw.of_bins(self.variable, flat, inside).mean().reshape(others, 1, draws)
        return shares[:, 1:]


def _find_shares_given(law: Floats) -> Floats:
    """Compute `P(own | other) = P(other, own) / P(other)`, shape `(others, states, draws)`.

    Where `P(other)` is 0 all own states have the same share. Where noise makes it negative it is still divided by: what
    is averaged under these shares enters sums with the weight `P(other)`, which are then sums over the joint law.

    Args:
        law: joint law `P(other, own)`, shape `(others, states, draws)`; cells may be negative.
    """
    total = law.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(law, total, out=np.full(law.shape, 1 / law.shape[1]), where=total != 0))


def average_given(law: Floats, values: Floats) -> Floats:
    """Average a variable's values in each state of another, shape `(others, columns, draws)`.

    It is `sum_k P(k | other) value_k`, with shares of `_find_shares_given`.

    Args:
        law: joint law `P(other, own)`, shape `(others, states, draws)`; cells may be negative.
        values: values in each own state, shape `(states, columns, draws)`.
    """
    return np.asarray(np.einsum("skd,kcd->scd", _find_shares_given(law), values))


@dataclass(frozen=True, eq=False)
class ColumnLaw:
    """Laws of the variables of a regression in every draw; each is computed at its first use, and kept.

    Where tables were read, the laws are moved to unbiased estimates of the measured pairs, so that cells may be
    negative (`plain_pairs.py`); not if no table contains a pair, or a count is not well above its noise.

    Args:
        both: posterior draws.
        names: covariates, then the target.
        inside: law inside bins.
        records: if given, laws are those of so many counted records: draws are pulled to their mean by the sampling
            error that the population has beyond them (`expect_counted`).
    """

    both: ConditionedPosterior
    names: Scope
    inside: Inside
    records: float | None = None

    @property
    def draws(self) -> int:
        """Number of draws, at least 1."""
        return self.both.given.cells.draws or 1

    @property
    def _measured_pairs(self) -> MeasuredSets | None:
        """Measured sets, to which laws are moved; None if no tables were read, or if anything is observed."""
        return None if self.both.parts is None or self.both.seen else self.both.parts.tabled_sets

    @cached_property
    def whole(self) -> Floats | None:
        """`P(names)` given the evidence, shape `(*sizes, draws)`.

        It is moved to unbiased estimates of the measured pairs if tables were read and nothing is observed. None if
        there are more than MOST_JOINT_STATES joint states, or more than MOST_LAW_VALUES values in all draws. Computed
        once.
        """
        laws, pairs = self.both.given, self._measured_pairs
        states = laws.network.cells(self.names)
        if states > MOST_JOINT_STATES or states * self.draws > MOST_LAW_VALUES:
            return None
        law = self._joint(self.names)
        return law if pairs is None else move_without_bias(pairs, law, self.names)

    def _joint(self, names: Scope) -> Floats:
        """Compute the law of some variables given the evidence, shape `(*sizes, draws)`."""
        return self.both.given.joint(names) if self.both.seen else self.both.given.whole(names)

    def of(self, *names: str) -> Floats:
        """Compute the joint law of one or two of the variables, shape `(*sizes, draws)`, axes in the given order.

        It is summed from `whole`, or taken from the laws of pairs if `whole` is None. With `records` n the draws are
        then replaced by the shares expected among n counted records (`expect_counted`), which vary less.
        """
        law = self._find(names)
        if self.records is None:
            return law
        return expect_counted(law.reshape(-1, self.draws), self.records).reshape(law.shape)

    def _find(self, names: tuple[str, ...]) -> Floats:
        """Compute the law of one or two of the variables as `of` does, in the population whatever `records` is."""
        if self.whole is None:
            return self._find_in_pairs(names)
        axes = [self.names.index(name) for name in names]
        others = tuple(axis for axis in range(len(self.names)) if axis not in axes)
        summed: Floats = self.whole.sum(axis=others)
        return summed if axes == sorted(axes) else summed.swapaxes(0, 1)

    def _find_in_pairs(self, names: tuple[str, ...]) -> Floats:
        """Compute the law of one or two variables from the laws of pairs, axes in the order of `names`.

        That of one variable is a margin of the first pair that contains it. Used if the joint law of all is too large.
        """
        if len(names) == 1:
            pair = next(pair for pair in self._pairs if names[0] in pair)
            return np.asarray(self._pairs[pair].sum(axis=1 - pair.index(names[0])))
        return self._pairs[names] if names in self._pairs else self._pairs[names[::-1]].swapaxes(0, 1)

    @cached_property
    def _pairs(self) -> Mapping[tuple[str, ...], Floats]:
        """Joint law of every pair of the variables, shape `(*sizes, draws)`; each pair is a key in one order only.

        If tables were read and nothing is observed, pairs are in the schema's order and moved to unbiased estimates;
        else in the order of `names`. Computed once.
        """
        laws, pairs = self.both.given, self._measured_pairs
        if pairs is not None:
            return find_pairs_without_bias(pairs, laws.cells, self.names)
        return {pair: self._joint(pair) for pair in combinations(self.names, 2)}

    @cached_property
    def singles(self) -> Mapping[str, Floats]:
        """Law of each variable by name, shape `(size, draws)`; computed once."""
        return {name: self.of(name) for name in self.names}

    def values(self, column: RegressionColumn) -> Floats:
        """Compute a variable's columns under its law, shape `(states, columns, draws)`: `RegressionColumn.values`."""
        return column.values(self.singles[column.variable.name], self.inside)


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Covariances in every draw of the columns m of bin means, with each other and with the columns x of numbers.

    Args:
        at_means: `Cov(m_i, m_j)`, shape `(draws, i, j)`, symmetric.
        with_numbers: `Cov(m_i, x_j)`, shape `(draws, i, j)`; equal to `at_means` where both columns are of one variable
            or column j is categorical.
        means: means of the columns, shape `(draws, columns)`.
    """

    at_means: Floats
    with_numbers: Floats
    means: Floats

    @cached_property
    def _deviation(self) -> Floats:
        """Standard deviation of each column m, shape `(draws, columns)`; 0 where the variance is negative."""
        return np.sqrt(np.maximum(np.diagonal(self.at_means, axis1=1, axis2=2), 0.0))

    @cached_property
    def unidentified(self) -> npt.NDArray[np.bool_]:
        """Flags of unidentified coefficients, shape `(draws, columns)`: their columns are constant or collinear.

        Columns whose standard deviation is not greater than 0 are flagged, and in such a draw no others. In other draws
        both covariances are divided by standard deviations. If the least eigenvalue of `at_means` is below
        SINGULAR_RATIO times the largest (also if it is negative: no law has such covariances, but noise may cause
        them), or if the same holds for the singular values of `with_numbers`, then those columns are flagged whose
        loading in the eigenvector of the least eigenvalue of `at_means` exceeds LEAST_LOADING times the largest
        loading. Computed once.
        """
        fixed = np.asarray(~(self._deviation > 0))
        degenerate = np.asarray(fixed.any(axis=-1))
        spread, loads = np.linalg.eigh(self._scale_moments(self.at_means, degenerate))
        singular = np.linalg.svd(self._scale_moments(self.with_numbers, degenerate), compute_uv=False)
        flat = (spread[:, 0] < SINGULAR_RATIO * spread[:, -1]) | (singular[:, -1] < SINGULAR_RATIO * singular[:, 0])
        loadings = np.abs(loads[:, :, 0])
        return np.asarray(fixed | (flat[:, None] & (loadings > LEAST_LOADING * loadings.max(axis=-1, keepdims=True))))

    def slopes(self, products: Floats) -> Floats:
        """Solve `Cov(m, x) beta = products` in every draw.

        Both sides are divided by the columns' standard deviations before, which improves the condition; slopes are in
        the columns' own units.

        Args:
            products: covariances of the columns m with the target, shape `(draws, columns)`.

        Returns:
            beta, shape `(draws, columns)`; all columns are NaN in a draw in which any column is unidentified.
        """
        degenerate = np.asarray(self.unidentified.any(axis=-1))
        units = np.where(degenerate[:, None], 1.0, self._deviation)
        slopes = (
            np.linalg.solve(self._scale_moments(self.with_numbers, degenerate), (products / units)[..., None])[..., 0]
            / units
        )
        slopes[degenerate] = np.nan
        return slopes

    def _scale_moments(self, moments: Floats, out: npt.NDArray[np.bool_]) -> Floats:
        """Divide covariances by the standard deviations of the columns m: `C_ij / (s_i s_j)`.

        Args:
            moments: C, shape `(draws, columns, columns)`.
            out: draws that are left out, shape `(draws,)`.

        Returns:
            Shape of C; the identity matrix for draws that are left out.
        """
        units = np.where(out[:, None], 1.0, self._deviation)
        return np.where(out[:, None, None], np.eye(units.shape[-1]), moments / units[:, :, None] / units[:, None])


def column_moments(law: ColumnLaw, covariates: Sequence[RegressionColumn]) -> ColumnMoments:
    """Compute the means and covariances of a regression's columns in every draw.

    Args:
        law: laws of the variables.
        covariates: covariates; a categorical one has several columns, or none if it has a single state.

    Returns:
        Moments of the columns of all covariates, in their order. A covariance with the number x of another variable
        uses `E(x | state)` of `RegressionColumn.given`; one within a variable uses its values in each state.
    """
    ends = np.cumsum([0, *(len(column.names) for column in covariates)])
    at_means = np.zeros((law.draws, int(ends[-1]), int(ends[-1])))
    with_numbers, means = at_means.copy(), np.zeros(at_means.shape[:2])
    for i, column_a in enumerate(covariates):
        rows, shares, values = slice(ends[i], ends[i + 1]), law.singles[column_a.variable.name], law.values(column_a)
        means[:, rows] = np.einsum("sd,scd->dc", shares, values)
        at_means[:, rows, rows] = with_numbers[:, rows, rows] = covariance(shares, values, values)
        for j, column_b in enumerate(covariates[:i]):
            columns, pair = slice(ends[j], ends[j + 1]), law.of(column_a.variable.name, column_b.variable.name)
            turned, others = pair.swapaxes(0, 1), law.values(column_b)
            at_means[:, rows, columns] = covariance(pair.sum(axis=1), values, average_given(pair, others))
            at_means[:, columns, rows] = at_means[:, rows, columns].swapaxes(1, 2)
            with_numbers[:, rows, columns] = covariance(pair.sum(axis=1), values, column_b.given(pair, law.inside))
            with_numbers[:, columns, rows] = covariance(turned.sum(axis=1), others, column_a.given(turned, law.inside))
    return ColumnMoments(at_means, with_numbers, means)


def covariance(shares: Floats, first_values: Floats, second_values: Floats) -> Floats:
    """Compute the covariances of two functions f and g of a variable's state in every draw.

    They are `sum_s p_s (f_s - E f) (g_s - E g)`; p may have negative elements.

    Args:
        shares: p, shares of the states, which sum to 1, shape `(states, draws)`.
        first_values, second_values: f and g in each state, shape `(states, columns, draws)`; their numbers of columns
            may differ.

    Returns:
        Shape `(draws, columns of f, columns of g)`.
    """
    first, second = (values - np.einsum("sd,scd->cd", shares, values) for values in (first_values, second_values))
    return np.asarray(np.einsum("sad,sbd->dab", first * shares[:, None], second))
