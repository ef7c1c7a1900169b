"""The posterior of a logistic regression given noisy gradients of its likelihood.

Records (v_i, y_i) are drawn from a law of v, with y_i ~ Bernoulli(sigmoid(theta . v_i)). A release tells public points
theta_1 .. theta_T and gradients

    g_t = sum_i (y_i - sigmoid(theta_t . v_i)) v_i + noise_t.

By the central limit theorem the sums are jointly normal over the draw of the records: with f_t = (y - sigmoid(theta_t .
v)) v, their mean is `n E f_t = n (m(theta) - m(theta_t))`, where `m(w) = E[sigmoid(w . v) v]`, and their covariance is
n times

    Cov(f_t, f_s) = E[p (1 - p) v v'] + Cov[(p - p_t) v, (p - p_s) v],    p = sigmoid(theta . v), p_t likewise:

the noise of the labels, which all gradients share, and how the records at hand differ from their law. The noise of a
gradient is normal given a latent variance, so everything but theta and these variances is integrated exactly: nothing
is summed over data sets, and the cost does not depend on the number of records. theta and the variances, and the
number of records where it has noise, are drawn by importance around the mode (`weighted`), or where that is worth too
little by chains (`slices`).

For the "ball" that is exact: exp(-|b|_2 / s) in d dimensions is a normal law whose variance is gamma with shape (d + 1)
/ 2 and scale 2 s^2. No mixture of round normal laws is a cube: for exp(-max_j |b_j| / s) the gamma law has the shape
and the scale that give the norm |b|_2 its second and its fourth moment. In one dimension, where ball and cube are the
Laplace law, both are exact. The "diamond" is matched as the cube is.

The module reads a release's arrays and no records, but public ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit

from discreet.errors import InputError
from discreet.noise.noise_laws import ShapeTag
from discreet.noise.shapes import SHAPES, KNorm
from discreet.posterior.design.importance import (
    DEGREES_OF_FREEDOM,
    Density,
    Reference,
    WeightLikelihood,
    t_draws,
    weighted_draws,
)
from discreet.posterior.design.laws import Law, WeightedPoints, moments_of, spread
from discreet.posterior.diagnostics import describe_mixing, has_mixed, measure_mixing
from discreet.posterior.joint_draws import Mixing
from discreet.util.arrays import Floats, Ints
from discreet.util.number_checks import positive

# --------------------------------------------------------------------------------------------------------------------
# Chains on elliptical slices, for densities of weights that importance cannot draw: many side by side, in NumPy.
#
# Every chain moves on an ellipse through its place and a draw of a normal law, by shrinking an interval of angles until
# the density there is high enough: there is no step to tune and no slope to compute. The normal law is a t law's given
# its latent scale, so tails heavier than normal are walked, too. Each round of chains is twice as long as the last one
# and takes its t law from it; it alone is kept, so all before has been warm-up.
#
# Source: Murray, Adams and MacKay (2010), elliptical slice sampling; Nishihara, Murray and Adams (2014) for the t law.

SLICE_CHAINS = 8
"""Number of parallel chains; evaluated together they cost little more than one."""
LEAST_SLICE_STEPS = 200
"""Least number of steps of a chain in the first round."""
SLICE_ROUNDS = 6
"""Rounds of chains, each twice as long as the last: the last has 6,400 steps at least."""
MOST_SHRINKS = 60
"""Largest number of shrinkings of an interval of angles, on average to 1e-15 of a turn; then a chain stays."""


def draw_by_slices(density: Density, law: Reference, *, draws: int, rng: np.random.Generator) -> tuple[Floats, Mixing]:
    """Draw from a density by slice-sampling chains, in rounds until they mix.

    Args:
        density: of weights and latents.
        law: about as wide as the density; chains start from its draws, apart from each other.
        draws: how many are wanted.
        rng: source of randomness.

    Returns:
        Weights, shape (draws, size), of all chains in random order; and their mixing: every weight's R-hat, and that of
        the last latent quantities, is at most 1.01, and the worst is worth 400 independent draws.

    Raises:
        InputError: chains that did not mix.
    """
    places = t_draws(law, SLICE_CHAINS, rng)
    heights = density.log(places)
    steps, done = max(LEAST_SLICE_STEPS, math.ceil(draws / SLICE_CHAINS)), 0
    for _ in range(SLICE_ROUNDS):
        samples = np.empty((SLICE_CHAINS, steps, places.shape[1]))
        for step in range(steps):
            places, heights = _move_chains(density, law, places, heights, rng)
            samples[:, step] = places
        done += steps
        mixing = _measure_mixing(samples, density.size, done)
        if has_mixed(mixing):
            flat = samples.reshape(-1, samples.shape[-1])
            return flat[rng.permutation(len(flat))[:draws], : density.size], mixing
        law = _fit_law(samples, law)
        steps *= 2
    raise InputError(
        f"the chains of the logistic posterior have not mixed after {done:,} steps: {describe_mixing(mixing)}; give a "
        "smaller prior_deviation, or read the release's weights without a posterior"
    )


def _move_chains(
    density: Density, law: Reference, places: Floats, heights: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Move every chain by one step; return places, shape (chains, length), and log densities."""
    chains, length = places.shape
    at = np.linalg.solve(law.root, (places - law.centre).T).T
    # The t law given its scale is normal; given the place, one over the scale is gamma.
    squares = np.sum(at**2, axis=1)
    scales = (DEGREES_OF_FREEDOM + squares) / rng.chisquare(DEGREES_OF_FREEDOM + length, chains)
    across = np.sqrt(scales)[:, None] * rng.standard_normal(places.shape)
    least = heights + _log_inverse_density(squares, length) + np.log(rng.uniform(size=chains))
    angle: Floats = np.asarray(rng.uniform(0, 2 * np.pi, chains))
    low, high = angle - 2 * np.pi, angle.copy()
    places, heights = places.copy(), heights.copy()
    moving = np.arange(chains)
    for _ in range(MOST_SHRINKS):
        turn = angle[moving, None]
        tried = at[moving] * np.cos(turn) + across[moving] * np.sin(turn)
        proposed = law.centre + tried @ law.root.T
        logs = density.log(proposed)
        accepted = logs + _log_inverse_density(np.sum(tried**2, axis=1), length) > least[moving]
        places[moving[accepted]], heights[moving[accepted]] = proposed[accepted], logs[accepted]
        moving = moving[~accepted]
        if not len(moving):
            break
        below = angle[moving] < 0
        low[moving[below]], high[moving[~below]] = angle[moving[below]], angle[moving[~below]]
        angle[moving] = rng.uniform(low[moving], high[moving])
    return places, heights


