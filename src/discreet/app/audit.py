"""The audit: how much a mechanism really reveals, on networks so small that every data set can be written down.

A mechanism touches records only through a source of randomness. The audit puts its own source in its place, which logs
what it is given and answers by a script:

* With the answers held fixed, what is released must be the same for neighbouring data sets; anything else is a leak.
* The largest log ratio of the probabilities of the answers, over all answers, is the loss; for integer noise, choices
  from finite lists and rows on a grid it is computed exactly. Rows, and draws of a row, are independent.
* Gaussian noise has a delta: its exact hockey-stick divergence at epsilon is compared with the promised one.
* Gamma variates are continuous: there, draws are counted on both sides of a threshold, and the loss is bounded from
  below with a stated confidence (Clopper and Pearson). Such a bound can refute a promise, never prove it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import chain, combinations_with_replacement, product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import beta as beta_law
from scipy.stats import binom

from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import ExactNoise
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.model.tables import Tables
from discreet.privacy.calibration import Tempering, Trimming
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.privacy.release import RecordsPolicy
from discreet.sensitive.counts import Counts
from discreet.theory.lipschitz import log_range

__all__ = ["CONFIDENCE", "Finding", "audit", "audit_networks"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Record = tuple[int, ...]

MOST_RECORDS = 3
"""Records of the larger of two neighbouring data sets."""
CROWD = 300
"""Equal records that some neighbours share: much data, but no more than an exact law of their sample needs."""
PEAK = 35.0
"""Nats by which a crowd raises a row of a posterior: draws reveal most when it is sharp, but not so sharp that only the
coin of 2^-64 (44 nats) leaves the peak."""
MOST_CROWD = 10_000
"""Beyond it a crowd takes long to count."""
FEWER = 3
"""So many times smaller is a second crowd: it sharpens rows that the first one does not reach."""
STEPS = 4
"""Grid steps of a row while it is enumerated: the promise does not depend on them."""
SCRIPTS = 3
"""Scripts of answers: a second stage may depend on the answers of the first."""
SAMPLES = 20_000
"""Draws from each of two data sets for a statistical bound."""
CONFIDENCE = 1 - 1e-6
"""Of a statistical bound: the chance that it exceeds the truth is one in a million."""
EXTREMES = 2
"""Pairs of data sets for a statistical bound."""
COIN = -64 * math.log(2)
"""Log-probability of the coin that sends a row anywhere on its grid."""
TAG = 2**40
"""Counts of a sample carry the number of the sample above this digit."""
SLACK = 1e-7
"""Log ratios are computed in floating point; mechanisms keep more than this back where they are not exact either."""


class _Leak(Exception):
    """With the noise held fixed, the release still depends on the records; the text says what of it."""


@dataclass(frozen=True)
class Finding:
    """What the audit found for one network and relation.

    Args:
        network: its name.
        guarantee: what the mechanism promised.
        measured: largest loss: epsilon at the guarantee's delta; infinite for a leak.
        exact: whether `measured` is the loss itself; False for a lower bound that holds with `CONFIDENCE`.
        pairs: of neighbouring data sets that were looked at.
        leak: what depends on the records although the noise is held fixed; empty where nothing does.
    """

    network: str
    guarantee: Guarantee
    measured: float
    exact: bool
    pairs: int
    leak: str = ""

    @property
    def holds(self) -> bool:
        """Whether the promise stands."""
        return self.measured <= float(self.guarantee.epsilon) * (1 + 1e-9) + SLACK


def audit_networks() -> dict[str, Network]:
    """The networks of the audit: every shape of family that matters, with two and three states."""
    return {
        "one coin": _network({"a": 2}),
        "a -> b": _network({"a": 2, "b": 2}, "a>b"),
        "a -> b, three states": _network({"a": 2, "b": 3}, "a>b"),
        "a -> b -> c": _network({"a": 2, "b": 2, "c": 2}, "a>b b>c"),
        "a -> c <- b": _network({"a": 2, "b": 2, "c": 2}, "a>c b>c"),
    }


def audit(
    mechanism: Mechanism[Any],
    guarantee: Guarantee,
    networks: Mapping[str, Network] | None = None,
    *,
    most: int = MOST_RECORDS,
) -> tuple[Finding, ...]:
    """Measure a mechanism's loss on all neighbouring data sets of tiny networks.

    Args:
        mechanism: any; its draw must take all randomness from the source it is given.
        guarantee: what it shall promise.
        networks: tiny ones, by name; None for `audit_networks()`.
        most: records of the larger data set.

    Returns:
        A finding for each network.

    Raises:
        InputError: the mechanism refuses the guarantee, or takes randomness in a way that cannot be followed.
    """
    return tuple(
        _finding(mechanism, name, network, guarantee, most)
        for name, network in (audit_networks() if networks is None else networks).items()
    )


def _finding(mechanism: Mechanism[Any], name: str, network: Network, guarantee: Guarantee, most: int) -> Finding:
    """One network."""
    prior = Dirichlet.uniform(network)
    calibration = mechanism.calibrate(network, prior, guarantee)
    pairs = list(_neighbours(network, guarantee.relation, most, _crowd(network, calibration)))
    if isinstance(calibration, Tempering):
        measured = max(_statistical(mechanism, calibration, prior, pair, guarantee) for pair in _extreme(pairs))
        return Finding(name, guarantee, measured, exact=False, pairs=len(pairs))
    draws = 1
    if isinstance(calibration, Trimming):
        # Independent draws cost alike: one is enumerated, on a coarse grid.
        draws, steps = calibration.draws, dict.fromkeys(calibration.resolution, STEPS)
        calibration = replace(calibration, resolution=steps, draws=1)
    try:
        measured = _largest_loss(mechanism, calibration, prior, pairs, guarantee, draws)
    except _Leak as leak:
        return Finding(name, guarantee, math.inf, exact=True, pairs=len(pairs), leak=str(leak))
    return Finding(name, guarantee, measured, exact=True, pairs=len(pairs))


def _largest_loss(
    mechanism: Mechanism[Any],
    calibration: Any,
    prior: Dirichlet,
    pairs: Iterable[tuple[Any, Any]],
    guarantee: Guarantee,
    draws: int,
) -> float:
    """Over all pairs and scripts; data sets of the same counts are looked at once."""
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    known = {data: _counts(prior.network, data) for data in {data for pair in pairs for data in pair}}
    keys = {data: _numbers(counts.tables) for data, counts in known.items()}
    different = {(keys[one], keys[other]) for one, other in pairs if keys[one] != keys[other]}
    by_key = {keys[data]: counts for data, counts in known.items()}
    largest = 0.0
    for script in range(SCRIPTS):
        logs = {key: _log(mechanism, calibration, prior, counts, script) for key, counts in by_key.items()}
        losses = (_loss(logs[one], logs[other], draws, epsilon=epsilon, delta=delta) for one, other in different)
        largest = max(largest, *losses) if different else largest
        if not any(log.source.scripted for log in logs.values()):
            break
    return largest


# ----------------------------------------------------------------------------------------------------------- the source


@dataclass
class _Script:
    """A source of randomness that logs what it is given and answers by a script, whatever it is given.

    Args:
        seed: of the script's answers.
        path: answers of `pick` in every row; those beyond its end are 0.
    """

    seed: int
    path: tuple[int, ...] = ()
    laplace: list[tuple[Integers, float, tuple[Fraction, ...]]] = field(default_factory=list)
    gaussian: list[tuple[Integers, float]] = field(default_factory=list)
    choices: list[Floats] = field(default_factory=list)
    rows: list[list[tuple[int, int, float]]] = field(default_factory=lambda: [[]])
    samples: dict[int, Fraction] = field(default_factory=dict)
    thinned: int = 0
    coins: int = 0

    @property
    def scripted(self) -> bool:
        """Whether answers came from the script's seed."""
        return bool(self.laplace or self.gaussian)

    def _answer(self, shape: tuple[int, ...]) -> Integers:
        """The same for every data set."""
        calls = len(self.laplace) + len(self.gaussian)
        return np.random.default_rng([self.seed, calls]).integers(0, 3 * self.seed + 1, shape)

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        """Log, and answer."""
        counts, shares = self._untagged(values)
        self.laplace.append((counts, scale, shares))
        return self._answer(values.shape)

    def discrete_gaussian(self, values: Integers, scale: float) -> Integers:
        """Log, and answer."""
        counts, shares = self._untagged(values)
        if set(shares) != {Fraction(1)}:
            raise InputError("the audit cannot follow Gaussian noise on a sample of the records")
        self.gaussian.append((counts, scale))
        return self._answer(values.shape)

    def thin(self, values: Integers, probability: Fraction) -> Integers:
        """Nothing is drawn: every count is marked as one of a sample of its own."""
        tags = self.thinned + 1 + np.arange(values.size)
        self.thinned += values.size
        self.samples |= dict.fromkeys(tags.tolist(), probability)
        return values + TAG * tags.reshape(values.shape)

    def _untagged(self, values: Integers) -> tuple[Integers, tuple[Fraction, ...]]:
        """Counts as they were before sampling, and each one's probability."""
        tags = (values + TAG // 2) // TAG
        found = [self.samples.pop(tag, None) if tag else Fraction(1) for tag in tags.ravel().tolist()]
        shares = tuple(share for share in found if share is not None)
        if len(shares) < len(found):
            raise InputError("the audit cannot follow a sample of the records that is used twice or summed")
        return values - TAG * tags, shares

    def noisy_max(self, scores: Floats, scale: float) -> int:
        """Log the probabilities."""
        logs = scores / scale
        self.choices.append(np.asarray(logs - np.logaddexp.reduce(logs)))
        return 0

    def pick(self, weights: Floats, draws: int) -> Integers:
        """Log the width, the answer and its log-probability, so many times; answer along the path."""
        taken = self.rows[-1]
        answer = self.path[len(taken)] if len(taken) < len(self.path) else 0
        answer = min(answer, len(weights) - 1)
        share = float(weights[answer]) / float(weights.sum())
        taken.append((len(weights), answer, draws * math.log(share) if share > 0 else -math.inf))
        return np.full(draws, answer, np.int64)

    def rarely(self, draws: int) -> npt.NDArray[np.bool_]:
        """Ends a row; never."""
        self.coins += 1
        self.rows.append([])
        return np.zeros(draws, np.bool_)

    def log_gamma(self, shapes: Floats) -> Floats:
        """Continuous: not for this source."""
        raise InputError("gamma variates are audited statistically")


@dataclass(frozen=True)
class _Log:
    """What a mechanism gave to the source for one data set, and what it released along every path.

    Args:
        source: of the first path.
        released: numbers of the payload for every path.
        rows: for each row, log-probabilities of all sequences of answers.
    """

    source: _Script
    released: Mapping[tuple[int, ...], Any]
    rows: tuple[Mapping[tuple[int, ...], float], ...]


def _log(mechanism: Mechanism[Any], calibration: Any, prior: Dirichlet, counts: Counts, seed: int) -> _Log:
    """Run the draw by a script, once for every path of a row: all rows take the same path at once."""
    first: _Script | None = None
    released: dict[tuple[int, ...], Any] = {}
    rows: list[dict[tuple[int, ...], float]] = []
    todo: list[tuple[int, ...]] = [()]
    while todo:
        path = todo.pop()
        source = _Script(seed, path)
        released[path] = _numbers(mechanism.draw(counts, prior, calibration, source))
        first = first or source
        rows += [{} for _ in range(len(source.rows) - len(rows))]
        for row, picks in zip(rows, source.rows, strict=False):
            row[tuple(answer for _, answer, _ in picks)] = sum(log for _, _, log in picks)
        longest = max(source.rows, key=len)
        for place in range(len(path), len(longest)):
            width = max(picks[place][0] for picks in source.rows if len(picks) > place)
            todo += [(*path, *(0,) * (place - len(path)), answer) for answer in range(1, width)]
    assert first is not None
    return _Log(first, released, tuple(rows))


# ------------------------------------------------------------------------------------------------------------- the loss


def _loss(one: _Log, other: _Log, draws: int, *, epsilon: float, delta: float) -> float:
    """The largest loss between two data sets, the larger of the two directions."""
    a, b = one.source, other.source
    _refuse_leaks(one, other)
    # Of the first data set against the second, and the other way round: an output has one of the two ratios.
    total = np.zeros(2)
    for (u, scale, shares), (v, _, _) in zip(a.laplace, b.laplace, strict=True):
        total += _laplace_loss(u.ravel(), v.ravel(), scale, shares)
    for p, q in zip(a.choices, b.choices, strict=True):
        total += np.max(p - q), np.max(q - p)
    for paths, others in zip(one.rows, other.rows, strict=True):
        # A row that the coin sends anywhere takes every path alike.
        least = COIN - math.log(len(paths)) if a.coins else -math.inf
        gaps = [_gap(paths[path], others[path], least) for path in paths]
        total += draws * max(gaps), -draws * min(gaps)
    calls = [(np.abs(u - v), scale) for (u, scale), (v, _) in zip(a.gaussian, b.gaussian, strict=True)]
    return float(total.max()) + (_gaussian_loss(calls, epsilon, delta) if calls else 0.0)


def _refuse_leaks(one: _Log, other: _Log) -> None:
    """Everything but the values that noise hides must be the same for both."""
    if _shape(one) != _shape(other):
        raise _Leak("with the answers of the noise held fixed, what is asked of it depends on the records")
    if one.released != other.released:
        raise _Leak("with the noise held fixed, the release depends on the records")


def _shape(log: _Log) -> Any:
    """What was asked of the source, but for the values that noise hides."""
    source = log.source
    laplace = [(values.shape, scale, shares) for values, scale, shares in source.laplace]
    gaussian = [(values.shape, scale) for values, scale in source.gaussian]
    return laplace, gaussian, [len(logs) for logs in source.choices], [row.keys() for row in log.rows], source.coins


def _gap(one: float, other: float, least: float) -> float:
    """Difference of two log-probabilities, after `exp(least)` is added to both probabilities."""
    a, b = np.logaddexp([one, other], least).tolist() if least > -math.inf else (one, other)
    return 0.0 if a == b else a - b


def _laplace_loss(u: Integers, v: Integers, scale: float, shares: tuple[Fraction, ...]) -> Floats:
    """Largest log ratios of the outputs for values u and v, both ways, every cell at its worst."""
    moved = np.flatnonzero(u != v).tolist()
    total = np.full(2, sum(abs(int(u[cell] - v[cell])) for cell in moved if shares[cell] == 1) / scale)
    for cell in moved:
        if shares[cell] != 1:
            total += _sampled_loss(int(u[cell]), int(v[cell]), scale, shares[cell])
    return total


@cache
def _sampled_loss(u: int, v: int, scale: float, share: Fraction) -> tuple[float, float]:
    """The same for one cell whose records are first sampled, over a window beyond which the ratio is constant."""
    window = np.arange(-2, max(u, v) + 3)

    def logs(count: int) -> Floats:
        kept = np.arange(count + 1)
        terms = binom.logpmf(kept, count, float(share)) - np.abs(window[:, None] - kept) / scale
        return np.asarray(np.logaddexp.reduce(terms, axis=1))

    gaps = logs(u) - logs(v)
    return float(gaps.max()), float(-gaps.min())


def _gaussian_loss(calls: Iterable[tuple[Integers, float]], epsilon: float, delta: float) -> float:
    """Epsilon at delta of discrete Gaussian noise on values that moved by so much: exact hockey-stick, by bisection."""
    moved: dict[float, list[int]] = {}
    for by, scale in calls:
        moved.setdefault(scale, []).extend(by[by > 0].tolist())
    return _gaussian_epsilon(tuple((scale, tuple(sorted(by))) for scale, by in moved.items() if by), epsilon, delta)


@cache
def _gaussian_epsilon(moved: tuple[tuple[float, tuple[int, ...]], ...], epsilon: float, delta: float) -> float:
    """The same, by the scale of the noise."""
    losses, law = np.zeros(1), np.ones(1)
    for scale, steps in moved:
        more, masses = _gaussian_law(scale, steps)
        losses, law = np.add.outer(losses, more).ravel(), np.multiply.outer(law, masses).ravel()

    def divergence(at: float) -> float:
        over = losses > at
        return float(np.sum(law[over] * -np.expm1(at - losses[over])))

    if divergence(epsilon) <= delta:
        # Only where it stands: the exact epsilon, for the report.
        bottom, top = 0.0, epsilon
    else:
        bottom, top = epsilon, float(losses.max())
    for _ in range(60):
        middle = (bottom + top) / 2
        bottom, top = (bottom, middle) if divergence(middle) <= delta else (middle, top)
    return top


def _gaussian_law(scale: float, steps: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Losses, and their probabilities, of discrete Gaussian noise of one scale on cells that moved by so many steps."""
    reach = math.ceil(12 * scale) + 2
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    mass /= mass.sum()
    # The loss of moving one cell by m is (2 k m + m^2) / (2 scale^2): linear in the noise k, so sums of m k suffice.
    law, low = np.ones(1), 0
    for m in steps:
        spread = np.zeros(2 * reach * m + 1)
        spread[::m] = mass
        law, low = np.convolve(law, spread), low - reach * m
    return (2 * (low + np.arange(len(law))) + sum(m**2 for m in steps)) / (2 * scale**2), law


def _statistical(
    mechanism: Mechanism[Any], calibration: Any, prior: Dirichlet, pair: tuple[Any, Any], guarantee: Guarantee
) -> float:
    """A lower bound of epsilon at delta, from draws of both data sets: half of them find an event, the others count."""
    network = prior.network
    outputs = []
    for data in pair:
        counts = _counts(network, data)
        many = replace(calibration, draws=calibration.draws * SAMPLES)
        payload: Any = mechanism.draw(counts, prior, many, ExactNoise())
        cells = [payload.cells[node].reshape(-1, SAMPLES, calibration.draws).sum(axis=2) for node in network.nodes]
        outputs.append(np.concatenate(cells))
    best = 0.0
    half = SAMPLES // 2
    each = (1 - CONFIDENCE) / (EXTREMES * 4 * len(outputs[0]))
    for p, q in ((outputs[0], outputs[1]), (outputs[1], outputs[0])):
        for one, other in zip(p, q, strict=True):
            for sign in (1, -1):
                grid = np.quantile(sign * one[:half], np.linspace(0.0005, 0.9995, 400))
                ahead = (half - np.searchsorted(np.sort(sign * one[:half]), grid)) / half
                behind = (half - np.searchsorted(np.sort(sign * other[:half]), grid) + 1) / half
                at = grid[np.argmax((ahead - float(guarantee.delta)).clip(1e-12) / behind)]
                hits, others = int(np.sum(sign * one[half:] > at)), int(np.sum(sign * other[half:] > at))
                lower = float(beta_law.ppf(each / 2, hits, half - hits + 1)) if hits else 0.0
                upper = float(beta_law.ppf(1 - each / 2, others + 1, half - others)) if others < half else 1.0
                if lower > float(guarantee.delta):
                    best = max(best, math.log((lower - float(guarantee.delta)) / upper))
    return best


# ------------------------------------------------------------------------------------------------------- tiny data sets


def _network(sizes: dict[str, int], arcs: str = "") -> Network:
    """A network from the number of states of each node and arcs such as "a>b b>c"."""
    pairs = [arc.split(">") for arc in arcs.split()]
    variables = tuple(Variable(node, tuple(f"s{code}" for code in range(size))) for node, size in sizes.items())
    return Network(variables, {node: tuple(parent for parent, child in pairs if child == node) for node in sizes})


def _counts(network: Network, records: Iterable[Record]) -> Counts:
    """Family counts, one kind of record at a time."""
    tables = {node: np.zeros(network.shape(node), np.int64) for node in network.nodes}
    for record, times in Counter(records).items():
        code = dict(zip(network.nodes, record, strict=True))
        for node in network.nodes:
            tables[node][tuple(code[name] for name in network.family(node))] += times
    return Counts(Tables(network, tables), RecordsPolicy("error", "error"))


def _neighbours(
    network: Network, relation: Relation, most: int, crowd: int
) -> Iterator[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    """Every pair of neighbouring data sets, up to the order of their records, and some that share a crowd or two."""
    records = list(product(*(range(variable.size) for variable in network.variables)))
    small = (rest for size in range(most) for rest in combinations_with_replacement(records, size))
    crowds = (
        (records[0],) * size + (record,) * (size // FEWER) for size in (crowd // FEWER, crowd) for record in records
    )
    for rest in chain(small, crowds):
        for index, record in enumerate(records):
            if relation is Relation.ADD_REMOVE:
                yield rest, (*rest, record)
            else:
                yield from (((*rest, record), (*rest, other)) for other in records[:index])


def _crowd(network: Network, calibration: Any) -> int:
    """How many equal records make a crowd; so many that a trimmed posterior has a peak."""
    if not isinstance(calibration, Trimming):
        return CROWD
    ranges = (log_range(network.schema[node].size, floor) for node, floor in calibration.floors.items())
    return min(math.ceil(PEAK / (calibration.temper * min(ranges))), MOST_CROWD)


def _extreme(pairs: list[Any]) -> list[Any]:
    """A few pairs for a statistical bound: the fewest records, and a crowd of equal ones."""
    return [pairs[0], pairs[-1]]


def _numbers(value: Any) -> Any:
    """The numbers of a payload or of tables, as nested tuples."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    if isinstance(value, Mapping):
        return tuple((key, _numbers(part)) for key, part in value.items())
    if hasattr(value, "__dataclass_fields__"):
        return tuple(_numbers(getattr(value, name)) for name in value.__dataclass_fields__ if name != "network")
    return tuple(map(_numbers, value)) if isinstance(value, tuple) else value
