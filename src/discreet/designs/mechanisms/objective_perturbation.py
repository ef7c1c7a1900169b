r"""Objective perturbation: a regression as the minimiser of a regularised, randomly tilted objective.

    J(w) = sum_i (f(w . v_i) - y_i . (w . v_i)) + Lambda |w|^2 / 2 + b . w

with f of `response.py`: two classes (logistic), more of them (multinomial, one w for each), or counts (Poisson).
The regularisation Lambda is a public number: nothing here is divided or multiplied by the number of records.

Proof of the guarantee, in four steps.

1. Ideal b, exact minimiser. For any records the map from b to the minimiser is one to one: b = -Lambda w - g(w), where
   g(w) is the sum of `(mean - y) v`. It and its inverse are Lipschitz, and so almost everywhere differentiable: the
   density of w is that of b at this point times the determinant of the curvature `H + Lambda I`. One record more moves
   b by at most Delta, its longest gradient, and adds to H a matrix of rank r with eigenvalues `l_i |v|^2`, where the
   l_i are those of the slope of its means. The determinant is multiplied by a number from 1 to the product of
   `1 + l_i |v|^2 / Lambda`: at most `(1 + s |v|^2 / Lambda)^r`, s = 1/4 and r = 1 for two classes, s = r = 1 for
   counts, and s = 1 / K and r = K - 1 for K classes, where the l_i sum to at most r / K. If b's density changes by a
   factor of at most exp(Delta / scale) over a distance of Delta, the loss is at most
   `Delta / scale + r log(1 + s |v|^2 / Lambda)`. Replacing a record moves b by at most 2 Delta; its
   determinant is multiplied by one such factor and divided by another, so the second term stands once.
2. The b that is drawn is a lattice point, `2^-BITS k` with K-norm noise k. The ideal b is that plus a uniform vector
   in the lattice's cell. Over a distance of Delta its k moves by at most `2^BITS Delta` and 1 (the cube), sqrt(d) (the
   ball) or d (the diamond) more, because rounding moves each end by half a cell at most: the sensitivity of k counts
   that in.
3. The minimiser that is computed belongs to the lattice point, and is found in floating point. With t the length of
   gradient that is allowed, of which rounding takes at most half, it is within `(t + sqrt(d) 2^-BITS / 2) / Lambda` of
   the ideal one, as J is Lambda-convex. Cube noise is added to its whole steps of at least that length, counted from
   the floats next to it, which are less than another step away: with m = 2 steps of error at most, on each side, the
   loss is at most 2 m / polish more than that of the same noise on the ideal minimiser, which is post-processing of 1.
   Rounding: at the ideal minimiser J is at most J(0), so `|w| <= sqrt(2 n h / Lambda) + 2 |b| / Lambda` there, with h
   the most by which a record's loss at 0 is above its least (log 2 for two classes), and the computed one is as near to
   it as said; a record's part of the gradient is off by less than `(40 + 8 (K - 1) + m^2 (1 + |w|_1) 2^-40) 2^-53`, m
   the weights of an output (`Gradients.expansion`). `_bound_rounding` sums that over n records (step 4) and for |b| up
   to `_bound_tilt`. A longer b, whose probability is below 1e-41 for any d, is where the argument ends: a cube's radius
   is a sum of d + 1 geometric variates and at most d, as is a ball's but for its cells, and a diamond's absolute sum is
   one of d of them. By Chernoff's bound each is at most x = 2 m + 200 scales, m = d + 1, but with a probability of
   `exp(-(x - m - m log(x / m)))`; and of Gaussian noise no coordinate is beyond 15 deviations.
4. n is at least RECORDS_EXCESS times the declared number. More records cannot be refused: whether there are more than a
   public number is a word about them that nothing pays for; a few declared numbers would read theirs off. Nor can some
   be left out: a rule that keeps n records whole, at most n of more, and changes by one where one is added, keeps of
   n + 1 what is within one of each n of them: all. So the number of records is drawn first, with the noise that 1/20 of
   epsilon pays for, and n is at least that and 95 scales: steps 1 to 3 then have a public n, by adaptive composition,
   which is too small with a probability below 1e-41, too. Under REPLACE n is at least the number, which is public.

The norm is that of the design's shape, whose noise is least (`design.py`). In a design with groups of indicators
or with many classes it may be the sum of absolute values, in which a record is no longer than the number of its groups,
of its features in none, and the constant (twice that where there are several outputs, as `mean - y` sums to 2 at most);
that no record is longer is what `Rows` sees to. |v|^2 is no larger than that number either.

With a delta k is discrete Gaussian of deviation s. Over a change z of k the loss in step 2 is
`(2 k . z + |z|^2) / 2 s^2`, and z depends on the minimiser, and so on k. But z is u plus less than a cell, where
`u = 2^BITS (change of mean - y) (x) v`, and the change of `mean - y` lies in a polytope that is the record's alone: of
two classes between 0 and one end, of K classes between the K targets, of a count between two ends; the neighbour's is
subtracted where records are replaced. A convex function of u is largest at a vertex, so with G_u the loss for a fixed u
and c the determinant's term, the whole loss is at most `c + slack + max(0, max over vertices of G_u)`, where
`slack = (2 |k|_1 + 2 |u| sqrt(d) + d) / 2 s^2` is what the cells cost. Hence, for any epsilon' = epsilon - c - slack,

    delta(epsilon) <= E max (1 - exp(epsilon' - G_u))+ <= number of vertices times the delta of one Gaussian at epsilon'

(0 is no vertex here, as its loss is 0; where the curvature is released, too, it has that noise's loss and is one), and
each is that of `rho = |u|^2 / 2 s^2`, by the moments of G_u (discrete Gaussian noise is sub-Gaussian along any real
direction). The noise that hides the minimum changes probabilities by a factor, delta with them, which is divided by it.
|k|_1 is at most `15 d s` but with a probability of at most `2 d exp(-15^2 / 2)`, which delta pays.

The curvature at the released weights is a second release: its sums are of records' parts in [-1, 1] at weights that are
the same for both neighbours, so that noise on each of its three vectors costs its sensitivity over its scale, and
adaptive composition adds that to the rest. With a delta its noise is discrete Gaussian, too, and its rho adds to that
of each vertex, as moments of losses multiply whatever the weights are.

The regularisation. With b of deviation s in each coordinate, weights along an axis of curvature h are off by
`(b + Lambda w) / (h + Lambda)`, on average over w ~ N(0, t^2) by `(s^2 + Lambda^2 t^2) / (h + Lambda)^2`. The least of
that over Lambda is `s^2 / (h^2 + s^2 / t^2)`, and `Lambda = s / t` is off by at most twice as much for every h: once at
h = Lambda, which data decide, and nowhere by more. It falls with the noise, so that nothing is shrunk in the end. t is
2 over the length of the longest record, so that its predictor has a deviation of 2 a priori, however many weights it is
made of: with one t for all designs dozens of weights would be noise.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np

from discreet.designs.design import GRID_STEPS, Design, Normal
from discreet.designs.kinds.gradient_trace import (
    OBJECTIVE_BITS,
    CurvatureNoise,
    GradientTrace,
    NoisyCurvature,
    ObjectiveNoise,
)
from discreet.designs.mechanisms.design_mechanism import design_mechanism
from discreet.designs.mechanisms.record_number import noisy_total, require_records, total_noise
from discreet.designs.records.gradients import (
    Gradients,
    curvature_sensitivity,
    gradient_sensitivity,
    squared_gradient_sensitivity,
    sum_gradients,
)
from discreet.designs.response import response_of
from discreet.errors import DiscreetError, InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, deviation_for, deviation_within
from discreet.noise.k_norm import k_norm_scale
from discreet.noise.noise_laws import DiscreteGaussian, ShapeTag
from discreet.noise.shapes import SHAPES, Cube, KNorm, VectorLaw, vector_law
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.util.arrays import Floats

EPSILON_RANGE = (Fraction(1, 10**9), Fraction(1000))
"""Range of epsilon: beyond it noise cannot be drawn, or nobody is protected."""
MOST_LAMBDA = 1e6
"""Largest regularisation: beyond it all weights are next to 0."""
LEAST_LAMBDA = 1e-6
"""Least regularisation for each expected record and squared length: below it the minimiser may not converge."""
GRADIENT_TOLERANCE = 1e-14
"""Gradient length per record at which the minimiser stops, besides rounding."""
RECORDS_EXCESS = 10
"""Ratio of records to expected ones up to which the weights have their finest steps; rounding grows with records."""
TAIL_SCALES = 95
"""Scales of discrete Laplace noise beyond which none is expected: `exp(-95)` is below 1e-41."""
WEIGHTS_LIMIT = 1000
"""Most weights: the search solves as many equations at every step."""
POLISH_SHARE = Fraction(1, 100)
"""Share of epsilon for the noise that hides the numerical error of the minimiser; at most 16 over the weights, beyond
which noise takes long to draw."""
POLISH_ERROR = 2
"""Largest numerical error of each of two neighbouring data sets' minimisers, in steps."""
CURVATURE_SHARE = Fraction(1, 4)
"""Largest share of epsilon for the change of the curvature; the regularisation is raised to keep it."""
PREDICTOR_DEVIATION = 2.0
"""Prior standard deviation of the longest record's linear predictor, in the rule for the regularisation. On seeds 800
to 805 of the sets of `bench.estimators`, and on nine sets that nothing was set on, twice it is worse up to epsilon 3;
half of it has less error up to there and a fifth more log loss at 10."""
CURVATURE_BUDGET = Fraction(1, 5)
"""Share of epsilon for the curvature, if it is measured."""
WEIGHT_SHARE = Fraction(1, 8)
"""Share of the curvature's budget for the sum of the weights, by which all other sums are divided."""
PRODUCTS_RATIO = 0.5
"""Ratio of the products' epsilon to that with equal weights: errors in means add up over features."""
WARM_START_RECORDS = 2**18
"""Records beyond which the minimiser starts from the minimum over some of them, which saves most passes over all."""
WARM_START_GRADIENT = 1e-4
"""Gradient length per record at which that first minimisation stops."""
TAIL_DEVIATIONS = 15
"""Standard deviations beyond which no coordinate of Gaussian noise is expected: delta pays `exp(-15^2 / 2)`."""
LOG_ROUNDING = Fraction(1, 10**12)
"""Bound of the relative error of a logarithm in floating point."""

