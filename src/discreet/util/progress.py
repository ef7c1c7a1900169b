"""Progress bars for people who wait: on stderr of a terminal, or below the cell of a notebook.

A bar appears after a second, and only in a terminal or a notebook; scripts, pipes and tests see none.
`DISCREET_PROGRESS=off` disables it. It never writes to stdout, and shows only a label and the number of steps, which
must not depend on records.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from contextvars import ContextVar, Token, copy_context
from html import escape
from types import TracebackType
from typing import Any, Protocol

from discreet.errors import printable
from discreet.util.lazy_imports import lazy_import

console = lazy_import("rich.console")
bars = lazy_import("rich.progress")
notebook = lazy_import("IPython.display")

SWITCH = "DISCREET_PROGRESS"
"""Environment variable that disables all bars."""
SILENT = frozenset({"off", "no", "false", "0"})
WAIT_SECONDS = 1.0
"""Seconds before a bar appears."""
NOTEBOOK_SECONDS = 0.2
"""Least seconds between two updates of a bar in a notebook."""
_SHOWING: ContextVar[bool] = ContextVar("discreet_progress", default=False)
"""True inside a bar: nested bars show nothing."""


class _Screen(Protocol):
    """Place where a bar is drawn."""

    def update(self, label: str, done: int, total: int | None) -> None:
        """Update the bar."""

    def close(self) -> None:
        """Remove the bar."""


def under_way(label: str) -> Bar:
    """Show a bar during an operation, if it takes over a second and somebody can see it.

    Args:
        label: name of the operation, in few words, none of them from a record.

    Returns:
        A context manager. Call its value with `(done, total)` after each step, if there are steps; its `label` can be
        changed. Inside another bar it shows nothing.

    Raises:
        Nothing.

    Example:
        >>> with under_way("counting") as bar:
        ...     for done in range(3):
        ...         bar(done + 1, 3)
    """
    return Bar(label)


class Bar:
    """A bar that appears after a second; see `under_way`.

    A failure to draw it never stops the operation, which may have been paid for.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self._steps: tuple[int, int | None] = 0, None
        self._make: type[_Terminal] | type[_Notebook] | None = None
        self._screen: _Screen | None = None

    def __enter__(self) -> Bar:
        """Start a timer of a second in the background, if a bar could be seen."""
        self._make = None if _SHOWING.get() else _find_screen()
        if self._make is not None:
            self._token: Token[bool] = _SHOWING.set(True)
            self._lock = threading.Lock()
            self._timer = threading.Timer(WAIT_SECONDS, copy_context().run, (self._show,))
            self._timer.daemon = True
            self._timer.start()
        return self

    def __call__(self, done: int, total: int) -> None:
        """Record that `done` of `total` steps are done."""
        self._steps = done, total
        if self._make is not None and self._screen is not None:
            with self._lock, suppress(Exception):
                self._screen.update(self.label, done, total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar."""
        if self._make is None:
            return
        self._timer.cancel()
        with self._lock, suppress(Exception):
            self._make = None
            if self._screen is not None:
                self._screen.close()
        _SHOWING.reset(self._token)

    def _show(self) -> None:
        """Show the bar, unless the operation has ended."""
        with self._lock, suppress(Exception):
            if self._make is not None:
                self._screen = self._make()
                self._screen.update(self.label, *self._steps)


def _find_screen() -> type[_Terminal] | type[_Notebook] | None:
    """Find where a bar can be seen: a notebook, or a terminal; None without one, or if bars are disabled."""
    if os.environ.get(SWITCH, "").lower() in SILENT:
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return _Notebook
    # A program without a console has no stderr.
    return _Terminal if sys.stderr is not None and sys.stderr.isatty() else None


class _Terminal:
    """A bar on stderr."""

    def __init__(self) -> None:
        parts = bars.TextColumn("{task.description}", markup=False), bars.BarColumn(), bars.TimeElapsedColumn()
        # Output printed meanwhile is not redirected.
        self._bars: Any = bars.Progress(
            *parts, console=console.Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._task = self._bars.add_task("", total=None)

    def update(self, label: str, done: int, total: int | None) -> None:
        """Update the bar."""
        self._bars.update(self._task, description=printable(label), completed=done, total=total)
        self._bars.start()  # has an effect once

    def close(self) -> None:
        """Remove the bar."""
        self._bars.stop()


class _Notebook:
    """A bar below a cell, empty again when it is done."""

    def __init__(self) -> None:
        self._handle: Any = notebook.display(_bundle(""), raw=True, display_id=True)
        self._updated = 0.0

    def update(self, label: str, done: int, total: int | None) -> None:
        """Update the bar, unless it was updated just now."""
        if time.monotonic() - self._updated < NOTEBOOK_SECONDS:
            return
        self._updated = time.monotonic()
        ends = "" if total is None else f' value="{done}" max="{total}"'
        text = printable(label)
        self._handle.update(_bundle(f"<progress{ends}></progress> {escape(text)}", text), raw=True)

    def close(self) -> None:
        """Remove the bar."""
        self._handle.update(_bundle(""), raw=True)


def _bundle(html: str, text: str = "") -> dict[str, str]:
    """Bundle HTML for a notebook with a plain text."""
    return {"text/html": html, "text/plain": text}
