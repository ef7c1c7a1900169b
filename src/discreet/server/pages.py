"""The pages: addresses, and what each puts together. All work without scripts; what scripts add is in page.js."""

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
from discreet.model.design import Design
from discreet.model.schema import Schema
from discreet.queries.query import marginals
from discreet.server.api import Serving, listed_release
from discreet.server.desk import Made
from discreet.server.gate import COOKIE
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
from discreet.server.shelf import Version
from discreet.server.tokens import TokenFile
from discreet.server.work import marginals_work
from discreet.util.option_texts import Gaps

# --------------------------------------------------------------------------------------------------------------------
# The frame of all pages: templates, and files that pages load.

MEDIA = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
STATIC_SECONDS = 31_536_000
"""For which a browser keeps a file: its address has a digest of what it holds."""


@cache
def _static(name: str) -> bytes:
    """A file that pages load."""
    return (files("discreet.server") / "static" / name).read_bytes()


@cache
def static_name(name: str) -> str:
    """The address of such a file below the root, which is another one when the file is."""
    return f"static/{name}?{sha256(_static(name)).hexdigest()[:12]}"


async def send_static(request: Request) -> Response:
    """Send such a file.

    Raises:
        Problem: there is none of this name.
    """
    name = request.path_params["name"]
    if name not in MEDIA:
        raise Problem("not-found", "nothing is at this address")
    headers = {"cache-control": f"public, max-age={STATIC_SECONDS}, immutable"}
    return Response(_static(name), headers=headers, media_type=MEDIA[name])


def root_of(request: Request) -> str:
    """The way from an address up to the root of the server, so that what a proxy adds before it does not matter."""
    own = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return "../" * (own.count("/") - 1) or "./"


def page_response(request: Request, template: str, status: int = 200, **told: Any) -> HTMLResponse:
    """A page."""
    headers = {} if told.get("retry") is None else {"Retry-After": str(told["retry"])}
    told = {
        "static": static_name,
        "root": root_of(request),
        "retry": None,
        "leaves": request.scope.get("by_cookie", False),
        **told,
    }
    return HTMLResponse(templates().get_template(template).render(told), status, headers)


def problem_page(request: Request, problem: Problem, **told: Any) -> HTMLResponse:
    """A page that says why there is no other."""
    retry = problem.retry_after if problem.kind == "not-ready" else None
    told = {"title": problem.title, "sentence": str(problem), "links": [], "retry": retry, **told}
    return page_response(request, "problem.html", problem.status, **told)


LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
"""That pages link to; an address may have any other."""
MOST_FORM_BYTES, MOST_FORM_FIELDS = 4096, 4
"""Of the form in which a token is entered, which anybody may send."""
FIELD = "x."
"""Before the name of a feature in an address."""
NOT_OUR_FORM = (
    "a token is entered on the page of this server, and not through another one; behind a proxy start it with --proxy, "
    "and let the proxy hand on Host and write X-Forwarded-Proto"
)
KINDS = {
    "network": "probabilities of a network",
    "family": "a family of distributions with parameters",
    "states": "probabilities of one variable",
    "weights": "a regression or a direction",
    "structure": "a network that was chosen",
}
"""What a release is of, for people."""
ASKED = ("network", "family", "states")
"""Kinds that have states to ask for."""
NETWORK_ONLY = (
    "This release chose a network and measured nothing else: it says which variables depend on which, and no "
    "probabilities."
)
FEW = 12
"""Variables of a network in which nobody has to search."""
BLANK: Mapping[str, Any] = MappingProxyType(
    {
        **dict.fromkeys(("states", "numbers", "structure", "lead", "answer", "expected", "fit"), ""),
        **dict.fromkeys(("query_error", "field_error", "problem"), ""),
        "fields": (),
        "retry": None,
    }
)
"""What a page may have, and need not."""
Handler = Callable[[Request], Awaitable[Response]]


