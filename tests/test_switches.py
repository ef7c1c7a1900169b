"""Which world a thing is of is asked of the thing, or of the registries, and in few places by its class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import discreet
from discreet.releases.combined import Evidence
from every_kind import CALIBRATIONS, PAYLOADS

ROOT = Path(discreet.__file__).parent
OWN_ROOMS = (
    "model",
    "releases",
    "records",
    "mechanisms",
    "discovery/mechanisms",
    "discovery/kinds",
    "discovery/records",
    "designs/mechanisms",
    "designs/kinds",
    "designs/records",
    "research/mechanisms",
    "research/kinds",
)
"""Where networks, designs, payloads, calibrations and evidence are at home: these may look at what they are."""
KINDS = {"Network", "Design", *(kind.__name__ for kind in (*CALIBRATIONS, *PAYLOADS))} | {
    kind.__name__ for kind in get_args(Evidence)
}
MOST_SWITCHES = 26
"""The places that are left; a new one is a method of the kind, or an entry of a registry."""


def names_in(node: ast.AST) -> Iterator[str]:
    """Names of classes in an expression: `Network`, `dc.kinds.NoisyCounts`, `Release | External`."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def asked(node: ast.AST) -> set[str]:
    """Kinds that an expression, or a case, asks for by their class."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        return set(names_in(node.args[1])) & KINDS
    if isinstance(node, ast.match_case):
        return {
            name for part in ast.walk(node.pattern) if isinstance(part, ast.MatchClass) for name in names_in(part.cls)
        } & KINDS
    return set()


def switches() -> list[str]:
    """Places outside the kinds' own rooms, with the kinds that they ask for."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT)
        if place.as_posix().startswith(tuple(f"{room}/" for room in OWN_ROOMS)):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if kinds := asked(node):
                line = getattr(node, "lineno", None) or node.pattern.lineno
                found.append(f"{place}:{line} {', '.join(sorted(kinds))}")
    return found


def test_few_places_ask_what_something_is() -> None:
    places = switches()
    print(*places, f"{len(places)} places", sep="\n")
    assert len(places) <= MOST_SWITCHES, places
