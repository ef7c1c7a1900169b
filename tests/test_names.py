"""A name stands for one thing: what a reader finds by searching for it is what it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import discreet

ROOT = Path(discreet.__file__).parent


def classes() -> dict[str, list[str]]:
    """Files in which classes of each name stand; a leading underscore makes no other name."""
    found = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(str(path.relative_to(ROOT)))
    return found


def test_a_class_name_stands_for_one_thing() -> None:
    assert {name: files for name, files in classes().items() if len(files) > 1} == {}
