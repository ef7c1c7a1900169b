"""Conjugate examples of Dimitrakakis et al. (JMLR 2017), Section 5: printed constants, corrected ones, exact values.

The printed constants are those of Lemmas 19 to 24 under Assumption 2; `discreet.research` offers none of them. What is
exact here is computed from the posteriors themselves, by closed forms or quadrature, and not from any bound: it is what
bounds are compared with. Nothing here is private.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, logsumexp

import discreet as dc
from discreet.research.readers.particles import log_beta_mass
from discreet.research.scores.likelihood_sensitivity import log_range, record_loss
from experiments.paper_lipschitz import attribute_loss

from .trimmed_laws import ExponentialRate, LaplaceRate, NormalPrecision, NormalPrecisionMatrix, TrimmedGamma

Floats = npt.NDArray[np.float64]
PANELS, POINTS = 64, 8
"""Of the rule for masses of gamma laws."""
Rates = ExponentialRate | LaplaceRate | NormalPrecision

__all__ = [
    "CHAIN",
    "FAMILIES",
    "FLOOR",
    "MATRICES",
    "NARROW",
    "NETWORK",
    "UNIFORM",
    "VECTORS",
    "Printed",
    "Rates",
    "beta_largest_ratio",
    "beta_printed",
    "beta_renyi",
    "corrected_ratio",
    "farthest_records",
    "farthest_unit_vectors",
    "log_gamma_mass",
    "matrix_loss",
    "printed",
    "pure_losses",
    "rate_largest_ratio",
    "rate_loss",
    "rate_variation",
    "theorem_8_1",
    "trimmed_bit_loss",
]


NARROW = "20: Laplace, rate in [.2, .202], |x| <= .1"
UNIFORM = "22: the same, prior nearly uniform"
VECTORS = "23: N(0, A^-1), A 2 x 2, eigenvalues in [1, 4], norm of x <= 1"
NETWORK = "24: 5 independent bits, w = .1"
CHAIN = "24: Markov chain of 2 states, w = .1, one time step"
FLOOR = 0.1
FAMILIES: Mapping[str, Rates] = {
    "19: Exp(theta), theta in [.5, 2], x <= 1": ExponentialRate(TrimmedGamma(1, 2, 0.5, 2), 1.0),
    "20: Laplace, rate in [.5, 2], |x| <= 1": LaplaceRate(TrimmedGamma(1, 2, 0.5, 2), 0.0, 1.0),
    NARROW: LaplaceRate(TrimmedGamma(1, 2, 0.2, 0.202), 0.0, 0.1),
    "22: N(0, 1/theta), theta in [.1, 1], |x| <= 5": NormalPrecision(TrimmedGamma(1, 2, 0.1, 1), 0.0, 5.0),
    UNIFORM: NormalPrecision(TrimmedGamma(1, 1e-3, 0.1, 1), 0.0, 5.0),
}
"""Prior Exp(2), cut to the support; Exp(.001) in the last, at which the reference value was stated."""
MATRICES = NormalPrecisionMatrix(3.0, np.eye(2), 1.0, 4.0, np.zeros(2), 1.0)


# ------------------------------------------------------------------------------------------ as printed, and corrected


@dataclass(frozen=True)
class Printed:
    """Constants of Assumption 2 and Theorem 7.2.

    Args:
        ratio: C, of the maximal to the marginal likelihood; of a correct one C >= 1.
        start: L0.
        rate: c.
    """

    ratio: float
    start: float
    rate: float

    def delta(self, rho: float) -> float:
        """Theorem 8.2: `sqrt(C (1 + 2 L0 + 1/c) rho / 2)`; says nothing above 1."""
        return math.sqrt(self.ratio * (1 + 2 * self.start + 1 / self.rate) * rho / 2)


def printed(family: Rates) -> Printed:
    """Lemmas 19, 20 and 22, as printed.

    Args:
        family: with an exponential prior: shape 1.

    Returns:
        The constants; C of Lemma 20 mixes scale and rate, that of Lemma 22 has the prior's bound for the data's.
    """
    low, high, rate = family.prior.low, family.prior.high, family.prior.rate
    match family:
        case ExponentialRate(bound=bound):
            return Printed(high / min(low * math.exp(-low * bound), high * math.exp(-high * bound)), low, rate)
        case LaplaceRate(location=location, bound=bound):
            # The larger of the printed cases x < location and x >= location.
            least = math.exp((-bound - abs(location)) / low) / (2 * low)
            return Printed(high / (2 * min(1 / (2 * high), least)), low, rate)
        case NormalPrecision(mean=mean):
            ratio = min(math.sqrt(high / low) * math.exp(low * high**2 / 2), math.exp(high**3 / 2))
            wide = max(abs(mean), 1.0)
            return Printed(ratio, low * wide / 2, 2 * rate / wide)


def corrected_ratio(family: Rates) -> float:
    """C of the same lemmas from the least likelihood over support and data, which is at a corner.

    Args:
        family: trimmed.

    Returns:
        At least 1.
    """
    low, high = family.prior.low, family.prior.high
    match family:
        case ExponentialRate(bound=bound):
            return high / min(low * math.exp(-low * bound), high * math.exp(-high * bound))
        case LaplaceRate(location=location, bound=bound):
            radius = bound + abs(location)
            return high / min(low * math.exp(-low * radius), high * math.exp(-high * radius))
        case NormalPrecision(mean=mean, bound=bound):
            square = (bound + abs(mean)) ** 2
            return max(math.sqrt(high / low) * math.exp(low * square / 2), math.exp(high * square / 2))


def beta_printed(a: float, records: int) -> Printed:
    """Lemma 21: `L0 = ln n`, `c = 2^(1 - 2a) / B(a, a)`, `C = B(a, a) / B((n + 2a - 1)/2, (n + 2a + 1)/2)`."""
    half = records / 2 + a
    log_ratio = betaln(a, a) - betaln(half - 0.5, half + 0.5)
    return Printed(math.exp(log_ratio), math.log(records), math.exp((1 - 2 * a) * math.log(2) - betaln(a, a)))


def farthest_records(family: Rates) -> float:
    """Largest rho of two records, on a grid over the public range: the distance of neighbours under REPLACE."""
    low = 0.0 if isinstance(family, ExponentialRate) else -family.bound
    x, y = np.meshgrid(*[np.linspace(low, family.bound, 401)] * 2)
    rho = np.abs(x - y)
    return float((np.abs(x**2 - y**2) + 2 * rho if isinstance(family, NormalPrecision) else rho).max())


def theorem_8_1(family: Rates) -> float:
    """`2 L rho` for the farthest records, with the L of the support's upper end."""
    wide = max(1.0, abs(family.mean)) / 2 if isinstance(family, NormalPrecision) else 1.0
    return 2 * family.prior.high * wide * farthest_records(family)


# ------------------------------------------------------------------------------------------ rates, exactly


def _extreme_records(family: Rates) -> Floats:
    """Ends of the public range, its middle, and the point nearest to the known centre."""
    match family:
        case ExponentialRate(bound=bound):
            return np.array([0.0, bound / 2, bound])
        case LaplaceRate(location=centre, bound=bound) | NormalPrecision(mean=centre, bound=bound):
            return np.array([-bound, 0.0, bound, np.clip(centre, -bound, bound)])


def _log_posterior(family: Rates, data: Floats, theta: Floats) -> Floats:
    """Log density, but for a constant that no data change."""
    law = family.posterior(data).prior
    # The normaliser: log of the integral of theta^(shape - 1) exp(-rate theta) over the support.
    whole = log_gamma_mass(law.shape, law.rate, law.low, law.high)
    kernel = (law.shape - 1) * np.log(theta) - law.rate * theta
    return np.asarray(kernel - whole + law.shape * np.log(law.rate) - math.lgamma(law.shape))


def log_gamma_mass(shape: float, rate: float, low: float, high: float) -> float:
    """`ln P(low <= X <= high)` for X ~ Gamma(shape, rate), however small."""
    return float(_log_gamma_masses(shape, rate, np.geomspace(low, high, PANELS + 1))[-1])


def _log_gamma_masses(shape: float, rate: float, edges: Floats) -> Floats:
    """The same from the first edge to each later one: Gauss rules over ln X between edges, added up."""
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    widths = np.diff(np.log(edges))[:, None]
    places = np.log(edges[:-1, None]) + widths * (points + 1) / 2
    panels = logsumexp(shape * places - rate * np.exp(places), b=widths * weights / 2, axis=1)
    return np.asarray(np.logaddexp.accumulate(panels) + shape * math.log(rate) - math.lgamma(shape))


def _replaced(family: Rates, records: int) -> Iterator[tuple[Floats, Floats]]:
    """Data sets that differ in one record; the others are equal to each other."""
    extreme = _extreme_records(family)
    for common, x, y in product(extreme if records > 1 else extreme[:1], extreme, extreme):
        others = np.full(records - 1, common)
        yield np.append(others, x), np.append(others, y)


