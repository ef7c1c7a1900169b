"""Private selection: its law by enumeration, for a record of either group and both relations, within epsilon.

Losses are of the code as it is: every source of randomness is answered by a script, and all scripts are walked. What
draws from an exact law is proved elsewhere (`test_exact_draws.py`); here it is asked for that law.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

import discreet as dc
from discreet.mechanisms import private_selection
from discreet.mechanisms.private_selection import FULL_GAIN, MOST_TRIES, SearchPlan, choose_try, search

Law = dict[Hashable, float]
RELATIONS = pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
LEAST = 0.9
"""Of epsilon: what the worst of a few hand-made cases reaches, so that a bound twice as large would be seen."""


def promise(epsilon: Any = 1, relation: str = "add-remove", delta: Any = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


class Script:
    """Answers of all sources of randomness, in the order in which they are asked."""

    def __init__(self, answers: Sequence[int]) -> None:
        self.answers, self.weights = list(answers), list[list[float]]()

    def pick(self, weights: Sequence[float]) -> int:
        place = len(self.weights)
        self.weights.append([float(weight) / float(sum(weights)) for weight in weights])
        if place == len(self.answers):
            self.answers.append(0)
        return self.answers[place]


def law_of(run: Callable[[Script], Hashable]) -> Law:
    """Probabilities of all outcomes of a program that draws from a script."""
    law: Law = {}
    answers: list[int] | None = []
    while answers is not None:
        script = Script(answers)
        outcome = run(script)
        chance = math.prod(w[a] for w, a in zip(script.weights, script.answers, strict=True))
        law[outcome] = law.get(outcome, 0.0) + chance
        answers = script.answers[: len(script.weights)]
        while answers and answers[-1] + 1 == len(script.weights[len(answers) - 1]):
            answers.pop()
        answers = [*answers[:-1], answers[-1] + 1] if answers else None
    assert sum(law.values()) == pytest.approx(1)
    return law


def loss(one: Law, other: Law) -> float:
    """The largest log ratio, in either direction."""
    assert one.keys() == other.keys()
    return max(abs(math.log(one[outcome] / other[outcome])) for outcome in one)


Fits = Sequence[Sequence[float]]
"""By candidate, the law of its fit."""


class Free:
    """An account that pays for anything, and keeps what it paid."""

    def __init__(self) -> None:
        self.paid: list[dc.Guarantee] = []

    def charge(self, number: str, mechanism: str, guarantee: dc.Guarantee, *, anew: bool) -> None:
        assert anew
        self.paid.append(guarantee)


def search_law(
    plan: SearchPlan, fits: Callable[[Fraction], Fits], gains: Sequence[Sequence[int]], patch: pytest.MonkeyPatch
) -> Law:
    """The law of (candidate, fit): fits promise what they are given to spend, gains are of (candidate, fit)."""

    def run(script: Script) -> Hashable:
        def attempt(candidate: int, paid: Any) -> tuple[int, int]:
            fit = script.pick(fits(paid.epsilon)[candidate])
            return gains[candidate][fit], fit

        def chosen(entropy: Any, exponents: Sequence[Fraction], draws: int) -> list[int]:
            assert draws == 1 and min(exponents) == 0
            *before, last = (math.exp(-float(exponent)) for exponent in exponents)
            # All that is asked is whether the last one is chosen: the first stands for all the others.
            return [0 if not before else (len(before) if script.pick([sum(before), last]) else 0)]

        account = Free()
        patch.setattr(private_selection, "below", lambda entropy, limit: script.pick([1] * limit))
        patch.setattr(private_selection, "choose", chosen)
        patch.setattr(private_selection, "prepaid", lambda guarantee: guarantee)
        number, candidate, fit = search(plan, attempt, account)  # type: ignore[arg-type]
        assert len(number) == 32 and account.paid == [plan.guarantee]
        return candidate, fit

    with patch.context() as patch:
        return law_of(run)


# --------------------------------------------------------------------------------------------------- the first group


def worse(epsilon: Fraction, share: float) -> list[list[float]]:
    """Two laws of three fits; in the second the first is likelier by all that epsilon allows, the next less likely."""
    top, middle = share / (1 + math.exp(epsilon)), 0.001
    grown, shrunk = top * math.exp(epsilon), middle * math.exp(-epsilon)
    laws = [[top, middle, 1 - top - middle], [grown, shrunk, 1 - grown - shrunk]]
    assert loss(*(dict(enumerate(law)) for law in laws)) <= float(epsilon) * (1 + 1e-9)
    return laws


def fitted_loss(
    plan: SearchPlan, gains: Sequence[int], law: Callable[[Fraction], list[list[float]]], patch: pytest.MonkeyPatch
) -> float:
    """The loss of a record by which all candidates' fits change from one law to the other."""
    each = [gains] * plan.candidates
    one, other = (
        search_law(plan, lambda epsilon, side=side: [law(epsilon)[side]] * plan.candidates, each, patch)
        for side in (0, 1)
    )
    return loss(one, other)


