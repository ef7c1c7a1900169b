"""Laws of many sets of variables in one pass from the roots down, with one elimination order for all.

The tables of a network may be computed one after the other, each from the law of its parents under the earlier tables
(as a posterior's rows are). Computing every such law alone repeats the work on all ancestors; here a tree of cliques is
planned once, and every clique keeps the law of those of its variables that have been added so far. A node is added by
its table in a clique that contains its family, and then in all cliques that contain it: with S the variables that two
adjacent cliques share,

    P(clique, node)  =  P(clique) P(node | S without the node).

That is exact: nodes are added after their parents, so the missing ones are barren, and S separates in the moral graph
of the added nodes as in that of all. Each clique grows to its full size once and is then dropped, so time is linear in
the cells of the tree.

Source: Lauritzen and Spiegelhalter (1988) for the tree and its separators.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from discreet.inference.exact_laws import CELL_BUDGET
from discreet.inference.junction_tree import clique_tree, first_holders
from discreet.inference.weighted_records import RecordPass, ancestors_beyond
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.util.arrays import Floats, margin

MOST_FORWARD_VALUES = 2**25
"""Largest number of values in memory at a time, for all draws: 256 MiB."""


@dataclass(frozen=True, eq=False)
class ForwardPlan:
    """Plan of a pass from the roots down: its cliques, and the clique at which each node is added.

    Args:
        network: network of the tables.
        cliques: variables of each clique.
        near: for each clique its neighbours in the tree, with the variables that they share.
        home: for every relevant node, a clique that contains its family.
        wanted: for each clique, the sets of variables whose laws are computed there.
        cells: cells of all cliques together; the time for each draw is proportional to them.
        live: largest number of cells in memory at a time, if nodes are added in the network's order; the memory for
            each draw is proportional to it.
    """

    network: Network
    cliques: tuple[frozenset[str], ...]
    near: tuple[tuple[tuple[int, frozenset[str]], ...], ...]
    home: Mapping[str, int]
    wanted: tuple[tuple[Scope, ...], ...]
    cells: int
    live: int

    def reached(self, node: str) -> list[tuple[int, int, frozenset[str]]]:
        """List the cliques with a node: (position, origin or -1 at its home, variables shared with the origin)."""
        cliques: list[tuple[int, int, frozenset[str]]] = [(self.home[node], -1, frozenset())]
        for index, origin, _ in cliques:
            cliques += [(to, index, shared) for to, shared in self.near[index] if node in shared and to != origin]
        return cliques


def forward_plan(network: Network, scopes: Collection[Scope]) -> ForwardPlan:
    """Plan one tree of cliques for the laws of some sets of variables.

    Args:
        network: public network.
        scopes: non-empty sets of variables; each becomes a subset of a clique.

    Returns:
        The plan over the sets and the families of their ancestors.

    Example:
        >>> from discreet import Network, Variable
        >>> parents = {"a": (), "b": ("a",), "c": ("b",)}
        >>> chain = Network(tuple(Variable(name, ("0", "1")) for name in "abc"), parents)
        >>> plan = forward_plan(chain, [("a",), ("b", "c")])
        >>> plan.cells
        8
    """
    above = network.ordered(network.ancestors({name for scope in scopes for name in scope}))
    families = [network.family(node) for node in above]
    sizes = {name: network.schema[name].size for name in above}
    cliques, parents = clique_tree([*families, *scopes], sizes)
    costs = [math.prod(sizes[name] for name in clique) for clique in cliques]
    homes = first_holders(cliques, sorted(range(len(cliques)), key=costs.__getitem__), [*families, *scopes])
    near: list[list[tuple[int, frozenset[str]]]] = [[] for _ in cliques]
    for index, parent in enumerate(parents):
        if parent >= 0:
            shared = frozenset(cliques[index] & cliques[parent])
            near[index].append((parent, shared))
            near[parent].append((index, shared))
    wanted: list[list[Scope]] = [[] for _ in cliques]
    for scope, home in zip(scopes, homes[len(families) :], strict=True):
        wanted[home].append(scope)
    frozen = tuple(map(frozenset, cliques))
    plan = ForwardPlan(
        network,
        frozen,
        tuple(map(tuple, near)),
        dict(zip(above, homes, strict=False)),
        tuple(map(tuple, wanted)),
        sum(costs),
        0,
    )
    return replace(plan, live=_count_live_cells(plan))


def _count_live_cells(plan: ForwardPlan) -> int:
    """Count the largest number of cells in memory at a time, for one draw, by simulating the pass.

    A clique grows by each of its variables, counts from its first on, and is dropped when it is complete.
    """
    sizes, waiting = [1] * len(plan.cliques), list(map(len, plan.cliques))
    now = most = 0
    for node in plan.network.order:
        if node not in plan.home:
            continue
        reached, states = [index for index, _, _ in plan.reached(node)], plan.network.schema[node].size
        for index in reached:
            now += sizes[index] * (states - (sizes[index] > 1))
            sizes[index] *= states
            waiting[index] -= 1
        most = max(most, now)
        now -= sum(sizes[index] for index in reached if not waiting[index])
    return most


def laws_from_roots(scopes: Collection[Scope], cells: Tables, seed: int) -> ForwardPass | RecordPass:
    """Return an object that computes laws of sets of variables at first use, exactly if affordable.

    Tables may be drawn from the roots down, each from the law of its parents under the earlier ones.

    Args:
        scopes: non-empty sets of variables.
        cells: probabilities, shape `(*parents, child, draws)`.
        seed: seed of simulated records, where exact inference is too large.

    Returns:
        An exact pass if it fits into memory, else one over simulated records.
    """
    return forward_pass(scopes, cells) or RecordPass(tuple(scopes), cells, seed)


def forward_pass(scopes: Collection[Scope], cells: Tables) -> ForwardPass | None:
    """Return an exact pass for laws of sets of variables; None if it needs too much memory.

    Arguments are those of `laws_from_roots`; laws are computed at first use.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(network, {"a": [[0.25], [0.75]], "b": [[[1.0], [0.0]], [[0.5], [0.5]]]}, draws=1)
        >>> laws = forward_pass([("b",)], theta)
        >>> laws.law(("b",))[:, 0].tolist()
        [0.625, 0.375]
    """
    plan = forward_plan(cells.network, scopes)
    fits = plan.live * (cells.draws or 1) <= MOST_FORWARD_VALUES and plan.cells <= CELL_BUDGET
    return ForwardPass(plan, cells) if fits else None


class ForwardPass:
    """Exact laws of the sets of a plan, computed at first use and kept.

    Args:
        plan: plan of the sets.
        cells: probabilities, shape `(*parents, child, draws)`; a set's ancestors are read at its first use, parents
            first.
    """

    def __init__(self, plan: ForwardPlan, cells: Tables) -> None:
        self._plan, self._cells = plan, cells
        self._taken = set[str]()
        self._beliefs: dict[int, tuple[Scope, Floats]] = {}
        self._laws: dict[Scope, Floats] = {}

    def law(self, scope: Scope) -> Floats:
        """Return `P(scope)`, shape `(*sizes, draws)`, for one of the plan's sets; compute it at first use."""
        if scope not in self._laws:
            for node in ancestors_beyond(self._plan.network, scope, self._taken):
                self._multiply_node(node)
        return self._laws[scope]

    def _multiply_node(self, node: str) -> None:
        """Add a node, whose parents are added already, to all cliques that contain it.

        Laws of sets that are then complete are computed and kept, and cliques that are complete are dropped.
        """
        family, table = self._plan.network.family(node), np.asarray(self._cells[node])
        reached = self._plan.reached(node)
        for index, origin, shared in reached:
            names, belief = self._beliefs.get(index, ((), np.ones(table.shape[-1])))
            # P(clique, node) = P(clique) P(node | shared variables), from the table at the node's home.
            if origin >= 0:
                family, table = self._condition(node, shared, *self._beliefs[origin])
            self._beliefs[index] = (*names, node), belief[..., None, :] * _align_table(table, family, (*names, node))
            self._read(index, node)
        self._taken.add(node)
        for index, _, _ in reached:
            if len(self._beliefs[index][0]) == len(self._plan.cliques[index]):
                del self._beliefs[index]

    @staticmethod
    def _condition(node: str, shared: Collection[str], names: Scope, belief: Floats) -> tuple[Scope, Floats]:
        """Compute the law of a node given the shared variables that a clique has so far.

        Args:
            node: node that was added last.
            shared: variables shared with the next clique.
            names: axes of the clique's law, the node last.
            belief: law of the clique, shape `(*sizes, draws)`.

        Returns:
            Names of the axes, the node last, and the conditional law; 0 where the condition is impossible.
        """
        conditions = tuple(name for name in names if name in shared)
        law = margin(belief, names, conditions)
        total = law.sum(axis=-2, keepdims=True)
        law /= np.where(total > 0, total, 1.0)
        return conditions, law

    def _read(self, index: int, node: str) -> None:
        """Compute and keep the laws of a clique's sets that are complete once this node is added."""
        names, belief = self._beliefs[index]
        for scope in self._plan.wanted[index]:
            if node in scope and set(scope) <= set(names):
                self._laws[scope] = margin(belief, names, scope)


def _align_table(table: Floats, names: Scope, wanted: Scope) -> Floats:
    """Align a table with the axes of other names, of length 1 where absent; draws last."""
    ordered = [name for name in wanted if name in names]
    index = tuple(slice(None) if name in names else None for name in wanted)
    return table.transpose([*map(names.index, ordered), len(names)])[index]
