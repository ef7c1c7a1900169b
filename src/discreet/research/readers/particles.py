"""Posterior of all rows from released draws of a tempered posterior.

Model, for a row with released draws t_1..t_S, tempering exponent tau, concentrations a and floor w:

    theta ~ Dirichlet(a);   N ~ law of the row's total;   (N_1..N_K) | N, theta ~ Multinomial(N, theta);
    t_s ~ Dirichlet(a' + tau N), trimmed to probabilities of at least w, with a' the curator's concentrations.

Particles (theta, N_1..N_K) move from the prior to the posterior by small steps of the likelihood's power. After each
they are resampled and moved: theta given its counts is a Dirichlet draw, counts are partly drawn anew given theta, and
the total moves by adding or removing records. All moves leave the law of the step invariant. For trimmed rows these
steps approximate the grid by a continuum; a last series of steps leads from that likelihood to the exact one.

The law of totals is that of Binomial(n, P(parents)) under the ancestors' draws. n is public under REPLACE and observed
with noise under ADD_REMOVE; its prior is uniform in log(1 + n), up to a hundred million, and so is its posterior for
releases without n.

Source: Del Moral, Doucet and Jasra (2006), sequential Monte Carlo samplers; Williams and McSherry (2010), equation 3,
for a mechanism whose output is a posterior draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import gammaln

from discreet.errors import DiscreetError, InputError
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.methods import DrawTask
from discreet.posterior.totals import (
    MOST_EXPECTED_RECORDS,
    TotalLaw,
    log_flat_law,
    measured_total_law,
    normal_law,
    total_laws,
)
from discreet.releases.release import Release
from discreet.research.kinds.parameter_draws import ParameterDraws
from discreet.research.scores.lattice import resolution_for
from discreet.util.arrays import Array, Floats, Ints

# --------------------------------------------------------------------------------------------------------------------
# Beta laws truncated to an interval: exact log masses, and draws that are accurate far in the tails.
#
# The logit of a Beta variate has a log-concave density for *all* parameters. Downhill from the mode, or from the end of
# the interval nearest to it, such a density is smooth, so its area over a stretch is a short quadrature of values
# between 0 and 1 (without cancellation or underflow), and a log-concave density of known height and area has a
# universal envelope with an acceptance rate of 1/2 for all parameters (Devroye 1986). No inverse CDF is used.
#
# Draws use floating point and a seeded generator. They are for the analysis of releases; released draws come from a
# sampler on a public grid.

Mask = npt.NDArray[np.bool_]

SMALLEST_CONCENTRATION, LARGEST_CONCENTRATION = 1e-6, 1e12
"""Range of parameters in the comparison of masses with 60-digit arithmetic."""
FALL_NATS = 46.0
"""Nats below its start at which the quadrature of a density ends: exp(-46) is 1e-20."""
QUADRATURE_PANELS, PANEL_POINTS = 5, 24
"""Number of panels of the quadrature, which double in length, and of Gauss points in each; error below 1e-11."""
INTEGRALS_CHUNK = 512
"""Number of integrals in a chunk, whose points fit into the cache."""
FLAT_DISTANCE = 500.0
"""Distance above which `expm1` could overflow; the asymptotic form of the expression is exact there."""
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
    """Compute `ln P(low <= X <= high)` for X ~ Beta(a, b), accurately even for probabilities below 1e-300.

    If most of the mass is inside, it is computed from the two tails outside, so the logarithm is accurate near 0. Its
    relative error is below 1e-9 everywhere (1e-11 in comparisons), apart from the effect of rounding `low` and `high`
    to floating point.

    Args:
        a, b: concentrations, from 1e-6 to 1e12.
        low, high: ends of the interval, 0 <= low < high <= 1; all four are broadcast.

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
    # An end at 0 or 1 has no tail; with the mode outside the interval, the tails are not used.
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
    """Draw Beta(a, b) given that it lies in [low, high], independently, for any probability of that interval.

    The draws are exact, up to floating point, by rejection from an envelope that accepts half of its proposals for all
    arguments; for analysis only.

    Args:
        a, b: concentrations, from 1e-6 to 1e12.
        low, high: ends of the interval, 0 <= low < high <= 1; all four are numbers, or arrays of shape `(size,)`.
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
    """Broadcast arguments to arrays of one axis, of length 1 if all are numbers."""
    arrays = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values))
    if arrays[0].shape not in ((), (size,)):
        raise InputError(f"parameters of {size} draws must be numbers or arrays of shape ({size},)")
    return [np.atleast_1d(array) for array in arrays]


def _check_beta(a: Floats, b: Floats, low: Floats, high: Floats) -> None:
    """Refuse arguments out of range, including NaN."""
    if not all(np.all((x >= SMALLEST_CONCENTRATION) & (x <= LARGEST_CONCENTRATION)) for x in (a, b)):
        raise InputError(f"concentrations must be numbers from {SMALLEST_CONCENTRATION:g} to {LARGEST_CONCENTRATION:g}")
    if not np.all((low >= 0) & (low < high) & (high <= 1)):
        raise InputError("an interval of probabilities needs 0 <= low < high <= 1")


# ------------------------------------------------------------------------------------------------ one slope


@dataclass(frozen=True, eq=False)
class _BetaSlope:
    """Density of logit X, X ~ Beta(a, b), upwards in x from a start at or above its mode.

    `start` is x there and `rest` is 1 - x; the slope downwards is the slope upwards of 1 - X ~ Beta(b, a).
    """

    a: Floats
    b: Floats
    start: Floats
    rest: Floats

    def fall(self, distance: Floats) -> Floats:
        """Compute the fall of the log density from the start to `start + distance`, nats; shape `(..., slopes)`."""
        # (a + b) log(rest + start exp(v)) - a v, in the form without cancellation on each side of a half.
        total, upper = self.a + self.b, self.start > 0.5
        if upper.all():
            return self.b * distance + total * np.log1p(self.rest * np.expm1(-distance))
        if upper.any():
            result = np.empty(np.broadcast_shapes(distance.shape, self.a.shape))
            for slopes in (np.flatnonzero(upper), np.flatnonzero(~upper)):
                result[..., slopes] = self.at(slopes).fall(distance[..., slopes])
            return result
        near = total * np.log1p(self.start * np.expm1(np.minimum(distance, FLAT_DISTANCE))) - self.a * distance
        if distance.max() <= FLAT_DISTANCE:
            return near
        return np.where(distance > FLAT_DISTANCE, total * np.log(self.start) + self.b * distance, near)

    def value(self, distance: Floats) -> tuple[Floats, Floats]:
        """Compute X and 1 - X at a distance."""
        shrunk = self.rest * np.exp(-distance)
        return self.start / (self.start + shrunk), shrunk / (self.start + shrunk)

    def at(self, which: npt.NDArray[np.intp]) -> _BetaSlope:
        """Select some of the slopes."""
        return _BetaSlope(self.a[which], self.b[which], self.start[which], self.rest[which])


def _integrate_slopes(slope: _BetaSlope, length: Floats) -> Floats:
    """Compute `log of the integral of exp(-fall) over [0, length]`, by Gauss panels that cluster at the start."""
    chunks = [
        np.arange(first, min(first + INTEGRALS_CHUNK, length.size)) for first in range(0, length.size, INTEGRALS_CHUNK)
    ]
    return np.concatenate([_integrate_chunk(slope.at(chunk), length[chunk]) for chunk in chunks])


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
    """Log-concave density on an interval: the slopes on both sides of its highest point there.

    One slope may be empty. `log_height` is the log density (of the logit) at that point, lengths are along the slopes,
    areas are relative to the height.
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
    """Make a hill with its areas; only slopes of positive length are integrated."""
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
    for mask, slope, distance in (
        (above, _BetaSlope(a, b, mode, co_mode), to_low),
        (below, _BetaSlope(b, a, co_mode, mode), -to_high),
    ):
        which = np.flatnonzero(mask)
        log_height[which] -= slope.at(which).fall(distance[which])
    up, down = _BetaSlope(a, b, start, rest), _BetaSlope(b, a, rest, start)
    return _make_hill(up, down, (up_length, down_length), log_height)


def _draw_from_hills(hill: _Hill, which: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Mask, Floats]:
    """Draw from the hill of each entry of `which`; return True for the slope upwards, and the distance along it.

    Devroye's envelope: a log-concave density on [0, inf) with mode 0, value 1 there and area A is at most
    `min(1, exp(1 - v / A))`, whose area is 2 A. This also holds for a larger A, so the quadrature's error adds no bias.
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
            entries = np.flatnonzero(mask)
            if entries.size:
                source = tried[entries]
                step = x[entries] * areas[row, source]
                distance[pending[entries]] = step
                up[pending[entries]] = row == 0
                within = step <= hill.lengths[row, source]
                # Below the density: exp(-fall) >= U min(1, exp(1 - x)), in logarithms.
                accepted[entries] = within & (slope.at(source).fall(step) <= level[entries] - 0.0)
        pending = pending[~accepted]
    return up, distance


LEAST_PARTICLES = 400
"""Least number of particles for any number of draws."""
ROW_EFFECTIVE_SHARE = 0.5
"""Share of the particles that stay effective in each step of the likelihood's power."""
ROW_MOVE_ROUNDS = 4
"""Rounds of moves after each step."""
GRID_MOVE_ROUNDS = 1
"""Rounds after each step to the law on the grid, which costs more: a tenth of a second for 1,000 particles."""
MOST_ROW_STEPS = 200
"""Most steps: each halves the plausible space, roughly, and no release reduces it to 2^-200."""
TINY_SHARE = 1e-12
GRID_ENTRIES_AT_ONCE = 2**21
"""Most entries of a table of particles, states and steps: 16 MB."""


