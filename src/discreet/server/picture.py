"""A network as a picture that can be asked: boxes with bars and intervals, whose states are links.

Where boxes stand is found once for a network. All colours are attributes, so that the picture is the same in a page, as
a file of its own and in grey.
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
"""Heights of what a box has: its name with what its answer rests on, each state, and what is left below."""
GAP_PIXELS, MARGIN_PIXELS = 46, 14
"""Between two rows, and around all."""
BAR_PIXELS, NUMBER_PIXELS, INSET_PIXELS = 70, 52, 9
MOST_STATES = 8
"""States that a box shows; of more the most probable, and how many there are beside them."""
NAME_COLUMNS, STATE_COLUMNS = 24, 14
CAPITAL, LETTER = 0.72, 0.6
"""Widths of capitals and other letters, in sizes of the font, at most but for a few: fonts differ between machines."""

MARKS = {
    "measured": "all its variables lie in one released table",
    "inferred": "each pair of its variables lies in a released table",
    "assumed": "it needs what the network says of two variables that lie in no table together",
    "contradicted": "the network says of it what a released table contradicts",
    "prior": "it needs what nothing measured: the prior alone says it",
}
"""What an answer can rest on, and what that means."""
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
    """A probability in percent, for HTML; what is not certain is not called so.

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
    """The mark of what an answer rests on, beside its word."""
    return f'<svg class="mark" width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">{SHAPES[mark]}</svg>'


# ------------------------------------------------------------------------------------------------------------- places


