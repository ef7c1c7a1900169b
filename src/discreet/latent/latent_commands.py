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
        str, typer.Argument(metavar="NETWORK", help="Network with the node: a BIF or XMLBIF file, or a project file.")
    ],
    node: Annotated[str, typer.Argument(metavar="NODE", help="Node that has no column.")],
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
    query --latent NETWORK then reads the release. It reads no records, and spends nothing.

    Example:
        discreet latent demo/asia.bif either --output observed.bif
    """
    tasks.prepare(network, node, output, as_json)


COMMANDS = (("Before a release", latent),)
"""Commands that the pack brings, with their headings."""
