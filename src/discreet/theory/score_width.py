"""How far one record can move the scores of candidates, exactly, from a public table of whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from discreet.errors import InputError
from discreet.model.score_tables import ScoreTable
from discreet.privacy.guarantee import Relation
from discreet.util.arrays import Ints

PAIRS_LIMIT = 2**32
"""Most pairs of bins, times candidates, that are compared: two seconds."""


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
        A draw with `P(z) ~ exp(base_z + rate sum_i steps(x_i, z) / SCORE_STEPS)` is `rate score_width /
        SCORE_STEPS`-DP: with weights w, `1 / P(z) = sum_y w_y / w_z`, and each ratio changes by a factor within exp(+-
        that). The base measure cancels in each ratio.

    Source:
        McSherry and Talwar (2007); Williams and McSherry (NIPS 2010), Section 2, with ranges in place of twice the
        largest score, as what depends on the record alone cancels.
    """
    match relation:
        case Relation.ADD_REMOVE:
            return int(np.ptp(score.steps, axis=1).max())
        case Relation.REPLACE:
            return _find_widest_pair(score.steps)
    raise InputError("what one record can change is not what privacy under a metric is about")


def _find_widest_pair(steps: Ints) -> int:
    """Find the largest range of a difference of two rows; over pairs of columns where those are fewer."""
    table = steps if len(steps) <= steps.shape[1] else steps.T
    # The range over columns of a difference of rows, and the range over rows of a difference of columns, are both the
    # largest s(t, z) - s(t', z) - s(t, y) + s(t', y).
    return max((int(np.ptp(table[at:] - row, axis=1).max()) for at, row in enumerate(table)), default=0)


def metric_width(score: ScoreTable, amount: Fraction) -> int:
    """Most that a change of one unit in one reading can change the difference of two candidates' sums of scores.

    Two readings whose bins are so far apart that a change between them takes at least k units, rounded up, may move
    scores by k times as much.

    Args:
        score: of one numeric variable.
        amount: of the unit, in the variable's own; the guarantee's unit begins with it.

    Returns:
        Steps.

    Raises:
        InputError: several variables, one without an order, or more bins and candidates than can be compared.

    Guarantee:
        A draw at a rate is `rate metric_width / SCORE_STEPS` for each unit: data sets of one size, in which readings
        change by k_1, k_2, ... units, each rounded up to a whole number, have laws within `exp(+- that (k_1 + k_2 +
        ...))`.

    Source:
        Dimitrakakis et al. (JMLR 2017), Definition 2 and Assumption 1; the constant is that of the table itself.
    """
    variables = score.network.variables
    if len(variables) > 1 or variables[0].bounds is None:
        raise InputError("privacy under a metric is for a score of one numeric variable: a change has a size there")
    if len(score.steps) ** 2 * score.size > PAIRS_LIMIT:
        raise InputError("too many bins and candidates to compare all pairs of readings; take wider bins")
    # Whole numbers of a common part of all cut points and of the unit: what floats such as 0.1 are off by counts.
    exact = [Fraction(cut) for cut in (variables[0].bounds[0], *variables[0].bins)]
    common = math.lcm(amount.denominator, *(cut.denominator for cut in exact))
    cuts, unit = np.array([int(cut * common) for cut in exact], object), int(amount * common)
    widest = 0
    for at in range(len(cuts) - 1):
        moved = np.ptp(score.steps[at + 1 :] - score.steps[at], axis=1)
        # Readings below the end of one bin and at the start of another are the nearest, further apart than these two.
        units = ((cuts[at + 1 :] - cuts[at + 1]) // unit + 1).astype(np.int64)
        widest = max(widest, int((-(-moved // units)).max()))
    return widest
