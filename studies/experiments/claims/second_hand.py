"""A second derivation of every refuted number, from the papers' text alone.

It imports nothing of the package and nothing of the other modules here, so that no error is shared with them: where
they sum over points, this integrates in closed form or by Gauss-Legendre panels, and where they simulate, this
integrates. Each function gives (claimed, measured), as a claim's `measure` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import gamma, gammainc, gammaln, xlogy

__all__ = [
    "attribute_for_record",
    "bets_on_what_was_seen",
    "conditional_from_ratios",
    "draws_of_a_network",
    "error_of_lower_bound",
    "exponent_lost",
    "height_of_a_posterior",
    "influence_range",
    "inside_theta_l",
    "kl_step",
    "least_beta_function",
    "likely_start",
    "mean_of_a_product",
    "missed_maximum",
    "near_the_edge",
    "normal_ratio",
    "other_parent",
    "own_factor",
    "panels",
    "parents_alone",
    "plus_lost",
    "posteriors_apart",
    "product_for_sum",
    "product_of_factors",
    "repeated_counts",
    "replaced_in_both_stages",
    "replaced_in_the_sample",
    "sample_of_records",
    "stochastic_delta",
    "twice_the_constant",
    "unit_ball",
    "untrimmed_beta",
    "untrimmed_ratio",
    "votes_on_sets",
    "weights_of_children",
    "withdrawn_delta",
]

Floats = npt.NDArray[np.float64]

# ------------------------------------------------------------------------------------------ quadrature


def panels(edges: Sequence[float] | Floats, points: int = 24) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre rules between neighbouring edges.

    Args:
        edges: increasing.
        points: of each rule.

    Returns:
        (nodes, weights), each of shape (panels * points,).
    """
    x, w = np.polynomial.legendre.leggauss(points)
    ends = np.asarray(edges, np.float64)
    middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def near_the_edge(low: float, high: float) -> tuple[Floats, Floats]:
    """A rule on [low, high] for functions with a spike at `low`, of whatever width."""
    return panels(low + (high - low) * np.concatenate([[0], 2.0 ** -np.arange(48, -1, -1)]))


# ------------------------------------------------------------------------------------------ privacy


def _likelihood_mass(zeros: int, low: float) -> tuple[float, float]:
    """Integrals over [low, 1 - low] of r^zeros, and of r^(zeros - 1) t / (1 - low), r = (1 - t) / (1 - low)."""
    high, far = 1 - low, (low / (1 - low)) ** zeros
    first = (high - low * far) / (zeros + 1)
    return first, (1 - far) / zeros - first


def height_of_a_posterior(low: float, zeros: int, lipschitz: float | None = None) -> tuple[float, float]:
    """Loss of a draw from exp(f / (2 Delta)), f the posterior density given all zeros, or with a single one.

    Args:
        low: of the coin's support [low, 1 - low].
        zeros: records.
        lipschitz: L of Delta = sqrt(L); None for ln((1 - low) / low).

    Returns:
        (1, loss): epsilon is 1.
    """
    delta = math.sqrt(math.log((1 - low) / low) if lipschitz is None else lipschitz)
    all_zeros, one_one = _likelihood_mass(zeros, low)

    def scores(theta: Floats) -> tuple[Floats, Floats]:
        falling = ((1 - theta) / (1 - low)) ** (zeros - 1) / (1 - low)
        return falling * (1 - theta) / all_zeros / (2 * delta), falling * theta / one_one / (2 * delta)

    points, weights = near_the_edge(low, 1 - low)
    masses = [score.max() + math.log(weights @ np.exp(score - score.max())) for score in scores(points)]
    one, other = scores(low + (1 - 2 * low) * np.linspace(0, 1, 20_001) ** 4)
    return 1.0, float(np.abs(one - masses[0] - other + masses[1]).max())


