"""The part of the page on coverage that is about networks with known probabilities: the shipped default, by stratum.

A *place* is a network, public or made up, under a relation. Quick runs repeat a few places often, at the epsilon that
is guarded, and others just often enough for the mean over all of them; `bench.strata` measures any place by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from .generated import RECIPES, SMALL, generated
from .harness import Task
from .intervals import LEVEL
from .networks import available, theta_of
from .pages import Check, Estimate, estimate, markdown
from .strata import ENDS, KINDS, ROWS, SIZES, STRATA, Known, Setting, measured

__all__ = [
    "BAND",
    "GUARDED",
    "OWN",
    "PLACES",
    "PUBLIC",
    "by_place",
    "by_stratum",
    "failures",
    "floored",
    "mean_of",
    "network_checks",
    "noise_aware_coverage",
    "percent",
    "plan",
    "read",
    "strata_checks",
    "within_band",
    "worst",
]

BAND = (0.92, 0.98)
"""95 +- 3 %: the goal that the package set itself before it was measured."""
LEAST_SANE = 0.85
"""Coverage of a nominal 95 % that nobody would call right; too much of it is told apart from all only below 100 %."""
LEAST_OF_STRATA = {**dict.fromkeys((*SIZES, *ROWS), 0.90), ENDS: 0.85}
"""Mean coverage over all places."""
MARGIN = 0.06
"""How much less would still be taken for that."""
GUARDED = 1.0
"""Epsilon at which each of some networks is checked by itself."""
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
PUBLIC = ("asia", "sachs", "child", "alarm", "win95pts", "hailfinder")
OWN = ("known asia", "known sachs", "known child")
"""Places that are repeated often enough to be checked by themselves."""
LARGE = OWN[1:]
"""Those with so many entries that too much coverage shows as well."""
ENOUGH = 100
"""Intervals of a stratum at a place, in all repeats, from which on it counts for the mean over places."""
FEWEST_PLACES = 4
"""Places from which on their mean at one epsilon is checked: one or two repeated a few times have no power."""
SEEDS = 11
"""Seed set of the page, which no other measurement uses."""


def _places() -> dict[str, tuple[str, str]]:
    """Networks and relations by the name of a place; made-up networks are there for those who lack the public ones."""
    named = {f"known {name}": name for name in PUBLIC} | {f"made-up {name}": name for name in (*SMALL, *RECIPES)}
    plain = {place: (name, "add-remove") for place, name in named.items()}
    return plain | {f"{place}, replace": (name, "replace") for place, name in named.items()}


PLACES: Mapping[str, tuple[str, str]] = _places()
QUICK: Mapping[str, Mapping[float, int]] = {
    "known asia": {0.1: 16, 0.3: 8, 1.0: 50, 3.0: 8, 10.0: 16},
    "known asia, replace": {0.1: 6, 1.0: 6, 10.0: 6},
    "known sachs": {0.1: 6, 1.0: 50, 10.0: 12},
    "known sachs, replace": {0.1: 3, 1.0: 3, 10.0: 3},
    "known child": {0.1: 4, 1.0: 30, 10.0: 6},
    "known child, replace": {1.0: 3},
    "known alarm": {0.1: 1, 1.0: 2, 10.0: 2},
    "known alarm, replace": {1.0: 1},
    **{f"made-up {name}": {0.1: 3, 1.0: 2, 10.0: 3} for name in SMALL},
    **{f"made-up {name}, replace": {1.0: 2} for name in SMALL},
}
"""Repeats by place and epsilon; about five minutes of one core for each of two seed sets."""
FULL: Mapping[str, int] = {"asia": 100, "sachs": 100, "child": 100, "alarm": 20, "win95pts": 10, "hailfinder": 5}
FULL_MADE_UP, FULL_GUARDED = 20, 400


# ------------------------------------------------------------------------------------------ measuring


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Settings and repeats at the places whose networks are there.

    Args:
        quick: whether it is to be quick.

    Returns:
        As `Experiment.plan`.
    """
    there = {*available(PUBLIC), *SMALL, *RECIPES}
    found = []
    for place, (name, _) in PLACES.items():
        if name in there:
            repeats = QUICK.get(place, {}) if quick else dict.fromkeys(EPSILONS, FULL.get(name, FULL_MADE_UP))
            if place in OWN and not quick:
                repeats[GUARDED] = FULL_GUARDED
            found += [({"truths": place, "mechanism": "planned", "epsilon": e}, n) for e, n in repeats.items()]
    return found


@cache
def _known(name: str) -> Known:
    """A network with what is asked of it."""
    return Known.of(name, generated(name) if name in {**SMALL, **RECIPES} else theta_of(name))


