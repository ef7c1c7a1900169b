r"""Private selection: the best of many tries at the price of three, whatever their number.

`search` charges for all of it, and only then tries candidates: public settings of something that fits a release to
records. Each try is judged by its gain on other records, one is chosen, and the rest is forgotten.

**Groups.** A coin of its own puts each record in one of two groups. Tries are fitted to the first, their gains are sums
over the second, where a record gives each try between 0 and 1. Of K tries the j-th is chosen with probability
`exp(r gain_j) / sum_i exp(r gain_i)`. A further release may then tell how good it is, from the second group.

**A record of the first group**, added, removed, or replaced by one that has its coin. One try is a candidate, picked
uniformly, its fit, and `z = r gain + G`, G from the standard Gumbel law, by which the choice above is that of the
largest z. As the gain is a function of the fit and of the other group, the law Q of a try changes by factors of at most
exp(e), e what a fit promises; say to Q'. Let `f(x) = sum_k P(K = k) x^k` and F(z) the probability under Q of less than
z. The chosen try has the law `f'(F(z)) Q(d try)`. Here K is uniform on 1 to a public most M, and `f'(F) <= exp(2 e)
f'(F')`, where F' is the same of Q': f' does not decrease, and `(1 - x)^2 f'(x) = (1 - (M + 1) x^M + M x^(M + 1)) / M`
does not increase, for its derivative is `-(M + 1) x^(M - 1) (1 - x)`. If F <= F', then f'(F) <= f'(F'). Else
`f'(F) <= f'(F') ((1 - F') / (1 - F))^2`, and 1 - F is the probability of an event, greater than 0 (Gumbel variates have
no greatest value). With Q <= exp(e) Q' the chosen try promises 3 e; the limit M costs nothing. Where M is less than 3,
or each of m candidates is tried once, M or m fits promise as many times e (basic composition), and all that follows is
a function of them and of the second group; `SearchPlan` tries each once where m is at most 3.

**A record of the second group** leaves the law of K, of the candidates and of their fits as it is. Given all of them,
one record more adds between 0 and 1 to every exponent's gain, so that the choice changes by factors of at most exp(r);
one replaced moves them by up to 1 in either direction, which makes exp(2 r). So r is the part of epsilon that is for
the choice, or half of it, and what tells how good it is has the rest: the sum is epsilon.

**Together.** Given all coins the search promises the larger of the two, both of which are epsilon. Coins are
independent of each other and of all values, so the law of the search is a mixture over the coins of the other records
and of this one, and a bound that holds in every part of a mixture holds for the whole. One split serves all tries: the
bounds are for given coins.

**A delta of the fits.** Two laws of a fit within (e, d) of each other, in both directions, are mixtures: with
probability 1 - d laws that are within (e, 0), else anything (Kairouz, Oh and Viswanath 2015). A search in which no try
is among "anything" is one of pure fits, and by the above its law S changes to S' with `S <= exp(3 e) S'`. Each of the
two searches is within `E[K] d = (M + 1) d / 2` of such a one, in total variation; so the first group's promise is
`(3 e, (1 + exp(3 e)) (M + 1) d / 2)`, and `SearchPlan` solves this for d. The choice and the score are pure.

**What it takes.** K must stay unknown: whoever learns that there were many has more than this promise. So always M
tries are made, of which the last M - K cannot be chosen: neither the time of a search nor a count of fits tells K.
Nothing of K is kept, told or raised, and a fit that fails after its release is a try with gain 0. While a search runs,
memory has the fit that is chosen so far and the one that is made, and a number for each gain.
Arithmetic is exact: K and the choice by integers, gains in whole parts of a record.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from discreet.errors import InputError
from discreet.noise.exact_draws import Entropy, below, choose
from discreet.privacy.guarantee import Guarantee, Relation, for_each
from discreet.privacy.ledger import Account, Ledger

T = TypeVar("T")

LEDGER_NAME = "private_selection"
"""Name of the charge in the ledger."""
FULL_GAIN = 2**16
"""Largest gain of a try from one record, in the integer steps of gains."""
MOST_TRIES = 10_000
"""Most tries of a search, and most candidates: each try may be a fit."""
TRIES_PER_CANDIDATE = 8
"""Most tries for each candidate: one is left out of `1 - (1 - 1 / m) ^ K` with probability 1 / 8, from the law of K."""
SEARCH_PRICE = 3
"""Price of all tries together, in fits, by the proof above. K with P(k) in proportion to 1 / k has price 2 and leaves
more out: on skew 38.3, 33.2 and 31.4 % of errors of a logistic regression with six settings, at epsilon .3, 1 and 3,
where this has 36.1, 30.6 and 27.4; on pima 30.9, 25.0, 21.6 and 28.9, 24.8, 20.7; on outlier the same."""


@dataclass(frozen=True)
class SearchPlan:
    """Public plan by which a search spends its guarantee.

    Args:
        guarantee: of the whole search, for records.
        candidates: how many there are.
        most: the number of tries is uniform from 1 to this; None tries each candidate once.

    Raises:
        InputError: a guarantee under a metric, no candidate, or a number of tries out of range.

    Example:
        >>> promise = Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> plan = SearchPlan.of(promise, 6)
        >>> plan.most, plan.fit.epsilon, plan.choice, plan.score.epsilon
        (48, Fraction(1, 3), Fraction(1, 2), Fraction(1, 2))
    """

    guarantee: Guarantee
    candidates: int
    most: int | None

    def __post_init__(self) -> None:
        """Refuse settings that the proof does not cover."""
        if self.guarantee.relation is Relation.METRIC:
            raise InputError("a search needs a guarantee for records, not under a metric")
        if not 1 <= self.candidates <= MOST_TRIES:
            raise InputError(f"a search needs 1 to {MOST_TRIES:,} candidates")
        if self.most is not None and not 1 <= self.most <= MOST_TRIES:
            raise InputError(f"a search makes at most 1 to {MOST_TRIES:,} tries")

    @staticmethod
    def of(guarantee: Guarantee, candidates: int, tries: int | None = None) -> SearchPlan:
        """Plan by public cost: each candidate once if that costs no more than a random number of tries.

        Args:
            guarantee: of the whole search.
            candidates: how many.
            tries: most tries; None takes the rule above.

        Returns:
            The plan.

        Raises:
            InputError: as of the constructor.
        """
        if tries is None and candidates > SEARCH_PRICE:
            tries = min(TRIES_PER_CANDIDATE * candidates, MOST_TRIES)
        return SearchPlan(guarantee, candidates, tries)

    @property
    def fit(self) -> Guarantee:
        """Guarantee of each fit: all fits compose, or cost the price of a random number of tries."""
        number = self.candidates if self.most is None else min(SEARCH_PRICE, self.most)
        each = for_each(self.guarantee, number)
        if self.most is None or self.most < SEARCH_PRICE or not each.delta:
            return each
        # Group privacy of 2 has the delta d / (1 + exp(epsilon / 2)) for each: of twice epsilon it is the sum above.
        doubled = for_each(replace(self.guarantee, epsilon=2 * self.guarantee.epsilon), 2)
        return replace(each, delta=doubled.delta * 2 / (self.most + 1))

    @property
    def choice(self) -> Fraction:
        """Epsilon of the choice of the best try: half of the budget."""
        return self.guarantee.epsilon - self.score.epsilon

    @property
    def score(self) -> Guarantee:
        """Guarantee of the release of the chosen try's score, which is pure."""
        return replace(self.guarantee, epsilon=self.guarantee.epsilon / 2, delta=Fraction(0))

    def order(self, entropy: Entropy) -> list[int]:
        """Draw the candidates of the tries that may be chosen, in order; their number is private."""
        if self.most is None:
            return list(range(self.candidates))
        return [below(entropy, self.candidates) for _ in range(1 + below(entropy, self.most))]


