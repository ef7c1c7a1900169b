"""The ledger spends exactly what it says, never more than the limit, and only ever adds."""

from __future__ import annotations

import copy
import math
import pickle
import re
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

import discreet as dc
from discreet.privacy.guarantee import as_text

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE


def spend(epsilon: object, delta: object = 0, relation: dc.Relation = ADD_REMOVE, unit: str = "record"):
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(file: Path) -> dc.Ledger:
    return dc.Ledger(f"sqlite:///{file}")


# ------------------------------------------------------------------------------------------------------------- limits


def test_charges_add_up_exactly_and_the_limit_can_be_reached(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(1))
    for turn in range(10):
        balance = account.charge(f"r{turn}", "laplace", spend("0.1"))
    assert (balance.epsilon_spent, balance.epsilon_left) == (1, 0)
    assert account.balance() == balance
    assert [charge.release for charge in account.charges()] == [f"r{turn}" for turn in range(10)]
    assert {(charge.mechanism, charge.guarantee) for charge in account.charges()} == {("laplace", spend("0.1"))}
    for epsilon in (1e-320, "1e-320", "0.1"):
        with pytest.raises(dc.BudgetError, match="spent 1 of 1, left 0"):
            account.charge("late", "laplace", spend(epsilon))
    assert len(account.charges()) == 10


def test_thirds_fill_a_limit_of_one(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(1))
    for turn in range(3):
        account.charge(f"r{turn}", "laplace", spend(Fraction(1, 3)))
    assert account.balance().epsilon_left == 0


