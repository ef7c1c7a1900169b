"""A posterior that a server has: every question about it goes there, and what comes back is what it is here.

What can be refused without the server is refused here, in the same words. Records of predictions go as the states that
they show, not as they are.
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

from discreet.errors import DiscreetError, InputError, require, shown
from discreet.model.network import Network
from discreet.model.query_grammar import Probability, Query, read_query
from discreet.model.tables import Tables
from discreet.posterior.elsewhere import Elsewhere
from discreet.queries.answers import Answer, Answers
from discreet.queries.bin_laws import check_inside
from discreet.queries.credible import check_level
from discreet.queries.decide import Decision, Payoff
from discreet.queries.decide_number import NumberDecision, one_probability
from discreet.queries.documents import (
    read_answer,
    read_decision,
    read_number_decision,
    read_prediction,
    read_regression,
)
from discreet.queries.number_losses import number_loss
from discreet.queries.predict import Prediction, read_evidence
from discreet.queries.query import answer, marginals, name_query
from discreet.queries.regress import Regression
from discreet.queries.synthetic import make_arrow_schema
from discreet.server.http_client import BODY_BYTES, RecordStream, Wire
from discreet.util.option_texts import DEFAULT_LEVEL, Gaps, Inside
from discreet.util.randomness import Seed, as_generator
from discreet.util.tabular import Block, Result

if TYPE_CHECKING:
    from discreet.util.option_texts import Assume

QUERIES_AT_ONCE, RECORDS_AT_ONCE = 500, 2000
"""Of one request; more go in several."""
BLOCK = 65_536
"""Records that a server makes at once, as `sample` does unless it is told otherwise."""
ARROW_MAGIC_BYTES = 8
"""Of a file of Arrow; what follows is its stream, and then a foot."""
LARGEST_SEED = 2**63
SLACK_BYTES = 2**20
"""Of a stream of records, beside the records."""


@dataclass(frozen=True, eq=False)
class RemotePosterior(Elsewhere, Result):
    """A posterior that a server has drawn, or read from stored draws.

    It is asked as one that is here: by `answer`, `answer_many`, `marginals`, `predict`, `regress`, `decide`,
    `decisions.decide_number` and `sample`, which return what they return for the same draws here, to the last digit.
    The draws are all there are: decisions are taken by them, as with `fresh=False`, and utilities that are functions
    cannot go there. What needs the draws themselves refuses it.

    Args:
        wire: the way to the server.
        name: by which the server lists the release.
        id: of the version that is asked, also when another one takes its place.
        network: of the posterior.
        missing: what is made of values that may be missing: "at-random", "state", or None for what the server does.

    Raises:
        Nothing: `Client.posterior` makes these.

    Example:
        >>> import discreet as dc
        >>> dc.server.RemotePosterior.answer.__doc__.splitlines()[0]
        'Ask a question: short for `discreet.answer(posterior, query, ...)`, which says all about it.'
    """

    wire: Wire
    name: str
    id: str
    network: Network
    missing: Gaps | None = None

    def __repr__(self) -> str:
        """Where it is, and what it is of."""
        return f"RemotePosterior({self.name!r} at {self.wire.url!r}, {len(self.network.nodes):,} variables)"

    @property
    def cells(self) -> Tables:
        """The draws, which are not here.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"the draws of {shown(self.name)} are at {self.wire.url}, and this needs them here: draw them from "
            "client.release(), or load a file that `discreet draw` wrote"
        )

    def mean(self) -> Tables:
        """Posterior means, which are not here.

        Returns:
            Nothing.

        Raises:
            InputError: always.
        """
        return self.cells

    def draw(self, n: int, *, rng: Seed = None) -> Tables:
        """Some of the draws, which are not here.

        Args:
            n: how many.
            rng: picks them.

        Returns:
            Nothing.

        Raises:
            InputError: always.
        """
        return self.cells

    def answer(
        self,
        query: str | Query,
        *,
        level: float = DEFAULT_LEVEL,
        predictive: bool = False,
        assume: Assume | None = None,
        inside: Inside = "log-linear",
    ) -> Answer:
        """Ask a question: short for `discreet.answer(posterior, query, ...)`, which says all about it.

        Args:
            query: such as "P(lung | smoke=yes)".
            level: posterior probability of each interval.
            predictive: whether it is about the next record, instead of the population.
            assume: what is believed of variables that no table holds together.
            inside: law of numbers inside their bins.

        Returns:
            Means and intervals.

        Raises:
            InputError: as in `discreet.answer`, and what is too much work for the server.
            DiscreetError: the server does not answer.
        """
        return answer(self, query, level=level, predictive=predictive, assume=assume, inside=inside)

    def tidy(self) -> list[dict[str, Any]]:
        """A row for each state of each variable: its probability with its 95 % interval.

        Returns:
            The rows of `marginals(posterior)`.
        """
        return marginals(self).tidy()

    __str__ = object.__str__  # one line: rows are asked of the server

    def content(self) -> Iterator[str | Block]:
        """Where the draws are, and the probability of each state with its interval."""
        yield from (repr(self), "", *marginals(self).content())

    def _repr_html_(self) -> str:
        """The network, for a notebook: nothing is asked for it."""
        return self.network._repr_html_()

    def ask(self, function: str, given: Mapping[str, Any]) -> Any:
        """What a function of this package returns for this posterior.

        Args:
            function: its name.
            given: all its other arguments.
        """
        return ASKED[function](self, **given)

    def post(self, operation: str, body: Mapping[str, Any]) -> Any:
        """What the server answers to a question.

        Args:
            operation: its name.
            body: what is asked.
        """
        return self.wire.ask("releases", self.id, operation, body={**body, "missing": self.missing})

    def read(self, reader: Callable[..., Any], *documents: Any) -> Any:
        """Read what the server answered.

        Args:
            reader: of it.
            documents: that the reader takes.

        Raises:
            DiscreetError: it is no such answer.
        """
        try:
            return reader(*documents)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise DiscreetError(f"{self.wire.url} answers in another form than this version reads") from None

    def check(self, *right: bool) -> None:
        """See that what came back is of what was asked.

        Raises:
            DiscreetError: it is not.
        """
        if not all(right):
            raise DiscreetError(f"{self.wire.url} answers something else than was asked")


