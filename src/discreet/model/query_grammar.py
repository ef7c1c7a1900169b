"""Grammar of queries: the questions about a network.

`answer` lists the forms. A regression of Y on A and B is written `Y ~ A, B`, and among the records with a state
`Y ~ A, B | C=c`; it is a separate kind of question.

Names with a comma, an equal sign, a bar or a bracket are written in double quotes. A query is public: it is written
without looking at the records, so a release can be planned for it.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NoReturn, cast

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError, listed, shown
from discreet.model.network import Network
from discreet.model.number_types import Printed
from discreet.model.schema import Schema, Variable
from discreet.util.attached import above
from discreet.util.limits import QUERY_CHARACTERS, at_most, first_repeated
from discreet.util.similar import did_you_mean

QueryKind = Literal[
    "marginal", "conditional", "map", "mpe", "mean", "quantile", "sd", "variance", "covariance", "correlation",
    "expression",
]  # fmt: skip
"""Kind of an answer."""
HEADS = {"E": "mean", "sd": "sd", "var": "variance", "cov": "covariance", "cor": "correlation"}
"""Quantity by the word that begins its query."""
OF_TWO = ("covariance", "correlation")
"""Quantities of two numeric variables."""
BEGINS = re.compile(r"\s*(P|MAP|MPE|E|sd|var|cov|cor|median|quantile)\s*\(")
"""Beginning of every query."""
QUESTION = re.compile(r"[-+*/(\s\d.eE]*(?:P|MAP|MPE|E|sd|var|cov|cor|median|quantile|N|MI|odds)\s*\(")
"""Beginning of every question, made of queries or not."""
QUERY_TOKEN = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<mark>[,|=()])|(?P<word>[^\s,|="()][^,|="()]*))')
REGRESSION_TERM = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<mark>[~,+])|(?P<word>[^\s~,+"][^~,+"]*))')
COMPARED_WITH = re.compile(r"(.+?)(?<!\s)\s*(<=|>=|<|>)\s*(\S{1,64})", re.DOTALL)
"""A name, a sign and a number. No blank or sign of a stranger's text is scanned more often than a number is long."""
APPLIES = "applies"
"""Word that stands for a state of the column that another one applies by."""
BEFORE_BAR = re.compile(r'((?:[^"|]|"[^"]*"?)*)\|?')
"""Text before the first bar that is not in quotes."""
EQUAL = re.compile(r"\s*=")
BLANKS = re.compile(r"\s*")
STATE_TEXT = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<word>[^,|")]+))')
COMPOSED = re.compile(r"\)\s*\S|^\s*[-(\d.]|^\s*(?:N|MI|odds)\s*\(|\b(?:or|and|not|in|do)\b|[{~]")
"""Signs outside quotes of a question that is no plain query: operators, other heads, words and brackets of events."""


@dataclass(frozen=True)
class NumberRange:
    """Range in which the number of a numeric variable is observed to lie, or the number itself.

    Args:
        low, high: ends of the range, infinite where there is none; equal for a single number.
        above, below: whether the low, and the high, end itself is left out.

    Example:
        >>> age = Variable("age", bounds=(0, 120), bins=(18, 65), type="integer")
        >>> over, under = NumberRange(40, math.inf, above=True), NumberRange(-math.inf, 70, below=True)
        >>> both = over.narrow(under)
        >>> both.write("age"), both.ends(age), both.value
        ('age > 40, age < 70', (41.0, 70.0), False)
    """

    low: float
    high: float
    above: bool = False
    below: bool = False

    @staticmethod
    def of_comparison(sign: str, number: float) -> NumberRange:
        """Make the range of a comparison: ">", ">=", "<" or "<=" a number."""
        if sign[0] == ">":
            return NumberRange(number, math.inf, above=sign == ">")
        return NumberRange(-math.inf, number, below=sign == "<")

    @property
    def value(self) -> bool:
        """True if a single number is observed."""
        return self.low == self.high

    def narrow(self, other: NumberRange) -> NumberRange:
        """Intersect two ranges of one variable."""
        # Of two equal ends the one that is left out is the stricter.
        low, above = max((self.low, self.above), (other.low, other.above))
        high, closed = min((self.high, not self.below), (other.high, not other.below))
        return NumberRange(low, high, above, not closed)

    def ends(self, variable: Variable) -> tuple[float, float]:
        """Find the ends of the range within the bounds, a whole number x as [x, x + 1).

        Returns:
            (low, high); the high end is below the low one, or equal to it, if no number lies in the range. For a single
            real number both are it.
        """
        first, *_, last = variable.edges
        low, high = self.low, self.high
        if variable.whole:
            low = np.floor(low) + 1 if self.above else np.ceil(low)
            high = np.ceil(high) if self.below else np.floor(high) + 1
        return float(max(low, first)), float(min(high, last))

    def contains_none(self, variable: Variable) -> bool:
        """True if no number of a variable lies in the range."""
        low, high = self.ends(variable)
        if variable.whole or not self.value:
            return not low < high
        return self.above or self.below or low != high

    def contains_all(self, variable: Variable) -> bool:
        """True if all records lie in the range, so that it is no condition; gaps and other values lie in none.

        Example:
            >>> age = Variable("age", bounds=(0, 120), bins=(18, 65))
            >>> [NumberRange.of_comparison(sign, 0).contains_all(age) for sign in (">=", ">")]
            [True, False]
        """
        first, *_, last = variable.edges
        if variable.size > len(variable.edges) - 1:
            return False
        if variable.whole:
            return self.ends(variable) == (first, last)
        # Of two equal ends the one that is left out is the stricter.
        return (self.low, self.above) <= (first, False) and (self.high, not self.below) >= (last, True)

    def write(self, name: str) -> str:
        """Write the range as evidence on a variable."""
        if self.value and not (self.above or self.below):
            return f"{_quote_name(name)}={_write_number(self.low)}"
        ends = ((">" if self.above else ">=", self.low), ("<" if self.below else "<=", self.high))
        return ", ".join(f"{_quote_name(name)} {sign} {_write_number(at)}" for sign, at in ends if math.isfinite(at))


@dataclass(frozen=True)
class AnyOf:
    """States of a variable of which one is observed, as another column applies in them.

    Args:
        name: of the column that applies.
        states: of the variable, by name.

    Example:
        >>> AnyOf("job", ("adult", "old")).write("age")
        'job=applies'
    """

    name: str = field(compare=False)
    states: tuple[str, ...]

    def write(self, name: str) -> str:
        """Write it as evidence; the variable's own name is not needed."""
        return f"{_quote_name(self.name)}={APPLIES}"


Observed = tuple[tuple[str, str | NumberRange | AnyOf], ...]
"""Evidence: variables with their states, with several states, or with what is observed of their numbers."""


def observed_codes(evidence: Observed, schema: Schema) -> dict[str, int]:
    """List the codes of observed states, for what takes nothing else as evidence.

    Args:
        evidence: of a query.
        schema: of its variables.

    Raises:
        InputError: evidence is a number or a comparison; or an unknown variable or state.
    """
    codes = {}
    for name, state in evidence:
        if not isinstance(state, str):
            raise InputError(
                f"evidence {shown(state.write(name))} is no state; here evidence is a state of {shown(name)}"
            )
        codes[name] = schema[name].code(state)
    return codes


@dataclass(frozen=True)
class Probability:
    """`P(targets | evidence)`.

    Args:
        targets: variables with a state, or None for all its states.
        evidence: observed variables with their states or numbers.
    """

    targets: tuple[tuple[str, str | None], ...]
    evidence: Observed = ()

    @property
    def kind(self) -> QueryKind:
        """Kind of the answer."""
        return "conditional" if self.evidence else "marginal"

    def __str__(self) -> str:
        """Write the query so that `parse_query` reads it back."""
        return _write_query("P", self.targets, self.evidence)


@dataclass(frozen=True)
class MostProbable:
    """Query `MAP(targets | evidence)`, or `MPE(| evidence)` without targets.

    Args:
        targets: variables to explain; empty for all unobserved ones.
        evidence: observed variables with their states or numbers.
    """

    targets: tuple[str, ...]
    evidence: Observed = ()

    @property
    def kind(self) -> QueryKind:
        """Kind of the answer."""
        return "map" if self.targets else "mpe"

    def __str__(self) -> str:
        """Write the query so that `parse_query` reads it back."""
        return _write_query(self.kind.upper(), tuple((name, None) for name in self.targets), self.evidence)


@dataclass(frozen=True)
class NumberQuery:
    """`E(X | evidence)`, `sd(X | evidence)`, `quantile(X, p | evidence)`, `P(X > c | evidence)` or `cor(X, Z)`.

    Args:
        quantity: "mean", "sd", "variance", "covariance", "correlation", "quantile", or a comparison: ">", ">=", "<" or
            "<=".
        variable: numeric, with bins.
        at: the share of a quantile, or the number of a comparison; None for others.
        evidence: observed variables with their states or numbers.
        second: another numeric variable, of a covariance or correlation; None for others.
    """

    quantity: str
    variable: str
    at: float | None
    evidence: Observed = ()
    second: str | None = None

    @property
    def kind(self) -> QueryKind:
        """Kind of the answer."""
        return cast(QueryKind, self.quantity) if self.quantity.isalpha() else self.bins.kind

    @property
    def bins(self) -> Probability:
        """The query of the bins' probabilities, from which it is answered."""
        return Probability(self.targets, self.evidence)

    @property
    def targets(self) -> tuple[tuple[str, None], ...]:
        """The variables without a state, as the targets of a `Probability`."""
        return ((self.variable, None), *(() if self.second is None else ((self.second, None),)))

    def __str__(self) -> str:
        """Write the query so that `parse_query` reads it back."""
        heads = {quantity: head for head, quantity in HEADS.items()} | {"quantile": "quantile"}
        head, at = heads.get(self.quantity, "P"), "" if self.at is None else _write_number(self.at)
        suffix = "" if self.at is None else f", {at}" if self.quantity == "quantile" else f" {self.quantity} {at}"
        text = _write_query(head, self.targets, self.evidence)
        name = _quote_name(self.variable)
        return text.replace(f"{head}({name}", f"{head}({name}{suffix}", 1)


def _write_number(value: float) -> str:
    """Write a number so that it reads back exactly, in 15 digits if they suffice."""
    if isinstance(value, Printed):
        return str(value)
    text = f"{value:.15g}"
    return text if float(text) == value else repr(float(value))


PlainQuery = Probability | MostProbable | NumberQuery
"""A query that is answered by itself."""


class ComposedQuery(ABC):
    """A question whose answer is computed from the draws of other queries' answers; the pack `questions` has them."""

    kind: ClassVar[QueryKind] = "expression"
    targets: ClassVar[tuple[tuple[str, None], ...]] = ()
    evidence: ClassVar[Observed] = ()

    @abstractmethod
    def atoms(self, network: Network) -> tuple[PlainQuery, ...]:
        """List the queries from whose answers it is computed; a workload of the question is these.

        Raises:
            InputError: the question does not fit the network.
        """

    @abstractmethod
    def combine(self, answers: Sequence[Any], posterior: Any, level: float) -> Any:
        """Compute its answer.

        Args:
            answers: one to each of `atoms`, with its draws.
            posterior: that answered.
            level: posterior probability of each interval.

        Raises:
            InputError: the draws do not determine it.
        """


Query = PlainQuery | ComposedQuery


def plain_queries(queries: Iterable[str | Query], network: Network) -> list[PlainQuery]:
    """List queries, parsed and checked; those that others are computed from take their place."""
    parsed = [read_query(query, network.schema) for query in queries]
    return [atom for each in parsed for atom in (each.atoms(network) if isinstance(each, ComposedQuery) else (each,))]


def asked_cells(query: Probability, schema: Schema) -> npt.NDArray[np.intp]:
    """Find the positions of the joint states of the targets that a query asks for.

    Args:
        query: its targets may have states.
        schema: of its variables.

    Returns:
        Flat positions in a table over the targets, in their order.

    Example:
        >>> schema = Schema((Variable("smoke", ("yes", "no")), Variable("lung", ("yes", "no"))))
        >>> asked_cells(Probability((("smoke", None), ("lung", "no"))), schema).tolist()
        [1, 3]
    """
    codes = np.indices([schema[name].size for name, _ in query.targets]).reshape(len(query.targets), -1)
    selected = np.ones(codes.shape[1], bool)
    for row, (name, state) in zip(codes, query.targets, strict=True):
        selected &= state is None or row == schema[name].code(state)
    return np.flatnonzero(selected)


def parse_query(text: str, schema: Schema) -> Query:
    """Parse a query.

    Args:
        text: in the grammar of `answer`.
        schema: with its names.

    Returns:
        The query.

    Raises:
        InputError: not a query, an unknown variable or state, a repeated variable, or a text that is too long.

    Guarantee:
        None spent: reads no data.

    Example:
        >>> import discreet as dc
        >>> schema = dc.Schema((dc.Variable("smoke", ("yes", "no")), dc.Variable("O2", ("<5", ">=5"))))
        >>> str(dc.tools.parse_query("P( smoke |O2=>=5)", schema))
        'P(smoke | O2=>=5)'
    """
    at_most(QUERY_CHARACTERS, text, "characters of a query")
    try:
        query = _parse_plain(text, schema)
        if not (isinstance(query, NumberQuery) and query.second and _has_range(query.evidence)):
            return query
    except InputError:
        if not (re.search(r"\w\s*\(", text) and COMPOSED.search(re.sub(r'"[^"]*"', "_", text))):
            raise
    composed: Query = above("Query.of_question")(text, schema)
    return composed


def _has_range(evidence: Observed) -> bool:
    """True if a comparison is evidence, given which the covariance of numbers is composed."""
    return any(isinstance(seen, NumberRange) and not seen.value for _, seen in evidence)


def _parse_plain(text: str, schema: Schema) -> PlainQuery:
    """Parse a query that is answered by itself."""
    match = BEGINS.match(text)
    body = None if match is None else re.fullmatch(r"(.*)\)\s*", text[match.end() :], re.DOTALL)
    if match is None or body is None:
        _refuse(text, "write P(A, B | C=c), MAP(A, B | C=c), MPE(| C=c), or E(X | C=c) for numbers")
    targets, evidence = (_name_states(items, schema) for items in _read_items(body[1], text))
    observed = _read_evidence(evidence, schema, text)
    query: PlainQuery
    if match[1] in HEADS or match[1] in ("median", "quantile"):
        query = _read_number_query(match[1], targets, observed, text)
    elif match[1] == "P" and len(targets) == 1 and (compared := _read_comparison(*targets[0], schema)):
        query = replace(compared, evidence=observed)
    elif match[1] == "P":
        if not targets:
            _refuse(text, "P needs at least one variable before the bar")
        query = Probability(tuple(targets), observed)
    else:
        query = _read_explanation(match[1], targets, observed, text)
    check_names(query, schema)
    return query


def _read_explanation(
    kind: str, targets: Sequence[tuple[str, str | None]], observed: Observed, text: str
) -> MostProbable:
    """Read a query for the most probable states."""
    if any(state is not None for _, state in targets):
        _refuse(text, f"{kind} finds the states; give variables only")
    if (kind == "MPE") == bool(targets):
        _refuse(text, "write MAP(A, B | C=c) to explain some variables, MPE(| C=c) to explain all")
    return MostProbable(tuple(name for name, _ in targets), observed)


def parse_regression(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse the text of a regression.

    Args:
        text: `Y ~ A, B`, or `Y ~ A + B`; names with one of these signs are in double quotes.

    Returns:
        (target, covariates), names as written.

    Raises:
        InputError: not a regression, or a text that is too long.

    Example:
        >>> parse_regression('lung ~ smoke, "age, years"')
        ('lung', ('smoke', 'age, years'))
    """
    at_most(QUERY_CHARACTERS, text, "characters of a regression")
    names: list[str] = []
    marks: list[str] = []
    position = 0
    while (position := _skip_blanks(text, position)) < len(text):
        match = REGRESSION_TERM.match(text, position)
        if match is None or (match["mark"] is None) != (len(names) == len(marks)):
            _refuse(text, "write a regression as TARGET ~ A, B")
        position = match.end()
        if match["mark"] is not None:
            marks.append(match["mark"])
        else:
            names.append(match["quoted"] if match["quoted"] is not None else match["word"].strip())
    if marks[:1] != ["~"] or "~" in marks[1:] or len(names) != len(marks) + 1:
        _refuse(text, "write a regression as TARGET ~ A, B")
    return names[0], tuple(names[1:])


def split_evidence(text: str) -> tuple[str, str]:
    """Split the text of a regression from that of its evidence, at the first bar outside quotes.

    Example:
        >>> split_evidence('lung ~ "a|b" | smoke=yes'), split_evidence("lung ~ smoke")
        (('lung ~ "a|b" ', ' smoke=yes'), ('lung ~ smoke', ''))
    """
    at_most(QUERY_CHARACTERS, text, "characters of a regression")
    before = BEFORE_BAR.match(text)
    assert before is not None
    return before[1], text[before.end() :]


def parse_evidence(text: str, schema: Schema) -> Observed:
    """Parse evidence that stands alone, such as `smoke=yes, age > 60`; none if the text is blank.

    Raises:
        InputError: as `parse_query`.
    """
    at_most(QUERY_CHARACTERS, text, "characters of evidence")
    observed = _read_evidence(_name_states(_read_items(f"|{text}", text)[1], schema), schema, text)
    check_names(Probability((), observed), schema)
    return observed


def read_query(query: str | Query, schema: Schema) -> Query:
    """Parse a query if it is text, and check that it fits a schema.

    Args:
        query: text, or a parsed query.
        schema: with its names.

    Raises:
        InputError: another type, or as in `parse_query` and `check_names`.
    """
    if not isinstance(query, str | Query):
        raise InputError(f"a query is text or a parsed query, not a {type(query).__name__}")
    parsed = parse_query(query, schema) if isinstance(query, str) else query
    check_names(parsed, schema)
    return parsed


def check_names(query: Query, schema: Schema) -> None:
    """Refuse a query that does not fit a schema.

    Args:
        query: the query; a composed one was checked when it was parsed.
        schema: with its names.

    Raises:
        InputError: an unknown variable or state, a repeated variable, or nothing left to explain.
    """
    if isinstance(query, ComposedQuery):
        return
    targets = tuple((name, None) for name in query.targets) if isinstance(query, MostProbable) else query.targets
    named: list[tuple[str, str | NumberRange | AnyOf | None]] = [*targets, *query.evidence]
    columns = [read_whom(name, state, schema)[0] for name, state in named]
    twice = first_repeated(columns)
    for column, (name, state) in zip(columns, named, strict=True):
        if name not in schema:
            _refuse(str(query), f"no variable {shown(name)}{did_you_mean(name, schema.names)}")
        if column == twice:
            _refuse(str(query), f"variable {shown(column)} occurs twice")
        if isinstance(state, NumberRange):
            _check_range(query, schema[name], state)
        elif isinstance(state, str) and column == name and not schema[name].has(state):
            _refuse(str(query), f"{shown(name)} {schema[name].refuse_state(state)}")
    for name, _ in query.targets if isinstance(query, NumberQuery) else ():
        shares = query.kind in ("marginal", "conditional")
        if not (schema[name].comparable and (shares or schema[name].numeric)):
            _refuse(str(query), f"{shown(name)} has no numeric bounds and bins; use P({name})")
    if isinstance(query, MostProbable) and len(query.evidence) == len(schema):
        _refuse(str(query), "every variable is observed; nothing is left to explain")


# ------------------------------------------------------------------------------------------------------------ text


def write_evidence(observed: Observed) -> str:
    """Write evidence so that `parse_evidence` reads it back."""
    return _write_query("", (), observed).removeprefix("(| ").removesuffix(")").removeprefix("(")


def _read_number_query(head: str, targets: list[tuple[str, str | None]], observed: Observed, text: str) -> NumberQuery:
    """Read a mean or a quantile."""
    names, quantity = [name for name, _ in targets], HEADS.get(head, "quantile")
    if any(state is not None for _, state in targets) or len(names) != 1 + (head == "quantile" or quantity in OF_TWO):
        _refuse(text, "write E(X | C=c), median(X) or quantile(X, 0.9) for one numeric variable, cor(X, Z) for two")
    if quantity in OF_TWO:
        return NumberQuery(quantity, names[0], None, observed, names[1])
    if head in HEADS:
        return NumberQuery(quantity, names[0], None, observed)
    share = 0.5 if head == "median" else _read_float(names[1])
    if share is None or not 0 < share < 1:
        _refuse(text, "the share of a quantile is a number between 0 and 1, such as 0.9")
    return NumberQuery("quantile", names[0], share, observed)


def _read_comparison(name: str, state: str | None, schema: Schema) -> NumberQuery | None:
    """Read a comparison of a variable with a number; None if it is none. An equal sign separates name and state."""
    if name in schema:
        return None
    match = COMPARED_WITH.fullmatch(name if state is None else f"{name}={state}")
    if match is None or match[1] not in schema:
        return None
    variable = schema[match[1]]
    number = _read_float(match[3], variable.read_number)
    if number is None and (variable.ordered or variable.number_type.is_calendar):
        like = listed(variable.states[: len(variable.matched)]) if variable.ordered else "a date such as 2024-02-29"
        raise InputError(f"{shown(match[3])} is nothing that {shown(match[1])} is compared with: write {like}")
    return None if number is None else NumberQuery(match[2], match[1], number)


def _read_evidence(items: Sequence[tuple[str, str | None]], schema: Schema, text: str) -> Observed:
    """Read evidence: states, numbers and comparisons; several comparisons of one variable become one range.

    A text that names a state is that state; else a number of a variable with bins is that number.
    """
    observed = dict[str, str | NumberRange | AnyOf]()
    for written, state in items:
        name, states = read_whom(written, state, schema)
        state, *more = states or (state,)
        seen: str | NumberRange | AnyOf | None = AnyOf(written, states) if more else state
        compared = _read_comparison(name, state, schema)
        if compared is not None and compared.at is not None:
            name, seen = compared.variable, NumberRange.of_comparison(compared.quantity, compared.at)
        elif state is not None and name in schema and schema[name].numeric and not schema[name].has(state):
            number = _read_float(state, schema[name].read_number)
            seen = state if number is None else NumberRange(number, number)
        if seen is None:
            compares = COMPARED_WITH.fullmatch(name)
            if compares is not None and name not in schema and compares[1] not in schema:
                _refuse(text, f"no variable {shown(compares[1])}{did_you_mean(compares[1], schema.names)}")
            _refuse(text, f"the evidence {shown(name)} needs a state, as in NAME=STATE")
        before = observed.get(name)
        if isinstance(before, NumberRange) and isinstance(seen, NumberRange):
            seen = before.narrow(seen)
        elif before is not None and not (more and before == seen):
            _refuse(text, f"variable {shown(name)} occurs twice")
        if isinstance(seen, NumberRange) and seen.value and not (seen.above or seen.below) and schema[name].ordered:
            seen = schema[name].states[int(seen.low)]
        observed[name] = seen
    return tuple(observed.items())


def read_evidence(text: str, schema: Schema) -> Observed:
    """Read evidence alone, as it stands behind the bar of a query.

    Args:
        text: states, numbers and comparisons, with commas between them.
        schema: with its names.

    Raises:
        InputError: as `parse_query`.
    """
    observed = _read_evidence(_name_states(_read_items(f"| {text}", text)[1], schema), schema, text)
    check_names(Probability((), observed), schema)
    return observed


def read_whom(name: str, state: object, schema: Schema) -> tuple[str, tuple[str, ...]]:
    """Find the column that X applies by, and its states, for `X=applies`; of all else the name itself and no states.

    Raises:
        InputError: a column whose gaps do not apply, by no declared state.
    """
    if state != APPLIES or name not in schema or schema[name].not_applicable is None or schema[name].has(APPLIES):
        return name, ()
    condition = schema[name].condition
    if condition is None:
        raise InputError(f"{shown(name)} applies by no declared state; give one as evidence")
    column = condition.column
    return column, tuple(schema[column].name_state(each) if column in schema else each for each in condition.states)


def _check_range(query: Query, variable: Variable, seen: NumberRange) -> None:
    """Refuse a number or a comparison as evidence that says nothing of a variable, or that no number meets."""
    name = variable.name
    if not variable.comparable:
        _refuse(str(query), f"{shown(name)} has no numeric bounds and bins; observe a state, as in NAME=STATE")
    low, high = variable.bounds or map(variable.read_number, (variable.matched[0], variable.matched[-1]))
    if seen.value and not low <= seen.low <= high:
        _refuse(str(query), f"{_write_number(seen.low)} lies outside the bounds of {shown(name)}, {low:g} to {high:g}")
    if seen.contains_none(variable):
        _refuse(
            str(query),
            f"no {variable.number_type.noun} of {shown(name)}, {low:g} to {high:g}, meets {seen.write(name)}",
        )


def _read_float(text: str, read: Callable[[str], float] = float) -> float | None:
    """Read a finite number, or what it stands for; None if it is none."""
    try:
        number = read(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _read_items(body: str, text: str) -> tuple[list[tuple[str, str | None]], list[tuple[str, str | None]]]:
    """Read names, and states if given, before and after the bar."""
    sides: list[list[tuple[str, str | None]]] = [[]]
    position, expected = 0, True
    while (position := _skip_blanks(body, position)) < len(body):
        match = QUERY_TOKEN.match(body, position)
        if match is None:
            _refuse(text, f"cannot read {shown(body[position:])}")
        position = match.end()
        if match["mark"] == "|" and len(sides) == 1 and not (expected and sides[0]):
            sides.append([])
            expected = True
        elif match["mark"] == "," and not expected:
            expected = True
        elif match["mark"] is not None or not expected:
            _refuse(text, f"did not expect {shown(match.group().strip())}")
        else:
            name = match["quoted"] if match["quoted"] is not None else match["word"].strip()
            state, position = _read_state(body, position, text)
            sides[-1].append((name, state))
            expected = False
    if expected and any(sides) and not (len(sides) == 2 and not sides[-1]):
        _refuse(text, "a name is missing after the last comma")
    return sides[0], sides[1] if len(sides) == 2 else []


def _name_states(items: Sequence[tuple[str, str | None]], schema: Schema) -> list[tuple[str, str | None]]:
    """Replace codes that records hold by the states that they stand for."""
    return [
        (name, state if state is None or name not in schema else schema[name].name_state(state))
        for name, state in items
    ]


def _skip_blanks(body: str, position: int) -> int:
    """Find the position of the next character that is not blank."""
    match = BLANKS.match(body, position)
    assert match is not None
    return match.end()


def _read_state(body: str, position: int, text: str) -> tuple[str | None, int]:
    """Read the state after an equal sign, if there is one; states may contain equal signs and brackets."""
    equal = EQUAL.match(body, position)
    if equal is None:
        return None, position
    match = STATE_TEXT.match(body, equal.end())
    if match is None:
        _refuse(text, "a state is missing after '='")
    return (match["quoted"] if match["quoted"] is not None else match["word"].strip()), match.end()


def _write_query(head: str, targets: Sequence[tuple[str, str | None]], evidence: Observed) -> str:
    """Write a query so that `parse_query` reads it back."""

    def item(name: str, state: str | NumberRange | AnyOf | None) -> str:
        left = _quote_name(name)
        if state is None:
            return left
        if not isinstance(state, str):
            return state.write(name)
        return f'{left}="{state}"' if re.search(r'[,|)"]|^\s|\s$', state) else f"{left}={state}"

    before = ", ".join(item(name, state) for name, state in targets)
    after = ", ".join(item(name, state) for name, state in evidence)
    return f"{head}({before} | {after})" if before and after else f"{head}({f'| {after}' if after else before})"


def _quote_name(name: str) -> str:
    """Write a name, in quotes if it needs them."""
    return f'"{name}"' if re.search(r'[,|="()]|^\s|\s$', name) else name


def _refuse(text: str, reason: str) -> NoReturn:
    """Refuse a query."""
    raise InputError(f"query {shown(text.strip())}: {reason}")
