"""Scripts: a source of randomness with fixed answers, and a log of what a mechanism passed to it.

The audit runs a draw once for every answer that a choice or a row can have, and keeps what was asked along the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism, Statistic
from discreet.model.over import Prior
from discreet.noise.noise_laws import ShapeTag

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NOISE_SCRIPTS = 5
"""Number of scripts of noise: none, a little on both sides, much on both sides, much above, much below. A second
stage, or what is released, may depend on the answers of the first."""
MOST_NOISE_BITS = 40
"""Much noise is a power of two, at most this one."""
MOST_NOISE_CALLS = 1000
"""Most calls for noise in one draw: a mechanism with more resamples until it likes an answer."""
SCRAMBLED_RUNS = 1
"""Runs in which every row, and every draw of a row, takes a path of its own."""
TAG_DIGIT = 2**40
"""Counts of a sample carry a tag of the sample above this digit."""
TAG_RANGE = 2**20, 2**22
"""Range of random tags: their sums and multiples are then hardly ever tags."""


class Leak(Exception):
    """Error: with the noise held fixed, the release still depends on the records; the text says how."""


class Lost(InputError):
    """Error: the audit cannot follow what the mechanism does."""


@dataclass(frozen=True)
class ScriptedAnswers:
    """Answers of a script, equal for every data set.

    Args:
        noise: kind of noisy numbers, 0 to NOISE_SCRIPTS - 1.
        choice: index of every choice, as far as there is one.
    """

    noise: int = 0
    choice: int = 0


@dataclass
class Script:
    """Source of randomness that logs its input and answers by a script, independently of the input.

    Args:
        answers: of the script.
        path: answers of `pick` in every row; those beyond its end are 0.
        continuous: whether gamma variates may be asked for.
        scramble: seed of paths that differ from row to row and from draw to draw; 0 for `path`.
        tagging: seed of the tags of samples.
        first: answer to the first vector; None for that of the script.
        astray: None for coins that come up False; else how many picks each row has: then all coins come up True, and
            `path` is for the picks that follow a coin.
    """

    answers: ScriptedAnswers
    path: tuple[int, ...] = ()
    continuous: bool = False
    scramble: int = 0
    tagging: int = 0
    first: Integers | None = None
    astray: tuple[int, ...] | None = None
    laplace: list[tuple[Integers, float, tuple[Fraction, ...]]] = field(default_factory=list)
    gaussian: list[tuple[Integers, float]] = field(default_factory=list)
    vectors: list[tuple[Integers, float, ShapeTag]] = field(default_factory=list)
    stars: list[tuple[tuple[Integers, ...], float]] = field(default_factory=list)
    gammas: list[tuple[int, ...]] = field(default_factory=list)
    choices: list[Floats] = field(default_factory=list)
    rows: list[list[tuple[int, int, float]]] = field(default_factory=lambda: [[]])
    several: set[int] = field(default_factory=set)
    samples: dict[int, Fraction] = field(default_factory=dict)
    thinned: int = 0
    coins: int = 0

    @property
    def scripted(self) -> bool:
        """True if the script answered with noisy numbers."""
        return bool(self.laplace or self.gaussian or self.vectors or self.stars or self.gammas)

    @property
    def cells(self) -> tuple[int, ...]:
        """Number of noisy numbers requested, not of calls: honest noise may be grouped by its scale."""
        plain = (sum(call[0].size for call in calls) for calls in (self.laplace, self.gaussian, self.vectors))
        return (*plain, sum(table.size for tables, _ in self.stars for table in tables))

    def _answer(self, shape: tuple[int, ...]) -> Integers:
        """Make an answer that is equal for every data set."""
        calls = len(self.laplace) + len(self.gaussian) + len(self.vectors) + len(self.stars)
        if calls > MOST_NOISE_CALLS:
            raise Leak("noise is asked for again and again, until an answer suits")
        return _make_noise(self.answers.noise, calls, shape).copy()

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        """Log the values, and answer."""
        counts, shares = self._remove_tags(values)
        self.laplace.append((counts, scale, shares))
        return self._answer(values.shape)

    def discrete_gaussian(self, values: Integers, scale: float) -> Integers:
        """Log the values, and answer."""
        counts, shares = self._remove_tags(values)
        if set(shares) != {Fraction(1)}:
            raise Lost("the audit cannot follow Gaussian noise on a sample of the records")
        self.gaussian.append((counts, scale))
        first = len(self.gaussian) == 1 and not self.vectors
        return self.first if first and self.first is not None else self._answer(values.shape)

    def thin(self, values: Integers, probability: Fraction) -> Integers:
        """Mark every count as one of a separate sample, without drawing."""
        tags = np.random.default_rng([self.tagging, self.thinned]).choice(
            TAG_RANGE[1] - TAG_RANGE[0], values.size, replace=False
        )
        tags += TAG_RANGE[0]
        self.thinned += values.size
        self.samples |= dict.fromkeys(tags.tolist(), probability)
        return values + TAG_DIGIT * tags.reshape(values.shape)

    def _remove_tags(self, values: Integers) -> tuple[Integers, tuple[Fraction, ...]]:
        """Find counts as they were before sampling, and each one's probability."""
        tags = (values + TAG_DIGIT // 2) // TAG_DIGIT
        chances = [self.samples.pop(tag, None) if tag else Fraction(1) for tag in tags.ravel().tolist()]
        shares = tuple(share for share in chances if share is not None)
        if len(shares) < len(chances):
            raise Lost("the audit cannot follow a sample of the records that is used twice or summed")
        return values - TAG_DIGIT * tags, shares

    def noisy_max(self, scores: Floats, scale: float) -> int:
        """Log the probabilities."""
        logs = scores / scale
        self.choices.append(np.asarray(logs - np.logaddexp.reduce(logs)))
        return min(self.answers.choice, len(scores) - 1)

    def choose(self, exponents: Sequence[Fraction], draws: int) -> Integers:
        """Log the probabilities, once for each draw; all get the same answer."""
        scores = -np.array([float(exponent) for exponent in exponents])
        return np.array([self.noisy_max(scores, 1.0) for _ in range(draws)], np.int64)

    def pick(self, weights: Floats, draws: int) -> Integers:
        """Log the width, the answer and its log-probability, so many times; answer along the path."""
        picks, row = self.rows[-1], len(self.rows) - 1
        width, step = len(weights), len(picks)
        if draws > 1:
            self.several.add(row)
        if self.scramble:
            picked = np.random.default_rng([self.scramble, row, step]).integers(0, width, draws)
        else:
            # After a coin, a row's picks follow those of the row before that went astray and are not on the path.
            on = self.astray is None or (0 < row <= len(self.astray) and step < self.astray[row - 1])
            answer = self.path[step] if on and step < len(self.path) else 0
            picked = np.full(draws, min(answer, width - 1), np.int64)
        total, chosen = float(weights.sum()), picked.tolist() if self.scramble else [int(picked[0])]
        shares = [float(weights[answer]) / total for answer in chosen]
        log = sum(math.log(share) if share > 0 else -math.inf for share in shares)
        picks.append((width, chosen[0], log if self.scramble else draws * log))
        return picked

    def rarely(self, draws: int) -> npt.NDArray[np.bool_]:
        """End a row."""
        self.coins += 1
        self.rows.append([])
        return np.full(draws, self.astray is not None)

    def log_gamma(self, shapes: Floats) -> Floats:
        """Log the number of variates; their release is audited statistically, all else exactly."""
        if not self.continuous:
            raise Lost("gamma variates are audited statistically")
        self.gammas.append(shapes.shape)
        return np.random.default_rng([self.answers.noise, len(self.gammas)]).normal(size=shapes.shape)

    def k_norm(self, values: Integers, scale: float, shape: ShapeTag) -> Integers:
        """Log the values, and answer."""
        self.vectors.append((values, scale, shape))
        first = len(self.vectors) == 1 and not self.gaussian
        return self.first if first and self.first is not None else self._answer(values.shape)

    def star(self, tables: Sequence[Integers], scale: float) -> list[Integers]:
        """Log the values, and answer by numbers that agree on what the tables share."""
        self.stars.append((tuple(table.copy() for table in tables), scale))
        answers = [self._answer(table.shape) for table in tables]
        totals = answers[0].sum(axis=1)
        for answer in answers:
            answer[:, -1] += totals - answer.sum(axis=1)
        return answers

    def uniforms(self, number: int) -> Floats:
        """Refuse: uniform variates are audited statistically, never by a script."""
        raise Leak("uniform variates were asked for, which this audit cannot follow")


@lru_cache(maxsize=1024)
def _make_noise(kind: int, calls: int, shape: tuple[int, ...]) -> Integers:
    """Make noise of a kind for one call: deterministic and cached; do not change it."""
    rng = np.random.default_rng([kind, calls])
    if kind < 2:
        return rng.integers(-3 * kind, 3 * kind + 1, shape)
    signs = rng.choice([-1, 1], shape) if kind == 2 else np.full(shape, 1 if kind == 3 else -1)
    return np.asarray(signs * 2 ** rng.integers(0, MOST_NOISE_BITS + 1, shape), np.int64)


@dataclass(frozen=True)
class Log:
    """Log of a mechanism for one data set: its requests for noise, and its release along every path.

    Args:
        source: of the first path.
        released: numbers of the payload for every path, and for every other run.
        rows: for each row, log-probabilities of all sequences of answers.
        astray: for each row, what is picked after its coin and with which log-probability; None where that is not what
            is then released.
        raised: the exception that ended the draw; empty where none did.
    """

    source: Script
    released: Mapping[Any, Any]
    rows: tuple[Mapping[tuple[int, ...], float], ...]
    astray: tuple[Any, ...] | None
    raised: str = ""


def logged(
    mechanism: Mechanism,
    calibration: Any,
    prior: Prior,
    counts: Statistic,
    answers: ScriptedAnswers,
    real: Any = None,
    *,
    again: bool = False,
) -> Log:
    """Run the draw by a script once for every path of a row, all rows on the same path; then on scrambled paths.

    Args:
        mechanism: whose draw is run.
        calibration: by which it is enumerated.
        prior: public.
        counts: or another statistic, of one data set.
        answers: of the script.
        real: another calibration by which the draw is run once, without a loss; None for none.
        again: whether to run it once more, to find randomness that is not the source's.

    Returns:
        What was asked and released, along every path.

    Raises:
        Leak: a release that depends on what it must not.
        Lost: a use of randomness that cannot be followed.
    """
    continuous = calibration.continuous
    released: dict[Any, Any] = {}
    rows: list[dict[tuple[int, ...], float]] = []
    first, raised = Script(answers, continuous=continuous), ""

    def run(name: Any, source: Script, by: Any = calibration) -> Script:
        nonlocal raised
        released[name], failure = _draw_release(mechanism, prior, counts, by, source)
        raised = raised or failure
        return source

    todo: list[tuple[int, ...]] = [()]
    while todo:
        path = todo.pop()
        source = run(path, _restart(first, path) if path else first)
        rows += [{} for _ in range(len(source.rows) - len(rows))]
        for row, picks in zip(rows, source.rows, strict=False):
            row[tuple(answer for _, answer, _ in picks)] = sum(log for _, _, log in picks)
        longest = max(source.rows, key=len)
        for step in range(len(path), len(longest)):
            width = max(picks[step][0] for picks in source.rows if len(picks) > step)
            todo += [(*path, *(0,) * (step - len(path)), answer) for answer in range(1, width)]
    picking, furthest = any(first.rows), max(released)
    for seed in range(1, SCRAMBLED_RUNS + 1) if picking else ():
        source = run(("scrambled", seed), Script(answers, continuous=continuous, scramble=seed))
        _refuse_tied_rows(rows, source)
    if real is not None:
        run("real", Script(answers, continuous=continuous, scramble=1), real)
    if again:
        source = run("again", Script(answers, continuous=continuous, tagging=1))
        if released["again"] != released[()] or _list_requests(source) != _list_requests(first):
            raise Leak("the same answers do not give the same release: other randomness, or a sample without noise")
    astray = _follow_strays(run, first, furthest, released) if picking and first.coins and not raised else None
    return Log(first, released, tuple(rows), astray, raised)


def _draw_release(
    mechanism: Mechanism,
    prior: Prior,
    counts: Statistic,
    calibration: Any,
    source: Script,
) -> tuple[Any, str]:
    """Draw a release; return the numbers of its payload, or the exception in their place."""
    try:
        payload: Any = mechanism.draw(counts, prior, calibration, source)
    except (Leak, Lost):
        raise
    except Exception as error:  # any exception is visible to whoever waits for the release
        return ("raised", type(error).__name__, str(error)), f"{type(error).__name__}: {error}"
    elsewhere = payload.over != prior.over
    if elsewhere and not mechanism.finds_bins:
        raise Leak("the release is over another network or design than the records")
    # Found bins are released beside the numbers.
    return (numbers(payload), payload.over if elsewhere else None), ""


def _refuse_tied_rows(rows: list[dict[tuple[int, ...], float]], source: Script) -> None:
    """Refuse rows whose distribution depends on the answers of other rows: losses of rows are added."""
    tied = len(source.rows) != len(rows)
    for number, (row, picks) in enumerate(zip(rows, source.rows, strict=False)):
        if number not in source.several:
            path = tuple(answer for _, answer, _ in picks)
            tied = tied or row.get(path) != sum(log for _, _, log in picks)
    if tied:
        raise Leak("what is picked for a row depends on the answers for another")


def _follow_strays(
    run: Callable[[Any, Script], Script],
    first: Script,
    furthest: tuple[int, ...],
    released: Mapping[Any, Any],
) -> tuple[Any, ...] | None:
    """Follow rows whose coin comes up: it counts only if they are then drawn anew and released."""
    lengths = tuple(map(len, first.rows))
    strays: list[Any] = []
    for path in (furthest, ()):
        source = run(("astray", path), replace(_restart(first, path), astray=lengths))
        if released["astray", path] != released[path] or len(source.rows) != len(lengths):
            return None
        for row, (length, picks) in enumerate(zip(lengths[:-1], source.rows[1:], strict=True)):
            if len(picks) != length + lengths[row + 1]:
                return None
            strays.append((row, sum(log for _, _, log in picks[:length])))
    return tuple(strays)


def _restart(source: Script, path: tuple[int, ...]) -> Script:
    """Start a script of the same answers along another path, with nothing logged."""
    return Script(source.answers, path, source.continuous)


def _list_requests(source: Script) -> Any:
    """List all requests along one path."""
    laplace = [(values.tolist(), scale, shares) for values, scale, shares in source.laplace]
    gaussian = [(values.tolist(), scale) for values, scale in source.gaussian]
    vectors = [(values.tolist(), scale, shape) for values, scale, shape in source.vectors]
    stars = [([table.tolist() for table in tables], scale) for tables, scale in source.stars]
    choices = [logs.tolist() for logs in source.choices]
    return laplace, gaussian, vectors, stars, choices, source.rows, source.gammas, source.coins


def numbers(value: Any) -> Any:
    """Convert the numbers of a payload or of tables to nested tuples, without what they are over.

    Example:
        >>> numbers({"rate": (1, 2.5)})
        (('rate', (1, 2.5)),)
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    if isinstance(value, Mapping):
        return tuple((key, numbers(item)) for key, item in value.items())
    if hasattr(value, "__dataclass_fields__"):
        # A network in the field "network" is public; the field of another kind that is called alike may not be.
        parts = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return tuple(numbers(part) for name, part in parts.items() if getattr(part, "domain", None) != name)
    return tuple(map(numbers, value)) if isinstance(value, tuple) else value
