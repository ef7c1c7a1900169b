"""XMLBIF, the interchange format for Bayesian networks in XML: read what is really out there, write what others read.

The grammar is that of XMLBIF 0.3. A `TABLE` has a row for each joint state of the parents, in the order of `GIVEN`, of
which the last changes fastest; in a row stand the probabilities of the states of `FOR`. A definition without a table,
or with one of zeros alone (which pyAgrum writes for tables that nobody filled), declares structure only. Bounds and
bins of a numeric variable are properties such as `discreet-bounds = 0.0 120.0`; the form `name = value` is the one that
pgmpy reads. Blanks around a name are no part of it, because half of the programs drop them.

The text may come from anybody. A document type may declare elements, and few attributes; entities are refused where
they are declared, so none is ever expanded, and nothing that a text names is loaded. Time and memory are proportional
to its length, and tables are made only after all of them together were found to fit (`limits.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NoReturn
from xml.parsers import expat

import numpy as np

from discreet.errors import InputError, shortened, shown
from discreet.formats.bif_content import NUMERIC_NOTES, Bif, noted_variable, scaled_table
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
"""Elements that may stand in an element; all others hold text alone."""
BLANKS = " \t\r\n"
"""What XML takes for blank."""
NUMBER = re.compile(rf"[^{BLANKS}]++")
LINE_BREAKS = re.compile(rf"[{BLANKS}]*[\r\n][{BLANKS}]*")
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that no XML text can hold."""
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
NOTE = {"discreet-integer": "yes", "discreet-missing": "last"}
"""What is said of a variable without numbers."""


# -------------------------------------------------------------------------------------------------------------- reading


