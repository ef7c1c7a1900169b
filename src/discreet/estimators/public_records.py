"""Scores that are exact, and therefore of records alone that were declared public."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Literal

from discreet.errors import InputError, require_word

ScoredRecords = Literal["private", "public"]
"""What the records that an estimator's `score` is asked about are declared to be."""


class of_public_records:
    """A method whose result is exact, and which therefore exists for records that were declared public only.

    Looking the method up is refused already, by an error that is no AttributeError: `cross_val_score` and the searches
    of scikit-learn look `score` up before their first fit, so they stop with this error and nothing is charged.

    Args:
        method: of an estimator with the public attribute `scored_records`.
    """

    def __init__(self, method: Callable[..., float]) -> None:
        @functools.wraps(method)
        def checked(estimator: Any, *arguments: Any, **options: Any) -> float:
            _require_public(estimator)
            return method(estimator, *arguments, **options)

        self._checked = checked

    def __get__(self, estimator: Any, owner: type | None = None) -> Callable[..., float]:
        """The method; of the class, where scikit-learn reads its signature, as a function."""
        if estimator is None:
            return self._checked
        _require_public(estimator)
        return MethodType(self._checked, estimator)


def _require_public(estimator: Any) -> None:
    """Refuse an exact score unless the records that it is of were declared public."""
    require_word(estimator.scored_records, ScoredRecords, "records that `score` is asked about (scored_records) are")
    if estimator.scored_records == "private":
        raise InputError(
            "score is an exact function of the records it is given, and on one record tells its target: use "
            "release_score, or scoring=private_scorer(guarantee); or declare scored_records='public' if they are public"
        )
