r"""Latent counts of one row given its noisy counts, drawn independently of each other.

With cells k = 1..K, concentrations a_k (sum A) and the likelihood l_k(m) of what was released for cell k if its count
is m (`evidence.py`; `exp(-|z_k - m| / b)` for Laplace noise), the law is

    p(N_1..N_K)  ~  prod_k w_k(N_k)  *  v(N),      N = sum_k N_k,
    w_k(m) = l_k(m) Gamma(m + a_k) / m!,      v(N) = N! / Gamma(N + A) * p(N),

where p(N) is the law of the row's total before its table is read; where the noise of the cells is correlated, v also
has what the joint likelihood adds to the product. Proposals come from a mixture whose parts have
densities that are known, so importance weights are exact (but for the last one's rounding):

    cell-led    cells independent, each from its factor w_k, from a table; best where the noise is small;
    total-led   N from p, all cells but the largest from their factors, the largest takes the rest;
    prior-led   N from p, then Dirichlet-multinomial; best where the noise drowns the row;
    tilted      cells independent from `w_k(m) exp(-s m)`, for several s; where the prior is steep in N;
    noise-led   all cells from the joint normal law of correlated noise, rounded.

A pilot finds the shares of the parts. An attempt passes the gate if it has as many effective proposals as draws, and
at least 400.

Source: the law is the Dirichlet-multinomial in its Poisson-gamma form; mixtures adapted in this way are population
Monte Carlo (Cappe, Douc, Guillin, Marin and Robert, 2008) with the balance heuristic of Veach and Guibas (1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from discreet.model.dirichlet import dirichlet_draws
from discreet.posterior.evidence import Evidence
from discreet.posterior.totals import TotalLaw

__all__ = ["NotDrawnError", "draw_counts"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

TAIL = 24.0
"""Counts whose likelihood is below exp(-24) = 4e-11 of the best one's are left out."""
FEWEST = 400
"""Fewest effective proposals, however few draws are wanted: each draw is then nearly one from the exact law."""
ATTEMPTS = ((0, 3), (12, 6), (48, 40), (48, 300))
"""(tilts, proposals for each draw) of one attempt after the other, until one passes the gate."""
GENTLE = 4.0
"""Sum of the concentrations up to which v(N) is gentle enough for a first attempt without tilts."""
SLOPES = (-0.9, -0.5, 0.7, 1.0)
"""More tilts, in units of the noise's decay, with which counts lie far on one side of the noisy ones: of total-led
parts where a row's cells and its total disagree, of cell-led ones where a sparse prior wants one cell to hold all."""
LARGEST_TILT = 8.0
"""Tilts reach from a twentieth of the noise's own decay to this, under which every cell is 0 but for one in 3,000."""
TABULATED = 2**14
"""Log-gamma ratios of counts below it are tabulated."""
FAR = 300.0
"""Counts beyond the table and above it, in units of a, have log-gamma ratios from an expansion: error below 5e-13 a."""


WINDOW_CELLS = 10_000_000
"""Most tabulated counts of a row: 80 MB, and noise that drowns any table."""


class NotDrawnError(ArithmeticError):
    """No attempt passed the gate, or none could be made; the message says how far they came."""


