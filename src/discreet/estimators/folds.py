"""Folds of a cross-validation whose charges add up: a record's fold depends on that record alone.

scikit-learn's folds are even in size and, for classifiers, in classes, so they depend on all records: one more record
moves others between folds, and a fold's fit and score then change by more than that record. Independent coins avoid
this: with the same coins for all others, one record changes its own fold and no other, so each fit and each score
keeps its own guarantee for the records as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from discreet.estimators.options import whole_number
from discreet.util.arrays import Positions


@dataclass(frozen=True)
class IndependentFolds:
    """Splitter for `cv=`: each record's fold is drawn independently, with randomness of the operating system.

    Args:
        folds: number of folds. Their sizes are random, so use several records for each.

    Raises:
        InputError: fewer than two folds, or no whole number.

    Guarantee:
        A search over these folds promises the sum of its fits' and scores' guarantees, under either relation. There is
        no seed: with known coins, a fold's position would reveal the number of records before it.

    Source:
        Joint convexity of differential privacy in the coins; see the module.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> train, test = zip(*dc.estimators.IndependentFolds(5).split(np.zeros((100, 2))))
        >>> sorted(np.concatenate(test).tolist()) == list(range(100))
        True
    """

    folds: int = 5

    def __post_init__(self) -> None:
        """Refuse an invalid number of folds."""
        whole_number(self.folds, "folds", 2)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Count the folds, as scikit-learn requires.

        Args:
            X, y, groups: not read.

        Returns:
            The number.

        Raises:
            Nothing: the constructor checked it.
        """
        return self.folds

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Positions, Positions]]:
        """Split the records' positions into those to fit and those to score, fold by fold.

        Args:
            X: records; only their number is read.
            y: not read.
            groups: not read.

        Returns:
            An iterator over pairs of disjoint arrays that together hold all positions.

        Raises:
            TypeError: by scikit-learn, if X has no number of records.
        """
        # 64 bits modulo a few folds: uneven by less than 1e-18, and independent of every record in any case.
        coins = np.frombuffer(os.urandom(8 * _num_samples(X)), np.uint64) % np.uint64(self.folds)
        for fold in range(self.folds):
            yield np.flatnonzero(coins != fold), np.flatnonzero(coins == fold)
