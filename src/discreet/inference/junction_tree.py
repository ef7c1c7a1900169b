"""Plans for exact inference: relevant nodes, elimination orders, junction trees.

A plan depends on names and sizes alone, so its cost is known before anything is computed, and every axis of every view
is fixed before an array is read; `kernels.py` executes plans. Tables are sliced at the observed states beforehand, so
observed variables have no axis. Plans are cached: the same targets given the same observed variables, whatever their
states, are planned once.

Algorithm: Lauritzen and Spiegelhalter (1988), in the form of Jensen, Lauritzen and Olesen (1990).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import combinations
from types import EllipsisType, MappingProxyType

from discreet.model.graphs import requisite
from discreet.model.network import Network
from discreet.model.schema import Scope

Family = tuple[str | None, Scope]
"""The child variable of a factor, None if it is observed, and the factor's scope."""
HOPELESS_CELLS = 2**40
"""Number of cells of the greedily cheapest clique beyond which the search for an order ends."""
KEPT_PLANS = 512
"""Number of cached plans of each kind of query."""
_Cost = tuple[bool, int, int, int, str]
_Near = dict[str, set[str]]


@dataclass(frozen=True)
class Term:
    """An operand of a clique's product.

    Args:
        source: position of a factor, or the number of factors plus the position of the clique that sends a message.
        scope: variables of the operand, in the order of its axes; the axis of draws comes after them.
        axes: permutation that brings the operand's axes into the clique's order, draws last.
        index: index that inserts an axis of length 1 for each variable of the clique that the operand lacks.
    """

    source: int
    scope: Scope
    axes: tuple[int, ...]
    index: tuple[slice | EllipsisType | None, ...]


@dataclass(frozen=True)
class JunctionTree:
    """Junction tree: cliques in an order in which each comes before its parent; the last clique of each tree is a root.

    Args:
        sizes: number of states of each variable.
        cliques: variables of each clique; those shared with its parent come last, in the parent's order.
        parents: position of each clique's parent; -1 for a root.
        separators: variables that each clique shares with its parent.
        shapes: sizes of each clique's variables.
        homes: for every factor the clique that multiplies it; -1 for a constant.
        barren: whether each clique's message to its parent is 1 by construction: its factors are the conditional
            probabilities of exactly its residual variables, and all cliques below are barren, too.
        terms: for every clique the factors and messages to multiply, in this order, the largest last.
        holders: for every variable the smallest clique or separator that contains it: (position of the clique, whether
            its separator is meant, the axes of the other variables).
        top: position of the root that contains all targets; -1 without targets.
        maxima: position of the first clique that is maximised; earlier ones, and in most trees all, are summed.
        cells: number of cells of all cliques together, for one draw.
    """

    sizes: Mapping[str, int]
    cliques: tuple[Scope, ...]
    parents: tuple[int, ...]
    separators: tuple[Scope, ...]
    shapes: tuple[tuple[int, ...], ...]
    homes: tuple[int, ...]
    barren: tuple[bool, ...]
    terms: tuple[tuple[Term, ...], ...]
    holders: Mapping[str, tuple[int, bool, tuple[int, ...]]]
    top: int
    maxima: int
    cells: int


def elimination_order(
    scopes: Sequence[Sequence[str]], sizes: Mapping[str, int], last: Sequence[str] = ()
) -> tuple[list[Scope], int]:
    """Find an elimination order greedily, by min-fill and by min-weight, and keep the cheaper of the two.

    Args:
        scopes: variables of each factor.
        sizes: number of states of each variable.
        last: variables to eliminate after all others.

    Returns:
        For each step the eliminated variable followed by its neighbours at that time, and the cells of all these
        cliques.

    Example:
        >>> elimination_order([("a", "b"), ("b", "c")], {"a": 2, "b": 3, "c": 2})
        ([('a', 'b'), ('b', 'c'), ('c',)], 14)
    """
    plans = [_eliminate(scopes, sizes, last, fill=fill) for fill in (True, False)]
    costs = [sum(math.prod(sizes[name] for name in clique) for clique in plan) for plan in plans]
    best = 0 if costs[0] <= costs[1] else 1
    return plans[best], costs[best]


