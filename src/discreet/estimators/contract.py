"""What all private estimators share: their side of the scikit-learn contract, and what privacy adds to it.

Whatever is public (guarantee, account, classes, bounds) is declared to the constructor and looked at in `fit`, as
scikit-learn has it; nothing is inferred from records. scikit-learn's own messages may quote a value of a record
("could not convert string to float: 'Smith'") or say how many there are; here they are replaced, in its own words where
these are public, before anybody sees them.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from discreet.display.renderers import IntervalTable, text_of
from discreet.errors import InputError, listed
from discreet.estimators.columns import codes_of, indicated, refuse_standardised, sparse_format, with_categories
from discreet.estimators.given_table import GivenTable, KeptRecords, declared_of, is_table, require_target
from discreet.estimators.options import InputTypeError
from discreet.model.design import Design
from discreet.model.indicators import features_of
from discreet.model.schema import Variable
from discreet.records.rows import Rows, read_rows
from discreet.releases.release import Release
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.tabular import Block, Result

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[Any]
Positions = npt.NDArray[np.intp]
T = TypeVar("T")

RELEASES = {"release_", "bounds_release_"}
"""Attributes that hold a release, or None."""
SHOWN_MESSAGES = (
    r"X has \d+ features, but \w+ is expecting \d+ features as input",
    r"(?s)The feature names should match those that were passed during fit.*",
    r"This \w+ estimator requires y to be passed, but the target y is None",
    r"(?s)Sparse data was passed.*",
)
"""How messages begin that are of the analyst's own columns, or of nothing but the call: shown as they stand."""
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
"""How messages begin that quote records or count them, and what is said instead. Beginnings only: what is said must not
depend on the words in a record."""


