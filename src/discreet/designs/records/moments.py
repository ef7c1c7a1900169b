"""Second moments: sums of products of a design's coordinates and target, in integers.

Each statistic states its own sensitivity for each relation. Squares are centred: `2 v^2 - 1` lies in [-1, 1] where v^2
lies in [0, 1], so a square is known twice as well as a product at the same noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import numpy as np

from discreet.designs.design import GRID_STEPS, Design
from discreet.designs.records.rows import Rows
from discreet.errors import InputError
from discreet.privacy.guarantee import Relation
from discreet.releases.policy import RecordsPolicy
from discreet.util.arrays import Ints


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Private sums of products of a design's coordinates and target, in steps of `1 / GRID_STEPS^2`.

    Args:
        design: public.
        values: int64, one for each pair in `design.moments`; sums of `v_i v_j`, of `2 v_i^2 - 1` for squares.
        records: number of records; private under ADD_REMOVE.
        policy: as the rows'.

    Raises:
        Nothing: `sum_moments` has checked the design.

    Guarantee:
        None spent: for mechanisms only; `moment_sensitivity` bounds what one record can do to each sum.

    Example:
        >>> import discreet as dc
        >>> stay = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
        >>> rows = dc.designs.read_rows(stay, [[45.0], [90.0]], [10.0, 40.0])
        >>> moments = dc.designs.sum_moments(rows)
        >>> moments
        Moments(5 sums, private)
    """

    design: Design
    values: Ints
    records: int
    policy: RecordsPolicy

    def __repr__(self) -> str:
        """Text without any value of the records."""
        return f"Moments({len(self.design.moments)} sums, private)"

    def __reduce__(self) -> NoReturn:
        """Statistics of private records are never copied or pickled."""
        raise TypeError("moments are private and cannot be pickled or copied; sum the records again")

    @property
    def over(self) -> Design:
        """The public design that the sums are over."""
        return self.design

    def vector(self, relation: Relation) -> Ints:
        """The vector that receives noise: the sums, after the number of records if the relation makes it private.

        Args:
            relation: under ADD_REMOVE the number of records is private, and comes first.

        Returns:
            int64, in steps of `1 / GRID_STEPS^2`.
        """
        if relation.public_number:
            return self.values
        return np.concatenate([[self.records * GRID_STEPS**2], self.values]).astype(np.int64)


def sum_moments(rows: Rows) -> Moments:
    """Sum the products of coordinates and target over private records, in integers.

    Args:
        rows: of a design with a numeric target, or none.

    Returns:
        The sums.

    Raises:
        InputError: a target of two classes, which has no products, or more of them than can be held.

    Guarantee:
        None spent: nothing leaves.

    Example:
        >>> import discreet as dc
        >>> stay = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
        >>> rows = dc.designs.read_rows(stay, [[45.0], [90.0]], [10.0, 40.0])
        >>> moments = dc.designs.sum_moments(rows)
        >>> dict(zip(stay.moments, (moments.values / 4096**2).tolist(), strict=True))  # private
        {(0, 0): 0.0, (0, 1): 1.0, (0, 2): 1.0, (1, 2): 0.5, (2, 2): 0.5}
    """
    design = rows.design
    if design.predicts not in ("number", "nothing"):
        raise InputError("second moments need a numeric target that is no count, or none")
    pairs = design.moments  # refuses more than memory has room for
    (total,) = rows.sum(partial(_multiply_pairs, design.target is not None))
    squares = np.diag(total).copy()
    np.fill_diagonal(total, 2 * squares - rows.records * GRID_STEPS**2)
    return Moments(design, np.array([total[pair] for pair in pairs], np.int64), rows.records, rows.policy)


def _multiply_pairs(with_target: bool, coordinates: Ints, target: Ints) -> tuple[Ints]:
    """Sum the products of all pairs of coordinates, and of the target if there is one, over the records of a block.

    Whole numbers of at most GRID_STEPS = 2^12 in size: any sum of the products of a block of 2^16 records is one of at
    most 2^40, below 2^53, so floating point is exact in whatever order it adds, and much faster than integers.
    """
    block = np.vstack([coordinates.T, *([target] if with_target else [])]).astype(np.float64)
    return ((block @ block.T).astype(np.int64),)


def moment_sensitivity(relation: Relation) -> int:
    """Sensitivity of any of the released sums, in steps of `1 / GRID_STEPS^2`.

    A record adds to each sum a number from `-GRID_STEPS^2` to `GRID_STEPS^2`, and `GRID_STEPS^2` to the number of
    records.

    Args:
        relation: what "neighbouring" means.

    Returns:
        ADD_REMOVE: `GRID_STEPS^2`. REPLACE: `2 GRID_STEPS^2`; the number of records does not move and is not released.

    Example:
        >>> moment_sensitivity(Relation.REPLACE) == 2 * GRID_STEPS**2
        True
    """
    return relation.by_record(GRID_STEPS**2, 2 * GRID_STEPS**2)
