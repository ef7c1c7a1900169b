"""Networks and designs so small that every data set can be enumerated, and these data sets, for the audit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations_with_replacement, product
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.mechanisms.crossing import Mechanism, Statistic, statistic_of
from discreet.model.design import Design, Normal
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.number_grid import NumberGrid, number_grids
from discreet.model.schema import Variable
from discreet.model.tables import Tables
from discreet.privacy.guarantee import Relation
from discreet.records.counts import Counts
from discreet.records.number_sums import NumberSums, monomials
from discreet.records.rows import read_rows
from discreet.releases.policy import RecordsPolicy

Floats = npt.NDArray[np.float64]
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


def audit_designs() -> dict[str, Design]:
    """The designs of the audit: every target, with bounds and in a ball, of one or two coordinates."""
    x, z = (Variable(name, bounds=(-1, 1)) for name in "xz")
    number, states = Variable("y", bounds=(-1, 1)), Variable("y", ("no", "yes"))
    indicators = tuple(Variable(name, bounds=(0, 1)) for name in "ab")
    return {
        "one number": Design((x,), intercept=False),
        "two numbers": Design((x, z), intercept=False),
        "line": Design((x,), number),
        "line in a ball": Design((x,), number, 0.5),
        "two classes": Design((x,), states),
        "two classes in a ball": Design((x, z), states, 1.0, intercept=False),
        "three classes": Design((x,), Variable("y", ("no", "yes", "unknown")), intercept=False),
        "counts": Design((x,), Variable("y", bounds=(0, 3)), counted=True),
        "two classes of a group": Design(indicators, states, intercept=False, groups=((0, 1),)),
    }


def _make_network(sizes: dict[str, int], arcs: str = "") -> Network:
    """Make a network from the number of states of each node and arcs such as "a>b b>c"."""
    pairs = [arc.split(">") for arc in arcs.split()]
    variables = tuple(Variable(node, tuple(f"s{code}" for code in range(size))) for node, size in sizes.items())
    return Network(variables, {node: tuple(parent for parent, child in pairs if child == node) for node in sizes})


def _count(network: Network, records: Iterable[Record]) -> Counts:
    """Count the families and of whole records, and sum their numbers, one kind of record at a time."""
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


def _list_values(variable: Variable, *, numbers: bool) -> list[float]:
    """List codes of a variable's states, or numbers at both ends of its bins, which are beyond the bounds of all."""
    if not (numbers and variable.numeric):
        return list(range(variable.size))
    low, *_, high = edges = variable.edges
    starts = [low - (high - low), *variable.bins]
    ends = [
        *(cut - 1 if variable.type == "integer" else math.nextafter(cut, low) for cut in variable.bins),
        2 * high - low,
    ]
    assert len(starts) == len(edges) - 1
    return [*chain(*zip(starts, ends, strict=True)), *range(len(starts), variable.size)]


def statistic_from(mechanism: Mechanism, over: Network | Design, data: Iterable[Any]) -> Statistic:
    """Compute the statistic that a mechanism draws from."""
    if isinstance(over, Network):
        return _count(over, data)
    return statistic_of(mechanism, read_rows(over, *columns_of(over, data)), over)


def prior_over(over: Network | Design) -> Dirichlet | Normal:
    """Make the default prior over a network or design."""
    return Dirichlet.uniform(over) if isinstance(over, Network) else Normal(over, 1.0)


def columns_of(design: Design, data: Iterable[Any]) -> tuple[Floats, list[Any] | None]:
    """List features and target of records."""
    records, width = list(data), len(design.features)
    features = np.array([record[:width] for record in records], np.float64).reshape(-1, width)
    return features, None if design.target is None else [record[width] for record in records]


def kinds_of(over: Network | Design, most: int = MOST_KINDS, *, numbers: bool = False) -> list[Record]:
    """List kinds of records: all of a network; of a design corners of its bounds, the middle, and more.

    Args:
        over: public.
        most: kinds.
        numbers: whether records of a network have numbers in place of the codes of bins.
    """
    if isinstance(over, Network):
        values = (_list_values(variable, numbers=numbers) for variable in over.variables)
        return _thin_out(list(product(*values)), most)
    target = over.target
    ends = [()] if target is None else [(value,) for value in target.bounds or target.states]
    kinds = [(*features, *end) for features in _list_features(over) for end in ends]
    return kinds if most == MOST_KINDS else _thin_out(kinds, most)


def _list_features(design: Design) -> list[Record]:
    """List features of records: at the corners of the bounds, in the middle, and two nearly equal ones."""
    bounds = [variable.bounds for variable in design.features if variable.bounds is not None]
    middle = tuple(value if at in design.alone else 0.0 for at, value in enumerate(design.middles.tolist()))
    points = [*(corner for corner in product(*bounds) if _is_in_groups(corner, design)), middle]
    if design.norm is not None and len(bounds) > 1:
        # Two nearly equal points whose gradients are opposite for weights along the first axis.
        low, high = (0.02 * end for end in bounds[0])
        points += [(first, *(top for _, top in bounds[1:])) for first in (low, high)]
    return points


def _is_in_groups(features: Record, design: Design) -> bool:
    """True if at most one indicator of each group is set."""
    return all(sum(features[at] for at in group) <= 1 for group in design.groups)


def _thin_out(every: list[Record], most: int) -> list[Record]:
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


def units_of(over: Network | Design, policy: RecordsPolicy, *, numbers: bool = False) -> list[Unit]:
    """List units of protection: the records of each, as often as they count.

    Args:
        over: public.
        policy: how many records a unit may have, and what they count.
        numbers: as of `kinds_of`.

    Returns:
        One for every kind of record; of units with several records those of few kinds, with one, two and the most.
    """
    if policy.steps == 1:
        return [(record,) for record in kinds_of(over, numbers=numbers)]
    few, sizes = kinds_of(over, FEW_KINDS, numbers=numbers), {1, min(2, policy.max_records), policy.max_records}
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
