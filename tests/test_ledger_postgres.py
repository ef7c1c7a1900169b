"""The ledger on PostgreSQL: nothing is overspent under any isolation level, and nothing that was paid is forgotten."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

import discreet as dc
from discreet.privacy import ledger_database
from discreet.privacy.ledger_books import Books
from discreet.privacy.ledger_entries import LedgerEntry, Share
from discreet.privacy.ledger_grants import grant
from folding import every
from postgres import Server
from spenders import finish, start

names = (f"base{number}" for number in itertools.count())


def spend(epsilon: object) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


@pytest.fixture
def base() -> str:
    """The name of a new database."""
    return next(names)


@pytest.fixture
def url(server: Server, base: str) -> str:
    return server.make_base(base)


# ---------------------------------------------------------------------------------------------------------- isolation


def defaults(server: Server, base: str, level: str, where: str) -> str:
    """The address of a new database whose transactions have a level by a default of the database, role or address."""
    plain = server.make_base(base, level if where == "database" else "read committed")
    match where:
        case "role":
            server.run(f"CREATE ROLE {base} SUPERUSER LOGIN")
            server.run(f"ALTER ROLE {base} SET default_transaction_isolation = '{level}'")
            return server.url(base, base)
        case "address":
            escaped = level.replace(" ", "\\ ")
            return server.url(base, options=f"-c default_transaction_isolation={escaped}")
        case _:
            return plain


@pytest.mark.costly("Overspending shows only where processes charge at once under each isolation level.", always=True)
@pytest.mark.parametrize(
    ("level", "where"),
    [
        ("read committed", "database"), ("repeatable read", "database"), ("serializable", "database"),
        ("repeatable read", "role"), ("serializable", "address"),
    ],
)  # fmt: skip
def test_processes_spend_exactly_the_limit_under_every_default(
    server: Server, base: str, level: str, where: str
) -> None:
    url = defaults(server, base, level, where)
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        assert connection.scalar(sa.text("SHOW transaction_isolation")) == level  # the default is what it should be
    account = dc.Ledger(url).open("a", spend(1))
    lines = finish([start(url, f"p{number}", 6) for number in range(4)])
    assert (lines.count("paid"), lines.count("refused"), len(lines)) == (10, 14, 24)
    assert len(account.charges()) == 10
    assert account.balance().epsilon_left == 0


def race(url: str) -> tuple[bool, list[str]]:
    """Two charges of 0.6 on a limit of 1, the second one while the first has not committed.

    Returns whether the second ended before the first had committed, and what became of both.
    """
    first, second = dc.Ledger(url), dc.Ledger(url)
    payers = {"first": first.open("a", spend(1)), "second": second.account("a")}
    inside, go_on = threading.Event(), threading.Event()
    ended: list[str] = []

    def pause(_: sa.Connection) -> None:
        inside.set()
        assert go_on.wait(60)

    def charge(name: str) -> None:
        try:
            payers[name].charge(name, "laplace", spend("0.6"))
            ended.append(f"{name} paid")
        except dc.BudgetError:
            ended.append(f"{name} refused")

    sa.event.listen(first._database._engine, "commit", pause)
    threads = [threading.Thread(target=charge, args=[name]) for name in payers]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    threads[1].join(1)
    early = not threads[1].is_alive()
    go_on.set()
    for thread in threads:
        thread.join(60)
    sa.event.remove(first._database._engine, "commit", pause)
    assert first.account("a").balance().epsilon_spent <= 1
    return early, sorted(ended)


def test_what_is_verified_is_of_one_moment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A charge between the two statements that read entries and balance is none of either."""
    account = dc.Ledger(url).open("a", spend(1))
    account.charge("r", "laplace", spend("0.1"))
    other, read = dc.Ledger(url).account("a"), Books.shares

    def charge_and_read(*arguments: Any) -> dict[str, Share]:
        other.charge("s", "laplace", spend("0.1"))
        return read(*arguments)

    monkeypatch.setattr(Books, "shares", charge_and_read)
    assert account.verify().release == "r"
    monkeypatch.undo()
    assert account.verify().release == "s"


