"""Printed steps that do nothing or cannot be taken as they stand, and typos that change a number."""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np
import numpy.typing as npt
from scipy.stats import beta as beta_law
from scipy.stats import betabinom

import discreet as dc
from discreet.research.bounds import may_be_private
from discreet.research.scores.choice_likelihood import exact_log_marginal, lower_log_marginal, upper_log_marginal
from discreet.research.scores.factors import CategoricalFactor

from .. import d_ind
from ..dimitrakakis_figure_1 import family_constants
from . import second_hand
from .claim import Claim, Ground, Group, claimed, measured
from .noise import binary

__all__ = ["MEANINGLESS", "TYPOS", "bound_without_exponent", "coin_peak", "coin_worst_errors"]

Floats = npt.NDArray[np.float64]

EXAMPLE = binary({"A": (), "B": (), "C": ("A", "B"), "D": ("C",), "E": ("C",), "F": ("D", "E")})
"""Figure 1 of Chowdhury et al."""
SEED = 2020
"""Of arbitrary probabilities, the same in both seed sets: no data are behind them, and what is shown is an identity
(a change of 0, a ratio of 2, a sensitivity of 1/4 or 1/2) that holds for any others, so nothing is estimated."""

# ------------------------------------------------------------------------------------------ steps that do nothing


def _some_theta(network: dc.Network, number: int) -> dc.Tables:
    """Arbitrary probabilities of all rows."""
    drawn = dc.Dirichlet.uniform(network, 1.0).draw(1, rng=np.random.default_rng([SEED, number]))
    return dc.Tables(network, {node: table[..., 0] for node, table in drawn.items()})


def _parents_table() -> tuple[float, float]:
    """Largest change of M = (T / T_pa) / sum_v (T / T_pa) when T_pa is replaced: four rows of three states."""
    rng = np.random.default_rng(SEED)
    cells = rng.uniform(1, 100, (4, 3))
    ratios = [cells / rng.uniform(1, 100, (4, 1)) for _ in range(2)]
    one, other = (each / each.sum(axis=1, keepdims=True) for each in ratios)
    return 0.0, float(np.abs(one - other).max())


def _influence_spread() -> tuple[float, float]:
    """Range of equation (7) of node A over twenty sets of arbitrary probabilities."""
    found = [d_ind.influence_as_printed(_some_theta(EXAMPLE, number), "A") for number in range(20)]
    return 0.0, float(np.ptp(found))


def _stage_one(sampling: float) -> tuple[float, float]:
    """Noise over a sample's counts, in units of all counts, epsilon_I = 0.1: without sampling and with it."""
    return 1 / 0.1, 1 / (sampling * math.log1p(math.expm1(0.1) / sampling))


def _lemma_2() -> tuple[float, float]:
    """Records that differ in the parent only, P(child = 1) = 0.2 or 0.8: what the hypothesis allows, and what it is."""
    theta = {0: 0.2, 1: 0.8}
    return 0.0, abs(math.log(theta[0]) - math.log(theta[1]))


MEANINGLESS = Group(
    "Meaningless steps",
    "Units are in the case.",
    False,
    "**no**",
    (
        Claim(
            "C Procedure 1",
            "T_pa, which takes half of a node's epsilon, enters the estimate",
            "four rows of three states; largest change of M when T_pa is replaced",
            "above",
            _parents_table,
            ground=Ground(
                "T_pa is the same in all cells of a row, and the row is divided by its sum.",
                "Any tables without a 0 in T_pa. C says that T_pa is there to make errors independent; they are not, "
                "as it cancels",
                second_hand.conditional_from_ratios,
            ),
        ),
        Claim(
            "C equation (7)",
            "the sensitivity of a node depends on the parameters' values",
            "A of C Figure 1; range over 20 sets of arbitrary probabilities",
            "above",
            _influence_spread,
            ground=Ground(
                "Derivatives of a child's chances are summed over all of its values, which makes them 1 for each row: "
                "only sizes of domains are left.",
                "A of C Figure 1, any probabilities, with the derivatives as C's example computes them (each table "
                "entry by itself)",
                second_hand.influence_range,
            ),
        ),
        *(
            Claim(
                "C stage I",
                "sampling makes the preliminary counts more accurate",
                f"epsilon_I = 0.1, beta = {beta:g}; relative noise 1/(beta epsilon), none v sampling",
                "at most",
                partial(_stage_one, beta),
                (claimed(10, 1e-9), measured(value, 0.05)),
                ground=Ground(
                    "Scales 1/epsilon_I for all records, and 1/ln(1 + (e^epsilon_I - 1)/beta) for a share beta of them."
                    "",
                    "All beta below 1 and all epsilon_I: beta ln(1 + (e^x - 1)/beta) is below x. In counts of the "
                    "sample, which C compares, the noise is smaller, and so are the counts",
                    partial(second_hand.sample_of_records, 0.1, beta),
                ),
            )
            for beta, value in ((0.1, 13.9), (0.01, 40.9))
        ),
        Claim(
            "Z Lemma 2",
            "ln p(x given parents) may be Lipschitz in x alone",
            "equal children, other parents, P(child) 0.2 or 0.8; difference allowed v actual",
            "equal",
            _lemma_2,
            ground=Ground(
                "Two records with the same child are at distance 0 in it, and its log probability is not the same.",
                "Every table whose rows differ: the hypothesis holds of no network with an arc that matters. With "
                "distances of whole families the lemma holds",
                second_hand.parents_alone,
            ),
        ),
    ),
)

