"""The error of noisy tables, carried to a query: exactly to first order, beside the bounds that were printed.

For planning, with public or assumed numbers: an error computed from private tables is private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference.elimination import joint, log_probability
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.theory.checks import not_negative

__all__ = ["query_deviation", "query_gradient", "sum_product_bounds"]

Floats = npt.NDArray[np.float64]

GRADIENT_CELLS = 50_000_000
"""Most entries of the tables that are differentiated at once: 400 MB."""


def query_gradient(theta: Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> dict[str, Floats]:
    """Derivative of `P(targets | evidence)` by every cell of every row, rows divided by their sums.

    P(targets, evidence) is linear in each row, so its derivative by a cell is its value with the row replaced by that
    cell's certainty, less its value: exact, also where probabilities are 0.

    Args:
        theta: probabilities, without draws; rows sum to 1.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        By node: d P / d e at e = 0 where a row is `(theta + e) / sum(theta + e)`; shape
        `(*family, *sizes of the targets)`. Nodes that do not matter have zeros.

    Raises:
        InputError: tables with draws, impossible evidence, or a network that is too large.

    Source:
        Delta method in place of Chowdhury et al. (ICML 2020), equations (7) and (8), whose "sensitivity" is a constant;
        Darwiche (2003) for the polynomial.
    """
    network = theta.network
    if theta.draws is not None:
        raise InputError("the gradient is taken at one table of probabilities, without draws")
    if not targets or len(set(targets)) != len(targets) or set(targets) & set(evidence):
        raise InputError("a query needs at least one target, each named once and none of them evidence")
    if any(not 0 <= code < network.schema[name].size for name, code in evidence.items()):
        raise InputError("the code of an observed state must be at least 0 and less than its variable's states")
    above = network.ancestors((*targets, *evidence))
    nodes = [node for node in network.nodes if node in above]
    cells = {node: math.prod(network.shape(node)) for node in nodes}
    if sum(cells.values()) * max(cells.values()) > GRADIENT_CELLS:
        raise InputError(f"{sum(cells.values()):,} cells bear on the query, too many to differentiate; ask for less")
    base = Tables(network, lambda node: theta[node][..., None], draws=1)
    value = joint(base, targets, evidence)
    if not np.all(np.isfinite(value)):
        raise InputError("the evidence is impossible under these probabilities")
    log_evidence = log_probability(base, evidence)
    gradient = {}
    for node in network.nodes:
        shape = (*network.shape(node), *value.shape[:-1])
        if node not in above:
            gradient[node] = np.zeros(shape)
            continue
        certain = _with_certain_cells(theta, node)
        # (P(t, e) - P(t | e) P(e)) / P(e) with the certain row; the terms without it cancel.
        weight = np.exp(log_probability(certain, evidence) - log_evidence)
        change = np.where(weight > 0, weight * (np.nan_to_num(joint(certain, targets, evidence)) - value), 0)
        gradient[node] = np.moveaxis(change, -1, 0).reshape(shape)
    return gradient


def _with_certain_cells(theta: Tables, node: str) -> Tables:
    """Draws of the tables: one for each cell of a node, in which that cell is certain in its row."""
    shape = theta.network.shape(node)
    draws = math.prod(shape)

    def table(name: str) -> Floats:
        array: Floats = np.repeat(theta[name].astype(np.float64)[..., None], draws, axis=-1)
        if name == node:
            rows = array.reshape(-1, shape[-1], draws)
            for cell in range(draws):
                rows[cell // shape[-1], :, cell] = np.arange(shape[-1]) == cell % shape[-1]
        return array

    return Tables(theta.network, table, draws=draws)


def query_deviation(
    theta: Tables, variances: Mapping[str, npt.ArrayLike], targets: Sequence[str], evidence: Mapping[str, int]
) -> Floats:
    """Standard deviation of `P(targets | evidence)` from independent errors in the cells of the tables, to first order.

    Args:
        theta: probabilities, without draws; rows sum to 1.
        variances: by node, of the error of each cell before its row is divided by its sum; shape of the node's table.
            For noise of variance s2 on counts, `s2 / N^2` in a row of N records.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        Shape `(*sizes of the targets)`. First order: errors must be small beside the probabilities that matter, and
        counts that were cut at 0 are biased besides.

    Raises:
        InputError: as for `query_gradient`, or variances that do not fit or are negative.

    Source:
        Delta method; computes what Chowdhury et al. (ICML 2020), Theorems 4.1 and 4.2, bound (`sum_product_bounds`).
    """
    network = theta.network
    given = Tables(network, variances)
    for node in network.nodes:
        if not (np.all(given[node] >= 0) and np.all(np.isfinite(given[node]))):
            raise InputError(f"variances of {node!r} must be finite and at least 0")
    gradient = query_gradient(theta, targets, evidence)
    total = np.zeros(tuple(network.schema[name].size for name in targets))
    for node in network.nodes:
        total += np.tensordot(given[node].ravel(), gradient[node].reshape(given[node].size, *total.shape) ** 2, axes=1)
    return np.sqrt(total)


def sum_product_bounds(
    network: Network, smallest_error: float, largest_error: float, smallest_factor: float
) -> tuple[float, float]:
    """Printed bounds on the error of one step of variable elimination, for comparison with `query_deviation`.

    `sqrt(eta - 1) delta_min phi_min^(eta - 2)` and `2 eta d^kappa delta_max`; eta is the largest degree plus 1, kappa
    the treewidth (here the min-fill width, at least as large), d the most states of a variable.

    Args:
        network: public.
        smallest_error: delta_min over the cells of all factors, at least 0.
        largest_error: delta_max.
        smallest_factor: phi_min, least entry of a factor, at least 0.

    Returns:
        (lower, upper). The lower one is no bound: it was proved for one instance; signed errors can cancel to 0, and as
        a standard deviation a step of three binary factors of 1/2 has 0.61 delta where 0.71 delta is printed. The upper
        one is for one step, so errors of earlier steps must be put into it, and is mostly far above 1.

    Raises:
        InputError: a negative number, or no arc.

    Source:
        Chowdhury et al. (ICML 2020), Theorems 4.1 and 4.2; their proofs are not public.
    """
    not_negative(smallest_error=smallest_error, largest_error=largest_error, smallest_factor=smallest_factor)
    eta = 1 + max(network.in_degree(node) + network.out_degree(node) for node in network.nodes)
    if eta < 2:
        raise InputError("the bounds are for networks with at least one arc")
    lower = math.sqrt(eta - 1) * smallest_error * smallest_factor ** (eta - 2)
    states = max(variable.size for variable in network.variables)
    return lower, 2 * eta * float(states) ** network.treewidth * largest_error
