"""Sizes within which the package stays readable; each test names all that is beyond them.

How many ways lead through a function is held by ruff (`C901` in pyproject.toml).
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import discreet
import test_api
import test_switches
from makefile import ROOT as PROJECT

ROOT = Path(discreet.__file__).parent
SOURCES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.rglob("*.py"))}
KERNEL, FRAGMENTS, FUNCTION, ARGUMENTS = 27_340, 30, 50, 7
PACKS = {
    "interchange": 1_340,
    "discovery": 1_560,
    "deciding": 720,
    "predicting": 350,
    "reporting": 1_040,
    "questions": 1_310,
    "latent": 870,
    "accuracy": 490,
    "designs": 3_510,
    "research": 5_540,
    "evidence": 1_420,
    "server": 3_820,
    "estimators": 2_610,
}
"""Lines of code, without docstrings, comments and empty lines: who explains less must not gain by it. Files that one
other file alone imports; lines of code of a function, and its arguments. A file has no most lines: that makes
fragments. The last decision on limits states all of them."""
LISTS = ("cli/cli.py", "fluent.py", "interchange/network_formats.py")
"""Files that list commands, methods and notations, and do nothing else with them."""
MANY = {
    "deciding/decide.py: decide",
    "deciding/decide_number.py: decide_number",
    "estimators/grid_search.py: release_score",
    "records/records.py: read_records",
}
"""Those of more arguments that are known, most of them options by keyword; none joins them. Commands and constructors
of estimators are not counted: options are what they are for, and neither are kernels, whose arrays are arguments
because numba counts references to what holds them."""


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions and methods, by file and name."""
    for file, text in SOURCES.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{file}: {node.name}", node


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = (node.end_lineno or 0) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return lines
    return lines - ((first.end_lineno or 0) - first.lineno + 1)


def lines_of_code(text: str) -> int:
    """Lines without docstrings and other texts that stand alone, comments and empty lines."""
    lines = text.splitlines()
    told = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in told
        for number, line in enumerate(lines, 1)
    )


def counted(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function's arguments are counted."""
    compiled = any(ast.unparse(part) == "compiled" for part in node.decorator_list)
    return not (
        compiled
        or name.startswith(("cli/", "server/serving.py", "discovery/commands.py", "latent/latent_commands.py"))
        or (name.startswith("estimators/") and node.name == "__init__")
    )


def arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many a caller can give."""
    names = [part.arg for part in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def importers() -> dict[str, set[str]]:
    """Files that import each file; of what is in a list, the list is not counted."""
    found: dict[str, set[str]] = {file.removesuffix(".py"): set() for file in SOURCES}
    texts = SOURCES | {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.rglob("*.pyi")}
    for file, text in texts.items():
        inside = f"{file.rpartition('/')[0]}/".lstrip("/") if file.endswith(".pyi") else ""
        for name in re.findall(r"discreet\.([\w.]+)|^from \.([\w.]+) import", text, re.MULTILINE):
            path = (name[0] or f"{inside}{name[1]}").replace(".", "/")
            known = path if path in found else path.rpartition("/")[0]
            if known in found and known != file.rpartition(".")[0]:
                found[known].add("a list" if file.endswith(".pyi") or file in LISTS else file)
    return found


def test_the_kernel_is_small_and_so_is_each_pack() -> None:
    rooms = dict.fromkeys(("kernel", *PACKS), 0)
    for file, text in SOURCES.items():
        room = file.partition("/")[0]
        rooms[room if room in PACKS else "kernel"] += lines_of_code(text)
    assert all(rooms[room] <= most for room, most in {"kernel": KERNEL, **PACKS}.items()), rooms


def test_few_files_are_there_for_one_other() -> None:
    alone = sorted(file for file, others in importers().items() if len(others) == 1 and "a list" not in others)
    assert len(alone) <= FRAGMENTS, alone


def test_limits_are_those_of_the_last_decision_on_them() -> None:
    texts = [path.read_text() for path in sorted((PROJECT / "docs/decisions").glob("*.md"))]
    (*_, last) = (text for text in texts if "| lines of code of the kernel |" in text)
    stated = dict(re.findall(r"^\| ([a-z][^|]*?) \| ([\d,]+) \|$", last, re.MULTILINE))
    ways = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]["mccabe"]["max-complexity"]
    assert {name: int(number.replace(",", "")) for name, number in stated.items()} == {
        "lines of code of the kernel": KERNEL,
        **{f"lines of code of the pack `{pack}`": most for pack, most in PACKS.items()},
        "ways through a function (ruff, `C901`)": ways,
        "lines of code of a function": FUNCTION,
        "arguments of a function": ARGUMENTS,
        "files that one other file alone imports": FRAGMENTS,
        "switches on kinds outside their rooms": test_switches.MOST_SWITCHES,
        "public names at the top": test_api.MOST_NAMES,
        "public names of the kernel": test_api.MOST_KERNEL_NAMES,
    }


def test_functions_are_short() -> None:
    found = {name: code_lines(node) for name, node in functions() if code_lines(node) > FUNCTION}
    assert found == {}


def test_functions_have_few_arguments() -> None:
    found = {name: arguments(node) for name, node in functions() if counted(name, node) and arguments(node) > ARGUMENTS}
    assert found.keys() == MANY, found


@pytest.mark.parametrize(
    "text", ['def f():\n    """One."""\n' + "    pass\n" * FUNCTION, "def f(a, b, c, d, e, g, h, i): ..."]
)
def test_what_is_beyond_them_would_be_seen(text: str) -> None:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    assert code_lines(node) > FUNCTION or arguments(node) > ARGUMENTS


def test_lines_of_code_are_what_is_left_without_words() -> None:
    assert lines_of_code('"""Said,\n\nin lines."""\n\n# why\nONE = 1  # so\n"""What."""\nTEXT = """a\nb"""\n') == 3
