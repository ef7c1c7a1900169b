"""Draws among finitely many public candidates, by a public table of scores of types of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.designs.kinds.noisy_sums import NoisyTotal, total_line, total_scale
from discreet.errors import InputError, require
from discreet.model.network import Network
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import (
    Finite,
    Flag,
    Integers,
    Matrix,
    Numbers,
    Positive,
    Whole,
    all_positive,
    kind,
)
from discreet.releases.listing import list_drawn
from discreet.releases.measurement import Released, Reported, Scores
from discreet.research.scores.families import Family
from discreet.research.scores.score_tables import SCORE_STEPS, ScoreTable
from discreet.util.arrays import Array, freeze

OWN_CELLS = 2**20
"""Most cells of a table in a release: 8 MB of text, and 21 more if it has a law of records."""


def require_fits(score: Family | ScoreTable) -> None:
    """Refuse a table that is too large for a document; a family is written by its parameters.

    Args:
        score: public.

    Raises:
        InputError: the table is too large.
    """
    if isinstance(score, ScoreTable) and score.steps.size > OWN_CELLS:
        raise InputError(
            f"a release contains the table of its score, which may have at most {OWN_CELLS:,} cells; use fewer "
            "candidates or wider bins"
        )


@kind("scored_noise")
@dataclass(frozen=True)
class ScoredNoise(Reported):
    """Draws among candidates, `P(z) ~ exp(base_z + rate sum_i s(x_i, z))` with s between 0 and 1.

    Args:
        rate: nats between the best and the worst score of a record.
        width: steps, of 2^20, by which one record can change the difference of two candidates' scores.
        draws: number of independent draws.
        total_scale: of discrete Laplace noise on the number of records; None if it is public.
        reported: epsilon of the draws and the number together, rounded up.
        records: largest number of records for which a delta is promised; None for any, and without a delta.

    Raises:
        InputError: a number is not positive and finite.
    """

    rate: Positive
    width: Whole
    draws: Whole
    total_scale: Positive | None
    reported: Fraction
    records: Whole | None = None

    def __post_init__(self) -> None:
        """Refuse invalid numbers."""
        require(all_positive(self.rate, self.total_scale), "a calibration needs a positive, finite rate and scale")
        require(self.reported > 0, "a calibration needs a report greater than 0")


@kind(None)
@dataclass(frozen=True, eq=False)
class FamilyPart:
    """Fields of a document for a family, except the variables, which are the network's."""

    name: str
    parameters: Mapping[str, Finite]
    points: Whole
    bound: Positive | None
    open_ends: Flag
    lipschitz: Positive | None


@kind(None)
@dataclass(frozen=True, eq=False)
class TablePart:
    """Fields of a document for a table of scores, except the network; cells are flat, candidates fastest."""

    names: tuple[str, ...]
    candidates: Matrix
    base: Numbers
    span: Positive
    steps: Integers
    log_law: Numbers | None


