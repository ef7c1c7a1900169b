"""The default account, from which fits without an account spend.

It is opened once, in the ledger of commands without `--ledger`, with the fixed limit below. The limit does not depend
on the fit that opens the account, on the number of fits, or on the folder. Like any limit it never rises.
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
"""Lifetime limit: three fits of epsilon 1. Odds about one record then change by a factor of at most 20; for more, open
an account.
"""


class DefaultAccountWarning(UserWarning):
    """Warning that a fit spends from the default account; shown once in a process, with the ledger and the limit.

    Args:
        message: the account, and how to give another one.

    Raises:
        Nothing: it is a warning; `warnings.simplefilter("error", DefaultAccountWarning)` makes an error of it.

    Example:
        >>> import discreet as dc
        >>> issubclass(dc.tools.DefaultAccountWarning, UserWarning)
        True
    """


def default_account() -> Account:
    """Find or open the default account of the default ledger (`DISCREET_LEDGER`, the settings, or a file of this user).

    Returns:
        The account, opened with `DEFAULT_LIMIT` if needed; its first opener may choose another limit.

    Raises:
        InputError: the ledger cannot be opened, is in memory, depends on the folder, or has an account of this name
            for another relation or unit.

    Guarantee:
        None spent: it opens an account and charges nothing.

    Example:
        >>> from discreet.privacy.default_account import DEFAULT_LIMIT
        >>> print(DEFAULT_LIMIT)  # the limit of the account
        epsilon 3, delta 0.000001, add-remove one record
    """
    ledger = Ledger(ledger_address())
    if ledger.address == ":memory:":
        raise InputError(
            "a ledger in memory forgets all charges: set DISCREET_LEDGER to a file, such as "
            "sqlite:////home/ada/budget.db, or give account="
        )
    account = _open_or_find(ledger)
    limit = account.limit
    if (limit.relation, limit.unit) != (DEFAULT_LIMIT.relation, DEFAULT_LIMIT.unit):
        raise InputError(
            f"account {DEFAULT_ACCOUNT!r} of ledger {shown_path(ledger.address)} was opened for another relation or "
            f"unit than {DEFAULT_LIMIT.relation} of a {DEFAULT_LIMIT.unit}: give account=, to which epsilon= applies"
        )
    _warn_once(ledger.address, str(limit))
    return account


def _open_or_find(ledger: Ledger) -> Account:
    """Find the account, or open it."""
    if DEFAULT_ACCOUNT not in ledger.names():
        try:
            return ledger.open(DEFAULT_ACCOUNT, DEFAULT_LIMIT)
        except InputError:
            # Another process may have opened it meanwhile.
            if DEFAULT_ACCOUNT not in ledger.names():
                raise
    return ledger.account(DEFAULT_ACCOUNT)


@cache
def _warn_once(address: str, limit: str) -> None:
    """Warn once in a process from which account fits spend."""
    warnings.warn(
        f"fits without account= spend from account {DEFAULT_ACCOUNT!r} of ledger {shown_path(address)}, one account "
        f"for all records and folders, with the lifetime limit {limit}. To separate budgets, open an account for each "
        "data set: account=Ledger(url).open(name, limit)",
        DefaultAccountWarning,
        stacklevel=6,  # the caller of fit
    )
