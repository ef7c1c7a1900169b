"""A pack, three files of somebody else, brings a mechanism with a law of noise, kinds of releases and a reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import discreet as dc
from discreet.util import pack_entries

HERE = Path(__file__).parent


def test_a_pack_is_offered_planned_audited_released_read_reported_and_served(tmp_path: Path) -> None:
    place = {
        "PYTHONPATH": os.pathsep.join([str(HERE.parent / "src"), str(HERE.parent), str(HERE), str(HERE / "toy_pack")])
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "packs_at_work.py"), str(tmp_path)],
        env=os.environ | place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "the pack is at work"), done.stderr[-3000:]


def test_without_the_pack_nobody_knows_it() -> None:
    assert "twice" not in dc.tools.MECHANISMS
    with pytest.raises(KeyError):
        dc.tools.MECHANISMS["twice"]


def test_a_pack_that_cannot_be_loaded_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        name = "broken"

        def load(self) -> list[object]:
            raise ImportError("no module named torch")

    monkeypatch.setattr(pack_entries, "entry_points", lambda group: [Broken()])
    with pytest.warns(UserWarning, match="the pack 'broken' brings nothing to discreet.readers"):
        assert pack_entries.of_packs.__wrapped__("discreet.readers") == ()
