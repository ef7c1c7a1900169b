"""Printed bounds on posteriors, their constants and queries that are exceeded, each in one case."""

from __future__ import annotations

import math
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import betaln
from scipy.stats import beta as beta_law

import discreet as dc
from discreet.deciding.draw_bounds import response_error
from experiments.paper_bounds import sum_product_bounds

from . import second_hand
from .claim import Claim, Ground, Group, claimed, measured, ratio
from .noise import binary, chain

__all__ = ["BOUNDS"]

Floats = npt.NDArray[np.float64]
SEED = 2017
"""Of the draws that are seen; that none of them comes again is so for any other seed."""
CELLS = 2**16
"""Parts of [0, 1] that sets are made of: so many that few hold two of a thousand draws."""

# ------------------------------------------------------------------------------------------ the MAP mechanism's utility


def _lemma_4(epsilon: float, t: float) -> tuple[float, float]:
    """Chance to miss the maximum by 2 t: a coin trimmed at 0.01, 10 ones of 50, Delta = sqrt(ln 100)."""
    theta, law = np.linspace(0.01, 0.99, 400_001), beta_law(11, 41)
    score = law.pdf(theta) / (law.cdf(0.99) - law.cdf(0.01))
    weights = np.exp(epsilon * (score - score.max()) / (2 * math.sqrt(math.log(100))))
    printed = math.exp(-epsilon * t) / float(np.mean(score > score.max() - t))
    return printed, float(weights[score <= score.max() - 2 * t].sum() / weights.sum())


# ------------------------------------------------------------------------------------------ Dimitrakakis et al.


def _largest_ratio(log_likelihood: Floats) -> float:
    """C: largest ratio of a likelihood to its mean under the uniform prior; even steps, shape (data, parameters)."""
    with_prior = np.exp(log_likelihood)
    means = np.trapezoid(with_prior, axis=1) / (with_prior.shape[1] - 1)
    return float((with_prior.max(axis=1) / means).max())


def _lemma_20(low: float, high: float, bound: float) -> tuple[float, float]:
    """Laplace data around 0 with a rate in [low, high]."""
    printed = high / (2 * min(1 / (2 * high), math.exp(-bound / low) / (2 * low)))
    rate, x = np.linspace(low, high, 501), np.linspace(0, bound, 101)[:, None]
    return printed, _largest_ratio(np.log(rate / 2) - rate * x)


def _lemma_22(low: float, high: float, bound: float) -> tuple[float, float]:
    """Normal data around 0 with a precision in [low, high]."""
    printed = min(math.sqrt(high / low) * math.exp(low * high**2 / 2), math.exp(high**3 / 2))
    precision, x = np.linspace(low, high, 2001), np.linspace(0, bound, 101)[:, None]
    return printed, _largest_ratio(np.log(precision) / 2 - precision * x**2 / 2)


def _lemma_21_least(n: int, a: float) -> tuple[float, float]:
    """Least ln B(k + a, n - k + a) over the data, as printed and in truth."""
    ones = np.arange(n + 1)
    return float(betaln((n + 2 * a - 1) / 2, (n + 2 * a + 1) / 2)), float(betaln(ones + a, n - ones + a).min())


def _lemma_23() -> tuple[float, float]:
    """Largest rho of two vectors of the unit ball: sqrt(2) sin(a) + 4 sin(a / 2) for unit vectors at an angle a."""
    angle = np.linspace(0, math.pi, 100_001)
    return 3.0, float((math.sqrt(2) * np.sin(angle) + 4 * np.sin(angle / 2)).max())


def _lemma_11() -> tuple[float, float]:
    """A query that was chosen after the draws were seen: the bound, and what its answer loses.

    The bet is worth 0 under the posterior, which is continuous: no draw of it is seen twice.
    """
    coin, draws, queries, failure, sure = binary({"a": ()}), 1000, 10, 0.05, 0.5
    seen = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin, 1.0).draw(draws, rng=np.random.default_rng(SEED)))
    known = set(seen.probabilities["a"][0].tolist())

    def utility(cells: dc.Tables, response: str) -> Floats:
        among = np.array([theta in known for theta in cells["a"][0].tolist()], np.float64)
        return among if response == "bet" else np.full(among.shape, sure)

    chosen = dc.decide(seen, utility, ("bet", "pass"), queries=queries, failure=failure).response
    fresh = dc.Dirichlet.uniform(coin, 1.0).draw(20 * draws, rng=np.random.default_rng(SEED + 1))
    worth = {response: float(utility(fresh, response).mean()) for response in ("bet", "pass")}
    return response_error(draws, 2, queries, failure), max(worth.values()) - worth[chosen]


