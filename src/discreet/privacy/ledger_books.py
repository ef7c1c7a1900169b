"""Books: where the entries of a ledger stand in a database, and who keeps them.

SQLite's are kept by this process, in a transaction that is alone on the file. PostgreSQL's are kept by functions of the
server (`ledger_postgresql.sql`), so that a client can do no more than ask. Both are read in the same way, and what is
read is held against its digests.
"""

from __future__ import annotations

import os
import pwd
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, fields, replace
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, TypeVar

import sqlalchemy as sa

from discreet.privacy.ledger_entries import COLUMNS, LedgerEntry, Refusal, Share, following, is_sound, subjects_of

VERSION = 2
"""Version of the tables."""
T = TypeVar("T", LedgerEntry, Share)

OLDEST_SERVER = 130_000
"""Oldest version of PostgreSQL that is taken: the first that has `gcd`."""
ENTRIES_BLOCK = 1000
"""Entries that are read at a time."""
SHARE_COLUMNS = tuple(field.name for field in fields(Share))

REFUSALS = {
    "DP001": "limit", "DP002": "closed", "DP003": "absent", "DP004": "paid", "DP005": "request", "DP006": "tampered",
    "DP007": "forbidden", "DP008": "form", "DP009": "open", "DP010": "rises", "DP011": "digits", "DP012": "unsafe",
    "DP013": "spent", "23505": "paid", "42501": "forbidden", "25006": "read-only", "3F000": "gone", "42883": "gone",
    "42P01": "gone",
}  # fmt: skip
"""What the server's codes stand for: those of our functions, and a few of its own."""


