"""Simulated releases, the ways of reading them, and how often 95 % intervals hold the truth.

`bench.calibration` runs this and prints it. A *cell* is a setting; each of its *runs* draws a truth (from a Dirichlet
prior, or always the network's own probabilities), records of it, and a release with simulated noise, which every method
reads. Under ADD_REMOVE the number of records is fixed as well, and the methods are not told.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import discreet as dc
from experiments.intervals import LEVEL, QUERIES, conditionals, held, simulation, tiny, values
from experiments.networks import theta_of

__all__ = [
    "LEVEL",
    "METHODS",
    "READ_BY",
    "Case",
    "Cell",
    "Estimated",
    "Method",
    "coverage",
    "network_for",
    "simulated",
]

Floats = npt.NDArray[np.float64]
Method = Callable[[dc.Release, dc.Dirichlet, int, np.random.Generator], dc.Tables]
"""(release, the prior that truths are drawn from, number of draws, rng) to draws of all families."""

KEPT = 2000
"""Draws that the chains of the exact posterior keep at the least, worth 400; fewer would be the last few of them."""
DELTA = "1e-6"
"""Of the mechanism that needs one."""


# ------------------------------------------------------------------------------------------ what is simulated


@dataclass(frozen=True)
class Cell:
    """A setting.

    Args:
        network: "tiny", or a name or path that `experiments.networks` finds.
        mechanism: a name in `dc.tools.MECHANISMS`.
        relation: of the guarantee.
        epsilon: of the guarantee, nats.
        records: how many.
        concentration: of the Dirichlet prior of the truths, in every cell, records; None for the network's own
            probabilities, which are then read with the default prior.
    """

    network: str
    mechanism: str
    relation: dc.Relation
    epsilon: str
    records: int
    concentration: float | None


@dataclass(frozen=True, eq=False)
class Case:
    """What a run draws.

    Args:
        truth: probabilities, shape `(*parents, child, 1)`.
        release: of records of it.
        prior: of the rows, the one that the truth was drawn from if it was drawn.
        seed: of all that is drawn for the case.
    """

    truth: dc.Tables
    release: dc.Release
    prior: dc.Dirichlet
    seed: tuple[int, ...]

    def rng(self, purpose: str) -> np.random.Generator:
        """A source of randomness of its own for everything that reads the case, so that no method changes another's."""
        return np.random.default_rng([*self.seed, zlib.crc32(purpose.encode())])


def network_for(name: str) -> dc.Tables:
    """Probabilities of a network by its name.

    Args:
        name: "tiny" (three variables, every family a child of those before), or what `theta_of` takes.

    Returns:
        The probabilities, axes `(*parents, child)`.

    Raises:
        FileNotFoundError: there is no such network; the message says how to get it.
    """
    return tiny() if name == "tiny" else theta_of(name)


def simulated(cell: Cell, theta: dc.Tables, run: int) -> Case:
    """Draw a truth, records and a release.

    Args:
        cell: the setting.
        theta: probabilities of its network.
        run: its number; the same cell and number draw the same, other cells draw independently.

    Returns:
        The case.
    """
    seed = (zlib.crc32(repr(cell).encode()), run)
    delta = DELTA if cell.mechanism == "gaussian" else 0
    promise = dc.Guarantee(epsilon=cell.epsilon, delta=delta, relation=cell.relation, unit="record")
    made = simulation(theta, cell.concentration, cell.records, cell.mechanism, promise, np.random.default_rng(seed))
    return Case(made.truth, made.release, made.prior, seed)


# ------------------------------------------------------------------------------------------ how it is read


