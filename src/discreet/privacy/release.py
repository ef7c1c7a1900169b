"""The release: all that leaves the private side, as a versioned JSON document.

This file owns the document and the payloads it can carry. Nothing in it comes from a record but the payload (and,
where replacing a record is the neighbouring relation, the public number of records); there is no seed, no path and no
time finer than a day. The document's JSON Schema is kept beside this file and tested against it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import numpy as np
import pydantic

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.model.tables import Array, Tables
from discreet.privacy.guarantee import Guarantee, Relation, as_rational, as_text

__all__ = ["Calibration", "NoisyCounts", "Payload", "RecordsPolicy", "Release", "release_schema"]

FORMAT = "discreet-release"
VERSION = 1


@dataclass(frozen=True)
class Calibration:
    """How the budget became noise: public, computed before any record is seen.

    Args:
        sensitivity: most that one record can move the cells of one table, L1, in records, under the relation.
        epsilons: exact budget of each family's table; they sum to at most the guarantee.
        scales: of the discrete Laplace noise on each cell of a table; unit: records.
        reported: total epsilon that the noise's own privacy map reports; at most the guarantee, which is charged.

    Raises:
        InputError: a budget or scale is not a positive, finite number.
    """

    sensitivity: int
    epsilons: Mapping[str, Fraction]
    scales: Mapping[str, float]
    reported: Fraction

    def __post_init__(self) -> None:
        """Freeze, then refuse what is no calibration."""
        object.__setattr__(self, "epsilons", MappingProxyType(dict(self.epsilons)))
        object.__setattr__(self, "scales", MappingProxyType(dict(self.scales)))
        if not (self.sensitivity > 0 and self.reported > 0 and all(value > 0 for value in self.epsilons.values())):
            raise InputError("a calibration needs a sensitivity and budgets greater than 0")
        if self.scales.keys() != self.epsilons.keys() or not all(_positive(scale) for scale in self.scales.values()):
            raise InputError("a calibration needs one positive, finite noise scale for each budget")


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Family counts plus independent discrete Laplace noise in every cell: `P(noise = k) ~ exp(-|k| / scale)`.

    Args:
        tables: int64, axes `(*parents, child)`, unit: records; never truncated, so cells may be negative.
        scales: of the noise in each table; unit: records.

    Raises:
        InputError: tables that are not integers, or a scale that is not a positive, finite number.
    """

    tables: Tables
    scales: Mapping[str, float]

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        object.__setattr__(self, "scales", MappingProxyType(dict(self.scales)))
        if set(self.scales) != set(self.tables) or not all(_positive(scale) for scale in self.scales.values()):
            raise InputError("noisy counts need one positive, finite noise scale for every table")
        if any(table.dtype != np.int64 for table in self.tables.values()):
            raise InputError("noisy counts are 64-bit integers")


Payload = NoisyCounts
"""The closed union of what a release can carry."""


@dataclass(frozen=True)
class RecordsPolicy:
    """What was done with records that are not complete and within bounds; public, fixed before any record is read.

    Args:
        missing: "error" refuses a table with a missing value; "drop" leaves out every record that has one.
        out_of_bounds: "error" refuses a number outside its public bounds; "clip" moves it to the nearest bound.

    Raises:
        InputError: another word.
    """

    missing: str
    out_of_bounds: str

    def __post_init__(self) -> None:
        """Refuse other words."""
        if self.missing not in ("error", "drop"):
            raise InputError(f"missing values are met by 'error' or 'drop', not {self.missing!r}")
        if self.out_of_bounds not in ("error", "clip"):
            raise InputError(f"numbers out of bounds are met by 'error' or 'clip', not {self.out_of_bounds!r}")


