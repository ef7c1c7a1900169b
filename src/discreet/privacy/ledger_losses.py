"""Gaussian losses of charges, and when an account begins to add them up.

An account with a delta begins by adding epsilons and deltas. The first charge whose kind is better served by Gaussian
losses sets most of the delta that is left apart for them, for good, and from then on both sums are kept. The choice
lies with whoever charges, and no choice breaks the limit: the books check it (`ledger_entries.py`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from discreet.errors import require
from discreet.privacy.gaussian_loss import FREE_SHARE, KEPT_SHARE, expect_rho, largest_rho, pure_rho, round_rho
from discreet.privacy.guarantee import Guarantee, Number, Relation, as_rational
from discreet.privacy.ledger_entries import LedgerEntry, Share

Loss = tuple[Fraction, Fraction]
"""Gaussian loss, and the delta that it leaves out."""
GAIN, SURE_GAIN = 2, 8
"""How many times as many such charges have to fit by Gaussian losses as by epsilons: where as many as before still fit
by epsilons and deltas, and where fewer do because most of delta is set apart."""


def rho_in(limit: Guarantee, guarantee: Guarantee, price: Guarantee, rho: Number | None) -> Loss:
    """Convert the Gaussian loss of a charge to the account's relation.

    Args:
        limit: of the account.
        guarantee: to spend.
        price: the guarantee in the account's relation.
        rho: for the guarantee's relation; None for that of the guarantee itself.

    Returns:
        The loss. Replacing a record removes one and adds one: mu doubles, and rho is four times as large.

    Raises:
        InputError: a loss that is not positive.
    """
    of_price = pure_rho(price.epsilon), price.delta
    if rho is None:
        return of_price
    rho = as_rational(rho, "rho")
    require(rho > 0, "the Gaussian loss of a charge must be greater than 0")
    doubled = guarantee.relation is Relation.ADD_REMOVE and limit.relation is Relation.REPLACE
    loss = round_rho(4 * rho if doubled else rho), Fraction()
    return loss if price.delta else min(loss, of_price)


def with_loss(draft: LedgerEntry, share: Share, loss: Loss) -> LedgerEntry:
    """State the Gaussian loss of a charge, if the account adds these up or had better begin to.

    Args:
        draft: of the charge.
        share: balance of the account.
        loss: of the charge.

    Returns:
        The draft, with its loss, and with a limit of their sum where it is the first.
    """
    stated = replace(draft, rho=str(loss[0]), rho_delta=str(loss[1]))
    if share.concentrated:
        return stated
    epsilon, delta = Fraction(share.epsilon_limit), Fraction(share.delta_limit)
    epsilon, delta = epsilon - share.sums[0], delta - share.sums[1]
    if not (epsilon > 0 and delta > 0 and loss[1] <= FREE_SHARE * delta):
        return draft
    # Shares of what is left, of which the larger is the one that limits such charges.
    by_epsilon, by_delta = Fraction(draft.epsilon) / epsilon, Fraction(draft.delta) / delta
    gain = max(by_epsilon, by_delta) / loss[0] * Fraction(expect_rho(epsilon, KEPT_SHARE * delta))
    if by_epsilon > 1 or by_delta > 1 or gain < (GAIN if by_delta <= FREE_SHARE * by_epsilon else SURE_GAIN):
        return draft
    limit = largest_rho(epsilon, KEPT_SHARE * delta)
    return draft if limit is None else replace(stated, rho_limit=str(limit))


def lowered_rho_limit(share: Share, limit: Guarantee) -> str:
    """Find the limit of Gaussian losses for a lower limit of an account that adds them up.

    Args:
        share: balance of the account.
        limit: the lower one.

    Returns:
        It, as text; "0" where no sum of them keeps the limit.
    """
    before = Fraction(share.epsilon_before), Fraction(share.delta_before)
    rho = largest_rho(limit.epsilon - before[0], KEPT_SHARE * (limit.delta - before[1]))
    return "0" if rho is None else str(min(rho, Fraction(share.rho_limit)))
