"""Variables and schemas: the public description of a table, declared by its user.

A schema must never be derived from private data: states that no record has, and bounds that no record reaches, are part
of it.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any

from discreet.errors import InputError, listed, require, shown, shown_path
from discreet.model.number_types import NUMBER_TYPES, RANKS, NumberType, Rank
from discreet.util.json_files import read_json, read_text
from discreet.util.limits import NETWORK_BYTES, QUERY_CHARACTERS, STATES, check_name, check_states, first_repeated
from discreet.util.similar import did_you_mean

Scope = tuple[str, ...]
"""Names of the variables of a table, one for each axis."""

AXES_LIMIT = 31
CELLS_LIMIT = 2**28
"""Largest table of a family that fits in memory: 2 GiB."""
LARGEST_WHOLE = 2.0**53
"""Largest whole number up to which floats represent all whole numbers."""
MOST_LOG_RATIO = 300.0
"""Logarithm of the largest ratio of the last bin's width to the first's."""
LONGEST_STATE = 10**18
"""Whole numbers below it may be states without quotes."""
SURROGATE = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which no file can store."""
MOST_CONDITIONS = 16
"""Most columns of conditions that follow from each other, so that no recursion is deep."""
NOT_APPLICABLE = "not applicable"
"""Name of the state of records that a column does not concern, unless another is declared."""
GAP_FIELDS = ("missing", "not_applicable", "applies_if")
"""Fields of a variable on its gaps."""
CONDITION = re.compile(
    r'\s*(?:"(?P<quoted>[^"]+)"|(?P<word>[^"={}]+?))\s*(?:=\s*(?P<one>"[^"]+"|[^{}]+)|\s+in\s*\{(?P<several>.*)\})\s*',
    re.DOTALL,
)
"""A column, a sign, and one state or several in braces."""
CONDITION_STATE = re.compile(r'\s*(?:"([^"]+)"|([^",\s](?:[^",]*[^",\s])?))\s*')
CONDITION_STATES = re.compile(f"{CONDITION_STATE.pattern}(?:,{CONDITION_STATE.pattern})*")


@dataclass(frozen=True)
class Condition:
    """The states of a column in which another column applies.

    Args:
        column: its name.
        states: of that column, at least one.

    Example:
        >>> Condition.parse("sex in {f, x}"), str(Condition.parse('"age group"=65+'))
        (Condition(column='sex', states=('f', 'x')), '"age group" = 65+')
    """

    column: str
    states: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> Condition:
        """Parse `COLUMN = STATE` or `COLUMN in {STATE, STATE}`; a name with a blank, comma or sign is in quotes.

        Raises:
            InputError: another text.
        """
        match = CONDITION.fullmatch(text) if isinstance(text, str) and len(text) <= QUERY_CHARACTERS else None
        states = "" if match is None else match["several"] or match["one"] or ""
        listed_states = [quoted or word for quoted, word in CONDITION_STATE.findall(states)]
        several = match is not None and match["several"] is not None
        if match is None or not CONDITION_STATES.fullmatch(states) or (len(listed_states) > 1 and not several):
            raise InputError(f"applies_if is 'COLUMN = STATE' or 'COLUMN in {{STATE, STATE}}', not {shown(text)}")
        return Condition(match["quoted"] or match["word"], tuple(dict.fromkeys(listed_states)))

    def __str__(self) -> str:
        """Write the condition so that `parse` reads it back."""
        column, *states = (
            f'"{name}"' if re.search(r'[\s",={}]', name) else name for name in (self.column, *self.states)
        )
        return f"{column} = {states[0]}" if len(states) == 1 else f"{column} in {{{', '.join(states)}}}"


