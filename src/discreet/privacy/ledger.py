"""The ledger: how much of a limit was spent, by which release, on a database that outlives every process.

An account is opened once with a limit that never rises; a charge is one transaction that either fits under the limit or
changes nothing. Entries are only ever added: there is no refund, because an output that may have been seen cannot be
unseen. Each has its place, the exact sum after it, and a digest of all before it (`ledger_entries.py`): a charge reads
a few rows, and `verify` finds the first that was changed. This file never sees a record or a release's content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import sqlalchemy as sa

from discreet.errors import BudgetError, InputError, listed, shown
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger_balance import Balance, Charge, balance_of, charge_of, limit_of
from discreet.privacy.ledger_books import VERSION, Books, PostgresBooks, SqliteBooks
from discreet.privacy.ledger_database import Database, shown_address
from discreet.privacy.ledger_entries import PERSON, PURPOSE, LedgerEntry, Refusal, Share, following, subjects_of, verify
from discreet.privacy.ledger_words import (
    beyond_limit,
    forgets,
    in_words,
    likeness,
    other_version,
    price_in,
    refuse_illegible,
    refuse_other,
)

T = TypeVar("T")


class Ledger:
    """Accounts of privacy budgets in a database, which no number of processes can overspend.

    Args:
        url: `sqlite:///budget.db`, or `postgresql://host/base`; tables are made when they are not there, and a new file
            is its owner's alone (0600). `sqlite://` lives in this process's memory.

    Raises:
        InputError: the URL cannot be understood, has an argument that could weaken the ledger (any for SQLite; for
            PostgreSQL those that do not say where the server is and how it is reached), or its database cannot be
            opened, is of another version, or could forget in a crash what was spent.

    Guarantee:
        Charges of an account never sum to more than its limit; see `Account.charge`.

    Example:
        >>> import discreet as dc
        >>> ledger = dc.Ledger("sqlite://")  # in memory; sqlite:///budget.db or postgresql://host/base to keep it
        >>> limit = dc.Guarantee(epsilon=3, delta=0, relation="add-remove", unit="record")
        >>> account = ledger.open("patients-2026", limit)
        >>> ledger.names(), account.balance().epsilon_left
        (('patients-2026',), Fraction(3, 1))
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._database = Database(url)
        self._books: Books = SqliteBooks() if self._database.sqlite else PostgresBooks()
        self._limits: dict[str, Guarantee] = {}
        version = self._read(self._find_version)
        if version is None:
            version = self._run_in_words(lambda: self._database.make(self._make_tables))
        if version != VERSION:
            raise other_version(version, shown_address(url))

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
        """Open an account with a limit that never rises.

        Args:
            name: new in this ledger; one per data set, not per analyst. At most 80 characters, none of them invisible,
                and not to be taken for another account's.
            limit: all that may ever be spent on the records, for one relation and unit.

        Returns:
            The account.

        Raises:
            InputError: the name cannot be told from others by eye, or is already taken; or the limit is no guarantee.
        """
        refuse_illegible(name, "an account's name")
        refuse_other(limit, Guarantee, "the limit of an account")
        refuse_illegible(limit.unit, "an account's unit")
        promised = {"relation": limit.relation.value, "unit": limit.unit}
        draft = LedgerEntry(name, 0, "opened", epsilon=str(limit.epsilon), delta=str(limit.delta), **promised)

        def add(connection: sa.Connection) -> LedgerEntry:
            for other in self._books.names(connection):
                if other != name and likeness(other) == likeness(name):
                    raise InputError(
                        f"account {shown(name)} would look like {shown(other)}, which is open; take another name"
                    )
            return self._books.append(connection, draft)

        def settled(connection: sa.Connection) -> LedgerEntry | None:
            found = self._books.first(connection, name) if name in self._books.names(connection) else None
            return found if found is not None and found.is_for(draft) else None

        self._run_in_words(lambda: self._database.write(add, settled, name), name)
        return Account(self, name)

    def account(self, name: str, *, purpose: str = "", request: str = "") -> Account:
        """Find an account that was opened before, in this program or another.

        Args:
            name: as it was opened, or one that looks like it.
            purpose: what is charged through this handle is for; kept and shown, and perhaps limited.
            request: key of what is charged through this handle; see `Account.charge`.

        Returns:
            The account.

        Raises:
            InputError: there is none of this name; the message lists those there are.
        """
        found = Account(self, name, purpose, request)
        names = self.names()
        if name in names:
            return found
        alike = [other for other in names if likeness(other) == likeness(name)]
        if len(alike) != 1:
            there = listed(names) or "none"
            where = f"ledger {shown_address(self.url)}; open it first (open now: {there}){forgets(self.place)}"
            raise InputError(f"no account {shown(name)} in {where}")
        return replace(found, name=alike[0])

    def names(self) -> tuple[str, ...]:
        """Names of all accounts, sorted.

        Returns:
            The names.
        """
        return self._read(self._books.names)

    @property
    def durability(self) -> str:
        """Where a charge is when it returns, and what may lose it all the same, in one line."""
        return self._read(self._books.durability)

    def paid(self, release: str) -> tuple[str, Charge] | None:
        """The charge for a release: what to ask where a program did not learn whether it had paid.

        Args:
            release: its id.

        Returns:
            (name of the account, the charge); None where nothing was charged for it.
        """
        if not isinstance(release, str) or any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in release):
            return None  # no text that every database could compare

        def find(connection: sa.Connection) -> tuple[str, Charge] | None:
            entry = self._books.paid(connection, release)
            return (entry.account, charge_of(self._books.first(connection, entry.account), entry)) if entry else None

        return self._read(find)

    def _read(self, work: Callable[[sa.Connection], T], name: str = "") -> T:
        """Read in one transaction; refusals in words."""
        return self._run_in_words(lambda: self._database.read(work), name)

    def _find_limit(self, connection: sa.Connection, name: str) -> Guarantee:
        """Find the limit that an account was opened with, which never changes: read once."""
        if name not in self._limits:
            self._limits[name] = limit_of(self._books.first(connection, name))
        return self._limits[name]

    def _find_version(self, connection: sa.Connection) -> int | None:
        """Find the version of the tables, in a database that can be relied on."""
        self._books.require_safe(connection)
        return self._books.version(connection)

    def _make_tables(self, connection: sa.Connection) -> int:
        """Make the tables, unless another process was faster, and return their version."""
        found = self._books.version(connection)
        if found is None:
            self._books.make(connection)
        return VERSION if found is None else found

    def _run_in_words(self, work: Callable[[], T], name: str = "") -> T:
        """Run the work; refusals are told in words."""
        try:
            return work()
        except Refusal as refusal:
            error = in_words(refusal, name, shown_address(self.url))
        raise error


