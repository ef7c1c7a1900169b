"""What a fit promises and who pays for it: a guarantee and an account, or `epsilon` alone for the default ones."""

from __future__ import annotations

from typing import Any

from discreet.errors import InputError
from discreet.privacy.default_account import DEFAULT_LIMIT, default_account
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account

IN_ONE_LINE = "or say epsilon=1 alone: adding or removing a record, paid by the default account"


def promised(estimator: Any) -> tuple[Guarantee, Account]:
    """The guarantee of a fit, and the account that can pay for it: asked before a record is read.

    Args:
        estimator: with the public attributes `guarantee` and `account`, and perhaps `epsilon` and `delta`, which stand
            for a guarantee of the account's relation and unit; without an account, of the default one's.

    Returns:
        Both.

    Raises:
        InputError: one of them is not there, is something else, or is said twice.
        BudgetError: the account cannot pay, whatever the records are.
    """
    guarantee, account = estimator.guarantee, estimator.account
    epsilon, delta = getattr(estimator, "epsilon", None), getattr(estimator, "delta", None)
    if not isinstance(account, Account | None):
        raise InputError("fit needs account=Ledger(url).open(...) or .account(name): every fit spends from it")
    if epsilon is not None:
        if guarantee is not None:
            raise InputError("fit takes guarantee=, or epsilon= and delta= in its place, and not both")
        limit = DEFAULT_LIMIT if account is None else account.limit
        guarantee = Guarantee(
            epsilon=epsilon, delta=0 if delta is None else delta, relation=limit.relation, unit=limit.unit
        )
        return _check_budget(guarantee, paying(estimator))
    if not isinstance(guarantee, Guarantee):
        raise InputError(
            "fit needs guarantee=Guarantee(epsilon=1, delta=0, relation='add-remove', unit='record'), what is "
            f"promised, and account=, which pays; {IN_ONE_LINE}"
        )
    if delta is not None:
        raise InputError("fit takes delta= beside epsilon=; a guarantee has its own")
    if account is None:
        raise InputError(
            "fit needs account=Ledger('sqlite:///budget.db').open('patients', limit): every fit spends from it; "
            f"{IN_ONE_LINE}"
        )
    return _check_budget(guarantee, account)


def paying(estimator: Any) -> Account:
    """Who pays for an estimator's fits, and for scores of it that name nobody else.

    Args:
        estimator: with the public attributes `account` and `epsilon`.

    Returns:
        Its account, or the default one where `epsilon` was said alone.

    Raises:
        InputError: neither.
    """
    if estimator.account is None and estimator.epsilon is not None:
        return default_account()
    if not isinstance(estimator.account, Account):
        raise InputError(f"nobody pays: give account=Ledger('sqlite:///budget.db').account(name), {IN_ONE_LINE}")
    return estimator.account


def _check_budget(guarantee: Guarantee, account: Account) -> tuple[Guarantee, Account]:
    """Refuse what the account cannot pay."""
    account.check(guarantee)
    return guarantee, account
