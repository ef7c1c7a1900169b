"""How a budget became noise, for the mechanisms over a design, and which payload it describes.

Calibrations are public, and computed before any record is seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InputError
from discreet.model.design import GRID
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import Positive, Whole, kind
from discreet.releases.design_payload import FactoredChoice, GradientTrace, NoisyMoments, NoisyTotal, WeightDraws

__all__ = [
    "BITS",
    "DesignCalibration",
    "FactoredNoise",
    "ObjectiveNoise",
    "Truncation",
    "VectorNoise",
    "counts_records",
    "describes",
]

BITS = 32
"""The random linear term of a perturbed objective is a whole multiple of 2^-32."""


@kind("vector_noise")
@dataclass(frozen=True)
class VectorNoise:
    """Noise on whole vectors of sums, by the norm of the design's shape.

    Args:
        sensitivity: most that one record can move a vector, in that norm and in steps of the sums' grid.
        scale: of the noise on each vector, in the same steps.
        rounds: vectors that are released, one after the other, each with noise of this scale.
        total_scale: of discrete Laplace noise on the number of records; None where it is not measured by itself.
        reported: epsilon of all together, rounded up.

    Raises:
        InputError: a number is not positive and finite.
    """

    sensitivity: Whole
    scale: Positive
    rounds: Whole
    total_scale: Positive | None
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        _require(self.sensitivity > 0 and self.rounds > 0 and self.reported > 0, "a sensitivity, rounds and a report")
        _require(_positive(self.scale) and _positive(self.total_scale), "positive, finite noise scales")

    @property
    def total(self) -> Fraction:
        """Epsilon of all vectors."""
        return self.reported


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

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        parts = (self.regularisation, self.scale, self.polish, self.polish_step, self.total_scale)
        _require(all(map(_positive, parts)), "a positive, finite regularisation and noise scales")
        _require(self.sensitivity > 0 and self.curvature > 0 and self.reported > 0, "positive sensitivity and losses")

    @property
    def total(self) -> Fraction:
        """Epsilon of the release."""
        return self.reported


@kind("truncation")
@dataclass(frozen=True)
class Truncation:
    """Draws of weights from a tempered posterior on a ball.

    Args:
        radius: of the ball.
        variance: of the scaled target around its mean, as it is assumed.
        temper: power of the likelihood.
        draws: joint draws of all weights.
        digits: decimal digits that are released.
        reported: epsilon of all draws, rounded up.

    Raises:
        InputError: no draws or digits, or a number that is not positive and finite.
    """

    radius: Positive
    variance: Positive
    temper: Positive
    draws: Whole
    digits: Whole
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        _require(all(map(_positive, (self.radius, self.variance, self.temper))), "a positive radius, variance, temper")
        _require(self.draws > 0 and self.digits > 0 and self.reported > 0, "draws, digits and a report")

    @property
    def total(self) -> Fraction:
        """Epsilon of all draws."""
        return self.reported


@kind("factored_noise")
@dataclass(frozen=True)
class FactoredNoise:
    """A choice among candidates, `P(z) ~ exp(rate sum_i f(z, x_i))` with f between 0 and 1.

    Args:
        rate: nats for one record at most.
        total_scale: of discrete Laplace noise on the number of records; None where it is public.
        reported: epsilon of choice and number together, rounded up.

    Raises:
        InputError: a number is not positive and finite.
    """

    rate: Positive
    total_scale: Positive | None
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        _require(_positive(self.rate) and _positive(self.total_scale), "a positive, finite rate and noise scale")
        _require(self.reported > 0, "a report greater than 0")

    @property
    def total(self) -> Fraction:
        """Epsilon of the release."""
        return self.reported


DesignCalibration = VectorNoise | ObjectiveNoise | Truncation | FactoredNoise
"""The closed union of calibrations over a design."""


def describes(calibration: object, payload: object) -> bool:
    """Whether a payload over a design is what a calibration describes.

    Args:
        calibration: of any mechanism.
        payload: of any kind.

    Returns:
        Whether their kinds belong together and all numbers that both state are equal.
    """
    match calibration, payload:
        case VectorNoise(), NoisyMoments():
            return calibration.scale == payload.scale and (calibration.rounds, calibration.total_scale) == (1, None)
        case VectorNoise(), GradientTrace():
            noise = (calibration.rounds, calibration.scale / GRID)
            return noise == (len(payload.points), payload.scale) and _same_total(calibration.total_scale, payload.total)
        case ObjectiveNoise(), GradientTrace():
            noise = (1, calibration.scale * 2.0**-BITS)
            return noise == (len(payload.points), payload.scale) and _same_total(calibration.total_scale, payload.total)
        case Truncation(), WeightDraws():
            settings = (calibration.variance, calibration.radius, calibration.temper)
            released = (payload.variance, payload.radius, payload.temper)
            return settings == released and calibration.draws == len(payload.weights)
        case FactoredNoise(), FactoredChoice():
            return calibration.rate == payload.rate and _same_total(calibration.total_scale, payload.total)
        case _:
            return False


def counts_records(payload: object, relation: Relation) -> bool:
    """Whether a payload over a design measures the number of records where it is private, and only there.

    Args:
        payload: of any kind; those that never measure it, and those over a network, pass.
        relation: of the guarantee.

    Returns:
        Whether a reader knows the number of records once: as it is, or with noise.
    """
    match payload:
        case NoisyMoments():
            return payload.noisy_total == (relation is Relation.ADD_REMOVE)
        case GradientTrace() | FactoredChoice():
            return (payload.total is not None) == (relation is Relation.ADD_REMOVE)
        case _:
            return True


def _same_total(scale: float | None, total: NoisyTotal | None) -> bool:
    """Whether a noisy number of records is there as a calibration describes it."""
    return scale == (None if total is None else total.scale)


def _positive(value: float | None) -> bool:
    """Whether a number, where there is one, is positive and finite."""
    return value is None or 0 < value < math.inf


def _require(holds: bool, what: str) -> None:
    """Refuse what is no calibration."""
    if not holds:
        raise InputError(f"a calibration needs {what}")
