"""Tables: records that a fit reads in place, a block at a time, instead of arrays in memory.

A table is read through `read_records`, so a fit accepts the same sources, with the same errors for values that are
missing, unknown or out of bounds. Columns are found by their declared names; others are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator

from discreet.designs.design import Design
from discreet.designs.indicators import features_of, gap_of
from discreet.designs.records.rows import BLOCK, GAP, Rows, read_blocks, read_rows
from discreet.errors import InputError, listed, require, shown
from discreet.estimators.columns import EXAMPLE, declared_columns, mixed
from discreet.estimators.options import InputTypeError
from discreet.formats.project_file import Project
from discreet.model.schema import Schema, Variable
from discreet.records.records import Records, kept, read_records
from discreet.records.sources import arrow, open_source
from discreet.util.arrays import Floats, Positions
from discreet.util.option_texts import MissingValues

READERS = ("ibis", "pyarrow", "pyspark")
"""Packages whose tables are read in place and not as arrays. Frames of other packages are, if a target is named."""


def named_values(variable: Variable, values: Floats) -> npt.NDArray[Any]:
    """Name the states of codes, and put None for gaps of numbers; refuse what a fit would.

    Raises:
        InputError: a value is missing, or is no state or number.
    """
    if np.isnan(values).any() or (not variable.numeric and (values < 0).any()):
        raise InputError(
            f"records hold a missing value, an unknown state or no number in column {shown(variable.name)}"
        )
    if not variable.numeric:
        return np.array(variable.states, object)[values.astype(np.intp)]
    return np.where(values == GAP, np.array(None), values) if gap_of(variable) else values


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


@dataclass(frozen=True, eq=False, repr=False)
class FitSource:
    """Arguments of `fit` that say where records are; the records are private, and all names are public.

    Args:
        X, y, target, table, features: as of `fit`; the table of a project file is `Records`.
    """

    X: Any
    y: Any = None
    target: str | None = None
    table: str | None = None
    features: Sequence[str] | None = None

    @property
    def of_table(self) -> bool:
        """True if the records are those of a table."""
        return self.target is not None or self.table is not None or is_table(self.X, self.y)

    @property
    def schema(self) -> Mapping[str, Variable]:
        """Public variables by name that stand for what the constructor does not declare; none but of `Records`."""
        return {each.name: each for each in self.X.schema} if isinstance(self.X, Records) else {}

    def of_project(self, project: Project | None) -> FitSource:
        """Open the records of a project file, with its variables, its words on reading, and its unit.

        Args:
            project: None if nothing is declared in a file.

        Returns:
            `Records` of the wanted columns, of X or of the project's own source; this source itself without a project.

        Raises:
            InputError: there are no records, an unknown name, or as `read_records`.
        """
        if project is None:
            return self
        schema, source = project.network.schema, project.source if self.X is None else self.X
        require(source is not None, "the project file has no address of the records: fit(table, project=...)")
        require(self.y is None, "a project file names the target among its columns: target=, and no y")
        unknown = [name for name in (self.target, *(self.features or ())) if name is not None and name not in schema]
        require(not unknown, f"the project file has no variable {listed(map(shown, unknown))}")
        names = schema.names if self.features is None else (*self.features, *[self.target or ()][:1])
        wanted = schema.with_conditions(dict.fromkeys(name for name in names if name))
        options: dict[str, Any] = {"out_of_bounds": "clip", **project.reading}
        if self.table is not None or self.X is not None:
            options["table"] = self.table
        return replace(
            self, X=read_records(source, Schema(tuple(map(schema.__getitem__, wanted))), **options), table=None
        )

    def require_target(self, *, supervised: bool) -> None:
        """Refuse a table whose target is not named, or is named for an estimator that predicts nothing.

        Args:
            supervised: whether the estimator predicts a target.

        Raises:
            InputError: the message shows the argument to write.
        """
        if supervised and (self.target is None or self.y is not None):
            raise InputError("a table has its target as a column: name it, as in fit('visits/*.parquet', target='ill')")
        if self.target is not None and not supervised:
            raise InputTypeError("fit takes X and y, and nothing else: this estimator predicts nothing, no target=")

    def adapted(self, adapt: Callable[[Variable], Variable]) -> FitSource:
        """Read the variables of `Records` as an estimator needs them, without states for gaps that are not kept.

        Args:
            adapt: makes of a public variable the one that is read, such as without its bins.

        Returns:
            This source, with `Records` of these variables; other sources have none.
        """
        if not isinstance(self.X, Records):
            return self

        def adapt_gaps(variable: Variable) -> Variable:
            if variable.missing is not None and self.X.policy.missing != "keep":
                variable = replace(variable, missing=None, states=variable.complete if variable.states else ())
            return adapt(variable)

        return replace(self, X=replace(self.X, schema=Schema(tuple(map(adapt_gaps, self.X.schema)))))

    def columns(self, declared: Any) -> tuple[Variable, ...]:
        """List the columns of a table's features, which are declared by name.

        Args:
            declared: variables, or bounds of the constructor. The public schema of `Records` replaces missing bounds.

        Returns:
            Variables.

        Raises:
            InputError: no declaration, or one without names; or the target is among the features.
        """
        if declared is None and isinstance(self.X, Records):
            names = [name for name in self.schema if name != self.target] if self.features is None else self.features
            unknown = [name for name in names if name not in self.schema]
            require(not unknown, f"the records have no declared column {listed(map(shown, unknown))}")
            columns = tuple(self.schema[name] for name in names)
        elif self.features is not None:
            raise InputError("features= names columns of a project file or of Records, where no bounds are declared")
        elif isinstance(declared, list | tuple) and all(isinstance(entry, Variable) for entry in declared):
            columns = tuple(declared)
        elif isinstance(declared, Mapping):
            columns = declared_columns(declared)
        else:
            raise InputError(
                f"a table needs columns declared by name, such as {EXAMPLE}; its other columns are not read"
            )
        if any(variable.name == self.target for variable in columns):
            raise InputError(
                f"column {shown(self.target)} is the target, and cannot be a feature; take it out of the features"
            )
        return columns

    @property
    def target_column(self) -> Variable | None:
        """The target among the public variables of `Records`; None if it is not there.

        Raises:
            InputError: numbers to predict may have gaps that are kept.
        """
        column = self.schema.get(self.target or "")
        if column is not None and gap_of(column) is not None:
            raise InputError(f"column {shown(column.name)} has gaps and is predicted: declare missing = 'drop'")
        return column


@dataclass(frozen=True, eq=False, repr=False)
class MaskedInput:
    """Records in memory with a mask; a fit uses those inside. All are checked, so refusals do not depend on the mask.

    Args:
        X: features of all records.
        y: labels or targets of all records.
        mask: True for each record that the fit uses, perhaps none, shape (records,); None for all.
        source: of a table, the fit's own view of the same records.
    """

    X: Any
    y: Any
    mask: Any = None
    source: FitSource | None = None

    @staticmethod
    def of_table(source: FitSource, columns: tuple[Variable, ...], target: Variable) -> MaskedInput:
        """Read a table into memory once, for many fits.

        Args:
            source: a table, or `Records`.
            columns: of the features.
            target: column to predict.

        Returns:
            Its records: numbers as float64, and states by their names.

        Raises:
            InputError: several records of a unit are kept, which a search does not cover; or as `read_rows`.
        """
        wanted = Schema((*columns, target))
        records = TableInput(source, columns, False).records(columns, target)
        if records.policy.max_records > 1:
            raise InputError("a search takes one record of each unit: max_records = 1")
        table = arrow(kept(records, wanted).table)
        expression, bytewise, _ = open_source(table, None)
        records = replace(records, table=expression, bytewise=bytewise, unit=None, local=None, source=None)
        blocks = list(read_blocks(records, wanted, BLOCK)())
        values = [np.concatenate([block[at] for block in blocks]) for at in range(len(wanted))]
        *features, last = map(named_values, wanted, values)
        X = np.array(features, object if any(each.dtype == object for each in features) else np.float64).T
        return MaskedInput(X, last, source=replace(source, X=replace(records, source=expression), table=None))

    def select(self, inputs: Any) -> Any:
        """Select the records of the mask from inputs that hold all records."""
        return replace(inputs, X=inputs.X[self.mask], y=inputs.y[self.mask])

    def fit(self, estimator: Any) -> Any:
        """Fit an estimator to the records of the mask."""
        if self.source is None:
            return estimator.fit(self.X, self.y) if self.mask is None else estimator.fit(self)
        records, columns = self.source.X, {"target": self.source.target, "features": self.source.features}
        if self.mask is not None:
            table = arrow(records.table).filter(pa.array(self.mask))
            records = replace(records, table=open_source(table, None)[0])
        return estimator.fit(records, **columns)


@dataclass(frozen=True, eq=False, repr=False)
class TableInput:
    """Table passed to `fit`: private but for the columns.

    Args:
        source: of the records.
        columns: of the features, as declared.
        one_record_a_unit: declared by the curator, if the source is no `Records`.
        grouped: whether states are in groups of the design.
        target_column: target as declared, if designs have other bounds for it.
    """

    source: FitSource
    columns: tuple[Variable, ...]
    one_record_a_unit: bool
    grouped: bool = False
    target_column: Variable | None = None

    @property
    def target(self) -> str | None:
        """Name of the column to predict, or None."""
        return self.source.target

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
        wanted, source = (*columns, *([] if target is None else [target])), self.source
        if isinstance(source.X, Records):
            require(source.table is None, "Records already name their table: leave out table=")
            return source.X
        gaps: MissingValues = "keep" if any(each.missing is not None for each in wanted) else "error"
        options: Any = {"missing": gaps, "out_of_bounds": "clip", "one_record_a_unit": self.one_record_a_unit}
        return read_records(source.X, Schema(wanted), table=source.table, **options)

    def rows(
        self, design: Design, columns: Positions, labels: npt.NDArray[Any] | None, one_record_a_unit: bool
    ) -> Rows:
        """Round the records to the grid of a design over all columns; the last three arguments are not used.

        Raises:
            InputError: as `read_rows`.
        """
        target = self.source.target_column or self.target_column or design.target
        return read_rows(design, self.records(self.columns, target), columns=self.columns, target_column=target)

    def describe(self, estimator: BaseEstimator) -> None:
        """Set scikit-learn's attributes of the columns, at the end of a fit."""
        estimator.n_features_in_ = len(self.columns)
        estimator.feature_names_in_ = np.array([variable.name for variable in self.columns], object)
        estimator._mixed = mixed(self.columns)
