"""Lipschitz constants of likelihoods, as the papers reckon with them: of networks, and over finite supports.

This file owns the calculus of the papers, corrected; `paper_bounds.py` owns what privacy costs, and
`research/scores/likelihood_sensitivity.py` the range of a trimmed network, which the product computes with. Nothing
here reads records or draws anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.research.scores.likelihood_sensitivity import ranges

__all__ = [
    "assumption_one",
    "assumption_two",
    "attribute_loss",
    "combined_rate",
    "lipschitz_constants",
    "may_be_private",
]

Floats = npt.NDArray[np.float64]


def attribute_loss(network: Network, floors: Mapping[str, float]) -> float:
    """Epsilon of one draw of all trimmed rows towards a change of ONE attribute of one record.

    `max_j 2 (Lambda_j + sum of Lambda_c over the children c of j)`, over the nodes j that can change. This is no
    protection of a record: who knows the other attributes learns up to `record_loss` about all of them together. It is
    here to be compared with what was printed as record-level protection.

    Args:
        network: public.
        floors: as for `record_loss`.

    Returns:
        Epsilon, nats, for data sets that differ in one cell of one record.

    Raises:
        InputError: as for `record_loss`.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 24: `2 max_k (1 + out-degree of k) ln(1 / w)` with one w, corrected to
        the exact range.
    """
    by_node = ranges(network, floors)
    losses = [
        2 * math.fsum([by_node[name], *(by_node[child] for child in network.children(name))])
        for name in network.nodes
        if network.schema[name].size > 1
    ]
    return max(losses, default=0.0)


def combined_rate(rates: Sequence[float], start: float) -> float:
    """Rate of the stochastic Lipschitz condition of a network: `c' = min_i c_i - ln(I) / L0`.

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

    Source:
        Zhang et al. (AAAI 2016), Lemma 3; at equality, which it admits, its c' is 0 and says nothing.
    """
    if not rates or not all(rate > 0 for rate in rates) or not 0 < start < math.inf:
        raise InputError("rates, one for each node, and the start L0 must be greater than 0")
    rate = min(rates) - math.log(len(rates)) / start
    if not rate > 0:
        raise InputError(f"{len(rates)} nodes are too many for these rates; the start L0 must be larger")
    return rate


def lipschitz_constants(log_likelihood: npt.ArrayLike, distances: npt.ArrayLike) -> Floats:
    """`l(theta)`, smallest u with `|ln p_theta(x) - ln p_theta(y)| <= u rho(x, y)` for all x and y.

    Args:
        log_likelihood: `ln p_theta(x)`, shape (parameters, outcomes); -inf where an outcome is impossible.
        distances: rho, shape (outcomes, outcomes).

    Returns:
        Shape (parameters,); infinite where no u suffices.

    Raises:
        InputError: shapes that do not fit, NaN, or distances that are no pseudo-metric's (negative, infinite, not
            symmetric, or not 0 on the diagonal).

    Source:
        Dimitrakakis et al. (JMLR 2017), equation (2).

    Example:
        >>> import numpy as np
        >>> theta = np.array([0.2, 0.4])
        >>> lipschitz_constants(np.log([1 - theta, theta]).T, [[0, 1], [1, 0]]).round(3).tolist()
        [1.386, 0.405]
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
    """The uniform Lipschitz constant of a family: `L = sup l(theta)`.

    Args:
        constants: l(theta) over the support, as `lipschitz_constants` gives them.

    Returns:
        Their maximum. For the Bernoulli family with theta = Delta, 2 Delta, ..., 1 - Delta it is
        `ln((1 - Delta) / Delta)`.

    Raises:
        InputError: no constant, or one that is negative or NaN.

    Source:
        Dimitrakakis et al. (JMLR 2017), Assumption 1. The `ln(1 / Delta)` of Example 1 satisfies it once theta = 1,
        whose constant is infinite, is left out; the least one is smaller.
    """
    return float(_constants(constants).max())


def assumption_two(constants: npt.ArrayLike, masses: npt.ArrayLike, start: float) -> float:
    """The best rate c with `xi(l(theta) <= L) >= 1 - exp(-c (L - L0))` for all `L >= L0`.

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

    Source:
        Dimitrakakis et al. (JMLR 2017), Assumption 2 and Figure 1; Zhang et al. (AAAI 2016) have it with L0 left out
        of the exponent, which is the stronger condition.
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


def may_be_private(
    log_likelihood: npt.ArrayLike, masses: npt.ArrayLike, distances: npt.ArrayLike, lipschitz: float
) -> bool:
    """Whether the necessary condition for a 2L-DP posterior holds; if not, the posterior is not 2L-DP.

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

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 6; its proof ends with "not L-DP" where it shows "not 2L-DP".
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


def _differences(logs: Floats, outcome: int) -> Floats:
    """`ln p(x) - ln p(y)` for one x and every y, shape (parameters, outcomes); 0 where both are impossible."""
    with np.errstate(invalid="ignore"):
        differences: Floats = logs[:, outcome, None] - logs
    differences[np.isnan(differences)] = 0
    return differences


def _likelihood(log_likelihood: npt.ArrayLike, distances: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Both arrays, checked."""
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
    """Lipschitz constants, checked."""
    values = np.asarray(constants, np.float64)
    if values.ndim != 1 or not values.size or not np.all(values >= 0):
        raise InputError("Lipschitz constants must be a list of numbers that are at least 0")
    return values


def _masses(masses: npt.ArrayLike) -> Floats:
    """Probabilities, checked."""
    weights = np.asarray(masses, np.float64)
    if weights.ndim != 1 or not np.all(weights >= 0) or not abs(weights.sum() - 1) < 1e-9:
        raise InputError("masses must be probabilities that sum to 1; divide them by their sum")
    return weights
