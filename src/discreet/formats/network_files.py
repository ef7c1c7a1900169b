"""Read and write network files in the notations that packs register, and detect the notation.

The beginning of a file decides, because files are renamed and come through pipes; if it does not, the suffix of the
name does. A file is written in the notation of its suffix.
"""

from __future__ import annotations

import gzip
import warnings
from functools import cache
from pathlib import Path

from discreet.errors import InputError, require, shortened, shown, shown_path
from discreet.formats.network_content import NetworkContent, NetworkFormat
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.util.json_files import read_packed_text, write_whole
from discreet.util.limits import NETWORK_BYTES
from discreet.util.pack_entries import of_packs

PACKED = ".gz"
"""Suffix of a packed file."""
OWN_NOTATION = "bif"
"""Name of the notation of texts, and of files whose suffix is no other's."""
NO_FORMATS = "no reader of network files is installed: it is in the pack discreet.interchange; install it"


@cache
def network_formats() -> dict[str, NetworkFormat]:
    """Return the notations of installed packs by name, in the order in which they are asked."""
    return {form.name: form for form in of_packs("discreet.formats") if isinstance(form, NetworkFormat)}


def format_of(text: str, name: str) -> NetworkFormat | None:
    """Find the notation of a text: by its beginning, else by its name's suffix; None if it is no network file.

    Example:
        >>> format_of("<BIF VERSION='0.3'>", "x.bif").name, format_of("smoke -> lung", "x")
        ('xmlbif', None)
    """
    begun = (form for form in network_formats().values() if form.begins(text))
    return next(begun, None) or _format_of_name(name)


def _format_of_name(name: str | Path) -> NetworkFormat | None:
    """Find the notation of a name's suffix, packed or not."""
    plain = str(name).removesuffix(PACKED)
    return next((form for form in network_formats().values() if plain.endswith(form.endings)), None)


def written_format(name: str) -> NetworkFormat:
    """Return the notation of a name, one that can be written.

    Raises:
        InputError: no such notation, or it is only read.
    """
    form = network_formats().get(name)
    require(bool(network_formats()), NO_FORMATS)
    if form is None or form.write is None:
        raise InputError(f"cannot write {shown(name)}; the formats are: {', '.join(written_names())}")
    return form


def written_names() -> tuple[str, ...]:
    """List the names of the notations that can be written."""
    return tuple(form.name for form in network_formats().values() if form.write is not None)


def notation_of(name: str | Path) -> str:
    """Return the notation in which a file is written: that of its suffix, packed or not, else BIF.

    Example:
        >>> notation_of("asia.xml.gz"), notation_of("asia.bif")
        ('xmlbif', 'bif')
    """
    form = _format_of_name(name)
    return OWN_NOTATION if form is None else form.name


def ends_as_network(name: str) -> bool:
    """Return True if a name has a suffix of a network file, packed or not.

    Example:
        >>> ends_as_network("asia.bif.gz"), ends_as_network("asia.csv")
        (True, False)
    """
    return _format_of_name(name) is not None


def holds_network(text: str, name: str) -> bool:
    """Return True if a text is a network file, by its beginning or its name's suffix; else it can only be arcs.

    Example:
        >>> holds_network("<?xml version='1.0'?>", "x"), holds_network("smoke -> lung", "x")
        (True, False)
    """
    return format_of(text, name) is not None


def parse_network(text: str, *, where: str) -> NetworkContent:
    """Parse the text of a network file, with its probabilities.

    Args:
        text: in a notation that is registered.
        where: name of the file in errors.

    Returns:
        Variables, parents and probabilities.

    Raises:
        InputError: no such notation, or more than `limits.py` allows; the message has the line number.

    Example:
        >>> parse_network("variable a { type discrete { x }; } probability ( a ) { }", where="a.bif").parents
        {'a': ()}
    """
    return _find_format(text, where).read(text, where=where)


def parse_structure(text: str, *, where: str) -> Network:
    """Parse the structure of a network file; its numbers are not looked at.

    Args:
        text: in a notation that is registered.
        where: name of the file in errors.

    Returns:
        The network; warns of the content's notes.

    Raises:
        InputError: as in `parse_network`, or a cycle; never a number of a table.

    Example:
        >>> text = "variable a { type discrete { x, y }; } probability ( a ) { table 0.5 0.6; }"
        >>> parse_structure(text, where="a.bif").nodes
        ('a',)
    """
    content = _find_format(text, where).read_structure(text, where=where)
    return network_of(_warn_of_notes(content), where=where)


