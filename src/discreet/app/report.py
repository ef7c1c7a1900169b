"""What a person reads: aligned text and one-line summaries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import discreet as dc
from discreet.app.terminal import fit_document
from discreet.errors import listed
from discreet.privacy.guarantee import as_text
from discreet.releases.codec import encode
from discreet.releases.kinds.audited_tables import pairs_beyond
from discreet.releases.kinds.noisy_counts import TableNoise
from discreet.releases.kinds.noisy_tables import PlannedNoise, measured_part, star_scopes
from discreet.theory.audit_size import all_pairs, audit_of, chosen_pairs
from discreet.theory.bounds import largest_integer_noise
from discreet.theory.star_cover import shared_by

if TYPE_CHECKING:
    from discreet.privacy.ledger import Balance

__all__ = [
    "UNUSED_DELTA",
    "answer_lines",
    "assumption_lines",
    "audit_lines",
    "columns",
    "fit_lines",
    "origin_document",
    "origin_lines",
    "plan_lines",
    "plan_summary",
    "release_lines",
    "release_summary",
]

UNUSED_DELTA = "the delta is charged and not used: Laplace noise has less error here, so leave the delta out"


DROPPED_RECORDS = (
    "incomplete records were dropped: answers are of those that are complete, and wrong for all if gaps depend on what "
    "was seen; --missing keep reads them as well"
)
EXCEEDED_CHANCE = 0.05
"""Chance that some noise is larger than the bound that is shown."""
MOST_VARIABLES_A_LINE = 3
"""Most variables of a joint state that are shown on one line."""


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as left-aligned text under a header."""
    listed = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in listed) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed]
    return "\n".join(lines)


def answer_lines(answers: Sequence[dc.results.Answer]) -> str:
    """Answers as one table; a joint state of many variables takes a line for each, the next what it has otherwise.

    Some columns are there where something is known for them: how often an explanation is the most probable one, the
    part of an interval's variance that the privacy noise makes, give or take its standard error, and what an answer
    rests on. Below stands which pairs of variables nobody measured, and which answers leave draws out.
    """
    rows = [row for answer in answers for row in _list_rows(answer)]
    level = answers[-1].level if answers else 0.0
    header = ("query", "state", "mean", f"{100 * level:.6g} % interval", "best", "noise", "rests on")
    kept = [column for column in range(len(header)) if column < 4 or any(row[column] for row in rows)]
    table = columns([header[column] for column in kept], [[row[column] for column in kept] for row in rows])
    partial = [
        f"{answer.query}: {100 * answer.left_out:.2g} % of the draws make the evidence impossible and are left out"
        for answer in answers
        if answer.left_out
    ]
    notes = [*assumption_lines(answers), *_list_bins(answers), *partial, *_list_sampling(answers)]
    return "\n".join([table, *([""] if notes else []), *notes])


def _list_rows(answer: dc.results.Answer) -> Iterator[tuple[str, ...]]:
    """List an answer's rows as cells of the table; its query and what it rests on stand in the first alone."""
    form = ".4f" if answer.unit == "probability" else ".6g"
    query, basis = answer.query, answer.basis or ""
    for index, row in enumerate(answer.rows):
        states = _list_state(row, None if index == 0 else answer.rows[0])
        if answer.inside is not None:  # of numbers the query says which variable
            states = list(row["state"].values())  # type: ignore[attr-defined]
        numbers = (f"{row['mean']:{form}}", f"{row['lower']:{form}} to {row['upper']:{form}}")
        yield (query, states[0], *numbers, _format_percent(row.get("best")), _format_noise_share(row), basis)
        yield from (("", state, "", "", "", "", "") for state in states[1:])
        query = basis = ""


def _list_sampling(answers: Sequence[dc.results.Answer]) -> list[str]:
    """List, of answers past exact inference, how well they are known."""
    return [
        f"{answer.query}: exact inference is out of reach, so this is sampled, {answer.sampling.records:,} records for "
        f"each draw, worth {answer.sampling.effective:,.0f}: standard error of a mean at most "
        f"{answer.sampling.error:.2g}, intervals at most {100 * answer.sampling.widening:.2g} % wider"
        for answer in answers
        if answer.sampling is not None
    ]


def _list_bins(answers: Sequence[dc.results.Answer]) -> list[str]:
    """List, of numbers, what their intervals hold, and how much narrower they are under the law inside bins."""
    return [
        f"{answer.query}: by the {answer.inside} law inside bins {answer.rows[0]['law_lower']:.6g} to "
        f"{answer.rows[0]['law_upper']:.6g}; the interval above holds whatever the law is"
        for answer in answers
        if answer.inside is not None
    ]


def assumption_lines(answers: Sequence[dc.results.Answer | dc.results.Regression]) -> list[str]:
    """What answers have of their prior alone, and pairs that they assume something of: a line of each, each once."""
    from discreet.posterior.basis import prior_only_words

    lines = [prior_only_words(answer.prior_only) for answer in answers if answer.prior_only]
    lines += [
        "assumed: no table has " + listed([f"{one} with {other}" for one, other in answer.unmeasured])
        for answer in answers
        if answer.unmeasured
    ]
    return list(dict.fromkeys(lines))


