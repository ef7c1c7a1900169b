"""Baselines of `bench.utility`: D-Ind with and without mutual consistency, its errors on a grid, and the ICML scheme.

D-Ind is the uniform-budget baseline of Chowdhury, Rekatsinas and Jha (ICML 2020): T and T_pa of every node, noise
`Laplace(2 nodes / epsilon)` in both. `experiments.d_ind` has the procedure without its line 6, mutual consistency, and
says why: the printed tables M hold conditional probabilities. Here the step gets the kinder reading, M as the joint
probabilities `theta * T_pa / sum T_pa`, made consistent as in PriView (means weighted by the inverse of the number of
cells behind a margin, on all intersections of families, smallest first) and then non-negative at the same total.

Noise is seeded and in floating point; nothing here is a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from experiments import d_ind as printed

import discreet as dc
from discreet.sensitive.counts import cells_moved

from .errors import METRICS, Data, errors

__all__ = [
    "FORMS",
    "GRID",
    "consistent",
    "d_ind",
    "icml",
    "intersections",
    "on_grid",
    "projected",
]

Floats = npt.NDArray[np.float64]

GRID = tuple(float(epsilon) for epsilon in np.geomspace(0.03, 200, 20))
"""Epsilons at which D-Ind is measured."""
FORMS = ("dind", "dindc")
"""Without and with mutual consistency."""
FLOOR = 1e-9
"""Least probability of a cell before rows are normalised."""
REPEATS = 10
"""Repetitions of D-Ind for each run of the others, because its noise is in every ratio."""
REPEATED_CELLS = 200_000
"""Cells times repetitions, where the network is so large that this is less."""
CELLS_AT_ONCE = 4_000_000
"""Cells times runs that are worked on together; 32 MB for each copy."""


def d_ind(
    network: dc.Network, counts: Mapping[str, Floats], epsilons: npt.ArrayLike, runs: int, rng: np.random.Generator
) -> dict[str, dc.Tables]:
    """Both forms of D-Ind from the same noise.

    Args:
        network: public.
        counts: family counts of made-up records, shape `(*parents, child, 1)`.
        epsilons: of the whole under ADD_REMOVE, nats; a number, or shape (runs,).
        runs: independent repetitions.
        rng: source of the noise.

    Returns:
        By form, probabilities, shape `(*parents, child, runs)`.
    """
    budget = np.asarray(epsilons, np.float64) / len(network.nodes)
    # A root's T_pa is the number of records; with it, as with every other, goes half of the node's budget.
    budgets = {node: budget if network.parents[node] else budget / 2 for node in network.nodes}
    found = printed.compute_parameters(network, counts, budgets, runs, rng)
    joint = {}
    for node, theta in found.theta.items():
        rows = np.maximum(found.totals[node], 0) + FLOOR
        whole = rows.sum(axis=tuple(range(rows.ndim - 1)))
        joint[node] = theta * (rows / whole)[..., None, :] if network.parents[node] else theta
    agreed = consistent({network.family(node): table for node, table in joint.items()})
    tables = {
        "dind": found.theta,
        "dindc": {node: projected(agreed[network.family(node)]) for node in network.nodes},
    }
    return {form: dc.Tables(network, _rows(theta), draws=runs) for form, theta in tables.items()}


def on_grid(data: Data, relation: dc.Relation, runs: int, rng: np.random.Generator) -> dict[str, dict[str, Floats]]:
    """Errors of both forms of D-Ind at every epsilon of the grid.

    Args:
        data: made-up records.
        relation: under REPLACE D-Ind needs twice the noise.
        runs: independent values for each epsilon.
        rng: source of the noise.

    Returns:
        By form and name of the error, shape (epsilons, runs); means of a few independent repetitions.
    """
    network = data.truth.theta.network
    counts = printed.as_runs(data.counts.tables)
    cells = sum(table.size for table in counts.values())
    step, repeats = max(1, CELLS_AT_ONCE // cells), min(REPEATS, max(1, REPEATED_CELLS // cells))
    epsilons = np.repeat(GRID, runs * repeats) / cells_moved(relation)
    parts: dict[tuple[str, str], list[Floats]] = {}
    for start in range(0, epsilons.size, step):
        part = epsilons[start : start + step]
        for form, theta in d_ind(network, counts, part, part.size, rng).items():
            for metric, error in errors(data, theta).items():
                parts.setdefault((form, metric), []).append(error)
    shape = (len(GRID), runs, repeats)
    return {
        form: {metric: np.concatenate(parts[form, metric]).reshape(shape).mean(axis=-1) for metric in METRICS}
        for form in FORMS
    }


def icml(data: Data, epsilon: float, relation: dc.Relation, rng: np.random.Generator) -> dc.Tables:
    """One run of Algorithm 1 of Chowdhury et al. as printed, without mutual consistency; axes `(*parents, child)`."""
    network = data.truth.theta.network
    found = printed.algorithm_1(network, data.codes, epsilon / cells_moved(relation), 1, rng).theta
    return dc.Tables(network, {node: table[..., 0] for node, table in found.items()})


# ------------------------------------------------------------------------------------------ mutual consistency


def intersections(scopes: Iterable[Iterable[str]]) -> list[frozenset[str]]:
    """The empty set and all intersections of two or more of the scopes, smallest first."""
    whole = [frozenset(scope) for scope in scopes]
    new = {one & other for one, other in combinations(whole, 2)}
    found = {frozenset[str]()}
    while new:
        found |= new
        new = {one & other for one in new for other in whole} - found
    return sorted(found, key=lambda scope: (len(scope), sorted(scope)))


def consistent(tables: Mapping[tuple[str, ...], Floats]) -> dict[tuple[str, ...], Floats]:
    """Tables that agree on all their common margins, each changed as little as its share of the weight asks.

    Args:
        tables: by scope, one axis for each of its variables and a last axis of runs.

    Returns:
        Tables of the same shapes; cells of any sign.

    Source:
        Qardaji, Yang and Li (SIGMOD 2014), Section 4.4, mutual consistency on a set of views.
    """
    agreed = dict(tables)
    for common in intersections(tables):
        order = sorted(common)
        margins = {scope: _margin(table, scope, order) for scope, table in agreed.items() if common <= set(scope)}
        # A margin's cell is a sum of so many of the table's; its weight is the inverse.
        weights = {scope: margin[..., 0].size / agreed[scope][..., 0].size for scope, margin in margins.items()}
        mean = sum(weights[scope] * margin for scope, margin in margins.items()) / sum(weights.values())
        for scope, margin in margins.items():
            agreed[scope] = agreed[scope] + weights[scope] * _spread(mean - margin, scope, order)
    return agreed


def projected(table: Floats) -> Floats:
    """The nearest table without a negative cell and with the same total, for each run; uniform where that is not > 0.

    Args:
        table: any shape, the last axis is of runs.

    Returns:
        The same shape.
    """
    cells = table.reshape(-1, table.shape[-1])
    total = cells.sum(axis=0)
    falling = -np.sort(-cells, axis=0)
    shifts = (np.cumsum(falling, axis=0) - total) / np.arange(1, len(cells) + 1)[:, None]
    last = len(cells) - 1 - np.argmax((falling > shifts)[::-1], axis=0)
    kept = np.maximum(cells - np.take_along_axis(shifts, last[None], axis=0), 0)
    return np.where(total > 0, kept, 1 / len(cells)).reshape(table.shape)


def _margin(table: Floats, scope: Sequence[str], order: Sequence[str]) -> Floats:
    """Sums of cells, axes as in `order` and the runs."""
    summed = table.sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in order))
    kept = [name for name in scope if name in order]
    return summed.transpose([*(kept.index(name) for name in order), len(order)])


def _spread(margin: Floats, scope: Sequence[str], order: Sequence[str]) -> Floats:
    """A margin along the axes of a scope: length 1 where the margin has no such axis."""
    kept = [name for name in scope if name in order]
    placed = margin.transpose([*(order.index(name) for name in kept), len(order)])
    return np.expand_dims(placed, tuple(axis for axis, name in enumerate(scope) if name not in order))


def _rows(tables: Mapping[str, Floats]) -> dict[str, Floats]:
    """Floored and normalised rows."""
    floored = {node: np.maximum(table, FLOOR) for node, table in tables.items()}
    return {node: table / table.sum(axis=-2, keepdims=True) for node, table in floored.items()}
