"""Sums of the scores that a function of the curator's own gives the records of a design, as whole numbers.

Everything that a function could do wrong happens here, before anything is charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from discreet.errors import InputError
from discreet.model.design import Design
from discreet.records.rows import Rows
from discreet.releases.policy import RecordsPolicy
from discreet.research.scores.own_factors import OwnFactor
from discreet.util.arrays import Ints


@dataclass(frozen=True, eq=False, repr=False)
class ScoreSums:
    """Private sums of the scores that a function of the curator's own gives to records.

    Args:
        factor: public; whose scores they are.
        values: whole steps, one sum for each candidate.
        records: number of records; private under ADD_REMOVE.
        policy: as the rows'.

    Raises:
        Nothing: `score_sums` has checked the function.

    Guarantee:
        None spent: for mechanisms only; one record adds from 0 to `SCORE_STEPS` to each sum.

    Example:
        >>> import discreet as dc
        >>> ages = dc.Design((dc.Variable("age", bounds=(0, 100)),), intercept=False)
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
        """Text that says nothing of the records."""
        return f"ScoreSums({len(self.values)} sums, private)"

    def __reduce__(self) -> NoReturn:
        """Statistics of private records are never copied or pickled."""
        raise TypeError("sums of scores are private and cannot be pickled or copied; sum the records again")

    @property
    def over(self) -> Design:
        """The public design that the score is over."""
        return self.factor.design


def score_sums(rows: Rows, factor: OwnFactor) -> ScoreSums:
    """Sum what a function says of every record, each shown to it alone and twice.

    Args:
        rows: of the factor's design.
        factor: public.

    Returns:
        The sums.

    Raises:
        InputError: rows of another design, or a function that answers otherwise the second time. A function that only
            looks at the record it is given is never refused: what fails or is no number counts as the lowest score.

    Guarantee:
        None spent: nothing leaves. One record adds from 0 to `SCORE_STEPS` to each sum, and is seen by the function
        without any other.
    """
    if rows.design != factor.design:
        raise InputError("the score is over another design than the records")
    total = np.zeros(len(factor.candidates), object)
    for records, counts in _list_distinct(rows):
        first = [factor.steps(record) for record in records]
        again = [factor.steps(record) for record in reversed(records)]
        if not all(np.array_equal(one, other) for one, other in zip(first, reversed(again), strict=True)):
            raise InputError(
                "the score of a record changed when it was asked for again; a score must be a function of one record "
                "and one candidate, without chance or memory"
            )
        total += (np.array(first, np.int64).T @ counts).astype(object)
    return ScoreSums(factor, tuple(int(value) for value in total), rows.records, rows.policy)


def _list_distinct(rows: Rows) -> Iterator[tuple[list[dict[str, np.ndarray]], Ints]]:
    """List the records of each block that differ, in an order that says nothing, and how often each is there."""
    for coordinates, target in rows.blocks():
        if not len(coordinates):
            continue
        wide = np.column_stack([coordinates, *([target] if len(target) else [])])
        kinds, counts = np.unique(wide, axis=0, return_counts=True)
        values = rows.design.values(kinds[:, : coordinates.shape[1]], kinds[:, -1])
        yield [{name: v[at : at + 1] for name, v in values.items()} for at in range(len(kinds))], counts
