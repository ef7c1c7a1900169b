r"""Posterior of linear regression from second moments under noise of known law: coefficients and residual variance.

A record is v = (u_1, ..., u_p, [1], y) with all entries in [-1, 1]. Published are noisy sums over the records: products
of its entries, squares as 2 v_i^2 - 1, and the number of records where that is private. The noise is uniform on the
surfaces of cubes, with density `exp(-||noise||_inf / scale)`.

Model: y given the features x = (u, [1]) is normal with mean theta'x and variance s2; theta ~ N(0, deviation^2 I);
p(s2) is proportional to 1 / s2 between `LEAST_RESIDUAL_DEVIATION^2` and 1. Of the features only second moments matter.
Their prior is uniform in the sense of statistics, not of entries: any correlation matrix is as likely as any other, and
so are all means and variances that fit in [-1, 1]; the number of records, where it is private, is uniform.

Let A = sum x x', b = sum x y, c = sum y^2, C the scatter of u about its mean (about 0 without a constant) and
rss = c - b' A^-1 b. Given A and s2, b is normal with mean 0 and covariance s2 A + deviation^2 A^2 once theta is
integrated out, and rss / s2 is chi-squared with n - d degrees of freedom, independent of b; the Jacobian from (b, rss)
to (b, c) is 1. Proposals (A, b) = values - noise are flat; given the noise's radius, c may be anywhere in an interval
of that length, and so may rss. A chi-squared variate is drawn, and s2 so that log s2 is uniform on the interval where
both rss and s2 are possible. The weight of a proposal then is

    interval / radius * N(b; 0, s2 A + deviation^2 A^2) * n^-(p (p + 1) / 2 [+ p]) * prod_i (C_ii / n)^-((p - 1) / 2),

where the last two factors turn entries into correlations, means and variances; theta given (A, b, s2) is normal. That
is weighted resampling, exact up to the number of proposals. Where too few of them are worth anything (much noise in
many dimensions), it is refused.

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
"""Least effective sample size of resampling."""
NUMBERS_PER_BATCH = 2_000_000
"""Largest size of a batch of proposals: values times proposals."""
MOST_PROPOSED_NUMBERS = 40_000_000
"""Largest size of all proposals together; about ten seconds."""
TOO_NOISY = (
    "the noise is too large for an exact posterior of that many features; read(release), which is the default "
    "(on the command line a query without --method), reads the same release by a normal approximation"
)
"""Error message if too few proposals are plausible; the release itself is not affected."""


# ------------------------------------------------------------------------------------------------ layout


@dataclass(frozen=True)
class SumLayout:
    """Layout of the published sums.

    Args:
        features: p, the constant not counted.
        intercept: whether there is a constant feature, last.
        records: the number of records if it is public; None if it is the first of the values.

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
        if self.features < 1:
            raise InputError("a regression needs at least one feature")

    @property
    def coefficients(self) -> int:
        """d: number of features and the constant."""
        return self.features + self.intercept

    @property
    def values(self) -> int:
        """Number of published values: (m + 1) m / 2 for m entries of v, less the constant's square, plus private n."""
        size = self.coefficients + 1
        return size * (size + 1) // 2 - self.intercept + (self.records is None)

    @property
    def upper(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows and columns of the published products of v, in order."""
        rows, columns = np.triu_indices(self.coefficients + 1)
        if not self.intercept:
            return rows, columns
        published = ~((rows == self.features) & (columns == self.features))
        return rows[published], columns[published]


@dataclass(frozen=True, eq=False)
class RegressionSums:
    """Sums over records; d = p + 1 with a constant feature (last), else p.

    Args:
        records: n, shape `(...)`, unit: records.
        gram: A = sum x x', shape `(..., d, d)`.
        cross: b = sum x y, shape `(..., d)`.
        square: c = sum y^2, shape `(...)`.
    """

    records: Floats
    gram: Floats
    cross: Floats
    square: Floats


def unpack(values: npt.ArrayLike, layout: SumLayout) -> RegressionSums:
    """Unpack published values to sums.

    Args:
        values: shape `(..., entries)`: the number of records first if it is private, then the products in row order
            of the upper triangle, squares as sums of 2 v_i^2 - 1.
        layout: what they are of.

    Returns:
        The sums. The number of records that they hold may be any real number, as the noise has left it.

    Raises:
        InputError: another number of values than the layout's.

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

    Args:
        values: what was published, shape `(entries,)`.
        layout: what they are of.
        scale: of the noise, whose density is `exp(-||noise||_inf / scale)`.
        prior_deviation: standard deviation of each coefficient under the prior, in scaled units.
        draws: how many.
        rng: source of randomness.

    Returns:
        Coefficients in scaled units, shape `(draws, d)`, that of the constant feature last, and the residual's
        variances, shape `(draws,)`; independent given the proposals.

    Raises:
        InputError: values of another number; no more records than coefficients; or so much noise that
            `LEAST_EFFECTIVE_PROPOSALS` effective proposals would take more than `MOST_PROPOSED_NUMBERS` numbers.

    Source:
        See the module.
    """
    if layout.records is not None and not layout.records > layout.coefficients:
        raise InputError("more records than coefficients are needed")
    batch, limit = NUMBERS_PER_BATCH // values.size, MOST_PROPOSED_NUMBERS // values.size
    logs: list[Floats] = []
    thetas: list[Floats] = []
    variances: list[Floats] = []
    tried = 0
    while True:
        radius = rng.gamma(values.size + 1, scale, batch)
        noise = radius[:, None] * rng.uniform(-1, 1, (batch, values.size))
        noise[:, -1] = 0.0
        moments = unpack(values - noise, layout)
        log_weight, theta, variance = _weigh_proposals(moments, radius, layout.features, prior_deviation, rng)
        logs, thetas, variances = [*logs, log_weight], [*thetas, theta], [*variances, variance]
        tried += batch
        log_weights = np.concatenate(logs)
        effective = _effective_size(log_weights)
        if effective >= LEAST_EFFECTIVE_PROPOSALS:
            break
        # Effective numbers grow with the proposals at the most.
        if tried + batch > limit or effective * limit / tried < LEAST_EFFECTIVE_PROPOSALS:
            raise InputError(TOO_NOISY)
    weight = np.exp(log_weights - log_weights.max())
    which = rng.choice(len(weight), draws, p=weight / weight.sum())
    return np.concatenate(thetas)[which], np.concatenate(variances)[which]


def _effective_size(log_weight: Floats) -> float:
    """Compute Kish's effective sample size of weighted proposals."""
    if not log_weight.size:
        return 0.0
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / (weight**2).sum())


