"""The ledger's database: accepted addresses, and transactions that end whatever happens to the process.

A transaction that writes to SQLite has an exclusive lock on the file from its first statement to its commit; a server
writes its accounts itself (`ledger_books.py`). An error states whether data was written: after a commit without an
answer, the outcome is looked up. This module knows nothing about charges.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from operator import call
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from discreet.errors import DiscreetError, InputError, shown

T = TypeVar("T")

WAIT_S = 60
"""Seconds to wait for another process's transaction, and that a transaction may be idle."""

TRANSACTION_TRIES = 10
"""Attempts at a transaction that the server aborted."""

BUSY_PAUSE_S, RESTART_PAUSE_S = (0.01, 0.8), (0.05, 8.0)
"""First and longest pause between attempts, doubled each time, in seconds. In total 4 s after a conflict with another
transaction, and half a minute after the loss of the server, which may have to recover."""

ADDRESS_LIMIT = 2_000
"""Most characters of an address: more than any path or server needs."""

SHOWN_LIMIT = 80
"""Most characters of an address in a message."""

REASON_LIMIT = 160
"""Most characters of a database's own error in a message."""

BROKEN_OFF = frozenset({"40001", "40P01", "57P01", "57P02", "57P03"})
"""PostgreSQL's codes for a transaction aborted because of another one (serialisation, deadlock), or because the server
stops or starts."""

POSTGRESQL_ARGUMENTS = frozenset({
    "application_name", "channel_binding", "connect_timeout", "gssencmode", "host", "hostaddr", "keepalives",
    "keepalives_count", "keepalives_idle", "keepalives_interval", "krbsrvname", "load_balance_hosts", "options",
    "passfile", "port", "require_auth", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert", "sslcrl",
    "sslcrldir", "sslkey", "sslmode", "sslnegotiation", "sslrootcert", "sslsni", "target_session_attrs",
    "tcp_user_timeout",
})  # fmt: skip
"""Accepted arguments: the server's address and connection. `options` is safe: `_settings` run after it."""

# BEGIN is explicit: the driver's own would start too late to serialise a read followed by a write. EXTRA also syncs the
# folder: without it, a power failure can restore the journal of a committed charge, and undo the charge.
WRITING_SQLITE = ("PRAGMA synchronous = EXTRA", "BEGIN IMMEDIATE")

READING_SQLITE = ("BEGIN",)
MOUNTS_FILE = "/proc/self/mountinfo"
"""File in which Linux lists the mounted file systems."""

NETWORK_SYSTEMS = frozenset({
    "afs", "ceph", "cifs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "ncpfs", "nfs",
    "nfs4", "smb3", "smbfs",
})  # fmt: skip
"""File systems whose locks and writes are not reliable enough for SQLite."""

MAKING_LOCK = "SELECT pg_advisory_xact_lock(7306926)"
"""Lock so that one process at a time makes the tables; the number is arbitrary."""

_gate = threading.RLock()
"""Lock of the thread in a transaction, also held while the process forks.

SQLite keeps the locks of its process in memory. A child forked during a transaction would wait for a thread that it
does not have.
"""


_servers: weakref.WeakSet[sa.Engine] = weakref.WeakSet()
"""Engines whose connections a forked child must leave to its parent."""


def _renew_gate() -> None:
    """Make a new lock for a forked child, and drop the parent's connections."""
    global _gate
    _gate = threading.RLock()
    for engine in _servers:
        engine.dispose(close=False)


if sys.platform != "win32":  # where no process forks
    os.register_at_fork(
        before=lambda: _gate.acquire(), after_in_parent=lambda: _gate.release(), after_in_child=_renew_gate
    )


