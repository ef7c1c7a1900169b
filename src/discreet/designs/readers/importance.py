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
    """A likelihood of the weights and, possibly, of latent quantities centred at 0, whose prior it includes.

    Args:
        log: log-likelihood of positions (weights, then latent quantities), from shape (draws, size + latents) to shape
            (draws,).
        near: from weights, shape (size,), with latent quantities 0, to the gradient of the log-likelihood, shape
            (size,), and the Fisher information, shape (size, size). Both may be approximate.
        latents: approximate standard deviation of each latent quantity, shape (latents,); shape (0,) without any.
    """

    log: Callable[[Floats], Floats]
    near: Callable[[Floats], tuple[Floats, Floats]]
    latents: Floats


class Reference(NamedTuple):
    """A multivariate t law of five degrees of freedom, of location `centre` and scale matrix `root root'`.

    `centre` has shape (length,); `root` is a lower triangular Cholesky factor, shape (length, length).
    """

    centre: Floats
    root: Floats


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Weighted draws of weights and latent quantities.

    Args:
        positions: weights, then latent quantities, float64, shape (draws, length).
        probabilities: probability of each draw, shape (draws,), sum 1.
        size: number of weights.
    """

    positions: Floats
    probabilities: Floats
    size: int

    @property
    def weights(self) -> Floats:
        """Weights of the regression, without latent quantities, shape (draws, size); a view of `positions`."""
        return self.positions[:, : self.size]

    @property
    def effective(self) -> float:
        """Kish's effective sample size, `1 / sum p_i^2`: from 1 to the number of draws."""
        return float(1 / np.sum(self.probabilities**2))

    def equal(self, draws: int) -> Floats:
        """Resample weights systematically to draws of equal probability, shape (draws, size).

        The draws are at the quantiles `(k + 1/2) / draws` of the cumulated probabilities: deterministic, in the order
        of `positions`. A draw of large probability is repeated.
        """
        ends = np.cumsum(self.probabilities)
        picked = np.searchsorted(ends, (np.arange(draws) + 0.5) / draws * ends[-1])
        return np.asarray(self.weights[picked])

    def mean(self) -> Floats:
        """Compute posterior means of the weights, `sum p_i w_i`, shape (size,); latent quantities are left out."""
        return np.asarray(self.probabilities @ self.weights)

    def reference(self, wider: float = 1.0) -> Reference:
        """Return the t law around the weighted draws, latent quantities included.

        Its centre is their weighted mean; its root is `wider` times the Cholesky factor of their weighted covariance.

        Args:
            wider: factor of the root.

        Raises:
            numpy.linalg.LinAlgError: the covariance is singular.
        """
        centre = self.probabilities @ self.positions
        off = self.positions - centre
        covariance = (off * self.probabilities[:, None]).T @ off
        return Reference(centre, np.asarray(wider * np.linalg.cholesky(covariance), np.float64))


@dataclass(frozen=True, eq=False)
class Density:
    """Posterior density up to a constant: the prior N(0, deviation^2 I) of the weights times likelihoods.

    The prior of latent quantities is a part of the first likelihood.

    Args:
        size: number of weights.
        deviation: prior standard deviation of each weight.
        evidence: likelihoods, of which only the first may have latent quantities; empty for the prior alone.
    """

    size: int
    deviation: float
    evidence: tuple[WeightLikelihood, ...]

    @property
    def latents(self) -> Floats:
        """Approximate standard deviations of the latent quantities of the first likelihood; shape (0,) without any."""
        return self.evidence[0].latents if self.evidence else np.empty(0)

    def log(self, positions: Floats) -> Floats:
        """Compute the log density, up to a constant, at many positions.

        `log p = -|w|^2 / (2 deviation^2) + sum of the log-likelihoods`.

        Args:
            positions: weights, then latent quantities, shape (draws, length). The first likelihood gets whole
                positions, all others the weights.

        Returns:
            Shape (draws,), in nats.
        """
        weights = positions[:, : self.size]
        total = -0.5 * np.sum((weights / self.deviation) ** 2, axis=1)
        for index, likelihood in enumerate(self.evidence):
            total = total + likelihood.log(weights if index else positions)
        return np.asarray(total)

    def mode(self) -> tuple[Floats, Floats]:
        """Find the mode approximately by Fisher scoring with step halving, then with numeric gradients.

        The climb starts at 0. Each step tries 12 step lengths, `1, 1/2, ... 2^-11`, and takes the one of the largest
        density. Fisher steps move the weights alone. When the log density rises by at most 0.01, central differences of
        all coordinates replace the gradient; when that happens again, or after 40 steps in all, the climb ends.

        Returns:
            (mode, shape (length,); covariance, shape (length, length)). The covariance is block diagonal: the inverse
            of prior precision plus Fisher information of the weights, with latent quantities of 0, then the squares of
            `latents`. It is taken at the mode; after 40 steps at the point before the last one.
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

    A round draws from a t law, the first one around the mode with the covariance of `Density.mode`, later ones around
    the weighted draws so far; roots are widened by 1.3. Every draw is weighted by density over the equal mixture of all
    t laws so far. If the effective sample size is below 3 per coordinate, weights are raised to a power below 1 before
    the next law is fitted.

    Args:
        density: density of weights and latent quantities.
        draws: number of draws of a round, at least six per coordinate: fewer are raised to that.
        wanted: effective sample size that ends the rounds, from the second one on.
        rng: source of randomness.

    Returns:
        The draws of all 2 to 15 rounds, in the order drawn. Their importance weights are truncated at `sqrt(N)` times
        their mean, N the number of draws, and normalised. The effective sample size (`effective`) may be below `wanted`
        after 15 rounds: the caller checks it.

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
    """Draw independently from a t law, shape (draws, length): `centre + sqrt(5 / chi2_5) root z`, z standard normal.

    Example:
        >>> law = Reference(np.zeros(2), np.eye(2))
        >>> t_draws(law, 5, np.random.default_rng(0)).shape
        (5, 2)
    """
    normal = rng.standard_normal((draws, len(law.centre)))
    normal *= np.sqrt(DEGREES_OF_FREEDOM / rng.chisquare(DEGREES_OF_FREEDOM, draws))[:, None]
    return np.asarray(law.centre + normal @ law.root.T)


def _compute_log_mixture(positions: Floats, laws: list[Reference]) -> Floats:
    """Compute the log density of an equal mixture of t laws, up to a constant that depends on the length alone.

    Args:
        positions: shape (draws, length).
        laws: t laws of the same length, at least one.

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
    """Normalise a power of the importance weights to probabilities: `p_i ~ exp(power * score_i)`.

    Args:
        positions: weights, then latent quantities, shape (draws, length); not copied.
        score: log importance weights, up to a constant, shape (draws,).
        power: exponent of the importance weights, at most 1; smaller ones flatten them.
        size: number of weights.
    """
    heavy = np.exp(power * (score - score.max()))
    return WeightedDraws(positions, heavy / heavy.sum(), size)
