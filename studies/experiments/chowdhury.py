"""What the experiments after Chowdhury, Rekatsinas and Jha (ICML 2020) share: their networks, records and methods.

All methods have the same guarantee: epsilon under ADD_REMOVE, delta 0. `D-Ind` and `Algorithm 1` are as printed
(`d_ind`), in continuous noise; the others are simulated releases of the package. `mbi` reads the very tables that the
release without pairs reads: with pairs its model would be far larger.

D-Ind comes in two forms. The paper asks for mutual consistency of tables M which, as printed, hold conditional
probabilities, where agreement has no meaning. "D-Ind" leaves the step out. "D-Ind, consistent" takes the kinder
reading: M as the joint probabilities `theta * T_pa / sum T_pa`, made consistent as in PriView and then non-negative at
the same total. A root has no T_pa, so that its T gets the node's whole budget, in Algorithm 1, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

import discreet as dc

from . import d_ind as printed
from . import private_pgm
from .consistency import consistent, projected
from .errors import Data, Truth, stacked
from .harness import Task
from .networks import absent, available, theta_of
from .noise_law import noise_row
from .pages import markdown
from .pictures import curves, grid, legend_below, log_heights
from .shipped import CALLS, NO_PAIRS, SHIPPED, planned

__all__ = [
    "DATA",
    "DRAWN",
    "EPSILONS",
    "FORMS",
    "GUARANTEE",
    "METHODS",
    "NETWORKS",
    "PARTS",
    "RECORDS",
    "RELATION",
    "Method",
    "both_forms",
    "by_network",
    "data_of",
    "described",
    "frequencies",
    "missing",
    "names_of",
    "noise_of",
    "plus_one",
    "released",
    "runnable",
]

Floats = npt.NDArray[np.float64]

NETWORKS = ("asia", "sachs", "child", "alarm")
EPSILONS = (1.0, 1.5, 2.0, 2.5, 3.0)
RECORDS = 10_000
DATA = "10,000 records drawn from the networks asia, sachs, child and alarm, anew for each repeat"
RELATION = "add or remove one record"
GUARANTEE = (
    "epsilon as given, delta 0; D-Ind and Algorithm 1 in exact arithmetic (continuous noise); none for the exact counts"
)
FORMS = ("D-Ind", "D-Ind, consistent")
"""Without and with mutual consistency."""
FLOOR = 1e-9
"""Least probability of a cell of D-Ind before rows are normalised."""
DRAWS = 400
"""Of a posterior whose mean is taken: they add 0.1 % to the standard deviation of the estimate."""


# ------------------------------------------------------------------------------------------ records


def runnable() -> list[str]:
    """Networks that are there."""
    return available(NETWORKS)


def missing() -> list[str]:
    """What cannot be run here, and why."""
    return absent(NETWORKS) + ([] if private_pgm.importable() else ["mbi: the bench extra is not installed"])


@cache
def _truth(name: str) -> Truth:
    """A network with the probabilities of its parent rows."""
    return Truth.of(theta_of(name), name)


@lru_cache(maxsize=64)
def _drawn(name: str, experiment: str, seeds: int, repeat: int) -> Data:
    """Records of one repeat on a network; kept, because every method asks for them."""
    rng = Task(experiment, {}, seeds, repeat).rng(f"records {name}")
    return Data.drawn(_truth(name), RECORDS, rng)


def data_of(task: Task) -> Data:
    """Records and queries of a task's repeat on the network of its setting, the same for all methods."""
    return _drawn(task.setting["network"], task.experiment, task.seeds, task.repeat)


# ------------------------------------------------------------------------------------------ D-Ind


