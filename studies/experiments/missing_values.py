"""What is made of missing values: kept and read at random, or their records dropped.

Records come from a known law: a public network, or that of ADULT's columns under arcs drawn by hand, fitted to the
table. In about half of the variables values are then lost, each with a chance that depends on one variable beside it in
the network, a parent or a child, which is always seen; about a quarter of these variables' values are lost. The same
records are released three times: with missing values kept as states and read at random, without incomplete records, and
before anything was lost, which is what there is to reach. Asked are all shares of one variable, and all of one variable
given another beside it whose state is not rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import discreet as dc
from discreet.queries.synthetic import sample_codes

from . import wrong_networks
from .errors import simulated
from .harness import Experiment, Task, command
from .networks import absent, available, theta_of
from .pages import Check, Page, estimate, markdown
from .shipped import CALLS, SHIPPED, planned
from .wrong_networks import Codes, answers, law_of

__all__ = ["EXPERIMENT"]

Floats = npt.NDArray[np.float64]

ADULT = "ADULT, by hand"
RECORDS = {"asia": 5_000, ADULT: 10_000, "child": 10_000}
REPEATS = {"asia": (4, 40), ADULT: (3, 20), "child": (3, 20)}
"""Of a quick run, and of a full one."""
EPSILONS = (1.0, 3.0)
DRAWS, LEVEL = 200, 0.95
LOW, HIGH = 0.02, 0.5
"""Least and largest chance that a value is lost, by the states of what it depends on."""
LEAST, OFTEN = 1e-6, 0.02
"""Probabilities of a cell that counts, and of a state that is given."""
KEPT, DROPPED, WHOLE = "kept, at random", "dropped", "nothing lost"
CLOSE, SANE, BROKEN = -0.02, -0.2, 0.80
METRICS = ("held", "width", "error")


@cache
def _fitted() -> dc.Tables:
    """Rows of ADULT under arcs drawn by hand."""
    public, codes = wrong_networks.adult()
    tables = {node: table + 0.5 for node, table in dc.tools.count_codes(public, codes).tables.items()}
    return dc.Tables(public, {node: table / table.sum(axis=-1, keepdims=True) for node, table in tables.items()})


def _lossy(public: dc.Network, rng: np.random.Generator) -> dict[str, tuple[str, Floats]]:
    """For about half of the variables what a loss depends on, and its chance by the states of that."""
    found: dict[str, tuple[str, Floats]] = {}
    for node in rng.permutation(public.nodes).tolist():
        near = [name for name in (*public.parents[node], *public.children(node)) if name not in found]
        if near and len(found) < len(public.nodes) / 2 and all(node != cause for cause, _ in found.values()):
            cause = near[rng.integers(len(near))]
            found[node] = cause, rng.permutation(np.linspace(LOW, HIGH, public.schema[cause].size))
    return found


def _counted(theta: dc.Tables, number: int, task: Task) -> dict[str, dc.results.Counts]:
    """What all ways count of the same records."""
    public, rng = theta.network, task.rng("records")
    lossy, whole = _lossy(public, task.rng("losses")), sample_codes(theta, number, rng)
    lost = {node: rng.random(number) < chances[whole[cause]] for node, (cause, chances) in lossy.items()}
    kept = {n: np.where(lost[n], public.schema[n].size, c) if n in lost else c for n, c in whole.items()}
    complete = ~np.any(list(lost.values()), axis=0)
    cut: Codes = {node: column[complete] for node, column in whole.items()}
    counted = {KEPT: dc.tools.count_codes(public.with_missing(lossy), kept), DROPPED: dc.tools.count_codes(public, cut)}
    return {**counted, WHOLE: dc.tools.count_codes(public, whole)}


def _rows(law: Floats, axis: int) -> Floats:
    """A law of two variables as that of the second given the first."""
    return np.asarray(law / np.maximum(law.sum(axis=axis, keepdims=True), np.finfo(float).tiny))


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Every law at every epsilon."""
    here = [*available(["asia", "child"]), *([] if wrong_networks.missing() else [ADULT])]
    return [({"law": name, "epsilon": at}, REPEATS[name][not quick]) for name in here for at in EPSILONS]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """All ways on the same records."""
    name, epsilon = task.setting["law"], task.setting["epsilon"]
    theta = _fitted() if name == ADULT else theta_of(name)
    truth, public = law_of(theta), theta.network
    asked = [(node,) for node in public.nodes] + [pair for arc in public.arcs for pair in (arc, arc[::-1])]
    for way, counts in _counted(theta, RECORDS[name], task).items():
        release = simulated(planned(SHIPPED), counts, epsilon, task.rng(f"noise {way} {epsilon:g}"))
        posterior = dc.noise_aware(release, draws=DRAWS, rng=task.rng(f"posterior {way} {epsilon:g}"))
        read = answers(dc.tools.assume_at_random(posterior) if way == KEPT else posterior)
        found: dict[int, list[Floats]] = {}
        for names in asked:
            right, table, often = truth(names), read(names), np.ones(1)
            if len(names) > 1:
                often = right.sum(axis=-1, keepdims=True)
                right, table = _rows(right, -1), _rows(table, -2)
            lower, upper = dc.tools.credible_interval(table, LEVEL)
            numbers = [(lower <= right) & (right <= upper), upper - lower, np.abs(table.mean(axis=-1) - right)]
            counts_ = (right > LEAST) & (right < 1 - LEAST) & (often > OFTEN)
            found.setdefault(len(names), []).append(np.stack(numbers)[:, counts_])
        for size, parts in found.items():
            for metric, value in zip(METRICS, np.concatenate(parts, axis=1).mean(axis=1), strict=True):
                yield {"way": way, "variables": size, "metric": metric, "value": float(value)}


