"""Bugs planted one at a time, to see that the tests find them: `python tests/planting.py [PATCH...]`.

Each file of tests/mutants is a patch, as `git diff -U1` writes it, under three lines of its own:

    What the bug does, in a sentence.
    Guards: privacy
    Killed by: tests/test_noise.py::test_the_scale tests/test_audit.py

`Guards` says what the bug would break: `privacy` (a promise of a release, the ledger, what an error or a file gives
away) or `answers` (everything else). Each bug must be found by the tests named, and a bug that breaks privacy by
`make test` alone.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

HERE = Path(__file__).parent
ROOT = HERE.parent
MUTANTS = HERE / "mutants"
FOLDERS = ("src", "tests", "docs", "experiments", "bench")
NEEDED = (*FOLDERS, "conftest.py", "pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff")
"""What a copy of the project consists of; its tests read pages and measurements, too."""
GUARDS = ("privacy", "answers")
LONGEST = 900
"""Seconds after which the tests of one bug are given up: it may have made something endless."""

FAILED = 1
"""pytest's exit code for tests that failed; a file that cannot be imported gives another."""


@dataclass(frozen=True)
class Mutant:
    """One planted bug.

    Attributes:
        name: The name of its file.
        what: What the bug does.
        guards: What it would break, one of `GUARDS`.
        tests: The tests that find it, as pytest names them.
        hunks: By file, relative to the project: pairs of old and new lines, each one text.
    """

    name: str
    what: str
    guards: str
    tests: tuple[str, ...]
    hunks: dict[str, tuple[tuple[str, str], ...]]


def mutants() -> list[Path]:
    """All patches."""
    return sorted(MUTANTS.glob("*.patch"))


def read(path: Path) -> Mutant:
    """The bug in a file.

    Raises:
        ValueError: If the file is not as this module says.
    """
    text = path.read_text()
    head, *parts = re.split(r"^--- a/.*\n(?=\+\+\+ b/)", text, flags=re.MULTILINE)
    form = re.fullmatch(r"([^\n]+)\nGuards: (\w+)\nKilled by: ([^\n]+)\n\n(?:diff .*\n)?(?:index .*\n)?", head)
    if form is None or form[2] not in GUARDS or not parts:
        raise ValueError(f"{path.name}: expected a sentence, Guards, Killed by, an empty line and a patch")
    hunks = {}
    for part in parts:
        title, *bodies = re.split(r"^@@ .*\n", part, flags=re.MULTILINE)
        hunks[title.removeprefix("+++ b/").split("\n")[0]] = tuple(sides(body) for body in bodies)
    return Mutant(path.stem, form[1], form[2], tuple(form[3].split()), hunks)


def sides(body: str) -> tuple[str, str]:
    """The lines of a hunk before and after it."""
    lines = [line for line in body.splitlines(keepends=True) if line[0] in " +-"]
    return (
        "".join(line[1:] for line in lines if line[0] != "+"),
        "".join(line[1:] for line in lines if line[0] != "-"),
    )


def planted(mutant: Mutant, root: Path = ROOT) -> dict[Path, str]:
    """Files with the bug in them: their paths under a copy of the project, and their texts.

    Raises:
        ValueError: If what it changes is not there, is there more than once, or does not change by it.
    """
    files = {}
    for file, hunks in mutant.hunks.items():
        text = (root / file).read_text()
        for old, new in hunks:
            found = len(re.findall(f"^{re.escape(old)}", text, flags=re.MULTILINE))
            if found != 1 or old == new:
                raise ValueError(f"{mutant.name}: its lines are found {found} times in {file}, expected once")
            text = text.replace("\n" + old, "\n" + new, 1) if not text.startswith(old) else text.replace(old, new, 1)
        files[root / file] = text
    return files


@dataclass(frozen=True)
class Copy:
    """A copy of the project, in which bugs are planted one after the other."""

    root: Path

    def run(self, tests: tuple[str, ...], *options: str) -> tuple[int, str]:
        """What pytest returns for tests of the tier of every change, and what it printed; -1 if it did not end."""
        with tempfile.TemporaryDirectory() as machine_code:
            # A change of what a compiled function calls would not be seen in machine code kept from before it.
            place = {"PYTHONPATH": str(self.root / "src"), "NUMBA_CACHE_DIR": machine_code, "OPENBLAS_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=line"]
            tier = ["-m", "not slow and not thorough"]
            try:
                done = subprocess.run(
                    [*command, *tier, *options, *tests],
                    cwd=self.root,
                    env=os.environ | place,
                    capture_output=True,
                    text=True,
                    timeout=LONGEST,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return -1, f"no end after {LONGEST} s"
        return done.returncode, done.stdout

    def outcome(self, mutant: Mutant) -> tuple[bool, str]:
        """Whether its tests find a bug, and a line that says so."""
        kept = {path: path.read_text() for path in planted(mutant, self.root)}
        start = time.monotonic()
        try:
            for path, text in planted(mutant, self.root).items():
                path.write_text(text)
            code, printed = self.run(mutant.tests)
        finally:
            for path, text in kept.items():
                path.write_text(text)
        finders = re.findall(r"^FAILED (\S+)", printed, flags=re.MULTILINE)
        verdict = "killed" if code == FAILED else "SURVIVED" if code == 0 else f"NO VERDICT (pytest: {code})"
        line = f"{verdict:9} {time.monotonic() - start:4.0f} s  {mutant.guards:8} {mutant.name} {' '.join(finders)}"
        return code == FAILED, line if code in (0, FAILED) else f"{line}\n{printed[-2000:]}"


def copied(place: Path) -> Copy:
    """A copy of the project under a folder.

    Raises:
        RuntimeError: If Python would not take the package from it.
    """
    place.mkdir()
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place / name)
    where = subprocess.run(
        [sys.executable, "-c", "import discreet; print(discreet.__file__)"],
        env=os.environ | {"PYTHONPATH": str(place / "src")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if not where.startswith(str(place)):
        raise RuntimeError(f"the package is taken from {where.strip()}, not from the copy")
    return Copy(place)


def main() -> int:
    """Plant bugs, say what became of each, and return how many were not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patches", nargs="*", type=Path, help="files of tests/mutants; default: all")
    parser.add_argument("--workers", type=int, default=2, help="how many at once")
    parser.add_argument("--trust", action="store_true", help="do not first see that the tests pass without a bug")
    given = parser.parse_args()
    chosen = [read(path) for path in given.patches or mutants()]
    left = 0
    with tempfile.TemporaryDirectory() as folder:
        places: Queue[Copy] = Queue()
        for number in range(given.workers):
            places.put(copied(Path(folder) / str(number)))
        if not given.trust:
            tests = tuple(sorted({test for mutant in chosen for test in mutant.tests}))
            code, printed = places.queue[0].run(tests, "-n", str(given.workers), "--dist", "loadfile")
            if code != 0:
                print(printed[-4000:])
                print("the tests fail without a bug: nothing can be said")
                return 1

        def one(mutant: Mutant) -> tuple[bool, str]:
            place = places.get()
            try:
                return place.outcome(mutant)
            finally:
                places.put(place)

        with ThreadPoolExecutor(given.workers) as pool:
            for killed, line in pool.map(one, chosen):
                left += not killed
                print(line, flush=True)
    print(f"{len(chosen) - left} of {len(chosen)} planted bugs were found")
    return min(left, 1)


if __name__ == "__main__":
    sys.exit(main())
