"""Unit balls of norms for calibrating noise on a vector of sums, and the choice of the one with least noise.

Choice of `least_shape`: for d coordinates of at most 1 each, with absolute sum at most L and so squared length at most
L, noise for a budget of 1 has in each coordinate the variance (d + 1)(d + 2) / 3 in a cube, L (d + 1) in a ball and 2
L^2 in a diamond, which is independent Laplace noise. The ball's is never the least: where it is below the diamond's, d
+ 1 < 2 L, and then the cube's is below it. Without groups L = d, and the cube's is the least.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy.typing as npt

from discreet.noise.noise_laws import DiscreteGaussian, ShapeTag, VectorSource, VectorTag
from discreet.util.arrays import Ints


class Shape(ABC):
    """A norm, and the noise of density `exp(-||x|| / scale)` in d coordinates.

    Attributes:
        tag: Its name.
        slack: Loss of the drawn noise beyond distance / scale, for each coordinate; see `k_norm.py`.
    """

    tag: ClassVar[ShapeTag]
    slack: ClassVar[Fraction] = Fraction(0)

    @abstractmethod
    def norm(self, vector: npt.NDArray[Any]) -> int:
        """Compute the norm of a vector of whole numbers, rounded up: its loss at scale 1."""

    @abstractmethod
    def largest(self, length: int) -> int:
        """Compute the largest norm of entries of at most 1 whose absolute values sum to a length, rounded up."""

    def longest(self, size: int) -> float:
        """Compute the largest Euclidean norm of so many entries with norm 1."""
        return 1.0

    @abstractmethod
    def variance(self, size: int) -> float:
        """Compute the variance of one of so many coordinates, at scale 1."""

    @abstractmethod
    def mixture(self, size: int) -> tuple[float, float]:
        """Compute the gamma law (shape, scale) of the variance of the normal mixture for noise of scale 1."""

    def scales(self, size: int) -> int:
        """Count the scales within which an entry lies, roughly: a radius grows with the coordinates."""
        return size + 1


class Cube(Shape):
    """Norm: the largest absolute entry.

    The radius of a point is Gamma(d + 1), and its coordinates are uniform in the unit cube (Hardt and Talwar, 2010).
    """

    tag: ClassVar[Literal["cube"]] = "cube"

    def norm(self, vector: npt.NDArray[Any]) -> int:
        """See `Shape`."""
        return max(_list_sizes(vector), default=0)

    def largest(self, length: int) -> int:
        """See `Shape`."""
        return 1

    def longest(self, size: int) -> float:
        """See `Shape`."""
        return math.sqrt(size)

    def variance(self, size: int) -> float:
        """See `Shape`: a coordinate of a point in the unit cube has the mean square 1/3."""
        return (size + 1) * (size + 2) / 3

    def mixture(self, size: int) -> tuple[float, float]:
        """See `Shape`: the law that matches the second and fourth moment of the Euclidean norm.

        With G U, U uniform on [-1, 1]^d, E |b|^2 = E G^2 d / 3 and E |b|^4 = E G^4 (d / 5 + d (d - 1) / 9); a mixture
        has d E V and d (d + 2) E V^2.
        """
        mean = (size + 1) * (size + 2) / 3
        square = (size + 1) * (size + 3) * (size + 4) * (1 / 5 + (size - 1) / 9)
        order = mean**2 / (square - mean**2)
        return order, mean / order


class Ball(Shape):
    """Norm: the root of the sum of squares; the radius of a point is Gamma(d)."""

    tag = "ball"
    slack = Fraction(1, 2**100)
    """Loss due to standard deviations as floats (`k_norm._draw_ball`)."""

    def norm(self, vector: npt.NDArray[Any]) -> int:
        """See `Shape`."""
        squares = sum(entry * entry for entry in _list_sizes(vector))
        return math.isqrt(squares - 1) + 1 if squares else 0

    def largest(self, length: int) -> int:
        """See `Shape`."""
        return math.isqrt(length - 1) + 1

    def variance(self, size: int) -> float:
        """See `Shape`: a coordinate of a point on the unit sphere has the mean square 1 / d."""
        return size + 1

    def mixture(self, size: int) -> tuple[float, float]:
        """See `Shape`: exact, the multivariate Laplace law (Gomez, Gomez-Villegas and Marin, 1998, exponent 1/2)."""
        return (size + 1) / 2, 2


class Diamond(Shape):
    """Norm: the sum of the absolute entries, with independent Laplace noise on each."""

    tag = "diamond"

    def norm(self, vector: npt.NDArray[Any]) -> int:
        """See `Shape`."""
        return sum(_list_sizes(vector))

    def largest(self, length: int) -> int:
        """See `Shape`."""
        return length

    def variance(self, size: int) -> float:
        """See `Shape`."""
        return 2

    def mixture(self, size: int) -> tuple[float, float]:
        """See `Shape`: E |b|^2 = 2 d and E |b|^4 = 20 d + 4 d^2, matched as for a cube."""
        return (size + 2) / 3, 6 / (size + 2)

    def scales(self, size: int) -> int:
        """See `Shape`: each entry separately."""
        return 2


SHAPES: dict[ShapeTag, Shape] = {shape.tag: shape for shape in (Cube(), Ball(), Diamond())}
"""All norms by tag."""


@dataclass(frozen=True)
class KNorm:
    """Noise on whole vectors by a norm: `P(k) ~ exp(-||k|| / scale)`.

    Args:
        scale: in the unit of the vector.
        size: coordinates.
        shape: of the norm.
    """

    scale: float
    size: int
    shape: ShapeTag
    concentrated: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name in words."""
        return self.shape

    @property
    def raw_variance(self) -> float:
        """Variance of one coordinate.

        Example:
            >>> KNorm(1.0, 3, "diamond").raw_variance, KNorm(1.0, 3, "ball").raw_variance
            (2.0, 4.0)
        """
        return self.scale**2 * SHAPES[self.shape].variance(self.size)

    @property
    def mixture(self) -> tuple[float, float]:
        """Gamma law (shape, scale) of the variance of the normal mixture that approximates each coordinate.

        Example:
            >>> KNorm(2.0, 1, "ball").mixture  # Laplace noise: a normal law whose variance is exponential
            (1.0, 8.0)
        """
        order, unit = SHAPES[self.shape].mixture(self.size)
        return order, unit * self.scale**2

    def add(self, values: Ints, source: VectorSource) -> Ints:
        """Add noise from a source to a vector."""
        return source.k_norm(values, self.scale, self.shape)

    def loss(self, moved: Ints) -> float:
        """Compute the loss between vectors with these differences, nats."""
        return SHAPES[self.shape].norm(moved) / self.scale + float(SHAPES[self.shape].slack) * moved.size


