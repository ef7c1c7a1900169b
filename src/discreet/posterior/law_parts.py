"""Ingredients of joint laws: draws of measured sets, and the assumption about unmeasured pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations, product
from typing import Literal, NamedTuple

import numpy as np

from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.joint_law import Doubt, fit_joint_law
from discreet.posterior.law_plan import JointLaw, LawPlan
from discreet.posterior.pooled.family_laws import family_laws
from discreet.posterior.pooled.measured_sets import DrawnSet, MeasuredSets
from discreet.util.arrays import Array, Floats, Ints

MOST_ROUNDS, LARGEST_CHANGE = 200, 1e-7
"""Most rounds, and the largest change of a share that ends them: a round leaves a part of the error that is the part of
the records with a gap, so that where half are missing the end is as far off as the last step."""
# --------------------------------------------------------------------------------------------------------------------
# The law of complete records of one measured set, if its values are missing at random.
#
# A table tells the law of what was seen of its variables: `s` has a value of each, or that there is none. Of every draw
# the law of complete records is found under which what was seen is most probable, with the model
#
#     P(s) = c_s sum of theta(x) over all x that agree with s,
#
# c_s the chance that of a record like this so much is missing, which depends on what is seen alone. Each round gives
# the records of a pattern of gaps to complete records in the proportions that the last theta has for them. Whatever was
# measured with a set, pairs beside the network among them, is completed by itself, so that it is not lost.
#
# Source: Rubin (1976), missing at random; Dempster, Laird and Rubin (1977), EM, section 4.1.1.

LEAST_SHARE = 1e-300
"""Least share in a denominator."""


def complete_set(law: Floats, gaps: Sequence[bool]) -> Floats:
    """Complete the law of partially observed variables under every draw, by the EM algorithm.

    Args:
        law: shape `(*sizes, draws)`; sums to 1 for each draw.
        gaps: of each variable, whether its last state says that the value is missing.

    Returns:
        Law of complete records, shape `(*complete sizes, draws)`: without these states. A draw in which nothing is seen
        is even.

    Example:
        >>> seen = np.array([[0.4, 0.1, 0.1], [0.1, 0.1, 0.2]])  # rows: no gap; columns: no, yes, missing
        >>> complete_set(seen[..., None], [False, True])[..., 0].round(2).tolist()
        [[0.48, 0.12], [0.2, 0.2]]
    """
    sizes = [size - gap for size, gap in zip(law.shape, gaps, strict=False)]
    patterns = list(product(*([False, True] if gap else [False] for gap in gaps)))
    pattern_laws = [
        law[tuple(slice(size, None) if gone else slice(size) for size, gone in zip(sizes, pattern, strict=True))]
        for pattern in patterns
    ]
    theta = np.full((*sizes, law.shape[-1]), 1 / np.prod(sizes))
    for _ in range(MOST_ROUNDS):
        before, theta = theta, np.zeros_like(theta)
        for pattern, pattern_law in zip(patterns, pattern_laws, strict=True):
            known = before.sum(axis=tuple(np.flatnonzero(pattern)), keepdims=True)
            theta += before * (pattern_law / np.maximum(known, LEAST_SHARE))
        if np.max(np.abs(theta - before), initial=0.0) < LARGEST_CHANGE:
            break
    return theta


Assume = Literal["network", "robust"]
"""Assumption about pairs that no table holds."""
DRAW_STREAM, TWIN_STREAM = 3, 4
"""Streams of a set's generator for the doubt of draws and of their twins."""


class Complete(NamedTuple):
    """Laws of complete records, if values are missing at random.

    Args:
        rows: shape `(*parents, child, draws)`.
        parents: laws of sets of parents, shape `(*sizes, draws)`.
    """

    rows: Tables
    parents: Mapping[Scope, Array]


