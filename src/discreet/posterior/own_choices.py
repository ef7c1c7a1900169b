"""Which law of records a choice by a function of the curator's own speaks for, among finitely many.

`p(z | law) = E[P(z | X)]` over data sets X of n records from the law (Williams and McSherry, 2010, equation 3). What
the records are like under each law only its author can say, so a law is a function that makes records up; the mean is
over made-up data sets, and what a mean of probabilities is off by is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from discreet.errors import DiscreetError, InputError
from discreet.model.design import GRID, Design
from discreet.model.own_factors import OwnFactor
from discreet.model.score_tables import STEPS
from discreet.posterior.totals import told_law
from discreet.releases.kinds.factored_choice import FactoredChoice
from discreet.releases.release import Release
from discreet.theory.choice_likelihood import Choices

__all__ = ["LawWeights", "law_weights"]

Floats = npt.NDArray[np.float64]
MakeUp = Callable[[int, int, np.random.Generator], Mapping[str, npt.ArrayLike]]
"""From a law's place in the list, a number of records and a source of randomness to records: by name of the design's
variables their values."""

WIDEST_ERROR = 0.1
"""Relative error of a law's likelihood beyond which more data sets are needed."""


@dataclass(frozen=True, eq=False)
class LawWeights:
    """Probabilities of laws of records, given a choice.

    Args:
        weights: float64, shape `(laws,)`, sum to 1.
        errors: relative standard error of each law's likelihood, from the made-up data sets, shape `(laws,)`.
    """

    weights: Floats
    errors: Floats


def law_weights(
    release: Release,
    factor: OwnFactor,
    make_up: MakeUp,
    prior: Sequence[float] | Floats,
    *,
    rng: np.random.Generator,
    data_sets: int = 400,
) -> LawWeights:
    """Read a choice by a score of the curator's own.

    Args:
        release: of `factored` with an `OwnFactor`.
        factor: the same score; its function is no part of a release.
        make_up: makes up records of a law: `make_up(law, records, rng)`.
        prior: probabilities of the laws before the choice, shape `(laws,)`; they need not sum to 1.
        rng: source of randomness.
        data_sets: made-up ones of each law.

    Returns:
        The laws' probabilities. With noise on the number of records, each data set has one of the numbers that could be
        behind it.

    Raises:
        InputError: another release, another score, a prior that is none, records that do not fit the design.
        DiscreetError: too few data sets for a likelihood to be known within a tenth.

    Source:
        Williams and McSherry (NIPS 2010), equation 3.
    """
    payload = _choice(release, factor)
    before = np.asarray(prior, np.float64)
    if before.ndim != 1 or not np.all(np.isfinite(before) & (before >= 0)) or not before.sum() > 0:
        raise InputError("a prior of laws has a number of at least 0 for each, and not all are 0")
    if not data_sets >= 2:
        raise InputError(f"it takes at least two made-up data sets, not {data_sets}")
    asked = Choices(factor.base, (len(factor.candidates),), ((payload.index,),))
    logs = np.full((len(before), data_sets), -math.inf)
    for law in np.flatnonzero(before):
        for at, records in enumerate(_numbers(release, payload, data_sets, rng)):
            made_up = _on_grid(factor.design, make_up(int(law), int(records), rng), int(records))
            sums = factor.steps_of_public(made_up).sum(axis=0) if records else np.zeros(len(factor.candidates))
            logs[law, at] = asked.log_law(payload.rate / STEPS * sums)
    means = logsumexp(logs, axis=1) - math.log(data_sets)
    with np.errstate(invalid="ignore"):
        spread = np.exp(logs - means[:, None]).std(axis=1, ddof=1) / math.sqrt(data_sets)
    errors = np.where(before > 0, spread, 0.0)
    weights = softmax(np.where(before > 0, means + np.log(np.maximum(before, 1e-300)), -math.inf))
    if np.max(weights * errors) > WIDEST_ERROR:
        raise DiscreetError(
            f"the likelihood of the choice is known within {np.max(errors):.0%} only; ask for more made-up data_sets"
        )
    return LawWeights(weights, errors)


def _choice(release: Release, factor: OwnFactor) -> FactoredChoice:
    """The payload, after what can be checked of the score."""
    payload = release.payload
    if not (isinstance(payload, FactoredChoice) and payload.kind == "own"):
        raise InputError("this release is not a choice by a score of the curator's own: read it with `noise_aware`")
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


def _numbers(
    release: Release, payload: FactoredChoice, data_sets: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Numbers of records, one for each data set."""
    if payload.total is None:
        assert release.records is not None
        return np.full(data_sets, release.records)
    return told_law(((payload.total.value, payload.total.scale),)).sample(data_sets, rng)


def _on_grid(design: Design, made_up: Mapping[str, npt.ArrayLike], records: int) -> dict[str, npt.NDArray[np.generic]]:
    """Made-up records as the score saw those of the release: clipped and rounded."""
    if set(made_up) != {variable.name for variable in design.schema} or any(
        np.shape(values) != (records,) for values in made_up.values()
    ):
        raise InputError("made-up records have one value of each variable of the design for each record")
    features = np.column_stack([np.asarray(made_up[name], np.float64) for name in design.names])
    steps = np.rint(design.scaled(features) * GRID).astype(np.int64)
    target, given = np.zeros(records, np.int64), design.target
    if given is not None:
        values = np.asarray(made_up[given.name])
        target = (
            np.rint(design.scaled_target(values.astype(np.float64)) * GRID).astype(np.int64)
            if given.numeric
            else np.array([given.states.index(str(value)) for value in values], np.int64)
        )
    return design.values(steps, target)
