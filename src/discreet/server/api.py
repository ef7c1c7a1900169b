"""Define the operations over HTTP: address, parameters and answer of each. OpenAPI is made from them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any, Literal

from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from discreet.releases.release import release_schema
from discreet.reporting.explanation import Explanation
from discreet.reporting.release_report import report_policy
from discreet.server import parameters as asks
from discreet.server import replies
from discreet.server import reply_types as says
from discreet.server.catalog import ReleaseCatalog, Version
from discreet.server.metrics import Meter
from discreet.server.middleware import FRAME_POLICY
from discreet.server.parameters import NoRequest, RequestFields, read_address, read_body
from discreet.server.problems import PROBLEMS, Problem
from discreet.server.readings import Readings, ServedPosterior
from discreet.server.server_limits import ServerLimits
from discreet.server.work_queue import ResponseBody, WorkQueue

# --------------------------------------------------------------------------------------------------------------------
# The OpenAPI document of the server, made from the operations.

MEDIA_OF = {
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "csv": "text/csv; charset=utf-8",
}
"""Media types of files of records; those of bytes come first, as programs that write clients take the first for all."""
RELEASE = {
    "name": "release",
    "in": "path",
    "required": True,
    "description": "Name of a release, for its newest version, or the id of any version.",
    "schema": {"type": "string"},
}
SCHEMAS = "#/components/schemas/"
JSON, TEXT = "application/json", {"type": "string"}
Document = dict[str, Any]
Mode = Literal["validation", "serialization"]


def openapi_document(operations: Sequence[Operation], version: str) -> Document:
    """Build the OpenAPI document.

    Args:
        operations: of the server and of a release.
        version: of the package.
    """
    types: list[tuple[str, Mode, TypeAdapter[Any]]] = [("Problem", "serialization", TypeAdapter(says.ProblemReply))]
    types += [(each.id, "serialization", TypeAdapter(each.reply)) for each in operations if each.reply is not None]
    types += [
        (each.id, "validation", TypeAdapter(each.asks)) for each in operations if each.asks and each.method == "POST"
    ]
    schemas, rest = TypeAdapter.json_schemas(types, ref_template=f"{SCHEMAS}{{model}}")
    release, parts = _release_schemas()
    schemas["document", "serialization"] = {"anyOf": [*release, schemas["document", "serialization"]]}
    components = rest["$defs"] | parts
    for each in components.values():  # keep the first sentence of a type's docstring
        each.pop("title", None)  # code generators take titles for names, and several types may have the same one
        each["description"] = " ".join(each.get("description", "").partition("\n\n")[0].split())
    paths: dict[str, Any] = {}
    for each in operations:
        here = paths.setdefault(each.path, {"parameters": [RELEASE]} if each.of_release else {})
        here[each.method.lower()] = _describe(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "discreet",
            "version": version,
            "description": "Answers from differentially private releases, with intervals that count sampling error and "
            "privacy noise.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _describe(operation: Operation, schemas: Mapping[tuple[str, Mode], Document]) -> Document:
    """Describe one operation."""
    content = {kind.partition(";")[0]: {"schema": _schema_of(kind)} for kind in operation.media}
    if operation.reply is not None:
        content = {JSON: {"schema": schemas[operation.id, "serialization"]}} | content
    problem = {"application/problem+json": {"schema": schemas["Problem", "serialization"]}}
    titles: dict[int, list[str]] = {}
    for status, title in PROBLEMS.values():
        titles.setdefault(status, []).append(title)
    problems = {str(status): {"description": "; ".join(texts), "content": problem} for status, texts in titles.items()}
    described: Document = {
        "operationId": operation.id,
        "summary": (operation.answer.__doc__ or "").partition("\n")[0],
        "responses": {"200": {"description": "The answer.", "content": content}, **problems},
    }
    if operation.method == "POST":
        body = {JSON: {"schema": schemas[operation.id, "validation"]}}
        return described | {"requestBody": {"required": True, "content": body}}
    return described | {"parameters": _parameters(operation.asks or NoRequest)}


def _schema_of(media: str) -> Document:
    """Find the schema of a response that is not JSON: text, or bytes."""
    return TEXT if media.startswith("text/") else {**TEXT, "format": "binary", "contentMediaType": media}


def _release_schemas() -> tuple[list[Document], Document]:
    """Find the schema of a release's document and its parts, from the package's own JSON Schema."""
    text = re.sub(r'"#/\$defs/_?', f'"{SCHEMAS}Release', release_schema())
    schema = json.loads(text)
    return schema["anyOf"], {f"Release{name.lstrip('_')}": each for name, each in schema["$defs"].items()}


def _parameters(model: type[RequestFields]) -> list[Document]:
    """List the parameters of an address."""
    schema = model.model_json_schema()
    parameters = []
    for name, entry in schema.get("properties", {}).items():
        value_schema = {key: value for key, value in entry.items() if key not in ("title", "description", "examples")}
        if "anyOf" in value_schema:  # an address cannot say null: it leaves the name out
            value_schema |= value_schema.pop("anyOf")[0]
            value_schema.pop("default", None)
        parameter = {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", []),
            "schema": value_schema,
        }
        parameters.append(parameter | ({"description": entry["description"]} if "description" in entry else {}))
    return parameters


@dataclass(frozen=True, eq=False)
class Serving:
    """State that all requests share.

    Args:
        catalog: what is served.
        limits: of what is spent on a request.
        package: version of the package.
    """

    catalog: ReleaseCatalog
    limits: ServerLimits
    package: str
    meter: Meter = field(default_factory=Meter)

    def __post_init__(self) -> None:
        """Start the work queue and the readings; call it within an event loop."""
        object.__setattr__(self, "readings", Readings(self.limits))
        object.__setattr__(self, "queue", WorkQueue(self.limits, self.meter))
        self.meter.show("waiting", "Answers under way.", lambda: self.queue.waiting)
        self.meter.show("cache_bytes", "Bytes of the answers that are kept.", lambda: self.queue.cache.bytes)
        self.meter.show("draws_bytes", "Bytes of the posteriors in memory.", lambda: self.readings.bytes)
        self.meter.show("releases", "Releases that are served.", lambda: len(self.catalog.newest()))

    readings: Readings = field(init=False)
    queue: WorkQueue = field(init=False)

    async def answer(self, version: Version, ask: Callable[[ServedPosterior], replies.Question]) -> ResponseBody:
        """Answer a question about a version.

        Raises:
            InputError: the question cannot be answered.
            Problem: the same, or there is no answer yet.
        """
        reading = await self.readings.get(version)
        question = ask(reading)
        return await self.queue.answer((version.digest, *question.key), question.make, question.work)


Answering = Callable[[Serving, Any, Any], Awaitable[Response]]
"""Function of the server's state, the version of a release, and the request."""


