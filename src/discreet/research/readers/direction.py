"""Which directions the records may have, given the one that the factored exponential mechanism chose.

Records are `x ~ N(0, theta theta' + s2 I)`, the prior of theta is `N(0, deviation^2 I)`, and the likelihood of a choice
is one of those of `research/scores/choice_likelihood.py`: the lower bound (5a), the upper bound (5b), or the limit
theorem. The sign of theta has no meaning: theta and -theta are the same law of records.

Expectations over a record are means over fixed public points `x = u_0 theta + s u`, so the likelihood is a smooth
function that never changes between calls. Metropolis steps on a coarse rule with few points make up each proposal,
which is then accepted by the fine rule; the chain is exact for the fine one. The steps are leaps among independent
draws of a mixture that was fitted to the coarse rule, where that is good enough, and a random walk where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from discreet.errors import InputError, require_word
from discreet.posterior.design.weight_posterior import WeightPosterior, read_total
from discreet.posterior.diagnostics import measure_mixing
from discreet.posterior.joint_draws import Mixing
from discreet.posterior.totals import TotalLaw, measured_total_law
from discreet.releases.release import Release
from discreet.research.kinds.factored_choice import FactoredChoice
from discreet.research.kinds.weight_draws import WeightDraws
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
"""Points that stand for a record: for the posterior itself, and for the walks that propose. Means of factors over the
fine ones are off by about 2e-4, as much as those of a million records vary."""
DIRECTION_SCORES = 128
"""Normal scores of the limit theorem, the same at every step; the coarse rule has a quarter of them."""
DIRECTION_CHAINS = 4
START_PROPOSALS, START_CENTRES, START_STAGES = 1024, 256, 4
"""Among which the chains' starts are drawn, how many of them stay centres of others, and how many times."""
LEAST_LEAP_SHARE, MOST_LEAPS, PRIOR_LEAP_SHARE = 0.04, 8, 0.1
"""Share of those that must be effective for leaps; most leaps for each proposal; and the prior's share among them."""
FACTORS_AT_ONCE = 2**17
"""Factors that are in memory at once: as many as a processor keeps near."""
POINTS_AT_ONCE = 128
"""Points whose factors are multiplied at once."""
LEAST_DIRECTION_DRAWS = 8 * DIRECTION_CHAINS
"""Draws: fewer cannot be judged."""
MOVES_PER_COORDINATE = 15
"""Steps on the coarse rule for each proposal: a walk forgets where it started in a time that grows with k."""
WARM_UP_PROPOSALS = 60
"""Proposals that are thrown away. All but the last quarter adapt the step, on the coarse rule alone."""
WANTED_ACCEPTANCE = 0.3
"""Share of steps that are accepted by a random walk that moves well (Roberts and Rosenthal, 2001: 0.23 to 0.44)."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """A choice with `P(z | X) ~ exp(epsilon sum_i f(x_i, z))`.

    Args:
        factor: f, public; its candidates are what was chosen from.
        index: z, the candidate that was chosen.
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
        records: number of records in each draw, shape (draws,): always the same where it is public.
        acceptance: share of proposals that the fine rule accepted; near 1 where the coarse one is as good.
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
        chosen: what was released.
        records: their number; with a `count_scale`, their number with noise, which may be negative.
        method: which likelihood. "lower" is the paper's; "clt" is the nearest where `n epsilon^2 Var(f)` is large.
        draws: at least 32.
        rng: source of randomness.
        prior_deviation: of each coordinate of theta, unit: that of the records.
        count_scale: scale of the discrete Laplace noise of `records`, in records; None where the number is public. The
            true number is then drawn, too: log(1 + n) is flat a priori.

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
    kept, numbers, accepted = np.empty((rounds, DIRECTION_CHAINS, size)), np.empty((rounds, DIRECTION_CHAINS)), 0.0
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
            kept[turn], numbers[turn] = theta, number
            accepted += float(moves.mean()) / rounds
    # The last draws of a posterior are its latest.
    weights = kept.reshape(-1, size)[rounds * DIRECTION_CHAINS - draws :]
    weights = weights * np.where(weights @ mean_axis(weights) < 0, -1, 1)[:, None]
    return DirectionDraws(
        weights, numbers.ravel()[rounds * DIRECTION_CHAINS - draws :], accepted, _measure_mixing(kept, numbers)
    )


