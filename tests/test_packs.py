"""A pack, three files of somebody else, brings a mechanism with a law of noise, kinds of releases and a reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import discreet as dc
from discreet.releases import measurement
from discreet.releases.kinds import TableNoise
from discreet.releases.measurement import Released
from discreet.util import pack_entries
from discreet.verify import audit as auditing

HERE = Path(__file__).parent


@pytest.mark.costly(
    "Only a process with a pack of somebody else's shows that all parts take it.",
    reads=("src/discreet", "tests/toy_pack", "tests/packs_at_work.py"),
)
def test_a_pack_is_offered_planned_audited_released_read_reported_and_served(tmp_path: Path) -> None:
    place = {
        "PYTHONPATH": os.pathsep.join(
            [str(HERE.parent / "src"), str(HERE.parent / "studies"), str(HERE), str(HERE / "toy_pack")]
        )
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
    with pytest.warns(UserWarning, match="the pack 'broken' cannot be loaded for discreet.readers"):
        assert pack_entries.of_packs.__wrapped__("discreet.readers") == ()


def test_what_a_pack_brings_that_is_no_kind_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong entry must not keep every release from being read."""

    class Unregistered(Released):
        pass

    ours = dc.research.NoisyCoefficients
    monkeypatch.setattr(measurement, "of_packs", lambda group: (int, "text", Unregistered, ours))
    with pytest.warns(UserWarning, match="which is no kind of payload or calibration"):
        assert measurement.pack_kinds("network", paid=True) == (ours,)


def test_no_pack_says_how_the_kernel_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack that brings a lenient check of Laplace noise does not have it asked."""
    lenient = auditing.Check(lambda _case: (0.0, "exactly"))
    found = pack_entries.of_packs

    def bring(group: pack_entries.Group) -> tuple[Any, ...]:
        return (*found(group), *(((TableNoise, lenient),) if group == "discreet.checks" else ()))

    monkeypatch.setattr(auditing, "of_packs", bring)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
    (finding,) = dc.audit(dc.laplace(), promise, {"one coin": coin}, most=1)
    assert finding.measured == pytest.approx(1)


def test_what_packs_register_stands_under_its_name() -> None:
    """A module that was executed twice has two classes of one name: what one reads, the other is not."""
    kinds = pack_entries.of_packs("discreet.kinds")
    assert len(kinds) >= 2
    for kind in kinds:
        assert getattr(sys.modules[kind.__module__], kind.__qualname__) is kind
