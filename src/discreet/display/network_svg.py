"""Draw a network from public information: lines for a terminal, and a picture in SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import pairwise

from discreet.display.graph_layout import Cell, GraphLayout, generations, layout
from discreet.display.text_tables import columns_of, cut, fold, html_text, with_noun
from discreet.errors import listed, printable
from discreet.model.arcs import quoted
from discreet.model.network import Network
from discreet.model.schema import Variable

Parents = Mapping[str, tuple[str, ...]]

MOST_DRAWN_NODES = 250
"""Most nodes of a network that a notebook draws."""
TERMINAL_COLUMNS = 100
"""Most columns of a text."""
NAME_COLUMNS = 36
"""Most columns of a name in text; a longer one is cut."""
LABEL_COLUMNS = 24
"""Most columns of a name in a picture; its tooltip has the full name."""
LETTER_PIXELS = 7.85
"""Width of a letter of 13 pixels in a monospaced font, which is 0.6 of its size, in pixels."""
BOX_PIXELS, ROW_PIXELS = 28, 84
"""Height of a node, and distance between rows, in pixels."""
MARGIN_PIXELS = 20
HALF_HEAD_PIXELS = 4.0
"""Half the width of an arrowhead, in pixels."""
BAR_INSET_PIXELS = 4
"""Distance from the edge of a box to the bar inside it, in pixels."""
MOST_PORT_PIXELS = 11.0
"""Most pixels between two arrowheads at one node."""
DASHES = 'fill="none" stroke="#9c2a12" stroke-width="1.6" stroke-dasharray="6 4"'
"""Style of a line between two variables with a measured dependence that the network lacks."""
BOW_PIXELS = 26
"""Height of the control points of a line within a row above it, in pixels: the line rises by three quarters of it."""


# ---------------------------------------------------------------------------------------------------------------- text


def network_text(network: Network) -> str:
    """Write the nodes in layers, each with its number of states and its parents.

    Returns:
        Lines of at most 100 columns. A layer is the length of the longest path to its nodes; nodes without arcs come
        last. Names that are not plain are in double quotes, as in a file of arcs; long ones are cut.
    """
    parents, sizes = network.parents, {variable.name: variable.size for variable in network.variables}
    has_children = {parent for family in parents.values() for parent in family}
    alone = [name for name in parents if not parents[name] and name not in has_children]
    layers = [[name for name in layer if name not in set(alone)] for layer in generations(parents)]
    titles = {name: cut(printable(quoted(name)), NAME_COLUMNS) for name in parents}
    widths = max(map(columns_of, titles.values())), len(str(max(sizes.values())))
    arcs, free = len(network.arcs), network.parameters
    lines = [f"{with_noun(len(sizes), 'node')}, {with_noun(arcs, 'arc')}, {with_noun(free, 'free parameter')}", ""]
    for number, layer in enumerate(filter(None, layers), 1):
        lines.append(f"layer {number}")
        for name in layer:
            lines += _write_node(titles[name], sizes[name], [titles[parent] for parent in parents[name]], widths)
    if alone:
        lines.append("without arcs")
        for name in alone:
            lines += _write_node(titles[name], sizes[name], [], widths)
    return "\n".join(lines)


def network_summary(network: Network, width: int | None) -> str:
    """Write the text of a network, for a terminal of so many columns."""
    return fold(network_text(network), width)


def network_html(network: Network) -> str:
    """Return the drawing for a notebook, or names in layers if it would be too large."""
    if len(network.nodes) > MOST_DRAWN_NODES:
        return f"<pre>{escape(network_text(network))}</pre>"
    return f'<div style="overflow-x: auto">{network_svg(network)}</div>'


def _write_node(title: str, size: int, parents: Iterable[str], widths: tuple[int, int]) -> Iterator[str]:
    """Write a node, its number of states and its parents, on as many lines as needed."""
    line = f"  {title}{' ' * (widths[0] - columns_of(title))}  {size:>{widths[1]}}"
    indent, mark = " " * columns_of(line), "  <- "
    empty = True
    for parent in parents:
        if not empty and columns_of(line) + columns_of(parent) + 3 > TERMINAL_COLUMNS:
            yield f"{line},"
            line, mark, empty = indent, " " * len(mark), True
        line += f"{mark}{parent}" if empty else f", {parent}"
        empty = False
    yield line


# ----------------------------------------------------------------------------------------------------------------- SVG


def network_svg(
    network: Network,
    widths_of_intervals: Mapping[str, float] | None = None,
    refuted: Iterable[tuple[str, ...]] = (),
) -> str:
    """Draw a picture in layers, parents above children.

    Args:
        network: public.
        widths_of_intervals: of each node's probabilities, from 0 to 1: a bar along the lower edge of its box.
        refuted: pairs with a measured dependence that the network lacks: a dashed line each.

    Returns:
        SVG, the same for the same network. Arcs of one node share a line as far as possible; each ends in an
        arrowhead at its child.
    """
    parents, arcs = network.parents, network.arcs
    labels, widths, places = place_nodes(parents)
    width, height = math.ceil(places.width), places.height * ROW_PIXELS - (ROW_PIXELS - BOX_PIXELS) + 2 * MARGIN_PIXELS
    description = "; ".join(f"{parent} -> {name}" for parent, name in arcs) or "none"
    title = f"Bayesian network of {with_noun(len(labels), 'node')} and {with_noun(len(arcs), 'arc')}"
    bars = widths_of_intervals or {}
    pairs = tuple(refuted)
    description += "".join(f"; {' and '.join(pair)} are not independent, say the data" for pair in pairs)
    description += "".join(f"; intervals of {name}: {bar:.2g} wide" for name, bar in bars.items())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">',
        f"<title>{title}</title>",
        f"<desc>Parents stand above their children. Arcs from parent to child: {html_text(description)}</desc>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<g fill="none" stroke="#555555" stroke-width="1.2">',
        *(_draw_trunk(places, name) for name in parents if len(places.trunk(name)) > 1),
        *(line for name in parents for line in _draw_arrows(places, name, parents[name], widths[name])),
        "</g>",
        *draw_refuted(pairs, {name: _find_port(places, name, width) for name, width in widths.items()}),
        '<g fill="#f2f2f2" stroke="#222222">',
        *(line for each in network.variables for line in _draw_box(places, each, labels, widths, bars.get(each.name))),
        "</g>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def place_nodes(parents: Parents) -> tuple[Mapping[str, str], Mapping[str, float], GraphLayout]:
    """Compute the label, the width in pixels and the position of each node.

    Args:
        parents: of each node, without cycles.

    Raises:
        InputError: too large to be drawn.
    """
    labels = {name: cut(printable(name), LABEL_COLUMNS) for name in parents}
    widths = {name: max(44.0, LETTER_PIXELS * columns_of(label) + 18) for name, label in labels.items()}
    return labels, widths, layout(parents, widths)


def _find_top(row: int) -> int:
    """Compute the upper edge of a row, in pixels."""
    return MARGIN_PIXELS + row * ROW_PIXELS


def _draw_curve(start: Cell, x: float, end: float, bottom: float) -> str:
    """Draw a curve from the lower edge of a cell at x to a point, vertical at both ends."""
    top = _find_top(start[1]) + BOX_PIXELS
    middle = (top + bottom) / 2
    return f"M{x:.1f} {top}C{x:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {bottom:.1f}"


def _draw_trunk(places: GraphLayout, node: str) -> str:
    """Draw the line that a node's arcs share."""
    cells = places.trunk(node)
    parts = []
    for upper, lower in pairwise(cells):
        x = places.x[lower]
        parts.append(
            f"{_draw_curve(upper, places.x[upper], x, _find_top(lower[1]))}V{_find_top(lower[1]) + BOX_PIXELS}"
        )
    return f'<path d="{"".join(parts)}"/>'


