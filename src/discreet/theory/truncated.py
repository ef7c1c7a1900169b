"""Beta laws truncated to an interval: exact log masses, and draws that are right deep in the tails.

The logit of a Beta variate has a log-concave density for *all* parameters. Downhill from the mode, or from the end of
the interval nearest to it, such a density is smooth, so its area over a stretch is a short quadrature of values between
0 and 1 (nothing cancels, nothing underflows), and a log-concave density of known height and area has a universal
envelope whose acceptance is 1/2 whatever the parameters (Devroye 1986). No inverse CDF is used.

Draws use floating point and a seeded generator. They are for analysis on the public side; a draw that is released
comes from a sampler on a public grid, not from here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from discreet.errors import InputError
from discreet.util.arrays import Floats

Mask = npt.NDArray[np.bool_]

SMALLEST_CONCENTRATION, LARGEST_CONCENTRATION = 1e-6, 1e12
"""Range of parameters in which masses were compared with 60-digit arithmetic."""
FALL_NATS = 46.0
"""Nats below its start at which a density is left out of a quadrature: exp(-46) is 1e-20."""
QUADRATURE_PANELS, PANEL_POINTS = 5, 24
"""Quadrature: panels that double in length, and Gauss points in each; error below 1e-11."""
INTEGRALS_CHUNK = 512
"""Integrals at a time, so that their points stay in the cache."""
FLAT_DISTANCE = 500.0
"""Above it `expm1` would soon overflow, and the other form of the same expression is exact."""
AREA_SAFETY = 1e-9
"""Relative enlargement of areas in the envelope, far above the error of the quadrature."""


def _place_nodes() -> tuple[Floats, Floats]:
    """Place points and weights on [0, 1], in panels that double in length away from 0; shape `(points, 1)`."""
    points, weights = np.polynomial.legendre.leggauss(PANEL_POINTS)
    edges = np.concatenate([[0.0], 2.0 ** np.arange(1 - QUADRATURE_PANELS, 1)])
    widths = np.diff(edges)[:, None]
    return (edges[:-1, None] + widths * (points + 1) / 2).reshape(-1, 1), (widths * weights / 2).reshape(-1, 1)


QUADRATURE_NODES, QUADRATURE_WEIGHTS = _place_nodes()


# ------------------------------------------------------------------------------------------------ masses


def log_beta_mass(a: npt.ArrayLike, b: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> Floats:
    """`ln P(low <= X <= high)` for X ~ Beta(a, b), accurate also where the probability itself is below 1e-300.

    Where most of the mass is inside, it is computed from the two tails outside, so the logarithm keeps its digits near
    0. Its relative error is below 1e-9 everywhere (1e-11 in comparisons), beyond what the rounding of `low` and `high`
    to floating point makes of it.

    Args:
        a, b: concentrations, from 1e-6 to 1e12.
        low, high: the interval, 0 <= low < high <= 1; all four are broadcast.

    Returns:
        Nats, of the shape of the arguments together.

    Raises:
        InputError: a concentration or an interval out of its range.

    Source:
        Quadrature of the logit's density; the normaliser by Stirling's series (Loader's saddle-point form).

    Example:
        >>> log_beta_mass([1, 2], [1, 5000], 0.01, 0.99).round(4).tolist()
        [-0.0202, -46.3199]
    """
    arrays = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (a, b, low, high)))
    first, second, lower, upper = (np.ravel(array) for array in arrays)
    _check_beta(first, second, lower, upper)
    outside = np.zeros(first.size)
    # Tails cost nothing to skip where an end is 0 or 1, and say nothing where the mode is outside the interval.
    mode = first / (first + second)
    inside = (lower < mode) & (mode < upper)
    for end, ends in ((lower > 0, (np.zeros_like(lower), lower)), (upper < 1, (upper, np.ones_like(upper)))):
        which = np.flatnonzero(inside & end)
        outside[which] += np.exp(_make_beta_hill(first[which], second[which], ends[0][which], ends[1][which]).log_mass)
    result = np.log1p(-np.minimum(outside, 0.5))
    which = np.flatnonzero(~inside | (outside > 0.5))
    result[which] = _make_beta_hill(first[which], second[which], lower[which], upper[which]).log_mass
    return result.reshape(arrays[0].shape)


# ------------------------------------------------------------------------------------------------ draws


def truncated_beta(
    a: npt.ArrayLike, b: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike, size: int, rng: np.random.Generator
) -> Floats:
    """Independent draws of Beta(a, b) given that they lie in [low, high], however improbable that is.

    Exact rejection from an envelope that accepts half of its proposals for all arguments, up to floating point; for
    analysis only.

    Args:
        a, b: concentrations, from 1e-6 to 1e12.
        low, high: the interval, 0 <= low < high <= 1; all four are numbers, or arrays of shape `(size,)`.
        size: number of draws.
        rng: source of randomness.

    Returns:
        Shape `(size,)`.

    Raises:
        InputError: a parameter or an interval out of its range, or arrays of another shape.

    Source:
        Devroye (1986), Section VII.2, for log-concave densities.

    Example:
        >>> draws = truncated_beta(1, 1e6, 0.01, 0.99, 1000, np.random.default_rng(1))
        >>> bool(0.01 <= draws.min() and draws.max() < 0.0101)
        True
    """
    first, second, lower, upper = _broadcast_columns(size, a, b, low, high)
    _check_beta(first, second, lower, upper)
    which = np.arange(size) % max(first.size, 1)
    hill = _make_beta_hill(first, second, lower, upper)
    up, distance = _draw_from_hills(hill, which, rng)
    result = np.where(up, hill.up.at(which).value(distance)[0], hill.down.at(which).value(distance)[1])
    return np.clip(result, lower[which], upper[which])


# ------------------------------------------------------------------------------------------------ checks


def _broadcast_columns(size: int, *values: npt.ArrayLike) -> list[Floats]:
    """Broadcast arguments to arrays of one axis, of length 1 where all are numbers."""
    arrays = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values))
    if arrays[0].shape not in ((), (size,)):
        raise InputError(f"parameters of {size} draws must be numbers or arrays of shape ({size},)")
    return [np.atleast_1d(array) for array in arrays]


def _check_beta(a: Floats, b: Floats, low: Floats, high: Floats) -> None:
    """Refuse what is out of range, NaN included."""
    if not all(np.all((x >= SMALLEST_CONCENTRATION) & (x <= LARGEST_CONCENTRATION)) for x in (a, b)):
        raise InputError(f"concentrations must be numbers from {SMALLEST_CONCENTRATION:g} to {LARGEST_CONCENTRATION:g}")
    if not np.all((low >= 0) & (low < high) & (high <= 1)):
        raise InputError("an interval of probabilities needs 0 <= low < high <= 1")


# ------------------------------------------------------------------------------------------------ one slope


@dataclass(frozen=True, eq=False)
class _BetaSlope:
    """The density of logit X, X ~ Beta(own, other), upwards in x from a start at or above its mode.

    `start` is x there and `rest` is 1 - x; the slope downwards is the slope upwards of 1 - X ~ Beta(other, own).
    """

    own: Floats
    other: Floats
    start: Floats
    rest: Floats

    def fall(self, distance: Floats) -> Floats:
        """Nats by which the log density at `start + distance` is below that at the start; shape `(..., slopes)`."""
        # (own + other) log(rest + start exp(v)) - own v, in the form that does not cancel on each side of a half.
        total, upper = self.own + self.other, self.start > 0.5
        if upper.all():
            return self.other * distance + total * np.log1p(self.rest * np.expm1(-distance))
        if upper.any():
            result = np.empty(np.broadcast_shapes(distance.shape, self.own.shape))
            for part in (np.flatnonzero(upper), np.flatnonzero(~upper)):
                result[..., part] = self.at(part).fall(distance[..., part])
            return result
        near = total * np.log1p(self.start * np.expm1(np.minimum(distance, FLAT_DISTANCE))) - self.own * distance
        if distance.max() <= FLAT_DISTANCE:
            return near
        return np.where(distance > FLAT_DISTANCE, total * np.log(self.start) + self.other * distance, near)

    def value(self, distance: Floats) -> tuple[Floats, Floats]:
        """X and 1 - X at a distance."""
        shrunk = self.rest * np.exp(-distance)
        return self.start / (self.start + shrunk), shrunk / (self.start + shrunk)

    def at(self, which: npt.NDArray[np.intp]) -> _BetaSlope:
        """Some of the slopes."""
        return _BetaSlope(self.own[which], self.other[which], self.start[which], self.rest[which])


def _integrate_slopes(slope: _BetaSlope, length: Floats) -> Floats:
    """Compute `log of the integral of exp(-fall) over [0, length]`, by Gauss panels that cluster at the start."""
    parts = [
        np.arange(first, min(first + INTEGRALS_CHUNK, length.size)) for first in range(0, length.size, INTEGRALS_CHUNK)
    ]
    return np.concatenate([_integrate_chunk(slope.at(part), length[part]) for part in parts])


def _integrate_chunk(slope: _BetaSlope, length: Floats) -> Floats:
    """Integrate the slopes of one chunk."""
    cut = np.ones_like(length)
    for _ in range(80):
        short = slope.fall(cut) < FALL_NATS
        if not short.any():
            break
        cut = np.where(short, 2 * cut, cut)
    for _ in range(80):
        long = slope.fall(cut / 2) > FALL_NATS
        if not long.any():
            break
        cut = np.where(long, cut / 2, cut)
    reach = np.minimum(length, cut)
    areas: Floats = np.log(reach * np.sum(QUADRATURE_WEIGHTS * np.exp(-slope.fall(QUADRATURE_NODES * reach)), axis=0))
    return areas


def _compute_stirling_error(x: Floats) -> Floats:
    """Compute `log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2`, which tends to 0."""
    y = np.maximum(x, 16.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / y**2) / y**2) / y**2) / y
    z = np.minimum(x, 16.0)
    direct = gammaln(z) - (z - 0.5) * np.log(z) + z - 0.5 * np.log(2 * np.pi)
    return np.asarray(np.where(x >= 16, series, direct))


# ------------------------------------------------------------------------------------------------ both slopes


@dataclass(frozen=True, eq=False)
class _Hill:
    """A log-concave density on an interval: the slopes on both sides of its highest point there.

    One slope may be empty. `log_height` is the log density (of the logit) at that point, lengths are
    along the slopes, areas are relative to the height.
    """

    up: _BetaSlope
    down: _BetaSlope
    lengths: Floats
    log_areas: Floats
    log_height: Floats

    @property
    def log_mass(self) -> Floats:
        """Log probability of the interval."""
        return np.asarray(self.log_height + np.logaddexp(*self.log_areas))


def _make_hill(up: _BetaSlope, down: _BetaSlope, lengths: tuple[Floats, Floats], log_height: Floats) -> _Hill:
    """Make a hill with its areas; only slopes of some length are integrated."""
    log_areas = np.full((2, log_height.size), -np.inf)
    for row, slope, length in zip(log_areas, (up, down), lengths, strict=True):
        which = np.flatnonzero(length > 0)
        if which.size:
            row[which] = _integrate_slopes(slope.at(which), length[which])
    return _Hill(up, down, np.stack(lengths), log_areas, log_height)


def _make_beta_hill(a: Floats, b: Floats, low: Floats, high: Floats) -> _Hill:
    """Make the hill of logit X on [low, high], X ~ Beta(a, b); arrays of one axis."""
    total = a + b
    mode, co_mode = a / total, b / total
    with np.errstate(divide="ignore"):
        width = np.log1p((high - low) / (low * (1 - high)))
        to_low = np.log(low) - np.log1p(-low) - np.log(a / b)
        to_high = np.log(high) - np.log1p(-high) - np.log(a / b)
    above, below = to_low >= 0, to_high <= 0
    start = np.where(above, low, np.where(below, high, mode))
    rest = np.where(above, 1 - low, np.where(below, 1 - high, co_mode))
    up_length = np.where(below, 0.0, np.where(above, width, to_high))
    down_length = np.where(above, 0.0, np.where(below, width, -to_low))
    stirling = _compute_stirling_error(total) - _compute_stirling_error(a) - _compute_stirling_error(b)
    log_height = 0.5 * (np.log(a / total) + np.log(b) - np.log(2 * np.pi)) + stirling
    for mask, slope, way in (
        (above, _BetaSlope(a, b, mode, co_mode), to_low),
        (below, _BetaSlope(b, a, co_mode, mode), -to_high),
    ):
        which = np.flatnonzero(mask)
        log_height[which] -= slope.at(which).fall(way[which])
    up, down = _BetaSlope(a, b, start, rest), _BetaSlope(b, a, rest, start)
    return _make_hill(up, down, (up_length, down_length), log_height)


def _draw_from_hills(hill: _Hill, which: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Mask, Floats]:
    """Draw from the hill of each entry of `which`: whether it lies on the slope upwards, and how far along it.

    Devroye's envelope: a log-concave density on [0, inf) with mode 0, value 1 there and area A is at most
    `min(1, exp(1 - v / A))`, whose area is 2 A. It stays above for a larger A, so the quadrature's error cannot bias.
    """
    areas = np.exp(hill.log_areas) * (1 + AREA_SAFETY)
    upward = areas[0] / (areas[0] + areas[1])
    up, distance = np.zeros(which.size, np.bool_), np.zeros(which.size)
    pending = np.arange(which.size)
    while pending.size:
        tried = which[pending]
        rises = rng.random(pending.size) < upward[tried]
        x = np.where(
            rng.random(pending.size) < 0.5, rng.random(pending.size), 1 + rng.standard_exponential(pending.size)
        )
        level = rng.standard_exponential(pending.size) + np.maximum(x - 1, 0)
        accepted = np.zeros(pending.size, np.bool_)
        for row, slope, mask in ((0, hill.up, rises), (1, hill.down, ~rises)):
            part = np.flatnonzero(mask)
            if part.size:
                source = tried[part]
                step = x[part] * areas[row, source]
                distance[pending[part]] = step
                up[pending[part]] = row == 0
                within = step <= hill.lengths[row, source]
                # Below the density: exp(-fall) >= U min(1, exp(1 - x)), in logarithms.
                accepted[part] = within & (slope.at(source).fall(step) <= level[part] - 0.0)
        pending = pending[~accepted]
    return up, distance
