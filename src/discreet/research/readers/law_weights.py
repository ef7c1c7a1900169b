"""Posterior probabilities of finitely many laws of records, given a choice by a function of the curator's own.

`p(z | law) = E[P(z | X)]` over data sets X of n records from the law (Williams and McSherry, 2010, equation 3). A law
is a function of the user that simulates records. Simulated data sets move from the law to data sets that explain the
choice by small steps of the power of `P(z | X)`. The steps' mean weights multiply to the likelihood, whose error is
estimated.
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

from discreet.designs.design import GRID_STEPS, Design
from discreet.errors import DiscreetError, InputError, shown
from discreet.posterior.protocol import Posterior, name_rows
from discreet.posterior.totals import measured_total_law
from discreet.releases.release import Release
from discreet.research.kinds.factored_choice import FactoredChoice
from discreet.research.readers.particles import independent_ess, next_step
from discreet.research.scores.custom_factors import OwnFactor
from discreet.research.scores.score_tables import SCORE_STEPS
from discreet.util.arrays import Floats, Ints
from discreet.util.option_texts import DEFAULT_LEVEL

MakeUp = Callable[[int, int, np.random.Generator], Mapping[str, npt.ArrayLike]]
"""Function from a law's position in the list, a number of records and a generator to records: values by name of the
design's variables."""
Chances = Sequence[float] | Floats

WIDEST_ERROR, WIDEST_WEIGHT_ERROR = 0.5, 0.05
"""Largest relative error of a law's likelihood, and largest error of its probability."""
LAW_EFFECTIVE_SHARE = 0.5
"""Share of the data sets that stay effective in each step of the power of `P(z | X)`."""
LEAST_DATA_SETS = 100
"""Least number of simulated data sets: with fewer the error cannot be estimated."""
LAW_MOVE_ROUNDS, MOST_LAW_STEPS = 10, 400
"""Rounds of moves after each step, and most steps: each reduces the plausible space by a factor of about three."""
MOST_HELD_SCORES = 2**27
"""Most scores of all simulated records of a law in memory: a gibibyte."""