def direction_log_likelihood(
    chosen: Chosen, *, method: ChoiceLikelihood, points: int = FINE_POINTS, scores: int = DIRECTION_SCORES
) -> Callable[[Floats, Floats], Floats]:
    """The logarithm of `p(z | theta)` as a function of theta and n, by one of three methods.

    Args:
        chosen: what was released.
        method: as for `direction_draws`.
        points: that stand for a record, a power of two.
        scores: normal scores of the limit theorem, a power of two.

    Returns:
        A function of directions, shape (m, k), and numbers of records, shape (m,), to shape (m,).

    Raises:
        InputError: an index of no candidate, an unknown method, or points that are no power of two.
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
    """The limit theorem's likelihood, as `clt_log_marginal` has it of `factor.log_factors` but for their rounding.

    A point x = u theta + e meets candidate z in `u theta'z + e'z`, of which the second part is the same at every step.
    Candidates come before points, so that a point's largest and smallest factor are found side by side.
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
        """Log-likelihoods of a few directions, shape (m, k); shape (m,)."""
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
        # Piece by piece: products as small as these stay on one processor, and two would cost twice for the same time.
        piece = min(POINTS_AT_ONCE, phi.shape[-1])
        parts = phi.reshape(*phi.shape[:2], -1, piece).swapaxes(1, 2)
        covariance = (parts @ np.swapaxes(parts, 2, 3)).sum(axis=1) / phi.shape[-1] - mean[..., None] * mean[:, None]
        law = normal_log_law(self._epsilon * mean, self._epsilon**2 * covariance, records, self._scores)
        return law[:, self._index]


def mean_axis(weights: npt.ArrayLike) -> Floats:
    """The axis along which draws lie: the leading eigenvector of `E[theta theta']`.

    Args:
        weights: shape (draws, k).

    Returns:
        A unit vector, shape (k,); its largest entry is positive.

    Raises:
        InputError: weights of another shape, or entries that are no numbers.

    Example:
        >>> mean_axis([[3.0, 0.0], [-1.0, 0.0]]).tolist()
        [1.0, 0.0]
    """
    theta = _check_weights(weights)
    axis = np.linalg.eigh(theta.T @ theta)[1][:, -1]
    return np.asarray(axis * (1 if axis[np.argmax(np.abs(axis))] > 0 else -1))


def angles(weights: npt.ArrayLike, axis: npt.ArrayLike) -> Floats:
    """Angles between draws and an axis; the share of them below an angle is the posterior mass within it.

    Args:
        weights: shape (draws, k), none of them 0.
        axis: shape (k,), of any length but 0; its sign has no meaning.

    Returns:
        Shape (draws,), radians, from 0 to pi / 2.

    Raises:
        InputError: shapes that do not fit, or entries that are no numbers.

    Example:
        >>> angles([[1.0, 1.0], [0.0, -2.0]], [0.0, 3.0]).round(3).tolist()
        [0.785, 0.0]
    """
    theta, along = _check_weights(weights), np.asarray(axis, np.float64)
    if along.shape != theta.shape[1:] or not 0 < np.linalg.norm(along) < np.inf:
        raise InputError(f"an axis needs {theta.shape[1]} finite coordinates that are not all 0")
    unit = along / np.linalg.norm(along)
    projection = theta @ unit
    # The tangent keeps its digits near 0, where the cosine has none.
    across = np.linalg.norm(theta - projection[:, None] * unit, axis=1)
    return np.asarray(np.arctan2(across, np.abs(projection)))


