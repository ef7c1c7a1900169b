"""Explain a release: effects of one record, or of a change under a metric, and the dependence of its answers.

A family is a node with its parents; a row is the node's distribution in one state of the parents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import cast, overload

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, digamma, gammainc, gammaln, log_softmax, polygamma

from discreet.errors import InputError
from discreet.model.dirichlet import DEFAULT_CONCENTRATION, Dirichlet
from discreet.model.network import Network
from discreet.model.query_grammar import NumberQuery, PlainQuery, Probability, plain_queries
from discreet.posterior.basis import prior_only_words
from discreet.posterior.joint_draws import PosteriorDraws, learned_prior
from discreet.posterior.methods import Method, noise_aware
from discreet.posterior.pooled.least_squares import pooled_margins
from discreet.posterior.pooled.measured import is_poolable
from discreet.posterior.read import posterior_kind
from discreet.privacy.guarantee import Guarantee, Relation, convert
from discreet.queries.credible import check_level
from discreet.queries.query import answer
from discreet.queries.row_shares import Dependence, dependence
from discreet.releases.combined import Combined, Evidence
from discreet.releases.external_figures import External
from discreet.releases.metric_unit import distance_of
from discreet.releases.release import Release
from discreet.reporting.explanation import (
    OWN_PRIOR,
    Change,
    CombinedExplanation,
    Distinguishability,
    Divergence,
    Explanation,
    InferenceLimits,
    MetricLimits,
    OtherPrior,
    Reach,
)
from discreet.util.arrays import Floats
from discreet.util.number_checks import not_negative, positive, probability
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.progress import under_way
from discreet.util.randomness import Seed, as_generator

# --------------------------------------------------------------------------------------------------------------------
# Divergence of two posteriors: of counts with and without noise, and of data sets that differ in one record.
#
# None of these numbers is a guarantee. Bounds that take counts are as private as the counts: planning takes assumed
# ones, `explain` those of a release.

VERTEX_STATES = 12
"""Largest number of states of a row whose box is searched corner by corner; rows of more states are bounded by
tangents."""
TANGENTS = 129
"""Number of tangent points tried; each gives a valid bound."""


def divergence_limits(alpha: npt.ArrayLike, counts: npt.ArrayLike, noise: float, most: float) -> Floats:
    """Bound `KL(Dir(alpha + N) || Dir(alpha + Z))` of every row of a table, over all `Z = clip(N +- t, 0, most)`.

    Each count of Z varies by itself between `max(N - t, 0)` and `min(N + t, most)`; their sum is free. The divergence
    is convex in Z, so the maximum is at a corner of the box. Rows of up to 12 states are maximised exactly; longer ones
    by the bound that follows from `ln Gamma(B) >= ln Gamma(w) + psi(w) (B - w)` for the sum B of a corner and any w,
    under which the states separate: the least of 129 such bounds.

    Args:
        alpha: concentrations, greater than 0, which is not checked; shape `(*rows, states)`.
        counts: N, records, same shape, at least 0 and at most `most`.
        noise: t, records, at least 0 and finite.
        most: upper limit to which the box is clipped: the number of records if that is public, else infinity.

    Returns:
        Nats, at least 0, shape `(*rows)`.

    Raises:
        InputError: counts or noise out of their range.

    Source:
        Replaces Zhang et al. (AAAI 2016), Theorem 1, whose three statements are false: the deviation needs the sum of
        squares of c_ij (the printed event has probability 0.48 where 0.01 is claimed), the refined mean decays
        exponentially where the true one decays like noise variance over records, and the summary vanishes under
        infinite noise. If the noisy counts are known and the exact ones are not, exchange the two: with N the noisy
        counts, clipped at 0, it bounds the divergence of their posterior from that of the exact counts, which lie in
        the box.

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
    """Maximise, or bound, `KL(Dir(a) || Dir(b))` over `low <= b <= high` for each row.

    Args:
        a: concentrations, shape (rows, states).
        low: smallest b, same shape.
        high: largest b, same shape.

    Returns:
        Nats, at least 0 (rounding errors below are raised), shape (rows,). For up to VERTEX_STATES states it is the
        exact maximum, which is at one of the 2^states corners of the box. For more it is an upper bound, which may
        exceed the maximum: the least of the bounds by tangents at TANGENTS points, evenly spaced from the sum of `low`
        to the sum of `high`.
    """
    # KL = (terms of a) + sum_k h_k(b_k) - ln Gamma(sum_k b_k), with h_k(b) = ln Gamma(b) - b slope_k.
    total = a.sum(axis=-1)
    slope = digamma(a) - digamma(total)[:, None]
    constant = gammaln(total) + (a * slope - gammaln(a)).sum(axis=-1)
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
    limits: Floats = np.maximum(constant + best, 0)
    return limits


