"""Which law of records a choice by a function of the curator's own speaks for, among finitely many.

`p(z | law) = E[P(z | X)]` over data sets X of n records from the law (Williams and McSherry, 2010, equation 3). What
the records are like under each law only its author can say, so a law is a function that makes records up. Its data
sets go from the law to where the choice is likely by small steps of the power of `P(z | X)`; the steps' mean weights
multiply to the likelihood, and what that is off by is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, ndtri, softmax

from discreet.errors import DiscreetError, InputError, shown
from discreet.model.design import GRID_STEPS, Design
from discreet.posterior.protocol import Posterior, name_rows
from discreet.posterior.totals import measured_total_law
from discreet.releases.release import Release
from discreet.research.kinds.factored_choice import FactoredChoice
from discreet.research.readers.particles import independent_worth, next_step
from discreet.research.scores.own_factors import OwnFactor
from discreet.research.scores.score_tables import SCORE_STEPS
from discreet.util.arrays import Floats, Ints
from discreet.util.option_texts import DEFAULT_LEVEL

MakeUp = Callable[[int, int, np.random.Generator], Mapping[str, npt.ArrayLike]]
"""From a law's place in the list, a number of records and a source of randomness to records: by name of the design's
variables their values."""
Chances = Sequence[float] | Floats

WIDEST_ERROR, WIDEST_WEIGHT_ERROR = 0.5, 0.05
"""Relative error of a law's likelihood, and error of its probability, beyond which more data sets are needed."""
LAW_EFFECTIVE_SHARE = 0.5
"""Share of the data sets that stay effective in each step of the power of `P(z | X)`."""
LEAST_DATA_SETS = 100
"""Made-up data sets: fewer tell no error."""
LAW_MOVE_ROUNDS, MOST_LAW_STEPS = 10, 400
"""Rounds of moves after each step, and most steps: each goes down by a factor of about three."""
MOST_HELD_SCORES = 2**27
"""Scores of all made-up records of a law that are held: a gibibyte."""


@dataclass(frozen=True, eq=False)
class LawWeights(Posterior):
    """Probabilities of laws of records, given a choice.

    Args:
        weights: float64, shape `(laws,)`, sum to 1.
        errors: relative standard error of each law's likelihood, from the made-up data sets, shape `(laws,)`; 0 where
            the prior has none.
        draws: made-up data sets of each law.

    Raises:
        Nothing: `read` makes these.

    Guarantee:
        None spent: weights say nothing that the release does not.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> found = dc.research.LawWeights(np.array([0.1, 0.9]), np.array([0.2, 0.01]))
        >>> int(np.argmax(found.weights))
        1
    """

    noun: ClassVar[str] = "law"
    method = "laws"
    weights: Floats
    errors: Floats
    draws: int = 0

    def ess(self) -> float:
        """Independent data sets that tell the likelihood of the worst-known law as well."""
        worst = float(self.errors.max())
        return min(1 / worst**2, float(self.draws)) if worst else float(self.draws)

    def mean(self) -> Floats:
        """Probabilities of the laws, shape `(laws,)`."""
        return self.weights

    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """What the made-up data sets leave open of each law's probability: the posterior has no spread beside it.

        Args:
            level: between 0 and 1.

        Returns:
            (lower, upper), shape `(laws,)` each.

        Raises:
            InputError: a level outside (0, 1).
        """
        if not 0 < level < 1:
            raise InputError(f"a level lies between 0 and 1, got {level}")
        # d ln w_i = d l_i - sum_j w_j d l_j, for errors of the log-likelihoods l that are independent of each other.
        moved = np.eye(len(self.weights)) - self.weights
        wide = ndtri((1 + level) / 2) * self.weights * np.sqrt(moved**2 @ self.errors**2)
        return np.maximum(self.weights - wide, 0.0), np.minimum(self.weights + wide, 1.0)

    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[dict[str, Any], ...]:
        """Probability of each law, by its place in the list, with what is left open of it; errors as of `interval`."""
        heads = [{"name": str(law)} for law in range(len(self.weights))]
        return name_rows(heads, self.weights[None], lambda _, level: self.interval(level=level), level)


