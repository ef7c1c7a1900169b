"""Rows: private records of a design, as whole numbers on a public grid.

This file owns how numbers become coordinates. Every record is moved, clipped and rounded by itself, before anything is
summed; from here on all is integer arithmetic, and what one record can change is a whole number of grid steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.design import GRID, Design
from discreet.releases.release import RecordsPolicy

__all__ = ["Integers", "Rows", "grid_rows"]

RECORDS_LIMIT = 10**7
"""Most records: sums of their products stay below 2^48, and certified sums of floats below 1e-7."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Private records as whole numbers.

    Args:
        design: public.
        coordinates: int64, shape `(records, design.size)`, in steps of the grid.
        target: int64, shape `(records,)`: steps of the grid, or codes 0 and 1 of two classes; empty without a target.
    """

    design: Design
    coordinates: Integers
    target: Integers

    def __repr__(self) -> str:
        """Nothing of the records."""
        return f"Rows({self.design.size} coordinates, private)"

    def __reduce__(self) -> NoReturn:
        """Records are never copied or pickled."""
        raise TypeError("records are private and cannot be pickled or copied; read them again where they are needed")

    @property
    def over(self) -> Design:
        """The design."""
        return self.design

    @property
    def records(self) -> int:
        """Number of records; private under ADD_REMOVE."""
        return len(self.coordinates)

    @property
    def policy(self) -> RecordsPolicy:
        """Missing values are refused, numbers out of bounds are moved to the nearest bound."""
        return RecordsPolicy("error", "clip")


def grid_rows(design: Design, features: npt.ArrayLike, target: npt.ArrayLike | None = None) -> Rows:
    """Put records onto the grid.

    Args:
        design: public.
        features: numbers, shape `(records, features)`, in the design's order and the units of its bounds.
        target: numbers, or names of the target's two states; None where the design has no target.

    Returns:
        The rows.

    Raises:
        InputError: another shape, a value that is missing, infinite or no number, a class that was not declared, or
            more than 10,000,000 records. The message names columns, never a value.

    Guarantee:
        None spent: nothing leaves. Assumes one row for each unit of protection.
    """
    table = _numbers(features, "the features")
    if table.ndim != 2 or table.shape[1] != len(design.features):
        raise InputError(f"the design has {len(design.features)} features, one column each")
    if len(table) > RECORDS_LIMIT:
        raise InputError(f"a design takes at most {RECORDS_LIMIT:,} records")
    for name, column in zip(design.names, table.T, strict=True):
        if not np.all(np.isfinite(column)):
            raise InputError(f"column {name!r} holds a value that is missing or infinite")
    if (target is None) != (design.target is None):
        raise InputError("records need a target exactly where the design has one")
    codes = np.empty(0, np.int64) if target is None else _target(design, target)
    if target is not None and codes.shape != (len(table),):
        raise InputError("the target needs one value for each record")
    return Rows(design, _frozen(_on_grid(design, table)), _frozen(codes))


def _on_grid(design: Design, table: npt.NDArray[np.float64]) -> Integers:
    """Coordinates in steps; rounding never makes a record longer than the design's norm."""
    steps = design.scaled(table) * GRID
    found = np.rint(steps).astype(np.int64)
    if design.norm is not None:
        features, most = found[:, : len(design.features)], math.floor((Fraction(design.norm) * GRID) ** 2)
        shorter = 1.0
        while np.any(long := (features**2).sum(axis=1) > most):
            features[long] = np.trunc(steps[long, : len(design.features)] * shorter).astype(np.int64)
            shorter *= 1 - 2.0**-40
    return found


def _target(design: Design, values: npt.ArrayLike) -> Integers:
    """A target in steps, or as codes of its classes."""
    assert design.target is not None
    name = design.target.name
    if design.target.numeric:
        numbers = _numbers(values, f"column {name!r}")
        if not np.all(np.isfinite(numbers)):
            raise InputError(f"column {name!r} holds a value that is missing or infinite")
        return np.asarray(np.rint(design.scaled_target(numbers) * GRID), np.int64)
    array = np.asarray(values)
    found = np.array([array == state for state in design.target.states])
    if found.shape != (2, *array.shape) or not np.all(found.any(axis=0)):
        raise InputError(f"column {name!r} holds a value that is none of the declared classes")
    return np.asarray(found[1], np.int64)


def _numbers(values: Any, what: str) -> npt.NDArray[np.float64]:
    """Floats; what cannot be one is refused without being shown."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{what} must be numbers")


def _frozen(array: Integers) -> Integers:
    """Read-only."""
    array.flags.writeable = False
    return array
