"""Read the Bayesian Interchange Format as programs write it; `bif_writing.py` writes what every reader accepts.

`xmlbif.py` has the same content in XML, and `network_files.py` detects the notation of a file.

The grammar is that of BIF 0.15 with extensions of real files: state names that are no identifiers (`<5`, `Asy/Patch`,
`>=7.5`), quoted names, property lines, comments, `default` and `table` entries, commas or blanks between numbers. A
conditional `table` lists the child slowest and the last parent fastest, as in BIF 0.15. A probability block without
entries declares structure only. Bounds and bins of a numeric variable live in the comments `// discreet-bounds` and `//
discreet-bins` of its block (in old files, in properties of these names). `// discreet-missing` marks the last state as
that of missing values; comments `// discreet:` describe the network.

The text may come from anybody: time and memory of parsing are proportional to its length, and tables are allocated only
after their total size was checked (`limits.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, NoReturn

import numpy as np

from discreet.errors import InputError, listed, shortened, shown
from discreet.formats.network_content import NetworkContent
from discreet.interchange.bif_content import (
    NUMERIC_NOTES,
    RowScaling,
    are_probabilities,
    note_missing_blocks,
    noted_variable,
)
from discreet.model.schema import Variable, table_cells
from discreet.util.arrays import Array, Floats
from discreet.util.limits import (
    NETWORK_BYTES,
    PARENTS,
    STATES,
    STATES_IN_ALL,
    VARIABLES,
    at_most,
    free_cells,
)

BIF_TOKEN = re.compile(
    r"""(?P<skip>(?:\s++|//(?!\ discreet[:-])[^\n]*+|/\*.*?\*/)++)|//\ discreet(?P<note>[:-][^\n]*+)|(?P<open>/\*)
    |"(?P<quoted>[^"\n]*+)"|(?P<mark>[{}()\[\],;|])|(?P<word>(?:(?!//|/\*)[^\s{}()\[\],;|"])++)""",
    re.DOTALL | re.VERBOSE,
)
"""Tokens of BIF. An unclosed comment is an error at once: as words, each would search the rest of the text."""
BESIDE_WORDS = re.compile(r'[^{}"/p]*+')
"""Text without the end of a block, quotes, comments and properties."""
PLAIN_NUMBERS = re.compile(r'[^{}()\[\]|"/;]*+;')
"""Numbers up to their semicolon, without names and comments."""
BIF_START = re.compile(r"(?:\s++|//[^\n]*+|/\*.*?\*/)*+(?:network|variable|probability)\b(?!\s*+(?:->|,))", re.DOTALL)
"""Beginning of BIF text: a block, after comments. An arc may begin with a node of the same name."""


def begins_as_bif(text: str) -> bool:
    r"""Return True if a network file begins as BIF; other files can only be arcs.

    Example:
        >>> begins_as_bif("// a study\nnetwork study { }"), begins_as_bif("network -> cost")
        (True, False)
    """
    return BIF_START.match(text) is not None


def parse_bif(text: str, *, where: str = "BIF text") -> NetworkContent:
    """Parse BIF text.

    Args:
        text: the file's content.
        where: name of the text in errors.

    Returns:
        Variables, parents and probabilities.

    Raises:
        InputError: not BIF, or more than `limits.py` allows; the message has the line number.

    Source:
        F. Cozman, The Interchange Format for Bayesian Networks, version 0.15.

    Example:
        >>> bif = parse_bif('variable wet { type discrete [ 2 ] { no, yes }; } probability ( wet ) { table 0.7, 0.3; }')
        >>> bif.variables[0].states, bif.arrays["wet"].tolist()
        (('no', 'yes'), [0.7, 0.3])
    """
    return _Parser(text, where).file()


def parse_bif_structure(text: str, *, where: str = "BIF text") -> NetworkContent:
    """Parse the variables and parents of BIF text; its numbers are not looked at. Else as `parse_bif`.

    Example:
        >>> bif = parse_bif_structure('variable a { type discrete { x }; } probability ( a ) { table 0.3, none; }')
        >>> bif.parents, dict(bif.arrays)
        ({'a': ()}, {})
    """
    return _Parser(text, where).structure()


class _BifToken(NamedTuple):
    """A word, quoted name or mark, and its position; `raw` is the text after the word `property`."""

    text: str
    at: int
    mark: bool
    raw: str = ""


class _PrintedRow(NamedTuple):
    """Numbers, the position of what stands before them, and that of their end."""

    numbers: tuple[float, ...]
    at: int
    end: int


class _Entries(NamedTuple):
    """Entries of a probability block before its states are looked up."""

    rows: tuple[tuple[tuple[str, ...], _PrintedRow], ...] = ()
    table: _PrintedRow | None = None
    default: _PrintedRow | None = None


@dataclass(frozen=True)
class _ProbabilityBlock:
    """A probability block before its states are looked up."""

    node: str
    parents: tuple[str, ...]
    at: int
    entries: _Entries


class _Parser:
    """Recursive descent parser over the tokens of one text, which are scanned one by one."""

    def __init__(self, text: str, where: str) -> None:
        at_most(NETWORK_BYTES, text, "characters of BIF")
        self.where = shortened(where)
        self.text = text
        self.scaling = RowScaling()
        self.at = 0
        self.ahead: _BifToken | None = None
        self.last = 0
        self.notes: list[tuple[str, int]] = []
        self.states = 0

    def fail(self, at: int, message: str) -> NoReturn:
        """Refuse the text with the number of a line."""
        raise InputError(f"{self.place(at)}: {message}")

    def place(self, at: int) -> str:
        """Name a line of the text."""
        return f"{self.where}, line {self.text.count(chr(10), 0, at) + 1}"

    # -------------------------------------------------------------------------------------------- tokens

    def scan(self) -> _BifToken | None:
        """Scan the next token; None at the end. Notes of this package on the way are collected."""
        while self.at < len(self.text):
            at = self.at
            match = BIF_TOKEN.match(self.text, at)
            if match is None:
                self.fail(at, "a quote that is not closed")
            self.at = match.end()
            kind = match.lastgroup
            if kind == "word" and match["word"] == "property":
                return self.scan_property(at)
            if kind == "note":
                self.notes.append((match["note"].strip(), at))
            elif kind == "open":
                self.fail(at, "a comment that is not closed by '*/'")
            elif kind != "skip":
                return _BifToken(match[str(kind)], at, kind == "mark")
        return None

    def scan_property(self, at: int) -> _BifToken:
        """Scan a property as raw text up to its semicolon, because it may contain anything."""
        end = self.text.find(";", self.at)
        if end < 0:
            self.fail(at, "a property that does not end with ';'")
        raw = _strip_quotes(self.text[self.at : end].strip())
        self.at = end
        return _BifToken("property", at, False, raw)

    def more(self) -> bool:
        """Return True if there is another token."""
        if self.ahead is None:
            self.ahead = self.scan()
        return self.ahead is not None

    def peek(self) -> _BifToken:
        """Return the next token without taking it; fail at the end of the text."""
        if not self.more() or self.ahead is None:
            self.fail(self.last, "the file ends too early; is a '}' missing?")
        return self.ahead

    def next(self) -> _BifToken:
        """Take the next token."""
        token = self.peek()
        self.ahead, self.last = None, token.at
        return token

    def expect(self, *marks: str) -> _BifToken:
        """Take one of these marks or keywords."""
        token = self.next()
        if token.text not in marks:
            self.fail(token.at, f"expected {' or '.join(map(repr, marks))}, got {shown(token.text)}")
        return token

    def take(self, mark: str) -> bool:
        """Take a mark if it comes next."""
        if self.more() and self.peek().mark and self.peek().text == mark:
            self.next()
            return True
        return False

    def name(self, noun: str) -> _BifToken:
        """Take a name."""
        token = self.next()
        if token.mark or not token.text:
            self.fail(token.at, f"expected {noun}, got {shown(token.text)}")
        return token

    def names_until(self, mark: str, noun: str, limit: int) -> tuple[str, ...]:
        """Take names, separated by commas or blanks, and the closing mark."""
        names: list[str] = []
        while not self.take(mark):
            if not self.take(","):
                names.append(self.name(noun).text)
                self.limit(limit, len(names), f"names where {noun} was expected")
        return tuple(names)

    def limit(self, most: int, count: int, noun: str) -> None:
        """Refuse a number above a limit."""
        try:
            at_most(most, count, noun)
        except InputError as error:
            self.fail(self.last, str(error))

    def numbers(self) -> _PrintedRow:
        """Take numbers up to the semicolon."""
        at = self.last
        plain = PLAIN_NUMBERS.match(self.text, self.at) if self.ahead is None else None
        if plain is not None:
            try:
                numbers = tuple(map(float, plain.group()[:-1].replace(",", " ").split()))
            except ValueError:
                numbers = (math.nan,)
            if are_probabilities(numbers):
                self.at = plain.end()
                return _PrintedRow(numbers, at, self.at)
        return _PrintedRow(self.odd_numbers(), at, self.at)

    def odd_numbers(self) -> tuple[float, ...]:
        """Take numbers one by one: comments or quotes stand between them, or one is invalid."""
        numbers: list[float] = []
        while not self.take(";"):
            if self.take(","):
                continue
            token = self.name("a probability")
            try:
                numbers.append(float(token.text))
            except ValueError:
                self.fail(token.at, f"expected a probability, got {shown(token.text)}")
            if not are_probabilities(numbers[-1:]):
                self.fail(token.at, f"a probability must lie between 0 and 1, got {shortened(token.text)}")
        return tuple(numbers)

    # -------------------------------------------------------------------------------------------- blocks

    def file(self) -> NetworkContent:
        """Parse the whole file."""
        content, blocks = self.contents(self.entries)
        variables = {variable.name: variable for variable in content.variables}
        filled = [block for block in blocks.values() if block.entries != _Entries()]
        self.check_cells(variables, filled)
        arrays = {block.node: self.array(variables, block) for block in filled}
        arrays = {node: arrays[node] for node in variables if node in arrays}
        return replace(content, arrays=arrays, notes=(*content.notes, *self.scaling.notes))

    def structure(self) -> NetworkContent:
        """Parse the file without its numbers."""
        return self.contents(self.skip_entries)[0]

    def contents(self, entries: Callable[[str], _Entries]) -> tuple[NetworkContent, dict[str, _ProbabilityBlock]]:
        """Parse the file, with a function that parses the entries of a node's block, and their closing brace."""
        name, properties = "unknown", tuple[str, ...]()
        variables, blocks = dict[str, Variable](), dict[str, _ProbabilityBlock]()
        while self.more():
            token = self.expect("network", "variable", "probability")
            if token.text == "network":
                name = "unknown" if self.peek().mark else self.name("the network's name").text
                properties += self.network()
            elif token.text == "variable":
                variable = self.variable()
                if variable.name in variables:
                    self.fail(token.at, f"variable {shown(variable.name)} is declared twice")
                variables[variable.name] = variable
                self.limit(VARIABLES, len(variables), "variables")
            else:
                node, parents = self.family()
                if node in blocks:
                    self.fail(token.at, f"variable {shown(node)} has two probability blocks; remove one")
                blocks[node] = _ProbabilityBlock(node, parents, token.at, entries(node))
        if not variables:
            raise InputError(f"{self.where}: no variable block; is this a BIF file?")
        self.check_names(variables, blocks)
        parents_of = {node: blocks[node].parents if node in blocks else () for node in variables}
        notes = note_missing_blocks(self.where, [node for node in variables if node not in blocks], "probability block")
        return NetworkContent(tuple(variables.values()), parents_of, {}, name, properties, notes), blocks

    def check_names(self, variables: Mapping[str, Variable], blocks: Mapping[str, _ProbabilityBlock]) -> None:
        """Refuse blocks of undeclared variables."""
        for block in blocks.values():
            for name in (block.node, *block.parents):
                if name not in variables:
                    self.fail(
                        block.at, f"probability of {shown(block.node)} names an undeclared variable {shown(name)}"
                    )

    def network(self) -> tuple[str, ...]:
        """Parse `{ properties }`: properties of old files, and comments of this package."""
        self.expect("{")
        self.notes.clear()
        properties: list[tuple[int, str]] = []
        while not self.take("}"):
            properties.append((self.peek().at, self.property()))
        properties += [(at, note[1:].strip()) for note, at in self.notes if note.startswith(":")]
        return tuple(text for _, text in sorted(properties))

    def property(self) -> str:
        """Parse `property anything ;`."""
        token = self.expect("property")
        self.expect(";")
        return token.raw

    def variable(self) -> Variable:
        """Parse `variable NAME { type discrete [ K ] { states }; properties }`."""
        name = self.name("a variable's name")
        self.expect("{")
        self.notes.clear()
        states: tuple[str, ...] = ()
        numeric: dict[str, tuple[float, ...]] = {}
        while not self.take("}"):
            if self.peek().text == "type":
                again = self.next()
                if states:
                    self.fail(again.at, f"variable {shown(name.text)} has two types")
                states = self.type(name.text)
            else:
                at = self.peek().at
                self.read_numeric(self.property(), at, numeric)
        for note, at in self.notes:
            self.read_numeric(f"discreet{note}", at, numeric)
        if not states:
            self.fail(name.at, f"variable {shown(name.text)} declares no states")
        self.states += len(states)
        self.limit(STATES_IN_ALL, self.states, "states of all variables")
        try:
            return noted_variable(name.text, states, numeric)
        except InputError as error:
            self.fail(name.at, str(error))

    def type(self, variable: str) -> tuple[str, ...]:
        """Parse `discrete [ K ] { states };` after the word `type`."""
        self.expect("discrete")
        declared = None
        if self.take("["):
            size = self.name("the number of states")
            if not size.text.isdecimal() or len(size.text) > 9:
                self.fail(size.at, f"expected the number of states of {shown(variable)}, got {shown(size.text)}")
            declared = int(size.text)
            self.limit(STATES, declared, "states of a variable")
            self.expect("]")
        start = self.expect("{")
        states = self.names_until("}", "a state", STATES)
        self.take(";")
        if declared is not None and declared != len(states):
            self.fail(start.at, f"variable {shown(variable)} declares {declared} states but names {len(states)}")
        return states

    def read_numeric(self, text: str, at: int, numeric: dict[str, tuple[float, ...]]) -> None:
        """Record bounds, bins or the mark of missing values; ignore other properties."""
        key, _, value = text.partition(" ")
        if key in NUMERIC_NOTES:
            numeric[key] = self.floats(value, at)

    def floats(self, text: str, at: int) -> tuple[float, ...]:
        """Read the numbers of a comment such as `discreet-bounds`."""
        try:
            return tuple(float(word) for word in text.replace(",", " ").split())
        except ValueError:
            self.fail(at, f"expected numbers, got {shown(text)}")

    def family(self) -> tuple[str, tuple[str, ...]]:
        """Parse `( NODE | PARENTS ) {` after the word `probability`."""
        self.expect("(")
        node = self.name("a variable's name").text
        self.take("|")
        parents = self.names_until(")", "a parent", PARENTS)
        self.expect("{")
        return node, parents

    def entries(self, node: str) -> _Entries:
        """Parse the entries of a probability block, and its closing brace."""
        rows: list[tuple[tuple[str, ...], _PrintedRow]] = []
        single: dict[str, _PrintedRow] = {}
        while not self.take("}"):
            token = self.peek()
            if token.mark:
                self.expect("(")
                states = self.names_until(")", "a parent's state", PARENTS)
                rows.append((states, self.numbers()))
            elif token.text == "property":
                self.property()
            else:
                self.expect("table", "default")
                if token.text in single:
                    self.fail(token.at, f"{shown(node)} has two {token.text!r} entries")
                single[token.text] = self.numbers()
        return _Entries(tuple(rows), single.get("table"), single.get("default"))

    def skip_entries(self, _node: str) -> _Entries:
        """Skip the entries of a probability block, and its closing brace."""
        while not self.take("}"):
            self.next()
            plain = BESIDE_WORDS.match(self.text, self.at)
            self.at = self.at if plain is None else plain.end()
        return _Entries()

    # -------------------------------------------------------------------------------------------- tables

    def check_cells(self, variables: Mapping[str, Variable], blocks: Iterable[_ProbabilityBlock]) -> None:
        """Refuse tables that are too large, alone or in total, before the first is allocated."""
        total = 0
        for block in blocks:
            try:
                total += table_cells(variables[name].size for name in (*block.parents, block.node))
                at_most(free_cells(len(self.text)), total, "cells of all tables")
            except InputError as error:
                self.fail(block.at, f"{shown(block.node)}: {error}; give it fewer parents")

    def array(self, variables: Mapping[str, Variable], block: _ProbabilityBlock) -> Floats:
        """Make the table of a block."""
        (*parent_shape, size), (rows, table, default) = self.shape(variables, block), block.entries
        # JavaBayes writes a whole table after the word `default`.
        is_whole = default is not None and len(default.numbers) == math.prod((*parent_shape, size)) != size
        whole = default if is_whole and table is None and not rows else table
        if whole is not None:
            return self.full_table(block, whole, tuple(parent_shape), size)
        array = np.full((*parent_shape, size), np.nan)
        if default is not None:
            array[...] = self.row(default, block.node, size)
        seen: set[tuple[int, ...]] = set()
        for states, row in rows:
            index = self.codes(variables, block, states, row.at)
            if index in seen:
                self.fail(row.at, f"{shown(block.node)} has two rows for ({listed(states)})")
            seen.add(index)
            array[index] = self.row(row, block.node, size)
        empty = np.isnan(array[..., 0])
        if empty.any():
            index = tuple(int(i) for i in np.unravel_index(int(np.argmax(empty)), empty.shape))
            names = listed(variables[p].states[i] for p, i in zip(block.parents, index, strict=True))
            self.fail(block.at, f"{shown(block.node)} has no row for ({names}); add it or a default")
        return array

    def shape(self, variables: Mapping[str, Variable], block: _ProbabilityBlock) -> tuple[int, ...]:
        """Return the shape of the table of a block."""
        return tuple(variables[name].size for name in (*block.parents, block.node))

    def full_table(
        self, block: _ProbabilityBlock, table: _PrintedRow, parent_shape: tuple[int, ...], size: int
    ) -> Floats:
        """Make the table of a block whose one entry has all numbers; the child varies slowest."""
        numbers, at, _ = table
        rows, _, default = block.entries
        if rows or default not in (None, table):
            self.fail(at, f"{shown(block.node)} has a 'table' and other entries; remove one of them")
        cells = math.prod((*parent_shape, size))
        if len(numbers) != cells:
            self.fail(at, f"the table of {shown(block.node)} needs {cells} numbers, got {len(numbers)}")

        @cache
        def words() -> Array:
            return np.array(self.words(table), object).reshape(size, -1)

        columns = np.array(numbers).reshape(size, -1).T.tolist()
        scaled = [
            self.scale(_PrintedRow(tuple(row), at, table.end), block.node, size, lambda: words()[:, number])  # noqa: B023
            for number, row in enumerate(columns)
        ]
        return np.array(scaled).reshape(*parent_shape, size)

    def codes(
        self, variables: Mapping[str, Variable], block: _ProbabilityBlock, states: tuple[str, ...], at: int
    ) -> tuple[int, ...]:
        """Look up the positions of the parents' states."""
        if len(states) != len(block.parents):
            self.fail(at, f"{shown(block.node)} has {len(block.parents)} parents, the row names {len(states)} states")
        try:
            return tuple(variables[p].code(s) for p, s in zip(block.parents, states, strict=True))
        except InputError as error:
            self.fail(at, str(error))

    def row(self, row: _PrintedRow, node: str, size: int) -> Floats:
        """Check one row, and renormalise rounded numbers."""
        return self.scale(row, node, size, lambda: self.words(row))

    def scale(self, row: _PrintedRow, node: str, size: int, words: Callable[[], Iterable[str]]) -> Floats:
        """Renormalise the numbers of a row, with a function that returns them as they are printed."""
        try:
            return self.scaling.scale(row.numbers, node, size, words, lambda: self.place(row.at))
        except InputError as error:
            self.fail(row.at, str(error))

    def words(self, row: _PrintedRow) -> list[str]:
        """List numbers as they are printed."""
        tokens = BIF_TOKEN.finditer(self.text, row.at, row.end)
        words = [token[token.lastgroup] for token in tokens if token.lastgroup in ("word", "quoted")]
        return words[-len(row.numbers) :]


def _strip_quotes(text: str) -> str:
    """Remove the quotes of a property that is one quoted string."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1] else text
