"""The command that combines releases, figures by others and public records."""

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

NO_ONE_GUARANTEE = "no guarantee to state: several relations, simulations, or records of unknown overlap"
GUARANTEE_OF_OTHERS = "no guarantee to state: it has figures by others"


def combine(
    releases: Annotated[
        list[str], typer.Argument(metavar="RELEASE...", help="Releases, combined releases, or figures by others.")
    ],
    output: flags.OutputFile,
    data: Annotated[
        option_texts.DataSets | None,
        flags.records(
            show_default="different, with a warning",
            help="same if all releases measured the same records, different if no record is in two of them.",
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
        raise InputError("--table is for --public; leave it out")
    parts = [load_evidence(path) for path in releases]
    counts = None if public is None else public_counts(public, parts[0].network, table=table)
    combined = _require_readable(dc.combine(*parts, data=data or "different", public=counts))
    if assumed:
        say("assuming the releases cover different records. If they cover the same records, use --data same, or")
        say("intervals are too narrow; --data different confirms the assumption")
    if output == "-":
        sys.stdout.write(combined.dumps())
        return
    check_output(Path(output), replace)
    combined.save(output, replace=replace)
    sets, lines = _describe_data_sets(combined, assumed)
    lines += external_lines(*combined.external)
    if counts is not None:
        lines.append(f"{int(next(iter(counts.values())).sum()):,} public records")
    show(as_json, {"output": output, "data_sets": sets}, "\n".join([*lines, f"wrote {output}"]))


# ----------------------------------------------------------------------------------------------------------- helpers


def _require_readable(combined: dc.results.Combined) -> dc.results.Combined:
    """Return combined evidence, or refuse it if no reader takes it."""
    from discreet.posterior.methods import able_readers

    able_readers(combined)
    return combined


def _describe_data_sets(combined: dc.results.Combined, assumed: bool) -> tuple[list[dict[str, object]], list[str]]:
    """Describe each data set and its total guarantee: as JSON and in lines."""
    sets, lines = list[dict[str, object]](), list[str]()
    for group, promise in zip(combined.data_sets, combined.guarantees, strict=True):
        stated = None if promise is None or assumed else str(promise)
        unstated = NO_ONE_GUARANTEE if all(each.one_release for each in group) else GUARANTEE_OF_OTHERS
        sets.append({"releases": [each.id for each in group], "guarantee": stated})
        lines.append(f"data set {len(sets)}: {_count_parts(group)}, {stated or unstated}")
    return sets, lines


def _count_parts(group: Sequence[dc.Release | dc.external.External]) -> str:
    """Write the numbers of releases and of figures by others in a data set."""
    releases = sum(each.one_release is not None for each in group)
    kinds = {"release(s)": releases, "document(s) of figures by others": len(group) - releases}
    return " and ".join(f"{number} {noun}" for noun, number in kinds.items() if number)
