"""Commands before a release: draft a schema or a project file, and check records against one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import PROJECT, network_over, score_of
from discreet.cli.reading import ReadingOptions, reads_records, source_of, words_in
from discreet.display.terminal import say, show, table
from discreet.errors import InputError, shown
from discreet.formats.network_files import ends_as_network
from discreet.model.over import Over
from discreet.model.schema import schema_of_parts
from discreet.privacy.settings import address_of
from discreet.util.attached import above
from discreet.util.json_files import json_text

if TYPE_CHECKING:
    from discreet.records.records import Faults, Records


def schema(
    data: flags.Data,
    table: flags.TableName = None,
    na_values: flags.NaValues = None,
    as_json: flags.Json = False,
) -> None:
    """Draft a schema from a codebook or a sample that is NOT private.

    The output is JSON, for you to edit.

    Example:
        discreet schema demo/records.parquet
    """
    draft = dc.tools.draft_schema(source_of(data), table=table, na_values=words_in(na_values), **_draft_form(data))
    say("drafted from the data: every state and bound below is a value of it. Edit it, and never publish a draft")
    say("of private records")
    show(as_json, draft, json_text(draft, indent=1))


PublicSource = Annotated[
    str,
    typer.Argument(
        metavar="PUBLIC",
        help="Public source: a sample or codebook that is NOT private, a BIF or XMLBIF file, JSON of variables, or "
        "a project file whose arcs --network replaces.",
    ),
]


def init(
    data: PublicSource,
    output: Annotated[Path, flags.output(metavar="FILE", help="Project file, .toml; - writes stdout.")],
    network: flags.EitherNetwork = None,
    source: Annotated[
        str | None, flags.records(metavar="DATA", help="Private records: file, glob or database URL.")
    ] = None,
    unit: Annotated[str, flags.budget(metavar="TEXT", help="Protected unit, such as patient.")] = "record",
    unit_column: flags.UnitColumn = None,
    account: Annotated[str | None, flags.budget(metavar="NAME", help="Account that pays.")] = None,
    table: flags.TableName = None,
    na_values: flags.NaValues = None,
    public: Annotated[
        bool, flags.records("--public", help="Your word that the table's values may be read and published.")
    ] = False,
    replace: flags.Replace = False,
) -> None:
    """Draft a project file with all that is public of private records.

    It has variables, arcs, unit and account, for you to edit. Commands take it instead of DATA or of a network. Of a
    table it has names and types alone, for `discreet domain`, unless you say that the table is --public, or name
    another --source of private records.

    Example:
        discreet init demo/asia.bif --source demo/records.parquet
          --account patients --output study.toml
    """
    from discreet.formats.project_file import Project, save_project

    named = False
    if data.endswith(PROJECT):
        if network is None:
            raise InputError("this is a project file already: edit it, or give --network to replace its arcs")
        project = Project.read(data)
        text = project.with_network(network_over(network, dc.Schema(project.network.variables))).text
    elif named := not (public or source is not None or ends_as_network(data) or data.endswith(".json")):
        if network is not None:
            raise InputError("arcs of --network need states: give it to what `discreet domain` finds, or add --public")
        text = above("Project.of_names")(
            source_of(data), table, _draft_form(data), {"name": unit, "column": unit_column}, account, data
        )
    else:
        protected = {"name": unit, **({} if unit_column is None else {"column": unit_column})}
        text = _draft_text(data, source, network, protected, account, table, words_in(na_values))
    if str(output) == "-":
        show(False, {}, text.rstrip())
    else:
        save_project(text, output, replace=replace)
        show(False, {}, f"wrote {output}")
    if named:
        say("names and types alone: no value is in it, if the first line has the names of the columns. Then")
        say("`discreet domain` finds states, bounds and bins with noise; or declare them, or add --public")
        return
    say("review the file: states and bounds must come from public knowledge, not from the data. Then run")
    say("`discreet check`")


def _draft_text(
    data: str,
    source: str | None,
    network: str | None,
    unit: Mapping[str, str],
    account: str | None,
    table: str | None,
    na_values: list[str],
) -> str:
    """Draft the text of a project from something public; options as of `init`."""
    from discreet.formats.project_file import draft_project

    _refuse_private(data, source)
    if ends_as_network(data):
        structure = dc.Network.read(data)
    else:
        structure = _leave_out(unit.get("column"), _read_variables(data, table, na_values))
    if network is not None:
        structure = network_over(network, dc.Schema(structure.variables))
    form = {} if source is None else _draft_form(source, structure.schema.names)
    options = {"data": source, "table": table, "na_values": na_values or None, **form}
    words = {name: value for name, value in options.items() if value is not None}
    return draft_project(structure, source=words, unit=unit, account=account).text


def _refuse_private(data: str, source: str | None) -> None:
    """Refuse to draft from the private records: their states and bounds would be published."""
    if source is not None and os.path.realpath(data) == os.path.realpath(source):
        raise InputError(
            "this file has the private records, whose states and bounds must not be published: write a codebook or a "
            "few made-up rows, and draft from that file"
        )


def _read_variables(data: str, table: str | None, na_values: list[str]) -> tuple[dc.Variable, ...]:
    """Read the variables of a JSON file, or of a public sample."""
    if data.endswith(".json"):
        return dc.Schema.read(data).variables
    draft = dc.tools.draft_schema(source_of(data), table=table, na_values=na_values, **_draft_form(data))
    return schema_of_parts(draft["variables"], "the draft").variables


def _draft_form(path: str, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Draft the form of a text file by a look at it, and show what was found."""
    from discreet.records.record_files import draft_form
    from discreet.records.text_form import write_options

    form = draft_form(address_of(path), wanted)
    if form:
        say(f"found by a look at the file {shown(path)}: {write_options(form)}")
    return form


