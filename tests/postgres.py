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

# Nothing here outlives the tests, so nothing need survive a power cut.
CONFIGURATION = """
listen_addresses = ''
fsync = off
full_page_writes = off
shared_buffers = 16MB
max_connections = 50
autovacuum = off
logging_collector = off
"""


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Args:
        programs: folder of `psql` and the others.
        folder: of its socket.
    """

    programs: Path
    folder: Path

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
    programs, user = find_programs(), find_user()
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has at most 107 characters
    process = None
    try:
        if user:
            os.chown(folder, user["user"], user["group"])
        data, log = folder / "data", folder / "log"
        made = subprocess.run(
            [programs / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            capture_output=True, text=True, cwd=folder, timeout=CALM_S, check=False, **user,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        with (data / "postgresql.conf").open("a") as configuration:
            configuration.write(CONFIGURATION)
        with log.open("w") as output, warnings.catch_warnings():
            # Other threads, JAX's among them, hold nothing that the child needs before it is another program.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            process = subprocess.Popen(
                [programs / "postgres", "-D", data, "-k", folder], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, cwd=folder, preexec_fn=die_with_parent, **user,
            )  # fmt: skip
        server = Server(programs, folder)
        wait_for(server, process, log)
        yield server
    finally:
        if process is not None:
            process.send_signal(signal.SIGQUIT)  # at once
            process.wait(CALM_S)
        shutil.rmtree(folder, ignore_errors=True)


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
