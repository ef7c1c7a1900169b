"""Write tables as aligned text, as wide as a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from discreet.errors import printable

GAP = 2
"""Spaces between two columns, and before lines below a title."""
LEAST_TEXT = 16
"""Least width of a column of text, in columns of the terminal, before its texts move above their rows."""
NUMBER = re.compile(r"[-+]?(\d|nan|inf)")
"""Beginning of cells that are not wrapped: numbers, intervals, shares."""

Cells = Sequence[str]


def with_noun(number: int, word: str) -> str:
    """Write a number and its noun: `1 arc`, `2 arcs`.

    Example:
        >>> with_noun(1, "arc"), with_noun(2000, "arc")
        ('1 arc', '2,000 arcs')
    """
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def html_text(text: object) -> str:
    """Escape a text for HTML and XML, without tags and invisible characters."""
    return escape(printable(str(text)))


def columns_of(text: str) -> int:
    """Count the columns of a text in a terminal: two for wide letters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(mark) in "WF" else not unicodedata.combining(mark) for mark in text)


def cut(text: str, limit: int) -> str:
    """Cut a text to a number of columns of a terminal.

    Example:
        >>> cut("a long name", 8)
        'a lon...'
    """
    if columns_of(text) <= limit:
        return text
    head = text[: limit - 3]
    while columns_of(head) > limit - 3:
        head = head[:-1]
    return head + "..."


def columns(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> str:
    """Write rows as left-aligned text under a header.

    Args:
        header: headings of the columns.
        rows: a cell for each column; control characters are escaped.
        width: columns of the terminal, which no line exceeds: long texts are wrapped at spaces; if too little room is
            left, those of the first columns are put above their rows. A table whose numbers alone are wider is not
            changed. None wraps nothing.

    Returns:
        Lines.

    Example:
        >>> print(columns(("query", "mean"), [("P(lung=yes | smoke=yes)", "0.1004")], width=24))
        query             mean
        P(lung=yes |      0.1004
        smoke=yes)
    """
    listed = [[printable(cell) for cell in row] for row in (header, *rows)]
    titles, widths = _fit(listed, width)
    lines: list[str] = []
    for row in listed:
        for level, title in enumerate(row[:titles]):
            indent = " " * (GAP * level)
            lines += [indent + piece for piece in _break(title, (width or 0) - len(indent)) if piece]
        lines += _lay(row[titles:], widths, " " * (GAP * titles))
    return "\n".join(lines)


def fold(text: str, width: int | None) -> str:
    """Wrap lines that are longer than the terminal at spaces; continuations are indented a little more.

    Args:
        text: lines; control characters are escaped.
        width: columns of the terminal; None wraps nothing.

    Returns:
        Lines. Words are never split, however long, so that paths and addresses can be copied.

    Example:
        >>> print(fold("network: taken as it is", 16))
        network: taken
          as it is
    """
    text = printable(text, "\n")
    if width is None:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        if columns_of(line) <= width:
            lines.append(line)
            continue
        inner = line.lstrip(" ")
        pad = " " * min(len(line) - len(inner), width // 2)
        first, *_ = _break(inner, width - len(pad), anywhere=False)
        rest = inner.removeprefix(first).lstrip(" ")
        more = _break(rest, max(1, width - len(pad) - GAP), anywhere=False) if rest else []
        lines += [pad + first, *(f"{pad}{' ' * GAP}{piece}" for piece in more)]
    return "\n".join(lines)


def _fit(listed: Sequence[Cells], width: int | None) -> tuple[int, list[int]]:
    """Find how many of the first columns go above their rows, and the widths of the others."""
    natural = [max(map(columns_of, column)) for column in zip(*listed, strict=True)]
    if width is None:
        return 0, natural
    floors = [_find_floor(column, size) for column, size in zip(zip(*listed, strict=True), natural, strict=True)]
    for titles in range(len(natural)):
        sizes, least = natural[titles:], floors[titles:]
        room = width - GAP * (len(sizes) - 1 + titles)
        if sum(least) <= room:
            widest = max(sizes)
            while sum(map(min, sizes, (max(floor, widest) for floor in least))) > room:
                widest -= 1
            return titles, [min(size, max(floor, widest)) for size, floor in zip(sizes, least, strict=True)]
    return 0, natural


def _find_floor(column: Cells, natural: int) -> int:
    """Find the least width of a column: numbers, and words of their headings, are never split."""
    if any(NUMBER.match(cell) is None for cell in column[1:] if cell):
        return min(natural, LEAST_TEXT)
    return max([*map(columns_of, column[1:]), *map(columns_of, column[0].split(" "))])


def _lay(cells: Cells, widths: Sequence[int], indent: str) -> Iterator[str]:
    """Lay out the cells of a row side by side, on as many lines as the longest needs."""
    wrapped = [_break(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for line in range(max(map(len, wrapped)) if any(cells) else 0):
        texts = [cell_lines[line] if line < len(cell_lines) else "" for cell_lines in wrapped]
        padded = [text + " " * (width - columns_of(text)) for text, width in zip(texts, widths, strict=True)]
        yield (indent + (" " * GAP).join(padded)).rstrip()


def _break(text: str, width: int, *, anywhere: bool = True) -> list[str]:
    """Wrap a text into lines at spaces; a word longer than a line is split anywhere, or kept."""
    if columns_of(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if columns_of(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        if not anywhere:
            lines[-1] = word
            continue
        for mark in word:
            if lines[-1] and columns_of(lines[-1] + mark) > width:
                lines.append("")
            lines[-1] += mark
    return lines