class PrivateEstimator(BaseEstimator, Result):  # type: ignore[misc]
    """Abstract: an estimator whose state after `fit` is a release and what follows from it.

    Its constructor takes public arguments, by name, and keeps them as they are. The account is a handle: a clone, a
    copy or a pickle of the estimator spends from the same budget. (The ledger `sqlite://` lives in the memory of one
    object and cannot be reached from a copy: copies refuse to fit.)

    Once fitted it shows what it learned: `tidy` and `to_frame` have its numbers with their intervals in rows, `plot`
    draws them, and `summary` says beside them what was promised and spent. Notebooks show scikit-learn's own picture.
    """

    _named = "name"
    """What the names of rows are of, for `summary`."""

    def summary(self, *, level: float = DEFAULT_LEVEL, width: int | None = None) -> str:
        """What was released, what that promises and spent, and what was learned, with intervals, as aligned text.

        Args:
            level: posterior probability of each interval, between 0 and 1.
            width: columns of the terminal, as of `columns`; None for lines as long as they are.

        Returns:
            Lines. Where nothing tells intervals, such as of a logistic regression without its curvature or a law of
            its features, what would.
        """
        return text_of(self.content(level=level), width)

    def content(self, *, level: float = DEFAULT_LEVEL) -> Iterator[str | Block]:
        """The same as blocks."""
        check_is_fitted(self, "release_")
        yield from (type(self).__name__, *self.release_.content())
        first = getattr(self, "bounds_release_", None)
        if first is not None and first.id != self.release_.id:
            yield f"before it: bounds were found by a release of their own, {first.guarantee}"
        yield ""
        try:
            yield IntervalTable(self.tidy(level=level), self._named)
        except InputError as error:
            yield f"no intervals: {error}"

    __str__ = object.__str__  # one line: rows may take long

    @abstractmethod
    def tidy(self, *, level: float = DEFAULT_LEVEL) -> list[dict[str, Any]]:
        """What was learned, a row for each number with its interval of this level."""

    def __getstate__(self) -> dict[str, Any]:
        """A pickle holds the release as its document, and draws as a file of them."""
        state = dict(super().__getstate__())
        for name in RELEASES & state.keys():
            state[name] = None if state[name] is None else state[name].dumps()
        if "_later" in state:
            state["_later"] = state["_later"].packed()
        return state

    def __dir__(self) -> list[str]:
        """Names of what is there; a notebook looks all of them up, so what would be refused is left out."""
        refused = {"score"} if getattr(self, "scored_records", None) == "private" else set()
        late = {"posterior_", "components_"} if "release_" in vars(self) else set()  # drawn when they are looked up
        # scikit-learn's own, which looks up even more, would be refused itself.
        return [name for name in object.__dir__(self) if name not in refused and (name in late or hasattr(self, name))]

    def __sklearn_tags__(self) -> Tags:
        """No two fits are alike, whatever the random state; sparse records are read but where a subclass says so."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = tags.input_tags.sparse = True
        return tags

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """The inverse."""
        state = dict(state)
        for name in RELEASES & state.keys():
            state[name] = None if state[name] is None else Release.loads(state[name])
        if "_later" in state:
            state["_later"] = state["_later"].unpacked(state["release_"])
        super().__setstate__(state)


# -------------------------------------------------------------------------------------------------------- records


@dataclass(frozen=True, eq=False, repr=False)
class ArrayInput:
    """Arrays that `fit` was given: private but for the columns.

    Args:
        X: shape (records, features), perhaps sparse; of categories that were declared, their indicators.
        y: shape (records,), or None.
        names: of the features, where X has names; taken to be public, as is how many there are.
        columns: names of the columns, where X has names, and how many they are.
        declared: what the columns are, in their order, where some are categories.
        grouped: whether categories are in groups of the design.
    """

    X: Values
    y: Values | None
    names: tuple[str, ...] | None
    columns: tuple[tuple[str, ...] | None, int]
    declared: tuple[Variable, ...] | None
    grouped: bool = False

    target = None
    """Name of the column that y was in; y has none."""

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def rows(self, design: Design, columns: Positions, labels: Values | None, one_record_a_unit: bool) -> Rows:
        """The records on the grid of a design.

        Args:
            design: public.
            columns: position in X of each feature.
            labels: that y may hold, in the order of the design's classes; None where y is numbers, or not there.
            one_record_a_unit: the curator's word.

        Returns:
            The rows.

        Raises:
            InputError: a label that is none of these, or as `read_rows`.
        """
        y = self.y
        if labels is not None:
            states = np.array([str(label) for label in labels.tolist()])
            refusal = f"Unknown label type: y holds a label that is none of the declared classes: {listed(states)}"
            codes = codes_of(np.asarray(y), {label: code for code, label in enumerate(labels.tolist())}, refusal)
            y = states[codes]
        X = self.X if np.array_equal(columns, np.arange(self.width)) else self.X[:, columns]
        return read_rows(design, X, y, one_record_a_unit=one_record_a_unit)

    def describe(self, estimator: BaseEstimator) -> None:
        """Set what scikit-learn keeps of the columns, at the end of a fit: one that fails changes nothing."""
        names, estimator.n_features_in_ = self.columns
        if names is not None:
            estimator.feature_names_in_ = np.array(names, object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        estimator._mixed = self.declared


def read_given(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    *,
    target: str | None = None,
    table: str | None = None,
    numeric: bool = True,
    grouped: Callable[[tuple[Variable, ...]], bool] = lambda columns: False,
) -> ArrayInput | GivenTable:
    """What `fit` was given: arrays, checked as scikit-learn does, or a table.

    Args:
        estimator: to be fitted; it is not changed.
        X: array, list, pandas or Polars frame; shape (records, features). Or a table, as `is_table` has it; a frame is
            one, too, where a target is named.
        y: one value for each record; None for an estimator that needs none, and for a table.
        target: name of the table's column that is predicted.
        table: name of the table where X is the URL of a database.
        numeric: whether features must be numbers; X is then float64, with indicators where categories are declared.
        grouped: whether columns that were declared have their states in groups of the design.

    Returns:
        The records.

    Raises:
        InputError: they cannot be read, hold NaN or infinite numbers, or differ in length. No message has a value or a
            number of records.
    """
    if isinstance(X, KeptRecords):
        return X.among(read_given(estimator, X.X, X.y, numeric=numeric, grouped=grouped))  # type: ignore[no-any-return]
    supervised = get_tags(estimator).target_tags.required
    if isinstance(estimator, PrivateEstimator) and (target is not None or table is not None or is_table(X, y)):
        require_target(target, y, supervised=supervised)
        declared = declared_of(getattr(estimator, "features", None) or estimator.bounds, X, target)
        return GivenTable(X, table, target, declared, estimator.one_record_a_unit, grouped(declared))
    # scikit-learn notes the columns on the estimator that it reads for; that is left to `describe`.
    reader = type(estimator)(**estimator.get_params(deep=False))
    mixed = with_categories(getattr(estimator, "bounds", None)) if numeric else None
    dtype = np.float64 if numeric and mixed is None else None
    alone = y is None and not supervised
    taken = {"dtype": dtype, "accept_sparse": sparse_format(estimator, mixed)}
    read = _read_quietly(lambda: validate_data(reader, X, "no_validation" if alone else y, **taken), "X or y")
    names = tuple(reader.feature_names_in_) if hasattr(reader, "feature_names_in_") else None
    X, y = (read, None) if alone else read
    if isinstance(estimator, PrivateEstimator) and getattr(estimator, "scored_records", "private") == "private":
        refuse_standardised(X)
    given = ArrayInput(X, y, names, (names, X.shape[1]), None)
    return given if mixed is None else _put_indicators(given, mixed, grouped=grouped(mixed))


def _put_indicators(given: ArrayInput, declared: tuple[Variable, ...], *, grouped: bool) -> ArrayInput:
    """Put indicators in the place of categories, in the order of X's columns."""
    found = columns_of([variable.name for variable in declared], given, by_name=True)
    ordered = tuple(declared[position] for position in np.argsort(found))
    names = None if given.names is None else tuple(one.name for one in features_of(ordered, grouped=grouped))
    X = indicated(ordered, given.X, grouped=grouped)
    return replace(given, X=X, names=names, declared=ordered, grouped=grouped)


