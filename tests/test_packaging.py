"""What leaves the repository: metadata, citation, bounds on versions, and the two files that are published."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import discreet
from lowest import PYPROJECT, lowest, requirements

REPOSITORY = PYPROJECT.parent
PROJECT: dict[str, Any] = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
ASKED = requirements(PYPROJECT.read_text(encoding="utf-8"))
INSIDE = ("py.typed", "releases/release.schema.json", "cli/asia.bif")
"""Files of the package that are not Python."""


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


# ------------------------------------------------------------------------------------------ versions


def test_every_requirement_states_its_lowest_version_and_all_state_the_same() -> None:
    assert set(lowest(ASKED)) == {Requirement(one).name for one in ASKED}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["numpy"], "numpy: expected name>=lowest"),
        (["numpy<3"], "numpy<3: expected"),
        (["a>=1", "a[b]>=2,<3"], "a: two lower bounds, 1 and 2"),
    ],
)
def test_a_missing_or_a_second_bound_is_refused(asked: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        lowest(asked)


def test_the_lowest_versions_are_read_from_the_whole_of_pyproject() -> None:
    text = """[project]
        name = "own"
        dependencies = ["a>=1.5"]
        [project.optional-dependencies]
        b = ["b-c[d,e]>=2.0.1,<3"]
        dev = ["own[b]"]"""
    assert lowest(requirements(text)) == {"a": "1.5", "b-c": "2.0.1"}


def test_development_uses_versions_that_users_may_have() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    pins = {canonical(name): Version(version) for name, version in pinned.items()}
    for one in map(Requirement, ASKED):
        assert pins[canonical(one.name)] in one.specifier, one


# ------------------------------------------------------------------------------------------ metadata


def test_the_citation_is_that_of_this_version() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    cited = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert str(cited["version"]) == discreet.__version__
    assert cited["license"] == PROJECT["license"]
    assert cited["keywords"] == PROJECT["keywords"]
    assert [author["name"] for author in cited["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert cited["title"].startswith("discreet") and cited["message"]
    assert len(cited["references"]) == 5
    for paper in cited["references"]:
        assert {"type", "title", "authors", "year"} <= set(paper), paper
        assert all({"family-names", "given-names"} == set(author) for author in paper["authors"])


def test_the_versions_of_python_agree() -> None:
    stated = [entry.rpartition(" ")[2] for entry in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", entry)]
    assert stated
    assert f">={min(stated, key=Version)}" == PROJECT["requires-python"]


def test_pages_that_strangers_look_for_are_there() -> None:
    for page, words in {"SECURITY.md": "How to report", "CONTRIBUTING.md": "make check", "LICENSE": "Apache"}.items():
        assert words in (REPOSITORY / page).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------ what is published


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, made without the network."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=REPOSITORY, check=True)
    return folder


@pytest.mark.costly("What is missing from the wheel, or too much in it, is found by building one.")
def test_the_wheel_holds_all_a_user_needs_and_nothing_else(built: Path) -> None:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (about,) = (name for name in names if name.endswith("/METADATA"))
        metadata = message_from_bytes(wheel.read(about))
    assert {f"discreet/{name}" for name in INSIDE} <= names
    info = about.rpartition("/")[0]
    assert f"{info}/licenses/LICENSE" in names
    assert {name.partition("/")[0] for name in names} == {"discreet", info}
    assert metadata["Version"] == discreet.__version__
    assert metadata["Author"] == "The discreet developers"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert set(metadata.get_all("Classifier")) == set(PROJECT["classifiers"])


def test_the_sources_hold_what_tests_and_readers_need(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    pages = {"LICENSE", "README.md", "SECURITY.md", "CITATION.cff", "CHANGELOG.md", "constraints.txt", "Makefile"}
    assert pages <= names
    assert {f"src/discreet/{name}" for name in INSIDE} <= names
    assert {"tests/lowest.py", "tests/data/release-v1-replace.json"} <= names
    assert not [name for name in names if name.startswith((".venv", ".git/")) or "__pycache__" in name]


def test_the_sources_make_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (sources,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    with tarfile.open(sources) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=unpacked, check=True)
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(unpacked / "dist" / wheel.name) as theirs:
        assert ours.namelist() == theirs.namelist()
        assert all(ours.read(name) == theirs.read(name) for name in ours.namelist())


@pytest.mark.thorough
def test_the_wheel_works_where_it_is_installed(built: Path, tmp_path: Path) -> None:
    """An environment that has the wheel, and for its dependencies, without the network, those of this one.

    `make package` does the same with the dependencies that the wheel asks for, and nothing else.
    """
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "empty", symlinks=True)
    place = sysconfig.get_path("purelib", vars={"base": str(tmp_path / "empty")})
    (Path(place) / "of_this_environment.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    python = tmp_path / "empty/bin/python"
    # What development installed is on the path, too, behind what is installed here: it is no reason to leave this out.
    options = ["--quiet", "--no-index", "--no-deps", "--ignore-installed"]
    subprocess.run([python, "-m", "pip", "install", *options, wheel], check=True)
    done = subprocess.run(
        [python, "-I", REPOSITORY / "tests/installed.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"discreet {discreet.__version__} works in {tmp_path / 'empty'}" in done.stdout


# ------------------------------------------------------------------------------------------ how to install


def test_nothing_says_to_install_from_an_index_what_is_on_none() -> None:
    """Whoever takes the name there would own our readers: a clone is installed, with extras as `.[extra]`."""
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "docs").rglob("*.ipynb")]
    code = [path for folder in ("src", "studies") for path in (REPOSITORY / folder).rglob("*.py")]
    wrong = re.compile(r"(?:pip )?install (?:-\S+ )*[\"'`\\]*discreet\b(?!-)")
    said = {
        str(path.relative_to(REPOSITORY)): found.group()
        for path in (*pages, *code)
        if path.name != "CHANGELOG.md" and (found := wrong.search(path.read_text(encoding="utf-8")))
    }
    assert said == {} and wrong.search("pip install 'discreet[serve]'") and wrong.search("install discreet[mcmc]")
    assert sum("pip install '.[" in path.read_text(encoding="utf-8") for path in (*pages, *code)) > 8
