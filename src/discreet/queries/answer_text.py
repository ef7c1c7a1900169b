"""Answers as aligned text, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from discreet.display.text_tables import columns, fold
from discreet.errors import listed, printable
from discreet.posterior.basis import prior_only_words

if TYPE_CHECKING:
    from discreet.queries.answers import Answer, AnswerRow
    from discreet.queries.regress import Regression

MOST_VARIABLES_A_LINE = 3
"""Most variables of a joint state that are shown on one line."""


def answer_lines(answers: Sequence[Answer], width: int | None = None) -> str:
    """Write answers as one table; for joint states of many variables later rows list only the differences.

    Optional columns: how often an explanation is the most probable one, the share of the variance due to the privacy
    noise with its standard error, and the basis of the answer. Below the table follow the assumptions, the probability
    of the evidence, and the answers that leave draws out. No line is longer than `width` columns, if given.
    """
    rows = [row for answer in answers for row in _list_rows(answer)]
    level = answers[-1].level if answers else 0.0
    header = ("query", "state", "mean", f"{100 * level:.6g} % interval", "best", "noise", "rests on")
    shown = [column for column in range(len(header)) if column < 4 or any(row[column] for row in rows)]
    table = columns([header[column] for column in shown], [[row[column] for column in shown] for row in rows], width)
    partial = [
        f"{answer.query}: {100 * answer.left_out:.2g} % of the draws make the evidence impossible and are left out"
        for answer in answers
        if answer.left_out
    ]
    notes = [*assumption_lines(answers), *evidence_lines(answers), *_list_bins(answers), *partial]
    notes += _list_sampling(answers)
    return "\n".join([table, *([""] if notes else []), *(fold(printable(note), width) for note in notes)])


def _list_rows(answer: Answer) -> Iterator[tuple[str, ...]]:
    """List an answer's rows as cells of the table; only the first row shows the query and its basis."""
    form = ".4f" if answer.unit == "probability" else ".6g"
    query, basis = answer.query, answer.basis or ""
    for index, row in enumerate(answer.rows):
        states = _list_state(row, None if index == 0 else answer.rows[0])
        if answer.inside is not None:  # for numbers the query names the variable
            states = list(row["state"].values())
        numbers = (f"{row['mean']:{form}}", f"{row['lower']:{form}} to {row['upper']:{form}}")
        yield (query, states[0], *numbers, _format_percent(row.get("best")), _format_noise_share(row), basis)
        yield from (("", state, "", "", "", "", "") for state in states[1:])
        query = basis = ""


def _list_sampling(answers: Sequence[Answer]) -> list[str]:
    """List the sampling error of answers that exact inference could not compute."""
    return [
        f"{answer.query}: exact inference is out of reach, so this is sampled, {answer.sampling.records:,} records for "
        f"each draw, worth {answer.sampling.effective:,.0f}: standard error of a mean at most "
        f"{answer.sampling.error:.2g}, {_write_widening(answer.sampling.widening)}"
        for answer in answers
        if answer.sampling is not None
    ]


def _write_widening(widening: float) -> str:
    """Write the factor by which sampling widens the intervals."""
    if math.isinf(widening):
        return "and some intervals are of the sampling alone"
    return f"intervals at most {100 * widening:.2g} % wider"


def _list_bins(answers: Sequence[Answer]) -> list[str]:
    """List how much the law inside bins narrows the intervals of numbers, and the intervals independent of it."""
    return [
        f"{answer.query}: by the {answer.inside} law inside bins {answer.rows[0]['law_lower']:.6g} to "
        f"{answer.rows[0]['law_upper']:.6g}"
        + ("; the interval above holds whatever the law is" if answer.basis == "measured" else "")
        for answer in answers
        if answer.inside is not None
    ]


def assumption_lines(answers: Sequence[Answer | Regression]) -> list[str]:
    """List the answers that rest on the prior alone and the assumptions of the others, each once."""
    lines = [prior_only_words(answer.prior_only) for answer in answers if answer.prior_only]
    lines += [f"assumed: {reason}" for answer in answers for reason in answer.assumes]
    lines += [
        "assumed: no table has " + listed([f"{first} with {second}" for first, second in answer.unmeasured])
        for answer in answers
        if answer.unmeasured
    ]
    return list(dict.fromkeys(lines))


def evidence_lines(answers: Sequence[Answer]) -> list[str]:
    """List the probability of each evidence, each once, and the answers whose evidence is too rare."""
    text_of = {answer.evidence.query: str(answer.evidence) for answer in answers if answer.evidence is not None}
    rare = [answer.query for answer in answers if answer.too_rare]
    return [*text_of.values(), *([f"too rare to answer: {listed(rare)}"] if rare else [])]


def _list_state(row: AnswerRow, first: AnswerRow | None) -> list[str]:
    """List a joint state; one of many variables by its differences from the first."""
    states = row["state"]
    first_state = {} if first is None else first["state"]
    if len(states) <= MOST_VARIABLES_A_LINE:
        return [state_text(states)]
    lines = [f"{name}={value}" for name, value in states.items() if first_state.get(name) != value]
    if first is None:
        return lines
    return [f"but {', '.join(lines)}"] if len(lines) <= MOST_VARIABLES_A_LINE else [f"but {lines[0]}", *lines[1:]]


def _format_percent(share: object) -> str:
    """Format a share as percent; "" if unknown."""
    return f"{100 * share:.0f} %" if isinstance(share, float) else ""


def _format_noise_share(row: AnswerRow) -> str:
    """Format the noise's share as percent, to the first digit of its standard error: `38 ± 3 %`; "" if unknown."""
    share, error = row.get("noise"), row.get("noise_error")
    if not isinstance(share, float) or not isinstance(error, float):
        return ""
    percent, error_percent = 100 * share, 100 * error
    unit = 10.0 ** max(math.floor(math.log10(max(error_percent, 1.0))), 0)
    rounded, error_percent = (unit * round(number / unit) for number in (percent, error_percent))
    return f"{rounded:.0f} ± {error_percent:.0f} %" if error_percent else f"{rounded:.0f} %"


def state_text(states: Mapping[str, str]) -> str:
    """Write a joint state in one line: `lung=yes, smoke=no`."""
    return ", ".join(f"{name}={value}" for name, value in states.items())
