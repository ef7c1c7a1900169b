"""Declarations of columns, and conversion of a frame's values to numbers and positions of states.

Bounds of numbers and categories of text are public and come from the caller; none is learned from records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import csr_array, hstack, issparse
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.sparsefuncs import mean_variance_axis

from discreet.designs.indicators import first_state
from discreet.designs.records.rows import fill_gaps
from discreet.errors import InputError, listed, require, shown
from discreet.model.schema import Variable
from discreet.records.dates import array_numbers
from discreet.util.arrays import Array, Floats, Positions

EXAMPLE = "bounds={'age': (0, 120), 'sex': ('f', 'm')}"
"""Example of a declaration, for messages; names of the caller's own frame may be the values of a record."""
ROUNDING = 1e-9
"""Largest rounding error of the mean and the deviation of a standardised column."""


def declared_bounds(bounds: Any, width: int) -> tuple[tuple[float, float], ...]:
    """Read public bounds of numeric features, one pair for each.

    Args:
        bounds: `(lower, upper)`, each a number for all features or one number for each.
        width: number of features.

    Returns:
        Pairs (lower, upper), in the features' unit.

    Raises:
        InputError: bounds of another form, not finite, or not lower < upper.

    Example:
        >>> declared_bounds((0, [10, 2]), 2)
        ((0.0, 10.0), (0.0, 2.0))
    """
    try:
        lower, upper = (np.broadcast_to(np.asarray(end, np.float64), (width,)) for end in bounds)
    except (TypeError, ValueError):
        raise InputError(
            f"bounds must be a pair (lower, upper), each one number or {width} numbers, one for each feature"
        ) from None
    pairs = tuple(zip(lower.tolist(), upper.tolist(), strict=True))
    if not all(math.isfinite(lo) and math.isfinite(hi) and lo < hi for lo, hi in pairs):
        raise InputError("bounds must be finite, each lower bound smaller than its upper bound")
    return pairs


def declared_pair(bounds: Any, subject: str) -> tuple[float, float]:
    """Read public bounds of one variable.

    Args:
        bounds: `(lower, upper)`, two numbers.
        subject: subject of the error message.

    Returns:
        Both.

    Raises:
        InputError: bounds of another form, not finite, or not lower < upper.

    Example:
        >>> declared_pair((0, 120), "bounds of age")
        (0.0, 120.0)
    """
    invalid = False
    try:
        ((lower, upper),) = declared_bounds(bounds, 1)
    except InputError:
        invalid = True
    if invalid or isinstance(bounds, str):
        raise InputError(f"{subject} must be a pair (lower, upper) of two finite numbers, the lower one smaller")
    return lower, upper


def declared_columns(bounds: Mapping[str, Any]) -> tuple[Variable, ...]:
    """Read columns that are declared by name.

    Args:
        bounds: from names to pairs `(lower, upper)` of numbers, to the categories of a column: an ordered list or tuple
            of texts, of which the first is the reference category; or to a `Variable` of that name, such as for dates
            or missing values.

    Returns:
        Variables with bounds, or with states.

    Raises:
        InputError: a declaration of another form; the message names the column.

    Example:
        >>> [(column.name, column.size) for column in declared_columns({"age": (0, 120), "sex": ("f", "m")})]
        [('age', 0), ('sex', 2)]
    """
    columns = []
    for name, declared in bounds.items():
        if isinstance(declared, Variable):
            require(declared.name == name, f"the variable of {shown(name)} has another name")
            columns.append(declared)
        elif isinstance(declared, list | tuple) and declared and all(isinstance(state, str) for state in declared):
            columns.append(Variable(name, states=tuple(declared)))
        else:
            subject = f"categories of {shown(name)} must be texts, such as ('f', 'm'), and bounds of {shown(name)}"
            columns.append(Variable(name, bounds=declared_pair(declared, subject)))
    return tuple(columns)


