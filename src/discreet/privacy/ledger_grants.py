"""Roles of a ledger on PostgreSQL as SQL statements: its owner, openers, spenders and auditors.

The owner cannot log in: spenders call its functions. Roles are the database's, and must exist before a grant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from discreet.errors import InputError, shown
from discreet.privacy.ledger_books import OLD_VERSION, VERSION, PostgresBooks, making_sql, renewing_sql
from discreet.privacy.ledger_database import Database, shown_address
from discreet.privacy.ledger_words import other_version

OWNER = "discreet_owner"
"""Role that owns a ledger, and cannot log in."""

OPENING = (
    "discreet.open(text, text, text, text, text)", "discreet.lower(text, text, text, text, text)",
    "discreet.close(text)", "discreet.permit(text, text)",
)  # fmt: skip
SPENDING = (f"discreet.charge({', '.join(['text'] * 10)})", "discreet.settled(text, text)")

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
    """Rights of a role.

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
            InputError: the text has another form.
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


def grant_sql(grants: Iterable[Grant], owner: str = OWNER, *, version: int | None = None) -> tuple[str, ...]:
    """Write the SQL statements that make a ledger, set its owner, and grant rights to roles.

    Args:
        grants: to existing roles.
        owner: role, made if missing.
        version: of the ledger, which is made if there is none, and renewed if it is old.

    Returns:
        Statements for one transaction of a role that may create roles and schemas.
    """
    name = _quote_name(owner)
    statements = [
        f"DO $$ BEGIN CREATE ROLE {name} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        f"GRANT {name} TO CURRENT_USER",
        *(["CREATE SCHEMA discreet", making_sql().rstrip().removesuffix(";")] if version is None else []),
        *([renewing_sql().rstrip().removesuffix(";")] if version == OLD_VERSION else []),
        f"ALTER SCHEMA discreet OWNER TO {name}",
        GIVE_TO_OWNER.strip().format(owner=name),
    ]
    for each in grants:
        role = _quote_name(each.role)
        statements += [
            f"GRANT USAGE ON SCHEMA discreet TO {role}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA discreet TO {role}",
        ]
        functions = {"opener": OPENING, "spender": SPENDING}.get(each.kind, ())
        statements += [f"GRANT EXECUTE ON FUNCTION {function} TO {role}" for function in functions]
        if each.account:
            statements.append(f"SELECT discreet.permit({_quote_text(each.account)}, {_quote_text(each.role)})")
    return (*statements, f"REVOKE {name} FROM CURRENT_USER")


def grant(url: str, grants: Iterable[Grant], owner: str = OWNER, *, run: bool) -> tuple[str, ...]:
    """Write the statements of `grant_sql` for a ledger, and run them on request.

    Args:
        url: of a server.
        grants: to existing roles.
        owner: role, made if missing.
        run: True runs them, all or none.

    Returns:
        The statements.

    Raises:
        InputError: the server refuses one, or the ledger has another version; nothing changed.
    """
    database, listed = Database(url), tuple(grants)
    if database.sqlite:
        raise InputError("only PostgreSQL has roles; protect a file of SQLite by its permissions")
    books = PostgresBooks()

    def work(connection: sa.Connection) -> tuple[str, ...]:
        books.require_safe(connection)
        version = books.version(connection)
        if version not in (None, OLD_VERSION, VERSION):
            raise other_version(version, shown_address(url))
        statements = grant_sql(listed, owner, version=version)
        for statement in statements if run else ():
            connection.execution_options(no_parameters=True).exec_driver_sql(statement)
        return statements

    return database.make(work) if run else database.read(work)


def _quote_name(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _quote_text(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"
