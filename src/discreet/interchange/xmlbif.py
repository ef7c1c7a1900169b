"""Read XMLBIF, the XML interchange format for Bayesian networks, as programs write it; write what others read.

The grammar is that of XMLBIF 0.3. A `TABLE` has a row for each joint state of the parents, in the order of `GIVEN`, the
last varying fastest; a row has the probabilities of the states of `FOR`. A definition without a table, or with zeros
only (which pyAgrum writes for unfilled tables), declares structure only. Bounds and bins of a numeric variable are
properties such as `discreet-bounds = 0.0 120.0`; pgmpy reads the form `name = value`. Blanks around a name are dropped,
because half of the programs drop them.

The text may come from anybody. A document type may declare elements, and few attributes. Entities are refused at their
declaration, so none is ever expanded, and no external resource is loaded. Time and memory are proportional to the
text's length, and tables are allocated only after their total size was checked (`limits.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from typing import NoReturn
from xml.parsers import expat

import numpy as np

from discreet.errors import InputError, shortened, shown
from discreet.formats.network_content import NetworkContent
from discreet.interchange.bif_content import (
    NUMERIC_NOTES,
    SIX_DIGITS,
    RowScaling,
    note_missing_blocks,
    noted_variable,
    scaled_table,
)
from discreet.model.schema import Variable, table_cells
from discreet.util.arrays import Floats
from discreet.util.limits import (
    NETWORK_BYTES,
    PARENTS,
    STATES,
    STATES_IN_ALL,
    VARIABLES,
    XML_ATTRIBUTES,
    at_most,
    free_cells,
)

CHILDREN = {
    "": ("BIF",),
    "BIF": ("NETWORK",),
    "NETWORK": ("NAME", "PROPERTY", "VARIABLE", "DEFINITION"),
    "VARIABLE": ("NAME", "OUTCOME", "PROPERTY"),
    "DEFINITION": ("FOR", "GIVEN", "TABLE", "PROPERTY"),
}
"""Elements that an element may contain; all others contain only text."""
BLANKS = " \t\r\n"
"""White space of XML."""
NUMBER = re.compile(rf"[^{BLANKS}]++")
LINE_BREAKS = re.compile(rf"[{BLANKS}]*[\r\n][{BLANKS}]*")
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Character that XML text cannot contain."""
XML_START = re.compile(r"\s*+<(?:\?xml\b|!--|!DOCTYPE\b|BIF\b)")
"""Beginning of XMLBIF; BIF and arcs never begin like this."""
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
NOTE = {"discreet-integer": "yes", "discreet-missing": "last"}
"""Values of notes on a variable that have no numbers."""


# -------------------------------------------------------------------------------------------------------------- reading


def begins_as_xml(text: str) -> bool:
    """Return True if a network file begins as XML.

    Example:
        >>> begins_as_xml(" <?xml version='1.0'?>"), begins_as_xml("smoke -> lung")
        (True, False)
    """
    return XML_START.match(text) is not None


def parse_xmlbif(text: str, *, where: str = "XMLBIF text") -> NetworkContent:
    """Parse XMLBIF text.

    Args:
        text: the file's content; its encoding declaration is ignored, and so are blanks before it.
        where: name of the text in errors.

    Returns:
        Variables, parents and probabilities.

    Raises:
        InputError: not XMLBIF, an entity, or more than `limits.py` allows; the message has the line number.

    Source:
        F. Cozman, The Interchange Format for Bayesian Networks: XMLBIF, version 0.3: the numbers of a table stand "in
        the counting order of the declared variables, taking the GIVEN variables first and then the FOR variables".

    Example:
        >>> bif = parse_xmlbif(
        ...     "<BIF><NETWORK><VARIABLE><NAME>wet</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>"
        ...     "<DEFINITION><FOR>wet</FOR><TABLE>0.7 0.3</TABLE></DEFINITION></NETWORK></BIF>"
        ... )
        >>> bif.variables[0].states, bif.arrays["wet"].tolist()
        (('no', 'yes'), [0.7, 0.3])
    """
    return _XmlHandler(text, where).file()


def parse_xmlbif_structure(text: str, *, where: str = "XMLBIF text") -> NetworkContent:
    """Parse the variables and parents of XMLBIF text; its numbers are not looked at. Else as `parse_xmlbif`.

    Example:
        >>> xml = parse_xmlbif_structure(
        ...     "<BIF><NETWORK><VARIABLE><NAME>wet</NAME><OUTCOME>yes</OUTCOME></VARIABLE>"
        ...     "<DEFINITION><FOR>wet</FOR><TABLE>0.3 none</TABLE></DEFINITION></NETWORK></BIF>"
        ... )
        >>> xml.parents, dict(xml.arrays)
        ({'wet': ()}, {})
    """
    return _XmlHandler(text, where).structure()


