"""Text of an accuracy plan, for a terminal."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from discreet.display.text_tables import columns, fold
from discreet.privacy.guarantee import as_text

if TYPE_CHECKING:
    from discreet.verify.accuracy_plan import AccuracyPlan


def plan_text(plan: AccuracyPlan, width: int | None = None) -> str:
    """Write the budget, the half-widths with their parts, and those at other budgets and numbers of records.

    Args:
        plan: of some questions.
        width: columns of the terminal, as of `columns`; None for lines as long as they are.
    """
    head = plan.refused or f"epsilon {as_text(plan.guarantee.epsilon)}"  # type: ignore[union-attr]
    blocks = [fold(f"{plan.mechanism}: {head}", width), widths_text(plan, width), _write_table(plan, width)]
    if plan.over_networks:
        blocks.append(fold("the network has no probabilities: those of several random ones were taken", width))
    return "\n\n".join(blocks)


def widths_text(plan: AccuracyPlan, width: int | None = None) -> str:
    """Write each query's budget, half-width with its parts, and expected error.

    Args:
        plan: of some questions.
        width: columns of the terminal, as of `columns`; None for lines as long as they are.
    """
    sought = plan.within is not None
    rows = [
        (
            row["query"],
            *(["none" if row["epsilon"] is None else f"{row['epsilon']:.3g}"] if sought else []),
            f"{row['half_width']:.3g}",
            f"{row['uncertainty']:.0%}",
            f"{row['sampling']:.3g}",
            f"{row['noise']:.3g}",
            f"{row['low']:.3g} to {row['high']:.3g}",
            f"{row['error']:.3g}",
        )
        for row in plan.rows()
    ]
    spread = "8 in 10 random networks" if plan.over_networks else "8 in 10 releases"
    widths = (f"half-width at {plan.epsilon:g}", "+-", "sampling", "noise", spread, "error")
    return columns(("question", *(["needs epsilon"] if sought else []), *widths), rows, width)


def _write_table(plan: AccuracyPlan, width: int | None) -> str:
    """Write half-widths by budget and number of records; of several queries the widest."""
    cells = sorted(plan.table(), key=lambda row: (row["records"], row["epsilon"]))
    lines = []
    for records, group in groupby(cells, key=lambda row: row["records"]):
        widths = [max(row["half_width"] for row in same) for _, same in groupby(group, key=lambda row: row["epsilon"])]
        lines.append((f"{records:,}", *(f"{width:.3g}" for width in widths)))
    budgets = sorted({row["epsilon"] for row in cells})
    measure = "half-width" if len(plan.questions) == 1 else "widest half-width"
    table = columns(("records", *(f"{epsilon:.3g}" for epsilon in budgets)), lines, width)
    return f"{measure} by records and epsilon\n{table}"
