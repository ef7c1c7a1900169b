"""Processes that release and write down what they released, and a storm of signals that hits them at random moments.

Run as a program, because it forks, which the process of the tests must not: it holds threads of numerical libraries.

    python ledger_storm.py URL KILL|INT HITS SEED FOLDER

Releases are appended to FOLDER/outputs, failures to FOLDER/errors; what became of the signals goes to stdout.
A worker that is interrupted keeps its exception, as a notebook does, and stands still until somebody else has taken the
lock.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import discreet as dc
from discreet.records.counts import count_codes

WORKERS = 2
EACH, LIMIT = "0.1", "1"
PROBE_S = 20
"""A lock that another living process holds for its own few milliseconds is free by then, also on a busy machine."""
INTERRUPTS_A_WORKER = 25
SWALLOWED_S = 2


@dataclass
class Worker:
    pid: int
    ready: int
    go: int
    due: float = 0.0
    hits: int = 0


def work(ledger: dc.Ledger, folder: Path, ready: int, go: int) -> None:
    """Release until a signal comes; open the next account where one is spent."""
    kept = []
    try:
        while True:
            try:
                release_all(ledger, folder, ready)
            except KeyboardInterrupt as interrupt:
                kept.append(interrupt)  # with its traceback, and all frames in it
            os.write(ready, b"i")
            os.read(go, 1)
    except KeyboardInterrupt:
        os._exit(9)  # it came while the last one was being handled
    except Exception:
        with (folder / "errors").open("a") as errors:
            errors.write(traceback.format_exc())
        os._exit(4)
    finally:
        os._exit(5)


def release_all(ledger: dc.Ledger, folder: Path, ready: int) -> None:
    """The whole path from counts to a file, for ever; says so after the first."""
    counts, prior = statistic()
    limit, each = (dc.Guarantee(epsilon=e, delta=0, relation="add-remove", unit="record") for e in (LIMIT, EACH))
    outputs = os.open(folder / "outputs", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    number = max(len(ledger.names()) - 2, 0)  # the last one, beside that of the warming up
    while True:
        with suppress(dc.InputError):  # another worker opened it
            ledger.open(f"a{number}", limit)
        account = ledger.account(f"a{number}")
        with suppress(dc.BudgetError):
            while True:
                made = dc.release(dc.laplace(), counts, prior, each, account=account)
                os.write(outputs, f"{made.id}\n".encode())
                if ready:
                    os.write(ready, b"r")
                    ready = 0
        number += 1


def statistic() -> tuple[dc.results.Counts, dc.Dirichlet]:
    """Counts of three records, and a prior."""
    network = dc.Network((dc.Variable("a", ("0", "1")), dc.Variable("b", ("0", "1"))), {"a": (), "b": ("a",)})
    codes = {"a": np.array([0, 1, 1]), "b": np.array([0, 1, 0])}
    return count_codes(network, codes), dc.Dirichlet.uniform(network)


def take_lock(url: str, wait_s: float = PROBE_S) -> None:
    """What every charge has to take; raises where it is not to be had."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=wait_s, isolation_level=None)
        try:
            connection.execute("BEGIN EXCLUSIVE")  # nor may anybody be left reading
            connection.execute("ROLLBACK")
        finally:
            connection.close()
        return
    psycopg = importlib.import_module("psycopg")  # an extra
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.execute(f"SET LOCAL lock_timeout = '{wait_s}s'")
        connection.execute("SELECT FROM discreet.balances ORDER BY account, subject FOR UPDATE")


def connections(url: str) -> int:
    """How many are open: of this process, or of all to a base of a server but the one that asks."""
    if url.startswith("sqlite"):
        file = Path(url.removeprefix("sqlite:///")).resolve()
        return sum(opened.resolve() == file for opened in Path("/proc/self/fd").iterdir())
    psycopg = importlib.import_module("psycopg")  # an extra
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        asked = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(asked.fetchone()[0]) - 1