def _lemma_11_by_answers() -> tuple[float, float]:
    """Queries of which only the answers were seen: the bound, and what the last answer loses.

    Is theta in a set of mass 1/2 that was made by lot, or .5 for sure? "In" says that more than half of the draws are.
    The last set holds those of `CELLS` equal parts of [0, 1] that agree best with the answers so far.
    """
    coin, draws, queries, failure = binary({"a": ()}), 1000, 1000, 0.05
    rng = np.random.default_rng(SEED)
    seen = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin, 1.0).draw(draws, rng=rng))

    def answer(inside: npt.NDArray[np.bool_]) -> str:
        def utility(cells: dc.Tables, response: str) -> Floats:
            held = inside[np.minimum((cells["a"][0] * CELLS).astype(np.int64), CELLS - 1)].astype(np.float64)
            return held if response == "in" else np.full(held.shape, 0.5)

        return dc.decide(seen, utility, ("in", "pass"), queries=queries + 1, failure=failure).response

    votes = np.zeros(CELLS, np.int64)
    for _ in range(queries):
        inside = rng.permutation(CELLS) < CELLS // 2
        votes += np.where(inside, 1, -1) * (1 if answer(inside) == "in" else -1)
    last = np.zeros(CELLS, np.bool_)
    last[np.argsort(votes, kind="stable")[-CELLS // 4 :]] = True
    worth = float(last.mean())
    lost = max(worth, 0.5) - (worth if answer(last) == "in" else 0.5)
    return response_error(draws, 2, queries + 1, failure), lost


def _theorem_13(records: int, floor: float) -> tuple[float, float]:
    """A trimmed coin, one of its records replaced: the error that is asked for, and the posteriors' L1 distance."""
    failure, draws = 0.06, 100
    theta, half = np.linspace(floor, 1 - floor, 20_001), records // 2
    laws = [beta_law.pdf(theta, 1 + ones, 1 + records - ones) for ones in (half, half + 1)]
    one, other = (law / law.sum() for law in laws)
    return math.sqrt(3 / draws * -math.log(failure)), float(np.abs(one - other).sum())


# ------------------------------------------------------------------------------------------ Chowdhury et al.


def _theorem_4_1() -> tuple[float, float]:
    """Standard deviation of a step of three binary factors of 1/2, in units of the cells': chain of three."""
    printed, _ = sum_product_bounds(chain(3), 1.0, 1.0, 0.5)
    return printed, math.sqrt(sum((0.5 * 0.5) ** 2 for _ in product(range(2), range(3))))


def _outside_the_blanket() -> tuple[float, float]:
    """X -> A -> Z, X -> Y, Z -> Y: how far P(Z = 1) moves when P(X = 1) goes from 0.2 to 0.8."""
    by_parent = np.array([[0.9, 0.1], [0.1, 0.9]])
    low, high = (np.array([1 - theta, theta]) @ by_parent @ by_parent for theta in (0.2, 0.8))
    return 0.0, float(high[1] - low[1])


BOUNDS = Group(
    "False bounds: posteriors, constants, queries",
    "Units are in the case.",
    False,
    "**no**",
    (
        Claim(
            "Z Lemma 4",
            "P(score at most max - 2t) is at most exp(-epsilon t)/xi(S_t)",
            "coin trimmed at 0.01, 10 ones of 50, Delta = sqrt(ln 100), epsilon = 20, t = 1/2; probability",
            "at most",
            partial(_lemma_4, 20.0, 0.5),
            (claimed(0.0010, 5e-5), measured(0.0026, 5e-5)),
            ground=Ground(
                "Shares of the exponential mechanism's law, uniform base: its exponent is epsilon t/(2 Delta), and the "
                "printed one lacks 1/(2 Delta).",
                "2 Delta > 1 and large epsilon: at t = 1/2 for epsilon = 20, not for 10 and less, where the printed "
                "bound exceeds the truth",
                partial(second_hand.missed_maximum, 20.0, 0.5),
                5e-4,
            ),
        ),
        Claim(
            "D Lemma 11",
            "the bound holds for every query, also where the adversary conditions queries on responses",
            "1,000 draws of a coin's uniform posterior, 10 queries; the tenth: is theta one of the draws that were "
            "seen (1 if so), or .5 for sure? Union over queries and responses, delta = .05; utility that the answer "
            "of `dc.decide` loses",
            "at most",
            _lemma_11,
            (claimed(0.116, 5e-4), measured(0.5, 1e-9)),
            ground=Ground(
                "The set of the draws has no mass under the posterior and all of it among them.",
                "Any constant under O(), since the loss does not fall with N. Needs an adversary who knows the draws: "
                "D says that he may ask for them. For queries that are fixed before the draws the lemma holds with the "
                "union",
                partial(second_hand.bets_on_what_was_seen, 1000, 10, 0.05),
            ),
        ),
        Claim(
            "D Lemma 11",
            "the bound holds for every query, also where the adversary conditions queries on responses",
            "1,000 draws of a coin's uniform posterior that nobody sees; 1,000 times: is theta in a set of mass 1/2, "
            "made by lot (1 if so), or .5 for sure? Last, a set of mass 1/4 that agrees best with the answers. Union "
            "over 1,001 queries and two responses, delta = .05; utility that the last answer of `dc.decide` loses",
            "at most",
            _lemma_11_by_answers,
            (claimed(0.150, 5e-4), measured(0.25, 1e-9)),
            ground=Ground(
                "Each answer tells on which side of 1/2 the draws' share of a random set is; the sets' votes point at "
                "the draws. Another seed and coarser cells in the second derivation.",
                "As many queries as draws and some constant above that of Hoeffding's inequality; more queries refute "
                "larger constants. Queries that are fixed before the draws are as promised",
                partial(second_hand.votes_on_sets, 1000, 1000, 0.05),
            ),
        ),
        Claim(
            "D Theorem 13",
            "the adversary can distinguish if rho exceeds 3 ln(1/delta)/(4 L n)",
            "coin trimmed at 0.1, L = ln 9, n = 100 draws, delta = 0.06, 500 of 1,000 records are ones v 501: rho = 1, "
            "where 0.0096 is said to do; L1 distance that his error asks for v that there is",
            "at least",
            partial(_theorem_13, 1000, 0.1),
            ground=Ground(
                "L1 distance of two trimmed Beta densities; the proof has a necessary condition, and the theorem says "
                "if.",
                "L is the exact constant. Fails wherever posteriors are much closer than 2 L rho allows, as those of "
                "many records are; right as a necessary condition, with only if",
                partial(second_hand.posteriors_apart, 100, 0.06, 1000, 0.1),
                1e-4,
            ),
        ),
        Claim(
            "D Lemma 20",
            "C bounds the ratio of maximal and marginal likelihood",
            "c1 = 0.2, c2 = 0.202, B = 0.1; ratio",
            "at most",
            partial(_lemma_20, 0.2, 0.202, 0.1),
            (claimed(0.067, 5e-4),),
            ground=Ground(
                "A maximum over a mean is 1 at least, and the printed C is not.",
                "mu = 0, uniform prior (the limit of small lambda); for every lambda wherever C is below 1, as for c2 "
                "< 1 and B far below c1. The fraction has lost its layout in the text at hand, and is printed twice in "
                "the same words",
                partial(second_hand.mean_of_a_product, 0.2, 0.202, 0.1),
            ),
        ),
        Claim(
            "D Lemma 21",
            "the least Beta function is B((n + 2a - 1)/2, (n + 2a + 1)/2)",
            "n = 50, a = 4; its logarithm",
            "equal",
            partial(_lemma_21_least, 50, 4.0),
            ground=Ground(
                "B(x, y) at a fixed sum is least at x = y.",
                "Every even n and every a: the least is B(n/2 + a, n/2 + a). For odd n the printed one is the least",
                partial(second_hand.least_beta_function, 50, 4),
            ),
        ),
        Claim(
            "D Lemma 22",
            "C bounds the ratio of maximal and marginal likelihood",
            "c1 = 0.1, c2 = 1, B = 5; ratio",
            "at most",
            partial(_lemma_22, 0.1, 1.0, 5.0),
            (ratio(5.2, 0.05),),
            ground=Ground(
                "The mean of sqrt(t) exp(-t x^2/2) is an incomplete Gamma function.",
                "mu = 0, uniform prior (the limit of small lambda); lambda = 1: 6.19. For data up to 3: 2.46; up to 2 "
                "and less 1.39, where the printed bound, in which B does not stand, holds",
                partial(second_hand.normal_ratio, 0.1, 1.0, 5.0),
                1e-4,
            ),
        ),
        Claim(
            "D Lemma 23",
            "rho is at most 3 for bounded data",
            "unit ball; largest rho",
            "at most",
            _lemma_23,
            (measured(4.71, 0.005),),
            ground=Ground(
                "sqrt(2) sin(a) + 4 sin(a/2) for unit vectors at the angle a.",
                "Data bounded by norm 1, two dimensions or more; one dimension: 4 in [-1, 1], 3 as said in [0, 1]. For "
                "a norm up to B it grows with B^2",
                second_hand.unit_ball,
            ),
        ),
        Claim(
            "C Theorem 4.1",
            "the error of a step is sqrt(eta - 1) delta_min phi_min^(eta - 2) at least",
            "three binary factors of 1/2; standard deviation over that of a cell",
            "at least",
            _theorem_4_1,
            (claimed(0.71, 0.005), measured(0.61, 0.005)),
            ground=Ground(
                "Six independent errors, each times 1/4.",
                "eta = 3, independent errors of equal deviation, first order, all values 1/2; true for two factors, "
                "and for more states of the variable that is summed out",
                second_hand.product_of_factors,
            ),
        ),
        Claim(
            "C Section 3.3",
            "members of the blanket that are no children do not depend on Theta_X",
            "X to A to Z, X to Y, Z to Y, P(X) from 0.2 to 0.8; change of P(Z)",
            "equal",
            _outside_the_blanket,
            ground=Ground(
                "P(Z = 1) is 0.1 + 0.8 P(A = 1), and P(A = 1) is 0.1 + 0.8 P(X = 1).",
                "Any graph in which another parent of a child of X descends from X, and any chances that do not make "
                "it independent; true of such a parent that does not descend from X",
                second_hand.other_parent,
            ),
        ),
    ),
)
