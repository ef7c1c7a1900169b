"""Trees of cliques, and plans of tours of proportional fitting through them, computed without data.

A tour of proportional fitting visits every clique that has targets, depth first. Each step of a visit (fitting a
target, or sending a message to a neighbour and receiving one) sums the belief of the clique and multiplies it: two
passes over its cells. Where several consecutive targets involve few variables together, a smaller clique of these
variables is inserted: it costs two passes over the large clique, however many targets it serves. So forty pairs of nine
variables are fitted in a few passes over the nine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from discreet.inference.junction_tree import clique_tree, first_holders
from discreet.model.schema import Scope

CALL_CELLS = 24
"""Number of cells whose pass takes as long as the function call itself, at a thousand draws."""
MESSAGE_PASSES = 8
"""Cost of a message and one back, in passes over the cells of the separator."""
LONGEST_RUN = 32
"""Largest number of targets and neighbours of one smaller clique; it bounds the time of planning."""

_Event = tuple[str, int, Scope]
"""An event of a visit: ("fit", position of a target) or ("down", position of a clique), and its variables."""


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """Tree of cliques with the running intersection property.

    Args:
        cliques: variables of each clique, parents first; those shared with the parent come first, in the parent's
            order, then its own variables in the order of their first occurrence in the scopes.
        parents: position of each clique's parent; -1 for a root.
        sizes: number of states of each variable.
    """

    cliques: tuple[Scope, ...]
    parents: tuple[int, ...]
    sizes: Mapping[str, int]

    @staticmethod
    def of(scopes: Iterable[Scope], sizes: Mapping[str, int]) -> CliqueTree:
        """Compute a tree whose cliques contain every scope.

        Args:
            scopes: sets of variables.
            sizes: number of states of each variable.

        Returns:
            The tree from the cheaper of two greedy eliminations; each clique's parent is the smallest possible one.

        Example:
            >>> tree = CliqueTree.of([("a", "b"), ("b", "c"), ("d",)], {"a": 2, "b": 3, "c": 2, "d": 2})
            >>> tree.cliques, tree.parents, tree.cells
            ((('d',), ('b', 'c'), ('b', 'a')), (-1, -1, 1), 14)
        """
        scopes = [tuple(scope) for scope in scopes]
        cliques, parents = _choose_parents(*clique_tree(scopes, sizes), sizes)
        rank = {name: at for at, name in enumerate(dict.fromkeys(name for scope in scopes for name in scope))}
        order = list(_depth_first(parents))
        new_index = {-1: -1} | {index: position for position, index in enumerate(order)}
        ordered = list[Scope]()
        for index in order:
            above = ordered[new_index[parents[index]]] if parents[index] >= 0 else ()
            shared = tuple(name for name in above if name in cliques[index])
            ordered.append((*shared, *sorted(cliques[index].difference(shared), key=rank.__getitem__)))
        new_parents = tuple(new_index[parents[index]] for index in order)
        return CliqueTree(tuple(ordered), new_parents, MappingProxyType(dict(sizes)))

    @property
    def cells(self) -> int:
        """Number of cells of all cliques together, for one draw."""
        return sum(self._cells)

    def home(self, names: Iterable[str]) -> int | None:
        """Find the smallest clique that contains some variables, the first among equals; None if none does.

        Args:
            names: the variables.
        """
        position = self.homes([tuple(names)])[0]
        return position if position >= 0 else None

    def homes(self, scopes: Sequence[Scope]) -> tuple[int, ...]:
        """Find the position of the smallest clique that contains each set of variables, the first among equals.

        Returns:
            One for each set, in their order; -1 if no clique contains it.
        """
        return first_holders(self._members, self._by_cells, scopes)

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the sizes of a clique's variables."""
        return tuple(self.sizes[name] for name in self.cliques[index])

    def shared(self, index: int) -> Scope:
        """Return the variables that a clique shares with its parent, which are its first ones."""
        parent = self.parents[index]
        return tuple(name for name in self.cliques[index] if parent >= 0 and name in self._members[parent])

    def row_parents(self) -> dict[str, Scope]:
        """Map each variable to the earlier variables of its clique, on which its rows are conditioned.

        Example:
            >>> CliqueTree.of([("a", "b"), ("b", "c")], {"a": 2, "b": 3, "c": 2}).row_parents()
            {'b': (), 'c': ('b',), 'a': ('b',)}
        """
        return {
            names[axis]: names[:axis]
            for index, names in enumerate(self.cliques)
            for axis in range(len(self.shared(index)), len(names))
        }

    @cached_property
    def _cells(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shape(index)) for index in range(len(self.cliques)))

    @cached_property
    def _members(self) -> list[set[str]]:
        return [set(clique) for clique in self.cliques]

    @cached_property
    def _by_cells(self) -> list[int]:
        return sorted(range(len(self.cliques)), key=self._cells.__getitem__)


