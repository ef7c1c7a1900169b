"""What every request passes before anything answers it: who asks, how often, how much comes, and how long that takes.

Around the application as ASGI middleware, and in every response the headers that keep a browser from doing more than
show it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
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

__all__ = ["COOKIE", "Gate"]

COOKIE = "discreet_token"
OPEN_PATHS = ("/healthz", "/enter", "/static/")
"""What everybody may ask: whether the server is there, where a token is entered, and how that page looks."""
ENTER = "enter"
BODY_SECONDS = 10.0
"""In which the body of a request has to be there."""
MOST_CLIENTS = 10_000
"""Tokens and addresses whose rates are remembered."""
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
LOG = logging.getLogger("discreet.server")


class _Allowance(NamedTuple):
    """Requests that a client may still send at once, at some time."""

    left: float
    at: float


class Gate:
    """Middleware of the whole server.

    Args:
        app: what answers.
        limits: of the server.
        meter: counts requests.
        tokens: of those who may ask; None: everybody.
    """

    def __init__(self, app: ASGIApp, limits: ServerLimits, meter: Meter, tokens: TokenFile | None) -> None:
        self._app, self._limits, self._meter, self._tokens = app, limits, meter, tokens
        self._allowed: OrderedDict[str, _Allowance] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request pass, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0
        scope["app"] = self  # then what there is no route for is an error, and no text of its own

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            answer = self._stop(scope)
            if answer is None:
                await self._app(scope, self._bounded(scope, receive), send_on)
            else:
                await answer(scope, receive, send_on)
        except Exception as error:
            if status:
                raise
            await self._refuse(_problem_of(error))(scope, receive, send_on)
        finally:
            self._meter.count("requests", scope.get("route_name", "other"), str(status))
            self._meter.observe("requests", time.perf_counter() - begun)

    def _refuse(self, problem: Problem) -> Response:
        """Count and answer a problem."""
        self._meter.count("refused", problem.kind)
        return problem_response(problem)

    def _stop(self, scope: Scope) -> Response | None:
        """The answer to a request that may not pass; None lets it."""
        path, headers = _own_path(scope), Headers(scope=scope)
        client = scope.get("client") or ("nobody", 0)
        who = str(client[0])
        if self._tokens is not None and not path.startswith(OPEN_PATHS):
            name = self._tokens.find(_token_in(headers))
            if name is None and not self._allow(who):
                return self._refuse(self._too_many())
            if name is None:
                if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
                    here = quote(
                        path + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
                    )
                    return RedirectResponse(f"{scope.get('root_path', '')}/{ENTER}?next={here}", 303)
                return self._refuse(
                    Problem("no-token", "this server answers those who have a token: Authorization: Bearer TOKEN")
                )
            who = f"token {name}"
        if not self._allow(who):
            return self._refuse(self._too_many())
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._limits.body_bytes:
            return self._refuse(_too_large(self._limits.body_bytes))
        return None

    def _too_many(self) -> Problem:
        """Too many requests of one client."""
        detail = f"more than {self._limits.rate:g} requests a second; ask again later"
        return Problem("too-many-requests", detail, retry_after=max(1, math.ceil(1 / self._limits.rate)))

    def _allow(self, who: str) -> bool:
        """Whether a client may send one more request now."""
        now = time.monotonic()
        before = self._allowed.pop(who, _Allowance(float(self._limits.burst), now))
        left = min(self._limits.burst, before.left + (now - before.at) * self._limits.rate)
        self._allowed[who] = _Allowance(max(left - 1, 0) if left >= 1 else left, now)
        while len(self._allowed) > MOST_CLIENTS:
            self._allowed.popitem(last=False)
        return left >= 1

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """Receive no more than a body may have, and not for ever."""
        taken, until = 0, time.monotonic() + BODY_SECONDS
        waits = scope["method"] not in ("GET", "HEAD")
        ended = not waits

        async def receive_on() -> Message:
            nonlocal taken, ended
            if ended:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, until - time.monotonic()))
            except TimeoutError:
                raise Problem("bad-request", f"the body did not come within {BODY_SECONDS:g} seconds") from None
            taken += len(message.get("body", b""))
            if taken > self._limits.body_bytes:
                raise _too_large(self._limits.body_bytes)
            ended = not message.get("more_body", False)
            return message

        return receive_on


def _problem_of(error: Exception) -> Problem:
    """What went wrong, as whoever asked may know it."""
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


def _too_large(most: int) -> Problem:
    """A body that is too large."""
    return Problem("too-large", f"a request has a body of at most {most:,} bytes")


def _own_path(scope: Scope) -> str:
    """The path inside of what a proxy adds before it."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def _token_in(headers: Headers) -> str:
    """The token of a request: of its header, or of a browser's cookie; empty without."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value
