"""Which directions the records may have, given the one that the factored exponential mechanism chose.

Records are `x ~ N(0, theta theta' + s2 I)`, the prior of theta is `N(0, deviation^2 I)`, and the likelihood of a choice
is one of those of `theory/choice_likelihood.py`: the lower bound (5a), the upper bound (5b), or the limit theorem. The
sign of theta has no meaning: theta and -theta are the same law of records.

Expectations over a record are means over fixed public points `x = u_0 theta + s u`, so the likelihood is a smooth
function that never changes between calls. Metropolis steps on a coarse rule with few points make up each proposal,
which is then accepted by the fine rule; the chain is exact for the fine one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from discreet.errors import InputError
from discreet.posterior.diagnostics import effective_size, r_hat
from discreet.posterior.draws import Mixing
from discreet.posterior.totals import TotalLaw, told_law
from discreet.theory.checks import positive
from discreet.theory.choice_likelihood import clt_log_marginal, lower_log_marginal, upper_log_marginal
from discreet.theory.factors import DirectionFactor, standard_normals

__all__ = ["Chosen", "DirectionDraws", "Method", "angles", "direction_draws", "direction_log_likelihood", "mean_axis"]

Floats = npt.NDArray[np.float64]
Method = Literal["lower", "upper", "clt"]
Target = Callable[[Floats, Floats], Floats]
"""Logarithm of prior times likelihood, shape (chains,), of directions (chains, k) and numbers of records (chains,)."""

FINE, COARSE = 4096, 128
"""Points that stand for a record: for the posterior itself, and for the walks that propose. Means of factors over the
fine ones are off by about 2e-4, as much as those of a million records vary."""
SCORES = 128
"""Normal scores of the limit theorem, the same at every step."""
CHAINS = 4
PROPOSALS, BLOCK = 2048, 64
"""Among which the chains' starts are drawn, and how many of them are looked at at once."""
FEWEST = 8 * CHAINS
"""Draws: fewer cannot be judged."""
MOVES_PER_COORDINATE = 15
"""Steps on the coarse rule for each proposal: a walk forgets where it started in a time that grows with k."""
WARM_UP = 60
"""Proposals that are thrown away. All but the last quarter adapt the step, on the coarse rule alone."""
WANTED = 0.3
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
    method: Method,
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
    _check(records, draws, prior_deviation, count_scale)
    fine, coarse = (
        _target(direction_log_likelihood(chosen, method=method, points=points), prior_deviation)
        for points in (FINE, COARSE)
    )
    candidates = chosen.factor.candidates
    size = candidates.shape[1]
    law = None if count_scale is None else told_law([(records, count_scale)])
    walk = _Walk(coarse, MOVES_PER_COORDINATE * size, records, law, rng)
    theta, number, step = _starts(walk, candidates, prior_deviation)
    for _ in range(WARM_UP - WARM_UP // 4):
        theta, number, share = walk.go(theta, number, step)
        step *= math.exp(share - WANTED)
    rounds = -(-draws // CHAINS)
    kept, numbers, accepted = np.empty((rounds, CHAINS, size)), np.empty((rounds, CHAINS)), 0.0
    excess = fine(theta, number) - coarse(theta, number)
    for turn in range(-(WARM_UP // 4), rounds):
        proposal, proposed, _ = walk.go(theta, number, step)
        gain = fine(proposal, proposed) - coarse(proposal, proposed)
        moves = np.log1p(-rng.random(CHAINS)) < gain - excess
        theta, number = np.where(moves[:, None], proposal, theta), np.where(moves, proposed, number)
        excess = np.where(moves, gain, excess)
        if turn >= 0:
            kept[turn], numbers[turn] = theta, number
            accepted += float(moves.mean()) / rounds
    # The last draws of a posterior are its latest.
    weights = kept.reshape(-1, size)[rounds * CHAINS - draws :]
    weights = weights * np.where(weights @ mean_axis(weights) < 0, -1, 1)[:, None]
    return DirectionDraws(weights, numbers.ravel()[rounds * CHAINS - draws :], accepted, _mixing(kept, numbers))


def direction_log_likelihood(
    chosen: Chosen, *, method: Method, points: int = FINE
) -> Callable[[Floats, Floats], Floats]:
    """The logarithm of `p(z | theta)` as a function of theta and n, by one of three methods.

    Args:
        chosen: what was released.
        method: as for `direction_draws`.
        points: that stand for a record, a power of two.

    Returns:
        A function of directions, shape (m, k), and numbers of records, shape (m,), to shape (m,).

    Raises:
        InputError: an index of no candidate, an unknown method, or points that are no power of two.
    """
    factor, index, epsilon = chosen.factor, chosen.index, chosen.epsilon
    if not 0 <= index < len(factor.candidates):
        raise InputError(f"the choice must be one of {len(factor.candidates)} candidates, counted from 0; got {index}")
    if method not in get_args(Method):
        raise InputError(f"the method must be one of {', '.join(get_args(Method))}; got {method!r}")
    positive(epsilon=epsilon)
    size = factor.candidates.shape[1]
    normals = standard_normals(points, size + 1)
    noise = math.sqrt(factor.noise_variance) * normals[:, 1:]
    chances = np.full(points, 1 / points)
    scores = standard_normals(SCORES, len(factor.candidates))

    def log_likelihood(theta: Floats, records: Floats) -> Floats:
        rows = normals[:, :1] * theta[:, None, :] + noise
        log_phi = (epsilon * factor.log_factors(rows.reshape(-1, size))).reshape(len(theta), points, -1)
        match method:
            case "lower":
                return lower_log_marginal(chances, log_phi, records, [index])[..., 0]
            case "upper":
                return upper_log_marginal(chances, log_phi, records, [index])[..., 0]
            case "clt":
                return clt_log_marginal(chances, log_phi, records, [index], normals=scores)[..., 0]

    return log_likelihood


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
    theta = _weights(weights)
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
    theta, along = _weights(weights), np.asarray(axis, np.float64)
    if along.shape != theta.shape[1:] or not 0 < np.linalg.norm(along) < np.inf:
        raise InputError(f"an axis needs {theta.shape[1]} finite coordinates that are not all 0")
    unit = along / np.linalg.norm(along)
    projection = theta @ unit
    # The tangent keeps its digits near 0, where the cosine has none.
    across = np.linalg.norm(theta - projection[:, None] * unit, axis=1)
    return np.asarray(np.arctan2(across, np.abs(projection)))


# -------------------------------------------------------------------------------------------------------------- details


@dataclass(frozen=True, eq=False)
class _Walk:
    """Random-walk Metropolis steps that leave a target's law as it is and can be reversed.

    Args:
        target: the law.
        moves: steps in one go.
        records: number of records, or what noise made of it.
        law: of the number of records, given what noise made of it; None where there is none.
        rng: source of randomness.
    """

    target: Target
    moves: int
    records: int
    law: TotalLaw | None
    rng: np.random.Generator

    def go(self, theta: Floats, number: Floats, step: float) -> tuple[Floats, Floats, float]:
        """Directions and numbers of records after all steps, and the share of steps that were accepted."""
        here, accepted = self.target(theta, number), 0.0
        for _ in range(self.moves):
            # Steps of many sizes: the posterior of a small epsilon is wide, with narrow parts.
            length = step * np.exp(self.rng.standard_normal((CHAINS, 1)))
            proposal = theta + length * self.rng.standard_normal(theta.shape)
            # Numbers of records are proposed by their own law, which therefore cancels.
            proposed = self.numbers()
            there = self.target(proposal, proposed)
            moves = np.log1p(-self.rng.random(CHAINS)) < there - here
            theta, number = np.where(moves[:, None], proposal, theta), np.where(moves, proposed, number)
            here = np.where(moves, there, here)
            accepted += float(moves.mean()) / self.moves
        return theta, number, accepted

    def numbers(self) -> Floats:
        """Numbers of records given what is known of them, one for each chain."""
        if self.law is None:
            return np.full(CHAINS, float(self.records))
        return self.law.sample(CHAINS, self.rng).astype(np.float64)


def _starts(walk: _Walk, candidates: Floats, deviation: float) -> tuple[Floats, Floats, float]:
    """Where chains start, and how wide their first steps are: by weighted resampling on the coarse rule.

    Far from all candidates every one of them is as likely as the others: a chain that starts on that plain, where the
    posterior has next to nothing, may not find its way to the peak. Proposals come from the prior and from around the
    candidates, and the chains' starts are independent draws among them.
    """
    rng, size = walk.rng, candidates.shape[1]
    widths = np.linalg.norm(candidates, axis=1) / 2
    around = rng.integers(len(candidates), size=PROPOSALS // 2)
    signs = rng.choice([-1.0, 1.0], size=(PROPOSALS // 2, 1))
    near = signs * candidates[around] + widths[around, None] * rng.standard_normal((PROPOSALS // 2, size))
    theta = np.concatenate([near, deviation * rng.standard_normal((PROPOSALS - PROPOSALS // 2, size))])
    number = np.concatenate([walk.numbers() for _ in range(PROPOSALS // CHAINS)])
    apart = ((theta[:, None] - np.concatenate([candidates, -candidates])) ** 2).sum(axis=-1)
    spreads = np.tile(widths, 2)
    local = logsumexp(-0.5 * apart / spreads**2 - size * np.log(spreads), axis=1) - math.log(len(spreads))
    broad = -0.5 * (theta**2).sum(axis=1) / deviation**2 - size * math.log(deviation)
    blocks = [walk.target(theta[at : at + BLOCK], number[at : at + BLOCK]) for at in range(0, PROPOSALS, BLOCK)]
    weights = softmax(np.concatenate(blocks) - np.logaddexp(local, broad))
    picked = rng.choice(PROPOSALS, size=CHAINS, p=weights)
    spread = math.sqrt(float(weights @ (theta**2).mean(axis=1)))
    return theta[picked], number[picked], spread


def _target(log_likelihood: Callable[[Floats, Floats], Floats], deviation: float) -> Target:
    """With the prior of theta."""

    def target(theta: Floats, records: Floats) -> Floats:
        return np.asarray(log_likelihood(theta, records) - 0.5 * np.sum((theta / deviation) ** 2, axis=1))

    return target


def _mixing(kept: Floats, numbers: Floats) -> Mixing:
    """Of the entries of `theta theta'`, which have no sign, and of the number of records."""
    rows, columns = np.triu_indices(kept.shape[-1])
    entries = [kept[..., i] * kept[..., j] for i, j in zip(rows, columns, strict=True)]
    quantities = np.stack([*entries, numbers]).swapaxes(1, 2)
    sizes, ratios = effective_size(quantities), r_hat(quantities)
    worst = int(np.argmin(sizes))
    name = f"theta_{rows[worst] + 1} theta_{columns[worst] + 1}" if worst < len(rows) else "number of records"
    proposals = kept.shape[0] + WARM_UP
    return Mixing(CHAINS, proposals, float(sizes[worst]), name, float(ratios.max()))


def _weights(weights: npt.ArrayLike) -> Floats:
    """Draws, checked."""
    theta = np.asarray(weights, np.float64)
    if theta.ndim != 2 or not theta.size or not np.all(np.isfinite(theta)):
        raise InputError(f"weights need the shape (draws, k) and finite entries, got the shape {theta.shape}")
    return theta


def _check(records: int, draws: int, prior_deviation: float, count_scale: float | None) -> None:
    """Refuse numbers that cannot be."""
    positive(prior_deviation=prior_deviation)
    if not draws >= FEWEST:
        raise InputError(f"at least {FEWEST} draws are needed to tell whether the chains have mixed, got {draws}")
    if count_scale is None and not records >= 0:
        raise InputError(f"a public number of records is at least 0, got {records}; a noisy one needs its scale")
    if count_scale is not None:
        positive(count_scale=count_scale)