def spawn(ledger: dc.Ledger, folder: Path) -> Worker:
    """A worker, forked from a process in which everything is loaded."""
    ready, child_ready = os.pipe()
    child_go, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        os.close(go)
        gc.disable()
        work(ledger, folder, child_ready, child_go)
    os.close(child_ready)
    os.close(child_go)
    return Worker(pid, ready, go)


def bury(worker: Worker) -> int:
    """The end of a worker: its exit code."""
    os.close(worker.ready)
    os.close(worker.go)
    return os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])


def main(url: str, name: str, hits: int, seed: int, folder: Path) -> None:
    """Hit workers until so many signals found one at work."""
    ledger = dc.Ledger(url)
    kind, chance, span = signal.Signals[f"SIG{name}"], random.Random(seed), warm_up(ledger)
    live: dict[int, Worker] = {}
    landed = stuck = failed = 0
    while landed < hits:
        while len(live) < WORKERS:
            worker = spawn(ledger, folder)
            live[worker.ready] = worker
        soon = min([worker.due for worker in live.values() if worker.due], default=time.monotonic() + 1)
        told, _, _ = select.select(list(live), [], [], max(0.0, min(soon - time.monotonic(), 1.0)))
        for worker in [live[ready] for ready in told]:
            word = os.read(worker.ready, 1)
            if word == b"r":
                worker.due = time.monotonic() + chance.uniform(0, span)
            elif word == b"i":
                try:
                    take_lock(url)
                except Exception as error:
                    print(error, file=sys.stderr)
                    stuck += 1
                os.write(worker.go, b"g")
            else:  # it ended
                del live[worker.ready]
                code = bury(worker)
                if code != 9:
                    print(f"a worker ended with {code} after {worker.hits} signals", file=sys.stderr)
                    failed += 1
        for worker in list(live.values()):
            if not worker.due or time.monotonic() < worker.due:
                continue
            last = kind is signal.SIGKILL or worker.hits == INTERRUPTS_A_WORKER
            os.kill(worker.pid, signal.SIGKILL if last else kind)
            landed += kind is signal.SIGKILL or not last
            # A destructor swallows an interrupt: then the worker says nothing, and is hit again.
            worker.hits, worker.due = worker.hits + 1, time.monotonic() + SWALLOWED_S
            if last:
                del live[worker.ready]
                bury(worker)
    for worker in live.values():
        os.kill(worker.pid, signal.SIGKILL)
        bury(worker)
    take_lock(url)
    print(json.dumps({"hits": landed, "stuck": stuck, "failed": failed}))


def warm_up(ledger: dc.Ledger) -> float:
    """Load all that a release needs, and measure it: signals come within so many seconds."""
    limit = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    account, (counts, prior) = ledger.open("warm", limit), statistic()
    start = 0.0
    for turn in range(5):
        start = time.monotonic() if turn == 1 else start
        each = dc.Guarantee(epsilon="0.2", delta=0, relation="add-remove", unit="record")
        dc.release(dc.laplace(), counts, prior, each, account=account)
    return time.monotonic() - start


def storm(url: str, name: str, hits: int, seed: int, folder: Path) -> dict[str, int]:
    """Run a storm and count what it left: `overspent` accounts, `unpaid` outputs, `stuck` locks, `failed` workers."""
    command = [sys.executable, "-W", "ignore", __file__, url, name, str(hits), str(seed), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr
    ledger = dc.Ledger(url)
    accounts = [ledger.account(account) for account in ledger.names()]
    paid = [charge.release for account in accounts for charge in account.charges()]
    outputs = (folder / "outputs").read_text().split() if (folder / "outputs").exists() else []
    errors = (folder / "errors").read_text() if (folder / "errors").exists() else ""
    assert not errors, errors
    print(done.stderr, file=sys.stderr)
    return {
        **json.loads(done.stdout),
        "accounts": len(accounts),
        "full": sum(account.balance().epsilon_left == 0 for account in accounts),
        "charges": len(paid),
        "outputs": len(outputs),
        "overspent": sum(account.balance().epsilon_left < 0 for account in accounts),
        "unpaid": len(set(outputs) - set(paid)),
        "twice": len(paid) - len(set(paid)) + len(outputs) - len(set(outputs)),
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
