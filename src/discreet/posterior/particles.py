r"""The posterior of all rows from released draws of a tempered posterior.

Model, for a row with released draws t_1..t_S, tempering exponent tau, concentrations a and floor w:

    theta ~ Dirichlet(a);   N ~ law of the row's total;   (N_1..N_K) | N, theta ~ Multinomial(N, theta);
    t_s ~ Dirichlet(a' + tau N), trimmed to probabilities of at least w, with a' the curator's concentrations.

Particles (theta, N_1..N_K) go from the prior to the posterior by small steps of the likelihood's power; after each they
are resampled and moved: theta given its counts is a Dirichlet draw, counts are partly drawn anew given theta, and the
total moves by adding or leaving out records. All moves leave the law of the step as it is. Where rows are
trimmed, the likelihood that leads there takes the grid for a continuum; a last series of steps leads from it to the
exact one.

The law of totals is that of Binomial(n, P(parents)) under the ancestors' draws. n is public under REPLACE and told with
noise under ADD_REMOVE, where log(1 + n) is flat before, up to a hundred million; and after, in releases that tell no n.

Source: Del Moral, Doucet and Jasra (2006), sequential Monte Carlo samplers; Williams and McSherry (2010), equation 3,
for a mechanism whose output is a posterior draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import gammaln

from discreet.errors import DiscreetError
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.tables import Tables
from discreet.posterior.totals import MOST_EXPECTED_RECORDS, TotalLaw, log_flat_law, normal_law, told_law, total_laws
from discreet.releases.kinds.parameter_draws import ParameterDraws
from discreet.releases.release import Release
from discreet.theory.lattice import resolution_for
from discreet.theory.truncated import LARGEST_CONCENTRATION, SMALLEST_CONCENTRATION, log_beta_mass
from discreet.util.arrays import Array, Floats, Ints

LEAST_PARTICLES = 400
"""Fewest particles, however few draws are wanted."""
ROW_EFFECTIVE_SHARE = 0.5
"""Share of the particles that stay effective in each step of the likelihood's power."""
ROW_MOVE_ROUNDS = 4
"""Rounds of moves after each step."""
GRID_MOVE_ROUNDS = 1
"""Rounds after each of the steps to the law on the grid, which is costlier: a tenth of a second for 1,000 particles."""
MOST_ROW_STEPS = 200
"""Most steps: each multiplies the plausible space by about a half, and 2^-200 is out of reach of any release."""
TINY_SHARE = 1e-12
GRID_ENTRIES_AT_ONCE = 2**21
"""Most entries of a table of particles, states and steps: 16 MB."""


class NotArrivedError(ArithmeticError):
    """The particles did not arrive in so many steps."""


def parameter_cells(
    release: Release, payload: ParameterDraws, prior: Dirichlet, draws: int, rng: np.random.Generator
) -> tuple[Tables, Callable[[], float]]:
    """Draws of every family given released draws, made when it is first asked for.

    Args:
        release: whose number of records is read where it is public, and whose prior the sampler used.
        payload: its draws.
        prior: the analyst's.
        draws: how many.
        rng: source of randomness.

    Returns:
        Probabilities, shape `(*parents, child, draws)`; and a function that says how many independent draws those
        families are worth, at least, that have been drawn: `independent_worth` of the worst row. Rows are paired at
        random, so a function of several rows is known as well as one of the worst.

    Raises:
        DiscreetError: when a family is read and its particles do not arrive at the posterior.
    """
    network = release.network
    generators = dict(zip(network.nodes, rng.spawn(len(network.nodes)), strict=True))
    steps = getattr(release.calibration, "resolution", {})
    records = _find_record_law(release, payload)
    worths = [float(draws)]

    def family(node: str) -> Array:
        own, size = generators[node], network.schema[node].size
        if size == 1:
            return np.ones((*network.shape(node), draws))
        if node in payload.untold:
            return dirichlet_draws(np.repeat(prior.alpha[node][..., None], draws, axis=-1), own)
        told = np.maximum(payload.cells[node], TINY_SHARE).reshape(-1, size, payload.cells.draws or 0)
        used, a = (table[node].reshape(-1, size) for table in (release.dirichlet.alpha, prior.alpha))
        laws = total_laws(node, cells, records, own)
        rows = []
        for j, law in enumerate(laws):
            # Where inference over the ancestors is out of reach, any share of the records may have come here.
            total = law or log_flat_law(int(records.edges[-1]) - 1)
            floor = payload.floors.get(node, 0.0)
            row = _Row(told[j], used[j], a[j], payload.temper, floor, steps.get(node, resolution_for(size)), total)
            theta, worth = _draw_row(row, draws, own, f"{node!r}, row {j}")
            rows.append(theta)
            worths.append(worth)
        return np.array(rows).reshape(*network.shape(node), draws)

    cells = Tables(network, family, draws=draws)
    return cells, lambda: min(worths)


