"""Pictures and tables of the guides: they are what their numbers make of them, and these are those of the theory."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from bench.guide_pictures import FOLDER, PICTURES, PLANNED, PLANNED_EPSILONS
from discreet.reporting.explain import least_misses, moved_belief

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def rows_of(page: str, *, first: str) -> list[list[str]]:
    """Cells of the table whose heading begins with these words."""
    lines = (GUIDES / page).read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def number(text: str) -> float:
    return float(re.sub(r"[,%]", "", text))


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_numbers_make_of_it(name: str) -> None:
    """`python -m bench.guide_pictures` writes them again."""
    assert (FOLDER / name).read_text(encoding="utf-8") == PICTURES[name] + "\n"


def test_all_pictures_stand_in_a_guide() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in GUIDES.glob("*.md"))
    for name in PICTURES:
        assert f"(../pictures/{name})" in pages, name


def test_beliefs_are_those_of_bayes() -> None:
    rows = rows_of("which-epsilon.md", first="epsilon")
    assert len(rows) == 8
    for epsilon, *told in rows:
        nats = float(epsilon)
        wanted = [
            value
            for times in (1, 2)
            for value in (math.exp(times * nats), *(100 * moved_belief(p, times * nats) for p in (0.01, 0.5)))
        ]
        for cell, value in zip(told, wanted, strict=True):
            assert number(cell) == pytest.approx(value, rel=6e-3), (epsilon, cell)


def test_planned_widths_are_those_of_the_picture() -> None:
    rows = rows_of("which-epsilon.md", first="records")
    assert {int(number(records)): tuple(map(float, widths)) for records, *widths in rows} == PLANNED
    assert all(len(widths) == len(PLANNED_EPSILONS) for widths in PLANNED.values())


def test_what_the_best_attack_finds_is_said_as_it_is() -> None:
    page = (GUIDES / "how-private.md").read_text(encoding="utf-8")
    at_one, at_three = (1 - least_misses(0.01, epsilon, 0.0) for epsilon in (1.0, 3.0))
    told = f"At 1 it finds {100 * at_one:.1f} % of them at 1 % false alarms, and at 3 it finds {100 * at_three:.0f} %."
    assert told in " ".join(page.split())
