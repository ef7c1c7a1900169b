r"""Slopes of a regression from a noisy Gram matrix and a noisy vector of cross products.

Every regression here leads to the same equations: `c = A theta + error`, where A holds centred sums of products of the
features, perhaps weighted, and c the sums of their products with the response. Both are released with noise. Least
squares on noisy sums is useless if the noise is as large as the smallest eigenvalues of A, since it divides by numbers
near 0. So A is drawn given its noisy entries, and theta is drawn given A.

* Entries of A are decomposed into scales and correlations. The squares of the features, their means and the
  correlations have a normal prior each, one for all squares, one for all means, one for all correlations; its width is
  learned from the noisy values (empirical Bayes). Squares and means are shrunk towards a learned centre, correlations
  towards 0, and more so the noisier they are. Eigenvalues of a drawn correlation matrix that are below a multiple of
  the typical eigenvalue of the noise (`NOISE_EDGE`) are raised to it.
* Along the eigenvectors q_k of a drawn A = sum lambda_k q_k q_k' the equations decouple: `c_k = lambda_k theta_k +
  error`. The slope along an axis is N(0, t^2), in units in which every feature has a centred sum of squares of 1. An
  axis has a scale t of its own with probability 1/2, else that of all axes. With r = p t^2 / s, where s is the
  response's centred sum of squares (for classes and counts, that of a predictor of the prior's variance), r has the
  density (1 + r)^-2, so that the explained share r / (1 + r) is uniform. t is summed out on a grid.
* The weight of each drawn A is the probability density of c given A.

Given A and t, two things are approximated: cube noise (the K-norm mechanism's noise in the maximum norm, whose density
falls with the largest entry) is taken to be normal along each axis, since it is a sum over many entries, and
independent between axes. If the noise is small compared with every eigenvalue of A, the result is least squares with
errors in both variables. Along an axis that is dominated by noise, slopes are shrunk to 0 and intervals are those of
the prior.

Source: the model is derived here; learned widths as in James and Stein (1961) and Efron and Morris (1973), the law of t
as that of g in Liang et al. (2008), their hyper-g with a = 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri_exp

from discreet.util.arrays import Floats

MOST_MATRICES, LEAST_MATRICES, MATRIX_WORK = 400, 50, 2e8
"""Largest and smallest number of drawn matrices, and the work (matrices times p^3) of about a second of
eigenvectors."""
LEAST_EIGENVALUE = 1e-6
"""Least eigenvalue of a drawn correlation matrix."""
NOISE_EDGE = 0.12
"""Least eigenvalue of a drawn correlation matrix, relative to the root of p times the residual variance of its entries,
the order of the largest eigenvalue of the noise."""
LEAST_CORRELATION_WIDTH = 0.4
"""Least prior width of the correlations, in units of 1 / sqrt(p + 1). This and `NOISE_EDGE` were set on seeds 100 to
105 of the data sets of `bench.estimators --coverage`, at epsilon .3 to 3."""
OWN_SCALE_PROBABILITY = 0.5
"""Prior probability that an axis has its own scale t of slopes, instead of the common one."""
ESTIMATE_SEED = 20161
"""Seed of the matrices drawn for an estimate, so that it is a function of the release alone."""
SLOPE_RATIOS = np.geomspace(1e-3, 100, 30)
"""Grid of r = p t^2 / s, the ratio of squared slopes to their prior unit."""


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Noisy sums over records of products of p features, weighted if the records have weights.

    Args:
        weight: number of records, or sum of their weights; positive.
        weight_variance: noise variance of `weight`.
        linear: noisy sums of the features, shape (p,); None if the features are not centred.
        squares: noisy sums of their squares, shape (p,).
        products: noisy sums of u_i u_j, i < j, in row order, shape (p (p - 1) / 2,).
        linear_variance: noise variance of each entry of `linear`.
        square_variance: noise variance of `squares`, one number or shape (p,).
        product_variance: noise variance of `products`, one number or shape (p (p - 1) / 2,); 0 for products known to be
            0.
    """

    weight: float
    weight_variance: float
    linear: Floats | None
    squares: Floats
    products: Floats
    linear_variance: float
    square_variance: float | Floats
    product_variance: float | Floats


