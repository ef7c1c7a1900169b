"""Scores of a classifier or regression on private records, read from their release.

A release of a score contains either the counts of right and wrong predictions (a table over a network of one variable)
or two sums over absolute errors (moments over a design of one feature). This module defines both, and computes the
posterior of the score in the population from which the records are drawn. It never sees a record.

Accuracy: the number of right predictions is Binomial(n, p) with p ~ Uniform(0, 1), and both counts have discrete
Laplace noise. The posterior of p is that of `noise_aware`, which is exact here.

Mean absolute error: the errors |e| in [0, w] are scaled to u in [-1, 1]. The release has the noisy values of sum u, of
sum 2 u^2 - 1 and, if it is private, of n. The noise is cube noise: uniform on the surface of a cube of random size. A
priori all numbers of records are equally likely; the records' mean m of u has (1 + m) / 2 ~ Beta(1/2, 1/2); given m,
the variance is uniform between 0 and 1 - m^2. Proposals are drawn from this prior inside a cube around the released
values, whose size is drawn from the noise's law. Given the records' mean, the population mean is this mean plus a t
variate times its standard error (central limit theorem; if rare errors are far larger than the rest, this needs many
records).
Source of the noise's law: Hardt and Talwar (2010).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from discreet.designs.design import GRID_STEPS, Design, design_of
from discreet.designs.kinds.noisy_sums import NoisyMoments
from discreet.display.renderers import IntervalTable
from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.posterior.methods import noise_aware
from discreet.posterior.protocol import require_level
from discreet.queries.credible import credible_interval
from discreet.releases.release import Release
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.randomness import Seed, as_generator
from discreet.util.tabular import Block, Result

Metric = Literal["accuracy", "mean absolute error"]

STATES = ("wrong", "right")
"""States of "prediction", the only variable of an accuracy's network."""
ERROR_FEATURE = "absolute error"
"""Name of the only feature of a mean absolute error's design."""
BATCH_PROPOSALS, MOST_PROPOSALS = 2**15, 2**21
"""Number of proposals in a batch, and in all batches together, which take about a second."""
LEAST_EFFECTIVE_PROPOSALS = 1000.0
"""Effective sample size at which no more proposals are drawn; if it is not reached, the release is nearly
uninformative and the prior is used."""


@dataclass(frozen=True, eq=False)
class Score(Result):
    """Accuracy or error of predictions on new records from the distribution of the scored ones.

    Args:
        metric: "accuracy", the probability that a prediction is right; or "mean absolute error", the expected distance
            of a prediction from the target in the target's unit, where distances beyond the width of the target's
            bounds count as that width.
        mean: posterior mean of the score.
        lower, upper: ends of the score's interval, which includes sampling error and privacy noise.
        level: posterior probability of the interval.
        release: release that the score was read from; if it is saved, `read_score` restores the score.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> from discreet.designs.readers.score import accuracy_network
        >>> right = dc.tools.count_codes(accuracy_network(), {"prediction": [0] * 20 + [1] * 80})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
        >>> prior = dc.Dirichlet.uniform(accuracy_network(), 1.0)
        >>> released = dc.simulate(dc.laplace(), right, prior, promise, rng=1)
        >>> dc.designs.Score("accuracy", 0.8, 0.7, 0.9, 0.95, released)
        Score(metric='accuracy', mean=0.8, lower=0.7, upper=0.9, level=0.95)
    """

    metric: Metric
    mean: float
    lower: float
    upper: float
    level: float
    release: Release = field(repr=False)

    def tidy(self) -> list[dict[str, Any]]:
        """List one row of "metric", "mean", "lower", "upper" and "level"."""
        return [{name: getattr(self, name) for name in ("metric", "mean", "lower", "upper", "level")}]

    def content(self) -> Iterator[str | Block]:
        """Yield the score with its interval as a table, an empty line, and the parts that its release shows."""
        yield IntervalTable(self.tidy())
        yield ""
        yield from self.release.content()


def accuracy_network() -> Network:
    """Return the public network of an accuracy: one variable, "prediction", with the states "wrong" and "right"."""
    return Network((Variable("prediction", STATES),), {"prediction": ()})