def draw_counts(evidence: Evidence, a: Floats, draws: int, rng: np.random.Generator, law: TotalLaw | None) -> Floats:
    """Draw the counts of a row.

    Args:
        evidence: what was released for the row.
        a: concentrations, shape (K,), greater than 0.
        draws: how many.
        rng: source of randomness.
        law: p(N); None for a flat one.

    Returns:
        Whole, non-negative counts, shape (K, draws).

    Raises:
        NotDrawnError: too few effective proposals even in the last attempt.
    """
    row, scale = _Row.of(evidence, a), evidence.scale
    cells = _Tilted.of(row, 0.0)
    parts: list[_Part] = [cells]
    if law is not None:
        parts += [_TotalLed(row, law, cells), _PriorLed(row, law)]
    if evidence.correlation is not None:
        parts.append(_NoiseLed.of(row, evidence.correlation))
    best = 0.0
    wanted = max(draws, FEWEST)
    # With a steep v(N) the cell-led part alone could miss where the target is, and pass the gate all the same.
    for tilts, proposals in ATTEMPTS if float(a.sum()) <= GENTLE else ATTEMPTS[1:]:
        tried = [*parts, *(_Tilted.of(row, tilt) for tilt in np.geomspace(0.05 / scale, LARGEST_TILT, tilts))]
        if tilts:
            sloped = [_Tilted.of(row, slope / scale) for slope in SLOPES]
            tried += sloped if law is None else [_TotalLed(row, law, part) for part in sloped]
        counts, log_weights = _propose(row, law, tried, proposals * wanted, rng)
        effective = _effective(log_weights)
        if effective >= wanted:
            return counts[:, _resample(log_weights, draws, rng)]
        best = max(best, effective)
    raise NotDrawnError(f"{best:.0f} effective proposals instead of {wanted}")


# -------------------------------------------------------------------------------------------------------- proposals


@dataclass(frozen=True, eq=False)
class _Row:
    """A row, with log w_k over windows that hold all but 1e-10 of the mass.

    Args:
        evidence: of the row as it was given.
        a: concentrations; the cell with the largest noisy count is last.
        low: smallest count of each cell's window, shape (K,).
        log_w: shape (K, L).
        order: positions of the cells in the row as it was given.
    """

    evidence: Evidence
    a: Floats
    low: Codes
    log_w: Floats
    order: Codes

    @staticmethod
    def of(evidence: Evidence, a: Floats) -> _Row:
        """Tabulate the factors of a row."""
        scale = evidence.scale
        order = np.argsort(evidence.centre, kind="stable")
        z, a = evidence.centre[order], a[order]
        # With a > 1 a factor decays like a gamma density of shape a, which reaches further up than the noise does.
        more = np.maximum(a - 1, 0)
        reach = evidence.reach(TAIL) + scale * (2 * more + 2 * np.sqrt(2 * TAIL * more))
        centre = np.maximum(z, 0)
        # The target's v(N) ~ N^(1 - A) favours small totals: where A is large the windows reach down to meet it.
        favoured = max(float(a.sum()) - 1, 0) * np.log1p(centre.sum())
        low = np.maximum(np.floor(centre - evidence.reach(TAIL + favoured)), 0)
        length = int(np.ceil(np.max(centre + reach - low))) + 2
        if length * len(z) > WINDOW_CELLS:
            raise NotDrawnError(f"noise of scale {scale:.3g} makes {length:,} counts possible in each cell")
        counts = low[:, None] + np.arange(length)
        log_w = np.array([evidence.log_likelihood(int(cell), m) for cell, m in zip(order, counts, strict=True)])
        for k, concentration in enumerate(a):
            log_w[k] += _log_gamma_ratio(counts[k], float(concentration))
        return _Row(evidence, a, low.astype(np.int64), log_w, order)

    def log_v(self, law: TotalLaw | None, counts: Floats, totals: Floats) -> Floats:
        """Logarithm of the target's density over the factors'."""
        believed = 0.0 if law is None else law.log_density(totals)
        coupling = self.evidence.coupling(self.given(counts))
        return np.asarray(believed - _log_gamma_ratio(totals, float(self.a.sum())) + coupling)

    def log_factors(self, counts: Floats) -> Floats:
        """Logarithm of the product of the factors w_k, shape (size,)."""
        return np.asarray(
            sum(
                self.evidence.log_likelihood(int(cell), m) + _log_gamma_ratio(m, float(a))
                for cell, m, a in zip(self.order, counts, self.a, strict=True)
            )
        )

    def given(self, counts: Floats) -> Floats:
        """Counts in the order in which the row was given."""
        ordered = np.empty_like(counts)
        ordered[self.order] = counts
        return ordered


class _Part(Protocol):
    """One part of the mixture of proposals."""

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Independent proposals, shape (K, size); a negative count marks an impossible one."""

    def log_density(self, counts: Floats, totals: Floats) -> Floats:
        """Logarithm of the part's density over the product of the factors w_k, shape (size,)."""


