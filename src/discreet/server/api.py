"""The operations over HTTP: each with its address, what can be said, and what answers it; OpenAPI is made of this."""

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

from discreet.queries.explanation import Explanation
from discreet.queries.release_report import report_policy
from discreet.releases.release import release_schema
from discreet.server import parameters as asks
from discreet.server import replies
from discreet.server import reply_types as says
from discreet.server.desk import Desk, Made
from discreet.server.gate import FRAME_POLICY
from discreet.server.metrics import Meter
from discreet.server.parameters import NoRequest, RequestFields, read_address, read_body
from discreet.server.problems import PROBLEMS, Problem
from discreet.server.readings import Readings, ServedPosterior
from discreet.server.server_limits import ServerLimits
from discreet.server.shelf import Shelf, Version

# --------------------------------------------------------------------------------------------------------------------
# The OpenAPI document of the server, made of the operations themselves.

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
    """The document.

    Args:
        operations: of the server and of a release.
        version: of the package.
    """
    types: list[tuple[str, Mode, TypeAdapter[Any]]] = [("Problem", "serialization", TypeAdapter(says.ProblemReply))]
    types += [(one.id, "serialization", TypeAdapter(one.reply)) for one in operations if one.reply is not None]
    types += [(one.id, "validation", TypeAdapter(one.asks)) for one in operations if one.asks and one.method == "POST"]
    schemas, rest = TypeAdapter.json_schemas(types, ref_template=f"{SCHEMAS}{{model}}")
    release, parts = _release_schemas()
    schemas["document", "serialization"] = {"anyOf": [*release, schemas["document", "serialization"]]}
    components = rest["$defs"] | parts
    for each in components.values():  # of what a type of the package says of itself, the sentence that says what it is
        each.pop("title", None)  # which may be that of another, and programs that write clients take it for a name
        each["description"] = " ".join(each.get("description", "").partition("\n\n")[0].split())
    paths: dict[str, Any] = {}
    for one in operations:
        here = paths.setdefault(one.path, {"parameters": [RELEASE]} if one.of_release else {})
        here[one.method.lower()] = _describe(one, schemas)
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
    """One operation."""
    content = {kind.partition(";")[0]: {"schema": _schema_of(kind)} for kind in operation.media}
    if operation.reply is not None:
        content = {JSON: {"schema": schemas[operation.id, "serialization"]}} | content
    problem = {"application/problem+json": {"schema": schemas["Problem", "serialization"]}}
    titles: dict[int, list[str]] = {}
    for status, title in PROBLEMS.values():
        titles.setdefault(status, []).append(title)
    problems = {str(status): {"description": "; ".join(said), "content": problem} for status, said in titles.items()}
    described: Document = {
        "operationId": operation.id,
        "summary": (operation.answer.__doc__ or "").partition("\n")[0],
        "responses": {"200": {"description": "The answer.", "content": content}, **problems},
    }
    if operation.method == "POST":
        asked = {JSON: {"schema": schemas[operation.id, "validation"]}}
        return described | {"requestBody": {"required": True, "content": asked}}
    return described | {"parameters": _parameters(operation.asks or NoRequest)}


def _schema_of(media: str) -> Document:
    """What a response of another type than JSON is: text, or bytes."""
    return TEXT if media.startswith("text/") else {**TEXT, "format": "binary", "contentMediaType": media}


def _release_schemas() -> tuple[list[Document], Document]:
    """What a document of a release may be, and the parts of it: the JSON Schema that the package has of them."""
    text = re.sub(r'"#/\$defs/_?', f'"{SCHEMAS}Release', release_schema())
    found = json.loads(text)
    return found["anyOf"], {f"Release{name.lstrip('_')}": each for name, each in found["$defs"].items()}


