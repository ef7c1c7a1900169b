"""Laws of releases by enumeration: plain loops over every answer that a source of randomness can give.

Nothing here is shared with the package's own audit. A mechanism is run with a source that answers by a script and keeps
what it was asked. The law of the release follows from what was asked alone:

* Noise in integers: `P(y) = sum over samples of P(sample) prod over cells p((y - value) / scale)`. Releases that differ
  between data sets although every answer was the same have no law in common: the loss is infinite. A star has a density
  in each of its blocks that falls with the longest of its rows; rows of a block that move by different sums are told
  apart for sure.
* Indices that are picked from weights: exact rational probabilities of every sequence of answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import Any

import numpy as np
from scipy.special import betaln, log_expit

import discreet as dc
from tiny import Record, counts_of, neighbours

Pair = tuple[tuple[Record, ...], tuple[Record, ...]]
Loss = Fraction | float

SIDES = tuple(product((0, 1), repeat=4))
"""Answers of a first stage on four cells: in each, one on either side of every count of 0 and 1."""

# ---------------------------------------------------------------------------------------------------------- the source


@dataclass
class Scripted:
    """A source whose answers are given; what it was asked is kept.

    Args:
        noisy: answers to calls for noise, cell after cell; 0 beyond its end. Stars get 0, and are never sampled.
        kept: answers to `thin`, cell after cell; None keeps every record.
        picks: answers to `pick`, draw after draw; 0 beyond its end.
        maxima: answers to `noisy_max`, call after call; 0 beyond its end.
        coins: which calls of `rarely` come up True.
    """

    noisy: Sequence[int] = ()
    kept: Sequence[int] | None = None
    picks: Sequence[int] = ()
    maxima: Sequence[int] = ()
    coins: frozenset[int] = frozenset()
    values: list[int] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    blocks: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)
    sampled: list[tuple[int, Fraction]] = field(default_factory=list)
    chances: list[Fraction] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    scores: list[tuple[np.ndarray, float]] = field(default_factory=list)
    tossed: int = 0

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        start = self._asked(values, scale)
        self.blocks += [((cell,),) for cell in range(start, len(self.values))]
        given = [self.noisy[cell] if cell < len(self.noisy) else 0 for cell in range(start, len(self.values))]
        return np.array(given, np.int64).reshape(values.shape)

    discrete_gaussian = discrete_laplace

    def star(self, tables: Sequence[np.ndarray], scale: float) -> list[np.ndarray]:
        starts = [self._asked(table, scale) for table in tables]
        for block in range(len(tables[0])):
            firsts = [start + block * table.shape[1] for start, table in zip(starts, tables, strict=True)]
            self.blocks.append(
                tuple(tuple(range(first, first + table.shape[1])) for first, table in zip(firsts, tables, strict=True))
            )
        return [np.zeros(table.shape, np.int64) for table in tables]

    def _asked(self, values: np.ndarray, scale: float) -> int:
        start = len(self.values)
        self.values += values.ravel().tolist()
        self.scales += [scale] * values.size
        return start

    def thin(self, values: np.ndarray, probability: Fraction) -> np.ndarray:
        start = len(self.sampled)
        self.sampled += [(count, probability) for count in values.ravel().tolist()]
        if self.kept is None:
            return values
        return np.array(self.kept[start : len(self.sampled)], np.int64).reshape(values.shape)

    def noisy_max(self, scores: np.ndarray, scale: float) -> int:
        place = len(self.scores)
        self.scores.append((scores, scale))
        return self.maxima[place] if place < len(self.maxima) else 0

    def choose(self, exponents: Sequence[Fraction], draws: int) -> np.ndarray:
        logs = -np.array([float(exponent) for exponent in exponents])
        return np.array([self.noisy_max(logs, 1.0) for _ in range(draws)], np.int64)

    def pick(self, weights: np.ndarray, draws: int) -> np.ndarray:
        exact = [Fraction(weight) for weight in weights.tolist()]
        answers = []
        for _ in range(draws):
            place = len(self.chances)
            answers.append(self.picks[place] if place < len(self.picks) else 0)
            self.chances.append(exact[answers[-1]] / sum(exact))
            self.widths.append(len(exact))
        return np.array(answers, np.int64)

    def rarely(self, draws: int) -> np.ndarray:
        self.tossed += 1
        return np.full(draws, self.tossed - 1 in self.coins)


def numbers(value: Any) -> Any:
    """All numbers of a payload as something that can be compared and hashed."""
    match value:
        case np.ndarray():
            return tuple(value.ravel().tolist())
        case dc.Network():
            return None
        case Mapping():
            return tuple((key, numbers(part)) for key, part in value.items())
        case tuple():
            return tuple(map(numbers, value))
    if hasattr(value, "__dataclass_fields__"):
        return tuple(numbers(getattr(value, name)) for name in value.__dataclass_fields__)
    return value


# ------------------------------------------------------------------------------------------------------ noisy integers


@dataclass(frozen=True)
class Run:
    """One sample: its probability, the cells that noise was asked for, and what was released.

    Blocks are rows of cells whose noise is drawn together: one cell, or a block of a star.
    """

    chance: Fraction
    values: tuple[int, ...]
    scales: tuple[float, ...]
    blocks: tuple[tuple[tuple[int, ...], ...], ...]
    released: Any

    def length(self, answers: Sequence[int]) -> Loss:
        """How far the answers are from the values, in units of the noise: minus the log density but for a constant."""
        moved = [answer - value for answer, value in zip(answers, self.values, strict=False)]
        longest: dict[float, int] = {}
        for rows in self.blocks:
            scale, first = self.scales[rows[0][0]], sum([moved[cell] for cell in rows[0]])
            if any(sum([moved[cell] for cell in row]) != first for row in rows[1:]):
                return math.inf
            most = max([sum([abs(moved[cell]) for cell in row]) for row in rows])
            longest[scale] = longest.get(scale, 0) + most
        return sum((steps / Fraction(scale) for scale, steps in longest.items()), Fraction())


@cache
def uniform(network: dc.Network) -> dc.Dirichlet:
    """The prior of every draw here, made once for each network."""
    return dc.Dirichlet.uniform(network)


def runs(
    mechanism: dc.tools.Mechanism, calibration: Any, counts: dc.results.Counts, answers: Sequence[int]
) -> list[Run]:
    """A run for every sample that the mechanism can take; the answers to calls for noise are the same in all."""
    prior = uniform(counts.network)
    probe = Scripted(answers)
    mechanism.draw(counts, prior, calibration, probe)
    found = []
    for kept in product(*(range(count + 1) for count, _ in probe.sampled)):
        source = Scripted(answers, kept)
        released = numbers(mechanism.draw(counts, prior, calibration, source))
        chance = Fraction(1)
        for own, (count, share) in zip(kept, probe.sampled, strict=True):
            chance *= math.comb(count, own) * share**own * (1 - share) ** (count - own)
        found.append(Run(chance, tuple(source.values), tuple(source.scales), tuple(source.blocks), released))
    return found


def only_run(
    mechanism: dc.tools.Mechanism, calibration: Any, network: dc.Network
) -> Callable[[tuple[Record, ...]], Run]:
    """The one run of each data set, of a mechanism that samples nothing; each is made once."""

    @cache
    def of(data: tuple[Record, ...]) -> Run:
        (found,) = runs(mechanism, calibration, counts_of(network, data), ())
        return found

    return of


def laplace_log(value: int, scale: float, answer: int) -> float:
    """`log P(answer)` of discrete Laplace noise on a value."""
    return math.log(math.tanh(1 / (2 * scale))) - abs(answer - value) / scale


def log_ratio(one: Sequence[Run], other: Sequence[Run], answers: Sequence[int]) -> Loss:
    """`log P(answers | one) / P(answers | other)`; rational where nothing is sampled and the scales agree."""
    if len(one) == len(other) == 1 and (one[0].scales, one[0].blocks) == (other[0].scales, other[0].blocks):
        a, b = one[0].length(answers), other[0].length(answers)
        return Fraction() if a == b == math.inf else b - a
    assert all(len(rows) == 1 for part in (*one, *other) for rows in part.blocks), "stars are of all records"

    def log_density(parts: Sequence[Run]) -> float:
        logs = [
            math.log(part.chance) + sum(map(laplace_log, part.values, part.scales, answers))
            for part in parts
            if part.chance
        ]
        peak = max(logs)
        return peak + math.log(math.fsum(math.exp(log - peak) for log in logs))

    return log_density(one) - log_density(other)


def noise_loss(
    mechanism: dc.tools.Mechanism,
    network: dc.Network,
    guarantee: dc.Guarantee,
    pairs: Iterable[Pair],
    first: Sequence[tuple[int, ...]] = ((),),
) -> Loss:
    """Largest log ratio over pairs of data sets and answers of discrete Laplace noise.

    The answers of a first stage are those in `first`. What is asked later may depend on them, and its answers are put
    where the ratio is largest by the triangle inequality: in each cell beyond the value of one data set, away from that
    of the other; and far away, where different scales would show.
    """
    calibration = mechanism.calibrate(network, uniform(network), guarantee)
    seen: dict[Any, list[Run]] = {}

    def of(data: tuple[Record, ...], answers: tuple[int, ...]) -> list[Run]:
        if (data, answers) not in seen:
            seen[data, answers] = runs(mechanism, calibration, counts_of(network, data), answers)
        return seen[data, answers]

    largest: Loss = Fraction()
    for one, other in pairs:
        for answers in first:
            a, b = of(one, answers), of(other, answers)
            if len({run.released for run in (*a, *b)}) > 1 or len({len(run.values) for run in (*a, *b)}) > 1:
                return math.inf
            u, v = a[0].values[len(answers) :], b[0].values[len(answers) :]
            beyond = [tuple(3 * x - 2 * y for x, y in zip(p, q, strict=True)) for p, q in ((u, v), (v, u))]
            for rest in (*beyond, (200,) * len(u)):
                largest = max(largest, abs(log_ratio(a, b, (*answers, *rest))))
    return largest


# ----------------------------------------------------------------------------------------------------- picked indices


def outcomes(
    mechanism: dc.tools.Mechanism,
    calibration: Any,
    counts: dc.results.Counts,
    prior: dc.Dirichlet | None = None,
    coins: frozenset[int] = frozenset(),
) -> dict[Any, Fraction]:
    """The exact law of the release of a mechanism that picks indices: the sum over all sequences of answers."""
    law: dict[Any, Fraction] = {}
    todo: list[tuple[int, ...]] = [()]
    while todo:
        path = todo.pop()
        source = Scripted(picks=path, coins=coins)
        used = prior or uniform(counts.network)
        released = numbers(mechanism.draw(counts, used, calibration, source))
        law[released] = law.get(released, Fraction()) + math.prod(source.chances, start=Fraction(1))
        for place in range(len(path), len(source.widths)):
            zeros = (0,) * (place - len(path))
            todo += [(*path, *zeros, answer) for answer in range(1, source.widths[place])]
    return law


def asked_loss(
    mechanism: dc.tools.Mechanism, calibration: Any, one: dc.results.Counts, other: dc.results.Counts
) -> float:
    """What noisy integers beside picked rows add: they are independent of the picks, and far answers are worst."""
    (a,), (b,) = (runs(mechanism, calibration, counts, ()) for counts in (one, other))
    assert len(a.values) <= 1, "the number of records alone"
    if a.scales != b.scales:
        return math.inf
    return sum(abs(u - v) / scale for u, v, scale in zip(a.values, b.values, a.scales, strict=True))


def law_loss(one: Mapping[Any, Fraction], other: Mapping[Any, Fraction]) -> float:
    """Largest log ratio of two laws over finitely many outcomes."""
    if one.keys() != other.keys() or not all((*one.values(), *other.values())):
        return math.inf
    return max(abs(log(one[key]) - log(other[key])) for key in one)


def log(value: Fraction) -> float:
    """The logarithm of a rational, however small."""
    return math.log(value.numerator) - math.log(value.denominator)


def picked_loss(
    mechanism: dc.tools.Mechanism, network: dc.Network, guarantee: dc.Guarantee, pairs: Iterable[Pair], steps: int
) -> float:
    """Largest log ratio over pairs and releases of a mechanism that picks rows on a grid, here of so many steps.

    A release is rows and, where that is private, a noisy number of records.
    """
    calibration = mechanism.calibrate(network, uniform(network), guarantee)
    coarse = coarsened(calibration, steps)
    seen: dict[Any, dict[Any, Fraction]] = {}
    largest = 0.0
    for pair in pairs:
        for data in pair:
            if data not in seen:
                seen[data] = outcomes(mechanism, coarse, counts_of(network, data))
        told = asked_loss(mechanism, coarse, *(counts_of(network, data) for data in pair))
        largest = max(largest, told + law_loss(seen[pair[0]], seen[pair[1]]))
    return largest


def coarsened(calibration: Any, steps: int) -> Any:
    """The calibration with a grid small enough to be written down."""
    return replace(calibration, resolution=dict.fromkeys(calibration.resolution, steps))


def rows_by_hand(exponents: Sequence[float], floor: float, steps: int) -> dict[tuple[int, ...], Fraction]:
    """`P(theta) ~ prod theta_k^e_k` over all points of the grid, to fifty digits: units m by point."""
    context = Context(prec=50, Emin=-(10**9), Emax=10**9)
    size = len(exponents)
    weights = {}
    for units in product(range(steps + 1), repeat=size):
        if sum(units) != steps:
            continue
        weight = Decimal(1)
        for m, exponent in zip(units, exponents, strict=True):
            theta = Fraction(floor) + (1 - size * Fraction(floor)) * Fraction(m, steps) if size > 1 else Fraction(1)
            number = context.divide(Decimal(theta.numerator), Decimal(theta.denominator))
            weight = context.multiply(weight, context.power(number, Decimal(exponent)))
        weights[units] = Fraction(weight)
    total = sum(weights.values())
    return {units: weight / total for units, weight in weights.items()}


# --------------------------------------------------------------------------------------------------------- candidates


def choice_law(mechanism: dc.tools.Mechanism, calibration: Any, counts: dc.results.Counts) -> list[Fraction]:
    """The law of a choice, `P(i) ~ exp(score_i / scale)`, to fifty digits."""
    source = Scripted()
    mechanism.draw(counts, uniform(counts.network), calibration, source)
    ((scores, scale),) = source.scores
    context = Context(prec=50, Emin=-(10**9), Emax=10**9)
    weights = [Fraction(context.exp(context.divide(Decimal(score), Decimal(scale)))) for score in scores.tolist()]
    return [weight / sum(weights) for weight in weights]


def choice_loss(
    mechanism: dc.tools.Mechanism, network: dc.Network, guarantee: dc.Guarantee, pairs: Iterable[Pair]
) -> float:
    """Largest log ratio over pairs and candidates, and of the number of records, whose noise is drawn apart."""
    calibration = mechanism.calibrate(network, uniform(network), guarantee)
    told = 0.0 if calibration.total_scale is None else 1 / calibration.total_scale
    largest = 0.0

    @cache
    def law(data: tuple[Record, ...]) -> list[Fraction]:
        return choice_law(mechanism, calibration, counts_of(network, data))

    for pair in pairs:
        laws = map(law, pair)
        counted = told * abs(len(pair[0]) - len(pair[1]))
        largest = max(largest, *(counted + abs(log(p) - log(q)) for p, q in zip(*laws, strict=True)))
    return largest


# --------------------------------------------------------------------------------------------------- laws with a delta


def gaussian_mass(scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Discrete Gaussian noise, by definition; what is left out is below 1e-22."""
    reach = math.ceil(10 * scale) + 1
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-(k**2) / (2 * scale**2))
    return k, mass / mass.sum()


