"""Laws of many sets of variables in one pass from the roots down, with one elimination order for all.

The tables of a network may be made one after the other, each from the law of its parents under those before (a
posterior's rows are). Asking for every such law alone works through all ancestors each time; here a tree of cliques is
planned once, and every clique keeps the law of those of its variables that were taken up so far. A node is taken up
where a clique holds its family, by its table, and goes on to all cliques that have it: with S the variables that two of
them share,

    P(clique, node)  =  P(clique) P(node | S without the node).

That is exact: nodes are taken up after their parents, so what is left out is barren, and S separates in the moral graph
of the rest as in that of all. Each clique grows to its size once and is dropped then, so that time is linear in the
cells of the tree.

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
"""Largest number of values held at a time, for all draws: 256 MiB."""


@dataclass(frozen=True, eq=False)
class ForwardPlan:
    """Plan of a pass from the roots down: its cliques, and where each node enters.

    Args:
        network: whose tables are read.
        cliques: variables of each.
        near: for each clique the ones that it is joined with in the tree, and the variables that they share.
        home: of every node that matters, a clique that holds its family.
        wanted: by clique, the sets of variables whose laws are read off there.
        cells: of all cliques together: time for each draw is proportional to it.
        live: most cells that are held at a time, if nodes are taken up in the network's order: memory for each draw is
            proportional to it.
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
    """Plan one tree for the laws of some sets of variables.

    Args:
        network: public.
        scopes: the sets, none of them empty; each becomes a part of a clique.

    Returns:
        The plan, of the sets and the families of their ancestors.

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
    """Count the largest number of cells that are held at a time."""
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
    """Compute laws of sets of variables for tables made from the roots down, exactly if affordable.

    Args:
        scopes: the sets, none empty.
        cells: probabilities, shape `(*parents, child, draws)`.
        seed: of made-up records, if it takes some.

    Returns:
        Exact laws where one pass fits into memory, or else those of made-up records.
    """
    return forward_pass(scopes, cells) or RecordPass(tuple(scopes), cells, seed)


def forward_pass(scopes: Collection[Scope], cells: Tables) -> ForwardPass | None:
    """Compute exact laws by one pass over the draws; None if memory does not suffice. Arguments as above.

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
    """Laws of the sets of a plan under tables that are made from the roots down.

    Args:
        plan: of the sets.
        cells: probabilities, shape `(*parents, child, draws)`; those of a set's ancestors are read when it is asked
            for, parents first.
    """

    def __init__(self, plan: ForwardPlan, cells: Tables) -> None:
        self._plan, self._cells = plan, cells
        self._taken = set[str]()
        self._beliefs: dict[int, tuple[Scope, Floats]] = {}
        self._laws: dict[Scope, Floats] = {}

    def law(self, scope: Scope) -> Floats:
        """Return `P(scope)` under every draw, shape `(*sizes, draws)`, for one of the plan's sets."""
        if scope not in self._laws:
            for node in ancestors_beyond(self._plan.network, scope, self._taken):
                self._multiply_node(node)
        return self._laws[scope]

    def _multiply_node(self, node: str) -> None:
        """Multiply a node's rows into all cliques that contain it."""
        family, table = self._plan.network.family(node), np.asarray(self._cells[node])
        reached = self._plan.reached(node)
        for index, origin, shared in reached:
            names, belief = self._beliefs.get(index, ((), np.ones(table.shape[-1])))
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
        """Compute `P(node | shared variables present here)`, and the names of its axes, the node last."""
        conditions = tuple(name for name in names if name in shared)
        law = margin(belief, names, conditions)
        total = law.sum(axis=-2, keepdims=True)
        law /= np.where(total > 0, total, 1.0)
        return conditions, law

    def _read(self, index: int, node: str) -> None:
        """Read the laws of sets that are complete with this node."""
        names, belief = self._beliefs[index]
        for scope in self._plan.wanted[index]:
            if node in scope and set(scope) <= set(names):
                self._laws[scope] = margin(belief, names, scope)


def _align_table(table: Floats, names: Scope, wanted: Scope) -> Floats:
    """Align a table with the axes of other names, of length 1 where absent; draws last."""
    ordered = [name for name in wanted if name in names]
    index = tuple(slice(None) if name in names else None for name in wanted)
    return table.transpose([*map(names.index, ordered), len(names)])[index]
