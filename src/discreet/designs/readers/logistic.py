"""Posterior of a logistic regression given noisy gradients of its likelihood.

Records (v_i, y_i) are drawn from a law of v, with y_i ~ Bernoulli(sigmoid(theta . v_i)). A release discloses public
points theta_1 .. theta_T and gradients

    g_t = sum_i (y_i - sigmoid(theta_t . v_i)) v_i + noise_t.

By the central limit theorem the sums are jointly normal over the draw of the records. With f_t = (y - sigmoid(theta_t .
v)) v, their mean is `n E f_t = n (m(theta) - m(theta_t))`, where `m(w) = E[sigmoid(w . v) v]`, and their covariance is
n times

    Cov(f_t, f_s) = E[p (1 - p) v v'] + Cov[(p - p_t) v, (p - p_s) v],    p = sigmoid(theta . v), p_t likewise.

The first term is the sampling variation of the labels, which all gradients share; the second is the sampling variation
of the features. The noise of a gradient is normal given a latent variance, so everything except theta and these
variances is integrated out exactly: there is no sum over data sets, and the cost does not depend on the number of
records. theta, the variances and, if it is noisy, the number of records are drawn by importance sampling around the
mode (`importance.py`) or, if the effective sample size is too small, by MCMC (elliptical slice sampling, below).

For the "ball" the mixture is exact: exp(-|b|_2 / s) in d dimensions is a normal law whose variance is gamma with shape
(d + 1) / 2 and scale 2 s^2. The cube law is not a scale mixture of spherical normals: for exp(-max_j |b_j| / s) the
gamma law is matched to the second and the fourth moment of |b|_2. In one dimension, where ball and cube are the Laplace
law, both are exact. The "diamond" is matched like the cube.

The module reads a release's arrays and public records; it never reads private records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit

from discreet.designs.readers.importance import (
    DEGREES_OF_FREEDOM,
    Density,
    Reference,
    WeightLikelihood,
    t_draws,
    weighted_draws,
)
from discreet.designs.readers.laws import Law, WeightedPoints, moments_of, spread
from discreet.errors import InputError
from discreet.noise.noise_laws import ShapeTag
from discreet.noise.shapes import SHAPES, KNorm
from discreet.posterior.diagnostics import describe_mixing, has_mixed, measure_mixing
from discreet.posterior.joint_draws import Mixing
from discreet.util.arrays import Floats, Ints
from discreet.util.number_checks import positive

# --------------------------------------------------------------------------------------------------------------------
# Elliptical slice sampling, for densities of weights for which importance sampling fails: parallel chains in NumPy.
#
# Each step moves a chain along the ellipse through its position and a draw of a normal law. An interval of angles is
# shrunk until the density at the proposed angle is high enough, so no step size is tuned and no gradient is computed.
# The normal law is that of a t law given its latent scale, so the chains also explore tails heavier than normal. Each
# round of chains is twice as long as the round before, from which its t law is estimated. Only the draws of the last
# round are returned; all earlier rounds are warm-up.
#
# Source: Murray, Adams and MacKay (2010), elliptical slice sampling; Nishihara, Murray and Adams (2014) for the t law.

SLICE_CHAINS = 8
"""Number of parallel chains. They are evaluated together, so eight cost little more than one."""
LEAST_SLICE_STEPS = 200
"""Least number of steps of a chain in the first round."""
SLICE_ROUNDS = 6
"""Largest number of rounds of chains. Each is twice as long as the round before, so the sixth has at least 6,400
steps."""
MOST_SHRINKS = 60
"""Largest number of shrinkages of an interval of angles, which reduce it to about 1e-15 of a turn; then the chain
stays."""


def draw_by_slices(density: Density, law: Reference, *, draws: int, rng: np.random.Generator) -> tuple[Floats, Mixing]:
    """Draw from a density by elliptical slice sampling, in rounds of doubled length until the chains have mixed.

    Eight chains run in parallel. The first round has max(200, draws / 8) steps a chain, and there are at most six.
    After each round without mixing, the t law of the ellipses is refitted to it. Only draws of the last round are
    returned.

    Args:
        density: density of weights and latent quantities.
        law: t law about as wide as the density; the chains start from independent draws of it.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        (weights picked from all chains, without repetition and in random order, shape (draws, size); mixing of the last
        round's chains, whose number of sweeps includes earlier rounds). R-hat of every weight and latent quantity is at
        most 1.01, and the least effective sample size is at least 400.

    Raises:
        InputError: chains that have not mixed after the last round.
    """
    places = t_draws(law, SLICE_CHAINS, rng)
    heights = density.log(places)
    steps, done = max(LEAST_SLICE_STEPS, math.ceil(draws / SLICE_CHAINS)), 0
    for _ in range(SLICE_ROUNDS):
        samples = np.empty((SLICE_CHAINS, steps, places.shape[1]))
        for step in range(steps):
            places, heights = move_chains(density.log, law, places, heights, rng)
            samples[:, step] = places
        done += steps
        mixing = _measure_mixing(samples, density.size, done)
        if has_mixed(mixing):
            flat = samples.reshape(-1, samples.shape[-1])
            return flat[rng.permutation(len(flat))[:draws], : density.size], mixing
        law = _refit_reference(samples, law)
        steps *= 2
    raise InputError(
        f"the chains of the logistic posterior have not mixed after {done:,} steps: {describe_mixing(mixing)}; give a "
        "smaller prior_deviation, or read the release's weights without a posterior"
    )


def move_chains(
    log: Callable[[Floats], Floats], law: Reference, places: Floats, heights: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Move every chain by one step of elliptical slice sampling; the arguments stay as they are.

    Args:
        log: log density of the target at many positions, up to a constant.
        law: t law whose latent scale gives each ellipse.
        places: positions, shape (chains, length).
        heights: log densities there, shape (chains,).
        rng: source of randomness.

    Returns:
        New (positions, log densities) in the same shapes; a chain whose interval of angles was shrunk 60 times without
        success stays.
    """
    chains, length = places.shape
    at = np.linalg.solve(law.root, (places - law.centre).T).T
    # Gibbs step of the t law's latent scale: given the position, (nu + d^2) / scale is chi-squared with nu + length
    # degrees of freedom. Given the scale, the law is normal, and `across` is a draw of it in whitened coordinates.
    squares = np.sum(at**2, axis=1)
    scales = (DEGREES_OF_FREEDOM + squares) / rng.chisquare(DEGREES_OF_FREEDOM + length, chains)
    across = np.sqrt(scales)[:, None] * rng.standard_normal(places.shape)
    # Slice level: log(density / t density) at the position, plus the logarithm of a uniform number.
    least = heights + _compute_negative_log_t(squares, length) + np.log(rng.uniform(size=chains))
    angle: Floats = np.asarray(rng.uniform(0, 2 * np.pi, chains))
    low, high = angle - 2 * np.pi, angle.copy()
    places, heights = places.copy(), heights.copy()
    moving = np.arange(chains)
    for _ in range(MOST_SHRINKS):
        turn = angle[moving, None]
        # Point of the ellipse at the proposed angle.
        tried = at[moving] * np.cos(turn) + across[moving] * np.sin(turn)
        proposed = law.centre + tried @ law.root.T
        logs = log(proposed)
        accepted = logs + _compute_negative_log_t(np.sum(tried**2, axis=1), length) > least[moving]
        places[moving[accepted]], heights[moving[accepted]] = proposed[accepted], logs[accepted]
        moving = moving[~accepted]
        if not len(moving):
            break
        # Shrink the interval towards angle 0, which is the present position.
        below = angle[moving] < 0
        low[moving[below]], high[moving[~below]] = angle[moving[below]], angle[moving[~below]]
        angle[moving] = rng.uniform(low[moving], high[moving])
    return places, heights


def _compute_negative_log_t(squares: Floats, length: int) -> Floats:
    """Compute the negative log t density up to a constant: `(5 + length) / 2 * log(1 + squares / 5)`.

    Args:
        squares: squared Mahalanobis distances from the centre, shape (chains,).
        length: number of coordinates.

    Returns:
        Shape (chains,).
    """
    return np.asarray((DEGREES_OF_FREEDOM + length) / 2 * np.log1p(squares / DEGREES_OF_FREEDOM))


def _refit_reference(samples: Floats, law: Reference) -> Reference:
    """Fit the t law's centre and scale matrix to mean and covariance of the second half of a round's steps.

    Args:
        samples: draws of the round, shape (chains, steps, length).
        law: the old law, returned if that half has fewer than ten draws for each coordinate or a singular covariance.
    """
    flat = samples[:, samples.shape[1] // 2 :].reshape(-1, samples.shape[-1])
    spread = np.cov(flat.T)
    if len(flat) < 10 * flat.shape[1] or not np.linalg.eigvalsh(np.atleast_2d(spread))[0] > 0:
        return law
    return Reference(flat.mean(axis=0), np.linalg.cholesky(np.atleast_2d(spread)))


def _measure_mixing(samples: Floats, size: int, done: int) -> Mixing:
    """Compute the largest R-hat of all coordinates, and the least effective sample size with its coordinate's name.

    Args:
        samples: draws, shape (chains, steps, length): weights first, then latent quantities.
        size: number of weights.
        done: number of steps of each chain so far, warm-up included; returned as `sweeps`.
    """

    def name(worst: int) -> str:
        """Name a coordinate: "weight i", counted from 0, or "a latent quantity"."""
        return f"weight {worst}" if worst < size else "a latent quantity"

    return measure_mixing(np.moveaxis(samples, 2, 0), name, done)


COVARIANCE_POINTS = 256
"""Number of points of a law with which covariances are estimated, to some per cent; means use all its points."""
DENSITY_NUMBERS = 2**21
"""Largest number of floating-point numbers of one array while a density is evaluated: 16 MiB."""
LEAST_PROPOSALS, PROPOSALS_PER_COORDINATE = 2000, 40
"""Proposals of each round of importance sampling: the least number, and the number per coordinate."""
WANTED_WEIGHTED_DRAWS, LEAST_WEIGHTED_DRAWS = 2000, 1000
"""Effective sample size that ends the rounds of importance sampling, and the least one accepted after the last round;
for linear regressions the least is the same."""
MOST_LOG_VARIANCE = 50.0
"""Largest absolute log ratio of a variance to its mean; latent values beyond it are clamped to avoid overflow."""


@dataclass(frozen=True, eq=False)
class LabelledPoints:
    """Public labelled records, which are not among the private ones.

    Args:
        points: float64, shape (records, size); scaled features, then the constant, as for private records.
        labels: shape (records,), 0 or 1.

    Raises:
        InputError: no points, points that are not finite or not of two axes, or labels that are not one for each point,
            0 or 1.
    """

    points: Floats
    labels: Ints

    def __post_init__(self) -> None:
        """Refuse wrong shapes and values; the arrays are neither converted nor copied."""
        if self.points.ndim != 2 or not len(self.points) or not np.all(np.isfinite(self.points)):
            raise InputError("public points must be a finite array of shape (records, size), at least one record")
        if self.labels.shape != self.points.shape[:1] or not np.all(np.isin(self.labels, (0, 1))):
            raise InputError("public labels must be as many as public points, each 0 or 1")


@dataclass(frozen=True, eq=False)
class NoisyGradients:
    """Noisy gradients of a log-likelihood at public points.

    A one-shot release is one gradient at weights 0. Objective perturbation is one gradient at its minimum w: there the
    gradient of the log-likelihood is the regulariser's `Lambda w` less the noise.

    Args:
        points: theta_t, shape (T, size).
        gradients: sums over records, with noise, shape (T, size).
        scale: scale s of the noise, the same for all t; noises are independent given the records.
        shape: "cube" for the density exp(-max_j |b_j| / s), "ball" for exp(-|b|_2 / s), "diamond" for exp(-|b|_1 / s).
        records: n, finite: public and positive, or noisy and of any sign.
        count_scale: scale of the discrete Laplace noise in `records`, unit: records; None if n is public.

    Raises:
        InputError: arrays of the wrong shape, empty or not finite; a scale or a public n that is not positive and
            finite; a noisy n that is not finite; or an unknown shape of the noise.
    """

    points: Floats
    gradients: Floats
    scale: float
    shape: ShapeTag
    records: float
    count_scale: float | None

    def __post_init__(self) -> None:
        """Replace both arrays by float64 ones, and refuse wrong shapes and values."""
        at, gradients = np.asarray(self.points, np.float64), np.asarray(self.gradients, np.float64)
        object.__setattr__(self, "points", at)
        object.__setattr__(self, "gradients", gradients)
        if at.ndim != 2 or at.size == 0 or not np.all(np.isfinite(at)):
            raise InputError("points must be a finite array of shape (gradients, size), the size of the law")
        if gradients.shape != at.shape or not np.all(np.isfinite(gradients)):
            raise InputError(f"gradients must be a finite array of shape {at.shape}, one gradient for each point")
        if self.shape not in SHAPES:
            raise InputError(f"the shape of the noise must be 'cube', 'ball' or 'diamond', got {self.shape!r}")
        positive(scale=self.scale)
        if self.count_scale is None:
            positive(records=self.records)
        else:
            positive(count_scale=self.count_scale)
        if not math.isfinite(self.records):
            raise InputError(f"the number of records must be finite, got {self.records}")


@dataclass(frozen=True, eq=False)
class LogisticDraws:
    """Draws of a logistic regression's weights, with the method of drawing.

    Args:
        weights: float64, shape (draws, size), in the units of the scaled features.
        method: "resampling" for importance sampling, "slices" for chains.
        mixing: mixing of the chains; None for resampling.
    """

    weights: Floats
    method: Literal["resampling", "slices"]
    mixing: Mixing | None


def logistic_draws(
    gradients: NoisyGradients,
    law: Law,
    *,
    prior_deviation: float,
    public: LabelledPoints | None = None,
    draws: int,
    rng: np.random.Generator,
) -> LogisticDraws:
    """Draw the weights given noisy gradients under the prior N(0, deviation^2 I), by importance sampling or chains.

    Args:
        gradients: noisy gradients of a release.
        law: law of the records' features v.
        prior_deviation: prior standard deviation of each weight.
        public: labelled records, whose exact likelihood is multiplied in; None for none.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        Draws in random order. Importance sampling runs until its effective sample size is 2,000 or 15 rounds are done.
        If it is at least 1,000 then, draws of equal probability are picked from it, large weights repeatedly
        ("resampling", no mixing). Else they come from chains that start around it ("slices"), whose largest R-hat is at
        most 1.01 and least effective sample size at least 400.

    Raises:
        InputError: a law or public records of another size, a `prior_deviation` or `draws` that is not positive, or
            chains that have not mixed.

    Guarantee:
        No budget is spent; only the release is read.

    Source:
        Williams and McSherry (2010), Section 4.1, with the integral over records outside the product over gradients.
    """
    if gradients.points.shape[1] != law.size:
        raise InputError(f"points must be a finite array of shape (gradients, {law.size}), the size of the law")
    if public is not None and public.points.shape[1] != law.size:
        raise InputError(f"public points must have {law.size} coordinates, the size of the law")
    positive(prior_deviation=prior_deviation, draws=draws)
    known = () if public is None else (public_evidence(public.points, public.labels),)
    density = Density(law.size, prior_deviation, (gradient_evidence(gradients, law), *known))
    proposals = max(LEAST_PROPOSALS, PROPOSALS_PER_COORDINATE * (law.size + len(density.latents)))
    weighted = weighted_draws(density, draws=proposals, wanted=WANTED_WEIGHTED_DRAWS, rng=rng)
    if weighted.effective >= LEAST_WEIGHTED_DRAWS:
        return LogisticDraws(rng.permutation(weighted.equal(draws)), "resampling", None)
    weights, mixing = draw_by_slices(density, weighted.reference(), draws=draws, rng=rng)
    return LogisticDraws(weights, "slices", mixing)


# ---------------------------------------------------------------------------------------------- evidence


@dataclass(frozen=True)
class GammaVariances:
    """Independent gamma laws of noise variances, which make the noise a scale mixture of normal laws.

    Args:
        order: shape parameter of each gamma law.
        unit: scale parameter of each gamma law, in the unit of the noise squared; the mean variance is `order * unit`.
        parts: number of variances. Each applies to the same number of consecutive coordinates of all gradients in a
            row.
    """

    order: float
    unit: float
    parts: int


def public_evidence(points: Floats, labels: npt.ArrayLike) -> WeightLikelihood:
    """Build the logistic log-likelihood of labelled public records as a function of the weights.

    Args:
        points: shape (records, size), the constant last.
        labels: 0 or 1, shape (records,).

    Returns:
        The exact log-likelihood, evaluated in blocks of bounded memory, with its exact gradient and observed
        information, which is positive semidefinite; it has no latent quantities.
    """
    targets = np.asarray(labels, np.float64)
    signed = points * (2 * targets - 1)[:, None]

    def near(at: Floats) -> tuple[Floats, Floats]:
        """Compute score `sum (y_i - p_i) v_i` and information `sum p_i (1 - p_i) v_i v_i'` at weights (size,)."""
        p = expit(points @ at)
        # Score sum_i (y_i - p_i) v_i, and observed information sum_i p_i (1 - p_i) v_i v_i'.
        return (targets - p) @ points, (points * (p * (1 - p))[:, None]).T @ points

    def log(weights: Floats) -> Floats:
        """Compute `sum log P(y_i | v_i, w)` for weights of shape (draws, size); shape (draws,), in nats."""
        return np.asarray(log_expit(weights @ signed.T).sum(axis=1))

    return WeightLikelihood(_split_into_blocks(log, len(points)), near, np.empty(0))


def gradient_evidence(gradients: NoisyGradients, law: Law) -> WeightLikelihood:
    """Build the normal likelihood of a release's noisy gradients; each gradient has a noise variance of its own.

    Args:
        gradients: noisy gradients of a release.
        law: law of the features.

    Returns:
        A likelihood of weights and latent quantities, as `normal_sums` returns it: for each gradient the log ratio of
        its noise variance to the mean and, if the number of records is noisy, one for its error.
    """
    noise = GammaVariances(*KNorm(gradients.scale, law.size, gradients.shape).mixture, len(gradients.points))
    return normal_sums(gradients.points, gradients.gradients, law, noise, gradients.records, gradients.count_scale)


def normal_sums(
    at: Floats, gradients: Floats, law: Law, noise: GammaVariances, counted: float, scale: float | None
) -> WeightLikelihood:
    """Build the likelihood of gradients that are jointly normal given the noise variances (module docstring).

    Args:
        at: points theta_t, shape (T, size).
        gradients: noisy gradients at these points, shape (T, size).
        law: law of the features.
        noise: gamma laws of the noise variances.
        counted: number of records, public or noisy.
        scale: scale of the discrete Laplace noise on the number of records; None if it is public.

    Returns:
        A likelihood of weights and latent quantities times the prior of the latter, up to a constant, evaluated in
        blocks of bounded memory. Latent are the log ratio of each noise variance to its mean, clamped to +-50, and,
        with a `scale`, `log(n / middle) * middle / scale`, with `middle = max(counted, scale, 1)`, so that n is
        positive. A covariance that is not positive definite gives -inf. Means use all points of `spread(law)`,
        covariances at most 256.
    """
    steps, size = at.shape
    repeats, diagonal = steps * size // noise.parts, np.arange(steps * size)
    mean_noise = noise.order * noise.unit
    middle = float(counted if scale is None else max(counted, scale, 1.0))
    moments, atoms = moments_of(law), _thin_points(law)
    covariance, means = _make_covariance(atoms, at), moments(at)

    def log(positions: Floats) -> Floats:
        """Compute the log density of gradients and latent quantities, shape (draws,), at positions (draws, length)."""
        weights = positions[:, :size]
        logs = np.clip(positions[:, size : size + noise.parts], -MOST_LOG_VARIANCE, MOST_LOG_VARIANCE)
        # Gamma prior of each variance, as a density of its log ratio to the mean: order * (log ratio - ratio).
        prior = noise.order * np.sum(logs - np.exp(logs), axis=1)
        records = np.full(len(weights), middle)
        if scale is not None:
            # The latent is log(n / middle) in units of scale / middle, about the noise of log n. The prior of n is
            # flat: log n adds the Jacobian of the logarithm, -|n - counted| / scale is the Laplace noise.
            records = middle * np.exp(positions[:, -1] * scale / middle)
            prior += np.log(records) - np.abs(records - counted) / scale
        # gradients - n (m(w) - m(at)) ~ N(0, n Cov(f) + noise variances), by the central limit theorem over n records.
        residual = (gradients - records[:, None, None] * (moments(weights)[:, None] - means)).reshape(len(weights), -1)
        total = records[:, None, None] * covariance(weights)
        total[:, diagonal, diagonal] += np.repeat(mean_noise * np.exp(logs), repeats, axis=1)
        return np.asarray(prior + _compute_log_normal(residual, total))

    def near(weights: Floats) -> tuple[Floats, Floats]:
        """Compute gradient `J' V^-1 r` and Fisher information `J' V^-1 J` in the weights, at weights (size,).

        Noise variances are at their means, and n is `middle`; the dependence of V on the weights is neglected.
        """
        p = expit(atoms.points @ weights)
        # Fisher scoring, J' V^-1 r and J' V^-1 J, with the Jacobian J = n E[p (1 - p) v v'] for each gradient.
        slope = np.tile(middle * (atoms.points * (atoms.weights * p * (1 - p))[:, None]).T @ atoms.points, (steps, 1))
        residual = (gradients - middle * (moments(weights[None]) - means)).ravel()
        total = middle * covariance(weights[None])[0] + mean_noise * np.eye(steps * size)
        solved = np.linalg.solve(total, np.column_stack([slope, residual]))
        return slope.T @ solved[:, -1], slope.T @ solved[:, :-1]

    # Approximate posterior deviation of the logarithm of a gamma variance, given `repeats` coordinates of its noise.
    latents = np.full(noise.parts, (noise.order + repeats / 4) ** -0.5)
    numbers = max(len(atoms.points) * steps * size, (steps * size) ** 2, len(spread(law).points))
    return WeightLikelihood(
        _split_into_blocks(log, numbers), near, latents if scale is None else np.append(latents, 1.0)
    )


def _split_into_blocks(log: Callable[[Floats], Floats], numbers: int) -> Callable[[Floats], Floats]:
    """Wrap a log density so that it evaluates positions in blocks, whose arrays have at most `DENSITY_NUMBERS` numbers.

    A block has at least one position, even if that has more numbers.

    Args:
        log: log density of positions, shape (draws, length) to shape (draws,).
        numbers: size of its largest array for one position.

    Returns:
        A function like `log`, of at least one position.
    """
    block = max(1, DENSITY_NUMBERS // numbers)

    def all_blocks(positions: Floats) -> Floats:
        """Evaluate positions, shape (draws, length), block by block; shape (draws,)."""
        return np.concatenate([log(positions[at : at + block]) for at in range(0, len(positions), block)])

    return all_blocks


def _compute_log_normal(off: Floats, total: Floats) -> Floats:
    """Compute multivariate normal log densities `-|L^-1 r|^2 / 2 - sum log L_ii`, V = L L', up to a constant.

    Args:
        off: deviations r from the means, shape (draws, length).
        total: covariances V, shape (draws, length, length).

    Returns:
        Shape (draws,); -inf for a covariance that is not positive definite after rounding, which leaves the other draws
        as they are.
    """
    try:
        root = np.linalg.cholesky(total)
    except np.linalg.LinAlgError:
        if len(off) == 1:
            return np.array([-np.inf])
        return np.concatenate([_compute_log_normal(off[k : k + 1], total[k : k + 1]) for k in range(len(off))])
    # With V = L L': log N = -|L^-1 r|^2 / 2 - sum log L_ii.
    scores = np.linalg.solve(root, off[..., None])[..., 0]
    return np.asarray(-0.5 * np.sum(scores**2, axis=1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1))


def _thin_points(law: Law) -> WeightedPoints:
    """Represent a law by at most `COVARIANCE_POINTS` (256) points in the coordinates of v; deterministic.

    It is `spread(law, 256)`; if the law's own points are more, a systematic sample of 256 by probability, equally
    likely.
    """
    law_points = spread(law, COVARIANCE_POINTS)
    if len(law_points.points) <= COVARIANCE_POINTS:
        return law_points
    ends = np.cumsum(law_points.weights)
    picked = np.searchsorted(ends, (np.arange(COVARIANCE_POINTS) + 0.5) / COVARIANCE_POINTS * ends[-1])
    return WeightedPoints(law_points.points[picked], np.full(COVARIANCE_POINTS, 1 / COVARIANCE_POINTS))


def _make_covariance(atoms: WeightedPoints, at: Floats) -> Callable[[Floats], Floats]:
    """Return a function of the weights: the covariance of one record's gradients f_1 .. f_T over the law's points.

    `Cov(f_t, f_s) = E[p (1 - p) v v'] + Cov[(p - p_t) v, (p - p_s) v]` (module docstring).

    Args:
        atoms: weighted points of the features' law.
        at: points theta_t of the release, shape (T, size).

    Returns:
        A function from weights, shape (draws, size), to covariances, shape (draws, T size, T size), gradient after
        gradient.
    """
    points, mass, steps = atoms.points, atoms.weights, len(at)
    before = expit(points @ at.T)

    def covariance(weights: Floats) -> Floats:
        """Compute covariances, shape (draws, T size, T size), from weights, shape (draws, size)."""
        p = expit(weights @ points.T)
        # Law of total variance: E[p (1 - p) v v'] from the labels, Cov[(p - p_t) v] from the features.
        labels = np.swapaxes(points * (mass * p * (1 - p))[..., None], 1, 2) @ points
        moved = ((p[:, :, None] - before)[..., None] * points[:, None, :]).reshape(len(p), len(points), -1)
        moved -= (mass @ moved)[:, None]
        return np.asarray(np.tile(labels, (1, steps, steps)) + np.swapaxes(moved, 1, 2) @ (moved * mass[:, None]))

    return covariance