@dataclass(frozen=True, eq=False)
class _Tilted:
    """Cells independent from `w_k(m) exp(-tilt m)`, as cumulative tables with the logs of their masses."""

    tilt: float
    low: Codes
    cumulative: tuple[Floats, ...]
    log_masses: tuple[float, ...]

    @staticmethod
    def of(row: _Row, tilt: float) -> _Tilted:
        """Tabulate."""
        tables, log_masses = [], []
        steps = tilt * np.arange(row.log_w.shape[1])
        for low, log_w in zip(row.low, row.log_w, strict=True):
            tilted = log_w - steps if tilt else log_w
            peak = float(tilted.max())
            tables.append(np.cumsum(np.exp(tilted - peak)))
            log_masses.append(peak + float(np.log(tables[-1][-1])) - tilt * float(low))
        return _Tilted(tilt, row.low, tuple(tables), tuple(log_masses))

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """See `_Part`."""
        return np.array([self.draw_cell(k, size, rng) for k in range(len(self.low))])

    def draw_cell(self, k: int, size: int, rng: np.random.Generator) -> Floats:
        """Exact draws of one cell."""
        found = np.searchsorted(self.cumulative[k], rng.random(size) * self.cumulative[k][-1], side="right")
        return np.asarray(self.low[k] + found, np.float64)

    def log_density(self, counts: Floats, totals: Floats) -> Floats:
        """See `_Part`: `exp(-s N) / Z`, and 0 outside the windows."""
        size = self.cumulative[0].size
        low = self.low[:, None]
        inside = np.all((counts >= low) & (counts < low + size), axis=0)
        return np.where(inside, -self.tilt * totals - sum(self.log_masses), -np.inf)


@dataclass(frozen=True, eq=False)
class _TotalLed:
    """The total from its law, all cells but the last from their factors, and the last one is what is left."""

    row: _Row
    law: TotalLaw
    cells: _Tilted

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """See `_Part`."""
        others = [self.cells.draw_cell(k, size, rng) for k in range(len(self.row.a) - 1)]
        left = self.law.sample(size, rng) - np.sum(others, axis=0, initial=0.0)
        return np.array([*others, left])

    def log_density(self, counts: Floats, totals: Floats) -> Floats:
        """See `_Part`: `p(N) exp(-s (N - N_K)) / (w_K(N_K) Z_1 ... Z_(K-1))`."""
        last = np.maximum(counts[-1], 0)
        likelihood = self.row.evidence.log_likelihood(int(self.row.order[-1]), last)
        log_w = likelihood + _log_gamma_ratio(last, float(self.row.a[-1]))
        tilted = -self.cells.tilt * (totals - last) - sum(self.cells.log_masses[:-1])
        return np.asarray(self.law.log_density(totals) - log_w + tilted)


@dataclass(frozen=True, eq=False)
class _PriorLed:
    """The total from its law, its cells Dirichlet-multinomial, as if nothing of the row had been seen."""

    row: _Row
    law: TotalLaw

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """See `_Part`."""
        theta = dirichlet_draws(np.broadcast_to(self.row.a[:, None], (len(self.row.a), size)), rng)
        counts: Floats = rng.multinomial(self.law.sample(size, rng), theta.T).T.astype(np.float64)
        return counts

    def log_density(self, counts: Floats, totals: Floats) -> Floats:
        """See `_Part`: the Dirichlet-multinomial's gamma ratios cancel those of the factors."""
        total = float(self.row.a.sum())
        constant = float(gammaln(total) - gammaln(self.row.a).sum())
        evidence = self.row.evidence
        likelihood = sum(evidence.log_likelihood(int(cell), m) for cell, m in zip(self.row.order, counts, strict=True))
        return np.asarray(self.law.log_density(totals) - _log_gamma_ratio(totals, total) + constant - likelihood)


