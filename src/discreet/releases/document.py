"""The parts of the release document: pydantic models of networks, calibrations and payloads, and both ways to and fro.

Tables are flat lists in the order of their axes, last fastest. The document as a whole is in `release.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import pydantic

from discreet.errors import InputError, listed, shown
from discreet.model.limits import BUDGET_DIGITS, PARENTS, at_most, check_states
from discreet.model.network import Network
from discreet.model.schema import Variable, table_cells
from discreet.model.tables import Array, Tables
from discreet.privacy.guarantee import as_rational, as_text
from discreet.releases.calibration import (
    CoefficientNoise,
    GaussianNoise,
    PlannedNoise,
    Selection,
    Stages,
    TableCalibration,
    TableNoise,
    Tempering,
    Trimming,
)
from discreet.releases.payload import (
    CellNoise,
    Choice,
    NoisyCoefficients,
    NoisyCounts,
    NoisyTables,
    ParameterDraws,
    TablePayload,
    TwoStageCounts,
)

__all__ = [
    "Budget",
    "CalibrationPart",
    "Count",
    "Flag",
    "Integer",
    "Items",
    "NetworkPart",
    "Part",
    "PayloadPart",
    "Positive",
    "Whole",
    "budget",
    "budgets",
    "read_calibration",
    "read_network",
    "read_payload",
    "shaped",
    "write_calibration",
    "write_network",
    "write_payload",
]

Positive = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False, strict=True)]
Integer = Annotated[int, pydantic.Field(ge=-(2**63), lt=2**63, strict=True)]
Count = Annotated[int, pydantic.Field(ge=0, lt=2**63, strict=True)]
Whole = Annotated[int, pydantic.Field(gt=0, lt=2**63, strict=True)]
Flag = Annotated[bool, pydantic.Field(strict=True)]
Unit = Annotated[float, pydantic.Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
Budget = Annotated[str, pydantic.Field(pattern=r"^[0-9]+(\.[0-9]+|/[0-9]+)?$")]


Item = TypeVar("Item")
Items = Annotated[list[Item], pydantic.Field(fail_fast=True)]
"""A list of which the first fault is reported, not a million of them."""


class Part(pydantic.BaseModel):
    """Fields are those listed, and no others."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


# -------------------------------------------------------------------------------------------------------------- network


class _Variable(Part):
    name: str
    states: Items[str]
    bounds: tuple[float, float] | None = None
    bins: Items[float] | None = None


class NetworkPart(Part):
    """A network: variables with their states, and the parents of each."""

    variables: Items[_Variable]
    parents: dict[str, Items[str]]


def write_network(network: Network) -> NetworkPart:
    """Network to document."""
    return NetworkPart(
        variables=[
            _Variable(
                name=variable.name,
                states=list(variable.states),
                bounds=variable.bounds,
                bins=list(variable.bins) if variable.bounds is not None else None,
            )
            for variable in network.schema
        ],
        parents={node: list(parents) for node, parents in network.parents.items()},
    )


def read_network(part: NetworkPart) -> Network:
    """Document to network.

    Raises:
        InputError: no network, or more of anything than a file may declare.
    """
    check_states(variable.states or variable.bins or () for variable in part.variables)
    for node, parents in part.parents.items():
        at_most(PARENTS, parents, f"parents of {shown(node)}")
    variables = (
        Variable(variable.name, tuple(variable.states), bounds=variable.bounds, bins=tuple(variable.bins or ()))
        for variable in part.variables
    )
    return Network(tuple(variables), {node: tuple(parents) for node, parents in part.parents.items()})


# ---------------------------------------------------------------------------------------------------------- calibration


class _TableNoise(Part):
    kind: Literal["table_noise"] | None = None
    sensitivity: Whole
    reported: Budget
    epsilons: dict[str, Budget]
    scales: dict[str, Positive]


class _GaussianNoise(Part):
    kind: Literal["gaussian_noise"]
    squared_sensitivity: Whole
    scale: Positive
    rho: Budget
    reported: Budget


class _PlannedTable(Part):
    variables: Items[str]
    budget: Budget
    scale: Positive


class _PlannedNoise(Part):
    kind: Literal["planned_noise"]
    noise: CellNoise
    sensitivity: Whole
    reported: Budget
    tables: Items[_PlannedTable]
    expected: dict[str, Positive]


class _CoefficientNoise(Part):
    kind: Literal["coefficient_noise"]
    sensitivity: Whole
    exact: Flag
    scale: Positive
    shift: Count
    noisy_total: Flag
    reported: Budget


