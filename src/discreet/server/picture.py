"""Draw a network as an interactive picture: boxes with bars and intervals, whose states are links.

The layout is computed once for a network. All colours are attributes, so the picture looks the same in a page, as a
file and in grey.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any

from discreet.display.graph_layout import layout
from discreet.display.network_svg import BOW_PIXELS, DASHES, ArcPainter, draw_refuted
from discreet.display.text_tables import columns_of, cut, html_text, with_noun
from discreet.errors import printable
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.queries.answers import Answer
from discreet.server.page_links import StateLinks, quoted_states

HEAD_PIXELS, STATE_PIXELS, FOOT_PIXELS = 40, 17, 6
"""Heights of the parts of a box, in pixels: name and basis, each state, and the space below."""
GAP_PIXELS, MARGIN_PIXELS = 46, 14
"""Space between two rows, and around the picture, in pixels."""
BAR_PIXELS, NUMBER_PIXELS, INSET_PIXELS = 70, 52, 9
MOST_STATES = 8
"""Most states that a box shows: the most probable ones, and the number of the others."""
NAME_COLUMNS, STATE_COLUMNS = 24, 14
CAPITAL, LETTER = 0.72, 0.6
"""Largest widths of capitals and of other letters, in units of the font size, with few exceptions: fonts differ."""

MARKS = {
    "measured": "all its variables lie in one released table",
    "inferred": "each pair of its variables lies in a released table",
    "assumed": "it relies on the network for two variables that lie in no table together",
    "contradicted": "it relies on an independence of the network that a released table contradicts",
    "prior": "it relies on the prior alone: nothing was measured",
}
"""Meaning of each basis of an answer."""
SHAPES = {
    "measured": '<circle cx="6" cy="6" r="4.6" fill="#1f3a5f"/>',
    "inferred": '<path d="M6 1.4a4.6 4.6 0 0 1 0 9.2z" fill="#1f3a5f"/><circle cx="6" cy="6" r="4.1" fill="none" '
    'stroke="#1f3a5f"/>',
    "assumed": '<circle cx="6" cy="6" r="4.1" fill="none" stroke="#1f3a5f" stroke-width="1.3"/>',
    "contradicted": '<path d="M6 .8L11.4 10.8H.6z" fill="#9c2a12"/><path d="M6 4v3.4M6 8.6v1.2" stroke="#ffffff"/>',
    "prior": '<path d="M1.9 1.9h8.2v8.2h-8.2z" fill="none" stroke="#1f3a5f" stroke-width="1.3" '
    'stroke-dasharray="2 1.3"/>',
    "observed": '<path d="M1.5 6.2L4.8 9.5L10.5 2.6" fill="none" stroke="#8a4300" stroke-width="2.2"/>',
}
REFUTED_MARK = f'<svg class="mark" width="34" height="12" aria-hidden="true"><path d="M0 6h34" {DASHES}/></svg>'
FONT = 'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif"'


def percent(value: float) -> str:
    """Write a probability in percent, for HTML; only 0 and 1 are shown as certain.

    Example:
        >>> percent(0.5), percent(0.0001), percent(0.9999)
        ('50.0 %', '&lt;0.1 %', '&gt;99.9 %')
    """
    if 0 < value < 0.0005:
        return "&lt;0.1 %"
    if 0.9995 < value < 1:
        return "&gt;99.9 %"
    return f"{100 * value:.1f} %"


def draw_mark(mark: str) -> str:
    """Draw the symbol of an answer's basis."""
    return f'<svg class="mark" width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">{SHAPES[mark]}</svg>'


# ------------------------------------------------------------------------------------------------------------- places


@dataclass(frozen=True)
class _Box:
    """Position and size of one node.

    Args:
        variable: of the node.
        number: in the network.
        x: left edge, in pixels.
        y: upper edge.
        width: of the box.
        height: of the box.
        bar: distance from the left edge to the bars.
        labels: of the states, cut and escaped.
        quoted: the states as in addresses.
    """

    variable: Variable
    number: int
    x: float
    y: int
    width: float
    height: int
    bar: float
    labels: tuple[str, ...]
    quoted: tuple[str, ...]


@dataclass(frozen=True)
class _Places:
    """Layout of the picture.

    Args:
        boxes: row by row, from the left.
        painter: of the arcs.
        arcs: drawn.
        width: of the picture, in pixels.
        height: of the picture.
        title: of the picture, escaped.
        words: its arcs as text, escaped.
    """

    boxes: tuple[_Box, ...]
    painter: ArcPainter
    arcs: str
    width: int
    height: int
    title: str
    words: str


