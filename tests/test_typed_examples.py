"""The README's example passes mypy by its strictest rules and pyright, as whoever copies it would see it."""

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


def checked(text: str, folder: Path) -> str:
    """What mypy says of a program, by the project's own strict rules; empty where it finds nothing."""
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-error-summary", str(path)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout


def errors_by_pyright(text: str, folder: Path) -> list[str]:
    """What pyright calls errors in a program, by its standard rules."""
    path, config = folder / "program.py", folder / "pyrightconfig.json"
    path.write_text(text, encoding="utf-8")
    config.write_text('{"typeCheckingMode": "standard"}', encoding="utf-8")
    command = [Path(sys.executable).with_name("basedpyright"), "--outputjson", "--pythonpath", sys.executable]
    printed = subprocess.run([*command, "-p", folder], capture_output=True, text=True, check=False).stdout
    report = json.loads(printed)
    assert report["summary"]["filesAnalyzed"] == 1
    return [line["message"] for line in report["generalDiagnostics"] if line["severity"] == "error"]


@pytest.mark.costly("Only type checkers show what a user's checkers say of the README.")
def test_the_readme_passes_strict_type_checkers(tmp_path: Path) -> None:
    text = example(ROOT / "README.md")
    assert 'row["lower"] < row["mean"]' in text
    assert checked(text, tmp_path) == ""
    assert errors_by_pyright(text, tmp_path) == []


@pytest.mark.costly("Only a type checker shows what a user's checker says.")
def test_rows_of_answers_have_the_types_of_what_they_hold(tmp_path: Path) -> None:
    assert checked(EVERY_NUMBER, tmp_path) == ""
    assert 'TypedDict "AnswerRow" has no key "meen"' in checked(WRONG, tmp_path)
    assert errors_by_pyright(EVERY_NUMBER, tmp_path) == []
    assert len(errors_by_pyright(WRONG, tmp_path)) == 1


def test_rows_have_the_keys_that_their_type_says() -> None:
    network = dc.Network.empty([dc.Variable("age", bounds=(0, 90), bins=(30,)), dc.Variable("ill", ("no", "yes"))])
    draws = dc.Dirichlet.uniform(network).draw(50, rng=1)
    told = dc.answer_many(dc.results.PosteriorDraws(draws), ["P(ill)", "E(age | ill=yes)", "MAP(age, ill)"])
    known, needed = set(dc.results.AnswerRow.__annotations__), {"state", "mean", "lower", "upper"}
    for found in told:
        assert all(needed <= set(row) <= known for row in found.rows)
    assert {name for found in told for row in found.rows for name in row} == known