def _parameters(model: type[RequestFields]) -> list[Document]:
    """What can be said in the address."""
    schema = model.model_json_schema()
    found = []
    for name, part in schema.get("properties", {}).items():
        own = {key: value for key, value in part.items() if key not in ("title", "description", "examples")}
        if "anyOf" in own:  # an address cannot say null: it leaves the name out
            own |= own.pop("anyOf")[0]
            own.pop("default", None)
        parameter = {"name": name, "in": "query", "required": name in schema.get("required", []), "schema": own}
        found.append(parameter | ({"description": part["description"]} if "description" in part else {}))
    return found


@dataclass(frozen=True, eq=False)
class Serving:
    """All that requests are answered with.

    Args:
        shelf: what is served.
        limits: of what is spent on a request.
        package: version of the package.
    """

    shelf: Shelf
    limits: ServerLimits
    package: str
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

    async def answer(self, version: Version, ask: Callable[[ServedPosterior], replies.Question]) -> Made:
        """The answer to a question about a version.

        Raises:
            InputError: it cannot be asked.
            Problem: likewise, or there is no answer now.
        """
        reading = await self.readings.get(version)
        question = ask(reading)
        return await self.desk.answer((version.digest, *question.key), question.make, question.work)


Answering = Callable[[Serving, Any, Any], Awaitable[Response]]
"""Takes what serves, the version of a release that is asked, and what is asked."""


