"""Recognise network files of Hugin, GeNIe, UAI, MSBN, Netica and others, and read through pyAgrum what it reads.

A notation is known by its first lines. Those that pyAgrum reads are given to it, in a file of the encoding that it
expects; its numbers have single precision. What it does not read is refused with a program that converts it. pyAgrum's
readers are not this package's: unlike `bif.py` and `xmlbif.py` they promise nothing about texts from anybody.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from discreet.errors import InputError, shortened
from discreet.formats.network_content import NetworkContent, NetworkFormat
from discreet.interchange.bif_content import SIX_DIGITS, RowScaling
from discreet.interchange.conversions import arrays_of_pyagrum, import_package, network_of_pyagrum
from discreet.model.network import Network
from discreet.util.limits import NETWORK_BYTES, at_most

XML_HEAD = r"\s*+(?:<\?xml[^>]*+>\s*+)?(?:<!--.*?-->\s*+)*+"
"""Declaration and comments before the first element of XML."""
XML_ENCODING = re.compile(r"(\s*+<\?xml[^>]{0,200}?)\sencoding\s*=\s*[\"'][^\"']*+[\"']")
PYAGRUM_ERROR = re.compile(r":(?P<line>\d++): *\d++ : error : (?P<fault>[^\n]*+)")
"""Line and text of an error in what pyAgrum's parsers raise."""
XML_ERROR = re.compile(r"(?P<fault>[^\n]*+).*\bLine: (?P<line>\d++)", re.DOTALL)
"""The same of its reader of XML."""


@dataclass(frozen=True)
class ReadByPyagrum:
    """Readers of a notation that pyAgrum reads.

    Args:
        title: of the notation, for errors.
        ending: of file names, by which pyAgrum knows it.
    """

    title: str
    ending: str

    def parse(self, text: str, *, where: str) -> NetworkContent:
        """Read structure and probabilities.

        Args:
            text: of the file.
            where: its name in errors.

        Raises:
            InputError: pyAgrum is not installed or refuses the text, or a row has no probabilities.
        """
        net, scaling = self._load(text, where), RowScaling(SIX_DIGITS)
        network = _network_of(net, where)
        try:
            arrays = arrays_of_pyagrum(net, network, scaling, shortened(where))
        except InputError as error:
            raise InputError(f"{shortened(where)}: {error}") from None
        return NetworkContent(network.variables, network.parents, arrays, notes=scaling.notes)

    def parse_structure(self, text: str, *, where: str) -> NetworkContent:
        """Read variables and parents alone; else as `parse`."""
        network = _network_of(self._load(text, where), where)
        return NetworkContent(network.variables, network.parents, {})

    def _load(self, text: str, where: str) -> Any:
        """Make pyAgrum's network of a text."""
        at_most(NETWORK_BYTES, text, f"characters of {self.title}")
        try:
            pyagrum = import_package("pyagrum")
        except InputError as error:
            raise InputError(
                f"{shortened(where)}: {self.title}, which is read through pyAgrum; {error}; or save it as BIF in the "
                "program that wrote it"
            ) from None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"network{self.ending}"
            path.write_text(XML_ENCODING.sub(r"\1", text), encoding="utf-8")
            try:
                return pyagrum.loadBN(str(path))
            except pyagrum.GumException as error:
                fault = str(error).removeprefix("[pyAgrum] ").replace(str(path), shortened(where))
                raise InputError(_describe_fault(fault, where, self.title)) from None


@dataclass(frozen=True)
class NotRead:
    """Readers of a notation that is recognised and refused.

    Args:
        title: of the notation, for errors.
        way_round: how to convert it.
    """

    title: str
    way_round: str

    def parse(self, text: str, *, where: str) -> NoReturn:
        """Refuse the text, and say how to convert it."""
        raise InputError(f"{shortened(where)}: {self.title}, which is not read; {self.way_round}")


def _network_of(net: Any, where: str) -> Network:
    """Convert the structure of pyAgrum's network, whose names may be none of ours."""
    try:
        return network_of_pyagrum(net)
    except InputError as error:
        raise InputError(f"{shortened(where)}: {error}") from None


def _describe_fault(fault: str, where: str, title: str) -> str:
    """Describe what pyAgrum raised in one line, with the line of the text if it has one."""
    error = PYAGRUM_ERROR.search(fault) or XML_ERROR.match(fault)
    if error is not None:
        return f"{shortened(where)}, line {error['line']}: pyAgrum cannot read this {title}: {error['fault']}"
    return f"{shortened(where)}: pyAgrum cannot read this {title}: {' '.join(fault.split())[:200]}"


def _read_by_pyagrum(title: str, begins: str, ending: str) -> NetworkFormat:
    """Make the format of a notation that pyAgrum reads."""
    start, reader = re.compile(begins, re.DOTALL), ReadByPyagrum(title, ending)
    return NetworkFormat(
        ending[1:], (ending,), lambda text: start.match(text) is not None, reader.parse, reader.parse_structure
    )


def _not_read(title: str, begins: str, ending: str, way_round: str) -> NetworkFormat:
    """Make the format of a notation that is refused."""
    start, reader = re.compile(begins, re.DOTALL), NotRead(title, way_round)
    return NetworkFormat(ending[1:], (ending,), lambda text: start.match(text) is not None, reader.parse, reader.parse)


BY_GENIE = "open it in GeNIe and save it as XDSL"
FOREIGN_FORMATS = (
    _not_read(
        "a Markov network in UAI",
        r"(?:\s++|#[^\n]*+)*+MARKOV\s++\d",
        ".markov.uai",
        "its factors are no probabilities of a node given its parents: give a Bayesian network",
    ),
    _read_by_pyagrum("UAI", r"(?:\s++|#[^\n]*+)*+BAYES\s++\d", ".uai"),
    _read_by_pyagrum("Hugin NET", r"(?:\s++|(?:%|//)[^\n]*+)*+(?:class\s++\w++\s*+\{\s*+)?net\s*+\{", ".net"),
    _read_by_pyagrum("GeNIe DSL", r"\s*+net\s++\w++\s*+\{", ".dsl"),
    _read_by_pyagrum("GeNIe XDSL", rf"{XML_HEAD}<smile\b", ".xdsl"),
    _not_read(
        "DSC of Microsoft's MSBN",
        r"(?:\s++|//[^\n]*+)*+belief\s++network\b",
        ".dsc",
        f"convert it in R with bnlearn: write.bif('net.bif', read.dsc('net.dsc')); or {BY_GENIE}",
    ),
    _not_read("Netica's DNE", r"(?:\s++|//(?! *~->\[DNET)[^\n]*+)*+(?://|bnet\b)", ".dne", BY_GENIE),
    _not_read(
        "XBN of Microsoft's MSBN",
        rf"{XML_HEAD}<(?:!DOCTYPE\s++)?ANALYSISNOTEBOOK\b",
        ".xbn",
        f"convert it with pgmpy: Network.from_pgmpy(pgmpy.readwrite.XBNReader(path).get_model()); or {BY_GENIE}",
    ),
)
"""Notations of other programs; a beginning is asked before a name's ending."""
