"""The audit: how much a mechanism really reveals, on networks so small that every data set can be written down.

A mechanism touches records only through a source of randomness. The audit puts its own source in its place, which logs
what it is given and answers by a script:

* With the answers held fixed, what is released must be the same for neighbouring data sets; anything else is a leak.
* The largest log ratio of the probabilities of the answers, over all answers, is the loss; for integer noise, choices
  from finite lists and rows on a grid it is computed exactly. Rows, and draws of a row, are independent.
* Gaussian noise has a delta: its exact hockey-stick divergence at epsilon is compared with the promised one.
* Gamma variates are continuous: there, draws are counted on both sides of a threshold, and the loss is bounded from
  below with a stated confidence (Clopper and Pearson). Such a bound can refute a promise, never prove it.

What is assumed, and only spot-checked: that rows are independent of each other for all answers, not only for those
tried; that all randomness comes from the source (every draw is run twice, which finds most that does not); and that a
draw which is honest under the scripts is so under all others: scripts are finitely many, answers are not. Code that
waits for one rare answer passes. The audit finds mistakes; it is no defence against whoever writes for the audit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from discreet.model.design import Shape
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.model.tables import Tables
from discreet.privacy.calibration import (
    CoefficientNoise,
    GaussianNoise,
    PlannedNoise,
    Selection,
    Stages,
    TableNoise,
    Tempering,
    Trimming,
)
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
SCRIPTS = 5
"""Scripts of noise: none, a little on both sides, much on both sides, much above, much below. A second stage, or what
is released, may depend on the answers of the first."""
LARGEST_POWER = 40
"""Much noise is a power of two, at most this one."""
MOST_CALLS = 1000
"""Calls for noise in one draw: whoever asks for more waits for an answer that he likes."""
SCRAMBLES = 1
"""Runs in which every row, and every draw of a row, takes a path of its own."""
SAMPLES = 20_000
"""Draws from each of two data sets for a statistical bound."""
CONFIDENCE = 1 - 1e-6
"""Of a statistical bound: the chance that it exceeds the truth is one in a million."""
LEAST_HITS = 200
"""Draws beyond a threshold that is considered: further out a bound is too loose to tell anything."""
EXTREMES = 2
"""Pairs of data sets for a statistical bound."""
COIN = -64 * math.log(2)
"""Log-probability of the coin that sends a row anywhere on its grid."""
TAG = 2**40
"""Counts of a sample carry a tag of the sample above this digit."""
TAGS = 2**20, 2**22
"""From where to where tags are drawn: their sums and multiples are then hardly ever tags."""
SLACK = 1e-7
"""Log ratios are computed in floating point; mechanisms keep more than this back where they are not exact either."""


class _Leak(Exception):
    """With the noise held fixed, the release still depends on the records; the text says what of it."""


class _Lost(InputError):
    """The audit cannot follow what the mechanism does."""


@dataclass(frozen=True)
class Finding:
    """What the audit found for one network and relation.

    Args:
        network: its name.
        guarantee: what the mechanism promised.
        measured: largest loss: epsilon at the guarantee's delta; infinite for a leak.
        exact: whether `measured` is the loss itself on the data sets looked at, given that rows are independent, that
            there is no randomness but the source's, and that scripts not tried tell nothing new; False for a lower
            bound that holds with `CONFIDENCE`, which can refute the promise but never prove it.
        pairs: of neighbouring data sets that were looked at.
        leak: what depends on the records although the noise is held fixed, or what makes the draw impossible to
            follow; empty where nothing does.
    """

    network: str
    guarantee: Guarantee
    measured: float
    exact: bool
    pairs: int
    leak: str = ""

    @property
    def holds(self) -> bool:
        """Whether the promise stands; where `exact` is False: whether it is not refuted."""
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
    followed, real, draws, exact = calibration, None, 1, True
    # Every kind of calibration has its place here: one that is forgotten would be followed as if it had no rows.
    match calibration:
        case TableNoise() | GaussianNoise() | PlannedNoise() | CoefficientNoise() | Selection() | Stages():
            pass
        case Trimming():
            # Independent draws cost alike: one is enumerated, on a coarse grid. What only the real draws and grid do is
            # run once, without a loss.
            steps = dict.fromkeys(calibration.resolution, STEPS)
            followed, real, draws = replace(calibration, resolution=steps, draws=1), calibration, calibration.draws
        case Tempering():
            exact = False
        case _:
            raise InputError(f"the audit does not know calibrations of type {type(calibration).__name__}")
    try:
        measured = _largest_loss(mechanism, followed, prior, pairs, guarantee, draws, real)
        if isinstance(calibration, Tempering):
            found = (_statistical(mechanism, calibration, prior, pair, guarantee) for pair in _extreme(pairs))
            measured = max(measured, *found)
    except _Leak as leak:
        return Finding(name, guarantee, math.inf, exact=True, pairs=len(pairs), leak=str(leak))
    return Finding(name, guarantee, measured, exact=exact, pairs=len(pairs))


def _largest_loss(
    mechanism: Mechanism[Any],
    calibration: Any,
    prior: Dirichlet,
    pairs: Iterable[tuple[Any, Any]],
    guarantee: Guarantee,
    draws: int,
    real: Any,
) -> float:
    """Over all pairs and scripts; data sets of the same counts are looked at once."""
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    known = {data: _counts(prior.network, data) for data in {data for pair in pairs for data in pair}}
    keys = {data: _numbers((counts.tables, counts.joints)) for data, counts in known.items()}
    different = {(keys[one], keys[other]) for one, other in pairs if keys[one] != keys[other]}
    by_key = {keys[data]: counts for data, counts in known.items()}
    largest = 0.0
    scripts, asked = [_Answers()], None
    for number, script in enumerate(scripts):
        logs = {
            key: _log(mechanism, calibration, prior, counts, script, real if number == 0 else None, again=number == 0)
            for key, counts in by_key.items()
        }
        losses = (_loss(logs[one], logs[other], draws, epsilon=epsilon, delta=delta) for one, other in different)
        largest = max(largest, *losses) if different else largest
        for log in logs.values():
            if log.raised:
                # All neighbours agree, or it would be a leak.
                raise InputError(f"the mechanism fails whatever the records are: {log.raised}")
        cells = {key: log.source.cells for key, log in logs.items()}
        if asked is not None and cells != asked:
            raise _Leak("how much noise is asked for depends on the answers: they are chosen among")
        asked = cells
        if number == 0:
            if any(log.source.scripted for log in logs.values()):
                scripts += [_Answers(noise=kind) for kind in range(1, SCRIPTS)]
            widest = max((len(choice) for log in logs.values() for choice in log.source.choices), default=1)
            scripts += [_Answers(choice=index) for index in range(1, widest)]
    return largest


# ----------------------------------------------------------------------------------------------------------- the source


@dataclass(frozen=True)
class _Answers:
    """What a script answers, the same for every data set.

    Args:
        noise: kind of noisy numbers, 0 to SCRIPTS - 1.
        choice: index of every choice, as far as there is one.
    """

    noise: int = 0
    choice: int = 0


@dataclass
class _Script:
    """A source of randomness that logs what it is given and answers by a script, whatever it is given.

    Args:
        answers: of the script.
        path: answers of `pick` in every row; those beyond its end are 0.
        continuous: whether gamma variates may be asked for.
        scramble: seed of paths that differ from row to row and from draw to draw; 0 for `path`.
        tagging: seed of the tags of samples.
        astray: None for coins that come up False; else how many picks each row has: then all coins come up True, and
            `path` is for the picks that follow a coin.
    """

    answers: _Answers
    path: tuple[int, ...] = ()
    continuous: bool = False
    scramble: int = 0
    tagging: int = 0
    astray: tuple[int, ...] | None = None
    laplace: list[tuple[Integers, float, tuple[Fraction, ...]]] = field(default_factory=list)
    gaussian: list[tuple[Integers, float]] = field(default_factory=list)
    gammas: list[tuple[int, ...]] = field(default_factory=list)
    choices: list[Floats] = field(default_factory=list)
    rows: list[list[tuple[int, int, float]]] = field(default_factory=lambda: [[]])
    several: set[int] = field(default_factory=set)
    samples: dict[int, Fraction] = field(default_factory=dict)
    thinned: int = 0
    coins: int = 0

    @property
    def scripted(self) -> bool:
        """Whether answers were noisy numbers."""
        return bool(self.laplace or self.gaussian or self.gammas)

    @property
    def cells(self) -> tuple[int, int]:
        """How many noisy numbers were asked for; not by how many calls, as honest noise is grouped by its scale."""
        return sum(values.size for values, _, _ in self.laplace), sum(values.size for values, _ in self.gaussian)

    def _answer(self, shape: tuple[int, ...]) -> Integers:
        """The same for every data set."""
        calls = len(self.laplace) + len(self.gaussian)
        if calls > MOST_CALLS:
            raise _Leak("noise is asked for again and again, until an answer suits")
        kind = self.answers.noise
        rng = np.random.default_rng([kind, calls])
        if kind < 2:
            return rng.integers(-3 * kind, 3 * kind + 1, shape)
        signs = rng.choice([-1, 1], shape) if kind == 2 else np.full(shape, 1 if kind == 3 else -1)
        return np.asarray(signs * 2 ** rng.integers(0, LARGEST_POWER + 1, shape), np.int64)

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        """Log, and answer."""
        counts, shares = self._untagged(values)
        self.laplace.append((counts, scale, shares))
        return self._answer(values.shape)

    def discrete_gaussian(self, values: Integers, scale: float) -> Integers:
        """Log, and answer."""
        counts, shares = self._untagged(values)
        if set(shares) != {Fraction(1)}:
            raise _Lost("the audit cannot follow Gaussian noise on a sample of the records")
        self.gaussian.append((counts, scale))
        return self._answer(values.shape)

    def thin(self, values: Integers, probability: Fraction) -> Integers:
        """Nothing is drawn: every count is marked as one of a sample of its own."""
        tags = np.random.default_rng([self.tagging, self.thinned]).choice(TAGS[1] - TAGS[0], values.size, replace=False)
        tags += TAGS[0]
        self.thinned += values.size
        self.samples |= dict.fromkeys(tags.tolist(), probability)
        return values + TAG * tags.reshape(values.shape)

    def _untagged(self, values: Integers) -> tuple[Integers, tuple[Fraction, ...]]:
        """Counts as they were before sampling, and each one's probability."""
        tags = (values + TAG // 2) // TAG
        found = [self.samples.pop(tag, None) if tag else Fraction(1) for tag in tags.ravel().tolist()]
        shares = tuple(share for share in found if share is not None)
        if len(shares) < len(found):
            raise _Lost("the audit cannot follow a sample of the records that is used twice or summed")
        return values - TAG * tags, shares

    def noisy_max(self, scores: Floats, scale: float) -> int:
        """Log the probabilities."""
        logs = scores / scale
        self.choices.append(np.asarray(logs - np.logaddexp.reduce(logs)))
        return min(self.answers.choice, len(scores) - 1)

    def pick(self, weights: Floats, draws: int) -> Integers:
        """Log the width, the answer and its log-probability, so many times; answer along the path."""
        taken, row = self.rows[-1], len(self.rows) - 1
        width, place = len(weights), len(taken)
        if draws > 1:
            self.several.add(row)
        if self.scramble:
            picked = np.random.default_rng([self.scramble, row, place]).integers(0, width, draws)
        else:
            # With coins, a row's own picks follow those of the row before that went astray: they take no path.
            on = self.astray is None or (0 < row <= len(self.astray) and place < self.astray[row - 1])
            answer = self.path[place] if on and place < len(self.path) else 0
            picked = np.full(draws, min(answer, width - 1), np.int64)
        total, chosen = float(weights.sum()), picked.tolist() if self.scramble else [int(picked[0])]
        shares = [float(weights[answer]) / total for answer in chosen]
        log = sum(math.log(share) if share > 0 else -math.inf for share in shares)
        taken.append((width, chosen[0], log if self.scramble else draws * log))
        return picked

    def rarely(self, draws: int) -> npt.NDArray[np.bool_]:
        """Ends a row."""
        self.coins += 1
        self.rows.append([])
        return np.full(draws, self.astray is not None)

    def log_gamma(self, shapes: Floats) -> Floats:
        """Log how many; what is given by them is measured statistically, what is released besides is not."""
        if not self.continuous:
            raise _Lost("gamma variates are audited statistically")
        self.gammas.append(shapes.shape)
        return np.random.default_rng([self.answers.noise, len(self.gammas)]).normal(size=shapes.shape)

    def k_norm(self, values: Integers, scale: float, shape: Shape) -> Integers:
        """No mechanism over a network adds noise to vectors."""
        raise _Leak("noise on a vector was asked for, which this audit cannot follow")

    def uniforms(self, number: int) -> Floats:
        """No mechanism over a network asks for uniform variates."""
        raise _Leak("uniform variates were asked for, which this audit cannot follow")


@dataclass(frozen=True)
class _Log:
    """What a mechanism gave to the source for one data set, and what it released along every path.

    Args:
        source: of the first path.
        released: numbers of the payload for every path, and for every other run.
        rows: for each row, log-probabilities of all sequences of answers.
        astray: for each row, what is picked after its coin and with which log-probability; None where that is not what
            is then released.
        raised: the exception that ended the draw; empty where none did.
    """

    source: _Script
    released: Mapping[Any, Any]
    rows: tuple[Mapping[tuple[int, ...], float], ...]
    astray: tuple[Any, ...] | None
    raised: str = ""


def _log(
    mechanism: Mechanism[Any],
    calibration: Any,
    prior: Dirichlet,
    counts: Counts,
    answers: _Answers,
    real: Any = None,
    *,
    again: bool = False,
) -> _Log:
    """Run the draw by a script, once for every path of a row: all rows take the same path at once. Then otherwise."""
    continuous = isinstance(calibration, Tempering)
    released: dict[Any, Any] = {}
    rows: list[dict[tuple[int, ...], float]] = []
    first, raised = _Script(answers, continuous=continuous), ""

    def run(name: Any, source: _Script, by: Any = calibration) -> _Script:
        nonlocal raised
        released[name], failure = _released(mechanism, prior, counts, by, source)
        raised = raised or failure
        return source

    todo: list[tuple[int, ...]] = [()]
    while todo:
        path = todo.pop()
        source = run(path, _fresh(first, path) if path else first)
        rows += [{} for _ in range(len(source.rows) - len(rows))]
        for row, picks in zip(rows, source.rows, strict=False):
            row[tuple(answer for _, answer, _ in picks)] = sum(log for _, _, log in picks)
        longest = max(source.rows, key=len)
        for place in range(len(path), len(longest)):
            width = max(picks[place][0] for picks in source.rows if len(picks) > place)
            todo += [(*path, *(0,) * (place - len(path)), answer) for answer in range(1, width)]
    picking, furthest = any(first.rows), max(released)
    for seed in range(1, SCRAMBLES + 1) if picking else ():
        source = run(("scrambled", seed), _Script(answers, continuous=continuous, scramble=seed))
        _refuse_tied_rows(rows, source)
    if real is not None:
        run("real", _Script(answers, continuous=continuous, scramble=1), real)
    if again:
        source = run("again", _Script(answers, continuous=continuous, tagging=1))
        if released["again"] != released[()] or _asked(source) != _asked(first):
            raise _Leak("the same answers do not give the same release: other randomness, or a sample without noise")
    astray = _astray(run, first, furthest, released) if picking and first.coins and not raised else None
    return _Log(first, released, tuple(rows), astray, raised)


def _released(
    mechanism: Mechanism[Any], prior: Dirichlet, counts: Counts, calibration: Any, source: _Script
) -> tuple[Any, str]:
    """Numbers of the payload, or the exception in its place."""
    try:
        payload: Any = mechanism.draw(counts, prior, calibration, source)
    except (_Leak, _Lost):
        raise
    except Exception as error:  # whatever it is, whoever waits for the release learns of it
        return ("raised", type(error).__name__, str(error)), f"{type(error).__name__}: {error}"
    if payload.network != prior.network:
        raise _Leak("the release is over another network than the records")
    return _numbers(payload), ""


def _refuse_tied_rows(rows: list[dict[tuple[int, ...], float]], source: _Script) -> None:
    """A row's law must be the same whatever other rows have answered: losses of rows are added."""
    tied = len(source.rows) != len(rows)
    for number, (row, picks) in enumerate(zip(rows, source.rows, strict=False)):
        if number not in source.several:
            path = tuple(answer for _, answer, _ in picks)
            tied = tied or row.get(path) != sum(log for _, _, log in picks)
    if tied:
        raise _Leak("what is picked for a row depends on the answers for another")


def _astray(
    run: Callable[[Any, _Script], _Script],
    first: _Script,
    furthest: tuple[int, ...],
    released: Mapping[Any, Any],
) -> tuple[Any, ...] | None:
    """What rows do when their coin comes up: the coin counts only where they are then drawn anew, and released."""
    lengths = tuple(map(len, first.rows))
    found: list[Any] = []
    for path in (furthest, ()):
        source = run(("astray", path), replace(_fresh(first, path), astray=lengths))
        if released["astray", path] != released[path] or len(source.rows) != len(lengths):
            return None
        for row, (length, picks) in enumerate(zip(lengths[:-1], source.rows[1:], strict=True)):
            if len(picks) != length + lengths[row + 1]:
                return None
            found.append((row, sum(log for _, _, log in picks[:length])))
    return tuple(found)


def _fresh(source: _Script, path: tuple[int, ...]) -> _Script:
    """A script of the same answers along another path, with nothing logged."""
    return _Script(source.answers, path, source.continuous)


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
    for row, (paths, others) in enumerate(zip(one.rows, other.rows, strict=True)):
        # A row that the coin sends anywhere takes every path alike.
        least = COIN - math.log(len(paths)) if _credited(one, other, row) else -math.inf
        gaps = [_gap(paths[path], others[path], least) for path in paths]
        total += draws * max(gaps), -draws * min(gaps)
    calls = [(np.abs(u - v), scale) for (u, scale), (v, _) in zip(a.gaussian, b.gaussian, strict=True)]
    return float(total.max()) + (_gaussian_loss(calls, epsilon, delta) if calls else 0.0)


def _refuse_leaks(one: _Log, other: _Log) -> None:
    """Everything but the values that noise hides must be the same for both."""
    if bool(one.raised) != bool(other.raised):
        raise _Leak(f"whether the draw fails depends on the records: {one.raised or other.raised}")
    if _shape(one) != _shape(other):
        raise _Leak("with the answers of the noise held fixed, what is asked of it depends on the records")
    if one.released != other.released:
        raise _Leak("with the noise held fixed, the release depends on the records")


def _credited(one: _Log, other: _Log, row: int) -> bool:
    """Whether the coin of a row sends it anywhere, in both data sets alike and to every point with equal chance."""
    if one.astray is None or other.astray is None:
        return False
    logs = [log for astray in (one.astray, other.astray) for at, log in astray if at == row]
    even = -math.log(len(one.rows[row]))
    return bool(logs) and all(abs(log - even) < 1e-6 for log in logs)


def _asked(source: _Script) -> Any:
    """All that was asked along one path."""
    laplace = [(values.tolist(), scale, shares) for values, scale, shares in source.laplace]
    gaussian = [(values.tolist(), scale) for values, scale in source.gaussian]
    return laplace, gaussian, [logs.tolist() for logs in source.choices], source.rows, source.gammas, source.coins


def _shape(log: _Log) -> Any:
    """What was asked of the source, but for the values that noise hides."""
    source = log.source
    laplace = [(values.shape, scale, shares) for values, scale, shares in source.laplace]
    gaussian = [(values.shape, scale) for values, scale in source.gaussian]
    return (
        laplace,
        gaussian,
        [len(logs) for logs in source.choices],
        [row.keys() for row in log.rows],
        (source.gammas, source.coins),
    )


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
    delta = float(guarantee.delta)

    def bounds(hits: Integers, others: Integers) -> Floats:
        """Lower bounds of epsilon from so many draws beyond a threshold (Clopper and Pearson); -inf for none."""
        lower = np.where(hits > 0, beta_law.ppf(each / 2, np.maximum(hits, 1), half - hits + 1), 0.0)
        upper = np.where(others < half, beta_law.ppf(1 - each / 2, others + 1, np.maximum(half - others, 1)), 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(lower - delta, 0) / upper))

    for p, q in ((outputs[0], outputs[1]), (outputs[1], outputs[0])):
        for one, other in zip(p, q, strict=True):
            for sign in (1, -1):
                grid = np.quantile(sign * one[:half], np.linspace(0.0005, 0.9995, 400))
                # The raw ratio is largest far out, where nothing is sure: what counts is what can be shown.
                ahead = half - np.searchsorted(np.sort(sign * one[:half]), grid)
                behind = half - np.searchsorted(np.sort(sign * other[:half]), grid)
                at = grid[np.argmax(np.where(ahead >= LEAST_HITS, bounds(ahead, behind), -np.inf))]
                hits, others = np.sum(sign * one[half:] >= at), np.sum(sign * other[half:] >= at)
                best = max(best, float(bounds(hits, others)))
    return best


# ------------------------------------------------------------------------------------------------------- tiny data sets


def _network(sizes: dict[str, int], arcs: str = "") -> Network:
    """A network from the number of states of each node and arcs such as "a>b b>c"."""
    pairs = [arc.split(">") for arc in arcs.split()]
    variables = tuple(Variable(node, tuple(f"s{code}" for code in range(size))) for node, size in sizes.items())
    return Network(variables, {node: tuple(parent for parent, child in pairs if child == node) for node in sizes})


def _counts(network: Network, records: Iterable[Record]) -> Counts:
    """Counts of the families and of whole records, one kind of record at a time."""
    tables = {node: np.zeros(network.shape(node), np.int64) for node in network.nodes}
    whole = np.zeros(tuple(variable.size for variable in network.schema), np.int64)
    for record, times in Counter(records).items():
        whole[record] += times
        code = dict(zip(network.nodes, record, strict=True))
        for node in network.nodes:
            tables[node][tuple(code[name] for name in network.family(node))] += times
    return Counts(Tables(network, tables), RecordsPolicy("error", "error"), {network.nodes: whole})


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
