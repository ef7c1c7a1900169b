r"""Objective perturbation: logistic regression as the minimiser of a regularised, randomly tilted objective.

    J(w) = sum_i log(1 + exp(-(2 y_i - 1) w . v_i)) + Lambda |w|^2 / 2 + b . w

The regularisation Lambda is a public number: nothing here is divided or multiplied by the number of records.

Proof of the guarantee, in three steps.

1. Ideal b, exact minimiser. For any records the map from b to the minimiser is one to one: b = -Lambda w - g(w), where
   g(w) is the sum of `(sigmoid - y) v`. The density of w is therefore that of b at this point times the determinant of
   the curvature `H + Lambda I`. One record more moves b by at most Delta, its largest norm, and multiplies the
   determinant by `1 + s v' (H + Lambda I)^-1 v`, which lies in [1, 1 + |v|^2 / (4 Lambda)] as s <= 1/4. If b's density
   changes by a factor of at most exp(Delta / scale) over a distance of Delta, the loss is at most
   `Delta / scale + log(1 + |v|^2 / (4 Lambda))`. Replacing a record moves b by at most 2 Delta; its determinant is
   multiplied by one such factor and divided by another, so the second term stands once.
2. The b that is drawn is a lattice point, `2^-BITS k` with K-norm noise k. The ideal b is that plus a uniform vector
   in the lattice's cell. Over a distance of Delta its k moves by at most `2^BITS Delta` and 1 (the cube), sqrt(d) (the
   ball) or d (the diamond) more, because rounding moves each end by half a cell at most: the sensitivity of k counts
   that in.
3. The minimiser that is computed belongs to the lattice point, and is found in floating point. With t the length of
   gradient that is allowed, of which rounding takes at most half, it is within `(t + sqrt(d) 2^-BITS / 2) / Lambda` of
   the ideal one, as J is Lambda-convex. Cube noise is added to its whole steps of at least that length, counted from
   the floats next to it, which are less than another step away: with m = 2
   steps of error at most, on each side, the loss is at most 2 m / polish more than that of the same noise on the ideal
   minimiser, which is post-processing of step 1.
   Rounding: at the ideal minimiser J is at most J(0), so `|w| <= sqrt(2 n log 2 / Lambda) + 2 |b| / Lambda` there, and
   the computed one is as near to it as said; a record's part of the gradient is off by less than
   `(40 + d^2 (1 + |w|_1) 2^-40) 2^-53` (`Gradients.expansion`). `_rounding` sums that over n = EXCESS times as many
   records as expected, more than which are refused, and for |b| up to 100 d^1.5 scales.
   A longer b, whose probability is below 1e-41 for any d, is where the argument ends: |b| is at most sqrt(d) times the
   radius of a cube, a sum of d + 1 geometric variates and d / 2, and at most the sum of a diamond's d entries.

The norm is that of the design's shape, whose noise is least (`model/design.py`). In a design with groups of indicators
it may be the sum of absolute values, in which a record is no longer than the number of its groups, of its features in
none, and the constant; that no record is longer is what `Rows` sees to. |v|^2 is no larger than that number either.

The curvature at the released weights is a second release: its sums are of records' parts in [-1, 1] at weights that are
the same for both neighbours, so that noise on each of its three vectors costs its sensitivity over its scale, and
adaptive composition adds that to the rest.

The regularisation. With b of deviation s in each coordinate, weights along an axis of curvature h are off by
`(b + Lambda w) / (h + Lambda)`, on average over w ~ N(0, t^2) by `(s^2 + Lambda^2 t^2) / (h + Lambda)^2`. The least of
that over Lambda is `s^2 / (h^2 + s^2 / t^2)`, and `Lambda = s / t` is off by at most twice as much for every h: once at
h = Lambda, which data decide, and nowhere by more. It falls with the noise, so that nothing is shrunk in the end. With
groups t is 2 / |v|, so that all weights of a record together have a deviation of 2 a priori, however many there are.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from discreet.errors import DiscreetError, InputError
from discreet.mechanisms.crossing import DesignMechanism, Mechanism
from discreet.mechanisms.k_norm import k_norm_scale
from discreet.mechanisms.noise import Noise
from discreet.mechanisms.noisy_gradients import noisy_total, require_records, total_noise
from discreet.model.design import GRID, Design, Normal
from discreet.privacy.guarantee import Guarantee
from discreet.releases.kinds.gradient_trace import BITS, CurvatureNoise, GradientTrace, NoisyCurvature, ObjectiveNoise
from discreet.releases.kinds.noisy_sums import k_norm_variance
from discreet.sensitive.gradients import Gradients, curvature_sensitivity, gradient_sensitivity

__all__ = ["objective_perturbation"]

EPSILONS = (Fraction(1, 10**9), Fraction(1000))
"""Range of epsilon: beyond it noise cannot be drawn, or nobody is protected."""
MOST = 1e6
"""Most regularisation, beyond which nothing is left of a weight."""
LEAST = 1e-6
"""Least regularisation for each expected record and squared length: below it the search would not end."""
TOLERANCE = 1e-13
"""Length of the gradient at which the search ends, for each expected record, besides rounding."""
EXCESS = 10
"""Most records for each expected one; rounding grows with them."""
SIZE_LIMIT = 1000
"""Most weights: the search solves as many equations at every step."""
POLISH_SHARE = Fraction(1, 100)
"""Part of epsilon for the noise that hides how far the computed minimiser is off; at most 1 nat for all weights."""
POLISH_ERROR = 2
"""Steps that two neighbouring data sets' computed minimisers are off at most, each."""
CURVATURE_SHARE = Fraction(1, 4)
"""Most of epsilon that the change of the curvature may cost; the regularisation is raised until it does."""
EXPECTED = 2.5
"""Deviation t of a weight a priori, in scaled units, in the rule for the regularisation: the estimators' default."""
EXPECTED_ODDS = 2.0
"""Deviation of a record's log odds a priori in the same rule, with groups. Set on seeds 0 to 5 of ADULT with its
categories and a made-up table of 16 categories, of halves and doubles of it; it is what posteriors expect, too."""
MEASURED_SHARE = Fraction(1, 5)
"""Part of epsilon for the curvature, where it is measured."""
WEIGHT_SHARE = Fraction(1, 8)
"""Part of that for the sum of the weights, by which all others are divided."""
LESS = 0.5
"""How much less epsilon products of features have than with equal weights: errors in means add up over features."""
MANY = 2**18
"""Records beyond which the search begins at the minimum over some of them, which saves most passes over all."""
NEAR = 1e-4
"""Length of the gradient, for each record, at which that first search ends."""
ROUNDING = Fraction(1, 10**12)
"""Relative error of a logarithm in floating point, and more."""