Rho = tuple[Fraction, Fraction]


def objective_perturbation(*, records: int, regularisation: float | None = None, curvature: int = 1) -> Mechanism:
    """Release weights of a logistic, multinomial or Poisson regression that minimise a randomly tilted objective.

    Args:
        records: public number that the regularisation is scaled by: an expected number of records, not one counted.
        regularisation: Lambda for each expected record and squared length of a record; None takes the
            noise's deviation over 2, times the length of the longest record. It is raised where the change of the
            curvature would cost more than a quarter of epsilon.
        curvature: 1 to release the curvature at the weights, too, for a fifth of epsilon: intervals then need no law of
            the features. 0 leaves it out, and so do more classes than it could be read of (`Design.measurable`).

    Returns:
        The mechanism.

    Raises:
        InputError: a number that is not positive; when a release is calibrated, more than 1,000 weights, or an epsilon
            for which noise cannot be drawn.

    Guarantee:
        Pure epsilon with K-norm noise, (epsilon, delta) with Gaussian noise, by the proof in
        `discreet.designs.mechanisms.objective_perturbation`: no exact minimiser and no exact real noise is assumed.
        Under ADD_REMOVE 1/20 of epsilon goes to the number of records, which only the posterior needs.

    Source:
        Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 2 and Theorem 9, with the norm of the bounds, one curvature
        term where they have two, and steps 2 and 3. Kifer, Smith and Thakurta (2012) and Redberg, Koskela and Wang
        (2023) for Gaussian noise; the polytope is derived here.

    Example:
        >>> import discreet as dc
        >>> ill = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("ill", ("no", "yes")))
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.designs.objective_perturbation(records=1000).calibrate(ill, dc.designs.Normal(ill, 1.0), promise)
        >>> noise.regularisation > 0, noise.rho, noise.total <= 1  # no rho: K-norm noise keeps a pure guarantee
        (True, None, True)
    """
    require_records(records)
    if curvature not in (0, 1):
        raise InputError(f"curvature is 1 to measure it, or 0, not {curvature!r}")
    if regularisation is not None and not LEAST_LAMBDA <= float(regularisation) <= MOST_LAMBDA:
        raise InputError(f"regularisation is a number from {LEAST_LAMBDA} to {MOST_LAMBDA:g}, not {regularisation}")

    def calibrate(design: Design, prior: Normal, guarantee: Guarantee) -> ObjectiveNoise:
        response_of(design)
        if design.weights > WEIGHTS_LIMIT:
            raise InputError(f"objective_perturbation takes at most {WEIGHTS_LIMIT:,} weights, not {design.weights:,}")
        if not EPSILON_RANGE[0] <= guarantee.epsilon <= EPSILON_RANGE[1]:
            raise InputError(f"objective_perturbation takes an epsilon from {EPSILON_RANGE[0]} to {EPSILON_RANGE[1]}")
        measured = bool(curvature) and design.measurable
        return _calibrate_noise(design, guarantee, records, regularisation, measured=measured)

    def draw(statistic: Gradients, prior: Normal, calibration: ObjectiveNoise, noise: Noise) -> GradientTrace:
        design, convexity = statistic.over, calibration.regularisation
        total = noisy_total(statistic.records, calibration.total_scale, noise)
        most = _bound_records(records, calibration.total_scale, statistic.records if total is None else total.value)
        law = _find_law(calibration, design.shape, calibration.scale, design.weights)
        end, step = _set_precision(most, design, convexity, law)
        # The random linear term, in steps of its lattice.
        tilt = np.asarray(law.add(np.zeros(design.weights, np.int64), noise) * 2.0**-OBJECTIVE_BITS, np.float64)
        steps = np.rint(minimiser(statistic, tilt, convexity, end) / step).astype(np.int64)
        weights = np.asarray(noise.k_norm(steps, calibration.polish, Cube.tag) * step, np.float64)
        # At the minimiser the gradient of the log-likelihood is Lambda w + b: a noisy gradient like any other.
        return GradientTrace(
            design=design,
            points=weights[None],
            gradients=convexity * weights[None],
            scale=calibration.scale * 2.0**-OBJECTIVE_BITS,
            weights=weights,
            total=total,
            curvature=_add_curvature_noise(statistic, weights, calibration, noise),
            normal=True if calibration.rho else None,
        )

    return design_mechanism("objective_perturbation", calibrate, draw, Gradients, sum_gradients)


