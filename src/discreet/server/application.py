"""Run the server: routes behind the request guard, prepared answers, and the process."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from starlette.routing import Router
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from discreet.errors import DiscreetError, InputError
from discreet.server import replies
from discreet.server.api import Serving, api_routes
from discreet.server.catalog import ReleaseCatalog
from discreet.server.middleware import RequestGuard
from discreet.server.pages import page_routes
from discreet.server.problems import Problem, problem_response
from discreet.server.release_page import page_questions
from discreet.server.server_limits import ServerLimits
from discreet.server.tokens import TokenFile

# --------------------------------------------------------------------------------------------------------------------
# Connections of the server, with bounds where uvicorn has none.
# Bounds: size of a request's head, time until it is complete, time until a client reads its answer, pipelined requests,
# and connections. A client that has sent its request and closed its side still gets its answer.

HEAD_BYTES = 2**18
"""Most bytes of the head of a request."""
HEAD_LINES = 100
"""Most lines of a head, or of the trailers after a chunked body. A short line takes some twenty times its bytes in
memory.
"""
ADDRESS_BYTES = 2**16 - 1
"""Most bytes of an address: httptools counts no further, and 0.6.4 begins again at 0."""
HEAD_SECONDS = 10.0
"""Seconds for a complete head, from the start of a connection or from the head's first byte."""
TAKE_SECONDS = 60.0
"""Seconds for a client to read all that is buffered for it: the answer, or a piece of a long one."""
MOST_CONNECTIONS = 512
MOST_AHEAD = 16
"""Most pipelined requests of a connection."""
_LONG_HEAD = Problem("too-large", f"the head of a request has at most {HEAD_BYTES:,} bytes")


