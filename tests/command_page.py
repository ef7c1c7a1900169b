"""`docs/commands.md`: every command as `--help` has it, made from the commands themselves.

`python tests/command_page.py` writes the page anew (`make commands`), and `test_cli_help.py` compares it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from discreet.cli.cli import app
from discreet.cli.help_pages import list_options, split_help

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
INTRODUCTION = """# Commands

`discreet COMMAND --help` prints each section below in a terminal. This page is generated from the commands
(`make commands`). Its examples run one after another in one folder, if the account exists:
`discreet ledger open patients --epsilon 3 --relation add-remove`. [From the command line](shell.md) is the guide.
"""


def every_command(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands with the words that call them, in the order in which `--help` lists them."""
    group = group or typer.main.get_command(app)
    headings: dict[str | None, list[str]] = {}
    for name, command in group.commands.items():
        headings.setdefault(command.rich_help_panel, []).append(name)
    for name in [name for names in headings.values() for name in names]:
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


def context_of(path: tuple[str, ...], command: Any) -> Any:
    """What a command's help is written in."""
    return typer.Context(command, info_name=" ".join(("discreet", *path)))


def write_page() -> str:
    """Write the page."""
    return "\n".join([INTRODUCTION, *(_write_section(path, command) for path, command in every_command())])


def _write_section(path: tuple[str, ...], command: Any) -> str:
    """Write what a command does, how it is called, and its options by heading."""
    sentences, example = split_help(command.help)
    lines = [f"## `discreet {' '.join(path)}`", "", sentences, ""]
    if example:
        # what needs a server is shown, and not run by the tests of pages
        lines += [f"```{'text' if 'postgresql://' in example else 'sh'}", example, "```", ""]
    for heading, rows in list_options(command, context_of(path, command)).items():
        listed = [f"- `{name}`: {' '.join(text.split())}" for name, text in rows if name != "--help"]
        lines += [f"**{heading}**", "", *listed, ""] if listed else []
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
