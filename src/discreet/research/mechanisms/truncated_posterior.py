"""Posterior sampling for linear regression: draws of weights under a prior on a ball (Zhang et al., Figure 2).

The guarantee comes from the ball alone: inside it the likelihoods of two records differ by a bounded factor. Published
experiments use a ball of ten prior deviations, whose guarantee is weak. Here the ball is an argument, and the
likelihood is tempered to the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import erfcx, log_ndtr, ndtri

from discreet.designs.design import GRID_STEPS, Design, Normal
from discreet.designs.mechanisms.design_mechanism import design_mechanism
from discreet.designs.mechanisms.record_number import noisy_total, total_noise
from discreet.designs.records.moments import Moments, sum_moments
from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, deviation_for
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.research.kinds.weight_draws import Truncation, WeightDraws
from discreet.util.arrays import Floats

# --------------------------------------------------------------------------------------------------------------------
# Normal law truncated to a ball: exact draws by rejection, and the privacy loss of one draw from it as a posterior.
#
# The posterior of regression weights under a normal prior truncated to `||w|| <= R` has the density
# `exp(-w'Aw/2 + b'w)` on that ball. One draw from it is private because the ball bounds every record's likelihood. That
# proof needs draws from exactly this law, which a Markov chain does not give. Here they come from rejection sampling,
# with proposals whose acceptance rate does not fall when the unconstrained mean is far outside the ball.
#
# For every alpha >= 0 and every unit vector e the ball lies in the half-space `e'w <= R`, and on it
# `exp(alpha (||w||^2 - R^2) / 2) <= 1`. So a normal law of precision `A + alpha I` and mean `(A + alpha I)^-1 b`,
# truncated to that half-space, is an envelope: a proposal in the ball is accepted with that probability. The acceptance
# rate is `constant / exp(F(alpha))` with
#
#     F(alpha) = alpha R^2 / 2 + log of the integral of exp(-w'(A + alpha I)w/2 + b'w) over the half-space,
#
# which is convex and has a closed form: the best alpha is found by a search over one number. e points to the mode in
# the ball. Without the half-space (e.g. with E||w||^2 = R^2, the best alpha then) the acceptance rate falls like the
# inverse root of the multiplier of the constraint; with it, a mean at any distance costs about e (d + 1) / 2 tries.
#
# Nothing here reads records. Sources of randomness are arguments, so a mechanism can use its own; arithmetic is in
# floating point, which a mechanism that releases a draw must account for.

Source = Callable[[int], Floats]
"""Function from a number to that many independent variates."""

LEAST_BATCH = 1024
"""Fewest proposals in a batch."""
LARGEST_BATCH = 65536
"""Most proposals in a batch."""
SYMMETRY_TOLERANCE = 1e-9
"""Asymmetry, and negative eigenvalues, relative to the largest entry, that count as rounding."""
SEARCH_NATS = 45.0
"""Width of the search for alpha below its upper bound, nats; any alpha is exact, some are slow."""


# ------------------------------------------------------------------------------------------------ draws


def truncated_normal(
    precision: npt.ArrayLike,
    shift: npt.ArrayLike,
    radius: float,
    draws: int,
    *,
    normals: Source,
    uniforms: Source,
) -> Floats:
    """Draw `w` with density `exp(-w'Aw/2 + b'w)` on the ball `||w||_2 <= radius`, exactly and independently.

    Args:
        precision: A, shape `(d, d)`, symmetric, positive definite or singular.
        shift: b = A times the unconstrained mean, shape `(d,)`.
        radius: R > 0, in the unit of w.
        draws: number of draws.
        normals: from a number to that many independent standard normal variates, shape `(number,)`.
        uniforms: the same for uniform variates in [0, 1).

    Returns:
        Shape `(draws, d)`. The number of tries has no limit, as a limit would change the law; for d up to 50 their mean
        was below 3 (d + 1) in all experiments.

    Raises:
        InputError: shapes that do not fit, entries that are not finite, a matrix that is not symmetric or that has a
            negative eigenvalue, a radius that is not positive, a negative number of draws.

    Source:
        Robert (1995) for the tail of one normal variate; the envelope and its optimal tilt are derived above.

    Example:
        >>> rng = np.random.default_rng(1)
        >>> w = truncated_normal([[1, 0], [0, 1]], [100, 0], 1, 500, normals=rng.standard_normal, uniforms=rng.random)
        >>> bool(np.linalg.norm(w, axis=1).max() <= 1), bool(w[:, 0].mean() > 0.97)
        (True, True)
    """
    if draws < 0:
        raise InputError("the number of draws must not be negative")
    envelope = _find_envelope(*_check_law(precision, shift, radius))
    batches: list[Floats] = []
    missing, tried, accepted_number = draws, 0, 0
    while missing > 0:
        rate = max(accepted_number, 1) / max(tried, 1)
        size = int(min(max(1.2 * missing / rate if tried else 2 * missing, LEAST_BATCH), LARGEST_BATCH))
        points, log_chance = _propose(envelope, size, normals, uniforms)
        # log1p(-u) is the logarithm of a uniform variate in (0, 1].
        accepted = points[np.log1p(-uniforms(len(points))) < log_chance]
        batches.append(accepted[:missing])
        missing, tried, accepted_number = missing - len(batches[-1]), tried + size, accepted_number + len(accepted)
    return np.concatenate([np.empty((0, len(envelope.mode.direction))), *batches])


def _check_law(precision: npt.ArrayLike, shift: npt.ArrayLike, radius: float) -> tuple[Floats, Floats, float]:
    """Convert the arguments to arrays; refuse those that define no law on a ball."""
    matrix, vector = np.asarray(precision, np.float64), np.asarray(shift, np.float64)
    if vector.ndim != 1 or vector.size == 0 or matrix.shape != (vector.size, vector.size):
        raise InputError(
            f"a precision of shape (d, d) and a shift of shape (d,) are needed: {matrix.shape}, {vector.shape}"
        )
    if not (np.isfinite(matrix).all() and np.isfinite(vector).all()):
        raise InputError("the precision and the shift must be finite")
    if np.abs(matrix - matrix.T).max() > SYMMETRY_TOLERANCE * np.abs(matrix).max():
        raise InputError("the precision must be symmetric")
    if not 0 < radius < math.inf:
        raise InputError("the radius must be positive and finite")
    return matrix, vector, float(radius)


# ------------------------------------------------------------------------------------------------ the envelope


@dataclass(frozen=True, eq=False)
class _Mode:
    """Mode of the law in the ball, in the eigenvectors of the precision (columns of `axes`).

    `eigenvalues` are those of A, `direction` has length 1, `norm` is the mode's length, `gap` is R - norm, `multiplier`
    is the constraint's: 0 if the mode is inside the ball, else `A mode + multiplier mode = b`.
    """

    axes: Floats
    eigenvalues: Floats
    direction: Floats
    norm: float
    gap: float
    multiplier: float

    def variance(self, alpha: float) -> Floats:
        """Compute the variances of the envelope along the axes, without the half-space."""
        variances: Floats = 1 / (self.eigenvalues + alpha)
        return variances

    def along(self, alpha: float) -> tuple[float, float]:
        """Compute the envelope's standard deviation along the direction, and its bound in standard deviations."""
        variance = float(self.direction**2 @ self.variance(alpha))
        mean = (self.multiplier - alpha) * self.norm * variance
        return math.sqrt(variance), (self.gap - mean) / math.sqrt(variance)

    def cost(self, alpha: float) -> float:
        """Compute F(alpha) up to a constant, relative to the mode to avoid cancellation."""
        spread, bound = self.along(alpha)
        value = (alpha * self.gap * (2 * self.norm + self.gap) + float(np.log(self.variance(alpha)).sum())) / 2
        if bound < 0:  # the mode is on the boundary, and the square in the normal's tail is that of the shift
            return value + math.log(erfcx(-bound / math.sqrt(2)))
        return value + ((self.multiplier - alpha) * self.norm * spread) ** 2 / 2 + float(log_ndtr(bound)) + math.log(2)


