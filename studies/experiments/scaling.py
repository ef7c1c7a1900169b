"""Error of released tables against epsilon, number of records, in-degree and cardinality.

Networks are chains of eight variables: each has the K variables before it as parents, and every variable has S states;
rows are drawn from Dirichlet(1) anew for every repeat, and records from them. One thing is varied at a time around
epsilon 0.1, 10,000 records, K = 2 and S = 2, or K = 1 where S is varied, so that tables stay small. (At epsilon 1
sampling dominates on chains of two states, and lines would tell nothing of the noise.)

Two errors of `errors`: cpt, the mean over rows of `sum_x |released - true|`, and wcpt, the same with rows weighed by
the true probability of the parents. Beside the methods stand relative frequencies (sampling alone; uniform in rows
without a record), and uniform rows (nothing known).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

import discreet as dc

from .budget import left_out, spread
from .chowdhury import frequencies, plus_one
from .errors import Data, Truth, errors, simulated, single
from .harness import Experiment, Task, command
from .noise_law import noise_check, noise_row
from .pages import Check, Estimate, Illustration, Page, estimate, markdown
from .pictures import curves, grid, legend_below, log_axis, log_heights
from .shipped import SHIPPED, planned

Floats = npt.NDArray[np.float64]

__all__ = ["AXES", "EXPERIMENT", "METHODS", "chain", "crossing", "expected_error", "slope"]

NODES = 8
RELEASES = 20
"""Of Laplace noise on independent bits, for each repeat, beside the expected error."""
AXES: Mapping[str, tuple[float, ...]] = {
    "epsilon": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    "records": (300, 1000, 3000, 10_000, 30_000, 100_000),
    "parents": (0, 1, 2, 3, 4, 5),
    "states": (2, 3, 4, 6, 10),
}
"""What is varied, and its values."""
MIDDLE: Mapping[str, float] = {"epsilon": 0.1, "records": 10_000, "parents": 2, "states": 2}
ERRORS = ("cpt", "wcpt")
NOISY, KNOWN = 2.0, 0.5
"""Slopes are fitted where the mean error is at least twice that of relative frequencies, and at most half that of
uniform rows: sampling and ignorance both flatten the lines."""
WORSE = float(np.log(1.5))
"""A log ratio of errors that nobody would call "no worse"."""
RECORDED: Mapping[tuple[str, float], Estimate] = {
    ("wcpt", 0.03): Estimate(0.0665, 0.0017),
    ("wcpt", 0.1): Estimate(0.0262, 0.0006),
}
"""Errors of `dc.planned(pairs_share=0)` by metric and epsilon in a run of its own. So few records are too few for a
pair: the default is the same plan there, with a hundredth of epsilon less."""
RECORDED_REPEATS, RECORDED_SANE = 60, 0.4
"""Its repeats, and the part of an error that is still agreement: half the noise takes more."""
DOMINATES = np.sqrt(2)
"""Times the error of the frequencies: variances of noise and of sampling would be equal if errors were normal."""


def chain(parents: int, states: int) -> dc.Network:
    """Eight variables, each with as many parents just before it as there are, at most `parents`."""
    names = [f"v{place}" for place in range(NODES)]
    labels = tuple(f"s{state}" for state in range(states))
    variables = tuple(dc.Variable(name, labels) for name in names)
    return dc.Network(variables, {name: tuple(names[max(0, i - parents) : i]) for i, name in enumerate(names)})


# ------------------------------------------------------------------------------------------ methods


Found = tuple[dc.Tables, dc.Release | None]
"""Probabilities, and the release that they were read from, if any."""


def _shipped(data: Data, epsilon: float, rng: np.random.Generator) -> Found:
    """The default mechanism, read by `estimate`."""
    made = simulated(planned(SHIPPED), data.counts, epsilon, rng)
    return dc.estimate(made, rng=rng), made


def _laplace(data: Data, epsilon: float, rng: np.random.Generator) -> Found:
    """Noisy family tables: below 0 they count as 0, one more in each cell."""
    made = simulated(dc.laplace(), data.counts, epsilon, rng)
    assert isinstance(made.payload, dc.kinds.NoisyCounts)
    return plus_one(made.network, {node: made.payload.table(node) for node in made.network.nodes}), made


METHODS: Mapping[str, Callable[[Data, float, np.random.Generator], Found]] = {
    SHIPPED: _shipped,
    "laplace, clipped, +1": _laplace,
    "frequencies, not private": lambda data, epsilon, rng: (frequencies(data.counts.network, data.counts.tables), None),
    "uniform rows (no data)": lambda data, epsilon, rng: (dc.Dirichlet.uniform(data.counts.network).mean(), None),
}
"""From records, epsilon and a source of randomness to probabilities and what they were read from."""
_, LAPLACE, EXACT, UNIFORM = METHODS


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Everything at every value; a quick run repeats less."""
    return [({"varied": name, "at": float(value)}, 5 if quick else 60) for name in AXES for value in AXES[name]]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Both errors of all methods on the same records; chains of the same shape have the same truth."""
    varied, at = task.setting["varied"], task.setting["at"]
    here = {**MIDDLE, **({"parents": 1} if varied == "states" else {}), varied: at}
    network = chain(int(here["parents"]), int(here["states"]))
    shape = f"{here['parents']:g} {here['states']:g}"
    theta = dc.Dirichlet.uniform(network, 1.0).draw(1, rng=task.rng(f"truth {shape}"))
    truth = Truth.of(dc.Tables(network, {node: table[..., 0] for node, table in theta.items()}), "chain")
    data = Data.drawn(truth, int(here["records"]), task.rng(f"records {shape} {here['records']:g}"))
    for name, method in METHODS.items():
        rng = task.rng(f"{name} {varied} {at:g}")
        theta, release = method(data, here["epsilon"], rng)
        found = errors(data, single(theta))
        for metric in ERRORS:
            yield {"method": name, "metric": metric, "value": float(found[metric][0])}
        if release is not None:
            yield {"method": name, **noise_row(release, data.counts)}
    if here["parents"] == 0:
        yield {"method": LAPLACE, "metric": "cpt over its law's", "value": _over_law(data, here["epsilon"], task)}


def _over_law(data: Data, epsilon: float, task: Task) -> float:
    """Mean error of Laplace noise on independent bits over its expectation, worked out from the noise's law."""
    rng = task.rng("releases for the law")
    each = [errors(data, single(_laplace(data, epsilon, rng)[0]))["cpt"][0] for _ in range(RELEASES)]
    scale = len(data.counts.network.nodes) / epsilon
    truth = data.truth.theta
    rows = [expected_error(data.counts.tables[node], truth[node][0], scale) for node in truth]
    return float(np.mean(each) / np.mean(rows))


