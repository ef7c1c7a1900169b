"""Evidence: what a release says of the counts of a row, as a log-likelihood for each cell.

Every kind of noise that a payload can carry comes to the same few things: where a cell's count is likely to be, how
far the noise reaches, and its log-likelihood. `latent_counts.py` draws the counts from these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr

from discreet.model.tables import Tables
from discreet.releases.kinds.noisy_contrasts import NoisyCoefficients
from discreet.releases.kinds.noisy_counts import NoisyCounts
from discreet.releases.kinds.noisy_tables import NoisyTables
from discreet.releases.kinds.two_stages import TwoStageCounts
from discreet.releases.measurement import laplace_variance, noise_variance
from discreet.theory.contrasts import family_tables, row_covariances

__all__ = [
    "Evidence",
    "GaussianEvidence",
    "LaplaceEvidence",
    "LaplaceSumEvidence",
    "NoisyStatistics",
    "StagedEvidence",
    "family_evidence",
    "total_measurements",
    "unshifted_tables",
]

Floats = npt.NDArray[np.float64]
NoisyStatistics = NoisyCounts | TwoStageCounts | NoisyCoefficients
"""Payloads that measure counts."""

KNOWN = 1e-6
"""Variance of what is known exactly: the next whole number is a thousand deviations away."""
SINGULAR = 1e-9
"""Smallest variance beside large ones, as a share of them: covariances stay far from singular in double precision."""


class Evidence(Protocol):
    """What is known of the counts of a row with K cells.

    `centre`: the count of each cell that fits best, shape (K,). `scale`: distance over which the log-likelihood changes
    by about one, in records.
    """

    @property
    def centre(self) -> Floats:
        """Best-fitting counts, shape (K,); may be negative."""

    @property
    def scale(self) -> float:
        """Natural unit of the noise, records."""

    def reach(self, nats: float) -> float:
        """Distance from the centre at which the log-likelihood has fallen by at least this much."""

    def log_likelihood(self, cell: int, counts: Floats) -> Floats:
        """Logarithm of the probability of what was released for a cell, for each count, up to a constant."""

    def coupling(self, counts: Floats) -> Floats:
        """What the joint log-likelihood of counts, shape (K, S), adds to the sum over the cells; shape (S,)."""

    @property
    def correlation(self) -> Floats | None:
        """Covariance of the noise in the cells, shape (K, K), where it is Gaussian and correlated; else None."""

    def total(self) -> Evidence:
        """What the same numbers say of the row's total: evidence with one cell."""


@dataclass(frozen=True, eq=False)
class LaplaceEvidence:
    """Independent discrete Laplace noise.

    Args:
        z: noisy counts, shape (K,).
        scale: `P(noise = k) ~ exp(-|k| / scale)`.
    """

    z: Floats
    scale: float

    @property
    def centre(self) -> Floats:
        """See `Evidence`."""
        return self.z

    def reach(self, nats: float) -> float:
        """See `Evidence`."""
        return self.scale * nats

    def log_likelihood(self, cell: int, counts: Floats) -> Floats:
        """See `Evidence`."""
        return np.asarray(-np.abs(counts - self.z[cell]) / self.scale)

    def coupling(self, counts: Floats) -> Floats:
        """See `Evidence`: the cells are independent."""
        return np.zeros(counts.shape[1])

    @property
    def correlation(self) -> None:
        """See `Evidence`."""
        return None

    def total(self) -> LaplaceSumEvidence:
        """See `Evidence`."""
        return LaplaceSumEvidence(self.z.sum(keepdims=True), self.scale, len(self.z))


