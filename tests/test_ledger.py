"""The ledger spends exactly what it says, never more than the limit, and only ever adds."""

from __future__ import annotations

import copy
import math
import os
import pickle
import re
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sa

import discreet as dc
from discreet.privacy.guarantee import as_text
from folding import every

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
        with pytest.raises(dc.InputError, match="use an add-remove guarantee"):
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
    with pytest.raises(dc.InputError, match="1 to 80 visible characters"):
        again.open("  ", spend(1))
    with pytest.raises(dc.InputError, match="no account 'ghost'"):
        dc.results.Account(ledger, "ghost").charge("r", "laplace", spend(1))


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
        "UPDATE discreet_entries SET epsilon = '1/1000000'",
        "UPDATE discreet_entries SET account = 'b'",
        "DELETE FROM discreet_entries",
        "DELETE FROM discreet_entries WHERE kind = 'charged'",
        "DELETE FROM discreet_balances",
        "UPDATE discreet_balances SET epsilon_spent = '0'",
        "UPDATE discreet_balances SET epsilon_spent = '0', sequence = 0",
        "UPDATE discreet_ledger SET version = 4",
        "REPLACE INTO discreet_entries SELECT * FROM discreet_entries WHERE kind = 'charged'",
        "REPLACE INTO discreet_entries SELECT * FROM discreet_entries WHERE kind = 'opened'",
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
    rows = [cell for table in ("entries", "balances") for row in connection.execute(f"SELECT * FROM discreet_{table}")
            for cell in row]  # fmt: skip
    connection.close()
    assert not re.search(r"\d\d:\d\d", dump)
    assert sum(bool(re.fullmatch(r"\d{4}-\d\d-\d\d", str(cell))) for cell in rows) == 2
    assert [cell for cell in rows if isinstance(cell, float)] == []
    assert {cell for cell in rows if isinstance(cell, int)} == {0, 1}  # places, not a Unix time


# ---------------------------------------------------------------------------------------------------------- tampering


def insert(file: Path, statement: str, *rows: tuple[object, ...], dropping: bool = False) -> None:
    """Write past the package, by whoever can write the file; they can also drop triggers."""
    connection = sqlite3.connect(file)
    try:
        if dropping:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
        connection.executemany(statement, rows)
        connection.commit()
    finally:
        connection.close()


ENTRY = (
    "INSERT INTO discreet_entries VALUES ('a', 1, 'charged', 'r1', 'm', ?, ?, '', '', '', '', '', 'me', '2026-01-01', "
    "'1/2', '0', 'digest', '0', '0', '0', '0', '0')"
)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        ("-5", "0"), ("0", "0"), ("0.000", "0"), ("-0.1", "0"), ("1", "-0.5"), ("1", "x"), ("nan", "0"), ("inf", "0"),
        ("", "0"), ("1e-3", "0"), (" 1", "0"), (b"\xff", "0"), ("+1", "0"), ("0.5", "0"),
    ],
)  # fmt: skip
def test_a_row_of_no_positive_amount_is_not_inserted(
    ledger: dc.Ledger, file: Path, epsilon: object, delta: object
) -> None:
    ledger.open("a", spend(1))
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        insert(file, ENTRY, (epsilon, delta))


def test_an_entry_in_another_place_is_not_inserted(ledger: dc.Ledger, file: Path) -> None:
    account = ledger.open("a", spend(1))
    account.charge("r0", "m", spend("0.1"))
    for place in (0, 1, 3):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            insert(file, ENTRY.replace("'a', 1", f"'a', {place}"), ("1/2", "0"))