@dataclass(frozen=True, eq=False)
class Release:
    """What a curator publishes.

    Args:
        id: random, 32 hexadecimal digits; the ledger's charge has the same.
        date: day of the release (UTC).
        private: False for a simulation, which spent nothing and protects nobody.
        guarantee: what holds for whoever is in the records.
        mechanism: its name.
        policy: how incomplete records were met.
        records: number of records where it is public (REPLACE), else None.
        prior: the curator's prior; an analyst may use another.
        calibration: how the budget became noise.
        payload: the noisy statistics.

    Raises:
        InputError: parts that do not belong together, or a number of records under ADD_REMOVE, where it is private.
    """

    id: str
    date: date
    private: bool
    guarantee: Guarantee
    mechanism: str
    policy: RecordsPolicy
    records: int | None
    prior: Dirichlet
    calibration: Calibration
    payload: Payload

    def __post_init__(self) -> None:
        """Refuse parts that contradict each other."""
        if self.payload.tables.network != self.prior.network:
            raise InputError("a release needs a prior and a payload over the same network")
        if (self.records is not None) != (self.guarantee.relation is Relation.REPLACE):
            raise InputError("a release states its number of records exactly where replacing a record is the relation")
        if self.records is not None and self.records < 0:
            raise InputError("a number of records cannot be negative")
        if dict(self.payload.scales) != dict(self.calibration.scales):
            raise InputError("the payload and the calibration state different noise scales")
        spent = sum(self.calibration.epsilons.values(), Fraction())
        if max(spent, self.calibration.reported) > self.guarantee.epsilon:
            raise InputError("the calibration spends more epsilon than the guarantee promises")

    @property
    def network(self) -> Network:
        """The public network."""
        return self.prior.network

    def dumps(self) -> str:
        """The document as JSON text, a table a line.

        Returns:
            Text that `loads` reads back as an equal release.
        """
        head = _document(self).model_dump(mode="json", exclude_none=True)
        return _lines(head, depth=3) + "\n"

    @staticmethod
    def loads(text: str) -> Release:
        """Read a document.

        Args:
            text: JSON.

        Returns:
            The release.

        Raises:
            InputError: not JSON, of another format or version, or damaged; the message has the place.
        """
        try:
            raw = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_twice)
        except (ValueError, RecursionError) as error:
            reason = _one_line(str(error))
            raise InputError(f"the release is not JSON: {reason}; the file is damaged or not a release") from None
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            raise InputError(f"not a release: the field 'format' must be {FORMAT!r}")
        version = raw.get("version")
        if type(version) is not int or version != VERSION:
            raise InputError(f"the release has version {repr(version)[:20]}; this package reads version {VERSION}")
        try:
            return _release(_Document.model_validate(raw))
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InputError(f"the release is damaged at '{_one_line(place)}': {_one_line(first['msg'])}") from None
        except InputError as error:
            raise InputError(f"the release is damaged: {_one_line(str(error))}") from None

    def save(self, path: str | Path, *, replace: bool = True) -> None:
        """Write the document, whole or not at all.

        Args:
            path: of the file.
            replace: whether a file of this name is replaced.

        Raises:
            FileExistsError: there is a file of this name, and it is not to be replaced.
            InputError: the file cannot be written.
        """
        target = Path(path)
        temporary = target.parent / f".{self.id}.part"
        try:
            temporary.write_text(self.dumps(), encoding="utf-8")
            if replace:
                temporary.replace(target)
            else:
                os.link(temporary, target)  # fails if there is one, whoever made it, whenever
        except FileExistsError:
            raise
        except OSError as error:
            raise InputError(f"cannot write release {str(path)!r}: {error.strerror}") from None
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    @staticmethod
    def load(path: str | Path) -> Release:
        """Read a document from a file.

        Args:
            path: as `save` wrote it.

        Returns:
            The release.

        Raises:
            InputError: no such file, or as `loads`.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot read release {str(path)!r}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"cannot read release {str(path)!r}: not UTF-8 text") from None
        return Release.loads(text)


# ------------------------------------------------------------------------------------------------------- the document

Positive = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False, strict=True)]
Day = Annotated[str, pydantic.Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Integer = Annotated[int, pydantic.Field(ge=-(2**63), lt=2**63, strict=True)]
Budget = Annotated[str, pydantic.Field(pattern=r"^[0-9]+(\.[0-9]+|/[0-9]+)?$")]


class _Part(pydantic.BaseModel):
    """Fields are those listed, and no others."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class _Guarantee(_Part):
    epsilon: Budget
    delta: Budget
    relation: Literal["add-remove", "replace"]
    unit: Annotated[str, pydantic.Field(min_length=1)]


class _Records(_Part):
    count: Annotated[int, pydantic.Field(ge=0, strict=True)] | None = None
    missing: Literal["error", "drop"]
    out_of_bounds: Literal["error", "clip"]


class _Variable(_Part):
    name: str
    states: list[str]
    bounds: tuple[float, float] | None = None
    bins: list[float] | None = None


class _Network(_Part):
    variables: list[_Variable]
    parents: dict[str, list[str]]


class _Calibration(_Part):
    sensitivity: Annotated[int, pydantic.Field(gt=0, strict=True)]
    reported: Budget
    epsilons: dict[str, Budget]
    scales: dict[str, Positive]


class _NoisyCounts(_Part):
    kind: Literal["noisy_counts"]
    noise: Literal["discrete_laplace"]
    scales: dict[str, Positive]
    tables: dict[str, list[Integer]]


class _Document(_Part):
    """A release of noisy statistics; tables are flat, in the order of their axes `(*parents, child)`, last fastest."""

    format: Literal["discreet-release"]
    version: Literal[1]
    id: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{32}$")]
    date: Day
    private: Annotated[bool, pydantic.Field(strict=True)]
    guarantee: _Guarantee
    mechanism: Annotated[str, pydantic.Field(min_length=1)]
    records: _Records
    network: _Network
    prior: dict[str, Positive | list[Positive]]
    calibration: _Calibration
    payload: _NoisyCounts