@dataclass(frozen=True, eq=False)
class _Envelope:
    """Normal law of precision A + alpha I about the mode, truncated to the half-space."""

    mode: _Mode
    alpha: float


def _find_envelope(precision: Floats, shift: Floats, radius: float) -> _Envelope:
    """Find the envelope with the highest acceptance rate."""
    mode = _find_mode(precision, shift, radius)
    # With this alpha E||w||^2 <= R^2, so the optimum is below.
    top = math.log(np.linalg.norm(shift) / radius + len(shift) / radius**2)
    # The full name loads scipy.optimize here, and not at import.
    best = scipy.optimize.minimize_scalar(
        lambda x: mode.cost(math.exp(x)), bounds=(top - SEARCH_NATS, top), method="bounded"
    )
    alpha = math.exp(best.x)
    eigenvalues = mode.eigenvalues
    if eigenvalues[0] > np.finfo(float).eps * eigenvalues[-1] and mode.cost(0.0) <= mode.cost(alpha):
        alpha = 0.0
    return _Envelope(mode, alpha)


def _find_mode(precision: Floats, shift: Floats, radius: float) -> _Mode:
    """Find the point of the ball where the density is highest."""
    eigenvalues, axes = np.linalg.eigh((precision + precision.T) / 2)
    if eigenvalues[0] < -SYMMETRY_TOLERANCE * np.abs(precision).max():
        raise InputError("the precision must not have a negative eigenvalue")
    eigenvalues, length = np.maximum(eigenvalues, 0.0), float(np.linalg.norm(shift))
    if length <= np.finfo(float).tiny * max(1.0, radius):
        return _Mode(axes, eigenvalues, np.eye(len(shift))[0], 0.0, radius, 0.0)
    # In units of the multiplier at which the mode is inside the ball for any A.
    unit, highest = axes.T @ shift / length, length / radius

    def point(x: float) -> Floats:
        """Compute (A + highest exp(x) I)^-1 b, divided by the radius."""
        scaled: Floats = unit / (eigenvalues / highest + math.exp(x))
        return scaled

    norm = float(np.linalg.norm(point(-SEARCH_NATS)))
    if norm < 1:
        return _Mode(axes, eigenvalues, point(-SEARCH_NATS) / norm, norm * radius, radius - norm * radius, 0.0)
    x = scipy.optimize.brentq(lambda x: math.log(np.linalg.norm(point(x))), -SEARCH_NATS, 1e-9, xtol=1e-15)
    direction = point(x) / np.linalg.norm(point(x))
    return _Mode(axes, eigenvalues, direction, radius, 0.0, highest * math.exp(x))


