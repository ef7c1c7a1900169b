"""Tests that take more than a second of CPU: which of them are due, and what each of their files reads.

`@pytest.mark.costly("why it is worth its time")` marks one. It runs where something that its file reads has changed
since it last passed. `costly.json` beside this file keeps that: for each file the paths that its tests read, and a
checksum of them. So a fresh clone does not repeat what passed on the same sources, and a change is met by all that
reads it. A file whose tests start processes reads the whole package and all helpers of tests, unless the marker names
paths of its own (`reads=`). Docstrings and comments of Python sources do not count, unless a marker of the file says
that tests read them, too (`words=True`). A test that guards privacy runs in every run (`always=True`).

`make test-costly` runs the costly tests that are due, each file in a process of its own, and writes the record anew.
Every other run only looks; `pytest --costly` runs all of them.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest

__all__ = ["CostlyTests", "FileRecord", "checksum", "is_due", "main", "paths_read", "without_words"]

ROOT = Path(__file__).parents[1]
RECORD = Path(__file__).with_suffix(".json")
ALWAYS = ("conftest.py", "pyproject.toml", "constraints.txt", "tests/repeatable.py")
"""What every test reads."""
PACKAGE = "src/discreet"
SCRIPTS = {"ci_figures.py", "costly.py"}
"""Files on which no result of a test depends: this one, and what tabulates the costs."""
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec"}
"""Audit events of a process that starts another one, whose reads nobody sees."""
IGNORED = {
    "__pycache__", "build", "dist", ".git", ".hypothesis", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", RECORD.name,
}  # fmt: skip


class FileRecord(TypedDict):
    """What is known of a file of tests whose costly tests passed.

    Attributes:
        reads: files and folders that the tests read, by their paths in the repository.
        checksum: of the contents of all of them and of the file itself, when the tests passed.
        code: the same without docstrings and comments; absent where a test of the file reads those.
    """

    reads: list[str]
    checksum: str
    code: NotRequired[str]


# --------------------------------------------------------------------------- what is due


def without_words(source: bytes) -> bytes:
    """Take docstrings, other bare texts and whole-line comments out of a Python source; other lines stay as they are.

    By the lines of the syntax tree, which all versions of Python number alike. A text that shares a line with a
    statement stays, and so does what looks like a comment inside of a text.
    """
    lines = source.split(b"\n")
    bare, inside = set[int](), set[int]()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Expr) and _is_text(child.value):
                bare.update(_lines_of(child, lines))
            elif isinstance(child, ast.JoinedStr) or _is_text(child):
                inside.update(range(child.lineno, child.end_lineno or child.lineno))
            else:
                visit(child)

    visit(ast.parse(source))
    return b"\n".join(
        line
        for place, line in enumerate(lines)
        if place not in bare and (place in inside or not line.lstrip().startswith(b"#"))
    )


def _is_text(node: ast.AST) -> bool:
    """True if a node is a text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _lines_of(statement: ast.Expr, lines: list[bytes]) -> range:
    """Places of the lines of a statement; none where another one shares its lines."""
    first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
    after = lines[last][statement.end_col_offset or 0 :].strip()
    alone = not lines[first][: statement.col_offset].strip() and (not after or after.startswith(b"#"))
    return range(first, last + 1) if alone else range(0)


DIGESTS: dict[str, str] = {}
"""Of each Python source that was asked for its checksum without docstrings and comments, by its checksum with them."""
KEPT_DIGESTS: dict[str, str] = {}
"""The same of an earlier run, so that a source is parsed once: to parse all of them takes some seconds of every run."""


@cache
def _file_digest(path: Path, words: bool) -> bytes:
    """Checksum of a file, with or without docstrings and comments."""
    source = path.read_bytes()
    whole = sha256(source).hexdigest()
    if words or path.suffix != ".py":
        return bytes.fromhex(whole)
    try:
        DIGESTS[whole] = KEPT_DIGESTS.get(whole) or sha256(without_words(source)).hexdigest()
    except (SyntaxError, ValueError):
        DIGESTS[whole] = whole
    return bytes.fromhex(DIGESTS[whole])


@contextmanager
def _keep_digests(config: pytest.Config) -> Iterator[None]:
    """Take the checksums that an earlier run kept in pytest's cache, and keep those of this one; none without a cache.

    They are kept for this very version of this file, as it says what is left out.
    """
    kept, name = getattr(config, "cache", None), f"costly/{sha256(Path(__file__).read_bytes()).hexdigest()}"
    KEPT_DIGESTS.update(kept.get(name, {}) if kept else {})
    yield
    if kept and DIGESTS.keys() - KEPT_DIGESTS.keys():
        kept.set(name, DIGESTS)


