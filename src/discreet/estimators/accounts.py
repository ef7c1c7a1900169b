"""Guarantee of a fit and the account that it is charged to, or `epsilon` alone for the default ones."""

from __future__ import annotations

from typing import Any

from discreet.errors import InputError, shown
from discreet.formats.project_file import Project
from discreet.privacy.default_account import DEFAULT_LIMIT, default_account
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account, Ledger
from discreet.privacy.settings import ledger_address

IN_ONE_LINE = "or pass epsilon=1 alone: adding or removing a record, charged to the default account"


def promised(estimator: Any, project: Project | None = None) -> tuple[Guarantee, Account]:
    """Find the guarantee of a fit and the account that can pay for it, before a record is read.

    Args:
        estimator: with the public attributes `guarantee` and `account`, and perhaps `epsilon` and `delta`, which stand
            for a guarantee of the account's relation and unit, or of the default account's.
        project: project file, whose account pays where the estimator has none.

    Returns:
        Both.

    Raises:
        InputError: one of them is missing, of another type, or given twice.
        BudgetError: the account cannot pay, whatever the records are.
    """
    guarantee, account = estimator.guarantee, estimator.account
    epsilon, delta = getattr(estimator, "epsilon", None), getattr(estimator, "delta", None)
    if not isinstance(account, Account | None):
        raise InputError("fit needs account=Ledger(url).open(...) or .account(name): every fit spends from it")
    if project is not None:
        account = _project_account(account, project)
    if epsilon is not None:
        if guarantee is not None:
            raise InputError("fit takes guarantee=, or epsilon= and delta= instead, and not both")
        limit = DEFAULT_LIMIT if account is None else account.limit
        guarantee = Guarantee(
            epsilon=epsilon, delta=0 if delta is None else delta, relation=limit.relation, unit=limit.unit
        )
        account = paying(estimator) if account is None else account
    elif not isinstance(guarantee, Guarantee):
        raise InputError(
            "fit needs guarantee=Guarantee(epsilon=1, delta=0, relation='add-remove', unit='record'), the promise, "
            f"and account=, which is charged; {IN_ONE_LINE}"
        )
    elif delta is not None:
        raise InputError("fit takes delta= only with epsilon=; a guarantee has its own delta")
    elif account is None:
        raise InputError(
            "fit needs account=Ledger('sqlite:///budget.db').open('patients', limit): every fit spends from it; "
            f"{IN_ONE_LINE}"
        )
    account.check(guarantee)
    return guarantee, account


def _project_account(account: Account | None, project: Project) -> Account | None:
    """Find the account that a project file names, unless another is given; it must protect the project's unit."""
    section, unit = project.sections.get("account", {}), project.sections.get("unit", {}).get("name")
    if account is None and "name" in section:
        account = Ledger(ledger_address(section.get("ledger"))).account(section["name"])
    if unit not in (None, (DEFAULT_LIMIT if account is None else account.limit).unit):
        raise InputError(
            f"the project file protects each {shown(unit)}, and the account that pays does not: name one that does, in "
            "its section [account] or as account="
        )
    return account


def paying(estimator: Any) -> Account:
    """Find the account that pays for an estimator's fits, and for its scores without an account of their own.

    Args:
        estimator: with the public attributes `account` and `epsilon`.

    Returns:
        Its account, or the default one if `epsilon` was given alone.

    Raises:
        InputError: there is neither.
    """
    if estimator.account is None and estimator.epsilon is not None:
        return default_account()
    if not isinstance(estimator.account, Account):
        raise InputError(f"no account pays: pass account=Ledger('sqlite:///budget.db').account(name), {IN_ONE_LINE}")
    return estimator.account
