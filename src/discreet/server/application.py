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

from discreet.errors import DiscreetError, InputError
from discreet.server import replies
from discreet.server.api import Serving, api_routes
from discreet.server.connections import Connection
from discreet.server.gate import Gate
from discreet.server.pages import page_routes
from discreet.server.release_page import page_questions
from discreet.server.server_limits import ServerLimits
from discreet.server.shelf import Shelf
from discreet.server.tokens import TokenFile

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
    serving = Serving(shelf, settings.limits)
    tokens = None if settings.tokens is None else TokenFile(settings.tokens)

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        preparing = asyncio.ensure_future(_prepare(serving)) if settings.prepare else None
        yield
        if preparing is not None:
            preparing.cancel()
        serving.desk.close()
        serving.readings.close()

    routes = [*api_routes(serving, version), *page_routes(serving, tokens)]
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
