"""What packs bring: mechanisms, kinds of releases, readers, and how the audit follows their calibrations.

A pack names its lists under entry points of the groups "discreet.mechanisms", "discreet.kinds", "discreet.readers",
"discreet.checks", of pairs of a calibration and its `Check`, and "discreet.commands", of functions that Typer makes
commands of. They are loaded when somebody first asks for more than the package's own.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal

Group = Literal["discreet.mechanisms", "discreet.kinds", "discreet.readers", "discreet.checks", "discreet.commands"]


@cache
def of_packs(group: Group) -> tuple[Any, ...]:
    """List what installed packs bring to a group, in the order of their names.

    Args:
        group: of entry points; each names a list.

    Returns:
        The items of all lists. A pack that cannot be loaded is left out, and a warning says so.
    """
    found: list[Any] = []
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            found += point.load()
        except Exception as error:  # whatever a pack does, releases without it are read
            warnings.warn(f"the pack {point.name!r} brings nothing to {group}: {error!r}", stacklevel=2)
    return tuple(found)
