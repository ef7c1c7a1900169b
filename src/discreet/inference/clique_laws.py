"""One joint law for every draw: a product of factors on a tree of cliques, moved to given margins.

    p_s(x)  ~  prod_k factor_k[x_k, s],  then scaled by  target_t[x_t, s] / p_s(x_t)  in turn, again and again,

which ends at the law of least relative entropy to the product among all that have the margins (Csiszar, 1975), if
there is one. Each clique holds the margin of its variables, a belief; a tour walks the tree depth first, scales the
belief of each clique to its targets, and passes one message on to the next clique and one back, so that a whole round
costs two messages for each clique (Jirousek and Preucil, 1995, "On the effective implementation of the iterative
proportional fitting procedure"). Messages are those of Jensen, Lauritzen and Olesen (1990): the sender's margin of the
shared variables over what it last was.

The law is returned as rows: the probabilities of each variable given those before it in its clique, so that it is a
network like any other, if wider. A clique's rows do not change by what its parent sends last, which is a function of
their conditions alone: nothing has to be brought down the tree after the last tour.

All draws are worked on together, the last axis of every array, in float32 and in chunks that fit into a cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from discreet.inference.junction_tree import clique_tree, first_holders
from discreet.model.arrays import Array, Floats
from discreet.model.schema import Scope

__all__ = ["CliqueTree", "FittedLaws", "fit_laws"]

Named = tuple[Scope, Array]
"""Variables and an array with an axis for each, in their order, and one of draws."""

LEAST = np.finfo(np.float32).tiny
"""Smallest normal number of single precision: what is below counts as 0, and a zero is divided by this instead."""
LEAST_MISFIT = 1e-6
"""Distance of a law to its targets that single precision does not tell from none."""
LEAST_GAIN = 0.01
"""Part of the misfit that a tour takes away at least, or it is the last: targets that contradict each other are met no
better by more tours."""
FACTORS_PER_SCALE = 4
"""Factors of at most 1 that are multiplied before their product is divided by its largest entry, or it underflows."""
FAR = 0.999
"""Distance from which on a target may have all its probability where the law has none."""
CHUNK_VALUES = 2**20
"""Values of all beliefs of the draws that are worked on together."""
LEAST_CHUNK = 64
"""Draws that are worked on together at least: with fewer, numpy's own loops cost more than the arithmetic."""


