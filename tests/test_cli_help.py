"""What `--help` prints: whole words in 80 columns, defaults, choices that are the library's, and examples that run.

That examples run is tested by the page that is made of them (`tests/pages/test_commands_of_pages.py`).
"""

from __future__ import annotations

import ast
import inspect
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

import discreet
from command_page import PAGE, context_of, every_command, write_page
from discreet.cli import flags
from discreet.cli.cli import main
from discreet.cli.help_pages import list_options, split_help
from discreet.cli.posteriors import GAPS
from discreet.posterior.methods import Method
from discreet.releases.policy import PolicyPart
from discreet.server import parameters
from discreet.util import option_texts
from folding import every

ROOT = Path(discreet.__file__).parent
COMMANDS = {" ".join(path): command for path, command in every_command()}
GROUPS = ("", "ledger")


def flat(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def printed(words: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """What a terminal of 80 columns shows."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*words.split(), "--help"]) == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns_and_cuts_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = printed(name, monkeypatch, capfd)
    assert max(map(len, text.splitlines())) <= 80
    command = COMMANDS[name]
    sentences, example = split_help(command.help)
    assert flat(sentences) in flat(text)
    assert example and flat(example) in flat(text)
    for heading, rows in list_options(command, context_of(tuple(name.split()), command)).items():
        assert f"\n{heading}:\n" in text
        for option, meaning in rows:
            assert flat(f"{option} {meaning}") in flat(text)


@pytest.mark.parametrize("name", GROUPS)
def test_lists_of_commands_fit_80_columns_and_cut_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = printed(name, monkeypatch, capfd)
    assert max(map(len, text.splitlines())) <= 80
    within = [path for path in COMMANDS if path.rpartition(" ")[0] == name]
    assert len(within) >= 6
    for path in within:
        first = flat(split_help(COMMANDS[path].help)[0].partition("\n\n")[0])
        assert first.endswith(".")
        assert flat(f"{path.split()[-1]} {first}") in flat(text)


@every("name", COMMANDS)
def test_examples_are_read_by_the_command(name: str) -> None:
    command = COMMANDS[name]
    lines = split_help(command.help)[1].replace("\\\n", " ").splitlines()
    read = 0
    for line in lines:
        program, *words = shlex.split(line)
        if program != "discreet":
            assert program == "printf"
            continue
        path = next(path for path in COMMANDS if words[: len(path.split())] == path.split())
        context = COMMANDS[path].make_context(path, words[len(path.split()) :])
        assert context.params
        read += path == name
    assert read


@every("name", COMMANDS)
def test_defaults_are_shown(name: str) -> None:
    command = COMMANDS[name]
    context = context_of(tuple(name.split()), command)
    for parameter in command.params:
        if parameter.default not in (None, False, ""):
            assert "default: " in parameter.get_help_record(context)[1], parameter.name


def test_the_page_of_commands_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_page(), "python tests/command_page.py writes it anew"


def test_no_text_of_an_option_is_written_twice() -> None:
    found = Counter[str]()
    for path in [*ROOT.glob("cli/*.py"), ROOT / "server" / "parameters.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg in ("help", "description"):
                found[ast.unparse(node.value)] += 1
    assert len(found) > 80
    assert [text for text, times in found.items() if times > 1 and not text.startswith("option_texts.")] == []


def metavar(command: str, option: str) -> list[str]:
    """The choices that a command's help has for an option."""
    (found,) = (parameter for parameter in COMMANDS[command].params if option in parameter.opts)
    named = found.get_help_record(context_of(tuple(command.split()), COMMANDS[command]))[0]
    return str(named.split(" ")[-1].strip("<>")).split("|")


@pytest.mark.parametrize(
    ("command", "option", "choices"),
    [
        ("query", "--assume", get_args(option_texts.Assume)),
        ("query", "--inside", get_args(option_texts.Inside)),
        ("query", "--kind", get_args(option_texts.RegressionKind)),
        ("query", "--missing", tuple(GAPS)),
        ("plan", "--relation", tuple(discreet.Relation)),
    ],
)
def test_choices_of_help_are_those_of_the_library(command: str, option: str, choices: tuple[str, ...]) -> None:
    assert sorted(metavar(command, option)) == sorted(choices)


@pytest.mark.parametrize("field", ["missing", "out_of_bounds", "weights"])
def test_choices_of_records_are_those_of_their_policy(field: str) -> None:
    choices = get_args(PolicyPart.model_fields[field].annotation)
    assert sorted(metavar("check", f"--{field.replace('_', '-')}")) == sorted(choices)


def test_methods_are_those_of_noise_aware() -> None:
    assert {*flags.METHODS[1:-1]} == {*get_args(Method)} - {"auto"}


def levels() -> dict[str, Any]:
    """Defaults of parameters called `level`, by file and function."""
    found = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                given = node.args
                last = [*given.posonlyargs, *given.args][-len(given.defaults) or None :] if given.defaults else []
                pairs = [
                    *zip(last, given.defaults, strict=True),
                    *zip(given.kwonlyargs, given.kw_defaults, strict=True),
                ]
                found |= {
                    f"{path.name}: {node.name}": ast.unparse(default)
                    for argument, default in pairs
                    if argument.arg == "level" and default is not None and ast.unparse(argument.annotation) != "str"
                }
    return found


def test_every_level_has_one_default() -> None:
    found = levels()
    assert len(found) > 40
    told = {"DEFAULT_LEVEL", "option_texts.DEFAULT_LEVEL"}
    assert {place: default for place, default in found.items() if default not in told} == {}
    assert parameters.QueryRequest().level == option_texts.DEFAULT_LEVEL
    assert inspect.signature(discreet.decide).parameters["failure"].default == option_texts.DEFAULT_FAILURE
    assert inspect.signature(discreet.explain).parameters["rows"].default == option_texts.DEFAULT_ROWS
