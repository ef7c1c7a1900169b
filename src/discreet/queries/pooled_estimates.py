r"""One interval from estimates of several synthetic data sets.

Set m has k records drawn from `theta_m`, itself a draw of the posterior given the release. Let `Q = q(theta)` be the
quantity of interest, V its posterior variance, `q_m` its estimate from set m, and `u_m` the sampling variance that the
analyst's usual formula gives `q_m` (for k records). Then, for estimates that are unbiased and nearly normal,

    q_m | theta_m ~ N(Q(theta_m), U),    Q(theta_m) | release ~ N(E, V),    so    q_m | release ~ N(E, V + U).

Their mean `q` is E with variance (V + U) / M. Their variance B over the sets estimates V + U, and the mean of `u_m`
estimates U. So, with `S = V + U`,

    Q | sets, S ~ N(q, (1 + 1/M) S - U),    (M - 1) B / S ~ chi-square with M - 1 degrees,    S >= U.

That holds for any k, even one that differs from the number of records released; V includes the sampling error of the
original records and the privacy noise, since `theta_m` comes from a posterior that includes both. `T = (1 + 1/M) B - U`
is the well-known estimate of the variance. It can be negative, and Student's t with `(M - 1) (1 - U / ((1 + 1/M) B))^2`
degrees, which matches two moments of the law above, is then undefined, and gives arbitrarily wide intervals when T is
near 0. Reiter's replacement for a negative T requires the number of records, which is private under ADD_REMOVE. The law
itself, truncated to `S >= U`, has neither problem; here its quantiles are found by quadrature over S.

Source: Raghunathan, Reiter and Rubin (2003), Multiple imputation for statistical disclosure limitation, Journal of
Official Statistics 19(1); Reiter (2002), Satisfying disclosure requirements with synthetic data sets, the same 18(4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaincinv, ndtr, ndtri

from discreet.display.renderers import IntervalTable
from discreet.errors import InputError
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.tabular import Block, Result

QUADRATURE_NODES = 200
"""Nodes of the quadrature over S."""
CROWDING_POWER = 2
"""Power by which nodes are concentrated where S is large, which determines the interval of few sets."""
BISECTIONS = 60
LEAST_TAIL = 1e-150
"""Least tail probability for which a chi-square quantile is not rounded to 0."""


@dataclass(frozen=True, eq=False)
class PooledEstimate(Result):
    """Pooled estimates and intervals of one or more quantities from several synthetic data sets.

    Args:
        mean: estimate, the mean over the sets; shape () or (k,), like all that follows.
        lower: lower end of the interval.
        upper: upper end.
        level: posterior probability of each interval.
        between: variance of the estimates over the sets, B.
        within: mean of their sampling variances, U.
        sets: how many, M.

    Raises:
        Nothing.

    Example:
        >>> import numpy as np
        >>> ends = (np.array(0.4), np.array(0.6))
        >>> between, within = np.array(0.004), np.array(0.001)
        >>> pooled = PooledEstimate(np.array(0.5), *ends, 0.95, between, within, sets=4)
        >>> float(pooled.variance.round(6))
        0.004
    """

    mean: Floats
    lower: Floats
    upper: Floats
    level: float
    between: Floats
    within: Floats
    sets: int

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each quantity.

        Returns:
            Rows of "quantity", counted from 1, "mean", "lower", "upper" and "level"; one row if the shape is ().
        """
        ends = (np.atleast_1d(numbers).tolist() for numbers in (self.mean, self.lower, self.upper))
        return [
            {"quantity": number, "mean": mean, "lower": lower, "upper": upper, "level": self.level}
            for number, (mean, lower, upper) in enumerate(zip(*ends, strict=True), 1)
        ]

    def content(self) -> Iterator[Block]:
        """Yield one table of the rows of `tidy`."""
        yield IntervalTable(self.tidy())

    @property
    def variance(self) -> Floats:
        """Unbiased estimate `(1 + 1/M) B - U` of the variance of Q, shape of `mean`.

        It is negative where sets are too few or too small, and is not floored; the intervals do not use it.
        """
        return np.asarray((1 + 1 / self.sets) * self.between - self.within)


