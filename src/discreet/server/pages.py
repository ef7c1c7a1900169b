"""Serve the pages: their addresses, and the parts of each. All work without scripts; page.js adds to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import parse_qs, quote_plus

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from discreet.errors import DiscreetError, InputError
from discreet.model.schema import Schema
from discreet.queries.query import marginals
from discreet.server.api import Serving, listed_release
from discreet.server.catalog import Version
from discreet.server.middleware import COOKIE
from discreet.server.page_links import (
    KEPT,
    MOST_CHARACTERS,
    CompareRequest,
    PageRequest,
    address,
    given_query,
    pairs_of,
)
from discreet.server.page_tables import compare_table, templates
from discreet.server.parameters import NoRequest, read_address, read_evidence
from discreet.server.problems import Problem
from discreet.server.readings import ServedPosterior
from discreet.server.release_page import (
    ask_distributions,
    ask_expected,
    ask_fit_words,
    ask_numbers,
    ask_picture,
    ask_query,
    ask_states,
    ask_structure,
    promises,
    shows_network,
)
from discreet.server.tokens import TokenFile
from discreet.server.work import marginals_work
from discreet.server.work_queue import ResponseBody
from discreet.util.option_texts import Gaps

# --------------------------------------------------------------------------------------------------------------------
# The frame of all pages: templates, and files that pages load.

MEDIA = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
STATIC_SECONDS = 31_536_000
"""Seconds that a browser keeps a file: its address has a digest of its content."""


@cache
def _static(name: str) -> bytes:
    """Read a file that pages load."""
    return (files("discreet.server") / "static" / name).read_bytes()


@cache
def static_name(name: str) -> str:
    """Return the address of such a file below the root; it changes with the content."""
    return f"static/{name}?{sha256(_static(name)).hexdigest()[:12]}"


async def send_static(request: Request) -> Response:
    """Send such a file.

    Raises:
        Problem: no file has this name.
    """
    name = request.path_params["name"]
    if name not in MEDIA:
        raise Problem("not-found", "nothing is at this address")
    headers = {"cache-control": f"public, max-age={STATIC_SECONDS}, immutable"}
    return Response(_static(name), headers=headers, media_type=MEDIA[name])


def root_of(request: Request) -> str:
    """Return the relative path from an address to the server's root, so that a proxy's prefix does not matter."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return "../" * (path.count("/") - 1) or "./"