def _answer(remote: RemotePosterior, query: str | Query, **how: Any) -> Answer:
    """As `answer`."""
    check_level(how["level"])
    check_inside(how["inside"])
    read_query(query, remote.network.schema)
    try:
        return _answer_many(remote, [query], **how)[0]
    except InputError as error:  # there is one query alone, and no first one
        raise InputError(str(error).removeprefix("query 1, ")) from None


def _answer_many(
    remote: RemotePosterior, queries: Sequence[str | Query], level: float, predictive: bool, assume: Any, inside: str
) -> Answers:
    """As `answer_many`."""
    check_level(level)
    check_inside(inside)
    require(not isinstance(queries, str | Query), "answer_many takes a list of queries; answer takes one")
    texts, asked = [], []
    for position, query in enumerate(queries):
        with name_query(position, query):
            asked.append(str(read_query(query, remote.network.schema)))
            texts.append(query if isinstance(query, str) else asked[-1])
    how = {"level": float(level), "predictive": bool(predictive), "assume": assume, "inside": inside}
    answers: list[Answer] = []
    for part in _divide(texts, QUERIES_AT_ONCE):
        found = remote.post("query", {"q": part, **how})
        answers += remote.read(lambda document: list(map(read_answer, document["answers"])), found)
    if len(answers) != len(texts):
        raise DiscreetError(f"{remote.wire.url} answers {len(answers)} of {len(texts)} queries")
    remote.check([one.query for one in answers] == asked, all(one.level == level for one in answers))
    return Answers(answers)


