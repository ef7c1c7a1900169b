"""Limits on files and texts from strangers, all stated here.

A network, schema, release or query may come from a stranger. These limits bound its cost, before memory is allocated:
both the declarations of a small text (a variable with a million states, a family of 2^28 cells) and the content of a
large one. All readers take time and memory proportional to the text, plus a constant. Networks made in memory are
bounded only by `CELLS_LIMIT` and `AXES_LIMIT` of `schema.py`.

The limits leave room for real files: MUNIN has 1,041 nodes, families of 2^20 cells are written and read, and a thousand
posterior draws of the largest classic networks are files of some 75 MB.
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
"""Bytes of a file of posterior draws: 8 GiB, four million draws of ALARM with their replicate draws."""
QUERIES_BYTES = 2**23
"""Bytes of a file of queries: 8 MiB."""
VARIABLES = 2**12
"""Variables of a network, schema or design: four times MUNIN's."""
STATES = 2**16
"""States of one variable: six times the largest coding system that is a column in practice."""
STATES_IN_ALL = 2**20
"""States of all variables together."""
STAR_DIMENSIONS = 256
"""Free numbers in a block of a star (`noise/star_noise.py`): computing its law takes a second, drawing a block some ten
milliseconds, and its variances stay within floating point."""
XML_ATTRIBUTES = 64
"""Declared attributes of the document type of an XMLBIF file: the parser checks all of them for each element. The
format has two.
"""
PARENTS = 30
"""Parents of a node: its table has an axis for each, and numpy holds 32 of them in all versions, one for draws."""
ARCS = VARIABLES * PARENTS
"""Arcs in a file of arcs: all parents of all nodes."""
NAME_CHARACTERS = 1000
"""Characters of the name of a variable, state, unit or mechanism: a question of a survey, written out."""
BUDGET_DIGITS = 5000
"""Digits of all different denominators of a document's budgets together: their sum has no more, and stays quick."""
FREE_CELLS = 2**22
"""Cells of all tables of a document beyond one for each of its characters, for priors and rows given by one number: 32
MiB. Documents of this package, which write every measured cell, never need them."""
SUMS = 2**20
"""Sums of products of a design: 1,446 features. Their list takes 100 MB."""
NESTING = 32
"""Depth of nested lists and objects of JSON: a combined release has 8."""
FIELDS = VARIABLES
"""Fields of an object of JSON: none has more than one for each variable."""
VALUES = 2**24
"""Commas of a JSON text, and so its values: checked before parsing."""
PARTS = 2**18
"""Lists and objects of a JSON text: sixty releases over MUNIN have as many."""
RELEASES = 1000
"""Releases in one combined file."""
QUERY_CHARACTERS = 2**17
"""Characters of a query: evidence on every node of MUNIN has a third of them."""
QUERIES = 10_000
"""Queries of a file."""


def at_most(limit: int, counted: Sized | int, noun: str) -> None:
    """Refuse a number above a limit.

    Args:
        limit: one of the above.
        counted: the number, or a collection.
        noun: noun for its members, such as "states of 'age'".

    Raises:
        InputError: the number exceeds the limit.

    Example:
        >>> at_most(PARENTS, ("a", "b"), "parents of 'c'")
    """
    count = counted if isinstance(counted, int) else len(counted)
    if count > limit:
        raise InputError(f"{count:,} {noun} are more than the {limit:,} allowed in a file")


def free_cells(characters: int) -> int:
    """Return the most cells of all tables of a document.

    Args:
        characters: of its text.

    Returns:
        A cell for each character, and 2^22 more.

    Example:
        >>> free_cells(100) - FREE_CELLS
        100
    """
    return FREE_CELLS + characters


def check_name(name: str, noun: str) -> None:
    """Refuse a name that is too long.

    Raises:
        InputError: it has more than 1,000 characters.
    """
    if len(name) > NAME_CHARACTERS:
        raise InputError(f"{noun} {shown(name)} has {len(name):,} characters; a name has at most {NAME_CHARACTERS:,}")


def check_states(states: Iterable[Sized]) -> None:
    """Refuse more variables or states than a file may declare.

    Args:
        states: of every variable.

    Raises:
        InputError: too many variables, states of one of them, or states in all.
    """
    total = 0
    for count, names in enumerate(states, 1):
        at_most(VARIABLES, count, "variables")
        at_most(STATES, names, "states of a variable")
        total += len(names)
        at_most(STATES_IN_ALL, total, "states of all variables")


def first_repeated(names: Iterable[Name]) -> Name | None:
    """Return the first name that occurs for a second time; None if all are different.

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
