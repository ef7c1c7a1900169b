"""How far two posteriors are apart: of counts with and without noise, and of data sets that differ in one record.

Nothing here is a guarantee. Bounds that take counts are as private as these: planning takes assumed ones, `explain`
those of a release.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln, polygamma

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet
from discreet.privacy.guarantee import Relation
from discreet.theory.checks import not_negative
from discreet.util.arrays import Floats

VERTEX_STATES = 12
"""Most states of a row whose corners are looked at: rows of more have too many corners to look at each; a bound by
tangents takes their place."""
TANGENTS = 129
"""Number of tangent points tried; each gives a valid bound."""


def divergence_limits(alpha: npt.ArrayLike, counts: npt.ArrayLike, noise: float, most: float) -> Floats:
    """Largest `KL(Dir(alpha + N) || Dir(alpha + Z))` of every row of a table, over all `Z = clip(N +- t, 0, most)`.

    The divergence is convex in Z, so the maximum is at a corner of the box. Rows of up to 12 states are maximised
    exactly; longer ones by the bound that follows from `ln Gamma(B) >= ln Gamma(w) + psi(w) (B - w)` for the sum B of a
    corner and any w, under which the states separate.

    Args:
        alpha: concentrations, greater than 0; the last axis is that of the states.
        counts: N, of the same shape, at least 0 and at most `most`; records.
        noise: t, records, at least 0.
        most: value at which the box is clipped from above: the number of records where that is public, else infinity.

    Returns:
        Nats, one for each row.

    Raises:
        InputError: counts or noise out of their range.

    Source:
        Replaces Zhang et al. (AAAI 2016), Theorem 1, whose three statements are false: the deviation needs the sum of
        squares of c_ij (the printed event has probability 0.48 where 0.01 is claimed), the refined mean decays
        exponentially where the true one decays like noise variance over records, and the summary vanishes under
        infinite noise. Who knows the noisy counts and not the exact ones exchanges the two: with N the noisy counts,
        clipped at 0, it bounds the divergence of their posterior from that of the exact counts, which lie in the box.

    Example:
        >>> divergence_limits([1.0, 1.0], [10.0, 10.0], 0.0, 100.0).round(6).tolist()  # no noise, no divergence
        0.0
    """
    prior, exact = np.asarray(alpha, np.float64), np.asarray(counts, np.float64)
    if not 0 <= noise < math.inf:
        raise InputError("noise bounds must be finite and at least 0")
    if not (np.all(exact >= 0) and np.all(exact <= most) and np.all(np.isfinite(exact))):
        raise InputError(f"counts must be finite, at least 0 and at most {most}")
    boxes = (exact, np.clip(exact - noise, 0, most), np.clip(exact + noise, 0, most))
    return _limit_rows(*((prior + box).reshape(-1, prior.shape[-1]) for box in boxes)).reshape(prior.shape[:-1])


def _limit_rows(a: Floats, low: Floats, high: Floats) -> Floats:
    """Maximise, or bound, `KL(Dir(a) || Dir(b))` over `low <= b <= high`; rows by states."""
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


def expected_divergences(concentrations: npt.ArrayLike, cell: float, row: float) -> Floats:
    """Expected KL of a row's posterior from that of counts with noise: `(v sum_k psi'(a_k) - w psi'(sum_k a_k)) / 2`.

    To second order in the noise, so for cells that are several of its deviations above 0.

    Args:
        concentrations: a, prior and counts together; the last axis is that of the states.
        cell: v, variance of the noise in a cell, records squared.
        row: w, variance of the noise in the row's total; K v where cells are independent.

    Returns:
        Nats, one for each row.

    Source:
        Replaces the refined mean of Zhang et al. (AAAI 2016), Theorem 1: half the second derivative of the divergence,
        which is the variance of the logarithms of a Dirichlet variate.

    Example:
        A coin, 1,000 records, half of them ones, noise of scale 2 (epsilon 1, one replaced):

        >>> float(expected_divergences([501.0, 501.0], 8, 16).round(4))
        0.008
    """
    a = np.asarray(concentrations, np.float64)
    return np.asarray((cell * polygamma(1, a).sum(axis=-1) - row * polygamma(1, a.sum(axis=-1))) / 2)


def record_divergence(prior: Dirichlet, relation: Relation) -> float:
    """Most that one record can move the posterior of exact counts, whatever the other records are, in KL.

    One more record in cell k of a row moves it by `KL(Dir(a) || Dir(a + e_k)) = ln(a_k / A) + psi(A) - psi(a_k)`, A the
    sum of a, which is less than `ln a_k - psi(a_k)` and comes near it for large A; in the other direction by less than
    `psi(a_k + 1) - ln a_k`. Both fall as a_k grows, so cells without records are the worst. Families add up, and a
    replaced record does both.

    Args:
        prior: alpha; no row is trimmed.
        relation: which data sets are neighbours.

    Returns:
        Nats, in the direction that is larger. Finite, though no draw from such a posterior has a pure epsilon.

    Source:
        Derived, in the place of Dimitrakakis et al. (JMLR 2017), Theorem 7, whose first form needs a likelihood with a
        Lipschitz constant (`range_divergence`), which rows that may come near 0 do not have, and whose second has
        constants that grow exponentially with the records.
    """
    smallest = [float(alpha.min()) for alpha in prior.alpha.values() if alpha.shape[-1] > 1]
    added = math.fsum(math.log(a) - float(digamma(a)) for a in smallest)
    removed = math.fsum(float(digamma(a + 1)) - math.log(a) for a in smallest)
    return relation.by_record(max(added, removed), added + removed)


def range_divergence(log_range: float) -> float:
    """Largest KL of P from Q where `dP / dQ ~ exp(g)` and g has a range R: `ln((e^R - 1) / R) - 1 + R / (e^R - 1)`.

    For posteriors g is the log ratio of the likelihoods (or priors) itself, so `R = sup g - inf g`: at most 2 L rho
    under Assumption 1, or the exact loss of a record as `likelihood_sensitivity.record_loss` gives it. About R^2 / 8
    for small R.

    Args:
        log_range: R, nats, at least 0.

    Returns:
        Nats; attained by a g of two values.

    Raises:
        InputError: a negative range.

    Source:
        Derived; sharpens Dimitrakakis et al. (JMLR 2017), Theorem 7.1 and Lemma 15, which print 2 L rho and 2 eta.

    Example:
        >>> round(range_divergence(1.0), 3), round(range_divergence(0.1), 5)
        (0.123, 0.00125)
    """
    not_negative(log_range=log_range)
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
        A number in [0, 1); attained by a g of two values. Released draws of a posterior are a case: R is the epsilon of
        all of them together.

    Raises:
        InputError: a negative range.

    Source:
        Derived; sharpens Dimitrakakis et al. (JMLR 2017), Lemma 15.

    Example:
        >>> round(range_distance(1.0), 3)
        0.245
    """
    not_negative(log_range=log_range)
    return math.tanh(log_range / 4)