@dataclass(frozen=True, eq=False)
class GramDraws:
    """Draws of centred sums of products: `A = diag(scales) axes diag(eigenvalues) axes' diag(scales)`.

    Args:
        means: estimated means of the features, shape (p,).
        mean_covariance: posterior covariance of the means, shape (p, p). A wrong weight moves all means alike.
        drawn_means: a draw of the means for each matrix, shape (draws, p).
        scales: roots of the estimated centred sums of squares, shape (p,).
        eigenvalues: shape (draws, p), positive.
        axes: eigenvectors in the last axis, shape (draws, p, p).
    """

    means: Floats
    mean_covariance: Floats
    drawn_means: Floats
    scales: Floats
    eigenvalues: Floats
    axes: Floats

    def along(self, values: Floats) -> Floats:
        """Rotate a vector over scaled features to the axes of each draw, `axes' values`.

        Args:
            values: one vector, shape (p,), or one for each draw, shape (draws, p).

        Returns:
            Shape (draws, p).
        """
        return np.asarray(np.einsum("mik,mi->mk", self.axes, np.broadcast_to(values, self.eigenvalues.shape)))

    def variance_along(self, variances: Floats) -> Floats:
        """Compute variances along the axes, `sum_i axes_ik^2 v_i`, of a vector over scaled features.

        Args:
            variances: variances v of its independent entries, shape (p,).

        Returns:
            Shape (draws, p).
        """
        return np.asarray(np.einsum("mik,i->mk", self.axes**2, variances))