@pytest.mark.parametrize(
    ("level", "stated"),
    [("read committed", True), ("repeatable read", True), ("repeatable read", False), ("serializable", False)],
)
def test_a_second_charge_waits_for_the_first_and_sees_it(
    server: Server, base: str, level: str, stated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a stated level the database's holds; then the server breaks off a snapshot that was taken too early."""
    monkeypatch.setattr(ledger_database, "_gate", contextlib.nullcontext())  # as if they were two processes
    if not stated:
        waits = ledger_database._settings().partition("; ")[2]
        monkeypatch.setattr(ledger_database, "_settings", lambda *_: waits)
    assert race(server.make_base(base, level)) == (False, ["first paid", "second refused"])


def test_a_transaction_states_its_isolation_and_its_waits_and_a_charge_that_it_is_on_disk(
    server: Server, base: str
) -> None:
    server.make_base(base, "repeatable read")
    server.run(f"ALTER DATABASE {base} SET synchronous_commit = off")
    options = "-c synchronous_commit=off -c lock_timeout=0 -c idle_in_transaction_session_timeout=0"
    ledger = dc.Ledger(server.url(base, options=options))
    account = ledger.open("a", spend(1))
    settings = ("transaction_isolation", "lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit")
    draft = LedgerEntry("a", 0, "charged", "r", "m", "1/10")

    def read(connection: sa.Connection) -> list[str | None]:
        return [connection.scalar(sa.text(f"SHOW {setting}")) for setting in settings]

    def charge(connection: sa.Connection) -> list[str | None]:
        ledger._books.append(connection, draft)
        return read(connection)

    assert ledger._database.read(read)[:3] == ["repeatable read", "1min", "1min"]
    assert ledger._database.write(charge, lambda _: None, "r") == ["read committed", "1min", "1min", "on"]
    assert account.verify().release == "r"


def test_many_make_the_tables_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_database, "_gate", contextlib.nullcontext())
    with ThreadPoolExecutor(6) as pool:
        assert [ledger.names() for ledger in pool.map(dc.Ledger, [url] * 6)] == [()] * 6


def test_forked_children_charge_through_their_parents_handle(url: str) -> None:
    """None of them uses its parent's connection, or closes it, and the parent goes on."""
    script = """
import gc, os, sys
import discreet as dc
spend = lambda number: dc.Guarantee(epsilon=number, delta=0, relation="add-remove", unit="record")
account = dc.Ledger(sys.argv[1]).open("a", spend("3"))
def charge(name):
    for turn in range(5):
        try:
            account.charge(f"{name} {turn}", "laplace", spend("0.1"))
        except dc.BudgetError:
            pass
charge("before")
children = []
for child in range(4):
    children.append(os.fork())
    if not children[-1]:
        if child % 2:
            gc.collect()
        charge(child)
        if child == 3:
            sys.exit(0)
        os._exit(0)
charge("parent")
print([os.waitpid(child, 0)[1] for child in children], len(account.charges()), account.balance().epsilon_left)
account.verify()
"""
    command = [sys.executable, "-W", "ignore", "-c", script, url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    assert (done.stdout, done.stderr) == ("[0, 0, 0, 0] 30 0\n", "")


def test_threads_share_a_handle(url: str) -> None:
    account = dc.Ledger(url).open("a", spend(1))

    def attempt(number: int) -> bool:
        try:
            account.charge(f"r{number}", "laplace", spend("0.1"))
        except dc.BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(24))) == 10
    assert account.verify().epsilon_spent == "1"