@kind("scored_choice", order=("rate", "total", "family", "table", "indices"))
@dataclass(frozen=True, eq=False)
class ScoredChoice(Released):
    """Draws among finitely many public candidates, `P(z) ~ exp(base_z + rate sum_i s(x_i, z))`.

    Args:
        score: public: a family of laws on a grid of parameters, or a table.
        indices: of the drawn candidates, int64, shape `(draws,)`.
        rate: nats between the best and the worst score of a record.
        total: noisy number of records; None if it is public.

    Raises:
        InputError: no draws, an index out of range, or a table that is too large for a document.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> calls = dc.research.Family("bernoulli", (dc.Variable("called", ("no", "yes")),), {"floor": 0.1}, points=9)
        >>> dc.research.ScoredChoice(calls, np.array([2]), rate=0.5, total=None).chosen.round(3).tolist()
        [[0.3]]
    """

    score: Family | ScoreTable
    indices: Integers
    rate: Positive
    total: NoisyTotal | None

    def __post_init__(self) -> None:
        """Freeze the array, and refuse payloads that inference could not read."""
        freeze(self, indices=np.asarray(self.indices))
        require(self.indices.ndim == 1 and bool(self.indices.size), "a choice needs at least one draw")
        require(bool(np.all((self.indices >= 0) & (self.indices < self.score.size))), "a drawn index is out of range")
        require(all_positive(self.rate), "a choice needs a positive rate")
        require_fits(self.score)

    @classmethod
    def made(
        cls,
        network: Network,
        *,
        rate: float,
        total: NoisyTotal | None,
        family: FamilyPart | None,
        table: TablePart | None,
        indices: Array,
    ) -> ScoredChoice:
        """Make the payload from the fields of a document.

        Args:
            network: of the document.
            rate, total, indices: as for the class.
            family, table: exactly one of them; the score.

        Returns:
            The payload.

        Raises:
            InputError: as for the class, or both a family and a table, or neither.
        """
        if (family is None) == (table is None):
            raise InputError("a choice needs either a family or a table of scores")
        score: Family | ScoreTable
        if family is not None:
            declared = family.points, family.bound, family.open_ends, family.lipschitz
            score = Family(family.name, network.variables, family.parameters, *declared)
            require(score.network == network, "in a family's network each variable must depend on all before it")
        else:
            assert table is not None
            shape = (-1, len(table.candidates))
            require(table.steps.size % len(table.candidates) == 0, "a table needs a number for each type and candidate")
            if table.log_law is not None:
                require(table.log_law.size == table.steps.size, "a law needs a number for each type and candidate")
            law = None if table.log_law is None else table.log_law.reshape(shape)
            score = ScoreTable(
                network, table.names, table.candidates, table.base, table.steps.reshape(shape), table.span, law
            )
        return cls(score, indices, rate, total)

    @property
    def network(self) -> Network:
        """Network over the variables of the records' types."""
        return self.score.network

    @property
    def table_of_scores(self) -> ScoreTable:
        """Score of every type for every candidate."""
        return self.score.table if isinstance(self.score, Family) else self.score

    @property
    def family(self) -> FamilyPart | None:
        """Family as fields of a document; None if the score is a table."""
        score = self.score
        if not isinstance(score, Family):
            return None
        declared = score.points or score.size, score.bound, score.open_ends, score.lipschitz
        return FamilyPart(score.name, score.parameters, *declared)

    @property
    def table(self) -> TablePart | None:
        """Table as fields of a document; None if the score is a family."""
        score = self.score
        if isinstance(score, Family):
            return None
        law = None if score.log_law is None else score.log_law.ravel()
        return TablePart(score.names, score.candidates, score.base, score.span, score.steps.ravel(), law)

    @property
    def chosen(self) -> Array:
        """Drawn candidates, float64, shape `(draws, numbers)`."""
        return np.asarray(self.table_of_scores.candidates[self.indices])

    @property
    def temper(self) -> float:
        """Power of the likelihood, if the score is a log-likelihood."""
        return self.rate / self.table_of_scores.span

    def scores(self, calibration: object) -> Scores:
        """See `Released`."""
        table = self.table_of_scores
        sizes = [table.network.schema[name].size for name in table.scope]
        nats = (self.rate / SCORE_STEPS * table.steps).reshape(*sizes, table.size)
        total = None if self.total is None else (self.total.value, self.total.scale)
        return Scores({table.scope: np.asarray(nats, np.float64)}, tuple(self.indices.tolist()), table.base, total)

    def per_unit(self, steps: int) -> ScoredChoice:
        """See `Released`."""
        total = self.total and self.total.per_unit(steps)
        return replace(self, rate=self.rate * steps, total=total)

    def log_range(self, calibration: object, relation: Relation) -> float | None:
        """See `Released`; for a family it is that of the tempered posterior.

        Args:
            calibration, relation: see `Released`.
        """
        return calibration.rate * calibration.width / SCORE_STEPS if isinstance(calibration, ScoredNoise) else None

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`."""
        return list(list_drawn(self.table_of_scores.names, self.chosen))

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        number = "one candidate" if len(self.indices) == 1 else f"{len(self.indices)} draws"
        line = f"{number} of {self.score.size:,}, by scores to which a record adds at most {self.rate:.4g} nats"
        return line + total_line(self.total)

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, ScoredNoise):
            return False
        stated = (calibration.rate, calibration.draws, calibration.total_scale)
        return stated == (self.rate, len(self.indices), total_scale(self.total))

    def counts_records(self, relation: Relation) -> bool:
        """See `Released`."""
        return (self.total is not None) != relation.public_number
