"""The changelog keeps its form: versions from the newest down, entries by kind and day, no heading for nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from packaging.version import Version

import discreet
from folding import every

PAGE = Path(__file__).parents[1] / "CHANGELOG.md"
KINDS = ("Privacy", "Added", "Changed", "Fixed")
VERSION = re.compile(r"(?P<version>\d+\.\d+\.\d+\S*) \((?P<day>\d{4}-\d{2}-\d{2}|unreleased)\)")


@dataclass
class Reading:
    """A changelog as far as it was read: what stood in it, and what was wrong."""

    versions: list[Version] = field(default_factory=list)
    released: list[date] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    days: list[date] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def version(self, title: str) -> None:
        """A heading of a version."""
        stated = VERSION.fullmatch(title)
        if stated is None:
            self.found.append(f"expected a version and its day, or (unreleased): {title!r}")
            return
        if self.versions and Version(stated["version"]) >= self.versions[-1]:
            self.found.append(f"versions descend: {title!r}")
        if stated["day"] == "unreleased" and self.versions:
            self.found.append(f"only the newest version can be unreleased: {title!r}")
        if stated["day"] != "unreleased":
            self.day(stated["day"], self.released)
        self.versions.append(Version(stated["version"]))
        self.kinds, self.days = [], []

    def kind(self, title: str) -> None:
        """A heading of a kind of changes."""
        self.kinds.append(title)
        self.days = []
        if self.kinds != [kind for kind in KINDS if kind in self.kinds]:
            self.found.append(f"the headings of a version are {', '.join(KINDS)}, in this order: {title!r}")

    def day(self, title: str, days: list[date]) -> None:
        """A day, and those that came before it on the page."""
        try:
            days.append(date.fromisoformat(title))
        except ValueError:
            self.found.append(f"expected a day such as 2026-11-30: {title!r}")
        if len(set(days)) < len(days) or days != sorted(days, reverse=True):
            self.found.append(f"days descend: {title!r}")

    def entry(self, title: str) -> None:
        """A change."""
        if not self.days:
            self.found.append(f"an entry stands under its day: {title!r}")


def faults(text: str, current: str) -> list[str]:
    """What is wrong with the form of a changelog.

    Args:
        text: the page.
        current: the version of the package, which must be the first that the page has.

    Returns:
        A line for each fault; none of a page that keeps its form.
    """
    reading = Reading()
    read = {
        "##": reading.version,
        "###": reading.kind,
        "####": lambda title: reading.day(title, reading.days),
        "*": reading.entry,
    }
    lines = [line.split(" ", 1) for line in text.splitlines() if line.startswith(("##", "* "))]
    for mark, title in lines:
        read[mark](title)
    # A heading is followed by a smaller one or by an entry.
    depths = [9 if mark == "*" else len(mark) for mark, _ in lines]
    for (_, title), depth, following in zip(lines, depths, [*depths[1:], 0], strict=True):
        if depth < 9 and following <= depth:
            reading.found.append(f"nothing stands under {title!r}")
    if reading.versions[:1] != [Version(current)]:
        reading.found.append(f"the first version must be {current}, that of the package")
    return reading.found


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
        ("(unreleased)", "(2026-11-01)", "days descend"),
        ("2026-11-29", "2026-11-31", "expected a day"),
        ("### Added", "### Deprecated", "the headings of a version"),
        ("#### 2026-11-30", "#### 30.11.2026", "expected a day"),
        ("#### 2026-11-30", "#### 2026-12-03", "days descend"),
        ("#### 2026-11-30", "#### 2026-12-02", "days descend"),
        ("#### 2026-11-28\n", "", "stands under its day"),
        ("* One.\n", "", "nothing stands under"),
        ("* Three.\n", "", "nothing stands under"),
        ("0.2.0", "0.2.1", "the first version must be 0.2.0"),
    ],
)
def test_each_fault_is_found(old: str, new: str, told: str) -> None:
    assert old in GOOD
    assert told in "\n".join(faults(GOOD.replace(old, new), "0.2.0"))
