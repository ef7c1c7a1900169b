"""Balances and charges of a ledger, read from its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction

from discreet.errors import InputError
from discreet.privacy.guarantee import Guarantee, Relation, as_text
from discreet.privacy.ledger_entries import LedgerEntry, Refusal, Share

LARGEST_SHOWN = 10**9
"""Largest Gaussian loss that is written with its digits; one of 1 is large."""


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
        rho: Gaussian loss; 0 where the account added up none.
    """

    release: str
    mechanism: str
    guarantee: Guarantee
    date: date
    sequence: int
    user: str
    purpose: str
    rho: Fraction = Fraction(0)


@dataclass(frozen=True)
class Balance:
    """State of an account, or of a person or a purpose in it: the limit, and the exact sums of the charges.

    Args:
        limit: of epsilon and delta.
        epsilon_spent, delta_spent: sums of the charges.
        closed: whether charges are over.
        rho_limit, rho_spent: limit and sum of Gaussian losses; 0 in an account that does not add them up. A charge fits
            if these or epsilons and deltas stay within their limits.
        delta_cap: most that deltas may sum to: the limit, less what is kept for Gaussian losses.
    """

    limit: Guarantee
    epsilon_spent: Fraction
    delta_spent: Fraction
    closed: bool = False
    rho_limit: Fraction = Fraction(0)
    rho_spent: Fraction = Fraction(0)
    delta_cap: Fraction | None = None

    def __str__(self) -> str:
        """Write the sums spent, the limit, and the rest."""
        spent = f"epsilon {as_text(self.epsilon_spent)} of {as_text(self.limit.epsilon)}"
        left = f"epsilon {as_text(self.epsilon_left)}"
        if self.limit.delta:
            spent += f" and delta {as_text(self.delta_spent)} of {as_text(self.most_delta)}"
            left += f" and delta {as_text(self.delta_left)}"
        plain = f"{spent} spent, {'closed' if self.closed else f'{left} left'}"
        return f"{self.loss_text} spent; by plain sums {plain}" if self.rho_limit else plain

    @property
    def loss_text(self) -> str:
        """Sum of Gaussian losses, in words."""
        share = self.rho_spent / self.rho_limit if self.rho_limit else Fraction()
        spent = f"{float(100 * share):.3g} %" if share < 1 else "all"
        return (
            f"{spent} of epsilon {as_text(self.limit.epsilon)} and delta {as_text(self.limit.delta)} by "
            f"Gaussian losses (rho {short_loss(self.rho_spent)} of {short_loss(self.rho_limit)})"
        )

    @property
    def most_delta(self) -> Fraction:
        """Most that deltas may sum to."""
        return self.limit.delta if self.delta_cap is None else self.delta_cap

    @property
    def epsilon_left(self) -> Fraction:
        """Epsilon that can still be spent by plain sums."""
        return max(self.limit.epsilon - self.epsilon_spent, Fraction())

    @property
    def delta_left(self) -> Fraction:
        """Delta that can still be spent by plain sums."""
        return max(self.most_delta - self.delta_spent, Fraction())

    @property
    def rho_left(self) -> Fraction:
        """Gaussian loss that can still be spent."""
        return max(self.rho_limit - self.rho_spent, Fraction())


def short_loss(rho: Fraction) -> str:
    """Write a Gaussian loss with four digits; a charge may state one beyond all floats, where epsilons allow it."""
    return f"{float(rho):.4g}" if rho < LARGEST_SHOWN else f"above {float(LARGEST_SHOWN):g}"


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
        limit = replace(account_limit, epsilon=epsilon, delta=delta)
        cap = share.delta_cap if share.concentrated else None
        losses = Fraction(share.rho_limit), Fraction(share.rho_spent)
        return Balance(limit, *share.sums, rho_limit=losses[0], rho_spent=losses[1], delta_cap=cap)
    except (ValueError, ZeroDivisionError):  # an InputError is a ValueError
        raise Refusal("tampered", "a balance") from None


def charge_of(first: LedgerEntry, entry: LedgerEntry) -> Charge:
    """Read a charge."""
    try:
        spent = replace(limit_of(first), epsilon=Fraction(entry.epsilon), delta=Fraction(entry.delta))
        day, rho = date.fromisoformat(entry.day), Fraction(entry.rho)
    except (ValueError, ZeroDivisionError):  # an InputError is a ValueError
        raise Refusal("tampered", f"entry {entry.sequence}") from None
    return Charge(entry.release, entry.mechanism, spent, day, entry.sequence, entry.user, entry.purpose, rho)
