"""Read-only arrays, and frozen dataclasses with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError, shown

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]

QUANTILE_BISECTIONS = 40
"""Bisections of a level between 0 and the number of draws: far finer than the distance of two draws."""


def read_only(array: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
    """Copy an array so that nobody can write to it.

    Args:
        array: of any shape.
        dtype: of the copy; None for that of the array.

    Returns:
        The copy.

    Example:
        >>> read_only([1, 2]).flags.writeable
        False
    """
    copy = np.array(array, dtype)
    copy.flags.writeable = False
    return copy


def numbers(value: object, label: str) -> Floats:
    """Convert a user's value to floats.

    Args:
        value: a number, an array, or lists of numbers.
        label: noun for the value in the error.

    Returns:
        float64, of the same shape.

    Raises:
        InputError: it contains something that is not a number.

    Example:
        >>> numbers([[1, 2], [3, 4]], "rows").shape
        (2, 2)
    """
    try:
        if value is not None:
            return np.array(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{label} must be numbers, or rows of numbers of one length")


def number(value: object, label: str) -> float:
    """Convert a user's value to one float; see `numbers`."""
    try:
        if isinstance(value, int | float | np.number):
            return float(value)
    except OverflowError:
        pass
    raise InputError(f"{label} must be a number, not {shown(value)}")


def freeze(instance: object, **values: object) -> None:
    """Set fields of a frozen dataclass, for its `__post_init__`: arrays and mappings become read-only copies.

    Args:
        instance: of a frozen dataclass.
        values: by field.
    """
    for name, value in values.items():
        object.__setattr__(instance, name, _freeze_value(value))


def _freeze_value(value: object) -> object:
    """Make a read-only copy of an array or a mapping; return other values unchanged."""
    if isinstance(value, np.ndarray):
        return read_only(value)
    if isinstance(value, Mapping):
        return MappingProxyType({name: _freeze_value(item) for name, item in value.items()})
    return value


def margin(table: Array, scope: Sequence[str], wanted: Sequence[str]) -> Array:
    """Sum a table over the variables that are not wanted.

    Args:
        table: an axis for each variable of the scope; further axes, such as one of draws, stay last.
        scope: names of the table's axes.
        wanted: names of the scope, in the order of the result.

    Returns:
        The sums, axes `(*wanted, ...)`.

    Example:
        >>> margin(np.array([[1, 2], [3, 4]]), ("a", "b"), ("b",)).tolist()
        [4, 6]
    """
    left = [name for name in scope if name in wanted]
    summed = table.sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in wanted))
    behind = range(len(left), summed.ndim)
    return np.asarray(summed.transpose([*(left.index(name) for name in wanted), *behind]))


def by_rows(table: Array, scope: Sequence[str], shared: Sequence[str]) -> Array:
    """Arrange a table as rows, one for each cell of some of its variables.

    Args:
        table: an axis for each variable of the scope, and possibly further axes.
        scope: names of the table's axes.
        shared: names that are in the scope.

    Returns:
        Shape (cells of the shared variables, cells of a row, ...).

    Example:
        >>> by_rows(np.array([[1, 2], [3, 4]]), ("a", "b"), ("b",)).tolist()
        [[1, 3], [2, 4]]
    """
    axes = _put_rows_first(scope, shared)
    turned = np.moveaxis(table, axes, range(len(axes)))
    cells = math.prod(turned.shape[: len(shared)])
    return turned.reshape(cells, -1, *table.shape[len(scope) :])


def of_rows(rows: Array, scope: Sequence[str], shared: Sequence[str], sizes: Sequence[int]) -> Array:
    """Arrange rows as a table: the inverse of `by_rows`.

    Args:
        rows: shape (entries of the shared variables, entries of a row, ...).
        scope: names of the table's axes.
        shared: names that are in the scope.
        sizes: number of states of each variable of the scope.

    Example:
        >>> of_rows(np.array([[1, 3], [2, 4]]), ("a", "b"), ("b",), (2, 2)).tolist()
        [[1, 2], [3, 4]]
    """
    axes = _put_rows_first(scope, shared)
    turned = rows.reshape(*(sizes[axis] for axis in axes), *rows.shape[2:])
    return np.moveaxis(turned, range(len(axes)), axes)


def _put_rows_first(scope: Sequence[str], shared: Sequence[str]) -> list[int]:
    """List the axes of a table: those of the shared variables, in their order, then the others."""
    return [*map(list(scope).index, shared), *(axis for axis, name in enumerate(scope) if name not in shared)]


def balanced_quantiles(draws: Array) -> Array:
    """Compute quantiles of the cells of each row at the level at which they sum to 1.

    Args:
        draws: shape `(*parents, child, draws)`.

    Returns:
        Shape `(*parents, child)`.
    """
    ordered = np.sort(draws, axis=-1)
    last = draws.shape[-1] - 1
    low, high = np.zeros(draws.shape[:-2]), np.full(draws.shape[:-2], float(last))
    at = np.zeros(draws.shape[:-1])
    for _ in range(QUANTILE_BISECTIONS):
        level = (low + high) / 2
        below = np.floor(level).astype(np.int64)[..., None, None] * np.ones((*draws.shape[:-1], 1), np.int64)
        values = np.take_along_axis(ordered, below, axis=-1)[..., 0]
        above = np.take_along_axis(ordered, np.minimum(below + 1, last), axis=-1)[..., 0]
        at = values + (level % 1)[..., None] * (above - values)
        small = at.sum(axis=-1) < 1
        low, high = np.where(small, level, low), np.where(small, high, level)
    return np.asarray(at / at.sum(axis=-1, keepdims=True))
