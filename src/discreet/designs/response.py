"""Responses: canonical models of a target with two classes, several classes, or counts.

With predictors `a = theta . v` a record's loss is `f(a) - y . a`, whose gradient in a is `mean(a) - y`. Targets and
means are scaled to [0, 1]: counts are divided by their upper bound. Privacy rests on two public constants, stated here:
the largest distance of a mean from a target, and the largest slope of means.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
import scipy

from discreet.designs.design import Design
from discreet.errors import InputError
from discreet.util.arrays import Floats, Ints, freeze

LOG_2 = (math.log(2), 6.93147180369123816490e-01, 1.90821492927058770002e-10)
"""log 2; its upper 33 bits, whose product with a small whole number is exact; the rest."""
TAYLOR = tuple(1 / math.factorial(degree) for degree in range(13, -1, -1))
"""Coefficients of exp, the highest degree first: what they leave out is below 2^-57 up to log(2) / 2."""


class Response(ABC):
    """A canonical model of a target.

    Predictors, targets and means have the shape (outputs, records).

    Attributes:
        outputs: predictors of a record.
        rank: directions in which the means of a record can move.
        steepest: largest slope of the means in all of these directions at once.
        steepest_pair: largest of `slopes`.
        squared_reach: largest squared Euclidean distance of a mean from a target.
        corners: vertices of the set of `mean - y` for one y, without 0.
        start: loss at predictors of 0.
        height: largest difference of `start` and the least loss of a target.
        dispersion: variance of a target over the slope of its mean, under the model.
    """

    outputs: int = 1
    rank: int = 1
    squared_reach: int = 1
    corners: int = 1
    steepest: float
    steepest_pair: float = 0.25
    start: float
    height: float
    dispersion: float = 1.0

    @abstractmethod
    def observed(self, target: Ints) -> Floats:
        """Scale targets in rows, codes of classes or counts, to [0, 1]."""

    @abstractmethod
    def means(self, a: Floats) -> Floats:
        """Compute the expected targets, each within [0, 1]."""

    @abstractmethod
    def loss(self, a: Floats, y: Floats) -> float:
        """Sum `f(a) - y . a` over the records."""

    @abstractmethod
    def bent(self, a: Floats, moved: Floats, least: Floats) -> Floats:
        """Compute predictors whose means are those at a plus the linear change of a move.

        Args:
            a: predictors, shape (outputs, m).
            moved: changes of them by the slopes at a, shape (outputs, m).
            least: lower bounds of the means (and of 1 less the mean of a class), shape (m,).
        """

    @abstractmethod
    def slopes(self, means: Floats) -> Floats:
        """Compute the slopes of the means from the means; one for each of `pairs`, shape (pairs, records).

        For two outputs k < l it is the weight of `(e_k - e_l)(e_k - e_l)'` in the derivative of the means.
        """

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of outputs, first before second; a single output has one, with itself."""
        if self.outputs == 1:
            return ((0, 0),)
        return tuple((first, second) for first in range(self.outputs) for second in range(first + 1, self.outputs))


@dataclass(frozen=True)
class TwoClasses(Response):
    """Logistic model: `f(a) = log(1 + exp(a))`, y is 1 for the second class."""

    steepest = 0.25
    start = height = math.log(2)

    def observed(self, target: Ints) -> Floats:
        """See `Response`."""
        return np.asarray(target[None], np.float64)

    def means(self, a: Floats) -> Floats:
        """See `Response`."""
        power = exponential(-np.abs(a))
        return np.asarray(np.where(a < 0, power, 1.0) / (1 + power))

    def loss(self, a: Floats, y: Floats) -> float:
        """See `Response`."""
        return float((np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a)))).sum() - (a * y).sum())

    def bent(self, a: Floats, moved: Floats, least: Floats) -> Floats:
        """See `Response`."""
        p = self.means(a)
        return np.asarray(scipy.special.logit(np.clip(p + p * (1 - p) * moved, least, 1 - least)))

    def slopes(self, means: Floats) -> Floats:
        """See `Response`."""
        return np.asarray(means * (1 - means))