class NotArrivedError(ArithmeticError):
    """Error for particles that do not reach the posterior in `MOST_ROW_STEPS` steps."""


def parameter_cells(
    release: Release, payload: ParameterDraws, prior: Dirichlet, draws: int, rng: np.random.Generator
) -> tuple[Tables, Callable[[], float]]:
    """Make draws of every family given released draws, which are computed on first access.

    Args:
        release: with the sampler's prior, and the number of records if it is public.
        payload: its draws.
        prior: the analyst's.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        Probabilities, shape `(*parents, child, draws)`; and a function that returns a lower bound on the effective
        sample size of the families drawn so far: `independent_ess` of the worst row. Rows are paired at random, so
        the bound also holds for functions of several rows.

    Raises:
        DiscreetError: on access of a family whose particles do not reach the posterior.
    """
    network = release.network
    generators = dict(zip(network.nodes, rng.spawn(len(network.nodes)), strict=True))
    steps = getattr(release.calibration, "resolution", {})
    records = _find_record_law(release, payload)
    ess_of_rows = [float(draws)]

    def family(node: str) -> Array:
        generator, size = generators[node], network.schema[node].size
        if size == 1:
            return np.ones((*network.shape(node), draws))
        if node in payload.untold:
            return dirichlet_draws(np.repeat(prior.alpha[node][..., None], draws, axis=-1), generator)
        released = np.maximum(payload.cells[node], TINY_SHARE).reshape(-1, size, payload.cells.draws or 0)
        used, a = (table[node].reshape(-1, size) for table in (release.dirichlet.alpha, prior.alpha))
        laws = total_laws(node, cells, records, generator)
        rows = []
        for j, law in enumerate(laws):
            # If inference over the ancestors is not feasible, the row may have any share of the records.
            total = law or log_flat_law(int(records.edges[-1]) - 1)
            floor = payload.floors.get(node, 0.0)
            row = _Row(released[j], used[j], a[j], payload.temper, floor, steps.get(node, resolution_for(size)), total)
            theta, ess = _draw_row(row, draws, generator, f"{node!r}, row {j}")
            rows.append(theta)
            ess_of_rows.append(ess)
        return np.array(rows).reshape(*network.shape(node), draws)

    cells = Tables(network, family, draws=draws)
    return cells, lambda: min(ess_of_rows)


def _find_record_law(release: Release, payload: ParameterDraws) -> TotalLaw:
    """Find the law of the number of records: public, noisy, or unknown."""
    # NumPy's hypergeometric variates are limited to a billion; a few records more have no effect there.
    if release.records is not None:
        return normal_law(min(release.records, MOST_EXPECTED_RECORDS), 0.0)
    if payload.total is not None:
        return measured_total_law([(payload.total.value, payload.total.scale)], MOST_EXPECTED_RECORDS)
    return log_flat_law(MOST_EXPECTED_RECORDS)


