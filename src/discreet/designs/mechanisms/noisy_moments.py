"""Second moments with vector noise: sufficient statistics of a linear regression."""

from __future__ import annotations

from discreet.designs.design import Design, Normal
from discreet.designs.kinds.noisy_sums import NoisyMoments, VectorNoise
from discreet.designs.mechanisms.design_mechanism import design_mechanism
from discreet.designs.records.moments import Moments, moment_sensitivity, sum_moments
from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise
from discreet.noise.k_norm import k_norm_scale
from discreet.noise.shapes import Cube
from discreet.privacy.guarantee import Guarantee, Relation


def noisy_moments() -> Mechanism:
    """Release sums of products of features and target, the sufficient statistics of least squares, with vector noise.

    The noise is uniform on a cube of random size (cube noise, the K-norm mechanism of the largest entry). One record
    moves every sum by at most the sensitivity, all at the same time; noise by the largest entry costs that once for all
    sums together, and its deviation, of about `D / sqrt(3)` scales for D sums, is below that of noise on each sum with
    a share of the budget, `sqrt(2) D` scales.

    Returns:
        The mechanism.

    Raises:
        InputError: when a release is calibrated: the guarantee has a delta, or an epsilon for which noise cannot be
            drawn.

    Guarantee:
        Pure epsilon: `moment_sensitivity / scale`, noise and sums in whole numbers. Under ADD_REMOVE the number of
        records is one of the sums. Unit: one record, one row.

    Source:
        Hardt and Talwar (2010), Theorem 4.1, with the cube as the body; Bernstein and Sheldon (2019) for the
        statistics.

    Example:
        >>> import discreet as dc
        >>> stay = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.designs.noisy_moments().calibrate(stay, dc.designs.Normal(stay, 1.0), promise)
        >>> noise.sensitivity == 4096**2, noise.total <= 1  # of a record, in the steps of the grid
        (True, True)
    """

    def calibrate(design: Design, prior: Normal, guarantee: Guarantee) -> VectorNoise:
        if guarantee.delta:
            raise InputError("noisy_moments keeps a pure guarantee; ask for delta 0")
        if design.norm is not None:
            raise InputError("noisy_moments is calibrated to the features' bounds; give the design no norm")
        sums = len(design.moments) + (not guarantee.relation.public_number)
        sensitivity = moment_sensitivity(guarantee.relation)
        scale, reported = k_norm_scale(sensitivity, guarantee.epsilon, sums, Cube.tag)
        return VectorNoise(sensitivity, scale, 1, None, reported)

    def draw(statistic: Moments, prior: Normal, calibration: VectorNoise, noise: Noise) -> NoisyMoments:
        private_total = calibration.sensitivity == moment_sensitivity(Relation.ADD_REMOVE)
        sums = statistic.vector(Relation.ADD_REMOVE if private_total else Relation.REPLACE)
        noisy = noise.k_norm(sums, calibration.scale, Cube.tag)
        return NoisyMoments(statistic.design, noisy, calibration.scale, private_total)

    return design_mechanism("noisy_moments", calibrate, draw, Moments, sum_moments)
