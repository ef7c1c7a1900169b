"""Print output of commands, and refuse files that cannot be written."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from discreet.display.text_tables import columns, fold
from discreet.errors import InputError, printable
from discreet.util.json_files import json_text


def say(text: str) -> None:
    """Print a text to stderr."""
    print(printable(text, "\n"), file=sys.stderr)  # noqa: T201


def screen_width() -> int | None:
    """Return the columns of the terminal; None if stdout is a file or a pipe, whose lines are not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write rows as aligned text, as wide as the terminal."""
    return columns(header, rows, screen_width())


def show(as_json: bool, value: object, text: str) -> None:
    """Print a value as JSON, or a text with long lines wrapped, to stdout."""
    print(json_text(value) if as_json else fold(text, screen_width()))  # noqa: T201


def write_out(text: str) -> None:
    """Write a text for programs to stdout: names unchanged, but without control characters on a terminal."""
    sys.stdout.write(printable(text, "\n") if sys.stdout.isatty() else text)


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be created."""
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"cannot write into folder {str(path.parent)!r}: {error.strerror}") from None


def check_output(path: Path, replace: bool) -> None:
    """Refuse a file that exists, unless it is to be replaced, and a folder or device."""
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {str(path)!r}: it is a folder or a device; give a file")
    if path.exists() and not replace:
        raise InputError(f"{str(path)!r} exists; give a new file, or --replace")
    check_writable(path)


def abandon_stdout() -> None:
    """Redirect buffered output to nowhere: the interpreter would try to write it again at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
