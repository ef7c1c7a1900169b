"""Junction trees over all draws at once: exact inference with the draws on the last axis of every array.

A tree is planned from scopes and sizes alone, so its cost is known before anything is computed; evidence is sliced out
before. Messages and partial products are normalised, and what that removes is kept in a separate logarithm.
Algorithm: Lauritzen and Spiegelhalter (1988), in the form of Jensen, Lauritzen and Olesen (1990).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from discreet.model.schema import Scope

__all__ = ["Factor", "JunctionTree", "calibrate", "collect", "elimination_order", "junction_tree", "multiply"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factor:
    """A non-negative function of some variables, for every draw.

    Args:
        scope: its variables, in the order of the axes.
        array: shape `(*sizes of the scope, draws)`.
    """

    scope: Scope
    array: Floats


@dataclass(frozen=True)
class JunctionTree:
    """Cliques in an order in which every clique comes before its parent; the last of each tree is a root.

    Args:
        sizes: states of each variable.
        cliques: variables of each, those it shares with its parent last.
        parents: position of each clique's parent; -1 for a root.
        shared: number of variables that each clique shares with its parent.
        homes: for every factor the clique that takes it up.
        barren: cliques whose message to their parent is 1 by construction: all below them are, and their factors are
            the conditional probabilities of just their own variables.
        cells: of all cliques together, for one draw.
    """

    sizes: Mapping[str, int]
    cliques: tuple[Scope, ...]
    parents: tuple[int, ...]
    shared: tuple[int, ...]
    homes: tuple[int, ...]
    barren: tuple[bool, ...]
    cells: int

    def separator(self, index: int) -> Scope:
        """Variables that a clique shares with its parent."""
        return self.cliques[index][len(self.cliques[index]) - self.shared[index] :]


def elimination_order(
    scopes: Sequence[Sequence[str]], sizes: Mapping[str, int], last: Sequence[str] = ()
) -> tuple[list[Scope], int]:
    """Eliminate greedily, by fewest fill-in arcs and by smallest clique, and keep the cheaper of the two.

    Args:
        scopes: of the factors.
        sizes: states of each variable.
        last: variables to eliminate after all others.

    Returns:
        For each step (the variable, the variables it is then connected with), and the cells of all those cliques.
    """
    plans = [_eliminate(scopes, sizes, last, fill=fill) for fill in (True, False)]
    costs = [sum(math.prod(sizes[name] for name in clique) for clique in plan) for plan in plans]
    best = 0 if costs[0] <= costs[1] else 1
    return plans[best], costs[best]


def _eliminate(
    scopes: Sequence[Sequence[str]], sizes: Mapping[str, int], last: Sequence[str], *, fill: bool
) -> list[Scope]:
    """One greedy elimination; ties are met by the smaller clique, then by the order of the names."""
    near: dict[str, set[str]] = {}
    for scope in scopes:
        for name in scope:
            near.setdefault(name, set()).update(other for other in scope if other != name)
    rank = {name: position for position, name in enumerate(sizes)}
    kept = set(last)

    def cost(name: str) -> tuple[bool, int, int, int]:
        neighbours = near[name]
        weight = sizes[name] * math.prod(sizes[other] for other in neighbours)
        missing = sum(len(neighbours - near[other]) - 1 for other in neighbours) // 2
        return (name in kept, *((missing, weight) if fill else (weight, missing)), rank[name])

    costs = {name: cost(name) for name in near}
    steps: list[Scope] = []
    while near:
        name = min(costs, key=costs.__getitem__)
        neighbours = near.pop(name)
        del costs[name]
        steps.append((name, *sorted(neighbours, key=rank.__getitem__)))
        for other in neighbours:
            near[other].discard(name)
            near[other] |= neighbours - {other}
        touched = set(neighbours).union(*(near[other] for other in neighbours)) if neighbours else set()
        for other in touched:
            costs[other] = cost(other)
    return steps


def junction_tree(
    families: Sequence[tuple[str | None, Scope]], sizes: Mapping[str, int], targets: Scope = ()
) -> JunctionTree:
    """Plan a tree whose cliques hold every factor, and the targets together; equal questions share a plan.

    Args:
        families: for every factor the variable whose conditional probabilities it holds (None where that variable is
            observed), and its scope.
        sizes: states of each variable.
        targets: variables wanted in one clique.

    Returns:
        The tree.
    """
    return _plan(tuple(families), tuple(sizes.items()), targets)


@lru_cache(maxsize=1024)
def _plan(
    families: tuple[tuple[str | None, Scope], ...], listed: tuple[tuple[str, int], ...], targets: Scope
) -> JunctionTree:
    """The tree, from arguments that can be looked up."""
    sizes = MappingProxyType(dict(listed))
    steps, _ = elimination_order([*(scope for _, scope in families), targets], sizes)
    cliques, parents = _cliques(steps)
    scoped, shared = [], []
    for clique, parent in zip(cliques, parents, strict=True):
        common = clique & cliques[parent] if parent >= 0 else set[str]()
        scoped.append(tuple(name for part in (clique - common, common) for name in sizes if name in part))
        shared.append(len(common))
    sets = [frozenset(clique) for clique in scoped]
    costs = [math.prod(sizes[name] for name in clique) for clique in scoped]
    by_cost = sorted(range(len(scoped)), key=costs.__getitem__)
    homes = tuple(next((i for i in by_cost if sets[i].issuperset(scope)), -1) for _, scope in families)
    barren = _barren(families, scoped, parents, shared, homes)
    return JunctionTree(sizes, tuple(scoped), parents, tuple(shared), homes, barren, sum(costs))


def _cliques(steps: Sequence[Scope]) -> tuple[list[set[str]], tuple[int, ...]]:
    """Cliques of an elimination and the tree they form, children first."""
    position = {step[0]: index for index, step in enumerate(steps)}
    cliques: list[set[str]] = []
    parents: list[int] = []
    at: dict[int, int] = {}
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        above = min((position[name] for name in step[1:]), default=-1)
        if above >= 0 and len(step) - 1 == len(steps[above]) and cliques[at[above]] == set(steps[above]):
            # The clique above lies in this one, which takes its place in the tree.
            cliques[at[above]] = set(step)
            at[index] = at[above]
        else:
            cliques.append(set(step))
            parents.append(at[above] if above >= 0 else -1)
            at[index] = len(cliques) - 1
    last = len(cliques) - 1
    return cliques[::-1], tuple(last - parent if parent >= 0 else -1 for parent in parents[::-1])


def _barren(
    families: Sequence[tuple[str | None, Scope]],
    cliques: Sequence[Scope],
    parents: Sequence[int],
    shared: Sequence[int],
    homes: Sequence[int],
) -> tuple[bool, ...]:
    """Cliques that send a message of ones."""
    children: list[list[str | None]] = [[] for _ in cliques]
    for (child, _), home in zip(families, homes, strict=True):
        if home >= 0:
            children[home].append(child)
    barren = [True] * len(cliques)
    for index, clique in enumerate(cliques):
        own = clique[: len(clique) - shared[index]]
        barren[index] &= len(children[index]) == len(own) and set(children[index]) == set(own)
        if not barren[index] and parents[index] >= 0:
            barren[parents[index]] = False
    return tuple(barren)


@lru_cache(maxsize=65536)
def _alignment(inner: Scope, outer: Scope) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Axes of the inner scope in the order of the outer one, and the outer positions without an inner axis."""
    axes = (*(inner.index(name) for name in outer if name in inner), len(inner))
    return axes, tuple(position for position, name in enumerate(outer) if name not in inner)