def read(task: Task) -> Iterator[tuple[str, str, tuple[float, float], int]]:
    """One release at a place, and its posterior.

    Args:
        task: whose setting is one of `plan`.

    Yields:
        By stratum: reader, stratum, coverage and mean width, and of how many intervals.
    """
    name, relation = PLACES[task.setting["truths"]]
    setting = Setting(f"{task.setting['epsilon']:g}", relation)
    for stratum, tally in measured(_known(name), setting, (SEEDS, task.seeds, task.repeat)).tallies.items():
        answered = tally.number - tally.unanswered
        width = tally.width / answered if answered else np.nan
        yield "noise-aware", stratum, (tally.hits / tally.number, width), tally.number


# ------------------------------------------------------------------------------------------ means


def noise_aware_coverage(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of the coverage of noise-aware intervals."""
    return frame[(frame["metric"] == "coverage") & (frame["reader"] == "noise-aware")]


def least_error(intervals: float) -> float:
    """Standard error of the share of so many independent intervals that hold 95 %."""
    return float(np.sqrt(LEVEL * (1 - LEVEL) / intervals))


def floored(rows: pd.DataFrame) -> Estimate:
    """Mean coverage of repeats; its error is at least that of so many independent intervals that hold 95 %.

    Few repeats may agree by chance, and would have none.
    """
    found = estimate(rows["value"])
    return Estimate(found.mean, max(float(np.nan_to_num(found.error)), least_error(rows["intervals"].sum())))


def mean_of(cells: Sequence[Estimate]) -> Estimate:
    """Of independent estimates, each weighed the same."""
    errors = [cell.error for cell in cells]
    return Estimate(float(np.mean([cell.mean for cell in cells])), float(np.linalg.norm(errors) / len(cells)))


def percent(found: Estimate) -> str:
    """Coverage as text."""
    return Estimate(100 * found.mean, 100 * np.nan_to_num(found.error)).text(1)


def _plain(stratum: str) -> str:
    """The name of a stratum in Markdown."""
    return stratum.replace("<", "below").replace(">", "over")


Cells = Mapping[tuple[str, float], Mapping[str, Estimate]]
"""Coverage by place and epsilon, then by stratum."""


def _cells(frame: pd.DataFrame, enough: int = ENOUGH) -> Cells:
    """All that there is; strata with too few intervals are left out."""
    rows, found = noise_aware_coverage(frame), dict[tuple[str, float], dict[str, Estimate]]()
    groups = rows[rows["truths"].isin(PLACES)].groupby(["truths", "epsilon", "kind"], sort=False)
    means = groups.agg(mean=("value", "mean"), sd=("value", "std"), repeats=("value", "size"), n=("intervals", "sum"))
    for (place, epsilon, stratum), mean, sd, repeats, n in means.itertuples():
        if n >= enough:
            error = np.nan_to_num(sd / np.sqrt(repeats))
            found.setdefault((place, epsilon), {})[stratum] = Estimate(mean, max(error, least_error(n)))
    return found


def _over_places(cells: Cells, stratum: str, epsilon: float | None = None) -> Estimate | None:
    """Mean over places, and over epsilons unless one is given; None if there is nothing."""
    of_epsilon = [parts for (_, e), parts in cells.items() if epsilon in (None, e)]
    each = [parts[stratum] for parts in of_epsilon if stratum in parts]
    return mean_of(each) if each else None


# ------------------------------------------------------------------------------------------ checks


def network_checks(frame: pd.DataFrame) -> list[Check]:
    """Intervals of the shipped default on known networks hold the truth in 95 +- 3 %, at the guarded epsilon.

    Args:
        frame: tidy rows of one seed set.

    Returns:
        One for each network that is repeated often and kind of number, and one of entries over all of these. Too much
        coverage is checked where there are so many entries that it can be told from all.
    """
    checks, each = [], []
    for (place, epsilon), parts in _cells(frame).items():
        if place in OWN and epsilon == GUARDED:
            for kind in KINDS:
                both = place in LARGE and kind == "entries"
                what = f"{place}, shipped default, {kind}, epsilon {GUARDED:g}"
                checks.append(within_band(what, parts[kind], both=both))
            each.append(parts["entries"])
    if each:
        what = f"known networks, shipped default, entries, epsilon {GUARDED:g}"
        checks.append(within_band(what, mean_of(each), both=True))
    return checks


def strata_checks(frame: pd.DataFrame) -> list[Check]:
    """Means over all places: kinds of numbers by epsilon, and every stratum over all epsilons.

    Args:
        frame: tidy rows of one seed set.

    Returns:
        Entries, marginals and conditionals from 92 %, at epsilons with four places or more; strata from 90 %, entries
        at 0 or 1 from 85 %.
    """
    checks, cells = [], _cells(frame)
    places = Counter(epsilon for _, epsilon in cells)
    for epsilon in sorted(epsilon for epsilon, number in places.items() if number >= FEWEST_PLACES):
        for kind in KINDS:
            found = _over_places(cells, kind, epsilon)
            if found is not None:
                checks.append(within_band(f"all networks, shipped default, {kind}, epsilon {epsilon:g}", found))
    for stratum, low in LEAST_OF_STRATA.items():
        found = _over_places(cells, stratum)
        if found is not None:
            shown = Estimate(100 * found.mean, 100 * found.error)
            what = f"all networks and epsilons, shipped default, {stratum}, %".replace("<", "below").replace(
                ">", "over"
            )
            checks.append(Check.above(what, shown, 100 * low, sane=100 * (low - MARGIN), least=0.0, digits=1))
    return checks


def within_band(what: str, found: Estimate, *, both: bool = False) -> Check:
    """Coverage in per cent against 95 +- 3 %.

    Args:
        what: is checked.
        found: share.
        both: whether too much of it is wrong as well.

    Returns:
        The check.
    """
    shown = Estimate(100 * found.mean, 100 * found.error)
    low, high = (100 * end for end in BAND)
    if both:
        return Check.within(f"{what}, %", shown, (low, high), sane=(100 * LEAST_SANE, 99.9), digits=1)
    return Check.above(f"{what}, %", shown, low, sane=100 * LEAST_SANE, least=0.0, digits=1)


# ------------------------------------------------------------------------------------------ what is shown


def by_stratum(frame: pd.DataFrame) -> str:
    """Strata by rows, epsilons by columns: means over places, and the least of any place.

    Args:
        frame: tidy rows of one seed set.

    Returns:
        A Markdown table; empty if no place was measured.
    """
    cells = _cells(frame)
    epsilons = sorted({epsilon for _, epsilon in cells})
    rows = []
    for stratum in (s for s in STRATA if any(s in parts for parts in cells.values())):
        means = [_over_places(cells, stratum, epsilon) for epsilon in epsilons]
        (place, epsilon), parts = min(
            ((where, parts) for where, parts in cells.items() if stratum in parts),
            key=lambda item: item[1][stratum].mean,
        )
        least = f"{percent(parts[stratum])} ({place}, epsilon {epsilon:g})"
        rows.append([_plain(stratum), *("-" if found is None else percent(found) for found in means), least])
    return markdown(["stratum", *(f"{epsilon:g}" for epsilon in epsilons), "least"], rows) if rows else ""


def by_place(frame: pd.DataFrame) -> str:
    """Places and epsilons by rows, strata by columns: coverage and mean width.

    Args:
        frame: tidy rows of one seed set.

    Returns:
        A Markdown table; empty if no place was measured.
    """
    there = frame[frame["truths"].isin(PLACES)]
    repeats = there.groupby(["truths", "epsilon"])["repeat"].nunique()
    widths = there[there["metric"] == "width"].groupby(["truths", "epsilon", "kind"])["value"].mean()
    rows = []
    for (place, epsilon), parts in _cells(frame, enough=0).items():
        shown = [
            f"{percent(parts[stratum])}; {widths[place, epsilon, stratum]:.3f}" if stratum in parts else "-"
            for stratum in STRATA
        ]
        rows.append([place, f"{epsilon:g}", f"{repeats[place, epsilon]}", *shown])
    return markdown(["place", "epsilon", "repeats", *map(_plain, STRATA)], rows) if rows else ""


def worst(frame: pd.DataFrame) -> tuple[str, Estimate] | None:
    """The stratum with the least mean over places and epsilons, entries at 0 or 1 apart; None if there is none."""
    cells = _cells(frame)
    means = {stratum: _over_places(cells, stratum) for stratum in (*SIZES, *ROWS)}
    known = {_plain(stratum): found for stratum, found in means.items() if found is not None}
    return min(known.items(), key=lambda item: item[1].mean) if known else None


def failures(frame: pd.DataFrame) -> list[str]:
    """Places and strata that are below 90 % by more than four standard errors, entries at 0 or 1 below 85 %.

    Args:
        frame: tidy rows of one seed set.

    Returns:
        A line for each.
    """
    return [
        f"{place}, epsilon {epsilon:g}: {_plain(stratum)} {percent(found)}"
        for (place, epsilon), parts in _cells(frame).items()
        for stratum, found in parts.items()
        if found.mean + 4 * found.error < LEAST_OF_STRATA.get(stratum, 0.90)
    ]
