"""Compute positions of the nodes of a drawing: rows with parents above children, few crossings, straight lines.

The method of Sugiyama, Tagawa and Toda (1981): rows by longest paths, orders by barycentres, positions by least
squares. All of a node's arcs that pass a row share one *trunk* through it, from which children branch off, so a node
with hundreds of children takes no more room than one with two. The result is deterministic.
"""

from __future__ import annotations

import math
from bisect import bisect, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import groupby, pairwise

from discreet.errors import InputError

Parents = Mapping[str, tuple[str, ...]]
Cell = tuple[str, int]
"""A node's name and a row: the node itself in its own row, its trunk in those below."""

LEAST_ROW_NODES = 8
"""Most nodes of a row in a small drawing; larger drawings allow more, to be about as wide as high."""
ORDERING_SWEEPS = 24
"""Most sweeps of ordering; the best order is used."""
PLACING_SWEEPS = 12
"""Sweeps of positioning, down and up in turn."""
MOST_DRAWN_CELLS = 2**16
"""Most nodes and pieces of trunks of a drawing: some twenty seconds. MUNIN's 1,041 nodes have 2,000 and take one."""
GAP_PIXELS, TRUNK_PIXELS = 18.0, 6.0
"""Pixels between two cells of a row, and the width of a trunk."""


@dataclass(frozen=True)
class GraphLayout:
    """Positions of a drawing.

    Args:
        rows: row of each node, from 0 at the top.
        x: middle of each cell, in pixels.
        width: of the drawing, in pixels.
    """

    rows: Mapping[str, int]
    x: Mapping[Cell, float]
    width: float

    @property
    def height(self) -> int:
        """Number of rows."""
        return max(self.rows.values()) + 1

    def branch(self, parent: str, child: str) -> Cell:
        """Return the cell above a child from which a parent's arc comes: the parent, or its trunk."""
        return parent, self.rows[child] - 1

    def trunk(self, node: str) -> list[Cell]:
        """List the cells of a node: itself, then its trunk downwards."""
        cells = [(node, self.rows[node])]
        while (below := (node, cells[-1][1] + 1)) in self.x:
            cells.append(below)
        return cells


def generations(parents: Parents) -> list[list[str]]:
    """Group nodes by the longest path that leads to them.

    Args:
        parents: of every node; without cycles.

    Example:
        >>> generations({"lung": ("smoke",), "smoke": (), "xray": ("lung",)})
        [['smoke'], ['lung'], ['xray']]
    """
    longest = dict[str, int]()
    for name in TopologicalSorter(parents).static_order():
        longest[name] = max((longest[parent] + 1 for parent in parents[name]), default=0)
    layers: list[list[str]] = [[] for _ in range(max(longest.values(), default=-1) + 1)]
    for name in parents:
        layers[longest[name]].append(name)
    return layers


def layout(parents: Parents, widths: Mapping[str, float]) -> GraphLayout:
    """Compute rows, orders and positions.

    Args:
        parents: of every node; without cycles.
        widths: of every node, in pixels.

    Returns:
        The layout; cells keep their distances, and x begins at the gap.

    Raises:
        InputError: the drawing is too large.
    """
    rows = _assign_rows(parents)
    lowest = dict(rows)
    for name, family in parents.items():
        lowest |= {parent: max(lowest[parent], rows[name] - 1) for parent in family}
    count = sum(lowest[name] - rows[name] + 1 for name in rows)
    if count > MOST_DRAWN_CELLS:
        raise InputError(
            f"a drawing of {count:,} nodes and pieces of lines exceeds {MOST_DRAWN_CELLS:,}; print it as text"
        )
    below, above = _link_cells(parents, rows)
    cells: list[list[Cell]] = [[] for _ in range(max(rows.values()) + 1)]
    for cell in {(name, rows[name]): 0 for name in parents} | dict.fromkeys(below) | dict.fromkeys(above):
        cells[cell[1]].append(cell)
    ordered = _order_rows(cells, below, above)
    sizes = {cell: widths[cell[0]] if cell[1] == rows[cell[0]] else TRUNK_PIXELS for row in ordered for cell in row}
    x = _place_cells(ordered, below, above, sizes)
    left = min(x[cell] - sizes[cell] / 2 for cell in x) - GAP_PIXELS
    right = max(x[cell] + sizes[cell] / 2 for cell in x) + GAP_PIXELS
    return GraphLayout(rows, {cell: middle - left for cell, middle in x.items()}, right - left)


