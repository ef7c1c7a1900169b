"""Pictures of calibration, for black and white print: coverage and width against epsilon, and ranks of the truth.

Every picture is written as SVG and as PNG. Needs matplotlib (extra `bench`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator, MaxNLocator, NullLocator

from .coverage import LEVEL, Cell, Estimated
from .ranks import LAST_RANK, Ranked, band, bins_for, uniformity

__all__ = ["draw_coverage", "draw_growth", "draw_ranks"]

STYLES: dict[str, dict[str, Any]] = {
    "exact": {"color": "black", "linestyle": "-", "marker": "o"},
    "pooled": {"color": "#0060a0", "linestyle": "--", "marker": "s"},
    "particles": {"color": "#207020", "linestyle": (0, (1, 1)), "marker": "D"},
    "default": {"color": "#7030a0", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
    "plug-in": {"color": "#707070", "linestyle": (0, (6, 3)), "marker": "x"},
}
"""Methods differ in marker and line style as well as in colour."""
KINDS = ("entries", "marginals", "conditionals")
APART = 0.06
"""Distance of the methods' points, in units of log10(epsilon), so that error bars do not hide each other."""
GREY = "0.88"
TEXT: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 9,
    "svg.hashsalt": "discreet",
}
"""Of all pictures, points; the salt makes the same SVG of the same numbers."""


def draw_coverage(results: Sequence[Estimated], folder: Path) -> list[Path]:
    """Coverage and mean width against epsilon: rows of panels are kinds of numbers, columns are mechanisms.

    Args:
        results: of any cells; each network, relation and law of the truths gets two pictures.
        folder: where to.

    Returns:
        The files.
    """
    written = []
    for key in dict.fromkeys(_setting(one.cell) for one in results):
        some = [one for one in results if _setting(one.cell) == key and one.quantity in KINDS]
        for what in ("coverage", "width"):
            with matplotlib.rc_context(TEXT):
                written += _saved(_against_epsilon(some, what), folder / f"{what}-{_slug(key)}")
    return written


def draw_growth(tables: Mapping[str, Sequence[tuple[int, float, float]]], path: Path) -> None:
    """CPU seconds and peak memory against each number that grows; dashed is what is proportional to it.

    Args:
        tables: by what grows: (the number, CPU seconds, GiB), for each size.
        path: of the picture.
    """
    with matplotlib.rc_context({**TEXT, "svg.fonttype": "none"}):
        figure = Figure(figsize=(1.8 * len(tables) + 0.6, 3.8), layout="constrained")
        panels = figure.subplots(2, len(tables), sharex="col", sharey="row", squeeze=False)
        for (above, below), (name, lines) in zip(panels.T, tables.items(), strict=True):
            sizes, seconds, memory = map(np.array, zip(*lines, strict=True))
            above.loglog(sizes, seconds, color="black", marker="o")
            above.loglog(sizes, seconds[-1] * sizes / sizes[-1], color="0.6", linestyle="--", zorder=0)
            above.set_ylim(0.02, 100)
            above.yaxis.set_major_locator(FixedLocator([0.1, 1, 10, 100]))
            above.yaxis.set_major_formatter(FixedFormatter([".1", "1", "10", "100"]))
            below.semilogx(sizes, memory, color="black", marker="o")
            below.xaxis.set_major_locator(FixedLocator(sizes.tolist()))
            below.xaxis.set_major_formatter(FixedFormatter([_short(size) for size in sizes.tolist()]))
            for panel in (above, below):
                panel.grid(color=GREY)
                panel.xaxis.set_minor_locator(NullLocator())
                panel.yaxis.set_minor_locator(NullLocator())
            below.set_xlabel(name)
        panels[1, 0].set_ylim(0, 1.1 * max(gib for lines in tables.values() for *_, gib in lines))
        panels[0, 0].set_ylabel("CPU seconds")
        panels[1, 0].set_ylabel("peak GiB")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _short(number: int) -> str:
    """Such as 10k."""
    return f"{number}" if number < 1000 else f"{number // 1000}k" if number < 10**6 else f"{number // 10**6}M"