def fit_lines(checked: dc.results.FitCheck) -> str:
    """All tests of a network as a table, those of the largest effect first, and what they come to."""
    rows = [
        (
            " - ".join(test.variables),
            f"{test.effect:.4f}",
            f"{test.p:.2g}",
            "contradicted" if test.contradicted else "",
            ", ".join(f"{parent} -> {child}" for parent, child in test.arcs),
        )
        for test in checked.tests
    ]
    table = columns(("independent, says the network", "effect", "p", "", "arcs that would carry it"), rows)
    return f"{table}\n\n{checked}" if rows else str(checked)


def _list_state(row: Mapping[str, object], first: Mapping[str, object] | None) -> list[str]:
    """List a joint state; one of many variables by its differences from the first."""
    states: dict[str, str] = dict(row["state"])  # type: ignore[call-overload]
    known: dict[str, str] = {} if first is None else dict(first["state"])  # type: ignore[call-overload]
    if len(states) <= MOST_VARIABLES_A_LINE:
        return [", ".join(f"{name}={value}" for name, value in states.items())]
    lines = [f"{name}={value}" for name, value in states.items() if known.get(name) != value]
    if first is None:
        return lines
    return [f"but {', '.join(lines)}"] if len(lines) <= MOST_VARIABLES_A_LINE else [f"but {lines[0]}", *lines[1:]]


def _format_percent(share: object) -> str:
    """Format a share as percent; nothing where it is not known."""
    return f"{100 * share:.0f} %" if isinstance(share, float) else ""


def _format_noise_share(row: Mapping[str, object]) -> str:
    """Format the noise's share as percent, to the first digit of its standard error: `38 ± 3 %`; nothing if unknown."""
    share, error = row.get("noise"), row.get("noise_error")
    if not isinstance(share, float) or not isinstance(error, float):
        return ""
    percent, off = 100 * share, 100 * error
    unit = 10.0 ** max(math.floor(math.log10(max(off, 1.0))), 0)
    shown, off = (unit * round(number / unit) for number in (percent, off))
    return f"{shown:.0f} ± {off:.0f} %" if off else f"{shown:.0f} %"


def release_lines(release: dc.Release, balance: Balance) -> str:
    """What a release cost, how large its noise is, and where it says little; nothing here comes from the records."""
    limit = balance.limit
    lines = [
        f"released {release.id}: {release.guarantee}",
        *release.unit_lines,
        f"spent epsilon {as_text(balance.epsilon_spent)} of {as_text(limit.epsilon)}, "
        f"left {as_text(balance.epsilon_left)}"
        + (f"; delta left {as_text(balance.delta_left)}" if limit.delta else ""),
        _describe_noise(release),
        *([DROPPED_RECORDS] if release.policy.missing == "drop" else []),
        *(() if release.over_design else origin_lines(release.network)),
    ]
    if isinstance(release.payload, dc.kinds.ChosenNetwork):
        lines += [f"{parent} -> {child}" for parent, child in release.payload.chosen.arcs]
    if not release.payload.measurements:
        return "\n".join(lines)
    below = dc.tools.rows_below_noise(release)
    if below:
        named = ", ".join(f"{node} {few} of {all_}" for node, (few, all_) in list(below.items())[:8])
        more = f", and {len(below) - 8} more families" if len(below) > 8 else ""
        lines.append(f"rows below the noise (their total is smaller than its standard deviation): {named}{more}")
    else:
        lines.append("no row is below the noise")
    lines.append(f"network: {dc.fit(release)}")
    return "\n".join(lines)


def release_summary(release: dc.Release, balance: Balance) -> dict[str, object]:
    """The same as `release_lines` says, for JSON."""
    promise = release.guarantee
    summary: dict[str, object] = {
        "id": release.id,
        "epsilon": as_text(promise.epsilon),
        "spent": as_text(balance.epsilon_spent),
        "left": as_text(balance.epsilon_left),
        "mechanism": release.mechanism,
        "delta": as_text(promise.delta),
        "guarantee": str(promise),
        **({"unit": release.unit_lines} if release.unit_lines else {}),
    }
    if isinstance(release.payload, dc.kinds.ChosenNetwork):
        arcs = [list(arc) for arc in release.payload.chosen.arcs]
        return {**summary, "arcs": arcs, "calibration": encode(release.calibration)}
    if release.over_design:
        return {**summary, "calibration": encode(release.calibration)}
    if isinstance(release.payload, dc.kinds.NoisyCounts):
        summary["scales"] = dict(release.payload.scales)
    if isinstance(release.calibration, dc.kinds.PlannedNoise | dc.kinds.AuditNoise):
        summary["plan"] = plan_summary(release.calibration)
    if isinstance(release.payload, dc.kinds.AuditedTables):
        payload = release.payload
        summary["audit"] = {"pairs": list(map(list, payload.pairs)), "chosen": payload.chosen, "scale": payload.scale}
    below = {node: list(rows) for node, rows in dc.tools.rows_below_noise(release).items()}
    return {
        **summary,
        **origin_document(release.network),
        "rows_below_noise": below,
        "fit": fit_document(dc.fit(release)),
    }