def _draw_arrows(places: GraphLayout, node: str, parents: Iterable[str], width: float) -> Iterator[str]:
    """Draw the arcs into a node; they arrive side by side, ordered by their start."""
    row = places.rows[node]
    starts = sorted((places.branch(parent, node) for parent in parents), key=lambda cell: (places.x[cell], cell))
    step = min(MOST_PORT_PIXELS, (width - 14) / max(1, len(starts)))
    for index, cell in enumerate(starts):
        x = places.x[node, row] + (index - (len(starts) - 1) / 2) * step
        top, half = _find_top(row), HALF_HEAD_PIXELS
        yield (
            f'<g class="arc"><title>{html_text(f"{cell[0]} -> {node}")}</title>'
            f'<path d="{_draw_curve(cell, places.x[cell], x, top - 2 * half)}"/>'
            f'<path d="M{x:.1f} {top}l{-half} {-2.4 * half}h{2 * half}z" fill="#555555" stroke="none"/></g>'
        )


def _find_port(places: GraphLayout, node: str, width: float) -> tuple[float, int, int]:
    """Return the x of a dashed line at a node, and the node's upper and lower edge."""
    row = places.rows[node]
    return places.x[node, row] + width / 4, _find_top(row), _find_top(row) + BOX_PIXELS


def draw_refuted(pairs: Iterable[tuple[str, ...]], ports: Mapping[str, tuple[float, int, int]]) -> Iterator[str]:
    """Draw dashed lines between boxes, down from one to a lower one, or in a bow above boxes of one row.

    Args:
        pairs: of dependent variables.
        ports: of each box: x, upper edge and lower edge.
    """
    for pair in pairs:
        (start, top, bottom), (end, edge, _) = sorted((ports[name] for name in pair), key=lambda port: (port[1], port))
        begin, middle = (top, top - BOW_PIXELS) if top == edge else (bottom, (bottom + edge) / 2)
        yield (
            f'<path {DASHES} d="M{start:.1f} {begin}C{start:.1f} {middle} {end:.1f} {middle} {end:.1f} {edge}">'
            f"<title>{html_text(' and '.join(pair))}: contradicted</title></path>"
        )


def _draw_box(
    places: GraphLayout, variable: Variable, labels: Mapping[str, str], widths: Mapping[str, float], bar: float | None
) -> Iterator[str]:
    """Draw a node with its name, and a bar if given; its tooltip lists the states."""
    name, row = variable.name, places.rows[variable.name]
    x, y, width = places.x[name, row], _find_top(row), widths[name]
    wide = "" if bar is None else f"; intervals {bar:.2g} wide on average"
    yield f'<g class="node"><title>{html_text(f"{name}: {listed(variable.states)}{wide}")}</title>'
    yield f'<rect x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{BOX_PIXELS}" rx="6"/>'
    if bar is not None:
        left, right = x - width / 2 + BAR_INSET_PIXELS, x + width / 2 - BAR_INSET_PIXELS
        end, height = left + min(max(bar, 0.0), 1.0) * (right - left), y + BOX_PIXELS - BAR_INSET_PIXELS
        yield f'<path d="M{left:.1f} {height}H{right:.1f}" stroke="#cccccc" stroke-width="3"/>'
        yield f'<path d="M{left:.1f} {height}H{end:.1f}" stroke="#333333" stroke-width="3"/>'
    yield (
        f'<text x="{x:.1f}" y="{y + BOX_PIXELS / 2 + 4.5}" text-anchor="middle" fill="#111111" stroke="none">'
        f"{escape(labels[name])}</text></g>"
    )
