"""Expressions: sums, differences, products and ratios of queries and numbers, and odds.

    expression := product (("+" | "-") product)*
    product    := factor (("*" | "/") factor)*
    factor     := "-" factor | number | "(" expression ")" | odds(query) | query

A query is read by `parse_query`, so that events are read in it. A ratio whose divisor may be 0 has no upper end: where
the divisor's own interval begins at 0, so small divisors are likely that no number bounds the ratio.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn, cast

import numpy as np

from discreet.errors import InputError, shown
from discreet.model.network import Network
from discreet.model.query_grammar import MostProbable, PlainQuery, Query, parse_query
from discreet.model.schema import Schema
from discreet.queries.query import MOST_LEFT_OUT
from discreet.questions.composed import (
    MOST_NESTED,
    MOST_TERMS,
    Atoms,
    Composition,
    Single,
    Values,
    check_terms,
    find_closing,
    refuse,
)
from discreet.util.arrays import Floats
from discreet.util.attached import above

METHODS = (
    ("Query.of_question", f"{__name__}:parse_question"),
    ("Query.of_event", f"{__package__}.events:parse_event"),
    ("Answers.simultaneous", f"{__package__}.simultaneous:widen_together"),
)
"""Parsers and a method that the kernel declares, with their homes."""
QUERY = re.compile(r"\s*(?!odds\b)[A-Za-z]+\s*\(")
NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")
NAME = re.compile(r"[A-Za-z]+\s*\(")
PLACE = re.compile(r"at (\d+), ")
"""Position in a query, counted from 1, before the reason why it is refused."""
TERM = re.compile(r"[-+*/]|[A-Za-z]+\s*\(")
"""Signs and names before brackets: a text has at least half as many terms."""
OPERATIONS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
WORDS = {"+": "sum", "-": "difference", "*": "product", "/": "ratio"}
"""Words for a value, in a row that is of no one state."""


@dataclass(frozen=True)
class Number(Composition):
    """A number.

    Args:
        value: finite.
    """

    value: float

    def __str__(self) -> str:
        """Write the number so that it reads back."""
        return f"{self.value:.15g}" if float(f"{self.value:.15g}") == self.value else repr(self.value)

    def atoms(self, network: Network) -> tuple[PlainQuery, ...]:
        """Return (): a number needs no query."""
        return ()

    def values(self, atoms: Atoms) -> Values:
        """Return the number as one row of one draw, which broadcasts to all; its scale is the number itself."""
        number = np.full((1, 1), self.value)
        return Values(({},), number, (self.value, self.value), None, number)


@dataclass(frozen=True)
class Arithmetic(Composition):
    """A sum, difference, product or ratio.

    Args:
        sign: "+", "-", "*" or "/".
        left, right: what it is of.
        text, at: the whole text, and the position of the sign in it.
    """

    sign: str
    left: Composition
    right: Composition
    text: str = field(default="", compare=False)
    at: int = field(default=0, compare=False)

    @property
    def divides(self) -> bool:  # type: ignore[override]
        """True if it is a ratio with a query in its divisor, or a part of it divides."""
        ratio = self.sign == "/" and not isinstance(self.right, Number)
        return ratio or self.left.divides or self.right.divides

    def __str__(self) -> str:
        """Write it with the brackets that it needs."""
        weak = ("+", "-")
        left = self.left.sign if isinstance(self.left, Arithmetic) else ""
        right = self.right.sign if isinstance(self.right, Arithmetic) else ""
        first = str(self.left) if self.sign in weak or left not in weak else f"({self.left})"
        loose = right in weak if self.sign in weak else bool(right)
        return f"{first} {self.sign} {f'({self.right})' if loose else self.right}"

    def atoms(self, network: Network) -> tuple[PlainQuery, ...]:
        """List the queries of both sides, each once, those of the left side first."""
        return tuple(dict.fromkeys((*self.left.atoms(network), *self.right.atoms(network))))

    def values(self, atoms: Atoms) -> Values:
        """Compute both sides in every draw, and their sum, difference, product or ratio.

        0 / 0 is NaN, as for impossible evidence. Least and largest values are by interval arithmetic (`_combine_ends`);
        None if neither side has any and no divisor may be 0. The scale is the range of results from the sides' scales.
        Replicates are there if both sides have them.

        Args:
            atoms: answers to the queries; a note is added if nothing bounds a ratio.

        Raises:
            InputError: rows of both sides that differ, or a divisor that may be 0 (`_bound_divisor`).
        """
        left, right = self.left.values(atoms), self.right.values(atoms)
        states = self._join_states(left, right)
        bounds = self._bound_divisor(right, atoms) if self.sign == "/" else right.bounds
        known = left.ends is None and right.ends is None and bounds[0] is right.draws
        ends = None if known else _combine_ends(self.sign, left.bounds, bounds)
        corners = _combine_ends(self.sign, _as_ends(left.scale), _as_ends(right.scale))
        scale = (float(corners[0]), float(corners[1]))
        again = None
        if left.replicates is not None and right.replicates is not None:
            again = _operate(self.sign, left.replicates, right.replicates)
        return Values(states, _operate(self.sign, left.draws, right.draws), scale, ends, again)

    def _join_states(self, left: Values, right: Values) -> tuple[Mapping[str, str], ...]:
        """Find what the rows of the result are about.

        They are the rows of both sides if these are equal; one row named by WORDS if both have a single, different one;
        and those of the side with several rows if the other has one.

        Raises:
            InputError: both sides have several rows, of different states.
        """
        first, second = left.states, right.states
        if first == second:
            return first
        if len(first) == len(second) == 1:
            return ({"value": WORDS[self.sign]},)
        if 1 in (len(first), len(second)):
            return max(first, second, key=len)
        return refuse(
            self.text,
            self.at,
            f"both sides of {self.sign!r} have several rows, of different states; ask for one state of each, as in "
            "P(A=a | C=c)",
        )

    def _bound_divisor(self, right: Values, atoms: Atoms) -> tuple[Floats, Floats]:
        """Find the least and largest divisor in every draw, shape `(rows, draws)` each.

        They are the bounds of its values. If its interval at the answer's level touches 0 but lies on one side of it,
        the least is lowered to 0 or below, so that nothing bounds the ratio, and a note says so. A divisor with a
        single draw is a number.

        Raises:
            InputError: a number that is 0; an interval with 0 strictly inside; or values that are 0 in more than half
                (MOST_LEFT_OUT) of the draws.
        """
        low, high = right.bounds
        if low.shape[1] == 1:
            if (low == 0).any():
                self._refuse_zero("is 0")
            return low, high
        first, last = right.interval(atoms.level, atoms.pick(right.draws))
        if ((first < 0) & (last > 0)).any():
            self._refuse_zero(f"may be 0: its interval is {float(first.min()):.3g} to {float(last.max()):.3g}")
        if (right.draws == 0).mean() > MOST_LEFT_OUT:
            self._refuse_zero("is 0 in most draws")
        touches = (first <= 0) & (last >= 0)
        if touches.any():
            atoms.notes.append(f"{self}: nothing bounds it, as the interval of the divisor, {self.right}, begins at 0")
            low = np.where(touches[:, None], np.minimum(low, 0.0), low)
        return low, high

    def _refuse_zero(self, fault: str) -> NoReturn:
        """Raise an InputError at the sign: the divisor's text, then the fault."""
        refuse(self.text, self.at, f"the divisor {shown(str(self.right))} {fault}; ask for a difference instead")


