"""Posterior of a linear regression from noisy second moments, by the normal approximation of `noisy_gram`; in a moment.

Features and target are centred at their noisy means; what remains are the equations `c = A theta + error` with A the
centred sums of products of the features and c those with the target. The residual variance is what the target's noisy
sum of squares leaves when theta explains its part. `linear` has the exact law of cube noise of one scale, which takes
minutes where the noise is large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.model.design import Design
from discreet.posterior.design.linear import Layout, Moments, unpack
from discreet.posterior.design.noisy_gram import ESTIMATE_SEED, NoisySums, SlopeLaw, cut_normal, gram_draws, slope_law
from discreet.releases.kinds.noisy_sums import GroupedMoments, NoisyMoments
from discreet.util.arrays import Floats

TARGET_MEAN_DEVIATION = 1 / 3
"""Deviation of the target's mean a priori, its bounds being -1 and 1."""
LEAST_VARIANCE = 1e-6
"""Least variance of a residual, and of the target, in units in which its bounds are -1 and 1."""
RESIDUAL_ROUNDS = 4
"""Of the residual's variance and of the slopes that follow from it."""


def normal_estimate(told: NoisyMoments | GroupedMoments, records: int | None) -> Floats:
    """The coefficients of least expected squared error in what they predict.

    Args:
        told: with a numeric target.
        records: their number where it is public.

    Returns:
        Shape (size,), in the design's coordinates; the same at every call.
    """
    found = _find_laws(told, records, np.random.default_rng(ESTIMATE_SEED))
    most = found.count * float(np.average(found.target, weights=found.slopes.weights))
    slopes = found.slopes.estimate(found.count, np.zeros(len(told.design.features)), most)
    return _join_weights(told.design, slopes, found.slopes.gram.means, found.middle)


def normal_draws(
    told: NoisyMoments | GroupedMoments, records: int | None, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draws of the coefficients and of the residual's variance.

    Args:
        told: with a numeric target.
        records: their number where it is public.
        draws: how many.
        rng: source of randomness.

    Returns:
        (weights, shape (draws, size), in the design's coordinates; variances of the scaled target, shape (draws,)).
    """
    found = _find_laws(told, records, rng)
    gram = found.slopes.gram
    slopes, picked = found.slopes.draw(draws, rng, found.count * found.target)
    variance = found.residual[picked] + found.residual_spread * rng.standard_normal(draws)
    variance = np.clip(variance, LEAST_VARIANCE, found.target[picked])
    middle = found.middles[picked] + np.sqrt(variance / found.count) * rng.standard_normal(draws)
    return _join_weights(told.design, slopes, gram.drawn_means[picked], middle), variance


@dataclass(frozen=True, eq=False)
class _RegressionLaw:
    """The law of the slopes, of the target's mean at the features' means, and of the residual.

    Args:
        slopes: their law.
        middle: the target's mean.
        middles: draws of it, for each drawn matrix, shape (matrices,).
        residual, target: variance of the residual and of the target for each drawn matrix, shape (matrices,).
        residual_spread: deviation of the residual's variance that noise and sampling bring.
        count: number of records.
    """

    slopes: SlopeLaw
    middle: float
    middles: Floats
    residual: Floats
    target: Floats
    residual_spread: float
    count: float


def _find_laws(told: NoisyMoments | GroupedMoments, records: int | None, rng: np.random.Generator) -> _RegressionLaw:
    """Find the laws of the slopes, the target's mean and the residual, from a release."""
    design = told.design
    layout = Layout(len(design.features), design.intercept, records)
    sums, noise = unpack(told.sums, layout), _spread_variances(told.variances, layout)
    width = layout.features
    count = max(float(sums.records), width + 2.0)
    i, j = np.triu_indices(width, 1)
    gram = gram_draws(
        NoisySums(
            weight=count,
            weight_variance=float(noise.records),
            linear=sums.gram[:width, -1] if design.intercept else None,
            squares=np.diagonal(sums.gram)[:width],
            products=sums.gram[i, j],
            linear_variance=float(noise.gram[0, -1]) if design.intercept else 0.0,
            square_variance=float(noise.gram[0, 0]),
            product_variance=float(noise.gram[0, 1]) if width > 1 else 0.0,
        ),
        rng,
    )
    total, mean, mean_variance = float(sums.square), 0.0, 0.0
    cross, variance = sums.cross[:width], np.full(width, float(noise.cross[0]))
    middles = np.zeros(len(gram.axes))
    if design.intercept:
        known = float(noise.cross[-1]) / count**2
        mean = (
            float(np.clip(sums.cross[-1] / count, -1, 1))
            * TARGET_MEAN_DEVIATION**2
            / (TARGET_MEAN_DEVIATION**2 + known)
        )
        mean_variance = known + mean**2 * float(noise.records) / count**2
        total -= count * mean**2
        # The noise of means is one error for all features: it is drawn, for each matrix, and goes with the intercept.
        middles = mean + np.sqrt(mean_variance) * rng.standard_normal(len(middles))
        cross = cross - count * middles[:, None] * gram.drawn_means
    spread = np.sqrt(float(noise.square) + (2 * count * mean) ** 2 * mean_variance)
    _, targets = cut_normal(np.array([total]), np.array([spread]), LEAST_VARIANCE * count, count, rng, len(gram.axes))
    target = targets[:, 0]
    along, noisy = gram.along(cross / gram.scales), gram.variance_along(variance / gram.scales**2)
    residual, zeros = target / count, np.zeros(len(target))
    for _ in range(RESIDUAL_ROUNDS):
        law = slope_law(gram, along, noisy, sampling=residual, unit=target / width, volume=zeros)
        explained = ((2 * along - gram.eigenvalues * law.means) * law.means).sum(axis=1)
        residual = np.clip((target - explained) / count, LEAST_VARIANCE, target / count)
    uncertain = np.sqrt(spread**2 / count**2 + 2 * float(np.average(residual, weights=law.weights)) ** 2 / count)
    return _RegressionLaw(law, mean, middles, residual, target / count, float(uncertain), count)


def _spread_variances(variances: Floats, layout: Layout) -> Moments:
    """Variances of the noise in the sums that `unpack` makes: half of a square's is that of the number of records."""
    private = layout.records is None
    records = float(variances[0]) if private else 0.0
    rows, columns = layout.upper
    products = variances[1:] if private else variances
    size = layout.coefficients + 1
    matrix = np.zeros((size, size))
    matrix[rows, columns] = np.where(rows == columns, (products + records) / 4, products)
    matrix = np.maximum(matrix, matrix.T)
    return Moments(np.array(records), matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, -1])


def _join_weights(design: Design, slopes: Floats, means: Floats, middle: Floats | float) -> Floats:
    """Slopes and the target's mean at the features' means as weights of the design's coordinates."""
    if not design.intercept:
        return slopes
    constant = (middle - (slopes * means).sum(axis=-1)) / design.constant
    return np.concatenate([slopes, np.asarray(constant)[..., None]], axis=-1)
