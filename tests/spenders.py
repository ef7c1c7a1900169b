"""Processes that spend from the account "a" of a ledger, 0.1 at a time, all at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

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


def start(url: str, name: str, tries: int, last: str = "live") -> subprocess.Popen[str]:
    """A process that waits for a line on stdin and then tries to spend 0.1 so many times."""
    command = [sys.executable, "-W", "error", "-c", SPENDER, url, name, str(tries), last]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Let them go when all are ready; what each of their attempts came to."""
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * len(processes)
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    lines = [line for process in processes for line in process.communicate()[0].split()]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return lines
