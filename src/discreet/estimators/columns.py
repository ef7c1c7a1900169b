"""Columns: what a constructor declares of them, and values of a frame as numbers and as positions of states.

Bounds of numbers and categories of text are public and come from the caller; nothing here learns either from records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, hstack, issparse
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.sparsefuncs import mean_variance_axis

from discreet.errors import InputError, listed, shown
from discreet.model.indicators import first_state
from discreet.model.schema import Variable

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[Any]
Codes = npt.NDArray[np.intp]

EXAMPLE = "bounds={'age': (0, 120), 'sex': ('f', 'm')}"
"""What a declaration looks like, for messages: names of the caller's own frame may be those of a record."""
ROUNDING = 1e-9
"""How far rounding may move a mean or a deviation of columns that were standardised."""


def declared_bounds(bounds: Any, width: int) -> tuple[tuple[float, float], ...]:
    """Public bounds of numeric features, one pair for each.

    Args:
        bounds: `(lower, upper)`, each a number for all features or one number for each.
        width: number of features.

    Returns:
        Pairs (lower, upper), in the features' unit.

    Raises:
        InputError: not of this form, not finite, or not lower < upper.

    Example:
        >>> declared_bounds((0, [10, 2]), 2)
        ((0.0, 10.0), (0.0, 2.0))
    """
    try:
        lower, upper = (np.broadcast_to(np.asarray(end, np.float64), (width,)) for end in bounds)
    except (TypeError, ValueError):
        raise InputError(
            f"bounds are a pair (lower, upper), each one number or {width} numbers, one for each feature"
        ) from None
    pairs = tuple(zip(lower.tolist(), upper.tolist(), strict=True))
    if not all(math.isfinite(lo) and math.isfinite(hi) and lo < hi for lo, hi in pairs):
        raise InputError("bounds must be finite, each lower one smaller than its upper one")
    return pairs


def declared_pair(bounds: Any, what: str) -> tuple[float, float]:
    """Public bounds of one variable.

    Args:
        bounds: `(lower, upper)`, two numbers.
        what: they are of, for the error.

    Returns:
        Both.

    Raises:
        InputError: something else, not finite, or not lower < upper.

    Example:
        >>> declared_pair((0, 120), "bounds of age")
        (0.0, 120.0)
    """
    wrong = False
    try:
        ((lower, upper),) = declared_bounds(bounds, 1)
    except InputError:
        wrong = True
    if wrong or isinstance(bounds, str):
        raise InputError(f"{what} are a pair (lower, upper) of two finite numbers, the lower one smaller")
    return lower, upper


def declared_columns(bounds: Mapping[str, Any]) -> tuple[Variable, ...]:
    """Columns by their names.

    Args:
        bounds: from names to pairs `(lower, upper)` of numbers, or to the categories of a column, a list or tuple of
            texts in the order that matters: the first is what the others are compared with.

    Returns:
        Variables with bounds, or with states.

    Raises:
        InputError: something else; the message names the column.

    Example:
        >>> [(column.name, column.size) for column in declared_columns({"age": (0, 120), "sex": ("f", "m")})]
        [('age', 0), ('sex', 2)]
    """
    columns = []
    for name, declared in bounds.items():
        if isinstance(declared, list | tuple) and declared and all(isinstance(one, str) for one in declared):
            columns.append(Variable(name, states=tuple(declared)))
        else:
            what = f"categories of {shown(name)} are a list of texts, such as ('f', 'm'), and bounds of {shown(name)}"
            columns.append(Variable(name, bounds=declared_pair(declared, what)))
    return tuple(columns)


def with_categories(bounds: Any) -> tuple[Variable, ...] | None:
    """Columns that were declared by name, where some of them are categories; else None.

    Example:
        >>> with_categories({"age": (0, 120)}) is None
        True
    """
    declared = declared_columns(bounds) if isinstance(bounds, Mapping) else ()
    return declared if any(not variable.numeric for variable in declared) else None


def sparse_format(estimator: BaseEstimator, mixed: tuple[Variable, ...] | None) -> str | bool:
    """What sparse matrices are read as: by rows; where the estimator takes none, or columns are texts, refused."""
    return "csr" if mixed is None and get_tags(estimator).input_tags.sparse else False


# ------------------------------------------------------------------------------------------------------------- values


def codes_of(values: Values, keys: Mapping[Any, int], refusal: str) -> Codes:
    """Positions of values among declared ones.

    Args:
        values: of records, shape (records,).
        keys: position of every value that may be there.
        refusal: what is said where another one is.

    Returns:
        Positions, shape (records,).

    Raises:
        InputError: with `refusal`.

    Example:
        >>> codes_of(np.array(["b", "a", "b"]), {"a": 0, "b": 1}, "neither a nor b").tolist()
        [1, 0, 1]
    """
    try:
        found = np.fromiter((keys.get(value, -1) for value in values.tolist()), np.intp, len(values))
    except TypeError:  # a value that is no key of anything
        found = np.array([-1])
    if np.any(found < 0):
        raise InputError(refusal)
    return found


