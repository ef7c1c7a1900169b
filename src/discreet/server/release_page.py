"""What the page of one release shows: pure functions from a reading and what was asked to pieces of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from discreet.display.text_tables import html_text
from discreet.errors import InputError, listed
from discreet.model.network import Network
from discreet.posterior.design.expected_values import expected_values, feature_rows
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.query import answer_many, marginals
from discreet.queries.release_report import promise_words
from discreet.releases.combined import Evidence, evidence_of
from discreet.releases.external_figures import External
from discreet.releases.release import Release
from discreet.server import replies
from discreet.server.desk import Made
from discreet.server.page_links import PageRequest, StateLinks
from discreet.server.page_tables import (
    answer_notes,
    answer_table,
    evidence_words,
    expected_table,
    number_table,
    reach_of,
    state_table,
)
from discreet.server.parameters import MarginalsRequest, read_evidence
from discreet.server.picture import MARKS, REFUTED_MARK, draw_mark, draw_network
from discreet.server.problems import Problem
from discreet.server.readings import ServedPosterior
from discreet.server.work import marginals_work, query_work

MOST_DRAWN = 250
"""Variables of a network that is drawn without being asked for."""
MOST_PRINTED = 40
"""Variables of a network that is printed on a sheet; of larger ones the table is."""
MOST_PREPARED_WORK = 2e8
"""Cells times draws of a page that is prepared while nobody waits."""
MOST_PREPARED_BYTES, STATE_BYTES = 12_000_000, 900
"""Of all pages of a release that are prepared, and of a state on each of them."""
HTML = "text/html; charset=utf-8"
NOT_RELIED_ON = "Answers that are marked measured or inferred do not rely on them."
NOTHING_TESTED = "Nothing that this drawing says of independence could be tested by the data."


def shows_network(asked: PageRequest, network: Network) -> bool:
    """Whether the network is drawn: of large ones if that is asked for."""
    return asked.view == "network" or (asked.view is None and len(network.nodes) <= MOST_DRAWN)


def _posterior(reading: ServedPosterior, asked: PageRequest) -> PosteriorDraws:
    """The posterior that a page asks: without twins where the part of the noise is not shown."""
    posterior = reading.posterior(asked.missing)
    if asked.noise or posterior.twins is None:
        return posterior
    return reading.plain if posterior is reading.draws else replace(posterior, twins=None)


def ask_states(reading: ServedPosterior, asked: PageRequest) -> replies.Question:
    """All states of all variables: a table, and the network.

    Raises:
        InputError: evidence that is none.
        Problem: no network answers.
    """
    posterior = _posterior(reading, asked)
    network = posterior.network
    evidence, drawn = read_evidence(network.schema, asked.e), shows_network(asked, network)

    def make() -> Made:
        found = marginals(posterior, evidence, level=asked.level)
        answers = dict(zip((name for name in network.nodes if name not in evidence), found, strict=True))
        links = StateLinks(asked, tuple(evidence.items()))
        rarity = evidence_words(found)
        parts = [f"<p>{html_text(rarity)}</p>"] if rarity else []
        refuted = _refuted_pairs(reading) if drawn else []
        if drawn:
            picture = draw_network(network, answers, evidence, links, refuted)
            large = " large" if len(network.nodes) > MOST_PRINTED else ""
            parts.append(f'<div class="network{large}" tabindex="0" role="region" aria-label="Network">{picture}</div>')
        table = state_table(network, answers, evidence, links, asked.noise)
        parts.append(f'<div class="table{" beside" if drawn else ""}">{table}</div>')
        marks = dict.fromkeys(answer.basis for answer in found if answer.basis is not None)
        parts.append(_write_legend([mark for mark in MARKS if mark in marks], asked.level, dashed=bool(refuted)))
        if notes := answer_notes(found):
            lines = "".join(f"<li>{html_text(line)}</li>" for line in notes)
            parts.append(f"<details><summary>What these numbers assume</summary><ul>{lines}</ul></details>")
        return Made("".join(parts).encode(), HTML)

    key = ("page", tuple(evidence.items()), asked.level, drawn, asked.view, asked.noise, asked.missing)
    return replies.Question(key, make, lambda: marginals_work(posterior, evidence))


def _refuted_pairs(reading: ServedPosterior) -> list[tuple[str, ...]]:
    """Pairs of a network that tables join and its arcs do not, first those of the largest effect."""
    return list(reading.checked.contradicted_pairs) if reading.version.over_network else []


def ask_fit_words(reading: ServedPosterior) -> replies.Question:
    """What the data say of the independences of the network that is drawn."""

    def make() -> Made:
        tests, wrong = reading.checked.tests, [" and ".join(test.variables) for test in reading.checked.contradicted]
        which = f"{len(wrong) or 'none'} of the {len(tests):,} independences of this drawing that they can test"
        rest = f" (strongest: {wrong[0]}). {NOT_RELIED_ON}" if wrong else "."
        told = f"The data contradict {which}{rest}" if tests else NOTHING_TESTED
        listing = f"<details><summary>Which ones</summary><p>{html_text(listed(wrong))}</p></details>"
        return Made(f"<p>{html_text(told)}</p>{listing * (len(wrong) > 1)}".encode(), HTML)

    return replies.Question(("page fit",), make)


def _write_legend(marks: list[str], level: float, *, dashed: bool) -> str:
    """What the marks mean that are there, and what is drawn."""
    dashes = f"<li>{REFUTED_MARK} the data contradict that these two are independent</li>" if dashed else ""
    told = "".join(f"<li>{draw_mark(mark)} <b>{mark}</b>: {MARKS[mark]}</li>" for mark in marks)
    return (
        '<ul class="legend"><li>A bar is the estimate, the thin line with two ends the interval in which the '
        f"population’s share lies with {100 * level:g} % probability.</li>{told}{dashes}</ul>"
    )


def ask_picture(reading: ServedPosterior, asked: PageRequest) -> replies.Question:
    """The network alone, as a picture."""
    posterior = _posterior(reading, asked.model_copy(update={"noise": False}))
    network = posterior.network
    evidence = read_evidence(network.schema, asked.e)

    def make() -> Made:
        found = marginals(posterior, evidence, level=asked.level)
        answers = dict(zip((name for name in network.nodes if name not in evidence), found, strict=True))
        return Made(draw_network(network, answers, evidence, None, _refuted_pairs(reading)).encode(), "image/svg+xml")

    key = ("picture", tuple(sorted(evidence.items())), asked.level, asked.missing)
    return replies.Question(key, make, lambda: marginals_work(posterior, evidence))


def ask_structure(reading: ServedPosterior) -> replies.Question:
    """A network that was chosen, drawn."""
    return replies.Question(("page structure",), lambda: Made(reading.version.network.to_svg().encode(), HTML))


def ask_query(reading: ServedPosterior, asked: PageRequest) -> replies.Question:
    """The answer to the query of the box.

    Raises:
        InputError: a query that cannot be read.
        Problem: no network answers.
    """
    posterior = _posterior(reading, asked.model_copy(update={"noise": False}))
    query = replies.parse(posterior, asked.q or "")

    def make() -> Made:
        found = answer_many(posterior, [query], level=asked.level)
        whom = "" if query.evidence else ", for everybody"
        return Made(f'<p class="asked"><b>{html_text(str(query))}</b>{whom}</p>{answer_table(found)}'.encode(), HTML)

    key = ("page query", str(query), asked.level, asked.missing)
    return replies.Question(key, make, lambda: query_work(posterior, query))


def ask_numbers(reading: ServedPosterior, asked: PageRequest) -> replies.Question:
    """Coefficients of a regression, or parameters of a family."""
    weights = reading.version.kind == "weights"

    def make() -> Made:
        rows, target = reading.numbers.rows(level=asked.level), None
        noun = "coordinate" if weights else reading.numbers.noun
        if weights and reading.numbers.design.target is not None:
            noun, target = reading.numbers.noun, reach_of(reading.numbers.design)
        text = number_table(rows, asked.level, noun, target)
        return Made(text.encode(), HTML)

    return replies.Question(("page numbers", asked.level), make)


def ask_expected(reading: ServedPosterior, asked: PageRequest, record: Mapping[str, str]) -> replies.Question:
    """What a regression expects of a record that was typed in.

    Raises:
        InputError: a field that is empty or no number.
    """
    design = reading.version.evidence.one_release.design
    features = feature_rows(design, [{name: _number(name, text) for name, text in record.items()}])

    def make() -> Made:
        found = expected_values(reading.numbers, features, level=asked.level)
        classes = design.predicts in ("class", "classes")
        ends = [part[0].tolist() for part in (found.mean, found.lower, found.upper)]
        return Made(expected_table(found.outputs, ends, asked.level, classes=classes).encode(), HTML)

    return replies.Question(("page expected", tuple(features[0].tolist()), asked.level), make)


def _number(name: str, text: str) -> float:
    """A number that was typed in.

    Raises:
        InputError: it is none.
    """
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} needs a number, such as 3.5") from None


def promises(evidence: Evidence) -> list[dict[str, Any]]:
    """The promises of all that was released; first what releases of the same records add up to."""
    if evidence.one_release is not None:
        return [_promise_of(evidence.one_release)]
    combined, together = evidence_of(evidence), list[dict[str, Any]]()
    for number, (parts, total) in enumerate(zip(combined.data_sets, combined.guarantees, strict=True), 1):
        if len(parts) > 1 and total is not None:
            title = f"All releases of data set {number} together"
            together.append({"title": title, "guarantee": str(total), "words": [], "source": None})
    return [*together, *map(_promise_of, combined.parts)]


def _promise_of(part: Release | External) -> dict[str, Any]:
    """What one part promises, or who made the figures."""
    if part.one_release is not None:
        title, told, words = f"Release {part.id[:8]}", str(part.guarantee), promise_words(part.one_release)
        return {"title": title, "guarantee": told, "words": words, "source": None}
    told = "no guarantee is stated" if part.guarantee is None else f"they state {part.guarantee}"
    return {"title": part.source, "guarantee": told, "words": [], "source": part.source}


def page_questions(reading: ServedPosterior) -> Iterator[replies.Question]:
    """Questions that pages will ask first: nothing observed, then each state by itself; none that is much work."""
    if reading.version.kind == "weights":
        yield ask_numbers(reading, PageRequest())
    if reading.draws is None:
        return
    schema = reading.plain.network.schema
    yield _bounded(ask_states(reading, PageRequest()))
    if len(schema) > MOST_DRAWN:
        return
    yield _bounded(replies.ask_marginals(reading, MarginalsRequest()))
    texts = [f"{one.name}={state}" for one in schema for state in one.states]
    for text in texts[: round(MOST_PREPARED_BYTES / (STATE_BYTES * len(texts)))]:
        yield _bounded(ask_states(reading, PageRequest(e=[text])))


def _bounded(question: replies.Question) -> replies.Question:
    """A question that is not answered where that is much work; how much, is found in the thread that answers."""
    make, work = question.make, question.work

    def make_if_little() -> Made:
        if work is not None and work() > MOST_PREPARED_WORK:
            raise Problem("too-costly", "this is prepared for nobody")
        return make()

    return question._replace(make=make_if_little)
