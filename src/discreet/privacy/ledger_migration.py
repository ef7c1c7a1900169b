"""Migration: a ledger of version 1, whose charges had no places, sums and digests, becomes one of this version.

Its rows are kept as they are, in tables whose names end in `_1`; views of the old names let programs of version 1 read,
and tell them why they cannot charge. All of it is one transaction, for which charges of others wait.
"""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from discreet.errors import InputError, shown
from discreet.privacy.guarantee import Guarantee, as_rational
from discreet.privacy.ledger_books import VERSION, Books, PostgresBooks, SqliteBooks
from discreet.privacy.ledger_database import Database, shown_address
from discreet.privacy.ledger_entries import Entry, Refusal, Share, following, subjects_of

__all__ = ["migrate"]

UNKNOWN_USER = "(version 1)"
"""Who made an entry of which that is not known."""

OLD_VIEWS = """
CREATE VIEW discreet_accounts AS
    SELECT account AS name, epsilon, delta, relation, unit, day AS opened FROM discreet.entries WHERE kind = 'opened';
CREATE VIEW discreet_charges AS
    SELECT sequence AS number, account, release, mechanism, epsilon, delta, day AS date
    FROM discreet.entries WHERE kind = 'charged';
CREATE FUNCTION discreet.newer() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'this ledger has version 2, and this program is older: use a newer discreet';
END $$;
CREATE TRIGGER newer INSTEAD OF INSERT ON discreet_accounts FOR EACH ROW EXECUTE FUNCTION discreet.newer();
CREATE TRIGGER newer INSTEAD OF INSERT ON discreet_charges FOR EACH ROW EXECUTE FUNCTION discreet.newer();
"""
"""Views on PostgreSQL, where the old tables were; SQLite's are in `ledger_sqlite.sql`."""


def migrate(url: str) -> int:
    """Bring a ledger to this program's version; one that has it is left alone.

    Args:
        url: of the ledger. On a server the user must own the old tables, and may make a schema.

    Returns:
        The version that it had.

    Raises:
        InputError: there is no ledger, it is a newer one, or a row of it is not what version 1 wrote; nothing changed.
    """
    database = Database(url)
    books: Books = SqliteBooks() if database.sqlite else PostgresBooks()

    def work(connection: sa.Connection) -> int:
        books.require_safe(connection)
        found = books.version(connection)
        if found is None or found > VERSION:
            what = "no ledger" if found is None else f"a ledger of version {found}, newer than this program"
            raise InputError(f"there is {what} at {shown_address(url)}; nothing was changed")
        if found < VERSION:
            _move(connection, books, sqlite=database.sqlite)
        return found

    try:
        return database.make(work)
    except Refusal as refusal:
        reason = refusal.detail or refusal.reason
    raise InputError(f"ledger {shown_address(url)} cannot be migrated: {reason}; nothing was changed")


def _move(connection: sa.Connection, books: Books, *, sqlite: bool) -> None:
    """Make the new tables and write all entries, computed from the old rows."""
    if not sqlite:
        connection.exec_driver_sql("LOCK TABLE discreet_accounts, discreet_charges IN ACCESS EXCLUSIVE MODE")
    accounts = connection.exec_driver_sql(
        "SELECT name, epsilon, delta, relation, unit, opened FROM discreet_accounts ORDER BY name"
    ).all()
    charges = connection.exec_driver_sql(
        "SELECT number, account, release, mechanism, epsilon, delta, date FROM discreet_charges ORDER BY number"
    ).all()
    for table in ("accounts", "charges"):
        connection.exec_driver_sql(f"ALTER TABLE discreet_{table} RENAME TO discreet_{table}_1")
    books.make(connection)
    if not sqlite:
        connection.execution_options(no_parameters=True).exec_driver_sql(OLD_VIEWS)
    for name, epsilon, delta, relation, unit, opened in accounts:
        try:
            limit = Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)
            first = Entry(
                name, 0, "opened", epsilon=str(limit.epsilon), delta=str(limit.delta), relation=limit.relation.value,
                unit=unit, who=UNKNOWN_USER, day=_check_day(opened),
            )  # fmt: skip
            drafts = [first, *(_draft_charge(row) for row in charges if row.account == name)]
        except (ValueError, TypeError):  # an InputError is a ValueError
            raise Refusal("tampered", f"account {shown(name)} has a row that version 1 does not write") from None
        _write(connection, books, drafts)
    strangers = {row.account for row in charges} - {row.name for row in accounts}
    if strangers:
        raise Refusal("tampered", f"there are charges of {shown(min(strangers))}, which is not open")


def _draft_charge(row: sa.Row[Any]) -> Entry:
    """Draft an entry for a charge of version 1."""
    spent = as_rational(row.epsilon, "epsilon"), as_rational(row.delta, "delta")
    if not (spent[0] > 0 and Fraction() <= spent[1] < 1):
        raise ValueError
    return Entry(
        row.account, 0, "charged", row.release, row.mechanism, str(spent[0]), str(spent[1]), who=UNKNOWN_USER,
        day=_check_day(row.date),
    )  # fmt: skip


def _check_day(text: str) -> str:
    """Check a day, and return it as it is written."""
    return date.fromisoformat(text).isoformat()


def _write(connection: sa.Connection, books: Books, drafts: list[Entry]) -> None:
    """Write the entries of an account."""
    last: Entry | None = None
    shares: dict[str, Share] = {}
    for draft in drafts:
        held = {subject: shares[subject] for subject in subjects_of(draft) if subject in shares}
        try:
            last, changed = following(last, held, draft)
        except Refusal:
            raise Refusal("tampered", f"charges of account {shown(draft.account)} go beyond its limit") from None
        books.insert(connection, last, changed)
        shares |= {share.subject: share for share in changed}
