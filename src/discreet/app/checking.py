"""Commands that look at a table before anything is released: draft a schema, hold records against one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

import discreet as dc
from discreet.app.arguments import DesignFile, EitherNetwork, Json, SchemaFile, ScoreFile, score_of, structure_of
from discreet.app.reading import (
    Data,
    MaxRecords,
    MayBeMissing,
    Missing,
    NaValues,
    OutOfBounds,
    Reading,
    TableName,
    UnitColumn,
    source_of,
    with_gaps,
    words_in,
)
from discreet.app.report import columns
from discreet.app.terminal import say, show
from discreet.errors import shown

if TYPE_CHECKING:
    from discreet.sensitive.records import Faults

__all__ = ["check", "schema"]


def schema(
    data: Data,
    table: TableName = None,
    na_values: NaValues = None,
    as_json: Json = False,
) -> None:
    """Draft a schema from a codebook or a sample that is NOT private, for you to edit; prints JSON."""
    draft = dc.draft_schema(source_of(data), table=table, na_values=words_in(na_values))
    say("drafted from the data: every state and bound below is a value of it; edit it, and never publish a draft")
    say("made from private records")
    show(as_json, draft, json.dumps(draft, indent=1, ensure_ascii=False))


def check(
    data: Data,
    network: EitherNetwork = None,
    design: DesignFile = None,
    score: ScoreFile = None,
    schema: SchemaFile = None,
    table: TableName = None,
    missing: Missing = "error",
    may_be_missing: MayBeMissing = None,
    out_of_bounds: OutOfBounds = "error",
    na_values: NaValues = None,
    unit_column: UnitColumn = None,
    max_records: MaxRecords = 1,
    as_json: Json = False,
) -> None:
    """Hold records against the schema; costs nothing. The counts it shows are private: for your own screen."""
    from discreet.sensitive.records import check_units

    structure: dc.Network | dc.Design = (
        with_gaps(structure_of(network, design, schema), missing, may_be_missing)
        if score is None
        else score_of(score, None, None, (network, design, schema))[0]
    )
    reading = Reading(table, na_values, missing, out_of_bounds, unit_column, max_records)
    records = reading.records(data, structure.schema)
    faults = dc.check(records)
    use = check_units(records)
    at_fault = [part for part in faults if part.missing or part.unknown or part.out_of_bounds]
    blocking = sum(map(reading.blocks, at_fault))
    lost = use is not None and use.without > 0
    listed = [{"column" if key == "variable" else key: told for key, told in asdict(one).items()} for one in faults]
    units = {} if use is None else {"units": asdict(use)}
    holds = "1 column holds" if len(faults) == 1 else f"{len(faults)} columns hold"
    verdict = f"{holds} what the schema says" if not at_fault else _table(at_fault)
    if use is not None:
        verdict += (
            f"\n{use.units:,} units with up to {use.most:,} records; {use.beyond:,} records are left out, beyond "
            f"{max_records:,} a unit (these numbers are private)"
        )
    show(as_json, {"ok": not blocking and not lost, **units, "columns": listed}, verdict)
    if lost:
        say(f"discreet: column {shown(str(unit_column))} has records without a value; leave them out or say whose")
        say("they are")
    if blocking:
        say(
            f"discreet: records are at fault in {blocking} of {len(faults)} columns (these numbers are private); "
            "mend them, declare the states, or see --missing keep and --out-of-bounds clip; if the table writes "
            "missing values as a word such as ? or NA, name it with --na-values"
        )
    if lost or blocking:
        raise typer.Exit(2)


def _table(at_fault: Sequence[Faults]) -> str:
    """The columns at fault, for a terminal."""
    rows = [(part.variable, str(part.missing), str(part.unknown), str(part.out_of_bounds)) for part in at_fault]
    return columns(("column", "missing", "unknown state", "out of bounds"), rows)