@dataclass(frozen=True)
class Operation:
    """One operation; the first line of its function's docstring is its summary.

    Args:
        name: of the operation, and the end of its address; empty for the release itself.
        answer: computes the response.
        reply: type of a JSON response; None if there is none.
        asks: model of the request, in the address or in a JSON body; None if the request is not read.
        method: GET if the request is in the address, POST if it is in a body.
        media: other types that the response may have.
        of_release: True for an operation of a release, False for one of the server.
    """

    name: str
    answer: Answering
    reply: Any = None
    asks: type[RequestFields] | None = NoRequest
    method: Literal["GET", "POST"] = "GET"
    media: tuple[str, ...] = ()
    of_release: bool = True

    @property
    def id(self) -> str:
        """Name of the operation for programs."""
        twice = self.method == "POST" and self.name in ("marginals", "query")
        return f"post_{self.name}" if twice else self.name or "document"

    @property
    def path(self) -> str:
        """Address, with a placeholder for the name of the release."""
        return ("/releases/{release}" if self.of_release else "") + (f"/{self.name}" if self.name else "")


def _asking(ask: Callable[[ServedPosterior, Any], replies.Question]) -> Answering:
    """Make an operation from a function that makes a question."""

    @wraps(ask, assigned=("__doc__",))
    async def answer(serving: Serving, version: Version, request: Any) -> Response:
        content = await serving.answer(version, lambda reading: ask(reading, request))
        return Response(content.body, media_type=content.media)

    return answer


async def _send_document(serving: Serving, version: Version, request: NoRequest) -> Response:
    """Return the document of the release, as in its file."""
    content = await serving.queue.answer(
        (version.digest, "document"), lambda: ResponseBody(version.evidence.dumps().encode())
    )
    return Response(content.body, media_type=content.media)


async def _send_report(serving: Serving, version: Version, request: asks.ReportRequest) -> Response:
    """Return a report of the release, for people."""
    response = await _asking(replies.ask_report)(serving, version, request)
    response.headers["content-security-policy"] = f"{report_policy()}; {FRAME_POLICY}"
    return response


class _CountedStream(StreamingResponse):
    """A streaming response that counts as open until it ends or fails."""

    def __init__(self, content: AsyncIterator[bytes], opened: ExitStack, **options: Any) -> None:
        super().__init__(content, **options)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        with self._opened:
            await super().__call__(scope, receive, send)


async def _send_records(serving: Serving, version: Version, request: asks.SyntheticRequest) -> Response:
    """Return synthetic records, sent as they are made."""
    if request.n > serving.limits.most_records:
        raise Problem(
            "too-costly",
            f"{request.n:,} records are more than the {serving.limits.most_records:,} that this server makes at once; "
            "ask for fewer, or make them from the release (`discreet sample`)",
        )
    reading = await serving.readings.get(version)
    name = f"{version.name}-{request.set}.{request.format}"
    with ExitStack() as opened:
        opened.enter_context(serving.queue.stream())
        chunks = await serving.queue.run(lambda: replies.synthetic_chunks(reading, request, serving.limits.most_work))

        def take() -> bytes | None:
            return next((chunk for _, chunk in chunks), None)

        first = await serving.queue.run(take)
        open_stream = opened.pop_all()

    async def stream() -> AsyncIterator[bytes]:
        piece = first
        while piece is not None:
            yield piece
            piece = await serving.queue.run(take)

    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return _CountedStream(stream(), open_stream, media_type=MEDIA_OF[request.format], headers=headers)