class _Trimming(Part):
    kind: Literal["trimming"]
    floors: dict[str, Positive]
    temper: Positive
    draws: Whole
    resolution: dict[str, Whole]
    reported: Budget


class _Tempering(Part):
    kind: Literal["tempering"]
    temper: Positive
    draws: Whole
    digits: Whole
    reported: Budget


class _Selection(Part):
    kind: Literal["selection"]
    sensitivity: Positive
    scale: Positive
    reported: Budget


class _Stages(Part):
    kind: Literal["stages"]
    first: _TableNoise
    first_epsilon: Budget
    second_epsilon: Budget
    sampling: Budget
    weights: str


def _kind(value: Any) -> str:
    """The kind of a calibration; the first documents had one kind only and did not name it."""
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return kind or "table_noise"


CalibrationPart = Annotated[
    Annotated[_TableNoise, pydantic.Tag("table_noise")]
    | Annotated[_GaussianNoise, pydantic.Tag("gaussian_noise")]
    | Annotated[_PlannedNoise, pydantic.Tag("planned_noise")]
    | Annotated[_CoefficientNoise, pydantic.Tag("coefficient_noise")]
    | Annotated[_Trimming, pydantic.Tag("trimming")]
    | Annotated[_Tempering, pydantic.Tag("tempering")]
    | Annotated[_Selection, pydantic.Tag("selection")]
    | Annotated[_Stages, pydantic.Tag("stages")],
    pydantic.Discriminator(_kind),
]


def write_calibration(calibration: TableCalibration) -> CalibrationPart:
    """Calibration to document."""
    match calibration:
        case TableNoise():
            return _write_table_noise(calibration)
        case GaussianNoise():
            return _GaussianNoise(
                kind="gaussian_noise",
                squared_sensitivity=calibration.squared_sensitivity,
                scale=calibration.scale,
                rho=as_text(calibration.rho),
                reported=as_text(calibration.reported),
            )
        case PlannedNoise():
            return _write_planned_noise(calibration)
        case CoefficientNoise():
            return _CoefficientNoise(
                kind="coefficient_noise",
                sensitivity=calibration.sensitivity,
                exact=calibration.exact,
                scale=calibration.scale,
                shift=calibration.shift,
                noisy_total=calibration.noisy_total,
                reported=as_text(calibration.reported),
            )
        case Trimming():
            return _Trimming(
                kind="trimming",
                floors=dict(calibration.floors),
                temper=calibration.temper,
                draws=calibration.draws,
                resolution=dict(calibration.resolution),
                reported=as_text(calibration.reported),
            )
        case Tempering():
            return _Tempering(
                kind="tempering",
                temper=calibration.temper,
                draws=calibration.draws,
                digits=calibration.digits,
                reported=as_text(calibration.reported),
            )
        case Selection():
            return _Selection(
                kind="selection",
                sensitivity=calibration.sensitivity,
                scale=calibration.scale,
                reported=as_text(calibration.reported),
            )
        case Stages():
            return _Stages(
                kind="stages",
                first=_write_table_noise(calibration.first),
                first_epsilon=as_text(calibration.first_epsilon),
                second_epsilon=as_text(calibration.second_epsilon),
                sampling=as_text(calibration.sampling),
                weights=calibration.weights,
            )


def read_calibration(part: CalibrationPart, network: Network) -> TableCalibration:
    """Document to calibration."""
    match part:
        case _TableNoise():
            return _read_table_noise(part, network)
        case _GaussianNoise():
            return GaussianNoise(part.squared_sensitivity, part.scale, budget(part.rho), budget(part.reported))
        case _PlannedNoise():
            return _read_planned_noise(part, network)
        case _CoefficientNoise():
            return CoefficientNoise(
                part.sensitivity, part.exact, part.scale, part.shift, part.noisy_total, budget(part.reported)
            )
        case _Trimming():
            if set(part.floors) != set(network.nodes):
                raise InputError("'floors' must name every node of the network once")
            return Trimming(part.floors, part.temper, part.draws, part.resolution, budget(part.reported))
        case _Tempering():
            return Tempering(part.temper, part.draws, part.digits, budget(part.reported))
        case _Selection():
            return Selection(part.sensitivity, part.scale, budget(part.reported))
        case _Stages():
            return Stages(
                first=_read_table_noise(part.first, network),
                first_epsilon=budget(part.first_epsilon),
                second_epsilon=budget(part.second_epsilon),
                sampling=budget(part.sampling),
                weights=part.weights,
            )