def mixed(columns: tuple[Variable, ...]) -> tuple[Variable, ...] | None:
    """Return columns unless all hold plain numbers: not states, dates or numbers with gaps.

    Example:
        >>> mixed(declared_columns({"age": (0, 120)})) is None
        True
    """
    plain = all(each.numeric and not has_gaps(each) and not each.number_type.is_calendar for each in columns)
    return None if plain else columns


def has_gaps(variable: Variable) -> bool:
    """True if values of a column may be missing, or not applicable."""
    return variable.missing is not None or variable.not_applicable is not None


def reading_options(estimator: BaseEstimator, columns: tuple[Variable, ...] | None, *, numeric: bool) -> dict[str, Any]:
    """List the options of scikit-learn's `validate_data` for these columns; None is for plain numbers, if numeric."""
    plain = numeric and columns is None
    sparse = "csr" if plain and get_tags(estimator).input_tags.sparse else False
    finite = not any(map(has_gaps, columns or ()))
    return {"dtype": np.float64 if plain else None, "accept_sparse": sparse, "ensure_all_finite": finite}


# ------------------------------------------------------------------------------------------------------------- values


def codes_of(values: Array, keys: Mapping[Any, int], refusal: str) -> Positions:
    """Find the positions of values among declared ones.

    Args:
        values: of records, shape (records,).
        keys: position of every declared value.
        refusal: error message for any other value.

    Returns:
        Positions, shape (records,).

    Raises:
        InputError: with `refusal`.

    Example:
        >>> codes_of(np.array(["b", "a", "b"]), {"a": 0, "b": 1}, "neither a nor b").tolist()
        [1, 0, 1]
    """
    try:
        positions = np.fromiter((keys.get(value, -1) for value in values.tolist()), np.intp, len(values))
    except TypeError:  # an unhashable value
        positions = np.array([-1])
    if np.any(positions < 0):
        raise InputError(refusal)
    return positions


def variable_codes(variable: Variable, values: Array) -> Positions:
    """Find the positions of bins or states.

    Args:
        variable: public. Bins are closed below, and the last one on both sides. Numbers out of bounds are in the outer
            bins. States that are numbers are compared as numbers.
        values: of records, shape (records,).

    Returns:
        Positions, shape (records,).

    Raises:
        InputError: a value is missing, infinite, or none of the states; the message names the column.

    Example:
        >>> variable_codes(Variable("age", bounds=(0, 100), bins=(18, 65)), np.array([3, 18, 130])).tolist()
        [0, 1, 2]
    """
    gap = len(variable.values)
    if variable.bounds is not None:
        gaps = _find_gaps(variable, values)
        codes = np.searchsorted(variable.bins, _read_numbers(variable, values, gaps), side="right")
        return np.asarray(np.where(gaps, gap, codes), np.intp)
    refusal = f"column {variable.name!r} holds a value that is missing or none of its states: "
    keys: Mapping[Any, int] = _list_keys(variable)
    if gap < variable.size or variable.other is not None:
        unlisted = -1 if variable.other is None else variable.states.index(variable.other)
        absent = variable.size - 1 if gap < variable.size else -1
        keys = {each: absent if _is_gap(each) else keys.get(each, unlisted) for each in set(values.tolist())}
    return codes_of(values, keys, refusal + listed(variable.states))


