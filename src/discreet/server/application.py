"""The server: routes behind the gate, what it prepares while nobody asks, and how it is run."""

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
from discreet.server.gate import Gate
from discreet.server.pages import page_routes
from discreet.server.problems import Problem, problem_response
from discreet.server.release_page import page_questions
from discreet.server.server_limits import ServerLimits
from discreet.server.shelf import Shelf
from discreet.server.tokens import TokenFile

# --------------------------------------------------------------------------------------------------------------------
# Connections of the server, with bounds where uvicorn has none.
#
# How large the head of a request is, how long it takes to come, how long an answer waits to be taken, how many requests
# wait for the answer to one before them, and how many connections there are. A client that has said all and closed its
# side still gets its answer.

HEAD_BYTES = 2**18
"""Of the head of a request."""
HEAD_LINES = 100
"""Of a head, and of what follows a body in chunks. A short line takes some twenty times its bytes in memory."""
ADDRESS_BYTES = 2**16 - 1
"""Of the address in it: httptools counts no further, and 0.6.4 begins again at 0."""
HEAD_SECONDS = 10.0
"""In which a head has to be there, from the start of a connection, or from its first byte."""
TAKE_SECONDS = 60.0
"""In which a client takes all that waits for it, of a long answer a piece."""
MOST_CONNECTIONS = 512
MOST_AHEAD = 16
"""Requests of a connection that come before their turn."""
_LONG_HEAD = Problem("too-large", f"the head of a request has at most {HEAD_BYTES:,} bytes")


class Connection(HttpToolsProtocol):
    """One connection."""

    _unused = 0
    _answered: RequestResponseCycle | None = None
    """The request that is being answered; `cycle` is the last one that came, which may wait behind it."""
    _waits: asyncio.TimerHandle | None = None
    _takes: asyncio.TimerHandle | None = None
    _fault = Problem("bad-request", "this is no HTTP request")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head, unless there are too many."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # then all that waits to be taken has its time, also after a close
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(Problem("busy", f"{MOST_CONNECTIONS} connections are open; ask again later", retry_after=5))
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more, and tell what is being written that nobody takes it."""
        self._stop()
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, as long as something comes of it: no endless head, and no endless lines after a body."""
        if self._is_idle() and self._waits is None:
            self._await_head()
        self._unused += len(data)
        super().data_received(data)
        # Also of a head that comes before its turn, while another answer is under way.
        if self._unused > HEAD_BYTES:
            self._refuse(_LONG_HEAD)

    def on_message_begin(self) -> None:
        """A head begins, of which this piece is the first."""
        self._unused = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, whose size the application bounds."""
        self._unused = 0
        super().on_body(body)

    def on_url(self, url: bytes) -> None:
        """Take a part of the address; what is too long is not read, and it is better to know why."""
        super().on_url(url)
        if len(self.url) > ADDRESS_BYTES:
            self._fault = Problem(
                "too-large", f"an address has at most {ADDRESS_BYTES:,} bytes; ask a longer question by POST"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of a head, or of what follows a body in chunks."""
        super().on_header(name, value)
        if len(self.headers) > HEAD_LINES:
            self._fault = Problem("too-large", f"the head of a request has at most {HEAD_LINES} lines")
            raise ValueError("too many lines")

    def on_headers_complete(self) -> None:
        """The head is there; raising is how a parser is told to stop, which answers `send_400_response`."""
        self._stop()
        self._unused = 0
        if len(self.url) > ADDRESS_BYTES:
            raise ValueError("too long an address")
        # Pieces are counted from the second one, so the whole is measured here, too.
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
        """Go on with the request that came next."""
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what was asked before the client closed its side, then close."""
        if self._is_idle() or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(self._fault)

    def pause_writing(self) -> None:
        """Wait for a client that does not take its answer, but not for ever."""
        super().pause_writing()
        if self._takes is None:
            self._takes = self.loop.call_later(TAKE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client takes its answer."""
        if self._takes is not None:
            self._takes.cancel()
            self._takes = None
        super().resume_writing()

    def _is_idle(self) -> bool:
        """Whether there is no request to be answered."""
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        """Begin to wait for a head."""
        self._waits = self.loop.call_later(HEAD_SECONDS, self._close)

    def _stop(self) -> None:
        """Do not wait for a head any more."""
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _close(self) -> None:
        """Give a head up that does not come."""
        self._waits = None
        if self._is_idle() and not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Answer without asking anybody, and close; in the place of another answer nothing can be said."""
        self._stop()
        if self.transport.is_closing():
            return
        is_own = self._answered is self.cycle and self.cycle is not None and self.cycle.more_body
        if not self._is_idle() and (self.cycle.response_started or not is_own):
            self.transport.abort()
            return
        response = problem_response(problem)
        head = b"".join(b"%b: %b\r\n" % line for line in response.raw_headers)
        said = (STATUS_LINE[problem.status], head, b"connection: close\r\n\r\n", bytes(response.body))
        self.transport.write(b"".join(said))
        self.transport.close()


KEEP_ALIVE_SECONDS = 30
M_ARENA_MAX, MOST_ARENAS = -8, 4
"""What glibc calls its heaps, and how many threads share: each keeps what one answer needed at its largest."""
STOP_SECONDS = 5
"""In which requests that are under way may end when the server is stopped."""


@dataclass(frozen=True)
class Settings:
    """How a server is run.

    Args:
        host: address or name of this machine to listen on.
        port: to listen on; 0 takes one that is free.
        tokens: file of those who may ask; None: everybody who reaches the server.
        public: whether everybody may, where others than this machine reach it.
        root_path: what a proxy adds before every path.
        proxy: whether a proxy of this machine is believed in who asks, and whether over TLS: others reach it, too.
        prepare: whether answers that nobody has asked for yet are computed while nobody waits.
        limits: of what is spent on requests.
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
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return not self.proxy
        with suppress(ValueError):
            return ip_address(self.host).is_loopback and not self.proxy
        return False

    @property
    def alone(self) -> bool:
        """Whether only this machine is answered, and everything on it."""
        return self.loopback and self.tokens is None and not self.public

    def check(self) -> None:
        """Refuse to let others in by accident.

        Raises:
            InputError: others reach the server, and nobody said who may ask.
        """
        if self.public and self.tokens is not None:
            raise InputError("--public lets everybody ask, and --tokens those who have one: say one of them")
        if not self.loopback and not self.public and self.tokens is None:
            raise InputError(
                f"others than this machine can reach {'the proxy' if self.proxy else self.host}: say who may ask with "
                "--tokens FILE (`discreet token` makes one), or --public for everybody"
            )