def _setting(cell: Cell) -> tuple[str, ...]:
    """What is the same in one picture."""
    law = "own probabilities" if cell.concentration is None else f"Dirichlet({cell.concentration:g}) truths"
    return cell.network, law, f"{cell.records:,} records", f"relation {cell.relation}"


def _against_epsilon(results: Sequence[Estimated], what: str) -> Figure:
    """One picture; `what` is "coverage" or "width"."""
    mechanisms = list(dict.fromkeys(one.cell.mechanism for one in results))
    methods = [name for name in STYLES if any(one.method == name for one in results)]
    epsilons = sorted({one.cell.epsilon for one in results}, key=float)
    figure = Figure(figsize=(1.1 + 1.75 * max(len(mechanisms), 2), 6.4), layout="constrained")
    panels = figure.subplots(len(KINDS), len(mechanisms), sharex=True, sharey="row", squeeze=False)
    for row, kind in enumerate(KINDS):
        for column, mechanism in enumerate(mechanisms):
            panel = panels[row, column]
            some = [one for one in results if (one.quantity, one.cell.mechanism) == (kind, mechanism)]
            _lines(panel, some, methods, what)
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(FixedLocator([float(epsilon) for epsilon in epsilons]))
            panel.xaxis.set_major_formatter(FixedFormatter(epsilons))
            panel.xaxis.set_minor_locator(NullLocator())
            panel.margins(x=0.14)
            if row == 0:
                panel.set_title(mechanism)
            if row == len(KINDS) - 1:
                panel.set_xlabel("epsilon (nats, log scale)")
        label = "held (%)" if what == "coverage" else "width (probability,\nlog scale)"
        panels[row, 0].set_ylabel(f"{kind}\n{label}")
        _limits(panels[row, 0], what)
    title = "Truths held by 95 % intervals" if what == "coverage" else "Mean width of 95 % intervals"
    bars = "bars: two standard errors by run" + ("; grey: 93 to 97 %" if what == "coverage" else "")
    figure.suptitle(f"{title}\n{'; '.join(_setting(results[0].cell))}\n{bars}", fontsize=10)
    handles = {line.get_label(): line for panel in panels.flat for line in panel.get_legend_handles_labels()[0]}
    shown = [name for name in methods if name in handles]
    figure.legend(
        [handles[name] for name in shown],
        shown,
        loc="outside lower center",
        ncols=min(len(shown), 2 + len(mechanisms)),
        frameon=False,
    )
    return figure


def _lines(panel: Any, results: Sequence[Estimated], methods: Sequence[str], what: str) -> None:
    """A line for each method, with bars of two standard errors."""
    if what == "coverage":
        panel.axhspan(93, 97, color=GREY, zorder=0)
        panel.axhline(100 * LEVEL, color="0.4", linewidth=0.7, zorder=1)
    for place, method in enumerate(methods):
        some = sorted((one for one in results if one.method == method), key=lambda one: float(one.cell.epsilon))
        if not some:
            continue
        factor = 10 ** (APART * (place - (len(methods) - 1) / 2))
        scale, at = (100, [one.coverage for one in some]) if what == "coverage" else (1, [one.width for one in some])
        errors = [one.coverage_error if what == "coverage" else one.width_error for one in some]
        panel.errorbar(
            [float(one.cell.epsilon) * factor for one in some],
            scale * np.array(at),
            2 * scale * np.nan_to_num(errors),
            label=method,
            markersize=4,
            linewidth=1,
            elinewidth=0.8,
            capsize=2,
            **STYLES[method],
        )


def _limits(panel: Any, what: str) -> None:
    """Coverage shows the band 93 to 97 % and never more than 100 %; widths are compared by ratio."""
    if what == "coverage":
        low, high = panel.get_ylim()
        panel.set_ylim(min(low, 90), min(max(high, 98), 101))
        panel.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        return
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_locator(NullLocator())


def draw_ranks(result: Ranked, folder: Path) -> list[Path]:
    """For each quantity a histogram of the ranks over the difference of their ECDF from the uniform one.

    Args:
        result: ranks of one method in one cell.
        folder: where to.

    Returns:
        The files.
    """
    with matplotlib.rc_context(TEXT):
        figure = _ranks(result)
        return _saved(figure, folder / f"ranks-{_slug((*_named(result.cell), result.method))}")


