"""Books: the entries of a ledger in a database, and the code that writes them.

For SQLite this process writes them, in a transaction with an exclusive lock on the file. For PostgreSQL functions of
the server write them (`ledger_postgresql.sql`), so a client can only call these. Both are read in the same way, and
checked against their digests.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, fields, replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, TypeVar

import sqlalchemy as sa

from discreet.privacy.ledger_database import MAKING_LOCK
from discreet.privacy.ledger_entries import COLUMNS, LedgerEntry, Refusal, Share, following, is_sound, subjects_of

if sys.platform != "win32":
    import pwd

VERSION, OLD_VERSION = 3, 2
"""Version of the tables, and the oldest one that is read, and renewed by a charge."""
T = TypeVar("T", LedgerEntry, Share)

OLDEST_SERVER = 130_000
"""Oldest accepted version of PostgreSQL: the first with `gcd`."""
ENTRIES_BLOCK = 1000
"""Number of entries that are read at a time."""
SHARE_COLUMNS = tuple(field.name for field in fields(Share))

SCRIPT_BREAK = "-- ----\n"
"""Line between the parts of a script."""
OWNER_ROLE = (
    "DO $$ BEGIN EXECUTE format('SET LOCAL ROLE %s', (SELECT nspowner::regrole FROM pg_namespace "
    "WHERE nspname = 'discreet')); END $$"
)
"""Statement to act as the owner of the schema: what is made then belongs to that role."""

REFUSALS = {
    "DP001": "limit", "DP002": "closed", "DP003": "absent", "DP004": "paid", "DP005": "request", "DP006": "tampered",
    "DP007": "forbidden", "DP008": "form", "DP009": "open", "DP010": "rises", "DP011": "digits", "DP012": "unsafe",
    "DP013": "spent", "DP014": "rho", "23505": "paid", "42501": "forbidden", "25006": "read-only",
    "3F000": "gone", "42883": "gone", "42P01": "gone",
}  # fmt: skip
"""Refusals by the server's codes: those of the ledger's functions, and a few of PostgreSQL."""


class Books(ABC):
    """Entries and balances in a database; reading is the same in both.

    Args:
        prefix: of the names of tables.
    """

    prefix: str

    @abstractmethod
    def version(self, connection: sa.Connection) -> int | None:
        """Return the version of the tables; None without tables."""

    @abstractmethod
    def make(self, connection: sa.Connection) -> None:
        """Make the tables."""

    @abstractmethod
    def require_safe(self, connection: sa.Connection) -> None:
        """Refuse a database that may lose committed data."""

    def durability(self, connection: sa.Connection) -> str:
        """Describe the durability of a charge, in one line."""
        return "a charge that returns is on this machine's disk; restoring a backup loses later charges"

    @abstractmethod
    def user(self, connection: sa.Connection) -> str:
        """Return the user that an entry would have."""

    @abstractmethod
    def append(self, connection: sa.Connection, draft: LedgerEntry) -> LedgerEntry:
        """Add an entry, with the user and the day.

        Args:
            connection: in a transaction of `Database.write`.
            draft: as in `following`; user and day are added here.

        Returns:
            The entry; for a request that was charged before, the earlier charge.

        Raises:
            Refusal: nothing was written.
        """

    @abstractmethod
    def find_existing(self, connection: sa.Connection, account: str, release: str) -> LedgerEntry | None:
        """Find a charge of unknown outcome, after all other writes to the account have ended."""

    def names(self, connection: sa.Connection) -> tuple[str, ...]:
        """List the names of all accounts, sorted."""
        rows = connection.execute(sa.text(f"SELECT account FROM {self.prefix}balances WHERE subject = ''"))
        names = rows.scalars().all()
        if not all(type(name) is str for name in names):
            raise Refusal("tampered", "a name")
        return tuple(sorted(names))

    def first(self, connection: sa.Connection, account: str) -> LedgerEntry:
        """Return the entry that opened an account.

        Raises:
            Refusal: the account is not open, or the entry was changed.
        """
        entries = self._select_entries(connection, "account = :account AND sequence = 0", account=account)
        if not entries:
            raise Refusal("absent")
        if entries[0] != entries[0].sealed(""):
            raise Refusal("tampered", "entry 0")
        return entries[0]

    def account_share(self, connection: sa.Connection, account: str) -> tuple[Share, LedgerEntry]:
        """Return the balance of an account and its last entry.

        Raises:
            Refusal: the account is not open, or balance and entry do not match.
        """
        share = self.share(connection, account, "")
        if share is None:
            raise Refusal("absent")
        last = self._select_entries(
            connection, "account = :account AND sequence >= :place ORDER BY sequence LIMIT 3", account=account,
            place=share.sequence - 1,
        )  # fmt: skip
        if not is_sound(share, last):
            raise Refusal("tampered", f"entry {share.sequence}, or the balance,")
        return share, last[-1]

    def share(self, connection: sa.Connection, account: str, subject: str) -> Share | None:
        """Return the balance of a subject.

        Raises:
            Refusal: its seal does not match.
        """
        statement = f"{self._select_shares} AND subject = :subject"
        row = connection.execute(sa.text(statement), {"account": account, "subject": subject}).one_or_none()
        if row is None:
            return None
        share = _check_row(Share, row)
        if share != share.sealed():
            raise Refusal("tampered", "a balance")
        return share

    def shares(self, connection: sa.Connection, account: str) -> dict[str, Share]:
        """List all balances of an account by subject, unchecked."""
        rows = connection.execute(sa.text(self._select_shares), {"account": account})
        return {share.subject: share for share in (_check_row(Share, row) for row in rows)}

    @property
    def _select_shares(self) -> str:
        """SQL statement for the balances of an account."""
        return f"SELECT * FROM {self.prefix}balances WHERE account = :account"

    def entries(self, connection: sa.Connection, account: str) -> Iterator[LedgerEntry]:
        """List all entries of an account in order, unchecked."""
        last = -1
        while True:
            block = self._select_entries(
                connection, f"account = :account AND sequence > :place ORDER BY sequence LIMIT {ENTRIES_BLOCK}",
                account=account, place=last,
            )  # fmt: skip
            yield from block
            if len(block) < ENTRIES_BLOCK:
                return
            last = block[-1].sequence

    def paid(self, connection: sa.Connection, release: str) -> LedgerEntry | None:
        """Find the charge for a release, in any account."""
        entries = self._select_entries(connection, "release = :release AND release <> ''", release=release)
        return entries[0] if entries else None

    def first_release(self, connection: sa.Connection, account: str) -> str | None:
        """Find the id of the first release that an account paid for; other names of charges are skipped."""
        entries = self._select_entries(
            connection, "account = :account AND kind = 'charged' AND length(release) = 32 AND "
            "ltrim(release, :digits) = '' ORDER BY sequence LIMIT 1", account=account, digits="0123456789abcdef",
        )  # fmt: skip
        return entries[0].release if entries else None

    def _select_entries(self, connection: sa.Connection, where: str, **values: Any) -> list[LedgerEntry]:
        """Select the entries that fulfil a condition."""
        statement = f"SELECT * FROM {self.prefix}entries WHERE {where}"
        return [_check_row(LedgerEntry, row) for row in connection.execute(sa.text(statement), values)]

    def insert(self, connection: sa.Connection, entry: LedgerEntry, shares: tuple[Share, ...]) -> None:
        """Write an entry and the balances after it."""
        marks = ", ".join(f":{column}" for column in COLUMNS)
        insert = f"INSERT INTO {self.prefix}entries ({', '.join(COLUMNS)}) VALUES ({marks})"
        connection.execute(sa.text(insert), entry.row())
        marks = ", ".join(f":{column}" for column in SHARE_COLUMNS)
        changes = ", ".join(f"{column} = excluded.{column}" for column in SHARE_COLUMNS[2:])
        upsert = (
            f"INSERT INTO {self.prefix}balances ({', '.join(SHARE_COLUMNS)}) VALUES ({marks}) "
            f"ON CONFLICT (account, subject) DO UPDATE SET {changes}"
        )
        for share in shares:
            connection.execute(sa.text(upsert), dict(zip(SHARE_COLUMNS, astuple(share), strict=True)))


class SqliteBooks(Books):
    """Books in a file of SQLite."""

    prefix = "discreet_"

    def version(self, connection: sa.Connection) -> int | None:
        """Return the version of the tables; None without tables."""
        statement = "SELECT name FROM sqlite_master WHERE name IN ('discreet_ledger', 'discreet_accounts')"
        there = set(connection.exec_driver_sql(statement).scalars())
        if "discreet_ledger" in there:
            version = connection.exec_driver_sql("SELECT max(version) FROM discreet_ledger").scalar()
            return version if type(version) is int else 0
        return 1 if there else None

    def require_safe(self, connection: sa.Connection) -> None:
        """Do nothing: each transaction sets how the file is written, and `Database` checks the file system."""

    def make(self, connection: sa.Connection) -> None:
        """Make the tables."""
        for statement in script("ledger_sqlite.sql").split("\n\n"):
            connection.exec_driver_sql(statement)
        self._renew(connection)

    def _renew(self, connection: sa.Connection) -> None:
        """Change tables of version 2 to the current version."""
        for statement in script("ledger_sqlite_3.sql").split("\n\n"):
            connection.exec_driver_sql(statement)

    def user(self, connection: sa.Connection) -> str:
        """Return the system's user of this process; SQLite has no users."""
        if sys.platform != "win32":
            with suppress(KeyError):
                return pwd.getpwuid(os.getuid()).pw_name
            return str(os.getuid())
        return os.getlogin()

    def append(self, connection: sa.Connection, draft: LedgerEntry) -> LedgerEntry:
        """Add an entry; see `Books`. The transaction has an exclusive lock on the file."""
        draft = replace(draft, user=self.user(connection), day=datetime.now(UTC).date().isoformat())
        version = self.version(connection)
        if version == OLD_VERSION:
            self._renew(connection)
        elif version != VERSION:
            raise Refusal("gone")
        if draft.kind == "opened":
            last, shares = None, dict[str, Share]()
            if self.share(connection, draft.account, "") is not None:
                raise Refusal("open")
        else:
            held, last = self.account_share(connection, draft.account)
            listed_shares = (self.share(connection, draft.account, subject) for subject in subjects_of(draft)[1:])
            shares = {"": held, **{share.subject: share for share in listed_shares if share is not None}}
        if draft.request:
            earlier = self._select_entries(
                connection, "account = :account AND request = :request", account=draft.account, request=draft.request
            )
            if earlier:
                return _require_same_request(earlier[0], draft)
        if draft.release and self.paid(connection, draft.release) is not None:
            raise Refusal("paid")
        try:
            entry, changed = following(last, shares, draft)
        except (ValueError, ZeroDivisionError):
            raise Refusal("tampered", "a balance") from None
        self.insert(connection, entry, changed)
        return entry

    def find_existing(self, connection: sa.Connection, account: str, release: str) -> LedgerEntry | None:
        """Find a charge; see `Books`. The transaction has an exclusive lock on the file."""
        entry = self.paid(connection, release)
        return entry if entry is not None and entry.account == account else None