# -------------------------------------------------------------------------------------------------------------- details


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numbers of records given what is known of them.

    Args:
        records: their number, or what noise made of it.
        law: of their number, given what noise made of it; None where there is none.
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
    """Random-walk Metropolis steps that leave a target's law as it is and can be reversed.

    Args:
        target: the law.
        moves: steps in one go.
        numbers: of records, proposed by their own law, which therefore cancels.
        step: length of a step.
    """

    target: Target
    moves: int
    numbers: _Numbers
    step: float

    def go(self, theta: Floats, number: Floats) -> tuple[Floats, Floats]:
        """Directions and numbers of records after all steps."""
        return self.stepped(theta, number)[:2]

    def stepped(self, theta: Floats, number: Floats) -> tuple[Floats, Floats, float]:
        """Directions and numbers of records after all steps, and the share of steps that were accepted."""
        here, accepted, rng = self.target(theta, number), 0.0, self.numbers.rng
        for _ in range(self.moves):
            # Steps of many sizes: the posterior of a small epsilon is wide, with narrow parts.
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
    """Metropolis steps to independent draws of a law that is near the target: they forget where they started at once.

    Args:
        target: the law that they leave as it is.
        law: of the proposals.
        leaps: steps in one go.
        numbers: of records, proposed by their own law, which therefore cancels.
    """

    target: Target
    law: _Around
    leaps: int
    numbers: _Numbers

    def go(self, theta: Floats, number: Floats) -> tuple[Floats, Floats]:
        """Directions and numbers of records after all steps."""
        rng = self.numbers.rng
        every = np.concatenate([theta, self.law.draw(self.leaps * DIRECTION_CHAINS, rng)])
        counts = np.concatenate([number, self.numbers.draw(self.leaps * DIRECTION_CHAINS)])
        weights = (self.target(every, counts) - self.law.log_density(every)).reshape(-1, DIRECTION_CHAINS)
        at, chain = np.zeros(DIRECTION_CHAINS, np.intp), np.arange(DIRECTION_CHAINS)
        for turn in range(1, self.leaps + 1):
            at = np.where(np.log1p(-rng.random(DIRECTION_CHAINS)) < weights[turn] - weights[at, chain], turn, at)
        return every.reshape(-1, DIRECTION_CHAINS, theta.shape[1])[at, chain], counts.reshape(-1, DIRECTION_CHAINS)[
            at, chain
        ]


