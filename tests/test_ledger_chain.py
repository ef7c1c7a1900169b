"""Entries of an account follow from each other: `verify` finds the first that was changed, and tells whose it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.privacy.ledger_entries import (
    COLUMNS,
    RHO_FIELDS,
    LedgerEntry,
    Refusal,
    Share,
    following,
    subjects_of,
    verify,
    verify_document,
)
from discreet.records.counts import count_codes
from folding import every


def spend(epsilon: object, delta: object = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation="add-remove", unit="record")


def written(*drafts: LedgerEntry) -> tuple[list[LedgerEntry], dict[str, Share]]:
    """A chain, and the balances that it leaves."""
    last, shares, entries = None, {}, []
    for draft in drafts:
        held = {subject: shares[subject] for subject in subjects_of(draft) if subject in shares}
        last, changed = following(last, held, draft)
        shares |= {share.subject: share for share in changed}
        entries.append(last)
    return entries, shares


OPENED = LedgerEntry(
    "ward", 0, "opened", epsilon="3", delta="1/1000", relation="add-remove", unit="record", user="o", day="2026-01-01"
)  # fmt: skip


def charge(number: int, epsilon: str = "1/3", who: str = "anna", purpose: str = "", delta: str = "0") -> LedgerEntry:
    return LedgerEntry(
        "ward", 0, "charged", f"r{number}", "laplace", epsilon, delta, user=who, day="2026-01-02", purpose=purpose
    )


def limit(epsilon: str, subject: str = "", delta: str = "0") -> LedgerEntry:
    return LedgerEntry("ward", 0, "limited", epsilon=epsilon, delta=delta, subject=subject, user="o", day="2026-01-02")


CLOSED = LedgerEntry("ward", 0, "closed", user="o", day="2026-01-09")
CHAIN, SHARES = written(
    OPENED, charge(1), charge(2, "1/7", "ben", "study"), limit("1", "purpose study"), charge(3, "1/2", "anna", "study"),
    limit("2"), charge(4, "1/10"),
)  # fmt: skip


FIELDS = tuple(field.name for field in fields(LedgerEntry))


def test_an_entry_is_for_a_draft_that_asks_for_all_that_it_says() -> None:
    """But for its place, who made it and when, and what the books add: a new field is compared until it is said not."""
    draft = LedgerEntry("a", 0, "charged", "r", "laplace", "1/2", purpose="p", request="q")
    entry = replace(draft, sequence=3, user="ada", day="2026-11-25", epsilon_spent="1", delta_spent="1").sealed(
        "before"
    )
    assert entry.is_for(draft)
    free = {"sequence", "user", "day", "epsilon_spent", "delta_spent", "digest", *RHO_FIELDS}
    compared = {name for name in FIELDS if not entry.is_for(replace(draft, **{name: "other"}))}
    assert compared == set(FIELDS) - free


def test_places_have_no_gap_and_sums_are_exact() -> None:
    assert [entry.sequence for entry in CHAIN] == list(range(7))
    assert CHAIN[-1].epsilon_spent == str(Fraction(1, 3) + Fraction(1, 7) + Fraction(1, 2) + Fraction(1, 10))
    assert SHARES["person anna"].epsilon_spent == str(Fraction(1, 3) + Fraction(1, 2) + Fraction(1, 10))
    assert SHARES["purpose study"].epsilon_spent == str(Fraction(1, 7) + Fraction(1, 2))
    assert SHARES["purpose study"].epsilon_limit == "1" and SHARES[""].epsilon_limit == "2"
    assert verify(CHAIN, SHARES) == tuple(CHAIN)


OTHER: dict[str, Any] = {
    "account": "other", "sequence": 9, "kind": "closed", "release": "x", "mechanism": "x", "epsilon": "1/4",
    "delta": "1/9999", "relation": "replace", "unit": "x", "subject": "person x", "purpose": "x", "request": "x",
    "user": "x", "day": "2020-01-01", "epsilon_spent": "1/4", "delta_spent": "1/4", "digest": "0" * 64,
    "rho": "1/9", "rho_delta": "1/9", "rho_limit": "1/9", "rho_spent": "1/9", "rho_delta_spent": "1/9",
}  # fmt: skip


@every(("place", "field"), [(place, field) for place in range(7) for field in FIELDS])
def test_whatever_is_changed_is_found_in_its_place(place: int, field: str) -> None:
    changed = [*CHAIN]
    changed[place] = replace(CHAIN[place], **{field: OTHER[field]})
    found = OTHER[field] if field == "sequence" else place
    with pytest.raises(dc.InputError, match=rf"entry {found} (does not match|is impossible)") as caught:
        verify(changed)
    assert "\n" not in str(caught.value)


@every(("place", "field"), [(place, field) for place in (1, 2, 4) for field in ("user", "day", "mechanism")])
def test_an_entry_that_was_sealed_again_breaks_the_next(place: int, field: str) -> None:
    """Whoever changes one has to change all behind it, and then the last digest is another."""
    changed = [*CHAIN]
    changed[place] = replace(CHAIN[place], **{field: OTHER[field]}).sealed(CHAIN[place - 1].digest)
    with pytest.raises(dc.InputError, match=f"entry {place + 1} does not match: digest"):
        verify(changed)


def test_an_entry_that_is_gone_added_or_elsewhere_is_found() -> None:
    for place in range(1, 6):
        gone = [*CHAIN[:place], *CHAIN[place + 1 :]]
        twice = [*CHAIN[: place + 1], CHAIN[place], *CHAIN[place + 1 :]]
        swapped = [*CHAIN[:place], CHAIN[place + 1], CHAIN[place], *CHAIN[place + 2 :]]
        for changed, found in ((gone, place + 1), (twice, place), (swapped, place + 1)):
            with pytest.raises(dc.InputError, match=rf"entry {found} (does not match|is impossible)"):
                verify(changed)
    with pytest.raises(dc.InputError, match=r"entry 1 is impossible .*absent"):
        verify(CHAIN[1:])


def test_a_chain_that_ends_too_early_is_told_by_its_balance_or_by_who_kept_the_digest() -> None:
    """By itself it is whole."""
    with pytest.raises(dc.InputError, match="balance does not follow"):
        verify(CHAIN[:-1], SHARES)
    shorter, shares = written(*[replace(entry, sequence=0, digest="") for entry in CHAIN[:-1]])
    assert verify(shorter, shares)[-1].digest == CHAIN[-2].digest != CHAIN[-1].digest


@every("subject", ["", "person anna", "person ben", "purpose study"])
def test_a_balance_that_does_not_follow_is_found(subject: str) -> None:
    for change in ({"epsilon_spent": "0"}, {"epsilon_limit": "9"}, {"sequence": 0}):
        changed = {**SHARES, subject: replace(SHARES[subject], **change).sealed()}
        with pytest.raises(dc.InputError, match=r"balance .*does not follow from its entries"):
            verify(CHAIN, changed)
    with pytest.raises(dc.InputError, match="does not follow"):
        verify(CHAIN, {**SHARES, "person x": SHARES[subject]})
    with pytest.raises(dc.InputError, match="does not follow"):
        verify(CHAIN, {name: share for name, share in SHARES.items() if name != subject})


# ----------------------------------------------------------------------------------------------------- what can follow


@every(
    ("drafts", "reason"),
    [
        ((OPENED, charge(1, "31/10")), "limit"),
        ((OPENED, charge(1, "1", delta="1/999")), "limit"),
        ((OPENED, limit("1"), charge(1, "11/10")), "limit"),
        ((OPENED, limit("1", "person anna"), charge(1, "11/10")), "limit"),
        ((OPENED, limit("1", "purpose p"), charge(1, "2", purpose="p")), "limit"),
        ((OPENED, charge(1, "2", "ben"), limit("1", "person ben")), "spent"),
        ((OPENED, charge(1, "2"), limit("1")), "spent"),
        ((OPENED, charge(1, "1", delta="1/2000"), limit("2", "", "1/3000")), "spent"),
        ((OPENED, limit("4")), "rises"),
        ((OPENED, limit("2", "", "1/999")), "rises"),
        ((OPENED, limit("4", "person anna")), "rises"),
        ((OPENED, limit("1", "person anna"), limit("2", "person anna")), "rises"),
        ((OPENED, limit("1"), limit("2", "person anna")), "rises"),
        ((OPENED, OPENED), "open"),
        ((charge(1),), "absent"),
        ((OPENED, CLOSED, charge(1)), "closed"),
        ((OPENED, CLOSED, CLOSED), "closed"),
        ((OPENED, CLOSED, limit("1")), "closed"),
        ((OPENED, charge(1, f"1/{3**7000}")), "digits"),
    ],
)
def test_what_cannot_follow_is_refused(drafts: tuple[LedgerEntry, ...], reason: str) -> None:
    before, _ = written(*drafts[:-1]) if len(drafts) > 1 else ([], {})
    with pytest.raises(Refusal) as caught:
        written(*drafts)
    assert caught.value.reason == reason
    assert verify(before) == tuple(before)


def test_a_limit_is_for_whom_it_says() -> None:
    _, shares = written(OPENED, limit("1", "person anna"), charge(1, "2", "ben"), charge(2, "1", "anna"))
    assert shares[""].epsilon_spent == "3" and shares["person ben"].epsilon_limit == ""
    with pytest.raises(Refusal):
        written(OPENED, limit("1", "purpose p"), charge(1, "1", purpose="p"), charge(2, "1/100", purpose="p"))
    _, shares = written(OPENED, limit("1", "purpose p"), charge(1, "1", purpose="p"), charge(2, "1/100", purpose="q"))
    assert shares["purpose q"].epsilon_spent == "1/100"


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12), st.sampled_from("ab"), st.sampled_from(["", "p"]))))
def test_no_chain_exceeds_a_limit(steps: list[tuple[int, int, str, str]]) -> None:
    """Of the account, of a person, of a purpose; and every chain that was made is verified."""
    entries, shares = written(OPENED, limit("2", "person a"), limit("1", "purpose p"))
    for number, (numerator, denominator, who, purpose) in enumerate(steps):
        draft = charge(number, str(Fraction(numerator, denominator)), who, purpose)
        try:
            made, changed = following(entries[-1], {s: shares[s] for s in subjects_of(draft) if s in shares}, draft)
        except Refusal as refusal:
            assert refusal.reason == "limit"
            continue
        entries.append(made)
        shares |= {share.subject: share for share in changed}
    charged = [entry for entry in entries if entry.kind == "charged"]
    whole, by_a, for_p = (
        sum((Fraction(entry.epsilon) for entry in charged if counts(entry)), Fraction())
        for counts in (lambda _: True, lambda entry: entry.user == "a", lambda entry: entry.purpose == "p")
    )
    assert whole <= 3 and by_a <= 2 and for_p <= 1
    assert Fraction(shares[""].epsilon_spent) == whole
    assert verify(entries, shares) == tuple(entries)


# ------------------------------------------------------------------------------------------------ accounts of a ledger


def test_an_export_says_all_and_is_verified_offline() -> None:
    account = dc.Ledger("sqlite://").open("ward", spend(3, "1e-3"))
    account.charge("r1", "laplace", spend("1/3"))
    account.lower(spend(1), purpose="study")
    dc.results.Account(account.ledger, "ward", purpose="study").charge("r2", "m", spend("0.5"))
    account.close()
    document = json.loads(json.dumps(account.export()))
    last = account.verify()
    assert verify_document(document) == last and last.kind == "closed" and last.sequence == 4
    for change in (
        lambda rows: rows[1].update(epsilon="1/4"), lambda rows: rows.pop(2), lambda rows: rows[1].pop("who"),
        lambda rows: rows[1].update(sequence="1"), lambda rows: rows[1].update(sequence=True),
        lambda rows: rows[2].update(epsilon=1), lambda rows: rows[1].update(more=""), lambda rows: rows.clear(),
    ):  # fmt: skip
        other = json.loads(json.dumps(document))
        change(other["entries"])
        with pytest.raises(dc.InputError) as caught:
            verify_document(other)
        assert "\n" not in str(caught.value)
    for other in (None, [], {}, {**document, "version": 4}, {**document, "entries": 1}):
        with pytest.raises(dc.InputError, match="ledger export"):
            verify_document(other)


def test_a_request_is_charged_once() -> None:
    ledger = dc.Ledger("sqlite://")
    ledger.open("ward", spend(3))
    asked = ledger.account("ward", request="job")
    first = asked.charge("r1", "m", spend(1))
    assert asked.charge("r2", "m", spend(1)) == first
    assert [charge.release for charge in asked.charges()] == ["r1"]
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: asked.charge("r3", "m", spend(2)), "for another purpose"),
        (lambda: asked.charge("r3", "other", spend(1)), "for another purpose"),
        (lambda: replace(asked, purpose="p").charge("r3", "m", spend(1)), "for another purpose"),
        (lambda: asked.charge("r3", "m", spend(1), anew=True), "charged before, for release r1"),
    ]
    for attempt, words in refusals:
        with pytest.raises(dc.InputError, match=re.escape(words)):
            attempt()
    assert replace(asked, request="job 2").charge("r4", "m", spend(1), anew=True).epsilon_spent == 2
    assert asked.charge("r1", "m", spend(1), anew=True).epsilon_spent == 2  # its own charge, whose reply was lost


def test_a_release_is_drawn_once_for_a_request() -> None:
    network = dc.Network((dc.Variable("a", ("0", "1")),), {"a": ()})
    counts = count_codes(network, {"a": np.array([0, 1, 1])})
    ledger = dc.Ledger("sqlite://")
    ledger.open("ward", spend(3))
    account = ledger.account("ward", request="job", purpose="report")
    prior = dc.Dirichlet.uniform(network)
    made = dc.release(dc.laplace(), counts, prior, spend(1), account=account)
    with pytest.raises(dc.InputError, match=rf"'job' was charged before, for release {made.id}: .*nothing more"):
        dc.release(dc.laplace(), counts, prior, spend(1), account=account)
    (charge,) = account.charges()
    assert (charge.release, charge.purpose) == (made.id, "report")


@pytest.mark.parametrize("text", ["x" * 81, "a\nb", " a", "\u202ea", 7])
def test_purposes_and_requests_can_be_read(text: Any) -> None:
    ledger = dc.Ledger("sqlite://")
    account = ledger.open("ward", spend(3))
    for attempt in (
        lambda: ledger.account("ward", purpose=text), lambda: ledger.account("ward", request=text),
        lambda: account.lower(spend(1), purpose=text), lambda: account.lower(spend(1), person=text),
    ):  # fmt: skip
        with pytest.raises(dc.InputError):
            attempt()
    with pytest.raises(dc.InputError, match="not for both"):
        account.lower(spend(1), person="a", purpose="b")
    with pytest.raises(dc.InputError, match="so is each limit in it"):
        account.lower(dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record"))
    assert account.verify().sequence == 0


def test_entries_are_plain_data() -> None:
    assert LedgerEntry(*CHAIN[3].row().values()) == CHAIN[3] and list(CHAIN[3].row()) == list(COLUMNS)
