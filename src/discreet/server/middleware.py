"""Guard every request: token, rate, size and time limits; set headers that restrict browsers.

The guard is ASGI middleware around the application.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.errors import DiscreetError
from discreet.server.metrics import Meter
from discreet.server.problems import Problem, problem_response
from discreet.server.server_limits import ServerLimits
from discreet.server.tokens import TokenFile

COOKIE = "discreet_token"
OPEN_PATHS = ("/healthz", "/enter", "/static/")
"""Paths that need no token: the server's state, the page to enter a token, and that page's files."""
ENTER = "enter"
BODY_SECONDS = 10.0
"""Seconds for the complete body of a request."""
PIECE_BYTES = 2**17
"""Bytes of an answer that are sent at once; the next piece waits until the client has read it."""
MOST_BODIES = 16
"""Most bytes of all request bodies under way together, in units of the largest body."""
MOST_UNTAKEN_BYTES = 2**26
"""Most bytes of all long answers that clients are still reading."""
MOST_CLIENTS = 10_000
"""Most tokens and addresses whose rates are remembered."""
ADDRESS_CHARACTERS = 64
"""Characters that are read of an address stated by a proxy; no real one is longer."""
HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?", re.ASCII)
"""Pattern of a Host header: a name or an address, and a port."""
FRAME_POLICY = "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
"""Content security policy of all responses; each page adds the sources that it may load."""
HEADERS = {
    "content-security-policy": f"default-src 'self'; {FRAME_POLICY}",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
LOG = logging.getLogger("discreet.server")


@dataclass
class _Held:
    """Bytes that one request holds: of its body so far, and of its answer until the client has read it."""

    body: int = 0
    answer: int = 0


class _Allowance(NamedTuple):
    """Token bucket of a client: requests that it may send at once, at some time."""

    left: float
    at: float


class RequestGuard:
    """Middleware that checks every request.

    Args:
        app: the application behind it.
        limits: of the server.
        meter: counts requests.
        tokens: of those who may ask; None lets everybody ask.
        alone: True answers only this machine, without tokens. A request must then name this machine in its Host
            header, which stops DNS rebinding: pages of other sites whose names were made to lead here.
    """

    def __init__(
        self, app: ASGIApp, limits: ServerLimits, meter: Meter, tokens: TokenFile | None, *, alone: bool = False
    ) -> None:
        self._app, self._limits, self._meter, self._tokens, self._alone = app, limits, meter, tokens, alone
        self._allowed: OrderedDict[str, _Allowance] = OrderedDict()
        self._bodies, self._untaken = 0, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, held = time.perf_counter(), 0, _Held()
        scope["app"] = self  # a missing route then raises an error instead of sending a text of its own

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                self._hold(message, held)
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await _send_in_pieces(send, message)

        try:
            answer = self._stop(scope)
            if answer is None:
                await self._app(scope, self._bounded(scope, receive, held), send_on)
            else:
                await answer(scope, receive, send_on)
        except Exception as error:
            if status:
                raise
            problem = _problem_of(error)
            _let_go(error)
            await self._refuse(problem)(scope, receive, send_on)
        finally:
            self._bodies -= held.body
            self._untaken -= held.answer
            self._meter.requests.labels(scope.get("route_name", "other"), status).inc()
            self._meter.request_seconds.observe(time.perf_counter() - begun)

    def _refuse(self, problem: Problem) -> Response:
        """Count a problem and make its response."""
        self._meter.refused.labels(problem.kind).inc()
        return problem_response(problem)

    def _stop(self, scope: Scope) -> Response | None:
        """Return the response to a request that may not pass, or None."""
        path, headers, client = _own_path(scope), Headers(scope=scope), _client_of(scope)
        if self._alone and not _calls_this_machine(headers):
            return self._refuse(
                Problem(
                    "bad-request",
                    "this server answers only this machine, at an address such as http://localhost; to reach it by "
                    "another name, start it with --tokens FILE, or with --public for everybody",
                )
            )
        if self._tokens is not None and not path.startswith(OPEN_PATHS):
            token, scope["by_cookie"] = _token_in(headers)
            name = self._tokens.find(token)
            if name is None and not self._allow(client):
                return self._refuse(self._too_many())
            if name is None:
                if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
                    here = quote(
                        path + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
                    )
                    return RedirectResponse(f"{scope.get('root_path', '')}/{ENTER}?next={here}", 303)
                return self._refuse(
                    Problem("no-token", "this server needs a token: send the header Authorization: Bearer TOKEN")
                )
            client = f"token {name}"
        if not self._allow(client):
            return self._refuse(self._too_many())
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._limits.body_bytes:
            return self._refuse(_too_large(self._limits.body_bytes))
        return None

    def _too_many(self) -> Problem:
        """Make the problem of too many requests."""
        detail = f"more than {self._limits.rate:g} requests a second; ask again later"
        return Problem("too-many-requests", detail, retry_after=max(1, math.ceil(1 / self._limits.rate)))

    def _allow(self, client: str) -> bool:
        """Take one request from a client's allowance; return True if there was one left."""
        now = time.monotonic()
        before = self._allowed.pop(client, _Allowance(float(self._limits.burst), now))
        left = min(self._limits.burst, before.left + (now - before.at) * self._limits.rate)
        self._allowed[client] = _Allowance(max(left - 1, 0) if left >= 1 else left, now)
        while len(self._allowed) > MOST_CLIENTS:
            self._allowed.popitem(last=False)
        return left >= 1

    def _hold(self, message: Message, held: _Held) -> None:
        """Count the bytes of a long answer until the client has read it."""
        size = int(Headers(raw=message["headers"]).get("content-length", "0"))
        if size <= PIECE_BYTES:
            return
        if self._untaken + size > MOST_UNTAKEN_BYTES and self._untaken:
            raise Problem("busy", "other clients are still reading long answers; ask again later", retry_after=5)
        held.answer = size
        self._untaken += size

    def _bounded(self, scope: Scope, receive: Receive, held: _Held) -> Receive:
        """Bound a request's body: its bytes, those of all bodies together, and the time until it is complete."""
        until = time.monotonic() + BODY_SECONDS
        ended = scope["method"] in ("GET", "HEAD")

        async def receive_on() -> Message:
            nonlocal ended
            if ended:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, until - time.monotonic()))
            except TimeoutError:
                raise Problem("bad-request", f"the body did not come within {BODY_SECONDS:g} seconds") from None
            came = len(message.get("body", b""))
            held.body += came
            self._bodies += came
            if held.body > self._limits.body_bytes:
                raise _too_large(self._limits.body_bytes)
            if self._bodies > MOST_BODIES * self._limits.body_bytes:
                raise Problem("busy", "large requests are being answered; ask again later", retry_after=5)
            ended = not message.get("more_body", False)
            return message

        return receive_on