def expected_divergences(concentrations: npt.ArrayLike, cell: float, row: float) -> Floats:
    """Compute the expected KL of rows' posteriors from those of noisy counts, to second order in the noise.

    It is `(v sum_k psi'(a_k) - w psi'(sum_k a_k)) / 2` for each row. The approximation needs cells that are several
    noise deviations above 0, which is not checked.

    Args:
        concentrations: a, prior and counts together, shape `(*rows, states)`.
        cell: v, variance of the noise in a cell, records squared.
        row: w, variance of the noise in the row's total; K v if the K cells are independent.

    Returns:
        Nats, shape `(*rows)`; not limited to 0 and more.

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
    """Bound the KL by which one record can move the posterior of exact counts, whatever the other records are.

    One more record in cell k of a row moves it by `KL(Dir(a) || Dir(a + e_k)) = ln(a_k / A) + psi(A) - psi(a_k)`, A the
    sum of a, which is less than `ln a_k - psi(a_k)` and approaches it for large A; in the other direction by less than
    `psi(a_k + 1) - ln a_k`. Both decrease in a_k, so cells without records are the worst: a_k is the least alpha of
    each family's table. Divergences of families add up; families whose node has a single state add nothing.

    Args:
        prior: alpha; no row is trimmed.
        relation: which data sets are neighbours.

    Returns:
        Nats. For ADD_REMOVE the larger one of the two sums over families, of adding and of removing a record; for
        REPLACE, which does both, their sum. Finite, although no draw from such a posterior has a pure epsilon.

    Raises:
        InputError: a METRIC relation.

    Source:
        Derived; replaces Dimitrakakis et al. (JMLR 2017), Theorem 7. Its first form needs a likelihood with a Lipschitz
        constant (`range_divergence`), which rows that may approach 0 do not have; its second has constants that grow
        exponentially with the records.
    """
    smallest = [float(alpha.min()) for alpha in prior.alpha.values() if alpha.shape[-1] > 1]
    added = math.fsum(math.log(a) - float(digamma(a)) for a in smallest)
    removed = math.fsum(float(digamma(a + 1)) - math.log(a) for a in smallest)
    return relation.by_record(max(added, removed), added + removed)


def range_divergence(log_range: float) -> float:
    """Compute the largest KL of P from Q if `dP / dQ ~ exp(g)`, g of range R: `ln((e^R - 1) / R) - 1 + R / (e^R - 1)`.

    For posteriors g is the log ratio of the likelihoods (or priors) itself, so `R = sup g - inf g`: at most 2 L rho
    under Assumption 1, or the exact loss of a record as `likelihood_sensitivity.record_loss` computes it. For R below
    0.01 it is computed by the series `R^2 / 8 - R^4 / 576`.

    Args:
        log_range: R, nats, at least 0.

    Returns:
        Nats; 0 for R = 0; attained by a g of two values.

    Raises:
        InputError: a negative or infinite range.

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
    """Compute the largest total variation of P and Q if `dP / dQ ~ exp(g)` and g has a range R: `tanh(R / 4)`.

    Args:
        log_range: R, nats, at least 0, as in `range_divergence`.

    Returns:
        A number in [0, 1); attained by a g of two values. For released posterior draws, R is the epsilon of all of them
        together.

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


# --------------------------------------------------------------------------------------------------------------------
# Limits of what an adversary can learn and distinguish under an (epsilon, delta) guarantee.
#
# The bounds follow from the guarantee alone: they hold for every mechanism, and for an adversary who knows all other
# records. An (epsilon, delta) mechanism is dominated by a coin: with probability delta it reveals everything, otherwise
# it moves odds by at most exp(epsilon) (Kairouz, Oh and Viswanath, 2015, Theorem 3.1). So all bounds here are attained.


def moved_belief(prior: float, epsilon: float) -> float:
    """Compute the largest posterior probability of a fact if its odds move by at most a factor exp(epsilon).

    Args:
        prior: probability of the fact before the release, strictly between 0 and 1.
        epsilon: nats, at least 0.

    Returns:
        `p e^epsilon / (1 - p + p e^epsilon)`.

    Raises:
        InputError: a number out of its range.

    Source:
        Bayes' rule; Dimitrakakis et al. (JMLR 2017), Definition 2, read as a bound on likelihood ratios.

    Example:
        >>> round(moved_belief(0.01, 1.0), 4), round(moved_belief(0.5, 1.0), 4)
        (0.0267, 0.7311)
    """
    probability(prior=prior)
    not_negative(epsilon=epsilon)
    return 1 / (1 + (1 - prior) / prior * math.exp(-epsilon))


def best_distance(epsilon: float, delta: float) -> float:
    """Compute the largest total variation between neighbours' outputs: `(e^epsilon - 1 + 2 delta) / (e^epsilon + 1)`.

    The false alarm rate and the miss rate of the best test of one against the other sum to 1 less this.

    Args:
        epsilon: nats, at least 0.
        delta: at least 0, less than 1.

    Returns:
        A number in [0, 1).

    Raises:
        InputError: a number out of its range.

    Source:
        Kairouz, Oh and Viswanath (2015), Theorem 3.1, for k = 1.

    Example:
        >>> round(best_distance(1.0, 0.0), 4)
        0.4621
    """
    _require_promise(epsilon, delta)
    half = math.tanh(epsilon / 2)
    return half + delta * (1 - half)


def least_misses(false_alarms: float, epsilon: float, delta: float) -> float:
    """Compute the least miss rate of any test with a given false alarm rate: the trade-off curve of the guarantee.

    Args:
        false_alarms: probability of deciding that the record is present when it is not, between 0 and 1.
        epsilon: nats, at least 0.
        delta: at least 0, less than 1.

    Returns:
        `max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a))`.

    Raises:
        InputError: a number out of its range.

    Source:
        Wasserman and Zhou (2010), Theorem 2.4; Kairouz, Oh and Viswanath (2015), Theorem 2.1; attained.

    Example:
        >>> round(least_misses(0.05, 1.0, 0.0), 4)
        0.8641
    """
    _require_promise(epsilon, delta)
    if not 0 <= false_alarms <= 1:
        raise InputError(f"a rate of false alarms is at least 0 and at most 1, got {false_alarms}")
    mass = 1 - delta
    return max(0.0, mass - math.exp(min(epsilon, 700.0)) * false_alarms, math.exp(-epsilon) * (mass - false_alarms))


def records_to_tell(error: float, epsilon: float, delta: float) -> int:
    """Compute the least number of differing records for a test between data sets with error rates at most `error`.

    For k records the guarantee is `(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1))`. With `s = delta /
    (e^epsilon - 1)` the result is `ceil(ln((1 - error + s) / (error + s)) / epsilon)`, but at least 1.

    Args:
        error: rate of false alarms and of misses, greater than 0 and less than 1/2.
        epsilon: nats, greater than 0.
        delta: at least 0, less than 1.

    Returns:
        k, at least 1; necessary, and sufficient for the mechanism that discloses most.

    Raises:
        InputError: a number out of its range.

    Source:
        `least_misses` and group privacy (Dwork and Roth, 2014, Theorem 2.2; the sum of the series for delta); compare
        Dimitrakakis et al. (JMLR 2017), Theorem 13.

    Example:
        >>> records_to_tell(0.05, 1.0, 0.0), records_to_tell(0.05, 0.1, 0.0)
        (3, 30)
    """
    _require_promise(epsilon, delta)
    positive(epsilon=epsilon)
    if not 0 < error < 0.5:
        raise InputError(f"an error rate must be greater than 0 and less than 1/2, got {error}")
    slope = delta / math.expm1(min(epsilon, 700.0))
    # 1 - slope (x - 1) = error (1 + x), x being e^(k epsilon).
    return max(1, math.ceil(math.log((1 - error + slope) / (error + slope)) / epsilon - 1e-12))


def least_distinguishable(lipschitz: float, draws: int, failure: float) -> float:
    """Compute the distance below which an adversary cannot distinguish data sets from draws, by the paper's argument.

    `rho >= 3 ln(1 / delta) / (4 L n)` is NECESSARY for the posteriors' L1 distance to exceed the adversary's error of
    `discreet.research.empirical_error`; it is not sufficient.

    Args:
        lipschitz: L of Assumption 1, greater than 0.
        draws: n, number of draws that the adversary sees.
        failure: delta, failure probability of the adversary.

    Returns:
        The least rho, `3 ln(1 / delta) / (4 L n)`; its unit is that of the distance in Assumption 1.

    Raises:
        InputError: a number that is not positive and finite, or a probability outside (0, 1).

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 13, first form, with its "if" corrected to "only if".

    Example:
        >>> round(least_distinguishable(1.0, 10, 0.05), 3)
        0.225
    """
    positive(lipschitz=lipschitz, draws=draws)
    probability(failure=failure)
    return -3 * math.log(failure) / (4 * lipschitz * draws)


def _require_promise(epsilon: float, delta: float) -> None:
    """Raise an error unless epsilon and delta can be those of a guarantee: epsilon finite, at least 0, delta in [0, 1).

    Raises:
        InputError: one of them is out of its range.
    """
    not_negative(epsilon=epsilon)
    if not 0 <= delta < 1:
        raise InputError(f"delta must be at least 0 and less than 1, got {delta}")


def le_cam(separation: float, distance: float) -> float:
    """Compute the least worst-case error of every guess of the data from an output: `separation / 2 (1 - distance)`.

    Args:
        separation: rho of two data sets (or least rho between two sets of them), at least 0.
        distance: total variation of the laws of the output under the two; in [0, 1].

    Returns:
        `max over the two of E rho(guess, data)` is at least this.

    Raises:
        InputError: a negative separation, or a distance outside [0, 1].

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 18 (Le Cam), with separation = 2 delta and `||xi1 ^ xi2|| = 1 - TV`.

    Example:
        >>> round(le_cam(1, best_distance(1.0, 0.0)), 4)
        0.2689
    """
    not_negative(separation=separation)
    if not 0 <= distance <= 1:
        raise InputError(f"a total variation is at least 0 and at most 1, got {distance}")
    return separation / 2 * (1 - distance)


def least_guess_error(epsilon: float, delta: float) -> float:
    """Compute the largest bound by `le_cam` over data sets that differ in k records, k from 1 on.

    For k records the guarantee is `(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1))`, as in `records_to_tell`.

    Args:
        epsilon: nats, greater than 0.
        delta: at least 0, less than 1.

    Returns:
        Records: whoever guesses the records from the release, and knows everything else, is off by so many on average
        for some data set, however the guess is made.

    Raises:
        InputError: a number out of its range.

    Example:
        >>> round(least_guess_error(1.0, 0.0), 4), round(least_guess_error(0.1, 0.0), 2)
        (0.2689, 2.78)
    """
    _require_promise(epsilon, delta)
    positive(epsilon=epsilon)
    # x / (1 + e^x), of x = k epsilon, is largest at 1.28; a delta brings the best k down.
    sizes = range(1, min(math.ceil(1.3 / epsilon), MOST_GUESSED) + 1)
    slope = delta / math.expm1(min(epsilon, 700.0))
    deltas = ((size, min(slope * math.expm1(min(size * epsilon, 700.0)), 1.0)) for size in sizes)
    return max(le_cam(size, best_distance(size * epsilon, lost)) for size, lost in deltas if lost < 1)


MOST_GUESSED = 10_000
"""Largest number of records in which compared data sets differ."""
LISTED_UNITS = (1, 2, 5, 10)
"""Numbers of units of the changes that an explanation lists, up to the widest range of a reading."""
PRIOR_BELIEFS = (0.01, 0.5)
"""Probabilities of a sensitive fact before the release: a rare fact and an even one."""
TOLD_FALSE_ALARMS = (0.01, 0.05, 0.1, 0.25)
TEST_ERROR = 0.05
"""Error rate of a test that distinguishes data sets, and probability with which a bound may fail."""
CLEAR_DEVIATIONS = 3.0
"""Standard deviations of the noise that every cell of a row must exceed for the second-order mean: the next term is
then a third of it."""
OTHER_CONCENTRATIONS = (DEFAULT_CONCENTRATION, 1.0)
"""Concentrations of the alternative priors: the curator's default and the uniform prior."""