@dataclass(frozen=True)
class _Box:
    """One node's place.

    Args:
        variable: of the node.
        number: in the network.
        x: left edge, in pixels.
        y: upper edge.
        width: of the box.
        height: of the box.
        bar: from the left edge to where bars begin.
        labels: of the states, cut and escaped.
        quoted: the states as addresses have them.
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
    """Where everything is.

    Args:
        boxes: row by row, from the left.
        painter: of the arcs.
        arcs: drawn.
        width: of the picture, in pixels.
        height: of the picture.
        title: of the picture, escaped.
        told: its arcs in words, escaped.
    """

    boxes: tuple[_Box, ...]
    painter: ArcPainter
    arcs: str
    width: int
    height: int
    title: str
    told: str


@lru_cache(maxsize=32)
def place_boxes(network: Network) -> _Places:
    """Find places for all boxes and arcs.

    Raises:
        InputError: too large to be drawn.
    """
    parents = {node: network.parents[node] for node in network.nodes}
    labels = {one.name: tuple(cut(printable(state), STATE_COLUMNS) for state in one.states) for one in network.schema}
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
        one.name: HEAD_PIXELS + STATE_PIXELS * min(one.size, MOST_STATES) + FOOT_PIXELS for one in network.schema
    }
    tops = [MARGIN_PIXELS]
    for row in range(places.height - 1):
        tops.append(tops[-1] + max(heights[name] for name in parents if places.rows[name] == row) + GAP_PIXELS)
    painter = ArcPainter(places, tops, heights, widths)
    quoted = quoted_states(network)
    boxes = []
    for number, one in enumerate(network.schema):
        name, row = one.name, places.rows[one.name]
        # bars begin where they leave no room at the right
        bar = widths[name] - INSET_PIXELS - NUMBER_PIXELS - BAR_PIXELS
        x = places.x[name, row] - widths[name] / 2
        texts = tuple(map(escape, labels[name]))
        boxes.append(_Box(one, number, x, tops[row], widths[name], heights[name], bar, texts, quoted[name]))
    boxes.sort(key=lambda box: (box.y, box.x))
    arcs = "".join(painter.draw(parents, "#7b8794"))
    pairs = [f"{parent} -> {name}" for name in parents for parent in parents[name]]
    title = f"Network of {with_noun(len(parents), 'variable')} and {with_noun(len(pairs), 'arc')}"
    told = html_text("Arcs from parent to child: " + ("; ".join(pairs) or "none"))
    return _Places(
        tuple(boxes), painter, arcs, math.ceil(places.width), painter.bottoms[-1] + MARGIN_PIXELS, title, told
    )


def _width_of(text: str, size: float) -> float:
    """Pixels of a text; one of wide letters takes two columns for each."""
    capitals = sum(mark.isupper() or mark in "MWmw@%" for mark in text)
    return size * (CAPITAL * capitals + LETTER * (columns_of(text) - capitals))


# ---------------------------------------------------------------------------------------------------------------- ink


def draw_network(
    network: Network,
    answers: Mapping[str, Answer],
    evidence: Mapping[str, str],
    links: StateLinks | None,
    refuted: Sequence[tuple[str, ...]] = (),
) -> str:
    """The picture.

    Args:
        network: that is drawn.
        answers: of all variables that are not observed, by name.
        evidence: states of the others.
        links: of the states; None for a picture that is looked at.
        refuted: pairs that tables join, and the network does not: a dashed line each.

    Returns:
        An `<svg>` element.

    Raises:
        InputError: too large to be drawn.
    """
    places = place_boxes(network)
    own = ' xmlns="http://www.w3.org/2000/svg"' if links is None else ' id="picture" aria-labelledby="picture-title"'
    top = BOW_PIXELS - MARGIN_PIXELS if refuted else 0  # room for lines within the first row
    size = f'width="{places.width}" height="{places.height + top}"'
    pairs = escape(printable("; ".join(map(" and ".join, refuted))))
    told = f"{places.told}. The data contradict that these are independent: {pairs}" if refuted else places.told
    lines = [
        f'<svg{own} role="{"img" if links is None else "group"}" {size} '
        f'viewBox="0 {-top} {places.width} {places.height + top}" {FONT} font-size="12">',
        f'<title id="picture-title">{places.title}</title><desc>{told}</desc>',
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
    """One box: its frame, its name, what its answer rests on, and its states."""
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
    for place, code in enumerate(shown):
        yield _draw_state(box, code, HEAD_PIXELS + STATE_PIXELS * place, answer, state, links)
    if len(shown) < count:
        more = f'<text x="{INSET_PIXELS}" y="{bottom + 12}" fill="#1d4f91">{count - len(shown)} more</text>'
        yield more if links is None else f'<a href="{links.table}#v{box.number}">{more}</a>'
    yield "</g>"


def _most_probable(answer: Answer | None, state: str | None, box: _Box) -> list[int]:
    """The states that a box shows, in their order."""
    count = len(box.labels)
    if count <= MOST_STATES:
        return list(range(count))
    if answer is None:
        means = [float(one == state) for one in box.variable.states]
    else:
        rows: Any = answer.rows
        means = [row["mean"] for row in rows]
    kept = sorted(range(count), key=lambda code: -means[code])[: MOST_STATES - 1]
    return sorted(kept)


def _draw_state(
    box: _Box, code: int, y: int, answer: Answer | None, observed: str | None, links: StateLinks | None
) -> str:
    """One state: its label, bar, interval and number; with links an anchor around them."""
    middle, label, end = y + 8, box.labels[code], box.width - INSET_PIXELS
    bold, told = "", ""
    if answer is None:
        here = box.variable.states[code] == observed
        mean = float(here)
        number = "100 %" if here else "0 %"
        bar = f'<path d="M{box.bar:.1f} {middle}h{BAR_PIXELS * mean:.1f}" stroke="#d98324" stroke-width="11"/>'
        bold = ' font-weight="700"' if here else ""
        told = f"{label} {number}, {'observed: select to forget it' if here else 'select to observe it instead'}"
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
        told = f"{label} {number}, interval {percent(lower)} to {percent(upper)}"
        href = "" if links is None else links.observe(box.quoted[code])
    ink = (
        f'<text x="{INSET_PIXELS}" y="{y + 12}"{bold} fill="#14181d">{label}</text> {bar}'
        f'<text x="{end:.1f}" y="{y + 12}"{bold} text-anchor="end" fill="#14181d">{number}</text>'
    )
    if links is None:
        return ink
    return (
        f'<a id="s{box.number}.{code}" href="{href}"><title>{told}</title>'
        f'<rect x="2" y="{y}" width="{box.width - 4:.1f}" height="{STATE_PIXELS}" rx="3" fill="none" '
        f'pointer-events="all"/>{ink}</a>'
    )