def rate_loss(family: Rates, records: int) -> float:
    """Largest log ratio of two posteriors' densities, one of some records replaced.

    Args:
        family: trimmed.
        records: in each data set.

    Returns:
        Nats; over data sets whose records are extreme.
    """
    theta = np.linspace(family.prior.low, family.prior.high, 201)
    gaps = (_log_posterior(family, x, theta) - _log_posterior(family, y, theta) for x, y in _replaced(family, records))
    return max(float(np.abs(gap).max()) for gap in gaps)


def rate_variation(family: Rates, records: int) -> float:
    """Largest total variation of two posteriors, one of some records replaced: what a delta at epsilon 0 must be.

    Args:
        family: trimmed.
        records: in each data set.

    Returns:
        In [0, 1]. The densities' log ratio is linear, so that the best event is a half-line.
    """
    theta = np.linspace(family.prior.low, family.prior.high, 2001)

    def distribution(data: Floats) -> Floats:
        law = family.posterior(data).prior
        logs = _log_gamma_masses(law.shape, law.rate, theta)
        return np.asarray(np.exp(logs - logs[-1]))

    return max(float(np.abs(distribution(x) - distribution(y)).max()) for x, y in _replaced(family, records))


def rate_largest_ratio(family: Rates) -> float:
    """C itself: largest ratio of a maximal to a marginal likelihood of a single record.

    Args:
        family: with an exponential prior.

    Returns:
        At least 1; over the extreme records and 201 of the public range.
    """
    law = family.prior
    theta = np.linspace(law.low, law.high, 4001)
    prior = np.exp(-law.rate * theta)
    prior /= np.trapezoid(prior, theta)
    ends = _extreme_records(family)
    worst = 0.0
    for x in np.concatenate([ends, np.linspace(ends.min(), ends.max(), 201)]):
        after = family.posterior([x]).prior
        likelihood = theta ** (after.shape - law.shape) * np.exp(-(after.rate - law.rate) * theta)
        worst = max(worst, float(likelihood.max() / np.trapezoid(likelihood * prior, theta)))
    return worst


# ------------------------------------------------------------------------------------------ zeros and ones, exactly


def beta_largest_ratio(a: float, records: int) -> float:
    """C of Lemma 21 itself: `max_k max_theta theta^k (1 - theta)^(n - k) B(a, a) / B(a + k, a + n - k)`."""
    ones = np.arange(records + 1)
    shares = np.clip(ones / records, 1e-300, 1 - 1e-16)
    highest = ones * np.log(shares) + (records - ones) * np.log1p(-shares)
    return float(np.exp(highest + betaln(a, a) - betaln(a + ones, a + records - ones)).max())


def beta_renyi(a: float, records: int, order: float) -> float:
    """Largest Renyi divergence of untrimmed posteriors of so many bits, one of them replaced.

    Args:
        a: both concentrations of the prior.
        records: n; `discreet.research.mechanisms.posterior_sampler.dirichlet_renyi` has the supremum over all n.
        order: above 1 and below 1 + a, where it is finite.

    Returns:
        Nats, by log normalisers: `[A(lam p + (1 - lam) q) - lam A(p) + (lam - 1) A(q)] / (lam - 1)`.
    """
    ones = np.arange(records)
    p = np.array([a + ones + 1, a + records - 1 - ones])
    q = np.array([a + ones, a + records - ones])
    both = []
    for first, second in ((p, q), (q, p)):
        mixed = order * first + (1 - order) * second
        both.append(betaln(*mixed) - order * betaln(*first) + (order - 1) * betaln(*second))
    return float(np.max(both) / (order - 1))


def trimmed_bit_loss(records: int, floor: float, relation: dc.Relation, *, temper: float = 1.0) -> float:
    """Largest log ratio of two densities of a trimmed bit's posterior: uniform prior, all neighbouring counts.

    Args:
        records: n; of the smaller data set under ADD_REMOVE.
        floor: w.
        relation: which data sets are neighbours.
        temper: tau, the weight of a record.

    Returns:
        Nats. The log ratio of two densities is monotone in theta, so that it is largest at an end of the support.
    """
    ends = np.array([floor, 1 - floor])

    def log_normaliser(n: int) -> Floats:
        ones = temper * np.arange(n + 1)
        zeros = temper * n - ones
        return np.asarray(betaln(1 + ones, 1 + zeros) + log_beta_mass(1 + ones, 1 + zeros, floor, 1 - floor))

    own = log_normaliser(records)[:, None]
    match relation:
        case dc.Relation.REPLACE:
            ratios = [temper * np.log(ends / (1 - ends)) - np.diff(own, axis=0)]
        case dc.Relation.ADD_REMOVE:
            more = log_normaliser(records + 1)[:, None]
            ratios = [temper * np.log(ends) - (more[1:] - own), temper * np.log1p(-ends) - (more[:-1] - own)]
    return max(float(np.abs(ratio).max()) for ratio in ratios)


