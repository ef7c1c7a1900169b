r"""Dependence score of two groups of variables, in records, and its sensitivity.

The score of a table N over the states x of a node and p of its parents, of n records, is

    R = 1/2 sum over x, p of |N(x, p) - N(x) N(p) / n|,  and 0 where n = 0:

n times the total variation between the joint shares and the product of the margins, the score R of PrivBayes. It is
computed in whole numbers and rounded down to a public grid.

**What a record does to it.** Let G = N - N(x) N(p) / n, with shares f of x and g of p. Adding a record (a, b) to n
others turns G into

    G' = G + n / (n + 1) (e_a - f) (e_b - g)^T,

since N' = N + e_a e_b^T and N'(x) N'(p) / (n + 1) = (n f + e_a) (n g + e_b)^T / (n + 1); for n = 0 both are 0. The norm
of the outer product is the product of the norms, each at most 2, and R is half the norm of G, so

    |R' - R| <= n / (n + 1) 1/2 * 2 * 2 < 2                                                        (ADD_REMOVE)

whatever n is: the number of records may be private, and the score takes the true one of each data set. Replacing
(c, d) by (a, b) beside m = n - 1 others moves G by m / n times

    e_a e_b^T - e_c e_d^T - (e_a - e_c) g^T - f (e_b - e_d)^T,

three terms of norm at most 2, so |R' - R| <= 3 m / n < 3 (REPLACE). Both are approached by many records: many equal
ones and a new one that differs in both for 2; for 3 see `tests/test_structure.py`. Rounding down to multiples of 1/16
changes neither: 2 and 3 are whole numbers of steps, and s <= t + k gives floor(s) <= floor(t) + k for whole k.

Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao (PrivBayes, TODS 2017), Section 4 for the score, whose bound
there is 3 + 2 / n for replacing a record; the bounds here are derived above.
"""

from __future__ import annotations

import numpy as np

from discreet.privacy.guarantee import Relation
from discreet.util.arrays import Ints

SCORE_STEPS = 16
"""Steps of a score in one record, to which scores are rounded."""
DEPENDENCE_RECORDS = 2**48
"""Most records for which a score is a float without rounding."""
INT64_RECORDS = 2**30
"""Records up to which products of counts, and their sums, lie within 64 bits."""


def dependence(table: Ints) -> float:
    """Score R of a table, rounded down to a multiple of 1/16.

    Args:
        table: counts, int64; the last axis is the node's, the others are its parents'.

    Returns:
        Records; exactly that multiple, from 0 to the number of records.

    Guarantee:
        None spent: private. `dependence_sensitivity` bounds what a record can do to it.

    Example:
        >>> dependence(np.array([[2, 0], [0, 2]])), dependence(np.array([[1, 1], [1, 1]]))
        (2.0, 0.0)
    """
    joint = table.reshape(-1, table.shape[-1])
    total = int(joint.sum())
    if not total:
        return 0.0
    if total > INT64_RECORDS:
        joint = joint.astype(object)
    # n times the difference is an integer in every cell.
    apart = int(np.abs(total * joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum())
    return SCORE_STEPS * apart // (2 * total) / SCORE_STEPS


def dependence_sensitivity(relation: Relation) -> int:
    """Sensitivity of `dependence` to one record, for any table and any number of records.

    Args:
        relation: what "neighbouring" means.

    Returns:
        Records: 2 for ADD_REMOVE, 3 for REPLACE.

    Source:
        The top of this file.

    Example:
        >>> dependence_sensitivity(Relation.ADD_REMOVE), dependence_sensitivity(Relation.REPLACE)
        (2, 3)
    """
    return relation.by_record(2, 3)