def hockey_stick(moves: tuple[tuple[int, float], ...], epsilon: float) -> float:
    """`sum over y of max(P(y) - exp(epsilon) Q(y), 0)`, over all outputs of the cells that moved: (by, scale)."""
    one, other = np.ones(1), np.ones(1)
    for move, scale in moves:
        k, mass = gaussian_mass(scale)
        moved = np.exp(-((k - move) ** 2) / (2 * scale**2)) / np.exp(-(k**2) / (2 * scale**2)).sum()
        one, other = np.multiply.outer(one, mass).ravel(), np.multiply.outer(other, moved).ravel()
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


def gaussian_delta(mechanism: dc.tools.Mechanism, network: dc.Network, guarantee: dc.Guarantee) -> float:
    """Largest hockey-stick divergence at epsilon, over all neighbours of up to 2 records."""
    calibration = mechanism.calibrate(network, uniform(network), guarantee)
    moves, asked = set(), only_run(mechanism, calibration, network)
    for one, other in neighbours(network, guarantee.relation, 2):
        a, b = asked(one), asked(other)
        assert a.released == b.released
        assert a.scales == b.scales
        cells = zip(a.values, b.values, a.scales, strict=True)
        moves.add(tuple(sorted((v - u, scale) for u, v, scale in cells if u != v)))
    return max(hockey_stick(move, float(guarantee.epsilon)) for move in moves)


