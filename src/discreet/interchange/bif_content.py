"""Checks of what BIF and XMLBIF files hold, which both readers share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

import numpy as np

from discreet.errors import InputError, listed, shown
from discreet.model.schema import Variable
from discreet.util.arrays import Floats

ROW_TOLERANCE = 1.000001e-6
"""Largest distance of a row's sum from 1 that rounding explains; such rows are renormalised, others are errors."""
SIX_DIGITS = 5.000001e-6
"""Largest distance of a row's sum from 1 where each number has six digits, as pyAgrum writes XMLBIF: rounding moves a
number by at most 5e-6 of itself, so it moves the sum by at most 5e-6."""
MOST_ROUNDING = 0.01
"""Largest distance of a row's sum from 1 that printed digits may explain: pgmpy's, and that of thirds as 0.33. Numbers
of one decimal would explain any sum."""
EXACT_ROW = 1e-15
"""Distance of a row's sum from 1 below which it is kept, so that writing and reading again change nothing."""
NUMERIC_NOTES = ("discreet-bounds", "discreet-bins", "discreet-integer", "discreet-missing")
"""Notes of this package on a variable."""


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


def printed_tolerance(words: Iterable[str]) -> float:
    """Return the largest distance of a row's sum from 1 that its printed digits explain.

    A number that is printed with d decimals is off by at most half a unit of the last one, 5e-(d+1), and the sum by at
    most their sum. 0 and 1 without decimals are exact.

    Args:
        words: the numbers of the row, as they are printed.

    Returns:
        The sum of half units, at most `MOST_ROUNDING`.

    Example:
        >>> round(printed_tolerance(["0.3333", "0.3333", "0.3333"]), 9), round(printed_tolerance(["0.5", "0.4"]), 9)
        (0.00015, 0.01)
    """
    # 1e-9 for the sum of a row, which is a float: 0.33 x 3 is off by a hair more than 0.01.
    return min(math.fsum(map(_half_unit, words)), MOST_ROUNDING) * (1 + 1e-9)


def _half_unit(word: str) -> float:
    """Return half a unit of a number's last decimal."""
    try:
        exponent = Decimal(word).as_tuple().exponent
    except ArithmeticError:
        return 0.0
    return 0.5 * 10.0**exponent if isinstance(exponent, int) and exponent < 0 else 0.0


class RowScaling:
    """Scaling of the rows of one file or object, which notes those that only their printed digits explain."""

    def __init__(self, tolerance: float = ROW_TOLERANCE) -> None:
        self.tolerance = tolerance
        self._first = ""
        self._rows = 0

    def scale(
        self,
        numbers: Sequence[float],
        node: str,
        size: int,
        words: Callable[[], Iterable[str]],
        place: Callable[[], str],
    ) -> Floats:
        """Renormalise a row; see `scaled_row`.

        Args:
            numbers: the row.
            node: of the row.
            size: states of the node.
            words: returns the numbers as they are printed; called only for a row that is off by more than `tolerance`.
            place: names the place of the row, such as "asia.bif, line 3"; called for the first one that is noted.

        Returns:
            float64, shape (size,).

        Raises:
            InputError: another number of states, or a sum that rounding does not explain.
        """
        total = math.fsum(numbers)
        if len(numbers) != size or abs(total - 1) <= self.tolerance:
            return scaled_row(numbers, node, size, self.tolerance)
        row = scaled_row(numbers, node, size, max(self.tolerance, printed_tolerance(words())))
        self._first = self._first or f"{place()}: a row of {shown(node)} sums to {total:.9g}"
        self._rows += 1
        return row

    @property
    def notes(self) -> tuple[str, ...]:
        """Line that tells of the scaled rows; none without any."""
        rows = "it is" if self._rows == 1 else f"it and {self._rows - 1:,} more are"
        return (f"{self._first}, as numbers rounded to their printed digits do; {rows} scaled to 1",) * bool(self._rows)


def scaled_table(
    table: Floats,
    family: Sequence[Variable],
    scaling: RowScaling,
    words: Callable[[], Sequence[str]],
    place: Callable[[], str],
) -> Floats:
    """Renormalise the rows of a table of probabilities.

    Args:
        table: float64, axes `(*parents, child)`.
        family: the parents, then the child.
        scaling: notes rows that only their printed digits explain.
        words: returns all numbers of the table as they are printed, in the order of its cells.
        place: names the place of the table, for notes.

    Returns:
        A new array of the same shape.

    Raises:
        InputError: a number that is no probability, or a row that does not sum to 1; the message has its parents'
            states.

    Example:
        >>> wet = Variable("wet", ("no", "yes"))
        >>> scaled_table(np.array([0.333, 0.666]), [wet], RowScaling(), lambda: ["0.333", "0.666"], str).sum()
        np.float64(1.0)
    """
    *parents, child = family
    rows = table.reshape(-1, child.size)
    scaled = np.empty_like(rows)
    for at, row in enumerate(rows.tolist()):
        cells = slice(at * child.size, (at + 1) * child.size)
        fault = "" if are_probabilities(row) else f"a row of {shown(child.name)} has a number outside 0 to 1"
        try:
            scaled[at] = row if fault else scaling.scale(row, child.name, child.size, lambda: words()[cells], place)  # noqa: B023
        except InputError as error:
            fault = str(error)
        if fault:
            codes = np.unravel_index(at, table.shape[:-1]) if parents else ()
            states = listed(f"{node.name}={node.states[int(code)]}" for node, code in zip(parents, codes, strict=True))
            raise InputError(f"{fault}{', given ' if states else ''}{states}")
    return scaled.reshape(table.shape)


def printed_numbers(table: Floats) -> tuple[str, ...]:
    """Print the numbers of another program's table, which may be of single precision, for `scaled_table`.

    Example:
        >>> printed_numbers(np.array([0.33, np.float32(0.3333)]))
        ('0.33', '0.3333')
    """
    return tuple(f"{number:.7g}" for number in table.ravel().tolist())


def note_missing_blocks(where: str, nodes: Sequence[str], block: str) -> tuple[str, ...]:
    """Tell of variables whose block is missing.

    Args:
        where: the file.
        nodes: without a block.
        block: what is missing, such as "probability block".

    Returns:
        A line; none without such nodes.

    Example:
        >>> note_missing_blocks("a.bif", ["wet"], "probability block")
        ("a.bif: no probability block of 'wet'; taken for a node without parents",)
    """
    taken = "a node" if len(nodes) == 1 else "nodes"
    return (f"{where}: no {block} of {listed(map(shown, nodes))}; taken for {taken} without parents",) * bool(nodes)


def are_probabilities(numbers: Sequence[float]) -> bool:
    """Return True if all numbers lie between 0 and 1, up to rounding.

    Example:
        >>> are_probabilities([0.5, 1.0]), are_probabilities([0.5, float("nan")])
        (True, False)
    """
    return all(0 <= number <= 1 + ROW_TOLERANCE for number in numbers)
