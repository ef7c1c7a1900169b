"""A posterior held by a server: calls go there, and the results equal those of the same draws here.

Invalid calls are refused here, with the same messages. Of records to predict, only the codes of their states are sent.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from discreet.deciding.decide import Decision, Payoff, read_decision
from discreet.deciding.decide_number import NumberDecision, one_number, read_number_decision
from discreet.deciding.decide_vector import VectorDecision, read_vector_decision, vector_diameter
from discreet.deciding.number_losses import number_loss
from discreet.errors import DiscreetError, InputError, require, shown
from discreet.inference.bin_laws import check_inside
from discreet.model.network import Network
from discreet.model.query_grammar import Probability, Query, read_query
from discreet.model.tables import Tables
from discreet.posterior.remote_dispatch import RemotePosteriorBase
from discreet.predicting.predict import Prediction, read_evidence, read_prediction
from discreet.queries.answers import Answer, Answers
from discreet.queries.credible import check_level
from discreet.queries.documents import read_answer, read_regression
from discreet.queries.query import answer, marginals, name_query
from discreet.queries.regress import Regression
from discreet.queries.synthetic import make_arrow_schema
from discreet.server.http_client import BODY_BYTES, HttpClient, RecordStream
from discreet.util.option_texts import DEFAULT_LEVEL, Gaps, Inside
from discreet.util.randomness import Seed, as_generator
from discreet.util.tabular import Block, Result

if TYPE_CHECKING:
    from discreet.util.option_texts import Assume

QUERIES_AT_ONCE, RECORDS_AT_ONCE = 500, 2000
"""Most queries and most records of one request; more are sent in several."""
BLOCK = 65_536
"""Records that a server makes at once: the default of `sample`."""
ARROW_MAGIC_BYTES = 8
"""Bytes before the stream in an Arrow file; a footer follows it."""
LARGEST_SEED = 2**63
NO_FUNCTION = "a function cannot be sent to a server"
SLACK_BYTES = 2**20
"""Bytes allowed for a stream of records beside the records."""


@dataclass(frozen=True, eq=False)
class RemotePosterior(RemotePosteriorBase, Result):
    """A posterior that a server has drawn, or read from stored draws.

    Use it as a local one: `answer`, `answer_many`, `marginals`, `predict`, `regress`, `decide`,
    `decisions.decide_number`, `decisions.decide_vector` and `sample` return the same results as for the same draws
    here, to the last digit. No new draws are made: decisions use the server's, as with `fresh=False`, and utilities
    cannot be functions. Functions that need the draws themselves refuse it.

    Args:
        http: client of the server.
        name: of the release on the server.
        id: of the version, also after a newer one replaces it.
        network: of the posterior.
        missing: treatment of missing values: "at-random", "state", or None for the server's default.
        with_draws: True fetches the numbers of answers in every draw, so that these have `draws`.

    Raises:
        Nothing: `Client.posterior` makes these.

    Example:
        >>> import discreet as dc
        >>> dc.server.RemotePosterior.answer.__doc__.splitlines()[0]
        'Answer a query; short for `discreet.answer(posterior, query, ...)`, which documents all options.'
    """

    http: HttpClient
    name: str
    id: str
    network: Network
    missing: Gaps | None = None
    with_draws: bool = False

    def __repr__(self) -> str:
        """Return the address, the release and the number of variables."""
        return f"RemotePosterior({self.name!r} at {self.http.url!r}, {len(self.network.nodes):,} variables)"

    @property
    def probabilities(self) -> Tables:
        """Draws, which are on the server.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"the draws of {shown(self.name)} are at {self.http.url}, and this needs them here: draw them from "
            "client.release(), or load a file of `discreet draw`"
        )

    def mean(self) -> Tables:
        """Refuse: the draws are on the server.

        Returns:
            Nothing.

        Raises:
            InputError: always.
        """
        return self.probabilities

    def draw(self, n: int, *, rng: Seed = None) -> Tables:
        """Refuse: the draws are on the server.

        Args:
            n: number of draws.
            rng: seed or generator.

        Returns:
            Nothing.

        Raises:
            InputError: always.
        """
        return self.probabilities

    def answer(
        self,
        query: str | Query,
        *,
        level: float = DEFAULT_LEVEL,
        predictive: bool = False,
        assume: Assume | None = None,
        inside: Inside = "log-linear",
    ) -> Answer:
        """Answer a query; short for `discreet.answer(posterior, query, ...)`, which documents all options.

        Args:
            query: such as "P(lung | smoke=yes)".
            level: posterior probability of each interval.
            predictive: True answers for the next record, not for the population.
            assume: assumption about variables that no table measures together.
            inside: law of numbers inside their bins.

        Returns:
            Means and intervals.

        Raises:
            InputError: as in `discreet.answer`, or too much work for the server.
            DiscreetError: the server does not answer.
        """
        return answer(self, query, level=level, predictive=predictive, assume=assume, inside=inside)

    def tidy(self) -> list[dict[str, Any]]:
        """Return a row for each state of each variable: its probability with its 95 % interval.

        Returns:
            The rows of `marginals(posterior)`.
        """
        return marginals(self).tidy()

    __str__ = object.__str__  # one line: rows are asked of the server

    def content(self) -> Iterator[str | Block]:
        """Where the draws are, and the probability of each state with its interval."""
        yield from (repr(self), "", *marginals(self).content())

    def _repr_html_(self) -> str:
        """Return the network for a notebook, without a request."""
        return self.network._repr_html_()

    def ask(self, function: str, arguments: Mapping[str, Any]) -> Any:
        """Call a function of this package for this posterior, and return its result.

        Args:
            function: its name.
            arguments: all its other arguments.
        """
        return ASKED[function](self, **arguments)

    def post(self, operation: str, body: Mapping[str, Any]) -> Any:
        """Send a question to the server, and return its answer.

        Args:
            operation: its name.
            body: of the request.
        """
        draws = {"draws": True} if self.with_draws and operation in ("query", "marginals") else {}
        return self.http.ask("releases", self.id, operation, body={**body, "missing": self.missing, **draws})

    def read(self, reader: Callable[..., Any], *documents: Any) -> Any:
        """Read a document of the server.

        Args:
            reader: function that reads it.
            documents: its arguments.

        Raises:
            DiscreetError: the document has another form.
        """
        try:
            return reader(*documents)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise DiscreetError(f"{self.http.url} answers in another form than this version reads") from None

    def check(self, *right: bool) -> None:
        """Check that an answer belongs to the question.

        Raises:
            DiscreetError: it does not.
        """
        if not all(right):
            raise DiscreetError(f"{self.http.url} answers another question than was asked")


