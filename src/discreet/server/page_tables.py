"""Write tables of pages: states with intervals, answers to a query, coefficients, and two releases side by side.

A page of a large network has thousands of rows, so its states are joined as text, without a template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from discreet.display.text_tables import html_text
from discreet.errors import listed, printable
from discreet.model.network import Network
from discreet.queries.answers import Answer, Answers, assumption_lines, state_text
from discreet.server.page_links import StateLinks, quoted_states
from discreet.server.picture import draw_mark, percent
from discreet.util.lazy_imports import lazy_import
from discreet.util.option_texts import DEFAULT_LEVEL

jinja2 = lazy_import("jinja2")

MOST_NOTES = 40
"""Most lines on a page about assumptions of answers."""


@cache
def templates() -> Any:
    """Load the templates; values are escaped, and invisible characters shown, except in fields of forms."""
    folder = files("discreet.server") / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.globals |= {"bar": bar, "mark": draw_mark, "percent": percent, "span": _span, "state": state_text}
    environment.filters["kept"] = _write_reference
    return environment


def _write_reference(text: object) -> str:
    """Escape a text for a field that a form sends back unchanged: invisible characters as numeric references."""
    return "".join(mark if mark.isprintable() else f"&#{ord(mark)};" for mark in escape(str(text)))


def _render(macro: str, *values: object) -> str:
    """Render a table of `tables.html`."""
    return str(getattr(templates().get_template("tables.html").module, macro)(*values))


def bar(mean: float, lower: float, upper: float, low: float = 0.0, high: float = 1.0) -> str:
    """Draw an interval on a line between two ends, and a bar from 0 to the mean."""
    span = (high - low) or 1.0
    zero, at, left, right = (100 * min(max((x - low) / span, 0.0), 1.0) for x in (0.0, mean, lower, upper))
    axis = f"M{zero:.1f} 0v12" if low < 0 < high else ""
    return (
        '<svg class="bar" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="r" d="M0 6H100{axis}"/><path class="m" d="M{zero:.1f} 6H{at:.1f}"/>'
        f'<path class="w" d="M{left:.1f} 6H{right:.1f}M{left:.1f} 2v8M{right:.1f} 2v8"/></svg>'
    )


def _span(lower: float, upper: float) -> str:
    """Write both ends of an interval in percent."""
    return f"{percent(lower).removesuffix(' %')} to {percent(upper)}"


def _noise(row: Mapping[str, Any]) -> str:
    """Write the share of the privacy noise, with its standard error."""
    share, error = row.get("noise"), row.get("noise_error")
    if not isinstance(share, float) or share != share:
        return "not known"
    return f"{100 * share:.0f} ± {100 * (error or 0.0):.0f} %"


def state_table(
    network: Network, answers: Mapping[str, Answer], evidence: Mapping[str, str], links: StateLinks, noise: bool
) -> str:
    """Write the table of all variables with their states.

    Args:
        network: whose variables they are.
        answers: of all variables that are not observed, by name.
        evidence: states of the others.
        links: of the states.
        noise: True adds a column with the share of the privacy noise.
    """
    level = next((100 * answer.level for answer in answers.values()), 100 * DEFAULT_LEVEL)
    lines = [
        '<table class="states"><thead><tr><th scope="col">state</th><th scope="col" class="n">estimate</th>'
        f'<th scope="col" class="n">{level:g} % interval</th><th scope="col" class="wide">from 0 to 1</th>'
        f"{'<th scope=col class=n>noise share</th>' if noise else ''}</tr></thead>"
    ]
    quoted = quoted_states(network)
    for number, variable in enumerate(network.schema):
        answer = answers.get(variable.name)
        mark = "observed" if answer is None else answer.basis
        forget = "" if answer is not None else f' <a href="{links.change(variable.name, None)}">forget it</a>'
        word = "" if mark is None else f"{draw_mark(mark)} {mark}{forget}"
        word = "too rare to answer" if answer is not None and answer.too_rare else word
        lines.append(
            f'<tbody><tr class="v" id="v{number}"><th scope="rowgroup" colspan="2">{html_text(variable.name)}</th>'
            f'<td colspan="{2 + noise}">{word}</td></tr>'
        )
        if answer is None:
            lines += _list_observed(number, variable.states, evidence[variable.name], variable.name, links, 3 + noise)
        else:
            rows: Any = answer.rows
            for code, row in enumerate(rows):
                mean, lower, upper = row["mean"], row["lower"], row["upper"]
                share = f'<td class="n">{_noise(row)}</td>' if noise else ""
                lines.append(
                    f'<tr><td><a id="t{number}.{code}" href="{links.observe(quoted[variable.name][code])}">'
                    f'{html_text(variable.states[code])}</a></td><td class="n">{percent(mean)}</td><td class="n i">'
                    f'{_span(lower, upper)}</td><td class="wide">{bar(mean, lower, upper)}</td>{share}</tr>'
                )
        lines.append("</tbody>")
    return "".join([*lines, "</table>"])


def _list_observed(
    number: int, states: Sequence[str], seen: str, name: str, links: StateLinks, columns: int
) -> Iterator[str]:
    """List the rows of an observed variable; each state links to observing it instead."""
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
    """Write answers to a query, with their basis and assumptions."""
    notes = [evidence_words(answers), *answer_notes(answers)]
    return _render("answers", answers, [line for line in notes if line])


def evidence_words(answers: Sequence[Answer]) -> str:
    """Write the probability of the evidence, and the variables for which it is too rare; "" without evidence."""
    seen = answers[0].evidence if answers else None
    if seen is None:
        return ""
    mean, lower, upper = (f"{100 * end:.2g}" for end in (seen.mean, seen.lower, seen.upper))
    rare = [next(iter(answer.rows[0]["state"])) for answer in answers if answer.too_rare]
    text = f"What is observed: {mean} % ({lower} to {upper} %) of everybody."
    return f"{text} Too rare to answer: {listed(rare)}." if rare else text


def answer_notes(answers: Sequence[Answer]) -> list[str]:
    """List the draws that answers leave out, how they were sampled, and their assumptions."""
    notes = []
    if left := max((answer.left_out for answer in answers), default=0.0):
        notes.append(f"{100 * left:.2g} % of the draws make the evidence impossible and are left out")
    sampled = [answer.sampling for answer in answers if answer.sampling is not None]
    if sampled:
        error = max(sampling.error for sampling in sampled)
        notes.append(
            "exact inference is out of reach, so answers are sampled: the standard error of an estimate is at most "
            f"{error:.2g}"
        )
    return [*notes, *assumption_lines(answers)[:MOST_NOTES]]


# ----------------------------------------------------------------------------------------------------------- numbers


def reach_of(design: Any) -> dict[str, float]:
    """Compute the range of each bounded feature, which makes coefficients of different units comparable."""
    return {each.name: each.bounds[1] - each.bounds[0] for each in design.features if each.bounds is not None}


def number_table(
    rows: Iterable[Mapping[str, Any]], level: float, named: str, reach: Mapping[str, float] | None = None
) -> str:
    """Write a table of coefficients or parameters with their intervals.

    Args:
        rows: with "name", "mean", "lower" and "upper", for several classes "class", for components "component".
        level: of the intervals.
        named: noun for a row.
        reach: range of each feature, by which bars multiply its coefficient; None shows the numbers themselves.
    """
    listed_rows = list(rows)
    beside = next((name for name in ("class", "component") if listed_rows and name in listed_rows[0]), None)
    scaled = [(row, 1.0 if reach is None else reach.get(row["name"], 0.0)) for row in listed_rows]
    most = max((max(abs(row["lower"]), abs(row["upper"])) * by for row, by in scaled), default=0.0) or 1.0
    least = 0.0 if all(row["lower"] >= 0 for row, by in scaled if by) else -most
    over = "bar" if reach is None else "over its whole range"
    return _render("numbers", scaled, level, named, beside, over, least, most)


def expected_table(outputs: Sequence[str], ends: Sequence[Sequence[float]], level: float, *, classes: bool) -> str:
    """Write the expected value of a regression for one record: a number, or probabilities of classes.

    Args:
        outputs: the target, or its classes.
        ends: means, lower and upper ends.
        level: of the intervals.
        classes: True if they are probabilities.
    """
    return _render("expected", list(zip(outputs, *ends, strict=True)), level, classes)


def compare_table(names: Sequence[str], both: Sequence[Mapping[str, Answer]], network: Network) -> str:
    """Write a table of two releases side by side.

    Args:
        names: of the releases.
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
