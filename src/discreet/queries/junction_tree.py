"""Junction trees over all draws at once: exact inference with the draws on the last axis of every array.

A tree is planned from scopes and sizes alone, so its cost is known before anything is computed; evidence is sliced out
before. Messages are normalised, and what that removes is kept in a separate logarithm, so nothing underflows.
Algorithm: Lauritzen and Spiegelhalter (1988), in the form of Jensen, Lauritzen and Olesen (1990).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Factor", "JunctionTree", "align", "calibrate", "collect", "elimination_order", "junction_tree", "multiply"]

Floats = npt.NDArray[np.float64]
Scope = tuple[str, ...]


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
        cliques: variables of each, those it shares with its parent last.
        parents: position of each clique's parent; -1 for a root.
        shared: number of variables that each clique shares with its parent.
        cells: of all cliques together, for one draw.
    """

    cliques: tuple[Scope, ...]
    parents: tuple[int, ...]
    shared: tuple[int, ...]
    cells: int

    def home(self, scope: Sequence[str], sizes: Mapping[str, int]) -> int:
        """The smallest clique that holds some variables."""
        wanted = set(scope)
        return min(
            (index for index, clique in enumerate(self.cliques) if wanted <= set(clique)),
            key=lambda index: math.prod(sizes[name] for name in self.cliques[index]),
        )


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