@dataclass(frozen=True, eq=False)
class LawWeights(Posterior):
    """Probabilities of laws of records, given a choice.

    Args:
        weights: float64, shape `(laws,)`, sum to 1.
        errors: relative standard error of each law's likelihood, from the simulated data sets, shape `(laws,)`; 0 for a
            prior probability of 0.
        draws: simulated data sets of each law.

    Raises:
        Nothing: `read` makes these.

    Guarantee:
        None spent: weights are functions of the release.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> posterior = dc.research.LawWeights(np.array([0.1, 0.9]), np.array([0.2, 0.01]))
        >>> int(np.argmax(posterior.weights))
        1
    """

    noun: ClassVar[str] = "law"
    method = "laws"
    weights: Floats
    errors: Floats
    draws: int = 0

    def ess(self) -> float:
        """Compute the number of independent data sets with the error of the worst law's likelihood."""
        worst = float(self.errors.max())
        return min(1 / worst**2, float(self.draws)) if worst else float(self.draws)

    def mean(self) -> Floats:
        """Return the probabilities of the laws, shape `(laws,)`."""
        return self.weights

    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute intervals of each law's probability, for the error of simulation alone.

        Args:
            level: between 0 and 1.

        Returns:
            (lower, upper), shape `(laws,)` each.

        Raises:
            InputError: a level outside (0, 1).
        """
        if not 0 < level < 1:
            raise InputError(f"a level must be between 0 and 1, got {level}")
        # d ln w_i = d l_i - sum_j w_j d l_j, for errors of the log-likelihoods l that are independent of each other.
        moved = np.eye(len(self.weights)) - self.weights
        wide = ndtri((1 + level) / 2) * self.weights * np.sqrt(moved**2 @ self.errors**2)
        return np.maximum(self.weights - wide, 0.0), np.minimum(self.weights + wide, 1.0)

    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[dict[str, Any], ...]:
        """List the probability of each law, by its position in the list, with the interval of `interval`."""
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
    """Estimate posterior probabilities of laws of records, given a choice by a score of the curator's own.

    Args:
        release: of `factored` with an `OwnFactor`.
        draws: number of simulated data sets of each law, at least 100.
        rng: source of the simulation.
        score: the same score; a release does not contain its function.
        make_up: simulates records of a law: `make_up(law, records, rng)`.
        prior: probabilities of the laws before the choice, shape `(laws,)`; they need not sum to 1.

    Returns:
        The laws' probabilities. With a noisy number of records, each data set has a number drawn given the noisy one.

    Raises:
        InputError: one of the three is missing; another release or score, an invalid prior, records that do not fit the
            design, or more records than fit into memory.
        DiscreetError: too few data sets for an error of at most .05 of every probability.

    Source:
        Williams and McSherry (NIPS 2010), equation 3; Del Moral, Doucet and Jasra (2006).

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> design = dc.designs.Design((dc.Variable("side", bounds=(-1, 1)),), intercept=False)
        >>> def near(records, candidates):  # 1 for the candidate with the record's sign, else 0
        ...     return (np.sign(records["side"])[:, None] == candidates[:, 0]).astype(float)
        >>> factor = dc.research.own_factor(design, near, [-1.0, 1.0], low=0, high=1)
        >>> factored = dc.research.factored(factor)
        >>> statistic = dc.tools.statistic_of(factored, dc.designs.read_rows(design, [[1.0]] * 2), design)
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
        >>> release = dc.simulate(factored, statistic, dc.designs.Normal(design, 1.0), promise, rng=1)
        >>> def make_up(law, records, rng):  # two laws: mostly -1, mostly 1
        ...     return {"side": np.where(rng.random(records) < (0.2, 0.8)[law], 1.0, -1.0)}
        >>> posterior = dc.read(release, draws=100, rng=1, score=factor, make_up=make_up, prior=[0.5, 0.5])
        >>> int(np.argmax(posterior.weights)) == release.payload.index
        True
    """
    if score is None or make_up is None or prior is None:
        raise InputError(
            "this release is a choice by a score of the curator's own, which a release does not contain: pass `read` "
            "that score (score=own_factor(...)), a function that simulates records of each law (make_up=function) and "
            "the laws' probabilities (prior=[...])"
        )
    payload = _check_choice(release, score)
    try:
        before = np.array(prior, np.float64)
    except (TypeError, ValueError):
        before = np.empty(0)
    if before.ndim != 1 or not np.all(np.isfinite(before) & (before >= 0)) or not before.sum() > 0:
        raise InputError("a prior of laws needs a number of at least 0 for each law, and not all 0")
    if isinstance(draws, bool) or not isinstance(draws, int) or not draws >= LEAST_DATA_SETS:
        raise InputError(f"draws must be a whole number of at least {LEAST_DATA_SETS} data sets, not {draws}")
    logs, errors = np.full(len(before), -math.inf), np.zeros(len(before))
    for law in np.flatnonzero(before).tolist():
        data_sets = _MadeUpData(payload, score, partial(_score_made_up, score, make_up, law))
        logs[law], errors[law] = data_sets.log_likelihood(_draw_numbers(release, payload, draws, rng), rng)
    with np.errstate(divide="ignore"):
        weights = softmax(logs + np.log(before))
    if errors.max() > WIDEST_ERROR or np.max(weights * errors) > WIDEST_WEIGHT_ERROR:
        raise DiscreetError(
            f"the likelihood of a law has an error of {errors.max():.0%}; increase draws, the number of data sets"
        )
    return LawWeights(weights, errors, draws)


@dataclass(frozen=True, eq=False)
class _MadeUpData:
    """Data sets of one law, annealed to data sets that explain the choice by powers of `P(z | X)`.

    A plain mean over data sets of the law would fail unnoticed if data that explain the choice are rare under the law.

    Args:
        payload: the choice.
        factor: its score.
        draw: simulates a number of records of the law, and returns their scores, steps, shape `(records, Z)`.
    """

    payload: FactoredChoice
    factor: OwnFactor
    draw: Callable[[int, np.random.Generator], Floats]

    def log_likelihood(self, numbers: Ints, rng: np.random.Generator) -> tuple[float, float]:
        """Estimate `ln E[P(z | X)]` and the relative error of `E[P(z | X)]`, over data sets of these sizes."""
        if int(numbers.sum()) * len(self.factor.candidates) > MOST_HELD_SCORES:
            raise InputError(
                f"{int(numbers.sum()):,} simulated records do not fit into memory; reduce draws, the data sets"
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
                # Data sets of one ancestor have correlated errors, which the weights' variance alone underestimates.
                return log_mean, math.sqrt(variance + 1 / independent_ess(first) - 1 / len(first))
            picked = rng.choice(len(here), len(here), p=weights / weights.sum())
            scores, here, first = [scores[at] for at in picked], here[picked], first[picked]
            for _ in range(LAW_MOVE_ROUNDS):
                scores, here = self._move_data_sets(scores, here, power, rng)
        raise DiscreetError("hardly any simulated data explain the choice under this law; leave the law out")

    def _move_data_sets(
        self, scores: list[Floats], here: Floats, power: float, rng: np.random.Generator
    ) -> tuple[list[Floats], Floats]:
        """Propose a part of each data set's records anew, and accept by the Metropolis rule."""
        sizes = np.array([len(data_set) for data_set in scores])
        # Parts of all sizes: far from the law large ones are rarely accepted.
        renewed_sizes = np.minimum(np.floor((sizes + 1.0) ** rng.random(len(sizes))).astype(np.int64), sizes)
        renewed = np.split(self.draw(int(renewed_sizes.sum()), rng), np.cumsum(renewed_sizes)[:-1])
        # Records are exchangeable, so the first ones after a permutation are a random subset.
        moved = [
            np.concatenate([data_set[rng.permutation(len(data_set))[len(new) :]], new])
            for data_set, new in zip(scores, renewed, strict=True)
        ]
        there = self._log_choices(moved)
        accepted = np.log1p(-rng.random(len(here))) < power * (there - here)
        chosen = [new if is_accepted else old for new, old, is_accepted in zip(moved, scores, accepted, strict=True)]
        return chosen, np.where(accepted, there, here)

    def _log_choices(self, scores: Sequence[Floats]) -> Floats:
        """Compute `ln P(z | X)` of each data set, from the scores of its records, in steps."""
        sums = np.array([data_set.sum(axis=0) for data_set in scores])
        logs = self.factor.base + self.payload.rate / SCORE_STEPS * sums
        return np.asarray(logs[:, self.payload.index] - logsumexp(logs, axis=1))


