"""Commands of the pack: find the domain of a table, and all steps from a table to first answers.

Nothing that reads records is loaded before a command runs: `discreet serve` loads this list, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import discreet.cli.record_flags as flags
from discreet.util.lazy_imports import lazy_import

tasks = lazy_import("discreet.discovery.domain_task")
quick = lazy_import("discreet.discovery.first_answers")

Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Private records: a Parquet, CSV or Excel file, a glob, a database URL or @name; or a project file "
        "(.toml) whose variables have a name and a type alone, as `init` drafts it.",
    ),
]
Delta = Annotated[
    str,
    flags.budget(
        metavar="NUMBER",
        help="Probability that a value that one record alone has becomes a state; 0 finds no states of text.",
    ),
]
Account = Annotated[
    str | None, flags.budget(metavar="NAME", help="Account that pays. It fixes the relation and the unit.")
]
Unit = Annotated[
    str | None,
    flags.budget(
        metavar="TEXT",
        show_default="record, or the name of --unit-column",
        help="Protected unit, such as patient. record is your word that each row is of another one.",
    ),
]
Types = Annotated[
    list[str] | None,
    flags.model(
        "--type",
        metavar="NAME=TYPE",
        help="Type of a column: text, integer, number or boolean; repeatable. Columns of a text file without one have "
        "it found, for a fifth of their budget.",
    ),
]
LeaveOut = Annotated[
    list[str] | None,
    flags.model("--leave-out", metavar="NAMES", help="Columns that are not wanted, such as 'a,b'; repeatable."),
]
Bins = Annotated[int, flags.model(help="Most bins of a numeric column.", min=2, max=32)]
ProjectFile = Annotated[
    Path | None,
    flags.output(
        "--project", metavar="FILE", help="New project file (.toml) over the found domain, for later commands."
    ),
]


def domain(
    data: Table,
    epsilon: flags.Epsilon,
    output: Annotated[Path, flags.output("--output", metavar="FILE", help="New file; - writes stdout.")],
    account: Account = None,
    delta: Delta = "1e-9",
    type: Types = None,
    leave_out: LeaveOut = None,
    bins: Bins = 14,
    project: ProjectFile = None,
    table: flags.TableName = None,
    form: flags.Form = "",
    missing: flags.Missing = None,
    na_values: flags.NaValues = None,
    unit_column: flags.UnitColumn = None,
    max_records: flags.MaxRecords = None,
    weights: flags.Weights = None,
    one_record_a_unit: flags.OneRecord = False,
    purpose: flags.Purpose = "",
    request: flags.Request = "",
    ledger: flags.LedgerUrl = None,
    as_json: flags.Json = False,
) -> None:
    """Find states, bounds and bins of private records, and charge the account.

    The columns are declared by name and type alone. The output is a release, safe to publish; --network of other
    commands takes it, and --project writes a project file of it.

    Example:
        discreet domain demo/records.parquet --account patients --epsilon 0.5
          --output found.json --project found.toml
    """
    reading = {
        "table": table, "missing": missing, "na_values": na_values, "unit_column": unit_column,
        "max_records": max_records, "weights": weights, "one_record_a_unit": one_record_a_unit,
    }  # fmt: skip
    task = tasks.DomainTask.of(data, type or [], leave_out or [], form, reading)
    tasks.find(task, (epsilon, delta, bins), (account, ledger, purpose, request), (output, project), as_json)


def quickstart(
    data: Table,
    epsilon: flags.Epsilon,
    output: Annotated[
        Path | None,
        flags.output("--output", metavar="FOLDER", show_default="private-NAME", help="New folder for the files."),
    ] = None,
    delta: Delta = "1e-9",
    unit: Unit = None,
    type: Types = None,
    leave_out: LeaveOut = None,
    table: flags.TableName = None,
    form: flags.Form = "",
    missing: flags.Missing = None,
    na_values: flags.NaValues = None,
    unit_column: flags.UnitColumn = None,
    max_records: flags.MaxRecords = None,
    weights: flags.Weights = None,
    one_record_a_unit: flags.OneRecord = False,
    ledger: flags.LedgerUrl = None,
    as_json: flags.Json = False,
) -> None:
    """Go from a private table to first answers: find its domain, release, report.

    A quarter of epsilon finds states, bounds and bins; the rest releases tables of all variables without a network. An
    account is opened that allows this epsilon once. The promise is about a record, or the named unit, that is added or
    removed (add-remove); for another one open an account, and use domain and release.

    Example:
        discreet quickstart demo/records.parquet --epsilon 1 --output first
    """
    reading = {
        "table": table, "missing": missing, "na_values": na_values, "unit_column": unit_column,
        "max_records": max_records, "weights": weights, "one_record_a_unit": one_record_a_unit,
    }  # fmt: skip
    task = tasks.DomainTask.of(data, type or [], leave_out or [], form, reading)
    quick.run(task, (epsilon, delta, unit), ledger, output, as_json)


COMMANDS = (("Start", quickstart), ("Before a release", domain))
"""Commands that the pack brings, with their headings."""
