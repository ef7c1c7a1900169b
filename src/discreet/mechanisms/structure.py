"""Private structure learning: node by node, each with the parents of highest score, with noise.

Nodes are placed one after the other. The first ones are public: a fixed order, or else one node that a rule names
which sees no record. Every further round chooses one of finitely many public candidates, a node that is not placed yet
with parents among those that are, by the exponential mechanism over how many records the family is from independence.
Candidates have as many parents as the limits allow, since more parents never lower the score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from discreet.errors import InputError, listed, shown
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import SCALE_LIMIT, Noise
from discreet.model.arcs import add_conditions, parents_in, parents_of
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Schema, Scope
from discreet.privacy.guarantee import Guarantee
from discreet.records.counts import Counts
from discreet.records.dependence import DEPENDENCE_RECORDS, dependence, dependence_sensitivity
from discreet.releases.kinds.chosen_network import ChosenNetwork, StructureNoise
from discreet.util.arrays import Ints

SETS_LIMIT = 10_000
"""Most sets of variables counted: all triples of 40 variables, or all pairs of 140."""
CELLS_IN_ALL = 2**24
"""Most cells of all their tables together."""
SCALE_ENLARGEMENT = 1e-12
"""Relative enlargement of the scale: scores are floats without rounding, and only the scale is rounded."""

Candidate = tuple[str, Scope]
"""A node, and its parents in the schema's order."""
Arcs = Iterable[Sequence[str]] | str


def structure(
    max_parents: int = 2,
    *,
    max_cells: int = 1000,
    required: Arcs = (),
    forbidden: Arcs = (),
    first: Sequence[str] = (),
) -> Mechanism:
    """Learn a network's arcs from the records: a tree, or up to a number of parents for each node.

    It is over a network without arcs, `Network.empty(schema)`. What it releases is a network, not counts: release with
    `Release.learned_network` next.

    Args:
        max_parents: of a node; 1 chooses a tree.
        max_cells: of a family's table; public.
        required: arcs (parent, child) that the network shall have, or a text of arcs such as "smoke -> lung".
        forbidden: arcs that it shall not have.
        first: nodes that are placed first, in this order, so that the others may become their children. All nodes leave
            only the choice of parents to the records. None takes those into which every arc is forbidden, else the
            first of the schema without a required parent.

    Returns:
        The mechanism.

    Raises:
        InputError: limits below 1; when a release is calibrated, a network that has arcs already, names that it has
            not, arcs that are required and forbidden, make a cycle or do not fit the limits or the order, nothing to
            choose, too many candidates, or a guarantee with a delta.

    Guarantee:
        Pure epsilon, for adding or removing a record (s = 2) or replacing it (s = 3). A round has
        `P(c) ~ exp(R_c / scale)` among candidates that are public given the rounds before it. One record changes every
        score by at most s (`discreet.records.dependence`), so `P(c)` by a factor of at most `exp(2 s / scale)`; up or
        down, so that 2 stays. The scale is `2 s rounds / epsilon`, rounded up, and the rounds compose for every outcome
        of those before them. A round without an alternative draws nothing. Scores are exact whatever the records are,
        and the draw is OpenDP's noisy max, which is the exponential mechanism. Unit: one record, counted whole.

    Source:
        McSherry and Talwar (2007), Theorem 6; Zhang, Cormode, Procopiuc, Srivastava and Xiao (PrivBayes, TODS 2017),
        Algorithm 4 and the score R; Dwork and Roth (2014), Theorem 3.16 for the composition.

    Example:
        >>> import discreet as dc
        >>> schema = dc.Schema(tuple(dc.Variable(name, ("no", "yes")) for name in ("rain", "wet", "slip")))
        >>> empty = dc.Network.empty(schema)
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> tree = dc.structure(1, first=("rain",)).calibrate(empty, dc.Dirichlet.uniform(empty), promise)
        >>> tree.rounds, tree.first, tree.total <= 1  # "wet" and "slip" are placed by noisy choices
        (2, ('rain',), True)
    """
    if not (max_parents >= 1 and max_cells >= 1):
        raise InputError("a family needs room: max_parents and max_cells are at least 1")
    first_nodes = tuple(first)

    def rules(network: Network) -> _Rules:
        return _make_rules(network, max_parents, max_cells, required, forbidden, first_nodes)

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> StructureNoise:
        if guarantee.delta:
            raise InputError("structure keeps a pure guarantee; ask for delta 0")
        space = rules(network)
        rounds, sensitivity = space.rounds, dependence_sensitivity(guarantee.relation)
        if not rounds:
            raise InputError("these rules leave one network alone: there is nothing to choose, and nothing to spend")
        scale = _find_scale(2 * sensitivity * rounds / guarantee.epsilon)
        spent = 2 * sensitivity * rounds / Fraction(scale)
        return StructureNoise(
            max_parents, max_cells, space.first, space.required, space.forbidden, rounds, sensitivity, scale, spent
        )

    def draw(statistic: Counts, prior: Dirichlet, calibration: StructureNoise, noise: Noise) -> ChosenNetwork:
        return _draw_network(rules(statistic.network), statistic, calibration, noise)

    def require(statistic: Counts) -> None:
        statistic.require(rules(statistic.network).sets)
        if statistic.records > DEPENDENCE_RECORDS:
            raise InputError(f"more than {DEPENDENCE_RECORDS:,} records: scores would be rounded")

    return Mechanism("structure", calibrate, draw, require=require, scopes=lambda network: rules(network).sets)


