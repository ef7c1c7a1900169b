"""Explain a release: effects of one record, or of a change under a metric, and the dependence of its answers.

A family is a node with its parents; a row is the node's distribution in one state of the parents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln, polygamma

from discreet.errors import InputError
from discreet.model.dirichlet import DEFAULT_CONCENTRATION, Dirichlet
from discreet.model.query_grammar import NumberQuery, Probability, Query, check_names, parse_query
from discreet.model.schema import Schema
from discreet.posterior.basis import prior_only_words
from discreet.posterior.joint_draws import PosteriorDraws, learned_prior
from discreet.posterior.methods import Method, noise_aware
from discreet.posterior.pooled.least_squares import pooled_margins
from discreet.posterior.pooled.measured import is_poolable
from discreet.posterior.read import posterior_kind
from discreet.privacy.guarantee import Guarantee, Relation, convert
from discreet.queries.bounds import largest_error
from discreet.queries.credible import check_level
from discreet.queries.explanation import (
    Change,
    Distinguishability,
    Divergence,
    Explanation,
    InferenceLimits,
    MetricLimits,
    OtherPrior,
)
from discreet.queries.query import answer
from discreet.queries.row_shares import Dependence, dependence
from discreet.releases.release import Release
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

    The divergence is convex in Z, so the maximum is at a corner of the box. Rows of up to 12 states are maximised
    exactly; longer ones by the bound that follows from `ln Gamma(B) >= ln Gamma(w) + psi(w) (B - w)` for the sum B of a
    corner and any w, under which the states separate.

    Args:
        alpha: concentrations, greater than 0; the last axis is that of the states.
        counts: N, records, same shape, at least 0 and at most `most`.
        noise: t, records, at least 0.
        most: upper limit to which the box is clipped: the number of records if that is public, else infinity.

    Returns:
        Nats, one for each row.

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
        Nats, at least 0, shape (rows,): the exact maximum, which is at a corner of the box, for up to VERTEX_STATES
        states; for more an upper bound, the least of TANGENTS tangent bounds, which may exceed the maximum.
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
    """Compute a row posterior's expected KL from that of noisy counts: `(v sum_k psi'(a_k) - w psi'(sum_k a_k)) / 2`.

    The approximation is of second order in the noise, so it needs cells that are several noise deviations above 0.

    Args:
        concentrations: a, prior and counts together; the last axis is that of the states.
        cell: v, variance of the noise in a cell, records squared.
        row: w, variance of the noise in the row's total; K v if cells are independent.

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
    """Bound the KL by which one record can move the posterior of exact counts, whatever the other records are.

    One more record in cell k of a row moves it by `KL(Dir(a) || Dir(a + e_k)) = ln(a_k / A) + psi(A) - psi(a_k)`, A the
    sum of a, which is less than `ln a_k - psi(a_k)` and approaches it for large A; in the other direction by less than
    `psi(a_k + 1) - ln a_k`. Both decrease in a_k, so cells without records are the worst. Divergences of families add
    up, and replacing a record does both.

    Args:
        prior: alpha; no row is trimmed.
        relation: which data sets are neighbours.

    Returns:
        Nats, in the direction that is larger. Finite, although no draw from such a posterior has a pure epsilon.

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
    under Assumption 1, or the exact loss of a record as `likelihood_sensitivity.record_loss` computes it. About R^2 / 8
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

    For k records the guarantee is `(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1))`.

    Args:
        error: rate of false alarms and of misses, between 0 and 1/2.
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
    `experiments.paper_distance.empirical_error`; it is not sufficient.

    Args:
        lipschitz: L of Assumption 1, greater than 0.
        draws: n, number of draws that the adversary sees.
        failure: delta, failure probability of the adversary.

    Returns:
        rho.

    Raises:
        InputError: a number that is not positive, or a probability outside (0, 1).

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
    """Raise an error unless epsilon and delta can be those of a guarantee."""
    not_negative(epsilon=epsilon)
    if not 0 <= delta < 1:
        raise InputError(f"delta must be at least 0 and less than 1, got {delta}")


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


def explain(
    release: Release,
    queries: str | Sequence[str] = (),
    *,
    rng: Seed = None,
    level: float = DEFAULT_LEVEL,
    draws: int = 1000,
    rows: int = 5,
) -> Explanation:
    """Explain the effect of one record on a release, and the dependence of its answers on the tables.

    Under a metric, effects are those of a change of one unit, and of a few; nothing is stated about a whole record.

    Args:
        release: release of any kind. The effect of a record, and how well data sets can be distinguished, follow from
            the guarantee alone; the rest needs a release over a network with a posterior.
        queries: probabilities, such as "P(lung | smoke=yes)"; their variance is decomposed by tables and rows. A query
            for a number is replaced by one for the bins that determine it.
        rng: source of the posterior's draws; nothing here is private.
        level: posterior probability of each interval.
        draws: number of posterior draws, used for queries only. The posterior assumes the public network
            (`trust_network`), even where `answer` by default does not.
        rows: largest number of rows listed for each query.

    Returns:
        The parts; `str` writes them as text, `document` as JSON. Some parts are missing, with a note. For a release
        over a design, or of a network's structure alone, only the limits that follow from the guarantee are there, and
        queries are not parsed. There is no decomposition of queries of other kinds, of those that cannot be answered,
        and of any if no posterior can be drawn.

    Raises:
        InputError: a query that does not fit the network, a level outside (0, 1), or no number of draws or rows.

    Guarantee:
        No budget is spent; only the release is read.

    Source:
        Kairouz, Oh and Viswanath (2015) for tests, at `k epsilon` for k units of a metric; Zhang et al. (AAAI 2016),
        Theorem 1, Dimitrakakis et al. (JMLR 2017), Definition 2, Theorems 7 and 13, Chowdhury et al. (ICML 2020),
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
    rng = as_generator(rng)
    check_level(level)
    if not (draws > 0 and rows > 0):
        raise InputError(f"an explanation needs at least one draw and one row, got {draws} and {rows}")
    promise = describe_promise(release)
    telling = None if isinstance(promise, MetricLimits) else _describe_distinguishability(release)
    if note := _find_obstacle(release):
        return Explanation(promise, telling, None, (), (), (note,))
    parsed = _read_queries([queries] if isinstance(queries, str) else queries, release.network.schema)
    with under_way("explaining"):
        divergence = _describe_divergence(release)
    probabilities = [query for query in parsed if isinstance(query, Probability)]
    others = [query for query in parsed if not isinstance(query, Probability)]
    notes = [f"{query}: only probabilities are taken apart; ask for P(...)" for query in others]
    if not probabilities:
        return Explanation(promise, telling, divergence, (), (), tuple(notes))
    try:
        posterior = noise_aware(release, draws=draws, rng=rng, trust_network=True)
    except InputError as error:
        return Explanation(promise, telling, divergence, (), (), (*notes, f"no answers: {error}"))
    with under_way("explaining"):
        dependences, more_notes = _decompose_variances(posterior, probabilities, level, rows)
        priors = _answer_under_priors(release, posterior, probabilities, level, rng)
    return Explanation(promise, telling, divergence, tuple(dependences), priors, (*notes, *more_notes))


