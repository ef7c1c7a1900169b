"""Noise: exact samplers for releases, fast ones for simulations, and the scale for a budget.

Released noise on counts is integer noise that OpenDP draws exactly from the operating system's entropy; there is no
seed and no floating-point sample anywhere near a count. Other randomness near data comes from the same entropy, and is
drawn by integer arithmetic wherever that is possible. Older versions of OpenDP draw a wrong discrete Laplace
distribution (opendp/opendp#2638), so the version is checked at import, and a goodness-of-fit test guards the sampler
itself.
"""

from __future__ import annotations

import math
import os
import secrets
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from opendp.combinators import make_zCDP_to_approxDP
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace, make_noisy_max
from opendp.measures import zero_concentrated_divergence
from opendp.metrics import l1_distance, l2_distance, linf_distance
from opendp.mod import enable_features
from scipy.special import gammaincinv

from discreet.errors import DiscreetError, InputError
from discreet.noise.exact_draws import Entropy, choose
from discreet.noise.k_norm import k_norm_noise
from discreet.noise.noise_laws import ShapeTag, VectorSource
from discreet.noise.star_noise import star_noise
from discreet.privacy.guarantee import Guarantee
from discreet.records.counts import COUNT_LIMIT
from discreet.util.arrays import Floats, Ints

if not version("opendp").startswith("0.16."):
    raise DiscreetError(
        f"opendp {version('opendp')} is not a version whose noise was verified; install opendp>=0.16,<0.17"
    )
enable_features("contrib")

SCALE_LIMIT = 2.0**52
"""Largest noise scale: 1,000 scales still lie within 64-bit integers, where the sampler would saturate."""
GAUSSIAN_EPSILON_LIMIT = 500
"""Largest epsilon for Gaussian noise: beyond it the conversion overflows, and nobody is protected."""
COIN_BLOCK = 2**20
"""Coins tossed at once: 4 MiB."""
Flags = npt.NDArray[np.bool_]


class Noise(VectorSource, Protocol):
    """Source of randomness for mechanisms."""

    def thin(self, values: Ints, probability: Fraction) -> Ints:
        """Draw from a binomial for every entry: keep each counted record independently with this probability."""

    def noisy_max(self, scores: Floats, scale: float) -> int:
        """Draw an index with `P(i) ~ exp(scores[i] / scale)`."""

    def choose(self, exponents: Sequence[Fraction], draws: int) -> Ints:
        """Draw indices with `P(i) ~ exp(-exponents[i])`, independently; exponents are at least 0, one of them is 0."""

    def pick(self, weights: Floats, draws: int) -> Ints:
        """Draw indices with `P(i) = weights[i] / sum(weights)`, independently; weights are at least 0, not all 0."""

    def rarely(self, draws: int) -> Flags:
        """Toss independent coins, True with probability 2^-64, once after each row; audits separate rows there."""

    def log_gamma(self, shapes: Floats) -> Floats:
        """Draw logarithms of independent gamma variates of scale 1, one for each shape parameter."""

    def uniforms(self, number: int) -> Floats:
        """Draw independent uniform variates in (0, 1), in floating point."""


@dataclass(frozen=True)
class ExactNoise:
    """OpenDP's exact integer noise, and integer arithmetic on the operating system's entropy; no seed, no generator.

    Guarantee:
        The output of `discrete_laplace` is `privacy_map(scale, d)`-DP towards any vector at L1 distance at most d;
        that of `discrete_gaussian` is `d^2 / (2 scale^2)`-zCDP towards any vector at L2 distance at most d; those of
        `k_norm` and `star` cost what `k_norm_scale` and `star_scale` say. `thin`, `pick` and `rarely` draw exactly from
        the probabilities they are given. `log_gamma` is a floating-point sampler; see there.

    Source:
        Ghosh, Roughgarden and Sundararajan (2009) for the geometric mechanism; Canonne, Kamath and Steinke (2020) for
        the exact samplers.
    """

    def discrete_laplace(self, values: Ints, scale: float) -> Ints:
        """See `Noise`; additionally refuses counts of more than 2^53."""
        return _add_noise(_make_laplace(scale), values)

    def discrete_gaussian(self, values: Ints, scale: float) -> Ints:
        """See `Noise`; additionally refuses counts of more than 2^53."""
        return _add_noise(_make_gaussian(scale), values)

    def k_norm(self, values: Ints, scale: float, shape: ShapeTag) -> Ints:
        """See `Noise`; additionally refuses counts of more than 2^53, and scales that `k_norm_noise` refuses."""
        _require_counts(values)
        return values + k_norm_noise(self, os.urandom, values.size, scale, shape).reshape(values.shape)

    def star(self, tables: Sequence[Ints], scale: float) -> list[Ints]:
        """See `Noise`; additionally refuses counts of more than 2^53, and stars that `star_noise` refuses."""
        for table in tables:
            _require_counts(table)
        return _add_star_noise(self, os.urandom, tables, scale)

    def thin(self, values: Ints, probability: Fraction) -> Ints:
        """See `Noise`: one coin of 32 bits for each record; a probability between two coins counts as the smaller."""
        heads = math.floor(probability * 2**32)
        sampled = [sum(int(np.count_nonzero(coins < heads)) for coins in _toss_coins(int(n))) for n in values.ravel()]
        return np.array(sampled, np.int64).reshape(values.shape)

    def noisy_max(self, scores: Floats, scale: float) -> int:
        """See `Noise`: OpenDP's noisy max in its zero-concentrated form, which is the exponential mechanism."""
        domain = vector_domain(atom_domain(T="f64", nan=False))
        choose = make_noisy_max(domain, linf_distance(T="f64"), zero_concentrated_divergence(), scale)
        return int(choose(scores.tolist()))

    def choose(self, exponents: Sequence[Fraction], draws: int) -> Ints:
        """See `Noise`: integer arithmetic, exact for all rational exponents."""
        return np.array(choose(os.urandom, exponents, draws), np.int64)

    def pick(self, weights: Floats, draws: int) -> Ints:
        """See `Noise`: every float is a ratio of integers, so the draws are exact for the weights as they are."""
        mantissas, exponents = np.frexp(weights)
        whole = (mantissas * 2.0**53).astype(np.int64)
        # Weights of equal exponent are multiples of one power of two: only groups need long integers.
        order = np.argsort(exponents, kind="stable")
        starts = np.flatnonzero(np.diff(exponents[order], prepend=exponents[order[0]] - 1))
        shifts = (exponents[order[starts]] - exponents.min()).tolist()
        high, low = (np.add.reduceat(bits[order], starts).tolist() for bits in (whole >> 26, whole & (2**26 - 1)))
        sums = [((h << 26) + l) << shift for h, l, shift in zip(high, low, shifts, strict=True)]
        steps = list(accumulate(sums))
        ends = [*starts[1:].tolist(), len(order)]
        picked = []
        for _ in range(draws):
            at = secrets.randbelow(steps[-1])
            group = bisect_right(steps, at)
            members = order[starts[group] : ends[group]]
            inside = (at - (steps[group - 1] if group else 0)) >> shifts[group]
            picked.append(int(members[bisect_right(list(accumulate(whole[members].tolist())), inside)]))
        return np.array(picked, np.int64)

    def rarely(self, draws: int) -> Flags:
        """See `Noise`."""
        return np.asarray(np.frombuffer(os.urandom(8 * draws), np.uint64) == 0)

    def log_gamma(self, shapes: Floats) -> Floats:
        """See `Noise`: by inverting the distribution function at uniforms of 52 bits from the operating system.

        The inverse is accurate to about 1e-14, not exact: a floating-point sampler that a pure guarantee cannot rest
        on. Variates of small shapes come from `G(a) = G(a + 1) U^(1 / a)`.
        """
        first, second = (self.uniforms(shapes.size).reshape(shapes.shape) for _ in range(2))
        return np.asarray(np.log(gammaincinv(shapes + 1, first)) + np.log(second) / shapes)

    def uniforms(self, number: int) -> Floats:
        """See `Noise`: odd multiples of 2^-53 from the operating system."""
        words = np.frombuffer(os.urandom(8 * number), np.uint64) >> np.uint64(12)
        return (words.astype(np.float64) + 0.5) * 2.0**-52


