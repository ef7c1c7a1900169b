"""What measuring pairs that no table holds is worth where the network is wrong, and costs where it is right.

Records of known networks, which are right, and of laws that the public network denies. Every release is made twice at
the same epsilon: all of it for the plan, and with the share for pairs that `planned` takes by default. Shares of one,
two and three variables are asked, and conditional probabilities given one and two others, and each is counted by what
its own answer rests on. *Made up*: as for the page on wrong networks. *ADULT*: nine columns, records drawn from the
table with replacement; arcs by hand, or none at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import discreet as dc
from discreet.inference.sampling import sample_codes

from . import wrong_networks
from .errors import simulated
from .harness import Experiment, Task, command
from .networks import absent, available, theta_of
from .pages import Check, Estimate, Page, estimate, markdown
from .shipped import CALLS, NO_PAIRS, SHIPPED, planned
from .wrong_networks import Codes, Law, answers, law_of

__all__ = ["EXPERIMENT", "POPULATIONS", "measured_shares"]

Floats = npt.NDArray[np.float64]

KNOWN = ("asia", "sachs", "child")
"""Networks that are right: records are drawn from them."""
RIGHT, WRONG, BY_HAND, WITHOUT = "made up, right", "made up, wrong", "ADULT, by hand", "ADULT, no arcs"
EPSILONS = (0.3, 1.0, 3.0)
RECORDS = 10_000
"""Of a known network."""
DRAWS = 300
LEVEL = 0.95
MOST_SETS = 120
"""Sets of a size that are asked, the same in all repeats."""
LEAST, LEAST_EVIDENCE = 1e-6, 0.05
"""Probability of a cell that counts, and of evidence."""
READINGS = {"plan alone": NO_PAIRS, "with pairs": SHIPPED}
GOOD, SANE, LONGER = 0.92, 0.85, 1.3
"""Least share of cells to be held, what nobody would mind of a few releases, and the price where a network is right."""
MARKS = ("measured", "inferred", "assumed")
ASKED = ("1", "2", "3", "1 given 1", "1 given 2")
"""Numbers of variables asked for, and given."""


def _known(name: str) -> Callable[[Task], tuple[dc.Network, Codes, Law]]:
    """Records of a network, which is public."""

    def population(task: Task) -> tuple[dc.Network, Codes, Law]:
        theta = theta_of(name)
        return theta.network, sample_codes(theta, RECORDS, task.rng("records")), law_of(theta)

    return population


def _without(task: Task) -> tuple[dc.Network, Codes, Law]:
    """ADULT under a network without arcs."""
    public, codes, law = wrong_networks.POPULATIONS[BY_HAND](task)
    return dc.Network.empty(public.schema), codes, law


POPULATIONS: Mapping[str, Callable[[Task], tuple[dc.Network, Codes, Law]]] = {
    **{name: _known(name) for name in KNOWN},
    **wrong_networks.POPULATIONS,
    WITHOUT: _without,
}
"""What is public, records, and the truth."""


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Both releases of the same records."""
    public, codes, law = POPULATIONS[task.setting["population"]](task)
    epsilon, counts = task.setting["epsilon"], dc.tools.count_codes(public, codes)
    for reading, label in READINGS.items():
        release = simulated(planned(label), counts, epsilon, task.rng(f"{reading} {epsilon:g}"))
        posterior = dc.noise_aware(release, draws=DRAWS, rng=task.rng(f"posterior {epsilon:g}"))
        for row in measured_shares(posterior, law):
            yield {"reading": reading, **row}


