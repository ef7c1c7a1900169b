"""Make the answer of each operation: pure functions from a posterior and a request to a response body.

JSON equals the command line's output for the same question, to the last digit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import compress
from typing import Any, NamedTuple, cast

from discreet.deciding.decide import Decision, decide, payoff
from discreet.deciding.decide_number import NumberDecision, decide_number, one_number
from discreet.deciding.decide_vector import VectorDecision, decide_vector
from discreet.display.renderers import csv_text
from discreet.errors import InputError, require
from discreet.model.query_grammar import Query, check_names, parse_query, plain_queries
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.predicting.predict import predict, prediction_document
from discreet.queries.answers import Answers
from discreet.queries.documents import (
    answer_document,
    fit_document,
    named_ends,
    regression_document,
    source_document,
)
from discreet.queries.query import answer_many, marginals
from discreet.queries.regress import regress
from discreet.queries.synthetic import PROBED_RECORDS, record_chunks, sample_set
from discreet.reporting.explain import explain
from discreet.reporting.release_report import report
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
from discreet.server.work_queue import ResponseBody, check_work
from discreet.util.arrays import Array
from discreet.util.json_files import json_text

CSV = "text/csv; charset=utf-8"
MOST_VALUES = 2**22
"""Most values of records in all their columns; only sparse records can have more in a body."""
MOST_DRAWN = 2**20
"""Most numbers of draws in one response, some 20 bytes each: 20 megabytes."""
QUICK_WORK = 1e8
"""Cells times draws below which one query is not planned exactly; about a second at most."""


class Question(NamedTuple):
    """A question with its computation.

    Args:
        key: of the answer in the cache; equal for questions with the same answer.
        make: computes the answer.
        work: predicts cells times draws.
    """

    key: tuple[Any, ...]
    make: Callable[[], ResponseBody]
    work: Callable[[], float] | None = None


def json_of(document: object) -> ResponseBody:
    """Write a document as JSON, in one line."""
    return ResponseBody((json_text(document, allow_nan=False) + "\n").encode())


def csv_of(rows: Sequence[Mapping[str, Any]]) -> ResponseBody:
    """Write rows as CSV."""
    return ResponseBody(csv_text(rows).encode(), CSV)


def ask_marginals(reading: ServedPosterior, request: MarginalsRequest) -> Question:
    """Compute the probabilities of every variable that is not observed, given evidence, with intervals.

    Raises:
        InputError: invalid evidence.
        Problem: there is no posterior over a network.
    """
    posterior = reading.posterior(request.missing)
    evidence = read_evidence(posterior.network.schema, request.e)

    def make() -> ResponseBody:
        answers = marginals(posterior, evidence, level=request.level, predictive=request.predictive)
        return _write_answers(reading, posterior, answers, request)

    key = ("marginals", _order(evidence), request.level, request.predictive, request.missing, *_form_of(request))
    return Question(key, make, lambda: marginals_work(posterior, evidence))


def ask_queries(reading: ServedPosterior, request: QueryRequest) -> Question:
    """Answer queries, as `discreet query --json` prints them. Default: all marginals, or coefficients.

    Raises:
        InputError: a query that cannot be read; the message has its position if there are several.
        Problem: there is no posterior over a network.
    """
    if not request.q and reading.version.kind in ("weights", "family"):
        return _ask_numbers(reading, request)
    if not request.q:
        require(request.assume is None, "assume needs queries of several variables; give q")
        rest = {name: getattr(request, name) for name in ("level", "predictive", "missing", "draws", "format")}
        return ask_marginals(reading, MarginalsRequest(**rest))
    posterior = reading.posterior(request.missing)
    queries = [parse(posterior, text, at, len(request.q)) for at, text in enumerate(request.q)]
    how: Any = {name: getattr(request, name) for name in ("level", "predictive", "assume", "inside")}

    def make() -> ResponseBody:
        return _write_answers(reading, posterior, answer_many(posterior, request.q, **how), request)

    def work() -> float:
        bounds = request.assume == "nothing"
        if len(queries) == 1 and not bounds and (quick := quick_bound(posterior, queries[0])) <= QUICK_WORK:
            return quick
        return sum(query_work(posterior, query, bounds=bounds) for query in queries)

    return Question(("query", tuple(map(str, queries)), *how.values(), request.missing, *_form_of(request)), make, work)


def parse(posterior: PosteriorDraws, text: str, position: int = 0, number: int = 1) -> Query:
    """Read a query; if there are several, the error has the query's position.

    Raises:
        InputError: it cannot be read.
    """
    try:
        query = parse_query(text, posterior.network.schema)
        check_names(query, posterior.network.schema)
    except InputError as error:
        raise InputError(f"query {position + 1}: {error}" if number > 1 else str(error)) from None
    return query


def _ask_numbers(reading: ServedPosterior, request: QueryRequest) -> Question:
    """Ask for all coefficients of a regression, or all parameters of a family."""
    if request.predictive or request.draws or request.assume is not None or request.missing is not None:
        raise InputError("coefficients and parameters have no option but level and format; leave the others out")

    def make() -> ResponseBody:
        numbers, level = reading.numbers, request.level
        if request.format == "csv":
            return csv_of(numbers.tidy(level=level))
        return json_of({"method": numbers.method, "level": level, f"{numbers.noun}s": numbers.rows(level=level)})

    return Question(("numbers", request.level, request.format), make)


def _form_of(request: MarginalsRequest | QueryRequest) -> tuple[str, bool]:
    """The form of a response, for its key; draws have no CSV."""
    require(not (request.draws and request.format == "csv"), "draws are in JSON alone; leave out draws or format")
    return request.format, request.draws


def _write_answers(
    reading: ServedPosterior, posterior: PosteriorDraws, answers: Answers, request: MarginalsRequest | QueryRequest
) -> ResponseBody:
    """Write answers with the description of their posterior.

    Raises:
        Problem: more than `MOST_DRAWN` numbers of draws.
    """
    if request.format == "csv":
        return csv_of(answers.tidy())
    numbers = sum(len(answer.rows) for answer in answers) * (posterior.probabilities.draws or 1)
    if request.draws and numbers > MOST_DRAWN:
        raise Problem(
            "too-costly",
            f"the draws of these answers are {numbers:,} numbers, more than the {MOST_DRAWN:,} of one response; ask "
            "for fewer answers at once, or for fewer states",
        )
    documents = [answer_document(answer, draws=request.draws) for answer in answers]
    if reading.version.kind == "states":
        return json_of({"method": posterior.method, "answers": documents})
    source = source_document(reading.version.evidence, posterior, reading.checked)
    return json_of({**source, "answers": documents, "effective": posterior.ess()})


def ask_prediction(reading: ServedPosterior, request: PredictRequest) -> Question:
    """Predict one variable for records with some others observed; for a regression, the expected value.

    Raises:
        InputError: records or a target that do not fit.
        Problem: there is no posterior over a network.
    """
    if reading.version.kind == "weights":
        return _ask_expectation(reading, request)
    if request.target is None:
        raise InputError("name the target: the variable to predict")
    posterior, target = reading.posterior(request.missing), request.target

    @cache
    def table() -> dict[str, list[Any]]:  # runs in the thread; the target's column counts records without values
        return _by_column(request.records) or {target: [None] * len(request.records)}

    def make() -> ResponseBody:
        return json_of(prediction_document(predict(posterior, table(), target, level=request.level)))

    def work() -> float:
        if target not in posterior.network.schema:
            return 0.0  # refused at once
        columns = table()
        names = [name for name in columns if name != target and name in posterior.network.schema]
        rows = zip(*([value is not None for value in columns[name]] for name in names), strict=True)
        shown = Counter(rows) if names else {(): len(next(iter(columns.values())))}
        patterns = {tuple(compress(names, row)): number for row, number in shown.items()}
        return prediction_work(posterior, target, patterns)

    return Question(("predict", request.model_dump_json()), make, work)


def _ask_expectation(reading: ServedPosterior, request: PredictRequest) -> Question:
    """Ask for a regression's expected values for records."""
    design: Any = reading.version.evidence.one_release.over
    target = None if design.target is None else design.target.name
    require(request.target in (None, target), "a regression has its own target: leave it out")
    require(request.missing is None, "missing is for releases of a network: leave it out")

    @cache
    def features() -> Array:
        table = _by_column(request.records)
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        return cast(Array, design.feature_rows(rows))

    def make() -> ResponseBody:
        values = reading.numbers.expected(features(), level=request.level)
        rows = [named_ends(values.outputs, *ends) for ends in zip(values.mean, values.lower, values.upper, strict=True)]
        return json_of({"target": design.target and design.target.name, "level": request.level, "records": rows})

    def work() -> float:
        return float(features().size * DRAWS * design.outputs)

    return Question(("expect", request.model_dump_json()), make, work)