def draws_of_a_network(nodes: int, low: float, zeros: int) -> tuple[float, float]:
    """Loss of one draw of independent trimmed bits: the ratio of densities is (1 - t) / t over that of the masses."""
    all_zeros, one_one = _likelihood_mass(zeros, low)
    ends = [abs(math.log((1 - t) / t) - math.log(all_zeros / one_one)) for t in (low, 1 - low)]
    return 2 * math.log(1 / low), nodes * max(ends)


def attribute_for_record(features: int, epsilon: float, zeros: int, ones: int) -> tuple[float, float]:
    """Loss of one trimmed draw of naive Bayes: all 0 becomes all 1, beside records of zeros of either class.

    Args:
        features: of the class.
        epsilon: by which the floor w is set: 2 ln((1 - w) / w) = epsilon.
        zeros, ones: further records of class 0 and of class 1, whose features are all 0.

    Returns:
        (epsilon, loss).
    """
    low = 1 / (1 + math.exp(epsilon / 2))
    inside = near_the_edge(low, 1 - low)

    def log_mass(negative: int, positive: int) -> float:
        logs = negative * np.log1p(-inside[0]) + positive * np.log(inside[0])
        return float(logs.max() + math.log(inside[1] @ np.exp(logs - logs.max())))

    total = np.zeros(2)
    rows = (
        ((zeros + 1, ones), (zeros, ones + 1), 1),
        ((zeros + 1, 0), (zeros, 0), features),
        ((ones, 0), (ones, 1), features),
    )
    for one, other, times in rows:
        ratio = [
            (one[0] - other[0]) * math.log(1 - t)
            + (one[1] - other[1]) * math.log(t)
            - log_mass(*one)
            + log_mass(*other)
            for t in (low, 1 - low)
        ]
        total += times * np.array([max(ratio), min(ratio)])
    return epsilon, float(np.abs(total).max())


def inside_theta_l(lipschitz: float, records: int) -> tuple[float, float]:
    """Loss of an untrimmed posterior where |ln odds| is at most L, Beta(2, 2) prior, all zeros v a single one.

    The ratio of Beta(3, n + 1) and Beta(2, n + 2) is the odds times B(2, n + 2) / B(3, n + 1) = (n + 1) / 2.
    """
    return 2 * lipschitz, max(abs(odds + math.log((records + 1) / 2)) for odds in (-lipschitz, lipschitz))


def replaced_in_the_sample(epsilon: float, sampling: float) -> tuple[float, float]:
    """A record is in the sample with chance beta, and then moves one cell up and another down: the far corner."""
    inner = math.log(1 + (math.exp(epsilon) - 1) / sampling)
    up, down = (1 - sampling + sampling * math.exp(sign * inner) for sign in (1, -1))
    return epsilon, math.log(up / down)


def replaced_in_both_stages(total: float, sampling: float) -> tuple[float, float]:
    """The first tenth of the budget as above, the rest twice: two cells of every table move."""
    return total, replaced_in_the_sample(0.1 * total, sampling)[1] + 2 * 0.9 * total


# ------------------------------------------------------------------------------------------ total variations


def withdrawn_delta(half_width: float, distance: float, rate: float | None = None) -> tuple[float, float]:
    """D Theorem 8.2 for a coin known to be fair up to a half-width, uniform, one record at a distance.

    Args:
        half_width: h; theta is in [1/2 - h, 1/2 + h].
        distance: rho of a record; log likelihoods have the Lipschitz constant |ln odds| / rho.
        rate: c, with L0 the largest constant, above which there is no mass, so that every c serves; None for L0 = 0,
            the limit of what is allowed, and the largest c, which is that near 0: 1 / (largest constant).

    Returns:
        (delta, total variation of the posteriors after a one and a zero, which is h).
    """
    largest = math.log((0.5 + half_width) / (0.5 - half_width)) / distance
    start, c = (0.0, 1 / largest) if rate is None else (largest, rate)
    ratio = 1 + 2 * half_width
    return math.sqrt(ratio * (1 + 2 * start + 1 / c) * distance / 2), half_width