class Database:
    """Transactions on one database.

    Each transaction on a file has its own connection, closed at its end. A connection to a server costs ten times as
    much as a charge, so it is reused; it is closed after a transaction that did not commit.

    Args:
        url: SQLAlchemy URL of SQLite or PostgreSQL. Only the owner can access a new file (0600); an existing file keeps
            its permissions.

    Raises:
        InputError: an invalid URL, one with an argument that could weaken the ledger, or a database that cannot be
            opened.
    """

    def __init__(self, url: str) -> None:
        self._shown = shown_address(url)
        self._process = os.getpid()
        address = _check_address(url)
        self._sqlite = address.get_backend_name() == "sqlite"
        self._memory = self._sqlite and address.database in (None, ":memory:")
        if self._memory:
            self.address, self.url = ":memory:", url
            query = {"mode": "memory", "cache": "shared", "uri": "true"}
            address = address.set(database=f"file:discreet-{secrets.token_hex(16)}", query=query)
        else:
            address = _resolve_path(address) if self._sqlite else address
            self.address = str(address.database) if self._sqlite else _render(address)
            self.url = address.render_as_string(hide_password=False)
        self._engine = _make_engine(address, self._sqlite)
        if self._memory:
            self._alive = self._engine.connect()  # an open connection keeps the database in memory
        elif self._sqlite:
            _refuse_network(self.address)
            _create_private(self.address)
        self._worked = False
        if not self._sqlite:
            weakref.finalize(self, self._engine.dispose)  # closes its connections with it, or with the process

    @property
    def sqlite(self) -> bool:
        """True for SQLite, in a file or in memory; False for a server."""
        return self._sqlite

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work that reads, in one transaction with a consistent snapshot.

        Args:
            work: function of a connection.

        Returns:
            Its result.

        Raises:
            InputError: the database failed.
        """
        return self._transact_certainly(READING_SQLITE if self._sqlite else (_settings("REPEATABLE READ"),), work)

    def write(
        self, work: Callable[[sa.Connection], T], find_existing: Callable[[sa.Connection], T | None], known_as: str
    ) -> T:
        """Run work in one transaction; on a file it has an exclusive lock from its first statement to its commit.

        Args:
            work: function of a connection; it runs again if the server aborts it.
            find_existing: finds the work's result on another connection after a commit without an answer; None if
                nothing was written. It must wait for a transaction that is still running.
            known_as: name for `discreet ledger show`.

        Returns:
            The result of the work, once it is committed.

        Raises:
            InputError: the database failed; nothing was written.
            DiscreetError: the database failed during the commit, and cannot tell the outcome.
        """
        try:
            return self._transact(self._alone, work)
        except _UnsureError as error:
            reason = str(error)
        try:
            existing = self._transact(self._alone, find_existing)
        except Exception:  # any error leaves the outcome unknown
            raise DiscreetError(
                f"ledger {self._shown}: {reason}; the outcome of the charge is unknown: check with `discreet ledger "
                f"show {known_as}` once the ledger answers"
            ) from None
        if existing is None:
            raise InputError(f"ledger {self._shown}: {reason}; nothing was charged")
        return existing

    def make(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work that makes tables, one process at a time.

        Args:
            work: function of a connection; it must check whether another process has made the tables.

        Returns:
            Its result.

        Raises:
            InputError: the database failed; nothing was made.
        """
        return self._transact_certainly(WRITING_SQLITE if self._sqlite else (_settings(), MAKING_LOCK), work)

    @property
    def _alone(self) -> tuple[str, ...]:
        """Statements that begin a transaction that writes."""
        return WRITING_SQLITE if self._sqlite else (_settings(),)

    def _transact_certainly(self, opening: tuple[str, ...], work: Callable[[sa.Connection], T]) -> T:
        """Run a transaction that charges nothing, so an unknown outcome is harmless."""
        try:
            return self._transact(opening, work)
        except _UnsureError as error:
            reason = str(error)
        raise InputError(f"ledger {self._shown}: {reason}; nothing was charged")

    def _transact(self, opening: tuple[str, ...], work: Callable[[sa.Connection], T]) -> T:
        """Run a transaction, again if the server aborts it."""
        if self._memory and os.getpid() != self._process:
            raise InputError(
                "the ledger sqlite:// is in the memory of another process; use a file, sqlite:///budget.db"
            )
        lost, reason = False, ""
        for turn in range(TRANSACTION_TRIES):
            try:
                return self._attempt(opening, work)
            except _BrokenOffError as error:
                lost, reason = error.lost, str(error)
                if lost and not self._worked:
                    break  # the server may never have existed; retry only one that worked before
            except KeyboardInterrupt as interrupt:
                # A notebook keeps the exception and its frames; one of them has the new connection.
                traceback.clear_frames(interrupt.__traceback__)
                raise
            first, longest = RESTART_PAUSE_S if lost else BUSY_PAUSE_S
            time.sleep(min(first * 2**turn, longest))
        if lost:
            raise InputError(f"ledger {self._shown}: {reason}; nothing was charged")
        raise InputError(f"ledger {self._shown} is too busy: {reason}; nothing was charged, try again")

    def _attempt(self, opening: tuple[str, ...], work: Callable[[sa.Connection], T]) -> T:
        """Run one transaction on one connection; its locks are released however it ends."""
        failure: Exception
        committing = clean = False
        with _gate:
            try:
                connection = self._engine.connect()
            except sa.exc.DBAPIError as error:
                failure = self._describe_failure(error, committing)
            except ValueError:  # an impossible server name
                failure = InputError(f"cannot understand the address {self._shown}; try sqlite:///budget.db")
            else:
                cursors, end = self._collect_endings(connection)
                try:
                    for statement in opening:
                        connection.exec_driver_sql(statement)
                    result = work(connection)
                    committing = True
                    connection.commit()
                    self._worked = clean = True
                    return result
                except sa.exc.DBAPIError as error:
                    failure = self._describe_failure(error, committing)
                except UnicodeDecodeError:  # raised by the driver
                    failure = InputError(f"ledger {self._shown} is damaged: invalid text; nothing was charged")
                finally:
                    if clean and not self._sqlite:
                        connection.close()  # without locks; the next transaction reuses it
                    else:
                        # Ctrl-C arrives between Python calls, so all releases happen in one C call, the first.
                        try:  # noqa: SIM105
                            deque(map(call, [*cursors, end]), maxlen=0)
                        except Exception:  # a lost server or disk has released all locks
                            pass
                        connection.invalidate()
                        connection.close()
        raise failure

    def _collect_endings(self, connection: sa.Connection) -> tuple[list[Callable[[], object]], Callable[[], object]]:
        """Collect the calls that release all locks: a growing list to close cursors, and the transaction's end."""
        raw = connection.connection.driver_connection
        if raw is None:
            raise InputError(f"ledger {self._shown} has no connection; nothing was charged")
        cursors: list[Callable[[], object]] = connection.info.setdefault("cursors", [])
        return cursors, raw.rollback if self._sqlite else raw.pgconn.finish

    def _describe_failure(self, error: sa.exc.DBAPIError, committing: bool) -> Exception:
        """Turn an error of the database into one of the package."""
        reason = " ".join(str(error.orig).split())[:REASON_LIMIT]
        state = getattr(error.orig, "sqlstate", None)
        if committing and state not in ("40001", "40P01"):
            return _UnsureError(reason)
        # A driver's error without a server's code means that the connection failed or is lost.
        lost = not self._sqlite and (state is None or state.startswith(("08", "57P"))) and isinstance(
            error, sa.exc.OperationalError
        )  # fmt: skip
        if lost or state in BROKEN_OFF:
            return _BrokenOffError(reason, lost=lost)
        return InputError(f"ledger {self._shown}: {reason}; nothing was charged")


