"""Sums of the records' scores by a function of the curator's own, as whole numbers.

Every error of that function occurs here, before anything is charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from discreet.designs.design import Design
from discreet.designs.records.rows import Rows
from discreet.errors import InputError
from discreet.releases.policy import RecordsPolicy
from discreet.research.scores.custom_factors import OwnFactor
from discreet.util.arrays import Ints


@dataclass(frozen=True, eq=False, repr=False)
class ScoreSums:
    """Private sums of the records' scores by a function of the curator's own.

    Args:
        factor: public; it computes the scores.
        values: whole steps, one sum for each candidate.
        records: number of records; private under ADD_REMOVE.
        policy: of the rows.

    Raises:
        Nothing: `score_sums` checks the function.

    Guarantee:
        None spent: for mechanisms only; one record adds from 0 to `SCORE_STEPS` to each sum.

    Example:
        >>> import discreet as dc
        >>> ages = dc.designs.Design((dc.Variable("age", bounds=(0, 100)),), intercept=False)
        >>> near = lambda r, z: -abs(r["age"][:, None] - z[:, 0])
        >>> nearest = dc.research.own_factor(ages, near, [20, 60], low=-50, high=0)
        >>> dc.tools.statistic_of(dc.research.factored(nearest), dc.designs.read_rows(ages, [[30.0]]), ages)
        ScoreSums(2 sums, private)
    """

    factor: OwnFactor
    values: tuple[int, ...]
    records: int
    policy: RecordsPolicy

    def __repr__(self) -> str:
        """Format the public part of the sums."""
        return f"ScoreSums({len(self.values)} sums, private)"

    def __reduce__(self) -> NoReturn:
        """Refuse copies and pickles of private statistics."""
        raise TypeError("sums of scores are private and cannot be pickled or copied; sum the records again")

    @property
    def over(self) -> Design:
        """Public design of the score."""
        return self.factor.design


def score_sums(rows: Rows, factor: OwnFactor) -> ScoreSums:
    """Sum a function's scores of all records, each of which it gets alone and twice.

    Args:
        rows: of the factor's design.
        factor: public.

    Returns:
        The sums.

    Raises:
        InputError: rows of another design, or a function with another result the second time. A function of the record
            alone is never refused: an exception, or a result that is no number, counts as the lowest score.

    Guarantee:
        None spent: nothing is released. One record adds from 0 to `SCORE_STEPS` to each sum, and the function gets it
        without any other.
    """
    if rows.design != factor.design:
        raise InputError("the score is over another design than the records")
    total = np.zeros(len(factor.candidates), object)
    for records, counts in _list_distinct(rows):
        first = [factor.steps(record) for record in records]
        again = [factor.steps(record) for record in reversed(records)]
        if not all(np.array_equal(scores, repeated) for scores, repeated in zip(first, reversed(again), strict=True)):
            raise InputError(
                "a second call changed the score of a record; a score must be a function of one record and one "
                "candidate, without randomness or memory"
            )
        total += (np.array(first, np.int64).T @ counts).astype(object)
    return ScoreSums(factor, tuple(int(value) for value in total), rows.records, rows.policy)


def _list_distinct(rows: Rows) -> Iterator[tuple[list[dict[str, np.ndarray]], Ints]]:
    """List the distinct records of each block in sorted order, which hides their own, and their frequencies."""
    for coordinates, target in rows.blocks():
        if not len(coordinates):
            continue
        wide = np.column_stack([coordinates, *([target] if len(target) else [])])
        kinds, counts = np.unique(wide, axis=0, return_counts=True)
        values = rows.design.values(kinds[:, : coordinates.shape[1]], kinds[:, -1])
        yield [{name: v[at : at + 1] for name, v in values.items()} for at in range(len(kinds))], counts
