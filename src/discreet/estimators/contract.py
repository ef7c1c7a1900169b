"""Base of all private estimators: the scikit-learn contract, and the rules that privacy adds to it.

Public arguments (guarantee, account, classes, bounds) are declared to the constructor and checked in `fit`, as
scikit-learn requires; none is inferred from records. scikit-learn's messages may quote a value of a record ("could not
convert string to float: 'Smith'") or the number of records. They are replaced before anybody sees them, in
scikit-learn's own words if these are public.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from discreet.designs.design import Design, design_of
from discreet.designs.indicators import features_of
from discreet.designs.records.rows import Rows, read_rows
from discreet.display.renderers import IntervalTable, text_of
from discreet.errors import InputError, listed, require
from discreet.estimators.accounts import promised
from discreet.estimators.columns import (
    codes_of,
    declared_columns,
    indicated,
    mixed,
    reading_options,
    refuse_standardised,
)
from discreet.estimators.options import InputTypeError, refuse_options
from discreet.estimators.table_input import FitSource, MaskedInput, TableInput
from discreet.formats.project_file import Project
from discreet.model.schema import Variable
from discreet.privacy.guarantee import Guarantee, Number
from discreet.privacy.ledger import Account
from discreet.releases.release import Release
from discreet.util.arrays import Array, Floats, Positions
from discreet.util.option_texts import DEFAULT_LEVEL, MissingValues
from discreet.util.tabular import Block, Result

T = TypeVar("T")

RELEASES = {"release_", "bounds_release_"}
"""Attributes that hold a release, or None."""
SHOWN_MESSAGES = (
    r"X has \d+ features, but \w+ is expecting \d+ features as input",
    r"(?s)The feature names should match those that were passed during fit.*",
    r"This \w+ estimator requires y to be passed, but the target y is None",
    r"(?s)Sparse data was passed.*",
)
"""Beginnings of messages about the analyst's own columns or about the call alone, which are shown unchanged."""
REPLACED_MESSAGES = (
    (r"could not convert|Unable to convert", "{name} holds text in a numeric column; declare its states"),
    (r"(float|int)\(\) argument must be", "argument must be a string or a number; {name} holds something else"),
    (r"Input X contains", "X contains NaN, inf or a number too large; leave such records out"),
    (r"Input y contains", "y contains NaN, inf or a number too large; leave such records out"),
    (r"Input contains|int too large", "{name} contains NaN, inf or a number too large; leave such records out"),
    (r"Complex data", "Complex data not supported"),
    (r"Expected 2D array|Expected a 2-dimensional container|Found array with dim", "Expected 2D array. Reshape your "
     "data: records are rows, features are columns"),
    (r"Found array with 0 feature", "Found array with 0 feature(s) (shape=(, 0)) while a minimum of 1 is required."),
    (r"Found array with 0 sample", "X or y holds no record; at least one is required"),
    (r"Found input variables with inconsistent", "X and y have different numbers of records"),
    (r"y should be a 1d array", "y should be a 1d array, one value for each record"),
    (r"Feature names are only supported", "Feature names are only supported if all of them are strings"),
)  # fmt: skip
"""Beginnings of messages that quote or count records, and their replacements. A pattern matches a beginning only, so
the replacement does not depend on the words in a record."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator, Result):  # type: ignore[misc]
    """Abstract estimator, whose state after `fit` is a release and functions of it.

    A subclass implements `_release`: it declares its task, releases, and keeps what follows from the release.

    The constructor takes public arguments by name and stores them unchanged. The account is a handle: a clone, a copy
    or a pickle of the estimator spends from the same budget. (The ledger `sqlite://` lives in the memory of one object
    and cannot be reached from a copy: copies refuse to fit.)

    A fitted estimator shows its results: `tidy` and `to_frame` have its numbers and intervals in rows, `plot` draws
    them, and `summary` adds the guarantee and the cost. Notebooks show scikit-learn's own diagram.
    """

    bounds: tuple[Any, Any] | Mapping[str, Any] | None = None
    guarantee: Guarantee | None = None
    account: Account | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    draws: int = 1000
    random_state: Any = None
    one_record_a_unit: bool = False

    _named = "name"
    """Heading of the rows' names in `summary`."""

    def fit(
        self,
        X: Any = None,
        y: Any = None,
        *,
        target: str | None = None,
        table: str | None = None,
        project: str | Path | None = None,
        features: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Check the arguments and records, charge the account, and release; draws are made on first access.

        Args:
            X: array or frame, shape (records, features); or a table: a path or glob, a URL, an Arrow, Ibis or Spark
                table, a frame with the target in it, or `Records`. Numbers outside their bounds are moved to the
                nearest bound. None for the records that a project file names.
            y: numbers, counts or declared labels, shape (records,); not read by an estimator that predicts nothing.
            target: name of a table's column that is predicted; y is then left out.
            table: name of the table where X is the URL of a database.
            project: project file (.toml) with what is public of the table: its columns, which stand for bounds and
                classes that are not given, how it is read, its unit, and the account that pays.
            features: names of the columns that are features, of a project file or of `Records`; None for all others.
            options: none is accepted; sample weights raise an InputError.

        Returns:
            The estimator.

        Raises:
            InputError: an argument that is missing or wrong, or records that do not fit; nothing is charged.
            BudgetError: the account cannot pay; nothing is charged, unless another process empties it between two
                releases.
        """
        refuse_options(options)
        declared = None if project is None else Project.read(project)
        guarantee, account = promised(self, declared)
        y = y if get_tags(self).target_tags.required else None
        source = FitSource(X, y, target, table, features).of_project(declared)
        if source.of_table:
            source.require_target(supervised=get_tags(self).target_tags.required)
        self._release(self.adapt(source), guarantee, account)
        return self

    def adapt(self, source: FitSource) -> FitSource:
        """Read the variables of `Records` as this estimator needs them: numbers without bins."""
        return source.adapted(lambda each: replace(each, bins=(), states=()) if each.numeric else each)

    def _release(self, source: FitSource, guarantee: Guarantee, account: Account) -> None:
        """Check the other arguments, read the records, release, and keep what follows; charge nothing before that."""
        raise NotImplementedError

    def summary(self, *, level: float = DEFAULT_LEVEL, width: int | None = None) -> str:
        """Format the release, its guarantee and cost, and the estimates with intervals as aligned text.

        Args:
            level: posterior probability of each interval, between 0 and 1.
            width: columns of the terminal, as for `columns`; None does not fold lines.

        Returns:
            Lines. Without intervals, such as for a logistic regression without curvature or a law of its features, the
            text explains how to get them.
        """
        return text_of(self.content(level=level), width)

    def content(self, *, level: float = DEFAULT_LEVEL) -> Iterator[str | Block]:
        """The same as blocks."""
        check_is_fitted(self, "release_")
        yield from (type(self).__name__, *self.release_.content())
        first = getattr(self, "bounds_release_", None)
        if first is not None and first.id != self.release_.id:
            yield f"before it: a release of its own found the bounds, {first.guarantee}"
        yield ""
        try:
            yield IntervalTable(self.tidy(level=level), self._named)
        except InputError as error:
            yield f"no intervals: {error}"

    __str__ = object.__str__  # one line: rows may take long

    @property
    def posterior_(self) -> Any:
        """Posterior draws that all intervals share, computed on first access.

        Raises:
            DiscreetError: much noise, where the reader of the release says so.
        """
        check_is_fitted(self, "release_")
        return self._posterior.draw(self.release_)

    @abstractmethod
    def tidy(self, *, level: float = DEFAULT_LEVEL) -> list[dict[str, Any]]:
        """List the estimates, a row for each number with its interval of this level."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle: the release as its document, without draws that know a release."""
        state = dict(super().__getstate__())
        state |= {name: state[name] and state[name].dumps() for name in RELEASES & state.keys()}
        if "_posterior" in state:
            state["_posterior"] = copy(state["_posterior"])
        return state

    def __dir__(self) -> list[str]:
        """List the names of attributes; a notebook looks all of them up, so refused ones are left out."""
        refused = {"score"} if getattr(self, "scored_records", None) == "private" else set()
        late = {"posterior_", "components_"} if "_posterior" in vars(self) else set()  # drawn on lookup
        # scikit-learn's own `__dir__` looks up refused attributes.
        return [name for name in object.__dir__(self) if name not in refused and (name in late or hasattr(self, name))]

    def __sklearn_tags__(self) -> Tags:
        """Mark that fits are random for any random state, and that sparse records are read by default."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = tags.input_tags.sparse = True
        return tags

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `__getstate__` saved."""
        state = dict(state)
        state |= {name: state[name] and Release.loads(state[name]) for name in RELEASES & state.keys()}
        super().__setstate__(state)


# -------------------------------------------------------------------------------------------------------- records


@dataclass(frozen=True, eq=False, repr=False)
class ArrayInput:
    """Arrays passed to `fit`: private but for the columns.

    Args:
        X: shape (records, features), perhaps sparse; indicators for declared categories.
        y: shape (records,), or None.
        names: of the features, if X has names; they and their number are taken to be public.
        columns: names of the columns, if X has names, and their number.
        declared: variables of the columns, in their order, unless all are plain numbers.
        grouped: whether categories are in groups of the design.
    """

    X: Array
    y: Array | None
    names: tuple[str, ...] | None
    columns: tuple[tuple[str, ...] | None, int]
    declared: tuple[Variable, ...] | None
    grouped: bool = False

    target = None
    """Name of the target's column; y has none."""

    @property
    def missing(self) -> MissingValues:
        """Treatment of missing values: they are features where a column is declared to have some."""
        return "keep" if any(each.missing is not None for each in self.declared or ()) else "error"

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def rows(self, design: Design, columns: Positions, labels: Array | None, one_record_a_unit: bool) -> Rows:
        """Round the records to the grid of a design.

        Args:
            design: public.
            columns: position in X of each feature.
            labels: that y may hold, in the order of the design's classes; None if y is numbers or missing.
            one_record_a_unit: declared by the curator.

        Returns:
            The rows.

        Raises:
            InputError: an undeclared label, or as `read_rows`.
        """
        y = self.y
        if labels is not None:
            states = np.array([str(label) for label in labels.tolist()])
            refusal = f"Unknown label type: y holds a label that is none of the declared classes: {listed(states)}"
            codes = codes_of(np.asarray(y), {label: code for code, label in enumerate(labels.tolist())}, refusal)
            y = states[codes]
        X = self.X if np.array_equal(columns, np.arange(self.width)) else self.X[:, columns]
        rows = read_rows(design, X, y, one_record_a_unit=one_record_a_unit)
        return replace(rows, policy=replace(rows.policy, missing=self.missing))

    def describe(self, estimator: BaseEstimator) -> None:
        """Set scikit-learn's attributes of the columns, at the end of a fit, so that a failed fit changes nothing."""
        names, estimator.n_features_in_ = self.columns
        if names is not None:
            estimator.feature_names_in_ = np.array(names, object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        estimator._mixed = self.declared


def read_inputs(
    estimator: BaseEstimator,
    source: FitSource,
    *,
    numeric: bool = True,
    grouped: Callable[[tuple[Variable, ...]], bool] = lambda columns: False,
) -> ArrayInput | TableInput:
    """Read the records of a fit: arrays, checked as scikit-learn does, or a table.

    Args:
        estimator: to be fitted; it is not changed.
        source: arguments of `fit`.
        numeric: whether features must be numbers; X is then float64, with indicators for declared categories.
        grouped: whether declared columns have their states in groups of the design.

    Returns:
        The records.

    Raises:
        InputError: they cannot be read, hold NaN or infinite numbers, or differ in length. No message has a value or a
            number of records.
    """
    X, y = source.X, source.y
    if isinstance(X, MaskedInput):
        return X.select(read_inputs(estimator, FitSource(X.X, X.y), numeric=numeric, grouped=grouped))  # type: ignore[no-any-return]
    supervised, bounds = get_tags(estimator).target_tags.required, getattr(estimator, "bounds", None)
    if isinstance(estimator, PrivateEstimator) and source.of_table:
        declared = source.columns(getattr(estimator, "features", None) or bounds)
        return TableInput(source, declared, estimator.one_record_a_unit, grouped(declared))
    require(
        source.features is None, "features= names columns of a project file or of Records; an array has all of its own"
    )
    # scikit-learn sets the columns on the estimator that it reads for; `describe` does so after the fit.
    reader = type(estimator)(**estimator.get_params(deep=False))
    columns = mixed(declared_columns(bounds)) if numeric and isinstance(bounds, Mapping) else None
    no_target = y is None and not supervised
    options = reading_options(estimator, columns, numeric=numeric)
    read = _read_quietly(lambda: validate_data(reader, X, "no_validation" if no_target else y, **options), "X or y")
    names = tuple(reader.feature_names_in_) if hasattr(reader, "feature_names_in_") else None
    X, y = (read, None) if no_target else read
    if isinstance(estimator, PrivateEstimator) and getattr(estimator, "scored_records", "private") == "private":
        refuse_standardised(X)
    inputs = ArrayInput(X, y, names, (names, X.shape[1]), None)
    return inputs if columns is None else _put_indicators(inputs, columns, grouped=grouped(columns))


def _put_indicators(inputs: ArrayInput, declared: tuple[Variable, ...], *, grouped: bool) -> ArrayInput:
    """Replace categories by indicators, in the order of X's columns."""
    positions = columns_of([variable.name for variable in declared], inputs, by_name=True)
    ordered = tuple(declared[position] for position in np.argsort(positions))
    names = None if inputs.names is None else tuple(feature.name for feature in features_of(ordered, grouped=grouped))
    X = indicated(ordered, inputs.X, grouped=grouped)
    return replace(inputs, X=X, names=names, declared=ordered, grouped=grouped)


def design_behind(estimator: Any) -> Design:
    """Find the design of a fitted estimator: that of its release, or over a network that of its reader."""
    reader = getattr(estimator, "_reader", None)
    return design_of(estimator.release_) if reader is None else reader.design


def read_features(
    estimator: BaseEstimator, X: Any, *, numeric: bool = True, columns: tuple[Variable, ...] | None = None
) -> Any:
    """Read features alone, for `predict` and similar methods.

    Args:
        estimator: fitted.
        X: shape (records, features), with the columns of the fit.
        numeric: whether every column must hold numbers; X is then float64.
        columns: if not, what the columns are declared to hold.

    Returns:
        The features; a sparse matrix by rows, if X is sparse or indicators are in groups.

    Raises:
        InputError: as `read_inputs`, or columns other than those of the fit.
    """
    declared = getattr(estimator, "_mixed", None) if numeric else None
    options = reading_options(estimator, declared or columns, numeric=numeric)
    read = _read_quietly(lambda: validate_data(estimator, X, reset=False, **options), "X")
    return read if declared is None else indicated(declared, read, grouped=bool(design_behind(estimator).groups))


def read_target(estimator: BaseEstimator, y: Any, records: int, *, numeric: bool) -> Array:
    """Read the targets of a score.

    Args:
        estimator: fitted; it is not changed.
        y: one value for each record.
        records: number of records.
        numeric: whether targets must be numbers; y is then float64.

    Returns:
        Shape (records,).

    Raises:
        InputError: targets cannot be read, are missing or infinite, or differ in number from the records. No message
            has a value or a number of records.
    """
    read = np.asarray(_read_quietly(lambda: column_or_1d(y), "y"))
    if len(read) != records:
        raise InputError("X and y have different numbers of records")
    if not numeric:
        return read
    numbers: Floats = _read_quietly(lambda: read.astype(np.float64), "y")
    if not np.isfinite(numbers).all():
        raise InputError("y contains NaN, inf or a number too large; leave such records out")
    return numbers


def generated_names(width: int) -> tuple[str, ...]:
    """Generate names of features without names.

    Example:
        >>> generated_names(3)
        ('x0', 'x1', 'x2')
    """
    return tuple(f"x{position}" for position in range(width))


def columns_of(names: Sequence[str], inputs: ArrayInput | TableInput, *, by_name: bool) -> Positions:
    """Find the position in X of each declared feature.

    Args:
        names: of the features.
        inputs: records.
        by_name: whether the names were declared; features are then matched by name if X has names.

    Returns:
        Positions, shape (features,).

    Raises:
        InputError: another number of columns, or a frame without a declared feature. The message does not show the
            frame's column names: in a file without a header they are the values of a record.
    """
    if len(names) != inputs.width:
        raise InputError(f"{len(names)} features were declared, but X has {inputs.width} columns")
    if not by_name or inputs.names is None:
        return np.arange(len(names))
    missing = [name for name in names if name not in inputs.names]
    if missing:
        raise InputError(f"X has no column {', '.join(map(repr, missing[:8]))}; its columns are the declared features")
    return np.array([inputs.names.index(name) for name in names])


def class_labels(classes: Any) -> Array:
    """Read the declared classes, in the order of scikit-learn's `classes_`.

    Args:
        classes: distinct labels of one type: whole numbers, text or logical values.

    Returns:
        The labels, sorted.

    Raises:
        InputError: no labels, labels of several types, repeated or continuous labels.

    Example:
        >>> class_labels(["well", "ill"]).tolist()
        ['ill', 'well']
    """
    if classes is None or isinstance(classes, str):
        raise InputError("fit needs classes=(...), the labels that y may hold; they are never read off the records")
    listed = list(classes)
    labels = _read_quietly(lambda: np.array(listed), "classes")
    textual = {isinstance(label, str) for label in listed}
    if labels.ndim != 1 or labels.dtype.kind not in "biufU" or len(textual) != 1:
        raise InputError("classes must be a list of labels, all text or all numbers")
    if labels.dtype.kind == "f" and not np.all(labels == np.floor(labels)):
        raise InputError("Unknown label type: continuous; classes of a classifier must be names or whole numbers")
    distinct: Array = np.unique(labels)
    if distinct.size < labels.size:
        raise InputError("a class is declared twice; list each class once")
    return distinct


def declared_labels(classes: Any, column: Variable | None) -> Array:
    """Read the declared classes; those of the target's public variable if none are given."""
    return class_labels(column.states if classes is None and column is not None and column.states else classes)


def _read_quietly(read: Callable[[], T], name: str) -> T:
    """Call `read`, and replace the text of a foreign exception, which may quote a record."""
    try:
        # A warning of an overflow would reveal something about the records.
        with np.errstate(all="ignore"):
            return read()
    except (InputError, Warning):
        raise
    except Exception as error:
        kind: type[InputError] = InputTypeError if isinstance(error, TypeError) else InputError
        message = _translate_message(str(error), name)
    # Raised outside the handler: inside it, the exception would carry the foreign one as its context.
    raise kind(message)


def _translate_message(message: str, name: str) -> str:
    """Translate a message of scikit-learn into one that may be shown."""
    for pattern in SHOWN_MESSAGES:
        if match := re.match(pattern, message):
            return match.group().removesuffix(".")
    for pattern, replacement in REPLACED_MESSAGES:
        if re.match(pattern, message):
            return replacement.format(name=name)
    return f"{name} cannot be read; the message of the reader may quote a record and is not shown"
