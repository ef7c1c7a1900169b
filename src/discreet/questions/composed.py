"""Questions made of several queries: values in every draw, and answers from them.

All queries of a question are answered from the same draws. Its value in a draw is computed from theirs in that draw, so
that the correlation between them counts, and its interval is of these values. Where laws inside bins are open, every
query has a least and a largest value in each draw; these are carried through by interval arithmetic.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError, require, shown
from discreet.inference.weighted_records import Sampling
from discreet.model.network import Network
from discreet.model.query_grammar import ComposedQuery, NumberQuery, PlainQuery
from discreet.posterior.basis import MOST_NAMED_PAIRS, Mark
from discreet.posterior.protocol import NetworkPosterior, equal_tails
from discreet.queries.answers import Answer, AnswerDraws, AnswerRow, EvidenceProbability
from discreet.queries.credible import credible_interval
from discreet.queries.query import noise_share, possible_draws, resample
from discreet.util.arrays import Floats

MOST_TERMS = 100
"""Most terms of a question: numbers, queries, and conditions of its events."""
MOST_NESTED = 32
"""Depth of brackets and of `not` in a question."""
WEAKEST: tuple[Mark, ...] = get_args(Mark)[::-1]
"""Marks of answers, the weakest first: a question has the weakest of its queries."""
LARGE = 1e300
"""Number that stands for infinity where draws are sorted, whose differences must be numbers."""
BRACKET = re.compile(r'"[^"]*"|[()]')
Item = TypeVar("Item")
Positions = npt.NDArray[np.intp]


def refuse(text: str, position: int, reason: str) -> NoReturn:
    """Raise an error at a position of a question's text.

    Args:
        text: whole text of the question.
        position: counted from 0; the message counts from 1.
        reason: rest of the message.

    Raises:
        InputError: always: `query TEXT: at N, REASON`, a long text shortened.
    """
    raise InputError(f"query {shown(text.strip())}: at {position + 1}, {reason}")


def find_closing(text: str, start: int) -> int:
    """Find the bracket that closes one, outside quotes.

    Args:
        text: whole text.
        start: position behind the opening bracket.

    Returns:
        Position of the closing bracket; the length of the text if there is none.
    """
    depth = 1
    for match in BRACKET.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return len(text)


def check_terms(text: str, number: int, beyond: int) -> None:
    """Refuse a question of more than `MOST_TERMS` terms at the position of the first one beyond."""
    if number > MOST_TERMS:
        refuse(text, beyond, f"{number:,} terms are more than the {MOST_TERMS} of a question; ask several")


@dataclass(frozen=True, eq=False)
class Values:
    """A question's numbers in every draw.

    Args:
        states: what each number is of, by variable.
        draws: shape `(rows, draws)`; NaN where an evidence is impossible.
        scale: least and largest value that the question can have.
        ends: least and largest values over all laws inside bins, same shape each; None if no law matters.
        replicates: values in the replicate draws, shape `(rows, replicates)`; None without these.
    """

    states: tuple[Mapping[str, str], ...]
    draws: Floats
    scale: tuple[float, float]
    ends: tuple[Floats, Floats] | None = None
    replicates: Floats | None = None

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Least and largest values in every draw, within the scale; by loose bounds they may be beyond."""
        if self.ends is None:
            return self.draws, self.draws
        low, high = (np.clip(side, *self.scale) for side in self.ends)
        return low, high

    def interval(self, level: float, chosen: Positions) -> tuple[Floats, Floats]:
        """Compute the intervals of all rows over some draws, which hold for every law inside bins.

        Each goes from the lower end of the interval of the least values to the upper end of that of the largest
        (`scaled_interval`).

        Args:
            level: posterior probability.
            chosen: positions of the draws, perhaps repeated.

        Returns:
            (lower, upper), shape `(rows,)` each.
        """
        low, high = (scaled_interval(side[:, chosen], self.scale, level) for side in self.bounds)
        return np.minimum(low[0], high[0]), np.maximum(low[1], high[1])


