"""Bounds of the papers for planning: constants of likelihoods, private draws without trimming, choices and noise.

They take public or assumed numbers alone, and are no guarantee of a release: mechanisms make those. What was printed is
corrected, and each function says how. What follows for a release at hand stands in `dc.explain`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.noise.noise_laws import each_failure
from discreet.util.arrays import Floats
from discreet.util.lazy_imports import lazy_import
from discreet.util.number_checks import not_negative, positive, probability

optimize = lazy_import("scipy.optimize")


def lipschitz_constants(log_likelihood: npt.ArrayLike, distances: npt.ArrayLike) -> Floats:
    """Compute `l(theta)`, the least u with `|ln p_theta(x) - ln p_theta(y)| <= u rho(x, y)` for all x and y.

    Args:
        log_likelihood: `ln p_theta(x)`, shape (parameters, outcomes); -inf where an outcome is impossible.
        distances: rho, shape (outcomes, outcomes).

    Returns:
        Shape (parameters,); infinite where no u suffices.

    Raises:
        InputError: shapes that do not fit, NaN, or distances that are no pseudo-metric's (negative, infinite, not
            symmetric, or not 0 on the diagonal).

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Dimitrakakis et al. (JMLR 2017), equation (2).

    Example:
        >>> import discreet as dc
        >>> log_likelihood = [[-0.22, -1.61], [-0.51, -0.92]]  # of "no" and "yes" under chances of .2 and .4
        >>> dc.research.lipschitz_constants(log_likelihood, [[0, 1], [1, 0]]).round(2).tolist()
        [1.39, 0.41]
    """
    logs, rho = _likelihood(log_likelihood, distances)
    result = np.zeros(len(logs))
    for outcome in range(len(rho)):
        gaps = np.abs(_differences(logs, outcome))
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(gaps > 0, gaps / rho[outcome], 0)
        np.maximum(result, slopes.max(axis=1), out=result)
    return result


def assumption_one(constants: npt.ArrayLike) -> float:
    """Compute the uniform Lipschitz constant of a family: `L = sup l(theta)`.

    Args:
        constants: l(theta) over the support, as `lipschitz_constants` gives them.

    Returns:
        Their maximum. For the Bernoulli family with theta = Delta, 2 Delta, ..., 1 - Delta it is
        `ln((1 - Delta) / Delta)`.

    Raises:
        InputError: no constant, or one that is negative or NaN.

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Assumption 1. The `ln(1 / Delta)` of Example 1 satisfies it once theta = 1,
        whose constant is infinite, is left out; the least one is smaller.

    Example:
        >>> import discreet as dc
        >>> dc.research.assumption_one([1.39, 0.41])
        1.39
    """
    return float(_constants(constants).max())


def assumption_two(constants: npt.ArrayLike, masses: npt.ArrayLike, start: float) -> float:
    """Compute the best rate c with `xi(l(theta) <= L) >= 1 - exp(-c (L - L0))` for all `L >= L0`.

    The mass above L is a step function, so only the values v of l above L0 matter:
    `c = min over v of -ln xi(l >= v) / (v - L0)`.

    Args:
        constants: l(theta) over the support.
        masses: their probabilities, of the same shape: the prior's, or the posterior's.
        start: L0, at least 0.

    Returns:
        c; 0 where no positive rate will do (a start below the smallest l, or mass on an infinite one), infinite where
        no mass lies above the start.

    Raises:
        InputError: shapes differ, masses are no distribution, or the start is negative.

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Assumption 2 and Figure 1; Zhang et al. (AAAI 2016) have it with L0 left out
        of the exponent, which is the stronger condition.

    Example:
        >>> import discreet as dc
        >>> round(dc.research.assumption_two([0.2, 1.0, 2.0], [0.5, 0.3, 0.2], 0.5), 3)  # ln(2) / .5, ln(5) / 1.5
        1.073
    """
    values, weights = _constants(constants), _masses(masses)
    if values.shape != weights.shape:
        raise InputError(f"{values.size} constants need as many masses, got {weights.size}")
    if not 0 <= start < math.inf:
        raise InputError(f"the start L0 must be finite and at least 0, got {start}")
    values, weights = values[weights > 0], weights[weights > 0]
    order = np.argsort(values)
    values = values[order]
    above = np.cumsum(weights[order][::-1])[::-1]
    # All mass is exactly all of it, whatever the sum was rounded to.
    above /= above[0]
    # Of equal values the first has all the mass at or above them, and so the smallest rate.
    beyond = values > start
    rates = -np.log(above[beyond]) / (values[beyond] - start)
    return float(np.maximum(rates, 0).min(initial=math.inf))


def combined_rate(rates: Sequence[float], start: float) -> float:
    """Compute the rate of the stochastic Lipschitz condition of a network: `c' = min_i c_i - ln(I) / L0`.

    From `xi(Theta_i,L) >= 1 - exp(-c_i L)` for all `L >= L0`, a union bound gives `xi(Theta_L) >= 1 - exp(-c' L)`. In
    the form of the JMLR paper, `1 - exp(-c (L - L0))`, the same step keeps the rate `min_i c_i` and moves the start to
    `L0 + ln(I) / min_i c_i`.

    Args:
        rates: c_i of each of the I nodes.
        start: L0, greater than 0.

    Returns:
        c', greater than 0.

    Raises:
        InputError: an argument that is not positive, or too many nodes for the rates: `I >= exp(L0 min_i c_i)`.

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Zhang et al. (AAAI 2016), Lemma 3; at equality, which it admits, its c' is 0 and says nothing.

    Example:
        >>> import discreet as dc
        >>> round(dc.research.combined_rate([2.0, 3.0], 1.0), 4)  # 2 - ln(2)
        1.3069
    """
    if not rates or not all(rate > 0 for rate in rates) or not 0 < start < math.inf:
        raise InputError("rates, one for each node, and the start L0 must be greater than 0")
    rate = min(rates) - math.log(len(rates)) / start
    if not rate > 0:
        raise InputError(f"{len(rates)} nodes are too many for these rates; the start L0 must be larger")
    return rate


def may_be_private(
    log_likelihood: npt.ArrayLike, masses: npt.ArrayLike, distances: npt.ArrayLike, lipschitz: float
) -> bool:
    """Check the necessary condition for a 2L-DP posterior; if it fails, the posterior is not 2L-DP.

    For every ordered pair (x, y), `sup_theta ln p_theta(x) / p_theta(y) <= L rho(x, y)` or
    `ln phi(y) / phi(x) <= L rho(x, y)`, phi being the marginal likelihood. The condition is not sufficient.

    Args:
        log_likelihood: `ln p_theta(x)`, shape (parameters, outcomes).
        masses: prior probabilities of the parameters.
        distances: rho, shape (outcomes, outcomes).
        lipschitz: L, nats for each unit of rho.

    Returns:
        False where the posterior is certainly not 2L-DP under rho.

    Raises:
        InputError: shapes that do not fit, masses that are no distribution, or an outcome that is impossible under the
            prior (leave it out).

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 6; its proof ends with "not L-DP" where it shows "not 2L-DP".

    Example:
        >>> import discreet as dc
        >>> rare = [[-0.01, -4.6], [-2.3, -0.105]]  # ln of 99 % and 1 %, and of 10 % and 90 %
        >>> [dc.research.may_be_private(rare, [0.9, 0.1], [[0, 1], [1, 0]], lipschitz) for lipschitz in (0.5, 5.0)]
        [False, True]
    """
    logs, rho = _likelihood(log_likelihood, distances)
    weights = _masses(masses)
    if weights.shape != logs.shape[:1]:
        raise InputError(f"{len(logs)} parameters need as many masses, got {weights.size}")
    logs, weights = logs[weights > 0], weights[weights > 0]
    marginal = np.logaddexp.reduce(logs + np.log(weights)[:, None], axis=0)
    if not np.all(np.isfinite(marginal)):
        raise InputError("an outcome is impossible under the prior; leave it out")
    for outcome in range(len(rho)):
        likelihood = _differences(logs, outcome).max(axis=0) <= lipschitz * rho[outcome]
        if not np.all(likelihood | (marginal - marginal[outcome] <= lipschitz * rho[outcome])):
            return False
    return True


def untrimmed_privacy(lipschitz: float, distance: float, outside: float) -> tuple[float, float]:
    """Compute what one draw from an UNTRIMMED posterior promises: `(2 L rho - ln(1 - eta), eta)`.

    Args:
        lipschitz: L.
        distance: rho between neighbours, at least 0.
        outside: eta, largest posterior mass outside Theta_L over ALL data sets of the size, not only the one at hand;
            at least 0, less than 1.

    Returns:
        (epsilon, delta). A draw from the posterior trimmed to Theta_L is (2 L rho, 0)-DP and nearly always better.

    Raises:
        InputError: a number out of its range.

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Corollary 9, corrected. The event there does not depend on theta, so its
        probability is 0 or 1; restricted to sets inside Theta_L the claim is false too (log ratio 5.0 against 2 L = 4
        for Beta(1, 1), n = 20, L = 2), because the normaliser is not restricted.

    Example:
        >>> import discreet as dc
        >>> epsilon, delta = dc.research.untrimmed_privacy(2.0, 1.0, 0.1)  # 4 - ln(.9)
        >>> round(epsilon, 4), delta
        (4.1054, 0.1)
    """
    not_negative(lipschitz=lipschitz, distance=distance)
    if not 0 <= outside < 1:
        raise InputError(f"the posterior mass outside must be at least 0 and less than 1, got {outside}")
    return 2 * lipschitz * distance - math.log1p(-outside), outside


def untrimmed_distance(largest: float, start: float, rate: float) -> float:
    """Bound the total variation that one replaced record makes in an untrimmed posterior: `sqrt(M / 2)`.

    With `T = e^(-L0 d c) / (e^(-w (1 - d)) - e^-w) + e^(L0 (1 - d) c)` at the best d in (0, 1 - 1 / c], it is
    `M = C (kappa / c + L0 (1 + 1 / (1 - e^-w)) + ln C + ln T)`; w solves `e^w = 1 + 2 w`, and `kappa = 2 w / (1 -
    e^-w)^2`.

    Args:
        largest: C, largest ratio of maximal and marginal likelihood, at least 1.
        start: L0 of `assumption_two`, at least 0.
        rate: c of `assumption_two`, greater than 1.

    Returns:
        The bound; mostly above 1, where it says nothing, and small for concentrated priors.

    Raises:
        InputError: a number out of its range.

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Zhang et al. (AAAI 2016), Theorem 4 (2), where one record is at distance 1; Dimitrakakis et al. (JMLR 2017) have
        Theorem 8.2 in its place.

    Example:
        A coin that is known to be fair up to 1e-5, whose largest constant is 4e-5:

        >>> import discreet as dc
        >>> round(dc.research.untrimmed_distance(1.00002, 4e-5, 1e7), 4)
        0.0088
    """
    positive(rate=rate - 1)
    not_negative(start=start)
    if not 1 <= largest < math.inf:
        raise InputError(f"a maximal likelihood is at least the marginal one: the ratio C is at least 1, got {largest}")
    omega = float(optimize.brentq(lambda w: math.exp(w) - 1 - 2 * w, 0.5, 3))
    kappa = 2 * omega / (1 - math.exp(-omega)) ** 2

    def square(free: float) -> float:
        """Compute M for a value of the theorem's own parameter."""
        gap = math.exp(-omega * (1 - free)) - math.exp(-omega)
        tail = math.exp(-start * free * rate) / gap + math.exp(min(start * (1 - free) * rate, 700.0))
        return largest * (kappa / rate + start * (1 / (1 - math.exp(-omega)) + 1) + math.log(largest) + math.log(tail))

    most = 1 - 1 / rate
    best = optimize.minimize_scalar(square, bounds=(1e-9, most), method="bounded", options={"xatol": 1e-10})
    return math.sqrt(min(float(best.fun), square(most)) / 2)


