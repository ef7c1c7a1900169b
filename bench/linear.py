"""Intervals of linear regression from noisy second moments: `python -m bench.linear [--quick]`.

Features follow an autoregression (correlation 1/2 between neighbours, deviation 0.4, clipped to [-1, 1]), coefficients
have length 0.5 in a random direction, the residual has deviation 0.15, and an intercept is 0.1 where there is one. A
release is simulated with the noise of `discreet.posterior.design.linear`; its posterior (`moment_draws`) stands beside
the naive one, which takes the noisy sums for exact (eigenvalues raised to a hundredth of the records if they are less).

Each row: coverage of 95 % intervals of all coefficients and their mean width; mean squared error of the posterior mean
on the records, beside those of the estimate without draws, of least squares without noise and of predicting 0; the
median of the effective numbers, and seconds. Under ADD_REMOVE the number of records is one of the noisy values.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from experiments.regressions import taken_for_exact

import discreet as dc
from discreet.model.design import GRID_STEPS
from discreet.posterior.design.linear import Layout, Moments, moment_draws, pack, unpack
from discreet.posterior.design.moment_normal import normal_estimate

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
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


def released(cell: Cell, values: Floats) -> dc.kinds.NoisyMoments:
    """The same sums as a release has them."""
    features = tuple(dc.Variable(f"x{at}", bounds=(-1, 1)) for at in range(cell.features))
    design = dc.Design(features, dc.Variable("y", bounds=(-1, 1)), None, cell.intercept)
    steps = np.rint(values * GRID_STEPS**2).astype(np.int64)
    return dc.kinds.NoisyMoments(design, steps, cell.scale * GRID_STEPS**2, cell.public_records is None)


def run(cell: Cell, seed: int) -> dict[str, float]:
    """One made-up data set, its release and the posteriors."""
    rng = np.random.default_rng([seed, cell.features])
    x, y, theta = made_up(cell, rng)
    exact = Moments(np.array(float(len(y))), x.T @ x, x.T @ y, np.array(y @ y))
    layout = Layout(cell.features, cell.intercept, cell.public_records)
    values = pack(exact, layout)
    values += rng.gamma(values.size + 1, cell.scale) * rng.uniform(-1, 1, values.size)
    start = time.perf_counter()
    found = moment_draws(values, layout, scale=cell.scale, prior_deviation=1.0, draws=DRAWS, rng=rng)
    seconds = time.perf_counter() - start
    effective = DRAWS if found.mixing is None else min(DRAWS, found.mixing.effective)
    result = {"seconds": seconds, "effective": effective, "nuts": float(found.method == "nuts")}
    for name, draws in (("", found.weights), ("naive ", taken_for_exact(unpack(values, layout), DRAWS, rng))):
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        result[f"{name}coverage"] = float(np.mean((low <= theta) & (theta <= high)))
        result[f"{name}width"] = float(np.mean(high - low))
    result["mse"] = float(np.mean((y - x @ found.weights.mean(0)) ** 2))
    quick = normal_estimate(released(cell, values), cell.public_records)
    result["mse estimate"] = float(np.mean((y - x @ quick) ** 2))
    result["mse least squares"] = float(np.mean((y - x @ np.linalg.solve(x.T @ x, x.T @ y)) ** 2))
    result["mse of 0"] = float(np.mean(y**2))
    return result


def row(cell: Cell, runs: int) -> str:
    """Averages over runs, one line of a Markdown table."""
    found = [run(cell, seed) for seed in range(runs)]
    mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
    error = float(np.std([one["coverage"] for one in found]) / np.sqrt(runs))
    columns = [
        f"{cell.features}, {cell.records}",
        "yes" if cell.intercept else "no",
        str(cell.relation),
        f"{cell.epsilon:g}",
        f"{100 * mean['coverage']:.1f} +- {100 * error:.1f}",
        f"{mean['width']:.4f}",
        f"{100 * mean['naive coverage']:.0f}",
        f"{mean['naive width']:.4f}",
        f"{mean['mse']:.4f}",
        f"{mean['mse estimate']:.4f}",
        f"{mean['mse least squares']:.4f}",
        f"{mean['mse of 0']:.4f}",
        f"{100 * mean['nuts']:.0f}",
        f"{np.median([one['effective'] for one in found]):.0f}",
        f"{np.median([one['seconds'] for one in found]):.1f}",
    ]
    return f"| {' | '.join(columns)} |"


HEAD = (
    "p, n|intercept|relation|epsilon|coverage %|width|naive coverage|naive width|MSE|estimate|least squares|of 0|"
    "NUTS %|effective|s"
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
