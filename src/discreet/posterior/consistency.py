"""Mutual consistency: noisy tables that share variables are made to agree, by generalised least squares on counts.

Chowdhury et al. (ICML 2020) make conditional probabilities agree, where agreement has no meaning; here it is counts,
weighted by their inverse variances, with the total held where it is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import numpy.typing as npt

from discreet.model.network import Network
from discreet.releases.kinds.two_stages import TwoStageCounts
from discreet.releases.measurement import laplace_variance

__all__ = ["consistent", "merged"]

Floats = npt.NDArray[np.float64]


def merged(payload: TwoStageCounts) -> tuple[dict[str, Floats], dict[str, float]]:
    """Both stages in one estimate of each measured table, weighted by their inverse variances.

    Args:
        payload: two noisy measurements of the same tables.

    Returns:
        (tables, variance of the noise in their cells). A count in the sample is divided by the sampling probability;
        that it varies with who was in the sample enters by the mean count of the table.
    """
    share = float(payload.sampling)
    tables, variances = {}, {}
    for node, second in payload.second.tables.items():
        later = max(laplace_variance(payload.second.scales[node]), 1e-9)
        sampled = max(float(second.mean()), 1.0) * (1 - share) / share
        earlier = max(laplace_variance(payload.first.scales[node]), 1e-9) / share**2 + sampled
        variances[node] = 1 / (1 / earlier + 1 / later)
        tables[node] = variances[node] * (payload.first.tables[node] / share / earlier + second / later)
    return tables, variances


def consistent(
    network: Network, tables: Mapping[str, Floats], variances: Mapping[str, float], total: float | None
) -> dict[str, Floats]:
    """The nearest tables that agree on every set of variables that two of them share.

    One pass over the intersections of the tables' scopes, the small ones first: the margins over an intersection are
    set to their mean with weights `1 / (variance * cells summed)`, and what that changes is spread evenly over the
    cells. Later steps undo none of the earlier, and the result is the generalised least squares estimate.

    Args:
        network: of the tables.
        tables: by node, axes `(*parents, child)`; noisy counts.
        variances: of the noise in every cell of a table.
        total: number of records where it is public; None leaves it to the tables.

    Returns:
        Tables that agree, perhaps with negative cells.

    Source:
        Qardaji, Yang and Li (2014), PriView, with the inverse-variance weights of Hay et al. (2010).
    """
    scopes = {node: frozenset(network.family(node)) for node in tables}
    result = {node: np.asarray(table, np.float64) for node, table in tables.items()}
    for shared in _intersections(set(scopes.values())):
        holders = [node for node, scope in scopes.items() if shared <= scope]
        margins = {node: _margin(network, node, result[node], shared) for node in holders}
        cells = network.cells(shared)
        weights = {node: cells / (variances[node] * result[node].size) for node in holders}
        if not shared and total is not None:
            target = np.array(float(total))
        else:
            stacked = np.array([margins[node] for node in holders])
            target = np.asarray(np.average(stacked, axis=0, weights=[weights[node] for node in holders]))
        for node in holders:
            spread = (target - margins[node]) * cells / result[node].size
            result[node] = result[node] + _broadcast(network, node, spread, shared)
    return result


def _intersections(scopes: set[frozenset[str]]) -> list[frozenset[str]]:
    """All intersections of two or more scopes and the empty set, the small ones first."""
    found: set[frozenset[str]] = {one & other for one, other in combinations(scopes, 2)} | {frozenset()}
    fresh = found
    while fresh:
        fresh = {one & other for one in fresh for other in scopes} - found - scopes
        found |= fresh
    return sorted(found, key=lambda shared: (len(shared), sorted(shared)))


def _margin(network: Network, node: str, table: Floats, shared: frozenset[str]) -> Floats:
    """Sums over what is not shared; axes in the network's order."""
    family = network.family(node)
    summed = table.sum(axis=tuple(axis for axis, name in enumerate(family) if name not in shared))
    kept = [name for name in family if name in shared]
    order = [kept.index(name) for name in network.nodes if name in shared]
    return np.asarray(summed.transpose(order))


def _broadcast(network: Network, node: str, margin: Floats, shared: frozenset[str]) -> Floats:
    """The inverse of `_margin`'s order, with an axis of length 1 for each variable that is not shared."""
    ordered = [name for name in network.nodes if name in shared]
    kept = [name for name in network.family(node) if name in shared]
    turned = margin.transpose([ordered.index(name) for name in kept])
    return turned.reshape([network.schema[name].size if name in shared else 1 for name in network.family(node)])