def both_forms(
    network: dc.Network, counts: Mapping[str, Floats], epsilons: npt.ArrayLike, runs: int, rng: np.random.Generator
) -> dict[str, dc.Tables]:
    """Both forms of D-Ind from the same noise.

    Args:
        network: public.
        counts: family counts of made-up records, shape `(*parents, child, 1)`.
        epsilons: of the whole under ADD_REMOVE, nats; a number, or shape (runs,).
        runs: independent repetitions.
        rng: source of the noise.

    Returns:
        By form, probabilities, shape `(*parents, child, runs)`.
    """
    budget = np.asarray(epsilons, np.float64) / len(network.nodes)
    budgets = dict.fromkeys(network.nodes, budget)
    found = printed.compute_parameters(network, counts, budgets, runs, rng)
    joint = {}
    for node, theta in found.theta.items():
        rows = np.maximum(found.totals[node], 0) + FLOOR
        whole = rows.sum(axis=tuple(range(rows.ndim - 1)))
        joint[node] = theta * (rows / whole)[..., None, :] if network.parents[node] else theta
    agreed = consistent({network.family(node): table for node, table in joint.items()})
    tables = (found.theta, {node: projected(agreed[network.family(node)]) for node in network.nodes})
    return {
        form: dc.Tables(network, _rows(theta), draws=runs) for form, theta in zip(FORMS, tables, strict=True)
    }  # fmt: skip


def _rows(tables: Mapping[str, Floats]) -> dict[str, Floats]:
    """Floored and normalised rows."""
    floored = {node: np.maximum(table, FLOOR) for node, table in tables.items()}
    return {node: table / table.sum(axis=-2, keepdims=True) for node, table in floored.items()}


# ------------------------------------------------------------------------------------------ methods


@dataclass(frozen=True)
class Method:
    """Two steps; methods whose first step has the same name read the same noise.

    Args:
        noise: name of the first step.
        measure: records, epsilon, how many runs and a source of noise, to something noisy.
        read: that and a source of randomness, to probabilities, shape `(*parents, child, runs)`.
        slow: a run takes a tenth of a second or more.
    """

    noise: str
    measure: Callable[[Data, float, int, np.random.Generator], Any]
    read: Callable[[Any, np.random.Generator], dc.Tables]
    slow: bool = False


def released(task: Task, method: str, epsilon: float, runs: int) -> dc.Tables:
    """Probabilities that a method finds in several runs on the records of a task.

    Args:
        task: its setting names the network.
        method: of `METHODS` or `PARTS`.
        epsilon: nats.
        runs: how many.

    Returns:
        Shape `(*parents, child, runs)`.
    """
    data, steps = data_of(task), {**METHODS, **PARTS}[method]
    where = f"{data.truth.name} {epsilon}"
    noisy = steps.measure(data, epsilon, runs, task.rng(f"noise {steps.noise} {where}"))
    return steps.read(noisy, task.rng(f"reading {method} {where}"))


def noise_of(task: Task, method: str, epsilon: float, runs: int) -> dict[str, object]:
    """A row with the size of the noise that `released` reads, of a method that reads noisy tables; see `noise_law`."""
    data, steps = data_of(task), METHODS[method]
    rng = task.rng(f"noise {steps.noise} {data.truth.name} {epsilon}")
    rows = [noise_row(release, data.counts) for release in steps.measure(data, epsilon, runs, rng)]
    return {**rows[0], "value": float(np.mean([row["value"] for row in rows]))}


def plus_one(network: dc.Network, counts: Mapping[str, npt.ArrayLike]) -> dc.Tables:
    """Rows of counts to probabilities: below 0 they count as 0; +1; normalised; axes `(*parents, child)`."""
    cells = {node: np.maximum(counts[node], 0) + 1.0 for node in network.nodes}
    return dc.Tables(network, {node: table / table.sum(axis=-1, keepdims=True) for node, table in cells.items()})


def frequencies(network: dc.Network, counts: Mapping[str, npt.ArrayLike]) -> dc.Tables:
    """Relative frequencies, uniform in rows without a record; axes `(*parents, child)`.

    Nothing is added to counts, so that their error is that of sampling alone.
    """
    cells = {node: np.asarray(counts[node], np.float64)[..., None] for node in network.nodes}
    return dc.Tables(network, {node: printed.normalised(table)[..., 0] for node, table in cells.items()})


def _form(name: str) -> Callable[[Data, float, int, np.random.Generator], dc.Tables]:
    """A form of D-Ind."""

    def measure(data: Data, epsilon: float, runs: int, rng: np.random.Generator) -> dc.Tables:
        counts = printed.as_runs(data.counts.tables)
        return both_forms(data.truth.theta.network, counts, epsilon, runs, rng)[name]

    return measure


