"""What the README and the pages of `docs` tell a reader to run does run."""

from __future__ import annotations

import atexit
import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from discreet.app.cli import main
from discreet.model.project import Project
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS
ROOT = Path(__file__).parents[2]


@cache
def demo() -> Path:
    """What the line leaves that several pages begin with."""
    folder = Path(tempfile.mkdtemp(prefix="demo"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    assert main(["demo", "--keep", str(folder / "demo")]) == 0
    return folder / "demo"


def shortened(line: str) -> list[str]:
    """The words of a command; one that repeats what it does is told to do so less often, the last word being heard."""
    words = shlex.split(line)[1:]
    less = {
        "plan": [] if "--within" in words else ["--repeats", "1"],
        "sample": ["--sets", "3"] if "--sets" in words else [],
    }
    return [*words, *less.get(words[0], [])]


@pytest.mark.parametrize("page", ["README.md", "docs/shell.md", "docs/records.md", "docs/guides/draw-a-network.md"])
def test_the_commands_of_pages_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ours in this process, which has loaded what they need; the shell's own lines, and pipes, in a shell."""
    readme = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    skipped = ("make", "pip", "git", "python -m venv")
    lines = [line for block in blocks for line in block.splitlines() if not line.startswith(skipped)]
    assert sum(line.startswith("discreet ") for line in lines) >= 4
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for ours, group in groupby(lines, lambda line: line.startswith("discreet ")):
        if not ours:
            subprocess.run(["bash", "-e", "-c", "\n".join(group)], check=True, capture_output=True)
            continue
        for line in group:
            if line == "discreet demo --keep demo":
                shutil.copytree(demo(), "demo")
                continue
            code = main(shortened(line))
            assert code == 0, f"{line}: {capfd.readouterr().err}"


def test_the_picture_of_a_page_is_of_the_network_on_it() -> None:
    """`discreet show falls.toml --svg docs/pictures/falls.svg --replace` draws it anew."""
    page = (ROOT / "docs" / "guides" / "draw-a-network.md").read_text(encoding="utf-8")
    assert "](../pictures/falls.svg)" in page
    (project,) = re.findall(r"falls\.toml <<'TOML'\n(.*?)^TOML$", page, re.DOTALL | re.MULTILINE)
    drawn = Project.parse(project).network.to_svg()
    assert drawn == (ROOT / "docs" / "pictures" / "falls.svg").read_text(encoding="utf-8")


def test_the_ten_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"^```python\n(import.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for line in block.splitlines() if line]
    assert len(lines) == 10
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo(), "demo")
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)  # noqa: S102 - the page's own lines
    answer = names["answer"]
    assert [row["state"]["lung"] for row in answer.rows] == ["yes", "no"]
    assert all(0 < row["lower"] < row["mean"] < row["upper"] < 1 for row in answer.rows)


@pytest.mark.filterwarnings("ignore::discreet.privacy.default_account.DefaultAccountWarning")
@pytest.mark.parametrize(
    "name", ["estimators.md", "missing.md", "numbers.md", "guides/scikit-learn.md", "guides/draw-a-network.md"]
)
def test_the_examples_of_the_documentation_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path / "none.toml"))
    page = ROOT / "docs" / name
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert found.failed == 0
    assert found.attempted > 10