class _WithoutPandas(MetaPathFinder):
    """Keeps pyarrow from loading pandas, where it is installed, for any list: half a second, and 60 MB."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Nothing of this name is there."""
        if fullname == "pandas":
            raise ModuleNotFoundError("a server has no use for pandas", name=fullname)


def application(shelf: Shelf, settings: Settings, version: str) -> ASGIApp:
    """The whole server as an ASGI application; called within an event loop.

    Args:
        shelf: what is served.
        settings: of the server.
        version: of the package.
    """
    serving = Serving(shelf, settings.limits, version)
    tokens = None if settings.tokens is None else TokenFile(settings.tokens)

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        preparing = asyncio.ensure_future(_prepare(serving)) if settings.prepare else None
        yield
        if preparing is not None:
            preparing.cancel()
        serving.desk.close()
        serving.readings.close()

    routes = [*api_routes(serving), *page_routes(serving, tokens)]
    router = Router(routes, redirect_slashes=False, lifespan=lifespan)
    return Gate(router, settings.limits, serving.meter, tokens, alone=settings.alone)


def serve(shelf: Shelf, settings: Settings, version: str, *, ready: Callable[[str], None]) -> None:
    """Run the server until it is stopped.

    Args:
        shelf: what is served.
        settings: of the server.
        version: of the package.
        ready: is told the address once the server listens.

    Raises:
        InputError: nobody said who may ask, a file of tokens that cannot be read, or an address that is taken.
    """
    settings.check()
    sys.meta_path.insert(0, _WithoutPandas())
    with suppress(AttributeError, OSError):  # where the system's library is another one, memory is as it is
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, MOST_ARENAS)
    listener = _listen(settings)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listener.getsockname()[1]}/"  # a proxy takes the root path away before it asks here
    with listener, suppress(KeyboardInterrupt):  # that is how a server is ended
        asyncio.run(_run(shelf, settings, version, listener, lambda: ready(address)))


async def _run(
    shelf: Shelf, settings: Settings, version: str, listener: socket.socket, ready: Callable[[], None]
) -> None:
    """Run the server on an open socket."""
    server = uvicorn.Server(
        uvicorn.Config(
            application(shelf, settings, version),
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
    """A socket on the address."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "no such port"
        raise InputError(f"cannot listen on {settings.host}, port {settings.port}: {reason}") from None
    return listener


async def _prepare(serving: Serving) -> None:
    """Read all releases, and compute what will be asked first, while nobody waits."""
    for version in serving.shelf.newest():
        with suppress(DiscreetError):
            reading = await serving.readings.get(version)
            questions: Iterator[replies.Question] = page_questions(reading)
            await serving.desk.prepare(((version.digest, *each.key), each.make) for each in questions)
