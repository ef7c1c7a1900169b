r"""The noise-aware posterior of rows from noisy counts: the noise is part of the model, so intervals count it.

Model of a row with cells k = 1..K, concentrations a_k (sum A), noisy counts z_k and noise scale b:

    N = sum_k N_k has a flat prior;  theta ~ Dirichlet(a);  (N_1..N_K) | theta ~ Multinomial(N, theta);
    z_k = N_k + discrete Laplace(b).

Integrating theta out, the counts given z have the law

    p(N_1..N_K | z)  ~  prod_k w_k(N_k)  *  v(N),
    w_k(m) = exp(-|z_k - m| / b) Gamma(m + a_k) / m!,      v(N) = N! / Gamma(N + A),

and theta given the counts is Dirichlet(a + N). The factors w_k are one-dimensional, so cells are drawn exactly and
independently from tables of w_k, and v, a function of the row's total alone, is left to importance resampling. Where
v is so steep that this fails its gate, proposals come from a mixture of exponential tilts `w_k(m) exp(-s m)`, whose
importance weights are again functions of the total alone. Rows and families are independent: shared margins and a
public number of records are not used here, which makes intervals wider than they could be, never less honest.

Source: `w_k` is the Poisson-gamma view of the Dirichlet-multinomial; the noise-aware posterior of counts is that of
Bernstein and Sheldon (2018), here exact instead of Gaussian; Williams and McSherry (2010), eq. 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from discreet.errors import DiscreetError, InputError
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.tables import Array, Tables
from discreet.posterior.draws import PosteriorDraws
from discreet.privacy.release import Release

__all__ = ["drowned_rows", "noise_aware"]

Floats = npt.NDArray[np.float64]

TAIL = 32.0
"""Noise beyond 32 scales is left out: its probability is exp(-32) = 1e-14."""
PROPOSALS = 2
"""Proposals for each draw; where they miss the gate they are tilted, and then made sixteen times as many."""
TILTS = 48
"""Components of the tilted proposal."""
TABULATED = 2**20
"""Counts below it have tabulated log-gamma ratios; above it, a formula with relative error below 1e-12 a^3."""


def noise_aware(
    release: Release, *, draws: int, rng: np.random.Generator, prior: Dirichlet | None = None
) -> PosteriorDraws:
    """Independent joint draws of all probabilities given the noisy counts.

    Args:
        release: of noisy counts.
        draws: number of joint draws; 1,000 gives the ends of a 95 % interval to about 0.2 standard deviations.
        rng: source of randomness; nothing here is private.
        prior: another than the curator's; Dirichlet(1/4) in every cell is calibrated best on real networks.

    Returns:
        The posterior. A family is drawn when it is first asked for, with a generator of its own, so that a query does
        not depend on which other queries were asked.

    Raises:
        InputError: a prior over another network, or no draws.
        DiscreetError: when a family is drawn, and its effective number of proposals stays below the number of draws
            (the gate) even for tilted proposals.

    Guarantee:
        None spent: reads the release alone.

    Source:
        The module's docstring has the model.
    """
    believed = prior or release.prior
    if believed.network != release.network:
        raise InputError("the prior is over another network than the release")
    if not draws > 0:
        raise InputError(f"a posterior needs at least one draw, got {draws}")
    generators = dict(zip(release.network.nodes, rng.spawn(len(release.network.nodes)), strict=True))
    payload = release.payload

    def family(node: str) -> Array:
        size = payload.tables[node].shape[-1]
        noisy = payload.tables[node].reshape(-1, size)
        alpha = believed.alpha[node].reshape(-1, size)
        counts = _latent_counts(noisy, alpha, payload.scales[node], draws, generators[node], node)
        theta = dirichlet_draws(alpha[..., None] + counts, generators[node])
        return theta.reshape(*payload.tables[node].shape, draws)

    return PosteriorDraws(Tables(release.network, family, draws=draws))


def drowned_rows(release: Release) -> Mapping[str, tuple[int, int]]:
    """Rows whose noisy total is below the noise's own standard deviation: the release says little about them.

    Args:
        release: of noisy counts; nothing else is read.

    Returns:
        For each node with such rows: (how many, of how many). The standard deviation of a row's total noise is
        `b sqrt(2 K)` for K states.
    """
    found = {}
    for node, table in release.payload.tables.items():
        totals = table.sum(axis=-1)
        drowned = int(np.sum(totals < release.payload.scales[node] * np.sqrt(2 * table.shape[-1])))
        if drowned:
            found[node] = (drowned, totals.size)
    return found


# ------------------------------------------------------------------------------------------------- latent counts


@dataclass(frozen=True, eq=False)
class _Row:
    """One row as tables of log w_k over windows that hold all but 1e-14 of the mass.

    Args:
        low: smallest count of each cell's window, shape (K,).
        log_w: log w_k over the windows, shape (K, L); -inf beyond a window's end.
        total: A, the sum of the concentrations.
    """

    low: npt.NDArray[np.int64]
    log_w: Floats
    total: float

    def propose(self, size: int, rng: np.random.Generator, tilt: float = 0.0) -> tuple[Floats, float]:
        """Exact independent draws of the cells under `w_k(m) exp(-tilt m)`, shape (K, size), and its log mass."""
        counts = np.empty((len(self.low), size))
        log_mass = 0.0
        for k, (low, log_w) in enumerate(zip(self.low, self.log_w, strict=True)):
            tilted = log_w - tilt * np.arange(log_w.size) if tilt else log_w
            peak = tilted.max()
            cumulative = np.cumsum(np.exp(tilted - peak))
            counts[k] = low + np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
            log_mass += float(peak + np.log(cumulative[-1]) - tilt * low)
        return counts, log_mass

    def log_v(self, totals: Floats) -> Floats:
        """Log v(N) = log N! - log Gamma(N + A)."""
        return -_log_gamma_ratio(totals, self.total)


def _latent_counts(
    noisy: Array, alpha: Floats, scale: float, draws: int, rng: np.random.Generator, node: str
) -> Floats:
    """Draws of the counts of one family, shape (rows, K, draws); `noisy` and `alpha` have shape (rows, K)."""
    counts = np.empty((*noisy.shape, draws))
    for j, (z, a) in enumerate(zip(noisy, alpha, strict=True)):
        row = _row(z, a, scale)
        proposals, log_weights = _untilted(row, PROPOSALS * draws, rng)
        if _effective(log_weights) < draws:
            proposals, log_weights = _tilted(row, scale, PROPOSALS * draws, rng)
        if _effective(log_weights) < draws:
            proposals, log_weights = _tilted(row, scale, 16 * PROPOSALS * draws, rng)
        if _effective(log_weights) < draws:
            raise DiscreetError(
                f"the posterior of {node!r}, row {j}, could not be drawn: {draws} draws need as many effective "
                f"proposals, got {_effective(log_weights):.0f}; use a prior with smaller concentrations"
            )
        counts[j] = proposals[:, _resample(log_weights, draws, rng)]
    return counts


def _row(z: Array, a: Floats, scale: float) -> _Row:
    """Tabulate the one-dimensional factors of a row."""
    # With a > 1 the factor behaves like a gamma density of shape a, which reaches further up than the noise does.
    reach = scale * (TAIL + np.maximum(a - 1, 0) * 2 + 2 * np.sqrt(2 * TAIL * np.maximum(a - 1, 0)))
    centre = np.maximum(z, 0).astype(np.float64)
    low = np.maximum(np.floor(centre - scale * TAIL), 0)
    length = int(np.ceil(np.max(centre + reach - low))) + 2
    counts = low[:, None] + np.arange(length)
    log_w = -np.abs(counts - z[:, None]) / scale
    for k, concentration in enumerate(a):
        log_w[k] += _log_gamma_ratio(counts[k], float(concentration))
    return _Row(low.astype(np.int64), log_w, float(a.sum()))


def _untilted(row: _Row, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Proposals under the factors themselves, and their log weights."""
    counts, _ = row.propose(size, rng)
    return counts, row.log_v(counts.sum(axis=0))


