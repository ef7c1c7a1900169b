"""The command line. Every command prints text for a person, or JSON with `--json`; errors are one line on stderr.

`running.py` runs it, and has its exit codes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import discreet
from discreet.cli import (
    analyst,
    checking,
    combining,
    curator,
    deciding,
    explaining,
    exporting,
    external_tables,
    flags,
    ledgers,
    network_view,
    planning,
    reporting,
    storing,
)
from discreet.cli.help_pages import HeadedCommand, HeadedGroup
from discreet.cli.running import run
from discreet.display.terminal import show
from discreet.util.lazy_imports import lazy_import
from discreet.util.pack_entries import of_packs

documents = lazy_import("discreet.queries.documents")


def main(argv: list[str] | None = None) -> int:
    """Run a command line.

    Args:
        argv: arguments without the program's name; None takes those of the process.

    Returns:
        The exit code.
    """
    return run(app, argv)


def demo(
    keep: Annotated[Path | None, flags.output(metavar="FOLDER", help="New folder for the demo's files.")] = None,
    seed: Annotated[int, flags.model(help="Seed of the made-up records.")] = 1,
    as_json: flags.Json = False,
) -> None:
    """Run the whole flow on a bundled network, and compare private answers with the truth.

    Example:
        discreet demo --keep demo
    """
    from discreet.cli.demo import demo_lines, run_demo

    result = run_demo(keep, seed)
    written = documents.answer_document
    pairs = [{"truth": written(true), "private": written(private)} for true, private in result.pairs]
    show(as_json, {"release": result.release.id, "answers": pairs}, demo_lines(result))


COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start": (demo,),
    "Before a release": (checking.schema, checking.init, checking.check, planning.plan, planning.audit),
    "Release": (curator.structure, curator.release),
    "Read a release": (analyst.query, analyst.fit, explaining.explain, deciding.decide, reporting.report),
    "Pass on": (storing.draw, exporting.sample, exporting.export, external_tables.external, combining.combine),
}
"""Commands except `show` and `ledger`, by heading."""
for heading, command in of_packs("discreet.commands"):
    COMMANDS[heading] = (*COMMANDS.get(heading, ()), command)

app = typer.Typer(cls=HeadedGroup, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False)
for heading, commands in COMMANDS.items():
    for command in commands:
        app.command(cls=HeadedCommand, rich_help_panel=heading)(command)
app.command("show", cls=HeadedCommand, rich_help_panel="Start")(network_view.show_network)
app.add_typer(
    ledgers.ledger_app,
    name="ledger",
    rich_help_panel="Release",
    help="Open, show, limit, close and verify the accounts of data sets.",
)


def _show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(f"discreet {discreet.__version__}")  # noqa: T201
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:
    """Differentially private Bayesian inference for networks: private table, public release, honest intervals."""


if __name__ == "__main__":
    sys.exit(main())
