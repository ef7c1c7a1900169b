"""Posterior of a linear regression given draws of its weights from a tempered posterior on a ball.

The draws were made from the records' second moments: with G = sum x x', b the least squares weights of the records,
`kappa` the released weight of a squared residual (temper / variance) and N(0, s^2 I) the prior,

    w_j ~ N(P^-1 kappa G b, P^-1) on the ball ||w|| <= R,    P = kappa G + I / s^2,
    b given theta, G ~ N(theta, v G^-1),                     theta ~ N(0, s^2 I),

with v the variance of the residual. So the tempering and the ball belong to the law of what was released, and theta is
read through them; a single draw has intervals. Latent are b, v if it is not declared, the number of records n if it is
noisy or unknown, and G. G is n times the features' second moments under a law that the analyst knows (`covariates`), or
else under a flat prior: each deviation and mean that fit in [-1, 1] are equally likely, and correlations wide.

All latent numbers are functions of independent standard normal ones. b is that of the normal law of b given the draws
and G, without the ball; what the ball changes is left for the weights. A population of positions is moved from the
prior to the posterior by raising the likelihood's power in stages, with elliptical slices at each.

Source: Zhang, Rubinstein and Dimitrakakis (AAAI 2016) for the release; Bernstein and Sheldon (NeurIPS 2019) for latent
sufficient statistics; Del Moral, Doucet and Jasra (2006) for stages; Barndorff-Nielsen (1986) for the mass of a ball.
The law above follows from completing squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, softmax

from discreet.designs.design import Design, design_of, normal_of
from discreet.designs.readers.importance import Reference
from discreet.designs.readers.laws import Law, spread
from discreet.designs.readers.logistic import move_chains
from discreet.designs.readers.noisy_gram import ESTIMATE_SEED
from discreet.designs.readers.weight_posterior import WeightPosterior
from discreet.errors import InputError
from discreet.posterior.totals import MOST_EXPECTED_RECORDS
from discreet.releases.release import Release
from discreet.research.kinds.weight_draws import WeightDraws
from discreet.util.arrays import Floats
from discreet.util.progress import under_way

LEAST_DEVIATION = 1 / 50
"""Least standard deviation of a feature under the flat prior, in units in which its bounds are -1 and 1."""
LEAST_MOMENT = 1e-9
"""Least eigenvalue of second moments: those of collinear features are 0."""
NEWTON_STEPS = 20
"""Steps to the saddle point. They begin below it, where each of them is shorter than the way that is left; with 10 the
logarithms of masses were off by up to 1e-3."""
POSITIONS = 1000
"""Least number of positions of the population."""
STAGE_MOVES, LAST_MOVES = 4, 10
"""Moves of all positions in a stage, and in the last. A tenfold number changed no width by more than its error."""


@dataclass(frozen=True, eq=False)
class LatentSums:
    """Latent second moments, in the eigenvectors of the features' matrix G, one of each for every position.

    Args:
        axes: eigenvectors, shape (positions, size, size).
        eigenvalues: of G, shape (positions, size).
        least: least squares weights along the axes, shape (positions, size).
        variance: of the residual, shape (positions,).
        log: log-likelihood of the released draws, shape (positions,).
    """

    axes: Floats
    eigenvalues: Floats
    least: Floats
    variance: Floats
    log: Floats


@dataclass(frozen=True, eq=False)
class ReleasedWeights:
    """Law of released draws of weights, given latent second moments.

    Args:
        payload: the draws.
        deviation: of each weight a priori.
        records: public number of records; None if it is noisy or unknown.
        moments: known second moments of the features, shape (size, size); None for the flat prior.
    """

    payload: WeightDraws
    deviation: float
    records: int | None
    moments: Floats | None

    @property
    def length(self) -> int:
        """Number of coordinates of a position: of b, of the second moments, of v, of n."""
        design = self.payload.design
        features, variance = len(design.features), self.payload.variance is None
        latent = features * (features + 1) // 2 + features * design.intercept if self.moments is None else 0
        return design.size + latent + variance + (self.records is None)

    def sums(self, positions: Floats) -> LatentSums:
        """Compute latent second moments, and the log-likelihood of the draws, from positions (positions, length)."""
        payload, size = self.payload, self.payload.design.size
        weights, count = payload.weights, len(payload.weights)
        records = self._number(positions[:, -1])
        moments = self.moments
        if moments is None:
            moments = draw_moments(payload.design, positions[:, size:])
        eigenvalues, axes = np.linalg.eigh(np.broadcast_to(moments, (len(positions), size, size)))
        eigenvalues = records[:, None] * np.maximum(eigenvalues, LEAST_MOMENT)
        at = self.length - 1 - (self.records is None)
        variance = ndtr(positions[:, at]) ** 2 if payload.variance is None else np.full(len(records), payload.variance)
        precision = payload.pull * eigenvalues + self.deviation**-2
        gain, prior = payload.pull * eigenvalues / precision, self.deviation**2 + variance[:, None] / eigenvalues
        # Along an axis the draws' mean is N(gain b, 1 / (count precision)), and b a priori N(0, prior).
        inverse = 1 / (1 / prior + count * precision * gain**2)
        middle = inverse * precision * gain * (weights.sum(axis=0) @ axes)
        least = middle + np.sqrt(inverse) * np.einsum("nij,ni->nj", axes, positions[:, :size])
        squares = (axes * (weights.T @ weights @ axes)).sum(axis=1)
        log = count * np.log(precision) + np.log(inverse / prior) - precision * squares + middle**2 / inverse
        log = log.sum(axis=1) / 2 - count * log_ball_mass(precision, gain * least, payload.radius)
        # The target lies in [-1, 1]: what the weights explain and, if unknown, the residual's variance are at most 1.
        explained = (eigenvalues * least**2).sum(axis=1) / records
        possible = explained + (variance if payload.variance is None else 0) <= 1
        return LatentSums(axes, eigenvalues, least, variance, np.where(possible, log, -np.inf))

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw weights, shape (draws, size), and residual variances, shape (draws,), from the posterior."""
        positions = draw_in_stages(lambda at: self.sums(at).log, self.length, max(draws, POSITIONS), rng)
        sums = self.sums(positions[:draws])
        # theta given b is normal, of precision G / v + I / s^2.
        pulled = sums.eigenvalues / sums.variance[:, None]
        precision = pulled + self.deviation**-2
        along = pulled / precision * sums.least + rng.standard_normal(sums.least.shape) / np.sqrt(precision)
        return np.asarray(np.einsum("nij,nj->ni", sums.axes, along)), sums.variance

    def _number(self, scores: Floats) -> Floats:
        """Compute numbers of records from normal scores: public, around the noisy one, or of any order of magnitude."""
        total, least = self.payload.total, self.payload.design.size + 1
        if self.records is not None:
            return np.full(len(scores), float(self.records))
        if total is None:
            return np.asarray(least * (MOST_EXPECTED_RECORDS / least) ** ndtr(scores))
        # Laplace noise by inversion of its tails.
        noise = -np.sign(scores) * (np.log(2) + log_ndtr(-np.abs(scores)))
        return np.asarray(np.maximum(total.value + total.scale * noise, least))


