"""Command of the pack: the observed network of a latent node, and what tables must hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import discreet.cli.record_flags as flags
from discreet.util.lazy_imports import lazy_import

tasks = lazy_import("discreet.latent.latent_task")


def latent(
    network: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK|RELEASE",
            help="Network with the node: a BIF or XMLBIF file, or a project file; or a release, for a proposal.",
        ),
    ],
    node: Annotated[str | None, typer.Argument(metavar="[NODE]", help="Node that has no column.")] = None,
    output: Annotated[
        Path | None,
        flags.output(
            "--output", metavar="FILE", help="New network file of the other variables, or project file (.toml)."
        ),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Prepare the release for a node without a column, such as a class behind questions.

    It says which tables tell the parameters, and writes the network of the other variables, for --network of release.
    query --latent NETWORK then reads the release. Of a release it says whether its pairs of yes-or-no columns show a
    class behind them, and writes the network with it. It reads no records, and spends nothing.

    Example:
        discreet latent demo/asia.bif either --output observed.bif
        discreet latent demo/release.json --output proposed.bif
    """
    tasks.prepare(network, node, output, as_json)


COMMANDS = (("Before a release", latent),)
"""Commands that the pack brings, with their headings."""
