"""A ledger of version 1 becomes one of version 2: nothing is lost, and neither program charges the other's."""

from __future__ import annotations

import uuid
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import discreet as dc
import ledger_version_1 as old
import shell
from discreet.privacy.ledger_migration import migrate


def spend(epsilon: object, delta: object = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation="add-remove", unit="record")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'budget.db'}"
    made: str = request.getfixturevalue("server").make_base(f"migrated_{uuid.uuid4().hex[:12]}")
    return made


def test_old_rows_become_a_chain_and_stay_as_they_are(url: str) -> None:
    old.make(url)
    before = old.run(url, ["SELECT * FROM discreet_accounts", "SELECT * FROM discreet_charges ORDER BY number"])
    assert migrate(url) == 1 and migrate(url) == 2
    account = dc.Ledger(url).account("ward")
    balance = account.balance()
    assert (balance.epsilon_spent, balance.delta_spent) == (Fraction(13, 30), Fraction(1, 10**7))
    assert [(charge.sequence, charge.release, charge.who, str(charge.date)) for charge in account.charges()] == [
        (1, "r1", "(version 1)", "2026-01-03"), (2, "r2", "(version 1)", "2026-01-03"),
    ]  # fmt: skip
    assert account.verify().sequence == 2
    after = old.run(url, ["SELECT * FROM discreet_accounts_1", "SELECT * FROM discreet_charges_1 ORDER BY number"])
    assert after == before
    assert account.charge("r3", "m", spend("0.5")).epsilon_spent == Fraction(13, 30) + Fraction(1, 2)
    with pytest.raises(dc.InputError, match="paid for before"):
        account.charge("r1", "m", spend("0.1"))
    with pytest.raises(dc.BudgetError):
        account.charge("r4", "m", spend(2))
    assert account.verify().sequence == 3


def test_a_program_of_before_reads_and_cannot_charge(url: str) -> None:
    """Its own statements: of a charge, of an account, and of a balance."""
    old.make(url)
    migrate(url)
    dc.Ledger(url).account("ward").charge("r3", "m", spend("0.5"))
    for statement in (
        old.CHARGE.format(old.written("ward", "r4", "m", "0.1", "0", "2026-01-04")),
        old.OPEN.format(old.written("other", "1", "0", "add-remove", "record", "2026-01-04")),
    ):
        with pytest.raises(Exception, match="this ledger has version 2, and this program is older"):
            old.run(url, [statement])
    ((limit,), rows) = old.run(
        url,
        [
            "SELECT epsilon FROM discreet_accounts WHERE name = 'ward'",
            "SELECT epsilon FROM discreet_charges WHERE account = 'ward' ORDER BY number",
        ],
    )
    assert limit == ("2",) and sum(Fraction(str(row[0])) for row in rows) == Fraction(14, 15)
    assert dc.Ledger(url).account("ward").verify().sequence == 3


def test_this_program_does_not_charge_a_ledger_of_before_or_after(url: str) -> None:
    old.make(url)
    with pytest.raises(
        dc.InputError, match=r"has version 1, and this program version 2: `discreet ledger migrate.*nothing"
    ):
        dc.Ledger(url)
    migrate(url)
    table = "discreet_ledger" if url.startswith("sqlite") else "discreet.ledger"
    old.run(url, [f"INSERT INTO {table} VALUES (3)"])
    for attempt in (lambda: dc.Ledger(url), lambda: migrate(url)):
        with pytest.raises(dc.InputError, match="version 3"):
            attempt()


@pytest.mark.parametrize(
    ("charges", "words"),
    [
        ((("r1", "-1", "0"),), "a row that version 1 does not write"),
        ((("r1", "x", "0"),), "a row that version 1 does not write"),
        ((("r1", "1", "2"),), "a row that version 1 does not write"),
        ((("r1", "1.5", "0"), ("r2", "0.6", "0")), "go beyond its limit"),
    ],
)
def test_rows_that_version_1_did_not_write_are_not_migrated(charges: Any, words: str, url: str) -> None:
    old.make(url, charges)
    with pytest.raises(dc.InputError, match=rf"{words}.*nothing was changed"):
        migrate(url)
    assert old.run(url, ["SELECT count(*) FROM discreet_charges"]) == [[(len(charges),)]]
    with pytest.raises(dc.InputError, match="has version 1"):
        dc.Ledger(url)


def test_charges_of_no_account_are_not_migrated(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    old.make(url)
    old.run(url, [old.CHARGE.format(old.written("ghost", "r9", "m", "0.1", "0", "2026-01-04"))])
    with pytest.raises(dc.InputError, match="charges of 'ghost', which is not open"):
        migrate(url)


def test_nothing_is_made_where_there_is_no_ledger(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    with pytest.raises(dc.InputError, match="there is no ledger"):
        migrate(url)
    assert old.run(url, ["SELECT count(*) FROM sqlite_master"]) == [[(0,)]]


def test_the_command_migrates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISCREET_LEDGER", f"sqlite:///{tmp_path / 'budget.db'}")
    old.make(f"sqlite:///{tmp_path / 'budget.db'}")
    run = shell.Shell(capfd)
    assert "`discreet ledger migrate" in run.fails("ledger show")
    code, _, told = run("ledger migrate")
    assert code == 0 and "it had version 1" in told
    assert run("ledger migrate")[0] == 0 and run.json("ledger show")["accounts"][0]["spent"]["epsilon"] == "13/30"
