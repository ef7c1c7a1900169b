"""Answers given a number: how far they are from the column, and how often their intervals hold it.

Tables are those of `bench.number_sums`: group -> x -> z, records drawn with replacement, noise simulated. Asked is the
mean of z, and its share above its upper third, at five places of x; the truth is that of the records nearest to each
place, a thirtieth of the table (its own standard error is in the column *floor*). Errors are in sd(z), of shares as
they are. Beside the answer stand, without noise, the mean of the bin, the line between the bins' means, and the line
inside the bin: what lines can do at all.

    python -m bench.number_lines FOLDER [--which sklearn]
    python -m bench.number_lines FOLDER --which chains --epsilon 1

Chains are x -> y -> z, in which no released sum has both x and z. One is normal with lines; the others are made of
three columns of a table: x and y of a record drawn at random, and z of one of the hundred records nearest in y, so that
z depends on x by y alone, along whatever curves the columns have. Truth is that of 100,000 such records.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import discreet as dc
from bench.number_sums import (
    BINS,
    GROUPS,
    LEVEL,
    Asked,
    Table,
    made_up_tables,
    read_release,
    round_bounds,
    sklearn_tables,
    tables,
)
from bench.numbers import Floats

__all__ = ["Place", "chains", "lines_without_noise", "measure_chain", "measure_lines", "measure_normal"]

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
NEAREST = 30
POPULATION, ALIKE = 100_000, 100


class Place(NamedTuple):
    """One question at one place: what was asked, errors of the answer and without noise, whether intervals hold."""

    question: str
    error: float
    floor: float
    bin_mean: float
    between: float
    inside: float
    held: bool
    held_by_line: bool
    half_by_line: float


def lines_without_noise(table: Table, edges: Floats, at: float) -> tuple[float, float, float]:
    """Compute the mean of the bin, the line between bins' means and the line inside the bin, from the records."""
    bins = np.clip(np.searchsorted(edges, table.x, side="right") - 1, 0, len(edges) - 2)
    used = [bin for bin in range(len(edges) - 1) if (bins == bin).any()]
    x, z = (np.array([values[bins == bin].mean() for bin in used]) for values in (table.x, table.z))
    bin = int(np.clip(np.searchsorted(edges, at, side="right") - 1, 0, len(edges) - 2))
    here = used.index(bin) if bin in used else int(np.abs(np.array(used) - bin).argmin())
    chosen = bins == used[here]
    spread = table.x[chosen].var()
    slope = 0.0 if spread == 0 else np.mean((table.x[chosen] - x[here]) * table.z[chosen]) / spread
    return float(z[here]), float(np.interp(at, x, z)), float(z[here] + slope * (at - x[here]))


