"""Losses: the largest log ratio of the probabilities of what was asked for two data sets, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from discreet.noise.noise_laws import DiscreteGaussian, DiscreteLaplace
from discreet.noise.shapes import KNorm
from discreet.noise.star import star_length
from discreet.verify.script import Leak, Log

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LOG_COIN = -64 * math.log(2)
"""Log-probability of the coin that sends a row anywhere on its grid."""


def loss(one: Log, other: Log, draws: int, *, epsilon: float, delta: float) -> float:
    """The largest loss between two data sets, the larger of the two directions.

    Args:
        one: what a mechanism gave to the source for the first data set.
        other: the same for the second.
        draws: independent ones, of which one was enumerated.
        epsilon: nats; where the noise is Gaussian, its loss is wanted at this promise.
        delta: of the same promise.

    Returns:
        Nats; with Gaussian noise, epsilon at delta.

    Raises:
        Leak: something else than what the noise hides is not the same for both.
    """
    a, b = one.source, other.source
    refuse_leaks(one, other)
    # Of the first data set against the second, and the other way round: an output has one of the two ratios.
    total = np.zeros(2)
    for (u, scale, shares), (v, _, _) in zip(a.laplace, b.laplace, strict=True):
        total += _measure_laplace(u.ravel(), v.ravel(), scale, shares)
    for p, q in zip(a.choices, b.choices, strict=True):
        total += np.max(p - q), np.max(q - p)
    for row, (paths, others) in enumerate(zip(one.rows, other.rows, strict=True)):
        # A row that the coin sends anywhere takes every path alike.
        least = LOG_COIN - math.log(len(paths)) if _may_credit(one, other, row) else -math.inf
        gaps = [_subtract_logs(paths[path], others[path], least) for path in paths]
        total += draws * max(gaps), -draws * min(gaps)
    for (u, scale, shape), (v, _, _) in zip(a.vectors, b.vectors, strict=True):
        total += KNorm(scale, u.size, shape).loss(u - v)
    for (ours, scale), (theirs, _) in zip(a.stars, b.stars, strict=True):
        total += star_length([u - v for u, v in zip(ours, theirs, strict=True)]) / scale
    calls = [(np.abs(u - v), scale) for (u, scale), (v, _) in zip(a.gaussian, b.gaussian, strict=True)]
    return float(total.max()) + (_measure_gaussian(calls, epsilon, delta) if calls else 0.0)


def refuse_leaks(one: Log, other: Log) -> None:
    """Everything but the values that noise hides must be the same for both."""
    if bool(one.raised) != bool(other.raised):
        raise Leak(f"whether the draw fails depends on the records: {one.raised or other.raised}")
    if _list_questions(one) != _list_questions(other):
        raise Leak("with the answers of the noise held fixed, what is asked of it depends on the records")
    if one.released != other.released:
        raise Leak("with the noise held fixed, the release depends on the records")


def _may_credit(one: Log, other: Log, row: int) -> bool:
    """Whether the coin of a row sends it anywhere, in both data sets alike and to every point with equal chance."""
    if one.astray is None or other.astray is None:
        return False
    logs = [log for astray in (one.astray, other.astray) for at, log in astray if at == row]
    even = -math.log(len(one.rows[row]))
    return bool(logs) and all(abs(log - even) < 1e-6 for log in logs)


def _list_questions(log: Log) -> Any:
    """List what was asked of the source, but for the values that noise hides."""
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


def _subtract_logs(one: float, other: float, least: float) -> float:
    """Subtract two log-probabilities, after `exp(least)` is added to both probabilities."""
    a, b = np.logaddexp([one, other], least).tolist() if least > -math.inf else (one, other)
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
    """Measure them for one entry whose records are first sampled, over a window beyond which the ratio is constant."""
    window = np.arange(-2, max(u, v) + 3)

    def logs(count: int) -> Floats:
        kept = np.arange(count + 1)
        terms = binom.logpmf(kept, count, float(share)) + DiscreteLaplace(scale).log_density(window[:, None] - kept)
        return np.asarray(np.logaddexp.reduce(terms, axis=1))

    gaps = logs(u) - logs(v)
    return float(gaps.max()), float(-gaps.min())


def _measure_gaussian(calls: Iterable[tuple[Integers, float]], epsilon: float, delta: float) -> float:
    """Find epsilon at delta of discrete Gaussian noise on values that moved: exact hockey-stick, by bisection."""
    moved: dict[float, list[int]] = {}
    for by, scale in calls:
        moved.setdefault(scale, []).extend(by[by > 0].tolist())
    return _solve_epsilon(tuple((scale, tuple(sorted(by))) for scale, by in moved.items() if by), epsilon, delta)


@cache
def _solve_epsilon(moved: tuple[tuple[float, tuple[int, ...]], ...], epsilon: float, delta: float) -> float:
    """Find epsilon at delta by what moved under each scale of the noise."""
    losses, law = np.zeros(1), np.ones(1)
    for scale, steps in moved:
        more, masses = DiscreteGaussian(scale).losses(steps)
        losses, law = np.add.outer(losses, more).ravel(), np.multiply.outer(law, masses).ravel()

    def divergence(at: float) -> float:
        over = losses > at
        return float(np.sum(law[over] * -np.expm1(at - losses[over])))

    if divergence(epsilon) <= delta:
        # Only where it stands: the exact epsilon, for the report.
        bottom, top = 0.0, epsilon
    else:
        bottom, top = epsilon, float(losses.max())
    for _ in range(60):
        middle = (bottom + top) / 2
        bottom, top = (bottom, middle) if divergence(middle) <= delta else (middle, top)
    return top