def stochastic_delta(half_width: float, times: float) -> tuple[float, float]:
    """Z Theorem 4.2 for the same coin, rho = 1, L0 the largest constant, its own delta the largest, 1 - 1 / c.

    Args:
        half_width: as above.
        times: c is so many times 1 / L0: so many that exp(-L0 delta c) is nothing; exp(L0 (1 - delta) c) is exp(L0).

    Returns:
        (sqrt(M / 2), total variation).
    """
    kappa, omega = 4.91081, 1.25643
    start, ratio = math.log((0.5 + half_width) / (0.5 - half_width)), 1 + 2 * half_width
    m = ratio * (kappa * start / times + start * (1 / (1 - math.exp(-omega)) + 1) + math.log(ratio) + start)
    return math.sqrt(m / 2), half_width


def _log_beta(a: float, b: float) -> float:
    """Logarithm of B(a, b)."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def untrimmed_ratio(records: int, a: int) -> tuple[float, float]:
    """C of D Lemma 21, and the truth: a likelihood of 1, of no ones, over its marginal B(a, n + a) / B(a, a)."""
    printed = _log_beta(a, a) - _log_beta((records + 2 * a - 1) / 2, (records + 2 * a + 1) / 2)
    return math.exp(printed), math.exp(_log_beta(a, a) - _log_beta(a, records + a))


def untrimmed_beta(records: int, a: int) -> tuple[float, float]:
    """Delta of D Lemma 21, and the total variation of Beta(a, n + a) and Beta(a + 1, n + a - 1).

    Their densities cross where the odds are B(a + 1, n + a - 1) / B(a, n + a), which is a / (n + a - 1).
    """
    rate = 2.0 ** (1 - 2 * a) / math.exp(_log_beta(a, a))
    printed = math.sqrt(untrimmed_ratio(records, a)[0] * (1 + 2 * math.log(records) + 1 / rate) / 2)
    theta, w = panels(np.linspace(0, a / (records + 2 * a - 1), 41))
    one = (a - 1) * np.log(theta) + (records + a - 1) * np.log1p(-theta) - _log_beta(a, records + a)
    other = a * np.log(theta) + (records + a - 2) * np.log1p(-theta) - _log_beta(a + 1, records + a - 1)
    return printed, float(w @ (np.exp(one) - np.exp(other)))


# ------------------------------------------------------------------------------------------ posteriors and queries


def missed_maximum(epsilon: float, t: float) -> tuple[float, float]:
    """Z Lemma 4: Beta(11, 41) trimmed at .01, uniform base, Delta = sqrt(ln 100).

    Both sets are intervals around the mode, 10 / 50, whose ends are roots.
    """
    delta = math.sqrt(math.log(100))
    x, w = panels(np.linspace(0.01, 0.99, 401))
    mass = float(w @ (x**10 * (1 - x) ** 40))

    def density(theta: Floats | float) -> Any:
        return theta**10 * (1 - theta) ** 40 / mass

    top = density(0.2)

    def ends(below: float) -> list[float]:
        return [brentq(lambda theta: density(theta) - top + below, *side) for side in ((0.01, 0.2), (0.2, 0.99))]

    def weight(low: float, high: float) -> float:
        theta, step = panels(np.linspace(low, high, 201))
        return float(step @ np.exp(epsilon * (density(theta) - top) / (2 * delta)))

    (close, far), (low, high) = ends(t), ends(2 * t)
    missed = weight(0.01, low) + weight(high, 0.99)
    return math.exp(-epsilon * t) * 0.98 / (far - close), missed / (missed + weight(low, high))


def _error_of_responses(draws: int, pairs: int, failure: float) -> float:
    """Twice Hoeffding's deviation, with a union over pairs of query and response."""
    return 2 * math.sqrt(math.log(2 * pairs / failure) / (2 * draws))


def bets_on_what_was_seen(draws: int, queries: int, failure: float) -> tuple[float, float]:
    """A bet that every draw wins has no mass: it is taken over .5 for sure, and worth 0."""
    return _error_of_responses(draws, 2 * queries, failure), 0.5


