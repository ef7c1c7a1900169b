"""What no formatter looks at: ends of lines and files, marks of a merge, and addresses among versions.

`python tests/tidy.py` prints a line for each fault and fails if there is one. `make lint` runs it, and so does the hook
before a commit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["faults", "pages"]

ROOT = Path(__file__).parents[1]
FOLDERS = (".ci", ".github", "src", "tests", "studies", "docs")
KINDS = {".cff", ".md", ".py", ".sh", ".sql", ".toml", ".txt", ".yaml", ".yml"}
BARE = {".ci/run", ".gitignore", "LICENSE", "Makefile"}
"""Files whose names do not say that people write them."""

MADE = "studies/bench/results"
"""Where benches leave their tables."""

VERSIONS = re.compile(r"constraints\.txt|studies/bench/environments/[^/]+\.txt")
PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z0-9,]+\])?==[A-Za-z0-9.!+]+")
MERGE = re.compile(r"(<{7}|>{7}) |={7}$")


def pages(root: Path = ROOT) -> Iterator[Path]:
    """All files that people write; not what a bench draws or a program stores."""
    for path in sorted([*root.glob("*"), *(path for folder in FOLDERS for path in (root / folder).rglob("*"))]):
        name = path.relative_to(root).as_posix()
        if path.is_file() and (path.suffix in KINDS or name in BARE) and not name.startswith(f"{MADE}/"):
            yield path


def faults(name: str, text: str) -> list[str]:
    """What is untidy in a file.

    Args:
        name: its path in the project.
        text: what it holds, with the ends of lines as they are.

    Returns:
        A line for each fault.
    """
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.endswith((" ", "\t", "\r")):
            found.append(f"{name}:{number}: the line ends in white space")
        if MERGE.match(line):
            found.append(f"{name}:{number}: the mark of a merge")
        if "\t" in line and not name.endswith("Makefile"):
            found.append(f"{name}:{number}: a tab")
        if VERSIONS.fullmatch(name) and line and not line.startswith("#") and PINNED.fullmatch(line) is None:
            found.append(f"{name}:{number}: a version is stated as name==version, and by no address")
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        found.append(f"{name}: a file ends in one newline")
    return found


if __name__ == "__main__":
    untidy = []
    for path in pages():
        with path.open(encoding="utf-8", newline="") as file:
            untidy += faults(path.relative_to(ROOT).as_posix(), file.read())
    print("\n".join(untidy), end="\n" if untidy else "")
    sys.exit(1 if untidy else 0)
