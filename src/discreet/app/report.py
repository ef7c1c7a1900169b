"""What a person reads: aligned text, one-line summaries, and a progress bar for what takes over a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from discreet.posterior.noise_aware import drowned_rows
from discreet.privacy.guarantee import as_text
from discreet.privacy.ledger import Balance
from discreet.privacy.release import Release
from discreet.queries.query import Answer

__all__ = ["LateBar", "answer_lines", "columns", "release_lines"]


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as left-aligned text under a header."""
    listed = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in listed) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed]
    return "\n".join(lines)


def answer_lines(answers: Iterable[Answer]) -> str:
    """Answers as one table."""
    rows = []
    level = 0.0
    for answer in answers:
        level = answer.level
        for index, row in enumerate(answer.rows):
            state = ", ".join(f"{name}={value}" for name, value in dict(row["state"]).items())  # type: ignore[call-overload]
            interval = f"{row['lower']:.4f} to {row['upper']:.4f}"
            rows.append((answer.query if index == 0 else "", state, f"{row['mean']:.4f}", interval))
    return columns(("query", "state", "mean", f"{100 * level:g} % interval"), rows)


def release_lines(release: Release, balance: Balance) -> str:
    """What a release cost, how large its noise is, and where it says little; nothing here comes from the records."""
    scales = sorted(set(release.payload.scales.values()))
    noise = f"{scales[0]:.4g}" if len(scales) == 1 else f"{scales[0]:.4g} to {scales[-1]:.4g}"
    limit = balance.limit
    lines = [
        f"released {release.id}: {release.guarantee}",
        f"spent epsilon {as_text(balance.epsilon_spent)} of {as_text(limit.epsilon)}, "
        f"left {as_text(balance.epsilon_left)}"
        + (f"; delta left {as_text(balance.delta_left)}" if limit.delta else ""),
        f"noise in every cell: discrete Laplace of scale {noise} records",
    ]
    drowned = drowned_rows(release)
    if drowned:
        named = ", ".join(f"{node} {few} of {all_}" for node, (few, all_) in list(drowned.items())[:8])
        more = f", and {len(drowned) - 8} more families" if len(drowned) > 8 else ""
        lines.append(f"rows drowned by the noise (their total is below its standard deviation): {named}{more}")
    else:
        lines.append("no row is drowned by the noise")
    return "\n".join(lines)


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
            self.progress.update(self.task, completed=done, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self.progress is not None:
            self.progress.stop()
