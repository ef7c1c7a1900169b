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


def spend(epsilon: object) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(file: Path) -> dc.Ledger:
    return dc.Ledger(f"sqlite:///{file}")


SPENDER = """
import os, signal, sys
import sqlalchemy
from discreet.errors import BudgetError
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Ledger

url, name, tries, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
account = Ledger(url).account("a")
print("ready", flush=True)
sys.stdin.readline()
for turn in range(tries):
    if last == "die before commit" and turn == tries - 1:
        sqlalchemy.event.listen(sqlalchemy.Engine, "commit", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    try:
        account.charge(f"{name}-{turn}", "laplace", Guarantee(epsilon="0.1", delta=0, relation="add-remove",
                                                              unit="record"))
        print("paid", flush=True)
    except BudgetError:
        print("refused", flush=True)
"""


def spender(file: Path, name: str, tries: int, last: str = "live") -> subprocess.Popen[str]:
    """A process that waits for a line on stdin and then tries to spend 0.1 so many times."""
    command = [sys.executable, "-W", "error", "-c", SPENDER, f"sqlite:///{file}", name, str(tries), last]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_eight_processes_spend_exactly_the_limit(ledger: dc.Ledger, file: Path) -> None:
    account = ledger.open("a", spend(3))
    processes = [spender(file, f"p{number}", 6) for number in range(8)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 8
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    lines = [line for process in processes for line in process.communicate()[0].split()]
    assert [process.returncode for process in processes] == [0] * 8
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
