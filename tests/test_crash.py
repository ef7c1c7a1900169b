"""A process that dies at any moment leaves no release without its charge, and no half of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import discreet as dc

DRIVER = """
import os, pathlib, sys
import pyarrow as pa
import sqlalchemy as sa
import discreet as dc
from discreet.mechanisms.noise import ExactNoise
from discreet.util import json_files

opened = json_files._open_new
DIED = 9
network = dc.Network((dc.Variable("x", ("a", "b")),), {"x": ()})
counts = dc.count(dc.read_records(pa.table({"x": ["a", "b", "b"]}), network.schema), network)
promise = dc.Guarantee(epsilon="0.0001", delta=0, relation="add-remove", unit="record")


def plant(owner, name, *, after):
    whole = getattr(owner, name)

    def dying(*arguments, **options):
        if after:
            whole(*arguments, **options)
        os._exit(DIED)

    setattr(owner, name, dying)


def release():
    account = dc.Ledger("sqlite:///ledger.db").account("a")
    return dc.release(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise, account=account)


def half(folder, temporary):
    # a file that ends the process when half of the text is written
    file = opened(folder, temporary)
    write = file.write

    class Half:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def write(self, raw):
            write(raw[: len(raw) // 2])
            file.flush()
            os._exit(DIED)

    return Half()


def die(step):
    match step:
        case "fork":
            for name in ("one.json", "other.json"):
                if os.fork() == 0:
                    release().save(name)
                    os._exit(0)
                assert os.wait()[1] == 0
            os._exit(0)
        case "before the charge":
            plant(dc.results.Account, "charge", after=False)
        case "before the commit":
            sa.event.listen(sa.engine.Engine, "commit", lambda connection: find_charge(connection))
        case "after the charge":
            plant(dc.results.Account, "charge", after=True)
        case "after the draw":
            plant(ExactNoise, "discrete_laplace", after=True)
        case "before the file":
            plant(dc.Release, "dumps", after=True)
        case "half a file":
            json_files._open_new = half
        case "before the rename":
            plant(pathlib.Path, "replace", after=False)
        case "after the rename":
            plant(pathlib.Path, "replace", after=True)
    release().save("r.json", replace="rename" in step)


def find_charge(connection):
    if connection.execute(sa.text("SELECT count(*) FROM discreet_entries WHERE kind = 'charged'")).scalar():
        os._exit(DIED)


# Each step in a child of its own: what it plants is its own, and what all need is loaded once.
for step in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        os.chdir(step)
        die(step)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
# Step at which the process dies, charges that are then in the ledger, and whether there is a release.
STEPS = {
    "before the charge": (0, False),
    "before the commit": (0, False),
    "after the charge": (1, False),
    "after the draw": (1, False),
    "before the file": (1, False),
    "half a file": (1, False),
    "before the rename": (1, False),
    "after the rename": (1, True),
    "never": (1, True),
}


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """What the driver left in a folder for each step, each in a process of its own, and their exit codes."""
    folder, steps = tmp_path_factory.mktemp("driven"), [*STEPS, "fork"]
    limit = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    for step in steps:
        (folder / step).mkdir()
        dc.Ledger(f"sqlite:///{folder / step / 'ledger.db'}").open("a", limit)
    command = [sys.executable, "-W", "ignore", "-c", DRIVER, *steps]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    return folder, dict(zip(steps, map(int, done.stdout.split()), strict=True))


@pytest.mark.costly("A release without its charge can come of a death at any of these steps only.", always=True)
def test_a_death_never_leaves_a_release_that_nobody_paid_for(driven: tuple[Path, dict[str, int]]) -> None:
    folder, codes = driven
    for step, (charges, there) in STEPS.items():
        assert codes[step] == (0 if step == "never" else 9), step
        paid = dc.Ledger(f"sqlite:///{folder / step / 'ledger.db'}").account("a").charges()
        assert len(paid) == charges, step
        output = folder / step / "r.json"
        assert output.exists() is there, step
        if there:
            assert dc.Release.load(output).id == paid[0].release, step


@pytest.mark.costly(
    "Children that share a state of random numbers show in noise that is drawn after a fork.", always=True
)
def test_children_of_one_process_draw_noise_of_their_own(driven: tuple[Path, dict[str, int]]) -> None:
    folder, codes = driven
    assert codes["fork"] == 0
    made = [dc.Release.load(folder / "fork" / name) for name in ("one.json", "other.json")]
    assert made[0].id != made[1].id
    # Two cells with noise of scale 10,000: both are equal once in 10^8 runs.
    assert made[0].payload.tables["x"].tolist() != made[1].payload.tables["x"].tolist()