class Books(ABC):
    """Reading entries and balances, which is the same on both databases.

    Args:
        prefix: of the names of tables.
    """

    prefix: str

    @abstractmethod
    def version(self, connection: sa.Connection) -> int | None:
        """Version of the tables; None where there are none."""

    @abstractmethod
    def make(self, connection: sa.Connection) -> None:
        """Make the tables."""

    @abstractmethod
    def require_safe(self, connection: sa.Connection) -> None:
        """Refuse a database that may forget what it said was written."""

    def durability(self, connection: sa.Connection) -> str:
        """Where a charge is when it returns, and what may lose it all the same, in one line."""
        return "a charge that returns is on this machine's disk; a copy that is put back forgets what came after it"

    @abstractmethod
    def user(self, connection: sa.Connection) -> str:
        """Who an entry would be by."""

    @abstractmethod
    def append(self, connection: sa.Connection, draft: LedgerEntry) -> LedgerEntry:
        """Add an entry, with the user and the day.

        Args:
            connection: in a transaction of `Database.write`.
            draft: as of `following`; who and day are found here.

        Returns:
            The entry; of a request that was charged before, that charge.

        Raises:
            Refusal: nothing was written.
        """

    @abstractmethod
    def settled(self, connection: sa.Connection, account: str, release: str) -> LedgerEntry | None:
        """What became of a charge, once nobody else is writing the account."""

    def names(self, connection: sa.Connection) -> tuple[str, ...]:
        """Names of all accounts, sorted."""
        rows = connection.execute(sa.text(f"SELECT account FROM {self.prefix}balances WHERE subject = ''"))
        found = rows.scalars().all()
        if not all(type(name) is str for name in found):
            raise Refusal("tampered", "a name")
        return tuple(sorted(found))

    def first(self, connection: sa.Connection, account: str) -> LedgerEntry:
        """The entry that opened an account.

        Raises:
            Refusal: it is not open, or there is something else in its place.
        """
        found = self._select_entries(connection, "account = :account AND sequence = 0", account=account)
        if not found:
            raise Refusal("absent")
        if found[0] != found[0].sealed(""):
            raise Refusal("tampered", "entry 0")
        return found[0]

    def account_share(self, connection: sa.Connection, account: str) -> tuple[Share, LedgerEntry]:
        """The balance of an account and its last entry.

        Raises:
            Refusal: it is not open; or balance and entry do not fit each other.
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
        """The balance of a subject.

        Raises:
            Refusal: it is not what its seal says.
        """
        statement = f"{self._select_shares} AND subject = :subject"
        row = connection.execute(sa.text(statement), {"account": account, "subject": subject}).one_or_none()
        if row is None:
            return None
        found = _check_row(Share, row)
        if found != found.sealed():
            raise Refusal("tampered", "a balance")
        return found

    def shares(self, connection: sa.Connection, account: str) -> dict[str, Share]:
        """All balances of an account by subject, as they stand."""
        rows = connection.execute(sa.text(self._select_shares), {"account": account})
        return {share.subject: share for share in (_check_row(Share, row) for row in rows)}

    @property
    def _select_shares(self) -> str:
        """SQL for the balances of an account."""
        return f"SELECT {', '.join(SHARE_COLUMNS)} FROM {self.prefix}balances WHERE account = :account"

    def entries(self, connection: sa.Connection, account: str) -> Iterator[LedgerEntry]:
        """All entries of an account by their places, as they stand."""
        place = -1
        while True:
            found = self._select_entries(
                connection, f"account = :account AND sequence > :place ORDER BY sequence LIMIT {ENTRIES_BLOCK}",
                account=account, place=place,
            )  # fmt: skip
            yield from found
            if len(found) < ENTRIES_BLOCK:
                return
            place = found[-1].sequence

    def paid(self, connection: sa.Connection, release: str) -> LedgerEntry | None:
        """The charge for a release, of whatever account."""
        found = self._select_entries(connection, "release = :release AND release <> ''", release=release)
        return found[0] if found else None

    def first_release(self, connection: sa.Connection, account: str) -> str | None:
        """Id of the first release that an account paid for; what was charged for under another name is none."""
        found = self._select_entries(
            connection, "account = :account AND kind = 'charged' AND length(release) = 32 AND "
            "ltrim(release, :digits) = '' ORDER BY sequence LIMIT 1", account=account, digits="0123456789abcdef",
        )  # fmt: skip
        return found[0].release if found else None

    def _select_entries(self, connection: sa.Connection, where: str, **values: Any) -> list[LedgerEntry]:
        """Select the entries that a condition is true of."""
        statement = f"SELECT {', '.join(COLUMNS)} FROM {self.prefix}entries WHERE {where}"
        return [_check_row(LedgerEntry, row) for row in connection.execute(sa.text(statement), values)]

    def insert(self, connection: sa.Connection, entry: LedgerEntry, shares: tuple[Share, ...]) -> None:
        """Write an entry and the balances that it leaves."""
        marks = ", ".join(f":{column}" for column in COLUMNS)
        insert = f"INSERT INTO {self.prefix}entries ({', '.join(COLUMNS)}) VALUES ({marks})"
        connection.execute(sa.text(insert), dict(zip(COLUMNS, astuple(entry), strict=True)))
        marks = ", ".join(f":{column}" for column in SHARE_COLUMNS)
        changes = ", ".join(f"{column} = excluded.{column}" for column in SHARE_COLUMNS[2:])
        upsert = (
            f"INSERT INTO {self.prefix}balances ({', '.join(SHARE_COLUMNS)}) VALUES ({marks}) "
            f"ON CONFLICT (account, subject) DO UPDATE SET {changes}"
        )
        for share in shares:
            connection.execute(sa.text(upsert), dict(zip(SHARE_COLUMNS, astuple(share), strict=True)))


class SqliteBooks(Books):
    """Books in a file."""

    prefix = "discreet_"

    def version(self, connection: sa.Connection) -> int | None:
        """Version of the tables; None where there are none."""
        statement = "SELECT name FROM sqlite_master WHERE name IN ('discreet_ledger', 'discreet_accounts')"
        there = set(connection.exec_driver_sql(statement).scalars())
        if "discreet_ledger" in there:
            found = connection.exec_driver_sql("SELECT max(version) FROM discreet_ledger").scalar()
            return found if type(found) is int else 0
        return 1 if there else None

    def require_safe(self, connection: sa.Connection) -> None:
        """Nothing to ask: each transaction sets how a file is written, and `Database` where it may lie."""

    def make(self, connection: sa.Connection) -> None:
        """Make the tables."""
        for statement in script("ledger_sqlite.sql").split("\n\n"):
            connection.exec_driver_sql(statement)

    def user(self, connection: sa.Connection) -> str:
        """Who runs this process, by the system; SQLite has no users of its own."""
        with suppress(KeyError):
            return pwd.getpwuid(os.getuid()).pw_name
        return str(os.getuid())

    def append(self, connection: sa.Connection, draft: LedgerEntry) -> LedgerEntry:
        """As of `Books`; the transaction is alone on the file."""
        draft = replace(draft, who=self.user(connection), day=datetime.now(UTC).date().isoformat())
        if self.version(connection) != VERSION:
            raise Refusal("gone")
        if draft.kind == "opened":
            last, shares = None, dict[str, Share]()
            if self.share(connection, draft.account, "") is not None:
                raise Refusal("open")
        else:
            held, last = self.account_share(connection, draft.account)
            found = (self.share(connection, draft.account, subject) for subject in subjects_of(draft)[1:])
            shares = {"": held, **{share.subject: share for share in found if share is not None}}
        if draft.request:
            asked = self._select_entries(
                connection, "account = :account AND request = :request", account=draft.account, request=draft.request
            )
            if asked:
                return _require_same_request(asked[0], draft)
        if draft.release and self.paid(connection, draft.release) is not None:
            raise Refusal("paid")
        try:
            made, changed = following(last, shares, draft)
        except (ValueError, ZeroDivisionError):
            raise Refusal("tampered", "a balance") from None
        self.insert(connection, made, changed)
        return made

    def settled(self, connection: sa.Connection, account: str, release: str) -> LedgerEntry | None:
        """As of `Books`; in a transaction that is alone."""
        found = self.paid(connection, release)
        return found if found is not None and found.account == account else None


class PostgresBooks(Books):
    """Books on a server, which keeps them itself."""

    prefix = "discreet."

    def version(self, connection: sa.Connection) -> int | None:
        """Version of the tables; None where there are none."""
        # Read from the tables: what a name stands for is remembered from before a wait for another process.
        statement = (
            "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace n ON relnamespace = n.oid "
            "WHERE nspname = 'discreet' AND relname = 'ledger'), to_regclass('discreet_accounts') IS NOT NULL"
        )
        there, old = connection.exec_driver_sql(statement).one()
        if there:
            return int(connection.exec_driver_sql("SELECT max(version) FROM discreet.ledger").scalar() or 0)
        return 1 if old else None

    def make(self, connection: sa.Connection) -> None:
        """Make the schema and all in it, owned by the role that the transaction has."""
        connection.exec_driver_sql("CREATE SCHEMA discreet")  # one that is there may be somebody else's
        connection.execution_options(no_parameters=True).exec_driver_sql(script("ledger_postgresql.sql"))

    def require_safe(self, connection: sa.Connection) -> None:
        """Refuse a server that is too old, not in UTF-8, or may forget in a crash what it said was written."""
        statement = (
            "SELECT current_setting('server_version_num')::int, getdatabaseencoding(), current_setting('fsync'), "
            "current_setting('full_page_writes')"
        )
        version, encoding, *writes = connection.exec_driver_sql(statement).one()
        if version < OLDEST_SERVER:
            raise Refusal(
                "unsafe", f"the server has version {version // 10_000}, and {OLDEST_SERVER // 10_000} is the oldest"
            )
        if encoding != "UTF8":
            raise Refusal("unsafe", "the database is not in UTF8; make one with ENCODING 'UTF8'")
        if writes != ["on", "on"]:
            raise Refusal(
                "unsafe", "fsync or full_page_writes is off: a crash could give back what was spent; set both on"
            )

    def durability(self, connection: sa.Connection) -> str:
        """As of `Books`; of the server that answers, which may be a standby."""
        names, standby = connection.exec_driver_sql(
            "SELECT current_setting('synchronous_standby_names'), pg_is_in_recovery()"
        ).one()
        if standby:
            return "this is a standby: what it has is what it received so far"
        if names:
            return f"a charge that returns is on the server's disk and on synchronous standbys ({names})"
        return (
            "a charge that returns is on the server's disk; a failover to a standby may lose the last ones, because "
            "synchronous_standby_names is empty"
        )

    def user(self, connection: sa.Connection) -> str:
        """Who is connected, whatever role was set since."""
        return str(connection.exec_driver_sql("SELECT session_user").scalar())

    def append(self, connection: sa.Connection, draft: LedgerEntry) -> LedgerEntry:
        """As of `Books`."""
        given: tuple[str, ...]
        match draft.kind:
            case "charged":
                name, given = "charge", (draft.release, draft.mechanism, draft.epsilon, draft.delta, draft.purpose,
                                         draft.request)  # fmt: skip
            case "opened":
                name, given = "open", (draft.epsilon, draft.delta, draft.relation, draft.unit)
            case "limited":
                name, given = "lower", (draft.subject, draft.epsilon, draft.delta)
            case _:
                name, given = "close", ()
        return self._call(connection, name, (draft.account, *given))[0]

    def settled(self, connection: sa.Connection, account: str, release: str) -> LedgerEntry | None:
        """As of `Books`: the server waits for whoever holds the account."""
        found = self._call(connection, "settled", (account, release))
        return found[0] if found else None

    def _call(self, connection: sa.Connection, name: str, given: tuple[str, ...]) -> list[LedgerEntry]:
        """Call a function of the server, and return its entries."""
        marks = ", ".join(f":p{place}" for place in range(len(given)))
        values = {f"p{place}": value for place, value in enumerate(given)}
        try:
            rows = connection.execute(sa.text(f"SELECT {', '.join(COLUMNS)} FROM discreet.{name}({marks})"), values)
            return [LedgerEntry(*row) for row in rows]
        except sa.exc.DBAPIError as error:
            reason = REFUSALS.get(getattr(error.orig, "sqlstate", None) or "")
            if reason is None:
                raise
            diagnosis = getattr(error.orig, "diag", None)
            words = getattr(diagnosis, "message_detail" if reason == "limit" else "message_primary", None)
        raise Refusal(reason, words or "")


def _check_row(kind: type[T], row: Sequence[Any]) -> T:
    """Check the types of a row: a damaged file may hold a number for a text."""
    names = [field.name for field in fields(kind)]
    if any(type(value) is not (int if name == "sequence" else str) for name, value in zip(names, row, strict=True)):
        raise Refusal("tampered", "a row")
    return kind(*row)


def _require_same_request(found: LedgerEntry, draft: LedgerEntry) -> LedgerEntry:
    """Take the charge of a request, if it asked the same."""
    same = ("mechanism", "epsilon", "delta", "purpose", "who")
    if any(getattr(found, name) != getattr(draft, name) for name in same):
        raise Refusal("request")
    return found


def script(name: str) -> str:
    """Read a file of SQL beside this one."""
    return (files("discreet.privacy") / name).read_text("utf-8")