def map_failure(epsilon: float, sensitivity: float, t: float, mass: float) -> float:
    """Bound the chance that a private MAP estimate is far from the maximum: `exp(-epsilon t / (2 Delta)) / xi(S_t)`.

    It bounds `P(score <= max - 2 t)`, S_t being the parameters with `score > max - t`.

    Args:
        epsilon: nats, of the exponential mechanism `exp(epsilon score / (2 Delta)) xi`.
        sensitivity: Delta of the score between neighbours: `tanh(L r / 2)` for posterior probabilities of a
            FINITE set of parameters. For densities neither that nor the printed sqrt(L r) is a sensitivity, and the
            mechanism is not private.
        t: distance from the maximal score, greater than 0.
        mass: xi(S_t), their prior mass; in (0, 1].

    Returns:
        The bound, at most 1.

    Raises:
        InputError: a number out of its range.

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Zhang et al. (AAAI 2016), Lemma 4, with the factor 1 / (2 Delta) that was lost from its exponent; McSherry and
        Talwar (2007), Theorem 6 and Lemma 7.

    Example:
        >>> import discreet as dc
        >>> round(dc.research.map_failure(2.0, 0.5, 2.5, 0.25), 4)  # e^-5 / .25
        0.027
    """
    positive(epsilon=epsilon, sensitivity=sensitivity, t=t)
    if not 0 < mass <= 1:
        raise InputError(f"a prior mass must be greater than 0 and at most 1, got {mass}")
    return min(1.0, math.exp(-epsilon * t / (2 * sensitivity)) / mass)


