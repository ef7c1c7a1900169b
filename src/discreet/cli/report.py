"""Write text for people: aligned text and one-line summaries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import discreet as dc
from discreet.display.terminal import table
from discreet.errors import listed, printable
from discreet.model.round_numbers import FOUND_BINS, wide_columns
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.planning.pair_budget import all_pairs, chosen_pairs, plan_pairs
from discreet.planning.star_cover import shared_by
from discreet.posterior.read import posterior_kind
from discreet.privacy.guarantee import as_text
from discreet.releases.codec import encode
from discreet.releases.kinds.noisy_counts import TableNoise
from discreet.releases.kinds.noisy_tables import PlannedNoise, measured_part, star_scopes
from discreet.releases.kinds.tables_with_pairs import pairs_beyond
from discreet.releases.measurement import Calibration
from discreet.util.lazy_imports import lazy_import

if TYPE_CHECKING:
    from discreet.privacy.ledger_balance import Balance
documents = lazy_import("discreet.queries.documents")

UNUSED_DELTA = "the delta is charged but not used: Laplace noise has less error here, so leave the delta out"


DROPPED_RECORDS = (
    "incomplete records were dropped: answers are about complete records, and biased if missing values depend on "
    "observed ones; --missing keep uses all records"
)
EXCEEDED_CHANCE = 0.05
"""Probability that some noise exceeds the bound that is shown."""


def release_lines(release: dc.Release, balance: Balance) -> str:
    """Write the cost of a release, its noise, and its rows with too few records; nothing depends on the records."""
    limit = balance.limit
    lines = [
        f"released {release.id}: {release.guarantee}",
        *release.unit_lines,
        f"spent epsilon {as_text(balance.epsilon_spent)} of {as_text(limit.epsilon)}, "
        f"left {as_text(balance.epsilon_left)}"
        + (f"; delta left {as_text(balance.delta_left)}" if limit.delta else ""),
        _describe_noise(release),
        *([DROPPED_RECORDS] if release.policy.missing == "drop" else []),
        *origin_lines(*release.networks),
    ]
    if posterior_kind(release) == "structure":
        lines += [f"{parent} -> {child}" for parent, child in release.answers_over.arcs]
    if not release.payload.measurements:
        return "\n".join(map(printable, lines))
    below = dc.tools.rows_below_noise(release)
    if below:
        named = ", ".join(f"{node} {few} of {all_}" for node, (few, all_) in list(below.items())[:8])
        more = f", and {len(below) - 8} more families" if len(below) > 8 else ""
        lines.append(f"too few records to estimate (rows whose total is below the noise): {named}{more}")
    else:
        lines.append("no row has too few records to estimate")
    lines.append(f"network: {dc.check_fit(release)}")
    return "\n".join(map(printable, lines))


def release_summary(release: dc.Release, balance: Balance) -> dict[str, object]:
    """Write the content of `release_lines` as JSON."""
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
    if posterior_kind(release) == "structure":
        arcs = [list(arc) for arc in release.answers_over.arcs]
        return {**summary, "arcs": arcs, "calibration": encode(release.calibration)}
    if not release.networks:
        return {**summary, "calibration": encode(release.calibration)}
    if isinstance(release.payload, dc.kinds.NoisyCounts):
        summary["scales"] = dict(release.payload.scales)
    if isinstance(release.calibration.of_tables, dc.kinds.PlannedNoise | dc.kinds.NoiseWithPairs):
        summary["plan"] = plan_summary(release.calibration)
    if isinstance(payload := release.payload.of_tables, dc.kinds.TablesWithPairs):
        summary["audit"] = {"pairs": list(map(list, payload.pairs)), "chosen": payload.chosen, "scale": payload.scale}
    below = {node: list(rows) for node, rows in dc.tools.rows_below_noise(release).items()}
    return {
        **summary,
        **documents.origin_document([release.network]),
        "rows_below_noise": below,
        "fit": documents.fit_document(dc.check_fit(release)),
    }


def origin_lines(*networks: dc.Network) -> list[str]:
    """Describe networks that were learned from the records, and their cost; nothing for public ones."""
    return list(dict.fromkeys(f"network: {network.learned}" for network in networks if network.learned))


def plan_summary(plan: Calibration) -> dict[str, object]:
    """Write a plan as JSON; with pairs the first stage and the budget of the second, and those of numbers and bins."""
    if plan.ordinary is not plan:
        return {**plan_summary(plan.ordinary), "bins": {"epsilon": as_text(plan.total - plan.ordinary.total)}}
    tables = plan.of_tables
    if tables is not plan:
        return {**plan_summary(tables), "numbers": {"epsilon": as_text(plan.total - tables.total)}}
    if isinstance(plan, dc.kinds.NoiseWithPairs):
        pilot = {} if plan.total_epsilon is None else {"records_epsilon": as_text(plan.total_epsilon)}
        return {**plan_summary(plan.plan), "audit": {"epsilon": as_text(plan.second), **pilot}}
    first = cast(PlannedNoise, plan)
    return {
        "noise": first.noise,
        "tables": [
            {"variables": list(scope), "budget": as_text(budget), "scale": first.scales[scope]}
            | ({"star": first.stars[scope]} if scope in first.stars else {})
            for scope, budget in first.budgets.items()
        ],
        "expected": dict(first.expected),
    }


def pair_lines(network: dc.Network, plan: dc.kinds.NoiseWithPairs, records: int) -> str:
    """Describe what the second stage would measure with so many records.

    Args:
        network: of the release.
        plan: of its two stages.
        records: guessed number.
    """
    candidates = len(pairs_beyond(all_pairs(network), plan.plan.scales))
    number, law = plan_pairs(records, candidates, plan.second, plan.rho, plan.sensitivity)
    how = "all" if number == candidates else f"{chosen_pairs(number, candidates)} by misfit, the others at random"
    noise = ", Gaussian noise" if law.concentrated else ""
    pairs = f"{number} of them ({how}{noise})" if number else "none of them: too few records, so the plan gets it"
    counted = "" if plan.total_epsilon is None else f", and {float(plan.total_epsilon):.4g} for the number of records"
    return f"{candidates} pairs of variables lie in no table; epsilon {as_text(plan.second)} is for {pairs}{counted}"


def number_lines(network: dc.Network, plan: Calibration, records: int) -> str:
    """Describe the bins that are found, the sums of numbers, and of which columns these would tell less than bins do.

    Args:
        network: of the release.
        plan: all of it.
        records: guessed number.

    Returns:
        Text that begins with an empty line; none where no bins are found and nothing is released of numbers.
    """
    parts, text = plan.planned_numbers(network, records), ""
    if plan.ordinary is not plan:
        spent = plan.total - plan.ordinary.total
        text = f"\n\nbins of {listed([each.name for each in wide_columns(network)])} are found first, with epsilon "
        text += (
            f"{float(spent):.4g}, a share of {float(spent / plan.total):.2g}; the tables are those of {FOUND_BINS} bins"
        )
    if not parts:
        return text
    spent, poor = plan.ordinary.total - plan.of_tables.total, [part.name for part in parts if not part.pays]
    heads = ("column", "noise of its mean, 95 %", "left open by bins", "leaves of a bin", "squares", "families by rows")
    rows = [
        (part.name, f"{2 * part.noise:.3g}", f"{part.left_open:.3g}", f"{part.leaves}", "yes" if part.moments else "no",
         f"{part.families}")
        for part in parts
    ]  # fmt: skip
    text += f"\n\nsums of numbers get epsilon {float(spent):.4g}, a share of {float(spent / plan.total):.2g}"
    text += f"\n\n{table(heads, rows)}"
    if poor:
        why = f"{records:,} records are too few at this budget for sums of {listed(poor)} to tell more than bins do"
        text += f"\n\n{why}" + (
            "; --option numbers_share=0 leaves all of it to the tables" if len(poor) == len(parts) else ""
        )
    return text


def plan_lines(network: dc.Network, plan: PlannedNoise) -> str:
    """Write the tables of a planned release with their budgets, and the expected error of each family."""
    kind = plan.law.name.removeprefix("discrete ")
    families = [
        (_describe_family(network, node, measured_part(network, plan.scales, node)[:-1]),
         f"{network.cells(network.family(node)):,}", f"{error:.4g}")
        for node, error in plan.expected.items()
    ]  # fmt: skip
    return "\n\n".join(
        (
            table(
                ("table", "cells", "star", plan.law.budget, f"scale of the {kind} noise"), _list_tables(network, plan)
            ),
            table(("family", "cells", "expected error of a cell, in records"), families),
        )
    )


def _describe_family(network: dc.Network, node: str, measured: Sequence[str]) -> str:
    """Describe a node and its parents, and the parents that its table leaves out."""
    words = f"{node} given {', '.join(measured)}" if measured else node
    left = [name for name in network.parents[node] if name not in measured]
    return f"{words} (without {', '.join(left)})" if left else words


def _list_tables(network: dc.Network, plan: PlannedNoise) -> list[tuple[str, ...]]:
    """List tables, cells, variables of agreeing noise, budgets and scales; a star's first table has all its budget."""
    heads = {star[0]: f"agrees on {', '.join(shared_by(star))}" for star in star_scopes(plan.stars)}
    rows: list[tuple[str, ...]] = []
    for scope, budget in plan.budgets.items():
        head, inside = heads.get(scope), scope in plan.stars
        spent = "with it" if inside and head is None else f"{float(budget):.4g}"
        star = head or ("likewise" if inside else "")
        rows.append((", ".join(scope), f"{network.cells(scope):,}", star, spent, f"{plan.scales[scope]:.4g}"))
    return rows


def _describe_noise(release: dc.Release) -> str:
    """Describe the size of the noise, in the unit of the release, and its consequences."""
    calibration, line = release.calibration, release.payload.summary(release.calibration)
    if isinstance(calibration, TableNoise):
        cells = sum(math.prod(release.network.shape(node)) for node in calibration.scales)
        largest = DiscreteLaplace(max(calibration.scales.values())).largest(cells, EXCEEDED_CHANCE)
        line += f"; in all {cells:,} cells at most {largest:,}, with probability {1 - EXCEEDED_CHANCE:.0%}"
    calibration = calibration.of_tables
    if isinstance(calibration, PlannedNoise) and not calibration.law.concentrated and release.guarantee.delta:
        line += f"; {UNUSED_DELTA}"
    return line
