"""Private logistic and linear regression beside peers in the same run: `python -m bench.estimators [--quick]`.

Each set of `bench.estimator_sets` is one table with one split; a method of `bench.estimator_peers` is fitted anew for
each seed, with fresh noise, and predicts the test records. Ours run by their public classes and default options; their
noise has no seed, that of the others has. Printed are error (%) and log loss, or R2, mean +- standard error over seeds;
how often ours is better, level or worse than each peer by more than two standard errors; regret to the fit without
privacy, averaged over sets; in how many cells the mean is as good as that of every peer, or better; and the largest
loss to the best peer at epsilon 1 and above. Points are per cent, and hundredths of a nat or of R2. An R2 below -1
counts as -1, so that a peer without a floor does not hide behind its own spread. Log losses are of probabilities moved
into [1e-6, 1 - 1e-6].

The default relation is the one that diffprivlib keeps: under `--relation add-remove` ours and the peers written here
have half the noise, and it has not.

`--coverage` draws new records of known coefficients for each seed and says how often 95 % intervals of the slopes, from
`sample_posterior(draws)` and its `rows`, hold them; widths, and errors of `coef_` and of the posterior's mean, are for
one deviation of a column. *What is seen* of a linear set are the slopes of least squares on the clipped columns, which
differ from the truth where much is clipped or the target is contaminated. `--results FILE` keeps what is done, so that
a run can be taken up again; what was refused or failed is tried again, and other `--option`s need another file.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import discreet as dc

from . import estimator_sets as sets
from .estimator_peers import DELTA, METHODS, OPTIONS, estimator_of, missing_methods
from .estimator_sets import Task
from .estimator_tables import OF_KIND, report, report_coverage

__all__ = ["cover", "main", "measure", "scores"]

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
COVERAGE_EPSILONS = (0.3, 1.0, 3.0, 10.0)
LOWEST = -1.0
"""An R2 below counts as this."""
NEAREST = 1e-6
"""To 0 and 1 that a probability may be."""
LEVEL = 0.95


# ------------------------------------------------------------------------------------------ predictions


def scores(task: Task, predicted: Floats) -> dict[str, Floats]:
    """What is printed of predictions, one for each seed.

    Args:
        task: the set.
        predicted: shape (seeds, test records).

    Returns:
        By name, shape (seeds,): error in % and log loss in nats, or R2.
    """
    y = task.scaled_target(task.test)
    if task.kind == "linear":
        spread = np.mean((y - task.scaled_target(task.train).mean()) ** 2)
        return {"R2": np.maximum(1 - np.mean((predicted - y) ** 2, axis=1) / spread, LOWEST)}
    held = np.clip(predicted, NEAREST, 1 - NEAREST)
    return {
        "error": 100 * np.mean((predicted > 0.5) != (y > 0.5), axis=1),
        "log loss": -np.mean(np.log(np.where(y > 0.5, held, 1 - held)), axis=1),
    }


def measure(task: Task, method: str, epsilon: float, relation: str, seeds: Sequence[int]) -> list[Row]:
    """Runs of one method on one set.

    Args:
        task: the set.
        method: of `METHODS`.
        epsilon: nats.
        relation: that is asked for; a method that has its own keeps it.
        seeds: of runs.

    Returns:
        A row for each seed and score; one with `why` where the method refused or failed.
    """
    row: Row = {"kind": task.kind, "set": task.name, "method": method, "epsilon": epsilon, "relation": relation}
    begun = time.process_time()
    try:
        with np.errstate(all="ignore"):
            predicted = METHODS[method].run(task, epsilon, relation, seeds)
    except Exception as error:
        return [{**row, "seed": seeds[0], "score": OF_KIND[task.kind][0], "value": math.nan, "why": _why(error)}]
    spent = (time.process_time() - begun) / len(predicted)
    return [
        {**row, "seed": seed, "score": score, "value": float(value), "seconds": spent}
        for score, values in scores(task, predicted).items()
        for seed, value in zip(seeds, values, strict=False)
    ]


def _why(error: Exception) -> str:
    """A refusal's own words, or where a failure was."""
    if isinstance(error, dc.InputError):
        return f"refused: {error}"
    if isinstance(error, subprocess.CalledProcessError):
        said = error.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        return f"failed: {said[-1]}"
    return f"failed: {traceback.format_exception_only(error)[-1].strip()}"


# ------------------------------------------------------------------------------------------ intervals


def cover(task: Task, epsilon: float, delta: float, relation: str, seed: int, draws: int) -> Row:
    """A fit and its intervals.

    Args:
        task: whose slopes are known.
        epsilon: nats.
        delta: of the guarantee.
        relation: "add-remove" or "replace".
        seed: of the posterior's draws, and the row's.
        draws: of the posterior.

    Returns:
        Means over the columns: `held` (share), `seen held` (of `seen_slopes`), and for one deviation of a column
        `width`, `error` (of `coef_`) and `mean error` (of the posterior's mean); CPU seconds; or `why`.
    """
    assert task.truth is not None
    row: Row = {"kind": task.kind, "set": task.name, "epsilon": epsilon, "delta": delta, "relation": relation}
    row["seed"], begun = seed, time.process_time()
    deviations, y = task.X.std(axis=0), task.y.astype(int) if task.kind == "logistic" else task.y
    try:
        fitted = estimator_of(task, epsilon, delta, relation, random_state=seed).fit(task.X, y)
        row["error"] = float(np.mean(np.abs(np.ravel(fitted.coef_) - task.truth) * deviations))
        row["fit seconds"] = time.process_time() - begun
        posterior = fitted.sample_posterior(draws)
        rows = posterior.rows(level=LEVEL)[: task.features]
        row["method"] = posterior.method
    except Exception as error:
        return {**row, "why": _why(error)}
    lower, upper, mean = (np.array([one[key] for one in rows]) for key in ("lower", "upper", "mean"))
    row["held"] = float(np.mean((lower <= task.truth) & (task.truth <= upper)))
    if task.kind == "linear":
        seen = sets.seen_slopes(task.name)
        row["seen held"] = float(np.mean((lower <= seen) & (seen <= upper)))
    row["width"] = float(np.mean((upper - lower) * deviations))
    row["mean error"] = float(np.mean(np.abs(mean - task.truth) * deviations))
    row["seconds"] = time.process_time() - begun
    return row


