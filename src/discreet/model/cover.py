"""Covers: few tables that together hold every family, chosen so that noise of one total budget disturbs them least.

A table of `|t|` cells from which families f of `|f|` cells are read (each from the smallest table that holds it) has

    a_t = sum over its families f of sqrt(|f| |t|),

the expected absolute error of all their cells, up to the scale of the noise in a cell of t. With budgets `~ sqrt(a_t)`
the error of all tables together is `(sum over t of sqrt(a_t))^2`, so two tables are better measured as one where
`sqrt(a_union) < sqrt(a_one) + sqrt(a_other)`. This file owns that rule; it knows sizes and sets of names alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from discreet.model.schema import Scope

__all__ = ["AXES", "clique_cover", "readers"]

Floats = npt.NDArray[np.float64]

AXES = 12
"""Most variables of a merged table: so many binary ones have 4,096 cells, and only those of one state could be more."""
DIGITS = 10
"""Decimals to which gains are compared: what is equal but for rounding is a tie, and the first pair wins it."""


def clique_cover(sizes: Mapping[str, int], families: Sequence[Scope], limit: int) -> tuple[Scope, ...]:
    """Merge families that lie in no other, always the pair that gains most, while some pair gains.

    Args:
        sizes: number of states of every variable; the order of their names is that of names in a table.
        families: all of a network.
        limit: most cells of a merged table.

    Returns:
        Sets of variables, each in the order of `sizes`; every family lies in one, and every one serves a family.
    """
    position = {name: index for index, name in enumerate(sizes)}
    sets = [frozenset(family) for family in families]
    tables = [scope for scope in dict.fromkeys(sets) if not any(scope < other for other in sets)]
    served = _readers(sizes, sets, tables)
    roots = np.array([sum(math.sqrt(_cells(sizes, family)) for family in served[scope]) for scope in tables])
    scopes = [tuple(sorted(scope, key=position.__getitem__)) for scope in _merged(sizes, tables, roots, limit)]
    scopes.sort(key=lambda scope: [position[name] for name in scope])
    # A set of two merged ones may hold what a third was made for.
    return tuple(scope for scope, read in readers(sizes, families, scopes).items() if read)


def readers(sizes: Mapping[str, int], families: Sequence[Scope], scopes: Iterable[Scope]) -> dict[Scope, list[Scope]]:
    """The families that are read from each table: every family from the smallest that holds it, the first of equals.

    Args:
        sizes: number of states of every variable.
        families: each lies in a scope.
        scopes: of the tables, without repetition.

    Returns:
        Families by scope, in their order; scopes from which none is read have an empty list.
    """
    named = {frozenset(scope): scope for scope in scopes}
    whole = {frozenset(family): family for family in families}
    found = _readers(sizes, list(whole), list(named))
    return {named[scope]: [whole[family] for family in read] for scope, read in found.items()}


def _readers(
    sizes: Mapping[str, int], families: Sequence[frozenset[str]], tables: Sequence[frozenset[str]]
) -> dict[frozenset[str], list[frozenset[str]]]:
    """The same for sets."""
    holders: dict[str, list[frozenset[str]]] = {name: [] for name in sizes}
    for scope in sorted(tables, key=lambda scope: _cells(sizes, scope)):
        for name in scope:
            holders[name].append(scope)
    found: dict[frozenset[str], list[frozenset[str]]] = {scope: [] for scope in tables}
    for family in families:
        rarest = min((holders[name] for name in family), key=len)
        found[next(scope for scope in rarest if family <= scope)].append(family)
    return found


def _merged(
    sizes: Mapping[str, int], tables: Sequence[frozenset[str]], roots: Floats, limit: int
) -> list[frozenset[str]]:
    """Greedy merging; of every table the best partner is remembered, and only what a merge may change is renewed."""
    scopes, alive = list(tables), np.ones(len(tables), np.bool_)
    holders = {name: {index for index, scope in enumerate(tables) if name in scope} for name in sizes}
    cells = np.array([float(_cells(sizes, scope)) for scope in tables])
    lengths = np.array([len(scope) for scope in tables])

    def gains(index: int) -> Floats:
        """What merging one table with each other one would save; minus infinity where it may not be merged."""
        union = cells * cells[index]
        names = len(scopes[index]) + lengths
        for name in scopes[index]:
            for other in holders[name]:
                union[other] /= sizes[name]
                names[other] -= 1
        costs = np.sqrt(np.sqrt(cells) * roots)
        saved = costs + costs[index] - np.sqrt(np.sqrt(union) * (roots + roots[index]))
        saved[(union > limit) | (names > AXES) | ~alive | (np.arange(len(tables)) == index)] = -math.inf
        return np.asarray(np.round(saved, DIGITS))

    best, partner = np.full(len(tables), -math.inf), np.zeros(len(tables), np.int64)

    def renew(index: int) -> Floats:
        """Find the best partner of a table."""
        found = gains(index)
        partner[index] = int(np.argmax(found))
        best[index] = found[partner[index]]
        return found

    for index in range(len(tables)):
        renew(index)
    while best.size and best.max() > 0:
        kept = int(np.argmax(best))
        gone = int(partner[kept])
        for name in scopes[gone]:
            holders[name].discard(gone)
            holders[name].add(kept)
        scopes[kept] |= scopes[gone]
        cells[kept], lengths[kept] = _cells(sizes, scopes[kept]), len(scopes[kept])
        roots[kept] += roots[gone]
        alive[gone], best[gone] = False, -math.inf
        found = renew(kept)
        for index in np.flatnonzero(alive & ((partner == kept) | (partner == gone))).tolist():
            renew(index)
        # The merged table knows its own gains; its partners must, too, or ties would go by the order of merging.
        better = (found > best) | ((found == best) & (kept < partner))
        better[[kept, gone]] = False
        best[better], partner[better] = found[better], kept
    return [scope for scope, there in zip(scopes, alive.tolist(), strict=True) if there]


def _cells(sizes: Mapping[str, int], names: Iterable[str]) -> int:
    """Cells of a table."""
    return math.prod(sizes[name] for name in names)
