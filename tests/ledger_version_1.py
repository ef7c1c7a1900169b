"""A ledger as version 1 made it, on both databases: its tables and triggers, and what its programs do to them."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Sequence

ACCOUNTS = (
    "CREATE TABLE discreet_accounts (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL, "
    "relation TEXT NOT NULL, unit TEXT NOT NULL, opened TEXT NOT NULL)"
)
CHARGES = (
    "CREATE TABLE discreet_charges (number {number}, account TEXT NOT NULL REFERENCES discreet_accounts (name), "
    "release TEXT NOT NULL UNIQUE, mechanism TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, "
    "date TEXT NOT NULL)"
)
SQLITE = (
    ACCOUNTS,
    CHARGES.format(number="INTEGER PRIMARY KEY"),
    *(
        f"CREATE TRIGGER discreet_{table}_no_{verb} BEFORE {verb} ON discreet_{table} "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        for table in ("accounts", "charges")
        for verb in ("update", "delete")
    ),
    "CREATE TRIGGER discreet_charges_no_replace BEFORE INSERT ON discreet_charges WHEN EXISTS (SELECT 1 FROM "
    "discreet_charges WHERE number = NEW.number OR release = NEW.release) "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
)
POSTGRESQL = (
    ACCOUNTS,
    CHARGES.format(number="SERIAL PRIMARY KEY"),
    "CREATE FUNCTION discreet_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
    *(
        f"CREATE TRIGGER discreet_{table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON discreet_{table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION discreet_append_only()"
        for table in ("accounts", "charges")
    ),
)
OPEN = "INSERT INTO discreet_accounts (name, epsilon, delta, relation, unit, opened) VALUES ({})"
CHARGE = "INSERT INTO discreet_charges (account, release, mechanism, epsilon, delta, date) VALUES ({})"


def run(url: str, statements: Sequence[str]) -> list[list[tuple[object, ...]]]:
    """Run statements past the package; the rows of those that return some."""
    if url.startswith("sqlite"):
        base = sqlite3.connect(url.removeprefix("sqlite:///"))
        try:
            found = [base.execute(statement).fetchall() for statement in statements]
            base.commit()
        finally:
            base.close()
        return found
    psycopg = importlib.import_module("psycopg")  # an extra
    found = []
    with psycopg.connect(url.replace("+psycopg", "")) as base:
        for statement in statements:
            cursor = base.execute(statement)
            found.append(cursor.fetchall() if cursor.description else [])
    return found


def written(*values: str) -> str:
    """Values in SQL."""
    return ", ".join(f"'{value}'" for value in values)


def make(url: str, charges: Sequence[tuple[str, str, str]] = (("r1", "1/3", "0"), ("r2", "0.1", "1e-7"))) -> None:
    """A ledger with the account `ward`, of epsilon 2, and charges (release, epsilon, delta)."""
    run(
        url,
        [
            *(SQLITE if url.startswith("sqlite") else POSTGRESQL),
            OPEN.format(written("ward", "2", "0.001", "add-remove", "record", "2026-01-02")),
            *(CHARGE.format(written("ward", name, "laplace", e, d, "2026-01-03")) for name, e, d in charges),
        ],
    )
