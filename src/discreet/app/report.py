"""What a person reads: aligned text and one-line summaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import discreet as dc
from discreet.privacy.guarantee import as_text

if TYPE_CHECKING:
    from discreet.privacy.ledger import Balance

__all__ = ["answer_lines", "columns", "release_lines"]


WIDE = 3
"""Most variables of a joint state that are shown on one line."""


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as left-aligned text under a header."""
    listed = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in listed) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed]
    return "\n".join(lines)


def answer_lines(answers: Iterable[dc.Answer]) -> str:
    """Answers as one table; a joint state of many variables takes a line for each."""
    rows = []
    level = 0.0
    for answer in answers:
        level = answer.level
        for index, row in enumerate(answer.rows):
            states = [f"{name}={value}" for name, value in dict(row["state"]).items()]  # type: ignore[call-overload]
            shown = [", ".join(states)] if len(states) <= WIDE else states
            interval = f"{row['lower']:.4f} to {row['upper']:.4f}"
            rows.append((answer.query if index == 0 else "", shown[0], f"{row['mean']:.4f}", interval))
            rows += [("", state, "", "") for state in shown[1:]]
    return columns(("query", "state", "mean", f"{100 * level:.6g} % interval"), rows)


def release_lines(release: dc.Release, balance: Balance) -> str:
    """What a release cost, how large its noise is, and where it says little; nothing here comes from the records."""
    scales = sorted(set(release.payload.scales.values()))
    noise = f"{scales[0]:.4g}" if len(scales) == 1 else f"{scales[0]:.4g} to {scales[-1]:.4g}"
    limit = balance.limit
    lines = [
        f"released {release.id}: {release.guarantee}",
        f"spent epsilon {as_text(balance.epsilon_spent)} of {as_text(limit.epsilon)}, "
        f"left {as_text(balance.epsilon_left)}"
        + (f"; delta left {as_text(balance.delta_left)}" if limit.delta else ""),
        f"noise in every cell: discrete Laplace of scale {noise} records",
    ]
    drowned = dc.drowned_rows(release)
    if drowned:
        named = ", ".join(f"{node} {few} of {all_}" for node, (few, all_) in list(drowned.items())[:8])
        more = f", and {len(drowned) - 8} more families" if len(drowned) > 8 else ""
        lines.append(f"rows drowned by the noise (their total is below its standard deviation): {named}{more}")
    else:
        lines.append("no row is drowned by the noise")
    return "\n".join(lines)
