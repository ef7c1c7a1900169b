"""Decision records are numbered without gaps, have the same headings, and stand in their index."""

from __future__ import annotations

import re
from datetime import date

from folding import every
from makefile import ROOT

FOLDER = ROOT / "docs/decisions"
RECORDS = sorted(path.name for path in FOLDER.glob("*.md") if path.name != "README.md")
HEADINGS = ["Context", "Decision", "Consequences", "What would change our mind"]
STATUS = r"proposed|accepted|superseded by \d+"
HEAD = re.compile(
    rf"# (?P<number>\d+)\. (?P<title>.+)\n\nDate: (?P<date>\d{{4}}-\d\d-\d\d)\n\nStatus: (?P<status>{STATUS})\n\n"
)
LONGEST = 60
"""Lines of a record: it is a page."""


def head(name: str) -> re.Match[str]:
    """Number, title, date and status of a record."""
    found = HEAD.match((FOLDER / name).read_text(encoding="utf-8"))
    assert found is not None, (
        f"{name}: expected '# N. Title', 'Date: YYYY-MM-DD' and 'Status: ...', a blank line between"
    )
    return found


def test_the_numbers_have_no_gaps() -> None:
    assert [name[:5] for name in RECORDS] == [f"{number:04d}-" for number in range(1, len(RECORDS) + 1)]
    assert len(RECORDS) >= 10


@every("name", RECORDS)
def test_a_record_keeps_the_form(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    found = head(name)
    assert int(found["number"]) == int(name[:4])
    date.fromisoformat(found["date"])
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert all(part.strip() for part in re.split(r"^## .*$", text, flags=re.MULTILINE))
    assert text.count("\n") <= LONGEST
    superseded = re.fullmatch(r"superseded by (\d+)", found["status"])
    assert superseded is None or int(found["number"]) < int(superseded[1]) <= len(RECORDS)


def test_the_index_has_each_record_as_it_is() -> None:
    heads = [(head(name), name) for name in RECORDS]
    rows = [f"| {one['number']} | [{one['title']}]({name}) | {one['date']} | {one['status']} |" for one, name in heads]
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [line for line in index.splitlines() if re.match(r"\| \d", line)] == rows