def measured_shares(posterior: dc.results.PosteriorDraws, law: Law) -> Iterator[dict[str, Any]]:
    """Cells that intervals hold, widths, errors of means, and cells: sums by what was asked and what answers rest on.

    Args:
        posterior: of a release.
        law: the truth.
    """
    read, found = answers(posterior), dict[tuple[str, str], list[Floats]]()
    assert posterior.basis is not None
    for names in _sets(posterior.network.nodes):
        drawn, truth = read(names), law(names)
        mark = posterior.basis.of(names)[0]
        for given in (0, len(names) - 1) if len(names) > 1 else (0,):
            asked = f"1 given {given}" if given else str(len(names))
            cells, true = (_conditional(table, given) for table in (drawn, truth[..., None]))
            likely = truth.sum(axis=tuple(range(given, truth.ndim)), keepdims=True) >= LEAST_EVIDENCE * (given > 0)
            kept = (truth > LEAST) & likely
            lower, upper = dc.tools.credible_interval(cells[kept], LEVEL)
            right = true[kept][..., 0]
            parts = [(lower <= right) & (right <= upper), upper - lower, np.abs(cells[kept].mean(axis=-1) - right)]
            found.setdefault((asked, mark), []).append(np.stack(parts).astype(float))
    for (asked, mark), blocks in found.items():
        numbers = np.concatenate(blocks, axis=1)
        sums = dict(zip(("held", "width", "error"), numbers.sum(axis=1).tolist(), strict=True))
        for metric, value in {**sums, "cells": float(numbers.shape[1])}.items():
            yield {"asked": asked, "mark": mark, "metric": metric, "value": value}


def _conditional(table: Floats, given: int) -> Floats:
    """Probabilities given the first variables; the last axis is of draws."""
    total = table.sum(axis=tuple(range(given, table.ndim - 1)), keepdims=True)
    return np.asarray(table / np.maximum(total, np.finfo(float).tiny))


def _sets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Sets of one, two and three variables, or some of them."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 3):
        every = list(combinations(names, size))
        yield from (every[place] for place in sorted(rng.permutation(len(every))[:MOST_SETS]))


