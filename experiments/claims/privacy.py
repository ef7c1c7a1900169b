"""Printed guarantees that are broken, hold for another relation, say nothing, or are open, each in a named case."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betaln
from scipy.stats import binom

from discreet.theory.likelihood_sensitivity import floor_for
from experiments.paper_distance import historical_theorem_8_2
from experiments.paper_lipschitz import assumption_two, lipschitz_constants

from ..printed import first_stage_loss, map_as_printed, sampler_loss, two_stage_loss, untrimmed_inside
from ..trimmed_laws import BetaBinomial
from .claim import Claim, Group, claimed, measured
from .steps import bound_without_exponent

__all__ = ["BROKEN", "OPEN", "RELATION", "VACUOUS", "constants_of_theorem_4_2", "delta_of_theorem_4_2"]

# ------------------------------------------------------------------------------------------ broken


def _map(floor: float, records: int) -> tuple[float, float]:
    """Algorithm 3 of Zhang et al.: all zeros against a single one."""
    mechanism = map_as_printed(floor, 1.0, math.log((1 - floor) / floor))
    return mechanism.epsilon, mechanism.loss((records, 0), (records - 1, 1))


def _lemma_24(nodes: int, floor: float, records: int) -> tuple[float, float]:
    """Records of zeros; the last has only ones instead."""
    return 2 * math.log(1 / floor), sampler_loss(floor, [((records, 0), (records - 1, 1))] * nodes)


def _figure_1(features: int, epsilon: float, zeros: int, ones: int) -> tuple[float, float]:
    """A class and its features, all 0 in many records and only the class 1 in fewer; all 0 replaced by all 1."""
    rows = [
        ((zeros + 1, ones), (zeros, ones + 1)),
        *[((zeros + 1, 0), (zeros, 0))] * features,
        *[((ones, 0), (ones, 1))] * features,
    ]
    return epsilon, sampler_loss(floor_for(2, epsilon / 2), rows)


def _corollary_9(records: int, lipschitz: float) -> tuple[float, float]:
    """A coin: all zeros against a single one."""
    choice = untrimmed_inside(lipschitz)
    return choice.epsilon, choice.loss((records, 0), (records - 1, 1))


MAP_LOSSES = ((0.1, 500, 4.1, 4.04), (0.01, 500, 21.9, 21.89), (0.01, 5000, 26.2, 26.14))
"""Floor, records, and the losses that must come out with either L; a test sees to the second."""

BROKEN = Group(
    "Privacy broken",
    "Claimed and measured: epsilon in nats, one record replaced. The measured loss is that of the named pair of data "
    "sets; others may lose more.",
    False,
    "**no**",
    (
        *(
            Claim(
                "Z Algorithm 3, Corollary 4",
                "the MAP mechanism with Delta = sqrt(L r) is epsilon-DP",
                f"coin trimmed at {floor:g}, {records:,} zeros v a single one; L = ln((1 - w)/w), its exact constant "
                f"(with the looser ln(1/w) the loss is {looser:g})",
                "at most",
                partial(_map, floor, records),
                (measured(value, 0.05),),
                label=f"Z Algorithm 3 (MAP), w = {floor:g}, n = {records:,}",
            )
            for floor, records, value, looser in MAP_LOSSES
        ),
        Claim(
            "D Lemma 24",
            "one draw is 2 max_k v_k ln(1/w)-DP under the classical definition",
            "5 independent bits, w = 0.1, 10,000 records of zeros v one of ones",
            "at most",
            partial(_lemma_24, 5, 0.1, 10_000),
            (claimed(4.6, 0.05), measured(22.0, 0.05)),
            label="D Lemma 24 (sampler), 5 bits, w = 0.1",
        ),
        Claim(
            "Z Figure 1",
            "one draw at 2 max_i L_i = epsilon (the likely reading) is epsilon-DP",
            "naive Bayes with 16 features, a million records of zeros, all 0 v all 1",
            "at most",
            partial(_figure_1, 16, 1.0, 10**6, 10**4),
            (measured(17, 0.05),),
            label="Z Figure 1 (sampler, likely reading)",
        ),
        *(
            Claim(
                "D Corollary 9",
                "inside Theta_L the untrimmed posterior is 2L-DP",
                f"coin, L = {lipschitz:g}, {records:,} zeros v a single one",
                "at most",
                partial(_corollary_9, records, lipschitz),
                (measured(value, 0.05),),
                label=f"D Corollary 9, L = {lipschitz:g}, n = {records:,}",
            )
            for records, lipschitz, value in ((20, 2.0, 5.0), (1000, 0.3, 7.2))
        ),
    ),
)

# ------------------------------------------------------------------------------------------ another relation

RELATION = Group(
    "Privacy under another relation",
    "Epsilon in nats. The noise of C's Algorithm 1 is for records that are added or removed.",
    False,
    "**no**",
    (
        Claim(
            "C Algorithm 1",
            "epsilon_B-DP for data sets that differ in a single record",
            "coin, epsilon_B = 1, one of two records replaced",
            "at most",
            lambda: (1.0, two_stage_loss((1, 1), (0, 2), 1.0)),
            (measured(1.95, 0.005),),
            label="C Algorithm 1, one record replaced",
        ),
        Claim(
            "C Algorithm 1, stage I",
            "sampling amplifies it to epsilon_I by Lemma 2.3",
            "epsilon_I = beta = 0.1, one record replaced",
            "at most",
            lambda: (0.1, first_stage_loss((1, 0), (0, 1), 0.1)),
            (measured(0.1526, 5e-5),),
            label="C Algorithm 1, stage I alone, replaced",
        ),
    ),
)

# ------------------------------------------------------------------------------------------ open


def _charged(steps: int, coordinates: int, epsilon: float) -> tuple[float, float]:
    """Noise of scale `steps / epsilon` on every coordinate of every step, each coordinate a query of its own."""
    for_each_query = epsilon / steps
    return epsilon, steps * coordinates * for_each_query


OPEN = Group(
    "Open questions",
    "Epsilon in nats. The paper gives neither steps nor noise, and no single reading fits all its errors: with the "
    "noise that T d queries need, those on CM1 and CM2 at epsilon = 0.1 are out of reach; with noise for T queries "
    "they are not, but others do not fit (see the page on its tables). What the second reading costs is arithmetic, "
    "and shows nothing of what was done: it refutes no claim and is counted nowhere.",
    None,
    "open",
    (
        Claim(
            "W Tables 2 and 3",
            "heuristic errors on CM1 and CM2 at epsilon = 0.1",
            "if this reading is right: noise of scale T/epsilon in each of d = 10 coordinates, T = 15 steps, added or "
            "removed",
            "at most",
            partial(_charged, 15, 10, 0.1),
            label="W Tables 2, 3 (if this reading is right)",
        ),
    ),
)

# ------------------------------------------------------------------------------------------ vacuous


def constants_of_theorem_4_2() -> tuple[float, float]:
    """Omega, the root of exp(w) = 1 + 2w, and kappa = 2w / (1 - exp(-w))^2, as Z prints them to five digits."""
    omega = float(brentq(lambda w: math.exp(w) - 1 - 2 * w, 0.5, 3))
    return omega, 2 * omega / (1 - math.exp(-omega)) ** 2


def delta_of_theorem_4_2(largest: float, start: float, rate: float) -> float:
    """The delta of an untrimmed posterior at rho = 1 as Z prints it, `sqrt(M / 2)`, for the best of its own `delta`.

    Args:
        largest: C, ratio of maximal and marginal likelihood, at least 1.
        start: L0.
        rate: c, greater than 1.

    Returns:
        The bound on the total variation; the theorem's parameter is minimised over (0, 1 - 1 / c].

    Source:
        Zhang et al. (AAAI 2016), Theorem 4.2, withdrawn by Dimitrakakis et al. (JMLR 2017).
    """
    omega, kappa = constants_of_theorem_4_2()

    def squared(free: float) -> float:
        gap = math.exp(-omega * (1 - free)) - math.exp(-omega)
        tail = math.exp(-start * free * rate) / gap + math.exp(start * (1 - free) * rate)
        head = kappa / rate + start * (1 / (1 - math.exp(-omega)) + 1) + math.log(largest)
        return float((head + math.log(tail)) * largest)

    best = minimize_scalar(squared, bounds=(1e-9, 1 - 1 / rate), method="bounded", options={"xatol": 1e-10})
    return math.sqrt(float(best.fun) / 2)


def _nearly_fair(half_width: float) -> tuple[float, float, float]:
    """(C, c, total variation) of a coin known to be fair up to so little, uniform, one record replaced; L0 is 0."""
    theta = np.linspace(0.5 - half_width, 0.5 + half_width, 2001)
    logs, prior = np.log([1 - theta, theta]).T, np.full(2001, 1 / 2001)
    rate = assumption_two(lipschitz_constants(logs, [[0, 1], [1, 0]]), prior, 0.0)
    joint = np.exp(logs) * prior[:, None]
    posterior = joint / joint.sum(axis=0)
    largest = float((np.exp(logs).max(axis=0) / joint.sum(axis=0)).max())
    return largest, rate, float(np.abs(posterior[:, 0] - posterior[:, 1]).sum() / 2)


def _theorem_8_2_at_best() -> tuple[float, float]:
    """Constants as good as they can be."""
    largest, rate, distance = _nearly_fair(1e-5)
    return historical_theorem_8_2(largest, 0.0, rate, 1.0), distance


def _theorem_4_2_at_best() -> tuple[float, float]:
    """Constants as good as they can be."""
    largest, rate, distance = _nearly_fair(1e-5)
    return delta_of_theorem_4_2(largest, 0.0, rate), distance


def _printed_ratio(records: int) -> float:
    """C of Lemma 21 for Beta(1, 1)."""
    return math.exp(betaln(1, 1) - betaln((records + 1) / 2, (records + 3) / 2))


def _lemma_21_delta(records: int) -> tuple[float, float]:
    """Theorem 8.2 with the constants of Lemma 21, L0 = ln n and c = 1/2."""
    printed = historical_theorem_8_2(_printed_ratio(records), math.log(records), 0.5, 1.0)
    return printed, BetaBinomial(1, 1, 0).replace_delta(records, 0.0)


def _lemma_21_ratio(records: int) -> tuple[float, float]:
    """The largest likelihood of any number of ones over its marginal, 1 / (n + 1)."""
    ones = np.arange(records + 1)
    return _printed_ratio(records), float((binom.pmf(ones, records, ones / records) * (records + 1)).max())


VACUOUS = Group(
    "True but vacuous",
    "Claimed and measured: a total variation, at most 1 whatever is claimed, one record replaced, unless the case has "
    "another unit.",
    True,
    "yes, but says nothing",
    (
        Claim(
            "D Theorem 8.2",
            "(0, delta)-DP with delta = sqrt(C (1 + 2 L0 + 1/c) rho / 2), above 0.707 for every model at rho = 1",
            "at its best: a coin known to be fair up to 1e-5, one record",
            "at most",
            _theorem_8_2_at_best,
            (claimed(0.707, 5e-4),),
        ),
        Claim(
            "Z Theorem 4.2",
            "(0, delta)-DP with delta = sqrt(M / 2), above 0.661 for every model at rho = 1, which is less than 0.707",
            "at its best: the same coin",
            "at most",
            _theorem_4_2_at_best,
            (claimed(0.661, 5e-4),),
        ),
        Claim(
            "D Theorem 8.2 with Lemma 21",
            "delta of the untrimmed Beta(1, 1) posterior",
            "50 records",
            "at most",
            partial(_lemma_21_delta, 50),
            (claimed(1.9e8, 5e6), measured(0.3715, 5e-5)),
        ),
        Claim(
            "D Lemma 21, C",
            "B(a, a) / B((n + 2a - 1)/2, (n + 2a + 1)/2)",
            "a = 1, 50 records; largest ratio of maximal and marginal likelihood",
            "at most",
            partial(_lemma_21_ratio, 50),
            (claimed(6.4e15, 5e13), measured(51, 0.5)),
        ),
        Claim(
            "W equation (5b), q as a factor",
            "an upper bound of p(z given theta), as it is printed; q is an exponent",
            "coin, n = 100, epsilon = 0.5, z = theta = 0.7; ln of the bound and of the exact value, which is 0 at most",
            "at most",
            bound_without_exponent,
        ),
    ),
)
