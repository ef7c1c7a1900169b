"""Bounds of the papers that no user needs: expected divergence of rows, and errors of variable elimination as printed.

Those that users plan with are in `discreet.research.bounds`. A bound computed from private counts is private.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.util.number_checks import not_negative, positive

__all__ = [
    "mean_divergence",
    "sum_product_bounds",
]

Floats = npt.NDArray[np.float64]


def mean_divergence(theta: npt.ArrayLike, records: npt.ArrayLike, variance: float) -> Floats:
    """Expected KL of a row's probabilities from those of noisy counts: `s2 / (2 N^2) (sum_k 1 / theta_k - K)`.

    To second order in the noise; it needs counts several standard deviations above 0. Weighted with the rows' shares
    of the records and summed over a network it is the expected KL of the released joint, from which budgets follow as
    `epsilon_i ~ w_i^(1/3)`, w_i the sum over the rows of node i of `(sum_k 1 / theta_k - K) / N`.

    Args:
        theta: probabilities, greater than 0; the last axis is that of the K states.
        records: N of each row, greater than 0; shape of `theta` without its last axis.
        variance: s2 of the noise in each cell, records squared.

    Returns:
        Nats, one for each row.

    Raises:
        InputError: shapes that do not fit, or numbers that are not positive.

    Source:
        Replaces the refined mean of Zhang et al. (AAAI 2016), Theorem 1; gives the weights that Chowdhury et al. (ICML
        2020), Section 3.4, look for.

    Example:
        >>> float(mean_divergence([0.2, 0.3, 0.5], 1000, 25).round(8))
        9.167e-05
    """
    rows, sizes = np.asarray(theta, np.float64), np.asarray(records, np.float64)
    positive(variance=variance)
    if not rows.ndim or rows.shape[:-1] != sizes.shape or not (np.all(rows > 0) and np.all(sizes > 0)):
        raise InputError("probabilities and their rows' records must be greater than 0, one number of records a row")
    result: Floats = variance / (2 * sizes**2) * ((1 / rows).sum(axis=-1) - rows.shape[-1])
    return result


def sum_product_bounds(
    network: Network, smallest_error: float, largest_error: float, smallest_factor: float
) -> tuple[float, float]:
    """Printed bounds on the error of one step of variable elimination, beside `corrected_bounds.query_deviation`.

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