def draw_law_weights(
    release: Release,
    *,
    draws: int,
    rng: np.random.Generator,
    score: OwnFactor | None = None,
    make_up: MakeUp | None = None,
    prior: Chances | None = None,
) -> LawWeights:
    """Find how probable the laws are that records may have, given a choice by a score of the curator's own.

    Args:
        release: of `factored` with an `OwnFactor`.
        draws: made-up data sets of each law, at least 100.
        rng: makes them up.
        score: the same; its function is no part of a release.
        make_up: makes up records of a law: `make_up(law, records, rng)`.
        prior: probabilities of the laws before the choice, shape `(laws,)`; they need not sum to 1.

    Returns:
        The laws' probabilities. With noise on the number of records, each data set has one of the numbers that could be
        behind it.

    Raises:
        InputError: one of the three is not given; another release or score, a prior that is none, records that do not
            fit the design, or more of them than memory has.
        DiscreetError: too few data sets for the probability of every law to be known within .05.

    Source:
        Williams and McSherry (NIPS 2010), equation 3; Del Moral, Doucet and Jasra (2006).

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> design = dc.Design((dc.Variable("side", bounds=(-1, 1)),), intercept=False)
        >>> def near(records, candidates):  # 1 for the candidate that a record speaks for, else 0
        ...     return (np.sign(records["side"])[:, None] == candidates[:, 0]).astype(float)
        >>> factor = dc.research.own_factor(design, near, [-1.0, 1.0], low=0, high=1)
        >>> factored = dc.research.factored(factor)
        >>> statistic = dc.tools.statistic_of(factored, dc.designs.read_rows(design, [[1.0]] * 2), design)
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
        >>> release = dc.simulate(factored, statistic, dc.designs.Normal(design, 1.0), promise, rng=1)
        >>> def make_up(law, records, rng):  # two laws: mostly -1, mostly 1
        ...     return {"side": np.where(rng.random(records) < (0.2, 0.8)[law], 1.0, -1.0)}
        >>> found = dc.read(release, draws=100, rng=1, score=factor, make_up=make_up, prior=[0.5, 0.5])
        >>> int(np.argmax(found.weights)) == release.payload.index
        True
    """
    if score is None or make_up is None or prior is None:
        raise InputError(
            "this release is a choice by a score of the curator's own, which no release holds: give `read` that score "
            "(score=own_factor(...)), what makes up records of each law that you consider (make_up=function) and the "
            "laws' probabilities (prior=[...])"
        )
    payload = _check_choice(release, score)
    try:
        before = np.array(prior, np.float64)
    except (TypeError, ValueError):
        before = np.empty(0)
    if before.ndim != 1 or not np.all(np.isfinite(before) & (before >= 0)) or not before.sum() > 0:
        raise InputError("a prior of laws has a number of at least 0 for each, and not all are 0")
    if isinstance(draws, bool) or not isinstance(draws, int) or not draws >= LEAST_DATA_SETS:
        raise InputError(f"it takes at least {LEAST_DATA_SETS} made-up data sets, a whole number, not {draws}")
    logs, errors = np.full(len(before), -math.inf), np.zeros(len(before))
    for law in np.flatnonzero(before).tolist():
        made = _MadeUpData(payload, score, partial(_score_made_up, score, make_up, law))
        logs[law], errors[law] = made.log_likelihood(_draw_numbers(release, payload, draws, rng), rng)
    with np.errstate(divide="ignore"):
        weights = softmax(logs + np.log(before))
    if errors.max() > WIDEST_ERROR or np.max(weights * errors) > WIDEST_WEIGHT_ERROR:
        raise DiscreetError(
            f"the likelihood of a law is known within {errors.max():.0%} only; ask for more made-up data sets"
        )
    return LawWeights(weights, errors, draws)