@dataclass(frozen=True, eq=False)
class CliqueTree:
    """Sets of variables, joined so that those which share a variable are joined by others that have it, too.

    Args:
        cliques: every one after its parent; what it shares with its parent first, in the parent's order, and then its
            own variables in the order in which the scopes first name them.
        parents: position of each clique's parent; -1 for a root.
        sizes: states of each variable.
    """

    cliques: tuple[Scope, ...]
    parents: tuple[int, ...]
    sizes: Mapping[str, int]

    @staticmethod
    def of(scopes: Iterable[Scope], sizes: Mapping[str, int]) -> CliqueTree:
        """A tree whose cliques hold every scope.

        Args:
            scopes: sets of variables.
            sizes: states of each variable.

        Returns:
            The tree, by the cheaper of two greedy eliminations.

        Example:
            >>> tree = CliqueTree.of([("a", "b"), ("b", "c"), ("d",)], {"a": 2, "b": 3, "c": 2, "d": 2})
            >>> tree.cliques, tree.parents, tree.cells
            ((('d',), ('b', 'c'), ('b', 'a')), (-1, -1, 1), 14)
        """
        scopes = [tuple(scope) for scope in scopes]
        cliques, parents = clique_tree(scopes, sizes)
        rank = {name: place for place, name in enumerate(dict.fromkeys(name for scope in scopes for name in scope))}
        children = _list_children(parents)
        order, waiting = list[int](), [index for index, parent in enumerate(parents) if parent < 0]
        while waiting:
            order.append(waiting.pop())
            waiting += children[order[-1]]
        place = {-1: -1} | {index: position for position, index in enumerate(order)}
        found = list[Scope]()
        for index in order:
            above = found[place[parents[index]]] if parents[index] >= 0 else ()
            shared = tuple(name for name in above if name in cliques[index])
            found.append((*shared, *sorted(cliques[index].difference(shared), key=rank.__getitem__)))
        return CliqueTree(tuple(found), tuple(place[parents[index]] for index in order), MappingProxyType(dict(sizes)))

    @property
    def cells(self) -> int:
        """Of all cliques together, for one draw."""
        return sum(self._cells)

    def home(self, names: Iterable[str]) -> int | None:
        """Position of the smallest clique that holds some variables; None where none does.

        Args:
            names: of the variables.

        Returns:
            The position, of the first among equals.
        """
        place = self.homes([tuple(names)])[0]
        return place if place >= 0 else None

    def homes(self, scopes: Sequence[Scope]) -> tuple[int, ...]:
        """The same for many sets of variables; -1 where no clique holds one."""
        return first_holders(self._members, self._by_cells, scopes)

    def shape(self, index: int) -> tuple[int, ...]:
        """Sizes of a clique's variables."""
        return tuple(self.sizes[name] for name in self.cliques[index])

    def shared(self, index: int) -> Scope:
        """Variables that a clique shares with its parent: the first of it."""
        parent = self.parents[index]
        return tuple(name for name in self.cliques[index] if parent >= 0 and name in self._members[parent])

    def row_parents(self) -> dict[str, Scope]:
        """By variable those before it in its clique, which its rows are conditioned on; conditions come first.

        Example:
            >>> CliqueTree.of([("a", "b"), ("b", "c")], {"a": 2, "b": 3, "c": 2}).row_parents()
            {'b': (), 'c': ('b',), 'a': ('b',)}
        """
        return {
            names[place]: names[:place]
            for index, names in enumerate(self.cliques)
            for place in range(len(self.shared(index)), len(names))
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


@dataclass(frozen=True, eq=False)
class FittedLaws:
    """The law of every draw, as rows of a network.

    Args:
        rows: by variable, in an order in which conditions come first: the variables it is conditioned on, and its
            probabilities given them, shape `(*sizes of those, size, draws)`, float32. Rows whose condition is
            impossible are even.
        misfit: of each tour, the largest L1 distance of a target to the margin that the tour met, mean over draws.
    """

    rows: Mapping[str, Named]
    misfit: Floats


def fit_laws(
    tree: CliqueTree, factors: Sequence[Named], targets: Sequence[Named], *, tours: int = 8, chunk: int | None = None
) -> FittedLaws:
    """Fit the law of every draw and return it as rows.

    Args:
        tree: each scope of a factor or a target lies in one of its cliques.
        factors: non-negative, of any scale; the last axis, of draws, may have length 1: the same for all.
        targets: probabilities that sum to 1. Where those of a clique contradict each other, the last one is met.
        tours: at most; fewer once one gains less than a hundredth of the misfit.
        chunk: draws that are worked on together; None for as many as fit into a cache.

    Returns:
        The laws. A cell that is 0 in the product of the factors stays 0; a target that leaves nothing else in a draw
        does not move it.

    Raises:
        ValueError: no clique holds a scope.

    Example:
        >>> tree = CliqueTree.of([("a", "b")], {"a": 2, "b": 2})
        >>> independent = [(("a", "b"), np.full((2, 2, 1), 0.25))]
        >>> laws = fit_laws(tree, independent, [(("b",), np.array([[0.9], [0.1]]))])
        >>> laws.rows["b"][0], laws.rows["b"][1][0, :, 0].round(3).tolist()
        (('a',), [0.9, 0.1])
    """
    draws = max((array.shape[-1] for _, array in (*factors, *targets)), default=1)
    plan = _make_plan(tree, [scope for scope, _ in factors], [scope for scope, _ in targets])
    chunks = [_Chunk(plan, _pick(factors, part), _pick(targets, part)) for part in _split(plan, draws, chunk)]
    misfits = list[float]()
    while targets and len(misfits) < tours:
        misfits.append(sum(float(part.tour().sum(dtype=np.float64)) for part in chunks) / draws)
        if misfits[-1] < LEAST_MISFIT or (len(misfits) > 1 and misfits[-1] > (1 - LEAST_GAIN) * misfits[-2]):
            break
    return FittedLaws(MappingProxyType(_read_rows(plan, chunks, draws)), np.array(misfits))


def _split(plan: _Plan, draws: int, chunk: int | None) -> list[slice]:
    """Parts of the draws, about equally many in each."""
    most = chunk or max(LEAST_CHUNK, CHUNK_VALUES // max(1, plan.tree.cells))
    ends = np.linspace(0, draws, math.ceil(draws / most) + 1).round().astype(int).tolist()
    return [slice(low, high) for low, high in pairwise(ends)]


def _pick(named: Sequence[Named], part: slice) -> list[Array]:
    """Some draws of every array; all of one that is the same for all of them."""
    return [array[..., part] if array.shape[-1] > 1 else array for _, array in named]


@dataclass(frozen=True)
class _Place:
    """Where a table over some of a clique's variables lies in the clique, axes merged where they are neighbours.

    Args:
        clique: position of the clique.
        order: axes of the table as they stand in the clique, that of draws last.
        merged: shape of the clique's belief, its axes merged; without draws.
        summed: axes of this shape that the table has not.
        spread: shape of the table in it, 1 along these.
        kept: shape of the table, axes merged.
    """

    clique: int
    order: tuple[int, ...]
    merged: tuple[int, ...]
    summed: tuple[int, ...]
    spread: tuple[int, ...]
    kept: tuple[int, ...]


@dataclass(frozen=True)
class _Plan:
    """What is done where, in the same way for every chunk of draws.

    Args:
        tree: of cliques.
        factors: where each factor lies.
        targets: where each target lies.
        parts: for every clique its factors.
        senders: for every clique with a parent, where its message lies in itself.
        receivers: the same in its parent.
        steps: of a tour: (kind of step, position of a target or a clique).
    """

    tree: CliqueTree
    factors: tuple[_Place, ...]
    targets: tuple[_Place, ...]
    parts: tuple[tuple[int, ...], ...]
    senders: Mapping[int, _Place]
    receivers: Mapping[int, _Place]
    steps: tuple[tuple[str, int], ...]


def _make_plan(tree: CliqueTree, factors: Sequence[Scope], targets: Sequence[Scope]) -> _Plan:
    """Find where every factor, target and message lies, and the steps of a tour."""
    homes = tree.homes([*factors, *targets])
    lost = [scope for scope, home in zip((*factors, *targets), homes, strict=True) if home < 0]
    if lost:
        raise ValueError(f"no clique holds {lost[0]}")
    places = [_place(tree, home, scope) for scope, home in zip((*factors, *targets), homes, strict=True)]
    parts: list[list[int]] = [[] for _ in tree.cliques]
    for source, home in enumerate(homes[: len(factors)]):
        parts[home].append(source)
    for part in parts:
        part.sort(key=lambda source: math.prod(places[source].kept))
    below = [index for index, parent in enumerate(tree.parents) if parent >= 0]
    return _Plan(
        tree,
        tuple(places[: len(factors)]),
        tuple(places[len(factors) :]),
        tuple(map(tuple, parts)),
        {index: _place(tree, index, tree.shared(index)) for index in below},
        {index: _place(tree, tree.parents[index], tree.shared(index)) for index in below},
        tuple(_walk(tree, homes[len(factors) :])),
    )


def _place(tree: CliqueTree, clique: int, scope: Scope) -> _Place:
    """Where a table lies in a clique."""
    names = tree.cliques[clique]
    runs: list[tuple[bool, int]] = []
    for name in names:
        if tree.sizes[name] == 1:
            continue
        kept = name in scope
        if runs and runs[-1][0] == kept:
            runs[-1] = kept, runs[-1][1] * tree.sizes[name]
        else:
            runs.append((kept, tree.sizes[name]))
    return _Place(
        clique,
        (*(scope.index(name) for name in names if name in scope), len(scope)),
        tuple(size for _, size in runs),
        tuple(axis for axis, (kept, _) in enumerate(runs) if not kept),
        tuple(size if kept else 1 for kept, size in runs),
        tuple(size for kept, size in runs if kept),
    )


def _walk(tree: CliqueTree, homes: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Steps of a tour: depth first through all cliques that have a target, or another below them that has."""
    wanted: list[list[int]] = [[] for _ in tree.cliques]
    live = set[int]()
    for target, home in enumerate(homes):
        wanted[home].append(target)
        while home >= 0 and home not in live:
            live.add(home)
            home = tree.parents[home]
    path = list[int]()
    for index in (*sorted(live), -1):
        above = tree.parents[index] if index >= 0 else -1
        while path and path[-1] != above:
            left = path.pop()
            if path:
                yield "up", left
        if index >= 0:
            if path:
                yield "down", index
            path.append(index)
            yield from (("fit", target) for target in wanted[index])


class _Chunk:
    """Beliefs of some draws.

    Args:
        plan: of what is done.
        factors: of these draws, or of length 1.
        targets: the same.
    """

    def __init__(self, plan: _Plan, factors: Sequence[Array], targets: Sequence[Array]) -> None:
        self._plan = plan
        self.draws = max((array.shape[-1] for array in (*factors, *targets)), default=1)
        self.beliefs: list[Array] = []
        for index in range(len(plan.tree.cliques)):
            self.beliefs.append(self._multiply(index, factors))
        self._wanted = [
            np.ascontiguousarray(
                np.broadcast_to(array.transpose(place.order), (*array.transpose(place.order).shape[:-1], self.draws)),
                np.float32,
            ).reshape(-1, self.draws)
            for place, array in zip(plan.targets, targets, strict=True)
        ]
        self._last: dict[int, Array] = {}
        for index in range(len(plan.tree.cliques) - 1, -1, -1):
            if plan.tree.parents[index] >= 0:
                self._send(plan.senders[index], plan.receivers[index], index)
            else:
                total = self.beliefs[index].reshape(-1, self.draws).sum(axis=0)
                self.beliefs[index] /= np.maximum(total, LEAST)

    def _multiply(self, index: int, factors: Sequence[Array]) -> Array:
        """Multiply the factors of a clique."""
        plan = self._plan
        belief = np.ones((*plan.tree.shape(index), self.draws), np.float32)
        for source in plan.parts[index]:
            place, array = plan.factors[source], factors[source]
            peak = np.maximum.reduce(array.reshape(-1, array.shape[-1]), axis=0)
            scaled = np.divide(array, np.maximum(peak, LEAST)).astype(np.float32).transpose(place.order)
            view = belief.reshape(*place.merged, self.draws)
            view *= scaled.reshape(*place.spread, -1)
        return belief

    def _send(self, source: _Place, target: _Place, index: int) -> None:
        """Pass a message along the edge above a clique."""
        sent = self.beliefs[source.clique].reshape(*source.merged, self.draws).sum(axis=source.summed)
        flat = sent.reshape(-1, self.draws)
        if index in self._last:
            ratio = flat / np.maximum(self._last[index], LEAST)
        else:
            ratio = flat / np.maximum(flat.sum(axis=0), LEAST)
        view = self.beliefs[target.clique].reshape(*target.merged, self.draws)
        view *= ratio.reshape(*target.spread, self.draws)
        self._last[index] = flat

    def tour(self) -> Array:
        """Fit every target once; largest misfit of each draw that is met."""
        plan, worst = self._plan, np.zeros(self.draws, np.float32)
        for kind, index in plan.steps:
            if kind == "fit":
                np.maximum(worst, self._fit(plan.targets[index], self._wanted[index]), out=worst)
            elif kind == "up":
                self._send(plan.senders[index], plan.receivers[index], index)
            else:
                self._send(plan.receivers[index], plan.senders[index], index)
        return worst

    def _fit(self, place: _Place, wanted: Array) -> Array:
        """Scale a belief to a target; the L1 distance of its margin before."""
        view = self.beliefs[place.clique].reshape(*place.merged, self.draws)
        margin = view.sum(axis=place.summed).reshape(-1, self.draws)
        misfit: Array = np.abs(wanted - margin).sum(axis=0)
        ratio = wanted / np.maximum(margin, LEAST)
        far = misfit > FAR
        if far.any():
            possible = (wanted * (margin > LEAST)).sum(axis=0)
            ratio[:, far] = np.where(possible > 0, ratio / np.maximum(possible, LEAST), 1)[:, far]
        view *= ratio.reshape(*place.spread, self.draws)
        return misfit


def _read_rows(plan: _Plan, chunks: Sequence[_Chunk], draws: int) -> dict[str, Named]:
    """The probabilities of every variable given those before it in its clique."""
    tree = plan.tree
    rows: dict[str, Named] = {}
    for index, names in enumerate(tree.cliques):
        for place in range(len(tree.shared(index)), len(names)):
            shape = tree.shape(index)[: place + 1]
            rows[names[place]] = names[:place], np.empty((*shape, draws), np.float32)
    low = 0
    for chunk in chunks:
        high = low + chunk.draws
        for index, names in enumerate(tree.cliques):
            law = chunk.beliefs[index]
            for place in range(len(names) - 1, len(tree.shared(index)) - 1, -1):
                total = law.sum(axis=-2)
                out = rows[names[place]][1][..., low:high]
                np.divide(law, np.maximum(total, LEAST)[..., None, :], out=out)
                np.copyto(out, 1 / out.shape[-2], where=(total < LEAST)[..., None, :])
                law = total
        low = high
    return rows


def _list_children(parents: Sequence[int]) -> list[list[int]]:
    """Positions of the children of every clique."""
    children: list[list[int]] = [[] for _ in parents]
    for index, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(index)
    return children
