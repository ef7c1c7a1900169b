"""The changelog keeps its form: versions from the newest down, entries by kind and day, every heading with something."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
from packaging.version import Version

import discreet
from folding import every

PAGE = Path(__file__).parents[1] / "CHANGELOG.md"
KINDS = ("Privacy", "Added", "Changed", "Fixed")
VERSION = re.compile(r"(?P<version>\d+\.\d+\.\d+\S*) \((?P<day>\d{4}-\d{2}-\d{2}|unreleased)\)")


def faults(text: str, current: str) -> list[str]:
    """What is wrong with the form of a changelog.

    Args:
        text: the page.
        current: the version of the package, which must be the first that the page has.

    Returns:
        A line for each fault; none of a page that keeps its form.
    """
    found: list[str] = []
    versions: list[Version] = []
    kinds: list[str] = []
    days: list[date] = []
    released: list[date] = []
    empty = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark, _, title = line.partition(" ")
        if line.startswith("#") and len(mark) > 1:
            # A heading may be followed at once by a smaller one, else there must have been an entry.
            if empty and mark.count("#") <= empty.count("#"):
                found.append(f"line {number}: nothing stands under {empty!r}")
            empty = mark
        if mark == "##":
            stated = VERSION.fullmatch(title)
            if stated is None:
                found.append(f"line {number}: expected a version and its day, or (unreleased): {title!r}")
                continue
            if stated["day"] == "unreleased":
                if versions:
                    found.append(f"line {number}: only the newest version can be unreleased")
            else:
                released.append(date.fromisoformat(stated["day"]))
                if released != sorted(released, reverse=True):
                    found.append(f"line {number}: a version above was released before this one")
            if versions and Version(stated["version"]) >= versions[-1]:
                found.append(f"line {number}: versions descend")
            versions.append(Version(stated["version"]))
            kinds, days = [], []
        elif mark == "###":
            kinds.append(title)
            days = []
            if kinds != [kind for kind in KINDS if kind in kinds]:
                found.append(f"line {number}: the headings of a version are {', '.join(KINDS)}, in this order")
        elif mark == "####":
            try:
                days.append(date.fromisoformat(title))
            except ValueError:
                found.append(f"line {number}: expected a day such as 2026-11-30: {title!r}")
            if len(set(days)) < len(days) or days != sorted(days, reverse=True):
                found.append(f"line {number}: days descend, each once under its heading")
        elif mark == "*":
            if not days:
                found.append(f"line {number}: an entry stands under the day on which it was written")
            empty = ""
    if empty:
        found.append("the last heading has nothing under it")
    if not versions or versions[0] != Version(current):
        found.append(f"the first version must be {current}, that of the package")
    return found


def test_the_changelog_keeps_its_form() -> None:
    assert faults(PAGE.read_text(encoding="utf-8"), discreet.__version__) == []


GOOD = """# Changelog

Words.

## 0.2.0 (unreleased)

### Privacy

#### 2026-12-02

* One.

#### 2026-11-30

* Two,
  over two lines.

## 0.1.0 (2026-11-29)

### Added

#### 2026-11-28

* Three.
"""


def test_a_page_of_this_form_is_accepted() -> None:
    assert faults(GOOD, "0.2.0") == []


@every(
    ("old", "new", "told"),
    [
        ("0.2.0 (unreleased)", "0.2.0", "expected a version"),
        ("0.1.0 (2026-11-29)", "0.1.0 (unreleased)", "only the newest"),
        ("0.1.0 (2026-11-29)", "0.3.0 (2026-11-29)", "versions descend"),
        ("(unreleased)", "(2026-11-01)", "released before"),
        ("### Added", "### Deprecated", "the headings of a version"),
        ("#### 2026-11-30", "#### 30.11.2026", "expected a day"),
        ("#### 2026-11-30", "#### 2026-12-03", "days descend"),
        ("#### 2026-11-30", "#### 2026-12-02", "days descend"),
        ("#### 2026-11-28\n", "", "stands under the day"),
        ("* One.\n", "", "nothing stands under"),
        ("* Three.\n", "", "the last heading"),
        ("0.2.0", "0.2.1", "the first version must be 0.2.0"),
    ],
)
def test_each_fault_is_found(old: str, new: str, told: str) -> None:
    assert old in GOOD
    assert told in "\n".join(faults(GOOD.replace(old, new), "0.2.0"))


def test_a_day_that_does_not_exist_is_no_day_of_a_version() -> None:
    with pytest.raises(ValueError, match="day"):
        faults(GOOD.replace("2026-11-29", "2026-11-31"), "0.2.0")