def page_routes(serving: Serving, tokens: TokenFile | None) -> list[Route]:
    """Routes of all pages.

    Args:
        serving: answers.
        tokens: of those who may ask; None: everybody.
    """
    pages = _Pages(serving, tokens)
    found = {
        "/": pages.releases,
        "/pages/{release}": pages.release,
        "/pages/{release}/picture.svg": pages.picture,
        "/compare": pages.compare,
        "/static/{name}": send_static,
    }
    routes = [Route(path, _page(path, handler), methods=["GET"]) for path, handler in found.items()]
    enter = Route("/enter", _page("/enter", pages.enter), methods=["GET", "POST"])
    return [*routes, enter, Route("/leave", _page("/leave", pages.leave), methods=["POST"])]


def _page(name: str, handler: Handler) -> Handler:
    """A handler whose problems are pages, too; it says by what name its requests are counted."""

    async def respond(request: Request) -> Response:
        request.scope["route_name"] = name
        try:
            return await handler(request)
        except DiscreetError as error:
            return problem_page(request, _problem_of(error))

    return respond


def _problem_of(error: DiscreetError) -> Problem:
    """What went wrong, with its status."""
    return error if isinstance(error, Problem) else Problem("bad-request", str(error))


class _Pages:
    """What answers at the addresses of pages."""

    def __init__(self, serving: Serving, tokens: TokenFile | None) -> None:
        self._serving, self._tokens = serving, tokens

    # ------------------------------------------------------------------------------------------------ all releases

    async def releases(self, request: Request) -> Response:
        """All releases; where there is one, its page."""
        read_address(NoRequest, request.query_params)
        newest = self._serving.shelf.newest()
        if len(newest) == 1:
            return RedirectResponse(f"pages/{newest[0].name}", 307)
        rows = [{**listed_release(self._serving, one), "kind": KINDS[one.kind]} for one in newest]
        return page_response(request, "releases.html", rows=rows, choices=self._comparable(), chosen=())

    def _comparable(self) -> list[tuple[str, str]]:
        """Ids and names of all versions that have their variables and states in common with another; these together."""
        shelf, alike = self._serving.shelf, dict[Schema, list[Version]]()
        for one in (one for new in shelf.newest() if new.kind in ASKED for one in shelf.versions(new.name)[::-1]):
            alike.setdefault(one.network.schema, []).append(one)
        several = [one for versions in alike.values() if len(versions) > 1 for one in versions]
        return [(one.id, f"{one.name}, version {one.number}") for one in several]

    async def compare(self, request: Request) -> Response:
        """Two releases side by side."""
        asked = read_address(CompareRequest, request.query_params)
        told: dict[str, Any] = {**dict.fromkeys(("table", "problem"), ""), "names": [], "chosen": (), "retry": None}
        told |= {"choices": self._comparable(), "asked": asked}
        status = 200
        try:
            versions = [self._serving.shelf.find(name) for name in (asked.one, asked.other) if name is not None]
            if len(versions) == 2:
                chosen = [version.id for version in versions]
                told["chosen"] = chosen if dict(told["choices"]).keys() >= set(chosen) else ()
                readings = [await self._serving.readings.get(version) for version in versions]
                told["names"] = [f"{version.name}, version {version.number}" for version in versions]
                told["table"] = (await self._ask_both(readings, told["names"], asked)).body.decode()
        except DiscreetError as error:
            problem = _problem_of(error)
            told |= {"problem": str(problem), "retry": problem.retry_after if problem.kind == "not-ready" else None}
            status = problem.status
        return page_response(request, "compare.html", status, **told)

    async def _ask_both(self, readings: list[ServedPosterior], names: list[str], asked: CompareRequest) -> Made:
        """The table of two releases."""
        one, other = (reading.posterior() for reading in readings)
        if one.network.schema != other.network.schema:
            raise InputError(f"{names[0]} and {names[1]} have different variables or states: nothing can be compared")
        evidence = read_evidence(one.network.schema, asked.e)
        left = [name for name in one.network.nodes if name not in evidence]

        def make() -> Made:
            found = [marginals(reading.plain, evidence, level=asked.level) for reading in readings]
            both = [
                dict(zip(left, answers, strict=True)) for answers in (found[0], _in_order(left, found[1], readings))
            ]
            return Made(compare_table(names, both, one.network).encode())

        key = (*(reading.version.digest for reading in readings), "compare", tuple(evidence.items()), asked.level)
        return await self._serving.desk.answer(key, make, lambda: 2 * marginals_work(one, evidence))

    # ------------------------------------------------------------------------------------------------- one release

    async def release(self, request: Request) -> Response:
        """The page of one release."""
        shelf, cache = self._serving.shelf, self._serving.desk.cache
        version = shelf.find(request.path_params["release"])
        beside = (shelf.fault(version.name), *(one.id for one in (*shelf.versions(version.name), *shelf.newest())))
        # As it came: what `request.url` makes of it, a Host header can bend.
        asked_for = (request.scope["query_string"], root_of(request), request.scope.get("by_cookie", False))
        today = datetime.now(UTC).date().isoformat()
        key = (version.digest, "whole page", today, *asked_for, beside)
        known = cache.get(key)
        if known is not None:
            self._serving.meter.cache.labels("hit").inc()
            return HTMLResponse(known.body)
        record = {name[len(FIELD) :]: text for name, text in request.query_params.items() if name.startswith(FIELD)}
        pairs = [pair for pair in request.query_params.multi_items() if not pair[0].startswith(FIELD)]
        asked = read_address(PageRequest, QueryParams([pair for pair in pairs if pair != ("q", "")]))
        asked = asked.model_copy(update={"download": False})
        if sum(map(len, asked.e)) > MOST_CHARACTERS:
            raise Problem("bad-request", "this is too much evidence for a page, whose links all have it: ask with POST")
        told, problem = self._describe(version, asked, root_of(request)), None
        try:
            told |= await self._answer(version, asked, record)
        except DiscreetError as error:
            problem = _problem_of(error)
            told |= {"problem": str(problem), "retry": problem.retry_after if problem.kind == "not-ready" else None}
        response = page_response(request, "release.html", 200 if problem is None else problem.status, **told)
        if problem is None and not (told["query_error"] or told["field_error"]):
            cache.put(key, Made(bytes(response.body)))
        return response

    def _describe(self, version: Version, asked: PageRequest, root: str) -> dict[str, Any]:
        """All of a page that needs no posterior: what is released, and where links lead."""
        shelf, evidence, release = self._serving.shelf, version.evidence, version.evidence.one_release
        own = [pair for pair in pairs_of(asked) if pair[0] in ("e", "level", "missing")]
        rest = "".join(f"&{name}={quote_plus(value)}" for name, value in own)
        versions = shelf.versions(version.name)
        drawn = version.over_network and shows_network(asked, version.network)
        return {
            **BLANK,
            **_list_links(version, asked, drawn),
            "version": version,
            "kind": KINDS[version.kind],
            "permanent": f"{root}pages/{version.id}{address(asked).rstrip('?')}",
            "today": datetime.now(UTC).date().isoformat(),
            "date": release and release.date.isoformat(),
            "report": release is not None,
            "promises": promises(evidence),
            "fault": shelf.fault(version.name),
            "others": [one for one in versions if one is not version] if version.kind in ASKED else [],
            "newer": versions[0] if versions and versions[0] is not version else None,
            "several": len(shelf.newest()) > 1,
            "downloads": _list_downloads(version, rest, root),
            "picture": f"{root}pages/{version.id}/picture.svg?{rest[1:]}" if drawn else None,
            "tools": version.kind in ASKED and len(version.network.nodes) > FEW,
            "asks": version.kind in ASKED,
        }

    async def _answer(self, version: Version, asked: PageRequest, record: dict[str, str]) -> dict[str, Any]:
        """What a page says by the posterior."""
        if version.kind == "structure":
            drawn = await self._serving.answer(version, ask_structure)
            return {"structure": drawn.body.decode(), "lead": NETWORK_ONLY}
        if version.kind == "weights":
            return await self._answer_weights(version, asked, record)
        serving = self._serving
        carried = "".join(f"&amp;q={escape(quote_plus(text))}" for name, text in pairs_of(asked) if name == "q")
        made = await serving.answer(version, lambda reading: ask_states(reading, asked))
        told: dict[str, Any] = {"states": made.body.decode().replace(KEPT, carried)}
        if version.over_network:
            told["fit"] = (await serving.answer(version, ask_fit_words)).body.decode()
        if version.kind == "family":
            numbers = await serving.answer(version, lambda reading: ask_numbers(reading, asked))
            told |= {"numbers": numbers.body.decode(), "lead": "Parameters of the family"}
        if asked.q is not None:
            try:
                answer = await serving.answer(version, lambda reading: ask_query(reading, asked))
                told["answer"] = answer.body.decode()
            except DiscreetError as error:
                told["query_error"] = str(error).removeprefix("query 1, ")  # there is one
        return told

    async def _answer_weights(self, version: Version, asked: PageRequest, record: dict[str, str]) -> dict[str, Any]:
        """Coefficients, and what is expected of numbers that were typed in."""
        design = version.evidence.one_release.design
        if asked.e or asked.q is not None:
            raise InputError("a regression or direction has no states to observe, and no queries")
        made = await self._serving.answer(version, lambda reading: ask_numbers(reading, asked))
        told: dict[str, Any] = {"numbers": made.body.decode(), "lead": _lead_of(design)}
        if design.target is None:
            return told
        told["fields"] = [
            {"name": one.name, "low": f"{low:g}", "high": f"{high:g}", "value": record.get(one.name, "")}
            for one in design.features
            for low, high in [one.bounds or (0.0, 0.0)]
        ]
        if record:
            try:
                found = await self._serving.answer(version, lambda reading: ask_expected(reading, asked, record))
                told["expected"] = found.body.decode()
            except DiscreetError as error:
                told["field_error"] = str(error)
        return told

    async def picture(self, request: Request) -> Response:
        """The network of a page, alone."""
        version = self._serving.shelf.find(request.path_params["release"])
        asked = read_address(PageRequest, request.query_params)
        made = await self._serving.answer(version, lambda reading: ask_picture(reading, asked))
        headers = {"content-disposition": f'attachment; filename="{version.name}.svg"'} if asked.download else {}
        return Response(made.body, headers=headers, media_type=made.media)

    # ----------------------------------------------------------------------------------------------------- the door

    async def enter(self, request: Request) -> Response:
        """Where a token is entered; a cookie has it from then on."""
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
            wrong = "This token is not known here, or not good any more."
            return page_response(request, "enter.html", 401, onward=onward, wrong=wrong)
        response = self._go(request, onward)
        response.set_cookie(COOKIE, token, **_cookie_of(request))
        return response

    async def leave(self, request: Request) -> Response:
        """Where a browser forgets its token; whoever has none is not let in here, and no other site's form is."""
        response = self._go(request, "/")
        response.delete_cookie(COOKIE, **_cookie_of(request))
        return response

    @staticmethod
    def _go(request: Request, onward: str) -> RedirectResponse:
        """On to an address of this server."""
        return RedirectResponse(f"{request.scope.get('root_path', '')}{onward}", 303)