def origin_lines(*networks: dc.Network) -> list[str]:
    """That networks were learned from the records, and what it cost beside their releases; nothing of public ones."""
    return list(dict.fromkeys(f"network: {network.learned}" for network in networks if network.learned))


def origin_document(*networks: dc.Network) -> dict[str, object]:
    """The same as JSON."""
    found = dict.fromkeys(network.learned for network in networks if network.learned)
    return {"learned": [asdict(origin) for origin in found]} if found else {}


def plan_summary(plan: dc.kinds.PlannedNoise | dc.kinds.AuditNoise) -> dict[str, object]:
    """A plan as JSON; of an audited one the first stage, and what the second may cost."""
    if isinstance(plan, dc.kinds.AuditNoise):
        pilot = {} if plan.total_epsilon is None else {"records_epsilon": as_text(plan.total_epsilon)}
        return {**plan_summary(plan.plan), "audit": {"epsilon": as_text(plan.second), **pilot}}
    return {
        "noise": plan.noise,
        "tables": [
            {"variables": list(scope), "budget": as_text(budget), "scale": plan.scales[scope]}
            | ({"star": plan.stars[scope]} if scope in plan.stars else {})
            for scope, budget in plan.budgets.items()
        ],
        "expected": dict(plan.expected),
    }


def audit_lines(network: dc.Network, plan: dc.kinds.AuditNoise, records: int) -> str:
    """What the second stage would measure of so many records.

    Args:
        network: of the release.
        plan: of its two stages.
        records: a guess.
    """
    candidates = len(pairs_beyond(all_pairs(network), plan.plan.scales))
    number, gaussian = audit_of(records, candidates, plan.second, plan.rho, plan.sensitivity)
    how = "all" if number == candidates else f"{chosen_pairs(number, candidates)} by misfit, the others at random"
    noise = ", Gaussian noise" if gaussian else ""
    pairs = (
        f"{number} of them ({how}{noise})" if number else "none of them: too few records, and the plan gets that, too"
    )
    counted = "" if plan.total_epsilon is None else f", and {as_text(plan.total_epsilon)} for the number of records"
    return f"{candidates} pairs of variables lie in no table; epsilon {as_text(plan.second)} is for {pairs}{counted}"


def plan_lines(network: dc.Network, plan: PlannedNoise) -> str:
    """The tables of a planned release with their budgets, and the error to expect of every family."""
    budget, kind = ("epsilon", "Laplace") if plan.noise == "discrete_laplace" else ("rho", "Gaussian")
    families = [
        (_describe_family(network, node, measured_part(network, plan.scales, node)[:-1]),
         f"{network.cells(network.family(node)):,}", f"{error:.4g}")
        for node, error in plan.expected.items()
    ]  # fmt: skip
    return "\n\n".join(
        (
            columns(("table", "cells", "star", budget, f"scale of the {kind} noise"), _list_tables(network, plan)),
            columns(("family", "cells", "expected error of a cell, in records"), families),
        )
    )


def _describe_family(network: dc.Network, node: str, kept: Sequence[str]) -> str:
    """Describe a node and its parents, and which of them its table is measured without."""
    words = f"{node} given {', '.join(kept)}" if kept else node
    left = [name for name in network.parents[node] if name not in kept]
    return f"{words} (without {', '.join(left)})" if left else words


def _list_tables(network: dc.Network, plan: PlannedNoise) -> list[tuple[str, ...]]:
    """List tables, entries, what their noise agrees on, budgets and scales; of a star the first has all the budget."""
    heads = {star[0]: f"agrees on {', '.join(shared_by(star))}" for star in star_scopes(plan.stars)}
    rows: list[tuple[str, ...]] = []
    for scope, budget in plan.budgets.items():
        head, inside = heads.get(scope), scope in plan.stars
        spent = "with it" if inside and head is None else f"{float(budget):.4g}"
        star = head or ("likewise" if inside else "")
        rows.append((", ".join(scope), f"{network.cells(scope):,}", star, spent, f"{plan.scales[scope]:.4g}"))
    return rows


def _describe_noise(release: dc.Release) -> str:
    """Describe how large the noise is, in the unit of what was released, and what follows from it."""
    calibration, line = release.calibration, release.payload.summary(release.calibration)
    if isinstance(calibration, TableNoise):
        cells = sum(math.prod(release.network.shape(node)) for node in calibration.scales)
        largest = largest_integer_noise(cells, max(calibration.scales.values()), EXCEEDED_CHANCE)
        line += f"; in all {cells:,} cells at most {largest:,}, with probability {1 - EXCEEDED_CHANCE:.0%}"
    if isinstance(calibration, PlannedNoise) and calibration.noise == "discrete_laplace" and release.guarantee.delta:
        line += f"; {UNUSED_DELTA}"
    return line
