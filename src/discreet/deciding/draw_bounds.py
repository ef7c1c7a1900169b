"""Error bounds of decisions for a finite number of draws, and how many draws keep within a bound.

Each docstring names the claim of the papers that the bound is based on, and its correction.
"""

from __future__ import annotations

import math

from discreet.deciding.number_losses import NumberLoss, band_width
from discreet.errors import InputError
from discreet.util.number_checks import positive, probability


def response_error(draws: float, responses: int, queries: int, failure: float) -> float:
    """Bound the expected utility lost by deciding on posterior draws: `2 sqrt(ln(2 |Q| |R| / delta) / (2 N))`.

    Args:
        draws: N, number of independent draws, or the effective sample size of others.
        responses: |R|, number of responses to choose from.
        queries: |Q|, number of all possible queries, fixed before the draws are seen. If every query uses new draws,
            the number of queries made, however each was chosen.
        failure: delta, probability that some answer loses more.

    Returns:
        Loss against the best response under the same posterior, for utilities in [0, 1]: the error of every mean over
        the draws is at most half of it. It is not limited to 1.

    Raises:
        InputError: a number that is not positive and finite, or a probability outside (0, 1).

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 11, with the union over responses and queries that its ln(2 / delta)
        omits. The lemma lets queries depend on earlier answers from the same draws; then it is false, with or without
        the union (a bet on draws already seen loses the whole stake; see the page of errata).

    Example:
        >>> round(response_error(1000, 4, 100, 0.05), 4)
        0.1391
    """
    positive(draws=draws)
    return math.sqrt(2 * log_union(responses, queries, failure) / draws)


def plan_draws(
    loss: float, *, responses: int | NumberLoss, queries: int = 1, failure: float = 0.05, span: float = 1.0
) -> int:
    """Compute the number of independent draws with which no decision loses more than a given loss.

    For R responses it is the least N with `span response_error(N, R, queries, failure) <= loss`. For a point estimate
    it is the least N with `span^k W(D) <= loss`, where W is the largest regret over all draws with a confidence band of
    half-width `D = min(1, sqrt(ln(4 queries / failure) / (2 N)))`, for quantities in [0, 1], and k is 2 for squared
    loss and else 1. It is valid for any posterior. The bound that a decision reports from its own draws is no larger,
    and for numbers often far smaller: see `number_losses`.

    Args:
        loss: largest expected utility that each decision may lose, in the unit of the utility; greater than 0.
        responses: number of responses to choose from; or the loss function of a point estimate.
        queries: number of decisions, as in `response_error`.
        failure: probability that some decision loses more.
        span: range of the utility, or of the values of the quantity (largest less smallest).

    Returns:
        The smallest sufficient number, at least 1. Draws from a release cost only time; releasing a draw costs privacy:
        see `posterior_privacy`.

    Raises:
        InputError: a number that is not positive and finite, or a probability outside (0, 1).

    Guarantee:
        No budget is spent; no data are read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 11 with its union, solved for N; `number_losses` for numbers.

    Example:
        >>> import discreet as dc
        >>> dc.decisions.plan_draws(0.1, responses=4, queries=100)
        1937
        >>> losses = dc.decisions.Squared(), dc.decisions.Quantile(0.9)
        >>> [dc.decisions.plan_draws(0.1, responses=loss) for loss in losses]
        [22, 220]
    """
    positive(loss=loss, queries=queries, span=span)
    if isinstance(responses, int):
        wanted, log = loss / span, log_union(responses, queries, failure)
        draws = max(1, math.ceil(2 * log / wanted**2))
    else:
        probability(failure=failure)
        wanted = loss / span**responses.power
        draws = max(1, math.ceil((math.log(4 / failure) + math.log(queries)) / (2 * responses.width_for(wanted) ** 2)))

    def most(draws: int) -> float:
        """Compute the bound on the loss for a number of draws, for a span of 1."""
        if isinstance(responses, int):
            return response_error(draws, responses, queries, failure)
        return responses.widest(band_width(draws, failure / queries))

    while draws > 1 and most(draws - 1) <= wanted:
        draws -= 1
    while most(draws) > wanted:
        draws += 1
    return draws


def loss_of_trimming(outside: float, draws: int, responses: int, queries: int, failure: float) -> float:
    """Bound the expected utility lost by deciding with draws of a trimmed posterior: `m + (1 - m) response_error`.

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

    Guarantee:
        No budget is spent; no data are read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 17(b), corrected. It has the PRIOR mass, which bounds nothing once data
        disagree: with w = 0.1 and a uniform prior 0.2 lies outside a priori, 0.99998 after 100 ones. Averaged over the
        prior predictive both masses agree.

    Example:
        >>> import discreet as dc
        >>> round(dc.decisions.loss_of_trimming(0.02, 10_000, 4, 1, 0.05), 4)  # .0319 of it for the draws
        0.0512
    """
    if not 0 <= outside <= 1:
        raise InputError(f"a mass is at least 0 and at most 1, got {outside}")
    return outside + (1 - outside) * min(1.0, response_error(draws, responses, queries, failure))


def vector_error(draws: float, queries: int, failure: float) -> float:
    """Bound the squared distance of a mean over draws from the posterior mean: `(1 + sqrt(ln(Q / delta)))^2 / (2 N)`.

    Args:
        draws: N, number of independent draws, or the effective sample size of others.
        queries: Q, number of vectors; if every one uses new draws, however each was chosen.
        failure: delta, probability that some mean is further away.

    Returns:
        The bound for vectors no two of which are further apart than 1, of any number of coordinates; for others times
        the square of their largest distance. It is not limited to 1.

    Raises:
        InputError: a number that is not positive and finite, or a probability outside (0, 1).

    Guarantee:
        No budget is spent; no data are read.

    Source:
        Derived in `discreet.deciding.decide_vector`, from McDiarmid (1989); in the place of Dimitrakakis et al. (JMLR
        2017), Lemma 11, whose union over responses would be over infinitely many.

    Example:
        >>> import discreet as dc
        >>> round(dc.decisions.vector_error(1000, 1, 0.05), 5)
        0.00373
    """
    positive(draws=draws, queries=queries)
    probability(failure=failure)
    return (1 + math.sqrt(math.log(queries) - math.log(failure))) ** 2 / (2 * draws)


def log_union(responses: int, queries: int, failure: float) -> float:
    """Compute `ln(2 |Q| |R| / delta)`, the logarithm in a union bound over both sides of |Q| |R| means.

    All means are within the bound with probability 1 - delta. The logarithms are added, so that no product overflows.

    Args:
        responses: |R|, number of responses.
        queries: |Q|, number of queries.
        failure: delta, probability of failure.

    Returns:
        Nats.

    Raises:
        InputError: a number that is not positive and finite, or a probability outside (0, 1).

    Example:
        >>> round(log_union(4, 100, 0.05), 2)
        9.68
    """
    positive(responses=responses, queries=queries)
    probability(failure=failure)
    return math.log(2 * responses) + math.log(queries) - math.log(failure)  # the product may overflow a float
