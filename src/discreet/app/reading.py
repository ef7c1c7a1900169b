"""How commands read records: the options that say so, and the one way from them to `read_records`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

import discreet as dc

if TYPE_CHECKING:
    from discreet.sensitive.records import Faults

__all__ = [
    "Data", "MaxRecords", "Missing", "NaValues", "OneRecord", "OutOfBounds", "Reading", "TableName", "UnitColumn",
    "Weights", "source_of", "words_in",
]  # fmt: skip

Data = Annotated[str, typer.Argument(help="Parquet or CSV file, glob, or database URL; - reads CSV from stdin.")]
TableName = Annotated[str | None, typer.Option("--table", help="Table, where DATA is a database URL.")]
Missing = Annotated[str, typer.Option(help="Records with a missing value: error, or drop them.")]
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
        absent = faults.missing and self.missing == "error"
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


def source_of(data: str) -> Any:
    """What `read_records` takes for a DATA argument."""
    return sys.stdin.buffer if data == "-" else data


def words_in(given: list[str] | None) -> list[str]:
    """The words of an option that commas separate."""
    return [word for part in given or [] for word in part.split(",")]
