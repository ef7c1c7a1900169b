"""Gaussian losses: what they convert to, when an account adds them up, and that no charge costs less than it is."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

import discreet as dc
from discreet.mechanisms.noise import deviation_for
from discreet.privacy import gaussian_loss
from discreet.privacy.gaussian_loss import (
    FREE_SHARE,
    KEPT_SHARE,
    discrete_rho,
    gaussian_delta,
    keeps,
    largest_rho,
    pure_rho,
    round_rho,
)
from discreet.privacy.ledger_books import script
from discreet.privacy.ledger_entries import (
    RHO_FIELDS,
    LedgerEntry,
    Refusal,
    following,
    subjects_of,
    verify,
    verify_document,
)
from discreet.records.counts import count_codes
from discreet.releases.policy import RecordsPolicy
from folding import every
from test_ledger_chain import written

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE


def spend(epsilon: object, delta: object = 0, relation: dc.Relation = ADD_REMOVE) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def opened(epsilon: object = 3, delta: object = "1e-4", relation: dc.Relation = ADD_REMOVE) -> dc.results.Account:
    return dc.Ledger("sqlite://").open("a", spend(epsilon, delta, relation))


SMALL = spend("0.1", "1e-6")
SMALL_SCALE, SMALL_ZCDP, _ = deviation_for(1, SMALL)
SMALL_RHO = discrete_rho(SMALL_ZCDP, SMALL_SCALE)


def exact_delta(epsilon: float, rho: float) -> float:
    """Balle and Wang (2018), Theorem 8, by logarithms of tails."""
    mu = math.sqrt(2 * rho)
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))


def law_delta(epsilon: float, losses: np.ndarray, chances: np.ndarray) -> float:
    """Delta of a finite law of privacy losses."""
    return float((chances * np.maximum(0, -np.expm1(np.minimum(epsilon - losses, 0)))).sum())


# --------------------------------------------------------------------------------------------------------- conversions


@every(
    ("epsilon", "delta"), [(3, "1e-4"), (1, "1e-6"), ("0.1", "1e-9"), (10, "1e-5"), ("0.01", "1e-12"), (100, "0.01")]
)
def test_the_largest_sum_of_losses_keeps_its_guarantee_and_hardly_less(epsilon: Any, delta: str) -> None:
    rho = largest_rho(Fraction(epsilon), Fraction(delta))
    assert rho is not None and keeps(Fraction(epsilon), Fraction(delta), rho, 0.0)
    assert exact_delta(float(epsilon), float(rho)) <= float(delta) * (1 + 1e-9)
    assert exact_delta(float(epsilon), 1.002 * float(rho)) > float(delta)


@given(st.floats(0.02, 20), st.floats(0.01, 0.4))
def test_the_bound_of_delta_is_one_from_above_and_grows_with_the_loss(epsilon: float, share: float) -> None:
    rho = share * epsilon
    bound, exact = gaussian_delta(epsilon, rho), exact_delta(epsilon, rho)
    assert exact * (1 - 1e-6) <= bound <= exact * 1.01 + 1e-290
    assert gaussian_delta(epsilon, 1.001 * rho) >= bound >= gaussian_delta(1.001 * epsilon, rho)


@every("arguments", [(1.0, 0.0), (1.0, -1.0), (1.0, 1.0), (1.0, math.nan), (math.nan, 0.1), (501.0, 0.1), (0.0, 0.1)])
def test_what_no_bound_is_known_of_has_delta_1(arguments: tuple[float, float]) -> None:
    assert gaussian_delta(*arguments) == 1.0


@every(("epsilon", "delta"), [(0, "0.1"), (-1, "0.1"), (501, "0.1"), (1, 0), (1, -1), (1, Fraction(1, 10**101))])
def test_there_is_no_sum_of_losses_for_what_guarantees_nothing(epsilon: Any, delta: Any) -> None:
    assert largest_rho(Fraction(epsilon), Fraction(delta)) is None


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=1000))
def test_losses_are_rounded_against_us(value: Fraction) -> None:
    assert value <= round_rho(value) <= value * (1 + Fraction(1, 10**11))
    assert value * (1 - Fraction(1, 10**11)) <= round_rho(value, up=False) <= value
    assert pure_rho(value) >= gaussian_loss.PURE_FACTOR * value**2
    assert Fraction(math.pi) / 4 < gaussian_loss.PURE_FACTOR


@every("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0])
def test_a_pure_release_has_the_loss_that_is_said(epsilon: float) -> None:
    """Randomised response, the worst of its kind, is no easier to tell apart than the Gaussian, at every level."""
    mu = math.sqrt(2 * float(pure_rho(Fraction(str(epsilon)))))
    for level in np.linspace(0.001, 0.999, 999):
        gaussian = norm.cdf(norm.isf(level) - mu)
        pure = max(0.0, 1 - math.exp(epsilon) * level, math.exp(-epsilon) * (1 - level))
        assert gaussian <= pure + 1e-12


@every(("scale", "copies"), [(3.0, 1), (3.0, 8), (5.0, 40), (12.0, 200)])
def test_discrete_gaussian_noise_has_the_loss_that_is_said(scale: float, copies: int) -> None:
    """The exact law of the loss of many releases that one record moves by one each, both ways round."""
    reach = int(12 * scale)
    noise = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    law = noise / noise.sum()
    total = law
    for _ in range(copies - 1):
        total = np.convolve(total, law)
    sums = np.arange(len(total)) - copies * reach
    losses = (copies - 2 * sums) / (2 * scale**2)  # of P(x) = noise at x to Q(x) = noise at x - 1, up to their sign
    rho = float(discrete_rho(Fraction(copies) / Fraction(2 * scale**2), scale))
    for epsilon in (0.3, 1.0, 2.0):
        if rho < epsilon:
            assert law_delta(epsilon, losses, total) <= gaussian_delta(epsilon, rho)


@every(("epsilon", "copies"), [(0.02, 400), (0.1, 30), (0.3, 4)])
def test_pure_releases_add_up_as_losses_do(epsilon: float, copies: int) -> None:
    """The exact law of the loss of so many randomised responses."""
    ones = np.arange(copies + 1)
    chances = binom.pmf(ones, copies, 1 / (1 + math.exp(-epsilon)))
    losses = (2 * ones - copies) * epsilon
    rho = copies * float(pure_rho(Fraction(str(epsilon))))
    for total in (0.5, 1.0, 2.0):
        if rho < total:
            assert law_delta(total, losses, chances) <= gaussian_delta(total, rho)


def test_noise_too_narrow_for_a_comparison_has_the_loss_of_its_guarantee() -> None:
    assert discrete_rho(Fraction(1), 2.8) is None
    assert discrete_rho(Fraction(1), 2.9, 100.0) > 1
    assert gaussian_loss.sum_rho(Fraction(1), None) is None and gaussian_loss.most_rho(Fraction(1), None) is None
    assert (
        gaussian_loss.sum_rho(Fraction(1), Fraction(2)) == 3 and gaussian_loss.most_rho(Fraction(1), Fraction(2)) == 2
    )


# ------------------------------------------------------------------------------------------------------------ accounts


@pytest.mark.costly("A thousand charges are what the promise is about.", always=True)
def test_a_thousand_small_gaussian_releases_fit_and_never_more_than_the_exact_sum_allows() -> None:
    account, number = opened(), 0
    with pytest.raises(dc.BudgetError, match=r"pay: by Gaussian losses rho asked 0\.0003219, left") as refused:
        while True:
            account.charge(f"r{number}", "gaussian", SMALL, rho=SMALL_RHO)
            number += 1
    assert number >= 1000
    assert "plain sums of epsilon have no room" in str(refused.value) and "spent" not in str(refused.value)
    assert exact_delta(3.0, number * float(SMALL_ZCDP)) <= 1e-4 < exact_delta(3.0, 1.06 * number * float(SMALL_ZCDP))
    balance = account.balance()
    assert balance.epsilon_spent == Fraction(number, 10) and balance.rho_spent == number * SMALL_RHO
    assert balance.rho_spent <= balance.rho_limit < balance.rho_spent + SMALL_RHO
    assert (balance.epsilon_left, balance.delta_left) == (0, 0)
    account.verify()


def test_the_sums_of_an_account_are_exact_and_each_admits_by_itself() -> None:
    account = opened()
    account.charge("pure", "laplace", spend("0.5"))  # dearer by its loss: epsilons and deltas alone are added up
    assert account.balance().rho_limit == 0 and account.charges()[0].rho == 0
    account.charge("first", "gaussian", SMALL, rho=SMALL_RHO)
    share = account._read(lambda connection: account._books.share(connection, "a", ""))
    assert (share.epsilon_before, share.delta_before) == ("1/2", "0")
    assert Fraction(share.rho_limit) == largest_rho(Fraction(5, 2), KEPT_SHARE * Fraction(1, 10**4))
    assert share.delta_cap == FREE_SHARE * Fraction(1, 10**4)
    for turn in range(100):
        account.charge(f"r{turn}", "gaussian", SMALL, rho=SMALL_RHO)
    assert account.balance().rho_spent == 101 * SMALL_RHO and account.balance().epsilon_spent == Fraction("10.6")
    with pytest.raises(dc.BudgetError):
        account.charge("large", "laplace", spend(1))  # neither sum has room for it
    account.charge("pure 2", "laplace", spend("0.2"))
    assert account.charges()[-1].rho == pure_rho(Fraction("0.2"))
    assert account.balance().rho_spent == 101 * SMALL_RHO + pure_rho(Fraction("0.2"))
    account.verify()


@every(
    ("limit", "price", "times"),
    [
        ((1, "1e-6"), (1, "1e-6"), 1),
        ((3, "3e-6"), (1, "1e-6"), 3),
        ((1, "1e-6"), ("0.5", "5e-7"), 2),
        ((3, "1e-4"), (1, 0), 3),
    ],
)
def test_charges_that_fit_by_plain_sums_still_do(limit: Any, price: Any, times: int) -> None:
    """Few large charges, whose deltas fill the limit; nothing is noted of their losses: digests are as before."""
    account, promise = opened(*limit), spend(*price)
    rho = None if not promise.delta else discrete_rho(*deviation_for(1, promise)[1::-1])
    for turn in range(times):
        account.charge(f"r{turn}", "m", promise, rho=rho)
    assert account.balance().epsilon_left == 0 and account.balance().rho_limit == 0
    assert {entry[name] for entry in account.export()["entries"] for name in RHO_FIELDS} == {"0"}
    with pytest.raises(dc.BudgetError):
        account.charge("late", "m", spend("0.01", "1e-9"), rho=Fraction(1, 10**9))


def test_a_pure_account_notes_no_losses() -> None:
    account = opened(3, 0)
    for turn in range(30):
        account.charge(f"r{turn}", "gaussian", spend("0.1"), rho=SMALL_RHO)
    assert account.balance().rho_limit == 0 and account.balance().epsilon_left == 0
    assert str(account.balance()) == "epsilon 3 of 3 spent, epsilon 0 left"


def test_delta_that_a_loss_leaves_out_has_a_limit_of_its_own() -> None:
    """A release without a loss of its own has that of epsilon, and its delta beside it."""
    account = opened()
    account.charge("first", "gaussian", SMALL, rho=SMALL_RHO)
    for turn in range(40):
        account.charge(f"r{turn}", "gaussian", SMALL, rho=SMALL_RHO)  # deltas are beyond their part by now
    cap = FREE_SHARE * Fraction(1, 10**4)
    account.charge("s", "domain", spend("0.05", cap))
    assert account.balance().rho_spent == 41 * SMALL_RHO + pure_rho(Fraction("0.05"))
    with pytest.raises(dc.BudgetError):
        account.charge("t", "domain", spend("0.05", "1e-12"))
    account.charge("u", "gaussian", SMALL, rho=SMALL_RHO)
    account.verify()


def test_a_loss_for_adding_a_record_is_four_times_as_large_for_replacing_one() -> None:
    account = opened(relation=REPLACE)
    account.charge("r", "gaussian", spend("0.01", "1e-8"), rho=SMALL_RHO / 100)
    account.charge("s", "gaussian", spend("0.01", "1e-8", REPLACE), rho=SMALL_RHO / 100)
    assert [charge.rho for charge in account.charges()] == [round_rho(SMALL_RHO / 25), round_rho(SMALL_RHO / 100)]


@every("rho", [0, -1, Fraction(-1, 10), math.nan, math.inf, "x", True])
def test_a_loss_that_is_no_number_above_0_is_refused(rho: Any) -> None:
    account = opened()
    for attempt in (account.check, lambda promise, rho: account.charge("r", "m", promise, rho=rho)):
        with pytest.raises(dc.InputError, match=r"rho|Gaussian loss"):
            attempt(SMALL, rho=rho)
    assert account.charges() == ()


@every("rho", [Fraction(1, 10**1000), 5e-324, 10**1000])
def test_a_loss_beyond_all_floats_is_one_like_others(rho: Any) -> None:
    for first in ([], [SMALL_RHO]):
        account = opened()
        for loss in (*first, rho):
            account.charge(f"loss {loss > 1} {len(account.charges())}", "m", SMALL, rho=loss)
        assert "epsilon 0." in str(account.balance())
        with pytest.raises(dc.BudgetError, match="nothing was charged"):
            account.charge("large", "m", spend(10**200, "1e-6"))
        account.verify()


def test_a_pure_charge_costs_no_more_than_its_epsilon_says() -> None:
    account = opened()
    account.charge("r", "gaussian", SMALL, rho=SMALL_RHO)
    account.charge("s", "m", spend("0.1"), rho=Fraction(1))
    account.charge("t", "m", spend("0.1"), rho=Fraction(1, 1000))
    assert [charge.rho for charge in account.charges()[1:]] == [pure_rho(Fraction(1, 10)), Fraction(1, 1000)]


def test_a_limit_is_lowered_with_that_of_losses_and_never_below_what_was_spent() -> None:
    account = opened()
    for turn in range(60):
        account.charge(f"r{turn}", "gaussian", SMALL, rho=SMALL_RHO)
    before = account.balance()
    account.lower(spend(2, "1e-5"))
    after = account.balance()
    assert after.rho_limit == largest_rho(Fraction(2), KEPT_SHARE * Fraction(1, 10**5)) < before.rho_limit
    assert after.rho_spent == before.rho_spent
    for limit in (spend(3, "1e-5"), spend(2, "1e-4")):
        with pytest.raises(dc.InputError, match="never rises"):
            account.lower(limit)
    for limit in (spend("0.5", "1e-5"), spend(2, "1e-30"), spend(2, 0)):
        with pytest.raises(dc.InputError, match="more was spent"):
            account.lower(limit)
    assert account.balance() == after
    account.lower(spend(1, "1e-6"), purpose="study")
    for turn in range(10):
        replace(account, purpose="study").charge(f"s{turn}", "gaussian", spend("0.1", "1e-7"), rho=SMALL_RHO)
    with pytest.raises(dc.BudgetError, match="for purpose study"):  # limits of persons and purposes are plain sums
        replace(account, purpose="study").charge("late", "gaussian", spend("0.1", "1e-7"), rho=SMALL_RHO)
    account.close()
    account.verify()


# ------------------------------------------------------------------------------------------- entries that were made up


OPENED = LedgerEntry(
    "a", 0, "opened", epsilon="3", delta="1/10000", relation="add-remove", unit="record", user="o", day="2026-01-01"
)  # fmt: skip
LIMIT = str(largest_rho(Fraction(3), KEPT_SHARE * Fraction(1, 10**4)))


def charge(number: int, rho: str = "1/100", rho_delta: str = "0", rho_limit: str = "0", **more: str) -> LedgerEntry:
    fields = {"epsilon": "1/10", "delta": "1/1000000", "user": "ann", "day": "2026-01-02"} | more
    return LedgerEntry(
        "a", 0, "charged", f"r{number}", "m", rho=rho, rho_delta=rho_delta, rho_limit=rho_limit, **fields
    )


REST = str(largest_rho(Fraction(20, 7), KEPT_SHARE * Fraction(1, 10**4)))
CHAIN, SHARES = written(
    OPENED, charge(0, epsilon="1/7", delta="0"), charge(1, rho_limit=REST), charge(2, "1/7"),
    charge(3, "0", epsilon="1/5"), charge(4, "1/9", "1/1000000"),
)  # fmt: skip


def test_entries_add_up_losses_exactly() -> None:
    assert verify(CHAIN, SHARES) == tuple(CHAIN)
    assert CHAIN[1].rho == "0" and CHAIN[2].rho_spent == "1/100"
    assert (CHAIN[4].rho, CHAIN[4].rho_delta) == (str(pure_rho(Fraction(1, 5))), "1/1000000")
    expected = Fraction(1, 100) + Fraction(1, 7) + pure_rho(Fraction(1, 5)) + Fraction(1, 9)
    assert Fraction(CHAIN[-1].rho_spent) == expected and CHAIN[-1].rho_delta_spent == "1/500000"
    assert SHARES[""].epsilon_before == "1/7" and SHARES["person ann"].rho_limit == "0"


@every(("place", "field"), [(place, field) for place in range(len(CHAIN)) for field in RHO_FIELDS])
def test_a_changed_loss_is_found_in_its_place(place: int, field: str) -> None:
    for value in ("1/1000", "-1/1000", "nan", ""):
        changed = [*CHAIN]
        changed[place] = replace(CHAIN[place], **{field: value})
        with pytest.raises(dc.InputError, match=rf"entry {place} "):
            verify(changed)
        sealed = changed[place].sealed(CHAIN[place - 1].digest if place else "")
        with pytest.raises(dc.InputError, match=rf"entry ({place}|{place + 1}) " if place < 5 else "entry 5|balance"):
            verify([*CHAIN[:place], sealed, *CHAIN[place + 1 :]], SHARES)


@every("field", ["rho_limit", "rho_spent", "rho_delta_spent", "epsilon_before", "delta_before"])
def test_a_changed_balance_of_losses_is_found(field: str) -> None:
    changed = {**SHARES, "": replace(SHARES[""], **{field: "1/100000000"}).sealed()}
    with pytest.raises(dc.InputError, match="balance does not follow"):
        verify(CHAIN, changed)


LONG = str(Fraction(1, 3**7000))


@every(
    ("drafts", "reason"),
    [
        ((OPENED, charge(1, rho_limit="34/100")), "rho"),  # more than keeps the guarantee
        ((OPENED, charge(1, rho_limit=str(Fraction(LIMIT) * Fraction(1001, 1000)))), "rho"),
        ((OPENED, charge(1, rho_limit="100")), "rho"),
        ((OPENED, charge(0, epsilon="1", delta="0"), charge(1, rho_limit=LIMIT)), "rho"),  # a third of epsilon is spent
        ((OPENED, charge(0, delta="1/20000"), charge(1, rho_limit=LIMIT)), "rho"),
        ((OPENED, charge(1), charge(2, epsilon="-1/20")), "form"),  # a refund, in a changed export
        ((OPENED, charge(1), charge(2, epsilon="0")), "form"),
        ((OPENED, charge(1), charge(2, delta="-1/10000000")), "form"),
        ((OPENED, charge(1, "-1/100", rho_limit=LIMIT)), "rho"),
        ((OPENED, charge(1, "1/100", "-1/1000000", LIMIT)), "rho"),
        ((OPENED, charge(1, "1/100", "1/100000", LIMIT)), "rho"),  # more than delta
        ((OPENED, charge(1, "2/5", rho_limit=LIMIT, epsilon="4")), "limit"),
        ((OPENED, charge(1, rho_limit=LIMIT), charge(2, "32/100", epsilon="3")), "limit"),
        ((OPENED, charge(1, rho_limit=LIMIT), charge(2, "1/100", "1/100000", delta="1/100000")), "limit"),
        ((OPENED, charge(1, rho_limit=LIMIT), charge(2, "0", epsilon="3", delta="0")), "limit"),
        ((OPENED, charge(1, rho_limit=LIMIT), charge(2, LONG)), "digits"),
        ((OPENED, charge(1, rho_limit=LIMIT), replace(OPENED, kind="limited", epsilon="2")), "spent"),
        ((OPENED, charge(1, rho_limit=LIMIT), replace(OPENED, kind="limited", epsilon="2", rho_limit=LIMIT)), "spent"),
        ((OPENED, charge(1, rho_limit=LIMIT), replace(OPENED, kind="limited", rho_limit="1/3")), "rises"),
        ((OPENED, charge(1), replace(OPENED, kind="limited", rho_limit="1/10")), "rho"),
    ],
)
def test_what_cannot_follow_is_refused(drafts: tuple[LedgerEntry, ...], reason: str) -> None:
    before, _ = written(*drafts[:-1])
    with pytest.raises(Refusal) as caught:
        written(*drafts)
    assert caught.value.reason == reason
    assert verify(before) == tuple(before)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 3), st.booleans(), st.booleans())))
def test_no_chain_exceeds_both_sums(steps: list[tuple[int, int, bool, bool]]) -> None:
    """The oracle adds up in rationals, beside the entries."""
    (first,), shares = written(OPENED)
    entries, plain, losses = [first], [Fraction(0), Fraction(0)], [Fraction(0), Fraction(0)]
    for number, (tenths, millionths, states, own_delta) in enumerate(steps):
        epsilon, delta = Fraction(tenths, 20), Fraction(millionths, 10**6)
        draft = charge(number, str(Fraction(tenths, 400)) if states else "0", str(delta * own_delta),
                       LIMIT if number == 0 else "0", epsilon=str(epsilon), delta=str(delta))  # fmt: skip
        more = (Fraction(tenths, 400), delta * own_delta) if states else (pure_rho(epsilon), delta)
        try:
            made, changed = following(entries[-1], {s: shares[s] for s in subjects_of(draft) if s in shares}, draft)
        except Refusal as refusal:
            assert refusal.reason == "limit"
            cap = FREE_SHARE * Fraction(1, 10**4)
            first_sum = plain[0] + epsilon <= 3 and plain[1] + delta <= cap
            assert not first_sum and (losses[0] + more[0] > Fraction(LIMIT) or losses[1] + more[1] > cap)
            if number == 0:
                return
            continue
        entries.append(made)
        shares |= {share.subject: share for share in changed}
        plain, losses = (
            [a + b for a, b in zip(s, m, strict=True)] for s, m in ((plain, (epsilon, delta)), (losses, more))
        )
    assert [Fraction(getattr(shares[""], name)) for name in ("epsilon_spent", "delta_spent")] == plain
    assert [Fraction(getattr(shares[""], name)) for name in ("rho_spent", "rho_delta_spent")] == losses
    assert verify(entries, shares) == tuple(entries)


# ----------------------------------------------------------------------------------------------------- older ledgers


def write_version_2(file: Path, epsilon: str = "3", delta: str = "1/10000") -> None:
    """A ledger as programs of version 2 wrote it, with one charge."""
    entries, shares = written(replace(OPENED, epsilon=epsilon, delta=delta), charge(1, "0"))
    base = sqlite3.connect(file)
    for statement in script("ledger_sqlite.sql").split("\n\n"):
        base.execute(statement)
    added = ("rho", "epsilon_before", "delta_before")
    for table, rows in (("entries", [entry.row() for entry in entries]), ("balances", map(vars, shares.values()))):
        for row in rows:
            names = [name for name in row if not name.startswith(added)]
            marks = ", ".join(f":{name}" for name in names)
            base.execute(f"INSERT INTO discreet_{table} ({', '.join(names)}) VALUES ({marks})", row)
    base.commit()
    base.close()


def test_a_file_of_version_2_is_read_as_it_is_and_keeps_its_sums_when_it_is_charged(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    write_version_2(file)
    before = file.read_bytes()
    account = dc.Ledger(f"sqlite:///{file}").account("a")
    assert account.balance().epsilon_spent == Fraction(1, 10) and account.verify().sequence == 1
    account.check(SMALL)
    assert len(account.charges()) == 1 and account.ledger.paid("r1") is not None
    assert file.read_bytes() == before
    account.charge("r2", "gaussian", SMALL, rho=SMALL_RHO)
    balance = account.balance()
    assert balance.epsilon_spent == Fraction(2, 10) and balance.rho_spent == SMALL_RHO
    assert balance.rho_limit == largest_rho(Fraction("2.9"), KEPT_SHARE * Fraction(99, 10**6))
    assert account.verify().sequence == 2
    assert dc.Ledger(f"sqlite:///{file}").account("a").balance() == balance


def test_a_pure_file_of_version_2_goes_on_with_the_same_digests(tmp_path: Path) -> None:
    write_version_2(tmp_path / "old.db", delta="1/2")
    account = dc.Ledger(f"sqlite:///{tmp_path / 'old.db'}").account("a")
    account.charge("r2", "laplace", spend(1))
    last = account.verify()
    texts = [account.export()["entries"][1]["digest"], *(str(value) for value in list(last.row().values())[:16])]
    assert last.sealed(texts[0]).digest == last.digest
    assert {getattr(last, name) for name in RHO_FIELDS} == {"0"}


def test_an_export_of_version_2_is_verified() -> None:
    entries, _ = written(OPENED, charge(1, "0"))
    rows = [{name: value for name, value in entry.row().items() if name not in RHO_FIELDS} for entry in entries]
    document: dict[str, Any] = {"format": "discreet ledger account", "version": 2, "account": "a", "entries": rows}
    assert verify_document(json.loads(json.dumps(document))) == entries[-1]
    with pytest.raises(dc.InputError):
        verify_document(document | {"version": 3})


# ------------------------------------------------------------------------------------------------------ from releases


NETWORK = dc.Network((dc.Variable("a", ("0", "1")), dc.Variable("b", ("0", "1"))), {"a": (), "b": ()})


def released(mechanism: Any, promise: dc.Guarantee, account: dc.results.Account, policy: Any = None) -> dc.Release:
    counts = count_codes(NETWORK, {"a": np.array([0, 1, 1, 0]), "b": np.array([0, 1, 1, 0])})
    counts = counts if policy is None else replace(counts, policy=policy)
    return dc.release(mechanism, counts, dc.Dirichlet.uniform(NETWORK), promise, account=account)


def test_a_release_is_charged_with_the_loss_of_its_noise() -> None:
    account = opened()
    made = released(dc.gaussian(), SMALL, account)
    assert account.charges()[-1].rho == discrete_rho(made.calibration.rho, made.calibration.scale)
    made = released(dc.laplace(), spend("0.1"), account)
    tables = sum(pure_rho(1 / Fraction(scale)) for scale in made.calibration.scales.values())
    assert account.charges()[-1].rho == round_rho(tables) < pure_rho(Fraction("0.1"))
    made = released(dc.planned(pairs_share="0.2"), SMALL, account)
    assert account.charges()[-1].rho == round_rho(made.calibration.gaussian_loss)
    account.verify()


@every("relation", [ADD_REMOVE, REPLACE])
@every(
    "mechanism",
    [dc.gaussian(), dc.planned(), dc.planned(pairs_share="0.5"), dc.laplace(), dc.planned(records=1000)],
    ids=str,
)
def test_the_loss_of_a_calibration_is_at_least_that_of_its_noise(mechanism: Any, relation: dc.Relation) -> None:
    """Noise that is Gaussian alone keeps its promise with little to spare, and other noise is pure."""
    promise = spend("0.2", "1e-6" if mechanism.name != "laplace" else 0, relation)
    calibration = mechanism.calibrate(NETWORK, dc.Dirichlet.uniform(NETWORK), promise)
    loss = calibration.gaussian_loss
    gaussian = getattr(calibration, "rho", None)
    assert loss is not None and 0 < loss <= pure_rho(promise.epsilon)
    assert gaussian is None or loss > gaussian


def test_the_loss_of_a_unit_with_several_records_grows_with_their_square() -> None:
    policy = RecordsPolicy("error", "error", "who", 3)
    account = dc.Ledger("sqlite://").open("a", dc.Guarantee(epsilon=3, delta="1e-4", relation="add-remove", unit="who"))
    promise = dc.Guarantee(epsilon="0.1", delta="1e-6", relation="add-remove", unit="who")
    made = released(dc.gaussian(), promise, account, policy)
    expected: Callable[[Fraction], Fraction] = lambda loss: round_rho(9 * loss)  # noqa: E731
    assert account.charges()[-1].rho == expected(made.calibration.gaussian_loss)