def scaled_interval(draws: Floats, scale: tuple[float, float], level: float) -> tuple[Floats, Floats]:
    """Compute intervals of numbers that have bounds, or none.

    Args:
        draws: shape `(rows, draws)`, none of them NaN; they may be infinite.
        scale: least and largest value that there is.
        level: posterior probability.

    Returns:
        (lower, upper), shape `(rows,)`. Between two bounds they are those of `credible_interval`, on the line from one
        bound to the other. Beside one bound they are, too, on a line from it to twice the distance of the farthest
        draw, so that no draw reaches the other end. Without bounds they are equal-tailed. Draws are clipped to LARGE in
        absolute value, and ends of LARGE / 4 or more are infinite.
    """
    low, high = scale
    draws = np.clip(draws, -LARGE, LARGE)
    if math.isinf(low) and math.isinf(high):
        ends = equal_tails(draws, level, axis=-1)
    elif math.isinf(low):
        upper, lower = scaled_interval(-draws, (-high, -low), level)
        return -lower, -upper
    else:
        # The line is longer than the draws reach where it has no end: nothing lies at its end then.
        length = np.maximum(2 * (draws.max(axis=-1) - low), np.finfo(float).tiny) if math.isinf(high) else high - low
        shares = (draws - low) / np.reshape(length, (-1, 1))
        ends = cast("tuple[Floats, Floats]", tuple(low + length * end for end in credible_interval(shares, level)))
    lower, upper = (np.where(np.abs(end) >= LARGE / 4, np.copysign(np.inf, end), end) for end in ends)
    return lower, upper


@dataclass(frozen=True, eq=False)
class Atoms:
    """Answers that a question is computed from.

    Args:
        answers: to its queries, by their texts.
        posterior: that answered.
        level: posterior probability of each interval.
        notes, assumes: what has to be said of the numbers, and what they take for granted; questions add to them.
        evidence: probabilities of events that questions have as evidence; questions add to it.
        rare: texts of questions whose evidence is too rare; questions add to it.
    """

    answers: Mapping[str, Answer]
    posterior: NetworkPosterior
    level: float
    notes: list[str] = field(default_factory=list)
    assumes: list[str] = field(default_factory=list)
    evidence: list[EvidenceProbability] = field(default_factory=list)
    rare: list[str] = field(default_factory=list)

    def drawn(self, query: PlainQuery) -> AnswerDraws:
        """Return the draws of the answer to a query, which is found by its text; it must have draws."""
        drawn = self.answers[str(query)].drawn
        assert drawn is not None
        return drawn

    @property
    def weights(self) -> Floats | None:
        """Weights of the draws, shape (draws,), which are the same for all queries; None if draws are not weighted.

        Answers without draws are left out.

        Raises:
            InputError: queries weight draws by different evidence.
        """
        first, *rest = (answer.drawn.weights for answer in self.answers.values() if answer.drawn is not None)
        if first is not None and not all(each is not None and np.array_equal(each, first) for each in rest):
            raise InputError(
                "a predictive answer weights draws by its evidence, so answers given different evidence have no draws "
                "in common; ask without predictive, or for each of them"
            )
        return first

    def pick(self, draws: Floats) -> Positions:
        """Find the positions of the draws that intervals are computed of.

        Args:
            draws: shape `(rows, draws)`; a draw that is NaN in any row is left out.

        Returns:
            Positions in ascending order; with weights they are resampled (`resample`), so that some are repeated.
        """
        possible = np.flatnonzero(~np.isnan(draws).any(axis=0))
        require(possible.size > 0, "the evidence is impossible in every draw; check its states")
        weights = self.weights
        return possible if weights is None else possible[resample(weights[possible])]


class Composition(ComposedQuery):
    """A question made of queries, or one of them."""

    unit = "number"
    divides = False
    """True if it divides by a number that may come near 0, so that its median says more than its mean."""

    @abstractmethod
    def values(self, atoms: Atoms) -> Values:
        """Compute its numbers in every draw.

        Raises:
            InputError: they are not determined.
        """

    def combine(self, answers: Sequence[Answer], posterior: NetworkPosterior, level: float) -> Answer:
        """Compute the answer to the question from those to its queries.

        Args:
            answers: to the queries of `atoms`, in any order, all with draws.
            posterior: that answered.
            level: posterior probability of each interval.

        Returns:
            An answer with a row for each number of the question (`_summarise`).

        Raises:
            InputError: the numbers are not determined, or the evidence is impossible in more than half of the draws.
        """
        atoms = Atoms({answer.query: answer for answer in answers}, posterior, level)
        return _summarise(self, self.values(atoms), atoms)


