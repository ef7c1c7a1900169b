"""External figures: tables and weighted sums by another source, with a stated law of their noise.

A census office prints exact margins, another library adds noise of its own, an older publication has a table that was
rounded. This document carries such figures over any variables of a network, and says who made them and who guarantees
what. It is no release: nothing here was measured by this package, the ledger knows nothing of it, and its promise is
quoted, never added to promises of ours. Posteriors read it alone or beside releases (`combined.py`).

Source: Williams and McSherry (NIPS 2010), section 3: whatever was reported of the records, with a known law, has its
place in the likelihood.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pydantic

from discreet.display.renderers import Picture
from discreet.display.text_tables import html_text
from discreet.errors import InputError, listed, printable, require, shown, shown_path
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import table_cells
from discreet.noise.noise_laws import LAWS, NO_NOISE, LawTag
from discreet.privacy.guarantee import Guarantee
from discreet.releases.codec import DocumentPart, Finite, Items, Positive, check_part
from discreet.releases.document import (
    Document,
    GuaranteePart,
    NetworkPart,
    read_guarantee,
    read_network,
    write_guarantee,
    write_network,
)
from discreet.releases.measurement import Measurement, measured_rows, spread
from discreet.util.arrays import Array, read_only
from discreet.util.json_files import json_text, read_json, read_text
from discreet.util.limits import DOCUMENT_BYTES, FREE_CELLS, PARENTS, at_most, check_name, first_repeated, free_cells
from discreet.util.tabular import Block, Result

FORMAT = "discreet-external"
VERSION = 1
LARGEST_FIGURE = 2.0**60
"""Largest figure: sums of such figures stay within 64 bits."""


@dataclass(frozen=True)
class StatedNoise:
    """Law of the noise in external figures, as their source states it.

    Args:
        law: "laplace" (density `exp(-|x| / scale) / 2 scale`), "gaussian" (deviation `scale`), "discrete_laplace"
            (`P(k) ~ exp(-|k| / scale)`; also called geometric), "discrete_gaussian" (`P(k) ~ exp(-k^2 / 2 scale^2)`),
            or "rounded": no noise, but numbers were rounded to the nearest multiple of `scale`. Whole numbers rounded
            to 1 are exact.
        scale: unit: records; greater than 0.

    Raises:
        InputError: another law, or a scale that is not positive and below 2^63.

    Example:
        >>> import discreet as dc
        >>> dc.external.StatedNoise("laplace", 2).scale, dc.external.StatedNoise("rounded", 5).law
        (2.0, 'rounded')
    """

    law: LawTag
    scale: float

    def __post_init__(self) -> None:
        """Refuse an unknown law or an invalid scale."""
        require(self.law in LAWS, f"noise is one of {listed(LAWS)}, not {shown(self.law)}")
        try:
            object.__setattr__(self, "scale", float(self.scale))
        except (TypeError, ValueError):
            raise InputError("the scale of noise is a number") from None
        require(0 < self.scale < NO_NOISE, "the scale of noise is greater than 0 and below 2^63")


@dataclass(frozen=True, eq=False)
class External(Document, Result):
    """External figures on one data set; `external_table` makes such a document.

    Args:
        network: over whose variables they are.
        measurements: tables and weighted sums, with their laws; at least one.
        guarantee: what their maker promises to whoever is in the records: a guarantee, a sentence where that is of
            another kind, or None for public figures that promise nothing.
        source: who made them and where they are found, in words.

    Raises:
        InputError: no measurement, no source, or tables that say two numbers of records exactly.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("sex", ("f", "m")),), {"sex": ()})
        >>> exact = dc.external.StatedNoise("rounded", 1)
        >>> census = dc.external_table([510, 490], network, ["sex"], exact, guarantee=None, source="a census")
        >>> census.also([1003.5], [], dc.external.StatedNoise("laplace", 2), weights=[1]).records
        1000
    """

    account: ClassVar[None] = None
    scores: ClassVar[None] = None
    drawn_rows: ClassVar[None] = None
    network: Network
    measurements: tuple[Measurement, ...]
    guarantee: Guarantee | str | None
    source: str

    def __post_init__(self) -> None:
        """Refuse figures without a table, a source or a valid guarantee."""
        require(bool(self.measurements), "a document of figures by others needs at least one table")
        totals = {table.known_total for table in self.measurements} - {None}
        require(len(totals) < 2, "exact tables of the same records have the same sum; are these of the same records?")
        text = isinstance(self.source, str) and bool(self.source.strip())
        require(text, "figures by others need their source, in words such as 'census 2021, table 3'")
        check_name(self.source, "the source")
        if isinstance(self.guarantee, str):
            require(bool(self.guarantee.strip()), "a guarantee in words needs some; None says that there is none")
            check_name(self.guarantee, "the guarantee")
        elif not isinstance(self.guarantee, Guarantee | None):
            raise InputError("a guarantee by others is a Guarantee, a sentence, or None for public figures")

    def also(
        self, values: npt.ArrayLike, over: Sequence[str], noise: StatedNoise, weights: npt.ArrayLike | None = None
    ) -> External:
        """Add one more table by the same source on the same records.

        Args:
            values: as of `external_table`, and so the others.
            over: names of its variables.
            noise: its law.
            weights: None for a table of all entries.

        Returns:
            A new document.

        Raises:
            InputError: as of `external_table`, or another exact number of records.
        """
        measurement = _make_measurement(self.network, values, over, noise, weights)
        return replace(self, measurements=(*self.measurements, measurement))

    @cached_property
    def id(self) -> str:
        """Digest of the content, 32 hexadecimal digits: equal figures are the same document."""
        return hashlib.sha256(self.dumps().encode()).hexdigest()[:32]

    @property
    def answers_over(self) -> Network:
        """The network of the figures' variables."""
        return self.network

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """`(None,)`: the source, not this package, protects these figures."""
        return ()

    @property
    def private(self) -> bool:
        """True: external figures are no simulation."""
        return True

    @property
    def records(self) -> int | None:
        """Number of records if a table states it exactly, else None."""
        return next((table.known_total for table in self.measurements if table.known_total is not None), None)

    @property
    def dirichlet(self) -> Dirichlet:
        """The default prior: external figures come without one."""
        return Dirichlet.uniform(self.network)

    @property
    def promise(self) -> str:
        """Guarantee of the source, in one line."""
        if self.guarantee is None:
            return printable(f"public figures of {self.source}, which promise nothing")
        return printable(f"guaranteed by {self.source}, not by this package: {self.guarantee}")

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each measured number, as `Release.tidy`."""
        return [row for table in self.measurements for row in measured_rows(table, self.network)]

    def content(self) -> Iterator[str | Block]:
        """Show the measured tables and the scale of their noise; in a notebook the guarantee and the network, too."""
        scales: dict[str, list[float]] = {}
        for law in (table.noise for table in self.measurements if table.noise is not None):
            scales.setdefault(law.words, []).append(law.scale)
        noises = "; ".join(f"{words} {spread(values)}" for words, values in scales.items())
        scopes = listed(f"({', '.join(table.scope)})" for table in self.measurements)
        yield f"tables over {scopes}: {noises} records"
        yield Picture(lambda: f"<p>{html_text(self.promise)}</p>{self.network._repr_html_()}")

    def dumps(self) -> str:
        """The document as JSON text, a measurement a line.

        Returns:
            Text that `loads` reads back.
        """
        promise = self.guarantee
        words = write_guarantee(promise) if isinstance(promise, Guarantee) else promise
        head = {"format": FORMAT, "version": VERSION, "source": self.source, "guarantee": words}
        network = json_text(write_network(self.network))
        measurements = ",\n".join(json_text(_write_measurement(table)) for table in self.measurements)
        start = json_text(head)[:-1]
        return f'{start},\n"network": {network},\n"measurements": [\n{measurements}\n]}}\n'

    @staticmethod
    def loads(text: str) -> External:
        """Read a document.

        Args:
            text: JSON.

        Returns:
            The figures.

        Raises:
            InputError: not JSON, of another format or version, damaged, or more than `discreet.util.limits` allows.
        """
        return read_external(read_json(text, "the document", DOCUMENT_BYTES), free_cells(len(text)))

    @staticmethod
    def load(path: str | Path) -> External:
        """Read a document from a file.

        Args:
            path: as `save` wrote it.

        Returns:
            The figures.

        Raises:
            InputError: no such file, or as `loads`.
        """
        text = read_text(path, "document", DOCUMENT_BYTES)
        return read_external(read_json(text, f"document {shown_path(path)}", DOCUMENT_BYTES), free_cells(len(text)))


def external_table(
    values: npt.ArrayLike,
    network: Network,
    over: Sequence[str],
    noise: StatedNoise,
    *,
    guarantee: Guarantee | str | None,
    source: str,
    weights: npt.ArrayLike | None = None,
) -> External:
    r"""Make external figures of a published table, such as a census, that can be read like a release.

    Of records x_1 .. x_n with counts N over the variables `over`, the figures are

        z = N + noise,    or    z_s = sum over cells c of weights[s, c] N_c + noise_s,

    the noise independent and of the stated law. The count of a group is one sum with weights 0 and 1, a contrast one
    with weights 1 and -1, a mean's numerator one with the values of the cells; `over=()` is the number of records.

    Args:
        values: the figures, unit: records; shape `(states of each variable of over)`, or `(sums,)` with weights.
        network: public; its families need not be external_table.
        over: names of its variables, different, in the order of the axes.
        noise: its law, as the source states it.
        guarantee: what the source promises to whoever is in the records, or None for public figures. It is quoted.
        source: who made the figures, in words such as "OpenDP" or "census 2021, table 3".
        weights: shape `(sums, states of each variable of over)`; None for a table of all cells.

    Returns:
        A document with one measurement; its `also` adds more of the same source and records.

    Raises:
        InputError: unknown or repeated variables, another shape, numbers that are not finite or beyond 2^60, fractions
            where the law is one of whole numbers, or no source.

    Guarantee:
        None given: the source's is quoted. None spent: reads no records, and no ledger knows of it.

    Source:
        Williams and McSherry (NIPS 2010), section 3 and equation 4.

    Example:
        >>> import discreet as dc
        >>> sex, ill = dc.Variable("sex", ("f", "m")), dc.Variable("ill", ("no", "yes"))
        >>> network = dc.Network.empty([sex, ill])
        >>> exact = dc.external.StatedNoise("rounded", 1)
        >>> census = dc.external_table([510, 490], network, ["sex"], exact, guarantee=None, source="census 2021")
        >>> census.records, census.promise
        (1000, 'public figures of census 2021, which promise nothing')
    """
    require(isinstance(network, Network), "figures by others are over variables of a Network")
    return External(network, (_make_measurement(network, values, over, noise, weights),), guarantee, source)


def _make_measurement(
    network: Network, values: npt.ArrayLike, over: Sequence[str], noise: StatedNoise, weights: npt.ArrayLike | None
) -> Measurement:
    """Check figures and make the measurement that all readers take."""
    require(isinstance(noise, StatedNoise), 'the noise is a StatedNoise, such as StatedNoise("laplace", 2)')
    require(not isinstance(over, str), "the variables of a table are a list of names, not one text")
    scope = tuple(over)
    unknown = next((name for name in scope if name not in network.schema), None)
    require(unknown is None, f"the network has no variable {shown(unknown)}")
    require(first_repeated(scope) is None, f"a table names {shown(first_repeated(scope))} twice")
    sizes = tuple(network.schema[name].size for name in scope)
    cells = table_cells(sizes)
    numbers = _read_numbers(values, f"figures over ({listed(scope)})")
    if weights is None:
        require(numbers.shape == sizes, f"figures over ({listed(scope)}) have shape {sizes}, not {numbers.shape}")
        rows = None
    else:
        rows = _read_numbers(weights, f"weights over ({listed(scope)})")
        require(numbers.ndim == 1 and numbers.size > 0, "weighted sums are a list of numbers, at least one")
        shape = (numbers.size, *sizes)
        require(rows.shape in (shape, (numbers.size, cells)), f"the weights have shape {shape}, not {rows.shape}")
        at_most(FREE_CELLS, rows.size, "weights of one set of sums")
        rows = read_only(rows.reshape(shape))
        require(bool(np.all(rows.reshape(numbers.size, -1).any(axis=1))), "a weighted sum has a weight that is not 0")
    whole = rows is None or bool(np.all(rows == np.rint(rows)))
    law = LAWS[noise.law].on(noise.scale, integers=whole)
    if law.keeps_integers and not (whole and np.all(numbers == np.rint(numbers))):
        raise InputError(f"figures with {law.words} {noise.scale:g} are whole numbers, and so are their weights")
    return Measurement(scope, read_only(numbers), law, weights=rows)


def _read_numbers(values: npt.ArrayLike, subject: str) -> Array:
    """Read finite numbers, float64, none beyond 2^60."""
    try:
        array = np.asarray(values)
        numbers = array.astype(np.float64) if array.dtype.kind in "iuf" else None
    except (TypeError, ValueError):
        numbers = None
    if numbers is None:
        raise InputError(f"{subject} are an array of numbers")
    require(bool(np.all(np.abs(numbers) <= LARGEST_FIGURE)), f"{subject} are finite numbers, none beyond 2^60")
    return numbers


# ------------------------------------------------------------------------------------------------------- the document


class _NoisePart(DocumentPart):
    law: LawTag
    scale: Positive


class _Figures(DocumentPart):
    variables: Items[str]
    noise: _NoisePart
    values: Items[Finite]
    weights: Items[Items[Finite]] | None = None


class ExternalPart(DocumentPart):
    """External figures; tables and weights of a sum are flat, in the order of their variables, last fastest."""

    format: Literal["discreet-external"]
    version: Literal[1]
    source: Annotated[str, pydantic.Field(min_length=1)]
    guarantee: GuaranteePart | str | None
    network: NetworkPart
    measurements: Items[_Figures]


def read_external(raw: Any, cells: int) -> External:
    """Read external figures from JSON values.

    Args:
        raw: what the JSON text says.
        cells: most cells that all tables of the network's families may have together.

    Returns:
        The figures.

    Raises:
        InputError: of another format or version, damaged, or too large; the message has the place.
    """
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise InputError(f"no figures by others: the field 'format' must be {FORMAT!r}")
    if type(raw.get("version")) is not int or raw["version"] != VERSION:
        raise InputError(f"the document of figures by others is of another version; this package reads {VERSION}")
    part = check_part(ExternalPart, raw, "the document of figures is damaged at")
    try:
        return _read_figures(part, cells)
    except InputError as error:
        raise InputError(f"the document of figures is damaged: {error}") from None


def _read_figures(part: ExternalPart, cells: int) -> External:
    """Read figures from a document; the types check what pydantic cannot."""
    network = read_network(part.network)
    at_most(cells, network.size, "cells of all tables")
    promise = part.guarantee
    words = read_guarantee(promise) if isinstance(promise, GuaranteePart) else promise
    measurements = tuple(_read_measurement(network, figures) for figures in part.measurements)
    return External(network, measurements, words, part.source)


def _read_measurement(network: Network, figures: _Figures) -> Measurement:
    """Read one measurement of a document."""
    at_most(PARENTS, figures.variables, "variables of a table")
    noise, values = StatedNoise(figures.noise.law, figures.noise.scale), np.array(figures.values, np.float64)
    if figures.weights is not None:
        if any(len(row) != len(figures.weights[0]) for row in figures.weights):
            raise InputError("the sums of a table have equally many weights")
        return _make_measurement(network, values, figures.variables, noise, np.array(figures.weights, np.float64))
    unknown = next((name for name in figures.variables if name not in network.schema), None)
    require(unknown is None, f"the network has no variable {shown(unknown)}")
    sizes = tuple(network.schema[name].size for name in figures.variables)
    fits = math.prod(sizes) == values.size
    require(fits, f"the table over ({listed(figures.variables)}) has {values.size} cells, not those of its variables")
    return _make_measurement(network, values.reshape(sizes), figures.variables, noise, None)


def _write_measurement(measurement: Measurement) -> dict[str, Any]:
    """Write one measurement as JSON values."""
    document = {
        "variables": list(measurement.scope),
        "noise": {"law": measurement.tag, "scale": measurement.scale},
        "values": measurement.values.ravel().tolist(),
    }
    rows = measurement.weights
    return document if rows is None else document | {"weights": rows.reshape(len(rows), -1).tolist()}
