"""Pictures that are readable in black and white and by colour-blind readers: lines differ in marker and dashes, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

__all__ = ["STYLES", "curves", "grid", "legend_below", "log_axis", "log_heights", "save_figure", "sideways", "style"]

STYLES: Sequence[Mapping[str, Any]] = (
    {"color": "black", "linestyle": "-", "marker": "o"},
    {"color": "#0060a0", "linestyle": "--", "marker": "s"},
    {"color": "#b04000", "linestyle": "-.", "marker": "^"},
    {"color": "#207020", "linestyle": (0, (1, 1)), "marker": "D"},
    {"color": "#7030a0", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
    {"color": "#707070", "linestyle": (0, (6, 3)), "marker": "x"},
    {"color": "#a07000", "linestyle": (0, (3, 1, 1, 1)), "marker": "P"},
    {"color": "#404040", "linestyle": (0, (2, 2)), "marker": "*"},
    {"color": "#a00060", "linestyle": (0, (8, 2, 2, 2)), "marker": "<"},
)
"""Up to nine lines; dark enough for print."""
TEXT: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "discreet",
}
"""Of all pictures, points; the salt makes the same SVG of the same numbers."""
matplotlib.rcParams.update(TEXT)
APART = 1.05
"""Factor between the places of two lines on a log axis."""


def style(place: int) -> dict[str, Any]:
    """Colour, dashes and marker of the line in a place."""
    return dict(STYLES[place % len(STYLES)])


def grid(rows: int, columns: int, *, width: float = 3.0, height: float = 2.5, **shared: Any) -> tuple[Figure, Any]:
    """A figure of panels.

    Args:
        rows, columns: of panels.
        width, height: of a panel, inches.
        shared: for `Figure.subplots`, as `sharex`.

    Returns:
        The figure, and panels of shape (rows, columns).
    """
    figure = Figure(figsize=(0.6 + width * columns, 0.7 + height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def curves(
    panel: Axes,
    frame: pd.DataFrame,
    x: str,
    by: str,
    order: Sequence[str],
    *,
    labels: Callable[[str], str] = str,
) -> None:
    """Means against a column, a line for each value of another, with bars of two standard errors.

    Args:
        panel: where to.
        frame: tidy rows of one metric, `value` in them.
        x: name of the column along the axis.
        by: name of the column that tells lines apart.
        order: its values; the place of each decides its style in all panels.
        labels: of the lines.
    """
    for place, name in enumerate(order):
        found = frame[frame[by] == name].groupby(x)["value"].agg(["mean", "std", "count"])
        if found.empty:
            continue
        errors = 2 * np.nan_to_num(found["std"] / np.sqrt(found["count"]))
        panel.errorbar(
            found.index.to_numpy(float),
            found["mean"],
            errors,
            label=labels(name),
            markersize=4,
            linewidth=1.1,
            elinewidth=0.8,
            capsize=2,
            **style(place),
        )


def log_axis(panel: Axes, ticks: Sequence[float], label: str) -> None:
    """A horizontal log axis with marks at the values that were measured."""
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(list(ticks)))
    panel.xaxis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in ticks]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel(label)


def log_heights(panel: Axes, *, within: Sequence[float] = (1.0,)) -> None:
    """A vertical log axis with plain numbers.

    Args:
        panel: whose axis.
        within: each decade, where numbers stand; (1, 2, 5) where there are few decades.
    """
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=within))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())


def sideways(frame: pd.DataFrame, x: str, by: str, order: Sequence[str]) -> pd.DataFrame:
    """The same rows with each line moved by a few per cent of x, so that bars do not cover each other on a log axis.

    Args:
        frame: tidy rows.
        x: name of the column along the axis, positive numbers.
        by: name of the column that tells lines apart.
        order: its values; the middle one stays where it is.

    Returns:
        A copy.
    """
    places = frame[by].map(list(order).index)
    return frame.assign(**{x: frame[x] * APART ** (places - (len(order) - 1) / 2)})


def legend_below(figure: Figure, *, columns: int = 3) -> None:
    """One legend for all panels, each line once."""
    handles = {
        label: handle for panel in figure.axes for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns, frameon=False)


def save_figure(figure: Figure, stem: Path) -> None:
    """Write a figure as SVG and PNG; `stem` is the path without the ending."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(stem.with_name(f"{stem.name}.svg"), metadata={"Date": None})
    figure.savefig(stem.with_name(f"{stem.name}.png"), dpi=130)
