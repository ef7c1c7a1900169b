"""Values of a grid in words: those that follow one another are a range."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["ranges"]


def ranges(chosen: Collection[float], measured: Sequence[float]) -> str:
    """Some of the measured values, for a sentence.

    Args:
        chosen: among the measured ones.
        measured: in their order.

    Returns:
        As "1, 3 to 10": from three that follow one another on, first and last; "" for none.

    Example:
        >>> ranges([0.1, 2, 3, 5], [0.1, 1, 2, 3, 5])
        '0.1, 2 to 5'
    """
    runs: list[list[float]] = []
    open_run = False
    for value in measured:
        if value not in chosen:
            open_run = False
        elif open_run:
            runs[-1].append(value)
        else:
            runs.append([value])
            open_run = True
    return ", ".join(
        f"{run[0]:g} to {run[-1]:g}" if len(run) > 2 else ", ".join(f"{value:g}" for value in run) for run in runs
    )
