"""A progress bar for what takes over a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from discreet.posterior.joint_draws import LEAST_EFFECTIVE_DRAWS, Mixing

__all__ = ["LateBar", "mixing_shown"]


class LateBar:
    """A progress bar on stderr that shows up after one second, and only for a person.

    Args:
        label: what is under way.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.started = time.monotonic()
        self.progress: Progress | None = None
        self.task: TaskID | None = None

    def __enter__(self) -> LateBar:
        """Start the clock."""
        return self

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` steps are done."""
        if self.progress is None and sys.stderr.isatty() and time.monotonic() - self.started > 1:
            self.progress = Progress(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True)
            )
            self.task = self.progress.add_task(self.label, total=total)
            self.progress.start()
        if self.progress is not None and self.task is not None:
            self.progress.update(self.task, description=self.label, completed=done, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self.progress is not None:
            self.progress.stop()


def mixing_shown(bar: LateBar) -> Callable[[Mixing], None]:
    """A bar for Markov chains: how far the worst entry is from being worth enough draws, and R-hat."""

    def show(mixing: Mixing) -> None:
        bar.label = f"{mixing.sweeps:,} sweeps; {mixing.worst}: {mixing.effective:.0f} draws, R-hat {mixing.r_hat:.3f}"
        bar(int(min(mixing.effective, LEAST_EFFECTIVE_DRAWS)), LEAST_EFFECTIVE_DRAWS)

    return show