def _log_inverse_density(squares: Floats, length: int) -> Floats:
    """Compute the negative log t density at squared distances, up to a constant."""
    return np.asarray((DEGREES_OF_FREEDOM + length) / 2 * np.log1p(squares / DEGREES_OF_FREEDOM))


def _fit_law(samples: Floats, law: Reference) -> Reference:
    """Fit the t law to a round's draws, if they determine a covariance; else keep the old one."""
    flat = samples[:, samples.shape[1] // 2 :].reshape(-1, samples.shape[-1])
    spread = np.cov(flat.T)
    if len(flat) < 10 * flat.shape[1] or not np.linalg.eigvalsh(np.atleast_2d(spread))[0] > 0:
        return law
    return Reference(flat.mean(axis=0), np.linalg.cholesky(np.atleast_2d(spread)))


def _measure_mixing(samples: Floats, size: int, done: int) -> Mixing:
    """Measure the mixing of chains by the worst coordinate."""

    def name(worst: int) -> str:
        return f"weight {worst}" if worst < size else "a latent quantity"

    return measure_mixing(np.moveaxis(samples, 2, 0), name, done)


COVARIANCE_POINTS = 256
"""Number of points that estimate a covariance to some per cent; the mean needs all points of a law."""
DENSITY_NUMBERS = 2**21
"""Numbers in memory while a density is computed."""
LEAST_PROPOSALS, PROPOSALS_PER_COORDINATE = 2000, 40
"""Proposals of each round of importance sampling: at least so many, and so many per coordinate."""
WANTED_WEIGHTED_DRAWS, LEAST_WEIGHTED_DRAWS = 2000, 1000
"""Effective sample size that ends the rounds, and the least one after the last round, as for linear regressions."""
MOST_LOG_VARIANCE = 50.0
"""Largest absolute log ratio of a variance to its mean; beyond it densities are 0."""


@dataclass(frozen=True, eq=False)
class LabelledPoints:
    """Public labelled records, which are not among the private ones.

    Args:
        points: float64, shape (records, size), scaled features and then the constant, like the private ones.
        labels: shape (records,), 0 or 1.
    """

    points: Floats
    labels: Ints

    def __post_init__(self) -> None:
        """Refuse points or labels that are none."""
        if self.points.ndim != 2 or not np.all(np.isfinite(self.points)):
            raise InputError("public points must be a finite array of shape (records, size)")
        if self.labels.shape != self.points.shape[:1] or not np.all(np.isin(self.labels, (0, 1))):
            raise InputError("public labels must be as many as public points, each 0 or 1")


@dataclass(frozen=True, eq=False)
class NoisyGradients:
    """Noisy gradients of a release.

    One gradient covers a one-shot release (at weights 0), and objective perturbation: its minimum w is where the
    gradient of the log likelihood is the regulariser's `Lambda w` less the noise.

    Args:
        points: theta_t, shape (T, size).
        gradients: sums over records, with noise, shape (T, size).
        scale: s of the noise, the same for all t, which are independent given the records.
        shape: "cube" for the density exp(-max_j |b_j| / s), "ball" for exp(-|b|_2 / s), "diamond" for exp(-|b|_1 / s).
        records: n, public or with noise.
        count_scale: of the discrete Laplace noise in `records`, unit: records; None where n is public.

    Raises:
        InputError: arrays of the wrong shape, scales that are not positive, or a shape of noise that is not one of the
            two.
    """

    points: Floats
    gradients: Floats
    scale: float
    shape: ShapeTag
    records: float
    count_scale: float | None

    def __post_init__(self) -> None:
        """Refuse what does not belong together."""
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
    """Draws of a logistic regression's weights, with their method.

    Args:
        weights: float64, shape (draws, size), in the units of the scaled features.
        method: what made them.
        mixing: how well chains agreed; None for resampling, which has none.
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
    """Draw the weights from their posterior given noisy gradients; prior N(0, deviation^2 I).

    Args:
        gradients: the noisy gradients of a release.
        law: of the records' v.
        prior_deviation: of each weight.
        public: labelled records whose likelihood is known exactly.
        draws: how many are returned.
        rng: source of randomness.

    Returns:
        Draws, in random order: of weighted ones that are worth at least 1000 independent ones; or else of chains, whose
        worst weight has an R-hat of at most 1.01 and is worth 400.

    Raises:
        InputError: a law or public records of another size, numbers that are not positive, or chains that did not mix.

    Guarantee:
        None spent: reads what was released.

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
    """Gamma laws of noise variances: a scale mixture of normals.

    Args:
        order: shape of each.
        unit: scale of each, in the unit of the noise squared.
        parts: how many there are; each is of equally many coordinates in a row.
    """

    order: float
    unit: float
    parts: int


def public_evidence(points: Floats, labels: npt.ArrayLike) -> WeightLikelihood:
    """Make the logistic likelihood of labelled public records.

    Args:
        points: shape (records, size), the constant last.
        labels: 0 or 1, shape (records,).

    Returns:
        Without latents.
    """
    targets = np.asarray(labels, np.float64)
    signed = points * (2 * targets - 1)[:, None]

    def near(at: Floats) -> tuple[Floats, Floats]:
        p = expit(points @ at)
        return (targets - p) @ points, (points * (p * (1 - p))[:, None]).T @ points

    def log(weights: Floats) -> Floats:
        return np.asarray(log_expit(weights @ signed.T).sum(axis=1))

    return WeightLikelihood(_split_into_blocks(log, len(points)), near, np.empty(0))


def gradient_evidence(gradients: NoisyGradients, law: Law) -> WeightLikelihood:
    """Make the joint normal likelihood of noisy gradients.

    Args:
        gradients: the noisy gradients of a release.
        law: of the features.

    Returns:
        Latents are the logarithm of each noise's variance, less that of its mean, and where the number of records has
        noise, how far off it is in scales of that noise.
    """
    noise = GammaVariances(*KNorm(gradients.scale, law.size, gradients.shape).mixture, len(gradients.points))
    return normal_sums(gradients.points, gradients.gradients, law, noise, gradients.records, gradients.count_scale)


def normal_sums(
    at: Floats, gradients: Floats, law: Law, noise: GammaVariances, counted: float, scale: float | None
) -> WeightLikelihood:
    """Make the likelihood of gradients that are jointly normal over sampled records, given the noise variances.

    Args:
        at, gradients: points and noisy gradients, shape (T, size).
        law: of the features.
        noise: laws of the variances.
        counted: number of records.
        scale: of the noise on it; None where it has none.

    Returns:
        Their likelihood.
    """
    steps, size = at.shape
    repeats, diagonal = steps * size // noise.parts, np.arange(steps * size)
    mean_noise = noise.order * noise.unit
    middle = float(counted if scale is None else max(counted, scale, 1.0))
    moments, atoms = moments_of(law), _thin_points(law)
    covariance, means = _make_covariance(atoms, at), moments(at)

    def log(positions: Floats) -> Floats:
        weights = positions[:, :size]
        logs = np.clip(positions[:, size : size + noise.parts], -MOST_LOG_VARIANCE, MOST_LOG_VARIANCE)
        prior = noise.order * np.sum(logs - np.exp(logs), axis=1)
        records = np.full(len(weights), middle)
        if scale is not None:
            # log n is a latent with a flat prior on n; its unit is about the deviation of what the noisy count tells.
            records = middle * np.exp(positions[:, -1] * scale / middle)
            prior += np.log(records) - np.abs(records - counted) / scale
        # gradients - n (m(w) - m(at)) ~ N(0, n Cov(one record) + noise), by the central limit over n records.
        residual = (gradients - records[:, None, None] * (moments(weights)[:, None] - means)).reshape(len(weights), -1)
        total = records[:, None, None] * covariance(weights)
        total[:, diagonal, diagonal] += np.repeat(mean_noise * np.exp(logs), repeats, axis=1)
        return np.asarray(prior + _log_normal(residual, total))

    def near(weights: Floats) -> tuple[Floats, Floats]:
        p = expit(atoms.points @ weights)
        # Fisher scoring, J' V^-1 r and J' V^-1 J, with the Jacobian J = n E[p (1 - p) v v'] for each gradient.
        slope = np.tile(middle * (atoms.points * (atoms.weights * p * (1 - p))[:, None]).T @ atoms.points, (steps, 1))
        residual = (gradients - middle * (moments(weights[None]) - means)).ravel()
        total = middle * covariance(weights[None])[0] + mean_noise * np.eye(steps * size)
        solved = np.linalg.solve(total, np.column_stack([slope, residual]))
        return slope.T @ solved[:, -1], slope.T @ solved[:, :-1]

    # A gamma law's logarithm has about this deviation, with what the coordinates of the noise tell of it.
    latents = np.full(noise.parts, (noise.order + repeats / 4) ** -0.5)
    numbers = max(len(atoms.points) * steps * size, (steps * size) ** 2, len(spread(law).points))
    return WeightLikelihood(
        _split_into_blocks(log, numbers), near, latents if scale is None else np.append(latents, 1.0)
    )


def _split_into_blocks(log: Callable[[Floats], Floats], numbers: int) -> Callable[[Floats], Floats]:
    """Wrap a function to evaluate few positions at a time, within `DENSITY_NUMBERS` numbers of memory."""
    block = max(1, DENSITY_NUMBERS // numbers)

    def all_blocks(positions: Floats) -> Floats:
        return np.concatenate([log(positions[at : at + block]) for at in range(0, len(positions), block)])

    return all_blocks


def _log_normal(off: Floats, total: Floats) -> Floats:
    """Compute normal log densities up to a constant; -inf where rounding leaves a covariance not positive.

    Args:
        off: from the means, shape (draws, length).
        total: covariances, shape (draws, length, length).

    Returns:
        Shape (draws,).
    """
    try:
        root = np.linalg.cholesky(total)
    except np.linalg.LinAlgError:
        if len(off) == 1:
            return np.array([-np.inf])
        return np.concatenate([_log_normal(off[k : k + 1], total[k : k + 1]) for k in range(len(off))])
    scores = np.linalg.solve(root, off[..., None])[..., 0]
    return np.asarray(-0.5 * np.sum(scores**2, axis=1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1))


def _thin_points(law: Law) -> WeightedPoints:
    """Thin the points of a law for covariances, evenly by probability."""
    law_points = spread(law, COVARIANCE_POINTS)
    if len(law_points.points) <= COVARIANCE_POINTS:
        return law_points
    ends = np.cumsum(law_points.weights)
    picked = np.searchsorted(ends, (np.arange(COVARIANCE_POINTS) + 0.5) / COVARIANCE_POINTS * ends[-1])
    return WeightedPoints(law_points.points[picked], np.full(COVARIANCE_POINTS, 1 / COVARIANCE_POINTS))


def _make_covariance(atoms: WeightedPoints, at: Floats) -> Callable[[Floats], Floats]:
    """Make the covariance of one record's gradients at all points of a release, as a function of the weights.

    Args:
        atoms: points of the features' law.
        at: of the release, shape (T, size).

    Returns:
        From weights, shape (draws, size), to shape (draws, T size, T size).
    """
    points, mass, steps = atoms.points, atoms.weights, len(at)
    before = expit(points @ at.T)

    def covariance(weights: Floats) -> Floats:
        p = expit(weights @ points.T)
        # Law of total variance: E[p (1 - p) v v'] from the labels, Cov[(p - p_t) v] from the features.
        labels = np.swapaxes(points * (mass * p * (1 - p))[..., None], 1, 2) @ points
        moved = ((p[:, :, None] - before)[..., None] * points[:, None, :]).reshape(len(p), len(points), -1)
        moved -= (mass @ moved)[:, None]
        return np.asarray(np.tile(labels, (1, steps, steps)) + np.swapaxes(moved, 1, 2) @ (moved * mass[:, None]))

    return covariance
