"""Entries of packs: domains, mechanisms, kinds of releases, readers, and checks of the audit for calibrations.

A pack names its lists under entry points of the groups "discreet.domains", of what releases can be over beside
networks, "discreet.mechanisms", "discreet.kinds", "discreet.readers", "discreet.checks", of pairs of a calibration and
its `Check`, "discreet.formats", of notations of network files, "discreet.methods", of pairs of a method that the kernel
declares and its home, and "discreet.commands", of pairs of a heading of the help and a function that Typer makes a
command of. They are loaded at the first use of a name that the package does not have.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal

Group = Literal[
    "discreet.domains",
    "discreet.mechanisms",
    "discreet.kinds",
    "discreet.readers",
    "discreet.checks",
    "discreet.formats",
    "discreet.methods",
    "discreet.commands",
]


@cache
def of_packs(group: Group) -> tuple[Any, ...]:
    """List the entries of installed packs in a group, ordered by name.

    Args:
        group: of entry points; each names a list.

    Returns:
        The items of all lists. A pack that cannot be loaded is skipped with a warning.
    """
    items: list[Any] = []
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            items += point.load()
        except Exception as error:  # a broken pack must not prevent reading releases without it
            warnings.warn(f"the pack {point.name!r} cannot be loaded for {group}: {error!r}", stacklevel=2)
    return tuple(items)