async def _send_releases(serving: Serving, version: None, request: NoRequest) -> Response:
    """List all releases that are served."""
    listed = [listed_release(serving, each) for each in serving.catalog.newest()]
    return Response(replies.json_of({"releases": listed}).body, media_type=JSON)


async def _send_health(serving: Serving, version: None, request: None) -> Response:
    """Return the state of the server."""
    return Response(replies.json_of({"status": "ok", "version": serving.package}).body, media_type=JSON)


async def _send_metrics(serving: Serving, version: None, request: None) -> Response:
    """Return metrics of the server."""
    return Response(serving.meter.text(), media_type=CONTENT_TYPE_LATEST)


_marginals, _query = _asking(replies.ask_marginals), _asking(replies.ask_queries)
CSV, TABLES, PAGES = ("text/csv",), tuple(MEDIA_OF.values()), ("text/html", "text/markdown")
ANSWERS = says.AnswersReply | says.CoefficientsReply | says.ParametersReply
EXPLANATIONS = Explanation | says.CombinedExplanationReply
DECISIONS = says.ResponseReply | says.NumberReply | says.VectorReply
OF_SERVER = (
    Operation("releases", _send_releases, says.ReleasesReply, of_release=False),
    Operation("healthz", _send_health, says.HealthReply, None, of_release=False),
    Operation("metrics", _send_metrics, None, None, media=("text/plain",), of_release=False),
)
"""Operations of the server itself."""
OPERATIONS = (
    Operation("", _send_document, says.CombinedDocument),
    Operation("marginals", _marginals, says.AnswersReply, asks.MarginalsRequest, media=CSV),
    Operation("marginals", _marginals, says.AnswersReply, asks.MarginalsRequest, "POST", CSV),
    Operation("query", _query, ANSWERS, asks.QueryRequest, media=CSV),
    Operation("query", _query, ANSWERS, asks.QueryRequest, "POST", CSV),
    Operation("predict", _asking(replies.ask_prediction), says.PredictReply, asks.PredictRequest, "POST"),
    Operation("decide", _asking(replies.ask_decision), DECISIONS, asks.DecisionRequest, "POST"),
    Operation("regress", _asking(replies.ask_regression), says.RegressReply, asks.RegressRequest, media=CSV),
    Operation("explain", _asking(replies.ask_explanation), EXPLANATIONS, asks.ExplainRequest),
    Operation("fit", _asking(replies.ask_fit), says.FitReply, asks.FitRequest),
    Operation("synthetic", _send_records, asks=asks.SyntheticRequest, media=TABLES),
    Operation("report", _send_report, asks=asks.ReportRequest, media=PAGES),
)
"""Operations of one release."""


def listed_release(serving: Serving, version: Version) -> says.ListedRelease:
    """Describe one release in the list of releases."""
    evidence = version.evidence
    guarantees, release = [each for each in evidence.guarantees if each is not None], evidence.one_release
    over: Any = version.network if release is None else release.over
    variables = len(over.features) if version.kind == "weights" else len(version.network.nodes)
    return {
        "name": version.name,
        "id": version.id,
        "version": version.number,
        "kind": version.kind,
        "private": version.private,
        "date": None if release is None else release.date.isoformat(),
        "guarantees": list(map(str, guarantees)),
        "variables": variables,
        "draws": serving.readings.state(version),
        "fault": serving.catalog.fault(version.name) or None,
        "versions": [{"id": each.id, "version": each.number} for each in serving.catalog.versions(version.name)],
    }


def api_routes(serving: Serving) -> list[Route]:
    """List the routes of all operations, and of the document that describes them.

    Args:
        serving: answers.
    """
    operations = (*OF_SERVER, *OPERATIONS)
    document = cache(lambda: replies.json_of(openapi_document(operations, serving.package)).body)

    async def openapi(request: Request) -> Response:
        return Response(document(), media_type=JSON)

    routes = [Route("/openapi.json", _named("/openapi.json", openapi), methods=["GET"])]
    for path in dict.fromkeys(operation.path for operation in operations):
        here: dict[str, Operation] = {operation.method: operation for operation in operations if operation.path == path}
        routes.append(Route(path, _endpoint(serving, path, here), methods=list(here)))
    return routes


def _endpoint(serving: Serving, path: str, here: Mapping[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    """Make the handler of an address."""

    async def respond(request: Request) -> Response:
        operation = here["GET" if request.method == "HEAD" else request.method]
        version = serving.catalog.find(request.path_params["release"]) if operation.of_release else None
        fields, in_body = None, operation.method == "POST"
        if operation.asks is not None:
            fields = read_address(NoRequest if in_body else operation.asks, request.query_params)
            fields = read_body(operation.asks, await request.body()) if in_body else fields
        return await operation.answer(serving, version, fields)

    return _named(path, respond)


def _named(name: str, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Wrap a handler so that its requests are counted under a name."""

    async def respond(request: Request) -> Response:
        request.scope["route_name"] = name
        return await handler(request)

    return respond
