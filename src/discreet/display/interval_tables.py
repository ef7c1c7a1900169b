"""Write results as tables, and numbers with intervals: as a frame, as text, as HTML and as a picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discreet.display.charts import interval_bar
from discreet.display.text_tables import columns, html_text
from discreet.errors import InputError, printable, shown
from discreet.util.framed import Library, Tabular
from discreet.util.lazy_imports import lazy_import

if TYPE_CHECKING:
    import polars
    import pyarrow as pa
    from matplotlib.axes import Axes
else:
    pa = lazy_import("pyarrow")
    polars = lazy_import("polars")

pyplot = lazy_import("matplotlib.pyplot")

MOST_HTML_ROWS = 200
"""Most rows that a notebook shows; a frame has all."""
ROW_INCHES, PICTURE_INCHES = 0.28, 6.0
"""Height of a picture's row, and width of the picture, in inches."""
NUMBERS = ("mean", "lower", "upper", "sampling", "noise", "noise_error", "best", "law_lower", "law_upper", "level")
"""Columns of numbers; the columns before them name a row."""
UNNAMED = ("query", "state", "name", "class", "response", "metric", "basis")
"""Columns whose values explain themselves; in a picture, other columns are named beside their values."""


def frame_of_result(result: Tabular, library: Library) -> Any:
    """Return the rows of a result as a data frame; see `Tabular.to_frame`."""
    return frame_of(result.tidy(), library)


def html_of_result(result: Tabular) -> str:
    """Write the numbers of a result as a table with bars, for a notebook."""
    return html_table(result.tidy(), most=MOST_HTML_ROWS)


def plot_result(result: Tabular, axes: Axes | None) -> Axes:
    """Draw the intervals of a result; see `Intervals.plot`."""
    return _draw(result.tidy(), axes)