def _by(method: dc.tools.Method, least: int = 1) -> Method:
    """One method of `noise_aware`, told the prior that the truths are drawn from."""

    def read(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
        return dc.noise_aware(release, draws=max(draws, least), rng=rng, prior=prior, method=method).probabilities

    return read


def _default(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
    """What a user gets who says nothing: from noisy tables a learned prior, not that of the truths."""
    return dc.noise_aware(release, draws=draws, rng=rng).probabilities


def _plug_in(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
    """The noisy counts taken for counts."""
    return dc.tools.plug_in(release, draws=draws, rng=rng, prior=prior).probabilities


METHODS: Mapping[str, Method] = {
    "exact": _by("exact", KEPT),
    "pooled": _by("pooled"),
    "particles": _by("particles"),
    "default": _default,
    "plug-in": _plug_in,
}
READ_BY: Mapping[str, tuple[str, ...]] = {
    "planned": ("exact", "pooled", "default", "plug-in"),
    "laplace": ("exact", "pooled", "default", "plug-in"),
    "gaussian": ("exact", "pooled", "default", "plug-in"),
    "fourier": ("exact", "pooled", "plug-in"),
    "allocated": ("exact", "pooled", "plug-in"),
    "posterior_sampler": ("particles", "exact", "plug-in"),
    "map_estimate": ("particles", "exact", "plug-in"),
}
"""Methods by mechanism; `default` where it is none of those before it."""


# ------------------------------------------------------------------------------------------ coverage


@dataclass(frozen=True)
class Estimated:
    """Coverage and width of the intervals of one kind of number, by one method, in one cell.

    Args:
        cell: the setting.
        method: a name in `METHODS`.
        quantity: "entries" (neither 0 nor 1), "entries at 0 or 1", "marginals" or "conditionals".
        runs: that a posterior came of.
        failed: runs in which the method gave up.
        coverage: share of the intervals that hold the truth, mean over runs; NaN where there are none.
        coverage_error: its standard error by run.
        width: mean width of the intervals, a difference of probabilities.
        width_error: its standard error by run.
        relative_width: mean width over that of the first method of the cell, in the runs that both have.
        relative_width_error: its standard error by run.
        seconds: of CPU for a posterior and what is asked of it, all threads.
    """

    cell: Cell
    method: str
    quantity: str
    runs: int
    failed: int
    coverage: float
    coverage_error: float
    width: float
    width_error: float
    relative_width: float
    relative_width_error: float
    seconds: float


def coverage(
    cell: Cell,
    theta: dc.Tables,
    methods: Mapping[str, tuple[Method, int]],
    draws: int,
    progress: Callable[[], None] = lambda: None,
) -> list[Estimated]:
    """Coverage of 95 % intervals in one cell.

    Args:
        cell: the setting.
        theta: probabilities of its network.
        methods: by name, and the runs of each; all read the same releases, those of fewer runs the first ones. Widths
            are compared with those of the first method.
        draws: of each posterior.
        progress: called after every posterior.

    Returns:
        For every method, one result for each kind of number.
    """
    asked = theta if cell.concentration is None else dc.Dirichlet.uniform(theta.network).mean()
    queries = conditionals(asked, QUERIES, np.random.default_rng(5))
    found: dict[str, dict[int, dict[str, tuple[float, float]]]] = {name: {} for name in methods}
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    failed = dict.fromkeys(methods, 0)
    for run in range(max(runs for _, runs in methods.values())):
        case = simulated(cell, theta, run)
        true = {kind: array[:, 0] for kind, array in values(case.truth, queries).items()}
        for name, (method, runs) in methods.items():
            if run >= runs:
                continue
            started = time.process_time()
            try:
                posterior = values(method(case.release, case.prior, draws, case.rng(name)), queries)
            except dc.DiscreetError:
                failed[name] += 1
            else:
                seconds[name].append(time.process_time() - started)
                found[name][run] = held(posterior, true)
            progress()
    first, *_ = found.values()
    return [
        _estimated(
            cell,
            name,
            kind,
            {run: one[kind] for run, one in rows.items()},
            {run: one[kind] for run, one in first.items()},
            failed[name],
            seconds[name],
        )
        for name, rows in found.items()
        for kind in ("entries", "entries at 0 or 1", "marginals", "conditionals")
    ]


def _estimated(
    cell: Cell,
    method: str,
    kind: str,
    rows: Mapping[int, tuple[float, float]],
    first: Mapping[int, tuple[float, float]],
    failed: int,
    seconds: Sequence[float],
) -> Estimated:
    """Means over runs, with their standard errors; rows are (coverage, width) by run, of this method and the first."""
    table = np.array([row for row in rows.values() if not np.isnan(row[0])]).reshape(-1, 2)
    number = len(table)
    means = table.mean(axis=0) if number else np.full(2, np.nan)
    errors = table.std(axis=0, ddof=1) / np.sqrt(number) if number > 1 else np.full(2, np.nan)
    cpu = float(np.mean(seconds)) if seconds else np.nan
    return Estimated(
        cell,
        method,
        kind,
        len(rows),
        failed,
        float(means[0]),
        float(errors[0]),
        float(means[1]),
        float(errors[1]),
        *_relative(np.array([(rows[run][1], first[run][1]) for run in rows if run in first])),
        cpu,
    )


def _relative(widths: Floats) -> tuple[float, float]:
    """Ratio of the means of two columns and its standard error by run (delta method)."""
    both = widths[~np.isnan(widths).any(axis=1)] if len(widths) else widths.reshape(0, 2)
    if len(both) < 2:
        return np.nan, np.nan
    own, other = both.T
    ratio = own.mean() / other.mean()
    return float(ratio), float((own - ratio * other).std(ddof=1) / np.sqrt(len(both)) / other.mean())
