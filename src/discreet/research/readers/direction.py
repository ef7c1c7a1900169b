"""Posterior of the records' direction, given the choice of one by the factored exponential mechanism.

Records are `x ~ N(0, theta theta' + s2 I)`, the prior of theta is `N(0, deviation^2 I)`, and the likelihood of a choice
is one of those of `research/scores/choice_likelihood.py`: the lower bound (5a), the upper bound (5b), or the limit
theorem. The sign of theta has no meaning: theta and -theta are the same law of records.

Expectations over a record are means over fixed public points `x = u_0 theta + s u`, so the likelihood is a smooth
function that never changes between calls. Metropolis steps on a coarse rule with few points generate each proposal,
which is then accepted or rejected by the fine rule; the chain is exact for the fine one. The steps are leaps among
independent draws of a mixture fitted to the coarse rule if the fit is good enough, and else a random walk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from discreet.designs.design import design_of, normal_of
from discreet.designs.readers.weight_posterior import WeightPosterior, read_total
from discreet.errors import InputError, require_word
from discreet.posterior.diagnostics import measure_mixing
from discreet.posterior.joint_draws import Mixing
from discreet.posterior.totals import TotalLaw, measured_total_law
from discreet.releases.release import Release
from discreet.research.kinds.factored_choice import FactoredChoice
from discreet.research.readers.components import ComponentPosterior
from discreet.research.scores.choice_likelihood import lower_log_marginal, normal_log_law, upper_log_marginal
from discreet.research.scores.factors import DirectionFactor, standard_normals
from discreet.util.arrays import Floats
from discreet.util.number_checks import positive
from discreet.util.progress import under_way

ChoiceLikelihood = Literal["lower", "upper", "clt"]
Target = Callable[[Floats, Floats], Floats]
"""Logarithm of prior times likelihood, shape (chains,), of directions (chains, k) and numbers of records (chains,)."""

FINE_POINTS, COARSE_POINTS = 4096, 128
"""Number of points that represent a record: for the posterior itself, and for the proposals. The fine rule's means of
factors have errors of about 2e-4, the standard error of a million records."""
DIRECTION_SCORES = 128
"""Normal scores of the limit theorem, the same at every step; the coarse rule has a quarter of them."""
DIRECTION_CHAINS = 4
START_PROPOSALS, START_CENTRES, START_STAGES = 1024, 256, 4
"""Number of proposals for the chains' starts, of centres kept from them, and of stages."""
LEAST_LEAP_SHARE, MOST_LEAPS, PRIOR_LEAP_SHARE = 0.04, 8, 0.1
"""Least effective share of the proposals for leaps; most leaps for each proposal; share of the prior in the mixture."""
FACTORS_AT_ONCE = 2**17
"""Number of factors in memory at once, which fit into a processor's cache."""
POINTS_AT_ONCE = 128
"""Number of points whose factors are multiplied at once."""
LEAST_DIRECTION_DRAWS = 8 * DIRECTION_CHAINS
"""Least number of draws: with fewer the mixing cannot be measured."""
MOVES_PER_COORDINATE = 15
"""Steps on the coarse rule for each proposal and coordinate: a walk's autocorrelation time grows with k."""
WARM_UP_PROPOSALS = 60
"""Proposals of the warm-up, which are discarded. All but the last quarter adapt the step, on the coarse rule alone."""
WANTED_ACCEPTANCE = 0.3
"""Target acceptance rate of a random walk (Roberts and Rosenthal, 2001: 0.23 to 0.44)."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """Choice with `P(z | X) ~ exp(epsilon sum_i f(x_i, z))`.

    Args:
        factor: f, public, with the candidates.
        index: z, the chosen candidate.
        epsilon: of that law, nats.
    """

    factor: DirectionFactor
    index: int
    epsilon: float


@dataclass(frozen=True, eq=False)
class DirectionDraws:
    """Draws of a direction and its length.

    Args:
        weights: theta, float64, shape (draws, k), unit: that of the records. Signs, which have no meaning, are those
            along the mean axis.
        records: number of records in each draw, shape (draws,); constant if it is public.
        acceptance: share of proposals that the fine rule accepted; near 1 if the coarse one is as good.
        mixing: R-hat and effective draws of the worst entry of `theta theta'`.
    """

    weights: Floats
    records: Floats = field(repr=False)
    acceptance: float
    mixing: Mixing


def direction_draws(
    chosen: Chosen,
    records: int,
    *,
    method: ChoiceLikelihood,
    draws: int,
    rng: np.random.Generator,
    prior_deviation: float,
    count_scale: float | None = None,
) -> DirectionDraws:
    """Draw from `p(theta | z) ~ N(theta; 0, deviation^2 I) p(z | theta)`.

    Args:
        chosen: released choice.
        records: their number; with a `count_scale`, their noisy number, which may be negative.
        method: kind of likelihood. "lower" is the paper's; "clt" is the most accurate for large `n epsilon^2 Var(f)`.
        draws: at least 32.
        rng: source of randomness.
        prior_deviation: of each coordinate of theta, unit: that of the records.
        count_scale: scale of the discrete Laplace noise of `records`, in records; None for a public number. With noise
            the true number is also drawn; log(1 + n) is uniform a priori.

    Returns:
        Draws, from four chains in turn.

    Raises:
        InputError: an argument out of its range.

    Source:
        Williams and McSherry (2010), Sections 3.2 and 4.2; proposals by a walk on a cheaper law: Liu (2001), *Monte
        Carlo Strategies in Scientific Computing*, Section 9.4.3.
    """
    _check_arguments(records, draws, prior_deviation, count_scale)
    fine, coarse = (
        _add_prior(direction_log_likelihood(chosen, method=method, points=points, scores=scores), prior_deviation)
        for points, scores in ((FINE_POINTS, DIRECTION_SCORES), (COARSE_POINTS, DIRECTION_SCORES // 4))
    )
    candidates = chosen.factor.candidates
    size = candidates.shape[1]
    law = None if count_scale is None else measured_total_law([(records, count_scale)])
    guided, theta, number = _guide_chains(coarse, candidates, _Numbers(records, law, rng), prior_deviation)
    rounds = -(-draws // DIRECTION_CHAINS)
    thetas, numbers, accepted = np.empty((rounds, DIRECTION_CHAINS, size)), np.empty((rounds, DIRECTION_CHAINS)), 0.0
    excess = fine(theta, number) - coarse(theta, number)
    for turn in range(-(WARM_UP_PROPOSALS // 4), rounds):
        proposal, proposed = guided.go(theta, number)
        gain, new = excess.copy(), (proposal != theta).any(axis=1) | (proposed != number)
        if new.any():
            gain[new] = fine(proposal[new], proposed[new]) - coarse(proposal[new], proposed[new])
        moves = np.log1p(-rng.random(DIRECTION_CHAINS)) < gain - excess
        theta, number = np.where(moves[:, None], proposal, theta), np.where(moves, proposed, number)
        excess = np.where(moves, gain, excess)
        if turn >= 0:
            thetas[turn], numbers[turn] = theta, number
            accepted += float(moves.mean()) / rounds
    # Keep the latest draws.
    weights = thetas.reshape(-1, size)[rounds * DIRECTION_CHAINS - draws :]
    weights = weights * np.where(weights @ mean_axis(weights) < 0, -1, 1)[:, None]
    return DirectionDraws(
        weights, numbers.ravel()[rounds * DIRECTION_CHAINS - draws :], accepted, _measure_mixing(thetas, numbers)
    )


def direction_log_likelihood(
    chosen: Chosen, *, method: ChoiceLikelihood, points: int = FINE_POINTS, scores: int = DIRECTION_SCORES
) -> Callable[[Floats, Floats], Floats]:
    """Make the logarithm of `p(z | theta)` as a function of theta and n, by one of three methods.

    Args:
        chosen: released choice.
        method: as for `direction_draws`.
        points: number of points that represent a record, a power of two.
        scores: normal scores of the limit theorem, a power of two.

    Returns:
        A function of directions, shape (m, k), and numbers of records, shape (m,), to shape (m,).

    Raises:
        InputError: an index out of range, an unknown method, or points that are no power of two.
    """
    factor, index, epsilon = chosen.factor, chosen.index, chosen.epsilon
    if not 0 <= index < len(factor.candidates):
        raise InputError(f"the choice must be one of {len(factor.candidates)} candidates, counted from 0; got {index}")
    require_word(method, ChoiceLikelihood, "the method is")
    positive(epsilon=epsilon)
    size = factor.candidates.shape[1]
    normals = standard_normals(points, size + 1)
    noise = math.sqrt(factor.noise_variance) * normals[:, 1:]
    chances = np.full(points, 1 / points)
    if method == "clt":
        return _NormalScores(chosen, normals[:, 0], noise, scores)

    def log_likelihood(theta: Floats, records: Floats) -> Floats:
        rows = normals[:, :1] * theta[:, None, :] + noise
        log_phi = (epsilon * factor.log_factors(rows.reshape(-1, size))).reshape(len(theta), points, -1)
        bound = lower_log_marginal if method == "lower" else upper_log_marginal
        return bound(chances, log_phi, records, [index])[..., 0]

    return log_likelihood


class _NormalScores:
    """Likelihood by the limit theorem, as `clt_log_marginal` of `factor.log_factors` but without their rounding.

    A point x = u theta + e has the product `u theta'z + e'z` with candidate z, whose second term is the same at every
    step. The axis of candidates comes before that of points, which makes a point's extreme factors cheap to find.
    """

    def __init__(self, chosen: Chosen, along: Floats, noise: Floats, scores: int) -> None:
        factor, self._index, self._epsilon = chosen.factor, chosen.index, chosen.epsilon
        candidates, s2, unit = factor.candidates, factor.noise_variance, 4 * factor.tau
        variances = s2 + (candidates**2).sum(axis=1)
        self._slope = (1 / np.sqrt(variances * s2 * unit))[:, None]
        self._level = (1 - np.log(variances / variances.min()) / unit)[:, None]
        self._per_square = 1 / (s2 * unit)
        self._candidates, self._along, self._noise = candidates, along, noise
        self._across = (candidates @ noise.T) * self._slope
        self._squares = (noise**2).sum(axis=1)
        self._scores = standard_normals(scores, len(candidates))

    def __call__(self, theta: Floats, records: Floats) -> Floats:
        step, records = max(1, FACTORS_AT_ONCE // self._across.size), np.asarray(records, np.float64)
        blocks = [slice(at, at + step) for at in range(0, len(theta), step)]
        return np.concatenate([self._score_block(theta[block], records[block]) for block in blocks])

    def _score_block(self, theta: Floats, records: Floats) -> Floats:
        """Compute log-likelihoods, shape (m,), of a few directions, shape (m, k)."""
        squares = self._squares + self._along * (
            2 * theta @ self._noise.T + (theta**2).sum(axis=1)[:, None] * self._along
        )
        phi = (self._slope[:, 0] * (theta @ self._candidates.T))[..., None] * self._along
        phi += self._across
        phi *= phi
        phi += self._level
        phi -= (self._per_square * squares)[:, None]
        np.clip(phi, 0, 1, out=phi)
        phi -= ((phi.max(axis=1) + phi.min(axis=1)) / 2)[:, None]
        mean = phi.mean(axis=-1)
        # Small products stay on one processor; two would double the cost without saving time.
        width = min(POINTS_AT_ONCE, phi.shape[-1])
        blocks = phi.reshape(*phi.shape[:2], -1, width).swapaxes(1, 2)
        covariance = (blocks @ np.swapaxes(blocks, 2, 3)).sum(axis=1) / phi.shape[-1] - mean[..., None] * mean[:, None]
        law = normal_log_law(self._epsilon * mean, self._epsilon**2 * covariance, records, self._scores)
        return law[:, self._index]


def mean_axis(weights: npt.ArrayLike) -> Floats:
    """Compute the mean axis of draws: the leading eigenvector of `E[theta theta']`.

    Args:
        weights: shape (draws, k).

    Returns:
        A unit vector, shape (k,); its largest entry is positive.

    Raises:
        InputError: weights of another shape, or entries that are not finite.

    Example:
        >>> mean_axis([[3.0, 0.0], [-1.0, 0.0]]).tolist()
        [1.0, 0.0]
    """
    theta = _check_weights(weights)
    axis = np.linalg.eigh(theta.T @ theta)[1][:, -1]
    return np.asarray(axis * (1 if axis[np.argmax(np.abs(axis))] > 0 else -1))


def angles(weights: npt.ArrayLike, axis: npt.ArrayLike) -> Floats:
    """Compute angles between draws and an axis; the share below an angle is the posterior mass within it.

    Args:
        weights: shape (draws, k), none of them 0.
        axis: shape (k,), of any length but 0; its sign has no meaning.

    Returns:
        Shape (draws,), radians, from 0 to pi / 2.

    Raises:
        InputError: shapes that do not fit, or entries that are not finite.

    Example:
        >>> angles([[1.0, 1.0], [0.0, -2.0]], [0.0, 3.0]).round(3).tolist()
        [0.785, 0.0]
    """
    theta, along = _check_weights(weights), np.asarray(axis, np.float64)
    if along.shape != theta.shape[1:] or not 0 < np.linalg.norm(along) < np.inf:
        raise InputError(f"an axis needs {theta.shape[1]} finite coordinates that are not all 0")
    unit = along / np.linalg.norm(along)
    projection = theta @ unit
    # The tangent is accurate near 0, where the cosine is not.
    across = np.linalg.norm(theta - projection[:, None] * unit, axis=1)
    return np.asarray(np.arctan2(across, np.abs(projection)))


# -------------------------------------------------------------------------------------------------------------- details


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numbers of records given the released one.

    Args:
        records: their number, public or noisy.
        law: of their number given the noisy one; None without noise.
        rng: source of randomness.
    """

    records: int
    law: TotalLaw | None
    rng: np.random.Generator

    def draw(self, size: int) -> Floats:
        """Draw numbers of records, shape (size,)."""
        if self.law is None:
            return np.full(size, float(self.records))
        return self.law.sample(size, self.rng).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _Walk:
    """Random-walk Metropolis steps, reversible with respect to a target.

    Args:
        target: invariant law.
        moves: number of steps in a call.
        numbers: of records, proposed by their own law, which therefore cancels.
        step: length of a step.
    """

    target: Target
    moves: int
    numbers: _Numbers
    step: float

    def go(self, theta: Floats, number: Floats) -> tuple[Floats, Floats]:
        """Take all steps; return directions and numbers of records."""
        return self.step_all(theta, number)[:2]

    def step_all(self, theta: Floats, number: Floats) -> tuple[Floats, Floats, float]:
        """Take all steps; return directions, numbers of records, and the share of accepted steps."""
        here, accepted, rng = self.target(theta, number), 0.0, self.numbers.rng
        for _ in range(self.moves):
            # Steps of many sizes: for a small epsilon the posterior is wide, with narrow peaks.
            length = self.step * np.exp(rng.standard_normal((DIRECTION_CHAINS, 1)))
            proposal = theta + length * rng.standard_normal(theta.shape)
            proposed = self.numbers.draw(DIRECTION_CHAINS)
            there = self.target(proposal, proposed)
            moves = np.log1p(-rng.random(DIRECTION_CHAINS)) < there - here
            theta, number = np.where(moves[:, None], proposal, theta), np.where(moves, proposed, number)
            here = np.where(moves, there, here)
            accepted += float(moves.mean()) / self.moves
        return theta, number, accepted