def _align(factor: Factor, scope: Scope) -> Floats:
    """View a factor with the axes of a larger scope, size 1 where it does not depend on a variable."""
    axes, absent = _alignment(factor.scope, scope)
    return np.expand_dims(factor.array.transpose(axes), absent) if absent else factor.array.transpose(axes)


def multiply(factors: Sequence[Factor], scope: Scope, sizes: Mapping[str, int], draws: int) -> tuple[Floats, Floats]:
    """Product of factors over a scope, in a new array, up to a scale for each draw.

    Small factors are multiplied first, over the variables they have, so that the large product is written once. Partial
    products are divided by their largest entry: a clique may hold any number of factors, and their plain product would
    underflow.

    Args:
        factors: their scopes lie in `scope`.
        scope: axes of the product.
        sizes: states of each variable.
        draws: length of the last axis.

    Returns:
        (product over its scale, shape `(*sizes, draws)`, ones where there is no factor; log of the scale, shape
        `(draws,)`).
    """
    shape = (*(sizes[name] for name in scope), draws)
    ordered = sorted(factors, key=lambda factor: factor.array.size)
    log_scale = np.zeros(draws)
    if not ordered:
        return np.ones(shape), log_scale
    product = ordered[0]
    for step, factor in enumerate(ordered[1:], 2):
        union = tuple(name for name in scope if name in product.scope or name in factor.scope)
        array = _align(product, union) * _align(factor, union)
        if step < len(ordered):
            peak = array.reshape(-1, draws).max(axis=0)
            peak = np.where(peak > 0, peak, 1)
            array /= peak
            log_scale += np.log(peak)
        product = Factor(union, array)
    if len(ordered) > 1 and product.scope == scope:
        return product.array, log_scale
    return np.array(np.broadcast_to(_align(product, scope), shape)), log_scale