def _calibrate_noise(
    design: Design, guarantee: Guarantee, records: int, regularisation: float | None, *, measured: bool
) -> ObjectiveNoise:
    """Split epsilon and calibrate the noise of each share; with a delta Gaussian noise, if it is smaller."""
    convexity = None if regularisation is None else records * regularisation * float(design.squared_length)
    with_noise = partial(_calibrate_with, design, guarantee, records, convexity, measured=measured)
    k_norm = with_noise(KNorm)
    if guarantee.delta:
        try:
            gaussian = with_noise(DiscreteGaussian)
        except InputError:  # too small a delta, or too large an epsilon, for Gaussian noise
            return k_norm
        if gaussian.scale < math.sqrt(KNorm(k_norm.scale, design.weights, design.shape).raw_variance):
            return gaussian
    return k_norm


def _calibrate_with(
    design: Design, guarantee: Guarantee, records: int, convexity: float | None, law: type[VectorLaw], *, measured: bool
) -> ObjectiveNoise:
    """Calibrate K-norm or Gaussian noise, with the stated regularisation or that of the rule."""
    response, length, size = response_of(design), float(design.squared_length), design.weights
    budget, total_scale, total_cost = total_noise(guarantee)
    second, rho, measured_cost = None, None, Fraction(0)
    if measured and not law.concentrated:
        second = _calibrate_curvature(design, guarantee.relation, CURVATURE_BUDGET * guarantee.epsilon, law)
        measured_cost = second.reported
    budget -= measured_cost
    polish, polish_cost = k_norm_scale(2 * POLISH_ERROR, min(POLISH_SHARE * budget, Fraction(16, size)), size, Cube.tag)
    needed = response.steepest * length / math.expm1(min(float(CURVATURE_SHARE * budget) / response.rank, 700))
    budget -= polish_cost
    sensitivity = _bound_lattice_move(design, guarantee.relation)
    if convexity is None:
        # The rule assumes the noise of the whole budget: the cost of the curvature follows from the rule.
        deviation = math.sqrt(KNorm(sensitivity / float(budget), size, design.shape).raw_variance)
        if law.concentrated:
            rho, _ = _find_rho(design, guarantee, budget, measured=measured, hidden=polish_cost)
            deviation = _calibrate_gaussian(design, guarantee.relation, rho, measured=measured)[1]
        convexity = deviation * 2.0**-OBJECTIVE_BITS * math.sqrt(length) / PREDICTOR_DEVIATION
    convexity = max(needed, convexity)
    curvature = Fraction(response.rank * math.log1p(response.steepest * length / convexity)) * (1 + LOG_ROUNDING)
    budget -= curvature
    if law.concentrated:
        rho, cost = _find_rho(design, guarantee, budget, measured=measured, hidden=polish_cost)
        sensitivity, scale, second = _calibrate_gaussian(design, guarantee.relation, rho, measured=measured)
    else:
        scale, cost = k_norm_scale(sensitivity, budget, size, design.shape)
    drawn = vector_law(design.shape if rho is None else DiscreteGaussian.tag, scale, size)
    return ObjectiveNoise(
        regularisation=convexity,
        sensitivity=sensitivity,
        scale=scale,
        curvature=curvature,
        polish=polish,
        polish_step=_set_precision(_bound_records(records, total_scale, 0), design, convexity, drawn)[1],
        total_scale=total_scale,
        reported=cost + curvature + polish_cost + total_cost + measured_cost,
        measured=second,
        rho=rho,
    )


