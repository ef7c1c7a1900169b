"""Tables as aligned text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["columns"]


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as left-aligned text under a header."""
    listed = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in listed) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed]
    return "\n".join(lines)