class _BrokenOffError(Exception):
    """The server aborted a transaction, because of another one or because it stops; nothing was written.

    Args:
        reason: the database's words.
        lost: True if the server is not reachable.
    """

    def __init__(self, reason: str, *, lost: bool) -> None:
        super().__init__(reason)
        self.lost = lost


class _UnsureError(Exception):
    """A commit without an answer: its outcome is unknown."""


def _settings(level: str = "READ COMMITTED") -> str:
    """Write the first statement of every transaction on a server.

    It takes no snapshot, so the first read sees all earlier commits. At REPEATABLE READ later reads see the same; a
    charge must see what was committed while it waited.
    """
    return (
        f"SET TRANSACTION ISOLATION LEVEL {level}; "
        f"SET LOCAL lock_timeout = '{WAIT_S}s'; SET LOCAL idle_in_transaction_session_timeout = '{WAIT_S}s'"
    )


def _check_address(url: str) -> sa.URL:
    """Parse an address, and refuse one that could weaken the ledger."""
    if not isinstance(url, str):
        raise InputError(f"the address of a ledger is text such as sqlite:///budget.db, not {type(url).__name__}")
    if len(url) > ADDRESS_LIMIT:
        raise InputError(f"the address of a ledger has at most {ADDRESS_LIMIT:,} characters, not {len(url):,}")
    if any(letter < " " or "\ud800" <= letter <= "\udfff" for letter in url):
        raise InputError("the address of a ledger is one line of text such as sqlite:///budget.db")
    try:
        address = sa.make_url(url)
        backend, _, driver = address.drivername.partition("+")
    except (sa.exc.ArgumentError, ValueError):
        raise InputError(f"cannot understand the address {shown_address(url)}; try sqlite:///budget.db") from None
    if backend not in ("sqlite", "postgresql"):
        raise InputError(f"a ledger needs SQLite or PostgreSQL, not {shown(backend)}")
    if driver not in ("", "pysqlite", "psycopg"):
        raise InputError(f"a ledger needs the driver pysqlite or psycopg, not {shown(driver)}")
    if backend == "sqlite" and (address.host or address.username or address.password or address.port):
        raise InputError(
            f"cannot understand the address {shown_address(url)}; write a path after three slashes, sqlite:///"
        )
    if backend == "sqlite" and address.database == "":
        raise InputError("sqlite:/// names no file: write sqlite:///budget.db, or sqlite:// for a ledger in memory")
    refused = sorted(set(address.query) - (POSTGRESQL_ARGUMENTS if backend == "postgresql" else set()))
    if refused:
        raise InputError(
            f"the address of a ledger takes no argument {shown(refused[0])}: it could change how the database locks or "
            "writes, and lose a charge; leave it out"
        )
    return address.set(drivername="postgresql+psycopg" if backend == "postgresql" else "sqlite+pysqlite")


