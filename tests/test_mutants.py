"""Every planted bug of tests/mutants still is one that can be planted; `make mutants` plants them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from planting import ROOT, Mutant, mutants, places, planted, read, taken

FEWEST = 150
"""How many there are at least."""

PATCH = """\
The sum is off by one.
Guards: answers
Killed by: tests/test_x.py::test_y

in f:
-return a + b
+return a + b + 1
"""


@pytest.mark.costly("A bug whose lines are gone, or stand twice, shows when each is planted.")
def test_each_can_be_planted() -> None:
    failed = []
    for path in mutants():
        try:
            files = planted(read(path))
            for file, text in files.items():
                if file.suffix == ".py":
                    one, other = map(ast.parse, changed(file, text))
                    assert ast.dump(one) != ast.dump(other), "a comment is no bug"
        except (ValueError, SyntaxError, AssertionError, OSError) as error:
            failed.append(f"{path.name}: {error}")
    assert not failed, "\n".join(failed)


def changed(file: Path, text: str) -> tuple[str, str]:
    """The statements of a file between the first and the last line that a bug changes, without it and with it."""
    lines, begins = as_it_is(file)
    new = text.split("\n")
    same = [one == other for one, other in zip(lines, new, strict=False)]
    first = same.index(False) if False in same else len(same)
    same = [one == other for one, other in zip(lines[::-1], new[::-1], strict=False)]
    after = max(len(lines) - (same.index(False) if False in same else len(same)), first)
    start = max((at for at in begins if at <= first), default=0)
    stop = min((at for at in begins if at >= after), default=len(lines))
    return "\n".join(lines[start:stop]), "\n".join(new[start : len(new) - (len(lines) - stop)])


@cache
def as_it_is(file: Path) -> tuple[list[str], list[int]]:
    """The lines of a file, and where its statements begin, counted from 0."""
    text = file.read_text()
    body = ast.parse(text).body
    begins = [min([one.lineno, *(each.lineno for each in getattr(one, "decorator_list", []))]) - 1 for one in body]
    return text.split("\n"), begins


def test_there_are_as_many_as_are_wanted() -> None:
    found = [read(path) for path in mutants()]
    assert len({mutant.changes for mutant in found}) == len(found) >= FEWEST
    assert sum(mutant.guards == "privacy" for mutant in found) >= FEWEST // 2


def test_what_breaks_privacy_is_found_by_the_tests_of_every_change() -> None:
    elsewhere = ("tests/answers/", "tests/pages/", "studies/tests/")
    found = [read(path) for path in mutants()]
    assert not [
        f"{mutant.name}: {mutant.tests}"
        for mutant in found
        if mutant.guards == "privacy" and any(test.startswith(elsewhere) for test in mutant.tests)
    ]


def test_the_tests_that_find_them_are_there() -> None:
    defined: dict[str, set[str]] = {}
    missing = []
    for mutant in map(read, mutants()):
        for test in mutant.tests:
            file, *names = test.split("::")
            if file not in defined:
                text = (ROOT / file).read_text() if (ROOT / file).exists() else ""
                defined[file] = set(re.findall(r"^\s*(?:def|class) (\w+)", text, re.MULTILINE))
            if not defined[file] or not {name.split("[")[0] for name in names} <= defined[file]:
                missing.append(f"{mutant.name}: {test}")
    assert not missing, "\n".join(missing)


def one(text: str, place: Path) -> Mutant:
    patch = place / "x.patch"
    patch.write_text(text)
    return read(patch)


def source(text: str, root: Path, name: str = "one.py") -> Path:
    path = root / "src" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_bug_is_planted_where_its_lines_are_now(tmp_path: Path) -> None:
    path = source("import math\n\n\ndef f(a, b):\n    return a + b\n", tmp_path)
    mutant = one(PATCH, tmp_path)
    assert planted(mutant, tmp_path) == {path: "import math\n\n\ndef f(a, b):\n    return a + b + 1\n"}
    assert (mutant.what, mutant.guards, mutant.tests) == (
        "The sum is off by one.",
        "answers",
        ("tests/test_x.py::test_y",),
    )


def test_a_bug_goes_with_code_that_moves(tmp_path: Path) -> None:
    source("def g(a, b):\n    return a + b\n", tmp_path)
    path = source("def f(a, b):\n    if a:\n        return a + b\n    return b\n", tmp_path, "two.py")
    changed = "def f(a, b):\n    if a:\n        return a + b + 1\n    return b\n"
    assert planted(one(PATCH, tmp_path), tmp_path) == {path: changed}


@pytest.mark.parametrize("text", ["def f(a, b):\n    return a - b\n", "def f(a, b):\n    return a + b\n" * 2])
def test_a_bug_without_its_place_is_refused(text: str, tmp_path: Path) -> None:
    source(text, tmp_path)
    with pytest.raises(ValueError, match="expected once"):
        planted(one(PATCH, tmp_path), tmp_path)


DIFF = """\
--- a/src/one.py
+++ b/src/one.py
@@ -6,3 +6,3 @@ def f():
     a = 1
-    return a
+    return 2 * a
"""


def test_a_bug_is_taken_with_its_innermost_name(tmp_path: Path) -> None:
    source("class C:\n    def f(self):\n        return a\n\n\ndef f():\n    a = 1\n    return a\n", tmp_path)
    (change,) = taken(DIFF, tmp_path)
    assert change.written() == "in f:\n-return a\n+return 2 * a\n"
    source("class C:\n    def f(self):\n        return a\n\n\ndef f():\n    a = 1\n    return a\n", tmp_path, "two.py")
    places.cache_clear()
    (change,) = taken(DIFF, tmp_path)
    assert change.written() == "in one.py:\n a = 1\n-return a\n+return 2 * a\n"


@pytest.mark.parametrize("old", ["Guards: answers\n", "Killed by: tests/test_x.py::test_y\n", "in f:\n", "answers"])
def test_a_patch_that_does_not_say_what_it_is_is_refused(old: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a sentence"):
        one(PATCH.replace(old, ""), tmp_path)
