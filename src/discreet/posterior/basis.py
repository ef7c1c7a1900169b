"""What an answer rests on: what was measured, what follows from it, what the network assumes, what contradicts that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

from discreet.inference.elimination import requisite
from discreet.model.network import Network
from discreet.posterior.evidence import measured_sets
from discreet.posterior.fit_check import fit
from discreet.posterior.pooled.table_draws import MOST_LOOSE
from discreet.posterior.saturated import missing_arcs
from discreet.releases.combined import Combined

__all__ = ["Basis", "Mark"]

Mark = Literal["measured", "inferred", "assumed", "contradicted"]

NAMED = 20
"""Pairs that are named: more of them say no more."""


@dataclass(frozen=True, eq=False)
class Basis:
    """What the answers of a posterior rest on.

    Args:
        evidence: that was read.
        network: whose rows were drawn.
        trusted: whether the network was believed against tables.
    """

    evidence: Combined
    network: Network
    trusted: bool

    def of(
        self, names: Iterable[str], *, given: Iterable[str] = (), read: bool = True
    ) -> tuple[Mark, tuple[tuple[str, str], ...]]:
        """The mark of an answer.

        Args:
            names: all variables of the question, observed ones as well.
            given: the observed ones.
            read: whether all that tables say of them entered the answer.

        Returns:
            "contradicted" where the network was trusted in what a table contradicts (`fit`), of variables that the
            question names or that its answer sums over; else "assumed" where some pair lies in no table, or tables were
            not read, "inferred" where the pairs of at most six variables do and the whole does not, and "measured"; and
            the pairs that lie in no table, in the schema's order, at most 20.
        """
        asked = self.network.ordered(set(names))
        inside = frozenset(asked)
        missing = [pair for pair in combinations(asked, 2) if frozenset(pair) not in self._pairs]
        if self.trusted:
            observed = inside.intersection(given)
            rows = frozenset(requisite(self.network, tuple(inside - observed), observed))
            used = inside | rows
            # What is known of observed variables alone changes no answer.
            if self._disputable(used) and any(names <= used and names & rows for names in self._contradicted):
                return "contradicted", tuple(missing[:NAMED])
        if len(inside) < 2 or any(inside <= table for table in self._tables):
            return ("measured" if read else "assumed"), ()
        if missing or not read or len(inside) > MOST_LOOSE:
            return "assumed", tuple(missing[:NAMED])
        return "inferred", ()

    @cached_property
    def _tables(self) -> tuple[frozenset[str], ...]:
        """Sets of variables that were measured together; of a release without tables, its families."""
        found = measured_sets(self.evidence)
        return found or tuple(frozenset(self.network.family(node)) for node in self.network.nodes)

    @cached_property
    def _pairs(self) -> frozenset[frozenset[str]]:
        """That were measured."""
        return frozenset(frozenset(pair) for table in self._tables for pair in combinations(table, 2))

    @cached_property
    def _contradicted(self) -> tuple[frozenset[str], ...]:
        """Sets of which the network says what tables contradict; found when it is first asked for."""
        return tuple(frozenset(test.variables) for test in fit(self.evidence, network=self.network).contradicted)

    def _disputable(self, names: frozenset[str]) -> bool:
        """Whether a table could contradict what the network says of some of the names: it has a pair not joined."""
        pairs = (pair for table in self._tables for pair in combinations(names & table, 2))
        return any(missing_arcs(self.network, pair) for pair in pairs)
