"""Roles of a ledger on PostgreSQL, as statements: who owns it, opens accounts, spends, and reads.

The owner cannot log in: whoever charges calls its functions. A role is the database's; it must be there before it is
granted anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from discreet.errors import InputError, shown
from discreet.privacy.ledger_books import VERSION, PostgresBooks, script
from discreet.privacy.ledger_database import Database, shown_address
from discreet.privacy.ledger_words import other_version

OWNER = "discreet_owner"
"""Role that owns a ledger, and cannot log in."""

OPENING = (
    "discreet.open(text, text, text, text, text)", "discreet.lower(text, text, text, text)", "discreet.close(text)",
    "discreet.permit(text, text)",
)  # fmt: skip
SPENDING = ("discreet.charge(text, text, text, text, text, text, text)", "discreet.settled(text, text)")

GIVE_TO_OWNER = """
DO $$
DECLARE
    thing record;
BEGIN
    FOR thing IN SELECT c.oid::regclass AS name FROM pg_catalog.pg_class c
        WHERE relnamespace = 'discreet'::regnamespace AND relkind IN ('r', 'v') LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO {owner}', thing.name);
    END LOOP;
    FOR thing IN SELECT p.oid::regprocedure AS name FROM pg_catalog.pg_proc p
        WHERE pronamespace = 'discreet'::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO {owner}', thing.name);
    END LOOP;
END $$"""


@dataclass(frozen=True)
class Grant:
    """What a role may do.

    Args:
        kind: "opener" opens accounts, lowers limits, closes, and permits spenders; "spender" charges one account;
            "auditor" reads everything.
        role: of the database.
        account: of a spender.
    """

    kind: str
    role: str
    account: str = ""

    @classmethod
    def parse(cls, text: str) -> Grant:
        """Read `opener=ROLE`, `spender=ROLE:ACCOUNT` or `auditor=ROLE`.

        Raises:
            InputError: it is none of them.
        """
        kind, _, rest = text.partition("=")
        role, colon, account = rest.partition(":")
        if kind not in ("opener", "spender", "auditor") or not role or bool(account) != (kind == "spender") or (
            colon and not account
        ):  # fmt: skip
            raise InputError(
                f"a grant is opener=ROLE, spender=ROLE:ACCOUNT or auditor=ROLE, not {shown(text)}; nothing was granted"
            )
        return cls(kind, role, account)


def grant_sql(grants: Iterable[Grant], owner: str = OWNER, *, make: bool = True) -> tuple[str, ...]:
    """Write the statements that make a ledger, give it to its owner, and grant roles what they may do.

    Args:
        grants: of roles that are there.
        owner: made where it is not there.
        make: whether the ledger has to be made.

    Returns:
        Statements, to be run in one transaction by a role that may make roles and schemas.
    """
    name = _quote_name(owner)
    found = [
        f"DO $$ BEGIN CREATE ROLE {name} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        f"GRANT {name} TO CURRENT_USER",
        *(["CREATE SCHEMA discreet", script("ledger_postgresql.sql").rstrip().removesuffix(";")] if make else []),
        f"ALTER SCHEMA discreet OWNER TO {name}",
        GIVE_TO_OWNER.strip().format(owner=name),
    ]
    for one in grants:
        role = _quote_name(one.role)
        found += [
            f"GRANT USAGE ON SCHEMA discreet TO {role}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA discreet TO {role}",
        ]
        functions = {"opener": OPENING, "spender": SPENDING}.get(one.kind, ())
        found += [f"GRANT EXECUTE ON FUNCTION {function} TO {role}" for function in functions]
        if one.account:
            found.append(f"SELECT discreet.permit({_quote_text(one.account)}, {_quote_text(one.role)})")
    return (*found, f"REVOKE {name} FROM CURRENT_USER")


def grant(url: str, grants: Iterable[Grant], owner: str = OWNER, *, run: bool) -> tuple[str, ...]:
    """Write the statements of `grant_sql` for a ledger as it stands, and run them.

    Args:
        url: of a server.
        grants: of roles that are there.
        owner: made where it is not there.
        run: whether they are run, all or none.

    Returns:
        The statements.

    Raises:
        InputError: the server refuses one, or the ledger has another version; nothing changed.
    """
    database, listed = Database(url), tuple(grants)
    if database.sqlite:
        raise InputError("roles are PostgreSQL's; a file of SQLite belongs to whoever can write it")
    books = PostgresBooks()

    def work(connection: sa.Connection) -> tuple[str, ...]:
        books.require_safe(connection)
        version = books.version(connection)
        if version not in (None, VERSION):
            raise other_version(version, shown_address(url))
        found = grant_sql(listed, owner, make=version is None)
        for statement in found if run else ():
            connection.execution_options(no_parameters=True).exec_driver_sql(statement)
        return found

    return database.make(work) if run else database.read(work)


def _quote_name(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _quote_text(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"