def _find_scale(exact: Fraction) -> float:
    """Find the scale of the choice of parents for the budget, rounded up."""
    if exact > SCALE_LIMIT:
        raise InputError("epsilon is too small: the choices would be those of chance; ask for more")
    scale = math.nextafter(float(exact) * (1 + SCALE_ENLARGEMENT), math.inf)
    if not scale > 1e-9:
        raise InputError("epsilon is too large: the noise would vanish; a release without noise has no guarantee")
    return scale


def _draw_network(space: _Rules, statistic: Counts, calibration: StructureNoise, noise: Noise) -> ChosenNetwork:
    """Choose the nodes in turn, each with its parents."""
    placed: dict[str, Scope] = {}
    scores: dict[Candidate, float] = {}
    while len(placed) < len(space.network.nodes):
        candidates, at = list(space.candidates(tuple(placed))), 0
        if len(candidates) > 1:
            scores |= {pair: dependence(_count_family(statistic, pair)) for pair in candidates if pair not in scores}
            at = noise.noisy_max(np.array([scores[pair] for pair in candidates]), calibration.scale)
        node, parents = candidates[at]
        placed[node] = parents
    return ChosenNetwork(space.network, placed)


def _count_family(statistic: Counts, candidate: Candidate) -> Ints:
    """Take the counts of a family, the node's axis last."""
    node, parents = candidate
    scope = statistic.network.ordered((*parents, node))
    return np.asarray(np.moveaxis(statistic.joint(scope), scope.index(node), -1))


# --------------------------------------------------------------------------------------------------- public rules


@dataclass(frozen=True)
class _Rules:
    """Search space of networks: public rules, made without a record.

    Args:
        network: the variables, without arcs.
        max_parents: of a node.
        max_cells: of a family's table.
        required: arcs that it has.
        forbidden: arcs that it has not.
        first: nodes that are placed first, in this order.
    """

    network: Network
    max_parents: int
    max_cells: int
    required: tuple[tuple[str, str], ...]
    forbidden: tuple[tuple[str, str], ...]
    first: Scope

    @property
    def sets(self) -> tuple[Scope, ...]:
        """Sets of variables that a family may have, in the schema's order."""
        nodes, most = self.network.nodes, min(self.max_parents + 1, len(self.network.nodes))
        every = (scope for size in range(2, most + 1) for scope in combinations(nodes, size))
        return tuple(scope for scope in every if self._fits(scope))

    def candidates(self, placed: Scope) -> Iterator[Candidate]:
        """Yield nodes that may come next, each with its maximal sets of parents.

        Args:
            placed: nodes that are there, in their order.
        """
        ahead = self.first[len(placed) : len(placed) + 1]
        for node in ahead or (node for node in self.network.nodes if node not in placed):
            fixed = {parent for parent, child in self.required if child == node}
            barred = {parent for parent, child in self.forbidden if child == node}
            if fixed <= set(placed):
                free = [parent for parent in placed if parent not in fixed | barred]
                yield from ((node, self.network.ordered(parents)) for parents in self._list_largest(node, fixed, free))

    def _list_largest(self, node: str, fixed: set[str], free: Sequence[str]) -> list[set[str]]:
        """List the maximal sets of parents of a node that include the fixed ones and keep the limits."""
        largest: list[set[str]] = []
        for size in range(min(self.max_parents - len(fixed), len(free)), -1, -1):
            larger = [parents for parents in largest if len(parents) > len(fixed) + size]
            for more in combinations(free, size):
                parents = fixed.union(more)
                if self._fits((*parents, node)) and not any(parents < superset for superset in larger):
                    largest.append(parents)
        return largest

    def _fits(self, scope: Iterable[str]) -> bool:
        """True if a family's table is small enough."""
        return self.network.cells(scope) <= self.max_cells

    @property
    def rounds(self) -> int:
        """Number of rounds with more than one candidate; all rounds, once several nodes may come next."""
        placed: Scope = ()
        choices = 0
        while len(placed) < len(self.network.nodes):
            candidates = list(self.candidates(placed))
            next_nodes = {node for node, _ in candidates}
            if len(next_nodes) > 1:
                return choices + len(self.network.nodes) - len(placed)
            choices += len(candidates) > 1
            placed = (*placed, *next_nodes)
        return choices