@dataclass(frozen=True)
class Single(Composition):
    """One query.

    Args:
        query: the query.
    """

    query: PlainQuery

    def __str__(self) -> str:
        """Write the query."""
        return str(self.query)

    def atoms(self, network: Network) -> tuple[PlainQuery, ...]:
        """List the query itself, alone."""
        return (self.query,)

    def values(self, atoms: Atoms) -> Values:
        """Read the draws of the query's answer, a row for each of its rows.

        The scale is 0 to 1 for a probability or share, -1 to 1 for a correlation, 0 to infinity for a variance or
        standard deviation, and unbounded for any other number.
        """
        drawn, answer = atoms.drawn(self.query), atoms.answers[str(self.query)]
        scale = (0.0, 1.0)
        if isinstance(self.query, NumberQuery) and self.query.kind not in ("marginal", "conditional"):
            scale = scale_of(self.query.quantity)
        states = tuple(row["state"] for row in answer.rows)
        return Values(states, drawn.values, scale, drawn.ends, drawn.replicates)


def scale_of(quantity: str) -> tuple[float, float]:
    """The least and the largest value of a quantity of numbers."""
    limit = 1.0 if quantity == "correlation" else math.inf
    return (0.0 if quantity in ("sd", "variance") else -limit, limit)


# ------------------------------------------------------------------------------------------------------------- answers


def _summarise(question: Composition, values: Values, atoms: Atoms) -> Answer:
    """Compute the answer to a question from its numbers in every draw.

    Draws that are NaN in any row are left out; `left_out` is their fraction. "mean" is the weighted mean of the others,
    or, for a question that divides, their median (resampled by weights), which a note says. "lower" and "upper" hold
    for every law inside bins (`Values.interval`) and contain the interval of the draws. If a query's answer has laws
    inside bins, the latter is "law_lower" and "law_upper". "noise" is that of `_split_variance`, None without
    replicates. Basis, assumptions and notes are joined from the queries (`_join_grounds`).

    Args:
        question: the question.
        values: its numbers.
        atoms: answers to its queries; a note is added for a median.

    Raises:
        InputError: its evidence is impossible in more than half of the draws, or leaves too few of them
            (`possible_draws`).
    """
    weights, draws = atoms.weights, values.draws
    marked = np.where(np.isnan(draws).any(axis=0), np.nan, 0.0)[None]
    # The kernel's rule for draws that make evidence impossible, whichever of several evidences it is.
    possible, shares = possible_draws(question, marked, weights)
    picked = atoms.pick(draws)
    lower, upper = values.interval(atoms.level, picked)
    within = scaled_interval(draws[:, picked], values.scale, atoms.level)
    answers = tuple(atoms.answers.values())
    drawn = next(answer.drawn for answer in answers if answer.drawn is not None)
    binned = any(answer.drawn is not None and answer.drawn.ends is not None for answer in answers)
    share = error = np.full(len(draws), np.nan)
    if values.replicates is not None:
        share, error = _split_variance(question, draws[:, :: drawn.step], values.replicates, drawn.effective)
    means = np.median(draws[:, picked], axis=1) if question.divides else draws[:, possible] @ shares
    if question.divides:
        atoms.notes.append(f"{question}: the mean is the median, as a ratio need not have a mean")
    rows = list[AnswerRow]()
    for at, state in enumerate(values.states):
        low, high = float(min(lower[at], within[0][at])), float(max(upper[at], within[1][at]))
        row: AnswerRow = {"state": dict(state), "mean": float(means[at]), "lower": low, "upper": high}
        noise = None if math.isnan(share[at]) else float(share[at])
        row["noise"], row["noise_error"] = noise, None if noise is None else float(error[at])
        if binned:
            row["law_lower"], row["law_upper"] = float(within[0][at]), float(within[1][at])
        rows.append(row)
    drawn = replace(drawn, values=draws, ends=values.ends, replicates=values.replicates)
    left_out = float(1 - possible.mean())
    answer = Answer(str(question), question.kind, atoms.level, tuple(rows), question.unit, left_out, drawn=drawn)
    return _join_grounds(answer, atoms)


