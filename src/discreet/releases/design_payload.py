"""What a release over a design can carry, each with all that inference needs to know of its noise.

Numbers are in the design's coordinates: features, constant and a numeric target between -1 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.design import GRID, Design
from discreet.releases.codec import (
    Count,
    Finite,
    Flag,
    Integer,
    Integers,
    Matrix,
    Numbers,
    Positive,
    kind,
)

__all__ = [
    "DesignPayload",
    "FactorKind",
    "FactoredChoice",
    "GradientTrace",
    "NoisyMoments",
    "NoisyTotal",
    "WeightDraws",
]

Floats = npt.NDArray[np.float64]
FactorKind = Literal["direction", "categorical"]
"""Likelihood behind a factored exponential mechanism."""
PARAMETERS: Mapping[str, set[str]] = {"direction": {"noise_variance", "tau"}, "categorical": {"floor"}}
"""Names of each likelihood's parameters."""


@kind(None)
@dataclass(frozen=True)
class NoisyTotal:
    """A private number of records plus discrete Laplace noise, `P(k) ~ exp(-|k| / scale)`.

    Args:
        value: may be negative.
        scale: unit: records.

    Raises:
        InputError: a scale that is not positive and finite.
    """

    value: Integer
    scale: Positive

    def __post_init__(self) -> None:
        """Refuse what is no noisy number."""
        _require(0 < self.scale < math.inf, "a noisy number of records needs a positive, finite noise scale")


@kind("noisy_moments", order=("scale", "noisy_total", "values"))
@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Sums of products of the design's coordinates and target plus cube noise, `P(k) ~ exp(-max |k_i| / scale)`.

    Args:
        design: with a numeric target, or none.
        values: int64, in steps of `1 / GRID^2`; one for each pair in `design.moments`: sums of `v_i v_j`, of
            `2 v_i^2 - 1` for squares; before them, with `noisy_total`, the number of records in the same unit.
        scale: of the noise, in the same steps.
        noisy_total: whether the number of records is private and stands first.

    Raises:
        InputError: values that are not integers, or not one for each sum, a scale that is not positive and finite, or a
            target of two classes.
    """

    design: Design
    values: Integers
    scale: Positive
    noisy_total: Flag

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        object.__setattr__(self, "values", _frozen(self.values))
        wanted = (self.design.moment_count + self.noisy_total,)
        _require(
            self.values.dtype == np.int64 and self.values.shape == wanted,
            f"noisy moments of this design are {wanted[0]} whole numbers of 64 bits",
        )
        _require(0 < self.scale < math.inf, "noisy moments need a positive, finite noise scale")
        target = self.design.target
        _require(target is None or target.numeric, "noisy moments need a design with a numeric target, or none")

    @property
    def over(self) -> Design:
        """The design."""
        return self.design

    @property
    def sums(self) -> Floats:
        """The values as sums of products of coordinates."""
        return np.asarray(self.values / GRID**2)

    @property
    def sums_scale(self) -> float:
        """Scale of the noise in `sums`."""
        return self.scale / GRID**2


@kind("gradient_trace", order=("scale", "total", "weights", "points", "gradients"))
@dataclass(frozen=True, eq=False)
class GradientTrace:
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

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        for name in ("points", "gradients", "weights"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))
        target, size = self.design.target, self.design.size
        _require(target is not None and not target.numeric, "gradients need a design with a target of two classes")
        _require(
            self.points.ndim == 2 and len(self.points) > 0 and self.points.shape == self.gradients.shape,
            "a trace needs one gradient for each point, at least one",
        )
        _require(
            self.points.shape[1] == size and self.weights.shape == (size,), f"weights of this design are {size} numbers"
        )
        finite = all(np.all(np.isfinite(part)) for part in (self.points, self.gradients, self.weights))
        _require(finite and 0 < self.scale < math.inf, "a trace needs finite numbers and a positive noise scale")

    @property
    def over(self) -> Design:
        """The design."""
        return self.design


@kind("weight_draws", order=("variance", "radius", "temper", "weights"))
@dataclass(frozen=True, eq=False)
class WeightDraws:
    """Draws of a linear regression's weights from a tempered posterior on a ball.

    Args:
        design: with a numeric target.
        weights: float64, shape `(draws, size)`, rounded to a public grid.
        variance: of the scaled target around its mean, as the sampler assumed it.
        radius: of the ball of weights.
        temper: power of the likelihood.

    Raises:
        InputError: no draws, numbers that are not finite, or settings that are not positive.
    """

    design: Design
    weights: Matrix
    variance: Positive
    radius: Positive
    temper: Positive

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        object.__setattr__(self, "weights", _frozen(self.weights))
        target = self.design.target
        _require(target is not None and target.numeric, "draws of weights need a design with a numeric target")
        _require(
            self.weights.ndim == 2 and len(self.weights) > 0 and self.weights.shape[1] == self.design.size,
            f"draws of weights of this design are rows of {self.design.size} numbers, at least one",
        )
        settings = (self.variance, self.radius, self.temper)
        _require(
            bool(np.all(np.isfinite(self.weights))) and all(0 < part < math.inf for part in settings),
            "draws of weights need finite numbers and a positive variance, radius and temper",
        )

    @property
    def over(self) -> Design:
        """The design."""
        return self.design


@kind(
    "factored_choice",
    order=("kind", "parameters", "rate", "total", "index", "candidates"),
    renamed={"kind": "factor"},
)
@dataclass(frozen=True, eq=False)
class FactoredChoice:
    """One of finitely many public candidates, `P(z) ~ exp(rate sum_i f(z, x_i))` with f between 0 and 1.

    Args:
        design: without a target.
        kind: which likelihood f is made of; see `theory/factors.py`.
        candidates: float64, shape `(candidates, numbers)`.
        parameters: of the likelihood.
        index: of the chosen candidate.
        rate: nats for one record at most.
        total: noisy number of records; None where it is public.

    Raises:
        InputError: fewer than two candidates, an index that names none, numbers that are not finite, a design that has
            a target or intercept or another number of features, or other parameters than the likelihood's.
    """

    design: Design
    kind: FactorKind
    candidates: Matrix
    parameters: Mapping[str, Finite]
    index: Count
    rate: Positive
    total: NoisyTotal | None

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        object.__setattr__(self, "candidates", _frozen(self.candidates))
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        _require(
            self.candidates.ndim == 2 and len(self.candidates) >= 2 and bool(np.all(np.isfinite(self.candidates))),
            "a choice needs at least two candidates, each a row of finite numbers",
        )
        _require(0 <= self.index < len(self.candidates), "the chosen candidate is not in the list")
        _require(self.kind in PARAMETERS, "a factor is of kind 'direction' or 'categorical'")
        wanted = PARAMETERS[self.kind]
        _require(set(self.parameters) == wanted, f"a {self.kind} factor has the parameters {', '.join(sorted(wanted))}")
        size = self.candidates.shape[1] if self.kind == "direction" else 1
        _require(
            self.design.target is None and not self.design.intercept and len(self.design.features) == size,
            f"this choice needs a design of {size} features, without target and intercept",
        )
        _require(
            0 < self.rate < math.inf and all(math.isfinite(value) for value in self.parameters.values()),
            "a choice needs a positive rate and finite parameters",
        )

    @property
    def over(self) -> Design:
        """The design."""
        return self.design


DesignPayload = NoisyMoments | GradientTrace | WeightDraws | FactoredChoice
"""The closed union of what a release over a design can carry."""


def _frozen(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """A read-only copy."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def _require(holds: bool, what: str) -> None:
    """Refuse what is no payload."""
    if not holds:
        raise InputError(what)
