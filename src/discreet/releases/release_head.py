"""Head of a release document: all but the payload, read, written and checked as readers do.

Everything here is known before a record is read. So `require_readable` puts it through the reader before anything is
charged: a release that is paid for can be read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from discreet.errors import InputError, shown
from discreet.designs.design import Normal
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.releases.codec import DocumentPart, Positive, check_part, decode, encode, shaped, union_of
from discreet.releases.document import (
    DesignPart,
    GuaranteePart,
    NetworkPart,
    NormalPart,
    read_design,
    read_guarantee,
    read_network,
    write_design,
    write_guarantee,
    write_network,
)
from discreet.releases.kinds import DESIGN_CALIBRATIONS, TABLE_CALIBRATIONS
from discreet.releases.measurement import pack_kinds
from discreet.releases.policy import PolicyPart
from discreet.util.arrays import Array
from discreet.util.json_files import json_text, read_json
from discreet.util.limits import DOCUMENT_BYTES, at_most, check_name, free_cells

FORMAT = "discreet-release"
VERSION = 1
NUMBER_BYTES = 26
"""Most characters of a number in a document, with the comma and the space after it: 17 digits, a point, a sign, and
an exponent of five."""

Day = Annotated[str, pydantic.Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class _ReleaseHead(DocumentPart):
    """Fields of all releases except their network or design."""

    format: Literal["discreet-release"]
    version: Literal[1]
    id: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{32}$")]
    account: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{32}$")] | None = None
    date: Day
    private: Annotated[bool, pydantic.Field(strict=True)]
    guarantee: GuaranteePart
    mechanism: Annotated[str, pydantic.Field(min_length=1)]
    records: PolicyPart

    def fields_of(self, cells: int) -> dict[str, Any]:
        """Read the fields of the release except its payload; the types check what pydantic cannot.

        Args:
            cells: most cells that all its tables may have together.

        Raises:
            InputError: parts that are none, or more of anything than a file may have.
        """
        check_name(self.mechanism, "the mechanism")
        prior, calibration = self._read_over(cells)
        return {
            **self.model_dump(include={"id", "account", "private", "mechanism"}),
            "date": _read_day(self.date),
            "guarantee": read_guarantee(self.guarantee),
            "policy": self.records.policy,
            "records": self.records.count,
            "prior": prior,
            "calibration": calibration,
        }

    @abstractmethod
    def _read_over(self, cells: int) -> tuple[Dirichlet | Normal, Any]:
        """Read the prior over the network or design, and the calibration."""


class NetworkHead(_ReleaseHead):
    """Head of a release over a network."""

    network: NetworkPart
    prior: dict[str, Positive | list[Positive]]
    calibration: union_of((*TABLE_CALIBRATIONS, *pack_kinds("network", paid=False)))  # type: ignore[valid-type]

    def _read_over(self, cells: int) -> tuple[Dirichlet, Any]:
        network = read_network(self.network)
        if set(self.prior) != set(network.nodes):
            raise InputError("'prior' must name every node of the network once")
        at_most(cells, network.size, "cells of all tables")
        alpha = {node: _expand_alpha(network, node, self.prior[node]) for node in network.nodes}
        return Dirichlet(Tables(network, alpha)), decode(self.calibration, network)


class DesignHead(_ReleaseHead):
    """Head of a release over a design."""

    design: DesignPart
    prior: NormalPart
    calibration: union_of((*DESIGN_CALIBRATIONS, *pack_kinds("design", paid=False)))  # type: ignore[valid-type]

    def _read_over(self, cells: int) -> tuple[Normal, Any]:
        design = read_design(self.design)
        return Normal(design, self.prior.deviation), decode(self.calibration, design)


def write_head(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Write the head of a document.

    Args:
        fields: of the release; the payload may be missing.
    """
    policy, prior, records = fields["policy"], fields["prior"], fields["records"]
    over: dict[str, Any]
    if isinstance(prior, Normal):
        over = {"design": write_design(prior.design), "prior": {"deviation": prior.deviation}}
    else:
        alpha = {node: _compress_alpha(alpha) for node, alpha in prior.alpha.items()}
        over = {"network": write_network(prior.network), "prior": alpha}
    return {
        "format": FORMAT,
        "version": VERSION,
        "id": fields["id"],
        **({} if fields["account"] is None else {"account": fields["account"]}),
        "date": fields["date"].isoformat(),
        "private": fields["private"],
        "guarantee": write_guarantee(fields["guarantee"]),
        "mechanism": fields["mechanism"],
        "records": {**({} if records is None else {"count": records}), **policy.document()},
        **over,
        "calibration": encode(fields["calibration"]),
    }


def require_readable(numbers: int, **fields: Any) -> None:
    """Refuse a release that no reader would accept before it is made: pass its head through the reader.

    Args:
        numbers: most that its payload has.
        fields: mechanism, guarantee, policy, prior and calibration of the release.

    Raises:
        InputError: more of anything than `discreet.util.limits` allows in a file, or a part that is none.
    """
    blank = {"id": "0" * 32, "account": None, "date": date.min, "private": True, "records": None}
    try:
        text = json_text(write_head({**blank, **fields}), allow_nan=False)
        at_most(
            DOCUMENT_BYTES,
            len(text) + NUMBER_BYTES * numbers,
            "characters of the release (ask for fewer draws, candidates or cells)",
        )
        raw = read_json(text, "the release", DOCUMENT_BYTES)
        head = check_part(DesignHead if "design" in raw else NetworkHead, raw, "the release, at")
        head.fields_of(free_cells(len(text) + numbers))
    except ValueError as error:
        raise InputError(f"nobody could read this release, so nothing is charged: {error}") from None


def _compress_alpha(alpha: Array) -> float | list[float]:
    """Write one number for a node whose concentrations are all equal."""
    flat = alpha.ravel()
    return float(flat[0]) if np.all(flat == flat[0]) else [float(value) for value in flat]


def _expand_alpha(network: Network, node: str, alpha: float | list[float]) -> Array:
    """Invert `_compress_alpha`."""
    if isinstance(alpha, list):
        return shaped(network, node, np.array(alpha, np.float64))
    return np.full(network.shape(node), alpha)


def _read_day(text: str) -> date:
    """Read a day of the calendar."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"the date {shown(text)} is no day") from None
