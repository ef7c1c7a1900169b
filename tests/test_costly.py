"""Costly tests run where what they read has changed; a test that failed or was skipped is not one that passed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ci_figures
import costly

PASSES = """
import pytest
from pathlib import Path

@pytest.mark.costly("an example")
def test_costly():
    assert Path(__file__).parents[1].joinpath("docs/page.md").read_text()

def test_quick():
    assert Path(__file__).name == "test_a.py"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one file of tests, which reads a page, and the package's own runner."""
    for name, text in {
        "tests/test_a.py": PASSES,
        "tests/costly.py": Path(costly.__file__).read_text(encoding="utf-8"),
        "docs/page.md": "text",
        "docs/unread.md": "text",
        "src/discreet/model/a.py": "",
        "conftest.py": "import costly\npytest_addoption = costly.add_options\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(costly.CostlyTests(config))\n",
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["tests"]\nmarkers = ["costly(...): why"]\n',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "studies/tests").mkdir(parents=True)
    return tmp_path


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the project in it."""
    quick = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run([sys.executable, *words], cwd=project, env=quick, check=False, capture_output=True, text=True)


def last_line(project: Path) -> str:
    """The last line of what pytest prints."""
    return run(project, "-m", "pytest", "-q", "tests").stdout.splitlines()[-1]


WORDS = b'''"""A docstring
# of two lines."""
# a comment
A = 1  # beside a statement
"""What A is."""
B = """a text
# which is no comment
"""
def f(): "shares its line"
def g():
    "a docstring"  # and a comment
    # another
    return f"""{A}
    # a text""" + (
        "one"
        # between
        "text")
"one"; C = 2
'''
CODE = b'''A = 1  # beside a statement
B = """a text
# which is no comment
"""
def f(): "shares its line"
def g():
    return f"""{A}
    # a text""" + (
        "one"
        # between
        "text")
"one"; C = 2
'''


def test_words_about_a_program_are_no_part_of_it() -> None:
    assert costly.without_words(WORDS) == CODE
    for part in (b"beside", b"no comment", b"shares", b"# between", b'"one"', b"# a text"):
        assert costly.without_words(WORDS.replace(part, b"#" + part)) != CODE


def test_a_source_is_parsed_once_and_again_when_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, kept, source = list[bytes](), dict[str, dict[str, str]](), tmp_path / "a.py"
    strip = costly.without_words
    monkeypatch.setattr(costly, "without_words", lambda text: parsed.append(text) or strip(text))
    cached: Any = SimpleNamespace(cache=SimpleNamespace(get=kept.get, set=kept.__setitem__))
    digests = []
    for text in (b"# a\none = 1\n", b"# a\none = 1\n", b"# b\none = 1\n", b"# b\none = 2\n"):
        source.write_bytes(text)
        monkeypatch.setattr(costly, "DIGESTS", {})
        monkeypatch.setattr(costly, "KEPT_DIGESTS", {})
        with costly._keep_digests(cached):
            digests.append(costly._file_digest.__wrapped__(source, False))
    assert len(parsed) == 3, "an earlier run has seen the second"
    assert digests[0] == digests[1] == digests[2] != digests[3]
    with costly._keep_digests(cached.__class__()):  # a run without a cache
        assert costly._file_digest.__wrapped__(source, False) == digests[3]


@pytest.mark.parametrize("words", [False, True])
def test_words_about_a_program_make_a_test_due_where_it_reads_them(words: bool, project: Path) -> None:
    (project / "tests/test_a.py").write_text(
        "import pytest\nfrom pathlib import Path\n\n"
        f'@pytest.mark.costly("an example", words={words})\ndef test_it():\n'
        '    assert "one" in Path(__file__).parents[1].joinpath("src/discreet/model/a.py").read_text()\n'
    )
    source = project / "src/discreet/model/a.py"
    due = []
    for text in ('"""A docstring."""\none = 1\n', '"""Another."""\n# a comment\none = 1\n', "one = 2\n"):
        source.write_text(text)
        due.append(run(project, "tests/costly.py", "--due", "tests/test_a.py").returncode == 0)
        if len(due) == 1:
            assert run(project, "tests/costly.py").returncode == 0
    assert due == [True, words, True]


@pytest.mark.costly("What pytest leaves out is seen by running it in a project of its own, six times.")
def test_a_costly_test_runs_until_it_passed_and_again_when_what_it_reads_changes(project: Path) -> None:
    assert "2 passed" in last_line(project)
    assert run(project, "tests/costly.py").returncode == 0
    record = json.loads((project / "tests/costly.json").read_text())
    assert "docs/page.md" in record["tests/test_a.py"]["reads"]
    assert "1 passed, 1 deselected" in last_line(project)
    (project / "docs/unread.md").write_text("another text")
    (project / "src/discreet/model/a.py").write_text("unread = 1")
    assert "1 deselected" in last_line(project)
    assert run(project, "tests/costly.py", "--due", "tests/test_a.py").returncode == 1
    (project / "docs/page.md").write_text("another text")
    assert "2 passed" in last_line(project)
    assert run(project, "tests/costly.py", "--due", "tests/test_a.py").returncode == 0


@pytest.mark.parametrize(
    ("body", "code"), [("assert False", 1), ("pytest.skip('no data here')", 0), ("raise SystemExit(0)", 1)]
)
def test_what_did_not_pass_is_not_recorded(project: Path, body: str, code: int) -> None:
    file = project / "tests/test_a.py"
    file.write_text(
        PASSES
        + f"    {body}\n"
        + PASSES.replace("test_costly", "test_other").replace("assert P", body + "\n    assert P")
    )
    assert run(project, "tests/costly.py").returncode == code
    assert json.loads((project / "tests/costly.json").read_text()) == {}


@pytest.mark.costly("A failure that stays recorded as passed is found by running a project's tests twice.")
def test_what_failed_after_it_passed_is_taken_out_of_the_record(project: Path) -> None:
    run(project, "tests/costly.py")
    (project / "docs/page.md").write_text("")
    done = run(project, "tests/costly.py")
    assert done.returncode == 1 and "AssertionError" in done.stdout
    assert json.loads((project / "tests/costly.json").read_text()) == {}


def test_every_costly_test_runs_where_that_is_wanted(project: Path) -> None:
    run(project, "tests/costly.py")
    assert "2 passed" in run(project, "-m", "pytest", "-q", "--costly", "tests").stdout.splitlines()[-1]


def test_a_test_that_guards_privacy_is_never_left_out(project: Path) -> None:
    file = project / "tests/test_a.py"
    file.write_text(PASSES.replace('"an example"', '"an example", always=True'))
    run(project, "tests/costly.py")
    assert "2 passed" in last_line(project)


def test_a_file_that_starts_processes_reads_the_whole_package() -> None:
    loaded = [f"{costly.ROOT}/src/discreet/model/network.py", f"{costly.ROOT}/tests/test_api.py", "/usr/lib/else.py"]
    assert costly.paths_read(loaded, False) == ["src/discreet/model", "tests/test_api.py"]
    read = costly.paths_read(loaded, True)
    assert {"src/discreet", "tests/shell.py", "tests/test_api.py"} <= set(read)
    assert "src/discreet/model" not in read and "tests/costly.py" not in read
    assert costly.paths_read(loaded, True, ["src/discreet/records"]) == ["src/discreet/records", "tests/test_api.py"]


def test_every_costly_test_says_why_it_is_worth_its_time(request: pytest.FixtureRequest) -> None:
    """As far as this process has collected them, those too that are left out."""
    (plugin,) = (each for each in request.config.pluginmanager.get_plugins() if isinstance(each, costly.CostlyTests))
    assert not [name for name, reason in plugin.reasons.items() if len(reason) <= 20]


def test_figures_are_written_by_tier() -> None:
    costs = [("tests/test_noise.py::test_the_scale[a]", "quick", 0.25), ("tests/test_x.py::test_y", "costly", 1234.0)]
    lines = ci_figures.table(costs).splitlines()
    assert lines[2].startswith("| quick | 1 | 0 |") and lines[4].startswith("| costly | 1 | 1,234 |")
