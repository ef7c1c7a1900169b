"""Posteriors of releases over a design: draws of the weights that count sampling error and privacy noise.

The readers of regressions, classifications and directions, which `read` knows (`discreet.posterior.read`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from discreet.errors import InputError
from discreet.model.design import GRID_STEPS, Design
from discreet.model.response import response_of
from discreet.posterior.design.laws import Law, WeightedPoints
from discreet.posterior.design.linear import RegressionSums, SumLayout, moment_draws, unpack
from discreet.posterior.design.logistic import LabelledPoints, NoisyGradients, logistic_draws
from discreet.posterior.design.many_classes import (
    INTERCEPT_DEVIATION,
    PREDICTOR_VARIANCE,
    centred,
    convexity_of,
    many_draws,
    many_estimate,
    sums_of,
    weight_ratios,
)
from discreet.posterior.design.noisy_gram import ESTIMATE_SEED, NoisySums, SlopeLaw, cut_normal, gram_draws, slope_law
from discreet.posterior.joint_draws import Mixing
from discreet.posterior.protocol import Posterior, name_rows, tails
from discreet.releases.kinds.gradient_trace import GradientTrace
from discreet.releases.kinds.noisy_sums import GroupedMoments, NoisyMoments, NoisyTotal
from discreet.releases.release import Release
from discreet.util.arrays import Floats, Ints
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.progress import under_way

# --------------------------------------------------------------------------------------------------------------------
# Posterior of a linear regression from noisy second moments, by the normal approximation of `noisy_gram`; in a moment.
#
# Features and target are centred at their noisy means; what remains are the equations `c = A theta + error` with A the
# centred sums of products of the features and c those with the target. The residual variance is what the target's noisy
# sum of squares leaves when theta explains its part. `linear` has the exact law of cube noise of one scale, which takes
# minutes where the noise is large.

TARGET_MEAN_DEVIATION = 1 / 3
"""Deviation of the target's mean a priori, its bounds being -1 and 1."""
LEAST_VARIANCE = 1e-6
"""Least variance of a residual, and of the target, in units in which its bounds are -1 and 1."""
RESIDUAL_ROUNDS = 4
"""Rounds of updating the residual variance and the slopes given it."""


def normal_estimate(moments: NoisyMoments | GroupedMoments, records: int | None) -> Floats:
    """Estimate the coefficients with the least expected squared prediction error.

    Args:
        moments: with a numeric target.
        records: their number where it is public.

    Returns:
        Shape (size,), in the design's coordinates; the same at every call.
    """
    laws = _find_laws(moments, records, np.random.default_rng(ESTIMATE_SEED))
    most = laws.count * float(np.average(laws.target, weights=laws.slopes.weights))
    slopes = laws.slopes.estimate(laws.count, np.zeros(len(moments.design.features)), most)
    return _join_weights(moments.design, slopes, laws.slopes.gram.means, laws.middle)


