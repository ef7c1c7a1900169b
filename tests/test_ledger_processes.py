"""Many processes and threads, some of which die, never spend more than the limit, and never lose a charge."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

import discreet as dc
from spenders import finish, start


def spend(epsilon: object) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(file: Path) -> dc.Ledger:
    return dc.Ledger(f"sqlite:///{file}")


def spender(file: Path, name: str, tries: int, last: str = "live") -> subprocess.Popen[str]:
    return start(f"sqlite:///{file}", name, tries, last)


@pytest.mark.costly("Overspending of a file shows where processes charge at once only.", always=True)
def test_eight_processes_spend_exactly_the_limit(ledger: dc.Ledger, file: Path) -> None:
    account = ledger.open("a", spend(3))
    lines = finish([spender(file, f"p{number}", 6) for number in range(8)])
    assert (lines.count("paid"), lines.count("refused")) == (30, 18)
    assert len(account.charges()) == 30
    assert account.balance().epsilon_left == 0


def test_eight_threads_on_one_handle_spend_exactly_the_limit(ledger: dc.Ledger) -> None:
    account = ledger.open("a", spend(1))

    def attempt(number: int) -> bool:
        try:
            account.charge(f"r{number}", "laplace", spend("0.1"))
        except dc.BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == 10
    assert account.balance().epsilon_left == 0


def test_forked_children_spend_exactly_the_limit(file: Path) -> None:
    script = """
import os, sys
import discreet as dc
tenth = lambda number: dc.Guarantee(epsilon=number, delta=0, relation="add-remove", unit="record")
account = dc.Ledger(sys.argv[1]).open("a", tenth("1"))
account.balance()
for child in range(4):
    if os.fork() == 0:
        for turn in range(5):
            try:
                account.charge(f"{child}-{turn}", "laplace", tenth("0.1"))
            except dc.BudgetError:
                pass
        os._exit(0)
print([os.wait()[1] for child in range(4)], len(account.charges()), account.balance().epsilon_left)
"""
    command = [sys.executable, "-W", "error", "-c", script, f"sqlite:///{file}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[0, 0, 0, 0] 10 0\n"


def test_children_of_a_process_whose_threads_are_charging_do_not_wait_for_them(file: Path) -> None:
    """Threads that are nearly always inside a transaction; SQLite in a child believes in their locks."""
    script = """
import os, sys, signal, threading, time
import sqlalchemy as sa
import discreet as dc
tenth = lambda number: dc.Guarantee(epsilon=number, delta=0, relation="add-remove", unit="record")
account = dc.Ledger(sys.argv[1]).open("a", tenth("3"))
sa.event.listen(sa.engine.Engine, "commit", lambda _: time.sleep(0.02))
def spend(name):
    turn = 0
    while True:
        try:
            account.charge(f"{name}-{turn}", "laplace", tenth("0.1"))
        except dc.BudgetError:
            return
        turn += 1
threads = [threading.Thread(target=spend, args=[f"t{number}"]) for number in range(3)]
for thread in threads:
    thread.start()
time.sleep(0.1)
children = []
for child in range(4):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        spend(f"c{child}")
        os._exit(0)
    children.append(pid)
ends = [os.waitpid(pid, 0)[1] for pid in children]
for thread in threads:
    thread.join()
print(ends, len(account.charges()), account.balance().epsilon_left)
"""
    command = [sys.executable, "-W", "ignore", "-c", script, f"sqlite:///{file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout == "[0, 0, 0, 0] 30 0\n"


def test_a_ledger_in_memory_is_refused_to_children_that_would_spend_a_copy(tmp_path: Path) -> None:
    script = """
import os
import discreet as dc
one = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
account = dc.Ledger("sqlite://").open("a", one)
if os.fork() == 0:
    try:
        account.charge("r", "laplace", one)
    except dc.InputError as error:
        os._exit(3 if "memory of another process" in str(error) else 4)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]), len(account.charges()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout == "3 0\n"


@pytest.mark.parametrize("turns", [1, 4])
def test_a_process_killed_before_its_commit_leaves_no_trace(ledger: dc.Ledger, file: Path, turns: int) -> None:
    account = ledger.open("a", spend(3))
    process = spender(file, "p", turns, "die before commit")
    assert process.communicate("go\n")[0].split() == ["ready"] + ["paid"] * (turns - 1)
    assert process.returncode == -signal.SIGKILL
    assert account.balance().epsilon_spent == Fraction(turns - 1, 10)
    assert account.charge("next", "laplace", spend("0.1")).epsilon_spent == Fraction(turns, 10)


def test_a_process_killed_at_any_moment_leaves_a_consistent_ledger(ledger: dc.Ledger, file: Path) -> None:
    account = ledger.open("a", spend(10_000))
    paid = 0
    for turn in range(3):
        process = spender(file, f"p{turn}", 10_000)
        process.stdin.write("go\n")
        process.stdin.flush()
        seen = [process.stdout.readline() for _ in range(3 + turn)]
        os.kill(process.pid, signal.SIGKILL)
        seen += process.communicate()[0].splitlines(keepends=True)
        told = seen.count("paid\n")
        written = len(account.charges()) - paid
        assert told >= 2
        assert told <= written <= told + 1  # whoever was told "paid" has paid; one charge may not have been told
        paid += written
        assert account.charge(f"after-{turn}", "laplace", spend("0.1")).epsilon_spent == Fraction(paid + 1, 10)
        paid += 1
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
