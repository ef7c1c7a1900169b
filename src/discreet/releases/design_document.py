"""The parts of a release document over a design: pydantic models, and both ways to and fro."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import pydantic

from discreet.errors import InputError
from discreet.model.design import Design, Normal
from discreet.model.limits import check_states
from discreet.model.schema import Variable
from discreet.privacy.guarantee import as_text
from discreet.releases.design_calibration import (
    DesignCalibration,
    FactoredNoise,
    ObjectiveNoise,
    Truncation,
    VectorNoise,
)
from discreet.releases.design_payload import (
    DesignPayload,
    FactoredChoice,
    FactorKind,
    GradientTrace,
    NoisyMoments,
    NoisyTotal,
    WeightDraws,
)
from discreet.releases.document import Budget, Count, Flag, Integer, Items, Part, Positive, Whole, budget

__all__ = [
    "DesignCalibrationPart",
    "DesignPart",
    "DesignPayloadPart",
    "NormalPart",
    "read_design",
    "read_design_calibration",
    "read_design_payload",
    "read_normal",
    "write_design",
    "write_design_calibration",
    "write_design_payload",
    "write_normal",
]

Finite = Annotated[float, pydantic.Field(allow_inf_nan=False, strict=True)]


class _Column(Part):
    name: str
    states: Items[str] | None = None
    bounds: tuple[Finite, Finite] | None = None


class DesignPart(Part):
    """A design: features with their bounds, the target, and what is known of a record's length."""

    features: Items[_Column]
    target: _Column | None = None
    norm: Positive | None = None
    intercept: Flag


class NormalPart(Part):
    """A normal prior on the weights."""

    deviation: Positive


def write_design(design: Design) -> DesignPart:
    """Design to document."""
    return DesignPart(
        features=[_column(variable) for variable in design.features],
        target=None if design.target is None else _column(design.target),
        norm=design.norm,
        intercept=design.intercept,
    )


def read_design(part: DesignPart) -> Design:
    """Document to design."""
    check_states(column.states or () for column in part.features)
    target = None if part.target is None else _variable(part.target)
    return Design(tuple(map(_variable, part.features)), target, part.norm, part.intercept)


def write_normal(prior: Normal) -> NormalPart:
    """Prior to document."""
    return NormalPart(deviation=prior.deviation)


def read_normal(part: NormalPart, design: Design) -> Normal:
    """Document to prior."""
    return Normal(design, part.deviation)


def _column(variable: Variable) -> _Column:
    """Variable to document."""
    return _Column(name=variable.name, states=list(variable.states) or None, bounds=variable.bounds)


def _variable(part: _Column) -> Variable:
    """Document to variable."""
    return Variable(part.name, tuple(part.states or ()), bounds=part.bounds)


# ---------------------------------------------------------------------------------------------------------- calibration


class _VectorNoise(Part):
    kind: Literal["vector_noise"]
    sensitivity: Whole
    scale: Positive
    rounds: Whole
    total_scale: Positive | None = None
    reported: Budget


class _ObjectiveNoise(Part):
    kind: Literal["objective_noise"]
    regularisation: Positive
    sensitivity: Whole
    scale: Positive
    curvature: Budget
    polish: Positive
    polish_step: Positive
    total_scale: Positive | None = None
    reported: Budget


class _Truncation(Part):
    kind: Literal["truncation"]
    radius: Positive
    variance: Positive
    temper: Positive
    draws: Whole
    digits: Whole
    reported: Budget


class _FactoredNoise(Part):
    kind: Literal["factored_noise"]
    rate: Positive
    total_scale: Positive | None = None
    reported: Budget


DesignCalibrationPart = Annotated[
    _VectorNoise | _ObjectiveNoise | _Truncation | _FactoredNoise, pydantic.Field(discriminator="kind")
]


def write_design_calibration(calibration: DesignCalibration) -> DesignCalibrationPart:
    """Calibration to document."""
    match calibration:
        case VectorNoise():
            return _VectorNoise(
                kind="vector_noise",
                sensitivity=calibration.sensitivity,
                scale=calibration.scale,
                rounds=calibration.rounds,
                total_scale=calibration.total_scale,
                reported=as_text(calibration.reported),
            )
        case ObjectiveNoise():
            return _ObjectiveNoise(
                kind="objective_noise",
                regularisation=calibration.regularisation,
                sensitivity=calibration.sensitivity,
                scale=calibration.scale,
                curvature=as_text(calibration.curvature),
                polish=calibration.polish,
                polish_step=calibration.polish_step,
                total_scale=calibration.total_scale,
                reported=as_text(calibration.reported),
            )
        case Truncation():
            return _Truncation(
                kind="truncation",
                radius=calibration.radius,
                variance=calibration.variance,
                temper=calibration.temper,
                draws=calibration.draws,
                digits=calibration.digits,
                reported=as_text(calibration.reported),
            )
        case FactoredNoise():
            return _FactoredNoise(
                kind="factored_noise",
                rate=calibration.rate,
                total_scale=calibration.total_scale,
                reported=as_text(calibration.reported),
            )


