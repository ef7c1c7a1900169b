"""Algorithm 1 of Chowdhury, Rekatsinas and Jha (ICML 2020) taken apart: its variants, and what its formulas give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.inference.exact_laws import Laws

from .d_ind import (
    Codes,
    Measured,
    TwoStage,
    algorithm_1,
    allocation,
    as_runs,
    d_ind,
    estimated_error,
    importance,
    normalised,
)

__all__ = [
    "COLUMNS",
    "EPSILONS",
    "EXAMPLE",
    "LATER",
    "RECORDS",
    "REFERENCE",
    "SAMPLING",
    "SCHEME",
    "SHARE",
    "UNIFORM",
    "UNSAMPLED",
    "UNSAMPLED_WEIGHTED",
    "WEIGHTED",
    "empirical",
    "merged_by_variance",
    "relative_noise",
    "replacing_costs",
    "shares_from_counts",
    "variants",
]

Floats = npt.NDArray[np.float64]

RECORDS = 10_000
EPSILONS = (1, 3)
COLUMNS: Sequence[tuple[Measured, int]] = ((2, 1), (2, 3), (1, 1), (1, 3))
"""(tables for each node, epsilon) of the reference values."""
SAMPLING = 0.1
SHARE = 0.1
"""epsilon_I / epsilon_B."""

REFERENCE: Mapping[str, tuple[float, float, float, float]] = {
    "uniform budget (D-Ind)": (0.168, 0.090, 0.120, 0.054),
    "eq. 13, sampling, printed merge (Algorithm 1)": (0.181, 0.081, 0.107, 0.049),
    "eq. 13, sampling, inverse-variance merge": (0.156, 0.065, 0.091, 0.034),
    "eq. 13, no sampling, printed merge": (0.184, 0.073, 0.110, 0.039),
    "eq. 13, no sampling, inverse-variance merge": (0.184, 0.073, 0.103, 0.034),
    "eq. 13, no sampling, stage I discarded": (0.187, 0.066, 0.099, 0.032),
}
"""Errors of each variant in one sample of 10,000 records, 400 runs; one value for each of `COLUMNS`."""
UNIFORM, SCHEME, WEIGHTED, UNSAMPLED, UNSAMPLED_WEIGHTED, LATER = REFERENCE

_BINARY = tuple(dc.Variable(name, ("0", "1")) for name in "ABCDEF")
EXAMPLE = dc.Network(_BINARY, {"A": (), "B": (), "C": ("A", "B"), "D": ("C",), "E": ("C",), "F": ("D", "E")})
"""Figure 1 of the paper."""


# ------------------------------------------------------------------------------------------ variants


def merged_by_variance(stages: TwoStage, sampling: float) -> dc.Tables:
    """Noisy counts of both stages, weighted by the inverse variances of their noise, then divided by row sums.

    Args:
        stages: of Algorithm 1.
        sampling: beta; counts of the first stage are divided by it.

    Returns:
        Probabilities, shape `(*parents, child, runs)`. That a sample's counts vary is left out of the weights.
    """
    first, second = stages.first, stages.second
    merged = {}
    for node in stages.theta:
        early, late = (sampling / first.scales[node]) ** 2, second.scales[node] ** -2.0
        merged[node] = normalised((early * first.cells[node] / sampling + late * second.cells[node]) / (early + late))
    return dc.Tables(stages.theta.network, merged, draws=stages.theta.draws)


def variants(
    network: dc.Network, codes: Mapping[str, Codes], tables: Measured, epsilon: int, runs: int, rng: np.random.Generator
) -> dict[str, dc.Tables]:
    """Probabilities under every variant of the reference table; those that differ in the merge share their noise."""
    simple = d_ind(dc.tools.count_codes(network, codes), epsilon, runs, rng, tables=tables)
    sparse = algorithm_1(network, codes, epsilon, runs, rng, tables=tables, share=SHARE, sampling=SAMPLING)
    full = algorithm_1(network, codes, epsilon, runs, rng, tables=tables, share=SHARE, sampling=1)
    found = (
        simple,
        sparse.theta,
        merged_by_variance(sparse, SAMPLING),
        full.theta,
        merged_by_variance(full, 1),
        full.second.theta,
    )
    return dict(zip(REFERENCE, found, strict=True))


def empirical(counts: dc.results.Counts) -> dict[str, Floats]:
    """Relative frequencies in the sample: what would be released without noise; shape `(*parents, child, 1)`."""
    return {node: normalised(table) for node, table in as_runs(counts.tables).items()}


# ------------------------------------------------------------------------------------------ formulas


def shares_from_counts(theta: dc.Tables, records: float) -> dict[str, float]:
    """Equation (13) from expected counts instead of noisy ones: the share of the budget of each node.

    Args:
        theta: probabilities of the network.
        records: how many are expected.

    Returns:
        Shares that sum to 1.
    """
    network = theta.network
    single = dc.Tables(network, as_runs(theta), draws=1)
    cells = {node: records * Laws(single).joint(network.family(node)) for node in network.nodes}
    errors = estimated_error(single, cells, {node: table.sum(axis=-2) for node, table in cells.items()})
    weights = importance(network)
    found = allocation({node: weights[node] * errors[node] for node in network.nodes}, 1)
    return {node: float(share[0]) for node, share in found.items()}


def relative_noise(epsilon: float, sampling: float) -> float:
    """Scale of the first stage's noise for each record of the whole data that a count of the sample stands for.

    Args:
        epsilon: epsilon_I, nats, of one table.
        sampling: beta.

    Returns:
        `1 / (beta ln(1 + (e^epsilon - 1) / beta))`; `1 / epsilon` without sampling, and more with it.
    """
    return float(1 / (sampling * np.log1p(np.expm1(epsilon) / sampling)))


def replacing_costs(epsilon: float, share: float, sampling: float) -> float:
    """What Algorithm 1 costs under REPLACE, where its noise is that of ADD_REMOVE.

    Args:
        epsilon: epsilon_B, nats.
        share: epsilon_I / epsilon_B.
        sampling: beta, by independent coins.

    Returns:
        Nats; the second stage costs twice its budget, the first `ln((1 - b + b e^E) / (1 - b + b e^-E))` with the
        epsilon E of its noise before sampling.
    """
    before = np.log1p(np.expm1(share * epsilon) / sampling)
    first = np.log((1 - sampling + sampling * np.exp(before)) / (1 - sampling + sampling * np.exp(-before)))
    return float(2 * (1 - share) * epsilon + first)