def _named(cell: Cell) -> tuple[str, ...]:
    """A cell in words."""
    return (*_setting(cell), f"epsilon {cell.epsilon}", cell.mechanism)


def _ranks(result: Ranked) -> Figure:
    """Up to five quantities side by side, each two panels high."""
    names = list(result.ranks)
    blocks = -(-len(names) // 5)
    columns = -(-len(names) // blocks)
    figure = Figure(figsize=(1 + 2.1 * columns, 0.9 + 3.2 * blocks), layout="constrained")
    panels = figure.subplots(2 * blocks, columns, squeeze=False, height_ratios=[1, 1.2] * blocks)
    for panel in panels.flat:
        panel.set_visible(False)
    for place, name in enumerate(names):
        block, column = divmod(place, columns)
        ranks, tested = result.ranks[name], uniformity(result.ranks[name])
        upper, lower = panels[2 * block, column], panels[2 * block + 1, column]
        _histogram(upper, ranks)
        _difference(lower, ranks)
        upper.set_title(f"{name}\np = {tested.chi_square:.2g} (bins), {tested.ecdf:.2g} (ECDF)", fontsize=8)
        lower.set_xlabel(f"rank of the truth (of {LAST_RANK + 1})")
        if column == 0:
            upper.set_ylabel("runs")
            lower.set_ylabel("ECDF − uniform\n(share of runs)")
    runs = len(result.ranks[names[0]])
    title = f"Ranks of the truth among {LAST_RANK} draws, {runs} runs: {result.cell.mechanism} read by {result.method}"
    figure.suptitle(f"{title}\n{'; '.join(_named(result.cell)[:-1])}; grey: 95 % of uniform ranks", fontsize=10)
    return figure


def _histogram(panel: Any, ranks: npt.NDArray[np.int64]) -> None:
    """Counts of runs, over the pointwise 95 % range of each bin."""
    runs, bins = len(ranks), bins_for(len(ranks))
    deviation = np.sqrt(runs / bins * (1 - 1 / bins))
    panel.set_visible(True)
    panel.axhspan(max(runs / bins - 1.96 * deviation, 0), runs / bins + 1.96 * deviation, color=GREY, zorder=0)
    panel.axhline(runs / bins, color="0.4", linewidth=0.7, zorder=1)
    edges = np.linspace(0, LAST_RANK + 1, bins + 1)
    panel.hist(ranks, edges, histtype="stepfilled", facecolor="none", edgecolor="black", linewidth=1.1)
    panel.set_xlim(0, LAST_RANK + 1)
    panel.set_ylim(0, 1.08 * panel.get_ylim()[1])


def _difference(panel: Any, ranks: npt.NDArray[np.int64]) -> None:
    """The ECDF minus the uniform one, in its simultaneous band."""
    runs, at = len(ranks), np.arange(LAST_RANK)
    uniform = (at + 1) / (LAST_RANK + 1)
    low, high = band(runs)
    found = np.cumsum(np.bincount(ranks, minlength=LAST_RANK + 1))[:-1] / runs
    panel.set_visible(True)
    panel.fill_between(at, low - uniform, high - uniform, color=GREY, step="post", linewidth=0)
    panel.axhline(0, color="0.4", linewidth=0.7)
    panel.step(at, found - uniform, color="black", linewidth=1.1, where="post")
    panel.set_xlim(0, LAST_RANK + 1)


def _slug(words: Sequence[str]) -> str:
    """A file name of words."""
    kept = "".join(letter if letter.isalnum() or letter == "." else "-" for letter in "-".join(words).replace(",", ""))
    return "-".join(part for part in kept.split("-") if part).lower()


def _saved(figure: Figure, stem: Path) -> list[Path]:
    """As SVG and PNG."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{end}") for end in ("svg", "png")]
    figure.savefig(paths[0], metadata={"Date": None})
    figure.savefig(paths[1], dpi=130)
    return paths
