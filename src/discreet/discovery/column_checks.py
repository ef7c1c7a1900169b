"""Audit of a found domain: noise is written down, and values that one data set alone has are followed to the release.

Neighbours may have different values, so that they ask for noise on different cells. A value that both have costs what
its noise costs. For one that is in one data set alone the audit finds the least noisy count with which it is released,
by running the draw, and adds the probability of that to the part of delta that is spent. With any smaller count the
release must be the same as without the value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from scipy.special import ndtr

from discreet.discovery.declared_columns import SEARCHED, ColumnType
from discreet.discovery.kinds.found_columns import DomainNoise, FoundDomain
from discreet.discovery.made_up_columns import MADE_UP
from discreet.discovery.mechanisms.found_domain import Look, decide_type, list_looks
from discreet.discovery.records.column_values import ColumnValues
from discreet.noise.noise_laws import CellLaw, DiscreteGaussian, DiscreteLaplace
from discreet.util.arrays import Ints
from discreet.verify.audit import Audited, Check
from discreet.verify.losses import measure_gaussian
from discreet.verify.script import Leak, Lost, numbers

SCRIPTS = 4
"""Sets of answers by which draws are compared."""
LARGEST_ANSWER = 10**9
"""Noisy count with which any value is released."""
Requests = dict[tuple[str, str], tuple[tuple[str, ...] | None, Ints, CellLaw]]
"""By stage and column of a look, the values whose counts noise was asked for (None for cells that no record names), the
counts, and the law of the noise."""


@dataclass
class _ScriptedCells:
    """Source of noise that answers by a script, and logs what it is asked.

    Args:
        statistic: of one data set, which says which values the cells are of.
        script: number of the set of answers.
        given: answers for single values, by column and value.
    """

    statistic: ColumnValues
    script: int
    given: Mapping[tuple[str, str], int] = field(default_factory=dict)
    requests: Requests = field(default_factory=dict)
    types: dict[str, ColumnType] = field(default_factory=dict)
    looks: Iterator[Look] = field(init=False)

    def __post_init__(self) -> None:
        """Start with the looks that find types."""
        columns = self.statistic.columns
        self.types = {column.name: column.type for column in columns if column.type != "unknown"}
        self.looks = chain((look for look in list_looks(columns, None) if look.stage == "type"), self._later())

    def _later(self) -> Iterator[Look]:
        """List the looks that follow from the types."""
        yield from list_looks(self.statistic.columns, self.types)

    def discrete_laplace(self, values: Ints, scale: float) -> Ints:
        """Log the values, and answer."""
        return self._answer(values, DiscreteLaplace(scale))

    def discrete_gaussian(self, values: Ints, scale: float) -> Ints:
        """Log the values, and answer."""
        return self._answer(values, DiscreteGaussian(scale))

    def __getattr__(self, name: str) -> Any:
        """Refuse other randomness."""
        raise Lost(f"the audit of a domain cannot follow {name}")

    def _answer(self, values: Ints, law: CellLaw) -> Ints:
        """Answer each cell by its name, so that answers are the same for all data sets."""
        look = next(self.looks, None)
        if look is None:
            raise Leak("noise is asked for again and again, until an answer suits")
        stage, name = look.stage, look.column.name
        cells: tuple[str, ...] | None = None
        if stage == "states" and self.types[name] != "boolean":
            cells = ("", *self.statistic.values[name])
        if cells is not None and len(cells) != len(values):
            raise Leak("with the answers of the noise held fixed, how much is asked of it depends on the records")
        self.requests[stage, name] = cells, values, law
        if cells is None:
            answers = _make_answers(self.script, stage, len(values))
        else:
            drawn = (self.given.get((name, cell), LARGEST_ANSWER if self.script == 0 else 0) for cell in cells)
            answers = np.array(list(drawn), np.int64)
        if stage == "type":
            self.types[name] = decide_type(answers, math.sqrt(law.raw_variance))
        return answers


@lru_cache(maxsize=256)
def _make_answers(script: int, stage: str, cells: int) -> Ints:
    """Make answers for cells that no record names: noise of several sizes, with some cells that surely have records."""
    rng = np.random.default_rng([script, len(stage), cells])
    size = 10 ** (2 * script)
    answers = rng.integers(-size, size + 1, cells) + 10**6 * (rng.random(cells) < script / SCRIPTS / 4)
    answers.flags.writeable = False
    return np.asarray(answers)


def _run(case: Audited, statistic: ColumnValues, script: int, answers: Any = None) -> tuple[FoundDomain, Requests]:
    """Run a draw by a script."""
    source = _ScriptedCells(statistic, script, answers or {})
    payload: Any = case.mechanism.draw(statistic, case.prior, case.calibration, source)
    return payload, source.requests


def _without(payload: FoundDomain, lonely: Mapping[str, tuple[str, ...]]) -> Any:
    """Write what a payload says but for some states of some columns."""
    parts = []
    for part in payload.parts:
        stays = [state not in lonely.get(part.name, ()) for state in part.states]
        if all(stays):
            parts.append(part)
            continue
        states = tuple(state for state, stay in zip(part.states, stays, strict=True) if stay)
        parts.append(replace(part, states=states, counts=part.counts[stays]))
    return tuple(map(numbers, parts))


@dataclass(frozen=True)
class _Side:
    """One of two neighbours.

    Args:
        statistic: of the data set.
        lonely: by column the values that it alone has.
        payload: its release.
        requests: for noise.
        released: probability that a lonely value is released.
    """

    statistic: ColumnValues
    lonely: Mapping[str, tuple[str, ...]]
    payload: FoundDomain
    requests: Requests
    released: float = 0.0


def _measure(case: Audited) -> tuple[float, str]:
    """Measure the largest loss of a domain over all pairs of data sets and scripts."""
    inputs = {data: MADE_UP.statistic_from(case.mechanism, case.prior.over, data) for data in {*chain(*case.pairs)}}
    largest = 0.0
    for script in range(SCRIPTS):
        runs = {data: _run(case, statistic, script) for data, statistic in inputs.items()}
        released = dict[Any, float]()
        for (first, second), units in case.pairs.items():
            sides = []
            for here, there in ((first, second), (second, first)):
                lonely = _find_lonely(inputs[here], inputs[there])
                side = _Side(inputs[here], lonely, *runs[here])
                key = here, *lonely.items()
                if key not in released:
                    released[key] = _release_probability(case, script, side)
                sides.append(replace(side, released=released[key]))
            largest = max(largest, _compare(case, *sides) / units)
    return largest, "exactly"


def _find_lonely(here: ColumnValues, there: ColumnValues) -> dict[str, tuple[str, ...]]:
    """Find the values that one data set has and the other has not; units with several records may have several."""
    listed = [column.name for column in here.columns if column.type in SEARCHED]
    names = {name: tuple(sorted({*here.values[name]} - {*there.values[name]})) for name in listed}
    return {name: values for name, values in names.items() if values}


def _compare(case: Audited, first: _Side, second: _Side) -> float:
    """Compute the loss between two data sets: of the noise on what both have, at what lonely values leave of delta."""
    if _without(first.payload, first.lonely) != _without(second.payload, second.lonely):
        raise Leak("with the noise held fixed, the release depends on the records")
    delta = float(case.guarantee.delta) * (1 + 1e-9) - max(first.released, second.released)
    if delta < 0:
        return math.inf
    loss, gaussian = 0.0, []
    if first.requests.keys() != second.requests.keys():
        raise Leak("with the answers of the noise held fixed, what is asked of it depends on the records")
    for look, (cells, ours, law) in first.requests.items():
        others, theirs, their_law = second.requests[look]
        if law != their_law or (cells is None and ours.shape != theirs.shape):
            raise Leak("with the answers of the noise held fixed, what is asked of it depends on the records")
        moved = abs(ours - theirs) if cells is None or others is None else _move(cells, ours, others, theirs)
        if isinstance(law, DiscreteLaplace):
            loss += law.loss(int(moved.sum()))
        else:
            gaussian.append((moved, law.scale))
    return loss + (measure_gaussian(gaussian, float(case.guarantee.epsilon), delta) if gaussian else 0.0)


def _move(cells: tuple[str, ...], ours: Ints, others: tuple[str, ...], theirs: Ints) -> Ints:
    """List by how much the counts differ of the values that two data sets share."""
    there = dict(zip(others, theirs.tolist(), strict=True))
    return np.array([abs(n - there[cell]) for cell, n in zip(cells, ours.tolist(), strict=True) if cell in there])


def _release_probability(case: Audited, script: int, side: _Side) -> float:
    """Compute the probability that a lonely value of a data set is released."""
    stays = 1.0
    for name, values in side.lonely.items():
        cells, counts, law = side.requests.get(("states", name), (None, None, None))
        if cells is None or counts is None or law is None:
            continue  # a column of numbers
        for value in values:
            least = _find_least_answer(case, script, side, name, value)
            stays *= 1 - _tail(law, least - int(counts[cells.index(value)]))
    return 1 - stays


def _find_least_answer(case: Audited, script: int, side: _Side, name: str, value: str) -> int:
    """Find the least noisy count with which a value is released; with less, nothing may tell that it is there."""

    def run(answer: int) -> FoundDomain:
        return _run(case, side.statistic, script, {(name, value): answer})[0]

    def has(payload: FoundDomain) -> bool:
        return value in next(part.states for part in payload.parts if part.name == name)

    low, high = -LARGEST_ANSWER, LARGEST_ANSWER
    declared = case.calibration.thresholds.values()
    for guess in (at for least in declared for at in (least - 1, least)):
        low, high = (low, min(high, guess)) if has(run(guess)) else (max(low, guess), high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if has(run(middle)) else (middle, high)
    if _without(run(low), {}) != _without(run(-LARGEST_ANSWER), {}):
        raise Leak("a value that is not released changes the release")
    return high


def _tail(law: CellLaw, least: int) -> float:
    """Probability that the noise is at least a number."""
    if law.budget == "epsilon":
        below = math.exp(-abs(least) / law.scale) / (1 + math.exp(-1 / law.scale))
        return below if least >= 1 else 1 - math.exp(-(1 - least) / law.scale) / (1 + math.exp(-1 / law.scale))
    window = np.arange(least, least + math.ceil(40 * law.scale) + 1)
    if len(window) > 10**6 or least > 30 * law.scale:
        return float(ndtr(-(least - 1) / law.scale))
    return min(float(np.exp(law.log_density(window)).sum()), 1.0)


CHECKS = ((DomainNoise, Check(_measure, numbers=True)),)
"""Check of the pack's calibration."""