def page_response(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a page."""
    headers = {} if context.get("retry") is None else {"Retry-After": str(context["retry"])}
    context = {
        "static": static_name,
        "root": root_of(request),
        "retry": None,
        "leaves": request.scope.get("by_cookie", False),
        **context,
    }
    return HTMLResponse(templates().get_template(template).render(context), status, headers)


def problem_page(request: Request, problem: Problem, **context: Any) -> HTMLResponse:
    """Render a page that shows a problem."""
    retry = problem.retry_after if problem.kind == "not-ready" else None
    context = {"title": problem.title, "sentence": str(problem), "links": [], "retry": retry, **context}
    return page_response(request, "problem.html", problem.status, **context)


LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Levels that pages link to; an address may have any other."""
MOST_FORM_BYTES, MOST_FORM_FIELDS = 4096, 4
"""Most bytes and fields of the form in which a token is entered, which anybody may send."""
FIELD = "x."
"""Prefix of a feature's name in an address."""
NOT_OUR_FORM = (
    "enter the token on a page of this server, not through another site; behind a proxy, start it with --proxy, and "
    "let the proxy pass Host on and set X-Forwarded-Proto"
)
KINDS = {
    "network": "probabilities of a network",
    "family": "a family of distributions with parameters",
    "states": "probabilities of one variable",
    "weights": "a regression or a direction",
    "structure": "a network that was chosen",
}
"""Descriptions of the kinds of releases."""
ASKED = ("network", "family", "states")
"""Kinds of releases that have states to query."""
NETWORK_ONLY = (
    "This release chose a network and measured nothing else: it shows which variables depend on each other, but no "
    "probabilities."
)
FEW = 12
"""Most variables of a network without a search box."""
BLANK: Mapping[str, Any] = MappingProxyType(
    {
        **dict.fromkeys(("states", "numbers", "structure", "lead", "answer", "expected", "fit", "distributions"), ""),
        **dict.fromkeys(("query_error", "field_error", "problem"), ""),
        "fields": (),
        "retry": None,
    }
)
"""Default values of a page's context."""
Handler = Callable[[Request], Awaitable[Response]]


def page_routes(serving: Serving, tokens: TokenFile | None) -> list[Route]:
    """List the routes of all pages.

    Args:
        serving: answers.
        tokens: of those who may ask; None lets everybody ask.
    """
    pages = _Pages(serving, tokens)
    handlers = {
        "/": pages.releases,
        "/pages/{release}": pages.release,
        "/pages/{release}/picture.svg": pages.picture,
        "/compare": pages.compare,
        "/static/{name}": send_static,
    }
    routes = [Route(path, _page(path, handler), methods=["GET"]) for path, handler in handlers.items()]
    enter = Route("/enter", _page("/enter", pages.enter), methods=["GET", "POST"])
    return [*routes, enter, Route("/leave", _page("/leave", pages.leave), methods=["POST"])]


def _page(name: str, handler: Handler) -> Handler:
    """Wrap a handler so that its problems are pages and its requests are counted under a name."""

    async def respond(request: Request) -> Response:
        request.scope["route_name"] = name
        try:
            return await handler(request)
        except DiscreetError as error:
            return problem_page(request, _problem_of(error))

    return respond


def _problem_of(error: DiscreetError) -> Problem:
    """Turn an error into a problem with a status."""
    return error if isinstance(error, Problem) else Problem("bad-request", str(error))


class _Pages:
    """Handlers of the pages' addresses."""

    def __init__(self, serving: Serving, tokens: TokenFile | None) -> None:
        self._serving, self._tokens = serving, tokens

    # ------------------------------------------------------------------------------------------------ all releases

    async def releases(self, request: Request) -> Response:
        """Show all releases; if there is one, redirect to its page."""
        read_address(NoRequest, request.query_params)
        newest = self._serving.catalog.newest()
        if len(newest) == 1:
            return RedirectResponse(f"pages/{newest[0].name}", 307)
        rows = [{**listed_release(self._serving, version), "kind": KINDS[version.kind]} for version in newest]
        return page_response(request, "releases.html", rows=rows, choices=self._comparable(), chosen=())

    def _comparable(self) -> list[tuple[str, str]]:
        """List ids and names of all versions that share variables and states with another one, grouped by them."""
        catalog, alike = self._serving.catalog, dict[Schema, list[Version]]()
        for version in (
            each for new in catalog.newest() if new.kind in ASKED for each in catalog.versions(new.name)[::-1]
        ):
            alike.setdefault(version.network.schema, []).append(version)
        several = [version for versions in alike.values() if len(versions) > 1 for version in versions]
        return [(version.id, f"{version.name}, version {version.number}") for version in several]

    async def compare(self, request: Request) -> Response:
        """Show two releases side by side."""
        pair = read_address(CompareRequest, request.query_params)
        context: dict[str, Any] = {**dict.fromkeys(("table", "problem"), ""), "names": [], "chosen": (), "retry": None}
        context |= {"choices": self._comparable(), "asked": pair}
        status = 200
        try:
            versions = [self._serving.catalog.find(name) for name in (pair.first, pair.second) if name is not None]
            if len(versions) == 2:
                chosen = [version.id for version in versions]
                context["chosen"] = chosen if dict(context["choices"]).keys() >= set(chosen) else ()
                readings = [await self._serving.readings.get(version) for version in versions]
                context["names"] = [f"{version.name}, version {version.number}" for version in versions]
                context["table"] = (await self._ask_both(readings, context["names"], pair)).body.decode()
        except DiscreetError as error:
            problem = _problem_of(error)
            context |= {"problem": str(problem), "retry": problem.retry_after if problem.kind == "not-ready" else None}
            status = problem.status
        return page_response(request, "compare.html", status, **context)

    async def _ask_both(self, readings: list[ServedPosterior], names: list[str], pair: CompareRequest) -> ResponseBody:
        """Compute the table of two releases."""
        first, second = (reading.posterior() for reading in readings)
        if first.network.schema != second.network.schema:
            raise InputError(f"{names[0]} and {names[1]} have different variables or states: nothing can be compared")
        evidence = read_evidence(first.network.schema, pair.e)
        left = [name for name in first.network.nodes if name not in evidence]

        def make() -> ResponseBody:
            results = [marginals(reading.plain, evidence, level=pair.level) for reading in readings]
            both = [
                dict(zip(left, answers, strict=True)) for answers in (results[0], _in_order(left, results[1], readings))
            ]
            return ResponseBody(compare_table(names, both, first.network).encode())

        key = (*(reading.version.digest for reading in readings), "compare", tuple(evidence.items()), pair.level)
        return await self._serving.queue.answer(key, make, lambda: 2 * marginals_work(first, evidence))

    # ------------------------------------------------------------------------------------------------- one release

    async def release(self, request: Request) -> Response:
        """Show the page of one release."""
        catalog, cache = self._serving.catalog, self._serving.queue.cache
        version = catalog.find(request.path_params["release"])
        beside = (
            catalog.fault(version.name),
            *(each.id for each in (*catalog.versions(version.name), *catalog.newest())),
        )
        # The raw query: a Host header can change `request.url`.
        asked_for = (request.scope["query_string"], root_of(request), request.scope.get("by_cookie", False))
        today = datetime.now(UTC).date().isoformat()
        key = (version.digest, "whole page", today, *asked_for, beside)
        cached = cache.get(key)
        if cached is not None:
            self._serving.meter.cache.labels("hit").inc()
            return HTMLResponse(cached.body)
        record = {name[len(FIELD) :]: text for name, text in request.query_params.items() if name.startswith(FIELD)}
        pairs = [pair for pair in request.query_params.multi_items() if not pair[0].startswith(FIELD)]
        page = read_address(PageRequest, QueryParams([pair for pair in pairs if pair != ("q", "")]))
        page = page.model_copy(update={"download": False})
        if sum(map(len, page.e)) > MOST_CHARACTERS:
            raise Problem(
                "bad-request", "this is too much evidence for a page, whose links repeat it: send the query by POST"
            )
        context, problem = self._describe(version, page, root_of(request)), None
        try:
            context |= await self._answer(version, page, record)
        except DiscreetError as error:
            problem = _problem_of(error)
            context |= {"problem": str(problem), "retry": problem.retry_after if problem.kind == "not-ready" else None}
        response = page_response(request, "release.html", 200 if problem is None else problem.status, **context)
        if problem is None and not (context["query_error"] or context["field_error"]):
            cache.put(key, ResponseBody(bytes(response.body)))
        return response

    def _describe(self, version: Version, page: PageRequest, root: str) -> dict[str, Any]:
        """Describe all of a page that needs no posterior: the release, and the links."""
        catalog, evidence, release = self._serving.catalog, version.evidence, version.evidence.one_release
        pairs = [pair for pair in pairs_of(page) if pair[0] in ("e", "level", "missing")]
        rest = "".join(f"&{name}={quote_plus(value)}" for name, value in pairs)
        versions = catalog.versions(version.name)
        with_network = version.over_network and shows_network(page, version.network)
        return {
            **BLANK,
            **_list_links(version, page, with_network),
            "version": version,
            "kind": KINDS[version.kind],
            "permanent": f"{root}pages/{version.id}{address(page).rstrip('?')}",
            "today": datetime.now(UTC).date().isoformat(),
            "date": release and release.date.isoformat(),
            "promises": promises(evidence),
            "fault": catalog.fault(version.name),
            "others": [each for each in versions if each is not version] if version.kind in ASKED else [],
            "newer": versions[0] if versions and versions[0] is not version else None,
            "several": len(catalog.newest()) > 1,
            "downloads": _list_downloads(version, rest, root),
            "picture": f"{root}pages/{version.id}/picture.svg?{rest[1:]}" if with_network else None,
            "tools": version.kind in ASKED and len(version.network.nodes) > FEW,
            "asks": version.kind in ASKED,
        }

    async def _answer(self, version: Version, page: PageRequest, record: dict[str, str]) -> dict[str, Any]:
        """Compute the parts of a page that need the posterior."""
        if version.kind == "structure":
            picture = await self._serving.answer(version, ask_structure)
            return {"structure": picture.body.decode(), "lead": NETWORK_ONLY}
        if version.kind == "weights":
            return await self._answer_weights(version, page, record)
        serving = self._serving
        carried = "".join(f"&amp;q={escape(quote_plus(text))}" for name, text in pairs_of(page) if name == "q")
        states = await serving.answer(version, lambda reading: ask_states(reading, page))
        context: dict[str, Any] = {"states": states.body.decode().replace(KEPT, carried)}
        if version.over_network:
            context["fit"] = (await serving.answer(version, ask_fit_words)).body.decode()
        shown = await serving.answer(version, lambda reading: ask_distributions(reading, page))
        context["distributions"] = shown.body.decode()
        if version.kind == "family":
            numbers = await serving.answer(version, lambda reading: ask_numbers(reading, page))
            context |= {"numbers": numbers.body.decode(), "lead": "Parameters of the family"}
        if page.q is not None:
            try:
                answer = await serving.answer(version, lambda reading: ask_query(reading, page))
                context["answer"] = answer.body.decode()
            except DiscreetError as error:
                context["query_error"] = str(error).removeprefix("query 1, ")  # a page has one query
        return context

    async def _answer_weights(self, version: Version, page: PageRequest, record: dict[str, str]) -> dict[str, Any]:
        """Compute coefficients, and the expected value for numbers that were entered."""
        design: Any = version.evidence.one_release.over
        if page.e or page.q is not None:
            raise InputError("a regression or direction has no states to observe, and no queries")
        numbers = await self._serving.answer(version, lambda reading: ask_numbers(reading, page))
        context: dict[str, Any] = {"numbers": numbers.body.decode(), "lead": _lead_of(design)}
        if design.target is None:
            return context
        context["fields"] = [
            {"name": feature.name, "low": f"{low:g}", "high": f"{high:g}", "value": record.get(feature.name, "")}
            for feature in design.features
            for low, high in [feature.bounds or (0.0, 0.0)]
        ]
        if record:
            try:
                expected = await self._serving.answer(version, lambda reading: ask_expected(reading, page, record))
                context["expected"] = expected.body.decode()
            except DiscreetError as error:
                context["field_error"] = str(error)
        return context

    async def picture(self, request: Request) -> Response:
        """Send the network of a page as a picture."""
        version = self._serving.catalog.find(request.path_params["release"])
        page = read_address(PageRequest, request.query_params)
        picture = await self._serving.answer(version, lambda reading: ask_picture(reading, page))
        headers = {"content-disposition": f'attachment; filename="{version.name}.svg"'} if page.download else {}
        return Response(picture.body, headers=headers, media_type=picture.media)

    # ------------------------------------------------------------------------------------------------------- tokens

    async def enter(self, request: Request) -> Response:
        """Show the form for a token, or check the token and store it in a cookie."""
        wanted = request.query_params.get("next", "/")
        onward = wanted if _is_local(wanted) else "/"
        if self._tokens is None:
            return self._go(request, onward)
        if request.method == "GET":
            return page_response(request, "enter.html", onward=onward, wrong="")
        if not _is_own_form(request):
            raise Problem("bad-request", NOT_OUR_FORM)
        token = _token_of(await request.body())
        if self._tokens.find(token) is None:
            wrong = "This token is unknown here, or has expired."
            return page_response(request, "enter.html", 401, onward=onward, wrong=wrong)
        response = self._go(request, onward)
        response.set_cookie(COOKIE, token, **_cookie_of(request))
        return response

    async def leave(self, request: Request) -> Response:
        """Delete the browser's token; the guard refuses requests without one, and the cookie those of other sites."""
        response = self._go(request, "/")
        response.delete_cookie(COOKIE, **_cookie_of(request))
        return response

    @staticmethod
    def _go(request: Request, onward: str) -> RedirectResponse:
        """Redirect to an address of this server."""
        return RedirectResponse(f"{request.scope.get('root_path', '')}{onward}", 303)


def _is_own_form(request: Request) -> bool:
    """Return True if a page of this server sent a form, by the browser's headers; older browsers send `Origin` only."""
    server = f"{request.scope['scheme']}://{request.headers.get('host', '')}"
    site = request.headers.get("sec-fetch-site", "none")
    return site in ("same-origin", "none") and all(sent == server for sent in request.headers.getlist("origin"))


def _token_of(form: bytes) -> str:
    """Find the token submitted by a form, or "" if it is missing or too long."""
    try:
        fields = parse_qs(form[:MOST_FORM_BYTES].decode("latin-1"), max_num_fields=MOST_FORM_FIELDS)
    except ValueError:
        return ""
    return fields.get("token", [""])[0].strip()


def _cookie_of(request: Request) -> dict[str, Any]:
    """List the attributes of the token's cookie: sent to this server only, and hidden from scripts."""
    path, secure = request.scope.get("root_path", "") or "/", request.scope["scheme"] == "https"
    return {"path": path, "secure": secure, "httponly": True, "samesite": "strict"}


def _list_links(version: Version, page: PageRequest, with_network: bool) -> dict[str, Any]:
    """List the states of a page's controls, with the addresses that change them."""
    levels = (*LEVELS, *([] if page.level in LEVELS else [page.level]))
    gap_options = zip(get_args(Gaps), ("missing at random", "missing as a state"), strict=True)
    conditioned = given_query(page, version.network) if version.kind in ASKED else ""
    return {
        "chips": [
            {"text": text, "href": address(page, e=[*page.e[:at], *page.e[at + 1 :]])} for at, text in enumerate(page.e)
        ],
        "given": {"text": conditioned, "href": address(page, q=conditioned)},
        "undo": address(page, e=page.e[:-1]),
        "clear": address(page, e=[]),
        "level": f"{100 * page.level:g} %",
        "said": f"observed: {', '.join(page.e)}" if page.e else "nothing is observed",
        "levels": [
            {"text": f"{100 * level:g} %", "href": address(page, level=level), "here": level == page.level}
            for level in levels
        ],
        "views": [
            {"text": "Network", "id": "view-network", "href": address(page, view="network"), "here": with_network},
            {"text": "Table", "id": "view-table", "href": address(page, view="table"), "here": not with_network},
        ],
        "noise": {"here": page.noise, "href": address(page, noise=not page.noise, view="table")},
        "gaps": [
            {"text": words, "href": address(page, missing=gaps), "here": (page.missing or "state") == gaps}
            for gaps, words in gap_options
            if version.gaps
        ],
        "hidden": [pair for pair in pairs_of(page) if pair[0] != "q"],
        "q": page.q or "",
    }


def _list_downloads(version: Version, rest: str, root: str) -> list[dict[str, str]]:
    """List the files of a page's numbers."""
    here = f"{root}releases/{version.id}"
    document = {"text": "release (JSON)", "href": here, "name": f"{version.name}.json"}
    if version.kind == "structure":
        return [document]
    operation = "query" if version.kind == "weights" else "marginals"
    files = {"JSON": f"{here}/{operation}?{rest[1:]}", "CSV": f"{here}/{operation}?format=csv{rest}"}
    downloads = [
        {"text": f"these numbers ({form})", "href": href, "name": f"{version.name}-{operation}.{form.lower()}"}
        for form, href in files.items()
    ]
    return [*downloads, document]


def _is_local(path: str) -> bool:
    """Return True if a redirect to this path stays on this server."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


def _in_order(names: list[str], answers: Any, readings: list[ServedPosterior]) -> list[Any]:
    """Sort the second release's answers in the order of the first one's variables."""
    by_name = dict(zip((name for name in readings[1].plain.network.nodes if name in set(names)), answers, strict=True))
    return [by_name[name] for name in names]


def _lead_of(design: Any) -> str:
    """Name the meaning of a design's coefficients."""
    if design.target is None:
        return "Coordinates of the direction in which records differ most"
    name = design.target.name
    quantity = {
        "number": name,
        "count": f"the logarithm of {name}",
        "class": f"the log odds of {name} = {design.target.states[-1] if design.target.states else name}",
        "classes": f"the log odds of each class of {name}",
    }[design.predicts]
    return f"Change of {quantity} for one unit of each column"
