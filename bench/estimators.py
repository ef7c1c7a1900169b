"""Private logistic and linear regression beside peers in the same run: `python -m bench.estimators [--quick]`.

Each set of `bench.estimator_sets` is one table with one split; a method of `bench.estimator_peers` is fitted anew for
each seed, with fresh noise, and predicts the test records. Ours run by their public classes and default options; their
noise has no seed, that of the others has. Printed are error (%) and log loss, or R2, mean +- standard error over seeds;
how often ours is better, level or worse than each peer by more than two standard errors; regret to the fit without
privacy, averaged over sets; in how many cells the mean is as good as that of every peer, or better; and the largest
loss to the best peer at epsilon 1 and above. Points are per cent, and hundredths of a nat or of R2. An R2 below -1
counts as -1, so that a peer without a floor does not hide behind its own spread. Log losses are of probabilities moved
into [1e-6, 1 - 1e-6].

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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from experiments.pages import markdown

import discreet as dc

from . import estimator_sets as sets
from .estimator_peers import DELTA, METHODS, OPTIONS, estimator_of, missing_methods
from .estimator_sets import Task

__all__ = ["cover", "main", "measure", "report", "report_coverage"]

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
COVERAGE_EPSILONS = (0.3, 1.0, 3.0, 10.0)
LOWEST = -1.0
"""An R2 below counts as this."""
NEAREST = 1e-6
"""To 0 and 1 that a probability may be."""
POINTS = {"error": 1.0, "log loss": 100.0, "R2": 100.0}
"""Points of a unit: per cent, and hundredths."""
OF_KIND = {"logistic": ("error", "log loss"), "linear": ("R2",)}
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


# ------------------------------------------------------------------------------------------ tables


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """Tables of what `measure` found, in Markdown."""
    parts = []
    frame = pd.DataFrame(rows)
    frame["method"] = pd.Categorical(frame["method"], list(METHODS), ordered=True)
    for kind, names in OF_KIND.items():
        here = frame[frame["kind"] == kind]
        if here.empty:
            continue
        methods = [name for name in METHODS if name in set(here["method"])]
        parts.append(f"# {kind.capitalize()} regression\n")
        parts += [f"* {name}: {_promise(name, here)}" for name in methods]
        for score in names:
            cells = _cells(here[(here["score"] == score) & here["value"].notna()])
            if cells:
                parts += ["", f"## {score}{' (%)' if score == 'error' else ''}\n", _table(cells, methods, score)]
                parts += ["", *_summary(cells, methods, score)]
        if "why" in here:
            failed = here[here["why"].notna()].groupby(["method", "why"], observed=True)
            parts += ["", *(f"* {method}, {_places(group)}: {why}" for (method, why), group in failed)]
        parts.append("")
    return "\n".join(parts)


Cells = dict[tuple[str, float], dict[str, tuple[float, float]]]
"""By set and epsilon, by method: mean and its standard error."""


def _cells(frame: pd.DataFrame) -> Cells:
    """Means over seeds."""
    cells: Cells = {}
    for (name, epsilon, method), group in frame.groupby(["set", "epsilon", "method"], sort=False, observed=True):
        values = group["value"].to_numpy()
        error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
        cells.setdefault((name, epsilon), {})[method] = (float(values.mean()), error)
    return cells


def _promise(name: str, frame: pd.DataFrame) -> str:
    """What a method promises, and what a fit costs."""
    method, here = METHODS[name], frame[frame["method"] == name]
    if not method.private:
        return "no privacy"
    relation = method.relation or "/".join(sorted(set(here["relation"])))
    seconds = here["seconds"].median() if "seconds" in here else math.nan
    cost = "" if math.isnan(seconds) or method.relation else f"; {seconds:.2f} CPU s a fit (median)"
    return f"epsilon{f' and delta {method.delta:g}' if method.delta else ', delta 0'}, {relation}, record{cost}"


def _digits(score: str) -> int:
    return 1 if score == "error" else 3


def _table(cells: Cells, methods: Sequence[str], score: str) -> str:
    """A row for each set and epsilon; the best private method's number is bold."""
    lines = []
    for (name, epsilon), found in cells.items():
        private = {method: found[method][0] for method in found if METHODS[method].private}
        best = (max if score == "R2" else min)(private.values()) if private else math.nan
        line = [name, f"{epsilon:g}"]
        for method in methods:
            if method not in found:
                line.append("-")
                continue
            mean, error = found[method]
            text = f"{mean:.{_digits(score)}f}"
            text = f"**{text}**" if method in private and mean == best else text
            line.append(f"{text} ± {error:.{_digits(score)}f}" if METHODS[method].private else text)
        lines.append(line)
    return markdown(["set", "epsilon", *methods], lines)


def _loss(score: str, ours: float, other: float) -> float:
    """By how much ours is worse, in points."""
    return POINTS[score] * (other - ours if score == "R2" else ours - other)