def frame_of(rows: Sequence[Mapping[str, Any]], library: Library = "pandas") -> Any:
    """Make a data frame of rows.

    Args:
        rows: with the same keys; a missing key becomes null.
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
    if library not in ("pandas", "polars"):
        raise InputError(f"library is pandas, polars or arrow, not {shown(library)}")
    try:
        return table.to_pandas() if library == "pandas" else polars.from_arrow(table)
    except ImportError:
        raise InputError(f"{library} is not installed: pip install {library}, or use library='arrow'") from None


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows as CSV with a header; unknown values are empty.

    Example:
        >>> csv_text([{"state": "yes", "mean": 0.3}, {"state": "no"}]).splitlines()
        ['state,mean', 'yes,0.3', 'no,']
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def html_table(rows: Sequence[Mapping[str, Any]], *, most: int | None = None) -> str:
    """Write rows as a table of HTML, each interval with a bar; texts are escaped.

    Args:
        rows: as in `Intervals.tidy`; a first column that equals the one above is left empty.
        most: rows to show; None for all.

    Returns:
        A `<table>` element, and a line if rows are left out.

    Example:
        >>> "&lt;b&gt;" in html_table([{"state": "<b>", "mean": 0.3, "lower": 0.2, "upper": 0.4, "noise": 0.5}])
        True
    """
    if not rows:
        return "<p>no rows</p>"
    texts = _find_texts(rows)
    scales = _find_scales(rows)
    noise = any(row.get("noise") is not None for row in rows)
    levels = {row["level"] for row in rows if "level" in row}
    interval = f"{100 * levels.pop():g} % interval" if len(levels) == 1 else "interval"
    law = any("law_lower" in row for row in rows)
    heads = [*texts, "estimate", interval, *(["by the law in bins"] if law else []), *(["noise"] if noise else []), ""]
    head = "".join(f'<th scope="col">{html_text(name)}</th>' if name else "<td></td>" for name in heads)
    lines = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    above = None
    for row in rows[:most]:
        ends = scales[row.get("query")]
        form = _form(ends)
        named = [html_text("" if row.get(name) is None else str(row[name])) for name in texts]
        cells = ["", *named[1:]] if len(named) > 1 and named[0] == above else named
        above = named[0] if named else None
        cells = [*cells, f"{row['mean']:{form}}", _write_range(row, "", form)]
        cells += [_write_range(row, "law_", form)] if law else []
        cells += [_write_share(row.get("noise"))] if noise else []
        bar = interval_bar(row["mean"], row["lower"], row["upper"], noise=row.get("noise"), ends=ends)
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in [*cells, bar]) + "</tr>")
    lines.append("</tbody></table>")
    if most is not None and len(rows) > most:
        lines.append(f"<p>{len(rows) - most:,} more rows: to_frame() has them</p>")
    return "\n".join(lines)


def text_table(rows: Sequence[Mapping[str, Any]], *, named: str = "name", width: int | None = None) -> str:
    """Write rows as aligned text.

    Args:
        rows: as in `Intervals.tidy`.
        named: heading of the column "name".
        width: columns of the terminal, as in `columns`.

    Returns:
        Lines: name of each row, its mean and interval, and the noise share if known.

    Example:
        >>> print(text_table([{"name": "age", "mean": 0.3, "lower": 0.2, "upper": 0.4, "level": 0.9}]))
        name  mean  90 % interval
        age   0.3   0.2 to 0.4
    """
    texts = list(dict.fromkeys(name for row in rows for name in row if name not in NUMBERS))
    level = f"{100 * rows[0]['level']:.6g} % interval" if rows and "level" in rows[0] else "interval"
    scales = _find_scales(rows)
    shares = [name for name in ("best", "noise") if any(row.get(name) is not None for row in rows)]
    lines = [
        [
            *("" if row.get(name) is None else str(row[name]) for name in texts),
            f"{row['mean']:{_form(scales[row.get('query')])}}",
            _write_range(row, "", _form(scales[row.get("query")])),
            *(_write_share(row.get(name)) for name in shares),
        ]
        for row in rows
    ]
    return columns([*(named if name == "name" else name for name in texts), "mean", level, *shares], lines, width)


def _find_texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the columns that name a row, without the state if every query has one row."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in NUMBERS]
    single = len({row.get("query") for row in rows}) == len(rows) and not any("best" in row for row in rows)
    return [name for name in names if not ("query" in names and name == "state" and single)]


def _find_scales(rows: Sequence[Mapping[str, Any]]) -> dict[Any, tuple[float, float]]:
    """Find the ends of the line for each query's intervals: 0 and 1 for probabilities.

    Named numbers, such as coefficients, are in the unit of their column, even between 0 and 1.
    """
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row.get("query"), []).append(row)
    scales = {}
    for query, group in groups.items():
        low, high = min(row["lower"] for row in group), max(row["upper"] for row in group)
        share = low >= 0 and high <= 1 and not any("name" in row for row in group)
        scales[query] = (0.0, 1.0) if share else (low, high)
    return scales


def _form(ends: tuple[float, float]) -> str:
    """Choose the format of numbers between two ends: probabilities have four decimals."""
    return ".4f" if ends == (0.0, 1.0) else ".5g"


def _write_range(row: Mapping[str, Any], which: str, form: str) -> str:
    """Write an interval from its lower to its upper end; "" without one."""
    lower, upper = (row.get(f"{which}{end}") for end in ("lower", "upper"))
    return "" if lower is None else f"{lower:{form}} to {upper:{form}}"


def _write_share(noise: float | None) -> str:
    """Write a share as percent; "" if unknown."""
    return "" if noise is None or math.isnan(noise) else f"{100 * noise:.0f} %"


def _draw(rows: Sequence[Mapping[str, Any]], axes: Axes | None) -> Axes:
    """Draw rows from the top down, readable without colours."""
    axes = axes or new_axes(PICTURE_INCHES, max(1.2, ROW_INCHES * len(rows) + 0.7))
    positions = range(len(rows), 0, -1)
    for position, row in zip(positions, rows, strict=True):
        mean, lower, upper = row["mean"], row["lower"], row["upper"]
        axes.plot([lower, upper], [position, position], color="0.45", linewidth=1.2, marker="|", markersize=7)
        noise = row.get("noise")
        if noise is not None and not math.isnan(noise):
            root = math.sqrt(max(0.0, 1 - noise))
            ends = [mean - root * (mean - lower), mean + root * (upper - mean)]
            axes.plot(ends, [position, position], color="0.2", linewidth=4, solid_capstyle="butt")
        axes.plot([mean], [position], marker="o", markersize=5, markerfacecolor="white", markeredgecolor="black")
    alike = {name for name in rows[0] if len(rows) > 1 and len({str(row.get(name)) for row in rows}) == 1}
    names = [name for name in _find_texts(rows) if name not in alike]
    axes.set_yticks(list(positions), [_label(row, names) for row in rows], parse_math=False)
    axes.margins(y=0.5 / max(1, len(rows)))
    return axes


def new_axes(width: float, height: float) -> Axes:
    """Make axes of a new figure.

    Args:
        width: inches.
        height: inches.

    Raises:
        InputError: matplotlib is not installed (the extra `plot`).
    """
    try:
        axes: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    except ImportError:
        raise InputError("pictures need matplotlib: pip install '.[plot]' in a clone of discreet") from None
    return axes


def _label(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Write the name of a row, in one line."""
    values = {name: row[name] for name in names if row.get(name)}
    if "variable" in values and "state" in values:
        variable = values.pop("variable")
        values["state"] = f"{variable}={values['state']}"
        if values.get("query") == f"P({variable})":
            del values["query"]
    return printable("  ".join(str(value) if name in UNNAMED else f"{name}={value}" for name, value in values.items()))