@cache
def logits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where beta densities are summed, and both logarithms of the logistic function there.

    Steps of 1e-3, and less than 1e-40 beyond for concentrations from 0.25.
    """
    at = np.linspace(-400, 400, 800_001)
    return at, log_expit(at), log_expit(-at)


@lru_cache(maxsize=2)
def beta_density(a: float, b: float) -> np.ndarray:
    _, ahead, behind = logits()
    return np.asarray(np.exp(a * ahead + b * behind - betaln(a, b)))


def beta_excess(p: tuple[float, float], q: tuple[float, float], epsilon: float) -> float:
    """`integral of max(p - exp(epsilon) q, 0)` for two beta densities, by the trapezoid rule in the logit."""
    over = np.maximum(beta_density(*p) - math.exp(epsilon) * beta_density(*q), 0)
    return float(np.trapezoid(over, logits()[0]))


def beta_delta(relation: dc.Relation, concentration: float, temper: float, epsilon: float) -> float:
    """The largest hockey-stick divergence of one bit's posteriors, in both directions, over some counts."""
    worst = 0.0
    for zeros, ones in ((0, 0), (1, 0), (0, 1), (5, 0), (0, 5), (3, 3), (1000, 0), (0, 1000)):
        a, b = concentration + temper * ones, concentration + temper * zeros
        other = (a, b + temper) if relation is dc.Relation.REPLACE else (a, b)
        pair = ((a + temper, b), other)
        worst = max(worst, beta_excess(*pair, epsilon), beta_excess(*pair[::-1], epsilon))
    return worst


def told_delta(relation: dc.Relation, concentration: float, calibration: Any, temper: float, epsilon: float) -> float:
    """The same of a draw together with the number of records, whose noise has a log ratio of one over its scale.

    `delta(epsilon) = sum over log ratios L of the number, P(L) delta of the draw(epsilon - L)`.
    """
    if calibration.total_scale is None:
        return beta_delta(relation, concentration, temper, epsilon)
    told = 1 / calibration.total_scale
    likely = 1 / (1 + math.exp(-told))
    nearer, farther = (beta_delta(relation, concentration, temper, epsilon + sign * told) for sign in (-1, 1))
    return likely * nearer + (1 - likely) * farther


# ---------------------------------------------------------------------------------------------------------- data sets


def among(network: dc.Network, relation: dc.Relation, crowds: Iterable[tuple[Record, ...]]) -> Iterator[Pair]:
    """Neighbouring data sets that share a crowd of records."""
    for crowd in crowds:
        for one, other in neighbours(network, relation, 1):
            yield (*crowd, *one), (*crowd, *other)
