"""Database of the ledger: accepted addresses, and transactions that end whatever happens to the process.

A writer of an SQLite file has an exclusive lock from its first statement to its commit; a server writes its accounts
itself (`ledger_books.py`). An error states if the transaction was written: a commit without an answer is looked up. The
code does not depend on the contents of transactions.
"""

from __future__ import annotations

import os
import secrets
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
"""Seconds to wait for another process's transaction, and most seconds that a transaction may be idle."""

TRANSACTION_TRIES = 10
"""Most attempts at a transaction that the server aborts."""

BUSY_PAUSE_S, RESTART_PAUSE_S = (0.01, 0.8), (0.05, 8.0)
"""First and longest pause between attempts, which double: they sum to 4 s for conflicts with another transaction, and
to half a minute for a lost server, which may have to recover."""

ADDRESS_LIMIT = 2_000
"""Most characters of an address, more than any path or server needs."""

SHOWN_LIMIT = 80
"""Most characters of an address in a message."""

REASON_LIMIT = 160
"""Most characters of a database's own error in a message."""

BROKEN_OFF = frozenset({"40001", "40P01", "57P01", "57P02", "57P03"})
"""PostgreSQL's codes for a transaction that failed because of another one (serialisation, deadlock), or because the
server stops or starts."""

POSTGRESQL_ARGUMENTS = frozenset({
    "application_name", "channel_binding", "connect_timeout", "gssencmode", "host", "hostaddr", "keepalives",
    "keepalives_count", "keepalives_idle", "keepalives_interval", "krbsrvname", "load_balance_hosts", "options",
    "passfile", "port", "require_auth", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert", "sslcrl",
    "sslcrldir", "sslkey", "sslmode", "sslnegotiation", "sslrootcert", "sslsni", "target_session_attrs",
    "tcp_user_timeout",
})  # fmt: skip
"""Allowed arguments: of the server's location and the connection. `options` is harmless: `_settings` come after it."""

# Our own BEGIN: the driver's would start too late to serialise readers that then write. EXTRA also syncs the folder:
# without it a power cut can restore the journal of a committed charge, and undo it.
WRITING_SQLITE = ("PRAGMA synchronous = EXTRA", "BEGIN IMMEDIATE")

READING_SQLITE = ("BEGIN",)
MOUNTS_FILE = "/proc/self/mountinfo"
"""Linux's list of mounted file systems."""

NETWORK_SYSTEMS = frozenset({
    "afs", "ceph", "cifs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "ncpfs", "nfs",
    "nfs4", "smb3", "smbfs",
})  # fmt: skip
"""File systems whose locks and writes do not meet SQLite's needs."""

MAKING_LOCK = "SELECT pg_advisory_xact_lock(7306926)"
"""Lock under which one process at a time makes the tables; its number is arbitrary."""

_gate = threading.RLock()
"""Lock of the thread that is in a transaction, which is also held while the process forks.

SQLite stores the locks of its process in memory. A child that was forked in the middle of a transaction would wait for
a thread that it does not have.
"""


_servers: weakref.WeakSet[sa.Engine] = weakref.WeakSet()
"""Engines whose connections a child must leave to its parent."""


def _renew_gate() -> None:
    """Make a new lock for the child, which has one thread, and discard its parent's connections."""
    global _gate
    _gate = threading.RLock()
    for engine in _servers:
        engine.dispose(close=False)


os.register_at_fork(
    before=lambda: _gate.acquire(), after_in_parent=lambda: _gate.release(), after_in_child=_renew_gate
)  # fmt: skip


