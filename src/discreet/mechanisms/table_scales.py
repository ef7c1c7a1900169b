"""Common parts of mechanisms with noisy tables: the tables, their budgets and scales, and the vector calls."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import TypeVar

import numpy as np

from discreet.errors import InputError
from discreet.mechanisms.noise import scale_for
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.structural_zeros import possible_cells
from discreet.noise.noise_laws import CellLaw, IntegerNoise
from discreet.privacy.guarantee import Guarantee, as_text
from discreet.releases.kinds.noisy_counts import TableNoise
from discreet.releases.metric_unit import attribute_units, distance_of
from discreet.util.arrays import Array

Key = TypeVar("Key", bound=str | Scope)
Group = TypeVar("Group", bound=Hashable)
Value = TypeVar("Value", Fraction, float)


def even_budgets(network: Network, epsilon: Fraction) -> Mapping[str, Fraction]:
    """Split the budget evenly among families that lie in no other; tables of the others are sums of theirs.

    Args:
        network: public.
        epsilon: of all tables together.

    Returns:
        Budgets by node.

    Example:
        >>> from discreet.model.schema import Variable
        >>> bits = tuple(Variable(name, ("no", "yes")) for name in "ab")
        >>> dict(even_budgets(Network(bits, {"a": (), "b": ()}), Fraction(1)))
        {'a': Fraction(1, 2), 'b': Fraction(1, 2)}
    """
    return dict.fromkeys(network.maximal_families, epsilon / len(network.maximal_families))


def table_noise(epsilons: Mapping[str, Fraction], moved: int) -> TableNoise:
    """Calibrate discrete Laplace noise for the budgets of families' tables; the rest is as in `laplace_scales`."""
    scales, reported = laplace_scales(epsilons, moved)
    return TableNoise(moved, epsilons, scales, reported)


def unit_noise(network: Network, epsilons: Mapping[str, Fraction], guarantee: Guarantee) -> TableNoise:
    """Calibrate discrete Laplace noise on tables for a metric that counts the values of a record that differ.

    A value that changes moves one record in each table that has its variable, so by 2 in L1, and no other table. With
    arcs a variable's unit counts the families that have it, so that noise of scale `2 / epsilon` serves any number of
    families.

    Args:
        network: public.
        epsilons: of each measured family's table; only their proportions matter.
        guarantee: pure, under a metric of attributes.

    Returns:
        The noise of the least scales for which no value's tables cost more than epsilon for each of its units.

    Raises:
        InputError: another metric.

    Source:
        Dimitrakakis et al. (JMLR 2017), Definition 2 and the distance of Lemma 24; Dwork and Roth (2014), Theorem 3.6.

    Example:
        >>> from discreet.model.schema import Variable
        >>> a, b, c = (Variable(name, ("no", "yes")) for name in "abc")
        >>> star = Network((a, b, c), {"a": (), "b": ("a",), "c": ("a",)})
        >>> promise = Guarantee(epsilon=1, delta=0, relation="metric", unit="1 attribute by arcs")
        >>> dict(unit_noise(star, even_budgets(star, Fraction(1)), promise).scales)  # a is in both tables, and counts 3
        {'b': 2.0, 'c': 2.0}
    """
    units = attribute_units(network, guarantee.unit_amount, distance_of(guarantee))
    costs = [
        sum((epsilon for table, epsilon in epsilons.items() if node in network.family(table)), Fraction()) / units[node]
        for node in network.nodes
    ]
    factor = guarantee.epsilon / max(costs)
    scales, _ = laplace_scales({table: epsilon * factor for table, epsilon in epsilons.items()}, 2)
    return TableNoise(2, epsilons, scales, guarantee.epsilon)