@overload
def explain(
    release: Release,
    queries: str | Sequence[str] = ...,
    *,
    rng: Seed = ...,
    level: float = ...,
    draws: int = ...,
    rows: int = ...,
    prior: Dirichlet | None = ...,
) -> Explanation: ...
@overload
def explain(
    release: Combined | External,
    queries: str | Sequence[str] = ...,
    *,
    rng: Seed = ...,
    level: float = ...,
    draws: int = ...,
    rows: int = ...,
    prior: Dirichlet | None = ...,
) -> CombinedExplanation: ...
def explain(
    release: Evidence,
    queries: str | Sequence[str] = (),
    *,
    rng: Seed = None,
    level: float = DEFAULT_LEVEL,
    draws: int = 1000,
    rows: int = 5,
    prior: Dirichlet | None = None,
) -> Explanation | CombinedExplanation:
    """Explain the effect of one record on a release, and the dependence of its answers on the tables.

    Under a metric, effects are those of a change of one unit, and of a few; nothing is stated about a whole record, and
    `telling` is None.

    Of combined releases the effect of a record on all releases of a data set together follows from their composed
    guarantee; the rest is explained release by release. Figures by others have no explanation.

    Args:
        release: release of any kind, or combined ones. The effect of a record, and how well data sets can be
            distinguished, follow from the guarantee alone; the rest needs a release over a network with a posterior.
        queries: probabilities, such as "P(lung | smoke=yes)", or a single text; their variance is decomposed by tables
            and rows. A query for a number is replaced by one for the bins that determine it, `P(X | evidence)`.
        rng: source of the posterior's draws; nothing here is private.
        level: posterior probability of each interval.
        draws: number of posterior draws, which are made only if a query is for a probability. The posterior assumes the
            public network (`trust_network`), even where `answer` by default does not.
        rows: largest number of rows listed for each query.
        prior: the analyst's own prior. Queries are answered under it, too, with what a decision by the first answer
            loses for one who believes it; and of draws the largest effect of their own prior in its place.

    Returns:
        The parts; `str` writes them as text, `document` as JSON. Some parts are missing, with a note. For a release
        over a design, or of a network's structure alone, only the limits that follow from the guarantee are there, and
        queries are not parsed. There is no decomposition of queries of other kinds (MAP, MPE), of those that cannot be
        answered, and of any if `noise_aware` refuses the release. Queries are answered under the release's prior and,
        by redraws, under alternative ones (Dirichlet(1/4) and Dirichlet(1)) unless a redraw is refused.

    Raises:
        InputError: figures by others alone; a query or prior that does not fit the network, a level outside (0, 1), or
            no number of draws or rows.
        DiscreetError: no posterior could be drawn for another reason than invalid input, as in `noise_aware`.

    Guarantee:
        No budget is spent; only the release is read.

    Source:
        Kairouz, Oh and Viswanath (2015) for tests, at `k epsilon` for k units of a metric; Zhang et al. (AAAI 2016),
        Theorem 1 and Lemma 4, Dimitrakakis et al. (JMLR 2017), Definition 2, Theorems 7, 13 and 17, Lemmas 14, 15 and
        18, Corollary 16, Chowdhury et al. (ICML 2020),
        equations (7) and (8) and Theorem 4.2, all as corrected in docs/papers.md.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> tossed = dc.tools.count_codes(coin, {"coin": [0, 1, 1, 0, 1]})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
        >>> made = dc.simulate(dc.laplace(), tossed, dc.Dirichlet.uniform(coin), promise, rng=1)
        >>> told = dc.explain(made)
        >>> told.promise.value, told.promise.private, round(told.telling.distance, 2)
        (1.0, False, 0.46)
    """
    rng, releases = as_generator(rng), _list_releases(release)
    if release.parts != (release,):
        parts = {
            each.id: explain(each, queries, rng=rng, level=level, draws=draws, rows=rows, prior=prior)
            for each in releases
        }
        return CombinedExplanation(tuple(map(describe_together, release.guarantees)), parts)
    release = release.one_release
    check_level(level)
    if not (draws > 0 and rows > 0):
        raise InputError(f"an explanation needs at least one draw and one row, got {draws} and {rows}")
    promise = describe_promise(release)
    telling = None if isinstance(promise, MetricLimits) else _describe_distinguishability(release)
    if note := _find_obstacle(release):
        return Explanation(promise, telling, None, (), (), (note,))
    parsed = _read_queries([queries] if isinstance(queries, str) else queries, release.network)
    with under_way("explaining"):
        divergence, reach = _describe_divergence(release), _describe_reach(release, prior)
    probabilities = [query for query in parsed if isinstance(query, Probability)]
    others = [query for query in parsed if not isinstance(query, Probability)]
    notes = [f"{query}: only probabilities are taken apart; ask for P(...)" for query in others]
    if not probabilities:
        return Explanation(promise, telling, divergence, (), (), tuple(notes), reach)
    try:
        posterior = noise_aware(release, draws=draws, rng=rng, trust_network=True)
    except InputError as error:
        return Explanation(promise, telling, divergence, (), (), (*notes, f"no answers: {error}"), reach)
    with under_way("explaining"):
        dependences, more_notes = _decompose_variances(posterior, probabilities, level, rows)
        readings, refusals = _read_under_priors(release, posterior, prior, rng)
        priors = _answer_under_priors(readings, probabilities, level)
    all_notes = (*notes, *more_notes, *refusals)
    return Explanation(promise, telling, divergence, tuple(dependences), priors, all_notes, reach)


