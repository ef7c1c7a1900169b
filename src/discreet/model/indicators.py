"""Indicators: how a column of states stands in a design, whose features are numbers.

A column of k states is k - 1 features, one for each state but the first: 1 where a record has that state, else 0. The
first state is what the others are compared with. All k would sum to the intercept, and each feature more is noise more.
"""

from __future__ import annotations

from collections.abc import Iterable

from discreet.errors import InputError, shown
from discreet.model.schema import Variable

__all__ = ["features_of", "indicators"]


def indicators(variable: Variable) -> tuple[Variable, ...]:
    """The features that a column of states stands for.

    Args:
        variable: with at least two states, all declared: none is read off records.

    Returns:
        Variables between 0 and 1, one for each state but the first.

    Raises:
        InputError: fewer than two states.

    Example:
        >>> [feature.name for feature in indicators(Variable("ward", states=("A", "B", "C")))]
        ['ward=B', 'ward=C']
    """
    if variable.size < 2:
        raise InputError(f"column {shown(variable.name)} needs at least two categories to tell anything")
    return tuple(Variable(f"{variable.name}={state}", bounds=(0, 1)) for state in variable.states[1:])


def features_of(columns: Iterable[Variable]) -> tuple[Variable, ...]:
    """The features of a design over columns of numbers and of states, in the order of the columns."""
    return tuple(one for column in columns for one in ((column,) if column.numeric else indicators(column)))