def largest_noise(cells: int, scale: float, failure: float) -> float:
    """Compute what all of some independent Laplace variates keep within: `-b ln(1 - (1 - delta)^(1 / m))`, exactly.

    Args:
        cells: m, number of variates; for all family tables of a network the number of their cells.
        scale: b, records.
        failure: delta, probability that some variate is larger.

    Returns:
        t with `P(max |noise| <= t) = 1 - delta`, records.

    Raises:
        InputError: no cells, a scale that is not positive, or a probability outside (0, 1).

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Zhang et al. (AAAI 2016), Proposition 1, with b = 2 I / epsilon; the union bound printed there,
        `b ln(m / delta)`, holds and is slightly larger.

    Example:
        >>> import discreet as dc
        >>> round(dc.research.largest_noise(4, 2.0, 0.05), 2)
        8.73
    """
    positive(scale=scale)
    return -scale * math.log(each_failure(cells, failure))


def fourier_deviation(network: Network, epsilon: float, shift: float, failure: float) -> dict[str, float]:
    """Bound the L1 error of every family table of the Fourier mechanism, for all of them at once.

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

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Zhang et al. (AAAI 2016), Theorem 3: correct as printed.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
        >>> round(dc.research.fourier_deviation(coin, 1.0, 0.0, 0.1)["coin"], 2)  # 8 ln(20)
        23.97
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
    """Compute what the argument for non-negative Fourier tables needs to be small: `P(Gamma(n, 1) > 2 t n)`.

    Args:
        coefficients: n, size of the downward closure.
        t: as for `fourier_deviation`, greater than 0.

    Returns:
        The probability, exactly: a bound on the chance of a negative cell.

    Raises:
        InputError: no coefficients, or t not positive.

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Zhang et al. (AAAI 2016), Corollary 3, which claims `exp(-t)` for it: false for small t, true for t >= 1/2.

    Example:
        >>> import discreet as dc
        >>> [round(dc.research.stealth_failure(10, t), 3) for t in (0.3, 0.5)]  # exp(-t) is .741 and .607
        [0.916, 0.458]
    """
    positive(coefficients=coefficients, t=t)
    return float(gammaincc(coefficients, 2 * t * coefficients))


def empirical_error(draws: int, cells: int, failure: float) -> float:
    """Compute the L1 error of shares of posterior draws in a coarse partition: `sqrt(3 / n ln(1 / delta))`.

    Args:
        draws: n.
        cells: m, sets of the partition; at most `log2 sqrt(1 / delta)`, which is 2 for delta = 0.06.
        failure: delta, probability of a larger error.

    Returns:
        The bound.

    Raises:
        InputError: no draws or cells, more cells than the claim allows, or a probability outside (0, 1).

    Guarantee:
        None spent, none given: only public or assumed numbers are read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 12: correct as printed.

    Example:
        >>> import discreet as dc
        >>> round(dc.research.empirical_error(1000, 2, 0.05), 4)
        0.0948
    """
    positive(draws=draws, cells=cells)
    probability(failure=failure)
    if cells > -math.log2(failure) / 2:
        raise InputError(f"the claim is for at most log2 sqrt(1 / failure) cells, {-math.log2(failure) / 2:.2f} here")
    return math.sqrt(3 / draws * -math.log(failure))


def _differences(logs: Floats, outcome: int) -> Floats:
    """Compute `ln p(x) - ln p(y)` for one x and every y, shape (parameters, outcomes); 0 where both are impossible."""
    with np.errstate(invalid="ignore"):
        differences: Floats = logs[:, outcome, None] - logs
    differences[np.isnan(differences)] = 0
    return differences


def _likelihood(log_likelihood: npt.ArrayLike, distances: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Check both arrays, and return them."""
    logs, rho = np.asarray(log_likelihood, np.float64), np.asarray(distances, np.float64)
    if logs.ndim != 2 or not logs.size or rho.shape != (logs.shape[1],) * 2:
        raise InputError(
            "log likelihoods need the shape (parameters, outcomes) and distances (outcomes, outcomes), "
            f"got {logs.shape} and {rho.shape}"
        )
    if not np.all(logs < math.inf):
        raise InputError("log likelihoods must be numbers or -inf")
    if not (np.all(rho >= 0) and np.all(np.isfinite(rho)) and np.array_equal(rho, rho.T) and not rho.diagonal().any()):
        raise InputError("distances must be finite, at least 0, symmetric, and 0 on the diagonal")
    return logs, rho


def _constants(constants: npt.ArrayLike) -> Floats:
    """Check Lipschitz constants, and return them."""
    values = np.asarray(constants, np.float64)
    if values.ndim != 1 or not values.size or not np.all(values >= 0):
        raise InputError("Lipschitz constants must be a list of numbers that are at least 0")
    return values


def _masses(masses: npt.ArrayLike) -> Floats:
    """Check probabilities, and return them."""
    weights = np.asarray(masses, np.float64)
    if weights.ndim != 1 or not np.all(weights >= 0) or not abs(weights.sum() - 1) < 1e-9:
        raise InputError("masses must be probabilities that sum to 1; divide them by their sum")
    return weights
