"""Tables of pages: states with their intervals, answers to a query, coefficients, and two releases side by side.

A page of a large network has thousands of rows, so that its states are put together as text, and not by a template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from discreet.display.text_tables import html_text
from discreet.errors import listed, printable
from discreet.model.design import Design
from discreet.model.network import Network
from discreet.queries.answers import Answer, Answers, assumption_lines, state_text
from discreet.server.page_links import StateLinks, quoted_states
from discreet.server.picture import draw_mark, percent
from discreet.util.lazy_imports import import_late
from discreet.util.option_texts import DEFAULT_LEVEL

jinja2 = import_late("jinja2")

MOST_NOTES = 40
"""Lines of what answers assume that a page has."""


@cache
def templates() -> Any:
    """The templates; all that is put into them is escaped, and nothing is invisible but what forms send back."""
    folder = files("discreet.server") / "templates"
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda told: printable(told) if type(told) is str else told,
    )
    made.globals |= {"bar": bar, "mark": draw_mark, "percent": percent, "span": _span, "state": state_text}
    made.filters["kept"] = _write_reference
    return made


def _write_reference(text: object) -> str:
    """A text for an attribute that a form sends back as it is: what is invisible stands as its number."""
    return "".join(mark if mark.isprintable() else f"&#{ord(mark)};" for mark in escape(str(text)))


def _render(macro: str, *values: object) -> str:
    """A table of `tables.html`."""
    return str(getattr(templates().get_template("tables.html").module, macro)(*values))


def bar(mean: float, lower: float, upper: float, low: float = 0.0, high: float = 1.0) -> str:
    """An interval on a line from one end to another, and a bar from 0 to the mean."""
    span = (high - low) or 1.0
    zero, at, left, right = (100 * min(max((x - low) / span, 0.0), 1.0) for x in (0.0, mean, lower, upper))
    axis = f"M{zero:.1f} 0v12" if low < 0 < high else ""
    return (
        '<svg class="bar" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="r" d="M0 6H100{axis}"/><path class="m" d="M{zero:.1f} 6H{at:.1f}"/>'
        f'<path class="w" d="M{left:.1f} 6H{right:.1f}M{left:.1f} 2v8M{right:.1f} 2v8"/></svg>'
    )


def _span(lower: float, upper: float) -> str:
    """Both ends of an interval in percent."""
    return f"{percent(lower).removesuffix(' %')} to {percent(upper)}"


def _noise(row: Mapping[str, Any]) -> str:
    """The part of the noise, with its standard error."""
    share, error = row.get("noise"), row.get("noise_error")
    if not isinstance(share, float) or share != share:
        return "not known"
    return f"{100 * share:.0f} ± {100 * (error or 0.0):.0f} %"


def state_table(
    network: Network, answers: Mapping[str, Answer], evidence: Mapping[str, str], links: StateLinks, noise: bool
) -> str:
    """All variables with their states.

    Args:
        network: whose variables they are.
        answers: of all variables that are not observed, by name.
        evidence: states of the others.
        links: of the states.
        noise: whether the part of the noise has a column.
    """
    level = next((100 * answer.level for answer in answers.values()), 100 * DEFAULT_LEVEL)
    lines = [
        '<table class="states"><thead><tr><th scope="col">state</th><th scope="col" class="n">estimate</th>'
        f'<th scope="col" class="n">{level:g} % interval</th><th scope="col" class="wide">from 0 to 1</th>'
        f"{'<th scope=col class=n>noise in it</th>' if noise else ''}</tr></thead>"
    ]
    quoted = quoted_states(network)
    for number, one in enumerate(network.schema):
        answer = answers.get(one.name)
        mark = "observed" if answer is None else answer.basis
        forget = "" if answer is not None else f' <a href="{links.change(one.name, None)}">forget it</a>'
        word = "" if mark is None else f"{draw_mark(mark)} {mark}{forget}"
        word = "too rare to answer" if answer is not None and answer.too_rare else word
        lines.append(
            f'<tbody><tr class="v" id="v{number}"><th scope="rowgroup" colspan="2">{html_text(one.name)}</th>'
            f'<td colspan="{2 + noise}">{word}</td></tr>'
        )
        if answer is None:
            lines += _list_observed(number, one.states, evidence[one.name], one.name, links, 3 + noise)
        else:
            rows: Any = answer.rows
            for code, row in enumerate(rows):
                mean, lower, upper = row["mean"], row["lower"], row["upper"]
                share = f'<td class="n">{_noise(row)}</td>' if noise else ""
                lines.append(
                    f'<tr><td><a id="t{number}.{code}" href="{links.observe(quoted[one.name][code])}">'
                    f'{html_text(one.states[code])}</a></td><td class="n">{percent(mean)}</td><td class="n i">'
                    f'{_span(lower, upper)}</td><td class="wide">{bar(mean, lower, upper)}</td>{share}</tr>'
                )
        lines.append("</tbody>")
    return "".join([*lines, "</table>"])


def _list_observed(
    number: int, states: Sequence[str], seen: str, name: str, links: StateLinks, columns: int
) -> Iterator[str]:
    """States of an observed variable: each can be observed instead."""
    for code, state in enumerate(states):
        here = state == seen
        link = links.change(name, None if here else state)
        word = "observed" if here else ""
        yield (
            f'<tr{" class=here" if here else ""}><td><a id="t{number}.{code}" href="{link}">{html_text(state)}</a></td>'
            f'<td colspan="{columns}">{word}</td></tr>'
        )


# ------------------------------------------------------------------------------------------------- answers to queries


def answer_table(answers: Answers) -> str:
    """Answers to a query, with what they rest on and assume."""
    notes = [evidence_words(answers), *answer_notes(answers)]
    return _render("answers", answers, [line for line in notes if line])


def evidence_words(answers: Sequence[Answer]) -> str:
    """How probable what is observed is, and the variables that it is too rare for; empty where nothing is observed."""
    seen = answers[0].evidence if answers else None
    if seen is None:
        return ""
    mean, lower, upper = (f"{100 * end:.2g}" for end in (seen.mean, seen.lower, seen.upper))
    rare = [next(iter(answer.rows[0]["state"])) for answer in answers if answer.too_rare]
    told = f"What is observed: {mean} % ({lower} to {upper} %) of everybody."
    return f"{told} Too rare to answer: {listed(rare)}." if rare else told


def answer_notes(answers: Sequence[Answer]) -> list[str]:
    """What answers leave out, how they were sampled, and what they assume."""
    notes = []
    if left := max((answer.left_out for answer in answers), default=0.0):
        notes.append(f"{100 * left:.2g} % of the draws make the evidence impossible and are left out")
    sampled = [answer.sampling for answer in answers if answer.sampling is not None]
    if sampled:
        error = max(one.error for one in sampled)
        notes.append(
            "exact inference is out of reach, so this is sampled: the standard error of an estimate is at most "
            f"{error:.2g}"
        )
    return [*notes, *assumption_lines(answers)[:MOST_NOTES]]


# ----------------------------------------------------------------------------------------------------------- numbers


def reach_of(design: Design) -> dict[str, float]:
    """By how much each feature can differ: what makes coefficients of different units comparable."""
    return {one.name: one.bounds[1] - one.bounds[0] for one in design.features if one.bounds is not None}


def number_table(
    rows: Iterable[Mapping[str, Any]], level: float, named: str, reach: Mapping[str, float] | None = None
) -> str:
    """Coefficients or parameters with their intervals.

    Args:
        rows: with "name", "mean", "lower" and "upper", of several classes "class", of components "component".
        level: of the intervals.
        named: what a row is of.
        reach: of each feature: bars are then of the coefficient times it; None: of the numbers themselves.
    """
    kept = list(rows)
    beside = next((name for name in ("class", "component") if kept and name in kept[0]), None)
    scaled = [(row, 1.0 if reach is None else reach.get(row["name"], 0.0)) for row in kept]
    most = max((max(abs(row["lower"]), abs(row["upper"])) * by for row, by in scaled), default=0.0) or 1.0
    least = 0.0 if all(row["lower"] >= 0 for row, by in scaled if by) else -most
    over = "bar" if reach is None else "over its whole range"
    return _render("numbers", scaled, level, named, beside, over, least, most)


def expected_table(outputs: Sequence[str], ends: Sequence[Sequence[float]], level: float, *, classes: bool) -> str:
    """What a regression expects of one record: a number, or probabilities of classes.

    Args:
        outputs: the target, or its classes.
        ends: means, lower and upper ends.
        level: of the intervals.
        classes: whether they are probabilities.
    """
    return _render("expected", list(zip(outputs, *ends, strict=True)), level, classes)


def compare_table(names: Sequence[str], both: Sequence[Mapping[str, Answer]], network: Network) -> str:
    """Two releases side by side.

    Args:
        names: what each is called.
        both: answers by variable, of each.
        network: whose variables they are.
    """
    level = next((answer.level for answer in both[0].values()), DEFAULT_LEVEL)
    variables = [
        (
            name,
            [answers[name].basis or "" for answers in both],
            list(zip(network.schema[name].states, *(answers[name].rows for answers in both), strict=True)),
        )
        for name in network.nodes
        if name in both[0]
    ]
    return _render("compare", names, level, variables)