def measure_lines(table: Table, bins: int, records: int, epsilon: float, rng: np.random.Generator) -> Iterator[Place]:
    """Release records of a table, and ask at the places."""
    taken = rng.integers(len(table.x), size=records)
    posterior = read_release(table, Asked(bins, records, epsilon, "add-remove"), taken, None, rng, 500)
    deviation, cut = float(table.z.std()), float(np.quantile(table.z, 0.67))
    edges = np.array(posterior.network.schema["x"].edges)
    for share in SHARES:
        at = float(np.quantile(table.x, share, method="inverted_cdf"))
        nearest = np.argsort(np.abs(table.x - at), kind="stable")[: max(len(table.x) // NEAREST, 10)]
        near, floor = table.z[nearest], 1 / np.sqrt(len(nearest))
        plain = lines_without_noise(table, edges, at)
        for question, truth, unit, query in (
            ("E(z | x=c)", near.mean(), deviation, f"E(z | x={at!r})"),
            ("P(z > t | x=c)", (near > cut).mean(), 1.0, f"P(z > {cut!r} | x={at!r})"),
        ):
            row = dc.answer(posterior, query, level=LEVEL).rows[0]
            spread = floor * float(near.std()) if unit != 1 else floor * float(np.sqrt(truth * (1 - truth)))
            others = [abs(each - truth) / unit for each in plain] if unit != 1 else [np.nan] * 3
            # The truth is known up to its own error: an interval holds it if it comes within two of these.
            ends = [row["lower"], row["upper"], row["law_lower"], row["law_upper"]]
            held = [low - 2 * spread <= truth <= high + 2 * spread for low, high in (ends[:2], ends[2:])]
            error, half = abs(row["mean"] - truth) / unit, (ends[3] - ends[2]) / 2 / unit
            yield Place(question, error, spread / unit, *others, *held, half)


def measure_normal(bins: int, records: int, epsilon: float, runs: int) -> Iterator[tuple[str, float, bool]]:
    """Ask of columns that are normal together, whose line is known: half width in sd(z), and whether it is held.

    Args:
        bins: of x.
        records: of each run, drawn anew.
        epsilon: of each release.
        runs: releases.
    """
    for run in range(runs):
        rng = np.random.default_rng([8, run, bins, records, int(10 * epsilon)])
        group = rng.integers(GROUPS, size=records).astype(float)
        x = rng.normal(50, 12, records)
        z = 20 + 0.6 * x + rng.normal(0, 9, records)
        table = Table("normal", group, np.clip(x, 0, 99.9), np.clip(z, 0, 99.9), ((0, 100), (0, 100)), integer=False)
        asked = Asked(bins, records, epsilon, "add-remove")
        posterior = read_release(table, asked, np.arange(records), None, rng, 500)
        fitted = dc.regress(posterior, "z", ["x"])
        for at in (30.0, 45.0, 62.0):
            row = dc.answer(posterior, f"E(z | x={at})", level=LEVEL).rows[0]
            ends = {"answer by lines": (row["law_lower"], row["law_upper"])}
            line = fitted.at({"x": at}, level=LEVEL)
            ends["straight line"] = (line["lower"], line["upper"])
            for name, (low, high) in ends.items():
                yield name, (high - low) / 2 / float(z.std()), low <= 20 + 0.6 * at <= high


def chains(folder: Path, rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    """Populations of three columns x, y and z, in which z depends on x by y alone; shape (3, records).

    Args:
        folder: with Pima's table; on its columns and the normal ones slopes and doubts were set, on others nothing.
        rng: source of records.
    """
    x = rng.normal(50, 12, POPULATION)
    y = 20 + 0.6 * x + rng.normal(0, 6, POPULATION)
    yield "normal", np.clip([x, y, 1.1 * y - 5 + rng.normal(0, 8, POPULATION)], 0, 99.9)
    pima = np.loadtxt(folder / "pima-indians-diabetes.csv", delimiter=",")
    pima = pima[(pima[:, 1] > 0) & (pima[:, 2] > 0) & (pima[:, 5] > 0)]
    for name, data, triples in (
        ("cancer", load_breast_cancer().data, [(0, 3, 6), (20, 22, 26), (4, 5, 8), (10, 13, 12)]),
        ("wine", load_wine().data, [(5, 6, 11), (0, 12, 9), (7, 8, 6)]),
        ("diabetes", load_diabetes(scaled=False).data, [(4, 5, 7), (2, 3, 9), (6, 8, 5)]),
        ("pima", pima, [(5, 2, 7), (1, 4, 5)]),
    ):
        for triple in triples:
            x, y, z = (data[:, column] for column in triple)
            drawn = rng.integers(len(data), size=POPULATION)
            order, alike = np.argsort(y, kind="stable"), min(ALIKE, len(data) // 10)
            rank = np.empty(len(data), int)
            rank[order] = np.arange(len(data))
            near = np.clip(rank[drawn] + rng.integers(-alike // 2, alike // 2 + 1, POPULATION), 0, len(data) - 1)
            yield f"{name} {triple}", np.stack([x[drawn], y[drawn], z[order[near]]])


def measure_chain(
    population: Floats, bins: int, records: int, epsilon: float, rng: np.random.Generator
) -> Iterator[tuple[str, float, float, bool]]:
    """Release drawn records over x -> y -> z, and ask what x and z have to do with each other.

    Args:
        population: as of `chains`.
        bins: of each column.
        records: drawn.
        epsilon: of the release.
        rng: source of records and noise.

    Returns:
        Question, error and half width in units of its kind (correlation as it is, a slope in sd(z) / sd(x), a mean in
        sd(z), a share as it is), and whether the interval of 95 % holds the truth.
    """
    bounds = [round_bounds(values) for values in population]
    variables = tuple(dc.Variable.binned(name, ends, bins) for name, ends in zip("xyz", bounds, strict=True))
    network = dc.Network(variables, {"x": (), "y": ("x",), "z": ("y",)})
    taken = population[:, rng.integers(population.shape[1], size=records)]
    counts = dc.count(dc.read_records(pa.table(list(taken), names=list("xyz")), network.schema), network)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=rng)
    posterior = dc.noise_aware(release, draws=400, rng=rng)
    x, _, z = population
    related, scale = float(np.corrcoef(x, z)[0, 1]), float(z.std())
    (row,) = dc.answer(posterior, "cor(x, z)", level=LEVEL).rows
    yield "cor(x, z)", *_judge(row["mean"], row["lower"], row["upper"], related, 1.0)
    fitted, unit = dc.regress(posterior, "z", ["x"]), scale / float(x.std())
    low, high = fitted.interval(level=LEVEL)
    yield "slope", *_judge(float(fitted.mean()[0]), float(low[0]), float(high[0]), related * unit, unit)
    cut = float(np.quantile(z, 0.67))
    for share in (0.2, 0.5, 0.8):
        at = float(np.quantile(x, share, method="inverted_cdf"))
        near = z[np.argsort(np.abs(x - at), kind="stable")[: POPULATION // NEAREST]]
        for name, query, truth, unit in (
            ("E(z | x=c)", f"E(z | x={at!r})", float(near.mean()), scale),
            ("P(z > t | x=c)", f"P(z > {cut!r} | x={at!r})", float((near > cut).mean()), 1.0),
        ):
            (row,) = dc.answer(posterior, query, level=LEVEL).rows
            yield name, *_judge(row["mean"], row["law_lower"], row["law_upper"], truth, unit)


def _judge(mean: float, low: float, high: float, truth: float, unit: float) -> tuple[float, float, bool]:
    """Error, half width, and whether an interval holds the truth."""
    return abs(mean - truth) / unit, (high - low) / 2 / unit, low <= truth <= high


def print_chains(folder: Path, records: list[int], epsilons: list[float], runs: int) -> None:
    """Print a line for each number of bins, records, epsilon, kind of columns and question."""
    populations = list(chains(folder, np.random.default_rng(1)))
    print("bins records epsilon  columns   question         error half width  held %")
    for bins, number, epsilon in product(BINS, records, epsilons):
        for kind in ("normal", "cancer", "wine", "diabetes", "pima"):
            answers = [
                answer
                for at, (name, population) in enumerate(populations)
                if name.startswith(kind)
                for run in range(runs)
                for answer in measure_chain(population, bins, number, epsilon,
                                            np.random.default_rng([9, at, run, bins, number, int(10 * epsilon)]))
            ]  # fmt: skip
            for question in dict.fromkeys(answer[0] for answer in answers):
                errors, halves, held = zip(*(answer[1:] for answer in answers if answer[0] == question), strict=True)
                print(f"{bins:4} {number:7} {epsilon:7}  {kind:9} {question:15} {np.median(errors):6.3f} "
                      f"{np.median(halves):10.3f} {100 * np.mean(held):7.0f}", flush=True)  # fmt: skip


def main() -> None:
    """Print a line for each number of bins, records, epsilon and question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument(
        "--which", choices=["real", "sklearn", "made up", "normal", "chains"], nargs="+", default=["real"]
    )
    parser.add_argument("--runs", type=int, default=60, help="releases of normal columns, and of each chain")
    wanted = parser.parse_args()
    every = {"real": lambda: list(tables(wanted.folder)), "sklearn": lambda: list(sklearn_tables()),
             "made up": lambda: list(made_up_tables(np.random.default_rng(1)))}  # fmt: skip
    if "normal" in wanted.which:
        print("bins records epsilon  by              held %  half width")
        for bins, records, epsilon in product(BINS, wanted.records, wanted.epsilon):
            asked_normal = list(measure_normal(bins, records, epsilon, wanted.runs))
            for name in ("answer by lines", "straight line"):
                halves, held = zip(*((half, hold) for by, half, hold in asked_normal if by == name), strict=True)
                print(f"{bins:4} {records:7} {epsilon:7}  {name:15} {100 * np.mean(held):6.0f} {np.mean(halves):11.3f}",
                      flush=True)  # fmt: skip
    if "chains" in wanted.which:
        print_chains(wanted.folder, wanted.records, wanted.epsilon, wanted.runs)
    chosen = [table for which in wanted.which if which in every for table in every[which]()]
    if not chosen:
        return
    print("bins records epsilon question       error floor   bin between inside  held % by line %  half by line")
    for bins, records, epsilon in product(BINS, wanted.records, wanted.epsilon):
        places = [
            place
            for number, table in enumerate(chosen)
            for place in measure_lines(table, bins, records, epsilon,
                                       np.random.default_rng([7, number, bins, records, int(10 * epsilon)]))
        ]  # fmt: skip
        for question in dict.fromkeys(place.question for place in places):
            asked = np.array([place[1:] for place in places if place.question == question], float)
            means = asked.mean(axis=0)
            print(f"{bins:4} {records:7} {epsilon:7} {question:14} " + " ".join(f"{m:6.3f}" for m in means[:5])
                  + f" {100 * means[5]:6.0f} {100 * means[6]:8.0f} {means[7]:10.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
