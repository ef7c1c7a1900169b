"""Content of BIF and XMLBIF files, and the checks of both readers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.errors import InputError, listed, shown
from discreet.model.schema import Variable
from discreet.util.arrays import Floats

ROW_TOLERANCE = 1.000001e-6
"""Largest distance of a row's sum from 1 that rounding explains; such rows are renormalised, others are errors."""
SIX_DIGITS = 5.000001e-6
"""Largest distance of a row's sum from 1 where each number has six digits, as pyAgrum writes XMLBIF: rounding moves a
number by at most 5e-6 of itself, so it moves the sum by at most 5e-6."""
EXACT_ROW = 1e-15
"""Distance of a row's sum from 1 below which it is kept, so that writing and reading again change nothing."""
NUMERIC_NOTES = ("discreet-bounds", "discreet-bins", "discreet-integer", "discreet-missing")
"""Notes of this package on a variable."""


@dataclass(frozen=True, eq=False)
class Bif:
    """Content of a BIF or XMLBIF file; `Network` checks its arcs.

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
    """Make a variable with the bounds and bins that a file notes.

    Args:
        name: of the variable.
        states: as the file names them.
        notes: numbers by the words of `NUMERIC_NOTES`; the last two have none.

    Raises:
        InputError: the bounds are no pair, or as in `Variable`.

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
    """Renormalise a rounded row of probabilities to sum to 1.

    Args:
        numbers: the row.
        node: of the row, for the error.
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
    """Renormalise the rows of a table of probabilities with at least six digits.

    Args:
        table: float64, axes `(*parents, child)`.
        family: the parents, then the child.

    Returns:
        A new array of the same shape.

    Raises:
        InputError: a number that is no probability, or a row that does not sum to 1; the message has its parents'
            states.

    Example:
        >>> scaled_table(np.array([0.333333, 0.666666]), [Variable("wet", ("no", "yes"))]).sum()
        np.float64(1.0)
    """
    *parents, child = family
    rows = table.reshape(-1, child.size)
    scaled = np.empty_like(rows)
    for at, row in enumerate(rows.tolist()):
        fault = "" if are_probabilities(row) else f"a row of {shown(child.name)} has a number outside 0 to 1"
        try:
            scaled[at] = row if fault else scaled_row(row, child.name, child.size, SIX_DIGITS)
        except InputError as error:
            fault = str(error)
        if fault:
            codes = np.unravel_index(at, table.shape[:-1]) if parents else ()
            states = listed(f"{node.name}={node.states[int(code)]}" for node, code in zip(parents, codes, strict=True))
            raise InputError(f"{fault}{', given ' if states else ''}{states}")
    return scaled.reshape(table.shape)


def are_probabilities(numbers: Sequence[float]) -> bool:
    """Return True if all numbers lie between 0 and 1, up to rounding.

    Example:
        >>> are_probabilities([0.5, 1.0]), are_probabilities([0.5, float("nan")])
        (True, False)
    """
    return all(0 <= number <= 1 + ROW_TOLERANCE for number in numbers)
