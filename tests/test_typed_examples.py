"""Examples of README, guides and pages pass mypy by its strictest rules and pyright, as for whoever copies them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import discreet as dc

ROOT = Path(__file__).parents[1]
EVERY_NUMBER = '''
import discreet as dc


def numbers(found: dc.results.Answers) -> float:
    """What users do with rows."""
    row: dc.results.AnswerRow = found[0].rows[0]
    noise = row.get("noise")
    part = 0.0 if noise is None else round(noise, 3)
    rare = 0.0 if found[0].evidence is None else found[0].evidence.upper
    return part + rare + row["upper"] - row["lower"] + len(row["state"]["lung"])
'''
WRONG = 'import discreet as dc\n\n\ndef odd(row: dc.results.AnswerRow) -> float:\n    return row["meen"]\n'


def example(page: Path) -> str:
    """The lines of a page's Python that are typed after a prompt."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... "))) + "\n"


PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/guides/*.md")), *sorted(ROOT.glob("docs/*.md"))]
PROGRAMS = {f"of_{path.stem.replace('-', '_')}": text for path in PAGES if (text := example(path)).strip()}
PROGRAMS |= {"every_number": EVERY_NUMBER, "wrong": WRONG}
"""What is checked, all in one run: the lines of each page, and what users do with rows. No name is one of a module."""
# As mypy here, pyright reads no library that has no types of its own, such as scikit-learn.
CONFIG = {"typeCheckingMode": "standard", "useLibraryCodeForTypes": False, "reportMissingTypeStubs": False}

Errors = dict[str, list[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("typed")
    for name, text in PROGRAMS.items():
        (made / f"{name}.py").write_text(text, encoding="utf-8")
    (made / "pyrightconfig.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def by_mypy(folder: Path) -> Errors:
    """What mypy says of each program, by the project's own strict rules."""
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-error-summary", "-O", "json"]
    files = [folder / f"{name}.py" for name in PROGRAMS]
    found = subprocess.run([*command, *files], capture_output=True, text=True, cwd=ROOT, check=False)
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert "wrong" in {Path(line["file"]).stem for line in lines}, found.stderr
    return {
        name: [f"{line['line']}: {line['message']}" for line in lines if Path(line["file"]).stem == name]
        for name in PROGRAMS
    }


@pytest.fixture(scope="module")
def by_pyright(folder: Path) -> Errors:
    """What pyright calls errors in each program, by its standard rules."""
    command = [Path(sys.executable).with_name("basedpyright"), "--outputjson", "--pythonpath", sys.executable]
    printed = subprocess.run([*command, "-p", folder], capture_output=True, text=True, check=False).stdout
    report = json.loads(printed)
    assert report["summary"]["filesAnalyzed"] == len(PROGRAMS)
    lines = [line for line in report["generalDiagnostics"] if line["severity"] == "error"]
    return {
        name: [f"{line['range']['start']['line'] + 1}: {line['message']}" for line in lines
               if Path(line["file"]).stem == name]
        for name in PROGRAMS
    }  # fmt: skip


@pytest.mark.costly("Only type checkers show what a user's checkers say of the README and the guides.")
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"wrong"}))
def test_examples_pass_strict_type_checkers(name: str, by_mypy: Errors, by_pyright: Errors) -> None:
    assert by_mypy[name] == []
    assert by_pyright[name] == []


def test_the_pages_are_those_that_have_code() -> None:
    assert {"of_README", "of_start", "of_scikit_learn", "of_read_an_answer", "of_numbers"} <= PROGRAMS.keys()
    assert 'row["lower"] < row["mean"]' in PROGRAMS["of_README"]


@pytest.mark.costly("Only a type checker shows what a user's checker says.")
def test_a_wrong_key_of_a_row_is_an_error(by_mypy: Errors, by_pyright: Errors) -> None:
    assert '5: TypedDict "AnswerRow" has no key "meen"' in by_mypy["wrong"]
    assert len(by_pyright["wrong"]) == 1


def test_rows_have_the_keys_that_their_type_says() -> None:
    network = dc.Network.empty([dc.Variable("age", bounds=(0, 90), bins=(30,)), dc.Variable("ill", ("no", "yes"))])
    draws = dc.Dirichlet.uniform(network).draw(50, rng=1)
    told = dc.answer_many(dc.results.PosteriorDraws(draws), ["P(ill)", "E(age | ill=yes)", "MAP(age, ill)"])
    known, needed = set(dc.results.AnswerRow.__annotations__), {"state", "mean", "lower", "upper"}
    for found in told:
        assert all(needed <= set(row) <= known for row in found.rows)
    assert {name for found in told for row in found.rows for name in row} == known
