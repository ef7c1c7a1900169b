"""Draw a network with matplotlib: the picture of `network_svg.py`, on the user's axes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from discreet.display.graph_layout import Cell, GraphLayout
from discreet.display.interval_tables import new_axes
from discreet.display.network_svg import BOX_PIXELS, ROW_PIXELS, place_nodes
from discreet.model.network import Network
from discreet.util.lazy_imports import lazy_import

if TYPE_CHECKING:
    from matplotlib.axes import Axes

patches = lazy_import("matplotlib.patches")
paths = lazy_import("matplotlib.path")

PIXELS_OF_AN_INCH = 96
MOST_INCHES = 40.0
"""Largest sides of a new figure, in inches; larger networks are scaled down."""
LINE, INK, FILL = "0.35", "0.1", "0.95"
"""Greys of arcs, of names and borders, and of nodes."""


def plot_network(network: Network, axes: Axes | None = None) -> Axes:
    """Draw the nodes in layers, parents above children, in shades of grey.

    Args:
        network: public.
        axes: to draw on; None makes new ones.

    Returns:
        The axes, without a frame: a patch and a text for each node, and a patch for each arc.

    Raises:
        InputError: matplotlib is not installed (the extra `plot`), or the network is too large to be drawn.
    """
    labels, widths, places = place_nodes(network.parents)
    width, height = places.width, places.height * ROW_PIXELS
    if axes is None:
        shrunk = min(1.0, MOST_INCHES * PIXELS_OF_AN_INCH / max(width, height))
        axes = new_axes(*(max(1.5, shrunk * side / PIXELS_OF_AN_INCH) for side in (width, height)))
    for name, family in network.parents.items():
        for upper, lower in pairwise(places.trunk(name)):
            axes.add_patch(_draw_line(_curve(places, upper, lower, through=True), "-"))
        for parent in family:
            path = _curve(places, places.branch(parent, name), (name, places.rows[name]))
            axes.add_patch(_draw_line(path, "-|>", gid=f"{parent} -> {name}"))
    for name, label in labels.items():
        x, y = places.x[name, places.rows[name]], _middle(places.rows[name])
        corner = x - widths[name] / 2, y - BOX_PIXELS / 2
        style = patches.BoxStyle("round", pad=0, rounding_size=6)
        axes.add_patch(
            patches.FancyBboxPatch(
                corner, widths[name], BOX_PIXELS, boxstyle=style, facecolor=FILL, edgecolor=INK, zorder=2
            )
        )
        axes.text(
            x, y, label, ha="center", va="center", color=INK, family="monospace", fontsize=9, parse_math=False, zorder=3
        )
    axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    axes.set_axis_off()
    return axes


def _middle(row: int) -> float:
    """Compute the middle of a row, in pixels from the top."""
    return (row + 0.5) * ROW_PIXELS


def _curve(places: GraphLayout, start: Cell, end: Cell, *, through: bool = False) -> Any:
    """Draw a line from the lower edge of a cell to the upper edge of one below, vertical at both ends, or through."""
    top, bottom = _middle(start[1]) + BOX_PIXELS / 2, _middle(end[1]) - BOX_PIXELS / 2
    middle, (left, right) = (top + bottom) / 2, (places.x[start], places.x[end])
    points = [(left, top), (left, middle), (right, middle), (right, bottom)]
    codes = [paths.Path.MOVETO, *[paths.Path.CURVE4] * 3]
    if through:
        points, codes = [*points, (right, bottom + BOX_PIXELS)], [*codes, paths.Path.LINETO]
    return paths.Path(points, codes)


def _draw_line(path: Any, style: str, **options: Any) -> Any:
    """Draw a line, with a head for an arrow."""
    return patches.FancyArrowPatch(
        path=path,
        arrowstyle=style,
        color=LINE,
        linewidth=1,
        mutation_scale=9,
        shrinkA=0,
        shrinkB=0,
        zorder=1,
        **options,
    )
