"""Bins found between bounds 100 or 10,000 times too wide, beside ten good bins that somebody declared.

The network is group -> x. Records are drawn with replacement; the truth is that of the column, clipped where bins were
found. Declared bins are ten of one width between the bounds of `number_sums`. Errors and half widths are in standard
deviations of the column; a share beyond a number is as it is. A *false top* is a found range whose last cell but one
lies above all numbers of the column, or below all of them at the other end, and that does not end at 0 or at a bound.

    python -m bench.found_numbers FOLDER --which sklearn    FOLDER: that of `number_sums`
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import discreet as dc
from bench.number_sums import GROUPS, LEVEL, Table, made_up_tables, sklearn_tables, tables
from bench.numbers import Floats

__all__ = ["QUESTIONS", "Run", "measure"]

QUESTIONS = ("E(x)", "E(x | group)", "sd(x)", "median(x)", "quantile(x, 0.9)", "P(x > c)", "beyond")
TOO_WIDE = (100, 10_000)
DRAWS = 400


class Run(NamedTuple):
    """One question of two releases of the same records: over found bins and over declared ones.

    Args:
        question: text, or "beyond" for the number of records outside the found range.
        errors: over found and over declared bins.
        unclipped: the first, of the column as it was.
        half: half width of the interval over found bins.
        held: whether it holds the truth of the clipped column.
        outside: share of the column outside the found range.
        false_top: see above.
    """

    question: str
    errors: tuple[float, float]
    unclipped: float
    half: float
    held: bool
    outside: float
    false_top: bool


def measure(table: Table, wide: int, records: int, epsilon: float, seed: list[int]) -> Iterator[Run]:
    """Release the same records twice, and ask all questions of both releases.

    Args:
        table: whose records are drawn with replacement.
        wide: how many times too wide the bounds are.
        records: their number.
        epsilon: of each release.
        seed: of records and noise.
    """
    rng = np.random.default_rng(seed)
    taken, kind = rng.integers(len(table.x), size=records), "integer" if table.integer else "real"
    largest = 10.0 ** np.ceil(np.log10(np.abs(table.x).max())) * wide
    bounds = (-largest if table.x.min() < 0 else 0.0, largest)
    states = tuple(f"g{code}" for code in range(GROUPS))
    frame = pa.table({"group": np.array(states)[table.group[taken].astype(int)], "x": table.x[taken]})
    declared = dc.Variable.binned("x", table.bounds[0], 10, type=kind)
    found, own = (
        _release(frame, dc.Network((dc.Variable("group", states), x), {"group": (), "x": ("group",)}), epsilon, rng)
        for x in (dc.Variable("x", bounds=bounds, type=kind), declared)
    )
    variable, column = found.network.schema["x"], found.payload.columns[0]  # type: ignore[attr-defined]
    (low, *_, high), edges = variable.edges, np.array(column.edges)
    clipped, outside = np.clip(table.x, *(variable.bounds or (0, 0))), (table.x < low) | (table.x >= high)
    above, below = edges[edges < high][-2] > table.x.max(), edges[edges > low][1] <= table.x.min()
    false_top = bool((above and high not in (0, edges[-1])) or (below and low not in (0, edges[0])))
    cut = float(np.floor(np.quantile(table.x, 0.6)))
    asked = {"E(x | group)": "E(x | group=g0)", "P(x > c)": f"P(x > {cut})"}
    one, other = (dc.noise_aware(release, draws=DRAWS, rng=rng) for release in (found, own))
    truths, plain = _truths(clipped, table.group, cut), _truths(table.x, table.group, cut)
    for question, truth in truths.items():
        unit = 1.0 if question == "P(x > c)" else float(table.x.std())
        ours, theirs = (
            dict(dc.answer(each, asked.get(question, question), level=LEVEL).rows[0]) for each in (one, other)
        )
        mean, lower, upper = (float(ours[part]) / unit for part in ("mean", "lower", "upper"))
        errors = abs(mean - truth / unit), abs(float(theirs["mean"]) - plain[question]) / unit
        held = lower - 1e-9 <= truth / unit <= upper + 1e-9
        yield Run(question, errors, abs(mean - plain[question] / unit), (upper - lower) / 2, held,
                  float(outside.mean()), false_top)  # fmt: skip
    for row in column.outside(variable, 1):
        beyond = table.x[taken] < low if row["states"].startswith("below") else table.x[taken] >= high
        half, error = (row["upper"] - row["lower"]) / 2, abs(row["value"] - beyond.sum())
        held = row["lower"] <= beyond.sum() <= row["upper"]
        yield Run("beyond", (error, float("nan")), error, half, held, float(outside.mean()), false_top)


def _release(frame: pa.Table, network: dc.Network, epsilon: float, rng: np.random.Generator) -> dc.Release:
    """Release a table by the default mechanism, with simulated noise."""
    counts = dc.count(dc.read_records(frame, network.schema, out_of_bounds="clip"), network)
    promise = dc.Guarantee(epsilon=str(epsilon), delta=0, relation="add-remove", unit="record")
    return dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=rng)


def _truths(x: Floats, group: Floats, cut: float) -> dict[str, float]:
    """Compute the answers of a column."""
    return {
        "E(x)": x.mean(), "E(x | group)": x[group == 0].mean(), "sd(x)": x.std(),
        "median(x)": np.quantile(x, 0.5, method="inverted_cdf"),
        "quantile(x, 0.9)": np.quantile(x, 0.9, method="inverted_cdf"), "P(x > c)": (x > cut).mean(),
    }  # fmt: skip


def main() -> None:
    """Print a line for each number of records, epsilon and question, then the false tops."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--which", choices=["real", "sklearn", "made up"], nargs="+", default=["real", "made up"])
    wanted = parser.parse_args()
    every = {
        "real": lambda: list(tables(wanted.folder)),
        "sklearn": lambda: list(sklearn_tables()),
        "made up": lambda: list(made_up_tables(np.random.default_rng(1))),
    }
    chosen = [table for which in wanted.which for table in every[which]()]
    tops = list[bool]()
    print("records epsilon question          error  declared  ratio  unclipped  half width  held %  outside %, worst")
    for records, epsilon in product(wanted.records, wanted.epsilon):
        runs = [
            run
            for number, (table, wide) in enumerate(product(chosen * wanted.runs, TOO_WIDE))
            for run in measure(table, wide, records, epsilon, [number, records, int(10 * epsilon), 60])
        ]
        tops += [run.false_top for run in runs if run.question == "E(x)"]
        for question in QUESTIONS:
            own = [run for run in runs if run.question == question]
            if own:
                errors = np.median([run.errors for run in own], axis=0)
                rest = (np.median([run.unclipped for run in own]), np.median([run.half for run in own]),
                        100 * np.mean([run.held for run in own]))  # fmt: skip
                outside = [100 * run.outside for run in own]
                print(f"{records:7} {epsilon:7} {question:17} {errors[0]:6.3f} {errors[1]:9.3f} "
                      f"{errors[0] / errors[1]:6.2f} {rest[0]:10.3f} {rest[1]:11.3f} {rest[2]:7.0f} "
                      f"{np.median(outside):6.2f} {max(outside):6.2f}  ({len(own)})", flush=True)  # fmt: skip
    print(f"{sum(tops)} false tops of {len(tops)}")


if __name__ == "__main__":
    main()