def _tilted(row: _Row, scale: float, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Proposals under a mixture of exponential tilts, and their log weights.

    The mixture's density over the factors' is `sum_g p_g exp(-s_g N) / Z_g`, a function of the total alone. A pilot
    with equal p_g says which tilts the target needs.
    """
    tilts = np.concatenate([[0.0], np.geomspace(0.05 / scale, 8.0, TILTS - 1)])
    shares = np.full(TILTS, 1 / TILTS)
    for sample in (max(size // 4, 8 * TILTS), size):
        sizes = rng.multinomial(sample, shares)
        parts = [row.propose(n, rng, tilt) for n, tilt in zip(sizes, tilts, strict=True)]
        counts = np.concatenate([part for part, _ in parts], axis=1)
        totals = counts.sum(axis=0)
        with np.errstate(divide="ignore"):
            log_parts = (
                np.log(shares)[:, None] - tilts[:, None] * totals - np.array([mass for _, mass in parts])[:, None]
            )
        peak = log_parts.max(axis=0)
        parts_of = np.exp(log_parts - peak)
        log_weights = row.log_v(totals) - peak - np.log(parts_of.sum(axis=0))
        weights = np.exp(log_weights - log_weights.max())
        taken = (parts_of / parts_of.sum(axis=0) * weights).sum(axis=1)
        # A tenth stays spread evenly, so that no region of totals is left without proposals.
        shares = 0.9 * taken / taken.sum() + 0.1 / TILTS
    return counts, log_weights


def _effective(log_weights: Floats) -> float:
    """Kish's effective number of weighted proposals."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / np.sum(weights**2))


def _resample(log_weights: Floats, draws: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Systematic resampling, in random order."""
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    grid = (np.arange(draws) + rng.random()) / draws * cumulative[-1]
    picked = np.minimum(np.searchsorted(cumulative, grid, side="right"), len(log_weights) - 1)
    return rng.permutation(picked)


def _log_gamma_ratio(counts: Floats, a: float) -> Floats:
    """Log Gamma(m + a) - log m!, for non-negative whole m."""
    if counts.size and counts.max() < TABULATED:
        length = 1 << int(counts.max()).bit_length()
        ratios: Floats = _log_gamma_table(a, length)[counts.astype(np.int64)]
        return ratios
    # Log-gamma differences lose their digits at large m; the expansion around m + a/2 does not.
    exact = gammaln(np.minimum(counts, TABULATED) + a) - gammaln(np.minimum(counts, TABULATED) + 1)
    return np.where(counts < TABULATED, exact, (a - 1) * np.log(counts + a / 2))


@lru_cache(maxsize=64)
def _log_gamma_table(a: float, length: int) -> Floats:
    """Log Gamma(m + a) - log m! for m = 0..length - 1."""
    m = np.arange(length)
    ratios: Floats = gammaln(m + a) - gammaln(m + 1)
    return ratios
