"""Where the program `discreet` starts: a server loads nothing of what reads records, all else is in `cli.py`."""

from __future__ import annotations

import sys

import typer

from discreet.cli import serving
from discreet.cli.running import run
from discreet.util.lazy_imports import import_late

cli = import_late("discreet.cli.cli")

SERVING = ("serve", "token")
"""Commands of a process that cannot read a record, because it does not hold the code."""


def main(argv: list[str] | None = None) -> int:
    """Run a command line.

    Args:
        argv: arguments without the program's name; None takes those of the process.

    Returns:
        The exit code.
    """
    given = sys.argv[1:] if argv is None else argv
    first = next((word for word in given if not word.startswith("-")), "")
    if first not in SERVING:
        return int(cli.main(given))
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(serving.serve)
    app.command()(serving.token)
    return run(app, given)