class PostgresBooks(Books):
    """Books on a server, whose functions write them."""

    prefix = "discreet."

    def __init__(self) -> None:
        self._renewed = False

    def version(self, connection: sa.Connection) -> int | None:
        """Return the version of the tables; None without tables."""
        # Read the catalogue tables: name lookups are cached from before a wait for another process.
        statement = (
            "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace n ON relnamespace = n.oid "
            "WHERE nspname = 'discreet' AND relname = 'ledger'), to_regclass('discreet_accounts') IS NOT NULL"
        )
        there, old = connection.exec_driver_sql(statement).one()
        if there:
            return int(connection.exec_driver_sql("SELECT max(version) FROM discreet.ledger").scalar() or 0)
        return 1 if old else None

    def make(self, connection: sa.Connection) -> None:
        """Make the schema and all in it, owned by the transaction's role."""
        connection.exec_driver_sql("CREATE SCHEMA discreet")  # fails if it exists: it may have another owner
        connection.execution_options(no_parameters=True).exec_driver_sql(making_sql())

    def require_safe(self, connection: sa.Connection) -> None:
        """Refuse a server that is too old, not in UTF-8, or may lose committed data in a crash."""
        statement = (
            "SELECT current_setting('server_version_num')::int, getdatabaseencoding(), current_setting('fsync'), "
            "current_setting('full_page_writes')"
        )
        version, encoding, *writes = connection.exec_driver_sql(statement).one()
        if version < OLDEST_SERVER:
            raise Refusal(
                "unsafe", f"the server has version {version // 10_000}; use {OLDEST_SERVER // 10_000} or newer"
            )
        if encoding != "UTF8":
            raise Refusal("unsafe", "the database is not in UTF8; make one with ENCODING 'UTF8'")
        if writes != ["on", "on"]:
            raise Refusal("unsafe", "fsync or full_page_writes is off: a crash could lose charges; set both on")

    def durability(self, connection: sa.Connection) -> str:
        """Describe the durability of a charge; see `Books`. The answering server may be a standby."""
        names, standby = connection.exec_driver_sql(
            "SELECT current_setting('synchronous_standby_names'), pg_is_in_recovery()"
        ).one()
        if standby:
            return "this is a standby: it has only the charges received so far"
        if names:
            return f"a charge that returns is on the server's disk and on synchronous standbys ({names})"
        return (
            "a charge that returns is on the server's disk; a failover to a standby may lose the last charges, because "
            "synchronous_standby_names is empty"
        )

    def user(self, connection: sa.Connection) -> str:
        """Return the user of the session, whatever role was set since."""
        return str(connection.exec_driver_sql("SELECT session_user").scalar())

    def append(self, connection: sa.Connection, draft: LedgerEntry) -> LedgerEntry:
        """Add an entry; see `Books`. Members of its owner renew a ledger of version 2; others charge it as before."""
        if not self._renewed:
            self._renewed = self._renew(connection)
        losses = (draft.rho, draft.rho_delta, draft.rho_limit) if self._renewed else ()
        arguments: tuple[str, ...]
        match draft.kind:
            case "charged":
                name, arguments = "charge", (draft.release, draft.mechanism, draft.epsilon, draft.delta, draft.purpose,
                                         draft.request, *losses)  # fmt: skip
            case "opened":
                name, arguments = "open", (draft.epsilon, draft.delta, draft.relation, draft.unit)
            case "limited":
                name, arguments = "lower", (draft.subject, draft.epsilon, draft.delta, *losses[2:])
            case _:
                name, arguments = "close", ()
        return self._call(connection, name, (draft.account, *arguments))[0]

    def _renew(self, connection: sa.Connection) -> bool:
        """Renew tables of version 2 if this user may; True if they have the current version at the next transaction."""
        if self.version(connection) != OLD_VERSION:
            return True
        statement = "SELECT pg_has_role(session_user, nspowner, 'MEMBER') FROM pg_namespace WHERE nspname = 'discreet'"
        if connection.exec_driver_sql(statement).scalar():
            connection.exec_driver_sql(MAKING_LOCK)
            if self.version(connection) == OLD_VERSION:
                connection.execution_options(no_parameters=True).exec_driver_sql(renewing_sql())
        return False

    def find_existing(self, connection: sa.Connection, account: str, release: str) -> LedgerEntry | None:
        """Find a charge; see `Books`. The server waits for transactions on the account."""
        entries = self._call(connection, "settled", (account, release))
        return entries[0] if entries else None

    def _call(self, connection: sa.Connection, name: str, arguments: tuple[str, ...]) -> list[LedgerEntry]:
        """Call a function of the server, and return its entries."""
        marks = ", ".join(f":p{number}" for number in range(len(arguments)))
        values = {f"p{number}": value for number, value in enumerate(arguments)}
        try:
            rows = connection.execute(sa.text(f"SELECT * FROM discreet.{name}({marks})"), values)
            return [_check_row(LedgerEntry, row) for row in rows]
        except sa.exc.DBAPIError as error:
            reason = REFUSALS.get(getattr(error.orig, "sqlstate", None) or "")
            if reason is None:
                raise
            diagnosis = getattr(error.orig, "diag", None)
            words = getattr(diagnosis, "message_detail" if reason == "limit" else "message_primary", None)
        raise Refusal(reason, words or "")