@dataclass(frozen=True)
class Place:
    """Alignment of a table over some of a clique's variables with the clique's axes; shapes are without draws.

    Args:
        clique: position of the clique in the plan.
        order: permutation that brings the table's axes into the clique's order, draws last.
        aligned: shape of the table with an axis for every variable of the clique, 1 for those that it lacks.
        merged: shape of the clique after merging adjacent axes that the table either has or lacks together.
        spread: shape of the table after the same merging, 1 on axes that it lacks.
        summed: merged axes that the table lacks.
    """

    clique: int
    order: tuple[int, ...]
    aligned: tuple[int, ...]
    merged: tuple[int, ...]
    spread: tuple[int, ...]
    summed: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of cells of the table, for one draw."""
        return math.prod(self.aligned)


@dataclass(frozen=True)
class TourPlan:
    """Plan of a tour, the same for every chunk of draws.

    Args:
        layouts: variables of every clique in the order of its axes: first the tree's cliques in its order, then the
            smaller inserted ones.
        shapes: sizes of these variables.
        order: positions of the cliques, parents first.
        by_clique: for every clique its factors, the smallest first.
        factors: alignment of each factor.
        targets: alignment of each target.
        above: for every clique with a parent, alignment of their shared variables in the parent.
        below: alignment of the same variables in the clique.
        steps: steps of a tour: what is done ("fit", "up" or "down"), and the position of a target or of the lower
            clique.
    """

    layouts: tuple[Scope, ...]
    shapes: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    by_clique: tuple[tuple[int, ...], ...]
    factors: tuple[Place, ...]
    targets: tuple[Place, ...]
    above: Mapping[int, Place]
    below: Mapping[int, Place]
    steps: tuple[tuple[str, int], ...]


def plan_tours(tree: CliqueTree, factors: Sequence[Scope], targets: Sequence[Scope]) -> TourPlan:
    """Compute the alignment of every factor, target and message, and the steps of a tour.

    Args:
        tree: tree of cliques.
        factors: variables of each factor.
        targets: variables of each target, in the order in which a clique is fitted to its targets.

    Returns:
        The plan.

    Raises:
        ValueError: no clique contains a scope.

    Example:
        >>> tree = CliqueTree.of([("a", "b"), ("b", "c")], {"a": 2, "b": 2, "c": 2})
        >>> plan_tours(tree, [], [("a",), ("c",)]).steps
        (('fit', 1), ('down', 1), ('fit', 0), ('up', 1))
    """
    scopes = (*factors, *targets)
    homes = tree.homes(scopes)
    if -1 in homes:
        raise ValueError(f"no clique holds {scopes[homes.index(-1)]}")
    finer = _FinerTree(tree, targets, homes[len(factors) :])
    layouts = _order_axes(tree, finer.scopes, targets)

    def place(clique: int, scope: Scope) -> Place:
        return _place_table(clique, layouts[clique], scope, tree.sizes)

    by_clique: list[list[int]] = [[] for _ in layouts]
    for source in sorted(range(len(factors)), key=lambda source: math.prod(tree.sizes[v] for v in factors[source])):
        by_clique[homes[source]].append(source)
    edges = [(index, parent, finer.shared[index]) for index, parent in enumerate(finer.parents) if parent >= 0]
    return TourPlan(
        layouts,
        tuple(tuple(tree.sizes[name] for name in layout) for layout in layouts),
        tuple(_depth_first(finer.parents)),
        tuple(map(tuple, by_clique)),
        tuple(map(place, homes, factors)),
        tuple(place(finer.homes[target], scope) for target, scope in enumerate(targets)),
        {index: place(parent, shared) for index, parent, shared in edges},
        {index: place(index, shared) for index, _, shared in edges},
        tuple(finer.walk()),
    )


class _FinerTree:
    """A tree of cliques with smaller cliques inserted where they save passes.

    Args:
        tree: tree of cliques.
        targets: variables of each target.
        homes: clique that contains each target.
    """

    def __init__(self, tree: CliqueTree, targets: Sequence[Scope], homes: Sequence[int]) -> None:
        self._sizes = tree.sizes
        self.scopes, self.parents = list(tree.cliques), list(tree.parents)
        self.shared = [tree.shared(index) for index in range(len(tree.cliques))]
        self.homes = list(homes)
        self._events: list[list[_Event]] = [[] for _ in tree.cliques]
        for target, home in enumerate(homes):
            self._events[home].append(("fit", target, targets[target]))
        for index in reversed(range(len(self.parents))):
            if self._events[index] and self.parents[index] >= 0:
                self._events[self.parents[index]].append(("down", index, self.shared[index]))
        for index, events in enumerate(self._events):  # the list grows by the inserted cliques
            self._events[index] = [self._join(index, run) for run in self._cut(index, events)]

    def walk(self) -> Iterator[tuple[str, int]]:
        """Yield the steps of a tour, depth first from each root.

        Yields:
            ("fit", position of a target), ("down", position of the clique that is entered) or ("up", position of the
            clique that is left); a root is neither entered nor left.
        """
        for root, parent in enumerate(self.parents):
            path = [(root, iter(self._events[root]))] if parent < 0 else []
            while path:
                index, events = path[-1]
                kind, position, _ = next(events, ("up", index, ()))
                if kind == "up":
                    path.pop()
                elif kind == "down":
                    path.append((position, iter(self._events[position])))
                if kind != "up" or path:
                    yield kind, position

    def _cells(self, scope: Iterable[str]) -> int:
        """Count the cells of a table over some variables."""
        return math.prod(self._sizes[name] for name in scope)

    def _cut(self, index: int, events: Sequence[_Event]) -> list[list[_Event]]:
        """Cut a clique's events into runs at the least cost; a run of several events gets a smaller clique of its own.

        Dynamic programming over the last run: the cost of a pass is the number of cells plus that of its call.

        Args:
            index: position of the clique.
            events: its events, in order.
        """
        here = self._cells(self.scopes[index]) + CALL_CELLS
        costs, starts = [0], [0]
        for stop in range(1, len(events) + 1):
            cost, start = costs[-1] + 2 * here, stop - 1
            union = set(events[start][2])
            for first in range(stop - 2, max(-1, stop - 1 - LONGEST_RUN), -1):
                union.update(events[first][2])
                there = self._cells(union) + CALL_CELLS
                if there >= here:
                    break
                # Two passes over this clique, one message each way, and two passes over the smaller clique per event.
                joint = costs[first] + 2 * here + (MESSAGE_PASSES + 2 * (stop - first)) * there
                cost, start = min((cost, start), (joint, first))
            costs.append(cost)
            starts.append(start)
        runs, stop = list[list[_Event]](), len(events)
        while stop:
            runs.append(list(events[starts[stop] : stop]))
            stop = starts[stop]
        return runs[::-1]

    def _join(self, index: int, run: list[_Event]) -> _Event:
        """Insert a smaller clique for a run of events and return the visit to it; return a single event unchanged."""
        if len(run) == 1:
            return run[0]
        names = {name for _, _, scope in run for name in scope}
        scope = tuple(name for name in self.scopes[index] if name in names)
        added = len(self.scopes)
        self.scopes.append(scope)
        self.shared.append(scope)
        self.parents.append(index)
        self._events.append(run)
        for kind, position, _ in run:
            if kind == "fit":
                self.homes[position] = added
            else:
                self.parents[position] = added
        return "down", added, scope


def _order_axes(tree: CliqueTree, scopes: Sequence[Scope], targets: Sequence[Scope]) -> tuple[Scope, ...]:
    """Order the axes of every clique: last those that most tables have, so that numpy's inner loops are long.

    Variables of targets come after all others; among these and among the others, those of more cliques come later, and
    equal ones are in the order of their names.

    Args:
        tree: whose cliques are counted.
        scopes: variables of every clique, the inserted ones included.
        targets: variables of each target.
    """
    cliques = Counter(name for clique in tree.cliques for name in clique)
    aimed = {name for scope in targets for name in scope}
    rank = {name: (name in aimed, count, name) for name, count in cliques.items()}
    return tuple(tuple(sorted(scope, key=rank.__getitem__)) for scope in scopes)


def _place_table(clique: int, names: Scope, scope: Scope, sizes: Mapping[str, int]) -> Place:
    """Compute the alignment of a table with the axes of a clique.

    Args:
        clique: position of the clique.
        names: variables of the clique in the order of its axes.
        scope: variables of the table in the order of its axes.
        sizes: number of states of each variable.
    """
    runs: list[tuple[int, bool]] = []
    for name in names:
        size, has = sizes[name], name in scope
        if size > 1 and runs and runs[-1][1] == has:
            runs[-1] = runs[-1][0] * size, has
        elif size > 1:
            runs.append((size, has))
    return Place(
        clique,
        (*(scope.index(name) for name in names if name in scope), len(scope)),
        tuple(sizes[name] if name in scope else 1 for name in names),
        tuple(size for size, _ in runs),
        tuple(size if has else 1 for size, has in runs),
        tuple(axis for axis, (_, has) in enumerate(runs) if not has),
    )


def _choose_parents(
    cliques: Sequence[set[str]], parents: Sequence[int], sizes: Mapping[str, int]
) -> tuple[list[set[str]], list[int]]:
    """Reconnect every clique to the smallest earlier clique that contains its separator.

    A message costs a pass over both cliques, and a large clique often has many children that share few variables with
    it.

    Args:
        cliques: variables of each clique of a tree.
        parents: position of each clique's parent; -1 for a root.
        sizes: number of states of each variable.

    Returns:
        The cliques, parents first, and the position of each one's new parent.
    """
    order = list(_depth_first(parents))
    cells = [math.prod(sizes[name] for name in cliques[index]) for index in order]
    having: dict[str, list[int]] = {}
    chosen = list[int]()
    for position, index in enumerate(order):
        parent = parents[index]
        shared = cliques[index] & cliques[parent] if parent >= 0 else set()
        near = min((having[name] for name in shared), key=len, default=[])
        chosen.append(min((at for at in near if shared <= cliques[order[at]]), key=cells.__getitem__, default=-1))
        for name in cliques[index]:
            having.setdefault(name, []).append(position)
    return [cliques[index] for index in order], chosen


def _depth_first(parents: Sequence[int]) -> Iterator[int]:
    """Yield the positions of the cliques of a tree, depth first from the roots."""
    children: list[list[int]] = [[] for _ in parents]
    for index, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(index)
    waiting = [index for index, parent in enumerate(parents) if parent < 0]
    while waiting:
        yield (index := waiting.pop())
        waiting += children[index]
