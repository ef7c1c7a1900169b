"""How well numbers are known from their bins: laws inside bins on real and made-up columns, and cover of intervals.

Errors are of exact shares of the bins, in standard deviations of the column, so that they are of the law alone; columns
that a binning leaves fewer than three bins are left out of it. Cover is of releases with simulated noise. Columns that
are made up have a long tail, but for the normal one.

    python -m bench.numbers FOLDER      the folder with `adult.data.gz` and `pima-indians-diabetes.csv`
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator

import discreet as dc
from discreet.inference.bin_laws import BinLaw

__all__ = ["BINNINGS", "Column", "cover", "errors", "made_up", "real"]

Floats = npt.NDArray[np.float64]

SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
LEVEL = 0.95
QUESTIONS = ("E(x)", "median(x)", "quantile(x, 0.9)", "P(x > {})")


class Column(NamedTuple):
    """Numbers, and the variable that they are values of, without bins."""

    values: Floats
    variable: dc.Variable


def real(folder: Path) -> Iterator[Column]:
    """Numeric columns of two public tables, with bounds that nobody read off them."""
    with gzip.open(folder / "adult.data.gz", "rt", encoding="utf-8") as file:
        adult = [row for row in csv.reader(file, skipinitialspace=True) if row]
    with open(folder / "pima-indians-diabetes.csv", encoding="utf-8") as file:
        pima = list(csv.reader(file))
    for rows, columns in ((adult, ADULT), (pima, PIMA)):
        for at, (name, high, kind) in columns.items():
            yield Column(np.array([float(row[at]) for row in rows]), dc.Variable(name, bounds=(0, high), type=kind))


ADULT = {
    0: ("age", 120, "integer"), 2: ("weight", 1_500_000, "integer"), 4: ("education", 20, "integer"),
    10: ("gain", 100_000, "integer"), 11: ("loss", 5_000, "integer"), 12: ("hours", 100, "integer"),
}  # fmt: skip
PIMA = {
    0: ("pregnancies", 20, "integer"), 1: ("glucose", 250, "integer"), 2: ("pressure", 150, "integer"),
    3: ("skin", 100, "integer"), 4: ("insulin", 1_000, "integer"), 5: ("mass", 80, "real"),
    6: ("pedigree", 3, "real"), 7: ("years", 120, "integer"),
}  # fmt: skip


def made_up(rng: np.random.Generator, n: int = 100_000) -> Iterator[Column]:
    """Laws that are cut to their bounds."""
    for name, high, values in (
        ("lognormal", 5_000, rng.lognormal(6, 0.6, n)),
        ("exponential", 100, rng.exponential(10, n)),
        ("pareto", 100, rng.pareto(1.5, n)),
        ("normal", 100, rng.normal(50, 10, n)),
    ):
        yield Column(values[(values >= 0) & (values <= high)], dc.Variable(name, bounds=(0, high)))


def _of_one_share(column: Column) -> dc.Variable:
    """Five bins of about one share: not public, but what a good guess of cuts comes to."""
    name, (low, high) = column.variable.name, column.variable.bounds or (0.0, 0.0)
    cuts = np.unique(np.ceil(np.quantile(column.values, np.arange(1, 5) / 5) * 1000) / 1000)
    kept = tuple(cut for cut in (np.ceil(cuts) if column.variable.type == "integer" else cuts) if low < cut < high)
    return dc.Variable(name, bounds=(low, high), bins=tuple(dict.fromkeys(kept)), type=column.variable.type)


def _binned(number: int, ratio: float = 1.0) -> Callable[[Column], dc.Variable]:
    """So many bins, each so much wider than the last."""

    def cut(column: Column) -> dc.Variable:
        variable = column.variable
        return dc.Variable.binned(variable.name, variable.bounds or (0, 1), number, type=variable.type, ratio=ratio)

    return cut


BINNINGS = {
    "10 of one width": _binned(10),
    "20 of one width": _binned(20),
    "5 of one share": _of_one_share,
    "7 of doubled width": _binned(7, 2),
}


def errors(column: Column, variable: dc.Variable, law: str) -> tuple[float, float]:
    """Error of the mean, and mean error of seven quantiles, in standard deviations."""
    shares = np.histogram(column.values, variable.edges)[0] / len(column.values)
    deviation, wanted = column.values.std(), np.quantile(column.values, SHARES)
    if law == "cubic":
        grid = np.concatenate([np.linspace(*pair, 2001)[:-1] for pair in pairwise(variable.edges)])
        grid = np.append(grid, variable.edges[-1])
        below = np.maximum.accumulate(PchipInterpolator(variable.edges, np.append(0, np.cumsum(shares)))(grid))
        mean = grid[-1] - np.trapezoid(below, grid) - 0.5 * (variable.type == "integer")
        found = grid[np.minimum(np.searchsorted(below, SHARES), len(grid) - 1)]
        found = np.floor(found) if variable.type == "integer" else found
    else:
        own = BinLaw.of_bins(variable, shares[:, None], law)  # type: ignore[arg-type]
        mean, found = own.mean()[0], np.array([own.quantile(share)[0] for share in SHARES])
    return abs(mean - column.values.mean()) / deviation, float(np.abs(found - wanted).mean() / deviation)


def cover(
    columns: list[Column], cut: Callable[[Column], dc.Variable], runs: int, rng: np.random.Generator, *, own: bool
) -> dict[str, tuple[float, float, float]]:
    """How often 95 % intervals of 1,000 records at epsilon 1 hold the truth.

    Args:
        columns: whose records are drawn with replacement.
        cut: makes their bins.
        runs: of each column.
        rng: source of randomness.
        own: whether records are drawn from the stated law of the bins, instead of the column.

    Returns:
        By question: cover of the interval of all laws, of that of the stated one, and the median ratio of their
            lengths.
    """
    held: dict[str, list[tuple[bool, bool, float]]] = {question: [] for question in QUESTIONS}
    for column in columns:
        variable = cut(column)
        variable = dc.Variable("x", bounds=variable.bounds, bins=variable.bins, type=variable.type)
        network = dc.Network((variable,), {"x": ()})
        shares = np.histogram(column.values, variable.edges)[0] / len(column.values)
        law, number = BinLaw.of_bins(variable, shares[:, None]), float(np.median(column.values))
        truths = _truths(column.values, number) if not own else _stated(law, number)
        for _ in range(runs):
            counts = rng.multinomial(1000, shares)
            release = dc.simulate(
                dc.planned(), dc.tools.count_codes(network, {"x": np.repeat(np.arange(variable.size), counts)}),
                dc.Dirichlet.uniform(network), PROMISE, rng=rng,
            )  # fmt: skip
            posterior = dc.noise_aware(release, draws=400, rng=rng)
            for question, truth in zip(QUESTIONS, truths, strict=True):
                (row,) = dc.answer(posterior, question.format(number), level=LEVEL).rows
                low, high, first, last = (float(row[end]) for end in ("lower", "upper", "law_lower", "law_upper"))  # type: ignore[arg-type]
                ratio = (high - low) / max(last - first, 1e-12)
                held[question].append((low <= truth <= high, first <= truth <= last, ratio))
    return {
        question: (float(np.mean([one[0] for one in each])), float(np.mean([one[1] for one in each])),
                   float(np.median([one[2] for one in each])))
        for question, each in held.items()
    }  # fmt: skip


PROMISE = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")


def _truths(values: Floats, number: float) -> tuple[float, ...]:
    """Answers of a column."""
    return (values.mean(), *np.quantile(values, (0.5, 0.9), method="inverted_cdf"), (values > number).mean())


def _stated(law: BinLaw, number: float) -> tuple[float, ...]:
    """Answers of a law."""
    return (law.mean()[0], law.quantile(0.5)[0], law.quantile(0.9)[0], law.above(number, inclusive=False)[0][0])


def main() -> None:
    """Print both studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=40)
    asked = parser.parse_args()
    rng = np.random.default_rng(1)
    groups = {"real": list(real(asked.folder)), "made up": list(made_up(rng))}
    for binning, cut in BINNINGS.items():
        for group, columns in groups.items():
            for law in ("log-linear", "cubic", "uniform"):
                cuts = [(column, cut(column)) for column in columns]
                found = np.array([errors(*pair, law) for pair in cuts if pair[1].size > 2]).mean(axis=0)
                print(f"{binning:20} {group:8} {law:11} mean {found[0]:.3f}  quantiles {found[1]:.3f}", flush=True)
    for group, columns in groups.items():
        for own in (True, False):
            for question, (wide, narrow, ratio) in cover(columns, _binned(10), asked.runs, rng, own=own).items():
                source = "the stated law" if own else "the column"
                print(f"{group:8} {source:15} {question:17} {wide:.3f} {narrow:.3f} {ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