def _propose(envelope: _Envelope, size: int, normals: Source, uniforms: Source) -> tuple[Floats, Floats]:
    """Propose points by `size` tries, with the logarithms of their acceptance probabilities.

    The component along the mode is drawn first, by rejection; the others are drawn given it. Fewer than `size` points
    may remain, and the rejected ones count as tries. Depths below the boundary are never differences of large numbers.
    """
    mode, variance = envelope.mode, envelope.mode.variance(envelope.alpha)
    spread, bound = mode.along(envelope.alpha)
    step = mode.gap - spread * _draw_depths(bound, size, normals, uniforms)
    free = np.sqrt(variance) * np.reshape(normals(len(step) * len(variance)), (-1, len(variance)))
    slope = variance * mode.direction / spread**2
    offset = free + np.outer(step - free @ mode.direction, slope)
    inside = mode.gap * (2 * mode.norm + mode.gap) - 2 * mode.norm * step - (offset**2).sum(axis=1)
    points = (mode.norm * mode.direction + offset) @ mode.axes.T
    return points, np.where(inside >= 0, -envelope.alpha * inside / 2, -np.inf)


def _draw_depths(bound: float, size: int, normals: Source, uniforms: Source) -> Floats:
    """Draw distances to `bound` of standard normal variates below it, by `size` tries, of which at least half succeed.

    In the tail the proposal of the distance is an exponential variate (Robert 1995).
    """
    if bound >= 0:
        depths = bound - np.asarray(normals(size))
        return depths[depths >= 0]
    rate = (math.sqrt(bound**2 + 4) - bound) / 2
    depths = -np.log1p(-uniforms(size)) / rate
    # bound + rate, without cancellation
    log_chance = -((depths - 2 / (math.sqrt(bound**2 + 4) - bound)) ** 2) / 2
    return np.asarray(depths[np.log1p(-uniforms(size)) < log_chance])


# ------------------------------------------------------------------------------------------------ privacy