@dataclass(frozen=True)
class Variable:
    """A column: categorical states, or numeric bounds with optional cut points.

    Cut points `c_1 < ... < c_m` inside the bounds `(lo, hi)` make a numeric column categorical with the m + 1 states
    `[lo, c_1), [c_1, c_2), ..., [c_m, hi]`, named `lo_to_c1` and so on unless `states` names them. For whole numbers
    each cut point is the first of its bin, and names end with the last: `18_to_64`. Dates and times are whole numbers
    with a unit (`discreet.model.number_types`): their bounds and cut points are written as dates.

    Args:
        name: the column's name, not empty.
        states: distinct, non-empty names in a fixed order; at least one unless `bounds` are given. Logical values and
            numbers are taken for the texts that spell them.
        bounds: public smallest and largest value, in the unit of the column; finite.
        bins: public cut points, strictly increasing and strictly inside the bounds (for whole numbers also the last);
            of dates also their distance, such as "month" or "3 months".
        type: of the numbers: "real", "integer" for whole values, bounds and cut points, "date" for days, or "datetime"
            for times of day, in whole seconds and without time zone.
        missing: the state for missing values; it is the last one, and is added if needed.
        not_applicable: the state of records that the column does not concern, such as the cause of death of the living;
            it follows the values, and is added if needed. Without `applies_if` every gap is one of these.
        applies_if: condition on another column, `dead = yes` or `sex in {f, x}`: the column applies to records in these
            states and to no others, and `not_applicable` is "not applicable" unless it has another name. Where the
            other column is missing, this one is read as it stands.
        other: the state of all values that are none of the others; it comes after them, before that for missing values,
            and is added if needed. Not of numbers, which have bounds.
        codes: what records hold in place of the names, one for each state but `other` and `missing`: then the names are
            labels, which answers show, and queries take either. Empty if records hold the names.
        ordered: whether the states but `other` and `missing` are in an order, so that queries may compare them.

    Raises:
        InputError: a name is empty or repeated, bounds or cut points are not finite and increasing, or the number of
            names does not match the number of bins.

    Example:
        >>> import discreet as dc
        >>> dc.Variable("age", bounds=(0, 120), bins=(18, 65)).states
        ('0_to_18', '18_to_65', '65_to_120')
        >>> dc.Variable("children", bounds=(0, 20), bins=(1, 3), type="integer").states
        ('0', '1_to_2', '3_to_20')
        >>> dc.Variable("cause", ("heart", "cancer"), other="other", missing="unknown").states
        ('heart', 'cancer', 'other', 'unknown')
        >>> dc.Variable("smokes", ("no", "yes"), codes=(0, 1)).code("1")
        1
        >>> admitted = dc.Variable("admitted", bounds=("2023-11-05", "2024-02-01"), bins="month", type="date")
        >>> admitted.states[:2], admitted.bounds[0]
        (('2023-11-05_to_2023-11-30', '2023-12-01_to_2023-12-31'), 19666.0)
    """

    name: str
    states: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    bins: tuple[float, ...] = ()
    type: str = "real"
    missing: str | None = None
    not_applicable: str | None = None
    applies_if: str | None = None
    other: str | None = None
    codes: tuple[str, ...] = ()
    ordered: bool = False

    def __post_init__(self) -> None:
        """Normalise the containers, then refuse an invalid variable."""
        require(isinstance(self.name, str) and bool(self.name), "a variable needs a name that is not empty")
        check_name(self.name, "the variable")
        several = isinstance(self.states, Iterable) and not isinstance(self.states, str)
        self._require(several, "states are a list of names")
        object.__setattr__(self, "states", tuple(map(_spell_state, self.states)))
        known = self.bounds is None or (isinstance(self.type, str) and self.type in NUMBER_TYPES)
        self._require(known, f"numbers are of type {', '.join(NUMBER_TYPES)}")
        for word in ("missing", "not_applicable", "other"):
            object.__setattr__(self, word, _spell_state(getattr(self, word)))
        self._add_other()
        if self.bounds is not None:
            object.__setattr__(self, "bounds", self._read_numbers("bounds", self.bounds))
            self._require(self.bounds is not None and len(self.bounds) == 2, "bounds are a pair (smallest, largest)")
            self._read_bins()
            self._check_numeric()
        else:
            none = isinstance(self.bins, Iterable) and not tuple(self.bins)
            self._require(none, "bins need bounds; declare the smallest and largest value too")
            object.__setattr__(self, "bins", ())
            advice = "`discreet domain` finds them, but for dates"
            self._require(bool(self.states), f"declare its states, or numeric bounds; {advice}")
            self._require(self.type == "real", "a type of numbers needs numeric bounds")
        self._add_gap_states()
        named = all(isinstance(state, str) and state for state in self.states)
        self._require(named, "every state needs a name that is not empty: a text, a number, true or false")
        longest = max(self.states, key=len, default="")
        check_name(longest, f"variable {shown(self.name)}: the state")
        if SURROGATE.search(self.name) or any(map(SURROGATE.search, self.states)):
            raise InputError("a variable's name or state has a lone surrogate, which cannot be written; rename it")
        if (twice := first_repeated(self.states)) is not None:
            raise InputError(f"variable {shown(self.name)}: state {shown(twice)} is declared twice")
        self._check_codes()
        self._require(isinstance(self.ordered, bool), "ordered is true or false")
        self._require(not (self.ordered and self.numeric), "numbers are in an order; leave out ordered")

    def _check_codes(self) -> None:
        """Refuse codes of records that are not one for each state, or that another state is called."""
        self._require(not isinstance(self.codes, str), "codes are a list, one for each state")
        object.__setattr__(self, "codes", tuple(map(_spell_state, self.codes)))
        if not self.codes:
            return
        self._require(not self.numeric, "codes are of states, not of numbers")
        self._require(len(self.codes) == len(self.matched), f"{len(self.matched)} states need as many codes")
        texts = all(isinstance(code, str) and code and not SURROGATE.search(code) for code in self.codes)
        self._require(texts, "codes are texts, numbers or logical values, and not empty")
        check_name(max(self.codes, key=len), f"variable {shown(self.name)}: the code")
        for position, code in enumerate(self.codes):
            clash = self._positions[code] != position
            self._require(not clash, f"code {shown(code)} stands twice, or is the label of another state")

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        """Position of each state by its name, or by its code."""
        by_code = {code: position for position, code in enumerate(self.codes)}
        return by_code | {state: position for position, state in enumerate(self.states)}

    def _require(self, holds: bool, message: str) -> None:
        """Refuse the variable unless a condition holds."""
        if not holds:
            raise InputError(f"variable {shown(self.name)}: {message}")

    def _read_numbers(self, label: str, values: Iterable[Any]) -> tuple[float, ...]:
        """Read bounds or bins."""
        try:
            return tuple(self.number_type.read(value) for value in values)
        except (TypeError, ValueError, OverflowError):
            distance = f", or their distance, such as month or 3 months, which makes at most {STATES:,} bins"
            dated = ", such as 2024-02-29" + distance * (label == "bins") if self.number_type.is_calendar else ""
            if (
                not dated
                and isinstance(values, tuple | list)
                and any(isinstance(each, datetime.date) for each in values)
            ):
                dated = '; of dates, declare type = "date"'
            kind = f"{label} must be a list of {self.number_type.noun}s{dated}"
            raise InputError(f"variable {shown(self.name)}: {kind}") from None

    def _read_bins(self) -> None:
        """Read cut points, or make those of a distance."""
        cuts: Any = self.bins
        if isinstance(cuts, str) and self.bounds is not None:
            with suppress(ValueError):
                cuts = self.number_type.cut_points(self.bounds, cuts, STATES - 1)
        object.__setattr__(self, "bins", self._read_numbers("bins", cuts))

    def _check_numeric(self) -> None:
        """Check bounds and cut points, and name the bins."""
        edges = self.edges
        if self.whole:
            integral = all(math.isfinite(edge) and edge == int(edge) and abs(edge) <= LARGEST_WHOLE for edge in edges)
            self._require(integral, "bounds and bins of whole numbers are whole, up to 2^53")
        rising = all(map(math.isfinite, edges)) and all(a < b for a, b in pairwise(edges))
        self._require(rising, "bounds and bins must be finite and strictly increasing, smallest < cut points < largest")
        if self.bins and not self.states:
            object.__setattr__(self, "states", tuple(starmap(self.number_type.name_bin, pairwise(edges))))
        cuts, named = len(self.bins), len(self.states)
        gaps = {self.not_applicable, self.missing}.intersection(self.states)
        fit = not named or named - len(gaps) == cuts + 1
        self._require(fit, f"{cuts} cut points make {cuts + 1} states, but {named} are named")

    def _add_other(self) -> None:
        """Put the state for all other values after those that are matched, and before those for gaps."""
        if self.other is None:
            return
        self._require(self.bounds is None, "a state for other values is not for numbers, whose bounds clip them")
        gaps = {self.missing, self.not_applicable or (self.applies_if and NOT_APPLICABLE)}
        place = next((place for place, state in enumerate(self.states) if state in gaps), len(self.states))
        if self.other not in self.states:
            object.__setattr__(self, "states", (*self.states[:place], self.other, *self.states[place:]))
            place += 1
        last = isinstance(self.other, str) and self.other not in gaps and self.states[place - 1] == self.other
        self._require(last, "the state for other values must come after all others, but for those for gaps")

    def _add_gap_states(self) -> None:
        """Put the states for gaps last, after at least one value; bins may be found later."""
        if self.applies_if is not None:
            object.__setattr__(self, "applies_if", str(Condition.parse(self.applies_if)))
            object.__setattr__(self, "not_applicable", self.not_applicable or NOT_APPLICABLE)
        gaps = [state for state in (self.not_applicable, self.missing) if state is not None]
        alone = self.applies_if is not None or len(gaps) < 2
        self._require(alone, "a gap either does not apply or is missing; applies_if tells the two apart")
        if not gaps or (self.numeric and not self.states and not self.bins):
            return
        values = [state for state in self.states if state not in gaps]
        in_order = list(self.states[len(values) :]) == [state for state in gaps if state in self.states]
        last = in_order and bool(values) and len({*gaps}) == len(gaps) and all(isinstance(gap, str) for gap in gaps)
        self._require(last, "states for gaps are the last ones, after values: not applicable, then missing")
        object.__setattr__(self, "states", (*values, *gaps))

    @property
    def values(self) -> tuple[str, ...]:
        """States that are values: neither the state for missing values nor that of records it does not concern."""
        return self.states[: self.size - (self.missing is not None) - (self.not_applicable is not None)]

    @property
    def complete(self) -> tuple[str, ...]:
        """States that a complete record may have: all but the one for missing values."""
        return self.states if self.missing is None else self.states[:-1]

    @property
    def matched(self) -> tuple[str, ...]:
        """Texts that a value of a record is compared with: those of `values` but for the one of all other values."""
        return self.held[: len(self.values) - (self.other is not None)]

    @property
    def held(self) -> tuple[str, ...]:
        """Text that records hold for each state: its code, or its name."""
        return (*self.codes, *self.states[len(self.codes) :])

    def name_state(self, state: str) -> str:
        """Name the state of a code; another text stays as it is."""
        position = self._positions.get(state)
        return state if position is None else self.states[position]

    @cached_property
    def condition(self) -> Condition | None:
        """When the column applies; None if that is not declared."""
        return None if self.applies_if is None else Condition.parse(self.applies_if)

    @staticmethod
    def binned(
        name: str, bounds: tuple[float, float], number: int, *, type: str = "real", ratio: float = 1.0
    ) -> Variable:
        """Make a numeric variable with equally wide bins, or each wider than the last.

        Args:
            name: of the column.
            bounds: public smallest and largest value.
            number: of bins, from 2 to 65,536; for whole numbers fewer if some would be empty.
            type: "real" or "integer".
            ratio: of the width of each bin to the one before it, at least 1: more than 1 for numbers that are mostly
                small, such as wages.

        Returns:
            The variable.

        Raises:
            InputError: as in `Variable`, or an invalid number or ratio.

        Example:
            >>> import discreet as dc
            >>> dc.Variable.binned("age", (0, 100), 4).bins
            (25.0, 50.0, 75.0)
            >>> dc.Variable.binned("wage", (0, 1500), 4, ratio=2).bins
            (100.0, 300.0, 700.0)
        """
        if isinstance(number, bool) or not isinstance(number, int) or not 2 <= number <= STATES:
            raise InputError(f"variable {shown(name)}: from 2 to {STATES:,} bins, not {number}")
        if not (math.isfinite(ratio) and ratio >= 1 and number * math.log(ratio) < MOST_LOG_RATIO):
            raise InputError(f"variable {shown(name)}: the ratio of bins is at least 1, and the last of finite width")
        low, *_, high = Variable(name, bounds=bounds, type=type).edges
        total = number if ratio == 1 else ratio**number - 1
        cuts = (low + (high - low) * (k if ratio == 1 else ratio**k - 1) / total for k in range(1, number))
        bins = sorted({float(math.ceil(cut)) for cut in cuts} - {low, high}) if NUMBER_TYPES[type].whole else cuts
        return Variable(name, bounds=bounds, bins=tuple(bins), type=type)

    @property
    def edges(self) -> tuple[float, ...]:
        """Lower ends of the bins, and the upper end of the last; for whole numbers the first number beyond it.

        Ordered states are the numbers 0, 1, ...

        Raises:
            InputError: the variable is not numeric.
        """
        if self.ordered:
            return tuple(map(float, range(len(self.matched) + 1)))
        if self.bounds is None:
            raise InputError(f"variable {shown(self.name)} has no numbers: declare bounds")
        return (self.bounds[0], *self.bins, self.bounds[1] + self.whole)

    @property
    def number_type(self) -> NumberType:
        """Meaning of the numbers."""
        return RANKS if self.ordered else NUMBER_TYPES[self.type]

    @property
    def comparable(self) -> bool:
        """True if queries may compare it: numbers with bins, and ordered states."""
        return self.ordered or (self.numeric and self.size > 0)

    def read_number(self, text: str) -> float:
        """Read what a query compares with: a number, a date, or an ordered state; ValueError if it is none."""
        if not self.ordered:
            return self.number_type.read(text)
        if self.has(text) and self.code(text) < len(self.matched):
            return Rank(self.code(text), self.name_state(text))
        raise ValueError("no ordered state")

    @property
    def whole(self) -> bool:
        """True if the numbers are whole."""
        return self.number_type.whole

    @property
    def numeric(self) -> bool:
        """True if the column has numbers with public bounds."""
        return self.bounds is not None

    @property
    def size(self) -> int:
        """Number of states; 0 for a numeric variable without bins."""
        return len(self.states)

    def has(self, state: str) -> bool:
        """Return True if the variable has a state of this name.

        Args:
            state: its name.

        Returns:
            True if so.
        """
        return state in self._positions

    def code(self, state: str) -> int:
        """Return the position of a state.

        Args:
            state: its name.

        Returns:
            Its position among the states, from 0.

        Raises:
            InputError: the variable has no such state; the message lists its states.
        """
        code = self._positions.get(state)
        if code is None:
            raise InputError(f"variable {shown(self.name)} {self.refuse_state(state)}")
        return code

    def refuse_state(self, state: str) -> str:
        """Write the end of a refusal of a state that the variable does not have: what it has, and a similar one."""
        others = "" if self.other is None else f"; any other value counts as {shown(self.other)}"
        similar = did_you_mean(state, self._positions) if isinstance(state, str) else ""
        return f"has no state {shown(state)}; its states: {listed(self.states)}{others}{similar}"

    def document(self) -> dict[str, Any]:
        """Declaration as in documents, without what it does not have; `schema_of_parts` and releases read it back."""
        return (
            {"name": self.name, "states": list(self.states)}
            | ({} if self.bounds is None else {"bounds": list(self.bounds), "bins": list(self.bins)})
            | ({"type": self.type} if self.type != "real" else {})
            | write_gaps(self)
            | ({} if self.other is None else {"other": self.other})
            | ({"codes": list(self.codes)} if self.codes else {})
            | ({"ordered": True} if self.ordered else {})
        )


