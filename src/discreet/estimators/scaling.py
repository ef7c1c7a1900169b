"""Scaler by public bounds, which learns nothing and may stand before a private estimator in a pipeline.

`StandardScaler` or `MinMaxScaler` would read means or extremes off the private records, and no ledger would be charged.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags

from discreet.errors import InputError
from discreet.estimators.columns import declared_bounds
from discreet.estimators.contract import ArrayInput, read_features, read_inputs
from discreet.estimators.table_input import FitSource
from discreet.util.arrays import Floats


class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scaler of numbers from public bounds to [-1, 1]; numbers outside are moved to the nearest bound.

    Args:
        bounds: `(lower, upper)`, each a number or one for each feature, in the features' unit; required.

    Raises:
        Nothing: `fit` checks the arguments, as scikit-learn requires.

    Guarantee:
        None spent: every record is mapped by public numbers alone.

    Example:
        >>> import discreet as dc
        >>> dc.estimators.PublicScaler(bounds=(0, [10, 2])).fit_transform([[5, 3], [10, 1]]).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, *, bounds: tuple[Any, Any] | None = None) -> None:
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the bounds and count the columns; values are only checked to be numbers.

        Args:
            X: shape (records, features).
            y: not read.

        Returns:
            The scaler.

        Raises:
            InputError: invalid bounds, or records that cannot be read.
        """
        inputs = read_inputs(self, FitSource(X))
        assert isinstance(inputs, ArrayInput)  # a scaler takes no tables
        if any(not upper / 4 - lower / 4 > 0 for lower, upper in declared_bounds(self.bounds, inputs.X.shape[1])):
            raise InputError("bounds are too close to each other for floating point; declare wider ones")
        inputs.describe(self)
        return self

    def transform(self, X: Any) -> Floats:
        """Scale records to [-1, 1].

        Args:
            X: shape (records, features).

        Returns:
            float64 of the same shape, in [-1, 1].

        Raises:
            InputError: records that cannot be read, or columns other than those of the fit.
        """
        X = read_features(self, X)
        lower, upper = np.array(declared_bounds(self.bounds, X.shape[1])).T
        # Divide first: the width of the bounds may overflow.
        scaled = (np.clip(X, lower, upper) / 2 - lower / 4 - upper / 4) / (upper / 4 - lower / 4)
        return np.asarray(np.clip(scaled, -1, 1))

    def __sklearn_tags__(self) -> Tags:
        """Mark that there is no state to fit."""
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags
