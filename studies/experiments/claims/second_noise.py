"""A second derivation of what noise on counts costs, by quadrature and from the paper alone, as in `second_hand`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, digamma, gamma, gammaln, xlogy

from .second_hand import panels

__all__ = [
    "clipped_at_n",
    "clipped_once",
    "coverage_of_clipped_counts",
    "denser_graphs",
    "dependent_coefficients",
    "difference_of_kl",
    "empty_row",
    "kl_of_half",
    "summary_of_theorem_1",
    "tail_of_theorem_1",
]

Floats = npt.NDArray[np.float64]

# ------------------------------------------------------------------------------------------ divergence under noise


def difference_of_kl(a: float, b: float, c: npt.ArrayLike, d: npt.ArrayLike) -> Floats:
    """KL of Beta(a, b) from Beta(c, d), nats."""
    c, d = np.asarray(c, np.float64), np.asarray(d, np.float64)
    means = (a - c) * digamma(a) + (b - d) * digamma(b) - (a + b - c - d) * digamma(a + b)
    return np.asarray(gammaln(c) + gammaln(d) - gammaln(c + d) - betaln(a, b) + means)


def _clipped(mean: float, scale: float, most: float) -> tuple[Floats, Floats]:
    """Points and masses of Laplace noise on a count, cut at 0 and at most: both atoms, and exponential sides."""
    points, masses = [np.zeros(1)], [np.full(1, math.exp(-mean / scale) / 2)]
    for sign, room in ((-1, mean), (1, most - mean)):
        if room > 0:
            t, w = panels(np.linspace(0, min(room / scale, 45.0), 24), 10)
            points.append(mean + sign * scale * t)
            masses.append(w * np.exp(-t) / 2)
    if math.isfinite(most):
        points.append(np.full(1, most))
        masses.append(np.full(1, math.exp(-(most - mean) / scale) / 2))
    return np.concatenate(points), np.concatenate(masses)


def _mean_kl(counts: tuple[int, int], scale: float, most: float) -> float:
    """Mean KL of a row's exact posterior from its noisy one, uniform prior, noisy counts cut at 0 and at most."""
    (u, p), (v, q) = (_clipped(count, scale, most) for count in counts)
    return float(p @ difference_of_kl(1 + counts[0], 1 + counts[1], 1 + u[:, None], 1 + v) @ q)