def _marginals(remote: RemotePosterior, evidence: Mapping[str, str], level: float, predictive: bool) -> Answers:
    """As `marginals`."""
    check_level(level)
    require(isinstance(evidence, Mapping), "evidence is a mapping of states, such as {'smoke': 'yes'}")
    for name, state in evidence.items():
        remote.network.schema[name].code(state)
    told = [f"{name}={state}" for name, state in evidence.items()]
    found = remote.post("marginals", {"e": told, "level": float(level), "predictive": bool(predictive)})
    answers = remote.read(lambda document: list(map(read_answer, document["answers"])), found)
    names = [name for name in remote.network.nodes if name not in evidence]
    if [list(row["state"]) for one in answers for row in one.rows[:1]] != [[name] for name in names]:
        raise DiscreetError(f"{remote.wire.url} does not answer of all variables")
    # Evidence in another order is the same question to a server; here a query is written as it was asked.
    said = [remote.read(read_query, one.query, remote.network.schema) for one in answers]
    remote.check(all(sorted(one.evidence) == sorted(evidence.items()) for one in said))
    remote.check(all(one.level == level for one in answers))
    queries = [str(Probability(((name, None),), tuple(evidence.items()))) for name in names]
    return Answers(replace(one, query=query) for one, query in zip(answers, queries, strict=True))


def _predict(remote: RemotePosterior, records: Any, target: str, level: float) -> Prediction:
    """As `predict`; what records show goes to the server, and not the records."""
    check_level(level)
    schema = remote.network.schema
    states = schema[target].states
    evidence = read_evidence(records, remote.network, target)
    names = [(name, schema[name].states) for name in evidence.names]
    # The target is not read, but says that there is a record, also where it shows nothing.
    rows = [
        {target: None, **{name: own[code] for (name, own), code in zip(names, row, strict=True) if code >= 0}}
        for row in evidence.codes.tolist()
    ]
    found, begun = [], 0
    for part in _divide(rows, RECORDS_AT_ONCE) if rows else [[]]:
        try:
            found.append(remote.post("predict", {"records": part, "target": target, "level": float(level)}))
        except InputError as error:
            told = f"of the records from position {begun} on: " if begun else ""
            raise InputError(f"{told}{error}") from None
        begun += len(part)
    made: Prediction = remote.read(read_prediction, found, states)
    remote.check(made.target == target, made.level == level)
    if len(made.mean) != len(rows):
        raise DiscreetError(f"{remote.wire.url} answers for {len(made.mean)} of {len(rows)} records")
    return made


def _regress(
    remote: RemotePosterior, target: str, on: Sequence[str], kind: str, assume: str | None, inside: str
) -> Regression:
    """As `regress`; with all draws, of which intervals of any level are made."""
    names = (on,) if isinstance(on, str) else tuple(on)
    require(bool(names), f"a regression of {shown(target)} needs at least one covariate")
    given = {"target": target, "kind": kind, "assume": assume, "inside": inside, "missing": remote.missing}
    pairs = [*given.items(), *(("on", name) for name in names), ("draws", True)]
    found = remote.wire.ask("releases", remote.id, "regress", given=pairs)
    made: Regression = remote.read(read_regression, found)
    remote.check(made.target == target, made.on == names, made.kind == kind)
    return made


def _decide(remote: RemotePosterior, utility: Any, responses: Sequence[str], **how: Any) -> Decision[str]:
    """As `decide` with the draws that there are; a table of payoffs can go to a server, a function cannot."""
    if not isinstance(utility, Payoff):
        raise InputError("a utility that is code does not go to a server: make it by decisions.payoff, or decide here")
    states = remote.network.schema[utility.asked.targets[0][0]].states
    payoffs = {
        name: dict(zip(states, row.astype(float).tolist(), strict=True)) for name, row in utility.payoffs.items()
    }
    told = {"query": str(utility.asked), "payoffs": payoffs, "responses": list(responses)}
    found = remote.post("decide", told | _said(**how))
    made: Decision[str] = remote.read(read_decision, found)
    remote.check(found.get("query") == told["query"])
    return made


