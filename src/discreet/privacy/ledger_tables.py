"""Tables of the ledger, and what their database itself refuses: changed rows, and amounts that are not positive.

The triggers stand with the tables since the ledger was made; they are a lock against mistakes, not against whoever may
drop them. What is read is therefore checked again (`ledger.py`).
"""

from __future__ import annotations

import sqlalchemy as sa

__all__ = ["accounts", "charges", "tables"]

tables = sa.MetaData()
accounts = sa.Table(
    "discreet_accounts",
    tables,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("epsilon", sa.Text, nullable=False),
    sa.Column("delta", sa.Text, nullable=False),
    sa.Column("relation", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("opened", sa.Text, nullable=False),
)
charges = sa.Table(
    "discreet_charges",
    tables,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("account", sa.Text, sa.ForeignKey(accounts.c.name), nullable=False),
    sa.Column("release", sa.Text, nullable=False, unique=True),
    sa.Column("mechanism", sa.Text, nullable=False),
    sa.Column("epsilon", sa.Text, nullable=False),
    sa.Column("delta", sa.Text, nullable=False),
    sa.Column("date", sa.Text, nullable=False),
)


def _ddl(dialect: str, statement: str) -> sa.ExecutableDDLElement:
    """A statement for one kind of database."""
    return sa.DDL(statement.replace("%", "%%")).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]


def _append_only(table: str, same: str) -> list[sa.ExecutableDDLElement]:
    """Triggers that refuse to change or delete rows, for the databases that have them."""
    return [
        # SQLite's REPLACE deletes without asking the trigger on deletions.
        _ddl(
            "sqlite",
            f"CREATE TRIGGER IF NOT EXISTS {table}_no_replace BEFORE INSERT ON {table} "
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) "
            "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
        ),
        *(
            _ddl(
                "sqlite",
                f"CREATE TRIGGER IF NOT EXISTS {table}_no_{verb} BEFORE {verb} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
            )
            for verb in ("update", "delete")
        ),
        _ddl(
            "postgresql",
            "CREATE OR REPLACE FUNCTION discreet_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
        ),
        _ddl(
            "postgresql",
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION discreet_append_only()",
        ),
    ]


def _positive(table: str) -> list[sa.ExecutableDDLElement]:
    """Refuse amounts with a sign, an exponent or no digit but 0: `as_text` writes none of them."""
    return [
        _ddl(
            "sqlite",
            f"CREATE TRIGGER IF NOT EXISTS {table}_positive BEFORE INSERT ON {table} WHEN NOT ("
            "NEW.epsilon GLOB '[0-9]*' AND NEW.epsilon GLOB '*[1-9]*' AND NEW.epsilon NOT GLOB '*[^0-9./]*' "
            "AND NEW.delta GLOB '[0-9]*' AND NEW.delta NOT GLOB '*[^0-9./]*') "
            "BEGIN SELECT RAISE(ABORT, 'the ledger takes positive amounts only'); END",
        ),
        _ddl(
            "postgresql",
            f"ALTER TABLE {table} ADD CONSTRAINT {table}_positive CHECK ("
            "epsilon ~ '^[0-9][0-9./]*$' AND epsilon ~ '[1-9]' AND delta ~ '^[0-9][0-9./]*$')",
        ),
    ]


for _table, _same in (
    (accounts, "name = NEW.name"),
    (charges, "number = NEW.number OR release = NEW.release"),
):
    for _statement in (*_append_only(_table.name, _same), *_positive(_table.name)):
        sa.event.listen(_table, "after_create", _statement)