@dataclass(frozen=True, eq=False)
class _Row:
    """Released draws, prior and total of one row.

    Args:
        released: draws, shape (K, S).
        used: the sampler's concentrations, shape (K,).
        a: the reader's concentrations, shape (K,).
        temper: tau, the tempering exponent.
        floor: smallest probability; 0 if nothing was trimmed.
        resolution: steps of the grid.
        law: of the total.
    """

    released: Floats
    used: Floats
    a: Floats
    temper: float
    floor: float
    resolution: int
    law: TotalLaw

    def log_likelihood(self, counts: Ints) -> Floats:
        """Compute the log-likelihood of counts, shape (K, P); for trimmed rows approximately, see `exact`."""
        return _log_likelihood(self.released, self._find_concentrations(counts), self.floor)

    def exact(self, counts: Ints) -> Floats:
        """Compute the log-likelihood of counts on the grid, up to a constant."""
        b = self._find_concentrations(counts)
        density = ((b - 1)[..., None] * np.log(self.released)[:, None]).sum(axis=(0, 2))
        return np.asarray(density - self.released.shape[1] * _log_grid_mass(b, self.floor, self.resolution))

    def _find_concentrations(self, counts: Ints) -> Floats:
        """Compute the concentrations of the law of the released draws."""
        return np.asarray(self.used[:, None] + self.temper * counts)


def _draw_row(row: _Row, draws: int, rng: np.random.Generator, where: str) -> tuple[Floats, float]:
    """Draw one row, shape (K, draws), and compute the effective sample size."""
    size = max(draws, LEAST_PARTICLES)
    theta = dirichlet_draws(np.broadcast_to(row.a[:, None], (len(row.a), size)), rng)
    counts: Ints = rng.multinomial(row.law.sample(size, rng), theta.T).T
    first = np.arange(size)
    try:
        counts, picked = _anneal_counts(
            row, counts, lambda counts: np.zeros(counts.shape[1]), row.log_likelihood, ROW_MOVE_ROUNDS, rng
        )
        first = first[picked]
        if row.floor > 0:
            counts, picked = _anneal_counts(
                row, counts, row.log_likelihood, lambda n: row.exact(n) - row.log_likelihood(n), GRID_MOVE_ROUNDS, rng
            )
            first = first[picked]
    except NotArrivedError:
        raise DiscreetError(
            f"the particles did not reach the posterior of {where}, given the released draws; use another prior"
        ) from None
    return dirichlet_draws(row.a[:, None] + counts, rng)[:, :draws], independent_ess(first[:draws])


def independent_ess(first: Ints) -> float:
    """Compute the effective sample size of particles.

    Args:
        first: index of each particle's first ancestor, shape (draws,).

    Returns:
        At most the number of draws.

    Particles with the same first ancestor count as equal, as if the moves had no effect; those with different ones are
    nearly independent. As moves reduce much of the dependence, this is conservative.

    Source: Lee and Whiteley (2018), Variance estimation in the particle filter, whose estimate sums over families of
    particles with one first ancestor; here values within a family are taken as equal.

    Example:
        >>> independent_ess(np.array([0, 1, 2, 3])), independent_ess(np.array([0, 0, 0, 0]))
        (4.0, 1.0)
    """
    return len(first) ** 2 / float(np.sum(np.bincount(first).astype(np.float64) ** 2))


def _anneal_counts(
    row: _Row,
    counts: Ints,
    start: Callable[[Ints], Floats],
    gain: Callable[[Ints], Floats],
    moves: int,
    rng: np.random.Generator,
) -> tuple[Ints, Ints]:
    """Move particles from the law with log-likelihood `start` to that with `start + gain`.

    Returns:
        Counts, shape (K, P), and the index of each particle's first ancestor, shape (P,).
    """
    size = counts.shape[1]
    first = np.arange(size)
    base, logs = start(counts), gain(counts)
    power = 0.0
    for _ in range(MOST_ROW_STEPS):
        step = next_step(logs, 1 - power, ROW_EFFECTIVE_SHARE)
        weights = np.exp(step * (logs - logs.max()))
        picked = rng.choice(size, size, p=weights / weights.sum())
        counts, base, logs, first = counts[:, picked], base[picked], logs[picked], first[picked]
        power += step
        for _ in range(moves):
            theta = dirichlet_draws(row.a[:, None] + counts, rng)
            for propose in (_refresh, _resize):
                proposed, log_prior = propose(row, counts, theta, rng)
                proposed_base, proposed_gain = start(proposed), gain(proposed)
                accepted = np.log(rng.random(size)) < log_prior + proposed_base - base + power * (proposed_gain - logs)
                counts = np.where(accepted, proposed, counts)
                base, logs = np.where(accepted, proposed_base, base), np.where(accepted, proposed_gain, logs)
        if power >= 1:
            return counts, first
    raise NotArrivedError


