"""Noisy gradients of a logistic regression: Williams and McSherry's measurements, with a sensitivity of the vector.

Corrected: what the paper's code adds to every coordinate pays for one coordinate. A record moves all of them at once,
and noise is calibrated to the norm of that move.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise
from discreet.mechanisms.record_number import noisy_total, require_records, total_noise
from discreet.model.design import GRID_STEPS, Design, Normal
from discreet.noise.k_norm import k_norm_scale
from discreet.noise.shapes import Ball
from discreet.privacy.guarantee import Guarantee
from discreet.records.gradients import Gradients, gradient_sensitivity
from discreet.releases.kinds.gradient_trace import GradientTrace
from discreet.releases.kinds.noisy_sums import VectorNoise

STEPS_LIMIT = 1000
"""Most steps: with more the noise on each is beyond use."""
MOST_NUMBERS = 2**20
"""Most numbers of a release, steps times weights: exact noise on each takes some ten seconds in all."""


def noisy_gradients(steps: int = 2, *, records: int) -> Mechanism:
    """Fit a logistic regression by few steps of gradient descent, each gradient released with noise.

    The first gradient is at weights of 0, where it is half of a sum of whole coordinates: the same noise costs half as
    much there. With one step this is a single noisy vector, the one-shot classifier. A step goes to
    `theta + 4 g / (records sqrt(m B^2))`, entry by entry, where m is the mean square of a coordinate that fills its
    bounds evenly, B is the longest a record can be, and 1/4 the steepest a sigmoid gets: half way, in ratio, between
    Newton's step at 0 for covariates that fill their bounds, `4 g / (records m)`, which overshoots for others, and the
    longest step that never does, `4 g / (records B^2)`.

    Args:
        steps: gradients that are released; they share the budget, so each of T has T - 1/2 times the noise of one that
            is not at 0.
        records: public number that the step is scaled by: an expected number of records, not one that was counted.

    Returns:
        The mechanism.

    Raises:
        InputError: no or too many steps, or a number of records that is not positive; when a release is calibrated, a
            guarantee with a delta, an epsilon for which noise cannot be drawn, or more than 2^20 numbers.

    Guarantee:
        Pure epsilon: `(T - 1/2) gradient_sensitivity / scale`, and 1/20 of epsilon for the number of records under
        ADD_REMOVE; later points depend on earlier noisy gradients only (adaptive composition). All sums and noise are
        whole numbers.

    Source:
        Williams and McSherry (NIPS 2010), section 4.1, corrected; Hardt and Talwar (2010) for the noise.

    Example:
        >>> import discreet as dc
        >>> ill = dc.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("ill", ("no", "yes")))
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.research.noisy_gradients(3, records=1000).calibrate(ill, dc.designs.Normal(ill, 1.0), promise)
        >>> noise.total <= 1, round(noise.total_scale)  # 1/20 of epsilon tells how many records there are
        (True, 20)
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= STEPS_LIMIT:
        raise InputError(f"noisy gradients need a whole number of steps from 1 to {STEPS_LIMIT:,}, got {steps}")
    require_records(records)

    def calibrate(design: Design, prior: Normal, guarantee: Guarantee) -> VectorNoise:
        if guarantee.delta:
            raise InputError("noisy_gradients keeps a pure guarantee; ask for delta 0")
        if design.predicts != "class":
            raise InputError(
                "noisy_gradients needs a target of two classes; objective_perturbation takes more, and counts"
            )
        if steps * design.size > MOST_NUMBERS:
            raise InputError(
                f"{steps:,} gradients of {design.size:,} weights are more than {MOST_NUMBERS:,} numbers; take fewer"
            )
        left, total_scale, total_cost = total_noise(guarantee)
        sensitivity = gradient_sensitivity(design, guarantee.relation)
        weight, kept = steps - Fraction(1, 2), design.size * Ball.slack
        scale, reported = k_norm_scale(sensitivity, (left - kept) / weight, design.size, design.shape)
        return VectorNoise(sensitivity, scale, steps, total_scale, weight * reported + kept + total_cost)

    def draw(statistic: Gradients, prior: Normal, calibration: VectorNoise, noise: Noise) -> GradientTrace:
        design = statistic.over
        even = np.full(design.size, 1 / 3 if design.norm is None else design.norm**2 / len(design.features))
        if design.intercept:
            even[-1] = design.constant**2
        points, found, theta = [], [], np.zeros(design.size)
        for step in range(steps):
            # Twice the gradient at 0 is as sensitive as any other gradient once, and has twice the noise.
            sums, times = (statistic.signed(), 2) if step == 0 else (statistic.at(theta), 1)
            noisy = noise.k_norm(sums, times * calibration.scale, design.shape) / (times * GRID_STEPS)
            points.append(theta)
            found.append(noisy)
            theta = theta + 4 * noisy / (records * np.sqrt(even * float(design.squared_length)))
        return GradientTrace(
            design=design,
            points=np.array(points),
            gradients=np.array(found),
            scale=calibration.scale / GRID_STEPS,
            weights=theta,
            total=noisy_total(statistic.records, calibration.total_scale, noise),
        )

    return Mechanism("noisy_gradients", calibrate, draw, Gradients)