@dataclass(frozen=True, eq=False)
class LawParts:
    """Parts of the joint law of a posterior's draws.

    Args:
        sets: that tables hold.
        count_parents: records of parents that are not joined, by node, shape `(*parents, draws)`; None where all sets
            are drawn already.
        drawn: laws of sets, as far as they were drawn.
        assume: what is believed of pairs that no table holds: "robust" gives each an interaction of its own, "network"
            believes the network.
        complete: where values are missing at random; None where gaps are states like others.
    """

    sets: MeasuredSets
    count_parents: Callable[[str], Ints] | None
    drawn: dict[Scope, DrawnSet] = field(default_factory=dict)
    assume: Assume = "robust"
    complete: Complete | None = None
    _laws: dict[str, JointLaw] = field(default_factory=dict)
    _plans: dict[str, LawPlan] = field(default_factory=dict)

    def assuming(self, assume: Assume) -> LawParts:
        """Return the same draws of sets under another assumption."""
        return replace(self, assume=assume)

    def completed(self, rows: Tables, parents: Mapping[Scope, Array]) -> LawParts:
        """Return the parts for complete records.

        Args:
            rows: of these, shape `(*parents, child, draws)`.
            parents: laws of sets of parents in them, shape `(*sizes, draws)`.
        """
        return replace(self, complete=Complete(rows, parents), _laws={}, _plans={})

    @property
    def network(self) -> Network:
        """Network over the variables of the law."""
        return self.sets.network if self.complete is None else self.complete.rows.network

    @property
    def told(self) -> MeasuredSets | None:
        """Measured sets over the law's variables; None for complete records, which no table holds."""
        return self.sets if self.complete is None else None

    @property
    def plan(self) -> LawPlan:
        """Plan of the joint law."""
        if self.assume not in self._plans:
            doubt, contradict = self.assume == "robust", self.sets.contradict
            self._plans[self.assume] = LawPlan.of(self.network, self.sets.tables, doubt=doubt, contradict=contradict)
        return self._plans[self.assume]

    @property
    def law(self) -> JointLaw:
        """The joint law, fitted at first use."""
        if self.assume not in self._laws:
            self._laws[self.assume] = self._fit_complete() if self.complete is not None else self._fit_seen()
        return self._laws[self.assume]

    def _fit_seen(self) -> JointLaw:
        """Fit the law of observed values, and of twins."""
        sets = self.sets
        if self.plan.tree is None:
            return replace(JointLaw.of_rows(sets.cells, sets.twins), plan=self.plan)
        drawn = self.draw_all()
        laws = {names: drawn[names].law for names in self.plan.sets}
        cells = self._fit(sets.cells, self.families, laws, DRAW_STREAM)

        def make_twins() -> Tables:
            twins = {names: drawn[names].twins for names in self.plan.sets}
            return self._fit(sets.some_twins, self._twin_families, twins, TWIN_STREAM)

        return JointLaw(self.network, cells, make_twins, self.plan)

    def _fit_complete(self) -> JointLaw:
        """Fit the law of complete records, which has no twins."""
        assert self.complete is not None
        cells, schema = self.complete.rows, self.sets.network.schema
        if self.plan.tree is not None:
            parents = {names: self.complete.parents[names] for names in self.plan.parents}
            laws = dict[Scope, Array]()
            for names in self.plan.sets:
                gaps = [schema[name].missing is not None for name in names]
                laws[names] = complete_set(self._draw_set(names).law.astype(np.float64), gaps)
            cells = self._fit(cells, family_laws(cells, parents), laws, DRAW_STREAM)
        return JointLaw(self.network, cells, plan=self.plan)

    def draw_all(self) -> Mapping[Scope, DrawnSet]:
        """Draw sets of unjoined parents and all sets of the plan, as far as not drawn before."""
        return {**self._draw_parents(), **{names: self._draw_set(names) for names in self.plan.sets}}

    def _draw_set(self, names: Scope) -> DrawnSet:
        """Draw a set, if not drawn before."""
        if names not in self.drawn:
            self.drawn[names] = self.sets.draw(names, self.families, self._twin_families)
        return self.drawn[names]

    def _draw_parents(self) -> dict[Scope, DrawnSet]:
        """Draw the laws of unjoined parents, as far as not drawn before."""
        network = self.sets.network
        for node in network.order:
            parents = network.parents[node]
            if parents in self.plan.parents and parents not in self.drawn:
                assert self.count_parents is not None
                self.drawn[parents] = self.sets.draw_parents(parents, self.count_parents(node))
        return {parents: self.drawn[parents] for parents in self.plan.parents}

    @cached_property
    def families(self) -> Mapping[str, Floats]:
        """Laws of the families of observed values, by node."""
        return family_laws(self.sets.cells, {names: drawn.law for names, drawn in self._draw_parents().items()})

    @cached_property
    def _twin_families(self) -> Mapping[str, Floats]:
        """Laws of the families under the twins, by node."""
        return family_laws(self.sets.some_twins, {names: drawn.twins for names, drawn in self._draw_parents().items()})

    def _fit(self, cells: Tables, families: Mapping[str, Floats], drawn: Mapping[Scope, Array], stream: int) -> Tables:
        """Fit the law of some draws."""
        pairs = self.sets.pair_sizes if self.plan.doubt else None
        doubt = Doubt(pairs, self.sets.triple_sizes, partial(self.sets.generator, more=stream), self.is_loose)
        return fit_joint_law(self.plan, cells, families, drawn, doubt)

    def is_loose(self, triple: Scope) -> bool:
        """True if no table and no family contains a triple, while its pairs are measured or may interact."""
        inside = set(triple)
        held = [*self.sets.tables, *self._family_sets]
        known = all(frozenset(pair) in self.sets.pairs for pair in combinations(triple, 2))
        return (known or self.assume == "robust") and not any(scope.issuperset(inside) for scope in held)

    @cached_property
    def _family_sets(self) -> tuple[frozenset[str], ...]:
        """Families of the network."""
        return tuple(frozenset(self.network.family(node)) for node in self.network.nodes)