@lru_cache(maxsize=32)
def place_boxes(network: Network) -> _Places:
    """Compute the positions of all boxes and arcs.

    Raises:
        InputError: too large to be drawn.
    """
    parents = {node: network.parents[node] for node in network.nodes}
    labels = {
        node.name: tuple(cut(printable(state), STATE_COLUMNS) for state in node.states) for node in network.schema
    }
    bars = {
        name: max(34.0, *(_width_of(text, 12) for text in texts)) + INSET_PIXELS + 6 for name, texts in labels.items()
    }
    widths = {
        name: max(_width_of(cut(printable(name), NAME_COLUMNS), 14.5) + 2 * INSET_PIXELS,
                  bars[name] + BAR_PIXELS + NUMBER_PIXELS + INSET_PIXELS)
        for name in parents
    }  # fmt: skip
    places = layout(parents, widths)
    heights = {
        node.name: HEAD_PIXELS + STATE_PIXELS * min(node.size, MOST_STATES) + FOOT_PIXELS for node in network.schema
    }
    tops = [MARGIN_PIXELS]
    for row in range(places.height - 1):
        tops.append(tops[-1] + max(heights[name] for name in parents if places.rows[name] == row) + GAP_PIXELS)
    painter = ArcPainter(places, tops, heights, widths)
    quoted = quoted_states(network)
    boxes = []
    for number, node in enumerate(network.schema):
        name, row = node.name, places.rows[node.name]
        # Bars are aligned at the right.
        bar = widths[name] - INSET_PIXELS - NUMBER_PIXELS - BAR_PIXELS
        x = places.x[name, row] - widths[name] / 2
        texts = tuple(map(escape, labels[name]))
        boxes.append(_Box(node, number, x, tops[row], widths[name], heights[name], bar, texts, quoted[name]))
    boxes.sort(key=lambda box: (box.y, box.x))
    arcs = "".join(painter.draw(parents, "#7b8794"))
    pairs = [f"{parent} -> {name}" for name in parents for parent in parents[name]]
    title = f"Network of {with_noun(len(parents), 'variable')} and {with_noun(len(pairs), 'arc')}"
    words = html_text("Arcs from parent to child: " + ("; ".join(pairs) or "none"))
    return _Places(
        tuple(boxes), painter, arcs, math.ceil(places.width), painter.bottoms[-1] + MARGIN_PIXELS, title, words
    )


def _width_of(text: str, size: float) -> float:
    """Estimate the width of a text in pixels; wide letters count as two columns."""
    capitals = sum(mark.isupper() or mark in "MWmw@%" for mark in text)
    return size * (CAPITAL * capitals + LETTER * (columns_of(text) - capitals))


# ------------------------------------------------------------------------------------------------------------ drawing


def draw_network(
    network: Network,
    answers: Mapping[str, Answer],
    evidence: Mapping[str, str],
    links: StateLinks | None,
    refuted: Sequence[tuple[str, ...]] = (),
) -> str:
    """Draw the picture.

    Args:
        network: to draw.
        answers: of all variables that are not observed, by name.
        evidence: states of the others.
        links: of the states; None for a picture without links.
        refuted: pairs with a measured dependence that the network lacks; each gets a dashed line.

    Returns:
        An `<svg>` element.

    Raises:
        InputError: too large to be drawn.
    """
    places = place_boxes(network)
    frame = ' xmlns="http://www.w3.org/2000/svg"' if links is None else ' id="picture" aria-labelledby="picture-title"'
    top = BOW_PIXELS - MARGIN_PIXELS if refuted else 0  # room for lines within the first row
    size = f'width="{places.width}" height="{places.height + top}"'
    pairs = escape(printable("; ".join(map(" and ".join, refuted))))
    description = (
        f"{places.words}. The data contradict that these are independent: {pairs}" if refuted else places.words
    )
    lines = [
        f'<svg{frame} role="{"img" if links is None else "group"}" {size} '
        f'viewBox="0 {-top} {places.width} {places.height + top}" {FONT} font-size="12">',
        f'<title id="picture-title">{places.title}</title><desc>{description}</desc>',
        f'<rect y="{-top}" {size} fill="#ffffff"/>' if links is None else "",
        places.arcs,
        *draw_refuted(refuted, places.painter),
    ]
    for box in places.boxes:
        name = box.variable.name
        lines += _draw_box(box, answers.get(name), evidence.get(name), links)
    lines.append("</svg>")
    return "\n".join(lines)