def expected_error(counts: npt.ArrayLike, chance: float, scale: float) -> float:
    """Expected error of a bit's probabilities from noisy counts, clipped at 0, plus 1, by summation.

    Args:
        counts: of both states, records.
        chance: true probability of the first state.
        scale: of discrete Laplace noise on either count, records.

    Returns:
        `E sum_x |released - true|`, nothing simulated; noise beyond twelve scales is left out.
    """
    reach = math.ceil(12 * scale)
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    weights /= weights.sum()
    first, second = (np.maximum(np.arange(-reach, reach + 1) + count, 0) + 1.0 for count in np.asarray(counts))
    released = first[:, None] / (first[:, None] + second)
    return float(2 * weights @ np.abs(released - chance) @ weights)


# ------------------------------------------------------------------------------------------ slopes and crossings


def _curves(frame: pd.DataFrame, varied: str, metric: str) -> dict[str, Floats]:
    """By method, errors of shape (values of what is varied, repeats)."""
    part = frame[(frame["varied"] == varied) & (frame["metric"] == metric)]
    return {
        name: rows.pivot(index="at", columns="repeat", values="value").to_numpy(float)
        for name, rows in part.groupby("method")
    }


def slope(at: Sequence[float], values: Floats) -> Estimate:
    """Slope of the line through log errors against the logarithm of what is varied.

    Args:
        at: values of what is varied.
        values: errors, shape (len(at), repeats).

    Returns:
        Mean and standard error over repeats; NaN for fewer than two values.
    """
    if len(at) < 2:
        return Estimate(float("nan"), float("nan"))
    return estimate(np.polyfit(np.log(at), np.log(values), 1)[0])


def dominated(found: Mapping[str, Floats], method: str) -> npt.NDArray[np.bool_]:
    """Where slopes are fitted: noise dominates, and something is known."""
    mean = found[method].mean(axis=1)
    return np.asarray((mean >= NOISY * found[EXACT].mean(axis=1)) & (mean <= KNOWN * found[UNIFORM].mean(axis=1)))


