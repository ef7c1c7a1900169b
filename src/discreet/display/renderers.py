"""Results as text, HTML, frames and pictures: one renderer for each, whatever the result.

A result says of which blocks it consists (`Result.content`): lines, facts, tables of text and of intervals, drawings.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.display.charts import interval_bar, sampling_ends
from discreet.display.text_tables import columns, fold, html_text
from discreet.errors import printable, require, require_word
from discreet.util.lazy_imports import lazy_import, load_module
from discreet.util.tabular import Block, Library

if TYPE_CHECKING:
    import polars
    import pyarrow as pa
    from matplotlib.axes import Axes
else:
    pa = lazy_import("pyarrow")
    polars = lazy_import("polars")

pyplot = lazy_import("matplotlib.pyplot")

MOST_HTML_ROWS = 200
"""Rows that a notebook shows; a frame has all."""
ROW_INCHES, PICTURE_INCHES = 0.28, 6.0
"""Height of a row of a picture, and its width."""
NUMBERS = ("mean", "lower", "upper", "sampling", "noise", "noise_error", "best", "law_lower", "law_upper", "level")
"""Columns that are numbers; what stands before them names a row."""
TOLD = ("query", "state", "name", "class", "response", "metric", "basis")
"""Columns whose values say what they are; any other, such as a variable's, is named beside its value in a picture."""

Row = Mapping[str, Any]


# -------------------------------------------------------------------------------------------------------------- blocks


def text_of(content: Iterable[str | Block], width: int | None = None) -> str:
    """Write what a result shows as text.

    Args:
        content: lines and blocks.
        width: columns of the terminal, as of `columns`.
    """
    parts = [fold(printable(block), width) if isinstance(block, str) else block.text(width) for block in content]
    return "\n".join(part for part in parts if part is not None)


def html_of(content: Iterable[str | Block]) -> str:
    """Write what a result shows as HTML.

    Args:
        content: lines and blocks.
    """
    return "\n".join(f"<p>{html_text(part)}</p>" if isinstance(part, str) else part.html() for part in content if part)