@dataclass(frozen=True)
class CountResponse(Response):
    """Poisson model, in units of the upper bound U: `f(a) = exp(a) / U` up to `log U`, and linear from there.

    Means beyond the bound of all counts are not needed; the linear part makes gradients bounded.

    Args:
        upper: U, at least 1.
    """

    upper: float
    most: float = field(init=False, repr=False)
    corners = 2
    steepest = steepest_pair = 1.0

    def __post_init__(self) -> None:
        """Set the constants: the loss is at most `(1 - y + y log y) / U`, largest at y = 0 or y = U.

        The variance of a count equals its mean, which equals the slope.
        """
        unit, most = 1 / self.upper, math.log(self.upper)
        freeze(self, start=unit, dispersion=unit, height=max(unit, unit - 1 + most), most=most)

    def observed(self, target: Ints) -> Floats:
        """See `Response`."""
        return np.asarray(target[None] / self.upper)

    def means(self, a: Floats) -> Floats:
        """See `Response`."""
        return np.where(a < self.most, exponential(np.minimum(a, self.most)) / self.upper, 1.0).clip(max=1.0)

    def loss(self, a: Floats, y: Floats) -> float:
        """See `Response`."""
        beyond = np.maximum(a - self.most, 0)
        return float((self.means(a) + beyond - y * a).sum())

    def bent(self, a: Floats, moved: Floats, least: Floats) -> Floats:
        """See `Response`."""
        p = np.exp(a) / self.upper
        return np.asarray(np.log(np.maximum(p * (1 + moved), least) * self.upper))

    def slopes(self, means: Floats) -> Floats:
        """See `Response`; on the linear part the mean is 1 and constant."""
        return np.where(means < 1, means, 0.0)


@dataclass(frozen=True)
class Classes(Response):
    """Multinomial model: `f(a) = log sum exp(a)`, one predictor for each class; y has a 1 at the record's.

    All classes have weights, and none is a reference: adding the same vector to all weights changes nothing, and the
    regulariser chooses weights that sum to 0.

    Args:
        classes: more than two.
    """

    classes: int
    squared_reach = 2

    def __post_init__(self) -> None:
        """Set the constants: the corners are `e_k - e_y`, and `diag(p) - p p'` has the trace `1 - |p|^2`."""
        others, loss = self.classes - 1, math.log(self.classes)
        freeze(self, outputs=self.classes, rank=others, corners=others, steepest=1 / self.classes)
        freeze(self, start=loss, height=loss)

    def observed(self, target: Ints) -> Floats:
        """See `Response`."""
        return np.asarray(target[None] == np.arange(self.classes)[:, None], np.float64)

    def means(self, a: Floats) -> Floats:
        """See `Response`."""
        # Class by class: the order of a sum along an axis may depend on the number of records.
        powers = exponential(a - a.max(axis=0, initial=-np.inf))
        total = np.zeros(powers.shape[1:])
        for power in powers:
            total += power
        return np.asarray(powers / total)

    def loss(self, a: Floats, y: Floats) -> float:
        """See `Response`."""
        most = a.max(axis=0, initial=0)
        return float((most + np.log(np.exp(a - most).sum(axis=0))).sum() - (a * y).sum())

    def bent(self, a: Floats, moved: Floats, least: Floats) -> Floats:
        """See `Response`."""
        p = self.means(a)
        return np.asarray(np.log(np.clip(p + p * (moved - (p * moved).sum(axis=0)), least, 1.0)))

    def slopes(self, means: Floats) -> Floats:
        """See `Response`: `diag(p) - p p'` is the sum over pairs of `p_k p_l (e_k - e_l)(e_k - e_l)'`."""
        first, second = (list(positions) for positions in zip(*self.pairs, strict=True))
        return np.asarray(means[first] * means[second])


def exponential(a: Floats) -> Floats:
    """Compute exp(a) by additions, multiplications and powers of two alone, which every machine rounds alike.

    So a record's rounded gradient is the same wherever it is computed, and whatever stands beside it in an array.
    Libraries promise neither: their loops differ by processor, and by the place in an array.

    Args:
        a: any shape; at most 709.

    Returns:
        Same shape, within a part 3 2^-53; below -740 next to nothing.
    """
    inside = np.maximum(a, -740.0)
    twos = np.rint(inside / LOG_2[0])
    rest = (inside - twos * LOG_2[1]) - twos * LOG_2[2]
    power = np.full_like(rest, TAYLOR[0])
    for coefficient in TAYLOR[1:]:
        power = power * rest + coefficient
    return np.asarray(np.ldexp(power, twos.astype(np.int32)))


def response_of(design: Design) -> Response:
    """Make the canonical model of a design's target.

    Args:
        design: its target has states, or counts.

    Returns:
        The response.

    Raises:
        InputError: a numeric target, or none.
    """
    target = design.target
    match design.predicts:
        case "class":
            return TwoClasses()
        case "classes":
            assert target is not None
            return Classes(target.size)
        case "count":
            assert target is not None and target.bounds is not None
            return CountResponse(target.bounds[1])
        case _:
            raise InputError("a regression by gradients needs a target of classes, or of counts")
