"""Unit balls of norms in which noise on a vector of sums is calibrated, and which of them has the least noise.

Which noise is least (`least_shape`). Of d coordinates of at most 1 each, with the absolute sum L and so the squared
length L at most, noise for a budget of 1 has in each coordinate the variance (d + 1)(d + 2) / 3 in a cube, L (d + 1) in
a ball and 2 L^2 in a diamond, which is independent Laplace noise. The ball's is never the least: where it is below the
diamond's, d + 1 < 2 L, and then the cube's is below it. Without groups L = d, and the cube's is the least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Shape = Literal["cube", "ball", "diamond"]
"""Unit ball of the norm in which noise on a vector is calibrated: of the largest entry, the Euclidean norm, or the sum
of the absolute entries."""


def least_shape(size: int, length: int) -> Shape:
    """The shape whose noise on a vector has the least variance; see above.

    Args:
        size: entries, each of at most 1.
        length: most that the sum of their absolute values can be.

    Returns:
        "cube" or "diamond".

    Example:
        >>> least_shape(117, 21), least_shape(20, 20)
        ('diamond', 'cube')
    """
    return "diamond" if 6 * length**2 < (size + 1) * (size + 2) else "cube"


@dataclass(frozen=True)
class CurvaturePart:
    """A vector of sums to each of which a record adds a number from -1 to 1.

    Args:
        size: sums.
        length: most of them that a record adds something else than 0 to.
    """

    size: int
    length: int

    @property
    def shape(self) -> Shape:
        """The norm in which it is bounded: the one whose noise is least."""
        return least_shape(self.size, self.length)

    @property
    def width(self) -> float:
        """What the noise's deviation is proportional to: the sums, or of Laplace noise as many as have as much."""
        return self.size if self.shape == "cube" else math.sqrt(6) * self.length
