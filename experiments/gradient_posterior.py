"""Posteriors of a logistic regression by weighted draws: what `dc.weights` says, in a fraction of its time.

`dc.weights` runs chains, which takes seconds for one gradient and half a minute for ten; figures with hundreds of
posteriors need something faster. The density is the same (`posterior/design/logistic.py`): gradients are jointly normal
over the draw of the records, the variance of each one's noise has a gamma law, and a number of records that was
released with noise is drawn, too. Here draws come from t laws around the mode and are weighted by the density, so that
nothing has to mix. The tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, logsumexp

import discreet as dc
from discreet.posterior.design.laws import cosines, spread
from discreet.posterior.design.logistic import noise_variance

from .logistic_sets import Law

Floats = npt.NDArray[np.float64]

__all__ = ["Evidence", "WeightedDraws", "most_likely", "of_coordinates", "of_gradients", "of_public", "weighted_draws"]

COVARIANCE_POINTS = 256
"""That tell a covariance, as in `dc.weights`; a power of two."""
AT_ONCE = 2**21
"""Numbers in memory while covariances are computed."""
FREEDOM = 5.0
"""Degrees of freedom of the t laws: tails heavier than the posterior's."""
ROUNDS, WIDER = 15, 1.3
"""Most rounds of weighted draws, each from where those before were heavy, and how much wider than they are."""
ENOUGH = 3
"""Independent draws for each coordinate that a covariance is taken from."""
SEARCHES, HALVINGS, CLIMB, NEAR = 40, 12, 1e-2, 1e-4
"""Most steps to the mode, halvings of each, the least climb that is worth another one, and for numeric slopes."""


