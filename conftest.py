"""Settings that every test shares, and the PostgreSQL that some of them share."""

from __future__ import annotations

import atexit
import gc
import importlib
import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

import costly
import postgres
from discreet.util import lazy_imports
from repeatable import Repeatable

SOURCES = Path(__file__).parent / "src"
collect_ignore = ["tests/kernel_at_work.py", "tests/packs_at_work.py", "tests/toy_pack", "tests/data", "tests/mutants"]
"""What is run by tests in processes of their own, as this one knows other packs; and folders without tests."""

settings.register_profile(
    "repeatable",
    deadline=None,  # these machines are shared: no test asserts a time
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fresh", deadline=None, max_examples=300, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)  # of `make nightly`: cases that no run has seen
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the run: which costly tests, and what is written down of it."""
    costly.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Let what tests draw from the system's randomness be of seeds, and leave out costly tests that are not due."""
    config.pluginmanager.register(Repeatable())
    config.pluginmanager.register(costly.CostlyTests(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: what is made here stays for the whole run, and is never looked at again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        atexit.register(gc.unfreeze)  # libraries complain of what is still there at the end


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings where there are any: to look is to load the file, and all that it names.

    A module of the package is imported first as users import it. pytest would execute it a second time where its own
    package imports it: the classes that were registered would not be those that stand under their names.
    """
    collectors = yield
    # Files of tests have no examples; one that is only looked at must not count as read by its neighbours.
    tests = file_path.name.startswith("test_")
    if file_path.suffix == ".py" and (tests or b">>> " not in file_path.read_bytes()):
        return [each for each in collectors if not isinstance(each, DoctestModule)]
    if file_path.suffix == ".py" and file_path.is_relative_to(SOURCES):
        parts = file_path.relative_to(SOURCES).with_suffix("").parts
        importlib.import_module(".".join(parts).removesuffix(".__init__"))
    return collectors


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, object, object]:
    """Look for examples of the package without loading the libraries that its modules load at their first use.

    doctest asks each name of a module for attributes, and so the stand-ins of ArviZ, numba, Polars and others.
    """
    if not (isinstance(collector, DoctestModule) and collector.path.is_relative_to(SOURCES)):
        return (yield)

    def refuse(self: object, attribute: str) -> None:
        raise AttributeError(attribute)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_imports._LazyModule, "__getattr__", refuse)
        return (yield)


@pytest.fixture(scope="session")
def state_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths of folders that are new, all in one: to number a folder pytest reads all that lie beside it."""
    root = tmp_path_factory.mktemp("state")
    return (root / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def state_folder(state_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of each test's own: the ledger that nothing names is in it, and never in somebody's home."""
    folder = next(state_folders)
    folder.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def released_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, records, a ledger and a release that it paid for, made once; tests copy it."""
    from shell import release_in

    folder = tmp_path_factory.mktemp("released") / "study"
    folder.mkdir()
    release_in(folder)
    return folder


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer points for a direction's chains, and so few for the walks that what they propose is not the posterior."""
    from discreet.research.readers import direction

    monkeypatch.setattr(direction, "FINE_POINTS", 512)
    monkeypatch.setattr(direction, "COARSE_POINTS", 16)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that are taken for mixed early: for tests of what is no mean of many draws."""
    from discreet.posterior import diagnostics

    monkeypatch.setattr(diagnostics, "LEAST_EFFECTIVE_DRAWS", 50)
    monkeypatch.setattr(diagnostics, "LARGEST_R_HAT", 1.1)


@pytest.fixture
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A direction's chains stand on few points and hardly warm up: for tests that look at the estimator."""
    from discreet.research.readers import direction

    for name, value in {
        "FINE_POINTS": 32,
        "COARSE_POINTS": 8,
        "START_PROPOSALS": 64,
        "MOVES_PER_COORDINATE": 1,
        "WARM_UP_PROPOSALS": 4,
    }.items():
        monkeypatch.setattr(direction, name, value)


@pytest.fixture(scope="session")
def server() -> postgres.Server:
    """A PostgreSQL; one for each process of the tests, where any of its tests asks for it."""
    return postgres.running()
