"""Baselines of `bench.utility`: the errors of D-Ind on a grid of epsilons, and the scheme whose baseline it is.

Both are those of `experiments.chowdhury`: D-Ind with and without mutual consistency, and Algorithm 1 as printed, of
Chowdhury, Rekatsinas and Jha (ICML 2020). Noise is seeded and in floating point; nothing here is a release.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.records.count_sensitivity import cells_moved
from experiments import d_ind as printed
from experiments.chowdhury import FORMS, both_forms
from experiments.errors import METRICS, Data, errors

__all__ = ["GRID", "algorithm_1", "on_grid"]

Floats = npt.NDArray[np.float64]

GRID = tuple(float(epsilon) for epsilon in np.geomspace(0.03, 200, 20))
"""Epsilons at which D-Ind is measured."""
REPEATS = 10
"""Repetitions of D-Ind for each run of the others, because its noise is in every ratio."""
REPEATED_CELLS = 200_000
"""Cells times repetitions, where the network is so large that this is less."""
CELLS_AT_ONCE = 4_000_000
"""Cells times runs that are worked on together; 32 MB for each copy."""


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
        for form, theta in both_forms(network, counts, part, part.size, rng).items():
            for metric, error in errors(data, theta).items():
                parts.setdefault((form, metric), []).append(error)
    shape = (len(GRID), runs, repeats)
    return {
        form: {metric: np.concatenate(parts[form, metric]).reshape(shape).mean(axis=-1) for metric in METRICS}
        for form in FORMS
    }


def algorithm_1(data: Data, epsilon: float, relation: dc.Relation, rng: np.random.Generator) -> dc.Tables:
    """One run of Algorithm 1 as printed, without mutual consistency; axes `(*parents, child)`."""
    network = data.truth.theta.network
    found = printed.algorithm_1(network, data.codes, epsilon / cells_moved(relation), 1, rng).theta
    return dc.Tables(network, {node: table[..., 0] for node, table in found.items()})