def _bound_lattice_move(design: Design, relation: Relation) -> int:
    """Bound how far a record moves k, in the norm of the design's shape: step 2."""
    rounded = SHAPES[design.shape].largest(design.weights)
    steps: int = gradient_sensitivity(design, relation) * 2**OBJECTIVE_BITS // GRID_STEPS
    return steps + rounded


def count_corners(design: Design, relation: Relation) -> int:
    """Count the vertices, except 0, of the set of changes of the gradient by a neighbour.

    Args:
        design: public.
        relation: what "neighbouring" means.

    Returns:
        Those of one record's, or the differences of two records' and 0.
    """
    corners = response_of(design).corners
    return relation.by_record(corners, (corners + 1) ** 2 - 1)


def _find_rho(design: Design, guarantee: Guarantee, epsilon: Fraction, *, measured: bool, hidden: Fraction) -> Rho:
    """Find the zero-concentrated loss of Gaussian noise, and the epsilon that it and the lattice cost together.

    The slack of the lattice is that of less noise than is then taken, so that it is no smaller. `hidden` is what the
    noise that hides the minimum costs, which is a factor of delta, too.
    """
    size, corners = design.weights, count_corners(design, guarantee.relation) + measured
    lost = Fraction(2 * size * math.exp(-(TAIL_DEVIATIONS**2) / 2)) * (1 + LOG_ROUNDING)
    if guarantee.delta <= 2 * lost:
        raise InputError(f"objective_perturbation takes a delta above {float(2 * lost):.2g} for these weights, or none")
    delta = (guarantee.delta - lost) / corners / (Fraction(math.exp(hidden)) * (1 + LOG_ROUNDING))

    def bought(amount: Fraction) -> tuple[Fraction, Fraction]:
        promise = Guarantee(epsilon=amount, delta=delta, relation=guarantee.relation, unit=guarantee.unit)
        _, rho, reported = deviation_for(1, promise)
        return rho, reported

    rho, _ = bought(epsilon)
    reach = float(squared_gradient_sensitivity(design, guarantee.relation)) * (2.0**OBJECTIVE_BITS / GRID_STEPS) ** 2
    deviation = math.sqrt(reach / (2 * float(rho)))
    # slack = (2 |k|_1 + 2 |u| sqrt(d) + d) / 2 s^2 of the proof, with |k|_1 <= 15 d s.
    slack = Fraction(
        (2 * TAIL_DEVIATIONS * size * deviation + 2 * math.sqrt(reach * size) + size) / (2 * deviation**2)
    ) * (1 + LOG_ROUNDING)
    if slack >= epsilon:
        raise InputError("epsilon is too small for a delta and these weights; ask for more, or for delta 0")
    rho, reported = bought(epsilon - slack)
    return rho, reported + slack


