"""Basis of an answer: measured, inferred from measurements, assumed by the network, contradicted, or the prior alone.

A network may have families (a node with its parents) that no table contains, entirely or in part, if external figures
are read or a family was too large. The posterior of such a part equals its prior.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

from discreet.errors import listed
from discreet.model.graphs import requisite
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.posterior.evidence import measured_anywhere, measured_sets
from discreet.posterior.fit_check import GoodnessOfFit, check_fit
from discreet.posterior.saturated import leaves_open, missing_arcs
from discreet.releases.combined import Combined

Mark = Literal["measured", "inferred", "assumed", "contradicted", "prior"]
"""Mark of an answer, as defined by `Basis.of`."""

GAPS_AT_RANDOM = "values of {} are missing at random"
MOST_INFERRED = 6
"""Largest number of variables of an answer that is marked "inferred" if all its pairs were measured."""
MOST_NAMED_PAIRS = 20
"""Largest number of pairs that are listed."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis of a posterior's answers: which variables were measured together, and what was assumed.

    Args:
        evidence: evidence that was read.
        network: network whose rows were drawn; it may have more arcs than that of the evidence.
        trusted: whether the network's independences were assumed even against the tables.
        whole: whether all weighted sums were read, also those that do not determine the law of their variables.
        stored_fit: result of `check_fit` that was stored with the draws; None computes it at first use.
        gaps: variables whose missing values are assumed to be missing at random.
    """

    evidence: Combined
    network: Network
    trusted: bool
    whole: bool = False
    stored_fit: GoodnessOfFit | None = None
    gaps: frozenset[str] = frozenset()

    @cached_property
    def fit_check(self) -> GoodnessOfFit:
        """Result of `check_fit` for the evidence's network: the stored one, or computed at first use and kept.

        Computing takes half a minute for 1,000 nodes.
        """
        return check_fit(self.evidence) if self.stored_fit is None else self.stored_fit

    def of(
        self, names: Iterable[str], *, given: Iterable[str] = (), read: bool = True
    ) -> tuple[Mark, tuple[tuple[str, str], ...]]:
        """Return the mark of an answer, and its unmeasured pairs.

        Args:
            names: all variables of the query, conditioning ones included.
            given: the conditioning variables; others than in `names` are ignored.
            read: whether the answer used all joint measurements of them.

        Returns:
            (mark, pairs of `names` that were not measured together, in the schema's order, at most 20). The mark is the
            first that applies:

            1. "contradicted": the network was trusted, and a table contradicts it (`check_fit`) in variables of the
            query or whose rows matter to it, at least one of the latter;
            2. "prior": the answer needs a part that was not measured at all (`prior_only`);
            3. "assumed": an untestable assumption was made (`assumes`);
            4. "measured", or "assumed" without `read`: a table that contains all of them; no pairs are returned;
            5. "assumed": a variable by itself or a pair was not measured (public records alone tell of it), `read` is
            False, or there are more than six variables;
            6. "inferred": all pairs were measured, but no table contains all variables; no pairs are returned.

            Tables are sets that every data set measured, or that one of several measured if the network leaves their
            law free or they are a single variable; if there are none, the network's families.
        """
        scope = self.network.ordered(set(names))
        inside = frozenset(scope)
        missing = [
            pair for pair in combinations(scope, 2) if not (frozenset(pair) in self._pairs or self._is_in_rows(pair))
        ]
        if self.trusted:
            observed = inside.intersection(given)
            rows = frozenset(requisite(self.network, tuple(inside - observed), observed))
            used = inside | rows
            # A contradiction among conditioning variables alone changes no answer.
            if self._is_disputable(used) and any(names <= used and names & rows for names in self._contradicted_sets):
                return "contradicted", tuple(missing[:MOST_NAMED_PAIRS])
        if self.prior_only(scope, given=given):
            return "prior", tuple(missing[:MOST_NAMED_PAIRS])
        if self.assumes(scope):
            return "assumed", tuple(missing[:MOST_NAMED_PAIRS])
        tables = self._tables if len(inside) > 1 else self._sets_anywhere
        if any(inside <= table for table in tables) or self._is_in_rows(inside):
            return ("measured" if read else "assumed"), ()
        if missing or not read or not 1 < len(inside) <= MOST_INFERRED:
            return "assumed", tuple(missing[:MOST_NAMED_PAIRS])
        return "inferred", ()

    def assumes(self, names: Iterable[str]) -> tuple[str, ...]:
        """List the assumptions of an answer that no table can test.

        Args:
            names: all variables of the query, conditioning ones included.

        Returns:
            At most one sentence: that the values of those of `names` that are in `gaps`, listed in the schema's order,
            are missing at random; empty if there are none.
        """
        lost = self.gaps.intersection(names)
        return (GAPS_AT_RANDOM.format(listed(self.network.ordered(lost))),) if lost else ()

    def clipped(self, names: Iterable[str]) -> tuple[str, ...]:
        """List how numbers beyond bounds that a release found are clipped, a sentence for each of some variables.

        It says how many there are. Only variables whose bounds a release of the evidence found have one; a variable
        whose bounds were declared has none. Sentences are in the schema's order.
        """
        releases = [release.payload.clipped(release.policy.steps_of_one) for release in self.evidence.releases]
        return tuple(
            columns[name] for name in self.network.ordered(set(names)) for columns in releases if name in columns
        )

    def prior_only(self, names: Iterable[str], *, given: Iterable[str] = ()) -> tuple[Scope, ...]:
        """List the parts of the network that an answer needs and that were not measured: only the prior informs them.

        Needed are the nodes of the evidence's network whose rows matter to the query given the observed variables
        (`requisite`).

        Args:
            names: all variables of the query, conditioning ones included.
            given: the conditioning variables.

        Returns:
            `(node,)` for a node that no table contains or whose released draws leave it out, `(parent, node)` if no
            table contains both: the dependence of the node on this parent is unmeasured. At most 20, by node in the
            schema's order. Empty with public records, and if a table of some data set contains the whole query (unless
            released draws leave out a node).
        """
        inside = frozenset(names)
        if not self._unmeasured_parts or (
            not self._unreleased_nodes and any(inside <= table for table in self._sets_anywhere)
        ):
            return ()
        observed = inside.intersection(given)
        rows = requisite(self.evidence.network, self.network.ordered(inside - observed), observed)
        return tuple(part for node in rows for part in self._unmeasured_parts.get(node, ()))[:MOST_NAMED_PAIRS]

    @cached_property
    def _sets_anywhere(self) -> tuple[frozenset[str], ...]:
        """Largest sets of variables that were measured together on some data set; `_tables` if there are none; kept.

        With `whole` the scopes of all weighted sums are among them.
        """
        return measured_anywhere(self.evidence, in_part=self.whole) or self._tables

    @cached_property
    def _unreleased_nodes(self) -> frozenset[str]:
        """Nodes that the parameter draws of every release leave out; kept after first use.

        Empty with figures by others or without releases. A release of another payload leaves out none.
        """
        untold = [getattr(release.payload, "untold", ()) for release in self.evidence.releases]
        return frozenset.intersection(*map(frozenset, untold)) if untold and not self.evidence.external else frozenset()

    @cached_property
    def _unmeasured_parts(self) -> Mapping[str, tuple[Scope, ...]]:
        """Parts of each node's family without measurements or public records, by node; kept after first use.

        Returns:
            `(node,)` alone for a node that no table contains or that all releases' draws leave out; else `(parent,
            node)` for each parent that no table contains together with the node. Nodes without such parts are left out;
            with public records the mapping is empty.
        """
        if self.evidence.public is not None:
            return {}
        network, unmeasured = self.evidence.network, dict[str, tuple[Scope, ...]]()
        pairs = {frozenset(pair) for table in self._sets_anywhere for pair in combinations(table, 2)}
        alone = frozenset[str]().union(*self._sets_anywhere)
        for node in network.nodes:
            if node not in alone or node in self._unreleased_nodes:
                unmeasured[node] = ((node,),)
            elif apart := [parent for parent in network.parents[node] if frozenset((parent, node)) not in pairs]:
                unmeasured[node] = tuple((parent, node) for parent in apart)
        return unmeasured

    def _is_in_rows(self, names: Collection[str]) -> bool:
        """True if one of several data sets measured these variables together, and the network leaves their law free.

        False with a single data set. The joint law is fitted to sets that every data set measured; other measurements
        enter the rows of the network alone.
        """
        several = len(self.evidence.data_sets) > 1 and any(table.issuperset(names) for table in self._sets_anywhere)
        return several and leaves_open(self.network, names)

    @cached_property
    def _tables(self) -> tuple[frozenset[str], ...]:
        """Largest sets of variables that every data set measured together; kept after first use.

        If there are none, they are the families of the network whose rows were drawn.
        """
        sets = measured_sets(self.evidence)
        return sets or tuple(frozenset(self.network.family(node)) for node in self.network.nodes)

    @cached_property
    def _pairs(self) -> frozenset[frozenset[str]]:
        """Pairs of variables that some set of `_tables` contains; kept after first use."""
        return frozenset(frozenset(pair) for table in self._tables for pair in combinations(table, 2))

    @cached_property
    def _contradicted_sets(self) -> tuple[frozenset[str], ...]:
        """Sets of variables in which tables contradict the network whose rows were drawn; kept after first use.

        It is `fit_check` if that is the evidence's network, else another run of `check_fit`, for this network.
        """
        same = self.network == self.evidence.network
        check = self.fit_check if same else check_fit(self.evidence, network=self.network)
        return tuple(frozenset(test.variables) for test in check.contradicted)

    @cached_property
    def _disputable_pairs(self) -> tuple[frozenset[str], ...]:
        """Pairs that a table could refute: in `_pairs`, and without an arc in the drawn rows' network; kept."""
        return tuple(pair for pair in self._pairs if missing_arcs(self.network, tuple(pair)))

    def _is_disputable(self, names: frozenset[str]) -> bool:
        """True if some pair of the names is one of `_disputable_pairs`: a table could refute the network there."""
        return any(pair <= names for pair in self._disputable_pairs)


def prior_only_words(parts: Iterable[Scope]) -> str:
    """Format the result of `Basis.prior_only` as text.

    Args:
        parts: parts as `Basis.prior_only` returns them.

    Returns:
        One line, parts in their order; empty if there are none.

    Example:
        >>> prior_only_words([("age",), ("age", "ill")])
        'not measured, prior only: age, how ill depends on age'
    """
    named = [part[0] if len(part) == 1 else f"how {part[1]} depends on {part[0]}" for part in parts]
    return f"not measured, prior only: {listed(named)}" if named else ""
