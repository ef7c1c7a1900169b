"""What the estimators over a design share: from columns and declared bounds to a design, and back from a release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from discreet.errors import InputError, listed
from discreet.estimators.columns import EXAMPLE, declared_bounds, declared_columns
from discreet.estimators.contract import ArrayInput, generated_names, read_features
from discreet.estimators.given_table import GivenTable
from discreet.model.design import Design
from discreet.model.indicators import features_of
from discreet.model.schema import Variable
from discreet.releases.release import Release

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.intp]
E = TypeVar("E", bound=BaseEstimator)

SPARSE_BLOCK_NUMBERS = 2**22
"""Numbers of a block of sparse records, which is made dense to be predicted: 32 MiB."""


def declared_features(bounds: Any, given: ArrayInput | GivenTable) -> tuple[Variable, ...]:
    """Numeric features with their public bounds.

    Args:
        bounds: `(lower, upper)`, as `declared_bounds` takes them: features are then called x0, x1, ..., because the
            names of a frame's columns may be those of a file without a header: the values of a record. Or a mapping
            from names, which are thereby public, to pairs (lower, upper) or to categories, see `declared_columns`.
        given: records.

    Returns:
        The variables; of categories their indicators.

    Raises:
        InputError: no bounds, or bounds of another form, or for another number of columns.
    """
    if isinstance(given, GivenTable):
        return features_of(given.columns, grouped=given.grouped)
    if bounds is None:
        raise InputError(f"fit needs bounds=(lower, upper) or by column, such as {EXAMPLE}: never read off records")
    if isinstance(bounds, Mapping):
        columns = declared_columns(bounds)
        features = features_of(columns, grouped=given.grouped)
        if len(features) != given.width:
            raise InputError(f"{len(columns)} features were declared, but X has {given.width} columns")
        return features
    pairs = declared_bounds(bounds, given.width)
    return tuple(Variable(name, bounds=pair) for name, pair in zip(generated_names(given.width), pairs, strict=True))


def positive_number(value: Any, name: str) -> float:
    """A number that was declared.

    Args:
        value: what was given.
        name: of the constructor's argument.

    Returns:
        The number.

    Raises:
        InputError: no number, or one that is not finite and greater than 0.

    Example:
        >>> positive_number(2, "radius")
        2.0
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name} is a finite number greater than 0")
    return float(value)


def inner_products(coordinates: Floats, weights: Floats) -> Floats:
    """Every record's coordinates times the weights, summed coordinate by coordinate.

    A matrix product may round a record's sum differently beside other records. Here it is the same to the last bit
    whatever they are: a released score counts predictions, and one record must not move the prediction of another.

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
    """Numbers of the features in the order of X's columns, as scikit-learn has them.

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


def target_name(given: ArrayInput | GivenTable, name: str, features: Sequence[Variable]) -> str:
    """What the target is called in the release: after its column, where that was named, or else `name`."""
    return unused_name(name, features) if given.target is None else given.target


def unused_name(name: str, features: Sequence[Variable]) -> str:
    """A name for the target that no feature has.

    Example:
        >>> unused_name("target", [Variable("age", bounds=(0, 120)), Variable("target", bounds=(0, 1))])
        'target_'
    """
    taken = {variable.name for variable in features}
    while name in taken:
        name += "_"
    return name


def written_bounds(design: Design, bounds: Mapping[str, Any] | None) -> Any:
    """Bounds of a design's features as the constructors take them.

    Args:
        design: of a release.
        bounds: as they were declared to the fit, where some are categories, of whose first a release says nothing; None
            takes the features as they stand.

    Returns:
        Either; the numbers' bounds are those of the release, which may have been found within the declared ones.

    Raises:
        InputError: bounds of other features than those of the release.
    """
    if bounds is not None:
        columns = declared_columns(bounds) if isinstance(bounds, Mapping) else ()
        given = features_of(columns, grouped=bool(design.groups))
        if len(given) != len(design.features) or not all(map(_lies_within, design.features, given)):
            raise InputError(
                f"bounds are those that were declared to the fit, by column: {_list_bounds(design.features)}; not "
                f"{_list_bounds(given) or 'none'}"
            )
        found = {variable.name: variable.bounds for variable in design.features}
        return {one.name: found[one.name] if one.numeric else bounds[one.name] for one in columns}
    if design.names == generated_names(len(design.features)):
        return tuple(zip(*(variable.bounds or () for variable in design.features), strict=True))
    return {variable.name: variable.bounds for variable in design.features}


def _lies_within(feature: Variable, declared: Variable) -> bool:
    """Whether a release's feature is the declared one; a first release may have found narrower bounds for it."""
    assert feature.bounds is not None and declared.bounds is not None
    inside = declared.bounds[0] <= feature.bounds[0] and feature.bounds[1] <= declared.bounds[1]
    return inside and feature.name == declared.name


def _list_bounds(features: Sequence[Variable]) -> str:
    """List features with their public bounds, for a message: `age 0 to 120, sex=m 0 to 1`."""
    return listed(
        " ".join([one.name, *([] if one.bounds is None else ["{:g} to {:g}".format(*one.bounds)])]) for one in features
    )


def scaled_blocks(estimator: BaseEstimator, X: Any) -> Iterator[Floats]:
    """Coordinates of records that are to be predicted: all at once, or of sparse ones a block after the other.

    Args:
        estimator: fitted.
        X: as in `fit`.

    Yields:
        float64, shape (records, size); at least one block.

    Raises:
        InputError: other columns than those of the fit.
        NotFittedError: of scikit-learn, an estimator that is not fitted.
    """
    check_is_fitted(estimator, "release_")
    read, design = read_features(estimator, X), estimator.release_.design
    step = SPARSE_BLOCK_NUMBERS // design.size if issparse(read) else read.shape[0]
    for start in range(0, read.shape[0], max(step, 1)):
        part = read[start : start + max(step, 1)]
        yield design.scaled((part.toarray() if issparse(part) else part)[:, estimator._columns])


def of_release(kind: type[E], release: Release, bounds: Mapping[str, Any] | None, **arguments: Any) -> E:
    """An estimator of a release alone: its arguments, and what scikit-learn keeps of the columns.

    Args:
        kind: of the estimator.
        release: over a design.
        bounds: as of `written_bounds`.
        arguments: of the constructor, beside the bounds and the guarantee.

    Returns:
        The estimator, which has not kept the release yet.

    Raises:
        InputError: bounds of other features than those of the release.
    """
    design = release.design
    made: E = kind(bounds=written_bounds(design, bounds), guarantee=release.guarantee, **arguments)
    named = isinstance(made.bounds, Mapping)
    columns = declared_columns(made.bounds) if named else design.features
    made.n_features_in_, made._columns = len(columns), np.arange(len(design.features))
    made._mixed = None if all(variable.numeric for variable in columns) else columns
    if named:
        made.feature_names_in_ = np.array([variable.name for variable in columns], object)
    return made
