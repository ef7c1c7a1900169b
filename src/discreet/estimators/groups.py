"""Groups of indicator columns, of which a record has at most one, as an estimator declares them.

The declarations alone decide if they are groups of the design, because that decides the contents of the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from discreet.designs.indicators import features_of, state_groups
from discreet.errors import InputError
from discreet.model.schema import Variable

Groups = tuple[tuple[int, ...], ...]


def declared_groups(groups: Any, columns: Sequence[Variable]) -> Groups:
    """List the groups of a design whose states are in groups.

    Args:
        groups: of the constructor: lists of positions, or of names, of columns between 0 and 1; or None.
        columns: as they were declared.

    Returns:
        Positions among `features_of(columns, grouped=True)`: those of the constructor, and each column of states.

    Raises:
        InputError: groups of another form, or a group with a column of states.

    Example:
        >>> wards = Variable("ward", states=("A", "B", "C"))
        >>> on, off = (Variable(name, bounds=(0, 1)) for name in ("on", "off"))
        >>> declared_groups([["on", "off"]], [on, wards, off])
        ((0, 4), (1, 2, 3))
    """
    starts, names = [0], [column.name for column in columns]
    for column in columns:
        starts.append(starts[-1] + len(features_of((column,), grouped=True)))
    refusal = (
        f"groups must be lists of columns, by name or position from 0 to {len(columns) - 1}, such as [[0, 1], [3]]"
    )
    if not isinstance(groups, Iterable | None) or isinstance(groups, str):
        raise InputError(refusal)
    positions = []
    for group in groups or ():
        members = _find_positions(group, names)
        if members is None:
            raise InputError(refusal)
        if not all(columns[position].numeric for position in members):
            raise InputError("a column of categories is a group by itself: groups are lists of columns from 0 to 1")
        positions.append(tuple(starts[position] for position in members))
    return (*positions, *state_groups(columns))


def _find_positions(group: Any, names: list[str]) -> list[int] | None:
    """Find the positions of a group's columns; None if it is no list of names and positions."""
    if isinstance(group, str) or not isinstance(group, Iterable):
        return None
    positions = [names.index(at) if at in names else at for at in group]
    valid = all(isinstance(at, int) and not isinstance(at, bool) and 0 <= at < len(names) for at in positions)
    return positions if valid else None


def written_groups(groups: Groups, columns: Sequence[Variable] | None) -> list[list[int]] | None:
    """Convert the groups of a release's design to the form that the constructor takes.

    Args:
        groups: of a release.
        columns: as declared, if some have states; None if all features are numbers.

    Returns:
        Positions of columns; None if only columns of states are in groups.

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
    return [[numeric[index] for index in group] for group in groups if set(group) <= set(numeric)] or None
