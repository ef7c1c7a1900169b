"""Chains on elliptical slices, for densities of weights that importance cannot draw: many side by side, in NumPy.

Every chain moves on an ellipse through its place and a draw of a normal law, by shrinking an interval of angles until
the density there is high enough: there is no step to tune and no slope to compute. The normal law is a t law's given
its latent scale, so tails heavier than normal are walked, too. Each round of chains is twice as long as the last one
and takes its t law from it; it alone is kept, so all before has been warm-up.

Source: Murray, Adams and MacKay (2010), elliptical slice sampling; Nishihara, Murray and Adams (2014) for the t law.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.errors import InputError
from discreet.posterior.design.importance import DEGREES_OF_FREEDOM, Density, Reference, t_draws
from discreet.posterior.diagnostics import describe_mixing, has_mixed, measure_mixing
from discreet.posterior.joint_draws import Mixing
from discreet.util.arrays import Floats

SLICE_CHAINS = 8
"""Side by side, which costs little more than one where positions are read together."""
LEAST_SLICE_STEPS = 200
"""Of a chain in the first round, at the least."""
SLICE_ROUNDS = 6
"""Each twice as long as the last one, so the last has 6,400 steps at the least."""
MOST_SHRINKS = 60
"""Most times that an interval of angles shrinks: to 1e-15 of a turn, in the mean. Then a chain stays."""


def draw_by_slices(density: Density, law: Reference, *, draws: int, rng: np.random.Generator) -> tuple[Floats, Mixing]:
    """Draws of a density by chains, in rounds until they agree.

    Args:
        density: of weights and latents.
        law: about as wide as the density; chains start from its draws, apart from each other.
        draws: how many are wanted.
        rng: source of randomness.

    Returns:
        Weights, shape (draws, size), of all chains in random order; and their mixing: every weight's R-hat, and that of
        the last latent quantities, is at most 1.01, and the worst is worth 400 independent draws.

    Raises:
        InputError: chains that did not mix.
    """
    places = t_draws(law, SLICE_CHAINS, rng)
    heights = density.log(places)
    steps, done = max(LEAST_SLICE_STEPS, math.ceil(draws / SLICE_CHAINS)), 0
    for _ in range(SLICE_ROUNDS):
        kept = np.empty((SLICE_CHAINS, steps, places.shape[1]))
        for step in range(steps):
            places, heights = _move_chains(density, law, places, heights, rng)
            kept[:, step] = places
        done += steps
        mixing = _measure_mixing(kept, density.size, done)
        if has_mixed(mixing):
            flat = kept.reshape(-1, kept.shape[-1])
            return flat[rng.permutation(len(flat))[:draws], : density.size], mixing
        law = _fit_law(kept, law)
        steps *= 2
    raise InputError(
        f"the chains of the logistic posterior have not mixed after {done:,} steps: {describe_mixing(mixing)}; give a "
        "smaller prior_deviation, or read the release's weights without a posterior"
    )


def _move_chains(
    density: Density, law: Reference, places: Floats, heights: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Move every chain by one step: places, shape (chains, length), and logarithms of the density there."""
    chains, length = places.shape
    at = np.linalg.solve(law.root, (places - law.centre).T).T
    # The t law given its scale is normal; given the place, one over the scale is gamma.
    squares = np.sum(at**2, axis=1)
    scales = (DEGREES_OF_FREEDOM + squares) / rng.chisquare(DEGREES_OF_FREEDOM + length, chains)
    across = np.sqrt(scales)[:, None] * rng.standard_normal(places.shape)
    least = heights + _log_inverse_density(squares, length) + np.log(rng.uniform(size=chains))
    angle: Floats = np.asarray(rng.uniform(0, 2 * np.pi, chains))
    low, high = angle - 2 * np.pi, angle.copy()
    places, heights = places.copy(), heights.copy()
    moving = np.arange(chains)
    for _ in range(MOST_SHRINKS):
        turn = angle[moving, None]
        tried = at[moving] * np.cos(turn) + across[moving] * np.sin(turn)
        there = law.centre + tried @ law.root.T
        found = density.log(there)
        good = found + _log_inverse_density(np.sum(tried**2, axis=1), length) > least[moving]
        places[moving[good]], heights[moving[good]] = there[good], found[good]
        moving = moving[~good]
        if not len(moving):
            break
        below = angle[moving] < 0
        low[moving[below]], high[moving[~below]] = angle[moving[below]], angle[moving[~below]]
        angle[moving] = rng.uniform(low[moving], high[moving])
    return places, heights


def _log_inverse_density(squares: Floats, length: int) -> Floats:
    """Logarithm of one over the t density at squared distances, up to a constant."""
    return np.asarray((DEGREES_OF_FREEDOM + length) / 2 * np.log1p(squares / DEGREES_OF_FREEDOM))


def _fit_law(kept: Floats, law: Reference) -> Reference:
    """The t law of a round's draws, if there are enough to tell a covariance; else the one that it had."""
    flat = kept[:, kept.shape[1] // 2 :].reshape(-1, kept.shape[-1])
    spread = np.cov(flat.T)
    if len(flat) < 10 * flat.shape[1] or not np.linalg.eigvalsh(np.atleast_2d(spread))[0] > 0:
        return law
    return Reference(flat.mean(axis=0), np.linalg.cholesky(np.atleast_2d(spread)))


def _measure_mixing(kept: Floats, size: int, done: int) -> Mixing:
    """How well chains have mixed, in the worst of all numbers."""

    def name(worst: int) -> str:
        return f"weight {worst}" if worst < size else "a latent quantity"

    return measure_mixing(np.moveaxis(kept, 2, 0), name, done)
