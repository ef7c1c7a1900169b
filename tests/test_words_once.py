"""Sets of words, such as the methods or what is done with missing values, and defaults: each is written once.

A set is an alias of `Literal`, or the relations and the mechanisms of the registry; all else refers to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import pytest

import discreet as dc
from discreet.mechanisms import MECHANISMS
from discreet.privacy.guarantee import RelationName
from discreet.util.option_texts import Assume

ROOT = Path(dc.__file__).parent
SOURCES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
SUBSETS = {"Target", "Gives", "QueryKind", "ChoiceLikelihood"}
"""Sets of which a program picks some, such as targets that a sum tells of, or whose words are keys of intervals."""


def is_words(node: ast.AST) -> bool:
    """Whether an expression is `Literal[...]`."""
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"


def words_of(node: ast.AST) -> frozenset[str]:
    """Texts of a tuple, a list, a set or a `Literal`, or those that `|` joins in one text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return frozenset(node.value.split("|")) if "|" in node.value else frozenset()
    if isinstance(node, ast.Subscript):
        node = node.slice
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return frozenset(part.value for part in node.elts if isinstance(part, ast.Constant) and type(part.value) is str)
    return frozenset()


def definitions(sources: Mapping[str, str]) -> dict[str, tuple[str, frozenset[str]]]:
    """By name, where each alias of a module is, and its words."""
    found = {}
    for file, text in sources.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and is_words(node.value):
                found[ast.unparse(node.targets[0])] = file, words_of(node.value)
    return found


def written_again(sources: Mapping[str, str], known: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Places, but for the aliases, that have two words or more of a set, and no others."""
    for file, text in sources.items():
        tree = ast.parse(text)
        texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        at_home = {id(node.value) for node in tree.body if isinstance(node, ast.Assign) and is_words(node.value)}
        inside = {id(node.slice) for node in ast.walk(tree) if is_words(node) and isinstance(node, ast.Subscript)}
        for node in ast.walk(tree):
            if id(node) in texts | at_home | inside:
                continue
            words = words_of(node)
            for name, those in known.items():
                if len(words & those) > 1 and words <= those:
                    yield f"{file}:{getattr(node, 'lineno', 0)}: {sorted(words)} of {name}"


def known_sets() -> dict[str, frozenset[str]]:
    """All sets by name."""
    words = {name: words for name, (_, words) in definitions(SOURCES).items() if name not in SUBSETS}
    return words | {"Assume": frozenset(get_args(Assume)), "MECHANISMS": frozenset(MECHANISMS)}


def levels_written(sources: Mapping[str, str]) -> list[str]:
    """Functions and fields whose default is the number .95."""
    return [
        f"{file}:{node.lineno}"
        for file, text in sources.items()
        for function in ast.walk(ast.parse(text))
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
    assert list(written_again(SOURCES, known_sets())) == []


def test_no_alias_has_the_words_of_another() -> None:
    found = definitions(SOURCES)
    assert [
        (name, other)
        for name, (_, words) in found.items()
        for other, (_, those) in found.items()
        if name != other and len(words) > 1 and words <= those
    ] == []


def test_the_default_level_is_written_once() -> None:
    assert levels_written(SOURCES) == []


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
    assert len(list(written_again({"a.py": text}, known_sets()))) == 1


def test_a_second_level_would_be_seen() -> None:
    assert levels_written({"a.py": "def f(*, level: float = 0.95): ...\n\n\nclass A:\n    level: float = 0.95\n"}) != []