def indicated(columns: Sequence[Variable], X: Array, *, grouped: bool = False) -> Any:
    """Convert values of columns to the features of a design that represent them (`designs/indicators.py`).

    Args:
        columns: public, with bounds or states.
        X: shape (records, columns), of any type.
        grouped: whether states are in groups of the design.

    Returns:
        float64, shape (records, features), in the order of the columns; if grouped a sparse matrix by rows, since
        almost all entries are 0.

    Raises:
        InputError: a value is missing, infinite, no number, or no category; the message names the column.

    Example:
        >>> columns = declared_columns({"age": (0, 120), "ward": ("A", "B", "C")})
        >>> indicated(columns, np.array([[40, "A"], [50, "C"]], object)).tolist()  # the first ward is compared with
        [[40.0, 0.0, 0.0], [50.0, 0.0, 1.0]]
    """
    blocks: list[Any] = []
    for variable, values in zip(columns, X.T, strict=True):
        if variable.numeric:
            gaps = _find_gaps(variable, values)
            blocks.append(np.column_stack(fill_gaps(variable, _read_numbers(variable, values, gaps), gaps)))
        else:
            codes, first = variable_codes(variable, values), first_state(variable, grouped=grouped)
            if grouped:
                blocks.append(
                    csr_array((np.ones(len(codes)), (np.arange(len(codes)), codes)), (len(codes), variable.size))
                )
                blocks[-1] = blocks[-1][:, first:]
            else:
                blocks.append((codes[:, None] == np.arange(first, variable.size)).astype(np.float64))
    return hstack(list(map(csr_array, blocks)), "csr") if grouped else np.hstack(blocks)


def refuse_standardised(X: Array) -> None:
    """Refuse private records that a `StandardScaler` has scaled: each number depends on the means and deviations.

    An estimator cannot see the steps before it in a pipeline, so this check reads the records. It refuses them if every
    column has mean 0 and deviation 1, to 1e-9, which hardly happens to records that were not standardised. The refusal
    depends on the records and is outside the guarantee, as all refusals of records are (docs/threat-model.md). Nothing
    is charged.

    Args:
        X: numbers, shape (records, features).

    Raises:
        InputError: they are standardised. Values of -1 and 1 alone may be the two halves of a trial, and pass.
    """
    if X.dtype.kind != "f" or X.shape[0] < 2:
        return
    with np.errstate(all="ignore"):
        means, variances = mean_variance_axis(X, 0) if issparse(X) else (X.mean(axis=0), X.std(axis=0) ** 2)
        deviations = np.sqrt(variances)
        constant = deviations < ROUNDING
        standardised = np.all(np.abs(means) < ROUNDING) and np.all(constant | (np.abs(deviations - 1) < ROUNDING))
    if standardised and not constant.all() and (issparse(X) or not np.all(np.abs(X) == 1)):
        raise InputError(
            "every column has mean 0 and deviation 1: a StandardScaler has read them off private records, which no "
            "budget pays for; leave it out, or replace it by PublicScaler(bounds=...) (check_pipeline checks all steps)"
        )


def _is_gap(value: Any) -> bool:
    """True for None, NaN, and what frames write for a missing value."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _find_gaps(variable: Variable, values: Array) -> npt.NDArray[np.bool_]:
    """Find the gaps of a numeric column; none unless it is declared to have some."""
    if not has_gaps(variable):
        return np.zeros(len(values), np.bool_)
    return np.array([_is_gap(value) for value in values], np.bool_)


def _read_numbers(variable: Variable, values: Array, gaps: npt.NDArray[np.bool_]) -> Floats:
    """Read finite numbers, and dates as numbers; any number in a gap. Refuse other values without showing them."""
    numbers = np.zeros(len(values))
    try:
        dates = pa.array(values[~gaps]) if variable.number_type.is_calendar else None
        if dates is not None and not pa.types.is_floating(dates.type):
            numbers[~gaps] = array_numbers(variable, np.asarray)(dates)
        else:
            numbers[~gaps] = values[~gaps].astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([np.nan])
    if not np.isfinite(numbers).all():
        raise InputError(f"column {variable.name!r} holds a value that is missing, infinite or no number")
    return numbers


def _list_keys(variable: Variable) -> dict[Any, int]:
    """List the position of every value that denotes a state: its name, what records hold, or that as a number."""
    held: dict[Any, int] = {state: code for code, state in enumerate(variable.held)}
    named = {state: code for code, state in enumerate(variable.states)} | held
    if {state.lower() for state in held} <= {"true", "false"}:
        return named | {state.lower() == "true": code for state, code in held.items()}
    try:
        numbers = {float(state): code for state, code in held.items()}
    except ValueError:
        return named
    return named | numbers if len(numbers) == len(held) else named
