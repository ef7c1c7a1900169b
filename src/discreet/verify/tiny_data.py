"""Networks so small that every data set can be enumerated, and data sets of few records, for the audit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, combinations_with_replacement
from typing import Any

import numpy as np

from discreet.model.network import Network
from discreet.model.number_grid import NumberGrid, number_grids
from discreet.model.round_numbers import wide_columns
from discreet.model.schema import Scope, Variable
from discreet.model.tables import Tables
from discreet.privacy.guarantee import Relation
from discreet.records.counts import Counts, Wide
from discreet.records.number_sums import NumberSums, monomials
from discreet.releases.policy import RecordsPolicy

Record = tuple[Any, ...]
Unit = tuple[Record, ...]
"""The records of one unit of protection, each as often as it counts."""

CROWD_RECORDS = 300
"""Equal records that some neighbours share: much data, yet few enough for the exact distribution of a sample."""
CROWD_RATIO = 3
"""Ratio of the first crowd's size to the second's, which sharpens rows that the first does not reach."""
FEW_KINDS = 3
"""Kinds of records beside a reading that changes, if it has more bins than that."""
SMALL_CROWD_RECORDS = 30
"""Equal records of a crowd for a mechanism with an expected number of records."""
MOST_KINDS = 12
"""Kinds of records, or of units, that make data sets."""


def audit_networks() -> dict[str, Network]:
    """The networks of the audit: every shape of family that matters, with two and three states."""
    return {
        "one coin": _make_network({"a": 2}),
        "a -> b": _make_network({"a": 2, "b": 2}, "a>b"),
        "a -> b, three states": _make_network({"a": 2, "b": 3}, "a>b"),
        "a -> b -> c": _make_network({"a": 2, "b": 2, "c": 2}, "a>b b>c"),
        "a -> c <- b": _make_network({"a": 2, "b": 2, "c": 2}, "a>c b>c"),
        "a -> x, numbers": Network(
            (Variable("a", ("s0", "s1")), Variable("x", bounds=(-3, 1), bins=(-1,))), {"a": (), "x": ("a",)}
        ),
    }


def audit_choices() -> dict[str, Network]:
    """The variables that a network is chosen over in the audit."""
    return {
        "three coins": _make_network({"a": 2, "b": 2, "c": 2}),
        "coin, three states, coin": _make_network({"a": 2, "b": 3, "c": 2}),
    }


def audit_readings() -> dict[str, Network]:
    """The readings of the audit, for mechanisms under a metric without a fixed network."""
    return {"a reading in six bins": Network((Variable.binned("x", (0, 6), 6),), {"x": ()})}


def _make_network(sizes: dict[str, int], arcs: str = "") -> Network:
    """Make a network from the number of states of each node and arcs such as "a>b b>c"."""
    pairs = [arc.split(">") for arc in arcs.split()]
    variables = tuple(Variable(node, tuple(f"s{code}" for code in range(size))) for node, size in sizes.items())
    return Network(variables, {node: tuple(parent for parent, child in pairs if child == node) for node in sizes})


def count_records(network: Network, records: Iterable[Record], *, wide: bool = False) -> Counts:
    """Count the families and of whole records, and sum their numbers, one kind of record at a time.

    Args:
        network: public.
        records: codes or numbers.
        wide: whether columns whose bins are to be found are counted first by themselves.
    """
    if wide and wide_columns(network):
        data, first = Counter(records), Network.empty(network.variables)

        def again(binned: Network, _: Iterable[Scope]) -> Counts:
            pairs = tuple(zip(network.variables, binned.variables, strict=True))
            return count_records(binned, Counter({tuple(map(_recode, record, pairs)): data[record] for record in data}))

        return replace(count_records(first, data), wide=Wide(network, again))
    tables = {node: np.zeros(network.shape(node), np.int64) for node in network.nodes}
    whole = np.zeros(tuple(variable.size for variable in network.schema), np.int64)
    grids = number_grids(network)
    cells = {(network.nodes, monomial): np.zeros_like(whole) for monomial in monomials(network.nodes, grids)}
    leaves = {name: np.zeros((grid.leaves_of_bins(grid.finest).sum(), 3), np.int64) for name, grid in grids.items()}
    for record, times in Counter(records).items():
        read = {
            node: _read_value(network.schema[node], value) for node, value in zip(network.nodes, record, strict=True)
        }
        codes = tuple(code for code, _, _ in read.values())
        whole[codes] += times
        for node in network.nodes:
            tables[node][tuple(read[name][0] for name in network.family(node))] += times
        for (_, monomial), table in cells.items():
            table[codes] += times * math.prod(read[name][1] for name in monomial)
        for name, table in leaves.items():
            code, offset, leaf = read[name]
            if code < grids[name].bins:
                table[leaf] += times, times * offset, times * offset**2
    sums = NumberSums(grids, cells, leaves) if grids else None
    return Counts(Tables(network, tables), RecordsPolicy("error", "error"), {network.nodes: whole}, sums)


def _recode(value: float, variables: tuple[Variable, Variable]) -> float:
    """Recode a value for other bins: a number stays, and the code of a missing value is that of the other variable."""
    first, second = variables
    return len(second.values) if isinstance(value, int) and first != second else value


@lru_cache(maxsize=1024, typed=True)
def _read_value(variable: Variable, value: float) -> tuple[int, int, int]:
    """Read a code, or a number: its code, its offset in steps and its leaf; a code of a bin stands for its middle."""
    if not variable.numeric or (isinstance(value, int) and value >= len(variable.values)):
        return int(value), 0, 0
    grid = NumberGrid(variable)
    number = np.array([grid.middles[value] if isinstance(value, int) else value])
    code = np.searchsorted(variable.bins, number, side="right")
    leaf = np.searchsorted(grid.leaf_edges(grid.finest)[1:-1], number, side="right")
    return int(code[0]), int(grid.offsets(number, code)[0]), int(leaf[0])


def list_values(variable: Variable, *, numbers: bool) -> list[float]:
    """List codes of a variable's states, or numbers at both ends of its bins, which are beyond the bounds of all."""
    if not (numbers and variable.numeric):
        return list(range(variable.size))
    low, *_, high = edges = variable.edges
    starts = [low - (high - low), *variable.bins]
    ends = [
        *(cut - 1 if variable.whole else math.nextafter(cut, low) for cut in variable.bins),
        2 * high - low,
    ]
    assert len(starts) == len(edges) - 1
    return [*chain(*zip(starts, ends, strict=True)), *range(len(starts), variable.size)]


