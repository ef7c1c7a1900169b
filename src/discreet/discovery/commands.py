"""Commands of the pack: find the domain of a table, and all steps from a table to first answers.

Nothing that reads records is loaded before a command runs: `discreet serve` loads this list, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.util.lazy_imports import lazy_import
from discreet.util.option_texts import MissingValues, Weights

tasks = lazy_import("discreet.discovery.domain_task")
quick = lazy_import("discreet.discovery.first_answers")

in_model, in_budget, in_records, in_output = (
    partial(typer.Option, rich_help_panel=heading) for heading in ("Model", "Privacy budget", "Records", "Output")
)
"""Options under the headings of the help text."""

Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Private records: a Parquet, CSV or Excel file, a glob, a database URL or @name; or a project file "
        "(.toml) whose variables have a name and a type alone, as `init` drafts it.",
    ),
]
Epsilon = Annotated[str, in_budget(metavar="NUMBER", help="Epsilon that this command spends, as decimal text.")]
Delta = Annotated[
    str,
    in_budget(
        metavar="NUMBER",
        help="Probability that a value that one record alone has becomes a state; 0 finds no states of text.",
    ),
]
Account = Annotated[
    str | None, in_budget(metavar="NAME", help="Account that pays. It fixes the relation and the unit.")
]
LedgerUrl = Annotated[str | None, in_budget("--ledger", metavar="URL", help="Database of the ledger, or @name of one.")]
Purpose = Annotated[
    str, in_budget(metavar="TEXT", help="Purpose of the release; an account may have limits by purpose.")
]
Request = Annotated[str, in_budget(metavar="KEY", help="Key of this request. A repeated request is charged only once.")]
Unit = Annotated[str, in_budget(metavar="TEXT", help="Protected unit, such as patient.")]
Types = Annotated[
    list[str] | None,
    in_model(
        "--type",
        metavar="NAME=TYPE",
        help="Type of a column: text, integer, number or boolean; repeatable. Columns of a text file without one have "
        "it found, for a fifth of their budget.",
    ),
]
LeaveOut = Annotated[
    list[str] | None,
    in_model("--leave-out", metavar="NAMES", help="Columns that are not wanted, such as 'a,b'; repeatable."),
]
Bins = Annotated[int, in_model(help="Most bins of a numeric column.", min=2, max=32)]
TableName = Annotated[
    str | None,
    in_records("--table", metavar="NAME", help="Table to read, if TABLE is a database URL, or sheet of a workbook."),
]
Missing = Annotated[
    MissingValues | None,
    in_records(
        show_default="error", help="Missing values: stop with an error, drop their records, or keep them as a state."
    ),
]
NaValues = Annotated[
    list[str] | None,
    in_records("--na-values", metavar="WORDS", help='Words that mean a missing value, such as "?,NA"; repeatable.'),
]
UnitColumn = Annotated[
    str | None,
    in_records(metavar="NAME", help="NamedColumn that identifies the protected unit, if one may have several records."),
]
MaxRecords = Annotated[int | None, in_records(help="Most records to keep of each unit.", show_default="1")]
WeightsOption = Annotated[
    Weights | None,
    in_records("--weights", show_default="record", help="Weight 1 for each record, or for each unit."),
]
OneRecord = Annotated[bool, in_records("--one-record-a-unit", help="Declare that no unit has several records.")]
Json = Annotated[bool, in_output("--json", help="Print JSON.")]
ProjectFile = Annotated[
    Path | None,
    in_output("--project", metavar="FILE", help="New project file (.toml) over the found domain, for later commands."),
]


def _reading(
    table: str | None,
    missing: str | None,
    na_values: list[str] | None,
    unit_column: str | None,
    max_records: int | None,
    weights: str | None,
    one_record_a_unit: bool,
) -> Mapping[str, Any]:
    """Collect the options of reading that were given."""
    words = [word for text in na_values or [] for word in text.split(",")]
    options = {
        "table": table,
        "missing": missing,
        "na_values": words or None,
        "unit_column": unit_column,
        "max_records": max_records,
        "weights": weights,
        "one_record_a_unit": one_record_a_unit or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def domain(
    data: Table,
    epsilon: Epsilon,
    output: Annotated[Path, in_output("--output", metavar="FILE", help="New file; - writes stdout.")],
    account: Account = None,
    delta: Delta = "1e-9",
    type: Types = None,
    leave_out: LeaveOut = None,
    bins: Bins = 10,
    project: ProjectFile = None,
    table: TableName = None,
    missing: Missing = None,
    na_values: NaValues = None,
    unit_column: UnitColumn = None,
    max_records: MaxRecords = None,
    weights: WeightsOption = None,
    one_record_a_unit: OneRecord = False,
    purpose: Purpose = "",
    request: Request = "",
    ledger: LedgerUrl = None,
    as_json: Json = False,
) -> None:
    """Find states, bounds and bins of private records, and charge the account.

    The columns are declared by name and type alone. The output is a release, safe to publish; --network of other
    commands takes it, and --project writes a project file of it.

    Example:
        discreet domain demo/records.parquet --account patients --epsilon 0.5
          --output found.json --project study.toml
    """
    reading = _reading(table, missing, na_values, unit_column, max_records, weights, one_record_a_unit)
    task = tasks.DomainTask.of(data, type or [], leave_out or [], reading)
    tasks.find(task, (epsilon, delta, bins), (account, ledger, purpose, request), (output, project), as_json)


def quickstart(
    data: Table,
    epsilon: Epsilon,
    output: Annotated[
        Path | None,
        in_output("--output", metavar="FOLDER", show_default="private-NAME", help="New folder for the files."),
    ] = None,
    delta: Delta = "1e-9",
    unit: Unit = "record",
    type: Types = None,
    leave_out: LeaveOut = None,
    table: TableName = None,
    missing: Missing = None,
    na_values: NaValues = None,
    unit_column: UnitColumn = None,
    max_records: MaxRecords = None,
    weights: WeightsOption = None,
    one_record_a_unit: OneRecord = False,
    ledger: LedgerUrl = None,
    as_json: Json = False,
) -> None:
    """Go from a private table to first answers: find its domain, release, report.

    A quarter of epsilon finds states, bounds and bins; the rest releases tables of all variables without a network. An
    account is opened that allows this epsilon once.

    Example:
        discreet quickstart demo/records.parquet --epsilon 1 --output first
    """
    reading = _reading(table, missing, na_values, unit_column, max_records, weights, one_record_a_unit)
    task = tasks.DomainTask.of(data, type or [], leave_out or [], reading)
    quick.run(task, (epsilon, delta, unit), ledger, output, as_json)


COMMANDS = (("Start", quickstart), ("Before a release", domain))
"""Commands that the pack brings, with their headings."""
