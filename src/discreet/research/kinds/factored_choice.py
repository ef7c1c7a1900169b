"""Choice among finitely many public candidates, by a bounded factor for each record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.designs.design import Design
from discreet.designs.kinds.noisy_sums import NoisyTotal, total_line, total_scale
from discreet.errors import require
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import Count, Finite, Matrix, Numbers, Positive, all_positive, kind
from discreet.releases.listing import list_drawn
from discreet.releases.measurement import Released, Reported
from discreet.util.arrays import freeze

FactorKind = Literal["direction", "categorical", "own"]
"""Kinds of a record's score: two likelihoods, and a function of the curator's own, clamped to a range."""
FACTOR_PARAMETERS: Mapping[str, set[str]] = {
    "direction": {"noise_variance", "tau"},
    "categorical": {"floor"},
    "own": {"low", "high"},
}
"""Names of each score's parameters."""


@kind("factored_noise")
@dataclass(frozen=True)
class FactoredNoise(Reported):
    """Choice among candidates, `P(z) ~ exp(base_z + rate sum_i f(z, x_i))` with f between 0 and 1.

    Args:
        rate: largest weight of one record, nats.
        total_scale: of discrete Laplace noise on the number of records; None if it is public.
        reported: epsilon of choice and number together, rounded up.

    Raises:
        InputError: a number is not positive and finite.
    """

    domain: ClassVar[str] = "design"
    rate: Positive
    total_scale: Positive | None
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse invalid numbers."""
        require(
            all_positive(self.rate, self.total_scale), "a calibration needs a positive, finite rate and noise scale"
        )
        require(self.reported > 0, "a calibration needs a report greater than 0")


@kind(
    "factored_choice",
    order=("kind", "parameters", "rate", "total", "index", "candidates", "base"),
    renamed={"kind": "factor"},
)
@dataclass(frozen=True, eq=False)
class FactoredChoice(Released):
    """Choice of one of finitely many public candidates, `P(z) ~ exp(base_z + rate sum_i f(z, x_i))`, f from 0 to 1.

    Args:
        design: without a target or intercept, unless the score is a function of the curator's own.
        kind: of f; see `discreet.research.scores.factors` and `discreet.research.scores.custom_factors`.
        candidates: float64, shape `(candidates, numbers)`.
        parameters: of f.
        index: of the chosen candidate.
        rate: largest weight of one record, nats.
        total: noisy number of records; None if it is public.
        base: log weights of the candidates before any record, float64, shape `(candidates,)`; None for equal ones.

    Raises:
        InputError: fewer than two candidates, an index out of range, numbers that are not finite, a design with a
            target or intercept or another number of features, parameters other than f's, an empty range, or another
            number of weights.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> ward = dc.designs.Design((dc.Variable("ward", bounds=(0, 1)),), intercept=False)
        >>> candidates = np.array([[0.2, 0.8], [0.8, 0.2]])
        >>> floor = {"floor": 0.1}
        >>> choice = dc.research.FactoredChoice(ward, "categorical", candidates, floor, 1, rate=0.5, total=None)
        >>> choice.states_network.schema["ward"].states
        ('0', '1')
    """

    domain: ClassVar[str] = "design"
    design: Design
    kind: FactorKind
    candidates: Matrix
    parameters: Mapping[str, Finite]
    index: Count
    rate: Positive
    total: NoisyTotal | None
    base: Numbers | None = None

    def __post_init__(self) -> None:
        """Freeze the arrays, and refuse payloads that inference could not read."""
        freeze(self, candidates=np.asarray(self.candidates), parameters=self.parameters)
        require(
            self.candidates.ndim == 2 and len(self.candidates) >= 2 and bool(np.all(np.isfinite(self.candidates))),
            "a choice needs at least two candidates, each a row of finite numbers",
        )
        require(0 <= self.index < len(self.candidates), "the index of the chosen candidate is out of range")
        require(self.kind in FACTOR_PARAMETERS, "the kind of a factor must be 'direction', 'categorical' or 'own'")
        wanted = FACTOR_PARAMETERS[self.kind]
        require(set(self.parameters) == wanted, f"a {self.kind} factor has the parameters {', '.join(sorted(wanted))}")
        require(
            all_positive(self.rate) and all(math.isfinite(value) for value in self.parameters.values()),
            "a choice needs a positive rate and finite parameters",
        )
        if self.base is not None:
            freeze(self, base=np.asarray(self.base))
            fits = self.base.shape == (len(self.candidates),) and bool(np.all(np.isfinite(self.base)))
            require(fits, "a base measure needs one finite log weight for each candidate")
        if self.kind == "own":
            require(self.parameters["low"] < self.parameters["high"], "the range of a score needs low < high")
            return
        require(self.base is None, "only a score of the curator's own has a base measure")
        size = self.candidates.shape[1] if self.kind == "direction" else 1
        require(
            self.design.target is None and not self.design.intercept and len(self.design.features) == size,
            f"this choice needs a design of {size} features, without target and intercept",
        )

    @property
    def states_network(self) -> Network:
        """Network of a categorical factor's one variable, whose states are the whole numbers from 0."""
        require(self.kind == "categorical", "only a choice by a categorical factor has a variable with states")
        name = self.design.names[0]
        return Network((Variable(name, tuple(map(str, range(self.candidates.shape[1])))),), {name: ()})

    def per_unit(self, steps: int) -> FactoredChoice:
        """See `Released`."""
        total = self.total and self.total.per_unit(steps)
        return replace(self, rate=self.rate * steps, total=total)

    @property
    def answers_over(self) -> Network | None:
        """See `Released`."""
        return self.states_network if self.kind == "categorical" else None

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`."""
        is_direction = self.kind == "direction"
        names = list(self.design.names) if is_direction else [*map(str, range(self.candidates.shape[1]))]
        return list(list_drawn(names, self.candidates[self.index][None]))

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        line = f"one candidate of {len(self.candidates)}, by scores to which a record adds at most {self.rate:.4g} nats"
        return line + total_line(self.total)

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, FactoredNoise):
            return False
        return (calibration.rate, calibration.total_scale) == (self.rate, total_scale(self.total))

    def counts_records(self, relation: Relation) -> bool:
        """See `Released`."""
        return (self.total is not None) != relation.public_number