def crossing(at: Sequence[float], private: Floats, exact: Floats) -> Estimate:
    """Where the error falls to sqrt(2) times that of relative frequencies.

    Args:
        at: increasing values of what is varied.
        private, exact: errors, shape (len(at), repeats).

    Returns:
        The value by log-log interpolation of the ratio of mean errors, with a jackknife standard error, both as base-10
        logarithms; infinite where the ratio does not fall so far, minus infinite where it starts below.
    """
    ratios = np.log(left_out(private) / left_out(exact))
    # The lowest ratio so far: one that rises by chance would have no inverse.
    falling, wanted = -np.minimum.accumulate(ratios, axis=0), -np.log(DOMINATES)
    logs = np.log10(at)
    places = [np.interp(wanted, one, logs, left=-np.inf, right=np.inf) for one in falling.T]
    if not np.all(np.isfinite(places)):
        return Estimate(float(places[0]), float("nan"))
    return Estimate(float(places[0]), spread(np.asarray(places)))


# ------------------------------------------------------------------------------------------ the page


def present(frame: pd.DataFrame) -> Page:
    """Figures, slopes, and where noise dominates."""
    lines = {axis: _curves(frame, axis, "wcpt") for axis in AXES}
    crossed = {
        (axis, name): _power(crossing(AXES[axis], lines[axis][name], lines[axis][EXACT]), AXES[axis])
        for axis in ("epsilon", "records")
        for name in (SHIPPED, LAPLACE)
    }
    orders = _orders(frame)
    steep = {name: _fitted(lines["epsilon"], "epsilon", name) for name in (SHIPPED, LAPLACE)}
    powers = " and ".join(f"{found.text(2)} (epsilon {_span(kept)})" for found, kept in steep.values())
    verdict = (
        f"Beyond the papers: at 10,000 records noise dominates sampling below epsilon {crossed['epsilon', SHIPPED]} "
        f"for the shipped default and {crossed['epsilon', LAPLACE]} for Laplace noise, whose errors go with epsilon to "
        f"the power of {powers}, noise alone: -1; the default is no worse than Laplace noise in "
        f"{sum(check.passes for check in orders)} of {len(orders)} means."
    )
    named = (("wcpt", "Row error weighed by P(parents)"), ("cpt", "Mean row error"))
    pictures = [
        Illustration(metric, _figure(frame, metric), f"{words} (sum over states of absolute errors), log-log; bars: "
                     f"two standard errors. Around epsilon {MIDDLE['epsilon']:g}, 10,000 records, two parents and two "
                     "states; one parent where states vary.")
        for metric, words in named
    ]  # fmt: skip
    tables = [
        ("Slopes of log error where noise dominates and something is known (error at least twice that of the "
         "frequencies, at most half that of uniform rows); of the frequencies, everywhere. For parents and states the "
         "slope is against the cells of the largest family.", _slopes(frame)),
        *((f"{words}, ± one standard error.", _table(frame, metric)) for metric, words in named),
    ]  # fmt: skip
    fewer = " and ".join(f"{crossed['records', name]} ({name})" for name in (SHIPPED, LAPLACE))
    notes = (
        "Noise dominates where the error of rows, weighed by P(parents), is above sqrt 2 times that of the relative "
        f"frequencies; at epsilon {MIDDLE['epsilon']:g} it does below {fewer} records. {NOTES}"
    )
    return Page(verdict, pictures, tables, [*orders, *_absolutes(frame)], notes)


NOTES = (
    "Noise in a cell is of the order of tables / epsilon records, and a row holds n P(parents), so noise alone gives "
    "an error of 1 / (n epsilon). Cells that are not negative, and a prior that is learned, take more off where less "
    "is known, which makes lines flatter than that."
)


def _orders(frame: pd.DataFrame) -> list[Check]:
    """The shipped default is not worse than Laplace noise, on the same records, on average along any axis."""
    found = []
    for varied, metric in ((varied, metric) for metric in ERRORS for varied in AXES):
        lines = _curves(frame, varied, metric)
        mean = estimate(np.log(lines[SHIPPED] / lines[LAPLACE]).mean(axis=0))
        what = f"{metric}, mean over values of {varied}: log of default / laplace"
        found.append(Check.below(what, mean, 0.0, sane=WORSE))
    return found


