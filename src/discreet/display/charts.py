"""Draw small charts as SVG: lines on logarithmic axes, an interval as a bar, and a histogram with a band.

They have no scripts, and colours have no meaning.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from discreet.display.text_tables import cut, html_text

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 640, 340
"""Width and height of a chart, in pixels."""
LEFT, RIGHT, TOP, BOTTOM = 66, 190, 34, 48
"""Space around the plane of a chart, in pixels: for numbers, names of lines, the title, and numbers below."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 4")
"""Dash patterns of the lines, in turn."""
LEAST_LABEL_STEP = 15.0
"""Least distance between the names of two lines, in pixels."""
TICKS_OF_A_DECADE = (1, 2, 5)
FONT = 'font-family="system-ui, sans-serif" font-size="12"'
BAR_WIDTH, BAR_HEIGHT = 180, 18
"""Width and height of an interval's bar, in pixels."""


def line_chart(
    lines: Mapping[str, Points], *, title: str, x_label: str, y_label: str, wanted: float | None = None
) -> str:
    """Draw lines over a logarithmic axis, with their names at their ends.

    Args:
        lines: by name, each with at least two points (x, y), both greater than 0, x rising.
        title: of the chart.
        x_label: meaning of x, with its unit.
        y_label: meaning of y, with its unit.
        wanted: a height to mark; None for none.

    Returns:
        An `<svg>` element, with a description for readers who cannot see it.

    Example:
        >>> chart = line_chart({"P(ill)": [(0.5, 0.1), (1, 0.06)]}, title="t", x_label="epsilon", y_label="half-width")
        >>> chart.startswith("<svg") and "P(ill)" in chart
        True
    """
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points] + ([] if wanted is None else [wanted])
    plane = _Plane(min(xs), max(xs), min(ys), max(ys))
    ends = "; ".join(
        f"{name}: {points[0][1]:.3g} at {points[0][0]:.3g}, {points[-1][1]:.3g} at {points[-1][0]:.3g}"
        for name, points in lines.items()
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" {FONT}>',
        f"<title>{html_text(title)}</title>",
        f"<desc>{html_text(f'{y_label} against {x_label}. {ends}')}</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="18" font-weight="600" fill="#111111">{html_text(title)}</text>',
        *plane.axes(x_label, y_label),
    ]
    if wanted is not None:
        y = plane.y(wanted)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#888888" stroke-width="1"/>')
    heights = _spread_labels([plane.y(points[-1][1]) for points in lines.values()])
    for number, ((name, points), height) in enumerate(zip(lines.items(), heights, strict=True)):
        path = "L".join(f"{plane.x(x):.1f} {plane.y(y):.1f}" for x, y in points)
        dash = DASHES[number % len(DASHES)]
        style = f' stroke-dasharray="{dash}"' if dash else ""
        end = plane.y(points[-1][1])
        parts.append(f'<path d="M{path}" fill="none" stroke="#222222" stroke-width="1.6"{style}/>')
        parts.append(
            f'<path d="M{WIDTH - RIGHT} {end:.1f}L{WIDTH - RIGHT + 10} {height:.1f}" fill="none" stroke="#999999"/>'
        )
        parts.append(f'<text x="{WIDTH - RIGHT + 14}" y="{height + 4:.1f}" fill="#111111">{html_text(name)}</text>')
    return "\n".join([*parts, "</svg>"])


def interval_bar(
    mean: float, lower: float, upper: float, *, noise: float | None = None, ends: tuple[float, float] = (0.0, 1.0)
) -> str:
    """Draw an interval on a line between two ends: a thin whisker, and a thick one for sampling error alone.

    Args:
        mean: position of the dot.
        lower: end of the interval.
        upper: end of the interval.
        noise: share of the privacy noise in the variance; None if unknown, without a thick whisker.
        ends: of the line.

    Returns:
        An `<svg>` element, with the same content as text.

    Example:
        >>> "interval from 0.2 to 0.4" in interval_bar(0.3, 0.2, 0.4, noise=0.5)
        True
    """
    low, high = ends
    span = (high - low) or 1.0

    def at(value: float) -> float:
        return 4 + (BAR_WIDTH - 8) * min(max((value - low) / span, 0.0), 1.0)

    middle = BAR_HEIGHT / 2
    description = f"{mean:.4g}, interval from {lower:.4g} to {upper:.4g}"
    thick = ""
    if inner := sampling_ends(mean, lower, upper, noise):
        description += f", {100 * (noise or 0):.0f} % of its variance is noise"
        thick = f'<path d="M{at(inner[0]):.1f} {middle}H{at(inner[1]):.1f}" stroke="#333333" stroke-width="5"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" '
        f'width="{BAR_WIDTH}" height="{BAR_HEIGHT}"><title>{description}</title>'
        f'<path d="M4 {middle}H{BAR_WIDTH - 4}" stroke="#d8d8d8" stroke-width="1"/>'
        f'<path d="M{at(lower):.1f} {middle}H{at(upper):.1f}M{at(lower):.1f} 5V{BAR_HEIGHT - 5}'
        f'M{at(upper):.1f} 5V{BAR_HEIGHT - 5}" stroke="#777777" stroke-width="1.5"/>{thick}'
        f'<circle cx="{at(mean):.1f}" cy="{middle}" r="3.6" fill="#ffffff" stroke="#111111" stroke-width="1.6"/></svg>'
    )


HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT = 480, 190
"""Width and height of a histogram, in pixels."""
HISTOGRAM_LEFT, HISTOGRAM_RIGHT, HISTOGRAM_TOP, HISTOGRAM_BOTTOM = 58, 26, 26, 24
"""Space around the plane of a histogram, in pixels."""
MOST_TITLE = 40
"""Most characters of a name on a histogram."""


def histogram(
    title: str,
    edges: Sequence[float],
    shares: Sequence[float],
    band: tuple[Sequence[float], Sequence[float]],
    *,
    level: float,
) -> str:
    """Draw shares of numbers between edges as steps, with a band for their intervals.

    Heights are shares of a round length, near that of the parts, so that parts of different lengths compare.

    Args:
        title: name of the numbers.
        edges: ends of the parts, rising.
        shares: of each part.
        band: lower and upper end of the interval of each share.
        level: of each interval.

    Returns:
        An `<svg>` element, with the ends and the highest part as text.

    Example:
        >>> chart = histogram("age", [0, 40, 60], [0.4, 0.6], ([0.3, 0.5], [0.5, 0.7]), level=0.9)
        >>> "highest from 40 to 60: 60 % (50 to 70 %)" in chart
        True
    """
    lengths = [high - low for low, high in pairwise(edges)]
    unit = _round_down(sorted(lengths)[len(lengths) // 2])
    heights = [[unit * part / length for part, length in zip(parts, lengths, strict=True)] for parts in (shares, *band)]
    top, floor = max(heights[2]) or 1.0, HISTOGRAM_HEIGHT - HISTOGRAM_BOTTOM
    across, up = HISTOGRAM_WIDTH - HISTOGRAM_LEFT - HISTOGRAM_RIGHT, floor - HISTOGRAM_TOP

    def x(number: float) -> float:
        return HISTOGRAM_LEFT + across * (number - edges[0]) / (edges[-1] - edges[0])

    def y(height: float) -> float:
        return floor - up * height / top

    line, lower, upper = (
        [f"{x(end):.1f} {y(height):.1f}" for ends, height in zip(pairwise(edges), steps, strict=True) for end in ends]
        for steps in heights
    )
    highest = max(range(len(shares)), key=heights[0].__getitem__)
    print_as = type(edges[0]) if isinstance(edges[0], float) else float  # dates are floats of a class of their own
    share, low, high = (f"{100 * parts[highest]:.3g}" for parts in (shares, *band))
    description = (
        f"{len(shares)} parts from {edges[0]:g} to {edges[-1]:g}; highest from {edges[highest]:g} to "
        f"{edges[highest + 1]:g}: {share} % ({low} to {high} %). band: {100 * level:g} % interval of each"
    )
    marks = [_draw_level(y(tick), across, f"{100 * tick:.3g} %") for tick in _list_multiples(0.0, top)]
    marks += [_draw_tick(x(tick), floor, f"{print_as(tick):.6g}") for tick in _list_multiples(edges[0], edges[-1])]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {HISTOGRAM_WIDTH} {HISTOGRAM_HEIGHT}" '
        f'width="{HISTOGRAM_WIDTH}" height="{HISTOGRAM_HEIGHT}" {FONT}><title>{html_text(title)}</title>'
        f"<desc>{description}</desc>"
        f'<text x="4" y="16" fill="#111111"><tspan font-weight="600">{html_text(cut(title, MOST_TITLE))}</tspan>, '
        f'share in every {unit:g}</text>{"".join(marks)}<path d="M{"L".join([*upper, *lower[::-1]])}Z" fill="#c9ced6"/>'
        f'<path d="M{"L".join(line)}" fill="none" stroke="#222222" stroke-width="1.6"/>'
        f'<path d="M{HISTOGRAM_LEFT} {floor}h{across}" stroke="#555555"/></svg>'
    )


def _draw_level(y: float, across: float, text: str) -> str:
    """Draw a faint horizontal line of a histogram, with its number."""
    return (
        f'<path d="M{HISTOGRAM_LEFT} {y:.1f}h{across}" stroke="#ececec"/><text x="{HISTOGRAM_LEFT - 6}" '
        f'y="{y + 4:.1f}" text-anchor="end" fill="#333333">{text}</text>'
    )


def _draw_tick(x: float, floor: float, text: str) -> str:
    """Draw a tick below a chart, with its number."""
    return (
        f'<path d="M{x:.1f} {floor}v5" stroke="#555555"/>'
        f'<text x="{x:.1f}" y="{floor + 18}" text-anchor="middle" fill="#333333">{text}</text>'
    )


def _round_down(value: float) -> float:
    """Round a positive number down to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return max((factor * power for factor in TICKS_OF_A_DECADE if factor * power <= value * (1 + 1e-9)), default=power)


def _list_multiples(low: float, high: float) -> list[float]:
    """List the multiples of a round number between two ends, three to eight."""
    step = _round_down((high - low) / 3)
    return [step * number for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def sampling_ends(mean: float, lower: float, upper: float, noise: float | None) -> tuple[float, float] | None:
    """Ends of what sampling alone makes of an interval.

    Args:
        mean: in the interval.
        lower: of the interval.
        upper: of the interval.
        noise: share of the variance that is noise.

    Returns:
        Both ends; None where nobody knows the share.
    """
    if noise is None or math.isnan(noise):
        return None
    part = math.sqrt(max(0.0, 1 - noise))
    return mean - part * (mean - lower), mean + part * (upper - mean)


class _Plane:
    """Positions of numbers on a chart with logarithmic axes."""

    def __init__(self, left: float, right: float, low: float, high: float) -> None:
        self.left, self.right = left, right if right > left else 2 * left
        self.low, self.high = low / 1.1, high * 1.1

    def x(self, value: float) -> float:
        """Compute the distance from the left, in pixels."""
        share = math.log(value / self.left) / math.log(self.right / self.left)
        return LEFT + (WIDTH - LEFT - RIGHT) * share

    def y(self, value: float) -> float:
        """Compute the distance from the top, in pixels."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    def axes(self, x_label: str, y_label: str) -> Iterator[str]:
        """Draw ticks with their numbers, faint horizontal lines, and the labels of the axes."""
        floor = HEIGHT - BOTTOM
        yield f'<path d="M{LEFT} {TOP}V{floor}H{WIDTH - RIGHT}" fill="none" stroke="#555555"/>'
        for value in _list_ticks(self.left, self.right):
            yield _draw_tick(self.x(value), floor, _number(value))
        for value in _list_ticks(self.low, self.high):
            y = self.y(value)
            yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ececec"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#333333">{_number(value)}</text>'
        middle = (LEFT + WIDTH - RIGHT) / 2
        yield f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle" fill="#333333">{html_text(x_label)}</text>'
        height = (TOP + floor) / 2
        yield (
            f'<text x="14" y="{height}" text-anchor="middle" fill="#333333" transform="rotate(-90 14 {height})">'
            f"{html_text(y_label)}</text>"
        )


def _list_ticks(low: float, high: float) -> list[float]:
    """List round numbers between two ends, one to a decade if there are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    multiples = TICKS_OF_A_DECADE if len(decades) <= MOST_DECADES else TICKS_OF_A_DECADE[:1]
    ticks = [factor * 10.0**decade for decade in decades for factor in multiples]
    return [tick for tick in ticks if low <= tick * (1 + 1e-9) and tick <= high * (1 + 1e-9)]


MOST_DECADES = 4
"""Most decades of an axis with more than one tick to each."""


def _spread_labels(heights: Sequence[float]) -> list[float]:
    """Spread names near the ends of their lines, so that they do not overlap."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    spread = list(heights)
    lowest = float(TOP)
    for index in order:
        spread[index] = max(spread[index], lowest)
        lowest = spread[index] + LEAST_LABEL_STEP
    beyond = max(0.0, lowest - LEAST_LABEL_STEP - (HEIGHT - BOTTOM))
    return [height - beyond for height in spread]


def _number(value: float) -> str:
    """Write a tick's number."""
    return f"{value:,.0f}" if value >= 1 else f"{value:.6g}"
