"""Designs from columns and declared bounds, and estimators from releases over a design."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from discreet.designs.design import Design, design_of
from discreet.designs.indicators import features_of
from discreet.errors import InputError, listed
from discreet.estimators.columns import EXAMPLE, declared_bounds, declared_columns, mixed
from discreet.estimators.contract import ArrayInput, design_behind, generated_names, read_features
from discreet.estimators.table_input import TableInput
from discreet.model.schema import Variable
from discreet.releases.release import Release
from discreet.util.arrays import Floats, Positions

E = TypeVar("E", bound=BaseEstimator)

SPARSE_BLOCK_NUMBERS = 2**22
"""Numbers in a block of sparse records, which is made dense for a prediction: 32 MiB."""


def declared_features(bounds: Any, inputs: ArrayInput | TableInput) -> tuple[Variable, ...]:
    """Make numeric features with their public bounds.

    Args:
        bounds: `(lower, upper)`, as for `declared_bounds`. Features are then called x0, x1, ..., because a frame's
            column names may come from a file without a header and be the values of a record. Or a mapping from names,
            which thereby are public, to pairs (lower, upper) or to categories, see `declared_columns`.
        inputs: records.

    Returns:
        The variables; indicators for categories.

    Raises:
        InputError: no bounds, bounds of another form, or for another number of columns.
    """
    if isinstance(inputs, TableInput):
        return features_of(inputs.columns, grouped=inputs.grouped)
    if bounds is None:
        raise InputError(f"fit needs bounds=(lower, upper) or by column, such as {EXAMPLE}; no record is read for them")
    if isinstance(bounds, Mapping):
        columns = declared_columns(bounds)
        features = features_of(columns, grouped=inputs.grouped)
        if len(features) != inputs.width:
            raise InputError(f"{len(columns)} features were declared, but X has {inputs.width} columns")
        return features
    pairs = declared_bounds(bounds, inputs.width)
    return tuple(Variable(name, bounds=pair) for name, pair in zip(generated_names(inputs.width), pairs, strict=True))


def positive_number(value: Any, name: str) -> float:
    """Read a declared number.

    Args:
        value: argument.
        name: of the constructor's argument.

    Returns:
        The number.

    Raises:
        InputError: no number, or not finite and greater than 0.

    Example:
        >>> positive_number(2, "radius")
        2.0
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name} must be a finite number greater than 0")
    return float(value)


def inner_products(coordinates: Floats, weights: Floats) -> Floats:
    """Multiply every record's coordinates by the weights, and sum them coordinate by coordinate.

    A matrix product may round a record's sum differently among other records. This sum is the same to the last bit for
    any other records: a released score counts predictions, and one record must not move the prediction of another.

    Args:
        coordinates: shape (records, size).
        weights: shape (size,).

    Returns:
        Shape (records,).

    Example:
        >>> inner_products(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0])).tolist()
        [12.0, 34.0]
    """
    total = np.zeros(len(coordinates))
    for column, weight in zip(coordinates.T, weights.tolist(), strict=True):
        total += column * weight
    return total


def by_column(values: Floats, columns: Positions) -> Floats:
    """Put numbers of the features into the order of X's columns, as scikit-learn has them.

    Args:
        values: shape `(..., features)`, in the design's order.
        columns: position in X of each feature.

    Returns:
        Same shape.

    Example:
        >>> by_column(np.array([0.1, 0.2, 0.3]), np.array([2, 0, 1])).tolist()  # the first feature is the third column
        [0.2, 0.3, 0.1]
    """
    return values[..., np.argsort(columns)]


def target_name(inputs: ArrayInput | TableInput, name: str, features: Sequence[Variable]) -> str:
    """Name the target in the release: by its column, if that was named, or else by `name`."""
    return unused_name(name, features) if inputs.target is None else inputs.target


def unused_name(name: str, features: Sequence[Variable]) -> str:
    """Make a name for the target that no feature has.

    Example:
        >>> unused_name("target", [Variable("age", bounds=(0, 120)), Variable("target", bounds=(0, 1))])
        'target_'
    """
    taken = {variable.name for variable in features}
    while name in taken:
        name += "_"
    return name


