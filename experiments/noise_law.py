"""Whether simulated noise has the size that its budget buys: an absolute number under every comparison of errors.

Errors of two of our own methods fall together if the noise that both read is too small, so that their ratio shows
nothing. What is compared here comes from the exact counts, the noisy ones and epsilon alone: independent discrete
Laplace noise of scale b in a table costs 1 / b for a record that is added and 2 / b for one that is replaced, the costs
of all tables add up to epsilon, and `E |noise| = 2 q / (1 - q^2)` with `q = exp(-1 / b)`. The noise of a star costs as
much for all of its tables together, and its norm is d times as large on average, d the free numbers of a block: under a
density `exp(-norm / b)` over d dimensions it has a Gamma law; that of whole numbers differs by a part in `6 b^2`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

import discreet as dc
from discreet.model.arrays import by_rows
from discreet.releases.kinds.noisy_tables import star_scopes
from discreet.theory.star_cover import shared_by

from .pages import Check, Estimate, estimate

__all__ = ["METRIC", "SANE", "law_of_noise", "noise_check", "noise_row"]

METRIC = "noise"
"""Of rows that hold the mean absolute noise over that of the law."""
SANE = 0.35
"""What the ratio may be off by where few releases know it: half the noise would be .5."""


def law_of_noise(scale: float) -> float:
    """Mean absolute value of discrete Laplace noise of a scale, records: `2 q / (1 - q^2)`, `q = exp(-1 / scale)`."""
    return 1 / math.sinh(1 / scale)


def noise_row(release: dc.Release, counts: dc.results.Counts) -> dict[str, object]:
    """A row with the mean absolute noise of a simulated release over that of the law that epsilon buys.

    Args:
        release: simulated, of noisy tables with discrete Laplace noise.
        counts: the exact ones.

    Returns:
        Metric and value. How the tables share epsilon is taken from the release, what they share is not: if their
        stated scales cost something else than epsilon, the law is that of scales which cost epsilon.

    Raises:
        TypeError: the release has no tables of counts.
    """
    added, expected = 0.0, 0.0
    groups = list(_groups(release, counts))
    moved = 2 if release.guarantee.relation == dc.Relation.REPLACE else 1
    stretch = sum(moved / scale for *_, scale in groups) / float(release.guarantee.epsilon)
    for norm, dimensions, scale in groups:
        added += norm
        expected += dimensions * law_of_noise(scale * stretch)
    return {"metric": METRIC, "value": added / expected}


def _groups(release: dc.Release, counts: dc.results.Counts) -> Iterator[tuple[float, int, float]]:
    """Of each star, and of each table beside them, the norm of its noise, its free numbers, and the stated scale."""
    match release.payload:
        case dc.kinds.NoisyTables() as payload:
            noise = {scope: noisy - counts.joint(scope) for scope, noisy in payload.tables.items()}
            alone = [(scope,) for scope in noise if scope not in payload.stars]
            for group in (*alone, *star_scopes(payload.stars)):
                shared = shared_by(group)
                rows = [by_rows(noise[scope], scope, shared) for scope in group]
                norm = np.max([np.abs(row).sum(axis=1) for row in rows], axis=0).sum()
                free = 1 + sum(row.shape[1] - 1 for row in rows)
                yield float(norm), free * len(rows[0]), payload.scales[group[0]]
        case dc.kinds.NoisyCounts(tables=tables, scales=scales):
            for node, noisy in tables.items():
                yield float(np.abs(noisy - counts.tables[node]).sum()), noisy.size, scales[node]
        case payload:
            raise TypeError(f"noisy tables of counts were expected, not {type(payload).__name__}")


def noise_check(rows: pd.DataFrame, what: str) -> Check:
    """That the noise of some releases is as large as epsilon has it, on average.

    Args:
        rows: with columns `repeat`, `metric` and `value`; releases of one repeat are averaged.
        what: whose noise it is.

    Returns:
        The check.
    """
    each = rows[rows["metric"] == METRIC].groupby("repeat")["value"].mean()
    # Nothing measured is nothing that holds.
    found = estimate(each) if len(each) else Estimate(float("nan"))
    return Check.within(
        f"{what}: mean |noise| over that of epsilon's law", found, (1.0, 1.0), sane=(1 - SANE, 1 + SANE)
    )