def _find_obstacle(release: Release) -> str:
    """Write the reason why answers cannot be decomposed; "" if they can.

    There is a reason for a release over a design, which has no network, and for one whose posterior is of the network's
    structure alone.
    """
    if not release.networks:
        return f"over a {release.over.domain}: what answers depend on, and other priors, are told of networks only"
    if posterior_kind(release) == "structure":
        return (
            "a network was chosen and nothing else measured: there is no posterior, and no answer; releases that are "
            "made with it (`--network FILE`) have them"
        )
    return ""


def _read_queries(texts: Sequence[str], network: Network) -> list[PlainQuery]:
    """Parse queries; one on a number becomes `P(variable | evidence)`, the query of its bins.

    Args:
        texts: queries.
        network: of the release.

    Returns:
        The queries in the given order, of probabilities or of most probable states; those that a composed one is
        computed from take its place.

    Raises:
        InputError: no query, or a query that does not fit the network.
    """
    return [query.bins if isinstance(query, NumberQuery) else query for query in plain_queries(texts, network)]


def _decompose_variances(
    posterior: PosteriorDraws, queries: Sequence[Probability], level: float, rows: int
) -> tuple[list[Dependence], list[str]]:
    """Decompose the variance of each probability by tables and rows, and write notes.

    Args:
        posterior: posterior of the release.
        queries: queries for probabilities.
        level: posterior probability of each interval.
        rows: largest number of rows listed for each query.

    Returns:
        (decompositions of the queries that have one, in their order; notes). A note `QUERY: REASON` is written for each
        query that is refused with an InputError (if only its answer is refused, the decomposition is kept), and for
        each answer that rests on the prior alone in some part.
    """
    dependences, notes = list[Dependence](), list[str]()
    for query in queries:
        try:
            dependences.append(dependence(posterior, query, level=level, rows=rows))
            unknown = answer(posterior, query, level=level).prior_only
            notes += [f"{query}: {prior_only_words(unknown)}"] if unknown else []
        except InputError as error:
            notes.append(f"{query}: {str(error).removeprefix(f'{query}: ')}")
    return dependences, notes