@pytest.mark.parametrize("drop", [False, True])
def test_an_entry_past_the_package_is_noticed(ledger: dc.Ledger, file: Path, drop: bool) -> None:
    """It is in its place, but the balance does not know it, and its digest is none."""
    account = ledger.open("a", spend(1))
    insert(file, ENTRY, ("1/2", "0"), dropping=drop)
    for attempt in (
        account.balance,
        lambda: account.check(spend("0.1")),
        lambda: account.charge("r2", "m", spend("0.1")),
    ):
        with pytest.raises(dc.InputError, match=r"account 'a' .* was tampered with.*; nothing was charged") as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500
    with pytest.raises(dc.InputError, match="entry 1 does not match"):
        account.verify()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("balances", "epsilon_spent", "1/10"), ("balances", "epsilon_limit", "100"), ("balances", "delta_limit", "1/2"),
        ("balances", "sequence", 0), ("balances", "digest", "0"), ("balances", "epsilon_spent", 0),
        ("balances", "epsilon_spent", b"\xff"), ("balances", "epsilon_limit", "9" * 10_000),
        ("entries", "epsilon_spent", "1/10"), ("entries", "epsilon", "1/10"), ("entries", "mechanism", "x"),
        ("entries", "who", "x"), ("entries", "day", "yesterday"), ("entries", "digest", "0"),
        ("entries", "account", "b"), ("entries", "sequence", 7), ("entries", "release", b"\xff"),
        ("entries", "purpose", 3.5),
    ],
)  # fmt: skip
def test_what_was_changed_where_a_charge_looks_is_refused(
    ledger: dc.Ledger, file: Path, table: str, column: str, value: object
) -> None:
    """The last entry, and the balances of the account, of who charges, and of the purpose."""
    account = ledger.account(ledger.open("a", spend(1)).name, purpose="study")
    account.charge("r0", "m", spend("0.9"))
    where = "sequence = 1" if table == "entries" else "1"
    insert(file, f"UPDATE discreet_{table} SET {column} = ? WHERE {where}", (value,), dropping=True)
    for attempt in (
        account.balance, lambda: account.check(spend("0.1")), lambda: account.charge("r2", "m", spend("0.1")),
        account.verify,
    ):  # fmt: skip
        with pytest.raises(dc.InputError) as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("subject", ["person", "purpose"])
def test_a_changed_balance_of_a_person_or_a_purpose_is_refused(ledger: dc.Ledger, file: Path, subject: str) -> None:
    ledger.open("a", spend(1)).lower(spend("0.5"), purpose="study")
    account = ledger.account("a", purpose="study")
    account.charge("r0", "m", spend("0.4"))
    statement = f"UPDATE discreet_balances SET epsilon_spent = ? WHERE subject LIKE '{subject} %'"
    insert(file, statement, ("0",), dropping=True)
    for attempt in (
        lambda: account.charge("r1", "m", spend("0.1")),
        lambda: account.check(spend("0.1")),
        account.verify,
    ):
        with pytest.raises(dc.InputError, match=r"tampered|does not follow"):
            attempt()


def test_a_limit_that_was_changed_is_refused(ledger: dc.Ledger, file: Path) -> None:
    ledger.open("b", spend(1)).charge("r0", "m", spend("0.1"))
    insert(file, "UPDATE discreet_entries SET epsilon = ? WHERE sequence = 0", ("100",), dropping=True)
    account = dc.Ledger(ledger.url).account("b")
    for attempt in (lambda: account.limit, lambda: account.charge("r", "m", spend("0.1"))):
        with pytest.raises(dc.InputError, match=r"'b' .* was tampered with.*entry 0"):
            attempt()


# -------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name",
    [
        "", "  ", " x", "x ", "x\n", "x\0", "x\u200b", "e\u0301", "x\ud800", "x\u00a0y", "\u202ex", "x" * 81, 7, None,
        b"x", ["x"],
    ],
)  # fmt: skip
def test_a_name_that_could_be_taken_for_another_is_refused(ledger: dc.Ledger, name: object) -> None:
    account = ledger.open("x" * 80, spend(1))
    for attempt in (
        lambda: ledger.open(name, spend(1)),
        lambda: account.charge(name, "m", spend(1)),
        lambda: account.charge("r", name, spend(1)),
        lambda: ledger.account(name),
    ):
        with pytest.raises(dc.InputError) as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400
    assert account.charges() == ()


def test_names_of_many_scripts_can_be_opened(ledger: dc.Ledger) -> None:
    for name in ("\u00e9t\u00e9 2026", "\u60a3\u8005", "\u043f\u0430\u0446\u0438\u0435\u043d\u0442", "a/b:c'd\"e;--"):
        ledger.open(name, spend(1)).charge(f"{name}r", "m", spend(1))
        assert ledger.account(name).balance().epsilon_left == 0