@cache
def _digest(name: str, words: bool) -> bytes:
    """A path in the repository with its checksum: of a file, or of the names and contents of all files of a folder.

    Empty if the path is gone.
    """
    total, path = sha256(), ROOT / name
    if not path.exists():
        return b""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and not IGNORED & set(file.parts):
            total.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + _file_digest(file, words))
    return name.encode() + b"\0" + total.digest()


def checksum(test_file: str, reads: Iterable[str], *, words: bool = True) -> str:
    """Checksum of a file of tests and of all that its tests read.

    Args:
        test_file: its path in the repository.
        reads: paths in the repository; one that is gone counts as empty.
        words: False leaves out docstrings and comments of Python sources.
    """
    names = sorted({*ALWAYS, test_file, *reads})
    return sha256(b"".join(_digest(name, words) for name in names)).hexdigest()


def is_due(test_file: str, record: dict[str, FileRecord]) -> bool:
    """True if something that the costly tests of a file read has changed since they passed, or nobody knows."""
    known = record.get(test_file)
    if known is None:
        return True
    # In most runs nothing at all has changed, which is seen without parsing.
    if checksum(test_file, known["reads"]) == known["checksum"]:
        return False
    return "code" not in known or checksum(test_file, known["reads"], words=False) != known["code"]


def load_record() -> dict[str, FileRecord]:
    """The record, by file of tests; empty where there is none."""
    record: dict[str, FileRecord] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return record


# --------------------------------------------------------------------------- the plugin


def helpers() -> list[Path]:
    """The modules that tests share, which processes of theirs may load."""
    shared = (path for path in (ROOT / "tests").glob("*.py") if not path.name.startswith("test_"))
    return sorted(path for path in shared if path.name not in SCRIPTS)


def paths_read(opened: Iterable[str], starts_processes: bool, stated: Sequence[str] = ()) -> list[str]:
    """Summarize the files that a run read as paths in the repository.

    Args:
        opened: paths of files that were opened, and of modules that were loaded.
        starts_processes: True if the run started other processes: they may load all of the package.
        stated: paths of the package that count in the place of those that were loaded.

    Returns:
        Rooms of the package as folders, other files one by one; a folder of which more than ten were read as a whole.
        Not `SCRIPTS`.
    """
    rooms, files = set[str](), dict[str, set[str]]()
    for name in opened:
        path = Path(name)
        if (
            not path.is_relative_to(ROOT)
            or IGNORED & set(path.parts)
            or path.parts[len(ROOT.parts)].startswith(".venv")
        ):
            continue
        local = path.relative_to(ROOT).as_posix()
        if local.startswith(f"{PACKAGE}/"):
            rooms.add("/".join(local.split("/")[:3]))
        elif path.is_file():
            files.setdefault(path.parent.relative_to(ROOT).as_posix(), set()).add(local)
    if starts_processes and not stated:
        rooms = {PACKAGE, *(path.relative_to(ROOT).as_posix() for path in helpers())}
    outside = {folder for folder, names in files.items() if len(names) > 10 and folder not in ("tests", ".")}
    named = {name for folder, names in files.items() if folder not in outside for name in names}
    return sorted({*(stated or rooms), *outside, *named} - {f"tests/{name}" for name in SCRIPTS})


def reason_of(marker: pytest.Mark) -> str:
    """Why a costly test is worth its time, in the words of its marker; empty if it says nothing."""
    return str(marker.args[0]) if marker.args else ""


