"""Make the parts of a release's page: pure functions from a posterior and a page's parameters to HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from discreet.display.text_tables import html_text
from discreet.errors import InputError, listed
from discreet.model.network import Network
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.distributions import distributions
from discreet.queries.query import answer_many, marginals
from discreet.releases.combined import Evidence, evidence_of
from discreet.releases.external_figures import External
from discreet.releases.release import Release
from discreet.reporting.release_report import promise_words
from discreet.server import replies
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
from discreet.server.work_queue import ResponseBody

MOST_DRAWN = 250
"""Most variables of a network that is drawn by default."""
MOST_PRINTED = 40
"""Most variables of a network that is printed; for larger ones the table is."""
MOST_PREPARED_WORK = 2e8
"""Most cells times draws of a page that is prepared in advance."""
MOST_PREPARED_BYTES, STATE_BYTES = 12_000_000, 900
"""Most bytes of all prepared pages of a release, and bytes of a state on each of them."""
HTML = "text/html; charset=utf-8"
NOT_RELIED_ON = "Answers that are marked measured or inferred do not rely on them."
NOTHING_TESTED = "The data could test none of the independences of this drawing."


def shows_network(page: PageRequest, network: Network) -> bool:
    """Return True if the page draws the network: large ones only on request."""
    return page.view == "network" or (page.view is None and len(network.nodes) <= MOST_DRAWN)


def _posterior(reading: ServedPosterior, page: PageRequest) -> PosteriorDraws:
    """Return the posterior for a page, without replicate draws unless it shows the noise share."""
    posterior = reading.posterior(page.missing)
    if page.noise or posterior.replicates is None:
        return posterior
    return reading.plain if posterior is reading.draws else replace(posterior, replicates=None)


def ask_states(reading: ServedPosterior, page: PageRequest) -> replies.Question:
    """Ask for all states of all variables: a table, and the network.

    Raises:
        InputError: invalid evidence.
        Problem: there is no posterior over a network.
    """
    posterior = _posterior(reading, page)
    network = posterior.network
    evidence, with_network = read_evidence(network.schema, page.e), shows_network(page, network)

    def make() -> ResponseBody:
        answers = marginals(posterior, evidence, level=page.level)
        answer_of = dict(zip((name for name in network.nodes if name not in evidence), answers, strict=True))
        links = StateLinks(page, tuple(evidence.items()))
        rarity = evidence_words(answers)
        parts = [f"<p>{html_text(rarity)}</p>"] if rarity else []
        refuted = _refuted_pairs(reading) if with_network else []
        if with_network:
            picture = draw_network(network, answer_of, evidence, links, refuted)
            large = " large" if len(network.nodes) > MOST_PRINTED else ""
            parts.append(f'<div class="network{large}" tabindex="0" role="region" aria-label="Network">{picture}</div>')
        table = state_table(network, answer_of, evidence, links, page.noise)
        parts.append(f'<div class="table{" beside" if with_network else ""}">{table}</div>')
        marks = dict.fromkeys(answer.basis for answer in answers if answer.basis is not None)
        parts.append(_write_legend([mark for mark in MARKS if mark in marks], page.level, dashed=bool(refuted)))
        if notes := answer_notes(answers):
            lines = "".join(f"<li>{html_text(line)}</li>" for line in notes)
            parts.append(f"<details><summary>What these numbers assume</summary><ul>{lines}</ul></details>")
        return ResponseBody("".join(parts).encode(), HTML)

    key = ("page", tuple(evidence.items()), page.level, with_network, page.view, page.noise, page.missing)
    return replies.Question(key, make, lambda: marginals_work(posterior, evidence))


def ask_distributions(reading: ServedPosterior, page: PageRequest) -> replies.Question:
    """Ask for the distributions of numeric columns of which sums were released, given what is observed.

    Raises:
        InputError: invalid evidence.
        Problem: there is no posterior over a network.
    """
    posterior = _posterior(reading, page.model_copy(update={"noise": False}))
    evidence = read_evidence(posterior.network.schema, page.e)

    def make() -> ResponseBody:
        parts = [
            f'<div class="scroll" tabindex="0" role="region" aria-label="Distribution of {html_text(column.variable)}">'
            f"{column.svg()}{number_table(column.rows(), page.level, 'number')}</div>"
            for column in distributions(posterior, evidence, level=page.level)
        ]
        return ResponseBody("".join(parts).encode(), HTML)

    key = ("page distributions", tuple(sorted(evidence.items())), page.level, page.missing)
    return replies.Question(key, make, lambda: marginals_work(posterior, evidence))


def _refuted_pairs(reading: ServedPosterior) -> list[tuple[str, ...]]:
    """List the pairs with a measured dependence that the network lacks, largest effect first."""
    return list(reading.checked.contradicted_pairs) if reading.version.over_network else []


def ask_fit_words(reading: ServedPosterior) -> replies.Question:
    """Ask for a sentence about the independences that the data contradict."""

    def make() -> ResponseBody:
        tests, wrong = reading.checked.tests, [" and ".join(test.variables) for test in reading.checked.contradicted]
        which = f"{len(wrong) or 'none'} of the {len(tests):,} independences of this drawing that they can test"
        rest = f" (strongest: {wrong[0]}). {NOT_RELIED_ON}" if wrong else "."
        sentence = f"The data contradict {which}{rest}" if tests else NOTHING_TESTED
        listing = f"<details><summary>Which ones</summary><p>{html_text(listed(wrong))}</p></details>"
        return ResponseBody(f"<p>{html_text(sentence)}</p>{listing * (len(wrong) > 1)}".encode(), HTML)

    return replies.Question(("page fit",), make)


def _write_legend(marks: list[str], level: float, *, dashed: bool) -> str:
    """Write the legend of the basis symbols and of the drawing."""
    dashes = f"<li>{REFUTED_MARK} the data contradict that these two are independent</li>" if dashed else ""
    entries = "".join(f"<li>{draw_mark(mark)} <b>{mark}</b>: {MARKS[mark]}</li>" for mark in marks)
    return (
        '<ul class="legend"><li>A bar is the estimate, the thin line with two ends the interval in which the '
        f"population’s share lies with {100 * level:g} % probability.</li>{entries}{dashes}</ul>"
    )


def ask_picture(reading: ServedPosterior, page: PageRequest) -> replies.Question:
    """Ask for the network as a picture."""
    posterior = _posterior(reading, page.model_copy(update={"noise": False}))
    network = posterior.network
    evidence = read_evidence(network.schema, page.e)

    def make() -> ResponseBody:
        answers = marginals(posterior, evidence, level=page.level)
        answer_of = dict(zip((name for name in network.nodes if name not in evidence), answers, strict=True))
        return ResponseBody(
            draw_network(network, answer_of, evidence, None, _refuted_pairs(reading)).encode(), "image/svg+xml"
        )

    key = ("picture", tuple(sorted(evidence.items())), page.level, page.missing)
    return replies.Question(key, make, lambda: marginals_work(posterior, evidence))


def ask_structure(reading: ServedPosterior) -> replies.Question:
    """Ask for the picture of a network that was chosen."""
    return replies.Question(("page structure",), lambda: ResponseBody(reading.version.network.to_svg().encode(), HTML))


def ask_query(reading: ServedPosterior, page: PageRequest) -> replies.Question:
    """Ask for the answer to the page's query.

    Raises:
        InputError: a query that cannot be read.
        Problem: there is no posterior over a network.
    """
    posterior = _posterior(reading, page.model_copy(update={"noise": False}))
    query = replies.parse(posterior, page.q or "")

    def make() -> ResponseBody:
        answers = answer_many(posterior, [query], level=page.level)
        about = "" if query.evidence else ", for everybody"
        return ResponseBody(
            f'<p class="asked"><b>{html_text(str(query))}</b>{about}</p>{answer_table(answers)}'.encode(), HTML
        )

    key = ("page query", str(query), page.level, page.missing)
    return replies.Question(key, make, lambda: query_work(posterior, query))


def ask_numbers(reading: ServedPosterior, page: PageRequest) -> replies.Question:
    """Ask for coefficients of a regression, or parameters of a family."""
    weights = reading.version.kind == "weights"

    def make() -> ResponseBody:
        rows, target = reading.numbers.rows(level=page.level), None
        noun = "coordinate" if weights else reading.numbers.noun
        if weights and reading.numbers.design.target is not None:
            noun, target = reading.numbers.noun, reach_of(reading.numbers.design)
        text = number_table(rows, page.level, noun, target)
        return ResponseBody(text.encode(), HTML)

    return replies.Question(("page numbers", page.level), make)


def ask_expected(reading: ServedPosterior, page: PageRequest, record: Mapping[str, str]) -> replies.Question:
    """Ask for a regression's expected value for a record that was entered.

    Raises:
        InputError: a field that is not a number.
    """
    design: Any = reading.version.evidence.one_release.over
    features = design.feature_rows([{name: _number(name, text) for name, text in record.items()}])

    def make() -> ResponseBody:
        expected = reading.numbers.expected(features, level=page.level)
        classes = design.predicts in ("class", "classes")
        ends = [numbers[0].tolist() for numbers in (expected.mean, expected.lower, expected.upper)]
        return ResponseBody(expected_table(expected.outputs, ends, page.level, classes=classes).encode(), HTML)

    return replies.Question(("page expected", tuple(features[0].tolist()), page.level), make)


def _number(name: str, text: str) -> float:
    """Read a number that was entered.

    Raises:
        InputError: it is not a number.
    """
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} needs a number, such as 3.5") from None


def promises(evidence: Evidence) -> list[dict[str, Any]]:
    """List the guarantees of all parts; first the totals of releases of the same records."""
    if evidence.one_release is not None:
        return [_promise_of(evidence.one_release)]
    combined, together = evidence_of(evidence), list[dict[str, Any]]()
    for number, (parts, total) in enumerate(zip(combined.data_sets, combined.guarantees, strict=True), 1):
        if len(parts) > 1 and total is not None:
            title = f"All releases of data set {number} together"
            together.append({"title": title, "guarantee": str(total), "words": [], "source": None})
    return [*together, *map(_promise_of, combined.parts)]


def _promise_of(source: Release | External) -> dict[str, Any]:
    """Describe one part's guarantee, or the source of figures by others."""
    if source.one_release is not None:
        title, guarantee, words = f"Release {source.id[:8]}", str(source.guarantee), promise_words(source.one_release)
        return {"title": title, "guarantee": guarantee, "words": words, "source": None}
    guarantee = "no guarantee is stated" if source.guarantee is None else f"they state {source.guarantee}"
    return {"title": source.source, "guarantee": guarantee, "words": [], "source": source.source}