def thin_out(every: list[Record], most: int) -> list[Record]:
    """Thin out a list evenly: pairs of a hundred kinds are thousands."""
    return [every[at * (len(every) - 1) // (most - 1)] for at in range(most)] if len(every) > most else every


def rests_of(records: list[Record], most: int, crowd: int) -> Iterator[tuple[Record, ...]]:
    """List the records that two neighbours share: a few, or a crowd or two."""
    small = (rest for size in range(most) for rest in combinations_with_replacement(records, size))
    crowds = (
        (records[0],) * size + (record,) * (size // CROWD_RATIO)
        for size in (crowd // CROWD_RATIO, crowd)
        for record in records
    )
    yield from chain(small, crowds)


def units_of(kinds_of: Callable[[int], list[Record]], policy: RecordsPolicy) -> list[Unit]:
    """List units of protection: the records of each, as often as they count.

    Args:
        kinds_of: lists so many kinds of records.
        policy: how many records a unit may have, and what they count.
        numbers: as of `kinds_of`.

    Returns:
        One for every kind of record; of units with several records those of few kinds, with one, two and the most.
    """
    if policy.steps == 1:
        return [(record,) for record in kinds_of(MOST_KINDS)]
    few, sizes = kinds_of(FEW_KINDS), {1, min(2, policy.max_records), policy.max_records}
    return [
        tuple(record for record in unit for _ in range(policy.steps // size if policy.weights == "unit" else 1))
        for size in sorted(sizes)
        for unit in combinations_with_replacement(few, size)
    ]


def neighbours(
    units: Sequence[Unit], rests: Iterable[tuple[Record, ...]], relation: Relation
) -> Iterator[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    """Yield every pair of data sets that differ in one unit, up to the order of their records."""
    for rest in rests:
        for index, unit in enumerate(units):
            if relation.by_record(add_remove=True, replace=False):
                yield rest, (*rest, *unit)
            else:
                yield from (((*rest, *unit), (*rest, *replacement)) for replacement in units[:index])
