"""`ComputeParameters`, `D-Ind` and Algorithm 1 of Chowdhury, Rekatsinas and Jha (ICML 2020), as printed.

These are baselines for simulations, not what the package offers: see `discreet.allocated` for that. The noise is
continuous, seeded and in floating point; the guarantee is ADD_REMOVE in exact arithmetic, and Algorithm 1 samples its
first stage by independent coins (under REPLACE both cost more, at most twice as much).

Printed, and kept here: two tables for each node, T over its family and T_pa over its parents, although T_pa cancels out
of every estimate; weights W that hold no data, because the "sensitivity" of equation (7) is a constant of the graph; a
merge of probabilities with weights linear in epsilon. `tables=1` measures only T, with the whole budget.

Left out: line 6 of the procedure, mutual consistency. It is asked of tables M that hold conditional probabilities, for
which agreement has no meaning; `chowdhury.both_forms` has D-Ind with the step, in another reading of M.

Guards, where the paper divides by noisy counts and says nothing: cells below 0 count as 0; T_pa below 1 counts as 1 (it
cancels); a row without a positive cell is uniform; a root has no T_pa, so T gets its whole budget; in equation (12)
counts below 1 count as 1, and the count of a row is the sum of its cells in T, so counted ("T^[x_pa] in T^_i").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

import discreet as dc

__all__ = [
    "Codes",
    "Estimate",
    "Measured",
    "TwoStage",
    "algorithm_1",
    "allocation",
    "as_runs",
    "compute_parameters",
    "d_ind",
    "estimated_error",
    "importance",
    "influence",
    "influence_as_printed",
    "normalised",
    "parameter_error",
    "sampled",
]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

Measured = Literal[1, 2]
"""Tables for each node: 2 as printed (T and T_pa, half of the budget each), 1 for T alone."""


# ------------------------------------------------------------------------------------------ the procedure


@dataclass(frozen=True, eq=False)
class Estimate:
    """What `ComputeParameters` returns, for many runs at once.

    Args:
        theta: probabilities, shape `(*parents, child, runs)`.
        cells: noisy T of each node, same shape; unit: records, of any sign.
        totals: noisy T_pa of each node, shape `(*parents, runs)`; for roots, and where one table is measured, sums of
            `cells`.
        scales: of the Laplace noise in each node's cells, shape (runs,) or (1,); unit: records.
    """

    theta: dc.Tables
    cells: dc.Tables
    totals: Mapping[str, Floats]
    scales: Mapping[str, Floats]


def as_runs(tables: dc.Tables) -> dict[str, Floats]:
    """Tables with a last axis of length 1, which serves every run."""
    return {node: np.asarray(table, np.float64)[..., None] for node, table in tables.items()}


def compute_parameters(
    network: dc.Network,
    counts: Mapping[str, Floats],
    budgets: Mapping[str, npt.ArrayLike],
    runs: int,
    rng: np.random.Generator,
    *,
    tables: Measured = 2,
) -> Estimate:
    """Procedure 1: `M = (T / T_pa) / sum_v (T / T_pa)`, which is each row's conditional distribution.

    Args:
        network: public.
        counts: family counts, shape `(*parents, child, runs)` or `(*parents, child, 1)`.
        budgets: E, epsilon of each node; a number, or shape (runs,).
        runs: independent repetitions.
        rng: source of the noise.
        tables: measured for each node.

    Returns:
        The estimates.

    Guarantee:
        `sum_i E[i]` under ADD_REMOVE, in exact arithmetic; none here, the noise is seeded.

    Source:
        Chowdhury, Rekatsinas and Jha (ICML 2020), Procedure 1; the guards are in the module's docstring.
    """
    theta, noisy, totals, scales = {}, {}, {}, {}
    for node in network.nodes:
        halved = tables == 2 and bool(network.parents[node])
        scale = np.atleast_1d((2 if halved else 1) / np.asarray(budgets[node], np.float64))
        cells = counts[node] + scale * rng.laplace(size=(*network.shape(node), runs))
        if halved:
            rows = counts[node].sum(axis=-2) + scale * rng.laplace(size=(*network.shape(node)[:-1], runs))
        else:
            rows = cells.sum(axis=-2)
        theta[node] = normalised(np.maximum(cells, 0) / np.maximum(rows, 1)[..., None, :])
        noisy[node], totals[node], scales[node] = cells, rows, scale
    return Estimate(dc.Tables(network, theta, draws=runs), dc.Tables(network, noisy, draws=runs), totals, scales)


def normalised(cells: Floats) -> Floats:
    """Rows divided by their sums, shape `(*parents, child, runs)`; negative cells count as 0, empty rows as uniform."""
    kept = np.maximum(cells, 0)
    rows = kept.sum(axis=-2, keepdims=True)
    return np.where(rows > 0, kept / np.where(rows > 0, rows, 1), 1 / cells.shape[-2])


def d_ind(
    counts: dc.results.Counts, epsilon: float, runs: int, rng: np.random.Generator, *, tables: Measured = 2
) -> dc.Tables:
    """The baseline `D-Ind`: every node gets `epsilon / nodes`.

    Args:
        counts: of made-up or public records.
        epsilon: of the whole, ADD_REMOVE, nats.
        runs, rng, tables: as in `compute_parameters`.

    Returns:
        Probabilities, shape `(*parents, child, runs)`.
    """
    network = counts.network
    budgets = dict.fromkeys(network.nodes, epsilon / len(network.nodes))
    return compute_parameters(network, as_runs(counts.tables), budgets, runs, rng, tables=tables).theta


# ------------------------------------------------------------------------------------------ the allocation


def estimated_error(theta: dc.Tables, cells: Mapping[str, Floats], totals: Mapping[str, Floats]) -> dict[str, Floats]:
    """Equation (12): the mean over a node's cells of `theta sqrt(1 / T[pa]^2 + 1 / T[x, pa]^2)`.

    Args:
        theta: probabilities, shape `(*parents, child, runs)`.
        cells: noisy counts, same shape; below 1 they count as 1.
        totals: of each row, shape `(*parents, runs)`; below 1 they count as 1.

    Returns:
        For each node, shape (runs,).
    """
    errors = {}
    for node in theta:
        one = np.maximum(cells[node], 1)
        rows = np.maximum(totals[node], 1)[..., None, :]
        relative = theta[node] * np.sqrt(1 / rows**2 + 1 / one**2)
        errors[node] = relative.mean(axis=tuple(range(relative.ndim - 1)))
    return errors


def influence(network: dc.Network, node: str) -> float:
    """Equation (7) in closed form: the mean over children of `1 / states`, divided by the node's rows; 0 for leaves.

    Summed over y, `dP[Y = y] / dTheta[x | pa]` is P[pa] whatever the probabilities are.
    """
    children = network.children(node)
    if not children:
        return 0.0
    return float(np.mean([1 / network.schema[child].size for child in children])) / network.cells(network.parents[node])


def influence_as_printed(theta: dc.Tables, node: str, *, keep_own_factor: bool = False) -> float:
    """Equation (7) from the derivatives of all children's marginals, by summing out the whole joint.

    Args:
        theta: probabilities, without draws; of few nodes, the joint is written down.
        node: whose parameters are varied.
        keep_own_factor: multiply each derivative by `Theta[x | pa]` itself, as the product of (8) is printed; the
            paper's own example leaves it out.

    Returns:
        Delta of the node.
    """
    network = theta.network
    axes = {name: position for position, name in enumerate(network.nodes)}
    per_child = []
    for child in network.children(node):
        factors = [name for name in network.nodes if name in network.ancestors([child]) and name != node]
        operands = [part for name in factors for part in (theta[name], [axes[each] for each in network.family(name)])]
        kept = [axes[name] for name in network.family(node)]
        derivative = np.einsum(*operands, [*kept, axes[child]])
        if keep_own_factor:
            derivative = derivative * theta[node][..., None]
        per_child.append(derivative.sum(axis=-1) / network.schema[child].size)
    return float(np.mean(per_child, axis=0).mean()) if per_child else 0.0


def importance(network: dc.Network) -> dict[str, float]:
    """Equation (11): W of each node, `(height + 1) (out-degree + 1) (Delta + 1)`; public, no data in it."""
    return {
        node: (network.heights[node] + 1) * (network.out_degree(node) + 1) * (influence(network, node) + 1)
        for node in network.nodes
    }


def allocation(weights: Mapping[str, npt.ArrayLike], epsilon: float) -> dict[str, Floats]:
    """Equation (13): budgets that minimise `sum_i weight_i / epsilon_i`, proportional to the roots of the weights.

    Args:
        weights: `W[i] delta_i`, greater than 0; numbers, or shape (runs,).
        epsilon: sum of the budgets.

    Returns:
        Budgets by node. The printed form multiplies all but one of the inverse roots and overflows on larger networks.
    """
    roots = {node: np.sqrt(np.asarray(weight, np.float64)) for node, weight in weights.items()}
    total = np.sum(list(roots.values()), axis=0)
    return {node: np.asarray(epsilon * root / total) for node, root in roots.items()}


# ------------------------------------------------------------------------------------------ Algorithm 1


@dataclass(frozen=True, eq=False)
class TwoStage:
    """What Algorithm 1 computes, for many runs at once.

    Args:
        theta: the printed merge of both stages, shape `(*parents, child, runs)`.
        first: estimates from the sample.
        second: estimates from all records.
        budgets: E* of each node, shape (runs,).
    """

    theta: dc.Tables
    first: Estimate
    second: Estimate
    budgets: Mapping[str, Floats]


def sampled(
    network: dc.Network, codes: Mapping[str, Codes], probability: float, runs: int, rng: np.random.Generator
) -> dict[str, Floats]:
    """Family counts of samples in which each record takes part by a coin of its own, the same for all its tables.

    Args:
        network: whose families are counted.
        codes: for every node positions of states, shape (records,).
        probability: of each record to be in a sample.
        runs: independent samples.
        rng: source of the coins.

    Returns:
        Counts, shape `(*parents, child, runs)`.
    """
    position = {name: column for column, name in enumerate(network.nodes)}
    kinds, records = np.unique(np.stack([codes[name] for name in network.nodes]), axis=1, return_counts=True)
    kept = rng.binomial(records[:, None], probability, (len(records), runs)).astype(np.float64)
    tables = {node: np.zeros((*network.shape(node), runs)) for node in network.nodes}
    for node, table in tables.items():
        np.add.at(table, tuple(kinds[position[name]] for name in network.family(node)), kept)
    return tables


def algorithm_1(
    network: dc.Network,
    codes: Mapping[str, Codes],
    epsilon: float,
    runs: int,
    rng: np.random.Generator,
    *,
    share: float = 0.1,
    sampling: float = 0.1,
    tables: Measured = 2,
    totals: Literal["cells", "parents"] = "cells",
) -> TwoStage:
    """Algorithm 1 with the paper's `epsilon_I = 0.1 epsilon_B` and `beta = 0.1`.

    Args:
        network: public.
        codes: made-up or public records, positions of states, shape (records,) for every node.
        epsilon: epsilon_B, ADD_REMOVE, nats.
        runs: independent repetitions.
        rng: source of coins and noise.
        share: epsilon_I / epsilon_B.
        sampling: beta; 1 for no sampling.
        tables: as in `compute_parameters`.
        totals: where equation (12) takes the count of a row from: "cells", sums of T, or "parents", T_pa.

    Returns:
        Both stages and the printed merge.

    Guarantee:
        epsilon under ADD_REMOVE, in exact arithmetic (Theorem 3.1); none here, the noise is seeded.

    Source:
        Chowdhury, Rekatsinas and Jha (ICML 2020), Algorithm 1 and equations (7) and (11) to (13).
    """
    nodes = len(network.nodes)
    before = np.log1p(np.expm1(share * epsilon) / sampling)
    everything = as_runs(dc.tools.count_codes(network, codes).tables)
    seen = everything if sampling == 1 else sampled(network, codes, sampling, runs, rng)
    even = dict.fromkeys(network.nodes, before / nodes)
    first = compute_parameters(network, seen, even, runs, rng, tables=tables)
    if totals == "cells":
        rows = {node: np.maximum(cells, 1).sum(axis=-2) for node, cells in first.cells.items()}
    else:
        rows = dict(first.totals)
    errors, weights = estimated_error(first.theta, first.cells, rows), importance(network)
    budgets = allocation({node: weights[node] * errors[node] for node in network.nodes}, (1 - share) * epsilon)
    second = compute_parameters(network, everything, budgets, runs, rng, tables=tables)
    early = share * epsilon / nodes
    merged = {
        node: (early * first.theta[node] + budgets[node] * second.theta[node]) / (early + budgets[node])
        for node in network.nodes
    }
    return TwoStage(dc.Tables(network, merged, draws=runs), first, second, budgets)


def parameter_error(theta: dc.Tables, reference: Mapping[str, Floats]) -> Floats:
    """`sum |dTheta|` over the cells of a node, averaged over the nodes, for each run.

    Args:
        theta: probabilities, shape `(*parents, child, runs)`.
        reference: probabilities, shape `(*parents, child, 1)`.

    Returns:
        Shape (runs,).
    """
    each = [np.abs(cells - reference[node]) for node, cells in theta.items()]
    return np.asarray(np.mean([error.sum(axis=tuple(range(error.ndim - 1))) for error in each], axis=0))