def _algorithm_1(data: Data, epsilon: float, runs: int, rng: np.random.Generator) -> printed.TwoStage:
    """As printed, without mutual consistency."""
    return printed.algorithm_1(data.truth.theta.network, data.codes, epsilon, runs, rng)


def _uniform(data: Data, epsilon: float, runs: int, rng: np.random.Generator) -> dc.Tables:
    """The second stage's budget, split evenly: D-Ind, without mutual consistency."""
    return printed.d_ind(data.counts, 0.9 * epsilon, runs, rng)


def _exact(data: Data, epsilon: float, runs: int, rng: np.random.Generator) -> dc.Tables:
    """Relative frequencies: no privacy at all, and one run is as good as many."""
    return stacked([frequencies(data.truth.theta.network, data.counts.tables)])


def _as_is(theta: dc.Tables, rng: np.random.Generator) -> dc.Tables:
    """For methods whose first step has the probabilities already."""
    return theta


def _releases(
    mechanism: Callable[[], dc.tools.Mechanism],
) -> Callable[[Data, float, int, np.random.Generator], list[dc.Release]]:
    """The first step of a mechanism of the package."""

    def measure(data: Data, epsilon: float, runs: int, rng: np.random.Generator) -> list[dc.Release]:
        guarantee = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
        prior = dc.Dirichlet.uniform(data.truth.theta.network)
        return [dc.simulate(mechanism(), data.counts, prior, guarantee, rng=rng) for _ in range(runs)]

    return measure


def _each(
    read: Callable[[dc.Release, np.random.Generator], dc.Tables],
) -> Callable[[Iterable[dc.Release], np.random.Generator], dc.Tables]:
    """Releases read one by one."""
    return lambda releases, rng: stacked([read(release, rng) for release in releases])