def junction_tree(scopes: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> JunctionTree:
    """Plan a tree whose cliques hold every scope.

    Args:
        scopes: of the factors; at least one variable in all.
        sizes: states of each variable.

    Returns:
        The tree.
    """
    steps, _ = elimination_order(scopes, sizes)
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
    scoped, shared = [], []
    for clique, parent in zip(cliques, parents, strict=True):
        common = clique & cliques[parent] if parent >= 0 else set[str]()
        scoped.append(tuple(name for part in (clique - common, common) for name in sizes if name in part))
        shared.append(len(common))
    last = len(cliques) - 1
    return JunctionTree(
        cliques=tuple(reversed(scoped)),
        parents=tuple(last - parent if parent >= 0 else -1 for parent in reversed(parents)),
        shared=tuple(reversed(shared)),
        cells=sum(math.prod(sizes[name] for name in clique) for clique in scoped),
    )


def align(factor: Factor, scope: Scope) -> Floats:
    """View a factor with the axes of a larger scope, size 1 where it does not depend on a variable.

    Args:
        factor: its scope lies in the other.
        scope: the order of axes wanted.

    Returns:
        A view, shape `(*sizes or 1, draws)`.
    """
    inside = [name for name in scope if name in factor.scope]
    array = factor.array.transpose([factor.scope.index(name) for name in inside] + [len(factor.scope)])
    sizes = dict(zip(inside, array.shape, strict=False))
    return array.reshape(*(sizes.get(name, 1) for name in scope), array.shape[-1])


def multiply(factors: Sequence[Factor], scope: Scope, sizes: Mapping[str, int], draws: int) -> Floats:
    """Product of factors over a scope, in a new array.

    Args:
        factors: their scopes lie in `scope`.
        scope: axes of the product.
        sizes: states of each variable.
        draws: length of the last axis.

    Returns:
        Shape `(*sizes, draws)`; ones where there is no factor.
    """
    shape = (*(sizes[name] for name in scope), draws)
    if not factors:
        return np.ones(shape)
    first, *rest = sorted(factors, key=lambda factor: -factor.array.size)
    aligned = align(first, scope)
    if not rest:
        return np.array(np.broadcast_to(aligned, shape))
    product = np.empty(shape)
    np.multiply(aligned, align(rest[0], scope), out=product)
    for factor in rest[1:]:
        product *= align(factor, scope)
    return product


def _beliefs(tree: JunctionTree, factors: Sequence[Factor], sizes: Mapping[str, int], draws: int) -> list[Floats]:
    """Product of the factors that live in each clique."""
    homes: list[list[Factor]] = [[] for _ in tree.cliques]
    for factor in factors:
        homes[tree.home(factor.scope, sizes)].append(factor)
    return [multiply(home, clique, sizes, draws) for home, clique in zip(homes, tree.cliques, strict=True)]


def _upward(tree: JunctionTree, beliefs: list[Floats], draws: int) -> tuple[list[Floats | None], Floats]:
    """Send every clique's message to its parent; `beliefs` are multiplied in place, the logarithm is of P(evidence)."""
    messages: list[Floats | None] = [None] * len(beliefs)
    log_total = np.zeros(draws)
    for index, parent in enumerate(tree.parents):
        own = len(tree.cliques[index]) - tree.shared[index]
        belief = beliefs[index]
        message = belief.reshape(-1, *belief.shape[own:]).sum(axis=0)
        total = message.reshape(-1, draws).sum(axis=0)
        with np.errstate(divide="ignore"):
            log_total += np.log(total)
        if parent >= 0:
            message /= np.where(total > 0, total, 1)
            messages[index] = message
            beliefs[parent] *= align(Factor(tree.cliques[index][own:], message), tree.cliques[parent])
    return messages, log_total


def collect(
    factors: Sequence[Factor], targets: Scope, sizes: Mapping[str, int], draws: int, tree: JunctionTree
) -> tuple[Floats, Floats]:
    """The joint of some variables, not normalised, and the logarithm of the whole sum.

    Args:
        factors: all of the model, evidence sliced out.
        targets: variables of one clique of the tree.
        sizes: states of each variable.
        draws: length of the last axis.
        tree: planned over the scopes of the factors and the targets.

    Returns:
        (normalised joint of the targets, shape `(*sizes, draws)`, zero where a draw's sum is zero; log of the sum,
        shape `(draws,)`, -inf where it is zero).
    """
    beliefs = _beliefs(tree, factors, sizes, draws)
    messages, log_total = _upward(tree, beliefs, draws)
    if not targets:
        return np.ones(draws), log_total
    _downward(tree, beliefs, messages, _path(tree, tree.home(targets, sizes)))
    return marginal(tree, beliefs, targets, sizes), log_total


def calibrate(
    factors: Sequence[Factor], sizes: Mapping[str, int], draws: int, tree: JunctionTree
) -> tuple[dict[str, Floats], Floats]:
    """The marginal of every variable, and the logarithm of the whole sum.

    Args:
        factors: all of the model, evidence sliced out.
        sizes: states of each variable.
        draws: length of the last axis.
        tree: planned over the scopes of the factors.

    Returns:
        (marginals by variable, shape `(size, draws)`; log of the sum, shape `(draws,)`).
    """
    beliefs = _beliefs(tree, factors, sizes, draws)
    messages, log_total = _upward(tree, beliefs, draws)
    _downward(tree, beliefs, messages, range(len(tree.cliques) - 1, -1, -1))
    names = {name for clique in tree.cliques for name in clique}
    return {name: marginal(tree, beliefs, (name,), sizes) for name in sizes if name in names}, log_total


def _path(tree: JunctionTree, clique: int) -> list[int]:
    """Cliques from the root down to one of them."""
    path = [clique]
    while tree.parents[path[-1]] >= 0:
        path.append(tree.parents[path[-1]])
    return path[::-1]


def _downward(tree: JunctionTree, beliefs: list[Floats], messages: list[Floats | None], order: Sequence[int]) -> None:
    """Bring the messages of the rest of the tree to the cliques of an order that starts at the roots."""
    for index in order:
        parent, message = tree.parents[index], messages[index]
        if parent < 0 or message is None:
            continue
        own = len(tree.cliques[index]) - tree.shared[index]
        scope = tree.cliques[index][own:]
        above = tree.cliques[parent]
        summed = beliefs[parent].sum(axis=tuple(axis for axis, name in enumerate(above) if name not in scope))
        summed /= np.maximum(summed.reshape(-1, summed.shape[-1]).sum(axis=0), np.finfo(np.float64).tiny)
        ratio = align(Factor(tuple(name for name in above if name in scope), summed), scope)
        # What came up is taken out again; where it was zero the product is zero already.
        beliefs[index] *= np.divide(ratio, message, out=np.zeros(message.shape), where=message > 0)


def marginal(tree: JunctionTree, beliefs: Sequence[Floats], targets: Scope, sizes: Mapping[str, int]) -> Floats:
    """Normalised marginal of variables of one clique, axes in the order asked for."""
    home = tree.home(targets, sizes)
    clique = tree.cliques[home]
    summed = beliefs[home].sum(axis=tuple(axis for axis, name in enumerate(clique) if name not in targets))
    kept = tuple(name for name in clique if name in targets)
    joint = summed.transpose([kept.index(name) for name in targets] + [len(kept)])
    total = joint.reshape(-1, joint.shape[-1]).sum(axis=0)
    normalised: Floats = joint / np.where(total > 0, total, 1)
    return normalised
