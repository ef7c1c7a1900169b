"""A plan from accuracy as text, for a terminal."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from discreet.model.text_tables import columns, fold
from discreet.privacy.guarantee import as_text

if TYPE_CHECKING:
    from discreet.verify.plan_accuracy import AccuracyPlan

__all__ = ["plan_text"]


def plan_text(plan: AccuracyPlan, width: int | None = None) -> str:
    """What is needed, its parts, and what other budgets and numbers of records would give.

    Args:
        plan: of some questions.
        width: columns of the terminal, as of `columns`; None for lines as long as they are.
    """
    head = plan.refused or f"epsilon {as_text(plan.guarantee.epsilon)}"  # type: ignore[union-attr]
    spread = any(row["low"] < row["high"] for row in plan.rows())
    rows = [
        (
            row["query"],
            "none" if row["epsilon"] is None else f"{row['epsilon']:.3g}",
            f"{row['half_width']:.3g}",
            f"{row['sampling']:.3g}",
            f"{row['noise']:.3g}",
            *([f"{row['low']:.3g} to {row['high']:.3g}"] if spread else []),
        )
        for row in plan.rows()
    ]
    named = ("question", "needs epsilon", f"half-width at {plan.epsilon:g}", "sampling", "noise")
    needs = columns((*named, *(["other networks"] if spread else [])), rows, width)
    parts = [fold(f"{plan.mechanism}: {head}", width), needs, _write_table(plan, width)]
    if spread:
        parts.append(fold("the network has no probabilities: others are from several random ones", width))
    return "\n\n".join(parts)


def _write_table(plan: AccuracyPlan, width: int | None) -> str:
    """Half-widths by budget and number of records; of several questions the widest."""
    cells = sorted(plan.table(), key=lambda row: (row["records"], row["epsilon"]))
    lines = []
    for records, group in groupby(cells, key=lambda row: row["records"]):
        widths = [max(row["half_width"] for row in same) for _, same in groupby(group, key=lambda row: row["epsilon"])]
        lines.append((f"{records:,}", *(f"{width:.3g}" for width in widths)))
    budgets = sorted({row["epsilon"] for row in cells})
    what = "half-width" if len(plan.questions) == 1 else "widest half-width"
    table = columns(("records", *(f"{one:.3g}" for one in budgets)), lines, width)
    return f"{what} by records and epsilon\n{table}"