def sampler_loss(
    radius: float, feature_norm: float, target_bound: float, variance: float, relation: Relation | str
) -> float:
    r"""Compute epsilon of one draw from the posterior of regression weights under a prior truncated to a ball.

    y ~ N(w'x, s2) with `||x||_2 <= Bx` and `|y| <= By`; any prior on `||w||_2 <= R`. Neighbours' posteriors differ by
    the factor `exp(f(w)) / E[exp(f)]`, where f is the difference of log-likelihoods and the mean is over the other
    posterior. As `min f <= log E[exp(f)] <= max f`, the loss in both directions is at most the *range* of f over the
    ball, the normaliser's share included. Let t = R Bx.

    Adding or removing a record: `f = -(y - w'x)^2 / (2 s2)` and `y - w'x` takes all values in `[y - t, y + t]`, so the
    range is greatest at `|y| = By`, from `(By - t)^2`, or from 0 if `t >= By`, to `(By + t)^2`:

        4 t By / (2 s2)   if t <= By,        (By + t)^2 / (2 s2)   otherwise.

    Replacing a record removes one and adds one: twice that, attained by y and -y if t <= By, and otherwise (in two
    dimensions or more) by vectors at an angle of cosine -By / t. Data sets whose posterior is concentrated where f has
    its other extreme approach the bound.

    Args:
        radius: R of the ball of weights.
        feature_norm: Bx, bound on the l2 norm of a record's features.
        target_bound: By, bound on the absolute value of its target.
        variance: s2 of the target given the features; public.
        relation: ADD_REMOVE or REPLACE.

    Returns:
        Epsilon, nats.

    Raises:
        InputError: an argument that is not positive and finite.

    Guarantee:
        (epsilon, 0) for one exact draw; k draws cost k times as much.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), posterior sampling of Bayesian linear regression; the closed
        form of the loss is derived above.

    Example:
        >>> sampler_loss(0.1, 1, 1, 1, "replace"), sampler_loss(10, 1, 1, 1, "add-remove")
        (0.4, 60.5)
    """
    if not all(0 < value < math.inf for value in (radius, feature_norm, target_bound, variance)):
        raise InputError("radius, bounds and variance must be positive and finite")
    reach = radius * feature_norm
    squares = 4 * reach * target_bound if reach <= target_bound else (target_bound + reach) ** 2
    return squares / Relation(relation).by_record(2 * variance, variance)


WEIGHT_DIGITS = 6
"""Decimal digits of a weight that are released."""
SAMPLER_ROUNDING = Fraction(1, 10**9)
"""Bound on the relative rounding error of the loss."""
SETTING_LIMIT = 1e12
"""Largest variance and radius, and inverse of the smallest: their squares and ratios do not overflow."""
DRAWS_LIMIT = 10_000
"""Most draws, as each has a share of the budget only."""