def describe_promise(release: Release) -> InferenceLimits | MetricLimits:
    """Compute the limits of inference about a record or, under a metric, about changes of some units.

    Args:
        release: release of any kind.

    Returns:
        Limits under a metric if the guarantee has one, else limits about one record.
    """
    if release.guarantee.relation is Relation.METRIC:
        return _describe_changes(release)
    return _describe_promise(release.guarantee, private=release.private)


NO_ONE_GUARANTEE = (
    "they have no one guarantee: their relations or units differ, or simulations or figures by others are among them"
)


def _list_releases(evidence: Evidence) -> list[Release]:
    """List the releases of some evidence; figures by others are left out.

    Raises:
        InputError: it is no evidence, or has figures by others alone.
    """
    if not isinstance(evidence, Evidence):
        raise InputError(f"a release or combined releases were expected, not {type(evidence).__name__}")
    releases = [part.one_release for part in evidence.parts if part.one_release is not None]
    if not releases:
        raise InputError(
            "these are figures by others, with their source's guarantee: explain is for releases of this package; use "
            "`query` for these"
        )
    return releases


def describe_together(guarantee: Guarantee | None) -> InferenceLimits | str:
    """Compute the limits of inference about a record by all releases of a data set, or say why there are none."""
    if guarantee is None:
        return NO_ONE_GUARANTEE
    if guarantee.relation is Relation.METRIC:
        return f"their guarantee under the metric adds up: {guarantee}"
    return _describe_promise(guarantee, private=True)


def _describe_promise(guarantee: Guarantee, *, private: bool) -> InferenceLimits:
    """Compute the limits of inference about a record.

    Args:
        guarantee: under a relation of records.
        private: whether it holds; simulations promise nothing.

    Returns:
        Limits for the beliefs PRIOR_BELIEFS. A record's presence has the epsilon of the guarantee under ADD_REMOVE, and
        is unprotected (None) otherwise. A record's value has epsilon and delta of the guarantee converted to REPLACE;
        if this has a delta of 1 or more, its nats are None and its delta is 1.
    """
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    presence, value = (epsilon if guarantee.relation is Relation.ADD_REMOVE else None), _convert_to_values(guarantee)
    nats = None if value is None else float(value.epsilon)
    beliefs = {prior: (_bound_belief(prior, presence), _bound_belief(prior, nats)) for prior in PRIOR_BELIEFS}
    value_delta = 1.0 if value is None else float(value.delta)
    named = (str(guarantee), str(guarantee.relation), guarantee.unit, private)
    return InferenceLimits(*named, presence, nats, delta, value_delta, beliefs)


def _bound_belief(prior: float, nats: float | None) -> float | None:
    """Compute the largest posterior belief if odds move by at most exp(nats); None if `nats` is None (no guarantee)."""
    return None if nats is None else moved_belief(prior, nats)


def _convert_to_values(guarantee: Guarantee) -> Guarantee | None:
    """Convert the guarantee to one for two values of a record: remove one, add the other.

    Returns:
        Under ADD_REMOVE the guarantee for REPLACE, or None if its delta would be 1 or more; otherwise the guarantee
        itself.
    """
    if guarantee.relation is not Relation.ADD_REMOVE:
        return guarantee
    with suppress(InputError):
        return convert(guarantee, Relation.REPLACE)
    return None


