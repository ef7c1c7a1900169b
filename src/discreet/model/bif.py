"""Bayesian Interchange Format: read what is really out there, write what every reader accepts.

The grammar is that of BIF 0.15 with what real files add: state names that are no identifiers (`<5`, `Asy/Patch`,
`>=7.5`), quoted names, property lines, comments, `default` and `table` entries, commas or blanks between numbers.
A conditional `table` lists the child slowest and the last parent fastest, as in BIF 0.15. A probability block without
entries declares structure only. Bounds and bins of a numeric variable live in the properties `discreet-bounds` and
`discreet-bins`.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.schema import Variable, table_cells

__all__ = ["Bif", "format_bif", "parse_bif", "read_bif", "write_bif"]

Array = npt.NDArray[np.float64]

ROW_TOLERANCE = 1.000001e-6
"""A row that misses 1 by this much is rounded text and is renormalised; more is an error of the file."""
EXACT_ROW = 1e-15
"""A row this near to 1 is left as it is, so that a file that is written and read again does not change."""

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|"(?P<quoted>[^"\n]*)"|(?P<mark>[{}()\[\],;|])|(?P<word>[^\s{}()\[\],;|"]+)""",
    re.DOTALL,
)
PLAIN = re.compile(r"[^\s{}()\[\],;|\"]+")


@dataclass(frozen=True, eq=False)
class Bif:
    """What a BIF file says; whether its arcs form a network is checked by `Network`.

    Args:
        variables: in the order of the file.
        parents: of every variable.
        arrays: probabilities of every variable whose block has entries, float64, axes `(*parents, child)`.
        name: of the network.
        properties: lines of the network block.
    """

    variables: tuple[Variable, ...]
    parents: Mapping[str, tuple[str, ...]]
    arrays: Mapping[str, Array]
    name: str = "unknown"
    properties: tuple[str, ...] = ()


def read_bif(path: str | Path) -> Bif:
    """Read a BIF file.

    Args:
        path: UTF-8 text, or the same packed by gzip (by content, whatever the ending).

    Returns:
        Variables, parents and probabilities.

    Raises:
        InputError: no such file, not UTF-8, or not BIF; the message has the line number.

    Source:
        F. Cozman, The Interchange Format for Bayesian Networks, version 0.15.
    """
    try:
        raw = Path(path).read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read network {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"network {str(path)!r} is not UTF-8 text; save it as UTF-8") from None
    return parse_bif(text, where=str(path))


def parse_bif(text: str, *, where: str = "BIF text") -> Bif:
    """Parse BIF text.

    Args:
        text: the file's content.
        where: named in errors.

    Returns:
        Variables, parents and probabilities.

    Raises:
        InputError: not BIF; the message has the line number.
    """
    return _Parser(text, where).file()


@dataclass(frozen=True)
class _Token:
    """One word, quoted name or mark, and the line it stands on; `raw` is what follows the word `property`."""

    text: str
    line: int
    mark: bool
    raw: str = ""


@dataclass(frozen=True)
class _Block:
    """A probability block before its rows are looked up."""

    node: str
    parents: tuple[str, ...]
    line: int
    rows: tuple[tuple[tuple[str, ...], tuple[float, ...], int], ...]
    table: tuple[tuple[float, ...], int] | None
    default: tuple[tuple[float, ...], int] | None

    @property
    def entries(self) -> bool:
        """Whether the block has probabilities."""
        return bool(self.rows) or self.table is not None or self.default is not None


