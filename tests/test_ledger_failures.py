"""What fails around a ledger on a server: lines, servers, clients and settings. No charge that was reported is lost."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

import discreet as dc
import ledger_team
import postgres
from discreet.privacy import ledger_database
from ledger_team import Plan
from postgres import KEYHOLDER, Server

names = (f"failing{number}" for number in itertools.count())
CALM_S = postgres.CALM_S


def spend(epsilon: object) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that is stopped as the tests like."""
    with postgres.serving() as server:
        yield server


@pytest.fixture
def base() -> str:
    """The name of a new database."""
    return next(names)


@pytest.fixture
def account(own: Server, base: str) -> dc.results.Account:
    """An account with a limit of 1."""
    return dc.Ledger(own.make_base(base)).open("a", spend(1))


def paid(account: dc.results.Account) -> list[str]:
    """Releases that were charged; the account is what its entries say."""
    account.verify()
    return [charge.release for charge in account.charges()]


def refused(work: object, kind: type[dc.DiscreetError] = dc.InputError) -> str:
    """The one line in which work is refused."""
    with pytest.raises(dc.DiscreetError) as caught:
        work()  # type: ignore[operator]
    assert type(caught.value) is kind, caught.value
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------- lost replies


@dataclass
class Line:
    """A socket between clients and the server, which cuts a client off when it sends a word.

    Args:
        server: behind it.
        folder: of its socket.
        word: what it waits for.
        after: a pattern that it must have heard before, on the same connection.
        cuts: how often it still cuts.
        deliver: whether the server gets the message.
        late: seconds until it does, or until the server's end is closed.
        gone: whether nobody is let in after a cut.
    """

    server: Server
    folder: Path
    word: bytes = b"COMMIT\0"
    after: bytes = b""
    cuts: int = 0
    deliver: bool = True
    late: float = 0
    gone: bool = False
    seen: list[bytes] = field(default_factory=list)
    clients: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen."""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self.listener.listen()
        self.threads = [threading.Thread(target=self.relay)]
        self.threads[0].start()

    def relay(self) -> None:
        """Let clients in."""
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return  # the test is over
            self.clients.append(client)
            thread = threading.Thread(target=self.carry, args=[client])
            thread.start()
            self.threads.append(thread)

    def carry(self, client: socket.socket) -> None:
        """Carry messages both ways until one end hangs up, or the client is cut off."""
        with client, socket.socket(socket.AF_UNIX) as behind, contextlib.suppress(OSError):
            if self.gone and self.seen:
                return
            behind.connect(str(self.server.socket))
            heard = False
            while True:
                for source in select.select([client, behind], [], [])[0]:
                    message = source.recv(65536)
                    if not message:
                        return
                    heard = heard or (source is client and re.search(self.after, message) is not None)
                    if source is client and heard and self.cuts and self.word in message:
                        self.cut(client, behind, message)
                        return
                    (behind if source is client else client).sendall(message)

    def cut(self, client: socket.socket, behind: socket.socket, message: bytes) -> None:
        """Hang up on the client; what the server gets of its message it answers to nobody."""
        self.cuts -= 1
        self.seen.append(message)
        if self.late:
            client.shutdown(socket.SHUT_RDWR)
            time.sleep(self.late)
        if self.deliver:
            behind.sendall(message)
            behind.recv(65536)

    def close(self) -> None:
        """Carry nothing any more."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for client in self.clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(CALM_S)
            assert not thread.is_alive()


@pytest.fixture
def line(own: Server) -> Iterator[Line]:
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        made = Line(own, Path(folder))
        yield made
        made.close()


def through(line: Line, base: str) -> dc.results.Account:
    """The account, at the other end of a line."""
    return dc.Ledger(f"postgresql+psycopg://{postgres.USER}@/{base}?host={line.folder}").account("a")


@pytest.mark.parametrize("late", [0, 0.5])
def test_a_commit_whose_reply_is_lost_is_looked_up_and_found(
    line: Line, base: str, account: dc.results.Account, late: float
) -> None:
    """Also where the server reads it only after the client has come back: that one waits for the row."""
    there = through(line, base)
    line.cuts, line.late = 1, late
    assert there.charge("r", "laplace", spend("0.1")).epsilon_spent == spend("0.1").epsilon
    assert (len(line.seen), paid(account)) == (1, ["r"])