@dataclass(frozen=True, eq=False)
class _Around:
    """A mixture of normals around centres and their negatives, and a share of the prior that keeps weights bounded.

    Args:
        centres: shape (m, k).
        root: of each normal's covariance, lower triangle: one for all, shape (k, k), or multiples of the identity,
            shape (m,).
        deviation: of the prior.
        prior: share of it.
    """

    centres: Floats
    root: Floats
    deviation: float
    prior: float

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw from the mixture, shape (size, k)."""
        which = rng.integers(len(self.centres), size=size)
        steps = rng.standard_normal((size, self.centres.shape[1]))
        steps = self.root[which, None] * steps if self.root.ndim == 1 else steps @ self.root.T
        near = rng.choice([-1.0, 1.0], size=(size, 1)) * self.centres[which] + steps
        return np.where(rng.random((size, 1)) < self.prior, self.deviation * rng.standard_normal(near.shape), near)

    def log_density(self, theta: Floats) -> Floats:
        """Log density of directions, shape (m,), but for a constant."""
        size = theta.shape[1]
        both = np.concatenate([self.centres, -self.centres])
        if self.root.ndim == 1:
            spread = np.tile(self.root, 2)
            apart, log_size = ((theta[:, None] - both) ** 2).sum(axis=-1) / spread**2, size * np.log(spread)
        else:
            white, places = (np.linalg.solve(self.root, vectors.T).T for vectors in (theta, both))
            apart = (white**2).sum(axis=1)[:, None] + (places**2).sum(axis=1) - 2 * white @ places.T
            log_size = np.log(np.diagonal(self.root)).sum()
        local = logsumexp(-0.5 * apart - log_size, axis=1) - math.log(len(both)) + math.log1p(-self.prior)
        broad = -0.5 * (theta**2).sum(axis=1) / self.deviation**2 - size * math.log(self.deviation)
        return np.asarray(np.logaddexp(local, broad + math.log(self.prior)))


def _guide_chains(
    coarse: Target, candidates: Floats, numbers: _Numbers, deviation: float
) -> tuple[_Leaps | _Walk, Floats, Floats]:
    """Choose what makes up proposals, and where chains start.

    Far from all candidates every one of them is as likely as the others: a chain that starts on that plain, where the
    posterior has next to nothing, may not find its way to the peak. Proposals come from the prior and from around the
    candidates; then from around those of them that the coarse rule kept. Where the last of them are worth
    something the chains leap among such proposals, else they walk from where those ended. The starts are draws among
    them.
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
        # Silverman's rule for kernels; a direction in which nothing is left keeps a little.
        width = (4 / ((size + 2) * len(centres))) ** (2 / (size + 4))
        spread += 1e-6 * np.trace(spread) * np.eye(size)
        law = _Around(theta[centres], np.linalg.cholesky(width * spread), deviation, PRIOR_LEAP_SHARE)
    step = math.sqrt(float(weights @ (theta**2).mean(axis=1)))
    walk, here, count = _Walk(coarse, MOVES_PER_COORDINATE * size, numbers, step), theta[picked], number[picked]
    for _ in range(WARM_UP_PROPOSALS - WARM_UP_PROPOSALS // 4):
        here, count, share = walk.stepped(here, count)
        walk = replace(walk, step=walk.step * math.exp(share - WANTED_ACCEPTANCE))
    return walk, here, count


def _add_prior(log_likelihood: Callable[[Floats, Floats], Floats], deviation: float) -> Target:
    """Logarithm of the likelihood times the prior of theta, as a function."""

    def target(theta: Floats, records: Floats) -> Floats:
        return np.asarray(log_likelihood(theta, records) - 0.5 * np.sum((theta / deviation) ** 2, axis=1))

    return target


def _measure_mixing(kept: Floats, numbers: Floats) -> Mixing:
    """Judge the mixing of the entries of `theta theta'`, which have no sign, and of the number of records."""
    rows, columns = np.triu_indices(kept.shape[-1])
    entries = [kept[..., i] * kept[..., j] for i, j in zip(rows, columns, strict=True)]
    quantities = np.stack([*entries, numbers]).swapaxes(1, 2)

    def name(worst: int) -> str:
        return f"theta_{rows[worst] + 1} theta_{columns[worst] + 1}" if worst < len(rows) else "number of records"

    return measure_mixing(quantities, name, kept.shape[0] + WARM_UP_PROPOSALS)


def _check_weights(weights: npt.ArrayLike) -> Floats:
    """Draws, checked."""
    theta = np.asarray(weights, np.float64)
    if theta.ndim != 2 or not theta.size or not np.all(np.isfinite(theta)):
        raise InputError(f"weights need the shape (draws, k) and finite entries, got the shape {theta.shape}")
    return theta


def _check_arguments(records: int, draws: int, prior_deviation: float, count_scale: float | None) -> None:
    """Refuse numbers that cannot be."""
    positive(prior_deviation=prior_deviation)
    if not draws >= LEAST_DIRECTION_DRAWS:
        raise InputError(
            f"at least {LEAST_DIRECTION_DRAWS} draws are needed to tell whether the chains have mixed, got {draws}"
        )
    if count_scale is None and not records >= 0:
        raise InputError(f"a public number of records is at least 0, got {records}; a noisy one needs its scale")
    if count_scale is not None:
        positive(count_scale=count_scale)


def read_direction(
    release: Release, *, draws: int, rng: np.random.Generator, likelihood: ChoiceLikelihood = "clt"
) -> WeightPosterior:
    """Draw directions given the choice of one.

    Args:
        release: of such a choice.
        draws: how many.
        rng: source of the draws.
        likelihood: which one of the choice.
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
            prior_deviation=release.normal.deviation,
            count_scale=scale,
        )
    return WeightPosterior(release.design, walked.weights, None, "walk", walked.mixing)


def chosen_direction(release: Release) -> Floats:
    """The direction that was chosen, shape (size,).

    Args:
        release: of such a choice.
    """
    choice = release.payload_as(FactoredChoice)
    return np.asarray(choice.candidates[choice.index])


def direction_components(release: Release, *, draws: int, rng: np.random.Generator) -> ComponentPosterior:
    """Draw covariances given the choice of a direction: `theta theta' + s2 I`; the mean is 0 by its model.

    Args:
        release: of such a choice.
        draws, rng: as of `component_draws`.
    """
    found = read_direction(release, draws=draws, rng=rng)
    assert found.mixing is not None, "directions are drawn by chains"
    theta, variance = found.weights, release.payload_as(FactoredChoice).parameters["noise_variance"]
    covariance = theta[:, :, None] * theta[:, None] + variance * np.eye(theta.shape[1])
    return ComponentPosterior(release.design, np.zeros_like(theta), covariance, "directions", found.mixing)


def take_weights(release: Release, *, draws: int, rng: np.random.Generator) -> WeightPosterior:
    """Take released draws of weights as they are, however many are asked for.

    Args:
        release: of them.
        draws, rng: of no use here.
    """
    payload = release.payload_as(WeightDraws)
    variance = np.full(len(payload.weights), payload.variance)
    return WeightPosterior(release.design, payload.weights, variance, "draws", None)


def average_weights(release: Release) -> Floats:
    """Means of released draws of weights, shape (size,).

    Args:
        release: of them.
    """
    return np.asarray(release.payload_as(WeightDraws).weights.mean(axis=0))
