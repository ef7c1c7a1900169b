"""Networks so small that every data set on them can be written down, and their exact counts, without a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, product

import numpy as np

import discreet as dc
from discreet.inference.interactions import Blur
from discreet.model.schema import Scope
from discreet.noise.noise_laws import NoiseLaw
from discreet.planning.star_cover import star_cover
from discreet.posterior.pooled.measured import Measured
from discreet.releases.policy import RecordsPolicy
from discreet.util.arrays import Floats

STRICT = RecordsPolicy("error", "error")

Record = tuple[int, ...]
"""Codes of the states, in the order of the network's nodes."""


def network_of(sizes: dict[str, int], arcs: str = "") -> dc.Network:
    """A network from the number of states of each node and arcs such as "a>b b>c"."""
    pairs = [arc.split(">") for arc in arcs.split()]
    parents = {node: tuple(parent for parent, child in pairs if child == node) for node in sizes}
    variables = tuple(dc.Variable(node, tuple(f"s{code}" for code in range(size))) for node, size in sizes.items())
    return dc.Network(variables, parents)


TINY = {
    "two roots": network_of({"a": 2, "b": 2}),
    "two binary": network_of({"a": 2, "b": 2}, "a>b"),
    "two binary, backwards": network_of({"a": 2, "b": 2}, "b>a"),
    "two and three states": network_of({"a": 2, "b": 3}, "a>b"),
    "chain": network_of({"a": 2, "b": 2, "c": 2}, "a>b b>c"),
    "fork": network_of({"a": 2, "b": 2, "c": 2}, "a>b a>c"),
    "collider": network_of({"a": 2, "b": 2, "c": 2}, "a>c b>c"),
    "complete, three states": network_of({"a": 2, "b": 3, "c": 2}, "a>b a>c b>c"),
}
"""Every node has two states or more, so two records can differ everywhere and the bounds are attained.

Families that lie in no other: two of "two roots", "chain" and "fork", one of each of the rest.
"""


def measured(network: dc.Network) -> list[Scope]:
    """Sets of variables that `planned` measures without a delta and a workload, star by star."""
    return [scope for group in star_cover(network) for scope in group]


def noisy_tables(network: dc.Network, tables: Mapping[Scope, Floats], laws: Mapping[Scope, NoiseLaw]) -> Measured:
    """Tables, with an axis of repetitions, and independent noise in every cell."""
    return Measured(network, tables, {scope: (Blur(law.variance),) for scope, law in laws.items()}, laws)


def counts_of(network: dc.Network, records: Iterable[Record]) -> dc.results.Counts:
    """Counts of the families and of what `planned` may measure, slow and obvious: one record at a time.

    Small networks are counted as a whole, so that any table can be taken from the counts. Nothing can change them, so
    that many tests share them.
    """
    return _count(network, tuple(map(tuple, records)))


@lru_cache(maxsize=8192)
def _count(network: dc.Network, records: tuple[Record, ...]) -> dc.results.Counts:
    small = network.cells(network.nodes) <= 2**16
    scopes = [network.nodes] if small else measured(network)
    tables = {node: np.zeros(network.shape(node), np.int64) for node in network.nodes}
    joints = {scope: np.zeros([network.schema[name].size for name in scope], np.int64) for scope in scopes}
    for record in records:
        code = dict(zip(network.nodes, record, strict=True))
        for node in network.nodes:
            tables[node][tuple(code[name] for name in network.family(node))] += 1
        for scope in scopes:
            joints[scope][tuple(code[name] for name in scope)] += 1
    return dc.results.Counts(dc.Tables(network, tables), STRICT, joints)


def all_records(network: dc.Network) -> list[Record]:
    """Every record there can be."""
    return list(product(*(range(variable.size) for variable in network.variables)))


def all_datasets(network: dc.Network, most: int) -> list[tuple[Record, ...]]:
    """Every data set of at most `most` records, up to the order of the records, which counts do not see."""
    return [
        dataset
        for size in range(most + 1)
        for dataset in combinations_with_replacement(all_records(network), size)
    ]  # fmt: skip


def neighbours(
    network: dc.Network, relation: dc.Relation, most: int
) -> Iterator[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    """Every pair of neighbouring data sets of at most `most` records, each unordered pair once, sorted inside."""
    records = all_records(network)
    for rest in all_datasets(network, most - 1):
        match relation:
            case dc.Relation.ADD_REMOVE:
                for record in records:
                    yield rest, tuple(sorted((*rest, record)))
            case dc.Relation.REPLACE:
                for one, other in combinations(records, 2):
                    yield tuple(sorted((*rest, one))), tuple(sorted((*rest, other)))
