"""Private logistic regression of many categories, in groups and not: `python -m bench.categories [--sets NAMES]`.

A set is ADULT with a label, or a table that is drawn from a network of DISCREET_DATA with one of its variables; a frame
of texts, of which 8,000 records are fitted and 4,000 predicted. *groups* and *groups, no curvature* declare the columns
as categories; *features* and the like pass an indicator of each state but the first, from 0 to 1, as the estimator
coded categories before it knew groups; *diffprivlib* has indicators of all states (`bench.estimator_peers`). Replacing
a record; log loss of probabilities moved into [1e-6, 1 - 1e-6], and error (%), mean +- standard error over seeds.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from discreet.formats.network_files import read_network

from .estimator_peers import METHODS, estimator_of, missing_methods
from .estimator_sets import ADULT_NUMBERS, Task, adult_rows
from .estimators import scores

__all__ = ["SETS", "drawn", "frame_of", "main"]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
FITTED, PREDICTED, DRAWN = 8000, 4000, 14_000
SETS = {
    "adult income": (14, ">50K"),
    "adult sex": (9, "Male"),
    "hailfinder": ("PlainsFcst", "XNIL"),
    "alarm": ("TPR", "NORMAL"),
}
"""Column, or variable, and its state that is predicted. The rule for the regularisation was set on the first, and on a
made-up set; the others were not looked at before."""


def drawn(name: str, records: int, seed: int = 5) -> pd.DataFrame:
    """Records of a network of DISCREET_DATA."""
    network = read_network(Path(os.environ["DISCREET_DATA"]) / "networks" / f"{name}.bif")
    states = {variable.name: variable.states for variable in network.variables}
    rng, codes = np.random.default_rng(seed), dict[str, Labels]()
    while len(codes) < len(states):
        for node in [node for node in states if node not in codes and set(network.parents[node]) <= set(codes)]:
            rows = network.arrays[node][tuple(codes[parent] for parent in network.parents[node])]
            steps = np.broadcast_to(rows, (records, len(states[node]))).cumsum(axis=1)[:, :-1]
            codes[node] = (rng.random((records, 1)) > steps).sum(axis=1)
    return pd.DataFrame({node: np.array(states[node])[codes[node]] for node in states})


def frame_of(name: str) -> tuple[pd.DataFrame, Labels]:
    """Columns of one of `SETS`, and labels."""
    target, state = SETS[name]
    if not name.startswith("adult"):
        frame = drawn(name, DRAWN)
        return frame.drop(columns=[target]), (frame[target] == state).to_numpy(np.int64)
    rows = np.array(adult_rows())
    numbers = {f"n{at}": rows[:, at].astype(float) for at in ADULT_NUMBERS if at in (0, 4, 12)}
    # Husbands and wives tell their sex.
    texts = {f"c{at}": rows[:, at] for at in (1, 3, 5, 6, 7, 8, 9, 13, 14) if at != target and (target, at) != (9, 7)}
    return pd.DataFrame(numbers | texts), (rows[:, int(target)] == state).astype(np.int64)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--seeds", type=int, default=10)
    asked = parser.parse_args()
    for name in asked.sets.split(","):
        frame, y = frame_of(name)
        ends = {column: ADULT_NUMBERS[int(column[1:])] for column in frame if frame[column].dtype.kind == "f"}
        bounds = {column: ends.get(column) or tuple(sorted(frame[column].unique())) for column in frame}
        bounds = {column: told for column, told in bounds.items() if column in ends or len(told) > 1}
        every, fewer = (_task(name, frame, bounds, y, first) for first in (0, 1))
        print(
            f"{name}: {len(ends)} numbers, {len(bounds) - len(ends)} categories of {every.features - len(ends)} states"
        )
        for epsilon in map(float, asked.epsilons.split(",")):
            for curvature in (True, False):
                called = "" if curvature else ", no curvature"
                for told, given in (("groups", frame[list(bounds)]), ("features", pd.DataFrame(fewer.X))):
                    found = []
                    for seed in range(asked.seeds):
                        options = {"bounds": bounds if told == "groups" else fewer.bounds, "curvature": curvature}
                        made = estimator_of(fewer, epsilon, 0.0, "replace", random_state=seed, **options)
                        made.fit(given.iloc[every.train], y[every.train])
                        found.append(made.predict_proba(given.iloc[every.test])[:, 1])
                    _print(every, epsilon, told + called, np.array(found))
            if "diffprivlib" not in missing_methods():
                _print(every, epsilon, "diffprivlib",
                       METHODS["diffprivlib"].run(every, epsilon, "replace", range(asked.seeds)))  # fmt: skip


def _task(name: str, frame: pd.DataFrame, bounds: dict[str, tuple[float, float]], y: Labels, first: int) -> Task:
    """Indicators of the states from some on, beside the numbers."""
    parts, ends = [], list[tuple[float, float]]()
    for column, told in bounds.items():
        values = frame[column].to_numpy()[:, None]
        numeric = values.dtype.kind == "f"
        parts.append(values if numeric else (values == np.array(told[first:], object)).astype(float))
        ends += [told] if numeric else [(0.0, 1.0)] * parts[-1].shape[1]
    order = np.random.default_rng(11).permutation(len(y))
    lower, upper = np.array(ends, float).T
    nothing = dict.fromkeys(("target_bounds", "truth", "intercept"))
    return Task(name, "logistic", np.hstack(parts), y.astype(float), (lower, upper), (0, 1), **nothing,
                train=order[:FITTED], test=order[-PREDICTED:])  # fmt: skip


def _print(task: Task, epsilon: float, method: str, predicted: Floats) -> None:
    """A line of the table."""
    told = scores(task, predicted)
    shown = (f"{key} {part.mean():.3f} +- {part.std() / len(part) ** 0.5:.3f}" for key, part in told.items())
    print(f"{task.name:13} eps {epsilon:<4g} {method:24} {'  '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
