"""The kernel without any pack: a copy of it, and the tests that need nothing else but readers of network files.

`python tests/kernel_alone.py` runs all of them (`make test-kernel`); `test_kernel_alone.py` looks at a few each time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "discreet"
FILES = "interchange"
"""The pack that reads network files, which most tests and the demo begin with."""
PACKS = (
    FILES,
    "discovery",
    "deciding",
    "predicting",
    "reporting",
    "questions",
    "latent",
    "accuracy",
    "designs",
    "research",
    "evidence",
    "estimators",
    "server",
)
OF_PACKS = re.compile(
    rf"\b(dc|discreet)[./]({'|'.join(PACKS[1:])})\b|\bserve\b|\"(exact|particles)\"|noisy_(gradients|moments)|factored"
    r"|grouped_moments|objective_perturbation|--design\b|\bdc\.(decide|decisions|plan_accuracy|predict|explain|report)\b|decide_number"
    r"|\"decide\"|--within|--workload"
)
BESIDE = ("pages", "mutants")
"""Folders of tests of what stands beside the package."""
APART = {
    "test_architecture", "test_changelog", "test_cli_formats", "test_combining", "test_commands_of_pages",
    "test_folders", "test_hooks", "test_kernel_alone", "test_layers", "test_mutants", "test_packaging", "test_packs",
    "test_switches", "test_theory_page", "test_typed_examples",
}  # fmt: skip
"""Tests of the whole tree, with its packs; and two that ask a reader of a pack without naming it."""


def make_copy(folder: Path, *packs: str) -> Path:
    """Copy the kernel, as if it were installed without other packs: its metadata has no entry points of theirs.

    Args:
        folder: an empty one.
        packs: that are copied, too.

    Returns:
        The same, for `PYTHONPATH`.
    """
    left_out = {*PACKS} - {*packs}
    shutil.copytree(SOURCE, folder / "discreet", ignore=lambda at, _: left_out if Path(at) == SOURCE else ())
    told = folder / "discreet-0.1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: discreet\nVersion: 0.1.0\n")
    points = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        f"[{group}]\n{pack} = {points[group][pack]}\n" for group in points for pack in packs if pack in points[group]
    ]
    (told / "entry_points.txt").write_text("\n".join(lines))
    return folder


def kernel_tests() -> list[Path]:
    """Files of tests that name no pack but that of network files, and import no helper that does."""
    texts = {path.stem: path for path in TESTS.rglob("*.py") if not {*path.parts} & {*BESIDE}}
    needs = {
        name: {
            found for found in re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE) if found in texts
        }
        for name, path in texts.items()
    }
    beside = re.compile(r"^(?:from|import) (experiments|bench)\b(?!\.networks| import networks)", re.MULTILINE)
    known = {name for name, path in texts.items() if OF_PACKS.search(text := path.read_text()) or beside.search(text)}
    known |= APART
    while more := {name for name, others in needs.items() if others & known} - known:
        known |= more
    return sorted(path for name, path in texts.items() if name.startswith("test_") and name not in known)


def run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy in the place of the package."""
    place = {"PYTHONPATH": os.pathsep.join([str(copy), str(TESTS), str(TESTS.parent / "studies")])}
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | place,
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def main() -> int:
    """Run the kernel's tests on the kernel and the reader of network files alone."""
    with tempfile.TemporaryDirectory() as folder:
        copy = make_copy(Path(folder), FILES)
        files = [str(path) for path in kernel_tests()]
        place = {"PYTHONPATH": os.pathsep.join([str(copy), str(TESTS), str(TESTS.parent / "studies")])}
        marks = "not slow and not thorough"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, *files, *sys.argv[1:]]
        return subprocess.run(command, env=os.environ | place, cwd=TESTS.parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