def present(frame: pd.DataFrame) -> Page:
    """Coverage, widths and errors of all ways."""
    here = [name for name in RECORDS if name in set(frame["law"])]

    def of(name: str, way: str, size: int, metric: str, epsilon: float | None = None) -> pd.Series[float]:
        part = frame[(frame["law"] == name) & (frame["way"] == way) & (frame["metric"] == metric)]
        part = part[part["variables"] == size]
        part = part if epsilon is None else part[part["epsilon"] == epsilon]
        return part.set_index(["epsilon", "repeat"])["value"]

    rows = [
        [name, f"{epsilon:g}", way, {1: "shares", 2: "conditional"}[size],
         estimate(of(name, way, size, "held", epsilon)).text(3),
         *(estimate(of(name, way, size, metric, epsilon)).text(4) for metric in METRICS[1:])]
        for name in here for epsilon in EPSILONS for way in (KEPT, DROPPED, WHOLE) for size in (1, 2)
    ]  # fmt: skip
    told = []
    for name in here:
        kept, dropped, whole = (
            " / ".join(f"{estimate(of(name, way, size, 'held')).mean:.2f}" for size in (1, 2))
            for way in (KEPT, DROPPED, WHOLE)
        )
        told.append(f"{name} {kept}, dropped {dropped}, nothing lost {whole}")
    checks = [
        Check.above(
            f"{name}: {size} variable(s), held if kept, less held if nothing is lost",
            estimate(of(name, KEPT, size, "held") - of(name, WHOLE, size, "held")),
            CLOSE,
            sane=SANE,
        )
        for name in here
        for size in (1, 2)
    ]
    checks += [
        Check.clearly_below(f"{name}: shares, dropped", estimate(of(name, DROPPED, 1, "held")), BROKEN)
        for name in here
        if name != "child"
    ]
    verdict = (
        "Beyond the papers: where values are missing at random, 95 % intervals of shares / conditional shares hold: "
        f"{'; '.join(told)}."
    )
    table = markdown(["law", "epsilon", "missing values", "of", "held", "width", "error"], rows)
    return Page(verdict, (), [("All ways, ± one standard error over repeats.", table)], checks, NOTES)


NOTES = (
    f"All are releases of the {SHIPPED}, {CALLS[SHIPPED]}. "
    "Complete records of *child* are so few that dropping the others leaves wide intervals, whose coverage says "
    "little; their errors do. A quick run has few repeats, and tells intervals that hold from those that do not; a "
    "full one tells some points of coverage."
)

EXPERIMENT = Experiment(
    title="Beyond the papers: missing values",
    source="ours; [missing values](../missing.md) has the method",
    claim="nothing of this kind",
    data="5,000 made-up records of asia, 10,000 of child and of a law fitted to ADULT (UCI)",
    relation="add or remove one record",
    guarantee="epsilon as given, delta 0",
    plan=plan,
    measure=measure,
    present=present,
    missing=lambda: [*absent(["child"]), *wrong_networks.missing()],
)

if __name__ == "__main__":
    command(["missing_values"])
