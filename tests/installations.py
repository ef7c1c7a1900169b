"""What distributions need, and where they lie."""

from __future__ import annotations

from importlib.metadata import distribution, requires
from pathlib import Path

import pytest

__all__ = ["all_needed", "folders_of"]


def all_needed(names: set[str]) -> set[str]:
    """Distributions, and those that they ask for without an extra."""
    found, left = set[str](), set(names)
    requirements = pytest.importorskip("packaging.requirements", reason="packaging is not installed (the dev extra)")
    while left:
        name = left.pop()
        found.add(name)
        for text in requires(name) or []:
            one = requirements.Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                left |= {one.name.lower().replace("_", "-")} - found
    return found


def folders_of(name: str) -> set[Path]:
    """The files and folders beside others' that a distribution has installed; scripts are not among them."""
    held = distribution(name)
    tops = {path.parts[0] for path in held.files or [] if path.parts[0] not in ("..", "__pycache__")}
    return {Path(str(held.locate_file(top))) for top in tops}
