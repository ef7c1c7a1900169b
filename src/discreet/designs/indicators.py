"""Indicators: numeric features of a design for a column of states.

A column of k states becomes k - 1 features, one for each state but the first: 1 if a record has that state, else 0. The
first state is the reference. All k would sum to the intercept, and in a cube each further feature adds noise to all
(`designs/design.py`).

In groups a column of three or more states becomes k features, one for each state, that exclude each other. Noise of a
diamond grows with the number of groups, not of features, and a reference state would have the noise of all others. A
column of two states stays one feature from -1 to 1: it is as long as a group, and moves twice as far.

A number that may have a gap becomes two features: the number, which is the middle of its bounds in a gap, and an
indicator of the gap. Both depend on the record alone and stay within their bounds, so that no proof changes.

Which of the two has less noise (`worth_groups`). Let a record be in each of a column's k states alike, and take the sum
over its states of the variance of that state's effect, less the column's mean effect, in units of a state's share 1/k.
With noise of variance V in each coordinate from -1 to 1, the states but the first have `V (1/4 + (1/2 - 1/k)^2)` each,
the first `V ((k - 1)/4 + ((k - 1)(k - 2) / 2 k)^2)`, in that unit together `V (k - 1)(k^2 - 2 k + 4) / 4`. In a group
with noise of variance F in each coordinate they have `F k (k - 1)`. A number that fills its bounds evenly has 3 V or 3
F, the constant V or F.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from discreet.errors import InputError, shown
from discreet.model.schema import Variable


def gap_of(variable: Variable) -> str | None:
    """Name the state of a number's gaps, whether values are missing or not applicable; None if it has none.

    Raises:
        InputError: whether the number applies depends on another column.

    Example:
        >>> gap_of(Variable("age", bounds=(0, 90), missing="unknown"))
        'unknown'
    """
    if not variable.numeric:
        return None
    if variable.applies_if is not None:
        raise InputError(
            f"column {shown(variable.name)} applies by another column, which no regression reads: leave out applies_if"
        )
    return variable.not_applicable or variable.missing


def first_state(variable: Variable, *, grouped: bool = False) -> int:
    """Return the code of the first state with an indicator: in groups every state of three or more has one.

    Example:
        >>> ward, age = Variable("ward", states=("A", "B", "C")), Variable("age", bounds=(0, 90))
        >>> first_state(ward), first_state(ward, grouped=True)
        (1, 0)
    """
    return 0 if grouped and variable.size > 2 else 1


def indicators(variable: Variable, *, grouped: bool = False) -> tuple[Variable, ...]:
    """Make the features of a column of states.

    Args:
        variable: with at least two states, all declared in the schema.
        grouped: True for a group of a design.

    Returns:
        Variables between 0 and 1, one for each state but the first; in a group, for each of three or more.

    Raises:
        InputError: fewer than two states.

    Example:
        >>> [feature.name for feature in indicators(Variable("ward", states=("A", "B", "C")))]
        ['ward=B', 'ward=C']
    """
    if variable.size < 2:
        raise InputError(f"column {shown(variable.name)} needs at least two states to be a feature")
    states = variable.states[first_state(variable, grouped=grouped) :]
    return tuple(Variable(f"{variable.name}={state}", bounds=(0, 1)) for state in states)


def features_of(columns: Iterable[Variable], *, grouped: bool = False) -> tuple[Variable, ...]:
    """Make the features of a design over columns of numbers and of states, in the order of the columns.

    Example:
        >>> ward, age = Variable("ward", states=("A", "B", "C")), Variable("age", bounds=(0, 90))
        >>> [feature.name for feature in features_of([ward, age])]
        ['ward=B', 'ward=C', 'age']
    """
    return tuple(feature for column in columns for feature in _list_features(column, grouped=grouped))


def _list_features(column: Variable, *, grouped: bool) -> tuple[Variable, ...]:
    """List the features of one column."""
    if not column.numeric:
        return indicators(column, grouped=grouped)
    if (gap := gap_of(column)) is None:
        return (column,)
    number = Variable(column.name, bounds=column.bounds, type=column.type)
    return number, Variable(f"{column.name}={gap}", bounds=(0, 1))


def state_groups(columns: Iterable[Variable]) -> tuple[tuple[int, ...], ...]:
    """List the positions, in groups, of the indicators of each column of three or more states.

    Example:
        >>> ward, age = Variable("ward", states=("A", "B", "C")), Variable("age", bounds=(0, 90))
        >>> state_groups([age, ward])
        ((1, 2, 3),)
    """
    groups, at = [], 0
    for column in columns:
        width = len(features_of((column,), grouped=True))
        if width > 1 and not column.numeric:
            groups.append(tuple(range(at, at + width)))
        at += width
    return tuple(groups)


def worth_groups(columns: Sequence[Variable]) -> bool:
    """Return True if groups of states have less noise, by the variances above; with an intercept.

    Args:
        columns: of numbers and of states.

    Example:
        >>> wards, sexes = (Variable("ward", states=tuple("ABCDEFGHIJ")), Variable("sex", states=("f", "m")))
        >>> worth_groups([wards, sexes]), worth_groups([sexes])
        (True, False)
    """
    sizes = [column.size for column in columns if not column.numeric]
    numbers = len(features_of(column for column in columns if column.numeric))
    coordinates, longest = numbers + sum(sizes) - len(sizes) + 1, numbers + len(sizes) + 1
    others = 3 * numbers + 1
    cube = (coordinates + 1) * (coordinates + 2) / 3
    alone = cube * (others + sum((k - 1) * (k * k - 2 * k + 4) / 4 for k in sizes))
    together = 2 * longest**2 * (others + sum(k * (k - 1) if k > 2 else 1 for k in sizes))
    return any(k > 2 for k in sizes) and together < alone