def _answer(remote: RemotePosterior, query: str | Query, **how: Any) -> Answer:
    """Answer a query; see `answer`."""
    check_level(how["level"])
    check_inside(how["inside"])
    read_query(query, remote.network.schema)
    try:
        return _answer_many(remote, [query], **how)[0]
    except InputError as error:  # a single query has no position
        raise InputError(str(error).removeprefix("query 1, ")) from None


def _answer_many(
    remote: RemotePosterior, queries: Sequence[str | Query], level: float, predictive: bool, assume: Any, inside: str
) -> Answers:
    """Answer several queries; see `answer_many`."""
    check_level(level)
    check_inside(inside)
    require(not isinstance(queries, str | Query), "answer_many takes a list of queries; answer takes one")
    texts, canonical = [], []
    for position, query in enumerate(queries):
        with name_query(position, query):
            canonical.append(str(read_query(query, remote.network.schema)))
            texts.append(query if isinstance(query, str) else canonical[-1])
    how = {"level": float(level), "predictive": bool(predictive), "assume": assume, "inside": inside}
    answers: list[Answer] = []
    for chunk in _divide(texts, QUERIES_AT_ONCE):
        document = remote.post("query", {"q": chunk, **how})
        answers += remote.read(lambda document: list(map(read_answer, document["answers"])), document)
    if len(answers) != len(texts):
        raise DiscreetError(f"{remote.http.url} answers {len(answers)} of {len(texts)} queries")
    remote.check([each.query for each in answers] == canonical, all(each.level == level for each in answers))
    return Answers(answers)