@dataclass(frozen=True)
class Account:
    """A handle on one account; it holds no budget itself, so copies spend from the same limit.

    Args:
        ledger: where the account is.
        name: of the account.
        purpose: of what is charged through this handle.
        request: key of what is charged through this handle.

    Raises:
        InputError: the name is no text that a database could hold.

    Guarantee:
        See `charge`: what was spent through all handles sums to no more than the limit.

    Example:
        >>> import discreet as dc
        >>> ledger = dc.Ledger("sqlite://")  # in memory; sqlite:///budget.db or postgresql://host/base to keep it
        >>> limit = dc.Guarantee(epsilon=3, delta=0, relation="add-remove", unit="record")
        >>> account = ledger.open("patients-2026", limit)
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> account.charge("a-release", "laplace", promise).epsilon_left
        Fraction(2, 1)
        >>> [(charge.release, charge.mechanism) for charge in account.charges()]
        [('a-release', 'laplace')]
    """

    ledger: Ledger
    name: str
    purpose: str = ""
    request: str = ""

    def __post_init__(self) -> None:
        """Refuse what no account is called; names of old ledgers may look odd."""
        refuse_other(self.ledger, Ledger, "the ledger of an account")
        refuse_other(self.name, str, "an account's name")
        if any("\ud800" <= letter <= "\udfff" for letter in self.name):
            raise InputError(f"no account {shown(self.name)}: its name is not Unicode text")
        for text, what in ((self.purpose, "the purpose of a charge"), (self.request, "the key of a request")):
            if text != "":
                refuse_illegible(text, what)

    @property
    def id(self) -> str | None:
        """Random id of the account in all its releases: that of the first of them; None before there is one."""
        return self._read(lambda connection: self._books.first_release(connection, self.name))

    @property
    def limit(self) -> Guarantee:
        """All that may ever be spent from the account."""
        return self.balance().limit

    def balance(self) -> Balance:
        """Read the limit and the sum of the charges.

        Returns:
            The balance now.

        Raises:
            InputError: the account is not open, or somebody tampered with its last entry or its balance.
        """
        return self._read(lambda connection: self._find_state(connection)[0])

    def shares(self) -> dict[str, Balance]:
        """Balances of the people ("person NAME") and purposes ("purpose TEXT") that have a limit of their own.

        Returns:
            Balances by subject, sorted; empty where nobody has a limit of their own.

        Raises:
            InputError: as of `balance`.
        """

        def read(connection: sa.Connection) -> dict[str, Balance]:
            whole = self._find_state(connection)[0]
            shares = self._books.shares(connection, self.name)
            return {
                subject: balance_of(whole.limit, share)
                for subject, share in sorted(shares.items())
                if subject and share.epsilon_limit
            }

        return self._read(read)

    def charges(self) -> tuple[Charge, ...]:
        """Read all charges, oldest first, as they stand: `verify` holds them against their digests.

        Returns:
            The charges.

        Raises:
            InputError: the account is not open, or a row is not what discreet wrote.
        """

        def read(connection: sa.Connection) -> tuple[Charge, ...]:
            first = self._books.first(connection, self.name)
            entries = self._books.entries(connection, self.name)
            return tuple(charge_of(first, entry) for entry in entries if entry.kind == "charged")

        return self._read(read)

    def verify(self) -> LedgerEntry:
        """Compute all entries and balances once more from the first on, and compare.

        Returns:
            The last entry. Whoever keeps its place and digest elsewhere can tell later that nothing before it changed.

        Raises:
            InputError: the account is not open, or something in it is not what follows from what stands before it; the
                message names the first entry that does not fit.
        """
        return self._read(self._verify_all)[-1]

    def export(self) -> dict[str, object]:
        """Write all entries, verified, as a document of JSON that `verify_export` checks without the database.

        Returns:
            The document.

        Raises:
            InputError: as of `verify`.
        """
        return {
            "format": "discreet ledger account",
            "version": VERSION,
            "account": self.name,
            "entries": [asdict(entry) for entry in self._read(self._verify_all)],
        }

    def check(self, guarantee: Guarantee) -> None:
        """Refuse now what `charge` would refuse, and write nothing.

        Args:
            guarantee: what is to be spent.

        Raises:
            BudgetError: it does not fit under the limit.
            InputError: it is for another unit, or for a relation that cannot be converted to the account's.
        """
        refuse_other(guarantee, Guarantee, "what is to be spent")

        def read(connection: sa.Connection) -> None:
            _, last, held = self._find_state(connection)
            draft = replace(self._draft(connection, "r", "m", guarantee), who=self._books.user(connection))
            found = (self._books.share(connection, self.name, subject) for subject in subjects_of(draft)[1:])
            following(last, {"": held, **{share.subject: share for share in found if share is not None}}, draft)

        self._pay(lambda: self.ledger._database.read(read), guarantee)

    def charge(self, release: str, mechanism: str, guarantee: Guarantee, *, anew: bool = False) -> Balance:
        """Spend, in one transaction, or change nothing.

        Args:
            release: id of the release that is paid for; new in this ledger.
            mechanism: its name.
            guarantee: what is spent; for another relation than the account's it is converted exactly.
            anew: refuse a request that was charged before: what is paid for would be drawn a second time.

        Returns:
            The balance after the charge. A request of this handle that was charged before, by the same user, for the
            same amount, mechanism and purpose, is not charged again.

        Raises:
            BudgetError: it does not fit under a limit; the message has what was spent, asked and left.
            InputError: it is for another unit, or for a relation that cannot be converted to the account's; or somebody
                tampered with the account, or it is closed. Nothing was charged.
            DiscreetError: the database failed while the charge was committed, and cannot be asked what became of it.

        Guarantee:
            When this returns, the charge is on disk, and all charges of the account sum to no more than its limit,
            whichever processes and threads charge at the same time, and wherever any of them was killed. On PostgreSQL
            that holds whatever others do who may only charge.
        """
        refuse_illegible(release, "the id of a release")
        refuse_illegible(mechanism, "the name of a mechanism")
        refuse_other(guarantee, Guarantee, "what is to be spent")

        def spend(connection: sa.Connection) -> tuple[LedgerEntry, Balance]:
            made = self._books.append(connection, self._draft(connection, release, mechanism, guarantee))
            return made, self._find_balance(connection, made)

        def settled(connection: sa.Connection) -> tuple[LedgerEntry, Balance] | None:
            made = self._books.settled(connection, self.name, release)
            asked = self._draft(connection, release, mechanism, guarantee)
            # Another's charge under the same id is not this one.
            return (made, self._find_balance(connection, made)) if made is not None and made.is_for(asked) else None

        made, balance = self._pay(lambda: self.ledger._database.write(spend, settled, release), guarantee)
        if anew and made.release != release:
            raise InputError(
                f"request {shown(self.request)} was charged before, for release {made.release}: look for its output, "
                "because drawing it again would cost again; nothing more was charged"
            )
        return balance

    def lower(self, limit: Guarantee, *, person: str = "", purpose: str = "") -> None:
        """Lower a limit, for good: of the account, or of a person or a purpose in it.

        Args:
            limit: at most what it was, in the account's relation and unit.
            person: name of a user of the server (of SQLite: of the system, whose word is all there is).
            purpose: as of an account's handle.

        Raises:
            InputError: the limit would rise, or is for another relation or unit.
        """
        refuse_other(limit, Guarantee, "the limit of an account")
        if person and purpose:
            raise InputError("a limit is for a person or a purpose, not for both")
        if person or purpose:
            refuse_illegible(person or purpose, "a person or a purpose")
        whose = PERSON + person if person else PURPOSE + purpose if purpose else ""
        own = self.limit
        if (limit.relation, limit.unit) != (own.relation, own.unit):
            raise InputError(
                f"account {shown(self.name)} is for {own.relation} and one {own.unit}; so is each limit in it"
            )
        self._write(
            LedgerEntry(self.name, 0, "limited", epsilon=str(limit.epsilon), delta=str(limit.delta), subject=whose)
        )

    def close(self) -> None:
        """Close the account, for good: nothing can be charged any more.

        Raises:
            InputError: it is closed already.
        """
        self._write(LedgerEntry(self.name, 0, "closed"))

    @property
    def _books(self) -> Books:
        """The books of the ledger."""
        return self.ledger._books

    def _read(self, work: Callable[[sa.Connection], T]) -> T:
        """Read in one transaction; refusals in words."""
        return self.ledger._read(work, self.name)

    def _write(self, draft: LedgerEntry) -> None:
        """Write an entry that charges nothing."""

        def settled(connection: sa.Connection) -> LedgerEntry | None:
            last = self._books.account_share(connection, self.name)[1]
            same = ("kind", "subject", *(() if draft.kind == "closed" else ("epsilon", "delta")))
            return last if all(getattr(last, name) == getattr(draft, name) for name in same) else None

        def work() -> LedgerEntry:
            return self.ledger._database.write(lambda one: self._books.append(one, draft), settled, self.name)

        self.ledger._run_in_words(work, self.name)

    def _pay(self, work: Callable[[], T], guarantee: Guarantee) -> T:
        """Run the work that pays; what goes beyond a limit is told with the figures of that limit."""
        try:
            return work()
        except Refusal as refusal:
            found = refusal
        if found.reason == "limit":
            raise self._read(lambda connection: self._explain_limit(connection, found.detail, guarantee))
        raise in_words(found, self.name, shown_address(self.ledger.url))

    def _explain_limit(self, connection: sa.Connection, subject: str, guarantee: Guarantee) -> BudgetError:
        """Make the error for a price beyond the limit of a subject."""
        own = self.ledger._find_limit(connection, self.name)
        share = self._books.share(connection, self.name, subject)
        assert share is not None, "it refused"
        balance, price = balance_of(own, share), price_in(self.name, own, guarantee)
        return beyond_limit(self.name, subject, balance, price)

    def _find_balance(self, connection: sa.Connection, made: LedgerEntry) -> Balance:
        """Find the balance that a charge of this transaction left; that of a request made before is today's."""
        own, share = self.ledger._find_limit(connection, self.name), self._books.share(connection, self.name, "")
        assert share is not None, f"entry {made.sequence} was made"
        return balance_of(own, share)

    def _draft(self, connection: sa.Connection, release: str, mechanism: str, guarantee: Guarantee) -> LedgerEntry:
        """Draft a charge, in the account's relation."""
        price = price_in(self.name, self.ledger._find_limit(connection, self.name), guarantee)
        return LedgerEntry(
            self.name, 0, "charged", release, mechanism, str(price.epsilon), str(price.delta), purpose=self.purpose,
            request=self.request,
        )  # fmt: skip

    def _find_state(self, connection: sa.Connection) -> tuple[Balance, LedgerEntry, Share]:
        """Find the balance, the last entry, and the row that says it, inside a transaction."""
        share, last = self._books.account_share(connection, self.name)
        balance = balance_of(self.ledger._find_limit(connection, self.name), share)
        return replace(balance, closed=last.kind == "closed"), last, share

    def _verify_all(self, connection: sa.Connection) -> tuple[LedgerEntry, ...]:
        """Read all entries, and verify them."""
        self._books.first(connection, self.name)
        return verify(self._books.entries(connection, self.name), self._books.shares(connection, self.name))