def tail_of_theorem_1(squared: bool = False) -> tuple[float, float]:
    """Chance that KL exceeds its mean by Z's deviation: n = 10,000, half ones, epsilon 1e-5, delta .01.

    Args:
        squared: c_ij under the root with a square, as McDiarmid's inequality has it; Z prints none.

    Returns:
        (delta, chance).
    """
    n, scale, failure = 10_000, 2e5, 0.01
    constant = (2 * n + 1) * math.log((n + 2) ** 2)
    allowed = math.sqrt(-0.5 * 2 * (constant**2 if squared else constant) * math.log(failure))
    points, masses = _clipped(n // 2, scale, n)
    divergence = difference_of_kl(1 + n // 2, 1 + n // 2, 1 + points[:, None], 1 + points)
    return failure, float(masses @ (divergence >= masses @ divergence @ masses + allowed) @ masses)


def kl_of_half(n: int, epsilon: float) -> tuple[float, float]:
    """Z's refined mean, and the mean: one bit, half of the records ones."""
    return 2 * math.log(n + 2) * n / 2 * math.exp(-n * epsilon / 2), _mean_kl((n // 2, n // 2), 2 / epsilon, n)


def empty_row(n: int, nodes: int, epsilon: float) -> tuple[float, float]:
    """Z's mean of a row without records, n ln(1 * 1), and the mean."""
    return 0.0, _mean_kl((0, 0), 2 * nodes / epsilon, n)


def summary_of_theorem_1(n: int, epsilon: float, failure: float | None = None) -> tuple[float, float]:
    """Z's summary with 1 for its constants: one bit, half of the records ones.

    Args:
        n: records.
        epsilon: of the release.
        failure: delta of the second term, sqrt(-n ln n ln delta), and of the chance to exceed both; None for the first
            term, which stands for the mean.

    Returns:
        (first term, mean), or (delta, chance that KL exceeds both terms).
    """
    first = n * math.log(n) * (1 - math.exp(-n * epsilon / 2))
    if failure is None:
        return first, _mean_kl((n // 2, n // 2), 2 / epsilon, n)
    points, masses = _clipped(n // 2, 2 / epsilon, n)
    divergence = difference_of_kl(1 + n // 2, 1 + n // 2, 1 + points[:, None], 1 + points)
    allowed = first + math.sqrt(-n * math.log(n) * math.log(failure))
    return failure, float(masses @ (divergence > allowed) @ masses)


def clipped_once() -> tuple[float, float]:
    """Counts (0, 50), noise (30, 30): KL of Beta(1, 51) from Beta(31, 81), and from Beta(31, 51)."""
    return float(difference_of_kl(1, 51, 31, 81)), float(difference_of_kl(1, 51, 31, 51))


def clipped_at_n(most: int = 50) -> tuple[float, float]:
    """Mean KL of counts (50, 0) at epsilon 1, cut at 0 alone, and at 50 too."""
    return _mean_kl((most, 0), 2.0, math.inf), _mean_kl((most, 0), 2.0, most)


def coverage_of_clipped_counts(theta: float | None) -> tuple[float, float]:
    """Coverage of 90 % intervals of Beta(1 + y, 51 - y), y a count of 50 with noise of scale 2, cut to [0, 50].

    Args:
        theta: None for uniform.

    Returns:
        (.9, coverage).
    """
    n, q = 50, math.exp(-0.5)
    ones, law = np.arange(n + 1), np.zeros((n + 1, n + 1))
    for noise in range(-200, 201):
        law[ones, np.clip(ones + noise, 0, n)] += (1 - q) / (1 + q) * q ** abs(noise)
    grid, weights = panels(np.linspace(0, 1, 501), 8) if theta is None else (np.array([theta]), np.ones(1))
    binomial = np.exp(
        gammaln(n + 1)
        - gammaln(ones + 1)
        - gammaln(n - ones + 1)
        + xlogy(ones, grid[:, None])
        + xlogy(n - ones, 1 - grid[:, None])
    )
    # The chance of at most theta under Beta(1 + y, n + 1 - y) is that of more than y heads of n + 1 flips.
    flips = np.arange(n + 2)
    more = np.exp(
        gammaln(n + 2)
        - gammaln(flips + 1)
        - gammaln(n + 2 - flips)
        + xlogy(flips, grid[:, None])
        + xlogy(n + 1 - flips, 1 - grid[:, None])
    )
    place = more[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    inside = (place >= 0.05) & (place <= 0.95)
    return 0.9, float(weights @ ((binomial @ law) * inside).sum(axis=1))


# ------------------------------------------------------------------------------------------ Fourier


def dependent_coefficients(coefficients: int, t: float) -> tuple[float, float]:
    """Chance that 2 t N plus one Laplace variable is below the sum of the sizes of the others, a Gamma law."""
    shape, shift = coefficients - 1, 2 * t * coefficients
    x, w = panels(np.linspace(0, 80, 161), 12)
    gap = x - shift
    below = np.where(gap < 0, np.exp(-np.abs(gap)) / 2, 1 - np.exp(-np.abs(gap)) / 2)
    return math.exp(-t), float(w @ (x ** (shape - 1) * np.exp(-x) / gamma(shape) * below))


def denser_graphs(nodes: int) -> tuple[float, float]:
    """Scale of a coefficient's noise over that of a count's, of a chain, and of the complete graph on as many nodes.

    Subsets of families: none, nodes, arcs of a chain; all of the complete graph.
    """
    chain, complete = 1 + nodes + (nodes - 1), 2**nodes
    return chain / (nodes * 2 ** (nodes / 2)), complete / (nodes * 2 ** (nodes / 2))
