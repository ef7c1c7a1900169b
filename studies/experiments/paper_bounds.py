"""What privacy costs, as the papers bound it: errors of noisy tables, utility lost by few or trimmed draws.

Each function states which claim of the papers it is, and what was corrected. Those that take counts or tables are meant
for planning, with public or assumed numbers: a bound computed from private counts is private. Nothing here is a
guarantee that a release offers; those are made by mechanisms.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc

from discreet.deciding.draw_bounds import response_error
from discreet.errors import InputError
from discreet.model.network import Network
from discreet.noise.noise_laws import each_failure
from discreet.util.number_checks import not_negative, positive, probability

__all__ = [
    "fourier_deviation",
    "largest_noise",
    "loss_of_trimming",
    "map_failure",
    "mean_divergence",
    "stealth_failure",
    "sum_product_bounds",
]

Floats = npt.NDArray[np.float64]


def largest_noise(cells: int, scale: float, failure: float) -> float:
    """Bound that all of some independent Laplace variates keep, exactly: `-b ln(1 - (1 - delta)^(1 / m))`.

    Args:
        cells: m, number of variates; for all family tables of a network the number of their cells.
        scale: b, records.
        failure: delta, probability that some variate is larger.

    Returns:
        t with `P(max |noise| <= t) = 1 - delta`, records.

    Raises:
        InputError: no cells, a scale that is not positive, or a probability outside (0, 1).

    Source:
        Zhang et al. (AAAI 2016), Proposition 1, with b = 2 I / epsilon; the union bound printed there,
        `b ln(m / delta)`, holds and is slightly larger.

    Example:
        >>> round(largest_noise(4, 2.0, 0.05), 2)
        8.73
    """
    positive(scale=scale)
    return -scale * math.log(each_failure(cells, failure))


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


def fourier_deviation(network: Network, epsilon: float, shift: float, failure: float) -> dict[str, float]:
    """Bound on the L1 error of every family table of the Fourier mechanism, for all of them at once.

    `(4 |N_I| / epsilon) (2^(parents) ln(|N_I| / delta) + t |N_I|)`, N_I being the downward closure of the families.

    Args:
        network: public; all variables binary.
        epsilon: nats, REPLACE.
        shift: t of the shift that makes tables non-negative, at least 0.
        failure: delta.

    Returns:
        By node, records.

    Raises:
        InputError: a variable that is not binary, or a number out of its range.

    Source:
        Zhang et al. (AAAI 2016), Theorem 3: correct as printed.
    """
    if any(variable.size != 2 for variable in network.variables):
        raise InputError("the Fourier bound is for networks of binary variables only")
    positive(epsilon=epsilon)
    not_negative(shift=shift)
    probability(failure=failure)
    closure = len(network.downward_closure)
    log_closure = math.log(closure / failure)
    return {
        node: 4 * closure / epsilon * (2 ** network.in_degree(node) * log_closure + shift * closure)
        for node in network.nodes
    }


def stealth_failure(coefficients: int, t: float) -> float:
    """What the printed argument for non-negative Fourier tables needs to be small: `P(Gamma(n, 1) > 2 t n)`.

    Args:
        coefficients: n, size of the downward closure.
        t: as for `fourier_deviation`, greater than 0.

    Returns:
        The probability, exactly: a bound on the chance of a negative cell.

    Raises:
        InputError: no coefficients, or t not positive.

    Source:
        Zhang et al. (AAAI 2016), Corollary 3, which claims `exp(-t)` for it: false for small t, true for t >= 1/2.

    Example:
        >>> stealth_failure(10, 0.3) > math.exp(-0.3), stealth_failure(10, 0.5) <= math.exp(-0.5)
        (True, True)
    """
    positive(coefficients=coefficients, t=t)
    return float(gammaincc(coefficients, 2 * t * coefficients))


def loss_of_trimming(outside: float, draws: int, responses: int, queries: int, failure: float) -> float:
    """Expected utility lost by deciding with draws of a trimmed posterior: `m + (1 - m) response_error`.

    Args:
        outside: m, mass of the untrimmed POSTERIOR outside the support that is left, in [0, 1].
        draws: as for `response_error`.
        responses: as for `response_error`.
        queries: as for `response_error`.
        failure: as for `response_error`.

    Returns:
        The loss in expectation under the untrimmed posterior, for utilities in [0, 1]; at most 1.

    Raises:
        InputError: as for `response_error`, or a mass outside [0, 1].

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 17(b), corrected. It has the PRIOR mass, which bounds nothing once data
        disagree: with w = 0.1 and a uniform prior 0.2 lies outside a priori, 0.99998 after 100 ones. Averaged over the
        prior predictive both masses agree.
    """
    if not 0 <= outside <= 1:
        raise InputError(f"a mass is at least 0 and at most 1, got {outside}")
    return outside + (1 - outside) * min(1.0, response_error(draws, responses, queries, failure))


def map_failure(epsilon: float, sensitivity: float, t: float, mass: float) -> float:
    """Chance that a private MAP estimate is far from the maximum: `exp(-epsilon t / (2 Delta)) / xi(S_t)`.

    It bounds `P(score <= max - 2 t)`, S_t being the parameters with `score > max - t`.

    Args:
        epsilon: nats, of the exponential mechanism `exp(epsilon score / (2 Delta)) xi`.
        sensitivity: Delta of the score between neighbours: `close_distance(L r)` for posterior probabilities of a
            FINITE set of parameters. For densities neither that nor the printed sqrt(L r) is a sensitivity, and the
            mechanism is not private.
        t: distance from the maximal score, greater than 0.
        mass: xi(S_t), their prior mass; in (0, 1].

    Returns:
        The bound, at most 1.

    Raises:
        InputError: a number out of its range.

    Source:
        Zhang et al. (AAAI 2016), Lemma 4, with the factor 1 / (2 Delta) that was lost from its exponent; McSherry and
        Talwar (2007), Theorem 6 and Lemma 7.
    """
    positive(epsilon=epsilon, sensitivity=sensitivity, t=t)
    if not 0 < mass <= 1:
        raise InputError(f"a prior mass must be greater than 0 and at most 1, got {mass}")
    return min(1.0, math.exp(-epsilon * t / (2 * sensitivity)) / mass)


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
