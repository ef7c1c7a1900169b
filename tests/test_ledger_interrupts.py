"""Ctrl-C at any moment: the charge is made or not, and everybody else can charge at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ledger_interrupts
from ledger_storm import storm
from postgres import Server

FIRST = 5
STEP = {"sqlite": 13, "postgresql": 29}
"""Of some 1,500 and 2,200 places every so manieth is tried in the default run, all of them in the slow one."""


def interrupted(url: str, first: int, step: int) -> dict[str, object]:
    """What `ledger_interrupts` prints."""
    command = [sys.executable, "-W", "ignore", ledger_interrupts.__file__, url, str(first), str(step)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def address(kind: str, tmp_path: Path, request: pytest.FixtureRequest, base: str) -> str:
    """A new ledger's address; a server is started only where it is asked for."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'budget.db'}"
    server: Server = request.getfixturevalue("server")
    return server.make_base(base, "repeatable read")


@pytest.mark.costly("A lock that stays shows where an interrupt comes at each step only.", always=True)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_interrupt_leaves_no_lock(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    made = interrupted(address(kind, tmp_path, request, "interrupted"), FIRST, STEP[kind])
    assert made["interrupts"] > 50
    assert (made["stuck"], made["unpaid"]) == ([], 0)
    # A destructor may have swallowed one; to a server one is kept.
    assert made["left"] <= 1 + (kind == "postgresql")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_interrupt_leaves_no_lock_wherever_it_comes(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made = interrupted(address(kind, tmp_path, request, "interrupted_all"), 1, 1)
    assert (made["stuck"], made["unpaid"]) == ([], 0)
    assert made["interrupts"] > 0.9 * made["places"] > 1000  # some places swallow it: destructors
    assert made["left"] <= 10


# -------------------------------------------------------------------------------------------------------------- storms


def weather(url: str, signal: str, hits: int, folder: Path) -> None:
    """A storm leaves nothing overspent, unpaid, paid twice, locked or failed, and it was one."""
    made = storm(url, signal, hits, 1, folder)
    left = {name: made[name] for name in ("overspent", "unpaid", "twice", "stuck", "failed")}
    assert left == dict.fromkeys(left, 0), made
    assert made["hits"] >= hits
    assert made["charges"] >= made["outputs"] >= hits / 2


@pytest.mark.costly("A charge that is lost or paid twice shows where signals come at any moment.", always=True)
@pytest.mark.parametrize("signal", ["KILL", "INT"])
def test_a_shower_of_signals(signal: str, tmp_path: Path) -> None:
    weather(f"sqlite:///{tmp_path / 'budget.db'}", signal, 12, tmp_path)


@pytest.mark.costly("A charge that is lost or paid twice shows where signals come at any moment.", always=True)
@pytest.mark.parametrize("signal", ["KILL", "INT"])
def test_a_shower_of_signals_on_postgresql(signal: str, server: Server, tmp_path: Path) -> None:
    weather(server.make_base(f"shower_{signal.lower()}", "repeatable read"), signal, 8, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["KILL", "INT"])
@pytest.mark.parametrize("where", ["sqlite", "read committed", "repeatable read"])
def test_a_storm_of_a_thousand_signals(where: str, signal: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if where == "sqlite":
        url = f"sqlite:///{tmp_path / 'budget.db'}"
    else:
        server: Server = request.getfixturevalue("server")
        url = server.make_base(f"storm_{signal}_{where[:6]}".lower().replace(" ", "_"), where)
    weather(url, signal, 1000, tmp_path)
