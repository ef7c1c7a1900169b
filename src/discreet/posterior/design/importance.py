"""Importance sampling of a density of weights: t proposals around its mode, adapted to weighted draws.

Nothing has to mix and nothing is compiled: a density is a function of many positions at once. How many independent
draws the weighted ones are worth says whether they do; where the density is too far from a t law, `slices` goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from discreet.util.arrays import Floats

DEGREES_OF_FREEDOM = 5.0
"""Degrees of freedom of the t laws: tails heavier than the posterior's."""
MOST_PROPOSAL_ROUNDS, PROPOSAL_WIDENING = 15, 1.3
"""Largest number of rounds of adaptive proposals, and their width over that of the weighted draws."""
DRAWS_PER_COORDINATE = 3
"""Least effective draws per coordinate for estimating a covariance."""
MOST_CLIMBS, STEP_HALVINGS, LEAST_CLIMB, SLOPE_STEP = 40, 12, 1e-2, 1e-4
"""Most steps to the mode, halvings of a step, least increase of the log density, difference of numeric slopes."""


@dataclass(frozen=True, eq=False)
class WeightLikelihood:
    """A likelihood of the weights, and perhaps of latent quantities around 0.

    Args:
        log: of positions, weights and then latents, shape (draws, size + latents), to logarithms, shape (draws,).
        near: for weights, shape (size,), where latents are 0: the slope of the logarithm, shape (size,), which may
            leave out small parts, and how steeply it falls around its mode, shape (size, size).
        latents: deviation of each latent quantity, about, shape (latents,).
    """

    log: Callable[[Floats], Floats]
    near: Callable[[Floats], tuple[Floats, Floats]]
    latents: Floats


