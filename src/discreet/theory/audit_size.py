"""How many pairs of variables a release can afford to measure beside the tables of its network.

Equal shares of epsilon give a cell of K tables the standard deviation `sqrt(2) K / epsilon` records. Shares of n records
are then known to .005 where `K = .005 epsilon n / sqrt(2)`: more pairs would each be told too little.
"""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["audited_pairs", "chosen_pairs"]

ERROR = 0.005
"""Standard deviation that the noise may give a share of a measured pair."""
LEAST = 0.25
"""Share of all candidates below which measuring some is not worth what the network's own tables lose by it."""
AT_RANDOM = 3
"""One in so many of the measured pairs is taken at random, so that what stays unmeasured can be judged by them."""


def audited_pairs(records: float, epsilon: Fraction, candidates: int) -> int:
    """How many pairs to measure.

    Args:
        records: a public number, or one that was released.
        epsilon: that all pairs together get.
        candidates: pairs that no table of the network's holds.

    Returns:
        All candidates where that many are affordable, some where at least a quarter are, else none.

    Example:
        >>> audited_pairs(28_155, Fraction(1, 5), 9), audited_pairs(1_000, Fraction(1, 5), 9)
        (9, 0)
    """
    most = math.floor(ERROR * float(epsilon) * max(records, 0.0) / math.sqrt(2))
    if most >= candidates:
        return candidates
    return most if most >= max(1, LEAST * candidates) else 0


def chosen_pairs(number: int, candidates: int) -> int:
    """Of the measured pairs, how many are chosen by what the first stage misjudged; the rest are taken at random.

    Args:
        number: of measured pairs.
        candidates: there are.

    Returns:
        None where all are measured.
    """
    return 0 if number == candidates else number - math.ceil(number / AT_RANDOM)