# ------------------------------------------------------------------------------------------ precision matrices


@cache
def _precisions(low: float, high: float) -> tuple[Floats, Floats]:
    """A grid of 2 x 2 matrices with these eigenvalues, shape (matrices, 2, 2), and log weights of the flat law."""
    values, angles = np.linspace(low, high, 61), np.linspace(0, np.pi, 121)[:-1]
    one, other, angle = (axis.ravel() for axis in np.meshgrid(values, values, angles, indexing="ij"))
    axis = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    across = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)
    matrices = one[:, None, None] * axis[:, :, None] * axis[:, None, :]
    matrices += other[:, None, None] * across[:, :, None] * across[:, None, :]
    # In coordinates (eigenvalues, angle) the volume of symmetric matrices is |difference of eigenvalues|.
    with np.errstate(divide="ignore"):
        return matrices, np.log(np.abs(one - other))


def matrix_loss(family: NormalPrecisionMatrix, records: int) -> float:
    """Log ratio of two posteriors' densities: perpendicular unit vectors replaced by each other, two dimensions.

    Args:
        family: of dimension 2, mean 0, bound 1.
        records: in each data set; the others are equal to the one of the two that makes the ratio larger.

    Returns:
        Nats, by quadrature over a grid of matrices.
    """
    matrices, log_weights = _precisions(family.low, family.high)
    x, y = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    logdet = np.linalg.slogdet(matrices)[1]

    def log_density(data: Floats) -> Floats:
        after = family.posterior(data)
        logs = (after.degrees - 3) / 2 * logdet - np.einsum("kij,ij->k", matrices, after.inverse_scale) / 2
        return np.asarray(logs - np.logaddexp.reduce(logs + log_weights))

    worst = 0.0
    for common in (x, y):
        others = np.tile(common, (records - 1, 1))
        worst = max(
            worst, float(np.abs(log_density(np.vstack([others, x])) - log_density(np.vstack([others, y]))).max())
        )
    return worst


def farthest_unit_vectors() -> float:
    """Largest `||xx' - yy'||_F + 2 ||x - y||` of unit vectors: `sqrt(2) sin(t) + 4 sin(t / 2)` at an angle t."""
    angles = np.linspace(0, np.pi, 100_001)
    return float((math.sqrt(2) * np.sin(angles) + 4 * np.sin(angles / 2)).max())


# ------------------------------------------------------------------------------------------ pure losses


def pure_losses() -> Iterator[tuple[str, str, float, float]]:
    """Pure epsilon of one posterior draw, one record replaced, of every trimmed example.

    Returns:
        Example, what it is (printed, corrected, exact, or what would follow from the printed argument), nats, and the
        number of records of an exact loss, else NaN.
    """
    for case, family in FAMILIES.items():
        yield case, "printed", theorem_8_1(family), math.nan
        yield case, "corrected", family.record_loss(dc.Relation.REPLACE), math.nan
        for records in (1, 1000):
            yield case, "exact", rate_loss(family, records), records
    theorem = 2 * math.sqrt(2) * MATRICES.high / 2
    yield VECTORS, "printed", 3 * theorem, math.nan
    yield VECTORS, "corrected", MATRICES.record_loss(dc.Relation.REPLACE), math.nan
    yield VECTORS, "theorem at the farthest", farthest_unit_vectors() * theorem, math.nan
    for records in (1, 1000):
        yield VECTORS, "exact", matrix_loss(MATRICES, records), records
    network = dc.Network(tuple(dc.Variable(name, ("0", "1")) for name in "abcde"), dict.fromkeys("abcde", ()))
    floors = dict.fromkeys("abcde", FLOOR)
    yield NETWORK, "printed", 2 * math.log(1 / FLOOR), math.nan
    yield NETWORK, "corrected", record_loss(network, floors, dc.Relation.REPLACE), math.nan
    yield NETWORK, "one attribute", attribute_loss(network, floors), math.nan
    for records in (1, 1000):
        # Independent rows: the densities' ratio is the product of the bits'.
        yield NETWORK, "exact", 5 * trimmed_bit_loss(records, FLOOR, dc.Relation.REPLACE), records
    yield CHAIN, "printed", 4 * math.log(1 / FLOOR), math.nan
    yield CHAIN, "corrected", 4 * log_range(2, FLOOR), math.nan
