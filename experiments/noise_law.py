"""Whether simulated noise has the size that its budget buys: an absolute number under every comparison of errors.

Errors of two of our own methods fall together if the noise that both read is too small, so that their ratio shows
nothing. What is compared here comes from the exact counts, the noisy ones and epsilon alone: independent discrete
Laplace noise of scale b in a table costs 1 / b for a record that is added and 2 / b for one that is replaced, the costs
of all tables add up to epsilon, and `E |noise| = 2 q / (1 - q^2)` with `q = exp(-1 / b)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

import discreet as dc

from .pages import Check, Estimate, estimate

__all__ = ["METRIC", "SANE", "law_of_noise", "noise_check", "noise_row"]

METRIC = "noise"
"""Of rows that hold the mean absolute noise over that of the law."""
SANE = 0.35
"""What the ratio may be off by where few releases know it: half the noise would be .5."""


def law_of_noise(scale: float) -> float:
    """Mean absolute value of discrete Laplace noise of a scale, records: `2 q / (1 - q^2)`, `q = exp(-1 / scale)`."""
    return 1 / math.sinh(1 / scale)


def noise_row(release: dc.Release, counts: dc.Counts) -> dict[str, object]:
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
    tables = list(_tables(release, counts))
    moved = 2 if release.guarantee.relation == dc.Relation.REPLACE else 1
    stretch = sum(moved / scale for *_, scale in tables) / float(release.guarantee.epsilon)
    for noisy, exact, scale in tables:
        added += float(np.abs(noisy - exact).sum())
        expected += exact.size * law_of_noise(scale * stretch)
    return {"metric": METRIC, "value": added / expected}


def _tables(release: dc.Release, counts: dc.Counts) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Noisy counts, exact ones and the stated scale of each table."""
    match release.payload:
        case dc.NoisyTables(tables=tables, scales=scales):
            for scope, noisy in tables.items():
                yield noisy, counts.joint(scope), scales[scope]
        case dc.NoisyCounts(tables=tables, scales=scales):
            for node, noisy in tables.items():
                yield noisy, counts.tables[node], scales[node]
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