def _find_obstacle(release: Release) -> str:
    """Write the reason why answers cannot be decomposed; "" if they can."""
    if not release.networks:
        return f"over a {release.over.domain}: what answers depend on, and other priors, are told of networks only"
    if posterior_kind(release) == "structure":
        return (
            "a network was chosen and nothing else measured: there is no posterior, and no answer; releases that are "
            "made with it (`--network FILE`) have them"
        )
    return ""


def _read_queries(texts: Sequence[str], schema: Schema) -> list[Query]:
    """Parse queries; queries of numbers are replaced by the probabilities of the bins that determine them."""
    parsed = [parse_query(text, schema) for text in texts]
    for query in parsed:
        check_names(query, schema)
    return [query.bins if isinstance(query, NumberQuery) else query for query in parsed]


def _decompose_variances(
    posterior: PosteriorDraws, queries: Sequence[Probability], level: float, rows: int
) -> tuple[list[Dependence], list[str]]:
    """Decompose the variance of each probability by tables and rows, and write notes.

    Args:
        posterior: posterior of the release.
        queries: queries for probabilities.
        level: posterior probability of each interval.
        rows: number of rows listed for each query.

    Returns:
        (decompositions of the queries that have answers; notes on queries without answers, and on answers that rest on
        the prior alone in some part).
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
    return _describe_changes(release) if release.guarantee.relation is Relation.METRIC else _describe_promise(release)


def _describe_promise(release: Release) -> InferenceLimits:
    """Compute the limits of inference about a record."""
    guarantee = release.guarantee
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    presence, value = (epsilon if guarantee.relation is Relation.ADD_REMOVE else None), _convert_to_values(guarantee)
    nats = None if value is None else float(value.epsilon)
    beliefs = {prior: (_bound_belief(prior, presence), _bound_belief(prior, nats)) for prior in PRIOR_BELIEFS}
    value_delta = 1.0 if value is None else float(value.delta)
    named = (str(guarantee), str(guarantee.relation), guarantee.unit, release.private)
    return InferenceLimits(*named, presence, nats, delta, value_delta, beliefs)


def _bound_belief(prior: float, nats: float | None) -> float | None:
    """Compute the largest posterior belief from a prior one; None if there is no guarantee."""
    return None if nats is None else moved_belief(prior, nats)


def _convert_to_values(guarantee: Guarantee) -> Guarantee | None:
    """Convert the guarantee to one for two values of a record: remove one, add the other; None if there is none."""
    if guarantee.relation is not Relation.ADD_REMOVE:
        return guarantee
    with suppress(InputError):
        return convert(guarantee, Relation.REPLACE)
    return None


def _describe_changes(release: Release) -> MetricLimits:
    """Compute the limits of inference about a change of k units, at `k epsilon`.

    Args:
        release: release under a metric.

    Returns:
        Limits for LISTED_UNITS and for the widest range of a reading, none wider than that.
    """
    guarantee, epsilon = release.guarantee, float(release.guarantee.epsilon)
    ranges = [variable.bounds for network in release.networks for variable in network.variables if variable.bounds]
    widest = max(
        (math.ceil((Fraction(high) - Fraction(low)) / guarantee.unit_amount) for low, high in ranges), default=None
    )
    changed = LISTED_UNITS if widest is None else sorted({min(units, widest) for units in (*LISTED_UNITS, widest)})
    named = (str(guarantee), str(guarantee.relation), guarantee.unit, release.private)
    changes = tuple(_describe_change(units, units * epsilon) for units in changed)
    necessary = least_distinguishable(epsilon / 2, 1, TEST_ERROR)
    needed, meant = records_to_tell(TEST_ERROR, epsilon, 0.0), tuple(release.unit_lines)
    return MetricLimits(*named, changes, widest, TEST_ERROR, needed, necessary, meant)


def _describe_change(units: int, nats: float) -> Change:
    """Compute the effect on beliefs and tests of a change by so many nats."""
    beliefs = {prior: moved_belief(prior, nats) for prior in PRIOR_BELIEFS}
    misses = {alarms: least_misses(alarms, nats, 0.0) for alarms in TOLD_FALSE_ALARMS}
    return Change(units, nats, beliefs, best_distance(nats, 0.0), misses)


def _describe_distinguishability(release: Release) -> Distinguishability:
    """Compute the limits on tests that distinguish data sets which differ in one unit.

    Args:
        release: release under a relation of records.

    Returns:
        The limits; those of released draws only if draws were released and delta is 0.
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
    return Distinguishability(unit, distance, misses, TEST_ERROR, units, necessary, number, together)


