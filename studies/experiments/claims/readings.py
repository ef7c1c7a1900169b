"""Consequences and readings: what follows if a sentence is taken at its word, or in one of several senses.

No paper prints these numbers as claims. They are worth knowing where somebody relies on the sentence; none of them is
counted as a refutation.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betaln

from .. import d_ind
from ..errors import Truth
from ..networks import asia
from . import second_hand, second_noise
from .claim import Claim, Ground, Group, claimed, measured
from .noise import chain, coverage, naive_bayes, remark_1, stealth
from .steps import bound_without_exponent, coin_worst_errors

__all__ = ["DAMAGED", "READINGS", "allocation_gain", "mass_outside"]

SEED = 2020
"""Of noise that is not looked at: its scale is."""


def _noise_of_d_ind() -> tuple[float, float]:
    """Scale of the noise in a cell of `either` under D-Ind over that of Algorithm 1 of Zhang et al., ADD_REMOVE."""
    network = asia().network
    counts = {node: np.zeros((*network.shape(node), 1)) for node in network.nodes}
    budgets = dict.fromkeys(network.nodes, 1 / len(network.nodes))
    found = d_ind.compute_parameters(network, counts, budgets, 1, np.random.default_rng(SEED))
    return 1.0, float(found.scales["either"][0] / len(network.nodes))


def allocation_gain(masses: dict[str, list[float]]) -> float:
    """Budget that an even split needs over the best one, if errors are in proportion to noise.

    Args:
        masses: probabilities of the rows of each node; a row's error is its noise over its mass, a node's the mean.

    Returns:
        `K sum a / (sum sqrt a)^2` with a the mean of 1 / mass over a node's rows; 1 at least.
    """
    needs = np.array([np.mean([1 / mass for mass in rows]) for rows in masses.values()])
    return float(len(needs) * needs.sum() / np.sqrt(needs).sum() ** 2)


def _gain_of_asia(*, equal: bool) -> tuple[float, float]:
    """What is printed, and the most that any split gains on Asia by that formula."""
    rows = {node: np.ravel(each) for node, each in Truth.of(asia(), "asia").rows.items()}
    masses = {node: [1 / each.size] * each.size if equal else each.tolist() for node, each in rows.items()}
    return 3.0, allocation_gain(masses)


def mass_outside(floor: float, ones: int, zeros: int = 0) -> float:
    """Posterior mass outside [floor, 1 - floor] of a coin with a uniform prior."""
    law = ones + 1, zeros + 1
    return float(betainc(*law, floor) + betaincc(*law, 1 - floor))


def _outside_on_average(floor: float, records: int) -> tuple[float, float]:
    """Prior mass outside, and the posterior's, averaged over data that the prior predicts."""
    # Under a uniform prior every number of ones is as probable.
    each = [mass_outside(floor, ones, records - ones) for ones in range(records + 1)]
    return 2 * floor, float(np.mean(each))


def _lemma_21_rate(a: float) -> float:
    """Printed c for Beta(a, a)."""
    return math.exp((1 - 2 * a) * math.log(2) - float(betaln(a, a)))


def _nearest_rate(*records: int) -> tuple[float, float]:
    """Half a unit of the last digit of 19.48 %, and its distance from the nearest rate of so many records."""
    rates = [np.abs(100 * np.arange(number + 1) / number - 19.48).min() for number in records]
    return 0.005, float(min(rates))


