"""What BIF and XMLBIF files say, whichever is the notation: the content, and what both readers hold it to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.errors import InputError, listed, shown
from discreet.model.schema import Variable
from discreet.util.arrays import Floats

ROW_TOLERANCE = 1.000001e-6
"""A row that misses 1 by this much is rounded text and is renormalised; more is an error of the file."""
SIX_DIGITS = 5.000001e-6
"""Largest distance of a row's sum from 1 where each number has six digits, as pyAgrum writes XMLBIF: rounding moves a
number by at most 5e-6 of itself, so it moves the sum by at most 5e-6."""
EXACT_ROW = 1e-15
"""A row this near to 1 is left as it is, so that a file that is written and read again does not change."""
NUMERIC_NOTES = ("discreet-bounds", "discreet-bins", "discreet-integer", "discreet-missing")
"""What a file says of a variable in words of ours."""


@dataclass(frozen=True, eq=False)
class Bif:
    """What a BIF or XMLBIF file says; whether its arcs form a network is checked by `Network`.

    Args:
        variables: in the order of the file.
        parents: of every variable.
        arrays: probabilities of every variable whose block has entries, float64, axes `(*parents, child)`.
        name: of the network.
        properties: lines of the network block.
    """

    variables: tuple[Variable, ...]
    parents: Mapping[str, tuple[str, ...]]
    arrays: Mapping[str, Floats]
    name: str = "unknown"
    properties: tuple[str, ...] = ()


def noted_variable(name: str, states: tuple[str, ...], notes: Mapping[str, tuple[float, ...]]) -> Variable:
    """A variable with the bounds and bins that a file notes.

    Args:
        name: of the variable.
        states: as the file names them.
        notes: numbers by the words of `NUMERIC_NOTES`; of the last two only that they are there is read.

    Raises:
        InputError: the bounds are no pair, or as of `Variable`.

    Example:
        >>> noted_variable("age", ("young", "old"), {"discreet-bounds": (0, 99), "discreet-bins": (40,)}).edges
        (0.0, 40.0, 99.0)
    """
    bounds = notes.get("discreet-bounds")
    if bounds is not None and len(bounds) != 2:
        raise InputError(f"variable {shown(name)}: discreet-bounds are two numbers, got {len(bounds)}")
    pair = None if bounds is None else (bounds[0], bounds[1])
    kind = "integer" if "discreet-integer" in notes else "real"
    missing = states[-1] if "discreet-missing" in notes else None
    return Variable(name, states, bounds=pair, bins=notes.get("discreet-bins", ()), type=kind, missing=missing)


def scaled_row(numbers: Sequence[float], node: str, size: int, tolerance: float = ROW_TOLERANCE) -> Floats:
    """A row of probabilities that sums to 1, made of one that was rounded.

    Args:
        numbers: the row.
        node: whose it is, for the error.
        size: states of the node.
        tolerance: largest distance of the sum from 1 that rounding explains.

    Returns:
        float64, shape (size,); the same numbers where they sum to 1 already.

    Raises:
        InputError: another number of states, or another sum.

    Example:
        >>> scaled_row([0.3333333, 0.3333333, 0.3333333], "wet", 3).sum().round(12)
        np.float64(1.0)
    """
    if len(numbers) != size:
        raise InputError(f"a row of {shown(node)} needs {size} numbers, got {len(numbers)}")
    total = math.fsum(numbers)
    if not abs(total - 1) <= tolerance:
        raise InputError(f"a row of {shown(node)} sums to {total:.9g} instead of 1")
    return np.array(numbers) if abs(total - 1) <= EXACT_ROW * size else np.array(numbers) / total


def scaled_table(table: Floats, family: Sequence[Variable]) -> Floats:
    """A table of probabilities whose rows sum to 1, made of one with at least six digits.

    Args:
        table: float64, axes `(*parents, child)`.
        family: the parents, then the child.

    Returns:
        A new array of the same shape.

    Raises:
        InputError: a number that is no probability, or a row that does not sum to 1, named by its parents' states.

    Example:
        >>> scaled_table(np.array([0.333333, 0.666666]), [Variable("wet", ("no", "yes"))]).sum()
        np.float64(1.0)
    """
    *parents, child = family
    rows = table.reshape(-1, child.size)
    found = np.empty_like(rows)
    for at, row in enumerate(rows.tolist()):
        fault = "" if are_probabilities(row) else f"a row of {shown(child.name)} has a number that is none from 0 to 1"
        try:
            found[at] = row if fault else scaled_row(row, child.name, child.size, SIX_DIGITS)
        except InputError as error:
            fault = str(error)
        if fault:
            codes = np.unravel_index(at, table.shape[:-1]) if parents else ()
            given = listed(f"{one.name}={one.states[int(code)]}" for one, code in zip(parents, codes, strict=True))
            raise InputError(f"{fault}{', given ' if given else ''}{given}")
    return found.reshape(table.shape)


def are_probabilities(numbers: Sequence[float]) -> bool:
    """Whether all numbers lie between 0 and 1, but for rounding.

    Example:
        >>> are_probabilities([0.5, 1.0]), are_probabilities([0.5, float("nan")])
        (True, False)
    """
    return all(0 <= number <= 1 + ROW_TOLERANCE for number in numbers)