def _weigh_proposals(
    moments: RegressionSums, radius: Floats, features: int, deviation: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Compute log weights of the possible proposals, and draw coefficients and variance for each.

    The sum of squares of the target is the middle of its interval, of length `radius`. In the eigenvectors of A the
    covariance of b, and that of theta given b, are diagonal.
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

    # N(b; 0, s2 A + deviation^2 A^2) along the eigenvectors of A, times the other factors of the weight.
    total = s2[:, None] + deviation**2 * eigenvalues
    log_weight = np.log(interval / radius[valid]) - np.log(eigenvalues * total).sum(-1) / 2
    log_weight -= (rotated**2 / (eigenvalues * total)).sum(-1) / 2
    log_weight -= (features * (features + 1) / 2 + (width - features) * features) * np.log(records)
    log_weight -= (features - 1) / 2 * np.log(variances[valid]).sum(-1)
    noise = deviation * np.sqrt(s2[:, None] / total) * rng.standard_normal(total.shape)
    theta = np.einsum("kij,kj->ki", axes, deviation**2 * rotated / total + noise)
    return log_weight, theta, s2


def _find_possible(moments: RegressionSums, features: int) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Find the proposals with more records than coefficients and features in [-1, 1], and their features' variances.

    Whether the matrices are positive definite is not looked at yet.
    """
    width = moments.cross.shape[-1]
    some = moments.records > width
    records = np.where(some, moments.records, 1.0)[:, None]
    second = np.diagonal(moments.gram, axis1=-2, axis2=-1)[:, :features] / records
    variance = second - (moments.gram[:, :features, -1] / records) ** 2 if width > features else second
    good = some & (second < 1).all(-1) & (variance > 0).all(-1)
    return good, variance[good]