def _leave_out(unit_column: str | None, variables: Sequence[dc.Variable]) -> dc.Network:
    """Make a network without arcs, and without the column that identifies units."""
    return dc.Network.empty([variable for variable in variables if variable.name != unit_column])


@reads_records
def check(
    data: flags.Data,
    network: flags.EitherNetwork = None,
    design: flags.DesignFile = None,
    score: flags.ScoreFile = None,
    schema: flags.SchemaFile = None,
    *,
    how: Mapping[str, Any],
    as_json: flags.Json = False,
) -> None:
    """Check that private records fit the schema.

    The check spends no budget. What it shows is private: it is for your own screen. On a terminal it also shows the
    values at fault, with the record or line in which each occurs first.

    Example:
        discreet check study.toml
        discreet check demo/records.parquet --network demo/asia.bif
    """
    from discreet.records.records import check_units
    from discreet.records.sources import explain_source

    reading = ReadingOptions.of(data, network, how)
    structure: Over
    if score is not None:
        reading.refuse_gaps()
        structure, _ = score_of(score, None, None, (network, design, schema))
    else:
        structure = reading.over(network, design, schema)
    records = reading.records(structure.schema)
    faults = dc.check(records)
    use = check_units(records)
    at_fault = [each for each in faults if any(astuple(each)[1:])]
    blocking = sum(map(reading.blocks, at_fault))
    lost = use is not None and use.without > 0
    listed = [{"column" if key == "variable" else key: value for key, value in asdict(each).items()} for each in faults]
    units = {} if use is None else {"units": asdict(use)}
    matches = "The column matches" if len(faults) == 1 else f"All {len(faults)} columns match"
    verdict = f"{matches} the schema" if not at_fault else _print_faults(at_fault)
    if use is not None:
        verdict += (
            f"\n{use.units:,} units with up to {use.most:,} records; {use.beyond:,} records are left out, beyond "
            f"{reading.policy.max_records:,} a unit (these numbers are private)"
        )
    show(as_json, {"ok": not blocking and not lost, **units, "columns": listed}, verdict)
    if sys.stderr.isatty():
        _say_values(records, at_fault, reading)
    if lost:
        say(f"discreet: column {shown(str(reading.policy.unit_column))} has records without a value: leave them out,")
        say("or fill in the unit")
    if blocking:
        say(
            f"discreet: {blocking} of {len(faults)} columns contain values that the schema does not allow (these "
            "numbers are private): correct them, declare the states, or use --missing keep or --out-of-bounds clip; "
            "if a word such as ? or NA means a missing value, give it with --na-values (missing, out_of_bounds and "
            "na_values of [source] in a project file)" + explain_source(records.table)
        )
    if lost or blocking:
        raise typer.Exit(2)


MOST_VALUES = 5
"""Values at fault of a column that are shown."""


def _say_values(records: Records, at_fault: Sequence[Faults], reading: ReadingOptions) -> None:
    """Show the values at fault on the terminal alone, with the first record or line of each."""
    from discreet.records.fault_values import faulty_values
    from discreet.records.record_files import first_line

    line = first_line(reading.data, reading.options.get("preamble", 0))
    for name in (each.variable for each in at_fault):
        for value, number, first in faulty_values(records, records.schema[name], MOST_VALUES):
            place = f"record {(first or 0) + 1}" if line is None else f"line {(first or 0) + line}"
            text = "no value" if value is None else shown(value)
            seen = f"{number:,} record{'s' * (number > 1)}" + ("" if first is None else f", first in {place}")
            say(f"private: column {shown(name)} has {text} in {seen}")


def _print_faults(at_fault: Sequence[Faults]) -> str:
    """Write a table of the columns with invalid values."""
    rows = [tuple(map(str, astuple(each))) for each in at_fault]
    return table(("column", "missing", "invalid value", "out of bounds", "does not apply"), rows)
