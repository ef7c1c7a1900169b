"""What privacy noise and private posteriors cost and give: utility, robustness, distinguishability.

Each function states which claim of the papers it is, and what was corrected. Four parts: noise on counts, how far two
posteriors can be apart, answers from posterior draws, and the error of noisy tables carried to a query. Those that
take counts or tables are meant for planning, with public or assumed numbers: a bound computed from private counts is
private. Nothing here is a guarantee that a release offers; those are made by mechanisms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaincc, gammaln

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.theory.inference import joint, log_probability

__all__ = [
    "close_distance",
    "close_divergence",
    "dirichlet_kl",
    "draws_for",
    "empirical_error",
    "fourier_deviation",
    "historical_theorem_8_2",
    "largest_integer_noise",
    "largest_noise",
    "le_cam",
    "least_distinguishable",
    "least_distinguishable_stochastic",
    "loss_of_other_prior",
    "loss_of_trimming",
    "map_failure",
    "mean_divergence",
    "posterior_divergence_limit",
    "posterior_privacy",
    "query_deviation",
    "query_gradient",
    "range_distance",
    "range_divergence",
    "regret_limit",
    "response_error",
    "stealth_failure",
    "stochastic_divergence",
    "sum_product_bounds",
    "untrimmed_privacy",
]

Floats = npt.NDArray[np.float64]

VERTEX_STATES = 12
"""Rows of more states have too many corners to look at each; a bound by tangents takes their place."""
TANGENTS = 129
"""Tangent points tried; each gives a valid bound."""
GRADIENT_CELLS = 50_000_000
"""Most entries of the tables that are differentiated at once: 400 MB."""


# ------------------------------------------------------------------------------------------------ noise on counts


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
    return -scale * math.log(_each_failure(cells, scale, failure))


def largest_integer_noise(cells: int, scale: float, failure: float) -> int:
    """The same for the integer noise of releases: `P(|noise| > t) = 2 q^(t+1) / (1 + q)` with `q = exp(-1 / b)`.

    Args:
        cells: number of variates.
        scale: b of the discrete Laplace distribution, records.
        failure: probability that some variate is larger.

    Returns:
        The smallest integer t with `P(max |noise| <= t) >= 1 - failure`, records.

    Raises:
        InputError: as for `largest_noise`.

    Source:
        Zhang et al. (AAAI 2016), Proposition 1, for the geometric mechanism.

    Example:
        >>> largest_integer_noise(4, 2.0, 0.05)
        9
    """
    allowed = _each_failure(cells, scale, failure)
    # ln P(|noise| > t) = ln(2 / (1 + q)) - (t + 1) / b.
    head = math.log(2 / (1 + math.exp(-1 / scale)))
    bound = max(0, math.ceil(scale * (head - math.log(allowed))) - 1)
    while head - (bound + 1) / scale > math.log(allowed):
        bound += 1
    while bound > 0 and head - bound / scale <= math.log(allowed):
        bound -= 1
    return bound


def _each_failure(cells: int, scale: float, failure: float) -> float:
    """Probability with which each of some independent variates may fail, if all fail with `failure`."""
    _positive(cells=cells, scale=scale)
    _probability(failure=failure)
    return -math.expm1(math.log1p(-failure) / cells)


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
    _positive(variance=variance)
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
    _positive(epsilon=epsilon)
    _not_negative(shift=shift)
    _probability(failure=failure)
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
    _positive(coefficients=coefficients, t=t)
    return float(gammaincc(coefficients, 2 * t * coefficients))


# ---------------------------------------------------------------------------------- how far posteriors can be apart


def close_divergence(gap: float) -> float:
    """KL of two posteriors whose likelihoods, or priors, have a log ratio of at most `gap`: `2 g tanh(g)`.

    With `gap = L rho(x, y)` it is the robustness of a posterior under Assumption 1; with `gap = eta`, a bound on
    `|ln xi*(theta) / xi(theta)|`, the cost of another prior.

    Args:
        gap: g, nats, at least 0.

    Returns:
        Nats, at most the 2 g that is printed. See `range_divergence` for a bound that cannot be improved.

    Raises:
        InputError: a negative gap.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 7.1 and Lemma 15, whose bound holds for every x and not only on
        average; sharpened, because the posteriors are within `exp(+-2 g)` of each other.
    """
    _not_negative(gap=gap)
    return 2 * gap * math.tanh(gap)


def close_distance(gap: float) -> float:
    """Total variation of two posteriors whose likelihoods, or priors, have a log ratio of at most `gap`: `tanh(g)`.

    It is also the sensitivity Delta of a posterior probability on a finite set of parameters, with `gap = L r` for
    data sets at a distance of at most r. On a continuous set the posterior's density has no such bound.

    Args:
        gap: g, nats, at least 0.

    Returns:
        A bound in [0, 1). See `range_distance` for one that cannot be improved.

    Raises:
        InputError: a negative gap.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 7.1 and Lemma 15, without Pinsker's inequality, which would give
        `sqrt(g)`; Zhang et al. (AAAI 2016), Algorithm 3, whose Delta is `sqrt(L r)`.
    """
    _not_negative(gap=gap)
    return math.tanh(gap)


def range_divergence(log_range: float) -> float:
    """Largest KL of P from Q where `dP / dQ ~ exp(g)` and g has a range R: `ln((e^R - 1) / R) - 1 + R / (e^R - 1)`.

    For posteriors g is the log ratio of the likelihoods (or priors) itself, so `R = sup g - inf g`: twice the gap of
    `close_divergence`, or the exact loss of a record as `lipschitz.record_loss` gives it. About R^2 / 8 for small R.

    Args:
        log_range: R, nats, at least 0.

    Returns:
        Nats; attained by a g of two values.

    Raises:
        InputError: a negative range.

    Source:
        Derived; sharpens Dimitrakakis et al. (JMLR 2017), Theorem 7.1 and Lemma 15.
    """
    _not_negative(log_range=log_range)
    if log_range < 0.01:
        # The closed form subtracts nearly equal numbers here; the next term of its series is below 1e-16.
        return log_range**2 / 8 - log_range**4 / 576
    head = -math.log(log_range) + log_range + math.log(-math.expm1(-log_range))
    return head - 1 + log_range * math.exp(-log_range) / -math.expm1(-log_range)


def range_distance(log_range: float) -> float:
    """Largest total variation of P and Q where `dP / dQ ~ exp(g)` and g has a range R: `tanh(R / 4)`.

    Args:
        log_range: R, nats, at least 0, as for `range_divergence`.

    Returns:
        A number in [0, 1); attained by a g of two values. For `R = 2 gap` half as large as `close_distance`, for small
        gaps.

    Raises:
        InputError: a negative range.

    Source:
        Derived; sharpens Dimitrakakis et al. (JMLR 2017), Lemma 15.
    """
    _not_negative(log_range=log_range)
    return math.tanh(log_range / 4)


def stochastic_divergence(ratio: float, start: float, rate: float, distance: float) -> float:
    """KL of posteriors under Assumption 2: `C (L0 + 1/c) rho + ln(1 + C (exp(L0 rho) c / (c - rho) - 1))`.

    The first term bounds the mean log ratio of the likelihoods, the second the log ratio of the marginals.

    Args:
        ratio: C, largest ratio of a maximal to a marginal likelihood, over all data sets; at least 1.
        start: L0, at least 0.
        rate: c, greater than 0.
        distance: rho of the data sets, at least 0 and less than c; farther ones need steps in between.

    Returns:
        Nats; at most the printed `C (1 + 2 L0 + 1/c) rho` wherever rho <= c - 1.

    Raises:
        InputError: a number out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 7.2. Its proof concludes `ln(phi(x) / phi(y)) <= C (1 + L0) rho` from
        `phi(x) / phi(y) <= C exp((1 + L0) rho)`, from which only `ln C + (1 + L0) rho` follows. From
        `phi(x) / phi(y) - 1 <= C (E exp(l rho) - 1)` both follow, and the smaller bound that is returned here.
    """
    _stochastic(ratio, start, rate)
    if not 0 <= distance < rate:
        raise InputError(f"the distance must be at least 0 and less than the rate {rate}; take steps in between")
    mean = ratio * (start + 1 / rate) * distance
    # l(theta) is at most L0 plus an exponential variate of rate c, whose moment generating function is c / (c - rho).
    growth = math.expm1(start * distance - math.log1p(-distance / rate))
    return mean + math.log1p(ratio * growth)


def posterior_privacy(lipschitz: float, *, one_sided: bool) -> float:
    """Epsilon of one posterior draw under Assumption 1, for each unit of rho: 2 L, or L where the range is one-sided.

    Args:
        lipschitz: L, nats for each unit of rho, at least 0.
        one_sided: whether the log ratio of the likelihoods of the two data sets has a range of L rho and not 2 L rho;
            so where a record is added or removed and its log probability has a range of L.

    Returns:
        Epsilon for each unit of rho, delta 0; N independent draws cost N times as much. A record costs this times the
        largest rho between neighbours: see `lipschitz.record_loss` for networks.

    Raises:
        InputError: a negative constant.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 8.1 and Corollary 10; Zhang et al. (AAAI 2016), Theorem 4.1: correct,
        and approached as records are added.
    """
    _not_negative(lipschitz=lipschitz)
    return lipschitz if one_sided else 2 * lipschitz


def historical_theorem_8_2(ratio: float, start: float, rate: float, distance: float) -> float:
    """The delta of an untrimmed posterior as it was printed: `sqrt(C (1 + 2 L0 + 1/c) rho / 2)`. VACUOUS for records.

    C and the bracket are at least 1, so at rho = 1 it is at least sqrt(1/2) = 0.707 for every model, prior and number
    of records, and mostly above 1, where it says nothing at all. It must not be offered as protection, and is here only
    so that this can be shown. What protects is trimming (`lipschitz.record_loss`).

    Args:
        ratio: C, at least 1.
        start: L0, at least 0.
        rate: c, greater than 0.
        distance: rho, at least 0.

    Returns:
        A bound on the total variation, often above 1.

    Raises:
        InputError: a number out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 8.2; it supersedes Zhang et al. (AAAI 2016), Theorem 4.2.
    """
    _stochastic(ratio, start, rate)
    _not_negative(distance=distance)
    return math.sqrt(ratio * (1 + 2 * start + 1 / rate) * distance / 2)


def untrimmed_privacy(lipschitz: float, distance: float, outside: float) -> tuple[float, float]:
    """What one draw from an UNTRIMMED posterior promises: `(2 L rho - ln(1 - eta), eta)`.

    Args:
        lipschitz: L.
        distance: rho between neighbours, at least 0.
        outside: eta, largest posterior mass outside Theta_L over ALL data sets of the size, not only the one at hand;
            at least 0, less than 1.

    Returns:
        (epsilon, delta). A draw from the posterior trimmed to Theta_L is (2 L rho, 0)-DP and nearly always better.

    Raises:
        InputError: a number out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), Corollary 9, corrected. The event there does not depend on theta, so its
        probability is 0 or 1; restricted to sets inside Theta_L the claim is false too (log ratio 5.0 against 2 L = 4
        for Beta(1, 1), n = 20, L = 2), because the normaliser is not restricted.
    """
    _not_negative(lipschitz=lipschitz, distance=distance)
    if not 0 <= outside < 1:
        raise InputError(f"the posterior mass outside must be at least 0 and less than 1, got {outside}")
    return 2 * lipschitz * distance - math.log1p(-outside), outside


def _stochastic(ratio: float, start: float, rate: float) -> None:
    """Refuse constants that Assumption 2 cannot have."""
    _not_negative(start=start)
    _positive(rate=rate)
    if not 1 <= ratio < math.inf:
        raise InputError(f"a maximal likelihood is at least the marginal one: the ratio C is at least 1, got {ratio}")


# ------------------------------------------------------------------------------------ answers from posterior draws


def response_error(draws: int, responses: int, queries: int, failure: float) -> float:
    """Expected utility that is lost by answering from posterior draws: `2 sqrt(ln(2 |Q| |R| / delta) / (2 N))`.

    Args:
        draws: N, independent.
        responses: |R|, number of responses to choose from.
        queries: |Q|, number of queries there can be, chosen in advance or not.
        failure: delta, probability that some answer loses more.

    Returns:
        Loss against the best response under the same posterior, for utilities in [0, 1]: every mean over the draws is
        within half of it.

    Raises:
        InputError: a number that is not positive, or a probability outside (0, 1).

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 11, with the union over responses and queries that its ln(2 / delta)
        leaves out.

    Example:
        >>> round(response_error(1000, 4, 100, 0.05), 4)
        0.1391
    """
    _positive(draws=draws)
    return math.sqrt(2 * _log_union(responses, queries, failure) / draws)


def draws_for(error: float, responses: int, queries: int, failure: float) -> int:
    """Draws after which `response_error` is at most some error.

    Args:
        error: expected utility that may be lost, greater than 0.
        responses: as for `response_error`.
        queries: as for `response_error`.
        failure: as for `response_error`.

    Returns:
        The smallest such number, at least 1. Each draw costs privacy: see `posterior_privacy`.

    Raises:
        InputError: as for `response_error`.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 11, solved for N.

    Example:
        >>> draws_for(0.1, 4, 100, 0.05)
        1937
    """
    _positive(error=error)
    draws = max(1, math.ceil(2 * _log_union(responses, queries, failure) / error**2))
    while draws > 1 and response_error(draws - 1, responses, queries, failure) <= error:
        draws -= 1
    while response_error(draws, responses, queries, failure) > error:
        draws += 1
    return draws


def _log_union(responses: int, queries: int, failure: float) -> float:
    """`ln(2 |Q| |R| / delta)`."""
    _positive(responses=responses, queries=queries)
    _probability(failure=failure)
    return math.log(2 * responses * queries / failure)


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
    _positive(epsilon=epsilon, sensitivity=sensitivity, t=t)
    if not 0 < mass <= 1:
        raise InputError(f"a prior mass must be greater than 0 and at most 1, got {mass}")
    return min(1.0, math.exp(-epsilon * t / (2 * sensitivity)) / mass)


# ----------------------------------------------------------------------------------------------- distinguishability


def empirical_error(draws: int, cells: int, failure: float) -> float:
    """L1 error of the empirical measure of posterior draws on a coarse partition: `sqrt(3 / n ln(1 / delta))`.

    Args:
        draws: n.
        cells: m, sets of the partition; at most `log2 sqrt(1 / delta)`, which is 2 for delta = 0.06.
        failure: delta, probability of a larger error.

    Returns:
        The bound.

    Raises:
        InputError: no draws or cells, more cells than the claim allows, or a probability outside (0, 1).

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 12: correct as printed.
    """
    _positive(draws=draws, cells=cells)
    _probability(failure=failure)
    if cells > -math.log2(failure) / 2:
        raise InputError(f"the claim is for at most log2 sqrt(1 / failure) cells, {-math.log2(failure) / 2:.2f} here")
    return math.sqrt(3 / draws * -math.log(failure))


def least_distinguishable(lipschitz: float, draws: int, failure: float) -> float:
    """Distance below which an adversary cannot tell data sets apart from draws, by the paper's argument.

    `rho >= 3 ln(1 / delta) / (4 L n)` is NECESSARY for the posteriors' L1 distance to exceed the adversary's error of
    `empirical_error`; it is not sufficient.

    Args:
        lipschitz: L of Assumption 1, greater than 0.
        draws: n that the adversary sees.
        failure: delta of the adversary.

    Returns:
        rho.

    Raises:
        InputError: a number that is not positive, or a probability outside (0, 1).

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 13, first form, with its "if" corrected to "only if".
    """
    _positive(lipschitz=lipschitz, draws=draws)
    _probability(failure=failure)
    return -3 * math.log(failure) / (4 * lipschitz * draws)


def least_distinguishable_stochastic(ratio: float, start: float, rate: float, draws: int, failure: float) -> float:
    """The same under Assumption 2: `rho >= 3 ln(1 / delta) / (2 n C (1 + 2 L0 + 1/c))` is NECESSARY.

    Args:
        ratio: C, at least 1.
        start: L0, at least 0.
        rate: c, greater than 1, as Theorem 7.2 has it.
        draws: n that the adversary sees.
        failure: delta of the adversary.

    Returns:
        rho.

    Raises:
        InputError: a number out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 13, second form, with its "if" corrected to "only if".
    """
    _stochastic(ratio, start, rate)
    _positive(draws=draws)
    _probability(failure=failure)
    if not rate > 1:
        raise InputError(f"the rate c must be greater than 1, got {rate}")
    return -3 * math.log(failure) / (2 * draws * ratio * (1 + 2 * start + 1 / rate))


def le_cam(separation: float, distance: float) -> float:
    """Least worst-case error of every guess of the data from what was drawn: `separation / 2 (1 - distance)`.

    Args:
        separation: rho of two data sets (or least rho between two sets of them), at least 0.
        distance: total variation of the laws of all that is drawn from their posteriors; in [0, 1].

    Returns:
        `max over the two of E rho(guess, data)` is at least this.

    Raises:
        InputError: a negative separation, or a distance outside [0, 1].

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 18 (Le Cam), with separation = 2 delta and `||xi1 ^ xi2|| = 1 - TV`.
    """
    _not_negative(separation=separation)
    if not 0 <= distance <= 1:
        raise InputError(f"a total variation is at least 0 and at most 1, got {distance}")
    return separation / 2 * (1 - distance)


# --------------------------------------------------------------------------------- error of tables, carried to queries


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
    _not_negative(smallest_error=smallest_error, largest_error=largest_error, smallest_factor=smallest_factor)
    eta = 1 + max(network.in_degree(node) + network.out_degree(node) for node in network.nodes)
    if eta < 2:
        raise InputError("the bounds are for networks with at least one arc")
    lower = math.sqrt(eta - 1) * smallest_error * smallest_factor ** (eta - 2)
    states = max(variable.size for variable in network.variables)
    return lower, 2 * eta * float(states) ** network.treewidth * largest_error


# --------------------------------------------------------------------------------------------------------- checks


def _positive(**numbers: float) -> None:
    """Refuse what is not finite and greater than 0."""
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise InputError(f"{name} must be finite and greater than 0, got {number}")


def _not_negative(**numbers: float) -> None:
    """Refuse what is not finite and at least 0."""
    for name, number in numbers.items():
        if not 0 <= number < math.inf:
            raise InputError(f"{name} must be finite and at least 0, got {number}")


def _probability(**numbers: float) -> None:
    """Refuse what is not strictly between 0 and 1."""
    for name, number in numbers.items():
        if not 0 < number < 1:
            raise InputError(f"{name} must be greater than 0 and less than 1, got {number}")
