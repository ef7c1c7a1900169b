"""What each question is answered with: pure functions from a reading and what was asked to the content of a response.

JSON is what the command line prints for the same question, to the last digit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import compress
from typing import Any, NamedTuple

from discreet.display.renderers import csv_text
from discreet.errors import InputError
from discreet.model.query_grammar import Query, check_names, parse_query
from discreet.posterior.design.expected_values import expected_values, feature_rows
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.answers import Answers
from discreet.queries.decide import decide, payoff
from discreet.queries.decide_number import decide_number, one_probability
from discreet.queries.documents import (
    answer_document,
    decision_document,
    fit_document,
    named_ends,
    prediction_document,
    regression_document,
    source_document,
)
from discreet.queries.explain import explain
from discreet.queries.predict import predict
from discreet.queries.query import answer_many, marginals
from discreet.queries.regress import regress
from discreet.queries.release_report import report
from discreet.queries.synthetic import record_chunks, sample_set
from discreet.releases.release import Release
from discreet.server.desk import Made, check_work
from discreet.server.parameters import (
    DecisionRequest,
    ExplainRequest,
    FitRequest,
    MarginalsRequest,
    PredictRequest,
    QueryRequest,
    Records,
    RegressRequest,
    ReportRequest,
    SyntheticRequest,
    read_evidence,
)
from discreet.server.problems import Problem
from discreet.server.readings import DRAWS, SEED, ServedPosterior
from discreet.server.work import (
    ROW_CELLS,
    explanation_work,
    marginals_work,
    prediction_work,
    query_work,
    quick_bound,
    record_work,
    regression_work,
    report_work,
)
from discreet.util.arrays import Array
from discreet.util.json_files import json_text

CSV = "text/csv; charset=utf-8"
MOST_VALUES = 2**22
"""Of records, in all their columns; only records that leave most of them out can have more in a body."""
QUICK_WORK = 1e8
"""Cells times draws below which one query is not worth to be planned twice; about a second at most."""


class Question(NamedTuple):
    """A question that can be asked.

    Args:
        key: by which its answer is kept; equal for questions of the same answer.
        make: finds the answer.
        work: predicts cells times draws.
    """

    key: tuple[Any, ...]
    make: Callable[[], Made]
    work: Callable[[], float] | None = None


def json_of(document: object) -> Made:
    """A document as JSON, in one line."""
    return Made((json_text(document, allow_nan=False) + "\n").encode())


def csv_of(rows: Sequence[Mapping[str, Any]]) -> Made:
    """Rows as CSV."""
    return Made(csv_text(rows).encode(), CSV)


def ask_marginals(reading: ServedPosterior, asked: MarginalsRequest) -> Question:
    """Probabilities of every variable that is not observed, given evidence, with intervals.

    Raises:
        InputError: evidence that is none.
        Problem: no network answers.
    """
    posterior = reading.posterior(asked.missing)
    evidence = read_evidence(posterior.network.schema, asked.e)

    def make() -> Made:
        found = marginals(posterior, evidence, level=asked.level, predictive=asked.predictive)
        return _written(reading, posterior, found, asked.format)

    key = ("marginals", _order(evidence), asked.level, asked.predictive, asked.missing, asked.format)
    return Question(key, make, lambda: marginals_work(posterior, evidence))


def ask_queries(reading: ServedPosterior, asked: QueryRequest) -> Question:
    """Answers to queries, as `discreet query --json` prints them; without any all marginals, or coefficients.

    Raises:
        InputError: a query that cannot be read; the message has its position where there are several.
        Problem: no network answers.
    """
    if not asked.q and reading.version.kind in ("weights", "family"):
        return _ask_numbers(reading, asked)
    if not asked.q:
        if asked.assume is not None:
            raise InputError("assume is about several variables at once; name the queries")
        rest = {name: getattr(asked, name) for name in ("level", "predictive", "missing", "format")}
        return ask_marginals(reading, MarginalsRequest(**rest))
    posterior = reading.posterior(asked.missing)
    queries = [parse(posterior, text, at, len(asked.q)) for at, text in enumerate(asked.q)]
    how: Any = {name: getattr(asked, name) for name in ("level", "predictive", "assume", "inside")}

    def make() -> Made:
        return _written(reading, posterior, answer_many(posterior, queries, **how), asked.format)

    def work() -> float:
        bounds = asked.assume == "nothing"
        if len(queries) == 1 and not bounds and (quick := quick_bound(posterior, queries[0])) <= QUICK_WORK:
            return quick
        return sum(query_work(posterior, query, bounds=bounds) for query in queries)

    return Question(("query", tuple(map(str, queries)), *how.values(), asked.missing, asked.format), make, work)


def parse(posterior: PosteriorDraws, text: str, position: int = 0, number: int = 1) -> Query:
    """Read a query; where there are several, say which one cannot be read.

    Raises:
        InputError: it cannot be read.
    """
    try:
        query = parse_query(text, posterior.network.schema)
        check_names(query, posterior.network.schema)
    except InputError as error:
        raise InputError(f"query {position + 1}: {error}" if number > 1 else str(error)) from None
    return query


def _ask_numbers(reading: ServedPosterior, asked: QueryRequest) -> Question:
    """All coefficients of a regression, or parameters of a family."""
    if asked.predictive or asked.assume is not None or asked.missing is not None:
        raise InputError("coefficients and parameters are asked with a level alone")

    def make() -> Made:
        found, level = reading.numbers, asked.level
        if asked.format == "csv":
            return csv_of(found.tidy(level=level))
        return json_of({"method": found.method, "level": level, f"{found.noun}s": found.rows(level=level)})

    return Question(("numbers", asked.level, asked.format), make)


def _written(reading: ServedPosterior, posterior: PosteriorDraws, answers: Answers, form: str) -> Made:
    """Answers with all that they were read from."""
    if form == "csv":
        return csv_of(answers.tidy())
    told = [answer_document(part) for part in answers]
    if reading.version.kind == "states":
        return json_of({"method": posterior.method, "answers": told})
    source = source_document(reading.version.evidence, posterior, reading.checked)
    return json_of({**source, "answers": told, "effective": posterior.ess()})


def ask_prediction(reading: ServedPosterior, asked: PredictRequest) -> Question:
    """Probabilities of one variable for records that show some of the others; of a regression what it expects.

    Raises:
        InputError: records or a target that do not fit.
        Problem: no network answers.
    """
    if reading.version.kind == "weights":
        return _ask_expectation(reading, asked)
    if asked.target is None:
        raise InputError("name the target: the variable to predict")
    posterior, target = reading.posterior(asked.missing), asked.target

    @cache
    def table() -> dict[str, list[Any]]:  # in the thread; records that show nothing at all are still records
        return _by_column(asked.records) or {target: [None] * len(asked.records)}

    def make() -> Made:
        return json_of(prediction_document(predict(posterior, table(), target, level=asked.level)))

    def work() -> float:
        if target not in posterior.network.schema:
            return 0.0  # it is refused at once
        columns = table()
        known = [name for name in columns if name != target and name in posterior.network.schema]
        rows = zip(*([value is not None for value in columns[name]] for name in known), strict=True)
        shown = Counter(rows) if known else {(): len(next(iter(columns.values())))}
        patterns = {tuple(compress(known, row)): number for row, number in shown.items()}
        return prediction_work(posterior, target, patterns)

    return Question(("predict", asked.model_dump_json()), make, work)


def _ask_expectation(reading: ServedPosterior, asked: PredictRequest) -> Question:
    """What a regression expects of records."""
    design = reading.version.evidence.one_release.design
    if asked.target not in (None, design.target.name if design.target is not None else None):
        raise InputError("a regression has its own target: leave it out")
    if asked.missing is not None:
        raise InputError("missing is of releases of a network: leave it out")

    @cache
    def features() -> Array:
        table = _by_column(asked.records)
        return feature_rows(design, [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)])

    def make() -> Made:
        found = expected_values(reading.numbers, features(), level=asked.level)
        rows = [named_ends(found.outputs, *ends) for ends in zip(found.mean, found.lower, found.upper, strict=True)]
        return json_of({"target": design.target and design.target.name, "level": asked.level, "records": rows})

    def work() -> float:
        return float(features().size * DRAWS * design.outputs)

    return Question(("expect", asked.model_dump_json()), make, work)


def _by_column(records: Records) -> dict[str, list[Any]]:
    """Records as columns; what one of them does not show is None.

    Raises:
        InputError: columns of different lengths.
        Problem: so many columns of so many records.
    """
    if isinstance(records, list):
        names = dict.fromkeys(name for record in records for name in record)
        if len(names) * len(records) > MOST_VALUES:
            raise Problem("too-costly", f"the records have more than {MOST_VALUES:,} values; ask for fewer at once")
        return {name: [record.get(name) for record in records] for name in names}
    if len({len(values) for values in records.values()}) > 1:
        raise InputError("the columns of the records differ in length")
    return {name: list(values) for name, values in records.items()}


def ask_decision(reading: ServedPosterior, asked: DecisionRequest) -> Question:
    """The response of the largest expected payoff, or the number of the least expected loss."""
    posterior = reading.posterior(asked.missing)
    if (asked.query is None) == (asked.quantity is None) or (asked.query is None) != (asked.payoffs is None):
        raise InputError("name a query with its payoffs, or a quantity")
    how: Any = {"level": asked.level, "failure": asked.failure, "queries": asked.queries, "fresh": False}
    if asked.quantity is not None:
        quantity = asked.quantity
        query: Query = one_probability(posterior.network, quantity)

        def make() -> Made:
            made = decide_number(posterior, quantity, asked.loss, bounds=asked.bounds or (0.0, 1.0), **how)
            return json_of(decision_document(quantity, made))

    else:
        text, payoffs = str(asked.query), asked.payoffs or {}
        if not payoffs:
            raise InputError("name what at least one response pays")
        utility = payoff(posterior.network, text, payoffs)
        query = parse_query(text, posterior.network.schema)
        values = [value for row in payoffs.values() for value in row.values()]
        responses = list(payoffs) if asked.responses is None else asked.responses

        def make() -> Made:
            bounds = (min(values, default=0.0), max(values, default=1.0)) if asked.bounds is None else asked.bounds
            made = decide(posterior, utility, responses, bounds=bounds, **how)
            return json_of(decision_document(text, made))

    def work() -> float:
        return query_work(posterior, query) + ROW_CELLS * len(asked.payoffs or ()) * (posterior.cells.draws or 1)

    return Question(("decide", asked.model_dump_json()), make, work)


def ask_regression(reading: ServedPosterior, asked: RegressRequest) -> Question:
    """A regression of one variable of the network on others."""
    posterior = reading.posterior(asked.missing)
    how: Any = {name: getattr(asked, name) for name in ("kind", "assume", "inside")}

    def make() -> Made:
        found = regress(posterior, asked.target, asked.on, **how)
        if asked.format == "csv":
            return csv_of(found.tidy(level=asked.level))
        return json_of(regression_document(found, asked.level, draws=asked.draws))

    def work() -> float:
        return regression_work(posterior, asked.target, asked.on, logistic=asked.kind == "logistic")

    return Question(("regress", asked.model_dump_json()), make, work)


def ask_explanation(reading: ServedPosterior, asked: ExplainRequest) -> Question:
    """What one record can change in the release, and what answers depend on."""
    release = _require_release(reading, "explain takes one release: ask for those that were combined one by one")

    def make() -> Made:
        found = explain(release, asked.q, rng=SEED, level=asked.level, draws=DRAWS, rows=asked.rows)
        return json_of(found.document())

    def work() -> float:
        posterior, network = reading.posterior(), release.network
        queries = [parse_query(text, network.schema) for text in asked.q]
        return explanation_work(network, queries, DRAWS) + sum(query_work(posterior, query) for query in queries)

    return Question(("explain", asked.model_dump_json()), make, work if asked.q else None)


def ask_fit(reading: ServedPosterior, asked: FitRequest) -> Question:
    """What the release says of its network."""
    if not reading.version.over_network:
        raise Problem("bad-request", "fit tests the network of a release that measured tables; this one did not")
    return Question(("fit",), lambda: json_of(fit_document(reading.checked)))


def ask_report(reading: ServedPosterior, asked: ReportRequest) -> Question:
    """A report of the release, for people."""
    release = _require_release(reading, "a report is of one release: ask for those that were combined one by one")
    media = "text/html; charset=utf-8" if asked.format == "html" else "text/markdown; charset=utf-8"

    def make() -> Made:
        posterior = None if reading.draws is None else reading.posterior()
        text = report(release, posterior=posterior, form=asked.format, level=asked.level, rng=SEED)
        return Made(text.encode(), media)

    def work() -> float:
        return 0.0 if reading.draws is None else report_work(reading.posterior())

    return Question(("report", asked.level, asked.format), make, work)


def _require_release(reading: ServedPosterior, message: str) -> Release:
    """The release alone."""
    release: Release | None = reading.version.evidence.one_release
    if release is None:
        raise Problem("bad-request", message)
    return release


def synthetic_chunks(
    reading: ServedPosterior, asked: SyntheticRequest, most_work: float = math.inf
) -> Iterator[tuple[int, bytes]]:
    """Synthetic records as pieces of a file.

    Raises:
        InputError: no such set, or more sets than draws.
        Problem: more work than this.
    """
    check_work(record_work(reading.posterior(asked.missing).network, asked.n), most_work)
    if asked.set > (asked.sets or 1):
        raise InputError(f"there are {asked.sets or 1} sets, and set {asked.set} is none of them")
    posterior = reading.posterior(asked.missing)
    return record_chunks(sample_set(posterior, asked.n, asked.set - 1, rng=asked.seed, sets=asked.sets), asked.format)


def _order(evidence: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Evidence as part of a key: its order says nothing."""
    return tuple(sorted(evidence.items()))
