"""Public continuous integration runs what a contributor can run, on the Pythons that are promised, with few rights."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

import pytest
from packaging.version import Version

from folding import every
from makefile import ROOT, targets

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
TRIGGERS: dict[str, Any] = WORKFLOW[True]
"""YAML 1.1 reads the word `on` as true."""

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PROMISED = {entry.rpartition(" ")[2] for entry in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", entry)}
EVERY_CHANGE = {"test-lowest", "test-newest", "test-spark", "package"}
NIGHTLY = {"test-fresh", "test-thorough", "mutants", "coverage"}
SYSTEM = re.compile(r"sudo apt-get -qq (update|install --no-install-recommends [a-z0-9 -]+)")
"""What a contributor installs once by their own means, and `make install` where it may."""


def runs(job: dict[str, Any]) -> list[str]:
    """The commands of a job, once for each value of its matrix that a command names."""
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    matrix = job.get("strategy", {}).get("matrix", {})
    found = []
    for line in lines:
        named = re.findall(r"\$\{\{ matrix\.(\w+) \}\}", line)
        values = matrix[named[0]] if named else [""]
        found += [re.sub(r"\$\{\{ matrix\.\w+ \}\}", value, line) for value in values]
    return found


def made(line: str) -> list[str]:
    """The targets that a command names to `make`, and nothing where it is another command."""
    program, *words = shlex.split(line)
    return [word for word in words if "=" not in word] if program == "make" else []


def pythons(job: dict[str, Any]) -> tuple[set[str], set[str]]:
    """The versions of Python of a job: those whose failure stops, and those that are only tried."""
    (setup,) = (step for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@"))
    asked = setup["with"]["python-version"]
    if asked != "${{ matrix.python }}":
        return {asked}, set()
    matrix = job["strategy"]["matrix"]
    assert matrix["untried"] == [False]
    assert job["continue-on-error"] == "${{ matrix.untried }}"
    assert all(one["untried"] is True for one in matrix["include"])
    return set(matrix["python"]), {one["python"] for one in matrix["include"]}


# ------------------------------------------------------------------------------------------ what it runs


@every("name", JOBS)
def test_a_job_runs_nothing_that_a_contributor_cannot_run(name: str) -> None:
    lines = runs(JOBS[name])
    assert any(made(line) or line == ".ci/run" for line in lines), "it checks nothing"
    for line in lines:
        assert line == ".ci/run" or made(line) or SYSTEM.fullmatch(line), line
        assert set(made(line)) <= set(targets()), line
        assert "${{" not in line, line


@every("name", JOBS)
def test_tests_that_a_job_names_exist(name: str) -> None:
    for line in runs(JOBS[name]):
        named = [word.removeprefix("TESTS=") for word in shlex.split(line) if word.startswith("TESTS=")]
        for pattern in " ".join(named).split():
            assert list(ROOT.glob(pattern)), pattern


def test_what_is_too_long_for_every_change_runs_at_night() -> None:
    of_a_change, of_a_night = set[str](), set[str]()
    for job in JOBS.values():
        asked = {target for line in runs(job) for target in made(line)}
        when = job.get("if", "")
        if "== 'schedule'" not in when:
            of_a_change |= asked
        if "!= 'schedule'" not in when:
            of_a_night |= asked
    assert of_a_change >= EVERY_CHANGE
    assert of_a_night >= NIGHTLY and not of_a_change & NIGHTLY
    assert {"push", "pull_request", "schedule"} <= set(TRIGGERS)


def test_the_one_command_runs_targets_that_exist() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    asked = [target for line in script if line.startswith("make ") for target in made(line)]
    assert asked[-1] == "check" and set(asked) <= set(targets())
    assert (ROOT / ".ci/run").stat().st_mode & 0o111, "it can be run"


# ------------------------------------------------------------------------------------------ on what it runs


def test_what_is_promised_is_checked_and_what_is_only_tried_is_newer() -> None:
    checked, tried = pythons(JOBS["check"])
    assert checked == PROMISED
    assert min(map(Version, tried)) > max(map(Version, PROMISED))


@every("name", JOBS)
def test_no_job_runs_on_a_python_that_is_not_promised(name: str) -> None:
    assert pythons(JOBS[name])[0] <= PROMISED
    if "make test-lowest" in runs(JOBS[name]):
        assert pythons(JOBS[name])[0] == {PROJECT["requires-python"].removeprefix(">=")}


@every("name", JOBS)
def test_a_job_names_its_system_and_ends(name: str) -> None:
    system = JOBS[name]["runs-on"]
    systems = JOBS[name]["strategy"]["matrix"]["system"] if system == "${{ matrix.system }}" else [system]
    assert all(re.fullmatch(r"ubuntu-\d\d\.04", one) for one in systems)
    assert 0 < JOBS[name]["timeout-minutes"] <= 240
    assert JOBS[name].get("strategy", {"fail-fast": False})["fail-fast"] is False


# ------------------------------------------------------------------------------------------ with what rights


def test_it_may_read_the_sources_and_no_more() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not [name for name, job in JOBS.items() if "permissions" in job or "secrets" in str(job)]
    assert "pull_request_target" not in TRIGGERS
    assert WORKFLOW["concurrency"]["cancel-in-progress"] == "${{ github.event_name == 'pull_request' }}"


@every("name", JOBS)
def test_what_it_uses_of_others_is_little_and_pinned(name: str) -> None:
    for step in JOBS[name]["steps"]:
        uses = step.get("uses")
        if uses is not None:
            assert re.fullmatch(r"actions/(checkout|setup-python|setup-java)@(v\d+|[0-9a-f]{40})", uses), uses
            if uses.startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}


def test_every_variable_of_the_makefile_is_set_in_it() -> None:
    """One that is not is empty, and make goes on: a command that begins with it is another one."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    used = set(re.findall(r"\$\(([A-Z_]+)\)", text)) - {"CURDIR", "MAKE"}
    assert used - set(re.findall(r"^([A-Z_]+) *[:?]?=", text, re.MULTILINE)) == set()