@dataclass(frozen=True, eq=False)
class _NoiseLed:
    """All cells at once from the joint normal law of correlated noise, rounded.

    Args:
        row: the row.
        centre: of the law, in the row's order, shape (K,).
        root: Cholesky factor of the covariance, with the variance that rounding adds.
    """

    row: _Row
    centre: Floats
    root: Floats

    @staticmethod
    def of(row: _Row, covariance: Floats) -> _NoiseLed:
        """Factor the covariance."""
        ordered = covariance[np.ix_(row.order, row.order)] + np.eye(len(row.order)) / 12
        return _NoiseLed(row, row.evidence.centre[row.order], np.asarray(np.linalg.cholesky(ordered)))

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """See `_Part`."""
        drawn = np.rint(self.centre[:, None] + self.root @ rng.standard_normal((len(self.centre), size)))
        drawn[-1, drawn.min(axis=0) < 0] = -1
        return np.asarray(drawn)

    def log_density(self, counts: Floats, totals: Floats) -> Floats:
        """See `_Part`: the normal density, which is close to the mass of a rounded variate, less the factors."""
        standard = solve_triangular(self.root, counts - self.centre[:, None], lower=True)
        constant = -np.log(np.diag(self.root)).sum() - 0.5 * len(self.centre) * np.log(2 * np.pi)
        return np.asarray(constant - 0.5 * (standard**2).sum(axis=0) - self.row.log_factors(np.maximum(counts, 0)))


def _propose(
    row: _Row, law: TotalLaw | None, parts: Sequence[_Part], size: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Proposals in the row's own order, shape (K, some), and their log weights; impossible ones are left out."""
    shares = np.full(len(parts), 1 / len(parts))
    for sample in (max(size // 4, 16 * len(parts)), size) if len(parts) > 1 else (size,):
        sizes = rng.multinomial(sample, shares)
        drawn = np.concatenate([part.draw(n, rng) for n, part in zip(sizes, parts, strict=True) if n], axis=1)
        drawn = drawn[:, drawn[-1] >= 0]
        totals = drawn.sum(axis=0)
        log_parts = np.log(shares)[:, None] + np.array([part.log_density(drawn, totals) for part in parts])
        possible = log_parts.max(axis=0) > -np.inf
        drawn, totals, log_parts = drawn[:, possible], totals[possible], log_parts[:, possible]
        if not possible.any():
            continue
        peak = log_parts.max(axis=0)
        parts_of = np.exp(log_parts - peak)
        mixture = parts_of.sum(axis=0)
        log_weights = row.log_v(law, drawn, totals) - peak - np.log(mixture)
        if not np.any(log_weights > -np.inf):
            continue
        taken = (parts_of / mixture * np.exp(log_weights - log_weights.max())).sum(axis=1)
        # A tenth stays spread evenly, so that no region is left without proposals.
        shares = 0.9 * taken / taken.sum() + 0.1 / len(parts)
    return row.given(drawn), log_weights if drawn.shape[1] else np.full(0, -np.inf)


def _effective(log_weights: Floats) -> float:
    """Kish's effective number of weighted proposals; 0 where none is possible."""
    if not np.any(log_weights > -np.inf):
        return 0.0
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
    if not counts.size or counts.max() < TABULATED:
        ratios: Floats = _log_gamma_table(a)[counts.astype(np.int64)]
        return ratios
    near = np.minimum(counts, max(TABULATED - 1, FAR * a))
    exact = gammaln(near + a) - gammaln(near + 1)
    # Log-gamma differences lose their digits at large m; this expansion (Tricomi and Erdelyi, 1951) does not.
    centre, power = counts + a / 2, a - 1
    expanded = power * np.log(centre) - power * (power**2 - 1) / (24 * centre**2)
    return np.where(counts <= near, exact, expanded)


@lru_cache(maxsize=256)
def _log_gamma_table(a: float) -> Floats:
    """Log Gamma(m + a) - log m! for every tabulated m."""
    m = np.arange(TABULATED)
    ratios: Floats = gammaln(m + a) - gammaln(m + 1)
    return ratios
