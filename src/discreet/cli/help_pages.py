"""Print help: options under headings, whole sentences, and an example that runs.

Typer writes headings with rich, which takes a tenth of a second to import. Here they are plain text, at most 80 columns
wide.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup

EXAMPLE = "\n\nExample:\n"
"""Text in a docstring before its command lines."""
COLUMN = 24
"""Widest column of names; longer names have a separate line."""

ORDER = {"Arguments": 0, "Output": 2, "Other options": 3}
"""Headings that are not in the order of the command."""
GIVEN_DEFAULT = re.compile(r"\[default: \((.*)\)")
"""Typer's form of a described default."""

Rows = Mapping[str, list[tuple[str, str]]]


def split_help(text: str | None) -> tuple[str, str]:
    """Split a docstring into its sentences and its example; long lines get a backslash, as in a shell."""
    sentences, _, example = (text or "").partition(EXAMPLE)
    return sentences, textwrap.dedent(example).replace("\n ", " \\\n ").strip()


def list_options(command: TyperCommand | TyperGroup, ctx: Any) -> Rows:
    """List the names and texts of a command's parameters by their headings."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        name, text = parameter.get_help_record(ctx) or ("", "")
        heading = getattr(parameter, "rich_help_panel", None) or "Other options"
        if parameter.param_type_name == "argument":
            heading, name = "Arguments", parameter.metavar or name
        if text:
            rows.setdefault(heading, []).append((name, GIVEN_DEFAULT.sub(r"[default: \1", text)))
    return dict(sorted(rows.items(), key=lambda item: ORDER.get(item[0], 1)))


class HeadedCommand(TyperCommand):
    """Command whose help has options under headings, and an example at the end."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the sentences of the docstring."""
        _write_sentences(self.help, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options under their headings."""
        _write_rows(list_options(self, ctx), formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example unchanged."""
        example = split_help(self.help)[1]
        if example:
            with formatter.section("Example"):
                formatter.write(textwrap.indent(example, "  ") + "\n")


class HeadedGroup(TyperGroup):
    """Group of commands under headings, each with the first paragraph of its help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write commands, then options, under their headings."""
        commands: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            first = " ".join(split_help(command.help)[0].partition("\n\n")[0].split())
            commands.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append((name, first))
        _write_rows({**commands, **list_options(self, ctx)}, formatter)


def _write_sentences(text: str | None, formatter: Any) -> None:
    """Write paragraphs, wrapped into lines."""
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(split_help(text)[0])


def _write_rows(rows: Rows, formatter: Any) -> None:
    """Write names and texts in two columns, equal for all headings; words are not broken."""
    names = [len(name) for listed in rows.values() for name, _ in listed]
    column = max((width for width in names if width <= COLUMN), default=COLUMN)
    for heading, listed in rows.items():
        with formatter.section(heading):
            formatter.write("".join(_lay_row(name, text, column, formatter.width) for name, text in listed))


def _lay_row(name: str, text: str, column: int, width: int) -> str:
    """Lay out a name and its text beside it, or below a long name."""
    indent = " " * (column + 4)
    lines = textwrap.wrap(text, width - len(indent), break_on_hyphens=False, break_long_words=False)
    beside = indent + f"\n{indent}".join(lines)
    return f"  {name}{beside[len(name) + 2 :]}\n" if len(name) <= column else f"  {name}\n{beside}\n"
