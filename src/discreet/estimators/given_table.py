"""Tables: records that a fit reads where they are, a block at a time, instead of arrays in memory.

A table is read through `read_records`, so a fit takes whatever that takes, and what is missing, unknown or out of
bounds is told in the same words. Columns are found by their declared names; others are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from discreet.errors import InputError, shown
from discreet.estimators.columns import EXAMPLE, declared_columns
from discreet.model.design import Design
from discreet.model.indicators import features_of
from discreet.model.schema import Schema, Variable
from discreet.records.records import Records, read_records
from discreet.records.rows import Rows, read_rows

READERS = ("ibis", "pyarrow", "pyspark")
"""Packages whose tables are read where they are, and not as arrays; frames of others are, where a target is named."""


def is_table(X: Any, y: Any) -> bool:
    """Whether records are a table by themselves.

    Args:
        X: what `fit` was given; a path, a glob, a URL and `Records` are tables, and so are open files and what one of
            `READERS` made, unless y is given beside them.
        y: what `fit` was given.
    """
    if isinstance(X, str | Path | Records):
        return True
    return y is None and (hasattr(X, "read") or type(X).__module__.split(".")[0] in READERS)


def require_target(target: str | None, y: Any, *, supervised: bool) -> None:
    """Refuse a table whose target is not named, or named for nothing.

    Args:
        target: name of its column that is predicted, or None.
        y: what `fit` was given beside it.
        supervised: whether the estimator predicts anything.

    Raises:
        InputError: the message says what to write.
    """
    if supervised and (target is None or y is not None):
        raise InputError("a table has its target as a column: name it, as in fit('visits/*.parquet', target='ill')")
    if not supervised and target is not None:
        raise InputError("this estimator predicts nothing: leave out target=")


def declared_of(declared: Any, X: Any, target: str | None) -> tuple[Variable, ...]:
    """The columns of a table's features, which are declared by their names.

    Args:
        declared: variables, or bounds of the constructor.
        X: the table. The schema of `Records` is public, and stands for bounds where there are none.
        target: name of the column that is predicted, or None.

    Returns:
        Variables.

    Raises:
        InputError: they are declared by nothing, or without names; or the target is among them.
    """
    if declared is None and isinstance(X, Records):
        return tuple(variable for variable in X.schema if variable.name != target)
    if isinstance(declared, list | tuple) and all(isinstance(one, Variable) for one in declared):
        columns = tuple(declared)
    elif isinstance(declared, Mapping):
        columns = declared_columns(declared)
    else:
        raise InputError(f"a table needs its columns declared by name, such as {EXAMPLE}; all others are left alone")
    if any(variable.name == target for variable in columns):
        raise InputError(f"column {shown(target)} is the target, and cannot be a feature; take it out of the features")
    return columns


@dataclass(frozen=True, eq=False, repr=False)
class KeptRecords:
    """Records in memory of which a fit keeps some, perhaps none; all are checked, so no refusal hangs on which.

    Args:
        X: features of all records.
        y: their labels or targets.
        kept: of each record, whether it is kept.
    """

    X: Any
    y: Any
    kept: npt.NDArray[np.bool_]

    def among(self, given: Any) -> Any:
        """Those that are kept, of all as they were read."""
        return replace(given, X=given.X[self.kept], y=given.y[self.kept])


@dataclass(frozen=True, eq=False, repr=False)
class GivenTable:
    """A table that `fit` was given: private but for the columns.

    Args:
        source: as `read_records` takes it, or `Records`.
        table: its name, where the source is a database.
        target: name of the column that is predicted, or None.
        columns: of the features, as they were declared.
        one_record_a_unit: the curator's word, where the source is no `Records`.
        grouped: whether states are in groups of the design.
        target_column: the target as it was declared, where designs have other bounds of it.
    """

    source: Any
    table: str | None
    target: str | None
    columns: tuple[Variable, ...]
    one_record_a_unit: bool
    grouped: bool = False
    target_column: Variable | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features of a design."""
        return tuple(variable.name for variable in features_of(self.columns, grouped=self.grouped))

    @property
    def width(self) -> int:
        """Number of these features."""
        return len(self.names)

    def records(self, columns: tuple[Variable, ...], target: Variable | None) -> Records:
        """A view of the table; nothing but names and types is read yet.

        Args:
            columns: of the features, with cut points where they are counted.
            target: what is predicted.

        Returns:
            The records.

        Raises:
            InputError: as `read_records`.
        """
        schema = Schema((*columns, *([] if target is None else [target])))
        if isinstance(self.source, Records):
            if self.table is not None:
                raise InputError("records are of a table already: leave out table=")
            return _put_in_order(self.source, target)
        return read_records(
            self.source, schema, table=self.table, out_of_bounds="clip", one_record_a_unit=self.one_record_a_unit
        )

    def rows(
        self, design: Design, columns: npt.NDArray[np.intp], labels: npt.NDArray[Any] | None, one_record_a_unit: bool
    ) -> Rows:
        """The records on the grid of a design over all columns; the last three say nothing that is not known here.

        Raises:
            InputError: as `read_rows`.
        """
        target = self.target_column or design.target
        return read_rows(design, self.records(self.columns, target), columns=self.columns, target_column=target)

    def describe(self, estimator: BaseEstimator) -> None:
        """Set what scikit-learn keeps of the columns, at the end of a fit."""
        estimator.n_features_in_ = len(self.columns)
        estimator.feature_names_in_ = np.array([variable.name for variable in self.columns], object)
        estimator._mixed = None if all(variable.numeric for variable in self.columns) else self.columns


def _put_in_order(records: Records, target: Variable | None) -> Records:
    """Put the states of their target in the order of the estimator's classes."""
    names = records.schema.names
    if target is None or target.name not in names:
        return records
    own = records.schema[target.name]
    if own.numeric or own.missing is not None or sorted(own.states) != sorted(target.states):
        return records
    schema = Schema(tuple(target if variable.name == target.name else variable for variable in records.schema))
    return replace(records, schema=schema)