def _marginals(remote: RemotePosterior, evidence: Mapping[str, str], level: float, predictive: bool) -> Answers:
    """Compute all marginals; see `marginals`."""
    check_level(level)
    require(isinstance(evidence, Mapping), "evidence is a mapping of states, such as {'smoke': 'yes'}")
    for name, state in evidence.items():
        remote.network.schema[name].code(state)
    texts = [f"{name}={state}" for name, state in evidence.items()]
    document = remote.post("marginals", {"e": texts, "level": float(level), "predictive": bool(predictive)})
    answers = remote.read(lambda document: list(map(read_answer, document["answers"])), document)
    names = [name for name in remote.network.nodes if name not in evidence]
    if [list(row["state"]) for each in answers for row in each.rows[:1]] != [[name] for name in names]:
        raise DiscreetError(f"{remote.http.url} does not answer of all variables")
    # A server's cache ignores the order of evidence; the query here keeps the caller's order.
    parsed = [remote.read(read_query, each.query, remote.network.schema) for each in answers]
    remote.check(all(sorted(each.evidence) == sorted(evidence.items()) for each in parsed))
    remote.check(all(each.level == level for each in answers))
    queries = [str(Probability(((name, None),), tuple(evidence.items()))) for name in names]
    return Answers(replace(each, query=query) for each, query in zip(answers, queries, strict=True))


def _predict(remote: RemotePosterior, records: Any, target: str, level: float) -> Prediction:
    """Predict a variable for records; see `predict`. Only codes of observed states are sent."""
    check_level(level)
    schema = remote.network.schema
    states = schema[target].states
    evidence = read_evidence(records, remote.network, target)
    names = [(name, schema[name].states) for name in evidence.names]
    # The server ignores the target; its column marks a record without observed values.
    rows = [
        {target: None, **{name: labels[code] for (name, labels), code in zip(names, row, strict=True) if code >= 0}}
        for row in evidence.codes.tolist()
    ]
    documents, sent = [], 0
    for chunk in _divide(rows, RECORDS_AT_ONCE) if rows else [[]]:
        try:
            documents.append(remote.post("predict", {"records": chunk, "target": target, "level": float(level)}))
        except InputError as error:
            position = f"of the records from position {sent} on: " if sent else ""
            raise InputError(f"{position}{error}") from None
        sent += len(chunk)
    prediction: Prediction = remote.read(read_prediction, documents, states)
    remote.check(prediction.target == target, prediction.level == level)
    if len(prediction.mean) != len(rows):
        raise DiscreetError(f"{remote.http.url} answers for {len(prediction.mean)} of {len(rows)} records")
    return prediction


def _regress(remote: RemotePosterior, target: str, on: Sequence[str], **how: Any) -> Regression:
    """Fit a regression; see `regress`. All draws are fetched, for intervals of any level."""
    names = (on,) if isinstance(on, str) else tuple(on)
    require(bool(names), f"a regression of {shown(target)} needs at least one covariate")
    options = {"target": target, **how, "missing": remote.missing}
    pairs = [*options.items(), *(("on", name) for name in names), ("draws", True)]
    document = remote.http.ask("releases", remote.id, "regress", parameters=pairs)
    regression: Regression = remote.read(read_regression, document)
    remote.check(regression.target == target, regression.on == names, regression.kind == how["kind"])
    return regression


def _decide(remote: RemotePosterior, utility: Any, responses: Sequence[str], **how: Any) -> Decision[str]:
    """Choose a response; see `decide`. The server's draws are used; payoffs can be sent, a function cannot."""
    require(isinstance(utility, Payoff), f"{NO_FUNCTION} as utility: use decisions.payoff, or decide here")
    states = remote.network.schema[utility.asked.targets[0][0]].states
    payoffs = {
        name: dict(zip(states, row.astype(float).tolist(), strict=True)) for name, row in utility.payoffs.items()
    }
    body = {"query": str(utility.asked), "payoffs": payoffs, "responses": list(responses)}
    document = remote.post("decide", body | _options(**how))
    decision: Decision[str] = remote.read(read_decision, document)
    remote.check(document.get("query") == body["query"])
    return decision


def _decide_number(remote: RemotePosterior, quantity: Any, loss: Any, **how: Any) -> NumberDecision:
    """Choose a number; see `decide_number`. The server's draws are used."""
    require(isinstance(quantity, str), f"{NO_FUNCTION} as quantity: give a query, or decide here")
    one_number(remote.network, quantity)
    body = {"quantity": quantity, "loss": str(number_loss(loss))}
    document = remote.post("decide", body | _options(**how))
    decision: NumberDecision = remote.read(read_number_decision, document)
    remote.check(document.get("quantity") == quantity, str(decision.loss) == body["loss"])
    return decision


