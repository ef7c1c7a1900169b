"""Dirichlet rows whose probabilities all stay at or above a floor: exact draws, or a refusal before a hopeless wait.

Draws use floating point and a seeded generator. They are for analysis on the public side; a draw that is released
comes from a sampler on a public grid, not from here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.dirichlet import dirichlet_draws
from discreet.theory.truncated import LARGEST, SMALLEST, log_beta_mass, truncated_beta

__all__ = ["truncated_dirichlet"]

Floats = npt.NDArray[np.float64]

PILOT, LEAST_ACCEPTANCE = 2000, 1e-4
"""Trial proposals, and the mean acceptance below which a row is refused."""
BATCH = 1 << 16
"""Most proposals at a time."""


def truncated_dirichlet(alpha: npt.ArrayLike, floor: float, size: int, rng: np.random.Generator) -> Floats:
    """Independent draws of a Dirichlet row given that every probability is at least the floor.

    Exact, up to floating point: a closed form where every concentration is 1; one truncated Beta for two states;
    plain rejection where the tails below the floor are small together; else rejection from whichever proposes better
    of truncated Betas in sequence and of the uniform law on the trimmed simplex. For analysis only.

    Args:
        alpha: concentrations, shape `(states,)`, from 1e-6 to 1e12.
        floor: at least 0, less than 1 / states.
        size: number of draws.
        rng: source of randomness.

    Returns:
        Probabilities, shape `(states, size)`.

    Raises:
        InputError: concentrations or a floor out of their range, or a row that would accept less than one proposal in
            ten thousand.

    Source:
        Dimitrakakis et al. (JMLR 2017), Section 6, for truncation by rejection; the sequence is the Dirichlet's
        stick-breaking.
    """
    row = np.asarray(alpha, np.float64)
    if row.ndim != 1 or not row.size or not (np.all(row >= SMALLEST) and np.all(row <= LARGEST)):
        raise InputError(f"a row needs concentrations from {SMALLEST:g} to {LARGEST:g}, one for each state")
    states = row.size
    if not 0 <= floor < 1 / states:
        raise InputError(
            f"the floor of {states} probabilities must be at least 0 and less than 1/{states}, got {floor}"
        )
    if states == 1:
        return np.ones((1, size))
    if states == 2:
        theta = truncated_beta(row[0], row[1], floor, 1 - floor, size, rng)
        return np.stack([theta, 1 - theta])
    if np.all(row == 1):
        return _on_simplex(states, floor, size, rng)
    return _rejected(row, floor, size, rng)


def _on_simplex(states: int, floor: float, size: int, rng: np.random.Generator) -> Floats:
    """The uniform law on the trimmed simplex, shape `(states, size)`."""
    spread = rng.standard_exponential((states, size))
    return np.asarray(floor + (1 - states * floor) * spread / spread.sum(axis=0))


def _rejected(row: Floats, floor: float, size: int, rng: np.random.Generator) -> Floats:
    """Draws by the best of the proposals.

    Each proposal takes limits, exponential variates, and returns theta and its log acceptance: theta is accepted where
    the log acceptance is at least minus the limit. A trial with infinite limits gives the mean acceptance.
    """
    below = float(np.exp(log_beta_mass(row, row.sum() - row, 0, floor)).sum()) if floor > 0 else 0.0
    if below < 0.9:
        # A union bound: at least a tenth of the plain draws is good.
        propose, rate = _plain, 1 - below
    else:
        trial = np.full(PILOT, np.inf)
        proposals = (_plain, _uniform, _sequential)
        rates = [float(np.exp(proposal(row, floor, trial, rng)[1]).mean()) for proposal in proposals]
        propose, rate = max(zip(proposals, rates, strict=True), key=lambda pair: pair[1])
    if not rate >= LEAST_ACCEPTANCE:
        raise InputError(
            f"a row of {row.size} states with floor {floor:.3g} would accept {rate:.1g} of its proposals, less than "
            f"{LEAST_ACCEPTANCE:g}; use a lower floor, or fewer states"
        )
    kept, found = [np.empty((row.size, 0))], 0
    while found < size:
        limits = rng.standard_exponential(min(BATCH, 16 + int(1.2 * (size - found) / rate)))
        theta, log_acceptance = propose(row, floor, limits, rng)
        kept.append(theta[:, log_acceptance >= -limits])
        found += kept[-1].shape[1]
    return np.concatenate(kept, axis=1)[:, :size]


def _plain(row: Floats, floor: float, limits: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The Dirichlet itself."""
    theta = dirichlet_draws(np.repeat(row[:, None], limits.size, axis=1), rng)
    return theta, np.where(np.all(theta >= floor, axis=0), 0.0, -np.inf)


def _uniform(row: Floats, floor: float, limits: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The uniform law on the trimmed simplex, accepted in proportion to the density over its maximum."""
    theta = _on_simplex(row.size, floor, limits.size, rng)
    top = np.log(_highest(row - 1, floor))
    return theta, np.minimum((row - 1) @ (np.log(theta) - top[:, None]), 0.0)


def _highest(powers: Floats, floor: float) -> Floats:
    """Where `prod theta_k ** powers_k` is largest on the trimmed simplex.

    A factor with a negative power is largest at the floor, which also leaves most to the others; those are largest in
    proportion to their powers, or at the floor. Where no power is positive the product is log-convex, and its maximum
    is at the vertex of the largest power.
    """
    free = powers > 0
    if not free.any():
        free = np.arange(powers.size) == np.argmax(powers)
        powers = free.astype(np.float64)
    while True:
        left = 1 - floor * np.sum(~free)
        theta = np.where(free, powers * left / powers[free].sum(), floor)
        if np.all(theta >= floor):
            return theta
        free &= theta >= floor


def _sequential(row: Floats, floor: float, limits: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """State after state a truncated Beta share of what is left; accepted by the product of the masses of their ranges.

    Rare states come first: their shares, pushed against the floor, then hardly move what the others are given. The
    range of a share, and so its mass, grows with what is left: its maximum is where all earlier states are at the
    floor. A proposal is given up as soon as it cannot be accepted any more.
    """
    theta, log_acceptance, left = np.ones((row.size, limits.size)), np.zeros(limits.size), np.ones(limits.size)
    alive, order = np.arange(limits.size), np.argsort(row)
    for position, state in enumerate(order[:-1]):
        after = row.size - 1 - position
        rest = row[order[position + 1 :]].sum()
        low = floor / left[alive]
        high = np.maximum(1 - after * low, low * (1 + 1e-15))
        if position:
            most = 1 - position * floor
            top = log_beta_mass(row[state], rest, floor / most, 1 - after * floor / most)
            log_acceptance[alive] += np.minimum(log_beta_mass(row[state], rest, low, high) - top, 0.0)
            still = log_acceptance[alive] >= -limits[alive]
            alive, low, high = alive[still], low[still], high[still]
        theta[state, alive] = left[alive] * truncated_beta(row[state], rest, low, high, alive.size, rng)
        left[alive] = np.maximum(left[alive] - theta[state, alive], after * floor)
    theta[order[-1], alive] = left[alive]
    return theta, log_acceptance
