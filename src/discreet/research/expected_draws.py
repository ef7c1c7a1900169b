"""Plan of a family or a score: expected errors of draws, on simulated records before any budget is spent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism, simulate
from discreet.model.dirichlet import Dirichlet
from discreet.privacy.guarantee import Guarantee
from discreet.records.counts import count_codes
from discreet.research.kinds.scored_choice import ScoredChoice
from discreet.research.scores.score_tables import SCORE_STEPS, ScoreTable
from discreet.util.randomness import Seed, as_generator
from discreet.verify.plan import MOST_PLANNED_RECORDS, SAMPLING_ALONE

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ExpectedDraw:
    """Mean error of draws over simulated data sets.

    Args:
        mechanism: its name, or `SAMPLING_ALONE`.
        names: of the parameters of a law of records; or "score", if candidates are no parameters.
        errors: mean absolute error of each parameter, in its own unit; or mean loss of a record's score against the
            best candidate, in the unit of the score. Shape (names,).
        spread: standard errors of `errors`.

    Raises:
        Nothing: `plan_score` makes it.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> drawn = dc.research.ExpectedDraw("sampled", ("rate",), np.array([0.2]), np.array([0.05]))
        >>> dict(zip(drawn.names, drawn.errors.tolist(), strict=True))
        {'rate': 0.2}
    """

    mechanism: str
    names: tuple[str, ...]
    errors: Floats
    spread: Floats


def plan_score(
    mechanism: Mechanism,
    score: ScoreTable,
    guarantee: Guarantee,
    records: int,
    *,
    rng: Seed = None,
    repeats: int = 5,
) -> tuple[ExpectedDraw, ExpectedDraw]:
    """Simulate draws among candidates on simulated records, and compare them with the truth of the simulation.

    If candidates are parameters of a law, each data set has parameters of its own, drawn from the prior on the grid.
    The mean of the draws is compared with these, as is the posterior mean of all records without privacy. For other
    scores the probabilities of types are random, and the error is the loss against the best candidate.

    Args:
        mechanism: `scored` or `sampled`, with this score.
        score: public; for a `Family` its table.
        guarantee: of a release.
        records: number of records.
        rng: source of the records and the noise; everything here is simulated.
        repeats: number of data sets, each with new noise.

    Returns:
        The error without privacy, and that of the mechanism.

    Raises:
        InputError: no repeats, fewer than one record or too many, or a guarantee that the mechanism refuses.

    Guarantee:
        None spent, none given: no record is read.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
        >>> likelier = dc.research.ScoreTable(coin, ("side",), [[0], [1]], [0, 0], [[2**20, 0], [0, 2**20]])
        >>> promise = dc.Guarantee(epsilon=5, delta=0, relation="add-remove", unit="record")
        >>> alone, drawn = dc.research.plan_score(dc.research.scored(likelier), likelier, promise, 1000, rng=0)
        >>> drawn.names, bool(drawn.errors[0] < 0.01)
        (('score',), True)
    """
    rng = as_generator(rng)
    if repeats < 1 or not 0 < records <= MOST_PLANNED_RECORDS:
        raise InputError(
            f"a plan needs at least one repeat, and 1 to {MOST_PLANNED_RECORDS:,} records, which it simulates in memory"
        )
    prior = Dirichlet.uniform(score.network)
    mechanism.calibrate(score.network, prior, guarantee)
    errors = np.array([_plan_once(mechanism, score, guarantee, records, rng) for _ in range(repeats)])
    names = ("score",) if score.log_law is None else score.names
    unknown = np.full(errors.shape[1:], np.nan)
    spread = errors.std(axis=0, ddof=1) / np.sqrt(repeats) if repeats > 1 else unknown
    alone, private = (
        ExpectedDraw(name, names, errors.mean(axis=0)[at], spread[at])
        for at, name in enumerate((SAMPLING_ALONE, mechanism.name))
    )
    return alone, private


def _plan_once(
    mechanism: Mechanism, score: ScoreTable, guarantee: Guarantee, records: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Measure errors without privacy, and of draws, on one simulated data set."""
    types = len(score.steps)
    truth = None if score.log_law is None else int(rng.choice(score.size, p=softmax(score.base)))
    chances = rng.dirichlet(np.ones(types)) if truth is None else score.law[:, truth]
    simulated = rng.choice(types, records, p=chances)
    codes = np.unravel_index(simulated, [variable.size for variable in score.network.variables])
    counts = count_codes(score.network, dict(zip(score.scope, codes, strict=True)), (score.scope,))
    release = simulate(mechanism, counts, Dirichlet.uniform(score.network), guarantee, rng=rng)
    payload = release.payload_as(ScoredChoice)
    type_counts = np.bincount(simulated, minlength=types)
    if truth is None or score.log_law is None:
        means = type_counts @ score.steps / records * (score.span / SCORE_STEPS)
        return np.zeros(1), np.array([means.max() - means[payload.indices].mean()])
    posterior = softmax(score.base + type_counts @ np.maximum(score.log_law, -1e100))
    right = score.candidates[truth]
    return np.abs(posterior @ score.candidates - right), np.abs(score.candidates[payload.indices].mean(axis=0) - right)