def next_step(logs: Floats, left: float, share: float) -> float:
    """Find the largest step of a likelihood's power that keeps enough particles effective.

    Args:
        logs: log-likelihoods, shape (particles,).
        left: rest of the power.
        share: least effective share of the particles.

    Returns:
        The rest of the power if possible, else a step found by bisection.

    Example:
        >>> next_step(np.zeros(100), left=1.0, share=0.5)  # equal likelihoods: the rest of the power
        1.0
        >>> next_step(np.linspace(0, 100, 100), left=1.0, share=0.5) < 0.1
        True
    """

    def effective(step: float) -> float:
        weights = np.exp(step * (logs - logs.max()))
        return float(weights.sum() ** 2 / np.sum(weights**2))

    if effective(left) >= share * len(logs):
        return left
    low, high = 0.0, left
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if effective(middle) >= share * len(logs) else (low, middle)
    return high


def _refresh(row: _Row, counts: Ints, theta: Floats, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Propose a random part of each particle's records anew; reversible under Multinomial(N, theta)."""
    remaining = _take_subset(counts, rng.random(counts.shape[1]) ** 2, rng)
    fresh = rng.multinomial(counts.sum(axis=0) - remaining.sum(axis=0), theta.T).T
    return remaining + fresh, np.zeros(counts.shape[1])


def _resize(row: _Row, counts: Ints, theta: Floats, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Propose more or fewer records; symmetric in log(1 + N), and reversible under Multinomial(N, theta) given N.

    The step starts from a uniform point between N - 1/2 and N + 1/2, so it is symmetric also for small N.
    """
    totals = counts.sum(axis=0)
    origin = 0.5 + totals + rng.random(totals.shape)
    moved = origin * np.exp(rng.standard_normal(totals.shape) * rng.choice([0.1, 1.0], totals.shape))
    wanted = np.rint(np.maximum(moved - 1, 0)).astype(np.int64)
    fewer = wanted < totals
    remaining = _take_subset(counts, np.where(fewer, wanted / np.maximum(totals, 1), np.ones(totals.shape)), rng)
    wanted = np.where(fewer, remaining.sum(axis=0), np.minimum(wanted, int(row.law.edges[-1])))
    proposed = remaining + rng.multinomial(wanted - remaining.sum(axis=0), theta.T).T
    gain = row.law.log_density(wanted.astype(np.float64)) - row.law.log_density(totals.astype(np.float64))
    return proposed, np.where(moved > 0.5, gain + np.log(moved / origin), -np.inf)


def _take_subset(counts: Ints, share: npt.ArrayLike, rng: np.random.Generator) -> Ints:
    """Take exactly `round(share * N)` of each particle's N records, uniformly."""
    left = np.rint(np.asarray(share) * counts.sum(axis=0)).astype(np.int64)
    subset = np.zeros_like(counts)
    rest = counts.sum(axis=0)
    for k, cell in enumerate(counts):
        rest = rest - cell
        subset[k] = rng.hypergeometric(cell, rest, left)
        left = left - subset[k]
    return subset


def _log_likelihood(released: Floats, b: Floats, floor: float) -> Floats:
    """Compute the log density of the released draws, shape (K, S), under concentrations of shape (K, P); shape (P,).

    Stick by stick, each with a Beta law truncated by the floors. For two states it is exact except for the grid, which
    is finer than the posterior of millions of records. For more states it ignores the dependence of the later sticks'
    mass on the earlier ones.
    """
    total = np.zeros(b.shape[1])
    size = len(released)
    left = np.ones(released.shape[1])
    for k in range(size - 1):
        later = b[k + 1 :].sum(axis=0)
        constant = gammaln(b[k] + later) - gammaln(b[k]) - gammaln(later)
        stick = np.clip(released[k] / left, TINY_SHARE, 1 - TINY_SHARE)
        total += np.log(stick).sum() * (b[k] - 1) + np.log1p(-stick).sum() * (later - 1)
        total += released.shape[1] * constant
        if floor > 0:
            # Clipped to the range of masses: the later steps lead from any law to that on the grid.
            first, second = np.clip([b[k], later], SMALLEST_CONCENTRATION, LARGEST_CONCENTRATION)
            low, high = floor / left, 1 - (size - k - 1) * floor / left
            for bottom, top in sorted({(x, y) for x, y in zip(low.tolist(), high.tolist(), strict=True)}):
                if bottom < top:
                    times = int(np.sum((low == bottom) & (high == top)))
                    total -= times * log_beta_mass(first, second, np.array(bottom), np.array(top))
        left = np.maximum(left - released[k], TINY_SHARE)
    return total


def _log_grid_mass(b: Floats, floor: float, resolution: int) -> Floats:
    """Compute the log sum over the grid of `prod_k theta_k^(b_k - 1)`, shape (P,), by concentrations of shape (K, P).

    It is the entry at `resolution` of a convolution of K tables. All are tilted by one exponential, which changes it by
    a known factor and makes it one of the largest entries, so the transform's errors are relatively small.
    """
    size, particles = b.shape
    theta = floor + (1 - size * floor) * np.arange(resolution + 1) / resolution
    length: int = scipy.fft.next_fast_len((size - 1) * resolution + 1, real=True)
    turn = np.exp(2j * np.pi * np.arange(length // 2 + 1) * resolution / length)
    # The transform of a real signal has one entry for each pair of frequencies.
    turn[1 : (length + 1) // 2] *= 2
    masses = np.empty(particles)
    for first in range(0, particles, max(GRID_ENTRIES_AT_ONCE // (size * length), 1)):
        block = b[:, first : first + max(GRID_ENTRIES_AT_ONCE // (size * length), 1)]
        rate = _find_tilt_rate(block, theta[0], theta[-1])
        product, peaks = turn, rate.copy()
        for row in block:
            logs = (row[:, None] - 1) * np.log(theta) - rate[:, None] * theta
            peak = logs.max(axis=1)
            peaks += peak
            product = product * scipy.fft.rfft(np.exp(logs - peak[:, None]), length, axis=1)
        sums = product.real.sum(axis=1) / length
        masses[first : first + block.shape[1]] = peaks + np.log(np.maximum(sums, np.finfo(np.float64).tiny))
    return masses


def _find_tilt_rate(b: Floats, low: float, high: float) -> Floats:
    """Find the rate at which gamma variates of shapes b, truncated to [low, high], sum to about 1; shape (P,)."""
    under, over = np.zeros(b.shape[1]), (b.sum(axis=0) + len(b)) / low
    for _ in range(60):
        rate = (under + over) / 2
        # Mean m of a variate, by `(m - low) (rate - (b - 1) / m) = 1`: exact without truncation, and for b = 1.
        cut = rate * low
        means = (b + cut + np.hypot(b - cut, 2 * np.sqrt(cut))) / (2 * rate)
        large = np.minimum(means, high).sum(axis=0) > 1
        under, over = np.where(large, rate, under), np.where(large, over, rate)
    return np.asarray(over)


def draw_particles(read: DrawTask, rng: np.random.Generator, progress: object = None) -> PosteriorDraws:
    """Draw given released draws of parameters.

    Args:
        read: of one such release.
        rng: source of the draws.
        progress: not called, as there are no chains.
    """
    release = read.combined.releases[0]
    prior = read.believed_with_public(rng) or release.dirichlet
    cells, find_ess = parameter_cells(release, release.payload_as(ParameterDraws), prior, read.draws, rng)
    return PosteriorDraws(cells, "particles", find_ess=find_ess)


def take_draws(release: Release, believed: Dirichlet, draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Resample released draws of parameters with replacement, for `plug_in`.

    Args:
        release: of such draws.
        believed: prior of nodes without information in the draws.
        draws: number of draws.
        rng: source of the resampling.
    """
    network, payload = release.network, release.payload_as(ParameterDraws)
    picked = rng.integers(payload.cells.draws or 1, size=draws)
    # Nodes without information in the draws have the prior.
    prior = believed.draw(draws, rng=rng) if payload.untold else {}
    cells = {
        node: prior[node] if node in payload.untold else _normalise_rows(payload.cells[node][..., picked])
        for node in network.nodes
    }
    # Hoeffding's bound of a weighted mean has one over the sum of squared weights instead of the number.
    find_ess = partial(float, draws**2 / np.sum(np.bincount(picked) ** 2))
    return PosteriorDraws(Tables(network, cells, draws=draws), "plug-in", find_ess=find_ess)


def _normalise_rows(rows: Array) -> Array:
    """Normalise rows to sum to 1, as released ones do so only up to their last digit."""
    return np.asarray(rows / rows.sum(axis=-2, keepdims=True))
