"""The command that brings releases, figures by others and public records together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.external_tables import external_lines
from discreet.cli.posteriors import load_evidence
from discreet.display.terminal import check_output, say, show
from discreet.errors import InputError
from discreet.util import option_texts

NO_ONE_GUARANTEE = "no guarantee to state: of several relations, simulations, or on records that nobody told apart"
GUARANTEE_OF_OTHERS = "no guarantee to state: figures by others are among them"


def combine(
    releases: Annotated[
        list[str], typer.Argument(metavar="RELEASE...", help="Releases, combined releases, or figures by others.")
    ],
    output: flags.OutputFile,
    data: Annotated[
        option_texts.DataSets | None,
        flags.records(
            show_default="different, with a warning",
            help="Whether all releases measured the same records, or no record is in two of them.",
        ),
    ] = None,
    public: Annotated[
        str | None, flags.records(metavar="DATA", help="Public records of the same kind, counted exactly.")
    ] = None,
    table: Annotated[
        str | None, flags.records("--table", metavar="NAME", help="Table to read, if --public is a database URL.")
    ] = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Combine several releases, and public records, into one posterior.

    Combining spends no budget.

    Example:
        discreet combine release.json theirs.json --data different --output both.json
        discreet query both.json "P(lung | smoke=yes)"
    """
    from discreet.records.public import public_counts

    assumed = data is None and len(releases) > 1
    if releases.count("-") > 1:
        raise InputError("only one release can come from stdin; name files for the others")
    if table is not None and public is None:
        raise InputError("--table names a table of --public; there is none")
    parts = [load_evidence(path) for path in releases]
    counts = None if public is None else public_counts(public, parts[0].network, table=table)
    made = _require_readable(dc.combine(*parts, data=data or "different", public=counts))
    if assumed:
        say("taken as releases on different records; say --data same if they measured the same ones, or intervals")
        say("are too short (--data different says that you know)")
    if output == "-":
        sys.stdout.write(made.dumps())
        return
    check_output(Path(output), replace)
    made.save(output, replace=replace)
    sets, lines = _describe_data_sets(made, assumed)
    lines += external_lines(*made.external)
    if counts is not None:
        lines.append(f"{int(next(iter(counts.values())).sum()):,} public records")
    show(as_json, {"output": output, "data_sets": sets}, "\n".join([*lines, f"wrote {output}"]))


# ----------------------------------------------------------------------------------------------------------- helpers


def _require_readable(made: dc.results.Combined) -> dc.results.Combined:
    """Return the same, unless nobody could read it."""
    from discreet.posterior.methods import able_readers

    able_readers(made)
    return made


def _describe_data_sets(made: dc.results.Combined, assumed: bool) -> tuple[list[dict[str, object]], list[str]]:
    """Describe the data sets, and what all that was measured of each promises: as JSON and in lines."""
    sets, lines = list[dict[str, object]](), list[str]()
    for group, promise in zip(made.data_sets, made.guarantees, strict=True):
        stated = None if promise is None or assumed else str(promise)
        unstated = NO_ONE_GUARANTEE if all(part.one_release for part in group) else GUARANTEE_OF_OTHERS
        sets.append({"releases": [part.id for part in group], "guarantee": stated})
        lines.append(f"data set {len(sets)}: {_count_parts(group)}, {stated or unstated}")
    return sets, lines


def _count_parts(group: Sequence[dc.Release | dc.external.External]) -> str:
    """Say how many releases and figures by others a data set has."""
    releases = sum(part.one_release is not None for part in group)
    kinds = {"release(s)": releases, "document(s) of figures by others": len(group) - releases}
    return " and ".join(f"{number} {what}" for what, number in kinds.items() if number)