def error_design(width: float) -> Design:
    """Return the public design of a mean absolute error: one feature between 0 and the width of the target's bounds.

    Args:
        width: width of the bounds, in the target's unit.

    Returns:
        A design without target, with one feature and a constant; its moments are the two sums.

    Raises:
        InputError: a width that is not finite and greater than 0.
    """
    return Design((Variable(ERROR_FEATURE, bounds=(0.0, width)),))


def read_score(release: Release, *, level: float = DEFAULT_LEVEL, draws: int = 1000, rng: Seed = None) -> Score:
    """Compute the posterior of a score from its release alone.

    An accuracy is read by `noise_aware` with the release's own prior; a mean absolute error by importance sampling, or
    from its prior if the release is nearly uninformative (`LEAST_EFFECTIVE_PROPOSALS`). Intervals are by
    `credible_interval`; that of an error is wider by half a step of the release's grid at each end, within 0 and the
    width of the target's bounds.

    Args:
        release: result of `release_score`, such as one that was loaded from a file.
        level: posterior probability of the interval, between 0 and 1.
        draws: number of posterior draws; 1,000 give the ends of a 95 % interval to about 0.1 standard deviations.
        rng: source of randomness; nothing here is private. None gives new numbers in each call.

    Returns:
        The score, with the posterior mean; an error is in the target's unit.

    Raises:
        InputError: a release of another kind, fewer than two draws, or a level outside (0, 1) or too high for that
            number of draws.

    Guarantee:
        No budget is spent; only the release is read.

    Example:
        >>> import discreet as dc
        >>> from discreet.designs.readers.score import accuracy_network
        >>> right = dc.tools.count_codes(accuracy_network(), {"prediction": [0] * 20 + [1] * 80})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
        >>> prior = dc.Dirichlet.uniform(accuracy_network(), 1.0)
        >>> released = dc.simulate(dc.laplace(), right, prior, promise, rng=1)
        >>> found = dc.designs.read_score(released, rng=2)
        >>> found.metric, 0.5 < found.lower < found.mean < found.upper < 1
        ('accuracy', True)
    """
    rng = as_generator(rng)
    require_level(level, draws)
    if not release.networks and design_of(release).target is None:
        design = design_of(release)
        bounds = design.features[0].bounds
        if bounds is not None and design == error_design(bounds[1]):
            return _read_error(release, release.payload_as(NoisyMoments), bounds[1], level, draws, rng)
    elif release.networks == (accuracy_network(),):
        posterior = noise_aware(release, draws=draws, rng=rng, prior=release.dirichlet, method="pooled")
        right = posterior.probabilities["prediction"][STATES.index("right")]
        lower, upper = credible_interval(right, level)
        return Score("accuracy", float(right.mean()), float(lower), float(upper), level, release)
    raise InputError("this release is not of a score; release_score makes those")


def _read_error(
    release: Release, payload: NoisyMoments, width: float, level: float, draws: int, rng: np.random.Generator
) -> Score:
    """Compute the score of a mean absolute error; rounding to the grid widens its interval by half a step at each end.

    The share of the width is (1 + u) / 2 for a mean u of `_draw_means`; the ends stay within 0 and the width.

    Args:
        release: release of the score.
        payload: its noisy sums.
        width: width of the target's bounds, in the target's unit.
        level: posterior probability of the interval.
        draws: number of posterior draws.
        rng: source of randomness.

    Returns:
        The score, in the target's unit.
    """
    shares = (1 + _draw_means(payload, release.records, draws, rng)) / 2
    lower, upper = credible_interval(shares, level)
    half_step = 1 / (4 * GRID_STEPS)
    ends = (width * max(float(lower) - half_step, 0.0), width * min(float(upper) + half_step, 1.0))
    return Score("mean absolute error", width * float(shares.mean()), *ends, level, release)