@dataclass(frozen=True)
class Operation:
    """One operation; the first line of what answers it says what it does.

    Args:
        name: of the operation, and the end of its address; empty for the release itself.
        answer: finds the response.
        reply: what an answer in JSON is, as a type; None where none is.
        asks: what can be said, in the address or in a body of JSON; None where nobody looks.
        method: GET where the address says it, POST where a body does.
        media: what the response may be beside JSON.
        of_release: whether a release is asked, and not the server.
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
        """What programs call it."""
        twice = self.method == "POST" and self.name in ("marginals", "query")
        return f"post_{self.name}" if twice else self.name or "document"

    @property
    def path(self) -> str:
        """The address, with a place for the name of the release."""
        return ("/releases/{release}" if self.of_release else "") + (f"/{self.name}" if self.name else "")


def _asking(ask: Callable[[ServedPosterior, Any], replies.Question]) -> Answering:
    """An operation that a question answers."""

    @wraps(ask, assigned=("__doc__",))
    async def answer(serving: Serving, version: Version, asked: Any) -> Response:
        made = await serving.answer(version, lambda reading: ask(reading, asked))
        return Response(made.body, media_type=made.media)

    return answer


async def _send_document(serving: Serving, version: Version, asked: NoRequest) -> Response:
    """The release itself, as its file has it."""
    made = await serving.desk.answer((version.digest, "document"), lambda: Made(version.evidence.dumps().encode()))
    return Response(made.body, media_type=made.media)


async def _send_report(serving: Serving, version: Version, asked: asks.ReportRequest) -> Response:
    """A report of the release, for people."""
    response = await _asking(replies.ask_report)(serving, version, asked)
    response.headers["content-security-policy"] = f"{report_policy()}; {FRAME_POLICY}"
    return response


class _CountedStream(StreamingResponse):
    """A stream that is counted until it ends, in whatever way."""

    def __init__(self, content: AsyncIterator[bytes], opened: ExitStack, **options: Any) -> None:
        super().__init__(content, **options)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._opened:
            await super().__call__(scope, receive, send)


async def _send_records(serving: Serving, version: Version, asked: asks.SyntheticRequest) -> Response:
    """Synthetic records, sent as they are made."""
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
    return _CountedStream(stream(), kept, media_type=MEDIA_OF[asked.format], headers=headers)


async def _send_releases(serving: Serving, version: None, asked: NoRequest) -> Response:
    """All releases that are served."""
    listed = [listed_release(serving, each) for each in serving.shelf.newest()]
    return Response(replies.json_of({"releases": listed}).body, media_type=JSON)


async def _send_health(serving: Serving, version: None, asked: None) -> Response:
    """Whether the server is there."""
    return Response(replies.json_of({"status": "ok", "version": serving.package}).body, media_type=JSON)


async def _send_metrics(serving: Serving, version: None, asked: None) -> Response:
    """What the server counts of itself."""
    return Response(serving.meter.text(), media_type=CONTENT_TYPE_LATEST)


_marginals, _query = _asking(replies.ask_marginals), _asking(replies.ask_queries)
CSV, TABLES, PAGES = ("text/csv",), tuple(MEDIA_OF.values()), ("text/html", "text/markdown")
ANSWERS = says.AnswersReply | says.CoefficientsReply | says.ParametersReply
DECISIONS = says.ResponseReply | says.NumberReply
OF_SERVER = (
    Operation("releases", _send_releases, says.ReleasesReply, of_release=False),
    Operation("healthz", _send_health, says.HealthReply, None, of_release=False),
    Operation("metrics", _send_metrics, None, None, media=("text/plain",), of_release=False),
)
"""What can be asked of the server itself."""
OPERATIONS = (
    Operation("", _send_document, says.CombinedDocument),
    Operation("marginals", _marginals, says.AnswersReply, asks.MarginalsRequest, media=CSV),
    Operation("marginals", _marginals, says.AnswersReply, asks.MarginalsRequest, "POST", CSV),
    Operation("query", _query, ANSWERS, asks.QueryRequest, media=CSV),
    Operation("query", _query, ANSWERS, asks.QueryRequest, "POST", CSV),
    Operation("predict", _asking(replies.ask_prediction), says.PredictReply, asks.PredictRequest, "POST"),
    Operation("decide", _asking(replies.ask_decision), DECISIONS, asks.DecisionRequest, "POST"),
    Operation("regress", _asking(replies.ask_regression), says.RegressReply, asks.RegressRequest, media=CSV),
    Operation("explain", _asking(replies.ask_explanation), Explanation, asks.ExplainRequest),
    Operation("fit", _asking(replies.ask_fit), says.FitReply, asks.FitRequest),
    Operation("synthetic", _send_records, asks=asks.SyntheticRequest, media=TABLES),
    Operation("report", _send_report, asks=asks.ReportRequest, media=PAGES),
)
"""All that can be asked of one release."""


def listed_release(serving: Serving, version: Version) -> says.ListedRelease:
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
        "date": None if release is None else release.date.isoformat(),
        "guarantees": list(map(str, promises)),
        "variables": variables,
        "draws": serving.readings.state(version),
        "fault": serving.shelf.fault(version.name) or None,
        "versions": [{"id": one.id, "version": one.number} for one in serving.shelf.versions(version.name)],
    }


def api_routes(serving: Serving) -> list[Route]:
    """Routes of all operations, and of the document that describes them.

    Args:
        serving: answers.
    """
    operations = (*OF_SERVER, *OPERATIONS)
    document = cache(lambda: replies.json_of(openapi_document(operations, serving.package)).body)

    async def openapi(request: Request) -> Response:
        return Response(document(), media_type=JSON)

    found = [Route("/openapi.json", _named("/openapi.json", openapi), methods=["GET"])]
    for path in dict.fromkeys(operation.path for operation in operations):
        here: dict[str, Operation] = {one.method: one for one in operations if one.path == path}
        found.append(Route(path, _endpoint(serving, path, here), methods=list(here)))
    return found


def _endpoint(serving: Serving, path: str, here: Mapping[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
    """What answers at an address."""

    async def respond(request: Request) -> Response:
        operation = here["GET" if request.method == "HEAD" else request.method]
        version = serving.shelf.find(request.path_params["release"]) if operation.of_release else None
        asked, in_body = None, operation.method == "POST"
        if operation.asks is not None:
            asked = read_address(NoRequest if in_body else operation.asks, request.query_params)
            asked = read_body(operation.asks, await request.body()) if in_body else asked
        return await operation.answer(serving, version, asked)

    return _named(path, respond)


def _named(name: str, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The handler, which says by what name its requests are counted."""

    async def respond(request: Request) -> Response:
        request.scope["route_name"] = name
        return await handler(request)

    return respond
