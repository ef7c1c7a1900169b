r"""Posterior of a logistic or Poisson regression from a perturbed minimum and the noisy curvature there.

Released are weights w at which the gradient of the negative log-likelihood is `-(Lambda w + b)`, b being noise of known
law, and the curvature H at w with noise. Near w the gradient is `H (w - theta)` plus the sampling error of the targets,
whose covariance is phi H where the model holds (phi is the response's dispersion: 1 for classes, and 1 / U for counts
in units of their bound U); hence

    H w + Lambda w = H theta + error,    error of covariance phi H + Cov(b),

which are the equations of `noisy_gram`, for features centred at their means under the slopes of the records' means.
More than two classes have equations that are tied together: see `many_classes.py`.
The observation is w, not the left side, so that a drawn H counts by `det(H + Lambda)`, too. The intercept at the centre
is known apart from the slopes.

No law of the features is asked. That is exact in the limit of small noise and many records, whatever that law is. What
is left out: how H changes between w and theta, but for the predictor at the features' means (`_bend_predictor`), which
matters where the noise moves w so far that the curves bend.

Source: Chaudhuri, Monteleoni and Sarwate (2011) for the release; Kulkarni et al. (ICML 2021) for second moments of the
features in the same release, here at the weights where they are needed; the posterior is derived above.
"""

from __future__ import annotations

import numpy as np

from discreet.errors import InputError
from discreet.model.response import response_of
from discreet.posterior.design.many_classes import (
    INTERCEPT_DEVIATION,
    PREDICTOR_VARIANCE,
    convexity_of,
    many_draws,
    many_estimate,
    sums_of,
    weight_ratios,
)
from discreet.posterior.design.noisy_gram import ESTIMATE_SEED, SlopeLaw, gram_draws, slope_law
from discreet.releases.kinds.gradient_trace import GradientTrace
from discreet.util.arrays import Floats

LARGEST_WEIGHT = 1e60
"""Weights and noise beyond which squares of squares overflow."""


def curvature_estimate(trace: GradientTrace) -> Floats:
    """The weights of least expected squared error in the linear predictors.

    Args:
        trace: with a curvature.

    Returns:
        Shape (weights,), in the design's coordinates; the same at every call.
    """
    rng = np.random.default_rng(ESTIMATE_SEED)
    _require_possible(trace)
    if trace.design.outputs > 1:
        return many_estimate(trace, rng)
    law, middle, _ = _find_slope_law(trace, rng)
    slopes = law.estimate(sums_of(trace, 0).weight, trace.weights[: len(trace.design.features)])
    return _join_weights(trace, slopes, law.gram.means, _bend_predictor(trace, law, middle, 0.5))


def curvature_draws(trace: GradientTrace, draws: int, rng: np.random.Generator) -> Floats:
    """Draws of the weights.

    Args:
        trace: with a curvature.
        draws: how many.
        rng: source of randomness.

    Returns:
        Shape (draws, weights), in the design's coordinates.
    """
    _require_possible(trace)
    if trace.design.outputs > 1:
        return many_draws(trace, draws, rng)
    law, middle, variance = _find_slope_law(trace, rng)
    slopes, _ = law.draw(draws, rng)
    means = law.gram.means + np.sqrt(law.gram.mean_variances) * rng.standard_normal(slopes.shape)
    middles = middle + np.sqrt(variance) * rng.standard_normal(draws)
    ratio = weight_ratios(sums_of(trace, 0), draws, rng)
    return _join_weights(trace, slopes, means, _bend_predictor(trace, law, middles, rng.random(draws), ratio))


def _bend_predictor(
    trace: GradientTrace, law: SlopeLaw, middle: Floats | float, share: Floats | float, ratio: Floats | float = 1.0
) -> Floats:
    """The predictor at the features' means, where the mean bends on the way from the released weights.

    The slope at these says how the mean changes, which is then right for the mean: of a rare class, or of small counts,
    a straight line through the predictor would be far off. No mean is below a part of what one record makes of it. The
    change goes as 1 over the weight, which noise may leave open: `ratio` is that which was taken over the one drawn.
    """
    design, response = trace.design, response_of(trace.design)
    if not design.intercept:
        return np.zeros(np.shape(middle))
    at = np.array([[trace.weights[-1] * design.constant + law.gram.means @ trace.weights[:-1]]])
    slope = float(response.slopes(response.means(at))[0, 0])
    least = np.atleast_1d(share) * min(max(slope, 1e-12) / sums_of(trace, 0).weight, 0.5)
    moved = (np.atleast_1d(middle)[None] - at) * ratio
    found = response.bent(at, moved, least)[0]
    return np.asarray(found if np.ndim(middle) else found[0])


def _find_slope_law(trace: GradientTrace, rng: np.random.Generator) -> tuple[SlopeLaw, float, float]:
    """The law of the slopes, and mean and variance of the linear predictor at the features' means."""
    design, width = trace.design, len(trace.design.features)
    pulled = trace.gradients[-1]  # Lambda w
    noise, dispersion = trace.variance, response_of(design).dispersion
    sums = sums_of(trace, 0)
    gram, weight = gram_draws(sums, rng), sums.weight
    at, force, centre = trace.weights[:width], pulled[:width], gram.means
    if design.intercept:
        # In coordinates about the centre the constant's own equation is taken out of those of the slopes.
        force = force - centre * pulled[-1] / design.constant
    variances = noise * (1 + (centre / design.constant if design.intercept else 0.0 * centre) ** 2)
    convexity = convexity_of(trace)
    along, pulls = gram.along(at * gram.scales), gram.along(force / gram.scales)
    stretched = gram.variance_along(convexity / gram.scales**2)
    ones = np.ones(len(gram.eigenvalues))
    law = slope_law(
        gram,
        gram.eigenvalues * along + pulls,
        gram.variance_along(variances / gram.scales**2),
        sampling=dispersion * ones,
        unit=ones * weight * PREDICTOR_VARIANCE / width,
        volume=np.log(gram.eigenvalues + stretched).sum(axis=1),
    )
    if not design.intercept:
        return law, 0.0, 0.0
    # The predictor at the centre, with its own noise and sampling error.
    there = trace.weights[-1] * design.constant + centre @ at
    told = weight**2 / (dispersion * weight + noise / design.constant**2)
    precision = told + INTERCEPT_DEVIATION**-2
    return law, float(told * (there + pulled[-1] / design.constant / weight) / precision), float(1 / precision)


def _require_possible(trace: GradientTrace) -> None:
    """Refuse numbers with which arithmetic would overflow."""
    if not max(float(np.abs(trace.weights).max()), float(np.abs(trace.gradients).max()), trace.scale) < LARGEST_WEIGHT:
        raise InputError("this release holds weights or noise that no fit makes: it was damaged, or made up")


def _join_weights(trace: GradientTrace, slopes: Floats, means: Floats, middle: Floats | float) -> Floats:
    """Slopes and the predictor at the features' means as weights of the design's coordinates."""
    if not trace.design.intercept:
        return slopes
    constant = (middle - (slopes * means).sum(axis=-1)) / trace.design.constant
    return np.concatenate([slopes, np.asarray(constant)[..., None]], axis=-1)