@dataclass(frozen=True)
class SimulatedNoise:
    """The same distributions, fast and seeded: for tests and experiments, never for a release.

    Args:
        rng: any generator.
    """

    rng: np.random.Generator

    def discrete_laplace(self, values: Ints, scale: float) -> Ints:
        """See `Noise`: the difference of two geometric variates."""
        success = -math.expm1(-1 / scale)
        return (
            values + self.rng.geometric(success, size=values.shape) - self.rng.geometric(success, size=values.shape)
        ).astype(np.int64)

    def discrete_gaussian(self, values: Ints, scale: float) -> Ints:
        """See `Noise`: rejection from the discrete Laplace distribution (Canonne, Kamath and Steinke, Algorithm 3)."""
        flat, t = np.zeros(values.size, np.int64), math.floor(scale) + 1
        pending = np.arange(values.size)
        while pending.size:
            tried = self.discrete_laplace(np.zeros(pending.size, np.int64), t)
            accepted = self.rng.random(pending.size) < np.exp(-((np.abs(tried) - scale**2 / t) ** 2) / (2 * scale**2))
            flat[pending[accepted]] = tried[accepted]
            pending = pending[~accepted]
        return values + flat.reshape(values.shape)

    def k_norm(self, values: Ints, scale: float, shape: ShapeTag) -> Ints:
        """See `Noise`: the same sampler, from this generator's bytes."""
        return values + k_norm_noise(self, self.rng.bytes, values.size, scale, shape).reshape(values.shape)

    def star(self, tables: Sequence[Ints], scale: float) -> list[Ints]:
        """See `Noise`: the same sampler, from this generator's bytes."""
        return _add_star_noise(self, self.rng.bytes, tables, scale)

    def thin(self, values: Ints, probability: Fraction) -> Ints:
        """See `Noise`."""
        return self.rng.binomial(values, float(probability)).astype(np.int64)

    def noisy_max(self, scores: Floats, scale: float) -> int:
        """See `Noise`: the largest of the scores with Gumbel noise."""
        return int(np.argmax(scores / scale + self.rng.gumbel(size=scores.shape)))

    def choose(self, exponents: Sequence[Fraction], draws: int) -> Ints:
        """See `Noise`."""
        return self.pick(np.exp([-float(exponent) for exponent in exponents]), draws)

    def pick(self, weights: Floats, draws: int) -> Ints:
        """See `Noise`."""
        cumulative = np.cumsum(weights)
        return np.asarray(np.searchsorted(cumulative, self.rng.random(draws) * cumulative[-1], side="right"), np.int64)

    def rarely(self, draws: int) -> Flags:
        """See `Noise`: so rarely that no simulation sees it."""
        return np.zeros(draws, np.bool_)

    def log_gamma(self, shapes: Floats) -> Floats:
        """See `Noise`."""
        return np.asarray(
            np.log(self.rng.standard_gamma(shapes + 1)) + np.log1p(-self.rng.random(shapes.shape)) / shapes
        )

    def uniforms(self, number: int) -> Floats:
        """See `Noise`."""
        return 1 - self.rng.random(number)


@lru_cache(maxsize=1024)
def scale_for(sensitivity: int, epsilon: Fraction) -> tuple[float, Fraction]:
    """Find the smallest discrete Laplace scale whose privacy map reports at most a budget.

    Args:
        sensitivity: L1, in records.
        epsilon: exact budget, nats.

    Returns:
        (scale in records, epsilon that the map reports). The report is a float rounded up by OpenDP, so the scale may
        be a few units in the last place above `sensitivity / epsilon`; it is never below it.

    Raises:
        InputError: the budget is so small that the scale exceeds 2^52, or so large that no positive scale is left.

    Source:
        Dwork and Roth (2014), Theorem 3.6, for integers.

    Example:
        >>> scale_for(8, Fraction(1))
        (8.0, Fraction(1, 1))
    """
    exact = sensitivity / epsilon
    if exact > SCALE_LIMIT:
        raise InputError("epsilon is too small: the noise would exceed 64-bit integers; ask for more than 1e-15 a cell")
    scale = float(exact)
    if not scale > 1e-9:
        raise InputError("epsilon is too large: the noise would vanish; a release without noise has no guarantee")
    while Fraction(scale) < exact or privacy_map(scale, sensitivity) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale, privacy_map(scale, sensitivity)


@lru_cache(maxsize=1024)
def deviation_for(squared_sensitivity: int, guarantee: Guarantee) -> tuple[float, Fraction, Fraction]:
    """Find the smallest discrete Gaussian scale that keeps a guarantee with delta.

    Args:
        squared_sensitivity: L2 squared, in records squared.
        guarantee: epsilon and delta greater than 0.

    Returns:
        (scale in records, zCDP loss rho that the noise's map reports, epsilon that follows at the guarantee's delta).
        The scale is found by bisection to a relative 1e-9, on the safe side.

    Raises:
        InputError: no delta, an epsilon above 500, or one so small that the scale exceeds 2^52.

    Source:
        Canonne, Kamath and Steinke (2020), Theorem 4 (the discrete Gaussian is zCDP) and Proposition 12 (the tight
        conversion), in OpenDP's implementation.

    Example:
        >>> promise = Guarantee(epsilon=1, delta="1e-6", relation="add-remove", unit="record")
        >>> scale, rho, epsilon = deviation_for(1, promise)
        >>> 4 < scale < 5, rho < epsilon <= 1
        (True, True)
    """
    if not guarantee.delta > 0:
        raise InputError("Gaussian noise needs a guarantee with a delta greater than 0, such as 1e-6")
    distance = _round_root_up(squared_sensitivity)
    delta = float(guarantee.delta)
    while Fraction(delta) > guarantee.delta:
        delta = math.nextafter(delta, 0)

    def profile(scale: float) -> Any:
        return make_zCDP_to_approxDP(_make_gaussian(scale)).map(distance)

    def kept(scale: float) -> bool:
        # delta(epsilon) is equivalent to epsilon(delta), for which OpenDP searches itself, 20 times slower.
        return bool(profile(scale).delta(float(guarantee.epsilon)) <= delta)

    if guarantee.epsilon > GAUSSIAN_EPSILON_LIMIT:
        raise InputError(
            f"an epsilon above {GAUSSIAN_EPSILON_LIMIT} with a delta promises nothing; ask for a smaller one"
        )
    # Between these rho is from 500 to nothing; where it is larger still, OpenDP's conversion would overflow.
    low, high = distance / math.sqrt(2 * GAUSSIAN_EPSILON_LIMIT), SCALE_LIMIT
    if not kept(high):
        raise InputError("epsilon is too small: the noise would exceed 64-bit integers; ask for more than 1e-15 a cell")
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if kept(middle) else (middle, high)
    while (reported := Fraction(profile(high).epsilon(delta))) > guarantee.epsilon:
        high *= 1 + 1e-9
    # If delta alone is enough, the conversion reports epsilon 0; the requested epsilon is then the safer bound.
    return high, Fraction(_make_gaussian(high).map(distance)), reported or guarantee.epsilon


