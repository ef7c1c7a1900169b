"""Variables and schemas: the public description of a table, declared by its user.

A schema must never be derived from private data: states that no record has, and bounds that no record reaches, are part
of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from discreet.errors import InputError, listed, require, shown, shown_path
from discreet.util.json_files import read_json, read_text
from discreet.util.limits import NETWORK_BYTES, STATES, check_name, check_states, first_repeated
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
SURROGATE = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which no file can store."""


@dataclass(frozen=True)
class Variable:
    """A column: categorical states, or numeric bounds with optional cut points.

    Cut points `c_1 < ... < c_m` inside the bounds `(lo, hi)` make a numeric column categorical with the m + 1 states
    `[lo, c_1), [c_1, c_2), ..., [c_m, hi]`, named `lo_to_c1` and so on unless `states` names them. For whole numbers
    each cut point is the first of its bin, and names end with the last: `18_to_64`.

    Args:
        name: the column's name, not empty.
        states: distinct, non-empty names in a fixed order; at least one unless `bounds` are given.
        bounds: public smallest and largest value, in the unit of the column; finite.
        bins: public cut points, strictly increasing and strictly inside the bounds (for whole numbers also the last).
        type: of the numbers: "real", or "integer" for whole values, bounds and cut points.
        missing: the state for missing values; it is the last one, and is added if needed.
        other: the state of all values that are none of the others; it comes after them, before that for missing values,
            and is added if needed. Not of numbers, which have bounds.

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
    """

    name: str
    states: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    bins: tuple[float, ...] = ()
    type: str = "real"
    missing: str | None = None
    other: str | None = None

    def __post_init__(self) -> None:
        """Normalise the containers, then refuse an invalid variable."""
        require(isinstance(self.name, str) and bool(self.name), "a variable needs a name that is not empty")
        check_name(self.name, "the variable")
        several = isinstance(self.states, Iterable) and not isinstance(self.states, str)
        self._require(several, "states are a list of names")
        object.__setattr__(self, "states", tuple(self.states))
        object.__setattr__(self, "bins", self._read_floats("bins", self.bins))
        self._check_other()
        if self.bounds is not None:
            object.__setattr__(self, "bounds", self._read_floats("bounds", self.bounds))
            self._check_numeric()
        else:
            self._require(not self.bins, "bins need bounds; declare the smallest and largest value too")
            self._require(bool(self.states), "declare its states, or numeric bounds; `discreet domain` finds them")
            self._require(self.type == "real", "a type of numbers needs numeric bounds")
        self._check_missing()
        named = all(isinstance(state, str) and state for state in self.states)
        self._require(named, "every state needs a name that is not empty")
        longest = max(self.states, key=len, default="")
        check_name(longest, f"variable {shown(self.name)}: the state")
        if SURROGATE.search(self.name) or any(map(SURROGATE.search, self.states)):
            raise InputError("a variable's name or state has a lone surrogate, which cannot be written; rename it")
        if len(self._codes) != len(self.states):
            raise InputError(
                f"variable {shown(self.name)}: state {shown(first_repeated(self.states))} is declared twice"
            )

    @cached_property
    def _codes(self) -> Mapping[str, int]:
        """Position of each state."""
        return {state: code for code, state in enumerate(self.states)}

    def _require(self, holds: bool, message: str) -> None:
        """Refuse the variable unless a condition holds."""
        if not holds:
            raise InputError(f"variable {shown(self.name)}: {message}")

    def _read_floats(self, label: str, values: Iterable[float]) -> tuple[float, ...]:
        """Convert bounds or bins to floats."""
        try:
            return tuple(float(value) for value in values)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"variable {shown(self.name)}: {label} must be a list of numbers") from None

    def _check_numeric(self) -> None:
        """Check bounds and cut points, and name the bins."""
        self._require(self.bounds is not None and len(self.bounds) == 2, "bounds are a pair (smallest, largest)")
        self._require(self.type in ("real", "integer"), "numbers are of type 'real' or 'integer'")
        edges = self.edges
        if self.type == "integer":
            integral = all(math.isfinite(edge) and edge == int(edge) and abs(edge) <= LARGEST_WHOLE for edge in edges)
            self._require(integral, "bounds and bins of whole numbers are whole, up to 2^53")
        rising = all(map(math.isfinite, edges)) and all(a < b for a, b in pairwise(edges))
        self._require(rising, "bounds and bins must be finite and strictly increasing, smallest < cut points < largest")
        if self.bins and not self.states:
            object.__setattr__(self, "states", _name_bins(edges, self.type == "integer"))
        cuts, named = len(self.bins), len(self.states)
        fit = not named or named - (self.missing in self.states) == cuts + 1
        self._require(fit, f"{cuts} cut points make {cuts + 1} states, but {named} are named")

    def _check_other(self) -> None:
        """Put the state for all other values after those that are matched."""
        if self.other is None:
            return
        self._require(self.bounds is None, "a state for other values is not for numbers, whose bounds clip them")
        if self.other not in self.states:
            place = self.states.index(self.missing) if self.missing in self.states else len(self.states)
            object.__setattr__(self, "states", (*self.states[:place], self.other, *self.states[place:]))
        last = isinstance(self.other, str) and self.other != self.missing and self.other == self.values[-1]
        self._require(last, "the state for other values must come after all others, but for that for missing values")

    def _check_missing(self) -> None:
        """Put the state for missing values last, after at least one other; bins may be found later."""
        if self.missing is None or (self.numeric and not self.states and not self.bins):
            return
        if self.missing not in self.states:
            object.__setattr__(self, "states", (*self.states, self.missing))
        last = isinstance(self.missing, str) and self.size > 1 and self.states[-1] == self.missing
        self._require(last, "the state for missing values must be the last one, after others")

    @property
    def values(self) -> tuple[str, ...]:
        """States that a complete record may have."""
        return self.states if self.missing not in self.states[-1:] else self.states[:-1]

    @property
    def matched(self) -> tuple[str, ...]:
        """States that a value of a record is compared with: those of `values` but for the one of all other values."""
        return self.values[: len(self.values) - (self.other is not None)]

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
        bins = cuts if type == "real" else sorted({float(math.ceil(cut)) for cut in cuts} - {low, high})
        return Variable(name, bounds=bounds, bins=tuple(bins), type=type)

    @property
    def edges(self) -> tuple[float, ...]:
        """Lower ends of the bins, and the upper end of the last; for whole numbers the first number beyond it.

        Raises:
            InputError: the variable is not numeric.
        """
        if self.bounds is None:
            raise InputError(f"variable {shown(self.name)} has no numbers: declare bounds")
        return (self.bounds[0], *self.bins, self.bounds[1] + (self.type == "integer"))

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
        return state in self._codes

    def code(self, state: str) -> int:
        """Return the position of a state.

        Args:
            state: its name.

        Returns:
            Its position among the states, from 0.

        Raises:
            InputError: the variable has no such state; the message lists its states.
        """
        code = self._codes.get(state)
        if code is None:
            raise InputError(f"variable {shown(self.name)} {self.refuse_state(state)}")
        return code

    def refuse_state(self, state: str) -> str:
        """Write the end of a refusal of a state that the variable does not have: what it has, and a similar one."""
        others = "" if self.other is None else f"; any other value counts as {shown(self.other)}"
        similar = did_you_mean(state, self.states) if isinstance(state, str) else ""
        return f"has no state {shown(state)}; its states: {listed(self.states)}{others}{similar}"

    def document(self) -> dict[str, Any]:
        """Declaration as in documents, without what it does not have; `schema_of_parts` and releases read it back."""
        return (
            {"name": self.name, "states": list(self.states)}
            | ({} if self.bounds is None else {"bounds": list(self.bounds), "bins": list(self.bins)})
            | ({"type": self.type} if self.type != "real" else {})
            | {word: state for word in ("missing", "other") if (state := getattr(self, word)) is not None}
        )


