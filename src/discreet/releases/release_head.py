"""Head of a release document: all but the payload, read, written and checked as readers do.

Everything here is known before a record is read. So `require_readable` puts it through the reader before anything is
charged: a release that is paid for can be read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from discreet.display.text_tables import with_noun
from discreet.errors import InputError, shown
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.over import Prior
from discreet.model.tables import Tables
from discreet.releases.codec import DocumentPart, Positive, check_part, decode, encode, shaped, union_of
from discreet.releases.document import (
    GuaranteePart,
    NetworkPart,
    read_guarantee,
    read_network,
    write_guarantee,
    write_network,
)
from discreet.releases.kinds import kinds_over
from discreet.releases.policy import PolicyPart
from discreet.util.arrays import Array
from discreet.util.json_files import json_text, read_json
from discreet.util.limits import DOCUMENT_BYTES, at_most, check_name, free_cells
from discreet.util.pack_entries import of_packs

FORMAT = "discreet-release"
VERSION = 1
NUMBER_BYTES = 26
"""Most characters of a number in a document, with the comma and the space after it: 17 digits, a point, a sign, and
an exponent of five."""

Day = Annotated[str, pydantic.Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class ReleaseHead(DocumentPart):
    """Fields of all releases. Those of a domain add a field of its name, and `prior`, and read both."""

    format: Literal["discreet-release"]
    version: Literal[1]
    id: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{32}$")]
    account: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{32}$")] | None = None
    date: Day
    private: Annotated[bool, pydantic.Field(strict=True)]
    guarantee: GuaranteePart
    mechanism: Annotated[str, pydantic.Field(min_length=1)]
    records: PolicyPart

    @abstractmethod
    def read_prior(self, cells: int) -> Prior:
        """Read the prior, and what it is over.

        Args:
            cells: most cells that all tables may have together.

        Raises:
            InputError: parts that are none, or more of anything than a file may have.
        """


class NetworkHead(ReleaseHead):
    """A release over a network; tables are flat, their axes `(*parents, child)` and draws, last fastest."""

    network: NetworkPart
    prior: dict[str, Positive | list[Positive]]

    def read_prior(self, cells: int) -> Dirichlet:
        """See `ReleaseHead`."""
        network = read_network(self.network)
        if set(self.prior) != set(network.nodes):
            raise InputError("'prior' must name every node of the network once")
        at_most(cells, network.size, "cells of all tables")
        alpha = {node: _expand_alpha(network, node, self.prior[node]) for node in network.nodes}
        return Dirichlet(Tables(network, alpha))


def _write_dirichlet(prior: Dirichlet) -> dict[str, Any]:
    """Write a network and the prior of its rows to a document."""
    alpha = {node: _compress_alpha(alpha) for node, alpha in prior.alpha.items()}
    return {"network": write_network(prior.network), "prior": alpha}


def _describe_network(network: Network) -> str:
    """Describe a network for the facts of a release."""
    return f"a network of {with_noun(len(network.nodes), 'variable')} and {with_noun(len(network.arcs), 'arc')}"


@dataclass(frozen=True)
class Domain:
    """Registry entry of what releases can be over: its part of documents, and what is made up over it.

    Args:
        head: pydantic model of a document's head; of its own it has a field of the domain's name, and `prior`.
        write: function from a prior to these two fields.
        describe: function from what a release is over to a phrase for the release's facts.
        made_up: dotted module, colon and name of a `MadeUp` of `verify/made_up.py`; it is loaded by audits and plans.
    """

    head: type[ReleaseHead]
    write: Callable[[Any], dict[str, Any]]
    describe: Callable[[Any], str]
    made_up: str

    @property
    def name(self) -> str:
        """Name of the domain, which is that of the head's own field."""
        (name,) = self.head.model_fields.keys() - ReleaseHead.model_fields.keys() - {"prior"}
        return name


NETWORK = Domain(NetworkHead, _write_dirichlet, _describe_network, "discreet.verify.made_up:NETWORKS")


@cache
def domains() -> Mapping[str, Domain]:
    """List what releases can be over, by name: networks, and what packs bring, none in the place of networks."""
    brought = [domain for domain in of_packs("discreet.domains") if isinstance(domain, Domain)]
    return {domain.name: domain for domain in (NETWORK, *brought, NETWORK)}


@cache
def document_model(domain: str, *, whole: bool) -> type[ReleaseHead]:
    """Make the pydantic model of a domain's documents: with the payload if they are whole, or of the head alone."""
    head = domains()[domain].head
    fields: dict[str, Any] = {"calibration": (union_of(kinds_over(domain, paid=False)), ...)}
    if whole:
        fields["payload"] = (union_of(kinds_over(domain, paid=True)), ...)
    return pydantic.create_model(f"_{domain.title()}Document", __base__=head, __doc__=head.__doc__, **fields)


def domain_of(raw: Mapping[str, Any]) -> str:
    """Find the domain of a document by its fields.

    Raises:
        InputError: the field of no domain that is known here, or of several.
    """
    names = [name for name in domains() if name in raw]
    if len(names) != 1:
        raise InputError(
            f"it states one of {', '.join(map(shown, domains()))}, which it is over; what a pack brings is read where "
            "that is installed"
        )
    return names[0]


def read_head(document: Any, cells: int) -> dict[str, Any]:
    """Read the fields of a release except its payload; the types check what pydantic cannot.

    Args:
        document: of a `document_model`.
        cells: most cells that all its tables may have together.

    Raises:
        InputError: parts that are none, or more of anything than a file may have.
    """
    check_name(document.mechanism, "the mechanism")
    prior = document.read_prior(cells)
    return {
        **document.model_dump(include={"id", "account", "private", "mechanism"}),
        "date": _read_day(document.date),
        "guarantee": read_guarantee(document.guarantee),
        "policy": document.records.policy,
        "records": document.records.count,
        "prior": prior,
        "calibration": decode(document.calibration, prior.over),
    }


def write_head(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Write the head of a document.

    Args:
        fields: of the release; the payload may be missing.
    """
    policy, prior, records = fields["policy"], fields["prior"], fields["records"]
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
        **domains()[prior.over.domain].write(prior),
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
            "characters of the release (ask for fewer columns, draws, candidates or cells)",
        )
        raw = read_json(text, "the release", DOCUMENT_BYTES)
        head = check_part(document_model(domain_of(raw), whole=False), raw, "the release, at")
        read_head(head, free_cells(len(text) + numbers))
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
