"""The ledger: charges of releases against lifetime limits, in a database that survives every process.

An account is opened once with a limit that never rises. A charge is one transaction that either fits under the limit or
changes nothing. Entries are only added: there is no refund, because an output that may have been seen cannot be unseen.
Each entry has its number, the exact sum after it, and a digest of all before it (`ledger_entries.py`): a charge reads a
few rows, and `verify` finds the first changed one. This module never sees a record or a release's content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import sqlalchemy as sa

from discreet.errors import BudgetError, InputError, listed, shown
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.privacy.ledger_balance import Balance, Charge, balance_of, charge_of, limit_of
from discreet.privacy.ledger_books import OLD_VERSION, VERSION, Books, PostgresBooks, SqliteBooks
from discreet.privacy.ledger_database import Database, shown_address
from discreet.privacy.ledger_entries import PERSON, PURPOSE, LedgerEntry, Refusal, Share, following, subjects_of, verify
from discreet.privacy.ledger_losses import lowered_rho_limit, rho_in, with_loss
from discreet.privacy.ledger_words import (
    beyond_limit,
    confusable_key,
    error_for,
    in_memory_hint,
    other_version,
    price_in,
    refuse_illegible,
    refuse_other,
)

T = TypeVar("T")
DRAFTS = 5
"""Most drafts of a charge that others overtake."""


class Ledger:
    """Accounts of privacy budgets in a database that no number of processes can overspend.

    Args:
        url: `sqlite:///budget.db`, or `postgresql://host/base`; missing tables are made, and only the owner can access
            a new file (0600). `sqlite://` is in this process's memory.

    Raises:
        InputError: an invalid URL, one with an argument that could weaken the ledger (any for SQLite; for PostgreSQL
            all but those of the server's address and connection), or a database that cannot be opened, has another
            version, or could lose charges in a crash.

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
        if version not in (OLD_VERSION, VERSION):
            raise other_version(version, shown_address(url))

    @property
    def address(self) -> str:
        """Address of the ledger: absolute path of its file, `:memory:`, or the server's address without a password."""
        return self._database.address

    def __repr__(self) -> str:
        """Return the address without its password."""
        return f"Ledger({shown_address(self.url)})"

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        """Copy and pickle the handle; copies of one in memory (`sqlite://`) cannot reach it."""
        return (Ledger, (self._database.url,))

    def open(self, name: str, limit: Guarantee) -> Account:
        """Open an account with a limit that never rises.

        Args:
            name: new in this ledger; one per data set, not per analyst. At most 80 visible characters, not confusable
                with another account's name.
            limit: lifetime limit for the records, for one relation and unit.

        Returns:
            The account.

        Raises:
            InputError: the name is illegible, confusable with another, or taken; or the limit is no guarantee.
        """
        refuse_illegible(name, "an account's name")
        refuse_other(limit, Guarantee, "the limit of an account")
        refuse_illegible(limit.unit, "an account's unit")
        promised = {"relation": limit.relation.value, "unit": limit.unit}
        draft = LedgerEntry(name, 0, "opened", epsilon=str(limit.epsilon), delta=str(limit.delta), **promised)

        def add(connection: sa.Connection) -> LedgerEntry:
            for existing in self._books.names(connection):
                if existing != name and confusable_key(existing) == confusable_key(name):
                    raise InputError(
                        f"account {shown(name)} would look like the open account {shown(existing)}; use another name"
                    )
            return self._books.append(connection, draft)

        def find_existing(connection: sa.Connection) -> LedgerEntry | None:
            first = self._books.first(connection, name) if name in self._books.names(connection) else None
            return first if first is not None and first.is_for(draft) else None

        self._run_in_words(lambda: self._database.write(add, find_existing, name), name)
        return Account(self, name)

    def account(self, name: str, *, purpose: str = "", request: str = "") -> Account:
        """Find an open account.

        Args:
            name: of the account, or a name that looks like it.
            purpose: of charges through this handle; recorded, shown, and perhaps limited.
            request: key of charges through this handle; see `Account.charge`.

        Returns:
            The account.

        Raises:
            InputError: no account has this name; the message lists the open ones.
        """
        account = Account(self, name, purpose, request)
        names = self.names()
        if name in names:
            return account
        alike = [each for each in names if confusable_key(each) == confusable_key(name)]
        if len(alike) != 1:
            there = listed(names) or "none"
            where = f"ledger {shown_address(self.url)}; open it first (open now: {there}){in_memory_hint(self.address)}"
            raise InputError(f"no account {shown(name)} in {where}")
        return replace(account, name=alike[0])

    def names(self) -> tuple[str, ...]:
        """List the names of all accounts, sorted.

        Returns:
            The names.
        """
        return self._read(self._books.names)

    @property
    def durability(self) -> str:
        """Durability of a charge, in one line."""
        return self._read(self._books.durability)

    def paid(self, release: str) -> tuple[str, Charge] | None:
        """Find the charge for a release, if a program does not know whether it paid.

        Args:
            release: its id.

        Returns:
            (name of the account, the charge); None without a charge.
        """
        if not isinstance(release, str) or any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in release):
            return None  # not text that every database can compare

        def find(connection: sa.Connection) -> tuple[str, Charge] | None:
            entry = self._books.paid(connection, release)
            return (entry.account, charge_of(self._books.first(connection, entry.account), entry)) if entry else None

        return self._read(find)

    def _read(self, work: Callable[[sa.Connection], T], name: str = "") -> T:
        """Read in one transaction; turn refusals into errors."""
        return self._run_in_words(lambda: self._database.read(work), name)

    def _find_limit(self, connection: sa.Connection, name: str) -> Guarantee:
        """Find the limit that an account was opened with; it never changes, so it is read once."""
        if name not in self._limits:
            self._limits[name] = limit_of(self._books.first(connection, name))
        return self._limits[name]

    def _find_version(self, connection: sa.Connection) -> int | None:
        """Find the version of the tables, and check that the database is safe."""
        self._books.require_safe(connection)
        return self._books.version(connection)

    def _make_tables(self, connection: sa.Connection) -> int:
        """Make the tables, unless another process did, and return their version."""
        version = self._books.version(connection)
        if version is None:
            self._books.make(connection)
        return VERSION if version is None else version

    def _run_in_words(self, work: Callable[[], T], name: str = "") -> T:
        """Run work; turn refusals into errors."""
        try:
            return work()
        except Refusal as refusal:
            error = error_for(refusal, name, shown_address(self.url))
        raise error