def draw_moments(design: Design, scores: Floats) -> Floats:
    """Compute second moments of features under the flat prior from normal scores.

    Args:
        design: of p features.
        scores: of p deviations, p (p - 1) / 2 correlations and, with an intercept, p means; shape (positions, ...),
            what follows is ignored.

    Returns:
        Shape (positions, size, size); the square of the constant last.
    """
    features = len(design.features)
    deviations = LEAST_DEVIATION + (1 - LEAST_DEVIATION) * ndtr(scores[:, :features])
    rows, columns = np.tril_indices(features, -1)
    factor = np.zeros((len(scores), features, features))
    factor[:, rows, columns] = scores[:, features : features + len(rows)]
    # With a diagonal of this size a correlation is about as wide as under a uniform law of correlation matrices.
    factor[:, range(features), range(features)] = np.sqrt(features - np.arange(features))
    factor *= (deviations / np.linalg.norm(factor, axis=2))[:, :, None]
    moments = factor @ np.swapaxes(factor, 1, 2)
    if not design.intercept:
        return moments
    at = features + len(rows)
    means = np.sqrt(1 - deviations**2) * (2 * ndtr(scores[:, at : at + features]) - 1)
    wide = np.column_stack([means, np.full(len(means), design.constant)])
    products = wide[:, :, None] * wide[:, None, :]
    products[:, :features, :features] += moments
    return np.asarray(products)


