"""How far one record can move the scores of candidates, exactly, from a public table of whole numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.score_tables import ScoreTable
from discreet.privacy.guarantee import Relation

__all__ = ["score_width"]

Integers = npt.NDArray[np.int64]


def score_width(score: ScoreTable, relation: Relation) -> int:
    """Most that one record can change the difference of two candidates' sums of scores.

    ADD_REMOVE: the largest, over types of records, of the range of a type's scores over the candidates. REPLACE: the
    largest, over pairs of types, of the range of the difference of their scores.

    Args:
        score: public.
        relation: which data sets are neighbours.

    Returns:
        Steps. For METRIC see `metric_width`.

    Raises:
        InputError: a metric, whose unit this function does not know.

    Guarantee:
        A draw with `P(z) ~ exp(base_z + rate sum_i steps(x_i, z) / STEPS)` is `rate score_width / STEPS`-DP: with
        weights w, `1 / P(z) = sum_y w_y / w_z`, and each ratio changes by a factor within exp(+- that). The base
        measure cancels in each ratio.

    Source:
        McSherry and Talwar (2007); Williams and McSherry (NIPS 2010), Section 2, with ranges in place of twice the
        largest score, as what depends on the record alone cancels.
    """
    match relation:
        case Relation.ADD_REMOVE:
            return int(np.ptp(score.steps, axis=1).max())
        case Relation.REPLACE:
            return _widest_pair(score.steps)
    raise InputError("what one record can change is not what privacy under a metric is about")


def _widest_pair(steps: Integers) -> int:
    """The largest over pairs of rows of the range of their difference; over pairs of columns where those are fewer."""
    table = steps if len(steps) <= steps.shape[1] else steps.T
    # The range over columns of a difference of rows, and the range over rows of a difference of columns, are both the
    # largest s(t, z) - s(t', z) - s(t, y) + s(t', y).
    return max((int(np.ptp(table[at:] - row, axis=1).max()) for at, row in enumerate(table)), default=0)
