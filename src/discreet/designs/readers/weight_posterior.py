"""Posteriors of a design's weights, drawn from releases: regressions, classifications and directions.

The draws account for both sampling error and privacy noise. `discreet.designs.readers` registers the readers below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from discreet.designs.design import GRID_STEPS, Design, design_of, normal_of
from discreet.designs.kinds.gradient_trace import GradientTrace
from discreet.designs.kinds.noisy_sums import GroupedMoments, NoisyMoments, NoisyTotal
from discreet.designs.readers.expected_values import ExpectedValues, expected_values
from discreet.designs.readers.laws import Law, WeightedPoints
from discreet.designs.readers.linear import RegressionSums, SumLayout, moment_draws, unpack
from discreet.designs.readers.logistic import LabelledPoints, NoisyGradients, logistic_draws
from discreet.designs.readers.many_classes import (
    INTERCEPT_DEVIATION,
    PREDICTOR_VARIANCE,
    centred,
    convexity_of,
    many_draws,
    many_estimate,
    sums_of,
    weight_ratios,
)
from discreet.designs.readers.noisy_gram import ESTIMATE_SEED, NoisySums, SlopeLaw, cut_normal, gram_draws, slope_law
from discreet.designs.response import response_of
from discreet.errors import InputError
from discreet.posterior.joint_draws import Mixing
from discreet.posterior.protocol import Posterior, name_rows, tails
from discreet.releases.release import Release
from discreet.util.arrays import Floats, Ints
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.progress import under_way

# --------------------------------------------------------------------------------------------------------------------
# Posterior of a linear regression from noisy second moments, by the normal approximation of `noisy_gram`, which takes
# well under a second.
#
# Features and target are centred at their noisy means. The remaining equations are `c = A theta + error`, where A holds
# the centred sums of products of the features and c the centred sums of their products with the target. The residual
# variance is the target's noisy sum of squares minus the part that theta explains, over the number of records.
# `linear.py` has the exact law for cube noise (density ~ exp(-max |noise| / scale)) of one scale; it takes minutes if
# the noise is large.

TARGET_MEAN_DEVIATION = 1 / 3
"""Prior standard deviation of the target's mean, which lies between -1 and 1."""
LEAST_VARIANCE = 1e-6
"""Least variance of the residual and of the target, in units in which the target lies in [-1, 1]."""
RESIDUAL_ROUNDS = 4
"""Number of alternating updates: slopes given the residual variance, then the residual variance given the slopes."""


def normal_estimate(moments: NoisyMoments | GroupedMoments, records: int | None) -> Floats:
    """Compute the coefficients that minimise the expected squared prediction error, given noisy second moments.

    Slopes are shrunk towards 0 and explain at most the target's drawn sum of squares, averaged over the drawn matrices;
    the intercept puts the prediction at the features' estimated means at the target's estimated mean.

    Args:
        moments: noisy sums of products of a design with a numeric target.
        records: number of records; None if it is private, and then its noisy value is the first sum.

    Returns:
        Coefficients in the design's coordinates, shape (size,), the intercept last. The seed of the drawn Gram matrices
        is fixed, so every call returns the same numbers.
    """
    laws = _find_laws(moments, records, np.random.default_rng(ESTIMATE_SEED))
    most = laws.count * float(np.average(laws.target, weights=laws.slopes.weights))
    slopes = laws.slopes.estimate(laws.count, np.zeros(len(moments.design.features)), most)
    return _join_weights(moments.design, slopes, laws.slopes.gram.means, laws.middle)


