"""Where the program `discreet` starts: commands of packs load nothing that reads records; all else is in `cli.py`."""

from __future__ import annotations

import sys

import typer

from discreet.cli.help_pages import HeadedCommand, HeadedGroup
from discreet.cli.running import run
from discreet.util.lazy_imports import import_late
from discreet.util.pack_entries import of_packs

cli = import_late("discreet.cli.cli")


def main(argv: list[str] | None = None) -> int:
    """Run a command line.

    A command of a pack runs without the others: so a server is a process that cannot read a record, because it does not
    hold the code.

    Args:
        argv: arguments without the program's name; None takes those of the process.

    Returns:
        The exit code.
    """
    given = sys.argv[1:] if argv is None else argv
    first = next((word for word in given if not word.startswith("-")), "")
    commands = of_packs("discreet.commands")
    if first not in {command.__name__ for command in commands}:
        return int(cli.main(given))
    app = typer.Typer(cls=HeadedGroup, rich_markup_mode=None, pretty_exceptions_enable=False)
    for command in commands:
        app.command(cls=HeadedCommand)(command)
    return run(app, given)
