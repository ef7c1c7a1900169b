"""Every planted bug of tests/mutants still is one that can be planted; `make mutants` plants them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from planting import ROOT, Mutant, mutants, planted, read

FEWEST = 150
"""How many there are at least."""

PATCH = """\
The sum is off by one.
Guards: answers
Killed by: tests/test_x.py::test_y

diff --git a/one.py b/one.py
index 1..2 100644
--- a/one.py
+++ b/one.py
@@ -1,2 +1,2 @@
 def f(a, b):
-    return a + b
+    return a + b + 1
"""


def test_each_can_be_planted() -> None:
    failed = []
    for path in mutants():
        try:
            files = planted(read(path))
            for file, text in files.items():
                if file.suffix == ".py":
                    assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(file.read_text())), "a comment is no bug"
        except (ValueError, SyntaxError, AssertionError, OSError) as error:
            failed.append(f"{path.name}: {error}")
    assert not failed, "\n".join(failed)


def test_there_are_as_many_as_are_wanted() -> None:
    found = [read(path) for path in mutants()]
    assert len({str(sorted(mutant.hunks.items())) for mutant in found}) == len(found) >= FEWEST
    assert sum(mutant.guards == "privacy" for mutant in found) >= FEWEST // 2


def test_what_breaks_privacy_is_found_by_the_tests_of_every_change() -> None:
    elsewhere = ("tests/answers/", "tests/pages/")
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
                defined[file] = {node.name for node in ast.walk(ast.parse(text)) if hasattr(node, "name")}
            if not defined[file] or not {name.split("[")[0] for name in names} <= defined[file]:
                missing.append(f"{mutant.name}: {test}")
    assert not missing, "\n".join(missing)


def one(text: str, place: Path) -> Mutant:
    patch = place / "x.patch"
    patch.write_text(text)
    return read(patch)


def test_a_patch_is_planted_where_its_lines_are_now(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text("import math\n\n\ndef f(a, b):\n    return a + b\n")
    mutant = one(PATCH, tmp_path)
    assert planted(mutant, tmp_path) == {source: "import math\n\n\ndef f(a, b):\n    return a + b + 1\n"}
    assert (mutant.what, mutant.guards, mutant.tests) == (
        "The sum is off by one.",
        "answers",
        ("tests/test_x.py::test_y",),
    )


@pytest.mark.parametrize("text", ["def f(a, b):\n    return a - b\n", "def f(a, b):\n    return a + b\n" * 2])
def test_a_patch_without_its_place_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(text)
    with pytest.raises(ValueError, match="expected once"):
        planted(one(PATCH, tmp_path), tmp_path)


@pytest.mark.parametrize(
    "old", ["Guards: answers\n", "Killed by: tests/test_x.py::test_y\n", "--- a/one.py\n", "answers"]
)
def test_a_patch_that_does_not_say_what_it_is_is_refused(old: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a sentence"):
        one(PATCH.replace(old, ""), tmp_path)
