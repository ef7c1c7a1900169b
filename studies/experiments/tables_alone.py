"""`planned(pairs_share=0)` without stars: every table alone, with noise of its own. What stars are measured against."""

from __future__ import annotations

from dataclasses import replace

import discreet as dc
from discreet.mechanisms.table_plans import laplace_plan
from discreet.model.schema import Scope
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.planning.star_cover import star_cover
from discreet.planning.workload import default_shares
from discreet.records.count_sensitivity import cells_moved

from .shipped import NO_PAIRS, planned

__all__ = ["alone", "tables_alone"]


def alone(network: dc.Network) -> list[Scope]:
    """The tables: merged where that costs less than several."""
    return [scope for (scope,) in star_cover(network, 0)]


def tables_alone() -> dc.tools.Mechanism:
    """The mechanism; its counts need these tables."""

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> dc.kinds.PlannedNoise:
        shares = default_shares(network, star_cover(network, 0), DiscreteLaplace)
        return laplace_plan(network, shares, guarantee.epsilon, cells_moved(guarantee.relation))

    return replace(planned(NO_PAIRS), calibrate=calibrate)
