r"""Slopes of a regression from a noisy Gram matrix and a noisy vector of cross products.

Every regression here ends in the same equations: `c = A theta + error`, where A holds centred sums of products of the
features, perhaps weighted, and c their products with what is explained. Both are released with noise. Least squares on
noisy sums is useless where the noise reaches the smallest eigenvalues of A: it divides by what may be 0.
So A is drawn from what its noisy entries say, and theta follows for each draw.

* Entries of A are put into scales and correlations. Squares of the features, means and correlations each have a common
  law, whose width is learned from the noisy values: what all of them say together is shrunk towards, the more the
  noisier they are. Given the width they are normal; eigenvalues of correlations below what the noise could tell apart
  from it are raised to that.
* In the axes of a drawn A = sum lambda_k q_k q_k' the equations fall apart: `c_k = lambda_k theta_k + error`. The slope
  along an axis is N(0, t^2), in units in which every feature has a deviation of 1. t is the same for all axes with
  probability 1/2, and the axis' own otherwise; t^2 over its unit has the density (1 + r)^-2, so that the share r / (1 +
  r) which is explained is uniform. Sums over a grid of t are exact up to its steps.
* Each drawn A counts by the probability that it gives to c.

That is a normal approximation given A and t: noise of a cube, which along an axis is a sum over many entries, is taken
to be normal, and its parts along two axes independent. Where the noise is small against every eigenvalue of A this is
least squares with errors in both; along an axis that noise hides slopes are drawn to 0, and intervals are those of the
prior.

Source: the model is derived here; learned widths as in James and Stein (1961) and Efron and Morris (1973), the law of t
as that of g in Liang et al. (2008), their hyper-g with a = 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from discreet.util.arrays import Floats

MOST_MATRICES, LEAST_MATRICES, MATRIX_WORK = 400, 50, 2e8
"""Most and least number of drawn matrices, and the work that their eigenvectors take in about a second."""
LEAST_EIGENVALUE = 1e-6
"""Least eigenvalue of a drawn correlation matrix."""
NOISE_EDGE = 0.12
"""Share of the spread of the noise's eigenvalues below which an eigenvalue is raised."""
LEAST_CORRELATION_WIDTH = 0.4
"""Least width of the law of correlations, times the root of their matrix' size. This and `NOISE_EDGE` were set on seeds
100 to 105 of the sets of `bench.estimators --coverage`, at epsilon .3 to 3."""
OWN_SCALE_PROBABILITY = 0.5
"""Prior probability that an axis has its own scale of slopes."""
ESTIMATE_SEED = 20161
"""Seed of the matrices of an estimate, so that it is a function of the release alone."""
SLOPE_RATIOS = np.geomspace(1e-3, 100, 30)
"""Grid of r: squared slopes over their unit."""


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Noisy sums over records of products of p features, weighted where the records have weights.

    Args:
        weight: number of records, or their weights' sum, positive.
        weight_variance: of the noise on it.
        linear: noisy sums of the features, shape (p,); None where the origin is where they are centred.
        squares: noisy sums of their squares, shape (p,).
        products: noisy sums of u_i u_j, i < j, row by row.
        linear_variance, square_variance, product_variance: of the noise on each of these, for all or for each; 0 for
            products that are known to be 0.
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
        means: of the features, shape (p,).
        mean_variances: of what is known of them, shape (p,).
        drawn_means: a draw of them for each matrix, shape (draws, p).
        scales: roots of the centred sums of squares, shape (p,).
        eigenvalues: shape (draws, p), positive.
        axes: shape (draws, p, p), the last axis counts eigenvectors.
    """

    means: Floats
    mean_variances: Floats
    drawn_means: Floats
    scales: Floats
    eigenvalues: Floats
    axes: Floats

    def along(self, values: Floats) -> Floats:
        """Rotate a vector over scaled features, or one for each draw, to the axes of each draw, shape (draws, p)."""
        return np.asarray(np.einsum("mik,mi->mk", self.axes, np.broadcast_to(values, self.eigenvalues.shape)))

    def variance_along(self, variances: Floats) -> Floats:
        """Compute variances along the axes of independent entries with these variances, shape (draws, p)."""
        return np.asarray(np.einsum("mik,i->mk", self.axes**2, variances))


@dataclass(frozen=True, eq=False)
class SlopeLaw:
    """Law of slopes: independent normal laws along axes, mixed over drawn matrices and scales of slopes.

    Args:
        gram: the drawn matrices.
        squares: t^2 over its unit times the unit, shape (scales, draws).
        chosen: probabilities of the scales along each axis, shape (scales, draws, p).
        slopes: normal means along the axes, shape (scales, draws, p).
        variances: normal variances, shape (scales, draws, p).
        weights: probabilities of the draws, shape (draws,).
    """

    gram: GramDraws
    chosen: Floats
    slopes: Floats
    variances: Floats
    weights: Floats

    @property
    def means(self) -> Floats:
        """Mean slope along each axis of each draw, shape (draws, p)."""
        return np.asarray((self.chosen * self.slopes).sum(axis=0))

    @property
    def mean(self) -> Floats:
        """Mean slopes, shape (p,), in the unit of the features."""
        return np.asarray(np.einsum("m,mik,mk->i", self.weights, self.gram.axes, self.means) / self.gram.scales)

    def estimate(self, weight: float, start: Floats, most: float = math.inf) -> Floats:
        """Estimate the slopes with the least expected squared prediction error, with an intercept through the means.

        A prediction is off by `(x - m) (slopes - theta)`, and by `(m - means) (slopes - start)` where the means m are
        not what they were taken for, so that slopes stay near those for which the intercept is known anyway.

        Args:
            weight: number of records, or the sum of their weights.
            start: slopes with which the intercept does not depend on the means, shape (p,).
            most: that slopes from there can explain, `theta' A theta`: longer ones are shortened to it.

        Returns:
            Shape (p,), in the unit of the features.
        """
        gram, scales = self.gram, self.gram.scales
        mean = np.einsum("m,mik,mk,mjk->ij", self.weights, gram.axes, gram.eigenvalues, gram.axes, optimize=True)
        moved = mean + np.diag(weight * gram.mean_variances / scales**2)
        change = np.linalg.solve(moved, mean @ ((self.mean - start) * scales))
        return np.asarray(start + change * _find_shrinkage(float(change @ mean @ change), most) / scales)

    def draw(
        self, number: int, rng: np.random.Generator, most: Floats | None = None
    ) -> tuple[Floats, npt.NDArray[np.intp]]:
        """Draw the slopes.

        Args:
            number: how many.
            rng: source of randomness.
            most: that slopes can explain, `theta' A theta`, for each matrix; longer ones are shortened to it.

        Returns:
            (slopes, shape (number, p), in the unit of the features; the matrix that each goes with, shape (number,)).
        """
        picked = rng.choice(len(self.weights), number, p=self.weights)
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
    """Draw centred sums of products given noisy sums.

    Args:
        sums: with noise.
        rng: source of randomness.

    Returns:
        Independent draws, positive definite.
    """
    width, weight = len(sums.squares), sums.weight
    if sums.linear is None:
        means, mean_variances = np.zeros(width), np.zeros(width)
    else:
        noisy = np.clip(sums.linear / weight, -1.5, 1.5)
        known = (sums.linear_variance + noisy**2 * sums.weight_variance) / weight**2
        means, mean_variances = _pool_values(noisy, known, -1.0, 1.0, np.geomspace(0.01, 1, 15))
        means = np.clip(means, -1, 1)
    centred = sums.squares - weight * (means**2 + mean_variances)
    variance = sums.square_variance + (2 * weight * means) ** 2 * mean_variances
    middle = np.clip(np.average(centred, weights=1 / variance), 1e-6 * weight, weight)
    widths = np.geomspace(0.05, 3, 15) * max(middle, np.sqrt(variance.mean() / width))
    squares, variance = _pool_values(centred, variance, 1e-6 * weight, weight, widths)
    mean_square, drawn = cut_normal(squares, np.sqrt(variance), 1e-6 * weight, weight, rng, _count_matrices(width))
    scales = np.sqrt(mean_square)
    matrices = _draw_correlations(sums, means, mean_variances, np.sqrt(drawn), rng)
    relative = np.sqrt(drawn) / scales
    matrices = matrices * relative[:, :, None] * relative[:, None, :]
    eigenvalues, axes = np.linalg.eigh(matrices)
    drawn_means = means + np.sqrt(mean_variances) * rng.standard_normal(drawn.shape)
    return GramDraws(means, mean_variances, drawn_means, scales, np.maximum(eigenvalues, 1e-9), axes)


def slope_law(
    gram: GramDraws, cross: Floats, noise: Floats, *, sampling: Floats, unit: Floats, volume: Floats
) -> SlopeLaw:
    """Find the law of theta given `cross = A theta + error`, in the axes of each draw of A.

    Args:
        gram: draws of A.
        cross: shape (draws, p), in the axes and in units of the features' scales.
        noise: variance of its noise, shape (draws, p).
        sampling: variance of the error that the records bring, over A; shape (draws,).
        unit: of squared slopes a priori, in units of the scales; shape (draws,).
        volume: logarithm of how densely the observation lies where cross does, shape (draws,): 0 where cross is the
            observation itself.

    Returns:
        The law.
    """
    grid = gram.eigenvalues
    prior = np.log(SLOPE_RATIOS) - 2 * np.log1p(SLOPE_RATIOS)
    prior -= logsumexp(prior)
    squares = (SLOPE_RATIOS[:, None] * unit)[:, :, None]
    error = noise + sampling[:, None] * grid
    total = squares * grid**2 + error
    likelihoods = -0.5 * np.log(total) - 0.5 * cross**2 / total
    # What the other axes say of a common scale; an axis does not tell itself.
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


def cut_normal(
    mean: Floats, deviation: Floats, low: float, high: float, rng: np.random.Generator, draws: int
) -> tuple[Floats, Floats]:
    """Compute means of truncated normal laws, and draws.

    Args:
        mean, deviation: before the cut, shape (n,).
        low, high: of the interval.
        rng: source of randomness.
        draws: how many of each.

    Returns:
        (means of a fixed grid of quantiles, shape (n,); draws, shape (draws, n)).

    Example:
        >>> means, draws = cut_normal(np.array([0.0]), np.array([1.0]), 0.0, 10.0, np.random.default_rng(0), 50)
        >>> bool(draws.min() >= 0), round(float(means[0]), 1)
        (True, 0.8)
    """
    # By logarithms of the tails on the side where they are small: far out the other side rounds to 1.
    start, end = (low - mean) / deviation, np.maximum((high - mean) / deviation, (low - mean) / deviation + 1e-9)
    turned = start > 0
    near, far = np.where(turned, -end, start), np.where(turned, -start, end)
    a, b = log_ndtr(near), log_ndtr(far)

    def at(share: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            logs = np.logaddexp(np.log1p(-share) + a, np.log(share) + b)
        scores = np.where(turned, -1, 1) * np.clip(ndtri_exp(logs), near, far)
        return np.asarray(np.clip(mean + deviation * scores, low, high))

    shares = (np.arange(400) + 0.5)[:, None] / 400
    return at(shares).mean(axis=0), at(rng.random((draws, mean.size)))


def _find_shrinkage(explained: Floats | float, most: Floats | float) -> Floats:
    """Find the factor that shrinks slopes so that they explain at most the available variance."""
    return np.asarray(np.minimum(1.0, np.sqrt(most / np.maximum(explained, 1e-300))))


def _count_matrices(width: int) -> int:
    """Compute the number of matrices that are drawn."""
    return int(min(MOST_MATRICES, max(LEAST_MATRICES, MATRIX_WORK // width**3)))


def _weigh_widths(values: Floats, variances: Floats, widths: Floats) -> tuple[Floats, Floats]:
    """Compute posterior probabilities of widths, shape (m,), and the shrinkage factor of each value, shape (m, n)."""
    squares = widths[:, None] ** 2
    logs = -0.5 * np.sum(np.log(squares + variances) + values**2 / (squares + variances), axis=1)
    return np.exp(logs - logsumexp(logs)), squares / (squares + variances)


def _pool_values(values: Floats, variances: Floats, low: float, high: float, widths: Floats) -> tuple[Floats, Floats]:
    """Shrink noisy values by a normal prior whose centre, between `low` and `high`, and width are learned from them.

    Args:
        values: noisy, shape (n,).
        variances: of the noise, shape (n,), positive.
        low, high: of the centre.
        widths: those that are thought possible, all alike; shape (m,).

    Returns:
        (means, variances), shape (n,) each.
    """
    if len(values) < 2:
        return values, variances
    # value ~ N(centre, width^2 + variance), centre flat; gain = width^2 / (width^2 + variance), as of James and Stein.
    precisions = 1 / (widths[:, None] ** 2 + variances)
    total = precisions.sum(axis=1)
    centres = np.clip((precisions * values).sum(axis=1) / total, low, high)[:, None]
    logs = 0.5 * (np.log(precisions) - precisions * (values - centres) ** 2).sum(axis=1) - 0.5 * np.log(total)
    weights = np.exp(logs - logsumexp(logs))
    gain = 1 - variances * precisions
    means = centres + gain * (values - centres)
    mean = weights @ means
    spread = gain * variances + (1 - gain) ** 2 / total[:, None] + (means - mean) ** 2
    return mean, np.asarray(weights @ spread)


def _draw_correlations(
    sums: NoisySums, means: Floats, mean_variances: Floats, scales: Floats, rng: np.random.Generator
) -> Floats:
    """Draw positive definite correlation matrices, shape (draws, p, p).

    A product stands for a correlation in units of the squares that were drawn beside it, shape (draws, p): the noise of
    squares then tells as much as that of products of how small the smallest eigenvalue may be.
    """
    draws, width = scales.shape
    matrices = np.broadcast_to(np.eye(width), (draws, width, width)).copy()
    if width == 1:
        return matrices
    i, j = np.triu_indices(width, 1)
    both = scales[:, i] * scales[:, j]
    # Correlation = (product - weight mean_i mean_j) / (scale_i scale_j); its variance by the delta method.
    noisy = (sums.products - sums.weight * means[i] * means[j]) / both
    moved = means[i] ** 2 * mean_variances[j] + means[j] ** 2 * mean_variances[i]
    variances = (sums.product_variance + sums.weight**2 * moved) / both**2
    # From a good part of the width that correlations have where all matrices of them are alike: 1 / sqrt(p + 1).
    widths = np.geomspace(LEAST_CORRELATION_WIDTH / np.sqrt(width + 1), 1, 20)
    weights, _ = _weigh_widths(noisy.mean(axis=0), variances.mean(axis=0), widths)
    squares = widths[rng.choice(len(widths), draws, p=weights), None] ** 2
    gain = squares / (squares + variances)
    residual = gain * variances
    matrices[:, i, j] = matrices[:, j, i] = gain * noisy + np.sqrt(residual) * rng.standard_normal(residual.shape)
    eigenvalues, axes = np.linalg.eigh(matrices)
    least = np.maximum(LEAST_EIGENVALUE, NOISE_EDGE * np.sqrt(width * residual.mean(axis=1)))
    matrices = (axes * np.maximum(eigenvalues, least[:, None])[:, None, :]) @ np.swapaxes(axes, 1, 2)
    unit = 1 / np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    return np.asarray(matrices * unit[:, :, None] * unit[:, None, :])