def _check_row(kind: type[T], row: sa.Row[Any]) -> T:
    """Check the types of a row: a damaged file may have a number instead of text."""
    values = {"user" if name == "who" else name: value for name, value in row._mapping.items()}
    if any(type(value) is not (int if name == "sequence" else str) for name, value in values.items()):
        raise Refusal("tampered", "a row")
    try:
        return kind(**values)
    except TypeError:
        raise Refusal("tampered", "a table") from None


def _require_same_request(earlier: LedgerEntry, draft: LedgerEntry) -> LedgerEntry:
    """Return the earlier charge of a request, or refuse a different request."""
    same = ("mechanism", "epsilon", "delta", "purpose", "user")
    if any(getattr(earlier, name) != getattr(draft, name) for name in same):
        raise Refusal("request")
    return earlier


def making_sql() -> str:
    """Write the statements that make the tables and functions in PostgreSQL."""
    tables, functions = _split_script()
    return tables + script("ledger_postgresql_3.sql").split(SCRIPT_BREAK)[0] + functions


def renewing_sql() -> str:
    """Write the statements that change version 2 in PostgreSQL to the current one, as the owner of the schema.

    Rights to charge and to lower limits pass to the functions that take more arguments.
    """
    before, after = script("ledger_postgresql_3.sql").split(SCRIPT_BREAK)
    return f"{OWNER_ROLE};\n{before}{_split_script()[1]}{after}\nRESET ROLE;"


def _split_script() -> list[str]:
    """Split the script of tables and functions."""
    return script("ledger_postgresql.sql").split(SCRIPT_BREAK)


def script(name: str) -> str:
    """Read an SQL file of this room."""
    return (files("discreet.privacy") / name).read_text("utf-8")