def release_schema() -> str:
    """The JSON Schema of the document, as kept in `release.schema.json` beside this file.

    Returns:
        JSON text.
    """
    return json.dumps(_Document.model_json_schema(), indent=2, sort_keys=True) + "\n"


def _document(release: Release) -> _Document:
    """Release to document."""
    network, payload = release.network, release.payload
    return _Document(
        format="discreet-release",
        version=1,
        id=release.id,
        date=release.date.isoformat(),
        private=release.private,
        guarantee=_Guarantee(
            epsilon=as_text(release.guarantee.epsilon),
            delta=as_text(release.guarantee.delta),
            relation=release.guarantee.relation.value,
            unit=release.guarantee.unit,
        ),
        mechanism=release.mechanism,
        records=_Records.model_validate(
            {
                "count": release.records,
                "missing": release.policy.missing,
                "out_of_bounds": release.policy.out_of_bounds,
            }
        ),
        network=_Network(
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
        ),
        prior={node: _compact(alpha) for node, alpha in release.prior.alpha.items()},
        calibration=_Calibration(
            sensitivity=release.calibration.sensitivity,
            reported=as_text(release.calibration.reported),
            epsilons={node: as_text(epsilon) for node, epsilon in release.calibration.epsilons.items()},
            scales=dict(release.calibration.scales),
        ),
        payload=_NoisyCounts(
            kind="noisy_counts",
            noise="discrete_laplace",
            scales=dict(payload.scales),
            tables={node: table.ravel().tolist() for node, table in payload.tables.items()},
        ),
    )


def _release(document: _Document) -> Release:
    """Document to release; what pydantic cannot see is checked by the types themselves."""
    variables = (
        Variable(part.name, tuple(part.states), bounds=part.bounds, bins=tuple(part.bins or ()))
        for part in document.network.variables
    )
    network = Network(tuple(variables), {node: tuple(part) for node, part in document.network.parents.items()})
    calibration, payload = document.calibration, document.payload
    for name, names in (("prior", document.prior), ("epsilons", calibration.epsilons), ("scales", calibration.scales)):
        if set(names) != set(network.nodes):
            raise InputError(f"'{name}' must name every node of the network once")
    return Release(
        id=document.id,
        date=_day(document.date),
        private=document.private,
        guarantee=Guarantee(**document.guarantee.model_dump()),
        mechanism=document.mechanism,
        policy=RecordsPolicy(document.records.missing, document.records.out_of_bounds),
        records=document.records.count,
        prior=Dirichlet(Tables(network, {node: _full(network, node, document.prior[node]) for node in network.nodes})),
        calibration=Calibration(
            sensitivity=calibration.sensitivity,
            epsilons={node: as_rational(text, "epsilon") for node, text in calibration.epsilons.items()},
            scales=calibration.scales,
            reported=as_rational(calibration.reported, "epsilon"),
        ),
        payload=NoisyCounts(
            Tables(
                network,
                {node: _shaped(network, node, np.array(flat, np.int64)) for node, flat in payload.tables.items()},
            ),
            payload.scales,
        ),
    )


def _compact(alpha: Array) -> float | list[float]:
    """One number where all concentrations of a node are equal."""
    flat = alpha.ravel()
    return float(flat[0]) if np.all(flat == flat[0]) else [float(value) for value in flat]


def _full(network: Network, node: str, alpha: float | list[float]) -> Array:
    """The inverse of `_compact`."""
    if isinstance(alpha, list):
        return _shaped(network, node, np.array(alpha, np.float64))
    return np.full(network.shape(node), alpha)


def _shaped(network: Network, node: str, flat: Array) -> Array:
    """A flat table with its axes."""
    if node not in network.schema or flat.size != math.prod(network.shape(node)):
        raise InputError(f"the table of {node!r} has {flat.size} cells, not those of its family")
    return flat.reshape(network.shape(node))


def _lines(value: object, *, depth: int, indent: int = 0) -> str:
    """JSON with one line for each entry of the outer objects, and everything deeper on one line."""
    if not isinstance(value, dict) or depth == 0:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    pad = " " * (indent + 1)
    inner = (
        f"{pad}{json.dumps(key)}: {_lines(part, depth=depth - 1, indent=indent + 1)}" for key, part in value.items()
    )
    return "{\n" + ",\n".join(inner) + "\n" + " " * indent + "}"


def _day(text: str) -> date:
    """A day of the calendar."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"the date {text!r} is no day") from None


def _one_line(text: str) -> str:
    """A text without line breaks, not too long."""
    return " ".join(text.split())[:300]


def _refuse_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose fields are all different: of two equal ones readers would take either."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the field {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _refuse_constant(name: str) -> float:
    """NaN and infinities are not JSON."""
    raise ValueError(f"{name} is not a JSON number")


def _positive(value: float) -> bool:
    """Whether a number is positive and finite."""
    return 0 < value < math.inf