def read_features(estimator: BaseEstimator, X: Any, *, numeric: bool = True) -> Any:
    """Features alone, for `predict` and the like.

    Args:
        estimator: fitted.
        X: shape (records, features), with the columns of the fit.
        numeric: whether every column must hold numbers; X is then float64.

    Returns:
        The features; a sparse matrix by rows, where X is sparse, or indicators are in groups.

    Raises:
        InputError: as above, or other columns than those of the fit.
    """
    declared = getattr(estimator, "_mixed", None) if numeric else None
    dtype = np.float64 if numeric and declared is None else None
    taken = {"dtype": dtype, "accept_sparse": numeric and sparse_format(estimator, declared)}
    read = _read_quietly(lambda: validate_data(estimator, X, reset=False, **taken), "X")
    return read if declared is None else indicated(declared, read, grouped=bool(estimator.release_.design.groups))


def read_target(estimator: BaseEstimator, y: Any, records: int, *, numeric: bool) -> Values:
    """What features were recorded with, for a score.

    Args:
        estimator: fitted; it is not changed.
        y: one value for each record.
        records: how many there are.
        numeric: whether they must be numbers; y is then float64.

    Returns:
        Shape (records,).

    Raises:
        InputError: they cannot be read, are missing or infinite, or are more or fewer than the records. No message has
            a value or a number of records.
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
    """Names of features that have none.

    Example:
        >>> generated_names(3)
        ('x0', 'x1', 'x2')
    """
    return tuple(f"x{position}" for position in range(width))


def columns_of(names: Sequence[str], given: ArrayInput | GivenTable, *, by_name: bool) -> Positions:
    """Position in X of each declared feature.

    Args:
        names: of the features.
        given: records.
        by_name: whether the names were declared; they then count wherever X has names, too.

    Returns:
        Positions, shape (features,).

    Raises:
        InputError: another number of columns, or a frame without a declared feature. The columns' own names are not
            shown: in a file without a header they are the values of a record.
    """
    if len(names) != given.width:
        raise InputError(f"{len(names)} features were declared, but X has {given.width} columns")
    if not by_name or given.names is None:
        return np.arange(len(names))
    missing = [name for name in names if name not in given.names]
    if missing:
        raise InputError(f"X has no column {', '.join(map(repr, missing[:8]))}; its columns are the declared features")
    return np.array([given.names.index(name) for name in names])


def class_labels(classes: Any) -> Values:
    """The classes that were declared, in the order of scikit-learn's `classes_`.

    Args:
        classes: distinct labels of one type: whole numbers, text or logical values.

    Returns:
        The labels, sorted.

    Raises:
        InputError: none, labels of several types, repeated or continuous ones.

    Example:
        >>> class_labels(["well", "ill"]).tolist()
        ['ill', 'well']
    """
    if classes is None or isinstance(classes, str):
        raise InputError("fit needs classes=(...): the labels that y may hold are declared, never read off the records")
    listed = list(classes)
    labels = _read_quietly(lambda: np.array(listed), "classes")
    textual = {isinstance(label, str) for label in listed}
    if labels.ndim != 1 or labels.dtype.kind not in "biufU" or len(textual) != 1:
        raise InputError("classes are a list of labels, all text or all numbers")
    if labels.dtype.kind == "f" and not np.all(labels == np.floor(labels)):
        raise InputError("Unknown label type: continuous; the classes of a classifier are names or whole numbers")
    distinct: Values = np.unique(labels)
    if distinct.size < labels.size:
        raise InputError("a class is declared twice")
    return distinct


def _read_quietly(read: Callable[[], T], name: str) -> T:
    """Call `read`, under a name; the text of a foreign exception may quote a record and is not shown."""
    try:
        # A warning of an overflow in a sum would be a word about records.
        with np.errstate(all="ignore"):
            return read()
    except (InputError, Warning):
        raise
    except Exception as error:
        kind: type[InputError] = InputTypeError if isinstance(error, TypeError) else InputError
        said = _translate_message(str(error), name)
    # Raised outside the handler: an exception raised inside would carry the other one as its context.
    raise kind(said)


def _translate_message(message: str, name: str) -> str:
    """Translate a message of scikit-learn into what may be shown of it."""
    for pattern in SHOWN_MESSAGES:
        if found := re.match(pattern, message):
            return found.group().removesuffix(".")
    for pattern, said in REPLACED_MESSAGES:
        if re.match(pattern, message):
            return said.format(name=name)
    return f"{name} cannot be read; the message of the reader may quote a record and is not shown"
