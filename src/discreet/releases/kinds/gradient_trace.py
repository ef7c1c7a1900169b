"""Noisy gradients of a logistic log-likelihood, from steps or from a perturbed objective."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from discreet.errors import require
from discreet.model.arrays import freeze
from discreet.model.design import GRID, Design
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import Integers, Matrix, Numbers, Positive, Whole, all_positive, kind
from discreet.releases.kinds.noisy_sums import NoisyTotal, VectorNoise, total_line, total_scale
from discreet.releases.measurement import Released, spread

__all__ = ["BITS", "CurvatureNoise", "GradientTrace", "NoisyCurvature", "ObjectiveNoise"]

BITS = 32
"""The random linear term of a perturbed objective is a whole multiple of 2^-32."""


@kind(None)
@dataclass(frozen=True)
class CurvatureNoise:
    """Cube noise on the two vectors of a curvature.

    Args:
        sensitivity: most that one record can move any of their sums, in steps of the grid.
        few_scale: of the noise on weights, means and squares, in the same steps.
        many_scale: of the noise on products of different features; None where there is one feature.
        reported: epsilon of both, rounded up.

    Raises:
        InputError: a number is not positive and finite.
    """

    sensitivity: Whole
    few_scale: Positive
    many_scale: Positive | None
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        require(all_positive(self.few_scale, self.many_scale), "a curvature needs positive, finite noise scales")
        require(self.sensitivity > 0 and self.reported > 0, "a curvature needs a positive sensitivity and loss")


@kind("objective_noise")
@dataclass(frozen=True)
class ObjectiveNoise:
    """A random linear term in a regularised objective, and a little noise on its minimiser.

    Args:
        regularisation: strong convexity that is added to the objective; it does not depend on the records.
        sensitivity: most that one record can move the gradient, in the norm of the design's shape, in steps of
            `2^-BITS`, with what the lattice of the linear term costs.
        scale: of the linear term, in the same steps.
        curvature: epsilon that the change of the objective's curvature costs.
        polish: scale of cube noise on the weights, in its own steps; it hides what the minimiser is off.
        polish_step: one step of the released weights.
        total_scale: of discrete Laplace noise on the number of records; None where it is public.
        reported: epsilon of all together, rounded up.
        measured: noise on the curvature at the released weights; None where that is not released.

    Raises:
        InputError: a number is not positive and finite.
    """

    regularisation: Positive
    sensitivity: Whole
    scale: Positive
    curvature: Fraction
    polish: Positive
    polish_step: Positive
    total_scale: Positive | None
    reported: Fraction
    measured: CurvatureNoise | None = None

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        parts = (self.regularisation, self.scale, self.polish, self.polish_step, self.total_scale)
        require(all_positive(*parts), "a calibration needs a positive, finite regularisation and noise scales")
        require(
            self.sensitivity > 0 and self.curvature > 0 and self.reported > 0,
            "a calibration needs positive sensitivity and losses",
        )

    @property
    def total(self) -> Fraction:
        """Epsilon of the release."""
        return self.reported


@kind(None)
@dataclass(frozen=True, eq=False)
class NoisyCurvature:
    """Sums of `q v_i v_j` over the records, `q = 4 sigmoid (1 - sigmoid)` at the released weights, with cube noise.

    Args:
        few: int64, in steps of the grid: of q, with an intercept of q u_i, and of `q (2 u_i^2 - 1)`, u the features.
        many: int64, in the same steps: of q u_i u_j for different features, upper triangle row by row.
        few_scale: of the noise on `few`.
        many_scale: of the noise on `many`; None where it is empty.

    Raises:
        InputError: values that are not integers, or a scale that is not positive and finite.
    """

    few: Integers
    many: Integers
    few_scale: Positive
    many_scale: Positive | None

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        freeze(self, few=np.asarray(self.few), many=np.asarray(self.many))
        for part in (self.few, self.many):
            require(part.dtype == np.int64 and part.ndim == 1, "a curvature is whole numbers of 64 bits")
        require(all_positive(self.few_scale, self.many_scale), "a curvature needs positive, finite noise scales")
        require((self.many_scale is None) == (self.many.size == 0), "a curvature's products need a noise scale")

    def fits(self, design: Design) -> bool:
        """Whether it has as many sums as the design has."""
        width = len(design.features)
        return (self.few.size, self.many.size) == (1 + width * (1 + design.intercept), width * (width - 1) // 2)

    def per_unit(self, steps: int) -> NoisyCurvature:
        """A curvature of units that count so many records each."""
        few, many = (np.rint(part / steps).astype(np.int64) for part in (self.few, self.many))
        many_scale = None if self.many_scale is None else self.many_scale / steps
        return NoisyCurvature(few, many, self.few_scale / steps, many_scale)


@kind("gradient_trace", order=("scale", "total", "weights", "points", "gradients", "curvature"))
@dataclass(frozen=True, eq=False)
class GradientTrace(Released):
    """Noisy gradients of a logistic log-likelihood at public weights, and the weights they lead to.

    `gradients[t] = sum_i (y_i - sigmoid(points[t] . v_i)) v_i + b_t`, the b_t independent with a density proportional
    to `exp(-|b| / scale)` in the norm of the design's shape.

    Args:
        design: whose target has two states.
        points: float64, shape `(steps, size)`.
        gradients: float64, same shape.
        scale: of the noise.
        weights: float64, shape `(size,)`; the released classifier.
        total: noisy number of records; None where it is public.
        curvature: at `weights`; None where it was not measured.

    Raises:
        InputError: a target that has not two states, numbers that are not finite, other shapes, or a scale that is not
            positive and finite.
    """

    design: Design
    points: Matrix
    gradients: Matrix
    scale: Positive
    weights: Numbers
    total: NoisyTotal | None
    curvature: NoisyCurvature | None = None

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        for name in ("points", "gradients", "weights"):
            freeze(self, **{name: np.asarray(getattr(self, name))})
        target, size = self.design.target, self.design.size
        require(target is not None and not target.numeric, "gradients need a design with a target of two classes")
        require(
            self.points.ndim == 2 and len(self.points) > 0 and self.points.shape == self.gradients.shape,
            "a trace needs one gradient for each point, at least one",
        )
        require(
            self.points.shape[1] == size and self.weights.shape == (size,), f"weights of this design are {size} numbers"
        )
        finite = all(np.all(np.isfinite(part)) for part in (self.points, self.gradients, self.weights))
        require(finite and all_positive(self.scale), "a trace needs finite numbers and a positive noise scale")
        require(self.curvature is None or self.curvature.fits(self.design), "this curvature is of another design")

    @property
    def over(self) -> Design:
        """The design."""
        return self.design

    def per_unit(self, steps: int) -> GradientTrace:
        """See `Released`."""
        total = self.total and self.total.per_unit(steps)
        curvature = self.curvature and self.curvature.per_unit(steps)
        return replace(
            self, gradients=self.gradients / steps, scale=self.scale / steps, total=total, curvature=curvature
        )

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        noise = f"{self.design.shape} noise of scale {self.scale:.4g} records"
        if isinstance(calibration, ObjectiveNoise):
            penalty = f"{calibration.regularisation / 2:.4g} |w|^2"
            line = f"the minimum of the log loss, {penalty} and a random slope: {noise}"
        else:
            line = f"{len(self.points)} gradients, with {noise} on each"
        if self.curvature is not None:
            scales = [self.curvature.few_scale, *filter(None, [self.curvature.many_scale])]
            line += f"; the curvature there, with cube noise of scale {spread(part / GRID for part in scales)}"
        return line + total_line(self.total)

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        match calibration:
            case VectorNoise():
                noise = (calibration.rounds, calibration.scale / GRID)
            case ObjectiveNoise():
                noise = (1, calibration.scale * 2.0**-BITS)
            case _:
                return False
        measured = getattr(calibration, "measured", None)
        stated = None if measured is None else (measured.few_scale, measured.many_scale)
        found = None if self.curvature is None else (self.curvature.few_scale, self.curvature.many_scale)
        same_noise = noise == (len(self.points), self.scale) and stated == found
        return same_noise and calibration.total_scale == total_scale(self.total)

    def counts_records(self, relation: Relation) -> bool:
        """See `Released`."""
        return (self.total is not None) != relation.public_number