def _decide_vector(remote: RemotePosterior, quantities: Any, **how: Any) -> VectorDecision:
    """Choose a vector; see `decide_vector`. The server's draws are used."""
    texts = [quantities] if isinstance(quantities, str) or callable(quantities) else list(quantities)
    is_text = all(isinstance(text, str) for text in texts)
    require(is_text, f"{NO_FUNCTION} as quantity: give queries, or decide here")
    vector_diameter(remote.network, texts)
    document = remote.post("decide", {"quantities": texts} | _options(**how))
    decision: VectorDecision = remote.read(read_vector_decision, document)
    remote.check(document.get("quantity") == "; ".join(texts))
    return decision


def _options(level: float, queries: int, failure: float, bounds: Any = None, **_: object) -> dict[str, Any]:
    """Write the options of decisions of any kind; new draws and a seed are not sent."""
    check_level(level)
    ends = None if bounds is None else list(map(float, bounds))
    return {"level": float(level), "bounds": ends, "queries": queries, "failure": float(failure)}


def _sample(
    remote: RemotePosterior, n: int, rng: Seed, sets: int | None, block: int, **evidence: str
) -> tuple[pa.RecordBatchReader, ...]:
    """Make synthetic records; see `sample`. They arrive as they are read."""
    as_generator(rng)
    if isinstance(rng, np.random.Generator):
        raise InputError("a generator cannot be sent to a server: give a seed, a whole number, as rng")
    require(block == BLOCK, f"a server makes {BLOCK:,} records at once: leave out block")
    seed = secrets.randbelow(LARGEST_SEED) if rng is None else int(rng)
    parameters = {"n": int(n), "sets": sets, "seed": seed, "format": "arrow", "missing": remote.missing}
    parameters |= {name: text for name, text in evidence.items() if text}
    schema = remote.network.schema
    width = 16 * len(schema) + sum(max(len(str(state).encode()) for state in variable.states) for variable in schema)
    path, most = ("releases", remote.id, "synthetic"), SLACK_BYTES + 2 * max(0, int(n)) * width
    shape = make_arrow_schema(schema)
    # The first set is requested at once, so that errors are raised here, not when records are read.
    first = remote.http.stream(*path, parameters=[*parameters.items(), ("set", 1)], most=most)

    def batches(number: int) -> Iterator[pa.RecordBatch]:
        set_parameters = parameters | {"set": number}
        source = first if number == 1 else remote.http.stream(*path, parameters=set_parameters.items(), most=most)
        yield from _read_batches(remote, source, shape, int(n))

    numbers = range(1, (sets or 1) + 1)
    return tuple(pa.RecordBatchReader.from_batches(shape, batches(number)) for number in numbers)


def _read_batches(remote: RemotePosterior, source: RecordStream, shape: pa.Schema, n: int) -> Iterator[pa.RecordBatch]:
    """Read records of an Arrow file as they arrive; raise an error unless there are n."""
    read = 0
    with source:
        try:
            source.read(ARROW_MAGIC_BYTES)
            with pa.ipc.open_stream(source) as stream:
                if stream.schema != shape:
                    raise DiscreetError(f"{remote.http.url} sends records of other columns")
                for batch in stream:
                    batch.validate(full=True)  # offsets beyond the buffer would crash the process that reads a cell
                    read += batch.num_rows
                    yield batch
        except (pa.ArrowException, OSError):
            raise DiscreetError(f"{remote.http.url} sends no valid records") from None
        if read != n:
            raise DiscreetError(f"{remote.http.url} sent {read:,} of {n:,} records")


def _divide(members: list[Any], most: int) -> Iterator[list[Any]]:
    """Divide a list into pieces that fit into one request each."""
    piece: list[Any] = []
    size = 0
    for member in members:
        size_of_part = len(json.dumps(member)) + 2
        if piece and (len(piece) == most or size + size_of_part > BODY_BYTES // 2):
            yield piece
            piece, size = [], 0
        piece.append(member)
        size += size_of_part
    if piece:
        yield piece


ASKED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "answer": _answer,
        "answer_many": _answer_many,
        "marginals": _marginals,
        "predict": _predict,
        "regress": _regress,
        "decide": _decide,
        "decide_number": _decide_number,
        "decide_vector": _decide_vector,
        "sample": _sample,
    }
)
"""Function of this module for each function of the package."""