READINGS = Group(
    "Readings and consequences",
    "Sentences taken at their word, or in one of several senses: printed nowhere as numbers, and not counted. Claimed: "
    "what the sentence would amount to; units are in the case.",
    None,
    "",
    (
        Claim(
            "C Procedure 1",
            'D-Ind is "essentially the same in spirit" as Zhang\'s mechanism; no ratio is claimed',
            "Asia, either; scale of the noise in a cell over that of Z Algorithm 1, same epsilon and relation",
            "equal",
            _noise_of_d_ind,
            (measured(2, 1e-9),),
        ),
        *(
            Claim(
                "C Section 5",
                "the scheme needs a third of D-Ind's epsilon: an empirical claim, which Figure 2's page measures",
                f"Asia, {text}, errors in proportion to noise over row mass; most that any split of the budget gains "
                "over an even one",
                "at least",
                partial(_gain_of_asia, equal=equal),
                (measured(value, 0.005),),
            )
            for text, equal, value in (("rows of equal mass", True, 1.06), ("true row masses", False, 2.68))
        ),
        Claim(
            "D Theorem 17(b)",
            "trimming costs a regret of O(prior mass outside), read for the data at hand",
            "coin trimmed at 0.1, uniform prior, 100 ones; mass outside, of the prior and of the posterior",
            "at most",
            lambda: (0.2, mass_outside(0.1, 100)),
            (claimed(0.2, 1e-9), measured(0.99998, 5e-6)),
        ),
        Claim(
            "D Theorem 17(b)",
            "the same, read for data that the prior predicts, on average: the loss is xi*-expected",
            "coin trimmed at 0.1, uniform prior, 100 records; mass outside, of the prior and of the mean posterior",
            "at most",
            partial(_outside_on_average, 0.1, 100),
            (claimed(0.2, 1e-9), measured(0.2, 1e-9)),
        ),
        Claim(
            "D Lemma 21",
            "its conclusion uses Theorem 8.2, which needs c > 1; the lemma does not say so",
            "Beta(a, a) prior; the a from which on c exceeds 1, where a > 1 is asked for",
            "equal",
            lambda: (1.0, brentq(lambda a: _lemma_21_rate(a) - 1, 1, 10)),
            (measured(3.38, 0.005),),
        ),
        Claim(
            "W Tables 2 and 3",
            "the benchmark 19.48 %, read as an error on all of PIMA, 767 or 768 records",
            "distance of 19.48 % from the nearest rate of so many records, at most a rounding; percent",
            "at most",
            partial(_nearest_rate, 767, 768),
        ),
        Claim(
            "W Tables 2 and 3",
            "the same, read as an error on the held-out tenth: 15 of 77 = 768 - 691",
            "distance of 19.48 % from the nearest rate of 77 records, at most a rounding; percent",
            "at most",
            partial(_nearest_rate, 77),
        ),
        Claim(
            "Z Algorithm 2",
            'the shift is a "(minor)" loss of utility; no size is claimed',
            "naive Bayes with 16 features, epsilon = 1, 90 % stealth; pseudo-records in each cell, printed and needed",
            "equal",
            partial(stealth, 16, 0.9),
            (claimed(2662, 0.5), measured(146, 0.5)),
            repeats=(50, 500),
        ),
        *(
            Claim(
                "Z Remark 1",
                "what its comparison of the scales of coefficients would make of the variances of cells",
                f"{name}; squared ratio of scales, and variance of a cell over that of noise on counts, same epsilon",
                "at most",
                partial(remark_1, network, node),
                (measured(value, 0.005),),
            )
            for name, network, node, value in (
                ("Asia, either", asia().network, "either", 0.86),
                ("naive Bayes with 8 features, x3", naive_bayes(8), "x3", 1.0),
                ("chain of 6, x3", chain(6), "x3", 1.0),
            )
        ),
        *(
            Claim(
                "Z Algorithm 1",
                "posteriors of clipped noisy counts, read as if they were of counts; no coverage is claimed",
                f"n = 50, {text}, noise of scale 2 on the ones; coverage of 90 % intervals",
                "equal",
                partial(coverage, theta),
                references,
                repeats=(100, 500),
                ground=Ground(
                    "Counts by a binomial law, discrete Laplace noise, and the place of theta under Beta(1 + Z, 51 - "
                    "Z).",
                    "Noise of scale 2 on 50 records; nearer to 90 % with more records or less noise",
                    partial(second_noise.coverage_of_clipped_counts, theta),
                    2e-3,
                ),
            )
            for theta, text, references in (
                (None, "theta uniform", ()),
                (0.5, "theta = 1/2", (measured(0.79, 0.005),)),
            )
        ),
    ),
    Ground(
        "The number that the case names.",
        "What the sentence would amount to in this case; nothing is refuted",
        "none: what no paper prints as a claim is not held against it",
    ),
)

DAMAGED = Group(
    "Readings of a damaged text",
    "The texts at hand are plain text without layout, and two places are garbled. Claimed: what the text says if "
    "nothing of it were lost; measured: what is meant by all that stands around it. That the papers print it so is not "
    "said, and none of these is counted. Units are in the case.",
    None,
    "",
    (
        Claim(
            "W equation (5b)",
            "the denominator is a product over z' of phi(z', x) q(z'); all else has phi(z', x) to the power q(z')",
            "coin, n = 100, epsilon = 0.5, z = theta = 0.7; ln of the bound with q as a factor and of the exact value, "
            "which is 0 at most",
            "at most",
            bound_without_exponent,
            ground=Ground(
                "n times the log of the integral over a record, less the entropy of q.",
                "In the text z' and q(z') stand on a line of their own above the product, as a raised exponent would, "
                "and the proof derives the exponent; with it the bound holds",
                second_hand.exponent_lost,
                1e-3,
            ),
        ),
        Claim(
            "D equation (14)",
            "the bracket is 1 + 2 L0 c^-1; Theorems 7 and 8 have 1 + 2 L0 + c^-1",
            "L0 = 0.405, c = 1.3247 (Example 1, Delta = 0.2); the bracket",
            "equal",
            lambda: (1 + 2 * 0.405 / 1.3247, 1 + 2 * 0.405 + 1 / 1.3247),
            ground=Ground(
                "Both brackets.",
                "A + is lost in print or in the text at hand, as in the second part of Theorem 13; nothing rests on it",
                partial(second_hand.plus_lost, 0.405, 1.3247),
            ),
        ),
        Claim(
            "W Figure 2a",
            "the axis of its errors ends at -0.02; neither the number of records nor the candidate is said",
            "coin, n = 100 as in Figure 2b, ln phi = epsilon ln p/ln 10, epsilon = 0.5; largest error of (5a)",
            "at least",
            lambda: (-0.02, coin_worst_errors(0.5, 100)[0]),
            (measured(-0.105, 5e-4),),
            ground=Ground(
                "Largest difference of (5a) and the exact sum over counts, all thetas and candidates.",
                "What scales ln p into phi is garbled. With 100 records and the worst candidate every scaling that the "
                "figure's page tries leaves the axis; for the candidate 0.7 clipping alone stays on it, and so do "
                "other scalings with few records. An axis is no claim",
                partial(second_hand.error_of_lower_bound, 100, 0.5),
                1e-3,
            ),
        ),
    ),
)
"""What the plain text of a paper seems to say, where layout or characters are lost."""
