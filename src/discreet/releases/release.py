"""The release: all that leaves the private side, as a versioned JSON document.

This file owns the document as a whole; its parts are in `document.py` and `kinds/`. Nothing in it
comes from a record but the payload (and, where replacing a record or a metric is the relation, the public number of
records); there is no seed, no path and no time finer than a day. The document's JSON Schema is kept beside this file
and tested against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pydantic

from discreet.display.renderers import FactList, Picture
from discreet.errors import InputError, printable, shown, shown_path
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.origin import Learned
from discreet.model.over import Over, Prior
from discreet.privacy.guarantee import Guarantee, Relation, as_text
from discreet.releases.codec import decode, encode
from discreet.releases.document import Document
from discreet.releases.external_figures import ExternalPart
from discreet.releases.kinds.chosen_network import ChosenNetwork
from discreet.releases.measurement import Calibration, DrawnRows, Measurement, Released, Scores
from discreet.releases.metric_unit import unit_lines
from discreet.releases.policy import RecordsPolicy
from discreet.releases.release_facts import release_facts
from discreet.releases.release_head import FORMAT, VERSION, document_model, domain_of, domains, read_head, write_head
from discreet.util.json_files import json_text, read_json, read_text
from discreet.util.limits import DOCUMENT_BYTES, free_cells
from discreet.util.tabular import Block, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

K = TypeVar("K")


@dataclass(frozen=True, eq=False, repr=False)
class Release(Document, Result):
    """Document that a curator publishes: guarantee, calibration and payload of one run of a mechanism.

    Args:
        id: random, 32 hexadecimal digits; the ledger's charge has the same.
        date: day of the release (UTC).
        private: False for a simulation, which spent nothing and protects nobody.
        guarantee: what holds for whoever is in the records.
        mechanism: its name.
        policy: how incomplete records were met.
        records: number of records where it is public (all relations but ADD_REMOVE), else None.
        prior: the curator's prior, over a network or what else the release is over; an analyst may use another.
        calibration: how the budget became noise.
        payload: the noisy statistics.
        account: random id of the account that paid; None of a simulation, and of releases that are older than such ids.

    Raises:
        InputError: parts that do not belong together, or a number of records under ADD_REMOVE, where it is private.

    Guarantee:
        `guarantee`, and nothing where `private` is False. Reading, saving and loading spend nothing.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> tossed = dc.tools.count_codes(coin, {"coin": [0, 1, 1, 0, 1]})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
        >>> made = dc.simulate(dc.laplace(), tossed, dc.Dirichlet.uniform(coin), promise, rng=1)
        >>> made.mechanism, made.private, dc.Release.loads(made.dumps()).id == made.id
        ('laplace', False, True)
    """

    what: ClassVar[str] = "release"
    id: str
    date: date
    private: bool
    guarantee: Guarantee
    mechanism: str
    policy: RecordsPolicy
    records: int | None
    prior: Prior
    calibration: Calibration
    payload: Released
    account: str | None = None

    def __post_init__(self) -> None:
        """Refuse parts that contradict each other."""
        if self.payload.over != self.prior.over:
            raise InputError("a release needs a prior and a payload over the same network or design")
        if (self.records is not None) != self.guarantee.relation.public_number:
            raise InputError(
                "a release states its number of records exactly where it is public: where replacing a record or a "
                "metric is the relation"
            )
        if self.records is not None and self.records < 0:
            raise InputError("a number of records cannot be negative")
        if self.calibration.total * self.policy.steps > self.guarantee.epsilon:
            raise InputError("the calibration spends more epsilon than the guarantee promises")
        if not self.payload.agrees(self.calibration):
            raise InputError("the payload is not what the calibration describes: its kind, or a number such as a scale")
        if not self.payload.counts_records(self.guarantee.relation):
            raise InputError("the number of records is either public, or measured with noise")

    def __repr__(self) -> str:
        """Guarantee and mechanism alone: a payload may be millions of numbers."""
        return printable(f"Release(id={self.id!r}, private={self.private}, {self.mechanism}: {self.guarantee})")

    @property
    def over(self) -> Over:
        """The public network, or what else the release is over, such as a regression's design."""
        return self.prior.over

    @property
    def network(self) -> Network:
        """The public network.

        Raises:
            InputError: the release is of a regression or a direction, which has a design instead; so do the next two.
        """
        return self.dirichlet.network

    @property
    def learned_network(self) -> Network:
        """The network that a release of `structure` chose, or the variables of a found domain, with their origin.

        Raises:
            InputError: the release chose none.
        """
        promise = self.guarantee
        origin = Learned(
            self.id,
            as_text(promise.epsilon),
            promise.relation.value,
            promise.unit,
            self.private,
            delta=as_text(promise.delta),
        )
        network = self.payload.learned(origin)
        if network is None:
            raise InputError(f"a release of {self.mechanism} chose no network; one of structure does")
        return network

    @property
    def dirichlet(self) -> Dirichlet:
        """The prior over the network's probabilities."""
        if not isinstance(self.prior, Dirichlet):
            raise InputError(f"this release is over {self.over.instead}")
        return self.prior

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Measurements over the network's variables, in units: `policy.steps` of a table are one."""
        return tuple(table.per_unit(self.policy.steps) for table in self.payload.measurements)

    @property
    def scores(self) -> Scores | None:
        """Choices by scores, to which a unit adds `policy.steps` records; None for another payload."""
        scores = self.payload.scores(self.calibration)
        return scores and scores.per_unit(self.policy.steps)

    @property
    def drawn_rows(self) -> DrawnRows | None:
        """Draws of rows, given the counts of units; None for another payload."""
        return self.unit_payload.drawn_rows(self.prior, self.calibration)

    @property
    def unit_payload(self) -> Released:
        """The payload as readers take it: in units, of which each may be several steps."""
        return self.payload if self.policy.steps == 1 else self.payload.per_unit(self.policy.steps)

    def payload_as(self, kind: type[K]) -> K:
        """The payload as readers take it; InputError if it is not of a kind.

        Args:
            kind: class of payloads.

        Raises:
            InputError: it is of another kind.
        """
        payload = self.unit_payload
        if not isinstance(payload, kind):
            raise InputError(
                f"this release is of {type(payload).__name__}, and {kind.__name__} is what is read here; `read` and "
                "`.posterior()` read releases of all kinds"
            )
        return payload

    @property
    def networks(self) -> tuple[Network, ...]:
        """The public network, alone; empty if the release is over something else."""
        return (self.network,) if isinstance(self.prior, Dirichlet) else ()

    @property
    def one_release(self) -> Release:
        """Itself."""
        return self

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Its guarantee, in the form of `Combined.guarantees`."""
        return (self.guarantee,)

    @property
    def answers_over(self) -> Network:
        """The network of the answers: that of the payload, the chosen one, or the public one.

        Raises:
            InputError: its posterior is of coefficients, components or a direction.
        """
        if isinstance(self.payload, ChosenNetwork):
            return self.learned_network
        return self.payload.answers_over or self.network

    @property
    def unit_lines(self) -> list[str]:
        """The unit of the guarantee in words; for a metric see `unit_lines`.

        Of records what told units apart, or whose word it is that each has one record; nothing of the unit "record".
        """
        promise = self.guarantee
        if promise.relation is Relation.METRIC:
            return unit_lines(promise, self.networks[0].variables if self.networks else ())
        return self.policy.unit_lines(promise.unit)

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each released number with its noise, as published; see `Released.rows`."""
        return self.payload.rows()

    def content(self) -> Iterator[Block]:
        """Show the guarantee, the mechanism, the budget spent and the content, a line each, and the network."""
        yield FactList(release_facts(self))
        if self.networks:
            yield Picture(self._shown_network._repr_html_)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the network; arguments and errors as of `Network.plot`.

        Raises:
            InputError: the release is over a design, which has no network: `release.posterior().plot()` draws its
                coefficients.
        """
        if not self.networks:
            raise InputError(
                "a release over a design has no network to draw: plot its posterior, `release.posterior().plot()`"
            )
        return self._shown_network.plot(axes)

    @property
    def _shown_network(self) -> Network:
        """The chosen network if there is one, else the public one."""
        return self.payload.chosen if isinstance(self.payload, ChosenNetwork) else self.network

    def dumps(self) -> str:
        """The document as JSON text, a table a line.

        Returns:
            Text that `loads` reads back as an equal release.
        """
        return _write_lines({**write_head(vars(self)), "payload": encode(self.payload)}, depth=3) + "\n"

    @staticmethod
    def loads(text: str) -> Release:
        """Read a document.

        Args:
            text: JSON.

        Returns:
            The release.

        Raises:
            InputError: not JSON, of another format or version, damaged, or more than `discreet.util.limits` allows;
                the message has the place.
        """
        return read_release(read_json(text, "the release", DOCUMENT_BYTES), free_cells(len(text)))

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
        text = read_text(path, "release", DOCUMENT_BYTES)
        return read_release(read_json(text, f"release {shown_path(path)}", DOCUMENT_BYTES), free_cells(len(text)))


# ------------------------------------------------------------------------------------------------------- the document


def read_release(raw: Any, cells: int) -> Release:
    """Read a release from JSON values.

    Args:
        raw: what the JSON text says.
        cells: most cells that all its tables may have together.

    Returns:
        The release.

    Raises:
        InputError: of another format or version, damaged, or too large; the message has the place.
    """
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise InputError(f"not a release: the field 'format' must be {FORMAT!r}")
    version = raw.get("version")
    if type(version) is not int or version != VERSION:
        named = repr(version)[:20] if isinstance(version, str | int | None) else f"a {type(version).__name__}"
        raise InputError(f"the release has version {named}; this package reads version {VERSION}")
    try:
        document: Any = document_model(domain_of(raw), whole=True).model_validate(raw)
        fields = read_head(document, cells)
        return Release(**fields, payload=decode(document.payload, fields["prior"].over))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = _find_fault_path(raw, first["loc"], first["type"])
        reason = first["msg"].replace(" found using _find_kind()", "")
        if first["type"] == "union_tag_invalid":
            reason = (
                f"no kind {shown(first['ctx']['tag'])} is known; one that a pack brings is read where it is installed"
            )
        raise InputError(f"the release is damaged at {shown(path)}: {reason}") from None
    except InputError as error:
        raise InputError(f"the release is damaged: {error}") from None


def release_schema() -> str:
    """JSON Schema of releases and of external figures, as kept in `release.schema.json` beside this file.

    Returns:
        JSON text.
    """
    kinds: Any = reduce(or_, (*(document_model(name, whole=True) for name in domains()), ExternalPart))
    either: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(kinds)
    return json_text(either.json_schema(), indent=2, sort_keys=True) + "\n"


def _write_lines(value: object, *, depth: int, indent: int = 0) -> str:
    """Write JSON with one line for each entry of the outer objects, and everything deeper on one line."""
    if not isinstance(value, dict) or depth == 0:
        return json_text(value, allow_nan=False)
    pad = " " * (indent + 1)
    inner = (
        f"{pad}{json_text(key)}: {_write_lines(item, depth=depth - 1, indent=indent + 1)}"
        for key, item in value.items()
    )
    return "{\n" + ",\n".join(inner) + "\n" + " " * indent + "}"


def _find_fault_path(document: object, steps: tuple[int | str, ...], fault: str) -> str:
    """Find the path of a fault in the document: pydantic's steps without its names of the kinds of a union."""
    path, value = [], document
    for step in steps:
        if (isinstance(value, dict) and step in value) or (isinstance(value, list) and step in range(len(value))):
            value = value[step]  # type: ignore[index]
            path.append(str(step))
    absent = {"missing": steps[-1:], "union_tag_invalid": ("kind",), "union_tag_not_found": ("kind",)}
    return ".".join([*path, *map(str, absent.get(fault, ()))])