def _split_variance(
    question: Composition, draws: Floats, replicates: Floats, effective: float | None
) -> tuple[Floats, Floats]:
    """Estimate the noise's share of each number's variance, and its standard error, by `noise_share`.

    For a question that divides they are of the logarithms of the numbers.

    Args:
        question: the question.
        draws: values in the draws that have a replicate, shape `(rows, replicates)`.
        replicates: values in the replicates, same shape.
        effective: effective sample size of these draws; None if it is their number.

    Returns:
        (share, error), shape `(rows,)` each; NaN for all rows if any value, or its logarithm, is infinite.
    """
    if question.divides:
        with np.errstate(divide="ignore", invalid="ignore"):
            draws, replicates = np.log(draws), np.log(replicates)
    if np.isinf(draws).any() or np.isinf(replicates).any():
        return np.full(len(draws), np.nan), np.full(len(draws), np.nan)
    return noise_share(draws, replicates, effective)


def _join_grounds(answer: Answer, atoms: Atoms) -> Answer:
    """Return a copy of an answer with what the answers to a question's queries rest on, each item once.

    The basis is the weakest of theirs (WEAKEST), None if that of any is unknown, and "prior" if the evidence of a
    query, or of an event, is too rare. Of all evidences the first is `evidence` and the others `more_evidence`; of the
    same text the last counts. `unmeasured` and `prior_only` have at most MOST_NAMED_PAIRS items. `assumes` and
    `concerns` are those of the queries, then those of `atoms`.
    """
    answers = tuple(atoms.answers.values())
    too_rare = bool(atoms.rare) or any(each.too_rare for each in answers)
    marks = [each.basis for each in answers]
    known = [mark for mark in marks if mark is not None]
    basis = min(known, key=WEAKEST.index) if known and None not in marks else None
    seen = [each.evidence for each in answers if each.evidence is not None]
    evidence = list({each.query: each for each in (*seen, *atoms.evidence)}.values())
    return replace(
        answer,
        basis="prior" if too_rare and basis is not None else basis,
        too_rare=too_rare,
        evidence=evidence[0] if evidence else None,
        more_evidence=tuple(evidence[1:]),
        unmeasured=_join(answers, lambda each: each.unmeasured)[:MOST_NAMED_PAIRS],
        prior_only=_join(answers, lambda each: each.prior_only)[:MOST_NAMED_PAIRS],
        assumes=(*_join(answers, lambda each: each.assumes), *dict.fromkeys(atoms.assumes)),
        sampling=_join_sampling([each.sampling for each in answers if each.sampling is not None]),
        sums=_join(answers, lambda each: each.sums),
        clipped=_join(answers, lambda each: each.clipped),
        concerns=(*_join(answers, lambda each: each.concerns), *dict.fromkeys(atoms.notes)),
    )


def _join(answers: Sequence[Answer], list_of: Callable[[Answer], tuple[Item, ...]]) -> tuple[Item, ...]:
    """List the items of all answers, each once, in the order of first occurrence.

    Args:
        answers: to a question's queries.
        list_of: reads the items of one answer.
    """
    return tuple(dict.fromkeys(item for each in answers for item in list_of(each)))


def _join_sampling(errors: Sequence[Sampling]) -> Sampling | None:
    """Join the errors of sampled answers to the worst in every respect; None if all answers are exact.

    These are the fewest records and the least effective size, and the largest error and widening.
    """
    if not errors:
        return None
    return Sampling(
        min(each.records for each in errors),
        min(each.effective for each in errors),
        max(each.error for each in errors),
        max(each.widening for each in errors),
    )