@dataclass(frozen=True, eq=False)
class Evidence:
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


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws with probabilities.

    Args:
        weights: float64, shape (draws, size).
        probabilities: shape (draws,).
    """

    weights: Floats
    probabilities: Floats

    @property
    def effective(self) -> float:
        """How many independent draws they are worth."""
        return float(1 / np.sum(self.probabilities**2))

    def equal(self, draws: int) -> Floats:
        """So many draws of equal weight, picked evenly, shape (draws, size)."""
        ends = np.cumsum(self.probabilities)
        picked = np.searchsorted(ends, (np.arange(draws) + 0.5) / draws * ends[-1])
        return np.asarray(self.weights[picked])

    def mean(self) -> Floats:
        """Posterior means, shape (size,)."""
        return np.asarray(self.probabilities @ self.weights)


def weighted_draws(
    evidence: Evidence | None,
    *,
    public: Evidence | None,
    size: int,
    deviation: float,
    draws: int,
    wanted: int,
    rng: np.random.Generator,
) -> WeightedDraws:
    """Draws given gradients or public records or both, with the prior N(0, deviation^2 I).

    Args:
        evidence: of gradients; None where there are none.
        public: of public records; None where there are none.
        size: of the weights.
        deviation: of each weight a priori.
        draws: of each round; there are 2 to 15.
        wanted: independent draws that end the rounds.
        rng: source of randomness.

    Returns:
        The draws of all rounds with their probabilities.

    Source:
        Cornuet, Marin, Mira and Robert (2012), adaptive multiple importance sampling.
    """

    def log(positions: Floats) -> Floats:
        weights = positions[:, :size]
        found = -0.5 * np.sum((weights / deviation) ** 2, axis=1)
        found += 0 if evidence is None else evidence.log(positions)
        return np.asarray(found + (0 if public is None else public.log(weights)))

    latents = np.empty(0) if evidence is None else evidence.latents
    parts = tuple(part for part in (evidence, public) if part is not None)
    centre, covariance = _mode(log, parts, size, latents, deviation)
    laws: list[tuple[Floats, Floats]] = []
    positions, heights = np.empty((0, len(centre))), np.empty(0)
    while len(laws) < ROUNDS:
        laws.append((centre, np.asarray(WIDER * np.linalg.cholesky(covariance), np.float64)))
        normal = rng.standard_normal((draws, len(centre)))
        normal *= np.sqrt(FREEDOM / rng.chisquare(FREEDOM, draws))[:, None]
        new = centre + normal @ laws[-1][1].T
        positions, heights = np.concatenate([positions, new]), np.concatenate([heights, log(new)])
        score = heights - _log_mixture(positions, laws)
        if len(laws) > 1 and _weighted(positions, score, 1.0).effective >= wanted:
            break
        # Where few draws have all the weight, their covariance would be too narrow: flatter weights come first.
        power = 1.0
        while (flatter := _weighted(positions, score, power)).effective < ENOUGH * len(centre):
            power *= 0.7
        centre = flatter.mean()
        off = positions - centre
        covariance = (off * flatter.probabilities[:, None]).T @ off
    # Capped weights have a finite variance, and a bias that vanishes (Ionides, 2008).
    score = np.minimum(score, logsumexp(score) - 0.5 * np.log(len(score)))
    found = _weighted(positions, score, 1.0)
    return WeightedDraws(found.weights[:, :size], found.probabilities)


def _log_mixture(positions: Floats, laws: list[tuple[Floats, Floats]]) -> Floats:
    """Logarithm of the mean density of t laws of centres and roots, up to a constant, shape (draws,)."""
    size = positions.shape[1]
    logs = []
    for centre, root in laws:
        squares = np.sum(np.linalg.solve(root, (positions - centre).T) ** 2, axis=0)
        logs.append(-(FREEDOM + size) / 2 * np.log1p(squares / FREEDOM) - np.log(np.diag(root)).sum())
    return np.asarray(logsumexp(logs, axis=0) - np.log(len(laws)))


def _weighted(positions: Floats, score: Floats, power: float) -> WeightedDraws:
    """Draws whose probabilities are a power of their weights."""
    heavy = np.exp(power * (score - score.max()))
    return WeightedDraws(positions, heavy / heavy.sum())


def most_likely(evidence: Evidence, *, size: int, deviation: float) -> Floats:
    """Weights of the highest posterior density, up to `CLIMB`, given evidence without latents; shape (size,)."""

    def log(weights: Floats) -> Floats:
        return np.asarray(evidence.log(weights) - 0.5 * np.sum((weights / deviation) ** 2, axis=1))

    return _mode(log, (evidence,), size, np.empty(0), deviation)[0]


def _mode(
    log: Callable[[Floats], Floats], parts: tuple[Evidence, ...], size: int, latents: Floats, deviation: float
) -> tuple[Floats, Floats]:
    """Where the density is about highest, and the covariance there: scoring, and then numeric slopes."""
    at = np.zeros(size + len(latents))
    height, covariance = float(log(at[None])[0]), np.diag(np.concatenate([np.zeros(size), latents**2]))
    aside, exact = NEAR * np.eye(len(at)), False
    for _ in range(SEARCHES):
        near = [part.near(at[:size]) for part in parts]
        flat = np.eye(size) / deviation**2
        covariance[:size, :size] = np.linalg.inv(flat + sum((steep for _, steep in near), 0 * flat))
        slope = np.zeros(len(at))
        slope[:size] = sum((slope for slope, _ in near), -flat @ at[:size])
        if exact:
            slope = (log(at + aside) - log(at - aside)) / (2 * NEAR)
        tried = at + covariance @ slope * 0.5 ** np.arange(HALVINGS)[:, None]
        heights = log(tried)
        best = int(np.argmax(heights))
        if heights[best] > height + CLIMB:
            at, height = tried[best], float(heights[best])
        elif exact:
            break
        else:
            exact = True
    return at, covariance


# ------------------------------------------------------------------------------------------ evidence


def of_public(points: Floats, labels: Floats) -> Evidence:
    """Labelled public records.

    Args:
        points: shape (records, size), the constant last.
        labels: 0 or 1, shape (records,).

    Returns:
        Their logistic likelihood.
    """
    signed = points * (2 * labels - 1)[:, None]

    def near(at: Floats) -> tuple[Floats, Floats]:
        p = expit(points @ at)
        return (labels - p) @ points, (points * (p * (1 - p))[:, None]).T @ points

    return Evidence(lambda weights: np.asarray(log_expit(weights @ signed.T).sum(axis=1)), near, np.empty(0))


def of_gradients(release: dc.Release, law: Law) -> Evidence:
    """Noisy gradients.

    Args:
        release: of noisy gradients, or of a perturbed objective.
        law: of the features.

    Returns:
        The normal likelihood of all of them together. Latents are the logarithm of each noise's variance, less that of
        its mean, and where the number of records has noise, how far off it is in scales of that noise.
    """
    trace = release.payload
    assert isinstance(trace, dc.GradientTrace)
    at, told = trace.points, trace.gradients
    steps, size = at.shape
    order, unit = noise_variance(size, trace.scale, trace.design.shape)
    counted, scale = (release.records, None) if trace.total is None else (trace.total.value, trace.total.scale)
    assert counted is not None
    return _normal_sums(at, told, law, (order, unit, steps), counted, scale)


def of_coordinates(at: Floats, told: Floats, scale: float, records: int, law: Law) -> Evidence:
    """One gradient with Laplace noise on each coordinate, as PINQ's noisy sums have it; the number of records is known.

    Args:
        at: weights that the gradient is taken at, shape (size,).
        told: the noisy gradient, shape (size,).
        scale: of the noise.
        records: how many.
        law: of the features.

    Returns:
        The normal likelihood of the sums. Laplace noise is normal noise whose variance has an exponential law of mean
        `2 scale^2`; latents are the logarithms of the variances.
    """
    return _normal_sums(at[None], told[None], law, (1.0, 2 * scale**2, len(at)), records, None)


def _normal_sums(
    at: Floats, told: Floats, law: Law, noise_law: tuple[float, float, int], counted: int, scale: float | None
) -> Evidence:
    """Gradients that are jointly normal over the draw of the records.

    Args:
        at, told: points and noisy gradients, shape (T, size).
        law: of the features.
        noise_law: shape and scale of the gamma law of the variances, and how many there are; each is of equally many
            coordinates in a row.
        counted: number of records.
        scale: of the noise on it; None where it has none.

    Returns:
        Their likelihood.
    """
    steps, size = at.shape
    order, unit, parts = noise_law
    each = steps * size // parts
    middle = float(max(counted, scale or 1, 1))
    moments = _moments(law)
    listed = spread(law, COVARIANCE_POINTS)
    few = WeightedDraws(listed.points, listed.weights).equal(COVARIANCE_POINTS)
    covariance, means = _covariances(few, at), moments(at)

    def log(positions: Floats) -> Floats:
        weights, logs = positions[:, :size], positions[:, size : size + parts]
        found = order * np.sum(logs - np.exp(logs), axis=1)
        records = np.full(len(weights), middle)
        if scale is not None:
            records = middle * np.exp(positions[:, -1] * scale / middle)
            found += np.log(records) - np.abs(records - counted) / scale
        off = (told - records[:, None, None] * (moments(weights)[:, None] - means)).reshape(len(weights), -1)
        noise, diagonal = np.repeat(order * unit * np.exp(logs), each, axis=1), np.arange(steps * size)
        block = max(1, AT_ONCE // (len(few) * steps * size))
        for start in range(0, len(weights), block):
            part = slice(start, start + block)
            total = records[part, None, None] * covariance(weights[part])
            total[:, diagonal, diagonal] += noise[part]
            root = np.linalg.cholesky(total)
            scores = np.linalg.solve(root, off[part, :, None])[..., 0]
            found[part] -= 0.5 * np.sum(scores**2, axis=1) + np.log(root[:, diagonal, diagonal]).sum(axis=1)
        return np.asarray(found)

    def near(weights: Floats) -> tuple[Floats, Floats]:
        p = expit(few @ weights)
        slope = np.tile(middle * (few * (p * (1 - p))[:, None]).T @ few / len(few), (steps, 1))
        off = (told - middle * (moments(weights[None]) - means)).ravel()
        total = middle * covariance(weights[None])[0] + order * unit * np.eye(steps * size)
        solved = np.linalg.solve(total, np.column_stack([slope, off]))
        return slope.T @ solved[:, -1], slope.T @ solved[:, :-1]

    # A gamma law's logarithm has about this deviation, with what the coordinates of the noise tell of it.
    latents = np.full(parts, (order + each / 4) ** -0.5)
    return Evidence(log, near, latents if scale is None else np.append(latents, 1.0))


def _covariances(few: Floats, at: Floats) -> Callable[[Floats], Floats]:
    """Of one record's gradients at all points of a release, given weights.

    Args:
        few: points of the features' law of equal weight, shape (points, size).
        at: of the release, shape (T, size).

    Returns:
        From weights, shape (draws, size), to shape (draws, T size, T size).
    """
    before, steps, size = expit(few @ at.T), len(at), at.shape[1]
    squares = (few[:, :, None] * few[:, None, :]).reshape(len(few), -1)

    def covariance(weights: Floats) -> Floats:
        p = expit(weights @ few.T)
        labels = ((p * (1 - p)) @ squares / len(few)).reshape(-1, size, size)
        moved = ((p[:, :, None] - before)[..., None] * few[:, None, :]).reshape(len(p), len(few), -1)
        moved -= moved.mean(axis=1, keepdims=True)
        return np.asarray(np.tile(labels, (steps, steps)) + np.swapaxes(moved, 1, 2) @ moved / len(few))

    return covariance


def _moments(law: Law) -> Callable[[Floats], Floats]:
    """`E[sigmoid(w . v) v]` of weights, shape (draws, size) to the same shape."""
    if isinstance(law, dc.UniformSphere):
        cosine, probability = cosines(law)

        def on_sphere(weights: Floats) -> Floats:
            constant = law.constant or 0.0
            slopes = weights[:, : law.features]
            length = np.linalg.norm(slopes, axis=1, keepdims=True) + 1e-9
            offset = weights[:, law.features :].sum(axis=1, keepdims=True) * constant
            likely = probability * expit(offset + length * law.norm * cosine)
            features = slopes / length * law.norm * (likely @ cosine)[:, None]
            rest = [] if law.constant is None else [constant * likely.sum(axis=1)]
            return np.column_stack([features, *rest])

        return on_sphere
    points = spread(law)
    return lambda weights: np.asarray((expit(weights @ points.points.T) * points.weights) @ points.points)
