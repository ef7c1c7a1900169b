"""What runs before a commit is a part of `make check`, with the versions that development uses."""

from __future__ import annotations

from typing import Any

import pytest

from folding import every
from makefile import ROOT, commands
from tidy import faults, pages

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

(LOCAL,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
HOOKS: list[dict[str, Any]] = LOCAL["hooks"]


def test_the_hooks_are_what_lint_and_types_run() -> None:
    assert sorted(hook["entry"] for hook in HOOKS) == sorted([*commands("lint"), *commands("types")])


def test_no_hook_brings_a_version_of_its_own() -> None:
    assert LOCAL["repo"] == "local" and "rev" not in LOCAL
    for hook in HOOKS:
        assert hook["language"] == "system", hook
        assert hook["entry"].startswith(".venv/bin/"), hook
        assert "additional_dependencies" not in hook, hook


def test_a_target_installs_them() -> None:
    assert commands("hooks")[-1] == ".venv/bin/pre-commit install"
    assert "'.[hooks]'" in commands("hooks")[0] and "-c $(CONSTRAINTS)" in commands("hooks")[0]


# ------------------------------------------------------------------------------------------ what no formatter looks at


def test_the_project_is_tidy() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in pages()}
    assert {"Makefile", "README.md", "constraints.txt", "src/discreet/errors.py", ".ci/run"} <= names
    assert not [name for name in names if name.startswith(".venv")]
    found = [fault for name in names for fault in faults(name, (ROOT / name).read_bytes().decode("utf-8"))]
    assert found == []


@every(
    ("name", "text", "told"),
    [
        ("a.py", "x = 1 \n", "a.py:1: the line ends in white space"),
        ("a.py", "x = 1\r\n", "a.py:1: the line ends in white space"),
        ("a.py", "x = 1", "a.py: a file ends in one newline"),
        ("a.py", "x = 1\n\n", "a.py: a file ends in one newline"),
        ("a.md", "words\n" + "=" * 7 + "\n", "a.md:2: the mark of a merge"),
        ("a.md", "<" * 7 + " HEAD\n", "a.md:1: the mark of a merge"),
        ("a.md", "a\tb\n", "a.md:1: a tab"),
        ("constraints.txt", "a>=1\n", "constraints.txt:1: a version"),
        ("constraints.txt", "a==1 --hash=sha256:00\n", "constraints.txt:1: a version"),
        ("constraints.txt", "--index-url somewhere\n", "constraints.txt:1: a version"),
        ("constraints.txt", "a @ https://host/a.whl\n", "constraints.txt:1: a version"),
        ("studies/bench/environments/a.txt", "a @ file:///a.whl\n", "studies/bench/environments/a.txt:1: a version"),
    ],
)
def test_each_fault_is_found(name: str, text: str, told: str) -> None:
    assert [fault for fault in faults(name, text) if fault.startswith(told)]


@every(
    ("name", "text"),
    [
        ("Makefile", "all:\n\ttrue\n"),
        ("constraints.txt", "# words\na==1.0.post1\nb-c==2!1+cpu\n"),
        ("a.md", "a title\n=======x\n"),
        ("a.py", ""),
    ],
)
def test_what_is_tidy_is_left(name: str, text: str) -> None:
    assert faults(name, text) == []
