"""What an adversary can learn, and tell apart, from whatever has an (epsilon, delta) guarantee.

All of it follows from the guarantee alone, so it holds for every mechanism, ours or not, and for somebody who knows
all other records. With a delta it is as if a coin were thrown first: with probability delta everything is told, and
else what is told moves odds by exp(epsilon) at most. Nothing that keeps the guarantee tells more than that (Kairouz, Oh
and Viswanath, 2015, Theorem 3.1), so all bounds here are attained.
"""

from __future__ import annotations

import math

from discreet.errors import InputError
from discreet.theory.checks import not_negative, positive, probability


def moved_belief(prior: float, epsilon: float) -> float:
    """Largest probability that a belief can become, where its odds move by exp(epsilon) at most.

    Args:
        prior: probability of a fact before the release, strictly between 0 and 1.
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
    """Largest total variation of outputs on neighbouring data sets: `(e^epsilon - 1 + 2 delta) / (e^epsilon + 1)`.

    The best test of one against the other has a false alarm rate and a miss rate whose sum is 1 less this.

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
    """Least miss rate of any test that raises no more than some false alarms: the trade-off curve of the guarantee.

    Args:
        false_alarms: probability of "it is there" where it is not, between 0 and 1.
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
    left = 1 - delta
    return max(0.0, left - math.exp(min(epsilon, 700.0)) * false_alarms, math.exp(-epsilon) * (left - false_alarms))


def records_to_tell(error: float, epsilon: float, delta: float) -> int:
    """Records in which data sets must differ at least so that some test could err on neither more often than `error`.

    For k records the guarantee is `(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1))`.

    Args:
        error: rate of false alarms and of misses, between 0 and 1/2.
        epsilon: nats, greater than 0.
        delta: at least 0, less than 1.

    Returns:
        k, at least 1; necessary, and for the mechanism that tells most sufficient.

    Raises:
        InputError: a number out of its range.

    Source:
        `least_misses` and group privacy (Dwork and Roth, 2014, Theorem 2.2; the sum of the series for delta); stands
        beside Dimitrakakis et al. (JMLR 2017), Theorem 13.

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
    """Distance below which an adversary cannot tell data sets apart from draws, by the paper's argument.

    `rho >= 3 ln(1 / delta) / (4 L n)` is NECESSARY for the posteriors' L1 distance to exceed the adversary's error of
    `experiments.paper_distance.empirical_error`; it is not sufficient.

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

    Example:
        >>> round(least_distinguishable(1.0, 10, 0.05), 3)
        0.225
    """
    positive(lipschitz=lipschitz, draws=draws)
    probability(failure=failure)
    return -3 * math.log(failure) / (4 * lipschitz * draws)


def _require_promise(epsilon: float, delta: float) -> None:
    """Refuse what no guarantee has."""
    not_negative(epsilon=epsilon)
    if not 0 <= delta < 1:
        raise InputError(f"delta must be at least 0 and less than 1, got {delta}")
