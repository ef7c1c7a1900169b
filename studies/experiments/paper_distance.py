"""How far two posteriors can be apart, as the papers have it, beside what the package computes closer.

Each function states which claim of the papers it is, and what was corrected; `discreet.reporting.explain` has the
bounds that releases are explained with.
"""

from __future__ import annotations

import math

from discreet.errors import InputError
from discreet.util.number_checks import not_negative, positive, probability

__all__ = [
    "close_distance",
    "historical_theorem_8_2",
    "least_distinguishable_stochastic",
]


# ------------------------------------------------------------------------------------- how far posteriors can be apart


def close_distance(gap: float) -> float:
    """Total variation of two posteriors whose likelihoods, or priors, have a log ratio of at most `gap`: `tanh(g)`.

    It is also the sensitivity Delta of a posterior probability on a finite set of parameters, with `gap = L r` for
    data sets at a distance of at most r. On a continuous set the posterior's density has no such bound.

    Args:
        gap: g, nats, at least 0.

    Returns:
        A bound in [0, 1). See `divergence.range_distance` for one that cannot be improved.

    Raises:
        InputError: a negative gap.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 7.1 and Lemma 15, without Pinsker's inequality, which would give
        `sqrt(g)`; Zhang et al. (AAAI 2016), Algorithm 3, whose Delta is `sqrt(L r)`.
    """
    not_negative(gap=gap)
    return math.tanh(gap)


def historical_theorem_8_2(ratio: float, start: float, rate: float, distance: float) -> float:
    """The delta of an untrimmed posterior as it was printed: `sqrt(C (1 + 2 L0 + 1/c) rho / 2)`. VACUOUS at rho = 1.

    C and the bracket are at least 1, so at rho = 1 it is at least sqrt(1/2) = 0.707 for every model, prior and number
    of records, and mostly above 1, where it says nothing at all. Where a record is at a small distance under rho and
    the prior is concentrated it says something: 0.023 for a coin known to be fair up to 1e-5, a record at 1/1000. It is
    here so that both can be shown. What protects records is trimming (`likelihood_sensitivity.record_loss`).

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
    not_negative(distance=distance)
    return math.sqrt(ratio * (1 + 2 * start + 1 / rate) * distance / 2)


def _stochastic(ratio: float, start: float, rate: float) -> None:
    """Refuse constants that Assumption 2 cannot have."""
    not_negative(start=start)
    positive(rate=rate)
    if not 1 <= ratio < math.inf:
        raise InputError(f"a maximal likelihood is at least the marginal one: the ratio C is at least 1, got {ratio}")


# -------------------------------------------------------------------------------------------------- distinguishability


def least_distinguishable_stochastic(ratio: float, start: float, rate: float, draws: int, failure: float) -> float:
    """Distance below which nobody tells data sets apart, by the paper's argument, under Assumption 2.

    `rho >= 3 ln(1 / delta) / (2 n C (1 + 2 L0 + 1/c))` is NECESSARY.

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
    positive(draws=draws)
    probability(failure=failure)
    if not rate > 1:
        raise InputError(f"the rate c must be greater than 1, got {rate}")
    return -3 * math.log(failure) / (2 * draws * ratio * (1 + 2 * start + 1 / rate))
