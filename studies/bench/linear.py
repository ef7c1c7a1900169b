"""Intervals of linear regression from noisy second moments: `python -m bench.linear [--quick]`.

Features follow an autoregression (correlation 1/2 between neighbours, deviation 0.4, clipped to [-1, 1]), coefficients
have length 0.5 in a random direction, the residual has deviation 0.15, and an intercept is 0.1 where there is one. A
release is simulated with the noise of `discreet.designs.readers.linear`; the default posterior (`normal_draws`) stands
beside the exact one (`moment_draws`), which is refused where noise is large, and the naive one, which takes the noisy
sums for exact (eigenvalues raised to a hundredth of the records if they are less).

Each row: coverage of 95 % intervals of all coefficients and their mean width; mean squared error of the default
posterior's mean on the records, beside those of least squares without noise and of predicting 0; the share of runs that
have an exact posterior, and its seconds. Under ADD_REMOVE the number of records is one of the noisy values.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.designs.design import GRID_STEPS
from discreet.designs.readers.linear import RegressionSums, SumLayout, moment_draws, unpack
from discreet.designs.readers.weight_posterior import normal_draws
from experiments.regressions import covered, pack, taken_for_exact

Floats = npt.NDArray[np.float64]

RESIDUAL = 0.15
DRAWS = 1000


@dataclass(frozen=True)
class Cell:
    """A setting: features p, records, whether there is an intercept, relation, epsilon (nats)."""

    features: int
    records: int
    intercept: bool
    relation: dc.Relation
    epsilon: float

    @property
    def scale(self) -> float:
        """Of the noise: a record moves each value by at most 1, a replaced one by at most 2."""
        return (2 if self.relation is dc.Relation.REPLACE else 1) / self.epsilon

    @property
    def public_records(self) -> int | None:
        """Their number, where it is public."""
        return self.records if self.relation is dc.Relation.REPLACE else None


def made_up(cell: Cell, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Features with their constant, shape (n, d); target; true coefficients, shape (d,)."""
    p, n = cell.features, cell.records
    theta = rng.normal(size=p)
    theta *= 0.5 / np.linalg.norm(theta)
    correlation = 0.5 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    x = np.clip(0.4 * rng.normal(size=(n, p)) @ np.linalg.cholesky(correlation).T, -1, 1)
    if cell.intercept:
        x, theta = np.column_stack([x, np.ones(n)]), np.append(theta, 0.1)
    return x, np.clip(x @ theta + RESIDUAL * rng.normal(size=n), -1, 1), theta


def released(cell: Cell, values: Floats) -> dc.designs.NoisyMoments:
    """The same sums as a release has them."""
    features = tuple(dc.Variable(f"x{at}", bounds=(-1, 1)) for at in range(cell.features))
    design = dc.designs.Design(features, dc.Variable("y", bounds=(-1, 1)), None, cell.intercept)
    steps = np.rint(values * GRID_STEPS**2).astype(np.int64)
    return dc.designs.NoisyMoments(design, steps, cell.scale * GRID_STEPS**2, cell.public_records is None)


def run(cell: Cell, seed: int) -> dict[str, float]:
    """One made-up data set, its release and the posteriors."""
    rng = np.random.default_rng([seed, cell.features])
    x, y, theta = made_up(cell, rng)
    exact = RegressionSums(np.array(float(len(y))), x.T @ x, x.T @ y, np.array(y @ y))
    layout = SumLayout(cell.features, cell.intercept, cell.public_records)
    values = pack(exact, layout)
    values += rng.gamma(values.size + 1, cell.scale) * rng.uniform(-1, 1, values.size)
    readings = {
        "": normal_draws(released(cell, values), cell.public_records, DRAWS, rng)[0],
        "naive ": taken_for_exact(unpack(values, layout), DRAWS, rng),
    }
    start = time.perf_counter()
    try:
        readings["exact "] = moment_draws(values, layout, scale=cell.scale, prior_deviation=1.0, draws=DRAWS, rng=rng)[
            0
        ]
    except dc.InputError:
        readings["exact "] = np.full((DRAWS, len(theta)), math.nan)
    result = {"seconds": time.perf_counter() - start, "exact": float(np.isfinite(readings["exact "]).all())}
    for name, draws in readings.items():
        coverage, width = covered(draws, theta)
        result |= {f"{name}coverage": coverage if math.isfinite(width) else math.nan, f"{name}width": width}
    result["mse"] = float(np.mean((y - x @ readings[""].mean(0)) ** 2))
    result["mse least squares"] = float(np.mean((y - x @ np.linalg.solve(x.T @ x, x.T @ y)) ** 2))
    result["mse of 0"] = float(np.mean(y**2))
    return result


def mean_of_known(values: list[float]) -> float:
    """The mean of what is a number; NaN if nothing is."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def row(cell: Cell, runs: int) -> str:
    """Averages over runs, one line of a Markdown table."""
    found = [run(cell, seed) for seed in range(runs)]
    mean = {key: mean_of_known([one[key] for one in found]) for key in found[0]}
    error = float(np.std([one["coverage"] for one in found]) / np.sqrt(runs))
    columns = [
        f"{cell.features}, {cell.records}",
        "yes" if cell.intercept else "no",
        str(cell.relation),
        f"{cell.epsilon:g}",
        f"{100 * mean['coverage']:.1f} +- {100 * error:.1f}",
        f"{mean['width']:.4f}",
        f"{100 * mean['exact']:.0f}",
        f"{100 * mean['exact coverage']:.1f}",
        f"{mean['exact width']:.4f}",
        f"{mean['seconds']:.1f}",
        f"{100 * mean['naive coverage']:.0f}",
        f"{mean['naive width']:.4f}",
        f"{mean['mse']:.4f}",
        f"{mean['mse least squares']:.4f}",
        f"{mean['mse of 0']:.4f}",
    ]
    return f"| {' | '.join(columns)} |"


HEAD = (
    "p, n|intercept|relation|epsilon|coverage %|width|exact for %|its coverage|its width|its s|naive coverage|"
    "naive width|MSE|least squares|of 0"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the small problem, three runs, epsilon 1 and 10")
    parser.add_argument("--runs", type=int, default=12, help="data sets for each row")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[10, 3, 1, 0.3, 0.1])
    parser.add_argument("--sizes", nargs="+", default=["3,2000", "14,37000"], help="features,records")
    parser.add_argument("--relations", nargs="+", type=dc.Relation, default=dc.tools.RECORD_RELATIONS)
    parser.add_argument("--intercepts", nargs="+", choices=["no", "yes"], default=["no", "yes"])
    options = parser.parse_args(arguments)
    if options.quick:
        options.runs, options.epsilon, options.sizes = 3, [10, 1], ["3,2000"]
    columns = HEAD.split("|")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for size, intercept, relation, epsilon in product(
        options.sizes, options.intercepts, options.relations, options.epsilon
    ):
        features, records = (int(part) for part in size.split(","))
        print(row(Cell(features, records, intercept == "yes", relation, epsilon), options.runs), flush=True)


if __name__ == "__main__":
    main()