@dataclass(frozen=True, eq=False)
class SlopeLaw:
    """Law of slopes: independent normal laws along axes, mixed over drawn matrices and over the grid of scales t.

    Args:
        gram: drawn matrices.
        chosen: probabilities of the scales along each axis, shape (scales, draws, p), sum 1 over the scales.
        slopes: normal means along the axes, in units of the features' scales, shape (scales, draws, p).
        variances: normal variances, shape (scales, draws, p).
        weights: probabilities of the drawn matrices, shape (draws,), sum 1.
    """

    gram: GramDraws
    chosen: Floats
    slopes: Floats
    variances: Floats
    weights: Floats

    @property
    def means(self) -> Floats:
        """Mean slope along each axis, averaged over t, in units of the features' scales, shape (draws, p)."""
        return np.asarray((self.chosen * self.slopes).sum(axis=0))

    @property
    def mean(self) -> Floats:
        """Posterior mean slopes in the units of the features, averaged over the weighted matrices, shape (p,)."""
        return np.asarray(np.einsum("m,mik,mk->i", self.weights, self.gram.axes, self.means) / self.gram.scales)

    def estimate(self, weight: float, start: Floats, most: float = math.inf) -> Floats:
        """Compute the slopes that minimise the expected squared prediction error, with an intercept through the means.

        A prediction is off by `(x - m) (slopes - theta)`. If the true means m differ from the estimated ones, it is
        also off by `(m - means) (slopes - start)`, which is why slopes are shrunk towards `start`: the change solves
        `(E[A] + weight Var(means)) change = E[A] (mean - start)`.

        Args:
            weight: number of records, or sum of their weights.
            start: slopes for which the intercept does not depend on the means, shape (p,).
            most: largest sum of squares `change' E[A] change` that the change from `start` may explain; a longer one is
                shortened to it in the same direction.

        Returns:
            Slopes in the units of the features, shape (p,).
        """
        gram, scales = self.gram, self.gram.scales
        # E[A] in scaled features. The solution of (E[A] + n Var(means)) change = E[A] (mean - start) minimises the
        # expected loss.
        mean = np.einsum("m,mik,mk,mjk->ij", self.weights, gram.axes, gram.eigenvalues, gram.axes, optimize=True)
        moved = mean + weight * gram.mean_covariance / np.outer(scales, scales)
        change = np.linalg.solve(moved, mean @ ((self.mean - start) * scales))
        return np.asarray(start + change * _find_shrinkage(float(change @ mean @ change), most) / scales)

    def told(self, move: Floats) -> float:
        """Compute how much of a move towards the posterior mean is signal, from 0 to 1.

        It is `s / (s + v)`: s is the mean sum of squares that the move explains, v that of the posterior's error. Each
        draw of A counts with the slopes that go with it, since these are long where A is small.

        Args:
            move: change of the slopes in the units of the features, shape (p,).
        """
        gram, middle = self.gram, self.gram.along(self.mean * self.gram.scales)
        error = (self.chosen * (self.variances + (self.slopes - middle) ** 2)).sum(axis=0)
        squares = np.stack([gram.along(move * gram.scales) ** 2, error])
        signal, noise = np.einsum("m,mk,amk->a", self.weights, gram.eigenvalues, squares)
        return float(signal / (signal + noise))

    def draw(
        self, number: int, rng: np.random.Generator, most: Floats | None = None
    ) -> tuple[Floats, npt.NDArray[np.intp]]:
        """Draw slopes: a matrix by its weight, a scale t independently for each axis, then normal slopes.

        Args:
            number: number of draws.
            rng: source of randomness.
            most: largest sum of squares `theta' A theta` that slopes may explain, one for each matrix, shape
                (matrices,); longer slopes are shortened to it. None for no limit.

        Returns:
            (slopes in the units of the features, shape (number, p); index of the matrix of each draw, shape (number,)).
        """
        picked = rng.choice(len(self.weights), number, p=self.weights)
        # Draw a scale for each axis by inversion of its cumulated probabilities.
        cumulated = self.chosen[:, picked].cumsum(axis=0)
        scale = (rng.random(cumulated.shape[1:]) > cumulated).sum(axis=0).clip(0, len(cumulated) - 1)[None]
        mean, variance = (
            np.take_along_axis(table[:, picked], scale, axis=0)[0] for table in (self.slopes, self.variances)
        )
        along = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
        if most is not None:
            along *= _find_shrinkage((self.gram.eigenvalues[picked] * along**2).sum(axis=1), most[picked])[:, None]
        return np.einsum("nik,nk->ni", self.gram.axes[picked], along) / self.gram.scales, picked


