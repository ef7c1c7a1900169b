"""Whether simulated noise has the size that its budget buys: an absolute number under every comparison of errors.

Errors of two of our own methods fall together if the noise that both read is too small, so that their ratio shows
nothing. What is compared here comes from the exact counts, the noisy ones and epsilon alone: independent discrete
Laplace noise of scale b in a table costs 1 / b for a record that is added and 2 / b for one that is replaced, the costs
of all tables add up to epsilon, and `E |noise| = 2 q / (1 - q^2)` with `q = exp(-1 / b)`. The noise of a star costs as
much for all of its tables together: a block has the law `P(z) ~ q^norm(z)`, norm the largest L1 norm of its rows, over
all whole numbers whose rows sum to one number.

**The mean norm of a block** is exact at all scales. A density `exp(-norm / b)` over the d free numbers of a block would
have d b. Whole numbers are far from it at small scales, as many points have norm 1: of 16 rows of two cells 2^17, which
q = e^-5 at b = .2 hardly makes rare. Let B(u, v) be the number of rows whose positive entries sum to u - t and whose
negative ones to -(v - t) for some t >= 0, and H(n) the sum over u + v = n of the product of B over tables. A block of
norm N has one term in H(n) for each n = N, N + 2, ..., so that n ~ q^n H(n) is N and twice a geometric number, and
`E N = E n - 2 q^2 / (1 - q^2)`. H is a polynomial of degree d: with its differences
`h(i) = sum over k of (-1)^k C(d + 1, k) H(i - k)` n is an i ~ q^i h(i) and d + 1 geometric numbers, so that
`E n = E i + (d + 1) q / (1 - q)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd

import discreet as dc
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.planning.star_cover import shared_by
from discreet.releases.kinds.noisy_tables import star_scopes
from discreet.util.arrays import by_rows

from .pages import Check, Estimate, estimate

__all__ = ["METRIC", "SANE", "law_of_noise", "law_of_star", "noise_check", "noise_row"]

METRIC = "noise"
"""Of rows that hold the mean absolute noise over that of the law."""
SANE = 0.35
"""What the ratio may be off by where few releases know it: half the noise would be .5."""
Group = tuple[float, int, list[int], float]


def law_of_noise(scale: float) -> float:
    """Mean absolute value of discrete Laplace noise of a scale, records: `2 q / (1 - q^2)`, `q = exp(-1 / scale)`."""
    return 1 / math.sinh(1 / scale)


def law_of_star(lengths: Sequence[int], scale: float) -> float:
    """Mean norm of a block of star noise of a scale, records.

    Args:
        lengths: cells of a row of each table.
        scale: b.

    Returns:
        The mean over blocks of the largest L1 norm of their rows, as the module's docstring derives it; of one table
        it is the sum of its cells' `law_of_noise`.
    """
    differences = _ehrhart(tuple(sorted(lengths)))
    logs = np.array([math.log(each) if each else -np.inf for each in differences]) - np.arange(len(differences)) / scale
    weights = np.exp(logs - logs.max())
    shift = float(np.arange(len(weights)) @ weights / weights.sum())
    q = math.exp(-1 / scale)
    return shift + len(differences) * q / (1 - q) - 2 * q * q / (1 - q * q)


@cache
def _ehrhart(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Differences h(0), ..., h(d) of the numbers H(0), ..., H(d) of a star."""
    size = 1 + sum(length - 1 for length in lengths)
    rows = {length: _rows_within(length, size) for length in set(lengths)}
    points = [
        sum(math.prod(rows[length][u, n - u] for length in lengths) for u in range(n + 1)) for n in range(size + 1)
    ]
    signed = [(-1) ** k * math.comb(size + 1, k) for k in range(size + 1)]
    return tuple(sum(signed[k] * points[i - k] for k in range(i + 1)) for i in range(size + 1))


def _rows_within(length: int, most: int) -> dict[tuple[int, int], int]:
    """B(u, v) for u + v up to a limit: k positive cells sum to u, and the others to -v, or both to one less, ..."""

    def parts(total: int, cells: int) -> int:
        return math.comb(total + cells - 1, total) if cells else int(total == 0)

    found: dict[tuple[int, int], int] = {}
    for n in range(most + 1):
        for u in range(n + 1):
            # k positive cells have 1 each and share the rest.
            exactly = (
                math.comb(length, k) * parts(u - k, k) * parts(n - u, length - k) for k in range(min(u, length) + 1)
            )
            found[u, n - u] = sum(exactly) + found.get((u - 1, n - u - 1), 0)
    return found


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
    stretch = sum(moved / scale for *_, scale in groups) / _epsilon_of_tables(release)
    for norm, blocks, lengths, scale in groups:
        added += norm
        law = law_of_star(lengths, scale * stretch) if len(lengths) > 1 else lengths[0] * law_of_noise(scale * stretch)
        expected += blocks * law
    return {"metric": METRIC, "value": added / expected}


def _groups(release: dc.Release, counts: dc.results.Counts) -> Iterator[Group]:
    """Of each star, and of each table beside them: norm of its noise, blocks, lengths of their rows, stated scale."""
    match release.payload:
        case dc.kinds.NoisyTables() as payload:
            yield from _groups_of_plan(payload, counts)
        case dc.kinds.TablesWithPairs() as payload:
            yield from _groups_of_plan(payload.first, counts)
            for scope, noisy in payload.pairs.items():
                yield float(np.abs(noisy - counts.joint(scope)).sum()), 1, [noisy.size], payload.scale or math.nan
        case dc.kinds.NoisyCounts(tables=tables, scales=scales):
            for node, noisy in tables.items():
                yield float(np.abs(noisy - counts.tables[node]).sum()), 1, [noisy.size], scales[node]
        case payload:
            raise TypeError(f"noisy tables of counts were expected, not {type(payload).__name__}")


def _groups_of_plan(payload: dc.kinds.NoisyTables, counts: dc.results.Counts) -> Iterator[Group]:
    """The same of the tables of a plan."""
    noise = {scope: noisy - counts.joint(scope) for scope, noisy in payload.tables.items()}
    alone = [(scope,) for scope in noise if scope not in payload.stars]
    for group in (*alone, *star_scopes(payload.stars)):
        shared = shared_by(group)
        rows = [by_rows(noise[scope], scope, shared) for scope in group]
        norm = np.max([np.abs(row).sum(axis=1) for row in rows], axis=0).sum()
        yield float(norm), len(rows[0]), [row.shape[1] for row in rows], payload.scales[group[0]]


def _epsilon_of_tables(release: dc.Release) -> float:
    """What the noise of all tables costs: epsilon less the number of records, and the choice of pairs."""
    others, plan, payload = Fraction(), release.calibration, release.payload
    if isinstance(payload, dc.kinds.TablesWithPairs) and isinstance(plan, dc.kinds.NoiseWithPairs):
        choice = plan.second - plan.for_pairs(payload.chosen, DiscreteLaplace) if payload.pairs else 0
        others = (plan.total_epsilon or 0) + choice
    return float(release.guarantee.epsilon - others)


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
