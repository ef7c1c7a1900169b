"""Names and errors of the ledger.

People read names in lists and messages, so names that look alike are refused.
"""

from __future__ import annotations

import unicodedata
from fractions import Fraction

from discreet.errors import BudgetError, InputError, shown
from discreet.privacy.guarantee import Guarantee, Relation, as_text, convert
from discreet.privacy.ledger_balance import Balance, short_loss
from discreet.privacy.ledger_books import VERSION
from discreet.privacy.ledger_entries import Refusal

NAME_LIMIT = 80
"""Most characters of a new name: the length that a message quotes completely."""
ALIKE_LETTERS = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u043a\u043c\u0442\u0432\u043d\u03bf\u03b1\u03bd\u03c1",
    "aeopcyxijskmtbhoavp",
)
"""Cyrillic and Greek letters that look like Latin ones."""
IN_MEMORY = (":memory:", "sqlite://", "sqlite:///:memory:")
"""Addresses of ledgers in memory."""


def error_for(refusal: Refusal, name: str, address: str) -> InputError:
    """Make the error for a ledger's refusal.

    Args:
        refusal: any but "limit", which needs figures.
        name: of the account.
        address: of the ledger, for the message.
    """
    account, ledger, detail = f"account {shown(name)}", f"ledger {address}", refusal.detail
    words = {
        "closed": f"{account} is closed",
        "absent": f"no {account} in {ledger}; open it first{in_memory_hint(address)}",
        "paid": "this release was paid for before: use a new id",
        "request": f"the request was made before in {account}, by another user or for another purpose; use a new key",
        "tampered": f"{account} in {ledger} was tampered with, or its database is damaged: {detail} was changed; "
        "`discreet ledger verify` shows the details; restore the ledger from a copy to charge again",
        "forbidden": f"this user may not do that in {ledger}: {detail}; ask its owner for the right "
        "(`discreet ledger init --grant`)",
        "form": f"{ledger} refuses this: {detail}",
        "open": f"{account} is open already, and its limit never rises; use it, or another name",
        "spent": f"more was spent already than this limit of {account} would allow; close it to end all charges",
        "rises": f"a limit of {account} never rises: give at most the current one, and at most the account's",
        "rho": f"{account} takes no such Gaussian loss, or limit of them: state what the release costs, above 0",
        "digits": f"{account} adds its charges exactly, and with this one their sum would have too many digits; use a "
        "budget with fewer digits",
        "unsafe": f"{ledger} is not safe: {detail}",
        "read-only": f"{ledger} takes no writes: it is a standby, or read-only; charge on the primary server",
        "gone": f"the tables of {ledger} are not those of version {VERSION}: use the discreet that made it",
    }
    return InputError(f"{words[refusal.reason]}; nothing was charged")


def confusable_key(name: object) -> str:
    """Reduce a name to a key that is equal for confusable names: without capitals, blanks and letters of other scripts.

    Args:
        name: of an account.

    Returns:
        Text that is equal for names that look alike.

    Example:
        >>> confusable_key("Patients 2026") == confusable_key("patients2026")
        True
        >>> confusable_key("patients") == confusable_key("patient")
        False
    """
    text = unicodedata.normalize("NFKC", name if isinstance(name, str) else "")
    return "".join(text.casefold().translate(ALIKE_LETTERS).split())


def in_memory_hint(address: str) -> str:
    """Return a hint for ledgers in memory; "" for others."""
    if address not in IN_MEMORY:
        return ""
    return "; clones and other processes do not share a ledger in memory: use a file, such as sqlite:///budget.db"


def refuse_other(value: object, kind: type, label: str) -> None:
    """Refuse a value of another type."""
    if not isinstance(value, kind):
        raise InputError(f"{label} must be a {kind.__name__}, not a {type(value).__name__}")


def refuse_illegible(text: object, label: str) -> None:
    """Refuse a new name that could be confused with another, or that no terminal can show."""
    if not isinstance(text, str):
        raise InputError(f"{label} must be text, not a {type(text).__name__}")
    if not 0 < len(text) <= NAME_LIMIT or not text.isprintable() or text != text.strip():
        raise InputError(
            f"{label} must have 1 to {NAME_LIMIT} visible characters, without spaces at its ends; "
            f"not empty, not {shown(text)}"
        )
    if not unicodedata.is_normalized("NFC", text):
        raise InputError(f"{label} must be in Unicode's composed form (NFC), which {shown(text)} is not")


def price_in(name: str, limit: Guarantee, guarantee: Guarantee) -> Guarantee:
    """Convert a guarantee to the account's relation: the price of a charge.

    Args:
        name: of the account, for errors.
        limit: of the account.
        guarantee: to spend.

    Returns:
        The price.

    Raises:
        InputError: the guarantee is for another unit, or for a relation that cannot be converted to the account's.

    Example:
        >>> limit = Guarantee(epsilon=3, delta=0, relation="replace", unit="record")
        >>> promise = Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> price_in("patients-2026", limit, promise).epsilon
        Fraction(2, 1)
    """
    if Relation.METRIC in (guarantee.relation, limit.relation) and guarantee.relation is not limit.relation:
        raise InputError(
            f"account {shown(name)} has the limit {limit}, and the guarantee is {guarantee}: charges for "
            "records and charges under a metric do not add up; open an account for each"
        )
    if guarantee.unit != limit.unit:
        raise InputError(
            f"account {shown(name)} protects one {limit.unit}, the guarantee one {guarantee.unit}; use one unit"
        )
    if guarantee.relation is Relation.REPLACE and limit.relation is Relation.ADD_REMOVE:
        raise InputError(
            f"account {shown(name)} counts neighbours by adding or removing a record; a guarantee for "
            "replacing one cannot be charged to it; use an add-remove guarantee"
        )
    return convert(guarantee, limit.relation)


def beyond_limit(name: str, subject: str, balance: Balance, price: Guarantee, rho: Fraction) -> BudgetError:
    """Make the error for a price beyond a limit, with its figures.

    Args:
        name: of the account.
        subject: of the limit; "" for the account's.
        balance: under that limit.
        price: requested.
        rho: Gaussian loss requested.
    """
    whose = f" for {subject}" if subject else ""
    sums = (
        f"epsilon asked {as_text(price.epsilon)}, spent {as_text(balance.epsilon_spent)} of "
        f"{as_text(balance.limit.epsilon)}, left {as_text(balance.epsilon_left)}; delta asked {as_text(price.delta)}, "
        f"left {as_text(balance.delta_left)}"
    )
    if balance.rho_limit:
        # Plain sums beyond the limit bind nothing: Gaussian losses have carried the charges since.
        plain = f"by plain sums {sums}" if balance.epsilon_left else "plain sums of epsilon have no room"
        losses = f"rho asked {short_loss(rho)}, left {short_loss(balance.rho_left)} of {short_loss(balance.rho_limit)}"
        sums = f"by Gaussian losses {losses}; {plain}"
    return BudgetError(f"account {shown(name)} cannot pay{whose}: {sums}; nothing was charged")


def other_version(version: int, address: str) -> InputError:
    """Make the error for a ledger of another version than this program's.

    Args:
        version: of the ledger.
        address: of the ledger, for the message.
    """
    return InputError(
        f"ledger {address} has version {version}, and this program version {VERSION}: use the discreet that made it; "
        "nothing was charged"
    )
