"""The lowest versions that pyproject.toml allows, as constraints for pip: `python tests/lowest.py > constraints`.

The bounds are written in pyproject.toml alone. `make test-lowest` installs exactly them, so that a bound that does not
work is found; what they need in turn is as new as they allow. Needs no package: it runs before anything is installed.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

__all__ = ["lowest", "requirements"]

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[a-z0-9,]+\])?>=(?P<lowest>[0-9.]+)(,<[0-9.]+)?")


def requirements(pyproject: str) -> list[str]:
    """What a project asks for, with all its extras; its own name, by which an extra includes others, is left out."""
    project = tomllib.loads(pyproject)["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    return [one for one in asked if not one.startswith(f"{project['name']}[")]


def lowest(asked: list[str]) -> dict[str, str]:
    """The stated lower bound of each package.

    Args:
        asked: requirements of the form `name[extra]>=lowest` or `name[extra]>=lowest,<limit`.

    Returns:
        Bounds by name.

    Raises:
        ValueError: a requirement states none, or two of them differ.
    """
    bounds = dict[str, str]()
    for one in asked:
        stated = BOUND.fullmatch(one)
        if stated is None:
            raise ValueError(f"{one}: expected name>=lowest or name>=lowest,<limit")
        if bounds.setdefault(stated["name"], stated["lowest"]) != stated["lowest"]:
            raise ValueError(f"{stated['name']}: two lower bounds, {bounds[stated['name']]} and {stated['lowest']}")
    return bounds


if __name__ == "__main__":
    found = lowest(requirements(PYPROJECT.read_text(encoding="utf-8")))
    print("\n".join(f"{name}=={bound}" for name, bound in sorted(found.items())))
