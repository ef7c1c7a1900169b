"""Folds of a cross-validation whose charges add up: in which fold a record is depends on that record alone.

scikit-learn's folds are even in size and, for classifiers, in classes, which takes a look at all records: one record
more moves others from fold to fold, and then a fold's fit and score change by more than that record. Independent coins
do not: with the same coins for all others, one record changes its own fold and no other, so each fit and each score
keeps its own guarantee for the records as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import _num_samples

from discreet.estimators.options import whole_number

Positions = npt.NDArray[np.intp]


@dataclass(frozen=True)
class IndependentFolds:
    """A splitter for `cv=`: every record draws its fold by a coin of its own, from the operating system.

    Args:
        folds: how many; their sizes vary as coins do, so take several records for each.

    Raises:
        InputError: fewer than two folds, or no whole number.

    Guarantee:
        A search over these folds keeps the sum of what its fits and scores promise, under either relation. There is no
        seed: whoever knew the coins would learn from a fold's position how many records stand before it.

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
        """Refuse what is no number of folds."""
        whole_number(self.folds, "folds", 2)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds, as scikit-learn asks for it.

        Args:
            X, y, groups: not read.

        Returns:
            The number.

        Raises:
            Nothing: it was checked.
        """
        return self.folds

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Positions, Positions]]:
        """Positions of the records to fit to and of those to score, fold after fold.

        Args:
            X: records, of which only the number is read.
            y: not read.
            groups: not read.

        Returns:
            An iterator over pairs of arrays that share no position and together have all.

        Raises:
            TypeError: of scikit-learn, something that has no number of records.
        """
        # 64 bits modulo a few folds: uneven by less than 1e-18, and independent of every record in any case.
        coins = np.frombuffer(os.urandom(8 * _num_samples(X)), np.uint64) % np.uint64(self.folds)
        for fold in range(self.folds):
            yield np.flatnonzero(coins != fold), np.flatnonzero(coins == fold)