def gram_draws(sums: NoisySums, rng: np.random.Generator) -> GramDraws:
    """Draw centred sums of products given noisy sums: means, centred squares, then correlations.

    Means (first clipped to +-1.5) and centred squares are shrunk towards a common centre by empirical Bayes. Means then
    stay in [-1, 1]; each matrix has its own means, drawn around them. Centred squares are drawn from normal laws cut to
    `[1e-6 weight, weight]`, correlations by `_draw_correlations`. Without `linear` the means are 0 without error.

    Args:
        sums: noisy sums, of positive `weight` and square variances.
        rng: source of randomness.

    Returns:
        50 to 400 independent draws, fewer for more features, each with eigenvalues of at least 1e-9 in units of the
        scales.
    """
    width, weight, number = len(sums.squares), sums.weight, _count_matrices(len(sums.squares))
    means = mean_variances = np.zeros(width)
    if sums.linear is not None:
        noisy, known = np.clip(sums.linear / weight, -1.5, 1.5), np.full(width, sums.linear_variance / weight**2)
        means, mean_variances = _shrink_values(noisy, known, -1.0, 1.0, np.geomspace(0.01, 1, 15))
        means = np.clip(means, -1, 1)
    # A weight that is too large by some share makes all means smaller by it, and all that is centred larger.
    relative, errors = np.sqrt(sums.weight_variance) / weight, rng.standard_normal((number, 1))
    common, moved = weight * means**2 * relative, np.clip(relative * errors, -1, 1)
    # E[sum (u - m)^2] = sum u^2 - n (mean^2 + Var(mean)).
    centred = sums.squares - weight * (means**2 + mean_variances)
    # Variance of the centred squares by the delta method.
    variance = sums.square_variance + (2 * weight * means) ** 2 * mean_variances
    middle = np.clip(np.average(centred, weights=1 / variance), 1e-6 * weight, weight)
    widths = np.geomspace(0.05, 3, 15) * max(middle, np.sqrt(variance.mean() / width))
    squares, variance = _shrink_values(centred, variance, 1e-6 * weight, weight, widths)
    spread = np.sqrt(variance + common**2)
    scores = (common * errors + np.sqrt(variance) * rng.standard_normal((number, width))) / spread
    mean_square, drawn = cut_normal(squares, spread, 1e-6 * weight, weight, ndtr(scores))
    scales = np.sqrt(mean_square)
    matrices = _draw_correlations(sums, means, mean_variances, np.sqrt(drawn), moved, rng)
    ratio = np.sqrt(drawn) / scales
    eigenvalues, axes = np.linalg.eigh(matrices * ratio[:, :, None] * ratio[:, None, :])
    drawn_means = means * (1 - moved) + np.sqrt(mean_variances) * rng.standard_normal(drawn.shape)
    covariance = np.diag(mean_variances) + relative**2 * np.outer(means, means)
    return GramDraws(means, covariance, drawn_means, scales, np.maximum(eigenvalues, 1e-9), axes)


def slope_law(
    gram: GramDraws, cross: Floats, noise: Floats, *, sampling: Floats, unit: Floats, volume: Floats
) -> SlopeLaw:
    """Compute the law of theta given `cross = A theta + error`, along the axes of each draw of A.

    The error's variance along an axis is `noise + sampling * eigenvalue`. The scale t of the slopes is summed out on
    the grid `SLOPE_RATIOS`.

    Args:
        gram: draws of A.
        cross: left sides along the axes, in units of the features' scales, shape (draws, p).
        noise: noise variance of each, shape (draws, p).
        sampling: variance of the sampling error, relative to the eigenvalues of A, shape (draws,).
        unit: s / p, the prior unit of squared slopes, in units of the features' scales, shape (draws,).
        volume: log Jacobian from the observation to `cross`, shape (draws,): 0 if `cross` is the observation itself.

    Returns:
        The law. Along an axis of eigenvalue l, given t, slopes have the mean `t^2 l / total * cross` and the variance
        `t^2 error / total`, with `total = t^2 l^2 + error`. Matrices are weighted by likelihood times `exp(volume)`.
    """
    grid = gram.eigenvalues
    # Density (1 + r)^-2 of r on a logarithmic grid, where the step is proportional to r.
    prior = np.log(SLOPE_RATIOS) - 2 * np.log1p(SLOPE_RATIOS)
    prior -= logsumexp(prior)
    squares = (SLOPE_RATIOS[:, None] * unit)[:, :, None]
    error = noise + sampling[:, None] * grid
    # Given t, c_k ~ N(0, t^2 lambda_k^2 + noise + sampling lambda_k).
    total = squares * grid**2 + error
    likelihoods = -0.5 * np.log(total) - 0.5 * cross**2 / total
    # Posterior of the common scale given all other axes, leaving out the axis itself.
    common = likelihoods.sum(axis=2, keepdims=True) - likelihoods + prior[:, None, None]
    common -= logsumexp(common, axis=0)
    mixed = (
        np.logaddexp(np.log1p(-OWN_SCALE_PROBABILITY) + common, np.log(OWN_SCALE_PROBABILITY) + prior[:, None, None])
        + likelihoods
    )
    evidence = logsumexp(mixed, axis=0)
    counts = evidence.sum(axis=1) + volume
    weights = np.exp(counts - counts.max())
    return SlopeLaw(
        gram, np.exp(mixed - evidence), squares * grid / total * cross, squares * error / total, weights / weights.sum()
    )


