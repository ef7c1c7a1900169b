"""Content of a network file, and what a pack registers for each notation of such files.

The kernel knows no notation but its own project file: packs list theirs under the group of entry points
"discreet.formats", and `network_files.py` asks them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from discreet.model.schema import Variable
from discreet.util.arrays import Floats


@dataclass(frozen=True, eq=False)
class NetworkContent:
    """Content of a network file; `Network` checks its arcs.

    Args:
        variables: in the order of the file.
        parents: of every variable.
        arrays: probabilities of every variable whose block has entries, float64, axes `(*parents, child)`.
        name: of the network.
        properties: lines of the network block.
        notes: what the reader changed or took for granted, each in a line with its place; users are warned of it.
    """

    variables: tuple[Variable, ...]
    parents: Mapping[str, tuple[str, ...]]
    arrays: Mapping[str, Floats]
    name: str = "unknown"
    properties: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class NetworkParser(Protocol):
    """Parse the text of a network file; `where` is its name in errors, which are one line with the place."""

    def __call__(self, text: str, *, where: str) -> NetworkContent:
        """Return the content, or raise InputError."""
        ...


def find_no_names(content: NetworkContent) -> tuple[str, ...]:
    """List the names that readers of a notation may misread: none."""
    return ()


@dataclass(frozen=True)
class NetworkFormat:
    """A notation of network files.

    Args:
        name: for options and errors, such as "bif".
        endings: of file names, without `.gz`; the first is that of the notation itself.
        begins: True for a text that begins like this notation and like no other that is listed after it.
        read: parses structure and probabilities.
        read_structure: parses variables and parents alone, and never fails on a number of a table.
        write: makes the text; None if this notation is only read.
        odd_names: lists names that other programs misread in this notation.
        plain_names: replaces them; None if names are never replaced.
    """

    name: str
    endings: tuple[str, ...]
    begins: Callable[[str], bool]
    read: NetworkParser
    read_structure: NetworkParser
    write: Callable[[NetworkContent], str] | None = None
    odd_names: Callable[[NetworkContent], tuple[str, ...]] = find_no_names
    plain_names: Callable[[NetworkContent], NetworkContent] | None = None
