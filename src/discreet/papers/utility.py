"""What privacy costs, as the papers bound it: divergences of noisy posteriors, utility lost by few or trimmed draws.

Each function states which claim of the papers it is, and what was corrected. Those that take counts or tables are meant
for planning, with public or assumed numbers: a bound computed from private counts is private. Nothing here is a
guarantee that a release offers; those are made by mechanisms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaincc, gammaln

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.papers.distance import close_distance
from discreet.theory.bounds import each_failure, response_error
from discreet.theory.checks import not_negative, positive, probability

__all__ = [
    "dirichlet_kl",
    "fourier_deviation",
    "largest_noise",
    "loss_of_other_prior",
    "loss_of_trimming",
    "map_failure",
    "mean_divergence",
    "posterior_divergence_limit",
    "regret_limit",
    "stealth_failure",
]

Floats = npt.NDArray[np.float64]

VERTEX_STATES = 12
"""Rows of more states have too many corners to look at each; a bound by tangents takes their place."""
TANGENTS = 129
"""Tangent points tried; each gives a valid bound."""


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
    return -scale * math.log(each_failure(cells, scale, failure))


def dirichlet_kl(a: npt.ArrayLike, b: npt.ArrayLike) -> Floats:
    """Kullback-Leibler divergence of Dirichlet distributions, `KL(Dir(a) || Dir(b))`; convex in b.

    Args:
        a: concentrations, greater than 0; the last axis is that of the states.
        b: the same shape.

    Returns:
        Nats, one for each row.

    Raises:
        InputError: shapes differ, or a concentration is not positive and finite.

    Example:
        >>> dirichlet_kl([[1.0, 1.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]).round(4).tolist()
        [0.0, 0.1931]
    """
    one, other = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if one.shape != other.shape or not one.ndim:
        raise InputError(f"both sets of concentrations need the same shape, got {one.shape} and {other.shape}")
    for array in (one, other):
        if not (np.all(array > 0) and np.all(np.isfinite(array))):
            raise InputError("concentrations must be finite and greater than 0")
    total = one.sum(axis=-1)
    linear = (one - other) * (digamma(one) - digamma(total)[..., None])
    result: Floats = (
        gammaln(total) - gammaln(other.sum(axis=-1)) + (gammaln(other) - gammaln(one) + linear).sum(axis=-1)
    )
    # It is at least 0; for nearly equal arguments rounding may say otherwise.
    return np.maximum(result, 0, dtype=np.float64)


def posterior_divergence_limit(prior: Dirichlet, counts: Tables, noise: Mapping[str, float], most: float) -> float:
    """Largest KL of the exact posterior from the posterior of noisy counts, while no noise exceeds its bound.

    `sum over rows of max KL(Dir(alpha + N) || Dir(alpha + Z))` over the box of noisy counts, whose corners are
    `Z = clip(N +- t, 0, most)`. The divergence is convex in Z, so the maximum is at a corner. Rows of up to 12 states
    are maximised exactly; longer ones by the bound that follows from `ln Gamma(B) >= ln Gamma(w) + psi(w) (B - w)` for
    the sum B of a corner and any w, under which the states separate.

    Args:
        prior: alpha.
        counts: N, assumed or public; records.
        noise: bound t on the noise in each cell of a node's table; records, at least 0. With `largest_noise` for a
            failure delta the limit holds with probability 1 - delta.
        most: value at which noisy counts are cut from above: the number of records where that is public, else infinity.

    Returns:
        Nats.

    Raises:
        InputError: counts over another network, negative or larger than `most`, or a node without a bound.

    Source:
        Replaces Zhang et al. (AAAI 2016), Theorem 1, whose three statements are false: the deviation needs the sum of
        squares of c_ij (the printed event has probability 0.48 where 0.01 is claimed), the refined mean decays
        exponentially where the true one decays like noise variance over records, and the summary vanishes under
        infinite noise.
    """
    if counts.network != prior.network or set(noise) != set(prior.network.nodes):
        raise InputError("the prior, the counts and the noise bounds must be for the same network")
    if not all(0 <= bound < math.inf for bound in noise.values()):
        raise InputError("noise bounds must be finite and at least 0")
    total = 0.0
    for node, alpha in prior.alpha.items():
        exact = counts[node].astype(np.float64)
        if not (np.all(exact >= 0) and np.all(exact <= most) and np.all(np.isfinite(exact))):
            raise InputError(f"counts of {node!r} must be finite, at least 0 and at most {most}")
        rows = [
            (alpha + array).reshape(-1, alpha.shape[-1])
            for array in (exact, np.clip(exact - noise[node], 0, most), np.clip(exact + noise[node], 0, most))
        ]
        total += float(_row_limits(*rows).sum())
    return total


def _row_limits(a: Floats, low: Floats, high: Floats) -> Floats:
    """Maximum, or a bound on it, of `KL(Dir(a) || Dir(b))` over `low <= b <= high`; rows by states."""
    # KL = (terms of a) + sum_k h_k(b_k) - ln Gamma(sum_k b_k), with h_k(b) = ln Gamma(b) - b slope_k.
    total = a.sum(axis=-1)
    slope = digamma(a) - digamma(total)[:, None]
    own = gammaln(total) + (a * slope - gammaln(a)).sum(axis=-1)
    at_low, at_high = gammaln(low) - low * slope, gammaln(high) - high * slope
    if a.shape[-1] <= VERTEX_STATES:
        sums, masses = np.zeros((len(a), 1)), np.zeros((len(a), 1))
        for k in range(a.shape[-1]):
            sums = np.hstack([sums + at_low[:, k, None], sums + at_high[:, k, None]])
            masses = np.hstack([masses + low[:, k, None], masses + high[:, k, None]])
        best = (sums - gammaln(masses)).max(axis=-1)
    else:
        best = np.full(len(a), np.inf)
        for share in np.linspace(0, 1, TANGENTS):
            point = (1 - share) * low.sum(axis=-1) + share * high.sum(axis=-1)
            tilt = digamma(point)
            states = np.maximum(at_low - low * tilt[:, None], at_high - high * tilt[:, None]).sum(axis=-1)
            best = np.minimum(best, states + point * tilt - gammaln(point))
    limits: Floats = np.maximum(own + best, 0)
    return limits


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


def regret_limit(distance: float) -> float:
    """Expected utility lost by deciding with one posterior where another is right: `||xi - xi*||_1`.

    Args:
        distance: total variation of the two POSTERIORS, half of their L1 distance; in [0, 1].

    Returns:
        The bound for utilities in [0, 1], at most 1; attained.

    Raises:
        InputError: a distance outside [0, 1].

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 14, with half of its constant; the signs in its proof are exchanged.
    """
    if not 0 <= distance <= 1:
        raise InputError(f"a total variation is at least 0 and at most 1, got {distance}")
    return min(1.0, 2 * distance)


def loss_of_other_prior(gap: float, draws: int, responses: int, queries: int, failure: float) -> float:
    """Expected utility lost by deciding with draws under a prior at most `gap` away from the one that is right.

    `2 tanh(eta)` for the prior and `response_error` for the draws.

    Args:
        gap: eta, bound on `|ln xi*(theta) / xi(theta)|`.
        draws: as for `response_error`.
        responses: as for `response_error`.
        queries: as for `response_error`.
        failure: as for `response_error`.

    Returns:
        The loss in expectation under the right posterior, for utilities in [0, 1]; at most 1.

    Raises:
        InputError: as for `response_error`, or a negative gap.

    Source:
        Dimitrakakis et al. (JMLR 2017), Corollary 16. Its order eta needs total variation <= tanh(eta); Lemma 15 with
        Pinsker's inequality, as cited there, would only give sqrt(eta).
    """
    return min(1.0, regret_limit(close_distance(gap)) + response_error(draws, responses, queries, failure))


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