def test_a_program_ends_without_complaints_about_its_connections(url: str) -> None:
    script = """
import sys
import discreet as dc
one = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
for turn in range(2):
    ledger = dc.Ledger(sys.argv[1])
    ledger.names()
ledger.open("a", one).charge("r", "laplace", one)
"""
    command = [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning", "-c", script, url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------------------------------------- what servers refuse


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_what_the_server_breaks_off_is_tried_again_and_not_for_ever(
    server: Server, base: str, url: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    account = dc.Ledger(url).open("a", spend(1))
    server.run("CREATE SEQUENCE attempts", base)  # a sequence does not roll back
    for failing, attempts in ((3, 4), (1000, 4 + ledger_database.TRANSACTION_TRIES)):
        server.run(
            "CREATE OR REPLACE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF nextval('public.attempts') <= {failing} THEN RAISE EXCEPTION 'in the way' USING ERRCODE = '{code}'; "
            "END IF; "
            "RETURN NEW; END $$",
            base,
        )
        if failing == 3:
            server.run(
                "CREATE TRIGGER break_off BEFORE INSERT ON discreet.entries FOR EACH ROW EXECUTE FUNCTION break_off()",
                base,
            )
            assert (
                account.charge("r", "laplace", spend("0.1")).epsilon_left
                == dc.Guarantee(epsilon="0.9", delta=0, relation="add-remove", unit="record").epsilon
            )
        else:
            with pytest.raises(dc.InputError, match=r"too busy: in the way.*nothing was charged"):
                account.charge("s", "laplace", spend("0.1"))
        assert server.run("SELECT last_value FROM attempts", base) == str(attempts)
    assert [charge.release for charge in account.charges()] == ["r"]


OTHER_VERSIONS = {
    "1": "CREATE TABLE discreet_accounts (name text)",
    "4": "CREATE SCHEMA discreet; CREATE TABLE discreet.ledger AS SELECT 4 AS version",
}


@every("version", OTHER_VERSIONS)
def test_a_ledger_of_another_version_is_refused(server: Server, version: str) -> None:
    """Neither charges nor roles are made for it, and nothing is made beside it."""
    base = next(names)
    url = server.make_base(base)
    server.run(OTHER_VERSIONS[version], base)
    before = server.run("SELECT count(*) FROM pg_class", base)
    words = f"has version {version}, and this program version 3: use the discreet that made it"
    for attempt in (lambda: dc.Ledger(url), lambda: grant(url, (), run=True)):
        with pytest.raises(dc.InputError, match=words):
            attempt()
    assert server.run("SELECT count(*) FROM pg_class", base) == before


ROW = "'charged', 's', 'm', '{}', '{}', '', '', '', '', '', 'x', '2026-01-01', '1', '0', ''"


@every(
    "statement",
    [
        "UPDATE discreet.entries SET epsilon = '1/2'", "DELETE FROM discreet.entries", "TRUNCATE discreet.entries",
        "UPDATE discreet.ledger SET version = 1", "DELETE FROM discreet.ledger", "TRUNCATE discreet.ledger",
        "DELETE FROM discreet.balances", "TRUNCATE discreet.balances",
        *(f"INSERT INTO discreet.entries VALUES ('a', 2, {ROW.format(*amounts)})"
          for amounts in (("-5", "0"), ("0", "0"), ("1", "-1/10"), ("NaN", "0"), ("0.5", "0"), ("1e9999", "0"))),
        f"INSERT INTO discreet.entries VALUES ('a', -1, {ROW.format(1, 0)})",
        f"INSERT INTO discreet.entries VALUES ('a', 1, {ROW.format(1, 0)})",
        f"INSERT INTO discreet.entries VALUES ('a', 2, {ROW.format(1, 0).replace('charged', 'refunded')})",
        f"INSERT INTO discreet.entries VALUES ('a', 2, {ROW.format(1, 0).replace('charged', 'opened')})",
        f"INSERT INTO discreet.entries VALUES ('a', 2, {ROW.format(1, 0).replace('2026-01-01', 'today')})",
        f"INSERT INTO discreet.entries VALUES ('a', 2, {ROW.format(1, 0)}), ('b', 2, {ROW.format(1, 0)})",
    ],
)  # fmt: skip
def test_even_the_owner_only_adds_rows_and_only_positive_ones(server: Server, altered: str, statement: str) -> None:
    with pytest.raises(AssertionError, match=r"append-only|violates check constraint|violates unique|duplicate key"):
        server.run(statement, altered)
    account = dc.Ledger(server.url(altered)).account("a")
    assert account.balance().epsilon_left == 2 and account.verify().sequence == 1


@pytest.fixture
def altered(server: Server, base: str, url: str) -> str:
    """The name of a database whose account "a" has a limit of 3, and 1 spent."""
    dc.Ledger(url).open("a", spend(3)).charge("r", "laplace", spend(1))
    return base


TRIGGERS = "ALTER TABLE discreet.{0} DISABLE TRIGGER USER; {1}; ALTER TABLE discreet.{0} ENABLE TRIGGER USER"


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("entries", "UPDATE discreet.entries SET epsilon = '1/2' WHERE sequence = 1", "entry 1"),
        ("entries", "UPDATE discreet.entries SET who = 'x' WHERE sequence = 1", "entry 1"),
        ("entries", "UPDATE discreet.entries SET epsilon = '9' WHERE sequence = 0", "entry 0"),
        ("entries", "DELETE FROM discreet.entries WHERE sequence = 1", "entry 1"),
        ("balances", "UPDATE discreet.balances SET epsilon_limit = '9' WHERE subject = ''", "a balance"),
        ("balances", "UPDATE discreet.balances SET epsilon_spent = '0' WHERE subject = ''", "a balance"),
    ],
)  # fmt: skip
def test_what_the_owner_changes_all_the_same_is_noticed(
    server: Server, altered: str, table: str, change: str, words: str
) -> None:
    server.run(TRIGGERS.format(table, change), altered)
    account = dc.Ledger(server.url(altered)).account("a")
    with pytest.raises(dc.InputError, match=f"tampered with.*{words}"):
        account.balance()
    with pytest.raises(dc.InputError, match=r"does not match|does not follow|tampered"):
        account.verify()
    with pytest.raises(dc.InputError, match=r"tampered with.*nothing was charged") as caught:
        account.charge("s", "laplace", spend("0.1"))
    assert "\n" not in str(caught.value)
    assert dc.Ledger(server.url(altered)).paid("s") is None