def _draw_box(box: _Box, answer: Answer | None, state: str | None, links: StateLinks | None) -> Iterator[str]:
    """Draw one box: its frame, name, basis and states."""
    name = html_text(box.variable.name)
    mark = "observed" if state is not None else (answer.basis if answer is not None else None)
    edge = 'stroke="#8a4300" stroke-width="2"' if state is not None else 'stroke="#aab2bd"'
    count = len(box.labels)
    shown = _most_probable(answer, state, box)
    bottom = HEAD_PIXELS + STATE_PIXELS * len(shown)
    tracks = "".join(f"M{box.bar:.1f} {y}h{BAR_PIXELS}" for y in range(HEAD_PIXELS + 8, bottom, STATE_PIXELS))
    yield (
        f'<g class="node" data-name="{name}" transform="translate({box.x:.1f} {box.y})"><title>{name}'
        f'{"" if mark is None else f": {mark}"}</title><rect width="{box.width:.1f}" height="{box.height}" rx="7" '
        f'fill="#ffffff" {edge}/><text x="{INSET_PIXELS}" y="18" font-size="13" font-weight="600" fill="#14181d">'
        f"{escape(cut(printable(box.variable.name), NAME_COLUMNS))}</text>"
        f'<path d="{tracks}" stroke="#e6eaef" stroke-width="11"/>'
    )
    if mark is not None:
        yield (
            f'<g transform="translate({INSET_PIXELS} 23)">{SHAPES[mark]}</g>'
            f'<text x="{INSET_PIXELS + 17}" y="33" font-size="11" fill="#4a5460">'
            f"{'too rare to answer' if answer is not None and answer.too_rare else mark}</text>"
        )
    for position, code in enumerate(shown):
        yield _draw_state(box, code, HEAD_PIXELS + STATE_PIXELS * position, answer, state, links)
    if len(shown) < count:
        more = f'<text x="{INSET_PIXELS}" y="{bottom + 12}" fill="#1d4f91">{count - len(shown)} more</text>'
        yield more if links is None else f'<a href="{links.table}#v{box.number}">{more}</a>'
    yield "</g>"


def _most_probable(answer: Answer | None, state: str | None, box: _Box) -> list[int]:
    """List the states that a box shows, in their order."""
    count = len(box.labels)
    if count <= MOST_STATES:
        return list(range(count))
    if answer is None:
        means = [float(name == state) for name in box.variable.states]
    else:
        rows: Any = answer.rows
        means = [row["mean"] for row in rows]
    codes = sorted(range(count), key=lambda code: -means[code])[: MOST_STATES - 1]
    return sorted(codes)


def _draw_state(
    box: _Box, code: int, y: int, answer: Answer | None, observed: str | None, links: StateLinks | None
) -> str:
    """Draw one state: its label, bar, interval and number, and its link if there are links."""
    middle, label, end = y + 8, box.labels[code], box.width - INSET_PIXELS
    bold, description = "", ""
    if answer is None:
        here = box.variable.states[code] == observed
        mean = float(here)
        number = "100 %" if here else "0 %"
        bar = f'<path d="M{box.bar:.1f} {middle}h{BAR_PIXELS * mean:.1f}" stroke="#d98324" stroke-width="11"/>'
        bold = ' font-weight="700"' if here else ""
        description = f"{label} {number}, {'observed: select to forget it' if here else 'select to observe it instead'}"
        href = "" if links is None else links.change(box.variable.name, None if here else box.variable.states[code])
    else:
        row: Any = answer.rows[code]
        mean, lower, upper = row["mean"], row["lower"], row["upper"]
        number = percent(mean)
        low, high = box.bar + BAR_PIXELS * lower, box.bar + BAR_PIXELS * upper
        bar = (
            f'<path d="M{box.bar:.1f} {middle}h{BAR_PIXELS * mean:.1f}" stroke="#a8c5e8" stroke-width="11"/>'
            f'<path d="M{low:.1f} {middle}H{high:.1f}m0 -3.5v7M{low:.1f} {middle - 3.5}v7" stroke="#1f3a5f" '
            'fill="none"/>'
        )
        description = f"{label} {number}, interval {percent(lower)} to {percent(upper)}"
        href = "" if links is None else links.observe(box.quoted[code])
    ink = (
        f'<text x="{INSET_PIXELS}" y="{y + 12}"{bold} fill="#14181d">{label}</text> {bar}'
        f'<text x="{end:.1f}" y="{y + 12}"{bold} text-anchor="end" fill="#14181d">{number}</text>'
    )
    if links is None:
        return ink
    return (
        f'<a id="s{box.number}.{code}" href="{href}"><title>{description}</title>'
        f'<rect x="2" y="{y}" width="{box.width - 4:.1f}" height="{STATE_PIXELS}" rx="3" fill="none" '
        f'pointer-events="all"/>{ink}</a>'
    )