@dataclass(frozen=True, eq=False)
class LaplaceSumEvidence:
    """In every cell the sum of several independent discrete Laplace variates of one scale.

    Args:
        z: noisy counts, shape (K,).
        part_scale: of each variate.
        terms: how many there are in each cell.
    """

    z: Floats
    part_scale: float
    terms: int

    @property
    def centre(self) -> Floats:
        """See `Evidence`."""
        return self.z

    @property
    def scale(self) -> float:
        """See `Evidence`: that of one Laplace variate with the same variance."""
        return max(math.sqrt(self.terms * laplace_variance(self.part_scale) / 2), self.part_scale)

    def reach(self, nats: float) -> float:
        """See `Evidence`: a Chernoff bound, that of a Gaussian near the centre and of one variate far out."""
        return self.part_scale * (2 * math.sqrt(self.terms * nats) + nats)

    def log_likelihood(self, cell: int, counts: Floats) -> Floats:
        """See `Evidence`."""
        table = _log_laplace_sum(self.part_scale, self.terms)
        distance = np.abs(counts - self.z[cell])
        inside = np.minimum(distance, len(table) - 1).astype(np.int64)
        # Beyond the table the logarithm goes on with its last slope; it is concave, so this is never too low. The slope
        # is that of a stretch: from one count to the next the rounding errors of the transform are larger than it.
        beyond = np.maximum(distance - (len(table) - 1), 0)
        stretch = max(len(table) // 16, 1)
        return np.asarray(table[inside] + beyond * (table[-1] - table[-1 - stretch]) / stretch)

    def coupling(self, counts: Floats) -> Floats:
        """See `Evidence`: the cells are independent."""
        return np.zeros(counts.shape[1])

    @property
    def correlation(self) -> None:
        """See `Evidence`."""
        return None

    def total(self) -> LaplaceSumEvidence:
        """See `Evidence`."""
        return LaplaceSumEvidence(self.z.sum(keepdims=True), self.part_scale, self.terms * len(self.z))


@dataclass(frozen=True, eq=False)
class GaussianEvidence:
    """Gaussian noise, in the cells of a row perhaps correlated.

    Args:
        z: noisy counts, shape (K,); need not be whole.
        covariance: of the noise, shape (K, K), positive definite.
    """

    z: Floats
    covariance: Floats

    @staticmethod
    def independent(z: Floats, deviation: float) -> GaussianEvidence:
        """The same noise in every cell, independent."""
        return GaussianEvidence(z, np.diag(np.full(len(z), deviation**2)))

    @property
    def centre(self) -> Floats:
        """See `Evidence`."""
        return self.z

    @property
    def scale(self) -> float:
        """See `Evidence`."""
        return float(np.sqrt(np.diag(self.covariance).max() / 2))

    def reach(self, nats: float) -> float:
        """See `Evidence`."""
        return 2 * self.scale * math.sqrt(nats)

    def log_likelihood(self, cell: int, counts: Floats) -> Floats:
        """See `Evidence`."""
        return np.asarray(-((counts - self.z[cell]) ** 2) / (2 * self.covariance[cell, cell]))

    def coupling(self, counts: Floats) -> Floats:
        """See `Evidence`: the joint density less those of the cells."""
        if self.correlation is None:
            return np.zeros(counts.shape[1])
        precision = np.linalg.inv(self.covariance) - np.diag(1 / np.diag(self.covariance))
        error = counts - self.z[:, None]
        return np.asarray(-0.5 * np.einsum("ks,kl,ls->s", error, precision, error))

    @property
    def correlation(self) -> Floats | None:
        """See `Evidence`."""
        alone = np.array_equal(self.covariance, np.diag(np.diag(self.covariance)))
        return None if alone else self.covariance

    def total(self) -> GaussianEvidence:
        """See `Evidence`."""
        return GaussianEvidence(self.z.sum(keepdims=True), np.array([[max(self.covariance.sum(), KNOWN)]]))


@dataclass(frozen=True, eq=False)
class StagedEvidence:
    """Two independent measurements with discrete Laplace noise, the first perhaps of a Poisson sample of the records.

    Args:
        first: of the counts in the sample.
        second: of the counts of all records.
        sampling: probability with which a record was in the sample.
    """

    first: LaplaceEvidence | LaplaceSumEvidence
    second: LaplaceEvidence | LaplaceSumEvidence
    sampling: float

    @property
    def centre(self) -> Floats:
        """See `Evidence`: the two, weighted by their inverse variances."""
        one, two = self.first.z / self.sampling, self.second.z
        sampled = np.maximum(two, 1) * (1 - self.sampling) / self.sampling
        weight = 1 / (2 * (self.first.scale / self.sampling) ** 2 + sampled)
        other = 1 / (2 * self.second.scale**2)
        return np.asarray((weight * one + other * two) / (weight + other))

    @property
    def scale(self) -> float:
        """See `Evidence`."""
        return 1 / (self.sampling / self.first.scale + 1 / self.second.scale)

    def reach(self, nats: float) -> float:
        """See `Evidence`: no further than the better measurement alone, and from it to the centre."""
        gap = float(np.max(np.abs(self.centre - self.second.z)))
        return self.second.reach(nats) + gap

    def log_likelihood(self, cell: int, counts: Floats) -> Floats:
        """See `Evidence`."""
        second = self.second.log_likelihood(cell, counts)
        if self.sampling == 1:
            return second + self.first.log_likelihood(cell, counts)
        # The sampled count is binomial; its normal approximation plus Laplace noise has a closed form. Of a sum of
        # Laplace variates all but one go into the normal part.
        match self.first:
            case LaplaceSumEvidence(part_scale=scale, terms=terms):
                others = (terms - 1) * laplace_variance(scale)
            case _:
                scale, others = self.first.scale, 0.0
        sampled = np.maximum(counts, 0) * self.sampling * (1 - self.sampling)
        error = self.first.z[cell] - self.sampling * counts
        return second + _log_normal_laplace(error, np.sqrt(sampled + others + 1e-12), scale)

    def coupling(self, counts: Floats) -> Floats:
        """See `Evidence`: the cells are independent."""
        return np.zeros(counts.shape[1])

    @property
    def correlation(self) -> None:
        """See `Evidence`."""
        return None

    def total(self) -> StagedEvidence:
        """See `Evidence`."""
        return StagedEvidence(self.first.total(), self.second.total(), self.sampling)


def family_evidence(payload: NoisyStatistics, node: str) -> Sequence[Evidence]:
    """What a payload says of each row of a family.

    Args:
        payload: noisy statistics.
        node: of the network.

    Returns:
        Evidence for every parent configuration, in the order of the table.
    """
    match payload:
        case NoisyCounts(noise="discrete_laplace"):
            return _laplace_evidence(payload, node)
        case NoisyCounts():
            deviation = payload.scales[payload.source(node)] * math.sqrt(payload.terms(node))
            return [GaussianEvidence.independent(z, deviation) for z in _rows(payload, node)]
        case TwoStageCounts():
            stages = (_laplace_evidence(stage, node) for stage in (payload.first, payload.second))
            return [StagedEvidence(one, two, float(payload.sampling)) for one, two in zip(*stages, strict=True)]
        case NoisyCoefficients():
            variances = dict.fromkeys(payload.components, laplace_variance(payload.scale))
            variances[()] *= payload.noisy_total
            covariances = row_covariances(payload.network, node, variances)
            table = unshifted_tables(payload)[node].reshape(len(covariances), -1)
            known = max(KNOWN, SINGULAR * float(covariances.max())) * np.eye(table.shape[1])
            return [GaussianEvidence(z, noise + known) for z, noise in zip(table, covariances, strict=True)]


@lru_cache(maxsize=8)
def unshifted_tables(payload: NoisyCoefficients) -> Tables:
    """The family tables of noisy contrasts, without the shift; float64, they agree with each other."""
    empty = payload.components[()] - payload.shift
    return family_tables(payload.network, {**payload.components, (): empty})


def total_measurements(payload: NoisyStatistics | NoisyTables, without: str | None) -> list[tuple[float, float]]:
    """Measurements of the number of records.

    Args:
        payload: noisy statistics.
        without: a measured table that is left out; None for none.

    Returns:
        (noisy number, variance of its noise) of each.
    """
    match payload:
        case NoisyCounts():
            return [
                (float(table.sum()), table.size * _variance(payload, node))
                for node, table in payload.tables.items()
                if node != without
            ]
        case NoisyTables():
            return [
                (float(table.sum()), table.size * noise_variance(payload.noise, payload.scales[scope]))
                for scope, table in payload.tables.items()
            ]
        case TwoStageCounts():
            share = float(payload.sampling)
            # Of a sample, each number also varies with who was in it.
            first = [
                (z / share, noise / share**2 + max(z / share, 1.0) * (1 - share) / share)
                for z, noise in total_measurements(payload.first, without)
            ]
            return first + total_measurements(payload.second, without)
        case NoisyCoefficients():
            known = max(laplace_variance(payload.scale), KNOWN) if payload.noisy_total else KNOWN
            return [(float(payload.components[()] - payload.shift), known)]


def _laplace_evidence(payload: NoisyCounts, node: str) -> list[LaplaceEvidence | LaplaceSumEvidence]:
    """One piece of evidence for each row of counts with Laplace noise."""
    scale, terms = payload.scales[payload.source(node)], payload.terms(node)
    if terms == 1:
        return [LaplaceEvidence(z, scale) for z in _rows(payload, node)]
    return [LaplaceSumEvidence(z, scale, terms) for z in _rows(payload, node)]


def _rows(payload: NoisyCounts, node: str) -> Floats:
    """Noisy counts of a family, a row for each parent configuration."""
    table = payload.table(node)
    return table.reshape(-1, table.shape[-1]).astype(np.float64)


def _variance(payload: NoisyCounts, node: str) -> float:
    """Variance of the noise in a cell; noise that never shows still leaves a proper weight."""
    return max(noise_variance(payload.noise, payload.scales[node]), KNOWN)


@lru_cache(maxsize=256)
def _log_laplace_sum(scale: float, terms: int) -> Floats:
    """Log-probabilities of the sum of discrete Laplace variates at 0, 1, 2, ..., from its characteristic function.

    As far as the transform is accurate, 1e-10 of the peak; at least two entries.
    """
    q = math.exp(-1 / scale)
    deviation = math.sqrt(terms * laplace_variance(scale))
    size = 2 ** math.ceil(math.log2(2 * (12 * deviation + 40 * scale) + 64))
    frequencies = np.fft.rfftfreq(size) * 2 * np.pi
    # The denominator is 1 - 2 q cos + q^2, in the form that does not cancel where q is close to 1.
    peak = math.expm1(-1 / scale) ** 2
    transform = (peak / (peak + 4 * q * np.sin(frequencies / 2) ** 2)) ** terms
    mass = np.fft.irfft(transform, size)[: size // 2]
    accurate = int(np.argmax(mass < 1e-10 * mass[0])) or len(mass)
    return np.asarray(np.log(mass[: max(accurate, 2)].clip(np.finfo(np.float64).tiny)))


def _log_normal_laplace(x: Floats, deviation: Floats, scale: float) -> Floats:
    """Log-density of the sum of a normal and a Laplace variate, up to a constant (Reed and Jorgensen, 2004)."""
    return np.asarray(np.logaddexp(_log_side(x, deviation, scale), _log_side(-x, deviation, scale)))


def _log_side(x: Floats, deviation: Floats, scale: float) -> Floats:
    """`log(phi(u) (1 - Phi(v)) / phi(v))` with `u = x / deviation` and `v = deviation / scale - u`; never overflows."""
    # A small deviation makes both squares huge, so that `(v^2 - u^2) / 2` is multiplied out before it is computed.
    ratio, standard = deviation / scale, x / deviation
    argument = ratio - standard
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        far = np.log(erfcx(np.maximum(argument, 0) / math.sqrt(2)) / 2) - standard**2 / 2
    near = log_ndtr(-np.minimum(argument, 0)) + ratio**2 / 2 - x / scale
    return np.asarray(np.where(argument > 0, far, near))