def cut_normal(mean: Floats, deviation: Floats, low: float, high: float, shares: Floats) -> tuple[Floats, Floats]:
    """Compute means of truncated normal laws, and draw from them by inversion.

    Args:
        mean: means before truncation, shape (n,); they may lie outside the interval.
        deviation: standard deviations before truncation, positive, shape (n,).
        low: lower end of the interval, the same for all.
        high: upper end of the interval.
        shares: uniform numbers in (0, 1), shape (draws, n), of which each makes a draw that grows with it.

    Returns:
        (means, averaged over 400 quantiles, shape (n,); draws, shape (draws, n)), all from `low` to `high`.

    Example:
        >>> shares = np.random.default_rng(0).random((50, 1))
        >>> means, draws = cut_normal(np.array([0.0]), np.array([1.0]), 0.0, 10.0, shares)
        >>> bool(draws.min() >= 0), round(float(means[0]), 1)
        (True, 0.8)
    """
    # Work with log tail probabilities on the side where tails are small: far out, the other side rounds to 1.
    start, end = (low - mean) / deviation, np.maximum((high - mean) / deviation, (low - mean) / deviation + 1e-9)
    side = np.where(start > 0, -1, 1)
    a, b = log_ndtr(side * start), log_ndtr(side * end)

    def at(share: Floats) -> Floats:
        """Compute quantiles, shape (m, n), from `low` to `high`, at shares in (0, 1), shape (m, 1) or (m, n)."""
        with np.errstate(divide="ignore"):
            scores = side * ndtri_exp(np.logaddexp(np.log1p(-share) + a, np.log(share) + b))
        return np.asarray(np.clip(mean + deviation * np.clip(scores, start, end), low, high))

    return at((np.arange(400) + 0.5)[:, None] / 400).mean(axis=0), at(shares)


def _find_shrinkage(explained: Floats | float, most: Floats | float) -> Floats:
    """Compute the factor, at most 1, that shortens slopes so that they explain at most `most`.

    Args:
        explained: sum of squares `theta' A theta` that the slopes explain, at least 0, a number or shape (draws,).
        most: largest sum of squares that slopes may explain, same shape.

    Returns:
        `min(1, sqrt(most / explained))`, 1 if nothing is explained; shape of the arguments.
    """
    return np.asarray(np.minimum(1.0, np.sqrt(most / np.maximum(explained, 1e-300))))


