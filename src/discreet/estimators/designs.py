"""What the estimators over a design share: from columns and declared bounds to a design, and back from a release."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from discreet.errors import InputError
from discreet.estimators.contract import Given, declared_bounds, generated_names, generator
from discreet.model.design import Design
from discreet.model.schema import Variable
from discreet.posterior.design.weight_posterior import WeightPosterior, weights
from discreet.releases.release import Release

__all__ = [
    "DrawnLater",
    "by_column",
    "declared_features",
    "declared_pair",
    "describe",
    "inner_products",
    "middles",
    "positive_number",
    "unused_name",
    "written_bounds",
]

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.intp]


class DrawnLater:
    """A posterior that is drawn when somebody first asks for it: the same draws, whenever that is.

    Copies and pickles of an estimator carry it along, drawn or not. Two threads that ask first may both draw; they draw
    the same, and both get what one of them made.

    Args:
        draws: how many.
        random_state: of the draws; read now, so nothing that happens to it later has an effect.
        reader: what draws; None for `weights`.
        options: more for the reader.
    """

    def __init__(
        self, draws: int, random_state: Any, *, reader: Callable[..., Any] | None = None, **options: Any
    ) -> None:
        self._draws, self._reader, self._options = draws, reader, options
        rng = generator(random_state)
        # A caller's own generator moves on, so that the next fit draws others.
        self._rng = np.random.default_rng(int(rng.integers(2**63))) if rng is random_state else rng

    def of(self, release: Release) -> WeightPosterior:
        """The posterior of weights given a release, always the same one; errors as of `weights`, each time."""
        found: WeightPosterior = self.drawn(release)
        return found

    def drawn(self, release: Release) -> Any:
        """What the reader makes of a release, always the same."""
        if "_found" not in vars(self):
            reader = weights if self._reader is None else self._reader
            drawn = reader(release, draws=self._draws, rng=copy.deepcopy(self._rng), **self._options)
            vars(self).setdefault("_found", drawn)
        return vars(self)["_found"]


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
        names, pairs = generated_names(width), declared_bounds(bounds, width)
    else:
        if len(bounds) != width:
            raise InputError(f"{len(bounds)} features were declared, but X has {width} columns")
        names = tuple(bounds)
        pairs = tuple(declared_pair(pair, f"bounds of {name!r}") for name, pair in bounds.items())
    return tuple(Variable(name, bounds=pair) for name, pair in zip(names, pairs, strict=True))


def declared_pair(bounds: Any, what: str) -> tuple[float, float]:
    """Public bounds of one variable.

    Args:
        bounds: `(lower, upper)`, two numbers.
        what: they are of, for the error.

    Returns:
        Both.

    Raises:
        InputError: something else, not finite, or not lower < upper.
    """
    wrong = False
    try:
        ((lower, upper),) = declared_bounds(bounds, 1)
    except InputError:
        wrong = True
    if wrong or isinstance(bounds, str):
        raise InputError(f"{what} are a pair (lower, upper) of two finite numbers, the lower one smaller")
    return lower, upper


def positive_number(value: Any, name: str) -> float:
    """A number that was declared.

    Args:
        value: what was given.
        name: of the constructor's argument.

    Returns:
        The number.

    Raises:
        InputError: no number, or one that is not finite and greater than 0.
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
    """
    total = np.zeros(len(coordinates))
    for column, weight in zip(coordinates.T, weights.tolist(), strict=True):
        total += column * weight
    return total


def middles(design: Design) -> Floats:
    """Middles of the features' bounds, in the units of the columns, shape (features,)."""
    pairs = np.array([variable.bounds for variable in design.features], np.float64)
    return np.asarray(pairs[:, 0] / 2 + pairs[:, 1] / 2)


def by_column(values: Floats, columns: Positions) -> Floats:
    """Numbers of the features in the order of X's columns, as scikit-learn has them.

    Args:
        values: shape `(..., features)`, in the design's order.
        columns: position in X of each feature.

    Returns:
        Same shape.
    """
    return values[..., np.argsort(columns)]


def unused_name(name: str, features: Sequence[Variable]) -> str:
    """A name for the target that no feature has."""
    taken = {variable.name for variable in features}
    while name in taken:
        name += "_"
    return name


def written_bounds(design: Design) -> Any:
    """Bounds of a design's features as the constructors take them."""
    if design.names == generated_names(len(design.features)):
        return tuple(zip(*(variable.bounds or () for variable in design.features), strict=True))
    return {variable.name: variable.bounds for variable in design.features}


def describe(estimator: BaseEstimator, design: Design) -> None:
    """Set what scikit-learn keeps of the columns, for an estimator that was made of a release."""
    estimator.n_features_in_ = len(design.features)
    estimator._columns = np.arange(len(design.features))
    if design.names != generated_names(len(design.features)):
        estimator.feature_names_in_ = np.array(design.names, object)
