"""Importance sampling of a density of weights: t proposals around its mode, adapted to the weighted draws.

No chain has to mix and nothing is compiled: a density is a function of many positions at once. The effective sample
size shows whether the sample is good enough. If the density is too far from a t law, slice sampling takes over
(`logistic.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from discreet.util.arrays import Floats

DEGREES_OF_FREEDOM = 5.0
"""Degrees of freedom of the t proposals, whose tails are heavier than the posterior's."""
MOST_PROPOSAL_ROUNDS, PROPOSAL_WIDENING = 15, 1.3
"""Largest number of rounds of adaptive proposals, and the ratio of a proposal's width to that of the weighted draws."""
DRAWS_PER_COORDINATE = 3
"""Least effective sample size per coordinate for estimating a covariance."""
MOST_CLIMBS, STEP_HALVINGS, LEAST_CLIMB, SLOPE_STEP = 40, 12, 1e-2, 1e-4
"""Largest number of steps to the mode, number of step lengths tried (each half of the last), least increase of the log
density that counts as progress, and step of numeric derivatives."""


@dataclass(frozen=True, eq=False)
class WeightLikelihood:
    """A likelihood of the weights and, possibly, of latent quantities centred at 0.

    Args:
        log: log-likelihood of positions (weights, then latent quantities), from shape (draws, size + latents) to shape
            (draws,).
        near: from weights, shape (size,), with latent quantities 0, to the gradient of the log-likelihood, shape
            (size,), and the Fisher information, shape (size, size). Both may be approximate.
        latents: approximate standard deviation of each latent quantity, shape (latents,).
    """

    log: Callable[[Floats], Floats]
    near: Callable[[Floats], tuple[Floats, Floats]]
    latents: Floats


class Reference(NamedTuple):
    """A t law of five degrees of freedom: centre, shape (length,), and Cholesky factor, shape (length, length)."""

    centre: Floats
    root: Floats


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Weighted draws.

    Args:
        positions: weights, then latent quantities, float64, shape (draws, length).
        probabilities: shape (draws,).
        size: number of weights.
    """

    positions: Floats
    probabilities: Floats
    size: int

    @property
    def weights(self) -> Floats:
        """Weights of the regression, without latent quantities, shape (draws, size)."""
        return self.positions[:, : self.size]

    @property
    def effective(self) -> float:
        """Kish's effective sample size."""
        return float(1 / np.sum(self.probabilities**2))

    def equal(self, draws: int) -> Floats:
        """Resample weights systematically to draws of equal probability, shape (draws, size)."""
        ends = np.cumsum(self.probabilities)
        picked = np.searchsorted(ends, (np.arange(draws) + 0.5) / draws * ends[-1])
        return np.asarray(self.weights[picked])

    def mean(self) -> Floats:
        """Compute posterior means of the weights, shape (size,)."""
        return np.asarray(self.probabilities @ self.weights)

    def reference(self, wider: float = 1.0) -> Reference:
        """Return the t law whose centre is the weighted mean and whose root is the Cholesky factor times `wider`."""
        centre = self.probabilities @ self.positions
        off = self.positions - centre
        covariance = (off * self.probabilities[:, None]).T @ off
        return Reference(centre, np.asarray(wider * np.linalg.cholesky(covariance), np.float64))


@dataclass(frozen=True, eq=False)
class Density:
    """Posterior density up to a constant: the prior N(0, deviation^2 I) of the weights times likelihoods.

    Args:
        size: number of weights.
        deviation: prior standard deviation of each weight.
        evidence: likelihoods, of which only the first may have latent quantities.
    """

    size: int
    deviation: float
    evidence: tuple[WeightLikelihood, ...]

    @property
    def latents(self) -> Floats:
        """Approximate standard deviations of the latent quantities, shape (latents,)."""
        return self.evidence[0].latents if self.evidence else np.empty(0)

    def log(self, positions: Floats) -> Floats:
        """Compute the log density, up to a constant, at positions of shape (draws, length); shape (draws,)."""
        weights = positions[:, : self.size]
        total = -0.5 * np.sum((weights / self.deviation) ** 2, axis=1)
        for index, likelihood in enumerate(self.evidence):
            total = total + likelihood.log(weights if index else positions)
        return np.asarray(total)

    def mode(self) -> tuple[Floats, Floats]:
        """Find the mode approximately by Fisher scoring with step halving, then with numeric gradients.

        Returns:
            (mode, shape (length,); inverse information there as covariance, shape (length, length)).
        """
        size, latents = self.size, self.latents
        at = np.zeros(size + len(latents))
        height, covariance = float(self.log(at[None])[0]), np.diag(np.concatenate([np.zeros(size), latents**2]))
        aside, exact = SLOPE_STEP * np.eye(len(at)), False
        flat = np.eye(size) / self.deviation**2
        for _ in range(MOST_CLIMBS):
            # Fisher scoring: (I / deviation^2 + sum of Fisher informations)^-1 times the gradient of the log density.
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
    """Draw from a density by adaptive multiple importance sampling.

    Args:
        density: density of weights and latent quantities.
        draws: number of draws of a round, or more if there are many coordinates; there are 2 to 15 rounds.
        wanted: effective sample size that ends the rounds.
        rng: source of randomness.

    Returns:
        The draws of all rounds. Their effective sample size (`effective`) is below `wanted` if 15 rounds do not reach
        it.

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
        # Balance heuristic: every draw is weighted by density / mixture of all proposals so far.
        score = heights - _compute_log_mixture(positions, laws)
        if (len(laws) > 1 and _weigh_draws(positions, score, 1.0, size).effective >= wanted) or len(
            laws
        ) == MOST_PROPOSAL_ROUNDS:
            break
        # If a few draws have all the weight, their covariance would be too narrow: temper the weights by a power.
        power = 1.0
        while (flatter := _weigh_draws(positions, score, power, size)).effective < DRAWS_PER_COORDINATE * len(centre):
            power *= 0.7
        laws.append(flatter.reference(PROPOSAL_WIDENING))
    # Truncated weights have a finite variance and a vanishing bias (Ionides, 2008): at most sqrt(N) times their mean.
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


def _compute_log_mixture(positions: Floats, laws: list[Reference]) -> Floats:
    """Compute the log density of an equal mixture of t laws, up to a constant.

    Args:
        positions: shape (draws, length).
        laws: t laws of the same length.

    Returns:
        Shape (draws,).
    """
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
    """Normalise a power of the importance weights to probabilities of the draws.

    Args:
        positions: weights, then latent quantities, shape (draws, length).
        score: log importance weights, up to a constant, shape (draws,).
        power: exponent of the importance weights, at most 1; smaller ones flatten them.
        size: number of weights.
    """
    heavy = np.exp(power * (score - score.max()))
    return WeightedDraws(positions, heavy / heavy.sum(), size)
