"""The theory names code and tests that there are; every item of the papers has a state and a place in the code."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import typer.main

import discreet as dc
from discreet.cli.cli import app

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
THEORY = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
ITEMS, MENDED = PAGE.split("## What did not work once")


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of a text's tables."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if not line.startswith(("| item ", "| --- "))
    ]


ROWS = rows(ITEMS)


def found(dotted: str) -> bool:
    """Whether a dotted name is a module of the package or of the experiments, or something in one."""
    full = dotted if dotted.startswith("experiments.") else f"discreet.{dotted}"
    parts = full.split(".")
    for cut in range(len(parts), 0, -1):
        path = ROOT.joinpath("studies" if parts[0] == "experiments" else "src", *parts[:cut])
        if path.is_dir() or path.with_suffix(".py").is_file():
            thing: object = None if parts[0] == "experiments" else importlib.import_module(".".join(parts[:cut]))
            for name in parts[cut:]:
                if not hasattr(thing, name):
                    return False
                thing = getattr(thing, name)
            return True
    return False


def test_the_page_has_the_items_of_the_papers() -> None:
    assert len(ROWS) >= 95
    assert all(len(row) == 5 and all(row) for row in ROWS)
    items = " ".join(row[0] for row in ROWS)
    for kind in ("Definition", "Theorem", "Lemma", "Corollary", "Algorithm", "Equation", "Assumption"):
        assert kind in items


def test_every_item_has_a_state_and_a_false_one_its_refutation() -> None:
    for item, _, state, *_ in ROWS:
        word = re.match(r"holds|corrected|false", state)
        assert word, item
        assert word[0] != "false" or "experiments/errata.md#" in state, item


def test_links_lead_to_sections_and_pages_that_there_are() -> None:
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs/experiments/errata.md").read_text(encoding="utf-8"), re.M)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(([^)]+)\)", PAGE)
    assert len(links) > 80
    for link in links:
        path, _, anchor = link.partition("#")
        assert (ROOT / "docs" / path).is_file(), link
        assert not anchor or anchor in anchors, link


def test_names_of_modules_are_there() -> None:
    named = [name for row in ROWS for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", row[3])]
    assert len(named) > 100
    missing = [name for name in named if not found(name)]
    assert missing == []
    assert not found("reporting.explain.nothing") and not found("theory.nothing") and found("experiments.d_ind")


COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
CALL = re.compile(r"`dc\.([\w.]+)(?:\(([^`]*)\))?`")
COMMAND = re.compile(r"`discreet (\w+)([^`]*)`")


def unreachable(cell: str) -> list[str]:
    """Calls and commands of a cell that an installed package does not have, with arguments or options it does not take.

    An attribute counts if the package's lists of names have it, or a class or module that they name.
    """
    missing = list[str]()
    for dotted, arguments in CALL.findall(cell):
        thing: Any = dc
        for name in dotted.split("."):
            thing = getattr(thing, name, None) if name in dir(thing) else None
        known = [] if thing is None else [*inspect.signature(thing).parameters]
        if thing is None or not set(re.findall(r"(\w+)=", arguments)) <= {*known}:
            missing.append(f"dc.{dotted}({arguments})")
    for name, rest in COMMAND.findall(cell):
        options = [each for part in getattr(COMMANDS.get(name), "params", ()) for each in part.opts]
        if name not in COMMANDS or not set(re.findall(r"--[\w-]+", rest)) <= {*options}:
            missing.append(f"discreet {name}{rest}")
    return missing


def test_every_item_is_reached_by_a_call_or_command_that_is_there() -> None:
    """Of an installed package: `experiments` is not in it."""
    for item, *_, cell in ROWS:
        assert CALL.search(cell) or COMMAND.search(cell), item
        assert "experiments." not in cell and "wheel" not in cell, item
        assert unreachable(cell) == [], item
    assert sum(len(CALL.findall(row[4])) for row in ROWS) > 110
    assert sum(len(COMMAND.findall(row[4])) for row in ROWS) > 25


def test_every_call_of_the_page_is_made_in_a_test() -> None:
    texts = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))
    names = {dotted.rpartition(".")[2] for row in ROWS for dotted, _ in CALL.findall(row[4])}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\(", texts)] == []
    assert not re.search(r"\bfourier_deviations\(", texts) and len(names) > 50


def test_each_item_that_did_not_work_has_a_test_that_there_is() -> None:
    mended = rows(MENDED)
    assert len(mended) == 13 + 5 and "48 of 66" in MENDED
    for item, *_, cell in mended:
        path, _, name = cell.strip("`").partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), item


def test_a_call_that_is_not_there_is_found() -> None:
    wrong = "`dc.explain(release, priors=own)`, `dc.research.nothing`, `discreet explain --priors`, `discreet explains`"
    assert len(unreachable(wrong)) == 4
    assert (
        unreachable("`dc.explain(release, prior=own)`, `dc.decisions.decide_vector`, `discreet explain --prior`") == []
    )


def test_every_section_of_the_theory_names_its_source_its_code_and_its_tests() -> None:
    sections = re.split(r"^## ", THEORY, flags=re.MULTILINE)[1:]
    assert [int(section.split(".")[0]) for section in sections] == list(range(1, 21))
    for section in sections[:-1]:
        told = re.search(r"\*Source\.\*(.*)\*Code\.\*(.*)\*Tests\.\*(.*)", section, re.DOTALL)
        assert told, section[:40]
        named, tests = re.findall(r"`([\w.]+)`", told[2]), re.findall(r"`(tests/[\w/]+\.py)`", told[3])
        assert named and tests, section[:40]
        assert [name for name in named if not found(name)] == []
        assert [path for path in tests if not (ROOT / path).is_file()] == []


def test_links_of_the_theory_lead_to_sections_and_pages_that_there_are() -> None:
    links = re.findall(r"\]\(([^)]+)\)", THEORY)
    assert len(links) > 30
    for link in links:
        path, _, anchor = link.partition("#")
        page = ROOT / "docs" / path
        assert page.is_file(), link
        headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, link