OTHER_VERSIONS = {
    "1": "DROP TABLE discreet_ledger; CREATE TABLE discreet_accounts (name TEXT)",
    "4": "INSERT INTO discreet_ledger VALUES (4)",
}


@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_a_ledger_of_another_version_is_refused(version: str, tmp_path: Path) -> None:
    """Nothing is made beside it either: what it paid for would be forgotten."""
    file = tmp_path / f"{version}.db"
    account = dc.Ledger(f"sqlite:///{file}").open("a", spend(1))
    base = sqlite3.connect(file)
    base.executescript(OTHER_VERSIONS[version])
    before = base.execute("SELECT name FROM sqlite_master").fetchall()
    words = f"has version {version}, and this program version 3: use the discreet that made it; nothing was charged"
    with pytest.raises(dc.InputError, match=words):
        dc.Ledger(f"sqlite:///{file}")
    with pytest.raises(dc.InputError, match=r"not those of version 3: use the discreet.*nothing was charged"):
        account.charge("r", "laplace", spend("0.1"))
    assert base.execute("SELECT name FROM sqlite_master").fetchall() == before
    base.close()


def test_names_that_look_alike_are_one(ledger: dc.Ledger) -> None:
    ledger.open("ward 7", spend(1)).charge("r", "m", spend("0.25"))
    for alike in ("Ward 7", "ward7", "w\u0430rd 7", "\uff57ard 7"):
        with pytest.raises(dc.InputError, match=r"would look like the open account 'ward 7'"):
            ledger.open(alike, spend(1))
        assert ledger.account(alike).name == "ward 7"
    assert ledger.open("ward 8", spend(1)).balance().epsilon_left == 1
    assert ledger.names() == ("ward 7", "ward 8")


def test_other_types_are_refused_by_name(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(1))
    for attempt in (
        lambda: ledger.open("b", 1), lambda: account.charge("r", "m", 1), lambda: account.check("1"),
        lambda: dc.results.Account("sqlite://", "a"), lambda: ledger.open("b", dc.Guarantee),
    ):  # fmt: skip
        with pytest.raises(dc.InputError, match=r"must be a (Guarantee|Ledger), not a "):
            attempt()
    with pytest.raises(dc.InputError, match="account's unit must have 1 to 80 visible characters"):
        ledger.open("b", spend(1, unit="patient\n"))


# -------------------------------------------------------------------------------------------------------------- places


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    script = f"import os; os.umask(0); import discreet as dc; dc.Ledger('sqlite:///{tmp_path}/budget.db')"
    subprocess.run([sys.executable, "-c", script], check=True)
    (tmp_path / "link.db").symlink_to(tmp_path / "other.db")
    dc.Ledger(f"sqlite:///{tmp_path / 'link.db'}")
    shared = tmp_path / "shared.db"
    shared.touch()
    shared.chmod(0o664)
    dc.Ledger(f"sqlite:///{shared}")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"budget.db": 0o600, "link.db": 0o600, "other.db": 0o600, "shared.db": 0o664}


def written(ledger: dc.Ledger, work: Callable[[sa.Connection], int]) -> int:
    """What work returns inside a transaction that writes."""
    return ledger._database.write(work, lambda _: None, "nothing")


def test_the_journal_is_its_owners_alone(ledger: dc.Ledger, tmp_path: Path) -> None:
    def look(connection: sa.Connection) -> int:
        connection.execute(sa.text("INSERT INTO discreet_ledger VALUES (1)"))
        return stat.S_IMODE((tmp_path / "budget.db-journal").stat().st_mode)

    old = os.umask(0)
    try:
        assert written(ledger, look) == 0o600
    finally:
        os.umask(old)


def test_a_commit_is_on_disk_with_its_folder(ledger: dc.Ledger) -> None:
    assert written(ledger, lambda connection: connection.scalar(sa.text("PRAGMA synchronous"))) == 3  # EXTRA


