"""Bugs planted one at a time, to see that the tests find them: `python tests/planting.py [BUG...]`.

Each file of tests/mutants is a bug: three lines, then, after an empty line each, its changes:

    What the bug does, in a sentence.
    Guards: privacy
    Killed by: tests/test_noise.py::test_the_scale tests/test_audit.py

    in ExactNoise.draw:
    -    scale = self.scale
    +    scale = self.scale / 2

`Guards` says what the bug would break: `privacy` (a promise of a release, the ledger, what an error or a file gives
away) or `answers` (everything else). Each bug must be found by the tests named, and a bug that breaks privacy by
`make test` alone.

A change is anchored by the name of what it is in, a function, class or constant, wherever that is defined, and by the
lines that it changes: code that moves, or is indented, takes its bugs along. Lines without a sign stay; they are needed
where a bug adds something, or where the same line stands twice. Of other files the anchor is the name of the file.
`git diff -U1 | python tests/planting.py --take NAME` takes a bug out of the code again and into such a file.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from operator import itemgetter
from pathlib import Path
from queue import Queue
from typing import NamedTuple, TypeGuard

HERE = Path(__file__).parent
ROOT = HERE.parent
MUTANTS = HERE / "mutants"
FOLDERS = ("src", "tests", "docs", "studies")
NEEDED = (*FOLDERS, "conftest.py", "pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff")
"""What a copy of the project consists of; its tests read pages and measurements, too."""
PLANTED = ("src", "studies")
"""Folders that bugs are planted in."""
TEXTS = (".py", ".sql", ".js", ".css", ".html", ".json", ".txt")
"""Files of these that are read."""
GUARDS = ("privacy", "answers")
LONGEST = 900
"""Seconds after which the tests of one bug are given up: it may have made something endless."""

FAILED = 1
"""pytest's exit code for tests that failed; a file that cannot be imported gives another."""


class Change(NamedTuple):
    """What a bug does to one place.

    Attributes:
        anchor: A name with those of what it is defined in, such as `Ledger.charge`, or the name of a file.
        old: Lines that are there, without the indentation that they share with the new ones.
        new: Lines in their place.
    """

    anchor: str
    old: tuple[str, ...]
    new: tuple[str, ...]

    def written(self) -> str:
        """The change as a bug's file has it."""
        lines = [f"in {self.anchor}:"]
        for tag, i, j, k, m in SequenceMatcher(None, self.old, self.new, autojunk=False).get_opcodes():
            lines += [f" {line}" for line in self.old[i:j]] if tag == "equal" else []
            lines += [f"-{line}" for line in self.old[i:j]] if tag in ("replace", "delete") else []
            lines += [f"+{line}" for line in self.new[k:m]] if tag in ("replace", "insert") else []
        return "\n".join(line.rstrip() for line in lines) + "\n"


@dataclass(frozen=True)
class Mutant:
    """One planted bug.

    Attributes:
        name: The name of its file.
        what: What the bug does.
        guards: What it would break, one of `GUARDS`.
        tests: The tests that find it, as pytest names them.
        changes: What it does to the code.
    """

    name: str
    what: str
    guards: str
    tests: tuple[str, ...]
    changes: tuple[Change, ...]


def mutants() -> list[Path]:
    """The files of all bugs."""
    return sorted(MUTANTS.glob("*.patch"))


def read(path: Path) -> Mutant:
    """The bug in a file.

    Raises:
        ValueError: If the file is not as this module says.
    """
    head, *parts = re.split(r"^in (.+):\n", path.read_text(), flags=re.MULTILINE)
    form = re.fullmatch(r"([^\n]+)\nGuards: (\w+)\nKilled by: ([^\n]+)\n\n", head)
    if form is None or form[2] not in GUARDS or not parts:
        raise ValueError(f"{path.name}: expected a sentence, Guards, Killed by, an empty line and changes")
    changes = (Change(anchor, *sides(body)) for anchor, body in zip(parts[::2], parts[1::2], strict=True))
    return Mutant(path.stem, form[1], form[2], tuple(form[3].split()), tuple(changes))