def _write_table_noise(calibration: TableNoise) -> _TableNoise:
    """Noise of tables to document."""
    return _TableNoise(
        sensitivity=calibration.sensitivity,
        reported=as_text(calibration.reported),
        epsilons={node: as_text(epsilon) for node, epsilon in calibration.epsilons.items()},
        scales=dict(calibration.scales),
    )


def _read_table_noise(part: _TableNoise, network: Network) -> TableNoise:
    """Document to noise of tables."""
    for name, names in (("epsilons", part.epsilons), ("scales", part.scales)):
        if not set(network.maximal_families) <= set(names) <= set(network.nodes):
            raise InputError(f"'{name}' must name every node of the network whose family lies in no other, once")
    return TableNoise(
        sensitivity=part.sensitivity,
        epsilons=dict(zip(part.epsilons, budgets(part.epsilons.values()), strict=True)),
        scales=part.scales,
        reported=budget(part.reported),
    )


def _write_planned_noise(calibration: PlannedNoise) -> _PlannedNoise:
    """Planned noise to document."""
    return _PlannedNoise(
        kind="planned_noise",
        noise=calibration.noise,
        sensitivity=calibration.sensitivity,
        reported=as_text(calibration.reported),
        tables=[
            _PlannedTable(variables=list(scope), budget=as_text(share), scale=calibration.scales[scope])
            for scope, share in calibration.budgets.items()
        ],
        expected=dict(calibration.expected),
    )


def _read_planned_noise(part: _PlannedNoise, network: Network) -> PlannedNoise:
    """Document to planned noise."""
    scopes = [tuple(table.variables) for table in part.tables]
    if len(set(scopes)) < len(scopes) or set(part.expected) != set(network.nodes):
        raise InputError("a plan must name every table and every node's expected error once")
    return PlannedNoise(
        noise=part.noise,
        sensitivity=part.sensitivity,
        budgets=dict(zip(scopes, budgets(table.budget for table in part.tables), strict=True)),
        scales={scope: table.scale for scope, table in zip(scopes, part.tables, strict=True)},
        reported=budget(part.reported),
        expected={node: part.expected[node] for node in network.nodes},
    )


# -------------------------------------------------------------------------------------------------------------- payload


class _NoisyCounts(Part):
    kind: Literal["noisy_counts"]
    noise: CellNoise
    scales: dict[str, Positive]
    tables: dict[str, Items[Integer]]


class _NoisyTable(Part):
    variables: Items[str]
    scale: Positive
    values: Items[Integer]


class _NoisyTables(Part):
    kind: Literal["noisy_tables"]
    noise: CellNoise
    tables: Items[_NoisyTable]


class _Component(Part):
    variables: Items[str]
    values: Items[Integer]


class _NoisyCoefficients(Part):
    kind: Literal["noisy_coefficients"]
    noise: Literal["discrete_laplace"]
    scale: Positive
    shift: Count
    noisy_total: Flag
    components: Items[_Component]


class _ParameterDraws(Part):
    kind: Literal["parameter_draws"]
    draws: Whole
    temper: Positive
    floors: dict[str, Positive]
    tables: dict[str, Items[Unit]]


class _Choice(Part):
    kind: Literal["choice"]
    index: Count
    candidates: Items[dict[str, Items[Unit]]]


class _TwoStageCounts(Part):
    kind: Literal["two_stage_counts"]
    sampling: Budget
    first: _NoisyCounts
    second: _NoisyCounts


PayloadPart = Annotated[
    _NoisyCounts | _NoisyTables | _NoisyCoefficients | _ParameterDraws | _Choice | _TwoStageCounts,
    pydantic.Field(discriminator="kind"),
]


def write_payload(payload: TablePayload) -> PayloadPart:
    """Payload to document."""
    match payload:
        case NoisyCounts():
            return _write_counts(payload)
        case NoisyTables():
            return _NoisyTables(
                kind="noisy_tables",
                noise=payload.noise,
                tables=[
                    _NoisyTable(variables=list(scope), scale=payload.scales[scope], values=table.ravel().tolist())
                    for scope, table in payload.tables.items()
                ],
            )
        case NoisyCoefficients():
            return _NoisyCoefficients(
                kind="noisy_coefficients",
                noise="discrete_laplace",
                scale=payload.scale,
                shift=payload.shift,
                noisy_total=payload.noisy_total,
                components=[
                    _Component(variables=list(subset), values=array.ravel().tolist())
                    for subset, array in payload.components.items()
                ],
            )
        case ParameterDraws():
            return _ParameterDraws(
                kind="parameter_draws",
                draws=payload.cells.draws or 0,
                temper=payload.temper,
                floors=dict(payload.floors),
                tables=_flat(payload.cells),
            )
        case Choice():
            return _Choice(kind="choice", index=payload.index, candidates=[_flat(part) for part in payload.candidates])
        case TwoStageCounts():
            return _TwoStageCounts(
                kind="two_stage_counts",
                sampling=as_text(payload.sampling),
                first=_write_counts(payload.first),
                second=_write_counts(payload.second),
            )


