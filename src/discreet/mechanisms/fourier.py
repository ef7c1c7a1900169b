"""Noise on integer contrasts of the family tables: the Fourier mechanism, Algorithm 2 of Zhang et al., corrected.

Corrected: the noise is integer and exact; the scale is the exact sensitivity of all contrasts together, for each
relation, where the paper has twice their number; categorical variables have contrasts of neighbouring states; the shift
that makes tables non-negative is measured on noise alone, 18 times smaller than the printed one on the paper's own
example, and recorded, so that readers subtract it. Tables of families that share variables agree exactly.
"""

from __future__ import annotations

import numpy as np

from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, scale_for
from discreet.mechanisms.table_scales import pure_only
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.privacy.guarantee import Guarantee
from discreet.records.counts import Counts
from discreet.releases.kinds.noisy_contrasts import CoefficientNoise, NoisyCoefficients
from discreet.theory.contrast_sensitivity import contrast_sensitivity
from discreet.theory.contrasts import coefficients, stealth_shift

SHIFT_SEED = 0
"""Seed of the Monte Carlo for the shift: it sees no data, and a calibration must come out the same each time."""


def fourier(*, stealth: float | None = None) -> Mechanism[CoefficientNoise]:
    """Discrete Laplace noise on the Fourier coefficients of the family counts, which overlapping families share.

    For each subset of a family's variables, these are the sums of its table with weights that add to 0 over each of
    them: +1 and -1 for variables of two states.

    Args:
        stealth: probability with which all cells of all tables shall come out non-negative, whatever the data, by a
            public shift of the number of records; None adds no shift. Posteriors subtract the shift, so it is only for
            programs that cannot read negative counts.

    Returns:
        The mechanism.

    Raises:
        InputError: a probability that is not between 0 and 1; when a release is calibrated, a guarantee with a delta.

    Guarantee:
        Pure epsilon: the scale is S / epsilon with S the L1 sensitivity of all contrasts, or a proven upper bound where
        finding the maximum is too expensive (the calibration says which). Under REPLACE the number of records is public
        and released as it is. Unit: one record, counted whole.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Algorithm 2 and Theorem 2; Barak et al. (2007) for the idea; the
        sensitivities are derived in `discreet.theory.contrast_sensitivity`.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.fourier().calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> noise.sensitivity, noise.scale, noise.exact  # four contrasts, each moved by one record by 1
        (4, 4.0, True)
    """
    if stealth is not None and not 0 < stealth < 1:
        raise InputError(f"stealth is a probability between 0 and 1, got {stealth}")

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> CoefficientNoise:
        pure_only("fourier", guarantee)
        bound = contrast_sensitivity(network, guarantee.relation)
        scale, reported = scale_for(max(bound.l1, 1), guarantee.epsilon)
        noisy_total = not guarantee.relation.public_number
        shift = 0
        if stealth is not None:
            rng = np.random.default_rng(SHIFT_SEED)
            shift = stealth_shift(network, scale, stealth, noisy_total=noisy_total, rng=rng)
        return CoefficientNoise(max(bound.l1, 1), bound.exact, scale, shift, noisy_total, reported)

    def draw(statistic: Counts, prior: Dirichlet, calibration: CoefficientNoise, noise: Noise) -> NoisyCoefficients:
        exact = coefficients(statistic.tables)
        noised = [subset for subset in exact if subset or calibration.noisy_total]
        flat = np.concatenate([exact[subset].ravel() for subset in noised])
        ends = np.cumsum([exact[subset].size for subset in noised])[:-1]
        released = dict(exact)
        for subset, part in zip(noised, np.split(noise.discrete_laplace(flat, calibration.scale), ends), strict=True):
            released[subset] = part.reshape(exact[subset].shape)
        released[()] = released[()] + calibration.shift
        return NoisyCoefficients(
            statistic.network, released, calibration.scale, calibration.shift, calibration.noisy_total
        )

    return Mechanism("fourier", calibrate, draw)