class Database:
    """Transactions on one database.

    A transaction on a file has a connection of its own, which is closed at the end. A connection to a server costs ten
    times as much as a charge, and is reused; it is closed if a transaction ends otherwise than by its commit.

    Args:
        url: an SQLAlchemy URL of SQLite or PostgreSQL. Only its owner can read and write a new file (0600); an existing
            one keeps its permissions.

    Raises:
        InputError: the URL is invalid, has an argument that could weaken the ledger, or its database cannot be opened.
    """

    def __init__(self, url: str) -> None:
        self._shown = shown_address(url)
        self._process = os.getpid()
        address = _check_address(url)
        self._sqlite = address.get_backend_name() == "sqlite"
        self._memory = self._sqlite and address.database in (None, ":memory:")
        if self._memory:
            self.place, self.url = ":memory:", url
            query = {"mode": "memory", "cache": "shared", "uri": "true"}
            address = address.set(database=f"file:discreet-{secrets.token_hex(16)}", query=query)
        else:
            address = _resolve_path(address) if self._sqlite else address
            self.place = str(address.database) if self._sqlite else _render(address)
            self.url = address.render_as_string(hide_password=False)
        self._engine = _make_engine(address, self._sqlite)
        if self._memory:
            self._alive = self._engine.connect()  # the database exists as long as one connection to it
        elif self._sqlite:
            _refuse_network(self.place)
            _create_private(self.place)
        self._worked = False
        if not self._sqlite:
            weakref.finalize(self, self._engine.dispose)  # closes idle connections with this object or the process

    @property
    def sqlite(self) -> bool:
        """True for a file or memory, False for a server."""
        return self._sqlite

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work that reads, in one transaction, from one snapshot.

        Args:
            work: function of a connection.

        Returns:
            The work's result.

        Raises:
            InputError: the database failed.
        """
        return self._transact_certainly(READING_SQLITE if self._sqlite else (_settings("REPEATABLE READ"),), work)

    def write(
        self, work: Callable[[sa.Connection], T], find_existing: Callable[[sa.Connection], T | None], known_as: str
    ) -> T:
        """Run work in one transaction; on a file it has an exclusive lock from its first statement to its commit.

        Args:
            work: function of a connection; it is run again if the server aborts it.
            find_existing: looks the work up, on another connection, if the commit has no answer: it returns the work's
                result, or None if nothing was written. It must wait for a transaction that is still under way.
            known_as: name for `discreet ledger show`.

        Returns:
            The work's result, after its commit.

        Raises:
            InputError: the database failed; nothing was written.
            DiscreetError: the database failed during the commit, and its outcome cannot be looked up.
        """
        try:
            return self._transact(self._alone, work)
        except _UnsureError as error:
            reason = str(error)
        try:
            existing = self._transact(self._alone, find_existing)
        except Exception:  # for any error there is no answer
            raise DiscreetError(
                f"ledger {self._shown}: {reason}; it is unknown whether it was charged: look with `discreet ledger "
                f"show {known_as}` once the ledger answers"
            ) from None
        if existing is None:
            raise InputError(f"ledger {self._shown}: {reason}; nothing was charged")
        return existing

    def make(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work that makes tables, one process at a time.

        Args:
            work: function of a connection; it must check if another process was faster.

        Returns:
            The work's result.

        Raises:
            InputError: the database failed; nothing was made.
        """
        return self._transact_certainly(WRITING_SQLITE if self._sqlite else (_settings(), MAKING_LOCK), work)

    @property
    def _alone(self) -> tuple[str, ...]:
        """Statements that begin a writing transaction."""
        return WRITING_SQLITE if self._sqlite else (_settings(),)

    def _transact_certainly(self, opening: tuple[str, ...], work: Callable[[sa.Connection], T]) -> T:
        """Run a transaction that charges nothing; an unknown outcome is an InputError."""
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
                    break  # the server may not exist; after a success a lost one may restart
            except KeyboardInterrupt as interrupt:
                # A notebook keeps the exception with all frames, one of which holds the new connection.
                traceback.clear_frames(interrupt.__traceback__)
                raise
            first, longest = RESTART_PAUSE_S if lost else BUSY_PAUSE_S
            time.sleep(min(first * 2**turn, longest))
        if lost:
            raise InputError(f"ledger {self._shown}: {reason}; nothing was charged")
        raise InputError(f"ledger {self._shown} is too busy: {reason}; nothing was charged, try again")

    def _attempt(self, opening: tuple[str, ...], work: Callable[[sa.Connection], T]) -> T:
        """Run one transaction on one connection; its locks end with it, in all cases."""
        failure: Exception
        committing = clean = False
        with _gate:
            try:
                connection = self._engine.connect()
            except sa.exc.DBAPIError as error:
                failure = self._describe_failure(error, committing)
            except ValueError:  # an invalid name of a server
                failure = InputError(f"cannot understand the address {self._shown}; try sqlite:///budget.db")
            else:
                cursors, end = self._collect_endings(connection)
                try:
                    for statement in opening:
                        connection.exec_driver_sql(statement)
                    value = work(connection)
                    committing = True
                    connection.commit()
                    self._worked = clean = True
                    return value
                except sa.exc.DBAPIError as error:
                    failure = self._describe_failure(error, committing)
                except UnicodeDecodeError:  # raised by the driver's reads
                    failure = InputError(f"ledger {self._shown} is damaged: a text in it is none; nothing was charged")
                finally:
                    if clean and not self._sqlite:
                        connection.close()  # without locks; the next transaction reuses it
                    else:
                        # Ctrl-C interrupts between Python calls, so everything necessary is one call in C, the first.
                        try:  # noqa: SIM105
                            deque(map(call, [*cursors, end]), maxlen=0)
                        except Exception:  # the server or the disk is lost, and with it the locks
                            pass
                        connection.invalidate()
                        connection.close()
        raise failure

    def _collect_endings(self, connection: sa.Connection) -> tuple[list[Callable[[], object]], Callable[[], object]]:
        """Collect the calls that release all locks: a growing list that closes cursors, and the transaction's end."""
        raw = connection.connection.driver_connection
        if raw is None:
            raise InputError(f"ledger {self._shown} has no connection; nothing was charged")
        cursors: list[Callable[[], object]] = connection.info.setdefault("cursors", [])
        return cursors, raw.rollback if self._sqlite else raw.pgconn.finish

    def _describe_failure(self, error: sa.exc.DBAPIError, committing: bool) -> Exception:
        """Convert an error of the database to one of ours."""
        reason = " ".join(str(error.orig).split())[:REASON_LIMIT]
        state = getattr(error.orig, "sqlstate", None)
        if committing and state not in ("40001", "40P01"):
            return _UnsureError(reason)
        # An error of the driver without a code of the server means a failed or lost connection.
        lost = not self._sqlite and (state is None or state.startswith(("08", "57P"))) and isinstance(
            error, sa.exc.OperationalError
        )  # fmt: skip
        if lost or state in BROKEN_OFF:
            return _BrokenOffError(reason, lost=lost)
        return InputError(f"ledger {self._shown}: {reason}; nothing was charged")


