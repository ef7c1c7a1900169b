"""What is under way, for whoever waits: a bar on stderr of a terminal, or below the cell of a notebook.

It shows up after a second, and only where somebody looks; a script whose stderr is no terminal, a pipe and a test see
nothing. `DISCREET_PROGRESS=off` silences it everywhere. It never writes to stdout, and says nothing but what is under
way and how many steps of it are done, which no record may decide.
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
"""Variable of the environment that silences all bars."""
SILENT = frozenset({"off", "no", "false", "0"})
WAIT_SECONDS = 1.0
"""Before a bar shows up."""
NOTEBOOK_SECONDS = 0.2
"""Between two changes of a bar in a notebook, at least."""
_SHOWING: ContextVar[bool] = ContextVar("discreet_progress", default=False)
"""Whether a bar is under way around this: those inside of it show nothing."""


class _Screen(Protocol):
    """Where a bar is drawn."""

    def update(self, label: str, done: int, total: int | None) -> None:
        """Draw it anew."""

    def close(self) -> None:
        """Take it away."""


def under_way(label: str) -> Bar:
    """Show a bar while something is under way, if it takes over a second and somebody looks.

    Args:
        label: what it is, in few words, none of them from a record.

    Returns:
        A context manager. What it gives takes `(done, total)` after each step, where there are steps, and its `label`
        can be changed. Inside of another bar it shows nothing.

    Raises:
        Nothing.

    Example:
        >>> with under_way("counting") as bar:
        ...     for done in range(3):
        ...         bar(done + 1, 3)
    """
    return Bar(label)


class Bar:
    """A bar, which shows up by itself after a second; see `under_way`.

    A bar that cannot be drawn ends nothing: what is under way may have been paid.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self._steps: tuple[int, int | None] = 0, None
        self._make: type[_Terminal] | type[_Notebook] | None = None
        self._screen: _Screen | None = None

    def __enter__(self) -> Bar:
        """Wait a second in the background, where a bar could be seen."""
        self._make = None if _SHOWING.get() else _find_screen()
        if self._make is not None:
            self._token: Token[bool] = _SHOWING.set(True)
            self._lock = threading.Lock()
            self._timer = threading.Timer(WAIT_SECONDS, copy_context().run, (self._show,))
            self._timer.daemon = True
            self._timer.start()
        return self

    def __call__(self, done: int, total: int) -> None:
        """Say that `done` of `total` steps are done."""
        self._steps = done, total
        if self._make is not None and self._screen is not None:
            with self._lock, suppress(Exception):
                self._screen.update(self.label, done, total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._make is None:
            return
        self._timer.cancel()
        with self._lock, suppress(Exception):
            self._make = None
            if self._screen is not None:
                self._screen.close()
        _SHOWING.reset(self._token)

    def _show(self) -> None:
        """Show the bar, unless what it waited for has ended."""
        with self._lock, suppress(Exception):
            if self._make is not None:
                self._screen = self._make()
                self._screen.update(self.label, *self._steps)


def _find_screen() -> type[_Terminal] | type[_Notebook] | None:
    """Find where a bar could be seen: a notebook, or a terminal; None where nobody looks, or it was silenced."""
    if os.environ.get(SWITCH, "").lower() in SILENT:
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return _Notebook
    # There is no stderr where a program has no console.
    return _Terminal if sys.stderr is not None and sys.stderr.isatty() else None


class _Terminal:
    """A bar on stderr."""

    def __init__(self) -> None:
        parts = bars.TextColumn("{task.description}", markup=False), bars.BarColumn(), bars.TimeElapsedColumn()
        # What is printed meanwhile goes where it would.
        self._bars: Any = bars.Progress(
            *parts, console=console.Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._task = self._bars.add_task("", total=None)

    def update(self, label: str, done: int, total: int | None) -> None:
        """Draw it anew."""
        self._bars.update(self._task, description=printable(label), completed=done, total=total)
        self._bars.start()  # once; not before there is something to show

    def close(self) -> None:
        """Take it away."""
        self._bars.stop()


class _Notebook:
    """A bar below a cell, which is empty again when it is done."""

    def __init__(self) -> None:
        self._handle: Any = notebook.display(_bundle(""), raw=True, display_id=True)
        self._drawn = 0.0

    def update(self, label: str, done: int, total: int | None) -> None:
        """Draw it anew, unless that was done just now."""
        if time.monotonic() - self._drawn < NOTEBOOK_SECONDS:
            return
        self._drawn = time.monotonic()
        ends = "" if total is None else f' value="{done}" max="{total}"'
        told = printable(label)
        self._handle.update(_bundle(f"<progress{ends}></progress> {escape(told)}", told), raw=True)

    def close(self) -> None:
        """Take it away."""
        self._handle.update(_bundle(""), raw=True)


def _bundle(html: str, text: str = "") -> dict[str, str]:
    """What a notebook shows, and what is shown where no HTML can be."""
    return {"text/html": html, "text/plain": text}
