"""Draw small charts as SVG: lines on logarithmic axes, and an interval as a bar. No scripts, no meaning of colours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from discreet.display.text_tables import html_text

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
            x = self.x(value)
            yield f'<path d="M{x:.1f} {floor}v5" stroke="#555555"/>'
            yield f'<text x="{x:.1f}" y="{floor + 18}" text-anchor="middle" fill="#333333">{_number(value)}</text>'
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
