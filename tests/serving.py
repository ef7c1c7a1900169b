"""Servers for tests: the program itself on a free port, or its application called in this process without a socket."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import discreet as dc
from discreet.server.application import Settings, application
from discreet.server.catalog import ReleaseCatalog

__all__ = ["Local", "Reply", "Served", "served"]

T = TypeVar("T")
MAIN = "import sys; from discreet.cli.start import main; sys.exit(main())"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    pieces: int = 1

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as JSON, in which nothing is NaN."""
        return json.loads(self.body, parse_constant=lambda name: 1 / 0)

    def problem(self, status: int, kind: str) -> str:
        """The sentence of a problem of this kind."""
        assert (self.status, self.headers["content-type"]) == (status, "application/problem+json"), self.text
        found = self.json()
        assert found["type"] == f"urn:discreet:problem:{kind}", found
        assert found["status"] == status and found["title"]
        assert "\n" not in found["detail"] and found["detail"], found
        return str(found["detail"])


@dataclass(frozen=True)
class Served:
    """A server in a process of its own."""

    url: str
    pid: int
    process: subprocess.Popen[str]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    def ask(self, path: str, body: object = None, headers: Mapping[str, str] | None = None, method: str = "") -> Reply:
        """Ask once, over a connection of its own; a body that is no bytes is sent as JSON."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method or ("GET" if body is None else "POST"), path, raw, dict(headers or {}))
            got = connection.getresponse()
            return Reply(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def cpu_s(self) -> float:
        """CPU seconds of all its threads until now."""
        parts = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / TICKS

    def status(self, name: str) -> int:
        """A number of /proc/PID/status, such as VmRSS in kB, or Threads."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    def files(self) -> int:
        """Open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@contextmanager
def served(
    files: Sequence[str | Path], *options: str, code: str = MAIN, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """A running server of these files on a free port.

    Args:
        files: releases or stored draws.
        options: of `discreet serve`.
        code: Python that runs the program.
        environment: variables beside those of this process.
    """
    source = Path(dc.__file__).parents[1]
    paths = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-c", code, "serve", *map(str, files), *options, "--port", "0", "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Served(json.loads(line)["url"], process.pid, process)
    finally:
        process.terminate()
        process.communicate(timeout=60)


@dataclass
class Local:
    """A server's application in this process; what it waits for is waited for in a loop of its own.

    Args:
        paths: of releases or stored draws.
        draws: stored draws of some of them.
        settings: of the server; nothing is prepared unless they say so.
    """

    paths: Sequence[str | Path]
    draws: Sequence[str | Path] = ()
    settings: Settings = field(default_factory=lambda: Settings(prepare=False))

    def __post_init__(self) -> None:
        """Make the application within its loop."""
        self.catalog = ReleaseCatalog(self.paths, self.draws)
        self.loop = asyncio.new_event_loop()

        async def make() -> Any:
            return application(self.catalog, self.settings, dc.__version__)

        self.app = self.loop.run_until_complete(make())
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self._heard: asyncio.Queue[Any] = asyncio.Queue()
        self._living = self.loop.create_task(self.app({"type": "lifespan"}, self._said.get, self._heard.put))
        self._turn("startup")

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *error: object) -> None:
        self._turn("shutdown")
        self.loop.run_until_complete(self._living)
        left = asyncio.all_tasks(self.loop)  # posteriors that are being drawn, and nobody waits for
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left))
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def _turn(self, event: str) -> None:
        """Start or end the application."""

        async def turn() -> None:
            await self._said.put({"type": f"lifespan.{event}"})
            heard = await self._heard.get()
            assert heard["type"] == f"lifespan.{event}.complete", heard

        self.loop.run_until_complete(turn())

    def run(self, *waited: Awaitable[T]) -> list[T]:
        """Wait for several things at once."""

        async def wait() -> list[T]:
            return list(await asyncio.gather(*waited))

        return self.loop.run_until_complete(wait())

    def ask(self, path: str, body: object = None, headers: Mapping[str, str] | None = None, method: str = "") -> Reply:
        """Ask once; a body that is no bytes is sent as JSON."""
        return self.run(self.asking(path, body, headers, method))[0]

    async def asking(
        self, path: str, body: object = None, headers: Mapping[str, str] | None = None, method: str = ""
    ) -> Reply:
        """Ask, among others."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        place, _, query = path.partition("?")
        pairs = {"host": "localhost", **({} if body is None else {"content-length": str(len(raw))}), **(headers or {})}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method or ("GET" if body is None else "POST"),
            "scheme": "http",
            "path": self.settings.root_path + unquote(place),
            "raw_path": (self.settings.root_path + place).encode(),
            "query_string": query.encode(),
            "root_path": self.settings.root_path,
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 80),
        }
        return await exchange(self.app, scope, [raw])


async def exchange(app: Callable[..., Awaitable[None]], scope: dict[str, Any], parts: Sequence[bytes]) -> Reply:
    """Send one request to an application in parts, and take what it answers."""
    left, gone = list(parts), asyncio.Event()
    status, headers, pieces = 0, dict[str, str](), list[bytes]()

    async def receive() -> dict[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]}
        elif message.get("body"):
            pieces.append(message["body"])

    await app(scope, receive, send)
    return Reply(status, headers, b"".join(pieces), len(pieces))
