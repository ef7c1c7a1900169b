"""The tables of `bench.estimators`, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.pages import markdown

from .estimator_peers import METHODS

__all__ = ["OF_KIND", "report", "report_coverage"]

OF_KIND = {"logistic": ("error", "log loss"), "linear": ("R2",)}
"""Scores."""
POINTS = {"error": 1.0, "log loss": 100.0, "R2": 100.0}
"""Of a unit: per cent, and hundredths."""
WORSE = 2.0
"""Points by which a fit may be worse than a constant before it is counted."""

# ------------------------------------------------------------------------------------------ predictions


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """What predictions were worth.

    Args:
        rows: of `bench.estimators.measure`.

    Returns:
        By kind and score: means, who is better, regret, and who refused.
    """
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
                parts += [*_tails(here[(here["score"] == score) & here["value"].notna()], score)]
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


def _tails(frame: pd.DataFrame, score: str) -> Iterable[str]:
    """Single fits of each private method: losses to the fit without privacy, and how many are worse than a constant."""
    lines = []
    for (name, epsilon), group in frame.groupby(["set", "epsilon"], sort=False):
        of = {method: values["value"].to_numpy() for method, values in group.groupby("method", observed=True)}
        for method, values in of.items():
            if METHODS[str(method)].private and len(values) > 1 and "exact" in of and "constant" in of:
                losses = [_loss(score, value, of["exact"].mean()) for value in values]
                line = _loss(score, of["constant"].mean(), of["exact"].mean()) + WORSE
                shown = (np.median(losses), np.quantile(losses, 0.9), max(losses))
                worse = f"{sum(loss > line for loss in losses)} of {len(losses)}"
                lines.append([str(name), f"{epsilon:g}", str(method), *(f"{each:.1f}" for each in shown), worse])
    if lines:
        yield f"Single fits, points behind the fit without privacy; worse than a constant by {WORSE:g} points:\n"
        yield markdown(["set", "epsilon", "", "median", "90 %", "worst", "worse"], lines) + "\n"


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


def report_coverage(rows: Sequence[Mapping[str, Any]]) -> str:
    """What intervals held.

    Args:
        rows: of `bench.estimators.cover`.

    Returns:
        A row for each set and epsilon, and what was refused.
    """
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
