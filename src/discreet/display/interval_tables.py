"""Results as tables, and numbers with intervals: the same rows as a frame, as text, as HTML and as a picture."""

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
"""Rows that a notebook shows; a frame has all."""
ROW_INCHES, PICTURE_INCHES = 0.28, 6.0
"""Height of a row of a picture, and its width."""
NUMBERS = ("mean", "lower", "upper", "sampling", "noise", "noise_error", "best", "law_lower", "law_upper", "level")
"""Columns that are numbers; what stands before them names a row."""
TOLD = ("query", "state", "name", "class", "response", "metric", "basis")
"""Columns whose values say what they are; any other, such as a variable's, is named beside its value in a picture."""


def frame_of_result(result: Tabular, library: Library) -> Any:
    """The rows of a result as a data frame; see `Tabular.to_frame`."""
    return frame_of(result.tidy(), library)


def html_of_result(result: Tabular) -> str:
    """The numbers of a result as a table with bars, for a notebook."""
    return html_table(result.tidy(), most=MOST_HTML_ROWS)


def plot_result(result: Tabular, axes: Axes | None) -> Axes:
    """Draw the intervals of a result; see `Intervals.plot`."""
    return _draw(result.tidy(), axes)


def frame_of(rows: Sequence[Mapping[str, Any]], library: Library = "pandas") -> Any:
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
    if library not in ("pandas", "polars"):
        raise InputError(f"a frame is of pandas, polars or arrow, not {shown(library)}")
    try:
        return table.to_pandas() if library == "pandas" else polars.from_arrow(table)
    except ImportError:
        raise InputError(f"{library} is not installed: pip install {library}, or ask for library='arrow'") from None


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
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


def html_table(rows: Sequence[Mapping[str, Any]], *, most: int | None = None) -> str:
    """Rows as a table of HTML, each interval with a bar; texts are escaped.

    Args:
        rows: as of `Intervals.tidy`; a first column that is the same as above is not said again.
        most: rows that are shown; None for all.

    Returns:
        A `<table>` element, and a line where rows are left out.

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
    """Rows as aligned text.

    Args:
        rows: as of `Intervals.tidy`.
        named: what the column "name" is called.
        width: columns of the terminal, as of `columns`.

    Returns:
        Lines: what names each row, its mean and interval, and where it is known the share of the noise.

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
    """Columns that name a row; the state is left out where every query has one, which it says itself."""
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in NUMBERS]
    told = len({row.get("query") for row in rows}) == len(rows) and not any("best" in row for row in rows)
    return [name for name in names if not ("query" in names and name == "state" and told)]


def _find_scales(rows: Sequence[Mapping[str, Any]]) -> dict[Any, tuple[float, float]]:
    """Ends of the line that each query's intervals lie on: 0 and 1 for probabilities.

    What has a name, such as a coefficient, is in the unit of its column, even where it lies between 0 and 1.
    """
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row.get("query"), []).append(row)
    found = {}
    for query, part in groups.items():
        low, high = min(row["lower"] for row in part), max(row["upper"] for row in part)
        share = low >= 0 and high <= 1 and not any("name" in row for row in part)
        found[query] = (0.0, 1.0) if share else (low, high)
    return found


def _form(ends: tuple[float, float]) -> str:
    """How numbers between two ends are written: probabilities with four decimals."""
    return ".4f" if ends == (0.0, 1.0) else ".5g"


def _write_range(row: Mapping[str, Any], which: str, form: str) -> str:
    """From one end of an interval to the other; nothing where there is none."""
    lower, upper = (row.get(f"{which}{end}") for end in ("lower", "upper"))
    return "" if lower is None else f"{lower:{form}} to {upper:{form}}"


def _write_share(noise: float | None) -> str:
    """A share as percent; nothing where it is not known."""
    return "" if noise is None or math.isnan(noise) else f"{100 * noise:.0f} %"


def _draw(rows: Sequence[Mapping[str, Any]], axes: Axes | None) -> Axes:
    """Draw rows from the top down, readable without colours."""
    axes = axes or new_axes(PICTURE_INCHES, max(1.2, ROW_INCHES * len(rows) + 0.7))
    places = range(len(rows), 0, -1)
    for place, row in zip(places, rows, strict=True):
        mean, lower, upper = row["mean"], row["lower"], row["upper"]
        axes.plot([lower, upper], [place, place], color="0.45", linewidth=1.2, marker="|", markersize=7)
        noise = row.get("noise")
        if noise is not None and not math.isnan(noise):
            part = math.sqrt(max(0.0, 1 - noise))
            ends = [mean - part * (mean - lower), mean + part * (upper - mean)]
            axes.plot(ends, [place, place], color="0.2", linewidth=4, solid_capstyle="butt")
        axes.plot([mean], [place], marker="o", markersize=5, markerfacecolor="white", markeredgecolor="black")
    alike = {name for name in rows[0] if len(rows) > 1 and len({str(row.get(name)) for row in rows}) == 1}
    names = [name for name in _find_texts(rows) if name not in alike]
    axes.set_yticks(list(places), [_label(row, names) for row in rows], parse_math=False)
    axes.margins(y=0.5 / max(1, len(rows)))
    return axes


def new_axes(width: float, height: float) -> Axes:
    """Axes of a new figure.

    Args:
        width: inches.
        height: inches.

    Raises:
        InputError: matplotlib is not installed (the extra `plot`).
    """
    try:
        made: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    except ImportError:
        raise InputError("pictures need matplotlib: pip install '.[plot]' in a clone of discreet") from None
    return made


def _label(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """What names a row, in one line."""
    said = {name: row[name] for name in names if row.get(name)}
    if "variable" in said and "state" in said:
        variable = said.pop("variable")
        said["state"] = f"{variable}={said['state']}"
        if said.get("query") == f"P({variable})":
            del said["query"]
    return printable("  ".join(str(value) if name in TOLD else f"{name}={value}" for name, value in said.items()))