def _find_record_law(release: Release, payload: ParameterDraws) -> TotalLaw:
    """The law of the number of records: known, told with noise, or anything."""
    # Numpy's hypergeometric variates end at a billion; so many records leave nothing to learn from a few more.
    if release.records is not None:
        return normal_law(min(release.records, MOST_EXPECTED_RECORDS), 0.0)
    if payload.total is not None:
        return told_law([(payload.total.value, payload.total.scale)], MOST_EXPECTED_RECORDS)
    return log_flat_law(MOST_EXPECTED_RECORDS)


@dataclass(frozen=True, eq=False)
class _Row:
    """Released draws, prior and total of one row.

    Args:
        told: released draws, shape (K, S).
        used: the sampler's concentrations, shape (K,).
        a: ours, shape (K,).
        temper: tau, the tempering exponent.
        floor: smallest probability; 0 where nothing was trimmed.
        resolution: steps of the grid.
        law: of the total.
    """

    told: Floats
    used: Floats
    a: Floats
    temper: float
    floor: float
    resolution: int
    law: TotalLaw

    def log_likelihood(self, counts: Ints) -> Floats:
        """Log-likelihood of counts, shape (K, P); approximate where rows are trimmed: the grid's own law is `exact`."""
        return _log_likelihood(self.told, self._find_concentrations(counts), self.floor)

    def exact(self, counts: Ints) -> Floats:
        """Log-likelihood of counts on the grid, up to a constant."""
        b = self._find_concentrations(counts)
        density = ((b - 1)[..., None] * np.log(self.told)[:, None]).sum(axis=(0, 2))
        return np.asarray(density - self.told.shape[1] * _log_grid_mass(b, self.floor, self.resolution))

    def _find_concentrations(self, counts: Ints) -> Floats:
        """Concentrations of the law that the draws were taken from."""
        return np.asarray(self.used[:, None] + self.temper * counts)


def _draw_row(row: _Row, draws: int, rng: np.random.Generator, where: str) -> tuple[Floats, float]:
    """Draws of one row, shape (K, draws), and how many independent ones they are worth."""
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
            f"the posterior of {where}, could not be drawn from the released draws; use another prior"
        ) from None
    return dirichlet_draws(row.a[:, None] + counts, rng)[:, :draws], independent_worth(first[:draws])


def independent_worth(first: Ints) -> float:
    """Number of independent draws that particles are worth.

    Args:
        first: which of the particles at the start each comes from, shape (draws,).

    Returns:
        At most the number of draws.

    Those that come from the same one count as one and the same, as if the moves between had done nothing. Particles
    from different ones are as good as independent; moves make up for much of what resampling loses, so this errs on
    the safe side.

    Source: Lee and Whiteley (2018), Variance estimation in the particle filter, whose estimate sums over families of
    particles with one first ancestor; here values within a family are taken as equal.

    Example:
        >>> independent_worth(np.array([0, 1, 2, 3])), independent_worth(np.array([0, 0, 0, 0]))
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
    """Particles, taken from the law with log-likelihood `start` to that with `start + gain`.

    Returns:
        Counts, shape (K, P), and which of the particles at the start each comes from, shape (P,).
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
                begun, found = start(proposed), gain(proposed)
                accepted = np.log(rng.random(size)) < log_prior + begun - base + power * (found - logs)
                counts = np.where(accepted, proposed, counts)
                base, logs = np.where(accepted, begun, base), np.where(accepted, found, logs)
        if power >= 1:
            return counts, first
    raise NotArrivedError


def next_step(logs: Floats, left: float, kept: float) -> float:
    """The largest step of a likelihood's power that keeps enough particles effective.

    Args:
        logs: log-likelihoods, shape (particles,).
        left: of the power.
        kept: share of the particles that shall be effective.

    Returns:
        All that is left if it can be, else by bisection.

    Example:
        >>> next_step(np.zeros(100), left=1.0, kept=0.5)  # nothing tells particles apart: all that is left
        1.0
        >>> next_step(np.linspace(0, 100, 100), left=1.0, kept=0.5) < 0.1
        True
    """

    def effective(step: float) -> float:
        weights = np.exp(step * (logs - logs.max()))
        return float(weights.sum() ** 2 / np.sum(weights**2))

    if effective(left) >= kept * len(logs):
        return left
    low, high = 0.0, left
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if effective(middle) >= kept * len(logs) else (low, middle)
    return high