def _draw_means(payload: NoisyMoments, records: int | None, draws: int, rng: np.random.Generator) -> Floats:
    """Draw the population mean of u by importance sampling.

    Proposals are drawn in batches until their effective sample size is LEAST_EFFECTIVE_PROPOSALS; draws are picked from
    them with replacement, in proportion to their weights.

    Args:
        payload: published sums with their noise.
        records: number of records if it is public, else None.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        Shape (draws,), in [-1, 1]. All draws are from the prior `(1 + u) / 2 ~ Beta(1/2, 1/2)` if MOST_PROPOSALS
        proposals have too small an effective sample size, as where no mean fits the noisy sums, and if a public number
        of records is below 2.
    """
    means, weights = np.empty(0), np.empty(0)
    # Fewer than two records say nothing of how errors vary, so the standard error of their mean has no bound.
    for _ in range(MOST_PROPOSALS // BATCH_PROPOSALS if records is None or records > 1 else 0):
        mean, weight = _propose_means(payload, records, rng)
        means, weights = np.concatenate([means, mean]), np.concatenate([weights, weight])
        if weights.any() and weights.sum() ** 2 >= LEAST_EFFECTIVE_PROPOSALS * (weights**2).sum():
            return rng.choice(means, draws, p=weights / weights.sum())
    # The prior (1 + m) / 2 ~ Beta(1/2, 1/2), the arcsine law, is that of the cosine of a uniform angle.
    return np.cos(rng.uniform(0, np.pi, draws))


def _propose_means(payload: NoisyMoments, records: int | None, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Propose one batch of population means, and keep those possible under the noise, with importance weights.

    The radius of the noise is drawn first. Every sum lies within it of its published value; within these limits the
    number of records, at least 2, their mean and their mean square are drawn from their priors, and
    the weight is the prior probability of the limits. No sum exceeds the number of records, so the radius is at least
    the distance of the published values from such sums and is drawn from there up: the excess x over it is `Gamma(d +
    1)` times the noise scale, with d the number of published values, and the weight has the factor `x^-d`. The
    population mean is the records' mean plus a t variate times its standard error; proposals of weight 0 or with a mean
    outside [-1, 1] are dropped.

    Args:
        payload: published sums with their noise.
        records: number of records if it is public, at least 2; else None.
        rng: source of randomness.

    Returns:
        Means in [-1, 1] and their weights, which are positive and not normalised, shape (possible proposals,) each: at
        most BATCH_PROPOSALS, and none if every proposal is outside.
    """
    dimension, largest = len(payload.values), float(np.abs(payload.sums[-2:]).max())
    excess = rng.gamma(dimension + 1, payload.sums_scale, BATCH_PROPOSALS)
    weight = excess**-dimension
    if records is None:
        published = float(payload.sums[0])
        radius = excess + max((largest - published) / 2, 2 - published, 0.0)
        least = np.maximum(max(published, largest) - radius, 2)
        most = np.maximum(published + radius, least)
        number = rng.uniform(least, most)
        weight = weight * (most - least)
    else:
        radius = excess + max(largest - records, 0.0)
        number = np.full(BATCH_PROPOSALS, float(records))
    turns = np.arccos(_bound_means(payload.sums[-1], radius, number))
    turn = rng.uniform(turns[1], turns[0])
    mean = np.cos(turn)
    squares = np.maximum((_bound_means(payload.sums[-2], radius, number) + 1) / 2, mean**2)
    variance = rng.uniform(squares[0], squares[1]) - mean**2
    room = np.maximum(1 - mean**2, np.finfo(float).tiny)  # for the variance: none where all errors are the greatest
    weight = weight * (turns[0] - turns[1]) * (squares[1] - squares[0]) / room
    expected = mean + np.sqrt(variance / (number - 1)) * rng.standard_t(number - 1)
    possible = (weight > 0) & (np.abs(expected) <= 1)
    return expected[possible], weight[possible]


def _bound_means(published: float, radius: Floats, number: Floats) -> Floats:
    """Bound the mean of numbers in [-1, 1] given their published sum and the noise radius, shape (2, proposals).

    The ends are `(published - radius) / number` and `(published + radius) / number`, clipped to [-1, 1].
    """
    return np.clip(np.stack([published - radius, published + radius]) / number, -1, 1)
