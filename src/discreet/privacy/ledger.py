"""The ledger: how much of a limit was spent, by which release, on a database that outlives every process.

An account is opened once with a limit; a charge is one serialised transaction that either fits under the limit or
changes nothing. Rows are only ever added: there is no refund, because an output that may have been seen cannot be
unseen, and triggers refuse updates and deletions by anybody else. This file never sees a record or a release's
content.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from discreet.errors import BudgetError, InputError
from discreet.privacy.guarantee import Guarantee, Relation, as_rational, as_text, convert

__all__ = ["Account", "Balance", "Charge", "Ledger"]

SUM_BITS = 10_000
"""Most bits of the numerator or denominator of all charges together: what is then left of a limit still prints."""

WAIT_S = 60
"""Seconds to wait for another process's transaction before giving up."""

_metadata = sa.MetaData()
_accounts = sa.Table(
    "discreet_accounts",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("epsilon", sa.Text, nullable=False),
    sa.Column("delta", sa.Text, nullable=False),
    sa.Column("relation", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("opened", sa.Text, nullable=False),
)
_charges = sa.Table(
    "discreet_charges",
    _metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("account", sa.Text, sa.ForeignKey(_accounts.c.name), nullable=False),
    sa.Column("release", sa.Text, nullable=False, unique=True),
    sa.Column("mechanism", sa.Text, nullable=False),
    sa.Column("epsilon", sa.Text, nullable=False),
    sa.Column("delta", sa.Text, nullable=False),
    sa.Column("date", sa.Text, nullable=False),
)


def _ddl(dialect: str, statement: str) -> sa.ExecutableDDLElement:
    """A statement for one kind of database."""
    return sa.DDL(statement).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]


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


for _table, _same in (
    (_accounts, "name = NEW.name"),
    (_charges, "number = NEW.number OR release = NEW.release"),
):
    for _trigger in _append_only(_table.name, _same):
        sa.event.listen(_table, "after_create", _trigger)


@dataclass(frozen=True)
class Charge:
    """One line of an account.

    Args:
        release: id of the release that was paid for.
        mechanism: its name.
        guarantee: what was spent, for the account's relation and unit.
        date: day of the charge (UTC).
    """

    release: str
    mechanism: str
    guarantee: Guarantee
    date: date


@dataclass(frozen=True)
class Balance:
    """State of an account: the limit, and what the charges so far sum to (exact; nats for epsilon)."""

    limit: Guarantee
    epsilon_spent: Fraction
    delta_spent: Fraction

    @property
    def epsilon_left(self) -> Fraction:
        """Epsilon that can still be spent."""
        return self.limit.epsilon - self.epsilon_spent

    @property
    def delta_left(self) -> Fraction:
        """Delta that can still be spent."""
        return self.limit.delta - self.delta_spent


