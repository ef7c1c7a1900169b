"""Inputs of joint laws: drawn laws of measured sets, and the assumption about unmeasured pairs.

A measured set is a set of variables that some table contains together. The replicate of a draw is a second draw of all
probabilities given the same latent counts. A family is a node with its parents, and a row the node's distribution in
one state of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.structural_zeros import clear_impossible, with_zeros
from discreet.model.tables import Tables
from discreet.posterior.joint_law import Doubt, fit_joint_law
from discreet.posterior.law_plan import JointLaw, LawPlan
from discreet.posterior.pooled.family_laws import family_laws
from discreet.posterior.pooled.measured_sets import DrawnSet, MeasuredSets
from discreet.util.arrays import Array, Floats, Ints
from discreet.util.option_texts import LawAssume

MOST_ROUNDS, LARGEST_CHANGE = 200, 1e-7
"""Largest number of EM rounds, and the largest change of a probability that ends them. A round multiplies the error by
the fraction of records with a missing value: if half are incomplete, the final error is as large as the last step."""
# --------------------------------------------------------------------------------------------------------------------
# The law of complete records of one measured set, if its values are missing at random.
#
# A table informs us about the law of observed values: `s` has for each variable its value, or that it is missing. For
# every draw of this law the law of complete records is fitted by maximum likelihood, with the model
#
#     P(s) = c_s sum of theta(x) over all x that agree with s,
#
# where c_s is the probability of this pattern of missing values, which depends on the observed values alone. The E step
# distributes the records of each pattern over the complete records that agree with them, in proportion to the last
# theta; the M step adds them up. Each measured set is completed separately, including pairs that the network does not
# join, so that their interactions are not lost.
#
# Source: Rubin (1976), missing at random; Dempster, Laird and Rubin (1977), EM, section 4.1.1.

LEAST_SHARE = 1e-300
"""Least probability in a denominator."""


def complete_set(law: Floats, gaps: Sequence[bool]) -> Floats:
    """Fit the law of complete records to the law of partially observed variables, for every draw, by the EM algorithm.

    EM starts at the uniform law. A round divides each observed pattern's probability among the complete states that
    agree with it, in proportion to the last law (a sum below LEAST_SHARE counts as this). It ends when no probability
    of any draw changes by LARGEST_CHANGE (1e-7) or more, or after MOST_ROUNDS (200) rounds.

    Args:
        law: shape `(*sizes, draws)`; sums to 1 for each draw.
        gaps: for each variable, whether its last state means that the value is missing.

    Returns:
        Law of complete records, shape `(*complete sizes, draws)`, without the states for missing values. It is uniform
        for a draw in which nothing is observed.

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


DRAW_STREAM, TWIN_STREAM = 3, 4
"""Streams of a set's generator, for the random interactions of draws and of their replicates."""


class Complete(NamedTuple):
    """Rows and parents' laws of complete records, if values are missing at random; the states for gaps are left out.

    Args:
        rows: rows of complete records, shape `(*parents, child, draws)`.
        parents: laws of sets of parents of complete records, by set, shape `(*sizes, draws)`.
    """

    rows: Tables
    parents: Mapping[Scope, Array]


