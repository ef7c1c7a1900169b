"""Limits on files and texts that anybody may have written: the one place that states them.

A network, schema, release or query may come from a stranger. What it can make this process do is bounded here, and
checked before memory is taken: by what a small text says (a variable with a million states, a family of 2^28 cells),
and by what a large one holds. All readers take time and memory in proportion to the text, plus a constant. Networks
that a program makes in memory are bounded by `CELLS_LIMIT` and `AXES_LIMIT` of `schema.py` alone.

The limits leave room for what is in use: MUNIN has 1,041 nodes, families of 2^20 cells are written and read, and a
thousand posterior draws of the largest classic networks are files of some 75 MB.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sized
from typing import TypeVar

from discreet.errors import InputError, shown

Name = TypeVar("Name", bound=Hashable)

NETWORK_BYTES = 2**26
"""Bytes of a network (BIF, XMLBIF, arcs) or schema file, packed and unpacked: 64 MiB, ten times the largest classic
network."""
PROJECT_BYTES = 2**20
"""Bytes of a project file, which people write and edit: 1 MiB, six times MUNIN's."""
DOCUMENT_BYTES = 2**27
"""Bytes of a release or of combined releases: 128 MiB, twice a thousand draws of the largest classic network."""
DRAWS_BYTES = 2**33
"""Bytes of a file of posterior draws: 8 GiB, four million draws of ALARM with their twin draws."""
QUERIES_BYTES = 2**23
"""Bytes of a file of queries: 8 MiB."""
VARIABLES = 2**12
"""Variables of a network, schema or design: four times MUNIN's."""
STATES = 2**16
"""States of one variable: six times the largest coding system that is a column in practice."""
STATES_IN_ALL = 2**20
"""States of all variables together."""
STAR_DIMENSIONS = 256
"""Free numbers in a block of a star (`noise/star_noise.py`): its law takes a second to find, a block some ten
milliseconds to draw, and its variances stay within floating point."""
XML_ATTRIBUTES = 64
"""Attributes that the document type of an XMLBIF file declares: all of them are looked at again for each element. The
format has two."""
PARENTS = 30
"""Parents of a node: its table has an axis for each, and numpy holds 32 of them in all versions, one for draws."""
ARCS = VARIABLES * PARENTS
"""Arcs in a file of arcs: all parents of all nodes."""
NAME_CHARACTERS = 1000
"""Characters of the name of a variable, state, unit or mechanism: a question of a survey, written out."""
BUDGET_DIGITS = 5000
"""Digits of all different denominators of a document's budgets together: their sum has no more, and stays quick."""
FREE_CELLS = 2**22
"""Cells of all tables of a document beyond one for each of its characters, for priors and rows that are said in one
number: 32 MiB. What writes every measured cell, as this package does, never needs them."""
SUMS = 2**20
"""Sums of products that a design has: 1,446 features. Their list takes 100 MB."""
NESTING = 32
"""Lists and objects of JSON inside each other: a combined release has 8."""
FIELDS = VARIABLES
"""Fields of an object of JSON: none has more than one for each variable."""
VALUES = 2**24
"""Commas of a JSON text, and so its values: they are bounded before anything is made of them."""
PARTS = 2**18
"""Lists and objects of a JSON text: sixty releases over MUNIN have as many."""
RELEASES = 1000
"""Releases in one combined file."""
QUERY_CHARACTERS = 2**17
"""Characters of a query: evidence on every node of MUNIN has a third of them."""
QUERIES = 10_000
"""Queries of a file."""


def at_most(limit: int, found: Sized | int, what: str) -> None:
    """Refuse what is more than a limit.

    Args:
        limit: one of the above.
        found: how many there are, or what is counted.
        what: it is, such as "states of 'age'".

    Raises:
        InputError: there are more.

    Example:
        >>> at_most(PARENTS, ("a", "b"), "parents of 'c'")
    """
    count = found if isinstance(found, int) else len(found)
    if count > limit:
        raise InputError(f"{count:,} {what} are more than the {limit:,} that are read from a file")


def free_cells(characters: int) -> int:
    """Most cells that the tables of a document may have together.

    Args:
        characters: of its text.

    Returns:
        A cell for each character, and 2^22 more.

    Example:
        >>> free_cells(100) - FREE_CELLS
        100
    """
    return FREE_CELLS + characters


def check_name(name: str, what: str) -> None:
    """Refuse a name that is too long.

    Raises:
        InputError: it has more than 1,000 characters.
    """
    if len(name) > NAME_CHARACTERS:
        raise InputError(f"{what} {shown(name)} has {len(name):,} characters; a name has at most {NAME_CHARACTERS:,}")


def check_states(states: Iterable[Sized]) -> None:
    """Refuse more variables or states than a file may declare.

    Args:
        states: of every variable.

    Raises:
        InputError: too many variables, states of one of them, or states in all.
    """
    total = 0
    for count, part in enumerate(states, 1):
        at_most(VARIABLES, count, "variables")
        at_most(STATES, part, "states of a variable")
        total += len(part)
        at_most(STATES_IN_ALL, total, "states of all variables")


def first_repeated(names: Iterable[Name]) -> Name | None:
    """The first name that is there for a second time; None where all are different.

    Example:
        >>> first_repeated("abcb"), first_repeated("abc")
        ('b', None)
    """
    seen: set[Name] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
