"""What `plan --within` shows: the budget that buys the wanted accuracy, and half-widths at others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from discreet.cli.arguments import queries_of
from discreet.cli.terminal import check_output, screen_width
from discreet.errors import InputError
from discreet.model.query_grammar import Explanation, parse_query
from discreet.privacy.guarantee import as_text
from discreet.util.json_files import write_whole
from discreet.verify.plan_text import widths_text


@dataclass(frozen=True)
class Wanted:
    """What is to be answered, how accurately, and the file of the picture, if there shall be one."""

    queries: Sequence[str]
    within: float
    picture: Path | None
    replace: bool


def plan_within(
    wanted: Wanted,
    truth: dc.Tables | dc.Design,
    known: bool,
    records: int,
    promises: Sequence[dc.Guarantee],
    mechanisms: Mapping[str, dc.tools.Mechanism[Any, Any, Any, Any]],
    rng: np.random.Generator,
) -> tuple[dict[str, Any], str]:
    """Plan for each mechanism and relation, as JSON and as text; of the first a picture.

    Args:
        wanted: what the user wants.
        truth: probabilities of a network.
        known: whether they are the network's own; if not, others are tried as well.
        records: expected number.
        promises: of the relations that are looked at; their epsilons do not matter.
        mechanisms: by name.
        rng: source of records and noise.
    """
    if not wanted.queries:
        raise InputError('--within is about questions: name some, such as "P(lung | smoke=yes)"')
    if wanted.picture is not None:
        check_output(wanted.picture, wanted.replace)
    assert isinstance(truth, dc.Tables)
    over = truth if known else truth.network
    found: list[tuple[dc.Relation, dc.results.AccuracyPlan]] = []
    same = int(rng.integers(2**63))  # of all plans: they are of the same networks and records
    for promise, mechanism in product(promises, mechanisms.values()):
        plan = dc.plan_accuracy(
            over, wanted.queries, wanted.within, records, guarantee=promise, mechanism=mechanism, rng=same
        )
        found.append((promise.relation, plan))
    text = "\n\n".join(_write_text(relation, plan) for relation, plan in found)
    if wanted.picture is not None:
        write_whole(found[0][1].to_svg(), wanted.picture, "picture", replace=wanted.replace)
        text += f"\n\nwrote {wanted.picture}"
    return {"within": wanted.within, "plans": [_write_document(*each) for each in found]}, text


def plan_workload(
    workload: Sequence[str],
    truth: dc.Tables,
    known: bool,
    records: int,
    promises: Sequence[dc.Guarantee],
    mechanism: dc.tools.Mechanism[Any, Any, Any, Any],
    rng: np.random.Generator,
) -> tuple[list[dict[str, Any]], str]:
    """Say how wide intervals of a workload's queries are, and how far off its answers, at a stated budget.

    Args:
        workload: queries, or files of them; a most probable state has no width, and is left out.
        truth: probabilities of a network.
        known: whether they are the network's own; if not, others are tried as well.
        records: expected number.
        promises: of the releases.
        mechanism: that serves the workload.
        rng: source of records and noise.
    """
    queries = [parse_query(query, truth.network.schema) for word in workload for query in queries_of(word)]
    asked = [query for query in queries if not isinstance(query, Explanation)]
    told, text = list[dict[str, Any]](), ""
    for promise in promises if asked else ():
        over = truth if known else truth.network
        plan = dc.plan_accuracy(over, asked, None, records, guarantee=promise, mechanism=mechanism, rng=rng)
        told += [{"relation": promise.relation.value, **row} for row in plan.rows()]
        head = f"the workload at epsilon {as_text(promise.epsilon)}, {promise.relation}"
        text += f"\n\n{head}\n{widths_text(plan, screen_width())}"
    return told, text


def _write_document(relation: dc.Relation, plan: dc.results.AccuracyPlan) -> dict[str, Any]:
    """A plan as JSON."""
    return {
        "relation": relation.value,
        "mechanism": plan.mechanism,
        "epsilon": None if plan.guarantee is None else as_text(plan.guarantee.epsilon),
        "refused": plan.refused,
        "questions": plan.rows(),
        "half_widths": plan.table(),
    }


def _write_text(relation: dc.Relation, plan: dc.results.AccuracyPlan) -> str:
    """A plan as text, which begins with the mechanism and the relation."""
    return f"{plan.mechanism}, {relation}{plan.summary(width=screen_width()).removeprefix(plan.mechanism)}"
