"""Draw a network from public information: lines for a terminal, and a picture in SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
    labels, painter = place_nodes(parents)
    width, height = math.ceil(painter.places.width), painter.bottoms[-1] + MARGIN_PIXELS
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
        *painter.draw(parents, "#555555"),
        *draw_refuted(pairs, painter),
        '<g fill="#f2f2f2" stroke="#222222">',
        *(
            line
            for variable in network.variables
            for line in _draw_box(painter, variable, labels[variable.name], bars.get(variable.name))
        ),
        "</g>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def place_nodes(parents: Parents) -> tuple[Mapping[str, str], ArcPainter]:
    """Compute the label of each node, and the positions of nodes and arcs.

    Args:
        parents: of each node, without cycles.

    Raises:
        InputError: too large to be drawn.
    """
    labels = {name: cut(printable(name), LABEL_COLUMNS) for name in parents}
    widths = {name: max(44.0, LETTER_PIXELS * columns_of(label) + 18) for name, label in labels.items()}
    places = layout(parents, widths)
    tops = [MARGIN_PIXELS + row * ROW_PIXELS for row in range(places.height)]
    return labels, ArcPainter(places, tops, dict.fromkeys(parents, BOX_PIXELS), widths)


@dataclass(frozen=True)
class ArcPainter:
    """Arcs between boxes in rows, of one height or of several: upright beside boxes, curved between rows alone.

    Args:
        places: of the boxes.
        tops: upper edge of each row, in pixels.
        heights: of each box, in pixels.
        widths: of each box, in pixels.
    """

    places: GraphLayout
    tops: Sequence[int]
    heights: Mapping[str, int]
    widths: Mapping[str, float]

    @cached_property
    def bottoms(self) -> list[int]:
        """Lower edge of each row, in pixels."""
        rows = self.places.rows
        return [
            max(top + self.heights[name] for name in rows if rows[name] == row) for row, top in enumerate(self.tops)
        ]

    def trunk(self, node: str) -> str:
        """Path of the line that arcs of a node share; empty where there is none."""
        pairs = pairwise(self.places.trunk(node))
        tops, bottoms = self.tops, self.bottoms
        return "".join(
            f"{self._curve(upper, self.places.x[lower], tops[lower[1]])}V{bottoms[lower[1]]}" for upper, lower in pairs
        )

    def arrows(self, node: str, parents: Iterable[str]) -> Iterator[tuple[str, str, float, int]]:
        """Arcs to a node, which arrive side by side in the order of where they come from.

        Args:
            node: the child.
            parents: of it.

        Returns:
            Of each arc the parent, its path as far as the head, and the head's point.
        """
        row, x_of = self.places.rows[node], self.places.x
        starts = sorted((self.places.branch(parent, node) for parent in parents), key=lambda cell: (x_of[cell], cell))
        step = min(MOST_PORT_PIXELS, (self.widths[node] - 14) / max(1, len(starts)))
        for index, cell in enumerate(starts):
            x, top = x_of[node, row] + (index - (len(starts) - 1) / 2) * step, self.tops[row]
            yield cell[0], self._curve(cell, x, top - 2 * HALF_HEAD_PIXELS), x, top

    def draw(self, parents: Parents, colour: str) -> Iterator[str]:
        """Draw all trunks, then all arrows, each with its name."""
        half = HALF_HEAD_PIXELS
        yield f'<g fill="none" stroke="{colour}" stroke-width="1.2">'
        yield from (f'<path d="{path}"/>' for path in map(self.trunk, parents) if path)
        for node in parents:
            for parent, path, x, top in self.arrows(node, parents[node]):
                yield (
                    f'<g class="arc"><title>{html_text(f"{parent} -> {node}")}</title><path d="{path}"/>'
                    f'<path d="M{x:.1f} {top}l{-half} {-2.4 * half}h{2 * half}z" fill="{colour}" stroke="none"/></g>'
                )
        yield "</g>"

    def port(self, node: str) -> tuple[float, int, int]:
        """Where a dashed line meets a box: across, at its upper edge, at its lower edge."""
        row = self.places.rows[node]
        return self.places.x[node, row] + self.widths[node] / 4, self.tops[row], self.tops[row] + self.heights[node]

    def _curve(self, start: Cell, x: float, end: float) -> str:
        """Draw a curve from a cell past the boxes beside it to a point in the next row, vertical at both ends."""
        name, row = start
        begin, low = self.places.x[start], self.bottoms[row]
        edge = self.tops[row] + self.heights[name] if row == self.places.rows[name] else low
        middle = (low + end) / 2
        down = f"V{low}" if low > edge else ""
        return f"M{begin:.1f} {edge}{down}C{begin:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {end:.1f}"


def draw_refuted(pairs: Iterable[tuple[str, ...]], painter: ArcPainter) -> Iterator[str]:
    """Draw dashed lines between boxes, down from one to a lower one, or in a bow above boxes of one row.

    Args:
        pairs: of variables that the data call dependent.
        painter: of the arcs.
    """
    for pair in pairs:
        (start, top, bottom), (end, edge, _) = sorted(map(painter.port, pair), key=lambda port: (port[1], port))
        begin, middle = (top, top - BOW_PIXELS) if top == edge else (bottom, (bottom + edge) / 2)
        yield (
            f'<path {DASHES} d="M{start:.1f} {begin}C{start:.1f} {middle} {end:.1f} {middle} {end:.1f} {edge}">'
            f"<title>{html_text(' and '.join(pair))}: contradicted</title></path>"
        )


def _draw_box(painter: ArcPainter, variable: Variable, label: str, bar: float | None) -> Iterator[str]:
    """A node with its name, and perhaps a bar; its states are a tooltip."""
    name, row, width = variable.name, painter.places.rows[variable.name], painter.widths[variable.name]
    x, y = painter.places.x[name, row], painter.tops[row]
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
        f"{escape(label)}</text></g>"
    )