def page_questions(reading: ServedPosterior) -> Iterator[replies.Question]:
    """List the questions that pages ask first: without evidence, then with each state; costly ones are skipped."""
    if reading.version.kind == "weights":
        yield ask_numbers(reading, PageRequest())
    if reading.draws is None:
        return
    schema = reading.plain.network.schema
    yield _bounded(ask_states(reading, PageRequest()))
    if len(schema) > MOST_DRAWN:
        return
    if reading.plain.numbers is not None:
        yield _bounded(ask_distributions(reading, PageRequest()))
    yield _bounded(replies.ask_marginals(reading, MarginalsRequest()))
    texts = [f"{variable.name}={state}" for variable in schema for state in variable.states]
    for text in texts[: round(MOST_PREPARED_BYTES / (STATE_BYTES * len(texts)))]:
        yield _bounded(ask_states(reading, PageRequest(e=[text])))


def _bounded(question: replies.Question) -> replies.Question:
    """Make a question that is refused if it is much work; the work is predicted in the answering thread."""
    make, work = question.make, question.work

    def make_if_little() -> ResponseBody:
        if work is not None and work() > MOST_PREPARED_WORK:
            raise Problem("too-costly", "this is too much work to be prepared in advance")
        return make()

    return question._replace(make=make_if_little)
