"""Answers given a number: how far they are from the column, and how often their intervals hold it.

Tables are those of `bench.number_sums`: group -> x -> z, records drawn with replacement, noise simulated. Asked is the
mean of z, and its share above its upper third, at five places of x; the truth is that of the records nearest to each
place, a thirtieth of the table (its own standard error is in the column *floor*). Errors are in sd(z), of shares as
they are. Beside the answer stand, without noise, the mean of the bin, the line between the bins' means, and the line
inside the bin: what lines can do at all.

    python -m bench.number_lines FOLDER [--which sklearn]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

import discreet as dc
from bench.number_sums import BINS, GROUPS, LEVEL, Asked, Table, made_up_tables, read_release, sklearn_tables, tables
from bench.numbers import Floats

__all__ = ["Place", "lines_without_noise", "measure_lines", "measure_normal"]

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
NEAREST = 30


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


def main() -> None:
    """Print a line for each number of bins, records, epsilon and question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--which", choices=["real", "sklearn", "made up", "normal"], nargs="+", default=["real"])
    parser.add_argument("--runs", type=int, default=60, help="releases of normal columns")
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
    chosen = [table for which in wanted.which if which != "normal" for table in every[which]()]
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