def _find_format(text: str, where: str) -> NetworkFormat:
    """Find the notation of a text, which is a network file."""
    form = format_of(text, where)
    require(bool(network_formats()), NO_FORMATS)
    if form is None:
        raise InputError(
            f"{shown_path(where)} does not begin as a network file does ({', '.join(network_formats())}); arcs and "
            "model strings have no states: read them with Network.read_edges, or --schema"
        )
    return form


def read_network(path: str | Path) -> NetworkContent:
    """Read a network file with its probabilities.

    Args:
        path: of a file in a registered notation, or the same packed by gzip (detected by content).

    Returns:
        Variables, parents and probabilities; warns of the content's notes.

    Raises:
        InputError: no such file, not UTF-8 nor what it declares, or as in `parse_network`.
    """
    return _warn_of_notes(parse_network(read_packed_text(path, "network", NETWORK_BYTES), where=str(path)))


def _warn_of_notes(content: NetworkContent) -> NetworkContent:
    """Warn of what a reader changed or took for granted."""
    for note in content.notes:
        warnings.warn(note, stacklevel=5)  # the caller of `Tables.read`
    return content


def format_network(content: NetworkContent, notation: str) -> str:
    """Write the text of a network file.

    Args:
        content: variables, parents and probabilities.
        notation: "bif", "xmlbif", or another that can be written.

    Returns:
        The text.

    Raises:
        InputError: no such notation, or a name that it cannot express.
    """
    write = written_format(notation).write
    assert write is not None
    return write(content)


def write_network(path: str | Path, content: NetworkContent, notation: str | None = None) -> None:
    """Write a network file completely, or leave it as it was.

    Args:
        path: of the file; with suffix `.gz` it is packed by gzip.
        content: variables, parents and probabilities.
        notation: None for that of the file's suffix.

    Raises:
        InputError: as in `format_network`, or a file that cannot be written.
    """
    raw = format_network(content, notation or notation_of(path)).encode()
    packed = gzip.compress(raw, mtime=0) if str(path).endswith(PACKED) else raw
    write_whole(packed, Path(path), "network", replace=True)


def network_of(content: NetworkContent, *, where: str) -> Network:
    """Make the network of a file's content.

    Args:
        content: of the file.
        where: the file, for errors.

    Returns:
        The network.

    Raises:
        InputError: the arcs form a cycle, or a table is too large for any machine.
    """
    try:
        return Network(content.variables, content.parents)
    except InputError as error:
        raise InputError(f"{shortened(where)}: {error}") from None


def content_of(tables: Tables, *, name: str = "unknown", properties: tuple[str, ...] = ()) -> NetworkContent:
    """Make the content of a file with probabilities.

    Args:
        tables: of one network.
        name: of the network.
        properties: comments for the network block, such as how the file was made.

    Returns:
        The content of a file.

    Raises:
        InputError: the tables are draws.
    """
    network = tables.network
    return NetworkContent(network.variables, network.parents, tables.require_single("a network file"), name, properties)


def read_structure(path: str | Path) -> Network:
    """Read the structure of a network; see `Network.read`."""
    return parse_structure(read_packed_text(path, "network", NETWORK_BYTES), where=str(path))


def write_structure(network: Network, path: str | Path) -> None:
    """Write the structure of a network; see `Network.write`."""
    write_network(path, NetworkContent(network.variables, network.parents, {}))


def read_tables(path: str | Path) -> Tables:
    """Read probabilities; see `Tables.read`."""
    content = read_network(path)
    network = network_of(content, where=str(path))
    for node in network.nodes:
        if node not in content.arrays:
            raise InputError(f"{shortened(str(path))}: no probabilities of {shown(node)}; add its rows")
    return Tables(network, content.arrays)


def write_tables(tables: Tables, path: str | Path, name: str, properties: tuple[str, ...]) -> None:
    """Write probabilities; see `Tables.write`."""
    write_network(path, content_of(tables, name=name, properties=properties))


def tables_text(tables: Tables, name: str, properties: tuple[str, ...]) -> str:
    """Write probabilities as BIF text; see `Tables.text`."""
    return format_network(content_of(tables, name=name, properties=properties), OWN_NOTATION)