class _Parser:
    """Recursive descent over the tokens of one file."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        self.tokens = list(self._scan(text))
        self.at = 0

    def fail(self, line: int, message: str) -> NoReturn:
        """Refuse the file."""
        raise InputError(f"{self.where}, line {line}: {message}")

    def _scan(self, text: str) -> Iterator[_Token]:
        """Split into tokens; a property is kept raw, up to its semicolon, because anything may stand in it."""
        position, line = 0, 1
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None:
                self.fail(line, "a quote that is not closed")
            word, line_of_word = match.group(), line
            line += word.count("\n")
            position = match.end()
            if match["word"] == "property":
                end = text.find(";", position)
                if end < 0:
                    self.fail(line, "a property that does not end with ';'")
                yield _Token("property", line_of_word, False, _unquoted(text[position:end].strip()))
                line += text.count("\n", position, end)
                position = end
            elif match["quoted"] is not None:
                yield _Token(match["quoted"], line_of_word, False)
            elif match["skip"] is None:
                yield _Token(word, line_of_word, match["mark"] is not None)

    # -------------------------------------------------------------------------------------------- tokens

    def peek(self) -> _Token:
        """The next token; an error at the end of the file."""
        if self.at >= len(self.tokens):
            self.fail(self.tokens[-1].line if self.tokens else 1, "the file ends too early; is a '}' missing?")
        return self.tokens[self.at]

    def next(self) -> _Token:
        """Take the next token."""
        token = self.peek()
        self.at += 1
        return token

    def expect(self, *marks: str) -> _Token:
        """Take one of these marks or keywords."""
        token = self.next()
        if token.text not in marks:
            self.fail(token.line, f"expected {' or '.join(map(repr, marks))}, got {token.text!r}")
        return token

    def take(self, mark: str) -> bool:
        """Take a mark if it comes next."""
        if self.at < len(self.tokens) and self.peek().mark and self.peek().text == mark:
            self.at += 1
            return True
        return False

    def name(self, what: str) -> _Token:
        """Take a name."""
        token = self.next()
        if token.mark or not token.text:
            self.fail(token.line, f"expected {what}, got {token.text!r}")
        return token

    def names_until(self, mark: str, what: str) -> tuple[str, ...]:
        """Take names, separated by commas or blanks, and the closing mark."""
        names: list[str] = []
        while not self.take(mark):
            if not self.take(","):
                names.append(self.name(what).text)
        return tuple(names)

    def numbers(self) -> tuple[tuple[float, ...], int]:
        """Take numbers up to the semicolon."""
        numbers: list[float] = []
        line = self.peek().line
        while not self.take(";"):
            if self.take(","):
                continue
            token = self.name("a probability")
            try:
                numbers.append(float(token.text))
            except ValueError:
                self.fail(token.line, f"expected a probability, got {token.text!r}")
            if not 0 <= numbers[-1] <= 1 + ROW_TOLERANCE:
                self.fail(token.line, f"a probability must lie between 0 and 1, got {token.text}")
        return tuple(numbers), line

    # -------------------------------------------------------------------------------------------- blocks

    def file(self) -> Bif:
        """The whole file."""
        name, properties = "unknown", list[str]()
        variables, blocks = dict[str, Variable](), dict[str, _Block]()
        while self.at < len(self.tokens):
            token = self.expect("network", "variable", "probability")
            if token.text == "network":
                name = "unknown" if self.peek().mark else self.name("the network's name").text
                self.expect("{")
                while not self.take("}"):
                    properties.append(self.property())
            elif token.text == "variable":
                variable = self.variable()
                if variable.name in variables:
                    self.fail(token.line, f"variable {variable.name!r} is declared twice")
                variables[variable.name] = variable
            else:
                block = self.probability(token.line)
                if block.node in blocks:
                    self.fail(token.line, f"variable {block.node!r} has two probability blocks")
                blocks[block.node] = block
        if not variables:
            raise InputError(f"{self.where}: no variable block; is this a BIF file?")
        for block in blocks.values():
            for known in (block.node, *block.parents):
                if known not in variables:
                    self.fail(block.line, f"probability of {block.node!r} names an undeclared variable {known!r}")
        for node in variables:
            if node not in blocks:
                raise InputError(f"{self.where}: variable {node!r} has no probability block; add one")
        arrays = {node: self.array(variables, blocks[node]) for node in variables if blocks[node].entries}
        parents = {node: blocks[node].parents for node in variables}
        return Bif(tuple(variables.values()), parents, arrays, name, tuple(properties))

    def property(self) -> str:
        """`property anything ;`."""
        token = self.expect("property")
        self.expect(";")
        return token.raw

    def variable(self) -> Variable:
        """`variable NAME { type discrete [ K ] { states }; properties }`."""
        name = self.name("a variable's name")
        self.expect("{")
        states: tuple[str, ...] = ()
        declared: int | None = None
        numeric: dict[str, tuple[float, ...]] = {}
        while not self.take("}"):
            if self.peek().text != "type":
                line = self.peek().line
                key, _, value = self.property().partition(" ")
                if key in ("discreet-bounds", "discreet-bins"):
                    numeric[key] = self.floats(value, line)
                continue
            again = self.next()
            if states:
                self.fail(again.line, f"variable {name.text!r} has two types")
            self.expect("discrete")
            if self.take("["):
                size = self.name("the number of states")
                if not size.text.isdecimal() or len(size.text) > 9:
                    self.fail(size.line, f"expected the number of states of {name.text!r}, got {size.text[:20]!r}")
                declared = int(size.text)
                self.expect("]")
            self.expect("{")
            states = self.names_until("}", "a state")
            self.take(";")
        if not states:
            self.fail(name.line, f"variable {name.text!r} declares no states")
        if declared is not None and declared != len(states):
            self.fail(name.line, f"variable {name.text!r} declares {declared} states but names {len(states)}")
        bounds = numeric.get("discreet-bounds")
        if bounds is not None and len(bounds) != 2:
            self.fail(name.line, f"variable {name.text!r}: discreet-bounds are two numbers, got {len(bounds)}")
        try:
            pair = None if bounds is None else (bounds[0], bounds[1])
            return Variable(name.text, states, bounds=pair, bins=numeric.get("discreet-bins", ()))
        except InputError as error:
            self.fail(name.line, str(error))

    def floats(self, text: str, line: int) -> tuple[float, ...]:
        """Numbers of a property of ours."""
        try:
            return tuple(float(word) for word in text.replace(",", " ").split())
        except ValueError:
            self.fail(line, f"expected numbers, got {text!r}")

    def probability(self, line: int) -> _Block:
        """`probability ( NODE | PARENTS ) { entries }`."""
        self.expect("(")
        node = self.name("a variable's name").text
        self.take("|")
        parents = self.names_until(")", "a parent")
        self.expect("{")
        rows: list[tuple[tuple[str, ...], tuple[float, ...], int]] = []
        single: dict[str, tuple[tuple[float, ...], int]] = {}
        while not self.take("}"):
            token = self.peek()
            if token.mark:
                self.expect("(")
                states = self.names_until(")", "a parent's state")
                numbers, at = self.numbers()
                rows.append((states, numbers, at))
            elif token.text == "property":
                self.property()
            else:
                self.expect("table", "default")
                if token.text in single:
                    self.fail(token.line, f"{node!r} has two {token.text!r} entries")
                single[token.text] = self.numbers()
        return _Block(node, parents, line, tuple(rows), single.get("table"), single.get("default"))

    # -------------------------------------------------------------------------------------------- tables

    def array(self, variables: Mapping[str, Variable], block: _Block) -> Array:
        """The table of a block."""
        *parent_shape, size = (variables[name].size for name in (*block.parents, block.node))
        try:
            table_cells((*parent_shape, size))
        except InputError as error:
            self.fail(block.line, f"{block.node!r}: {error}; give it fewer parents")
        array = np.full((*parent_shape, size), np.nan)
        if block.table is not None:
            numbers, line = block.table
            if block.rows or block.default is not None:
                self.fail(line, f"{block.node!r} has a 'table' and other entries; keep one of them")
            if len(numbers) != array.size:
                self.fail(line, f"the table of {block.node!r} needs {array.size} numbers, got {len(numbers)}")
            rows = np.moveaxis(np.array(numbers).reshape(size, *parent_shape), 0, -1)
            for index in np.ndindex(*parent_shape):
                array[index] = self.row(rows[index], block.node, size, line)
            return array
        if block.default is not None:
            array[...] = self.row(np.array(block.default[0]), block.node, size, block.default[1])
        seen: set[tuple[int, ...]] = set()
        for states, row, line in block.rows:
            index = self.codes(variables, block, states, line)
            if index in seen:
                self.fail(line, f"{block.node!r} has two rows for ({', '.join(states)})")
            seen.add(index)
            array[index] = self.row(np.array(row), block.node, size, line)
        if np.isnan(array).any():
            index = tuple(int(i) for i in np.argwhere(np.isnan(array).any(axis=-1))[0])
            names = [variables[p].states[i] for p, i in zip(block.parents, index, strict=True)]
            self.fail(block.line, f"{block.node!r} has no row for ({', '.join(names)}); add it or a default")
        return array

    def codes(
        self, variables: Mapping[str, Variable], block: _Block, states: tuple[str, ...], line: int
    ) -> tuple[int, ...]:
        """Positions of the parents' states."""
        if len(states) != len(block.parents):
            self.fail(line, f"{block.node!r} has {len(block.parents)} parents, the row names {len(states)} states")
        try:
            return tuple(variables[p].code(s) for p, s in zip(block.parents, states, strict=True))
        except InputError as error:
            self.fail(line, str(error))

    def row(self, row: Array, node: str, size: int, line: int) -> Array:
        """Check one row, and renormalise rounded text."""
        if len(row) != size:
            self.fail(line, f"a row of {node!r} needs {size} numbers, got {len(row)}")
        total = math.fsum(row)
        if not abs(total - 1) <= ROW_TOLERANCE:
            self.fail(line, f"a row of {node!r} sums to {total:.9g} instead of 1")
        return row if abs(total - 1) <= EXACT_ROW * size else row / total


