"""The ledger: how much of a limit was spent, by which release, on a database that outlives every process.

An account is opened once with a limit; a charge is one transaction, alone on the database, that either fits under the
limit or changes nothing. Rows are only ever added: there is no refund, because an output that may have been seen cannot
be unseen. Whatever is read is checked, for somebody else may have written it. This file never sees a record or a
release's content.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from discreet.errors import BudgetError, InputError, listed, shown
from discreet.privacy import ledger_tables as rows
from discreet.privacy.guarantee import Guarantee, Relation, as_rational, as_text, convert
from discreet.privacy.ledger_database import Database, shown_address

__all__ = ["Account", "Balance", "Charge", "Ledger"]

SUM_BITS = 10_000
"""Most bits of the numerator or denominator of all charges together: what is then left of a limit still prints."""

NAME_LIMIT = 80
"""Most characters of a new name: what a message quotes whole."""


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
            they are not there, and a new file is its owner's alone (0600). `sqlite://` lives in this process's memory.

    Raises:
        InputError: the URL cannot be understood, has an argument that could weaken the ledger (any for SQLite; for
            PostgreSQL those that do not say where the server is and how it is reached), or its database cannot be
            opened.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._database = Database(url)

    @property
    def place(self) -> str:
        """Where the ledger is: the whole path of its file, `:memory:`, or the server's address without a password."""
        return self._database.place

    def __repr__(self) -> str:
        """The address without its password."""
        return f"Ledger({shown_address(self.url)})"

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        """Copies and pickles are handles on the same database; one in memory (`sqlite://`) they cannot reach."""
        return (Ledger, (self._database.url,))

    def open(self, name: str, limit: Guarantee) -> Account:
        """Open an account.

        Args:
            name: new in this ledger; one per data set, not per analyst. At most 80 characters, none of them invisible.
            limit: all that may ever be spent on the records, for one relation and unit.

        Returns:
            The account.

        Raises:
            InputError: the name cannot be told from others by eye, or is already taken; or the limit is no guarantee.
        """
        _refuse_illegible(name, "an account's name")
        _refuse_other(limit, Guarantee, "the limit of an account")
        _refuse_illegible(limit.unit, "an account's unit")

        def add(connection: sa.Connection) -> None:
            if _find(connection, name) is not None:
                raise InputError(f"account {shown(name)} is open already; its limit cannot be changed")
            connection.execute(
                sa.insert(rows.accounts).values(
                    name=name,
                    epsilon=as_text(limit.epsilon),
                    delta=as_text(limit.delta),
                    relation=limit.relation.value,
                    unit=limit.unit,
                    opened=_today().isoformat(),
                )
            )

        self._database.write(add)
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
        found = Account(self, name)
        names = self.names()
        if name not in names:
            there = listed(names) or "none"
            raise InputError(
                f"no account {shown(name)} in ledger {shown_address(self.url)}; open it first (open now: {there})"
            )
        return found

    def names(self) -> tuple[str, ...]:
        """Names of all accounts, sorted."""
        statement = sa.select(rows.accounts.c.name).order_by(rows.accounts.c.name)
        return self._database.read(lambda connection: tuple(connection.scalars(statement)))