class _BrokenOffError(Exception):
    """Error for a transaction that the server aborted, or that was lost with the server; nothing was written.

    Args:
        reason: the database's message.
        lost: whether the server is lost, or was not reached.
    """

    def __init__(self, reason: str, *, lost: bool) -> None:
        super().__init__(reason)
        self.lost = lost


class _UnsureError(Exception):
    """Error for a commit without an answer, which may or may not have been written."""


def _settings(level: str = "READ COMMITTED") -> str:
    """Write the settings with which every transaction on a server begins, in one statement.

    None of them takes a snapshot, so the first statement that reads sees everything committed before. At REPEATABLE
    READ later statements see the same; a charge must see what was committed while it waited.
    """
    return (
        f"SET TRANSACTION ISOLATION LEVEL {level}; "
        f"SET LOCAL lock_timeout = '{WAIT_S}s'; SET LOCAL idle_in_transaction_session_timeout = '{WAIT_S}s'"
    )


def _check_address(url: str) -> sa.URL:
    """Parse the address; refuse arguments that could weaken the ledger."""
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
            f"cannot understand the address {shown_address(url)}; a path comes after three strokes, sqlite:///"
        )
    if backend == "sqlite" and address.database == "":
        raise InputError("sqlite:/// names no file: sqlite:///budget.db does, and sqlite:// is a ledger in memory")
    refused = sorted(set(address.query) - (POSTGRESQL_ARGUMENTS if backend == "postgresql" else set()))
    if refused:
        raise InputError(
            f"the address of a ledger takes no argument {shown(refused[0])}: what changes how a database locks or "
            "writes could lose a charge; leave it out"
        )
    return address.set(drivername="postgresql+psycopg" if backend == "postgresql" else "sqlite+pysqlite")


def _resolve_path(address: sa.URL) -> sa.URL:
    """Write the full path of its file into the address, so that it does not depend on the current folder."""
    try:
        return address.set(database=str(Path(str(address.database)).resolve()))
    except (OSError, RuntimeError, ValueError):  # a loop of links, or an invalid character
        raise InputError(f"the path of ledger {_shorten(_render(address))} leads nowhere; name a file") from None


def _make_engine(address: sa.URL, sqlite: bool) -> sa.Engine:
    """Make an engine for an address."""
    options: dict[str, object] = {"timeout": WAIT_S, "isolation_level": None, "check_same_thread": False}
    if not sqlite:
        waits = {"connect_timeout": WAIT_S, "tcp_user_timeout": 1000 * WAIT_S}
        options = {name: wait for name, wait in waits.items() if name not in address.query}
        options["client_encoding"] = "utf8"  # for any environment: all names can be written and read
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
    """Collect cursors to close: one with unread rows holds a lock, even after a rollback."""
    connection.info.setdefault("cursors", []).append(cursor.close)


def _leave_open(context: sa.ExceptionContext) -> None:
    """Keep an interrupted connection open: SQLite keeps the locks of one that is closed before its cursors."""
    context.is_disconnect = False


def _create_private(path: str) -> None:
    """Make a missing file that only its owner can read and write; SQLite's journal has the same permissions."""
    # If it cannot be made, SQLite raises the reason. An existing file is not opened: closing it would drop the locks of
    # all transactions of this process.
    with suppress(OSError, ValueError), _gate:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _refuse_network(path: str) -> None:
    """Refuse a file on a network file system, if this is detectable: two machines may both hold its lock."""
    try:
        mounts = Path(MOUNTS_FILE).read_text().splitlines()
    except OSError:
        return
    systems = {}
    for line in mounts:
        before, _, after = line.partition(" - ")
        systems[before.split(" ")[4].encode().decode("unicode_escape")] = after.split(" ")[0]
    kind = systems[max((mount for mount in systems if Path(path).is_relative_to(mount)), key=len, default="/")]
    if kind in NETWORK_SYSTEMS:
        raise InputError(
            f"ledger {_shorten(path)} is on a network file system ({kind}), whose locks do not hold what a ledger "
            "needs: take a file on a disk of this machine, or PostgreSQL (--ledger, DISCREET_LEDGER)"
        )


def shown_address(url: str) -> str:
    """Write an address for a message: without its password and arguments, and without its middle if it is long.

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
        return "of the ledger"  # it may contain a password at an unknown position


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
