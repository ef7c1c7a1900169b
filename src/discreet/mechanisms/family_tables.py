"""What the mechanisms that publish noisy family tables share: which tables, their budgets, and the vector calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeVar

import numpy as np

from discreet.errors import InputError
from discreet.mechanisms.noise import Integers, scale_for
from discreet.model.network import Network
from discreet.model.tables import Array, Tables
from discreet.privacy.calibration import TableNoise
from discreet.privacy.guarantee import Guarantee, as_text

__all__ = ["checked_budgets", "even_budgets", "noisy_tables", "pure_only", "table_noise"]

Value = TypeVar("Value", Fraction, float)


def even_budgets(network: Network, epsilon: Fraction) -> Mapping[str, Fraction]:
    """The same share for every family that lies in no other: the tables of the others are sums of theirs."""
    return dict.fromkeys(network.maximal_families, epsilon / len(network.maximal_families))


def table_noise(epsilons: Mapping[str, Fraction], moved: int) -> TableNoise:
    """Discrete Laplace scales for the tables' budgets.

    Args:
        epsilons: exact budget of each measured family's table.
        moved: most cells of one table that neighbours differ in, each by one record.

    Returns:
        The calibration: scales `moved / epsilon`.

    Raises:
        InputError: a budget so small or so large that no scale is left.
    """
    scales: dict[str, float] = {}
    reported = Fraction()
    for budget, nodes in _groups(epsilons).items():
        scale, report = scale_for(moved * len(nodes), budget * len(nodes))
        scales |= dict.fromkeys(nodes, scale)
        reported += report
    return TableNoise(moved, epsilons, {node: scales[node] for node in epsilons}, reported)


def noisy_tables(
    counts: Tables, scales: Mapping[str, float], add: Callable[[Integers, float], Integers]
) -> dict[str, Array]:
    """Tables with noise, one vector call for all of equal scale: a call's length is public, and its time tells least.

    Args:
        counts: private.
        scales: of the noise, for each family that is measured.
        add: the noise.

    Returns:
        Noisy tables by node.
    """
    noisy = dict[str, Array]()
    for scale, nodes in _groups(scales).items():
        flat = np.concatenate([counts[node].ravel() for node in nodes])
        ends = np.cumsum([counts[node].size for node in nodes])[:-1]
        for node, part in zip(nodes, np.split(add(flat, scale), ends), strict=True):
            noisy[node] = part.reshape(counts.network.shape(node))
    return noisy


def checked_budgets(network: Network, shares: Mapping[str, Fraction], limit: Fraction) -> Mapping[str, Fraction]:
    """Budgets that a user gave for each table, in the network's order.

    Raises:
        InputError: a family that lies in no other has none, an unknown node has one, or they are not positive or sum
            to more than the limit.
    """
    wanted, given = set(network.maximal_families), set(shares)
    if not wanted <= given <= set(network.nodes):
        odd = sorted((wanted - given) | (given - set(network.nodes)))
        raise InputError(
            "epsilons must name every node whose family lies in no other, and may name other nodes; "
            f"missing or unknown: {odd[:5]}"
        )
    if not all(share > 0 for share in shares.values()):
        raise InputError("every table needs an epsilon greater than 0")
    if sum(shares.values()) > limit:
        raise InputError(
            f"the epsilons of the nodes sum to {as_text(sum(shares.values(), Fraction()))}, "
            f"more than the guarantee's {as_text(limit)}"
        )
    return {node: shares[node] for node in network.nodes if node in shares}


def pure_only(name: str, guarantee: Guarantee) -> None:
    """Refuse a delta that would be charged and not used."""
    if guarantee.delta:
        raise InputError(f"{name} noise keeps a pure guarantee; ask for delta 0, or use the mechanism 'gaussian'")


def _groups(values: Mapping[str, Value]) -> dict[Value, list[str]]:
    """Nodes by equal value, in order."""
    groups: dict[Value, list[str]] = {}
    for node, value in values.items():
        groups.setdefault(value, []).append(node)
    return groups