def parse_xmlbif(text: str, *, where: str = "XMLBIF text") -> Bif:
    """Parse XMLBIF text.

    Args:
        text: the file's content; what it says of its encoding is passed over.
        where: named in errors.

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
    at_most(NETWORK_BYTES, text, "characters of XMLBIF")
    return _XmlHandler(text, where).file()


@dataclass
class _XmlBlock:
    """A `VARIABLE` or `DEFINITION`: the texts of its elements, in their order, and the line in which each begins."""

    line: int
    texts: dict[str, list[str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def all(self, element: str) -> tuple[str, ...]:
        """The texts of an element."""
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
    """What expat calls for one text: blocks are kept as texts until the last one is read."""

    def __init__(self, text: str, where: str) -> None:
        self.where = shortened(where)
        self.text = text
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
        """Refuse the text."""
        raise InputError(f"{self.where}, line {line}: {message}")

    @property
    def line(self) -> int:
        """The line that is being read."""
        return self.parser.CurrentLineNumber

    def limit(self, most: int, found: int, what: str) -> None:
        """Refuse what is too many."""
        try:
            at_most(most, found, what)
        except InputError as error:
            self.fail(self.line, str(error))

    def file(self) -> Bif:
        """The whole file."""
        try:
            self.parser.Parse(self.text.encode("utf-8", "surrogatepass"), True)
        except expat.ExpatError as error:
            fault = expat.ErrorString(error.code)
            self.fail(error.lineno, f"not XML ({fault}); in XML '<' and '&' of a name are written '&lt;' and '&amp;'")
        if not self.variables:
            raise InputError(f"{self.where}: no VARIABLE in it; is this an XMLBIF file?")
        self.check_names()
        self.check_cells()
        arrays = {name: array for name in self.variables if (array := self.array(self.definitions[name])) is not None}
        parents = {name: self.definitions[name].parents for name in self.variables}
        name = next(filter(None, self.network.all("NAME")), "unknown")
        properties = tuple(LINE_BREAKS.sub(" ", text) for text in self.network.all("PROPERTY"))
        return Bif(tuple(self.variables.values()), parents, arrays, name, properties)

    # ---------------------------------------------------------------------------------------------------- elements

    def refuse_entity(self, name: str, *_: object) -> NoReturn:
        """An entity is never what a network needs, and may be anything."""
        self.fail(self.line, f"an entity {shown(name)}, which no network needs; write its text itself")

    def count_attribute(self, *_: object) -> None:
        """Count the attributes that a document type declares."""
        self.attributes += 1
        self.limit(XML_ATTRIBUTES, self.attributes, "declared attributes")

    def start(self, element: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        known = CHILDREN.get(self.path[-1], ())
        if element not in known:
            wanted = f"expected {' or '.join(known)}" if known else f"expected text in {self.path[-1]}"
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
        """Text of an element, or a part of it."""
        if self.path[-1] not in CHILDREN:
            self.parts.append(text)
        elif text.strip(BLANKS):
            # What is read is handed on at the next element.
            begun = self.line - text.lstrip(BLANKS).count("\n")
            self.fail(begun, f"a text outside of the elements of a network: {shown(text.strip(BLANKS))}")

    def end(self, element: str) -> None:
        """An element ends."""
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

    def one(self, block: _XmlBlock, element: str) -> str:
        """The text of an element that is there once."""
        texts = block.all(element)
        if len(texts) != 1 or not texts[0]:
            self.fail(block.line, f"expected one {element} with a text, got {len(texts)}")
        return texts[0]

    def add_variable(self, block: _XmlBlock) -> None:
        """Make a variable of its block."""
        name, states = self.one(block, "NAME"), block.all("OUTCOME")
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
        """Keep a definition; its variables may be declared below it."""
        node, tables = self.one(block, "FOR"), block.all("TABLE")
        if node in self.definitions:
            self.fail(block.line, f"variable {shown(node)} has two definitions")
        if len(tables) > 1:
            self.fail(block.line, f"the definition of {shown(node)} has {len(tables)} tables")
        parents, table_line = block.all("GIVEN"), block.lines.get("TABLE", block.line)
        self.definitions[node] = _Definition(node, parents, "".join(tables), block.line, table_line)

    # ------------------------------------------------------------------------------------------------------ tables

    def check_names(self) -> None:
        """Refuse definitions of undeclared variables, and variables without a definition."""
        for one in self.definitions.values():
            for known in (one.node, *one.parents):
                if known not in self.variables:
                    self.fail(
                        one.line, f"the definition of {shown(one.node)} names an undeclared variable {shown(known)}"
                    )
        for name in self.variables:
            if name not in self.definitions:
                raise InputError(f"{self.where}: variable {shown(name)} has no definition; add one")

    def check_cells(self) -> None:
        """Refuse tables that are too large, one by one and all together, before the first is made."""
        total = 0
        for one in self.definitions.values():
            if one.table:
                try:
                    total += table_cells(self.variables[name].size for name in (*one.parents, one.node))
                    at_most(free_cells(len(self.text)), total, "cells of all tables")
                except InputError as error:
                    self.fail(one.line, f"{shown(one.node)}: {error}; give it fewer parents")

    def array(self, one: _Definition) -> Floats | None:
        """The table of a definition, axes `(*parents, child)`; None where it says nothing."""
        if not one.table:
            return None
        shape = tuple(self.variables[name].size for name in (*one.parents, one.node))
        cells = int(np.prod(shape))
        found = np.fromiter(islice(self.numbers(one), cells + 1), float)
        if found.size != cells:
            got = "more" if found.size > cells else f"{found.size}"
            self.fail(one.table_line, f"the table of {shown(one.node)} needs {cells} numbers, got {got}")
        if not found.any():
            return None
        try:
            return scaled_table(found.reshape(shape), [self.variables[name] for name in (*one.parents, one.node)])
        except InputError as error:
            self.fail(one.table_line, str(error))

    def numbers(self, one: _Definition) -> Iterator[float]:
        """The numbers of a table, one after the other."""
        for match in NUMBER.finditer(one.table):
            try:
                yield float(match[0])
            except ValueError:
                self.fail(one.table_line, f"expected a probability of {shown(one.node)}, got {shown(match[0])}")


# -------------------------------------------------------------------------------------------------------------- writing


def format_xmlbif(bif: Bif) -> str:
    """Write XMLBIF text, without a document type: pyAgrum 3.3 reads none.

    Args:
        bif: variables, parents and probabilities.

    Returns:
        The text; probabilities have the shortest text that reads back exactly.

    Raises:
        InputError: a name begins or ends with a blank, or holds a character that XML cannot express.

    Example:
        >>> wet = Variable("wet", ("<5", "5+"))
        >>> text = format_xmlbif(Bif((wet,), {"wet": ()}, {"wet": np.array([0.7, 0.3])}))
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
    """What is said of a variable beside its states."""
    numbers = {"discreet-bounds": variable.bounds or (), "discreet-bins": variable.bins}
    yield from (f"{key} = {' '.join(map(repr, values))}" for key, values in numbers.items() if values)
    holds = {"discreet-integer": variable.type == "integer", "discreet-missing": variable.missing is not None}
    yield from (f"{key} = {NOTE[key]}" for key, said in holds.items() if said)


def _write(element: str, text: str) -> str:
    """An element with a text."""
    return f"<{element}>{text.translate(ESCAPES)}</{element}>"


def _check(name: str) -> str:
    """A name that XMLBIF can express."""
    if not name:
        raise InputError("an XMLBIF network needs a name that is not empty")
    if name != name.strip(BLANKS):
        raise InputError(f"name {shown(name)} begins or ends with a blank, which XMLBIF cannot express; rename it")
    return _check_text(name)


def _check_text(text: str) -> str:
    """A text that XML can express."""
    if NO_XML.search(text):
        raise InputError(f"{shown(text)} holds a character that XML cannot express; rename it")
    return text
