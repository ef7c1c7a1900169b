"""Noisy gradients of a logistic regression: Williams and McSherry's measurements, with a sensitivity of the vector.

Correction: the noise in the paper's code is calibrated to one coordinate. A record changes all coordinates at once, and
noise is calibrated to the norm of that change.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from discreet.designs.design import GRID_STEPS, Design, Normal
from discreet.designs.kinds.gradient_trace import GradientTrace
from discreet.designs.kinds.noisy_sums import VectorNoise
from discreet.designs.mechanisms.design_mechanism import design_mechanism
from discreet.designs.mechanisms.record_number import noisy_total, require_records, total_noise
from discreet.designs.records.gradients import Gradients, gradient_sensitivity, sum_gradients
from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise
from discreet.noise.k_norm import k_norm_scale
from discreet.noise.shapes import Ball
from discreet.privacy.guarantee import Guarantee

STEPS_LIMIT = 1000
"""Most steps: with more the noise on each hides the gradient."""
MOST_NUMBERS = 2**20
"""Most numbers of a release, steps times weights: exact noise on so many takes about ten seconds."""


def noisy_gradients(steps: int = 2, *, records: int) -> Mechanism:
    """Fit a logistic regression by few steps of gradient descent, each gradient released with noise.

    The first gradient is at weights of 0, where it is half of a sum of whole coordinates: the same noise costs half as
    much there. With one step this is a single noisy vector, the one-shot classifier. A step goes to
    `theta + 4 g / (records sqrt(m B^2))`, entry by entry, where m is the mean square of a coordinate that is uniform in
    its bounds, B is the largest norm of a record, and 1/4 the largest slope of a sigmoid. This is the geometric mean of
    Newton's step at 0 for uniform covariates, `4 g / (records m)`, which overshoots for others, and of the longest step
    that never overshoots, `4 g / (records B^2)`.

    Args:
        steps: number of released gradients. They share the budget, so each of T has T - 1/2 times the noise of a single
            one that is not at 0.
        records: public number that scales the step: an expected number of records, not a counted one.

    Returns:
        The mechanism.

    Raises:
        InputError: no steps or too many, or a number of records that is not positive; when a release is calibrated, a
            guarantee with a delta, an epsilon for which noise cannot be drawn, or more than 2^20 numbers.

    Guarantee:
        Pure epsilon: `(T - 1/2) gradient_sensitivity / scale`, and 1/20 of epsilon for the number of records under
        ADD_REMOVE; later points depend on earlier noisy gradients only (adaptive composition). All sums and noise are
        whole numbers.

    Source:
        Williams and McSherry (NIPS 2010), section 4.1, corrected; Hardt and Talwar (2010) for the noise.

    Example:
        >>> import discreet as dc
        >>> ill = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("ill", ("no", "yes")))
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.research.noisy_gradients(3, records=1000).calibrate(ill, dc.designs.Normal(ill, 1.0), promise)
        >>> noise.total <= 1, round(noise.total_scale)  # 1/20 of epsilon is for the number of records
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
                f"{steps:,} gradients of {design.size:,} weights are more than {MOST_NUMBERS:,} numbers; use fewer"
            )
        left, total_scale, total_cost = total_noise(guarantee)
        sensitivity = gradient_sensitivity(design, guarantee.relation)
        weight, slack = steps - Fraction(1, 2), design.size * Ball.slack
        scale, reported = k_norm_scale(sensitivity, (left - slack) / weight, design.size, design.shape)
        return VectorNoise(sensitivity, scale, steps, total_scale, weight * reported + slack + total_cost)

    def draw(statistic: Gradients, prior: Normal, calibration: VectorNoise, noise: Noise) -> GradientTrace:
        design = statistic.over
        mean_squares = np.full(design.size, 1 / 3 if design.norm is None else design.norm**2 / len(design.features))
        if design.intercept:
            mean_squares[-1] = design.constant**2
        points, gradients, theta = [], [], np.zeros(design.size)
        for step in range(steps):
            # Twice the gradient at 0 has the sensitivity of any other gradient, and is released with twice the noise.
            sums, factor = (statistic.signed(), 2) if step == 0 else (statistic.at(theta), 1)
            noisy = noise.k_norm(sums, factor * calibration.scale, design.shape) / (factor * GRID_STEPS)
            points.append(theta)
            gradients.append(noisy)
            theta = theta + 4 * noisy / (records * np.sqrt(mean_squares * float(design.squared_length)))
        return GradientTrace(
            design=design,
            points=np.array(points),
            gradients=np.array(gradients),
            scale=calibration.scale / GRID_STEPS,
            weights=theta,
            total=noisy_total(statistic.records, calibration.total_scale, noise),
        )

    return design_mechanism("noisy_gradients", calibrate, draw, Gradients, sum_gradients)
