"""Start the program `discreet`: commands of packs load no code that reads records; `cli.py` has all others."""

from __future__ import annotations

import sys

import typer

from discreet.cli.help_pages import HeadedCommand, HeadedGroup
from discreet.cli.running import run
from discreet.util.lazy_imports import lazy_import
from discreet.util.pack_entries import of_packs

cli = lazy_import("discreet.cli.cli")


def main(argv: list[str] | None = None) -> int:
    """Run a command line.

    A pack's command runs without the others, so a server cannot read a record: its process has not loaded that code.

    Args:
        argv: arguments without the program's name; None takes those of the process.

    Returns:
        The exit code.
    """
    words = sys.argv[1:] if argv is None else argv
    first = next((word for word in words if not word.startswith("-")), "")
    commands = [command for _, command in of_packs("discreet.commands")]
    if first not in {command.__name__ for command in commands}:
        return int(cli.main(words))
    app = typer.Typer(cls=HeadedGroup, rich_markup_mode=None, pretty_exceptions_enable=False)
    for command in commands:
        app.command(cls=HeadedCommand)(command)
    return run(app, words)
