"""Groups: columns of which a record has one state each, as an estimator declares them.

Whether they stand as groups in the design is decided by what is declared alone, for it decides what is released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from discreet.errors import InputError
from discreet.model.indicators import features_of, state_groups
from discreet.model.schema import Variable

Groups = tuple[tuple[int, ...], ...]


def declared_groups(groups: Any, columns: Sequence[Variable]) -> Groups:
    """Groups of a design whose states are in groups.

    Args:
        groups: of the constructor: lists of positions, or of names, of columns between 0 and 1; or None.
        columns: as they were declared.

    Returns:
        Positions among `features_of(columns, grouped=True)`: those of the constructor, and each column of states.

    Raises:
        InputError: something else than such lists, or a column of states in one.

    Example:
        >>> wards = Variable("ward", states=("A", "B", "C"))
        >>> on, off = (Variable(name, bounds=(0, 1)) for name in ("on", "off"))
        >>> declared_groups([["on", "off"]], [on, wards, off])
        ((0, 4), (1, 2, 3))
    """
    starts, names = [0], [column.name for column in columns]
    for column in columns:
        starts.append(starts[-1] + len(features_of((column,), grouped=True)))
    wrong = (
        f"groups are lists of columns, by name or by position from 0 to {len(columns) - 1}, such as [[0, 1, 2], [3]]"
    )
    if not isinstance(groups, Iterable | None) or isinstance(groups, str):
        raise InputError(wrong)
    found = []
    for group in groups or ():
        members = _find_positions(group, names)
        if members is None:
            raise InputError(wrong)
        if not all(columns[one].numeric for one in members):
            raise InputError("a column of categories is a group by itself: groups are lists of columns from 0 to 1")
        found.append(tuple(starts[one] for one in members))
    return (*found, *state_groups(columns))


def _find_positions(group: Any, names: list[str]) -> list[int] | None:
    """Find the positions of a group's columns; None where it is no list of names and positions."""
    if isinstance(group, str) or not isinstance(group, Iterable):
        return None
    found = [names.index(one) if one in names else one for one in group]
    known = all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < len(names) for one in found)
    return found if known else None


def written_groups(groups: Groups, columns: Sequence[Variable] | None) -> list[list[int]] | None:
    """Groups of a release's design as the constructor takes them.

    Args:
        groups: of a release.
        columns: as they were declared, where some are of states; None where all features are numbers.

    Returns:
        Positions of columns; None where there are none but of states.

    Example:
        >>> written_groups(((0, 4), (1, 2, 3)), None)
        [[0, 4], [1, 2, 3]]
    """
    if columns is None:
        return [list(group) for group in groups] or None
    numeric, at = dict[int, int](), 0
    for position, column in enumerate(columns):
        numeric |= {at: position} if column.numeric else {}
        at += len(features_of((column,), grouped=bool(groups)))
    return [[numeric[one] for one in group] for group in groups if set(group) <= set(numeric)] or None
