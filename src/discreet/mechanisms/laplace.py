"""Discrete Laplace noise on the families' tables: Algorithm 1 of Zhang et al., corrected.

Corrected: the noise is integer and exact; the scale depends on the neighbouring relation; nothing is clipped, because
clipping at n would use a private number under ADD_REMOVE, and clipping at 0 loses what inference can use (it is left
to `plug_in`). Families that lie in others are not measured: their tables are sums of the others', and the budget is
shared by fewer. Categorical variables cost what binary ones do: a record sits in one cell of each table.
"""

from __future__ import annotations

from collections.abc import Mapping

from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise
from discreet.mechanisms.table_scales import (
    check_budgets,
    even_budgets,
    noisy_tables,
    pure_only,
    table_noise,
    unit_noise,
)
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.privacy.guarantee import Guarantee, Number, Relation, as_rational
from discreet.records.count_sensitivity import cells_moved
from discreet.records.counts import Counts
from discreet.releases.kinds.noisy_counts import NoisyCounts, TableNoise


def laplace(epsilons: Mapping[str, Number] | None = None) -> Mechanism:
    """Add discrete Laplace noise to the family counts.

    Table i gets independent noise of scale `s / epsilon_i` in every cell, with s = 1 under ADD_REMOVE and 2 under
    REPLACE. Under METRIC, where the unit counts values ("1 attribute by arcs"), see `unit_noise`.

    Args:
        epsilons: budget of each table, nats, at most the guarantee's epsilon together; the tables named are those
            measured, and must hold every family. None measures the families that lie in no other and gives each the
            same share.

    Returns:
        The mechanism.

    Raises:
        InputError: when a release is calibrated: a family has no table, the budgets are not positive, or exceed the
            guarantee together; or the guarantee has a delta, which this noise does not need.

    Guarantee:
        `sum_i epsilon_i` <= epsilon, delta = 0. One record changes at most s cells of each table by one, so table i
        moves by at most s in L1 and is epsilon_i-DP; the tables compose to the sum. Unit: one record, counted whole.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Algorithm 1 and Lemma 1; Ghosh et al. (2009) for integer noise;
        Dwork and Roth (2014), Theorems 3.6 and 3.16.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.laplace().calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> dict(noise.scales)  # the family of "rain" is read off that of "wet"
        {'wet': 1.0}
        >>> budgets = {"rain": "0.25", "wet": "0.75"}
        >>> uneven = dc.laplace(budgets).calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> uneven.scales["rain"]
        4.0
    """
    shares = None if epsilons is None else {node: as_rational(value, "epsilon") for node, value in epsilons.items()}

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> TableNoise:
        pure_only("laplace", guarantee)
        if shares is None:
            budgets = even_budgets(network, guarantee.epsilon)
        else:
            budgets = check_budgets(network, shares, guarantee.epsilon)
        if guarantee.relation is Relation.METRIC:
            return unit_noise(network, budgets, guarantee)
        return table_noise(budgets, cells_moved(guarantee.relation))

    def draw(statistic: Counts, prior: Dirichlet, calibration: TableNoise, noise: Noise) -> NoisyCounts:
        tables = noisy_tables(statistic.network, statistic.tables, calibration.scales, DiscreteLaplace, noise)
        return NoisyCounts(statistic.network, tables, calibration.scales)

    return Mechanism("laplace", calibrate, draw, metric=True)
