"""Default account, which fits without an account of their own spend from.

It is opened once, in the ledger that commands use without `--ledger`, with a constant limit, which depends neither on
the fit that opens it nor on the folder. Like any limit it never rises.
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
"""Lifetime limit of the default account: three fits of epsilon 1. Odds about one record then change by a factor of at
most 20. For more, open an account."""


class DefaultAccountWarning(UserWarning):
    """Warning that a fit spends from the default account, with the ledger and the limit; shown once in a process.

    Args:
        message: names the account, and explains how to pass another one.

    Raises:
        Nothing: it is a warning; `warnings.simplefilter("error", DefaultAccountWarning)` makes an error of it.

    Example:
        >>> import discreet as dc
        >>> issubclass(dc.tools.DefaultAccountWarning, UserWarning)
        True
    """


def default_account() -> Account:
    """Open the default account of the default ledger (`DISCREET_LEDGER`, the file of settings, or a file of the user).

    Returns:
        The account, opened with `DEFAULT_LIMIT` unless it is open already, perhaps with another limit.

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
    """Find the account, or open it."""
    if DEFAULT_ACCOUNT not in ledger.names():
        try:
            return ledger.open(DEFAULT_ACCOUNT, DEFAULT_LIMIT)
        except InputError:
            # Another process may have been faster; otherwise raise the reason.
            if DEFAULT_ACCOUNT not in ledger.names():
                raise
    return ledger.account(DEFAULT_ACCOUNT)


@cache
def _warn_once(address: str, limit: str) -> None:
    """Warn that fits spend from the default account, once in a process."""
    warnings.warn(
        f"fits without account= spend from account {DEFAULT_ACCOUNT!r} of ledger {shown_path(address)}, one for all "
        f"records, in every folder and for good; its limit: {limit}. For a budget of its own open an account for each "
        "data set: account=Ledger(url).open(name, limit)",
        DefaultAccountWarning,
        stacklevel=6,  # of whoever called fit
    )