@dataclass
class _XmlBlock:
    """Texts of a `VARIABLE` or `DEFINITION` by element, in their order, and the first line of each."""

    line: int
    texts: dict[str, list[str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def all(self, element: str) -> tuple[str, ...]:
        """Return the texts of an element."""
        return tuple(self.texts.get(element, ()))


@dataclass(frozen=True)
class _Definition:
    """A definition before its numbers are read."""

    node: str
    parents: tuple[str, ...]
    table: str
    line: int
    table_line: int


class _XmlHandler:
    """Handlers of expat for one text: blocks stay text until the last one is read."""

    def __init__(self, text: str, where: str) -> None:
        at_most(NETWORK_BYTES, text, "characters of XMLBIF")
        self.where = shortened(where)
        # A declaration stands at the very beginning in XML, but not in all files.
        self.text = text.lstrip(BLANKS)
        self.lines_before = text.count("\n", 0, len(text) - len(self.text))
        self.scaling = RowScaling(SIX_DIGITS)
        self.path = [""]
        self.parts: list[str] = []
        self.network, self.block = _XmlBlock(1), _XmlBlock(1)
        self.networks = self.attributes = self.states = 0
        self.variables: dict[str, Variable] = {}
        self.definitions: dict[str, _Definition] = {}
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.specified_attributes = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.EntityDeclHandler = self.refuse_entity
        self.parser.SkippedEntityHandler = self.refuse_entity
        self.parser.AttlistDeclHandler = self.count_attribute

    def fail(self, line: int, message: str) -> NoReturn:
        """Refuse the text with the number of a line."""
        raise InputError(f"{self.where}, line {line}: {message}")

    @property
    def line(self) -> int:
        """Number of the current line."""
        return self.parser.CurrentLineNumber + self.lines_before

    def limit(self, most: int, count: int, noun: str) -> None:
        """Refuse a number above a limit."""
        try:
            at_most(most, count, noun)
        except InputError as error:
            self.fail(self.line, str(error))

    def file(self) -> NetworkContent:
        """Parse the whole file."""
        content = self.structure()
        self.check_cells()
        arrays = {name: array for name, block in self.definitions.items() if (array := self.array(block)) is not None}
        arrays = {name: arrays[name] for name in self.variables if name in arrays}
        return replace(content, arrays=arrays, notes=(*content.notes, *self.scaling.notes))

    def structure(self) -> NetworkContent:
        """Parse the file without its numbers."""
        try:
            self.parser.Parse(self.text.encode("utf-8", "surrogatepass"), True)
        except expat.ExpatError as error:
            line, fault = error.lineno + self.lines_before, expat.ErrorString(error.code)
            self.fail(line, f"not XML ({fault}); in XML '<' and '&' of a name are written '&lt;' and '&amp;'")
        if not self.variables:
            raise InputError(f"{self.where}: no VARIABLE in it; is this an XMLBIF file?")
        self.check_names()
        parents = {name: self.definitions[name].parents if name in self.definitions else () for name in self.variables}
        name = next(filter(None, self.network.all("NAME")), "unknown")
        properties = tuple(LINE_BREAKS.sub(" ", text) for text in self.network.all("PROPERTY"))
        notes = note_missing_blocks(
            self.where, [name for name in parents if name not in self.definitions], "DEFINITION"
        )
        return NetworkContent(tuple(self.variables.values()), parents, {}, name, properties, notes)

    # ---------------------------------------------------------------------------------------------------- elements

    def refuse_entity(self, name: str, *_: object) -> NoReturn:
        """Refuse an entity: no network needs one, and it may be anything."""
        self.fail(self.line, f"an entity {shown(name)}, which no network needs; write its text itself")

    def count_attribute(self, *_: object) -> None:
        """Count the attributes that a document type declares."""
        self.attributes += 1
        self.limit(XML_ATTRIBUTES, self.attributes, "declared attributes")

    def start(self, element: str, attributes: Mapping[str, str]) -> None:
        """Start an element."""
        children = CHILDREN.get(self.path[-1], ())
        if element not in children:
            wanted = f"expected {' or '.join(children)}" if children else f"expected text in {self.path[-1]}"
            self.fail(self.line, f"{wanted}, got the element {shown(element)}")
        self.path.append(element)
        self.parts = []
        if element == "NETWORK":
            self.networks += 1
            self.block = self.network
            self.limit(1, self.networks, "networks")
        elif element in CHILDREN:
            self.block = _XmlBlock(self.line)
        else:
            self.block.lines.setdefault(element, self.line)
        kind = attributes.get("TYPE", "nature")
        if element == "VARIABLE" and kind != "nature":
            self.fail(self.line, f"a variable of type {shown(kind)}; a network has variables of nature alone")

    def characters(self, text: str) -> None:
        """Take text of an element, or a part of it."""
        if self.path[-1] not in CHILDREN:
            self.parts.append(text)
        elif text.strip(BLANKS):
            # The text before an element arrives when the element starts.
            begun = self.line - text.lstrip(BLANKS).count("\n")
            self.fail(begun, f"text outside the elements of a network: {shown(text.strip(BLANKS))}")

    def end(self, element: str) -> None:
        """End an element."""
        self.path.pop()
        if element == "VARIABLE":
            self.add_variable(self.block)
            self.block = self.network
        elif element == "DEFINITION":
            self.add_definition(self.block)
            self.block = self.network
        elif element not in CHILDREN:
            texts = self.block.texts.setdefault(element, [])
            texts.append("".join(self.parts).strip(BLANKS))
            most = {"OUTCOME": STATES, "GIVEN": PARENTS}.get(element)
            if most is not None:
                self.limit(most, len(texts), "states of a variable" if element == "OUTCOME" else "parents of a node")

    def single_text(self, block: _XmlBlock, element: str) -> str:
        """Return the text of an element that must occur once."""
        texts = block.all(element)
        if len(texts) != 1 or not texts[0]:
            self.fail(block.line, f"expected one {element} with a text, got {len(texts)}")
        return texts[0]

    def add_variable(self, block: _XmlBlock) -> None:
        """Make a variable from its block."""
        name, states = self.single_text(block, "NAME"), block.all("OUTCOME")
        if name in self.variables:
            self.fail(block.line, f"variable {shown(name)} is declared twice")
        if not states:
            self.fail(block.line, f"variable {shown(name)} declares no states")
        self.states += len(states)
        self.limit(STATES_IN_ALL, self.states, "states of all variables")
        numeric = dict[str, tuple[float, ...]]()
        for key, _, value in (text.partition("=") for text in block.all("PROPERTY")):
            if key.strip(BLANKS) in NUMERIC_NOTES:
                numeric[key.strip(BLANKS)] = () if key.strip(BLANKS) in NOTE else self.floats(value, block.line)
        try:
            self.variables[name] = noted_variable(name, states, numeric)
        except InputError as error:
            self.fail(block.line, str(error))
        self.limit(VARIABLES, len(self.variables), "variables")

    def floats(self, text: str, line: int) -> tuple[float, ...]:
        """Read the numbers of a property such as `discreet-bounds`."""
        try:
            return tuple(map(float, text.split()))
        except ValueError:
            self.fail(line, f"expected numbers, got {shown(text.strip())}")

    def add_definition(self, block: _XmlBlock) -> None:
        """Store a definition; its variables may be declared after it."""
        node, tables = self.single_text(block, "FOR"), block.all("TABLE")
        if node in self.definitions:
            self.fail(block.line, f"variable {shown(node)} has two definitions")
        if len(tables) > 1:
            self.fail(block.line, f"the definition of {shown(node)} has {len(tables)} tables")
        parents, table_line = block.all("GIVEN"), block.lines.get("TABLE", block.line)
        self.definitions[node] = _Definition(node, parents, "".join(tables), block.line, table_line)

    # ------------------------------------------------------------------------------------------------------ tables

    def check_names(self) -> None:
        """Refuse definitions of undeclared variables."""
        for block in self.definitions.values():
            for name in (block.node, *block.parents):
                if name not in self.variables:
                    self.fail(
                        block.line, f"the definition of {shown(block.node)} names an undeclared variable {shown(name)}"
                    )

    def check_cells(self) -> None:
        """Refuse tables that are too large, alone or in total, before the first is allocated."""
        total = 0
        for block in self.definitions.values():
            if block.table:
                try:
                    total += table_cells(self.variables[name].size for name in (*block.parents, block.node))
                    at_most(free_cells(len(self.text)), total, "cells of all tables")
                except InputError as error:
                    self.fail(block.line, f"{shown(block.node)}: {error}; give it fewer parents")

    def array(self, block: _Definition) -> Floats | None:
        """Make the table of a definition, axes `(*parents, child)`; None without numbers."""
        if not block.table:
            return None
        shape = tuple(self.variables[name].size for name in (*block.parents, block.node))
        cells = int(np.prod(shape))
        numbers = np.fromiter(islice(self.numbers(block), cells + 1), float)
        if numbers.size != cells:
            got = "more" if numbers.size > cells else f"{numbers.size}"
            self.fail(block.table_line, f"the table of {shown(block.node)} needs {cells} numbers, got {got}")
        if not numbers.any():
            return None
        family = [self.variables[name] for name in (*block.parents, block.node)]

        @cache
        def words() -> list[str]:
            return NUMBER.findall(block.table)

        try:
            place = f"{self.where}, line {block.table_line}"
            return scaled_table(numbers.reshape(shape), family, self.scaling, words, lambda: place)
        except InputError as error:
            self.fail(block.table_line, str(error))

    def numbers(self, block: _Definition) -> Iterator[float]:
        """Parse the numbers of a table, one by one."""
        for match in NUMBER.finditer(block.table):
            try:
                yield float(match[0])
            except ValueError:
                self.fail(block.table_line, f"expected a probability of {shown(block.node)}, got {shown(match[0])}")


# -------------------------------------------------------------------------------------------------------------- writing


def format_xmlbif(bif: NetworkContent) -> str:
    """Write XMLBIF text, without a document type: pyAgrum 3.3 reads none.

    Args:
        bif: variables, parents and probabilities.

    Returns:
        The text; probabilities have the shortest text that reads back exactly.

    Raises:
        InputError: a name begins or ends with a blank, or holds a character that XML cannot express.

    Example:
        >>> wet = Variable("wet", ("<5", "5+"))
        >>> text = format_xmlbif(NetworkContent((wet,), {"wet": ()}, {"wet": np.array([0.7, 0.3])}))
        >>> "<OUTCOME>&lt;5</OUTCOME>" in text, parse_xmlbif(text).arrays["wet"].tolist()
        (True, [0.7, 0.3])
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>"]
    lines += [_write("NAME", _check(bif.name)), *(_write("PROPERTY", _check_text(line)) for line in bif.properties)]
    for variable in bif.variables:
        lines += ['<VARIABLE TYPE="nature">', f"  {_write('NAME', _check(variable.name))}"]
        lines += [f"  {_write('OUTCOME', _check(state))}" for state in variable.states]
        lines += [f"  {_write('PROPERTY', note)}" for note in _notes(variable)]
        lines.append("</VARIABLE>")
    for node, parents in bif.parents.items():
        lines += ["<DEFINITION>", f"  {_write('FOR', node)}", *(f"  {_write('GIVEN', parent)}" for parent in parents)]
        if node in bif.arrays:
            rows = bif.arrays[node].reshape(-1, bif.arrays[node].shape[-1]).tolist()
            lines += ["  <TABLE>", *(f"    {' '.join(map(repr, map(float, row)))}" for row in rows), "  </TABLE>"]
        lines.append("</DEFINITION>")
    return "\n".join([*lines, "</NETWORK>", "</BIF>"]) + "\n"


def _notes(variable: Variable) -> Iterator[str]:
    """List the notes on a variable beside its states."""
    # What does not apply cannot be said: such numbers are states, to which a schema or project adds the bounds.
    numeric = variable.numeric and variable.not_applicable is None
    numbers = {"discreet-bounds": variable.bounds or (), "discreet-bins": variable.bins} if numeric else {}
    yield from (f"{key} = {' '.join(map(repr, values))}" for key, values in numbers.items() if values)
    holds = {"discreet-integer": numeric and variable.whole, "discreet-missing": variable.missing is not None}
    yield from (f"{key} = {NOTE[key]}" for key, is_set in holds.items() if is_set)


def _write(element: str, text: str) -> str:
    """Write an element with a text."""
    return f"<{element}>{text.translate(ESCAPES)}</{element}>"


def _check(name: str) -> str:
    """Check that XMLBIF can express a name."""
    if not name:
        raise InputError("an XMLBIF network needs a name that is not empty")
    if name != name.strip(BLANKS):
        raise InputError(f"name {shown(name)} begins or ends with a blank, which XMLBIF cannot express; rename it")
    return _check_text(name)


def _check_text(text: str) -> str:
    """Check that XML can express a text."""
    if NO_XML.search(text):
        raise InputError(f"{shown(text)} has a character that XML cannot express; rename it")
    return text
