"""What the estimators over a design share: from columns and declared bounds to a design, and back from a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from discreet.errors import InputError
from discreet.estimators.contract import Given, declared_bounds
from discreet.model.design import Design
from discreet.model.schema import Variable

__all__ = ["columns_of", "declared_features", "describe", "unused_name", "written_bounds"]

Positions = npt.NDArray[np.intp]


def declared_features(bounds: Any, given: Given) -> tuple[Variable, ...]:
    """Numeric features with their public bounds.

    Args:
        bounds: `(lower, upper)`, as `declared_bounds` takes them: features are then called x0, x1, ..., because the
            names of a frame's columns may be those of a file without a header: the values of a record. Or a mapping
            from names, which are thereby public, to pairs (lower, upper).
        given: records.

    Returns:
        The variables.

    Raises:
        InputError: no bounds, or bounds of another form, or for another number of columns.
    """
    width = given.X.shape[1]
    if bounds is None:
        raise InputError(
            "fit needs bounds=(lower, upper) or bounds={name: (lower, upper), ...}: never read off records"
        )
    if not isinstance(bounds, Mapping):
        names, pairs = _generated(width), declared_bounds(bounds, width)
    else:
        if len(bounds) != width:
            raise InputError(f"{len(bounds)} features were declared, but X has {width} columns")
        names = tuple(bounds)
        pairs = tuple(declared_bounds(pair, 1)[0] for pair in bounds.values())
    return tuple(Variable(name, bounds=pair) for name, pair in zip(names, pairs, strict=True))


def columns_of(variables: Sequence[Variable], given: Given) -> Positions:
    """Position in X of each feature: by name where both have names, else in order.

    Args:
        variables: the features.
        given: records.

    Returns:
        Positions, shape (features,).

    Raises:
        InputError: a frame without a declared feature; the columns' own names are not shown.
    """
    names = tuple(variable.name for variable in variables)
    if given.names is None or names == _generated(len(names)):
        return np.arange(len(names))
    missing = [name for name in names if name not in given.names]
    if missing:
        raise InputError(f"X has no column {', '.join(map(repr, missing[:8]))}; its columns are the declared features")
    return np.array([given.names.index(name) for name in names])


def unused_name(name: str, features: Sequence[Variable]) -> str:
    """A name for the target that no feature has."""
    taken = {variable.name for variable in features}
    while name in taken:
        name += "_"
    return name


def written_bounds(design: Design) -> Any:
    """Bounds of a design's features as the constructors take them."""
    if design.names == _generated(len(design.features)):
        return tuple(zip(*(variable.bounds or () for variable in design.features), strict=True))
    return {variable.name: variable.bounds for variable in design.features}


def describe(estimator: BaseEstimator, design: Design) -> None:
    """Set what scikit-learn keeps of the columns, for an estimator that was made of a release."""
    estimator.n_features_in_ = len(design.features)
    estimator._columns = np.arange(len(design.features))
    if design.names != _generated(len(design.features)):
        estimator.feature_names_in_ = np.array(design.names, object)


def _generated(width: int) -> tuple[str, ...]:
    """Names of features that have none."""
    return tuple(f"x{position}" for position in range(width))