@dataclass(frozen=True)
class TextTable:
    """Cells under their headings.

    Args:
        header: a heading for each column.
        rows: a cell for each column.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self, width: int | None) -> str:
        """Align the columns."""
        return columns(self.header, self.rows, width)

    def html(self) -> str:
        """Write a table whose texts are escaped."""
        return _write_html(self.header, [[html_text(cell) for cell in row] for row in self.rows])


@dataclass(frozen=True)
class FactList:
    """Facts, each with its name.

    Args:
        facts: by name.
    """

    facts: Mapping[str, str]

    def text(self, width: int | None) -> str:
        """Write a line for each."""
        return "\n".join(fold(f"{name}: {printable(fact)}", width) for name, fact in self.facts.items())

    def html(self) -> str:
        """Write a table with a row for each."""
        rows = (f'<tr><th scope="row">{name}</th><td>{html_text(fact)}</td></tr>' for name, fact in self.facts.items())
        return f'<table style="text-align: left"><tbody>{"".join(rows)}</tbody></table>'


@dataclass(frozen=True)
class Picture:
    """A drawing for notebooks, which no text has.

    Args:
        draw: makes its HTML.
    """

    draw: Callable[[], str]

    def text(self, width: int | None) -> None:
        """Write nothing."""

    def html(self) -> str:
        """Show it."""
        return self.draw()


@dataclass(frozen=True)
class IntervalTable:
    """Numbers with their intervals, a row each.

    Args:
        rows: as of `Result.tidy`. The first name of a row, and what the row rests on, are left out where the row above
            has the same first name. A row may continue the one above with more names, and without numbers.
        named: heading of the column "name".
        most: rows that a notebook shows; None for all.

    Example:
        >>> print(IntervalTable([{"name": "age", "mean": 0.3, "lower": 0.2, "upper": 0.4, "level": 0.9}]).text(None))
        name  mean  90 % interval
        age   0.3   0.2 to 0.4
        >>> "&lt;b&gt;" in IntervalTable([{"state": "<b>", "mean": 0.3, "lower": 0.2, "upper": 0.4}]).html()
        True
    """

    rows: Sequence[Row]
    named: str = "name"
    most: int | None = MOST_HTML_ROWS

    def text(self, width: int | None) -> str:
        """Align names, means, intervals and what else is known."""
        return columns(*self.cells(), width)

    def html(self) -> str:
        """Write a table with a bar for each interval, and how many rows are left out."""
        if not self.rows:
            return "<p>no rows</p>"
        header, cells = self.cells()
        scales = _find_scales(self.rows)
        lines = [
            [*map(html_text, line), _draw_bar(row, scales[row.get("query")])]
            for row, line in zip(self.rows[: self.most], cells, strict=False)
        ]
        left = len(self.rows) - len(lines)
        return _write_html([*header, ""], lines) + (f"\n<p>{left:,} more rows: to_frame() has them</p>" if left else "")

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """List headings, and the cells of each row."""
        keys = dict.fromkeys(name for row in self.rows for name in row)
        names = [name for name in keys if name not in (*NUMBERS, "basis")]
        levels = {row["level"] for row in self.rows if "level" in row}
        interval = f"{100 * levels.pop():.6g} % interval" if len(levels) == 1 else "interval"
        more = [name for name in MORE if any(row.get(name) is not None for row in self.rows)]
        scales, previous = _find_scales(self.rows), None
        cells = []
        for row in self.rows:
            form = _form(scales[row.get("query")])
            labels = ["" if row.get(name) is None else str(row[name]) for name in names]
            repeated = len(names) > 1 and labels[0] == previous
            previous = labels[0] if names else None
            numbers = [f"{row['mean']:{form}}" if "mean" in row else "", _write_range(row, "", form)]
            beside = ["" if repeated and name == "basis" else MORE[name][1](row, form) for name in more]
            cells.append([*(["", *labels[1:]] if repeated else labels), *numbers, *beside])
        heads = [self.named if name == "name" else name for name in names]
        return [*heads, "mean", interval, *(MORE[name][0] for name in more)], cells


def _write_html(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table of HTML, of cells that are HTML."""
    head = "".join(f'<th scope="col">{html_text(name)}</th>' if name else "<td></td>" for name in header)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _draw_bar(row: Row, ends: tuple[float, float]) -> str:
    """Draw the interval of a row; empty without one."""
    if "mean" not in row:
        return ""
    return interval_bar(row["mean"], row["lower"], row["upper"], noise=row.get("noise"), ends=ends)


# -------------------------------------------------------------------------------------------------------------- frames


def frame_of(rows: Sequence[Row], library: Library = "pandas") -> Any:
    """Rows as a data frame.

    Args:
        rows: with the same keys; a key that one lacks is null there.
        library: "pandas", "polars" or "arrow".

    Returns:
        The frame.

    Raises:
        InputError: another library, or one that is not installed.

    Example:
        >>> frame_of([{"state": "yes", "mean": 0.3}], "arrow").to_pydict()
        {'state': ['yes'], 'mean': [0.3]}
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    if library == "arrow":
        return table
    require_word(library, Library, "a frame is of")
    load_module(library)
    return table.to_pandas() if library == "pandas" else polars.from_arrow(table)


def csv_text(rows: Sequence[Row]) -> str:
    """Rows as CSV under their names; what is not known of one is empty.

    Example:
        >>> csv_text([{"state": "yes", "mean": 0.3}, {"state": "no"}]).splitlines()
        ['state,mean', 'yes,0.3', 'no,']
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# ------------------------------------------------------------------------------------------------------------- numbers


