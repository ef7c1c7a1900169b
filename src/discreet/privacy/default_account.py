"""The default account: what a fit spends from that names no account of its own.

It is opened once, in the ledger that commands take without `--ledger`, with a limit that is written here and depends on
nothing: not on the fit that opens it, nor on how often it was asked for, nor on the folder. Like any limit it never
rises.
"""

from __future__ import annotations

import warnings
from functools import cache

from discreet.errors import InputError, shown_path
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.privacy.ledger import Account, Ledger
from discreet.privacy.settings import ledger_address

DEFAULT_ACCOUNT = "default"
"""Name of the default account."""
DEFAULT_LIMIT = Guarantee(epsilon=3, delta="0.000001", relation=Relation.ADD_REMOVE, unit="record")
"""All that may ever be spent from it: three fits of epsilon 1. Odds about one record then change by a factor of 20 at
most; whoever wants more says so, and opens an account."""


class DefaultAccountWarning(UserWarning):
    """A fit spends from the default account; told once in a process, with the ledger and the limit.

    Args:
        message: what is spent from, and how to name an account instead.

    Raises:
        Nothing: it is a warning; `warnings.simplefilter("error", DefaultAccountWarning)` makes an error of it.

    Example:
        >>> import discreet as dc
        >>> issubclass(dc.tools.DefaultAccountWarning, UserWarning)
        True
    """


def default_account() -> Account:
    """The default account of the default ledger (`DISCREET_LEDGER`, the file of settings, or one file of this user).

    Returns:
        The account, opened with `DEFAULT_LIMIT` unless it is open; whoever opens it first may give it another limit.

    Raises:
        InputError: the ledger cannot be opened, lives in memory or depends on the folder, or has an account of this
            name for another relation or unit.

    Guarantee:
        None spent: it opens an account and charges nothing.

    Example:
        >>> from discreet.privacy.default_account import DEFAULT_LIMIT
        >>> print(DEFAULT_LIMIT)  # what the account is opened with
        epsilon 3, delta 0.000001, add-remove one record
    """
    ledger = Ledger(ledger_address())
    if ledger.place == ":memory:":
        raise InputError(
            "a ledger in memory forgets what was spent: let DISCREET_LEDGER name a file, such as "
            "sqlite:////home/ada/budget.db, or give account="
        )
    account = _open_or_find(ledger)
    limit = account.limit
    if (limit.relation, limit.unit) != (DEFAULT_LIMIT.relation, DEFAULT_LIMIT.unit):
        raise InputError(
            f"account {DEFAULT_ACCOUNT!r} of ledger {shown_path(ledger.place)} was opened for another relation or unit "
            f"than {DEFAULT_LIMIT.relation} of a {DEFAULT_LIMIT.unit}: give account=, and epsilon= is then meant for it"
        )
    _warn_once(ledger.place, str(limit))
    return account


def _open_or_find(ledger: Ledger) -> Account:
    """Find the account, opened where it is not."""
    if DEFAULT_ACCOUNT not in ledger.names():
        try:
            return ledger.open(DEFAULT_ACCOUNT, DEFAULT_LIMIT)
        except InputError:
            # Another process may have been faster; otherwise the reason is told.
            if DEFAULT_ACCOUNT not in ledger.names():
                raise
    return ledger.account(DEFAULT_ACCOUNT)


@cache
def _warn_once(place: str, limit: str) -> None:
    """Say what is spent from, once in a process."""
    warnings.warn(
        f"fits without account= spend from account {DEFAULT_ACCOUNT!r} of ledger {shown_path(place)}, one for all "
        f"records, in every folder and for good; its limit: {limit}. For a budget of its own open an account for each "
        "data set: account=Ledger(url).open(name, limit)",
        DefaultAccountWarning,
        stacklevel=6,  # of whoever called fit
    )
