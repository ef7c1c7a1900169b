"""What `plan --within` shows: the budget that buys the wanted accuracy, and half-widths at others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from discreet.app.arguments import Replace
from discreet.app.terminal import check_output
from discreet.errors import InputError
from discreet.model.json_files import write_whole
from discreet.model.text_tables import columns
from discreet.privacy.guarantee import as_text

__all__ = ["plan_within"]


def plan_within(
    truth: dc.Tables | dc.Network,
    queries: Sequence[str],
    within: float,
    records: int,
    promises: Sequence[dc.Guarantee],
    mechanisms: dict[str, dc.tools.Mechanism[Any, Any, Any, Any]],
    *,
    repeats: int,
    rng: np.random.Generator,
    picture: Path | None,
    replace: Replace,
) -> tuple[dict[str, Any], str]:
    """Plan for each mechanism and relation, as JSON and as text; of the first a picture.

    Args:
        truth: probabilities, or a network without.
        queries: whose half-widths shall be small.
        within: the half-width.
        records: expected number.
        promises: of the relations that are looked at; their epsilons do not matter.
        mechanisms: by name.
        repeats: made-up data sets.
        rng: source of records and noise.
        picture: file for it; None for none.
        replace: whether a file that is there is replaced.
    """
    if not queries:
        raise InputError('--within is about questions: name some, such as "P(lung | smoke=yes)"')
    if picture is not None:
        check_output(picture, bool(replace))
    found: list[tuple[dc.Relation, dc.results.AccuracyPlan]] = []
    refused: list[tuple[str, str]] = []
    for promise in promises:
        for name, mechanism in mechanisms.items():
            try:
                plan = dc.plan_accuracy(
                    truth,
                    queries,
                    within,
                    records,
                    relation=promise.relation,
                    unit=promise.unit,
                    delta=promise.delta,
                    mechanism=mechanism,
                    repeats=repeats,
                    rng=rng,
                )
            except InputError as error:
                if len(mechanisms) * len(promises) == 1:
                    raise
                refused.append((name, str(error)))
                continue
            found.append((promise.relation, plan))
    if not found:
        raise InputError("; ".join(dict.fromkeys(reason for _, reason in refused)))
    if picture is not None:
        write_whole(found[0][1].to_svg(), picture, "picture", replace=bool(replace))
    told: dict[str, Any] = {
        "within": within,
        "plans": [_write_document(relation, plan) for relation, plan in found],
        "refused": dict(refused),
    }
    text = "\n\n".join(_write_text(relation, plan) for relation, plan in found)
    text += "".join(f"\n\n{name}: {reason}" for name, reason in refused)
    return told, text if picture is None else f"{text}\n\nwrote {picture}"


def _write_document(relation: dc.Relation, plan: dc.results.AccuracyPlan) -> dict[str, Any]:
    """A plan as JSON."""
    return {
        "relation": relation.value,
        "mechanism": plan.mechanism,
        "epsilon": None if plan.guarantee is None else as_text(plan.guarantee.epsilon),
        "level": plan.level,
        "refused": plan.refused,
        "questions": plan.rows(),
        "half_widths": plan.table(),
    }


def _write_text(relation: dc.Relation, plan: dc.results.AccuracyPlan) -> str:
    """A plan as text: what is needed, its parts, and what other budgets and numbers of records would give."""
    head = f"{plan.mechanism}, {relation}: "
    head += plan.refused or f"epsilon {as_text(plan.guarantee.epsilon)}"  # type: ignore[union-attr]
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
    parts = [head, columns((*named, *(["other networks"] if spread else [])), rows), _write_table(plan)]
    if spread:
        parts.append("the network has no probabilities: several random ones were tried, and nine in ten lie as stated")
    return "\n\n".join(parts)


def _write_table(plan: dc.results.AccuracyPlan) -> str:
    """Half-widths by budget and number of records; of several questions the widest."""
    cells = sorted(plan.table(), key=lambda row: (row["records"], row["epsilon"]))
    lines = []
    for records, group in groupby(cells, key=lambda row: row["records"]):
        widths = [max(row["half_width"] for row in same) for _, same in groupby(group, key=lambda row: row["epsilon"])]
        lines.append((f"{records:,}", *(f"{width:.3g}" for width in widths)))
    budgets = sorted({row["epsilon"] for row in cells})
    what = "half-width" if len(plan.questions) == 1 else "widest half-width"
    return f"{what} by records and epsilon\n" + columns(("records", *(f"{one:.3g}" for one in budgets)), lines)
