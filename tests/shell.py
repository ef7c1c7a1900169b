"""Commands of the package run in this process, in a folder of their own."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.cli.cli import main
from networks import ASIA, asia

LEDGER = "sqlite:///discreet-ledger.db"
"""Where commands keep their ledger, by DISCREET_LEDGER, unless they are told."""
N = 600
RELEASE = "release d.parquet --network asia.bif --account add-remove --epsilon 1 --output r.json"


@cache
def sample() -> pa.Table:
    """Records of the Asia network."""
    return dc.tools.simulate_records(asia(), N, rng=np.random.default_rng(23))


def as_csv(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink)
    return sink.getvalue()


class Shell:
    """Commands in a working folder: exit code, stdout and stderr of each."""

    def __init__(self, capfd: pytest.CaptureFixture[str] | None) -> None:
        self.capfd: Any = capfd

    def __call__(self, command: str) -> tuple[int, str, str]:
        self.capfd.readouterr()
        code = main(shlex.split(command))
        out, err = self.capfd.readouterr()
        return code, out, err

    def json(self, command: str) -> Any:
        code, out, err = self(f"{command} --json")
        assert code == 0, err
        assert len(out.splitlines()) == 1
        return json.loads(out)

    def fails(self, command: str, code: int = 2) -> str:
        """The one line on stderr of a command that is refused and prints nothing else."""
        found, out, err = self(command)
        assert found == code, (out, err)
        assert out == ""
        assert re.fullmatch(r"discreet: .*\n", err), err
        return err


def opened(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str] | None) -> Shell:
    """Move into a folder with a network, records, and a ledger with an account of each relation."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DISCREET_LEDGER", f"sqlite:///{folder / 'discreet-ledger.db'}")
    shutil.copy(ASIA, "asia.bif")
    pq.write_table(sample(), "d.parquet")
    for relation in dc.tools.RECORD_RELATIONS:
        limit = dc.Guarantee(epsilon=3, delta=0, relation=relation, unit="record")
        dc.Ledger(LEDGER).open(relation.value, limit)
    return Shell(capfd)


def release_in(folder: Path) -> None:
    """Make what `reopened` copies: a folder as `opened` leaves it, and a release of its records in `r.json`."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()):
        patch.setenv("XDG_STATE_HOME", str(folder.parent))
        opened(folder, patch, None)
        assert main(shlex.split(f"{RELEASE} --json")) == 0


def reopened(released: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    """Move into a copy of a folder with a release, of the fixture `released_study`; each test may change its own."""
    shutil.copytree(released, folder, dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DISCREET_LEDGER", f"sqlite:///{folder / 'discreet-ledger.db'}")
    return Shell(capfd)


def charges(account: str = "add-remove") -> int:
    """How often an account paid."""
    return len(dc.Ledger(LEDGER).account(account).charges())


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """What the next command reads as `-`."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