class Ledger:
    """Accounts in a database.

    Args:
        url: an SQLAlchemy URL, such as `sqlite:///budget.db` or `postgresql+psycopg://host/base`; tables are made when
            they are not there.

    Raises:
        InputError: the URL cannot be understood or its database cannot be opened.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            address = sa.make_url(url)
            if address.get_backend_name() not in ("sqlite", "postgresql"):
                raise InputError(f"a ledger needs SQLite or PostgreSQL, not {address.get_backend_name()}")
            options = {"timeout": WAIT_S} if address.get_backend_name() == "sqlite" else {}
            self._engine = sa.create_engine(address, connect_args=options)
            if address.get_backend_name() == "sqlite":
                sa.event.listen(self._engine, "connect", _no_implicit_begin)
                sa.event.listen(self._engine, "begin", _begin_immediate)
            with self._transaction() as connection:
                _metadata.create_all(connection)
        except ModuleNotFoundError as error:
            raise InputError(f"ledger {_shown(url)} needs the package {error.name}; install it") from None
        except (sa.exc.ArgumentError, ValueError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot understand the address {_shown(url)}; try sqlite:///budget.db") from None

    def __repr__(self) -> str:
        """The address without its password."""
        return f"Ledger({_shown(self.url)})"

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        """Copies and pickles are handles on the same database; one in memory (`sqlite://`) they cannot reach."""
        return (Ledger, (self.url,))

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """One serialised transaction; a failure of the database is an error of ours, with nothing written."""
        failure = None
        try:
            with self._engine.begin() as connection:
                yield connection
        except (sa.exc.OperationalError, sa.exc.DatabaseError) as error:
            failure = " ".join(str(error.orig).split())
        if failure is not None:
            raise InputError(f"ledger {_shown(self.url)}: {failure}; nothing was charged")

    def open(self, name: str, limit: Guarantee) -> Account:
        """Open an account.

        Args:
            name: new in this ledger; one per data set, not per analyst.
            limit: all that may ever be spent on the records, for one relation and unit.

        Returns:
            The account.

        Raises:
            InputError: the name is empty or already taken.
        """
        if not name.strip():
            raise InputError("an account needs a name that is not empty")
        with self._transaction() as connection:
            if _find(connection, name) is not None:
                raise InputError(f"account {name!r} is open already; its limit cannot be changed")
            connection.execute(
                sa.insert(_accounts).values(
                    name=name,
                    epsilon=as_text(limit.epsilon),
                    delta=as_text(limit.delta),
                    relation=limit.relation.value,
                    unit=limit.unit,
                    opened=_today().isoformat(),
                )
            )
        return Account(self, name)

    def account(self, name: str) -> Account:
        """An account that is open.

        Args:
            name: as it was opened.

        Returns:
            The account.

        Raises:
            InputError: there is none of this name; the message lists those there are.
        """
        if name not in self.names():
            there = ", ".join(self.names()[:8]) or "none"
            raise InputError(f"no account {name!r} in ledger {_shown(self.url)}; open it first (open now: {there})")
        return Account(self, name)

    def names(self) -> tuple[str, ...]:
        """Names of all accounts, sorted."""
        with self._transaction() as connection:
            return tuple(connection.scalars(sa.select(_accounts.c.name).order_by(_accounts.c.name)))


@dataclass(frozen=True)
class Account:
    """A handle on one account; it holds no budget itself, so copies spend from the same limit.

    Args:
        ledger: where the account is.
        name: of the account.
    """

    ledger: Ledger
    name: str

    @property
    def limit(self) -> Guarantee:
        """All that may ever be spent."""
        return self.balance().limit

    def balance(self) -> Balance:
        """Limit and sum of the charges.

        Returns:
            The balance now.

        Raises:
            InputError: the account is not open.
        """
        with self.ledger._transaction() as connection:
            return self._balance(connection)

    def charges(self) -> tuple[Charge, ...]:
        """All charges, oldest first."""
        with self.ledger._transaction() as connection:
            limit = self._balance(connection).limit
            rows = connection.execute(
                sa.select(_charges).where(_charges.c.account == self.name).order_by(_charges.c.number)
            ).all()
        return tuple(
            Charge(
                release=row.release,
                mechanism=row.mechanism,
                guarantee=Guarantee(epsilon=row.epsilon, delta=row.delta, relation=limit.relation, unit=limit.unit),
                date=date.fromisoformat(row.date),
            )
            for row in rows
        )

    def check(self, guarantee: Guarantee) -> None:
        """Refuse now what `charge` would refuse, and write nothing.

        Args:
            guarantee: what is to be spent.

        Raises:
            BudgetError: it does not fit under the limit.
            InputError: it is for another unit, or for a relation that cannot be converted to the account's.
        """
        with self.ledger._transaction() as connection:
            self._fitting(connection, guarantee)

    def charge(self, release: str, mechanism: str, guarantee: Guarantee) -> Balance:
        """Spend, in one serialised transaction, or change nothing.

        Args:
            release: id of the release that is paid for; new in this ledger.
            mechanism: its name.
            guarantee: what is spent; for another relation than the account's it is converted exactly.

        Returns:
            The balance after the charge.

        Raises:
            BudgetError: it does not fit under the limit; the message has what was spent, asked and left.
            InputError: it is for another unit, or for a relation that cannot be converted to the account's.
        """
        with self.ledger._transaction() as connection:
            spent = self._fitting(connection, guarantee)
            connection.execute(
                sa.insert(_charges).values(
                    account=self.name,
                    release=release,
                    mechanism=mechanism,
                    epsilon=as_text(spent.epsilon),
                    delta=as_text(spent.delta),
                    date=_today().isoformat(),
                )
            )
            return self._balance(connection)

    def _balance(self, connection: sa.Connection) -> Balance:
        """Balance inside a transaction."""
        row = _find(connection, self.name)
        if row is None:
            raise InputError(f"no account {self.name!r} in ledger {_shown(self.ledger.url)}; open it first")
        limit = Guarantee(epsilon=row.epsilon, delta=row.delta, relation=row.relation, unit=row.unit)
        charged = connection.execute(
            sa.select(_charges.c.epsilon, _charges.c.delta).where(_charges.c.account == self.name)
        ).all()
        return Balance(
            limit,
            sum((as_rational(charge.epsilon, "epsilon") for charge in charged), Fraction()),
            sum((as_rational(charge.delta, "delta") for charge in charged), Fraction()),
        )

    def _fitting(self, connection: sa.Connection, guarantee: Guarantee) -> Guarantee:
        """What would be charged, in the account's relation, if it fits."""
        balance = self._balance(connection)
        limit = balance.limit
        if guarantee.unit != limit.unit:
            raise InputError(f"account {self.name!r} protects one {limit.unit}, the guarantee one {guarantee.unit}")
        if guarantee.relation is Relation.REPLACE and limit.relation is Relation.ADD_REMOVE:
            raise InputError(
                f"account {self.name!r} counts neighbours by adding or removing a record; a guarantee for replacing "
                "one cannot be charged to it; ask for an add-remove guarantee"
            )
        asked = convert(guarantee, limit.relation)
        if asked.epsilon > balance.epsilon_left or asked.delta > balance.delta_left:
            raise BudgetError(
                f"account {self.name!r} cannot pay: epsilon asked {as_text(asked.epsilon)}, "
                f"spent {as_text(balance.epsilon_spent)} of {as_text(limit.epsilon)}, "
                f"left {as_text(balance.epsilon_left)}; delta asked {as_text(asked.delta)}, "
                f"left {as_text(balance.delta_left)}; nothing was charged"
            )
        for sum_ in (balance.epsilon_spent + asked.epsilon, balance.delta_spent + asked.delta):
            if max(sum_.numerator, sum_.denominator).bit_length() > SUM_BITS:
                raise InputError(
                    f"account {self.name!r} adds its charges exactly, and with this one their sum would have too many "
                    "digits to be shown; ask for a budget with fewer digits; nothing was charged"
                )
        return asked


def _find(connection: sa.Connection, name: str) -> Any:
    """The row of an account, locked until the transaction ends where the database locks rows."""
    return connection.execute(sa.select(_accounts).where(_accounts.c.name == name).with_for_update()).one_or_none()


def _today() -> date:
    """The day, and nothing finer: the time of a release is not public."""
    return datetime.now(UTC).date()


def _shown(url: str) -> str:
    """The address without its password."""
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except (sa.exc.ArgumentError, ValueError):
        return "of the ledger"  # it may hold a password, and we cannot tell where


def _no_implicit_begin(connection: Any, _record: object) -> None:
    """Leave transactions to us: the driver's own would start too late to serialise readers that then write."""
    connection.isolation_level = None


def _begin_immediate(connection: sa.Connection) -> None:
    """Take SQLite's write lock before the balance is read, so that two processes never both fit the last charge."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