@dataclass(frozen=True, eq=False)
class LawParts:
    """Inputs of the joint laws of a posterior's draws; sets are drawn and laws fitted at first use, and kept.

    Args:
        sets: measured sets; this object draws their laws.
        count_parents: function from a node to the latent counts of its parents, shape `(*parents, draws)`, for parents
            that no family contains; None if all sets are drawn already.
        drawn: laws of the sets drawn so far; added to in place, and shared with copies by `assuming` and `completed`.
        assume: assumption about pairs that no table contains: "robust" gives each a random interaction, "network" takes
            it from the network.
        complete: laws of complete records if values are missing at random; None if a missing value is a state.
    """

    sets: MeasuredSets
    count_parents: Callable[[str], Ints] | None
    drawn: dict[Scope, DrawnSet] = field(default_factory=dict)
    assume: LawAssume = "robust"
    complete: Complete | None = None
    _laws: dict[str, JointLaw] = field(default_factory=dict)
    _plans: dict[str, LawPlan] = field(default_factory=dict)

    def assuming(self, assume: LawAssume) -> LawParts:
        """Return a copy under another assumption, which shares the drawn sets and the laws fitted so far or later."""
        return replace(self, assume=assume)

    def completed(self, rows: Tables, parents: Mapping[Scope, Array]) -> LawParts:
        """Return a copy for the laws of complete records, with the same drawn sets and nothing fitted yet.

        Args:
            rows: rows of complete records, shape `(*parents, child, draws)`.
            parents: their laws of sets of parents, shape `(*sizes, draws)`.
        """
        return replace(self, complete=Complete(rows, parents), _laws={}, _plans={})

    @property
    def network(self) -> Network:
        """Network over the variables of the law: that of the measured sets' rows, or of the complete records' rows."""
        return self.sets.network if self.complete is None else self.complete.rows.network

    @property
    def tabled_sets(self) -> MeasuredSets | None:
        """Measured sets, if their tables are over the law's variables; None for the law of complete records."""
        return self.sets if self.complete is None else None

    @property
    def plan(self) -> LawPlan:
        """Plan of the joint law under the present assumption, with doubt under "robust"; kept after first use."""
        if self.assume not in self._plans:
            doubt, contradict = self.assume == "robust", self.sets.contradict
            self._plans[self.assume] = LawPlan.of(self.network, self.sets.tables, doubt=doubt, contradict=contradict)
        return self._plans[self.assume]

    @property
    def law(self) -> JointLaw:
        """Joint law under the present assumption, of complete records if there are; fitted at first use, and kept."""
        if self.assume not in self._laws:
            self._laws[self.assume] = self._fit_complete() if self.complete is not None else self._fit_seen()
        return self._laws[self.assume]

    def _fit_seen(self) -> JointLaw:
        """Fit the joint law of observed values, drawing and keeping the laws of measured sets that are missing.

        Returns:
            The law; that of the replicate draws is fitted at its first use. Random interactions of the draws have the
            stream DRAW_STREAM, those of the replicates TWIN_STREAM. All missing sets are drawn and kept, but only the
            plan's sets and the families enter the fit. Without a clique tree no set is drawn, and the law is the
            network's own, with every `replicate_step`-th replicate.
        """
        sets = self.sets
        if self.plan.tree is None:
            return replace(JointLaw.of_rows(sets.cells, sets.replicates), plan=self.plan)
        drawn = self.draw_all()
        laws = {names: drawn[names].law for names in self.plan.sets}
        cells = self._fit(sets.cells, self.families, laws, DRAW_STREAM)

        def make_replicates() -> Tables:
            """Fit the laws of the replicates that the joint law keeps, with random interactions of their own stream."""
            replicates = {names: drawn[names].replicates for names in self.plan.sets}
            return self._fit(sets.some_replicates, self._replicate_families, replicates, TWIN_STREAM)

        return JointLaw(self.network, cells, make_replicates, self.plan)

    def _fit_complete(self) -> JointLaw:
        """Fit the joint law of complete records, whose measured sets are completed by EM (`complete_set`).

        Sets that are missing are drawn and kept. Gaps are variables whose schema has a state for missing values.
        Impossible cells of completed sets are set to 0. Random interactions have the stream DRAW_STREAM.

        Returns:
            The law, without replicate draws. Without a clique tree it is that of the complete records' rows.
        """
        assert self.complete is not None
        cells, schema = self.complete.rows, self.sets.network.schema
        if self.plan.tree is not None:
            parents = {names: self.complete.parents[names] for names in self.plan.parents}
            laws = dict[Scope, Array]()
            for names in self.plan.sets:
                gaps = [schema[name].missing is not None for name in names]
                completed = complete_set(self._draw_set(names).law.astype(np.float64), gaps)
                laws[names] = clear_impossible(cells.network.schema, names, completed)
            cells = self._fit(cells, family_laws(cells, parents), laws, DRAW_STREAM)
        return JointLaw(self.network, cells, plan=self.plan)

    def draw_all(self) -> Mapping[Scope, DrawnSet]:
        """Draw and keep the laws of unjoined parents and of the plan's sets that are missing.

        Returns:
            Laws of all of these, drawn now or before, by set: parents first, then sets, in the plan's order.
        """
        return {**self._draw_parents(), **{names: self._draw_set(names) for names in self.plan.sets}}

    def _draw_set(self, names: Scope) -> DrawnSet:
        """Return the law of a set of variables, gaps being states; draw it and add it to `drawn` if it is missing.

        Cells that conditions of columns make impossible are set to 0 in a set that is drawn here.
        """
        if names not in self.drawn:
            drawn = self.sets.draw(names, self.families, self._replicate_families)
            self.drawn[names] = DrawnSet(*(clear_impossible(self.sets.network.schema, names, law) for law in drawn))
        return self.drawn[names]

    def _draw_parents(self) -> dict[Scope, DrawnSet]:
        """Draw and keep the laws of the plan's unjoined parents that are still missing, in the order of their children.

        Returns:
            Laws of all sets of parents of the plan, drawn now or before.
        """
        network = self.sets.network
        for node in network.order:
            parents = network.parents[node]
            if parents in self.plan.parents and parents not in self.drawn:
                assert self.count_parents is not None
                self.drawn[parents] = self.sets.draw_parents(parents, self.count_parents(node))
        return {parents: self.drawn[parents] for parents in self.plan.parents}

    @cached_property
    def families(self) -> Mapping[str, Floats]:
        """Joint laws of the families of observed values, by node, shape `(*parents, child, draws)`.

        They are kept after first use; laws of unjoined parents that are missing are drawn for them.
        """
        return family_laws(self.sets.cells, {names: drawn.law for names, drawn in self._draw_parents().items()})

    @cached_property
    def _replicate_families(self) -> Mapping[str, Floats]:
        """Joint laws of the families in the kept replicates, by node, shape `(*parents, child, replicates)`; kept."""
        parents = {names: drawn.replicates for names, drawn in self._draw_parents().items()}
        return family_laws(self.sets.some_replicates, parents)

    def _fit(self, cells: Tables, families: Mapping[str, Floats], drawn: Mapping[Scope, Array], stream: int) -> Tables:
        """Fit joint laws to rows, families and measured sets, with random interactions drawn from one stream.

        Pairs get random interactions only if the plan doubts them, with sizes by the weights `pair_sizes`; loose
        triples (`is_loose`) get some in any case, with sizes by `triple_sizes`. The fit is `fit_joint_law`'s.

        Args:
            cells: rows, shape `(*parents, child, draws)`.
            families: joint laws of the families, by node, same shape.
            drawn: laws of the plan's sets, shape `(*sizes, draws)`.
            stream: stream of the generators of random interactions.

        Returns:
            Rows of the joint laws, over `plan.wide` (with the hidden variable, if there is doubt), with impossible
            cells at 0.
        """
        sets, pairs = self.sets, self.sets.pair_sizes if self.plan.doubt else None
        doubt = Doubt(pairs, sets.triple_sizes, partial(sets.generator, more=stream), self.is_loose, sets.chosen)
        return with_zeros(fit_joint_law(self.plan, cells, families, drawn, doubt))

    def is_loose(self, triple: Scope) -> bool:
        """True if no table and no family contains a triple, and all its pairs are measured or doubted ("robust")."""
        inside = set(triple)
        held = [*self.sets.tables, *(frozenset(self.network.family(node)) for node in self.network.nodes)]
        known = all(frozenset(pair) in self.sets.pairs for pair in combinations(triple, 2))
        return (known or self.assume == "robust") and not any(scope.issuperset(inside) for scope in held)