def format_bif(bif: Bif) -> str:
    """Write BIF text.

    Names are quoted only where BIF needs it; numbers have the shortest text that reads back exactly.

    Args:
        bif: variables, parents and probabilities.

    Returns:
        The text.

    Raises:
        InputError: a name holds a quote or a line break, or a property a semicolon, which BIF cannot express.
    """
    states = {variable.name: variable.states for variable in bif.variables}
    lines = [f"network {_quote(bif.name)} {{", *(f"  property {_property(line)};" for line in bif.properties), "}"]
    for variable in bif.variables:
        lines += [f"variable {_quote(variable.name)} {{"]
        lines += [f"  type discrete [ {variable.size} ] {{ {', '.join(map(_quote, variable.states))} }};"]
        if variable.bounds is not None:
            lines += [f"  property discreet-bounds {_floats(variable.bounds)};"]
            lines += [f"  property discreet-bins {_floats(variable.bins)};"] if variable.bins else []
        lines.append("}")
    for node, parents in bif.parents.items():
        head = f"{_quote(node)} | {', '.join(map(_quote, parents))}" if parents else _quote(node)
        lines.append(f"probability ( {head} ) {{")
        if node in bif.arrays:
            rows = bif.arrays[node].reshape(-1, bif.arrays[node].shape[-1])
            for names, row in zip(product(*(states[parent] for parent in parents)), rows, strict=True):
                label = f"({', '.join(map(_quote, names))})" if parents else "table"
                lines.append(f"  {label} {', '.join(repr(float(value)) for value in row)};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def write_bif(path: str | Path, bif: Bif) -> None:
    """Write a BIF file, packed by gzip if its name ends in `.gz`; errors as in `format_bif`."""
    raw = format_bif(bif).encode()
    Path(path).write_bytes(gzip.compress(raw, mtime=0) if str(path).endswith(".gz") else raw)


def _unquoted(text: str) -> str:
    """The text of a property that is one quoted string, any other as it is."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1] else text


def _quote(name: str) -> str:
    """The name as BIF text."""
    if not name:
        raise InputError("a BIF network needs a name that is not empty")
    if '"' in name or "\n" in name or "\r" in name:
        raise InputError(f"name {name!r} holds a quote or a line break, which BIF cannot express; rename it")
    plain = PLAIN.fullmatch(name) and not name.startswith(("//", "/*")) and name != "property"
    return name if plain else f'"{name}"'


def _property(text: str) -> str:
    """A property's text, which ends at the first semicolon."""
    if ";" in text or "\n" in text:
        raise InputError("a BIF property cannot hold a semicolon or a line break")
    return text


def _floats(values: tuple[float, ...]) -> str:
    """Numbers of a property."""
    return " ".join(f"{value!r}" for value in values)
