"""How commands read records: the options that say so, and the one way from them to `read_records`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

import discreet as dc
from discreet.errors import InputError

if TYPE_CHECKING:
    from discreet.sensitive.records import Faults

__all__ = [
    "Data", "MaxRecords", "MayBeMissing", "Missing", "NaValues", "OneRecord", "OutOfBounds", "Reading", "TableName",
    "UnitColumn", "Weights", "source_of", "with_gaps", "words_in",
]  # fmt: skip

Data = Annotated[str, typer.Argument(help="Parquet or CSV file, glob, or database URL; - reads CSV from stdin.")]
TableName = Annotated[str | None, typer.Option("--table", help="Table, where DATA is a database URL.")]
Missing = Annotated[str, typer.Option(help="Missing values: error, drop their records, or keep them as a state.")]
MayBeMissing = Annotated[
    list[str] | None,
    typer.Option(
        help="For --missing keep: variables that get a state of missing values, 'a,b'; repeatable. All without it, if "
        "none has one. Never look them up in the records."
    ),
]
NaValues = Annotated[
    list[str] | None,
    typer.Option("--na-values", help='Words for a missing value, such as "?,NA"; repeatable.'),
]
UnitColumn = Annotated[
    str | None,
    typer.Option(
        help="Column that tells apart what the account protects, such as patients, where one may have several records: "
        "random ones of each are kept."
    ),
]
MaxRecords = Annotated[int, typer.Option(help="Records of each unit that are kept at most.")]
Weights = Annotated[
    str, typer.Option(help="record: each record counts once, at its part of epsilon; unit: each unit counts once.")
]
OneRecord = Annotated[
    bool, typer.Option("--one-record-a-unit", help="Your word that no unit has more than one record; releases say so.")
]
OutOfBounds = Annotated[str, typer.Option(help="Numbers outside their public bounds: error, or clip them.")]


@dataclass(frozen=True)
class Reading:
    """How records are read: the options of `read_records`, as a command line gives them."""

    table: str | None
    na_values: list[str] | None
    missing: str
    out_of_bounds: str
    unit_column: str | None
    max_records: int = 1
    weights: str = "record"
    one_record_a_unit: bool = False

    def records(self, data: str, schema: dc.Schema) -> dc.Records:
        """The private table."""
        return dc.read_records(source_of(data), schema, **{**vars(self), "na_values": words_in(self.na_values)})

    def blocks(self, faults: Faults) -> bool:
        """Whether what was found in a column stands against a release."""
        absent = faults.missing and self.missing != "drop"
        return bool(faults.unknown or absent or (faults.out_of_bounds and self.out_of_bounds == "error"))

    def affordable(
        self,
        chosen: dc.Mechanism[Any, Any, Any, Any],
        believed: dc.Dirichlet | dc.Normal,
        promise: dc.Guarantee,
        payer: dc.Account,
    ) -> None:
        """Refuse what could not be released, whatever the records are, before they are read."""
        from discreet.mechanisms.crossing import calibrate
        from discreet.releases.policy import RecordsPolicy

        words = {name: word for name, word in vars(self).items() if name not in ("table", "na_values")}
        policy = RecordsPolicy(**words)
        policy.check_claim(promise)
        calibrate(chosen, believed, promise, policy)
        payer.check(promise)


def with_gaps(structure: dc.Network | dc.Design, missing: str, named: list[str] | None) -> dc.Network | dc.Design:
    """The public structure with a state of missing values where they are kept."""
    if missing != "keep":
        if named:
            raise InputError("--may-be-missing is for --missing keep")
        return structure
    if isinstance(structure, dc.Design):
        raise InputError("a design has no state of missing values; --missing keep is for networks")
    return structure if structure.may_be_missing and not named else structure.with_missing(words_in(named) or None)


def source_of(data: str) -> Any:
    """What `read_records` takes for a DATA argument."""
    return sys.stdin.buffer if data == "-" else data


def words_in(given: list[str] | None) -> list[str]:
    """The words of an option that commas separate."""
    return [word for part in given or [] for word in part.split(",")]