@dataclass(frozen=True)
class Account:
    """Handle on an account; it has no budget itself, so copies spend from the same limit.

    Args:
        ledger: of the account.
        name: of the account.
        purpose: of charges through this handle.
        request: key of charges through this handle.

    Raises:
        InputError: the name is not text that a database can store.

    Guarantee:
        See `charge`: charges through all handles sum to no more than the limit.

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
        """Refuse an invalid name; names in old ledgers may look odd."""
        refuse_other(self.ledger, Ledger, "the ledger of an account")
        refuse_other(self.name, str, "an account's name")
        if any("\ud800" <= letter <= "\udfff" for letter in self.name):
            raise InputError(f"no account {shown(self.name)}: its name is not Unicode text")
        for text, label in ((self.purpose, "the purpose of a charge"), (self.request, "the key of a request")):
            if text != "":
                refuse_illegible(text, label)

    @property
    def id(self) -> str | None:
        """Random id of the account in all its releases: that of the first of them; None before the first."""
        return self._read(lambda connection: self._books.first_release(connection, self.name))

    @property
    def limit(self) -> Guarantee:
        """Lifetime limit of the account."""
        return self.balance().limit

    def balance(self) -> Balance:
        """Read the limit and the sum of the charges.

        Returns:
            The balance now.

        Raises:
            InputError: the account is not open, or its last entry or its balance was changed.
        """
        return self._read(lambda connection: self._find_state(connection)[0])

    def shares(self) -> dict[str, Balance]:
        """Read the balances of people ("person NAME") and purposes ("purpose TEXT") that have a limit of their own.

        Returns:
            Balances by subject, sorted; empty without such limits.

        Raises:
            InputError: as in `balance`.
        """

        def read(connection: sa.Connection) -> dict[str, Balance]:
            account_balance = self._find_state(connection)[0]
            shares = self._books.shares(connection, self.name)
            return {
                subject: balance_of(account_balance.limit, share)
                for subject, share in sorted(shares.items())
                if subject and share.epsilon_limit
            }

        return self._read(read)

    def charges(self) -> tuple[Charge, ...]:
        """Read all charges, oldest first, without verifying digests; see `verify`.

        Returns:
            The charges.

        Raises:
            InputError: the account is not open, or a row was changed.
        """

        def read(connection: sa.Connection) -> tuple[Charge, ...]:
            first = self._books.first(connection, self.name)
            entries = self._books.entries(connection, self.name)
            return tuple(charge_of(first, entry) for entry in entries if entry.kind == "charged")

        return self._read(read)

    def verify(self) -> LedgerEntry:
        """Recompute all entries and balances from the first on, and compare.

        Returns:
            The last entry. Its number and digest, kept elsewhere, prove later that no entry before it changed.

        Raises:
            InputError: the account is not open, or an entry or balance does not follow from those before it; the
                message names the first such entry.
        """
        return self._read(self._verify_all)[-1]

    def export(self) -> dict[str, object]:
        """Write all entries, verified, as a JSON document that `verify_export` checks without the database.

        Returns:
            The document.

        Raises:
            InputError: as in `verify`.
        """
        return {
            "format": "discreet ledger account",
            "version": VERSION,
            "account": self.name,
            "entries": [entry.row() for entry in self._read(self._verify_all)],
        }

    def check(self, guarantee: Guarantee, *, rho: Fraction | None = None) -> None:
        """Refuse what `charge` would refuse, without writing.

        Args:
            guarantee: to spend.
            rho: as in `charge`.

        Raises:
            BudgetError: it does not fit under the limit.
            InputError: it is for another unit, or for a relation that cannot be converted to the account's.
        """
        refuse_other(guarantee, Guarantee, "the guarantee to spend")

        def read(connection: sa.Connection) -> None:
            _, last, held = self._find_state(connection)
            draft = replace(self._draft(connection, "r", "m", guarantee, rho), user=self._books.user(connection))
            listed_shares = (self._books.share(connection, self.name, subject) for subject in subjects_of(draft)[1:])
            following(last, {"": held, **{share.subject: share for share in listed_shares if share is not None}}, draft)

        self._pay(lambda: self.ledger._database.read(read), guarantee, rho)

    def charge(
        self, release: str, mechanism: str, guarantee: Guarantee, *, rho: Fraction | None = None, anew: bool = False
    ) -> Balance:
        """Spend in one transaction, or change nothing.

        Args:
            release: id of the release; new in this ledger.
            mechanism: its name.
            guarantee: to spend; one for another relation than the account's is converted exactly.
            rho: Gaussian loss of the release for the guarantee's relation and unit, with no delta beside it
                (docs/theory.md, section 12); None for that of the guarantee. Accounts with a delta add it up from the
                first small charge on; it counts where it allows more than epsilons and deltas do.
            anew: True refuses a request that was charged before: its release would be drawn a second time.

        Returns:
            The balance after the charge. A request of this handle that was charged before, by the same user, for the
            same amount, mechanism and purpose, is not charged again.

        Raises:
            BudgetError: it does not fit under a limit; the message has the amounts spent, requested and left.
            InputError: it is for another unit, or for a relation that cannot be converted to the account's; or the
                account was changed or is closed. Nothing was charged.
            DiscreetError: the database failed during the commit, and cannot tell the outcome.

        Guarantee:
            When this returns, the charge is on disk, and all charges of the account together keep its limit, however
            each was chosen by the outputs of those before: their epsilons and deltas sum to no more, or their Gaussian
            losses do (docs/theory.md, section 12). It holds whichever processes and threads charge at the same time,
            and wherever any of them was killed; on PostgreSQL also against users who may only charge.
        """
        refuse_illegible(release, "the id of a release")
        refuse_illegible(mechanism, "the name of a mechanism")
        refuse_other(guarantee, Guarantee, "the guarantee to spend")

        def spend(connection: sa.Connection) -> tuple[LedgerEntry, Balance]:
            entry = self._books.append(connection, self._draft(connection, release, mechanism, guarantee, rho))
            return entry, self._find_balance(connection, entry)

        def find_existing(connection: sa.Connection) -> tuple[LedgerEntry, Balance] | None:
            paid = self._books.find_existing(connection, self.name, release)
            draft = self._draft(connection, release, mechanism, guarantee, rho)
            # Another user's charge under the same id does not count.
            return (paid, self._find_balance(connection, paid)) if paid is not None and paid.is_for(draft) else None

        paid, balance = self._pay(lambda: self.ledger._database.write(spend, find_existing, release), guarantee, rho)
        if anew and paid.release != release:
            raise InputError(
                f"request {shown(self.request)} was charged before, for release {paid.release}: find its output, "
                "because drawing again would cost again; nothing more was charged"
            )
        return balance

    def lower(self, limit: Guarantee, *, person: str = "", purpose: str = "") -> None:
        """Lower a limit, for good: of the account, or of a person or a purpose in it.

        Args:
            limit: at most the current one, in the account's relation and unit.
            person: name of a user of the server (for SQLite: of the system, which is not verified).
            purpose: as in an account's handle.

        Raises:
            InputError: the limit would rise, or is for another relation or unit.
        """
        refuse_other(limit, Guarantee, "the limit of an account")
        if person and purpose:
            raise InputError("a limit is for a person or a purpose, not for both")
        if person or purpose:
            refuse_illegible(person or purpose, "a person or a purpose")
        whose = PERSON + person if person else PURPOSE + purpose if purpose else ""
        current = self.limit
        if (limit.relation, limit.unit) != (current.relation, current.unit):
            raise InputError(
                f"account {shown(self.name)} is for {current.relation} and one {current.unit}; so is each limit in it"
            )
        share = self._read(lambda connection: self._books.share(connection, self.name, whose))
        rho_limit = lowered_rho_limit(share, limit) if share is not None and share.concentrated else "0"
        self._write(
            LedgerEntry(
                self.name, 0, "limited", epsilon=str(limit.epsilon), delta=str(limit.delta), subject=whose,
                rho_limit=rho_limit,
            )
        )  # fmt: skip

    def close(self) -> None:
        """Close the account, for good: further charges are refused.

        Raises:
            InputError: it is closed already.
        """
        self._write(LedgerEntry(self.name, 0, "closed"))

    @property
    def _books(self) -> Books:
        """Books of the ledger."""
        return self.ledger._books

    def _read(self, work: Callable[[sa.Connection], T]) -> T:
        """Read in one transaction; turn refusals into errors."""
        return self.ledger._read(work, self.name)

    def _write(self, draft: LedgerEntry) -> None:
        """Write an entry that is no charge."""

        def find_existing(connection: sa.Connection) -> LedgerEntry | None:
            last = self._books.account_share(connection, self.name)[1]
            same = ("kind", "subject", *(() if draft.kind == "closed" else ("epsilon", "delta")))
            return last if all(getattr(last, name) == getattr(draft, name) for name in same) else None

        def work() -> LedgerEntry:
            return self.ledger._database.write(lambda each: self._books.append(each, draft), find_existing, self.name)

        self.ledger._run_in_words(work, self.name)

    def _pay(self, work: Callable[[], T], guarantee: Guarantee, rho: Fraction | None) -> T:
        """Run work that pays; an error beyond a limit has the figures of that limit.

        On a server another charge may come between a draft and its charge; a limit of losses that the draft sets no
        longer fits then, and the work is drafted again.
        """
        for _ in range(DRAFTS):
            try:
                return work()
            except Refusal as refusal:
                refused = refusal
            if refused.reason != "rho":
                break
        if refused.reason == "limit":
            raise self._read(lambda connection: self._explain_limit(connection, refused.detail, guarantee, rho))
        raise error_for(refused, self.name, shown_address(self.ledger.url))

    def _explain_limit(
        self, connection: sa.Connection, subject: str, guarantee: Guarantee, rho: Fraction | None
    ) -> BudgetError:
        """Make the error for a price beyond the limit of a subject."""
        limit = self.ledger._find_limit(connection, self.name)
        share = self._books.share(connection, self.name, subject)
        assert share is not None, "it refused"
        balance, price = balance_of(limit, share), price_in(self.name, limit, guarantee)
        return beyond_limit(self.name, subject, balance, price, rho_in(limit, guarantee, price, rho)[0])

    def _find_balance(self, connection: sa.Connection, entry: LedgerEntry) -> Balance:
        """Find the balance after a charge of this transaction; for an earlier request, the current one."""
        limit, share = self.ledger._find_limit(connection, self.name), self._books.share(connection, self.name, "")
        assert share is not None, f"entry {entry.sequence} exists"
        return balance_of(limit, share)

    def _draft(
        self, connection: sa.Connection, release: str, mechanism: str, guarantee: Guarantee, rho: Fraction | None
    ) -> LedgerEntry:
        """Draft a charge in the account's relation."""
        limit = self.ledger._find_limit(connection, self.name)
        price = price_in(self.name, limit, guarantee)
        draft = LedgerEntry(
            self.name, 0, "charged", release, mechanism, str(price.epsilon), str(price.delta), purpose=self.purpose,
            request=self.request,
        )  # fmt: skip
        if not limit.delta or limit.relation is Relation.METRIC:  # Gaussian losses grow with squared distances
            return draft
        share = self._books.share(connection, self.name, "")
        return draft if share is None else with_loss(draft, share, rho_in(limit, guarantee, price, rho))

    def _find_state(self, connection: sa.Connection) -> tuple[Balance, LedgerEntry, Share]:
        """Find the balance, the last entry, and the balance's row, inside a transaction."""
        share, last = self._books.account_share(connection, self.name)
        balance = balance_of(self.ledger._find_limit(connection, self.name), share)
        return replace(balance, closed=last.kind == "closed"), last, share

    def _verify_all(self, connection: sa.Connection) -> tuple[LedgerEntry, ...]:
        """Read and verify all entries."""
        self._books.first(connection, self.name)
        return verify(self._books.entries(connection, self.name), self._books.shares(connection, self.name))