@dataclass(frozen=True)
class Odds(Composition):
    """Odds of a probability, `P / (1 - P)`.

    Args:
        part: the probability.
        text, at: the whole text, and the position in it.
    """

    part: Composition
    text: str = field(default="", compare=False)
    at: int = field(default=0, compare=False)
    divides = True

    def __str__(self) -> str:
        """Write `odds(A=a | C=c)`."""
        return f"odds{str(self.part)[1:]}"

    def atoms(self, network: Network) -> tuple[PlainQuery, ...]:
        """List the queries of the probability."""
        return self.part.atoms(network)

    def values(self, atoms: Atoms) -> Values:
        """Compute `P / (1 - P)` in every draw, with the rows of the probability.

        It is the ratio of `Arithmetic.values`, with the same bounds, notes and errors; its divisor is `1 - P`.
        """
        against = Arithmetic("-", Number(1.0), self.part)
        values = Arithmetic("/", self.part, against, self.text, self.at).values(atoms)
        return replace(values, states=self.part.values(atoms).states)


# ------------------------------------------------------------------------------------------------------------- numbers


def _as_ends(scale: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return both ends of a scale as arrays of shape ()."""
    return np.array(scale[0]), np.array(scale[1])


def _operate(sign: str, left: Floats, right: Floats) -> Floats:
    """Compute an operation; 0 / 0 is NaN, as of impossible evidence, and other divisions by 0 are infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(OPERATIONS[sign](left, right))


def _combine_ends(sign: str, left: tuple[Floats, Floats], right: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Find the least and the largest result if both sides lie between their ends: interval arithmetic.

    A divisor whose range begins or ends at 0 has no bound on that side, and none at all with 0 strictly inside. 0 times
    infinity counts as 0.

    Args:
        sign: "+", "-", "*" or "/".
        left, right: (least, largest) of each side; shapes broadcast.

    Returns:
        (least, largest), perhaps infinite.
    """
    if sign == "-":
        right = (right[1], right[0])
    if sign in ("+", "-"):
        return _operate(sign, left[0], right[0]), _operate(sign, left[1], right[1])
    if sign == "/":
        # One divided by a range that begins, or ends, at 0 has no bound on that side; with 0 inside it has none at all.
        low, high = right
        with np.errstate(divide="ignore"):
            least, most = np.where(high == 0, -np.inf, 1 / high), np.where(low == 0, np.inf, 1 / low)
        inside = (low < 0) & (high > 0)
        right = np.where(inside, -np.inf, least), np.where(inside, np.inf, most)
    corners = [_multiply(first, second) for first in left for second in right]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _multiply(left: Floats, right: Floats) -> Floats:
    """Multiply ends; 0 times infinity is 0, the least that a product of such a range can be."""
    left, right = np.broadcast_arrays(left, right)
    with np.errstate(invalid="ignore"):
        return np.where((left == 0) & np.isinf(right) | (right == 0) & np.isinf(left), 0.0, left * right)


# ---------------------------------------------------------------------------------------------------------------- text


def parse_question(text: str, schema: Schema) -> Query:
    """Parse an expression, or a query with an event.

    Args:
        text: as at the top of this file.
        schema: with the names.

    Raises:
        InputError: not an expression, no query in it, more than MOST_TERMS terms, or as `parse_query`; with the
            position.

    Returns:
        The expression; a text that is one query as a whole is read by `parse_event`.
    """
    head = QUERY.match(text)
    if head is not None and not text[find_closing(text, head.end()) + 1 :].strip():
        query: Query = above("Query.of_event")(text, schema)
        return query
    starts = [match.start() for match in TERM.finditer(re.sub(r'"[^"]*"', lambda name: " " * len(name[0]), text))]
    if len(starts) > 2 * MOST_TERMS:
        check_terms(text, len(starts) // 2, starts[2 * MOST_TERMS])
    cursor = _Cursor(text, schema)
    question = cursor.read_sum(0)
    if cursor.position < len(text):
        cursor.refuse(f"did not expect {shown(text[cursor.position :])}")
    check_terms(text, cursor.terms, cursor.beyond)
    if cursor.queries == 0:
        refuse(text, 0, "ask for at least one query, such as P(A=a | C=c)")
    return question


class _Cursor:
    """A text, and how far it is read.

    Args:
        text: of the expression.
        schema: with the names.
    """

    def __init__(self, text: str, schema: Schema) -> None:
        self.text, self.schema = text, schema
        self.position = self.terms = self.queries = self.beyond = 0
        self._skip()

    def refuse(self, reason: str) -> NoReturn:
        """Raise an InputError at the present position."""
        refuse(self.text, self.position, reason)

    def read_sum(self, depth: int) -> Composition:
        """Read products with "+" and "-" between them, up to anything else.

        Args:
            depth: number of brackets and signs around it.
        """
        return self._read_chain("+-", lambda: self._read_chain("*/", lambda: self._read_factor(depth)))

    def _skip(self, characters: int = 0) -> None:
        """Go on by some characters, then over blanks."""
        self.position += characters
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def _read_chain(self, signs: str, read: Callable[[], Composition]) -> Composition:
        """Read parts with any of `signs` between them, from left to right: `a - b - c` is `(a - b) - c`."""
        left = read()
        while self.position < len(self.text) and (sign := self.text[self.position]) in signs:
            at = self.position
            self._skip(1)
            left = Arithmetic(sign, left, read(), self.text, at)
        return left

    def _read_factor(self, depth: int) -> Composition:
        """Read a factor: a negated factor, an expression in brackets, a number or a query. It counts as a term.

        A minus before a number makes a negative number, before anything else a product with -1.

        Args:
            depth: number of brackets and signs around it.

        Raises:
            InputError: more than MOST_NESTED of them, a bracket that is not closed, or a number that is too large for a
                float.
        """
        if depth > MOST_NESTED:
            self.refuse(f"more than {MOST_NESTED} brackets are open")
        self.terms += 1
        text, at = self.text, self.position
        self.beyond = self.beyond if self.terms > MOST_TERMS + 1 else at
        if text[at : at + 1] == "-":
            self._skip(1)
            inner = self._read_factor(depth + 1)
            return Number(-inner.value) if isinstance(inner, Number) else Arithmetic("*", Number(-1.0), inner, text, at)
        if text[at : at + 1] == "(":
            self._skip(1)
            inside = self.read_sum(depth + 1)
            if text[self.position : self.position + 1] != ")":
                self.refuse("a bracket ')' is missing")
            self._skip(1)
            return inside
        number = NUMBER.match(text, at)
        if number is not None:
            if math.isinf(float(number[0])):
                self.refuse("the number is too large")
            self._skip(len(number[0]))
            return Number(float(number[0]))
        return self._read_query(at)

    def _read_query(self, at: int) -> Composition:
        """Read a query up to the bracket that closes it; `odds(..)` is read as P and becomes `Odds`.

        Args:
            at: position of the query.

        Raises:
            InputError: no query there, a bracket that is not closed, a query for the most probable state, or as
                `parse_query`.
        """
        head = NAME.match(self.text, at)
        if head is None:
            rest = self.text[at:].strip()
            self.refuse(f"cannot read {shown(rest)}" if rest else "a query or a number is missing")
        end = find_closing(self.text, head.end())
        if end == len(self.text):
            self.refuse("the bracket of this query is not closed")
        text, odds = self.text[at : end + 1], head[0].rstrip("( \t\n") == "odds"
        text = f"P{text[4:]}" if odds else text
        try:
            query = parse_query(text, self.schema)
        except InputError as error:
            reason = str(error).removeprefix(f"query {shown(text.strip())}: ")
            inner = PLACE.match(reason)
            self.position += 0 if inner is None else int(inner[1]) - 1 + 3 * odds
            self.refuse(reason if inner is None else reason[inner.end() :])
        if isinstance(query, MostProbable):
            self.refuse(f"{shown(text)} is a state and no number; ask for P(...)")
        self.queries += 1
        self._skip(len(text) + 3 * odds)
        part = query if isinstance(query, Composition) else Single(cast(PlainQuery, query))
        return Odds(part, self.text, at) if odds else part
