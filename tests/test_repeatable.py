"""What tests draw from the system's randomness is of seeds, but where that randomness is what they test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet.mechanisms.noise import ExactNoise
from planting import ROOT

DRAWING = """
import os, secrets
import numpy as np
import pytest
from discreet.mechanisms.noise import ExactNoise

def show(name):
    noise, zeros = ExactNoise(), np.zeros(9, np.int64)
    print(name, os.urandom(9), secrets.token_hex(9), secrets.randbelow(2**99), np.random.default_rng().bytes(9),
          noise.discrete_laplace(zeros, 1e9), noise.discrete_gaussian(zeros, 1e9), noise.noisy_max(np.zeros(99), 1.0))

show("import")

@pytest.fixture(scope="module", params=[0, 1])
def shared(request):
    show(f"fixture {request.param}")

@pytest.fixture
def own():
    show("own")

def test_first(shared):
    show("first")

def test_second(shared, own):
    show("second")

@pytest.mark.system_noise
def test_system():
    show("system")

def test_child():
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, os.urandom(16))
        os._exit(0)
    os.wait()
    assert os.read(reading, 16) != os.urandom(16)
"""


def shown(folder: Path, which: str) -> list[str]:
    """What tests say that they drew."""
    (folder / "test_drawing.py").write_text(DRAWING)
    options = f"-q -s --costly -p no:cacheprovider -p conftest -c /dev/null --rootdir {folder} -k {which}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options.split(), "test_drawing.py"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return sorted(
        {line.strip(" .") for line in run.stdout.replace("\n ", " ").splitlines() if "b'" in line or 'b"' in line}
    )


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """What all tests say in two runs, in which the child of one of them draws something else than it does."""
    folder = tmp_path_factory.mktemp("drawing")
    return shown(folder, "test"), shown(folder, "test")


@pytest.mark.costly("That runs repeat each other shows in several runs only.")
def test_a_test_draws_the_same_in_every_run_whatever_runs_before_it(
    twice: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    (every, again), part = twice, shown(tmp_path, "second")
    assert len({line.split()[-1] for line in every}) > 5
    assert {line for line in every if not line.startswith("system")} == {
        line for line in again if not line.startswith("system")
    }
    assert set(part) < set(every)
    assert sorted(line.split()[0] for line in part) == [
        "fixture",
        "fixture",
        "import",
        "own",
        "own",
        "second",
        "second",
    ]


@pytest.mark.costly("That runs differ where they should shows in two runs only.")
def test_tests_of_randomness_draw_from_the_system(twice: tuple[list[str], list[str]]) -> None:
    one, two = ([line for line in run if line.startswith("system")] for run in twice)
    assert len(one) == len(two) == 1 and one != two


@pytest.mark.parametrize("values", [np.zeros((2, 3), np.int64), np.full(4, 2**53)])
def test_what_is_replaced_has_the_form_of_what_is_drawn(values: np.ndarray) -> None:
    for found in (ExactNoise().discrete_laplace(values, 0.01), ExactNoise().discrete_gaussian(values, 0.01)):
        assert np.array_equal(found, values) and found.dtype == np.int64