def normal_draws(
    moments: NoisyMoments | GroupedMoments, records: int | None, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw the coefficients and the residual variance given noisy second moments.

    Slopes explain at most the target's sum of squares drawn with their matrix; longer ones are shortened. The residual
    variance is normal around that of the matrix, clipped to 1e-6 from below and to the drawn variance of the target
    from above. The intercept follows from drawn means of features and target.

    Args:
        moments: noisy sums of products of a design with a numeric target.
        records: number of records; None if it is private, and then its noisy value is the first sum.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        (coefficients in the design's coordinates, the intercept last, shape (draws, size); residual variances of the
        scaled target, shape (draws,)).
    """
    laws = _find_laws(moments, records, rng)
    gram = laws.slopes.gram
    slopes, picked = laws.slopes.draw(draws, rng, laws.count * laws.target)
    variance = laws.residual[picked] + laws.residual_spread * rng.standard_normal(draws)
    variance = np.clip(variance, LEAST_VARIANCE, laws.target[picked])
    middle = laws.middles[picked] + np.sqrt(variance / laws.count) * rng.standard_normal(draws)
    return _join_weights(moments.design, slopes, gram.drawn_means[picked], middle), variance


@dataclass(frozen=True, eq=False)
class _RegressionLaw:
    """Laws of the slopes, of the target's mean at the features' means, and of the residual variance.

    The axis "matrices" counts the drawn Gram matrices. Units are those in which features and target lie in [-1, 1].

    Args:
        slopes: law of the slopes.
        middle: estimate of the target's mean; 0 without an intercept.
        middles: draws of the target's mean, one for each matrix, shape (matrices,); 0 without an intercept.
        residual: variance of the residual given each matrix, shape (matrices,).
        target: variance of the target (mean square without an intercept) drawn with each matrix, shape (matrices,).
        residual_spread: standard deviation of the residual variance, from noise and sampling.
        count: number of records, at least p + 2.
    """

    slopes: SlopeLaw
    middle: float
    middles: Floats
    residual: Floats
    target: Floats
    residual_spread: float
    count: float


def _find_laws(moments: NoisyMoments | GroupedMoments, records: int | None, rng: np.random.Generator) -> _RegressionLaw:
    """Derive the laws of the slopes, the target's mean and the residual variance from noisy second moments.

    Gram matrices, target means and target sums of squares are drawn here, one of each for every matrix. The number of
    records is floored at p + 2. The target's noisy mean is clipped to [-1, 1] and shrunk to 0 (prior deviation 1/3);
    its sum of squares is drawn from a normal law cut to `[1e-6 n, n]`. Residual variances, floored at 1e-6, and slopes
    are updated in four alternating rounds. Without an intercept nothing is centred.

    Args:
        moments: noisy sums of products of a design with a numeric target.
        records: number of records; None if it is private.
        rng: source of the random matrices, means and sums of squares.
    """
    design = moments.design
    layout = SumLayout(len(design.features), design.intercept, records)
    sums, noise = unpack(moments.sums, layout), _spread_variances(moments.variances, layout)
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
        # The error of the target's mean enters all centred products alike: one draw for each matrix, for slopes and
        # intercept. c = sum u y - n mean(u) mean(y).
        middles = mean + np.sqrt(mean_variance) * rng.standard_normal(len(middles))
        cross = cross - count * middles[:, None] * gram.drawn_means
    spread = np.sqrt(float(noise.square) + (2 * count * mean) ** 2 * mean_variance)
    shares = rng.random((len(gram.axes), 1))
    _, targets = cut_normal(np.array([total]), np.array([spread]), LEAST_VARIANCE * count, count, shares)
    target = targets[:, 0]
    along, noisy = gram.along(cross / gram.scales), gram.variance_along(variance / gram.scales**2)
    residual, zeros = target / count, np.zeros(len(target))
    for _ in range(RESIDUAL_ROUNDS):
        law = slope_law(gram, along, noisy, sampling=residual, unit=target / width, volume=zeros)
        # Residual variance = (c_yy - explained) / n, with the explained sum of squares 2 theta' c - theta' A theta.
        explained = ((2 * along - gram.eigenvalues * law.means) * law.means).sum(axis=1)
        residual = np.clip((target - explained) / count, LEAST_VARIANCE, target / count)
    uncertain = np.sqrt(spread**2 / count**2 + 2 * float(np.average(residual, weights=law.weights)) ** 2 / count)
    return _RegressionLaw(law, mean, middles, residual, target / count, float(uncertain), count)


def _spread_variances(variances: Floats, layout: SumLayout) -> RegressionSums:
    """Arrange the noise variances of the released values in the shapes of `unpack`, without leading axes.

    A sum of squares is half of (released value + number of records), so its variance is a quarter of the sum of theirs.
    The variance of a public number is 0; that of entry (constant, constant) of `gram` is left at 0 even if the number
    is noisy.

    Args:
        variances: noise variance of each released value, shape (entries,).
        layout: order of the released values.
    """
    private = layout.records is None
    records = float(variances[0]) if private else 0.0
    rows, columns = layout.upper
    products = variances[1:] if private else variances
    size = layout.coefficients + 1
    matrix = np.zeros((size, size))
    matrix[rows, columns] = np.where(rows == columns, (products + records) / 4, products)
    matrix = np.maximum(matrix, matrix.T)
    return RegressionSums(np.array(records), matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, -1])


def _join_weights(design: Design, slopes: Floats, means: Floats, middle: Floats | float) -> Floats:
    """Convert slopes and the linear predictor at the features' means to weights of the design.

    The intercept is `(middle - slopes . means) / constant`.

    Args:
        slopes: shape (..., features).
        means: means of the features, shape (..., features).
        middle: linear predictor at these means, shape (...).

    Returns:
        Shape (..., size), the intercept last; the slopes themselves if the design has no intercept.
    """
    if not design.intercept:
        return slopes
    constant = (middle - (slopes * means).sum(axis=-1)) / design.constant
    return np.concatenate([slopes, np.asarray(constant)[..., None]], axis=-1)


# --------------------------------------------------------------------------------------------------------------------
# Posterior of a logistic or Poisson regression from a perturbed minimum and the noisy curvature there.
#
# The release has weights w at which the gradient of the negative log-likelihood is `-(Lambda w + b)`, where b is noise
# of known law, and the noisy curvature H at w. Near w the gradient is `H (w - theta)` plus the sampling error of the
# targets. If the model holds, the covariance of this error is phi H, with phi the response's dispersion: 1 for classes,
# 1 / U for counts in units of their bound U. Hence
#
#     H w + Lambda w = H theta + error,    error of covariance phi H + Cov(b),
#
# which are the equations of `noisy_gram`, for features centred at their means, each record weighted by the slope of its
# mean response. With more than two classes the equations of the classes are coupled: see `many_classes.py`.
# The observation is w, not the left side, so the weight of a drawn H has the Jacobian `det(H + Lambda)` as a factor.
# The predictor at the centre is independent of the slopes.
#
# The law of the features is not needed. The approximation is exact in the limit of small noise and many records,
# whatever that law is. It ignores that H changes between w and theta, except for the predictor at the features' means
# (`_bend_predictor`); this matters if the noise moves w so far that the mean function is no longer linear.
#
# Source: Chaudhuri, Monteleoni and Sarwate (2011) for the release; Kulkarni et al. (ICML 2021) for second moments of
# the features in the same release, here at the released weights; the posterior is derived above.

LARGEST_WEIGHT = 1e60
"""Upper bound on absolute weights, gradients and noise scales: fourth powers of larger numbers overflow."""


def curvature_estimate(trace: GradientTrace) -> Floats:
    """Compute a point estimate of the weights given a perturbed minimum and the noisy curvature there.

    With one output the slopes of least expected squared error of the linear predictor, and the mean predictor corrected
    for the nonlinear mean response, are moved back towards the released weights, by the part of the move that is noise
    (`SlopeLaw.told`): the released weights are regularised, so that no noise makes them much worse than a constant, and
    a step by a curvature that noise hides can. With more than two classes they are posterior means (`many_estimate`).

    Args:
        trace: released minimum with its noisy curvature.

    Returns:
        Weights in the design's coordinates, shape (weights,), class after class, centred over more than two classes.
        The seed of the drawn Gram matrices is fixed, so every call returns the same numbers.

    Raises:
        InputError: as `curvature_draws`.
    """
    rng = np.random.default_rng(ESTIMATE_SEED)
    _require_possible(trace)
    if trace.design.outputs > 1:
        return many_estimate(trace, rng)
    law, middle, _ = _find_slope_law(trace, rng)
    slopes = law.estimate(sums_of(trace, 0).weight, trace.weights[: len(trace.design.features)])
    move = _join_weights(trace.design, slopes, law.gram.means, _bend_predictor(trace, law, middle, 0.5)) - trace.weights
    return trace.weights + law.told(move[: len(slopes)]) * move


def curvature_draws(trace: GradientTrace, draws: int, rng: np.random.Generator) -> Floats:
    """Draw the weights given the minimizer of a perturbed objective and its noisy Hessian.

    Slopes are drawn as in `noisy_gram.py`, then the intercept from drawn means of the features and a drawn predictor at
    these means. With more than two classes all weights are drawn as in `many_classes.py`, and sum to 0 over the
    classes.

    Args:
        trace: released minimizer with its noisy Hessian (the curvature).
        draws: number of draws.
        rng: source of randomness.

    Returns:
        Weights in the design's coordinates, shape (draws, weights), class after class, the intercept of each last.

    Raises:
        InputError: a weight, gradient or noise scale of 1e60 or more: arithmetic would overflow.
    """
    _require_possible(trace)
    if trace.design.outputs > 1:
        return many_draws(trace, draws, rng)
    law, middle, variance = _find_slope_law(trace, rng)
    slopes, picked = law.draw(draws, rng)
    middles: Floats | float = middle + np.sqrt(variance) * rng.standard_normal(draws)
    ratio = weight_ratios(sums_of(trace, 0), draws, rng)
    middles = _bend_predictor(trace, law, middles, rng.random(draws), ratio)
    return _join_weights(trace.design, slopes, law.gram.drawn_means[picked], middles)


def _bend_predictor(
    trace: GradientTrace, law: SlopeLaw, middle: Floats | float, share: Floats | float, ratio: Floats | float = 1.0
) -> Floats:
    """Correct the predictor at the features' means for the nonlinearity of the mean response.

    The linear equations extrapolate from the released weights. The extrapolation is good for the mean response, but not
    for the predictor, which is off for rare classes and small counts; so the mean is extrapolated and mapped back.

    Args:
        trace: release of one output, whose weights are the point of expansion.
        law: law of the slopes, with the features' means.
        middle: predictor by the linear equations, a number or shape (draws,).
        share: least mean response, and least distance from 1 of a probability, as a fraction of the change that one
            record makes to it (its slope over the weight of all records, at most 1/2); a number or shape (draws,).
        ratio: estimated weight of all records over the drawn one, by which the extrapolation is scaled; a number or
            shape (draws,).

    Returns:
        Corrected predictor, in the shape of `middle`; 0 if the design has no intercept.
    """
    design, response = trace.design, response_of(trace.design)
    if not design.intercept:
        return np.zeros(np.shape(middle))
    at = np.array([[trace.weights[-1] * design.constant + law.gram.means @ trace.weights[:-1]]])
    slope = float(response.slopes(response.means(at))[0, 0])
    least = np.atleast_1d(share) * min(max(slope, 1e-12) / sums_of(trace, 0).weight, 0.5)
    moved = (np.atleast_1d(middle)[None] - at) * ratio
    bent = response.bent(at, moved, least)[0]
    return np.asarray(bent if np.ndim(middle) else bent[0])


def _find_slope_law(trace: GradientTrace, rng: np.random.Generator) -> tuple[SlopeLaw, float, float]:
    """Derive the law of the slopes, and the normal law of the predictor at the features' means.

    Args:
        trace: release of one output (two classes or counts) with a curvature.
        rng: source of the drawn Gram matrices.

    Returns:
        (law of the slopes; mean of the predictor at the features' estimated means, by the linear equations and under
        its prior N(0, 5^2); its variance). Mean and variance are 0 if the design has no intercept.
    """
    design, width = trace.design, len(trace.design.features)
    pulled = trace.gradients[-1]  # Lambda w
    noise, dispersion = trace.variance, response_of(design).dispersion
    sums = sums_of(trace, 0)
    gram, weight = gram_draws(sums, rng), sums.weight
    at, force, centre = trace.weights[:width], pulled[:width], gram.means
    if design.intercept:
        # Centring the features subtracts the intercept's equation, times the centre, from the slopes' equations.
        force = force - centre * pulled[-1] / design.constant
    variances = noise * (1 + (centre / design.constant if design.intercept else 0.0 * centre) ** 2)
    along, pulls = gram.along(at * gram.scales), gram.along(force / gram.scales)
    stretched = gram.variance_along(convexity_of(trace) / gram.scales**2)
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
    # Predictor at the centre: weight * predictor + pull has the variance dispersion * weight + noise / constant^2. Its
    # prior N(0, INTERCEPT_DEVIATION^2) adds to the precision.
    predictor = trace.weights[-1] * design.constant + centre @ at
    information = weight**2 / (dispersion * weight + noise / design.constant**2)
    precision = information + INTERCEPT_DEVIATION**-2
    mean = information * (predictor + pulled[-1] / design.constant / weight) / precision
    return law, float(mean), float(1 / precision)


def _require_possible(trace: GradientTrace) -> None:
    """Refuse a weight, gradient or noise scale of at least 1e60 in absolute value, by an `InputError`."""
    if not max(float(np.abs(trace.weights).max()), float(np.abs(trace.gradients).max()), trace.scale) < LARGEST_WEIGHT:
        raise InputError("this release holds weights or noise that no fit makes: it was damaged, or made up")


MIXING_BY_METHOD = {"slices": (1.01, 400), "walk": (1.1, 50)}
"""For each method of chains, the largest R-hat and the least effective sample size (worst weight) that allow
intervals."""


@dataclass(frozen=True, eq=False)
class PublicRecords:
    """Public labelled records, which are not among the private ones.

    Args:
        features: shape `(records, features)`, in the units of the design's bounds; kept as a float64 copy.
        labels: 0 for the target's first state, 1 for its second, shape `(records,)`; kept as an int64 copy.

    Raises:
        InputError: arrays of other shapes, features that are not finite, labels other than 0 and 1, or no records.

    Example:
        >>> import discreet as dc
        >>> dc.designs.PublicRecords([[61.0, 27.5], [34.0, 22.0]], [1, 0]).features.shape
        (2, 2)
    """

    features: Floats
    labels: Ints

    def __post_init__(self) -> None:
        """Replace both arrays by copies (float64, int64), and refuse wrong shapes and values."""
        labels = np.asarray(self.labels)
        object.__setattr__(self, "features", np.array(self.features, np.float64))
        if self.features.ndim != 2 or labels.shape != (len(self.features),) or not len(labels):
            raise InputError("public records are a table of features and one label for each row, at least one")
        if not (np.all(np.isfinite(self.features)) and np.all(np.isin(labels, (0, 1)))):
            raise InputError("public records have finite features, and labels 0 and 1 for the target's two states")
        object.__setattr__(self, "labels", labels.astype(np.int64))


@dataclass(frozen=True, eq=False)
class WeightPosterior(Posterior):
    """Posterior draws of a design's weights.

    Args:
        design: public.
        weights: float64, shape `(draws, design.weights)`, in the design's coordinates. With more than two classes, the
            weights of one class follow those of the class before, and weights sum to 0 over the classes.
        variance: residual variance of the scaled target, shape `(draws,)`; None if it was not drawn, as for any target
            that is not numeric.
        method: "normal", "curvature", "resampling", "slices", "walk" or "draws".
        mixing: mixing of the chains; None if the draws are independent.

    Guarantee:
        No budget is spent: the draws disclose nothing beyond the release.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> design = dc.designs.Design((dc.Variable("age", bounds=(20, 60)),), dc.Variable("income", bounds=(0, 1000)))
        >>> posterior = dc.designs.WeightPosterior(design, np.array([[0.2, 0.1], [0.4, 0.1]]), None, "draws", None)
        >>> posterior.mean().round(3).tolist()
        [0.3, 0.1]
        >>> [row["name"] for row in posterior.rows(level=0.0005)]
        ['age', 'intercept']
    """

    noun: ClassVar[str] = "coefficient"
    design: Design
    weights: Floats
    variance: Floats | None
    method: str
    mixing: Mixing | None

    @property
    def draws(self) -> int:
        """Number of joint draws."""
        return len(self.weights)

    def ess(self) -> float:
        """Return the effective sample size of the worst weight, at most the number of draws.

        It is that number if `mixing` is None.
        """
        return float(self.draws) if self.mixing is None else min(self.mixing.effective, float(self.draws))

    @property
    def slopes(self) -> tuple[Floats, Floats]:
        """Slopes and intercepts of all draws in the units of the columns, as `Design.slopes` returns them.

        A slope is the change of the target (of a count its logarithm, of classes log odds or a class's predictor) for
        one unit of the feature. An intercept is the predictor where all columns are 0, also of a design without one.

        Returns:
            Shapes `(draws, features)` and `(draws,)`; with more than two classes `(draws, classes, features)` and
            `(draws, classes)`.
        """
        many = self.design.outputs > 1
        shape = (len(self.weights), self.design.outputs, self.design.size) if many else self.weights.shape
        return self.design.slopes(self.weights.reshape(shape))

    def mean(self) -> Floats:
        """Compute posterior means of the weights over the draws.

        Returns:
            Shape `(weights,)`, in the design's coordinates.
        """
        return np.asarray(self.weights.mean(axis=0))

    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute equal-tailed intervals of the weights.

        Args:
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), shape `(weights,)` each, in the design's coordinates.

        Raises:
            InputError: a level outside (0, 1), a single draw, a level so close to 1 that less than one draw lies beyond
                each end, or chains that have not mixed (`MIXING_BY_METHOD`).
        """
        return self.tails(self.weights, level)

    def tails(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """Compute equal-tailed intervals of a function of the weights, from its value in each draw.

        Args:
            values: the function's values, shape `(draws, ...)`.
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), shape `(...)` each: the quantiles (1 - level) / 2 and (1 + level) / 2 over the draws.

        Raises:
            InputError: as `interval`. Chains ("slices", "walk") that have not mixed have a mean, but no reliable
                spread.
        """
        if self.mixing is not None and self.method in MIXING_BY_METHOD:
            advice = "release with more epsilon, tighter bounds or fewer features"
            require_met(self.mixing, *MIXING_BY_METHOD[self.method], advice)
        return tails(values, level)

    def expected(self, features: Floats, *, level: float = DEFAULT_LEVEL) -> ExpectedValues:
        """Compute the expected target of records, or the probabilities of its classes, with intervals.

        Args:
            features: float64, shape (records, features), in the design's order and in the units of the columns.
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            Means over the draws and equal-tailed intervals of the expectation, shape (records, outputs), with the names
            of the outputs; they are not predictive intervals of a record.

        Raises:
            InputError: a posterior of a direction, features of another shape or that are not finite, or as `interval`.
        """
        return expected_values(self, features, level=level)

    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[dict[str, Any], ...]:
        """List the effect of each column with its interval, in the units of the columns.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            `{"name", "mean", "lower", "upper"}` for each feature, then, if the design has one, for the "intercept", the
            predictor where all columns are 0. A slope is the change of the target, of the log odds of the second class,
            or of the logarithm of a count, per unit of the feature; for a direction it is the vector's coordinate in
            the unit of the column. With more than two classes there is a row for each class and name, class after
            class, with the key `"class"` first; a slope is then the change of the class's predictor, the log
            probability up to a term that all classes share.

        Raises:
            InputError: as `interval`.
        """
        if self.design.target is None:
            drawn = self.design.vectors(self.weights)
        else:
            slopes, intercepts = self.slopes
            drawn = np.concatenate([slopes, intercepts[..., None]], axis=-1) if self.design.intercept else slopes
        names = (*self.design.names, *(["intercept"] if self.design.intercept else []))
        states = self.design.target.states if self.design.target is not None and self.design.outputs > 1 else (None,)
        heads = [({} if state is None else {"class": state}) | {"name": name} for state in states for name in names]
        return name_rows(heads, drawn.reshape(len(drawn), -1), self.tails, level)


def require_met(mixing: Mixing, ratio: float, least: int, advice: str) -> None:
    """Refuse intervals from chains that have not mixed; pass in silence if they have.

    Args:
        mixing: mixing of the chains.
        ratio: largest R-hat allowed.
        least: least effective sample size allowed.
        advice: end of the error message: what the user can do.

    Raises:
        InputError: R-hat above `ratio`, an effective sample size below `least`, or NaN in either.

    Example:
        >>> require_met(Mixing(4, 100, 80.0, "weight 0", 1.02), 1.1, 50, "ask for more draws")
    """
    if not (mixing.r_hat <= ratio and mixing.effective >= least):
        raise InputError(
            f"no intervals: the chains of this posterior have not met (R-hat {mixing.r_hat:.3f}, at most {ratio}; "
            f"{mixing.effective:.0f} independent draws of {least}); {advice}"
        )


# ---------------------------------------------------------------------------------------------------------- the readers


def read_moments(release: Release, *, draws: int, rng: np.random.Generator) -> WeightPosterior:
    """Draw the posterior of a linear regression from noisy moments, by the normal approximation (`normal_draws`).

    Args:
        release: noisy moments, also grouped ones, of a design with a numeric target; its prior deviation is not used.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        The posterior with method "normal", residual variances and independent draws.
    """
    payload = cast("NoisyMoments | GroupedMoments", release.unit_payload)
    with under_way("drawing the posterior"):
        drawn, variance = normal_draws(payload, release.records, draws, rng)
    return WeightPosterior(design_of(release), drawn, variance, "normal", None)


def resample(release: Release, *, draws: int, rng: np.random.Generator) -> WeightPosterior:
    """Draw weights and residual variance of a linear regression from its noisy moments, by importance resampling.

    The law drawn from is the exact posterior if all sums have cube noise of the same scale (density proportional to
    `exp(-max |noise| / scale)`, the K-norm mechanism's noise in the maximum norm).

    Args:
        release: noisy moments of a design with a numeric target; the prior standard deviation of each coefficient is
            that of the release's prior.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        The posterior with method "resampling": weights, shape `(draws, weights)`, and residual variances, shape
        `(draws,)`.

    Raises:
        InputError: a release of another kind (grouped moments, too), a public number of records that is not above that
            of coefficients, or noise so large that resampling would need too many proposals.
    """
    payload = release.payload_as(NoisyMoments)
    layout = SumLayout(len(design_of(release).features), design_of(release).intercept, release.records)
    noise, deviation = payload.sums_scale, normal_of(release).deviation
    with under_way("drawing the posterior"):
        drawn, variance = moment_draws(
            payload.sums, layout, scale=noise, prior_deviation=deviation, draws=draws, rng=rng
        )
    return WeightPosterior(design_of(release), drawn, variance, "resampling", None)


def read_gradients(
    release: Release,
    *,
    draws: int,
    rng: np.random.Generator,
    covariates: Law | None = None,
    public: PublicRecords | None = None,
) -> WeightPosterior:
    """Draw the posterior of a classification or count regression from noisy gradients.

    Without `covariates` the curvature in the release is used (method "curvature"), and the release's prior is not. With
    them the curvature is ignored, and weights of two classes are drawn given the gradients, a law of the features and
    the release's normal prior, by importance sampling ("resampling") or, if that fails, slice sampling ("slices").

    Args:
        release: noisy gradients, or a perturbed minimum.
        draws: number of draws.
        rng: source of randomness.
        covariates: law of the features, for two classes; needed if the release has no curvature or `public` is passed.
        public: labelled records, for two classes, whose likelihood is multiplied in.

    Returns:
        The posterior, without residual variances; `mixing` is that of the chains for "slices", else None.

    Raises:
        InputError: a release of another kind; no curvature, or `public`, and no law of the features; a law or public
            records that do not match the design (`require_known`); with a law Gaussian noise or no number of records
            (`gradients_of`); numbers that would overflow (`curvature_draws`); or chains that have not mixed.
    """
    design, trace = design_of(release), release.payload_as(GradientTrace)
    if covariates is None:
        if trace.curvature is not None and public is None:
            with under_way("drawing the posterior"):
                return WeightPosterior(design, curvature_draws(trace, draws, rng), None, "curvature", None)
        if design.predicts != "class" or trace.normal:
            raise InputError("this release has no curvature, and without it no posterior: fit with curvature=True")
        raise InputError(
            "a posterior given gradients alone needs the law of the features: covariates=released_covariates(...), "
            "PublicRows(...), or uniform_law(design) if they are known to fill their bounds evenly; a release of "
            "objective_perturbation with its curvature needs none, but with public records"
        )
    require_known(design, covariates, public)
    known = None if public is None else LabelledPoints(design.scaled(public.features), public.labels)
    gradients, deviation = gradients_of(release), normal_of(release).deviation
    with under_way("drawing the posterior"):
        drawn = logistic_draws(gradients, covariates, prior_deviation=deviation, public=known, draws=draws, rng=rng)
    return WeightPosterior(design, drawn.weights, None, drawn.method, drawn.mixing)


def estimate_moments(release: Release) -> Floats:
    """Compute the coefficients of `normal_estimate` from a release of noisy moments, shape (size,), the intercept last.

    The number of records is the release's public one, or the first of the noisy sums if it is private.
    """
    return normal_estimate(cast("NoisyMoments | GroupedMoments", release.unit_payload), release.records)


def estimate_gradients(release: Release) -> Floats:
    """Return a point estimate of the weights of a classification or count regression, shape (weights,).

    It is `curvature_estimate` if the release has a curvature and its design no groups; else the released weights,
    centred to sum 0 over more than two classes.

    Raises:
        InputError: a release of another kind, or as `curvature_estimate`.
    """
    trace = release.payload_as(GradientTrace)
    if trace.curvature is not None and not design_of(release).groups:
        return curvature_estimate(trace)
    return centred(trace.weights, trace.design.outputs)


def require_known(design: Design, covariates: Law | None, public: PublicRecords | None) -> None:
    """Refuse a law of covariates or public records that do not match a design.

    Args:
        design: the release's design.
        covariates: law of the features, as for `read`; None is accepted.
        public: labelled records, as for `read`; None is accepted. If both are None, any design passes.

    Raises:
        InputError: a design of another target than two classes, an argument of another type, another number of
            coordinates or features, or, with an intercept, a constant feature that differs from the design's by more
            than 1/4096 (of `WeightedPoints` in any point).
    """
    if design.predicts != "class" and not (covariates is None and public is None):
        raise InputError("a law of covariates and public records are for a regression of two classes")
    if covariates is not None:
        if not isinstance(covariates, Law):
            raise InputError("a law of covariates is one of those of designs/readers/laws.py, such as UniformSphere")
        if covariates.size != design.size:
            raise InputError(f"the law of covariates has {covariates.size} coordinates, the design {design.size}")
        constant = covariates.points[:, -1] if isinstance(covariates, WeightedPoints) else covariates.constant or 0.0
        if design.intercept and np.any(np.abs(np.asarray(constant) - design.constant) > 1 / GRID_STEPS):
            raise InputError(f"the design's constant feature is {design.constant}, the law of covariates has another")
    if public is not None:
        if not isinstance(public, PublicRecords):
            raise InputError("public records are PublicRecords(features, labels)")
        if public.features.shape[1] != len(design.features):
            raise InputError(f"public records need the design's {len(design.features)} features")


def gradients_of(release: Release) -> NoisyGradients:
    """Extract the noisy gradients of a release, for samplers other than `read`.

    Args:
        release: noisy gradients of two classes, or a perturbed minimum.

    Returns:
        The gradients with the law of their noise (norm and scale) and the number of records with its noise scale, None
        if public.

    Raises:
        InputError: a release of something else, a target other than two classes, Gaussian noise, or no number of
            records.
    """
    payload = release.payload_as(GradientTrace)
    if payload.design.predicts != "class" or payload.normal:
        raise InputError("this release holds no gradients of two classes with K-norm noise")
    records, scale = read_total(release, payload.total)
    return NoisyGradients(payload.points, payload.gradients, payload.scale, design_of(release).shape, records, scale)


def read_total(release: Release, total: NoisyTotal | None) -> tuple[int, float | None]:
    """Return the number of records, public or noisy, and the scale of its noise.

    Args:
        release: release of the records; its number is read only if `total` is None.
        total: noisy number; None if the number is public.

    Returns:
        (number, which may be negative if it is noisy; noise scale, unit: records); the scale is None if the number is
        public.

    Raises:
        InputError: `total` is None and the release has no public number of records.
    """
    if total is not None:
        return total.value, total.scale
    if release.records is None:
        raise InputError("the release has no number of records, neither public nor with noise")
    return release.records, None