def read_design_calibration(part: DesignCalibrationPart) -> DesignCalibration:
    """Document to calibration."""
    match part:
        case _VectorNoise():
            return VectorNoise(part.sensitivity, part.scale, part.rounds, part.total_scale, budget(part.reported))
        case _ObjectiveNoise():
            return ObjectiveNoise(
                regularisation=part.regularisation,
                sensitivity=part.sensitivity,
                scale=part.scale,
                curvature=budget(part.curvature),
                polish=part.polish,
                polish_step=part.polish_step,
                total_scale=part.total_scale,
                reported=budget(part.reported),
            )
        case _Truncation():
            return Truncation(part.radius, part.variance, part.temper, part.draws, part.digits, budget(part.reported))
        case _FactoredNoise():
            return FactoredNoise(part.rate, part.total_scale, budget(part.reported))


# -------------------------------------------------------------------------------------------------------------- payload


class _NoisyTotal(Part):
    value: Integer
    scale: Positive


class _NoisyMoments(Part):
    kind: Literal["noisy_moments"]
    scale: Positive
    noisy_total: Flag
    values: Items[Integer]


class _GradientTrace(Part):
    kind: Literal["gradient_trace"]
    scale: Positive
    total: _NoisyTotal | None = None
    weights: Items[Finite]
    points: Items[Items[Finite]]
    gradients: Items[Items[Finite]]


class _WeightDraws(Part):
    kind: Literal["weight_draws"]
    variance: Positive
    radius: Positive
    temper: Positive
    weights: Items[Items[Finite]]


class _FactoredChoice(Part):
    kind: Literal["factored_choice"]
    factor: FactorKind
    parameters: dict[str, Finite]
    rate: Positive
    total: _NoisyTotal | None = None
    index: Count
    candidates: Items[Items[Finite]]


DesignPayloadPart = Annotated[
    _NoisyMoments | _GradientTrace | _WeightDraws | _FactoredChoice, pydantic.Field(discriminator="kind")
]


def write_design_payload(payload: DesignPayload) -> DesignPayloadPart:
    """Payload to document."""
    match payload:
        case NoisyMoments():
            return _NoisyMoments(
                kind="noisy_moments",
                scale=payload.scale,
                noisy_total=payload.noisy_total,
                values=payload.values.tolist(),
            )
        case GradientTrace():
            return _GradientTrace(
                kind="gradient_trace",
                scale=payload.scale,
                total=_write_total(payload.total),
                weights=payload.weights.tolist(),
                points=payload.points.tolist(),
                gradients=payload.gradients.tolist(),
            )
        case WeightDraws():
            return _WeightDraws(
                kind="weight_draws",
                variance=payload.variance,
                radius=payload.radius,
                temper=payload.temper,
                weights=payload.weights.tolist(),
            )
        case FactoredChoice():
            return _FactoredChoice(
                kind="factored_choice",
                factor=payload.kind,
                parameters=dict(payload.parameters),
                rate=payload.rate,
                total=_write_total(payload.total),
                index=payload.index,
                candidates=payload.candidates.tolist(),
            )


def read_design_payload(part: DesignPayloadPart, design: Design) -> DesignPayload:
    """Document to payload."""
    match part:
        case _NoisyMoments():
            return NoisyMoments(design, np.array(part.values, np.int64), part.scale, part.noisy_total)
        case _GradientTrace():
            return GradientTrace(
                design,
                _matrix(part.points, design.size),
                _matrix(part.gradients, design.size),
                part.scale,
                np.array(part.weights, np.float64),
                _read_total(part.total),
            )
        case _WeightDraws():
            return WeightDraws(design, _matrix(part.weights, design.size), part.variance, part.radius, part.temper)
        case _FactoredChoice():
            return FactoredChoice(
                design=design,
                kind=part.factor,
                candidates=_matrix(part.candidates, None),
                parameters=part.parameters,
                index=part.index,
                rate=part.rate,
                total=_read_total(part.total),
            )


def _write_total(total: NoisyTotal | None) -> _NoisyTotal | None:
    """Noisy number of records to document."""
    return None if total is None else _NoisyTotal(value=total.value, scale=total.scale)


def _read_total(part: _NoisyTotal | None) -> NoisyTotal | None:
    """Document to noisy number of records."""
    return None if part is None else NoisyTotal(part.value, part.scale)


def _matrix(rows: list[list[float]], width: int | None) -> npt.NDArray[np.float64]:
    """Rows of equal length."""
    wanted = width if width is not None else len(rows[0]) if rows else 0
    if not rows or any(len(row) != wanted for row in rows):
        raise InputError(f"a matrix needs at least one row, and {wanted} numbers in each")
    return np.array(rows, np.float64)