def _problem_of(error: Exception) -> Problem:
    """Turn an error into the problem that the client sees."""
    match error:
        case Problem():
            return error
        case HTTPException(status_code=404):
            return Problem("not-found", "nothing is at this address; /openapi.json lists what is")
        case HTTPException(status_code=405, headers=headers):
            allow = ", ".join(sorted((headers or {}).get("Allow", "").split(", ")))
            return Problem("method-not-allowed", f"this address takes {allow or 'another method'}", allow=allow)
        case ClientDisconnect():
            return Problem("bad-request", "the body did not come to its end")
        case DiscreetError():
            return Problem("bad-request", str(error))
        case _:
            LOG.error("an error of the server", exc_info=error)
            return Problem("internal", f"internal error ({type(error).__name__}); the server's log has it")


def _let_go(error: BaseException | None) -> None:
    """Drop tracebacks of an error: their frames hold the task, and would keep the body until a garbage collection."""
    while error is not None:
        error.__traceback__, error = None, error.__context__


async def _send_in_pieces(send: Send, message: Message) -> None:
    """Send a message, a long body in pieces."""
    body = message.get("body", b"")
    last = max(len(body) - 1, 0) // PIECE_BYTES * PIECE_BYTES
    for start in range(0, last, PIECE_BYTES):
        await send({**message, "body": body[start : start + PIECE_BYTES], "more_body": True})
        await asyncio.sleep(
            0
        )  # lets a lost connection be noticed before the next piece; each later piece would be logged
    await send({**message, "body": body[last:]} if last else message)


def _too_large(most: int) -> Problem:
    """Make the problem of a body that is too large."""
    return Problem("too-large", f"a request has a body of at most {most:,} bytes")


def _own_path(scope: Scope) -> str:
    """Return the path without the prefix that a proxy adds."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def _client_of(scope: Scope) -> str:
    """Return a request's client address; requests with an invalid one count as one client."""
    try:
        return str(ip_address(str((scope.get("client") or ("", 0))[0])[:ADDRESS_CHARACTERS]))
    except ValueError:
        return "nobody"


def _calls_this_machine(headers: Headers) -> bool:
    """Return True if a request has one Host header and it names this machine."""
    hosts = [HOST.fullmatch(text) for text in headers.getlist("host")]
    name = hosts[0][1].strip("[]").lower() if len(hosts) == 1 and hosts[0] is not None else ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _token_in(headers: Headers) -> tuple[str, bool]:
    """Find a request's token in its header or cookie, empty if there is none; and True if a cookie has it.

    Cookies that other programs of this host set are ignored, whatever their form.
    """
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip(), False
    for cookie in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = cookie.partition("=")
        if name.strip() == COOKIE:
            return value.strip().strip('"'), True
    return "", False