# -------------------------------------------------------------------------------------- Williams and McSherry

CHANCES = np.arange(1, 10) / 10
THETA = np.linspace(0.005, 0.995, 199)
SEVEN = 6
"""The candidate 0.7."""


@cache
def _coin(epsilon: float, records: int) -> tuple[Floats, Floats, Floats]:
    """Exact p(z given theta), lower and upper bound, each of shape (199 laws, 9 candidates)."""
    factor = CategoricalFactor(np.stack([1 - CHANCES, CHANCES], axis=1), floor=0.1)
    laws, phi = np.stack([1 - THETA, THETA], axis=1), epsilon * factor.log_factors([0, 1])
    bounds = (exact_log_marginal, lower_log_marginal, upper_log_marginal)
    exact, lower, upper = (np.exp(bound(laws, phi, records)) for bound in bounds)
    return exact, lower, upper


def coin_peak(epsilon: float, records: int) -> tuple[float, float, float]:
    """Largest p(z = 0.7 given theta) over theta in [0.005, 0.995], and of its bounds (5a) and (5b).

    Args:
        epsilon: of the factors, `ln phi = epsilon ln p / ln 10`, clamped at 0.1.
        records: n.

    Returns:
        (exact, lower, upper).

    Source:
        Williams and McSherry (NIPS 2010), Figure 2b.
    """
    exact, lower, upper = (float(curve[:, SEVEN].max()) for curve in _coin(epsilon, records))
    return exact, lower, upper


def coin_worst_errors(epsilon: float, records: int) -> tuple[float, float]:
    """Largest errors of the bounds (5a) and (5b) over theta and all candidates, signed.

    Args:
        epsilon, records: as for `coin_peak`.

    Returns:
        (lower less exact, upper less exact).

    Source:
        Williams and McSherry (NIPS 2010), Figure 2a.
    """
    exact, lower, upper = _coin(epsilon, records)
    return float((lower - exact).min()), float((upper - exact).max())


def bound_without_exponent() -> tuple[float, float]:
    """Logarithm of (5b) read with q as a factor, and of the exact value: n = 100, epsilon = 0.5, z = theta = 0.7.

    Returns:
        (bound, exact), nats.

    Source:
        Williams and McSherry (NIPS 2010), equation (5b) as plain text has it, where an exponent stands on the line.
    """
    candidates = np.stack([1 - CHANCES, CHANCES], axis=1)
    phi = 0.5 * CategoricalFactor(candidates, floor=0.1).log_factors([0, 1])
    law = np.array([0.3, 0.7])
    log_q = 100 * law @ phi
    log_q = log_q - np.logaddexp.reduce(log_q)
    entropy = -float(np.exp(log_q) @ log_q)
    inner = np.logaddexp.reduce(np.log(law) + phi[:, SEVEN] - (phi + log_q).sum(axis=1))
    return 100 * float(inner) - entropy, float(exact_log_marginal(law, phi, 100)[SEVEN])


# ------------------------------------------------------------------------------------------ typos


def _sum_for_product() -> tuple[float, float]:
    """Nine candidates of weight 1, q even: exp(H[q]) + exp(sum q ln w), and the sum of weights it shall not exceed."""
    q, log_weights = np.full(9, 1 / 9), np.zeros(9)
    return math.exp(-(q @ np.log(q))) + math.exp(q @ log_weights), float(np.exp(log_weights).sum())


def _same_records(measurements: int) -> tuple[float, float]:
    """Deviation of a coin's posterior after noisy counts, all 70, of the SAME 100 records: by (4), and jointly."""
    n, theta = 100, (np.arange(2000) + 0.5) / 2000
    ones = np.arange(n + 1)
    noise = -np.abs(70 - ones)
    # Beta(1 + k, 1 + n - k) with the weight of k, for one measurement of fresh records, and for all of the same ones.
    parts = beta_law.pdf(theta[:, None], 1 + ones, 1 + n - ones) * betabinom.pmf(ones, n, 1, 1)
    single = parts @ np.exp(noise)
    product, joint = single**measurements, parts @ np.exp(measurements * noise)
    return _deviation(theta, product), _deviation(theta, joint)


def _deviation(theta: Floats, density: Floats) -> float:
    """Standard deviation under a density on an even grid."""
    weights = density / density.sum()
    mean = weights @ theta
    return math.sqrt(weights @ (theta - mean) ** 2)