@dataclass(frozen=True, eq=False)
class _MadeUpData:
    """Data sets of one law, taken from it to where the choice is likely, by powers of `P(z | X)`.

    A mean over data sets of the law alone would be wrong without a sign of it where a choice is explained by data that
    the law hardly makes.

    Args:
        payload: the choice.
        factor: its score.
        draw: makes up so many records of the law: their scores, steps, shape `(records, Z)`.
    """

    payload: FactoredChoice
    factor: OwnFactor
    draw: Callable[[int, np.random.Generator], Floats]

    def log_likelihood(self, numbers: Ints, rng: np.random.Generator) -> tuple[float, float]:
        """`ln E[P(z | X)]`, and the relative error of what it is the logarithm of, over data sets of these sizes."""
        if int(numbers.sum()) * len(self.factor.candidates) > MOST_HELD_SCORES:
            raise InputError(
                f"{int(numbers.sum()):,} made-up records are more than memory has; ask for fewer data_sets"
            )
        scores = np.split(self.draw(int(numbers.sum()), rng), np.cumsum(numbers)[:-1])
        here = self._log_choices(scores)
        power, log_mean, variance, first = 0.0, 0.0, 0.0, np.arange(len(here))
        for _ in range(MOST_LAW_STEPS):
            step = next_step(here, 1 - power, LAW_EFFECTIVE_SHARE)
            weights = np.exp(step * (here - here.max()))
            log_mean += step * here.max() + math.log(weights.mean())
            variance += float(weights.var()) / (float(weights.mean()) ** 2 * len(here))
            power += step
            if power >= 1:
                # Data sets of one ancestor err together: what the weights vary by alone would be told too small.
                return log_mean, math.sqrt(variance + 1 / independent_worth(first) - 1 / len(first))
            picked = rng.choice(len(here), len(here), p=weights / weights.sum())
            scores, here, first = [scores[at] for at in picked], here[picked], first[picked]
            for _ in range(LAW_MOVE_ROUNDS):
                scores, here = self._move_data_sets(scores, here, power, rng)
        raise DiscreetError("hardly any made-up data explain what was chosen; nothing can be told of this law")

    def _move_data_sets(
        self, scores: list[Floats], here: Floats, power: float, rng: np.random.Generator
    ) -> tuple[list[Floats], Floats]:
        """Make a part of each data set's records up anew, where that is accepted."""
        sizes = np.array([len(part) for part in scores])
        # Parts of all sizes: far from the law hardly any large one is accepted.
        fresh = np.minimum(np.floor((sizes + 1.0) ** rng.random(len(sizes))).astype(np.int64), sizes)
        parts = np.split(self.draw(int(fresh.sum()), rng), np.cumsum(fresh)[:-1])
        # Records are alike, so that the first ones of a data set put in another order are any of them.
        moved = [
            np.concatenate([part[rng.permutation(len(part))[len(new) :]], new])
            for part, new in zip(scores, parts, strict=True)
        ]
        there = self._log_choices(moved)
        accepted = np.log1p(-rng.random(len(here))) < power * (there - here)
        chosen = [new if took else old for new, old, took in zip(moved, scores, accepted, strict=True)]
        return chosen, np.where(accepted, there, here)

    def _log_choices(self, scores: Sequence[Floats]) -> Floats:
        """`ln P(z | X)` of each data set, from the scores of its records, in steps."""
        sums = np.array([part.sum(axis=0) for part in scores])
        logs = self.factor.base + self.payload.rate / SCORE_STEPS * sums
        return np.asarray(logs[:, self.payload.index] - logsumexp(logs, axis=1))


def _score_made_up(factor: OwnFactor, make_up: MakeUp, law: int, records: int, rng: np.random.Generator) -> Floats:
    """Scores of made-up records."""
    if not records:
        return np.zeros((0, len(factor.candidates)))
    return factor.steps_of_public(_round_to_grid(factor.design, make_up(law, records, rng), records)).astype(np.float64)


def _check_choice(release: Release, factor: OwnFactor) -> FactoredChoice:
    """The payload, after what can be checked of the score."""
    payload = release.payload_as(FactoredChoice)
    stated = np.zeros(len(payload.candidates)) if payload.base is None else payload.base
    same = (
        factor.design == payload.design
        and np.array_equal(factor.candidates, payload.candidates)
        and np.array_equal(factor.base, stated)
        and {"low": factor.low, "high": factor.high} == payload.parameters
    )
    if not same:
        raise InputError("the release is of a score over another design, with other candidates, weights or range")
    return payload


def _draw_numbers(release: Release, payload: FactoredChoice, data_sets: int, rng: np.random.Generator) -> Ints:
    """Numbers of records, one for each data set."""
    if payload.total is None:
        assert release.records is not None
        return np.full(data_sets, release.records)
    return measured_total_law(((payload.total.value, payload.total.scale),)).sample(data_sets, rng)


def _round_to_grid(
    design: Design, made_up: Mapping[str, npt.ArrayLike], records: int
) -> dict[str, npt.NDArray[np.generic]]:
    """Made-up records as the score saw those of the release: clipped and rounded."""
    names = {variable.name for variable in design.schema}
    if (
        not isinstance(made_up, Mapping)
        or set(made_up) != names
        or any(np.shape(values) != (records,) for values in made_up.values())
    ):
        raise InputError("made-up records are a mapping with one value of each variable of the design for each record")
    features = np.column_stack([_read_column(name, made_up[name]) for name in design.names])
    steps = np.rint(design.scaled(features) * GRID_STEPS).astype(np.int64)
    target, given = np.zeros(records, np.int64), design.target
    if given is not None and given.numeric:
        scaled = design.scaled_target(_read_column(given.name, made_up[given.name]))
        target = np.rint(scaled * GRID_STEPS).astype(np.int64)
    elif given is not None:
        places = {state: at for at, state in enumerate(given.states)}
        codes = [places.get(str(value), -1) for value in np.asarray(made_up[given.name]).tolist()]
        if -1 in codes:
            raise InputError(f"made-up records hold a class of {shown(given.name)} that is none of the design's")
        target = np.array(codes, np.int64)
    return design.values(steps, target)


def _read_column(name: str, values: npt.ArrayLike) -> Floats:
    """A column of made-up numbers."""
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if not np.all(np.isfinite(found)):
        raise InputError(f"made-up records need finite numbers of {shown(name)}")
    return found