def _bound_distance_of_draws(epsilon: float, total_scale: float | None) -> float:
    """Bound the total variation of draws and a noisy number of records together: `1 - (1 - TV_1) (1 - TV_2)`."""
    total_epsilon = 0.0 if total_scale is None else min(1 / total_scale, epsilon)
    return 1 - (1 - range_distance(epsilon - total_epsilon)) * (1 - best_distance(total_epsilon, 0.0))


def _describe_divergence(release: Release) -> Divergence:
    """Compute bounds on the divergence of the release's posterior from that of the exact records, in nats.

    Args:
        release: release over a network.

    Returns:
        For released draws, the effect on the law of a draw; else the effect of one record on the posterior, and for
        noisy counts that can be pooled also the bound for taking them as exact.
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

    Args:
        release: release of noisy counts that can be pooled.
        record: largest divergence due to one record, which is passed on; None under a metric.

    Returns:
        The bound, which holds for all families together except with probability TEST_ERROR, with its parts by node,
        largest first; and the second-order mean, summed over the rows in which every cell exceeds CLEAR_DEVIATIONS
        standard deviations of its noise (0 if there is no such row). Families that were not measured as a whole are
        left out and named in `unmeasured`; nodes of a single state are left out, too.
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
        bound = largest_error(deviation, TEST_ERROR / cells, whole=True)
        limits[node] = float(divergence_limits(alpha, counts, bound, most).sum())
        clear = (counts >= CLEAR_DEVIATIONS * deviation).all(axis=-1)
        means = expected_divergences(alpha + counts, deviation**2, margins.deviation(parents) ** 2)
        expected, large, rows = expected + float(means[clear].sum()), large + int(clear.sum()), rows + clear.size
    ordered = dict(sorted(limits.items(), key=lambda pair: -pair[1]))
    missing = tuple(node for node in telling if node not in limits)
    return Divergence(record, None, False, sum(limits.values()), TEST_ERROR, ordered, expected, large, rows, missing)


def _answer_under_priors(
    release: Release, posterior: PosteriorDraws, queries: Sequence[Probability], level: float, rng: np.random.Generator
) -> tuple[OtherPrior, ...]:
    """Answer queries under the release's prior and under alternative ones.

    Args:
        release: release over a network.
        posterior: posterior under its own prior.
        queries: queries for probabilities.
        level: posterior probability of each interval.
        rng: source of the redraws.

    Returns:
        Answers, query by query; none for evidence that is impossible.
    """
    answers = []
    readings = list(_read_under_priors(release, posterior, rng))
    for query in queries:
        for label, believed in readings:
            with suppress(InputError):  # impossible evidence has a note already
                rows = answer(believed, query, level=level).rows
                shown = tuple({name: row[name] for name in ("state", "mean", "lower", "upper")} for row in rows)
                answers.append(OtherPrior(str(query), label, shown))
    return tuple(answers)


def _read_under_priors(
    release: Release, posterior: PosteriorDraws, rng: np.random.Generator
) -> Iterator[tuple[str, PosteriorDraws]]:
    """Yield the posterior and redraws of it under other priors, without repeating the curator's.

    A posterior with a family's own prior is not redrawn.

    Args:
        release: release over a network.
        posterior: posterior under its own prior.
        rng: source of the redraws.

    Returns:
        Pairs of a prior's name and the posterior under it.
    """
    if posterior.method == "family":
        yield "the family's own", posterior
        return
    learned, curator_prior = learned_prior(release, None) and posterior.method == "pooled", release.dirichlet.alpha
    yield "learned from the release" if learned else "the curator's", posterior
    for concentration in OTHER_CONCENTRATIONS:
        prior = Dirichlet.uniform(release.network, concentration)
        if learned or any(not np.array_equal(curator_prior[node], table) for node, table in prior.alpha.items()):
            draws, method = posterior.probabilities.draws or 1, cast(Method, posterior.method)
            redrawn = noise_aware(release, draws=draws, rng=rng, prior=prior, method=method, trust_network=True)
            yield f"Dirichlet({concentration:g})", redrawn