def _by_column(records: Records) -> dict[str, list[Any]]:
    """Turn records into columns; a missing field is None.

    Raises:
        InputError: columns of different lengths.
        Problem: too many values.
    """
    if isinstance(records, list):
        names = dict.fromkeys(name for record in records for name in record)
        if len(names) * len(records) > MOST_VALUES:
            raise Problem("too-costly", f"the records have more than {MOST_VALUES:,} values; ask for fewer at once")
        return {name: [record.get(name) for record in records] for name in names}
    require(len({*map(len, records.values())}) < 2, "the columns of the records differ in length")
    return {name: list(values) for name, values in records.items()}


def ask_decision(reading: ServedPosterior, request: DecisionRequest) -> Question:
    """Find the response with the largest expected payoff, or the number or vector with the least expected loss."""
    posterior, payoffs = reading.posterior(request.missing), request.payoffs or {}
    network, parts = posterior.network, request.quantities
    fields = [request.query is not None, request.quantity is not None, parts is not None]
    is_one = sum(fields) == 1 and fields[0] == (request.payoffs is not None)
    require(is_one, "give a query with its payoffs, a quantity, or quantities")
    how: Any = {"level": request.level, "failure": request.failure, "queries": request.queries, "fresh": False}
    make: Callable[[], Decision[str] | NumberDecision | VectorDecision]
    if parts is not None:
        require(request.bounds is None and request.loss == "squared", "quantities have neither a loss nor bounds")
        queries = [parse_query(part, network.schema) for part in parts]
        text, make = "; ".join(parts), partial(decide_vector, posterior, parts, **how)
    elif request.quantity is not None:
        text, queries = request.quantity, [one_number(network, request.quantity)]
        make = partial(decide_number, posterior, text, request.loss, bounds=request.bounds, **how)
    else:
        text = str(request.query)
        require(bool(payoffs), "give the payoffs of at least one response")
        utility, queries = payoff(network, text, payoffs), [parse_query(text, network.schema)]
        values = [value for row in payoffs.values() for value in row.values()]
        responses = list(payoffs) if request.responses is None else request.responses
        bounds = (min(values), max(values)) if request.bounds is None else request.bounds
        make = partial(decide, posterior, utility, responses, bounds=bounds, **how)

    def work() -> float:
        rows = ROW_CELLS * len(payoffs) * (posterior.probabilities.draws or 1)
        return sum(query_work(posterior, query) for query in queries) + rows

    return Question(("decide", request.model_dump_json()), lambda: json_of(make().document(text)), work)


