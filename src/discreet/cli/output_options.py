"""Write the rows of a command: a table for a person, JSON, or one row a number for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.cli import flags
from discreet.display.renderers import csv_text, frame_of, text_of
from discreet.display.terminal import check_output, screen_width, write_out
from discreet.errors import InputError, shown
from discreet.util.json_files import json_text, write_whole
from discreet.util.lazy_imports import lazy_import
from discreet.util.tabular import Block

pa = lazy_import("pyarrow")
parquet = lazy_import("pyarrow.parquet")


@dataclass(frozen=True)
class OutputOptions:
    """Format and target of a command's output.

    Args:
        form: one of `FORMATS`.
        output: name of a file; None or "-" for stdout.
        replace: True replaces an existing file.

    Raises:
        InputError: an unknown format, a format that needs a file or takes none, or a file that exists or cannot be
            written. It is raised before anything is read.
    """

    form: str
    output: str | None = None
    replace: bool = False

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        if self.form not in flags.FORMATS:
            raise InputError(f"--format is {', '.join(flags.FORMATS)}, not {shown(self.form)}")
        if self.form == "table" and self.output is not None:
            raise InputError("a table is only printed: give --format csv, parquet or json with --output")
        if self.form == "parquet" and self.output is None:
            raise InputError("--format parquet needs --output FILE, or - for stdout")
        if self.output not in (None, "-"):
            check_output(Path(str(self.output)), self.replace)

    @staticmethod
    def of(form: str | None, output: str | None, replace: bool, as_json: bool) -> OutputOptions:
        """Read the options of a command; `--json` means `--format json`."""
        if as_json and form not in (None, "json"):
            raise InputError(f"--json means --format json: leave out --json, or --format {shown(form)}")
        return OutputOptions("json" if as_json else form or "table", output, replace)

    def show(self, document: object, content: Iterable[str | Block], rows: Sequence[Mapping[str, Any]]) -> None:
        """Print the result.

        Args:
            document: for JSON.
            content: for a person: lines and blocks, wrapped to the width of the terminal.
            rows: of a frame.

        Raises:
            InputError: the format needs rows, and there are none.
        """
        if self.form == "table":
            print(text_of(content, screen_width()))  # noqa: T201
            return
        if self.form != "json" and not rows:
            raise InputError(f"there are no rows for --format {self.form}; use --format json")
        texts = {"json": lambda: json_text(document) + "\n", "csv": lambda: csv_text(rows)}
        self._write(texts[self.form]() if self.form in texts else _write_parquet(rows))

    def _write(self, content: str | bytes) -> None:
        """Write to the file and print its name, or write to stdout."""
        if self.output in (None, "-"):
            if isinstance(content, str):
                write_out(content)
            else:
                sys.stdout.buffer.write(content)
            return
        write_whole(content, Path(str(self.output)), f"{self.form} file", replace=self.replace)
        print(f"wrote {self.output}")  # noqa: T201


def _write_parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Write rows with the types of their columns."""
    sink = pa.BufferOutputStream()
    parquet.write_table(frame_of(rows, "arrow"), sink)
    return bytes(sink.getvalue())