def variable_codes(variable: Variable, values: Values) -> Codes:
    """Positions of bins or states.

    Args:
        variable: public. Bins are closed below, the last one on both sides; numbers out of bounds are in the outer
            ones. States that are numbers are compared as numbers.
        values: of records, shape (records,).

    Returns:
        Positions, shape (records,).

    Raises:
        InputError: a value that is missing, infinite, or none of the states; the message names the column.

    Example:
        >>> variable_codes(Variable("age", bounds=(0, 100), bins=(18, 65)), np.array([3, 18, 130])).tolist()
        [0, 1, 2]
    """
    if variable.bounds is not None:
        return np.searchsorted(variable.bins, _read_numbers(variable, values), side="right")
    refusal = f"column {variable.name!r} holds a value that is missing or none of its states: "
    return codes_of(values, _list_keys(variable), refusal + listed(variable.states))


def indicated(columns: Sequence[Variable], X: Values, *, grouped: bool = False) -> Any:
    """Values of columns as the features of a design that stand for them (`model/indicators.py`).

    Args:
        columns: public, with bounds or states.
        X: shape (records, columns), of any type.
        grouped: whether states are in groups of the design.

    Returns:
        float64, shape (records, features), in the order of the columns; in groups a sparse matrix by rows, since almost
        all are 0.

    Raises:
        InputError: a value that is missing, infinite, no number, or no category; the message names the column.

    Example:
        >>> columns = declared_columns({"age": (0, 120), "ward": ("A", "B", "C")})
        >>> indicated(columns, np.array([[40, "A"], [50, "C"]], object)).tolist()  # the first ward is compared with
        [[40.0, 0.0, 0.0], [50.0, 0.0, 1.0]]
    """
    parts: list[Any] = []
    for variable, values in zip(columns, X.T, strict=True):
        if variable.numeric:
            parts.append(_read_numbers(variable, values)[:, None])
        else:
            codes, first = variable_codes(variable, values), first_state(variable, grouped=grouped)
            if grouped:
                parts.append(
                    csr_array((np.ones(len(codes)), (np.arange(len(codes)), codes)), (len(codes), variable.size))
                )
                parts[-1] = parts[-1][:, first:]
            else:
                parts.append((codes[:, None] == np.arange(first, variable.size)).astype(np.float64))
    return hstack(list(map(csr_array, parts)), "csr") if grouped else np.hstack(parts)


def refuse_standardised(X: Values) -> None:
    """Refuse numbers that a `StandardScaler` made of private records: their means and deviations are in each of them.

    Only numbers tell, since an estimator cannot see what stands before it in a pipeline. So this looks at records, and
    whether it refuses depends on them: it says that the mean is 0 and the deviation 1 in every column, to 1e-9, which
    of records that nobody standardised is not so but by a rare design. It is beside the promise, as all refusals of
    records are (docs/threat-model.md), and nothing is charged.

    Args:
        X: numbers, shape (records, features).

    Raises:
        InputError: they are standardised. Values of -1 and 1 alone are taken for two halves of a trial, and pass.
    """
    if X.dtype.kind != "f" or X.shape[0] < 2:
        return
    with np.errstate(all="ignore"):
        means, variances = mean_variance_axis(X, 0) if issparse(X) else (X.mean(axis=0), X.std(axis=0) ** 2)
        deviations = np.sqrt(variances)
        constant = deviations < ROUNDING
        told = np.all(np.abs(means) < ROUNDING) and np.all(constant | (np.abs(deviations - 1) < ROUNDING))
    if told and not constant.all() and (issparse(X) or not np.all(np.abs(X) == 1)):
        raise InputError(
            "every column has mean 0 and deviation 1: a StandardScaler has read them off private records, which no "
            "budget pays for; leave it out, or put PublicScaler(bounds=...) in its place (check_pipeline looks at all "
            "steps)"
        )


def _read_numbers(variable: Variable, values: Values) -> Floats:
    """Read finite numbers; what is none is refused without being shown."""
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([np.nan])
    if not np.isfinite(numbers).all():
        raise InputError(f"column {variable.name!r} holds a value that is missing, infinite or no number")
    return numbers


def _list_keys(variable: Variable) -> dict[Any, int]:
    """List the position of every value that stands for a state: its name, its number, or its logical value."""
    named: dict[Any, int] = {state: code for code, state in enumerate(variable.states)}
    if {state.lower() for state in named} <= {"true", "false"}:
        return named | {state.lower() == "true": code for state, code in named.items()}
    try:
        numbers = {float(state): code for state, code in named.items()}
    except ValueError:
        return named
    return named | numbers if len(numbers) == len(named) else named
