"""Draw a network with matplotlib: the picture of `network_svg.py`, on the user's axes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from discreet.display.network_svg import MARGIN_PIXELS, place_nodes
from discreet.display.renderers import new_axes
from discreet.model.network import Network
from discreet.util.lazy_imports import lazy_import

if TYPE_CHECKING:
    from matplotlib.axes import Axes

patches = lazy_import("matplotlib.patches")
paths = lazy_import("matplotlib.path")

PIXELS_OF_AN_INCH = 96
MOST_INCHES = 40.0
"""Sides of a new figure, at most; larger networks are drawn smaller."""
INK, FILL = "0.1", "0.95"
"""Greys of names and borders, and of nodes."""
TEXT: dict[str, Any] = {"ha": "center", "va": "center", "family": "monospace", "fontsize": 9}
STROKE: dict[str, Any] = {"color": "0.35", "linewidth": 1, "zorder": 1}
ARROW: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0}
"""Looks of names, of lines, and of lines that are arrows."""


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
    labels, painter = place_nodes(network.parents)
    width, height = painter.places.width, painter.bottoms[-1] + MARGIN_PIXELS
    if axes is None:
        shrunk = min(1.0, MOST_INCHES * PIXELS_OF_AN_INCH / max(width, height))
        axes = new_axes(*(max(1.5, shrunk * side / PIXELS_OF_AN_INCH) for side in (width, height)))
    for name, family in network.parents.items():
        if trunk := painter.trunk(name):
            axes.add_patch(patches.PathPatch(_read_path(trunk), fill=False, **STROKE))
        for parent, path, _, top in painter.arrows(name, family):
            whole, gid = _read_path(f"{path}V{top}"), f"{parent} -> {name}"
            axes.add_patch(patches.FancyArrowPatch(path=whole, gid=gid, **ARROW, **STROKE))
    style = patches.BoxStyle("round", pad=0, rounding_size=6)
    for name, label in labels.items():
        x, y = painter.places.x[name, painter.places.rows[name]], painter.tops[painter.places.rows[name]]
        wide, high = painter.widths[name], painter.heights[name]
        box = (x - wide / 2, y), wide, high
        axes.add_patch(patches.FancyBboxPatch(*box, boxstyle=style, facecolor=FILL, edgecolor=INK, zorder=2))
        axes.text(x, y + high / 2, label, parse_math=False, color=INK, zorder=3, **TEXT)
    axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    axes.set_axis_off()
    return axes


def _read_path(data: str) -> Any:
    """Read a path as SVG writes it, of the letters M, C and V."""
    points, codes, x = list[tuple[float, float]](), list[int](), 0.0
    steps = {"M": paths.Path.MOVETO, "C": paths.Path.CURVE4, "V": paths.Path.LINETO}
    for letter, numbers in re.findall(r"([MCV])([^MCV]*)", data):
        values = [x] * (letter == "V") + [float(number) for number in numbers.split()]
        points += zip(values[::2], values[1::2], strict=True)
        codes, x = codes + [steps[letter]] * (len(values) // 2), values[-2]
    return paths.Path(points, codes)