def _score_made_up(factor: OwnFactor, make_up: MakeUp, law: int, records: int, rng: np.random.Generator) -> Floats:
    """Compute the scores of simulated records."""
    if not records:
        return np.zeros((0, len(factor.candidates)))
    return factor.steps_of_public(_round_to_grid(factor.design, make_up(law, records, rng), records)).astype(np.float64)


def _check_choice(release: Release, factor: OwnFactor) -> FactoredChoice:
    """Return the payload, after checks of the score."""
    payload = release.payload_as(FactoredChoice)
    stated = np.zeros(len(payload.candidates)) if payload.base is None else payload.base
    same = (
        factor.design == payload.design
        and np.array_equal(factor.candidates, payload.candidates)
        and np.array_equal(factor.base, stated)
        and {"low": factor.low, "high": factor.high} == payload.parameters
    )
    if not same:
        raise InputError("the release's score has another design, candidates, weights or range; pass that score")
    return payload


def _draw_numbers(release: Release, payload: FactoredChoice, data_sets: int, rng: np.random.Generator) -> Ints:
    """Draw numbers of records, one for each data set."""
    if payload.total is None:
        assert release.records is not None
        return np.full(data_sets, release.records)
    return measured_total_law(((payload.total.value, payload.total.scale),)).sample(data_sets, rng)


def _round_to_grid(
    design: Design, made_up: Mapping[str, npt.ArrayLike], records: int
) -> dict[str, npt.NDArray[np.generic]]:
    """Clip and round simulated records, as the score got those of the release."""
    names = {variable.name for variable in design.schema}
    if (
        not isinstance(made_up, Mapping)
        or set(made_up) != names
        or any(np.shape(values) != (records,) for values in made_up.values())
    ):
        raise InputError("make_up must return a mapping with a value of each design variable for each record")
    features = np.column_stack([_read_column(name, made_up[name]) for name in design.names])
    steps = np.rint(design.scaled(features) * GRID_STEPS).astype(np.int64)
    target, declared = np.zeros(records, np.int64), design.target
    if declared is not None and declared.numeric:
        scaled = design.scaled_target(_read_column(declared.name, made_up[declared.name]))
        target = np.rint(scaled * GRID_STEPS).astype(np.int64)
    elif declared is not None:
        positions = {state: at for at, state in enumerate(declared.states)}
        codes = [positions.get(str(value), -1) for value in np.asarray(made_up[declared.name]).tolist()]
        if -1 in codes:
            raise InputError(f"make_up returned a class of {shown(declared.name)} that the design does not declare")
        target = np.array(codes, np.int64)
    return design.values(steps, target)


def _read_column(name: str, values: npt.ArrayLike) -> Floats:
    """Read a column of simulated numbers."""
    try:
        column = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        column = np.full(1, np.nan)
    if not np.all(np.isfinite(column)):
        raise InputError(f"make_up must return finite numbers of {shown(name)}")
    return column
