"""How far two posteriors can be apart, and whether data sets can be told apart: robustness and distinguishability.

Each function states which claim of the papers it is, and what was corrected. Nothing here is a guarantee that a release
offers; those are made by mechanisms.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.util.number_checks import not_negative, positive, probability

__all__ = [
    "close_distance",
    "empirical_error",
    "historical_theorem_8_2",
    "le_cam",
    "least_distinguishable_stochastic",
    "untrimmed_privacy",
]

Floats = npt.NDArray[np.float64]


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
    not_negative(lipschitz=lipschitz, distance=distance)
    if not 0 <= outside < 1:
        raise InputError(f"the posterior mass outside must be at least 0 and less than 1, got {outside}")
    return 2 * lipschitz * distance - math.log1p(-outside), outside


def _stochastic(ratio: float, start: float, rate: float) -> None:
    """Refuse constants that Assumption 2 cannot have."""
    not_negative(start=start)
    positive(rate=rate)
    if not 1 <= ratio < math.inf:
        raise InputError(f"a maximal likelihood is at least the marginal one: the ratio C is at least 1, got {ratio}")


# -------------------------------------------------------------------------------------------------- distinguishability


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
    positive(draws=draws, cells=cells)
    probability(failure=failure)
    if cells > -math.log2(failure) / 2:
        raise InputError(f"the claim is for at most log2 sqrt(1 / failure) cells, {-math.log2(failure) / 2:.2f} here")
    return math.sqrt(3 / draws * -math.log(failure))


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
    not_negative(separation=separation)
    if not 0 <= distance <= 1:
        raise InputError(f"a total variation is at least 0 and at most 1, got {distance}")
    return separation / 2 * (1 - distance)
