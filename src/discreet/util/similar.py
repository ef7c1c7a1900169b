"""Similar names: what a user may have meant by a name that is not declared.

Names that are compared are public, and so is what the user typed. No value of a record may be given to this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from discreet.errors import shown

MOST_COMPARED_NAMES = 1000
"""Most names, from the first, that an unknown name is compared with."""
MOST_COMPARED_CHARACTERS = 40
"""Most characters of a name for which similar ones are sought: the time is quadratic in its length."""


def find_similar(name: str, names: Iterable[str]) -> str | None:
    """Find the declared name that is most similar to an unknown one; one that differs in capitals or blanks first.

    Args:
        name: as the user typed it.
        names: declared.

    Returns:
        One of the names; None if none is similar, or the unknown one is long.

    Example:
        >>> find_similar("Smoke", ["somke", "smoke"]), find_similar("smok", ["lung", "smoke"]), find_similar("x", ["y"])
        ('smoke', 'smoke', None)
    """
    if len(name) > MOST_COMPARED_CHARACTERS:
        return None
    short = [word for word in islice(names, MOST_COMPARED_NAMES) if len(word) <= 2 * MOST_COMPARED_CHARACTERS]
    folded = "".join(name.split()).casefold()
    alike = next((word for word in short if "".join(word.split()).casefold() == folded), None)
    return alike or next(iter(get_close_matches(name, short, 1)), None)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Write the end of a refusal that names the most similar declared name; empty if none is similar.

    Example:
        >>> did_you_mean("smok", ["smoke"])
        "; did you mean 'smoke'?"
    """
    near = find_similar(name, names)
    return "" if near is None else f"; did you mean {shown(near)}?"
