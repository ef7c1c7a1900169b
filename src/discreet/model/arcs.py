"""Parse arcs from text: `smoke -> lung` in lines or chains, or CSV of two columns; check arcs over a schema.

A line is blank, a comment (`#`), a chain of names with `->` between them, or two names with a comma between them: the
parent, then the child. The first line of CSV may be a header (`from,to`, `parent,child`, `source,target`). A name may
stand in double quotes, doubled inside; one with a blank or `->` in a chain, or with a comma in CSV, has to. A text such
as `[smoke][lung|smoke]` is a model string of bnlearn: each node with its parents, which `:` separates.

The text may come from anybody: time and memory are proportional to its length (`limits.py`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from discreet.errors import InputError, shortened, shown
from discreet.model.schema import Schema, Variable
from discreet.util.limits import ARCS, NETWORK_BYTES, at_most

CSV_HEADERS = {("from", "to"), ("parent", "child"), ("source", "target")}
CHAIN_WORD = re.compile(r'\s*+(?:"(?P<quoted>(?:[^"]|"")*+)"|(?P<arrow>->)|(?P<bare>(?:(?!->)[^\s"])++))')
"""A name or an arrow in a chain."""
CSV_COLUMN = re.compile(r'\s*+(?:"(?P<quoted>(?:[^"]|"")*+)"\s*+|(?P<bare>[^,"]*+))(?P<end>,|$)')
"""A name in CSV, and the comma after it."""
MODEL_STRING = re.compile(r"(?:\s*+\[[^\[\]]*+\])++\s*+")
"""Model string of bnlearn, as `modelstring(network)` writes it in R."""
MODEL_NODE = re.compile(r"\[([^\[\]]*+)\]")
PLAIN_ARC_NAME = re.compile(r'(?:(?!->)[^\s",])++')
"""A name that needs no quotes."""


def schema_of(variables: Schema | Iterable[Variable]) -> Schema:
    """Return a schema, or make one from variables.

    Raises:
        InputError: anything else, no variable, or a name twice.
    """
    if isinstance(variables, Schema):
        return variables
    listed = tuple(variables) if isinstance(variables, Iterable) else (variables,)
    for variable in listed:
        if not isinstance(variable, Variable):
            raise InputError(f"expected a Schema or a list of Variable, got {shown(variable)} in it")
    return Schema(listed)


def parents_of(
    edges: Iterable[object], schema: Schema, locate: Callable[[int], str] = lambda index: f"edge {index + 1}"
) -> dict[str, tuple[str, ...]]:
    """List the parents of every variable; those of one node are in the order of their arcs.

    Args:
        edges: pairs (parent, child) of names.
        schema: has all names; a variable without arcs is a node without parents.
        locate: describes the location of the edge of an index, for errors.

    Returns:
        For every variable its parents, in the schema's order.

    Raises:
        InputError: an edge is no pair of names, has a name that is not in the schema, occurs twice, or leads from a
            node to itself. `Network` detects cycles.

    Example:
        >>> smoke, lung = Variable("smoke", ("no", "yes")), Variable("lung", ("no", "yes"))
        >>> parents_of([("smoke", "lung")], Schema((smoke, lung)))
        {'smoke': (), 'lung': ('smoke',)}
    """
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise InputError(f"expected pairs (parent, child), got {shown(edges)}; write [('smoke', 'lung'), ...]")
    parents: dict[str, list[str]] = {name: [] for name in schema.names}
    first: dict[tuple[str, str], int] = {}
    for index, edge in enumerate(edges):
        parent, child = _read_pair(edge, locate(index))
        for name in (parent, child):
            if name not in schema:
                raise _describe_unknown(name, schema, locate(index))
        if parent == child:
            raise InputError(f"{locate(index)}: an arc from {shown(parent)} to itself; remove it")
        before = first.setdefault((parent, child), index)
        if before != index:
            arc = f"{shown(parent)} -> {shown(child)}"
            raise InputError(f"{locate(index)}: the arc {arc} occurs twice, see {locate(before)}; remove one of them")
        parents[child].append(parent)
    return {name: tuple(listed_parents) for name, listed_parents in parents.items()}


def _read_pair(edge: object, location: str) -> tuple[str, str]:
    """Read an edge as two names."""
    # A text of two letters, or a set of two, would otherwise be read as names in some order.
    if isinstance(edge, tuple | list) and len(edge) == 2 and all(isinstance(name, str) for name in edge):
        return edge[0], edge[1]
    raise InputError(f"{location}: expected a pair (parent, child) of names, got {shown(edge)}")


def _describe_unknown(name: str, schema: Schema, location: str) -> InputError:
    """Make the error for an unknown name; the message lists the known ones."""
    try:
        schema[name]
    except InputError as error:
        return InputError(f"{location}: {error}; correct the name, or declare it in the schema")
    raise AssertionError(name)


def parents_in(text: str, schema: Schema, *, where: str) -> dict[str, tuple[str, ...]]:
    """Parse the parents of a text of arcs.

    Args:
        text: arcs; see the top of this module.
        schema: has all names.
        where: name of the text in errors, which have the number of the line.

    Returns:
        For every variable its parents, in the order of their arcs.

    Raises:
        InputError: not arcs, none at all, or not arcs over the schema; errors as in `parents_of`.

    Example:
        >>> a, b, c = (Variable(name, ("no", "yes")) for name in ("a", "b", "c 1"))
        >>> parents_in('a -> b -> "c 1"  # a chain', Schema((a, b, c)), where="text")
        {'a': (), 'b': ('a',), 'c 1': ('b',)}
        >>> parents_in("[b][a][c 1|a:b]", Schema((a, b, c)), where="text")
        {'a': (), 'b': (), 'c 1': ('a', 'b')}
    """
    at_most(NETWORK_BYTES, text, "characters of arcs")
    where = shortened(where)
    arcs: list[tuple[str, str]] = []
    lines: list[int] = []
    is_model = MODEL_STRING.fullmatch(text) is not None
    for parent, child, line in _read_model_string(text, schema, where) if is_model else _read_arcs(text, where):
        arcs.append((parent, child))
        lines.append(line)
        at_most(ARCS, arcs, "arcs")
    if not arcs and not is_model:
        raise InputError(f"{where}: no arcs; write lines such as 'smoke -> lung'")
    return parents_of(arcs, schema, lambda index: f"{where}, line {lines[index]}")


def _read_model_string(text: str, schema: Schema, where: str) -> Iterator[tuple[str, str, int]]:
    """Read parent, child and line of each arc of a model string; its nodes occur once, and are all there."""
    nodes: dict[str, tuple[tuple[str, ...], int]] = {}
    line, end = 1, 0
    for match in MODEL_NODE.finditer(text):
        line, end = line + text.count("\n", end, match.start()), match.start()
        child, _, parents = (part.strip() for part in match[1].partition("|"))
        location = f"{where}, line {line}"
        if child not in schema:
            raise _describe_unknown(child, schema, location)
        if child in nodes:
            raise InputError(f"{location}: the node {shown(child)} occurs twice in the model string; remove one")
        nodes[child] = (tuple(name.strip() for name in parents.split(":")) if parents else (), line)
    for child, (names, at) in nodes.items():
        for parent in names:
            if parent in schema and parent not in nodes:
                raise InputError(
                    f"{where}, line {at}: the model string has no node [{shortened(parent)}]; is it whole?"
                )
            yield parent, child, at


def _read_arcs(text: str, where: str) -> Iterator[tuple[str, str, int]]:
    """Read parent, child and line of each arc."""
    begun = False
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        location = f"{where}, line {number}"
        words = _split_words(line, location)
        names = _read_chain(words, location) if None in words else _read_columns(line, location)
        if not begun and None not in words and tuple(name.strip().lower() for name in names) in CSV_HEADERS:
            names = ()
        begun = True
        for parent, child in pairwise(names):
            yield parent, child, number


def _split_words(line: str, location: str) -> list[str | None]:
    """Split a line up to its comment into names, and None for each arrow."""
    words: list[str | None] = []
    line = line.rstrip()
    at = 0
    while at < len(line):
        match = CHAIN_WORD.match(line, at)
        if match is None:
            raise InputError(f'{location}: a quote that is not closed; a name with a quote in it has two: "5"" tube"')
        if (match["bare"] or "").startswith("#"):
            break
        words.append(None if match["arrow"] else _strip_quotes(match))
        at = match.end()
    return words


def _strip_quotes(match: re.Match[str]) -> str:
    """Return the matched name without its quotes."""
    quoted: str | None = match["quoted"]
    return match["bare"].rstrip() if quoted is None else quoted.replace('""', '"')


def _read_chain(words: list[str | None], location: str) -> tuple[str, ...]:
    """Read the names of a chain, separated by arrows."""
    names: list[str] = []
    for index, word in enumerate([*words, None]):
        if word is not None and index % 2:
            raise InputError(
                f"{location}: expected -> before {shown(word)}; put a name with blanks in double quotes, and each of "
                "several parents on its own line"
            )
        if word is None and index % 2 == 0:
            raise InputError(f"{location}: a name is missing beside ->; write 'smoke -> lung'")
        if word is not None:
            names.append(word)
    return tuple(names)


def _read_columns(line: str, location: str) -> tuple[str, ...]:
    """Read the two names of a line of CSV."""
    line = line.rstrip()
    names: list[str] = []
    at, more = 0, True
    while more:
        match = CSV_COLUMN.match(line, at)
        if match is None:
            raise InputError(f"{location}: a double quote inside a name; put the name in quotes, and double its own")
        names.append(_strip_quotes(match))
        at, more = match.end(), bool(match["end"])
    if len(names) != 2:
        count = "one column" if len(names) == 1 else f"{len(names)} columns"
        raise InputError(f"{location}: expected an arc, 'smoke -> lung' or two columns 'smoke,lung', got {count}")
    if not all(names):
        raise InputError(f"{location}: a name is missing beside the comma; write 'smoke,lung'")
    return names[0], names[1]


def add_conditions(parents: Mapping[str, Sequence[str]], schema: Schema) -> dict[str, tuple[str, ...]]:
    """Add an arc to each column that applies under a condition, from the column of the condition.

    Args:
        parents: of each node.
        schema: with the conditions; one on a column that is not there, or is a child already, adds no arc.

    Returns:
        Parents of each node, that of its condition last.

    Example:
        >>> dead, cause = Variable("dead", ("no", "yes")), Variable("cause", ("a", "b"), applies_if="dead = yes")
        >>> add_conditions({"dead": (), "cause": ()}, Schema((dead, cause)))
        {'dead': (), 'cause': ('dead',)}
    """
    added = {node: tuple(family) for node, family in parents.items()}
    for node, (column, _) in schema.conditions.items():
        if column not in added[node] and node not in added[column]:
            added[node] = (*added[node], column)
    return added


def quoted(name: str) -> str:
    """Write a name for a text of arcs: in double quotes if it could be misread.

    Example:
        >>> print(quoted("lung"), quoted("age group"))
        lung "age group"
    """
    if PLAIN_ARC_NAME.fullmatch(name) and not name.startswith("#"):
        return name
    return '"' + name.replace('"', '""') + '"'


def topological_order(nodes: Sequence[str], parents: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Order nodes so that parents precede children, as near as possible to their given order.

    Args:
        nodes: names.
        parents: of each node; without a cycle.

    Example:
        >>> topological_order("abcd", {"a": "d", "b": "", "c": "b", "d": "b"})
        ('b', 'c', 'd', 'a')
    """
    position = {name: index for index, name in enumerate(nodes)}
    children: dict[str, list[str]] = {name: [] for name in nodes}
    left = dict.fromkeys(nodes, 0)
    for name in nodes:
        for parent in parents[name]:
            children[parent].append(name)
            left[name] += 1
    ready, ordered = [position[name] for name, number in left.items() if not number], list[str]()
    while ready:
        ordered.append(nodes[heappop(ready)])
        for child in children[ordered[-1]]:
            left[child] -= 1
            if not left[child]:
                heappush(ready, position[child])
    return tuple(ordered)