@dataclass(frozen=True)
class Account:
    """A handle on one account; it holds no budget itself, so copies spend from the same limit.

    Args:
        ledger: where the account is.
        name: of the account.

    Raises:
        InputError: the name is no text that a database could hold.
    """

    ledger: Ledger
    name: str

    def __post_init__(self) -> None:
        """Refuse what no account is called; names of old ledgers may look odd."""
        _refuse_other(self.ledger, Ledger, "the ledger of an account")
        _refuse_other(self.name, str, "an account's name")
        if any("\ud800" <= letter <= "\udfff" for letter in self.name):
            raise InputError(f"no account {shown(self.name)}: its name is not Unicode text")

    @property
    def limit(self) -> Guarantee:
        """All that may ever be spent."""
        return self.ledger._database.read(self._read_limit)

    def balance(self) -> Balance:
        """Limit and sum of the charges.

        Returns:
            The balance now.

        Raises:
            InputError: the account is not open, or somebody tampered with it.
        """
        return self.ledger._database.read(self._read_balance)

    def charges(self) -> tuple[Charge, ...]:
        """All charges, oldest first."""
        return self.ledger._database.read(self._read_charges)

    def check(self, guarantee: Guarantee) -> None:
        """Refuse now what `charge` would refuse, and write nothing.

        Args:
            guarantee: what is to be spent.

        Raises:
            BudgetError: it does not fit under the limit.
            InputError: it is for another unit, or for a relation that cannot be converted to the account's.
        """
        _refuse_other(guarantee, Guarantee, "what is to be spent")
        balance = self.balance()
        self._balance_after(balance, self._price(balance, guarantee))

    def charge(self, release: str, mechanism: str, guarantee: Guarantee) -> Balance:
        """Spend, in one transaction that is alone on the database, or change nothing.

        Args:
            release: id of the release that is paid for; new in this ledger.
            mechanism: its name.
            guarantee: what is spent; for another relation than the account's it is converted exactly.

        Returns:
            The balance after the charge.

        Raises:
            BudgetError: it does not fit under the limit; the message has what was spent, asked and left.
            InputError: it is for another unit, or for a relation that cannot be converted to the account's; or somebody
                tampered with the account.
            DiscreetError: the database failed while the charge was committed, so that it may have been charged.

        Guarantee:
            When this returns, the charge is on disk, and all charges of the account sum to no more than its limit,
            whichever processes and threads charge at the same time, and wherever any of them was killed.
        """
        _refuse_illegible(release, "the id of a release")
        _refuse_illegible(mechanism, "the name of a mechanism")
        _refuse_other(guarantee, Guarantee, "what is to be spent")

        def spend(connection: sa.Connection) -> Balance:
            balance = self._read_balance(connection)
            price = self._price(balance, guarantee)
            after = self._balance_after(balance, price)
            connection.execute(
                sa.insert(rows.charges).values(
                    account=self.name,
                    release=release,
                    mechanism=mechanism,
                    epsilon=as_text(price.epsilon),
                    delta=as_text(price.delta),
                    date=_today().isoformat(),
                )
            )
            return after

        return self.ledger._database.write(spend)

    def _read_limit(self, connection: sa.Connection) -> Guarantee:
        """The limit, inside a transaction."""
        row = _find(connection, self.name)
        if row is None:
            raise InputError(f"no account {shown(self.name)} in ledger {shown_address(self.ledger.url)}; open it first")
        try:
            return Guarantee(epsilon=row.epsilon, delta=row.delta, relation=row.relation, unit=row.unit)
        except InputError:
            raise self._tampering("its limit") from None

    def _read_balance(self, connection: sa.Connection) -> Balance:
        """Limit and sum of all charges, inside a transaction."""
        limit = self._read_limit(connection)
        epsilon = delta = Fraction()
        for row in connection.execute(self._select_charges()):
            try:
                amount = as_rational(row.epsilon, "epsilon"), as_rational(row.delta, "delta")
            except InputError:
                raise self._tampering(f"charge number {row.number}") from None
            if not (amount[0] > 0 and 0 <= amount[1] < 1):
                raise self._tampering(f"charge number {row.number}")
            epsilon, delta = epsilon + amount[0], delta + amount[1]
        return Balance(limit, epsilon, delta)

    def _read_charges(self, connection: sa.Connection) -> tuple[Charge, ...]:
        """All charges, inside a transaction."""
        limit = self._read_limit(connection)
        found = []
        for row in connection.execute(self._select_charges()):
            try:
                spent = Guarantee(epsilon=row.epsilon, delta=row.delta, relation=limit.relation, unit=limit.unit)
                found.append(Charge(row.release, row.mechanism, spent, date.fromisoformat(row.date)))
            except (ValueError, TypeError):  # an InputError is a ValueError
                raise self._tampering(f"charge number {row.number}") from None
        return tuple(found)

    def _select_charges(self) -> sa.Select[Any]:
        """Rows of this account, oldest first."""
        return sa.select(rows.charges).where(rows.charges.c.account == self.name).order_by(rows.charges.c.number)

    def _tampering(self, what: str) -> InputError:
        """The error for what no charge of ours writes."""
        return InputError(
            f"account {shown(self.name)} in ledger {shown_address(self.ledger.url)} was tampered with: {what} is not "
            "what discreet writes (a positive amount); nothing can be charged before the ledger is mended from a copy"
        )

    def _price(self, balance: Balance, guarantee: Guarantee) -> Guarantee:
        """What the account pays for a guarantee, in its own relation."""
        limit = balance.limit
        if Relation.METRIC in (guarantee.relation, limit.relation) and guarantee.relation is not limit.relation:
            raise InputError(
                f"account {shown(self.name)} has the limit {limit}, and the guarantee is {guarantee}: charges for "
                "records and charges under a metric never add up; open an account for each"
            )
        if guarantee.unit != limit.unit:
            raise InputError(
                f"account {shown(self.name)} protects one {limit.unit}, the guarantee one {guarantee.unit}"
            )
        if guarantee.relation is Relation.REPLACE and limit.relation is Relation.ADD_REMOVE:
            raise InputError(
                f"account {shown(self.name)} counts neighbours by adding or removing a record; a guarantee for "
                "replacing one cannot be charged to it; ask for an add-remove guarantee"
            )
        return convert(guarantee, limit.relation)

    def _balance_after(self, balance: Balance, price: Guarantee) -> Balance:
        """The balance once it is paid, if it fits."""
        if price.epsilon > balance.epsilon_left or price.delta > balance.delta_left:
            raise BudgetError(
                f"account {shown(self.name)} cannot pay: epsilon asked {as_text(price.epsilon)}, "
                f"spent {as_text(balance.epsilon_spent)} of {as_text(balance.limit.epsilon)}, "
                f"left {as_text(balance.epsilon_left)}; delta asked {as_text(price.delta)}, "
                f"left {as_text(balance.delta_left)}; nothing was charged"
            )
        after = Balance(balance.limit, balance.epsilon_spent + price.epsilon, balance.delta_spent + price.delta)
        for total in (after.epsilon_spent, after.delta_spent):
            if max(total.numerator, total.denominator).bit_length() > SUM_BITS:
                raise InputError(
                    f"account {shown(self.name)} adds its charges exactly, and with this one their sum would have too "
                    "many digits to be shown; ask for a budget with fewer digits; nothing was charged"
                )
        return after


def _find(connection: sa.Connection, name: str) -> Any:
    """The row of an account, or None."""
    return connection.execute(sa.select(rows.accounts).where(rows.accounts.c.name == name)).one_or_none()


def _refuse_other(value: object, kind: type, what: str) -> None:
    """Refuse a value of another type."""
    if not isinstance(value, kind):
        raise InputError(f"{what} must be a {kind.__name__}, not a {type(value).__name__}")


def _refuse_illegible(text: object, what: str) -> None:
    """Refuse a new name that a reader could take for another one, or that no terminal can show."""
    if not isinstance(text, str):
        raise InputError(f"{what} must be text, not a {type(text).__name__}")
    if not 0 < len(text) <= NAME_LIMIT or not text.isprintable() or text != text.strip():
        raise InputError(
            f"{what} is 1 to {NAME_LIMIT} characters that can all be seen, with no spaces at its ends; "
            f"not empty, not {shown(text)}"
        )
    if not unicodedata.is_normalized("NFC", text):
        raise InputError(f"{what} must be in Unicode's composed form (NFC), which {shown(text)} is not")


def _today() -> date:
    """The day, and nothing finer: the time of a release is not public."""
    return datetime.now(UTC).date()