def read_payload(part: PayloadPart, network: Network) -> TablePayload:
    """Document to payload."""
    match part:
        case _NoisyCounts():
            return _read_counts(part, network)
        case _NoisyTables():
            return _read_tables(part, network)
        case _NoisyCoefficients():
            components = {}
            for component in part.components:
                sizes = _sizes(network, component.variables)
                shape = tuple(size - 1 for size in sizes)
                if math.prod(shape) != len(component.values) or tuple(component.variables) in components:
                    named = listed(component.variables)
                    raise InputError(f"the contrasts of ({named}) are there twice or not all there")
                components[tuple(component.variables)] = np.array(component.values, np.int64).reshape(shape)
            return NoisyCoefficients(network, components, part.scale, part.shift, part.noisy_total)
        case _ParameterDraws():
            cells = {node: shaped(network, node, np.array(flat), part.draws) for node, flat in part.tables.items()}
            return ParameterDraws(Tables(network, cells, draws=part.draws), part.temper, part.floors)
        case _Choice():
            candidates = (
                Tables(network, {node: shaped(network, node, np.array(flat)) for node, flat in tables.items()})
                for tables in part.candidates
            )
            return Choice(tuple(candidates), part.index)
        case _TwoStageCounts():
            return TwoStageCounts(
                _read_counts(part.first, network), _read_counts(part.second, network), budget(part.sampling)
            )


def shaped(network: Network, node: str, flat: Array, draws: int | None = None) -> Array:
    """A flat table with its axes.

    Raises:
        InputError: no such node, or another number of cells than its family has.
    """
    shape = () if node not in network.schema else (*network.shape(node), *(() if draws is None else (draws,)))
    if node not in network.schema or flat.size != math.prod(shape):
        raise InputError(f"the table of {shown(node)} has {flat.size} cells, not those of its family")
    return flat.reshape(shape)


def _write_counts(payload: NoisyCounts) -> _NoisyCounts:
    """Noisy counts to document."""
    return _NoisyCounts(
        kind="noisy_counts",
        noise=payload.noise,
        scales=dict(payload.scales),
        tables={node: table.ravel().tolist() for node, table in payload.tables.items()},
    )


def _read_counts(part: _NoisyCounts, network: Network) -> NoisyCounts:
    """Document to noisy counts."""
    tables = {node: shaped(network, node, np.array(flat, np.int64)) for node, flat in part.tables.items()}
    return NoisyCounts(network, tables, part.scales, part.noise)


def _read_tables(part: _NoisyTables, network: Network) -> NoisyTables:
    """Document to noisy tables."""
    tables, scales = {}, {}
    for table in part.tables:
        scope = tuple(table.variables)
        shape = _sizes(network, scope)
        if math.prod(shape) != len(table.values) or scope in tables:
            raise InputError(
                f"the table over ({listed(scope)}) is there twice or has not as many cells as its variables"
            )
        tables[scope], scales[scope] = np.array(table.values, np.int64).reshape(shape), table.scale
    return NoisyTables(network, tables, scales, part.noise)


def _sizes(network: Network, scope: Iterable[str]) -> tuple[int, ...]:
    """States of each variable of a table, which is refused if no machine can hold it."""
    sizes = tuple(network.schema[name].size for name in scope)
    table_cells(sizes)
    return sizes


def _flat(tables: Tables) -> dict[str, list[float]]:
    """Float tables as lists."""
    return {node: table.ravel().tolist() for node, table in tables.items()}


def budget(text: str) -> Fraction:
    """An exact budget."""
    return as_rational(text, "epsilon")


def budgets(texts: Iterable[str]) -> list[Fraction]:
    """Exact budgets that will be added up.

    Raises:
        InputError: one is no number, or their sum would have millions of digits.
    """
    found = [budget(text) for text in texts]
    digits = sum(len(str(denominator)) for denominator in {part.denominator for part in found})
    at_most(BUDGET_DIGITS, digits, "digits of the budgets' different denominators")
    return found
