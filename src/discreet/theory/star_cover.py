"""Covers by stars: groups of tables that together hold every family, so that noise of one budget disturbs them least.

A *group* is a table alone, or a star: tables that share variables S and whose noise agrees on them, at the cost of one
table (`theory/stars.py`). At budget 1 the noise of a group disturbs all cells of the families f read from it by

    c = sum over f of sqrt(|S| |f & S| shared + |t| (|f| - |f & S|) rows_t)          (|.|: cells; t: the table of f),

the expected absolute error but for a factor that the shape of the law decides. With budgets in proportion to sqrt(c)
the error of all groups is `(sum of sqrt(c))^2`, so groups are merged, always the pair that gains most, while that makes
the sum of roots less: side by side, or with a table of one and a table of the other made one. It knows sizes and names
alone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from discreet.model.cover import AXES, readers
from discreet.model.network import COVER_CELLS, Network
from discreet.model.schema import Scope
from discreet.theory.stars import star_variances

__all__ = ["Group", "group_costs", "shared_by", "star_cover", "star_lengths"]

Group = tuple[Scope, ...]
"""Tables that are released with noise that agrees on what all of them share; or one table."""
Names = frozenset[str]

DIGITS = 10
"""Decimals to which gains are compared: what is equal but for rounding is a tie, and the first pair wins it."""
FEW = 128
"""Tables among which pairs are looked at that share nothing: small ones may be better as one."""

SMALL = 6
"""Tables of a star among which all pairs may become one."""


def shared_by(group: Group) -> Scope:
    """The variables that all tables of a star have, in the order of its first; of a single table none."""
    if len(group) == 1:
        return ()
    return tuple(name for name in group[0] if all(name in scope for scope in group))


def star_lengths(network: Network, group: Group) -> tuple[int, ...]:
    """Cells of each table of a group for one cell of the variables that they share."""
    cells = network.cells(shared_by(group))
    return tuple(network.cells(scope) // cells for scope in group)


def group_costs(network: Network, groups: Sequence[Group]) -> dict[Group, float]:
    """The c of each group, by the families that are read from it: each from the smallest table that holds it.

    Args:
        network: public.
        groups: no table twice; every family lies in one of them.

    Returns:
        By group, at least 0; 0 where nothing is read from it.
    """
    tables = _Tables(network)
    families = [network.family(node) for node in network.nodes]
    sizes = {variable.name: variable.size for variable in network.schema}
    read = readers(sizes, families, [scope for group in groups for scope in group])
    return {
        group: tables.cost(
            tuple(map(frozenset, group)), [frozenset(family) for scope in group for family in read[scope]]
        )
        for group in groups
    }


@lru_cache(maxsize=64)
def star_cover(network: Network, dimensions: int) -> tuple[Group, ...]:
    """Few groups that hold every family.

    Args:
        network: public.
        dimensions: most of a star (`mechanisms.star_noise.dimensions`).

    Returns:
        Groups, tables in the schema's order; every table serves a family.
    """
    tables = _Tables(network)
    position = {name: index for index, name in enumerate(network.nodes)}
    families = [frozenset(network.family(node)) for node in network.nodes]
    found = _merged(tables, families, dimensions)
    ordered = [[tuple(sorted(scope, key=position.__getitem__)) for scope in group.tables] for group in found]
    sizes = {variable.name: variable.size for variable in network.schema}
    # A table of two merged ones may hold what a third was made for, in another group as well.
    every_one = list(dict.fromkeys(scope for group in ordered for scope in group))
    read = readers(sizes, [network.family(node) for node in network.nodes], every_one)
    seen = set[Scope]()
    kept = []
    for group in ordered:
        own = [scope for scope in group if read[scope] and scope not in seen]
        seen.update(own)
        if own:
            kept.append(tuple(sorted(own, key=lambda scope: [position[name] for name in scope])))
    return tuple(sorted(kept, key=lambda group: [position[name] for name in group[0]]))


@dataclass(frozen=True)
class _Group:
    """Tables, the families that are read from them, and the root of what that costs."""

    tables: tuple[Names, ...]
    families: tuple[Names, ...]
    root: float


class _Tables:
    """Costs of groups over a network; cells are remembered."""

    def __init__(self, network: Network) -> None:
        self._sizes = {variable.name: variable.size for variable in network.schema}
        self._cells: dict[Names, int] = {}

    def cells(self, names: Names) -> int:
        """Of a table over some variables."""
        found = self._cells.get(names)
        if found is None:
            found = self._cells[names] = math.prod(self._sizes[name] for name in names)
        return found

    def cost(self, tables: Sequence[Names], families: Iterable[Names], dimensions: float = math.inf) -> float:
        """The c of a group; infinite for tables that share nothing, or have more dimensions."""
        if len(tables) == 1:
            cells = 2 * self.cells(tables[0])
            return sum(math.sqrt(cells * self.cells(family)) for family in families)
        shared = frozenset.intersection(*tables)
        blocks = self.cells(shared)
        lengths = [self.cells(table) // blocks for table in tables]
        if not shared or 1 + sum(lengths) - len(lengths) > dimensions:
            return math.inf
        found = star_variances(lengths, 1.0)
        smallest = sorted(range(len(tables)), key=lengths.__getitem__)
        places = {table: index for index, table in enumerate(tables)}
        total = 0.0
        for family in families:
            table = places.get(family, -1)
            if table < 0:
                table = next(index for index in smallest if family <= tables[index])
            inside, whole = self.cells(family & shared), self.cells(family)
            outside = lengths[table] * blocks * (whole - inside) * found.rows[table]
            total += math.sqrt(blocks * inside * found.shared + outside)
        return total

    def may_merge(self, one: Names, other: Names) -> bool:
        """Whether two tables may be made one."""
        union = one | other
        return len(union) <= AXES and self.cells(union) <= COVER_CELLS

    def group(self, tables: tuple[Names, ...], families: tuple[Names, ...], dimensions: int) -> _Group:
        """With what it costs."""
        return _Group(tables, families, math.sqrt(self.cost(tables, families, dimensions)))


def _merged(tables: _Tables, families: Sequence[Names], dimensions: int) -> list[_Group]:
    """Greedy merging; the best way to merge each pair is remembered until one of them is merged."""
    whole = [family for family in dict.fromkeys(families) if not any(family < other for other in families)]
    served: dict[Names, list[Names]] = {table: [] for table in whole}
    for family in dict.fromkeys(families):
        served[min((table for table in whole if family <= table), key=tables.cells)].append(family)
    alive = {index: tables.group((table,), tuple(served[table]), dimensions) for index, table in enumerate(whole)}
    queue: list[tuple[float, int, int, _Group]] = []

    def offer(one: int, other: int) -> None:
        best = _best(tables, alive[one], alive[other], dimensions)
        gain = round(alive[one].root + alive[other].root - best.root, DIGITS)
        if gain > 0:
            heapq.heappush(queue, (-gain, one, other, best))

    holders: dict[str, set[int]] = {}
    for index, group in alive.items():
        for name in frozenset.union(*group.tables):
            holders.setdefault(name, set()).add(index)
    every_pair = len(whole) <= FEW
    pairs = {pair for held in holders.values() for pair in combinations(sorted(held), 2)}
    for one, other in combinations(alive, 2) if every_pair else sorted(pairs):
        offer(one, other)
    fresh = len(whole)
    while queue:
        _, one, other, group = heapq.heappop(queue)
        if one not in alive or other not in alive:
            continue
        for gone in (one, other):
            for name in frozenset.union(*alive.pop(gone).tables):
                holders[name].discard(gone)
        alive[fresh] = group
        near = {index for name in frozenset.union(*group.tables) for index in holders[name]}
        near |= alive.keys() - {fresh} if every_pair else set()
        for name in frozenset.union(*group.tables):
            holders[name].add(fresh)
        for index in sorted(near):
            offer(index, fresh)
        fresh += 1
    return list(alive.values())


def _best(tables: _Tables, one: _Group, other: _Group, dimensions: int) -> _Group:
    """The cheapest group of two."""
    families = one.families + other.families
    best = min(
        (tables.group(each, families, dimensions) for each in _ways(tables, one.tables, other.tables)),
        key=lambda group: round(group.root, DIGITS),
    )
    while len(best.tables) > 2:
        closer = min(
            (tables.group(each, families, dimensions) for each in _closer(tables, best.tables)),
            key=lambda group: round(group.root, DIGITS),
            default=best,
        )
        if not closer.root < best.root - 10**-DIGITS:
            break
        best = closer
    return best


def _ways(tables: _Tables, one: tuple[Names, ...], other: tuple[Names, ...]) -> Iterator[tuple[Names, ...]]:
    """Side by side, and with a table of one and a table of the other made one."""
    yield _beside(one, other)
    shared = frozenset.intersection(*one, *other)
    few = len(one) + len(other) <= SMALL
    for a, first in enumerate(one):
        for b, second in enumerate(other):
            # In a large star tables with nothing in common but what all share are hardly ever better as one.
            if (few or first & second > shared) and tables.may_merge(first, second):
                rest = _beside(one[:a] + one[a + 1 :], other[:b] + other[b + 1 :])
                yield _beside(rest, (first | second,))


def _closer(tables: _Tables, group: tuple[Names, ...]) -> Iterator[tuple[Names, ...]]:
    """With two tables of the group made one."""
    shared = frozenset.intersection(*group)
    for a, b in combinations(range(len(group)), 2):
        if group[a] & group[b] > shared and tables.may_merge(group[a], group[b]):
            yield _beside([table for at, table in enumerate(group) if at not in (a, b)], (group[a] | group[b],))


def _beside(one: Sequence[Names], other: Sequence[Names]) -> tuple[Names, ...]:
    """Tables of two groups, without those that lie in one of the other."""
    held = [table for table in one if not any(table <= each for each in other)]
    return (*held, *(table for table in other if not any(table < each for each in held)))