# ------------------------------------------------------------------------------------------ the page


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Every population that is here, at every epsilon."""
    lacking = set(KNOWN) - set(available(KNOWN)) | ({BY_HAND, WITHOUT} if wrong_networks.missing() else set())
    here = [name for name in POPULATIONS if name not in lacking]
    return [({"population": name, "epsilon": epsilon}, 6 if quick else 30) for name in here for epsilon in EPSILONS]


def present(frame: pd.DataFrame) -> Page:
    """Coverage, widths and errors with and without pairs, by what was asked, and what checks them."""
    here = [name for name in POPULATIONS if name in set(frame["population"])]
    told = [
        f"{name} {_held(frame, [name], 'plan alone', '2').text(2)} -> {_held(frame, [name], 'with pairs', '2').text(2)}"
        for name in here
    ]
    verdict = (
        f"Beyond the papers: 95 % intervals of all pairs hold, without and with pairs measured: {'; '.join(told)}."
    )
    tables = [
        ("Share of all cells that 95 % intervals hold, whatever they rest on, ± one standard error over repeats.",
         _table(frame, "held", 3)),
        ("Mean width of these intervals.", _table(frame, "width", 4)),
        ("Mean absolute error of the posterior mean.", _table(frame, "error", 4)),
        ("With pairs: share held, by what the answer rests on, over all epsilons.", _marks(frame)),
    ]  # fmt: skip
    return Page(verdict, (), tables, list(_checks(frame, here)), NOTES)


NOTES = (
    f"*With pairs* is the {SHIPPED}, {CALLS[SHIPPED]}; *plan alone* is {CALLS[NO_PAIRS]}. "
    "*Asked*: numbers of variables; 1 given 2 is the probability of one given two others, where these are at least "
    "5 %. *Assumed* are pairs that the budget did not reach: their intervals are as wide as the measured pairs show "
    "the network to be off. At epsilon 0.3, 10,000 records are too few for a pair of asia, sachs and child: both "
    "releases are then the same but for chance. Cells of a release depend on each other: its share varies by some "
    "points."
)


def _of(frame: pd.DataFrame, names: Sequence[str], reading: str, asked: str, metric: str) -> pd.DataFrame:
    """Sums of one number, and of cells, of some populations."""
    kept = frame["population"].isin(names) & (frame["reading"] == reading) & frame["metric"].isin((metric, "cells"))
    return frame[kept & (frame["asked"] == asked)]


def _mean(part: pd.DataFrame, *apart: str) -> pd.Series[float]:
    """Means over cells, one for each release, and for each value of some columns."""
    release = [*apart, "population", "epsilon", "repeat"]
    counts = part["metric"] == "cells"
    sums, cells = (rows.groupby(release)["value"].sum() for rows in (part[~counts], part[counts]))
    return sums / cells


def _held(frame: pd.DataFrame, names: Sequence[str], reading: str, asked: str) -> Estimate:
    """Share of cells, over all epsilons."""
    return estimate(_mean(_of(frame, names, reading, asked, "held")))


def _table(frame: pd.DataFrame, metric: str, digits: int) -> str:
    """By population and what was asked: both readings at each epsilon."""
    means = _mean(frame[frame["metric"].isin((metric, "cells"))], "reading", "asked")
    found = dict(iter(means.groupby(level=["population", "asked", "reading", "epsilon"])))
    there = {place[:2] for place in found}
    rows = []
    for name in POPULATIONS:
        for asked in ASKED:
            if (name, asked) in there:
                at = [found.get((name, asked, reading, e), means[:0]) for reading in READINGS for e in EPSILONS]
                rows.append([name, asked, *(estimate(values).text(digits) for values in at)])
    return markdown(["records", "asked", *(f"{reading}, {at:g}" for reading in READINGS for at in EPSILONS)], rows)


def _marks(frame: pd.DataFrame) -> str:
    """By population and what was asked: a column for each mark."""
    rows = []
    for name in POPULATIONS:
        for asked in ASKED:
            part = _of(frame, [name], "with pairs", asked, "held")
            if not part.empty:
                at = [_mean(part[part["mark"] == mark]) for mark in MARKS]
                rows.append([name, asked, *(estimate(values).text(3) if len(values) else "" for values in at)])
    return markdown(["records", "asked", *MARKS], rows)


def _checks(frame: pd.DataFrame, here: Sequence[str]) -> Iterator[Check]:
    """Intervals hold whatever the network; where it is right they are not much longer."""
    wrong = [name for name in here if name in (WRONG, BY_HAND, WITHOUT)]
    right = [name for name in here if name not in wrong]
    for kind, names in (("right", right), ("wrong", wrong)):
        for asked in ASKED:
            found = _held(frame, names, "with pairs", asked)
            yield Check.above(f"{kind} networks: shares of {asked} held with pairs", found, GOOD, sane=SANE)
    for asked in ("2", "3"):
        plain = _held(frame, wrong, "plan alone", asked)
        yield Check.clearly_below(f"wrong networks: shares of {asked} held by the plan alone", plain, GOOD)
        errors = [_mean(_of(frame, wrong, reading, asked, "error")) for reading in READINGS]
        smaller = estimate(errors[1] / errors[0])
        yield Check.clearly_below(f"wrong networks: error of shares of {asked}, with over without", smaller, 1)
    widths = [_mean(_of(frame, right, reading, "2", "width")) for reading in READINGS]
    longer = estimate(widths[1] / widths[0])
    yield Check.below("right networks: width of pairs, with over without", longer, LONGER, sane=1.5)


EXPERIMENT = Experiment(
    title="Beyond the papers: pairs that no table holds",
    source="ours; [the network](../network.md) has the method",
    claim="nothing of this kind",
    data=f"{RECORDS:,} records drawn from {', '.join(KNOWN)}; {wrong_networks.RECORDS:,} of random networks; ADULT "
    "(UCI), as many as it has, drawn with replacement",
    relation="add or remove one record",
    guarantee="epsilon as given, delta 0",
    plan=plan,
    measure=measure,
    present=present,
    missing=lambda: [*absent(KNOWN), *wrong_networks.missing()],
)

if __name__ == "__main__":
    command(["audits"])