def _refresh(row: _Row, counts: Ints, theta: Floats, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Draw a random part of each particle's records anew; reversible under Multinomial(N, theta)."""
    kept = _take_subset(counts, rng.random(counts.shape[1]) ** 2, rng)
    fresh = rng.multinomial(counts.sum(axis=0) - kept.sum(axis=0), theta.T).T
    return kept + fresh, np.zeros(counts.shape[1])


def _resize(row: _Row, counts: Ints, theta: Floats, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Add or leave out records; symmetric in log(1 + N), and reversible under Multinomial(N, theta) given N.

    The step is taken from a random place between N - 1/2 and N + 1/2, so that it is symmetric for small N, too.
    """
    totals = counts.sum(axis=0)
    place = 0.5 + totals + rng.random(totals.shape)
    moved = place * np.exp(rng.standard_normal(totals.shape) * rng.choice([0.1, 1.0], totals.shape))
    wanted = np.rint(np.maximum(moved - 1, 0)).astype(np.int64)
    fewer = wanted < totals
    kept = _take_subset(counts, np.where(fewer, wanted / np.maximum(totals, 1), np.ones(totals.shape)), rng)
    wanted = np.where(fewer, kept.sum(axis=0), np.minimum(wanted, int(row.law.edges[-1])))
    proposed = kept + rng.multinomial(wanted - kept.sum(axis=0), theta.T).T
    gain = row.law.log_density(wanted.astype(np.float64)) - row.law.log_density(totals.astype(np.float64))
    return proposed, np.where(moved > 0.5, gain + np.log(moved / place), -np.inf)


def _take_subset(counts: Ints, share: npt.ArrayLike, rng: np.random.Generator) -> Ints:
    """Exactly `round(share * N)` of each particle's N records, each alike."""
    left = np.rint(np.asarray(share) * counts.sum(axis=0)).astype(np.int64)
    kept = np.zeros_like(counts)
    rest = counts.sum(axis=0)
    for k, cell in enumerate(counts):
        rest = rest - cell
        kept[k] = rng.hypergeometric(cell, rest, left)
        left = left - kept[k]
    return kept


def _log_likelihood(told: Floats, b: Floats, floor: float) -> Floats:
    """Log density of the released draws, shape (K, S), under concentrations of shape (K, P); shape (P,).

    Stick by stick, each a Beta law trimmed to what is left of the floors: for two states exact but for the grid, finer
    than the posterior of millions of records; for more it leaves out how the mass of later sticks varies with the
    earlier ones.
    """
    total = np.zeros(b.shape[1])
    size = len(told)
    left = np.ones(told.shape[1])
    for k in range(size - 1):
        later = b[k + 1 :].sum(axis=0)
        constant = gammaln(b[k] + later) - gammaln(b[k]) - gammaln(later)
        stick = np.clip(told[k] / left, TINY_SHARE, 1 - TINY_SHARE)
        total += np.log(stick).sum() * (b[k] - 1) + np.log1p(-stick).sum() * (later - 1)
        total += told.shape[1] * constant
        if floor > 0:
            # Beyond the range of masses the nearest one: what follows leads from any law to that on the grid.
            first, second = np.clip([b[k], later], SMALLEST_CONCENTRATION, LARGEST_CONCENTRATION)
            low, high = floor / left, 1 - (size - k - 1) * floor / left
            for bottom, top in sorted({(x, y) for x, y in zip(low.tolist(), high.tolist(), strict=True)}):
                if bottom < top:
                    times = int(np.sum((low == bottom) & (high == top)))
                    total -= times * log_beta_mass(first, second, np.array(bottom), np.array(top))
        left = left - told[k]
    return total


def _log_grid_mass(b: Floats, floor: float, resolution: int) -> Floats:
    """Log of the sum over the grid of `prod_k theta_k^(b_k - 1)`, shape (P,), for concentrations of shape (K, P).

    It is the entry at `resolution` of a convolution of K tables. All are tilted by one exponential, which changes it by
    a known factor, so that it is among the largest, and the transform's errors are small beside it.
    """
    size, particles = b.shape
    theta = floor + (1 - size * floor) * np.arange(resolution + 1) / resolution
    length: int = scipy.fft.next_fast_len((size - 1) * resolution + 1, real=True)
    turn = np.exp(2j * np.pi * np.arange(length // 2 + 1) * resolution / length)
    # A real signal's transform is given once for each pair of frequencies.
    turn[1 : (length + 1) // 2] *= 2
    masses = np.empty(particles)
    for first in range(0, particles, max(GRID_ENTRIES_AT_ONCE // (size * length), 1)):
        part = b[:, first : first + max(GRID_ENTRIES_AT_ONCE // (size * length), 1)]
        rate = _find_tilt_rate(part, theta[0], theta[-1])
        product, peaks = turn, rate.copy()
        for row in part:
            logs = (row[:, None] - 1) * np.log(theta) - rate[:, None] * theta
            peak = logs.max(axis=1)
            peaks += peak
            product = product * scipy.fft.rfft(np.exp(logs - peak[:, None]), length, axis=1)
        found = product.real.sum(axis=1) / length
        masses[first : first + part.shape[1]] = peaks + np.log(np.maximum(found, np.finfo(np.float64).tiny))
    return masses


def _find_tilt_rate(b: Floats, low: float, high: float) -> Floats:
    """The rate under which gamma variates of shapes b, cut to [low, high], sum to about 1, by bisection; shape (P,)."""
    under, over = np.zeros(b.shape[1]), (b.sum(axis=0) + len(b)) / low
    for _ in range(60):
        rate = (under + over) / 2
        # Mean m of one, from `(m - low) (rate - (b - 1) / m) = 1`: right without the cut, and for an exponential law.
        cut = rate * low
        means = (b + cut + np.hypot(b - cut, 2 * np.sqrt(cut))) / (2 * rate)
        large = np.minimum(means, high).sum(axis=0) > 1
        under, over = np.where(large, rate, under), np.where(large, over, rate)
    return np.asarray(over)