@pytest.mark.parametrize("late", [0, 0.5])
def test_a_commit_that_never_arrives_is_looked_up_and_not_found(
    line: Line, base: str, account: dc.results.Account, late: float
) -> None:
    there = through(line, base)
    line.cuts, line.late, line.deliver = 1, late, False
    assert refused(lambda: there.charge("r", "laplace", spend("0.1"))).endswith("; nothing was charged")
    assert (len(line.seen), paid(account)) == (1, [])
    there.charge("r", "laplace", spend("0.1"))
    assert paid(account) == ["r"]


@pytest.mark.parametrize(("lost", "least", "most"), [(True, 20, 60), (False, 3, 6)])
def test_a_server_that_recovers_is_waited_for_longer_than_a_busy_one(
    account: dc.results.Account, lost: bool, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    database = account.ledger._database
    assert paid(account) == []

    def attempt(*_: object) -> None:
        raise ledger_database._BrokenOffError("the database system is starting up", lost=lost)

    monkeypatch.setattr(database, "_attempt", attempt)
    monkeypatch.setattr(ledger_database.time, "sleep", paused.append)
    assert refused(lambda: account.charge("r", "laplace", spend("0.1"))).count("nothing was charged") == 1
    assert least < sum(paused) < most and max(paused) < most / 4


@pytest.mark.parametrize("deliver", [True, False])
def test_a_server_that_is_gone_for_good_leaves_it_unknown(
    line: Line, base: str, account: dc.results.Account, deliver: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = through(line, base)
    monkeypatch.setattr(ledger_database, "TRANSACTION_TRIES", 2)
    line.cuts, line.deliver, line.gone = 1, deliver, True
    told = refused(lambda: there.charge("r", "laplace", spend("0.1")), dc.DiscreetError)
    assert "the outcome of the charge is unknown: check with `discreet ledger show r` once the ledger answers" in told
    assert "nothing was charged" not in told
    account.ledger._database.write(
        lambda opened: account._books.find_existing(opened, "a", "r"), lambda _: None, "r"
    )  # waits
    assert paid(account) == (["r"] if deliver else [])
    assert (account.ledger.paid("r") is not None) is deliver


def test_an_answer_that_is_lost_twice_is_unknown_too(
    line: Line, base: str, account: dc.results.Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = through(line, base)
    line.cuts = 2
    told = refused(lambda: there.charge("r", "laplace", spend("0.1")), dc.DiscreetError)
    assert "unknown" in told and (len(line.seen), paid(account)) == (2, ["r"])


@pytest.mark.parametrize("deliver", [True, False])
def test_a_line_that_is_cut_before_the_commit_is_tried_again(
    line: Line, base: str, account: dc.results.Account, deliver: bool
) -> None:
    there = through(line, base)
    line.word, line.cuts, line.deliver = b"discreet.charge(", 3, deliver
    there.charge("r", "laplace", spend("0.1"))
    assert (len(line.seen), paid(account)) == (3, ["r"])


@pytest.mark.parametrize("deliver", [True, False])
def test_opening_lowering_and_closing_are_looked_up_as_well(
    line: Line, base: str, account: dc.results.Account, deliver: bool
) -> None:
    there, line.after = through(line, base), rb"discreet\.(open|lower|close)\("
    for place, work in enumerate(
        (lambda: there.ledger.open("b", spend(1)), lambda: there.lower(spend("0.5")),
         lambda: there.lower(spend("0.25"), person="x"), there.close), 1,
    ):  # fmt: skip
        line.cuts, line.deliver = 1, deliver
        if deliver:
            work()
        else:
            assert "nothing was charged" in refused(work)
        assert len(line.seen) == place
    assert account.ledger.names() == (("a", "b") if deliver else ("a",))
    assert account.verify().sequence == (3 if deliver else 0)


def test_a_request_whose_answer_was_lost_is_charged_once(line: Line, base: str, account: dc.results.Account) -> None:
    there = through(line, base).ledger.account("a", request="job")
    line.cuts = 2  # its commit, and that of whoever looks it up
    refused(lambda: there.charge("r", "laplace", spend("0.1")), dc.DiscreetError)
    there.charge("s", "laplace", spend("0.1"))
    assert paid(account) == ["r"]
    assert "was charged before, for release r" in refused(
        lambda: there.charge("t", "laplace", spend("0.1"), anew=True)
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ crashes


@pytest.mark.costly("A charge that a restart forgets shows where a real server is restarted only.", always=True)
@pytest.mark.parametrize("lazy", [False, True])
def test_the_next_charge_works_after_a_restart_and_none_is_missing(
    own: Server, base: str, account: dc.results.Account, lazy: bool
) -> None:
    if lazy:
        own.run(f"ALTER DATABASE {base} SET synchronous_commit = off")
        assert own.run("SHOW synchronous_commit", base) == "off"
        account = dc.Ledger(own.url(base)).account("a")
    told = []
    for how in ("immediate", "fast", "immediate"):
        for turn in range(2):
            account.charge(f"{how} {len(told)} {turn}", "laplace", spend("0.1"))
            told.append(f"{how} {len(told)} {turn}")
        own.restart(how)
        assert paid(account) == told
    account.charge("last", "laplace", spend("0.4"))
    assert account.balance().epsilon_left == 0


def test_an_account_that_was_opened_is_there_after_a_crash(own: Server, base: str) -> None:
    """Else it could be opened once more, with another limit."""
    url = own.make_base(base)
    dc.Ledger(url).open("first", spend(1))
    own.run(f"ALTER DATABASE {base} SET synchronous_commit = off")
    ledger = dc.Ledger(url)
    for number in range(5):
        ledger.open(f"a{number}", spend(1))
    own.restart("immediate")
    assert ledger.names() == (*(f"a{number}" for number in range(5)), "first")


@pytest.mark.parametrize("value", ["off", "local"])
def test_a_client_that_asks_the_server_not_to_wait_for_the_disk_loses_no_charge(
    own: Server, base: str, account: dc.results.Account, value: str
) -> None:
    psycopg = pytest.importorskip("psycopg")
    account.charge("warm", "laplace", spend("0.1"))
    with psycopg.connect(own.url(base).replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"SET synchronous_commit = {value}")
        connection.execute("CREATE TABLE lazy ()")
        connection.execute("SELECT discreet.charge('a', 'r', 'm', '1/10', '0')")
    own.restart("immediate")
    assert paid(account) == ["warm", "r"]


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_charge_that_waits_while_the_server_restarts_is_made_once(
    own: Server, base: str, account: dc.results.Account, how: str
) -> None:
    psycopg = pytest.importorskip("psycopg")
    holder = psycopg.connect(own.url(base).replace("+psycopg", ""))
    holder.execute("SELECT * FROM discreet.charge('a', 'lost', 'm', '1/10', '0')")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(account.charge, "r", "laplace", spend("0.1"))
        wait_for_waiter(own, waiting)
        own.restart(how)
        waiting.result(CALM_S)
    holder.close()
    assert paid(account) == ["r"]


def wait_for_waiter(server: Server, waiting: object) -> None:
    """Return when somebody waits for a lock."""
    while server.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != "1":
        assert not waiting.done()  # type: ignore[attr-defined]


def test_a_charge_whose_connection_an_administrator_ends_is_tried_again(
    own: Server, base: str, account: dc.results.Account
) -> None:
    psycopg = pytest.importorskip("psycopg")
    with (
        psycopg.connect(own.url(base).replace("+psycopg", "")) as holder,
        ThreadPoolExecutor(1) as pool,
    ):
        holder.execute("SELECT * FROM discreet.charge('a', 'first', 'm', '1/10', '0')")
        waiting = pool.submit(account.charge, "r", "laplace", spend("0.1"))
        wait_for_waiter(own, waiting)
        own.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        holder.commit()
        waiting.result(CALM_S)
    assert paid(account) == ["first", "r"]


@pytest.mark.costly("A race for a new database shows with many processes at once only.")
def test_many_processes_open_a_new_database_at_once(own: Server, base: str) -> None:
    script = """
import os, sys
import discreet as dc
one = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
import psycopg, sqlalchemy.dialects.postgresql.psycopg
start, go = os.pipe()
for child in range(20):
    if os.fork() == 0:
        os.close(go)
        os.read(start, 1)
        ledger = dc.Ledger(sys.argv[1])
        try:
            ledger.open("a", one)
        except dc.InputError as error:
            assert "is open already" in str(error), error
        ledger.account("a").charge(f"r{child}", "laplace", dc.Guarantee(epsilon="0.05", delta=0,
                                                                        relation="add-remove", unit="record"))
        os._exit(0)
os.close(go)
print([os.wait()[1] for child in range(20)] == [0] * 20)
"""
    url = own.make_base(base)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script, url], capture_output=True, text=True,
                          timeout=CALM_S, check=False)  # fmt: skip
    assert done.stdout == "True\n", done.stderr
    account = dc.Ledger(url).account("a")
    assert sorted(paid(account)) == sorted(f"r{child}" for child in range(20))
    assert account.balance().epsilon_left == 0


# ------------------------------------------------------------------------------------------------------ frozen clients

FREEZING = """
import os, signal, sys
import sqlalchemy
import discreet as dc
from discreet.privacy import ledger_database
ledger_database.WAIT_S = int(sys.argv[2])
account = dc.Ledger(sys.argv[1]).account("a")
def freeze(_, done=[]):
    if not done:
        done.append(print("frozen", flush=True))
        os.kill(os.getpid(), signal.SIGSTOP)
sqlalchemy.event.listen(sqlalchemy.Engine, "commit", freeze)
try:
    account.charge("frozen", "laplace", dc.Guarantee(epsilon="0.1", delta=0, relation="add-remove", unit="record"))
    print("charged")
except dc.InputError as error:
    print(str(error).endswith("; nothing was charged"))
"""


@contextlib.contextmanager
def frozen(url: str, wait_s: int) -> Iterator[subprocess.Popen[str]]:
    """A process that stands still in the middle of a charge, with the account locked."""
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", FREEZING, url, str(wait_s)],
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "frozen\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_client_that_stands_still_is_thrown_out_and_others_go_on(own: Server, account: dc.results.Account) -> None:
    with frozen(account.ledger.url, 1) as process:
        account.charge("r", "laplace", spend("0.1"))
        assert paid(account) == ["r"]
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=CALM_S)[0] == "True\n"
    assert paid(account) == ["r"]


def test_others_wait_for_it_no_longer_than_they_want_to(
    own: Server, account: dc.results.Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = account.ledger.url
    with frozen(url, 600) as process:
        monkeypatch.setattr(ledger_database, "WAIT_S", 2)
        told = refused(lambda: dc.Ledger(url).account("a").charge("r", "laplace", spend("0.1")))
        assert "lock timeout" in told and told.endswith("; nothing was charged")
        assert paid(account) == []
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=CALM_S)[0] == "charged\n"
    assert paid(account) == ["frozen"]


# ------------------------------------------------------------------------------------------------- what cannot be used


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_forget_is_refused(own: Server, base: str, account: dc.results.Account, setting: str) -> None:
    try:
        set_server(own, setting, "off")
        for work in (
            lambda: dc.Ledger(own.url(base)), lambda: account.charge("r", "laplace", spend("0.1")),
            lambda: account.lower(spend("0.5")), account.close,
        ):  # fmt: skip
            told = refused(work)
            assert "fsync or full_page_writes is off" in told and "nothing was charged" in told
    finally:
        set_server(own, setting, "on")
    account.charge("r", "laplace", spend("0.1"))
    assert paid(account) == ["r"]


def set_server(server: Server, setting: str, value: str) -> None:
    """Change a setting of a server that runs."""
    server.run(f"ALTER SYSTEM SET {setting} = {value}")
    server.run("SELECT pg_reload_conf()")
    while server.run(f"SHOW {setting}") != value:
        time.sleep(0.01)


def test_a_wrong_password_is_refused_and_never_shown(
    own: Server, base: str, account: dc.results.Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_database, "TRANSACTION_TRIES", 2)
    right, wrong = "right-canary-77", "wrong-canary-78"
    own.run(f"CREATE ROLE {KEYHOLDER} SUPERUSER LOGIN PASSWORD '{right}'")
    address = own.url(base, KEYHOLDER).replace(f"{KEYHOLDER}@", KEYHOLDER + ":{}@")
    told = refused(lambda: dc.Ledger(address.format(wrong)))
    assert "password authentication failed" in told and told.endswith("; nothing was charged")
    assert "canary" not in told
    good = dc.Ledger(address.format(right))
    good.account("a").charge("r", "laplace", spend("0.1"))
    assert "canary" not in repr(good) + good.address + repr(good.account("a"))
    assert account.verify().user == KEYHOLDER
    own.run(f"ALTER ROLE {KEYHOLDER} PASSWORD '{wrong}'")
    own.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{KEYHOLDER}'")
    told = refused(lambda: good.account("a").charge("s", "laplace", spend("0.1")))
    assert "password authentication failed" in told and "canary" not in told
    assert paid(account) == ["r"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user": "nobody_here"}, 'role "nobody_here" does not exist'),
        ({"base": "no_base"}, 'database "no_base" does not exist'),
        ({"host": "/nowhere"}, "No such file"), ({"host": "localhost", "port": "1"}, "refused"),
        ({"host": "no-such-host.invalid"}, "no-such-host.invalid"),
    ],
)  # fmt: skip
def test_what_cannot_be_reached_is_refused_in_one_line(
    own: Server, base: str, change: dict[str, str], words: str
) -> None:
    told = refused(lambda: dc.Ledger(own.url(**{"base": base, **change})))
    assert words in told and told.endswith("; nothing was charged")


