r"""Posterior of a logistic regression from a perturbed minimum and the noisy curvature there: no law of the features.

Released are weights w at which the gradient of the negative log-likelihood is `-(Lambda w + b)`, b being noise of known
law, and the curvature H at w with noise. Near w the gradient is `H (w - theta)` plus the sampling error of the labels,
whose covariance is H again where the model holds; hence

    H w + Lambda w = H theta + error,    error of covariance H + Cov(b),

which are the equations of `noisy_gram`, for features centred at their means under the weights `sigmoid (1 - sigmoid)`.
The observation is w, not the left side, so that a drawn H counts by `det(H + Lambda)`, too. The intercept at the centre
is known apart from the slopes.

That is exact in the limit of small noise and many records, whatever the features' law. What is left out: how H changes
between w and theta, which matters where the noise moves w so far that the curves bend.

Source: Chaudhuri, Monteleoni and Sarwate (2011) for the release; Kulkarni et al. (ICML 2021) for second moments of the
features in the same release, here at the weights where they are needed; the posterior is derived above.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.design import GRID, Design
from discreet.posterior.design.noisy_gram import NoisySums, SlopeLaw, gram_draws, slope_law
from discreet.releases.kinds.gradient_trace import GradientTrace, NoisyCurvature
from discreet.releases.kinds.noisy_sums import k_norm_variance

__all__ = ["curvature_draws", "curvature_estimate"]

Floats = npt.NDArray[np.float64]

EXPLAINED = 4.0
"""Variance of the log odds that all features together explain a priori: about what the model can tell."""
INTERCEPT = 5.0
"""Deviation of the log odds at the features' means a priori."""
LARGEST = 1e60
"""Weights and noise beyond which squares of squares overflow."""
SEED = 20161
"""Of the matrices of an estimate, which thereby is a function of the release alone."""


def curvature_estimate(trace: GradientTrace) -> Floats:
    """The weights of least expected squared error in the log odds.

    Args:
        trace: with a curvature.

    Returns:
        Shape (size,), in the design's coordinates; the same at every call.
    """
    law, middle, _ = _law(trace, np.random.default_rng(SEED))
    assert trace.curvature is not None
    slopes = law.estimate(_sums(trace.curvature, trace.design).weight, trace.weights[: len(trace.design.features)])
    return _joined(trace, slopes, law.gram.means, middle)


def curvature_draws(trace: GradientTrace, draws: int, rng: np.random.Generator) -> Floats:
    """Draws of the weights.

    Args:
        trace: with a curvature.
        draws: how many.
        rng: source of randomness.

    Returns:
        Shape (draws, size), in the design's coordinates.
    """
    law, middle, variance = _law(trace, rng)
    slopes, _ = law.draw(draws, rng)
    means = law.gram.means + np.sqrt(law.gram.mean_variances) * rng.standard_normal(slopes.shape)
    return _joined(trace, slopes, means, middle + np.sqrt(variance) * rng.standard_normal(draws))


def _law(trace: GradientTrace, rng: np.random.Generator) -> tuple[SlopeLaw, float, float]:
    """The law of the slopes, and mean and variance of the log odds at the features' means."""
    assert trace.curvature is not None
    design, width = trace.design, len(trace.design.features)
    if not max(float(np.abs(trace.weights).max()), trace.scale) < LARGEST:
        raise InputError("this release holds weights or noise that no fit makes: it was damaged, or made up")
    pulled = trace.gradients[-1]  # Lambda w
    noise = k_norm_variance(design.size, trace.scale, design.shape)
    sums = _sums(trace.curvature, design)
    gram, weight = gram_draws(sums, rng), sums.weight
    at, force, centre = trace.weights[:width], pulled[:width], gram.means
    if design.intercept:
        # In coordinates about the centre the constant's own equation is taken out of those of the slopes.
        force = force - centre * pulled[-1] / design.constant
    variances = noise * (1 + (centre / design.constant if design.intercept else 0.0 * centre) ** 2)
    convexity = _convexity(trace)
    along, pulls = gram.along(at * gram.scales), gram.along(force / gram.scales)
    stretched = gram.variance_along(convexity / gram.scales**2)
    ones = np.ones(len(gram.eigenvalues))
    law = slope_law(
        gram,
        gram.eigenvalues * along + pulls,
        gram.variance_along(variances / gram.scales**2),
        sampling=ones,
        unit=ones * weight * EXPLAINED / width,
        volume=np.log(gram.eigenvalues + stretched).sum(axis=1),
    )
    if not design.intercept:
        return law, 0.0, 0.0
    # The log odds at the centre, with their own noise and sampling error.
    there = trace.weights[-1] * design.constant + centre @ at
    told = weight**2 / (weight + noise / design.constant**2)
    precision = told + INTERCEPT**-2
    return law, float(told * (there + pulled[-1] / design.constant / weight) / precision), float(1 / precision)


def _sums(curvature: NoisyCurvature, design: Design) -> NoisySums:
    """A quarter of the curvature's sums: those of products under the weights `sigmoid (1 - sigmoid)`."""
    width = len(design.features)
    parts = curvature.parts(design)
    (weight,), few, many = (part / GRID / 4 for part in parts)
    variances = [
        0.0 if scale is None else k_norm_variance(part.size, scale / GRID / 4, part.shape)
        for part, scale in zip(design.curvature, curvature.scales, strict=True)
    ]
    weight = max(float(weight), float(np.sqrt(variances[0])))
    # Indicators of groups are their own squares, and the product of two of one group is 0 for certain.
    alone, first = list(design.alone), len(few) - len(design.alone)
    squares, square_variance = few[:width].copy(), np.full(width, variances[1])
    squares[alone], square_variance[alone] = (few[first:] + weight) / 2, (variances[1] + variances[0]) / 4
    products, product_variance = np.zeros((2, width, width))
    products[design.pairs], product_variance[design.pairs] = many, variances[2]
    upper = np.triu_indices(width, 1)
    return NoisySums(
        weight=weight,
        weight_variance=variances[0],
        linear=few[:width] if design.intercept else None,
        squares=squares,
        products=products[upper],
        linear_variance=variances[1],
        square_variance=square_variance,
        product_variance=product_variance[upper],
    )


def _convexity(trace: GradientTrace) -> float:
    """Lambda: how many times the weights the gradient at them is."""
    longest = int(np.argmax(np.abs(trace.weights)))
    return float(trace.gradients[-1][longest] / trace.weights[longest]) if trace.weights[longest] else 0.0


def _joined(trace: GradientTrace, slopes: Floats, means: Floats, middle: Floats | float) -> Floats:
    """Slopes and the log odds at the features' means as weights of the design's coordinates."""
    if not trace.design.intercept:
        return slopes
    constant = (middle - (slopes * means).sum(axis=-1)) / trace.design.constant
    return np.concatenate([slopes, np.asarray(constant)[..., None]], axis=-1)