def _describe_changes(release: Release) -> MetricLimits:
    """Compute the limits of inference about a change of k units, at `k epsilon` and `k delta`.

    Args:
        release: release under a metric.

    Returns:
        Limits for k in LISTED_UNITS; if variables have bounds, for these limited to the widest range of a reading, `max
        ceil((high - low) / amount of the unit)`, and for that range itself, in ascending order without repetitions.
        Then the widest range (None without bounds), and the least numbers of units for tests with error rates
        TEST_ERROR.
    """
    guarantee, epsilon, delta = release.guarantee, float(release.guarantee.epsilon), float(release.guarantee.delta)
    ranges = [variable.bounds for network in release.networks for variable in network.variables if variable.bounds]
    spans = [math.ceil((Fraction(high) - Fraction(low)) / guarantee.unit_amount) for low, high in ranges]
    widest = None if distance_of(guarantee) else max(spans, default=None)
    changed = LISTED_UNITS if widest is None else sorted({min(units, widest) for units in (*LISTED_UNITS, widest)})
    named = (str(guarantee), str(guarantee.relation), guarantee.unit, release.private)
    changes = tuple(_describe_change(units, units * epsilon, units * delta) for units in changed)
    necessary = None if delta else least_distinguishable(epsilon / 2, 1, TEST_ERROR)
    # Delta counts k times for k units; the pure number is the largest that can be needed.
    pure, meant = records_to_tell(TEST_ERROR, epsilon, 0.0), tuple(release.unit_lines)
    tell = (k for k in range(1, pure) if least_misses(TEST_ERROR, k * epsilon, _cap(k * delta)) <= TEST_ERROR)
    needed = next(tell, pure)
    return MetricLimits(*named, changes, widest, TEST_ERROR, needed, necessary, meant)


def _cap(delta: float) -> float:
    """Cap a delta of several units below 1, where nothing is promised."""
    return min(delta, math.nextafter(1.0, 0.0))


def _describe_change(units: int, nats: float, delta: float) -> Change:
    """Compute the effect on beliefs and tests of a change by so many nats.

    Args:
        units: size of the change, which is passed on.
        nats: largest change of log odds, as if with probability delta anything may be told.
        delta: of the change.

    Returns:
        Largest beliefs for PRIOR_BELIEFS, total variation, and least miss rates for TOLD_FALSE_ALARMS.
    """
    beliefs = {prior: moved_belief(prior, nats) for prior in PRIOR_BELIEFS}
    chance = _cap(delta)
    misses = {alarms: least_misses(alarms, nats, chance) for alarms in TOLD_FALSE_ALARMS}
    return Change(units, nats, beliefs, best_distance(nats, chance), misses, chance)


def _describe_distinguishability(release: Release) -> Distinguishability:
    """Compute the limits on tests that distinguish data sets which differ in one unit.

    Args:
        release: release under a relation of records.

    Returns:
        Total variation, least miss rates for TOLD_FALSE_ALARMS, and the least numbers of units for error rates
        TEST_ERROR. If delta is positive, the number for an adversary who compares draws is None. The limits of released
        draws are None unless draws were released and delta is 0.
    """
    epsilon, delta = float(release.guarantee.epsilon), float(release.guarantee.delta)
    misses = {alarms: least_misses(alarms, epsilon, delta) for alarms in TOLD_FALSE_ALARMS}
    units = records_to_tell(TEST_ERROR, epsilon, delta)
    # A pure epsilon is 2 L for each record.
    necessary = None if delta else least_distinguishable(epsilon / 2, 1, TEST_ERROR)
    number, together = None, None
    if (drawn := release.unit_payload.drawn_together) and not delta:
        number, together = drawn[0], _bound_distance_of_draws(epsilon, drawn[1])
    unit, distance = release.guarantee.unit, best_distance(epsilon, delta)
    guess = least_guess_error(epsilon, delta)
    return Distinguishability(unit, distance, misses, TEST_ERROR, units, necessary, number, together, guess)


def _bound_distance_of_draws(epsilon: float, total_scale: float | None) -> float:
    """Bound the total variation of draws and a noisy number of records together: `1 - (1 - TV_1) (1 - TV_2)`.

    Args:
        epsilon: nats of the whole release.
        total_scale: scale b of the Laplace noise on the number of records; None if no such number was released.

    Returns:
        A number in [0, 1]. `TV_2 = tanh(e / 2)` of the number, which has `e = min(1 / b, epsilon)` (0 without it), and
        `TV_1 = tanh((epsilon - e) / 4)` of the draws.
    """
    total_epsilon = 0.0 if total_scale is None else min(1 / total_scale, epsilon)
    return 1 - (1 - range_distance(epsilon - total_epsilon)) * (1 - best_distance(total_epsilon, 0.0))


def _describe_divergence(release: Release) -> Divergence:
    """Compute bounds on the divergence of the release's posterior from that of the exact records, in nats.

    Args:
        release: release over a network.

    Returns:
        For draws whose log weight has a bounded range, the effect of one record (under a metric: of a change of one
        unit) on the law of a draw, and nothing else. Otherwise the effect of one record on the posterior of exact
        records (None under a metric) and, for noisy counts that can be pooled, the bound for taking them as exact (else
        `limit` is None).
    """
    relation = release.guarantee.relation
    reach = release.payload.log_range(release.calibration, relation)
    if reach is not None:
        moved = range_divergence(reach * release.policy.steps)
        record, change = (None, moved) if relation is Relation.METRIC else (moved, None)
        return Divergence(record, change, True, None, TEST_ERROR, {}, 0.0, 0, 0, ())
    record = None if relation is Relation.METRIC else record_divergence(release.dirichlet, relation)
    measurements = release.measurements
    if not measurements or not is_poolable(measurements):
        return Divergence(record, None, False, None, TEST_ERROR, {}, 0.0, 0, 0, ())
    return _describe_count_divergence(release, record)