def _is_own_form(request: Request) -> bool:
    """Whether a page of this server sent a form, by all that a browser says of that; older ones say `Origin` alone."""
    own = f"{request.scope['scheme']}://{request.headers.get('host', '')}"
    site = request.headers.get("sec-fetch-site", "none")
    return site in ("same-origin", "none") and all(one == own for one in request.headers.getlist("origin"))


def _token_of(form: bytes) -> str:
    """The token of a form; empty where there is none, as in what is too long for it."""
    try:
        return (
            parse_qs(form[:MOST_FORM_BYTES].decode("latin-1"), max_num_fields=MOST_FORM_FIELDS)
            .get("token", [""])[0]
            .strip()
        )
    except ValueError:
        return ""


def _cookie_of(request: Request) -> dict[str, Any]:
    """Where a browser sends the cookie of a token, and who else may read it: nobody."""
    path, secure = request.scope.get("root_path", "") or "/", request.scope["scheme"] == "https"
    return {"path": path, "secure": secure, "httponly": True, "samesite": "strict"}


def _list_links(version: Version, asked: PageRequest, drawn: bool) -> dict[str, Any]:
    """What is observed and how it is shown, with the pages where it is otherwise."""
    levels = (*LEVELS, *([] if asked.level in LEVELS else [asked.level]))
    ways = zip(get_args(Gaps), ("missing at random", "missing as a state"), strict=True)
    given = given_query(asked, version.network) if version.kind in ASKED else ""
    return {
        "chips": [
            {"text": text, "href": address(asked, e=[*asked.e[:at], *asked.e[at + 1 :]])}
            for at, text in enumerate(asked.e)
        ],
        "given": {"text": given, "href": address(asked, q=given)},
        "undo": address(asked, e=asked.e[:-1]),
        "clear": address(asked, e=[]),
        "level": f"{100 * asked.level:g} %",
        "said": f"observed: {', '.join(asked.e)}" if asked.e else "nothing is observed",
        "levels": [
            {"text": f"{100 * level:g} %", "href": address(asked, level=level), "here": level == asked.level}
            for level in levels
        ],
        "views": [
            {"text": "Network", "id": "view-network", "href": address(asked, view="network"), "here": drawn},
            {"text": "Table", "id": "view-table", "href": address(asked, view="table"), "here": not drawn},
        ],
        "noise": {"here": asked.noise, "href": address(asked, noise=not asked.noise, view="table")},
        "gaps": [
            {"text": words, "href": address(asked, missing=way), "here": (asked.missing or "state") == way}
            for way, words in ways
            if version.gaps
        ],
        "hidden": [pair for pair in pairs_of(asked) if pair[0] != "q"],
        "q": asked.q or "",
    }


