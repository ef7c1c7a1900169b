"""A PostgreSQL of the tests' own: in a folder of its own, reached through a socket in it, gone when they are done."""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest

USER = "curator"
CALM_S = 120
"""A server that has not started, or a command that has not ended by then, never will."""

KEYHOLDER = "keyholder"
"""The one role that is asked for a password, once a test makes it."""

# A ledger refuses a server without the first two. What is written lazily is written so late that a crash does lose it.
CONFIGURATION = """
fsync = on
full_page_writes = on
listen_addresses = ''
shared_buffers = 16MB
max_connections = 120
wal_level = replica
max_wal_senders = 4
wal_writer_delay = 10s
autovacuum = off
logging_collector = off
"""

STOPS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
"""How a server is stopped: with an orderly end, or as in a crash."""


@dataclass(eq=False)
class Server:
    """A server.

    Args:
        programs: folder of `psql` and the others.
        folder: of its socket, its data and its log.
        process: of the server, while it runs.
    """

    programs: Path
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """The folder of its databases."""
        return self.folder / "data"

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.folder / ".s.PGSQL.5432"

    def start(self) -> None:
        """Start it, and return when it answers. It stops with the thread that started it, on Linux."""
        log = self.folder / "log"
        with log.open("a") as output, warnings.catch_warnings():
            # Other threads hold nothing that the child needs before it is another program.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, "-k", self.folder], stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, cwd=self.folder, preexec_fn=die_with_parent, **find_user(),
            )  # fmt: skip
        wait_for(self, self.process, log)

    def stop(self, how: str = "immediate") -> None:
        """Stop it, "fast" or "immediate"."""
        if self.process is not None:
            self.process.send_signal(STOPS[how])
            self.process.wait(CALM_S)
            self.process = None

    def restart(self, how: str) -> None:
        """Stop it, "fast" or "immediate", and start it again on the same data."""
        self.stop(how)
        self.start()

    def configure(self, line: str) -> None:
        """Add a line to its configuration, for the next start."""
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write(f"{line}\n")

    def url(self, base: str = "postgres", user: str = USER, **arguments: str) -> str:
        """The address for a ledger."""
        given = {"host": str(self.folder), **arguments}
        return f"postgresql+psycopg://{user}@/{base}?" + "&".join(
            f"{name}={quote(value)}" for name, value in given.items()
        )

    def run(self, statement: str, base: str = "postgres") -> str:
        """What `psql` prints for a statement."""
        command = [self.programs / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", USER]
        done = subprocess.run(
            [*command, "-d", base, "-c", statement], capture_output=True, text=True, timeout=CALM_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def make_base(self, base: str, isolation: str = "read committed") -> str:
        """The address of a new, empty database, whose transactions have an isolation level unless they say."""
        self.run(f"CREATE DATABASE {base}")
        self.run(f"ALTER DATABASE {base} SET default_transaction_isolation = '{isolation}'")
        return self.url(base)


def find_programs() -> Path:
    """The folder of the server's programs; skips the test, saying why, where there is no server or no driver."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda place: float(place.parent.name))
    on_path = shutil.which("initdb")
    found = [place for place in [*places[::-1], *([Path(on_path).parent] if on_path else [])]
             if (place / "initdb").exists()]  # fmt: skip
    if not found:
        pytest.skip("no PostgreSQL here: neither /usr/lib/postgresql/*/bin/initdb nor initdb on the path")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("the package psycopg is not installed")
    return found[0]


def find_user() -> dict[str, object]:
    """Whom the server runs as: nobody starts it as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")


def die_with_parent(of: signal.Signals = signal.SIGQUIT) -> None:
    """Where the tests themselves are killed, Linux stops the server."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, of)  # PR_SET_PDEATHSIG


@contextmanager
def serving() -> Iterator[Server]:
    """A server that runs until the block is left, however it is left."""
    with _placed() as server:
        _run([server.programs / "initdb", "-D", server.data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C",
              "--no-sync"], server.folder)  # fmt: skip
        server.configure(CONFIGURATION)
        access = server.data / "pg_hba.conf"
        access.write_text(f"local all {KEYHOLDER} scram-sha-256\n{access.read_text()}")
        server.start()
        yield server


@contextmanager
def standing_by(primary: Server) -> Iterator[Server]:
    """A hot standby of a server: a copy that follows it and can be read."""
    with _placed() as server:
        _run([server.programs / "pg_basebackup", "-D", server.data, "-h", primary.folder, "-U", USER, "-R",
              "--checkpoint=fast", "--no-sync"], server.folder)  # fmt: skip
        server.start()
        yield server


@contextmanager
def _placed() -> Iterator[Server]:
    """A server without data in a folder of its own; what was started in it is stopped, and the folder goes."""
    programs, user = find_programs(), find_user()
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has at most 107 characters
    server = Server(programs, folder)
    try:
        if user:
            os.chown(folder, user["user"], user["group"])
        yield server
    finally:
        server.stop()  # at once
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str | Path], folder: Path) -> None:
    """Run a program of the server's as the server's user."""
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=CALM_S, check=False, **find_user()
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@cache
def running() -> Server:
    """One server for each process of the tests, which stops with it."""
    stack = ExitStack()
    found = stack.enter_context(serving())
    atexit.register(stack.close)
    return found


def wait_for(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the server answers."""
    ready = [server.programs / "pg_isready", "-q", "-h", server.folder, "-U", USER, "-d", "postgres"]
    late = time.monotonic() + CALM_S
    while subprocess.run(ready, timeout=CALM_S, check=False).returncode:
        assert process.poll() is None and time.monotonic() < late, log.read_text()
        time.sleep(0.05)