def _find_texts(rows: Sequence[Row]) -> list[str]:
    """List the columns that name a row, without the state if each query has one row, whose state it names."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in NUMBERS]
    single = len({row.get("query") for row in rows}) == len(rows) and not any("best" in row for row in rows)
    return [name for name in names if not ("query" in names and name == "state" and single)]


def _find_scales(rows: Sequence[Row]) -> dict[Any, tuple[float, float]]:
    """Find the ends of the line that each query's intervals lie on: 0 and 1 for probabilities.

    Named numbers, such as coefficients, are in the units of their columns, even between 0 and 1.
    """
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.get("query"), []).extend([row] if "lower" in row else [])
    scales = {}
    for query, part in groups.items():
        low, high = min((row["lower"] for row in part), default=0.0), max((row["upper"] for row in part), default=0.0)
        share = low >= 0 and high <= 1 and not any("name" in row for row in part)
        scales[query] = (0.0, 1.0) if share else (low, high)
    return scales


def _form(ends: tuple[float, float]) -> str:
    """How numbers between two ends are written: probabilities with four decimals."""
    return ".4f" if ends == (0.0, 1.0) else ".5g"


def _write_range(row: Row, which: str, form: str) -> str:
    """From one end of an interval to the other; nothing where there is none."""
    lower, upper = (row.get(f"{which}{end}") for end in ("lower", "upper"))
    return "" if lower is None else f"{lower:{form}} to {upper:{form}}"


def _write_share(share: float | None) -> str:
    """A share as percent; nothing where it is not known."""
    return "" if share is None or math.isnan(share) else f"{100 * share:.0f} %"


def _write_noise(row: Row) -> str:
    """The share of the noise as percent, to the first digit of its standard error where that is known: `38 ± 3 %`."""
    share, error = row.get("noise"), row.get("noise_error")
    if share is None or error is None or math.isnan(share) or math.isnan(error):
        return _write_share(share)
    unit = 10.0 ** max(math.floor(math.log10(max(100 * error, 1.0))), 0)
    percent, give = (unit * round(100 * number / unit) for number in (share, error))
    return f"{percent:.0f} ± {give:.0f} %" if give else f"{percent:.0f} %"


MORE: Mapping[str, tuple[str, Callable[[Row, str], str]]] = {
    "law_lower": ("by the law in bins", lambda row, form: _write_range(row, "law_", form)),
    "best": ("best", lambda row, _: _write_share(row.get("best"))),
    "noise": ("noise", lambda row, _: _write_noise(row)),
    "basis": ("rests on", lambda row, _: row.get("basis") or ""),
}
"""Columns beside an interval, where something is known for them: heading, and what writes a cell."""


# ------------------------------------------------------------------------------------------------------------ pictures


def plot_intervals(rows: Sequence[Row], axes: Axes | None) -> Axes:
    """Draw rows from the top down, readable without colours; see `Result.plot`."""
    require(all("mean" in row and "lower" in row for row in rows), "there are no intervals to draw: see `to_frame`")
    axes = axes or new_axes(PICTURE_INCHES, max(1.2, ROW_INCHES * len(rows) + 0.7))
    places = range(len(rows), 0, -1)
    for place, row in zip(places, rows, strict=True):
        mean, lower, upper = row["mean"], row["lower"], row["upper"]
        axes.plot([lower, upper], [place, place], color="0.45", linewidth=1.2, marker="|", markersize=7)
        if inner := sampling_ends(mean, lower, upper, row.get("noise")):
            axes.plot(inner, [place, place], color="0.2", linewidth=4, solid_capstyle="butt")
        axes.plot([mean], [place], marker="o", markersize=5, markerfacecolor="white", markeredgecolor="black")
    alike = {name for name in rows[0] if len(rows) > 1 and len({str(row.get(name)) for row in rows}) == 1}
    names = [name for name in _find_texts(rows) if name not in alike]
    axes.set_yticks(list(places), [_label(row, names) for row in rows], parse_math=False)
    axes.margins(y=0.5 / max(1, len(rows)))
    return axes


def new_axes(width: float, height: float) -> Axes:
    """Make the axes of a new figure.

    Args:
        width: inches.
        height: inches.

    Raises:
        InputError: matplotlib is not installed (the extra `plot`).
    """
    axes: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    return axes


def _label(row: Row, names: Sequence[str]) -> str:
    """Write the name of a row in one line."""
    texts = {name: row[name] for name in names if row.get(name)}
    if "variable" in texts and "state" in texts:
        variable = texts.pop("variable")
        texts["state"] = f"{variable}={texts['state']}"
        if texts.get("query") == f"P({variable})":
            del texts["query"]
    return printable("  ".join(str(value) if name in TOLD else f"{name}={value}" for name, value in texts.items()))