def _spell_state(state: Any) -> Any:
    """Spell a state that is a logical value or a number; anything else stays, for others to judge."""
    if isinstance(state, int) and abs(state) < LONGEST_STATE:
        return str(state).lower()
    return f"{state:.15g}" if isinstance(state, float) and math.isfinite(state) else state


def bin_ends(variable: Variable) -> tuple[float, ...]:
    """List the bounds of a numeric variable with its cut points between them.

    Args:
        variable: with bounds; for whole numbers the last end is the upper bound itself, unlike in `edges`.

    Example:
        >>> bin_ends(Variable("age", bounds=(0, 120), bins=(18, 65), type="integer"))
        (0.0, 18.0, 65.0, 120.0)
    """
    low, *_ = variable.edges
    assert variable.bounds is not None
    return (low, *variable.bins, variable.bounds[1])


def table_cells(sizes: Iterable[int]) -> int:
    """Count the cells of a family's table.

    Args:
        sizes: states of the parents and of the child.

    Returns:
        Their product.

    Raises:
        InputError: the table is too large for any machine.

    Example:
        >>> table_cells((2, 3))
        6
    """
    listed = list(sizes)
    if len(listed) > AXES_LIMIT or math.prod(listed) > CELLS_LIMIT:
        raise InputError(
            f"a table over {len(listed)} variables with {math.prod(listed):.3g} cells is too large for memory"
        )
    return math.prod(listed)


