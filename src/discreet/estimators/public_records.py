"""Exact scores, which exist only for records that were declared public."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any, ClassVar, Literal

from discreet.errors import InputError, require_word

ScoredRecords = Literal["private", "public"]
"""Declaration of the records that an estimator's `score` takes."""


class of_public_records:
    """Decorator of a method with an exact result, which exists only if the records were declared public.

    The lookup of the method already raises an error, which is no AttributeError: `cross_val_score` and the searches of
    scikit-learn look `score` up before their first fit, so they stop with this error and nothing is charged.

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
        """Bind the method; on the class, where scikit-learn reads its signature, return the function."""
        if estimator is None:
            return self._checked
        _require_public(estimator)
        return MethodType(self._checked, estimator)


def _require_public(estimator: Any) -> None:
    """Refuse an exact score unless its records were declared public."""
    require_word(estimator.scored_records, ScoredRecords, "records that `score` is asked about (scored_records) are")
    if estimator.scored_records == "private":
        raise InputError(
            "score is an exact function of its records, and on one record it reveals the target: use release_score, or "
            "scoring=private_scorer(guarantee); if the records are public, declare scored_records='public'"
        )


@dataclass(kw_only=True, eq=False, repr=False)
class ScoredOnPublicRecords:
    """Exact score of an estimator that predicts; it stands before the mixin of scikit-learn, which has another.

    Args:
        scored_records: whether the records passed to `score` are "private" or "public".
    """

    scored_records: ScoredRecords = "private"

    _metric: ClassVar[Callable[..., float]]
    """Score of scikit-learn by targets, predictions and `sample_weight`."""

    @of_public_records
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the score of `predict` exactly, for public records only: accuracy, R2, or D2 of counts.

        Args:
            X: as in `fit`.
            y: labels or targets, shape (records,).
            sample_weight: of each record.

        Returns:
            At most 1.

        Raises:
            InputError: `scored_records` is not "public", or as `predict`.
        """
        return float(type(self)._metric(y, self.predict(X), sample_weight=sample_weight))  # type: ignore[attr-defined]