def pool_estimates(
    estimates: npt.ArrayLike, variances: npt.ArrayLike, *, level: float = DEFAULT_LEVEL
) -> PooledEstimate:
    """Pool an estimate from several synthetic data sets into one with a valid interval.

    The interval is `mean -+ h`, where h solves `P(|Q - mean| <= h) = level` under the law of Q in the module's
    docstring. If all estimates are equal (B = 0), h is that of the variance U / M; if U is 0, too, h is 0.

    Few sets have a cost: with sets of as many records as the release had, intervals are 11 / 3.4 / 2 / 1.4 / 1.2 / 1.1
    times as wide as the posterior's for 2 / 3 / 5 / 10 / 20 / 50 sets, and those of ten sets or fewer cover more often
    than their level. Larger sets cost less.

    Args:
        estimates: one estimate for each set of `sample`, shape (M,), or (M, k) for k quantities; M at least 2. They
            should be nearly normal: use the logarithms of ratios.
        variances: squared standard errors of the estimates, as any program computes them from one set, same shape;
            computed with the number of records in the synthetic set, not in the release.
        level: posterior probability of each interval.

    Returns:
        For each quantity separately the mean over the sets and the interval, which is symmetric around the mean and not
        cut at any bound, shape () or (k,); with `level`, the variances `between` (divisor M - 1) and `within` sets, and
        the number of sets (see `PooledEstimate`).

    Raises:
        InputError: fewer than two sets, shapes that differ or have another number of axes, an estimate that is not
            finite, a variance that is negative or not finite, or a level outside (0, 1).

    Guarantee:
        No budget is spent; only estimates from synthetic records are read.

    Source:
        Raghunathan, Reiter and Rubin (2003); `help("discreet.queries.pooled_estimates")` derives the rule.

    Example:
        >>> import discreet as dc
        >>> pooled = dc.tools.pool_estimates([0.50, 0.56, 0.53, 0.49, 0.52], [1e-4] * 5, level=0.95)
        >>> f"{pooled.mean:.3f}: {pooled.lower:.3f} to {pooled.upper:.3f}"
        '0.520: 0.439 to 0.601'
    """
    q, u = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    if q.shape != u.shape or q.ndim not in (1, 2) or len(q) < 2:
        raise InputError(
            "pooling needs an estimate and a variance of each of at least two synthetic sets, in two arrays of one "
            f"shape (sets,) or (sets, quantities); got {q.shape} and {u.shape}"
        )
    if not (np.all(np.isfinite(q)) and np.all(np.isfinite(u)) and np.all(u >= 0)):
        raise InputError(
            "an estimate is not finite, or a variance negative or not finite; larger sets leave no cell empty"
        )
    if not 0 < level < 1:
        raise InputError(f"a level lies between 0 and 1, got {level}")
    mean, between, within = q.mean(axis=0), q.var(axis=0, ddof=1), u.mean(axis=0)
    half = _find_half_width(len(q), np.atleast_1d(between), np.atleast_1d(within), level).reshape(mean.shape)
    return PooledEstimate(mean, mean - half, mean + half, level, between, within, len(q))


def _find_half_width(sets: int, between: Floats, within: Floats, level: float) -> Floats:
    """Compute half the width h of each interval, by quadrature over the law of S.

    h solves `sum over nodes j of w_j (2 Phi(h / d_j) - 1) = level` with the deviations d_j and weights w_j of
    `_list_deviations`, by BISECTIONS bisections between 0 and the largest d_j times the normal quantile of `(1 + level)
    / 2`.

    Args:
        sets: number of sets, M.
        between: variance of the estimates over the sets, B, shape (k,).
        within: mean of their sampling variances, U, shape (k,).
        level: posterior probability of each interval.

    Returns:
        The upper end of the last bracket, shape (k,); 0 where all deviations are 0.
    """
    deviations, weights = _list_deviations(sets, between, within)
    widest = deviations.max(axis=-1)
    low, high = np.zeros(len(widest)), ndtri((1 + level) / 2) * widest
    safe = np.maximum(deviations, np.finfo(np.float64).tiny)
    # Q given S is normal: solve E_S[2 Phi(half / deviation(S)) - 1] = level by bisection.
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        covered = (2 * ndtr(middle[:, None] / safe) - 1) @ weights
        low, high = np.where(covered < level, middle, low), np.where(covered < level, high, middle)
    return np.asarray(high)


def _list_deviations(sets: int, between: Floats, within: Floats) -> tuple[Floats, Floats]:
    """Compute standard deviations of Q at the quadrature nodes of the law of S, truncated to `S >= U`.

    At node j the deviation is `sqrt((1 + 1/M) S_j - U)` with `S_j = max((M - 1) B / x_j, U)`. x_j is the chi-square
    quantile (M - 1 degrees) of the probability `max(c_j P(x <= (M - 1) B / U), LEAST_TAIL)`; that probability of x is 1
    if U = 0. c_j is a Gauss-Legendre node on (0, 1) to the power CROWDING_POWER.

    Args:
        sets: number of sets, M.
        between: variance of the estimates over the sets, B, shape (k,).
        within: mean of their sampling variances, U, shape (k,).

    Returns:
        Standard deviations, shape (k, QUADRATURE_NODES), and the nodes' weights, shape (QUADRATURE_NODES,), which sum
        to 1.
    """
    points, weights = np.polynomial.legendre.leggauss(QUADRATURE_NODES)
    points, weights = (points + 1) / 2, weights / 2
    shares, weights = points**CROWDING_POWER, CROWDING_POWER * points ** (CROWDING_POWER - 1) * weights
    spread = (sets - 1) * between[:, None]
    floor = within[:, None]
    # Half a chi-square has a gamma law of this shape; S >= U is chi-square <= (M - 1) B / U.
    shape = (sets - 1) / 2
    most = gammainc(shape, np.divide(spread, 2 * floor, out=np.full_like(spread, np.inf), where=floor > 0))
    chi_square = 2 * gammaincinv(shape, np.maximum(most * shares, LEAST_TAIL))
    s = np.maximum(spread / chi_square, floor)
    return np.sqrt((1 + 1 / sets) * s - floor), weights
