"""A name stands for one thing and says what it holds: what a reader finds by searching for it is what it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import discreet
from syntax_trees import tree_of

ROOT = Path(discreet.__file__).parent
EMPTY_WORDS = frozenset(
    "found told asked said given kept own one other made what who way thing".split()  # noqa: SIM905 - a list to read
)
"""Names that say what happened to a value, or nothing at all, and never what it is."""
STRICT_WORDS = EMPTY_WORDS | {"part", "parts", "place", "places", "drawn", "known", "whole", "others"}
"""More of them, which the kernel uses as terms of its own: parts of families, places in cliques."""
STRICT_ROOMS = {"estimators", "noise", "privacy", "research"}
HEADS = ("Of ", "In which ", "That ", "What ", "Whether ")
"""Beginnings of a docstring that lack a subject and a verb."""


def classes() -> dict[str, list[str]]:
    """Files in which classes of each name stand; a leading underscore makes no other name."""
    found = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(str(path.relative_to(ROOT)))
    return found


def test_a_class_name_stands_for_one_thing() -> None:
    assert {name: files for name, files in classes().items() if len(files) > 1} == {}


def source_files() -> Iterator[tuple[str, str, ast.Module]]:
    """Files of the package: name, room (its folder, or ``) and tree."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT)
        room = name.parts[0] if len(name.parts) > 1 else ""
        yield str(name), room, tree_of(path)


def assigned(node: ast.AST, *, private: bool = False) -> Iterator[tuple[int, str]]:
    """Lines and names of variables: assigned, targets of loops, and parameters of private functions.

    Fields of classes, and arguments of public functions, are part of an interface and are not listed.
    """
    for inner in ast.iter_child_nodes(node):
        hidden = private and not isinstance(inner, ast.ClassDef)
        match inner:
            case ast.Assign(value=value) | ast.AnnAssign(value=value) if isinstance(node, ast.ClassDef):
                inner = ast.Expression(value) if value is not None else ast.Pass()
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if private or (inner.name.startswith("_") and not inner.name.startswith("__")):
                    yield from parameters(inner.args)
                hidden = True  # a function inside of another is private
            case ast.Lambda():
                yield from parameters(inner.args)
            case ast.Name(id=name, ctx=ast.Store()):
                yield inner.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield inner.lineno, name
        yield from assigned(inner, private=hidden)


def parameters(arguments: ast.arguments) -> Iterator[tuple[int, str]]:
    """Lines and names of parameters."""
    starred = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred):
        yield each.lineno, each.arg


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines and texts of docstrings: of modules, classes, functions and constants."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or [] if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, text


def faults(name: str, room: str, tree: ast.Module) -> list[str]:
    """Empty names and heads without a subject of a file, each in a line that says what to do."""
    words = STRICT_WORDS if room in STRICT_ROOMS else EMPTY_WORDS
    named = [
        f"{name}:{line}: the name `{word}` says nothing; name the variable after what it holds (`table`, `variance`)"
        for line, word in assigned(tree)
        if word.strip("_") in words
    ]
    headed = [
        f"{name}:{line}: a docstring begins with `{text.split()[0]}`; begin with a verb (`Compute ...`), with a noun "
        "and its unit, or with `True if ...`"
        for line, text in docstrings(tree)
        if text.startswith(HEADS)
    ]
    return named + headed


def test_names_say_what_they_hold_and_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = [fault for file in source_files() for fault in faults(*file)]
    assert not found, "\n".join(found)


def test_rooms_that_are_excepted_exist() -> None:
    assert {path.name for path in ROOT.iterdir() if path.is_dir()} >= STRICT_ROOMS


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ("def count(x):\n    found = x\n    return found\n", 2, "`found`"),
        ("for one in range(3):\n    pass\n", 1, "`one`"),
        ("TOTAL = sum(other for other in ())\n", 1, "`other`"),
        ("def _count(told):\n    return told\n", 1, "`told`"),
        ("def count(x):\n    def inner(kept):\n        return kept\n    return inner\n", 2, "`kept`"),
        ("class A:\n    def _f(self, made):\n        return made\n", 2, "`made`"),
        ("with open('f') as thing:\n    pass\n", 1, "`thing`"),
        ("if (_found := 1):\n    pass\n", 1, "`_found`"),
        ("def f():\n    '''Whether it is.'''\n", 2, "`Whether`"),
        ("'''What it is.'''\n", 1, "`What`"),
        ("X = 1\n'''Of a set.'''\n", 2, "`Of`"),
    ],
)
def test_each_fault_is_named_with_file_line_and_word(source: str, line: int, word: str) -> None:
    (fault,) = faults("room/file.py", "verify", ast.parse(source))
    assert (
        fault.startswith(f"room/file.py:{line}: ") and word in fault and ("name the" in fault or "begin with" in fault)
    )


@pytest.mark.parametrize(
    "source",
    [
        "def count(given, *, who):\n    return given\n",
        "class Entry:\n    who: str\n    given: int = 0\n",
        "def f(self):\n    self.place = 1\n",
        "def f():\n    '''True if it is. Whether not.'''\n",
    ],
)
def test_interfaces_are_no_fault(source: str) -> None:
    assert faults("room/file.py", "verify", ast.parse(source)) == []