def choose_try(entropy: Entropy, gains: Sequence[int], plan: SearchPlan) -> int:
    """Choose a try by the exponential mechanism in integer arithmetic.

    Args:
        entropy: independent bytes.
        gains: private; in parts of `FULL_GAIN` for each record, of which each gives between 0 and all.
        plan: of the search.

    Returns:
        Its position.

    Guarantee:
        `plan.choice` for one record of those that gains are summed over; see the module.
    """
    rate = plan.guarantee.relation.by_record(plan.choice, plan.choice / 2) / FULL_GAIN
    best = max(gains)
    return choose(entropy, [rate * (best - gain) for gain in gains], 1)[0]


def prepaid(guarantee: Guarantee) -> Account:
    """Make an account in memory for one release that was already paid for."""
    return Ledger("sqlite://").open("prepaid", guarantee)


class _Rehearsal(Account):
    """Ledger handle whose check refuses nothing and whose charge refuses everything."""

    def check(self, guarantee: Guarantee, *, rho: Fraction | None = None) -> None:
        """Refuse nothing."""


def unpaid(guarantee: Guarantee) -> Account:
    """Make an account that refuses every charge, so that a release stops before its draw."""
    spent = prepaid(guarantee)
    spent.charge("rehearsal", LEDGER_NAME, guarantee)
    return _Rehearsal(spent.ledger, spent.name)


def search(plan: SearchPlan, attempt: Callable[[int, Account], tuple[int, T]], account: Account) -> tuple[str, int, T]:
    """Charge for a search, then try, then choose.

    Args:
        plan: public.
        attempt: fits a candidate, given by its position, pays for it from the account that is passed, and returns its
            gain and anything else. It must not raise for a reason that depends on records.
        account: pays for all of it, before anything is drawn.

    Returns:
        (id of the charge, position of the candidate that was chosen, what its attempt returned).

    Raises:
        BudgetError: the account cannot pay; nothing is charged.

    Guarantee:
        `plan.guarantee` for what is returned and one more release of `plan.score`, if the groups are as in the module,
        and nothing else of the attempts becomes known.

    Source:
        The module has the proof, after Liu and Talwar (STOC 2019), whose geometric number has the same price, and
        Papernot and Steinke (ICLR 2022), of whose laws that is one (eta = 1).
    """
    charge_id = secrets.token_hex(16)
    account.charge(charge_id, LEDGER_NAME, plan.guarantee, anew=True)
    order, gains = plan.order(os.urandom), list[int]()
    idle = [below(os.urandom, plan.candidates) for _ in range(len(order), plan.most or 0)]
    for place, candidate in enumerate((*order, *idle)):
        gain, fitted = attempt(candidate, prepaid(plan.fit))
        gains.append(gain)
        # A try takes the place of those before with its share of all weights so far, w_j / (w_1 + .. + w_j), and keeps
        # it against a later one with (w_1 + .. + w_(i-1)) / (w_1 + .. + w_i). The product is w_j / (w_1 + .. + w_K).
        # Those beyond the number of tries take the same time, and no place.
        if choose_try(os.urandom, gains, plan) == len(gains) - 1 and place < len(order):
            chosen = candidate, fitted
        del fitted  # before the next one is made: of all tries two are there at most
    return charge_id, *chosen