def written_bounds(design: Design, bounds: Mapping[str, Any] | None) -> Any:
    """Convert the bounds of a design's features to the form that the constructors take.

    Args:
        design: of a release.
        bounds: as declared to the fit, if some are categories, whose first one a release does not name; None takes the
            features as they are.

    Returns:
        A pair or a mapping. Bounds of numbers are those of the release, which may be narrower than the declared ones.

    Raises:
        InputError: bounds of features other than those of the release.
    """
    if bounds is not None:
        columns = declared_columns(bounds) if isinstance(bounds, Mapping) else ()
        features = features_of(columns, grouped=bool(design.groups))
        if len(features) != len(design.features) or not all(map(_lies_within, design.features, features)):
            raise InputError(
                f"pass the bounds that were declared to the fit, by column: {_list_bounds(design.features)}; not "
                f"{_list_bounds(features) or 'none'}"
            )
        narrowed = {variable.name: variable.bounds for variable in design.features}
        plain = {column.name for column in columns if mixed((column,)) is None}
        return {column.name: (narrowed if column.name in plain else bounds)[column.name] for column in columns}
    if design.names == generated_names(len(design.features)):
        return tuple(zip(*(variable.bounds or () for variable in design.features), strict=True))
    return {variable.name: variable.bounds for variable in design.features}


def _lies_within(feature: Variable, declared: Variable) -> bool:
    """True if a release's feature is the declared one; a first release may have narrowed its bounds."""
    assert feature.bounds is not None and declared.bounds is not None
    inside = declared.bounds[0] <= feature.bounds[0] and feature.bounds[1] <= declared.bounds[1]
    return inside and feature.name == declared.name


def _list_bounds(features: Sequence[Variable]) -> str:
    """List features with their public bounds, for a message: `age 0 to 120, sex=m 0 to 1`."""
    return listed(
        " ".join([feature.name, *([] if feature.bounds is None else ["{:g} to {:g}".format(*feature.bounds)])])
        for feature in features
    )


def scaled_blocks(estimator: BaseEstimator, X: Any) -> Iterator[Floats]:
    """Compute the coordinates of records to predict: all at once, or for sparse records block by block.

    Args:
        estimator: fitted.
        X: as in `fit`.

    Yields:
        float64, shape (records, size); at least one block.

    Raises:
        InputError: columns other than those of the fit.
        NotFittedError: by scikit-learn, if the estimator is not fitted.
    """
    check_is_fitted(estimator, "release_")
    read, design = read_features(estimator, X), design_behind(estimator)
    step = SPARSE_BLOCK_NUMBERS // design.size if issparse(read) else read.shape[0]
    for start in range(0, read.shape[0], max(step, 1)):
        block = read[start : start + max(step, 1)]
        yield design.scaled((block.toarray() if issparse(block) else block)[:, estimator._columns])


def of_release(
    kind: type[E], release: Release, bounds: Mapping[str, Any] | None, design: Design | None = None, **arguments: Any
) -> E:
    """Make an estimator from a release alone: its arguments and scikit-learn's attributes of the columns.

    Args:
        kind: class of the estimator.
        release: over a design, or a network.
        bounds: as for `written_bounds`.
        design: of an estimator from a release over a network; None for that of the release.
        arguments: of the constructor, except the bounds and the guarantee.

    Returns:
        The estimator, without the release.

    Raises:
        InputError: bounds of features other than those of the release.
    """
    design = design or design_of(release)
    estimator: E = kind(bounds=written_bounds(design, bounds), guarantee=release.guarantee, **arguments)
    named = isinstance(estimator.bounds, Mapping)
    columns = declared_columns(estimator.bounds) if named else design.features
    estimator.n_features_in_, estimator._columns = len(columns), np.arange(len(design.features))
    estimator._mixed = mixed(columns)
    if named:
        estimator.feature_names_in_ = np.array([variable.name for variable in columns], object)
    return estimator
