"""Checks of the constructors' arguments, which `fit` makes before anything is charged.

scikit-learn requires constructors to store their arguments unchecked, so each `fit` begins here. Errors may name and
show the arguments: all of them are public.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from discreet.errors import InputError

MOST_DRAWN_NUMBERS = 2**27
"""Most numbers of one posterior, draws times probabilities or weights: 1 GiB. More are refused before any charge."""


class InputTypeError(InputError, TypeError):
    """Error for input of an unreadable type, where scikit-learn's callers expect a TypeError."""


def generator(random_state: Any) -> np.random.Generator:
    """Make the generator of the computations after the release; privacy noise never comes from it.

    Args:
        random_state: None, a whole number, or a `RandomState` of numpy, as in scikit-learn; or a `Generator`.

    Returns:
        A generator; the same one for the same whole number.

    Raises:
        InputError: a random state of another type.

    Example:
        >>> generator(3).integers(10**9) == generator(3).integers(10**9)
        np.True_
    """
    if random_state is None or (isinstance(random_state, Integral) and int(random_state) >= 0):
        return np.random.default_rng(None if random_state is None else int(random_state))
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    raise InputError("random_state must be None, a whole number of at least 0, or a generator of numpy")


def generator_after(estimator: BaseEstimator, random_state: Any) -> np.random.Generator:
    """Make the generator of a fitted estimator's fresh draws.

    Args:
        estimator: fitted.
        random_state: as for `generator`; None takes the estimator's own.

    Returns:
        A generator.

    Raises:
        NotFittedError: by scikit-learn, if the estimator is not fitted.
        InputError: an invalid random state.
    """
    check_is_fitted(estimator, "release_")
    return generator(estimator.random_state if random_state is None else random_state)


def refuse_options(options: Mapping[str, Any]) -> None:
    """Refuse arguments of `fit` other than records.

    Args:
        options: by name, such as sample weights.

    Raises:
        InputError: there is an option. It is also a TypeError, as Python's own for an unknown argument.
    """
    if "sample_weight" in options:
        raise InputTypeError(
            "fit takes no sample_weight: every record counts once, and the guarantees do not cover weighted records"
        )
    if options:
        raise InputTypeError("fit takes X and y, and nothing else; pass options to the constructor")


def yes_or_no(value: Any, name: str) -> bool:
    """Read a declared choice.

    Args:
        value: argument.
        name: of the constructor's argument.

    Returns:
        The choice.

    Raises:
        InputError: the value is not True or False, or 1 or 0, which a grid of settings may hold.

    Example:
        >>> yes_or_no(1, "curvature")
        True
    """
    if isinstance(value, (bool, np.bool_, Integral)) and value in (0, 1):
        return bool(value)
    raise InputError(f"{name} must be True or False")


def whole_number(value: Any, name: str, least: int, most: int | None = None) -> int:
    """Read a declared count.

    Args:
        value: argument.
        name: of the constructor's argument.
        least: smallest value allowed.
        most: largest value that fits into memory; None for no limit.

    Returns:
        The number.

    Raises:
        InputError: no whole number, or one outside this range.

    Example:
        >>> whole_number(0, "draws", 1)
        Traceback (most recent call last):
        discreet.errors.InputError: draws is a whole number, at least 1
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"{name} is a whole number, at least {least}")
    if most is not None and int(value) > most:
        raise InputError(f"{name} is a whole number, at most {most:,}")
    return int(value)


def require_drawable(draws: int, numbers: int) -> None:
    """Refuse a posterior that does not fit into memory, before anything is charged.

    Args:
        draws: number of draws.
        numbers: probabilities or weights in a draw; public.

    Raises:
        InputError: more than 2^27 numbers in all, which are 1 GiB.

    Example:
        >>> require_drawable(1000, 10**6)
        Traceback (most recent call last):
        discreet.errors.InputError: draws of 1,000,000 numbers each: at most 134 draws fit into 1 GiB; ask for ...
    """
    if draws * numbers > MOST_DRAWN_NUMBERS:
        raise InputError(
            f"draws of {numbers:,} numbers each: at most {MOST_DRAWN_NUMBERS // numbers:,} draws fit into 1 GiB; ask "
            "for fewer draws, features, bins or classes"
        )
