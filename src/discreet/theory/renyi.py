"""Renyi accounting for draws from untrimmed, tempered Dirichlet posteriors.

An untrimmed posterior has no pure guarantee, but the Renyi divergence between neighbours is finite for orders up to
`1 + concentration / tau`, tau the tempering exponent. This file owns its worst case over all data, its conversion to
(epsilon, delta), and the largest tempering exponent that meets a guarantee. It reads no data.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.util.arrays import Floats

LEAST_DELTA = 1e-300
"""Smallest delta that floating point tells from 0."""
GAMMA_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Relative error allowed to a log gamma value, added to every divergence."""
HIGHEST_ORDER = 1e5
"""Beyond it an order changes no delta that is worth stating."""
ORDER_FRACTIONS = np.concatenate([np.geomspace(1e-5, 0.5, 300, endpoint=False), 1 - np.geomspace(0.5, 1e-3, 100)])
"""Orders that are tried, as fractions of the way from 1 to the highest finite one."""


def dirichlet_renyi(
    order: npt.ArrayLike, concentration: npt.ArrayLike, temper: npt.ArrayLike, relation: Relation
) -> Floats:
    r"""Largest Renyi divergence between tempered posteriors of one family, `Dirichlet(alpha + tau N)`, of neighbours.

    With `G = log Gamma`, order lam, x the concentration of a cell and tau the temper,

        add(x)    = [G(x + lam tau) - lam G(x + tau) + (lam - 1) G(x)] / (lam - 1)
        remove(x) = [G(x - (lam - 1) tau) - lam G(x) + (lam - 1) G(x + tau)] / (lam - 1).

    One record more moves one cell and its row's total by tau; the divergence is `add(cell) - add(total)` in one
    direction and `remove(cell) - remove(total)` in the other. A record replaced moves two cells, in one row or in two:
    `add + remove`, less totals where the rows differ. Three facts give the supremum over all data sets:
    (1) Both decrease in x, so that a count of 0 and the smallest concentration are worst. With psi = G', x + tau is
    the mixture `1/lam (x + lam tau) + (1 - 1/lam) x`, and psi is concave, so the derivative of `add` in x,
    `[psi(x + lam tau) - lam psi(x + tau) + (lam - 1) psi(x)] / (lam - 1)`, is at most 0; `remove` likewise, as x is the
    mixture `1/lam (x - (lam - 1) tau) + (1 - 1/lam) (x + tau)`.
    (2) Totals only help, and vanish as the rest of the row grows.
    (3) `add <= remove`. Both are integrals of psi' against triangles of one area, on [x, x + lam tau] with its peak at
    x + tau, and on [x - (lam - 1) tau, x + tau] with its peak at x, which lies to the left, where psi' is larger.

    Args:
        order: lam, greater than 1; 1 is not covered.
        concentration: x, smallest concentration of the prior in the family, unit: records.
        temper: tau, in (0, 1]; the three are broadcast.
        relation: which data sets are neighbours.

    Returns:
        `remove(x)` for ADD_REMOVE, `add(x) + remove(x)` for REPLACE, nats, rounded up; infinite where
        `x <= (lam - 1) tau`. Divergences add up over the families of a network, and over draws.

    Raises:
        InputError: an argument out of its range.

    Source:
        Geumlek, Song and Chaudhuri (2017), for exponential families; the worst case is derived above.

    Example:
        >>> dirichlet_renyi(2, [3, 10], 1, Relation.REPLACE).round(4).tolist()
        [0.6931, 0.2007]
    """
    lam, x, tau = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (order, concentration, temper)))
    if not (
        np.all((lam > 1) & np.isfinite(lam)) and np.all((x > 0) & np.isfinite(x)) and np.all((tau > 0) & (tau <= 1))
    ):
        raise InputError("a Renyi divergence needs orders above 1, positive concentrations, and tempers in (0, 1]")
    finite = x > (lam - 1) * tau
    lowest = np.where(finite, x - (lam - 1) * tau, 1.0)
    remove = _bound_gap(lowest, x, x + tau, lam, weight_low=np.ones_like(lam))
    add = _bound_gap(x, x + tau, x + lam * tau, lam, weight_low=lam - 1)
    return np.where(finite, relation.by_record(remove, remove + add), np.inf)


