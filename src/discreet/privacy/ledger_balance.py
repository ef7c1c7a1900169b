"""Balances and charges of a ledger, read from its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction

from discreet.errors import InputError
from discreet.privacy.guarantee import Guarantee, Relation, as_text
from discreet.privacy.ledger_entries import LedgerEntry, Refusal, Share


@dataclass(frozen=True)
class Charge:
    """One charge of an account.

    Args:
        release: id of the release that was paid for.
        mechanism: its name.
        guarantee: what was spent, for the account's relation and unit.
        date: day of the charge (UTC), by the server's clock where there is a server.
        sequence: its place in the account.
        user: of the server, or of the system, who made it.
        purpose: of the charge, if it was given.
    """

    release: str
    mechanism: str
    guarantee: Guarantee
    date: date
    sequence: int
    user: str
    purpose: str


@dataclass(frozen=True)
class Balance:
    """State of an account, or of a person or a purpose in it: the limit, and the exact sum of the charges."""

    limit: Guarantee
    epsilon_spent: Fraction
    delta_spent: Fraction
    closed: bool = False

    def __str__(self) -> str:
        """Write the sums spent, the limit, and the rest."""
        spent = f"epsilon {as_text(self.epsilon_spent)} of {as_text(self.limit.epsilon)}"
        left = f"epsilon {as_text(self.epsilon_left)}"
        if self.limit.delta:
            spent += f" and delta {as_text(self.delta_spent)} of {as_text(self.limit.delta)}"
            left += f" and delta {as_text(self.delta_left)}"
        return f"{spent} spent, {'closed' if self.closed else f'{left} left'}"

    @property
    def epsilon_left(self) -> Fraction:
        """Epsilon that can still be spent."""
        return self.limit.epsilon - self.epsilon_spent

    @property
    def delta_left(self) -> Fraction:
        """Delta that can still be spent."""
        return self.limit.delta - self.delta_spent


def limit_of(first: LedgerEntry) -> Guarantee:
    """Read the limit of an account from its first entry."""
    try:
        return Guarantee(epsilon=first.epsilon, delta=first.delta, relation=Relation(first.relation), unit=first.unit)
    except InputError:
        raise Refusal("tampered", "its limit") from None


def balance_of(account_limit: Guarantee, share: Share) -> Balance:
    """Read a balance."""
    try:
        epsilon, delta = share.limit if share.limit is not None else (account_limit.epsilon, account_limit.delta)
        return Balance(replace(account_limit, epsilon=epsilon, delta=delta), *share.sums)
    except (ValueError, ZeroDivisionError):  # an InputError is a ValueError
        raise Refusal("tampered", "a balance") from None


def charge_of(first: LedgerEntry, entry: LedgerEntry) -> Charge:
    """Read a charge."""
    try:
        spent = replace(limit_of(first), epsilon=Fraction(entry.epsilon), delta=Fraction(entry.delta))
        day = date.fromisoformat(entry.day)
    except (ValueError, ZeroDivisionError):  # an InputError is a ValueError
        raise Refusal("tampered", f"entry {entry.sequence}") from None
    return Charge(entry.release, entry.mechanism, spent, day, entry.sequence, entry.user, entry.purpose)