def test_a_role_that_may_not_log_in_again_is_refused(
    own: Server, base: str, account: dc.results.Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_database, "TRANSACTION_TRIES", 2)
    own.run(f"CREATE ROLE {base} SUPERUSER LOGIN")
    there = dc.Ledger(own.url(base, base)).account("a")
    own.run(f"ALTER ROLE {base} NOLOGIN")
    own.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{base}'")
    assert "is not permitted to log in" in refused(lambda: there.charge("r", "laplace", spend("0.1")))
    assert paid(account) == []


def test_a_database_that_takes_no_writes_is_read(own: Server, base: str, account: dc.results.Account) -> None:
    account.charge("r", "laplace", spend("0.1"))
    own.run(f"ALTER DATABASE {base} SET default_transaction_read_only = on")
    there = dc.Ledger(own.url(base)).account("a")
    for work in (lambda: there.charge("s", "laplace", spend("0.1")), lambda: there.lower(spend("0.5")), there.close,
                 lambda: there.ledger.open("b", spend(1))):  # fmt: skip
        assert "takes no writes: it is a standby, or read-only" in refused(work)
    assert paid(there) == ["r"]
    empty = f"{base}_empty"
    own.make_base(empty)
    own.run(f"ALTER DATABASE {empty} SET default_transaction_read_only = on")
    assert "read-only" in refused(lambda: dc.Ledger(own.url(empty)))