def _name_bins(edges: Sequence[float], integer: bool) -> tuple[str, ...]:
    """Name bins by the smallest and largest number in each."""
    ends = ((a, b - 1 if integer else b) for a, b in pairwise(edges))
    return tuple(f"{a:.16g}" if a == b else f"{a:.16g}_to_{b:.16g}" for a, b in ends)


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
            names: of these variables; None for all. Do not choose them by looking at private records.
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
        chosen = {self[name].name for name in (self.names if names is None else names)}
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
        return Schema(tuple(_read_variable(member) for member in parts))
    except InputError as error:
        raise InputError(f"{label}: {error}") from None


def _list_states(member: Mapping[str, Any]) -> list[Any]:
    """List the states of a variable of a schema file, or its cut points."""
    states = member.get("states") or member.get("bins")
    return states if isinstance(states, list) else []


def _read_variable(member: Mapping[str, Any]) -> Variable:
    """Read one variable of a schema file."""
    odd = set(member) - {"name", "states", "bounds", "bins", "type", "missing", "other"}
    if odd or "name" not in member:
        raise InputError(
            f"a variable has a name, states or bounds and bins, and perhaps missing and other; got {sorted(member)[:5]}"
        )
    return Variable(
        member["name"],
        member.get("states", ()),
        bounds=member.get("bounds"),
        bins=member.get("bins", ()),
        type=member.get("type", "real"),
        missing=member.get("missing"),
        other=member.get("other"),
    )