class Connection(HttpToolsProtocol):
    """Connection of a client, with bounds."""

    _unused = 0
    _answered: RequestResponseCycle | None = None
    """Request that is being answered; `cycle` is the last one received, which may wait behind it."""
    _waits: asyncio.TimerHandle | None = None
    _takes: asyncio.TimerHandle | None = None
    _fault = Problem("bad-request", "this is no HTTP request")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for a head; refuse the connection if too many are open."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # the time limit then covers all buffered bytes, also after a close
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(Problem("busy", f"{MOST_CONNECTIONS} connections are open; ask again later", retry_after=5))
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and tell the application that the client is gone."""
        self._stop()
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes received; refuse an endless head, and endless trailers after a body."""
        if self._is_idle() and self._waits is None:
            self._await_head()
        self._unused += len(data)
        super().data_received(data)
        # This covers pipelined heads, too.
        if self._unused > HEAD_BYTES:
            self._refuse(_LONG_HEAD)

    def on_message_begin(self) -> None:
        """Start a new head."""
        self._unused = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; the application bounds its size."""
        self._unused = 0
        super().on_body(body)

    def on_url(self, url: bytes) -> None:
        """Take a part of the address; record the fault if it is too long."""
        super().on_url(url)
        if len(self.url) > ADDRESS_BYTES:
            self._fault = Problem(
                "too-large", f"an address has at most {ADDRESS_BYTES:,} bytes; ask a longer question by POST"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of a head, or of the trailers after a chunked body."""
        super().on_header(name, value)
        if len(self.headers) > HEAD_LINES:
            self._fault = Problem("too-large", f"the head of a request has at most {HEAD_LINES} lines")
            raise ValueError("too many lines")

    def on_headers_complete(self) -> None:
        """Check the complete head. An exception stops the parser, which then calls `send_400_response`."""
        self._stop()
        self._unused = 0
        if len(self.url) > ADDRESS_BYTES:
            raise ValueError("too long an address")
        # `data_received` counts from the second piece on, so the total is checked here, too.
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            self._fault = _LONG_HEAD
            raise ValueError("too long a head")
        if len(self.pipeline) >= MOST_AHEAD:
            raise ValueError("too many before their turn")
        is_next = self._is_idle()
        super().on_headers_complete()
        if is_next:
            self._answered = self.cycle

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer the request that came before the client closed its side, then close."""
        if self._is_idle() or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not valid HTTP."""
        self._refuse(self._fault)

    def pause_writing(self) -> None:
        """Start the timer of a client that does not read its answer."""
        super().pause_writing()
        if self._takes is None:
            self._takes = self.loop.call_later(TAKE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the client reads its answer."""
        if self._takes is not None:
            self._takes.cancel()
            self._takes = None
        super().resume_writing()

    def _is_idle(self) -> bool:
        """Return True if no request waits for an answer."""
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        """Start the timer for a head."""
        self._waits = self.loop.call_later(HEAD_SECONDS, self._close)

    def _stop(self) -> None:
        """Stop the timer for a head."""
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _close(self) -> None:
        """Close a connection whose head did not come in time."""
        self._waits = None
        if self._is_idle() and not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem and close; abort instead if another answer is being sent."""
        self._stop()
        if self.transport.is_closing():
            return
        is_reading = self._answered is self.cycle and self.cycle is not None and self.cycle.more_body
        if not self._is_idle() and (self.cycle.response_started or not is_reading):
            self.transport.abort()
            return
        response = problem_response(problem)
        head = b"".join(b"%b: %b\r\n" % line for line in response.raw_headers)
        message = (STATUS_LINE[problem.status], head, b"connection: close\r\n\r\n", bytes(response.body))
        self.transport.write(b"".join(message))
        self.transport.close()


KEEP_ALIVE_SECONDS = 30
M_ARENA_MAX, MOST_ARENAS = -8, 4
"""Number of glibc's option for its heaps, and their number: each heap keeps the most memory that an answer needed."""
STOP_SECONDS = 5
"""Seconds for requests under way to end after the server is stopped."""


@dataclass(frozen=True)
class Settings:
    """Settings of a server.

    Args:
        host: address or name of this machine to listen on.
        port: to listen on; 0 takes a free one.
        tokens: file of tokens; None lets everybody ask who reaches the server.
        public: True lets everybody ask, even if other machines reach the server.
        root_path: prefix that a proxy adds to every path.
        proxy: True if a proxy on this machine states the client's address and whether it uses TLS; others then reach
            it.
        prepare: True computes likely answers in advance, while no request waits.
        limits: of the work for requests.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    tokens: Path | None = None
    public: bool = False
    root_path: str = ""
    proxy: bool = False
    prepare: bool = True
    limits: ServerLimits = field(default_factory=ServerLimits)

    @property
    def loopback(self) -> bool:
        """True if only this machine reaches the server."""
        if self.host == "localhost":
            return not self.proxy
        with suppress(ValueError):
            return ip_address(self.host).is_loopback and not self.proxy
        return False

    @property
    def alone(self) -> bool:
        """True if only this machine is answered, without a token."""
        return self.loopback and self.tokens is None and not self.public

    def check(self) -> None:
        """Refuse settings that let others in by accident.

        Raises:
            InputError: other machines reach the server, and neither tokens nor `public` are set.
        """
        if self.public and self.tokens is not None:
            raise InputError("--public lets everybody ask, and --tokens only those with a token: give one of the two")
        if not self.loopback and not self.public and self.tokens is None:
            raise InputError(
                f"other machines can reach {'the proxy' if self.proxy else self.host}: give --tokens FILE "
                "(`discreet token` makes one), or --public to let everybody ask"
            )


class _WithoutPandas(MetaPathFinder):
    """Import hook that hides pandas: pyarrow would load it for any list, in half a second and with 60 MB."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Refuse to find pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("a server has no use for pandas", name=fullname)


def application(catalog: ReleaseCatalog, settings: Settings, version: str) -> ASGIApp:
    """Build the server as an ASGI application; call it within an event loop.

    Args:
        catalog: what is served.
        settings: of the server.
        version: of the package.
    """
    serving = Serving(catalog, settings.limits, version)
    tokens = None if settings.tokens is None else TokenFile(settings.tokens)

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        preparing = asyncio.ensure_future(_prepare(serving)) if settings.prepare else None
        yield
        if preparing is not None:
            preparing.cancel()
        serving.queue.close()
        serving.readings.close()

    routes = [*api_routes(serving), *page_routes(serving, tokens)]
    router = Router(routes, redirect_slashes=False, lifespan=lifespan)
    return RequestGuard(router, settings.limits, serving.meter, tokens, alone=settings.alone)


def serve(catalog: ReleaseCatalog, settings: Settings, version: str, *, ready: Callable[[str], None]) -> None:
    """Run the server until it is stopped.

    Args:
        catalog: releases to serve.
        settings: of the server.
        version: of the package.
        ready: called with the address once the server listens.

    Raises:
        InputError: unsafe settings, a file of tokens that cannot be read, or an address that is in use.
    """
    settings.check()
    sys.meta_path.insert(0, _WithoutPandas())
    with suppress(AttributeError, OSError):  # a C library other than glibc has no mallopt
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, MOST_ARENAS)
    listener = _listen(settings)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listener.getsockname()[1]}/"  # a proxy removes the root path
    with listener, suppress(KeyboardInterrupt):  # the normal way to stop a server
        asyncio.run(_run(catalog, settings, version, listener, lambda: ready(address)))


async def _run(
    catalog: ReleaseCatalog, settings: Settings, version: str, listener: socket.socket, ready: Callable[[], None]
) -> None:
    """Run the server on an open socket."""
    server = uvicorn.Server(
        uvicorn.Config(
            application(catalog, settings, version),
            log_level="error",
            access_log=False,
            server_header=False,
            root_path=settings.root_path,
            proxy_headers=settings.proxy,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            ws="none",
            http=Connection,
        )
    )
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not (server.started or serving.done()):
        await asyncio.sleep(0.01)
    if server.started:
        ready()
    await serving


def _listen(settings: Settings) -> socket.socket:
    """Open a socket on the address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "no such port"
        raise InputError(f"cannot listen on {settings.host}, port {settings.port}: {reason}") from None
    return listener


async def _prepare(serving: Serving) -> None:
    """Read all releases, and compute likely answers while no request waits."""
    for version in serving.catalog.newest():
        with suppress(DiscreetError):
            reading = await serving.readings.get(version)
            questions: Iterator[replies.Question] = page_questions(reading)
            await serving.queue.prepare(((version.digest, *each.key), each.make) for each in questions)
