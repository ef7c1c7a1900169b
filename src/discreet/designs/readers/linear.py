r"""Posterior of linear regression from second moments under noise of known law: coefficients and residual variance.

A record is v = (u_1, ..., u_p, [1], y) with all entries in [-1, 1]. The release has noisy sums over the records:
products of the entries of v, squares as 2 v_i^2 - 1, and the number of records if it is private. The noise has the
density `exp(-||noise||_inf / scale)`, which is constant on the surfaces of cubes.

Model: y given the features x = (u, [1]) is normal with mean theta'x and variance s2; theta ~ N(0, deviation^2 I); p(s2)
is proportional to 1 / s2 between `LEAST_RESIDUAL_DEVIATION^2` and 1. Of the features only second moments enter. Their
prior is uniform in statistics, not in entries: all correlation matrices are equally likely, and so are all means and
variances that fit in [-1, 1]; the number of records, if it is private, is uniform.

Let A = sum x x', b = sum x y, c = sum y^2, C the scatter of u about its mean (about 0 without a constant) and rss = c -
b' A^-1 b. Given A and s2, b is normal with mean 0 and covariance s2 A + deviation^2 A^2 once theta is integrated out,
and rss / s2 is chi-squared with n - d degrees of freedom, independent of b; the Jacobian from (b, rss) to (b, c) is 1.
Proposals (A, b) = values - noise have a flat law; given the noise's radius, c is uniform in an interval of that length,
and so is rss. A chi-squared variate is drawn, and then s2 such that log s2 is uniform on the interval of values that
rss and s2 allow. The weight of a proposal is

    interval / radius * N(b; 0, s2 A + deviation^2 A^2) * n^-(p (p + 1) / 2 [+ p]) * prod_i (C_ii / n)^-((p - 1) / 2),

where the last two factors are the Jacobian from entries to correlations, means and variances; theta given (A, b, s2) is
normal. This is weighted resampling, exact up to the number of proposals. If the effective sample size is too small
(large noise in many dimensions), the method is refused.

Source: Zhang, Rubinstein and Dimitrakakis (AAAI 2016) and Bernstein and Sheldon (NeurIPS 2019) for regression from
noisy sufficient statistics; Hardt and Talwar (STOC 2010) for the noise; Lewandowski, Kurowicka and Joe (2009) for
correlations. The weights are derived above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.util.arrays import Floats

LEAST_RESIDUAL_DEVIATION = 1e-3
"""Least standard deviation of the target's residual, in units in which the target lies in [-1, 1]."""
LEAST_EFFECTIVE_PROPOSALS = 1000.0
"""Effective sample size of the proposals that ends the rounds of resampling."""
NUMBERS_PER_BATCH = 2_000_000
"""Size of a batch of proposals: values times proposals."""
MOST_PROPOSED_NUMBERS = 40_000_000
"""Largest size of all proposals together; about ten seconds."""
TOO_NOISY = (
    "the noise is too large for an exact posterior of that many features; read(release), which is the default "
    "(on the command line a query without --method), reads the same release by a normal approximation"
)
"""Error message if the effective sample size is too small. The release itself is valid, and other methods can read
it."""


# ------------------------------------------------------------------------------------------------ layout