def _eliminate(
    scopes: Sequence[Sequence[str]], sizes: Mapping[str, int], last: Sequence[str], *, fill: bool
) -> list[Scope]:
    """Eliminate variables greedily by min-fill or min-weight; ties are broken by the other, then by the order of names.

    Costs are updated arc by arc in a priority queue, so that a step takes no longer in a larger network.

    Args:
        scopes: variables of each factor.
        sizes: number of states of each variable.
        last: variables to eliminate after all others.
        fill: whether to minimise the number of fill-in arcs (min-fill), else the cells of the clique (min-weight).
    """
    near = _find_neighbours(scopes)
    rank = {name: position for position, name in enumerate(sizes)}
    delayed = set(last)
    weights = {name: math.prod(sizes[node] for node in (name, *others)) for name, others in near.items()}
    missing = {name: sum(len(others - near[node]) - 1 for node in others) // 2 for name, others in near.items()}
    first, second = (missing, weights) if fill else (weights, missing)

    def cost(name: str) -> _Cost:
        return name in delayed, first[name], second[name], rank[name], name

    queue = [cost(name) for name in near]
    heapify(queue)
    steps: list[Scope] = []
    while near:
        *_, name = cheapest = heappop(queue)
        # Entries whose cost has changed since are stale; a current one is in the queue, too.
        if name not in near or cheapest != cost(name):
            continue
        if weights[name] > HOPELESS_CELLS:
            # No law will be computed on such a clique: join all remaining variables in one, without more search.
            remaining = sorted(near, key=lambda name: (name in delayed, rank[name]))
            return steps + [tuple(remaining[start:]) for start in range(len(remaining))]
        neighbours = sorted(near[name], key=rank.__getitem__)
        steps.append((name, *neighbours))
        touched = set(neighbours)
        if missing[name]:
            touched |= _join_all(neighbours, near, missing, weights, sizes)
        del near[name]
        for neighbour in neighbours:
            # All neighbours are joined by now. Each one's other neighbours were not joined to the eliminated variable:
            # as many fill-in arcs of its own are no longer missing.
            near[neighbour].discard(name)
            missing[neighbour] -= len(near[neighbour]) - len(neighbours) + 1
            weights[neighbour] //= sizes[name]
        for neighbour in touched - {name}:
            heappush(queue, cost(neighbour))
    return steps


def _find_neighbours(scopes: Sequence[Sequence[str]]) -> _Near:
    """Return the neighbours of each variable in the moral graph: all variables that share a scope with it."""
    shared: _Near = {}
    for scope in scopes:
        for name in scope:
            shared.setdefault(name, set()).update(scope)
    return {name: near - {name} for name, near in shared.items()}


def _join_all(
    names: Sequence[str], near: _Near, missing: dict[str, int], weights: dict[str, int], sizes: Mapping[str, int]
) -> set[str]:
    """Join variables pairwise, in place; return the common neighbours of new arcs, which need one fill-in arc fewer.

    Args:
        names: variables to join.
        near: neighbours of each variable; changed.
        missing: number of fill-in arcs that eliminating each variable needs; changed.
        weights: cells of each variable's clique with its neighbours; changed.
        sizes: number of states of each variable.
    """
    touched = set[str]()
    for first, second in combinations(names, 2):
        if second in near[first]:
            continue
        both = near[first] & near[second]
        for name in both:
            missing[name] -= 1
        missing[first] += len(near[first]) - len(both)
        missing[second] += len(near[second]) - len(both)
        near[first].add(second)
        near[second].add(first)
        weights[first] *= sizes[second]
        weights[second] *= sizes[first]
        touched |= both
    return touched


def junction_tree(families: Sequence[Family], sizes: Mapping[str, int], targets: Scope = ()) -> JunctionTree:
    """Plan a junction tree for sums, with the targets in a root.

    Args:
        families: child and scope of every factor.
        sizes: number of states of each variable.
        targets: variables whose joint law is wanted; all messages run towards their clique, so none has to be sent
            back.

    Returns:
        The tree.

    Example:
        >>> tree = junction_tree([("a", ("a",)), ("b", ("a", "b")), ("c", ("b", "c"))], {"a": 2, "b": 3, "c": 2})
        >>> sorted(map(sorted, tree.cliques)), tree.cells
        ([['a', 'b'], ['b', 'c']], 12)
    """
    steps, _ = elimination_order([*(scope for _, scope in families), targets], sizes)
    cliques, parents = _make_cliques(steps)
    if targets:
        holders = [index for index, clique in enumerate(cliques) if clique.issuperset(targets)]
        top = min(holders, key=lambda index: math.prod(sizes[name] for name in cliques[index]))
        cliques, parents = _turn_tree(cliques, parents, top)
    return _compile_tree(families, sizes, cliques, parents, wanted=targets)


def clique_tree(scopes: Sequence[Scope], sizes: Mapping[str, int]) -> tuple[list[set[str]], list[int]]:
    """Compute cliques that contain every scope, by elimination, and the position of each one's parent, -1 for a root.

    Example:
        >>> cliques, parents = clique_tree([("a", "b"), ("b", "c")], {"a": 2, "b": 3, "c": 2})
        >>> [sorted(clique) for clique in cliques], parents
        ([['a', 'b'], ['b', 'c']], [1, -1])
    """
    return _make_cliques(elimination_order(scopes, sizes)[0])


def maximising_tree(families: Sequence[Family], sizes: Mapping[str, int], targets: Scope) -> JunctionTree:
    """Plan sums over all variables except the targets, then maxima over the targets.

    Args:
        families: child and scope of every factor.
        sizes: number of states of each variable.
        targets: variables whose most probable joint state is wanted.

    Returns:
        A tree in which each clique's residual variables (those not shared with its parent) are all targets, or none is.

    Example:
        >>> tree = maximising_tree([("a", ("a",)), ("b", ("a", "b"))], {"a": 2, "b": 2}, ("a",))
        >>> tree.cliques, tree.maxima  # b is summed, then a maximised
        ((('b', 'a'), ('a',)), 1)
    """
    steps, _ = elimination_order([scope for _, scope in families], sizes, last=targets)
    return _compile_tree(families, sizes, *_make_cliques(steps, targets), maximised=targets)


def _make_cliques(steps: Sequence[Scope], maximised: Scope = ()) -> tuple[list[set[str]], list[int]]:
    """Collect the maximal cliques of an elimination and their tree, children first.

    Args:
        steps: cliques of the elimination, the eliminated variable of each first.
        maximised: variables that are maximised; their cliques are not merged with those that are summed.

    Returns:
        The cliques and the position of each one's parent, -1 for a root.
    """
    position = {step[0]: index for index, step in enumerate(steps)}
    cliques: list[set[str]] = []
    parents: list[int] = []
    at: dict[int, int] = {}
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        above = min((position[name] for name in step[1:]), default=-1)
        alike = above >= 0 and (step[0] in maximised) == (steps[above][0] in maximised)
        if alike and len(step) - 1 == len(steps[above]) and cliques[at[above]] == set(steps[above]):
            # The parent clique is a subset of this one, which replaces it in the tree.
            cliques[at[above]] = set(step)
            at[index] = at[above]
        else:
            cliques.append(set(step))
            parents.append(at[above] if above >= 0 else -1)
            at[index] = len(cliques) - 1
    last = len(cliques) - 1
    return cliques[::-1], [last - parent if parent >= 0 else -1 for parent in parents[::-1]]


def _turn_tree(cliques: Sequence[set[str]], parents: Sequence[int], top: int) -> tuple[list[set[str]], list[int]]:
    """Reroot the tree that contains a given clique at this clique.

    Args:
        cliques: variables of each clique, children first.
        parents: position of each clique's parent; -1 for a root.
        top: position of the new root.

    Returns:
        Cliques and parents, children first.
    """
    turned = list(parents)
    child, parent = -1, top
    while parent >= 0:
        turned[parent], child, parent = child, parent, turned[parent]
    # Only the path to the new root is reversed. Sort all cliques by depth, the deepest first.
    depths, path = [0] * len(turned), list[int]()
    for start in reversed(range(len(turned))):
        above = start
        while above >= 0 and not depths[above]:
            path.append(above)
            above = turned[above]
        while path:
            at = path.pop()
            depths[at] = 1 + (depths[turned[at]] if turned[at] >= 0 else 0)
    order = sorted(range(len(turned)), key=lambda index: -depths[index])
    new_index = {index: position for position, index in enumerate(order)}
    return [cliques[index] for index in order], [new_index.get(turned[index], -1) for index in order]


def _compile_tree(
    families: Sequence[Family],
    sizes: Mapping[str, int],
    cliques: Sequence[set[str]],
    parents: Sequence[int],
    *,
    wanted: Scope = (),
    maximised: Scope = (),
) -> JunctionTree:
    """Compile a junction tree: fix the axes of every clique, assign factors to cliques, order the operands.

    Args:
        families: child and scope of every factor.
        sizes: number of states of each variable.
        cliques: variables of each clique, children first.
        parents: position of each clique's parent; -1 for a root.
        wanted: targets whose joint law is summed; they lie in a root.
        maximised: targets that are maximised.
    """
    scoped, separators = _order_axes(cliques, parents, sizes)
    shapes = [tuple(sizes[name] for name in clique) for clique in scoped]
    costs = [math.prod(shape) for shape in shapes]
    by_cost = sorted(range(len(scoped)), key=costs.__getitem__)
    homes = first_holders(cliques, by_cost, [scope for _, scope in families])
    maxima = sum(not maximised or clique[0] not in maximised for clique in scoped)
    tops = [index for index, parent in enumerate(parents) if parent < 0 and cliques[index].issuperset(wanted)]
    top = tops[0] if wanted else -1
    # A maximum of conditional probabilities is not 1, and the targets' clique must compute its sum.
    idle_cliques = _find_barren(families, scoped, parents, separators, homes)
    barren = [idle and index < maxima and index != top for index, idle in enumerate(idle_cliques)]
    scopes = [scope for _, scope in families] + separators
    sent = [-1 if idle else parent for parent, idle in zip(parents, barren, strict=True)]
    operands = _assign_parts(scopes, [*homes, *sent], len(scoped))
    return JunctionTree(
        MappingProxyType(dict(sizes)),
        tuple(scoped),
        tuple(parents),
        tuple(separators),
        tuple(shapes),
        homes,
        tuple(barren),
        tuple(_order_terms(clique, operand, sizes) for clique, operand in zip(scoped, operands, strict=True)),
        MappingProxyType(_find_holders(scoped, separators, sizes)),
        top,
        maxima,
        sum(costs),
    )


def first_holders(cliques: Sequence[set[str]], order: Sequence[int], scopes: Sequence[Scope]) -> tuple[int, ...]:
    """Find the first clique, in a given order, that contains each scope; -1 if none does.

    Example:
        >>> first_holders([{"a", "b"}, {"b", "c"}], [0, 1], [("b",), ("c",), ("a", "c")])
        (0, 1, -1)
    """
    having: dict[str, list[int]] = {}
    for index in order:
        for name in cliques[index]:
            having.setdefault(name, []).append(index)
    holders = []
    for scope in scopes:
        fewest = min((having.get(name, []) for name in scope), key=len, default=order)
        holders.append(next((index for index in fewest if cliques[index].issuperset(scope)), -1))
    return tuple(holders)


def _assign_parts(scopes: Sequence[Scope], homes: Sequence[int], cliques: int) -> list[list[tuple[int, Scope]]]:
    """List the operands of each clique: number and scope of its factors and incoming messages.

    Args:
        scopes: variables of each operand.
        homes: clique that multiplies each operand; one of -1 is left out.
        cliques: number of cliques.
    """
    operands: list[list[tuple[int, Scope]]] = [[] for _ in range(cliques)]
    for source, (scope, home) in enumerate(zip(scopes, homes, strict=True)):
        if home >= 0:
            operands[home].append((source, scope))
    return operands


def _order_axes(
    cliques: Sequence[set[str]], parents: Sequence[int], sizes: Mapping[str, int]
) -> tuple[list[Scope], list[Scope]]:
    """Order the axes of every clique, those of the separator with its parent last, in the parent's order.

    The other axes are in the order of `sizes`.

    Returns:
        (variables of each clique, variables of each separator), both in the order of the cliques.
    """
    rank = {name: position for position, name in enumerate(sizes)}
    scoped: list[Scope] = [()] * len(cliques)
    separators: list[Scope] = [()] * len(cliques)
    for index in range(len(cliques) - 1, -1, -1):
        above = scoped[parents[index]] if parents[index] >= 0 else ()
        common = tuple(name for name in above if name in cliques[index])
        residual = sorted(cliques[index].difference(common), key=rank.__getitem__)
        scoped[index], separators[index] = (*residual, *common), common
    return scoped, separators


def _order_terms(clique: Scope, arrays: Sequence[tuple[int, Scope]], sizes: Mapping[str, int]) -> tuple[Term, ...]:
    """Order the operands of a clique so that the product grows late, the largest last, and compute their alignment.

    Args:
        clique: variables of the clique in the order of its axes.
        arrays: number and variables of each operand.
        sizes: number of states of each variable.
    """
    arrays = sorted(arrays, key=lambda array: math.prod(sizes[name] for name in array[1]))
    # First the scope that contains most others, together with these; within both groups the smaller first.
    scopes = [*dict.fromkeys(frozenset(scope) for _, scope in arrays[:-1])]
    first = max(scopes, key=lambda scope: sum(smaller <= scope for smaller in scopes), default=frozenset[str]())
    terms = []
    for source, scope in [*sorted(arrays[:-1], key=lambda array: not first.issuperset(array[1])), *arrays[-1:]]:
        axes = (*(scope.index(name) for name in clique if name in scope), len(scope))
        index = (*(slice(None) if name in scope else None for name in clique), ...)
        terms.append(Term(source, scope, axes, index))
    return tuple(terms)


def _find_holders(
    cliques: Sequence[Scope], separators: Sequence[Scope], sizes: Mapping[str, int]
) -> dict[str, tuple[int, bool, tuple[int, ...]]]:
    """Find the smallest clique or separator that contains each variable; its marginal is computed there.

    Of equal ones the first counts, a clique's separator before the clique.

    Returns:
        For each variable the position of the clique, whether its separator is meant, and the axes to sum over.
    """
    holders: dict[str, tuple[int, bool, tuple[int, ...]]] = {}
    least: dict[str, int] = {}
    for index, clique in enumerate(cliques):
        for scope, separator in ((separators[index], True), (clique, False)):
            cells = math.prod(sizes[name] for name in scope)
            for axis, name in enumerate(scope):
                if name not in least or cells < least[name]:
                    least[name] = cells
                    holders[name] = (index, separator, tuple(summed for summed in range(len(scope)) if summed != axis))
    return {name: holders[name] for name in sizes}


def _find_barren(
    families: Sequence[Family],
    cliques: Sequence[Scope],
    parents: Sequence[int],
    separators: Sequence[Scope],
    homes: Sequence[int],
) -> list[bool]:
    """Flag barren cliques, whose message is constant 1.

    Args:
        families: child and scope of every factor.
        cliques: variables of each clique, those of the separator last, children first.
        parents: position of each clique's parent; -1 for a root.
        separators: variables that each clique shares with its parent.
        homes: clique of each factor; -1 for a constant.
    """
    children: list[list[str | None]] = [[] for _ in cliques]
    for (child, _), home in zip(families, homes, strict=True):
        if home >= 0:
            children[home].append(child)
    barren = [True] * len(cliques)
    for index, clique in enumerate(cliques):
        residual = clique[: len(clique) - len(separators[index])]
        # The product of P(residual variable | ..) over exactly the residual variables sums to 1.
        barren[index] &= len(children[index]) == len(residual) and set(children[index]) == set(residual)
        if not barren[index] and parents[index] >= 0:
            barren[parents[index]] = False
    return barren


# ---------------------------------------------------------------------------------------------------------- questions


@dataclass(frozen=True, eq=False)
class Plan:
    """Plan of all queries with the same targets and observed variables.

    Args:
        nodes: nodes whose families are relevant.
        observed: for each of them, by axis of its family, the variable if it is observed, else None; None if none is.
        pruned: ancestors of the evidence whose families are irrelevant, unless they make the evidence impossible.
        tree: junction tree over the relevant families.
        total: tree for the sum over all states of the same families; `tree` itself unless that has maxima.
        cells: number of cells of the larger tree, for one draw.
    """

    nodes: tuple[str, ...]
    observed: tuple[tuple[str | None, ...] | None, ...]
    pruned: tuple[str, ...]
    tree: JunctionTree
    total: JunctionTree
    cells: int


@lru_cache(maxsize=KEPT_PLANS)
def plan_joint(network: Network, targets: Scope, evidence: frozenset[str]) -> Plan:
    """Plan P(targets | evidence) over the families that are relevant to it; cached."""
    nodes = requisite(network, targets, evidence)
    return _make_plan(network, nodes, evidence, lambda families, sizes: junction_tree(families, sizes, targets))


@lru_cache(maxsize=KEPT_PLANS)
def plan_marginals(network: Network, evidence: frozenset[str]) -> Plan:
    """Plan the marginals of all unobserved variables over all families; cached."""
    return _make_plan(network, network.nodes, evidence, junction_tree)


@lru_cache(maxsize=KEPT_PLANS)
def plan_evidence(network: Network, evidence: frozenset[str]) -> Plan:
    """Plan P(evidence) over the families of the observed variables and their ancestors; cached."""
    return _make_plan(network, network.ordered(network.ancestors(evidence)), evidence, junction_tree)


@lru_cache(maxsize=KEPT_PLANS)
def plan_explanation(network: Network, targets: Scope, evidence: frozenset[str]) -> Plan:
    """Plan the most probable joint state of the targets, other variables summed out; cached."""
    nodes = requisite(network, targets, evidence)
    return _make_plan(network, nodes, evidence, lambda families, sizes: maximising_tree(families, sizes, targets))


def _make_plan(
    network: Network,
    nodes: tuple[str, ...],
    evidence: frozenset[str],
    make_tree: Callable[[Sequence[Family], Mapping[str, int]], JunctionTree],
) -> Plan:
    """Make a plan: how tables of relevant families are sliced, and their tree without the observed variables.

    Args:
        network: network of the tables.
        nodes: nodes whose families are relevant.
        evidence: observed variables.
        make_tree: function that plans a tree for the families' children and scopes and the variables' sizes.
    """
    axes = [(*network.parents[node], node) for node in nodes]
    scopes = [tuple(name for name in family if name not in evidence) for family in axes]
    families = [(None if node in evidence else node, scope) for node, scope in zip(nodes, scopes, strict=True)]
    sizes = {name: network.schema[name].size for name in network.ordered({name for scope in scopes for name in scope})}
    observed = [
        None if evidence.isdisjoint(family) else tuple(name if name in evidence else None for name in family)
        for family in axes
    ]
    tree = make_tree(families, sizes)
    total = tree if tree.maxima == len(tree.cliques) else junction_tree(families, sizes)
    pruned = network.ordered(network.ancestors(evidence).difference(nodes))
    return Plan(nodes, tuple(observed), pruned, tree, total, max(tree.cells, total.cells))