class Reference(NamedTuple):
    """A t law of five degrees of freedom: its centre, shape (length,), and a lower root, shape (length, length)."""

    centre: Floats
    root: Floats


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Weighted draws.

    Args:
        positions: float64, shape (draws, length), weights and then latents.
        probabilities: shape (draws,).
        size: of the weights.
    """

    positions: Floats
    probabilities: Floats
    size: int

    @property
    def weights(self) -> Floats:
        """Weights of the regression, without latents, shape (draws, size)."""
        return self.positions[:, : self.size]

    @property
    def effective(self) -> float:
        """Effective sample size."""
        return float(1 / np.sum(self.probabilities**2))

    def equal(self, draws: int) -> Floats:
        """Resample draws of equal weight, systematically, shape (draws, size)."""
        ends = np.cumsum(self.probabilities)
        picked = np.searchsorted(ends, (np.arange(draws) + 0.5) / draws * ends[-1])
        return np.asarray(self.weights[picked])

    def mean(self) -> Floats:
        """Posterior means, shape (size,)."""
        return np.asarray(self.probabilities @ self.weights)

    def reference(self, wider: float = 1.0) -> Reference:
        """Make the t law with their mean, and their covariance times a factor."""
        centre = self.probabilities @ self.positions
        off = self.positions - centre
        covariance = (off * self.probabilities[:, None]).T @ off
        return Reference(centre, np.asarray(wider * np.linalg.cholesky(covariance), np.float64))


@dataclass(frozen=True, eq=False)
class Density:
    """Posterior density up to a constant: likelihoods times the prior N(0, deviation^2 I) of the weights.

    Args:
        size: of the weights.
        deviation: of each weight a priori.
        evidence: likelihoods, of which the first alone may have latents.
    """

    size: int
    deviation: float
    evidence: tuple[WeightLikelihood, ...]

    @property
    def latents(self) -> Floats:
        """Deviations of the latent quantities, shape (latents,)."""
        return self.evidence[0].latents if self.evidence else np.empty(0)

    def log(self, positions: Floats) -> Floats:
        """Compute the log density at positions of shape (draws, length); shape (draws,)."""
        weights = positions[:, : self.size]
        total = -0.5 * np.sum((weights / self.deviation) ** 2, axis=1)
        for index, likelihood in enumerate(self.evidence):
            total = total + likelihood.log(weights if index else positions)
        return np.asarray(total)

    def mode(self) -> tuple[Floats, Floats]:
        """Find the mode approximately, and a covariance there: Fisher scoring, then numeric slopes."""
        size, latents = self.size, self.latents
        at = np.zeros(size + len(latents))
        height, covariance = float(self.log(at[None])[0]), np.diag(np.concatenate([np.zeros(size), latents**2]))
        aside, exact = SLOPE_STEP * np.eye(len(at)), False
        flat = np.eye(size) / self.deviation**2
        for _ in range(MOST_CLIMBS):
            # Newton's step: (I / deviation^2 + sum of Fisher informations)^-1 times the slope of the log density.
            near = [likelihood.near(at[:size]) for likelihood in self.evidence]
            covariance[:size, :size] = np.linalg.inv(flat + sum((steep for _, steep in near), 0 * flat))
            slope = np.zeros(len(at))
            slope[:size] = sum((slope for slope, _ in near), -flat @ at[:size])
            if exact:
                slope = (self.log(at + aside) - self.log(at - aside)) / (2 * SLOPE_STEP)
            tried = at + covariance @ slope * 0.5 ** np.arange(STEP_HALVINGS)[:, None]
            heights = self.log(tried)
            best = int(np.argmax(heights))
            if heights[best] > height + LEAST_CLIMB:
                at, height = tried[best], float(heights[best])
            elif exact:
                break
            else:
                exact = True
        return at, covariance


def weighted_draws(density: Density, *, draws: int, wanted: int, rng: np.random.Generator) -> WeightedDraws:
    """Draw from a density by adaptive importance sampling.

    Args:
        density: of weights and latents.
        draws: of each round, or more where there are many coordinates; there are 2 to 15 rounds.
        wanted: independent draws that end the rounds.
        rng: source of randomness.

    Returns:
        The draws of all rounds. `effective` says how many they are worth: fewer than wanted, where 15 rounds did not
        do.

    Source:
        Cornuet, Marin, Mira and Robert (2012), adaptive multiple importance sampling.
    """
    size = density.size
    centre, covariance = density.mode()
    draws = max(draws, 2 * DRAWS_PER_COORDINATE * len(centre))
    laws = [Reference(centre, np.asarray(PROPOSAL_WIDENING * np.linalg.cholesky(covariance), np.float64))]
    positions, heights = np.empty((0, len(centre))), np.empty(0)
    while True:
        new = t_draws(laws[-1], draws, rng)
        positions, heights = np.concatenate([positions, new]), np.concatenate([heights, density.log(new)])
        score = heights - _log_mixture(positions, laws)
        if (len(laws) > 1 and _weigh_draws(positions, score, 1.0, size).effective >= wanted) or len(
            laws
        ) == MOST_PROPOSAL_ROUNDS:
            break
        # Where few draws have all the weight, their covariance would be too narrow: flatter weights come first.
        power = 1.0
        while (flatter := _weigh_draws(positions, score, power, size)).effective < DRAWS_PER_COORDINATE * len(centre):
            power *= 0.7
        laws.append(flatter.reference(PROPOSAL_WIDENING))
    # Capped weights have a finite variance, and a bias that vanishes (Ionides, 2008).
    return _weigh_draws(positions, np.minimum(score, logsumexp(score) - 0.5 * np.log(len(score))), 1.0, size)


def t_draws(law: Reference, draws: int, rng: np.random.Generator) -> Floats:
    """Draw independently from a t law, shape (draws, length).

    Example:
        >>> law = Reference(np.zeros(2), np.eye(2))
        >>> t_draws(law, 5, np.random.default_rng(0)).shape
        (5, 2)
    """
    normal = rng.standard_normal((draws, len(law.centre)))
    normal *= np.sqrt(DEGREES_OF_FREEDOM / rng.chisquare(DEGREES_OF_FREEDOM, draws))[:, None]
    return np.asarray(law.centre + normal @ law.root.T)


def _log_mixture(positions: Floats, laws: list[Reference]) -> Floats:
    """Compute the log density of a mixture of t laws, up to a constant, shape (draws,)."""
    size = positions.shape[1]
    logs = []
    for centre, root in laws:
        # log t(x) = -(nu + p) / 2 log(1 + d^2 / nu) - log det root, with d the Mahalanobis distance from the centre.
        squares = np.sum(np.linalg.solve(root, (positions - centre).T) ** 2, axis=0)
        logs.append(
            -(DEGREES_OF_FREEDOM + size) / 2 * np.log1p(squares / DEGREES_OF_FREEDOM) - np.log(np.diag(root)).sum()
        )
    return np.asarray(logsumexp(logs, axis=0) - np.log(len(laws)))


def _weigh_draws(positions: Floats, score: Floats, power: float, size: int) -> WeightedDraws:
    """Weigh draws by a power of their importance weights."""
    heavy = np.exp(power * (score - score.max()))
    return WeightedDraws(positions, heavy / heavy.sum(), size)