@dataclass(frozen=True)
class SumLayout:
    """Layout of the released sums.

    Args:
        features: p, the number of features without the constant.
        intercept: whether there is a constant feature, last.
        records: number of records if it is public; None if it is private, and then its noisy value is the first sum.

    Raises:
        InputError: no features.

    Example:
        >>> SumLayout(14, intercept=False, records=37000).values
        120
    """

    features: int
    intercept: bool
    records: int | None

    def __post_init__(self) -> None:
        """Refuse a layout without features."""
        if self.features < 1:
            raise InputError("a regression needs at least one feature")

    @property
    def coefficients(self) -> int:
        """Number d of coefficients: the features, plus one for the constant if there is an intercept."""
        return self.features + self.intercept

    @property
    def values(self) -> int:
        """Number of released values: m (m + 1) / 2 products of the m = d + 1 entries of v, and n.

        The constant's square is left out, and so is n if it is public.
        """
        size = self.coefficients + 1
        return size * (size + 1) // 2 - self.intercept + (self.records is None)

    @property
    def upper(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows and columns of the released products within the symmetric m x m matrix of all products, in their order.

        The order is row by row in the upper triangle over (features, [constant], target), diagonal included. The
        constant's square is left out.

        Returns:
            (rows, columns), shape (products,) each; a private number of records is not among them.
        """
        rows, columns = np.triu_indices(self.coefficients + 1)
        if not self.intercept:
            return rows, columns
        published = ~((rows == self.features) & (columns == self.features))
        return rows[published], columns[published]


@dataclass(frozen=True, eq=False)
class RegressionSums:
    """Sums over records of features x and target y; d is p + 1 with a constant feature (last), else p.

    Args:
        records: n, shape `(...)`, unit: records.
        gram: A = sum x x', shape `(..., d, d)`, symmetric.
        cross: b = sum x y, shape `(..., d)`.
        square: c = sum y^2, shape `(...)`.
    """

    records: Floats
    gram: Floats
    cross: Floats
    square: Floats


def unpack(values: npt.ArrayLike, layout: SumLayout) -> RegressionSums:
    """Convert released values to sums over records: a sum of squares is `(value + n) / 2`, a product its value.

    Args:
        values: shape `(..., entries)`: the number of records first if it is private, then the products in row order of
            the upper triangle, squares as sums of 2 v_i^2 - 1.
        layout: layout of the values.

    Returns:
        The sums. Entry (constant, constant) of `gram` is n. A private n is returned as it was released, and may be any
        real number; a public one is repeated in the shape `(...)`. Nothing is clipped.

    Raises:
        InputError: a number of values other than the layout's.

    Example:
        >>> layout = SumLayout(1, intercept=False, records=4)
        >>> sums = unpack([0.0, 1.5, 2.0], layout)  # 2 u^2 - 1, u y, 2 y^2 - 1, summed over 4 records
        >>> sums.gram.tolist(), sums.cross.tolist(), float(sums.square)
        ([[2.0]], [1.5], 3.0)
    """
    array = np.asarray(values, np.float64)
    if array.ndim == 0 or array.shape[-1] != layout.values:
        raise InputError(
            f"{layout.values} values are needed for {layout.features} features, got an array of shape {array.shape}"
        )
    public = layout.records is not None
    count = np.full(array.shape[:-1], float(layout.records or 0)) if public else array[..., 0]
    products = array if public else array[..., 1:]
    rows, columns = layout.upper
    size, square = layout.coefficients + 1, rows == columns
    matrix = np.zeros((*array.shape[:-1], size, size))
    # sum v_i^2 = (sum (2 v_i^2 - 1) + n) / 2.
    filled = np.where(square, (products + count[..., None]) / 2, products)
    matrix[..., rows, columns] = filled
    matrix[..., columns, rows] = filled
    if layout.intercept:
        matrix[..., layout.features, layout.features] = count
    return RegressionSums(count, matrix[..., :-1, :-1], matrix[..., :-1, -1], matrix[..., -1, -1])


# ------------------------------------------------------------------------------------------------ draws


def moment_draws(
    values: Floats, layout: SumLayout, *, scale: float, prior_deviation: float, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw coefficients and residual variance given noisy second moments, by weighted resampling.

    Batches of proposals are drawn until their effective sample size is at least 1,000. Draws are picked from all
    proposals in proportion to their weights, with repetition.

    Args:
        values: released values, float array of shape `(entries,)`.
        layout: layout of the values.
        scale: scale of the noise, whose density is `exp(-||noise||_inf / scale)`.
        prior_deviation: prior standard deviation of each coefficient, in scaled units.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        (coefficients in scaled units, that of the constant feature last, shape `(draws, d)`; residual variances of the
        scaled target, from 1e-6 to 1, shape `(draws,)`). Draws are independent given the proposals.

    Raises:
        InputError: a wrong number of values; a public number of records that is not above d (proposals of a private
            number that is not are left out); or noise so large that 1,000 effective proposals would take more than
            `MOST_PROPOSED_NUMBERS` numbers.

    Source:
        The derivation is at the head of the module.
    """
    if layout.records is not None and not layout.records > layout.coefficients:
        raise InputError("more records than coefficients are needed")
    batch, limit = NUMBERS_PER_BATCH // values.size, MOST_PROPOSED_NUMBERS // values.size
    logs: list[Floats] = []
    thetas: list[Floats] = []
    variances: list[Floats] = []
    tried = 0
    while True:
        # Cube noise: the radius is gamma with shape entries + 1, and given it the noise is uniform in the cube. The
        # last value, c, keeps its interval (`_complete_proposals`).
        radius = rng.gamma(values.size + 1, scale, batch)
        noise = radius[:, None] * rng.uniform(-1, 1, (batch, values.size))
        noise[:, -1] = 0.0
        moments = unpack(values - noise, layout)
        log_weight, theta, variance = _complete_proposals(moments, radius, layout.features, prior_deviation, rng)
        logs, thetas, variances = [*logs, log_weight], [*thetas, theta], [*variances, variance]
        tried += batch
        log_weights = np.concatenate(logs)
        effective = _compute_effective_size(log_weights)
        if effective >= LEAST_EFFECTIVE_PROPOSALS:
            break
        # The effective sample size grows at most in proportion to the number of proposals.
        if tried + batch > limit or effective * limit / tried < LEAST_EFFECTIVE_PROPOSALS:
            raise InputError(TOO_NOISY)
    weight = np.exp(log_weights - log_weights.max())
    which = rng.choice(len(weight), draws, p=weight / weight.sum())
    return np.concatenate(thetas)[which], np.concatenate(variances)[which]


def _compute_effective_size(log_weight: Floats) -> float:
    """Compute Kish's effective sample size `(sum w)^2 / sum w^2` from log weights; 0 if there are none."""
    if not log_weight.size:
        return 0.0
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / (weight**2).sum())