def _calibrate_gaussian(
    design: Design, relation: Relation, rho: Fraction, *, measured: bool
) -> tuple[int, float, CurvatureNoise | None]:
    """Calibrate Gaussian noise on the linear term and the curvature: (sensitivity and deviation of the term, rest)."""
    squared = squared_gradient_sensitivity(design, relation) * (2**OBJECTIVE_BITS // GRID_STEPS) ** 2
    share = CURVATURE_BUDGET * rho if measured else Fraction(0)
    scale, _ = deviation_within(squared, rho - share)
    second = _calibrate_curvature(design, relation, share, DiscreteGaussian) if measured else None
    return math.isqrt(squared - 1) + 1, scale, second


def _calibrate_curvature(design: Design, relation: Relation, budget: Fraction, law: type[VectorLaw]) -> CurvatureNoise:
    """Calibrate noise on the vectors of a curvature: Gaussian, or K-norm noise of each vector's shape."""
    noise_of_vectors: list[tuple[float | None, Fraction]] = []
    for vector, share in zip(design.curvature, _split_curvature(design, law), strict=True):
        sensitivity = curvature_sensitivity(relation, None if law.concentrated else vector)
        if not vector.size:
            noise_of_vectors.append((None, Fraction(0)))
        elif law.concentrated:
            # Squared Euclidean sensitivity of a vector: its length times sensitivity^2.
            noise_of_vectors.append(deviation_within(vector.length * sensitivity**2, share * budget))
        else:
            # Budget beyond the smallest drawable noise is not spent.
            spent = min(share * budget, Fraction(sensitivity, vector.size))
            noise_of_vectors.append(k_norm_scale(sensitivity, spent, vector.size, vector.shape))
    scales, costs = zip(*noise_of_vectors, strict=True)
    return CurvatureNoise(curvature_sensitivity(relation), scales, sum(costs, Fraction(0)))


def _split_curvature(design: Design, law: type[VectorLaw]) -> tuple[Fraction, Fraction, Fraction]:
    """Split a budget among the vectors of a curvature.

    The deviation of K-norm noise goes as a vector's width over its epsilon: beside the weight's own part, shares make
    the sum of the squared deviations least, of which that of means and squares counts `PRODUCTS_RATIO^-3` times. They
    go as the widths to the power 2/3; for Gaussian noise, whose variance goes as the vector's length over rho, as these
    to 1/2.
    """
    _, some, many = design.curvature
    ratio = (many.length / some.length) ** 0.5 if law.concentrated else (many.width / some.width) ** (2 / 3)
    few = Fraction(round(1000 / (1 + PRODUCTS_RATIO * ratio)), 1000) * (1 - WEIGHT_SHARE)
    return WEIGHT_SHARE, few, 1 - WEIGHT_SHARE - few


def _find_law(calibration: ObjectiveNoise, shape: ShapeTag, scale: float, size: int) -> VectorLaw:
    """Find the law of the noise on a vector: K-norm noise of this shape, or Gaussian."""
    return vector_law(DiscreteGaussian.tag if calibration.rho else shape, scale, size)


def _add_curvature_noise(
    statistic: Gradients, weights: Floats, calibration: ObjectiveNoise, noise: Noise
) -> NoisyCurvature | None:
    """Add noise to the curvature at released weights, if it is measured."""
    if calibration.measured is None:
        return None
    scales, over = calibration.measured.scales, statistic.over.curvature
    noisy = [
        sums if scale is None else _find_law(calibration, vector.shape, scale, vector.size).add(sums, noise)
        for sums, scale, vector in zip(statistic.curvature(weights), scales, over, strict=True)
    ]
    return NoisyCurvature(np.concatenate(noisy), scales)


def _bound_tilt(design: Design, law: VectorLaw) -> float:
    """Bound the length of b but for a probability below 1e-41: see step 3."""
    size = design.weights
    if law.concentrated:
        return TAIL_DEVIATIONS * math.sqrt(size) * law.scale * 2.0**-OBJECTIVE_BITS
    radius = ((2 * (size + 1) + 200) * law.scale + size + 1) * 2.0**-OBJECTIVE_BITS
    return SHAPES[design.shape].longest(size) * radius


def _bound_records(records: int, scale: float | None, number: int) -> int:
    """Bound the number of records by the expected and the noisy number, or the public one: see step 4."""
    return max(RECORDS_EXCESS * records, number) + (0 if scale is None else math.ceil(TAIL_SCALES * scale))


def _set_precision(most: int, design: Design, convexity: float, law: VectorLaw) -> tuple[float, float]:
    """Set the gradient at which the minimiser stops, and a weight step no shorter than its error: see step 3."""
    rounding = _bound_rounding(most, design, convexity, law)
    end, lattice = GRADIENT_TOLERANCE * most + rounding, math.sqrt(design.weights) * 2.0 ** -(OBJECTIVE_BITS + 1)
    # A power of two: products with it are exact.
    return end, 2.0 ** math.ceil(math.log2((end + rounding + lattice) / convexity * (1 + 1e-9)))


def _bound_rounding(most: int, design: Design, convexity: float, law: VectorLaw) -> float:
    """Bound how far a computed gradient of `most` records can be off: see step 3."""
    size, several = design.weights, 1 + (design.outputs > 1)
    tilt = _bound_tilt(design, law)
    longest = math.sqrt(2 * most * response_of(design).height / convexity) + 2 * tilt / convexity
    uneven = several * design.size**2 * (1 + math.sqrt(size) * longest) * 2.0**-40
    # n (40 + 8 (K - 1) + m^2 (1 + |w|_1) 2^-40) 2^-53 of step 3, with |w|_1 <= sqrt(d) |w|.
    of_records = most * (40 + 8 * (design.outputs - 1) + uneven)
    return float(math.ldexp(1.0, -53) * (of_records + 8 * (tilt + convexity * longest)) * math.sqrt(size))


def minimiser(statistic: Gradients, tilt: Floats, convexity: float, tolerance: float) -> Floats:
    """Minimise the tilted objective by Newton's method with halved steps; many records begin at the minimum over some.

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
    if statistic.records > WARM_START_RECORDS:
        first = statistic.beginning()
        share = first.records / statistic.records
        w = minimiser(first, share * tilt, share * convexity, max(WARM_START_GRADIENT * first.records, tolerance))
    value, slope, curvature = _expand(statistic, w, rest, tilt, convexity)
    if value > statistic.records * statistic.response.start:  # J(0)
        w = rest
        value, slope, curvature = _expand(statistic, w, rest, tilt, convexity)
    for _ in range(500):
        if math.sqrt(slope @ slope) <= tolerance:
            return w
        move, length = np.linalg.solve(curvature, slope), 1.0
        while True:
            at, lower = _add_exactly(w, rest - length * move)
            ahead = _expand(statistic, at, lower, tilt, convexity)
            # Near the minimum the objective is flat up to rounding: take the full step.
            if length <= 1e-6 or not ahead[0] > value + 1e-12 * abs(value):
                break
            length /= 2
        w, rest = at, lower
        value, slope, curvature = ahead
    raise DiscreetError("the minimum of the objective was not found; please report this")


def _add_exactly(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Add floats exactly: rounded sums and their rounding errors (Knuth's two-sum)."""
    total = a + b
    b_rounded = total - a
    return total, (a - (total - b_rounded)) + (b - b_rounded)


def _expand(
    statistic: Gradients, w: Floats, rest: Floats, tilt: Floats, convexity: float
) -> tuple[float, Floats, Floats]:
    """Compute J, its gradient and its curvature at w plus its rounding errors."""
    cost, slope, curvature = statistic.expansion(w, rest)
    value = cost + convexity * float(w @ w) / 2 + float(tilt @ w)
    return value, slope + convexity * w + convexity * rest + tilt, curvature + convexity * np.eye(len(w))