def _decide_number(remote: RemotePosterior, quantity: Any, loss: Any, **how: Any) -> NumberDecision:
    """As `decide_number` with the draws that there are."""
    if not isinstance(quantity, str):
        raise InputError("a quantity that is code does not go to a server: ask for a probability, or decide here")
    one_probability(remote.network, quantity)
    told = {"quantity": quantity, "loss": str(number_loss(loss))}
    found = remote.post("decide", told | _said(**how))
    made: NumberDecision = remote.read(read_number_decision, found)
    remote.check(found.get("quantity") == quantity, str(made.loss) == told["loss"])
    return made


def _said(level: float, bounds: tuple[float, float], queries: int, failure: float, **_: object) -> dict[str, Any]:
    """What decisions of both kinds are told; new draws are not made, and no randomness is wanted."""
    check_level(level)
    return {"level": float(level), "bounds": list(map(float, bounds)), "queries": queries, "failure": float(failure)}


def _sample(
    remote: RemotePosterior, n: int, rng: Seed, sets: int | None, block: int
) -> tuple[pa.RecordBatchReader, ...]:
    """As `sample`; records come as they are read."""
    as_generator(rng)
    if isinstance(rng, np.random.Generator):
        raise InputError("a generator does not go to a server: give a seed, a whole number, as rng")
    require(block == BLOCK, f"a server makes {BLOCK:,} records at once: leave out block")
    seed = secrets.randbelow(LARGEST_SEED) if rng is None else int(rng)
    given = {"n": int(n), "sets": sets, "seed": seed, "format": "arrow", "missing": remote.missing}
    schema = remote.network.schema
    width = 16 * len(schema) + sum(max(len(str(state).encode()) for state in one.states) for one in schema)
    path, most = ("releases", remote.id, "synthetic"), SLACK_BYTES + 2 * max(0, int(n)) * width
    shape = make_arrow_schema(schema)
    # The first is asked for at once: what is refused is refused here, and not when it is read.
    first = remote.wire.stream(*path, given=[*given.items(), ("set", 1)], most=most)

    def batches(number: int) -> Iterator[pa.RecordBatch]:
        own = given | {"set": number}
        source = first if number == 1 else remote.wire.stream(*path, given=own.items(), most=most)
        yield from _read_batches(remote, source, shape, int(n))

    numbers = range(1, (sets or 1) + 1)
    return tuple(pa.RecordBatchReader.from_batches(shape, batches(number)) for number in numbers)


def _read_batches(remote: RemotePosterior, source: RecordStream, shape: pa.Schema, n: int) -> Iterator[pa.RecordBatch]:
    """Records of a file of Arrow, as they come: n of them, or none of it was right."""
    read = 0
    with source:
        try:
            source.read(ARROW_MAGIC_BYTES)
            with pa.ipc.open_stream(source) as stream:
                if stream.schema != shape:
                    raise DiscreetError(f"{remote.wire.url} sends records of other columns")
                for batch in stream:
                    batch.validate(full=True)  # offsets beyond its bytes would end the process that looks at a cell
                    read += batch.num_rows
                    yield batch
        except (pa.ArrowException, OSError):
            raise DiscreetError(f"{remote.wire.url} sends something else than records") from None
        if read != n:
            raise DiscreetError(f"{remote.wire.url} sent {read:,} of {n:,} records")


def _divide(parts: list[Any], most: int) -> Iterator[list[Any]]:
    """Parts in pieces that fit into a request each."""
    piece: list[Any] = []
    size = 0
    for part in parts:
        own = len(json.dumps(part)) + 2
        if piece and (len(piece) == most or size + own > BODY_BYTES // 2):
            yield piece
            piece, size = [], 0
        piece.append(part)
        size += own
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
        "sample": _sample,
    }
)
"""What answers for each function."""
