"""What commands share: how they print, and refuse a file that cannot be written."""

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
    """To stderr."""
    print(printable(text, "\n"), file=sys.stderr)  # noqa: T201


def screen_width() -> int | None:
    """Columns of the terminal that stdout is; None where it is a file or a pipe, whose lines go as they are."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as aligned text, as wide as the terminal."""
    return columns(header, rows, screen_width())


def show(as_json: bool, value: object, text: str) -> None:
    """To stdout, as JSON or as text, whose long lines are broken where a terminal would."""
    print(json_text(value) if as_json else fold(text, screen_width()))  # noqa: T201


def write_out(text: str) -> None:
    """To stdout, for programs: names as they are, but on a terminal nothing that it would obey."""
    sys.stdout.write(printable(text, "\n") if sys.stdout.isatty() else text)


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be made."""
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"cannot write into folder {str(path.parent)!r}: {error.strerror}") from None


def check_output(path: Path, replace: bool) -> None:
    """Refuse a file that exists, unless it is to be replaced, and what is no file."""
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {str(path)!r}: it is a folder or a device, name a file")
    if path.exists() and not replace:
        raise InputError(f"{str(path)!r} exists; name a new file, or say --replace")
    check_writable(path)


def abandon_stdout() -> None:
    """Let what is still buffered go nowhere: at its end the interpreter would try to write it again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