def test_a_sum_too_long_to_show_is_refused_before_it_is_charged(ledger: dc.Ledger) -> None:
    """Each charge prints, but their exact sum has the digits of all denominators."""
    account = ledger.open("a", spend(100))
    refused = None
    for base in (7, 11, 13, 17):
        whole = base ** int(1000 / math.log10(base))
        try:
            account.charge(f"r{base}", "laplace", spend(Fraction(whole // 3, whole)))
        except dc.InputError as error:
            refused = error
            break
    assert "fewer digits; nothing was charged" in str(refused)
    assert len(account.charges()) == 3
    balance = account.balance()
    for text in (balance.epsilon_spent, balance.epsilon_left):
        assert Fraction(as_text(text)) == text
    with pytest.raises(dc.InputError, match="fewer digits"):
        account.check(spend(Fraction(17**800 // 3, 17**800)))
    assert account.charge("last", "laplace", spend(1)).epsilon_spent == balance.epsilon_spent + 1


def test_an_overspend_of_the_smallest_amount_is_refused(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(1))
    with pytest.raises(dc.BudgetError, match="nothing was charged"):
        account.charge("r", "laplace", spend(1 + Fraction(1, 10**40)))
    assert account.charges() == ()
    account.charge("r", "laplace", spend(1))


def test_a_spend_too_small_for_floats_is_not_lost(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(1))
    account.charge("r", "laplace", spend(5e-324))
    assert account.balance().epsilon_spent == Fraction(5, 10**324)
    with pytest.raises(dc.BudgetError):
        account.charge("s", "laplace", spend(1))


def test_deltas_have_a_limit_of_their_own(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(10, "1e-6"))
    account.charge("r", "gauss", spend(1, "6e-7"))
    with pytest.raises(dc.BudgetError, match=r"delta asked 0\.0000006, left 0\.0000004"):
        account.charge("s", "gauss", spend(1, "6e-7"))
    assert account.charge("t", "gauss", spend(1, "4e-7")).delta_left == 0
    assert account.charge("u", "laplace", spend(1)).epsilon_left == 7
    with pytest.raises(dc.BudgetError):
        ledger.open("pure", spend(10)).charge("v", "gauss", spend(1, "1e-300"))


def test_check_refuses_what_charge_would_and_writes_nothing(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(1))
    account.check(spend(1))
    with pytest.raises(dc.BudgetError):
        account.check(spend("1.01"))
    assert account.charges() == ()


def test_add_remove_is_charged_double_on_a_replace_account(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(2, "1e-3", REPLACE))
    account.charge("r", "laplace", spend("0.5"))
    assert account.charges()[0].guarantee == spend(1, 0, REPLACE)
    with pytest.raises(dc.BudgetError, match=r"epsilon asked 1\.02"):
        account.charge("s", "laplace", spend("0.51"))
    paid = account.charge("t", "gauss", spend("0.25", "1e-6"))
    assert Fraction("2.2840254e-6") < paid.delta_spent < Fraction("2.2840255e-6")  # 1e-6 (1 + exp(1/4))


def test_replace_cannot_be_charged_to_an_add_remove_account(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(5))
    for refused in (account.charge, lambda _release, _mechanism, guarantee: account.check(guarantee)):
        with pytest.raises(dc.InputError, match="ask for an add-remove guarantee"):
            refused("r", "laplace", spend(1, 0, REPLACE))
    assert account.charges() == ()


def test_another_unit_cannot_be_charged(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(5, unit="patient"))
    with pytest.raises(dc.InputError, match="protects one patient, the guarantee one record"):
        account.charge("r", "laplace", spend(1))
    assert account.charges() == ()


# ----------------------------------------------------------------------------------------------------------- accounts


def test_accounts_are_found_by_name_and_opened_once(ledger: dc.Ledger, file: Path) -> None:
    ledger.open("b", spend(1))
    ledger.open("a", spend(2, "0.5", REPLACE, "patient"))
    again = dc.Ledger(f"sqlite:///{file}")
    assert again.names() == ("a", "b")
    assert again.account("a").limit == spend(2, "0.5", REPLACE, "patient")
    with pytest.raises(dc.InputError, match="'a' is open already"):
        again.open("a", spend(100))
    with pytest.raises(dc.InputError, match=r"no account 'c'.*open now: a, b"):
        again.account("c")
    with pytest.raises(dc.InputError, match="not empty"):
        again.open("  ", spend(1))
    with pytest.raises(dc.InputError, match="no account 'ghost'"):
        dc.Account(ledger, "ghost").charge("r", "laplace", spend(1))


def test_accounts_do_not_share_a_limit(ledger: dc.Ledger) -> None:
    ledger.open("a", spend(1)).charge("r", "laplace", spend(1))
    assert ledger.open("b", spend(1)).balance().epsilon_left == 1


def test_a_release_is_paid_once(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(3))
    account.charge("r", "laplace", spend(1))
    with pytest.raises(dc.InputError, match="nothing was charged") as caught:
        account.charge("r", "laplace", spend(1))
    assert "\n" not in str(caught.value)
    assert account.balance().epsilon_spent == 1


def test_copies_and_pickles_spend_from_the_same_account(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(3))
    for number, other in enumerate((copy.copy(account), copy.deepcopy(account), pickle.loads(pickle.dumps(account)))):  # noqa: S301
        other.charge(f"r{number}", "laplace", spend(1))
    assert account.balance().epsilon_left == 0
    with pytest.raises(dc.BudgetError):
        copy.deepcopy(account).charge("late", "laplace", spend("0.1"))


# -------------------------------------------------------------------------------------------------------- append-only


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE discreet_charges SET epsilon = '0'",
        "UPDATE discreet_accounts SET epsilon = '100'",
        "DELETE FROM discreet_charges",
        "DELETE FROM discreet_accounts",
        "REPLACE INTO discreet_charges SELECT number, account, release, mechanism, '0.5', delta, date"
        " FROM discreet_charges",
        "REPLACE INTO discreet_accounts SELECT name, '100', delta, relation, unit, opened FROM discreet_accounts",
    ],
)
def test_rows_can_only_be_added(ledger: dc.Ledger, file: Path, statement: str) -> None:
    account = ledger.open("a", spend(3))
    account.charge("r", "laplace", spend(1))
    before = account.balance()
    connection = sqlite3.connect(file)
    try:
        with pytest.raises(sqlite3.DatabaseError, match="append-only"):
            connection.execute(statement)
    finally:
        connection.rollback()
        connection.close()
    assert account.balance() == before


def test_nothing_finer_than_a_day_is_written(ledger: dc.Ledger, file: Path) -> None:
    ledger.open("a", spend(3)).charge("r", "laplace", spend(1))
    connection = sqlite3.connect(file)
    dump = "\n".join(connection.iterdump())
    rows = [cell for table in ("accounts", "charges") for row in connection.execute(f"SELECT * FROM discreet_{table}")
            for cell in row]  # fmt: skip
    connection.close()
    assert not re.search(r"\d\d:\d\d", dump)
    assert sum(bool(re.fullmatch(r"\d{4}-\d\d-\d\d", str(cell))) for cell in rows) == 2
    assert [cell for cell in rows if isinstance(cell, float)] == []
    assert [cell for cell in rows if isinstance(cell, int)] == [1]  # the number of the charge, not a Unix time


# ----------------------------------------------------------------------------------------------------------- opening


@pytest.mark.parametrize(
    "url",
    [
        "", "foo", None, 3, "bob:s3cret@host/base", "nosuch://bob:s3cret@host/base",
        "mysql://bob:s3cret@host/base", "postgresql+psycopg://bob:s3cret@host:port/base",
        "postgresql+psycopg://bob:s3cret@127.0.0.1:1/base?nosuchoption=1", "sqlite:////nosuchfolder/x/budget.db",
    ],
)  # fmt: skip
def test_a_bad_address_is_one_line_without_its_password(url: str) -> None:
    with pytest.raises(dc.InputError) as caught:
        dc.Ledger(url)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_or_a_file_that_cannot_be_a_ledger_is_named(tmp_path: Path) -> None:
    """Permissions do not stop root, so what stands in the way is a file where a folder is needed."""
    other = tmp_path / "notes.txt"
    other.write_text("these are not the accounts of anybody, and long enough to be read as a header" * 20)
    for path in (other, other / "budget.db", tmp_path):
        with pytest.raises(dc.InputError, match="nothing was charged") as caught:
            dc.Ledger(f"sqlite:///{path}")
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)
    assert other.read_text().startswith("these are not")


def test_repr_has_no_password(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = dc.Ledger(f"sqlite:///{file}")
    assert str(file) in repr(ledger)
    monkeypatch.setattr(ledger, "url", "postgresql+psycopg://bob:s3cret@host/base")
    for shown in (repr(ledger), str(ledger), repr(dc.Account(ledger, "a"))):
        assert "bob" in shown
        assert "s3cret" not in shown