def _bound_gap(low: Floats, middle: Floats, high: Floats, order: Floats, *, weight_low: Floats) -> Floats:
    """Bound the Jensen gap of log Gamma over `order - 1`; the weights of the ends sum to the order."""
    weights = (weight_low, order - weight_low, -order)
    terms = [weight * gammaln(point) for weight, point in zip(weights, (low, high, middle), strict=True)]
    size = sum(np.abs(term) + np.abs(weight) for term, weight in zip(terms, weights, strict=True))
    return np.asarray((sum(terms) + GAMMA_ROUNDING * size) / (order - 1))


def delta_of(orders: npt.ArrayLike, divergences: npt.ArrayLike, epsilon: float) -> float:
    """The smallest delta that Renyi divergences of some orders imply at an epsilon.

    `delta = exp((lam - 1) (D_lam - epsilon)) (1 - 1 / lam)^(lam - 1) / lam`, the least over the orders; each of them
    alone is valid, so a coarse grid can only be too careful.

    Args:
        orders: lam, greater than 1, shape `(orders,)`.
        divergences: D_lam, nats, possibly infinite, of the same shape.
        epsilon: nats, at least 0.

    Returns:
        Delta, at most 1.

    Raises:
        InputError: no orders, shapes that differ, or a value out of its range.

    Source:
        Canonne, Kamath and Steinke (2020), Proposition 12.

    Example:
        >>> lam = np.linspace(1.01, 50, 5000)  # Gaussian noise of sigma 2 on a sum of sensitivity 1
        >>> round(delta_of(lam, lam / 8, 1.0), 4)
        0.018
    """
    lam, divergence = np.asarray(orders, np.float64), np.asarray(divergences, np.float64)
    if lam.ndim != 1 or not lam.size or lam.shape != divergence.shape:
        raise InputError("as many orders as divergences are needed, and at least one")
    if not (np.all((lam > 1) & np.isfinite(lam)) and np.all(divergence >= 0) and epsilon >= 0):
        raise InputError("orders must be greater than 1, divergences and epsilon at least 0")
    log_delta = (lam - 1) * (divergence - epsilon + np.log1p(-1 / lam)) - np.log(lam)
    return math.exp(min(float(log_delta.min()), 0.0))


def temper_for(network: Network, prior: Dirichlet, guarantee: Guarantee, draws: int) -> float:
    """Find the largest tempering exponent in (0, 1] at which untrimmed posterior draws of all rows meet a guarantee.

    Args:
        network: public.
        prior: concentrations over that network.
        guarantee: what to meet; its delta must be greater than 0.
        draws: number of independent draws that are released together.

    Returns:
        tau, rounded down: the delta of `draws` draws from `Dirichlet(alpha + tau N)`, by `delta_of` over a grid of
        orders, is at most the guarantee's; 1 where the plain posterior meets it.

    Raises:
        InputError: delta is 0 (no untrimmed posterior has a pure guarantee), the prior is over another network, or
            no draw is asked for.

    Source:
        `dirichlet_renyi` summed over families and draws, with `delta_of`.
    """
    if 0 < guarantee.delta < LEAST_DELTA:
        raise InputError("delta is too small to be computed with; ask for at least 1e-300")
    if prior.network != network:
        raise InputError("the prior is over another network")
    if not draws >= 1:
        raise InputError(f"at least one draw is needed, got {draws}")
    if not guarantee.delta > 0:
        raise InputError("an untrimmed posterior has no guarantee with delta 0; give a delta, or trim the posterior")
    # A variable of one state says nothing about a record.
    least = np.array([prior.alpha[node].min() for node in network.nodes if network.schema[node].size > 1])
    epsilon = math.nextafter(float(guarantee.epsilon), 0.0)
    delta = math.nextafter(float(guarantee.delta), 0.0)

    def met(temper: float) -> bool:
        return least.size == 0 or _find_delta(least, temper, draws, epsilon, guarantee.relation) <= delta

    if met(1.0):
        return 1.0
    low = 0.5
    while not met(low):
        low /= 2
        if low < 1e-12:
            raise InputError("no temper above 1e-12 meets this guarantee; allow more epsilon or delta, or fewer draws")
    high = 2 * low
    while high - low > 1e-6 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if met(middle) else (low, middle)
    return low


def _find_delta(least: Floats, temper: float, draws: int, epsilon: float, relation: Relation) -> float:
    """Find delta of some draws over families whose smallest concentrations are given."""
    reach = min(float(least.min()) / temper, HIGHEST_ORDER)
    orders = 1 + reach * ORDER_FRACTIONS
    divergences = draws * dirichlet_renyi(orders[:, None], least, temper, relation).sum(axis=1)
    return delta_of(orders, divergences, epsilon)