def votes_on_sets(draws: int, queries: int, failure: float) -> tuple[float, float]:
    """Answers to so many random sets of mass 1/2 point to those cells in which the draws are.

    Whether more than half of the draws are in a set is all that is used; the last set is the quarter of the cells that
    was most often on the side of the draws. It is worth 1/4, and .5 for sure is passed by where most draws are in it.
    """
    cells, rng = 4096, np.random.default_rng(1)
    place = rng.integers(cells, size=draws)
    votes = np.zeros(cells)
    for _ in range(queries):
        side = np.where(rng.permutation(cells) < cells // 2, 1, -1)
        votes += side * (1 if side[place].sum() > 0 else -1)
    last = np.zeros(cells, bool)
    last[np.argsort(-votes)[: cells // 4]] = True
    return _error_of_responses(draws, 2 * (queries + 1), failure), 0.25 if last[place].mean() > 0.5 else 0.0


def posteriors_apart(draws: int, failure: float, records: int, low: float) -> tuple[float, float]:
    """The error of D's adversary, and the L1 distance of a trimmed coin's posteriors after n/2 ones and one more."""
    theta, w = panels(np.linspace(low, 1 - low, 801))
    laws = []
    for ones in (records // 2, records // 2 + 1):
        logs = ones * np.log(theta) + (records - ones) * np.log1p(-theta)
        law = np.exp(logs - logs.max())
        laws.append(law / (w @ law))
    return math.sqrt(3 / draws * math.log(1 / failure)), float(w @ np.abs(laws[0] - laws[1]))


def mean_of_a_product(low: float, high: float, bound: float) -> tuple[float, float]:
    """D Lemma 20: C as printed with mu = 0, and the largest of max over mean of t exp(-t x) / 2, uniform prior.

    For x below 1 / high the likelihood rises in t, the less the larger x is: the largest ratio is at x = 0, where the
    mean of t is that of the ends.
    """
    printed = high / (2 * min(1 / (2 * high), math.exp(-bound / low) / (2 * low)))
    assert bound < 1 / high, "the likelihood rises in t"
    return printed, high / ((low + high) / 2)


def least_beta_function(n: int, a: int) -> tuple[float, float]:
    """Logarithm of B((n + 2a - 1) / 2, (n + 2a + 1) / 2), and the least one of B(k + a, n - k + a), at n / 2."""
    return _log_beta((n + 2 * a - 1) / 2, (n + 2 * a + 1) / 2), _log_beta(n / 2 + a, n / 2 + a)


def normal_ratio(low: float, high: float, bound: float) -> tuple[float, float]:
    """D Lemma 22: C as printed with mu = 0, and max over mean of sqrt(t) exp(-t x^2 / 2), uniform prior, x <= bound.

    The mean is an incomplete Gamma function of 3/2.
    """
    printed = min(math.sqrt(high / low) * math.exp(low * high**2 / 2), math.exp(high**3 / 2))
    best = 0.0
    for x in np.linspace(1e-3, bound, 5001):
        half = x * x / 2
        mean = gamma(1.5) * (gammainc(1.5, high * half) - gammainc(1.5, low * half)) / half**1.5 / (high - low)
        peak = min(max(1 / (2 * half), low), high)
        best = max(best, math.sqrt(peak) * math.exp(-peak * half) / mean)
    return printed, float(best)


def unit_ball() -> tuple[float, float]:
    """D Lemma 23: largest norm of x x' - y y' (Frobenius) plus twice that of x - y, by search over a plane's unit ball.

    For unit vectors at the cosine k it is sqrt(2 - 2 k^2) + 2 sqrt(2 - 2 k), whose derivative vanishes at one k.
    """
    k = np.linspace(-1, 1, 200_001)
    return 3.0, float((np.sqrt(2 - 2 * k * k) + 2 * np.sqrt(2 - 2 * k)).max())


def product_of_factors(factors: int = 3, states: int = 2) -> tuple[float, float]:
    """C Theorem 4.1: sqrt(eta - 1) phi^(eta - 2) of eta = 3, and the deviation of a sum of products of halves."""
    each = 0.5 ** (factors - 1)
    return math.sqrt(factors - 1) * 0.5 ** (factors - 2), math.sqrt(states * factors * each**2)


def other_parent(low: float = 0.2, high: float = 0.8) -> tuple[float, float]:
    """C Section 3.3: X to A to Z with flips of .1: P(Z = 1) is .1 + .8 P(A = 1), and so on."""
    chance = [0.1 + 0.8 * (0.1 + 0.8 * p) for p in (low, high)]
    return 0.0, chance[1] - chance[0]


# ------------------------------------------------------------------------------------------ steps and formulas


def conditional_from_ratios() -> tuple[float, float]:
    """C Procedure 1: M of a row by T = (3, 5, 2), whatever T_pa is: 4 or 9."""
    rows = [np.array([3.0, 5.0, 2.0]) / parent for parent in (4.0, 9.0)]
    one, other = (row / row.sum() for row in rows)
    return 0.0, float(np.abs(one - other).max())


def weights_of_children(with_factor: bool) -> float:
    """C equations (7) and (8) of A in their example, A and B to C, all binary, by arbitrary chances.

    Args:
        with_factor: each derivative times P(A = a), as the product of (8) is printed.

    Returns:
        The mean over a of half the sum over c of sum_b P(b) P(c given a, b), times P(a) if so.
    """
    b, a = np.array([0.35, 0.65]), np.array([0.8, 0.2])
    c = np.array([[[0.1, 0.9], [0.6, 0.4]], [[0.25, 0.75], [0.5, 0.5]]])
    derivative = np.einsum("b,abc->ac", b, c) * (a[:, None] if with_factor else 1)
    return float((derivative.sum(axis=1) / 2).mean())


def influence_range() -> tuple[float, float]:
    """C equation (7) of A without its own factor, for the chances above: 1/2 whatever they are, so no range."""
    return 0.0, abs(weights_of_children(with_factor=False) - 0.5)


def own_factor() -> tuple[float, float]:
    """C equation (7) of A with the factor of (8), and without it."""
    return weights_of_children(with_factor=True), weights_of_children(with_factor=False)


def sample_of_records(epsilon: float, sampling: float) -> tuple[float, float]:
    """C stage I: noise over counts, of all records, and of a sample with the epsilon that sampling gives back."""
    return 1 / epsilon, 1 / (sampling * math.log((math.exp(epsilon) - 1) / sampling + 1))


def parents_alone() -> tuple[float, float]:
    """Z Lemma 2: children are equal, so their distance is 0; the log chances are ln .2 and ln .8."""
    return 0.0, math.log(4)


def product_for_sum(candidates: int) -> tuple[float, float]:
    """W, proof of (5b), phi = 1, q even: exp(ln Z) + exp(0), and the sum of phi."""
    return candidates + 1.0, float(candidates)


def repeated_counts(n: int, ones: int, times: int) -> tuple[float, float]:
    """W equation (4): deviation of a coin given noisy counts of scale 1, by its moments.

    Given the number of ones k the posterior is Beta(1 + k, 1 + n - k), whose first moments are known; the product of
    likelihoods of `times` measurements is that of polynomials, integrated on panels.
    """
    k = np.arange(n + 1)
    weight = np.exp(-times * np.abs(ones - k).astype(float))
    weight /= weight.sum()
    mean = (1 + k) / (n + 2)
    second = mean * (2 + k) / (n + 3)
    joint = math.sqrt(weight @ second - (weight @ mean) ** 2)
    theta, w = panels(np.linspace(0, 1, 401), 8)
    logs = (
        gammaln(n + 1)
        - gammaln(k + 1)
        - gammaln(n - k + 1)
        + xlogy(k, theta[:, None])
        + xlogy(n - k, 1 - theta[:, None])
    )
    density = w * (np.exp(logs) @ np.exp(-np.abs(ones - k).astype(float))) ** times
    density /= density.sum()
    centre = density @ theta
    return math.sqrt(density @ (theta - centre) ** 2), joint


def likely_start(step: float) -> tuple[float, float]:
    """D Example 1: L = ln(1 / Delta), and the constant of theta = k Delta with k = 1 / Delta: |ln 1 - ln 0|."""
    return math.log(1 / step), math.inf


def kl_step(ratio: float, start: float, distance: float) -> tuple[float, float]:
    """D, proof of Theorem 7.2: what is concluded of ln(C exp((1 + L0) rho)), and that logarithm."""
    return ratio * (1 + start) * distance, math.log(ratio) + (1 + start) * distance


def twice_the_constant() -> tuple[float, float]:
    """D, proof of Theorem 6: chances .05 (prior .95) and .9, one record; loss over the L up to which (6) fails.

    Marginals are .0925 (one) and .9075 (zero). (6) fails for an x and y where a chance's log ratio and the marginals'
    reversed one both exceed L.
    """
    chances, prior = (0.05, 0.9), (0.95, 0.05)
    one = sum(p * q for p, q in zip(chances, prior, strict=True))
    marginal = math.log((1 - one) / one)
    fails = min(max(math.log(p / (1 - p)) for p in chances), marginal)
    losses = [abs(math.log(p / one) - math.log((1 - p) / (1 - one))) for p in chances]
    return 1.0, max(losses) / fails


# ------------------------------------------------------------------------------------------ readings of a damaged text


def plus_lost(start: float, rate: float) -> tuple[float, float]:
    """The bracket of D equation (14), 1 + 2 L0 / c as the text at hand has it, and 1 + 2 L0 + 1 / c."""
    return 1 + 2 * start / rate, 1 + 2 * start + 1 / rate


def error_of_lower_bound(n: int, epsilon: float) -> tuple[float, float]:
    """W (5a) less the truth, the farthest over candidates and thetas, where ln phi = epsilon ln p / ln 10."""
    z, theta = np.arange(1, 10) / 10, np.linspace(0.005, 0.995, 199)[:, None]
    one, zero = epsilon * np.log(z) / math.log(10), epsilon * np.log(1 - z) / math.log(10)
    k = np.arange(n + 1)
    chosen = np.exp(np.outer(k, one) + np.outer(n - k, zero))
    chosen /= chosen.sum(axis=1, keepdims=True)
    law = np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * np.log(theta) + (n - k) * np.log1p(-theta))
    exact = law @ chosen
    ratios = theta[..., None] * np.exp(one[:, None] - one) + (1 - theta[..., None]) * np.exp(zero[:, None] - zero)
    return -0.02, float((1 / (ratios**n).sum(axis=1) - exact).min())


def exponent_lost() -> tuple[float, float]:
    """W (5b) for n = 100, epsilon .5, z = theta = .7, with q as a factor, and the exact logarithm."""
    z = np.arange(1, 10) / 10
    log_one, log_zero = 0.5 * (1 + np.log(z) / math.log(10)), 0.5 * (1 + np.log(1 - z) / math.log(10))
    log_q = 100 * (0.7 * log_one + 0.3 * log_zero)
    log_q -= log_q.max() + math.log(np.exp(log_q - log_q.max()).sum())
    terms = [math.log(p) + f[6] - f.sum() - log_q.sum() for p, f in ((0.7, log_one), (0.3, log_zero))]
    inner = max(terms) + math.log(sum(math.exp(each - max(terms)) for each in terms))
    entropy = -float(np.exp(log_q) @ log_q)
    k = np.arange(101)
    chosen = np.exp(np.outer(k, log_one) + np.outer(100 - k, log_zero))
    chance = np.exp(gammaln(101) - gammaln(k + 1) - gammaln(101 - k) + k * math.log(0.7) + (100 - k) * math.log(0.3))
    return 100 * inner - entropy, math.log(chance @ (chosen[:, 6] / chosen.sum(axis=1)))