def _complete_proposals(
    moments: RegressionSums, radius: Floats, features: int, deviation: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Draw s2 and theta for each possible proposal, and compute its log weight (module docstring).

    The proposed square c is the middle of its interval, of length `radius`. Along the eigenvectors of A the covariances
    of b, and of theta given b, are diagonal. Impossible proposals are left out: those that `_find_possible` refuses,
    those whose A is not positive definite, and those for which no s2 from 1e-6 to 1 is left.

    Args:
        moments: proposed sums, for each proposal.
        radius: radius of the noise of each proposal, shape (proposals,).
        features: p.
        deviation: prior standard deviation of each coefficient.
        rng: source of randomness.

    Returns:
        (log weights up to a constant, shape (possible,); coefficients, shape (possible, d); residual variances, shape
        (possible,)), in the order of the proposals.
    """
    width = moments.cross.shape[-1]
    possible, variances = _find_possible(moments, features)
    records, radius = moments.records[possible], radius[possible]
    eigenvalues, axes = np.linalg.eigh(moments.gram[possible])
    rotated = np.einsum("kij,ki->kj", axes, moments.cross[possible])
    rss = moments.square[possible] - (rotated**2 / np.where(eigenvalues > 0, eigenvalues, np.inf)).sum(-1)
    # s2 = rss / chi^2, with rss anywhere in its interval: log s2 is uniform between the ends (module docstring).
    chi = rng.chisquare(records - width)
    low = np.maximum((rss - radius / 2) / chi, LEAST_RESIDUAL_DEVIATION**2)
    high = np.minimum((rss + radius / 2) / chi, 1.0)
    valid = (eigenvalues[:, 0] > 0) & (high > low)
    eigenvalues, axes, rotated, records = eigenvalues[valid], axes[valid], rotated[valid], records[valid]
    interval = np.log(high[valid] / low[valid])
    s2 = low[valid] * np.exp(interval * rng.uniform(size=len(interval)))

    # Log weight: interval / radius, N(b; 0, s2 A + deviation^2 A^2) along the eigenvectors of A, Jacobian.
    total = s2[:, None] + deviation**2 * eigenvalues
    log_weight = np.log(interval / radius[valid]) - np.log(eigenvalues * total).sum(-1) / 2
    log_weight -= (rotated**2 / (eigenvalues * total)).sum(-1) / 2
    log_weight -= (features * (features + 1) / 2 + (width - features) * features) * np.log(records)
    log_weight -= (features - 1) / 2 * np.log(variances[valid]).sum(-1)
    # theta given (A, b, s2) is normal with covariance (A / s2 + I / deviation^2)^-1, diagonal along the eigenvectors.
    noise = deviation * np.sqrt(s2[:, None] / total) * rng.standard_normal(total.shape)
    theta = np.einsum("kij,kj->ki", axes, deviation**2 * rotated / total + noise)
    return log_weight, theta, s2


def _find_possible(moments: RegressionSums, features: int) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Find the proposals with more records than coefficients, and with features whose moments fit in [-1, 1].

    That is `n > d`, and for each feature a mean square below 1 and a variance above 0. Whether A is positive definite
    is checked later, with its eigenvalues.

    Args:
        moments: proposed sums.
        features: p.

    Returns:
        (mask of the possible proposals, shape (proposals,); variances `C_ii / n` of their features, about 0 without a
        constant, shape (possible, p)).
    """
    width = moments.cross.shape[-1]
    some = moments.records > width
    records = np.where(some, moments.records, 1.0)[:, None]
    second = np.diagonal(moments.gram, axis1=-2, axis2=-1)[:, :features] / records
    variance = second - (moments.gram[:, :features, -1] / records) ** 2 if width > features else second
    good = some & (second < 1).all(-1) & (variance > 0).all(-1)
    return good, variance[good]
