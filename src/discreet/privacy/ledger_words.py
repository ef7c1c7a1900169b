"""Names and error messages of the ledger.

People read names in lists and in messages, so a name that looks like another one is refused.
"""

from __future__ import annotations

import unicodedata

from discreet.errors import BudgetError, InputError, shown
from discreet.privacy.guarantee import Guarantee, Relation, as_text, convert
from discreet.privacy.ledger_balance import Balance
from discreet.privacy.ledger_books import VERSION
from discreet.privacy.ledger_entries import Refusal

NAME_LIMIT = 80
"""Most characters of a new name, which messages quote in full."""
ALIKE_LETTERS = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u043a\u043c\u0442\u0432\u043d\u03bf\u03b1\u03bd\u03c1",
    "aeopcyxijskmtbhoavp",
)
"""Cyrillic and Greek letters that look like Latin ones."""
IN_MEMORY = (":memory:", "sqlite://", "sqlite:///:memory:")
"""Paths and addresses of ledgers in memory."""


def error_for(refusal: Refusal, name: str, address: str) -> InputError:
    """Make the error for a refusal.

    Args:
        refusal: any except that of a limit, which needs figures.
        name: of the account.
        address: of the ledger, for the message.
    """
    account, ledger, detail = f"account {shown(name)}", f"ledger {address}", refusal.detail
    words = {
        "closed": f"{account} is closed",
        "absent": f"no {account} in {ledger}; open it first{in_memory_hint(address)}",
        "paid": "this release was paid for before: each has an id of its own",
        "request": f"the request was made before in {account}, by somebody else or for something else",
        "tampered": f"{account} in {ledger} was tampered with, or its database is damaged: {detail} is not what "
        "discreet wrote; `discreet ledger verify` tells more, and nothing can be charged before it is mended from a "
        "copy",
        "forbidden": f"this user may not do that in {ledger}: {detail}; its owner can permit it "
        "(`discreet ledger init --grant`)",
        "form": f"{ledger} refuses this: {detail}",
        "open": f"{account} is open already, and its limit never rises; Ledger.account finds it",
        "spent": f"more was spent already than this limit of {account} would allow; `close` ends all charges",
        "rises": f"a limit of {account} never rises: name at most what it is, or what the account's is",
        "digits": f"{account} adds its charges exactly, and with this one their sum would have too many digits to "
        "be shown; ask for a budget with fewer digits",
        "unsafe": f"{ledger} cannot be relied on: {detail}",
        "read-only": f"{ledger} takes no writes: it is a standby, or read-only; charge where it copies from",
        "gone": f"the tables of {ledger} are not those of version {VERSION}: use the discreet that made it",
    }
    return InputError(f"{words[refusal.reason]}; nothing was charged")


def confusable_key(name: object) -> str:
    """Reduce a name to a key that similar names share: without capitals, blanks or letters of other scripts.

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


def in_memory_hint(path: str) -> str:
    """Make a hint for a missing account of a ledger in memory; empty for other ledgers."""
    if path not in IN_MEMORY:
        return ""
    return "; clones and other processes do not share a ledger in memory: name a file, such as sqlite:///budget.db"


def refuse_other(value: object, kind: type, subject: str) -> None:
    """Refuse a value of another type."""
    if not isinstance(value, kind):
        raise InputError(f"{subject} must be a {kind.__name__}, not a {type(value).__name__}")


def refuse_illegible(text: object, subject: str) -> None:
    """Refuse a new name that a reader could mistake for another one, or that a terminal cannot show."""
    if not isinstance(text, str):
        raise InputError(f"{subject} must be text, not a {type(text).__name__}")
    if not 0 < len(text) <= NAME_LIMIT or not text.isprintable() or text != text.strip():
        raise InputError(
            f"{subject} is 1 to {NAME_LIMIT} characters that can all be seen, with no spaces at its ends; "
            f"not empty, not {shown(text)}"
        )
    if not unicodedata.is_normalized("NFC", text):
        raise InputError(f"{subject} must be in Unicode's composed form (NFC), which {shown(text)} is not")


def price_in(name: str, limit: Guarantee, guarantee: Guarantee) -> Guarantee:
    """Convert a guarantee to its price in an account's relation.

    Args:
        name: of the account, for errors.
        limit: of the account.
        guarantee: to be spent.

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
            "records and charges under a metric never add up; open an account for each"
        )
    if guarantee.unit != limit.unit:
        raise InputError(f"account {shown(name)} protects one {limit.unit}, the guarantee one {guarantee.unit}")
    if guarantee.relation is Relation.REPLACE and limit.relation is Relation.ADD_REMOVE:
        raise InputError(
            f"account {shown(name)} counts neighbours by adding or removing a record; a guarantee for "
            "replacing one cannot be charged to it; ask for an add-remove guarantee"
        )
    return convert(guarantee, limit.relation)


def beyond_limit(name: str, subject: str, balance: Balance, price: Guarantee) -> BudgetError:
    """Make the error for a price beyond a limit, with its figures.

    Args:
        name: of the account.
        subject: of the limit; empty for the account.
        balance: under that limit.
        price: that exceeds it.
    """
    whose = f" for {subject}" if subject else ""
    return BudgetError(
        f"account {shown(name)} cannot pay{whose}: epsilon asked {as_text(price.epsilon)}, "
        f"spent {as_text(balance.epsilon_spent)} of {as_text(balance.limit.epsilon)}, "
        f"left {as_text(balance.epsilon_left)}; delta asked {as_text(price.delta)}, "
        f"left {as_text(balance.delta_left)}; nothing was charged"
    )


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