def deviation_within(squared_sensitivity: int, rho: Fraction) -> tuple[float, Fraction]:
    """Find the smallest discrete Gaussian scale whose privacy map reports at most a zero-concentrated loss.

    Args:
        squared_sensitivity: L2 squared, in records squared.
        rho: exact budget.

    Returns:
        (scale in records, rho that the map reports); the scale is at most a few units in the last place too large.

    Raises:
        InputError: the budget is so small that the scale exceeds 2^52.

    Source:
        Canonne, Kamath and Steinke (2020), Theorem 4.

    Example:
        >>> deviation_within(1, Fraction(1, 8))
        (2.0, Fraction(1, 8))
    """
    exact = squared_sensitivity / (2 * rho)
    if exact > SCALE_LIMIT**2:
        raise InputError("a budget is too small: the noise would exceed 64-bit integers; ask for a larger epsilon")
    distance, scale = _round_root_up(squared_sensitivity), math.sqrt(exact)
    while (reported := Fraction(_make_gaussian(scale).map(distance))) > rho:
        scale = math.nextafter(scale, math.inf)
    return scale, reported


def _add_star_noise(noise: Noise, entropy: Entropy, tables: Sequence[Ints], scale: float) -> list[Ints]:
    """Add star noise to the tables of a star."""
    drawn = star_noise(noise, entropy, len(tables[0]), [table.shape[1] for table in tables], scale)
    return [table + added for table, added in zip(tables, drawn, strict=True)]


def _round_root_up(squared: int) -> float:
    """Take the root of a whole number, rounded up: OpenDP takes L2 distances as floats."""
    root = math.sqrt(squared)
    while Fraction(root) ** 2 < squared:
        root = math.nextafter(root, math.inf)
    return root


def privacy_map(scale: float, distance: int) -> Fraction:
    """Epsilon that discrete Laplace noise gives between vectors at an L1 distance, as OpenDP's own map reports it.

    Args:
        scale: of the noise, records.
        distance: L1, records.

    Returns:
        The report, exactly.

    Example:
        >>> privacy_map(2.0, 1)
        Fraction(1, 2)
    """
    return Fraction(_make_laplace(scale).map(distance))


def _make_laplace(scale: float) -> Any:
    """Make OpenDP's measurement for int64 vectors, L1 distance and pure differential privacy."""
    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale)


def _make_gaussian(scale: float) -> Any:
    """Make OpenDP's measurement for int64 vectors, L2 distance and zero-concentrated differential privacy."""
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale)


def _add_noise(measurement: Any, values: Ints) -> Ints:
    """Add noise to all entries by one vector call."""
    _require_counts(values)
    noisy = measurement(np.ascontiguousarray(values).ravel().tolist())
    return np.array(noisy, np.int64).reshape(values.shape)


def _require_counts(values: Ints) -> None:
    """Refuse counts to which 64-bit noise cannot be added; their values are not shown."""
    if values.size and int(np.abs(values).max()) > COUNT_LIMIT:
        raise InputError(f"a count is larger than {COUNT_LIMIT:,}, where 64-bit noise would saturate")


def _toss_coins(number: int) -> Iterator[npt.NDArray[np.uint32]]:
    """Draw uniform 32-bit numbers from the operating system, in blocks."""
    for start in range(0, number, COIN_BLOCK):
        yield np.frombuffer(os.urandom(4 * min(COIN_BLOCK, number - start)), np.uint32)