def ask_regression(reading: ServedPosterior, request: RegressRequest) -> Question:
    """Fit a regression of one variable of the network on others."""
    posterior = reading.posterior(request.missing)
    how: Any = {name: getattr(request, name) for name in ("kind", "given", "assume", "inside")}

    def make() -> ResponseBody:
        regression = regress(posterior, request.target, request.on, **how)
        if request.format == "csv":
            return csv_of(regression.tidy(level=request.level))
        return json_of(regression_document(regression, request.level, draws=request.draws))

    def work() -> float:
        return regression_work(posterior, request.target, request.on, logistic=request.kind == "logistic")

    return Question(("regress", request.model_dump_json()), make, work)


def ask_explanation(reading: ServedPosterior, request: ExplainRequest) -> Question:
    """Explain how one record can change the release, and what answers depend on."""
    release = reading.version.evidence

    def make() -> ResponseBody:
        explanation = explain(release, request.q, rng=SEED, level=request.level, draws=DRAWS, rows=request.rows)
        return json_of(explanation.document())

    def work() -> float:
        posterior, network = reading.posterior(), release.network
        queries = plain_queries(request.q, network)
        cells = explanation_work(network, queries, DRAWS) + sum(query_work(posterior, query) for query in queries)
        return len(release.parts) * cells

    return Question(("explain", request.model_dump_json()), make, work if request.q else None)


def ask_fit(reading: ServedPosterior, request: FitRequest) -> Question:
    """Compare the release's tables with its network."""
    if not reading.version.over_network:
        raise Problem("bad-request", "fit tests the network of a release that measured tables; this one did not")
    return Question(("fit",), lambda: json_of(fit_document(reading.checked)))


def ask_report(reading: ServedPosterior, request: ReportRequest) -> Question:
    """Write a report of the release, for people."""
    media = "text/html; charset=utf-8" if request.format == "html" else "text/markdown; charset=utf-8"

    def make() -> ResponseBody:
        posterior = None if reading.draws is None else reading.posterior()
        text = report(reading.version.evidence, posterior=posterior, form=request.format, level=request.level, rng=SEED)
        return ResponseBody(text.encode(), media)

    def work() -> float:
        return 0.0 if reading.draws is None else report_work(reading.posterior())

    return Question(("report", request.level, request.format), make, work)


def synthetic_chunks(
    reading: ServedPosterior, fields: SyntheticRequest, most_work: float = math.inf
) -> Iterator[tuple[int, bytes]]:
    """Make synthetic records as pieces of a file.

    Raises:
        InputError: no such set, or more sets than draws.
        Problem: more than `most_work`.
    """
    posterior = reading.posterior(fields.missing)
    network = posterior.network
    check_work(record_work(network, max(fields.n, PROBED_RECORDS if fields.given else 0)), most_work)
    if fields.set > (fields.sets or 1):
        raise InputError(f"there are {fields.sets or 1} sets, and set {fields.set} is none of them")
    most = most_work / record_work(network, 1)
    records = sample_set(
        posterior, fields.n, fields.set - 1, rng=fields.seed, sets=fields.sets, given=fields.given, most=most
    )
    return record_chunks(records, fields.format)


def _order(evidence: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Sort evidence for a key: its order does not matter."""
    return tuple(sorted(evidence.items()))
