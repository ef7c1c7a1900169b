"""Covers by stars: groups of tables that together hold every family, so that noise of one budget disturbs them least.

A *group* is a table alone, or a star: tables that share variables S and whose noise agrees on them, at the cost of one
table (`noise/star.py`). At budget 1 the noise of a group disturbs all cells of the families f read from it by

    c = sum over f of sqrt(|S| |f & S| shared + |t| (|f| - |f & S|) rows_t)          (|.|: cells; t: the table of f),

the expected absolute error but for a factor that the shape of the law decides. With budgets in proportion to sqrt(c)
the error of all groups is `(sum of sqrt(c))^2`, so groups are merged, always the pair that gains most, while that makes
the sum of roots less: side by side, or with a table of one and a table of the other made one. It knows sizes and names
alone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise

from discreet.errors import InputError
from discreet.inference.interactions import Blur
from discreet.model.graphs import AXES, COVER_CELLS
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.noise.noise_laws import KNOWN_VARIANCE
from discreet.noise.star import star_variances
from discreet.util.limits import STAR_DIMENSIONS

Group = tuple[Scope, ...]
"""Star: tables whose noise agrees on the variables that all of them share; or a single table."""
Names = frozenset[str]

GAIN_DECIMALS = 10
"""Decimals to which gains are compared: the first pair wins a tie."""
FEW_TABLES = 128
"""Most tables among which disjoint pairs are tried, too: small ones may be better as one."""
MANY_TABLES = 32
"""Most tables around one variable among which every pair is tried."""
SMALL_STAR = 6
"""Most tables of a star in which any pair may be joined."""


def shared_by(group: Group) -> Scope:
    """List the variables that all tables of a star have, in the order of its first; of a single table none.

    Args:
        group: a star, or one table.

    Returns:
        Names.

    Example:
        >>> shared_by((("a", "b"), ("b", "c"))), shared_by((("a", "b"),))
        (('b',), ())
    """
    if len(group) == 1:
        return ()
    return tuple(name for name in group[0] if all(name in scope for scope in group))


def star_lengths(network: Network, group: Group) -> tuple[int, ...]:
    """Count the cells of each table of a group for one cell of the variables that they share.

    Args:
        network: public.
        group: a star, or one table.

    Returns:
        One number for each table.

    Example:
        >>> from discreet.model.schema import Variable
        >>> a, b, c = (Variable(name, ("no", "yes")) for name in "abc")
        >>> network = Network((a, b, c), {"a": (), "b": ("a",), "c": ("a", "b")})
        >>> star_lengths(network, (("a", "b"), ("a", "c")))
        (2, 2)
    """
    cells = network.cells(shared_by(group))
    return tuple(network.cells(scope) // cells for scope in group)


def star_noise_variances(shared: Sequence[str], lengths: Sequence[int], scale: float) -> tuple[Blur, ...]:
    """Find the noise variances of each table of a star.

    All of them say the same of the variables they share: each is given its part of that, so that the precisions of all
    add up to what they say together.

    Args:
        shared: names of the variables.
        lengths: cells of a row of each table.
        scale: of the noise; records.

    Returns:
        For each table; records squared.
    """
    noise = star_variances(lengths, scale)
    return tuple(
        Blur(max(rows, KNOWN_VARIANCE), frozenset(shared), max(len(lengths) * noise.shared / length, KNOWN_VARIANCE))
        for rows, length in zip(noise.rows, lengths, strict=True)
    )


def group_costs(network: Network, groups: Sequence[Group]) -> dict[Group, float]:
    """Compute the cost c of each group, by the families that are read from it, each from its smallest table.

    Args:
        network: public.
        groups: no table twice; every family lies in one of them.

    Returns:
        By group, at least 0; 0 where nothing is read from it.
    """
    tables = _GroupCosts(network)
    read = readers(network, [scope for group in groups for scope in group])
    return {
        group: tables.cost(
            tuple(map(frozenset, group)), [frozenset(family) for scope in group for family in read[scope]]
        )
        for group in groups
    }


def readers(network: Network, scopes: Iterable[Scope]) -> dict[Scope, list[Scope]]:
    """Assign each family to the smallest table that holds it, the first of equals.

    Args:
        network: public.
        scopes: of the tables, without repetition.

    Returns:
        Families by scope, in the order of their nodes; scopes from which none is read have an empty list.

    Raises:
        InputError: a family lies in no table.

    Example:
        >>> from discreet.model.schema import Variable
        >>> a, b, c = (Variable(name, ("no", "yes")) for name in "abc")
        >>> network = Network((a, b, c), {"a": (), "b": ("a",), "c": ("a", "b")})
        >>> readers(network, [("a", "b", "c"), ("a",)])
        {('a', 'b', 'c'): [('a', 'b'), ('a', 'b', 'c')], ('a',): [('a',)]}
    """
    families: dict[Scope, list[Scope]] = {scope: [] for scope in scopes}
    holders: dict[str, list[tuple[Scope, Names]]] = {name: [] for name in network.nodes}
    for scope in sorted(families, key=network.cells):
        for name in scope:
            holders[name].append((scope, frozenset(scope)))
    for node in network.nodes:
        family = network.family(node)
        rarest = min((holders[name] for name in family), key=len)
        holder = next((scope for scope, names in rarest if names.issuperset(family)), None)
        if holder is None:
            raise InputError(f"no measured table holds the family of {node!r}; add one over {', '.join(family)}")
        families[holder].append(family)
    return families


@lru_cache(maxsize=64)
def star_cover(
    network: Network, dimensions: int = STAR_DIMENSIONS, inside: tuple[Scope, ...] | None = None
) -> tuple[Group, ...]:
    """Cover a network by few groups of tables that hold every family.

    Args:
        network: public.
        dimensions: most of a star (`noise.star_noise.dimensions`); with 0 there are none, only tables alone.
        inside: sets of variables, in one of which every merged table must lie; None where all may be measured.

    Returns:
        Groups, tables in the schema's order; every table serves a family.

    Example:
        >>> from discreet.model.schema import Variable
        >>> a, b, c = (Variable(name, ("no", "yes")) for name in "abc")
        >>> network = Network((a, b, c), {"a": (), "b": ("a",), "c": ("a", "b")})
        >>> star_cover(network)
        ((('a', 'b', 'c'),),)
    """
    position = {name: index for index, name in enumerate(network.nodes)}
    families = [frozenset(network.family(node)) for node in network.nodes]
    merged = _merge_greedily(_GroupCosts(network, inside), families, dimensions)
    ordered = [[tuple(sorted(scope, key=position.__getitem__)) for scope in group.tables] for group in merged]
    # A merged table may also hold the families of a third table, even of another group.
    read = readers(network, dict.fromkeys(scope for group in ordered for scope in group))
    seen = set[Scope]()
    groups = []
    for group in ordered:
        unseen = [scope for scope in group if read[scope] and scope not in seen]
        seen.update(unseen)
        if unseen:
            groups.append(tuple(sorted(unseen, key=lambda scope: [position[name] for name in scope])))
    return tuple(sorted(groups, key=lambda group: [position[name] for name in group[0]]))


@dataclass(frozen=True)
class _Group:
    """A group of tables, the families that are read from them, and the square root of its cost."""

    tables: tuple[Names, ...]
    families: tuple[Names, ...]
    root: float


class _GroupCosts:
    """Costs of groups over a network, with cached numbers of cells."""

    def __init__(self, network: Network, inside: Iterable[Scope] | None = None) -> None:
        self._inside = None if inside is None else [frozenset(scope) for scope in inside]
        self._sizes = {variable.name: variable.size for variable in network.schema}
        self._cells: dict[Names, int] = {}

    def cells(self, names: Names) -> int:
        """Number of cells of a table over some variables."""
        number = self._cells.get(names)
        if number is None:
            number = self._cells[names] = math.prod(self._sizes[name] for name in names)
        return number

    def cost(self, tables: Sequence[Names], families: Iterable[Names], dimensions: float = math.inf) -> float:
        """Cost c of a group; infinite for tables that share nothing or have too many dimensions."""
        if len(tables) == 1:
            # One table t: sums of |t| / |f| cells of variance 2 disturb the |f| cells of f by sqrt(2 |t| |f|) in all.
            cells = 2 * self.cells(tables[0])
            return sum(math.sqrt(cells * self.cells(family)) for family in families)
        shared = frozenset.intersection(*tables)
        blocks = self.cells(shared)
        lengths = [self.cells(table) // blocks for table in tables]
        if not shared or 1 + sum(lengths) - len(lengths) > dimensions:
            return math.inf
        variances = star_variances(lengths, 1.0)
        smallest = sorted(range(len(tables)), key=lengths.__getitem__)
        index_of = {table: index for index, table in enumerate(tables)}
        total = 0.0
        for family in families:
            table = index_of.get(family, -1)
            if table < 0:
                table = next(index for index in smallest if family <= tables[index])
            inside, whole = self.cells(family & shared), self.cells(family)
            outside = lengths[table] * blocks * (whole - inside) * variances.rows[table]
            total += math.sqrt(blocks * inside * variances.shared + outside)
        return total

    def may_merge(self, first: Names, second: Names) -> bool:
        """True if two tables may be joined."""
        union = first | second
        fits = len(union) <= AXES and self.cells(union) <= COVER_CELLS
        return fits and (self._inside is None or any(union <= scope for scope in self._inside))

    def group(self, tables: tuple[Names, ...], families: tuple[Names, ...], dimensions: int) -> _Group:
        """Make a group with the square root of its cost."""
        return _Group(tables, families, math.sqrt(self.cost(tables, families, dimensions)))


def _merge_greedily(tables: _GroupCosts, families: Sequence[Names], dimensions: int) -> list[_Group]:
    """Merge groups greedily: always the pair that gains most.

    What a pair gains is found when its turn comes. Until then it stands in the queue with the most that a part of it
    gained, which is hardly ever more than what it gains itself: a star's next table is cheaper than the one before.
    """
    alive = dict(enumerate(_make_single_groups(tables, families, dimensions)))
    partners: dict[int, dict[int, float]] = {index: {} for index in alive}
    queue: list[tuple[float, int, int, _Group | None]] = []

    def offer(first: int, second: int, gain: float, group: _Group | None) -> None:
        if gain > 0:
            partners[first][second] = partners[second][first] = gain
            heapq.heappush(queue, (-gain, first, second, group))
        else:
            partners[first].pop(second, None)
            partners[second].pop(first, None)

    def evaluate(first: int, second: int) -> None:
        best = _merge_two(tables, alive[first], alive[second], dimensions)
        offer(first, second, round(alive[first].root + alive[second].root - best.root, GAIN_DECIMALS), best)

    for first, second in _list_pairs(tables, alive):
        evaluate(first, second)
    while queue:
        _, first, second, group = heapq.heappop(queue)
        if first not in alive or second not in alive:
            continue
        if group is None:
            evaluate(first, second)
            continue
        del alive[first], alive[second]
        fresh = len(partners)
        alive[fresh], partners[fresh] = group, {}
        bounds = partners[first] | {
            index: max(gain, partners[first].get(index, 0.0)) for index, gain in partners[second].items()
        }
        for index in sorted(bounds.keys() & alive.keys()):
            offer(index, fresh, bounds[index], None)
    return list(alive.values())


def _make_single_groups(tables: _GroupCosts, families: Sequence[Names], dimensions: int) -> list[_Group]:
    """Make a group for every family that lies in no other."""
    whole = [family for family in dict.fromkeys(families) if not any(family < larger for larger in families)]
    served: dict[Names, list[Names]] = {table: [] for table in whole}
    for family in dict.fromkeys(families):
        served[min((table for table in whole if family <= table), key=tables.cells)].append(family)
    return [tables.group((table,), tuple(served[table]), dimensions) for table in whole]


def _list_pairs(tables: _GroupCosts, groups: Mapping[int, _Group]) -> list[tuple[int, int]]:
    """List the pairs to try: all of few tables; of many those that share a variable.

    Where very many share one, each stands beside the next of its size: stars grow from there.
    """
    if len(groups) <= FEW_TABLES:
        return list(combinations(groups, 2))
    holders: dict[str, list[int]] = {}
    for index, group in sorted(groups.items(), key=lambda pair: tables.cells(pair[1].tables[0])):
        for name in group.tables[0]:
            holders.setdefault(name, []).append(index)
    pairs: set[tuple[int, int]] = set()
    for indices in holders.values():
        pairs.update(combinations(sorted(indices), 2) if len(indices) <= MANY_TABLES else pairwise(indices))
    return sorted((min(pair), max(pair)) for pair in pairs)


def _merge_two(tables: _GroupCosts, first: _Group, second: _Group, dimensions: int) -> _Group:
    """Find the cheapest group of two."""
    families = first.families + second.families
    best = min(
        (tables.group(star, families, dimensions) for star in _list_ways(tables, first.tables, second.tables)),
        key=lambda group: round(group.root, GAIN_DECIMALS),
    )
    while len(best.tables) > 2:
        closer = min(
            (tables.group(star, families, dimensions) for star in _list_closer(tables, best.tables)),
            key=lambda group: round(group.root, GAIN_DECIMALS),
            default=best,
        )
        if not closer.root < best.root - 10**-GAIN_DECIMALS:
            break
        best = closer
    return best


def _list_ways(tables: _GroupCosts, first: tuple[Names, ...], second: tuple[Names, ...]) -> Iterator[tuple[Names, ...]]:
    """List the ways to merge: side by side, and with one table of each joined."""
    yield _join_groups(first, second)
    shared = frozenset.intersection(*first, *second)
    few = len(first) + len(second) <= SMALL_STAR
    for a, table_a in enumerate(first):
        for b, table_b in enumerate(second):
            # In a large star, joining tables that share no more than all do is hardly ever better.
            if (few or table_a & table_b > shared) and tables.may_merge(table_a, table_b):
                rest = _join_groups(first[:a] + first[a + 1 :], second[:b] + second[b + 1 :])
                yield _join_groups(rest, (table_a | table_b,))


def _list_closer(tables: _GroupCosts, group: tuple[Names, ...]) -> Iterator[tuple[Names, ...]]:
    """List groups with two tables joined that share more than all do."""
    shared = frozenset.intersection(*group)
    holders: dict[str, list[int]] = {}
    for index, table in enumerate(group):
        for name in table - shared:
            holders.setdefault(name, []).append(index)
    for a, b in sorted({pair for indices in holders.values() for pair in combinations(indices, 2)}):
        if tables.may_merge(group[a], group[b]):
            yield _join_groups([table for at, table in enumerate(group) if at not in (a, b)], (group[a] | group[b],))


def _join_groups(first: Sequence[Names], second: Sequence[Names]) -> tuple[Names, ...]:
    """Put the tables of two groups side by side, without those that lie in one of the other."""
    maximal = [table for table in first if not any(table <= larger for larger in second)]
    return (*maximal, *(table for table in second if not any(table < larger for larger in maximal)))