@dataclass(frozen=True)
class Schema:
    """Variables of a table, in order, each name once.

    Args:
        variables: at least one.

    Raises:
        InputError: no variable, or a repeated name.

    Example:
        >>> import discreet as dc
        >>> study = dc.Schema((dc.Variable("smoke", ("no", "yes")), dc.Variable("age", bounds=(0, 120))))
        >>> study.names, study["smoke"].code("yes"), "wage" in study
        (('smoke', 'age'), 1, False)
    """

    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        """Normalise, then refuse an invalid schema."""
        object.__setattr__(self, "variables", tuple(self.variables))
        if not self.variables:
            raise InputError("a schema needs at least one variable")
        if len(self._positions) != len(self.variables):
            raise InputError(f"variable {shown(first_repeated(self.names))} is declared twice")
        try:
            TopologicalSorter(self.condition_columns).prepare()
        except CycleError as error:
            raise InputError(f"whether {shown(error.args[1][0])} applies depends on itself") from None
        if any(len(self.with_conditions([name])) > MOST_CONDITIONS for name in self.conditions):
            raise InputError(
                f"a column applies by {MOST_CONDITIONS} conditions or more, one on another; name the first"
            )

    @cached_property
    def conditions(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """By name of a column with a condition: the column that it is on, if that is here, and the codes of its states.

        Raises:
            InputError: an unknown state, that for missing values, or all others.
        """
        codes = dict[str, tuple[str, tuple[int, ...]]]()
        for each in self.variables:
            if each.condition is not None and each.condition.column in self:
                column = self[each.condition.column]
                # A code and its label are one state.
                states = tuple(sorted(set(map(column.code, each.condition.states))))
                codes[each.name] = column.name, states
                if column.missing in each.condition.states:
                    raise InputError(
                        f"{shown(each.name)} applies by values of {shown(column.name)}, not by missing ones"
                    )
                some = len(states) < len(column.complete)
                require(some, f"{shown(each.name)} applies in all states of {shown(column.name)}: leave out applies_if")
        return codes

    @cached_property
    def condition_columns(self) -> dict[str, tuple[str, ...]]:
        """By name of each column, the one that its condition is on; none without a condition."""
        return {name: (self.conditions[name][0],) if name in self.conditions else () for name in self.names}

    def with_conditions(self, names: Iterable[str]) -> tuple[str, ...]:
        """List some columns, and those that their conditions are on.

        Args:
            names: of columns.

        Returns:
            Each once: the names as given, then the others, which precede no column of their own condition.
        """
        listed_names = list(dict.fromkeys(names))
        for name in listed_names:
            column, _ = self.conditions.get(name, (name, ()))
            if column not in listed_names:
                listed_names.append(column)
        return tuple(listed_names)

    def require_same_records(self, names: Iterable[str]) -> None:
        """Refuse to relate a number that does not apply to all records to a column that concerns others.

        Args:
            names: of the columns that are related. A state for what does not apply is a state like others, but it is no
                number: columns with one must all be numbers, under one condition.

        Raises:
            InputError: as it says.
        """
        columns = [self[name] for name in names]
        some = [each.name for each in columns if each.numeric and each.not_applicable is not None]
        alike = all(each.numeric for each in columns) and len({self.conditions.get(each.name) for each in columns}) == 1
        require(
            not some or (alike and some[0] in self.conditions),
            f"{listed(some)}: not applicable to some records that the others concern, or the reverse: relate "
            "numbers that apply by one condition, or ask for means given states, such as E(X | A=a)",
        )

    def require_conditions(self) -> None:
        """Refuse a condition on a column that is not here, or that may be missing where its own column may not.

        Raises:
            InputError: as it says.
        """
        for name, (column, _) in self.conditions.items():
            if self[column].missing is not None and self[name].missing is None:
                raise InputError(
                    f"variable {shown(column)} may be missing, and then nobody knows whether {shown(name)} applies: "
                    f"give {shown(name)} a state for missing values, too"
                )
        for each in self.variables:
            if each.condition is not None and each.name not in self.conditions:
                raise InputError(
                    f"variable {shown(each.name)} applies if {shown(str(each.condition))}, and there is no column "
                    f"{shown(each.condition.column)}; there are: {listed(self.names)}"
                )

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        """Position of each name."""
        return {variable.name: position for position, variable in enumerate(self.variables)}

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(variable.name for variable in self.variables)

    def with_missing(self, names: Iterable[str] | None = None, state: str = "missing") -> Schema:
        """Return the same variables, some of which may be missing.

        Args:
            names: of these variables; None for all whose gaps do not say already that they do not apply. Do not choose
                them by looking at private records.
            state: name of the state for variables that have none.

        Returns:
            A new schema.

        Raises:
            InputError: an unknown name, or a variable without states or with a state of that name.

        Example:
            >>> import discreet as dc
            >>> dc.Schema((dc.Variable("wet", ("no", "yes")),)).with_missing()["wet"].states
            ('no', 'yes', 'missing')
        """
        open_names = [each.name for each in self if each.not_applicable is None or each.applies_if is not None]
        chosen = {self[name].name for name in (open_names if names is None else names)}
        added = {each.name for each in self if each.name in chosen and each.missing is None}
        for name in added:
            if self[name].has(state) or not self[name].states:
                raise InputError(f"variable {shown(name)} needs states, and none named {shown(state)}")
        return Schema(tuple(replace(each, missing=state) if each.name in added else each for each in self))

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __getitem__(self, name: str) -> Variable:
        if name not in self._positions:
            similar = did_you_mean(name, self.names) if isinstance(name, str) else ""
            raise InputError(f"no variable {shown(name)}; there are: {listed(self.names)}{similar}")
        return self.variables[self._positions[name]]

    @staticmethod
    def read(path: str | Path) -> Schema:
        """Read a schema from JSON, in the form of `discreet schema`.

        Args:
            path: `{"variables": [{"name": ..., "states": [...]}, {"name": ..., "bounds": [lo, hi], "bins": [...]}]}`.

        Returns:
            The schema.

        Raises:
            InputError: no such file, not JSON of this form, or not a schema.
        """
        document = read_json(read_text(path, "schema", NETWORK_BYTES), f"schema {shown_path(path)}", NETWORK_BYTES)
        parts = document.get("variables") if isinstance(document, dict) else None
        return schema_of_parts(parts, f"schema {shown_path(path)}")


def write_gaps(variable: Variable) -> dict[str, Any]:
    """Write what a variable declares of gaps, as in a file; nothing where it declares nothing.

    Example:
        >>> write_gaps(Variable("cause", ("a", "b"), applies_if="dead=yes"))
        {'not_applicable': 'not applicable', 'applies_if': 'dead = yes'}
    """
    declared = {name: getattr(variable, name) for name in GAP_FIELDS}
    return {name: text for name, text in declared.items() if text is not None}


def schema_of_parts(parts: object, label: str) -> Schema:
    """Make a schema from the variables of a file.

    Args:
        parts: one object each: `{"name": ..., "states": [...]}` or `{"name": ..., "bounds": ..., "bins": ...}`.
        label: noun for the file in errors.

    Returns:
        The schema.

    Raises:
        InputError: not of this form, or not a schema.

    Example:
        >>> schema_of_parts([{"name": "age", "bounds": [0, 120], "bins": [18]}], "the file")["age"].states
        ('0_to_18', '18_to_120')
    """
    if not isinstance(parts, list) or not all(isinstance(member, dict) for member in parts):
        raise InputError(f"{label} needs a list of objects under 'variables'")
    try:
        check_states(map(_list_states, parts))
        schema = Schema(tuple(_read_variable(member) for member in parts))
        schema.require_conditions()
        return schema
    except InputError as error:
        raise InputError(f"{label}: {error}") from None


def _list_states(member: Mapping[str, Any]) -> list[Any]:
    """List the states of a variable of a schema file, or its cut points."""
    states = member.get("states") or member.get("bins")
    return states if isinstance(states, list) else []


def _read_variable(member: Mapping[str, Any]) -> Variable:
    """Read one variable of a schema file."""
    odd = sorted(set(map(str, member)) - VARIABLE_WORDS)
    if odd or "name" not in member:
        similar = "".join(did_you_mean(word, sorted(VARIABLE_WORDS)) for word in odd[:1])
        raise InputError(
            "a variable has a name, states or bounds and bins, and perhaps missing and other; "
            f"got {sorted(member)[:5]}{similar}"
        )
    states, codes = _read_states(member)
    words = {word: value for word, value in member.items() if word != "labels"}
    return Variable(**(words | {"states": states, "codes": codes}))


VARIABLE_WORDS = {"name", "states", "bounds", "bins", "type", *GAP_FIELDS, "other", "codes", "labels", "ordered"}
"""Words of a variable in files."""


def _read_states(member: Mapping[str, Any]) -> tuple[Any, Any]:
    """Read states and codes of a file: states `{code = 1, label = "yes"}`, or labels by code in a table."""
    labels, states, codes = member.get("labels"), member.get("states", ()), member.get("codes", ())
    if isinstance(states, list) and any(isinstance(state, dict) for state in states):
        parts = [state if isinstance(state, dict) else {"code": state, "label": state} for state in states]
        require(labels is None and not codes, "labels stand in states, or in a table of their own, not in both")
        require(all(part.keys() == {"code", "label"} for part in parts), "a state is a text, or has a code and a label")
        return [part["label"] for part in parts], [part["code"] for part in parts]
    if labels is None:
        return states, codes
    require(isinstance(labels, dict) and not codes, 'labels are a table, such as { 1 = "yes", 2 = "no" }')
    codes = [_spell_state(state) for state in states or labels]
    odd = next((code for code in labels if code not in codes), None)
    require(odd is None, f"labels name {shown(odd)}, which is no state{did_you_mean(str(odd), map(str, codes))}")
    return [labels.get(code, code) for code in codes], codes
