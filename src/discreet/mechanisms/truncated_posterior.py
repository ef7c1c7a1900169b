"""Posterior sampling for linear regression: draws of weights under a prior on a ball (Zhang et al., Figure 2).

The whole guarantee comes from the ball: inside it the likelihoods of two records differ by a bounded factor. Printed
experiments use a ball of ten prior deviations, which promises little; here the ball is chosen, and the likelihood is
tempered until the draws cost what was asked for.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from discreet.errors import InputError
from discreet.mechanisms.crossing import DesignMechanism, Mechanism
from discreet.mechanisms.noise import Noise
from discreet.model.design import GRID_STEPS, Design, Normal
from discreet.privacy.guarantee import Guarantee
from discreet.records.moments import Moments
from discreet.releases.kinds.weight_draws import Truncation, WeightDraws
from discreet.theory.truncated_normal import sampler_loss, truncated_normal
from discreet.util.arrays import Floats

WEIGHT_DIGITS = 6
"""Decimal digits of a weight that are released."""
SAMPLER_ROUNDING = Fraction(1, 10**9)
"""Relative error of the loss in floating point, and more."""
SETTING_LIMIT = 1e12
"""Largest variance and radius, and inverse of the smallest: their squares and ratios stay far from a float's ends."""
DRAWS_LIMIT = 10_000
"""Most draws: each has the budget's share only."""


def truncated_posterior(
    draws: int = 1, *, variance: float, radius: float = 1.0
) -> DesignMechanism[Truncation, Moments]:
    """Draws of a linear regression's weights from `likelihood^tau times prior` on the ball `|w| <= radius`.

    Everything is in the design's coordinates: features and target between -1 and 1. The tempering exponent tau is 1
    where the budget allows it, else what the budget buys.

    Args:
        draws: joint draws of all weights; they share the budget.
        variance: of the scaled target around its mean; public, assumed.
        radius: of the ball of weights; public. The loss grows with its square.

    Returns:
        The mechanism.

    Raises:
        InputError: no or too many draws, a variance or radius out of range; when a release is calibrated, a
            guarantee with a delta, or a design without a numeric target.

    Guarantee:
        Pure: `draws tau sampler_loss(radius, ...)`. The draws come from a floating-point sampler (exact rejection from
        normal proposals, on the operating system's entropy) and are rounded to six decimals; the guarantee is that of
        exact arithmetic. See `docs/threat-model.md`.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Section on linear regression; Dimitrakakis et al. (JMLR 2017),
        Theorem 8.1; the loss in closed form is `discreet.theory.truncated_normal`'s.

    Example:
        >>> import discreet as dc
        >>> stay = dc.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> law = dc.truncated_posterior(variance=0.04).calibrate(stay, dc.designs.Normal(stay, 1.0), promise)
        >>> 0 < law.temper < 1, law.radius, law.total <= 1
        (True, 1.0, True)
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or not 1 <= draws <= DRAWS_LIMIT:
        raise InputError(f"a truncated posterior needs from 1 to {DRAWS_LIMIT:,} draws, got {draws}")
    if not all(1 / SETTING_LIMIT <= float(value) <= SETTING_LIMIT for value in (variance, radius)):
        raise InputError("a truncated posterior needs a variance and radius from 1e-12 to 1e12")

    def calibrate(design: Design, prior: Normal, guarantee: Guarantee) -> Truncation:
        if guarantee.delta:
            raise InputError("truncated_posterior keeps a pure guarantee; ask for delta 0")
        if design.predicts != "number":
            raise InputError("truncated_posterior needs a design with a numeric target")
        length = math.nextafter(math.sqrt(design.squared_length), math.inf)
        loss = sampler_loss(float(radius), length, 1.0, float(variance), guarantee.relation)
        budget = guarantee.epsilon / draws
        temper = (
            1.0
            if budget * (1 - 2 * SAMPLER_ROUNDING) >= Fraction(loss)
            else float(budget * (1 - 2 * SAMPLER_ROUNDING)) / loss
        )
        if not temper > 0:
            raise InputError("epsilon is too small: the likelihood would be tempered to nothing")
        reported = draws * Fraction(temper) * Fraction(loss) * (1 + SAMPLER_ROUNDING)
        return Truncation(float(radius), float(variance), temper, draws, WEIGHT_DIGITS, reported)

    def draw(statistic: Moments, prior: Normal, calibration: Truncation, noise: Noise) -> WeightDraws:
        design = statistic.over
        products, crossed = _recover_products(statistic)
        weight = calibration.temper / calibration.variance
        weights = truncated_normal(
            weight * products + np.eye(design.size) / prior.deviation**2,
            weight * crossed,
            calibration.radius,
            calibration.draws,
            normals=lambda number: np.asarray(ndtri(noise.uniforms(number))),
            uniforms=noise.uniforms,
        )
        rounded = np.round(weights, calibration.digits) + 0.0  # no negative zero: its sign was rounded away
        return WeightDraws(design, rounded, calibration.variance, calibration.radius, calibration.temper)

    return Mechanism(
        "truncated_posterior", calibrate, draw, Moments, several=False, numbers=lambda over, _: draws * over.size
    )


def _recover_products(statistic: Moments) -> tuple[Floats, Floats]:
    """Recover sums of products of coordinates, shape `(size, size)`, and with the target, shape `(size,)`."""
    design, records = statistic.over, statistic.records
    wide = np.zeros((design.size + 1, design.size + 1))
    for (i, j), value in zip(design.moments, statistic.values.tolist(), strict=True):
        # Squares were centred.
        exact = (value + records * GRID_STEPS**2) // 2 if i == j else value
        wide[i, j] = wide[j, i] = exact / GRID_STEPS**2
    if design.intercept:
        last = design.size - 1
        wide[last, last] = records * design.constant**2
    return wide[:-1, :-1], wide[:-1, -1]