def sides(body: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines before and after a change; an empty line is one that stays."""
    lines = [line or " " for line in body.rstrip("\n").split("\n")]
    return tuple(line[1:] for line in lines if line[0] != "+"), tuple(line[1:] for line in lines if line[0] != "-")


class Place(NamedTuple):
    """Lines of a file: from the one of number `start`, counted from 0, to before `stop`."""

    path: Path
    start: int
    stop: int


@cache
def places(root: Path) -> dict[str, list[Place]]:
    """Where everything that has a name is defined, and each file under its name."""
    found: dict[str, list[Place]] = defaultdict(list)
    for folder in PLANTED:
        for path in sorted(path for path in (root / folder).rglob("*.*") if path.suffix in TEXTS):
            text = path.read_text()
            found[path.name].append(Place(path, 0, len(text.split("\n"))))
            if path.suffix == ".py":
                for name, node in named(ast.parse(text)):
                    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
                    found[name].append(Place(path, first - 1, node.end_lineno))
    return found


def named(node: ast.AST, above: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Statements that define a name, with the names of what they are defined in."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield above + inner.name, inner
            yield from named(inner, f"{above}{inner.name}.")
        elif isinstance(inner, ast.Assign | ast.AnnAssign):
            targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
            yield from ((above + name.id, inner) for target in targets for name in ast.walk(target) if is_name(name))
        elif not isinstance(inner, ast.expr):
            yield from named(inner, above)


def is_name(node: ast.AST) -> TypeGuard[ast.Name]:
    """Whether an expression is a name."""
    return isinstance(node, ast.Name)


def starts(change: Change, place: Place, lines: Sequence[str]) -> list[tuple[int, str]]:
    """Where a change's old lines begin in a place, and by what they are indented there."""
    found = []
    for start in range(place.start, place.stop - len(change.old) + 1):
        own = lines[start]
        indent = own[: len(own) - len(own.lstrip()) - (len(change.old[0]) - len(change.old[0].lstrip()))]
        there = lines[start : start + len(change.old)]
        if all(have == (indent + want if want else "") for have, want in zip(there, change.old, strict=True)):
            found.append((start, indent))
    return found


def planted(mutant: Mutant, root: Path = ROOT) -> dict[Path, str]:
    """Files with the bug in them: their paths under a copy of the project, and their texts.

    Raises:
        ValueError: If what it changes is not there, is there more than once, or does not change by it.
    """
    found: list[tuple[Path, int, str, Change]] = []
    for change in mutant.changes:
        once = {
            (place.path, *one)
            for place in places(root).get(change.anchor, ())
            for one in starts(change, place, lines_of(place.path))
        }
        if len(once) != 1 or change.old == change.new:
            raise ValueError(f"{mutant.name}: its lines are found {len(once)} times in {change.anchor}, expected once")
        found.append((*once.pop(), change))
    files = {path: list(lines_of(path)) for path, *_ in found}
    for path, start, indent, change in sorted(found, key=itemgetter(1), reverse=True):
        files[path][start : start + len(change.old)] = [indent + line if line else "" for line in change.new]
    return {path: "\n".join(lines) for path, lines in files.items()}


def lines_of(path: Path) -> list[str]:
    """The lines of a file."""
    return path.read_text().split("\n")


def taken(diff: str, root: Path = ROOT) -> list[Change]:
    """Changes of a bug that was written into the code, as `git diff` says them.

    Raises:
        ValueError: If lines of it are not in the code any more, or nothing names where they are.
    """
    found = []
    for part in re.split(r"^--- a/.*\n(?=\+\+\+ b/)", diff, flags=re.MULTILINE)[1:]:
        title, *bodies = re.split(r"^@@ .*\n", part, flags=re.MULTILINE)
        path = root / title.removeprefix("+++ b/").split("\n")[0]
        for body in bodies:
            kept = [line for line in body.split("\n") if line[:1] in tuple(" +-") and line]
            found.append(anchored("\n".join(kept), path, root))
    return found


def anchored(body: str, path: Path, root: Path) -> Change:
    """A change with the innermost anchor, and the fewest lines, by which it is found once."""
    signed, text = body.split("\n"), lines_of(path)
    changed = [number for number, line in enumerate(signed) if line[0] in "+-"]
    everywhere = Place(path, 0, len(text))
    hunk = [start for start, _ in starts(Change("", *sides(body)), everywhere, text)]
    for first, last in ((changed[0], changed[-1]), (0, changed[-1]), (changed[0], len(signed)), (0, len(signed))):
        old, new = sides("\n".join(signed[first : last + 1]))
        shared = min((len(line) - len(line.lstrip()) for line in (*old, *new) if line), default=0)
        change = Change("", tuple(line[shared:] for line in old), tuple(line[shared:] for line in new))
        if not old or len(hunk) != 1:
            continue
        start, stop = hunk[0] + first, hunk[0] + first + len(old)
        around = [
            (place.stop - place.start, name)
            for name, having in places(root).items()
            for place in having
            if place.path == path and place.start <= start and stop <= place.stop
        ]
        for _, name in sorted(around):
            named_so = change._replace(anchor=name)
            with suppress(ValueError):
                planted(Mutant("", "", "", (), (named_so,)), root)
                return named_so
    raise ValueError(f"these lines of {path.name} are not there once, in something that has a name:\n{body}")


@dataclass(frozen=True)
class Copy:
    """A copy of the project, in which bugs are planted one after the other."""

    root: Path

    def run(self, tests: tuple[str, ...], *options: str) -> tuple[int, str]:
        """What pytest returns for tests of the tier of every change, and what it printed; -1 if it did not end."""
        with tempfile.TemporaryDirectory() as machine_code:
            # A change of what a compiled function calls would not be seen in machine code kept from before it.
            place = {"PYTHONPATH": str(self.root / "src"), "NUMBA_CACHE_DIR": machine_code, "OPENBLAS_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "pytest", "-q", "-x", "--costly", "-p", "no:cacheprovider", "--tb=line"]
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
    parser.add_argument("--take", metavar="NAME", help="write a bug's file: the change is read from standard input")
    given = parser.parse_args()
    if given.take:
        head = "What the bug does.\nGuards: answers\nKilled by: tests/test_.py\n\n"
        subprocess.run(["git", "apply", "--reverse"], input=(diff := sys.stdin.read()), text=True, check=True, cwd=ROOT)
        (MUTANTS / f"{given.take}.patch").write_text(head + "\n".join(one.written() for one in taken(diff)))
        return 0
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