def _resolve_path(address: sa.URL) -> sa.URL:
    """Make the path of the file absolute, so that it stays the same when the process changes folders."""
    try:
        return address.set(database=str(Path(str(address.database)).resolve()))
    except (OSError, RuntimeError, ValueError):  # a cycle of links, or an invalid character
        raise InputError(f"the path of ledger {_shorten(_render(address))} leads nowhere; give a file") from None


def _make_engine(address: sa.URL, sqlite: bool) -> sa.Engine:
    """Make an engine for an address."""
    options: dict[str, object] = {"timeout": WAIT_S, "isolation_level": None, "check_same_thread": False}
    if not sqlite:
        waits = {"connect_timeout": WAIT_S, "tcp_user_timeout": 1000 * WAIT_S}
        options = {name: wait for name, wait in waits.items() if name not in address.query}
        options["client_encoding"] = "utf8"  # for any name, whatever the environment sets
    try:
        engine = sa.create_engine(
            address,
            connect_args=options,
            poolclass=sa.NullPool if sqlite else sa.QueuePool,
            pool_reset_on_return=None,
            hide_parameters=True,
        )
    except ModuleNotFoundError as error:
        raise InputError(f"ledger {_shorten(_render(address))} needs the package {error.name}; install it") from None
    except (sa.exc.ArgumentError, ValueError, TypeError):
        raise InputError(
            f"cannot understand the address {_shorten(_render(address))}; try sqlite:///budget.db"
        ) from None
    if sqlite:
        sa.event.listen(engine, "before_cursor_execute", _note_cursor)
        sa.event.listen(engine, "handle_error", _leave_open)
    else:
        _servers.add(engine)
    return engine


def _note_cursor(connection: sa.Connection, cursor: Any, *_: object) -> None:
    """Record a cursor to close: one with unread rows holds a lock, even after a rollback."""
    connection.info.setdefault("cursors", []).append(cursor.close)


def _leave_open(context: sa.ExceptionContext) -> None:
    """Keep an interrupted connection open: SQLite keeps its locks if it is closed before its cursors."""
    context.is_disconnect = False


def _create_private(path: str) -> None:
    """Make a missing file that only its owner can access; SQLite gives its journal the same permissions."""
    # If this fails, SQLite reports the reason. An existing file is not opened: closing it would drop the locks of all
    # transactions of this process.
    with suppress(OSError, ValueError), _gate:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _refuse_network(path: str) -> None:
    """Refuse a file on a network file system, if that is known: two machines could both hold its lock."""
    try:
        mounts = Path(MOUNTS_FILE).read_text().splitlines()
    except OSError:
        return
    kind_of = {}
    for line in mounts:
        before, _, after = line.partition(" - ")
        kind_of[before.split(" ")[4].encode().decode("unicode_escape")] = after.split(" ")[0]
    kind = kind_of[max((folder for folder in kind_of if Path(path).is_relative_to(folder)), key=len, default="/")]
    if kind in NETWORK_SYSTEMS:
        raise InputError(
            f"ledger {_shorten(path)} is on a network file system ({kind}), whose locks are not reliable enough: "
            "use a file on a local disk, or PostgreSQL (--ledger, DISCREET_LEDGER)"
        )


def shown_address(url: str) -> str:
    """Write an address for a message: without password and arguments, shortened in the middle if it is long.

    Args:
        url: any text.

    Returns:
        One line.

    Example:
        >>> shown_address("postgresql://reader:secret@db.example/budgets")
        'postgresql://reader:***@db.example/budgets'
    """
    try:
        return _shorten(_render(sa.make_url(url)))
    except (sa.exc.ArgumentError, ValueError):
        return "of the ledger"  # it may contain a password at an unknown place


def _render(address: sa.URL) -> str:
    """Write an address without its password and arguments."""
    return address.set(query={}).render_as_string(hide_password=True)


def _shorten(text: str) -> str:
    """Shorten a text to one line for a message."""
    text = text if text.isprintable() else repr(text)[1:-1]
    if len(text) <= SHOWN_LIMIT:
        return text
    half = (SHOWN_LIMIT - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