def _absolutes(frame: pd.DataFrame) -> Iterator[Check]:
    """Numbers that were worked out or measured elsewhere: two errors of our own say nothing of each other's noise."""
    for name in (SHIPPED, LAPLACE):
        yield noise_check(frame[frame["method"] == name], name)
    law = estimate(frame[frame["metric"] == "cpt over its law's"]["value"])
    yield Check.near("independent bits, laplace: cpt over its expectation by summation", Estimate(1.0), law, sane=0.2)
    for (metric, epsilon), reference in RECORDED.items():
        part = frame[(frame["varied"] == "epsilon") & (frame["at"] == epsilon) & (frame["method"] == SHIPPED)]
        here = estimate(part[part["metric"] == metric]["value"])
        what = (
            f"{metric} of the shipped default, epsilon {epsilon:g}, against {RECORDED_REPEATS} repeats of other seeds"
        )
        yield Check.near(what, reference, here, sane=RECORDED_SANE * reference.mean, digits=4)


def _power(place: Estimate, at: Sequence[float]) -> str:
    """A crossing in words."""
    if not np.isfinite(place.mean):
        return f"more than {at[-1]:,g}" if place.mean > 0 else f"less than {at[0]:,g}"
    value = 10**place.mean
    return f"{round(value, 1 - int(np.floor(place.mean))):,g}"


def _span(values: Sequence[float]) -> str:
    """What a slope is fitted to, in words."""
    return f"{values[0]:g} to {values[-1]:g}" if len(values) > 1 else "too few"


def _fitted(lines: Mapping[str, Floats], varied: str, method: str) -> tuple[Estimate, list[float]]:
    """Slope of a method, and the values that it is fitted to."""
    values = AXES[varied]
    used = dominated(lines, method) if method != EXACT else np.ones(len(values), bool)
    kept = [value for value, use in zip(values, used, strict=True) if use]
    return slope([_size(varied, value) for value in kept], lines[method][used]), kept


def _slopes(frame: pd.DataFrame) -> str:
    """One line for each axis, error and method."""
    rows = []
    for varied, metric in ((varied, metric) for varied in AXES for metric in ERRORS):
        lines = _curves(frame, varied, metric)
        for name in (SHIPPED, LAPLACE, EXACT):
            found, kept = _fitted(lines, varied, name)
            if name != EXACT or varied != "epsilon":
                shown = found.text(2) if len(kept) > 1 else "too few"
                rows.append([varied, metric, name, shown, ", ".join(f"{value:g}" for value in kept)])
    return markdown(["varied", "error", "method", "slope", "fitted at"], rows)


def _size(varied: str, value: float) -> float:
    """What slopes are against: the cells of the largest family where the network varies."""
    return 2 ** (value + 1) if varied == "parents" else value**2 if varied == "states" else value


def _table(frame: pd.DataFrame, metric: str) -> str:
    """Mean errors."""
    part = frame[frame["metric"] == metric]
    found = {key: estimate(rows).text(4) for key, rows in part.groupby(["varied", "at", "method"])["value"]}
    rows = [
        [varied, f"{at:,g}", *(found[varied, at, name] for name in METHODS)] for varied in AXES for at in AXES[varied]
    ]
    return markdown(["varied", "at", *METHODS], rows)


def _figure(frame: pd.DataFrame, metric: str) -> Figure:
    """A panel for everything that is varied."""
    figure, panels = grid(2, 2, width=3.2, height=2.4)
    labels = {
        "epsilon": "epsilon (nats), add or remove",
        "records": "records",
        "parents": "parents of each variable",
        "states": "states of each variable",
    }
    for panel, varied in zip(panels.ravel(), AXES, strict=True):
        part = frame[(frame["metric"] == metric) & (frame["varied"] == varied)]
        curves(panel, part, "at", "method", tuple(METHODS))
        if varied == "parents":
            panel.set_xlabel(labels[varied])
        else:
            log_axis(panel, AXES[varied], labels[varied])
        log_heights(panel, within=(1, 2, 5))
    for panel in panels[:, 0]:
        panel.set_ylabel("error of a row (L1)")
    legend_below(figure, columns=2)
    return figure


EXPERIMENT = Experiment(
    title="Beyond the papers: how the error scales",
    source="ours",
    claim="nothing of this kind; the papers vary epsilon alone",
    data="made up: chains of eight variables with 0 to 5 parents and 2 to 10 states, rows from Dirichlet(1), 300 to "
    "100,000 records, anew for each repeat",
    relation="add or remove one record",
    guarantee="epsilon as given, delta 0; none for the relative frequencies",
    plan=plan,
    measure=measure,
    present=present,
)

if __name__ == "__main__":
    command(["scaling"])
