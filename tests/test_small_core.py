"""Who only asks releases needs few packages: no engine, no noise, no ledger."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from installations import all_needed, folders_of
from networks import asia
from releases import guarantee, simulated

MEBIBYTES, PACKAGES = 250, 17
"""Most that the core takes, and most distributions, itself among them; docs/decisions/0025 says why so many."""
LEFT_OUT = ("duckdb", "ibis", "networkx", "opendp", "pandas", "pyarrow", "sqlalchemy", "tomlkit")
SIMULATED = "this release is a simulation: it protects nobody"
QUESTION = "P(lung | smoke=yes)"


def core() -> set[str]:
    """All distributions of `pip install .`."""
    return all_needed({"discreet"})


@pytest.fixture
def release(tmp_path: Path) -> dc.Release:
    """A release of asia, in release.json."""
    made = simulated(asia(), 1000, guarantee(), np.random.default_rng(1))
    made.save(tmp_path / "release.json")
    return made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the core's alone; ours are the sources."""
    place = tmp_path_factory.mktemp("core")
    for name in core():
        for path in folders_of(name):
            (place / path.name).symlink_to(path)
    (place / "discreet").symlink_to(Path(dc.__file__).parent)
    return place


def run(site: Path, folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code where only the packages of a folder are installed."""
    start = f"import sys; sys.path.append({str(site)!r})\n"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + code], cwd=folder, capture_output=True, text=True, check=False
    )


def command(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command line there."""
    return run(site, folder, f"from discreet.cli.start import main\nsys.exit(main({[*words]!r}))")


def test_the_core_is_small(site: Path) -> None:
    files = {path for top in site.iterdir() for path in (top.rglob("*") if top.is_dir() else [top]) if path.is_file()}
    size = sum(path.stat().st_size for path in files) / 2**20
    print(f"{len(core())} packages, {size:.0f} MiB")
    assert not {*LEFT_OUT, "ibis-framework"} & core()
    assert len(core()) <= PACKAGES, sorted(core())
    assert size <= MEBIBYTES


@pytest.mark.costly("What the core needs shows in processes that have nothing else.")
def test_releases_are_asked_without_engines_and_noise(site: Path, tmp_path: Path, release: dc.Release) -> None:
    answer = release.posterior(rng=7).answer(QUESTION)
    code = (
        f"import discreet as dc\nposterior = dc.load('release.json').posterior(rng=7)\n"
        f"print(posterior.answer({QUESTION!r}))\nprint(dc.regress(posterior, 'dysp', ['smoke']))\n"
        f"print(sorted({{*{LEFT_OUT!r}}} & {{*sys.modules}}))"
    )
    done = run(site, tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert str(answer) in done.stdout and done.stdout.endswith("[]\n")
    for words in (
        ("query", "release.json", QUESTION),
        ("draw", "release.json", "--output", "release.draws"),
        ("query", "release.draws", QUESTION, "--json"),
        ("report", "release.json", "--output", "report.html"),
        ("explain", "release.json"),
        ("fit", "release.json"),
        ("--help",),
    ):
        done = command(site, tmp_path, *words)
        assert done.returncode == 0 and done.stdout, (words, done.stderr)
        assert {*done.stderr.splitlines()} <= {SIMULATED}, words


@pytest.mark.costly("What the core lacks shows in processes that have nothing else.")
@pytest.mark.parametrize(
    ("words", "lacks"),
    [
        (("demo",), "pyarrow"),
        (("sample", "release.json", "--records", "5", "--output", "made.csv"), "pyarrow"),
        (("ledger", "show"), "sqlalchemy"),
        (("check", "records.csv", "--network", "asia.bif"), "ibis"),
    ],
)
def test_what_the_core_lacks_is_named_with_the_way_to_have_it(
    site: Path, tmp_path: Path, release: dc.Release, words: tuple[str, ...], lacks: str
) -> None:
    done = command(site, tmp_path, *words)
    told = f"discreet: this needs {lacks}, which is not installed: pip install '.[curator]' in a clone of discreet\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_names_that_the_core_lacks_say_so(site: Path, tmp_path: Path) -> None:
    code = (
        "import discreet as dc\nfor name in dc.__all__:\n    try:\n        getattr(dc, name)\n"
        "    except dc.InputError as error:\n        print(error)"
    )
    done = run(site, tmp_path, code)
    assert done.returncode == 0 and not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert lines and all("pip install '.[" in line for line in lines), lines
