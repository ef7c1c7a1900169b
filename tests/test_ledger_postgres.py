"""The ledger on PostgreSQL: nothing is overspent under any isolation level, and nothing that was paid is forgotten."""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

import discreet as dc
from discreet.privacy import ledger_database
from postgres import USER, Server
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
    threads[1].join(2)
    early = not threads[1].is_alive()
    go_on.set()
    for thread in threads:
        thread.join(60)
    sa.event.remove(first._database._engine, "commit", pause)
    assert first.account("a").balance().epsilon_spent <= 1
    return early, sorted(ended)


@pytest.mark.parametrize(
    ("level", "stated"),
    [("read committed", True), ("repeatable read", True), ("repeatable read", False), ("serializable", False)],
)
def test_a_second_charge_waits_for_the_first_and_sees_it(
    server: Server, base: str, level: str, stated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock alone is enough: with the isolation level left to the database it is still taken before the snapshot."""
    monkeypatch.setattr(ledger_database, "_gate", contextlib.nullcontext())  # as if they were two processes
    if not stated:
        monkeypatch.setattr(ledger_database, "SETTINGS", ledger_database.SETTINGS[1:])
    assert race(server.make_base(base, level)) == (False, ["first paid", "second refused"])


def test_a_charge_states_its_isolation_and_that_it_is_on_disk(server: Server, base: str) -> None:
    server.make_base(base, "repeatable read")
    server.run(f"ALTER DATABASE {base} SET synchronous_commit = off")
    options = "-c synchronous_commit=off -c lock_timeout=0 -c idle_in_transaction_session_timeout=0"
    ledger = dc.Ledger(server.url(base, options=options))
    settings = ("transaction_isolation", "synchronous_commit", "lock_timeout", "idle_in_transaction_session_timeout")

    def read(connection: sa.Connection) -> list[str | None]:
        return [connection.scalar(sa.text(f"SHOW {setting}")) for setting in settings]

    for transaction in (ledger._database.write, ledger._database.read):
        assert transaction(read) == ["read committed", "on", "1min", "1min"]


def test_many_make_the_tables_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_database, "_gate", contextlib.nullcontext())
    with ThreadPoolExecutor(6) as pool:
        assert [ledger.names() for ledger in pool.map(dc.Ledger, [url] * 6)] == [()] * 6


# ------------------------------------------------------------------------------------------------- what servers refuse


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_what_the_server_breaks_off_is_tried_again_and_not_for_ever(
    server: Server, base: str, url: str, code: str
) -> None:
    account = dc.Ledger(url).open("a", spend(1))
    server.run("CREATE SEQUENCE attempts", base)  # a sequence does not roll back
    for failing, attempts in ((3, 4), (1000, 4 + ledger_database.TRIES)):
        server.run(
            "CREATE OR REPLACE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF nextval('attempts') <= {failing} THEN RAISE EXCEPTION 'in the way' USING ERRCODE = '{code}'; END IF; "
            "RETURN NEW; END $$",
            base,
        )
        if failing == 3:
            server.run(
                "CREATE TRIGGER break_off BEFORE INSERT ON discreet_charges FOR EACH ROW EXECUTE FUNCTION break_off()",
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


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE discreet_charges SET epsilon = '0.5'", "UPDATE discreet_accounts SET epsilon = '100'",
        "DELETE FROM discreet_charges", "DELETE FROM discreet_accounts", "TRUNCATE discreet_accounts CASCADE",
        "INSERT INTO discreet_charges VALUES (2, 'a', 's', 'laplace', '-5', '0', '2026-01-01')",
        "INSERT INTO discreet_charges VALUES (2, 'a', 's', 'laplace', '0.0', '0', '2026-01-01')",
        "INSERT INTO discreet_charges VALUES (2, 'a', 's', 'laplace', '1', '-0.1', '2026-01-01')",
        "INSERT INTO discreet_accounts VALUES ('b', '1e9999', '0', 'add-remove', 'record', '2026-01-01')",
    ],
)  # fmt: skip
def test_rows_can_only_be_added_and_only_positive_ones(server: Server, base: str, url: str, statement: str) -> None:
    account = dc.Ledger(url).open("a", spend(3))
    account.charge("r", "laplace", spend(1))
    with pytest.raises(AssertionError, match=r"append-only|positive"):
        server.run(statement, base)
    assert account.balance().epsilon_left == 2


# ------------------------------------------------------------------------------------------------------ lost replies


@contextlib.contextmanager
def cutting(server: Server, folder: Path, word: bytes, *, deliver: bool) -> Iterator[threading.Event]:
    """A socket between a client and the server; once the event is set, a message with the word cuts the line.

    The message is delivered first, or it is not; its reply never comes.
    """
    armed, listener = threading.Event(), socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / ".s.PGSQL.5432"))
    listener.listen()

    def relay() -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return  # the test is over
            behind = socket.socket(socket.AF_UNIX)
            behind.connect(str(server.folder / ".s.PGSQL.5432"))
            with client, behind:
                pump(client, behind)

    def pump(client: socket.socket, behind: socket.socket) -> None:
        while True:
            for source in select.select([client, behind], [], [])[0]:
                message = source.recv(65536)
                if not message:
                    return
                if source is client and armed.is_set() and word in message:
                    if deliver:
                        behind.sendall(message)
                        behind.recv(65536)
                    return
                (behind if source is client else client).sendall(message)

    thread = threading.Thread(target=relay)
    thread.start()
    try:
        yield armed
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)


@pytest.mark.parametrize(
    ("word", "deliver", "charged"),
    [(b"COMMIT\0", True, 1), (b"COMMIT\0", False, 0), (b"INTO discreet_charges", False, 0)],
)
def test_a_lost_reply_to_the_commit_may_have_been_charged(
    server: Server, base: str, url: str, word: bytes, deliver: bool, charged: int
) -> None:
    direct = dc.Ledger(url).open("a", spend(1))
    with (
        tempfile.TemporaryDirectory(prefix="pg") as folder,
        cutting(server, Path(folder), word, deliver=deliver) as armed,
    ):
        account = dc.Ledger(f"postgresql+psycopg://{USER}@/{base}?host={folder}").account("a")
        armed.set()
        with pytest.raises(dc.DiscreetError) as caught:
            account.charge("r", "laplace", spend("0.1"))
    uncertain = word == b"COMMIT\0"
    assert ("may have been charged: look with `discreet ledger show`" in str(caught.value)) is uncertain
    assert ("nothing was charged" in str(caught.value)) is not uncertain
    assert isinstance(caught.value, dc.InputError) is not uncertain  # an InputError promises that nothing was spent
    assert "\n" not in str(caught.value)
    assert len(direct.charges()) == charged
    direct.charge("next", "laplace", spend("0.1"))
