"""Sensitivity of likelihoods to one record: of a trimmed network, or of candidates of a choice.

Trimming keeps every probability of a node at or above a floor, so the log-likelihood ratio of two records has a bounded
range. That range is the privacy loss of a draw from the posterior, for any prior and number of records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.releases.metric_unit import attribute_units, distance_of
from discreet.util.arrays import Ints


def log_range(size: int, floor: float) -> float:
    """Compute the range of a trimmed variable's log probability: `Lambda = ln((1 - (K - 1) w) / w)`.

    Args:
        size: K, number of states.
        floor: w, least probability of each state.

    Returns:
        `max ln theta_k - min ln theta_k` over all rows `theta >= w`, nats; 0 for one state with any floor, and for a
        floor of 1 / K, which leaves one row.

    Raises:
        InputError: no state, or a floor that is not greater than 0 and at most 1 / K.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), posterior sampling, for two states; Dimitrakakis et al. (JMLR
        2017), Lemma 24, which bounds it by ln(1 / w).

    Example:
        >>> round(log_range(2, 0.1), 4)
        2.1972
    """
    if not size >= 1:
        raise InputError(f"a variable needs at least one state, got {size}")
    if size == 1 or floor == 1 / size:
        return 0.0
    if not 0 < floor < 1 / size:
        raise InputError(f"the floor of {size} probabilities must be greater than 0 and at most 1/{size}, got {floor}")
    return math.log1p((1 - size * floor) / floor)


def floor_for(size: int, range_: float) -> float:
    """Compute the lowest floor with at most this range: `w = 1 / (K - 1 + exp(Lambda))`.

    Args:
        size: K, number of states.
        range_: Lambda, nats, greater than 0.

    Returns:
        The floor, rounded up if necessary for `log_range(size, floor) <= range_`.

    Raises:
        InputError: no state, or a range that is not positive or that no floating-point floor has: below about 1e-15,
            or above 700.

    Source:
        Inverse of `log_range`. An equal split of epsilon over I nodes has `Lambda = epsilon / (2 I)` for REPLACE and
        `epsilon / I` for ADD_REMOVE.

    Example:
        >>> round(floor_for(2, 1 / 34), 3)
        0.493
    """
    if not size >= 1:
        raise InputError(f"a variable needs at least one state, got {size}")
    if not 0 < range_ <= 700:
        raise InputError(f"the range of a log probability must be greater than 0 and at most 700 nats, got {range_}")
    floor = 1 / (size - 1 + math.exp(range_))
    while size > 1 and floor < 1 / size and log_range(size, floor) > range_:
        floor = math.nextafter(floor, 1)
    if size > 1 and not floor < 1 / size:
        raise InputError(f"a range of {range_} nats is too small: every probability would be 1/{size}; use more")
    return floor


def record_loss(network: Network, floors: Mapping[str, float], relation: Relation) -> float:
    """Compute epsilon of one draw of all trimmed rows from their posterior, exactly.

    `REPLACE: 2 sum_i Lambda_i`, `ADD_REMOVE: sum_i Lambda_i`, over all nodes i. A record has one cell in every family,
    and in the worst case the two records of a pair have different parents in all families, so every factor of their
    likelihood ratio is free. The posteriors' ratio is within the range of the likelihoods' ratio for every number of
    records, and approaches it as records are added: the bound is tight.

    Args:
        network: public; its rows have independent supports.
        floors: least probability of each state of each node, in all its rows.
        relation: of neighbouring data sets.

    Returns:
        Epsilon, nats, delta 0. For the posterior tempered by tau (counts multiplied by tau) it is tau times this, for
        N independent draws N times.

    Raises:
        InputError: a node without a floor, an unknown node, or a floor out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 8.1 and Lemma 24, corrected: the "classical" `2 max_k v_k ln(1 / w)`
        printed there is for one changed attribute (`experiments.paper_lipschitz.attribute_loss`), and too small for a
        record. For five independent bits with w = 0.1 it is 22.0, not 4.6.

    Example:
        >>> from discreet.model.schema import Variable
        >>> bits = tuple(Variable(name, ("no", "yes")) for name in "abcde")
        >>> network = Network(bits, {bit.name: () for bit in bits})
        >>> round(record_loss(network, dict.fromkeys("abcde", 0.1), Relation.REPLACE), 1)
        22.0
    """
    total = math.fsum(ranges(network, floors).values())
    return relation.by_record(total, 2 * total)


def loss_of_ranges(network: Network, by_node: Mapping[str, float], guarantee: Guarantee) -> float:
    """Compute epsilon of one draw of all rows from the ranges of their log probabilities.

    Under a metric that counts values it is that of each unit: a value of a record that changes changes the rows in
    which its variable is the child or a parent, and no other factor of the likelihood; `2 (Lambda_k + sum of Lambda_c
    over the children c)` for variable k, over its units. Both records have free cells in each of these families, so
    the largest of them is approached.

    Args:
        network: public.
        by_node: Lambda of each node, as of `ranges`.
        guarantee: of it relation and unit.

    Returns:
        Epsilon, nats; see `record_loss` for records.

    Raises:
        InputError: a metric of numbers.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 24, with the range of each node in place of ln(1 / w).

    Example:
        >>> from discreet.model.schema import Variable
        >>> a, b = Variable("a", ("no", "yes")), Variable("b", ("no", "yes"))
        >>> network = Network((a, b), {"a": (), "b": ("a",)})
        >>> promise = Guarantee(epsilon=1, delta=0, relation="metric", unit="1 attribute by arcs")
        >>> loss_of_ranges(network, {"a": 1.0, "b": 0.5}, promise)  # of a: (1 + 0.5) times 2, over 2 units
        1.5
    """
    if guarantee.relation is not Relation.METRIC:
        total = math.fsum(by_node.values())
        return guarantee.relation.by_record(total, 2 * total)
    units = attribute_units(network, guarantee.unit_amount, distance_of(guarantee))
    return max(
        2 * math.fsum([by_node[node], *(by_node[child] for child in network.children(node))]) / units[node]
        for node in network.nodes
    )


def ranges(network: Network, floors: Mapping[str, float]) -> dict[str, float]:
    """Compute the range of a log probability of every node: `log_range` by node, in the network's order.

    Args:
        network: public.
        floors: least probability of each state of each node.

    Returns:
        Lambda by node, nats.

    Raises:
        InputError: a node without a floor, an unknown node, or a floor out of its range.

    Example:
        >>> from discreet.model.schema import Variable
        >>> a, b, c = (Variable(name, ("no", "yes")) for name in "abc")
        >>> network = Network((a, b, c), {"a": (), "b": ("a",), "c": ("a", "b")})
        >>> {node: round(value, 3) for node, value in ranges(network, dict.fromkeys("abc", 0.1)).items()}
        {'a': 2.197, 'b': 2.197, 'c': 2.197}
    """
    mismatched = sorted(set(floors) ^ set(network.nodes))
    if mismatched:
        raise InputError(f"floors must name every node once; missing or unknown: {mismatched[:5]}")
    log_ranges = {}
    for name in network.nodes:
        try:
            log_ranges[name] = log_range(network.schema[name].size, floors[name])
        except InputError as error:
            raise InputError(f"node {name!r}: {error}") from None
    return log_ranges


def widest_range(logs: Mapping[str, Ints], relation: Relation) -> int:
    """Bound one record's change of the difference of two candidates' log-likelihoods.

    Args:
        logs: for each node, log-probabilities of all candidates in whole steps, shape `(candidates, *parents, child)`.
        relation: of neighbouring data sets.

    Returns:
        In steps: the largest, over pairs of candidates, of a sum over families: of the largest absolute difference of
        log-probabilities (ADD_REMOVE), or of the largest less the smallest (REPLACE). It is a bound: one record need
        not attain the maxima of all families.

    Example:
        >>> logs = {"a": np.array([[3, 1], [1, 2]])}  # of two candidates, for two states
        >>> widest_range(logs, Relation.ADD_REMOVE), widest_range(logs, Relation.REPLACE)
        (2, 3)
    """
    count = len(next(iter(logs.values())))
    top, bottom = np.zeros((count, count), np.int64), np.zeros((count, count), np.int64)
    for tables in logs.values():
        flat = tables.reshape(count, -1)
        for index in range(count):
            difference = flat - flat[index]
            top[index] += difference.max(axis=1)
            bottom[index] += difference.min(axis=1)
    return int(relation.by_record(max(top.max(), -bottom.min()), (top - bottom).max()))