def _count_matrices(width: int) -> int:
    """Compute the number of matrices to draw: `2e8 / width^3`, rounded down, but at least 50 and at most 400."""
    return int(min(MOST_MATRICES, max(LEAST_MATRICES, MATRIX_WORK // width**3)))


def _weigh_widths(values: Floats, variances: Floats, widths: Floats) -> tuple[Floats, Floats]:
    """Compute the posterior of the width w of a normal prior with mean 0, and the shrinkage factors under each width.

    Args:
        values: noisy values, shape (n,).
        variances: noise variances, shape (n,).
        widths: possible widths, equally likely a priori, shape (m,).

    Returns:
        (probabilities, shape (m,); factors `w^2 / (w^2 + variance)`, shape (m, n)).
    """
    squares = widths[:, None] ** 2
    logs = -0.5 * np.sum(np.log(squares + variances) + values**2 / (squares + variances), axis=1)
    return np.exp(logs - logsumexp(logs)), squares / (squares + variances)


def _shrink_values(values: Floats, variances: Floats, low: float, high: float, widths: Floats) -> tuple[Floats, Floats]:
    """Shrink noisy values towards a common centre, with centre and width of their normal prior learned from them.

    Args:
        values: noisy values, shape (n,).
        variances: noise variances, shape (n,), positive.
        low: least value of the centre.
        high: largest value of the centre.
        widths: possible prior widths, equally likely, shape (m,).

    Returns:
        Posterior (means, variances), averaged over the widths, shape (n,) each; they may lie outside `low` to `high`.
        The variances include the error of the centre and the differences between the widths. A single value is returned
        as it is, with its noise variance.
    """
    if len(values) < 2:
        return values, variances
    # value ~ N(centre, width^2 + variance) with a flat prior of the centre, which is estimated for each width.
    precisions = 1 / (widths[:, None] ** 2 + variances)
    total = precisions.sum(axis=1)
    centres = np.clip((precisions * values).sum(axis=1) / total, low, high)[:, None]
    logs = 0.5 * (np.log(precisions) - precisions * (values - centres) ** 2).sum(axis=1) - 0.5 * np.log(total)
    weights = np.exp(logs - logsumexp(logs))
    # Shrinkage factor width^2 / (width^2 + variance), as of James and Stein.
    gain = 1 - variances * precisions
    means = centres + gain * (values - centres)
    mean = weights @ means
    # Law of total variance: given centre and width, error of the centre, and between the widths.
    spread = gain * variances + (1 - gain) ** 2 / total[:, None] + (means - mean) ** 2
    return mean, np.asarray(weights @ spread)


def _draw_correlations(
    sums: NoisySums, means: Floats, mean_variances: Floats, scales: Floats, moved: Floats, rng: np.random.Generator
) -> Floats:
    """Draw positive definite correlation matrices given noisy sums of products; noisy correlations are shrunk to 0.

    Each matrix is scaled by the squares drawn for it, so that the noise of squares widens the law of the smallest
    eigenvalue as much as the noise of products does. A prior width of all correlations is drawn for each matrix from 20
    widths. Eigenvalues are raised to `max(1e-6, 0.12 sqrt(p * mean residual variance))`, then rows and columns are
    rescaled to a unit diagonal.

    Args:
        sums: noisy sums.
        means: estimated means of the features, shape (p,).
        mean_variances: their variances, shape (p,).
        scales: root of each drawn centred square, shape (draws, p).
        moved: relative error drawn for the weight, shape (draws, 1).
        rng: source of randomness.

    Returns:
        Shape (draws, p, p), with unit diagonals; ones if p is 1.
    """
    draws, width = scales.shape
    matrices = np.broadcast_to(np.eye(width), (draws, width, width)).copy()
    if width == 1:
        return matrices
    i, j = np.triu_indices(width, 1)
    both = scales[:, i] * scales[:, j]
    # Correlation = (product - weight mean_i mean_j) / (scale_i scale_j); its variance by the delta method.
    noisy = (sums.products - sums.weight * (1 - moved) * means[i] * means[j]) / both
    spread = means[i] ** 2 * mean_variances[j] + means[j] ** 2 * mean_variances[i]
    variances = (sums.product_variance + sums.weight**2 * spread) / both**2
    # The grid begins at a fraction of 1 / sqrt(p + 1), the deviation of correlations under a uniform law of matrices.
    widths = np.geomspace(LEAST_CORRELATION_WIDTH / np.sqrt(width + 1), 1, 20)
    weights, _ = _weigh_widths(noisy.mean(axis=0), variances.mean(axis=0), widths)
    squares = widths[rng.choice(len(widths), draws, p=weights), None] ** 2
    gain = squares / (squares + variances)
    residual = gain * variances
    matrices[:, i, j] = matrices[:, j, i] = gain * noisy + np.sqrt(residual) * rng.standard_normal(residual.shape)
    # Raise small eigenvalues, then rescale to a unit diagonal.
    eigenvalues, axes = np.linalg.eigh(matrices)
    least = np.maximum(LEAST_EIGENVALUE, NOISE_EDGE * np.sqrt(width * residual.mean(axis=1)))
    matrices = (axes * np.maximum(eigenvalues, least[:, None])[:, None, :]) @ np.swapaxes(axes, 1, 2)
    unit = 1 / np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    return np.asarray(matrices * unit[:, :, None] * unit[:, None, :])
