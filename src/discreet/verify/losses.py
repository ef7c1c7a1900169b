"""Exact privacy losses: the largest log ratio of output probabilities of two data sets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr
from scipy.stats import binom

from discreet.noise.noise_laws import DiscreteGaussian, DiscreteLaplace
from discreet.noise.shapes import KNorm
from discreet.noise.star import star_length
from discreet.verify.script import Leak, Log

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SMOOTH_DEVIATION = 2**9
"""Deviation from which discrete Gaussian noise is followed as normal noise. The hockey-stick divergences differ by a
share of about the squared ratio of a likely number to the variance, below 1e-4."""
LARGEST_NORMAL = 40.0
"""Deviations beyond which no normal number lies."""
LOG_COIN = -64 * math.log(2)
"""Log-probability of the coin that sends a row anywhere on its grid."""


def loss(first: Log, second: Log, draws: int, *, epsilon: float, delta: float) -> float:
    """Privacy loss between two data sets, the larger of the two directions.

    Args:
        first: log of the mechanism for the first data set.
        second: the same for the second data set.
        draws: independent ones, of which one was enumerated.
        epsilon: nats; where the noise is Gaussian, its loss is wanted at this promise.
        delta: of the same promise.

    Returns:
        Nats; with Gaussian noise, epsilon at delta.

    Raises:
        Leak: something else than what the noise hides is not the same for both.
    """
    a, b = first.source, second.source
    refuse_leaks(first, second)
    # Both directions are summed apart: an output has one of the two ratios.
    total = np.zeros(2)
    for (u, scale, shares), (v, _, _) in zip(a.laplace, b.laplace, strict=True):
        total += _measure_laplace(u.ravel(), v.ravel(), scale, shares)
    for p, q in zip(a.choices, b.choices, strict=True):
        total += np.max(p - q), np.max(q - p)
    for row, (paths, others) in enumerate(zip(first.rows, second.rows, strict=True)):
        # A row after the coin takes every path with equal probability.
        least = LOG_COIN - math.log(len(paths)) if _may_credit_coin(first, second, row) else -math.inf
        gaps = [_subtract_logs(paths[path], others[path], least) for path in paths]
        total += draws * max(gaps), -draws * min(gaps)
    for (u, scale, shape), (v, _, _) in zip(a.vectors, b.vectors, strict=True):
        total += KNorm(scale, u.size, shape).loss(u - v)
    for (ours, scale), (theirs, _) in zip(a.stars, b.stars, strict=True):
        total += star_length([u - v for u, v in zip(ours, theirs, strict=True)]) / scale
    calls = [(np.abs(u - v), scale) for (u, scale), (v, _) in zip(a.gaussian, b.gaussian, strict=True)]
    return float(total.max()) + (measure_gaussian(calls, epsilon, delta) if calls else 0.0)


def refuse_leaks(first: Log, second: Log) -> None:
    """Refuse logs that differ in anything but the values that noise hides."""
    if bool(first.raised) != bool(second.raised):
        raise Leak(f"whether the draw fails depends on the records: {first.raised or second.raised}")
    if _list_requests_of(first) != _list_requests_of(second):
        raise Leak("with the answers of the noise held fixed, what is asked of it depends on the records")
    if first.released != second.released:
        raise Leak("with the noise held fixed, the release depends on the records")


def _may_credit_coin(first: Log, second: Log, row: int) -> bool:
    """True if the coin of a row sends it anywhere, in both data sets alike and to every point with equal chance."""
    if first.astray is None or second.astray is None:
        return False
    logs = [log for astray in (first.astray, second.astray) for at, log in astray if at == row]
    even = -math.log(len(first.rows[row]))
    return bool(logs) and all(abs(log - even) < 1e-6 for log in logs)


def _list_requests_of(log: Log) -> Any:
    """List the requests to the source of noise, without the values that noise hides."""
    source = log.source
    laplace = [(values.shape, scale, shares) for values, scale, shares in source.laplace]
    gaussian = [(values.shape, scale) for values, scale in source.gaussian]
    vectors = [(values.shape, scale, shape) for values, scale, shape in source.vectors]
    return (
        laplace,
        gaussian,
        vectors,
        [(tuple(table.shape for table in tables), scale) for tables, scale in source.stars],
        [len(logs) for logs in source.choices],
        [row.keys() for row in log.rows],
        (source.gammas, source.coins),
    )


def _subtract_logs(first: float, second: float, least: float) -> float:
    """Subtract two log-probabilities, after `exp(least)` is added to both probabilities."""
    a, b = np.logaddexp([first, second], least).tolist() if least > -math.inf else (first, second)
    return 0.0 if a == b else a - b


def _measure_laplace(u: Integers, v: Integers, scale: float, shares: tuple[Fraction, ...]) -> Floats:
    """Measure the largest log ratios of the outputs for values u and v, both ways, every cell at its worst."""
    moved = np.flatnonzero(u != v).tolist()
    law = DiscreteLaplace(scale)
    total = np.full(2, law.loss(sum(abs(int(u[cell] - v[cell])) for cell in moved if shares[cell] == 1)))
    for cell in moved:
        if shares[cell] != 1:
            total += _measure_sampled(int(u[cell]), int(v[cell]), scale, shares[cell])
    return total


@cache
def _measure_sampled(u: int, v: int, scale: float, share: Fraction) -> tuple[float, float]:
    """Measure the log ratios of one subsampled entry, over a window beyond which the ratio is constant."""
    window = np.arange(-2, max(u, v) + 3)

    def logs(count: int) -> Floats:
        # Mixture: Binomial(count, share) records are sampled, then receive discrete Laplace noise.
        sample = np.arange(count + 1)
        terms = binom.logpmf(sample, count, float(share)) + DiscreteLaplace(scale).log_density(window[:, None] - sample)
        return np.asarray(np.logaddexp.reduce(terms, axis=1))

    gaps = logs(u) - logs(v)
    return float(gaps.max()), float(-gaps.min())


def measure_gaussian(calls: Iterable[tuple[Integers, float]], epsilon: float, delta: float) -> float:
    """Find epsilon at delta of discrete Gaussian noise on values that moved: exact hockey-stick, by bisection."""
    moved: dict[float, list[int]] = {}
    for by, scale in calls:
        moved.setdefault(scale, []).extend(by[by > 0].tolist())
    return _solve_epsilon(tuple((scale, tuple(sorted(by))) for scale, by in moved.items() if by), epsilon, delta)


@cache
def _solve_epsilon(moved: tuple[tuple[float, tuple[int, ...]], ...], epsilon: float, delta: float) -> float:
    """Find epsilon at delta by the squared moves under each scale of the noise."""
    losses, law, smooth = np.zeros(1), np.ones(1), 0.0
    for scale, steps in moved:
        if scale >= SMOOTH_DEVIATION:
            smooth += sum((step / scale) ** 2 for step in steps)
            continue
        step_losses, masses = DiscreteGaussian(scale).losses(steps)
        losses, law = np.add.outer(losses, step_losses).ravel(), np.multiply.outer(law, masses).ravel()

    def divergence(at: float) -> float:
        # Hockey-stick divergence: delta(epsilon) = E (1 - e^(epsilon - L))+ over the privacy loss L.
        if smooth:
            # Of noise whose loss is normal, of mean m^2 / 2 and variance m^2 (Balle and Wang, 2018, Theorem 8).
            rest, m = at - losses, math.sqrt(smooth)
            tails = np.exp(log_ndtr(m / 2 - rest / m)) - np.exp(rest + log_ndtr(-m / 2 - rest / m))
            return float(np.sum(law * tails))
        over = losses > at
        return float(np.sum(law[over] * -np.expm1(at - losses[over])))

    if divergence(epsilon) <= delta:
        # The guarantee holds: find the exact epsilon for the report.
        bottom, top = 0.0, epsilon
    else:
        bottom, top = epsilon, float(losses.max()) + smooth / 2 + LARGEST_NORMAL * math.sqrt(smooth)
    for _ in range(60):
        middle = (bottom + top) / 2
        bottom, top = (bottom, middle) if divergence(middle) <= delta else (middle, top)
    return top