def log_ball_mass(precision: Floats, mean: Floats, radius: float) -> Floats:
    """Compute the log probability of a ball about 0 under normal laws with independent coordinates.

    Args:
        precision, mean: of the coordinates, shape (laws, size).
        radius: of the ball.

    Returns:
        Shape (laws,), by a saddle-point approximation: over random laws of 1 to 8 coordinates it was within 0.11 of
        simulated values, a difference that hardly varies between laws that are alike.

    Example:
        >>> log_ball_mass(np.ones((1, 2)), np.zeros((1, 2)), 1.0).round(2).tolist()  # log(1 - exp(-1/2)) = -0.93
        [-0.93]
    """
    pull, square = np.abs(mean) * precision, radius**2
    # The saddle point solves sum 1 / u + (pull / u)^2 = R^2 with u = precision + shift; the left side falls, and is
    # convex. At this start one term alone is R^2: the u of its coordinate is sought, as others differ from it by what
    # their precisions do; precision plus shift would lose u where a precision is large.
    start = np.maximum(1 / square, pull / radius)
    first = np.argmax(start - precision, axis=1)[:, None]
    apart, nearest = precision - np.take_along_axis(precision, first, 1), np.take_along_axis(start, first, 1)
    for _ in range(NEWTON_STEPS):
        moved = apart + nearest
        share = (pull / moved) ** 2
        excess = (1 / moved + share).sum(axis=1, keepdims=True) - square
        nearest = nearest + excess / ((1 + 2 * share * moved) / moved**2).sum(axis=1, keepdims=True)
    moved, shift = apart + nearest, nearest - np.take_along_axis(precision, first, 1)
    share = (pull / moved) ** 2 * moved
    second, third = ((c * (1 + k * share) / moved**e).sum(axis=1) for c, k, e in ((2, 2, 2), (8, 3, 3)))
    cumulant = -(np.log(moved / precision) + shift * mean**2 * precision / moved).sum(axis=1) / 2
    shift = shift[:, 0]
    root = -np.sign(shift) * np.sqrt(np.maximum(-shift * square - 2 * cumulant, 0))
    tilt = -shift * np.sqrt(second) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        far = root + np.log(tilt / root) / root
    return np.asarray(log_ndtr(np.where(np.abs(tilt) < 1e-3, third / second**1.5 / 6 + tilt, far)))


def draw_in_stages(log: Callable[[Floats], Floats], length: int, number: int, rng: np.random.Generator) -> Floats:
    """Draw from standard normal coordinates times a likelihood, in stages of rising power of the likelihood.

    A power is as high as leaves half of the positions effective. They are picked by their weights, and moved.

    Args:
        log: log-likelihood at many positions.
        length: number of coordinates.
        number: number of positions.
        rng: source of randomness.

    Returns:
        Positions, shape (number, length), in random order.
    """
    positions, power = rng.standard_normal((number, length)), 0.0
    heights = log(positions)
    while power < 1:
        step = _find_step(heights, 1 - power)
        power = 1.0 if step >= 1 - power else power + step
        chances = softmax(step * heights)
        spread_out = np.atleast_2d(np.cov(positions.T, aweights=chances)) + 1e-9 * np.eye(length)
        reference = Reference(chances @ positions, np.asarray(np.linalg.cholesky(spread_out)))
        positions = positions[np.searchsorted(np.cumsum(chances)[:-1], (np.arange(number) + rng.random()) / number)]

        def tempered(at: Floats, power: float = power) -> Floats:
            return np.asarray(power * log(at) - (at**2).sum(axis=1) / 2)

        raised = tempered(positions)
        for _ in range(STAGE_MOVES if power < 1 else LAST_MOVES):
            positions, raised = move_chains(tempered, reference, positions, raised, rng)
        heights = log(positions)
    return np.asarray(rng.permutation(positions))


def _find_step(heights: Floats, most: float) -> float:
    """Find the step of the power, at most `most`, that leaves half of the positions effective."""

    def is_short(step: float) -> bool:
        return bool((softmax(step * heights) ** 2).sum() <= 2 / len(heights))

    low, high = 0.0, most
    if is_short(most):
        return most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if is_short(middle) else (low, middle)
    return high


def read_weights(
    release: Release, *, draws: int, rng: np.random.Generator, covariates: Law | None = None
) -> WeightPosterior:
    """Draw the posterior of a linear regression given released draws of its weights.

    Args:
        release: of such draws.
        draws: number of draws.
        rng: source of randomness.
        covariates: law of the features, of which second moments are used; None for a flat prior, with which intervals
            are much wider.

    Returns:
        The posterior with method "stages". Residual variances are the declared one, or draws of the unknown one, about
        which the release says that it is at most 1, less what the weights explain.

    Raises:
        InputError: a law of another number of coordinates.
    """
    payload, prior = release.payload_as(WeightDraws), normal_of(release).deviation
    moments = None
    if covariates is not None:
        if covariates.size != payload.design.size:
            raise InputError(f"the law of covariates has {covariates.size} coordinates, not {payload.design.size}")
        points = spread(covariates)
        moments = (points.points.T * points.weights) @ points.points
    with under_way("drawing the posterior"):
        weights, variance = ReleasedWeights(payload, prior, release.records, moments).draw(draws, rng)
    return WeightPosterior(design_of(release), weights, variance, "stages", None)


def estimate_weights(release: Release) -> Floats:
    """Compute posterior means of the weights, shape (size,), with a fixed seed.

    Args:
        release: of draws of weights.
    """
    rng = np.random.default_rng(ESTIMATE_SEED)
    return np.asarray(read_weights(release, draws=POSITIONS, rng=rng).weights.mean(axis=0))