def _example_1(step: float) -> tuple[float, float]:
    """The printed L, and the largest l(theta) of theta = step, 2 step, ..., 1."""
    return math.log(1 / step), float(family_constants(step, with_one=True).max())


def _theorem_6() -> tuple[float, float]:
    """Loss of the posterior over the largest L at which the necessary condition fails: two chances, one record."""
    theta, prior = np.array([0.05, 0.9]), np.array([0.95, 0.05])
    logs = np.log([1 - theta, theta]).T
    tried = np.linspace(0.01, 3, 3000)
    failing = max(level for level in tried if not may_be_private(logs, prior, [[0, 1], [1, 0]], level))
    joint = np.exp(logs) * prior[:, None]
    gap = np.log(joint / joint.sum(axis=0)) @ [1, -1]
    return 1.0, float(np.abs(gap).max() / failing)


TYPOS = Group(
    "Typos and gaps",
    "Claimed: the formula or number as it is printed; measured: as it must be. Units are in the case.",
    False,
    "**no**",
    (
        Claim(
            "W proof of (5b)",
            "exp(H[q]) + exp(sum q ln phi) is at most the sum of phi; it is their product",
            "9 candidates, phi = 1",
            "at least",
            _sum_for_product,
            (claimed(10, 1e-9), measured(9, 1e-9)),
            ground=Ground(
                "exp(ln 9) + exp(0), and 9 times 1.",
                "A + between the two in the proof; (5b) itself has the product. With the sum the step fails wherever "
                "the product is a tight bound, as it is here, since the sum exceeds it for all phi up to 1",
                partial(second_hand.product_for_sum, 9),
            ),
        ),
        Claim(
            "W equation (4)",
            "measurements multiply, even of the same records",
            "coin, 10 noisy counts of the same 100 records at epsilon = 1 each, all 70; deviation of theta",
            "equal",
            partial(_same_records, 10),
            ground=Ground(
                "The product of likelihoods, each a sum over all records, and one sum with the product of the noises.",
                "W does not say whose records they are; measurements of different records multiply, and of one "
                "measurement there is nothing to multiply. Two counts: 0.0335 for 0.0457",
                partial(second_hand.repeated_counts, 100, 70, 10),
                1e-4,
            ),
        ),
        Claim(
            "D Example 1",
            "the family satisfies Assumption 1 with L = ln(1/Delta)",
            "Delta = 0.2, theta = k Delta for k up to 1/Delta; largest l(theta), nats",
            "at most",
            partial(_example_1, 0.2),
            (claimed(1.609, 5e-4),),
            ground=Ground(
                "k = 1/Delta makes theta = 1, which gives a 0 no chance: l is infinite.",
                "Every Delta. Without theta = 1 it holds: the largest l is ln((1 - Delta)/Delta), 1.386 here, and then "
                "the printed prior, Delta for each of 1/Delta parameters, is to be divided by 1 - Delta",
                partial(second_hand.likely_start, 0.2),
            ),
        ),
        Claim(
            "D proof of Theorem 7.2",
            "from a ratio of C exp((1 + L0) rho) at most follows a log ratio of C (1 + L0) rho",
            "C = 1.5, L0 = 0.2, rho = 0.1; log ratio that is concluded v log ratio that is allowed, nats",
            "at most",
            lambda: (1.5 * 1.2 * 0.1, math.log(1.5) + 1.2 * 0.1),
            ground=Ground(
                "The logarithm of C exp((1 + L0) rho) is ln C + (1 + L0) rho.",
                "C > 1 and (1 + L0) rho below ln C/(C - 1), so always for small rho; for larger rho the step is right. "
                "A step of the proof; of the theorem this says nothing",
                partial(second_hand.kl_step, 1.5, 0.2, 0.1),
            ),
        ),
        Claim(
            "D proof of Theorem 6",
            "its last line concludes that the posterior is not L-DP; what follows, and the theorem says, is not 2L-DP",
            "chances 0.05 (prior 0.95) and 0.9, one record; loss over the largest L at which the condition fails",
            "equal",
            _theorem_6,
            ground=Ground(
                "Log ratio of the two posteriors over the largest L at which both conditions fail for one pair.",
                "The line before has more than 2L: any family, as both terms exceed L. The theorem stands as printed",
                second_hand.twice_the_constant,
                1e-3,
            ),
        ),
        Claim(
            "C equation (8)",
            "the product has the factor Theta(x given parents); their example leaves it out",
            "A of C Figure 1, arbitrary probabilities; sensitivity",
            "equal",
            lambda: (
                d_ind.influence_as_printed(_some_theta(EXAMPLE, 0), "A", keep_own_factor=True),
                d_ind.influence_as_printed(_some_theta(EXAMPLE, 0), "A"),
            ),
            (measured(0.5, 1e-9),),
            ground=Ground(
                "Sums over all states of products of the other factors, with and without the factor that is varied.",
                "A of C Figure 1, any probabilities; the product of (8) is over all ancestors of the child, of which "
                "the node itself is one, and C's example leaves it out",
                second_hand.own_factor,
            ),
        ),
    ),
)
