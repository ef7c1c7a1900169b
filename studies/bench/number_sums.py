"""Numbers read from a release: how often intervals hold the truth, how wide they are, beside one question alone.

Networks are group -> x -> z: a group of few states, and two numeric columns x and z. Records are drawn with replacement
from real tables and made-up laws, and noise is simulated; the truth is the column's. Half widths and errors are in
standard deviations of the column; those of correlations and shares are as they are, those of slopes relative to the
slope. *Alone* is a dedicated mechanism that gets all of epsilon for one question and knows the number of records:
Laplace noise on a sum of clamped numbers or their squares, and the exponential mechanism for a quantile; these are the
mechanisms of OpenDP and diffprivlib, and OpenDP draws the noise. It gives no interval.

    python -m bench.number_sums FOLDER [--runs 2]      the folder with `adult.data.gz` and `pima-indians-diabetes.csv`
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import opendp.prelude as dp
import pyarrow as pa
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import discreet as dc
from bench.numbers import Floats, real

__all__ = [
    "BINS",
    "LEVEL",
    "QUESTIONS",
    "Run",
    "Table",
    "alone",
    "made_up_tables",
    "measure",
    "network_of",
    "sklearn_tables",
    "tables",
]

dp.enable_features("contrib")
QUESTIONS = ("E(x)", "E(x | group)", "sd(x)", "cor(x, z)", "slope", "median(x)", "quantile(x, 0.9)", "P(x > c)")
LEVEL = 0.95
GROUPS, BINS = 3, (3, 10)


class Table(NamedTuple):
    """Records of a group and two numbers, with public bounds of the numbers.

    Args:
        name: of the columns.
        group: codes.
        x, z: numbers.
        bounds: of x and z.
        integer: whether x is whole.
    """

    name: str
    group: Floats
    x: Floats
    z: Floats
    bounds: tuple[tuple[float, float], tuple[float, float]]
    integer: bool


class Run(NamedTuple):
    """One question of one release: error, half width of the interval, whether it holds the truth, error alone."""

    question: str
    error: float
    half: float
    held: bool
    alone: float


def tables(folder: Path) -> Iterator[Table]:
    """Pairs of neighbouring numeric columns of Adult and Pima; groups are thirds of a third column."""
    columns = list(real(folder))
    for number in sorted({len(column.values) for column in columns}):
        same = [column for column in columns if len(column.values) == number]
        for at, column in enumerate(same):
            other, third = same[(at + 1) % len(same)], same[(at + 2) % len(same)]
            yield _pair(column.variable.name, column.values, other.values, third.values,
                        (column.variable.bounds or (0, 1), other.variable.bounds or (0, 1)),
                        column.variable.type == "integer")  # fmt: skip


def sklearn_tables() -> Iterator[Table]:
    """Pairs of columns of three tables of scikit-learn; bounds are from 0 to the next round number."""
    for name, load in (("cancer", load_breast_cancer), ("wine", load_wine), ("diabetes", load_diabetes)):
        data = load(scaled=False).data if name == "diabetes" else load().data
        for at in range(0, data.shape[1] - 2, 3):
            x, z, third = data[:, at], data[:, at + 1], data[:, at + 2]
            yield _pair(f"{name} {at}", x, z, third, (_round_bounds(x), _round_bounds(z)), integer=False)


def made_up_tables(rng: np.random.Generator, n: int = 50_000) -> Iterator[Table]:
    """Long tails, two humps and heaps; z follows x along a line."""
    group = rng.integers(GROUPS, size=n).astype(float)
    hump = rng.random(n) < 0.3 + 0.2 * group
    for name, high, x in (
        ("lognormal", 5_000.0, rng.lognormal(6 + 0.2 * group, 0.8)),
        ("exponential", 100.0, rng.exponential(10 + 3 * group)),
        ("two humps", 100.0, np.where(hump, rng.normal(25, 5, n), rng.normal(70, 8, n))),
        ("heaps", 100.0, np.where(rng.random(n) < 0.7, 5 * rng.poisson(6 + group), rng.uniform(0, 60, n))),
    ):
        x = np.clip(x, 0, 0.999 * high)
        z = np.clip(30 + 40 * x / high + rng.normal(0, 8, n), 0, 99.9)
        yield Table(name, group, x, z, ((0.0, high), (0.0, 100.0)), integer=False)


def _pair(
    name: str,
    x: Floats,
    z: Floats,
    third: Floats,
    bounds: tuple[tuple[float, float], tuple[float, float]],
    integer: bool,
) -> Table:
    """Make a table whose groups are thirds of a third column."""
    group = np.searchsorted(np.quantile(third, (1 / 3, 2 / 3)), third).astype(float)
    return Table(name, group, x, z, bounds, integer)


def _round_bounds(values: Floats) -> tuple[float, float]:
    """Take 0, or the round number below, and the next round number above."""
    step = 10.0 ** np.floor(np.log10(max(float(np.abs(values).max()), 1e-9)))
    return (min(0.0, float(step * np.floor(values.min() / step))), float(step * (np.floor(values.max() / step) + 1)))


def network_of(table: Table, bins: int) -> dc.Network:
    """Declare the columns: x in bins of one width, z in six."""
    kind = "integer" if table.integer else "real"
    states = tuple(f"g{code}" for code in range(GROUPS))
    x = dc.Variable.binned("x", table.bounds[0], bins, type=kind)
    z = dc.Variable.binned("z", table.bounds[1], 6)
    return dc.Network((dc.Variable("group", states), x, z), {"group": (), "x": ("group",), "z": ("x",)})


def _truths(table: Table, cut: float) -> dict[str, float]:
    """Compute the answers of the columns."""
    x, z, own = table.x, table.z, table.group == 0
    moments = np.cov(x, z)
    return {
        "E(x)": x.mean(), "E(x | group)": x[own].mean(), "sd(x)": x.std(), "cor(x, z)": np.corrcoef(x, z)[0, 1],
        "slope": moments[0, 1] / moments[0, 0], "median(x)": np.quantile(x, 0.5, method="inverted_cdf"),
        "quantile(x, 0.9)": np.quantile(x, 0.9, method="inverted_cdf"), "P(x > c)": (x > cut).mean(),
    }  # fmt: skip


def alone(
    values: Floats, bounds: tuple[float, float], epsilon: float, question: str, rng: np.random.Generator
) -> float:
    """Answer one question with all of epsilon and the number of records public; NaN for questions that have no peer."""
    low, high = bounds
    laplace = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float),
                                scale=(high - low) / epsilon)  # fmt: skip
    if question == "E(x)":
        return float(laplace(float(np.clip(values, low, high).sum())) / len(values))
    if question == "sd(x)":
        # Half of epsilon each for the sums of numbers and of squares, both from the middle of the range.
        middle, half = (low + high) / 2, (high - low) / 2
        centred = np.clip(values, low, high) - middle
        mean = (centred.sum() + 2 * laplace(0.0)) / len(values)
        square = ((centred**2).sum() + half * laplace(0.0)) / len(values)
        return float(np.sqrt(max(square - mean**2, 0.0)))
    share = {"median(x)": 0.5, "quantile(x, 0.9)": 0.9}.get(question)
    if share is None:
        return float("nan")
    edges = np.concatenate([[low], np.sort(np.clip(values, low, high)), [high]])
    utility = -np.abs(np.arange(len(values) + 1) - share * len(values))
    with np.errstate(divide="ignore"):
        logs = epsilon / 2 * utility + np.log(np.diff(edges))
    at = int(np.argmax(logs + rng.gumbel(size=len(logs))))
    return float(rng.uniform(edges[at], edges[at + 1]))


def measure(
    table: Table, bins: int, records: int, epsilon: float, relation: str, rng: np.random.Generator
) -> Iterator[Run]:
    """Release records of a table, and ask all questions.

    Args:
        table: whose records are drawn with replacement.
        bins: of x, of one width.
        records: their number.
        epsilon: of the release, and of each question alone.
        relation: what neighbours are.
        rng: source of records and noise.
    """
    network, taken = network_of(table, bins), rng.integers(len(table.x), size=records)
    x, z, group = table.x[taken], table.z[taken], table.group[taken].astype(int)
    frame = pa.table({"group": np.array(network.schema["group"].states)[group], "x": x, "z": z})
    counts = dc.count(dc.read_records(frame, network.schema), network)
    promise = dc.Guarantee(epsilon=str(epsilon), delta=0, relation=relation, unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=rng)
    posterior = dc.noise_aware(release, draws=1000, rng=rng)
    cut = float(np.floor(np.quantile(table.x, 0.6)))
    asked = {"E(x | group)": "E(x | group=g0)", "P(x > c)": f"P(x > {cut})"}
    for question, truth in _truths(table, cut).items():
        unit = {"cor(x, z)": 1.0, "P(x > c)": 1.0, "slope": max(abs(truth), 1e-9)}.get(question, float(table.x.std()))
        if question == "slope":
            found = dc.regress(posterior, "z", on=["x"])
            row = next(row for row in found.rows(level=LEVEL) if row["name"] == "x")
        else:
            row = dict(dc.answer(posterior, asked.get(question, question), level=LEVEL).rows[0])
        lower, upper = float(row["lower"]), float(row["upper"])
        peer = abs(alone(x, table.bounds[0], epsilon, question, rng) - truth) / unit
        held = lower - 1e-9 * unit <= truth <= upper + 1e-9 * unit
        yield Run(question, abs(float(row["mean"]) - truth) / unit, (upper - lower) / 2 / unit, held, peer)


def main() -> None:
    """Print a line for each number of bins, records, epsilon and question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--relation", default="add-remove")
    parser.add_argument("--which", choices=["real", "sklearn", "made up"], nargs="+", default=["real", "made up"])
    wanted = parser.parse_args()
    every = {
        "real": lambda: list(tables(wanted.folder)),
        "sklearn": lambda: list(sklearn_tables()),
        "made up": lambda: list(made_up_tables(np.random.default_rng(1))),
    }
    chosen = [table for which in wanted.which for table in every[which]()]
    print("bins records epsilon question          error  half width  held %  error alone  ratio")
    for bins, records, epsilon in product(BINS, wanted.records, wanted.epsilon):
        runs = [
            run
            for number, table in enumerate(chosen * wanted.runs)
            for run in measure(table, bins, records, epsilon, wanted.relation,
                               np.random.default_rng([number, bins, records, int(10 * epsilon)]))
        ]  # fmt: skip
        for question in QUESTIONS:
            own = [run for run in runs if run.question == question]
            error, half, peer = (
                float(np.median([getattr(run, part) for run in own])) for part in ("error", "half", "alone")
            )
            held = 100 * float(np.mean([run.held for run in own]))
            print(f"{bins:4} {records:7} {epsilon:7} {question:17} {error:6.3f} {half:11.3f} {held:7.0f} {peer:12.3f} "
                  f"{error / peer:6.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