VectorLaw = KNorm | DiscreteGaussian
"""Noise on a vector."""


def vector_law(tag: VectorTag, scale: float, size: int) -> VectorLaw:
    """Make the law of noise on a vector.

    Args:
        tag: of the law.
        scale: in the unit of the vector.
        size: entries.
    """
    return DiscreteGaussian(scale) if tag == "discrete_gaussian" else KNorm(scale, size, tag)


def _list_sizes(vector: npt.NDArray[Any]) -> list[int]:
    """List the absolute values of whole numbers, exactly."""
    return [abs(int(entry)) for entry in vector.ravel().tolist()]


def least_shape(size: int, length: int) -> ShapeTag:
    """Choose the shape whose noise on a vector has the least variance; see above.

    Args:
        size: entries, each of at most 1.
        length: largest sum of their absolute values.

    Returns:
        "cube" or "diamond".

    Example:
        >>> least_shape(117, 21), least_shape(20, 20)
        ('diamond', 'cube')
    """
    return Diamond.tag if 6 * length**2 < (size + 1) * (size + 2) else Cube.tag


@dataclass(frozen=True)
class CurvaturePart:
    """A vector of sums, to each of which a record adds a number from -1 to 1.

    Args:
        size: number of sums.
        length: most sums to which a record adds a number other than 0.
    """

    size: int
    length: int

    @property
    def shape(self) -> ShapeTag:
        """Norm in which it is bounded: the one with the least noise."""
        return least_shape(self.size, self.length)

    @property
    def width(self) -> float:
        """Number proportional to the noise's deviation: the sums, or an equivalent number for Laplace noise."""
        return self.size if self.shape == Cube.tag else math.sqrt(6) * self.length