Floats = npt.NDArray[np.float64]


def objective_perturbation(
    *, records: int, regularisation: float | None = None, curvature: int = 1
) -> DesignMechanism[ObjectiveNoise, Gradients]:
    """Weights of a logistic regression that minimise a randomly tilted objective.

    Args:
        records: public number that the regularisation is scaled by: an expected number of records, not one counted.
        regularisation: Lambda for each expected record and squared length of a record; None takes the rule above: the
            noise's deviation over 2.5. It is raised where the change of the curvature would cost more than a quarter of
            epsilon.
        curvature: 1 to release the curvature at the weights, too, for a fifth of epsilon: intervals then need no law of
            the features. 0 leaves it out.

    Returns:
        The mechanism.

    Raises:
        InputError: a number that is not positive; when a release is calibrated, a guarantee with a delta, more than
            1,000 weights, or an epsilon for which noise cannot be drawn.

    Guarantee:
        Pure epsilon, by the proof above: no exact minimiser and no exact real noise is assumed. Under ADD_REMOVE 1/20
        of it goes to the number of records, which only the posterior needs.

    Source:
        Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 2 and Theorem 9, with the norm of the bounds, one curvature
        term where they have two, and steps 2 and 3.
    """
    require_records(records)
    if curvature not in (0, 1):
        raise InputError(f"curvature is 1 to measure it, or 0, not {curvature!r}")
    if regularisation is not None and not LEAST <= float(regularisation) <= MOST:
        raise InputError(f"regularisation must be a number from {LEAST} to {MOST:g}, got {regularisation}")

    def calibrate(design: Design, prior: Normal, guarantee: Guarantee) -> ObjectiveNoise:
        if guarantee.delta:
            raise InputError("objective_perturbation keeps a pure guarantee; ask for delta 0")
        if design.size > SIZE_LIMIT:
            raise InputError(
                f"objective_perturbation takes at most {SIZE_LIMIT:,} weights; this design has {design.size}"
            )
        if not EPSILONS[0] <= guarantee.epsilon <= EPSILONS[1]:
            raise InputError(f"objective_perturbation takes an epsilon from {EPSILONS[0]} to {EPSILONS[1]}")
        return _calibration(design, guarantee, records, regularisation, measured=bool(curvature))

    def draw(statistic: Gradients, prior: Normal, calibration: ObjectiveNoise, noise: Noise) -> GradientTrace:
        design = statistic.over
        lattice = noise.k_norm(np.zeros(design.size, np.int64), calibration.scale, design.shape)
        tilt = np.asarray(lattice * 2.0**-BITS, np.float64)
        rounding = _rounding(records, design, calibration.regularisation, calibration.scale)
        found = minimiser(statistic, tilt, calibration.regularisation, TOLERANCE * records + rounding)
        steps = np.rint(found / calibration.polish_step).astype(np.int64)
        weights = np.asarray(noise.k_norm(steps, calibration.polish, "cube") * calibration.polish_step, np.float64)
        # At the minimiser the gradient of the log-likelihood is Lambda w + b: a noisy gradient like any other.
        return GradientTrace(
            design=design,
            points=weights[None],
            gradients=calibration.regularisation * weights[None],
            scale=calibration.scale * 2.0**-BITS,
            weights=weights,
            total=noisy_total(statistic.records, calibration.total_scale, noise),
            curvature=_noisy_curvature(statistic, weights, calibration.measured, noise),
        )

    def require(statistic: Gradients) -> None:
        if statistic.records > EXCESS * records:
            raise InputError(
                f"there are more than {EXCESS} times as many records as were expected; declare a larger number"
            )

    return Mechanism("objective_perturbation", calibrate, draw, Gradients, require)


