"""The conjugate laws of Dimitrakakis et al. (JMLR 2017), Section 5, on a trimmed support: what a posterior draw costs.

Each law is a frozen record of a trimmed prior and of public bounds of the data. A draw from its posterior costs
`sup g - inf g` over the support, where g is the log-likelihood ratio of two data sets; that range is given here in
closed form, for data at a distance (`loss`) and for neighbouring data within the bounds (`record_loss`). Parameters
and data are real numbers here: these are the corrected constants of Lemmas 19 to 23. What is shipped,
`dc.research.sampled`, draws on public grids, and is compared with them in `shipped_families.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, expit

from discreet.errors import InputError
from discreet.privacy.guarantee import Relation
from discreet.research.readers.particles import truncated_beta
from discreet.research.scores.likelihood_sensitivity import log_range

__all__ = [
    "BetaBinomial",
    "ExponentialRate",
    "LaplaceRate",
    "NormalPrecision",
    "NormalPrecisionMatrix",
    "TrimmedGamma",
]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrimmedGamma:
    """Gamma(shape, rate) on [low, high]; with shape 1 the trimmed exponential prior of the paper.

    Args:
        shape, rate: greater than 0.
        low, high: support, 0 < low < high, finite.

    Raises:
        InputError: a parameter out of its range.
    """

    shape: float
    rate: float
    low: float
    high: float

    def __post_init__(self) -> None:
        """Refuse what is no proper law on an interval."""
        if not (0 < self.shape < math.inf and 0 < self.rate < math.inf and 0 < self.low < self.high < math.inf):
            raise InputError("a trimmed gamma law needs shape > 0, rate > 0 and 0 < low < high, all finite")

    def updated(self, shape: float, rate: float) -> TrimmedGamma:
        """The law with more shape and more rate."""
        return TrimmedGamma(self.shape + shape, self.rate + rate, self.low, self.high)

    def record_range(self, power: float, least: float, most: float, relation: Relation) -> float:
        """Range over the support of a record's log likelihood, or of two records' ratio.

        The log likelihood is `power ln theta - theta t` with t, which depends on the record, in [least, most]. A ratio
        of two records is linear in theta. One record's range is convex in t, hence largest at an end.
        """
        one = max(self._one_range(power, least), self._one_range(power, most))
        return relation.by_record(one, (self.high - self.low) * (most - least))

    def _one_range(self, power: float, t: float) -> float:
        """Range of `power ln theta - theta t`, which is concave in theta."""
        peak = self.high if t * self.high <= power else max(self.low, power / t)
        values = [power * math.log(theta) - theta * t for theta in (self.low, peak, self.high)]
        return max(values) - min(values)


# ------------------------------------------------------------------------------------------------ rates


@dataclass(frozen=True)
class ExponentialRate:
    """Exponential data with an unknown rate: `p(x) = theta exp(-theta x)`, 0 <= x <= bound.

    Distance: `rho = sum_i |x_i - y_i|`.

    Args:
        prior: of theta, in one over the unit of x.
        bound: public largest value of x.

    Raises:
        InputError: the bound is not positive and finite.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 19. Theorem 8 gives `2 c2 rho` for a support [c1, c2]; the log ratio is
        linear in theta, so its range is `(c2 - c1) rho`.
    """

    prior: TrimmedGamma
    bound: float

    def __post_init__(self) -> None:
        """Refuse a bound that bounds nothing."""
        _check_bound(self.bound)

    def posterior(self, data: npt.ArrayLike) -> ExponentialRate:
        """The family after data of shape `(records,)`; InputError where a value is outside the bounds."""
        x = _within(data, 0, self.bound)
        return ExponentialRate(self.prior.updated(x.size, x.sum()), self.bound)

    def loss(self, rho: float) -> float:
        """`(c2 - c1) rho`, nats."""
        return (self.prior.high - self.prior.low) * _checked_distance(rho)

    def record_loss(self, relation: Relation) -> float:
        """REPLACE: `(c2 - c1) B`. ADD_REMOVE: the range of `ln theta - theta x`, largest at x = 0 or x = B; nats."""
        return self.prior.record_range(1, 0, self.bound, relation)


@dataclass(frozen=True)
class LaplaceRate:
    """Laplace data with a known location and unknown rate: `p(x) = theta / 2 exp(-theta |x - location|)`, |x| <= bound.

    Distance: `rho = sum_i |x_i - y_i|`.

    Args:
        prior: of theta, the inverse of the scale, in one over the unit of x.
        location: known, in the unit of x.
        bound: public largest |x|.

    Raises:
        InputError: the bound is not positive and finite, or the location is not finite.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 20; by range, as for `ExponentialRate`.
    """

    prior: TrimmedGamma
    location: float
    bound: float

    def __post_init__(self) -> None:
        """Refuse a bound that bounds nothing."""
        _check_bound(self.bound, self.location)

    def posterior(self, data: npt.ArrayLike) -> LaplaceRate:
        """The family after data of shape `(records,)`; InputError where a value is outside the bounds."""
        x = _within(data, -self.bound, self.bound)
        return LaplaceRate(self.prior.updated(x.size, np.abs(x - self.location).sum()), self.location, self.bound)

    def loss(self, rho: float) -> float:
        """`(c2 - c1) rho`, nats."""
        return (self.prior.high - self.prior.low) * _checked_distance(rho)

    def record_loss(self, relation: Relation) -> float:
        """As for `ExponentialRate`, with |x - location| between its least and largest value in the bounds; nats."""
        return self.prior.record_range(1, *_radii(self.location, self.bound), relation)


@dataclass(frozen=True)
class NormalPrecision:
    """Normal data with a known mean and unknown precision theta, |x| <= bound.

    Distance: `rho = sum_i |x_i^2 - y_i^2| + 2 |x_i - y_i|`.

    Args:
        prior: of theta = 1 / variance, in one over the squared unit of x.
        mean: known, in the unit of x.
        bound: public largest |x|.

    Raises:
        InputError: the bound is not positive and finite, or the mean is not finite.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 22; by range.
    """

    prior: TrimmedGamma
    mean: float
    bound: float

    def __post_init__(self) -> None:
        """Refuse a bound that bounds nothing."""
        _check_bound(self.bound, self.mean)

    def posterior(self, data: npt.ArrayLike) -> NormalPrecision:
        """The family after data of shape `(records,)`; InputError where a value is outside the bounds."""
        x = _within(data, -self.bound, self.bound)
        return NormalPrecision(self.prior.updated(x.size / 2, ((x - self.mean) ** 2).sum() / 2), self.mean, self.bound)

    def loss(self, rho: float) -> float:
        """`(c2 - c1) max(1, |mean|) rho / 2`, nats."""
        return (self.prior.high - self.prior.low) * max(1.0, abs(self.mean)) / 2 * _checked_distance(rho)

    def record_loss(self, relation: Relation) -> float:
        """REPLACE: `(c2 - c1) (R^2 - r^2) / 2`, |x - mean| being in [r, R]; ADD_REMOVE as a range; nats."""
        least, most = _radii(self.mean, self.bound)
        return self.prior.record_range(0.5, least**2 / 2, most**2 / 2, relation)


@dataclass(frozen=True, eq=False)
class NormalPrecisionMatrix:
    """Normal vectors with a known mean and unknown precision matrix, whose eigenvalues lie in [low, high].

    The prior is the Wishart law `|A|^((df - d - 1) / 2) exp(-tr(inverse_scale A) / 2)`, trimmed to these eigenvalues.
    Distance: `rho = sum_i ||x_i x_i' - y_i y_i'||_F + 2 ||x_i - y_i||_2`.

    Args:
        degrees: df, greater than d - 1.
        inverse_scale: shape (d, d), symmetric and positive definite, in the squared unit of x.
        low, high: bounds of the eigenvalues, 0 < low < high.
        mean: known, shape (d,).
        bound: public largest Euclidean norm of x.

    Raises:
        InputError: an argument out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 23: `L = (sum of squared eigenvalues)^(1/2) max(1, ||mean||) / 2`. Here
        by range: a change M of the centred scatter costs `(high - low) ||M||_* / 2`, nuclear norm, and that of one
        record has rank 2.
    """

    degrees: float
    inverse_scale: Floats
    low: float
    high: float
    mean: Floats
    bound: float

    def __post_init__(self) -> None:
        """Refuse what is no proper trimmed Wishart law."""
        scale, mean = np.array(self.inverse_scale, np.float64), np.array(self.mean, np.float64)
        if mean.ndim != 1 or not mean.size or scale.shape != (mean.size, mean.size):
            raise InputError(f"a mean of shape (d,) needs an inverse scale of shape (d, d), got {scale.shape}")
        if not (np.all(np.isfinite(scale)) and np.array_equal(scale, scale.T) and np.linalg.eigvalsh(scale)[0] > 0):
            raise InputError("the inverse scale must be symmetric and positive definite")
        if not (mean.size - 1 < self.degrees < math.inf and 0 < self.low < self.high < math.inf):
            raise InputError(f"a Wishart law needs more than {mean.size - 1} degrees of freedom, and 0 < low < high")
        _check_bound(self.bound, float(np.linalg.norm(mean)))
        object.__setattr__(self, "inverse_scale", scale)
        object.__setattr__(self, "mean", mean)

    @property
    def dimension(self) -> int:
        """Number d of components of a record."""
        return int(self.mean.size)

    def posterior(self, data: npt.ArrayLike) -> NormalPrecisionMatrix:
        """The family after data of shape `(records, d)`; InputError where a norm is above the bound."""
        x = np.asarray(data, np.float64)
        if x.ndim != 2 or x.shape[1] != self.dimension:
            raise InputError(f"data need the shape (records, {self.dimension})")
        _within(np.linalg.norm(x, axis=1), 0, self.bound * (1 + 1e-12))
        centred = x - self.mean
        scatter = centred.T @ centred
        return NormalPrecisionMatrix(
            self.degrees + len(x),
            self.inverse_scale + (scatter + scatter.T) / 2,
            self.low,
            self.high,
            self.mean,
            self.bound,
        )

    def loss(self, rho: float) -> float:
        """`(high - low) sqrt(min(2, d)) max(1, ||mean||) rho / 2`, nats."""
        factor = math.sqrt(min(2, self.dimension)) * max(1.0, float(np.linalg.norm(self.mean)))
        return (self.high - self.low) * factor / 2 * _checked_distance(rho)

    def record_loss(self, relation: Relation) -> float:
        """The exact range over records in the ball of the bound, nats.

        REPLACE: `||u u' - v v'||_* = |u - v| |u + v|` for centred records u, v, at most `4 (m + s) sqrt(B^2 - s^2)`
        with m = ||mean|| and `4 s = sqrt(m^2 + 8 B^2) - m`; `2 B^2` for mean 0. ADD_REMOVE: the range of
        `ln|A| / 2 - u' A u / 2`, whose extremes have u as an eigenvector.
        """
        distance, bound, d = float(np.linalg.norm(self.mean)), self.bound, self.dimension
        scalar = TrimmedGamma(1, 1, self.low, self.high)
        least, most = _radii(distance, bound)
        if relation is Relation.REPLACE and d > 1:
            s = (math.sqrt(distance**2 + 8 * bound**2) - distance) / 4
            return (self.high - self.low) / 2 * 4 * (distance + s) * math.sqrt(bound**2 - s**2)
        others = 0.0 if relation is Relation.REPLACE else (d - 1) / 2 * math.log(self.high / self.low)
        return others + scalar.record_range(0.5, least**2 / 2, most**2 / 2, relation)


# ------------------------------------------------------------------------------------------------ zeros and ones


@dataclass(frozen=True)
class BetaBinomial:
    """Zeros and ones with an unknown probability theta of a one: Beta(alpha, beta) on [floor, 1 - floor].

    With floor 0 the prior is not trimmed, no finite pure guarantee exists, and `replace_delta` has the exact
    approximate one. A distance counts the records that differ.

    Args:
        alpha, beta: concentrations, unit: records.
        floor: 0 <= floor < 1/2.

    Raises:
        InputError: an argument out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 21, whose untrimmed constants are vacuous; trimmed as in Zhang et al.
        (AAAI 2016).
    """

    alpha: float
    beta: float
    floor: float

    def __post_init__(self) -> None:
        """Refuse what is no proper law."""
        if not (0 < self.alpha < math.inf and 0 < self.beta < math.inf and 0 <= self.floor < 0.5):
            raise InputError("a beta prior needs alpha > 0, beta > 0, and a floor from 0 to below 1/2")

    def draw(self, size: int, *, rng: np.random.Generator) -> Floats:
        """Independent draws of theta, shape `(size,)`."""
        return truncated_beta(self.alpha, self.beta, self.floor, 1 - self.floor, size, rng)

    def record_loss(self, relation: Relation) -> float:
        """REPLACE: `2 ln((1 - floor) / floor)`, ADD_REMOVE: half of it, nats; InputError where it is not trimmed."""
        return self._range() * Relation(relation).by_record(1, 2)

    def replace_delta(self, records: int, epsilon: float) -> float:
        """Exact delta at an epsilon of one untrimmed draw after `records` records, one of them replaced.

        The hockey-stick divergence of Beta(a + 1, b) and Beta(a, b + 1), both ways, largest over all data; at epsilon 0
        the total variation. The ratio of the two densities rises with theta, so the best event is a half-line.

        Args:
            records: number of records, at least 1.
            epsilon: nats, at least 0.

        Returns:
            Delta. For alpha = beta = a and epsilon 0 it tends to `a^a exp(-a) / Gamma(a + 1)` with more records.

        Raises:
            InputError: the prior is trimmed (`record_loss` is pure), no record, or a negative epsilon.
        """
        if self.floor > 0:
            raise InputError("a trimmed posterior has a pure guarantee: use record_loss")
        if not (records >= 1 and 0 <= epsilon < math.inf):
            raise InputError("an exact delta needs at least one record and a finite epsilon of at least 0")
        ones = np.arange(records)
        a, b = self.alpha + ones, self.beta + records - 1 - ones
        cut, grow = np.log(a) - np.log(b), math.exp(epsilon)
        below, above = expit(cut - epsilon), expit(-cut - epsilon)
        upward = betainc(b, a + 1, above) - grow * betainc(b + 1, a, above)
        downward = betainc(a, b + 1, below) - grow * betainc(a + 1, b, below)
        return max(float(upward.max()), float(downward.max()), 0.0)

    def _range(self) -> float:
        """Range of ln theta on the support."""
        if self.floor == 0:
            raise InputError(
                "an untrimmed beta posterior has no finite pure loss: ln theta is unbounded; give a floor, or use "
                "replace_delta for its exact delta"
            )
        return log_range(2, self.floor)


# ------------------------------------------------------------------------------------------------ shared


def _radii(centre: float, bound: float) -> tuple[float, float]:
    """Least and largest distance from a centre to points of norm at most the bound."""
    return max(0.0, abs(centre) - bound), abs(centre) + bound


def _checked_distance(rho: float) -> float:
    """A distance, checked."""
    if not 0 <= rho < math.inf:
        raise InputError(f"a distance must be finite and at least 0, got {rho}")
    return rho


def _check_bound(bound: float, centre: float = 0.0) -> None:
    """Refuse bounds under which no finite pure loss exists."""
    if not 0 < bound < math.inf:
        raise InputError(
            "data need a finite, positive, public bound: without one two records can be at any distance, and no finite "
            "pure loss exists"
        )
    if not math.isfinite(centre):
        raise InputError("the known location or mean must be finite")


def _within(data: npt.ArrayLike, low: float, high: float) -> Floats:
    """Data of shape `(records,)` within public bounds; the error shows none of them."""
    x = np.asarray(data, np.float64)
    if x.ndim != 1:
        raise InputError("data need the shape (records,)")
    if not np.all((low <= x) & (x <= high)):
        raise InputError(f"data must lie in the public range [{low:.6g}, {high:.6g}]; clip them, or declare another")
    return x