def _describe_count_divergence(release: Release, record: float | None) -> Divergence:
    """Bound the divergence of the posterior that takes noisy counts as exact from that of the exact counts, in nats.

    Tables are fitted by plain least squares, and counts are clipped at 0 and at the number of records, if that is
    public. The noise of every cell is bounded by `largest_error`, with probability TEST_ERROR over all cells together;
    the prior is the curator's.

    Args:
        release: release of noisy counts that can be pooled.
        record: largest divergence due to one record, which is passed on; None under a metric.

    Returns:
        The bound, which holds for all families together except with probability TEST_ERROR, with its parts by node,
        largest first; and the second-order mean, summed over the rows in which every cell is at least CLEAR_DEVIATIONS
        standard deviations of its noise (0 if there is no such row). Families that were not measured as a whole are
        left out and named in `unmeasured`, and the bound is None if none was; nodes of a single state are left out,
        too.
    """
    network = release.network
    margins = pooled_margins(network, release.measurements, release.records)
    most = np.inf if release.records is None else float(release.records)
    telling = [node for node in network.nodes if network.schema[node].size > 1]
    whole = [node for node in telling if network.ordered(network.family(node)) in margins.values]
    cells = sum(network.cells(network.family(node)) for node in whole)
    limits, expected, large, rows = dict[str, float](), 0.0, 0, 0
    for node in whole:
        family, parents, alpha = network.family(node), network.parents[node], release.dirichlet.alpha[node]
        deviation = margins.deviation(family)
        # Clipping at 0 and at public totals brings counts nearer to the exact ones.
        counts = np.clip(margins.table(family), 0, most)
        bound = largest_error(deviation, TEST_ERROR / cells, integers=True)
        limits[node] = float(divergence_limits(alpha, counts, bound, most).sum())
        clear = (counts >= CLEAR_DEVIATIONS * deviation).all(axis=-1)
        means = expected_divergences(alpha + counts, deviation**2, margins.deviation(parents) ** 2)
        expected, large, rows = expected + float(means[clear].sum()), large + int(clear.sum()), rows + clear.size
    ordered = dict(sorted(limits.items(), key=lambda pair: -pair[1]))
    missing, limit = tuple(node for node in telling if node not in limits), sum(limits.values()) if limits else None
    return Divergence(record, None, False, limit, TEST_ERROR, ordered, expected, large, rows, missing)


def _describe_reach(release: Release, prior: Dirichlet | None) -> Reach:
    """Compute what the mechanism does to choices and draws, and what draws lose under another prior.

    Args:
        release: release over a network.
        prior: prior of the analyst; None for none.

    Returns:
        For choices the bound on the score of every chosen one together, with probability 1 - TEST_ERROR: a candidate
        whose exponent is s below the best one's has probability `e^-s (1 - m) / m` at most, m the least base mass of a
        candidate. For draws of trimmed rows the prior's mass outside, and the effect of the other prior.

    Raises:
        InputError: a prior over another network.
    """
    if prior is not None and prior.network != release.network:
        raise InputError("the prior is over another network than the release")
    if (scores := release.scores) is not None:
        widths = [float(np.ptp(table, axis=-1).max()) for table in scores.tables.values()]
        sizes = next(iter(scores.tables.values())).shape[-1]
        masses = log_softmax(np.zeros(sizes) if scores.base is None else scores.base)
        least = float(masses[masses > -np.inf].min())
        nats = max(0.0, math.log(-math.expm1(least) * len(scores.chosen) / TEST_ERROR) - least)
        records = None if release.guarantee.relation is Relation.METRIC or not any(widths) else nats / math.fsum(widths)
        return Reach(nats, records, TEST_ERROR) if any(widths) else Reach()
    drawn = release.payload.drawn_rows(release.dirichlet, release.calibration)
    if drawn is None:
        return Reach()
    outside, log_range = 1.0, 0.0
    for scope, alpha in drawn.concentrations.items():
        floor, total = drawn.floors[scope], alpha.sum(axis=-1, keepdims=True)
        below = betainc(alpha, total - alpha, floor).sum(axis=-1)
        outside *= float(np.prod(1 - np.minimum(below, 1)))
        if prior is not None:
            node = next(name for name in release.network.nodes if release.network.family(name) == scope)
            change = (prior.alpha[node] - alpha).reshape(-1, alpha.shape[-1])
            log_range += math.fsum(prior_range(row, floor) for row in change)
    trimmed = any(drawn.floors.values()) and drawn.temper == 1
    lost = 1 - outside if trimmed else None
    if prior is None or log_range == math.inf:
        return Reach(outside=lost, unbounded=log_range > 0)
    moved = range_divergence(log_range), range_distance(log_range)
    return Reach(None, None, 0.0, lost, False, log_range, *moved)


def prior_range(change: npt.ArrayLike, floor: float) -> float:
    """Compute the range of `sum_k c_k ln theta_k` over rows of probabilities `theta_k >= w`, exactly.

    With c the difference of two priors' concentrations it is that of the log ratio of their densities, and so of their
    posteriors given the same data. States of a c below 0 are at the floor where the sum is largest; those above 0 share
    the rest in proportion to c, none below the floor; if there are none, the state of the c nearest to 0 has the rest.

    Args:
        change: c, shape (states,).
        floor: w, between 0 and 1 / states.

    Returns:
        Nats; 0 for c = 0 or w = 1 / states, infinite for w = 0 and another c.

    Source:
        Derived; the eta of Dimitrakakis et al. (JMLR 2017), Lemma 15, is between half of it and all of it.

    Example:
        >>> round(prior_range([1.0, 1.0], 0.1), 4), prior_range([0.5, 0.0], 0.0)  # ln(.25 / .09)
        (1.0217, inf)
    """
    weights = np.asarray(change, np.float64)
    if not weights.any() or weights.size * floor >= 1:
        return 0.0
    return math.inf if not floor else _largest_log_sum(weights, floor) + _largest_log_sum(-weights, floor)