@pytest.mark.parametrize("written_first", [False, True])
def test_a_commit_that_fails_is_looked_up(ledger: dc.Ledger, written_first: bool) -> None:
    """Whether it was written before the error, or never; what fails before the commit never was."""
    account = ledger.open("a", spend(1))
    engine = ledger._database._engine

    def fail(*_: object) -> None:
        raise sa.exc.OperationalError("", None, sqlite3.OperationalError("disk I/O error"))

    def once(connection: sa.Connection) -> None:
        sa.event.remove(engine, "commit", once)
        if written_first:
            connection.connection.commit()
        fail()

    sa.event.listen(engine, "commit", once)
    if written_first:
        assert account.charge("r", "laplace", spend("0.1")).epsilon_spent == Fraction(1, 10)
    else:
        with pytest.raises(dc.InputError, match="disk I/O error; nothing was charged"):
            account.charge("r", "laplace", spend("0.1"))
    assert len(account.charges()) == written_first
    sa.event.listen(engine, "before_cursor_execute", fail)
    with pytest.raises(dc.InputError, match="disk I/O error; nothing was charged"):
        account.charge("s", "laplace", spend("0.1"))
    sa.event.remove(engine, "before_cursor_execute", fail)
    assert len(account.charges()) == written_first


@every(
    "purpose, request, mechanism, epsilon",
    [
        ("", "", "laplace", "0.01"),
        ("", "", "gaussian", "0.5"),
        ("p", "", "laplace", "0.5"),
        ("", "q", "laplace", "0.5"),
    ],
)
def test_a_charge_of_somebody_else_is_not_taken_for_a_lost_one(
    purpose: str, request: str, mechanism: str, epsilon: str
) -> None:
    """It has the same id, and another price, mechanism, purpose or request."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = dc.Ledger(f"sqlite:///{folder}/budget.db")
        account, engine = ledger.open("a", spend(1)), ledger._database._engine

        def once(connection: sa.Connection) -> None:
            sa.event.remove(engine, "commit", once)
            connection.connection.rollback()
            other = dc.Ledger(ledger.url).account("a", purpose=purpose, request=request)
            other.charge("r", mechanism, spend(epsilon))
            raise sa.exc.OperationalError("", None, sqlite3.OperationalError("disk I/O error"))

        sa.event.listen(engine, "commit", once)
        with pytest.raises(dc.InputError, match="disk I/O error; nothing was charged"):
            account.charge("r", "laplace", spend("0.5"))
        assert account.balance().epsilon_spent == Fraction(epsilon)


def test_a_commit_that_fails_and_cannot_be_looked_up_is_unknown(ledger: dc.Ledger) -> None:
    """An InputError would promise that nothing was spent, which nobody knows."""
    account = ledger.open("a", spend(1))
    engine = ledger._database._engine

    def fail(*_: object) -> None:
        raise sa.exc.OperationalError("", None, sqlite3.OperationalError("disk I/O error"))

    def last(connection: sa.Connection) -> None:
        connection.connection.commit()
        sa.event.listen(engine, "before_cursor_execute", fail)
        fail()

    sa.event.listen(engine, "commit", last)
    with pytest.raises(
        dc.DiscreetError, match=r"disk I/O error; the outcome of the charge is unknown.* `discreet ledger show r`"
    ) as caught:
        account.charge("r", "laplace", spend("0.1"))
    assert not isinstance(caught.value, dc.InputError)
    sa.event.remove(engine, "commit", last)
    sa.event.remove(engine, "before_cursor_execute", fail)
    name, charge = ledger.paid("r")
    assert (name, charge.release, charge.sequence) == ("a", "r", 1) and ledger.paid("s") is None


def test_a_file_on_a_network_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {tmp_path}/a\\040b rw,nosuid shared:1 - nfs4 server:/x rw\n"
    (tmp_path / "mounts").write_text(mounts)
    (tmp_path / "a b").mkdir()
    monkeypatch.setattr("discreet.privacy.ledger_database.MOUNTS_FILE", str(tmp_path / "mounts"))
    with pytest.raises(dc.InputError, match=r"on a network file system \(nfs4\)"):
        dc.Ledger(f"sqlite:///{tmp_path}/a b/budget.db")
    assert list((tmp_path / "a b").iterdir()) == []
    dc.Ledger(f"sqlite:///{tmp_path}/budget.db")


def test_reading_takes_no_lock_and_needs_no_right_to_write(ledger: dc.Ledger, file: Path) -> None:
    account = ledger.open("a", spend(1))
    account.charge("r", "m", spend("0.25"))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert account.balance().epsilon_left == Fraction(3, 4) and account.verify().sequence == 1
    finally:
        other.close()


def test_the_place_is_the_whole_path_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = dc.Ledger("sqlite:///budget.db")
    assert ledger.address == str(tmp_path / "budget.db")
    account = ledger.open("a", spend(1))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    pickle.loads(pickle.dumps(account)).charge("r", "m", spend(1))  # noqa: S301
    assert account.balance().epsilon_left == 0
    assert list(elsewhere.iterdir()) == []
    assert dc.Ledger("sqlite://").address == ":memory:"


def test_a_ledger_in_memory_is_shared_by_threads_and_with_nobody_else() -> None:
    account = dc.Ledger("sqlite://").open("a", spend(1))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda turn: account.charge(f"r{turn}", "m", spend("0.1")), range(10)))
    assert account.balance().epsilon_left == 0
    assert dc.Ledger("sqlite:///:memory:").names() == ()


# ----------------------------------------------------------------------------------------------------------- opening


@every(
    "url",
    [
        "", "foo", None, 3, "bob:s3cret@host/base", "nosuch://bob:s3cret@host/base",
        "mysql://bob:s3cret@host/base", "postgresql+psycopg://bob:s3cret@host:port/base",
        "postgresql+psycopg://bob:s3cret@127.0.0.1:1/base?nosuchoption=1", "sqlite:////nosuchfolder/x/budget.db",
        "postgresql+psycopg://bob:s3cret@127.0.0.1:1/base", "postgresql+psycopg2://bob:s3cret@127.0.0.1:1/base",
        "postgresql+asyncpg://bob:s3cret@127.0.0.1:1/base", "sqlite+aiosqlite:///budget.db", "sqlite://budget.db",
        "sqlite:///" + "x" * 1900, "sqlite:///" + "x" * 2100, "s3cret" * 100_000, "sqlite:///\0", "sqlite:///\ud800x",
        "sqlite:///x\n/budget.db", "postgresql+psycopg://bob:s3cret@" + "h" * 1900, "sqlite://bob:s3cret@/budget.db",
        "sqlite:///", "sqlite+pysqlite:///",
    ],
)  # fmt: skip
def test_a_bad_address_is_one_line_without_its_password(url: str) -> None:
    with pytest.raises(dc.InputError) as caught:
        dc.Ledger(url)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "argument",
    [
        "nolock=1&uri=true", "immutable=1&uri=true", "mode=memory&uri=true", "mode=ro&uri=true",
        "vfs=unix-none&uri=true",
        "psow=1&uri=true", "cache=shared&uri=true", "uri=true", "nolock=1", "isolation_level=DEFERRED", "timeout=0",
        "check_same_thread=false", "cached_statements=0", "detect_types=1",
    ],
)  # fmt: skip
def test_an_argument_that_could_weaken_a_file_is_refused(tmp_path: Path, argument: str) -> None:
    with pytest.raises(dc.InputError, match="takes no argument"):
        dc.Ledger(f"sqlite:///{tmp_path / 'budget.db'}?{argument}")
    with pytest.raises(dc.InputError, match="takes no argument"):
        dc.Ledger(f"sqlite:///file:{tmp_path / 'budget.db'}?{argument}")
    assert list(tmp_path.iterdir()) == []


@every("argument", ["autocommit", "service", "prepare_threshold", "cursor_factory", "password"])
def test_an_argument_that_could_weaken_a_server_is_refused(argument: str) -> None:
    with pytest.raises(dc.InputError, match=f"takes no argument '{argument}'"):
        dc.Ledger(f"postgresql+psycopg://bob@127.0.0.1:1/base?{argument}=1")


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
    assert file.name in repr(ledger)
    monkeypatch.setattr(ledger, "url", "postgresql+psycopg://bob:s3cret@host/base")
    for shown in (repr(ledger), str(ledger), repr(dc.results.Account(ledger, "a"))):
        assert "bob" in shown
        assert "s3cret" not in shown
