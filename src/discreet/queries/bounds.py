"""Bounds for answers: on noise whose distribution is known in part, and on the error of finitely many draws.

Each function states which claim of the papers it is, and what was corrected; `studies/experiments/paper_bounds.py` has
more.
"""

from __future__ import annotations

import math

from discreet.queries.number_losses import NumberLoss, band_width
from discreet.util.number_checks import not_negative, positive, probability


def largest_error(deviation: float, failure: float, *, whole: bool) -> float:
    """Bound that the error of an estimate keeps, if its law is symmetric and log-concave and nothing else is known.

    So are all linear functions of Laplace, Gaussian and star noise. With c = ln(1 / p) it is
    `c s / sqrt(2 (1 - p (1 + c)))`: the survival function G of the error's size is log-concave, too, so at s' < t
    `G(s') >= p^(s' / t)` where G(t) = p, and the variance is at least twice the integral of `s' p^(s' / t)` up to t.

    Args:
        deviation: s, standard deviation of the error; at least 0.
        failure: p, probability with which the size of the error may be above the bound.
        whole: whether the noise is whole numbers, which have no density: 1/6 is added to the variance and 1 to t. That
            is enough for discrete Laplace noise, as `1 / sinh(x)^2 >= 1 / x^2 - 1 / 3`; other tails are thinner.

    Returns:
        t. Laplace noise comes near it for small p.

    Raises:
        InputError: a negative deviation, or a probability outside (0, 1).

    Source:
        Derived; Zhang et al. (AAAI 2016), Proposition 1, for sums of noise in the place of single terms.

    Example:
        >>> round(largest_error(2**0.5, 0.01, whole=False), 2)  # Laplace noise of scale 1: 4.61
        4.74
    """
    not_negative(deviation=deviation)
    probability(failure=failure)
    exponent = -math.log(failure)
    spread = math.sqrt(deviation**2 + 1 / 6) if whole else deviation
    return spread * exponent / math.sqrt(2 * (1 - failure * (1 + exponent))) + whole


def response_error(draws: float, responses: int, queries: int, failure: float) -> float:
    """Expected utility lost by answering from posterior draws: `2 sqrt(ln(2 |Q| |R| / delta) / (2 N))`.

    Args:
        draws: N, independent; or what others are worth.
        responses: |R|, number of responses to choose from.
        queries: |Q|, all that could be asked, fixed before anybody looked at the draws. Where every query gets new
            draws, the number that is asked, however each was chosen.
        failure: delta, probability that some answer loses more.

    Returns:
        Loss against the best response under the same posterior, for utilities in [0, 1]: every mean over the draws is
        within half of it.

    Raises:
        InputError: a number that is not positive, or a probability outside (0, 1).

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 11, with the union over responses and queries that its ln(2 / delta)
        leaves out. Its queries may depend on answers, which are answers from the same draws: then it is false, union or
        not (a bet on draws that were seen loses the whole stake; see the page of errata).

    Example:
        >>> round(response_error(1000, 4, 100, 0.05), 4)
        0.1391
    """
    positive(draws=draws)
    return math.sqrt(2 * log_union(responses, queries, failure) / draws)


def plan_draws(
    loss: float, *, responses: int | NumberLoss, queries: int = 1, failure: float = 0.05, span: float = 1.0
) -> int:
    """Independent draws after which no decision loses more than some loss, whatever the posterior is.

    What a decision then reports of its own draws is no more, and for numbers often far less: see `number_losses`.

    Args:
        loss: expected utility that may be lost in each decision, in the unit of the utility; greater than 0.
        responses: number of responses to choose from; or the loss of a number that is named.
        queries: number of decisions, as for `response_error`.
        failure: probability that some decision loses more.
        span: largest less smallest utility, or largest less smallest value of the quantity.

    Returns:
        The smallest such number, at least 1. Draws from a release cost time alone; where each draw is released it costs
        privacy: see `posterior_privacy`.

    Raises:
        InputError: a number that is not positive, or a probability outside (0, 1).

    Guarantee:
        None spent: reads no data.

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
        """Most that is lost with so many draws."""
        if isinstance(responses, int):
            return response_error(draws, responses, queries, failure)
        return responses.widest(band_width(draws, failure / queries))

    while draws > 1 and most(draws - 1) <= wanted:
        draws -= 1
    while most(draws) > wanted:
        draws += 1
    return draws


def log_union(responses: int, queries: int, failure: float) -> float:
    """`ln(2 |Q| |R| / delta)`: union bound over the two sides of |Q| |R| means, which all hold but for delta.

    Args:
        responses: |R|.
        queries: |Q|.
        failure: delta.

    Returns:
        Nats.

    Raises:
        InputError: a number that is not positive, or a probability outside (0, 1).

    Example:
        >>> round(log_union(4, 100, 0.05), 2)
        9.68
    """
    positive(responses=responses, queries=queries)
    probability(failure=failure)
    return math.log(2 * responses) + math.log(queries) - math.log(failure)  # the product may overflow a float
