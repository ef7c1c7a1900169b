"""The operations over HTTP: each with its address, what can be said, and what answers it; OpenAPI is made of this."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from discreet.queries.release_report import report_policy
from discreet.server import replies
from discreet.server.desk import Desk, Made
from discreet.server.gate import FRAME_POLICY
from discreet.server.metrics import Meter
from discreet.server.parameters import (
    Asked,
    DecisionRequest,
    ExplainRequest,
    FitRequest,
    MarginalsRequest,
    NoRequest,
    PredictRequest,
    QueryRequest,
    RegressRequest,
    ReportRequest,
    SyntheticRequest,
    read_address,
    read_body,
)
from discreet.server.problems import PROBLEMS, Problem
from discreet.server.readings import Reading, Readings
from discreet.server.server_limits import ServerLimits
from discreet.server.shelf import Shelf, Version

# --------------------------------------------------------------------------------------------------------------------
# The OpenAPI document of the server, made of the operations themselves.

MEDIA_OF = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
}
"""Media types of files of records."""
RELEASE = {
    "name": "release",
    "in": "path",
    "required": True,
    "description": "Name of a release, for its newest version, or the id of any version.",
    "schema": {"type": "string"},
}
Document = dict[str, Any]


def openapi_document(operations: Sequence[Operation], version: str) -> Document:
    """The document.

    Args:
        operations: on a release.
        version: of the package.
    """
    schemas: dict[str, Any] = {
        "Problem": {
            "type": "object",
            "description": "What goes wrong (RFC 9457).",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"enum": [f"urn:discreet:problem:{kind}" for kind in PROBLEMS]},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string", "description": "One sentence."},
            },
        }
    }
    paths: dict[str, Any] = {
        "/releases": {"get": _describe_plain("releases", "All releases that are served.", "application/json")},
        "/healthz": {"get": _describe_plain("health", "Whether the server is there.", "application/json")},
        "/metrics": {"get": _describe_plain("metrics", "What the server counts of itself.", "text/plain")},
    }
    for operation in operations:
        found = paths.setdefault(operation.path, {"parameters": [RELEASE]})
        found[operation.method.lower()] = _describe(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "discreet",
            "version": version,
            "description": "Answers from differentially private releases, with intervals that count sampling error and "
            "privacy noise.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _describe(operation: Operation, schemas: dict[str, Any]) -> Document:
    """One operation."""
    name = operation.name or "document"
    described: Document = {
        "operationId": f"post_{name}" if operation.body is not None and name in ("marginals", "query") else name,
        "summary": operation.told,
        "responses": _responses(operation.media),
    }
    if operation.model is not None:
        described["parameters"] = _parameters(operation.model)
    if operation.body is not None:
        schema = _take_definitions(
            operation.body.model_json_schema(ref_template="#/components/schemas/{model}"), schemas
        )
        schemas[operation.body.__name__] = schema
        reference = {"$ref": f"#/components/schemas/{operation.body.__name__}"}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return described


def _describe_plain(name: str, told: str, media: str) -> Document:
    """An operation that takes nothing."""
    return {"operationId": name, "summary": told, "responses": _responses((media,))}


def _responses(media: Sequence[str]) -> Document:
    """What may come back."""
    content = {
        kind.partition(";")[0]: {"schema": {"type": "object"} if kind == "application/json" else {"type": "string"}}
        for kind in media
    }
    titles: dict[int, list[str]] = {}
    for status, title in PROBLEMS.values():
        titles.setdefault(status, []).append(title)
    problems = {
        str(status): {
            "description": "; ".join(said),
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status, said in titles.items()
    }
    return {"200": {"description": "The answer.", "content": content}, **problems}


def _parameters(model: type[Asked]) -> list[Document]:
    """What can be said in the address."""
    schema = model.model_json_schema()
    required = schema.get("required", [])
    found = []
    for name, part in schema.get("properties", {}).items():
        own = {key: value for key, value in part.items() if key not in ("title", "description", "examples")}
        if "anyOf" in own:  # an address cannot say null: it leaves the name out
            own |= own.pop("anyOf")[0]
            own.pop("default", None)
        parameter = {"name": name, "in": "query", "required": name in required, "schema": own}
        if "description" in part:
            parameter["description"] = part["description"]
        if own.get("type") == "array":
            parameter |= {"style": "form", "explode": True}
        found.append(parameter)
    return found


def _take_definitions(schema: Document, schemas: dict[str, Any]) -> Document:
    """A schema without its definitions, which become schemas of the document."""
    schemas |= schema.pop("$defs", {})
    return schema


@dataclass(frozen=True, eq=False)
class Serving:
    """All that requests are answered with.

    Args:
        shelf: what is served.
        limits: of what is spent on a request.
    """

    shelf: Shelf
    limits: ServerLimits = field(default_factory=ServerLimits)
    meter: Meter = field(default_factory=Meter)

    def __post_init__(self) -> None:
        """Make what computes; within an event loop."""
        object.__setattr__(self, "readings", Readings(self.limits))
        object.__setattr__(self, "desk", Desk(self.limits, self.meter))
        self.meter.show("waiting", "Answers under way.", lambda: self.desk.waiting)
        self.meter.show("cache_bytes", "Bytes of the answers that are kept.", lambda: self.desk.cache.bytes)
        self.meter.show("draws_bytes", "Bytes of the posteriors in memory.", lambda: self.readings.bytes)
        self.meter.show("releases", "Releases that are served.", lambda: len(self.shelf.newest()))

    readings: Readings = field(init=False)
    desk: Desk = field(init=False)

    async def answer(self, version: Version, ask: Callable[[Reading], replies.Question]) -> Made:
        """The answer to a question about a version.

        Raises:
            InputError: it cannot be asked.
            Problem: likewise, or there is no answer now.
        """
        reading = await self.readings.get(version)
        question = ask(reading)
        return await self.desk.answer((version.digest, *question.key), question.make, question.work)


Answering = Callable[[Serving, Version, Any], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    """One operation on a release.

    Args:
        name: of the operation, and the end of its address; empty for the release itself.
        told: what it does, in a sentence.
        model: what can be said in the address; None where a body says it.
        answer: finds the response.
        media: what the response may be.
        body: what can be said in a body of JSON; None where the address says it.
    """

    name: str
    told: str
    answer: Answering
    model: type[Asked] | None = None
    body: type[Asked] | None = None
    media: tuple[str, ...] = ("application/json",)

    @property
    def path(self) -> str:
        """The address, with a place for the name of the release."""
        return "/releases/{release}" + (f"/{self.name}" if self.name else "")

    @property
    def method(self) -> str:
        """GET, or POST where there is a body."""
        return "GET" if self.body is None else "POST"


def _asking(ask: Callable[[Reading, Any], replies.Question]) -> Answering:
    """An operation that a question answers."""

    async def answer(serving: Serving, version: Version, asked: Any) -> Response:
        made = await serving.answer(version, lambda reading: ask(reading, asked))
        return Response(made.body, media_type=made.media)

    return answer


async def _send_document(serving: Serving, version: Version, asked: NoRequest) -> Response:
    """The document of a release, as its file has it."""
    made = await serving.desk.answer((version.digest, "document"), lambda: Made(version.evidence.dumps().encode()))
    return Response(made.body, media_type=made.media)


async def _send_report(serving: Serving, version: Version, asked: ReportRequest) -> Response:
    """A report, which has its style in itself."""
    response = await _asking(replies.ask_report)(serving, version, asked)
    response.headers["content-security-policy"] = f"{report_policy()}; {FRAME_POLICY}"
    return response


class _Records(StreamingResponse):
    """A stream that is counted until it ends, in whatever way."""

    def __init__(self, content: AsyncIterator[bytes], opened: ExitStack, **options: Any) -> None:
        super().__init__(content, **options)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._opened:
            await super().__call__(scope, receive, send)


async def _send_records(serving: Serving, version: Version, asked: SyntheticRequest) -> Response:
    """Synthetic records, as they are made."""
    if asked.n > serving.limits.most_records:
        raise Problem(
            "too-costly",
            f"{asked.n:,} records are more than the {serving.limits.most_records:,} that this server makes at once; "
            "ask for fewer, or make them of the release (`discreet sample`)",
        )
    reading = await serving.readings.get(version)
    name = f"{version.name}-{asked.set}.{asked.format}"
    with ExitStack() as opened:
        opened.enter_context(serving.desk.stream())
        chunks = await serving.desk.run(lambda: replies.synthetic_chunks(reading, asked, serving.limits.most_work))

        def take() -> bytes | None:
            return next((chunk for _, chunk in chunks), None)

        first = await serving.desk.run(take)
        kept = opened.pop_all()

    async def stream() -> AsyncIterator[bytes]:
        piece = first
        while piece is not None:
            yield piece
            piece = await serving.desk.run(take)

    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return _Records(stream(), kept, media_type=MEDIA_OF[asked.format], headers=headers)


OPERATIONS = (
    Operation("", "The release itself, as its file has it.", _send_document, NoRequest),
    Operation(
        "marginals",
        "Probabilities of every variable that is not observed, given evidence, with intervals.",
        _asking(replies.ask_marginals),
        MarginalsRequest,
        media=("application/json", "text/csv"),
    ),
    Operation(
        "marginals",
        "The same, for evidence that is too long for an address.",
        _asking(replies.ask_marginals),
        body=MarginalsRequest,
        media=("application/json", "text/csv"),
    ),
    Operation(
        "query",
        "Answers to queries, as `discreet query --json` prints them; without any all marginals, or coefficients.",
        _asking(replies.ask_queries),
        QueryRequest,
        media=("application/json", "text/csv"),
    ),
    Operation(
        "query",
        "Answers to many queries, which share what they can.",
        _asking(replies.ask_queries),
        body=QueryRequest,
        media=("application/json", "text/csv"),
    ),
    Operation(
        "predict",
        "Probabilities of one variable for records that show some of the others; of a regression what it expects.",
        _asking(replies.ask_prediction),
        body=PredictRequest,
    ),
    Operation(
        "decide",
        "The response of the largest expected payoff, or the number of the least expected loss.",
        _asking(replies.ask_decision),
        body=DecisionRequest,
    ),
    Operation(
        "regress",
        "A regression of one variable of the network on others.",
        _asking(replies.ask_regression),
        RegressRequest,
        media=("application/json", "text/csv"),
    ),
    Operation(
        "explain",
        "What one record can change in the release, and what answers depend on.",
        _asking(replies.ask_explanation),
        ExplainRequest,
    ),
    Operation(
        "fit",
        "What the release says of its network.",
        _asking(lambda reading, _: replies.ask_fit(reading)),
        FitRequest,
    ),
    Operation(
        "synthetic",
        "Synthetic records, sent as they are made.",
        _send_records,
        SyntheticRequest,
        media=tuple(MEDIA_OF.values()),
    ),
    Operation(
        "report",
        "A report of the release, for people.",
        _send_report,
        ReportRequest,
        media=("text/html", "text/markdown"),
    ),
)
"""All that can be asked of one release."""


def listed_release(serving: Serving, version: Version) -> dict[str, Any]:
    """What a list of releases says of one."""
    evidence = version.evidence
    promises, release = [promise for promise in evidence.guarantees if promise is not None], evidence.one_release
    variables = len(evidence.design.features) if version.kind == "weights" else len(version.network.nodes)  # type: ignore[union-attr]
    return {
        "name": version.name,
        "id": version.id,
        "version": version.number,
        "kind": version.kind,
        "private": version.private,
        "date": release and release.date.isoformat(),
        "guarantees": list(map(str, promises)),
        "variables": variables,
        "draws": serving.readings.state(version),
        "fault": serving.shelf.fault(version.name) or None,
        "versions": [{"id": one.id, "version": one.number} for one in serving.shelf.versions(version.name)],
    }


def api_routes(serving: Serving, version: str) -> list[Route]:
    """Routes of all operations, of the list of releases, and of what machines ask of the server itself.

    Args:
        serving: answers.
        version: of the package.
    """
    document = replies.json_of(openapi_document(OPERATIONS, version))

    async def openapi(request: Request) -> Response:
        return Response(document.body, media_type="application/json")

    async def health(request: Request) -> Response:
        return Response(replies.json_of({"status": "ok", "version": version}).body, media_type="application/json")

    async def metrics(request: Request) -> Response:
        return Response(serving.meter.text(), media_type=CONTENT_TYPE_LATEST)

    async def releases(request: Request) -> Response:
        read_address(NoRequest, request.query_params)
        listed = [listed_release(serving, each) for each in serving.shelf.newest()]
        return Response(replies.json_of({"releases": listed}).body, media_type="application/json")

    plain = {"/openapi.json": openapi, "/healthz": health, "/metrics": metrics, "/releases": releases}
    found = [Route(path, _named(path, handler), methods=["GET"]) for path, handler in plain.items()]
    for path in dict.fromkeys(operation.path for operation in OPERATIONS):
        here = {operation.method: operation for operation in OPERATIONS if operation.path == path}
        found.append(Route(path, _endpoint(serving, path, here), methods=list(here)))
    return found


def _endpoint(serving: Serving, path: str, here: dict[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    """What answers at an address."""

    async def respond(request: Request) -> Response:
        operation = here["GET" if request.method == "HEAD" else request.method]
        version = serving.shelf.find(request.path_params["release"])
        if operation.body is not None:
            read_address(NoRequest, request.query_params)
            asked = read_body(operation.body, await request.body())
        else:
            assert operation.model is not None
            asked = read_address(operation.model, request.query_params)
        return await operation.answer(serving, version, asked)

    return _named(path, respond)


def _named(name: str, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The handler, which says by what name its requests are counted."""

    async def respond(request: Request) -> Response:
        request.scope["route_name"] = name
        return await handler(request)

    return respond