class CostlyTests:
    """A plugin of pytest: leaves out costly tests that are not due, and writes down what tests read and cost.

    Args:
        config: of the run: `--costly` runs all costly tests, `--reads FILE` writes the paths that the run read, `--cpu
            FILE` appends the CPU seconds of each test, its children's included, a JSON line each.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.every: bool = config.getoption("--costly")
        self.reasons: dict[str, str] = {}
        self.reads: str | None = config.getoption("--reads")
        self.cpu: str | None = config.getoption("--cpu")
        self.opened, self.starts_processes = set[str](), False
        self.stated, self.words = set[str](), False
        if self.reads:
            sys.addaudithook(self._watch)

    def _watch(self, event: str, values: tuple[Any, ...]) -> None:
        """Note a file that is opened, or a process that starts."""
        if event == "open" and isinstance(values[0], str):
            self.opened.add(os.path.abspath(values[0]))
        elif event in STARTS:
            self.starts_processes = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the costly tests of files whose record still holds.

        First of all plugins, so that `-m "not costly"` hides no marker from the test of their reasons.
        """
        self.reasons = {
            item.nodeid: reason_of(marker) for item in items if (marker := item.get_closest_marker("costly"))
        }
        for marker in (item.get_closest_marker("costly") for item in items):
            self.stated.update(marker.kwargs.get("reads", ()) if marker else ())
            self.words |= bool(marker and marker.kwargs.get("words"))
        if self.every:
            return
        record = load_record()
        due: dict[str, bool] = {}
        chosen, left_out = list[pytest.Item](), list[pytest.Item]()
        with _keep_digests(config):
            for item in items:
                name = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else str(item.path)
                marker = item.get_closest_marker("costly")
                if marker and not marker.kwargs.get("always") and name not in due:
                    due[name] = is_due(name, record)
                if marker is None or marker.kwargs.get("always") or due[name]:
                    chosen.append(item)
                else:
                    left_out.append(item)
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = chosen

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Append the CPU seconds of a test to the file of `--cpu`."""
        before = _cpu_seconds()
        try:
            return (yield)
        finally:
            if self.cpu:
                marker = item.get_closest_marker("costly")
                tier = "quick" if marker is None else "always" if marker.kwargs.get("always") else "costly"
                with open(self.cpu, "a", encoding="utf-8") as file:
                    file.write(json.dumps([item.nodeid, tier, round(_cpu_seconds() - before, 3)]) + "\n")

    def pytest_sessionfinish(self) -> None:
        """Write what the run read."""
        if self.reads:
            loaded = {
                str(module.__file__) for module in list(sys.modules.values()) if getattr(module, "__file__", None)
            }
            paths = paths_read({*self.opened, *loaded}, self.starts_processes, sorted(self.stated))
            Path(self.reads).write_text(json.dumps({"reads": paths, "words": self.words}), encoding="utf-8")


def _cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def add_options(parser: pytest.Parser) -> None:
    """Add the options of `CostlyTests` to pytest."""
    group = parser.getgroup("costly tests")
    group.addoption("--costly", action="store_true", help="run costly tests that are not due, too")
    group.addoption("--reads", help="write the paths that the run reads to this file, as JSON")
    group.addoption("--cpu", help="append the CPU seconds of each test to this file, as JSON lines")


# --------------------------------------------------------------------------- the command


def _costly_files() -> Iterator[str]:
    """The files that have a costly test, in their order."""
    listing = _pytest("--collect-only", "-q", "--costly", "-m", "costly", "tests", "studies/tests")
    yield from dict.fromkeys(line.partition("::")[0] for line in listing.stdout.splitlines() if "::" in line)


def _pytest(*words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def _run(name: str, *options: str) -> tuple[FileRecord | None, str]:
    """Run the costly tests of a file alone; what it reads if all passed, and what pytest printed."""
    with tempfile.TemporaryDirectory() as folder:
        reads = Path(folder, "reads.json")
        which = ["--costly", "-m", "costly and not slow and not thorough"]
        done = _pytest("-q", *which, "--reads", str(reads), *options, name)
        if done.returncode:
            return None, done.stdout + done.stderr
        if not re.search(r"\d passed", done.stdout.splitlines()[-1]) or " skipped" in done.stdout.splitlines()[-1]:
            return None, done.stdout
        written = json.loads(reads.read_text(encoding="utf-8"))
    paths = written["reads"]
    entry = FileRecord(reads=paths, checksum=checksum(name, paths))
    if not written["words"]:
        entry["code"] = checksum(name, paths, words=False)
    return entry, done.stdout


def main(words: list[str] | None = None) -> int:
    """Run costly tests, each file in a process of its own, and write the record; 1 if one failed."""
    parser = argparse.ArgumentParser(description="Run the costly tests that are due, and write tests/costly.json anew.")
    parser.add_argument("files", nargs="*", help="files of tests; all that have a costly test where none is named")
    parser.add_argument("--all", action="store_true", help="run those that are not due, too")
    parser.add_argument("--workers", type=int, default=2, help="files at a time (default: 2)")
    parser.add_argument("--cpu", help="append the CPU seconds of each test to this file, as JSON lines")
    parser.add_argument("--due", metavar="FILE", help="run nothing; exit code 0 if this file is due, 1 if not")
    given = parser.parse_args(words)
    record = load_record()
    if given.due:
        return int(not is_due(given.due, record))
    files = list(_costly_files())
    record = {name: entry for name, entry in record.items() if name in files}
    chosen = [name for name in given.files or files if given.all or is_due(name, record)]
    failures = 0
    options = ["--cpu", os.path.abspath(given.cpu)] if given.cpu else []
    with ThreadPoolExecutor(given.workers) as pool:
        started = time.monotonic()
        for name, (entry, printed) in zip(chosen, pool.map(lambda name: _run(name, *options), chosen), strict=True):
            *details, last = printed.rstrip().splitlines()
            if entry:
                record[name] = entry
            elif " skipped" not in last or re.search(r"\bfailed\b", last):
                record.pop(name, None)
                failures += 1
                print(*details, sep="\n")
            print(f"{time.monotonic() - started:5.0f} s  {name}: {last}", flush=True)
    # A line for each file, so that two changes meet only where they ran the same tests.
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(record.items()))
    RECORD.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
