"""Second moments in groups, each with its share of the budget: for linear regressions on many features."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from discreet.designs.design import Design, Normal
from discreet.designs.kinds.noisy_sums import GROUPS, GroupedMoments, GroupNoise, group_positions
from discreet.designs.mechanisms.design_mechanism import design_mechanism
from discreet.designs.records.moments import Moments, moment_sensitivity, sum_moments
from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, deviation_for, deviation_within
from discreet.noise.k_norm import k_norm_scale
from discreet.noise.noise_laws import DiscreteGaussian
from discreet.noise.shapes import Cube, vector_law
from discreet.privacy.guarantee import Guarantee, Relation

TARGET_SHARE = Fraction(1, 10)
"""Share of the budget for the number of records and the target's own sums: three sums that every answer uses."""
WEIGHTS_LENGTH = 0.5
"""Prior length of the coefficients that multiply the errors of products of features."""


def grouped_moments() -> Mechanism:
    """Release sums of products of features and target, as `noisy_moments`, with a budget for each of three groups.

    With noise of deviation s_c on sums of products with the target and s_A on those of two features, an equation of
    least squares is off by `s_c^2 + |theta|^2 s_A^2`. Cube noise on D sums has a deviation of about D over its epsilon,
    so that this is least where epsilons are as `(w D^2)^(1/3)`, with w = 1 and `|theta|^2` for the two groups; for
    Gaussian noise, where D / rho is squared deviation, as `(w D)^(1/2)`. `|theta|` is taken for 1/2.

    Returns:
        The mechanism: cube noise for a guarantee without delta, Gaussian noise with one.

    Raises:
        InputError: when a release is calibrated: the design has a norm or no numeric target, or an epsilon for which
            noise cannot be drawn.

    Guarantee:
        Without delta pure epsilon: the sum over the groups of `moment_sensitivity / scale`, noise and sums in whole
        numbers. With one (epsilon, delta): a group of D sums moves by at most `sqrt(D) moment_sensitivity` in L2, so
        the groups are together `sum of D sensitivity^2 / (2 scale^2)`-zCDP, split from a rho whose tight conversion
        keeps epsilon at delta. Under ADD_REMOVE the number of records is one of the sums. Unit: one record, one row.

    Source:
        Hardt and Talwar (2010), Theorem 4.1, with the cube as the body; Canonne, Kamath and Steinke (2020), Theorem 4
        and Proposition 12; Wang (UAI 2018) for noise on moments of a regression.
        `discreet.designs.mechanisms.grouped_moments` derives the split.

    Example:
        >>> import discreet as dc
        >>> stay = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.designs.grouped_moments().calibrate(stay, dc.designs.Normal(stay, 1.0), promise)
        >>> noise.noise, len(noise.scales), noise.total <= 1
        ('cube', 3, True)
    """

    def calibrate(design: Design, prior: Normal, guarantee: Guarantee) -> GroupNoise:
        if design.norm is not None:
            raise InputError("grouped_moments is calibrated to the features' bounds; give the design no norm")
        if design.predicts != "number":
            raise InputError("grouped_moments needs a numeric target; noisy_moments takes designs without one")
        noisy_total = not guarantee.relation.public_number
        sizes = np.bincount(group_positions(design, noisy_total=noisy_total), minlength=len(GROUPS)).tolist()
        sensitivity = moment_sensitivity(guarantee.relation)
        if guarantee.delta:
            return _calibrate_gaussian(sizes, sensitivity, guarantee)
        shares = _split_budget(sizes, power=2)
        noise_of_groups = [
            k_norm_scale(sensitivity, share * guarantee.epsilon, size, Cube.tag) if size else (None, Fraction(0))
            for size, share in zip(sizes, shares, strict=True)
        ]
        scales, costs = zip(*noise_of_groups, strict=True)
        return GroupNoise(Cube.tag, sensitivity, scales, None, sum(costs, Fraction(0)))

    def draw(statistic: Moments, prior: Normal, calibration: GroupNoise, noise: Noise) -> GroupedMoments:
        design = statistic.design
        noisy_total = calibration.sensitivity == moment_sensitivity(Relation.ADD_REMOVE)
        sums = statistic.vector(Relation.ADD_REMOVE if noisy_total else Relation.REPLACE).copy()
        groups = group_positions(design, noisy_total=noisy_total)
        for group, scale in enumerate(calibration.scales):
            if scale is not None:
                group_sums = sums[groups == group]
                sums[groups == group] = vector_law(calibration.noise, scale, group_sums.size).add(group_sums, noise)
        return GroupedMoments(design, sums, calibration.noise, calibration.scales, noisy_total)

    return design_mechanism("grouped_moments", calibrate, draw, Moments, sum_moments)


def _calibrate_gaussian(sizes: list[int], sensitivity: int, guarantee: Guarantee) -> GroupNoise:
    """Calibrate discrete Gaussian noise: a zero-concentrated loss, split among the groups."""
    _, rho, reported = deviation_for(1, guarantee)
    noise_of_groups = [
        deviation_within(size * sensitivity**2, share * rho) if size else (None, Fraction(0))
        for size, share in zip(sizes, _split_budget(sizes, power=1), strict=True)
    ]
    scales, costs = zip(*noise_of_groups, strict=True)
    return GroupNoise(DiscreteGaussian.tag, sensitivity, scales, sum(costs, Fraction(0)), reported)


def _split_budget(sizes: list[int], *, power: int) -> list[Fraction]:
    """Split the budget among the groups; 0 for one without sums.

    Args:
        sizes: sums of each.
        power: of the number of sums in their noise's squared deviation.
    """
    _, features, pairs = sizes
    if not pairs:
        return [TARGET_SHARE, 1 - TARGET_SHARE, Fraction(0)]
    # Variances are (size / share)^power: a / s^p + b / t^p is least at t / s = (b / a)^(1 / (p + 1)).
    ratio = (WEIGHTS_LENGTH**2 * (pairs / features) ** power) ** (1 / (power + 1))
    for_pairs = Fraction(round(1000 * ratio / (1 + ratio)), 1000) * (1 - TARGET_SHARE)
    return [TARGET_SHARE, 1 - TARGET_SHARE - for_pairs, for_pairs]