# ------------------------------------------------------------------------------------------ the run


def _known(results: Path | None) -> list[Row]:
    """What a file of results has, but for what is to be tried again."""
    if results is None or not results.is_file():
        return []
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if "why" not in row]


def _keep(results: Path | None, rows: Iterable[Row]) -> None:
    """Add to it."""
    if results is not None:
        with results.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def _predictions(asked: argparse.Namespace) -> str:
    """All runs of predictions that were asked for."""
    rows = [row for row in _known(asked.results) if "score" in row and row["relation"] == asked.relation]
    done = {(row["kind"], row["set"], row["method"], row["epsilon"], row["seed"]) for row in rows}
    lacking, absent = missing_methods(), sets.missing_tables()
    for name, reason in (*lacking.items(), *absent.items()):
        print(f"left out: {name}: {reason}")
    for kind in asked.kinds:
        make, names = (sets.logistic, sets.LOGISTIC_SETS) if kind == "logistic" else (sets.linear, sets.LINEAR_SETS)
        for name in (name for name in asked.sets or names if name in names and name not in absent):
            for epsilon in asked.epsilons:
                for method in (one for one in asked.methods if one not in lacking and kind in METHODS[one].kinds):
                    seeds = asked.seeds if METHODS[method].private else asked.seeds[:1]
                    place = (kind, name, method, epsilon)
                    left = [seed for seed in seeds if (*place, seed) not in done]
                    if left:
                        found = measure(make(name), method, epsilon, asked.relation, left)
                        _keep(asked.results, found)
                        rows += found
            if asked.verbose:
                print(f"done: {kind} {name}", flush=True)
    return report(rows) if rows else "nothing to report"


def _coverage(asked: argparse.Namespace) -> str:
    """All runs of intervals that were asked for."""
    rows = [row for row in _known(asked.results) if "score" not in row and row["relation"] == asked.relation]
    done = {(row["kind"], row["set"], row["epsilon"], row["delta"], row["seed"]) for row in rows}
    for kind in asked.kinds:
        names = sets.COVERAGE_SETS[kind]
        for name in (name for name in asked.sets or names if name in names):
            for epsilon in asked.epsilons:
                for seed in asked.seeds:
                    if (kind, name, epsilon, asked.delta, seed) in done:
                        continue
                    task = sets.coverage_set(kind, name, seed)
                    found = cover(task, epsilon, asked.delta, asked.relation, seed, asked.draws)
                    _keep(asked.results, [found])
                    rows.append(found)
            if asked.verbose:
                print(f"done: {kind} {name}", flush=True)
    return report_coverage(rows) if rows else "nothing to report"


def _names(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", type=_names, default=list(OF_KIND), help="logistic,linear")
    parser.add_argument("--sets", type=_names, help="names with commas; all")
    parser.add_argument("--epsilons", type=_numbers)
    parser.add_argument("--methods", type=_split_methods, default=list(METHODS), help="names with semicolons; all")
    parser.add_argument("--relation", default="replace", help="of those that have none of their own")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="how many")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="the first of them")
    parser.add_argument("--coverage", action="store_true", help="intervals instead of predictions")
    parser.add_argument("--draws", type=int, default=400, help="of a posterior, for --coverage")
    parser.add_argument("--delta", type=float, default=0.0, help=f"of ours, for --coverage; peers have {DELTA:g}")
    parser.add_argument("--results", type=Path, help="JSON lines: runs that it has are not run again")
    parser.add_argument("--option", type=_option, action="append", default=[], help="of ours, NAME=JSON; repeatable")
    parser.add_argument("--verbose", action="store_true", help="say when a set is done")
    parser.add_argument("--quick", action="store_true", help="corr, skew and pima at epsilon 1, four seeds")
    asked = parser.parse_args(arguments)
    if asked.quick:
        asked.sets, asked.epsilons, asked.seeds = ["corr", "skew", "pima", "ar 4"], [1.0], 4
    if asked.epsilons is None:
        asked.epsilons = list(COVERAGE_EPSILONS if asked.coverage else EPSILONS)
    OPTIONS.update(asked.option)
    asked.seeds = list(range(asked.first, asked.first + asked.seeds))
    print(_coverage(asked) if asked.coverage else _predictions(asked))


def _option(text: str) -> tuple[str, Any]:
    """A name and a value."""
    name, value = text.split("=", 1)
    return name, json.loads(value)


def _split_methods(text: str) -> list[str]:
    """Names have commas of their own."""
    return [part.strip() for part in text.split(";")]


if __name__ == "__main__":
    main()