def _summary(cells: Cells, methods: Sequence[str], score: str) -> Iterable[str]:
    """Ours against peers, and regret."""
    epsilons = sorted({epsilon for _, epsilon in cells})
    peers = [name for name in methods if METHODS[name].private and not name.startswith("ours")]
    pairs = [
        (ours, peer)
        for ours in ("ours", "ours, delta")
        for peer in peers
        if ours in methods
        and (ours == "ours" or METHODS[peer].delta)
        and any(ours in found for found in cells.values())
    ]
    lines = []
    for ours, peer in pairs:
        counts = [_counts(cells, epsilon, ours, peer, score) for epsilon in epsilons]
        lines.append([f"{ours} / {peer}", *("/".join(map(str, count)) for count in counts)])
    heads = [f"{epsilon:g}" for epsilon in epsilons]
    if lines:
        yield "Better / level / worse at two standard errors, sets by epsilon:\n"
        yield markdown(["", *heads], lines) + "\n"
    regrets = []
    for method in methods:
        if (METHODS[method].private or method == "constant") and any(method in found for found in cells.values()):
            losses = [_regrets(cells, epsilon, method, score) for epsilon in epsilons]
            regrets.append([method, *(f"{np.mean(loss):.2f} ({len(loss)})" if loss else "-" for loss in losses)])
    if regrets and "exact" in methods:
        yield "Regret to the fit without privacy, points, mean over sets (how many):\n"
        yield markdown(["", *heads], regrets) + "\n"
    if peers:
        yield from _against_all(cells, peers, score)


def _counts(cells: Cells, epsilon: float, ours: str, peer: str, score: str) -> tuple[int, int, int]:
    """(better, level, worse) sets."""
    signs = []
    for (_, at), found in cells.items():
        if at == epsilon and ours in found and peer in found:
            (a, sa), (b, sb) = found[ours], found[peer]
            loss, error = _loss(score, a, b), 2 * POINTS[score] * math.hypot(sa, sb)
            signs.append(0 if abs(loss) <= error else int(math.copysign(1, loss)))
    return signs.count(-1), signs.count(0), signs.count(1)


def _regrets(cells: Cells, epsilon: float, method: str, score: str) -> list[float]:
    """Of the sets that the method and the fit without privacy have."""
    return [
        _loss(score, found[method][0], found["exact"][0])
        for (_, at), found in cells.items()
        if at == epsilon and method in found and "exact" in found
    ]


def _against_all(cells: Cells, peers: Sequence[str], score: str) -> Iterable[str]:
    """Share of cells at or below every peer, and the largest loss from epsilon 1 on."""
    for ours in ("ours", "ours, delta"):
        rivals = [peer for peer in peers if ours == "ours" or METHODS[peer].delta]
        losses = {
            place: (max((_loss(score, found[ours][0], found[peer][0]), peer) for peer in rivals if peer in found))
            for place, found in cells.items()
            if ours in found and any(peer in found for peer in rivals)
        }
        if not losses:
            continue
        good, every = sum(loss <= 0 for loss, _ in losses.values()), len(losses)
        yield f"{ours}: as good as every peer, or better, in {good} of {every} cells ({100 * good / every:.0f} %)."
        late = {place: loss for place, loss in losses.items() if place[1] >= 1}
        if late:
            (name, epsilon), (loss, peer) = max(late.items(), key=lambda item: item[1][0])
            yield (
                f"Largest loss at epsilon 1 and above: {loss:.2f} points ({name}, epsilon {epsilon:g}, to {peer}).\n"
                if loss > 0
                else "No loss at epsilon 1 and above.\n"
            )


def _places(group: pd.DataFrame) -> str:
    """Where something was refused."""
    names = list(dict.fromkeys(group["set"]))
    epsilons = sorted(set(group["epsilon"]))
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f"{shown}; epsilon {', '.join(f'{epsilon:g}' for epsilon in epsilons)}"


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


def report_coverage(rows: Sequence[Mapping[str, Any]]) -> str:
    """A row for each set and epsilon, and what was refused, in Markdown."""
    frame = pd.DataFrame(rows)
    for name in ("held", "seen held", "width", "error", "mean error", "seconds", "why", "method"):
        if name not in frame:
            frame[name] = None if name in ("why", "method") else math.nan
    lines = []
    for (kind, name, epsilon, delta), group in frame.groupby(["kind", "set", "epsilon", "delta"], sort=False):
        read = group[group["held"].notna()]
        lines.append(
            [
                f"{kind} {name}",
                f"{epsilon:g}",
                f"{delta:g}",
                f"{len(read)} of {len(group)}",
                *(_share(read[column]) for column in ("held", "seen held")),
                *(_mean(group[column]) for column in ("width", "error", "mean error")),
                _mean(group["seconds"], 1),
                ", ".join(sorted(set(read["method"].dropna()))) or "-",
            ]
        )
    heads = [
        "set",
        "epsilon",
        "delta",
        "intervals",
        "coverage (%)",
        "of what is seen",
        "width",
        "error of coef_",
        "of the mean",
        "CPU s",
        "",
    ]
    table = markdown(heads, lines)
    failed = frame[frame["why"].notna()].groupby(["kind", "why"])
    return "\n".join([table, "", *(f"* {kind}, {_places(group)}: {why}" for (kind, why), group in failed)])


def _share(values: pd.Series) -> str:
    """Mean and standard error of those that are there, in %."""
    found = 100 * values.dropna().to_numpy(float)
    error = f" ± {found.std(ddof=1) / math.sqrt(len(found)):.1f}" if len(found) > 1 else ""
    return f"{found.mean():.1f}{error}" if len(found) else "-"


def _mean(values: pd.Series, digits: int = 3) -> str:
    """Of those that are there."""
    found = values.dropna()
    return f"{found.mean():.{digits}f}" if len(found) else "-"


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
