"""What every request passes before anything answers it: who asks, how often, how much comes, and how long that takes.

Around the application as ASGI middleware, and in every response the headers that keep a browser from doing more than
show it.
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
"""What everybody may ask: whether the server is there, where a token is entered, and how that page looks."""
ENTER = "enter"
BODY_SECONDS = 10.0
"""In which the body of a request has to be there."""
PIECE_BYTES = 2**17
"""Of an answer that is written at once; the next ones wait until the client took it, and its copy is gone."""
MOST_BODIES = 16
"""Times the largest body: what all bodies of requests under way have together at most."""
MOST_UNTAKEN_BYTES = 2**26
"""Of all long answers that their clients are still taking."""
MOST_CLIENTS = 10_000
"""Tokens and addresses whose rates are remembered."""
ADDRESS_CHARACTERS = 64
"""Of an address that a proxy wrote; none is longer."""
HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?", re.ASCII)
"""What a request calls the server: a name or an address, and a port."""
FRAME_POLICY = "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
"""Headers of all that a browser shows; each page adds what it may load."""
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
    """What one request holds: of its body what has come, and its answer until it is taken."""

    body: int = 0
    answer: int = 0


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
        alone: whether only this machine shall be answered, with no token to know it by. Then a request has to call the
            server by a name of this machine: a page of elsewhere, whose own name was made to lead here, does not.
    """

    def __init__(
        self, app: ASGIApp, limits: ServerLimits, meter: Meter, tokens: TokenFile | None, *, alone: bool = False
    ) -> None:
        self._app, self._limits, self._meter, self._tokens, self._alone = app, limits, meter, tokens, alone
        self._allowed: OrderedDict[str, _Allowance] = OrderedDict()
        self._bodies, self._untaken = 0, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request pass, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status, held = time.perf_counter(), 0, _Held()
        scope["app"] = self  # then what there is no route for is an error, and no text of its own

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
        """Count and answer a problem."""
        self._meter.refused.labels(problem.kind).inc()
        return problem_response(problem)

    def _stop(self, scope: Scope) -> Response | None:
        """The answer to a request that may not pass; None lets it."""
        path, headers, who = _own_path(scope), Headers(scope=scope), _client_of(scope)
        if self._alone and not _calls_this_machine(headers):
            return self._refuse(
                Problem(
                    "bad-request",
                    "this server answers this machine alone, by an address such as http://localhost; to reach it by "
                    "another name, start it with --tokens FILE, or with --public for everybody",
                )
            )
        if self._tokens is not None and not path.startswith(OPEN_PATHS):
            token, scope["by_cookie"] = _token_in(headers)
            name = self._tokens.find(token)
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

    def _hold(self, message: Message, held: _Held) -> None:
        """Count a long answer before it is begun, until it is taken."""
        size = int(Headers(raw=message["headers"]).get("content-length", "0"))
        if size <= PIECE_BYTES:
            return
        if self._untaken + size > MOST_UNTAKEN_BYTES and self._untaken:
            raise Problem("busy", "long answers are still being taken; ask again later", retry_after=5)
        held.answer = size
        self._untaken += size

    def _bounded(self, scope: Scope, receive: Receive, held: _Held) -> Receive:
        """Receive no more than a body may have, and all of them together, and not for ever."""
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


def _let_go(error: BaseException | None) -> None:
    """Forget where an error came from: frames that hold the error's own task would keep the body until a collection."""
    while error is not None:
        error.__traceback__, error = None, error.__context__


async def _send_in_pieces(send: Send, message: Message) -> None:
    """Send a message, and a long body in pieces."""
    body = message.get("body", b"")
    last = max(len(body) - 1, 0) // PIECE_BYTES * PIECE_BYTES
    for start in range(0, last, PIECE_BYTES):
        await send({**message, "body": body[start : start + PIECE_BYTES], "more_body": True})
        await asyncio.sleep(0)  # or a connection that was lost is told so after the last piece, and each is logged
    await send({**message, "body": body[last:]} if last else message)


def _too_large(most: int) -> Problem:
    """A body that is too large."""
    return Problem("too-large", f"a request has a body of at most {most:,} bytes")


def _own_path(scope: Scope) -> str:
    """The path inside of what a proxy adds before it."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def _client_of(scope: Scope) -> str:
    """The address that a request comes from; those of which a proxy wrote something else are one client."""
    try:
        return str(ip_address(str((scope.get("client") or ("", 0))[0])[:ADDRESS_CHARACTERS]))
    except ValueError:
        return "nobody"


def _calls_this_machine(headers: Headers) -> bool:
    """Whether a request means this machine, by the one name that it calls the server by."""
    found = [HOST.fullmatch(text) for text in headers.getlist("host")]
    name = found[0][1].strip("[]").lower() if len(found) == 1 and found[0] is not None else ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _token_in(headers: Headers) -> tuple[str, bool]:
    """The token of a request, of its header or of a browser's cookie, empty without; and whether a cookie has it.

    What other cookies of this host look like, which other programs set, does not matter.
    """
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip(), False
    for part in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = part.partition("=")
        if name.strip() == COOKIE:
            return value.strip().strip('"'), True
    return "", False
