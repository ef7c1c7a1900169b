"""Discrete Laplace noise on every cell of every family's table: Algorithm 1 of Zhang et al., corrected.

Corrected: the noise is integer and exact; the scale depends on the neighbouring relation; nothing is clipped, because
clipping at n would use a private number under ADD_REMOVE, and clipping at 0 loses what inference can use (it is left
to `plug_in`). Categorical variables cost what binary ones do: a record sits in one cell of each table.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

import numpy as np

from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, scale_for
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.tables import Array, Tables
from discreet.privacy.guarantee import Guarantee, Number, as_rational, as_text
from discreet.privacy.release import Calibration, NoisyCounts
from discreet.sensitive.counts import Counts, cells_moved

__all__ = ["laplace"]

Value = TypeVar("Value", Fraction, float)


def laplace(epsilons: Mapping[str, Number] | None = None) -> Mechanism:
    """Discrete Laplace noise on the family counts.

    Table i gets independent noise of scale `s / epsilon_i` in every cell, with s = 1 under ADD_REMOVE and 2 under
    REPLACE.

    Args:
        epsilons: budget of each node's table, nats, at most the guarantee's epsilon together; None gives each node the
            same share of it.

    Returns:
        The mechanism.

    Raises:
        InputError: when a release is calibrated: the budgets do not name every node once, are not positive, or exceed
            the guarantee together.

    Guarantee:
        `sum_i epsilon_i` <= epsilon, delta = 0. One record changes at most s cells of each table by one, so table i
        moves by at most s in L1 and is epsilon_i-DP; the tables compose to the sum. Unit: one record, counted whole.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Algorithm 1 and Lemma 1; Ghosh et al. (2009) for integer noise;
        Dwork and Roth (2014), Theorems 3.6 and 3.16.
    """
    shares = None if epsilons is None else {node: as_rational(value, "epsilon") for node, value in epsilons.items()}

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> Calibration:
        budgets = _budgets(network, shares, guarantee)
        moved = cells_moved(guarantee.relation)
        scales: dict[str, float] = {}
        reported = Fraction()
        for budget, nodes in _groups(budgets).items():
            scale, report = scale_for(moved * len(nodes), budget * len(nodes))
            scales |= dict.fromkeys(nodes, scale)
            reported += report
        return Calibration(moved, budgets, {node: scales[node] for node in network.nodes}, reported)

    return Mechanism("laplace", calibrate, _draw)


def _draw(statistic: Counts, prior: Dirichlet, calibration: Calibration, noise: Noise) -> NoisyCounts:
    """One vector call for all tables of equal scale: a call's length is public, and its time tells least."""
    network, noisy = statistic.network, dict[str, Array]()
    for scale, nodes in _groups(calibration.scales).items():
        flat = np.concatenate([statistic.tables[node].ravel() for node in nodes])
        ends = np.cumsum([statistic.tables[node].size for node in nodes])[:-1]
        for node, part in zip(nodes, np.split(noise.discrete_laplace(flat, scale), ends), strict=True):
            noisy[node] = part.reshape(network.shape(node))
    return NoisyCounts(Tables(network, noisy), calibration.scales)


def _budgets(network: Network, shares: Mapping[str, Fraction] | None, guarantee: Guarantee) -> Mapping[str, Fraction]:
    """Exact budget of every node's table."""
    if shares is None:
        return dict.fromkeys(network.nodes, guarantee.epsilon / len(network.nodes))
    if set(shares) != set(network.nodes):
        odd = sorted(set(shares) ^ set(network.nodes))
        raise InputError(f"epsilons must name every node of the network once; missing or unknown: {odd[:5]}")
    if not all(share > 0 for share in shares.values()):
        raise InputError("every node needs an epsilon greater than 0")
    if sum(shares.values()) > guarantee.epsilon:
        raise InputError(
            f"the epsilons of the nodes sum to {as_text(sum(shares.values(), Fraction()))}, "
            f"more than the guarantee's {as_text(guarantee.epsilon)}"
        )
    return {node: shares[node] for node in network.nodes}


def _groups(values: Mapping[str, Value]) -> dict[Value, list[str]]:
    """Nodes by equal value, in order."""
    groups: dict[Value, list[str]] = {}
    for node, value in values.items():
        groups.setdefault(value, []).append(node)
    return groups