# ---------------------------------------------------------------------------------------------------------------- rows


def _assign_rows(parents: Parents) -> dict[str, int]:
    """Assign a row to each node: below all its parents, near its children, no row too wide; isolated nodes last."""
    widest = max(LEAST_ROW_NODES, math.ceil(1.25 * math.sqrt(len(parents))))
    linked = {name for child, family in parents.items() if family for name in (child, *family)}
    ordered = [name for generation in generations(parents) for name in generation]
    rows = _put_below_parents([name for name in ordered if name in linked], parents, widest)
    _move_to_children(rows, parents, widest)
    used = {row: index for index, row in enumerate(sorted(set(rows.values())))}
    alone = [name for name in ordered if name not in linked]
    last = {name: len(used) + index // widest for index, name in enumerate(alone)}
    return {name: used[row] for name, row in rows.items()} | last


def _put_below_parents(names: list[str], parents: Parents, widest: int) -> dict[str, int]:
    """Put each node, after its parents, into the first row below them that has room."""
    rows, taken = dict[str, int](), Counter[int]()
    for name in names:
        row = max((rows[parent] + 1 for parent in parents[name]), default=0)
        while taken[row] >= widest:
            row += 1
        rows[name] = row
        taken[row] += 1
    return rows


def _move_to_children(rows: dict[str, int], parents: Parents, widest: int) -> None:
    """Move nodes with at least as many children as parents down as far as these and the room in rows allow."""
    taken, children = Counter(rows.values()), dict[str, list[str]]()
    for child in rows:
        for parent in parents[child]:
            children.setdefault(parent, []).append(child)
    for name in reversed(list(rows)):
        if len(children.get(name, ())) >= max(len(parents[name]), 1):
            lowest = min(rows[child] for child in children[name]) - 1
            row = next((row for row in range(lowest, rows[name], -1) if taken[row] < widest), rows[name])
            taken[rows[name]] -= 1
            taken[row] += 1
            rows[name] = row


Links = dict[Cell, list[Cell]]


def _link_cells(parents: Parents, rows: Mapping[str, int]) -> tuple[Links, Links]:
    """List the cells of the next row that each cell is joined to, and those of the row before."""
    pairs: dict[tuple[Cell, Cell], None] = {}
    for name, family in parents.items():
        for parent in family:
            for row in range(rows[parent], rows[name] - 1):
                pairs[(parent, row), (parent, row + 1)] = None
            pairs[(parent, rows[name] - 1), (name, rows[name])] = None
    below: Links = {}
    above: Links = {}
    for upper, lower in pairs:
        below.setdefault(upper, []).append(lower)
        above.setdefault(lower, []).append(upper)
    return below, above


# -------------------------------------------------------------------------------------------------------------- orders


def _order_rows(cells: list[list[Cell]], below: Links, above: Links) -> list[list[Cell]]:
    """Order the rows so that cells are near the mean of their links, with few crossings."""
    trunks = {cell for cell, links in above.items() if links[0][0] == cell[0]}
    best = current = _sweep_rows(cells, above, trunks, upwards=False)
    fewest = _count_crossings(current, below)
    for sweep in range(ORDERING_SWEEPS):
        if not fewest:
            break
        current = _sweep_rows(current, below if sweep % 2 == 0 else above, trunks, upwards=sweep % 2 == 0)
        crossings = _count_crossings(current, below)
        if crossings < fewest:
            best, fewest = current, crossings
    return best


def _sweep_rows(cells: list[list[Cell]], links: Links, trunks: set[Cell], *, upwards: bool) -> list[list[Cell]]:
    """Sort all rows but the first by the mean position of their links in the row before."""
    ordered: list[list[Cell]] = []
    position: dict[Cell, float] = {}
    for row in reversed(cells) if upwards else cells:
        wanted = {}
        for index, cell in enumerate(row):
            near = [position[near_cell] for near_cell in links.get(cell, ())]
            wanted[cell] = sum(near) / len(near) if near else (index + 0.5) / len(row)
        ties = groupby(sorted(row, key=wanted.__getitem__), key=wanted.__getitem__)
        ordered.append([cell for _, tie in ties for cell in _put_trunks_between(list(tie), trunks)])
        # Rows differ in length: a position is a fraction of its row.
        position |= {cell: (index + 0.5) / len(row) for index, cell in enumerate(ordered[-1])}
    return ordered[::-1] if upwards else ordered


def _put_trunks_between(tie: list[Cell], trunks: set[Cell]) -> list[Cell]:
    """Order tied cells: trunks in the middle, or they would drift to one side from row to row."""
    through, others = [cell for cell in tie if cell in trunks], [cell for cell in tie if cell not in trunks]
    half = len(others) // 2
    return [*others[:half], *through, *others[half:]]


def _count_crossings(cells: list[list[Cell]], below: Links) -> int:
    """Count the pairs of links that cross."""
    count = 0
    for upper, lower in pairwise(cells):
        position = {cell: index for index, cell in enumerate(lower)}
        seen: list[int] = []
        for cell in upper:
            ends = sorted(position[neighbour] for neighbour in below.get(cell, ()))
            count += sum(len(seen) - bisect(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count


# -------------------------------------------------------------------------------------------------------------- places


def _place_cells(cells: list[list[Cell]], below: Links, above: Links, sizes: Mapping[Cell, float]) -> dict[Cell, float]:
    """Compute the middle of each cell, near the mean of its links."""
    x = {cell: 0.0 for row in cells for cell in row}
    for row in cells:
        x |= _place_row(row, x, (), sizes)
    for sweep in range(PLACING_SWEEPS):
        upwards = sweep % 2 == 1
        # The last two sweeps use links on both sides.
        sides = (above, below) if sweep >= PLACING_SWEEPS - 2 else ((below,) if upwards else (above,))
        for row in reversed(cells) if upwards else cells:
            x |= _place_row(row, x, sides, sizes)
    # Nodes without arcs were never moved: they are around 0.
    linked = [x[cell] for cell in (*below, *above)] or [0.0]
    middle = (min(linked) + max(linked)) / 2
    return {cell: position if cell in below or cell in above else position + middle for cell, position in x.items()}


def _place_row(
    row: list[Cell], x: Mapping[Cell, float], sides: tuple[Links, ...], sizes: Mapping[Cell, float]
) -> dict[Cell, float]:
    """Place a row's cells near the mean of their links on some sides; cells without links stay."""
    near = [[x[neighbour] for side in sides for neighbour in side.get(cell, ())] for cell in row]
    wanted = [
        sum(positions) / len(positions) if positions else x[cell] for cell, positions in zip(row, near, strict=True)
    ]
    weights = [1.0 + len(positions) for positions in near]
    return dict(zip(row, _keep_apart(wanted, weights, [sizes[cell] for cell in row]), strict=True))


def _keep_apart(wanted: Iterable[float], weights: Iterable[float], sizes: list[float]) -> list[float]:
    """Find the positions nearest to the wanted ones, in least squares, at which cells keep order and distance.

    After subtracting the required distances, positions must not decrease: isotonic regression, by pooling neighbours.
    """
    offsets = [0.0]
    for left, right in pairwise(sizes):
        offsets.append(offsets[-1] + (left + right) / 2 + GAP_PIXELS)
    blocks: list[tuple[float, float, int]] = []
    for position, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, mass, count = position - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, heavier, more = blocks.pop()
            mean = (before * heavier + mean * mass) / (heavier + mass)
            mass, count = mass + heavier, count + more
        blocks.append((mean, mass, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
