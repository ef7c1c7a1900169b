"""Budget ratios after Figure 2 of Chowdhury, Rekatsinas and Jha (ICML 2020), and what Algorithm 1 adds step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from .budget import Ratio, budget_ratio, geometric, left_out
from .chowdhury import EPSILONS, FORMS, NETWORKS
from .pages import Estimate, markdown
from .shipped import NO_PAIRS, SHIPPED

__all__ = [
    "COMPARED",
    "ENDS",
    "GRID",
    "PEER",
    "QUANTITIES",
    "STEPS",
    "Place",
    "common",
    "mean_table",
    "ratio_table",
    "ratios",
    "steps",
    "steps_table",
]

GRID = tuple(sorted({*np.geomspace(0.1, 100, 16).tolist(), *EPSILONS}))
"""Epsilons at which D-Ind is measured."""
ENDS = (1.0, 3.0)
QUANTITIES: Mapping[str, str] = {
    "cpt": "tables, L1",
    "marg": "marginals, L1",
    "cond": "conditionals, L1",
    "cpt-kl": "tables, KL",
    "marg-kl": "marginals, KL",
    "cond-kl": "conditionals, KL",
}
"""Errors that are printed, and how they are called here."""
COMPARED = ("Algorithm 1", "corrected", "Zhang's Laplace", SHIPPED, NO_PAIRS, "mbi", "noise-aware mean")
"""With D-Ind."""
PEER = "mbi"
STEPS: Mapping[str, tuple[str, str]] = {
    "the tenth that stage I takes": ("D-Ind", "even split of .9 epsilon"),
    "equation (13)'s split": ("even split of .9 epsilon", "stage II alone"),
    "the merge": ("stage II alone", "Algorithm 1"),
}
"""From D-Ind to Algorithm 1: what each adds, and the methods without and with it."""
NEAR_FLOOR = 1.1


Place = tuple[str, str, str, float]
"""Network, method, metric, epsilon."""


def ratios(frame: pd.DataFrame) -> dict[Place, Ratio]:
    """Budget ratios of every method that is compared, from the rows of one seed set.

    Args:
        frame: with columns network, method, metric, epsilon, repeat and value.

    Returns:
        One for each network, method, metric that is printed, and epsilon of `EPSILONS` that was measured.
    """
    shown = frame[frame["metric"].isin([*QUANTITIES])]
    tidy = shown.set_index(["network", "method", "metric", "epsilon", "repeat"])["value"].unstack("repeat").sort_index()
    found = {}
    for (network, name, metric, epsilon), row in tidy.iterrows():
        if name not in COMPARED:
            continue
        error = row.to_numpy(float)
        mine = np.isfinite(error)
        baseline = [tidy.loc[(network, form, metric)].to_numpy(float)[:, mine] for form in FORMS]
        logs, sign = budget_ratio(baseline, GRID, error[mine], epsilon)
        floor = tidy.loc[(network, "exact counts", metric, epsilon)].to_numpy(float)[mine].mean()
        near = error[mine].mean() <= NEAR_FLOOR * floor
        found[network, name, metric, epsilon] = Ratio(np.log(logs), "fl" if near else sign)
    return found


def common(found: Mapping[Place, Ratio], names: Sequence[str], metric: str) -> dict[str, list[Ratio]]:
    """Ratios of several methods on the same networks, at the same epsilons.

    Args:
        found: of `ratios`.
        names: of methods.
        metric: one of `QUANTITIES`.

    Returns:
        By method, ratios at those of `ENDS` and networks where each of them has a ratio that means something.
    """
    known = {place for place, cell in found.items() if cell.sign != "fl" and place[2] == metric}
    places = [
        (network, epsilon)
        for network in NETWORKS
        for epsilon in ENDS
        if all((network, name, metric, epsilon) in known for name in names)
    ]
    return {name: [found[network, name, metric, epsilon] for network, epsilon in places] for name in names}


def steps(frame: pd.DataFrame, metrics: Sequence[str]) -> dict[str, Estimate]:
    """What each of `STEPS` multiplies errors by at epsilon 1, geometric mean over networks and errors.

    Args:
        frame: with columns network, method, metric, epsilon, repeat and value.
        metrics: of `QUANTITIES`.

    Returns:
        Factors of the mean errors by step, with jackknife standard errors: the same repeat is left out of all networks.
    """
    part = frame[frame["metric"].isin(metrics) & (frame["epsilon"] == 1.0)]
    wide = part.pivot_table(index=["method", "network", "metric"], columns="repeat", values="value")
    logs = {name: np.log(left_out(rows.to_numpy(float))).mean(axis=0) for name, rows in wide.groupby("method")}
    return {
        step: geometric([Ratio(logs[having] - logs[without], "")]) for step, (without, having) in STEPS.items()
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ tables


def mean_table(found: Mapping[Place, Ratio], names: Sequence[str]) -> str:
    """Geometric means over common cells, with the range of those that are known at all."""
    each = {metric: common(found, names, metric) for metric in QUANTITIES}
    rows = []
    for name in names:
        row = [name]
        for cells in (each[metric][name] for metric in QUANTITIES):
            alone = [geometric([cell]) for cell in cells]
            known = [ratio.mean for ratio in alone if ratio.error < ratio.mean]
            span = f" ({min(known):.1f} to {max(known):.1f})" if known else ""
            row.append(f"{geometric(cells).text(2)}{span}" if cells else "-")
        rows.append(row)
    rows.append(["*networks and epsilons*", *(str(len(each[metric][names[0]])) for metric in QUANTITIES)])
    return markdown(["method", *QUANTITIES.values()], rows)


def steps_table(frame: pd.DataFrame) -> str:
    """Factors of each step, for all errors."""
    found = {metric: steps(frame, [metric]) for metric in QUANTITIES}
    rows = [[step, *(found[metric][step].text(2) for metric in QUANTITIES)] for step in STEPS]
    return markdown(["step", *QUANTITIES.values()], rows)


def ratio_table(found: Mapping[Place, Ratio], names: Sequence[str]) -> str:
    """Ratios at epsilon 1."""
    rows = [
        [name, network, *(found[network, name, metric, 1.0].text() for metric in QUANTITIES)]
        for name in names
        for network in NETWORKS
        if (network, name, "cpt", 1.0) in found
    ]
    return markdown(["method", "network", *QUANTITIES.values()], rows)
