"""Answers of a posterior to queries, and their forms: rows, text, data frame and picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict  # pydantic accepts no other TypedDict before Python 3.12

from discreet.display.renderers import NUMBERS, IntervalTable
from discreet.errors import InputError, listed, printable
from discreet.inference.weighted_records import Sampling
from discreet.model.query_grammar import QueryKind
from discreet.model.schema import Scope
from discreet.posterior.basis import Mark, prior_only_words
from discreet.util.arrays import Floats
from discreet.util.attached import above
from discreet.util.option_texts import Inside
from discreet.util.tabular import Block, Result

if TYPE_CHECKING:
    from discreet.queries.regress import Regression

MOST_VARIABLES_A_LINE = 3
"""Largest number of variables of a joint state that are shown on one line."""


class AnswerRow(TypedDict):
    """One number of an answer, with its interval; `Answer.rows` defines the keys.

    All keys except the first four may be absent. "noise" and "noise_error" are None, or absent, if they are unknown.
    Numbers that stand for dates are the days, or seconds, since 1970-01-01, and print as dates.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> row: dc.results.AnswerRow = {"state": {"rain": "yes"}, "mean": 0.3, "lower": 0.2, "upper": 0.4}
        >>> round(row["mean"], 1)
        0.3
    """

    state: dict[str, str]
    mean: float
    lower: float
    upper: float
    noise: NotRequired[float | None]
    noise_error: NotRequired[float | None]
    best: NotRequired[float]
    law_lower: NotRequired[float]
    law_upper: NotRequired[float]


@dataclass(frozen=True, eq=False)
class AnswerDraws:
    """The draws that an answer's means and intervals are made of; position d is the posterior's draw d in all answers.

    Args:
        values: the number of each row in every draw, shape `(rows, draws)`; NaN in draws in which the evidence is
            impossible, which are left out.
        weights: weight of each draw, shape `(draws,)`, with any sum; None if they are equal.
        ends: least and largest value over all laws inside bins, shape `(rows, draws)` each; None if no law matters.
        replicates: values in the replicate of every `step`-th draw, shape `(rows, replicates)`; None without these.
        step: every `step`-th draw, from the first on, has a replicate.
        effective: effective sample size of the draws that have a replicate; None if it is their number.
    """

    values: Floats
    weights: Floats | None = None
    ends: tuple[Floats, Floats] | None = None
    replicates: Floats | None = None
    step: int = 1
    effective: float | None = None


@dataclass(frozen=True)
class EvidenceProbability:
    """Posterior probability of the evidence of a query, with its interval.

    Args:
        query: text of the probability, `P(...)` of all observed states, sorted by the names of their variables.
        mean: posterior mean of the probability.
        lower: lower end of its interval, at the answer's level.
        upper: upper end of its interval.

    Raises:
        Nothing.

    Example:
        >>> str(EvidenceProbability("P(smoke=yes)", 0.5, 0.478, 0.52))
        'P(smoke=yes) = 0.5 (0.478 to 0.52)'
    """

    query: str
    mean: float
    lower: float
    upper: float

    def __str__(self) -> str:
        """Write `QUERY = MEAN (LOWER to UPPER)`, numbers to three digits, unprintable characters escaped."""
        return f"{printable(self.query)} = {self.mean:.3g} ({self.lower:.3g} to {self.upper:.3g})"


@dataclass(frozen=True)
class Answer(Result):
    """Posterior means and credible intervals of the quantities that a query names.

    Args:
        query: text of the query.
        kind: "marginal", "conditional", "map", "mpe", "mean" or "quantile".
        level: posterior probability of each interval.
        rows: one row for each joint state of the query, `{"state": {variable: state}, "mean": x, "lower": x, "upper":
            x, "noise": x, "noise_error": x}`. "noise" is the share of the variance due to the privacy noise, as in
            `noise_share`, and "noise_error" its standard error; both are None if the posterior does not separate noise
            from sampling. "map" and "mpe" have at most 16 rows, by decreasing mean, each with "best": the fraction of
            the draws in which its state is the most probable. With at most 4,096 joint states the first row has the
            largest posterior mean of all states, otherwise the largest of the listed ones; the other rows are the
            states that are most probable in most draws. A query of a number has one row. Its "mean" uses the law inside
            bins; "lower" and "upper" hold for every law inside bins, "law_lower" and "law_upper" for the stated one.
        unit: unit of the numbers.
        left_out: fraction of the draws in which the evidence is impossible; no number uses them.
        basis: kind of support of the answer: "measured" (one released table contains all its variables), "inferred"
            (each pair of them lies in some table), "assumed" (a pair lies in no table, and the network's assumption
            about it is used), "contradicted" (the network's assumption is used against a table that refutes it), or
            "prior" (it needs a quantity that no measurement informs, see `prior_only`; or it is `too_rare`). None if it
            is unknown.
        unmeasured: pairs of its variables that lie in no table, at most 20.
        prior_only: quantities that the answer needs and that no measurement informs, so that only the prior determines
            them: `(node,)` for the distribution of a node that no table contains, `(parent, node)` for the dependence
            of a node on a parent if no table contains both; at most 20.
        inside: law inside bins of "mean", "law_lower" and "law_upper", for a query of a number; else None.
        sampling: if exact inference is too large: the number of records simulated under each draw, their effective
            sample size, the standard error of the means, and the fraction by which intervals are wider for it. None if
            inference is exact.
        assumes: further assumptions beside those on `unmeasured`, a sentence each.
        evidence: probability of the observed states, with its interval; None if nothing is observed.
        sums: released sums of numbers from which an answer on a number was read; empty if it was read from bins alone.
        clipped: how numbers of its variables beyond bounds that a release found are clipped, and how many records these
            are, a sentence each.
        concerns: what an answer is about, where that is not all records of the population, or not the mean: records
            that a column applies to, those of a release, a median; a sentence each.
        too_rare: whether the evidence is so rare that the answer is not informative: every interval is at least as wide
            as its level, like that of a probability with a uniform posterior.
        more_evidence: probabilities of further evidence, of a question made of several queries.
        drawn: the draws that the intervals are made of; None if they are made of none: bounds that assume nothing, and
            answers read from a document or a server.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> row = {"state": {"rain": "yes"}, "mean": 0.3, "lower": 0.2, "upper": 0.4, "noise": 0.5, "noise_error": 0.1}
        >>> found = dc.results.Answer("P(rain=yes)", "marginal", 0.95, (row,), basis="measured")
        >>> found.rows[0]["mean"], found.unit
        (0.3, 'probability')
    """

    query: str
    kind: QueryKind
    level: float
    rows: tuple[AnswerRow, ...]
    unit: str = "probability"
    left_out: float = 0.0
    basis: Mark | None = None
    unmeasured: tuple[tuple[str, str], ...] = ()
    prior_only: tuple[Scope, ...] = ()
    inside: Inside | None = None
    sampling: Sampling | None = None
    assumes: tuple[str, ...] = ()
    evidence: EvidenceProbability | None = None
    too_rare: bool = False
    sums: tuple[str, ...] = ()
    clipped: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()
    more_evidence: tuple[EvidenceProbability, ...] = ()
    drawn: AnswerDraws | None = field(default=None, compare=False, repr=False)

    @property
    def draws(self) -> Floats:
        """The number of each row in every draw of the posterior, shape `(rows, draws)`, to compute on.

        Draws keep their positions, so those of two answers of one posterior belong together; NaN marks draws in which
        the evidence is impossible. Equal-tailed quantiles of them, or `tools.credible_interval` of a probability, are
        the printed interval ("law_lower" and "law_upper" where there are such); `drawn.weights` are their weights, if
        the answer is predictive.

        Raises:
            InputError: the intervals are not made of draws.
        """
        if self.drawn is None:
            raise InputError(f"{self.query}: this answer has no draws; ask a posterior of this process, not for bounds")
        return self.drawn.values

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each joint state of the query, with a column for each variable.

        Returns:
            Rows in the order of `rows`. First a key for each variable with its state; a variable named like one of the
            columns that follow gets the key `NAME (state)`. Then those of "mean", "lower", "upper", "sampling",
            "noise", "noise_error", "best", "law_lower", "law_upper" and "level" that are not None; "sampling" is `1 -
            noise`, the share of the variance due to the finite number of records. Last "basis", if it is not None.
        """
        return [{**_name_row(row), **_number_row(self, row)} for row in self.rows]

    def content(self) -> Iterator[str | Block]:
        """Yield the blocks that `Answers` yields for this answer alone: the table of its rows, then notes."""
        return Answers([self]).content()


class Answers(tuple[Answer, ...], Result):
    """A tuple of answers in the order of their queries, which is shown as one table.

    Raises:
        Nothing: `answer_many` and `marginals` make these.

    Example:
        >>> import discreet as dc
        >>> row = {"state": {"rain": "yes"}, "mean": 0.3, "lower": 0.2, "upper": 0.4}
        >>> found = dc.results.Answers([dc.results.Answer("P(rain=yes)", "marginal", 0.95, (row,))])
        >>> len(found), found.to_frame("arrow").column_names[:3]
        (1, ['query', 'variable', 'state'])
    """

    __slots__ = ()

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each joint state of each query, in the order of the answers.

        Returns:
            Rows of "query", "variable" and "state", several variables joined in one text ("smoke, lung" and "yes, no");
            then "mean", "lower", "upper", "sampling" (`1 - noise`), "noise", "noise_error", "best", "law_lower",
            "law_upper" and "level", without those that are None or absent; last "basis", if it is known. For a query of
            a number "state" names the quantity, such as "mean" or "> 40".
        """
        return [
            {
                "query": answer.query,
                "variable": ", ".join(row["state"]),
                "state": ", ".join(row["state"].values()),
                **_number_row(answer, row),
            }
            for answer in self
            for row in answer.rows
        ]

    def simultaneous(self) -> Answers:
        """Return the answers with intervals that hold for all rows at once, with the probability of the level.

        For each draw the largest deviation from the mean over all rows counts, relative to the half of the interval on
        its side (of "law_lower" and "law_upper", where there are such). The quantile of these at the answers' level, at
        least 1, is one factor, by which all intervals are stretched from their means. Ends of probabilities stay within
        0 and 1. Draws with impossible evidence are left out. Each answer gets a sentence in `concerns`.

        Raises:
            InputError: no answers, other levels, answers without draws, with weights, or with other numbers of draws;
                or no draw in which the evidence of all answers is possible.
        """
        together: Answers = above("Answers.simultaneous")(self)
        return together

    def content(self) -> Iterator[str | Block]:
        """Yield one table of all answers and, if there are notes, an empty line and a line for each note.

        Notes are in this order: assumptions, probabilities of evidence, laws inside bins, draws left out, sampling
        errors, and, each sentence once, which records numbers concern and which are clipped to their bounds.
        """
        yield IntervalTable([row for answer in self for row in _list_shown(answer)])
        left_out = [
            f"{answer.query}: {100 * answer.left_out:.2g} % of the draws make the evidence impossible and are left out"
            for answer in self
            if answer.left_out
        ]
        notes = [*assumption_lines(self), *evidence_lines(self), *_list_bins(self), *left_out, *_list_sampling(self)]
        notes += dict.fromkeys(sentence for answer in self for sentence in (*answer.concerns, *answer.clipped))
        yield from ["", *notes] if notes else []


def _name_row(row: AnswerRow) -> dict[str, Any]:
    """Map each variable of a row to its state; one named like a number or "basis" gets the key `NAME (state)`."""
    states = row["state"].items()
    return {f"{name} (state)" if name in (*NUMBERS, "basis") else name: state for name, state in states}


def _number_row(answer: Answer, row: AnswerRow) -> dict[str, Any]:
    """Collect the numbers of a row that are not None, in the order of NUMBERS, then "basis" if it is not None.

    "level" is that of the answer, and "sampling" is `1 - noise`, left out if the noise share is None or absent. NUMBERS
    is "mean", "lower", "upper", "sampling", "noise", "noise_error", "best", "law_lower", "law_upper" and "level".
    """
    noise = row.get("noise")
    numbers: dict[str, Any] = {**row, "sampling": None if noise is None else 1 - noise, "level": answer.level}
    basis = {} if answer.basis is None else {"basis": answer.basis}
    return {**{name: numbers[name] for name in NUMBERS if numbers.get(name) is not None}, **basis}


def _list_shown(answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield the rows of the shown table: each joint state in one cell, a state of many variables on several lines.

    Args:
        answer: answer to show.

    Returns:
        For each row of the answer "query", "state", its numbers and "basis", with the first line of `_list_state`; then
        for each further line a row of "query" and "state" only. Rows after the first are written relative to the first.
        A row with "law_lower" of a single variable has the value of its state alone, "mean" without the variable, which
        the query names; that of a marginal or conditional has both.
    """
    for index, row in enumerate(answer.rows):
        states = _list_state(row, None if index == 0 else answer.rows[0])
        if "law_lower" in row and len(row["state"]) == 1 and answer.kind not in ("marginal", "conditional"):
            states = list(row["state"].values())  # of a number; the query names the variable
        yield {"query": answer.query, "state": states[0], **_number_row(answer, row)}
        yield from ({"query": answer.query, "state": state} for state in states[1:])


def _list_sampling(answers: Sequence[Answer]) -> list[str]:
    """List a line on the sampling error for each answer with `sampling`: records, effective size, error, widening."""
    return [
        f"{answer.query}: exact inference is out of reach, so this is sampled, {answer.sampling.records:,} records for "
        f"each draw, worth {answer.sampling.effective:,.0f}: standard error of a mean at most "
        f"{answer.sampling.error:.2g}, {_write_widening(answer.sampling.widening)}"
        for answer in answers
        if answer.sampling is not None
    ]


def _write_widening(widening: float) -> str:
    """Write by how much sampling widens the intervals, in percent to two digits; infinity has a phrase of its own."""
    if math.isinf(widening):
        return "and some intervals are of the sampling alone"
    return f"intervals at most {100 * widening:.2g} % wider"


def _list_bins(answers: Sequence[Answer]) -> list[str]:
    """List what each answer on a number rests on inside the bins, and what the interval holds for.

    An answer that was read from sums of numbers has a line with these sums and `_describe_law`. Any other that names a
    law inside bins has a line with this law; only if its basis is "measured" the line adds that the interval holds for
    every law. Other answers have no line.
    """
    lines = []
    for answer in answers:
        if answer.sums:
            lines.append(f"{answer.query}: read from the {listed(answer.sums)}; {_describe_law(answer)}")
        elif answer.inside is not None:
            whatever = "; the interval above holds whatever the law is" if answer.basis == "measured" else ""
            lines.append(f"{answer.query}: mean by the {answer.inside} law inside bins{whatever}")
    return lines


def _describe_law(answer: Answer) -> str:
    """Describe which law inside bins an answer that was read from sums assumes.

    It assumes none if "lower" equals "law_lower" in all rows (a row without "law_lower" counts as equal); the text adds
    "beside what is assumed" if the answer has assumptions. Otherwise, without evidence or with an assumption, the text
    says that the interval holds for every law inside; and given evidence without an assumption, that numbers lie inside
    a bin as in the whole column, except for their mean.
    """
    if all(row["lower"] == row.get("law_lower", row["lower"]) for row in answer.rows):
        return "no law inside bins is needed" + " beside what is assumed" * bool(answer.assumes)
    if answer.evidence is None or answer.assumes:
        return "the interval above holds whatever the law inside the leaves of the ruler, or the bins, is"
    return "inside a bin, numbers are taken to lie as in the whole column, but for their mean"


def assumption_lines(answers: Sequence[Answer | Regression]) -> list[str]:
    """List what answers assume, each line once, in the order of first occurrence; empty if nothing is assumed.

    Args:
        answers: answers and regressions.

    Returns:
        First a line for each answer with the quantities that only the prior determines, then one for each sentence in
        `assumes`, then one for each answer with its pairs that lie in no table. A list of more than a dozen names, or a
        long one, ends in "...".
    """
    lines = [prior_only_words(answer.prior_only) for answer in answers if answer.prior_only]
    lines += [f"assumed: {reason}" for answer in answers for reason in answer.assumes]
    lines += [
        "assumed: no table has " + listed([f"{first} with {second}" for first, second in answer.unmeasured])
        for answer in answers
        if answer.unmeasured
    ]
    return list(dict.fromkeys(lines))


def evidence_lines(answers: Sequence[Answer]) -> list[str]:
    """List the probability of each evidence, then one line with all queries whose evidence is too rare.

    Evidence with the same query text has one line, at its first place and with the numbers of the last answer. Empty if
    nothing is observed.
    """
    seen = [each for answer in answers for each in (answer.evidence, *answer.more_evidence) if each is not None]
    text_of = {each.query: str(each) for each in seen}
    rare = [answer.query for answer in answers if answer.too_rare]
    return [*text_of.values(), *([f"too rare to answer: {listed(rare)}"] if rare else [])]


def _list_state(row: AnswerRow, first: AnswerRow | None) -> list[str]:
    """Write a joint state as lines: one line for few variables, else the differences from the first row's state.

    Args:
        row: row of an answer.
        first: first row of the answer; None if `row` is the first, and then all its variables are written.

    Returns:
        At least one line. With at most MOST_VARIABLES_A_LINE variables one line `a=x, b=y`. With more, the first row
        has a line `a=x` for each variable. Any other row begins with "but" and has only the variables whose state
        differs from the first row's: on one line if they are at most MOST_VARIABLES_A_LINE, else one a line.
    """
    states = row["state"]
    first_state = {} if first is None else first["state"]
    if len(states) <= MOST_VARIABLES_A_LINE:
        return [state_text(states)]
    lines = [f"{name}={value}" for name, value in states.items() if first_state.get(name) != value]
    if first is None:
        return lines
    return [f"but {', '.join(lines)}"] if len(lines) <= MOST_VARIABLES_A_LINE else [f"but {lines[0]}", *lines[1:]]


def state_text(states: Mapping[str, str]) -> str:
    """Write a joint state in one line, in the order of the mapping: `lung=yes, smoke=no`; "" without variables."""
    return ", ".join(f"{name}={value}" for name, value in states.items())
