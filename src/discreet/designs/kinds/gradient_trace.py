"""Noisy gradients of a regression's log-likelihood, from steps or from a perturbed objective."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet.designs.design import GRID_STEPS, Design
from discreet.designs.kinds.noisy_sums import NoisyTotal, VectorNoise, all_drawn, total_line, total_scale
from discreet.designs.response import response_of
from discreet.errors import require
from discreet.noise.noise_laws import DiscreteGaussian, ShapeTag
from discreet.noise.shapes import VectorLaw, vector_law
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import Flag, Integers, Matrix, Numbers, Positive, Whole, all_positive, kind
from discreet.releases.measurement import Released, Reported, spread
from discreet.util.arrays import Array, freeze

OBJECTIVE_BITS = 32
"""Binary digits of the random linear term of a perturbed objective, a multiple of 2^-32."""


@kind(None)
@dataclass(frozen=True)
class CurvatureNoise:
    """Noise on the three vectors of a curvature, by the norms of the design's parts, or Gaussian as an objective's.

    Args:
        sensitivity: most that one record can move any of their sums, in steps of the grid.
        scales: of the noise on the weight, on means and squares, and on products of different features, in the same
            steps; None for products where there is one feature.
        reported: epsilon of all together, rounded up; of Gaussian noise their zero-concentrated loss rho.

    Raises:
        InputError: a number is not positive and finite.
    """

    sensitivity: Whole
    scales: tuple[Positive | None, ...]
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        freeze(self, scales=tuple(self.scales))
        require(self.sensitivity > 0 and self.reported > 0, "a curvature needs a positive sensitivity and loss")
        require_scales(self.scales)


@kind("objective_noise")
@dataclass(frozen=True)
class ObjectiveNoise(Reported):
    """A random linear term in a regularised objective, and a little noise on its minimiser.

    Args:
        regularisation: strong convexity that is added to the objective; it does not depend on the records.
        sensitivity: most that one record can move the gradient, in the norm of the design's shape, in steps of
            `2^-BITS`, with what the lattice of the linear term costs; with Gaussian noise in the Euclidean norm,
            without that.
        scale: of the linear term, in the same steps.
        curvature: epsilon that the change of the objective's curvature costs.
        polish: scale of cube noise on the weights, in its own steps; it hides what the minimiser is off.
        polish_step: one step of the released weights, unless there are many more records than expected.
        total_scale: of discrete Laplace noise on the number of records; None where it is public.
        reported: epsilon of all together, rounded up.
        measured: noise on the curvature at the released weights; None where that is not released.
        rho: zero-concentrated loss of discrete Gaussian noise on the linear term and the curvature together; None for
            K-norm noise.

    Raises:
        InputError: a number is not positive and finite.
    """

    domain: ClassVar[str] = "design"
    regularisation: Positive
    sensitivity: Whole
    scale: Positive
    curvature: Fraction
    polish: Positive
    polish_step: Positive
    total_scale: Positive | None
    reported: Fraction
    measured: CurvatureNoise | None = None
    rho: Fraction | None = None

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        require(self.rho is None or self.rho > 0, "a zero-concentrated loss is positive")
        settings = (self.regularisation, self.scale, self.polish, self.polish_step, self.total_scale)
        require(all_positive(*settings), "a calibration needs a positive, finite regularisation and noise scales")
        require(
            self.sensitivity > 0 and self.curvature > 0 and self.reported > 0,
            "a calibration needs positive sensitivity and losses",
        )
        spent = self.curvature + (Fraction(0) if self.measured is None or self.rho else self.measured.reported)
        require(spent < self.reported, "a calibration's parts cost less than the whole")
        shared = self.rho is None or self.measured is None or self.measured.reported < self.rho
        require(shared, "the curvature's part of a zero-concentrated loss is less than the whole")


@kind(None)
@dataclass(frozen=True, eq=False)
class NoisyCurvature:
    """Sums of `q v_i v_j` over the records, with noise; q is a slope of the means at the released weights.

    Args:
        values: int64, in steps of the grid, in the order of `Gradients.curvature` and the sizes of `Design.curvature`,
            by whose shapes the noise is.
        scales: of the noise on each of the three, in the same steps; None for products where there is one feature.

    Raises:
        InputError: values that are not integers, or scales that noise on whole numbers of 64 bits cannot have.
    """

    values: Integers
    scales: tuple[Positive | None, ...]

    def __post_init__(self) -> None:
        """Freeze, then refuse values that inference cannot read."""
        freeze(self, values=np.asarray(self.values), scales=tuple(self.scales))
        require(self.values.dtype == np.int64 and self.values.ndim == 1, "a curvature is whole numbers of 64 bits")
        require_scales(self.scales)

    def parts(self, design: Design) -> tuple[Array, Array, Array]:
        """Split the curvature into its three vectors, a row for each pair of outputs; shape (pairs, sums).

        Raises:
            InputError: it has not as many sums as this design has.
        """
        require(design.measurable, "a curvature of so many classes cannot be read")
        pairs = len(response_of(design).pairs)
        _, few, many = (vector.size // pairs for vector in design.curvature)
        require(self.values.size == pairs * (1 + few + many), "this curvature is of another design")
        require((self.scales[2] is None) == (many == 0), "a curvature's products need a noise scale")
        weight, middle, last = np.split(self.values, [pairs, pairs * (1 + few)])
        return weight[:, None], middle.reshape(pairs, few), last.reshape(pairs, many)

    def per_unit(self, steps: int) -> NoisyCurvature:
        """Convert the curvature to units that count so many records each."""
        scales = tuple(scale and scale / steps for scale in self.scales)
        return NoisyCurvature(np.rint(self.values / steps).astype(np.int64), scales)


def require_scales(scales: tuple[float | None, ...]) -> None:
    """Refuse invalid scales of a curvature."""
    valid = len(scales) == 3 and None not in scales[:2] and all_drawn(*scales)
    require(valid, "a curvature needs three noise scales of whole numbers, but for products where there are none")


@kind("gradient_trace", order=("scale", "normal", "total", "weights", "points", "gradients", "curvature"))
@dataclass(frozen=True, eq=False)
class GradientTrace(Released):
    """Noisy gradients of a log-likelihood at public weights, and the weights they lead to.

    `gradients[t] = sum_i (y_i - mean(points[t] . v_i)) v_i + b_t`, the b_t independent with a density proportional to
    `exp(-|b| / scale)` in the norm of the design's shape, or normal.

    Args:
        design: whose target has states, or counts.
        points: float64, shape `(steps, design.weights)`.
        gradients: float64, same shape.
        scale: of the noise; where it is normal, its deviation.
        weights: float64, shape `(design.weights,)`, of one output after the other; the released regression.
        total: noisy number of records; None where it is public.
        curvature: at `weights`; None where it was not measured.
        normal: True where the noise on gradients and curvature is discrete Gaussian; None where it is K-norm noise.

    Raises:
        InputError: a target that is a number or none, numbers that are not finite, other shapes, or a scale that is not
            positive and finite.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> design = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("ill", ("no", "yes")))
        >>> point = np.zeros((1, 2))
        >>> dc.designs.GradientTrace(design, point, point + 3.5, scale=2.0, weights=point[0], total=None).over.weights
        2
    """

    domain: ClassVar[str] = "design"
    design: Design
    points: Matrix
    gradients: Matrix
    scale: Positive
    weights: Numbers
    total: NoisyTotal | None
    curvature: NoisyCurvature | None = None
    normal: Flag | None = None

    def __post_init__(self) -> None:
        """Freeze, then refuse values that inference cannot read."""
        for name in ("points", "gradients", "weights"):
            freeze(self, **{name: np.asarray(getattr(self, name))})
        size = self.design.weights
        response_of(self.design)
        require(self.normal in (True, None), "the noise of gradients is normal, or nothing is said of it")
        require(
            self.points.ndim == 2 and len(self.points) > 0 and self.points.shape == self.gradients.shape,
            "a trace needs one gradient for each point, at least one",
        )
        require(
            self.points.shape[1] == size and self.weights.shape == (size,), f"weights of this design are {size} numbers"
        )
        finite = all(np.all(np.isfinite(array)) for array in (self.points, self.gradients, self.weights))
        require(finite and all_positive(self.scale), "a trace needs finite numbers and a positive noise scale")
        if self.curvature is not None:
            self.curvature.parts(self.design)

    @property
    def variance(self) -> float:
        """Variance of the noise on one number of a gradient."""
        return self._find_law(self.design.shape, self.scale, self.design.weights).raw_variance

    def _find_law(self, shape: ShapeTag, scale: float, size: int) -> VectorLaw:
        """Find the law of the noise on a vector: K-norm noise of a shape, or Gaussian."""
        return vector_law(DiscreteGaussian.tag if self.normal else shape, scale, size)

    def curvature_variances(self, unit: float) -> tuple[float, ...]:
        """Variance of the noise on one sum of each vector of the curvature.

        Args:
            unit: of the sums.

        Returns:
            A weight, means and squares, products; 0 where there are none.
        """
        assert self.curvature is not None
        return tuple(
            0.0 if scale is None else self._find_law(vector.shape, scale / GRID_STEPS * unit, vector.size).raw_variance
            for vector, scale in zip(self.design.curvature, self.curvature.scales, strict=True)
        )

    def per_unit(self, steps: int) -> GradientTrace:
        """See `Released`."""
        total = self.total and self.total.per_unit(steps)
        curvature = self.curvature and self.curvature.per_unit(steps)
        return replace(
            self, gradients=self.gradients / steps, scale=self.scale / steps, total=total, curvature=curvature
        )

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`."""
        names = self.design.weight_names
        return [{"name": name, "weight": float(weight)} for name, weight in zip(names, self.weights, strict=True)]

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        law = "Gaussian" if self.normal else self.design.shape
        noise = f"{law} noise of scale {self.scale:.4g} records"
        if isinstance(calibration, ObjectiveNoise):
            penalty = f"{calibration.regularisation / 2:.4g} |w|^2"
            line = f"the minimum of the log loss, {penalty} and a random slope: {noise}"
        else:
            line = f"{len(self.points)} gradients, with {noise} on each"
        if self.curvature is not None:
            scales = spread(scale / GRID_STEPS for scale in self.curvature.scales if scale)
            shapes = " and ".join(sorted({vector.shape for vector in self.design.curvature if vector.size}))
            line += f"; the curvature there, with {'Gaussian' if self.normal else shapes} noise of scale {scales}"
        return line + total_line(self.total)

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        match calibration:
            case VectorNoise():
                noise: tuple[int, float, bool | None] = (calibration.rounds, calibration.scale / GRID_STEPS, None)
            case ObjectiveNoise():
                noise = (1, calibration.scale * 2.0**-OBJECTIVE_BITS, True if calibration.rho else None)
                # At the minimum the gradient is that of the regulariser, bit-equal to this product.
                pulled = calibration.regularisation * self.weights
                if not (np.array_equal(self.points, self.weights[None]) and np.array_equal(self.gradients[0], pulled)):
                    return False
            case _:
                return False
        measured = getattr(calibration, "measured", None)
        stated = None if measured is None else measured.scales
        released = None if self.curvature is None else self.curvature.scales
        same_noise = noise == (len(self.points), self.scale, self.normal) and stated == released
        return same_noise and calibration.total_scale == total_scale(self.total)

    def counts_records(self, relation: Relation) -> bool:
        """See `Released`."""
        return (self.total is not None) != relation.public_number