@dataclass(frozen=True, eq=False)
class _Leaps:
    """Metropolis steps to independent draws of a law near the target, which decorrelate at once.

    Args:
        target: invariant law.
        law: of the proposals.
        leaps: number of steps in a call.
        numbers: of records, proposed by their own law, which therefore cancels.
    """

    target: Target
    law: _Around
    leaps: int
    numbers: _Numbers

    def go(self, theta: Floats, number: Floats) -> tuple[Floats, Floats]:
        """Take all steps; return directions and numbers of records."""
        rng = self.numbers.rng
        proposals = np.concatenate([theta, self.law.draw(self.leaps * DIRECTION_CHAINS, rng)])
        counts = np.concatenate([number, self.numbers.draw(self.leaps * DIRECTION_CHAINS)])
        weights = (self.target(proposals, counts) - self.law.log_density(proposals)).reshape(-1, DIRECTION_CHAINS)
        at, chain = np.zeros(DIRECTION_CHAINS, np.intp), np.arange(DIRECTION_CHAINS)
        for turn in range(1, self.leaps + 1):
            at = np.where(np.log1p(-rng.random(DIRECTION_CHAINS)) < weights[turn] - weights[at, chain], turn, at)
        return proposals.reshape(-1, DIRECTION_CHAINS, theta.shape[1])[at, chain], counts.reshape(-1, DIRECTION_CHAINS)[
            at, chain
        ]