def laplace_scales(epsilons: Mapping[Group, Fraction], moved: int) -> tuple[dict[Group, float], Fraction]:
    """Find the discrete Laplace scales for the tables' budgets.

    Args:
        epsilons: exact budget of each measured table.
        moved: most cells of one table that neighbours differ in, each by one record.

    Returns:
        The scales, `moved / epsilon`, and the total epsilon that the noise's own map reports.

    Raises:
        InputError: a budget so small or so large that no scale is left.

    Example:
        >>> laplace_scales({"a": Fraction(1, 2), "b": Fraction(1, 4)}, 1)
        ({'a': 2.0, 'b': 4.0}, Fraction(3, 4))
    """
    scales: dict[Group, float] = {}
    reported = Fraction()
    for budget, keys in _group_by_value(epsilons).items():
        scale, report = scale_for(moved * len(keys), budget * len(keys))
        scales |= dict.fromkeys(keys, scale)
        reported += report
    return {key: scales[key] for key in epsilons}, reported


def noisy_tables(
    network: Network, counts: Mapping[Key, Array], scales: Mapping[Key, float], law: type[CellLaw], noise: IntegerNoise
) -> dict[Key, Array]:
    """Add noise to tables, in one vector call for all of equal scale, and set the cells to 0 that no record can be in.

    A call's length is public, so that its time tells least.

    Args:
        network: whose conditions (`applies_if`) say which cells are impossible.
        counts: private, by node (a table of its family) or by set of variables.
        scales: of the noise, for each table that is measured.
        law: of the noise.
        noise: its source.

    Returns:
        Noisy tables.

    Guarantee:
        That of the noise on all cells. Which cells are impossible is declared, so that setting them to 0 is
        post-processing. It saves noise and no epsilon: a record still moves one possible cell of each table, by one.

    Example:
        >>> from discreet.mechanisms.noise import ExactNoise
        >>> from discreet.model.schema import Variable
        >>> from discreet.noise.noise_laws import DiscreteLaplace
        >>> dead, cause = Variable("dead", ("no", "yes")), Variable("cause", ("a", "b"), applies_if="dead=yes")
        >>> network, counts = Network.empty((dead, cause)), {"cause": np.array([[0, 0, 7], [3, 4, 0]])}
        >>> noisy = noisy_tables(network, counts, {"cause": 9.0}, DiscreteLaplace, ExactNoise())["cause"]
        >>> noisy.shape, noisy[0, :2].tolist(), int(noisy[1, 2])
        ((2, 3), [0, 0], 0)
    """
    noisy = dict[Key, Array]()
    for scale, keys in _group_by_value(scales).items():
        flat = np.concatenate([counts[key].ravel() for key in keys])
        ends = np.cumsum([counts[key].size for key in keys])[:-1]
        for key, values in zip(keys, np.split(law(scale).add(flat, noise), ends), strict=True):
            scope = network.family(key) if isinstance(key, str) else key
            possible = possible_cells(network.schema, scope)
            noisy[key] = values.reshape(counts[key].shape) * (1 if possible is None else possible)
    return noisy


def check_budgets(network: Network, shares: Mapping[str, Fraction], limit: Fraction) -> Mapping[str, Fraction]:
    """Check a user's budgets of tables, and put them into the network's order.

    Raises:
        InputError: a family that lies in no other has none, an unknown node has one, or they are not positive or sum
            to more than the limit.
    """
    wanted, named = set(network.maximal_families), set(shares)
    if not wanted <= named <= set(network.nodes):
        odd = sorted((wanted - named) | (named - set(network.nodes)))
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
    """Refuse a delta that would be charged but not used."""
    if guarantee.delta:
        raise InputError(f"{name} noise keeps a pure guarantee; ask for delta 0, or use the mechanism 'gaussian'")


def _group_by_value(values: Mapping[Group, Value]) -> dict[Value, list[Group]]:
    """Group keys by equal value, in order."""
    groups: dict[Value, list[Group]] = {}
    for key, value in values.items():
        groups.setdefault(value, []).append(key)
    return groups