def _clipped(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
    """Algorithm 1 of Zhang et al.: noisy counts, clipped at 0, after a uniform prior."""
    payload = release.payload
    if not isinstance(payload, dc.kinds.NoisyCounts):
        raise TypeError(f"noisy counts are clipped, not {type(payload).__name__}")
    return plus_one(release.network, {node: payload.table(node) for node in release.network.nodes})


def _plug_in(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
    """Means after the merged counts of both stages."""
    return dc.Tables(release.network, dict(dc.tools.plug_in(release, draws=DRAWS, rng=rng).mean()))


def _estimate(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
    """The fast estimate."""
    return dc.estimate(release, rng=rng)


def _noise_aware(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
    """Means of the calibrated posterior."""
    return dc.Tables(release.network, dict(dc.noise_aware(release, draws=DRAWS, rng=rng).mean()))


_DEFAULT = _releases(lambda: planned(SHIPPED))
_PLAN = _releases(lambda: planned(NO_PAIRS))
METHODS: Mapping[str, Method] = {
    **{form: Method("D-Ind", _form(form), _as_is) for form in FORMS},
    "Algorithm 1": Method("Algorithm 1", _algorithm_1, lambda stages, _: stages.theta),
    "corrected": Method("allocated", _releases(lambda: dc.research.allocated()), _each(_plug_in)),
    "Zhang's Laplace": Method("laplace", _releases(lambda: dc.laplace()), _each(_clipped)),
    SHIPPED: Method(SHIPPED, _DEFAULT, _each(_estimate), slow=True),
    NO_PAIRS: Method(NO_PAIRS, _PLAN, _each(_estimate), slow=True),
    "mbi": Method(NO_PAIRS, _PLAN, _each(lambda one, _: private_pgm.read_by_mbi(one)), slow=True),
    "noise-aware mean": Method(SHIPPED, _DEFAULT, _each(_noise_aware), slow=True),
    "exact counts": Method("none", _exact, _as_is),
}
"""By name; "exact counts" is not private."""
PARTS: Mapping[str, Method] = {
    "even split of .9 epsilon": Method("even split", _uniform, _as_is),
    "stage II alone": Method("Algorithm 1", _algorithm_1, lambda stages, _: stages.second.theta),
}
"""Between D-Ind and Algorithm 1: a tenth of the budget less, then the split of equation (13), then the merge."""


def names_of(methods: Iterable[str]) -> Iterator[str]:
    """Those that can be run here."""
    return (name for name in methods if name != "mbi" or private_pgm.importable())


LEGEND: Sequence[tuple[str, str]] = (
    ("D-Ind", "baseline as printed, no consistency step"),
    ("D-Ind, consistent", "with the step, in the reading that has a meaning"),
    ("Algorithm 1", "as printed: eps_I = .1 eps_B, beta = .1, two tables for each node, printed merge"),
    ("even split of .9 epsilon", "D-Ind with what Algorithm 1 leaves to its second stage"),
    ("stage II alone", "Algorithm 1 without the merge, on the same noise"),
    ("corrected", "`dc.research.allocated()` read by `dc.tools.plug_in`: one table for each maximal family, no "
     "sampling, stages merged by inverse variances"),
    ("Zhang's Laplace", "`dc.laplace()`: maximal families, one budget; noisy counts clipped at 0, +1 (Algorithm 1 of "
     "Zhang et al., under add-remove)"),
    (SHIPPED, f"{CALLS[SHIPPED]} read by `dc.estimate`: a fifth of epsilon for pairs that no table holds"),
    (NO_PAIRS, f"{CALLS[NO_PAIRS]} read by `dc.estimate`: all of epsilon for the tables, which trusts the network"),
    ("mbi", f"private-pgm, mirror descent of 1,000 steps, on the same noisy tables as {NO_PAIRS}"),
    ("noise-aware mean", f"means of `dc.noise_aware` on the same noisy tables as the {SHIPPED}"),
    ("exact counts", "relative frequencies, uniform in rows without a record: NOT private, the error of sampling "
     "alone"),
)  # fmt: skip
"""What each method is."""


def described(frame: pd.DataFrame) -> tuple[str, str]:
    """What the methods of some rows are: caption and table for a page."""
    there = set(frame["method"])
    later = [name for name in names_of(METHODS) if name not in there]
    caption = "What the methods are" + (f"; run in full only: {', '.join(later)}" if later else "") + "."
    return caption, markdown(["method", "is"], [row for row in LEGEND if row[0] in there])


# ------------------------------------------------------------------------------------------ pictures

DRAWN = (SHIPPED, *FORMS, "Algorithm 1", "corrected", "Zhang's Laplace", "mbi", "exact counts", NO_PAIRS)
"""Lines of the figures; the place of each decides its style."""


def by_network(frame: pd.DataFrame, metrics: Mapping[str, str], *, log: bool) -> Figure:
    """Means against epsilon: a row of panels for each metric, a column for each network, a line for each method.

    Args:
        frame: with columns network, method, metric, epsilon and value.
        metrics: what is written along the vertical axis, by metric.
        log: whether those axes are logarithmic; if not, a row of panels shares one.

    Returns:
        The figure.
    """
    networks = [name for name in NETWORKS if name in set(frame["network"])]
    shared = False if log else "row"
    figure, panels = grid(len(metrics), len(networks), width=2.6, height=2.2, sharex=True, sharey=shared)
    shown = frame[frame["epsilon"].isin(EPSILONS)]
    for row, (metric, label) in zip(panels, metrics.items(), strict=True):
        for panel, place in zip(row, networks, strict=True):
            part = shown[(shown["metric"] == metric) & (shown["network"] == place)]
            curves(panel, _side_by_side(part), "epsilon", "method", DRAWN)
            panel.set_xticks(EPSILONS)
            if log:
                log_heights(panel, within=(1, 2, 5))
                means = part.groupby(["method", "epsilon"])["value"].mean()
                # Bars that reach 0 must not stretch the axis.
                panel.set_ylim(means.min() / 1.8, means.max() * 1.8)
        row[0].set_ylabel(label)
        if not log:
            # Shares end at 1: bars are cut there, marks are not.
            row[0].set_ylim(top=1)
            for line in (line for panel in row for line in panel.containers):
                line[0].set_clip_on(False)
    for panel, place in zip(panels[0], networks, strict=True):
        panel.set_title(place)
    for panel in panels[-1]:
        panel.set_xlabel("epsilon (nats)")
    legend_below(figure, columns=4)
    return figure


def _side_by_side(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose epsilons differ a little from method to method, so that equal values can be told apart."""
    places = rows["method"].map({name: place for place, name in enumerate(DRAWN)})
    return rows.assign(epsilon=rows["epsilon"] + 0.04 * (places - (len(DRAWN) - 1) / 2))