# ----------------------------------------------------------------------------------------------------- beside a file


def steps(account: dc.results.Account, user: str) -> list[str]:
    """What becomes of a series of charges and limits, and of what does not fit; by the figures that are told."""

    def purposed(purpose: str, release: str, epsilon: object) -> dc.Balance:
        return account.ledger.account("a", purpose=purpose).charge(release, "m", spend(epsilon))

    told = []
    for step in (
        lambda: account.charge("r1", "laplace", spend("1/3")),
        lambda: purposed("study", "r2", "1/7"),
        lambda: account.lower(spend("1/2"), purpose="study"),
        lambda: purposed("study", "r3", "5/14"),
        lambda: purposed("study", "r4", "1/1000"),
        lambda: purposed("other", "r5", "1/1000"),
        lambda: account.lower(spend(1), purpose="study"),
        lambda: account.lower(spend("0.1")),
        lambda: account.lower(spend(1), person=user),
        lambda: account.charge("r6", "m", spend("0.2")),
        lambda: account.charge("r1", "m", spend("0.01")),
        lambda: account.lower(spend("1.5")),
        lambda: account.lower(spend(4)),
        lambda: account.charge("r7", "m", spend("0.1")),
        lambda: account.charge("r8", "m", spend(1)),
        account.close,
        account.close,
        lambda: account.charge("r9", "m", spend("0.001")),
        lambda: account.lower(spend(1)),
    ):
        try:
            told.append(str(step()))
        except dc.DiscreetError as error:
            told.append(f"{type(error).__name__} {error}".replace(user, "USER"))
    return told


def test_a_server_makes_the_entries_of_a_file(url: str) -> None:
    """Its functions are written in another language: limits, sums and refusals are the same."""
    made = {}
    for name, where in (("file", "sqlite://"), ("server", url)):
        account = dc.Ledger(where).open("a", spend(2))
        user = account.charge("r0", "m", spend("0.01")) and account.charges()[0].user
        told = steps(account, user)
        account.verify()
        entries = account.export()["entries"]
        assert isinstance(entries, list)
        made[name] = told, [
            {key: text for key, text in entry.items() if key not in ("who", "digest", "subject")} for entry in entries
        ], [entry["subject"].replace(user, "USER") for entry in entries]  # fmt: skip
    assert made["file"] == made["server"]
    told, entries, subjects = made["file"]
    assert sum("cannot pay for purpose study" in line for line in told) == 1
    assert sum("cannot pay for person USER" in line for line in told) >= 1
    assert [entry["sequence"] for entry in entries] == list(range(len(entries))) and len(entries) >= 9
    assert {"", "purpose study", "person USER"} <= set(subjects)


# ------------------------------------------------------------------------------------------------------ a server's ways


def test_a_server_that_cannot_be_relied_on_is_refused(
    server: Server, base: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is too old, and a database that is not in UTF-8."""
    server.run(f"CREATE DATABASE {base}_ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(dc.InputError, match=r"not in UTF8; make one .*nothing was charged"):
        dc.Ledger(server.url(f"{base}_ascii"))
    monkeypatch.setattr("discreet.privacy.ledger_books.OLDEST_SERVER", 990_000)
    with pytest.raises(dc.InputError, match="use 99 or newer; nothing was charged"):
        dc.Ledger(url)


def test_an_account_has_the_id_of_its_first_release_on_a_server_too(url: str) -> None:
    account = dc.Ledger(url).open("a", spend(1))
    assert account.id is None
    for name in ("by hand", "g" * 32, "0f" * 16, "1f" * 16):
        account.charge(name, "laplace", spend("0.1"))
    assert dc.Ledger(url).account("a").id == "0f" * 16


def test_it_is_said_what_a_failover_may_lose(server: Server, base: str, url: str) -> None:
    assert "synchronous_standby_names is empty" in dc.Ledger(url).durability
    assert "disk" in dc.Ledger("sqlite://").durability


def test_a_schema_that_was_there_is_not_taken(server: Server, base: str, url: str) -> None:
    """Whose it is may drop what is in it."""
    server.run("CREATE SCHEMA discreet", base)
    with pytest.raises(dc.InputError, match='"discreet" already exists; nothing was charged'):
        dc.Ledger(url)
    assert server.run("SELECT count(*) FROM pg_class WHERE relnamespace = 'discreet'::regnamespace", base) == "0"