def normal_draws(
    moments: NoisyMoments | GroupedMoments, records: int | None, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw the coefficients and the residual variance.

    Args:
        moments: with a numeric target.
        records: their number where it is public.
        draws: how many.
        rng: source of randomness.

    Returns:
        (weights, shape (draws, size), in the design's coordinates; variances of the scaled target, shape (draws,)).
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


def _find_laws(moments: NoisyMoments | GroupedMoments, records: int | None, rng: np.random.Generator) -> _RegressionLaw:
    """Find the laws of the slopes, the target's mean and the residual, from a release."""
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
        # Explained sum of squares, 2 theta' c - theta' A theta, along the axes of A.
        explained = ((2 * along - gram.eigenvalues * law.means) * law.means).sum(axis=1)
        residual = np.clip((target - explained) / count, LEAST_VARIANCE, target / count)
    uncertain = np.sqrt(spread**2 / count**2 + 2 * float(np.average(residual, weights=law.weights)) ** 2 / count)
    return _RegressionLaw(law, mean, middles, residual, target / count, float(uncertain), count)


def _spread_variances(variances: Floats, layout: SumLayout) -> RegressionSums:
    """Spread noise variances over the sums of `unpack`; half of a square's comes from the number of records."""
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
    """Convert slopes and the target's mean at the features' means to weights of the design's coordinates."""
    if not design.intercept:
        return slopes
    constant = (middle - (slopes * means).sum(axis=-1)) / design.constant
    return np.concatenate([slopes, np.asarray(constant)[..., None]], axis=-1)


# --------------------------------------------------------------------------------------------------------------------
# Posterior of a logistic or Poisson regression from a perturbed minimum and the noisy curvature there.
#
# Released are weights w at which the gradient of the negative log-likelihood is `-(Lambda w + b)`, b being noise of
# known law, and the curvature H at w with noise. Near w the gradient is `H (w - theta)` plus the sampling error of the
# targets, whose covariance is phi H where the model holds (phi is the response's dispersion: 1 for classes, and 1 / U
# for counts in units of their bound U); hence
#
#     H w + Lambda w = H theta + error,    error of covariance phi H + Cov(b),
#
# which are the equations of `noisy_gram`, for features centred at their means under the slopes of the records' means.
# More than two classes have equations that are tied together: see `many_classes.py`.
# The observation is w, not the left side, so that a drawn H counts by `det(H + Lambda)`, too. The intercept at the
# centre is known apart from the slopes.
#
# No law of the features is asked. That is exact in the limit of small noise and many records, whatever that law is.
# What is left out: how H changes between w and theta, but for the predictor at the features' means
# (`_bend_predictor`), which matters where the noise moves w so far that the curves bend.
#
# Source: Chaudhuri, Monteleoni and Sarwate (2011) for the release; Kulkarni et al. (ICML 2021) for second moments of
# the features in the same release, here at the weights where they are needed; the posterior is derived above.

LARGEST_WEIGHT = 1e60
"""Largest absolute weight and noise: fourth powers of larger ones overflow."""


def curvature_estimate(trace: GradientTrace) -> Floats:
    """Estimate the weights with the least expected squared error of linear predictors.

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
    return _join_weights(trace.design, slopes, law.gram.means, _bend_predictor(trace, law, middle, 0.5))


def curvature_draws(trace: GradientTrace, draws: int, rng: np.random.Generator) -> Floats:
    """Draw the weights.

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
    return _join_weights(trace.design, slopes, means, _bend_predictor(trace, law, middles, rng.random(draws), ratio))


def _bend_predictor(
    trace: GradientTrace, law: SlopeLaw, middle: Floats | float, share: Floats | float, ratio: Floats | float = 1.0
) -> Floats:
    """Correct the predictor at the features' means for the curvature of the mean function.

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
    bent = response.bent(at, moved, least)[0]
    return np.asarray(bent if np.ndim(middle) else bent[0])


def _find_slope_law(trace: GradientTrace, rng: np.random.Generator) -> tuple[SlopeLaw, float, float]:
    """Find the law of the slopes, and mean and variance of the linear predictor at the features' means."""
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
    predictor = trace.weights[-1] * design.constant + centre @ at
    information = weight**2 / (dispersion * weight + noise / design.constant**2)
    precision = information + INTERCEPT_DEVIATION**-2
    mean = information * (predictor + pulled[-1] / design.constant / weight) / precision
    return law, float(mean), float(1 / precision)


def _require_possible(trace: GradientTrace) -> None:
    """Refuse numbers with which arithmetic would overflow."""
    if not max(float(np.abs(trace.weights).max()), float(np.abs(trace.gradients).max()), trace.scale) < LARGEST_WEIGHT:
        raise InputError("this release holds weights or noise that no fit makes: it was damaged, or made up")


MIXING_BY_METHOD = {"slices": (1.01, 400), "walk": (1.1, 50)}
"""Largest R-hat and least effective sample size of the worst quantity, for intervals from chains, by method."""


@dataclass(frozen=True, eq=False)
class PublicRecords:
    """Public labelled records, which are not among the private ones.

    Args:
        features: float64, shape `(records, features)`, in the units of the design's bounds.
        labels: 0 or 1 for the target's first and second state, shape `(records,)`.

    Raises:
        InputError: other shapes, or other labels.

    Example:
        >>> import discreet as dc
        >>> dc.designs.PublicRecords([[61.0, 27.5], [34.0, 22.0]], [1, 0]).features.shape
        (2, 2)
    """

    features: Floats
    labels: Ints

    def __post_init__(self) -> None:
        """Refuse what is no table of records."""
        object.__setattr__(self, "features", np.array(self.features, np.float64))
        object.__setattr__(self, "labels", np.array(self.labels, np.int64))
        if self.features.ndim != 2 or self.labels.shape != (len(self.features),) or not len(self.labels):
            raise InputError("public records are a table of features and one label for each row, at least one")
        if not (np.all(np.isfinite(self.features)) and np.all((self.labels == 0) | (self.labels == 1))):
            raise InputError("public records have finite features, and labels 0 and 1 for the target's two states")


@dataclass(frozen=True, eq=False)
class WeightPosterior(Posterior):
    """Draws of a design's weights.

    Args:
        design: public.
        weights: float64, shape `(draws, design.weights)`, in the design's coordinates; of more than two classes those
            of one after the other, which sum to 0 over them.
        variance: of the scaled target around its mean, shape `(draws,)`; None where there is no numeric target.
        method: "normal", "curvature", "resampling", "slices", "walk" or "draws".
        mixing: of the chains; None where the draws are independent.

    Raises:
        Nothing: `read` makes these.

    Guarantee:
        None spent: draws say nothing that the release does not.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> design = dc.Design((dc.Variable("age", bounds=(20, 60)),), dc.Variable("income", bounds=(0, 1000)))
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
        """Effective sample size of the worst weight."""
        return float(self.draws) if self.mixing is None else min(self.mixing.effective, float(self.draws))

    @property
    def slopes(self) -> tuple[Floats, Floats]:
        """Slopes and intercepts in the units of the columns, as `Design.slopes` has them.

        Returns:
            Shapes `(draws, features)` and `(draws,)`; of more than two classes `(draws, classes, features)` and
            `(draws, classes)`.
        """
        many = self.design.outputs > 1
        shape = (len(self.weights), self.design.outputs, self.design.size) if many else self.weights.shape
        return self.design.slopes(self.weights.reshape(shape))

    def mean(self) -> Floats:
        """Posterior means of the weights.

        Returns:
            Shape `(weights,)`, in the design's coordinates.
        """
        return np.asarray(self.weights.mean(axis=0))

    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Equal-tailed intervals of the weights.

        Args:
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), shape `(size,)` each, in the design's coordinates.

        Raises:
            InputError: a level outside (0, 1), a single draw, or chains that have not met.
        """
        return self.tails(self.weights, level)

    def tails(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """Compute equal-tailed intervals of a quantity that is computed from each draw of the weights.

        Args:
            values: shape `(draws, ...)`.
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), shape `(...)` each.

        Raises:
            InputError: as `interval`. Draws of chains that have not met have a mean, but their spread says nothing.
        """
        if self.mixing is not None and self.method in MIXING_BY_METHOD:
            advice = "release with more epsilon, tighter bounds or fewer features"
            require_met(self.mixing, *MIXING_BY_METHOD[self.method], advice)
        return tails(values, level)

    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[dict[str, Any], ...]:
        """List the effect of each column with its interval, in the units of the columns.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            For each feature, and then the intercept, `{"name", "mean", "lower", "upper"}`: change of the target, of
            the log odds of the second class, or of a count's logarithm, for one unit of the feature; of a direction,
            the vector's coordinate. Of more than two classes for each of them, `"class"` beside the name.

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
    """Refuse intervals from chains that have not mixed.

    Args:
        mixing: of the chains.
        ratio: largest R-hat that is allowed.
        least: fewest effective draws.
        advice: what to do otherwise.

    Raises:
        InputError: chains that have not met.

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
    """Read noisy moments by a normal approximation."""
    payload = cast("NoisyMoments | GroupedMoments", release.unit_payload)
    with under_way("drawing the posterior"):
        drawn, variance = normal_draws(payload, release.records, draws, rng)
    return WeightPosterior(release.design, drawn, variance, "normal", None)


def resample(release: Release, *, draws: int, rng: np.random.Generator) -> WeightPosterior:
    """Read noisy moments of one noise scale by their exact law."""
    payload = release.payload_as(NoisyMoments)
    layout = SumLayout(len(release.design.features), release.design.intercept, release.records)
    noise, deviation = payload.sums_scale, release.normal.deviation
    with under_way("drawing the posterior"):
        drawn, variance = moment_draws(
            payload.sums, layout, scale=noise, prior_deviation=deviation, draws=draws, rng=rng
        )
    return WeightPosterior(release.design, drawn, variance, "resampling", None)


def read_gradients(
    release: Release,
    *,
    draws: int,
    rng: np.random.Generator,
    covariates: Law | None = None,
    public: PublicRecords | None = None,
) -> WeightPosterior:
    """Read noisy gradients: by their curvature, or by the law of the features."""
    design, trace = release.design, release.payload_as(GradientTrace)
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
    gradients, deviation = gradients_of(release), release.normal.deviation
    with under_way("drawing the posterior"):
        drawn = logistic_draws(gradients, covariates, prior_deviation=deviation, public=known, draws=draws, rng=rng)
    return WeightPosterior(design, drawn.weights, None, drawn.method, drawn.mixing)


def estimate_moments(release: Release) -> Floats:
    """Estimate posterior means given noisy moments."""
    return normal_estimate(cast("NoisyMoments | GroupedMoments", release.unit_payload), release.records)


def estimate_gradients(release: Release) -> Floats:
    """Estimate posterior means given gradients with a curvature, and few weights; else return the released weights."""
    trace = release.payload_as(GradientTrace)
    if trace.curvature is not None and not release.design.groups:
        return curvature_estimate(trace)
    return centred(trace.weights, trace.design.outputs)


def require_known(design: Design, covariates: Law | None, public: PublicRecords | None) -> None:
    """Refuse a law of covariates or public records that do not match a design.

    Args:
        design: of a classification.
        covariates, public: as for `read`.

    Raises:
        InputError: something else than a law or public records, another number of features, or another constant.
    """
    if design.predicts != "class" and not (covariates is None and public is None):
        raise InputError("a law of covariates and public records are for a regression of two classes")
    if covariates is not None:
        if not isinstance(covariates, Law):
            raise InputError("a law of covariates is one of those of posterior/design/laws.py, such as UniformSphere")
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
    """Extract the noisy gradients of a release, for other samplers than `read`.

    Args:
        release: of noisy gradients, or of a perturbed objective.

    Returns:
        What was told, with the noise's law.

    Raises:
        InputError: a release of something else, or one without a number of records.
    """
    payload = release.payload_as(GradientTrace)
    if payload.design.predicts != "class" or payload.normal:
        raise InputError("this release holds no gradients of two classes with K-norm noise")
    records, scale = read_total(release, payload.total)
    return NoisyGradients(payload.points, payload.gradients, payload.scale, release.design.shape, records, scale)


def read_total(release: Release, total: NoisyTotal | None) -> tuple[int, float | None]:
    """Read the number of records, public or noisy.

    Args:
        release: whose records they are.
        total: with noise; None where it is public.

    Returns:
        The number, and the scale of its noise; None where there is none.

    Raises:
        InputError: neither.
    """
    if total is not None:
        return total.value, total.scale
    if release.records is None:
        raise InputError("the release has no number of records, neither public nor with noise")
    return release.records, None
