"""What a constructor of the estimators may be given, looked at in `fit` before anything is charged.

scikit-learn keeps what a constructor is given as it stands; so each `fit` begins here. What is said of a wrong value
names the argument: all of them are public.
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
"""Most numbers of one posterior, draws times probabilities or weights: 1 GiB, refused before anything is charged."""


class InputTypeError(InputError, TypeError):
    """Input of a kind that cannot be read at all, where scikit-learn's callers expect a TypeError."""


def generator(random_state: Any) -> np.random.Generator:
    """The generator of what is done after the release; privacy noise never comes from it.

    Args:
        random_state: None, a whole number, or a `RandomState` of numpy, as in scikit-learn; or a `Generator`.

    Returns:
        A generator; of a whole number always the same.

    Raises:
        InputError: something else.

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
    raise InputError("random_state is None, a whole number that is not negative, or a generator of numpy")


def generator_after(estimator: BaseEstimator, random_state: Any) -> np.random.Generator:
    """The generator of a fitted estimator's fresh draws.

    Args:
        estimator: fitted.
        random_state: as of `generator`; None takes the estimator's own.

    Returns:
        A generator.

    Raises:
        NotFittedError: of scikit-learn, an estimator that is not fitted.
        InputError: an odd random state.
    """
    check_is_fitted(estimator, "release_")
    return generator(estimator.random_state if random_state is None else random_state)


def refuse_options(options: Mapping[str, Any]) -> None:
    """Refuse what `fit` was given beside records.

    Args:
        options: by name, such as sample weights.

    Raises:
        InputError: there is one. It is a TypeError, too, as Python's own for such a call.
    """
    if "sample_weight" in options:
        raise InputTypeError(
            "fit takes no sample_weight: every record counts once, and no guarantee here covers one that counts more"
        )
    if options:
        raise InputTypeError("fit takes X and y, and nothing else; options are the constructor's")


def yes_or_no(value: Any, name: str) -> bool:
    """A choice that was declared.

    Args:
        value: what was given.
        name: of the constructor's argument.

    Returns:
        The choice.

    Raises:
        InputError: neither True nor False, nor 1 nor 0 as a grid of settings may hold.

    Example:
        >>> yes_or_no(1, "curvature")
        True
    """
    if isinstance(value, (bool, np.bool_, Integral)) and value in (0, 1):
        return bool(value)
    raise InputError(f"{name} is True or False")


def whole_number(value: Any, name: str, least: int, most: int | None = None) -> int:
    """A count that was declared.

    Args:
        value: what was given.
        name: of the constructor's argument.
        least: smallest that makes sense.
        most: largest that memory has room for; None where nothing grows with it.

    Returns:
        The number.

    Raises:
        InputError: no whole number, a smaller or a larger one.

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
    """Refuse a posterior that memory has no room for, before anything is charged.

    Args:
        draws: how many.
        numbers: probabilities or weights of each; public.

    Raises:
        InputError: more than 2^27 numbers together, which are 1 GiB.

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