def truncated_posterior(draws: int = 1, *, variance: float | None = None, radius: float = 1.0) -> Mechanism:
    """Release draws of a linear regression's weights from `likelihood^tau times prior` on the ball `|w| <= radius`.

    All numbers are in the design's coordinates: features and target between -1 and 1. The tempering exponent tau is the
    largest that the budget allows; with a declared variance at most 1. `read` infers the weights from the draws, with
    the tempering and the ball in the likelihood, so that one draw has intervals.

    Args:
        draws: number of joint draws of all weights; they share the budget.
        variance: of the scaled target around its mean; public, assumed by the reader. None if it is unknown: the
            likelihood is then that of a variance of 1, to any power. The budget fixes `tau / variance`, so the draws
            are the same as with a declared variance for which tau is below 1.
        radius: of the ball of weights; public. The loss grows with its square.

    Returns:
        The mechanism.

    Raises:
        InputError: no draws or too many, a variance or radius out of range; when a release is calibrated, a design
            without a numeric target, or an epsilon that is too small.

    Guarantee:
        Without delta pure: `draws tau sampler_loss(radius, ...)`. With one, draws that are many cost less: each has a
        log ratio of range `tau sampler_loss`, so all are `draws (tau sampler_loss)^2 / 8`-zCDP (docs/theory.md, section
        11), and tau is the larger of both. Under ADD_REMOVE 1/20 of epsilon is for the number of records, which the
        reader needs. The draws come from a floating-point sampler (exact rejection from normal proposals, on the
        operating system's entropy) and are rounded to six decimals; the guarantee is that of exact arithmetic. See
        `docs/threat-model.md`.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Section on linear regression; Dimitrakakis et al. (JMLR 2017),
        Theorem 8.1; `sampler_loss` derives the loss in closed form. Cesar and Rogers (ALT 2021) for bounded ranges.

    Example:
        >>> import discreet as dc
        >>> stay = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> law = dc.research.truncated_posterior(variance=0.04).calibrate(stay, dc.designs.Normal(stay, 1.0), promise)
        >>> 0 < law.temper < 1, law.radius, law.total <= 1
        (True, 1.0, True)
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or not 1 <= draws <= DRAWS_LIMIT:
        raise InputError(f"a truncated posterior needs from 1 to {DRAWS_LIMIT:,} draws, got {draws}")
    assumed = 1.0 if variance is None else float(variance)
    if not all(1 / SETTING_LIMIT <= value <= SETTING_LIMIT for value in (assumed, float(radius))):
        raise InputError("a truncated posterior needs a variance and radius from 1e-12 to 1e12")

    def calibrate(design: Design, prior: Normal, guarantee: Guarantee) -> Truncation:
        if design.predicts != "number":
            raise InputError("truncated_posterior needs a design with a numeric target")
        left, total_scale, total_cost = total_noise(guarantee)
        length = math.nextafter(math.sqrt(design.squared_length), math.inf)
        loss = sampler_loss(float(radius), length, 1.0, assumed, guarantee.relation)
        bought, reported = _buy_range(draws, replace(guarantee, epsilon=left))
        most = Fraction(SETTING_LIMIT if variance is None else 1)
        temper = float(min(bought * (1 - 2 * SAMPLER_ROUNDING) / Fraction(loss), most))
        if not temper > 0:
            raise InputError("epsilon is too small: the tempering exponent would be 0; use a larger one")
        pure = draws * Fraction(temper) * Fraction(loss) * (1 + SAMPLER_ROUNDING)
        spent = (pure if pure <= left else reported) + total_cost
        declared = None if variance is None else assumed
        return Truncation(float(radius), declared, temper, draws, WEIGHT_DIGITS, spent, total_scale)

    def draw(statistic: Moments, prior: Normal, calibration: Truncation, noise: Noise) -> WeightDraws:
        design = statistic.over
        products, crossed = _recover_products(statistic)
        weight = calibration.temper / (calibration.variance or 1.0)
        weights = truncated_normal(
            weight * products + np.eye(design.size) / prior.deviation**2,
            weight * crossed,
            calibration.radius,
            calibration.draws,
            normals=lambda number: np.asarray(ndtri(noise.uniforms(number))),
            uniforms=noise.uniforms,
        )
        rounded = np.round(weights, calibration.digits) + 0.0  # no -0.0, whose sign would reveal a digit
        total = noisy_total(statistic.records, calibration.total_scale, noise)
        return WeightDraws(design, rounded, calibration.variance, calibration.radius, calibration.temper, total)

    return design_mechanism(
        *("truncated_posterior", calibrate, draw, Moments, sum_moments),
        several=False,
        numbers=lambda over, _: draws * over.size,
    )


def _buy_range(draws: int, guarantee: Guarantee) -> tuple[Fraction, Fraction]:
    """Find the largest range of each draw's log ratio that keeps a guarantee, and the epsilon that all then cost.

    With a delta `draws range^2 / 8` is a zero-concentrated loss; without one, and for few draws, `draws range` is less.
    """
    pure = guarantee.epsilon / draws
    if not guarantee.delta:
        return pure, guarantee.epsilon
    _, rho, reported = deviation_for(1, guarantee)
    return max(pure, Fraction(math.sqrt(8 * rho / draws))), reported


def _recover_products(statistic: Moments) -> tuple[Floats, Floats]:
    """Recover sums of products of coordinates, shape `(size, size)`, and with the target, shape `(size,)`."""
    design, records = statistic.over, statistic.records
    wide = np.zeros((design.size + 1, design.size + 1))
    for (i, j), value in zip(design.moments, statistic.values.tolist(), strict=True):
        # The statistic has centred squares.
        exact = (value + records * GRID_STEPS**2) // 2 if i == j else value
        wide[i, j] = wide[j, i] = exact / GRID_STEPS**2
    if design.intercept:
        last = design.size - 1
        wide[last, last] = records * design.constant**2
    return wide[:-1, :-1], wide[:-1, -1]
