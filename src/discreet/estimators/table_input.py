"""Tables: records that a fit reads in place, a block at a time, instead of arrays in memory.

A table is read through `read_records`, so a fit accepts the same sources, with the same errors for values that are
missing, unknown or out of bounds. Columns are found by their declared names; others are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from discreet.designs.design import Design
from discreet.designs.indicators import features_of
from discreet.designs.records.rows import Rows, read_rows
from discreet.errors import InputError, shown
from discreet.estimators.columns import EXAMPLE, declared_columns
from discreet.model.schema import Schema, Variable
from discreet.records.records import Records, read_records
from discreet.util.arrays import Positions

READERS = ("ibis", "pyarrow", "pyspark")
"""Packages whose tables are read in place and not as arrays. Frames of other packages are, if a target is named."""


def is_table(X: Any, y: Any) -> bool:
    """True if records are read as a table.

    Args:
        X: argument of `fit`. A path, a glob, a URL and `Records` are tables. Without y, so are open files and objects
            of `READERS`.
        y: argument of `fit`.
    """
    if isinstance(X, str | Path | Records):
        return True
    return y is None and (hasattr(X, "read") or type(X).__module__.split(".")[0] in READERS)


def require_target(target: str | None, y: Any, *, supervised: bool) -> None:
    """Refuse a table whose target is not named, or is named for an estimator that predicts nothing.

    Args:
        target: name of the column to predict, or None.
        y: argument of `fit`.
        supervised: whether the estimator predicts a target.

    Raises:
        InputError: the message shows the argument to write.
    """
    if supervised and (target is None or y is not None):
        raise InputError("a table has its target as a column: name it, as in fit('visits/*.parquet', target='ill')")
    if not supervised and target is not None:
        raise InputError("this estimator predicts nothing: leave out target=")


def declared_of(declared: Any, X: Any, target: str | None) -> tuple[Variable, ...]:
    """List the columns of a table's features, which are declared by name.

    Args:
        declared: variables, or bounds of the constructor.
        X: table. The schema of `Records` is public, and replaces missing bounds.
        target: name of the column to predict, or None.

    Returns:
        Variables.

    Raises:
        InputError: no declaration, or one without names; or the target is among the features.
    """
    if declared is None and isinstance(X, Records):
        return tuple(variable for variable in X.schema if variable.name != target)
    if isinstance(declared, list | tuple) and all(isinstance(entry, Variable) for entry in declared):
        columns = tuple(declared)
    elif isinstance(declared, Mapping):
        columns = declared_columns(declared)
    else:
        raise InputError(f"a table needs columns declared by name, such as {EXAMPLE}; its other columns are not read")
    if any(variable.name == target for variable in columns):
        raise InputError(f"column {shown(target)} is the target, and cannot be a feature; take it out of the features")
    return columns


@dataclass(frozen=True, eq=False, repr=False)
class MaskedInput:
    """Records in memory with a mask; a fit uses those inside. All are checked, so refusals do not depend on the mask.

    Args:
        X: features of all records.
        y: labels or targets of all records.
        mask: True for each record that the fit uses, perhaps none, shape (records,).
    """

    X: Any
    y: Any
    mask: npt.NDArray[np.bool_]

    def select(self, inputs: Any) -> Any:
        """Select the records of the mask from inputs that hold all records."""
        return replace(inputs, X=inputs.X[self.mask], y=inputs.y[self.mask])


@dataclass(frozen=True, eq=False, repr=False)
class TableInput:
    """Table passed to `fit`: private but for the columns.

    Args:
        source: as `read_records` takes it, or `Records`.
        table: its name, if the source is a database.
        target: name of the column to predict, or None.
        columns: of the features, as declared.
        one_record_a_unit: declared by the curator, if the source is no `Records`.
        grouped: whether states are in groups of the design.
        target_column: target as declared, if designs have other bounds for it.
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
        """Open a view of the table; only names and types are read yet.

        Args:
            columns: of the features, with cut points if they are counted.
            target: variable to predict.

        Returns:
            The records.

        Raises:
            InputError: as `read_records`.
        """
        schema = Schema((*columns, *([] if target is None else [target])))
        if isinstance(self.source, Records):
            if self.table is not None:
                raise InputError("Records already name their table: leave out table=")
            return _put_in_order(self.source, target)
        return read_records(
            self.source, schema, table=self.table, out_of_bounds="clip", one_record_a_unit=self.one_record_a_unit
        )

    def rows(
        self, design: Design, columns: Positions, labels: npt.NDArray[Any] | None, one_record_a_unit: bool
    ) -> Rows:
        """Round the records to the grid of a design over all columns; the last three arguments are not used.

        Raises:
            InputError: as `read_rows`.
        """
        target = self.target_column or design.target
        return read_rows(design, self.records(self.columns, target), columns=self.columns, target_column=target)

    def describe(self, estimator: BaseEstimator) -> None:
        """Set scikit-learn's attributes of the columns, at the end of a fit."""
        estimator.n_features_in_ = len(self.columns)
        estimator.feature_names_in_ = np.array([variable.name for variable in self.columns], object)
        estimator._mixed = None if all(variable.numeric for variable in self.columns) else self.columns


def _put_in_order(records: Records, target: Variable | None) -> Records:
    """Put the target's states into the order of the estimator's classes."""
    names = records.schema.names
    if target is None or target.name not in names:
        return records
    column = records.schema[target.name]
    if column.numeric or column.missing is not None or sorted(column.states) != sorted(target.states):
        return records
    schema = Schema(tuple(target if variable.name == target.name else variable for variable in records.schema))
    return replace(records, schema=schema)