@dataclass(frozen=True, eq=False)
class _Around:
    """Mixture of normals around centres and their negatives, with a share of the prior that bounds weights.

    Args:
        centres: shape (m, k).
        root: of each normal's covariance, lower triangle: one for all, shape (k, k), or multiples of the identity,
            shape (m,).
        deviation: of the prior.
        prior: share of the prior.
    """

    centres: Floats
    root: Floats
    deviation: float
    prior: float

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw from the mixture, shape (size, k)."""
        picked = rng.integers(len(self.centres), size=size)
        steps = rng.standard_normal((size, self.centres.shape[1]))
        steps = self.root[picked, None] * steps if self.root.ndim == 1 else steps @ self.root.T
        near = rng.choice([-1.0, 1.0], size=(size, 1)) * self.centres[picked] + steps
        return np.where(rng.random((size, 1)) < self.prior, self.deviation * rng.standard_normal(near.shape), near)

    def log_density(self, theta: Floats) -> Floats:
        """Compute the log density of directions up to a constant, shape (m,)."""
        size = theta.shape[1]
        centres = np.concatenate([self.centres, -self.centres])
        if self.root.ndim == 1:
            spread = np.tile(self.root, 2)
            distances, log_size = ((theta[:, None] - centres) ** 2).sum(axis=-1) / spread**2, size * np.log(spread)
        else:
            white, white_centres = (np.linalg.solve(self.root, vectors.T).T for vectors in (theta, centres))
            distances = (white**2).sum(axis=1)[:, None] + (white_centres**2).sum(axis=1) - 2 * white @ white_centres.T
            log_size = np.log(np.diagonal(self.root)).sum()
        local = logsumexp(-0.5 * distances - log_size, axis=1) - math.log(len(centres)) + math.log1p(-self.prior)
        broad = -0.5 * (theta**2).sum(axis=1) / self.deviation**2 - size * math.log(self.deviation)
        return np.asarray(np.logaddexp(local, broad + math.log(self.prior)))


def _guide_chains(
    coarse: Target, candidates: Floats, numbers: _Numbers, deviation: float
) -> tuple[_Leaps | _Walk, Floats, Floats]:
    """Choose the generator of proposals, and the starts of the chains.

    Far from all candidates the likelihood is flat: a chain that starts there, where the posterior has almost no mass,
    may not find the peak. Proposals come from the prior and from around the candidates; then from around those that the
    coarse rule picked. If the effective share of the last stage is large enough, chains leap among such proposals, else
    they walk from its picks. The starts are draws among them.
    """
    rng, size = numbers.rng, candidates.shape[1]
    law = _Around(candidates, np.linalg.norm(candidates, axis=1) / 2, deviation, 0.5)
    for turn in range(START_STAGES):
        theta, number = law.draw(START_PROPOSALS, rng), numbers.draw(START_PROPOSALS)
        weights = softmax(coarse(theta, number) - law.log_density(theta))
        picked = rng.choice(START_PROPOSALS, size=DIRECTION_CHAINS, p=weights)
        share = 1 / (START_PROPOSALS * float(weights @ weights))
        if turn == START_STAGES - 1 and share > LEAST_LEAP_SHARE:
            return _Leaps(coarse, law, min(round(1 / share) + 1, MOST_LEAPS), numbers), theta[picked], number[picked]
        centres = rng.choice(START_PROPOSALS, size=START_CENTRES, p=weights)
        spread = (theta * weights[:, None]).T @ theta
        # Silverman's rule for kernels, with a positive variance in every direction.
        width = (4 / ((size + 2) * len(centres))) ** (2 / (size + 4))
        spread += 1e-6 * np.trace(spread) * np.eye(size)
        law = _Around(theta[centres], np.linalg.cholesky(width * spread), deviation, PRIOR_LEAP_SHARE)
    step = math.sqrt(float(weights @ (theta**2).mean(axis=1)))
    walk, here, count = _Walk(coarse, MOVES_PER_COORDINATE * size, numbers, step), theta[picked], number[picked]
    for _ in range(WARM_UP_PROPOSALS - WARM_UP_PROPOSALS // 4):
        here, count, share = walk.step_all(here, count)
        walk = replace(walk, step=walk.step * math.exp(share - WANTED_ACCEPTANCE))
    return walk, here, count


def _add_prior(log_likelihood: Callable[[Floats, Floats], Floats], deviation: float) -> Target:
    """Make the logarithm of the likelihood times the prior of theta."""

    def target(theta: Floats, records: Floats) -> Floats:
        return np.asarray(log_likelihood(theta, records) - 0.5 * np.sum((theta / deviation) ** 2, axis=1))

    return target


def _measure_mixing(kept_draws: Floats, numbers: Floats) -> Mixing:
    """Measure the mixing of the entries of `theta theta'`, which have no sign, and of the number of records."""
    rows, columns = np.triu_indices(kept_draws.shape[-1])
    entries = [kept_draws[..., i] * kept_draws[..., j] for i, j in zip(rows, columns, strict=True)]
    quantities = np.stack([*entries, numbers]).swapaxes(1, 2)

    def name(worst: int) -> str:
        return f"theta_{rows[worst] + 1} theta_{columns[worst] + 1}" if worst < len(rows) else "number of records"

    return measure_mixing(quantities, name, kept_draws.shape[0] + WARM_UP_PROPOSALS)


def _check_weights(weights: npt.ArrayLike) -> Floats:
    """Check draws, and return them as an array."""
    theta = np.asarray(weights, np.float64)
    if theta.ndim != 2 or not theta.size or not np.all(np.isfinite(theta)):
        raise InputError(f"weights need the shape (draws, k) and finite entries, got the shape {theta.shape}")
    return theta


def _check_arguments(records: int, draws: int, prior_deviation: float, count_scale: float | None) -> None:
    """Refuse numbers out of their ranges."""
    positive(prior_deviation=prior_deviation)
    if not draws >= LEAST_DIRECTION_DRAWS:
        raise InputError(
            f"at least {LEAST_DIRECTION_DRAWS} draws are needed to measure the mixing of the chains, got {draws}"
        )
    if count_scale is None and not records >= 0:
        raise InputError(f"a public number of records must be at least 0, got {records}; a noisy one needs its scale")
    if count_scale is not None:
        positive(count_scale=count_scale)


def read_direction(
    release: Release, *, draws: int, rng: np.random.Generator, likelihood: ChoiceLikelihood = "clt"
) -> WeightPosterior:
    """Draw directions given the choice of one.

    Args:
        release: of such a choice.
        draws: number of draws.
        rng: source of the draws.
        likelihood: kind of likelihood of the choice.
    """
    payload = release.payload_as(FactoredChoice)
    factor = DirectionFactor(payload.candidates, payload.parameters["noise_variance"], payload.parameters["tau"])
    records, scale = read_total(release, payload.total)
    with under_way("drawing the posterior"):
        walked = direction_draws(
            Chosen(factor, payload.index, payload.rate),
            records,
            method=likelihood,
            draws=draws,
            rng=rng,
            prior_deviation=normal_of(release).deviation,
            count_scale=scale,
        )
    return WeightPosterior(design_of(release), walked.weights, None, "walk", walked.mixing)


def chosen_direction(release: Release) -> Floats:
    """Return the chosen direction, shape (size,).

    Args:
        release: of such a choice.
    """
    choice = release.payload_as(FactoredChoice)
    return np.asarray(choice.candidates[choice.index])


def direction_components(release: Release, *, draws: int, rng: np.random.Generator) -> ComponentPosterior:
    """Draw covariances given the choice of a direction: `theta theta' + s2 I`; the mean is 0 by its model.

    Args:
        release: of such a choice.
        draws, rng: as for `component_draws`.
    """
    posterior = read_direction(release, draws=draws, rng=rng)
    assert posterior.mixing is not None, "directions are drawn by chains"
    theta, variance = posterior.weights, release.payload_as(FactoredChoice).parameters["noise_variance"]
    covariance = theta[:, :, None] * theta[:, None] + variance * np.eye(theta.shape[1])
    return ComponentPosterior(design_of(release), np.zeros_like(theta), covariance, "directions", posterior.mixing)
