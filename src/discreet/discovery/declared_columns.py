"""Columns that are declared by name and type alone, and their part of a release document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

from discreet.display.text_tables import with_noun
from discreet.errors import InputError, require, require_word, shown
from discreet.model.over import Over, Prior
from discreet.model.schema import LARGEST_WHOLE, Schema, Variable
from discreet.releases.codec import DocumentPart, Items
from discreet.releases.release_head import Domain, ReleaseHead
from discreet.util.limits import VARIABLES, at_most, check_name, first_repeated

NumericType = Literal["integer", "number"]
"""Types of columns whose bounds and bins are found."""
SearchedType = Literal["text", "unknown"]
"""Types of columns whose states may be found; of others they are public, or there are none."""
ColumnType = Literal[SearchedType, NumericType, "boolean"]
"""Types of columns; that of "unknown" is found, too."""
NUMERIC, SEARCHED = get_args(NumericType), get_args(SearchedType)
LARGEST_NUMBER = 2.0**960
"""Largest bound of a number, some 1e289: near the largest ones of 64 bits, so that no difference or slope overflows."""
ID_NAME = re.compile(r"(?i:(^|[_.\s-])(id|key|uuid|guid|no|nr|number|code)$)|(?<=[a-z])(Id|ID|Key|Nr)$")
"""Names of columns that often tell units apart: `patientId`, but not `paid`."""
SECRET_SOURCE = re.compile(r"^-$|://[^/]*:[^/]*@|password=", re.IGNORECASE)
"""Addresses that are no part of a file that is handed on: stdin, and those with a password."""
NO_POSTERIOR = "a domain has no posterior: release over it, with its project file or as --network, and read that"
"""Advice to those who ask a release of a domain."""
TYPE_BOUNDS = {"integer": (1 - LARGEST_WHOLE, LARGEST_WHOLE - 1), "number": (-LARGEST_NUMBER, LARGEST_NUMBER)}
"""Ranges of the types of numbers: no bound of a column is guessed nearer."""


@dataclass(frozen=True)
class NamedColumn:
    """A column by name and type.

    Args:
        name: of the column.
        type: of its values; "unknown" lets the release find it.

    Raises:
        InputError: an empty or too long name, or another type.

    Example:
        >>> import discreet as dc
        >>> dc.discovery.NamedColumn("age", "integer")
        NamedColumn(name='age', type='integer')
    """

    name: str
    type: ColumnType = "unknown"

    def __post_init__(self) -> None:
        """Refuse an invalid column."""
        require(isinstance(self.name, str) and bool(self.name), "a column needs a name that is not empty")
        check_name(self.name, "the column")
        require_word(self.type, ColumnType, f"the type of column {shown(self.name)} is")


@dataclass(frozen=True)
class Columns(Over):
    """Columns of a table by name and type: all that is public before their domain is found.

    Args:
        columns: at least one, each name once.

    Raises:
        InputError: no column, a repeated name, or too many.

    Example:
        >>> import discreet as dc
        >>> sex, age = dc.discovery.NamedColumn("sex", "text"), dc.discovery.NamedColumn("age", "integer")
        >>> visits = dc.discovery.Columns((sex, age))
        >>> visits.names, visits.schema["age"].bounds[1] > 1e15
        (('sex', 'age'), True)
    """

    domain: ClassVar[str] = "columns"
    columns: tuple[NamedColumn, ...]

    def __post_init__(self) -> None:
        """Normalise, then refuse invalid columns."""
        object.__setattr__(self, "columns", tuple(self.columns))
        require(bool(self.columns), "name at least one column")
        at_most(VARIABLES, self.columns, "columns")
        if len({*self.names}) < len(self.names):
            raise InputError(f"column {shown(first_repeated(self.names))} is declared twice")

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def schema(self) -> Schema:
        """Columns as variables: numbers have the bounds of their type, and text has one state for any value."""
        return Schema(tuple(map(_widest, self.columns)))

    @property
    def size(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def words(self) -> str:
        """See `Over`."""
        return "columns"

    @property
    def instead(self) -> str:
        """See `Over`."""
        return f"columns, not a network: {NO_POSTERIOR}"

    def __iter__(self) -> Iterator[NamedColumn]:
        return iter(self.columns)


def _widest(column: NamedColumn) -> Variable:
    """Make the variable of a column of which nothing but its type is known."""
    if column.type in TYPE_BOUNDS:
        kind = "integer" if column.type == "integer" else "real"
        return Variable(column.name, bounds=TYPE_BOUNDS[column.type], type=kind)
    return Variable(column.name, ("false", "true") if column.type == "boolean" else ("any value",))


@dataclass(frozen=True)
class NoPrior(Prior):
    """The prior of a release of a domain: there is none.

    Args:
        columns: that the release is over.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> visits = dc.discovery.Columns((dc.discovery.NamedColumn("sex", "text"),))
        >>> dc.discovery.NoPrior(visits).over == visits
        True
    """

    columns: Columns

    @property
    def over(self) -> Columns:
        """See `Prior`."""
        return self.columns


class _NamedColumnPart(DocumentPart):
    name: str
    type: ColumnType


class _NoPriorPart(DocumentPart):
    """Nothing."""


class ColumnsHead(ReleaseHead):
    """A release over columns that are declared by name and type."""

    columns: Items[_NamedColumnPart]
    prior: _NoPriorPart

    def read_prior(self, cells: int) -> NoPrior:
        """See `ReleaseHead`."""
        return NoPrior(Columns(tuple(NamedColumn(part.name, part.type) for part in self.columns)))


def _write_columns(prior: NoPrior) -> dict[str, Any]:
    """Write columns to a document."""
    return {"columns": [{"name": column.name, "type": column.type} for column in prior.columns], "prior": {}}


def _describe(columns: Columns) -> str:
    """Describe columns for the facts of a release."""
    return f"{with_noun(len(columns.columns), 'column')} declared by name and type"


DOMAINS = (Domain(ColumnsHead, _write_columns, _describe, "discreet.discovery.made_up_columns:MADE_UP"),)
"""Domain of the pack's releases: what they are over."""
