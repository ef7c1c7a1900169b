"""Losses: the largest log ratio of the probabilities of what was asked for two data sets, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from discreet.mechanisms.k_norm import BALL_SLACK
from discreet.model.noise_shapes import Shape
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
        slack = float(BALL_SLACK) * u.size if shape == "ball" else 0.0
        total += length(u - v, shape) / scale + slack
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


def length(vector: npt.NDArray[Any], shape: Shape) -> int:
    """Norm of a vector of whole numbers, rounded up: what noise on it costs for each part of its scale.

    Example:
        >>> [length(np.array([3, -4]), shape) for shape in ("cube", "ball", "diamond")]
        [4, 5, 7]
    """
    exact = [abs(int(entry)) for entry in vector.ravel().tolist()]
    if shape == "cube":
        return max(exact, default=0)
    if shape == "diamond":
        return sum(exact)
    squares = sum(entry * entry for entry in exact)
    return math.isqrt(squares - 1) + 1 if squares else 0


def star_length(moved: Sequence[Integers]) -> float:
    """Norm of what a star's tables move by: what its noise costs for each part of its scale.

    Args:
        moved: shape (cells of the shared variables, cells of a row), for each table.

    Returns:
        Infinity where rows of one block do not move by the same sum: noise that agrees on it shows that.

    Example:
        >>> star_length([np.array([[1, 0]]), np.array([[0, 1, 0]])])  # a record is one entry of each of two tables
        1.0
        >>> star_length([np.array([[1, 0]]), np.array([[0, 0, 0]])])
        inf
    """
    sums = [table.sum(axis=1) for table in moved]
    if any(not np.array_equal(total, sums[0]) for total in sums):
        return math.inf
    return float(np.max([np.abs(table).sum(axis=1) for table in moved], axis=0).sum())


def _measure_laplace(u: Integers, v: Integers, scale: float, shares: tuple[Fraction, ...]) -> Floats:
    """Measure the largest log ratios of the outputs for values u and v, both ways, every cell at its worst."""
    moved = np.flatnonzero(u != v).tolist()
    total = np.full(2, sum(abs(int(u[cell] - v[cell])) for cell in moved if shares[cell] == 1) / scale)
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
        terms = binom.logpmf(kept, count, float(share)) - np.abs(window[:, None] - kept) / scale
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
        more, masses = _compute_gaussian_law(scale, steps)
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


def _compute_gaussian_law(scale: float, steps: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Compute losses, and their probabilities, of discrete Gaussian noise on entries that moved by so many steps."""
    reach = math.ceil(12 * scale) + 2
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    mass /= mass.sum()
    # The loss of moving one cell by m is (2 k m + m^2) / (2 scale^2): linear in the noise k, so sums of m k suffice.
    law, low = np.ones(1), 0
    for m in steps:
        spread = np.zeros(2 * reach * m + 1)
        spread[::m] = mass
        law, low = np.convolve(law, spread), low - reach * m
    return (2 * (low + np.arange(len(law))) + sum(m**2 for m in steps)) / (2 * scale**2), law