def _list_downloads(version: Version, rest: str, root: str) -> list[dict[str, str]]:
    """Files of what a page shows."""
    here = f"{root}releases/{version.id}"
    document = {"text": "release (JSON)", "href": here, "name": f"{version.name}.json"}
    if version.kind == "structure":
        return [document]
    what = "query" if version.kind == "weights" else "marginals"
    files = {"JSON": f"{here}/{what}?{rest[1:]}", "CSV": f"{here}/{what}?format=csv{rest}"}
    found = [
        {"text": f"these numbers ({form})", "href": href, "name": f"{version.name}-{what}.{form.lower()}"}
        for form, href in files.items()
    ]
    return [*found, document]


def _is_local(path: str) -> bool:
    """Whether a browser that is sent there stays on this server."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


def _in_order(names: list[str], answers: Any, readings: list[ServedPosterior]) -> list[Any]:
    """Answers of the second release in the order of the first one's variables."""
    own = dict(zip((name for name in readings[1].plain.network.nodes if name in set(names)), answers, strict=True))
    return [own[name] for name in names]


def _lead_of(design: Design) -> str:
    """What the coefficients of a design are."""
    if design.target is None:
        return "Coordinates of the direction in which records differ most"
    name = design.target.name
    what = {
        "number": name,
        "count": f"the logarithm of {name}",
        "class": f"the log odds of {name} = {design.target.states[-1] if design.target.states else name}",
        "classes": f"the log odds of each class of {name}",
    }[design.predicts]
    return f"Change of {what} for one unit of each column"