@pytest.mark.costly("Only a real standby shows that nothing is charged before it is promoted.", always=True)
def test_a_standby_is_read_and_charged_once_it_was_promoted(
    own: Server, base: str, account: dc.results.Account
) -> None:
    account.charge("r", "laplace", spend("0.1"))
    with postgres.standing_by(own) as copy:
        there = dc.Ledger(copy.url(base)).account("a")
        assert paid(there) == ["r"]
        assert "standby" in refused(lambda: there.charge("s", "laplace", spend("0.1")))
        account.charge("s", "laplace", spend("0.1"))
        while len(paid(there)) < 2:  # it follows
            time.sleep(0.01)
        copy.run("SELECT pg_promote()")
        assert there.charge("t", "laplace", spend("0.1")).epsilon_left == spend("0.7").epsilon
        assert paid(there) == ["r", "s", "t"]
    assert paid(account) == ["r", "s"]


# -------------------------------------------------------------------------------------------------------------- storms


@pytest.mark.costly("Budget that is spent twice or lost shows in a crowd that is killed at random only.", always=True)
@pytest.mark.parametrize(
    "plan",
    [
        Plan(processes=10, charges=500, kills=30, immediate=1),
        pytest.param(
            Plan(processes=50, charges=100_000, kills=1_000, fast=5, immediate=5), marks=pytest.mark.slow
        ),
    ],
    ids=["small", "large"],
)  # fmt: skip
def test_a_team_spends_exactly_the_limit_through_kills_and_crashes(plan: Plan, tmp_path: Path) -> None:
    postgres.find_programs()
    command = [sys.executable, ledger_team.__file__, json.dumps(asdict(plan)), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=7200, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found["errors"], found["errors"]
    assert (found["charges"], found["sequence"], found["left"]) == (plan.charges, plan.charges, "0")
    assert (found["unpaid"], found["charged"], found["twice"], found["gaps"]) == (0, 0, 0, False)
    assert found["told"]["kill"] == plan.kills and found["told"]["immediate"] == plan.immediate
    lost = plan.kills + found["told"].get("u", 0)  # those that nobody was told of
    assert plan.charges - lost <= found["outputs"] <= plan.charges
    assert found["people"] == plan.processes
