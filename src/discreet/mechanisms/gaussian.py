"""Discrete Gaussian noise on the families' tables, for guarantees with a delta.

One record moves one cell (two, when it is replaced) of each table by one, so M tables move by the root of M in L2 where
Laplace noise pays for M: from a handful of tables on, a small delta buys much less noise.
"""

from __future__ import annotations

from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, deviation_for
from discreet.mechanisms.table_scales import noisy_tables
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.noise.noise_laws import DiscreteGaussian
from discreet.privacy.guarantee import Guarantee
from discreet.records.count_sensitivity import cells_moved
from discreet.records.counts import Counts
from discreet.releases.kinds.noisy_counts import GaussianNoise, NoisyCounts


def gaussian() -> Mechanism:
    """Add discrete Gaussian noise of one scale to every cell of the family counts; it needs a delta.

    Families whose variables all lie in another family's table are read from that one, and not measured.

    Returns:
        The mechanism; it needs a guarantee with a delta.

    Raises:
        InputError: when a release is calibrated without a delta, or with an epsilon that no scale can keep.

    Guarantee:
        (epsilon, delta). The M tables together move by at most `sqrt(M s)` in L2 (s = 1 under ADD_REMOVE, 2 under
        REPLACE), so they are `M s / (2 scale^2)`-zCDP, and the scale is the smallest whose tight conversion keeps
        epsilon at delta. Unit: one record, counted whole.

    Source:
        Canonne, Kamath and Steinke (2020), Theorem 4 and Proposition 12; Bun and Steinke (2016) for zCDP.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta="1e-6", relation="add-remove", unit="record")
        >>> noise = dc.gaussian().calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> 4 < noise.scale < 5, noise.total <= 1
        (True, True)
    """

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> GaussianNoise:
        squared = len(network.maximal_families) * cells_moved(guarantee.relation)
        scale, rho, reported = deviation_for(squared, guarantee)
        return GaussianNoise(squared, scale, rho, reported)

    def draw(statistic: Counts, prior: Dirichlet, calibration: GaussianNoise, noise: Noise) -> NoisyCounts:
        scales = dict.fromkeys(statistic.network.maximal_families, calibration.scale)
        tables = noisy_tables(statistic.network, statistic.tables, scales, DiscreteGaussian, noise)
        return NoisyCounts(statistic.network, tables, scales, DiscreteGaussian.tag)

    return Mechanism("gaussian", calibrate, draw)