class _Propagation:
    """One pass of messages over one chunk of draws."""

    def __init__(self, tree: JunctionTree, factors: Sequence[Factor], draws: int) -> None:
        self.tree = tree
        self.draws = draws
        self.factors: list[list[Factor]] = [[] for _ in tree.cliques]
        self.log_total = np.zeros(draws)
        for factor, home in zip(factors, tree.homes, strict=True):
            if home >= 0:
                self.factors[home].append(factor)
            else:
                with np.errstate(divide="ignore"):
                    self.log_total += np.log(factor.array)
        self.beliefs: list[Floats | None] = [None] * len(tree.cliques)
        self.messages: list[Floats | None] = [None] * len(tree.cliques)
        self.separators: dict[int, Floats] = {}

    def up(self) -> None:
        """Send every message to a parent; what normalises the messages makes up log P(evidence)."""
        for index, parent in enumerate(self.tree.parents):
            if self.tree.barren[index]:
                continue
            belief, log_scale = multiply(self.factors[index], self.tree.cliques[index], self.tree.sizes, self.draws)
            message = belief.reshape(-1, *belief.shape[belief.ndim - 1 - self.tree.shared[index] :]).sum(axis=0)
            total = message.reshape(-1, self.draws).sum(axis=0)
            with np.errstate(divide="ignore"):
                self.log_total += np.log(total) + log_scale
            self.beliefs[index] = belief
            if parent >= 0:
                message /= np.where(total > 0, total, 1)
                self.messages[index] = message
                self.factors[parent].append(Factor(self.tree.separator(index), message))

    def down(self, order: Sequence[int]) -> None:
        """Bring what the rest of the tree knows to the cliques of an order in which parents come first."""
        for index in order:
            parent, scope = self.tree.parents[index], self.tree.separator(index)
            belief, message = self.beliefs[index], self.messages[index]
            extra = list[Factor]()
            if parent >= 0:
                above = self.beliefs[parent]
                assert above is not None
                known = _sum_to(Factor(self.tree.cliques[parent], above), scope, self.draws)
                self.separators[index] = known
                # What came up is taken out again; where it was zero the product is zero already.
                ratio = (
                    known
                    if message is None
                    else np.divide(known, message, out=np.zeros(known.shape), where=message > 0)
                )
                extra.append(Factor(scope, ratio))
            if belief is None:
                parts = [*self.factors[index], *extra]
                self.beliefs[index], _ = multiply(parts, self.tree.cliques[index], self.tree.sizes, self.draws)
            elif extra:
                belief *= _align(extra[0], self.tree.cliques[index])

    def known(self) -> list[Factor]:
        """Every clique and separator after a full pass down, the smallest last."""
        cliques = zip(self.tree.cliques, self.beliefs, strict=True)
        reached = [Factor(clique, belief) for clique, belief in cliques if belief is not None]
        reached += [Factor(self.tree.separator(index), known) for index, known in self.separators.items()]
        return sorted(reached, key=lambda factor: -factor.array.size)


def _sum_to(factor: Factor, scope: Scope, draws: int) -> Floats:
    """Sum out what is not in the scope, in the scope's order, and normalise each draw."""
    summed = factor.array.sum(axis=tuple(axis for axis, name in enumerate(factor.scope) if name not in scope))
    kept = tuple(name for name in factor.scope if name in scope)
    joint = summed.transpose(_alignment(kept, scope)[0])
    total = joint.reshape(-1, draws).sum(axis=0)
    normalised: Floats = joint / np.where(total > 0, total, 1)
    return normalised


def collect(tree: JunctionTree, factors: Sequence[Factor], targets: Scope, draws: int) -> tuple[Floats, Floats]:
    """The normalised joint of some variables, and the logarithm of the sum over all.

    Args:
        tree: planned for these factors, with the targets in one clique.
        factors: evidence sliced out; those without a scope are constants.
        targets: as planned; none for the sum alone.
        draws: length of the last axis.

    Returns:
        (joint of the targets, shape `(*sizes, draws)`, zero in draws whose sum is zero; log of the sum, shape
        `(draws,)`, -inf where it is zero).
    """
    pass_ = _Propagation(tree, factors, draws)
    pass_.up()
    if not targets:
        return np.ones(draws), pass_.log_total
    path = [next(index for index, clique in enumerate(tree.cliques) if set(targets) <= set(clique))]
    while tree.parents[path[-1]] >= 0:
        path.append(tree.parents[path[-1]])
    pass_.down(path[::-1])
    # Cliques off the path know only what lies below them.
    belief = pass_.beliefs[path[0]]
    assert belief is not None
    return _sum_to(Factor(tree.cliques[path[0]], belief), targets, draws), pass_.log_total


def calibrate(tree: JunctionTree, factors: Sequence[Factor], draws: int) -> tuple[dict[str, Floats], Floats]:
    """The marginal of every variable, and the logarithm of the sum over all.

    Args:
        tree: planned for these factors.
        factors: evidence sliced out; those without a scope are constants.
        draws: length of the last axis.

    Returns:
        (marginals by variable, shape `(size, draws)`; log of the sum, shape `(draws,)`, -inf where it is zero).
    """
    pass_ = _Propagation(tree, factors, draws)
    pass_.up()
    pass_.down(range(len(tree.cliques) - 1, -1, -1))
    holders = {name: factor for factor in pass_.known() for name in factor.scope}
    return {name: _sum_to(holders[name], (name,), draws) for name in tree.sizes}, pass_.log_total