def _make_rules(
    network: Network, max_parents: int, max_cells: int, required: Arcs, forbidden: Arcs, first: Scope
) -> _Rules:
    """Make the search space; refuse rules that no network keeps or with too many candidates."""
    if network != Network.empty(network.variables):
        raise InputError("structure chooses all arcs: give it the network without any, Network.empty(schema)")
    fixed = add_conditions(_read_parents(required, network.schema, "required"), network.schema)
    barred = _read_parents(forbidden, network.schema, "forbidden")
    try:
        skeleton = Network(network.variables, fixed)
    except InputError as error:
        raise InputError(f"required arcs: {error}") from None
    for node in network.nodes:
        both = set(fixed[node]) & set(barred[node])
        if both:
            raise InputError(f"the arc {shown(min(both))} -> {shown(node)} is required and forbidden; drop one of them")
        if len(fixed[node]) > max_parents:
            raise InputError(f"{shown(node)} has {len(fixed[node])} required parents, more than {max_parents}")
        cells = network.cells(skeleton.family(node))
        if cells > max_cells:
            with_ = f" with its required parents {listed(fixed[node])}" if fixed[node] else ""
            raise InputError(f"the table of {shown(node)}{with_} has {cells:,} cells, more than {max_cells:,}")
    _refuse_order(first, network.schema, fixed)
    rules = _Rules(
        network,
        max_parents,
        max_cells,
        required=_list_arcs(fixed),
        forbidden=_list_arcs(barred),
        first=first or _choose_first(network.nodes, fixed, barred),
    )
    _refuse_many(rules)
    return rules


def _read_parents(arcs: Arcs, schema: Schema, label: str) -> Mapping[str, Scope]:
    """Read the parents of each node from arcs."""
    if isinstance(arcs, str):
        return parents_in(arcs, schema, where=f"{label} arcs")
    return parents_of(arcs, schema, lambda index: f"{label} arc {index + 1}")


def _list_arcs(parents: Mapping[str, Scope]) -> tuple[tuple[str, str], ...]:
    """List all arcs, (parent, child)."""
    return tuple((parent, node) for node, family in parents.items() for parent in family)


def _choose_first(nodes: Scope, fixed: Mapping[str, Scope], barred: Mapping[str, Scope]) -> Scope:
    """Choose the nodes that may have no parent, in the schema's order; else the first without a required parent."""
    roots = tuple(node for node in nodes if len(barred[node]) == len(nodes) - 1)
    return roots or next((node,) for node in nodes if not fixed[node])


def _refuse_order(first: Scope, schema: Schema, fixed: Mapping[str, Scope]) -> None:
    """Refuse names that are unknown, repeated, or before a required parent."""
    for position, node in enumerate(first):
        known = schema[node].name
        if known in first[:position]:
            raise InputError(f"{shown(node)} is placed twice; name it once")
        late = [parent for parent in fixed[known] if parent not in first[:position]]
        if late:
            raise InputError(f"{shown(node)} is placed before {shown(late[0])}, its required parent")


def _refuse_many(rules: _Rules) -> None:
    """Refuse rules whose counts would take hours, by numbers of variables and states alone."""
    nodes = len(rules.network.nodes)
    many = sum(math.comb(nodes, size) for size in range(2, min(rules.max_parents + 1, nodes) + 1))
    if many > SETS_LIMIT:
        raise InputError(
            f"{nodes} variables make {many:,} families of up to {rules.max_parents} parents, more than {SETS_LIMIT:,}; "
            "ask for fewer parents"
        )
    cells = sum(map(rules.network.cells, rules.sets))
    if cells > CELLS_IN_ALL:
        raise InputError(f"the candidates' tables have {cells:,} cells, more than {CELLS_IN_ALL:,}; lower max_cells")
