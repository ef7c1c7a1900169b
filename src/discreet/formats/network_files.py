"""Read and write network files in BIF or XMLBIF, and detect the notation.

The beginning of a file decides, because files are renamed and come through pipes; if it does not, the suffix of the
name does. A file is written in the notation of its suffix.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Literal

from discreet.errors import InputError, shortened, shown
from discreet.formats.bif import parse_bif
from discreet.formats.bif_content import Bif
from discreet.formats.bif_writing import format_bif
from discreet.formats.xmlbif import format_xmlbif, parse_xmlbif
from discreet.model.arcs import begins_as_bif
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.util.json_files import read_packed_text, write_whole
from discreet.util.limits import NETWORK_BYTES

Notation = Literal["bif", "xmlbif"]

BIF_ENDINGS, XMLBIF_ENDINGS, PACKED = (".bif",), (".xml", ".xmlbif", ".bifxml"), ".gz"
"""Suffixes of names; the last one of XMLBIF is pyAgrum's."""
XMLBIF_START = re.compile(r"\s*+<(?:\?xml\b|!--|!DOCTYPE\b|BIF\b)")
"""Beginning of XMLBIF; BIF and arcs never begin like this."""


def notation_of(name: str | Path) -> Notation:
    """Return the notation for a name: XMLBIF by its suffix, packed or not, else BIF.

    Example:
        >>> notation_of("asia.xml.gz"), notation_of("asia.bif")
        ('xmlbif', 'bif')
    """
    return "xmlbif" if str(name).removesuffix(PACKED).endswith(XMLBIF_ENDINGS) else "bif"


def ends_as_network(name: str) -> bool:
    """Return True if a name has a suffix of BIF or XMLBIF, packed or not.

    Example:
        >>> ends_as_network("asia.bif.gz"), ends_as_network("asia.csv")
        (True, False)
    """
    return name.removesuffix(PACKED).endswith((*BIF_ENDINGS, *XMLBIF_ENDINGS))


def holds_network(text: str, name: str) -> bool:
    """Return True if a text is BIF or XMLBIF, by its beginning or its name's suffix; else it can only be arcs.

    Example:
        >>> holds_network("<?xml version='1.0'?>", "x"), holds_network("smoke -> lung", "x")
        (True, False)
    """
    return ends_as_network(name) or begins_as_bif(text) or XMLBIF_START.match(text) is not None


def parse_network(text: str, *, where: str) -> Bif:
    """Parse the text of a network file.

    Args:
        text: BIF or XMLBIF.
        where: name of the file in errors.

    Returns:
        Variables, parents and probabilities.

    Raises:
        InputError: neither of the two, or more than `limits.py` allows; the message has the line number.

    Example:
        >>> parse_network("variable a { type discrete { x }; } probability ( a ) { }", where="a.bif").parents
        {'a': ()}
    """
    xml = XMLBIF_START.match(text) is not None or (notation_of(where) == "xmlbif" and not begins_as_bif(text))
    return (parse_xmlbif if xml else parse_bif)(text, where=where)


def read_network(path: str | Path) -> Bif:
    """Read a network file.

    Args:
        path: BIF or XMLBIF in UTF-8, or the same packed by gzip (detected by content).

    Returns:
        Variables, parents and probabilities.

    Raises:
        InputError: no such file, not UTF-8, or as in `parse_network`.
    """
    return parse_network(read_packed_text(path, "network", NETWORK_BYTES), where=str(path))


def format_network(bif: Bif, notation: Notation) -> str:
    """Write the text of a network file.

    Args:
        bif: variables, parents and probabilities.
        notation: "bif" or "xmlbif".

    Returns:
        The text.

    Raises:
        InputError: a name that the notation cannot express.
    """
    return (format_xmlbif if notation == "xmlbif" else format_bif)(bif)


def write_network(path: str | Path, bif: Bif, notation: Notation | None = None) -> None:
    """Write a network file completely, or leave it as it was.

    Args:
        path: of the file; with suffix `.gz` it is packed by gzip.
        bif: variables, parents and probabilities.
        notation: None for that of the file's suffix.

    Raises:
        InputError: as in `format_network`, or a file that cannot be written.
    """
    raw = format_network(bif, notation or notation_of(path)).encode()
    packed = gzip.compress(raw, mtime=0) if str(path).endswith(PACKED) else raw
    write_whole(packed, Path(path), "network", replace=True)


def network_of(bif: Bif, *, where: str) -> Network:
    """Make the network of a file's content.

    Args:
        bif: its content.
        where: the file, for errors.

    Returns:
        The network.

    Raises:
        InputError: the arcs form a cycle, or a table is too large for any machine.
    """
    try:
        return Network(bif.variables, bif.parents)
    except InputError as error:
        raise InputError(f"{shortened(where)}: {error}") from None


def bif_of(tables: Tables, *, name: str = "unknown", properties: tuple[str, ...] = ()) -> Bif:
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
    return Bif(network.variables, network.parents, tables.require_single("a network file"), name, properties)


def read_structure(path: str | Path) -> Network:
    """Read the structure of a network; see `Network.read`."""
    return network_of(read_network(path), where=str(path))


def write_structure(network: Network, path: str | Path) -> None:
    """Write the structure of a network; see `Network.write`."""
    write_network(path, Bif(network.variables, network.parents, {}))


def read_tables(path: str | Path) -> Tables:
    """Read probabilities; see `Tables.read`."""
    bif = read_network(path)
    network = network_of(bif, where=str(path))
    for node in network.nodes:
        if node not in bif.arrays:
            raise InputError(f"{shortened(str(path))}: no probabilities of {shown(node)}; add its rows")
    return Tables(network, bif.arrays)


def write_tables(tables: Tables, path: str | Path, name: str, properties: tuple[str, ...]) -> None:
    """Write probabilities; see `Tables.write`."""
    write_network(path, bif_of(tables, name=name, properties=properties))


def tables_text(tables: Tables, name: str, properties: tuple[str, ...]) -> str:
    """Write probabilities as BIF text; see `Tables.text`."""
    return format_bif(bif_of(tables, name=name, properties=properties))
