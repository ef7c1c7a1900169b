"""How many equal releases an account pays, beside tight composition: `python -m bench.accounts`.

*plain* is the sum of epsilons and deltas, *account* what a ledger admits, *tight* what numerical composition of privacy
losses allows at most, by Google's `dp_accounting` where that is installed (`pip install dp-accounting`; "-" without
it). An account that admits more than tight composition is wrong, and ends the bench with an error. Releases are
Gaussian noise at their own scale, Laplace noise, randomised response (the worst pure release) and the worst release of
(epsilon, delta). The last rows have other releases before.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import discreet as dc
from discreet.mechanisms.noise import deviation_for
from discreet.privacy.gaussian_loss import discrete_rho
from discreet.privacy.ledger_entries import LedgerEntry, Refusal, Share, following
from discreet.privacy.ledger_losses import rho_in, with_loss

__all__ = ["count_admitted", "main"]

MOST = 10_000


@dataclass(frozen=True)
class Kind:
    """Releases of one kind."""

    words: str
    promise: dc.Guarantee
    rho: Fraction | None
    loss: Callable[[Any], Any]
    """From the module of `dp_accounting` to the law of its privacy loss."""


def promise(epsilon: object, delta: object = 0) -> dc.Guarantee:
    """Adding or removing a record."""
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation="add-remove", unit="record")


def gaussian(epsilon: str, delta: str) -> Kind:
    """Gaussian noise on one count."""
    made = promise(epsilon, delta)
    scale, rho, _ = deviation_for(1, made)
    return Kind(
        f"Gaussian ({epsilon}, {delta})", made, discrete_rho(rho, scale),
        lambda pld: pld.from_gaussian_mechanism(scale, value_discretization_interval=1e-4),
    )  # fmt: skip


def pure(epsilon: str) -> Kind:
    """The worst pure release."""
    return Kind(f"randomised response {epsilon}", promise(epsilon), None,
                lambda pld: pld.from_randomized_response(2 / (1 + pow(2.718281828459045, float(epsilon))), 2,
                                                         value_discretization_interval=1e-4))  # fmt: skip


def laplace(epsilon: str) -> Kind:
    """Laplace noise on one count."""
    scale = 1 / float(epsilon)
    return Kind(f"Laplace {epsilon}", promise(epsilon), None,
                lambda pld: pld.from_laplace_mechanism(scale, value_discretization_interval=1e-4))  # fmt: skip


LIMITS = (("3", "1e-4"), ("1", "1e-6"))
KINDS = (
    gaussian("0.1", "1e-6"), gaussian("0.03", "1e-8"), gaussian("0.5", "1e-7"), pure("0.1"), pure("0.01"),
    laplace("0.01"),
)  # fmt: skip


def admit(account: Share, opened: LedgerEntry, kind: Kind, most: int) -> tuple[int, LedgerEntry, Share]:
    """Charge an account until it refuses."""
    last, limit = opened, promise(account.epsilon_limit, account.delta_limit)
    loss = rho_in(limit, kind.promise, kind.promise, kind.rho)
    for number in range(most):
        price = kind.promise
        draft = LedgerEntry("a", 0, "charged", f"r{last.sequence}", "m", str(price.epsilon), str(price.delta))
        try:
            last, (account, *_) = following(last, {"": account}, with_loss(draft, account, loss))
        except Refusal:
            return number, last, account
    return most, last, account


def count_admitted(limit: tuple[str, str], kind: Kind, before: tuple[Kind, int] | None = None) -> int:
    """Count the releases that a new account admits, after some of another kind."""
    draft = LedgerEntry("a", 0, "opened", epsilon=str(Fraction(limit[0])), delta=str(Fraction(limit[1])),
                        relation="add-remove", unit="record")  # fmt: skip
    last, (account,) = following(None, {}, draft)
    if before is not None:
        number, last, account = admit(account, last, *before)
        assert number == before[1]
    return admit(account, last, kind, MOST)[0]


def count_tight(pld: Any, limit: tuple[str, str], kind: Kind, before: tuple[Kind, int] | None = None) -> int:
    """Count the releases that tight composition allows, by bisection."""
    one, epsilon, delta = kind.loss(pld), float(limit[0]), float(limit[1])
    first = before[0].loss(pld).self_compose(before[1]) if before else None

    def fits(number: int) -> bool:
        law = one.self_compose(number)
        return bool((law if first is None else first.compose(law)).get_delta_for_epsilon(epsilon) <= delta)

    least, most = 0, MOST + 1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    return least


def cases() -> Iterator[tuple[tuple[str, str], Kind, tuple[Kind, int] | None]]:
    """List limits, kinds, and what comes before."""
    yield from ((limit, kind, None) for limit in LIMITS for kind in KINDS)
    yield LIMITS[0], KINDS[0], (pure("1"), 1)
    yield LIMITS[0], KINDS[0], (pure("0.01"), 100)
    yield LIMITS[0], KINDS[4], (KINDS[0], 300)


def main() -> int:
    """Print the table; 1 if an account admits more than tight composition."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    try:
        pld = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError:
        pld = None
    print("| limit | before | releases | plain | account | tight |\n|---|---|---|---|---|---|")
    wrong = 0
    for limit, kind, before in cases():
        left = [Fraction(each) for each in limit]
        for other, number in [before] if before else []:
            left = [left[0] - number * other.promise.epsilon, left[1] - number * other.promise.delta]
        plain = min(left[0] // kind.promise.epsilon, left[1] // kind.promise.delta if kind.promise.delta else MOST)
        admitted = count_admitted(limit, kind, before)
        # Sums of epsilons are tight where they are exact; the grid of losses rounds them up.
        tight = None if pld is None else max(count_tight(pld, limit, kind, before), int(plain))
        wrong += tight is not None and admitted > tight
        words = f"{before[1]} of {before[0].words}" if before else ""
        row = (f"({limit[0]}, {limit[1]})", words, kind.words, max(plain, 0), admitted, "-" if tight is None else tight)
        print("|", " | ".join(map(str, row)), "|", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