def _calibration(
    design: Design, guarantee: Guarantee, records: int, regularisation: float | None, *, measured: bool
) -> ObjectiveNoise:
    """Shares of epsilon, and the noise that each buys."""
    left, total_scale, total_cost = total_noise(guarantee)
    second = _curvature_noise(design, guarantee, MEASURED_SHARE * guarantee.epsilon) if measured else None
    measured_cost = Fraction(0) if second is None else second.reported
    left -= measured_cost
    length = float(design.squared_length)
    polish, polish_cost = k_norm_scale(
        2 * POLISH_ERROR, min(POLISH_SHARE * left, Fraction(1, design.size)), design.size, "cube"
    )
    rounded = {"cube": 1, "ball": math.isqrt(design.size - 1) + 1, "diamond": design.size}[design.shape]
    sensitivity = gradient_sensitivity(design, guarantee.relation) * 2**BITS // GRID + rounded
    needed = length / (4 * math.expm1(min(float(CURVATURE_SHARE * left), 700)))
    # The rule takes the noise that all of the budget would buy: what the curvature costs is known only after it.
    buys = sensitivity / float(left - polish_cost) * 2.0**-BITS
    expected = EXPECTED_ODDS / math.sqrt(length) if design.groups else EXPECTED
    wanted = math.sqrt(k_norm_variance(design.size, buys, design.shape)) / expected
    convexity = max(needed, wanted if regularisation is None else records * regularisation * length)
    curvature = Fraction(math.log1p(length / (4 * convexity))) * (1 + ROUNDING)
    budget = left - curvature - polish_cost
    scale, cost = k_norm_scale(sensitivity, budget, design.size, design.shape)
    # A power of two: products with it are exact.
    allowed = TOLERANCE * records + 2 * _rounding(records, design, convexity, scale)
    off = (allowed + math.sqrt(design.size) * 2.0 ** -(BITS + 1)) / convexity
    step = 2.0 ** math.ceil(math.log2(off * (1 + 1e-9)))
    return ObjectiveNoise(
        regularisation=convexity,
        sensitivity=sensitivity,
        scale=scale,
        curvature=curvature,
        polish=polish,
        polish_step=step,
        total_scale=total_scale,
        reported=cost + curvature + polish_cost + total_cost + measured_cost,
        measured=second,
    )


