"""Printed steps that do nothing or cannot be taken as they stand, and typos that change a number."""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np
import numpy.typing as npt
from scipy.stats import beta as beta_law
from scipy.stats import betabinom

import discreet as dc
from discreet.theory.choice_likelihood import exact_log_marginal, lower_log_marginal, upper_log_marginal
from discreet.theory.factors import CategoricalFactor
from experiments.paper_lipschitz import assumption_one, lipschitz_constants, may_be_private

from .. import d_ind
from .claim import Claim, Group, claimed, measured
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
        ),
        Claim(
            "C equation (7)",
            "the sensitivity of a node depends on the parameters' values",
            "A of C Figure 1; range over 20 sets of arbitrary probabilities",
            "above",
            _influence_spread,
        ),
        *(
            Claim(
                "C stage I",
                "sampling makes the preliminary counts more accurate",
                f"epsilon_I = 0.1, beta = {beta:g}; relative noise 1/(beta epsilon), none v sampling",
                "at most",
                partial(_stage_one, beta),
                (claimed(10, 1e-9), measured(value, 0.05)),
            )
            for beta, value in ((0.1, 13.9), (0.01, 40.9))
        ),
        Claim(
            "Z Lemma 2",
            "ln p(x given parents) may be Lipschitz in x alone",
            "equal children, other parents, P(child) 0.2 or 0.8; difference allowed v actual",
            "equal",
            _lemma_2,
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
        Williams and McSherry (NIPS 2010), equation (5b) as printed.
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


def _example_1(step: float) -> Floats:
    """Constants l(theta) of theta = step, 2 step, ..., 1 - step."""
    theta = step * np.arange(1, round(1 / step))
    return lipschitz_constants(np.log([1 - theta, theta]).T, [[0, 1], [1, 0]])


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
    "Typos, lost characters and gaps",
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
        ),
        Claim(
            "W equation (4)",
            "measurements multiply, even of the same records",
            "coin, 10 noisy counts of the same 100 records at epsilon = 1 each, all 70; deviation of theta",
            "equal",
            partial(_same_records, 10),
        ),
        Claim(
            "W Figure 2a",
            "the error of (5a) stays above -0.02 up to epsilon = 1",
            "coin, n = 100, epsilon = 0.5; largest error",
            "at least",
            lambda: (-0.02, coin_worst_errors(0.5, 100)[0]),
            (measured(-0.105, 5e-4),),
        ),
        Claim(
            "W Table 1",
            "ADULT has 50 % positives",
            "7,841 of 16,000 records; percent",
            "equal",
            lambda: (50.0, 100 * 7841 / 16000),
            (measured(49.0, 0.05),),
        ),
        *(
            Claim(
                "D Example 1",
                "the prior Delta is a distribution",
                f"Delta = {step:g}, theta = 1 left out; its sum",
                "equal",
                partial(lambda step: (1.0, step * _example_1(step).size), step),
                (measured(value, 1e-9),),
            )
            for step, value in ((0.2, 0.8), (0.05, 0.95))
        ),
        *(
            Claim(
                "D Example 1",
                "L = ln(1/Delta)",
                f"Delta = {step:g}; nats",
                "equal",
                partial(lambda step: (math.log(1 / step), assumption_one(_example_1(step))), step),
                (claimed(printed, 5e-4), measured(value, 5e-4)),
            )
            for step, printed, value in ((0.2, 1.609, 1.386), (0.05, 2.996, 2.944))
        ),
        Claim(
            "D equation (14)",
            "(1 + 2 L0 c^-1), where a + is lost",
            "L0 = 0.405, c = 1.3247 (Example 1, Delta = 0.2); the bracket",
            "equal",
            lambda: (1 + 2 * 0.405 / 1.3247, 1 + 2 * 0.405 + 1 / 1.3247),
        ),
        Claim(
            "D proof of Theorem 7.2",
            "from a ratio of C exp((1 + L0) rho) at most follows a log ratio of C (1 + L0) rho",
            "C = 1.5, L0 = 0.2, rho = 0.1; log ratio that is concluded v log ratio that is allowed, nats",
            "at most",
            lambda: (1.5 * 1.2 * 0.1, math.log(1.5) + 1.2 * 0.1),
        ),
        Claim(
            "D Theorem 6",
            "where the condition fails the posterior is not L-DP; it is not even 2L-DP",
            "chances 0.05 (prior 0.95) and 0.9, one record; loss over the largest L at which it fails",
            "equal",
            _theorem_6,
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
        ),
    ),
)
