"""Gradients of a logistic regression's log-likelihood, summed over private records as whole numbers.

A record's gradient is `(y - sigmoid(theta . v)) v`: a number between -1 and 1 times its coordinates. It is rounded to
the grid for each record by itself; because the coordinates are on the grid already, no entry grows by that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from discreet.errors import InputError
from discreet.model.design import GRID, Design
from discreet.privacy.guarantee import Relation
from discreet.releases.policy import RecordsPolicy
from discreet.sensitive.rows import Integers, Rows

__all__ = ["Gradients", "gradient_sensitivity", "gradients"]

Floats = npt.NDArray[np.float64]

PIECE = 2**12
"""Records of a block that are computed with at once: what is made of them stays in a processor's cache."""


@dataclass(frozen=True, eq=False, repr=False)
class Gradients:
    """Private records of two classes, of which gradients are asked.

    Args:
        rows: of a design with two classes.
    """

    rows: Rows

    def __repr__(self) -> str:
        """Nothing of the records."""
        return f"Gradients({self.over.size} coordinates, private)"

    def __reduce__(self) -> NoReturn:
        """Statistics of private records are never copied or pickled."""
        raise TypeError("gradients are private and cannot be pickled or copied; make them again from the records")

    @property
    def over(self) -> Design:
        """The design."""
        return self.rows.design

    @property
    def records(self) -> int:
        """Number of records; private under ADD_REMOVE."""
        return self.rows.records

    @property
    def policy(self) -> RecordsPolicy:
        """As the rows'."""
        return self.rows.policy

    def at(self, theta: Floats) -> Integers:
        """Sum of the gradients at public weights.

        Args:
            theta: shape `(size,)`.

        Returns:
            int64, shape `(size,)`, in steps of the grid.
        """
        total = np.zeros(len(theta), np.int64)
        for coordinates, target in self.rows.blocks():
            # Entry by entry: a matrix product may round a record's sum in an order that depends on how many there are.
            a = np.zeros(len(target))
            for column, weight in zip(coordinates.T, theta / GRID, strict=True):
                a += column * weight
            total += np.rint((target - expit(a))[:, None] * coordinates).astype(np.int64).sum(axis=0)
        return total

    def signed(self) -> Integers:
        """Sum of `(2 y - 1) v`: twice the gradient at weights of 0, without rounding; in steps of the grid."""
        total = np.zeros(self.over.size, np.int64)
        for coordinates, target in self.rows.blocks():
            # Whole numbers below 2^53, so that floating point is exact: see `moments`.
            total += ((2.0 * target - 1) @ coordinates.astype(np.float64)).astype(np.int64)
        return total

    def expansion(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """The negative log-likelihood, its gradient and its curvature in one pass, in floating point.

        Args:
            theta: shape `(size,)`.

        Returns:
            (sum of `log(1 + exp(-(2 y - 1) theta . v))`; sum of `(sigmoid - y) v`, shape `(size,)`; sum of
            `sigmoid (1 - sigmoid) v v'`). The second is within `records (40 + size |theta|) 2^-53` of the exact sum in
            each entry: numpy adds long rows in pairs, and pieces of them are added exactly.
        """
        cost, parts, curvature = 0.0, [], np.zeros((len(theta), len(theta)))
        for coordinates, target in self.rows.blocks():
            for start in range(0, len(target), PIECE):
                v = np.multiply(coordinates[start : start + PIECE].T, 1 / GRID, order="C")  # exact: a power of two
                y, a = target[start : start + PIECE], theta @ v
                p = expit(a)
                cost += float((np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a)))).sum() - a @ y)
                parts.append((v * (p - y)).sum(axis=1))
                curvature += (v * (p * (1 - p))) @ v.T
        slope = [math.fsum(column) for column in zip(*parts, strict=True)] or np.zeros(len(theta))
        return cost, np.asarray(slope), curvature

    def slope(self, theta: Floats) -> tuple[Floats, Floats]:
        """Gradient and curvature of the negative log-likelihood; see `expansion`."""
        return self.expansion(theta)[1:]

    def cost(self, theta: Floats) -> float:
        """The negative log-likelihood; see `expansion`."""
        return self.expansion(theta)[0]

    def beginning(self) -> Gradients:
        """The records of the first block alone: where a search over all of them may begin."""
        block = next(self.rows.blocks())
        return Gradients(replace(self.rows, records=len(block[0]), read=lambda: iter([block])))


def gradients(rows: Rows) -> Gradients:
    """Ask gradients of records.

    Args:
        rows: of a design whose target has two states.

    Returns:
        The statistic.

    Raises:
        InputError: another target.
    """
    target = rows.design.target
    if target is None or target.numeric:
        raise InputError("a logistic regression needs a target of two classes")
    return Gradients(rows)


def gradient_sensitivity(design: Design, relation: Relation) -> int:
    """Most that one record can move a sum of gradients, or of signed coordinates, in the norm of `design.shape`.

    A record's gradient is its coordinates times a number between -1 and 1, rounded to no larger entries, and depends on
    no other record.

    Args:
        design: public.
        relation: what "neighbouring" means.

    Returns:
        Steps of the grid: `design.reach` under ADD_REMOVE, twice that under REPLACE.
    """
    return relation.by_record(design.reach, 2 * design.reach)
