"""Answers of a posterior to queries, as rows, as text, as a data frame and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NotRequired

from typing_extensions import TypedDict  # pydantic accepts no other TypedDict before Python 3.12

from discreet.display.interval_tables import NUMBERS
from discreet.errors import printable
from discreet.inference.weighted_records import Sampling
from discreet.model.schema import Scope
from discreet.posterior.basis import Mark
from discreet.queries.answer_text import answer_lines
from discreet.queries.bin_laws import Inside
from discreet.util.framed import Intervals


class AnswerRow(TypedDict):
    """A number of an answer, with its interval; `Answer` says what each key holds.

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


@dataclass(frozen=True)
class EvidenceProbability:
    """Posterior probability of the evidence of a query, with its interval.

    Args:
        query: `P(...)` of all that is observed, by the names of the variables in their order.
        mean: of that probability.
        lower: end of its interval, of the answer's level.
        upper: the other end.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> str(dc.results.EvidenceProbability("P(smoke=yes)", 0.5, 0.478, 0.52))
        'P(smoke=yes) = 0.5 (0.478 to 0.52)'
    """

    query: str
    mean: float
    lower: float
    upper: float

    def __str__(self) -> str:
        """Write the probability and its interval in one line."""
        return f"{printable(self.query)} = {self.mean:.3g} ({self.lower:.3g} to {self.upper:.3g})"


@dataclass(frozen=True)
class Answer(Intervals):
    """Posterior means and credible intervals of the quantities that a query names.

    Args:
        query: as text.
        kind: "marginal", "conditional", "map", "mpe", "mean" or "quantile".
        level: posterior probability of each interval.
        rows: `{"state": {variable: state}, "mean": x, "lower": x, "upper": x, "noise": x, "noise_error": x}` for every
            joint state asked for. "noise" is the part of the variance that the privacy noise makes, as in
            `noise_share`, "noise_error" its standard error; None where the posterior does not tell. For "map" and "mpe"
            at most 16 rows, by decreasing mean, and each has "best": the share of draws under which it is the most
            probable. The first is the most probable on average over the posterior, where there are at most 4,096 joint
            states, else the most probable on average of those that follow; the others are those that most draws favour.
            Of numbers there is one row, whose "mean" is by the law inside bins. Its "lower" and "upper" hold whatever
            the law inside bins is; "law_lower" and "law_upper" if it is the stated one.
        unit: of the numbers.
        left_out: share of the draws under which the evidence is impossible; they are left out of all numbers.
        basis: what the answer rests on: "measured" (all its variables lie in one released table), "inferred" (each pair
            of them lies in one), "assumed" (what the network says of a pair that lies in none), "contradicted"
            (what it says of variables that lie in one, against what that tells), or "prior" (it needs what nothing
            measured: see `prior_only`; or it is `too_rare`). None where nobody knows.
        unmeasured: pairs of its variables that lie in no table, at most 20.
        prior_only: what the answer needs and nothing measured, so that only the prior says it: `(node,)` for a node
            that no table holds, `(parent, node)` for how a node depends on a parent that no table holds it with; at
            most 20.
        inside: of numbers, the law inside bins by which the mean and "law_lower" and "law_upper" are.
        sampling: where exact inference is out of reach: how many records were made up under each draw, what they are
            worth, the standard error of the means, and by how much intervals are wider for it. None: exact.
        assumes: what it assumes beside `unmeasured`, a sentence each.
        evidence: the probability of what is observed, as an answer to that question has it. None where nothing is.
        too_rare: whether what is observed is so rare that every interval is all but everything: as wide as its level,
            as that of a probability of which nothing is known.

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
    kind: str
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

    def __str__(self) -> str:
        """Return the text of `summary`."""
        return self.summary()

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each joint state of the query, with a column for each variable.

        Returns:
            Rows of the variables' states, then "mean", "lower", "upper", "level". Where they are known: "sampling" and
            "noise", the shares of the variance due to the number of records and to the privacy noise, "noise_error",
            "best" and "basis".
        """
        return [{**_name_row(row), **_number_row(self, row)} for row in self.rows]

    def summary(self, *, width: int | None = None) -> str:
        """Write the answer as aligned text, with its basis and assumptions.

        Args:
            width: columns of the terminal, as in `columns`; None does not break lines.
        """
        return answer_lines([self], width)


class Answers(tuple[Answer, ...], Intervals):
    """Several answers, in the order of their queries: a tuple that can be shown as one table.

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

    def __str__(self) -> str:
        """Return the text of `summary`."""
        return self.summary()

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each joint state of each query.

        Returns:
            Rows of "query", "variable" and "state", several variables joined in one text ("smoke, lung" and "yes, no"),
            then the columns of `Answer.tidy`.
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

    def summary(self, *, width: int | None = None) -> str:
        """Write the answers as aligned text, with their bases and assumptions.

        Args:
            width: columns of the terminal, as in `columns`; None does not break lines.
        """
        return answer_lines(self, width)


def _name_row(row: AnswerRow) -> dict[str, Any]:
    """Return the states of a row's variables; a variable named like a number of the row gets a distinct key."""
    states = row["state"].items()
    return {f"{name} (state)" if name in (*NUMBERS, "basis") else name: state for name, state in states}


def _number_row(answer: Answer, row: AnswerRow) -> dict[str, Any]:
    """Return the numbers of a row and the answer's basis."""
    noise = row.get("noise")
    numbers: dict[str, Any] = {**row, "sampling": None if noise is None else 1 - noise, "level": answer.level}
    basis = {} if answer.basis is None else {"basis": answer.basis}
    return {**{name: numbers[name] for name in NUMBERS if numbers.get(name) is not None}, **basis}