FAR = 2000 * FULL_GAIN
"""A gain that decides every choice."""


MANY_TRIES = pytest.mark.costly("What a record that is fitted to loses in many tries is enumerated.", always=True)


@RELATIONS
@pytest.mark.parametrize(
    ("epsilon", "candidates", "most"),
    [
        *(pytest.param(epsilon, 1, 4, marks=MANY_TRIES) for epsilon in ("0.1", "0.5")),
        (1, 2, 2), (1, 2, None), (1, 3, None), (2, 1, 1),
    ],
)  # fmt: skip
def test_a_record_that_is_fitted_to_loses_epsilon_and_no_more(
    epsilon: Any, candidates: int, most: int | None, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = SearchPlan(promise(epsilon, relation), candidates, most)
    ladders = [[FAR, FAR // 2, 0], [2 * FULL_GAIN, FULL_GAIN, 0], [0, FAR // 2, FAR]]
    laws = [partial(worse, share=share) for share in (0.05, 0.9)]
    found = [fitted_loss(plan, gains, law, monkeypatch) for gains in ladders for law in laws]
    assert max(found) <= float(plan.guarantee.epsilon) * (1 + 1e-9)
    if candidates == 1:  # with few tries of many candidates no more is reached
        assert max(found) >= (0.6 if most and most > 1 else LEAST) * float(plan.guarantee.epsilon)


def order_law(plan: SearchPlan, patch: pytest.MonkeyPatch) -> Law:
    """The law of the number of tries."""

    def run(script: Script) -> int:
        patch.setattr(private_selection, "below", lambda entropy, limit: script.pick([1] * limit))
        return len(plan.order(os.urandom))

    with patch.context() as patch:
        return law_of(run)


def test_the_price_is_reached_where_many_tries_may_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chosen try has the density f'(F) with regard to one: computed from the code's law of the number."""
    plan = SearchPlan(promise(), 1, 60)
    law = order_law(plan, monkeypatch)
    numbers = np.array([law[number] for number in range(1, 61)])

    def chosen(fit: Sequence[float]) -> np.ndarray:
        under = np.array([fit[1] + fit[2], fit[2], 0.0])
        return np.asarray(
            np.diff([(numbers * x[:, None] ** np.arange(1, 61)).sum(axis=1) for x in (under, under + fit)], axis=0)
        )[0]

    one, other = (chosen(fit) for fit in worse(plan.fit.epsilon, 0.5))
    losses = np.abs(np.log(one / other))
    assert LEAST < losses.max() <= 1 + 1e-9


def test_a_number_of_tries_for_certain_would_cost_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The enumeration finds it: four tries at the price of three."""
    plan, ladder, law = SearchPlan(promise("0.2"), 1, 4), [FAR, FAR // 2, 0], partial(worse, share=0.9)
    assert fitted_loss(plan, ladder, law, monkeypatch) <= 0.2 * (1 + 1e-9)
    monkeypatch.setattr(SearchPlan, "order", lambda self, entropy: [0] * 4)
    assert fitted_loss(plan, ladder, law, monkeypatch) > 0.2 * 1.1


# -------------------------------------------------------------------------------------------------- the second group


def moved(relation: str, fits: int) -> Iterator[list[int]]:
    """What one record can add to the gain of each fit, in whole records."""
    steps = (0, 1) if relation == "add-remove" else (-1, 0, 1)
    yield from (list(one) for one in product(steps, repeat=fits))


@RELATIONS
@pytest.mark.parametrize("most", [None, 1, 2])
def test_a_record_that_judges_loses_what_the_choice_and_the_score_share(
    most: int | None, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, fits = SearchPlan(promise(1, relation), 2, most), [[0.6, 0.4], [0.5, 0.5]]
    found = []
    for start in ([[40, 40], [40, 40]], [[60, 60], [20, 20]], [[20, 60], [20, 60]]):
        whole = [[FULL_GAIN * gain for gain in row] for row in start]
        one = search_law(plan, lambda each: fits, whole, monkeypatch)
        for step in moved(relation, 4):
            after = [[whole[c][f] + FULL_GAIN * step[2 * c + f] for f in (0, 1)] for c in (0, 1)]
            found.append(loss(one, search_law(plan, lambda each: fits, after, monkeypatch)))
    assert max(found) <= float(plan.choice) * (1 + 1e-9)
    assert plan.choice + plan.score.epsilon == plan.guarantee.epsilon
    # One try leaves nothing to choose, and where there may be one no more than a part of the choice is lost.
    assert (max(found) < 1e-9) if most == 1 else (max(found) >= (0.1 if most else LEAST) * float(plan.choice))


# -------------------------------------------------------------------------------------------------------------- parts


@pytest.mark.parametrize("most", [1, 2, 5, 12])
def test_the_number_of_tries_is_uniform(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    law = order_law(SearchPlan(promise(), 1, most), monkeypatch)
    assert law == pytest.approx(dict.fromkeys(range(1, most + 1), 1 / most))


@pytest.mark.costly("A choice with another law is found by drawing many of them.")
def test_a_choice_is_drawn_by_gains() -> None:
    plan = SearchPlan.of(promise(2), 3)
    drawn = np.bincount([choose_try(os.urandom, [0, FULL_GAIN, 3 * FULL_GAIN], plan) for _ in range(20_000)])
    weights = np.exp([0.0, 1.0, 3.0])
    assert chisquare(drawn, 20_000 * weights / weights.sum()).pvalue > 1e-6


def test_a_search_chooses_by_the_weights_of_all_its_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly, by all answers of its coins: the law of a choice among all tries at once, whatever their order."""
    plan = SearchPlan(promise(2), 3, None)
    for gains in ([0, 1, 3], [3, 1, 0], [1, 3, 1], [2, 2, 2]):
        law = search_law(plan, lambda _: [[1.0]] * 3, [[FULL_GAIN * gain] for gain in gains], monkeypatch)
        weights = np.exp([float(plan.choice) * gain for gain in gains])
        assert law == pytest.approx({(at, 0): weights[at] / weights.sum() for at in range(3)})


class Fit:
    """Something large."""


def test_a_delta_of_the_fits_is_counted_for_every_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a chance of its delta a fit tells all, and would be chosen: of five tries the search loses its own delta."""
    plan = SearchPlan(promise("0.2", delta="0.1"), 1, 5)
    chance = float(plan.fit.delta)
    ends, gains = ([1 - chance, chance], [1.0, 0.0]), [[0, FAR]]
    law, beside = (search_law(plan, lambda _, end=end: [end], gains, monkeypatch) for end in ends)
    lost = sum(max(law[each] - math.exp(0.2) * beside[each], 0.0) for each in law)
    assert 0.4 * 0.1 <= lost <= 0.1


def test_a_search_makes_all_its_tries_whatever_their_number_is() -> None:
    """So that neither its time nor a count of fits tells how many tries could be chosen."""
    tried: list[int] = []
    for number in range(1, 21):
        _, chosen, _ = search(SearchPlan(promise(), 4, 24), lambda at, _: (FULL_GAIN, tried.append(at)), Free())  # type: ignore
        assert len(tried) == 24 * number and chosen in tried[-24:]


def test_no_try_beyond_their_number_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SearchPlan, "order", lambda self, entropy: [2, 2])
    monkeypatch.setattr(private_selection, "below", lambda entropy, limit: 0)
    rising = iter(range(0, 24 * 2000, 2000))
    _, candidate, _ = search(SearchPlan(promise(), 4, 24), lambda at, _: (next(rising) * FULL_GAIN, at), Free())  # type: ignore
    assert candidate == 2


def test_a_search_holds_two_tries_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SearchPlan, "order", lambda self, entropy: [0, 1] * 20)
    fits: list[weakref.ref[Fit]] = []
    most = []

    def attempt(candidate: int, paid: Any) -> tuple[int, Fit]:
        fit = Fit()
        fits.append(weakref.ref(fit))
        most.append(sum(one() is not None for one in fits))
        return len(fits) % 3 * FULL_GAIN, fit

    chosen = search(SearchPlan(promise(), 2, 40), attempt, Free())[2]  # type: ignore[arg-type]
    assert len(most) == 40 and max(most) == 2 and chosen in [one() for one in fits]


def test_plans_spend_exactly_what_is_promised() -> None:
    for candidates, tries in ((1, None), (2, None), (3, None), (4, None), (50, None), (5, 1), (5, 2), (2, 40), (1, 9)):
        for epsilon in ("1/3", "0.1", 7):
            plan = SearchPlan.of(promise(epsilon), candidates, tries)
            fits = {None: candidates, 1: 1, 2: 2}.get(plan.most, 3)
            assert plan.fit.epsilon * fits == plan.guarantee.epsilon == plan.choice + plan.score.epsilon
            assert (plan.most is None) == (tries is None and candidates <= 3)
    assert SearchPlan.of(promise(), MOST_TRIES).most == MOST_TRIES
    assert SearchPlan.of(promise(), 5).order(os.urandom)


@pytest.mark.parametrize(
    ("guarantee", "candidates", "most"),
    [
        (dc.Guarantee(epsilon=1, delta=0, relation="metric", unit="1 mmHg in one reading"), 3, 5),
        (promise(), 0, 5), (promise(), MOST_TRIES + 1, 5), (promise(), 3, 0), (promise(), 3, MOST_TRIES + 1),
    ],
)  # fmt: skip
def test_what_the_proof_does_not_cover_is_refused(guarantee: dc.Guarantee, candidates: int, most: int) -> None:
    with pytest.raises(dc.InputError, match="a search"):
        SearchPlan(guarantee, candidates, most)


def test_nothing_is_drawn_where_the_account_cannot_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    poor = dc.Ledger("sqlite://").open("records", promise("0.5"))
    monkeypatch.setattr(private_selection, "os", None)
    with pytest.raises(dc.BudgetError):
        search(SearchPlan.of(promise(), 3), lambda *_: pytest.fail("a try was made"), poor)
    assert not poor.charges()