def _largest_log_sum(weights: Floats, floor: float) -> float:
    """Compute the largest `sum_k c_k ln theta_k` over rows with `theta_k >= w`; see `prior_range`."""
    theta = np.full(weights.size, floor)
    free = weights > 0
    if not free.any():
        free = np.arange(weights.size) == weights.argmax()
        return float(weights @ np.log(np.where(free, 1 - (weights.size - 1) * floor, theta)))
    while True:
        theta[free] = weights[free] / weights[free].sum() * (1 - floor * (~free).sum())
        low = free & (theta < floor)
        if not low.any():
            return float(weights @ np.log(theta))
        theta[low], free = floor, free & ~low


def _answer_under_priors(
    readings: Sequence[tuple[str, PosteriorDraws]], queries: Sequence[Probability], level: float
) -> tuple[OtherPrior, ...]:
    """Answer queries under the release's prior and under alternative ones.

    Args:
        readings: priors' names and the posteriors under them.
        queries: queries for probabilities.
        level: posterior probability of each interval.

    Returns:
        For each query an answer under each prior, with "state", "mean", "lower" and "upper" of
        each row; none where the answer is refused with an InputError, such as for impossible evidence.
    """
    answers = []
    for query in queries:
        first: Floats | None = None
        for label, believed in readings:
            with suppress(InputError):  # impossible evidence has a note already
                rows = answer(believed, query, level=level).rows
                shown = tuple({name: row[name] for name in ("state", "mean", "lower", "upper")} for row in rows)
                means = np.array([row["mean"] for row in rows], np.float64)
                moved = means - (means if first is None else first)
                first = means if first is None else first
                # The states that the query leaves out are one more.
                answers.append(OtherPrior(str(query), label, shown, float(np.abs(moved).sum() + abs(moved.sum()))))
    return tuple(answers)


def _read_under_priors(
    release: Release, posterior: PosteriorDraws, analyst: Dirichlet | None, rng: np.random.Generator
) -> tuple[list[tuple[str, PosteriorDraws]], list[str]]:
    """Return the posterior and redraws of it under other priors, without repeating the curator's.

    A posterior with a family's own prior (method "family") is not redrawn. Redraws have the same number of draws and
    the same method, and assume the network's independences.

    Args:
        release: release over a network.
        posterior: posterior under its own prior.
        analyst: prior of the analyst; None for none.
        rng: source of the redraws.

    Returns:
        Pairs of a prior's name and the posterior under it. First the posterior itself: "the family's own" for method
        "family"; "learned from the release" for method "pooled" if its prior was learned (`learned_prior`); else "the
        curator's". Then `Dirichlet(c)` for each c of OTHER_CONCENTRATIONS; one that equals the curator's is left out,
        unless the posterior's prior was learned. Then a note for each of these with which `noise_aware` refuses the
        release with an InputError; it has no pair.

    Raises:
        DiscreetError: a redraw fails for another reason, as in `noise_aware`.
    """
    if posterior.method == "family":
        return [("the family's own", posterior)], []
    learned, curator_prior = learned_prior(release, None) and posterior.method == "pooled", release.dirichlet.alpha
    readings, notes = [("learned from the release" if learned else "the curator's", posterior)], list[str]()
    others = {f"Dirichlet({each:g})": Dirichlet.uniform(release.network, each) for each in OTHER_CONCENTRATIONS}
    for label, prior in (({} if analyst is None else {OWN_PRIOR: analyst}) | others).items():
        if learned or any(not np.array_equal(curator_prior[node], table) for node, table in prior.alpha.items()):
            draws, method = posterior.probabilities.draws or 1, cast(Method, posterior.method)
            try:
                redrawn = noise_aware(release, draws=draws, rng=rng, prior=prior, method=method, trust_network=True)
                readings.append((label, redrawn))
            except InputError as error:
                notes.append(f"no answers under {label}: {error}")
    return readings, notes


def largest_error(deviation: float, failure: float, *, integers: bool) -> float:
    """Compute a bound on an estimate's error that uses only a symmetric, log-concave law and its standard deviation.

    All linear functions of Laplace noise, Gaussian noise and star noise (that of tables which share variables, with
    noise that agrees on these; see `noise/star.py`) have such laws. With c = ln(1 / p) the bound is `t = c s / sqrt(2
    (1 - p (1 + c)))`, and `c sqrt(s^2 + 1/6) / sqrt(2 (1 - p (1 + c))) + 1` for whole numbers: the survival function G
    of the absolute error is log-concave, too, so at s' < t `G(s') >= p^(s' / t)` where G(t) = p, and the variance is at
    least twice the integral of `s' p^(s' / t)` up to t. As p approaches 1, t approaches s.

    Args:
        deviation: s, standard deviation of the error; at least 0.
        failure: p, largest probability with which the absolute error exceeds the bound.
        integers: whether the noise is whole numbers, which have no density: 1/6 is added to the variance and 1 to t.
            That is enough for discrete Laplace noise, as `1 / sinh(x)^2 >= 1 / x^2 - 1 / 3`; other tails are lighter.

    Returns:
        t, in the unit of the deviation; nearly attained by Laplace noise for small p.

    Raises:
        InputError: a negative or infinite deviation, or a probability outside (0, 1).

    Source:
        Derived; Zhang et al. (AAAI 2016), Proposition 1, for sums of noise in the place of single terms.

    Example:
        >>> round(largest_error(2**0.5, 0.01, integers=False), 2)  # Laplace noise of scale 1: 4.61
        4.74
    """
    not_negative(deviation=deviation)
    probability(failure=failure)
    exponent = -math.log(failure)
    spread = math.sqrt(deviation**2 + 1 / 6) if integers else deviation
    # 1 - p (1 + c) is the incomplete gamma function P(2, c): no difference of near-equal numbers for p near 1.
    return spread * exponent / math.sqrt(2 * float(gammainc(2, exponent))) + integers