def _curvature_noise(design: Design, guarantee: Guarantee, share: Fraction) -> CurvatureNoise:
    """Noise on the vectors of a curvature.

    The deviation of each goes as its width over its epsilon: beside the weight's own part, shares make the sum of the
    squared deviations least, of which that of means and squares counts `LESS^-3` times.
    """
    relation, parts = guarantee.relation, design.curvature
    few = Fraction(round(1000 / (1 + LESS * (parts[2].width / parts[1].width) ** (2 / 3))), 1000) * (1 - WEIGHT_SHARE)
    found = []
    for part, its in zip(parts, (WEIGHT_SHARE, few, 1 - WEIGHT_SHARE - few), strict=True):
        sensitivity = curvature_sensitivity(relation, part)
        # What of a large budget no noise can be drawn for is not spent.
        spent = min(its * share, Fraction(sensitivity, max(part.size, 1)))
        drawn = k_norm_scale(sensitivity, spent, part.size, part.shape) if part.size else (None, Fraction(0))
        found.append(drawn)
    scales, costs = zip(*found, strict=True)
    return CurvatureNoise(curvature_sensitivity(relation), scales, sum(costs, Fraction(0)))


def _noisy_curvature(
    statistic: Gradients, weights: Floats, calibration: CurvatureNoise | None, noise: Noise
) -> NoisyCurvature | None:
    """The curvature at released weights, where it is measured."""
    if calibration is None:
        return None
    told = zip(statistic.curvature(weights), calibration.scales, statistic.over.curvature, strict=True)
    parts = [part if scale is None else noise.k_norm(part, scale, over.shape) for part, scale, over in told]
    return NoisyCurvature(np.concatenate(parts), calibration.scales)


def _rounding(records: int, design: Design, convexity: float, scale: float) -> float:
    """How far a computed gradient can be off: see step 3."""
    most, wide = EXCESS * records, math.sqrt(design.size) ** 3
    tilt = 100 * wide * scale * 2.0**-BITS
    longest = math.sqrt(2 * most * math.log(2) / convexity) + 2 * tilt / convexity
    of_records = most * (40 + design.size**2.5 * (1 + longest) * 2.0**-40)
    return float(math.ldexp(1.0, -53) * (of_records + 8 * (tilt + convexity * longest)) * math.sqrt(design.size))


def minimiser(statistic: Gradients, tilt: Floats, convexity: float, tolerance: float) -> Floats:
    """Newton's method with halved steps, from the minimum over the first block of many, if that is lower than 0.

    Weights are pairs of floats on the way: where features are nearly alike and weights large, one step of a float moves
    the gradient by more than the tolerance, and no other weights would be found.

    Args:
        statistic: private.
        tilt: b, shape `(size,)`.
        convexity: Lambda.
        tolerance: length of the gradient at which the search ends.

    Returns:
        The nearest floats to the weights, shape `(size,)`.

    Raises:
        DiscreetError: not found in 500 steps; the objective is smooth and strongly convex, where Newton's method ends.
    """
    w = rest = np.zeros(len(tilt))
    if statistic.records > MANY:
        first = statistic.beginning()
        share = first.records / statistic.records
        w = minimiser(first, share * tilt, share * convexity, max(NEAR * first.records, tolerance))
    value, slope, curvature = _expansion(statistic, w, rest, tilt, convexity)
    if value > statistic.records * math.log(2):  # J(0)
        w = rest
        value, slope, curvature = _expansion(statistic, w, rest, tilt, convexity)
    for _ in range(500):
        if math.sqrt(slope @ slope) <= tolerance:
            return w
        move, length = np.linalg.solve(curvature, slope), 1.0
        while True:
            at, left = _two_sum(w, rest - length * move)
            ahead = _expansion(statistic, at, left, tilt, convexity)
            # Near the minimum the objective is flat to rounding: there the full step is right.
            if length <= 1e-6 or not ahead[0] > value + 1e-12 * abs(value):
                break
            length /= 2
        w, rest = at, left
        value, slope, curvature = ahead
    raise DiscreetError("the minimum of the objective was not found; please report this")


def _two_sum(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """A sum as the nearest floats and what these leave of it, exactly (Knuth)."""
    found = one + other
    added = found - one
    return found, (one - (found - added)) + (other - added)


def _expansion(
    statistic: Gradients, w: Floats, rest: Floats, tilt: Floats, convexity: float
) -> tuple[float, Floats, Floats]:
    """J, its gradient and its curvature at w and what floats leave of it."""
    cost, slope, curvature = statistic.expansion(w, rest)
    value = cost + convexity * float(w @ w) / 2 + float(tilt @ w)
    return value, slope + convexity * w + convexity * rest + tilt, curvature + convexity * np.eye(len(w))
