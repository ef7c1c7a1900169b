"""Sets of words, such as the methods or what is done with missing values, and defaults: each is written once.

A set is an alias of `Literal`, or the relations and the mechanisms of the registry; all else refers to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import discreet as dc
from discreet.mechanisms import MECHANISMS
from discreet.privacy.guarantee import RelationName
from discreet.util.option_texts import Assume
from syntax_trees import tree_of

ROOT = Path(dc.__file__).parent

SUBSETS = {"Target", "Gives", "QueryKind", "ChoiceLikelihood"}
"""Sets of which a program picks some, such as targets that a sum tells of, or whose words are keys of intervals."""


@cache
def trees() -> dict[str, ast.Module]:
    """Syntax trees of the package by file."""
    return {str(path.relative_to(ROOT)): tree_of(path) for path in sorted(ROOT.rglob("*.py"))}


def is_words(node: ast.AST) -> bool:
    """Whether an expression is `Literal[...]`."""
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"


def words_of(node: ast.AST) -> frozenset[str]:
    """Texts of a tuple, a list, a set or a `Literal`, or those that `|` joins in one text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return frozenset(node.value.split("|")) if "|" in node.value else frozenset()
    if isinstance(node, ast.Subscript):
        node = node.slice
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return frozenset(part.value for part in node.elts if isinstance(part, ast.Constant) and type(part.value) is str)
    return frozenset()


def definitions(sources: Mapping[str, ast.Module]) -> dict[str, tuple[str, frozenset[str]]]:
    """By name, where each alias of a module is, and its words."""
    found = {}
    for file, tree in sources.items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and is_words(node.value):
                found[ast.unparse(node.targets[0])] = file, words_of(node.value)
    return found


def written_again(sources: Mapping[str, ast.Module], known: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Places, but for the aliases, that have two words or more of a set, and no others."""
    for file, tree in sources.items():
        nodes = list(ast.walk(tree))
        texts = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        at_home = {id(node.value) for node in tree.body if isinstance(node, ast.Assign) and is_words(node.value)}
        inside = {id(node.slice) for node in nodes if is_words(node) and isinstance(node, ast.Subscript)}
        apart = texts | at_home | inside
        for node in nodes:
            if id(node) in apart:
                continue
            words = words_of(node)
            for name, those in known.items():
                if len(words & those) > 1 and words <= those:
                    yield f"{file}:{getattr(node, 'lineno', 0)}: {sorted(words)} of {name}"


@cache
def known_sets() -> dict[str, frozenset[str]]:
    """All sets by name."""
    words = {name: words for name, (_, words) in definitions(trees()).items() if name not in SUBSETS}
    return words | {"Assume": frozenset(get_args(Assume)), "MECHANISMS": frozenset(MECHANISMS)}


def levels_written(sources: Mapping[str, ast.Module]) -> list[str]:
    """Functions and fields whose default is the number .95."""
    return [
        f"{file}:{node.lineno}"
        for file, tree in sources.items()
        for function in ast.walk(tree)
        for node in (
            [*function.args.defaults, *function.args.kw_defaults]
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            else [function.value]
            if isinstance(function, ast.AnnAssign)
            else []
        )
        if isinstance(node, ast.Constant) and node.value == 0.95
    ]


def test_no_set_of_words_is_written_twice() -> None:
    assert list(written_again(trees(), known_sets())) == []


def test_no_alias_has_the_words_of_another() -> None:
    found = definitions(trees())
    assert [
        (name, other)
        for name, (_, words) in found.items()
        for other, (_, those) in found.items()
        if name != other and len(words) > 1 and words <= those
    ] == []


def test_the_default_level_is_written_once() -> None:
    assert levels_written(trees()) == []


def test_names_of_relations_are_those_of_the_relations() -> None:
    assert get_args(RelationName) == tuple(dc.Relation)


@pytest.mark.parametrize(
    "text",
    [
        'def f(missing):\n    return missing in ("error", "drop")\n',
        'def f(form: Literal["html", "markdown"]): ...\n',
        'METAVAR = "add-remove|replace"\n',
        'NAMES = ["planned", "laplace"]\n',
    ],
)
def test_a_second_list_would_be_seen(text: str) -> None:
    assert len(list(written_again({"a.py": ast.parse(text)}, known_sets()))) == 1


def test_a_second_level_would_be_seen() -> None:
    assert (
        levels_written(
            {"a.py": ast.parse("def f(*, level: float = 0.95): ...\n\n\nclass A:\n    level: float = 0.95\n")}
        )
        != []
    )
